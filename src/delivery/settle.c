/*
 * Settling: what came of rows is written, many in one commit. The shards' rows are locked first and
 * their epochs compared, so that a process that lost a shard settles nothing of it
 * (shards/shards.h). The store may run the job more than once, so each run starts afresh; the rows
 * stay in its list.
 *
 * Rows that arrived are settled by one statement for many; failures have a text each. A row that
 * arrived at its first try tells of it in its own columns, every other try gets a row in
 * DeliveryAttempts.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/tally.h"
#include "base/uuid.h"
#include "delivery/attempts.sql.h"
#include "delivery/delivery_private.h"
#include "store/rows.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define SHOW_MS     1000 /* a row on its way for so long is shown as Sending */
#define GATHER_MS   4    /* while many calls are on their way, results gather for so long */
#define GATHER_MANY 64

static const char *const outcome_names[DELIVERY_OUTCOMES] = {"Sent", "Retry", "Error", "Deferred"};

/* --- parameters ------------------------------------------------------------------------------- */

struct df_value df_channel_ids(struct df_value id, char out[DF_CHANNEL_IDS_SIZE])
{
    if (id.type == DF_UUID)
        (void)snprintf(out, DF_CHANNEL_IDS_SIZE, "[\"" DF_STR_FMT "\"]", DF_STR_ARG(id.s));
    else
        (void)snprintf(out, DF_CHANNEL_IDS_SIZE, "[%lld]", (long long)id.i);
    return df_text(df_str_c(out));
}

struct df_value df_channel_id(const struct df_channel *c, struct df_str id)
{
    struct df_uuid uuid;
    int64_t number = 0;

    if (c->id_type == DF_UUID)
        return df_uuid_parse(id, &uuid) ? df_uuid(id) : df_null(DF_UUID);
    return df_str_to_i64(id, &number) ? df_int(number) : df_null(DF_INT);
}

static struct df_value time_or_null(int64_t ms)
{
    return ms > 0 ? df_time(ms) : df_null(DF_TIME);
}

/* --- lists of rows ---------------------------------------------------------------------------- */

struct rows {
    struct delivery_row **at;
    size_t count;
};

static bool settles_alike(enum delivery_outcome a, enum delivery_outcome b)
{
    bool failed_a = a == DELIVERY_RETRY || a == DELIVERY_DEAD;
    bool failed_b = b == DELIVERY_RETRY || b == DELIVERY_DEAD;
    return a == b || (failed_a && failed_b);
}

/* In one order for all writers of many rows: numbers by size, UUIDs as text. */
static int compare_by_id(const void *a, const void *b)
{
    const struct delivery_row *x = *(const struct delivery_row *const *)a;
    const struct delivery_row *y = *(const struct delivery_row *const *)b;

    if (x->id.len != y->id.len)
        return x->id.len < y->id.len ? -1 : 1;
    return memcmp(x->id.ptr, y->id.ptr, x->id.len);
}

/* The rows that settle like `kind` and whose shards are this process's. */
static struct rows rows_of(struct delivery_settling *s, enum delivery_outcome kind)
{
    struct rows rows = {DF_ARENA_ARRAY(&s->arena, struct delivery_row *, s->rows.count + 1), 0};
    struct delivery_row *r;

    DF_LIST_EACH (r, &s->rows, link) {
        if (!r->stale && settles_alike(r->outcome, kind))
            rows.at[rows.count++] = r;
    }
    qsort(rows.at, rows.count, sizeof(struct delivery_row *), compare_by_id);
    return rows;
}

/* --- the shards ------------------------------------------------------------------------------- */

/* Locks the shards, and finds the rows of those that were lost. */
static enum df_code lock_shards(struct df_db *db, struct delivery_settling *s, struct df_err *err)
{
    int64_t epochs[DF_SHARDS];
    uint32_t shards = s->reset;
    struct delivery_row *r;

    DF_LIST_EACH (r, &s->rows, link)
        shards |= UINT32_C(1) << r->shard;
    for (size_t i = 0; i < s->shown_count; i++)
        shards |= UINT32_C(1) << s->shown[i].shard;
    enum df_code code = df_shards_lock(db, s->channel->shards, shards, epochs, err);
    if (code != DF_OK)
        return code;
    s->lost = 0;
    DF_LIST_EACH (r, &s->rows, link) {
        r->stale = r->lost = epochs[r->shard] != r->epoch;
        if (r->lost)
            s->lost |= UINT32_C(1) << r->shard;
    }
    for (size_t i = 0; i < s->shown_count; i++)
        if (epochs[s->shown[i].shard] != s->shown[i].epoch)
            s->shown[i].id = DF_STR_NULL;
    s->own = 0;
    for (unsigned i = 0; i < DF_SHARDS; i++)
        s->own |= epochs[i] >= 0 ? UINT32_C(1) << i : 0;
    return DF_OK;
}

