/*
 * The storage as the rest of the program sees it: reading and checksums on top of storage_local.c,
 * and what becomes of files in the outside storage. storage_write.c takes uploads.
 */
#include "files/storage.h"

#include "base/checksum.h"
#include "base/mem.h"
#include "files/crypt.h"
#include "files/storage_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_BYTES   ((size_t)256 << 10)
#define WINDOW_BYTES ((size_t)256 << 10)
#define KEY_LEN      (DF_UUID_LEN + 1 + DF_STORAGE_NAME_MAX)
#define DATA_DIR_MAX (DF_STORAGE_LOCATION_MAX - DF_UUID_LEN - sizeof("/imports/") + 1)

/* --- the storage --- */

static enum df_code parse_key(const struct df_secret *text, const char *setting,
                              struct df_secret **ret, struct df_err *err)
{
    if (!text)
        return DF_OK;
    *ret = df_secret_key_new(df_secret_str(text));
    if (*ret)
        return DF_OK;
    return df_err_set(err, DF_E_CONFIG,
                      "%s must hold a key of 32 bytes as 64 hexadecimal digits or in base64 "
                      "(openssl rand -hex 32)",
                      setting);
}

static struct df_str without_slashes(const char *url)
{
    struct df_str s = df_str_c(url);

    while (df_str_ends(s, DF_STR("/")))
        s.len--;
    return s;
}

static enum df_code make_outside(struct df_storage *st, const struct df_storage_options *opt,
                                 struct df_err *err)
{
    const struct df_storage_settings *set = &opt->settings;
    const char *bucket = set->bucket && *set->bucket ? set->bucket : NULL;
    const char *scheduled = set->scheduled && *set->scheduled ? set->scheduled : "local";
    bool moves = strcmp(scheduled, "local") != 0;

    st->takes_uploads = set->where == DF_STORAGE_S3;
    st->takes_scheduled = moves && !st->takes_uploads;
    st->swept = bucket || st->takes_uploads;
    if (moves && !df_storage_is_outside(scheduled))
        return df_err_set(err, DF_E_CONFIG,
                          "imports.scheduled_storage must be local or s3://bucket/prefix");
    if (bucket && !df_storage_is_outside(bucket))
        return df_err_set(err, DF_E_CONFIG, "imports.bucket must be s3://bucket/prefix");
    if (bucket && moves && !df_str_eq(without_slashes(bucket), without_slashes(scheduled)))
        return df_err_set(err, DF_E_CONFIG,
                          "imports.bucket and imports.scheduled_storage must be the same place, or "
                          "one of them is left out");
    if (!bucket && !moves)
        return !st->takes_uploads ? DF_OK
                                  : df_err_set(err, DF_E_CONFIG,
                                               "imports.storage is s3, so imports.bucket must be "
                                               "s3://bucket/prefix");
    return df_s3_new(opt, bucket ? "imports.bucket" : "imports.scheduled_storage",
                     bucket ? bucket : scheduled, st->local.clock, &st->stop, &st->s3, err);
}

/* Makes the storage without opening the disk. */
static enum df_code storage_configure(const struct df_storage_options *opt, struct df_storage **ret,
                                      struct df_err *err)
{
    struct df_storage *st = df_calloc(1, sizeof(*st));
    size_t len = strlen(opt->data_dir);
    enum df_code code = DF_OK;

    df_mutex_init(&st->stop.lock);
    df_cond_init(&st->stop.changed);
    while (len > 1 && opt->data_dir[len - 1] == '/')
        len--;
    st->data_dir = df_strdup(df_str_n(opt->data_dir, len));
    st->local.imports_fd = -1;
    st->local.clock = opt->clock ? opt->clock : df_clock_real();
    if (len > DATA_DIR_MAX)
        code =
            df_err_set(err, DF_E_CONFIG, "server.data_dir is longer than %zu bytes", DATA_DIR_MAX);
    if (code == DF_OK)
        code = parse_key(opt->settings.key, "security.storage_key_file", &st->given, err);
    if (code == DF_OK)
        code = parse_key(opt->settings.old_key, "security.storage_old_key_file", &st->old, err);
    st->keys = (struct df_crypt_keys){.given = st->given, .old = st->old, .ring = opt->keys};
    if (code == DF_OK)
        code = make_outside(st, opt, err);
    if (code == DF_OK)
        *ret = st;
    else
        df_storage_free(st);
    return code;
}

