#include "json/write.h"

#include "base/clock.h"
#include "base/escape.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void df_json_out_init(struct df_json_out *j, struct df_buf *buf)
{
    *j = (struct df_json_out){.buf = buf};
}

/* Called before every item; a key clears the flag, so that its value gets no comma. */
static void separate(struct df_json_out *j)
{
    if (j->comma)
        df_buf_addc(j->buf, ',');
    j->comma = true;
}

void df_json_open(struct df_json_out *j, char bracket)
{
    separate(j);
    df_buf_addc(j->buf, bracket);
    j->comma = false;
}

void df_json_close(struct df_json_out *j, char bracket)
{
    df_buf_addc(j->buf, bracket);
    j->comma = true;
}

static void add_string(struct df_buf *b, struct df_str s)
{
    df_buf_addc(b, '"');
    df_buf_add_escaped(b, s);
    df_buf_addc(b, '"');
}

void df_json_key(struct df_json_out *j, const char *name)
{
    df_json_key_str(j, df_str_c(name));
}

void df_json_key_str(struct df_json_out *j, struct df_str name)
{
    separate(j);
    add_string(j->buf, name);
    df_buf_addc(j->buf, ':');
    j->comma = false;
}

void df_json_text(struct df_json_out *j, struct df_str s)
{
    if (!s.ptr) {
        df_json_null(j);
        return;
    }
    separate(j);
    add_string(j->buf, s);
}

void df_json_int(struct df_json_out *j, int64_t v)
{
    separate(j);
    df_buf_add_i64(j->buf, v);
}

/* Writes the shortest form that reads back as the same number. */
void df_json_double(struct df_json_out *j, double v)
{
    char text[32];

    if (!isfinite(v)) {
        df_json_null(j);
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    separate(j);
    df_buf_addz(j->buf, text);
}

void df_json_bool(struct df_json_out *j, bool v)
{
    df_json_raw(j, v ? DF_STR("true") : DF_STR("false"));
}

void df_json_null(struct df_json_out *j)
{
    df_json_raw(j, DF_STR("null"));
}

static void add_time(struct df_json_out *j, int64_t wall_ms)
{
    char text[DF_TIME_LEN + 1];

    if (wall_ms == -1) {
        df_json_null(j);
        return;
    }
    df_time_format(wall_ms, text);
    df_json_text(j, df_str_n(text, DF_TIME_LEN));
}

void df_json_raw(struct df_json_out *j, struct df_str json)
{
    separate(j);
    df_buf_adds(j->buf, json);
}

void df_json_kv_text(struct df_json_out *j, const char *name, struct df_str s)
{
    df_json_key(j, name);
    df_json_text(j, s);
}

void df_json_kv_told(struct df_json_out *j, const char *name, struct df_str s)
{
    struct df_arena a = {0};

    df_json_kv_text(j, name, df_lang_text(j->lang, s, &a));
    df_arena_release(&a);
}

void df_json_key_told(struct df_json_out *j, struct df_str name)
{
    struct df_arena a = {0};

    df_json_key_str(j, df_lang_text(j->lang, name, &a));
    df_arena_release(&a);
}

void df_json_kv_int(struct df_json_out *j, const char *name, int64_t v)
{
    df_json_key(j, name);
    df_json_int(j, v);
}

void df_json_kv_int_if(struct df_json_out *j, const char *name, bool known, int64_t v)
{
    df_json_key(j, name);
    if (known)
        df_json_int(j, v);
    else
        df_json_null(j);
}

void df_json_kv_bool(struct df_json_out *j, const char *name, bool v)
{
    df_json_key(j, name);
    df_json_bool(j, v);
}

void df_json_kv_time(struct df_json_out *j, const char *name, int64_t wall_ms)
{
    df_json_key(j, name);
    add_time(j, wall_ms);
}
