/*
 * A cycle as the store runs it: settle, record the attempts, claim. The store may run a cycle more
 * than once, so each run starts afresh; the rows to be settled stay in its list.
 *
 * A claim does not read the payloads, only their sizes. Rows that there is memory for are loaded
 * afterwards; the others are put back in the same transaction.
 */
#include "base/mem.h"
#include "base/uuid.h"
#include "delivery/attempts.sql.h"
#include "delivery/delivery_private.h"
#include "store/rows.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define LOAD_BYTES ((int64_t)2 << 20) /* of one query */

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

/* --- lists of rows ---------------------------------------------------------------------------- */

struct rows {
    struct delivery_row **at;
    size_t count;
};

/* Rows with the same lease and fence stand together, ordered by id. */
static int compare_by_lease(const void *a, const void *b)
{
    const struct delivery_row *x = *(const struct delivery_row *const *)a;
    const struct delivery_row *y = *(const struct delivery_row *const *)b;

    if (x->lease_until_ms != y->lease_until_ms)
        return x->lease_until_ms < y->lease_until_ms ? -1 : 1;
    if (x->fence != y->fence)
        return x->fence < y->fence ? -1 : 1;
    if (x->id.len != y->id.len)
        return x->id.len < y->id.len ? -1 : 1;
    return memcmp(x->id.ptr, y->id.ptr, x->id.len);
}

static bool settles_alike(enum delivery_outcome a, enum delivery_outcome b)
{
    bool failed_a = a == DELIVERY_RETRY || a == DELIVERY_DEAD;
    bool failed_b = b == DELIVERY_RETRY || b == DELIVERY_DEAD;
    return a == b || (failed_a && failed_b);
}

/* The rows of the list that settle like `kind`. */
static struct rows rows_of(struct delivery_cycle *cy, const struct df_list *list,
                           enum delivery_outcome kind)
{
    struct rows rows = {DF_ARENA_ARRAY(&cy->arena, struct delivery_row *, list->count), 0};
    struct delivery_row *r;

    DF_LIST_EACH (r, list, link) {
        if (settles_alike(r->outcome, kind))
            rows.at[rows.count++] = r;
    }
    qsort(rows.at, rows.count, sizeof(struct delivery_row *), compare_by_lease);
    return rows;
}

static struct df_value ids_of_rows(struct delivery_cycle *cy, struct rows rows)
{
    struct df_ids ids = df_ids_for(&cy->arena, rows.count, cy->channel->c->id_type == DF_UUID);
    for (size_t i = 0; i < rows.count; i++)
        df_ids_add(&ids, rows.at[i]->id);
    return df_ids_value(&ids);
}

/* The ids of one list, or of two. */
static struct df_value ids_of_lists(struct delivery_cycle *cy, const struct df_list *one,
                                    const struct df_list *two)
{
    const struct df_list *lists[] = {one, two};
    const struct delivery_row *r;
    struct df_ids ids = df_ids_for(&cy->arena, one->count + (two ? two->count : 0),
                                   cy->channel->c->id_type == DF_UUID);

    for (size_t i = 0; i < 2 && lists[i]; i++)
        DF_LIST_EACH (r, lists[i], link)
            df_ids_add(&ids, r->id);
    return df_ids_value(&ids);
}

/* --- settling --------------------------------------------------------------------------------- */

static void mark_settled(void *arg, struct df_result *r)
{
    const struct rows *rows = arg;
    struct delivery_row like = {.id = df_col_text(r, channel_sent_Id),
                                .fence = rows->at[0]->fence,
                                .lease_until_ms = rows->at[0]->lease_until_ms};
    struct delivery_row *key = &like;
    struct delivery_row **found =
        bsearch(&key, rows->at, rows->count, sizeof(struct delivery_row *), compare_by_lease);

    if (found)
        (*found)->stale = false;
}

/* Settles rows of one lease and fence. Rows that the query does not return were settled too
 * late. */
static enum df_code settle_sent_alike(struct df_db *db, struct delivery_cycle *cy, struct rows rows,
                                      struct df_value now, struct df_err *err)
{
    assert(rows.count > 0 && rows.at[0]->lease_until_ms > 0);
    for (size_t i = 0; i < rows.count; i++)
        rows.at[i]->stale = true;
    enum df_code code =
        df_db_each(db,
                   DF_ANY(cy->channel->c->sent, {"now", now}, {"ids", ids_of_rows(cy, rows)},
                          {"fence", df_int(rows.at[0]->fence)},
                          {"lease_until", df_time(rows.at[0]->lease_until_ms)}),
                   mark_settled, &rows, err);
    for (size_t i = 0; i < rows.count; i++)
        cy->stale += rows.at[i]->stale;
    return code;
}

