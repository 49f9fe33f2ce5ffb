/*
 * A worker: connects, claims a batch, sends it, marks it, commits; again. Its transaction is open
 * from the claim to the marks, so that nobody else takes the rows meanwhile and whatever ends the
 * process leaves them as they were.
 *
 *     PENDING --claim--> locked --confirmed--> PROCESSED
 *        ^                 |  '--attempts > max_retries, or refused for good--> FAILED
 *        '-----------------'  (failed: attempts + 1, not before next_attempt_at; not sent: nothing)
 *
 * Marks say PENDING -> x and nothing else, and are made by the transaction that holds the lock; so
 * an event is PROCESSED only if this very claim has seen it confirmed. What was confirmed and could
 * not be marked (the connection lost, the process killed) is sent again: at least once.
 *
 * SQLite has one writer for the whole file, so no transaction is open while events are on their
 * way; in its place a lock on a file beside the database lets one relay work at a time, on one
 * thread.
 *
 * With order=aggregate a claim takes events that are the first of their aggregate (heads), and what
 * follows them; a head that another relay holds is still PENDING for everybody else, so what
 * follows it is nobody's. Chains are sent in rounds: the first of each, then the second of those
 * whose first has arrived. A failure ends its chain.
 */
#include "base/mem.h"
#include "relay/relay.sql.h"
#include "relay/relay_private.h"
#include "store/notify.h"
#include "store/rows.h"
#include "json/write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#define ROOM_MIN       8
#define STAND_BY_MS    1000
#define RECHECK_MS     2000
#define COUNT_MS       10000
#define PAUSE_MAX_MS   1000 /* between looks at an open breaker */
#define IDLE_MS        1000 /* the longest a sink is left alone */
#define BACKOFF_MIN_MS 200
#define BACKOFF_MAX_MS 10000
#define CHAIN_MS       5000 /* of one transaction, for the rounds of its chains */
#define LIST_MAX       (64 << 20)

struct claimed {
    struct df_event e;
    struct claimed *next; /* of its aggregate, after it */
    struct df_breaker_permit permit;
    bool due;
    bool tail; /* somebody's `next` */
    enum relay_outcome outcome;
    int64_t delay_ms;
};

struct batch {
    struct claimed *rows;
    size_t count;
    size_t heads;
    bool full; /* there is more */
};

/* --- claiming --------------------------------------------------------------------------------- */

static void read_row(struct df_result *r, struct df_arena *a, struct claimed *c)
{
    struct df_str payload = df_arena_str(a, df_col_text(r, 2));

    *c = (struct claimed){
        .e = {.id = df_arena_str(a, df_col_text(r, 0)),
              .type = df_arena_str(a, df_col_text(r, 1)),
              .payload = payload.ptr ? payload : DF_STR("null"),
              .attempt = df_col_int(r, 3) + 1,
              .created_ms = df_col_null(r, 4) ? -1 : df_col_int(r, 4),
              .aggregate_type = df_arena_str(a, df_col_text(r, 5)),
              .aggregate_id = df_arena_str(a, df_col_text(r, 6)),
              .correlation_id = df_arena_str(a, df_col_text(r, 7)),
              .trace_id = df_arena_str(a, df_col_text(r, 8)),
              .span_id = df_arena_str(a, df_col_text(r, 9)),
              .retry_after_ms = -1},
        .due = df_col_int(r, 10) == 1,
        .outcome = RELAY_DEFERRED,
    };
    if (!c->e.type.ptr)
        c->e.type = DF_STR("");
}

static enum df_code read_rows(struct df_db *db, const struct relay_query *q,
                              const struct df_value *params, struct df_arena *a, size_t most,
                              struct batch *b, struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code = df_db_query(db, &q->q, params, q->q.param_count, &r, err);

    if (code != DF_OK)
        return code;
    while (b->count < most && (code = df_result_step(r, err)) == DF_ROW)
        read_row(r, a, &b->rows[b->count++]);
    df_result_free(r);
    return code == DF_ROW || code == DF_DONE || code == DF_OK ? DF_OK : code;
}

