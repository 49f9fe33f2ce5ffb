#include "keys/data_keys.h"

#include "base/log.h"
#include "base/mem.h"
#include "keys/data_keys.sql.h"
#include "keys/key_use.h"

#include <assert.h>
#include <stdio.h>

#define DATA  "data"
#define INDEX "index"
#define AUDIT "audit"

struct df_str df_data_key_label(struct df_str purpose, uint32_t id, char text[DF_KEY_LABEL_MAX])
{
    int n =
        snprintf(text, DF_KEY_LABEL_MAX, "%.*s:%u", (int)purpose.len, purpose.ptr, (unsigned)id);
    return df_str_n(text, n > 0 && n < DF_KEY_LABEL_MAX ? (size_t)n : 0);
}

/* --- rows --- */

struct reading {
    struct df_arena *arena;
    struct df_data_key **last;
};

static void read_key(void *arg, struct df_result *r)
{
    struct reading *to = arg;
    struct df_data_key *k = DF_ARENA_NEW(to->arena, struct df_data_key);

    *k = (struct df_data_key){
        .id = (uint32_t)df_col_int(r, data_keys_Id),
        .purpose = df_arena_str(to->arena, df_col_text(r, data_keys_Purpose)),
        .wrapped = df_arena_str(to->arena, df_col_blob(r, data_keys_WrappedKey)),
        .master_id = df_arena_str(to->arena, df_col_text(r, data_keys_MasterId)),
        .created_ms = df_col_time(r, data_keys_CreatedAt),
        .active_ms = df_col_time(r, data_keys_ActiveAt),
        .retired_ms = df_col_time(r, data_keys_RetiredAt),
    };
    *to->last = k;
    to->last = &k->next;
}

enum df_code df_data_keys_read(struct df_db *db, struct df_arena *a, struct df_data_key **ret,
                               struct df_err *err)
{
    struct reading to = {.arena = a, .last = ret};

    *ret = NULL;
    return df_db_each(db, DF_Q0(data_keys), read_key, &to, err);
}

static bool is_data(const struct df_data_key *k)
{
    return df_str_eq(k->purpose, DF_STR(DATA));
}

const struct df_data_key *df_data_keys_current(const struct df_data_key *keys, int64_t now_ms)
{
    const struct df_data_key *current = NULL;

    for (const struct df_data_key *k = keys; k; k = k->next)
        if (is_data(k) && (!current || k->active_ms <= now_ms))
            current = k;
    return current;
}

/* --- the first keys --- */

static enum df_code wrap_new(struct df_data_keys *d, const char *purpose, uint32_t id,
                             struct df_new_key *ret, struct df_err *err)
{
    unsigned char key[DF_KEY_BYTES];
    char label[DF_KEY_LABEL_MAX];
    struct df_buf wrapped;

    assert(d->master);
    df_buf_init(&wrapped, DF_WRAPPED_MAX);
    df_random(d->clock, key, sizeof key);
    enum df_code code = d->master->ops->wrap(
        d->master, df_data_key_label(df_str_c(purpose), id, label), key, &wrapped, err);
    df_wipe(key, sizeof key);
    if (code == DF_OK && df_buf_failed(&wrapped))
        code = df_err_set(err, DF_E_INTERNAL, "the wrapped key is longer than %d bytes",
                          DF_WRAPPED_MAX);
    if (code == DF_OK) {
        memcpy(ret->wrapped, wrapped.ptr, wrapped.len);
        ret->wrapped_len = wrapped.len;
        ret->id = id;
    }
    df_buf_release(&wrapped);
    return code;
}

static enum df_code insert_key(struct df_data_keys *d, struct df_db *db, const char *purpose,
                               const struct df_new_key *n, int64_t now_ms, int64_t active_ms,
                               struct df_err *err)
{
    struct df_str wrapped = df_str_n((const char *)n->wrapped, n->wrapped_len);

    return df_db_exec(db,
                      DF_Q(data_key_insert, .id = df_int(n->id),
                           .purpose = df_text(df_str_c(purpose)), .wrapped = df_blob(wrapped),
                           .master = df_text(df_str_c(d->master->id)), .now = df_time(now_ms),
                           .active = df_time(active_ms)),
                      NULL, err);
}

