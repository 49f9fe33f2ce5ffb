/* Routes, request targets and header fields: what needs no server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "net/field.h"
#include "net/router.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void nothing(struct df_req *req)
{
    (void)req;
}

static const struct df_route first_table[] = {
    {.method = "GET", .pattern = "/", .handle = nothing},
    {.method = "GET", .pattern = "/tickets", .handle = nothing},
    {.method = "POST", .pattern = "/tickets", .handle = nothing},
    {.method = "GET", .pattern = "/tickets/{id}", .handle = nothing},
    {.method = "GET", .pattern = "/tickets/latest", .handle = nothing},
    {.method = "DELETE", .pattern = "/tickets/{id}", .handle = nothing},
    {.method = "POST", .pattern = "/tickets/{ticketId}/acks/{ackId}", .handle = nothing},
    {.method = NULL},
};
static const struct df_route second_table[] = {
    {.method = "GET", .pattern = "/files/{path...}", .handle = nothing},
    {.method = "GET", .pattern = "/files/index.html", .handle = nothing},
    {.method = "PUT", .pattern = "/files/{name}", .handle = nothing},
    {.method = "GET", .pattern = "/lists/{name}", .handle = nothing},
    {.method = "GET", .pattern = "/lists/{name}.csv", .handle = nothing},
    {.method = "GET", .pattern = "/lists/all.csv", .handle = nothing},
    {.method = NULL},
};
static const struct df_route_table tables[] = {
    {.routes = first_table}, {.routes = second_table}, {.routes = NULL}};

struct fixture {
    struct df_router *router;
    struct df_arena arena;
};

static int set_up(void **state)
{
    static struct fixture f;
    struct df_err err = DF_ERR_INIT;

    df_arena_init(&f.arena);
    if (df_router_new(tables, 0, &f.router, &err) != DF_OK)
        return -1;
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    df_router_free(f->router);
    df_arena_release(&f->arena);
    return 0;
}

static enum df_code parse(struct fixture *f, const char *raw, struct df_target *t,
                          struct df_err *err)
{
    struct df_str path;
    struct df_str query = df_str_cut(df_str_c(raw), '?', &path);
    return df_target_parse(&f->arena, path, query, true, t, err);
}

/* --- routes ----------------------------------------------------------------------------------- */

static void a_request_finds_its_route(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *method, *target, *pattern;
        const char *name, *value;
    } rows[] = {
        {"GET", "/", "/", NULL, NULL},
        {"HEAD", "/", "/", NULL, NULL},
        {"GET", "/v1", "/", NULL, NULL},
        {"GET", "/v1/", "/", NULL, NULL},
        {"GET", "/tickets", "/tickets", NULL, NULL},
        {"GET", "/tickets?x=/y", "/tickets", NULL, NULL},
        {"HEAD", "/tickets", "/tickets", NULL, NULL},
        {"POST", "/v1/tickets", "/tickets", NULL, NULL},
        {"GET", "/%74ickets", "/tickets", NULL, NULL},
        {"GET", "/tickets/7", "/tickets/{id}", "id", "7"},
        {"GET", "/v1/tickets/7", "/tickets/{id}", "id", "7"},
        {"GET", "/tickets/a%20b%2Fc", "/tickets/{id}", "id", "a b/c"},
        {"GET", "/tickets/%C3%A7", "/tickets/{id}", "id", "\xC3\xA7"},
        {"GET", "/tickets/\xC3\xA7", "/tickets/{id}", "id", "\xC3\xA7"},
        {"GET", "/tickets/a+b", "/tickets/{id}", "id", "a+b"},
        {"GET", "/tickets/v2", "/tickets/{id}", "id", "v2"},
        {"GET", "/tickets/latest", "/tickets/latest", NULL, NULL},
        {"DELETE", "/tickets/latest", "/tickets/{id}", "id", "latest"},
        {"POST", "/tickets/7/acks/9", "/tickets/{ticketId}/acks/{ackId}", "ackId", "9"},
        {"POST", "/tickets/7/acks/9", "/tickets/{ticketId}/acks/{ackId}", "ticketId", "7"},
        {"GET", "/files/a", "/files/{path...}", "path", "a"},
        {"GET", "/files/a/b/c.js", "/files/{path...}", "path", "a/b/c.js"},
        {"GET", "/v1/files/a%20a/b", "/files/{path...}", "path", "a a/b"},
        {"GET", "/files/a/", "/files/{path...}", "path", "a/"},
        {"GET", "/files/index.html", "/files/index.html", NULL, NULL},
        {"PUT", "/files/index.html", "/files/{name}", "name", "index.html"},
        {"GET", "/lists/a", "/lists/{name}", "name", "a"},
        {"GET", "/lists/a.csv", "/lists/{name}.csv", "name", "a"},
        {"GET", "/lists/.csv", "/lists/{name}", "name", ".csv"},
        {"GET", "/lists/a.csv.csv", "/lists/{name}.csv", "name", "a.csv"},
        {"GET", "/lists/all.csv", "/lists/all.csv", NULL, NULL},
        {"GET", "http://host:80/tickets/7", "/tickets/{id}", "id", "7"},
        {"GET", "HTTPS://host", "/", NULL, NULL},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_target t;
        struct df_match m;
        struct df_err err = DF_ERR_INIT;
        assert_int_equal(parse(f, rows[i].target, &t, &err), DF_OK);
        df_router_find(f->router, df_method_of(df_str_c(rows[i].method)), &t, &m);
        assert_non_null(m.route);
        assert_true(m.index < df_router_count(f->router));
        assert_string_equal(m.route->pattern, rows[i].pattern);
        if (rows[i].name) {
            struct df_str v = df_match_param(&m, df_str_c(rows[i].name));
            assert_true(df_str_eq(v, df_str_c(rows[i].value)));
        }
        assert_null(df_match_param(&m, DF_STR("nobody")).ptr);
    }
}