/* --- settling --------------------------------------------------------------------------------- */

/* Writes the rows of parameters, which belong to `rows` in this order. */
static enum df_code write_outcomes(struct df_db *db, struct delivery_settling *s, struct rows rows,
                                   struct df_rows *params, struct df_err *err)
{
    int64_t *affected = DF_ARENA_ARRAY(&s->arena, int64_t, rows.count + 1);

    if (rows.count == 0)
        return DF_OK;
    enum df_code code = df_rows_run(db, params, affected, err);
    for (size_t i = 0; i < rows.count && code == DF_OK; i++)
        rows.at[i]->stale = affected[i] == 0;
    return code;
}

static struct df_value status_of(const struct delivery_row *row)
{
    return row->tried && row->out.call.code == DF_OK ? df_int(row->out.call.status)
                                                     : df_null(DF_INT);
}

static enum df_code settle_sent(struct df_db *db, struct delivery_settling *s, struct df_value now,
                                struct df_err *err)
{
    const struct df_channel *c = s->channel->c;
    struct rows rows = rows_of(s, DELIVERY_SENT);
    struct df_rows params = df_rows_for(&s->arena, c->sent, rows.count);

    for (size_t i = 0; i < rows.count; i++) {
        const struct delivery_row *row = rows.at[i];
        df_rows_put(&params,
                    DF_ANY(c->sent, {"now", now}, {"id", df_channel_id(c, row->id)},
                           {"version", df_int(row->version)}, {"started", df_time(row->started_ms)},
                           {"http_status", status_of(row)},
                           {"duration_ms", df_int(row->out.call.duration_ms)}));
    }
    return write_outcomes(db, s, rows, &params, err);
}

/* Each row has its own error, or its own due time. */
static enum df_code settle_others(struct df_db *db, struct delivery_settling *s,
                                  enum delivery_outcome kind, struct df_value now,
                                  struct df_err *err)
{
    const struct df_channel *c = s->channel->c;
    const struct df_query *q = kind == DELIVERY_DEFERRED ? c->deferred : c->failed;
    struct rows rows = rows_of(s, kind);
    struct df_rows params = df_rows_for(&s->arena, q, rows.count);

    for (size_t i = 0; i < rows.count; i++) {
        const struct delivery_row *row = rows.at[i];
        bool dead = row->outcome == DELIVERY_DEAD;
        bool held = row->held_for > 0 && !dead;
        const struct df_tries *t = &row->tries;
        df_rows_put(&params,
                    DF_ANY(q, {"now", now}, {"id", df_channel_id(c, row->id)},
                           {"started", row->tried ? df_time(row->started_ms) : now},
                           {"version", df_int(row->version)}, {"was_due", df_time(row->was_due_ms)},
                           {"due", dead ? df_null(DF_TIME) : df_time(row->due_ms)},
                           {"error", df_text(row->error)}, {"http_status", status_of(row)},
                           {"attempts", df_int(t->counted)},
                           {"first_failed", time_or_null(t->first_failed_ms)},
                           {"counted", time_or_null(t->counted_ms)},
                           {"mark", t->mark >= 0 ? df_int(t->mark) : df_null(DF_INT)},
                           {"held_for", held ? df_int(row->held_for) : df_null(DF_INT)},
                           {"held_at", held ? now : df_null(DF_TIME)}));
    }
    return write_outcomes(db, s, rows, &params, err);
}

/* First, so that the settlement of such a row has the last word. */
static enum df_code show_sending(struct df_db *db, struct delivery_settling *s, struct df_value now,
                                 struct df_err *err)
{
    const struct df_channel *c = s->channel->c;
    enum df_code code = DF_OK;

    for (size_t i = 0; i < s->shown_count && code == DF_OK; i++)
        if (s->shown[i].id.ptr)
            code = df_db_exec(db,
                              DF_ANY(c->sending, {"now", now},
                                     {"id", df_channel_id(c, s->shown[i].id)},
                                     {"version", df_int(s->shown[i].version)}),
                              NULL, err);
    return code;
}

/* A try that arrived at once is told by the row itself. */
static bool needs_attempt(const struct delivery_row *r)
{
    return r->tried && (r->outcome != DELIVERY_SENT || r->attempt > 1 || r->stale);
}

