#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "delivery/sign.h"
#include "delivery/verify.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The published example of Standard Webhooks. */
#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define AT     1614265330
#define HEADERS                                                                                    \
    "webhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek\r\n"                                                 \
    "Webhook-Timestamp:1614265330\r\n"                                                             \
    "WEBHOOK-SIGNATURE:  v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= \r\n"
#define BODY "{\"test\": 2432232314}"

static void saved_requests_are_read(void **state)
{
    (void)state;
    static const char *const good[] = {
        "POST /hooks?a=b:c HTTP/1.1\r\n" HEADERS "\r\n" BODY,
        HEADERS "\r\n" BODY,
        "Host: x\nwebhook-id: msg_p5jXN8AQM9LWM0D4loKWxJek\nwebhook-timestamp: 1614265330\n"
        "webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=\n\n" BODY,
        HEADERS "Content-Length: 20\r\n\r\n" BODY "\n",
        HEADERS "X-Empty:\r\nX-Note: a: b HTTP/1.1\r\n\r\n" BODY,
    };

    for (size_t i = 0; i < COUNT(good); i++) {
        struct df_verify_result v[DF_VERIFY_KINDS];
        struct df_err err = DF_ERR_INIT;
        struct df_signed m;
        if (df_verify_parse(df_str_c(good[i]), &m, &err) != DF_OK)
            fail_msg("row %zu: %s", i, err.detail);
        assert_true(df_str_eq(m.body, DF_STR(BODY)));
        df_verify(DF_STR(SECRET), &m, AT, 1, v);
        assert_true(v[DF_VERIFY_STANDARD].present);
        assert_null(v[DF_VERIFY_STANDARD].why);
        assert_false(v[DF_VERIFY_OWN].present || v[DF_VERIFY_BODY].present);
    }
}

static void what_is_no_request_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *why;
    } rows[] = {
        {"", "no empty line"},
        {BODY, "no empty line"},
        {HEADERS, "no empty line"},
        {BODY "\n\n", "line 1 is no header"},
        {"POST / HTTP/1.1\nPOST / HTTP/1.1\n\n", "line 2 is no header"},
        {HEADERS " folded\r\n\r\n", "line 4 is no header"},
        {": x\n\n", "line 1 is no header"},
        {"a b: x\n\n", "line 1 is no header"},
        {"a: x\x01y\n\n", "line 1 is no header"},
        {HEADERS "webhook-ID: 2\r\n\r\n", "webhook-ID stands there twice"},
        {HEADERS "Content-Length: 21\r\n\r\n" BODY, "it was cut"},
        {HEADERS "Content-Length: 9223372036854775808\r\n\r\n" BODY, "no number"},
        {HEADERS "Content-Length: -1\r\n\r\n" BODY, "no number"},
        {HEADERS "Content-Length:\r\n\r\n" BODY, "no number"},
        {HEADERS "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "chunks"},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_err err = DF_ERR_INIT;
        struct df_signed m;
        if (df_verify_parse(df_str_c(rows[i].text), &m, &err) != DF_E_BAD_REQUEST)
            fail_msg("row %zu was taken", i);
        if (!strstr(err.detail, rows[i].why))
            fail_msg("row %zu: %s", i, err.detail);
    }
}

/* The three signatures of a delivery are told apart: each byte of it belongs to some. */
static void each_signature_is_judged_by_itself(void **state)
{
    (void)state;
    static const char text[] = "{\"event\":\"BatchCompleted\",\"file\":\"relat\xC3\xB3rio "
                               "\xF0\x9F\x9A\x9A.xlsx\"";
    struct df_call_header h[DF_SIGN_HEADERS];
    struct df_arena a = {0};
    char hex[DF_SIGN_HEX + 1];

    df_sign_hex(DF_STR(SECRET), df_arena_printf(&a, "%s}", text), hex);
    struct df_str body = df_arena_printf(&a, "%s,\"signature\":\"%s\"}", text, hex);
    df_sign(DF_STR(SECRET), DF_STR_NULL, DF_STR("d-1"), AT, body, &a, h);
    const struct df_signed good = {body,       h[0].value, h[1].value,
                                   h[2].value, h[3].value, h[4].value};
    static const struct {
        int changed; /* which slice; -1: none; 6: the time */
        bool bad[DF_VERIFY_KINDS];
    } rows[] = {
        {-1, {false, false, false}}, {0, {true, true, true}},   {1, {true, false, false}},
        {2, {true, false, false}},   {3, {false, true, false}}, {4, {false, true, false}},
        {5, {false, true, false}},   {6, {true, true, false}},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct df_verify_result v[DF_VERIFY_KINDS];
        struct df_signed m = good;
        struct df_str *slices[] = {&m.body,       &m.timestamp,         &m.signature,
                                   &m.webhook_id, &m.webhook_timestamp, &m.webhook_signature};
        if (rows[i].changed >= 0 && rows[i].changed < 6) {
            struct df_str *s = slices[rows[i].changed];
            char *copy = df_arena_alloc(&a, s->len);
            memcpy(copy, s->ptr, s->len);
            size_t at = rows[i].changed == 0 ? 12 : s->len - 1;
            copy[at] = copy[at] == '1' ? '2' : '1';
            s->ptr = copy;
        }
        df_verify(DF_STR(SECRET), &m, rows[i].changed == 6 ? AT + 301 : AT, 300, v);
        for (int k = 0; k < DF_VERIFY_KINDS; k++) {
            assert_true(v[k].present);
            if ((v[k].why != NULL) != rows[i].bad[k])
                fail_msg("row %zu, %s: %s", i, df_verify_kind_name((enum df_verify_kind)k),
                         v[k].why ? v[k].why : "verified");
        }
    }
    df_arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saved_requests_are_read),
        cmocka_unit_test(what_is_no_request_is_refused),
        cmocka_unit_test(each_signature_is_judged_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
