#include "access/logins.h"

#include "access/clients.sql.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/secret.h"

#include <sodium.h>
#include <stdlib.h>

#define VERIFIED_MS   INT64_C(300000) /* how long a verified secret is remembered */
#define ROW_FRESH_MS  3000            /* how long a row is trusted before it is read again */
#define SEEN_EVERY_MS 60000
#define CACHE_MAX     65536
#define SEEN_BATCH    256

/* A keyed hash of a secret that Argon2 has confirmed. */
struct fingerprint {
    unsigned char bytes[DF_FINGERPRINT_LEN];
    int64_t until_ms; /* monotonic; 0: none */
};

struct entry {
    struct df_client_record record;
    struct fingerprint current;
    struct fingerprint previous;
    int64_t row_read_ms; /* monotonic */
    int64_t seen_at;     /* wall clock; 0: not since the last flush */
    int64_t seen_written_ms;
    struct df_metric *requests;
};

struct df_logins {
    const struct df_clock *clock;
    unsigned char key[crypto_generichash_KEYBYTES];

    struct df_mutex lock;
    struct df_map cache DF_GUARDED_BY(lock);
    /* Grows with each forget: a row that was read before is not trusted. */
    uint64_t generation DF_GUARDED_BY(lock);
};

DF_METRIC_FAMILY(requests_total) = {
    .name = "dataflow_requests_total",
    .help = "Authenticated requests by client.",
    .type = DF_COUNTER,
    .labels = {"client_id"},
};

struct df_logins *df_logins_new(const struct df_clock *clock)
{
    struct df_logins *l = df_calloc(1, sizeof *l);

    l->clock = clock;
    df_random(clock, l->key, sizeof l->key);
    df_mutex_init(&l->lock);
    df_metric_register(&requests_total);
    return l;
}

void df_logins_free(struct df_logins *l)
{
    struct entry *e;

    if (!l)
        return;
    for (size_t at = 0; (e = df_map_next(&l->cache, &at));)
        free(e);
    df_map_release(&l->cache);
    df_mutex_destroy(&l->lock);
    df_wipe(l->key, sizeof l->key);
    free(l);
}

void df_logins_fingerprint(const struct df_logins *l, struct df_str secret,
                           unsigned char out[DF_FINGERPRINT_LEN])
{
    crypto_generichash(out, DF_FINGERPRINT_LEN, (const unsigned char *)secret.ptr, secret.len,
                       l->key, sizeof l->key);
}

static bool fingerprint_ok(const struct fingerprint *f,
                           const unsigned char given[DF_FINGERPRINT_LEN], int64_t now_ms)
{
    return f->until_ms > now_ms && df_bytes_equal(f->bytes, given, DF_FINGERPRINT_LEN);
}

bool df_client_previous_valid(const struct df_client_record *r, const struct df_clock *clock)
{
    return r->has_previous && r->previous_expires_at > df_wall_ms(clock);
}

/* Whether the secret behind the fingerprint is known to be one of the record's. */
static bool is_verified(const struct df_logins *l, const struct entry *e,
                        const unsigned char fp[DF_FINGERPRINT_LEN], int64_t now_ms)
    DF_REQUIRES(l->lock)
{
    return fingerprint_ok(&e->current, fp, now_ms) ||
           (df_client_previous_valid(&e->record, l->clock) &&
            fingerprint_ok(&e->previous, fp, now_ms));
}

bool df_secret_hash_equal(const struct df_secret_hash *x, const struct df_secret_hash *y)
{
    return memcmp(x, y, sizeof *x) == 0;
}

/* Takes over a row just read. A fingerprint stays valid as long as its hash is in the row. */
static void refresh_entry(struct entry *e, const struct df_client_record *r, int64_t row_read_ms)
{
    struct fingerprint current = {.until_ms = 0}, previous = {.until_ms = 0};
    if (df_secret_hash_equal(&r->current, &e->record.current))
        current = e->current;
    if (r->has_previous && df_secret_hash_equal(&r->previous, &e->record.current))
        previous = e->current;
    else if (r->has_previous && e->record.has_previous &&
             df_secret_hash_equal(&r->previous, &e->record.previous))
        previous = e->previous;
    e->current = current;
    e->previous = previous;
    e->record = *r;
    e->row_read_ms = row_read_ms;
}

static struct entry *insert_entry(struct df_logins *l, const struct df_client_record *r)
    DF_REQUIRES(l->lock)
{
    if (l->cache.count >= CACHE_MAX)
        return NULL; /* further clients are verified at each request */
    struct entry *e = df_calloc(1, sizeof *e);
    struct df_str label = df_str_c(r->client.identifier);
    e->requests = df_metric_get(&requests_total, &label);
    e->record = *r;
    df_map_add(&l->cache, df_str_c(e->record.client.identifier), e);
    return e;
}