static enum df_code record_attempts(struct df_db *db, struct delivery_settling *s,
                                    struct df_err *err)
{
    struct df_rows rows = df_rows_for(&s->arena, &df_q_delivery_attempt_insert, s->rows.count);
    const struct delivery_row *r;

    DF_LIST_EACH (r, &s->rows, link) {
        if (!needs_attempt(r))
            continue;
        const char *outcome = r->lost ? "Stale" : outcome_names[r->outcome];
        DF_ROWS_ADD(&rows, delivery_attempt_insert,
                    .channel = df_text(df_str_c(s->channel->c->name)), .row_key = df_text(r->id),
                    .attempt = df_int(r->attempt), .attempted_at = df_time(r->started_ms),
                    .outcome = df_text(df_str_c(outcome)), .http_status = status_of(r),
                    .duration_ms = df_int(r->out.call.duration_ms), .answer = df_text(r->answer),
                    .error = df_text(r->error),
                    .counted = df_int(r->counted || r->outcome == DELIVERY_SENT));
    }
    return df_rows_run(db, &rows, NULL, err);
}

static enum df_code clear_marks(struct df_db *db, struct delivery_settling *s, struct df_err *err)
{
    struct df_str *ids = DF_ARENA_ARRAY(&s->arena, struct df_str, s->rows.count + 1);
    const struct delivery_row *r;
    size_t count = 0;

    DF_LIST_EACH (r, &s->rows, link)
        if (r->marked && !r->lost)
            ids[count++] = r->id;
    return count > 0 ? df_marks_clear(db, s->channel->c->name, ids, count, err) : DF_OK;
}

/* --- the job ---------------------------------------------------------------------------------- */

/* The ids of all rows that the job wrote. */
struct written {
    struct delivery_settling *s;
    struct df_str *at;
    size_t count;
    size_t cap;
};

static void add_written(struct written *w, struct df_str id)
{
    if (w->count == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 64;
        struct df_str *more = DF_ARENA_ARRAY(&w->s->arena, struct df_str, cap);
        if (w->count > 0)
            memcpy(more, w->at, w->count * sizeof(*more));
        w->at = more;
        w->cap = cap;
    }
    w->at[w->count++] = id;
}

static void note_reset(void *arg, struct df_result *r)
{
    struct written *w = arg;

    add_written(w, df_arena_str(&w->s->arena, df_col_text(r, channel_reset_Id)));
}

static enum df_code mirror_rows(struct df_db *db, struct delivery_settling *s,
                                const struct written *w, struct df_value now, struct df_err *err)
{
    const struct df_channel *c = s->channel->c;
    struct df_ids ids = df_ids_for(&s->arena, w->count, c->id_type == DF_UUID);
    enum df_code code = DF_OK;

    if (w->count == 0 || !(c->mirror || c->settled))
        return DF_OK;
    for (size_t i = 0; i < w->count; i++)
        df_ids_add(&ids, w->at[i]);
    struct df_value all = df_ids_value(&ids);
    if (c->mirror)
        code = df_db_exec(db, DF_ANY(c->mirror, {"now", now}, {"ids", all}), NULL, err);
    return code == DF_OK && c->settled ? c->settled(c, db, now, all, &s->arena, err) : code;
}

static enum df_code lock_rows(struct df_db *db, struct delivery_settling *s, struct df_err *err)
{
    const struct df_channel *c = s->channel->c;
    struct df_ids ids =
        df_ids_for(&s->arena, s->rows.count + s->shown_count, c->id_type == DF_UUID);
    const struct delivery_row *r;

    if (!c->lock || s->rows.count + s->shown_count == 0)
        return DF_OK;
    DF_LIST_EACH (r, &s->rows, link)
        df_ids_add(&ids, r->id);
    for (size_t i = 0; i < s->shown_count; i++)
        if (s->shown[i].id.ptr)
            df_ids_add(&ids, s->shown[i].id);
    return df_db_exec(db, DF_ANY(c->lock, {"ids", df_ids_value(&ids)}), NULL, err);
}

