#define ZLIB_CONST /* what is packed is not changed */

#include "backup/parcel.h"

#include "base/mem.h"
#include "files/crypt.h"

#include <sodium.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define LABEL       "backup"
#define CHUNK_BYTES 65536

static const char magic[8] = {'D', 'F', 'B', 'K', 1, 0, 0, 0};

/* --- keys --- */

static struct df_secret *secret_of(const unsigned char key[DF_KEY_BYTES])
{
    char text[2 * DF_KEY_BYTES + 1];

    (void)sodium_bin2hex(text, sizeof text, key, DF_KEY_BYTES);
    struct df_secret *s = df_secret_key_new(df_str_n(text, sizeof text - 1));
    df_wipe(text, sizeof text);
    return s;
}

enum df_code df_parcel_key_draw(struct df_parcel_key *k, struct df_master *master,
                                const struct df_clock *clock, struct df_err *err)
{
    unsigned char key[DF_KEY_BYTES];
    struct df_buf wrapped;

    df_buf_init(&wrapped, DF_WRAPPED_MAX);
    df_random(clock, key, sizeof key);
    enum df_code code = master->ops->wrap(master, DF_STR(LABEL), key, &wrapped, err);
    if (code == DF_OK && df_buf_failed(&wrapped))
        code = df_err_set(err, DF_E_INTERNAL, "the wrapped key is longer than %d bytes",
                          DF_WRAPPED_MAX);
    if (code == DF_OK) {
        *k = (struct df_parcel_key){.key = secret_of(key), .wrapped_len = wrapped.len};
        memcpy(k->wrapped, wrapped.ptr, wrapped.len);
        memcpy(k->master_id, master->id, sizeof k->master_id);
    }
    df_wipe(key, sizeof key);
    df_buf_release(&wrapped);
    return code;
}

void df_parcel_key_release(struct df_parcel_key *k)
{
    df_secret_free(k->key);
    *k = (struct df_parcel_key){.key = NULL};
}

/* --- writing --- */

struct df_parcel_writer {
    int fd;
    struct df_crypt_writer *crypt;
    z_stream z;
    unsigned char out[CHUNK_BYTES];
};

static enum df_code put_bytes(void *arg, const void *ptr, size_t len, struct df_err *err)
{
    const struct df_parcel_writer *w = arg;
    const char *p = ptr;

    while (len > 0) {
        ssize_t n = write(w->fd, p, len);
        if (n < 0)
            return df_err_errno(err, "cannot write a backup");
        p += n;
        len -= (size_t)n;
    }
    return DF_OK;
}

static enum df_code put_head(struct df_parcel_writer *w, const struct df_parcel_key *key,
                             struct df_err *err)
{
    size_t id_len = strlen(key->master_id);
    unsigned char head[DF_PARCEL_HEAD_BYTES];

    memcpy(head, magic, sizeof magic);
    head[8] = (unsigned char)id_len;
    head[9] = (unsigned char)(id_len >> 8);
    head[10] = (unsigned char)key->wrapped_len;
    head[11] = (unsigned char)(key->wrapped_len >> 8);
    enum df_code code = put_bytes(w, head, sizeof head, err);
    if (code == DF_OK)
        code = put_bytes(w, key->master_id, id_len, err);
    return code == DF_OK ? put_bytes(w, key->wrapped, key->wrapped_len, err) : code;
}

enum df_code df_parcel_create(const struct df_parcel_key *key, int fd, bool compress,
                              struct df_parcel_writer **ret, struct df_err *err)
{
    const struct df_crypt_keys keys = {.given = key->key};
    struct df_parcel_writer *w = df_calloc(1, sizeof *w);

    w->fd = fd;
    if (deflateInit(&w->z, compress ? Z_BEST_SPEED : Z_NO_COMPRESSION) != Z_OK)
        df_oom();
    enum df_code code = put_head(w, key, err);
    if (code == DF_OK)
        code = df_crypt_writer_new(&keys, (struct df_crypt_sink){put_bytes, w}, &w->crypt, err);
    if (code == DF_OK)
        *ret = w;
    else
        df_parcel_abort(w);
    return code;
}

