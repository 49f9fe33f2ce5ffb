/*
 * The ticket processing. It claims waiting tickets, checks each for its phase, and writes the
 * outcomes of many in one transaction: Processed with the return, the send to the gateway and the
 * functional ack; or Error with every problem named.
 *
 * Claim and outcome are two commits. Between them the ticket is Processing, under a lease, so a
 * process that dies there loses nothing. ticket_state.h has the states of a ticket;
 * ticket_outcome.c writes the outcome.
 *
 * Memory. A claim takes tickets up to CLAIM_BYTES of payloads together, and at least one; a payload
 * over the limit is not fetched at all. Tickets are parsed one at a time, and only what the outcome
 * needs is kept; outcomes are written as soon as these are OUTCOME_BYTES. So memory does not depend
 * on what waits: it is some 16 MiB, or three times the largest payload.
 */
#include "base/log.h"
#include "base/mem.h"
#include "interface/payload.h"
#include "interface/processing.sql.h"
#include "interface/processing_private.h"
#include "store/rows.h"

#include <assert.h>
#include <stdlib.h>

#define CLAIM_MAX      256
#define CLAIM_BYTES    ((int64_t)4 << 20)
#define OUTCOME_BYTES  ((size_t)4 << 20)
#define POLL_MS        1000
#define BACKOFF_MIN_MS 100
#define BACKOFF_MAX_MS 5000
#define ERROR_UNITS    2000
#define ACK_MAX_BYTES  (1 << 20)

enum ticket_action ticket_happens(struct ticket *t, enum ticket_event event)
{
    struct ticket_step step = df_ticket_step(t->state, event);

    assert(step.action != TICKET_IMPOSSIBLE);
    t->state = step.state;
    return step.action;
}

/* --- claiming --------------------------------------------------------------------------------- */

static int64_t max_payload_bytes(const struct ticket_batch *b)
{
    int64_t body = b->i->opt.max_body_bytes;
    return body > DF_TICKET_PAYLOAD_MAX ? body : DF_TICKET_PAYLOAD_MAX;
}

/* The due tickets that fit together. */
struct due {
    struct ticket_batch *b;
    struct df_ids ids;
    size_t count;
    int64_t bytes;
    bool full;
};

static void read_due(void *arg, struct df_result *r)
{
    struct due *d = arg;
    int64_t id = df_col_int(r, process_due_Id);
    int64_t size = df_col_int(r, process_due_PayloadBytes);
    bool fits = size <= max_payload_bytes(d->b);

    d->full = d->full || d->count == CLAIM_MAX ||
              (d->count > 0 && (!fits || d->bytes + size > CLAIM_BYTES));
    if (d->full)
        return;
    if (!fits) { /* an oversized ticket is handled alone */
        d->b->oversized = id;
        d->full = true;
        return;
    }
    df_ids_add_int(&d->ids, id);
    d->bytes += size;
    d->count++;
}

/* Writes Error without a claim and without reading the payload, which would take several times its
 * size. */
static enum df_code refuse_oversized(struct df_db *db, struct ticket_batch *b, struct df_value now,
                                     struct df_err *err)
{
    struct df_str why =
        df_arena_printf(&b->claimed, "the payload is larger than %lld bytes: it is not processed",
                        (long long)max_payload_bytes(b));
    return df_db_exec(db,
                      DF_Q(process_oversized,
                           .attempts = df_int(b->i->opt.delivery_settings.retry.max_attempts),
                           .error = df_text(why), .now = now, .id = df_int(b->oversized)),
                      NULL, err);
}

/* Without FirstFailedAt, AttemptCount may be of an older version, which counted every try. */
static struct df_tries read_tries(const struct df_result *r)
{
    int64_t first_ms = df_col_time(r, process_claim_FirstFailedAt);
    int64_t counted_ms = df_col_time(r, process_claim_CountedAt);
    int64_t tries = df_col_int(r, process_claim_TryCount);
    bool has_failed = first_ms > 0;

    return (struct df_tries){
        .tries = tries > 0 ? tries : 1, /* another program may have written anything */
        .counted = has_failed ? df_col_int(r, process_claim_AttemptCount) : 0,
        .first_failed_ms = has_failed ? first_ms : 0,
        .counted_ms = counted_ms > 0 ? counted_ms : 0,
        .mark =
            df_col_null(r, process_claim_TargetMark) ? -1 : df_col_int(r, process_claim_TargetMark),
    };
}

