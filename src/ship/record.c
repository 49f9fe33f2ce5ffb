/* Records of the spool. Numbers are little-endian; the checksum is over everything behind it. */
#include "ship/spool.h"

#include <zlib.h>

/* Bytes that no line has: a line is UTF-8. */
static const char MARK[] = {'\xDF', '\xFE', '\x4C', '\x31'};
#define MARK_LEN sizeof(MARK)

static void put_u32(char *out, uint32_t v)
{
    for (unsigned i = 0; i < 4; i++)
        out[i] = (char)(v >> (8 * i));
}

static uint32_t get_u32(const char *in)
{
    uint32_t v = 0;

    for (unsigned i = 0; i < 4; i++)
        v |= (uint32_t)(unsigned char)in[i] << (8 * i);
    return v;
}

static uint32_t checksum_of(const char *rest_of_head, struct df_str text)
{
    uLong crc = crc32(0, (const Bytef *)rest_of_head, DF_SPOOL_HEAD - 8);

    return (uint32_t)crc32(crc, (const Bytef *)text.ptr, (uInt)text.len);
}

void df_spool_put_head(char out[DF_SPOOL_HEAD], int64_t time_ns, enum df_log_level level,
                       struct df_str text)
{
    memcpy(out, MARK, MARK_LEN);
    put_u32(out + 8, (uint32_t)text.len);
    put_u32(out + 12, (uint32_t)level);
    put_u32(out + 16, (uint32_t)((uint64_t)time_ns & UINT32_MAX));
    put_u32(out + 20, (uint32_t)((uint64_t)time_ns >> 32));
    put_u32(out + 4, checksum_of(out + 8, text));
}

/* At a mark. 0: no record; SIZE_MAX: perhaps one that goes on behind the data. */
static size_t parse_record(struct df_str data, struct df_spool_record *ret)
{
    if (data.len < DF_SPOOL_HEAD)
        return SIZE_MAX;
    uint32_t len = get_u32(data.ptr + 8), level = get_u32(data.ptr + 12);
    if (len > DF_SPOOL_LINE_MAX || level > DF_LOG_ERROR)
        return 0;
    if (data.len < DF_SPOOL_HEAD + len)
        return SIZE_MAX;
    struct df_str text = df_str_n(data.ptr + DF_SPOOL_HEAD, len);
    if (checksum_of(data.ptr + 8, text) != get_u32(data.ptr + 4))
        return 0;
    ret->time_ns =
        (int64_t)((uint64_t)get_u32(data.ptr + 20) << 32 | (uint64_t)get_u32(data.ptr + 16));
    ret->level = (enum df_log_level)level;
    ret->text = text;
    return DF_SPOOL_HEAD + len;
}

size_t df_spool_find(struct df_str data, bool all, struct df_spool_record *ret, size_t *ret_skipped)
{
    size_t at = 0;

    while (at + MARK_LEN <= data.len) {
        const char *mark = memmem(data.ptr + at, data.len - at, MARK, MARK_LEN);
        if (!mark)
            break;
        at = (size_t)(mark - data.ptr);
        size_t len = parse_record(df_str_n(mark, data.len - at), ret);
        if (len != 0 && (len != SIZE_MAX || !all)) {
            *ret_skipped = at;
            return len == SIZE_MAX ? 0 : len;
        }
        at++;
    }
    /* The last bytes may be the begin of a mark. */
    size_t tail = all ? 0 : MARK_LEN - 1;
    *ret_skipped = data.len > at + tail ? data.len - tail : all ? data.len : at;
    return 0;
}
