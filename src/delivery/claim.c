/*
 * Claiming: finds rows of this process's shards that are due, or whose target is back, and builds
 * their requests. It writes nothing and runs on a reader of the store; the rows are in hand when it
 * has ended. The store may run the job more than once, so each run starts afresh.
 *
 * The first query tells the rows' sizes. Rows that there is memory for are loaded by a second one;
 * the others are left for later.
 *
 * With care. After a process ended in the middle of its work, one of the rows it had may have been
 * the cause. The next owner takes the first rows a few at a time, and writes a mark for each before
 * it does anything with them: find, mark (a commit), load. A row that has a mark already, a
 * suspect, is taken alone; one that was taken DF_MARKS_MAX times without an end is given up.
 */
#include "base/log.h"
#include "base/mem.h"
#include "delivery/delivery_private.h"
#include "store/rows.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define LOAD_BYTES   ((int64_t)2 << 20) /* of one query */
#define SUSPECTS_MAX 1000
#define NO_UUID      "00000000-0000-0000-0000-000000000000"

/* --- rows ------------------------------------------------------------------------------------- */

struct rows {
    struct delivery_row **at;
    size_t count;
};

static void free_list(struct df_list *list)
{
    struct delivery_row *row;
    while ((row = delivery_list_take(list)))
        delivery_row_free(row);
}

/* Gives back the bytes of a row that is not taken after all. */
static void drop_row(struct delivery_claim *cl, struct delivery_row *row)
{
    struct df_delivery *d = cl->channel->d;

    df_lock(&d->lock);
    cl->channel->held_bytes -= row->bytes;
    d->held_bytes -= row->bytes;
    df_unlock(&d->lock);
    cl->reserved -= row->bytes;
    delivery_row_free(row);
}

/* The row is given up without having been sent. */
static void give_up_row(struct delivery_row *row, struct df_str why)
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

static void refuse_large_row(struct delivery_row *row, int64_t most)
{
    give_up_row(row, df_arena_printf(&row->arena,
                                     "there are %lld bytes to send, and at most %lld are sent",
                                     (long long)row->bytes, (long long)most));
    row->bytes = 0;
}

static void end_row(struct delivery_row *row, const char *why)
{
    give_up_row(row, df_str_c(why));
    row->request.url = NULL;
}

/* --- suspects --------------------------------------------------------------------------------- */

/* A row that had a mark when the time with care began, or was marked by this process since. */
struct mark {
    struct df_str id;
    int64_t taken; /* as it was found; 0: this process was the first */
    bool own;      /* this process has counted its taking */
};

static struct mark *add_mark(struct delivery_care *care, struct df_str id, int64_t taken)
{
    struct mark *m = df_arena_alloc(&care->arena, sizeof(*m));

    *m = (struct mark){.id = df_arena_str(&care->arena, id), .taken = taken};
    struct mark *known = df_map_try_add(&care->marks, m->id, m);
    return known ? known : m;
}

static void note_mark(void *arg, struct df_str id, int64_t taken)
{
    (void)add_mark(arg, id, taken);
}

static const struct mark *suspect_of(const struct delivery_claim *cl, struct df_str id)
{
    const struct mark *m = cl->careful ? df_map_get(&cl->care.marks, id) : NULL;

    return m && m->taken > 0 ? m : NULL;
}

void delivery_care_end(struct delivery_care *care)
{
    df_map_release(&care->marks);
    df_arena_release(&care->arena);
    *care = (struct delivery_care){.begun = false};
    df_arena_init(&care->arena);
}

/* --- finding ---------------------------------------------------------------------------------- */

/* One query of a claim. */
struct finding {
    struct delivery_claim *cl;
    struct delivery_want *want; /* NULL: by due time */
    size_t limit;
    size_t returned;
    size_t taken;
    bool full; /* the rows that follow are left for later */
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

static struct delivery_row *make_row(const struct finding *f, struct df_result *r)
{
    const struct delivery_claim *cl = f->cl;
    struct delivery_row *row = df_calloc(1, sizeof(*row));

