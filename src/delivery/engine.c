/*
 * The engine's thread, and what happens to a row between its claim and its settlement.
 *
 * Who touches a row: the store's thread while its cycle runs, the engine's thread until it is
 * handed to the client, the client's thread until `done`, and then nobody until the next cycle. The
 * lists between them are under one lock, which is never held across a call to store or client.
 *
 *   claimed by a cycle -> ready -> (breaker, slots) -> client -> settled -> the next cycle
 */
#include "base/log.h"
#include "base/mem.h"
#include "delivery/attempts.sql.h"
#include "delivery/delivery_private.h"

#include <stdlib.h>

#define POLL_MS     1000
#define FIGURES_MS  5000
#define PRUNE_EVERY 12 /* of these */
#define PRUNE_MAX   2000
/* What an attempt came to is kept for so long. */
#define ATTEMPTS_KEPT_MS (INT64_C(30) * 24 * 3600 * 1000)
#define HELD_MAX         1024  /* rows of a channel claimed at the same time */
#define SHARE_MIN        4     /* of them for one destination */
#define SHARE_FIRST      16    /* of one that is not known yet */
#define SHARE_MAX        768   /* room is left for others */
#define DESTINATIONS     1024  /* buckets */
#define FORGOTTEN_MS     60000 /* a destination that nothing was sent to for so long */
#define CLAIM_MAX        512
#define PROBE_MAX        32  /* a claim beside a destination that is full */
#define STUCK_MS         100 /* a full one that nothing came back from for so long hangs */
#define PARK_MIN_MS      250 /* a row that its destination has no room for is put off for so long */
#define PARK_EACH_MS     2   /* and the next one for so much longer */
#define BACKOFF_MIN_MS   100
#define BACKOFF_MAX_MS   5000
#define ANSWER_MAX       4096

struct df_delivery {
    struct df_delivery_options opt;
    struct delivery_channel **channels;
    size_t channel_count;

    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping;
    bool quiet;         /* the thread has seen it: nothing more is handed to the client */
    bool abandon;       /* nor is anything waited for but cycles that run */
    int64_t figures_ms; /* monotonic: when waiting rows were last counted */
    uint64_t figures_taken;
    struct delivery_destination *destinations[DESTINATIONS];
};

static struct df_metric_family attempts_total = {
    .name = "dataflow_delivery_attempts_total",
    .help = "Deliveries by channel and outcome (sent, retry, error, deferred).",
    .type = DF_COUNTER,
    .labels = {"channel", "outcome"},
};
static struct df_metric_family duration_seconds = {
    .name = "dataflow_delivery_duration_seconds",
    .help = "Duration of attempts, from the engine's hand to the answer.",
    .type = DF_HISTOGRAM,
    DF_METRIC_SECONDS,
    .labels = {"channel"},
};
static struct df_metric_family in_flight_rows = {
    .name = "dataflow_delivery_in_flight",
    .help = "Rows claimed and not yet settled.",
    .type = DF_GAUGE,
    .labels = {"channel"},
};
static struct df_metric_family waiting_rows = {
    .name = "dataflow_delivery_waiting",
    .help = "Rows that are not settled for good.",
    .type = DF_GAUGE,
    .labels = {"channel"},
};
static struct df_metric_family oldest_seconds = {
    .name = "dataflow_delivery_oldest_seconds",
    .help = "Age of the oldest row that is not settled for good.",
    .type = DF_GAUGE,
    .labels = {"channel"},
};

static const char *const outcome_labels[DELIVERY_OUTCOMES] = {"sent", "retry", "error", "deferred"};

/* --- small things ----------------------------------------------------------------------------- */

void delivery_list_init(struct delivery_list *l)
{
    *l = (struct delivery_list){.tail = &l->head};
}

void delivery_list_add(struct delivery_list *l, struct delivery_row *row)
{
    row->next = NULL;
    *l->tail = row;
    l->tail = &row->next;
    l->count++;
}

struct delivery_row *delivery_list_take(struct delivery_list *l)
{
    struct delivery_row *row = l->head;
    if (!row)
        return NULL;
    l->head = row->next;
    l->count--;
    if (!l->head)
        l->tail = &l->head;
    row->next = NULL;
    return row;
}

void delivery_list_move(struct delivery_list *to, struct delivery_list *from)
{
    if (!from->head)
        return;
    *to->tail = from->head;
    to->tail = from->tail;
    to->count += from->count;
    delivery_list_init(from);
}

void delivery_row_free(struct delivery_row *row)
{
    df_arena_release(&row->arena);
    free(row);
}

