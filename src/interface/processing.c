/*
 * The ticket processing, for tickets that were not processed as they were accepted: those of
 * processes with other roles and of other programs, those that are processed again, and those whose
 * outcome the database refused. It finds due tickets of the shards that this process owns, checks
 * each for its phase, and writes the outcomes of many in one transaction: Processed with the
 * return, the send to the gateway and the functional ack; or Error with every problem named.
 *
 * A claim writes nothing: no other process takes tickets of these shards. A process that dies loses
 * nothing, since the tickets are still due. ticket_state.h has the states of a ticket;
 * ticket_outcome.c writes the outcome; ticket_care.c takes up what a lost process left.
 *
 * A pass goes through the due tickets in their order, behind a cursor, so that tickets without a
 * written outcome do not hold back the others. The next pass begins at the first.
 *
 * Memory. A claim takes tickets up to CLAIM_BYTES of payloads together, and at least one; a payload
 * over the limit is not fetched at all. Tickets are parsed one at a time, and only what the outcome
 * needs is kept; outcomes are written as soon as these are OUTCOME_BYTES. So memory does not depend
 * on what waits: it is some 16 MiB, or three times the largest payload.
 */
#include "base/log.h"
#include "base/mem.h"
#include "interface/processing.sql.h"
#include "interface/processing_private.h"
#include "store/rows.h"

#include <assert.h>
#include <stdlib.h>

#define CLAIM_BYTES    (4 << 20)
#define OUTCOME_BYTES  ((size_t)4 << 20)
#define POLL_MS        1000
#define BACKOFF_MIN_MS 100
#define BACKOFF_MAX_MS 5000

/* --- claiming --------------------------------------------------------------------------------- */

static int64_t max_payload_bytes(const struct ticket_batch *b)
{
    int64_t body = b->i->opt.max_body_bytes;
    return body > DF_TICKET_PAYLOAD_MAX ? body : DF_TICKET_PAYLOAD_MAX;
}

/* The due tickets that fit together. */
struct finding {
    struct ticket_batch *b;
    int64_t bytes;
};

static void read_due(void *arg, struct df_result *r)
{
    struct finding *f = arg;
    struct ticket_batch *b = f->b;
    int64_t size = df_col_int(r, process_due_PayloadBytes);
    bool fits = size <= max_payload_bytes(b);

    b->more = b->more || (b->due_count > 0 && (!fits || f->bytes + size > CLAIM_BYTES));
    if (b->more)
        return;
    b->oversized = !fits; /* it is handled alone */
    b->due[b->due_count++] =
        (struct ticket_cursor){.due_ms = df_col_time(r, process_due_NextAttemptAt),
                               .id = df_col_int(r, process_due_Id),
                               .version = df_col_int(r, process_due_PayloadVersion)};
    b->more = !fits || b->due_count == TICKET_CLAIM_MAX;
    f->bytes += size;
}

static void read_next_due(void *arg, struct df_result *r)
{
    ((struct ticket_batch *)arg)->next_due_ms = df_col_time(r, process_next_due_NextDue);
}

static enum df_code run_find(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct ticket_batch *b = (struct ticket_batch *)job;
    struct finding f = {.b = b};
    struct df_value now = df_time(df_wall_ms(b->i->opt.clock));

    b->due_count = 0;
    b->oversized = false;
    b->more = false;
    b->next_due_ms = -1;
    df_arena_reset(&b->claimed);
    enum df_code code =
        df_db_each(db,
                   DF_Q(process_due, .now = now, .after = df_time(b->cursor.due_ms),
                        .after_id = df_int(b->cursor.id), .shards = df_int(b->shards),
                        .limit = df_int(TICKET_CLAIM_MAX)),
                   read_due, &f, err);
    if (code == DF_OK && !b->more)
        code = df_db_one(db, DF_Q(process_next_due, .now = now), read_next_due, b, NULL, err);
    return code == DF_OK && b->due_count > 0 ? ticket_health_read(db, b, err) : code;
}

/* Without FirstFailedAt, AttemptCount may be of an older version, which counted every try. */
static struct df_tries read_tries(const struct df_result *r)
{
    int64_t first_ms = df_col_time(r, process_load_FirstFailedAt);
    int64_t counted_ms = df_col_time(r, process_load_CountedAt);
    int64_t tries = df_col_int(r, process_load_TryCount) + 1;
    bool has_failed = first_ms > 0;

    return (struct df_tries){
        .tries = tries > 0 ? tries : 1, /* another program may have written anything */
        .counted = has_failed ? df_col_int(r, process_load_AttemptCount) : 0,
        .first_failed_ms = has_failed ? first_ms : 0,
        .counted_ms = counted_ms > 0 ? counted_ms : 0,
        .mark =
            df_col_null(r, process_load_TargetMark) ? -1 : df_col_int(r, process_load_TargetMark),
    };
}

