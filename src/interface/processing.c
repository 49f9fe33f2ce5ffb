/*
 * The ticket processing: claims tickets that wait, checks each for its phase, and in one
 * transaction for many of them writes what comes of it: Processed, the return, the send to the
 * gateway, the functional ack; or Error, with every problem named.
 *
 * Claim and outcome are two commits: between them the ticket is Processing, under a lease. Whoever
 * dies there loses nothing; the ticket is taken again when the lease is over. A newer payload that
 * comes in between wins: the outcome finds another fence and changes nothing.
 *
 * Memory. A claim takes tickets as long as their payloads are CLAIM_BYTES together, or one; one
 * over the limit of a payload is not even fetched. Each is parsed by itself, and of each only what
 * its outcome needs is kept; an outcome is written as soon as these are OUTCOME_BYTES. So neither
 * what waits nor what is in it has an influence on how much memory this takes: some 16 MiB, or
 * three times the largest payload.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "interface/acks.sql.h"
#include "interface/interface_private.h"
#include "interface/payload.h"
#include "interface/processing.sql.h"
#include "store/rows.h"
#include "webhooks/webhooks.h"
#include "json/write.h"

#include <stdlib.h>

#define CLAIM_MAX      256
#define CLAIM_BYTES    ((int64_t)4 << 20)
#define OUTCOME_BYTES  ((size_t)4 << 20)
#define POLL_MS        1000
#define BACKOFF_MAX_MS 5000
#define ERROR_UNITS    2000
#define ACK_MAX_BYTES  (1 << 20)
#define EVENT_MAX      (64 << 10)

static struct df_metric_family processed_total = {
    .name = "dataflow_tickets_processed_total",
    .help = "Tickets whose processing ended, by outcome (processed, rejected, refused, "
            "overtaken).",
    .type = DF_COUNTER,
    .labels = {"outcome"},
};

struct ticket {
    int64_t id;
    int64_t fence;
    struct df_str raw;
    struct df_str entity; /* the row's key */
    struct df_str row_doc_id;
    int64_t phase;
    struct df_str client_id; /* absent: another program wrote the row */
    struct df_str doc_id;
    struct df_str problems; /* absent: it is fit */
    bool refused;           /* by the database, which has the problem: it is tried again */
    struct df_str answer;   /* the return; absent when it is not fit */
    struct df_str ack;      /* absent: none is wanted */
    bool settled;           /* it was still ours when the outcome was written */
    bool returned;          /* it has a return already */
};

struct batch {
    struct df_job job;
    struct df_interface *i;
    struct df_arena claimed; /* the tickets as they lie in the table: until the batch is through */
    struct df_arena parsed;  /* of one ticket, while it is worked on */
    struct df_arena kept;    /* for the outcome: problems, returns, acks */
    struct df_arena params;
    struct ticket *all;
    size_t all_count;
    int64_t oversized;      /* the id of a ticket whose payload is too large; 0: there was none */
    struct ticket *tickets; /* of `all`, those whose outcome is written now */
    size_t count;
    int64_t next_due_ms; /* -1: nothing waits */
    size_t processed;
    size_t rejected;
    size_t refused;
    bool acks;
    int64_t webhooks; /* deliveries that were made */
};

/* --- claiming --------------------------------------------------------------------------------- */

static int64_t max_payload(const struct batch *b)
{
    int64_t body = b->i->opt.max_body_bytes;
    return body > DF_TICKET_PAYLOAD_MAX ? body : DF_TICKET_PAYLOAD_MAX;
}

/* The ids of what is due, as many as fit; or one in b->oversized. */
static enum df_code find_due(struct df_db *db, struct batch *b, int64_t now_ms, struct df_ids *ids,
                             size_t *ret_count, struct df_err *err)
{
    int64_t bytes = 0;
    struct df_result *r = NULL;

    *ret_count = 0;
    enum df_code code =
        df_db_query(db, &df_q_process_due, DF_PARAMS(df_time(now_ms), df_int(CLAIM_MAX)), &r, err);
    if (code != DF_OK)
        return code;
    while ((code = df_result_step(r, err)) == DF_ROW && *ret_count < CLAIM_MAX) {
        int64_t size = df_col_int(r, 1);
        bool fits = size <= max_payload(b);
        if (*ret_count > 0 && (!fits || bytes + size > CLAIM_BYTES))
            break;
        if (!fits) {
            b->oversized = df_col_int(r, 0);
            break;
        }
        df_ids_add_int(ids, df_col_int(r, 0));
        bytes += size;
        ++*ret_count;
    }
    df_result_free(r);
    return code == DF_DONE || code == DF_ROW ? DF_OK : code;
}

