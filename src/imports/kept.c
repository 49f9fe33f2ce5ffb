#include "imports/kept.h"

#include "base/mem.h"
#include "keys/keys.h"

#include <stdio.h>

#define ABSENT    UINT32_MAX
#define HEAD      8 /* bytes: the lengths of both texts */
#define LABEL_MAX (DF_UUID_LEN + 24)
#define PLAIN_MAX ((size_t)32 << 20) /* a record has at most 4 MiB, an item 1 MiB */

static struct df_str label_of(const struct df_uuid *batch, int64_t sequence, char out[LABEL_MAX])
{
    int n = snprintf(out, LABEL_MAX, "%s:%lld", batch->text, (long long)sequence);
    return df_str_n(out, (size_t)n);
}

static void put_len(struct df_buf *b, struct df_str s)
{
    uint32_t len = s.ptr ? (uint32_t)s.len : ABSENT;
    unsigned char bytes[4] = {(unsigned char)(len >> 24), (unsigned char)(len >> 16),
                              (unsigned char)(len >> 8), (unsigned char)len};
    df_buf_add(b, bytes, sizeof bytes);
}

static uint32_t get_len(const char *at)
{
    const unsigned char *p = (const unsigned char *)at;
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

void import_kept_seal(struct df_keys *keys, const struct df_uuid *batch, int64_t sequence,
                      const struct import_kept *kept, struct df_buf *out)
{
    char label[LABEL_MAX];
    struct df_buf plain;

    df_buf_init(&plain, PLAIN_MAX);
    put_len(&plain, kept->record);
    put_len(&plain, kept->item);
    df_buf_adds(&plain, kept->record);
    df_buf_adds(&plain, kept->item);
    df_keys_seal(keys, DF_KEY_PAYLOAD, label_of(batch, sequence, label), df_buf_str(&plain), out);
    df_buf_release(&plain);
}

enum df_code import_kept_open(struct df_keys *keys, const struct df_uuid *batch, int64_t sequence,
                              struct df_str sealed, struct df_arena *a, struct import_kept *ret,
                              struct df_err *err)
{
    char label[LABEL_MAX];
    struct df_str plain;
    enum df_code code = df_keys_open(keys, DF_KEY_PAYLOAD, label_of(batch, sequence, label), sealed,
                                     a, &plain, err);
    if (code != DF_OK)
        return code;
    if (plain.len < HEAD)
        return df_err_set(err, DF_E_INTERNAL, "a kept record is too short");
    uint32_t record = get_len(plain.ptr), item = get_len(plain.ptr + 4);
    size_t record_len = record == ABSENT ? 0 : record, item_len = item == ABSENT ? 0 : item;
    if (plain.len - HEAD != record_len + item_len)
        return df_err_set(err, DF_E_INTERNAL, "a kept record has the wrong length");
    const char *texts = plain.ptr + HEAD;
    *ret = (struct import_kept){
        .record = record == ABSENT ? DF_STR_NULL : df_str_n(texts, record_len),
        .item = item == ABSENT ? DF_STR_NULL : df_str_n(texts + record_len, item_len),
    };
    return DF_OK;
}