/* DF_E_DB_UNIQUE: another process was quicker, and its keys count. */
static enum df_code draw_first(struct df_data_keys *d, struct df_db *db, struct df_err *err)
{
    static const char *const purposes[] = {DATA, INDEX, AUDIT};
    enum { COUNT = sizeof purposes / sizeof purposes[0] };
    struct df_new_key n[COUNT];
    int64_t now_ms = df_wall_ms(d->clock);
    enum df_code code = DF_OK;

    for (uint32_t i = 0; code == DF_OK && i < COUNT; i++)
        code = wrap_new(d, purposes[i], i + 1, &n[i], err);
    if (code == DF_OK)
        code = df_db_begin(db, true, err);
    if (code != DF_OK)
        return code;
    for (size_t i = 0; code == DF_OK && i < COUNT; i++)
        code = insert_key(d, db, purposes[i], &n[i], now_ms, now_ms, err);
    if (code == DF_OK)
        code = df_db_commit(db, err);
    else
        df_db_rollback(db);
    if (code == DF_OK)
        df_log_info("DataKeysMade", "the first data keys were made, under master key %s (%s)",
                    d->master->id, d->master->place);
    return code;
}

/* --- masters --- */

enum { CONFIGURED, OLD, OWN, MASTERS };

static enum df_code open_masters(const struct df_master_options *opt, bool may_make,
                                 struct df_master *m[MASTERS], struct df_err *err)
{
    const struct df_keys_settings *s = opt->settings;
    enum df_code code = DF_OK;

    if (s->master_key)
        code = df_master_open(opt, df_secret_str(s->master_key), "security.master_key",
                              &m[CONFIGURED], err);
    if (code == DF_OK && s->master_old_key)
        code = df_master_open(opt, df_secret_str(s->master_old_key), "security.master_old_key",
                              &m[OLD], err);
    if (code == DF_OK && s->master_key && df_master_own(opt, false, &m[OWN], err) != DF_OK)
        m[OWN] = NULL; /* it is not needed */
    else if (code == DF_OK && !s->master_key)
        code = df_master_own(opt, may_make, &m[OWN], err);
    return code;
}

static enum df_code refuse(const struct df_data_key *k, const struct df_master *configured,
                           struct df_err *err)
{
    if (!k)
        return df_err_set(err, DF_E_CONFIG, "the database has no keys, and none can be made here");
    if (!configured)
        return df_err_set(err, DF_E_CONFIG,
                          "the database's keys are under master key " DF_STR_FMT
                          ", and this host has none: set security.master_key_file to a copy of the "
                          "other host's (docs/keys.md)",
                          DF_STR_ARG(k->master_id));
    return df_err_set(err, DF_E_CONFIG,
                      "the database's key %u is under master key " DF_STR_FMT
                      ", and %s is %s: set the right one, or also set the one before as "
                      "security.master_old_key_file (docs/keys.md)",
                      (unsigned)k->id, DF_STR_ARG(k->master_id), configured->place, configured->id);
}

static struct df_master *master_of(const struct df_data_key *k, struct df_master *const m[MASTERS])
{
    for (size_t i = 0; i < MASTERS; i++)
        if (m[i] && df_str_eq(k->master_id, df_str_c(m[i]->id)))
            return m[i];
    return NULL;
}

static enum df_code unwrap_key(struct df_master *m, const struct df_data_key *k,
                               unsigned char key[DF_KEY_BYTES], struct df_err *err)
{
    char label[DF_KEY_LABEL_MAX];
    struct df_err why = DF_ERR_INIT;
    enum df_code code =
        m->ops->unwrap(m, df_data_key_label(k->purpose, k->id, label), k->wrapped, key, &why);

    if (code != DF_OK)
        return df_err_set(err, code, "the database's key %u does not open: %s", (unsigned)k->id,
                          why.detail);
    return DF_OK;
}

enum df_code df_wrap_surely(struct df_master *m, struct df_str label,
                            const unsigned char key[DF_KEY_BYTES], struct df_buf *out,
                            struct df_err *err)
{
    unsigned char back[DF_KEY_BYTES];
    enum df_code code = m->ops->wrap(m, label, key, out, err);