static enum df_code settle_sent(struct df_db *db, struct delivery_cycle *cy, struct df_value now,
                                struct df_err *err)
{
    struct rows rows = rows_of(cy, &cy->settle, DELIVERY_SENT);
    enum df_code code = DF_OK;

    for (size_t i = 0, n; i < rows.count && code == DF_OK; i += n) {
        for (n = 1; i + n < rows.count && rows.at[i + n]->fence == rows.at[i]->fence &&
                    rows.at[i + n]->lease_until_ms == rows.at[i]->lease_until_ms;)
            n++;
        code = settle_sent_alike(db, cy, (struct rows){rows.at + i, n}, now, err);
    }
    return code;
}

static struct df_value time_or_null(int64_t ms)
{
    return ms > 0 ? df_time(ms) : df_null(DF_TIME);
}

/* Each row has its own error, or its own due time. */
static enum df_code settle_others(struct df_db *db, struct delivery_cycle *cy,
                                  const struct df_list *list, enum delivery_outcome kind,
                                  struct df_value now, struct df_err *err)
{
    const struct df_channel *c = cy->channel->c;
    const struct df_query *q = kind == DELIVERY_DEFERRED ? c->deferred : c->failed;
    struct rows rows = rows_of(cy, list, kind);

    if (rows.count == 0)
        return DF_OK;
    int64_t *affected = DF_ARENA_ARRAY(&cy->arena, int64_t, rows.count);
    struct df_rows params = df_rows_for(&cy->arena, q, rows.count);
    for (size_t i = 0; i < rows.count; i++) {
        const struct delivery_row *row = rows.at[i];
        assert(row->lease_until_ms > 0); /* only a claimed row is settled */
        bool dead = row->outcome == DELIVERY_DEAD;
        bool held = row->held_for > 0 && !dead;
        const struct df_tries *t = &row->tries;
        df_rows_put(&params, DF_ANY(q, {"now", now}, {"id", df_channel_id(c, row->id)},
                                    {"fence", df_int(row->fence)},
                                    {"lease_until", df_time(row->lease_until_ms)},
                                    {"due", dead ? df_null(DF_TIME) : df_time(row->due_ms)},
                                    {"error", df_text(row->error)},
                                    {"http_status", row->tried && row->out.call.code == DF_OK
                                                        ? df_int(row->out.call.status)
                                                        : df_null(DF_INT)},
                                    {"attempts", df_int(t->counted)},
                                    {"first_failed", time_or_null(t->first_failed_ms)},
                                    {"counted", time_or_null(t->counted_ms)},
                                    {"mark", t->mark >= 0 ? df_int(t->mark) : df_null(DF_INT)},
                                    {"held_for", held ? df_int(row->held_for) : df_null(DF_INT)},
                                    {"held_at", held ? now : df_null(DF_TIME)}));
    }
    enum df_code code = df_rows_run(db, &params, affected, err);
    for (size_t i = 0; code == DF_OK && i < rows.count; i++) {
        rows.at[i]->stale = affected[i] == 0;
        cy->stale += rows.at[i]->stale;
    }
    return code;
}

static enum df_code settle_rows(struct df_db *db, struct delivery_cycle *cy, struct df_err *err)
{
    const struct df_channel *c = cy->channel->c;
    struct df_value now = df_time(delivery_now(cy->channel));
    enum df_code code = DF_OK;

    if (c->lock)
        code = df_db_exec(db, DF_ANY(c->lock, {"ids", ids_of_lists(cy, &cy->settle, NULL)}), NULL,
                          err);
    if (code == DF_OK)
        code = settle_sent(db, cy, now, err);
    if (code == DF_OK)
        code = settle_others(db, cy, &cy->settle, DELIVERY_RETRY, now, err);
    if (code == DF_OK)
        code = settle_others(db, cy, &cy->settle, DELIVERY_DEFERRED, now, err);
    return code;
}

static enum df_code record_attempts(struct df_db *db, struct delivery_cycle *cy, struct df_err *err)
{
    struct df_rows rows = df_rows_for(&cy->arena, &df_q_delivery_attempt_insert, cy->settle.count);
    const struct delivery_row *r;

