#include "keys/key_watch.h"

#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"

#include <stdlib.h>

#define DRAWS_MAX 4
#define LEAST_MS  1000 /* between two looks, however often it is woken */

struct df_key_watch {
    struct df_data_keys *keys;
    struct df_store *store;
    struct df_loop follow;
    int64_t follow_ms;
    int64_t looked_ms;    /* monotonic, of the loop */
    struct df_pool draws; /* struct df_draw */
};

static int64_t follow_keys(void *arg)
{
    struct df_key_watch *k = arg;
    struct df_err err = DF_ERR_INIT;
    int64_t early_ms = k->looked_ms + LEAST_MS - df_mono_ms(k->keys->clock);

    if (early_ms > 0)
        return early_ms;
    k->looked_ms = df_mono_ms(k->keys->clock);
    if (df_data_keys_follow(k->keys, k->store, &err) == DF_OK)
        return k->follow_ms;
    df_log_warn("DataKeysNotRead", "%s", err.detail);
    return DF_LOOP_FAILED;
}

static void met_unknown(void *arg)
{
    df_key_watch_wake(arg);
}

static void draw_key(void *arg, void *item)
{
    struct df_key_watch *k = arg;
    struct df_draw *d = item;
    struct df_err err = DF_ERR_INIT;
    enum df_code code = df_data_keys_draw(k->keys, k->store, &d->key, &err);

    d->done(d, code, &err);
}

struct df_key_watch *df_key_watch_new(struct df_data_keys *keys, struct df_store *store,
                                      int64_t follow_ms)
{
    struct df_key_watch *k = df_calloc(1, sizeof *k);

    k->keys = keys;
    k->store = store;
    k->follow_ms = follow_ms;
    df_keys_on_unknown(keys->ring, met_unknown, k);
    df_pool_start(&k->draws, "key draws", 1, DRAWS_MAX, draw_key, k);
    df_loop_start(&k->follow, &(struct df_loop_options){.name = "keys",
                                                        .clock = keys->clock,
                                                        .backoff_min_ms = 1000,
                                                        .backoff_max_ms = 10000,
                                                        .first_ms = follow_ms,
                                                        .turn = follow_keys,
                                                        .arg = k});
    return k;
}

void df_key_watch_stop(struct df_key_watch *k)
{
    if (!k)
        return;
    df_pool_stop(&k->draws);
    df_loop_stop(&k->follow);
}

void df_key_watch_free(struct df_key_watch *k)
{
    if (!k)
        return;
    df_keys_on_unknown(k->keys->ring, NULL, NULL);
    df_pool_release(&k->draws);
    df_loop_release(&k->follow);
    free(k);
}

bool df_key_watch_draw(struct df_key_watch *k, struct df_draw *d)
{
    return df_pool_push(&k->draws, d);
}

void df_key_watch_wake(struct df_key_watch *k)
{
    df_loop_wake(&k->follow);
}

enum df_code df_key_watch_add(struct df_key_watch *k, struct df_db *db, const struct df_new_key *n,
                              int64_t now_ms, struct df_err *err)
{
    return df_data_keys_add(k->keys, db, n, now_ms, err);
}