/* The ids of events that rest, for the claim to pass over; those whose time has come rest no more.
 */
static void list_resting(struct df_relay *r, struct df_buf *out)
{
    int64_t now_ms = df_mono_ms(r->opt.clock);
    size_t kept = 0;

    relay_list_open(r->dialect, out);
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->resting_count; i++) {
        if (r->resting[i].due_ms <= now_ms) {
            free(r->resting[i].id);
            continue;
        }
        relay_list_add(r->dialect, df_str_c(r->resting[i].id), out);
        r->resting[kept++] = r->resting[i];
    }
    r->resting_count = kept;
    pthread_mutex_unlock(&r->lock);
    relay_list_close(r->dialect, out);
}

static void rest(struct df_relay *r, struct df_str id, int64_t delay_ms)
{
    pthread_mutex_lock(&r->lock);
    if (!r->resting)
        r->resting = df_calloc(RELAY_RESTING, sizeof *r->resting);
    if (r->resting_count < RELAY_RESTING) /* more would mean that everything fails: the breaker */
        r->resting[r->resting_count++] = (struct relay_resting){
            .id = df_strdup(id), .due_ms = df_mono_ms(r->opt.clock) + delay_ms};
    pthread_mutex_unlock(&r->lock);
}

/* In the order of the statement's parameters, which the template decides. */
static void fill(const struct relay_query *q, struct df_value limit, struct df_value list,
                 struct df_value *params)
{
    for (size_t i = 0; i < q->q.param_count; i++)
        params[i] =
            strcmp(q->params[i], "limit") == 0 || strcmp(q->params[i], "each") == 0 ? limit : list;
}

static bool same_aggregate(const struct df_event *a, const struct df_event *b)
{
    return df_str_eq(a->aggregate_id, b->aggregate_id) &&
           df_str_eq(a->aggregate_type, b->aggregate_type);
}

/* What follows comes oldest first: each is hung behind the last of its aggregate. */
static void link_chains(struct batch *b)
{
    for (size_t i = b->heads; i < b->count; i++) {
        struct claimed *row = &b->rows[i];
        for (size_t h = 0; h < b->heads; h++) {
            struct claimed *last = &b->rows[h];
            if (!last->e.aggregate_id.ptr || !same_aggregate(&last->e, &row->e))
                continue;
            while (last->next)
                last = last->next;
            last->next = row;
            row->tail = true;
            break;
        }
    }
}

static enum df_code claim_followers(struct relay_worker *w, size_t limit, struct batch *b,
                                    struct df_err *err)
{
    const struct relay_query *q = &w->shape->sql.follow;
    struct df_value params[8];
    struct df_buf heads;
    struct df_json_out j;

    if (b->heads == 0 || limit / b->heads < 2)
        return DF_OK;
    df_buf_init(&heads, LIST_MAX);
    df_json_out_init(&j, &heads);
    df_json_open(&j, '[');
    for (size_t i = 0; i < b->heads; i++) {
        const struct df_event *e = &b->rows[i].e;
        if (!e->aggregate_id.ptr)
            continue;
        df_json_open(&j, '[');
        df_json_text(&j, e->aggregate_type);
        df_json_text(&j, e->aggregate_id);
        df_json_text(&j, e->id);
        df_json_close(&j, ']');
    }
    df_json_close(&j, ']');
    fill(q, df_int((int64_t)(limit / b->heads) - 1), df_text(df_buf_str(&heads)), params);
    enum df_code code = read_rows(w->db, q, params, &w->arena, limit, b, err);
    df_buf_release(&heads);
    link_chains(b);
    return code;
}

static enum df_code claim(struct relay_worker *w, size_t limit, struct batch *b, struct df_err *err)
{
    struct df_relay *r = w->relay;
    const struct relay_sql *sql = &w->shape->sql;
    struct df_value params[8];
    struct df_buf resting;

