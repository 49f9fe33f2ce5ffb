/*
 * A point in time to which the embedded database can be restored. Points are numbered within a
 * generation: 0 is the base, with every page; each later one has the pages that changed since the
 * one before it, and all of them the list of files that waited. The content of a parcel
 * (parcel.h), integers little-endian:
 *
 *     DFPOINT1              magic
 *     28 bytes              the generation
 *     u32, i64              number, time in milliseconds
 *     u32, u32              bytes of a page, pages of the database
 *     32 bytes              root of the point before; zeros in a base
 *     records               of one of these kinds
 *       1  36 bytes, u16 and name, u16 and object, u64, 64 bytes    a file: its batch, its name on
 *                           the disk, the object with its bytes, their number and SHA-256
 *       2  u32, page        a page and its number, from 1
 *       0  u32, 32 bytes    the end: pages in this point; root of the database
 *
 * The root is a hash of the hashes of all pages, so that a restored database is known to be the one
 * that was backed up.
 */
#ifndef DF_BACKUP_POINT_H
#define DF_BACKUP_POINT_H

#include "base/checksum.h"
#include "base/err.h"
#include "base/uuid.h"

#define DF_GENERATION_LEN   28 /* 20261115T031605123Z-1f2e3d4c */
#define DF_POINT_ROOT_BYTES 32
#define DF_POINT_HEAD_BYTES (8 + DF_GENERATION_LEN + 4 + 8 + 4 + 4 + DF_POINT_ROOT_BYTES)
#define DF_POINT_LAST       999999 /* number of a generation's last point */
#define DF_POINT_NAME_MAX   80     /* bytes of an object's name, with the NUL */
#define DF_POINT_FILE_MAX   255    /* bytes of a file's name */
#define DF_POINT_FILES      1000000
#define DF_PAGES_MAX        UINT32_C(0xFFFFFFFE) /* SQLite's limit */

/* --- hashes of pages --- */

#define DF_PAGE_HASH_BYTES 16

struct df_page_hash {
    unsigned char bytes[DF_PAGE_HASH_BYTES]; /* zeros: none yet */
};

struct df_page_hash df_page_hash_of(const void *page, size_t len);
/* The root of a database whose pages have these hashes. */
void df_pages_root(const struct df_page_hash *hashes, uint32_t page_size, uint32_t page_count,
                   unsigned char ret[DF_POINT_ROOT_BYTES]);

/* --- names --- */

struct df_point_name {
    char generation[DF_GENERATION_LEN + 1];
    uint32_t number;
    int64_t time_ms;
};

/* Whether a text begins with the name of a generation. */
bool df_generation_is(const char *s);
/* A new generation, of now. */
void df_generation_make(const struct df_clock *clock, char ret[DF_GENERATION_LEN + 1]);
/* GENERATION/p000012-20261115T031605123Z */
void df_point_name_write(const struct df_point_name *n, char ret[DF_POINT_NAME_MAX]);
/* False: an object of another kind. */
bool df_point_name_read(const char *name, struct df_point_name *ret);

/* --- writing --- */

/* Where bytes go to. */
struct df_point_sink {
    enum df_code (*put)(void *arg, const void *ptr, size_t len, struct df_err *err);
    void *arg;
};

struct df_point_head {
    struct df_point_name name;
    uint32_t page_size, page_count;
    unsigned char before[DF_POINT_ROOT_BYTES];
};

struct df_point_file {
    struct df_uuid batch;
    char name[DF_POINT_FILE_MAX + 1];
    char object[DF_POINT_NAME_MAX];
    uint64_t size;
    char sha256[DF_CHECKSUM_LEN + 1];
};

enum df_code df_point_put_head(const struct df_point_sink *to, const struct df_point_head *h,
                               struct df_err *err) DF_MUST_CHECK;
enum df_code df_point_put_file(const struct df_point_sink *to, const struct df_point_file *f,
                               struct df_err *err) DF_MUST_CHECK;
enum df_code df_point_put_page(const struct df_point_sink *to, uint32_t number, const void *page,
                               size_t len, struct df_err *err) DF_MUST_CHECK;
enum df_code df_point_put_end(const struct df_point_sink *to, uint32_t pages,
                              const unsigned char root[DF_POINT_ROOT_BYTES],
                              struct df_err *err) DF_MUST_CHECK;

/* --- reading --- */

/* Where bytes come from: up to len of them, *ret_len is 0 only at the end. */
struct df_point_source {
    enum df_code (*read)(void *arg, void *ptr, size_t len, size_t *ret_len, struct df_err *err);
    void *arg;
};

struct df_point_visitor {
    enum df_code (*file)(void *arg, const struct df_point_file *f, struct df_err *err);
    enum df_code (*page)(void *arg, uint32_t number, const void *page, size_t len,
                         struct df_err *err);
    void *arg;
};

/* DF_E_INTERNAL, here and below: these bytes are no point. */
enum df_code df_point_read_head(const struct df_point_source *from, struct df_point_head *ret,
                                struct df_err *err) DF_MUST_CHECK;
/* The rest, to the end of the bytes. Pages have the head's size and numbers up to its count; no
 * more of them come than the database has. */
enum df_code df_point_read(const struct df_point_source *from, const struct df_point_head *h,
                           const struct df_point_visitor *v,
                           unsigned char ret_root[DF_POINT_ROOT_BYTES],
                           struct df_err *err) DF_MUST_CHECK;

#endif
