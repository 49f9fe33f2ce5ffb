#include "backup/settings.h"

#define S struct df_backup_settings

/* clang-format off */
const struct df_config_key df_backup_keys[] = {
    DF_KEY_OPTIONAL("to", S, to, "Directory or s3://bucket/prefix to which a server with the role maintain backs up the embedded database and waiting files. Not set: it makes no backups."),
    DF_KEY_INT_IN(DF_SECONDS, "every_seconds", S, every_ms, "60", 1, 86400, "How often it looks for changes; each time that there are some, the database is read once."),
    DF_KEY_INT_IN(DF_DAYS, "keep_days", S, keep_ms, "14", 0, 36500, "Days back to which it can be restored; what is older is removed. 0: nothing is removed."),
    {.key = NULL},
};
/* clang-format on */
