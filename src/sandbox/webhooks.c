/*
 * A receiver of webhooks: POST /webhooks/…. Where a secret is known for the path, every signature
 * that the request carries must verify, and there must be one:
 *
 *   X-DataFlow-Signature: v1=<hex>[,v1=<hex>]     over "<X-DataFlow-Timestamp>.<body>", with the
 * secret as shown webhook-signature: v1,<base64>[ v1,<base64>]  over
 * "<webhook-id>.<webhook-timestamp>.<body>", with the bytes that follow whsec_ in base64 (Standard
 * Webhooks) "signature" in the body                       hex, over the body without that member,
 * with the secret as shown
 *
 * Of several signatures in a header one has to match: during a rotation there are two.
 */
#include "sandbox/internal.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sodium.h>

#define DIGEST 32

/* One after another under the MAC; absent parts are skipped. */
static bool mac(struct df_str key, const struct df_str *parts, size_t count,
                unsigned char out[DIGEST])
{
    size_t len = 0;
    EVP_MAC *algorithm = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *ctx = algorithm ? EVP_MAC_CTX_new(algorithm) : NULL;
    char digest[] = "SHA256";
    const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string("digest", digest, 0),
                                 OSSL_PARAM_construct_end()};
    bool ok = ctx && EVP_MAC_init(ctx, (const unsigned char *)key.ptr, key.len, params) == 1;

    for (size_t i = 0; ok && i < count; i++)
        if (parts[i].len > 0)
            ok = EVP_MAC_update(ctx, (const unsigned char *)parts[i].ptr, parts[i].len) == 1;
    ok = ok && EVP_MAC_final(ctx, out, &len, DIGEST) == 1 && len == DIGEST;
    EVP_MAC_CTX_free(ctx);
    EVP_MAC_free(algorithm);
    return ok;
}

static bool hex_matches(struct df_str hex, const unsigned char digest[DIGEST])
{
    unsigned char given[DIGEST];
    size_t len = 0;

    return hex.len == (size_t)2 * DIGEST &&
           sodium_hex2bin(given, DIGEST, hex.ptr, hex.len, NULL, &len, NULL) == 0 &&
           len == DIGEST && df_bytes_equal(given, digest, DIGEST);
}

static bool base64_matches(struct df_str text, const unsigned char digest[DIGEST])
{
    char expected[sodium_base64_ENCODED_LEN(DIGEST, sodium_base64_VARIANT_ORIGINAL)];

    (void)sodium_bin2base64(expected, sizeof(expected), digest, DIGEST,
                            sodium_base64_VARIANT_ORIGINAL);
    return text.len == sizeof(expected) - 1 && df_bytes_equal(text.ptr, expected, text.len);
}

static const char *check_time(struct df_str text, int64_t now_s, int64_t tolerance_s,
                              const char *malformed, const char *old)
{
    int64_t t;

    if (!df_str_to_i64(text, &t) || t < 0)
        return malformed;
    if (tolerance_s > 0 && (t < now_s - tolerance_s || t > now_s + tolerance_s))
        return old;
    return NULL;
}

static const char *check_own(struct df_str secret, const struct df_sb_signed *m, int64_t now_s,
                             int64_t tolerance_s)
{
    const struct df_str parts[] = {m->timestamp, DF_STR("."), m->body};
    unsigned char digest[DIGEST];
    const char *why = check_time(m->timestamp, now_s, tolerance_s,
                                 "X-DataFlow-Timestamp is missing or no Unix time",
                                 "X-DataFlow-Timestamp is too far from now");
    if (why)
        return why;
    if (!mac(secret, parts, 3, digest))
        return "the signature could not be computed";
    for (struct df_str rest = m->signature; rest.ptr;) {
        struct df_str one;
        rest = df_str_cut(rest, ',', &one);
        one = df_str_trim(one);
        if (df_str_starts(one, DF_STR("v1=")) &&
            hex_matches(df_str_n(one.ptr + 3, one.len - 3), digest))
            return NULL;
    }
    return "X-DataFlow-Signature does not match";
}

/* The key of Standard Webhooks; a secret without the prefix is its own key. */
static struct df_str standard_key(struct df_str secret, unsigned char out[DF_SB_SECRET_LEN])
{
    const struct df_str prefix = DF_STR("whsec_");
    size_t len = 0;

    if (!df_str_starts(secret, prefix) ||
        sodium_base642bin(out, DF_SB_SECRET_LEN, secret.ptr + prefix.len, secret.len - prefix.len,
                          NULL, &len, NULL, sodium_base64_VARIANT_ORIGINAL) != 0)
        return secret;
    return df_str_n((const char *)out, len);
}