static void a_path_without_a_route_is_not_found(void **state)
{
    struct fixture *f = *state;
    static const char *const rows[] = {
        "/nothing",
        "/tickets/",
        "/tickets/7/",
        "/tickets//7",
        "//tickets",
        "/v2/tickets",
        "/v1/v1/tickets",
        "/v0",
        "/v1/tickets/",
        "/files",
        "/files/",
        "/files//a",
        "/files/a//b",
        "/files/a//",
        "/TICKETS",
        "/tickets/7/acks",
        "//",
        "/v1//",
        "//v1",
        "//v1/tickets",
        "//v1//v12/x",
        "/tickets%2F7",
        "/v10/tickets",
        "/files/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8/9/0/1/2/3",
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_target t;
        struct df_match m;
        struct df_err err = DF_ERR_INIT;
        assert_int_equal(parse(f, rows[i], &t, &err), DF_OK);
        df_router_find(f->router, DF_GET, &t, &m);
        assert_null(m.route);
        assert_int_equal(m.allowed, 0);
    }
}

static void a_wrong_method_learns_which_ones_there_are(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *method, *target, *allow;
    } rows[] = {
        {"PUT", "/tickets", "GET, HEAD, POST"},
        {"POST", "/tickets/7", "GET, HEAD, DELETE"},
        {"POST", "/tickets/latest", "GET, HEAD, DELETE"},
        {"GET", "/tickets/7/acks/9", "POST"},
        {"HEAD", "/tickets/7/acks/9", "POST"},
        {"BREW", "/", "GET, HEAD"},
        {"get", "/", "GET, HEAD"},
        {"POST", "/files/a", "GET, HEAD, PUT"},
        {"POST", "/files/a/b", "GET, HEAD"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_target t;
        struct df_match m;
        struct df_err err = DF_ERR_INIT;
        struct df_buf b;
        assert_int_equal(parse(f, rows[i].target, &t, &err), DF_OK);
        df_router_find(f->router, df_method_of(df_str_c(rows[i].method)), &t, &m);
        assert_null(m.route);
        df_buf_init(&b, 256);
        df_router_write_allow(m.allowed, &b);
        assert_string_equal(b.ptr, rows[i].allow);
        df_buf_release(&b);
    }
}