    if (code == DF_OK && df_buf_failed(out))
        code = df_err_set(err, DF_E_INTERNAL, "the wrapped key is too long");
    if (code == DF_OK)
        code = m->ops->unwrap(m, label, df_buf_str(out), back, err);
    if (code == DF_OK && !df_bytes_equal(key, back, DF_KEY_BYTES))
        code = df_err_set(err, DF_E_INTERNAL, "a wrapped key opens as another");
    df_wipe(back, sizeof back);
    return code;
}

static enum df_code rewrap_key(struct df_data_keys *d, struct df_db *db,
                               const struct df_data_key *k, const unsigned char key[DF_KEY_BYTES],
                               struct df_err *err)
{
    char label[DF_KEY_LABEL_MAX];
    struct df_buf wrapped;

    df_buf_init(&wrapped, DF_WRAPPED_MAX);
    enum df_code code =
        df_wrap_surely(d->master, df_data_key_label(k->purpose, k->id, label), key, &wrapped, err);
    if (code == DF_OK)
        code = df_db_exec(db,
                          DF_Q(data_key_rewrap, .wrapped = df_blob(df_buf_str(&wrapped)),
                               .master = df_text(df_str_c(d->master->id)), .id = df_int(k->id),
                               .before = df_text(k->master_id)),
                          NULL, err);
    df_buf_release(&wrapped);
    if (code == DF_OK)
        df_log_info("DataKeyRewrapped", "key %u was under master key " DF_STR_FMT ", now %s",
                    (unsigned)k->id, DF_STR_ARG(k->master_id), d->master->id);
    return code;
}

/* --- the ring --- */

static const struct df_data_key *find_purpose(const struct df_data_key *keys, const char *purpose)
{
    while (keys && !df_str_eq(keys->purpose, df_str_c(purpose)))
        keys = keys->next;
    return keys;
}

/* Opens every key before the ring is made, so that a missing one is told at once. */
static enum df_code fill_ring(struct df_data_keys *d, struct df_db *db, struct df_data_key *keys,
                              struct df_master *const m[MASTERS], bool moves, struct df_err *err)
{
    const struct df_data_key *current = df_data_keys_current(keys, df_wall_ms(d->clock));
    unsigned char index[DF_KEY_BYTES], audit[DF_KEY_BYTES], key[DF_KEY_BYTES];
    enum df_code code = DF_OK;

    if (!current || !find_purpose(keys, INDEX) || !find_purpose(keys, AUDIT))
        return df_err_set(err, DF_E_CONFIG,
                          "the table DataKeys has lost a key: restore its rows from a backup");
    for (int pass = 0; code == DF_OK && pass < 2; pass++) {
        for (const struct df_data_key *k = keys; code == DF_OK && k; k = k->next) {
            struct df_master *with = master_of(k, m);
            if (is_data(k) != (pass == 1))
                continue;
            code = with ? unwrap_key(with, k, key, err) : refuse(k, d->master, err);
            if (code == DF_OK && with != d->master && moves)
                code = rewrap_key(d, db, k, key, err);
            if (code != DF_OK)
                break;
            if (pass == 1)
                df_keys_add(d->ring, k->id, key);
            else if (df_str_eq(k->purpose, DF_STR(INDEX)))
                memcpy(index, key, sizeof key);
            else if (df_str_eq(k->purpose, DF_STR(AUDIT)))
                memcpy(audit, key, sizeof key);
        }
        if (code == DF_OK && pass == 0)
            d->ring = df_keys_new(d->clock, index, audit);
    }
    if (code == DF_OK)
        df_keys_use(d->ring, current->id);
    df_wipe(index, sizeof index);
    df_wipe(audit, sizeof audit);
    df_wipe(key, sizeof key);
    return code;
}

static void add_former(struct df_keys *ring, struct df_master *const m[MASTERS])
{
    for (size_t i = 0; i < MASTERS; i++)
        if (m[i] && m[i]->given)
            df_keys_add_former(ring, df_secret_str(m[i]->given));
}

/* An empty table of a database in which keys were used has lost its rows: new keys would take the
 * ids of the lost ones. Another process may have made the first keys and used them since the table
 * was read, so it is read again. */
