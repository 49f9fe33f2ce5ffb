/*
 * Writes the outcomes of many tickets in one transaction: the rows' states, returns, acks and
 * webhooks. Each is written under the fence of the ticket's claim, so that nothing is written for a
 * row that has changed since.
 *
 * The transaction may run more than once: it does not change the tickets' states, and only notes
 * what it finds. The states change after the commit.
 */
#include "base/log.h"
#include "base/metrics.h"
#include "interface/acks.sql.h"
#include "interface/processing.sql.h"
#include "interface/processing_private.h"
#include "store/rows.h"
#include "webhooks/webhooks.h"
#include "json/write.h"

#include <assert.h>
#include <stdlib.h>

#define EVENT_MAX (64 << 10)

static struct df_metric_family processed_total = {
    .name = "dataflow_tickets_processed_total",
    .help = "Tickets whose processing ended, by outcome (processed, rejected, refused, given_up, "
            "overtaken).",
    .type = DF_COUNTER,
    .labels = {"outcome"},
};

/* --- rows ------------------------------------------------------------------------------------- */

static bool ticket_is_fit(const struct ticket *t)
{
    return t->state == TICKET_FIT;
}

int ticket_order(const void *a, const void *b)
{
    const struct ticket *x = a;
    const struct ticket *y = b;

    if (x->fence != y->fence)
        return x->fence < y->fence ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Tickets with the same fence, ordered by id. */
struct group {
    struct ticket *at;
    size_t count;
};

static struct ticket *find_ticket(struct group g, int64_t id)
{
    const struct ticket like = {.id = id, .fence = g.at[0].fence};
    return bsearch(&like, g.at, g.count, sizeof(struct ticket), ticket_order);
}

static void read_done(void *arg, struct df_result *r)
{
    struct ticket *t = find_ticket(*(struct group *)arg, df_col_int(r, process_done_Id));
    if (t)
        t->found = true;
}

static enum df_code settle_done(struct df_db *db, struct ticket_batch *b, struct group g,
                                struct df_value now, struct df_err *err)
{
    struct df_ids ids = df_ids_for(&b->params, g.count, false);
    size_t fit = 0;

    for (size_t i = 0; i < g.count; i++) {
        if (!ticket_is_fit(&g.at[i]))
            continue;
        df_ids_add_int(&ids, g.at[i].id);
        fit++;
    }
    if (fit == 0)
        return DF_OK;
    return df_db_each(
        db,
        DF_Q(process_done, .now = now, .ids = df_ids_value(&ids), .fence = df_int(g.at[0].fence)),
        read_done, &g, err);
}

static struct df_value time_or_null(int64_t wall_ms)
{
    return wall_ms > 0 ? df_time(wall_ms) : df_null(DF_TIME);
}

/* A ticket that is not fit has no failures of ours to tell of. */
static void add_failed(struct df_rows *rows, const struct ticket_batch *b, const struct ticket *t,
                       struct df_value now)
{
    const struct df_retry_policy *retry = &b->i->opt.delivery_settings.retry;
    struct df_tries tries = {.counted = retry->max_attempts, .mark = -1};
    struct df_value due = df_null(DF_TIME);

    if (t->state != TICKET_UNFIT)
        tries = t->tries;
    if (t->state == TICKET_REFUSED)
        due = df_time(now.i + df_retry_delay_ms(retry, tries.tries, -1, b->i->opt.clock));
    DF_ROWS_ADD(rows, process_failed, .error = df_text(t->problems), .now = now, .due = due,
                .attempts = df_int(tries.counted),
                .first_failed = time_or_null(tries.first_failed_ms),
                .counted = time_or_null(tries.counted_ms),
                .mark = tries.mark < 0 ? df_null(DF_INT) : df_int(tries.mark), .id = df_int(t->id),
                .fence = df_int(t->fence));
}

static enum df_code settle_failed(struct df_db *db, struct ticket_batch *b, struct df_value now,
                                  struct df_err *err)
{
    struct df_rows failed = df_rows_for(&b->params, &df_q_process_failed, b->count);
    int64_t *affected = DF_ARENA_ARRAY(&b->params, int64_t, b->count);

    for (size_t i = 0; i < b->count; i++) {
        if (!ticket_is_fit(&b->tickets[i]))
            add_failed(&failed, b, &b->tickets[i], now);
    }
    enum df_code code = df_rows_run(db, &failed, affected, err);
    for (size_t i = 0, f = 0; i < b->count && code == DF_OK; i++) {
        if (!ticket_is_fit(&b->tickets[i]))
            b->tickets[i].found = affected[f++] == 1;
    }
    return code;
}

/* Writes Processed or Error; t->found tells whether the row was still as claimed. */
static enum df_code settle_tickets(struct df_db *db, struct ticket_batch *b, struct df_value now,
                                   struct df_err *err)
{
    enum df_code code = DF_OK;

    for (size_t i = 0; i < b->count; i++)
        b->tickets[i].found = b->tickets[i].returned = false;
    for (size_t i = 0, n; i < b->count && code == DF_OK; i += n) {
        for (n = 1; i + n < b->count && b->tickets[i + n].fence == b->tickets[i].fence;)
            n++;
        assert(i + n == b->count || b->tickets[i].fence < b->tickets[i + n].fence);
        code = settle_done(db, b, (struct group){b->tickets + i, n}, now, err);
    }
    return code == DF_OK ? settle_failed(db, b, now, err) : code;
}

static void read_returned(void *arg, struct df_result *r)
{
    struct ticket_batch *b = arg;
    int64_t id = df_col_int(r, return_known_Id);

    for (size_t i = 0; i < b->count; i++)
        b->tickets[i].returned = b->tickets[i].returned || b->tickets[i].id == id;
}

/* Finds out which tickets have a return already. */
static enum df_code find_returned(struct df_db *db, struct ticket_batch *b, struct df_err *err)
{
    struct df_ids ids = df_ids_for(&b->params, b->count, false);
    bool any = false;

    for (size_t i = 0; i < b->count; i++) {
        df_ids_add_int(&ids, b->tickets[i].id);
        any = any || (b->tickets[i].found && ticket_is_fit(&b->tickets[i]));
    }
    if (!any)
        return DF_OK;
    return df_db_each(db, DF_Q(return_known, .ids = df_ids_value(&ids)), read_returned, b, err);
}

static enum df_code enqueue_returns(struct df_db *db, struct ticket_batch *b, struct df_value now,
                                    struct df_err *err)
{
    const char *url = b->i->opt.settings.ticket_return_url;
    struct df_value target = df_text(df_str_c(url ? url : ""));
    struct df_rows replace = df_rows_for(&b->params, &df_q_return_replace, b->count);
    struct df_rows insert = df_rows_for(&b->params, &df_q_return_insert, b->count);
    struct df_rows pending = df_rows_for(&b->params, &df_q_return_pending_ticket, b->count);

    enum df_code code = find_returned(db, b, err);
    for (size_t i = 0; i < b->count && code == DF_OK; i++) {
        const struct ticket *t = &b->tickets[i];
        if (!t->found || !ticket_is_fit(t))
            continue;
        if (!t->returned) {
            DF_ROWS_ADD(&insert, return_insert, .entity = df_text(t->entity),
                        .doc_id = df_text(t->row_doc_id), .phase = df_int(t->phase),
                        .payload = df_text(t->answer), .target_url = target, .now = now);
            continue;
        }
        DF_ROWS_ADD(&replace, return_replace, .payload = df_text(t->answer), .now = now,
                    .ticket = df_int(t->id));
        DF_ROWS_ADD(&pending, return_pending_ticket, .ticket = df_int(t->id));
    }
    if (code == DF_OK)
        code = df_rows_run(db, &replace, NULL, err);
    if (code == DF_OK)
        code = df_rows_run(db, &insert, NULL, err);
    return code == DF_OK ? df_rows_run(db, &pending, NULL, err) : code;
}

static enum df_code enqueue_acks(struct df_db *db, struct ticket_batch *b, struct df_value now,
                                 struct df_err *err)
{
    const char *url = b->i->opt.settings.functional_ack_url;
    struct df_rows acks = df_rows_for(&b->params, &df_q_functional_ack_insert, b->count);

    for (size_t i = 0; i < b->count; i++) {
        const struct ticket *t = &b->tickets[i];
        if (t->found && t->ack.ptr)
            DF_ROWS_ADD(&acks, functional_ack_insert, .business_doc_id = df_text(t->doc_id),
                        .payload = df_text(t->ack), .target_url = df_text(df_str_c(url ? url : "")),
                        .now = now, .client = df_uuid(t->client_id));
    }
    b->acks = acks.count > 0;
    return df_rows_run(db, &acks, NULL, err);
}

/* A client that listens to events of tickets. */
struct listener {
    struct df_str id;
    struct df_str identifier;
};

/* At most one for each ticket. Memory: b->params. */
struct listeners {
    struct ticket_batch *b;
    struct listener *all;
    size_t count;
};

static void read_listener(void *arg, struct df_result *r)
{
    struct listeners *l = arg;
    struct df_arena *a = &l->b->params;

    assert(l->count < l->b->count);
    l->all[l->count++] = (struct listener){
        .id = df_arena_str(a, df_col_text(r, process_listeners_Id)),
        .identifier = df_arena_str(a, df_col_text(r, process_listeners_ClientIdentifier)),
    };
}

static enum df_code find_listeners(struct df_db *db, struct ticket_batch *b, struct listeners *ret,
                                   struct df_err *err)
{
    struct df_ids ids = df_ids_for(&b->params, b->count, true);
    struct df_str last = DF_STR_NULL;

    *ret = (struct listeners){.b = b};
    for (size_t i = 0; i < b->count; i++) {
        struct df_str id = b->tickets[i].client_id;
        if (b->tickets[i].found && id.ptr && !(last.ptr && df_str_eq(last, id))) {
            df_ids_add(&ids, id);
            last = id;
        }
    }
    if (!last.ptr)
        return DF_OK;
    ret->all = DF_ARENA_ARRAY(&b->params, struct listener, b->count);
    return df_db_each(db, DF_Q(process_listeners, .ids = df_ids_value(&ids)), read_listener, ret,
                      err);
}

/* NULL: the ticket's client does not listen, or the ticket has no client. */
static const struct listener *listener_of(const struct listeners *l, const struct ticket *t)
{
    for (size_t i = 0; i < l->count && t->client_id.ptr; i++) {
        if (df_str_eq(l->all[i].id, t->client_id))
            return &l->all[i];
    }
    return NULL;
}

static struct df_str event_body(struct ticket_batch *b, const struct ticket *t,
                                struct df_str client, const char *event, int64_t now_ms)
{
    struct df_buf out;
    struct df_json_out j;

    df_buf_init(&out, EVENT_MAX);
    df_json_out_init(&j, &out);
    df_json_open(&j, '{');
    df_json_kv_text(&j, "event", df_str_c(event));
    df_json_kv_text(&j, "clientId", client);
    df_json_kv_text(&j, "businessDocId", t->row_doc_id);
    df_json_kv_text(&j, "businessEntity", t->entity);
    df_json_kv_int(&j, "phaseCode", t->phase);
    df_json_kv_text(&j, "status", ticket_is_fit(t) ? DF_STR("Processed") : DF_STR("Error"));
    df_json_kv_text(&j, "error", t->problems);
    df_json_kv_time(&j, "processedAt", now_ms);
    df_json_close(&j, '}');
    return ticket_text(&b->params, &out);
}

/* Emits TicketProcessed and TicketFailed to the clients that listen. */
static enum df_code tell_listeners(struct df_db *db, struct ticket_batch *b, struct df_value now,
                                   struct df_err *err)
{
    struct df_webhook_event *events = DF_ARENA_ARRAY(&b->params, struct df_webhook_event, b->count);
    struct listeners listeners;
    size_t count = 0;

    b->webhooks = 0;
    enum df_code code = find_listeners(db, b, &listeners, err);
    if (code != DF_OK || listeners.count == 0)
        return code;
    for (size_t i = 0; i < b->count; i++) {
        const struct ticket *t = &b->tickets[i];
        const struct listener *l = listener_of(&listeners, t);
        bool is_told = t->found && (t->state == TICKET_FIT || t->state == TICKET_UNFIT);
        if (!is_told || !l)
            continue;
        const char *event = ticket_is_fit(t) ? "TicketProcessed" : "TicketFailed";
        events[count++] = (struct df_webhook_event){
            .client_id = t->client_id,
            .event = event,
            .reference = t->row_doc_id,
            .body = event_body(b, t, l->identifier, event, now.i),
            .correlation_id = t->row_doc_id,
            .now_ms = now.i,
        };
    }
    return df_webhooks_emit_many(db, b->i->opt.clock, events, count, &b->params, &b->webhooks, err);
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
    enum df_code code = settle_tickets(db, b, now, err);
    if (code == DF_OK)
        code = enqueue_returns(db, b, now, err);
    if (code == DF_OK)
        code = enqueue_acks(db, b, now, err);
    if (code == DF_OK)
        code = tell_listeners(db, b, now, err);
    return code == DF_OK ? ticket_health_write(db, b, count_processed(b), now, err) : code;
}

/* --- after the commit ------------------------------------------------------------------------- */

void ticket_count_outcome(const char *outcome, size_t count)
{
    struct df_str label = df_str_c(outcome);
    if (count > 0)
        df_metric_add(df_metric_get(&processed_total, &label), (double)count);
}

static void tell_of_ticket(const struct ticket *t, enum ticket_action action)
{
    struct df_log_field fields[] = {DF_F("correlationId", t->doc_id), DF_FI("id", t->id)};

    if (action == TICKET_TELL_REJECTED)
        df_log_write(DF_LOG_WARN, "TicketRejected", fields, 2,
                     "the ticket cannot be processed: see its LastError");
    else if (action == TICKET_TELL_GIVEN_UP)
        df_log_write(
            DF_LOG_ERROR, "TicketGivenUp", fields, 2,
            "the database refused the ticket's outcome in %lld tries: it waits for a person",
            (long long)t->tries.tries);
    else if (action == TICKET_TELL_PROCESSED)
        df_log_write(DF_LOG_DEBUG, "TicketProcessed", fields, 2, "the ticket was processed");
}

static void tell_of_outcomes(struct ticket_batch *b)
{
    size_t counts[TICKET_STATES] = {0};

    ticket_health_settled(b, count_processed(b));
    for (size_t i = 0; i < b->count; i++) {
        struct ticket *t = &b->tickets[i];
        tell_of_ticket(t, ticket_happens(t, t->found ? TICKET_EV_WRITTEN : TICKET_EV_FENCED));
        counts[t->state]++;
    }
    ticket_count_outcome("processed", counts[TICKET_PROCESSED]);
    ticket_count_outcome("rejected", counts[TICKET_REJECTED]);
    ticket_count_outcome("refused", counts[TICKET_PUT_OFF]);
    ticket_count_outcome("given_up", counts[TICKET_GIVEN_UP]);
    ticket_count_outcome("overtaken", counts[TICKET_OVERTAKEN]);
    if (counts[TICKET_PROCESSED] > 0) {
        df_interface_wake(b->i, DF_WORK_RETURNS);
        df_interface_wake(b->i, DF_WORK_GATEWAY);
    }
    if (b->acks)
        df_interface_wake(b->i, DF_WORK_ACKS);
    if (b->webhooks > 0)
        df_webhooks_wake(b->i->opt.webhooks);
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
    t->problems = ticket_problem(b, df_str_c(df_err_outside(err)));
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
        enum df_code code = write_outcome(b, err);
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
