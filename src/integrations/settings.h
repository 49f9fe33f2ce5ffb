/* A section [integration.NAME]. */
#ifndef DF_INTEGRATIONS_SETTINGS_H
#define DF_INTEGRATIONS_SETTINGS_H

#include "resilience/settings.h"

struct df_integration_settings {
    const char *name;
    const char *base_url;
    uint32_t methods; /* bits 1 << enum df_method; never 0 once loaded */
    int64_t timeout_ms;
    int64_t retry_max_attempts;
    int64_t retry_wait_ms;
    struct df_breaker_settings breaker; /* values that are not given are those of [breaker] */
    const char *unavailable_code;       /* once loaded never NULL */
    const struct df_secret *api_key;
    const char *api_key_header;
    const char *forward_headers; /* of the request, passed on; separated by commas */
    const char *return_headers;  /* of the answer, passed back; separated by commas */
    /* "Name: value; Name: value", added to every call. A secret because it may hold secrets. */
    const struct df_secret *set_headers;
};

extern const struct df_config_group df_integration_group;

/* Fills in values that depend on others. */
void df_integration_fill_settings(struct df_integration_settings *s,
                                  const struct df_breaker_settings *breaker);
void df_integration_check_settings(const struct df_integration_settings *s,
                                   struct df_buf *complaints);

#endif
