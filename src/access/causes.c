#include "access/causes.h"

void df_causes_write(struct df_causes *c, struct df_json_out *out)
{
    size_t count = 0;
    struct df_cause **top = df_causes_top(c, DF_CAUSES_SHOWN, &count);

    df_json_open(out, '{');
    df_json_key(out, "items");
    df_json_open(out, '[');
    for (size_t i = 0; i < count; i++) {
        df_json_open(out, '{');
        df_json_kv_text(out, "cause", top[i]->text);
        df_json_kv_int(out, "count", top[i]->count);
        df_json_kv_time(out, "first", top[i]->first_ms);
        df_json_kv_time(out, "last", top[i]->last_ms);
        df_json_kv_bool(out, "retried", top[i]->retried);
        df_json_kv_text(out, "exampleId", top[i]->example);
        df_json_close(out, '}');
    }
    df_json_close(out, ']');
    df_json_kv_int(out, "total", c->failures);
    df_json_kv_int(out, "causes", (int64_t)c->map.count);
    df_json_close(out, '}');
}
