#include "access/usage.h"

#include "access/usage.sql.h"
#include "base/lock.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "store/db.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define EXCHANGE_MS 1000
#define LATELY_MS                                                                                  \
    5000 /* demand and uploads of a process that has not written for so long are gone */
#define PATIENCE_MS  2000 /* of a request that waits for an exchange */
#define CONNECT_MS   2000
#define STATEMENT_MS 2000
#define FIELD_MAX    160

struct df_usage {
    const char *url;
    const struct df_clock *clock;
    struct df_limiter *limiter;
    struct df_uuid replica;
    struct df_db *db; /* of the exchange's thread; NULL: not connected */
    bool written;     /* the table has rows of this process */
    bool unreachable; /* the last exchange failed, and that was logged */

    struct df_mutex lock;
    struct df_list asking DF_GUARDED_BY(lock);  /* requests, for the exchange under way */
    struct df_list waiting DF_GUARDED_BY(lock); /* for the next one */
    bool ended DF_GUARDED_BY(lock);             /* there are no more exchanges */

    /* Neither is started on SQLite, where there is one process. */
    struct df_loop loop;
    struct df_loop watch; /* answers requests that waited too long */
};

DF_METRIC_FAMILY(rate_limited_total) = {
    .name = "dataflow_rate_limited_total",
    .help = "Requests refused because the client is over its requestsPerMinute.",
    .type = DF_COUNTER,
    .labels = {"client_id"},
};

/* --- requests --- */

/* draft-ietf-httpapi-ratelimit-headers */
static void add_ratelimit_fields(struct df_req *req, int64_t limit,
                                 const struct df_limiter_answer *a)
{
    char text[FIELD_MAX];
    (void)snprintf(text, sizeof text, "\"default\";q=%" PRId64 ";w=60", limit);
    (void)df_req_add_header(req, "RateLimit-Policy", df_str_c(text));
    (void)snprintf(text, sizeof text, "\"default\";r=%" PRId64 ";t=%" PRId64, a->remaining,
                   a->reset_s);
    (void)df_req_add_header(req, "RateLimit", df_str_c(text));
}

static void refuse_over_limit(struct df_req *req, const struct df_client *c,
                              const struct df_limiter_answer *a)
{
    struct df_str label = df_str_c(c->identifier);
    char seconds[24];
    df_metric_add(df_metric_get(&rate_limited_total, &label), 1);
    if (a->tell) {
        struct df_log_field said[] = {DF_FI("requestsPerMinute", (uint64_t)c->requests_per_minute),
                                      DF_FI("refused", (uint64_t)a->refused)};
        df_log_write(DF_LOG_WARN, "RateLimited", said, sizeof said / sizeof said[0],
                     "the client is over its limit; told once a minute");
    }
    (void)snprintf(seconds, sizeof seconds, "%" PRId64, (a->wait_ms + 999) / 1000);
    (void)df_req_add_header(req, "Retry-After", df_str_c(seconds));
    df_req_fail(req, DF_E_TOO_MANY,
                "This client may make %" PRId64
                " requests a minute. Wait for %s s, then send the request again.",
                c->requests_per_minute, seconds);
}

enum df_admission df_usage_admit(struct df_usage *u, struct df_req *req, const struct df_client *c)
{
    struct df_limiter_answer a;
    df_limiter_take(u->limiter, df_uuid_str(&c->id), c->requests_per_minute, &a);
    if (c->requests_per_minute <= 0)
        return DF_ADMITTED;
    if (a.ask)
        return DF_ADMISSION_WAITS;
    if (a.soon)
        df_loop_wake(&u->loop);
    add_ratelimit_fields(req, c->requests_per_minute, &a);
    if (!a.admitted)
        refuse_over_limit(req, c, &a);
    return a.admitted ? DF_ADMITTED : DF_ADMISSION_REFUSED;
}

/* --- requests that wait --- */

