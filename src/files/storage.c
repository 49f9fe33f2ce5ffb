/*
 * The storage as the rest of the program sees it: encryption and checksums on top of
 * storage_local.c, and the transfer of scheduled files to the outside storage and back.
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
#define KEY_LEN      (DF_UUID_LEN + 1 + DF_STORAGE_NAME_MAX)
#define DATA_DIR_MAX (DF_STORAGE_LOCATION_MAX - DF_UUID_LEN - sizeof("/imports/") + 1)

enum { KEY_CURRENT, KEY_OLD, KEYS };

struct df_storage {
    struct df_local local;
    char *data_dir;
    struct df_secret *keys[KEYS]; /* NULL: none */
    struct df_shelf *shelf;       /* the outside storage; NULL: scheduled files stay here */
    struct df_storage_stop stop;
};

struct df_storage_writer {
    struct df_local_file *file;
    struct df_crypt_writer *crypt; /* NULL: plain */
    struct df_checksum *hash;
    uint64_t size;
    char beginning[DF_CRYPT_MAGIC_BYTES];
};

struct df_stored {
    int fd;
    struct df_bytes raw;           /* as on the disk */
    struct df_crypt_reader *crypt; /* NULL: plain */
    struct df_bytes bytes;
};

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

static enum df_code make_shelf(struct df_storage *st, const struct df_storage_options *opt,
                               struct df_err *err)
{
    struct df_str where = df_str_c(opt->settings.scheduled);

    if (where.len == 0 || df_str_eq(where, DF_STR("local")))
        return DF_OK;
    if (!df_str_starts(where, DF_STR("s3://")))
        return df_err_set(err, DF_E_CONFIG,
                          "imports.scheduled_storage must be local or s3://bucket/prefix");
    return df_s3_new(opt, st->local.clock, &st->stop, &st->shelf, err);
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
        code =
            parse_key(opt->settings.key, "security.storage_key_file", &st->keys[KEY_CURRENT], err);
    if (code == DF_OK)
        code = parse_key(opt->settings.old_key, "security.storage_old_key_file", &st->keys[KEY_OLD],
                         err);
    if (code == DF_OK)
        code = make_shelf(st, opt, err);
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
    if (st->shelf)
        st->shelf->ops->free(st->shelf);
    df_local_release(&st->local);
    for (size_t i = 0; i < KEYS; i++)
        df_secret_free(st->keys[i]);
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

/* --- writing --- */

static enum df_code put_encrypted(void *arg, const void *ptr, size_t len, struct df_err *err)
{
    return df_local_write(arg, ptr, len, err);
}

enum df_code df_storage_create(struct df_storage *st, const struct df_uuid *batch,
                               struct df_storage_writer **ret, struct df_err *err)
{
    struct df_local_file *file;
    struct df_crypt_writer *crypt = NULL;

    enum df_code code = df_local_create(&st->local, batch, false, &file, err);
    if (code != DF_OK)
        return code;
    if (st->keys[KEY_CURRENT]) {
        struct df_crypt_sink sink = {.put = put_encrypted, .arg = file};
        code = df_crypt_writer_new(st->keys[KEY_CURRENT], sink, &crypt, err);
    }
    if (code != DF_OK) {
        df_local_abort(file);
        return code;
    }
    struct df_storage_writer *w = df_calloc(1, sizeof(*w));
    w->file = file;
    w->crypt = crypt;
    w->hash = df_checksum_new();
    *ret = w;
    return DF_OK;
}

/* Every reader would take a plain file that begins with the magic bytes for an encrypted one. No
 * supported format begins with them. */
static bool poses_as_encrypted(struct df_storage_writer *w, const void *ptr, size_t len)
{
    if (w->crypt || w->size >= sizeof(w->beginning) || len == 0)
        return false;
    size_t room = sizeof(w->beginning) - (size_t)w->size;
    memcpy(w->beginning + w->size, ptr, len < room ? len : room);
    return len >= room && df_crypt_is_encrypted(df_str_n(w->beginning, sizeof(w->beginning)));
}

enum df_code df_storage_write(struct df_storage_writer *w, const void *ptr, size_t len,
                              struct df_err *err)
{
    if (poses_as_encrypted(w, ptr, len))
        return df_err_set(err, DF_E_MEDIA_TYPE,
                          "the file begins unlike any workbook, JSON or CSV file");
    df_checksum_add(w->hash, ptr, len);
    w->size += len;
    return w->crypt ? df_crypt_write(w->crypt, ptr, len, err)
                    : df_local_write(w->file, ptr, len, err);
}

static void free_writer(struct df_storage_writer *w)
{
    df_crypt_writer_free(w->crypt);
    df_checksum_free(w->hash);
    free(w);
}

enum df_code df_storage_finish(struct df_storage_writer *take_w, struct df_str file_name,
                               char ret_checksum[DF_CHECKSUM_LEN + 1], uint64_t *ret_size,
                               struct df_err *err)
{
    char name[DF_STORAGE_NAME_MAX + 1];
    enum df_code code = take_w->crypt ? df_crypt_end(take_w->crypt, err) : DF_OK;

