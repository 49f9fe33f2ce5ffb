/* The keys of what is stored: opened at start, followed while the process runs, and what is under
 * an older one encrypted anew. */
#include "access/audit.h"
#include "app/app.h"
#include "app/database.h"
#include "app/rekey.h"
#include "keys/key_watch.h"

static enum df_code start_keys(struct df_app *app, struct df_err *err)
{
    enum df_code code =
        df_wait_data_keys(app->settings, &app->access, &app->keys, &app->waiting, err);

    if (code != DF_OK)
        return code;
    app->access.keys = app->keys.ring;
    df_audit_use_keys(app->keys.ring);
    app->key_watch =
        df_key_watch_new(&app->keys, app->access.store,
                         app->settings->roles & DF_ROLE_API ? DF_KEY_FOLLOW_MS : DF_KEY_SELDOM_MS);
    return DF_OK;
}

static void stop_keys(struct df_app *app, int64_t deadline_ms)
{
    (void)deadline_ms;
    df_key_watch_stop(app->key_watch);
}

static void free_keys(struct df_app *app)
{
    df_audit_use_keys(NULL);
    df_key_watch_free(app->key_watch);
    df_data_keys_release(&app->keys);
}

const struct df_part df_part_keys = {.start = start_keys, .stop = stop_keys, .free = free_keys};

/* --- what is under an older key --- */

static enum df_code start_rekey(struct df_app *app, struct df_err *err)
{
    (void)err;
    app->rekey = df_rekey_new(&(struct df_rekey_options){
        .store = app->access.store,
        .storage = app->storage,
        .keys = app->access.keys,
        .clock = app->access.clock,
        .files_only = !(app->settings->roles & DF_ROLE_MAINTAIN),
    });
    return DF_OK;
}

/* Housekeeping has cancelled the transfers, if one is under way. */
static void stop_rekey(struct df_app *app, int64_t deadline_ms)
{
    (void)deadline_ms;
    df_rekey_stop(app->rekey);
}

static void free_rekey(struct df_app *app)
{
    df_rekey_free(app->rekey);
}

const struct df_part df_part_rekey = {.roles = DF_ROLE_API | DF_ROLE_IMPORT | DF_ROLE_MAINTAIN,
                                      .start = start_rekey,
                                      .stop = stop_rekey,
                                      .free = free_rekey};