static void read_claimed(void *arg, struct df_result *r)
{
    struct ticket_batch *b = arg;
    struct df_arena *a = &b->claimed;

    assert(b->all_count < CLAIM_MAX);
    b->all[b->all_count++] = (struct ticket){
        .id = df_col_int(r, process_claim_Id),
        .fence = df_col_int(r, process_claim_Fence),
        .raw = df_arena_str(a, df_col_text(r, process_claim_RawPayloadJson)),
        .entity = df_arena_str(a, df_col_text(r, process_claim_BusinessEntity)),
        .row_doc_id = df_arena_str(a, df_col_text(r, process_claim_BusinessDocId)),
        .phase = df_col_int(r, process_claim_PhaseCode),
        .client_id = df_arena_str(a, df_col_text(r, process_claim_ClientId)),
        .tries = read_tries(r),
    };
}

static void read_next_due(void *arg, struct df_result *r)
{
    ((struct ticket_batch *)arg)->next_due_ms = df_col_time(r, process_next_due_NextDue);
}

static enum df_code run_ticket_claim(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct ticket_batch *b = (struct ticket_batch *)job;
    struct df_value now = df_time(df_wall_ms(b->i->opt.clock));

    b->all_count = 0;
    b->oversized = 0;
    b->next_due_ms = -1;
    df_arena_reset(&b->claimed);
    b->all = DF_ARENA_ARRAY(&b->claimed, struct ticket, CLAIM_MAX);
    struct due due = {.b = b, .ids = df_ids_for(&b->claimed, CLAIM_MAX, false)};
    enum df_code code = df_db_each(db, DF_Q(process_due, .now = now, .limit = df_int(CLAIM_MAX)),
                                   read_due, &due, err);
    if (code != DF_OK)
        return code;
    if (b->oversized)
        return refuse_oversized(db, b, now, err);
    if (due.count == 0)
        return df_db_one(db, DF_Q0(process_next_due), read_next_due, b, NULL, err);
    code = ticket_health_read(db, b, err);
    if (code != DF_OK)
        return code;
    return df_db_each(db,
                      DF_Q(process_claim, .now = now,
                           .lease_until = df_time(now.i + b->i->opt.delivery_settings.lease_ms),
                           .ids = df_ids_value(&due.ids)),
                      read_claimed, b, err);
}

/* --- the work --------------------------------------------------------------------------------- */

struct df_str ticket_text(struct df_arena *a, struct df_buf *take_buf)
{
    struct df_str s = DF_STR_NULL;
    if (!df_buf_failed(take_buf))
        s = df_arena_str(a, df_buf_str(take_buf));
    df_buf_release(take_buf);
    return s;
}

struct df_str ticket_problem(struct ticket_batch *b, struct df_str text)
{
    return df_arena_str(&b->kept, df_utf8_cut(text, ERROR_UNITS));
}

/* The ack of a ticket, with its problems if it has any. */
static struct df_str build_ack(struct ticket_batch *b, const struct df_ticket *t,
                               struct df_str problems)
{
    struct df_buf out;
    struct df_ack ack = {
        .doc = t->doc,
        .object = DF_ACK_TICKET,
        .operation = DF_ACK_PROCESS,
        .status = problems.ptr ? DF_ACK_INVALID : DF_ACK_DONE,
        .message = problems.ptr ? problems : DF_STR("Processed"),
        .header_count = t->target_count,
    };

    df_buf_init(&out, ACK_MAX_BYTES);
    df_ack_build(&ack, df_str_c(b->i->opt.settings.ack_business_application), &out);
    return ticket_text(&b->kept, &out);
}

static struct df_str build_return(struct ticket_batch *b, const struct df_ticket *t)
{
    struct df_buf out;

    df_buf_init(&out, ACK_MAX_BYTES);
    df_ticket_return_build(t, df_wall_ms(b->i->opt.clock), &out);
    return ticket_text(&b->kept, &out);
}

