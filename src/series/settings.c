#include "series/settings.h"

#define S struct df_series_settings

/* clang-format off */
const struct df_config_key df_series_keys[] = {
    DF_KEY_BOOL("enabled", S, enabled, "on", "Keep figures by minute and hour for the console and GET /admin/series. Off: nothing is counted; what was kept still goes in time."),
    DF_KEY_INT_IN(DF_SECONDS, "interval_seconds", S, interval_ms, "60", 1, 60, "How often a process writes what it has counted; a crash loses no more than this."),
    DF_KEY_INT("max_clients", S, max_clients, "100", 1, 1000, "Clients with figures of their own, in a minute of a process and in an hour: those that do most. The rest are counted together."),
    {.key = NULL},
};
/* clang-format on */
