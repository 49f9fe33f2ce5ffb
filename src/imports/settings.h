/* Sections [omniflow] and [imports], and server.max_upload_bytes. */
#ifndef DF_IMPORTS_SETTINGS_H
#define DF_IMPORTS_SETTINGS_H

#include "base/config.h"

enum df_imports_mode {
    DF_IMPORTS_EXCLUSIVE, /* one batch at a time in the whole installation */
    DF_IMPORTS_CONCURRENT /* one for each client */
};

/* How workers learn of batches. */
enum df_imports_queue_kind {
    DF_QUEUE_POLL,
    DF_QUEUE_RABBITMQ,
    DF_QUEUE_KAFKA,
};

struct df_imports_settings {
    /* OmniFlow. Without a URL batches are received and wait. */
    const char *url; /* the base; NULL: not configured */
    const struct df_secret *api_key;
    const char *api_key_header;
    int64_t batch_size;
    int64_t max_parallel_chunks;
    int64_t max_retries; /* of a chunk */
    struct df_int_list retry_delays_ms;
    int64_t timeout_ms;
    int64_t ack_timeout_ms;
    int64_t max_outage_ms;
    int64_t probe_ms;

    /* Workers. */
    int mode;        /* enum df_imports_mode */
    int64_t workers; /* batches of this process at a time, in concurrent mode */
    int64_t lock_timeout_ms;
    int64_t poll_ms;
    int queue; /* enum df_imports_queue_kind */
    const char *queue_url;
    const char *queue_name;
    const struct df_secret *queue_properties; /* text; a secret because it may hold passwords */
    int64_t backstop_ms; /* between two looks of an idle worker that the queue tells of batches */
    int64_t fair_ms;     /* then a batch gives way if another client's waits; 0: never */
    int64_t max_records; /* items of a batch; a client's policy may allow fewer */
    int64_t max_growth;  /* of a file into records, as a multiple of its bytes */

    /* Receiving. */
    int64_t max_upload_bytes;
    const char *business_time_zone;
    const char *maintenance_windows; /* or NULL */
};

extern const struct df_config_key df_omniflow_keys[];
extern const struct df_config_key df_imports_keys[];

/* Checks that concern more than one key; adds one line for each complaint. */
void df_imports_check_settings(const struct df_imports_settings *s, struct df_buf *complaints);

#endif