    row->channel = cl->channel;
    df_arena_init(&row->arena);
    row->id = df_arena_str(&row->arena, df_col_text(r, channel_claim_Id));
    row->version = df_col_int(r, channel_claim_Version);
    row->was_due_ms = df_col_time(r, channel_claim_DueAt);
    row->attempt = df_col_int(r, channel_claim_Tries) + 1;
    row->bytes = df_col_int(r, channel_claim_Bytes);
    row->shard = df_shard_of(row->id);
    row->epoch = cl->epochs[row->shard];
    row->probe = f->want && f->want->probe;
    row->waited_for = f->want ? f->want->id : 0;
    row->marked = cl->careful;
    read_tries(r, row);
    return row;
}

/* Whether the claim has it already: a row that waits for its target may be due too. */
static bool has_taken(const struct delivery_claim *cl, struct df_str id)
{
    const struct delivery_row *row;

    if (cl->wants.count == 0)
        return false;
    DF_LIST_EACH (row, &cl->claimed, link)
        if (df_str_eq(row->id, id))
            return true;
    return false;
}

static void move_cursor(struct finding *f, struct df_result *r)
{
    struct delivery_cursor *at = &f->cl->at;

    if (f->want || f->cl->newest)
        return;
    at->due_ms = df_col_time(r, channel_claim_DueAt);
    (void)snprintf(at->id, sizeof(at->id), DF_STR_FMT,
                   DF_STR_ARG(df_col_text(r, channel_claim_Id)));
}

/* Whether the row has to wait because it, or one that is taken, is a suspect. */
static bool must_wait(struct finding *f, struct df_str id)
{
    struct delivery_claim *cl = f->cl;

    if (!suspect_of(cl, id))
        return false;
    cl->alone = cl->claimed.count == 0 && cl->marked == 0;
    return !cl->alone;
}

static void take_row(void *arg, struct df_result *r)
{
    struct finding *f = arg;
    struct delivery_claim *cl = f->cl;
    struct df_str id = df_col_text(r, channel_claim_Id);

    f->returned++;
    if (f->full)
        return;
    if (delivery_held_has(cl->channel, id) || has_taken(cl, id)) {
        move_cursor(f, r);
        return;
    }
    if (f->taken >= f->limit || cl->alone || must_wait(f, id)) {
        f->full = true;
        return;
    }
    struct delivery_row *row = make_row(f, r);
    int64_t most = cl->channel->d->opt.max_row_bytes;
    if (row->bytes > most)
        refuse_large_row(row, most);
    if (!delivery_held_reserve(cl, row)) {
        delivery_row_free(row);
        f->full = true;
        return;
    }
    f->taken++;
    cl->taken++;
    cl->taken_bytes += row->bytes;
    move_cursor(f, r);
    df_list_add(&cl->claimed, &row->link);
}

/* Of the rows that a query returns, as many as are in hand may have to be passed over. */
static enum df_code find_rows(struct df_db *db, const struct df_query *q, struct finding *f,
                              size_t passed, struct df_err *err)
{
    const struct delivery_claim *cl = f->cl;
    const struct df_channel *c = cl->channel->c;
    struct df_str id = df_str_c(cl->from.id);
    struct df_value after_id = id.len > 0              ? df_channel_id(c, id)
                               : c->id_type == DF_UUID ? df_uuid(DF_STR(NO_UUID))
                                                       : df_int(-1);
    size_t limit = f->limit + passed;

    enum df_code code = df_db_each(
        db,
        DF_ANY(q, {"now", df_time(delivery_now(cl->channel))}, {"after", df_time(cl->from.due_ms)},
               {"after_id", after_id}, {"shards", df_int(cl->shards)},
               {"limit", df_int((int64_t)limit)}, {"target", df_int(f->want ? f->want->id : 0)}),
        take_row, f, err);
    f->full = f->full || f->returned == limit;
    return code;
}

/* Rows that wait for a target come first: most of them are older. */
static enum df_code find_held(struct df_db *db, struct delivery_claim *cl, struct df_err *err)
{
    const struct df_channel *c = cl->channel->c;
    enum df_code code = DF_OK;

    for (size_t i = 0; i < cl->wants.count && code == DF_OK; i++) {
        struct delivery_want *w = &cl->wants.at[i];
        struct finding f = {.cl = cl, .want = w, .limit = w->limit};
        code = find_rows(db, w->probe ? c->claim_probe : c->claim_held, &f, w->in_hand, err);
        w->found = f.taken;
        w->more = f.full;
    }
    return code;
}

static void read_next_due(void *arg, struct df_result *r)
{
    struct delivery_claim *cl = arg;

    if (!df_col_null(r, channel_next_due_DueAt))
        cl->next_due_ms = df_col_time(r, channel_next_due_DueAt);
}

static enum df_code find_due(struct df_db *db, struct delivery_claim *cl, struct df_err *err)
{
    const struct df_channel *c = cl->channel->c;
    struct finding f = {.cl = cl, .limit = cl->limit};
    struct df_value now = df_time(delivery_now(cl->channel));