static enum df_code deflate_some(struct df_parcel_writer *w, int flush, struct df_err *err)
{
    enum df_code code = DF_OK;

    do {
        w->z.next_out = w->out;
        w->z.avail_out = sizeof w->out;
        if (deflate(&w->z, flush) == Z_STREAM_ERROR)
            abort(); /* cannot happen: the stream was made by deflateInit */
        code = df_crypt_write(w->crypt, w->out, sizeof w->out - w->z.avail_out, err);
    } while (code == DF_OK && w->z.avail_out == 0);
    return code;
}

enum df_code df_parcel_write(struct df_parcel_writer *w, const void *ptr, size_t len,
                             struct df_err *err)
{
    w->z.next_in = ptr;
    w->z.avail_in = (uInt)len;
    return deflate_some(w, Z_NO_FLUSH, err);
}

enum df_code df_parcel_finish(struct df_parcel_writer *take_w, struct df_err *err)
{
    take_w->z.avail_in = 0;
    enum df_code code = deflate_some(take_w, Z_FINISH, err);
    if (code == DF_OK)
        code = df_crypt_end(take_w->crypt, err);
    df_parcel_abort(take_w);
    return code;
}

void df_parcel_abort(struct df_parcel_writer *take_w)
{
    if (!take_w)
        return;
    df_crypt_writer_free(take_w->crypt);
    (void)deflateEnd(&take_w->z);
    free(take_w);
}

/* --- reading --- */

struct df_parcel_reader {
    int fd;
    const char *name;
    size_t head_len;
    struct df_crypt_reader *crypt;
    struct df_bytes plain;
    uint64_t at;
    bool ended;
    z_stream z;
    unsigned char in[CHUNK_BYTES];
};

bool df_parcel_head_read(struct df_str beginning, struct df_parcel_head *ret)
{
    const unsigned char *p = (const unsigned char *)beginning.ptr;

    if (beginning.len < DF_PARCEL_HEAD_BYTES || memcmp(p, magic, sizeof magic) != 0)
        return false;
    size_t id_len = p[8] | (size_t)p[9] << 8, wrapped_len = p[10] | (size_t)p[11] << 8;
    if (id_len > DF_MASTER_ID_MAX || wrapped_len > DF_WRAPPED_MAX || wrapped_len == 0 ||
        beginning.len - DF_PARCEL_HEAD_BYTES < id_len + wrapped_len)
        return false;
    const char *id = beginning.ptr + DF_PARCEL_HEAD_BYTES;
    for (size_t i = 0; i < id_len; i++)
        if (id[i] <= ' ' || id[i] > '~')
            return false;
    memcpy(ret->master_id, id, id_len);
    ret->master_id[id_len] = '\0';
    ret->wrapped = df_str_n(id + id_len, wrapped_len);
    ret->len = DF_PARCEL_HEAD_BYTES + id_len + wrapped_len;
    return true;
}

static enum df_code damaged(const struct df_parcel_reader *r, struct df_err *err)
{
    return df_err_set(err, DF_E_INTERNAL, "%s is damaged", r->name);
}

static enum df_code read_raw(void *arg, uint64_t offset, char *ptr, size_t len, size_t *ret_len,
                             struct df_err *err)
{
    const struct df_parcel_reader *r = arg;
    ssize_t n = pread(r->fd, ptr, len, (off_t)(r->head_len + offset));

    if (n < 0)
        return df_err_errno(err, "cannot read %s", r->name);
    *ret_len = (size_t)n;
    return DF_OK;
}

