/*
 * What a ticket's outcome sets in motion: the return, the functional ack, and events for the
 * client's webhooks. Written in the transaction of the outcome, for many tickets at once, and only
 * for those whose row was found; the tickets' states do not change here.
 */
#include "base/log.h"
#include "base/metrics.h"
#include "interface/processing.sql.h"
#include "interface/processing_private.h"
#include "store/rows.h"
#include "webhooks/webhooks.h"
#include "json/write.h"

#include <assert.h>

#define EVENT_MAX (64 << 10)

DF_METRIC_FAMILY(processed_total) = {
    .name = "dataflow_tickets_processed_total",
    .help = "Tickets by outcome: processed, rejected, refused by the database (and tried "
            "again), given_up, overtaken by a newer payload.",
    .type = DF_COUNTER,
    .labels = {"outcome"},
};

bool ticket_is_fit(const struct ticket *t)
{
    return t->state == TICKET_FIT;
}

static void read_returned(void *arg, struct df_result *r)
{
    struct ticket_effects *e = arg;
    int64_t id = df_col_int(r, return_known_Id);

    for (size_t i = 0; i < e->count; i++)
        e->tickets[i]->returned = e->tickets[i]->returned || e->tickets[i]->id == id;
}

/* Finds out which tickets have a return already. */
static enum df_code find_returned(struct df_db *db, struct ticket_effects *e, struct df_err *err)
{
    struct df_ids ids = df_ids_for(e->arena, e->count, false);
    size_t count = 0;

    for (size_t i = 0; i < e->count; i++) {
        struct ticket *t = e->tickets[i];
        t->returned = false;
        if (t->found && ticket_is_fit(t)) {
            df_ids_add_int(&ids, t->id);
            count++;
        }
    }
    if (count == 0)
        return DF_OK;
    return df_db_each(db, DF_Q(return_known, .ids = df_ids_value(&ids)), read_returned, e, err);
}

static enum df_code enqueue_returns(struct df_db *db, struct ticket_effects *e, struct df_value now,
                                    struct df_err *err)
{
    const char *url = e->i->opt.settings.ticket_return_url;
    struct df_value target = df_text(df_str_c(url ? url : ""));
    struct df_rows replace = df_rows_for(e->arena, &df_q_return_replace, e->count);
    struct df_rows insert = df_rows_for(e->arena, &df_q_return_insert, e->count);
    struct df_rows pending = df_rows_for(e->arena, &df_q_return_pending_ticket, e->count);

    enum df_code code = find_returned(db, e, err);
    for (size_t i = 0; i < e->count && code == DF_OK; i++) {
        const struct ticket *t = e->tickets[i];
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

static enum df_code enqueue_acks(struct df_db *db, struct ticket_effects *e, struct df_value now,
                                 struct df_err *err)
{
    const char *url = e->i->opt.settings.functional_ack_url;
    struct df_rows acks = df_rows_for(e->arena, &df_q_ticket_ack_insert, e->count);

    for (size_t i = 0; i < e->count; i++) {
        const struct ticket *t = e->tickets[i];
        if (t->found && t->ack.ptr)
            DF_ROWS_ADD(&acks, ticket_ack_insert, .doc_id = df_text(t->doc_id),
                        .payload = df_text(t->ack), .target_url = df_text(df_str_c(url ? url : "")),
                        .now = now, .client = df_uuid(t->client_id));
    }
    e->acks = acks.count > 0;
    return df_rows_run(db, &acks, NULL, err);
}

/* A client that listens to events of tickets. */
struct listener {
    struct df_str id;
    struct df_str identifier;
};

/* At most one for each ticket. Memory: e->arena. */
struct listeners {
    struct ticket_effects *e;
    struct listener *all;
    size_t count;
};

static void read_listener(void *arg, struct df_result *r)
{
    struct listeners *l = arg;
    struct df_arena *a = l->e->arena;

    assert(l->count < l->e->count);
    l->all[l->count++] = (struct listener){
        .id = df_arena_str(a, df_col_text(r, process_listeners_Id)),
        .identifier = df_arena_str(a, df_col_text(r, process_listeners_ClientIdentifier)),
    };
}

static enum df_code find_listeners(struct df_db *db, struct ticket_effects *e,
                                   struct listeners *ret, struct df_err *err)
{
    struct df_ids ids = df_ids_for(e->arena, e->count, true);
    struct df_str last = DF_STR_NULL;

    *ret = (struct listeners){.e = e};
    for (size_t i = 0; i < e->count; i++) {
        struct df_str id = e->tickets[i]->client_id;
        if (e->tickets[i]->found && id.ptr && !(last.ptr && df_str_eq(last, id))) {
            df_ids_add(&ids, id);
            last = id;
        }
    }
    if (!last.ptr)
        return DF_OK;
    ret->all = DF_ARENA_ARRAY(e->arena, struct listener, e->count);
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

static struct df_str event_body(struct ticket_effects *e, const struct ticket *t,
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
    return ticket_text(e->arena, &out);
}

/* Emits TicketProcessed and TicketFailed to the clients that listen. */
static enum df_code tell_listeners(struct df_db *db, struct ticket_effects *e, struct df_value now,
                                   struct df_err *err)
{
    struct df_webhook_event *events = DF_ARENA_ARRAY(e->arena, struct df_webhook_event, e->count);
    struct listeners listeners;
    size_t count = 0;

    e->webhooks = 0;
    enum df_code code = find_listeners(db, e, &listeners, err);
    if (code != DF_OK || listeners.count == 0)
        return code;
    for (size_t i = 0; i < e->count; i++) {
        const struct ticket *t = e->tickets[i];
        const struct listener *l = listener_of(&listeners, t);
        bool is_told = t->found && (t->state == TICKET_FIT || t->state == TICKET_UNFIT);
        if (!is_told || !l)
            continue;
        const char *event = ticket_is_fit(t) ? "TicketProcessed" : "TicketFailed";
        events[count++] = (struct df_webhook_event){
            .client_id = t->client_id,
            .event = event,
            .reference = t->row_doc_id,
            .body = event_body(e, t, l->identifier, event, now.i),
            .correlation_id = t->row_doc_id,
            .now_ms = now.i,
        };
    }
    return df_webhooks_emit_many(db, e->i->opt.clock, events, count, e->arena, &e->webhooks, err);
}

enum df_code ticket_effects_write(struct df_db *db, struct ticket_effects *e, struct df_value now,
                                  struct df_err *err)
{
    enum df_code code = enqueue_returns(db, e, now, err);

    if (code == DF_OK)
        code = enqueue_acks(db, e, now, err);
    return code == DF_OK ? tell_listeners(db, e, now, err) : code;
}

/* --- after the commit ------------------------------------------------------------------------- */

void ticket_count_outcome(const char *outcome, size_t count)
{
    struct df_str label = df_str_c(outcome);
    if (count > 0)
        df_metric_add(df_metric_get(&processed_total, &label), (double)count);
}

void ticket_tell(const struct ticket *t, enum ticket_action action)
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

void ticket_effects_wake(struct df_interface *i, bool processed, bool acks, bool webhooks,
                         int64_t due_ms)
{
    if (processed) {
        df_interface_wake_since(i, DF_WORK_RETURNS, due_ms);
        df_interface_wake_since(i, DF_WORK_GATEWAY, due_ms);
    }
    if (acks)
        df_interface_wake_since(i, DF_WORK_ACKS, due_ms);
    if (webhooks)
        df_webhooks_wake(i->opt.webhooks);
}
