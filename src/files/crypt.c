/*
 * One secretstream for the whole file would not do: it can only be read from its start, and the
 * workbook parser reads the end first. Each segment is a secretstream because libsodium recommends
 * it for files, it draws its own nonce, and any program with the library and docs/storage.md can
 * read a segment.
 */
#include "files/crypt.h"

#include "base/mem.h"

#include <assert.h>
#include <sodium.h>
#include <stdlib.h>

#define KEY_BYTES    32
#define ID_BYTES     16
#define KEY_ID_BYTES 8
#define HEAD_BYTES   crypto_secretstream_xchacha20poly1305_HEADERBYTES
#define STORED_BYTES (DF_CRYPT_SEGMENT_BYTES + DF_CRYPT_EXTRA_BYTES)
#define LABEL_BYTES  (ID_BYTES + 8 + 8 + 1)

static_assert(HEAD_BYTES + crypto_secretstream_xchacha20poly1305_ABYTES == DF_CRYPT_EXTRA_BYTES,
              "the format's figures are libsodium's");
static_assert(crypto_secretstream_xchacha20poly1305_KEYBYTES == KEY_BYTES,
              "the format's key is as long as libsodium's");
static_assert(DF_CRYPT_MAGIC_BYTES + ID_BYTES + KEY_ID_BYTES == DF_CRYPT_HEADER_BYTES,
              "the header is magic, file id and key id");

/* The last three bytes are the version and two spare ones. A text has no NUL, and an archive begins
 * with other letters. */
/* A key id that names a data key: these letters and its number. */
static const unsigned char data_key_mark[4] = {'D', 'K', 0, 0};

static const char magic[DF_CRYPT_MAGIC_BYTES] = {'D', 'F', 'E', '1', 0, 1, 0, 0};

struct file_key {
    unsigned char bytes[KEY_BYTES];
    unsigned char id[ID_BYTES];
};

struct df_crypt_writer {
    struct df_crypt_sink sink;
    struct file_key key;
    uint64_t index; /* of the segment being filled */
    size_t used;
    unsigned char plain[DF_CRYPT_SEGMENT_BYTES];
    unsigned char stored[STORED_BYTES];
};

struct df_crypt_reader {
    struct df_bytes raw;
    struct file_key key;
    uint64_t size;  /* plain */
    uint64_t count; /* of segments, at least 1 */
    uint64_t index; /* of the segment in plain; count: none */
    unsigned char plain[DF_CRYPT_SEGMENT_BYTES];
    unsigned char stored[STORED_BYTES];
};

/* --- keys --- */

/* BLAKE2b with the key, as in crypto_kdf, but with a salt that has room for a file's id. */
static void derive_bytes(const unsigned char key[KEY_BYTES], const unsigned char salt[ID_BYTES],
                         const char *purpose, unsigned char *out, size_t len)
{
    unsigned char personal[crypto_generichash_blake2b_PERSONALBYTES] = {0};

    memcpy(personal, purpose, strnlen(purpose, sizeof(personal)));
    if (crypto_generichash_blake2b_salt_personal(out, len, NULL, 0, key, KEY_BYTES, salt,
                                                 personal) != 0)
        abort();
}

static const unsigned char *bytes_of(const struct df_secret *key)
{
    return (const unsigned char *)df_secret_str(key).ptr;
}

static void given_key_id(const struct df_secret *key, unsigned char out[KEY_ID_BYTES])
{
    static const unsigned char salt[ID_BYTES];
    unsigned char hash[KEY_BYTES];

    derive_bytes(bytes_of(key), salt, "DataFlow key id", hash, sizeof(hash));
    memcpy(out, hash, KEY_ID_BYTES);
}

static void data_key_id(uint32_t id, unsigned char out[KEY_ID_BYTES])
{
    memcpy(out, data_key_mark, sizeof(data_key_mark));
    for (int i = 0; i < 4; i++)
        out[4 + i] = (unsigned char)(id >> (8 * i));
}

/* 0: the id names no data key. */
static uint32_t id_of_data_key(const unsigned char key_id[KEY_ID_BYTES])
{
    if (memcmp(key_id, data_key_mark, sizeof(data_key_mark)) != 0)
        return 0;
    return (uint32_t)key_id[4] | (uint32_t)key_id[5] << 8 | (uint32_t)key_id[6] << 16 |
           (uint32_t)key_id[7] << 24;
}