static const char *check_standard(struct df_str secret, const struct df_sb_signed *m, int64_t now_s,
                                  int64_t tolerance_s)
{
    const struct df_str parts[] = {m->webhook_id, DF_STR("."), m->webhook_timestamp, DF_STR("."),
                                   m->body};
    unsigned char key[DF_SB_SECRET_LEN];
    unsigned char digest[DIGEST];

    if (m->webhook_id.len == 0)
        return "webhook-id is missing";
    const char *why = check_time(m->webhook_timestamp, now_s, tolerance_s,
                                 "webhook-timestamp is missing or no Unix time",
                                 "webhook-timestamp is too far from now");
    if (why)
        return why;
    bool ok = mac(standard_key(secret, key), parts, 5, digest);
    df_wipe(key, sizeof(key));
    if (!ok)
        return "the signature could not be computed";
    for (struct df_str rest = m->webhook_signature; rest.ptr;) {
        struct df_str one;
        rest = df_str_cut(rest, ' ', &one);
        if (df_str_starts(one, DF_STR("v1,")) &&
            base64_matches(df_str_n(one.ptr + 3, one.len - 3), digest))
            return NULL;
    }
    return "webhook-signature does not match";
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/*
 * Where the member begins and ends in the body, with the comma that goes with it. The value's slice
 * points into the body, and the body is valid JSON: before the value stand a colon and the name.
 */
static void member_span(struct df_str body, const struct df_json *value, size_t *ret_from,
                        size_t *ret_to)
{
    size_t from = (size_t)(value->raw.ptr - body.ptr);
    size_t to = from + value->raw.len;

    while (body.ptr[from] != ':')
        from--;
    do
        from--;
    while (is_space(body.ptr[from]));
    do
        from--;
    while (body.ptr[from] != '"');
    size_t before = from;
    while (is_space(body.ptr[before - 1]))
        before--;
    if (body.ptr[before - 1] == ',') {
        from = before - 1;
    } else {
        while (is_space(body.ptr[to]))
            to++;
        if (body.ptr[to] == ',')
            to++;
    }
    *ret_from = from;
    *ret_to = to;
}

/* *ret_present tells whether the body has a signature at all. */
static const char *check_body(struct df_str secret, struct df_str body, bool *ret_present)
{
    struct df_arena arena;
    const struct df_json *doc = NULL;
    const char *why = NULL;

    *ret_present = false;
    df_arena_init(&arena);
    const struct df_json *value = NULL;
    if (df_json_parse(&arena, body, &doc, NULL) == DF_OK)
        value = df_json_get(doc, "signature");
    if (value && value->type == DF_JSON_STRING && df_str_eq(value->key, DF_STR("signature"))) {
        unsigned char digest[DIGEST];
        size_t from;
        size_t to;
        *ret_present = true;
        member_span(body, value, &from, &to);
        const struct df_str parts[] = {df_str_n(body.ptr, from),
                                       df_str_n(body.ptr + to, body.len - to)};
        if (!mac(secret, parts, 2, digest) || !hex_matches(value->text, digest))
            why = "the body's signature does not match";
    }
    df_arena_release(&arena);
    return why;
}

const char *df_sb_verify(struct df_str secret, const struct df_sb_signed *m, int64_t now_s,
                         int64_t tolerance_s)
{
    bool in_body = false;
    const char *why = check_body(secret, m->body, &in_body);

    if (!why && m->signature.ptr)
        why = check_own(secret, m, now_s, tolerance_s);
    if (!why && m->webhook_signature.ptr)
        why = check_standard(secret, m, now_s, tolerance_s);
    if (!why && !m->signature.ptr && !m->webhook_signature.ptr)
        why = in_body ? "only the body is signed: X-DataFlow-Signature is missing"
                      : "there is no signature";
    return why;
}

void df_sb_webhook(struct df_sandbox *s, struct df_req *req, struct df_sb_reply *reply)
{
    char secret[DF_SB_SECRET_LEN];
    size_t len = df_sb_config_secret(&s->config, df_req_path(req), secret);

    reply->fixed = DF_STR("{\"status\":\"Received\"}");
    if (len == 0)
        return;
    const struct df_sb_signed m = {
        .body = df_req_body(req),
        .timestamp = df_req_header(req, "X-DataFlow-Timestamp"),
        .signature = df_req_header(req, "X-DataFlow-Signature"),
        .webhook_id = df_req_header(req, "webhook-id"),
        .webhook_timestamp = df_req_header(req, "webhook-timestamp"),
        .webhook_signature = df_req_header(req, "webhook-signature"),
    };
    struct df_sb_settings settings = df_sb_config_settings(&s->config);
    const char *why = df_sb_verify(df_str_n(secret, len), &m, df_wall_ms(s->clock) / 1000,
                                   settings.webhook_tolerance_s);
    df_wipe(secret, sizeof(secret));
    reply->verified = why ? DF_SB_REJECTED : DF_SB_VERIFIED;
    if (why) {
        reply->status = 401;
        df_req_fail(req, DF_E_UNAUTHORIZED, "%s", why);
    }
}