struct df_str delivery_clean(struct df_arena *a, struct df_str text, size_t max_units)
{
    const char *nul = text.len > 0 ? memchr(text.ptr, '\0', text.len) : NULL;
    if (nul)
        text.len = (size_t)(nul - text.ptr);
    text.len = df_utf8_valid_prefix(text);
    return df_arena_str(a, df_utf8_cut(text, max_units));
}

int64_t delivery_now(const struct delivery_channel *ch)
{
    return df_wall_ms(ch->d->opt.clock);
}

int64_t delivery_lease(const struct delivery_channel *ch)
{
    return ch->d->opt.lease_ms;
}

static int64_t mono_ms(const struct df_delivery *d)
{
    return df_mono_ms(d->opt.clock);
}

/* --- destinations ----------------------------------------------------------------------------- */

/* Scheme, host and port: up to the slash behind them, without credentials. */
static struct df_str destination_key(const char *url)
{
    const char *scheme = strstr(url, "://");
    const char *host = scheme ? scheme + 3 : url;
    size_t len = strcspn(host, "/?#");
    const char *at = memrchr(host, '@', len);
    /* Credentials are for nobody to see: with them it is known by its host alone. */
    if (at)
        return df_str_n(at + 1, len - (size_t)(at + 1 - host));
    return df_str_n(url, (size_t)(host - url) + len);
}

/* What breaker and share go by. Absent: the row could not be built. */
static struct df_str key_of(const struct delivery_row *row)
{
    if (!row->request.url)
        return DF_STR_NULL;
    return row->request.breaker.ptr ? row->request.breaker : destination_key(row->request.url);
}

static struct delivery_destination **find_destination(struct df_delivery *d, struct df_str key)
{
    struct delivery_destination **at = &d->destinations[df_str_hash(key) % DESTINATIONS];

    while (*at && !df_str_eq(df_str_n((*at)->key, (*at)->key_len), key))
        at = &(*at)->next;
    return at;
}

/* Made when first asked for. Under the lock, as what follows. */
static struct delivery_destination *get_destination(struct df_delivery *d, struct df_str key)
{
    struct delivery_destination **at = find_destination(d, key);
    if (!*at) {
        *at = df_calloc(1, sizeof(**at) + key.len);
        (*at)->key_len = key.len;
        (*at)->share = SHARE_FIRST;
        (*at)->heard_ms = mono_ms(d);
        memcpy((*at)->key, key.ptr, key.len);
    }
    (*at)->used_ms = mono_ms(d);
    return *at;
}

/* A slot; NULL: the destination has its share. */
static struct delivery_destination *enter_destination(struct df_delivery *d, struct df_str key)
{
    struct delivery_destination *to = get_destination(d, key);
    if (to->in_flight >= to->share)
        return NULL;
    to->in_flight++;
    return to;
}

/* answered: some answer came, whatever it was. */
static void leave_destination(struct df_delivery *d, const struct delivery_row *row)
{
    struct delivery_destination *left = row->destination;
    bool answered = row->call.code == DF_OK;

    left->in_flight--;
    left->used_ms = left->heard_ms = mono_ms(d);
    if (answered && left->share < SHARE_MAX)
        left->share++;
    else if (!answered && row->call.code != DF_E_CANCELLED)
        left->share = left->share / 2 > SHARE_MIN ? left->share / 2 : SHARE_MIN;
}

/* How long a row is put off that the destination does not take now: one after the other, so that a
 * long backlog comes back at a rate that costs little. */
static int64_t park_ms(struct df_delivery *d, struct df_str key, int64_t least_ms)
{
    pthread_mutex_lock(&d->lock);
    struct delivery_destination *to = get_destination(d, key);
    int64_t now_ms = mono_ms(d);
    int64_t from_ms = now_ms + least_ms;
    if (to->parked_ms >= from_ms)
        from_ms = to->parked_ms + PARK_EACH_MS;
    to->parked_ms = from_ms;
    pthread_mutex_unlock(&d->lock);
    return from_ms - now_ms;
}

static void forget_destinations(struct df_delivery *d)
{
    int64_t before_ms = mono_ms(d) - FORGOTTEN_MS;

    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < DESTINATIONS; i++) {
        struct delivery_destination **at = &d->destinations[i];
        while (*at) {
            struct delivery_destination *old = *at;
            if (old->in_flight > 0 || old->used_ms > before_ms) {
                at = &old->next;
                continue;
            }
            *at = old->next;
            free(old);
        }
    }
    pthread_mutex_unlock(&d->lock);
}

/* --- the end of an attempt -------------------------------------------------------------------- */