void df_usage_wait(struct df_usage *u, struct df_usage_waiter *w)
{
    w->since_ms = df_mono_ms(u->clock);
    df_lock(&u->lock);
    bool ended = u->ended;
    bool first = u->asking.count == 0 && u->waiting.count == 0;
    if (!ended)
        df_list_add(&u->waiting, &w->link);
    df_unlock(&u->lock);
    if (ended) {
        w->ask_again(w);
        return;
    }
    df_loop_wake(&u->loop);
    if (first)
        df_loop_wake(&u->watch);
}

static void begin_asking(struct df_usage *u)
{
    df_lock(&u->lock);
    df_list_move(&u->asking, &u->waiting);
    df_unlock(&u->lock);
}

/* Those of the exchange that ended; all: those that came meanwhile too. */
static void answer_asking(struct df_usage *u, bool all)
{
    struct df_list answered = {0};
    struct df_usage_waiter *w;
    df_lock(&u->lock);
    df_list_move(&answered, &u->asking);
    if (all)
        df_list_move(&answered, &u->waiting);
    df_unlock(&u->lock);
    while ((w = DF_LIST_TAKE(&answered, struct df_usage_waiter, link)))
        w->ask_again(w);
}

/* How long the oldest may still wait; DF_LOOP_IDLE: nobody waits. */
static int64_t patience_left(struct df_usage *u)
{
    int64_t left = DF_LOOP_IDLE;
    df_lock(&u->lock);
    const struct df_list *oldest = u->asking.count > 0 ? &u->asking : &u->waiting;
    const struct df_usage_waiter *w = DF_LIST_FIRST(oldest, struct df_usage_waiter, link);
    if (w) {
        left = w->since_ms + PATIENCE_MS - df_mono_ms(u->clock);
        left = left > 0 ? left : 0;
    }
    df_unlock(&u->lock);
    return left;
}

static int64_t watch_waiting(void *arg)
{
    struct df_usage *u = arg;
    int64_t left = patience_left(u);
    if (left != 0)
        return left;
    df_limiter_alone(u->limiter);
    answer_asking(u, true);
    return DF_LOOP_IDLE;
}

/* --- uploads --- */

bool df_usage_upload_begin(struct df_usage *u, const struct df_uuid *client_id, int64_t most)
{
    return df_limiter_hold(u->limiter, df_uuid_str(client_id), most);
}

void df_usage_upload_end(struct df_usage *u, const struct df_uuid *client_id)
{
    df_limiter_drop(u->limiter, df_uuid_str(client_id));
}

void df_usage_look(struct df_usage *u, const struct df_uuid *client_id, struct df_limiter_use *ret)
{
    df_limiter_look(u->limiter, df_uuid_str(client_id), ret);
}

/* --- between processes --- */

struct exchange {
    struct df_usage *usage;
    int64_t now_ms; /* of the database */
    struct df_limiter_use *mine;
    size_t mine_count;
    bool last; /* `mine` is from df_limiter_leave */
    struct df_limiter_use *others;
    size_t count, room;
};

static int64_t int32_of(int64_t n)
{
    return n < INT32_MAX ? n : INT32_MAX;
}

static void read_use(void *arg, struct df_result *r)
{
    struct exchange *x = arg;

    if (x->count == x->room) {
        x->room = x->room ? 2 * x->room : 64;
        x->others = df_realloc(x->others, x->room * sizeof *x->others);
    }
    struct df_limiter_use *use = &x->others[x->count++];
    *use = (struct df_limiter_use){.requests = df_col_int(r, usage_elsewhere_Requests),
                                   .demand = df_col_int(r, usage_elsewhere_Demand),
                                   .held = df_col_int(r, usage_elsewhere_Uploads)};
    (void)snprintf(use->key, sizeof use->key, DF_STR_FMT,
                   DF_STR_ARG(df_col_text(r, usage_elsewhere_ClientId)));
}

static void read_now(void *arg, struct df_result *r)
{
    *(int64_t *)arg = df_col_time(r, usage_now_Now);
}

