#include "relay/health.h"

#include "base/mem.h"
#include "relay/health.sql.h"
#include "relay/relay_private.h"

#include <stdlib.h>

#define EVERY_MS       1000
#define BACKOFF_MIN_MS 1000
#define BACKOFF_MAX_MS 10000

/* What is to be written of one relay, and what was written last. */
struct report {
    struct df_relay *relay;
    bool inserted;
    bool changed;
    struct relay_health now;
    struct relay_health written;
};

struct df_relay_health {
    struct df_relay_health_options opt;
    struct report *reports;
    struct df_loop loop;
    bool failing; /* logged once */
};

/* A job of the store over all relays. */
struct exchange {
    struct df_job job; /* first */
    struct df_relay_health *health;
    struct df_relay_health_row {
        int64_t arrived;
        int64_t paused_ms;
        bool found;
    } * rows;          /* for each relay */
    int64_t paused_ms; /* of all relays */
};

static struct df_value time_or_null(int64_t ms, bool is_new)
{
    return ms > 0 && is_new ? df_time(ms) : df_null(DF_TIME);
}

/* --- writing ---------------------------------------------------------------------------------- */

static void take_report(struct report *p)
{
    struct df_relay *r = p->relay;

    df_lock(&r->lock);
    p->now = r->health;
    df_unlock(&r->lock);
    p->changed = !p->inserted || p->now.unwritten > 0 ||
                 p->now.down_since_ms != p->written.down_since_ms ||
                 p->now.last_failed_ms != p->written.last_failed_ms;
}

static enum df_code write_report(struct df_db *db, const struct report *p, int64_t now_ms,
                                 struct df_err *err)
{
    const struct relay_health *now = &p->now;
    struct df_value target = df_text(df_str_c(p->relay->s->name));
    bool failed = now->last_failed_ms != p->written.last_failed_ms;
    enum df_code code = DF_OK;

    if (!p->inserted)
        code = df_db_exec(db, DF_Q(relay_target_insert, .target = target, .now = df_time(now_ms)),
                          NULL, err);
    if (code != DF_OK)
        return code;
    return df_db_exec(db,
                      DF_Q(relay_target_update, .arrived = df_int(now->unwritten),
                           .arrived_at = time_or_null(now->last_arrived_ms, now->unwritten > 0),
                           .failed_at = time_or_null(now->last_failed_ms, failed),
                           .error = failed ? df_text(df_str_c(now->last_error)) : df_null(DF_TEXT),
                           .down_since = time_or_null(now->down_since_ms, true),
                           .now = df_time(now_ms), .target = target),
                      NULL, err);
}

static enum df_code write_reports(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct df_relay_health *h = ((struct exchange *)job)->health;
    int64_t now_ms = df_wall_ms(h->opt.clock);
    enum df_code code = DF_OK;

    for (size_t i = 0; code == DF_OK && i < h->opt.count; i++)
        if (h->reports[i].changed)
            code = write_report(db, &h->reports[i], now_ms, err);
    return code;
}

