/*
 * A parcel: bytes of a backup, compressed and encrypted, as one file.
 *
 *     DFBK, 1, 0, 0, 0      magic and version
 *     u16, u16              length of the master key's id, and of the wrapped key; little-endian
 *     id, wrapped key
 *     the rest              a zlib stream in the form of encrypted files (files/crypt.h)
 *
 * The key is drawn by the process that makes the backup, and wrapped by the master key: whoever has
 * the master key can read a parcel, and nothing else is needed. A change of any byte, a cut or an
 * added byte is noticed.
 */
#ifndef DF_BACKUP_PARCEL_H
#define DF_BACKUP_PARCEL_H

#include "base/secret.h"
#include "keys/master.h"

#define DF_PARCEL_HEAD_BYTES 12

/* --- keys --- */

struct df_parcel_key {
    struct df_secret *key;
    size_t wrapped_len;
    unsigned char wrapped[DF_WRAPPED_MAX];
    char master_id[DF_MASTER_ID_MAX + 1];
};

/* Draws a key and has the master wrap it, which may take the time of a request to a vault. */
enum df_code df_parcel_key_draw(struct df_parcel_key *k, struct df_master *master,
                                const struct df_clock *clock, struct df_err *err) DF_MUST_CHECK;
void df_parcel_key_release(struct df_parcel_key *k); /* zeroed is fine */

/* The masters that may open a parcel. The key of the last one is kept: most have the same. */
#define DF_PARCEL_MASTERS 3
struct df_parcel_opener {
    struct df_master *masters[DF_PARCEL_MASTERS]; /* NULL: none; owned by whoever made them */
    struct df_parcel_key last;
};

/* --- writing --- */

struct df_parcel_writer;

/* Appends to the file, from its start. compress: the bytes are not encrypted or packed already. */
enum df_code df_parcel_create(const struct df_parcel_key *key, int fd, bool compress,
                              struct df_parcel_writer **ret, struct df_err *err) DF_MUST_CHECK;
enum df_code df_parcel_write(struct df_parcel_writer *w, const void *ptr, size_t len,
                             struct df_err *err) DF_MUST_CHECK;
/* Writes what is left. Always frees the writer. */
enum df_code df_parcel_finish(struct df_parcel_writer *take_w, struct df_err *err) DF_MUST_CHECK;
void df_parcel_abort(struct df_parcel_writer *take_w); /* NULL is fine */

/* --- reading --- */

struct df_parcel_head {
    char master_id[DF_MASTER_ID_MAX + 1];
    struct df_str wrapped; /* in the bytes that were read */
    size_t len;            /* of all of it */
};

/* False: these bytes are not the beginning of a parcel. */
bool df_parcel_head_read(struct df_str beginning, struct df_parcel_head *ret);

struct df_parcel_reader;

/* `name` is for messages and outlives the reader, and so does the open file. DF_E_CONFIG: no master
 * opens it. DF_E_INTERNAL, here and below: the file is damaged, or is no parcel. */
enum df_code df_parcel_open(struct df_parcel_opener *opener, int fd, const char *name,
                            struct df_parcel_reader **ret, struct df_err *err) DF_MUST_CHECK;
/* Up to len bytes; *ret_len is 0 only at the end, where all was seen to be whole. */
enum df_code df_parcel_read(struct df_parcel_reader *r, void *ptr, size_t len, size_t *ret_len,
                            struct df_err *err) DF_MUST_CHECK;
void df_parcel_close(struct df_parcel_reader *r);

#endif
