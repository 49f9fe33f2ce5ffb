#include "net/probe.h"

#include "base/clock.h"
#include "net/security.h"

#include <curl/curl.h>

static enum df_code connect_only(CURL *easy, const struct df_url *url, const char *destination,
                                 int64_t timeout_ms, struct df_err *err)
{
    char message[CURL_ERROR_SIZE] = "";
    unsigned bad = 0;

    bad |= curl_easy_setopt(easy, CURLOPT_URL, destination);
    bad |= curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
    bad |= curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, message);
    bad |= curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    if (bad || !df_security_set_curl(easy))
        return df_err_set(err, DF_E_INTERNAL, "libcurl does not take its options");
    /* A connection that nothing is sent on shows a proxy to be well, but not the peer behind it. */
    if (df_security_set_route(easy, url))
        (void)curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
    CURLcode code = curl_easy_perform(easy);
    if (code == CURLE_OK)
        return DF_OK;
    return df_security_curl_error(easy, (int)code, message, destination, err);
}

enum df_code df_net_probe(const char *url, int64_t timeout_ms, int64_t *ret_ms, struct df_err *err)
{
    char destination[DF_DESTINATION_SIZE];
    struct df_url parsed;
    const struct df_clock *clock = df_clock_real();
    int64_t began_ms = df_mono_ms(clock);

    enum df_code code = df_url_parse(df_str_c(url), &parsed, err);
    if (code != DF_OK)
        return code;
    (void)df_destination_of(url, destination);
    CURL *easy = curl_easy_init();
    if (!easy)
        return df_err_set(err, DF_E_INTERNAL, "libcurl cannot start");
    code = connect_only(easy, &parsed, destination, timeout_ms, err);
    curl_easy_cleanup(easy);
    *ret_ms = df_mono_ms(clock) - began_ms;
    return code;
}
