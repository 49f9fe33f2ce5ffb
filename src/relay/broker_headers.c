#include "relay/broker_headers.h"

#include "base/str.h"

size_t df_broker_headers(const struct df_event *e, const char *source, struct df_arena *a,
                         struct df_event_attribute ret[DF_BROKER_HEADERS],
                         struct df_str *ret_content_type)
{
    struct df_event_attribute attributes[DF_EVENT_ATTRIBUTES];
    size_t count = df_event_attributes(e, source, a, attributes);
    size_t n = 0;

    *ret_content_type = DF_STR_NULL;
    for (size_t i = 0; i < count; i++) {
        const char *name = attributes[i].name;
        struct df_str value = attributes[i].value;
        if (strcmp(name, "datacontenttype") == 0) {
            *ret_content_type = value;
            continue;
        }
        ret[n++] = (struct df_event_attribute){df_arena_printf(a, "ce_%s", name).ptr, value};
        if (strcmp(name, "correlationid") == 0)
            ret[n++] = (struct df_event_attribute){"correlationId", value};
        if (strcmp(name, "traceparent") == 0)
            ret[n++] = (struct df_event_attribute){"traceparent", value};
    }
    return n;
}
