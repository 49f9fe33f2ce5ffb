/*
 * GET /admin/timeline/{kind}/{id}: a document's whole life in one answer. It is put together from
 * what the tables say: the document's row, the rows of outboxes that belong to it with their
 * attempts, and the audit log. Every look-up goes by an index, and each kind of row is bounded.
 *
 * A row tells when something last happened, so what was replaced since is not told: an earlier
 * payload, an earlier callback. Attempts and the audit log are complete while they are kept.
 */
#include "access/handler.h"
#include "admin/admin.h"
#include "admin/outbox.h"
#include "admin/timeline.sql.h"
#include "base/uuid.h"

#include <stdlib.h>

#define ENTRIES_MAX 500
#define RELATED_MAX 20 /* rows of one outbox that belong to a document */
#define AUDIT_MAX   50 /* entries about one row */
#define WAITS_MAX   20
#define ERROR_CHARS 500 /* of an error; the row itself has all of it */
#define ANSWER_MAX  (4 << 20)

enum kind { TICKET, COUNTERPARTY, ACK, RETURN, BATCH, EVENT, WEBHOOK, INTEGRATION, KINDS };

static const struct {
    const char *name;
    const char *alias;   /* as GET /admin/search has it */
    const char *channel; /* whose row it is; NULL: of none */
    bool is_uuid;
    const struct df_query *owner;
} kinds[KINDS] = {
    [TICKET] = {"ticket", "ticket", NULL, false, NULL},
    [COUNTERPARTY] = {"counterparty", "counterparty", NULL, false, NULL},
    [ACK] = {"ack", "functional-ack", "functional-ack", false, &df_q_timeline_ack},
    [RETURN] = {"return", "ticket-return", "ticket-return", false, &df_q_timeline_return},
    [BATCH] = {"batch", "import", NULL, true, NULL},
    [EVENT] = {"event", "events", "events", true, &df_q_timeline_event},
    [WEBHOOK] = {"webhook", "webhookDelivery", "webhooks", true, &df_q_timeline_webhook},
    [INTEGRATION] = {"integration", "integrationCall", "integrations", true,
                     &df_q_timeline_integration},
};
#define KIND_NAMES "ticket, counterparty, ack, return, batch, event, webhook or integration"

/* A number of 0 and a text that is absent: it has none. */
struct entry {
    int64_t at_ms;
    size_t order;
    const char *event;
    struct df_str subject; /* the channel or kind */
    struct df_str id;
    int64_t attempt;
    struct df_str outcome;
    int64_t http_status;
    int64_t duration_ms;
    bool is_timed; /* the duration is known */
    int64_t count;
    struct df_str by;
    struct df_str error;
};
#define ENTRY(...) (&(struct entry){__VA_ARGS__})

/* Why something does not go on by itself at once. */
struct wait {
    struct df_str subject;
    struct df_str id;
    const char *reason;
    struct df_str target;
    int64_t next_ms; /* -1: it has no time */
};

struct timeline {
    struct df_work w; /* its arg is the delivery engine */
    enum kind kind;
    struct df_str id;
    struct df_arena *arena;
    /* The document. */
    struct df_str title, status, client, correlation_id, trace_id;
    struct df_str entity, doc;
    int64_t phase;
    struct entry entries[ENTRIES_MAX];
    size_t count;
    bool truncated;
    struct wait waits[WAITS_MAX];
    size_t wait_count;
    /* Of the row in hand. */
    struct df_str row_channel, row_id;
    bool is_own_row;   /* it is the document itself */
    bool has_attempts; /* else what it says of its end counts */
    size_t attempts;   /* that were shown; there may be more than the history gives */
    size_t touches;    /* entries of the audit log that were shown, as well */
    int64_t queued_ms; /* of the first return: its ticket was processed then */
    struct df_str keys[RELATED_MAX];
    size_t key_count;
    int64_t reprocessed_ms; /* -1: never */
};

