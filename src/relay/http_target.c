#include "relay/http_target.h"

#include "net/field.h"
#include "net/url.h"

static bool is_unreserved(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

/* "." or "..", percent-encoded or not. */
static bool is_dots(struct df_str segment)
{
    size_t dots = 0;

    for (size_t i = 0; i < segment.len; dots++) {
        if (segment.ptr[i] == '.')
            i++;
        else if (segment.len - i >= 3 && df_str_ieq(df_str_n(segment.ptr + i, 3), DF_STR("%2e")))
            i += 3;
        else
            return false;
    }
    return dots == 1 || dots == 2;
}

static bool goes_up(struct df_str rest)
{
    struct df_str path;

    (void)df_str_cut(rest, '?', &path);
    (void)df_str_cut(path, '#', &path);
    while (path.ptr) {
        struct df_str segment;
        path = df_str_cut(path, '/', &segment);
        if (is_dots(segment))
            return true;
    }
    return false;
}

const char *df_http_target_expand(struct df_arena *a, const char *target, const struct df_event *e,
                                  struct df_err *err)
{
    struct df_url parts;
    const struct df_event encoded = {
        .type = df_percent_encode(a, e->type, is_unreserved),
        .aggregate_type = df_percent_encode(a, e->aggregate_type, is_unreserved),
        .aggregate_id = df_percent_encode(a, e->aggregate_id, is_unreserved),
    };
    struct df_str url = df_event_expand(a, target, &encoded);
    if (df_url_parse(url, &parts, err) != DF_OK)
        return NULL;
    if (goes_up(parts.rest)) {
        (void)df_err_set(err, DF_E_BAD_REQUEST, "the URL would have . or .. in its path");
        return NULL;
    }
    return url.ptr;
}

static enum df_code check_expanded(struct df_arena *a, const char *target, struct df_err *err)
{
    static const struct df_event example = {
        .type = {"x", 1}, .aggregate_type = {"x", 1}, .aggregate_id = {"x", 1}};
    struct df_err why = DF_ERR_INIT;
    struct df_url parts;

    struct df_str url = df_event_expand(a, target, &example);
    if (df_url_parse(url, &parts, &why) != DF_OK)
        return df_err_set(err, DF_E_CONFIG, "target: %s", why.detail);
    const char *name = strchr(target, '{');
    if (!name)
        return DF_OK;
    /* Up to the first name both texts are the same, so the path must have begun before it. */
    if (name - target < parts.rest.ptr - url.ptr)
        return df_err_set(err, DF_E_CONFIG,
                          "target: {eventType} and the like may stand in the URL's path and query "
                          "only");
    if (goes_up(parts.rest))
        return df_err_set(err, DF_E_CONFIG, "target: the URL's path may not have . or .. in it");
    return DF_OK;
}

enum df_code df_http_target_check(const char *target, struct df_err *err)
{
    struct df_arena a = {0};

    enum df_code code = df_event_check_pattern(target, "target", err);
    if (code == DF_OK)
        code = check_expanded(&a, target, err);
    df_arena_release(&a);
    return code;
}