/* Without a claim, and without looking at it: it would take its size several times over. */
static enum df_code refuse_oversized(struct df_db *db, struct batch *b, int64_t now_ms,
                                     struct df_err *err)
{
    struct df_str why =
        df_arena_printf(&b->claimed, "the payload is larger than %lld bytes: it is not processed",
                        (long long)max_payload(b));
    return df_db_exec(db, &df_q_process_oversized,
                      DF_PARAMS(df_text(why), df_time(now_ms), df_int(b->oversized)), NULL, err);
}

static enum df_code claim_due(struct df_db *db, struct batch *b, int64_t now_ms, struct df_ids *ids,
                              struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code = df_db_query(
        db, &df_q_process_claim,
        DF_PARAMS(df_time(now_ms), df_time(now_ms + b->i->opt.delivery_settings.lease_ms),
                  df_ids_value(ids)),
        &r, err);
    if (code != DF_OK)
        return code;
    while ((code = df_result_step(r, err)) == DF_ROW && b->all_count < CLAIM_MAX) {
        struct ticket *t = &b->all[b->all_count++];
        t->id = df_col_int(r, 0);
        t->fence = df_col_int(r, 1);
        t->raw = df_arena_str(&b->claimed, df_col_text(r, 2));
        t->entity = df_arena_str(&b->claimed, df_col_text(r, 3));
        t->row_doc_id = df_arena_str(&b->claimed, df_col_text(r, 4));
        t->phase = df_col_int(r, 5);
        t->client_id = df_arena_str(&b->claimed, df_col_text(r, 6));
    }
    df_result_free(r);
    return code == DF_DONE || code == DF_ROW ? DF_OK : code;
}

static enum df_code find_next_due(struct df_db *db, struct batch *b, struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code = df_db_query(db, &df_q_process_next_due, DF_NO_PARAMS, &r, err);
    if (code != DF_OK)
        return code;
    code = df_result_step(r, err);
    if (code == DF_ROW && !df_col_null(r, 0))
        b->next_due_ms = df_col_time(r, 0);
    df_result_free(r);
    return code == DF_ROW || code == DF_DONE ? DF_OK : code;
}

static enum df_code run_claim(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct batch *b = (struct batch *)job;
    int64_t now_ms = df_wall_ms(b->i->opt.clock);
    size_t count;

    b->all_count = 0;
    b->oversized = 0;
    b->next_due_ms = -1;
    df_arena_reset(&b->claimed);
    b->all = DF_ARENA_ARRAY(&b->claimed, struct ticket, CLAIM_MAX);
    struct df_ids ids = df_ids_for(&b->claimed, CLAIM_MAX, false);
    enum df_code code = find_due(db, b, now_ms, &ids, &count, err);
    if (code != DF_OK)
        return code;
    if (b->oversized)
        return refuse_oversized(db, b, now_ms, err);
    return count > 0 ? claim_due(db, b, now_ms, &ids, err) : find_next_due(db, b, err);
}

/* --- the work --------------------------------------------------------------------------------- */

/* The absent slice when it became longer than the buffer's maximum. */
static struct df_str built(struct df_arena *a, struct df_buf *take_buf)
{
    struct df_str s = DF_STR_NULL;
    if (!df_buf_failed(take_buf))
        s = df_arena_str(a, df_buf_str(take_buf));
    df_buf_release(take_buf);
    return s;
}

/* The ack of a ticket that is fit, or of one that is not. */
static struct df_str build_ack(struct batch *b, const struct df_ticket *t, struct df_str problems)
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
    return built(&b->kept, &out);
}

static struct df_str build_return(struct batch *b, const struct df_ticket *t)
{
    struct df_buf out;

    df_buf_init(&out, ACK_MAX_BYTES);
    df_ticket_return_build(t, df_wall_ms(b->i->opt.clock), &out);
    return built(&b->kept, &out);
}

static struct df_str problem(struct batch *b, struct df_str text)
{
    return df_arena_str(&b->kept, df_utf8_cut(text, ERROR_UNITS));
}

/* What is to be sent; what can not be sent whole is a problem of the ticket. */
static void build_outcome(struct batch *b, struct ticket *t, const struct df_ticket *parsed)
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
    t->problems = problem(b, df_arena_printf(&b->parsed,
                                             "its return or functional ack would be larger than %d "
                                             "bytes",
                                             ACK_MAX_BYTES));
}

