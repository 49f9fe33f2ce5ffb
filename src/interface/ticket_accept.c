/*
 * Tickets are processed in the transaction that accepts them: the handler has parsed the payload,
 * so it also checks it and builds return and ack, and the row is written with its outcome. The
 * transactions of many requests share statements.
 *
 * A ticket whose outcome the database refuses (a constraint, a trigger) is accepted nevertheless:
 * it is written as Awaiting, and the loop (processing.c) takes it up. So is every ticket in a
 * process that does not process tickets.
 */
#include "base/personal.h"
#include "base/tally.h"
#include "interface/processing_private.h"
#include "interface/tickets.sql.h"
#include "store/rows.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

void ticket_acceptance_judge(struct ticket_acceptance *c, const struct df_input *in,
                             const struct df_interface *i)
{
    struct df_input rest;
    struct df_span span;

    c->t.entity = c->parsed.doc.business_entity;
    c->t.row_doc_id = c->parsed.doc.business_doc_id;
    c->t.phase = c->parsed.phase_code;
    c->judged = i->processes;
    if (!c->judged)
        return;
    bool recorded = ticket_span_begin(i, &c->t, &span);
    df_input_init(&rest, c->arena, in->object);
    df_ticket_check_rest(&rest, &c->parsed);
    ticket_judge(i, &c->t, &c->parsed, df_payload_problems(&rest), c->arena);
    if (recorded)
        ticket_span_end(&c->t, &span, DF_OK);
}

/* --- the row ---------------------------------------------------------------------------------- */

/* What the transaction works with. */
struct accepting {
    struct df_interface *i;
    struct ticket_acceptance **all;
    size_t count;
    struct df_value now;
    struct df_arena arena;
};

static struct df_p_ticket_upsert row_of(const struct accepting *x,
                                        const struct ticket_acceptance *c)
{
    const struct df_ticket *p = &c->parsed;
    bool is_fit = c->judged && ticket_is_fit(&c->t);
    bool is_unfit = c->judged && !is_fit;
    int64_t attempts = is_unfit ? x->i->opt.delivery_settings.retry.max_attempts : is_fit;

    return (struct df_p_ticket_upsert){
        .entity = df_text(c->t.entity),
        .doc = df_text(c->t.row_doc_id),
        .phase = df_int(c->t.phase),
        .company = df_text(p->company_code),
        .branch = df_text(p->branch_code),
        .destination = df_text(p->destination_code),
        .event = df_text(p->shipment_event),
        .ack = df_bool(p->ack_required),
        .target = df_text(p->targets[0]),
        .payload = df_text(c->payload),
        .hash = df_text(df_str_c(c->hash)),
        .now = x->now,
        .client = df_reach_client(&c->reach),
        .all = df_reach_all(&c->reach),
        .status = df_text(is_fit     ? DF_STR("Processed")
                          : is_unfit ? DF_STR("Error")
                                     : DF_STR("Awaiting")),
        .error = df_text(df_mask_note(is_unfit ? c->t.problems : DF_STR_NULL, SIZE_MAX, c->arena)),
        .tries = df_int(c->judged),
        .attempts = df_int(attempts),
        .due = c->judged ? df_null(DF_TIME) : x->now,
        .gateway_due = is_fit ? x->now : df_null(DF_TIME),
        .trace = df_text(c->t.trace_parent),
    };
}

static void read_row(struct ticket_acceptance *c, struct df_result *r)
{
    c->t.id = df_col_int(r, ticket_written_Id);
    c->t.client_id = df_arena_str(c->arena, df_col_text(r, ticket_written_ClientId));
    c->created = df_col_int(r, ticket_written_PayloadVersion) == 1;
}

static void read_written(void *arg, struct df_result *r)
{
    struct ticket_acceptance *c = arg;

    read_row(c, r);
    c->changed = true;
    c->status = DF_STR("Awaiting"); /* what it starts as, whatever it is by now */
}

static void read_one_written(void *arg, size_t row, struct df_result *r)
{
    read_written(((const struct accepting *)arg)->all[row], r);
}

static void read_same(void *arg, struct df_result *r)
{
    struct ticket_acceptance *c = arg;

    read_row(c, r);
    c->created = false;
    c->status = df_arena_str(c->arena, df_col_text(r, ticket_written_Status));
    c->refused = !df_reach_has(&c->reach, c->t.client_id);
}

/* The ticket was not written: it has this payload already, or is another client's. */
static enum df_code find_same(struct df_db *db, struct ticket_acceptance *c, struct df_err *err)
{
    bool found = false;
    enum df_code code =
        df_db_one(db,
                  DF_Q(ticket_same, .entity = df_text(c->t.entity), .doc = df_text(c->t.row_doc_id),
                       .phase = df_int(c->t.phase)),
                  read_same, c, &found, err);