static enum df_code refuse_lost(struct df_db *db, struct df_arena *a, struct df_data_key **keys,
                                struct df_err *err)
{
    bool used = false;
    enum df_code code = df_key_uses_any(db, &used, err);

    if (code == DF_OK && used)
        code = df_data_keys_read(db, a, keys, err);
    if (code == DF_OK && used && !*keys)
        code = df_err_set(err, DF_E_CONFIG,
                          "the table DataKeys is empty, and the database holds what its keys made: "
                          "restore its rows from a backup (docs/keys.md)");
    return code;
}

enum df_code df_data_keys_open(struct df_db *db, const struct df_master_options *opt,
                               struct df_data_keys *ret, struct df_err *err)
{
    struct df_data_keys d = {.clock = opt->clock};
    struct df_master *m[MASTERS] = {NULL};
    struct df_arena arena = {0};
    struct df_data_key *keys = NULL;
    enum df_code code = df_data_keys_read(db, &arena, &keys, err);

    if (code == DF_OK && !keys)
        code = refuse_lost(db, &arena, &keys, err);
    struct df_err why = *err;

    if (code == DF_E_DB)
        code = df_err_set(err, DF_E_SCHEMA,
                          "the table DataKeys cannot be read; is the schema applied? (dataflow "
                          "migrate): %s",
                          why.detail);
    bool may_make = code == DF_OK && !keys && !opt->look_only;
    if (code == DF_OK && !keys && opt->look_only)
        code = df_err_set(err, DF_E_NOT_FOUND, "the database has no keys yet");
    if (code == DF_OK)
        code = open_masters(opt, may_make, m, err);
    d.master = m[CONFIGURED] ? m[CONFIGURED] : m[OWN];
    const struct df_data_key *in_use =
        code == DF_OK ? df_data_keys_current(keys, df_wall_ms(d.clock)) : NULL;
    if (!opt->for_server && in_use && master_of(in_use, m))
        d.master = master_of(in_use, m);
    if (code == DF_OK && !d.master)
        code = refuse(keys, NULL, err);
    if (code == DF_OK && !keys) {
        code = draw_first(&d, db, err);
        if (code == DF_OK || code == DF_E_DB_UNIQUE)
            code = df_data_keys_read(db, &arena, &keys, err);
    }
    if (code == DF_OK)
        code = fill_ring(&d, db, keys, m, opt->for_server, err);
    if (code == DF_OK)
        add_former(d.ring, m);
    for (size_t i = 0; i < MASTERS; i++)
        if (m[i] != d.master)
            df_master_free(m[i]);
    df_arena_release(&arena);
    if (code == DF_OK)
        *ret = d;
    else
        df_data_keys_release(&d);
    return code;
}

void df_data_keys_release(struct df_data_keys *d)
{
    df_keys_free(d->ring);
    df_master_free(d->master);
    *d = (struct df_data_keys){0};
}

/* --- following --- */

struct look {
    struct df_job job;
    struct df_arena arena;
    struct df_data_key *keys;
};

static enum df_code look_at_keys(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct look *l = (struct look *)job;

    df_arena_reset(&l->arena);
    return df_data_keys_read(db, &l->arena, &l->keys, err);
}

static enum df_code follow_key(struct df_data_keys *d, const struct df_data_key *k,
                               struct df_err *err)
{
    unsigned char key[DF_KEY_BYTES];

    if (!is_data(k) || df_keys_has(d->ring, k->id))
        return DF_OK;
    if (!df_str_eq(k->master_id, df_str_c(d->master->id)))
        return refuse(k, d->master, err);
    enum df_code code = unwrap_key(d->master, k, key, err);
    if (code == DF_OK)
        df_keys_add(d->ring, k->id, key);
    df_wipe(key, sizeof key);
    return code;
}

/* Its row was removed: what is written now could not be opened after a restart. */
static enum df_code check_current(struct df_data_keys *d, const struct df_data_key *keys,
                                  struct df_err *err)
{
    uint32_t current = df_keys_current(d->ring);

