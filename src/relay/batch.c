/*
 * A batch: claimed, sent, marked, committed. The transaction is open from the claim to the marks,
 * so that nobody else takes the rows meanwhile and whatever ends the process leaves them as they
 * were.
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
 * thread (worker.c).
 *
 * With order=aggregate a claim takes events that are the first of their aggregate (heads), and what
 * follows them; a head that another relay holds is still PENDING for everybody else, so what
 * follows it is nobody's. Chains are sent in rounds: the first of each, then the second of those
 * whose first has arrived. A failure ends its chain.
 *
 * Memory. The table is another application's, and so are the sizes of its payloads. A claim brings
 * along only what is short (INLINE_BYTES together, however many rows); longer payloads are fetched
 * as far as BATCH_BYTES go, or one, and as far as all relays of the process together have not more
 * than PROCESS_BYTES of them in hand. Rows for which there is no room are not taken. A payload over
 * max_payload_bytes is not fetched: its event is FAILED.
 */
#include "base/mem.h"
#include "relay/relay_private.h"
#include "store/rows.h"
#include "json/write.h"

#include <stdatomic.h>
#include <stdlib.h>

#define INLINE_BYTES  (2 << 20)
#define INLINE_MAX    (8 << 10) /* of one */
#define BATCH_BYTES   ((size_t)8 << 20)
#define PROCESS_BYTES ((size_t)32 << 20)

#define ROOM_MIN      8
#define CHAIN_MS      5000 /* of one transaction, for the rounds of its chains */
#define LIST_MAX      (64 << 20)
/* What is due again, or was committed later than its created_at says, waits so much longer at most
 * while there is a backlog. */
#define FROM_START_MS 500
#define FULL_MS       2000 /* the same, of what stands behind a thousand others that wait */

struct relay_claimed {
    struct df_event e;
    struct relay_claimed *next; /* of its aggregate, after it */
    struct df_breaker_permit permit;
    bool due;
    bool tail;    /* somebody's `next` */
    bool fetched; /* its payload is there; NULL is one too */
    int64_t size; /* of the payload */
    enum relay_outcome outcome;
    int64_t delay_ms;
};

/* --- claiming --------------------------------------------------------------------------------- */

struct claiming {
    struct df_arena *arena;
    struct relay_batch *batch;
    size_t most;
};

static void read_claimed(void *arg, struct df_result *r)
{
    const struct claiming *claim = arg;
    struct df_arena *a = claim->arena;

    if (claim->batch->count == claim->most)
        return;
    struct relay_claimed *c = &claim->batch->rows[claim->batch->count++];
    *c = (struct relay_claimed){
        .e = {.id = df_arena_str(a, df_col_text(r, RELAY_AT_ID)),
              .type = df_arena_str(a, df_col_text(r, RELAY_AT_EVENT_TYPE)),
              .payload = df_arena_str(a, df_col_text(r, RELAY_AT_PAYLOAD)),
              .attempt = df_col_int(r, RELAY_AT_ATTEMPTS) + 1,
              .created_ms = df_col_null(r, RELAY_AT_CREATED) ? -1 : df_col_int(r, RELAY_AT_CREATED),
              .aggregate_type = df_arena_str(a, df_col_text(r, RELAY_AT_AGGREGATE_TYPE)),
              .aggregate_id = df_arena_str(a, df_col_text(r, RELAY_AT_AGGREGATE_ID)),
              .correlation_id = df_arena_str(a, df_col_text(r, RELAY_AT_CORRELATION_ID)),
              .trace_id = df_arena_str(a, df_col_text(r, RELAY_AT_TRACE_ID)),
              .span_id = df_arena_str(a, df_col_text(r, RELAY_AT_SPAN_ID)),
              .retry_after_ms = -1},
        .due = df_col_int(r, RELAY_AT_DUE) == 1,
        .fetched = df_col_null(r, RELAY_AT_SIZE) || !df_col_null(r, RELAY_AT_PAYLOAD),
        .size = df_col_int(r, RELAY_AT_SIZE),
        .outcome = RELAY_DEFERRED,
    };
    if (!c->e.type.ptr)
        c->e.type = DF_STR("");
}