static void a_bad_table_is_refused(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "",
        "tickets",
        "/a//b",
        "/a/",
        "/{}",
        "/{...}",
        "/a{b}",
        "/{a}b",
        "/{a",
        "/a}",
        "/{a{b}}",
        "/{a...}/b",
        "/{a}/{b}/{c}/{d}/{e}/{f}/{g}/{h}/{i}",
    };

    for (size_t i = 0; i < COUNT(patterns); i++) {
        const struct df_route table[] = {{.method = "GET", .pattern = patterns[i]},
                                         {.method = NULL}};
        const struct df_route_table list[] = {{.routes = table}, {.routes = NULL}};
        struct df_router *r = NULL;
        struct df_err err = DF_ERR_INIT;
        assert_int_equal(df_router_new(list, 0, &r, &err), DF_E_CONFIG);
        assert_null(r);
    }
}

static void the_same_route_twice_is_refused(void **state)
{
    (void)state;
    const struct df_route one[] = {{.method = "GET", .pattern = "/a/{x}/b"}, {.method = NULL}};
    const struct df_route other[] = {{.method = "POST", .pattern = "/a/{x}/b"},
                                     {.method = "GET", .pattern = "/a/{y}/b"},
                                     {.method = NULL}};
    const struct df_route_table list[] = {{.routes = one}, {.routes = other}, {.routes = NULL}};
    struct df_router *r = NULL;
    struct df_err err = DF_ERR_INIT;

    assert_int_equal(df_router_new(list, 0, &r, &err), DF_E_CONFIG);
    assert_non_null(strstr(err.detail, "GET /a/{y}/b"));

    const struct df_route brew[] = {{.method = "BREW", .pattern = "/"}, {.method = NULL}};
    const struct df_route_table brews[] = {{.routes = brew}, {.routes = NULL}};
    assert_int_equal(df_router_new(brews, 0, &r, &err), DF_E_CONFIG);
}

