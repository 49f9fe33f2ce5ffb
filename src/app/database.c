#include "app/database.h"

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

enum df_code df_open_database(const struct df_settings *s, bool migrate, struct df_db **ret,
                              size_t *ret_applied, struct df_err *err)
{
    struct df_db *db = NULL;
    struct df_db_options opt = {.url = s->database.url};
    enum df_code code = df_make_dirs(s->server.data_dir, err);
    if (code == DF_OK)
        code = df_db_open(&opt, &db, err);
    if (code == DF_OK && migrate)
        code = df_schema_apply(db, ret_applied, err);
    if (code == DF_OK)
        *ret = db;
    else
        df_db_close(db);
    return code;
}