/* The ids of events that rest, for the claim to pass over; those whose time has come rest no more.
 */
static void list_resting(struct df_relay *r, struct df_buf *out)
{
    int64_t now_ms = df_mono_ms(r->opt.clock);
    size_t kept = 0;

    relay_list_open(r->dialect, out);
    df_lock(&r->lock);
    for (size_t i = 0; i < r->resting_count; i++) {
        if (r->resting[i].due_ms <= now_ms) {
            free(r->resting[i].id);
            continue;
        }
        relay_list_add(r->dialect, df_str_c(r->resting[i].id), out);
        r->resting[kept++] = r->resting[i];
    }
    r->resting_count = kept;
    df_unlock(&r->lock);
    relay_list_close(r->dialect, out);
}

static void rest(struct df_relay *r, struct df_str id, int64_t delay_ms)
{
    df_lock(&r->lock);
    if (!r->resting)
        r->resting = df_calloc(RELAY_RESTING, sizeof *r->resting);
    if (r->resting_count < RELAY_RESTING) /* more would mean that everything fails: the breaker */
        r->resting[r->resting_count++] = (struct relay_resting){
            .id = df_strdup(id), .due_ms = df_mono_ms(r->opt.clock) + delay_ms};
    df_unlock(&r->lock);
}

/* How long a payload may be that comes along with so many. */
static struct df_value inline_bytes(size_t rows)
{
    size_t room = INLINE_BYTES / (rows ? rows : 1);
    return df_int((int64_t)(room < INLINE_MAX ? room : INLINE_MAX));
}

/*
 * Where the next claim begins: after the last row that was taken, so that it reads neither what is
 * done nor what other workers hold; every now and then, and when nothing more was there, at the
 * start.
 */
static struct df_str begins_after(struct relay_worker *w)
{
    struct df_relay *r = w->relay;
    int64_t now_ms = df_mono_ms(r->opt.clock);
    struct df_str after = DF_STR_NULL;

    df_lock(&r->lock);
    if (r->after && w->shape->sql.has_beyond && now_ms - r->from_start_ms < FROM_START_MS)
        after = df_arena_str(&w->arena, df_str_c(r->after));
    else
        r->from_start_ms = now_ms;
    df_unlock(&r->lock);
    return after;
}

static void ends_at(struct df_relay *r, const struct relay_batch *b)
{
    char *last = b->full && b->heads > 0 ? df_strdup(b->rows[b->heads - 1].e.id) : NULL;

    df_lock(&r->lock);
    free(r->after);
    r->after = last;
    df_unlock(&r->lock);
}

static bool same_aggregate(const struct df_event *a, const struct df_event *b)
{
    return df_str_eq(a->aggregate_id, b->aggregate_id) &&
           df_str_eq(a->aggregate_type, b->aggregate_type);
}

