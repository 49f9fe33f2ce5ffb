/*
 * A mapping from anybody, and a record that is read by it: the first line is the mapping, the rest
 * the file. A mapping that is taken says the same when it is written and read again; and whatever
 * it says, the item of a record is one JSON object under the limits, the same every time.
 */
#include "tabular/normalise.h"
#include "json/doc.h"
#include "json/scan.h"

#include <stdlib.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            abort();                                                                               \
    } while (0)

static enum df_code read_input(void *arg, uint64_t offset, char *ptr, size_t len, size_t *ret_len,
                               struct df_err *err)
{
    const struct df_str *in = arg;
    size_t left = offset < in->len ? in->len - (size_t)offset : 0;
    (void)err;

    *ret_len = len < left ? len : left;
    if (*ret_len > 0)
        memcpy(ptr, in->ptr + offset, *ret_len);
    return DF_OK;
}

static void told(void *arg, struct df_str name, const char *what)
{
    (void)name;
    CHECK(what && what[0]);
    ++*(size_t *)arg;
}

static void check_written(struct df_arena *a, const struct df_mapping *m)
{
    struct df_err err = DF_ERR_INIT;
    struct df_mapping *again;
    struct df_json_out out;
    struct df_buf text;

    df_buf_init(&text, 4 * DF_MAPPING_BYTES);
    df_json_out_init(&out, &text);
    df_mapping_write(m, &out);
    CHECK(!df_buf_failed(&text));
    CHECK(df_mapping_load(a, df_buf_str(&text), &again, &err) == DF_OK);
    CHECK(again->count == m->count && again->has_paths == m->has_paths);
    for (size_t i = 0; i < m->count; i++) {
        CHECK(df_str_eq(again->entries[i].source, m->entries[i].source));
        CHECK(again->entries[i].header == m->entries[i].header);
        CHECK(df_mapping_find(m, m->entries[i].source));
    }
    df_buf_release(&text);
}

static void run(struct df_str bytes, const struct df_mapping *m, struct df_buf *out)
{
    struct df_bytes file = {read_input, &bytes, bytes.len};
    struct df_normalise_options opt = {.mapping = m};
    struct df_records *r;
    struct df_record record;
    struct df_err err = DF_ERR_INIT;
    bool json = bytes.len > 0 && (bytes.ptr[0] == '[' || bytes.ptr[0] == '{');

    if ((json ? df_json_records_open : df_csv_records_open)(&file, NULL, &r, &err) != DF_OK)
        return;
    struct df_normaliser *n = df_normaliser_new(&opt);
    for (int64_t i = 0; i < 100 && r->ops->next(r, &record, &err) == DF_ROW; i++) {
        enum df_item_verdict verdict;
        struct df_str reason = DF_STR_NULL;
        size_t before = out->len;
        CHECK(df_normalise(n, &record, i, out, &verdict, &reason, &err) == DF_OK);
        CHECK((verdict == DF_ITEM_SEND) == (reason.ptr == NULL));
        CHECK(verdict == DF_ITEM_SEND || df_normaliser_code(n)[0]);
        struct df_str item = df_str_n(out->ptr + before, out->len - before);
        CHECK(item.len <= 1 << 20);
        CHECK(df_json_check(item, DF_JSON_UNIQUE_KEYS, DF_JSON_DEPTH - 2, &err) == DF_OK);
    }
    df_normaliser_free(n);
    r->ops->free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct df_str first, rest = df_str_cut(df_str_n((const char *)data, size), '\n', &first);
    struct df_arena arena = {0};
    struct df_err err = DF_ERR_INIT;
    const struct df_json *object;
    struct df_buf one, two;
    size_t problems = 0;

    if (df_json_parse(&arena, first, &object, &err) == DF_OK) {
        struct df_mapping *m =
            df_mapping_read(&arena, object, (struct df_mapping_problems){told, &problems});
        CHECK((m == NULL) == (problems > 0));
        if (m) {
            check_written(&arena, m);
            df_buf_init(&one, 64 << 20);
            df_buf_init(&two, 64 << 20);
            run(rest, m, &one);
            run(rest, m, &two);
            CHECK(df_str_eq(df_buf_str(&one), df_buf_str(&two)));
            df_buf_release(&one);
            df_buf_release(&two);
        }
    }
    df_arena_release(&arena);
    return 0;
}