enum df_code df_storage_check(const struct df_storage_options *opt, struct df_err *err)
{
    struct df_storage *st = NULL;
    enum df_code code = storage_configure(opt, &st, err);

    df_storage_free(st);
    return code;
}

enum df_code df_storage_new(const struct df_storage_options *opt, struct df_storage **ret,
                            struct df_err *err)
{
    struct df_storage *st;
    enum df_code code = storage_configure(opt, &st, err);

    if (code != DF_OK)
        return code;
    code = df_local_init(&st->local, st->data_dir, st->local.clock, err);
    if (code == DF_OK)
        *ret = st;
    else
        df_storage_free(st);
    return code;
}

void df_storage_free(struct df_storage *st)
{
    if (!st)
        return;
    df_s3_free(st->s3);
    df_local_release(&st->local);
    df_secret_free(st->given);
    df_secret_free(st->old);
    df_mutex_destroy(&st->stop.lock);
    pthread_cond_destroy(&st->stop.changed);
    free(st->data_dir);
    free(st);
}

void df_storage_cancel(struct df_storage *st)
{
    df_lock(&st->stop.lock);
    atomic_store(&st->stop.set, true);
    pthread_cond_broadcast(&st->stop.changed);
    df_unlock(&st->stop.lock);
}

/* --- reading --- */

/* The window that has the bytes; a read that is in none moves the second one. A window ends at the
 * object's end or before, so that whoever reads the end has also what is before it. */
static enum df_code find_window(struct df_stored *f, uint64_t offset, size_t len,
                                const struct df_stored_window **ret, struct df_err *err)
{
    uint64_t size = f->raw.size;

    for (size_t i = 0; i < 2; i++) {
        const struct df_stored_window *w = &f->windows[i];
        *ret = w;
        if (w->ptr && offset >= w->at && offset + len <= w->at + w->len)
            return DF_OK;
    }
    struct df_stored_window *w = &f->windows[f->windows[0].ptr ? 1 : 0];
    if (!w->ptr)
        w->ptr = df_malloc(WINDOW_BYTES);
    *ret = w;
    w->at = offset + WINDOW_BYTES > size && size > 0
                ? (size > WINDOW_BYTES ? size - WINDOW_BYTES : 0)
                : offset;
    w->len = 0;
    return df_s3_read(f->s3, f->key, w->at, w->ptr, WINDOW_BYTES, &w->len, &size, err);
}

static enum df_code read_object(struct df_stored *f, uint64_t offset, char *ptr, size_t len,
                                struct df_err *err)
{
    const struct df_stored_window *w;

    while (len > 0) {
        size_t n = len < WINDOW_BYTES ? len : WINDOW_BYTES;
        enum df_code code = find_window(f, offset, n, &w, err);
        if (code != DF_OK)
            return code;
        if (offset < w->at || offset + n > w->at + w->len)
            return df_err_set(err, DF_E_INTERNAL, "an object became shorter");
        memcpy(ptr, w->ptr + (offset - w->at), n);
        offset += n;
        ptr += n;
        len -= n;
    }
    return DF_OK;
}

static enum df_code read_stored(void *arg, uint64_t offset, char *ptr, size_t len, size_t *ret_len,
                                struct df_err *err)
{
    struct df_stored *f = arg;
    uint64_t left = offset < f->raw.size ? f->raw.size - offset : 0;
    size_t n = len < left ? len : (size_t)left;
    enum df_code code =
        f->s3 ? read_object(f, offset, ptr, n, err) : df_local_read(f->fd, offset, ptr, n, err);

