/*
 * Private to the storage: files and directories of the local disk (storage_local.c), and the
 * outside storage (storage_s3.c, s3_write.c, s3_list.c).
 */
#ifndef DF_FILES_STORAGE_PRIVATE_H
#define DF_FILES_STORAGE_PRIVATE_H

#include "base/lock.h"
#include "files/crypt.h"
#include "files/storage.h"

#include <stdatomic.h>

/* --- the local disk --- */

struct df_local {
    const char *data_dir; /* borrowed */
    int imports_fd;       /* everything is opened relative to it, without following links */
    const struct df_clock *clock;
};

enum df_code df_local_init(struct df_local *l, const char *data_dir, const struct df_clock *clock,
                           struct df_err *err) DF_MUST_CHECK;
void df_local_release(struct df_local *l);

/* A file under its temporary name. It is appended to, then finished or aborted. */
struct df_local_file;

/* again: the directory may exist, and a temporary file that an earlier attempt left is removed. */
enum df_code df_local_create(const struct df_local *l, const struct df_uuid *batch, bool again,
                             struct df_local_file **ret, struct df_err *err) DF_MUST_CHECK;
enum df_code df_local_write(struct df_local_file *f, const void *ptr, size_t len,
                            struct df_err *err) DF_MUST_CHECK;
/*
 * The same for a file that will take the place of another one: no directory is made, and one
 * process at a time does it. DF_E_NOT_FOUND: there is no such directory. DF_E_BUSY: another process
 * is at it.
 */
enum df_code df_local_replace(const struct df_local *l, const struct df_uuid *batch,
                              struct df_local_file **ret, struct df_err *err) DF_MUST_CHECK;
/* Empties the file, for a download that starts over. */
enum df_code df_local_rewind(struct df_local_file *f, struct df_err *err) DF_MUST_CHECK;
/* A file without a name, which is gone with its struct. For df_local_write, end and abort. */
enum df_code df_local_scratch(const struct df_local *l, const struct df_uuid *batch,
                              struct df_local_file **ret, struct df_err *err) DF_MUST_CHECK;
/* Nothing more is written; what was is read through the descriptor, which is lent. */
enum df_code df_local_end(struct df_local_file *f, int *ret_fd, uint64_t *ret_size,
                          struct df_err *err) DF_MUST_CHECK;
/* name comes from df_storage_file_name. After df_local_replace a file of that name must be there:
 * DF_E_NOT_FOUND, it was removed meanwhile. */
enum df_code df_local_finish(struct df_local_file *take_f, const char *name,
                             struct df_err *err) DF_MUST_CHECK;
void df_local_abort(struct df_local_file *take_f);

/* The name of the batch's file. DF_E_NOT_FOUND: it has none. */
enum df_code df_local_name(const struct df_local *l, const struct df_uuid *batch,
                           char ret[DF_STORAGE_NAME_MAX + 1], struct df_err *err) DF_MUST_CHECK;
enum df_code df_local_open(const struct df_local *l, const struct df_uuid *batch, const char *name,
                           int *ret_fd, uint64_t *ret_size, struct df_err *err) DF_MUST_CHECK;
/* Reads all len bytes; a shorter file is an error. */
enum df_code df_local_read(int fd, uint64_t offset, void *ptr, size_t len,
                           struct df_err *err) DF_MUST_CHECK;
enum df_code df_local_remove(const struct df_local *l, const struct df_uuid *batch,
                             struct df_err *err) DF_MUST_CHECK;
enum df_code df_local_each(const struct df_local *l,
                           void (*seen)(void *arg, const struct df_storage_entry *e), void *arg,
                           struct df_err *err) DF_MUST_CHECK;
uint64_t df_local_free_bytes(const struct df_local *l);

/* --- the outside storage --- */

/* Set once, by df_storage_cancel. Transfers and waits for the next attempt check it. The lock is
 * for `changed` only: a waiter that holds it cannot miss the broadcast. */
struct df_storage_stop {
    atomic_bool set;
    struct df_mutex lock;
    pthread_cond_t changed;
};

/* Waits, unless it is set. */
void df_storage_wait(struct df_storage_stop *stop, int64_t ms);

