#include "access/auth.h"

#include "access/clients.sql.h"
#include "access/gate.h"
#include "access/usage.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/pool.h"

#include <assert.h>
#include <sodium.h>
#include <stdlib.h>

#define VERIFIED_MS     INT64_C(300000) /* how long a verified secret is remembered */
#define ROW_FRESH_MS    3000            /* how long a row is trusted before it is read again */
#define SEEN_EVERY_MS   60000
#define HASH_THREADS    16 /* at most */
#define CACHE_MAX       65536
#define FINGERPRINT_LEN 32
#define SEEN_BATCH      256
#define ADMIN_ID        "*admin" /* the gate's name for the administrator; no client has it */

_Static_assert(DF_GATE_TAG_BYTES == DF_HASH_TASK_KEY,
               "an attempt's tag is the key of its hash task");

/* A keyed hash of a secret that Argon2 has confirmed. */
struct fingerprint {
    unsigned char bytes[FINGERPRINT_LEN];
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

struct df_auth {
    struct df_store *store;
    const struct df_clock *clock;
    const struct df_secret *admin_key;
    struct df_usage *usage;
    struct df_gate *gate;
    unsigned char key[crypto_generichash_KEYBYTES];

    struct df_mutex lock; /* held for look-ups and copies only */
    struct df_map cache DF_GUARDED_BY(lock);
    /* Grows with each forget: a row that was read before is not trusted. */
    uint64_t generation DF_GUARDED_BY(lock);

