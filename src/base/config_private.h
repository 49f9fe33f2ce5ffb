/* What the parts of the configuration share: config.c loads, config_print.c prints. */
#ifndef DF_BASE_CONFIG_PRIVATE_H
#define DF_BASE_CONFIG_PRIVATE_H

#include "base/config.h"

/* --- one value as text and in the settings struct (config_value.c) --- */

/*
 * Replaces the value in settings. When the text is refused, settings are as before and *why gets
 * the reason ("must be between 1 and 9, not "10""), without the text if it is a secret's.
 */
bool df_config_value_set(const struct df_config_key *k, void *settings, struct df_str text,
                         struct df_buf *why);

/* The same for a secret of any length. */
void df_config_value_set_secret(const struct df_config_key *k, void *settings, struct df_str text);

/* Sets the key's default, or marks it unset. False: the default is wrong, *why as above. */
bool df_config_value_default(const struct df_config_key *k, void *settings, struct df_buf *why);

/* Frees what the value owns and makes it unset. */
void df_config_value_release(const struct df_config_key *k, void *settings);

/* As it would be written; false, and nothing is added, when it is unset. */
bool df_config_value_print(const struct df_config_key *k, const void *settings, struct df_buf *out);

/* Whether the key also exists as <key>_file. */
bool df_config_value_by_file(const struct df_config_key *k);

/* "whole number, 1 to 9" and the like, for the reference. */
void df_config_value_describe(const struct df_config_key *k, struct df_buf *out);

/* --- the environment (config_env.c) --- */

#define DF_CFG_ENV_PREFIX "DATAFLOW_"

/* A variable's name is in capitals, with '_' for every other character than letters and digits. */
char df_config_env_char(char c);
/* The text after DATAFLOW_<SECTION>_; absent if the variable does not belong to the section. */
struct df_str df_config_env_behind(struct df_str name, const char *section);
/* Whether s ends with this spelling of the key; *ret_before is the text before it. */
bool df_config_env_ends(struct df_str s, const struct df_config_key *k, bool by_file,
                        struct df_str *ret_before);

/* --- files (config_file.c) --- */

/* Reads the whole file into memory that the caller wipes and frees. NULL: the reason is in *why.
 * *ret_shared: the file's mode if other users may read or write it; else 0. */
char *df_config_read(const char *path, bool regular_only, size_t max_bytes, size_t *ret_len,
                     unsigned *ret_shared, struct df_buf *why);

/* The mode, if it lets other users in; else 0. Pure. A group that may read is fine for a file of
 * another owner, as root gives files to a service this way, but not for a file of our own. */
unsigned df_config_shared_mode(unsigned mode, bool is_our_own);

/* --- elements of a group (config_value.c) --- */

size_t df_config_item_count(const struct df_config_group_at *g, const void *settings);
void *df_config_item(const struct df_config_group_at *g, const void *settings, size_t number);
const char *df_config_item_name(const struct df_config_group *g, const void *item);
/* Adds an element, zeroed except for its name, which is copied. At most DF_CFG_SECTIONS_MAX;
 * elements never move. */
void *df_config_item_add(const struct df_config_group_at *g, void *settings, struct df_str name);
/* Frees all of them with what they own. */
void df_config_items_release(const struct df_config_group_at *g, void *settings);

#endif
