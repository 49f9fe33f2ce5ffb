#include "store/settings.h"

#include "store/db.h"

#define S struct df_store_settings

/* clang-format off */
const struct df_config_key df_store_keys[] = {
    DF_KEY_URL("url", S, url, "sqlite:PATH, postgres://… or sqlserver://…; default: sqlite:<data_dir>/dataflow.db."),
    DF_KEY_INT("pool_size", S, pool_size, "0", 0, 256, "Connections; 0: 3 on SQLite, 8 on a server."),
    DF_KEY_BOOL("migrate", S, migrate, "on", "Apply the schema scripts at start."),
    DF_KEY_INT("group_max", S, group_max, "256", 1, 4096, "Most writes in one commit."),
    DF_KEY_INT("queue_size", S, queue_size, "4096", 16, 1000000, "Most jobs waiting for the database; beyond it 503."),
    {.key = NULL},
};
/* clang-format on */

void df_store_check_settings(const struct df_store_settings *s, struct df_buf *complaints)
{
    struct df_err err = DF_ERR_INIT;

    if (df_db_check_url(s->url, &err) != DF_OK)
        df_buf_addf(complaints, "[database] url: %s\n", err.detail);
}
