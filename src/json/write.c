#include "json/write.h"

#include "base/clock.h"
#include "json/lex.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void df_json_out_init(struct df_json_out *j, struct df_buf *buf)
{
    *j = (struct df_json_out){.buf = buf};
}

/* Before every item; whoever writes a key takes the comma away from its value. */
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

static void add_escape(struct df_buf *b, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    char out[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
    size_t len = 2;

    switch (c) {
    case '"':
    case '\\':
        out[1] = (char)c;
        break;
    case '\b':
        out[1] = 'b';
        break;
    case '\f':
        out[1] = 'f';
        break;
    case '\n':
        out[1] = 'n';
        break;
    case '\r':
        out[1] = 'r';
        break;
    case '\t':
        out[1] = 't';
        break;
    default:
        len = sizeof(out);
        break;
    }
    df_buf_add(b, out, len);
}

void df_json_escape(struct df_buf *b, struct df_str s)
{
    const char *p = s.ptr ? s.ptr : "";
    const char *end = p + s.len;
    const char *from = p; /* what stands here up to p needs no change */

    while (p < end) {
        p = df_json_plain(p, end);
        if (p == end)
            break;
        int len = (unsigned char)*p >= 0x80 ? df_json_utf8(p, end) : 0;
        if (len > 0) {
            p += len;
            continue;
        }
        df_buf_add(b, from, (size_t)(p - from));
        if (len < 0)
            df_buf_add(b, "\xEF\xBF\xBD", 3);
        else
            add_escape(b, (unsigned char)*p);
        from = ++p;
    }
    df_buf_add(b, from, (size_t)(end - from));
}

static void add_string(struct df_buf *b, struct df_str s)
{
    df_buf_addc(b, '"');
    df_json_escape(b, s);
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

/* The shortest of those that read back as the same number. */
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