    *b = (struct batch){.rows = DF_ARENA_ARRAY(&w->arena, struct claimed, limit)};
    df_buf_init(&resting, LIST_MAX);
    if (!sql->has_due)
        list_resting(r, &resting);
    fill(&sql->claim, df_int((int64_t)limit), df_text(df_buf_str(&resting)), params);
    enum df_code code = read_rows(w->db, &sql->claim, params, &w->arena, limit, b, err);
    df_buf_release(&resting);
    b->heads = b->count;
    b->full = b->count == limit;
    if (code == DF_OK && sql->has_follow)
        code = claim_followers(w, limit, b, err);
    return code;
}

/* --- sending ---------------------------------------------------------------------------------- */

static bool stopping(struct df_relay *r)
{
    pthread_mutex_lock(&r->lock);
    bool yes = r->stopping;
    pthread_mutex_unlock(&r->lock);
    return yes;
}

/* More at a time while all goes well, less when the destination does not keep up. */
static void learn_room(struct df_relay *r, bool blamed)
{
    size_t most = (size_t)r->s->batch;

    pthread_mutex_lock(&r->lock);
    if (blamed)
        r->room = r->room / 2 > ROOM_MIN ? r->room / 2 : ROOM_MIN;
    else
        r->room *= 2;
    r->room = r->room > most ? most : r->room;
    pthread_mutex_unlock(&r->lock);
}

static void judge(struct df_relay *r, struct claimed *c)
{
    struct df_event *e = &c->e;
    enum df_breaker_outcome verdict = DF_BREAKER_SUCCESS;

    switch (e->outcome) {
    case DF_DISPATCHED:
        c->outcome = RELAY_PROCESSED;
        break;
    case DF_DISPATCH_PERMANENT:
        c->outcome = RELAY_FAILED;
        break;
    case DF_DISPATCH_RETRY:
    case DF_DISPATCH_NONE:
        verdict = e->blames_sink ? DF_BREAKER_FAILURE : DF_BREAKER_IGNORED;
        c->outcome = e->attempt > r->s->max_retries ? RELAY_FAILED : RELAY_RETRY;
        c->delay_ms = df_retry_delay_ms(&r->retry, e->attempt, e->retry_after_ms, r->opt.clock);
        break;
    }
    /* At the end calls are cut off: that says nothing, and the event is as it was. */
    if (c->outcome != RELAY_PROCESSED && stopping(r)) {
        c->outcome = RELAY_DEFERRED;
        verdict = DF_BREAKER_IGNORED;
    }
    df_breaker_done(r->breaker, c->permit, verdict, e->duration_ms);
}

/* Of `round`, what the breaker lets through; the rest of its chain stays where it is. */
static size_t permitted(struct df_relay *r, struct claimed **round, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t wait_ms;
        if (df_breaker_allow(r->breaker, &round[i]->permit, &wait_ms))
            round[kept++] = round[i];
    }
    return kept;
}

static void dispatch(struct relay_worker *w, struct batch *b)
{
    struct df_relay *r = w->relay;
    struct claimed **round = DF_ARENA_ARRAY(&w->arena, struct claimed *, b->count);
    struct df_event **events = DF_ARENA_ARRAY(&w->arena, struct df_event *, b->count);
    int64_t until_ms = df_mono_ms(r->opt.clock) + CHAIN_MS;
    bool blamed = false;
    size_t n = 0;

    for (size_t i = 0; i < b->count; i++) {
        if (!b->rows[i].tail && b->rows[i].due)
            round[n++] = &b->rows[i];
    }
    while ((n = permitted(r, round, n)) > 0) {
        for (size_t i = 0; i < n; i++)
            events[i] = &round[i]->e;
        r->dispatcher->dispatch(w->sink, events, n, &w->arena);
        size_t left = 0;
        for (size_t i = 0; i < n; i++) {
            struct claimed *next = round[i]->next;
            judge(r, round[i]);
            blamed =
                blamed || (round[i]->e.outcome == DF_DISPATCH_RETRY && round[i]->e.blames_sink);
            if (round[i]->outcome == RELAY_PROCESSED && next && next->due)
                round[left++] = next;
        }
        n = left;
        if (df_mono_ms(r->opt.clock) >= until_ms || stopping(r))
            break;
    }
    learn_room(r, blamed);
}