    struct df_hash_line line;
    struct df_thread threads[HASH_THREADS];
};

static struct df_metric_family requests_total = {
    .name = "dataflow_requests_total",
    .help = "Authenticated requests by client.",
    .type = DF_COUNTER,
    .labels = {"client_id"},
};
static struct df_metric_family auth_total = {
    .name = "dataflow_auth_total",
    .help = "Authentications that were not answered from memory, by outcome.",
    .type = DF_COUNTER,
    .labels = {"outcome"},
};

static void count_outcome(const char *outcome)
{
    struct df_str value = df_str_c(outcome);
    df_metric_add(df_metric_get(&auth_total, &value), 1);
}

/* --- hash threads --- */

static void hash_secrets(void *arg)
{
    struct df_auth *a = arg;
    struct df_hash_task *t;
    while ((t = df_hash_line_pop(&a->line)))
        t->run(t);
}

bool df_auth_hash(struct df_auth *a, struct df_hash_task *t)
{
    return df_hash_line_push(&a->line, t, 0);
}

static void start_threads(struct df_auth *a, size_t count)
{
    for (size_t i = 0; i < count; i++)
        df_thread_start(&a->threads[i], "hash", hash_secrets, a);
}

struct df_auth *df_auth_new(const struct df_auth_options *opt)
{
    struct df_auth *a = df_calloc(1, sizeof *a);
    assert(opt->settings.hash_threads >= 1 && opt->settings.hash_threads <= HASH_THREADS);
    if (sodium_init() < 0)
        abort();
    a->store = opt->store;
    a->clock = opt->clock;
    a->admin_key = opt->settings.admin_key;
    a->usage = opt->usage;
    a->gate = df_gate_new(opt->settings.failures_per_minute, opt->clock);
    df_random(a->clock, a->key, sizeof a->key);
    df_mutex_init(&a->lock);
    df_metric_register(&requests_total);
    df_metric_register(&auth_total);
    df_hash_line_init(&a->line);
    start_threads(a, (size_t)opt->settings.hash_threads);
    return a;
}

void df_auth_stop(struct df_auth *a)
{
    df_hash_line_close(&a->line);
    for (size_t i = 0; i < HASH_THREADS; i++)
        df_thread_join(&a->threads[i]);
}

void df_auth_free(struct df_auth *a)
{
    if (!a)
        return;
    df_auth_stop(a);
    df_hash_line_release(&a->line);
    struct entry *e;
    for (size_t at = 0; (e = df_map_next(&a->cache, &at));)
        free(e);
    df_map_release(&a->cache);
    df_gate_free(a->gate);
    df_mutex_destroy(&a->lock);
    df_wipe(a->key, sizeof a->key);
    free(a);
}

/* --- the cache --- */

static void make_fingerprint(const struct df_auth *a, struct df_str secret,
                             unsigned char out[FINGERPRINT_LEN])
{
    crypto_generichash(out, FINGERPRINT_LEN, (const unsigned char *)secret.ptr, secret.len, a->key,
                       sizeof a->key);
}

static bool fingerprint_ok(const struct fingerprint *f, const unsigned char given[FINGERPRINT_LEN],
                           int64_t now_ms)
{
    return f->until_ms > now_ms && df_bytes_equal(f->bytes, given, FINGERPRINT_LEN);
}

static bool previous_valid(const struct df_auth *a, const struct df_client_record *r)
{
    return r->has_previous && r->previous_expires_at > df_wall_ms(a->clock);
}

/* Whether the secret behind the fingerprint is known to be one of the record's. */
static bool verified_locked(const struct df_auth *a, const struct entry *e,
                            const unsigned char fp[FINGERPRINT_LEN], int64_t now_ms)
    DF_REQUIRES(a->lock)
{
    return fingerprint_ok(&e->current, fp, now_ms) ||
           (previous_valid(a, &e->record) && fingerprint_ok(&e->previous, fp, now_ms));
}

static bool same_hash(const struct df_secret_hash *x, const struct df_secret_hash *y)
{
    return memcmp(x, y, sizeof *x) == 0;
}

/* Takes over a row just read. A fingerprint stays valid as long as its hash is in the row. */
static void refresh_entry(struct entry *e, const struct df_client_record *r, int64_t row_read_ms)
{
    struct fingerprint current = {.until_ms = 0}, previous = {.until_ms = 0};
    if (same_hash(&r->current, &e->record.current))
        current = e->current;
    if (r->has_previous && same_hash(&r->previous, &e->record.current))
        previous = e->current;
    else if (r->has_previous && e->record.has_previous &&
             same_hash(&r->previous, &e->record.previous))
        previous = e->previous;
    e->current = current;
    e->previous = previous;
    e->record = *r;
    e->row_read_ms = row_read_ms;
}

static struct entry *insert_locked(struct df_auth *a, const struct df_client_record *r)
    DF_REQUIRES(a->lock)
{
    if (a->cache.count >= CACHE_MAX)
        return NULL; /* further clients are verified at each request */
    struct entry *e = df_calloc(1, sizeof *e);
    struct df_str label = df_str_c(r->client.identifier);
    e->requests = df_metric_get(&requests_total, &label);
    e->record = *r;
    df_map_add(&a->cache, df_str_c(e->record.client.identifier), e);
    return e;
}

void df_auth_refresh(struct df_auth *a, struct df_str identifier)
{
    df_lock(&a->lock);
    a->generation++;
    struct entry *e = df_map_get(&a->cache, identifier);
    if (e)
        e->row_read_ms = 0;
    df_unlock(&a->lock);
}

void df_auth_forget(struct df_auth *a, struct df_str identifier)
{
    df_lock(&a->lock);
    a->generation++;
    struct entry *e = df_map_get(&a->cache, identifier);
    if (e) {
        /* The entry stays for its LastSeenAt; nothing else in it is trusted any more. */
        e->row_read_ms = 0;
        e->current.until_ms = 0;
        e->previous.until_ms = 0;
    }
    df_unlock(&a->lock);
}

/* --- one authentication --- */

struct check {
    struct df_job job;
    struct df_hash_task task;
    struct df_auth *auth;
    struct df_req *req;
    struct df_str identifier;
    struct df_str secret;
    unsigned char fp[FINGERPRINT_LEN];
    struct df_attempt attempt;
    bool known; /* the gate knows the secret */
    uint64_t generation;
    int64_t row_read_ms;
    bool found;
    struct df_client_record record;
};

static bool refuse_request(struct df_req *req, enum df_code code, const char *detail)
{
    df_req_fail(req, code, "%s", detail);
    return false;
}

/*
 * Decides whether an authenticated client may make this request; false: the answer is set. The
 * client lives in the request's arena.
 */
static bool admit_client(struct df_auth *a, struct df_req *req, struct df_client *c)
{
    df_log_ctx_set(df_req_log(req), "clientId", df_str_c(c->identifier));
    if (c->status == DF_CLIENT_SUSPENDED)
        return refuse_request(req, DF_E_CLIENT_SUSPENDED, "This client is suspended.");
    if (!df_usage_admit(a->usage, req, c))
        return false;
    const char *scope = df_req_route(req)->scope;
    if (scope && !df_scope_allows(c->scopes, df_str_c(scope))) {
        df_req_fail(req, DF_E_SCOPE_MISSING, "This client lacks the scope \"%s\".", scope);
        return false;
    }
    if (df_req_route(req)->access == DF_ACCESS_OWNER &&
        !df_str_eq(df_req_param(req, "clientId"), df_str_c(c->identifier)))
        return refuse_request(req, DF_E_NOT_FOUND, "There is nothing here.");
    df_req_set_user(req, c);
    df_req_set_owner(req, df_uuid_str(&c->id));
    return true;
}

static bool reject_client(struct df_req *req)
{
    return refuse_request(req, DF_E_UNAUTHORIZED,
                          "X-Client-Id and X-Client-Secret do not match a client.");
}

enum login_lookup { MISS, STALE, HIT };

/* On a HIT *ret is the client and the sighting is noted. */
static enum login_lookup look_up_login(struct df_auth *a, struct df_str identifier,
                                       const unsigned char fp[FINGERPRINT_LEN],
                                       uint64_t *ret_generation, struct df_client *ret)
{
    int64_t now = df_mono_ms(a->clock);
    enum login_lookup found = MISS;
    df_lock(&a->lock);
    struct entry *e = df_map_get(&a->cache, identifier);
    if (e && verified_locked(a, e, fp, now)) {
        found = now - e->row_read_ms <= ROW_FRESH_MS && e->row_read_ms ? HIT : STALE;
        if (found == HIT) {
            *ret = e->record.client;
            e->seen_at = df_wall_ms(a->clock);
            df_metric_add(e->requests, 1);
        }
    }
    *ret_generation = a->generation;
    df_unlock(&a->lock);
    return found;
}

/* Remembers a verified secret together with the row it was checked against. */
static void remember_login(struct check *c, bool is_previous)
{
    struct df_auth *a = c->auth;
    int64_t now = df_mono_ms(a->clock);
    df_lock(&a->lock);
    struct entry *e = df_map_get(&a->cache, c->identifier);
    if (!e)
        e = insert_locked(a, &c->record);
    if (e && a->generation == c->generation) {
        refresh_entry(e, &c->record, c->row_read_ms);
        struct fingerprint *f = is_previous ? &e->previous : &e->current;
        memcpy(f->bytes, c->fp, sizeof f->bytes);
        f->until_ms = now + VERIFIED_MS;
    }
    if (e) {
        e->seen_at = df_wall_ms(a->clock);
        df_metric_add(e->requests, 1);
    }
    df_unlock(&a->lock);
}

static void finish_verified(struct check *c)
{
    df_gate_right(c->auth->gate, &c->attempt);
    (void)admit_client(c->auth, c->req, &c->record.client);
    df_req_resume(c->req);
}

static void finish_refused(struct check *c)
{
    count_outcome("refused");
    df_gate_wrong(c->auth->gate, &c->attempt);
    df_log_info("LoginRefused", "unknown client or wrong secret");
    (void)reject_client(c->req);
    df_req_resume(c->req);
}

static struct check *check_of(struct df_hash_task *t)
{
    return (struct check *)((char *)t - offsetof(struct check, task));
}

/* Another request may have verified the same pair while this one waited. */
static bool is_verified_meanwhile(const struct check *c)
{
    struct df_client known;
    uint64_t generation;

    return c->found && look_up_login(c->auth, c->identifier, c->fp, &generation, &known) == HIT &&
           c->generation == generation;
}

static bool secret_matches(const struct check *c, bool *ret_previous)
{
    /* An unknown id is checked against this hash, so that it takes as long as a known one. */
    static const struct df_secret_hash nobody;
    bool usable = c->found && c->record.has_current;

    *ret_previous = false;
    if (c->found && !usable)
        df_log_warn("SecretUnusable",
                    "the secret of the client was hashed by another program: rotate it");
    if (df_secret_hash_matches(usable ? &c->record.current : &nobody, c->secret) && usable)
        return true;
    *ret_previous = c->found && previous_valid(c->auth, &c->record) &&
                    df_secret_hash_matches(&c->record.previous, c->secret);
    return *ret_previous;
}

/* Whether the outcome of one check holds for another with the same id and secret. It does not if
 * the secret was rotated between the two reads of the row. */
static bool has_same_row(const struct check *a, const struct check *b)
{
    const struct df_client_record *x = &a->record;
    const struct df_client_record *y = &b->record;

    if (a->found != b->found)
        return false;
    return !a->found || (x->has_current == y->has_current && x->has_previous == y->has_previous &&
                         same_hash(&x->current, &y->current) &&
                         (!x->has_previous || same_hash(&x->previous, &y->previous)));
}

static void run_check(struct check *c, const struct check *refused);

/* Runs the check with its request's context in the log. */
static void run_check_of(struct check *c, const struct check *refused)
{
    const struct df_log_ctx *outer = df_log_ctx_use(df_req_log(c->req));
    run_check(c, refused);
    df_log_ctx_use(outer);
}

/* Runs a check and those that wait beside it. Those come first: once a check is finished, its
 * request and its memory belong to another thread. `refused` is a refused check with the same id
 * and secret, or NULL. */
static void run_check(struct check *c, const struct check *refused)
{
    struct df_hash_task *beside;
    bool previous = false;
    bool verified = is_verified_meanwhile(c);

    if (verified) {
        count_outcome("coalesced");
    } else if (!(refused && has_same_row(refused, c)) && secret_matches(c, &previous)) {
        count_outcome("verified");
        remember_login(c, previous);
        verified = true;
    }
    while ((beside = DF_LIST_TAKE(&c->task.beside, struct df_hash_task, link)))
        run_check_of(check_of(beside), verified ? NULL : c);
    if (verified)
        finish_verified(c);
    else
        finish_refused(c);
}

/* On a hash thread. */
static void run_hash(struct df_hash_task *t)
{
    run_check_of(check_of(t), NULL);
}

static enum df_code run_load_client(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct check *c = (struct check *)job;
    c->row_read_ms = df_mono_ms(c->auth->clock);
    enum df_code code = df_client_load(db, c->identifier, &c->record, err);
    c->found = code == DF_OK;
    return code == DF_E_NOT_FOUND ? DF_OK : code;
}

/* Whether a remembered secret still belongs to the row just read; else it must be hashed. */
static bool confirmed_by_row(struct check *c)
{
    struct df_auth *a = c->auth;
    int64_t now = df_mono_ms(a->clock);
    bool ok = false;
    df_lock(&a->lock);
    struct entry *e = df_map_get(&a->cache, c->identifier);
    if (e && a->generation == c->generation) {
        refresh_entry(e, &c->record, c->row_read_ms);
        ok = verified_locked(a, e, c->fp, now);
        if (ok) {
            e->seen_at = df_wall_ms(a->clock);
            df_metric_add(e->requests, 1);
        }
    }
    df_unlock(&a->lock);
    return ok;
}

static void load_client_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct check *c = (struct check *)job;
    if (code != DF_OK) {
        df_req_problem(c->req, err);
        df_req_resume(c->req);
    } else if (c->found && confirmed_by_row(c)) {
        count_outcome("confirmed");
        finish_verified(c);
    } else if (!df_hash_line_push(&c->auth->line, &c->task, c->known ? 0 : c->attempt.sender)) {
        df_req_fail(c->req, DF_E_BUSY, "Too many logins at once.");
        df_req_resume(c->req);
    }
}

