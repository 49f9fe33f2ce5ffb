/*
 * Private to the storage: files and directories of the local disk (storage_local.c), and the
 * outside storage for scheduled files (storage_s3.c).
 */
#ifndef DF_FILES_STORAGE_PRIVATE_H
#define DF_FILES_STORAGE_PRIVATE_H

#include "base/lock.h"
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
/* Empties the file, for a download that starts over. */
enum df_code df_local_rewind(struct df_local_file *f, struct df_err *err) DF_MUST_CHECK;
/* name comes from df_storage_file_name. */
enum df_code df_local_finish(struct df_local_file *take_f, const char *name,
                             struct df_err *err) DF_MUST_CHECK;
void df_local_abort(struct df_local_file *take_f);

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

/* --- scheduled files --- */

/* Set once, by df_storage_cancel. Transfers and waits for the next attempt check it. The lock is
 * for `changed` only: a waiter that holds it cannot miss the broadcast. */
struct df_storage_stop {
    atomic_bool set;
    struct df_mutex lock;
    pthread_cond_t changed;
};

/* The outside storage. */
struct df_shelf;

/* key is "{batchId}/{name}". */
struct df_shelf_ops {
    enum df_code (*put)(struct df_shelf *s, const char *key, int fd, uint64_t size,
                        struct df_err *err);
    enum df_code (*get)(struct df_shelf *s, const char *key, struct df_local_file *to,
                        struct df_err *err);
    enum df_code (*remove)(struct df_shelf *s, const char *key, struct df_err *err);
    void (*free)(struct df_shelf *s);
};

struct df_shelf {
    const struct df_shelf_ops *ops;
    char *url; /* s3://bucket[/prefix], without a slash at the end */
};

enum df_code df_s3_new(const struct df_storage_options *opt, const struct df_clock *clock,
                       struct df_storage_stop *stop, struct df_shelf **ret,
                       struct df_err *err) DF_MUST_CHECK;

#endif