static struct df_str keep(struct timeline *l, struct df_str s)
{
    return df_arena_str(l->arena, s);
}

/* --- entries ---------------------------------------------------------------------------------- */

static void add_entry(struct timeline *l, const struct entry *e)
{
    if (e->at_ms < 0)
        return;
    if (l->count == ENTRIES_MAX) {
        l->truncated = true;
        return;
    }
    l->entries[l->count] = *e;
    l->entries[l->count].order = l->count;
    l->entries[l->count].error = df_utf8_cut(e->error, ERROR_CHARS);
    l->count++;
}

static void add_wait(struct timeline *l, const struct wait *w)
{
    if (l->wait_count < WAITS_MAX)
        l->waits[l->wait_count++] = *w;
    else
        l->truncated = true;
}

/* Of entries of one time, which one commit may have written: the document, who did something to it,
 * and then what came of that. */
static int rank_of(const struct entry *e)
{
    if (strcmp(e->event, "Received") == 0)
        return 0;
    if (e->by.ptr)
        return 1;
    return strcmp(e->event, "Processed") == 0 ? 2 : 3;
}

/* Attempts are read newest first. */
static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->at_ms != y->at_ms)
        return x->at_ms < y->at_ms ? -1 : 1;
    if (rank_of(x) != rank_of(y))
        return rank_of(x) < rank_of(y) ? -1 : 1;
    if (x->attempt > 0 && y->attempt > 0 && x->attempt != y->attempt)
        return x->attempt < y->attempt ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* --- rows of outboxes ------------------------------------------------------------------------- */

static void show_row(void *arg, const struct df_outbox_row *r)
{
    struct timeline *l = arg;
    bool sent = r->sent_ms >= 0;

    if (l->is_own_row) {
        l->title = keep(l, r->reference);
        l->status = keep(l, r->status);
        l->correlation_id = keep(l, r->correlation_id.ptr ? r->correlation_id : r->reference);
    }
    /* The ticket itself is the row of its sending. */
    if (!df_str_eq(l->row_channel, DF_STR("ticket-gateway")))
        add_entry(l, ENTRY(.at_ms = r->created_ms, .event = l->is_own_row ? "Received" : "Queued",
                           .subject = l->row_channel, .id = l->row_id,
                           .by = l->is_own_row ? l->client : DF_STR_NULL));
    if (df_str_eq(l->row_channel, DF_STR("ticket-return")) && l->queued_ms < 0)
        l->queued_ms = r->created_ms;
    if (sent && !l->has_attempts)
        add_entry(l, ENTRY(.at_ms = r->sent_ms, .event = "Delivered", .subject = l->row_channel,
                           .id = l->row_id, .attempt = r->tries));
    if (r->given_up)
        add_entry(l, ENTRY(.at_ms = r->last_attempt_ms >= 0 ? r->last_attempt_ms : r->created_ms,
                           .event = "GivenUp", .subject = l->row_channel, .id = l->row_id,
                           .attempt = r->tries, .error = keep(l, r->error)));
    if (r->dismissed_ms >= 0)
        add_entry(l, ENTRY(.at_ms = r->dismissed_ms, .event = "Dismissed",
                           .subject = l->row_channel, .id = l->row_id));
    if (r->given_up && r->dismissed_ms < 0)
        add_wait(l, &(struct wait){l->row_channel, l->row_id, "person", keep(l, r->target), -1});
    else if (r->held_for.ptr)
        add_wait(l, &(struct wait){l->row_channel, l->row_id, "target", keep(l, r->held_for),
                                   df_delivery_probe_ms(l->w.arg, l->row_channel, r->held_for)});
    else if (!sent && r->due_ms >= 0)
        add_wait(l,
                 &(struct wait){l->row_channel, l->row_id, "due", keep(l, r->target), r->due_ms});
}