static void note_outcome(const struct delivery_row *row)
{
    const struct delivery_channel *ch = row->channel;
    static const enum df_log_level levels[DELIVERY_OUTCOMES] = {DF_LOG_INFO, DF_LOG_WARN,
                                                                DF_LOG_ERROR, DF_LOG_DEBUG};
    static const char *const events[DELIVERY_OUTCOMES] = {"DeliverySent", "DeliveryRetry",
                                                          "DeliveryFailed", "DeliveryDeferred"};

    df_metric_add(ch->attempts[row->outcome], 1);
    if (row->tried)
        df_metric_observe(ch->duration, (double)row->call.duration_ms / 1e3);
    if (ch->c->failures && (row->outcome == DELIVERY_RETRY || row->outcome == DELIVERY_DEAD))
        df_metric_add(ch->c->failures, 1);
    if (!df_log_enabled(levels[row->outcome]))
        return;
    struct df_log_field fields[] = {
        DF_F("channel", df_str_c(ch->c->name)),
        DF_F("id", row->id),
        DF_FI("attempt", row->attempt),
        DF_F("destination", row->request.url ? destination_key(row->request.url) : DF_STR_NULL),
        DF_FI("status", row->call.status),
        DF_FI("durationMs", row->call.duration_ms),
        DF_F("correlationId", row->request.correlation_id),
        DF_F("clientId", row->request.client_id),
        DF_F("batchId", row->request.batch_id),
        DF_F("subscriptionId", row->request.subscription_id),
    };
    /* The answer's text may hold anybody's data: it stays in the database. */
    const char *own = row->outcome == DELIVERY_RETRY  ? ch->c->retry_event
                      : row->outcome == DELIVERY_DEAD ? ch->c->failed_event
                                                      : NULL;
    const char *event = own ? own : events[row->outcome];
    df_log_write(levels[row->outcome], event, fields, sizeof(fields) / sizeof(fields[0]), "%s",
                 row->tried && row->call.code != DF_OK ? row->call.err.detail : "");
}

