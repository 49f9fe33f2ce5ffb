/* Tickets whose processing was given up: their number, the query that finds them, and
 * POST /admin/tickets/{id}/dismiss. */
#include "access/handler.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "interface/given_up.sql.h"
#include "interface/interface_private.h"

#include <stdio.h>
#include <stdlib.h>

DF_METRIC_FAMILY(given_up_tickets) = {
    .name = "dataflow_tickets_given_up",
    .help = "Tickets whose processing was given up and that wait for a person. Counted "
            "every 5 s by every process that works on tickets: take the maximum.",
    .type = DF_GAUGE,
};

const struct df_query *df_interface_given_up(void)
{
    return &df_q_ticket_given_up;
}

struct count {
    struct df_job job;
    int64_t tickets;
};

static enum df_code run_count(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct count *c = (struct count *)job;
    return df_db_query_int(db, DF_Q0(ticket_given_up_total), &c->tickets, err);
}

static void count_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct count *c = (struct count *)job;
    (void)err; /* the store has logged it */

    if (code == DF_OK)
        df_metric_set(df_metric_get(&given_up_tickets, NULL), (double)c->tickets);
    free(c);
}

void df_interface_take_figures(struct df_interface *i)
{
    struct count *c = df_calloc(1, sizeof(*c));

    c->job = (struct df_job){.run = run_count, .done = count_done};
    if (!df_store_read(i->opt.store, &c->job))
        free(c);
}

/* --- POST /admin/tickets/{id}/dismiss --- */

struct dismissal {
    struct df_work w;
    int64_t id;
    bool dismissed; /* before this call */
};

static bool read_ticket_id(struct df_work *w, struct df_input *in)
{
    struct df_str id = df_req_param(w->req, "id");

    (void)in;
    if (df_str_to_i64(id, &((struct dismissal *)w)->id) && ((struct dismissal *)w)->id > 0)
        return true;
    df_req_fail(w->req, DF_E_NOT_FOUND, "There is no such ticket.");
    return false;
}

static void read_dismissed(void *arg, struct df_result *r)
{
    ((struct dismissal *)arg)->dismissed = !df_col_null(r, ticket_dismissed_DismissedAt);
}

/* Explains why nothing was changed; a ticket that is dismissed already stays as it is. */
static enum df_code explain_no_dismissal(struct df_db *db, struct dismissal *d, struct df_err *err)
{
    bool found = false;
    enum df_code code =
        df_db_one(db, DF_Q(ticket_dismissed, .id = df_int(d->id)), read_dismissed, d, &found, err);

    if (code != DF_OK || (found && d->dismissed))
        return code;
    if (!found)
        return df_err_set(err, DF_E_NOT_FOUND, "There is no such ticket.");
    return df_err_set(err, DF_E_CONFLICT, "The processing of the ticket was not given up.");
}

static enum df_code run_dismissal(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct dismissal *d = (struct dismissal *)w;
    struct df_actor by = df_actor_of(w->req);
    char target[40];
    int64_t changed = 0;
    enum df_code code = df_db_exec(
        db, DF_Q(ticket_dismiss, .id = df_int(d->id), .now = df_time(w->now_ms)), &changed, err);

    (void)snprintf(target, sizeof target, "tickets/%lld", (long long)d->id);
    if (code == DF_OK && changed == 0)
        code = explain_no_dismissal(db, d, err);
    else if (code == DF_OK)
        code = df_audit_write(db, &by, "DeliveryDismissed", df_str_c(target), DF_STR_NULL,
                              DF_STR_NULL, w->now_ms, err);
    df_json_open(&w->json, '{');
    df_json_kv_int(&w->json, "id", d->id);
    df_json_kv_bool(&w->json, "dismissed", true);
    df_json_close(&w->json, '}');
    return code;
}

static const struct df_handler dismiss_ticket = {
    .size = sizeof(struct dismissal),
    .writes = true,
    .prepare = read_ticket_id,
    .run = run_dismissal,
};

const struct df_route df_ticket_dismiss_routes[] = {
    DF_ROUTE("POST", "/admin/tickets/{id}/dismiss", DF_BODY_ANY, DF_ACCESS_ADMIN, DF_NEEDS_OPERATE,
             dismiss_ticket),
    {.method = NULL},
};