static void show_attempt(void *arg, const struct df_delivery_attempt *a)
{
    struct timeline *l = arg;

    if (++l->attempts == DF_OUTBOX_HISTORY)
        l->truncated = true;
    add_entry(l, ENTRY(.at_ms = a->attempted_ms, .event = "Attempt", .subject = l->row_channel,
                       .id = l->row_id, .attempt = a->attempt, .outcome = keep(l, a->outcome),
                       .http_status = a->http_status, .duration_ms = a->duration_ms,
                       .is_timed = true, .error = keep(l, a->error)));
}

static void show_audit(void *arg, struct df_result *r)
{
    struct timeline *l = arg;
    int64_t at_ms = df_col_time(r, timeline_audit_OccurredAt);
    struct df_str action = df_col_text(r, timeline_audit_Action);

    if (++l->touches == AUDIT_MAX)
        l->truncated = true;
    if (df_str_eq(action, DF_STR("TicketReprocessed")) && at_ms > l->reprocessed_ms)
        l->reprocessed_ms = at_ms;
    add_entry(l, ENTRY(.at_ms = at_ms, .event = df_arena_cstr(l->arena, action),
                       .subject = l->row_channel, .id = l->row_id,
                       .by = keep(l, df_col_text(r, timeline_audit_Actor)),
                       .outcome = keep(l, df_col_text(r, timeline_audit_Outcome))));
}

/* name: as the audit log writes it; absent: the id alone is the target. */
static enum df_code add_audit(struct df_db *db, struct timeline *l, const char *name,
                              struct df_err *err)
{
    l->touches = 0;
    struct df_str target =
        name ? df_arena_printf(l->arena, "%s/" DF_STR_FMT, name, DF_STR_ARG(l->row_id)) : l->row_id;

    return df_db_each(db,
                      DF_Q(timeline_audit, .target = df_text(target), .limit = df_int(AUDIT_MAX)),
                      show_audit, l, err);
}

/* A row with its attempts, and who touched it. One that retention has just removed is left out. */
static enum df_code add_row(struct df_db *db, struct timeline *l, const char *channel,
                            struct df_str id, struct df_err *err)
{
    const struct df_channel *c = df_delivery_find(l->w.arg, df_str_c(channel));
    struct df_outbox_view view = {.row = show_row, .attempt = show_attempt, .arg = l};

    if (!c)
        return DF_OK;
    l->row_channel = df_str_c(channel);
    l->row_id = id;
    l->has_attempts = c->claim;
    l->attempts = 0;
    enum df_code code = df_outbox_get(db, c, id, &view, err);
    if (code == DF_E_NOT_FOUND && !l->is_own_row)
        return DF_OK;
    return code == DF_OK ? add_audit(db, l, channel, err) : code;
}

static void read_key(void *arg, struct df_result *r)
{
    struct timeline *l = arg;

    if (l->key_count < RELATED_MAX)
        l->keys[l->key_count++] = keep(l, df_col_text(r, timeline_key_Id));
    else
        l->truncated = true;
}

/* The rows of an outbox that belong to the document. */
static enum df_code add_related(struct df_db *db, struct timeline *l, const struct df_query *q,
                                const char *channel, struct df_err *err)
{
    struct df_value uuid = l->kind == BATCH ? df_uuid(l->id) : df_null(DF_UUID);

    l->key_count = 0;
    l->is_own_row = false;
    enum df_code code = df_db_each(db,
                                   DF_ANY(q, {"entity", df_text(l->entity)},
                                          {"doc", df_text(l->doc)}, {"phase", df_int(l->phase)},
                                          {"uuid", uuid}, {"limit", df_int(RELATED_MAX + 1)}),
                                   read_key, l, err);
    for (size_t i = 0; i < l->key_count && code == DF_OK; i++)
        code = add_row(db, l, channel, l->keys[i], err);
    return code;
}

/* --- tickets ---------------------------------------------------------------------------------- */

struct ticket_life {
    struct timeline *l;
    int64_t payload_ms, version, tries, due_ms, updated_ms;
    bool processed, failed, person;
    struct df_str error;
};

