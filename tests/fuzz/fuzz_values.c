/*
 * Small texts that come from anybody or out of a file: times, UUIDs, base64, Retry-After,
 * maintenance windows, time zones, Accept-Language, texts to be translated. The first byte chooses.
 * What passes says the same when it is written and read again, and whoever asks it gets an answer
 * that can be.
 */
#include "access/maintenance.h"
#include "base/base64.h"
#include "base/lang.h"
#include "base/uuid.h"
#include "base/zone.h"
#include "net/call.h"
#include "net/language.h"

#include <stdlib.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            abort();                                                                               \
    } while (0)

#define DAY_MS ((int64_t)24 * 3600 * 1000)

static const int64_t moments[] = {0,
                                  1,
                                  -1,
                                  1700000000000,
                                  1793000000123,
                                  -62135596800000,
                                  253402300799999,
                                  4102444800000,
                                  951782400000};

static void check_time(struct df_str s)
{
    int64_t ms = 0, again = 0;
    char text[DF_TIME_LEN + 1];
    if (!df_time_parse(s, &ms))
        return;
    df_time_format(ms, text);
    CHECK(df_time_parse(df_str_c(text), &again) && again == ms);
}

static void check_uuid(struct df_str s)
{
    struct df_uuid id, again;
    if (df_uuid_parse(s, &id))
        CHECK(df_uuid_parse(df_str_c(id.text), &again) && strcmp(id.text, again.text) == 0);
}

/* What comes of the text in pieces of that size; -1: it is wrong. */
static int64_t decode(struct df_str s, size_t step, char *out)
{
    struct df_base64 d;
    struct df_err err = DF_ERR_INIT;
    size_t len = 0, got = 0;
    df_base64_init(&d);
    for (size_t at = 0; at < s.len; at += step) {
        struct df_str part = df_str_n(s.ptr + at, s.len - at < step ? s.len - at : step);
        if (df_base64_feed(&d, part, out + len, &got, &err) != DF_OK)
            return -1;
        CHECK(got <= DF_BASE64_ROOM(part.len));
        len += got;
    }
    if (df_base64_finish(&d, out + len, &got, &err) != DF_OK)
        return -1;
    return (int64_t)(len + got);
}

static void check_base64(struct df_str s)
{
    size_t room = DF_BASE64_ROOM(s.len) + 64;
    char *whole = malloc(room), *pieces = malloc(room);
    CHECK(whole && pieces);
    int64_t len = decode(s, s.len + 1, whole);
    CHECK(decode(s, 3, pieces) == len);
    CHECK(len < 0 || memcmp(whole, pieces, (size_t)len) == 0);
    free(whole);
    free(pieces);
}

static void check_retry_after(struct df_str s)
{
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        int64_t ms = df_retry_after_ms(s, moments[i]);
        CHECK(ms >= -1 && ms <= DAY_MS);
    }
}

static void check_maintenance(struct df_str s)
{
    struct df_maintenance m = {.count = 0};
    struct df_err err = DF_ERR_INIT;
    if (df_maintenance_add(&m, s, &err) != DF_OK) {
        CHECK(m.count == 0);
        return;
    }
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        struct df_maintenance_times t = df_maintenance_next(&m, moments[i]);
        if (moments[i] < 0) /* before 1970, as -1 is */
            continue;
        CHECK(t.since_ms <= moments[i] && (t.until_ms < 0 || t.until_ms > moments[i]));
        if (t.next_ms >= 0)
            CHECK(t.next_ms > moments[i] &&
                  df_maintenance_next(&m, t.next_ms).until_ms > t.next_ms);
    }
}

static void check_zone(struct df_str s)
{
    struct df_zone *zone = NULL;
    struct df_err err = DF_ERR_INIT;
    if (df_zone_parse(s, &zone, &err) != DF_OK)
        return;
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        int32_t east = df_zone_offset(zone, moments[i]);
        CHECK(east > -200000 && east < 200000);
        struct df_date_time shown = df_zone_local(zone, moments[i]);
        CHECK(shown.month >= 1 && shown.month <= 12 && shown.day >= 1 && shown.day <= 31);
        CHECK(shown.hour >= 0 && shown.hour < 24);
        (void)df_zone_to_utc(zone, &shown);
    }
    df_zone_free(zone);
}

/* Whoever asks for Portuguese before everything else gets it, whatever follows. */
static void check_language(struct df_str s)
{
    struct df_language_ask ask = {0};

    df_language_read(&ask, DF_STR("pt-BR, en;q=0"));
    df_language_read(&ask, s);
    CHECK(ask.ranges <= DF_LANGUAGE_RANGES_MAX);
    enum df_lang first = df_language_choose(&ask);
    CHECK(first == DF_LANG_PT || ask.want[DF_LANG_EN].quality > 0);
    ask = (struct df_language_ask){0};
    df_language_read(&ask, s);
    (void)df_language_choose(&ask);
}

/* A text that no entry has stays as it is; one that an entry has is valid if it was. */
static void check_translation(struct df_str s)
{
    struct df_arena a = {0};
    struct df_str text = df_lang_text(DF_LANG_PT, s, &a);

    CHECK(text.len <= s.len || text.len <= 2 * DF_LANG_TEXT_MAX);
    if (df_utf8_valid_prefix(s) == s.len)
        CHECK(df_utf8_valid_prefix(text) == text.len);
    df_arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const checks[])(struct df_str) = {
        check_time, check_uuid, check_base64, check_retry_after, check_maintenance, check_zone};
    static void (*const more[])(struct df_str) = {check_language, check_translation};
    if (size == 0)
        return 0;
    /* Exactly as long as it is, so that reading past its end is seen. */
    char *copy = malloc(size);
    CHECK(copy);
    memcpy(copy, data + 1, size - 1);
    /* Seeds that are older than `more` keep their meaning. */
    if (data[0] >= 0xFE)
        more[data[0] - 0xFE](df_str_n(copy, size - 1));
    else
        checks[data[0] % (sizeof checks / sizeof checks[0])](df_str_n(copy, size - 1));
    free(copy);
    return 0;
}