/* Builds the return and the ack. One that would be too long is a problem of the ticket. */
static void build_outcome(struct ticket_batch *b, struct ticket *t, const struct df_ticket *parsed)
{
    t->doc_id = df_arena_str(&b->kept, parsed->doc.business_doc_id);
    bool wants_ack = parsed->ack_required && t->doc_id.ptr;
    if (wants_ack)
        t->ack = build_ack(b, parsed, t->problems);
    if (!t->problems.ptr)
        t->answer = build_return(b, parsed);
    if (t->problems.ptr || (t->answer.ptr && (t->ack.ptr || !wants_ack)))
        return;
    t->ack = t->answer = DF_STR_NULL;
    t->problems =
        ticket_problem(b, df_arena_printf(&b->parsed,
                                          "its return or functional ack would be larger than %d "
                                          "bytes",
                                          ACK_MAX_BYTES));
}

static void check_ticket(struct ticket_batch *b, struct ticket *t)
{
    struct df_arena *a = &b->parsed;
    struct df_err err = DF_ERR_INIT;
    const struct df_json *root = NULL;
    struct df_ticket parsed = {0};
    struct df_input in;

    df_arena_reset(a);
    if (df_json_parse(a, t->raw, &root, &err) != DF_OK) {
        t->problems = ticket_problem(b, df_str_c(err.detail));
        return;
    }
    df_input_init(&in, a, root);
    df_ticket_check(&in, &parsed);
    struct df_str problems = df_payload_problems(&in);
    if (problems.ptr)
        t->problems = ticket_problem(b, problems);
    build_outcome(b, t, &parsed);
}

static void process_ticket(struct ticket_batch *b, struct ticket *t)
{
    check_ticket(b, t);
    (void)ticket_happens(t, t->problems.ptr ? TICKET_EV_UNFIT : TICKET_EV_FIT);
}

/* --- the thread ------------------------------------------------------------------------------- */

/* Processes tickets from `first` on until they fill one outcome; *ret_count: how many. */
static enum df_code process_some(struct ticket_batch *b, size_t first, size_t *ret_count,
                                 struct df_err *err)
{
    df_arena_reset(&b->kept);
    b->tickets = b->all + first;
    for (b->count = 0; first + b->count < b->all_count && b->kept.used_bytes < OUTCOME_BYTES;)
        process_ticket(b, &b->tickets[b->count++]);
    *ret_count = b->count;
    return ticket_write_outcomes(b, err);
}

/* Tickets without a written outcome are claimed again when their lease is over. */
static void give_up_unfinished(struct ticket_batch *b)
{
    for (size_t i = 0; i < b->all_count; i++) {
        if (!ticket_has_ended(b->all[i].state))
            (void)ticket_happens(&b->all[i], TICKET_EV_FAILED);
    }
}

static enum df_code process_claimed(struct ticket_batch *b, struct df_err *err)
{
    enum df_code code = DF_OK;

    qsort(b->all, b->all_count, sizeof(struct ticket), ticket_order);
    for (size_t i = 0, n = 0; i < b->all_count && code == DF_OK; i += n)
        code = process_some(b, i, &n, err);
    if (code != DF_OK)
        give_up_unfinished(b);
    df_arena_reset(&b->claimed);
    df_arena_reset(&b->parsed);
    df_arena_reset(&b->kept);
    df_arena_reset(&b->params);
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
    int64_t wait_ms = 0;

    b->job = (struct df_job){.run = run_ticket_claim};
    enum df_code code = df_store_write_wait(b->i->opt.store, &b->job, &err);
    if (code == DF_OK && b->oversized) {
        struct df_log_field fields[] = {DF_FI("id", b->oversized)};
        ticket_count_outcome("rejected", 1);
        df_log_write(DF_LOG_WARN, "TicketRejected", fields, 1, "the ticket's payload is too large");
    } else if (code == DF_OK && b->all_count > 0) {
        code = process_claimed(b, &err);
    } else if (code == DF_OK) {
        wait_ms = idle_ms(b);
    }
    if (code == DF_OK)
        return wait_ms;
    df_log_error("TicketProcessingFailed", "%s", err.detail);
    return DF_LOOP_FAILED;
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

    b->i = i;
    df_arena_init(&b->claimed);
    df_arena_init(&b->parsed);
    df_arena_init(&b->kept);
    df_arena_init(&b->params);
    df_loop_start(&i->processing, &(struct df_loop_options){.name = "tickets",
                                                            .clock = i->opt.clock,
                                                            .backoff_min_ms = BACKOFF_MIN_MS,
                                                            .backoff_max_ms = BACKOFF_MAX_MS,
                                                            .turn = process_batch,
                                                            .ended = free_batch,
                                                            .arg = b});
}
