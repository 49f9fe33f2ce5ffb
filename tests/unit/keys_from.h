/* Keys for tests, without a database. */
#ifndef DF_TEST_KEYS_FROM_H
#define DF_TEST_KEYS_FROM_H

#include "keys/keys.h"

#include <sodium.h>

/* A ring whose keys are all made from this one: data key 1. */
static inline struct df_keys *df_keys_from(const struct df_clock *clock,
                                           const unsigned char key[DF_KEY_BYTES])
{
    unsigned char made[3][DF_KEY_BYTES];

    for (uint64_t i = 0; i < 3; i++)
        (void)crypto_kdf_derive_from_key(made[i], DF_KEY_BYTES, 100 + i, "dataflow", key);
    struct df_keys *k = df_keys_new(clock, made[0], made[1]);
    df_keys_add(k, 1, made[2]);
    df_keys_use(k, 1);
    return k;
}

#endif
