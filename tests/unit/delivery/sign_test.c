#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "delivery/sign.h"
#include "sandbox/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* The published example of Standard Webhooks. */
#define SECRET    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define ID        "msg_p5jXN8AQM9LWM0D4loKWxJek"
#define TIMESTAMP 1614265330
#define BODY      "{\"test\": 2432232314}"
#define SIGNATURE "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

static void assert_str(struct df_str s, const char *expected)
{
    if (!df_str_eq(s, df_str_c(expected)))
        fail_msg("\"" DF_STR_FMT "\" is not \"%s\"", DF_STR_ARG(s), expected);
}

static void published_example_has_its_signature(void **state)
{
    (void)state;
    static const char *const names[DF_SIGN_HEADERS] = {"X-DataFlow-Timestamp",
                                                       "X-DataFlow-Signature", "webhook-id",
                                                       "webhook-timestamp", "webhook-signature"};
    struct df_call_header h[DF_SIGN_HEADERS];
    struct df_arena a = {0};

    df_sign(DF_STR(SECRET), DF_STR_NULL, DF_STR(ID), TIMESTAMP, DF_STR(BODY), &a, h);
    for (size_t i = 0; i < DF_SIGN_HEADERS; i++)
        assert_str(h[i].name, names[i]);
    assert_str(h[0].value, "1614265330");
    assert_str(h[2].value, ID);
    assert_str(h[3].value, "1614265330");
    assert_str(h[4].value, SIGNATURE);
    df_arena_release(&a);
}

/* RFC 4231, test case 2: the key "Jefe". */
static void hex_is_that_of_the_rfc(void **state)
{
    (void)state;
    char hex[DF_SIGN_HEX + 1];

    df_sign_hex(DF_STR("Jefe"), DF_STR("what do ya want for nothing?"), hex);
    assert_string_equal(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

/* openssl's own program, given the message in a file. */
static void by_openssl(const char *secret, struct df_str message, char out[65])
{
    char path[] = "/tmp/df-sign-XXXXXX";
    char command[256];
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, message.ptr, message.len), (ssize_t)message.len);
    (void)close(fd);
    (void)snprintf(command, sizeof(command), "openssl dgst -sha256 -hmac '%s' -r %s", secret, path);
    FILE *f = popen(command, "r"); /* NOLINT(bugprone-command-processor,cert-env33-c) */
    assert_non_null(f);
    assert_int_equal(fread(out, 1, 64, f), 64);
    out[64] = '\0';
    while (fgetc(f) != EOF)
        ;
    assert_int_equal(pclose(f), 0);
    (void)unlink(path);
}

static const char *const bodies[] = {
    "",
    "{}",
    "{\"name\":\"S\xC3\xA3o Jo\xC3\xA3o\"}",
    "\"\xF0\x9F\x9A\x9A\"",
    "text with \r\n and \t",
    "%41 {eventType}",
};

static const char *const secrets[] = {"a secret of its own", SECRET};

static void openssl_has_the_same_signatures(void **state)
{
    (void)state;
    struct df_call_header h[DF_SIGN_HEADERS];
    struct df_arena a = {0};

    for (size_t i = 0; i < COUNT(bodies); i++) {
        const char *secret = secrets[i % COUNT(secrets)];
        struct df_str body = df_str_c(bodies[i]);
        char hex[65];
        char own[DF_SIGN_HEX + 1];

        struct df_str message = df_arena_printf(&a, "1700000000.%s", bodies[i]);
        by_openssl(secret, message, hex);
        df_sign(df_str_c(secret), DF_STR_NULL, DF_STR("1"), 1700000000, body, &a, h);
        assert_str(h[1].value, df_arena_printf(&a, "v1=%s", hex).ptr);
        by_openssl(secret, body, hex);
        df_sign_hex(df_str_c(secret), body, own);
        assert_string_equal(own, hex);
    }
    df_arena_release(&a);
}

static struct df_signed as_received(const struct df_call_header h[DF_SIGN_HEADERS],
                                    struct df_str body)
{
    return (struct df_signed){.body = body,
                              .timestamp = h[0].value,
                              .signature = h[1].value,
                              .webhook_id = h[2].value,
                              .webhook_timestamp = h[3].value,
                              .webhook_signature = h[4].value};
}

static void receiver_verifies_either_secret_of_a_rotation(void **state)
{
    (void)state;
    struct df_call_header h[DF_SIGN_HEADERS];
    struct df_arena a = {0};

    for (size_t i = 0; i < COUNT(bodies); i++) {
        struct df_str body = df_str_c(bodies[i]);
        df_sign(df_str_c(secrets[0]), df_str_c(secrets[1]), DF_STR("e-1"), TIMESTAMP, body, &a, h);
        struct df_signed m = as_received(h, body);
        for (size_t k = 0; k < COUNT(secrets); k++)
            assert_null(df_sb_verify(df_str_c(secrets[k]), &m, TIMESTAMP, 1));
        assert_non_null(df_sb_verify(DF_STR("quite another secret"), &m, TIMESTAMP, 1));
        m.body = DF_STR("another body");
        assert_non_null(df_sb_verify(df_str_c(secrets[0]), &m, TIMESTAMP, 1));
    }
    df_arena_release(&a);
}

static void secrets_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const good[] = {
        SECRET,
        "sixteen letters!",
        "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "whsec_"
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA==",
    };
    static const char *const bad[] = {
        "",
        "fifteen letters",
        "whsec_",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS",             /* cut */
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2La",                /* 21 bytes */
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa w",            /* not base64 */
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa-_",            /* the other alphabet */
        "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", /* no padding */
        "whsec_"
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        "AAA", /* 66 bytes */
    };

    for (size_t i = 0; i < COUNT(good); i++)
        if (df_sign_check_secret(df_str_c(good[i]), NULL) != DF_OK)
            fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct df_err err = DF_ERR_INIT;
        if (df_sign_check_secret(df_str_c(bad[i]), &err) != DF_E_CONFIG)
            fail_msg("accepted: %s", bad[i]);
        assert_true(strlen(err.detail) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_example_has_its_signature),
        cmocka_unit_test(hex_is_that_of_the_rfc),
        cmocka_unit_test(openssl_has_the_same_signatures),
        cmocka_unit_test(receiver_verifies_either_secret_of_a_rotation),
        cmocka_unit_test(secrets_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
