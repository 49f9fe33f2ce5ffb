/*
 * The shared strings of a workbook. Up to memory_bytes of texts and their index stay in memory; the
 * strings after that go to two unnamed files in temp_dir and are read back through a small cache of
 * blocks, which works because cells use strings roughly in the order of the table. One thread at a
 * time.
 */
#ifndef DF_TABULAR_XLSX_STRINGS_H
#define DF_TABULAR_XLSX_STRINGS_H

#include "base/buf.h"
#include "tabular/xlsx_zip.h"

#define DF_STRINGS_MEMORY (12U << 20)

struct df_strings;

struct df_strings_options {
    size_t memory_bytes; /* 0: DF_STRINGS_MEMORY */
    uint64_t max_bytes;  /* of texts, and 8 for each: a larger table is refused */
    size_t max_string_bytes;
    const char *temp_dir;
    bool strict; /* only libxml2 reads: for the tests */
};

/* Reads the whole part. */
enum df_code df_strings_load(const struct df_zip *zip, const struct df_zip_entry *entry,
                             const struct df_strings_options *opt, struct df_strings **ret,
                             struct df_err *err) DF_MUST_CHECK;
void df_strings_free(struct df_strings *t);

/* A cell that shows nothing. */
static inline bool df_cell_is_blank(struct df_str s)
{
    return s.len == 0 || ((unsigned char)s.ptr[0] <= ' ' && df_str_trim(s).len == 0);
}

uint64_t df_strings_count(const struct df_strings *t);

/* The table is larger than the processor's cache: prefetch all strings of a row, then get them. */
void df_strings_prefetch(const struct df_strings *t, uint64_t index);

/* The string at index, which is less than the count. It is valid as long as the table, or until the
 * next call if it comes from disk (*ret_stays false). A blank string is empty. */
enum df_code df_strings_get(struct df_strings *t, uint64_t index, struct df_str *ret,
                            bool *ret_stays, struct df_err *err) DF_MUST_CHECK;

/* Whether s may contain an escape for df_xstring_decode. */
static inline bool df_xstring_escaped(struct df_str s)
{
    const char *p = s.ptr, *end = p + s.len;
    while (end - p >= 7 && (p = memchr(p, '_', (size_t)(end - p) - 6))) {
        if (p[1] == 'x')
            return true;
        p++;
    }
    return false;
}

/* Replaces each _xHHHH_ in the buffer from `from` on by its character. Strings write control
 * characters that way. */
void df_xstring_decode(struct df_buf *b, size_t from);

#endif
