/* Tickets whose processing was given up: their number, and the query that finds them. */
#include "base/mem.h"
#include "base/metrics.h"
#include "interface/given_up.sql.h"
#include "interface/interface_private.h"

#include <stdlib.h>

static struct df_metric_family given_up_tickets = {
    .name = "dataflow_tickets_given_up",
    .help = "Tickets whose processing was given up and that wait for a person.",
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