/* A bucket, or what is below a prefix of it. A key is "{batchId}/{name}". */
struct df_s3;

/* url comes from the setting of that name, and begins with s3://. */
enum df_code df_s3_new(const struct df_storage_options *opt, const char *setting, const char *url,
                       const struct df_clock *clock, struct df_storage_stop *stop,
                       struct df_s3 **ret, struct df_err *err) DF_MUST_CHECK;
void df_s3_free(struct df_s3 *s);
const char *df_s3_url(const struct df_s3 *s); /* s3://bucket[/prefix], without a slash at the end */

enum df_code df_s3_put(struct df_s3 *s, const char *key, int fd, uint64_t size,
                       struct df_err *err) DF_MUST_CHECK;
enum df_code df_s3_get(struct df_s3 *s, const char *key, struct df_local_file *to,
                       const struct df_storage_watch *watch, struct df_err *err) DF_MUST_CHECK;
/* Some bytes of the object, and its size. */
enum df_code df_s3_read(struct df_s3 *s, const char *key, uint64_t offset, char *ptr, size_t len,
                        size_t *ret_len, uint64_t *ret_size, struct df_err *err) DF_MUST_CHECK;
enum df_code df_s3_remove(struct df_s3 *s, const char *key, struct df_err *err) DF_MUST_CHECK;
enum df_code df_s3_list(struct df_s3 *s, struct df_storage_cursor *at,
                        void (*seen)(void *arg, const struct df_storage_found *f), void *arg,
                        struct df_err *err) DF_MUST_CHECK;
/* Made once, also after df_storage_cancel. upload_id is encoded for a query. */
enum df_code df_s3_abort_upload(struct df_s3 *s, const char *key, const char *upload_id,
                                struct df_err *err) DF_MUST_CHECK;

#define DF_S3_PART_BYTES ((size_t)5 << 20) /* the least that S3 takes */

/* The size of the parts of an object: larger than usual if there would be too many. */
size_t df_s3_part_bytes(uint64_t size);

/* An object that is written in parts. One thread at a time. */
struct df_s3_writer;
enum df_code df_s3_writer_new(struct df_s3 *s, const char *key, struct df_s3_writer **ret,
                              struct df_err *err) DF_MUST_CHECK;
/* All parts but the last have df_s3_part_bytes. The object exists once the last was sent. */
enum df_code df_s3_writer_send(struct df_s3_writer *w, struct df_str part, bool last,
                               struct df_err *err) DF_MUST_CHECK;
/* Tells the storage to drop the parts of an object that is not complete. */
void df_s3_writer_abort(struct df_s3_writer *w);
void df_s3_writer_free(struct df_s3_writer *w);

/* --- the storage --- */

#define DF_STORAGE_OBJECT "original" /* the name of an upload in the outside storage */

struct df_storage {
    struct df_local local;
    char *data_dir;
    struct df_secret *given; /* the keys of the settings; NULL: none */
    struct df_secret *old;
    struct df_crypt_keys keys;
    struct df_s3 *s3;     /* the outside storage; NULL: there is none */
    bool takes_uploads;   /* the outside storage; else the disk does */
    bool takes_scheduled; /* it gets scheduled files from the disk */
    bool swept;
    struct df_storage_stop stop;
};

/* Bytes of an object that were read. */
struct df_stored_window {
    uint64_t at;
    size_t len;
    char *ptr;
};

struct df_stored {
    int fd; /* -1: the file is an object of the outside storage */
    struct df_s3 *s3;
    char *key;
    struct df_stored_window windows[2]; /* the beginning, and another place */
    struct df_bytes raw;                /* as on the disk */
    struct df_crypt_reader *crypt;      /* NULL: plain */
    struct df_bytes bytes;
};

/* fd and raw.size are set; fills in the rest. */
enum df_code df_storage_begin_reading(const struct df_storage *st, struct df_stored *f,
                                      struct df_err *err) DF_MUST_CHECK;
struct df_crypt_sink df_storage_sink(struct df_local_file *f);

/* The object's key below the outside storage's URL. */
enum df_code df_storage_object_key(const struct df_storage *st, const struct df_uuid *batch,
                                   const char *location, const char **ret,
                                   struct df_err *err) DF_MUST_CHECK;

#endif
