/* Header fields: what may stand in them, and what the server reads from them. */
#ifndef DF_NET_FIELD_H
#define DF_NET_FIELD_H

#include "base/arena.h"
#include "base/err.h"

/* A token of RFC 9110: letters, digits and !#$%&'*+-.^_`|~ */
bool df_field_is_token(struct df_str s);

/* Whether a field of this name belongs to the connection and the length of what is sent on it: the
 * HTTP client's business and nobody else's. */
bool df_field_is_framing(struct df_str name);

/* No control characters but the tab; bytes past 0x7F are let pass. */
bool df_field_value_ok(struct df_str s);

/* Host may be empty but not hold what would make it ambiguous. */
bool df_field_host_ok(struct df_str s);

/* Content-Length: digits alone. False also past 2^53, which no answer needs to tell apart. */
bool df_field_length(struct df_str s, int64_t *ret);

/* application/json or application/…+json, with no charset or with UTF-8. */
bool df_field_is_json(struct df_str content_type);

/* 1 to 128 of [A-Za-z0-9._:-]: safe in a header, a log line and a file name. */
bool df_field_correlation_ok(struct df_str s);

/* Idempotency-Key: 1 to DF_FIELD_KEY_MAX visible ASCII characters, or absent; else
 * DF_E_BAD_REQUEST. */
#define DF_FIELD_KEY_MAX 200
enum df_code df_field_check_key(struct df_str key, struct df_err *err) DF_MUST_CHECK;

/* Bytes that `keeps` does not want as %XX; the slice itself where there are none. */
struct df_str df_percent_encode(struct df_arena *a, struct df_str s,
                                bool (*keeps)(unsigned char c));
/* Text of any kind as a header's value: visible ASCII but for % and the quote stays, as in
 * CloudEvents' HTTP binding (3.1.3.2). */
struct df_str df_field_text(struct df_arena *a, struct df_str s);

#endif