static void work_on(struct batch *b, struct ticket *t)
{
    struct df_arena *a = &b->parsed;
    struct df_err err = DF_ERR_INIT;
    const struct df_json *root = NULL;
    struct df_ticket parsed = {0};
    struct df_input in;

    df_arena_reset(a);
    if (df_json_parse(a, t->raw, &root, &err) != DF_OK) {
        t->problems = problem(b, df_str_c(err.detail));
        return;
    }
    df_input_init(&in, a, root);
    df_ticket_check(&in, &parsed);
    struct df_str problems = df_payload_problems(&in);
    if (problems.ptr)
        t->problems = problem(b, problems);
    build_outcome(b, t, &parsed);
}

/* --- the outcome ------------------------------------------------------------------------------ */

/* By fence, so that those with the same one stand together; then by id. */
static int in_order(const void *a, const void *b)
{
    const struct ticket *x = a;
    const struct ticket *y = b;

    if (x->fence != y->fence)
        return x->fence < y->fence ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Tickets of one fence, in the order of their ids. */
struct group {
    struct ticket *at;
    size_t count;
};

static struct ticket *find_ticket(struct group g, int64_t id)
{
    const struct ticket like = {.id = id, .fence = g.at[0].fence};
    return bsearch(&like, g.at, g.count, sizeof(struct ticket), in_order);
}

static enum df_code settle_done(struct df_db *db, struct batch *b, struct group g,
                                struct df_value now, struct df_err *err)
{
    struct df_ids ids = df_ids_for(&b->params, g.count, false);
    struct df_result *r = NULL;
    size_t fit = 0;

    for (size_t i = 0; i < g.count; i++) {
        if (g.at[i].problems.ptr)
            continue;
        df_ids_add_int(&ids, g.at[i].id);
        fit++;
    }
    if (fit == 0)
        return DF_OK;
    enum df_code code = df_db_query(
        db, &df_q_process_done, DF_PARAMS(now, df_ids_value(&ids), df_int(g.at[0].fence)), &r, err);
    if (code != DF_OK)
        return code;
    while ((code = df_result_step(r, err)) == DF_ROW) {
        struct ticket *t = find_ticket(g, df_col_int(r, 0));
        if (t)
            t->settled = true;
    }
    df_result_free(r);
    return code == DF_DONE ? DF_OK : code;
}

static enum df_code settle_failed(struct df_db *db, struct batch *b, struct df_value now,
                                  struct df_err *err)
{
    struct df_rows failed = df_rows_for(&b->params, &df_q_process_failed, b->count);
    int64_t *affected = DF_ARENA_ARRAY(&b->params, int64_t, b->count);

    for (size_t i = 0; i < b->count; i++) {
        const struct ticket *t = &b->tickets[i];
        struct df_value due =
            t->refused ? df_time(now.i + b->i->opt.delivery_settings.lease_ms) : df_null(DF_TIME);
        if (t->problems.ptr)
            df_rows_add(&failed,
                        DF_PARAMS(df_text(t->problems), now, due, df_int(t->id), df_int(t->fence)));
    }
    enum df_code code = df_rows_run(db, &failed, affected, err);
    for (size_t i = 0, f = 0; i < b->count && code == DF_OK; i++) {
        if (b->tickets[i].problems.ptr)
            b->tickets[i].settled = affected[f++] == 1;
    }
    return code;
}

/* Processed or Error; t->settled tells whether it was still ours. */
static enum df_code settle_tickets(struct df_db *db, struct batch *b, struct df_value now,
                                   struct df_err *err)
{
    enum df_code code = DF_OK;

    for (size_t i = 0; i < b->count; i++)
        b->tickets[i].settled = b->tickets[i].returned = false;
    for (size_t i = 0, n; i < b->count && code == DF_OK; i += n) {
        for (n = 1; i + n < b->count && b->tickets[i + n].fence == b->tickets[i].fence;)
            n++;
        code = settle_done(db, b, (struct group){b->tickets + i, n}, now, err);
    }
    if (code == DF_OK)
        code = settle_failed(db, b, now, err);
    for (size_t i = 0; i < b->count && code == DF_OK; i++) {
        const struct ticket *t = &b->tickets[i];
        b->processed += t->settled && !t->problems.ptr;
        b->rejected += t->settled && t->problems.ptr && !t->refused;
        b->refused += t->settled && t->refused;
    }
    return code;
}

/* Which of them have a return. */
static enum df_code find_returned(struct df_db *db, struct batch *b, struct df_err *err)
{
    struct df_ids ids = df_ids_for(&b->params, b->count, false);
    struct df_result *r = NULL;

    for (size_t i = 0; i < b->count; i++)
        df_ids_add_int(&ids, b->tickets[i].id);
    enum df_code code = df_db_query(db, &df_q_return_known, DF_PARAMS(df_ids_value(&ids)), &r, err);
    if (code != DF_OK)
        return code;
    while ((code = df_result_step(r, err)) == DF_ROW) {
        int64_t id = df_col_int(r, 0);
        for (size_t i = 0; i < b->count; i++)
            b->tickets[i].returned = b->tickets[i].returned || b->tickets[i].id == id;
    }
    df_result_free(r);
    return code == DF_DONE ? DF_OK : code;
}

static enum df_code enqueue_returns(struct df_db *db, struct batch *b, struct df_value now,
                                    struct df_err *err)
{
    const char *url = b->i->opt.settings.ticket_return_url;
    struct df_value target = df_text(df_str_c(url ? url : ""));
    struct df_rows replace = df_rows_for(&b->params, &df_q_return_replace, b->count);
    struct df_rows insert = df_rows_for(&b->params, &df_q_return_insert, b->count);
    struct df_rows pending = df_rows_for(&b->params, &df_q_return_pending_ticket, b->count);

    enum df_code code = b->processed > 0 ? find_returned(db, b, err) : DF_OK;
    for (size_t i = 0; i < b->count && code == DF_OK; i++) {
        const struct ticket *t = &b->tickets[i];
        if (!t->settled || t->problems.ptr)
            continue;
        if (!t->returned) {
            df_rows_add(&insert, DF_PARAMS(df_text(t->entity), df_text(t->row_doc_id),
                                           df_int(t->phase), df_text(t->answer), target, now));
            continue;
        }
        df_rows_add(&replace, DF_PARAMS(df_text(t->answer), now, df_int(t->id)));
        df_rows_add(&pending, DF_PARAMS(df_int(t->id)));
    }
    if (code == DF_OK)
        code = df_rows_run(db, &replace, NULL, err);
    if (code == DF_OK)
        code = df_rows_run(db, &insert, NULL, err);
    return code == DF_OK ? df_rows_run(db, &pending, NULL, err) : code;
}

static enum df_code enqueue_acks(struct df_db *db, struct batch *b, struct df_value now,
                                 struct df_err *err)
{
    const char *url = b->i->opt.settings.functional_ack_url;
    struct df_rows acks = df_rows_for(&b->params, &df_q_functional_ack_insert, b->count);

    for (size_t i = 0; i < b->count; i++) {
        const struct ticket *t = &b->tickets[i];
        if (t->settled && t->ack.ptr)
            df_rows_add(&acks,
                        DF_PARAMS(df_text(t->doc_id), df_text(t->ack),
                                  df_text(df_str_c(url ? url : "")), now, df_uuid(t->client_id)));
    }
    b->acks = acks.count > 0;
    return df_rows_run(db, &acks, NULL, err);
}

/* Who hears of tickets. */
struct listener {
    struct df_str id;
    struct df_str identifier;
};

/* DF_ARENA memory: b->params. At most as many as there are tickets. */
static enum df_code find_listeners(struct df_db *db, struct batch *b, struct listener *ret,
                                   size_t *ret_count, struct df_err *err)
{
    struct df_ids ids = df_ids_for(&b->params, b->count, true);
    struct df_str last = DF_STR_NULL;
    struct df_result *r = NULL;

    *ret_count = 0;
    for (size_t i = 0; i < b->count; i++) {
        struct df_str id = b->tickets[i].client_id;
        if (b->tickets[i].settled && id.ptr && !(last.ptr && df_str_eq(last, id))) {
            df_ids_add(&ids, id);
            last = id;
        }
    }
    if (!last.ptr)
        return DF_OK;
    enum df_code code =
        df_db_query(db, &df_q_process_listeners, DF_PARAMS(df_ids_value(&ids)), &r, err);
    if (code != DF_OK)
        return code;
    while ((code = df_result_step(r, err)) == DF_ROW && *ret_count < b->count)
        ret[(*ret_count)++] =
            (struct listener){.id = df_arena_str(&b->params, df_col_text(r, 0)),
                              .identifier = df_arena_str(&b->params, df_col_text(r, 1))};
    df_result_free(r);
    return code == DF_DONE || code == DF_ROW ? DF_OK : code;
}

static struct df_str event_body(struct batch *b, const struct ticket *t, struct df_str client,
                                const char *event, int64_t now_ms)
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
    df_json_kv_text(&j, "status", t->problems.ptr ? DF_STR("Error") : DF_STR("Processed"));
    df_json_kv_text(&j, "error", t->problems);
    df_json_kv_time(&j, "processedAt", now_ms);
    df_json_close(&j, '}');
    return built(&b->params, &out);
}

