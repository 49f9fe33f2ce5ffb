/*
 * Request targets, queries and header fields from anybody. The input is a target; its parts serve
 * as field values too. Whatever passes must keep the promises that handlers rely on.
 */
#include "base/buf.h"
#include "base/trace.h"
#include "net/field.h"
#include "net/router.h"

#include <stdlib.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            abort();                                                                               \
    } while (0)

static void nothing(struct df_req *req)
{
    (void)req;
}

static const struct df_route routes[] = {
    {.method = "GET", .pattern = "/", .handle = nothing},
    {.method = "GET", .pattern = "/a/{id}", .handle = nothing},
    {.method = "POST", .pattern = "/a/b", .handle = nothing},
    {.method = "GET", .pattern = "/a/{id}/c/{other}", .handle = nothing},
    {.method = "GET", .pattern = "/f/{rest...}", .handle = nothing},
    {.method = "PUT", .pattern = "/f/{one}", .handle = nothing},
    {.method = NULL},
};

static bool is_within(struct df_str part, struct df_str whole)
{
    return part.len <= whole.len && part.ptr >= whole.ptr &&
           part.ptr + part.len <= whole.ptr + whole.len;
}

static void check_path(const struct df_target *t)
{
    struct df_str rest = t->path;

    CHECK(t->path.len > 0 && t->path.ptr[0] == '/');
    CHECK(df_utf8_valid_prefix(t->path) == t->path.len);
    CHECK(!memchr(t->path.ptr, '\0', t->path.len));
    while (rest.ptr) {
        struct df_str part;
        rest = df_str_cut(rest, '/', &part);
        CHECK(!df_str_eq(part, DF_STR("..")) && !df_str_eq(part, DF_STR(".")));
    }
    CHECK(t->segment_count <= DF_TARGET_MAX_SEGMENTS);
    for (size_t i = 0; i < t->segment_count; i++)
        CHECK(t->segments[i].len > 0 && is_within(t->segments[i], t->path));
}

static void check_match(const struct df_router *r, const struct df_target *t)
{
    static const char *const names[] = {"id", "other", "rest", "one"};

    for (int m = 0; m <= DF_METHOD_OTHER; m++) {
        struct df_match match;
        df_router_find(r, (enum df_method)m, t, &match);
        CHECK(!match.route || (t->raw.len > 0 && t->raw.ptr[0] == '/'));
        CHECK(!match.route || (!t->unroutable && match.index < df_router_count(r)));
        for (size_t i = 0; match.route && i < sizeof(names) / sizeof(names[0]); i++) {
            struct df_str v = df_match_param(&match, df_str_c(names[i]));
            CHECK(!v.ptr || (v.len > 0 && is_within(v, t->path)));
        }
    }
}

/* A range in front of all others decides unless one of them is more specific. */
static void check_accept(struct df_str s)
{
    static const char named[] = "text/plain;version=1;q=0.25,";
    struct df_str type = DF_STR("text/plain"), version = DF_STR("1");
    int weight = df_field_weight(s, type, version, NULL);
    struct df_buf more;

    CHECK(weight >= -1 && weight <= 1000);
    df_buf_init(&more, sizeof(named) + s.len);
    df_buf_addz(&more, named);
    df_buf_add(&more, s.ptr, s.len);
    CHECK(df_field_weight(df_buf_str(&more), type, version, NULL) == 250);
    df_buf_release(&more);
}

static void check_fields(struct df_str s)
{
    struct df_trace trace;
    int64_t length = -1;

    (void)df_field_is_token(s);
    (void)df_field_host_ok(s);
    (void)df_field_is_json(s);
    check_accept(s);
    if (df_field_correlation_ok(s))
        CHECK(df_field_value_ok(s) && s.len <= 128);
    if (df_field_length(s, &length))
        CHECK(length >= 0);
    if (df_trace_parse(s, &trace))
        CHECK(s.len == DF_TRACEPARENT_LEN &&
              memcmp(trace.text, s.ptr, DF_TRACEPARENT_LEN - 2) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct df_route_table tables[] = {{.routes = routes}, {.routes = NULL}};
    static struct df_router *router;
    struct df_str input = df_str_n((const char *)data, size);
    struct df_str path = DF_STR("");
    struct df_arena arena;
    struct df_target t;
    struct df_err err = DF_ERR_INIT;

    if (!router && df_router_new(tables, 0, &router, &err) != DF_OK)
        abort();
    df_arena_init(&arena);
    struct df_str query = size > 0 ? df_str_cut(input, '?', &path) : DF_STR_NULL;
    for (int version_prefix = 0; version_prefix < 2; version_prefix++) {
        if (df_target_parse(&arena, path, query, version_prefix != 0, &t, &err) != DF_OK)
            continue;
        check_path(&t);
        check_match(router, &t);
        struct df_str v = df_target_query(&arena, t.query, DF_STR("a"));
        CHECK(!v.ptr || (v.len <= t.query.len && !memchr(v.ptr, '\0', v.len)));
    }
    if (size > 0)
        check_fields(input);
    df_arena_release(&arena);
    return 0;
}
