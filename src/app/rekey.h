/*
 * Encrypts anew what is not under the current data key: secrets of webhooks, kept records of
 * imports, and stored files, here and in S3. It makes a pass when a process starts, when the
 * current key has changed, and every hour. A pass does small steps with pauses; each leaves its
 * secret or file under one key or the other, so a crash costs nothing, and the next pass goes on.
 * Several processes may be at it.
 *
 * A process that has not heard of the new key yet may use the old one for some seconds. So a second
 * pass follows; when it finds nothing, the keys before are marked as retired.
 */
#ifndef DF_APP_REKEY_H
#define DF_APP_REKEY_H

#include "files/storage.h"
#include "keys/key_use.h"

struct df_rekey;

struct df_rekey_options {
    struct df_store *store;
    struct df_storage *storage;
    struct df_keys *keys;
    const struct df_clock *clock;
    bool files_only; /* those of this host: another process does the rest */
};

/* Starts a thread. */
struct df_rekey *df_rekey_new(const struct df_rekey_options *opt);
/* Waits for the step under way. NULL is fine. */
void df_rekey_stop(struct df_rekey *r);
void df_rekey_free(struct df_rekey *r); /* NULL is fine */

/* Adds the files of this host and those in S3 to the uses of keys. Files that can't be read are
 * left out. */
enum df_code df_rekey_count(struct df_db *db, struct df_storage *st, struct df_key_uses *uses,
                            struct df_err *err) DF_MUST_CHECK;

#endif