/* --- marking ---------------------------------------------------------------------------------- */

static struct df_str one_id(struct relay_worker *w, struct df_str id)
{
    struct df_buf b;

    df_buf_init(&b, LIST_MAX);
    relay_list_open(w->relay->dialect, &b);
    relay_list_add(w->relay->dialect, id, &b);
    relay_list_close(w->relay->dialect, &b);
    struct df_str text = df_arena_str(&w->arena, df_buf_str(&b));
    df_buf_release(&b);
    return text;
}

static enum df_code mark_failures(struct relay_worker *w, struct batch *b, enum relay_outcome which,
                                  const struct relay_query *q, struct df_err *err)
{
    const struct relay_sql *sql = &w->shape->sql;
    struct df_rows rows = df_rows_for(&w->arena, &q->q, b->count);

    for (size_t i = 0; i < b->count; i++) {
        struct claimed *c = &b->rows[i];
        if (c->outcome != which)
            continue;
        struct df_value params[8];
        for (size_t p = 0; p < q->q.param_count; p++) {
            if (strcmp(q->params[p], "id") == 0)
                params[p] = df_text(one_id(w, c->e.id));
            else if (strcmp(q->params[p], "delay") == 0)
                params[p] = df_int(c->delay_ms);
            else
                params[p] = df_text(df_utf8_cut(c->e.error, sql->error_units));
        }
        df_rows_add(&rows, params, q->q.param_count);
    }
    return df_rows_run(w->db, &rows, NULL, err);
}

static enum df_code mark(struct relay_worker *w, struct batch *b, struct df_err *err)
{
    const struct relay_sql *sql = &w->shape->sql;
    enum df_dialect d = w->relay->dialect;
    enum df_code code = DF_OK;
    struct df_buf ids;
    size_t n = 0;

    df_buf_init(&ids, LIST_MAX);
    relay_list_open(d, &ids);
    for (size_t i = 0; i < b->count; i++) {
        if (b->rows[i].outcome == RELAY_PROCESSED) {
            relay_list_add(d, b->rows[i].e.id, &ids);
            n++;
        }
    }
    relay_list_close(d, &ids);
    if (n > 0)
        code =
            df_db_exec(w->db, &sql->processed.q, DF_PARAMS(df_text(df_buf_str(&ids))), NULL, err);
    df_buf_release(&ids);
    if (code == DF_OK)
        code = mark_failures(w, b, RELAY_RETRY, &sql->retry, err);
    if (code == DF_OK)
        code = mark_failures(w, b, RELAY_FAILED, &sql->dead, err);
    return code;
}

/* --- telling ---------------------------------------------------------------------------------- */

static void tell_event(const struct df_relay *r, const struct claimed *c, enum df_log_level level,
                       const char *event)
{
    const struct df_event *e = &c->e;

    if (!df_log_enabled(level))
        return;
    struct df_log_field fields[] = {
        DF_F("relay", df_str_c(r->s->name)),  DF_F("eventId", e->id),
        DF_F("eventType", e->type),           DF_F("correlationId", e->correlation_id),
        DF_F("traceId", e->trace_id),         DF_F("aggregateType", e->aggregate_type),
        DF_F("aggregateId", e->aggregate_id), DF_FI("attempt", e->attempt),
        DF_FI("durationMs", e->duration_ms),
    };
    /* An answer's text may hold anybody's data: it stays in the table. */
    df_log_write(level, event, fields, sizeof fields / sizeof fields[0], "%s", "");
}