/* What follows comes oldest first: each is hung behind the last of its aggregate. */
static void link_chains(struct relay_batch *b)
{
    for (size_t i = b->heads; i < b->count; i++) {
        struct relay_claimed *row = &b->rows[i];
        for (size_t h = 0; h < b->heads; h++) {
            struct relay_claimed *last = &b->rows[h];
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

static enum df_code claim_followers(struct relay_worker *w, size_t limit, struct relay_batch *b,
                                    struct df_err *err)
{
    const struct df_query *q = &w->shape->sql.follow.q;
    struct df_buf heads;
    struct df_json_out j;

    if (b->heads == 0 || limit / b->heads < 2)
        return DF_OK;
    int64_t each = (int64_t)(limit / b->heads) - 1;

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
    enum df_code code = df_db_each(w->db,
                                   DF_ANY(q, {"heads", df_text(df_buf_str(&heads))},
                                          {"each", df_int(each)}, {"inline", inline_bytes(limit)}),
                                   read_claimed, &(struct claiming){&w->arena, b, limit}, err);
    df_buf_release(&heads);
    return code;
}

/*
 * With order=aggregate the oldest rows are looked at first, which is quick however long the
 * backlog. All of it every now and then, since what is old may wait for a retry, and when nothing
 * was found among them; but not again soon if it was in vain: others have what there is in hand.
 */
static bool look_at_all(struct df_relay *r, bool nothing_near)
{
    int64_t now_ms = df_mono_ms(r->opt.clock);

    df_lock(&r->lock);
    bool yes =
        r->full_ms == 0 || now_ms - r->full_ms >= FULL_MS || (nothing_near && !r->full_in_vain);
    if (yes)
        r->full_ms = now_ms;
    df_unlock(&r->lock);
    return yes;
}

static enum df_code claim_by(struct relay_worker *w, const struct relay_query *q, size_t limit,
                             struct df_str resting, struct df_str after, struct relay_batch *b,
                             struct df_err *err)
{
    return df_db_each(w->db,
                      DF_ANY(&q->q, {"limit", df_int((int64_t)limit)},
                             {"resting", df_text(resting)}, {"after", df_text(after)},
                             {"inline", inline_bytes(limit)}),
                      read_claimed, &(struct claiming){&w->arena, b, limit}, err);
}

static enum df_code claim_heads(struct relay_worker *w, size_t limit, struct df_str resting,
                                struct relay_batch *b, struct df_err *err)
{
    struct df_relay *r = w->relay;
    const struct relay_sql *sql = &w->shape->sql;
    struct df_str after = begins_after(w);
    enum df_code code = DF_OK;

    b->beyond = after.ptr;
    if (after.ptr)
        return claim_by(w, &sql->beyond, limit, resting, after, b, err);
    bool all = !sql->has_near || look_at_all(r, false);
    if (!all) {
        code = claim_by(w, &sql->near, limit, resting, DF_STR_NULL, b, err);
        all = code == DF_OK && b->count == 0 && look_at_all(r, true);
    }
    if (!all)
        return code;
    code = claim_by(w, &sql->claim, limit, resting, DF_STR_NULL, b, err);
    df_lock(&r->lock);
    r->full_in_vain = b->count == 0;
    df_unlock(&r->lock);
    return code;
}

/* --- payloads that did not come along ----------------------------------------------------------
 */

/* Of all batches in hand in this process. */
static atomic_size_t bytes_in_hand;

/* One that is larger than all that may be in hand is taken when nothing else is. */
static bool reserve(struct relay_batch *b, size_t bytes)
{
    size_t others = atomic_load(&bytes_in_hand);

    do {
        if (others > 0 && bytes + others > PROCESS_BYTES)
            return false;
    } while (!atomic_compare_exchange_weak(&bytes_in_hand, &others, others + bytes));
    b->bytes += bytes;
    return true;
}

static void release(struct relay_batch *b)
{
    atomic_fetch_sub(&bytes_in_hand, b->bytes);
    b->bytes = 0;
}

static int64_t max_payload(const struct df_relay *r)
{
    return r->s->max_payload_bytes > 0 ? r->s->max_payload_bytes : DF_RELAY_PAYLOAD_MAX;
}

static void refuse_payload(struct relay_worker *w, struct relay_claimed *c)
{
    c->outcome = RELAY_FAILED;
    c->e.error = df_arena_printf(&w->arena, "the payload has %lld bytes, at most %lld are sent",
                                 (long long)c->size, (long long)max_payload(w->relay));
}

/* So many rows are as much as fits: to look at many more would be in vain, and not cheap. */
static void learn_size(struct df_relay *r, size_t rows)
{
    df_lock(&r->lock);
    r->room = rows * 2 > ROOM_MIN ? rows * 2 : ROOM_MIN;
    df_unlock(&r->lock);
}

/* Rows up to the first for whose payload there is no room. */
static void cut_to_room(struct relay_worker *w, struct relay_batch *b)
{
    size_t n = 0;

    for (; n < b->count; n++) {
        struct relay_claimed *c = &b->rows[n];
        size_t size = (size_t)c->size;
        if (c->fetched)
            continue;
        if (c->size > max_payload(w->relay))
            refuse_payload(w, c);
        else if ((b->bytes > 0 && b->bytes + size > BATCH_BYTES) || !reserve(b, size))
            break;
    }
    if (n < b->count)
        learn_size(w->relay, n);
    b->cut = n < b->count;
    b->full = b->full || b->cut;
    b->waits = n == 0 && b->count > 0;
    b->count = n;
    b->heads = b->heads < n ? b->heads : n;
}

static int compare_ids(const void *a, const void *b)
{
    const struct relay_claimed *const *x = a, *const *y = b;
    struct df_str s = (*x)->e.id, t = (*y)->e.id;
    int order = memcmp(s.ptr, t.ptr, s.len < t.len ? s.len : t.len);
    return order ? order : (s.len > t.len) - (s.len < t.len);
}

struct fetching {
    struct df_arena *arena;
    struct relay_claimed **by_id; /* in order */
    size_t count;
};

/* An id that is not unique has the payload of one of its rows. */
static void read_payload(void *arg, struct df_result *r)
{
    const struct fetching *f = arg;
    struct relay_claimed like = {.e = {.id = df_col_text(r, RELAY_AT_PAYLOADS_ID)}};
    struct relay_claimed *key = &like;
    struct relay_claimed **found =
        bsearch(&key, f->by_id, f->count, sizeof(struct relay_claimed *), compare_ids);

    if (!found)
        return;
    struct df_str payload = df_arena_str(f->arena, df_col_text(r, RELAY_AT_PAYLOADS_PAYLOAD));
    while (found > f->by_id && compare_ids(&found[-1], &key) == 0)
        found--;
    for (; found < f->by_id + f->count && compare_ids(found, &key) == 0; found++) {
        (*found)->e.payload = payload;
        (*found)->fetched = true;
    }
}

static enum df_code fetch_payloads(struct relay_worker *w, struct relay_batch *b,
                                   struct df_err *err)
{
    struct fetching f = {&w->arena, DF_ARENA_ARRAY(&w->arena, struct relay_claimed *, b->count), 0};
    enum df_dialect d = w->relay->dialect;
    enum df_code code = DF_OK;
    struct df_buf ids;

    df_buf_init(&ids, LIST_MAX);
    relay_list_open(d, &ids);
    for (size_t i = 0; i < b->count; i++) {
        struct relay_claimed *c = &b->rows[i];
        if (c->fetched || c->outcome == RELAY_FAILED)
            continue;
        f.by_id[f.count++] = c;
        relay_list_add(d, c->e.id, &ids);
    }
    relay_list_close(d, &ids);
    qsort(f.by_id, f.count, sizeof(struct relay_claimed *), compare_ids);
    if (f.count > 0)
        code =
            df_db_each(w->db, DF_ANY(&w->shape->sql.payloads.q, {"ids", df_text(df_buf_str(&ids))}),
                       read_payload, &f, err);
    df_buf_release(&ids);
    return code;
}

static enum df_code claim(struct relay_worker *w, size_t limit, struct relay_batch *b,
                          struct df_err *err)
{
    struct df_relay *r = w->relay;
    const struct relay_sql *sql = &w->shape->sql;
    struct df_buf resting;

    *b = (struct relay_batch){.rows = DF_ARENA_ARRAY(&w->arena, struct relay_claimed, limit)};
    df_buf_init(&resting, LIST_MAX);
    if (!sql->has_due)
        list_resting(r, &resting);
    enum df_code code = claim_heads(w, limit, df_buf_str(&resting), b, err);
    df_buf_release(&resting);
    b->heads = b->count;
    b->full = b->count == limit;
    if (code == DF_OK && sql->has_follow)
        code = claim_followers(w, limit, b, err);
    cut_to_room(w, b);
    ends_at(r, b);
    if (code == DF_OK)
        code = fetch_payloads(w, b, err);
    link_chains(b);
    return code;
}

/* --- sending ---------------------------------------------------------------------------------- */

bool relay_stopping(struct df_relay *r)
{
    df_lock(&r->lock);
    bool yes = r->stopping;
    df_unlock(&r->lock);
    return yes;
}

/* More at a time while all goes well, less when the destination does not keep up. */
static void learn_room(struct df_relay *r, const struct relay_batch *b, bool blamed)
{
    size_t most = (size_t)r->s->batch;

    df_lock(&r->lock);
    if (blamed)
        r->room = r->room / 2 > ROOM_MIN ? r->room / 2 : ROOM_MIN;
    else if (!b->cut)
        r->room *= 2;
    r->room = r->room > most ? most : r->room;
    df_unlock(&r->lock);
}

static void judge(struct df_relay *r, struct relay_claimed *c)
{
    struct df_event *e = &c->e;
    enum df_breaker_outcome verdict = e->breaker;

    switch (e->outcome) {
    case DF_DISPATCHED:
        c->outcome = RELAY_PROCESSED;
        break;
    case DF_DISPATCH_PERMANENT:
        c->outcome = RELAY_FAILED;
        break;
    case DF_DISPATCH_NONE:
        verdict = DF_BREAKER_IGNORED;
        __attribute__((fallthrough));
    case DF_DISPATCH_RETRY:
        c->outcome = e->attempt > r->s->max_retries ? RELAY_FAILED : RELAY_RETRY;
        c->delay_ms = df_retry_delay_ms(&r->retry, e->attempt, e->retry_after_ms, r->opt.clock);
        break;
    }
    /* At the end calls are cut off: that says nothing, and the event is as it was. */
    if (c->outcome != RELAY_PROCESSED && relay_stopping(r)) {
        c->outcome = RELAY_DEFERRED;
        verdict = DF_BREAKER_IGNORED;
    }
    df_breaker_done(r->breaker, c->permit, verdict, e->duration_ms);
}

/* Of `round`, what the breaker lets through; the rest of its chain stays where it is. */
static size_t permitted(struct df_relay *r, struct relay_claimed **round, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t wait_ms;
        if (df_breaker_allow(r->breaker, &round[i]->permit, &wait_ms))
            round[kept++] = round[i];
    }
    return kept;
}

/* Not what waits for its time, was given up already, or is gone from the table. */
static bool may_go(const struct relay_claimed *c)
{
    return c->due && c->fetched && c->outcome == RELAY_DEFERRED;
}

static void dispatch(struct relay_worker *w, struct relay_batch *b)
{
    struct df_relay *r = w->relay;
    struct relay_claimed **round = DF_ARENA_ARRAY(&w->arena, struct relay_claimed *, b->count);
    struct df_event **events = DF_ARENA_ARRAY(&w->arena, struct df_event *, b->count);
    int64_t until_ms = df_mono_ms(r->opt.clock) + CHAIN_MS;
    bool blamed = false;
    size_t n = 0;

    for (size_t i = 0; i < b->count; i++) {
        if (!b->rows[i].tail && may_go(&b->rows[i]))
            round[n++] = &b->rows[i];
    }
    while ((n = permitted(r, round, n)) > 0) {
        for (size_t i = 0; i < n; i++)
            events[i] = &round[i]->e;
        b->sent += n;
        r->dispatcher->dispatch(w->sink, events, n, &w->arena);
        size_t left = 0;
        for (size_t i = 0; i < n; i++) {
            struct relay_claimed *next = round[i]->next;
            judge(r, round[i]);
            blamed = blamed || round[i]->e.breaker == DF_BREAKER_FAILURE;
            if (round[i]->outcome == RELAY_PROCESSED && next && may_go(next))
                round[left++] = next;
        }
        n = left;
        if (df_mono_ms(r->opt.clock) >= until_ms || relay_stopping(r))
            break;
    }
    learn_room(r, b, blamed);
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

static enum df_code mark_failures(struct relay_worker *w, struct relay_batch *b,
                                  enum relay_outcome which, const struct relay_query *q,
                                  struct df_err *err)
{
    const struct relay_sql *sql = &w->shape->sql;
    struct df_rows rows = df_rows_for(&w->arena, &q->q, b->count);

    for (size_t i = 0; i < b->count; i++) {
        struct relay_claimed *c = &b->rows[i];
        if (c->outcome != which)
            continue;
        df_rows_put(&rows, DF_ANY(&q->q, {"id", df_text(one_id(w, c->e.id))},
                                  {"delay", df_int(c->delay_ms)},
                                  {"error", df_text(df_utf8_cut(c->e.error, sql->error_units))}));
    }
    return df_rows_run(w->db, &rows, NULL, err);
}

static enum df_code mark_processed(struct relay_worker *w, struct relay_batch *b,
                                   struct df_err *err)
{
    const struct relay_sql *sql = &w->shape->sql;
    enum df_dialect d = w->relay->dialect;
    enum df_code code = DF_OK;
    int64_t marked = 0;
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
        code = df_db_exec(w->db, DF_ANY(&sql->processed.q, {"ids", df_text(df_buf_str(&ids))}),
                          &marked, err);
    df_buf_release(&ids);
    /* Not one of them: then it would be so for ever, and each would be sent again and again. */
    if (code == DF_OK && n > 0 && marked == 0)
        code = df_err_set(err, DF_E_CONFLICT,
                          "none of %zu rows of %s could be found again by its %s to be marked", n,
                          w->relay->s->table, w->relay->s->columns[DF_RELAY_ID]);
    return code;
}

/*
 * *ret_refused: the table does not take it (a constraint that knows no FAILED, say), and never
 * will. These events are as they were then, and what was processed can still be marked: else all of
 * a batch would be sent again and again for one of them.
 */
static enum df_code mark_unprocessed(struct relay_worker *w, struct relay_batch *b,
                                     enum df_code *ret_refused, struct df_err *err)
{
    const struct relay_sql *sql = &w->shape->sql;
    enum df_code code = df_db_savepoint(w->db, err);

    if (code != DF_OK)
        return code;
    code = mark_failures(w, b, RELAY_RETRY, &sql->retry, err);
    if (code == DF_OK)
        code = mark_failures(w, b, RELAY_FAILED, &sql->dead, err);
    if (code == DF_OK)
        return df_db_release(w->db, err);
    if (df_code_retry(code) != DF_RETRY_NEVER || !df_db_alive(w->db))
        return code;
    *ret_refused = code;
    for (size_t i = 0; i < b->count; i++) {
        if (b->rows[i].outcome != RELAY_PROCESSED)
            b->rows[i].outcome = RELAY_DEFERRED;
    }
    struct df_err ignored = DF_ERR_INIT; /* *err has why */
    return df_db_rollback_to(w->db, &ignored);
}

static enum df_code mark(struct relay_worker *w, struct relay_batch *b, enum df_code *ret_refused,
                         struct df_err *err)
{
    bool failures = false;

    for (size_t i = 0; i < b->count; i++)
        failures =
            failures || b->rows[i].outcome == RELAY_RETRY || b->rows[i].outcome == RELAY_FAILED;
    enum df_code code = mark_processed(w, b, err);
    if (code == DF_OK && failures)
        code = mark_unprocessed(w, b, ret_refused, err);
    return code;
}

/* --- telling ---------------------------------------------------------------------------------- */

static void tell_event(const struct df_relay *r, const struct relay_claimed *c,
                       enum df_log_level level, const char *event)
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
    /* What stands behind the first colon may be the destination's own text, with anybody's data in
     * it: that stays in the table. */
    struct df_str why;
    (void)df_str_cut(e->error, ':', &why);
    df_log_write(level, event, fields, sizeof fields / sizeof fields[0], DF_STR_FMT,
                 DF_STR_ARG(why));
}

/* After the commit: now it is so. */
static void tell(struct df_relay *r, const struct relay_batch *b, bool has_due)
{
    static const enum df_log_level levels[RELAY_OUTCOMES] = {DF_LOG_INFO, DF_LOG_WARN, DF_LOG_ERROR,
                                                             DF_LOG_DEBUG};
    static const char *const events[RELAY_OUTCOMES] = {"OutboxEventProcessed", "OutboxEventRetry",
                                                       "OutboxEventFailed", "OutboxEventDeferred"};
    int64_t counts[RELAY_OUTCOMES] = {0};

    for (size_t i = 0; i < b->count; i++) {
        const struct relay_claimed *c = &b->rows[i];
        counts[c->outcome]++;
        if (c->outcome != RELAY_DEFERRED)
            df_metric_observe(r->duration, (double)c->e.duration_ms / 1e3);
        if (c->outcome == RELAY_RETRY && !has_due)
            rest(r, c->e.id, c->delay_ms);
        tell_event(r, c, levels[c->outcome], events[c->outcome]);
    }
    for (size_t i = 0; i < RELAY_OUTCOMES; i++)
        df_metric_add(r->attempts[i], (double)counts[i]);
    df_lock(&r->lock);
    r->status.dispatched += counts[RELAY_PROCESSED];
    r->status.retried += counts[RELAY_RETRY];
    r->status.given_up += counts[RELAY_FAILED];
    if (counts[RELAY_PROCESSED] > 0)
        r->status.last_dispatch_ms = df_wall_ms(r->opt.clock);
    df_unlock(&r->lock);
}

/* They have arrived, and the table does not say so: they will be sent again. */
static void tell_unmarked(struct df_relay *r, const struct relay_batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        if (b->rows[i].outcome == RELAY_PROCESSED)
            tell_event(r, &b->rows[i], DF_LOG_WARN, "OutboxEventUnmarked");
    }
}

/* --- a batch ---------------------------------------------------------------------------------- */

/* Claim, send, mark, commit. The breaker and retries are around the sending; the commit is made
 * once and either holds or does not. */
enum df_code relay_run_batch(struct relay_worker *w, size_t limit, struct relay_batch *b,
                             struct df_err *err)
{
    struct df_relay *r = w->relay;
    bool locks = r->dialect != DF_SQLITE; /* else nothing may be held while events are sent */
    enum df_code refused = DF_OK;
    enum df_code code = DF_OK;

    *b = (struct relay_batch){0};
    if (locks)
        code = df_db_begin(w->db, true, err);
    if (code == DF_OK)
        code = claim(w, limit, b, err);
    if (code == DF_OK && b->count > 0 && !relay_stopping(r)) {
        dispatch(w, b);
        if (!locks)
            code = df_db_begin(w->db, true, err);
        if (code == DF_OK)
            code = mark(w, b, &refused, err);
    }
    if (code == DF_OK && df_db_in_transaction(w->db))
        code = df_db_commit(w->db, err);
    if (code == DF_OK) {
        tell(r, b, w->shape->sql.has_due);
    } else {
        df_db_reset(w->db);
        tell_unmarked(r, b);
    }
    release(b);
    df_arena_reset(&w->arena);
    b->rows = NULL;
    return code == DF_OK ? refused : code;
}
