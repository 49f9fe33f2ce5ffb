/* The sections that have names, [relay.NAME] and [integration.NAME]. Private to settings.c. */
#ifndef DF_APP_SETTINGS_NAMED_H
#define DF_APP_SETTINGS_NAMED_H

#include "app/settings.h"

#define DF_SETTINGS_GROUPS 2

extern const struct df_config_group df_settings_groups[DF_SETTINGS_GROUPS];

/* What depends on other sections and on the name. */
void df_settings_fill_named(struct df_settings *s);
void df_settings_check_named(const struct df_settings *s, struct df_buf *complaints);

/* An empty text is none. */
void df_settings_drop_empty(char **text);

#endif