static void read_ticket(void *arg, struct df_result *r)
{
    struct ticket_life *t = arg;
    struct timeline *l = t->l;
    int64_t created_ms = df_col_time(r, timeline_ticket_CreatedAt);

    l->entity = keep(l, df_col_text(r, timeline_ticket_BusinessEntity));
    l->doc = l->correlation_id = keep(l, df_col_text(r, timeline_ticket_BusinessDocId));
    l->phase = df_col_int(r, timeline_ticket_PhaseCode);
    l->title = df_arena_printf(l->arena, DF_STR_FMT " " DF_STR_FMT ", phase %lld",
                               DF_STR_ARG(l->entity), DF_STR_ARG(l->doc), (long long)l->phase);
    l->status = keep(l, df_col_text(r, timeline_ticket_Status));
    l->client = keep(l, df_col_text(r, timeline_ticket_ClientId));
    t->payload_ms = df_col_time(r, timeline_ticket_PayloadAt);
    t->version = df_col_int(r, timeline_ticket_PayloadVersion);
    t->tries = df_col_int(r, timeline_ticket_TryCount);
    t->due_ms = df_col_time(r, timeline_ticket_NextAttemptAt);
    t->updated_ms = df_col_time(r, timeline_ticket_UpdatedAt);
    t->processed = df_str_eq(l->status, DF_STR("Processed"));
    t->failed = df_str_eq(l->status, DF_STR("Error"));
    t->person = t->failed && t->due_ms < 0 && df_col_null(r, timeline_ticket_DismissedAt);
    t->error = keep(l, df_col_text(r, timeline_ticket_LastError));
    add_entry(l, ENTRY(.at_ms = created_ms, .event = "Received", .subject = DF_STR("ticket"),
                       .id = l->id, .by = l->client));
    if (t->payload_ms > created_ms)
        add_entry(l, ENTRY(.at_ms = t->payload_ms, .event = "Replaced", .subject = DF_STR("ticket"),
                           .id = l->id, .count = t->version));
    add_entry(l, ENTRY(.at_ms = df_col_time(r, timeline_ticket_CallbackReceivedAt),
                       .event = "CallbackReceived", .subject = DF_STR("callback"), .id = l->id,
                       .outcome = keep(l, df_col_text(r, timeline_ticket_CallbackStatus))));
    add_entry(l, ENTRY(.at_ms = df_col_time(r, timeline_ticket_ErasedAt), .event = "Erased",
                       .subject = DF_STR("ticket"), .id = l->id));
}

/* When it was processed is told by the return that was made then, and by who had it done again. */
static void add_processing(struct ticket_life *t)
{
    struct timeline *l = t->l;
    int64_t at_ms = l->queued_ms > t->payload_ms ? l->queued_ms : t->payload_ms;
    bool again = l->reprocessed_ms > at_ms;

    if (t->processed || (again && l->queued_ms >= 0))
        add_entry(l, ENTRY(.at_ms = at_ms, .event = "Processed", .subject = DF_STR("ticket"),
                           .id = l->id, .attempt = again ? 0 : t->tries));
    if (t->processed && again)
        add_entry(l, ENTRY(.at_ms = l->reprocessed_ms, .event = "Processed",
                           .subject = DF_STR("ticket"), .id = l->id, .attempt = t->tries));
    if (t->failed)
        add_entry(l, ENTRY(.at_ms = t->updated_ms, .event = "ProcessingFailed",
                           .subject = DF_STR("ticket"), .id = l->id, .attempt = t->tries,
                           .error = t->error));
    if (t->due_ms >= 0 || t->person)
        add_wait(l, &(struct wait){DF_STR("ticket"), l->id, t->person ? "person" : "due",
                                   DF_STR_NULL, t->due_ms});
}