/* TicketProcessed and TicketFailed, for whoever wants them. */
static enum df_code tell_listeners(struct df_db *db, struct batch *b, struct df_value now,
                                   struct df_err *err)
{
    struct listener *listeners = DF_ARENA_ARRAY(&b->params, struct listener, b->count);
    struct df_webhook_event *events = DF_ARENA_ARRAY(&b->params, struct df_webhook_event, b->count);
    size_t listener_count = 0;
    size_t count = 0;

    b->webhooks = 0;
    enum df_code code = find_listeners(db, b, listeners, &listener_count, err);
    if (code != DF_OK || listener_count == 0)
        return code;
    for (size_t i = 0; i < b->count; i++) {
        const struct ticket *t = &b->tickets[i];
        size_t k = 0;
        while (k < listener_count &&
               !(t->client_id.ptr && df_str_eq(listeners[k].id, t->client_id)))
            k++;
        if (!t->settled || t->refused || k == listener_count)
            continue;
        const char *event = t->problems.ptr ? "TicketFailed" : "TicketProcessed";
        events[count++] = (struct df_webhook_event){
            .client_id = t->client_id,
            .event = event,
            .reference = t->row_doc_id,
            .body = event_body(b, t, listeners[k].identifier, event, now.i),
            .correlation_id = t->row_doc_id,
            .now_ms = now.i,
        };
    }
    return df_webhooks_emit_many(db, b->i->opt.clock, events, count, &b->params, &b->webhooks, err);
}