static void read_loaded(void *arg, struct df_result *r)
{
    struct ticket_batch *b = arg;
    struct df_arena *a = &b->claimed;
    int64_t id = df_col_int(r, process_load_Id);

    assert(b->all_count < b->due_count);
    if (b->all_count > 0 && b->claimed.used_bytes > (size_t)2 * CLAIM_BYTES)
        return; /* payloads were replaced by larger ones: left for the next pass */
    b->all[b->all_count++] = (struct ticket){
        .id = id,
        .version = df_col_int(r, process_load_PayloadVersion),
        .due_ms = df_col_time(r, process_load_NextAttemptAt),
        .raw = df_arena_str(a, df_col_text(r, process_load_RawPayloadJson)),
        .entity = df_arena_str(a, df_col_text(r, process_load_BusinessEntity)),
        .row_doc_id = df_arena_str(a, df_col_text(r, process_load_BusinessDocId)),
        .phase = df_col_int(r, process_load_PhaseCode),
        .client_id = df_arena_str(a, df_col_text(r, process_load_ClientId)),
        .trace_parent = df_arena_str(a, df_col_text(r, process_load_TraceParent)),
        .tries = read_tries(r),
    };
}

static enum df_code run_load(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct ticket_batch *b = (struct ticket_batch *)job;
    struct df_ids ids = df_ids_for(&b->claimed, b->due_count, false);

    for (size_t i = 0; i < b->due_count; i++)
        df_ids_add_int(&ids, b->due[i].id);
    b->all_count = 0;
    b->all = DF_ARENA_ARRAY(&b->claimed, struct ticket, b->due_count);
    return df_db_each(
        db,
        DF_Q(process_load, .ids = df_ids_value(&ids), .max_bytes = df_int(max_payload_bytes(b))),
        read_loaded, b, err);
}

static enum df_code read_store(struct ticket_batch *b,
                               enum df_code (*run)(struct df_db *db, struct df_job *job,
                                                   struct df_err *err),
                               struct df_err *err)
{
    b->job = (struct df_job){.run = run};
    return df_store_read_wait(b->i->opt.store, &b->job, err);
}

/* --- the work --------------------------------------------------------------------------------- */

static void process_ticket(struct ticket_batch *b, struct ticket *t)
{
    struct df_arena *a = &b->parsed;
    struct df_err err = DF_ERR_INIT;
    const struct df_json *root = NULL;
    struct df_ticket parsed = {0};
    struct df_input in;
    struct df_span span;

    if (ticket_span_begin(b->i, t, &span)) {
        t->span = DF_ARENA_NEW(&b->claimed, struct df_span);
        *t->span = span;
    }
    df_arena_reset(a);
    if (df_json_parse(a, t->raw, &root, &err) != DF_OK) {
        ticket_judge(b->i, t, &parsed, df_str_c(err.detail), &b->kept);
        return;
    }
    df_input_init(&in, a, root);
    df_ticket_check(&in, &parsed);
    ticket_judge(b->i, t, &parsed, df_payload_problems(&in), &b->kept);
}

/* Processes tickets from `first` on until they fill one outcome; *ret_count: how many. */
static enum df_code process_some(struct ticket_batch *b, size_t first, size_t *ret_count,
                                 struct df_err *err)
{
    df_arena_reset(&b->kept);
    b->tickets = b->all + first;
    for (b->count = 0; first + b->count < b->all_count && b->kept.used_bytes < OUTCOME_BYTES;)
        process_ticket(b, &b->tickets[b->count++]);
    *ret_count = b->count;
    enum df_code code = ticket_show(b, err);
    if (code == DF_OK)
        code = ticket_write_outcomes(b, err);
    for (size_t i = 0; i < b->count; i++) {
        if (b->tickets[i].span)
            ticket_span_end(&b->tickets[i], b->tickets[i].span, code);
    }
    return code;
}

/* Tickets without a written outcome are taken again by the next pass. */
static void leave_unfinished(struct ticket_batch *b)
{
    for (size_t i = 0; i < b->all_count; i++) {
        struct ticket *t = &b->all[i];
        if (!ticket_has_ended(t->state))
            (void)ticket_happens(t, TICKET_EV_FAILED);
        if (t->state == TICKET_LEFT && b->shown)
            b->care.reset |= UINT32_C(1) << ticket_shard(t->id);
    }
}

static enum df_code process_loaded(struct ticket_batch *b, struct df_err *err)
{
    enum df_code code = DF_OK;

    b->shown = false;
    for (size_t i = 0, n = 0; i < b->all_count && code == DF_OK; i += n)
        code = process_some(b, i, &n, err);
    leave_unfinished(b);
    df_arena_reset(&b->claimed);
    df_arena_reset(&b->parsed);
    df_arena_reset(&b->kept);
    df_arena_reset(&b->params);
    return code;
}

/* --- the thread ------------------------------------------------------------------------------- */

