/* What is under which key: for people, and to tell a key that is lost. */
#ifndef DF_KEYS_KEY_USE_H
#define DF_KEYS_KEY_USE_H

#include "keys/data_keys.h"
#include "json/write.h"

struct df_key_use {
    uint32_t id; /* 0: no data key. In a form of older releases, or under security.storage_key */
    int64_t secrets;  /* of webhooks, previous ones too */
    int64_t payloads; /* kept records of imports */
    int64_t files;
    struct df_key_use *next;
};

struct df_key_uses {
    struct df_arena *arena;
    struct df_key_use *first; /* in no order */
};

/* The entry of a key; made if it is missing. */
struct df_key_use *df_key_uses_of(struct df_key_uses *u, uint32_t id);
/* Adds what the database has. */
enum df_code df_key_uses_count(struct df_db *db, struct df_key_uses *u,
                               struct df_err *err) DF_MUST_CHECK;
/* Whether the database holds anything that was made with keys, of whatever purpose. */
enum df_code df_key_uses_any(struct df_db *db, bool *ret, struct df_err *err) DF_MUST_CHECK;
/* Whether something is under a key that is not in DataKeys. */
bool df_key_use_is_lost(const struct df_key_use *use, const struct df_data_key *keys);

/* {"items": [ … ], "lost": [ … ], "others": { … }}; with_files: files were counted too. */
void df_key_uses_json(const struct df_key_uses *u, const struct df_data_key *keys, int64_t now_ms,
                      bool with_files, struct df_json_out *out);

#endif