static void answer_shut(struct df_req *req, int64_t wait_ms)
{
    char seconds[24];
    struct df_buf b;
    df_buf_init(&b, sizeof seconds);
    df_buf_add_i64(&b, (wait_ms + 999) / 1000);
    df_req_add_header(req, "Retry-After", df_buf_str(&b));
    df_buf_release(&b);
    count_outcome("throttled");
    df_log_warn("LoginThrottled", "too many failed logins from this address");
    df_req_fail(req, DF_E_TOO_MANY, "Too many failed logins from this address.");
}

/* An id or secret that no client can have is refused without a look at the database; it counts as a
 * failure. */
static void refuse_malformed(struct df_auth *a, struct df_req *req)
{
    struct df_attempt attempt;
    int64_t wait_ms = 0;

    df_gate_attempt(a->gate, df_req_peer_network(req), DF_STR(""), DF_STR(""), &attempt);
    if (df_gate_ask(a->gate, &attempt, &wait_ms) == DF_GATE_SHUT) {
        answer_shut(req, wait_ms);
        return;
    }
    df_gate_wrong(a->gate, &attempt);
    (void)reject_client(req);
}

/* Reads the row, then hashes the secret if necessary. */
static void begin_check(const struct check *begun)
{
    struct check *c = DF_ARENA_NEW(df_req_arena(begun->req), struct check);

    *c = *begun;
    c->task.run = run_hash;
    c->task.key = c->attempt.tag;
    c->job.run = run_load_client;
    c->job.done = load_client_done;
    c->job.log = df_req_log(c->req);
    df_req_suspend(c->req);
    if (df_store_read(c->auth->store, &c->job))
        return;
    df_req_fail(c->req, DF_E_BUSY, "Too many requests are waiting for the database.");
    df_req_resume(c->req);
}