    DF_LIST_EACH (r, &cy->settle, link) {
        if (!r->tried)
            continue;
        const struct df_call *call = &r->out.call;
        const char *outcome = r->stale ? "Stale" : outcome_names[r->outcome];
        DF_ROWS_ADD(&rows, delivery_attempt_insert,
                    .channel = df_text(df_str_c(cy->channel->c->name)), .row_key = df_text(r->id),
                    .attempt = df_int(r->attempt), .attempted_at = df_time(r->started_ms),
                    .outcome = df_text(df_str_c(outcome)),
                    .http_status = call->code == DF_OK ? df_int(call->status) : df_null(DF_INT),
                    .duration_ms = df_int(call->duration_ms), .answer = df_text(r->answer),
                    .error = df_text(r->error),
                    .counted = df_int(r->counted || r->outcome == DELIVERY_SENT));
    }
    return df_rows_run(db, &rows, NULL, err);
}

/* --- claiming --------------------------------------------------------------------------------- */

static void free_list(struct df_list *list)
{
    struct delivery_row *row;
    while ((row = delivery_list_take(list)))
        delivery_row_free(row);
}

struct claiming {
    struct delivery_cycle *cy;
    int64_t lease_until_ms;           /* wall clock, as the rows have it */
    int64_t lease_end_ms;             /* the same by the monotonic clock */
    const struct delivery_want *want; /* NULL: the claim by due time */
    size_t *found;
};

/* What the row went through. Times that are not set are -1 in the result. */
static void read_tries(struct df_result *r, struct delivery_row *row)
{
    int64_t first_ms = df_col_time(r, channel_claim_FirstFailedAt);
    int64_t counted_ms = df_col_time(r, channel_claim_CountedAt);
    bool marked = !df_col_null(r, channel_claim_TargetMark);

    /* What an older version counted it did while the target was away too. */
    bool counted = row->channel->c->schedule || first_ms > 0;
    row->tries = (struct df_tries){
        .tries = row->attempt,
        .counted = counted ? df_col_int(r, channel_claim_Counted) : 0,
        .first_failed_ms = first_ms > 0 ? first_ms : 0,
        .counted_ms = counted_ms > 0 ? counted_ms : 0,
        .mark = marked ? df_col_int(r, channel_claim_TargetMark) : -1,
    };
}

static void take_claimed(void *arg, struct df_result *r)
{
    const struct claiming *c = arg;
    struct delivery_row *row = df_calloc(1, sizeof(*row));

    row->channel = c->cy->channel;
    df_arena_init(&row->arena);
    row->id = df_arena_str(&row->arena, df_col_text(r, channel_claim_Id));
    row->attempt = df_col_int(r, channel_claim_Attempt);
    row->fence = df_col_int(r, channel_claim_Fence);
    row->bytes = df_col_int(r, channel_claim_Bytes);
    row->lease_until_ms = c->lease_until_ms;
    row->lease_end_ms = c->lease_end_ms;
    row->probe = c->want && c->want->probe;
    row->waited_for = c->want ? c->want->id : 0;
    read_tries(r, row);
    (*c->found)++;
    c->cy->taken++;
    c->cy->taken_bytes += row->bytes;
    df_list_add(&c->cy->claimed, &row->link);
}

static enum df_code take_rows(struct df_db *db, const struct df_query *q, int64_t target,
                              size_t limit, struct claiming *c, struct df_err *err)
{
    return df_db_each(db,
                      DF_ANY(q,
                             {"now", df_time(c->lease_until_ms - delivery_lease(c->cy->channel))},
                             {"lease_until", df_time(c->lease_until_ms)},
                             {"limit", df_int((int64_t)limit)}, {"target", df_int(target)}),
                      take_claimed, c, err);
}

/* Claims rows; their payloads are loaded afterwards. Those that wait for a target come first: most
 * of them are older. */
static enum df_code take_due(struct df_db *db, struct delivery_cycle *cy, int64_t now_ms,
                             struct df_err *err)
{
    struct delivery_channel *ch = cy->channel;
    struct claiming c = {.cy = cy,
                         .lease_until_ms = now_ms + delivery_lease(ch),
                         .lease_end_ms = delivery_mono_ms(ch->d) + delivery_lease(ch)};
    enum df_code code = DF_OK;

    for (size_t i = 0; i < cy->wants.count && code == DF_OK; i++) {
        struct delivery_want *w = &cy->wants.at[i];
        c.want = w;
        c.found = &w->found;
        code = take_rows(db, w->probe ? ch->c->claim_probe : ch->c->claim_held, w->id, w->limit, &c,
                         err);
    }
    c.want = NULL;
    c.found = &cy->found;
    if (code == DF_OK && cy->limit > 0)
        code =
            take_rows(db, cy->newest ? ch->c->claim_newest : ch->c->claim, 0, cy->limit, &c, err);
    return code;
}