static enum df_code tell_ticket(struct df_db *db, struct timeline *l, struct df_value id,
                                bool *ret_found, struct df_err *err)
{
    struct ticket_life t = {.l = l};
    enum df_code code =
        df_db_one(db, DF_Q(timeline_ticket, .id = id), read_ticket, &t, ret_found, err);

    if (code != DF_OK || !*ret_found)
        return code;
    l->row_channel = DF_STR("ticket");
    l->row_id = l->id;
    code = add_audit(db, l, "tickets", err);
    if (code == DF_OK)
        code = add_related(db, l, &df_q_timeline_returns_of, "ticket-return", err);
    if (code != DF_OK)
        return code;
    add_processing(&t);
    if (t.processed)
        code = add_row(db, l, "ticket-gateway", l->id, err);
    if (code == DF_OK)
        code = add_related(db, l, &df_q_timeline_acks_of, "functional-ack", err);
    return code == DF_OK ? add_related(db, l, &df_q_timeline_webhooks_of, "webhooks", err) : code;
}

/* --- counterparties --------------------------------------------------------------------------- */

static void read_counterparty(void *arg, struct df_result *r)
{
    struct timeline *l = arg;
    int64_t created_ms = df_col_time(r, timeline_counterparty_CreatedAt);
    int64_t payload_ms = df_col_time(r, timeline_counterparty_PayloadAt);

    l->doc = l->title = l->correlation_id =
        keep(l, df_col_text(r, timeline_counterparty_BusinessDocId));
    l->status = keep(l, df_col_text(r, timeline_counterparty_Status));
    l->client = keep(l, df_col_text(r, timeline_counterparty_ClientId));
    add_entry(l, ENTRY(.at_ms = created_ms, .event = "Received", .subject = DF_STR("counterparty"),
                       .id = l->id, .by = l->client));
    if (payload_ms > created_ms)
        add_entry(l, ENTRY(.at_ms = payload_ms, .event = "Replaced",
                           .subject = DF_STR("counterparty"), .id = l->id));
    if (!df_str_eq(l->status, DF_STR("Received")))
        add_entry(l, ENTRY(.at_ms = df_col_time(r, timeline_counterparty_UpdatedAt),
                           .event = df_str_eq(l->status, DF_STR("Error")) ? "ProcessingFailed"
                                                                          : "Processed",
                           .subject = DF_STR("counterparty"), .id = l->id,
                           .error = keep(l, df_col_text(r, timeline_counterparty_StatusMessage))));
    add_entry(l, ENTRY(.at_ms = df_col_time(r, timeline_counterparty_ErasedAt), .event = "Erased",
                       .subject = DF_STR("counterparty"), .id = l->id));
}

static enum df_code tell_counterparty(struct df_db *db, struct timeline *l, struct df_value id,
                                      bool *ret_found, struct df_err *err)
{
    enum df_code code =
        df_db_one(db, DF_Q(timeline_counterparty, .id = id), read_counterparty, l, ret_found, err);

    if (code != DF_OK || !*ret_found)
        return code;
    l->row_channel = DF_STR("counterparty");
    l->row_id = l->id;
    code = add_audit(db, l, "counterparties", err);
    return code == DF_OK ? add_related(db, l, &df_q_timeline_acks_of, "functional-ack", err) : code;
}

/* --- batches ---------------------------------------------------------------------------------- */

static const char *batch_status(int64_t status)
{
    static const char *const names[] = {"Pending",   "Processing",          "Scheduled",
                                        "Completed", "CompletedWithErrors", "Failed",
                                        "Cancelled"};
    return status >= 0 && status < (int64_t)(sizeof names / sizeof names[0]) ? names[status] : "";
}

#define OF_BATCH .subject = DF_STR("batch"), .id = l->id

