/*
 * Records of JSON and CSV files from anybody as items. Whatever the record, the item is one JSON
 * object without line breaks whose names are unique, under the limits; what is sent has a phone in
 * E.164; and the same file gives the same items again. The input by itself is a phone, too.
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

static void check_phone(struct df_str s)
{
    CHECK(s.len >= 8 && s.len <= 16 && s.ptr[0] == '+' && s.ptr[1] >= '1' && s.ptr[1] <= '9');
    for (size_t i = 1; i < s.len; i++)
        CHECK(s.ptr[i] >= '0' && s.ptr[i] <= '9');
}

static void check_item(struct df_str text, enum df_item_verdict verdict, int64_t sequence)
{
    static const char *const names[] = {"sequence", "PhoneNumber", "Origin", "PropertyContextJson",
                                        "LeadContextJson"};
    struct df_arena arena = {0};
    struct df_err err = DF_ERR_INIT;
    const struct df_json *item;
    int64_t got = -1;

    CHECK(text.len <= 1 << 20 && !memchr(text.ptr, '\n', text.len));
    CHECK(df_json_parse(&arena, text, &item, &err) == DF_OK);
    CHECK(df_json_check(text, 0, DF_JSON_DEPTH - 2, &err) == DF_OK); /* as a request carries it */
    CHECK(item->type == DF_JSON_OBJECT && df_str_starts(text, DF_STR("{\"sequence\":")));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        CHECK(df_json_get(item, names[i]));
    CHECK(df_json_to_i64(df_json_get(item, "sequence"), &got) && got == sequence);
    if (verdict == DF_ITEM_SEND)
        check_phone(df_json_get(item, "PhoneNumber")->text);
    df_arena_release(&arena);
}

static void run(struct df_str bytes, bool csv, struct df_buf *out)
{
    struct df_bytes file = {read_input, &bytes, bytes.len};
    struct df_normalise_options opt = {.origin_default = DF_STR_INIT(" a  b ")};
    struct df_records *r;
    struct df_record record;
    struct df_err err = DF_ERR_INIT;
    int64_t sequence = 0;

    if ((csv ? df_csv_records_open : df_json_records_open)(&file, NULL, &r, &err) != DF_OK)
        return;
    struct df_normaliser *n = df_normaliser_new(&opt);
    while (sequence < 1000 && r->ops->next(r, &record, &err) == DF_ROW) {
        enum df_item_verdict verdict;
        struct df_str reason = DF_STR_NULL;
        size_t before = out->len;
        CHECK(df_normalise(n, &record, sequence, out, &verdict, &reason, &err) == DF_OK);
        CHECK((verdict == DF_ITEM_SEND) == (reason.ptr == NULL));
        check_item(df_str_n(out->ptr + before, out->len - before), verdict, sequence++);
    }
    df_normaliser_free(n);
    r->ops->free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct df_str input = df_str_n((const char *)data, size);
    struct df_buf first, again;
    char phone[17];
    const char *why = NULL;

    if (size == 0)
        return 0;
    if (df_phone_normalise(input, phone, &why))
        check_phone(df_str_c(phone));
    else
        CHECK(why && why[0]);
    bool csv = data[0] != '[' && data[0] != '{';
    df_buf_init(&first, 256 << 20);
    df_buf_init(&again, 256 << 20);
    run(input, csv, &first);
    run(input, csv, &again);
    CHECK(df_str_eq(df_buf_str(&first), df_buf_str(&again)));
    df_buf_release(&first);
    df_buf_release(&again);
    return 0;
}
