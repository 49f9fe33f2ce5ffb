#include "integrations/settings.h"

#include "net/router.h"

static const char *const method_names[] = {
    [DF_GET] = "GET",         [DF_HEAD] = "HEAD",      [DF_POST] = "POST",
    [DF_PUT] = "PUT",         [DF_PATCH] = "PATCH",    [DF_DELETE] = "DELETE",
    [DF_OPTIONS] = "OPTIONS", [DF_METHOD_OTHER] = NULL};

#define S                  struct df_integration_settings
#define NO_STANDARD(value) NULL

/* clang-format off */
static const struct df_config_key integration_keys[] = {
    DF_KEY_STRING("base_url", S, base_url, NULL, "Required. Where calls go; the path after /integrations/NAME is appended."),
    DF_KEY_FLAGS("methods", S, methods, "all", method_names, "Methods that are passed on."),
    DF_KEY_INT("timeout_ms", S, timeout_ms, "30000", 1, DF_HOURS, "Longest time for one attempt."),
    DF_KEY_INT("retry_max_attempts", S, retry_max_attempts, "3", 1, 20, "Attempts in all, for calls that are safe to repeat."),
    DF_KEY_INT("retry_wait_ms", S, retry_wait_ms, "2000", 0, 60000, "Wait between attempts."),
    DF_BREAKER_KEYS(S, breaker., NO_STANDARD, " Default: that of [breaker]."),
    DF_KEY_OPTIONAL("unavailable_code", S, unavailable_code, "The problem's code when the other system is not available; default: PaymentServiceUnavailable for payment, CreditCheckServiceUnavailable for credit-check."),
    DF_KEY_SECRET("api_key", S, api_key, "Key that is added to every call."),
    DF_KEY_STRING("api_key_header", S, api_key_header, "X-Api-Key", "Header that carries the key."),
    DF_KEY_STRING("forward_headers", S, forward_headers, "Accept, Accept-Language, Content-Type, Content-Language, Idempotency-Key, If-Match, If-None-Match, "
         "If-Modified-Since, If-Unmodified-Since, Prefer, Range, User-Agent", "Headers of the request that are passed on."),
    DF_KEY_SECRET("set_headers", S, set_headers, "Headers added to every call, Name: value; Name: value."),
    DF_KEY_STRING("return_headers", S, return_headers, "Content-Type, Content-Language, Content-Location, Content-Disposition, Cache-Control, ETag, Last-Modified, "
         "Link, Location, Retry-After, Vary, WWW-Authenticate, Accept-Ranges, Content-Range, Allow", "Headers of the answer that are passed back."),
    {.key = NULL},
};
/* clang-format on */

const struct df_config_group df_integration_group = {
    .prefix = "integration",
    .keys = integration_keys,
    .size = sizeof(S),
    .name_offset = offsetof(S, name),
    .help = "Calls to another system, /integrations/NAME/…, with retry and circuit breaker.",
    .example = "[integration.payment]\n"
               "base_url = http://127.0.0.1:8090/payments\n"
               "timeout_ms = 5000\n"
               "retry_max_attempts = 3\n"
               "retry_wait_ms = 500\n",
};

/* "credit-check" gives CreditCheckServiceUnavailable. A code begins with a capital letter, which a
 * name need not. */
static char *unavailable_code(const char *name)
{
    struct df_buf code;
    bool capital = true;

    df_buf_init(&code, 256);
    if (*name >= '0' && *name <= '9')
        df_buf_addz(&code, "Integration");
    for (const char *c = name; *c; c++) {
        bool between = *c == '-' || *c == '_';
        if (!between)
            df_buf_addc(&code, capital && *c >= 'a' && *c <= 'z' ? (char)(*c - 'a' + 'A') : *c);
        capital = between;
    }
    df_buf_addz(&code, "ServiceUnavailable");
    return df_buf_take(&code, NULL);
}

void df_integration_fill_settings(struct df_integration_settings *s,
                                  const struct df_breaker_settings *breaker)
{
    df_config_inherit(df_breaker_keys, &s->breaker, breaker);
    if (!s->unavailable_code)
        s->unavailable_code = unavailable_code(s->name);
}
