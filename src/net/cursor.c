/*
 * The text is base64url of "LIST:n:ID:TIME", or "o" for the oldest first. One cursor has one
 * spelling, so what is parsed and written again is the same text.
 */
#include "net/cursor.h"

#include "base/clock.h"

#include <assert.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#define VARIANT   sodium_base64_VARIANT_URLSAFE_NO_PADDING
#define PLAIN_MAX 116
#define END_MS    INT64_C(253402300799999) /* of the year 9999 */

static_assert(sodium_base64_ENCODED_LEN(PLAIN_MAX, VARIANT) <= DF_CURSOR_TEXT_MAX + 1,
              "a cursor fits its text");

bool df_cursor_set_at(struct df_cursor *c, struct df_str at)
{
    int64_t ms;

    if (at.len > DF_CURSOR_AT_MAX || !df_time_parse(at, &ms) || ms < 0 || ms > END_MS)
        return false;
    memcpy(c->at, at.ptr, at.len);
    c->at[at.len] = '\0';
    return true;
}

void df_cursor_write(const struct df_cursor *c, const char *list, char out[DF_CURSOR_TEXT_MAX + 1])
{
    char plain[PLAIN_MAX + 1], id[DF_UUID_LEN + 1];

    assert(strlen(list) <= DF_CURSOR_LIST_MAX && !strchr(list, ':'));
    if (c->by_uuid)
        (void)snprintf(id, sizeof id, DF_STR_FMT, DF_STR_ARG(df_uuid_str(&c->uuid)));
    else
        (void)snprintf(id, sizeof id, "%lld", (long long)c->id);
    int len =
        snprintf(plain, sizeof plain, "%s:%c:%s:%s", list, c->oldest_first ? 'o' : 'n', id, c->at);
    (void)sodium_bin2base64(out, DF_CURSOR_TEXT_MAX + 1, (const unsigned char *)plain, (size_t)len,
                            VARIANT);
}

static bool parse_id(struct df_str text, bool by_uuid, struct df_cursor *ret)
{
    return by_uuid ? df_uuid_parse(text, &ret->uuid) : df_str_to_i64(text, &ret->id);
}

bool df_cursor_parse(struct df_str text, const char *list, bool by_uuid, struct df_cursor *ret)
{
    unsigned char plain[PLAIN_MAX];
    char again[DF_CURSOR_TEXT_MAX + 1];
    struct df_str name, order, id;
    size_t len = 0;

    *ret = (struct df_cursor){.by_uuid = by_uuid};
    if (text.len == 0 || text.len > DF_CURSOR_TEXT_MAX ||
        sodium_base642bin(plain, sizeof plain, text.ptr, text.len, NULL, &len, NULL, VARIANT) != 0)
        return false;
    struct df_str rest = df_str_cut(df_str_n((const char *)plain, len), ':', &name);
    rest = df_str_cut(rest, ':', &order);
    struct df_str at = df_str_cut(rest, ':', &id);
    ret->oldest_first = df_str_eq(order, DF_STR("o"));
    if (!df_str_eq(name, df_str_c(list)) || !(ret->oldest_first || df_str_eq(order, DF_STR("n"))) ||
        !parse_id(id, by_uuid, ret) || (at.len > 0 && !df_cursor_set_at(ret, at)))
        return false;
    df_cursor_write(ret, list, again);
    return df_str_eq(text, df_str_c(again));
}
