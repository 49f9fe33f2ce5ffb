/*
 * Any bytes as an encrypted file, and any damage to a real one: reading ends, is clean, and gives
 * nothing that was not written. The first byte chooses; the rest is the file, or edits of one.
 */
#include "base/buf.h"
#include "files/crypt.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PLAIN_BYTES ((size_t)DF_CRYPT_SEGMENT_BYTES + 100)
#define EDIT_BYTES  4 /* where (3), and with what */

static struct df_secret *key;
static struct df_buf whole; /* an encrypted file */

static void require(bool holds)
{
    if (!holds)
        abort();
}

static char plain_byte(uint64_t at)
{
    return (char)(at * 31 >> 2);
}

static enum df_code put(void *arg, const void *ptr, size_t len, struct df_err *err)
{
    (void)err;
    df_buf_add(arg, ptr, len);
    return DF_OK;
}

static void make_file(void)
{
    static char text[PLAIN_BYTES];
    struct df_crypt_writer *w;

    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = plain_byte(i);
    key = df_secret_key_new(DF_STR("000102030405060708090a0b0c0d0e0f"
                                   "101112131415161718191a1b1c1d1e1f"));
    df_buf_init(&whole, 1 << 20);
    struct df_crypt_sink sink = {put, &whole};
    require(df_crypt_writer_new(&(struct df_crypt_keys){.given = key}, sink, &w, NULL) == DF_OK);
    require(df_crypt_write(w, text, sizeof(text), NULL) == DF_OK);
    require(df_crypt_end(w, NULL) == DF_OK);
    df_crypt_writer_free(w);
}

static enum df_code read_buf(void *arg, uint64_t offset, char *ptr, size_t len, size_t *ret_len,
                             struct df_err *err)
{
    const struct df_buf *b = arg;
    size_t left = offset < b->len ? b->len - (size_t)offset : 0;

    (void)err;
    *ret_len = len < left ? len : left;
    if (*ret_len > 0)
        memcpy(ptr, b->ptr + offset, *ret_len);
    return DF_OK;
}

/* What can be read is what was written; only the untouched file can be read to its end. */
static void check(struct df_buf *file)
{
    struct df_bytes raw = {.read_at = read_buf, .arg = file, .size = file->len};
    const struct df_crypt_keys keys = {.given = key};
    struct df_crypt_reader *r;
    static char text[PLAIN_BYTES + 1];
    bool same = df_str_eq(df_buf_str(file), df_buf_str(&whole));
    enum df_code code = df_crypt_open(&raw, &keys, &r, NULL);

    if (code != DF_OK) {
        require(!same);
        return;
    }
    struct df_bytes bytes = df_crypt_bytes(r);
    require(bytes.size == PLAIN_BYTES);
    for (uint64_t at = 0; at < bytes.size && code == DF_OK;) {
        size_t n = 0;
        code = bytes.read_at(bytes.arg, at, text, 1000, &n, NULL);
        for (size_t i = 0; i < n && code == DF_OK; i++)
            require(text[i] == plain_byte(at + i));
        require(code != DF_OK || n > 0);
        at += n;
    }
    require((code == DF_OK) == same);
    df_crypt_reader_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct df_buf file;

    if (!key)
        make_file();
    if (size == 0)
        return 0;
    df_buf_init(&file, 4 << 20);
    if (data[0] & 1) {
        df_buf_add(&file, data + 1, size - 1);
    } else {
        df_buf_adds(&file, df_buf_str(&whole));
        for (size_t i = 1; i + EDIT_BYTES <= size; i += EDIT_BYTES) {
            size_t at = ((size_t)data[i] << 16 | (size_t)data[i + 1] << 8 | data[i + 2]);
            if (data[0] & 2 && at < file.len)
                file.len = at;
            else if (data[0] & 4)
                df_buf_addc(&file, (char)data[i + 3]);
            else if (file.len > 0)
                file.ptr[at % file.len] = (char)(file.ptr[at % file.len] ^ data[i + 3]);
        }
    }
    check(&file);
    df_buf_release(&file);
    return 0;
}
