#include "resilience/settings.h"

#define STANDARD(value) value

const struct df_config_key df_breaker_keys[] = {
    DF_BREAKER_KEYS(struct df_breaker_settings, , STANDARD, ""),
    {.key = NULL},
};