    if (cl->limit == 0)
        return DF_OK;
    int64_t begun_ms = delivery_mono_ms(cl->channel->d);
    enum df_code code = find_rows(db, cl->newest ? c->claim_newest : c->claim, &f, cl->passed, err);
    cl->took_ms = delivery_mono_ms(cl->channel->d) - begun_ms;
    cl->found = f.taken;
    cl->more = f.full;
    if (code == DF_OK && !cl->more)
        code = df_db_each(db, DF_ANY(c->next_due, {"now", now}), read_next_due, cl, err);
    return code;
}

/* --- loading ---------------------------------------------------------------------------------- */

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
    row->out.trace = df_span_stored(row->request.trace_parent, row->request.trace_id,
                                    row->channel->d->opt.clock, &row->out.begins_trace);
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
    row->version = df_col_int(r, channel_load_Version); /* it may have been replaced since */
    row->request.headers.arena = &row->arena;
    if (c->whose)
        c->whose(c, r, &row->arena, &row->request);
    row->key = row->request.breaker;
    if (c->whose && !delivery_share_promise(row->channel->d, row)) {
        row->outcome = DELIVERY_DEFERRED;
        return;
    }
    enum df_code code = c->build(c, row->id, r, &row->arena, &row->request, &why);
    if (code == DF_OK) {
        complete_row(row);
    } else if (code == DF_E_BUSY) {
        row->outcome = DELIVERY_DEFERRED;
        delivery_share_break(row->channel->d, row);
    } else {
        end_row(row, why.detail);
    }
}

/* Builds the requests of these rows, by one query. */
static enum df_code load_piece(struct df_db *db, struct delivery_claim *cl, struct rows rows,
                               struct df_err *err)
{
    struct df_ids ids = df_ids_for(&cl->arena, rows.count, cl->channel->c->id_type == DF_UUID);

    qsort(rows.at, rows.count, sizeof(struct delivery_row *), compare_by_id);
    for (size_t i = 0; i < rows.count; i++)
        df_ids_add(&ids, rows.at[i]->id);
    enum df_code code = df_db_each(db, DF_ANY(cl->channel->c->load, {"ids", df_ids_value(&ids)}),
                                   build_row, &rows, err);
    for (size_t i = 0; code == DF_OK && i < rows.count; i++) {
        if (!rows.at[i]->loaded)
            end_row(rows.at[i], "what belongs to the row is gone");
    }
    return code;
}

/* Loads in pieces of at least one row, since a query's whole answer stands in memory beside the
 * rows built from it. */
static enum df_code load_claimed(struct df_db *db, struct delivery_claim *cl, struct df_err *err)
{
    struct rows piece = {DF_ARENA_ARRAY(&cl->arena, struct delivery_row *, cl->claimed.count + 1),
                         0};
    int64_t bytes = 0;
    enum df_code code = DF_OK;
    struct delivery_row *row;

    DF_LIST_EACH (row, &cl->claimed, link) {
        if (code != DF_OK)
            break;
        if (row->outcome == DELIVERY_DEAD || row->loaded)
            continue; /* it is not sent, or the job runs again */
        if (piece.count > 0 && bytes + row->bytes > LOAD_BYTES) {
            code = load_piece(db, cl, piece, err);
            piece.count = 0;
            bytes = 0;
        }
        piece.at[piece.count++] = row;
        bytes += row->bytes;
    }
    return code == DF_OK && piece.count > 0 ? load_piece(db, cl, piece, err) : code;
}

/* The row goes on waiting for its target, in its old place. */
static void wait_again(struct delivery_claim *cl, struct delivery_row *row)
{
    for (size_t i = 0; i < cl->wants.count; i++)
        if (cl->wants.at[i].id == row->waited_for)
            cl->wants.at[i].put_back++;
    drop_row(cl, row);
}

/* Puts rows back whose owner already has its share. While a tenant hangs elsewhere, its rows are
 * put off, so that others' that wait for the same target behind them come next. */
static void put_back_parked(struct delivery_claim *cl)
{
    struct delivery_channel *ch = cl->channel;
    struct df_list claimed = {.count = 0};
    struct delivery_row *row;

    while ((row = delivery_list_take(&cl->claimed))) {
        if (row->outcome != DELIVERY_DEFERRED) {
            df_list_add(&claimed, &row->link);
        } else if (row->waited_for > 0 && !delivery_share_hangs_elsewhere(ch->d, row)) {
            wait_again(cl, row);
        } else {
            row->due_ms = delivery_now(ch) + delivery_park_ms(ch->d, row, DELIVERY_PARK_MS);
            cl->parked++;
            df_list_add(&cl->back, &row->link);
        }
    }
    df_list_move(&cl->claimed, &claimed);
}