/* After the commit: now it is so. */
static void tell(struct df_relay *r, const struct batch *b, bool has_due)
{
    static const enum df_log_level levels[RELAY_OUTCOMES] = {DF_LOG_INFO, DF_LOG_WARN, DF_LOG_ERROR,
                                                             DF_LOG_DEBUG};
    static const char *const events[RELAY_OUTCOMES] = {"OutboxEventProcessed", "OutboxEventRetry",
                                                       "OutboxEventFailed", "OutboxEventDeferred"};
    int64_t counts[RELAY_OUTCOMES] = {0};

    for (size_t i = 0; i < b->count; i++) {
        const struct claimed *c = &b->rows[i];
        counts[c->outcome]++;
        if (c->outcome != RELAY_DEFERRED)
            df_metric_observe(r->duration, (double)c->e.duration_ms / 1e3);
        if (c->outcome == RELAY_RETRY && !has_due)
            rest(r, c->e.id, c->delay_ms);
        tell_event(r, c, levels[c->outcome], events[c->outcome]);
    }
    for (size_t i = 0; i < RELAY_OUTCOMES; i++)
        df_metric_add(r->attempts[i], (double)counts[i]);
    pthread_mutex_lock(&r->lock);
    r->status.dispatched += counts[RELAY_PROCESSED];
    r->status.retried += counts[RELAY_RETRY];
    r->status.given_up += counts[RELAY_FAILED];
    if (counts[RELAY_PROCESSED] > 0)
        r->status.last_dispatch_ms = df_wall_ms(r->opt.clock);
    pthread_mutex_unlock(&r->lock);
}

/* They have arrived, and the table does not say so: they will be sent again. */
static void tell_unmarked(struct df_relay *r, const struct batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        if (b->rows[i].outcome == RELAY_PROCESSED)
            tell_event(r, &b->rows[i], DF_LOG_WARN, "OutboxEventUnmarked");
    }
}

/* --- a batch ---------------------------------------------------------------------------------- */

static void set_in_hand(struct df_relay *r, bool yes)
{
    pthread_mutex_lock(&r->lock);
    r->in_hand += yes ? 1 : (size_t)-1;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

/* Claim, send, mark, commit. The breaker and retries are around the sending; the commit is made
 * once and either holds or does not. */
static enum df_code run_batch(struct relay_worker *w, size_t limit, struct batch *b,
                              struct df_err *err)
{
    struct df_relay *r = w->relay;
    bool locks = r->dialect != DF_SQLITE; /* else nothing may be held while events are sent */
    enum df_code code = DF_OK;

    df_arena_reset(&w->arena);
    *b = (struct batch){0};
    if (locks)
        code = df_db_begin(w->db, true, err);
    if (code == DF_OK)
        code = claim(w, limit, b, err);
    if (code == DF_OK && b->count > 0) {
        dispatch(w, b);
        if (!locks)
            code = df_db_begin(w->db, true, err);
        if (code == DF_OK)
            code = mark(w, b, err);
    }
    if (code == DF_OK && df_db_in_transaction(w->db))
        code = df_db_commit(w->db, err);
    if (code == DF_OK) {
        tell(r, b, w->shape->sql.has_due);
    } else {
        df_db_reset(w->db);
        tell_unmarked(r, b);
    }
    return code;
}

/* --- the table -------------------------------------------------------------------------------- */

/* Beside the database: gone with the process that holds it. */
static enum df_code take_file_lock(struct df_relay *r, bool *ret_taken, struct df_err *err)
{
    char path[4096];

    *ret_taken = r->lock_fd >= 0;
    if (*ret_taken)
        return DF_OK;
    int n = snprintf(path, sizeof path, "%s-relay-%s", r->s->url + strlen("sqlite:"), r->s->table);
    int fd = n < (int)sizeof path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0)
        return df_err_errno(err, "cannot open the lock file %s", path);
    *ret_taken = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (*ret_taken)
        r->lock_fd = fd;
    else
        close(fd);
    return DF_OK;
}

/* Where rows do not stay locked, one relay of a table works at a time; the others stand by. */
static enum df_code take_table(struct relay_worker *w, struct df_err *err)
{
    struct df_relay *r = w->relay;
    enum df_code code;

