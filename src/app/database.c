#include "app/database.h"

#include "access/clients.h"
#include "base/mem.h"
#include "store/schema.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

enum df_code df_make_dirs(const char *path, struct df_err *err)
{
    char *copy = df_strdup(df_str_c(path));
    enum df_code code = DF_OK;
    for (char *p = copy + 1; code == DF_OK; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        char end = *p;
        *p = '\0';
        if (mkdir(copy, 0700) != 0 && errno != EEXIST)
            code = df_err_errno(err, "cannot make directory %s", copy);
        *p = end;
        if (end == '\0')
            break;
    }
    free(copy);
    return code;
}

/* The audit log has times of the database's clock, which may differ from this machine's. */
#define CLOCKS_DIFFER_MS 3600000

static enum df_code apply_schema(struct df_db *db, size_t *ret_applied, struct df_err *err)
{
    int64_t since_ms = df_wall_ms(df_clock_real()) - CLOCKS_DIFFER_MS;
    size_t applied = 0;
    enum df_code code = df_schema_apply(db, &applied, err);
    if (code == DF_OK && applied > 0)
        code = df_client_tell_widened(db, since_ms, err);
    if (code == DF_OK && ret_applied)
        *ret_applied = applied;
    return code;
}

enum df_code df_open_database(const struct df_settings *s, bool migrate, struct df_db **ret,
                              size_t *ret_applied, struct df_err *err)
{
    struct df_db *db = NULL;
    struct df_db_options opt = {.url = s->store.url};
    enum df_code code = df_make_dirs(s->data_dir, err);
    if (code == DF_OK)
        code = df_db_open(&opt, &db, err);
    if (code == DF_OK && migrate)
        code = apply_schema(db, ret_applied, err);
    if (code == DF_OK)
        *ret = db;
    else
        df_db_close(db);
    return code;
}
