/*
 * Takes ended spans (base/span.h) and sends them to an OpenTelemetry collector, in batches, on a
 * thread of its own. Nobody waits for it: a collector that is slow or away fills the queue, and
 * then spans are dropped and counted.
 *
 * A batch that was answered 429, 502, 503 or 504, or not at all, is sent again after a backoff with
 * jitter, not before the time that Retry-After names, and for two minutes at the most. Any other
 * answer but a 2xx drops it. The log tells of an outage when it begins and when it is over.
 */
#ifndef DF_TELEMETRY_EXPORTER_H
#define DF_TELEMETRY_EXPORTER_H

#include "net/client.h"
#include "telemetry/otlp.h"
#include "telemetry/settings.h"

struct df_exporter;

struct df_exporter_options {
    const struct df_telemetry_settings *settings; /* with an endpoint; outlive the exporter */
    struct df_http_client *client;                /* likewise */
    const struct df_clock *clock;
    const char *version;
    const char *instance;
    const char *host;
};

/* Spans are recorded from now on. One exporter in a process. */
struct df_exporter *df_exporter_start(const struct df_exporter_options *opt);
/* Records no more spans, and sends those that wait, for so long. Ends the thread. NULL is fine. */
void df_exporter_stop(struct df_exporter *e, int64_t timeout_ms);
/* When no thread is left that ends spans. NULL is fine. */
void df_exporter_free(struct df_exporter *e);

#endif
