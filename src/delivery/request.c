/* What channels need to build a request. */
#include "delivery/channel.h"

#include <stdio.h>
#include <stdlib.h>

void df_delivery_header(struct df_delivery_request *req, const char *name, struct df_str value)
{
    if (req->header_count == DF_DELIVERY_HEADERS)
        abort();
    req->headers[req->header_count++] =
        (struct df_call_header){.name = df_str_c(name), .value = value};
}

struct df_str df_delivery_header_text(struct df_arena *a, struct df_str s)
{
    char *out = df_arena_alloc(a, 3 * s.len + 1);
    size_t len = 0;

    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c > 0x20 && c < 0x7F && c != '%')
            out[len++] = (char)c;
        else
            len += (size_t)snprintf(out + len, 4, "%%%02X", c);
    }
    return df_str_n(out, len);
}

void df_delivery_trace(struct df_delivery_request *req, const struct df_clock *clock,
                       struct df_arena *a)
{
    uint64_t id[3];

    df_random(clock, id, sizeof(id));
    struct df_str trace = df_arena_printf(a, "%016llx%016llx", (unsigned long long)id[0] | 1,
                                          (unsigned long long)id[1]);
    df_delivery_header(req, "traceparent",
                       df_arena_printf(a, "00-" DF_STR_FMT "-%016llx-01", DF_STR_ARG(trace),
                                       (unsigned long long)id[2] | 1));
    df_delivery_header(req, "x-trace-id", trace);
}