static enum df_code run_outcome(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct batch *b = (struct batch *)job;
    struct df_value now = df_time(df_wall_ms(b->i->opt.clock));

    b->processed = b->rejected = b->refused = 0;
    df_arena_reset(&b->params);
    enum df_code code = settle_tickets(db, b, now, err);
    if (code == DF_OK)
        code = enqueue_returns(db, b, now, err);
    if (code == DF_OK)
        code = enqueue_acks(db, b, now, err);
    return code == DF_OK ? tell_listeners(db, b, now, err) : code;
}

static void count_outcome(const char *outcome, size_t count)
{
    struct df_str label = df_str_c(outcome);
    if (count > 0)
        df_metric_add(df_metric_get(&processed_total, &label), (double)count);
}

static void tell(struct batch *b)
{
    count_outcome("processed", b->processed);
    count_outcome("rejected", b->rejected);
    count_outcome("refused", b->refused);
    count_outcome("overtaken", b->count - b->processed - b->rejected - b->refused);
    for (size_t i = 0; i < b->count; i++) {
        const struct ticket *t = &b->tickets[i];
        struct df_log_field fields[] = {DF_F("correlationId", t->doc_id), DF_FI("id", t->id)};
        if (t->refused)
            continue; /* said when it was, with the reason */
        if (t->problems.ptr)
            df_log_write(DF_LOG_WARN, "TicketRejected", fields, 2,
                         "the ticket can not be processed: see its LastError");
        else
            df_log_write(DF_LOG_DEBUG, "TicketProcessed", fields, 2, "the ticket was processed");
    }
    if (b->processed > 0) {
        df_interface_wake(b->i, DF_WORK_RETURNS);
        df_interface_wake(b->i, DF_WORK_GATEWAY);
    }
    if (b->acks)
        df_interface_wake(b->i, DF_WORK_ACKS);
    if (b->webhooks > 0)
        df_webhooks_wake(b->i->opt.webhooks);
}

static enum df_code write_outcome(struct batch *b, struct df_err *err)
{
    b->job = (struct df_job){.run = run_outcome};
    enum df_code code = df_store_write_wait(b->i->opt.store, &b->job, err);
    if (code == DF_OK)
        tell(b);
    return code;
}

/* For what is in it: another time would not help. */
static bool is_refused(enum df_code code)
{
    return code != DF_OK && df_code_retry(code) == DF_RETRY_NEVER;
}

/* Each by itself: one that the database refuses keeps no other back. It waits as Error until it is
 * due again; its sender is told nothing yet, since it may not be the ticket that has to change. */
