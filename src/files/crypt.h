/*
 * Encrypted files that can be read from any place: a header and segments of 64 KiB, each a
 * libsodium secretstream of one message that says which file it belongs to, which place it has
 * there, how long the file is up to its end and whether it is the last. So a segment that was
 * changed, moved, left out or taken from another file is noticed when it is read, and a file that
 * was cut or lengthened when it is opened. docs/storage.md has the format byte by byte.
 */
#ifndef DF_IMPORTS_CRYPT_H
#define DF_IMPORTS_CRYPT_H

#include "base/bytes.h"
#include "base/secret.h"

#define DF_CRYPT_HEADER_BYTES  32
#define DF_CRYPT_SEGMENT_BYTES 65536 /* plain; the last may be shorter */
#define DF_CRYPT_EXTRA_BYTES   41    /* that a segment is longer than its plain bytes */
#define DF_CRYPT_MAGIC_BYTES   8     /* at the beginning: enough to know an encrypted file */

/* --- writing --- */

/* Where the encrypted bytes go. */
struct df_crypt_sink {
    enum df_code (*put)(void *arg, const void *ptr, size_t len, struct df_err *err);
    void *arg;
};

struct df_crypt_writer;

/* key: of df_secret_key_new, needed for this call only. The header is the first thing put. */
enum df_code df_crypt_writer_new(const struct df_secret *key, struct df_crypt_sink sink,
                                 struct df_crypt_writer **ret, struct df_err *err) DF_MUST_CHECK;
enum df_code df_crypt_write(struct df_crypt_writer *w, const void *ptr, size_t len,
                            struct df_err *err) DF_MUST_CHECK;
/* The last segment. Nothing but free may follow. */
enum df_code df_crypt_end(struct df_crypt_writer *w, struct df_err *err) DF_MUST_CHECK;
void df_crypt_writer_free(struct df_crypt_writer *w);

/* --- reading --- */

/* Whether a file that begins with these bytes is encrypted. */
bool df_crypt_is_encrypted(struct df_str beginning);

struct df_crypt_reader;

/*
 * raw: copied; what it points to outlives the reader. keys (NULL among them is no key) for this
 * call only. The last segment is read and checked. DF_E_CONFIG: none of the keys is the file's.
 * DF_E_INTERNAL: damaged.
 */
enum df_code df_crypt_open(const struct df_bytes *raw, const struct df_secret *const *keys,
                           size_t key_count, struct df_crypt_reader **ret,
                           struct df_err *err) DF_MUST_CHECK;
/* The plain bytes. Memory is two segments, however long the file. */
struct df_bytes df_crypt_bytes(struct df_crypt_reader *r);
void df_crypt_reader_free(struct df_crypt_reader *r);

#endif
