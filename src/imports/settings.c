#include "imports/settings.h"

#include "access/maintenance.h"
#include "base/zone.h"
#include "net/settings.h"

static const char *const mode_names[] = {
    [DF_IMPORTS_EXCLUSIVE] = "exclusive", [DF_IMPORTS_CONCURRENT] = "concurrent", NULL};
static const char *const queue_names[] = {
    [DF_QUEUE_POLL] = "poll", [DF_QUEUE_RABBITMQ] = "rabbitmq", [DF_QUEUE_KAFKA] = "kafka", NULL};

#define S struct df_imports_settings

/* clang-format off */
const struct df_config_key df_omniflow_keys[] = {
    DF_KEY_OPTIONAL("url", S, url, "Base URL of OmniFlow."),
    DF_KEY_SECRET("api_key", S, api_key, "OmniFlow's key."),
    DF_KEY_STRING("api_key_header", S, api_key_header, "X-Api-Key", "Header that carries the key."),
    DF_KEY_INT("batch_size", S, batch_size, "100", 1, 10000, "Records in a chunk."),
    DF_KEY_INT("max_parallel_chunks", S, max_parallel_chunks, "4", 1, 256, "Chunks that may wait for an ack at the same time."),
    DF_KEY_INT("max_retries", S, max_retries, "3", 0, 100, "Retries of a chunk."),
    DF_KEY_INT_LIST("retry_delays_ms", S, retry_delays_ms, "2000,5000,15000", 0, DF_HOURS, "Delays before the retries of a chunk."),
    DF_KEY_INT_IN(DF_SECONDS, "ack_timeout_seconds", S, ack_timeout_ms, "60", 1, 86400, "A chunk without an ack is sent again after this time."),
    DF_KEY_INT("timeout_ms", S, timeout_ms, "30000", 1, DF_HOURS, "Longest time for sending a chunk and its answer."),
    DF_KEY_INT_IN(DF_SECONDS, "max_outage_seconds", S, max_outage_ms, "900", 0, 86400, "How long a batch keeps its worker while OmniFlow takes nothing; then it is Pending until OmniFlow is back."),
    DF_KEY_INT_IN(DF_SECONDS, "probe_seconds", S, probe_ms, "30", 1, 3600, "How often one of the batches that wait for OmniFlow is tried."),
    {.key = NULL},
};

const struct df_config_key df_imports_keys[] = {
    DF_KEY_ENUM("mode", S, mode, "exclusive", mode_names, "One batch at a time, or one for each client."),
    DF_KEY_INT_IN(DF_MINUTES, "lock_timeout_minutes", S, lock_timeout_ms, "30", 1, 1440, "A batch whose owner has done nothing for this long is freed; one whose file no server could read for as long fails."),
    DF_KEY_INT("poll_ms", S, poll_ms, "1000", 10, 60000, "How often waiting batches are looked for."),
    DF_KEY_ENUM("queue", S, queue, "poll", queue_names, "How workers learn of batches: by looking every poll_ms, or by messages of a broker. The same in every process."),
    DF_KEY_OPTIONAL_URL("queue_url", S, queue_url, "The broker: amqp(s)://user:password@host/vhost, or Kafka's host:port,host:port."),
    DF_KEY_STRING("queue_name", S, queue_name, "dataflow.batch-ready", "The queue, or the topic; each installation has its own."),
    DF_KEY_SECRET("queue_properties", S, queue_properties, "kafka: further settings of librdkafka, name=value;name=value."),
    DF_KEY_INT_IN(DF_SECONDS, "queue_backstop_seconds", S, backstop_ms, "30", 1, 86400, "How often an idle worker looks although no message came; every poll_ms while the broker is away."),
    DF_KEY_INT("workers", S, workers, "4", 1, 64, "Batches that this process works on at a time, in concurrent mode."),
    DF_KEY_INT_IN(DF_SECONDS, "fair_seconds", S, fair_ms, "60", 0, 86400, "A batch that has been worked on for this long gives way when another client's batch waits; 0: never, and batches are taken in the order in which they came."),
    DF_KEY_INT("max_records", S, max_records, "2000000", 1, 2147483647, "Records of one file, a run of empty records counted as one; over it the batch fails before anything is sent."),
    DF_KEY_INT("max_growth", S, max_growth, "200", 1, 1000000, "The records of a file together may be this many times larger than the file, or 64 MiB if that is more; over it the batch fails before anything is sent."),
    DF_KEY_STRING("business_time_zone", S, business_time_zone, "America/Sao_Paulo", "Time zone of business hours and of the days that maxBatchPerDay counts."),
    DF_KEY_STRING("maintenance_windows", S, maintenance_windows, NULL, "When no uploads are accepted, UTC: 2026-11-20T02:00Z/2026-11-20T04:00Z, 02:00-04:00 or Sun 02:00-04:00, separated by ';'."),
    {.key = NULL},
};
/* clang-format on */

void df_imports_check_settings(const struct df_imports_settings *s, struct df_buf *complaints)
{
    struct df_err err = DF_ERR_INIT;
    struct df_zone *zone = NULL;
    struct df_maintenance windows = {0};

    df_net_check_url("omniflow", "url", df_str_c(s->url), complaints);
    df_net_check_header("omniflow", s->api_key_header, complaints);
    if (s->queue != DF_QUEUE_POLL && !s->queue_url)
        df_buf_addf(complaints, "[imports] queue: %s needs queue_url\n", queue_names[s->queue]);
    if (df_zone_open(s->business_time_zone, &zone, &err) != DF_OK)
        df_buf_addf(complaints, "[imports] business_time_zone: %s\n", err.detail);
    df_zone_free(zone);
    if (df_maintenance_add(&windows, df_str_c(s->maintenance_windows), &err) != DF_OK)
        df_buf_addf(complaints, "[imports] maintenance_windows: %s\n", err.detail);
}
