/* Section [backup]: the server's own backups of the embedded database. */
#ifndef DF_BACKUP_SETTINGS_H
#define DF_BACKUP_SETTINGS_H

#include "base/config.h"

struct df_backup_settings {
    const char *to; /* a directory or s3://bucket[/prefix]; NULL: the server makes none */
    int64_t every_ms;
    int64_t keep_ms; /* 0: for ever */
};

extern const struct df_config_key df_backup_keys[];

#endif
