/* Metrics and log messages of chunks and batches. */
#include "imports/figures.h"
#include "base/metrics.h"
#include "imports/process/process_private.h"

/* A chunk may wait for its ack, and a batch may have many chunks. */
static const double long_seconds[] = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,    2.5,  5,
                                      10,   30,    60,   150, 300,  600, 1800, 3600, 14400};
#define LONG_SECONDS                                                                               \
    .buckets = long_seconds, .bucket_count = sizeof(long_seconds) / sizeof(long_seconds[0])

DF_METRIC_FAMILY(batches_processing) = {
    .name = "dataflow_batches_processing",
    .help = "Batches that this process works on.",
    .type = DF_GAUGE,
};
DF_METRIC_FAMILY(chunk_inflight) = {
    .name = "dataflow_chunk_inflight",
    .help = "Chunks in hand: cut, and not settled.",
    .type = DF_GAUGE,
};
DF_METRIC_FAMILY(chunk_duration) = {
    .name = "dataflow_chunk_duration_seconds",
    .help = "From cutting a chunk that is sent to its settlement, retries and acks "
            "included.",
    .type = DF_HISTOGRAM,
    LONG_SECONDS,
};
DF_METRIC_FAMILY(chunk_errors) = {
    .name = "dataflow_chunk_errors_total",
    .help = "Failed attempts at chunks, by client and reason; the reasons as in the "
            "log's ChunkError.",
    .type = DF_COUNTER,
    .labels = {"clientId", "reason"},
};
DF_METRIC_FAMILY(batch_duration) = {
    .name = "dataflow_batch_duration_seconds",
    .help = "From the claim of a batch to its end, by client and final state.",
    .type = DF_HISTOGRAM,
    LONG_SECONDS,
    .labels = {"clientId", "status"},
};
DF_METRIC_FAMILY(records_total) = {
    .name = "dataflow_import_records_total",
    .help = "Records settled, by client and outcome: imported, error, skipped.",
    .type = DF_COUNTER,
    .labels = {"client_id", "outcome"},
};

DF_METRIC_FAMILY(batches_shelved) = {
    .name = "dataflow_batches_shelved_total",
    .help = "How often a batch was given back because OmniFlow took nothing, by client.",
    .type = DF_COUNTER,
    .labels = {"client_id"},
};
DF_METRIC_FAMILY(ack_seconds) = {
    .name = "dataflow_ack_seconds",
    .help = "From sending a chunk to its ack, by client; an answer 200 is the ack itself. The last "
            "sending counts.",
    .type = DF_HISTOGRAM,
    LONG_SECONDS,
    .labels = {"client_id"},
};

void import_note_shelved(const struct import_batch *b)
{
    df_metric_add(df_metric_get(&batches_shelved, &b->row.client), 1);
    import_note_state(b->row.client, DF_BATCH_PENDING);
}

void import_metrics_register(void)
{
    import_figures_register();
    import_mask_register();
    import_maintain_register();
    import_backlog_register();
    struct df_metric_family *all[] = {&batches_processing, &chunk_inflight, &chunk_duration,
                                      &chunk_errors,       &batch_duration, &records_total,
                                      &batches_shelved,    &ack_seconds};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        df_metric_register(all[i]);
}

void import_note_chunk_error(const struct import_chunk *c, const char *reason)
{
    struct df_str labels[] = {c->batch->row.client, df_str_c(reason)};
    df_metric_add_traced(df_metric_get(&chunk_errors, labels), 1, &c->out.trace);
    struct df_log_field fields[] = {DF_FI("chunkId", c->id), DF_F("reason", df_str_c(reason)),
                                    DF_FI("attempt", c->attempts)};
    /* The peer's answer may contain personal data, so it stays in the database. */
    df_log_write(DF_LOG_WARN, "ChunkError", fields, 3, "the chunk was not accepted");
}

void import_note_settled(const struct import_chunk *c, int64_t now_ms)
{
    static const char *const outcomes[DF_ITEM_STATUSES] = {"imported", "error", "skipped"};
    int64_t counts[DF_ITEM_STATUSES] = {0};

    if (c->sent_count > 0)
        df_metric_observe_traced(df_metric_get(&chunk_duration, NULL),
                                 (double)(now_ms - c->first_ms) / 1e3, &c->out.trace);
    for (size_t i = 0; i < c->count; i++)
        counts[c->items[i].status] += c->items[i].records;
    for (size_t i = 0; i < DF_ITEM_STATUSES; i++) {
        struct df_str labels[] = {c->batch->row.client, df_str_c(outcomes[i])};
        if (counts[i] > 0)
            df_metric_add(df_metric_get(&records_total, labels), (double)counts[i]);
    }
}

void import_note_acked(const struct import_chunk *c, int64_t now_ms)
{
    if (c->sent_ms > 0)
        df_metric_observe_traced(df_metric_get(&ack_seconds, &c->batch->row.client),
                                 (double)(now_ms - c->sent_ms) / 1e3, &c->out.trace);
}

void import_note_working(int more)
{
    df_metric_add(df_metric_get(&batches_processing, NULL), more);
}

void import_show_in_hand(struct import_batch *b, size_t count)
{
    if (count != b->hand.shown)
        df_metric_add(df_metric_get(&chunk_inflight, NULL), (double)count - (double)b->hand.shown);
    b->hand.shown = count;
}

void import_note_finished(const struct import_batch *b, enum df_batch_status status)
{
    struct df_str labels[] = {b->row.client, df_str_c(df_batch_status_name(status))};
    struct df_log_field fields[] = {DF_F("status", labels[1]), DF_FI("totalRecords", b->row.total)};

    import_note_state(b->row.client, status);
    df_metric_observe(df_metric_get(&batch_duration, labels),
                      (double)(import_mono_ms(b) - b->started_ms) / 1e3);
    df_log_write(status == DF_BATCH_FAILED ? DF_LOG_WARN : DF_LOG_INFO, "BatchFinalized", fields, 2,
                 DF_STR_FMT, DF_STR_ARG(b->why_logged.ptr ? b->why_logged : b->why));
}
