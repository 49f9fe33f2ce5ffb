/* A section [relay.NAME]. */
#ifndef DF_RELAY_SETTINGS_H
#define DF_RELAY_SETTINGS_H

#include "base/config.h"

/* Columns by their purpose. */
enum df_relay_column {
    DF_RELAY_ID,
    DF_RELAY_EVENT_TYPE,
    DF_RELAY_PAYLOAD,
    DF_RELAY_STATUS,
    DF_RELAY_ATTEMPTS,
    DF_RELAY_CREATED_AT,
    DF_RELAY_REQUIRED, /* the columns before it must exist, the others are used if they do */
    DF_RELAY_AGGREGATE_TYPE = DF_RELAY_REQUIRED,
    DF_RELAY_AGGREGATE_ID,
    DF_RELAY_NEXT_ATTEMPT_AT,
    DF_RELAY_PROCESSED_AT,
    DF_RELAY_LAST_ERROR,
    DF_RELAY_CORRELATION_ID,
    DF_RELAY_TRACE_ID,
    DF_RELAY_SPAN_ID,
    DF_RELAY_TRACE_FLAGS,
    DF_RELAY_COLUMNS
};

enum df_relay_order { DF_RELAY_ORDER_NONE, DF_RELAY_ORDER_AGGREGATE };

#define DF_RELAY_PAYLOAD_MAX (16 << 20)

/* Of the relay that tells workers of batches (the wiring makes it): no section may have this name,
 * or this table. */
#define DF_RELAY_READY       "batch-ready"
#define DF_RELAY_READY_TABLE "batch_ready_outbox"

struct df_relay_settings {
    const char *name;
    const char *url; /* never NULL once loaded: the server's own database if not given */
    const char *table;
    const char *columns[DF_RELAY_COLUMNS];
    const char *state_pending;
    const char *state_processed;
    const char *state_failed;
    int64_t poll_ms;
    int64_t batch;
    int64_t max_payload_bytes; /* 0: DF_RELAY_PAYLOAD_MAX */
    int64_t max_retries;
    int64_t retry_base_ms;
    int64_t retry_cap_ms;
    int64_t workers; /* 0: by the database */
    int64_t timeout_ms;
    int order;      /* enum df_relay_order */
    int dispatcher; /* index into df_dispatchers */
    const char *target;
    int mode; /* enum df_http_mode */
    const struct df_secret *secret;
    const char *source;
    const char *exchange;
    const char *routing_key;
    const char *topic;
    const struct df_secret *properties; /* text; a secret because it may hold passwords */
    const char *notify_channel;
};

extern const struct df_config_group df_relay_group;

/* Fills in values that depend on others: the URL of the server's own database, the source. */
void df_relay_fill_settings(struct df_relay_settings *s, const char *own_url);
/* Checks the settings without a connection; each complaint is a line. */
void df_relay_check_settings(const struct df_relay_settings *s, struct df_buf *complaints);

#endif
