/*
 * Saved requests from anybody: the first byte says how many of the rest are the secret. What is
 * read lies within the input; a body with a wrong signature never verifies, and what is signed for
 * it does.
 */
#include "delivery/sign.h"
#include "delivery/verify.h"

#include <stdlib.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            abort();                                                                               \
    } while (0)

static bool is_within(struct df_str part, struct df_str whole)
{
    return !part.ptr || (part.ptr >= whole.ptr && part.ptr + part.len <= whole.ptr + whole.len);
}

static void check_verdicts(struct df_str secret, const struct df_signed *m)
{
    struct df_verify_result v[DF_VERIFY_KINDS];
    struct df_call_header h[DF_SIGN_HEADERS];
    struct df_arena a;

    df_verify(secret, m, 0, 0, v);
    for (int i = 0; i < DF_VERIFY_KINDS; i++)
        CHECK(v[i].present || !v[i].why);
    CHECK(v[DF_VERIFY_OWN].present == (m->signature.ptr != NULL));
    df_arena_init(&a);
    df_sign(secret, DF_STR("old"), DF_STR("id"), 1, m->body, &a, h);
    const struct df_signed ours = {m->body,    h[0].value, h[1].value,
                                   h[2].value, h[3].value, h[4].value};
    df_verify(secret, &ours, 301, 300, v);
    CHECK(v[DF_VERIFY_OWN].present && !v[DF_VERIFY_OWN].why);
    CHECK(v[DF_VERIFY_STANDARD].present && !v[DF_VERIFY_STANDARD].why);
    df_verify(secret, &ours, 302, 300, v);
    CHECK(v[DF_VERIFY_OWN].why && v[DF_VERIFY_STANDARD].why);
    df_arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct df_err err = DF_ERR_INIT;
    struct df_signed m;

    if (size == 0)
        return 0;
    size_t secret_len = data[0] < size ? data[0] : 0;
    struct df_str secret = df_str_n((const char *)data + 1, secret_len);
    struct df_str text = df_str_n((const char *)data + secret_len, size - secret_len);
    if (df_verify_parse(text, &m, &err) != DF_OK) {
        CHECK(err.detail[0]);
        return 0;
    }
    CHECK(m.body.ptr && is_within(m.body, text));
    CHECK(is_within(m.timestamp, text) && is_within(m.signature, text));
    CHECK(is_within(m.webhook_id, text) && is_within(m.webhook_timestamp, text));
    CHECK(is_within(m.webhook_signature, text));
    check_verdicts(secret, &m);
    return 0;
}