static void a_bad_deprecation_is_refused(void **state)
{
    (void)state;
    static char long_link[DF_DEPRECATION_LINK_MAX + 2];
    memset(long_link, 'x', sizeof(long_link) - 1);
    const struct df_deprecation rows[] = {
        {.since = NULL, .link = "/docs"},
        {.since = "", .link = "/docs"},
        {.since = "soon", .link = "/docs"},
        {.since = "2026-13-01T00:00:00Z", .link = "/docs"},
        {.since = "2026-01-01T00:00:00Z", .link = NULL},
        {.since = "2026-01-01T00:00:00Z", .link = ""},
        {.since = "2026-01-01T00:00:00Z", .link = "/a>b"},
        {.since = "2026-01-01T00:00:00Z", .link = "/a\r\nX: y"},
        {.since = "2026-01-01T00:00:00Z", .link = "/a b"},
        {.since = "2026-01-01T00:00:00Z", .link = long_link},
        {.since = "2026-01-01T00:00:00Z", .sunset = "never", .link = "/docs"},
        {.since = "2026-01-01T00:00:00Z", .sunset = "2026-01-01T00:00:00Z", .link = "/docs"},
        {.since = "2026-01-01T00:00:00Z", .sunset = "2025-12-31T23:59:59Z", .link = "/docs"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct df_route table[] = {{.method = "GET", .pattern = "/a", .deprecated = &rows[i]},
                                         {.method = NULL}};
        const struct df_route_table list[] = {{.routes = table}, {.routes = NULL}};
        struct df_router *r = NULL;
        struct df_err err = DF_ERR_INIT;
        assert_int_equal(df_router_new(list, 0, &r, &err), DF_E_CONFIG);
        assert_non_null(strstr(err.detail, "GET /a"));
    }
    long_link[DF_DEPRECATION_LINK_MAX] = '\0';
    const struct df_deprecation longest = {.since = "2026-01-01T00:00:00Z", .link = long_link};
    const struct df_route table[] = {{.method = "GET", .pattern = "/a", .deprecated = &longest},
                                     {.method = NULL}};
    const struct df_route_table list[] = {{.routes = table}, {.routes = NULL}};
    struct df_router *r = NULL;
    struct df_err err = DF_ERR_INIT;
    assert_int_equal(df_router_new(list, 0, &r, &err), DF_OK);
    df_router_free(r);
}

/* --- targets ---------------------------------------------------------------------------------- */

static void a_bad_target_is_refused(void **state)
{
    struct fixture *f = *state;
    static const char *const rows[] = {
        "",
        "*",
        "tickets",
        "host:80",
        "ftp://host/",
        "http:/",
        "http://",
        "http:///a",
        "/a b",
        "/a\tb",
        "/a\x7F",
        "/a#b",
        "/?a#b",
        "/%",
        "/%4",
        "/%4g",
        "/%g4",
        "/%00",
        "/a/%00b",
        "/?x=%",
        "/?x=%zz",
        "/?x=%00",
        "/?x=a b",
        "/..",
        "/.",
        "/a/../b",
        "/a/./b",
        "/a/..",
        "/%2e%2e",
        "/a/%2E%2E/b",
        "/a/.%2e",
        "/x%2f..%2fy",
        "/files/..%2f",
        "/%2e",
        "/%FF",
        "/%C3",
        "/%C0%AF",
        "/%ED%A0%80",
        "/\xFF",
        "/?x=%FF",
        "/?%C0%80",
        "/a%0Ab",
        "/a%7F",
        "http://h/../a",
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_target t;
        struct df_err err = DF_ERR_INIT;
        assert_int_equal(parse(f, rows[i], &t, &err), DF_E_BAD_REQUEST);
        assert_true(err.detail[0] != '\0');
    }
}

static void a_long_target_is_refused(void **state)
{
    struct fixture *f = *state;
    static char raw[DF_TARGET_MAX_BYTES + 3];
    struct df_target t;
    struct df_err err = DF_ERR_INIT;

    memset(raw, 'a', sizeof(raw) - 1);
    raw[0] = '/';
    raw[DF_TARGET_MAX_BYTES] = '\0';
    assert_int_equal(parse(f, raw, &t, &err), DF_OK);
    raw[DF_TARGET_MAX_BYTES] = 'a';
    assert_int_equal(parse(f, raw, &t, &err), DF_E_URI_TOO_LONG);
    raw[1] = '?';
    assert_int_equal(parse(f, raw, &t, &err), DF_E_URI_TOO_LONG);
}

static void the_path_is_decoded_and_loses_its_version(void **state)
{
    struct fixture *f = *state;
    static const char *const rows[][3] = {
        {"/", "/", "/"},
        {"/v1", "/", "/"},
        {"/v1/", "/", "/"},
        {"/a/b", "/a/b", "/a/b"},
        {"/v1/a%20b", "/a b", "/a%20b"},
        {"/a%2Fb", "/a/b", "/a%2Fb"},
        {"/v1x", "/v1x", "/v1x"},
        {"/%761/a%2fb/", "/a/b/", "/a%2fb/"},
        {"/v", "/v", "/v"},
        {"http://h/v1/a%41", "/aA", "/a%41"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_target t;
        struct df_err err = DF_ERR_INIT;
        assert_int_equal(parse(f, rows[i][0], &t, &err), DF_OK);
        assert_true(df_str_eq(t.path, df_str_c(rows[i][1])));
        assert_true(df_str_eq(t.raw, df_str_c(rows[i][2])));
        assert_false(t.unroutable);
    }
}

static void a_query_parameter_is_found_and_decoded(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *query, *name, *value;
    } rows[] = {
        {"a=1&b=2", "a", "1"},
        {"a=1&b=2", "b", "2"},
        {"a=1&b=2", "c", NULL},
        {"a", "a", ""},
        {"a=", "a", ""},
        {"a&b", "b", ""},
        {"PageSize=5", "pageSize", "5"},
        {"a=x+y", "a", "x y"},
        {"a=x%2By", "a", "x+y"},
        {"a=%C3%A7", "a", "\xC3\xA7"},
        {"%61=1", "a", "1"},
        {"a=1&a=2", "a", "1"},
        {"a=b=c", "a", "b=c"},
        {"", "a", NULL},
        {"&&", "a", NULL},
        {"&&a=1&", "a", "1"},
        {"=1", "", "1"},
        {"x+y=1", "x y", "1"},
        {"a=%26", "a", "&"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_str v =
            df_target_query(&f->arena, df_str_c(rows[i].query), df_str_c(rows[i].name));
        if (rows[i].value)
            assert_true(v.ptr && df_str_eq(v, df_str_c(rows[i].value)));
        else
            assert_null(v.ptr);
    }
    assert_null(df_target_query(&f->arena, DF_STR_NULL, DF_STR("a")).ptr);
}

/* --- fields ----------------------------------------------------------------------------------- */

static void json_media_types_are_told_from_others(void **state)
{
    (void)state;
    static const char *const good[] = {
        "application/json",
        "APPLICATION/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=\"UTF-8\"",
        "application/json ; charset=utf8",
        "application/problem+json",
        "application/vnd.acme.v2+json; profile=x",
    };
    static const char *const bad[] = {
        "",
        "json",
        "text/json",
        "text/plain",
        "application/jsonx",
        "application/xml",
        "application/+json",
        "application/",
        "application/json; charset=iso-8859-1",
        "application/json;charset=",
        "application/json;charset",
        "application/js on",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=application/json",
    };

    for (size_t i = 0; i < COUNT(good); i++)
        assert_true(df_field_is_json(df_str_c(good[i])));
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(df_field_is_json(df_str_c(bad[i])));
    assert_false(df_field_is_json(DF_STR_NULL));
}

static void accept_is_weighed(void **state)
{
    static const struct {
        const char *accept;
        int weight; /* of text/plain;version=1.0.0 */
        bool named;
    } cases[] = {
        {"", -1, false},
        {",,, ;;; ,", -1, false},
        {"text/plain", 1000, true},
        {" TEXT/Plain ", 1000, true},
        {"text/plain;q=0.5", 500, true},
        {"text/plain ; Q=0.25 ; version=1.0.0", 250, true},
        {"text/plain;version=\"1.0.0\"", 1000, true},
        {"text/plain;version=0.0.4", -1, false},
        {"text/plain;version=0.0.4, */*;q=0.1", 100, false},
        {"text/plain;version=1.0.0;q=0.3,text/plain;q=0.9,text/*;q=1", 300, true},
        {"text/plain;q=0.9,text/plain;version=1.0.0;q=0.3", 300, true},
        {"text/*;q=0.4, */*;q=0.8", 400, false},
        {"*/*", 1000, false},
        {"*/*;q=0", 0, false},
        {"text/plain;q=0, */*", 0, true},
        {"text/plain;q=0.1, text/plain;q=0.9", 100, true},
        {"text/html, application/json;q=0.9", -1, false},
        {"text/plainer", -1, false},
        {"text", -1, false},
        {"tex/*", -1, false},
        {"*", -1, false},
        {"text/plain;charset=utf-8;escaping=allow-utf-8", 1000, true},
        {"text/html;x=\"a,text/plain;q=0.2,\\\",b\",text/plain;q=0.7", 700, true},
        {"text/html;x=\"text/plain", -1, false}, /* a string without an end */
        {"text/plain;q=1", 1000, true},
        {"text/plain;q=1.000", 1000, true},
        {"text/plain;q=0.001", 1, true},
        /* No weights: the range is left out. */
        {"text/plain;q=", -1, false},
        {"text/plain;q", -1, false},
        {"text/plain;q=1.001", -1, false},
        {"text/plain;q=2", -1, false},
        {"text/plain;q=-1", -1, false},
        {"text/plain;q=0.1234", -1, false},
        {"text/plain;q=.5", -1, false},
        {"text/plain;q=00", -1, false},
        {"text/plain;q=1e0", -1, false},
        {"text/plain;q=nan, */*;q=0.2", 200, false},
        /* What Prometheus sends, with other names. */
        {"text/plain;version=1.0.0,text/plain;version=0.0.1;q=0.75,text/x;q=0.5,*/*;q=0.1", 1000,
         true},
    };
    struct df_buf many;
    bool named;
    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        int weight = df_field_weight(df_str_c(cases[i].accept), DF_STR("text/plain"),
                                     DF_STR("1.0.0"), &named);
        if (weight != cases[i].weight || named != cases[i].named)
            fail_msg("%s: %d %d", cases[i].accept, weight, named);
    }
    assert_int_equal(df_field_weight(DF_STR_NULL, DF_STR("text/plain"), DF_STR("1.0.0"), &named),
                     -1);

    /* Only so many ranges are looked at. */
    df_buf_init(&many, 1 << 16);
    for (int past = 0; past < 2; past++) {
        df_buf_reset(&many);
        for (int i = 0; i < DF_FIELD_RANGES_MAX - 1 + past; i++)
            df_buf_addz(&many, "a/b,");
        df_buf_addz(&many, "text/plain");
        assert_int_equal(
            df_field_weight(df_buf_str(&many), DF_STR("text/plain"), DF_STR("1"), NULL),
            past ? -1 : 1000);
    }
    df_buf_release(&many);
}

static void content_lengths_are_digits(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    "-1",  "+1",  " 1",  "1 ",
                                      "0x1", "1,1", "1.0", "1e3", "99999999999999999999"};
    int64_t v;

    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(df_field_length(df_str_c(bad[i]), &v));
    assert_true(df_field_length(DF_STR("0"), &v) && v == 0);
    assert_true(df_field_length(DF_STR("00012"), &v) && v == 12);
}