    if (code == DF_OK && !found)
        return df_err_set(err, DF_E_DB_CONFLICT, "The ticket was written by another call as well.");
    return code == DF_OK && c->refused ? df_reach_refuse(err, "ticket") : code;
}

static enum df_code upsert_ticket(struct df_db *db, struct ticket_acceptance *c,
                                  const struct df_p_ticket_upsert *row, struct df_err *err)
{
    bool found;
    return df_db_one(db, &df_q_ticket_upsert, DF_VALUES(row), DF_WIDTH(ticket_upsert), read_written,
                     c, &found, err);
}

_Static_assert(offsetof(struct df_p_ticket_upsert, all) == sizeof(struct df_p_ticket_insert),
               "the parameters of ticket_insert are the first ones of ticket_upsert");

/* Most tickets are new. */
static enum df_code insert_ticket(struct df_db *db, struct ticket_acceptance *c,
                                  const struct df_p_ticket_upsert *row, struct df_err *err)
{
    int64_t inserted = 0;
    enum df_code code = df_db_exec(db, &df_q_ticket_insert, DF_VALUES(row), DF_WIDTH(ticket_insert),
                                   &inserted, err);

    if (code != DF_OK)
        return code;
    if (inserted == 0)
        return upsert_ticket(db, c, row, err);
    c->t.id = df_db_last_id(db);
    c->t.client_id = row->client.null ? DF_STR_NULL : row->client.s;
    c->created = c->changed = true;
    c->status = DF_STR("Awaiting"); /* as in read_written */
    return DF_OK;
}

static enum df_code write_rows(struct df_db *db, struct accepting *x,
                               const struct df_p_ticket_upsert *rows, struct df_err *err)
{
    bool is_sqlite = df_db_dialect(db) == DF_SQLITE;
    enum df_code code = DF_OK;

    if (x->count > 1 && !is_sqlite)
        return df_db_exec_many(db, DF_MANY(ticket_upsert, rows), x->count, read_one_written, x,
                               NULL, NULL, err);
    for (size_t i = 0; i < x->count && code == DF_OK; i++)
        code = (is_sqlite ? insert_ticket : upsert_ticket)(db, x->all[i], &rows[i], err);
    return code;
}

static enum df_code write_tickets(struct df_db *db, struct accepting *x, struct df_err *err)
{
    struct df_p_ticket_upsert *rows =
        DF_ARENA_ARRAY(&x->arena, struct df_p_ticket_upsert, x->count);

    for (size_t i = 0; i < x->count; i++) {
        struct ticket_acceptance *c = x->all[i];
        c->created = c->changed = c->refused = false;
        rows[i] = row_of(x, c);
    }
    enum df_code code = write_rows(db, x, rows, err);
    /* In a database that ignores lock hints, the second of two inserts at once meets the key. */
    if (code == DF_E_DB_UNIQUE)
        return df_err_set(err, DF_E_DB_CONFLICT, "The ticket was written by another call as well.");
    for (size_t i = 0; i < x->count && code == DF_OK; i++) {
        struct ticket_acceptance *c = x->all[i];
        c->t.found = c->changed && c->judged;
        if (!c->changed)
            code = find_same(db, c, err);
    }
    return code;
}

/* What arrived of payloads that are replaced stays in the history. */
static enum df_code keep_history(struct df_db *db, struct accepting *x, struct df_err *err)
{
    struct df_ids ids = df_ids_for(&x->arena, x->count, false);
    bool replaced = false;

    for (size_t i = 0; i < x->count; i++) {
        const struct ticket_acceptance *c = x->all[i];
        if (!c->changed || c->created)
            continue;
        df_ids_add_int(&ids, c->t.id);
        replaced = true;
    }
    return replaced ? df_db_exec(db, DF_Q(ticket_keep_sent, .ids = df_ids_value(&ids)), NULL, err)
                    : DF_OK;
}

/* A replaced payload takes those whom its callback named with it. */
static enum df_code write_people(struct df_db *db, struct accepting *x, struct df_err *err)
{
    struct df_subject_doc *docs = DF_ARENA_ARRAY(&x->arena, struct df_subject_doc, 2 * x->count);
    size_t n = 0;

    for (size_t i = 0; i < x->count; i++) {
        const struct ticket_acceptance *c = x->all[i];
        if (!c->changed || (c->created && c->people.count == 0))
            continue;
        struct df_str row = df_arena_printf(&x->arena, "%lld", (long long)c->t.id);
        docs[n++] = (struct df_subject_doc){.place = "ticket",
                                            .row = row,
                                            .subjects = c->people.at,
                                            .count = c->people.count,
                                            .is_new = c->created};
        if (!c->created)
            docs[n++] = (struct df_subject_doc){.place = "callback", .row = row};
    }
    return df_subjects_write_all(db, docs, n, &x->arena, err);
}

/* --- the transaction -------------------------------------------------------------------------- */

