#include "delivery/verify.h"

#include "base/secret.h"
#include "delivery/sign.h"
#include "net/field.h"
#include "json/doc.h"

#include <assert.h>

const char *df_verify_kind_name(enum df_verify_kind kind)
{
    switch (kind) {
    case DF_VERIFY_OWN:
        return "X-DataFlow-Signature";
    case DF_VERIFY_STANDARD:
        return "webhook-signature";
    case DF_VERIFY_BODY:
        return "signature in the body";
    }
    return "";
}

/* --- signatures in headers --- */

static const char *check_time(struct df_str text, int64_t now_s, int64_t tolerance_s,
                              const char *malformed, const char *far, int64_t *ret)
{
    if (!df_str_to_i64(text, ret) || *ret < 0)
        return malformed;
    if (tolerance_s > 0 && (*ret < now_s - tolerance_s || *ret > now_s + tolerance_s))
        return far;
    return NULL;
}

/* Whether one of the values between the separators is the expected one. */
static bool has_signature(struct df_str values, char sep, struct df_str expected)
{
    bool found = false;

    while (values.ptr) {
        struct df_str one;
        values = df_str_cut(values, sep, &one);
        one = df_str_trim(one);
        found |= one.len == expected.len && df_bytes_equal(one.ptr, expected.ptr, one.len);
    }
    return found;
}

static const char *check_own(struct df_str secret, const struct df_signed *m, int64_t now_s,
                             int64_t tolerance_s, struct df_arena *a)
{
    struct df_call_header h[DF_SIGN_HEADERS];
    int64_t at = 0;
    const char *why = check_time(m->timestamp, now_s, tolerance_s,
                                 "X-DataFlow-Timestamp is missing or no Unix time",
                                 "X-DataFlow-Timestamp is too far from now", &at);
    if (why)
        return why;
    df_sign(secret, DF_STR_NULL, DF_STR(""), at, m->body, a, h);
    return has_signature(m->signature, ',', h[1].value) ? NULL
                                                        : "X-DataFlow-Signature does not match";
}

static const char *check_standard(struct df_str secret, const struct df_signed *m, int64_t now_s,
                                  int64_t tolerance_s, struct df_arena *a)
{
    struct df_call_header h[DF_SIGN_HEADERS];
    int64_t at = 0;

    if (m->webhook_id.len == 0)
        return "webhook-id is missing";
    const char *why = check_time(m->webhook_timestamp, now_s, tolerance_s,
                                 "webhook-timestamp is missing or no Unix time",
                                 "webhook-timestamp is too far from now", &at);
    if (why)
        return why;
    df_sign(secret, DF_STR_NULL, m->webhook_id, at, m->body, a, h);
    return has_signature(m->webhook_signature, ' ', h[4].value)
               ? NULL
               : "webhook-signature does not match";
}

/* --- the signature in the body --- */

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
    assert(value->raw.ptr > body.ptr && value->raw.ptr < body.ptr + body.len);
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

static struct df_verify_result check_body(struct df_str secret, struct df_str body,
                                          struct df_arena *a)
{
    const struct df_json *doc = NULL;
    char hex[DF_SIGN_HEX + 1];
    size_t from;
    size_t to;

    if (df_json_parse(a, body, &doc, NULL) != DF_OK)
        return (struct df_verify_result){0};
    const struct df_json *value = df_json_get(doc, "signature");
    if (!value || value->type != DF_JSON_STRING || !df_str_eq(value->key, DF_STR("signature")))
        return (struct df_verify_result){0};
    member_span(body, value, &from, &to);
    struct df_str rest = df_arena_printf(a, DF_STR_FMT DF_STR_FMT, (int)from, body.ptr,
                                         (int)(body.len - to), body.ptr + to);
    df_sign_hex(secret, rest, hex);
    bool ok = value->text.len == DF_SIGN_HEX && df_bytes_equal(value->text.ptr, hex, DF_SIGN_HEX);
    return (struct df_verify_result){true, ok ? NULL : "the body's signature does not match"};
}

void df_verify(struct df_str secret, const struct df_signed *m, int64_t now_s, int64_t tolerance_s,
               struct df_verify_result ret[DF_VERIFY_KINDS])
{
    struct df_arena a;

