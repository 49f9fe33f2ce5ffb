/* A file in memory that gives its bytes in steps, and what its records look like as text. */
#ifndef DF_TEST_IMPORTS_MEMORY_H
#define DF_TEST_IMPORTS_MEMORY_H

#include "base/buf.h"
#include "tabular/records.h"

struct memory_file {
    struct df_str bytes;
    size_t step;
    enum df_code fail; /* instead of the end */
};

static inline enum df_code memory_read(void *arg, uint64_t offset, char *ptr, size_t len,
                                       size_t *ret_len, struct df_err *err)
{
    const struct memory_file *m = arg;

    if (offset >= m->bytes.len && m->fail != DF_OK)
        return df_err_set(err, m->fail, "the disk is gone");
    size_t left = offset < m->bytes.len ? m->bytes.len - (size_t)offset : 0;
    if (len > left)
        len = left;
    if (len > m->step)
        len = m->step;
    if (len > 0)
        memcpy(ptr, m->bytes.ptr + offset, len);
    *ret_len = len;
    return DF_OK;
}

static inline struct df_bytes memory_bytes(struct memory_file *m)
{
    return (struct df_bytes){memory_read, m, m->bytes.len};
}

/* name=value; of each field (numbers, booleans and JSON in brackets), a record a line. */
static inline void record_text(const struct df_record *record, struct df_buf *out)
{
    for (size_t i = 0; i < record->count; i++) {
        const struct df_field *f = &record->fields[i];
        bool text = f->kind == DF_FIELD_TEXT;
        df_buf_adds(out, f->name);
        df_buf_addz(out, text ? "=" : "=<");
        df_buf_adds(out, f->text);
        df_buf_addz(out, text ? ";" : ">;");
    }
    df_buf_addc(out, '\n');
}

#endif