/* The row waits for the next cycle. Any thread, without the lock. */
static void finish(struct delivery_row *row)
{
    struct delivery_channel *ch = row->channel;
    struct df_delivery *d = ch->d;

    note_outcome(row);
    pthread_mutex_lock(&d->lock);
    if (row->destination)
        leave_destination(d, row);
    row->destination = NULL;
    delivery_list_add(&ch->settled, row);
    if (!ch->running) /* else the cycle's end wakes the engine */
        pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

static void defer(struct delivery_row *row, int64_t delay_ms, const char *why)
{
    row->outcome = DELIVERY_DEFERRED;
    row->due_ms = delivery_now(row->channel) + (delay_ms > 0 ? delay_ms : 1);
    row->error = df_str_c(why);
    finish(row);
}

static void fail(struct delivery_row *row, bool again, int64_t retry_after_ms)
{
    const struct df_delivery *d = row->channel->d;
    const struct df_channel *c = row->channel->c;
    const struct df_retry_policy *p = c->schedule ? c->schedule : &d->opt.retry;

    row->outcome = again && !df_retry_exhausted(p, row->attempt) ? DELIVERY_RETRY : DELIVERY_DEAD;
    row->due_ms = delivery_now(row->channel) +
                  df_retry_delay_ms(p, row->attempt, retry_after_ms, d->opt.clock);
}

static void describe_failure(struct delivery_row *row)
{
    const struct df_call *call = &row->call;
    struct df_arena *a = &row->arena;

    if (call->code != DF_OK)
        row->error = delivery_clean(a, df_str_c(call->err.detail), DELIVERY_ERROR_UNITS);
    else
        row->error =
            delivery_clean(a,
                           df_arena_printf(a, "HTTP %u%s" DF_STR_FMT, call->status,
                                           row->answer.len ? ": " : "", DF_STR_ARG(row->answer)),
                           DELIVERY_ERROR_UNITS);
}

/* On the client's thread. */
static void answered(struct df_call *call)
{
    struct delivery_row *row = call->arg;
    struct df_delivery *d = row->channel->d;
    enum df_breaker_outcome verdict = DF_BREAKER_FAILURE;

    row->tried = true;
    row->answer = DF_STR_NULL;
    if (call->code == DF_OK && call->answer.len > 0)
        row->answer = delivery_clean(&row->arena, df_buf_str(&call->answer), DELIVERY_ANSWER_UNITS);
    if (call->code == DF_E_CANCELLED) {
        /* The server stops. Whether the peer has seen it is not known: it is sent again at once. */
        verdict = DF_BREAKER_IGNORED;
        row->tried = call->maybe_sent;
        row->outcome = row->tried ? DELIVERY_RETRY : DELIVERY_DEFERRED;
        row->due_ms = delivery_now(row->channel);
        row->error = DF_STR("the server stopped");
    } else if (call->code != DF_OK) {
        bool again = df_code_retry(call->code) != DF_RETRY_NEVER;
        verdict = again ? DF_BREAKER_FAILURE : DF_BREAKER_IGNORED;
        describe_failure(row);
        fail(row, again, -1);
    } else {
        const struct df_channel *c = row->channel->c;
        enum df_retry_class class = df_retry_class_of(call->status);
        verdict = class == DF_CLASS_RETRY ? DF_BREAKER_FAILURE : DF_BREAKER_SUCCESS;
        if (c->classify)
            class = c->classify(call->status);
        if (class == DF_CLASS_SUCCESS) {
            row->outcome = DELIVERY_SENT;
        } else {
            describe_failure(row);
            fail(row, class == DF_CLASS_RETRY, call->retry_after_ms);
        }
    }
    df_breaker_done(row->breaker, row->permit, verdict, call->duration_ms);
    df_breakers_put(d->opt.breakers, row->breaker);
    row->breaker = NULL;
    finish(row);
}

/* --- sending ---------------------------------------------------------------------------------- */

/* An attempt ends before its lease does: or somebody else would make the next meanwhile. */
static int64_t timeout_ms(const struct df_delivery *d, int64_t wanted_ms)
{
    int64_t most = d->opt.lease_ms * 3 / 4;
    int64_t timeout = wanted_ms > 0 ? wanted_ms : d->opt.timeout_ms;
    return timeout < most ? timeout : most;
}

/* Or it goes back. */
static void send_row(struct df_delivery *d, struct delivery_row *row)
{
    struct df_str key = key_of(row);
    int64_t wait_ms = 0;

    row->breaker = df_breakers_get(d->opt.breakers, key);
    if (!df_breaker_allow(row->breaker, &row->permit, &wait_ms)) {
        df_breakers_put(d->opt.breakers, row->breaker);
        row->breaker = NULL;
        defer(row, park_ms(d, key, wait_ms), "the circuit breaker of the destination is open");
        return;
    }
    pthread_mutex_lock(&d->lock);
    row->destination = enter_destination(d, key);
    pthread_mutex_unlock(&d->lock);
    if (!row->destination) {
        df_breaker_done(row->breaker, row->permit, DF_BREAKER_IGNORED, 0);
        df_breakers_put(d->opt.breakers, row->breaker);
        row->breaker = NULL;
        defer(row, park_ms(d, key, PARK_MIN_MS), "the destination has its share of the slots");
        return;
    }
    row->started_ms = delivery_now(row->channel);
    row->call = (struct df_call){
        .method = row->request.method ? row->request.method : "POST",
        .url = row->request.url,
        .headers = row->request.header_list ? row->request.header_list : row->request.headers,
        .header_count = row->request.header_count,
        .body = row->request.body,
        .timeout_ms = timeout_ms(d, row->request.timeout_ms),
        .max_answer_bytes = ANSWER_MAX,
        .allow_private = d->opt.allow_private || row->request.private_too,
        .done = answered,
        .arg = row,
    };
    df_http_client_send(d->opt.client, &row->call);
}

/* The one destination of all rows; NULL: they have several, or none. Allocated. */
static char *main_destination(const struct delivery_list *rows)
{
    struct df_str main = DF_STR_NULL;

    for (const struct delivery_row *r = rows->head; r; r = r->next) {
        struct df_str key = key_of(r);
        if (!key.ptr || (main.ptr && !df_str_eq(main, key)))
            return NULL;
        main = key;
    }
    return main.ptr ? df_strdup(main) : NULL;
}

/* Where the rows of a claim go decides how many the next one takes. */
static void note_destinations(struct delivery_channel *ch)
{
    const struct delivery_cycle *cy = &ch->cycle;
    if (cy->claimed.count == 0)
        return;
    char *main = main_destination(&cy->claimed);
    bool same = main && ch->main && strcmp(main, ch->main) == 0;
    if (cy->newest) {
        /* There may be more for others behind those that were found. */
        ch->woken = ch->woken || (!same && cy->claimed.count == cy->limit);
        free(main);
        return;
    }
    free(ch->main);
    ch->main = main;
    ch->several = !main;
}

static void send_ready(struct df_delivery *d, struct delivery_list *rows)
{
    struct delivery_row *row;

    while ((row = delivery_list_take(rows))) {
        if (row->request.url)
            send_row(d, row);
        else
            finish(row); /* it could not be built */
    }
}

/* --- cycles ----------------------------------------------------------------------------------- */

/* A cycle that claimed has asked for the next due row; one that only settled knows when its own
 * rows are due again, and they may be the next. */
static void plan_look(struct delivery_channel *ch)
{
    const struct delivery_cycle *cy = &ch->cycle;
    int64_t poll_ms = ch->d->opt.poll_ms;
    int64_t due_ms = cy->next_due_ms;

    for (const struct delivery_row *r = cy->limit > 0 ? NULL : cy->settle.head; r; r = r->next)
        if ((r->outcome == DELIVERY_RETRY || r->outcome == DELIVERY_DEFERRED) &&
            (due_ms < 0 || r->due_ms < due_ms))
            due_ms = r->due_ms;
    int64_t wait_ms = due_ms < 0 ? poll_ms : due_ms - delivery_now(ch);
    wait_ms = wait_ms < 0 ? 0 : wait_ms < poll_ms ? wait_ms : poll_ms;
    int64_t look_ms = mono_ms(ch->d) + wait_ms;
    if (cy->limit > 0 || look_ms < ch->look_ms)
        ch->look_ms = look_ms;
}

static void cycle_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct delivery_cycle *cy = (struct delivery_cycle *)job;
    struct delivery_channel *ch = cy->channel;
    struct df_delivery *d = ch->d;
    size_t stale = cy->stale; /* the next cycle may run as soon as the lock is free */
    struct delivery_list over;
    struct delivery_row *row;

    if (code != DF_OK) { /* first, since the error is in the job, which the next cycle uses again */
        struct df_log_field fields[] = {DF_F("channel", df_str_c(ch->c->name))};
        df_log_write(DF_LOG_ERROR, "DeliveryCycleFailed", fields, 1, "%s", err->detail);
    } else if (ch->c->committed) {
        ch->c->committed(ch->c);
    }
    delivery_list_init(&over);
    pthread_mutex_lock(&d->lock);
    if (code == DF_OK) {
        ch->held += cy->claimed.count;
        ch->held -= cy->settle.count;
        ch->backoff_ms = 0;
        note_destinations(ch);
        plan_look(ch);
        delivery_list_move(&ch->ready, &cy->claimed);
        delivery_list_move(&over, &cy->settle);
    } else {
        ch->backoff_ms = ch->backoff_ms ? ch->backoff_ms * 2 : BACKOFF_MIN_MS;
        if (ch->backoff_ms > BACKOFF_MAX_MS)
            ch->backoff_ms = BACKOFF_MAX_MS;
        ch->look_ms = mono_ms(d) + ch->backoff_ms;
        /* Those that wait come behind: the order does not matter. */
        delivery_list_move(&cy->settle, &ch->settled);
        delivery_list_move(&ch->settled, &cy->settle);
        delivery_list_move(&over, &cy->claimed); /* what was claimed was rolled back */
    }
    df_metric_set(ch->in_flight, (double)ch->held);
    ch->running = false;
    pthread_cond_broadcast(&d->changed); /* the engine, and who waits for its end */
    pthread_mutex_unlock(&d->lock);

    if (code == DF_OK && stale > 0) {
        struct df_log_field fields[] = {DF_F("channel", df_str_c(ch->c->name)),
                                        DF_FI("rows", stale)};
        df_log_write(
            DF_LOG_WARN, "DeliveryLeaseLost", fields, 2,
            "rows were settled late: somebody else has them, or a newer version was stored");
    }
    while ((row = delivery_list_take(&over)))
        delivery_row_free(row);
}