    df_storage_file_name(file_name, name);
    if (code == DF_OK)
        code = df_local_finish(take_w->file, name, err);
    else
        df_local_abort(take_w->file);
    if (code == DF_OK) {
        df_checksum_end(take_w->hash, ret_checksum);
        *ret_size = take_w->size;
    }
    free_writer(take_w);
    return code;
}

void df_storage_abort(struct df_storage_writer *take_w)
{
    if (!take_w)
        return;
    df_local_abort(take_w->file);
    free_writer(take_w);
}

/* --- reading --- */

static enum df_code read_stored(void *arg, uint64_t offset, char *ptr, size_t len, size_t *ret_len,
                                struct df_err *err)
{
    const struct df_stored *f = arg;
    uint64_t left = offset < f->raw.size ? f->raw.size - offset : 0;
    size_t n = len < left ? len : (size_t)left;
    enum df_code code = df_local_read(f->fd, offset, ptr, n, err);

    if (code == DF_OK)
        *ret_len = n;
    return code;
}

/* The file's first bytes tell whether it is encrypted, not the setting: a file that was stored
 * before there was a key is read as it is. */
static enum df_code begin_reading(const struct df_storage *st, struct df_stored *f,
                                  struct df_err *err)
{
    char beginning[DF_CRYPT_MAGIC_BYTES];
    size_t n = 0;
    enum df_code code = read_stored(f, 0, beginning, sizeof(beginning), &n, err);

    f->bytes = f->raw;
    if (code != DF_OK || !df_crypt_is_encrypted(df_str_n(beginning, n)))
        return code;
    const struct df_secret *keys[KEYS] = {st->keys[KEY_CURRENT], st->keys[KEY_OLD]};
    code = df_crypt_open(&f->raw, keys, KEYS, &f->crypt, err);
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
    f->raw = (struct df_bytes){.read_at = read_stored, .arg = f};
    df_storage_file_name(file_name, name);
    enum df_code code = df_local_open(&st->local, batch, name, &f->fd, &f->raw.size, err);
    if (code == DF_OK)
        code = begin_reading(st, f, err);
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

/* --- scheduled files --- */

void df_storage_path(const struct df_storage *st, const struct df_uuid *batch,
                     char ret_path[DF_STORAGE_LOCATION_MAX + 1])
{
    (void)snprintf(ret_path, DF_STORAGE_LOCATION_MAX + 1, "%s/imports/%s", st->data_dir,
                   batch->text);
}

bool df_storage_has_remote(const struct df_storage *st)
{
    return st->shelf != NULL;
}

static bool is_elsewhere(const char *location)
{
    return location && df_str_starts(df_str_c(location), DF_STR("s3://"));
}

/*
 * The object's key below the shelf's URL. A location outside this shelf or of another batch is an
 * error: a wrong row in the database must not make us read or remove a foreign object.
 */
static enum df_code object_key(const struct df_storage *st, const struct df_uuid *batch,
                               const char *location, const char **ret, struct df_err *err)
{
    if (!st->shelf)
        return df_err_set(err, DF_E_CONFIG,
                          "the file is at %s, but imports.scheduled_storage is local", location);
    struct df_str rest = df_str_c(location);
    struct df_str url = df_str_c(st->shelf->url);
    if (df_str_starts(rest, url) && location[url.len] == '/') {
        rest = df_str_n(rest.ptr + url.len + 1, rest.len - url.len - 1);
        if (df_str_starts(rest, df_uuid_str(batch)) && rest.len > DF_UUID_LEN + 1 &&
            rest.ptr[DF_UUID_LEN] == '/' &&
            !memchr(rest.ptr + DF_UUID_LEN + 1, '/', rest.len - DF_UUID_LEN - 1)) {
            *ret = rest.ptr;
            return DF_OK;
        }
    }
    return df_err_set(err, DF_E_CONFIG, "%s is not where imports.scheduled_storage keeps batch %s",
                      location, batch->text);
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
    if (st->shelf) {
        (void)snprintf(key, sizeof(key), "%s/%s", batch->text, name);
        code = st->shelf->ops->put(st->shelf, key, fd, size, err);
    }
    (void)close(fd);
    if (code != DF_OK)
        return code;
    if (st->shelf)
        (void)snprintf(ret_location, DF_STORAGE_LOCATION_MAX + 1, "%s/%s", st->shelf->url, key);
    else
        df_storage_path(st, batch, ret_location);
    return DF_OK;
}

enum df_code df_storage_drop_local(struct df_storage *st, const struct df_uuid *batch,
                                   const char *location, struct df_err *err)
{
    return is_elsewhere(location) ? df_local_remove(&st->local, batch, err) : DF_OK;
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

enum df_code df_storage_fetch_scheduled(struct df_storage *st, const struct df_uuid *batch,
                                        struct df_str file_name, const char *location,
                                        struct df_err *err)
{
    char name[DF_STORAGE_NAME_MAX + 1];
    const char *key;
    struct df_local_file *file;
    enum df_code code;

    df_storage_file_name(file_name, name);
    if (check_local(st, batch, name, &code, err) || !is_elsewhere(location))
        return code;
    code = object_key(st, batch, location, &key, err);
    if (code == DF_OK)
        code = df_local_create(&st->local, batch, true, &file, err);
    if (code != DF_OK)
        return code;
    code = st->shelf->ops->get(st->shelf, key, file, err);
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

    if (code != DF_OK || !is_elsewhere(location))
        return code;
    code = object_key(st, batch, location, &key, err);
    return code == DF_OK ? st->shelf->ops->remove(st->shelf, key, err) : code;
}

enum df_code df_storage_each(struct df_storage *st,
                             void (*seen)(void *arg, const struct df_storage_entry *e), void *arg,
                             struct df_err *err)
{
    return df_local_each(&st->local, seen, arg, err);
}

uint64_t df_storage_free_bytes(const struct df_storage *st)
{
    return df_local_free_bytes(&st->local);
}
