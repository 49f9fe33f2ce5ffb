/*
 * CSV files from anybody, read twice: the bytes come in pieces of another size the second time,
 * which must not change what is read. What is read keeps the promises of records.h.
 */
#include "base/buf.h"
#include "tabular/records.h"

#include <stdlib.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            abort();                                                                               \
    } while (0)

#define FIELDS_MAX 40
#define RECORD_MAX 3000

struct input {
    struct df_str bytes;
    size_t step;
};

static enum df_code read_input(void *arg, uint64_t offset, char *ptr, size_t len, size_t *ret_len,
                               struct df_err *err)
{
    const struct input *in = arg;
    size_t left = offset < in->bytes.len ? in->bytes.len - (size_t)offset : 0;
    (void)err;

    len = len < left ? len : left;
    len = len < in->step ? len : in->step;
    if (len > 0)
        memcpy(ptr, in->bytes.ptr + offset, len);
    *ret_len = len;
    return DF_OK;
}

static void check_record(const struct df_record *record, struct df_buf *out)
{
    CHECK(record->count <= FIELDS_MAX);
    for (size_t i = 0; i < record->count; i++) {
        const struct df_field *f = &record->fields[i];
        CHECK(f->kind == DF_FIELD_TEXT && f->text.len > 0 && f->name.len > 0);
        CHECK(df_utf8_valid_prefix(f->text) == f->text.len);
        CHECK(df_utf8_valid_prefix(f->name) == f->name.len);
        CHECK(!memchr(f->text.ptr, '\0', f->text.len));
        for (size_t k = 0; k < i; k++)
            CHECK(!df_str_eq(f->name, record->fields[k].name));
        df_buf_adds(out, f->name);
        df_buf_addc(out, '\0');
        df_buf_adds(out, f->text);
        df_buf_addc(out, '\0');
    }
    df_buf_addc(out, '\n');
}

static enum df_code read_all(struct df_str bytes, size_t step, struct df_buf *out)
{
    struct input in = {bytes, step};
    struct df_bytes file = {read_input, &in, bytes.len};
    struct df_records_options opt = {
        .limits = {.max_fields = FIELDS_MAX, .max_record_bytes = RECORD_MAX, .max_records = 1000}};
    struct df_err err = DF_ERR_INIT;
    struct df_records *r;
    struct df_record record;

    enum df_code rc = df_csv_records_open(&file, &opt, &r, &err);
    CHECK(rc == DF_OK);
    while ((rc = r->ops->next(r, &record, &err)) == DF_ROW)
        check_record(&record, out);
    CHECK(rc == DF_DONE || err.detail[0]);
    r->ops->free(r);
    df_buf_addz(out, df_code_name(rc));
    df_buf_addz(out, err.detail);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct df_buf whole, pieces;

    if (size == 0)
        return 0;
    df_buf_init(&whole, 64 << 20);
    df_buf_init(&pieces, 64 << 20);
    struct df_str bytes = df_str_n((const char *)data + 1, size - 1);
    read_all(bytes, SIZE_MAX, &whole);
    read_all(bytes, 1 + (data[0] & 15), &pieces);
    CHECK(df_str_eq(df_buf_str(&whole), df_buf_str(&pieces)));
    df_buf_release(&whole);
    df_buf_release(&pieces);
    return 0;
}
