/*
 * Writes JSON to a df_buf. The writer adds the commas; the caller only opens, closes and names.
 * Text must be valid UTF-8 (invalid bytes become U+FFFD rather than an invalid document).
 *
 *     struct df_json_out j;
 *     df_json_out_init(&j, &buf);
 *     df_json_open(&j, '{');
 *     df_json_key(&j, "id");      df_json_text(&j, id);
 *     df_json_kv_int(&j, "count", 3);
 *     df_json_close(&j, '}');
 */
#ifndef DF_JSON_WRITE_H
#define DF_JSON_WRITE_H

#include "base/buf.h"
#include "base/lang.h"

struct df_json_out {
    struct df_buf *buf;
    bool comma;
    enum df_lang lang; /* of what is told to people; English unless the caller sets it */
};

void df_json_out_init(struct df_json_out *j, struct df_buf *buf);
void df_json_open(struct df_json_out *j, char bracket);  /* '{' or '[' */
void df_json_close(struct df_json_out *j, char bracket); /* '}' or ']' */
void df_json_key(struct df_json_out *j, const char *name);
void df_json_key_str(struct df_json_out *j, struct df_str name);

void df_json_text(struct df_json_out *j, struct df_str s); /* absent: null */
void df_json_int(struct df_json_out *j, int64_t v);
void df_json_double(struct df_json_out *j, double v); /* not finite: null */
void df_json_bool(struct df_json_out *j, bool v);
void df_json_null(struct df_json_out *j);
void df_json_raw(struct df_json_out *j, struct df_str json); /* already JSON */

void df_json_kv_text(struct df_json_out *j, const char *name, struct df_str s);
/* A text that was written for people in English (base/lang.h): in the writer's language. */
void df_json_kv_told(struct df_json_out *j, const char *name, struct df_str s);
/* The same as a name. */
void df_json_key_told(struct df_json_out *j, struct df_str name);
void df_json_kv_int(struct df_json_out *j, const char *name, int64_t v);
void df_json_kv_int_if(struct df_json_out *j, const char *name, bool known,
                       int64_t v); /* else null */
void df_json_kv_bool(struct df_json_out *j, const char *name, bool v);
/* ISO 8601; -1: null. */
void df_json_kv_time(struct df_json_out *j, const char *name, int64_t wall_ms);

#endif