void delivery_give_up(struct delivery_row *row, struct df_str why)
{
    const struct delivery_channel *ch = row->channel;
    int64_t most =
        ch->c->schedule ? row->tries.counted + 1 : ch->d->opt.settings.retry.max_attempts;

    row->outcome = DELIVERY_DEAD;
    row->verdict = DF_TRIES_REFUSED;
    row->error = delivery_clean(&row->arena, why, DELIVERY_ERROR_UNITS);
    row->tries.counted = row->tries.counted > most ? row->tries.counted : most;
    if (row->tries.first_failed_ms == 0)
        row->tries.first_failed_ms = delivery_now(ch);
}

static void end_row(struct delivery_row *row, const char *why)
{
    delivery_give_up(row, df_str_c(why));
    row->request.url = NULL;
}

/* Sets what follows from the request that was built. */
static void complete_row(struct delivery_row *row)
{
    char destination[DF_DESTINATION_SIZE];

    row->key = row->request.breaker;
    if (!row->key.ptr)
        row->key = df_arena_str(&row->arena, df_destination_of(row->request.url, destination));
    row->breaker = row->key;
    if (!row->channel->c->schedule)
        delivery_target_join(row);
    row->out.trace = df_outbound_trace(row->request.trace_id, row->channel->d->opt.clock);
}

static int compare_by_id(const void *a, const void *b)
{
    const struct delivery_row *x = *(const struct delivery_row *const *)a;
    const struct delivery_row *y = *(const struct delivery_row *const *)b;
    size_t len = x->id.len < y->id.len ? x->id.len : y->id.len;
    int order = memcmp(x->id.ptr, y->id.ptr, len);

    return order ? order : (x->id.len > y->id.len) - (x->id.len < y->id.len);
}

static void build_row(void *arg, struct df_result *r)
{
    const struct rows *rows = arg;
    struct delivery_row like = {.id = df_col_text(r, channel_load_Id)};
    struct delivery_row *key = &like;
    struct delivery_row **found =
        bsearch(&key, rows->at, rows->count, sizeof(struct delivery_row *), compare_by_id);
    struct df_err why = DF_ERR_INIT;

    if (!found)
        return;
    struct delivery_row *row = *found;
    const struct df_channel *c = row->channel->c;
    row->loaded = true;
    row->request.headers.arena = &row->arena;
    if (c->whose)
        c->whose(c, r, &row->arena, &row->request);
    row->key = row->request.breaker;
    if (c->whose && !delivery_share_promise(row->channel->d, row))
        row->outcome = DELIVERY_DEFERRED;
    else if (c->build(c, row->id, r, &row->arena, &row->request, &why) != DF_OK)
        end_row(row, why.detail);
    else
        complete_row(row);
}

/* Builds the requests of these rows, by one query. */
static enum df_code load_piece(struct df_db *db, struct delivery_cycle *cy, struct rows rows,
                               struct df_err *err)
{
    qsort(rows.at, rows.count, sizeof(struct delivery_row *), compare_by_id);
    enum df_code code = df_db_each(db, DF_ANY(cy->channel->c->load, {"ids", ids_of_rows(cy, rows)}),
                                   build_row, &rows, err);
    for (size_t i = 0; code == DF_OK && i < rows.count; i++) {
        if (!rows.at[i]->loaded)
            end_row(rows.at[i], "what belongs to the row is gone");
    }
    return code;
}

/* Loads in pieces of at least one row, since a query's whole answer stands in memory beside the
 * rows built from it. */
static enum df_code load_claimed(struct df_db *db, struct delivery_cycle *cy, struct df_err *err)
{
    struct rows piece = {DF_ARENA_ARRAY(&cy->arena, struct delivery_row *, cy->claimed.count), 0};
    int64_t bytes = 0;
    enum df_code code = DF_OK;
    struct delivery_row *row;

    DF_LIST_EACH (row, &cy->claimed, link) {
        if (code != DF_OK)
            break;
        if (row->outcome == DELIVERY_DEAD)
            continue; /* too large to be sent */
        if (piece.count > 0 && bytes + row->bytes > LOAD_BYTES) {
            code = load_piece(db, cy, piece, err);
            piece.count = 0;
            bytes = 0;
        }
        piece.at[piece.count++] = row;
        bytes += row->bytes;
    }
    return code == DF_OK && piece.count > 0 ? load_piece(db, cy, piece, err) : code;
}

/* The row goes on waiting for its target, in its old place. */
static void wait_again(struct delivery_cycle *cy, struct delivery_row *row)
{
    row->held_for = row->waited_for;
    row->due_ms = delivery_now(cy->channel) + DELIVERY_HOLD_MS;
    for (size_t i = 0; i < cy->wants.count; i++)
        if (cy->wants.at[i].id == row->waited_for)
            cy->wants.at[i].put_back++;
}