/* --- the job ---------------------------------------------------------------------------------- */

static enum df_code load_run(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct delivery_claim *cl = (struct delivery_claim *)job;
    enum df_code code = load_claimed(db, cl, err);

    if (code == DF_OK)
        put_back_parked(cl);
    return code;
}

static void start_over(struct delivery_claim *cl)
{
    delivery_held_undo(cl);
    free_list(&cl->claimed);
    free_list(&cl->back);
    df_arena_reset(&cl->arena);
    cl->at = cl->from;
    cl->alone = false;
    cl->found = cl->taken = cl->parked = 0;
    cl->taken_bytes = 0;
    cl->more = false;
    cl->next_due_ms = -1;
    for (size_t i = 0; i < cl->wants.count; i++)
        cl->wants.at[i].found = cl->wants.at[i].put_back = 0;
}

static enum df_code claim_run(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct delivery_claim *cl = (struct delivery_claim *)job;
    enum df_code code = DF_OK;

    start_over(cl);
    if (cl->careful && !cl->care.begun)
        code = df_marks_read(db, cl->channel->c->name, SUSPECTS_MAX, note_mark, &cl->care, err);
    cl->care.begun = cl->careful && code == DF_OK;
    if (code == DF_OK)
        code = find_held(db, cl, err);
    if (code == DF_OK)
        code = find_due(db, cl, err);
    return code == DF_OK && !cl->careful ? load_run(db, job, err) : code;
}

/* Takes over what was found: rows to be sent, and rows to be put off. */
static void adopt_claimed(struct delivery_channel *ch) DF_REQUIRES(ch->d->lock)
{
    struct delivery_claim *cl = &ch->claim;
    struct delivery_row *r;

    DF_LIST_EACH (r, &cl->claimed, link)
        delivery_held_add(ch, r);
    DF_LIST_EACH (r, &cl->back, link)
        delivery_held_add(ch, r);
    ch->suspect = ch->suspect || (cl->alone && cl->claimed.count > 0);
    if (cl->careful)
        ch->careful_left = cl->taken < ch->careful_left ? ch->careful_left - cl->taken : 0;
    cl->reserved = 0; /* the rows count them now */
    if (cl->taken > 0)
        ch->row_bytes = cl->taken_bytes / (int64_t)cl->taken;
    delivery_targets_claimed(ch);
    delivery_plan_found(ch);
    df_list_move(&ch->ready, &cl->claimed);
    df_list_move(&ch->settled, &cl->back);
}

void delivery_shards_leave(struct delivery_channel *ch, uint32_t shards)
{
    for (unsigned i = 0; i < DF_SHARDS; i++)
        if (shards >> i & 1)
            df_shards_leave(ch->shards, i);
}

/* Shards are not handed over while a claim looks for their rows. */
static void hold_shards(struct delivery_channel *ch)
{
    for (unsigned i = 0; i < DF_SHARDS; i++)
        df_shards_enter(ch->shards, i);
    ch->claim.shards = df_shards_mine(ch->shards, ch->claim.epochs);
    delivery_shards_leave(ch, DF_SHARDS_ALL & ~ch->claim.shards);
}

static void claim_ended(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct delivery_claim *cl = (struct delivery_claim *)job;
    struct delivery_channel *ch = cl->channel;
    struct df_list over = {.count = 0};
    struct delivery_row *row;

    assert(ch->is_claiming);
    if (code != DF_OK) {
        struct df_log_field fields[] = {DF_F("channel", df_str_c(ch->c->name))};
        df_log_write(DF_LOG_ERROR, "DeliveryCycleFailed", fields, 1, "%s", err->detail);
        delivery_held_undo(cl);
    }
    df_lock(&ch->d->lock);
    if (code == DF_OK) {
        adopt_claimed(ch);
    } else {
        delivery_plan_failed(ch);
        df_list_move(&over, &cl->claimed);
        df_list_move(&over, &cl->back);
    }
    DF_LIST_EACH (row, &ch->ghosts, link)
        delivery_held_remove(ch, row);
    df_list_move(&over, &ch->ghosts);
    df_metric_set(ch->in_flight, (double)delivery_held_sending(ch));
    delivery_shards_leave(ch, cl->shards);
    ch->is_claiming = false;
    pthread_cond_broadcast(&ch->d->changed);
    df_unlock(&ch->d->lock);
    free_list(&over);
}

/* --- with care -------------------------------------------------------------------------------- */