    if (r->dialect == DF_SQLITE) {
        code = take_file_lock(r, &w->owns_table, err);
    } else {
        int64_t got = 0;
        code = df_db_query_int(w->db, &df_q_relay_lock, DF_PARAMS(df_text(df_str_c(r->s->table))),
                               &got, err);
        w->owns_table = got == 1;
    }
    pthread_mutex_lock(&r->lock);
    r->status.standing_by = code == DF_OK && !w->owns_table;
    pthread_mutex_unlock(&r->lock);
    return code;
}

static void log_complaints(const struct df_relay *r, enum df_log_level level, const char *event,
                           struct df_str complaints)
{
    while (complaints.len > 0) {
        struct df_str line;
        complaints = df_str_cut(complaints, '\n', &line);
        struct df_log_field fields[] = {DF_F("relay", df_str_c(r->s->name))};
        df_log_write(level, event, fields, 1, DF_STR_FMT, DF_STR_ARG(line));
    }
}

/* The first worker looks at the table and makes the statements for it; the others wait for them. */
static enum df_code look_at_table(struct relay_worker *w, struct df_err *err)
{
    struct df_relay *r = w->relay;
    struct relay_table table;
    struct df_buf complaints;

    df_buf_init(&complaints, 64 << 10);
    enum df_code code = relay_check(w->db, r->s, &table, &complaints, err);
    if (code == DF_OK) {
        struct relay_shape *shape = df_calloc(1, sizeof *shape);
        relay_sql_make(r->s, &table, &shape->sql);
        shape->rows_lock = table.rows_lock;
        relay_table_release(&table);
        shape->users = 1;
        log_complaints(r, DF_LOG_WARN, "RelayIndexMissing", df_buf_str(&complaints));
        df_log_info("RelayStarted", "relay %s: %s from %s, dispatcher %s", r->s->name, r->s->table,
                    r->status.source, r->dispatcher->name);
        pthread_mutex_lock(&r->lock);
        r->shape = shape;
        r->status.running = true;
        relay_problem(r, "%s", "");
        pthread_cond_broadcast(&r->changed);
        pthread_mutex_unlock(&r->lock);
        df_metric_set(r->up, 1);
    } else if (code == DF_E_CONFIG) {
        struct df_str first;
        (void)df_str_cut(df_buf_str(&complaints), '\n', &first);
        pthread_mutex_lock(&r->lock);
        bool known = df_str_eq(first, df_str_c(r->status.problem));
        relay_problem(r, DF_STR_FMT, DF_STR_ARG(first));
        pthread_mutex_unlock(&r->lock);
        if (!known)
            log_complaints(r, DF_LOG_ERROR, "RelayTableWrong", df_buf_str(&complaints));
    }
    df_buf_release(&complaints);
    return code;
}

/* What the table is must be looked at afresh. */
static void forget_table(struct df_relay *r)
{
    pthread_mutex_lock(&r->lock);
    struct relay_shape *old = r->shape;
    r->shape = NULL;
    r->status.running = false;
    pthread_mutex_unlock(&r->lock);
    relay_shape_drop(old);
    df_metric_set(r->up, 0);
}

static void disconnect(struct relay_worker *w)
{
    df_db_close(w->db);
    w->db = NULL;
    w->owns_table = false;
    relay_shape_drop(w->shape);
    w->shape = NULL;
}

/* The statements that the relay has now; the worker's connection has prepared no others. */
static bool take_shape(struct relay_worker *w)
{
    struct df_relay *r = w->relay;

    pthread_mutex_lock(&r->lock);
    struct relay_shape *shape = r->shape;
    bool same = shape == w->shape;
    if (shape && !same && !w->shape) {
        atomic_fetch_add(&shape->users, 1);
        w->shape = shape;
        same = true;
    }
    pthread_mutex_unlock(&r->lock);
    return shape && same;
}

/* --- the loop --------------------------------------------------------------------------------- */

