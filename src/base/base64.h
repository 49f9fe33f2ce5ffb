/*
 * Decodes base64 that arrives piece by piece (RFC 4648). libsodium's decoder wants the whole text,
 * so this one is ours; libsodium's is the reference in its tests.
 *
 * Both alphabets are accepted, even mixed; padding is optional, but not in part; white space may
 * occur anywhere. A data: URL in base64 is accepted too. One thread at a time.
 *
 *     df_base64_init(&d);
 *     while (...)
 *         rc = df_base64_feed(&d, piece, out, &len, err);
 *     rc = df_base64_finish(&d, out, &len, err);
 */
#ifndef DF_BASE_BASE64_H
#define DF_BASE_BASE64_H

#include "base/err.h"
#include "base/str.h"

/* Room that feed needs for text of n bytes; finish needs DF_BASE64_ROOM(0). */
#define DF_BASE64_ROOM(n) ((n) / 4 * 3 + 16)

/* Longest text before the comma of a data: URL. */
#define DF_BASE64_PREFIX_MAX 256

struct df_base64 {
    int state;
    uint32_t bits;  /* of the incomplete group */
    unsigned count; /* characters of that group, 0 to 3 */
    unsigned pads;  /* = seen */
    int64_t offset; /* bytes of text consumed */
    size_t prefix_len;
    char prefix[DF_BASE64_PREFIX_MAX];
};

void df_base64_init(struct df_base64 *d);

/* Consumes all of `text`. DF_E_BAD_REQUEST with the offset of the error in the whole text. */
enum df_code df_base64_feed(struct df_base64 *d, struct df_str text, char *out, size_t *ret_len,
                            struct df_err *err) DF_MUST_CHECK;

/* The text has ended: writes the bytes that are left (at most 3), or reports what is missing. */
enum df_code df_base64_finish(struct df_base64 *d, char *out, size_t *ret_len,
                              struct df_err *err) DF_MUST_CHECK;

#endif