static enum df_verdict check_client(struct df_auth *a, struct df_req *req)
{
    struct check c = {.auth = a,
                      .req = req,
                      .identifier = df_req_header(req, "X-Client-Id"),
                      .secret = df_req_header(req, "X-Client-Secret")};
    int64_t wait_ms = 0;

    if (c.identifier.len == 0 || c.secret.len == 0) {
        (void)refuse_request(req, DF_E_UNAUTHORIZED,
                             "X-Client-Id and X-Client-Secret are required.");
        return DF_ANSWERED;
    }
    if (!df_client_identifier_valid(c.identifier) || c.secret.len > DF_SECRET_MAX) {
        refuse_malformed(a, req);
        return DF_ANSWERED;
    }
    make_fingerprint(a, c.secret, c.fp);
    df_gate_attempt(a->gate, df_req_peer_network(req), c.identifier,
                    df_str_n((const char *)c.fp, sizeof c.fp), &c.attempt);
    struct df_client *client = df_arena_alloc(df_req_arena(req), sizeof *client);
    if (look_up_login(a, c.identifier, c.fp, &c.generation, client) == HIT) {
        df_gate_right(a->gate, &c.attempt);
        return admit_client(a, req, client) ? DF_PASS : DF_ANSWERED;
    }
    enum df_gate_verdict verdict = df_gate_ask(a->gate, &c.attempt, &wait_ms);
    if (verdict == DF_GATE_SHUT) {
        answer_shut(req, wait_ms);
        return DF_ANSWERED;
    }
    c.known = verdict == DF_GATE_KNOWN;
    begin_check(&c);
    return DF_DEFERRED;
}