    while (keys && keys->id != current)
        keys = keys->next;
    return keys ? DF_OK
                : df_err_set(err, DF_E_CONFIG,
                             "data key %u is in use, and its row is not in DataKeys any more: "
                             "restore it before this process ends",
                             (unsigned)current);
}

enum df_code df_data_keys_follow(struct df_data_keys *d, struct df_store *store, struct df_err *err)
{
    struct look l = {.job.run = look_at_keys};

    if (d->master->ops->tend)
        d->master->ops->tend(d->master);
    enum df_code code = df_store_read_wait(store, &l.job, err);

    for (const struct df_data_key *k = l.keys; code == DF_OK && k; k = k->next)
        code = follow_key(d, k, err);
    const struct df_data_key *current =
        code == DF_OK ? df_data_keys_current(l.keys, df_wall_ms(d->clock)) : NULL;
    if (current && current->id > df_keys_current(d->ring)) {
        df_keys_use(d->ring, current->id);
        df_log_info("DataKeyInUse", "data key %u is in use", (unsigned)current->id);
    }
    if (code == DF_OK)
        code = df_data_keys_rewrap(d, store, l.keys, err);
    if (code == DF_OK)
        code = check_current(d, l.keys, err);
    df_arena_release(&l.arena);
    return code;
}

/* --- rotation --- */

/* The highest id that is taken: of a row, of a key in memory, or of a ciphertext whose key is lost.
 * A lost row that is restored must find its id free. */
static enum df_code last_id(struct df_data_keys *d, struct df_db *db, struct df_arena *a,
                            uint32_t *ret, struct df_err *err)
{
    struct df_key_uses uses = {.arena = a};
    struct df_data_key *keys;
    enum df_code code = df_data_keys_read(db, a, &keys, err);

    if (code == DF_OK)
        code = df_key_uses_count(db, &uses, err);
    *ret = df_keys_current(d->ring);
    for (const struct df_data_key *k = keys; code == DF_OK && k; k = k->next)
        *ret = k->id > *ret ? k->id : *ret;
    for (const struct df_key_use *u = uses.first; code == DF_OK && u; u = u->next)
        *ret = u->id > *ret ? u->id : *ret;
    return code;
}

enum df_code df_data_keys_draw_on(struct df_data_keys *d, struct df_db *db, struct df_new_key *ret,
                                  struct df_err *err)
{
    struct df_arena arena = {0};
    uint32_t last = 0;
    enum df_code code = last_id(d, db, &arena, &last, err);

    df_arena_release(&arena);
    return code == DF_OK ? wrap_new(d, DATA, last + 1, ret, err) : code;
}

struct last_look {
    struct df_job job;
    struct df_data_keys *keys;
    uint32_t last;
};

static enum df_code look_at_last(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct last_look *l = (struct last_look *)job;
    struct df_arena arena = {0};
    enum df_code code = last_id(l->keys, db, &arena, &l->last, err);

    df_arena_release(&arena);
    return code;
}

enum df_code df_data_keys_draw(struct df_data_keys *d, struct df_store *store,
                               struct df_new_key *ret, struct df_err *err)
{
    struct last_look l = {.job.run = look_at_last, .keys = d};
    enum df_code code = df_store_read_wait(store, &l.job, err);

    return code == DF_OK ? wrap_new(d, DATA, l.last + 1, ret, err) : code;
}

enum df_code df_data_keys_add(struct df_data_keys *d, struct df_db *db, const struct df_new_key *n,
                              int64_t now_ms, struct df_err *err)
{
    enum df_code code = insert_key(d, db, DATA, n, now_ms, now_ms + DF_KEY_ACTIVATION_MS, err);

    return code == DF_E_DB_UNIQUE
               ? df_err_set(err, DF_E_CONFLICT, "somebody else made a key at the same time")
               : code;
}

enum df_code df_data_keys_retire(struct df_store *store, uint32_t current, int64_t now_ms,
                                 int64_t *ret_retired, struct df_err *err)
{
    struct df_job job = {
        .query = &df_q_data_key_retire,
        .params = DF_ROW(data_key_retire, .now = df_time(now_ms), .current = df_int(current))};
    enum df_code code = df_store_write_wait(store, &job, err);

    *ret_retired = job.affected;
    return code;
}
