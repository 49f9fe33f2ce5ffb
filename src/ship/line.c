/* A line of the log, taken apart for protocols that have names for its parts. */
#include "ship/target.h"

#include <arpa/inet.h>

const char *df_ship_level(enum df_log_level level)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};

    return names[level];
}

static bool is_hex_id(struct df_str s, size_t len)
{
    bool zero = true;

    if (s.len != len)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (df_hex_digit(s.ptr[i]) < 0)
            return false;
        zero = zero && s.ptr[i] == '0';
    }
    return !zero;
}

static bool is_address(struct df_str s)
{
    char text[INET6_ADDRSTRLEN + 1];
    struct in6_addr ignored;

    if (s.len == 0 || s.len >= sizeof(text))
        return false;
    memcpy(text, s.ptr, s.len);
    text[s.len] = '\0';
    return inet_pton(AF_INET, text, &ignored) == 1 || inet_pton(AF_INET6, text, &ignored) == 1;
}

/* Where the text of a field goes; NULL: it is one of the others. */
static struct df_str *place_of(struct df_ship_parts *p, struct df_str name, struct df_str text)
{
    const struct {
        const char *name;
        struct df_str *place;
        bool fits;
    } places[] = {
        {"time", &p->time, true},
        {"event", &p->event, true},
        {"message", &p->message, true},
        {"traceId", &p->trace_id, is_hex_id(text, DF_TRACE_ID_LEN)},
        {"spanId", &p->span_id, is_hex_id(text, DF_SPAN_ID_LEN)},
        {"ip", &p->ip, is_address(text)},
    };

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (places[i].fits && df_str_eq(name, df_str_c(places[i].name)))
            return places[i].place;
    return NULL;
}

struct df_ship_parts df_ship_take_apart(struct df_arena *a, struct df_str line,
                                        void (*each)(void *arg, const struct df_ship_field *f),
                                        void *arg)
{
    struct df_ship_parts p = {.time = DF_STR_NULL};
    const struct df_json *doc = NULL;
    struct df_err ignored = DF_ERR_INIT;

    if (df_json_parse(a, line, &doc, &ignored) != DF_OK || doc->type != DF_JSON_OBJECT) {
        p.message = line;
        return p;
    }
    struct df_json_each members = df_json_each(doc);
    for (const struct df_json *v; (v = df_json_next(&members));) {
        struct df_str *place = v->type == DF_JSON_STRING ? place_of(&p, v->key, v->text) : NULL;
        struct df_str text = v->type == DF_JSON_BOOL ? v->raw : v->text;
        if (place)
            *place = text;
        else if ((v->type == DF_JSON_STRING || v->type == DF_JSON_NUMBER ||
                  v->type == DF_JSON_BOOL) &&
                 !df_str_eq(v->key, DF_STR("level")))
            each(arg, &(struct df_ship_field){v->key, text, v->type});
    }
    return p;
}