enum admin { ADMIN_RIGHT, ADMIN_WRONG, ADMIN_SHUT };

/*
 * Comparing a key costs nothing, so a right key passes even if others behind the same address have
 * failed often. For a key short enough to be guessed, that would allow guesses without limit: such
 * a key passes only if it was right from there lately, or if not too many were wrong.
 */
static enum admin judge_admin(struct df_auth *a, const struct df_req *req, struct df_str given,
                              int64_t *ret_wait_ms)
{
    struct df_attempt attempt;
    unsigned char fp[FINGERPRINT_LEN];
    bool right = df_secret_matches(a->admin_key, given);
    bool strong = df_secret_str(a->admin_key).len >= DF_ADMIN_KEY_STRONG;

    make_fingerprint(a, given, fp);
    df_gate_attempt(a->gate, df_req_peer_network(req), DF_STR(ADMIN_ID),
                    df_str_n((const char *)fp, sizeof fp), &attempt);
    if (df_gate_ask(a->gate, &attempt, ret_wait_ms) == DF_GATE_SHUT && !(right && strong))
        return ADMIN_SHUT;
    if (right) {
        df_gate_right(a->gate, &attempt);
        return ADMIN_RIGHT;
    }
    count_outcome("refused");
    df_gate_wrong(a->gate, &attempt);
    df_log_warn("AdminKeyRefused", "wrong X-Admin-Key");
    return ADMIN_WRONG;
}

