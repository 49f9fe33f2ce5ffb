/* Section [webhooks], and the key of [delivery] that concerns webhooks. */
#ifndef DF_WEBHOOKS_SETTINGS_H
#define DF_WEBHOOKS_SETTINGS_H

#include "base/config.h"

struct df_webhooks_settings {
    struct df_int_list retry_delays_ms;
    int64_t timeout_ms; /* of an attempt */
    int64_t rotation_overlap_ms;
    int64_t rotate_ms;        /* of subscriptions with autoRotate: how old a secret gets */
    int64_t max_per_client;   /* subscriptions */
    int64_t disable_after_ms; /* of failures without a success; 0: never */
    bool allow_private;       /* targets on loopback and private addresses */
};

extern const struct df_config_key df_private_target_keys[]; /* of [delivery] */
extern const struct df_config_key df_webhooks_keys[];

#endif
