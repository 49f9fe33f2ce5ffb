/*
 * The table of shared strings of a workbook. Up to memory_bytes of texts and their index are held
 * in memory; what comes after goes to two files without a name in temp_dir, and comes back through
 * a small cache of blocks: cells name strings in the order in which they appeared, or near it. One
 * thread at a time.
 */
#ifndef DF_IMPORTS_XLSX_STRINGS_H
#define DF_IMPORTS_XLSX_STRINGS_H

#include "base/buf.h"
#include "tabular/xlsx_zip.h"

#define DF_STRINGS_MEMORY (12U << 20)

struct df_strings;

struct df_strings_options {
    size_t memory_bytes; /* 0: DF_STRINGS_MEMORY */
    uint64_t max_bytes;  /* of texts and 8 for each: more is refused */
    size_t max_string_bytes;
    const char *temp_dir;
    bool strict; /* by libxml2 only: for the tests */
};

/* Reads the part whole. */
enum df_code df_strings_load(const struct df_zip *zip, const struct df_zip_entry *entry,
                             const struct df_strings_options *opt, struct df_strings **ret,
                             struct df_err *err) DF_MUST_CHECK;
void df_strings_free(struct df_strings *t);

/* A cell in which nothing is seen. */
static inline bool df_cell_is_blank(struct df_str s)
{
    return s.len == 0 || ((unsigned char)s.ptr[0] <= ' ' && df_str_trim(s).len == 0);
}

uint64_t df_strings_count(const struct df_strings *t);

/* The table is larger than the processor's cache: a row's strings are better asked for at once. */
void df_strings_prefetch(const struct df_strings *t, uint64_t index);

/* The string of that index, which is less than the count; valid until the next call if it is on
 * disk
 * (*ret_stays false), else as long as the table. One that is blank is empty. */
enum df_code df_strings_get(struct df_strings *t, uint64_t index, struct df_str *ret,
                            bool *ret_stays, struct df_err *err) DF_MUST_CHECK;

/* Whether there may be something for df_xstring_decode to do. */
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

/* Puts what _xHHHH_ stands for in its place, within the buffer from `from` on: how a control
 * character is written in a string. */
void df_xstring_decode(struct df_buf *b, size_t from);

#endif
