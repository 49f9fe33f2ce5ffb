/*
 * Writes the outcomes of many tickets in one transaction: the rows' states, returns, acks and
 * webhooks. The transaction locks the shards and the rows first. Nothing is written for a ticket
 * whose shard has another owner, or whose payload or due time has changed since its claim.
 *
 * The transaction may run more than once: it does not change the tickets' states, and only notes
 * what it finds. The states change after the commit.
 */
#include "base/log.h"
#include "base/personal.h"
#include "base/tally.h"
#include "interface/processing.sql.h"
#include "interface/processing_private.h"
#include "store/rows.h"

#include <assert.h>
#include <stdlib.h>

#define SHOW_AFTER_MS 1000

/* --- rows ------------------------------------------------------------------------------------- */

enum df_code ticket_lock_shards(struct df_db *db, const struct ticket_batch *b, uint32_t shards,
                                uint32_t *ret, struct df_err *err)
{
    int64_t epochs[DF_SHARDS];
    enum df_code code = df_shards_lock(db, b->i->shards, shards, epochs, err);

    *ret = 0;
    for (unsigned s = 0; s < DF_SHARDS && code == DF_OK; s++) {
        if ((shards >> s & 1) && epochs[s] == b->epochs[s])
            *ret |= UINT32_C(1) << s;
    }
    return code;
}

