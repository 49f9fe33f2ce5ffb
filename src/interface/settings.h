/* Section [gateway]. */
#ifndef DF_INTERFACE_SETTINGS_H
#define DF_INTERFACE_SETTINGS_H

#include "base/config.h"

struct df_interface_settings {
    const char *functional_ack_url; /* NULL: not configured; rows of the channel wait */
    const char *ticket_return_url;
    const char *ticket_send_url;
    const struct df_secret *api_key;
    const char *api_key_header;
    const char *ack_business_application;
};

extern const struct df_config_key df_gateway_keys[];

void df_interface_check_settings(const struct df_interface_settings *s, struct df_buf *complaints);

#endif