/* A row that this process let go of and takes again has been counted. */
static enum df_code mark_run(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct delivery_claim *cl = (struct delivery_claim *)job;
    struct df_str *ids = DF_ARENA_ARRAY(&cl->arena, struct df_str, cl->claimed.count);
    const struct delivery_row *row;
    size_t count = 0;

    DF_LIST_EACH (row, &cl->claimed, link) {
        const struct mark *m = df_map_get(&cl->care.marks, row->id);
        if (!m || !m->own)
            ids[count++] = row->id;
    }
    return df_marks_add(db, cl->channel->c->name, ids, count, delivery_now(cl->channel), err);
}

static void note_own_marks(struct delivery_claim *cl)
{
    const struct delivery_row *row;

    DF_LIST_EACH (row, &cl->claimed, link)
        add_mark(&cl->care, row->id, 0)->own = true;
}

/* When the time with care is over, marks of rows that were let go of say nothing any more. */
static enum df_code clear_run(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct delivery_claim *cl = (struct delivery_claim *)job;
    struct df_str *ids = DF_ARENA_ARRAY(&cl->arena, struct df_str, cl->care.marks.count + 1);
    const struct mark *m;
    size_t count = 0;

    for (size_t at = 0; (m = df_map_next(&cl->care.marks, &at));)
        if (m->own)
            ids[count++] = m->id;
    return df_marks_clear(db, cl->channel->c->name, ids, count, err);
}

void delivery_claim_rest(struct delivery_channel *ch)
{
    struct delivery_claim *cl = &ch->claim;
    struct df_err err = DF_ERR_INIT;

    assert(!ch->is_claiming);
    if (!cl->care.begun)
        return;
    cl->job = (struct df_job){.run = clear_run};
    if (df_store_write_wait(ch->d->opt.store, &cl->job, &err) != DF_OK)
        df_log_warn("DeliveryCycleFailed", "%s", err.detail);
    delivery_care_end(&cl->care);
}

static void give_up_suspects(struct delivery_claim *cl)
{
    struct delivery_row *row;

    DF_LIST_EACH (row, &cl->claimed, link) {
        const struct mark *m = suspect_of(cl, row->id);
        if (m && m->taken >= DF_MARKS_MAX)
            give_up_row(row, df_arena_printf(&row->arena,
                                             "the server ended unexpectedly %lld times while it "
                                             "had this row: it is set aside",
                                             (long long)m->taken));
    }
}

/* The next step of a claim, as a job of its own. */
static void go_on(struct delivery_claim *cl, bool writes, struct df_job next)
{
    struct df_store *store = cl->channel->d->opt.store;
    struct df_err err = DF_ERR_INIT;

    cl->job = next;
    if (writes ? df_store_write(store, &cl->job) : df_store_read(store, &cl->job))
        return;
    claim_ended(&cl->job, df_err_set(&err, DF_E_BUSY, "the store's queue is full"), &err);
}

static void rows_marked(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct delivery_claim *cl = (struct delivery_claim *)job;

    if (code != DF_OK) {
        claim_ended(job, code, err);
        return;
    }
    note_own_marks(cl);
    go_on(cl, false, (struct df_job){.run = load_run, .done = claim_ended});
}

static void rows_found(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct delivery_claim *cl = (struct delivery_claim *)job;

    if (code != DF_OK || cl->claimed.count == 0) {
        claim_ended(job, code, err);
        return;
    }
    give_up_suspects(cl);
    go_on(cl, true, (struct df_job){.run = mark_run, .done = rows_marked});
}

static void find_run_start(struct delivery_claim *cl)
{
    go_on(cl, false,
          (struct df_job){.run = claim_run, .done = cl->careful ? rows_found : claim_ended});
}

/* Whether it worked or not: what is left is a row's that is not in hand. */
static void care_over(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct delivery_claim *cl = (struct delivery_claim *)job;

    if (code != DF_OK)
        df_log_warn("DeliveryCycleFailed", "%s", err->detail);
    delivery_care_end(&cl->care);
    find_run_start(cl);
}

void delivery_claim_start(struct delivery_channel *ch)
{
    struct delivery_claim *cl = &ch->claim;

    assert(ch->is_claiming && cl->claimed.count == 0 && cl->back.count == 0);
    hold_shards(ch);
    cl->begun_ms = delivery_mono_ms(ch->d);
    if (cl->care.begun && (!cl->careful || cl->care_begins))
        go_on(cl, true, (struct df_job){.run = clear_run, .done = care_over});
    else
        find_run_start(cl);
}