static int compare_ids(const void *a, const void *b)
{
    const struct ticket *x = a;
    const struct ticket *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

static void read_locked(void *arg, struct df_result *r)
{
    const struct ticket_batch *b = arg;
    const struct ticket like = {.id = df_col_int(r, process_lock_Id)};
    struct ticket *t = bsearch(&like, b->tickets, b->count, sizeof(struct ticket), compare_ids);

    if (t)
        t->found = (b->own >> ticket_shard(t->id) & 1) &&
                   df_col_int(r, process_lock_PayloadVersion) == t->version &&
                   df_col_time(r, process_lock_NextAttemptAt) == t->due_ms;
}

/* Sets t->found of the tickets that are as they were at the claim. */
static enum df_code lock_tickets(struct df_db *db, struct ticket_batch *b, struct df_err *err)
{
    struct df_ids ids = df_ids_for(&b->params, b->count, false);
    uint32_t shards = 0;

    for (size_t i = 0; i < b->count; i++) {
        b->tickets[i].found = false;
        shards |= UINT32_C(1) << ticket_shard(b->tickets[i].id);
        df_ids_add_int(&ids, b->tickets[i].id);
    }
    enum df_code code = ticket_lock_shards(db, b, shards, &b->own, err);
    if (code != DF_OK)
        return code;
    return df_db_each(db, DF_Q(process_lock, .ids = df_ids_value(&ids)), read_locked, b, err);
}

static struct df_value time_or_null(int64_t wall_ms)
{
    return wall_ms > 0 ? df_time(wall_ms) : df_null(DF_TIME);
}

/* A ticket that is not fit has no failures of ours to tell of. */
static void add_failed(struct df_rows *rows, struct ticket_batch *b, const struct ticket *t,
                       struct df_value now)
{
    const struct df_retry_policy *retry = &b->i->opt.delivery_settings.retry;
    struct df_tries tries = {.counted = retry->max_attempts, .mark = -1};
    struct df_value due = df_null(DF_TIME);

    if (t->state != TICKET_UNFIT)
        tries = t->tries;
    if (t->state == TICKET_REFUSED)
        due = df_time(now.i + df_retry_delay_ms(retry, tries.tries, -1, b->i->opt.clock));
    DF_ROWS_ADD(rows, process_failed,
                .error = df_text(df_mask_note(t->problems, SIZE_MAX, &b->params)), .now = now,
                .due = due, .attempts = df_int(tries.counted),
                .first_failed = time_or_null(tries.first_failed_ms),
                .counted = time_or_null(tries.counted_ms),
                .mark = tries.mark < 0 ? df_null(DF_INT) : df_int(tries.mark), .id = df_int(t->id),
                .version = df_int(t->version));
}

/* Each row must change: it is locked. In a database that ignores lock hints another transaction may
 * have changed it. */
static enum df_code write_rows(struct df_db *db, const struct df_rows *rows, struct df_arena *a,
                               struct df_err *err)
{
    int64_t *affected = DF_ARENA_ARRAY(a, int64_t, rows->count);
    enum df_code code = df_rows_run(db, rows, affected, err);

    for (size_t i = 0; i < rows->count && code == DF_OK; i++) {
        if (affected[i] == 0)
            code = df_err_set(err, DF_E_DB_CONFLICT, "a ticket has changed meanwhile");
    }
    return code;
}

/* Writes Processed or Error; t->found tells whether the row was still as claimed. */
static enum df_code settle_tickets(struct df_db *db, struct ticket_batch *b, struct df_value now,
                                   struct df_err *err)
{
    struct df_rows done = df_rows_for(&b->params, &df_q_process_done, b->count);
    struct df_rows failed = df_rows_for(&b->params, &df_q_process_failed, b->count);
    enum df_code code = lock_tickets(db, b, err);

    for (size_t i = 0; i < b->count && code == DF_OK; i++) {
        const struct ticket *t = &b->tickets[i];
        if (t->found && ticket_is_fit(t))
            DF_ROWS_ADD(&done, process_done, .now = now, .id = df_int(t->id),
                        .version = df_int(t->version));
        else if (t->found)
            add_failed(&failed, b, t, now);
    }
    if (code == DF_OK)
        code = write_rows(db, &done, &b->params, err);
    return code == DF_OK ? write_rows(db, &failed, &b->params, err) : code;
}

static enum df_code write_effects(struct df_db *db, struct ticket_batch *b, struct df_value now,
                                  struct df_err *err)
{
    struct ticket_effects e = {.i = b->i,
                               .tickets = DF_ARENA_ARRAY(&b->params, struct ticket *, b->count),
                               .count = b->count,
                               .arena = &b->params};

    for (size_t i = 0; i < b->count; i++)
        e.tickets[i] = &b->tickets[i];
    enum df_code code = ticket_effects_write(db, &e, now, err);
    b->acks = e.acks;
    b->webhooks = e.webhooks;
    return code;
}

/* Tickets of other programs were not received here: they get their entries now. */
static enum df_code write_people(struct df_db *db, struct ticket_batch *b, struct df_err *err)
{
    struct df_subject_doc *docs = DF_ARENA_ARRAY(&b->params, struct df_subject_doc, b->count);
    size_t n = 0;

    for (size_t i = 0; i < b->count && b->i->opt.keys; i++) {
        const struct ticket *t = &b->tickets[i];
        if (!t->found || t->client_id.ptr)
            continue;
        struct df_subjects people = df_subjects_in(b->i->opt.keys, t->raw, &b->params);
        docs[n++] =
            (struct df_subject_doc){.place = "ticket",
                                    .row = df_arena_printf(&b->params, "%lld", (long long)t->id),
                                    .subjects = people.at,
                                    .count = people.count};
    }
    return df_subjects_write_all(db, docs, n, &b->params, err);
}

static size_t count_processed(const struct ticket_batch *b)
{
    size_t count = 0;

    for (size_t i = 0; i < b->count; i++)
        count += b->tickets[i].found && ticket_is_fit(&b->tickets[i]);
    return count;
}

static enum df_code run_outcome(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct ticket_batch *b = (struct ticket_batch *)job;
    struct df_value now = df_time(df_wall_ms(b->i->opt.clock));

    df_arena_reset(&b->params);
    b->due_ms = now.i;
    enum df_code code = settle_tickets(db, b, now, err);
    if (code == DF_OK)
        code = write_effects(db, b, now, err);
    if (code == DF_OK)
        code = write_people(db, b, err);
    if (code == DF_OK && b->careful)
        code = ticket_care_clear(db, b, err);
    return code == DF_OK ? ticket_health_write(db, b, count_processed(b), now, err) : code;
}

/* --- after the commit ------------------------------------------------------------------------- */

static void tally_ticket(const struct ticket *t)
{
    struct df_tallied n = {
        .processed = t->state == TICKET_PROCESSED,
        .failed = t->state == TICKET_REJECTED || t->state == TICKET_PUT_OFF ||
                  t->state == TICKET_GIVEN_UP,
    };
    if (n.processed + n.failed > 0)
        df_tally(t->client_id, DF_STR(TICKET_CHANNEL), &n);
}

static void tell_of_outcomes(struct ticket_batch *b)
{
    size_t counts[TICKET_STATES] = {0};

    ticket_health_settled(b, count_processed(b));
    for (size_t i = 0; i < b->count; i++) {
        struct ticket *t = &b->tickets[i];
        ticket_tell(t, ticket_happens(t, t->found ? TICKET_EV_WRITTEN : TICKET_EV_FENCED));
        counts[t->state]++;
        tally_ticket(t);
    }
    ticket_count_outcome("processed", counts[TICKET_PROCESSED]);
    ticket_count_outcome("rejected", counts[TICKET_REJECTED]);
    ticket_count_outcome("refused", counts[TICKET_PUT_OFF]);
    ticket_count_outcome("given_up", counts[TICKET_GIVEN_UP]);
    ticket_count_outcome("overtaken", counts[TICKET_OVERTAKEN]);
    if (b->careful)
        ticket_care_cleared(b);
    ticket_effects_wake(b->i, counts[TICKET_PROCESSED] > 0, b->acks, b->webhooks > 0, b->due_ms);
}

static enum df_code write_outcome(struct ticket_batch *b, struct df_err *err)
{
    b->job = (struct df_job){.run = run_outcome};
    enum df_code code = df_store_write_wait(b->i->opt.store, &b->job, err);
    if (code == DF_OK)
        tell_of_outcomes(b);
    return code;
}

/* Refused for its content: another attempt would not help. */
static bool is_refusal(enum df_code code)
{
    return code != DF_OK && df_code_retry(code) == DF_RETRY_NEVER;
}

/* Writes Error, due again or for a person, in place of the outcome that the database refused. */
static enum df_code write_refusal(struct ticket_batch *b, struct ticket *t, struct df_err *err)
{
    struct df_log_field fields[] = {DF_F("correlationId", t->doc_id), DF_FI("id", t->id)};

    df_log_write(DF_LOG_ERROR, "TicketRefused", fields, 2,
                 "the database refuses the ticket's outcome: %s", err->detail);
    t->ack = DF_STR_NULL;
    t->problems = ticket_problem(&b->kept, df_str_c(df_err_outside(err)));
    enum df_code code = write_outcome(b, err);
    if (code != DF_OK)
        (void)ticket_happens(t, is_refusal(code) ? TICKET_EV_REFUSED : TICKET_EV_FAILED);
    return code;
}

/* Writes each outcome by itself: one that the database refuses does not hold back the others. */
static enum df_code write_one_by_one(struct ticket_batch *b, struct df_err *err)
{
    struct ticket *all = b->tickets;
    size_t count = b->count;
    enum df_code failed = DF_OK; /* of a ticket for which not even the refusal was written */

    b->count = 1;
    for (size_t i = 0; i < count; i++) {
        b->tickets = &all[i];
        enum df_code code = ticket_show(b, err);
        if (code == DF_OK)
            code = write_outcome(b, err);
        if (code != DF_OK && !is_refusal(code))
            return code;
        if (code != DF_OK &&
            ticket_happens(&all[i], ticket_judge_failure(b, &all[i])) == TICKET_WRITE_REFUSAL)
            code = write_refusal(b, &all[i], err);
        failed = code != DF_OK ? code : failed;
    }
    return failed;
}

enum df_code ticket_write_outcomes(struct ticket_batch *b, struct df_err *err)
{
    enum df_code code = write_outcome(b, err);
    return is_refusal(code) ? write_one_by_one(b, err) : code;
}

/* --- tickets that are not read, and tickets that take long ------------------------------------ */

struct refusal {
    struct df_job job;
    struct ticket_batch *b;
    const struct ticket_cursor *due;
    struct df_str why;
    bool given_up;
    int64_t written; /* 0: the ticket has another payload by now, or another owner */
};

static enum df_code run_refusal(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct refusal *f = (struct refusal *)job;
    struct df_value now = df_time(df_wall_ms(f->b->i->opt.clock));
    int64_t id = f->due->id;
    uint32_t own;
    enum df_code code = ticket_lock_shards(db, f->b, UINT32_C(1) << ticket_shard(id), &own, err);

    f->written = 0;
    if (code != DF_OK || !own)
        return code;
    code = df_db_exec(
        db,
        DF_Q(process_refuse, .error = df_text(df_mask_note(f->why, SIZE_MAX, &f->b->params)),
             .now = now, .attempts = df_int(f->b->i->opt.delivery_settings.retry.max_attempts),
             .first_failed = f->given_up ? now : df_null(DF_TIME), .id = df_int(id),
             .version = df_int(f->due->version)),
        &f->written, err);
    struct df_str key = df_arena_printf(&f->b->params, "%lld", (long long)id);
    return code == DF_OK ? df_marks_clear(db, TICKET_CHANNEL, &key, 1, err) : code;
}

enum df_code ticket_refuse_unread(struct ticket_batch *b, struct df_str why, bool given_up,
                                  struct df_err *err)
{
    struct refusal f = {
        .job = {.run = run_refusal}, .b = b, .due = &b->due[0], .why = why, .given_up = given_up};
    struct df_log_field fields[] = {DF_FI("id", b->due[0].id)};
    enum df_code code = df_store_write_wait(b->i->opt.store, &f.job, err);

    df_arena_reset(&b->params);
    if (code != DF_OK || f.written == 0)
        return code;
    ticket_count_outcome(given_up ? "given_up" : "rejected", 1);
    df_tally(DF_STR_NULL, DF_STR(TICKET_CHANNEL), &(struct df_tallied){.failed = 1});
    df_log_write(given_up ? DF_LOG_ERROR : DF_LOG_WARN,
                 given_up ? "TicketGivenUp" : "TicketRejected", fields, 1, DF_STR_FMT,
                 DF_STR_ARG(why));
    return DF_OK;
}

static enum df_code run_show(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct ticket_batch *b = (struct ticket_batch *)job;
    struct df_value now = df_time(df_wall_ms(b->i->opt.clock));
    struct df_rows rows = df_rows_for(&b->params, &df_q_process_show, b->all_count);
    uint32_t own;
    enum df_code code = ticket_lock_shards(db, b, b->shards, &own, err);

    for (size_t i = 0; i < b->all_count; i++) {
        const struct ticket *t = &b->all[i];
        if (!ticket_has_ended(t->state) && (own >> ticket_shard(t->id) & 1))
            DF_ROWS_ADD(&rows, process_show, .now = now, .id = df_int(t->id),
                        .version = df_int(t->version));
    }
    return code == DF_OK ? df_rows_run(db, &rows, NULL, err) : code;
}

enum df_code ticket_show(struct ticket_batch *b, struct df_err *err)
{
    if (b->shown || df_mono_ms(b->i->opt.clock) - b->claimed_ms < SHOW_AFTER_MS)
        return DF_OK;
    b->shown = true;
    df_arena_reset(&b->params);
    b->job = (struct df_job){.run = run_show};
    enum df_code code = df_store_write_wait(b->i->opt.store, &b->job, err);
    return is_refusal(code) ? DF_OK : code;
}