static enum df_code take_due(struct ticket_batch *b, struct df_err *err)
{
    bool none = false;
    enum df_code code = DF_OK;

    b->careful = !b->oversized && ticket_care_needed(b);
    b->claimed_ms = df_mono_ms(b->i->opt.clock);
    if (b->oversized)
        return ticket_refuse_unread(
            b,
            df_arena_printf(&b->claimed,
                            "the payload is larger than %lld bytes: it is not processed",
                            (long long)max_payload_bytes(b)),
            false, err);
    if (b->careful)
        code = ticket_care_mark(b, &none, err);
    if (code != DF_OK || none)
        return code;
    code = read_store(b, run_load, err);
    return code == DF_OK ? process_loaded(b, err) : code;
}

/* Behind the tickets in hand; to the first one when the pass is over. A database's times may be
 * finer than the cursor's, which must not stand still. */
static void move_cursor(struct ticket_batch *b)
{
    struct ticket_cursor last = b->cursor;

    if (b->due_count > 0)
        b->cursor = b->due[b->due_count - 1];
    if (!b->more)
        b->cursor = (struct ticket_cursor)TICKET_CURSOR_START;
    else if (b->cursor.due_ms == last.due_ms && b->cursor.id == last.id)
        b->cursor = (struct ticket_cursor){.due_ms = last.due_ms + 1};
}

/* Finds due tickets and processes them. While they are in hand, their shards stay. */
static enum df_code process_due(struct ticket_batch *b, struct df_err *err)
{
    enum df_code code = read_store(b, run_find, err);
    uint32_t held = 0;

    if (code != DF_OK)
        return code;
    for (size_t i = 0; i < b->due_count; i++)
        held |= UINT32_C(1) << ticket_shard(b->due[i].id);
    for (unsigned s = 0; s < DF_SHARDS; s++) {
        if (held >> s & 1)
            df_shards_enter(b->i->shards, s);
    }
    if (b->due_count > 0)
        code = take_due(b, err);
    move_cursor(b);
    for (unsigned s = 0; s < DF_SHARDS; s++) {
        if (held >> s & 1)
            df_shards_leave(b->i->shards, s);
    }
    return code;
}

/* How long to wait for the next due ticket. */
static int64_t idle_ms(const struct ticket_batch *b)
{
    int64_t wait_ms = b->next_due_ms < 0 ? POLL_MS : b->next_due_ms - df_wall_ms(b->i->opt.clock);
    return wait_ms < 1 ? 1 : wait_ms < POLL_MS ? wait_ms : POLL_MS;
}

/* Processes one batch. Returns how long to wait then; 0: there may be more at once. */
static int64_t process_batch(void *arg)
{
    struct ticket_batch *b = arg;
    struct df_err err = DF_ERR_INIT;

    enum df_code code = ticket_health_flush(b, &err);
    b->shards = df_shards_mine(b->i->shards, b->epochs);
    if (code == DF_OK)
        code = ticket_care_begin(b, &err);
    bool with_care = b->care.shards != 0;
    b->shards = with_care ? b->care.shards : b->shards;
    if (code == DF_OK && b->shards) {
        code = process_due(b, &err);
        if (code == DF_OK && with_care && (!b->more || b->care.left == 0))
            code = ticket_care_end(b, &err);
    }
    if (code == DF_OK)
        return !b->shards ? POLL_MS : b->due_count > 0 || with_care ? 0 : idle_ms(b);
    df_log_error("TicketProcessingFailed", "%s", err.detail);
    return DF_LOOP_FAILED;
}

static void shards_changed(void *arg, uint32_t taken, uint32_t unclean)
{
    struct df_interface *i = arg;

    (void)taken;
    ticket_care_lost(i, unclean);
    df_loop_wake(&i->processing);
}

static void free_batch(void *arg)
{
    struct ticket_batch *b = arg;

    df_arena_release(&b->claimed);
    df_arena_release(&b->parsed);
    df_arena_release(&b->kept);
    df_arena_release(&b->params);
    free(b);
}

void ticket_processing_start(struct df_interface *i)
{
    struct ticket_batch *b = df_calloc(1, sizeof(*b));

    assert(i->opt.shards);
    b->i = i;
    b->cursor = (struct ticket_cursor)TICKET_CURSOR_START;
    df_arena_init(&b->claimed);
    df_arena_init(&b->parsed);
    df_arena_init(&b->kept);
    df_arena_init(&b->params);
    i->processes = true;
    i->shards = df_shards_add(i->opt.shards, TICKET_CHANNEL, shards_changed, i);
    df_loop_start(&i->processing, &(struct df_loop_options){.name = "tickets",
                                                            .clock = i->opt.clock,
                                                            .backoff_min_ms = BACKOFF_MIN_MS,
                                                            .backoff_max_ms = BACKOFF_MAX_MS,
                                                            .turn = process_batch,
                                                            .ended = free_batch,
                                                            .arg = b});
}