static enum df_code read_usage(struct df_db *db, struct exchange *x, struct df_err *err)
{
    x->count = 0;
    enum df_code code = df_db_one(db, DF_Q0(usage_now), read_now, &x->now_ms, NULL, err);
    if (code != DF_OK)
        return code;
    return df_db_each(db,
                      DF_Q(usage_elsewhere, .replica = df_uuid(df_uuid_str(&x->usage->replica)),
                           .since = df_time(x->now_ms - DF_LIMITER_KEEP_MS),
                           .lately = df_time(x->now_ms - LATELY_MS)),
                      read_use, x, err);
}

/* Decides what this process may reserve. The others are in the order of their keys. */
static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const struct df_limiter_use *)a)->key, ((const struct df_limiter_use *)b)->key);
}

static void grant_wishes(struct exchange *x)
{
    if (x->count > 0)
        qsort(x->others, x->count, sizeof *x->others, compare_keys);
    for (size_t i = 0; i < x->mine_count; i++) {
        struct df_limiter_use *mine = &x->mine[i];
        const struct df_limiter_use *there =
            x->count > 0 ? bsearch(mine, x->others, x->count, sizeof *mine, compare_keys) : NULL;
        mine->granted = df_limiter_grant(mine, there ? there->requests : 0);
    }
}

static enum df_code insert_own(struct df_db *db, struct exchange *x, struct df_err *err)
{
    struct df_p_usage_insert *rows = df_calloc(x->mine_count, sizeof *rows);
    for (size_t i = 0; i < x->mine_count; i++) {
        const struct df_limiter_use *use = &x->mine[i];
        rows[i] = (struct df_p_usage_insert){
            .client_id = df_uuid(df_str_c(use->key)),
            .replica = df_uuid(df_uuid_str(&x->usage->replica)),
            .requests = df_int(int32_of(use->requests + use->granted)),
            .demand = df_int(int32_of(use->demand)),
            .uploads = df_int(int32_of(use->held)),
            .at = df_time(x->now_ms - (x->last ? df_limiter_written_ago_ms(use) : 0)),
        };
    }
    enum df_code code = df_db_exec_many(db, DF_MANY(usage_insert, rows), x->mine_count, NULL, NULL,
                                        NULL, NULL, err);
    free(rows);
    return code;
}

static void ignore_row(void *arg, struct df_result *r)
{
    (void)arg;
    (void)r;
}

/* Processes do this one after the other, so that each sees what the others reserved. */
static enum df_code write_usage(struct df_db *db, struct exchange *x, struct df_err *err)
{
    enum df_code code = df_db_each(db, DF_Q0(usage_lock), ignore_row, NULL, err);
    if (code == DF_OK)
        code = read_usage(db, x, err);
    if (code == DF_OK)
        code = df_db_exec(db,
                          DF_Q(usage_clear, .replica = df_uuid(df_uuid_str(&x->usage->replica)),
                               .expired = df_time(x->now_ms - DF_LIMITER_KEEP_MS)),
                          NULL, err);
    if (code != DF_OK || x->mine_count == 0)
        return code;
    if (!x->last)
        grant_wishes(x);
    return insert_own(db, x, err);
}

static enum df_code connect_exchange(struct df_usage *u, struct df_err *err)
{
    if (u->db && df_db_alive(u->db))
        return DF_OK;
    df_db_close(u->db);
    u->db = NULL;
    /* PostgreSQL ends the transaction of a process that was stopped in the middle of it. */
    return df_db_open(&(struct df_db_options){.url = u->url,
                                              .connect_timeout_ms = CONNECT_MS,
                                              .statement_timeout_ms = STATEMENT_MS,
                                              .idle_transaction_ms = STATEMENT_MS},
                      &u->db, err);
}

static enum df_code run_exchange(struct df_usage *u, struct exchange *x, bool writes,
                                 struct df_err *err)
{
    enum df_code code = connect_exchange(u, err);
    if (code == DF_OK && !writes) {
        code = read_usage(u->db, x, err);
    } else if (code == DF_OK) {
        code = df_db_begin(u->db, true, err);
        if (code == DF_OK)
            code = write_usage(u->db, x, err);
        if (code == DF_OK)
            code = df_db_commit(u->db, err);
    }
    if (u->db)
        df_db_reset(u->db);
    return code;
}

