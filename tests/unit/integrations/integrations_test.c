/* What is passed on, what is repeated, and which settings make sense: tables of good and bad. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "integrations/integrations_private.h"

#include <stdio.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct df_arena arena;

static int set_up(void **state)
{
    (void)state;
    df_arena_init(&arena);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    df_arena_release(&arena);
    return 0;
}

/* --- the path --------------------------------------------------------------------------------- */

static void what_stands_behind_the_name_is_passed_on_as_it_came(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"/integrations/payment", ""},
        {"/integrations/payment/a", "/a"},
        {"/integrations/payment/a/", "/a/"},
        {"/integrations/p%61yment/a%2Fb/%c3%A7", "/a%2Fb/%c3%A7"},
        {"/integrations/payment/a+b;c=1,d", "/a+b;c=1,d"},
        {"/integrations/payment/.well-known/x..y/...", "/.well-known/x..y/..."},
        {"/integrations/payment/a%25b/100%25", "/a%25b/100%25"},
        {"/integrations/payment/%2525", "/%2525"},
        {"/integrations/payment/a%5Cb", "/a%5Cb"},
        {"/integrations/integrations/integrations", "/integrations"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_err err = DF_ERR_INIT;
        struct df_str path = DF_STR_NULL;
        assert_int_equal(integration_path(df_str_c(rows[i][0]), &path, &err), DF_OK);
        assert_true(df_str_eq(path, df_str_c(rows[i][1])));
    }
}

static void no_path_leads_out_of_base_url(void **state)
{
    (void)state;
    /* The server has refused the first three before; here they are refused as well. */
    static const char *const rows[] = {
        "..",
        "a/../..",
        "%2e%2E/x",
        "%252e%252e/x",
        "%25252e%25252e",
        "..;/x",
        "..;jsession=1/x",
        "a/.;x/b",
        "..%3b/x",
        "..%5Cx",
        "a%5c..%5cb",
        "a\\..\\b",
        "..%2fx",
        "%2e%2e%5cx",
        "a/..%252f..",
        "..%255c",
        "a/%2e%2e%3Bx/b/c",
        "%2525252e%2e",
        "%2525252525252525252541",
        "x%2500",
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_err err = DF_ERR_INIT;
        struct df_str path = DF_STR_NULL;
        struct df_str raw = df_arena_printf(&arena, "/integrations/payment/%s", rows[i]);
        if (integration_path(raw, &path, &err) != DF_E_BAD_REQUEST)
            fail_msg("%s was let pass", rows[i]);
    }
}

static void on_unavailable_is_ours_and_the_rest_of_the_query_is_not(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        const char *left; /* NULL: nothing */
        bool keep;
    } rows[] = {
        {NULL, NULL, false},
        {"", "", false},
        {"a=1", "a=1", false},
        {"onUnavailable=enqueue", NULL, true},
        {"onunavailable=ENQUEUE", NULL, true},
        {"on%55navailable=enqueu%65", NULL, true},
        {"a=1&onUnavailable=enqueue&b=2", "a=1&b=2", true},
        {"onUnavailable=enqueue&a=%2F&a=+&&x", "a=%2F&a=+&&x", true},
        {"onUnavailable=enqueue&onUnavailable=enqueue", NULL, true},
        {"xonUnavailable=1&onUnavailableX=2", "xonUnavailable=1&onUnavailableX=2", false},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_err err = DF_ERR_INIT;
        struct df_str left = DF_STR("?");
        bool keep = !rows[i].keep;
        assert_int_equal(integration_query(&arena, df_str_c(rows[i].query), &left, &keep, &err),
                         DF_OK);
        assert_int_equal(keep, rows[i].keep);
        assert_int_equal(!left.ptr, !rows[i].left);
        assert_true(df_str_eq(left, df_str_c(rows[i].left)));
    }
    static const char *const bad[] = {
        "onUnavailable",
        "onUnavailable=",
        "onUnavailable=queue",
        "onUnavailable=enqueue&onUnavailable=no",
        "onUnavailable=enqueue%20",
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct df_err err = DF_ERR_INIT;
        struct df_str left;
        bool keep;
        assert_int_equal(integration_query(&arena, df_str_c(bad[i]), &left, &keep, &err),
                         DF_E_BAD_REQUEST);
    }
}

