/*
 * The first half of a batch: claims rows and fetches their payloads.
 *
 * With order=aggregate a claim takes events that are the first of their aggregate (heads), and
 * those behind them. A head that another relay holds is still PENDING for everybody else, so nobody
 * can claim the events behind it.
 *
 * Memory. The table belongs to another application, which decides how large payloads are. A claim
 * returns only short payloads (INLINE_BYTES together, however many rows). Longer ones are fetched
 * afterwards, at least one and up to BATCH_BYTES of them, as long as all relays of the process hold
 * no more than PROCESS_BYTES. Rows that there is no room for are not taken. A payload over
 * max_payload_bytes is not fetched: its event is FAILED.
 */
#include "base/mem.h"
#include "relay/relay_private.h"
#include "json/write.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#define INLINE_BYTES  (2 << 20)
#define INLINE_MAX    (8 << 10) /* of one payload */
#define BATCH_BYTES   ((size_t)8 << 20)
#define PROCESS_BYTES ((size_t)32 << 20)
/* While there is a backlog, a row that is due again, or was committed later than its created_at,
 * waits at most so much longer. */
#define FROM_START_MS 500
#define FULL_MS       2000 /* the same for a row outside the window */
/* Of the window: at first, before it is all rows, and all. */
#define NEAR_ROWS   1000
#define FAR_ROWS    100000
#define ALL_ROWS    INT64_C(2000000000)

#define PROBE_TURNS 4 /* searches for events to probe with, before any will do */

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
              .created_ms = df_col_null(r, RELAY_AT_CREATED) ? -1 : df_col_int(r, RELAY_AT_CREATED),
              .aggregate_type = df_arena_str(a, df_col_text(r, RELAY_AT_AGGREGATE_TYPE)),
              .aggregate_id = df_arena_str(a, df_col_text(r, RELAY_AT_AGGREGATE_ID)),
              .correlation_id = df_arena_str(a, df_col_text(r, RELAY_AT_CORRELATION_ID)),
              .trace_id = df_arena_str(a, df_col_text(r, RELAY_AT_TRACE_ID)),
              .span_id = df_arena_str(a, df_col_text(r, RELAY_AT_SPAN_ID)),
              .trace_flags = df_arena_str(a, df_col_text(r, RELAY_AT_TRACE_FLAGS)),
              .retry_after_ms = -1},
        .attempts = df_col_int(r, RELAY_AT_ATTEMPTS),
        .due = df_col_int(r, RELAY_AT_DUE) == 1,
        .fetched = df_col_null(r, RELAY_AT_SIZE) || !df_col_null(r, RELAY_AT_PAYLOAD),
        .size = df_col_int(r, RELAY_AT_SIZE),
        .outcome = RELAY_DEFERRED,
    };
    if (!c->e.type.ptr)
        c->e.type = DF_STR("");
}

/* Lists the ids of events that rest, for the claim to skip; drops those whose time has come. A
 * claim of probes skips those that were tried already, too. */
static void list_resting(struct df_relay *r, bool probing, struct df_buf *out)
{
    const struct relay_known *k;
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
    if (probing) {
        DF_LIST_EACH (k, &r->memory.held, held)
            relay_list_add(r->dialect, df_str_c(k->id), out);
    }
    df_unlock(&r->lock);
    relay_list_close(r->dialect, out);
}

void relay_wake_resting(struct df_relay *r)
{
    for (size_t i = 0; i < r->resting_count; i++)
        free(r->resting[i].id);
    r->resting_count = 0;
}

void relay_rest(struct df_relay *r, struct df_str id, int64_t delay_ms)
{
    df_lock(&r->lock);
    if (!r->resting)
        r->resting = df_calloc(RELAY_RESTING, sizeof *r->resting);
    if (r->resting_count <
        RELAY_RESTING) /* with more than this everything fails, and the breaker opens */
        r->resting[r->resting_count++] = (struct relay_resting){
            .id = df_strdup(id), .due_ms = df_mono_ms(r->opt.clock) + delay_ms};
    df_unlock(&r->lock);
}

/* The longest payload that a claim of so many rows returns. */
static struct df_value inline_bytes(size_t rows)
{
    size_t room = INLINE_BYTES / (rows ? rows : 1);
    return df_int((int64_t)(room < INLINE_MAX ? room : INLINE_MAX));
}

