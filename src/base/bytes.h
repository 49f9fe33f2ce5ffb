/*
 * The bytes of a stored file, readable at any offset: storage provides them (decrypted if need be),
 * and parsers read them. One thread at a time.
 */
#ifndef DF_BASE_BYTES_H
#define DF_BASE_BYTES_H

#include "base/err.h"
#include "base/str.h"

struct df_bytes {
    /* Reads up to len bytes at offset into ptr; *ret_len is 0 only at the end. */
    enum df_code (*read_at)(void *arg, uint64_t offset, char *ptr, size_t len, size_t *ret_len,
                            struct df_err *err);
    void *arg;
    uint64_t size;
};

#endif