static void correlation_ids_are_taken_only_if_harmless(void **state)
{
    (void)state;
    char text[130];

    memset(text, 'x', sizeof(text));
    assert_true(df_field_correlation_ok(DF_STR("a.B_9:-")));
    assert_true(df_field_correlation_ok(df_str_n(text, 128)));
    assert_false(df_field_correlation_ok(df_str_n(text, 129)));
    assert_false(df_field_correlation_ok(DF_STR("")));
    assert_false(df_field_correlation_ok(DF_STR("a b")));
    assert_false(df_field_correlation_ok(DF_STR("a\"b")));
    assert_true(df_field_correlation_ok(DF_STR("order/7=a+b|c#1")));
    assert_false(df_field_correlation_ok(DF_STR("a<b")));
    assert_false(df_field_correlation_ok(DF_STR("a\\b")));
    assert_false(df_field_correlation_ok(DF_STR("\xC3\xA7")));
    assert_false(df_field_correlation_ok(df_str_n("a\0b", 3)));
}

static void names_and_values_with_strange_bytes_are_refused(void **state)
{
    (void)state;
    assert_true(df_field_is_token(DF_STR("X-Client_Id.1!")));
    assert_false(df_field_is_token(DF_STR("")));
    assert_false(df_field_is_token(DF_STR("A B")));
    assert_false(df_field_is_token(DF_STR("A:")));
    assert_false(df_field_is_token(DF_STR("A\xC3\xA7")));
    assert_false(df_field_is_token(df_str_n("A\0", 2)));
    assert_true(df_field_value_ok(DF_STR("a\tb \xC3\xA7")));
    assert_true(df_field_value_ok(DF_STR("")));
    assert_false(df_field_value_ok(DF_STR("a\rb")));
    assert_false(df_field_value_ok(DF_STR("a\x7F")));
    assert_false(df_field_value_ok(df_str_n("a\0", 2)));
    assert_true(df_field_host_ok(DF_STR("[::1]:80")));
    assert_true(df_field_host_ok(DF_STR("")));
    assert_false(df_field_host_ok(DF_STR("a b")));
    assert_false(df_field_host_ok(DF_STR("a@b")));
    assert_false(df_field_host_ok(DF_STR("a/b")));
    assert_false(df_field_host_ok(DF_STR("a,b")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_finds_its_route),
        cmocka_unit_test(a_path_without_a_route_is_not_found),
        cmocka_unit_test(a_wrong_method_learns_which_ones_there_are),
        cmocka_unit_test(a_bad_table_is_refused),
        cmocka_unit_test(the_same_route_twice_is_refused),
        cmocka_unit_test(a_bad_deprecation_is_refused),
        cmocka_unit_test(a_bad_target_is_refused),
        cmocka_unit_test(a_long_target_is_refused),
        cmocka_unit_test(the_path_is_decoded_and_loses_its_version),
        cmocka_unit_test(a_query_parameter_is_found_and_decoded),
        cmocka_unit_test(json_media_types_are_told_from_others),
        cmocka_unit_test(accept_is_weighed),
        cmocka_unit_test(content_lengths_are_digits),
        cmocka_unit_test(correlation_ids_are_taken_only_if_harmless),
        cmocka_unit_test(names_and_values_with_strange_bytes_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
