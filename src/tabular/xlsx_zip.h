/*
 * A workbook's ZIP archive: its directory, and one entry at a time, inflated in pieces. Written
 * here instead of using libzip because everything in an archive may lie, and each lie needs an
 * error of its own: declared sizes are checked against the limits before a byte is inflated, and
 * the inflated bytes against the declared sizes. Memory: the directory, whose entries are limited,
 * and the state of one inflation. Entry names are only looked up, never used as paths. One thread
 * at a time.
 */
#ifndef DF_TABULAR_XLSX_ZIP_H
#define DF_TABULAR_XLSX_ZIP_H

#include "base/arena.h"
#include "tabular/records.h"

#include <zlib.h>

struct df_zip_entry {
    struct df_str name; /* with '/' as separator and none in front */
    uint64_t offset;    /* of the local header */
    uint64_t packed;
    uint64_t size;
    uint32_t crc;
    uint16_t method;
    uint16_t flags;
};

struct df_zip {
    const struct df_bytes *file;
    struct df_record_limits limits; /* all set */
    struct df_arena arena;
    struct df_zip_entry *entries;
    size_t count;
    uint64_t prefix; /* bytes of something else before the archive */
};

/* Reads the directory. file must outlive z. Release z also after an error. */
enum df_code df_zip_init(struct df_zip *z, const struct df_bytes *file,
                         const struct df_record_limits *limits, struct df_err *err) DF_MUST_CHECK;
void df_zip_release(struct df_zip *z);

/* The entry of that name in any case, as names of parts are compared; NULL: none. */
const struct df_zip_entry *df_zip_find(const struct df_zip *z, struct df_str name);

struct df_zip_reader {
    const struct df_zip *zip;
    const struct df_zip_entry *entry;
    z_stream stream;
    char *in;
    uint64_t next;  /* offset in the file */
    uint64_t left;  /* packed bytes not read yet */
    uint64_t given; /* bytes handed out */
    uint32_t crc;
    bool begun; /* the entry is deflated, and stream is in use */
    bool ended;
};

/* A zeroed struct is a closed reader. Opening again closes the entry that was open. */
enum df_code df_zip_reader_open(struct df_zip_reader *r, const struct df_zip *z,
                                const struct df_zip_entry *entry, struct df_err *err) DF_MUST_CHECK;
/* Reads up to len bytes. *ret_len is 0 only at the entry's end, after its size and checksum were
 * checked. */
enum df_code df_zip_read(struct df_zip_reader *r, char *ptr, size_t len, size_t *ret_len,
                         struct df_err *err) DF_MUST_CHECK;
void df_zip_reader_release(struct df_zip_reader *r);

#endif