/* Until there may be something to do: a wake-up, a full claim of another, or the time is up. */
static void wait_ms(struct relay_worker *w, int64_t ms, bool wakes)
{
    struct df_relay *r = w->relay;
    int64_t until_ms = df_mono_ms(df_clock_real()) + ms;
    int64_t left_ms;

    pthread_mutex_lock(&r->lock);
    while (!r->stopping && (left_ms = until_ms - df_mono_ms(df_clock_real())) > 0) {
        if (wakes && w->index == 0 && r->woken)
            break;
        if (wakes && w->index > 0 && r->more > 0) {
            r->more--;
            break;
        }
        bool idle = r->dispatcher->idle && w->sink;
        (void)df_cond_wait_ms(&r->changed, &r->lock, idle && left_ms > IDLE_MS ? IDLE_MS : left_ms);
        if (idle) {
            pthread_mutex_unlock(&r->lock);
            r->dispatcher->idle(w->sink);
            pthread_mutex_lock(&r->lock);
        }
    }
    if (w->index == 0)
        r->woken = false;
    pthread_mutex_unlock(&r->lock);
}

static void failed(struct relay_worker *w, enum df_code code, const struct df_err *err)
{
    struct df_relay *r = w->relay;
    struct df_log_field fields[] = {DF_F("relay", df_str_c(r->s->name)),
                                    DF_F("code", df_str_c(df_code_name(code)))};

    if (!w->db || !df_db_alive(w->db) || df_code_retry(code) == DF_RETRY_NEVER)
        disconnect(w);
    if (df_code_retry(code) == DF_RETRY_NEVER && code != DF_E_CONFIG)
        forget_table(r); /* a column may be gone */
    if (code != DF_E_CONFIG) {
        df_log_write(DF_LOG_WARN, "RelaySourceFailed", fields, 2, "%s", err->detail);
        pthread_mutex_lock(&r->lock);
        relay_problem(r, "%s", err->detail);
        pthread_mutex_unlock(&r->lock);
    }
    w->backoff_ms = w->backoff_ms == 0                   ? BACKOFF_MIN_MS
                    : w->backoff_ms * 2 < BACKOFF_MAX_MS ? w->backoff_ms * 2
                                                         : BACKOFF_MAX_MS;
    wait_ms(w, code == DF_E_CONFIG ? RECHECK_MS : w->backoff_ms, false);
}

/* Connected, with statements that fit the table. False: it has waited, look again. */
static bool ready(struct relay_worker *w)
{
    struct df_relay *r = w->relay;
    struct df_err err = DF_ERR_INIT;
    enum df_code code;

    if (w->db && w->shape && take_shape(w)) {
        if (w->shape->rows_lock || w->owns_table)
            return true;
        if (w->index == 0 && (code = take_table(w, &err)) != DF_OK)
            failed(w, code, &err);
        else if (!w->owns_table)
            wait_ms(w, STAND_BY_MS, false);
        return w->owns_table;
    }
    if (w->shape)
        disconnect(w); /* it has prepared what is no more */
    if (!w->db && (code = relay_connect(r->s, &w->db, &err)) != DF_OK) {
        failed(w, code, &err);
        return false;
    }
    if (take_shape(w))
        return false; /* and now it can be used */
    if (w->index > 0) {
        wait_ms(w, STAND_BY_MS, false);
    } else if ((code = look_at_table(w, &err)) != DF_OK) {
        failed(w, code, &err);
    }
    return false;
}

/* How many rows to claim; 0: not before *ret_wait_ms. */
static size_t room(struct df_relay *r, int64_t *ret_wait_ms)
{
    struct df_breaker_snapshot s;

    df_breaker_snapshot(r->breaker, &s);
    pthread_mutex_lock(&r->lock);
    size_t n = r->room;
    pthread_mutex_unlock(&r->lock);
    switch (s.state) {
    case DF_BREAKER_CLOSED:
        break;
    case DF_BREAKER_OPEN:
        *ret_wait_ms = s.retry_ms;
        if (s.retry_ms > 0)
            return 0;
        n = n < (size_t)s.window ? n : (size_t)s.window;
        break;
    case DF_BREAKER_HALF_OPEN: /* its window: the probes */
        n = n < (size_t)s.window ? n : (size_t)s.window;
        break;
    }
    return n > 0 ? n : 1;
}

