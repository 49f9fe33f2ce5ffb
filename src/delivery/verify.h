/*
 * Verifies what delivery/sign.h signed, as a receiver does: for the sandbox, and for requests that
 * were saved to a file (`dataflow webhook verify`). Pure: no clock, no files.
 *
 * A request may carry three signatures, each alone or with the others: DataFlow's own headers, the
 * headers of Standard Webhooks, and the member `signature` of a JSON body, which signs the body
 * without that member. If a header has several values, as during a rotation, one has to match.
 */
#ifndef DF_DELIVERY_VERIFY_H
#define DF_DELIVERY_VERIFY_H

#include "base/err.h"
#include "base/str.h"

enum df_verify_kind { DF_VERIFY_OWN, DF_VERIFY_STANDARD, DF_VERIFY_BODY };
#define DF_VERIFY_KINDS 3

/* An absent slice is a header that the request does not have. */
struct df_signed {
    struct df_str body;
    struct df_str timestamp;
    struct df_str signature;
    struct df_str webhook_id;
    struct df_str webhook_timestamp;
    struct df_str webhook_signature;
};

struct df_verify_result {
    bool present;
    const char *why; /* NULL: it verifies, if present. Constant text */
};

/* tolerance_s: how far a timestamp may be from now; 0: any. */
void df_verify(struct df_str secret, const struct df_signed *m, int64_t now_s, int64_t tolerance_s,
               struct df_verify_result ret[DF_VERIFY_KINDS]);

/* "X-DataFlow-Signature", "webhook-signature", "signature in the body". */
const char *df_verify_kind_name(enum df_verify_kind kind);

/*
 * A request as it was on the wire: a request line or none, headers, an empty line, the body. Lines
 * end in LF or CR LF. Bytes beyond Content-Length are dropped, since editors add a newline. Slices
 * point into the text. DF_E_BAD_REQUEST with the line's number.
 */
enum df_code df_verify_parse(struct df_str text, struct df_signed *ret,
                             struct df_err *err) DF_MUST_CHECK;

#endif