/*
 * Where the next claim begins: after the last row that was taken, so that it reads neither finished
 * rows nor those that other workers hold. Now and then, and after a claim that was not full, it
 * begins at the start.
 */
static struct df_str claim_begins_after(struct relay_worker *w)
{
    struct df_relay *r = w->relay;
    int64_t now_ms = df_mono_ms(r->opt.clock);
    struct df_str after = DF_STR_NULL;

    df_lock(&r->lock);
    if (r->after && w->shape->sql.has_beyond && !w->probing && r->from_start_ms > 0 &&
        now_ms - r->from_start_ms < FROM_START_MS)
        after = df_arena_str(&w->arena, df_str_c(r->after));
    else
        r->from_start_ms = now_ms;
    df_unlock(&r->lock);
    return after;
}

static void note_claim_end(struct relay_worker *w, const struct relay_batch *b)
{
    struct df_relay *r = w->relay;

    if (w->probing)
        return;
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

/* Followers come oldest first: each is appended to the chain of its aggregate. */
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

    df_buf_init(&heads, RELAY_LIST_MAX);
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
    enum df_code code =
        df_db_each(w->db,
                   DF_ANY(q, {"heads", df_text(df_buf_str(&heads))}, {"window", df_int(b->window)},
                          {"each", df_int(each)}, {"inline", inline_bytes(limit)}),
                   read_claimed, &(struct claiming){&w->arena, b, limit}, err);
    df_buf_release(&heads);
    return code;
}

/*
 * With order=aggregate a claim looks at the oldest rows (the window), which is quick however long
 * the backlog is. If it finds nothing there, because the oldest wait for a retry or for another
 * worker, the window grows until something is found. Now and then a claim looks at all rows, and
 * the window is small again. If nothing at all was found, other workers hold what there is: then
 * the window does not grow again soon.
 */
static int64_t claim_window(struct df_relay *r, int64_t found_nothing_in)
{
    int64_t near = 10 * r->s->batch > NEAR_ROWS ? 10 * r->s->batch : NEAR_ROWS;
    int64_t now_ms = df_mono_ms(r->opt.clock);
    int64_t window = 0;

    df_lock(&r->lock);
    if (found_nothing_in > 0) {
        if (found_nothing_in == ALL_ROWS)
            r->full_in_vain = true;
        else if (!r->full_in_vain)
            window = r->window = found_nothing_in < FAR_ROWS ? found_nothing_in * 8 : ALL_ROWS;
    } else if (r->full_ms == 0 || now_ms - r->full_ms >= FULL_MS) {
        r->full_ms = now_ms;
        r->full_in_vain = false;
        r->window = near;
        window = ALL_ROWS;
    } else {
        window = r->window;
    }
    df_unlock(&r->lock);
    return window;
}

static enum df_code claim_by(struct relay_worker *w, const struct relay_query *q, size_t limit,
                             struct df_str resting, struct df_str after, struct relay_batch *b,
                             struct df_err *err)
{
    return df_db_each(w->db,
                      DF_ANY(&q->q, {"limit", df_int((int64_t)limit)},
                             {"resting", df_text(resting)}, {"after", df_text(after)},
                             {"window", df_int(b->window)}, {"inline", inline_bytes(limit)}),
                      read_claimed, &(struct claiming){&w->arena, b, limit}, err);
}

static enum df_code claim_heads(struct relay_worker *w, size_t limit, struct df_str resting,
                                struct relay_batch *b, struct df_err *err)
{
    struct df_relay *r = w->relay;
    const struct relay_sql *sql = &w->shape->sql;
    struct df_str after = claim_begins_after(w);
    enum df_code code = DF_OK;

    b->beyond = after.ptr;
    if (after.ptr)
        return claim_by(w, &sql->beyond, limit, resting, after, b, err);
    if (!sql->has_window)
        return claim_by(w, &sql->claim, limit, resting, DF_STR_NULL, b, err);
    while (code == DF_OK && b->count == 0 && (b->window = claim_window(r, b->window)) > 0)
        code = claim_by(w, &sql->claim, limit, resting, DF_STR_NULL, b, err);
    return code;
}

/* --- long payloads ---------------------------------------------------------------------------- */

/* Bytes of payloads of all batches of this process. */
static atomic_size_t bytes_in_hand;

/* A payload larger than PROCESS_BYTES is taken when no other is. */
static bool reserve_bytes(struct relay_batch *b, size_t bytes)
{
    size_t others = atomic_load(&bytes_in_hand);

    do {
        if (others > 0 && bytes + others > PROCESS_BYTES)
            return false;
    } while (!atomic_compare_exchange_weak(&bytes_in_hand, &others, others + bytes));
    b->bytes += bytes;
    return true;
}

