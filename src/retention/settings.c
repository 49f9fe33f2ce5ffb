#include "retention/settings.h"

#define S                       struct df_retention_settings
#define DAYS_MAX                36500
#define KEPT(n, standard, what) DF_KEY_INT_IN(DF_DAYS, #n, S, n##_ms, standard, 0, DAYS_MAX, what)

/* clang-format off */
const struct df_config_key df_retention_keys[] = {
    KEPT(batches, "30", "Days after its end that a batch is kept, with its items, file and events; 0: for ever, as for all kinds."),
    KEPT(events, "30", "Days that events of the server's own outbox are kept after they were dispatched."),
    KEPT(deliveries, "30", "Days that webhook deliveries are kept after they were sent, and failures after their replay."),
    KEPT(attempts, "30", "Days that attempts at deliveries that are over are kept, and what is known of targets that nobody uses."),
    KEPT(tickets, "0", "Days that tickets are kept after they are over, with their returns."),
    KEPT(acks, "0", "Days that functional acks are kept after they were sent."),
    KEPT(counterparties, "0", "Days that counterparties are kept after their last change, once they were taken."),
    KEPT(integrations, "0", "Days that kept calls to other systems stay after they were sent."),
    KEPT(audit, "1825", "Days that entries of the audit log are kept."),
    KEPT(alerts, "30", "Days that alerts are kept after they were resolved, with their messages."),
    {.key = NULL},
};
/* clang-format on */