static void count_waiting(struct relay_worker *w)
{
    struct df_relay *r = w->relay;
    int64_t now_ms = df_mono_ms(r->opt.clock);
    int64_t rows = 0;
    int64_t oldest_ms = -1;
    struct df_err err = DF_ERR_INIT;

    pthread_mutex_lock(&r->lock);
    bool due = r->counted_ms == 0 || now_ms - r->counted_ms >= COUNT_MS;
    if (due)
        r->counted_ms = now_ms;
    pthread_mutex_unlock(&r->lock);
    if (!due || relay_count(w->db, &w->shape->sql.waiting, &rows, &oldest_ms, &err) != DF_OK)
        return; /* a claim will find out what is wrong */
    pthread_mutex_lock(&r->lock);
    r->status.waiting = rows;
    r->status.oldest_ms = oldest_ms;
    pthread_mutex_unlock(&r->lock);
    double age = oldest_ms < 0 ? 0 : (double)(df_wall_ms(r->opt.clock) - oldest_ms) / 1e3;
    df_metric_set(r->waiting, (double)rows);
    df_metric_set(r->oldest, age > 0 ? age : 0);
}

/* Somebody else is wanted too, if there is somebody. */
static void call_another(struct df_relay *r)
{
    pthread_mutex_lock(&r->lock);
    if (r->more + 1 < r->worker_count) {
        r->more++;
        pthread_cond_broadcast(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
}

/* One turn; the worker waits where there is nothing to do. */
static void turn(struct relay_worker *w)
{
    struct df_relay *r = w->relay;
    struct df_err err = DF_ERR_INIT;
    struct batch b;
    int64_t pause_ms = r->s->poll_ms;

    if (!ready(w))
        return;
    if (w->index == 0)
        count_waiting(w);
    size_t limit = room(r, &pause_ms);
    if (limit == 0) {
        wait_ms(w, pause_ms < PAUSE_MAX_MS ? pause_ms : PAUSE_MAX_MS, false);
        return;
    }
    set_in_hand(r, true);
    enum df_code code = run_batch(w, limit, &b, &err);
    set_in_hand(r, false);
    if (code != DF_OK) {
        failed(w, code, &err);
        return;
    }
    w->backoff_ms = 0;
    if (b.full && limit == (size_t)r->s->batch)
        call_another(r);
    /* With chains, what came behind a head may be due next. */
    if (!b.full && !(w->shape->sql.has_follow && b.count > 0))
        wait_ms(w, w->index == 0 ? r->s->poll_ms : INT32_MAX, true);
}

static bool open_sink(struct relay_worker *w)
{
    struct df_relay *r = w->relay;
    struct df_err err = DF_ERR_INIT;

    if (r->dispatcher->open(&r->sink_options, &w->sink, &err) == DF_OK)
        return true;
    struct df_log_field fields[] = {DF_F("relay", df_str_c(r->s->name))};
    df_log_write(DF_LOG_ERROR, "RelayDispatcherFailed", fields, 1, "%s", err.detail);
    pthread_mutex_lock(&r->lock);
    relay_problem(r, "%s", err.detail);
    pthread_mutex_unlock(&r->lock);
    return false;
}

void *relay_work(void *arg)
{
    struct relay_worker *w = arg;

    df_arena_init(&w->arena);
    while (!stopping(w->relay)) {
        if (w->sink || open_sink(w))
            turn(w);
        else
            wait_ms(w, RECHECK_MS, false);
    }
    disconnect(w);
    if (w->sink)
        w->relay->dispatcher->close(w->sink);
    df_arena_release(&w->arena);
    return NULL;
}