static void derive_file_key(const unsigned char key[KEY_BYTES], const unsigned char id[ID_BYTES],
                            struct file_key *ret)
{
    memcpy(ret->id, id, ID_BYTES);
    derive_bytes(key, id, "DataFlow file", ret->bytes, sizeof(ret->bytes));
}

/* The id of the key that a new file would be written with. */
static void writing_key_id(const struct df_crypt_keys *keys, unsigned char out[KEY_ID_BYTES])
{
    if (keys->given)
        given_key_id(keys->given, out);
    else
        data_key_id(df_keys_current(keys->ring), out);
}

/* Makes the file's own key from the one that key_id names. False: it is not among the keys. */
static bool make_file_key(const struct df_crypt_keys *keys,
                          const unsigned char key_id[KEY_ID_BYTES],
                          const unsigned char id[ID_BYTES], struct file_key *ret)
{
    const struct df_secret *const given[] = {keys->given, keys->old};
    unsigned char own[KEY_ID_BYTES], key[KEY_BYTES];
    uint32_t data_key = id_of_data_key(key_id);

    for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
        if (!given[i])
            continue;
        given_key_id(given[i], own);
        if (memcmp(own, key_id, KEY_ID_BYTES) == 0) {
            derive_file_key(bytes_of(given[i]), id, ret);
            return true;
        }
    }
    if (data_key == 0 || !keys->ring || !df_keys_derive(keys->ring, data_key, DF_KEY_FILE, key))
        return false;
    derive_file_key(key, id, ret);
    df_wipe(key, sizeof(key));
    return true;
}

uint32_t df_crypt_data_key(struct df_str beginning)
{
    if (beginning.len < DF_CRYPT_HEADER_BYTES || !df_crypt_is_encrypted(beginning))
        return 0;
    return id_of_data_key((const unsigned char *)beginning.ptr + DF_CRYPT_MAGIC_BYTES + ID_BYTES);
}

bool df_crypt_is_current(const struct df_crypt_keys *keys, struct df_str beginning)
{
    unsigned char id[KEY_ID_BYTES];

    if (!keys->given && !keys->ring)
        return !df_crypt_is_encrypted(beginning);
    if (beginning.len < DF_CRYPT_HEADER_BYTES || !df_crypt_is_encrypted(beginning))
        return false;
    writing_key_id(keys, id);
    return memcmp(beginning.ptr + DF_CRYPT_MAGIC_BYTES + ID_BYTES, id, sizeof(id)) == 0;
}

/* --- segments --- */

