/*
 * The bytes of a stored file, read from any place: what storage hands out (decrypted, if the file
 * is encrypted) and what parsers read. One thread at a time.
 */
#ifndef DF_IMPORTS_BYTES_H
#define DF_IMPORTS_BYTES_H

#include "base/err.h"
#include "base/str.h"

struct df_bytes {
    /* Puts up to len bytes from offset on at ptr; *ret_len is 0 only at the end. */
    enum df_code (*read_at)(void *arg, uint64_t offset, char *ptr, size_t len, size_t *ret_len,
                            struct df_err *err);
    void *arg;
    uint64_t size;
};

#endif