static enum df_code write_effects(struct df_db *db, struct accepting *x, struct df_err *err)
{
    struct ticket_effects e = {.i = x->i,
                               .tickets = DF_ARENA_ARRAY(&x->arena, struct ticket *, x->count),
                               .arena = &x->arena};

    for (size_t i = 0; i < x->count; i++) {
        if (x->all[i]->t.found)
            e.tickets[e.count++] = &x->all[i]->t;
    }
    if (e.count == 0)
        return DF_OK;
    enum df_code code = ticket_effects_write(db, &e, x->now, err);
    for (size_t i = 0; i < x->count; i++)
        x->all[i]->webhooks = e.webhooks > 0;
    return code;
}

static enum df_code accept_tickets(struct df_db *db, struct df_interface *i,
                                   struct ticket_acceptance **all, size_t count, struct df_err *err)
{
    struct accepting x = {
        .i = i, .all = all, .count = count, .now = df_time(df_wall_ms(i->opt.clock))};

    df_arena_init(&x.arena);
    for (size_t n = 0; n < count; n++)
        all[n]->due_ms = x.now.i;
    enum df_code code = write_tickets(db, &x, err);
    if (code == DF_OK)
        code = keep_history(db, &x, err);
    if (code == DF_OK)
        code = write_people(db, &x, err);
    if (code == DF_OK)
        code = write_effects(db, &x, err);
    df_arena_release(&x.arena);
    return code;
}

static bool is_refusal(enum df_code code)
{
    return code != DF_OK && code != DF_E_ANOTHER_CLIENT && df_code_retry(code) == DF_RETRY_NEVER;
}

enum df_code ticket_accept(struct df_db *db, struct df_interface *i, struct ticket_acceptance *c,
                           struct df_err *err)
{
    struct df_err why = DF_ERR_INIT;
    enum df_code code = accept_tickets(db, i, &c, 1, err);

    if (!c->judged || !is_refusal(code))
        return code;
    c->judged = false;
    /* The writer's savepoint. A database may have rolled back the whole transaction. */
    if (df_db_rollback_to(db, &why) != DF_OK || df_db_savepoint(db, &why) != DF_OK)
        return df_db_alive(db) ? df_err_set(err, DF_E_DB_CONFLICT, "%s", why.detail) : code;
    return accept_tickets(db, i, &c, 1, err);
}

static int compare_texts(struct df_str a, struct df_str b)
{
    int order = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);
    return order ? order : a.len < b.len ? -1 : a.len > b.len;
}

static int compare_keys(const void *a, const void *b)
{
    const struct ticket *x = &(*(struct ticket_acceptance *const *)a)->t;
    const struct ticket *y = &(*(struct ticket_acceptance *const *)b)->t;
    int order = compare_texts(x->row_doc_id, y->row_doc_id);

    if (order == 0)
        order = compare_texts(x->entity, y->entity);
    return order ? order : x->phase < y->phase ? -1 : x->phase > y->phase;
}

enum df_code ticket_accept_all(struct df_db *db, struct df_interface *i,
                               struct ticket_acceptance **all, size_t count, struct df_err *err)
{
    enum df_code code = DF_OK;

    if (df_db_dialect(db) == DF_SQLSERVER) { /* the upsert is several statements */
        for (size_t n = 0; n < count && code == DF_OK; n++)
            code = accept_tickets(db, i, &all[n], 1, err);
        return code;
    }
    /* In the order of their keys all transactions that accept lock them. Others lock tickets by id.
     * To do the same here would take one more query for every group, though most tickets are new.
     * A deadlock with them needs two replaced tickets in one group, and two of the same in the
     * other transaction at that moment; the store then runs the group again. */
    qsort(all, count, sizeof(struct ticket_acceptance *), compare_keys);
    for (size_t n = 1; n < count; n++) {
        if (compare_keys(&all[n - 1], &all[n]) == 0)
            return df_err_set(err, DF_E_DB_UNIQUE, "two tickets have the same key");
    }
    return accept_tickets(db, i, all, count, err);
}

void ticket_accepted(struct df_interface *i, struct ticket_acceptance *c)
{
    if (!c->changed)
        return;
    if (!c->judged) {
        df_tally(c->t.client_id, DF_STR(TICKET_CHANNEL), &(struct df_tallied){.accepted = 1});
        df_interface_wake(i, DF_WORK_TICKETS);
        return;
    }
    ticket_tell(&c->t, ticket_happens(&c->t, TICKET_EV_WRITTEN));
    bool is_processed = c->t.state == TICKET_PROCESSED;
    df_tally(
        c->t.client_id, DF_STR(TICKET_CHANNEL),
        &(struct df_tallied){.accepted = 1, .processed = is_processed, .failed = !is_processed});
    ticket_count_outcome(is_processed ? "processed" : "rejected", 1);
    (void)atomic_fetch_add(&i->processed_count, is_processed);
    ticket_effects_wake(i, is_processed, c->t.ack.ptr != NULL, c->webhooks, c->due_ms);
}
