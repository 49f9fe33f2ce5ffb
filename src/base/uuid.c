#include "base/uuid.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define TAIL_AT 24 /* the last twelve digits */

static struct df_uuid text_of(const unsigned char bytes[16])
{
    static const char hex[] = "0123456789abcdef";
    struct df_uuid u = {0};
    char *p = u.text;

    for (size_t i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *p++ = '-';
        *p++ = hex[bytes[i] >> 4];
        *p++ = hex[bytes[i] & 15];
    }
    return u;
}

static struct df_uuid finish_uuid(unsigned char bytes[16], unsigned version)
{
    bytes[6] = (unsigned char)((bytes[6] & 0x0F) | version << 4);
    bytes[8] = (unsigned char)((bytes[8] & 0x3F) | 0x80);
    return text_of(bytes);
}

struct df_uuid df_uuid_v4(const struct df_clock *clock)
{
    unsigned char bytes[16];
    df_random(clock, bytes, sizeof(bytes));
    return finish_uuid(bytes, 4);
}

/*
 * Milliseconds in the upper bits, a counter in the lower 12: each stamp is greater than all before
 * it. More than 4,096 in a millisecond borrow from the next one, and when the clock is set back,
 * stamps go on from the last. Test clocks have a last stamp of their own, which is reset when a
 * clock starts again far in the past; otherwise the stamps of one test would carry over to the
 * next.
 */
static uint64_t next_stamp(const struct df_clock *clock)
{
    static _Atomic uint64_t lasts[2];
    const uint64_t far = UINT64_C(10000) << 12;

    bool real = clock == df_clock_real();
    _Atomic uint64_t *last = &lasts[real];
    int64_t wall_ms = df_wall_ms(clock);
    uint64_t now = (uint64_t)(wall_ms < 0 ? 0 : wall_ms) << 12;
    uint64_t seen = atomic_load(last);
    uint64_t next;
    do {
        bool follow = now > seen || (!real && seen - now > far);
        next = follow ? now : seen + 1;
    } while (!atomic_compare_exchange_weak(last, &seen, next));
    return next;
}

struct df_uuid df_uuid_v7(const struct df_clock *clock)
{
    unsigned char bytes[16];
    df_random(clock, bytes + 8, 8);

    uint64_t stamp = next_stamp(clock);
    uint64_t ms = stamp >> 12;
    for (size_t i = 0; i < 6; i++)
        bytes[i] = (unsigned char)(ms >> (40 - 8 * i));
    bytes[6] = (unsigned char)(stamp >> 8 & 0x0F);
    bytes[7] = (unsigned char)stamp;
    bytes[10] = (unsigned char)(stamp >> 4);
    bytes[11] = (unsigned char)((stamp & 0x0F) << 4 | (bytes[11] & 0x0F));
    return finish_uuid(bytes, 7);
}

struct df_uuid df_uuid_after(const struct df_uuid *first, uint64_t n)
{
    struct df_uuid u = *first;
    uint64_t tail = strtoull(u.text + TAIL_AT, NULL, 16) + n;

    snprintf(u.text + TAIL_AT, sizeof(u.text) - TAIL_AT, "%012" PRIx64,
             tail & UINT64_C(0xFFFFFFFFFFFF));
    return u;
}

bool df_uuid_parse(struct df_str s, struct df_uuid *ret)
{
    struct df_uuid u;

    if (s.len == DF_UUID_LEN + 2 && s.ptr[0] == '{' && s.ptr[s.len - 1] == '}')
        s = df_str_n(s.ptr + 1, DF_UUID_LEN);
    if (s.len != DF_UUID_LEN)
        return false;
    for (size_t i = 0; i < DF_UUID_LEN; i++) {
        char c = s.ptr[i];
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (c >= 'A' && c <= 'F')
            c = (char)(c | 0x20);
        if (dash ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        u.text[i] = c;
    }
    u.text[DF_UUID_LEN] = '\0';
    *ret = u;
    return true;
}
