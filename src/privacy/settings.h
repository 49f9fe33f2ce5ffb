/* Section [sensitive_data]. */
#ifndef DF_PRIVACY_SETTINGS_H
#define DF_PRIVACY_SETTINGS_H

#include "base/config.h"

enum df_mask_mode {
    DF_MASK_STARS, /* a star for each character but a number's last two */
    DF_MASK_HASH,  /* a keyed hash: equal values stay equal */
    DF_MASK_DROP,  /* the member is left out */
    DF_MASK_KEEP,  /* everything is stored as it came */
};

struct df_sensitive_settings {
    const char *fields; /* names and paths, separated by commas */
    int mode;           /* enum df_mask_mode */
    int64_t payload_ttl_ms;
};

extern const struct df_config_key df_sensitive_keys[];

/* Checks the list of fields; adds one line for each complaint. */
void df_sensitive_check_settings(const struct df_sensitive_settings *s, struct df_buf *complaints);

#endif
