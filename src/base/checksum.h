/* SHA-256 of a stream of bytes, in hexadecimal. */
#ifndef DF_BASE_CHECKSUM_H
#define DF_BASE_CHECKSUM_H

#include "base/str.h"

#define DF_CHECKSUM_LEN 64 /* lower-case hexadecimal */

struct df_checksum; /* libcrypto's context */

struct df_checksum *df_checksum_new(void);
void df_checksum_free(struct df_checksum *c);
/* Forgets what was added. */
void df_checksum_reset(struct df_checksum *c);
void df_checksum_add(struct df_checksum *c, const void *ptr, size_t len);
/* Writes DF_CHECKSUM_LEN characters and a NUL; then only reset or free. */
void df_checksum_end(struct df_checksum *c, char *ret);
void df_checksum_of(struct df_str s, char *ret);

#endif