static enum df_code settle_run(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct delivery_settling *s = (struct delivery_settling *)job;
    const struct df_channel *c = s->channel->c;
    struct df_value now = df_time(delivery_now(s->channel));
    struct written written = {.s = s};
    const struct delivery_row *r;

    df_arena_reset(&s->arena);
    enum df_code code = lock_shards(db, s, err);
    if (code == DF_OK && (s->reset & s->own))
        code = df_db_each(db, DF_ANY(c->reset, {"shards", df_int(s->reset & s->own)}), note_reset,
                          &written, err);
    if (code == DF_OK)
        code = lock_rows(db, s, err);
    if (code == DF_OK)
        code = show_sending(db, s, now, err);
    if (code == DF_OK)
        code = settle_sent(db, s, now, err);
    if (code == DF_OK)
        code = settle_others(db, s, DELIVERY_RETRY, now, err);
    if (code == DF_OK)
        code = settle_others(db, s, DELIVERY_DEFERRED, now, err);
    if (code == DF_OK)
        code = record_attempts(db, s, err);
    if (code == DF_OK)
        code = clear_marks(db, s, err);
    s->stale = 0;
    DF_LIST_EACH (r, &s->rows, link) {
        s->stale += r->lost;
        add_written(&written, r->id);
    }
    for (size_t i = 0; i < s->shown_count; i++)
        if (s->shown[i].id.ptr)
            add_written(&written, s->shown[i].id);
    return code == DF_OK ? mirror_rows(db, s, &written, now, err) : code;
}

/* For the series: rows that arrived, and tries that failed. Neighbours of one client together. */
static void tally_settled(const struct delivery_channel *ch, const struct df_list *rows)
{
    struct df_str channel = df_str_c(ch->c->name);
    struct df_str client = DF_STR_NULL;
    struct df_tallied n = {0};
    const struct delivery_row *r;

    DF_LIST_EACH (r, rows, link) {
        const struct df_delivery_request *q = &r->request;
        struct df_str whose = q->client_key.ptr ? q->client_key : q->tenant;
        if (r->stale || r->outcome == DELIVERY_DEFERRED)
            continue;
        if (n.delivered + n.failed > 0 && !df_str_eq(whose, client)) {
            df_tally(client, channel, &n);
            n = (struct df_tallied){0};
        }
        client = whose;
        n.delivered += r->outcome == DELIVERY_SENT;
        n.failed += r->outcome != DELIVERY_SENT;
    }
    if (n.delivered + n.failed > 0)
        df_tally(client, channel, &n);
}

static void log_stale(const struct delivery_channel *ch, size_t stale)
{
    struct df_log_field fields[] = {DF_F("channel", df_str_c(ch->c->name)), DF_FI("rows", stale)};

    if (stale > 0)
        df_log_write(DF_LOG_WARN, "DeliveryLeaseLost", fields, 2,
                     "rows were not settled: another process has them now");
}

/* Rows that a running claim may have read before they were settled stay in hand until it ends. */
static void let_go(struct delivery_channel *ch, struct df_list *settled, struct df_list *over)
    DF_REQUIRES(ch->d->lock)
{
    struct delivery_row *row;

    if (ch->is_claiming) {
        df_list_move(&ch->ghosts, settled);
        return;
    }
    DF_LIST_EACH (row, settled, link)
        delivery_held_remove(ch, row);
    df_list_move(over, settled);
}

static void free_rows(struct df_list *rows)
{
    struct delivery_row *row;

    while ((row = delivery_list_take(rows)))
        delivery_row_free(row);
}

/* What was to be shown as Sending is not. */
static void forget_shown(struct delivery_channel *ch) DF_REQUIRES(ch->d->lock)
{
    const struct delivery_settling *s = &ch->settling;

    for (size_t i = 0; i < s->shown_count; i++) {
        struct delivery_row *row =
            s->shown[i].id.ptr ? df_map_get(&ch->held_rows, s->shown[i].id) : NULL;
        if (row)
            row->shown = false;
    }
}

static void settle_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct delivery_settling *s = (struct delivery_settling *)job;
    struct delivery_channel *ch = s->channel;
    struct df_list over = {.count = 0};
    size_t stale = s->stale; /* the next job may run as soon as the lock is free */

    assert(ch->is_settling);
    if (code != DF_OK) { /* first, since the error is in the job, which is used again */
        struct df_log_field fields[] = {DF_F("channel", df_str_c(ch->c->name))};
        df_log_write(DF_LOG_ERROR, "DeliveryCycleFailed", fields, 1, "%s", err->detail);
    } else {
        tally_settled(ch, &s->rows);
        if (ch->c->committed)
            ch->c->committed(ch->c);
    }
    if (code == DF_OK && s->lost)
        df_shards_doubt(ch->shards, s->lost);
    df_lock(&ch->d->lock);
    if (code == DF_OK) {
        df_backoff_reset(&ch->settle_backoff);
        delivery_shards_leave(ch, s->reset);
        delivery_targets_settled(ch, &s->rows);
        delivery_plan_settled(ch, &s->rows);
        let_go(ch, &s->rows, &over);
    } else {
        ch->again_ms = delivery_mono_ms(ch->d) + df_backoff_more(&ch->settle_backoff);
        delivery_shards_leave(ch, ch->reset & s->reset); /* they were lost and taken once more */
        ch->reset |= s->reset;
        forget_shown(ch);
        /* Rows that came back meanwhile go behind; the order does not matter. */
        df_list_move(&s->rows, &ch->settled);
        df_list_move(&ch->settled, &s->rows);
    }
    df_metric_set(ch->in_flight, (double)delivery_held_sending(ch));
    ch->is_settling = false;
    pthread_cond_broadcast(&ch->d->changed); /* the engine, and df_delivery_stop */
    df_unlock(&ch->d->lock);
    if (code == DF_OK)
        log_stale(ch, stale);
    free_rows(&over);
}