/* What was written is no longer unwritten; the next read has it. */
static void settle_report(struct report *p)
{
    struct df_relay *r = p->relay;

    if (!p->changed)
        return;
    p->inserted = true;
    p->written = p->now;
    df_lock(&r->lock);
    r->health.unwritten -= p->now.unwritten;
    r->health.arrived += p->now.unwritten;
    df_unlock(&r->lock);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void read_target(void *arg, struct df_result *r)
{
    struct exchange *x = arg;
    const struct df_relay_health *h = x->health;
    struct df_str target = df_col_text(r, relay_target_list_Target);
    int64_t paused_ms =
        df_col_null(r, relay_target_list_PausedAt) ? 0 : df_col_time(r, relay_target_list_PausedAt);

    if (target.len == 0)
        x->paused_ms = paused_ms;
    for (size_t i = 0; i < h->opt.count; i++) {
        if (df_str_eq(target, df_str_c(h->reports[i].relay->s->name)))
            x->rows[i] =
                (struct df_relay_health_row){.arrived = df_col_int(r, relay_target_list_Arrived),
                                             .paused_ms = paused_ms,
                                             .found = true};
    }
}

static enum df_code read_targets(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct exchange *x = (struct exchange *)job;

    x->paused_ms = 0;
    memset(x->rows, 0, x->health->opt.count * sizeof *x->rows);
    return df_db_each(db, DF_Q0(relay_target_list), read_target, x, err);
}

/* Others may have added to `arrived`. It never goes back, though the row may be gone or come from a
 * backup: what was counted by it goes on from where it was. */
static void take_over(struct df_relay *r, const struct df_relay_health_row *row,
                      int64_t all_paused_ms)
{
    int64_t paused_ms = row->paused_ms > 0 ? row->paused_ms : all_paused_ms;

    df_lock(&r->lock);
    bool changed = paused_ms != r->health.paused_ms || !r->health.known;
    bool was_known = r->health.known;
    r->health.known = true;
    r->health.paused_ms = paused_ms;
    if (row->arrived > r->health.arrived)
        r->health.arrived = row->arrived;
    if (changed)
        pthread_cond_broadcast(&r->changed);
    df_unlock(&r->lock);
    if (changed && (was_known || paused_ms > 0)) {
        struct df_log_field fields[] = {DF_F("relay", df_str_c(r->s->name))};
        df_log_write(DF_LOG_INFO, paused_ms > 0 ? "RelayPaused" : "RelayResumed", fields, 1, "%s",
                     paused_ms > 0 ? "nothing is claimed until it is resumed"
                                   : "what waits goes now");
    }
}

/* --- the thread ------------------------------------------------------------------------------- */

static enum df_code exchange_health(struct df_relay_health *h, struct df_err *err)
{
    struct exchange x = {.health = h, .rows = df_calloc(h->opt.count, sizeof *x.rows)};
    enum df_code code = DF_OK;
    bool writes = false;

    for (size_t i = 0; i < h->opt.count; i++) {
        take_report(&h->reports[i]);
        writes = writes || h->reports[i].changed;
    }
    if (writes) {
        x.job = (struct df_job){.run = write_reports};
        code = df_store_write_wait(h->opt.store, &x.job, err);
        for (size_t i = 0; code == DF_OK && i < h->opt.count; i++)
            settle_report(&h->reports[i]);
    }
    if (code == DF_OK) {
        x.job = (struct df_job){.run = read_targets};
        code = df_store_read_wait(h->opt.store, &x.job, err);
    }
    for (size_t i = 0; code == DF_OK && i < h->opt.count; i++)
        take_over(h->reports[i].relay, &x.rows[i], x.paused_ms);
    free(x.rows);
    return code;
}

/* Without the table nobody can have paused a relay. */
static void begin_without(struct df_relay_health *h)
{
    for (size_t i = 0; i < h->opt.count; i++) {
        struct df_relay *r = h->reports[i].relay;
        df_lock(&r->lock);
        r->health.known = true;
        pthread_cond_broadcast(&r->changed);
        df_unlock(&r->lock);
    }
}

static int64_t health_turn(void *arg)
{
    struct df_relay_health *h = arg;
    struct df_err err = DF_ERR_INIT;
    enum df_code code = exchange_health(h, &err);

    if (code != DF_OK && !h->failing)
        df_log_warn("RelayHealthFailed", "the state of relays is not shared: %s", err.detail);
    if (code != DF_OK && df_code_retry(code) == DF_RETRY_NEVER)
        begin_without(h);
    h->failing = code != DF_OK;
    return code == DF_OK ? EVERY_MS : DF_LOOP_FAILED;
}

struct df_relay_health *df_relay_health_start(const struct df_relay_health_options *opt)
{
    struct df_relay_health *h = df_calloc(1, sizeof *h);

    h->opt = *opt;
    h->opt.relays = NULL; /* the reports have them */
    h->reports = df_calloc(opt->count, sizeof *h->reports);
    for (size_t i = 0; i < opt->count; i++)
        h->reports[i].relay = opt->relays[i];
    df_loop_start(&h->loop, &(struct df_loop_options){.name = "relay-health",
                                                      .clock = opt->clock,
                                                      .backoff_min_ms = BACKOFF_MIN_MS,
                                                      .backoff_max_ms = BACKOFF_MAX_MS,
                                                      .turn = health_turn,
                                                      .arg = h});
    return h;
}

void df_relay_health_end(struct df_relay_health *h)
{
    struct df_err err = DF_ERR_INIT;

    if (!h)
        return;
    df_loop_stop(&h->loop);
    if (exchange_health(h, &err) != DF_OK)
        df_log_warn("RelayHealthFailed", "the last figures of relays are lost: %s", err.detail);
}

void df_relay_health_free(struct df_relay_health *h)
{
    if (!h)
        return;
    df_loop_release(&h->loop);
    free(h->reports);
    free(h);
}
