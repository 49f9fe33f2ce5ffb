#include "access/usage.h"

#include "access/usage.sql.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define EXCHANGE_MS 1000
#define EXPIRE_MS   5000  /* a process that has not written for so long does not count */
#define REMOVE_MS   60000 /* and after so long its rows are removed */
#define FIELD_MAX   160

struct df_usage {
    struct df_store *store;
    const struct df_clock *clock;
    struct df_limiter *limiter;
    struct df_uuid replica;
    bool written;     /* the table has rows of this process */
    bool unreachable; /* the last exchange failed, and that was logged */

    struct df_loop loop; /* not started on SQLite, where there is one process */
};

static struct df_metric_family rate_limited_total = {
    .name = "dataflow_rate_limited_total",
    .help = "Requests refused because the client is over its RequestsPerMinute.",
    .type = DF_COUNTER,
    .labels = {"clientId"},
};

/* --- requests --- */

/* draft-ietf-httpapi-ratelimit-headers: both rules, each under its name. */
static void add_ratelimit_fields(struct df_req *req, int64_t limit,
                                 const struct df_limiter_answer *a)
{
    char text[FIELD_MAX];
    (void)snprintf(text, sizeof text,
                   "\"default\";q=%" PRId64 ";w=60, \"burst\";q=%" PRId64 ";w=%" PRId64, limit,
                   a->burst, a->burst_window_s);
    (void)df_req_add_header(req, "RateLimit-Policy", df_str_c(text));
    (void)snprintf(text, sizeof text,
                   "\"default\";r=%" PRId64 ";t=%" PRId64 ", \"burst\";r=%" PRId64 ";t=%" PRId64,
                   a->remaining, a->reset_s, a->burst_remaining, a->burst_reset_s);
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
                "This client may make %" PRId64 " requests a minute, evenly spread, %" PRId64
                " of them at once. Wait for %s s, then send the request again.",
                c->requests_per_minute, a->burst, seconds);
}

bool df_usage_admit(struct df_usage *u, struct df_req *req, const struct df_client *c)
{
    struct df_limiter_answer a;
    df_limiter_take(u->limiter, df_uuid_str(&c->id), c->requests_per_minute, &a);
    if (c->requests_per_minute <= 0)
        return true;
    add_ratelimit_fields(req, c->requests_per_minute, &a);
    if (!a.admitted)
        refuse_over_limit(req, c, &a);
    return a.admitted;
}

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
    struct df_job job;
    struct df_usage *usage;
    struct df_limiter_use *uses;
    size_t count, room;
};

static int64_t int32_of(int64_t n)
{
    return n < INT32_MAX ? n : INT32_MAX;
}

static enum df_code run_write_usage(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct exchange *x = (struct exchange *)job;
    struct df_value replica = df_uuid(df_uuid_str(&x->usage->replica));
    int64_t now = df_wall_ms(x->usage->clock);
    enum df_code code = df_db_exec(
        db, DF_Q(usage_clear, .replica = replica, .expired = df_time(now - REMOVE_MS)), NULL, err);
    if (code != DF_OK || x->count == 0)
        return code;
    struct df_p_usage_insert *rows = df_calloc(x->count, sizeof *rows);
    for (size_t i = 0; i < x->count; i++) {
        const struct df_limiter_use *use = &x->uses[i];
        rows[i] = (struct df_p_usage_insert){
            .client_id = df_uuid(df_str_c(use->key)),
            .replica = replica,
            .requests = df_int(int32_of(use->requests)),
            .demand = df_int(int32_of(use->demand)),
            .uploads = df_int(int32_of(use->held)),
            .now = df_time(now),
        };
    }
    code = df_db_exec_many(db, DF_MANY(usage_insert, rows), x->count, NULL, NULL, NULL, NULL, err);
    free(rows);
    return code;
}

static void read_use(void *arg, struct df_result *r)
{
    struct exchange *x = arg;

    if (x->count == x->room) {
        x->room = x->room ? 2 * x->room : 64;
        x->uses = df_realloc(x->uses, x->room * sizeof *x->uses);
    }
    struct df_limiter_use *use = &x->uses[x->count++];
    *use = (struct df_limiter_use){.requests = df_col_int(r, usage_elsewhere_Requests),
                                   .demand = df_col_int(r, usage_elsewhere_Demand),
                                   .held = df_col_int(r, usage_elsewhere_Uploads)};
    (void)snprintf(use->key, sizeof use->key, DF_STR_FMT,
                   DF_STR_ARG(df_col_text(r, usage_elsewhere_ClientId)));
}

static enum df_code run_read_usage(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct exchange *x = (struct exchange *)job;
    int64_t since = df_wall_ms(x->usage->clock) - EXPIRE_MS;

    x->count = 0;
    return df_db_each(db,
                      DF_Q(usage_elsewhere, .replica = df_uuid(df_uuid_str(&x->usage->replica)),
                           .since = df_time(since)),
                      read_use, x, err);
}

/* Writes the rows of this process; nothing if it has none now and had none the last time. */
static enum df_code write_own(struct df_usage *u, bool leaving, struct df_err *err)
{
    struct exchange x = {.job.run = run_write_usage, .usage = u};
    enum df_code code = DF_OK;
    if (!leaving)
        x.count = df_limiter_report(u->limiter, &x.uses);
    if (x.count > 0 || u->written)
        code = df_store_write_wait(u->store, &x.job, err);
    if (code == DF_OK)
        u->written = x.count > 0;
    free(x.uses);
    return code;
}

static enum df_code read_others(struct df_usage *u, struct df_err *err)
{
    struct exchange x = {.job.run = run_read_usage, .usage = u};
    enum df_code code = df_store_read_wait(u->store, &x.job, err);
    if (code == DF_OK)
        df_limiter_set_elsewhere(u->limiter, x.uses, x.count);
    free(x.uses);
    return code;
}

static int64_t exchange_usage(void *arg)
{
    struct df_usage *u = arg;
    struct df_err err = DF_ERR_INIT;
    enum df_code code = write_own(u, false, &err);
    if (code == DF_OK)
        code = read_others(u, &err);
    if (code != DF_OK && !u->unreachable)
        df_log_warn("UsageNotShared",
                    "limits of clients are not shared with other processes for now: %s",
                    err.detail);
    u->unreachable = code != DF_OK;
    return EXCHANGE_MS;
}

/* If this fails, the rows expire. */
static void remove_own_rows(void *arg)
{
    struct df_err err = DF_ERR_INIT;
    (void)write_own(arg, true, &err);
}

/* --- start and stop --- */

struct df_usage *df_usage_new(struct df_store *store, const struct df_clock *clock)
{
    struct df_usage *u = df_calloc(1, sizeof *u);
    assert(store && clock);
    u->store = store;
    u->clock = clock;
    u->limiter = df_limiter_new(clock);
    u->replica = df_uuid_v4(clock);
    df_metric_register(&rate_limited_total);
    if (df_store_dialect(store) != DF_SQLITE)
        df_loop_start(&u->loop, &(struct df_loop_options){.name = "usage",
                                                          .clock = clock,
                                                          .first_ms = EXCHANGE_MS,
                                                          .turn = exchange_usage,
                                                          .ended = remove_own_rows,
                                                          .arg = u});
    return u;
}

void df_usage_stop(struct df_usage *u)
{
    if (u)
        df_loop_stop(&u->loop);
}

void df_usage_free(struct df_usage *u)
{
    if (!u)
        return;
    df_loop_release(&u->loop);
    df_limiter_free(u->limiter);
    free(u);
}