static void the_url_is_base_url_and_what_was_asked_for(void **state)
{
    (void)state;
    static const char *const rows[][4] = {
        {"http://h/pay", "", NULL, "http://h/pay"},
        {"http://h/pay/", "", NULL, "http://h/pay/"},
        {"http://h/pay/", "", "a=1", "http://h/pay/?a=1"},
        {"http://h/pay//", "/x", NULL, "http://h/pay/x"},
        {"http://h", "/x/", "", "http://h/x/?"},
        {"https://h:8443", "/%c3%A7", "q=%2F+", "https://h:8443/%c3%A7?q=%2F+"},
        {"http://h", "/\xC3\xA7{a|b}", "q=\"<\\>^`",
         "http://h/%C3%A7%7Ba%7Cb%7D?q=%22%3C%5C%3E%5E%60"},
        {"http://h", "/@evil/x", NULL, "http://h/@evil/x"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_err err = DF_ERR_INIT;
        const char *url = NULL;
        struct df_str suffix =
            integration_suffix(&arena, df_str_c(rows[i][1]), df_str_c(rows[i][2]));
        assert_int_equal(integration_url(&arena, rows[i][0], suffix, &url, &err), DF_OK);
        assert_string_equal(url, rows[i][3]);
    }
    char path[3000];
    struct df_err err = DF_ERR_INIT;
    const char *url = NULL;
    memset(path, 'a', sizeof(path));
    path[0] = '/';
    assert_int_equal(integration_url(&arena, "http://h", df_str_n(path, sizeof(path)), &url, &err),
                     DF_E_URI_TOO_LONG);
    /* A stored path that another program wrote: the host is the configuration's. */
    static const char *const others[] = {"@9.9.9.9/", ".example.com/", ":81/", "x", "#@9.9.9.9"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(integration_url(&arena, "http://h", df_str_c(others[i]), &url, &err),
                         DF_E_BAD_REQUEST);
}

/* --- the judgement ---------------------------------------------------------------------------- */

static void only_these_are_safe_to_repeat(void **state)
{
    (void)state;
    for (int m = DF_GET; m <= DF_METHOD_OTHER; m++) {
        bool safe = m == DF_GET || m == DF_HEAD || m == DF_PUT || m == DF_DELETE || m == DF_OPTIONS;
        assert_int_equal(integration_is_safe((enum df_method)m, DF_STR_NULL), safe);
        assert_int_equal(integration_is_safe((enum df_method)m, DF_STR("")), safe);
        assert_true(integration_is_safe((enum df_method)m, DF_STR("k")));
    }
}

enum { BACK = INTEGRATION_PASS_BACK, AGAIN = INTEGRATION_RETRY, UP = INTEGRATION_GIVE_UP };
enum { GOOD = DF_BREAKER_SUCCESS, BAD = DF_BREAKER_FAILURE, NOT = DF_BREAKER_IGNORED };

static void what_is_repeated_when(void **state)
{
    (void)state;
    static const struct df_integration_settings set = {.retry_max_attempts = 3,
                                                       .retry_wait_ms = 2000};
    static const struct {
        enum df_code code;
        unsigned status;
        bool safe, sent;
        int64_t after_ms, attempt;
        int next, breaker;
        int64_t wait_ms; /* AGAIN */
        bool maybe_done;
    } rows[] = {
        /* Answers that are passed back. */
        {DF_OK, 200, true, true, -1, 1, BACK, GOOD, 0, false},
        {DF_OK, 201, false, true, -1, 1, BACK, GOOD, 0, false},
        {DF_OK, 204, true, true, 60000, 1, BACK, GOOD, 0, false},
        {DF_OK, 302, true, true, -1, 1, BACK, GOOD, 0, false},
        {DF_OK, 304, true, true, -1, 1, BACK, GOOD, 0, false},
        {DF_OK, 400, false, true, -1, 1, BACK, GOOD, 0, false},
        {DF_OK, 404, true, true, -1, 3, BACK, GOOD, 0, false},
        {DF_OK, 409, false, true, -1, 1, BACK, GOOD, 0, false},
        {DF_OK, 422, true, true, -1, 1, BACK, GOOD, 0, false},
        /* Failures of what is safe. */
        {DF_OK, 408, true, true, -1, 1, AGAIN, BAD, 2000, false},
        {DF_OK, 425, true, true, -1, 1, AGAIN, BAD, 2000, false},
        {DF_OK, 429, true, true, -1, 2, AGAIN, BAD, 2000, false},
        {DF_OK, 500, true, true, -1, 1, AGAIN, BAD, 2000, false},
        {DF_OK, 501, true, true, -1, 1, AGAIN, BAD, 2000, false},
        {DF_OK, 503, true, true, -1, 3, UP, BAD, 0, false},
        {DF_OK, 599, true, true, -1, 4, UP, BAD, 0, false},
        {DF_E_NET, 0, true, true, -1, 1, AGAIN, BAD, 2000, false},
        {DF_E_NET_CONNECT, 0, true, false, -1, 2, AGAIN, BAD, 2000, false},
        {DF_E_NET_RESOLVE, 0, true, false, -1, 1, AGAIN, BAD, 2000, false},
        {DF_E_NET_TLS, 0, true, false, -1, 1, AGAIN, BAD, 2000, false},
        {DF_E_NET_TIMEOUT, 0, true, true, -1, 1, AGAIN, BAD, 2000, false},
        {DF_E_NET_TIMEOUT, 0, true, true, -1, 3, UP, BAD, 0, false},
        /* Of what is not: only if the peer has certainly not seen it. */
        {DF_E_NET_CONNECT, 0, false, false, -1, 1, AGAIN, BAD, 2000, false},
        {DF_E_NET_RESOLVE, 0, false, false, -1, 1, AGAIN, BAD, 2000, false},
        {DF_E_NET_CONNECT, 0, false, false, -1, 3, UP, BAD, 0, false},
        {DF_E_NET, 0, false, true, -1, 1, UP, BAD, 0, true},
        {DF_E_NET_TIMEOUT, 0, false, true, -1, 1, UP, BAD, 0, true},
        {DF_E_NET_TIMEOUT, 0, false, true, -1, 2, UP, BAD, 0, true},
        {DF_OK, 503, false, true, -1, 1, UP, BAD, 0, true},
        {DF_OK, 500, false, true, 1000, 1, UP, BAD, 0, true},
        {DF_OK, 429, false, true, 1000, 1, UP, BAD, 0, true},
        /* Retry-After: the longer counts, but nobody waits for ever. */
        {DF_OK, 503, true, true, 0, 1, AGAIN, BAD, 2000, false},
        {DF_OK, 503, true, true, 1000, 1, AGAIN, BAD, 2000, false},
        {DF_OK, 503, true, true, 3000, 1, AGAIN, BAD, 3000, false},
        {DF_OK, 429, true, true, INTEGRATION_WAIT_MAX_MS, 1, AGAIN, BAD, INTEGRATION_WAIT_MAX_MS,
         false},
        {DF_OK, 429, true, true, INTEGRATION_WAIT_MAX_MS + 1, 1, UP, BAD, 0, false},
        /* What says nothing of the other side. */
        {DF_E_TARGET_REFUSED, 0, true, false, -1, 1, UP, NOT, 0, false},
        {DF_E_BAD_REQUEST, 0, true, false, -1, 1, UP, NOT, 0, false},
        {DF_E_CANCELLED, 0, true, true, -1, 1, UP, NOT, 0, false},
        {DF_E_CANCELLED, 0, false, false, -1, 1, UP, NOT, 0, false},
        {DF_E_CANCELLED, 0, false, true, -1, 1, UP, NOT, 0, true},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_out_judgement j =
            df_outbound_judge(rows[i].code, rows[i].status, df_outbound_judge_passed_on, false);
        struct df_out out = {.call = {.code = rows[i].code,
                                      .status = rows[i].status,
                                      .maybe_sent = rows[i].sent,
                                      .retry_after_ms = rows[i].after_ms},
                             .verdict = j.verdict};
        struct integration_verdict v = integration_judge(&set, &out, rows[i].attempt, rows[i].safe);
        if ((int)v.next != rows[i].next || (int)j.breaker != rows[i].breaker ||
            v.maybe_done != rows[i].maybe_done ||
            (v.next == INTEGRATION_RETRY && v.wait_ms != rows[i].wait_ms))
            fail_msg("row %zu: next %d, breaker %d, wait %lld, maybe done %d", i, (int)v.next,
                     (int)j.breaker, (long long)v.wait_ms, v.maybe_done);
    }
}

static void one_attempt_means_no_retry(void **state)
{
    (void)state;
    struct df_integration_settings set = {.retry_max_attempts = 1};
    const struct df_out out = {.call = {.code = DF_E_NET_CONNECT, .retry_after_ms = -1},
                               .verdict = DF_OUT_AGAIN};
    assert_int_equal(integration_judge(&set, &out, 1, true).next, INTEGRATION_GIVE_UP);
    set.retry_max_attempts = 2;
    assert_int_equal(integration_judge(&set, &out, 1, true).next, INTEGRATION_RETRY);
    assert_int_equal(integration_judge(&set, &out, 1, true).wait_ms, 0);
}

/* --- settings --------------------------------------------------------------------------------- */

struct section {
    const char *base_url, *forward, *set, *returned, *key, *key_header, *code;
};

static const struct section good = {
    .base_url = "https://pay.example/v2",
    .forward = "Accept, Content-Type,Idempotency-Key",
    .returned = "Content-Type, ETag",
    .key_header = "X-Api-Key",
    .code = "PaymentServiceUnavailable",
};

static char *text(const char *s)
{
    return s ? df_arena_cstr(&arena, df_str_c(s)) : NULL;
}

static struct df_secret *api_key, *set_headers; /* of the settings below */

static struct df_integration_settings settings_of(const struct section *s)
{
    api_key = df_secret_new(df_str_c(s->key));
    set_headers = df_secret_new(df_str_c(s->set));
    return (struct df_integration_settings){
        .name = text("payment"),
        .base_url = text(s->base_url),
        .methods = 127,
        .unavailable_code = text(s->code),
        .api_key = api_key,
        .api_key_header = text(s->key_header),
        .forward_headers = text(s->forward),
        .return_headers = text(s->returned),
        .set_headers = set_headers,
    };
}

static void release_secrets(void)
{
    df_secret_free(api_key);
    df_secret_free(set_headers);
}

static const char *complaints_about(const struct section *s)
{
    struct df_integration_settings set = settings_of(s);
    struct df_buf b;
    df_buf_init(&b, 4096);
    df_integration_check_settings(&set, &b);
    const char *words = df_arena_cstr(&arena, df_buf_str(&b));
    df_buf_release(&b);
    release_secrets();
    return words;
}

static void a_section_that_makes_sense_is_taken(void **state)
{
    (void)state;
    struct section s = good;
    assert_string_equal(complaints_about(&s), "");
    s.set = "Authorization: Bearer abc:def; X-Tenant: 7 ;; X-Empty:";
    s.key = "k";
    s.forward = s.returned = "";
    s.base_url = "http://127.0.0.1:8090/payments/";
    assert_string_equal(complaints_about(&s), "");
}

static void each_mistake_is_named(void **state)
{
    (void)state;
    static const struct {
        size_t field;
        const char *value;
        const char *says;
    } rows[] = {
        {offsetof(struct section, base_url), NULL, "base_url: is needed"},
        {offsetof(struct section, base_url), "", "base_url: is needed"},
        {offsetof(struct section, base_url), "pay.example", "base_url: the URL must begin"},
        {offsetof(struct section, base_url), "ftp://pay.example", "base_url: the URL must begin"},
        {offsetof(struct section, base_url), "http://", "base_url: the URL's host"},
        {offsetof(struct section, base_url), "http://h/?a=1", "base_url: may not have a query"},
        {offsetof(struct section, base_url), "http://h/#x", "base_url: may not have a query"},
        {offsetof(struct section, base_url), "http://u:secret@h/", "base_url: may not hold cred"},
        {offsetof(struct section, forward), "Accept, Cookie", "forward_headers: \"Cookie\" is not"},
        {offsetof(struct section, forward), "x-client-secret", "\"x-client-secret\" is not"},
        {offsetof(struct section, forward), "X-Client-Id", "\"X-Client-Id\" is not"},
        {offsetof(struct section, forward), "X-Admin-Key", "\"X-Admin-Key\" is not"},
        {offsetof(struct section, forward), "Transfer-Encoding", "\"Transfer-Encoding\" is not"},
        {offsetof(struct section, forward), "Host", "\"Host\" is not"},
        {offsetof(struct section, forward), "a b", "forward_headers: has something that is no"},
        {offsetof(struct section, returned), "Connection", "return_headers: \"Connection\" is not"},
        {offsetof(struct section, returned), "Content-Length", "\"Content-Length\" is not"},
        {offsetof(struct section, returned), "Set-Cookie", "\"Set-Cookie\" is not"},
        {offsetof(struct section, set), "secret-word", "set_headers: must be Name: value"},
        {offsetof(struct section, set), "X-A: 1; X-a: 2", "set_headers: \"X-a\" is there twice"},
        {offsetof(struct section, set), "Host: h", "set_headers: \"Host\" is not"},
        {offsetof(struct section, set), "Cookie: secret", "set_headers: \"Cookie\" is not"},
        {offsetof(struct section, set), "Idempotency-Key: secret", "must differ from call to call"},
        {offsetof(struct section, set), "X-A: b\x01secret", "has a control character"},
        {offsetof(struct section, set), "secret word: b", "set_headers: has something that is no"},
        {offsetof(struct section, key_header), "X Key", "api_key_header: has something"},
        {offsetof(struct section, key_header), "Cookie", "api_key_header: \"Cookie\" is not"},
        {offsetof(struct section, key), "secret\r\nX: y", "api_key: has a control character"},
        {offsetof(struct section, code), "not a code", "unavailable_code: must be a code"},
        {offsetof(struct section, code), "lowercase", "unavailable_code: must be a code"},
        {offsetof(struct section, code), "", "unavailable_code: must be a code"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct section s = good;
        memcpy((char *)&s + rows[i].field, &rows[i].value, sizeof(rows[i].value));
        const char *words = complaints_about(&s);
        if (!strstr(words, rows[i].says) || !strstr(words, "[integration.payment] "))
            fail_msg("row %zu: %s", i, words);
        assert_null(strstr(words, "secret word"));
        if (!strstr(rows[i].value ? rows[i].value : "", "client"))
            assert_null(strstr(words, "secret"));
        assert_ptr_equal(strchr(words, '\n'), words + strlen(words) - 1); /* one line */
    }
}

static void the_api_key_and_set_headers_win_over_the_caller(void **state)
{
    (void)state;
    struct section s = good;
    s.forward = "Accept, X-Api-Key, X-Tenant, Authorization, Range";
    s.set = "x-tenant: 7; Authorization: Bearer t";
    s.key = "the key";
    struct df_integration_settings set = settings_of(&s);
    struct integration_rules r;
    integration_rules_read(&set, &r, NULL);
    static const char *const no[] = {"X-Api-Key", "x-api-key",   "X-TENANT", "authorization",
                                     "Cookie",    "X-Client-Id", "Via",      ""};
    for (size_t i = 0; i < COUNT(no); i++)
        assert_false(integration_rules_forward(&r, df_str_c(no[i])));
    assert_true(integration_rules_forward(&r, DF_STR("accept")));
    assert_true(integration_rules_forward(&r, DF_STR("RANGE")));
    assert_int_equal(r.fixed_count, 3);
    assert_true(df_str_eq(r.fixed[0].name, DF_STR("x-tenant")));
    assert_true(df_str_eq(r.fixed[0].value, DF_STR("7")));
    assert_true(df_str_eq(r.fixed[1].value, DF_STR("Bearer t")));
    assert_true(df_str_eq(r.fixed[2].name, DF_STR("X-Api-Key")));
    assert_true(df_str_eq(r.fixed[2].value, DF_STR("the key")));
    assert_true(integration_rules_return(&r, DF_STR("etag")));
    assert_false(integration_rules_return(&r, DF_STR("Server")));
    release_secrets();
}

static void too_many_names_are_refused(void **state)
{
    (void)state;
    char names[70 * 5 + 1];
    char fields[70 * 8 + 1];
    size_t n = 0;
    size_t f = 0;
    for (int i = 0; i < 70; i++) {
        n += (size_t)snprintf(names + n, sizeof(names) - n, "X%03d,", i);
        f += (size_t)snprintf(fields + f, sizeof(fields) - f, "X%03d: 1;", i % 1000);
    }
    struct section s = good;
    s.forward = names;
    assert_non_null(strstr(complaints_about(&s), "forward_headers: has more than 64"));
    s = good;
    s.set = fields;
    s.key = "k";
    assert_non_null(strstr(complaints_about(&s), "set_headers: has more than 64"));
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(what_stands_behind_the_name_is_passed_on_as_it_came),
        T(no_path_leads_out_of_base_url),
        T(on_unavailable_is_ours_and_the_rest_of_the_query_is_not),
        T(the_url_is_base_url_and_what_was_asked_for),
        T(only_these_are_safe_to_repeat),
        T(what_is_repeated_when),
        T(one_attempt_means_no_retry),
        T(a_section_that_makes_sense_is_taken),
        T(each_mistake_is_named),
        T(the_api_key_and_set_headers_win_over_the_caller),
        T(too_many_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
