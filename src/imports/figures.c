#include "imports/figures.h"

#include "base/metrics.h"

DF_METRIC_FAMILY(batches_total) = {
    .name = "dataflow_batches_total",
    .help = "Batches that came into a state, by client: Pending (received, retried, or given back "
            "because OmniFlow took nothing), Scheduled (received), Processing (taken up by a "
            "worker), Completed, CompletedWithErrors, Failed, Cancelled.",
    .type = DF_COUNTER,
    .labels = {"client_id", "status"},
};

void import_figures_register(void)
{
    df_metric_register(&batches_total);
}

void import_note_state(struct df_str client, enum df_batch_status status)
{
    df_metric_add(df_metric_get(&batches_total,
                                (struct df_str[]){client, df_str_c(df_batch_status_name(status))}),
                  1);
}