    if (code == DF_OK)
        *ret_len = n;
    return code;
}

/* The file's first bytes tell whether it is encrypted, not the setting: a file that was stored
 * before there was a key is read as it is. */
enum df_code df_storage_begin_reading(const struct df_storage *st, struct df_stored *f,
                                      struct df_err *err)
{
    char beginning[DF_CRYPT_MAGIC_BYTES];
    size_t n = 0;

    f->raw.read_at = read_stored;
    f->raw.arg = f;
    f->bytes = f->raw;
    enum df_code code = read_stored(f, 0, beginning, sizeof(beginning), &n, err);
    if (code != DF_OK || !df_crypt_is_encrypted(df_str_n(beginning, n)))
        return code;
    code = df_crypt_open(&f->raw, &st->keys, &f->crypt, err);
    if (code == DF_OK)
        f->bytes = df_crypt_bytes(f->crypt);
    return code;
}

enum df_code df_storage_open(struct df_storage *st, const struct df_uuid *batch,
                             struct df_str file_name, struct df_stored **ret, struct df_err *err)
{
    char name[DF_STORAGE_NAME_MAX + 1];
    struct df_stored *f = df_calloc(1, sizeof(*f));

    f->fd = -1;
    df_storage_file_name(file_name, name);
    enum df_code code = df_local_open(&st->local, batch, name, &f->fd, &f->raw.size, err);
    if (code == DF_OK)
        code = df_storage_begin_reading(st, f, err);
    if (code == DF_OK)
        *ret = f;
    else
        df_stored_close(f);
    return code;
}

/* The first read tells the object's size. */
static enum df_code open_object(struct df_storage *st, const struct df_uuid *batch,
                                const char *location, struct df_stored *f, struct df_err *err)
{
    struct df_stored_window *w = &f->windows[0];
    const char *key = NULL;
    enum df_code code = df_storage_object_key(st, batch, location, &key, err);

    if (code != DF_OK)
        return code;
    f->s3 = st->s3;
    f->key = df_strdup(df_str_c(key));
    w->ptr = df_malloc(WINDOW_BYTES);
    code = df_s3_read(f->s3, f->key, 0, w->ptr, WINDOW_BYTES, &w->len, &f->raw.size, err);
    return code == DF_OK ? df_storage_begin_reading(st, f, err) : code;
}

enum df_code df_storage_look(struct df_storage *st, const struct df_uuid *batch,
                             struct df_str file_name, const char *location, struct df_stored **ret,
                             struct df_err *err)
{
    if (!df_storage_is_outside(location))
        return df_storage_open(st, batch, file_name, ret, err);
    struct df_stored *f = df_calloc(1, sizeof(*f));
    f->fd = -1;
    enum df_code code = open_object(st, batch, location, f, err);
    if (code == DF_OK)
        *ret = f;
    else
        df_stored_close(f);
    return code;
}

const struct df_bytes *df_stored_bytes(const struct df_stored *f)
{
    return &f->bytes;
}

void df_stored_close(struct df_stored *f)
{
    if (!f)
        return;
    df_crypt_reader_free(f->crypt);
    if (f->fd >= 0)
        (void)close(f->fd);
    free(f->windows[0].ptr);
    free(f->windows[1].ptr);
    free(f->key);
    free(f);
}

enum df_code df_storage_checksum(struct df_storage *st, const struct df_uuid *batch,
                                 struct df_str file_name, char ret_checksum[DF_CHECKSUM_LEN + 1],
                                 uint64_t *ret_size, struct df_err *err)
{
    struct df_stored *f;
    enum df_code code = df_storage_open(st, batch, file_name, &f, err);
    if (code != DF_OK)
        return code;

    struct df_checksum *hash = df_checksum_new();
    char *buffer = df_malloc(READ_BYTES);
    uint64_t size = 0;
    size_t n = 0;
    do {
        code = f->bytes.read_at(f->bytes.arg, size, buffer, READ_BYTES, &n, err);
        if (code == DF_OK) {
            df_checksum_add(hash, buffer, n);
            size += n;
        }
    } while (code == DF_OK && n > 0);
    if (code == DF_OK) {
        df_checksum_end(hash, ret_checksum);
        *ret_size = size;
    }
    free(buffer);
    df_checksum_free(hash);
    df_stored_close(f);
    return code;
}