static void add_batch_waits(struct timeline *l, const struct df_result *r, int64_t status)
{
    struct df_str batch = DF_STR("batch");

    if (status == 2)
        add_wait(l, &(struct wait){batch, l->id, "schedule", DF_STR_NULL,
                                   df_col_time(r, timeline_batch_ScheduledFor)});
    else if (status <= 1 && !df_col_null(r, timeline_batch_WaitingSince))
        add_wait(l, &(struct wait){batch, l->id, "target", DF_STR("omniflow"), -1});
    else if (status <= 1 && !df_col_null(r, timeline_batch_GaveWayAt))
        add_wait(l, &(struct wait){batch, l->id, "turn", DF_STR_NULL, -1});
    else if (status == 0)
        add_wait(l, &(struct wait){batch, l->id, "worker", DF_STR_NULL, -1});
}

static void read_batch(void *arg, struct df_result *r)
{
    struct timeline *l = arg;
    int64_t status = df_col_int(r, timeline_batch_Status);
    int64_t done_ms = df_col_time(r, timeline_batch_CompletedAt);
    int64_t errors = df_col_int(r, timeline_batch_ErrorCount);
    struct df_str error = keep(l, df_col_text(r, timeline_batch_LastError));

    l->title = keep(l, df_col_text(r, timeline_batch_FileName));
    l->status = df_str_c(batch_status(status));
    l->client = keep(l, df_col_text(r, timeline_batch_ClientId));
    l->correlation_id = keep(l, df_col_text(r, timeline_batch_CorrelationId));
    l->trace_id = keep(l, df_col_text(r, timeline_batch_TraceId));
    add_entry(l, ENTRY(.at_ms = df_col_time(r, timeline_batch_CreatedAt), .event = "Received",
                       OF_BATCH, .by = l->client));
    add_entry(l, ENTRY(.at_ms = df_col_time(r, timeline_batch_StartedAt), .event = "Started",
                       OF_BATCH, .attempt = df_col_int(r, timeline_batch_Attempt),
                       .by = keep(l, df_col_text(r, timeline_batch_ProcessingHost))));
    add_entry(l, ENTRY(.at_ms = df_col_time(r, timeline_batch_OutageSince), .event = "PeerAway",
                       OF_BATCH, .error = error));
    add_entry(
        l, ENTRY(.at_ms = df_col_time(r, timeline_batch_GaveWayAt), .event = "GaveWay", OF_BATCH));
    if (errors > 0)
        add_entry(l,
                  ENTRY(.at_ms = done_ms >= 0 ? done_ms : df_col_time(r, timeline_batch_UpdatedAt),
                        .event = "RecordsFailed", OF_BATCH, .count = errors));
    add_entry(l, ENTRY(.at_ms = done_ms, .event = "Ended", OF_BATCH, .outcome = l->status,
                       .count = df_col_int(r, timeline_batch_ProcessedRecords), .error = error));
    add_batch_waits(l, r, status);
}

static void read_chunks(void *arg, struct df_result *r)
{
    struct timeline *l = arg;
    int64_t sent = df_col_int(r, timeline_chunks_Sent);
    int64_t acked = df_col_int(r, timeline_chunks_Acked);

#define OF_CHUNKS .subject = DF_STR("chunks"), .id = l->id
    add_entry(l, ENTRY(.at_ms = df_col_time(r, timeline_chunks_FirstSent),
                       .event = "FirstChunkSent", OF_CHUNKS));
    if (sent > 0)
        add_entry(l, ENTRY(.at_ms = df_col_time(r, timeline_chunks_LastSent),
                           .event = "LastChunkSent", OF_CHUNKS, .count = sent,
                           .attempt = df_col_int(r, timeline_chunks_Attempts)));
    add_entry(l, ENTRY(.at_ms = df_col_time(r, timeline_chunks_FirstAcked), .event = "FirstAck",
                       OF_CHUNKS));
    if (acked > 0)
        add_entry(l, ENTRY(.at_ms = df_col_time(r, timeline_chunks_LastAcked), .event = "LastAck",
                           OF_CHUNKS, .count = acked));
    add_entry(l, ENTRY(.at_ms = df_col_time(r, timeline_chunks_LastFailed), .event = "ChunksFailed",
                       OF_CHUNKS, .count = df_col_int(r, timeline_chunks_Failed)));
    if (df_col_int(r, timeline_chunks_Unsettled) > 0 && sent > acked)
        add_wait(l, &(struct wait){DF_STR("chunks"), l->id, "ack", DF_STR("omniflow"), -1});
}

