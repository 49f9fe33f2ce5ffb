/*
 * Signatures of what is sent, so that the receiver can tell it is ours and unchanged: two families,
 * side by side (contract, section 6).
 *
 *     X-DataFlow-Timestamp: <Unix seconds>
 *     X-DataFlow-Signature: v1=<hex HMAC-SHA256 of "<timestamp>.<body>">
 *     webhook-id: <id>
 *     webhook-timestamp: <Unix seconds>
 *     webhook-signature: v1,<base64 HMAC-SHA256 of "<id>.<timestamp>.<body>">
 *
 * The second family is Standard Webhooks: the key of a secret "whsec_<base64>" is the decoded part,
 * the key of any other secret its bytes. The first family takes the whole secret as it is written.
 * While a secret is being replaced, the old and the new one both sign. Their values stand one after
 * the other, separated by a comma and a space in the first family ("v1=…, v1=…") and by a space in
 * the second.
 */
#ifndef DF_DELIVERY_SIGN_H
#define DF_DELIVERY_SIGN_H

#include "base/arena.h"
#include "net/client.h"

#define DF_SIGN_HEADERS 5

/* Writes the five headers in the order above; memory: the arena. old_secret: the one being
 * replaced, which still counts; absent: none. */
void df_sign(struct df_str secret, struct df_str old_secret, struct df_str id, int64_t unix_seconds,
             struct df_str body, struct df_arena *a, struct df_call_header ret[DF_SIGN_HEADERS]);

/* Checks that a "whsec_" secret decodes to 24 to 64 bytes, and that any other has at least 16
 * characters. */
enum df_code df_sign_check_secret(struct df_str secret, struct df_err *err) DF_MUST_CHECK;

/* Lower-case hexadecimal HMAC-SHA256 of the body with this secret as it is written. */
#define DF_SIGN_HEX 64
void df_sign_hex(struct df_str secret, struct df_str body, char out[DF_SIGN_HEX + 1]);

#endif
