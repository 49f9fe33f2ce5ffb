#include "alerts/settings.h"

#include "net/settings.h"

#define S struct df_alerts_settings

/* clang-format off */
const struct df_config_key df_alerts_keys[] = {
    DF_KEY_SECRET("pagerduty_routing_key", S, pagerduty_routing_key, "Integration key of a PagerDuty service (Events API v2); alerts go there."),
    DF_KEY_STRING("pagerduty_url", S, pagerduty_url, "https://events.pagerduty.com/v2/enqueue", "Where PagerDuty accepts events; https://events.eu.pagerduty.com/v2/enqueue in its EU region."),
    DF_KEY_SECRET("teams_url", S, teams_url, "URL of a Teams Workflows webhook, kept like a password; alerts go there as cards."),
    DF_KEY_OPTIONAL("console_url", S, console_url, "Address of this server's console, as a link in messages."),
    DF_KEY_INT_IN(DF_SECONDS, "interval_seconds", S, interval_ms, "60", 1, 86400, "How often the rules are evaluated."),
    DF_KEY_INT_IN(DF_MINUTES, "batch_stuck_minutes", S, batch_stuck_ms, "60", 1, 100000, "BatchStuck: a batch without progress for this long."),
    DF_KEY_INT_IN(DF_MINUTES, "delivery_stuck_minutes", S, delivery_stuck_ms, "60", 1, 100000, "DeliveryStuck: a channel's oldest row has waited for this long."),
    DF_KEY_INT("webhook_failures", S, webhook_failures, "3", 1, 1000000, "WebhookFailing: deliveries of a subscription given up within an hour."),
    DF_KEY_INT("error_rate_percent", S, error_rate_percent, "20", 0, 100, "ErrorRate: more than this share of a client's records failed."),
    DF_KEY_INT("error_rate_min", S, error_rate_min, "100", 1, 1000000000, "ErrorRate: only for at least this many records."),
    DF_KEY_INT_IN(DF_MINUTES, "error_rate_minutes", S, error_rate_ms, "60", 1, 100000, "ErrorRate: in batches that ended within this time, or are in work."),
    DF_KEY_INT_IN(DF_DAYS, "secret_waits_days", S, secret_waits_ms, "7", 1, 3650, "WebhookSecretWaits: a webhook's new secret that nobody has fetched for this long."),
    {.key = NULL},
};

const struct df_config_key df_secret_age_keys[] = {
    DF_KEY_INT_IN(DF_DAYS, "client_secret_max_days", S, client_secret_max_ms, "0", 0, 36500, "ClientSecretOld: an active client's secret that is older than this; 0: never."),
    {.key = NULL},
};
/* clang-format on */

void df_alerts_check_settings(const struct df_alerts_settings *s, struct df_buf *complaints)
{
    df_net_check_url("alerts", "pagerduty_url", df_str_c(s->pagerduty_url), complaints);
    df_net_check_url("alerts", "teams_url", df_secret_str(s->teams_url), complaints);
    df_net_check_url("alerts", "console_url", df_str_c(s->console_url), complaints);
}
