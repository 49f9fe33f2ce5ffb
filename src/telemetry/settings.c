#include "telemetry/settings.h"

#include "base/mem.h"
#include "net/field.h"
#include "net/settings.h"
#include "telemetry/otlp.h"

#include <stdlib.h>

#define S struct df_telemetry_settings

/* clang-format off */
const struct df_config_key df_telemetry_keys[] = {
    DF_KEY_OPTIONAL("endpoint", S, endpoint, "URL of an OpenTelemetry collector (OTLP over HTTP); spans go to /v1/traces there, or to the URL's path if it has one. Without it there are no traces."),
    DF_KEY_STRING("sample_ratio", S, sample_ratio, "0.01", "Share of the traces that are recorded, 0 to 1; the trace's id decides."),
    DF_KEY_INT("caller_traces_per_minute", S, caller_traces_per_minute, "60", 0, 1000000, "Traces that are recorded beyond that because their caller records them, in a minute for each client; 0: none."),
    DF_KEY_SECRET("headers", S, headers, "Headers for the collector: name=value,name=value with percent-encoded values."),
    DF_KEY_INT("timeout_ms", S, timeout_ms, "10000", 100, 600000, "Longest time for one call to the collector."),
    DF_KEY_INT("queue", S, queue, "8192", 64, 1000000, "Spans that may wait for it; more are dropped, and counted. One takes about a kilobyte."),
    DF_KEY_STRING("service_name", S, service_name, "dataflow", "The attribute service.name."),
    {.key = NULL},
};
/* clang-format on */

bool df_telemetry_ratio(struct df_str text, double *ret)
{
    char copy[24];
    char *end;

    if (text.len == 0 || text.len >= sizeof(copy))
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (!(text.ptr[i] >= '0' && text.ptr[i] <= '9') && text.ptr[i] != '.')
            return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    double ratio = strtod(copy, &end);
    if (*end || end == copy || ratio > 1)
        return false;
    *ret = ratio;
    return true;
}

static bool decode_value(struct df_str in, char *out, size_t *ret_len)
{
    size_t n = 0;

    for (size_t i = 0; i < in.len; i++) {
        char c = in.ptr[i];
        if (c == '%') {
            int high = in.len - i > 2 ? df_hex_digit(in.ptr[i + 1]) : -1;
            int low = in.len - i > 2 ? df_hex_digit(in.ptr[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        }
        out[n++] = c;
    }
    *ret_len = n;
    return df_field_value_ok(df_str_n(out, n));
}

/* Those that every call has. */
static bool is_ours(struct df_str name)
{
    return df_str_ieq(name, DF_STR("Content-Type")) ||
           df_str_ieq(name, DF_STR("Content-Encoding")) || df_str_ieq(name, DF_STR("Host"));
}

bool df_telemetry_next_header(struct df_str *rest, struct df_str *ret_name, char *value,
                              size_t *ret_len)
{
    struct df_str one, name;

    *rest = df_str_cut(*rest, ',', &one);
    struct df_str text = df_str_cut(one, '=', &name);
    *ret_name = df_str_trim(name);
    return text.ptr && df_field_is_token(*ret_name) && !is_ours(*ret_name) &&
           decode_value(df_str_trim(text), value, ret_len);
}

static bool headers_ok(struct df_str all)
{
    char *value = df_malloc(all.len + 1);
    struct df_str name;
    size_t len, count = 0;
    bool ok = true;

    while (ok && all.ptr)
        ok = ++count <= DF_OTLP_HEADERS && df_telemetry_next_header(&all, &name, value, &len);
    df_wipe(value, all.len + 1);
    free(value);
    return ok;
}

void df_telemetry_check_settings(const struct df_telemetry_settings *s, struct df_buf *complaints)
{
    double ratio;

    df_net_check_url("otel", "endpoint", df_str_c(s->endpoint), complaints);
    if (!df_telemetry_ratio(df_str_c(s->sample_ratio), &ratio))
        df_buf_addz(complaints, "[otel] sample_ratio: must be a number from 0 to 1, as 0.01\n");
    if (s->headers && !headers_ok(df_secret_str(s->headers)))
        df_buf_addf(complaints,
                    "[otel] headers: must be name=value,name=value, with percent-encoded values "
                    "and at most %d of them\n",
                    DF_OTLP_HEADERS);
}