/* --- planning --------------------------------------------------------------------------------- */

/* Rows that have been on their way for long, and are not shown so. */
static void collect_shown(struct df_delivery *d, struct delivery_channel *ch, int64_t now_ms)
    DF_REQUIRES(d->lock)
{
    struct delivery_settling *s = &ch->settling;
    struct delivery_row *row;

    (void)d;
    df_arena_reset(&s->shown_arena);
    s->shown = DF_ARENA_ARRAY(&s->shown_arena, struct delivery_shown, ch->held + 1);
    for (size_t at = 0; (row = df_map_next(&ch->held_rows, &at));) {
        if (row->sent_ms == 0 || row->shown || now_ms - row->sent_ms < SHOW_MS)
            continue;
        row->shown = true;
        s->shown[s->shown_count++] =
            (struct delivery_shown){.id = df_arena_str(&s->shown_arena, row->id),
                                    .version = row->version,
                                    .shard = row->shard,
                                    .epoch = row->epoch};
    }
}

bool delivery_settle_plan(struct df_delivery *d, struct delivery_channel *ch, int64_t now_ms)
{
    struct delivery_settling *s = &ch->settling;

    if (ch->is_settling || now_ms < delivery_settle_at(d, ch, now_ms))
        return false;
    s->shown_count = 0;
    if (now_ms >= ch->show_ms && ch->held > 0) {
        collect_shown(d, ch, now_ms);
        ch->show_ms = now_ms + SHOW_MS / 2;
    }
    if (ch->settled.count == 0 && s->shown_count == 0 && ch->reset == 0)
        return false;
    df_list_move(&s->rows, &ch->settled);
    s->reset = ch->reset;
    ch->reset = 0;
    ch->settled_ms = now_ms;
    ch->is_settling = true;
    return true;
}

int64_t delivery_settle_at(struct df_delivery *d, const struct delivery_channel *ch, int64_t now_ms)
{
    int64_t at_ms = INT64_MAX;

    if (ch->is_settling)
        return INT64_MAX;
    if (ch->settled.count > 0 || ch->reset)
        at_ms = !d->stopping && d->on_their_way >= GATHER_MANY ? ch->settled_ms + GATHER_MS : 0;
    if (ch->held > 0 && !d->stopping && ch->show_ms < at_ms)
        at_ms = ch->show_ms;
    if (ch->settle_backoff.now_ms > 0 && at_ms < ch->again_ms && now_ms < ch->again_ms)
        at_ms = ch->again_ms;
    return at_ms;
}

void delivery_settle_start(struct delivery_channel *ch)
{
    struct df_err err = DF_ERR_INIT;

    assert(ch->is_settling);
    ch->settling.job = (struct df_job){.run = settle_run, .done = settle_done};
    if (df_store_write(ch->d->opt.store, &ch->settling.job))
        return;
    ch->settling.stale = 0;
    df_err_set(&err, DF_E_BUSY, "the store's queue is full");
    settle_done(&ch->settling.job, DF_E_BUSY, &err);
}

void delivery_settle_rest(struct delivery_channel *ch)
{
    struct df_err err = DF_ERR_INIT;
    struct delivery_settling *s = &ch->settling;

    assert(!ch->is_settling && !ch->is_claiming);
    df_list_move(&s->rows, &ch->settled);
    s->shown_count = 0;
    s->reset = 0;
    s->job = (struct df_job){.run = settle_run};
    if (s->rows.count > 0 && df_store_write_wait(ch->d->opt.store, &s->job, &err) != DF_OK) {
        df_log_warn("DeliveryCycleFailed", "%s", err.detail);
    } else if (s->rows.count > 0) {
        tally_settled(ch, &s->rows);
        if (ch->c->committed)
            ch->c->committed(ch->c);
    }
    free_rows(&s->rows);
    free_rows(&ch->ready);
    free_rows(&ch->ghosts);
}
