/* Section [webhooks], and the keys of [security] and [delivery] that concern webhooks. */
#ifndef DF_WEBHOOKS_SETTINGS_H
#define DF_WEBHOOKS_SETTINGS_H

#include "base/config.h"

struct df_webhooks_settings {
    struct df_int_list retry_delays_ms;
    int64_t timeout_ms; /* of an attempt */
    int64_t rotation_overlap_ms;
    int64_t max_per_client;          /* subscriptions */
    int64_t disable_after_ms;        /* of failures without a success; 0: never */
    bool allow_private;              /* targets on loopback and private addresses */
    const struct df_secret *key;     /* of secrets in the database; NULL: these are in clear text */
    const struct df_secret *old_key; /* still opens what was encrypted with it */
};

extern const struct df_config_key df_private_target_keys[]; /* of [delivery] */
extern const struct df_config_key df_master_key_keys[];     /* of [security] */
extern const struct df_config_key df_webhooks_keys[];

void df_webhooks_check_settings(const struct df_webhooks_settings *s, struct df_buf *complaints);

#endif