static void put_u64(unsigned char *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

/* The segment's label: its place in the file. It is authenticated but not stored. */
static void make_label(const struct file_key *key, uint64_t index, size_t len, bool last,
                       unsigned char label[LABEL_BYTES])
{
    memcpy(label, key->id, ID_BYTES);
    put_u64(label + ID_BYTES, index);
    put_u64(label + ID_BYTES + 8, index * DF_CRYPT_SEGMENT_BYTES + len);
    label[ID_BYTES + 16] = last ? 1 : 0;
}

static void seal_segment(const struct file_key *key, uint64_t index, bool last,
                         const unsigned char *plain, size_t len, unsigned char *stored)
{
    crypto_secretstream_xchacha20poly1305_state state;
    unsigned char label[LABEL_BYTES];

    make_label(key, index, len, last, label);
    if (crypto_secretstream_xchacha20poly1305_init_push(&state, stored, key->bytes) != 0 ||
        crypto_secretstream_xchacha20poly1305_push(
            &state, stored + HEAD_BYTES, NULL, plain, len, label, sizeof(label),
            crypto_secretstream_xchacha20poly1305_TAG_FINAL) != 0)
        abort();
    df_wipe(&state, sizeof(state));
}

static bool unseal_segment(const struct file_key *key, uint64_t index, bool last,
                           const unsigned char *stored, size_t len, unsigned char *plain)
{
    crypto_secretstream_xchacha20poly1305_state state;
    unsigned char label[LABEL_BYTES];
    unsigned char tag;

    make_label(key, index, len, last, label);
    bool ok = crypto_secretstream_xchacha20poly1305_init_pull(&state, stored, key->bytes) == 0 &&
              crypto_secretstream_xchacha20poly1305_pull(
                  &state, plain, NULL, &tag, stored + HEAD_BYTES,
                  len + crypto_secretstream_xchacha20poly1305_ABYTES, label, sizeof(label)) == 0 &&
              tag == crypto_secretstream_xchacha20poly1305_TAG_FINAL;
    df_wipe(&state, sizeof(state));
    return ok;
}

/* --- writing --- */

enum df_code df_crypt_writer_new(const struct df_crypt_keys *keys, struct df_crypt_sink sink,
                                 struct df_crypt_writer **ret, struct df_err *err)
{
    unsigned char header[DF_CRYPT_HEADER_BYTES];
    unsigned char *id = header + DF_CRYPT_MAGIC_BYTES;

    memcpy(header, magic, sizeof(magic));
    randombytes_buf(id, ID_BYTES);
    writing_key_id(keys, id + ID_BYTES);
    enum df_code code = sink.put(sink.arg, header, sizeof(header), err);
    if (code != DF_OK)
        return code;

    struct df_crypt_writer *w = df_malloc(sizeof(*w));
    w->sink = sink;
    w->index = 0;
    w->used = 0;
    if (!make_file_key(keys, id + ID_BYTES, id, &w->key))
        abort(); /* cannot happen: it is one of them */
    *ret = w;
    return DF_OK;
}

static enum df_code put_segment(struct df_crypt_writer *w, bool last, struct df_err *err)
{
    size_t len = w->used;

    seal_segment(&w->key, w->index, last, w->plain, len, w->stored);
    w->index++;
    w->used = 0;
    return w->sink.put(w->sink.arg, w->stored, len + DF_CRYPT_EXTRA_BYTES, err);
}

/* A full segment is put only when another byte comes: until then it may be the last. */
enum df_code df_crypt_write(struct df_crypt_writer *w, const void *ptr, size_t len,
                            struct df_err *err)
{
    const char *p = ptr;
    enum df_code code = DF_OK;

    while (len > 0 && code == DF_OK) {
        if (w->used == sizeof(w->plain))
            code = put_segment(w, false, err);
        size_t room = sizeof(w->plain) - w->used;
        size_t n = len < room ? len : room;
        memcpy(w->plain + w->used, p, n);
        w->used += n;
        p += n;
        len -= n;
    }
    return code;
}

enum df_code df_crypt_end(struct df_crypt_writer *w, struct df_err *err)
{
    return put_segment(w, true, err);
}

void df_crypt_writer_free(struct df_crypt_writer *w)
{
    if (!w)
        return;
    df_wipe(w, sizeof(*w));
    free(w);
}

/* --- reading --- */

bool df_crypt_is_encrypted(struct df_str beginning)
{
    return df_str_starts(beginning, df_str_n(magic, sizeof(magic)));
}

static enum df_code damaged(struct df_err *err, uint64_t offset)
{
    return df_err_at(err, DF_E_INTERNAL, (int64_t)offset,
                     "the encrypted file is damaged at byte %llu", (unsigned long long)offset);
}

static enum df_code read_raw(struct df_crypt_reader *r, uint64_t offset, unsigned char *ptr,
                             size_t len, struct df_err *err)
{
    while (len > 0) {
        size_t n = 0;
        enum df_code code = r->raw.read_at(r->raw.arg, offset, (char *)ptr, len, &n, err);
        if (code != DF_OK)
            return code;
        if (n == 0)
            return damaged(err, offset);
        ptr += n;
        len -= n;
        offset += n;
    }
    return DF_OK;
}

static size_t segment_len(const struct df_crypt_reader *r, uint64_t index)
{
    uint64_t left = r->size - index * DF_CRYPT_SEGMENT_BYTES;
    return left < DF_CRYPT_SEGMENT_BYTES ? (size_t)left : DF_CRYPT_SEGMENT_BYTES;
}

static enum df_code load_segment(struct df_crypt_reader *r, uint64_t index, struct df_err *err)
{
    assert(index < r->count);
    if (r->index == index)
        return DF_OK;
    uint64_t offset = DF_CRYPT_HEADER_BYTES + index * STORED_BYTES;
    size_t len = segment_len(r, index);

    r->index = r->count;
    enum df_code code = read_raw(r, offset, r->stored, len + DF_CRYPT_EXTRA_BYTES, err);
    if (code != DF_OK)
        return code;
    if (!unseal_segment(&r->key, index, index == r->count - 1, r->stored, len, r->plain))
        return damaged(err, offset);
    r->index = index;
    return DF_OK;
}

static enum df_code read_plain(void *arg, uint64_t offset, char *ptr, size_t len, size_t *ret_len,
                               struct df_err *err)
{
    struct df_crypt_reader *r = arg;
    size_t done = 0;

    while (done < len && offset < r->size) {
        uint64_t index = offset / DF_CRYPT_SEGMENT_BYTES;
        size_t at = (size_t)(offset % DF_CRYPT_SEGMENT_BYTES);
        enum df_code code = load_segment(r, index, err);
        if (code != DF_OK)
            return code;
        size_t there = segment_len(r, index) - at;
        size_t n = len - done < there ? len - done : there;
        memcpy(ptr + done, r->plain + at, n);
        done += n;
        offset += n;
    }
    *ret_len = done;
    return DF_OK;
}

/* Computes size and count from the stored size. False: no encrypted file has that length. */
static bool measure_file(struct df_crypt_reader *r)
{
    if (r->raw.size < DF_CRYPT_HEADER_BYTES + DF_CRYPT_EXTRA_BYTES)
        return false;
    uint64_t body = r->raw.size - DF_CRYPT_HEADER_BYTES;
    uint64_t rest = body % STORED_BYTES;

    r->count = body / STORED_BYTES + (rest > 0 ? 1 : 0);
    r->size = body - r->count * DF_CRYPT_EXTRA_BYTES;
    r->index = r->count;
    /* A segment may be empty only if it is the file's only one. */
    return rest == 0 || rest > DF_CRYPT_EXTRA_BYTES || r->count == 1;
}

static enum df_code find_key(struct df_crypt_reader *r, const unsigned char *header,
                             const struct df_crypt_keys *keys, struct df_err *err)
{
    const unsigned char *id = header + DF_CRYPT_MAGIC_BYTES;
    const unsigned char *wanted = id + ID_BYTES;
    char hex[2 * KEY_ID_BYTES + 1];

    if (make_file_key(keys, wanted, id, &r->key))
        return DF_OK;
    if (id_of_data_key(wanted) != 0)
        return df_err_set(err, DF_E_CONFIG,
                          "the file is under data key %u, which is not known here",
                          (unsigned)id_of_data_key(wanted));
    return df_err_set(err, DF_E_CONFIG,
                      "the file is encrypted with a key (id %s) that neither "
                      "security.storage_key_file nor security.storage_old_key_file holds",
                      sodium_bin2hex(hex, sizeof(hex), wanted, KEY_ID_BYTES));
}

enum df_code df_crypt_open(const struct df_bytes *raw, const struct df_crypt_keys *keys,
                           struct df_crypt_reader **ret, struct df_err *err)
{
    unsigned char header[DF_CRYPT_HEADER_BYTES];
    struct df_crypt_reader *r = df_malloc(sizeof(*r));
    enum df_code code;

    r->raw = *raw;
    if (!measure_file(r)) {
        code = damaged(err, raw->size);
        goto out;
    }
    code = read_raw(r, 0, header, sizeof(header), err);
    if (code == DF_OK &&
        !df_crypt_is_encrypted(df_str_n((const char *)header, DF_CRYPT_MAGIC_BYTES)))
        code = damaged(err, 0);
    if (code == DF_OK)
        code = find_key(r, header, keys, err);
    if (code == DF_OK)
        code = load_segment(r, r->count - 1, err);
out:
    if (code == DF_OK)
        *ret = r;
    else
        df_crypt_reader_free(r);
    return code;
}

struct df_bytes df_crypt_bytes(struct df_crypt_reader *r)
{
    return (struct df_bytes){.read_at = read_plain, .arg = r, .size = r->size};
}

void df_crypt_reader_free(struct df_crypt_reader *r)
{
    if (!r)
        return;
    df_wipe(r, sizeof(*r));
    free(r);
}
