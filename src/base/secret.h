/*
 * Memory for secrets: keys and passwords live in guarded, locked pages that are wiped when freed
 * and stay out of core dumps. Comparison takes the same time wherever the texts differ.
 */
#ifndef DF_BASE_SECRET_H
#define DF_BASE_SECRET_H

#include "base/str.h"

struct df_secret; /* opaque, immutable once made */

/* Copies s. NULL when s is absent. */
struct df_secret *df_secret_new(struct df_str s);
/* A key of 32 bytes, written as 64 hexadecimal digits or in base64; NULL for anything else. */
#define DF_SECRET_KEY_BYTES 32
struct df_secret *df_secret_key_new(struct df_str text);
void df_secret_free(struct df_secret *s);

/* Borrowed, followed by a NUL; absent for NULL. */
struct df_str df_secret_str(const struct df_secret *s);

/* False when either is absent or empty. The time depends only on the length of `given`. */
bool df_secret_matches(const struct df_secret *s, struct df_str given);

/* Constant-time comparison of equally long byte strings. */
bool df_bytes_equal(const void *a, const void *b, size_t len);

void df_wipe(void *ptr, size_t len);

#endif