/*
 * How many rows to claim, and when: *ret_at_ms, for those that are due.
 *
 * Where all rows go to one destination, no more than it has room for. When it has none, new work is
 * looked at, the newest first, since it may be for another; and what is older is gone through too,
 * at once if the destination hangs, now and then if it only has much to do.
 */
static size_t plan_claim(struct df_delivery *d, const struct delivery_channel *ch, bool *ret_newest,
                         int64_t *ret_at_ms)
{
    size_t room = ch->held < HELD_MAX ? HELD_MAX - ch->held : 0;
    const struct delivery_destination *to =
        ch->main ? *find_destination(d, df_str_c(ch->main)) : NULL;
    size_t share = ch->several ? CLAIM_MAX : to ? to->share : SHARE_FIRST;
    size_t taken = to ? to->in_flight : 0;

    room = room < CLAIM_MAX ? room : CLAIM_MAX;
    *ret_newest = false;
    *ret_at_ms = ch->woken ? 0 : ch->look_ms;
    if (taken < share)
        return room < share - taken ? room : share - taken;
    if (ch->woken && ch->c->claim_newest) {
        *ret_newest = true;
    } else {
        int64_t probe_ms = to->heard_ms + STUCK_MS;
        probe_ms = probe_ms < ch->probe_ms ? probe_ms : ch->probe_ms;
        *ret_at_ms = ch->look_ms > probe_ms ? ch->look_ms : probe_ms;
    }
    return room < PROBE_MAX ? room : PROBE_MAX;
}