/* --- the outside storage --- */

void df_storage_path(const struct df_storage *st, const struct df_uuid *batch,
                     char ret_path[DF_STORAGE_LOCATION_MAX + 1])
{
    (void)snprintf(ret_path, DF_STORAGE_LOCATION_MAX + 1, "%s/imports/%s", st->data_dir,
                   batch->text);
}

void df_storage_location(const struct df_storage *st, const struct df_uuid *batch,
                         char ret_location[DF_STORAGE_LOCATION_MAX + 1])
{
    if (st->takes_uploads)
        (void)snprintf(ret_location, DF_STORAGE_LOCATION_MAX + 1, "%s/%s/" DF_STORAGE_OBJECT,
                       df_s3_url(st->s3), batch->text);
    else
        df_storage_path(st, batch, ret_location);
}

bool df_storage_has_remote(const struct df_storage *st)
{
    return st->s3 != NULL;
}

bool df_storage_moves_scheduled(const struct df_storage *st)
{
    return st->takes_scheduled;
}

bool df_storage_is_outside(const char *location)
{
    return location && df_str_starts(df_str_c(location), DF_STR("s3://"));
}

/*
 * The object's key below the storage's URL. A location outside this storage or of another batch is
 * an error: a wrong row in the database must not make us read or remove a foreign object.
 */
enum df_code df_storage_object_key(const struct df_storage *st, const struct df_uuid *batch,
                                   const char *location, const char **ret, struct df_err *err)
{
    if (!st->s3)
        return df_err_set(err, DF_E_CONFIG, "the file is at %s, but imports.bucket is not set",
                          location);
    struct df_str rest = df_str_c(location);
    struct df_str url = df_str_c(df_s3_url(st->s3));
    if (df_str_starts(rest, url) && location[url.len] == '/') {
        rest = df_str_n(rest.ptr + url.len + 1, rest.len - url.len - 1);
        if (df_str_starts(rest, df_uuid_str(batch)) && rest.len > DF_UUID_LEN + 1 &&
            rest.ptr[DF_UUID_LEN] == '/' &&
            !memchr(rest.ptr + DF_UUID_LEN + 1, '/', rest.len - DF_UUID_LEN - 1)) {
            *ret = rest.ptr;
            return DF_OK;
        }
    }
    return df_err_set(err, DF_E_CONFIG, "%s is not where %s keeps batch %s", location,
                      df_s3_url(st->s3), batch->text);
}

enum df_code df_storage_put_scheduled(struct df_storage *st, const struct df_uuid *batch,
                                      struct df_str file_name,
                                      char ret_location[DF_STORAGE_LOCATION_MAX + 1],
                                      struct df_err *err)
{
    char name[DF_STORAGE_NAME_MAX + 1];
    char key[KEY_LEN + 1];
    int fd;
    uint64_t size;

    df_storage_file_name(file_name, name);
    enum df_code code = df_local_open(&st->local, batch, name, &fd, &size, err);
    if (code != DF_OK)
        return code;
    if (st->takes_scheduled) {
        (void)snprintf(key, sizeof(key), "%s/%s", batch->text, name);
        code = df_s3_put(st->s3, key, fd, size, err);
    }
    (void)close(fd);
    if (code != DF_OK)
        return code;
    if (st->takes_scheduled)
        (void)snprintf(ret_location, DF_STORAGE_LOCATION_MAX + 1, "%s/%s", df_s3_url(st->s3), key);
    else
        df_storage_path(st, batch, ret_location);
    return DF_OK;
}