/* Does not write if this process has no rows now and had none the last time. A connection may have
 * been lost while it was idle: then the exchange is made again. */
static enum df_code exchange_with_others(struct df_usage *u, struct df_err *err)
{
    struct exchange x = {.usage = u};
    x.mine_count = df_limiter_report(u->limiter, &x.mine);
    bool writes = x.mine_count > 0 || u->written, connected = u->db != NULL;
    enum df_code code = run_exchange(u, &x, writes, err);
    if (code != DF_OK && connected && u->db && !df_db_alive(u->db))
        code = run_exchange(u, &x, writes, err);
    if (code == DF_OK) {
        u->written = x.mine_count > 0;
        df_limiter_settle(u->limiter, x.mine, x.mine_count, x.others, x.count);
    } else {
        df_limiter_alone(u->limiter);
    }
    free(x.mine);
    free(x.others);
    return code;
}

static int64_t exchange_usage(void *arg)
{
    struct df_usage *u = arg;
    struct df_err err = DF_ERR_INIT;
    begin_asking(u);
    enum df_code code = exchange_with_others(u, &err);
    if (code != DF_OK && !u->unreachable)
        df_log_warn("UsageNotShared",
                    "limits of clients are not shared with other processes for now: %s",
                    err.detail);
    u->unreachable = code != DF_OK;
    answer_asking(u, code != DF_OK);
    return EXCHANGE_MS;
}

/* Nobody waits from now on. The others go on counting what was admitted here in the last minute; if
 * that cannot be written, the last rows count. */
static void end_exchange(void *arg)
{
    struct df_usage *u = arg;
    struct df_err err = DF_ERR_INIT;
    struct exchange x = {.usage = u, .last = true};
    df_limiter_alone(u->limiter);
    df_lock(&u->lock);
    u->ended = true;
    df_unlock(&u->lock);
    answer_asking(u, true);
    x.mine_count = df_limiter_leave(u->limiter, &x.mine);
    if ((x.mine_count > 0 || u->written) && run_exchange(u, &x, true, &err) != DF_OK)
        df_log_warn("UsageNotShared", "what was admitted lately was not left to the others: %s",
                    err.detail);
    free(x.mine);
    free(x.others);
    df_db_close(u->db);
    u->db = NULL;
}

/* --- start and stop --- */

struct df_usage *df_usage_new(const char *url, const struct df_clock *clock)
{
    struct df_usage *u = df_calloc(1, sizeof *u);
    enum df_dialect dialect = DF_SQLITE;
    assert(clock);
    bool shared = url && df_db_dialect_of(url, &dialect, NULL) == DF_OK && dialect != DF_SQLITE;
    u->url = url;
    u->clock = clock;
    u->limiter = df_limiter_new(clock, shared);
    df_mutex_init(&u->lock);
    u->replica = df_uuid_v4(clock);
    df_metric_register(&rate_limited_total);
    if (!shared)
        return u;
    df_loop_start(&u->watch,
                  &(struct df_loop_options){
                      .name = "usage-watch", .clock = clock, .turn = watch_waiting, .arg = u});
    df_loop_start(&u->loop, &(struct df_loop_options){.name = "usage",
                                                      .clock = clock,
                                                      .first_ms = EXCHANGE_MS,
                                                      .turn = exchange_usage,
                                                      .ended = end_exchange,
                                                      .arg = u});
    return u;
}

void df_usage_stop(struct df_usage *u)
{
    if (!u)
        return;
    df_loop_stop(&u->loop);
    df_loop_stop(&u->watch);
}

void df_usage_free(struct df_usage *u)
{
    if (!u)
        return;
    df_loop_release(&u->loop);
    df_loop_release(&u->watch);
    df_limiter_free(u->limiter);
    df_mutex_destroy(&u->lock);
    free(u);
}
