/* Section [otel]. */
#ifndef DF_TELEMETRY_SETTINGS_H
#define DF_TELEMETRY_SETTINGS_H

#include "base/config.h"

struct df_telemetry_settings {
    const char *endpoint; /* NULL: no traces */
    const char *sample_ratio;
    int64_t caller_traces_per_minute;
    const struct df_secret *headers; /* NULL: none */
    int64_t timeout_ms;
    int64_t queue;
    const char *service_name;
};

extern const struct df_config_key df_telemetry_keys[];

void df_telemetry_check_settings(const struct df_telemetry_settings *s, struct df_buf *complaints);

/* A decimal number from 0 to 1 ("0.01"). False: it is none. */
bool df_telemetry_ratio(struct df_str text, double *ret);

/* The next of the headers "name=value,name=value", as OTEL_EXPORTER_OTLP_HEADERS has them: values
 * are percent-encoded. *rest moves behind it. value has the size of *rest. False: it is malformed,
 * or no header for us to send. */
bool df_telemetry_next_header(struct df_str *rest, struct df_str *ret_name, char *value,
                              size_t *ret_len);

#endif