/* After a failed cycle. */
static bool is_backing_off(const struct delivery_channel *ch, int64_t now_ms)
{
    return ch->backoff_ms > 0 && now_ms < ch->look_ms;
}

/* Whether there is anything to do, and then what. Under the lock. */
static bool plan_cycle(struct df_delivery *d, struct delivery_channel *ch, int64_t now_ms)
{
    size_t limit = 0;
    int64_t at_ms = 0;

    if (ch->running || is_backing_off(ch, now_ms))
        return false;
    if (!d->stopping && !ch->c->missing)
        limit = plan_claim(d, ch, &ch->cycle.newest, &at_ms);
    if (now_ms < at_ms)
        limit = 0;
    if (limit == 0 && ch->settled.count == 0)
        return false;
    ch->cycle.limit = limit;
    delivery_list_move(&ch->cycle.settle, &ch->settled);
    if (limit > 0) {
        ch->woken = false;
        ch->probe_ms = now_ms + d->opt.poll_ms;
    }
    ch->running = true;
    return true;
}

static void start_cycle(struct delivery_channel *ch)
{
    struct df_err err = DF_ERR_INIT;

    ch->cycle.job = (struct df_job){.run = delivery_cycle_run, .done = cycle_done};
    if (df_store_write(ch->d->opt.store, &ch->cycle.job))
        return;
    df_err_set(&err, DF_E_BUSY, "the store's queue is full");
    cycle_done(&ch->cycle.job, DF_E_BUSY, &err);
}

/* When this channel has something to do by itself. */
static int64_t next_look(struct df_delivery *d, const struct delivery_channel *ch, int64_t now_ms)
{
    int64_t at_ms;
    bool newest;

    if (ch->running)
        return INT64_MAX;
    if (is_backing_off(ch, now_ms))
        return ch->look_ms;
    if (d->stopping || ch->c->missing)
        return INT64_MAX;
    /* Nothing, until something comes back. */
    return plan_claim(d, ch, &newest, &at_ms) > 0 ? at_ms : INT64_MAX;
}

/* --- figures ---------------------------------------------------------------------------------- */

struct figures {
    struct df_job job;
    struct delivery_channel *channel;
    int64_t rows;
    int64_t oldest_ms;
};

static enum df_code figures_run(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct figures *f = (struct figures *)job;
    struct df_result *r = NULL;
    enum df_code code = df_db_query(db, f->channel->c->waiting, DF_NO_PARAMS, &r, err);
    if (code != DF_OK)
        return code;
    code = df_result_step(r, err);
    if (code == DF_ROW) {
        f->rows = df_col_int(r, 0);
        f->oldest_ms = df_col_time(r, 1);
    }
    df_result_free(r);
    return code == DF_ROW ? DF_OK : code == DF_DONE ? DF_E_INTERNAL : code;
}

static void figures_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct figures *f = (struct figures *)job;
    (void)err; /* the store has told what is wrong with the database */

    if (code == DF_OK) {
        double age = f->rows > 0 && f->oldest_ms >= 0
                         ? (double)(delivery_now(f->channel) - f->oldest_ms) / 1e3
                         : 0;
        df_metric_set(f->channel->waiting, (double)f->rows);
        df_metric_set(f->channel->oldest, age > 0 ? age : 0);
    }
    free(f);
}

/* Old attempts, now and then. */
struct pruning {
    struct df_job job;
    struct df_value params[2];
};

static void pruning_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    if (code != DF_OK)
        df_log_warn("DeliveryCycleFailed", "%s", err->detail);
    free(job);
}

static void prune_attempts(struct df_delivery *d)
{
    struct pruning *p = df_calloc(1, sizeof(*p));

    p->params[0] = df_int(PRUNE_MAX);
    p->params[1] = df_time(df_wall_ms(d->opt.clock) - ATTEMPTS_KEPT_MS);
    p->job = (struct df_job){
        .query = &df_q_delivery_attempt_prune, .params = p->params, .done = pruning_done};
    if (!df_store_write(d->opt.store, &p->job))
        free(p);
}

static void take_figures(struct df_delivery *d)
{
    if (d->figures_taken++ % PRUNE_EVERY == 0)
        prune_attempts(d);
    forget_destinations(d);
    for (size_t i = 0; i < d->channel_count; i++) {
        if (!d->channels[i]->c->claim)
            continue;
        struct figures *f = df_calloc(1, sizeof(*f));
        *f = (struct figures){.job = {.run = figures_run, .done = figures_done},
                              .channel = d->channels[i]};
        if (!df_store_read(d->opt.store, &f->job))
            free(f);
    }
}