static enum df_code tell_batch(struct df_db *db, struct timeline *l, struct df_value id,
                               bool *ret_found, struct df_err *err)
{
    enum df_code code =
        df_db_one(db, DF_Q(timeline_batch, .uuid = id), read_batch, l, ret_found, err);

    if (code != DF_OK || !*ret_found)
        return code;
    l->row_channel = DF_STR("batch");
    l->row_id = l->id;
    code = df_db_one(db, DF_Q(timeline_chunks, .uuid = id), read_chunks, l, NULL, err);
    if (code == DF_OK)
        code = add_audit(db, l, NULL, err);
    return code == DF_OK ? add_related(db, l, &df_q_timeline_webhooks_of_batch, "webhooks", err)
                         : code;
}

/* --- rows of outboxes as documents ------------------------------------------------------------ */

static void read_owner(void *arg, struct df_result *r)
{
    struct timeline *l = arg;

    l->client = keep(l, df_col_text(r, timeline_row_ClientId));
    l->trace_id = keep(l, df_col_text(r, timeline_row_TraceId));
}

static enum df_code tell_row(struct df_db *db, struct timeline *l, struct df_value id,
                             bool *ret_found, struct df_err *err)
{
    enum df_code code = df_db_one(db, DF_ANY(kinds[l->kind].owner, {"id", id}, {"uuid", id}),
                                  read_owner, l, ret_found, err);

    if (code != DF_OK || !*ret_found)
        return code;
    l->is_own_row = true;
    return add_row(db, l, kinds[l->kind].channel, l->id, err);
}

/* --- the answer ------------------------------------------------------------------------------- */

static void kv_number(struct df_json_out *out, const char *name, int64_t n)
{
    df_json_kv_int_if(out, name, n > 0, n);
}

static void write_entry(struct df_json_out *out, const struct entry *e)
{
    df_json_open(out, '{');
    df_json_kv_time(out, "time", e->at_ms);
    df_json_kv_text(out, "event", df_str_c(e->event));
    df_json_kv_text(out, "subject", e->subject);
    df_json_kv_text(out, "id", e->id);
    kv_number(out, "attempt", e->attempt);
    df_json_kv_text(out, "outcome", e->outcome);
    kv_number(out, "httpStatus", e->http_status);
    df_json_kv_int_if(out, "durationMs", e->is_timed, e->duration_ms);
    kv_number(out, "count", e->count);
    df_json_kv_text(out, "by", e->by);
    df_json_kv_text(out, "error", e->error);
    df_json_close(out, '}');
}

static void write_timeline(struct timeline *l)
{
    struct df_json_out *out = &l->w.json;

    df_json_open(out, '{');
    df_json_kv_text(out, "kind", df_str_c(kinds[l->kind].name));
    df_json_kv_text(out, "id", l->id);
    df_json_kv_text(out, "title", l->title);
    df_json_kv_text(out, "status", l->status);
    df_json_kv_text(out, "clientId", l->client);
    df_json_kv_text(out, "correlationId", l->correlation_id);
    df_json_kv_text(out, "traceId", l->trace_id);
    df_json_key(out, "waits");
    df_json_open(out, '[');
    for (size_t i = 0; i < l->wait_count; i++) {
        df_json_open(out, '{');
        df_json_kv_text(out, "subject", l->waits[i].subject);
        df_json_kv_text(out, "id", l->waits[i].id);
        df_json_kv_text(out, "reason", df_str_c(l->waits[i].reason));
        df_json_kv_text(out, "target", l->waits[i].target);
        df_json_kv_time(out, "nextAttemptAt", l->waits[i].next_ms);
        df_json_close(out, '}');
    }
    df_json_close(out, ']');
    df_json_key(out, "entries");
    df_json_open(out, '[');
    for (size_t i = 0; i < l->count; i++)
        write_entry(out, &l->entries[i]);
    df_json_close(out, ']');
    df_json_kv_bool(out, "truncated", l->truncated);
    df_json_close(out, '}');
}