enum df_code df_storage_drop_local(struct df_storage *st, const struct df_uuid *batch,
                                   const char *location, struct df_err *err)
{
    return df_storage_is_outside(location) ? df_local_remove(&st->local, batch, err) : DF_OK;
}

static bool check_local(struct df_storage *st, const struct df_uuid *batch, const char *name,
                        enum df_code *ret_code, struct df_err *err)
{
    int fd;
    uint64_t size;

    *ret_code = df_local_open(&st->local, batch, name, &fd, &size, err);
    if (*ret_code == DF_OK)
        (void)close(fd);
    return *ret_code != DF_E_NOT_FOUND;
}

enum df_code df_storage_fetch(struct df_storage *st, const struct df_uuid *batch,
                              struct df_str file_name, const char *location,
                              const struct df_storage_watch *watch, struct df_err *err)
{
    char name[DF_STORAGE_NAME_MAX + 1];
    const char *key;
    struct df_local_file *file;
    enum df_code code;

    df_storage_file_name(file_name, name);
    if (check_local(st, batch, name, &code, err) || !df_storage_is_outside(location))
        return code;
    code = df_storage_object_key(st, batch, location, &key, err);
    if (code == DF_OK)
        code = df_local_create(&st->local, batch, true, &file, err);
    if (code != DF_OK)
        return code;
    code = df_s3_get(st->s3, key, file, watch, err);
    if (code == DF_OK)
        return df_local_finish(file, name, err);
    df_local_abort(file);
    return code;
}

/* --- housekeeping --- */

enum df_code df_storage_remove(struct df_storage *st, const struct df_uuid *batch,
                               const char *location, struct df_err *err)
{
    const char *key;
    enum df_code code = df_local_remove(&st->local, batch, err);

    if (code != DF_OK || !df_storage_is_outside(location))
        return code;
    code = df_storage_object_key(st, batch, location, &key, err);
    return code == DF_OK ? df_s3_remove(st->s3, key, err) : code;
}

enum df_code df_storage_each(struct df_storage *st,
                             void (*seen)(void *arg, const struct df_storage_entry *e), void *arg,
                             struct df_err *err)
{
    return df_local_each(&st->local, seen, arg, err);
}

bool df_storage_is_swept(const struct df_storage *st)
{
    return st->swept;
}

enum df_code df_storage_list(struct df_storage *st, struct df_storage_cursor *at,
                             void (*seen)(void *arg, const struct df_storage_found *f), void *arg,
                             struct df_err *err)
{
    if (!st->s3)
        return df_err_set(err, DF_E_CONFIG, "imports.bucket is not set");
    return df_s3_list(st->s3, at, seen, arg, err);
}

/* Whether the object is encrypted under one of our keys. */
static enum df_code is_our_object(struct df_storage *st, const struct df_storage_found *f,
                                  bool *ret, struct df_err *err)
{
    struct df_stored *stored = NULL;
    enum df_code code = df_storage_look(st, &f->batch, DF_STR(""), f->location, &stored, err);

    *ret = code == DF_OK && stored->crypt;
    df_stored_close(stored);
    return code == DF_E_CONFIG || code == DF_E_INTERNAL || code == DF_E_NOT_FOUND ? DF_OK : code;
}

enum df_code df_storage_remove_found(struct df_storage *st, const struct df_storage_found *f,
                                     bool *ret_ours, struct df_err *err)
{
    const char *key = NULL;
    enum df_code code = df_storage_object_key(st, &f->batch, f->location, &key, err);

    *ret_ours = f->upload_id[0] != '\0';
    if (code == DF_OK && *ret_ours)
        return df_s3_abort_upload(st->s3, key, f->upload_id, err);
    if (code == DF_OK)
        code = is_our_object(st, f, ret_ours, err);
    return code == DF_OK && *ret_ours ? df_s3_remove(st->s3, key, err) : code;
}

uint64_t df_storage_free_bytes(const struct df_storage *st)
{
    return df_local_free_bytes(&st->local);
}
