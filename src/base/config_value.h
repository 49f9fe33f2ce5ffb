/* One value of the configuration as text and in the settings struct. Private to config.c. */
#ifndef DF_BASE_CONFIG_VALUE_H
#define DF_BASE_CONFIG_VALUE_H

#include "base/config.h"

/*
 * Replaces the value in settings. When the text is refused, settings are as before and *why gets
 * the reason ("must be between 1 and 9, not "10""), without the text if it is a secret's.
 */
bool df_config_value_set(const struct df_config_key *k, void *settings, struct df_str text,
                         struct df_buf *why);

/* Frees what the value owns and makes it unset. */
void df_config_value_release(const struct df_config_key *k, void *settings);

/* As it would be written; false, and nothing is added, when it is unset. */
bool df_config_value_print(const struct df_config_key *k, const void *settings, struct df_buf *out);

/* Whether the key also exists as <key>_file. */
bool df_config_value_by_file(const struct df_config_key *k);

/* "whole number, 1 to 9" and the like, for the reference. */
void df_config_value_describe(const struct df_config_key *k, struct df_buf *out);

#endif