/* Has the masters open the wrapped key, unless it is that of the last parcel. */
static enum df_code open_key(struct df_parcel_opener *o, const struct df_parcel_head *head,
                             const char *name, struct df_err *err)
{
    unsigned char key[DF_KEY_BYTES];
    enum df_code code = DF_E_CONFIG;

    if (o->last.key && head->wrapped.len == o->last.wrapped_len &&
        memcmp(head->wrapped.ptr, o->last.wrapped, head->wrapped.len) == 0)
        return DF_OK;
    for (size_t i = 0; i < DF_PARCEL_MASTERS && code == DF_E_CONFIG; i++) {
        struct df_master *m = o->masters[i];
        if (m && strcmp(m->id, head->master_id) == 0)
            code = m->ops->unwrap(m, DF_STR(LABEL), head->wrapped, key, err);
    }
    if (code == DF_E_CONFIG)
        return df_err_set(err, code,
                          "%s is under the master key %s, which is not here: give it by "
                          "security.master_key_file, or as data_dir/master.key",
                          name, head->master_id);
    if (code != DF_OK)
        return code;
    df_parcel_key_release(&o->last);
    o->last = (struct df_parcel_key){.key = secret_of(key), .wrapped_len = head->wrapped.len};
    memcpy(o->last.wrapped, head->wrapped.ptr, head->wrapped.len);
    df_wipe(key, sizeof key);
    return DF_OK;
}

static enum df_code open_parcel(struct df_parcel_reader *r, struct df_parcel_opener *o,
                                struct df_err *err)
{
    char beginning[DF_PARCEL_HEAD_BYTES + DF_MASTER_ID_MAX + DF_WRAPPED_MAX];
    struct df_parcel_head head = {.len = 0};
    struct stat st;
    ssize_t n = pread(r->fd, beginning, sizeof beginning, 0);

    if (n < 0 || fstat(r->fd, &st) != 0)
        return df_err_errno(err, "cannot read %s", r->name);
    if (!df_parcel_head_read(df_str_n(beginning, (size_t)n), &head))
        return df_err_set(err, DF_E_INTERNAL, "%s is damaged, or no file of a backup", r->name);
    enum df_code code = open_key(o, &head, r->name, err);
    if (code != DF_OK)
        return code;
    r->head_len = head.len;
    const struct df_crypt_keys keys = {.given = o->last.key};
    const struct df_bytes raw = {
        .read_at = read_raw, .arg = r, .size = (uint64_t)st.st_size - head.len};
    code = df_crypt_open(&raw, &keys, &r->crypt, err);
    if (code == DF_OK)
        r->plain = df_crypt_bytes(r->crypt);
    return code == DF_E_CONFIG || code == DF_E_INTERNAL ? damaged(r, err) : code;
}

enum df_code df_parcel_open(struct df_parcel_opener *opener, int fd, const char *name,
                            struct df_parcel_reader **ret, struct df_err *err)
{
    struct df_parcel_reader *r = df_calloc(1, sizeof *r);

    r->fd = fd;
    r->name = name;
    if (inflateInit(&r->z) != Z_OK)
        df_oom();
    enum df_code code = open_parcel(r, opener, err);
    if (code == DF_OK)
        *ret = r;
    else
        df_parcel_close(r);
    return code;
}

static enum df_code fill_input(struct df_parcel_reader *r, struct df_err *err)
{
    size_t n = 0;
    enum df_code code = r->plain.read_at(r->plain.arg, r->at, (char *)r->in, sizeof r->in, &n, err);

    if (code == DF_E_INTERNAL || (code == DF_OK && n == 0))
        return damaged(r, err);
    r->at += n;
    r->z.next_in = r->in;
    r->z.avail_in = (uInt)n;
    return code;
}

enum df_code df_parcel_read(struct df_parcel_reader *r, void *ptr, size_t len, size_t *ret_len,
                            struct df_err *err)
{
    r->z.next_out = ptr;
    r->z.avail_out = (uInt)len;
    while (!r->ended && r->z.avail_out > 0) {
        enum df_code code = r->z.avail_in == 0 ? fill_input(r, err) : DF_OK;
        if (code != DF_OK)
            return code;
        int rc = inflate(&r->z, Z_NO_FLUSH);
        if (rc == Z_STREAM_END && r->z.avail_in == 0 && r->at == r->plain.size)
            r->ended = true;
        else if (rc != Z_OK)
            return damaged(r, err);
    }
    *ret_len = len - r->z.avail_out;
    return DF_OK;
}

void df_parcel_close(struct df_parcel_reader *r)
{
    if (!r)
        return;
    df_crypt_reader_free(r->crypt);
    (void)inflateEnd(&r->z);
    free(r);
}