/* --- the thread ------------------------------------------------------------------------------- */

static bool is_idle(const struct df_delivery *d)
{
    for (size_t i = 0; i < d->channel_count; i++) {
        const struct delivery_channel *ch = d->channels[i];
        if (ch->running || (ch->held > 0 && !d->abandon))
            return false;
    }
    return true;
}

/* Sends what is ready and starts the cycles that are wanted; true: something was done. */
static bool work_once(struct df_delivery *d)
{
    bool worked = false;

    for (size_t i = 0; i < d->channel_count; i++) {
        struct delivery_channel *ch = d->channels[i];
        struct delivery_row *row;
        struct delivery_list ready;
        if (!ch->c->claim)
            continue;
        delivery_list_init(&ready);
        pthread_mutex_lock(&d->lock);
        delivery_list_move(&ready, &ch->ready);
        bool stopping = d->stopping;
        pthread_mutex_unlock(&d->lock);
        worked = worked || ready.count > 0;
        while (stopping && (row = delivery_list_take(&ready)))
            defer(row, 0, "the server stopped");
        /* Before the next claim, which takes as many as there is room for then. */
        send_ready(d, &ready);
        pthread_mutex_lock(&d->lock);
        bool cycle = plan_cycle(d, ch, mono_ms(d));
        pthread_mutex_unlock(&d->lock);
        worked = worked || cycle;
        if (cycle)
            start_cycle(ch);
    }
    return worked;
}

/* Until something comes back, is woken or is due. Under the lock; gives it up meanwhile. */
static void wait_for_work(struct df_delivery *d, int64_t now_ms)
{
    /* At the end no more figures are taken, and there is no time for them that could be over. */
    int64_t until_ms = d->stopping ? now_ms + FIGURES_MS : d->figures_ms + FIGURES_MS;
    bool ready = false;

    for (size_t i = 0; i < d->channel_count; i++) {
        const struct delivery_channel *ch = d->channels[i];
        if (!ch->c->claim)
            continue;
        int64_t at_ms = next_look(d, ch, now_ms);
        until_ms = at_ms < until_ms ? at_ms : until_ms;
        ready = ready || ch->ready.count > 0 ||
                (ch->settled.count > 0 && !ch->running && !is_backing_off(ch, now_ms));
    }
    if (!ready && until_ms > now_ms)
        df_cond_wait_ms(&d->changed, &d->lock, until_ms - now_ms);
}

static void *engine(void *arg)
{
    struct df_delivery *d = arg;

    for (;;) {
        while (work_once(d)) {
            /* until there is nothing left to start */
        }
        int64_t now_ms = mono_ms(d);
        pthread_mutex_lock(&d->lock);
        if (d->stopping && !d->quiet) {
            d->quiet = true;
            pthread_mutex_unlock(&d->lock);
            continue; /* once more, in case something was taken before */
        }
        if (d->stopping && is_idle(d)) {
            pthread_mutex_unlock(&d->lock);
            return NULL;
        }
        wait_for_work(d, now_ms);
        bool figures = mono_ms(d) - d->figures_ms >= FIGURES_MS && !d->stopping;
        if (figures)
            d->figures_ms = mono_ms(d);
        pthread_mutex_unlock(&d->lock);
        if (figures)
            take_figures(d);
    }
}

/* --- from outside ----------------------------------------------------------------------------- */

struct df_delivery *df_delivery_new(const struct df_delivery_options *opt)
{
    struct df_delivery *d = df_calloc(1, sizeof(*d));

    d->opt = *opt;
    if (d->opt.poll_ms <= 0)
        d->opt.poll_ms = POLL_MS;
    pthread_mutex_init(&d->lock, NULL);
    df_cond_init(&d->changed);
    return d;
}

static void make_metrics(struct delivery_channel *ch, struct df_str name)
{
    for (size_t i = 0; i < DELIVERY_OUTCOMES; i++)
        ch->attempts[i] = df_metric_get(&attempts_total,
                                        (const struct df_str[]){name, df_str_c(outcome_labels[i])});
    ch->duration = df_metric_get(&duration_seconds, &name);
    ch->in_flight = df_metric_get(&in_flight_rows, &name);
    ch->waiting = df_metric_get(&waiting_rows, &name);
    ch->oldest = df_metric_get(&oldest_seconds, &name);
}

