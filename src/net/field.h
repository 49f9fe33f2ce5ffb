/* Header fields: checks of names and values, and the fields that the server reads. */
#ifndef DF_NET_FIELD_H
#define DF_NET_FIELD_H

#include "base/arena.h"
#include "base/err.h"

/* A token of RFC 9110: letters, digits and !#$%&'*+-.^_`|~ */
bool df_field_is_token(struct df_str s);

/* Whether a field of this name describes the connection or the framing of the message: only the
 * HTTP client sets these. */
bool df_field_is_framing(struct df_str name);

/* No control characters except the tab; bytes above 0x7F are allowed. */
bool df_field_value_ok(struct df_str s);

/* Host may be empty, but must not hold characters that make it ambiguous. */
bool df_field_host_ok(struct df_str s);

/* Content-Length: digits only. Also false above 2^53. */
bool df_field_length(struct df_str s, int64_t *ret);

/* application/json or application/…+json, with no charset or with UTF-8. */
bool df_field_is_json(struct df_str content_type);

/*
 * The weight, 0 to 1000, that an Accept field gives to a media type of this version: the most
 * specific of its ranges decides, then the first. -1: none matches. *ret_named (may be NULL): not
 * by a wildcard. A range with another version does not match; its other parameters do not matter. A
 * range with an invalid weight is left out, as are ranges beyond the first DF_FIELD_RANGES_MAX.
 */
#define DF_FIELD_RANGES_MAX 64
int df_field_weight(struct df_str accept, struct df_str type, struct df_str version,
                    bool *ret_named);

/* 1 to 128 of [A-Za-z0-9._:-]: safe in a header, a log line and a file name. */
bool df_field_correlation_ok(struct df_str s);

/* Idempotency-Key: 1 to DF_FIELD_KEY_MAX visible ASCII characters, or absent; else
 * DF_E_BAD_REQUEST. */
#define DF_FIELD_KEY_MAX 200
enum df_code df_field_check_key(struct df_str key, struct df_err *err) DF_MUST_CHECK;

/* Writes bytes that `keeps` rejects as %XX; returns s itself when there are none. */
struct df_str df_percent_encode(struct df_arena *a, struct df_str s,
                                bool (*keeps)(unsigned char c));
/* Any text as a header's value: visible ASCII except % and the quote stays, the rest is encoded as
 * in CloudEvents' HTTP binding (3.1.3.2). */
struct df_str df_field_text(struct df_arena *a, struct df_str s);

#endif