bool df_auth_is_admin(struct df_auth *a, const struct df_req *req)
{
    struct df_str given = df_req_header(req, "X-Admin-Key");
    int64_t wait_ms;

    return a->admin_key && given.len > 0 && judge_admin(a, req, given, &wait_ms) == ADMIN_RIGHT;
}

static enum df_verdict check_admin(struct df_auth *a, struct df_req *req)
{
    struct df_str given = df_req_header(req, "X-Admin-Key");
    int64_t wait_ms = 0;

    if (!a->admin_key) {
        (void)refuse_request(req, DF_E_NOT_FOUND, "There is nothing here.");
        return DF_ANSWERED;
    }
    if (given.len == 0) {
        (void)refuse_request(req, DF_E_UNAUTHORIZED, "X-Admin-Key is required.");
        return DF_ANSWERED;
    }
    switch (judge_admin(a, req, given, &wait_ms)) {
    case ADMIN_RIGHT:
        return DF_PASS;
    case ADMIN_WRONG:
        (void)refuse_request(req, DF_E_UNAUTHORIZED, "X-Admin-Key is wrong.");
        break;
    case ADMIN_SHUT:
        answer_shut(req, wait_ms);
        break;
    }
    return DF_ANSWERED;
}

enum df_verdict df_auth_authorize(struct df_auth *a, struct df_req *req)
{
    switch ((enum df_access_kind)df_req_route(req)->access) {
    case DF_ACCESS_OPEN:
        return DF_PASS;
    case DF_ACCESS_CLIENT:
        return check_client(a, req);
    case DF_ACCESS_ADMIN:
        return check_admin(a, req);
    case DF_ACCESS_OWNER:
        return df_req_header(req, "X-Admin-Key").ptr ? check_admin(a, req) : check_client(a, req);
    case DF_ACCESS_METRICS:
        if (df_req_peer_is_loopback(req))
            return DF_PASS;
        if (a->admin_key)
            return check_admin(a, req);
        (void)refuse_request(req, DF_E_UNAUTHORIZED, "Only from loopback, or with X-Admin-Key.");
        return DF_ANSWERED;
    }
    return DF_ANSWERED;
}

const struct df_client *df_auth_client(const struct df_req *req)
{
    return df_req_user(req);
}

/* --- LastSeenAt --- */

struct seen {
    char id[DF_UUID_LEN + 1];
    int64_t at;
};

static size_t collect_seen(struct df_auth *a, struct seen *out, size_t max)
{
    int64_t now = df_mono_ms(a->clock);
    size_t count = 0;
    struct entry *e;
    df_lock(&a->lock);
    for (size_t at = 0; count < max && (e = df_map_next(&a->cache, &at));) {
        if (!e->seen_at || (e->seen_written_ms && now - e->seen_written_ms < SEEN_EVERY_MS))
            continue;
        memcpy(out[count].id, e->record.client.id.text, sizeof out[count].id);
        out[count++].at = e->seen_at;
        e->seen_at = 0;
        e->seen_written_ms = now;
    }
    df_unlock(&a->lock);
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

void df_auth_flush_seen(struct df_auth *a)
{
    struct seen seen[SEEN_BATCH];
    size_t count;
    while ((count = collect_seen(a, seen, SEEN_BATCH)) > 0) {
        struct seen_job job = {.job.run = run_seen, .seen = seen, .count = count};
        struct df_err err = DF_ERR_INIT;
        if (df_store_write_wait(a->store, &job.job, &err) != DF_OK) {
            df_log_warn("LastSeenNotWritten", "%s", err.detail);
            return;
        }
    }
}