void relay_batch_release(struct relay_batch *b)
{
    size_t before = atomic_fetch_sub(&bytes_in_hand, b->bytes);

    assert(before >= b->bytes);
    b->bytes = 0;
}

static int64_t max_payload(const struct df_relay *r)
{
    return r->s->max_payload_bytes > 0 ? r->s->max_payload_bytes : DF_RELAY_PAYLOAD_MAX;
}

static void refuse_payload(struct relay_worker *w, struct relay_claimed *c)
{
    relay_give_up(w->relay, c, DF_TRIES_REFUSED);
    c->e.error = df_arena_printf(&w->arena, "the payload has %lld bytes, at most %lld are sent",
                                 (long long)c->size, (long long)max_payload(w->relay));
}

/* Only so many rows fitted: claiming many more would be a costly waste. */
static void learn_size(struct df_relay *r, size_t rows)
{
    df_lock(&r->lock);
    r->room = rows * 2 > RELAY_ROOM_MIN ? rows * 2 : RELAY_ROOM_MIN;
    df_unlock(&r->lock);
}

/* Cuts the batch before the first row for whose payload there is no room. */
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
        else if ((b->bytes > 0 && b->bytes + size > BATCH_BYTES) || !reserve_bytes(b, size))
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

/* Rows that share an id all get the payload of one of them. */
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

    df_buf_init(&ids, RELAY_LIST_MAX);
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

/* Probes are of events that were not tried yet, else of the least recently tried ones, so that an
 * event that always fails does not keep the destination shut. */
static enum df_code claim_probes(struct relay_worker *w, size_t limit, struct relay_batch *b,
                                 struct df_err *err)
{
    struct df_relay *r = w->relay;
    enum df_code code = DF_OK;
    bool more = true;

    for (int turn = 0; code == DF_OK && b->count == 0 && more; turn++) {
        struct df_buf resting;
        df_buf_init(&resting, RELAY_LIST_MAX);
        list_resting(r, true, &resting);
        b->window = 0;
        code = claim_heads(w, limit, df_buf_str(&resting), b, err);
        df_buf_release(&resting);
        df_lock(&r->lock);
        more = r->memory.held.count > 0;
        if (b->count == 0) {
            r->full_ms = 0; /* look at all rows again, whatever was in vain */
            relay_unhold(r, turn < PROBE_TURNS ? limit : SIZE_MAX);
        }
        df_unlock(&r->lock);
    }
    return code;
}

static enum df_code claim_usual(struct relay_worker *w, size_t limit, struct relay_batch *b,
                                struct df_err *err)
{
    struct df_buf resting;

    df_buf_init(&resting, RELAY_LIST_MAX);
    list_resting(w->relay, false, &resting);
    enum df_code code = claim_heads(w, limit, df_buf_str(&resting), b, err);
    df_buf_release(&resting);
    return code;
}

/* Which try of each event this is: as remembered, else by the failures that counted. */
static void number_tries(struct df_relay *r, struct relay_batch *b)
{
    df_lock(&r->lock);
    for (size_t i = 0; i < b->count; i++) {
        struct relay_claimed *c = &b->rows[i];
        const struct relay_known *k = relay_recall(r, c->e.id);
        int64_t before = k && k->tries.tries > c->attempts ? k->tries.tries : c->attempts;
        c->e.attempt = before + 1;
    }
    df_unlock(&r->lock);
}

enum df_code relay_claim(struct relay_worker *w, size_t limit, struct relay_batch *b,
                         struct df_err *err)
{
    const struct relay_sql *sql = &w->shape->sql;

    *b = (struct relay_batch){.rows = DF_ARENA_ARRAY(&w->arena, struct relay_claimed, limit)};
    enum df_code code = w->probing ? claim_probes(w, limit, b, err) : claim_usual(w, limit, b, err);
    b->heads = b->count;
    b->full = b->count == limit;
    if (code == DF_OK && sql->has_follow && !w->probing)
        code = claim_followers(w, limit, b, err);
    cut_to_room(w, b);
    note_claim_end(w, b);
    if (code == DF_OK)
        code = fetch_payloads(w, b, err);
    link_chains(b);
    number_tries(w->relay, b);
    return code;
}