static enum df_code write_one_by_one(struct batch *b, struct df_err *err)
{
    struct ticket *all = b->tickets;
    size_t count = b->count;
    enum df_code failed = DF_OK; /* of one for which not even that could be written */

    b->count = 1;
    for (size_t i = 0; i < count; i++) {
        struct ticket *t = b->tickets = &all[i];
        enum df_code code = write_outcome(b, err);
        if (code == DF_OK)
            continue;
        if (!is_refused(code))
            return code;
        t->refused = true;
        t->ack = DF_STR_NULL;
        struct df_log_field fields[] = {DF_F("correlationId", t->doc_id), DF_FI("id", t->id)};
        df_log_write(DF_LOG_ERROR, "TicketRefused", fields, 2,
                     "the database does not take the ticket's outcome: %s", err->detail);
        t->problems = problem(b, df_str_c(df_err_outside(err)));
        code = write_outcome(b, err);
        failed = code != DF_OK ? code : failed;
    }
    return failed;
}

/* --- the thread ------------------------------------------------------------------------------- */

/* Works on as many of those from `first` on as make one outcome; *ret_count: how many. */
static enum df_code process_some(struct batch *b, size_t first, size_t *ret_count,
                                 struct df_err *err)
{
    df_arena_reset(&b->kept);
    b->tickets = b->all + first;
    for (b->count = 0; first + b->count < b->all_count && b->kept.used_bytes < OUTCOME_BYTES;)
        work_on(b, &b->tickets[b->count++]);
    *ret_count = b->count;
    enum df_code code = write_outcome(b, err);
    return is_refused(code) ? write_one_by_one(b, err) : code;
}

/* One batch. *ret_wait_ms: how long there is nothing to do; 0: there may be more at once. */
static enum df_code process_batch(struct batch *b, int64_t *ret_wait_ms, struct df_err *err)
{
    b->job = (struct df_job){.run = run_claim};
    enum df_code code = df_store_write_wait(b->i->opt.store, &b->job, err);
    if (code != DF_OK)
        return code;
    if (b->oversized) {
        struct df_log_field fields[] = {DF_FI("id", b->oversized)};
        count_outcome("rejected", 1);
        df_log_write(DF_LOG_WARN, "TicketRejected", fields, 1, "the ticket's payload is too large");
        *ret_wait_ms = 0;
        return DF_OK;
    }
    if (b->all_count == 0) {
        int64_t wait_ms =
            b->next_due_ms < 0 ? POLL_MS : b->next_due_ms - df_wall_ms(b->i->opt.clock);
        *ret_wait_ms = wait_ms < 1 ? 1 : wait_ms < POLL_MS ? wait_ms : POLL_MS;
        return DF_OK;
    }
    *ret_wait_ms = 0;
    qsort(b->all, b->all_count, sizeof(struct ticket), in_order);
    for (size_t i = 0, n = 0; i < b->all_count && code == DF_OK; i += n)
        code = process_some(b, i, &n, err);
    df_arena_reset(&b->claimed);
    df_arena_reset(&b->parsed);
    df_arena_reset(&b->kept);
    df_arena_reset(&b->params);
    return code;
}

void *df_ticket_processing(void *arg)
{
    struct df_interface *i = arg;
    struct batch b = {.i = i};
    int64_t backoff_ms = 0;
    int64_t wait_ms = 0;

    df_arena_init(&b.claimed);
    df_arena_init(&b.parsed);
    df_arena_init(&b.kept);
    df_arena_init(&b.params);
    df_lock(&i->lock);
    while (!i->stopping) {
        if (wait_ms > 0 && (!i->woken || backoff_ms > 0))
            df_cond_wait_ms(&i->changed, &i->lock, wait_ms);
        if (i->stopping)
            break;
        i->woken = false;
        df_unlock(&i->lock);

        struct df_err err = DF_ERR_INIT;
        if (process_batch(&b, &wait_ms, &err) == DF_OK) {
            backoff_ms = 0;
        } else {
            df_log_error("TicketProcessingFailed", "%s", err.detail);
            backoff_ms = backoff_ms ? backoff_ms * 2 : 100;
            backoff_ms = backoff_ms < BACKOFF_MAX_MS ? backoff_ms : BACKOFF_MAX_MS;
            wait_ms = backoff_ms;
        }
        df_lock(&i->lock);
    }
    df_unlock(&i->lock);
    df_arena_release(&b.claimed);
    df_arena_release(&b.parsed);
    df_arena_release(&b.kept);
    df_arena_release(&b.params);
    return NULL;
}
