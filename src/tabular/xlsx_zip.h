/*
 * The archive that a workbook is: its directory, and one entry at a time inflated in pieces. Own
 * code and not libzip, because everything in an archive may lie and each lie needs its answer: what
 * is declared is held against the limits before a byte is inflated, and what is inflated against
 * what was declared. Memory: the directory (entries are limited) and the state of one inflation.
 * Entries' names are data to look up, never paths. One thread at a time.
 */
#ifndef DF_IMPORTS_XLSX_ZIP_H
#define DF_IMPORTS_XLSX_ZIP_H

#include "base/arena.h"
#include "tabular/records.h"

#include <zlib.h>

struct df_zip_entry {
    struct df_str name; /* with '/', none in front */
    uint64_t offset;    /* of the local header */
    uint64_t packed;
    uint64_t size;
    uint32_t crc;
    uint16_t method;
    uint16_t flags;
};

struct df_zip {
    const struct df_bytes *file;
    struct df_record_limits limits; /* none is 0 */
    struct df_arena arena;
    struct df_zip_entry *entries;
    size_t count;
    uint64_t prefix; /* bytes of something else before the archive */
};

/* Reads the directory. file outlives the archive. Release it also after an error. */
enum df_code df_zip_init(struct df_zip *z, const struct df_bytes *file,
                         const struct df_record_limits *limits, struct df_err *err) DF_MUST_CHECK;
void df_zip_release(struct df_zip *z);

/* Without regard to case, as names of parts are compared; NULL: not there. */
const struct df_zip_entry *df_zip_find(const struct df_zip *z, struct df_str name);

struct df_zip_reader {
    const struct df_zip *zip;
    const struct df_zip_entry *entry;
    z_stream stream;
    char *in;
    uint64_t next;  /* of the file */
    uint64_t left;  /* packed bytes not read */
    uint64_t given; /* bytes handed out */
    uint32_t crc;
    bool begun;
    bool ended;
};

/* A zeroed struct is a reader of nothing; opening again closes what was open. */
enum df_code df_zip_reader_open(struct df_zip_reader *r, const struct df_zip *z,
                                const struct df_zip_entry *entry, struct df_err *err) DF_MUST_CHECK;
/* Up to len bytes; *ret_len is 0 only at the entry's end, whose size and checksum were right. */
enum df_code df_zip_read(struct df_zip_reader *r, char *ptr, size_t len, size_t *ret_len,
                         struct df_err *err) DF_MUST_CHECK;
void df_zip_reader_release(struct df_zip_reader *r);

#endif