/* Puts rows back at once whose owner already has its share. While a tenant hangs elsewhere,
 * its rows are put off, so that others' that wait for the same target behind them come next. */
static enum df_code put_back_parked(struct df_db *db, struct delivery_cycle *cy, struct df_err *err)
{
    struct delivery_channel *ch = cy->channel;
    struct df_list claimed = {.count = 0};
    struct df_list back = {.count = 0};
    struct delivery_row *row;

    while ((row = delivery_list_take(&cy->claimed))) {
        if (row->outcome == DELIVERY_DEFERRED && row->waited_for > 0 &&
            !delivery_share_hangs_elsewhere(ch->d, row))
            wait_again(cy, row);
        else if (row->outcome == DELIVERY_DEFERRED)
            row->due_ms = delivery_now(ch) + delivery_park_ms(ch->d, row, DELIVERY_PARK_MS);
        df_list_add(row->outcome == DELIVERY_DEFERRED ? &back : &claimed, &row->link);
    }
    df_list_move(&cy->claimed, &claimed);
    DF_LIST_EACH (row, &back, link)
        cy->parked += row->held_for == 0;
    enum df_code code =
        settle_others(db, cy, &back, DELIVERY_DEFERRED, df_time(delivery_now(ch)), err);
    delivery_held_give(cy, &back);
    free_list(&back);
    return code;
}

static void read_next_due(void *arg, struct df_result *r)
{
    struct delivery_cycle *cy = arg;

    if (!df_col_null(r, channel_next_due_DueAt))
        cy->next_due_ms = df_col_time(r, channel_next_due_DueAt);
}

static enum df_code claim_rows(struct df_db *db, struct delivery_cycle *cy, struct df_err *err)
{
    int64_t now_ms = delivery_now(cy->channel);
    struct df_list back = {.count = 0};
    struct delivery_row *row;

    enum df_code code = take_due(db, cy, now_ms, err);
    if (code != DF_OK)
        return code;
    delivery_held_sort(cy, &back);
    DF_LIST_EACH (row, &back, link)
        if (row->waited_for > 0)
            wait_again(cy, row);
    code = settle_others(db, cy, &back, DELIVERY_DEFERRED, df_time(now_ms), err);
    free_list(&back);
    if (code == DF_OK)
        code = load_claimed(db, cy, err);
    if (code == DF_OK)
        code = put_back_parked(db, cy, err);
    if (code != DF_OK)
        return code;
    if (cy->limit > 0 && cy->found < cy->limit)
        return df_db_each(db, DF_NO_VALUES(cy->channel->c->next_due), read_next_due, cy, err);
    if (cy->limit > 0)
        cy->next_due_ms = now_ms; /* most likely there are more */
    return DF_OK;
}

static enum df_code mirror_rows(struct df_db *db, struct delivery_cycle *cy, struct df_err *err)
{
    const struct df_channel *c = cy->channel->c;
    struct df_value now = df_time(delivery_now(cy->channel));
    struct df_value ids = ids_of_lists(cy, &cy->settle, &cy->claimed);
    enum df_code code = DF_OK;

    if (c->mirror)
        code = df_db_exec(db, DF_ANY(c->mirror, {"now", now}, {"ids", ids}), NULL, err);
    return code == DF_OK && c->settled ? c->settled(c, db, now, ids, &cy->arena, err) : code;
}

enum df_code delivery_cycle_run(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct delivery_cycle *cy = (struct delivery_cycle *)job;
    const struct df_channel *c = cy->channel->c;
    enum df_code code = DF_OK;

    delivery_held_undo(cy);
    free_list(&cy->claimed);
    free_list(&cy->renewed);
    df_arena_reset(&cy->arena);
    cy->found = 0;
    cy->taken = 0;
    cy->taken_bytes = 0;
    for (size_t i = 0; i < cy->wants.count; i++)
        cy->wants.at[i].found = cy->wants.at[i].put_back = 0;
    cy->parked = 0;
    cy->stale = 0;
    cy->next_due_ms = -1;
    if (cy->settle.count > 0) {
        code = settle_rows(db, cy, err);
        if (code == DF_OK)
            code = record_attempts(db, cy, err);
    }
    if (code == DF_OK && cy->limit + cy->wants.count > 0)
        code = claim_rows(db, cy, err);
    if (code == DF_OK && (c->mirror || c->settled) && cy->settle.count + cy->claimed.count > 0)
        code = mirror_rows(db, cy, err);
    return code;
}
