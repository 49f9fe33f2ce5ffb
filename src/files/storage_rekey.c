/* Stored files are encrypted anew after the key of new files has changed. */
#include "base/mem.h"
#include "files/storage_private.h"

#include <stdlib.h>
#include <unistd.h>

#define COPY_BYTES  ((size_t)256 << 10)
#define PAUSE_BYTES ((uint64_t)4 << 20) /* copied before a pause */

/* The disk and the processor are others' for as long as they were ours. */
static enum df_code pause_copy(struct df_storage *st, int64_t *since_ms, struct df_err *err)
{
    df_storage_wait(&st->stop, df_mono_ms(df_clock_real()) - *since_ms);
    *since_ms = df_mono_ms(df_clock_real());
    return atomic_load(&st->stop.set)
               ? df_err_set(err, DF_E_CANCELLED, "the server is shutting down")
               : DF_OK;
}

static enum df_code copy_plain(struct df_storage *st, const struct df_bytes *from,
                               struct df_crypt_writer *to, struct df_err *err)
{
    char *buffer = df_malloc(COPY_BYTES);
    int64_t since_ms = df_mono_ms(df_clock_real());
    enum df_code code = DF_OK;
    uint64_t at = 0, paused = 0;

    while (code == DF_OK && at < from->size) {
        size_t n = 0;
        code = from->read_at(from->arg, at, buffer, COPY_BYTES, &n, err);
        if (code == DF_OK)
            code = df_crypt_write(to, buffer, n, err);
        at += n;
        if (code == DF_OK && at - paused >= PAUSE_BYTES) {
            paused = at;
            code = pause_copy(st, &since_ms, err);
        }
    }
    df_wipe(buffer, COPY_BYTES);
    free(buffer);
    return code == DF_OK ? df_crypt_end(to, err) : code;
}

/* Writes what the stored file says to `to`, under the key of new files. */
static enum df_code encrypt_anew(struct df_storage *st, struct df_stored *from,
                                 struct df_local_file *to, struct df_err *err)
{
    struct df_crypt_writer *w = NULL;
    enum df_code code = df_storage_begin_reading(st, from, err);

    if (code == DF_OK)
        code = df_crypt_writer_new(&st->keys, df_storage_sink(to), &w, err);
    if (code == DF_OK)
        code = copy_plain(st, &from->bytes, w, err);
    df_crypt_writer_free(w);
    df_crypt_reader_free(from->crypt);
    from->crypt = NULL;
    return code;
}

static void look_at(const struct df_storage *st, struct df_str beginning, struct df_rekeyed *ret)
{
    *ret = (struct df_rekeyed){.data_key = df_crypt_data_key(beginning),
                               .current = df_crypt_is_current(&st->keys, beginning)};
}

static enum df_code replace_local(struct df_storage *st, const struct df_uuid *batch,
                                  const char *name, struct df_stored *from, struct df_err *err)
{
    struct df_local_file *to;
    enum df_code code = df_local_replace(&st->local, batch, &to, err);

    if (code != DF_OK)
        return code;
    code = encrypt_anew(st, from, to, err);
    if (code == DF_OK)
        return df_local_finish(to, name, err);
    df_local_abort(to);
    return code;
}

enum df_code df_storage_rekey(struct df_storage *st, const struct df_uuid *batch, bool look_only,
                              struct df_rekeyed *ret, struct df_err *err)
{
    char name[DF_STORAGE_NAME_MAX + 1], beginning[DF_CRYPT_HEADER_BYTES];
    struct df_stored from = {.fd = -1};
    enum df_code code = df_local_name(&st->local, batch, name, err);

    if (code == DF_OK)
        code = df_local_open(&st->local, batch, name, &from.fd, &from.raw.size, err);
    if (code != DF_OK)
        return code;
    size_t n = from.raw.size < sizeof(beginning) ? (size_t)from.raw.size : sizeof(beginning);
    code = df_local_read(from.fd, 0, beginning, n, err);
    if (code == DF_OK) {
        look_at(st, df_str_n(beginning, n), ret);
        if (!ret->current && !look_only) {
            code = replace_local(st, batch, name, &from, err);
            ret->changed = code == DF_OK;
        }
    }
    (void)close(from.fd);
    return code;
}

/* --- in the outside storage --- */

/* Gets the object, and puts it back encrypted anew. */
static enum df_code replace_object(struct df_storage *st, const struct df_uuid *batch,
                                   const char *key, struct df_err *err)
{
    struct df_local_file *old = NULL, *new = NULL;
    struct df_stored from = {.fd = -1};
    uint64_t size = 0;
    int fd = -1;
    enum df_code code = df_local_scratch(&st->local, batch, &old, err);

    if (code == DF_OK)
        code = df_local_scratch(&st->local, batch, &new, err);
    if (code == DF_OK)
        code = df_s3_get(st->s3, key, old, NULL, err);
    if (code == DF_OK)
        code = df_local_end(old, &from.fd, &from.raw.size, err);
    if (code == DF_OK)
        code = encrypt_anew(st, &from, new, err);
    if (code == DF_OK)
        code = df_local_end(new, &fd, &size, err);
    if (code == DF_OK)
        code = df_s3_put(st->s3, key, fd, size, err);
    df_local_abort(old);
    df_local_abort(new);
    return code;
}

enum df_code df_storage_rekey_scheduled(struct df_storage *st, const struct df_uuid *batch,
                                        const char *location, bool look_only,
                                        struct df_rekeyed *ret, struct df_err *err)
{
    char beginning[DF_CRYPT_HEADER_BYTES];
    const char *key;
    size_t n = 0;
    uint64_t size;
    enum df_code code = df_storage_object_key(st, batch, location, &key, err);

    if (code == DF_OK)
        code = df_s3_read(st->s3, key, 0, beginning, sizeof(beginning), &n, &size, err);
    if (code != DF_OK)
        return code;
    look_at(st, df_str_n(beginning, n), ret);
    if (!ret->current && !look_only) {
        code = replace_object(st, batch, key, err);
        ret->changed = code == DF_OK;
    }
    return code;
}

enum df_code df_storage_remove_object(struct df_storage *st, const struct df_uuid *batch,
                                      const char *location, struct df_err *err)
{
    const char *key;
    enum df_code code = df_storage_object_key(st, batch, location, &key, err);

    return code == DF_OK ? df_s3_remove(st->s3, key, err) : code;
}