static enum df_code tell(struct df_db *db, struct timeline *l, bool *ret_found, struct df_err *err)
{
    int64_t number = 0;
    (void)df_str_to_i64(l->id, &number);
    struct df_value id = kinds[l->kind].is_uuid ? df_uuid(l->id) : df_int(number);

    switch (l->kind) {
    case TICKET:
        return tell_ticket(db, l, id, ret_found, err);
    case COUNTERPARTY:
        return tell_counterparty(db, l, id, ret_found, err);
    case BATCH:
        return tell_batch(db, l, id, ret_found, err);
    case ACK:
    case RETURN:
    case EVENT:
    case WEBHOOK:
    case INTEGRATION:
        return tell_row(db, l, id, ret_found, err);
    case KINDS:
        break;
    }
    return DF_OK;
}

/* A transaction, so that rows and attempts are of one moment. */
static enum df_code run_timeline(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct timeline *l = (struct timeline *)w;
    bool found = false;

    l->count = l->wait_count = 0;
    l->truncated = l->is_own_row = false;
    l->queued_ms = l->reprocessed_ms = -1;
    enum df_code code = df_db_begin(db, false, err);
    if (code != DF_OK)
        return code;
    code = tell(db, l, &found, err);
    df_db_rollback(db); /* nothing was written */
    if (code == DF_OK && !found)
        code = df_err_set(err, DF_E_NOT_FOUND, "There is no %s " DF_STR_FMT ".",
                          kinds[l->kind].name, DF_STR_ARG(l->id));
    if (code != DF_OK)
        return code;
    qsort(l->entries, l->count, sizeof l->entries[0], compare_entries);
    write_timeline(l);
    return DF_OK;
}

/* An id has one spelling: 007 is not 7, and a UUID has no capitals. */
static bool is_id(const struct timeline *l)
{
    struct df_uuid uuid;
    int64_t number = 0;

    if (kinds[l->kind].is_uuid)
        return df_uuid_parse(l->id, &uuid) && df_str_eq(df_uuid_str(&uuid), l->id);
    return df_str_to_i64(l->id, &number) && number > 0 && l->id.ptr[0] != '0';
}

static bool read_timeline(struct df_work *w, struct df_input *in)
{
    struct timeline *l = (struct timeline *)w;
    struct df_str kind = df_req_param(w->req, "kind");
    size_t k = 0;

    l->arena = df_req_arena(w->req);
    l->id = df_req_param(w->req, "id");
    while (k < KINDS && !df_str_eq(kind, df_str_c(kinds[k].name)) &&
           !df_str_eq(kind, df_str_c(kinds[k].alias)))
        k++;
    if (k == KINDS) {
        df_input_error(in, "kind", "must be " KIND_NAMES);
        return true;
    }
    l->kind = (enum kind)k;
    if (is_id(l))
        return true;
    df_req_fail(w->req, DF_E_NOT_FOUND, "There is no %s \"" DF_STR_FMT "\".", kinds[k].name,
                DF_STR_ARG(df_utf8_cut(l->id, 64)));
    return false;
}

static const struct df_handler timeline = {
    .size = sizeof(struct timeline),
    .max_answer = ANSWER_MAX,
    .prepare = read_timeline,
    .run = run_timeline,
};

const struct df_route df_timeline_routes[] = {
    DF_ROUTE("GET", "/admin/timeline/{kind}/{id}", DF_BODY_NONE, DF_ACCESS_ADMIN, NULL, timeline),
    {.method = NULL},
};
