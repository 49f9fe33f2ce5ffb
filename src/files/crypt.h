/*
 * Encrypted files with random access: a header and segments of 64 KiB. Each segment is a libsodium
 * secretstream of one message; its authenticated label names the file, the segment's place, the
 * file's length up to the segment's end, and whether the segment is the last. So a segment that was
 * changed, moved or taken from another file is detected when it is read, and a file that was cut or
 * lengthened is detected when it is opened. docs/storage.md has the format byte by byte.
 */
#ifndef DF_FILES_CRYPT_H
#define DF_FILES_CRYPT_H

#include "base/bytes.h"
#include "base/secret.h"
#include "keys/keys.h"

#define DF_CRYPT_HEADER_BYTES  32
#define DF_CRYPT_SEGMENT_BYTES 65536 /* plain; the last may be shorter */
#define DF_CRYPT_EXTRA_BYTES   41    /* added to the plain bytes of each segment */
#define DF_CRYPT_MAGIC_BYTES   8     /* of the header: they mark an encrypted file */

/* The keys of files. `given` encrypts if there is one, otherwise the ring's current data key;
 * without either, files are plain. */
struct df_crypt_keys {
    const struct df_secret *given; /* of df_secret_key_new, likewise `old`; NULL: none */
    const struct df_secret *old;   /* opens only */
    struct df_keys *ring;          /* NULL: none */
};

/* Whether a file with this header (or this beginning, of a plain file) is as a new one would be. */
bool df_crypt_is_current(const struct df_crypt_keys *keys, struct df_str beginning);
/* The data key that the header names; 0: it names none. */
uint32_t df_crypt_data_key(struct df_str beginning);

/* --- writing --- */

/* Where the encrypted bytes go. */
struct df_crypt_sink {
    enum df_code (*put)(void *arg, const void *ptr, size_t len, struct df_err *err);
    void *arg;
};

struct df_crypt_writer;

/* There is a key to write with. The keys are needed for this call only. Puts the header. */
enum df_code df_crypt_writer_new(const struct df_crypt_keys *keys, struct df_crypt_sink sink,
                                 struct df_crypt_writer **ret, struct df_err *err) DF_MUST_CHECK;
enum df_code df_crypt_write(struct df_crypt_writer *w, const void *ptr, size_t len,
                            struct df_err *err) DF_MUST_CHECK;
/* Puts the last segment. Only free may follow. */
enum df_code df_crypt_end(struct df_crypt_writer *w, struct df_err *err) DF_MUST_CHECK;
void df_crypt_writer_free(struct df_crypt_writer *w);

/* --- reading --- */

/* Whether a file that begins with these bytes is encrypted. */
bool df_crypt_is_encrypted(struct df_str beginning);

struct df_crypt_reader;

/*
 * Reads and checks the last segment. raw is copied; the memory it points to must outlive the
 * reader. The keys are needed for this call only. DF_E_CONFIG: none of them is the file's.
 * DF_E_INTERNAL: the file is damaged.
 */
enum df_code df_crypt_open(const struct df_bytes *raw, const struct df_crypt_keys *keys,
                           struct df_crypt_reader **ret, struct df_err *err) DF_MUST_CHECK;
/* The plain bytes. The reader holds two segments in memory, for a file of any length. */
struct df_bytes df_crypt_bytes(struct df_crypt_reader *r);
void df_crypt_reader_free(struct df_crypt_reader *r);

#endif