void df_delivery_add(struct df_delivery *d, const struct df_channel *c)
{
    struct delivery_channel *ch = df_calloc(1, sizeof(*ch));
    struct df_str name = df_str_c(c->name);

    ch->c = c;
    ch->d = d;
    ch->woken = true;
    delivery_list_init(&ch->ready);
    delivery_list_init(&ch->settled);
    delivery_list_init(&ch->cycle.settle);
    delivery_list_init(&ch->cycle.claimed);
    df_arena_init(&ch->cycle.arena);
    ch->cycle.channel = ch;
    if (c->claim)
        make_metrics(ch, name);
    d->channels =
        df_realloc(d->channels, (d->channel_count + 1) * sizeof(struct delivery_channel *));
    d->channels[d->channel_count++] = ch;
    if (c->missing) {
        struct df_log_field fields[] = {DF_F("channel", name)};
        df_log_write(DF_LOG_WARN, "ChannelNotConfigured", fields, 1,
                     "%s is not set: rows of this channel wait until it is", c->missing);
    }
}

void df_delivery_start(struct df_delivery *d)
{
    d->figures_ms = mono_ms(d) - FIGURES_MS;
    if (pthread_create(&d->thread, NULL, engine, d) != 0)
        abort();
    pthread_setname_np(d->thread, "delivery");
    d->started = true;
}

void df_delivery_wake(struct df_delivery *d, const struct df_channel *c)
{
    if (c->wake)
        c->wake(c);
    if (!c->claim)
        return;
    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < d->channel_count; i++) {
        struct delivery_channel *ch = d->channels[i];
        if (ch->c == c && !ch->woken) {
            ch->woken = true;
            pthread_cond_broadcast(&d->changed);
        }
    }
    pthread_mutex_unlock(&d->lock);
}

void df_delivery_stop(struct df_delivery *d, int64_t drain_ms)
{
    if (!d || !d->started)
        return;
    int64_t until_ms = df_mono_ms(df_clock_real()) + drain_ms;
    pthread_mutex_lock(&d->lock);
    d->stopping = true;
    pthread_cond_broadcast(&d->changed);
    while (!d->quiet || !is_idle(d)) {
        int64_t left_ms = until_ms - df_mono_ms(df_clock_real());
        if (left_ms <= 0 && d->quiet)
            break;
        left_ms = left_ms > 1 ? left_ms : 1;
        df_cond_wait_ms(&d->changed, &d->lock, left_ms < 50 ? left_ms : 50);
    }
    pthread_mutex_unlock(&d->lock);
}

/* What came back after the thread had gone, or could not be settled before. */
static void settle_rest(struct delivery_channel *ch)
{
    struct df_err err = DF_ERR_INIT;
    struct delivery_cycle *cy = &ch->cycle;
    struct delivery_row *row;

    delivery_list_move(&cy->settle, &ch->settled);
    cy->limit = 0;
    cy->job = (struct df_job){.run = delivery_cycle_run};
    if (cy->settle.count > 0 && df_store_write_wait(ch->d->opt.store, &cy->job, &err) != DF_OK)
        df_log_warn("DeliveryCycleFailed", "%s", err.detail);
    else if (cy->settle.count > 0 && ch->c->committed)
        ch->c->committed(ch->c);
    while ((row = delivery_list_take(&cy->settle)) || (row = delivery_list_take(&ch->ready)))
        delivery_row_free(row);
}

void df_delivery_end(struct df_delivery *d)
{
    if (!d)
        return;
    if (d->started) {
        pthread_mutex_lock(&d->lock);
        d->stopping = d->abandon = true;
        pthread_cond_broadcast(&d->changed);
        pthread_mutex_unlock(&d->lock);
        pthread_join(d->thread, NULL);
        d->started = false;
    }
    for (size_t i = 0; i < d->channel_count; i++)
        settle_rest(d->channels[i]);
}

void df_delivery_free(struct df_delivery *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->channel_count; i++) {
        df_arena_release(&d->channels[i]->cycle.arena);
        free(d->channels[i]->main);
        free(d->channels[i]);
    }
    free(d->channels);
    for (size_t i = 0; i < DESTINATIONS; i++) {
        struct delivery_destination *to;
        while ((to = d->destinations[i])) {
            d->destinations[i] = to->next;
            free(to);
        }
    }
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

size_t df_delivery_channels(const struct df_delivery *d)
{
    return d->channel_count;
}

const struct df_channel *df_delivery_channel(const struct df_delivery *d, size_t i)
{
    return d->channels[i]->c;
}

const struct df_channel *df_delivery_find(const struct df_delivery *d, struct df_str name)
{
    for (size_t i = 0; i < d->channel_count; i++) {
        if (df_str_eq(df_str_c(d->channels[i]->c->name), name))
            return d->channels[i]->c;
    }
    return NULL;
}