    df_arena_init(&a);
    ret[DF_VERIFY_OWN] = (struct df_verify_result){.present = m->signature.ptr};
    if (m->signature.ptr)
        ret[DF_VERIFY_OWN].why = check_own(secret, m, now_s, tolerance_s, &a);
    ret[DF_VERIFY_STANDARD] = (struct df_verify_result){.present = m->webhook_signature.ptr};
    if (m->webhook_signature.ptr)
        ret[DF_VERIFY_STANDARD].why = check_standard(secret, m, now_s, tolerance_s, &a);
    ret[DF_VERIFY_BODY] = check_body(secret, m->body, &a);
    df_arena_release(&a);
}

/* --- a saved request --- */

/* Cuts a line off; false when there is none that ends. */
static bool take_line(struct df_str *rest, struct df_str *ret)
{
    struct df_str line;
    struct df_str after = df_str_cut(*rest, '\n', &line);

    if (!after.ptr)
        return false;
    if (df_str_ends(line, DF_STR("\r")))
        line.len--;
    *ret = line;
    *rest = after;
    return true;
}

static bool split_header(struct df_str line, struct df_str *ret_name, struct df_str *ret_value)
{
    struct df_str value = df_str_cut(line, ':', ret_name);

    if (!value.ptr || !df_field_is_token(*ret_name))
        return false;
    *ret_value = df_str_trim(value);
    return df_field_value_ok(*ret_value);
}

static bool is_request_line(struct df_str line)
{
    return memmem(line.ptr, line.len, " HTTP/", 6) != NULL;
}

/* Where the value of this header goes; NULL: it is not needed. */
static struct df_str *place_of(struct df_str name, struct df_signed *m, struct df_str *length,
                               struct df_str *coding)
{
    const struct {
        struct df_str name;
        struct df_str *place;
    } known[] = {
        {DF_STR("X-DataFlow-Timestamp"), &m->timestamp},
        {DF_STR("X-DataFlow-Signature"), &m->signature},
        {DF_STR("webhook-id"), &m->webhook_id},
        {DF_STR("webhook-timestamp"), &m->webhook_timestamp},
        {DF_STR("webhook-signature"), &m->webhook_signature},
        {DF_STR("Content-Length"), length},
        {DF_STR("Transfer-Encoding"), coding},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (df_str_ieq(name, known[i].name))
            return known[i].place;
    return NULL;
}

/* The body is the rest, without what an editor added. */
static enum df_code take_body(struct df_str rest, struct df_str length, struct df_str coding,
                              struct df_signed *m, struct df_err *err)
{
    int64_t bytes;

    if (coding.ptr)
        return df_err_set(err, DF_E_BAD_REQUEST,
                          "the body is in chunks (Transfer-Encoding): save it decoded, without "
                          "that header");
    m->body = rest;
    if (!length.ptr)
        return DF_OK;
    if (!df_str_to_i64(length, &bytes) || bytes < 0)
        return df_err_set(err, DF_E_BAD_REQUEST, "Content-Length is no number");
    if ((uint64_t)bytes > rest.len)
        return df_err_set(
            err, DF_E_BAD_REQUEST,
            "the body has_signature %zu bytes, and Content-Length says %lld: it was cut", rest.len,
            (long long)bytes);
    m->body.len = (size_t)bytes;
    return DF_OK;
}

enum df_code df_verify_parse(struct df_str text, struct df_signed *ret, struct df_err *err)
{
    struct df_str rest = text;
    struct df_str line;
    struct df_str length = DF_STR_NULL;
    struct df_str coding = DF_STR_NULL;
    struct df_signed m = {0};

    for (int number = 1;; number++) {
        struct df_str name;
        struct df_str value;
        if (!take_line(&rest, &line))
            return df_err_set(err, DF_E_BAD_REQUEST, "there is no empty line after the headers");
        if (line.len == 0)
            break;
        if (!split_header(line, &name, &value)) {
            if (number == 1 && is_request_line(line))
                continue;
            return df_err_set(err, DF_E_BAD_REQUEST, "line %d is no header", number);
        }
        struct df_str *place = place_of(name, &m, &length, &coding);
        if (place && place->ptr)
            return df_err_set(err, DF_E_BAD_REQUEST, "line %d: " DF_STR_FMT " stands there twice",
                              number, DF_STR_ARG(name));
        if (place)
            *place = value;
    }
    enum df_code code = take_body(rest, length, coding, &m, err);
    if (code == DF_OK)
        *ret = m;
    return code;
}