void df_logins_refresh(struct df_logins *l, struct df_str identifier)
{
    df_lock(&l->lock);
    l->generation++;
    struct entry *e = df_map_get(&l->cache, identifier);
    if (e)
        e->row_read_ms = 0;
    df_unlock(&l->lock);
}

void df_logins_forget(struct df_logins *l, struct df_str identifier)
{
    df_lock(&l->lock);
    l->generation++;
    struct entry *e = df_map_get(&l->cache, identifier);
    if (e) {
        /* The entry stays for its LastSeenAt; nothing else in it is trusted any more. */
        e->row_read_ms = 0;
        e->current.until_ms = 0;
        e->previous.until_ms = 0;
    }
    df_unlock(&l->lock);
}

static void note_seen(struct df_logins *l, struct entry *e) DF_REQUIRES(l->lock)
{
    e->seen_at = df_wall_ms(l->clock);
    df_metric_add(e->requests, 1);
}

bool df_logins_find(struct df_logins *l, struct df_login *login, struct df_client *ret)
{
    int64_t now = df_mono_ms(l->clock);

    df_lock(&l->lock);
    struct entry *e = df_map_get(&l->cache, login->identifier);
    bool found = e && is_verified(l, e, login->fingerprint, now) && e->row_read_ms &&
                 now - e->row_read_ms <= ROW_FRESH_MS;
    if (found) {
        *ret = e->record.client;
        note_seen(l, e);
    }
    login->generation = l->generation;
    df_unlock(&l->lock);
    return found;
}

bool df_logins_confirm(struct df_logins *l, const struct df_login *login)
{
    int64_t now = df_mono_ms(l->clock);
    bool ok = false;

    df_lock(&l->lock);
    struct entry *e = df_map_get(&l->cache, login->identifier);
    if (e && l->generation == login->generation) {
        refresh_entry(e, &login->record, login->row_read_ms);
        ok = is_verified(l, e, login->fingerprint, now);
        if (ok)
            note_seen(l, e);
    }
    df_unlock(&l->lock);
    return ok;
}

void df_logins_remember(struct df_logins *l, const struct df_login *login, bool is_previous)
{
    int64_t now = df_mono_ms(l->clock);

    df_lock(&l->lock);
    struct entry *e = df_map_get(&l->cache, login->identifier);
    if (!e)
        e = insert_entry(l, &login->record);
    if (e && l->generation == login->generation) {
        refresh_entry(e, &login->record, login->row_read_ms);
        struct fingerprint *f = is_previous ? &e->previous : &e->current;
        memcpy(f->bytes, login->fingerprint, sizeof f->bytes);
        f->until_ms = now + VERIFIED_MS;
    }
    if (e)
        note_seen(l, e);
    df_unlock(&l->lock);
}

/* --- LastSeenAt --- */

struct seen {
    char id[DF_UUID_LEN + 1];
    int64_t at;
};

static size_t collect_seen(struct df_logins *l, struct seen *out, size_t max)
{
    int64_t now = df_mono_ms(l->clock);
    size_t count = 0;
    struct entry *e;
    df_lock(&l->lock);
    for (size_t at = 0; count < max && (e = df_map_next(&l->cache, &at));) {
        if (!e->seen_at || (e->seen_written_ms && now - e->seen_written_ms < SEEN_EVERY_MS))
            continue;
        memcpy(out[count].id, e->record.client.id.text, sizeof out[count].id);
        out[count++].at = e->seen_at;
        e->seen_at = 0;
        e->seen_written_ms = now;
    }
    df_unlock(&l->lock);
    return count;
}

struct seen_job {
    struct df_job job;
    struct seen *seen;
    size_t count;
};

static enum df_code run_seen(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct seen_job *s = (struct seen_job *)job;
    struct df_p_client_seen rows[SEEN_BATCH];
    for (size_t i = 0; i < s->count; i++)
        rows[i] = (struct df_p_client_seen){.seen_at = df_time(s->seen[i].at),
                                            .id = df_uuid(df_str_c(s->seen[i].id))};
    return df_db_exec_many(db, DF_MANY(client_seen, rows), s->count, NULL, NULL, NULL, NULL, err);
}

void df_logins_flush_seen(struct df_logins *l, struct df_store *store)
{
    struct seen seen[SEEN_BATCH];
    size_t count;
    while ((count = collect_seen(l, seen, SEEN_BATCH)) > 0) {
        struct seen_job job = {.job.run = run_seen, .seen = seen, .count = count};
        struct df_err err = DF_ERR_INIT;
        if (df_store_write_wait(store, &job.job, &err) != DF_OK) {
            df_log_warn("LastSeenNotWritten", "%s", err.detail);
            return;
        }
    }
}
