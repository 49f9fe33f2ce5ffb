/*
 * Any bytes as the file of heads: reading ends, and no line is genuine that was not signed.
 */
#include "../unit/keys_from.h"
#include "access/audit_heads.h"
#include "keys/keys.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            abort();                                                                               \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned char key[DF_KEY_BYTES] = {1};
    static struct df_keys *keys;
    struct df_audit_heads heads;

    if (!keys) {
        keys = df_keys_from(df_clock_real(), key);
        df_audit_use_keys(keys);
    }
    df_audit_heads_parse(df_str_n((const char *)data, size), &heads);
    CHECK(heads.count <= size / 128 && heads.damaged <= size);
    for (size_t i = 0; i < heads.count; i++)
        CHECK(heads.items[i].sequence > 0 && !heads.items[i].genuine);
    df_audit_heads_release(&heads);
    return 0;
}
