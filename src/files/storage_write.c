/*
 * Uploads on their way to the disk or to the outside storage: encrypted, and hashed. What goes to
 * the outside storage is gathered in memory until it is a part (storage.h tells how parts are
 * sent); nothing of it is on the disk.
 */
#include "base/mem.h"
#include "files/storage_private.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define SPILL_BYTES ((size_t)1 << 20) /* that may be written to a part that is full */

struct df_storage_writer {
    struct df_local_file *file;    /* NULL: it goes to the outside storage */
    struct df_crypt_writer *crypt; /* NULL: plain */
    struct df_checksum *hash;
    uint64_t size;
    char beginning[DF_CRYPT_MAGIC_BYTES];

    /* To the outside storage. `filling` belongs to whoever writes, the object and `sending` to
     * whoever sends. */
    struct df_s3_writer *object;
    size_t part_bytes;
    struct df_buf filling;
    struct df_buf sending; /* empty: nothing was taken */
};

bool df_storage_is_remote(const struct df_storage *st)
{
    return st->takes_uploads;
}

/* The parts of a file whose plain size is known. */
static size_t part_bytes_of(int64_t size)
{
    uint64_t plain = size > 0 ? (uint64_t)size : 0;

    return df_s3_part_bytes(DF_CRYPT_HEADER_BYTES + plain +
                            (plain / DF_CRYPT_SEGMENT_BYTES + 1) * DF_CRYPT_EXTRA_BYTES);
}

size_t df_storage_writer_bytes(const struct df_storage *st, int64_t size)
{
    size_t part = part_bytes_of(size);

    if (!st->takes_uploads)
        return 0;
    return size >= 0 && (uint64_t)size < part ? (size_t)size : 2 * part;
}

/* --- the writer --- */

static enum df_code put_encrypted(void *arg, const void *ptr, size_t len, struct df_err *err)
{
    return df_local_write(arg, ptr, len, err);
}

struct df_crypt_sink df_storage_sink(struct df_local_file *f)
{
    return (struct df_crypt_sink){.put = put_encrypted, .arg = f};
}

static enum df_code put_in_part(void *arg, const void *ptr, size_t len, struct df_err *err)
{
    struct df_storage_writer *w = arg;

    df_buf_add(&w->filling, ptr, len);
    return df_buf_failed(&w->filling)
               ? df_err_set(err, DF_E_INTERNAL,
                            "a part of an upload was not taken when it was full")
               : DF_OK;
}

static void free_writer(struct df_storage_writer *w)
{
    df_crypt_writer_free(w->crypt);
    df_checksum_free(w->hash);
    df_s3_writer_free(w->object);
    df_buf_release(&w->filling);
    df_buf_release(&w->sending);
    free(w);
}

static enum df_code begin_object(struct df_storage *st, const struct df_uuid *batch, int64_t size,
                                 struct df_storage_writer *w, struct df_err *err)
{
    char key[DF_UUID_LEN + sizeof("/" DF_STORAGE_OBJECT)];

    w->part_bytes = part_bytes_of(size);
    df_buf_init(&w->filling, w->part_bytes + SPILL_BYTES);
    df_buf_init(&w->sending, w->part_bytes + SPILL_BYTES);
    (void)snprintf(key, sizeof(key), "%s/" DF_STORAGE_OBJECT, batch->text);
    return df_s3_writer_new(st->s3, key, &w->object, err);
}

enum df_code df_storage_create(struct df_storage *st, const struct df_uuid *batch, int64_t size,
                               struct df_storage_writer **ret, struct df_err *err)
{
    struct df_storage_writer *w = df_calloc(1, sizeof(*w));
    struct df_crypt_sink sink = {.put = put_in_part, .arg = w};

    enum df_code code = st->takes_uploads
                            ? begin_object(st, batch, size, w, err)
                            : df_local_create(&st->local, batch, false, &w->file, err);
    if (w->file)
        sink = df_storage_sink(w->file);
    if (code == DF_OK && (st->keys.given || st->keys.ring))
        code = df_crypt_writer_new(&st->keys, sink, &w->crypt, err);
    if (code != DF_OK) {
        df_local_abort(w->file);
        free_writer(w);
        return code;
    }
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
    if (w->crypt)
        return df_crypt_write(w->crypt, ptr, len, err);
    return w->file ? df_local_write(w->file, ptr, len, err) : put_in_part(w, ptr, len, err);
}

/* --- parts --- */

/* A part is taken only when there is more, because the last one is sent by df_storage_finish. */
bool df_storage_part_is_full(const struct df_storage_writer *w)
{
    return w->object && w->filling.len > w->part_bytes;
}

void df_storage_part_take(struct df_storage_writer *w)
{
    struct df_buf full = w->filling;

    assert(df_storage_part_is_full(w) && w->sending.len == 0);
    w->filling = w->sending;
    df_buf_add(&w->filling, full.ptr + w->part_bytes, full.len - w->part_bytes);
    full.len = w->part_bytes;
    w->sending = full;
}

enum df_code df_storage_part_send(struct df_storage_writer *w, struct df_err *err)
{
    enum df_code code = df_s3_writer_send(w->object, df_buf_str(&w->sending), false, err);

    df_buf_reset(&w->sending);
    return code;
}

static enum df_code finish_object(struct df_storage_writer *w, struct df_err *err)
{
    enum df_code code = DF_OK;

    while (code == DF_OK && df_storage_part_is_full(w)) {
        df_storage_part_take(w);
        code = df_storage_part_send(w, err);
    }
    if (code == DF_OK)
        code = df_s3_writer_send(w->object, df_buf_str(&w->filling), true, err);
    if (code != DF_OK)
        df_s3_writer_abort(w->object);
    return code;
}

/* --- the end --- */

enum df_code df_storage_finish(struct df_storage_writer *take_w, struct df_str file_name,
                               char ret_checksum[DF_CHECKSUM_LEN + 1], uint64_t *ret_size,
                               struct df_err *err)
{
    char name[DF_STORAGE_NAME_MAX + 1];
    enum df_code code = take_w->crypt ? df_crypt_end(take_w->crypt, err) : DF_OK;

    df_storage_file_name(file_name, name);
    if (code != DF_OK) {
        df_storage_abort(take_w);
        return code;
    }
    code = take_w->file ? df_local_finish(take_w->file, name, err) : finish_object(take_w, err);
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
    if (take_w->object)
        df_s3_writer_abort(take_w->object);
    free_writer(take_w);
}

void df_storage_leave(struct df_storage_writer *take_w)
{
    free_writer(take_w);
}
