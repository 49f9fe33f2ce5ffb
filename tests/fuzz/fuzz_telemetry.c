/*
 * What a collector answers, and the settings with a form of their own: the headers for it and the
 * ratio. The first byte chooses. An answer rejects no negative number of spans, and its message is
 * valid text within its bound; a header is one that the client sends as it is; a ratio is from 0 to
 * 1.
 */
#include "net/field.h"
#include "telemetry/otlp.h"
#include "telemetry/settings.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            abort();                                                                               \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_answer(struct df_str body)
{
    struct df_otlp_answer a;

    df_otlp_read_answer(body, &a);
    CHECK(a.rejected >= 0);
    CHECK(memchr(a.message, '\0', sizeof(a.message)));
    CHECK(df_utf8_valid_prefix(df_str_c(a.message)) == strlen(a.message));
}

static void read_headers(struct df_str rest)
{
    char *value = malloc(rest.len + 1);
    struct df_str name;
    size_t len = 0;

    CHECK(value);
    while (rest.ptr && df_telemetry_next_header(&rest, &name, value, &len)) {
        CHECK(df_field_is_token(name));
        CHECK(df_field_value_ok(df_str_n(value, len)));
        CHECK(!df_str_ieq(name, DF_STR("Content-Type")));
    }
    free(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    double ratio = -1;

    if (size == 0)
        return 0;
    struct df_str text = df_str_n((const char *)data + 1, size - 1);
    if (data[0] == 'h')
        read_headers(text);
    else if (data[0] == 'r')
        CHECK(!df_telemetry_ratio(text, &ratio) || (ratio >= 0 && ratio <= 1));
    else
        read_answer(text);
    return 0;
}
