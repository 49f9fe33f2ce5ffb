/* The parts for uploaded files and their imports. */
#include "app/app.h"
#include "app/queue.h"
#include "base/zone.h"
#include "files/storage.h"
#include "imports/api/views.h"
#include "imports/imports.h"
#include "imports/receive/receive.h"
#include "locks/locks.h"
#include "privacy/mask.h"

/* Roles that work with files and batches. */
#define IMPORT_ROLES (DF_ROLE_API | DF_ROLE_IMPORT | DF_ROLE_MAINTAIN)

/* --- what is stored of documents --- */

static enum df_code start_masker(struct df_app *app, struct df_err *err)
{
    return df_masker_new(&app->settings->sensitive, app->access.keys, &app->masker, err);
}

static void free_masker(struct df_app *app)
{
    df_masker_free(app->masker);
}

const struct df_part df_part_masker = {.start = start_masker, .free = free_masker};

/* --- storage --- */

static enum df_code start_storage(struct df_app *app, struct df_err *err)
{
    const struct df_storage_options opt = {.data_dir = app->settings->data_dir,
                                           .settings = app->settings->storage,
                                           .keys = app->access.keys,
                                           .clock = app->access.clock};
    return df_storage_new(&opt, &app->storage, err);
}

static void free_storage(struct df_app *app)
{
    df_storage_free(app->storage);
}

/* Housekeeping cancels its transfers when it stops. */
const struct df_part df_part_storage = {
    .roles = IMPORT_ROLES, .start = start_storage, .free = free_storage};

/* --- locks --- */

/* The API breaks locks that an operator releases. */
static enum df_code start_locks(struct df_app *app, struct df_err *err)
{
    const struct df_settings *set = app->settings;

    return df_locks_open(&(struct df_locks_options){.settings = set->locks,
                                                    .store = app->access.store,
                                                    .clock = app->access.clock,
                                                    .instance = app->instance,
                                                    .acquires = (set->roles & DF_ROLE_IMPORT) != 0,
                                                    .idle_ms = set->imports.lock_timeout_ms},
                         &app->locks, err);
}

static void end_locks(struct df_app *app)
{
    df_locks_stop(app->locks);
}

static void free_locks(struct df_app *app)
{
    df_locks_free(app->locks);
}

const struct df_part df_part_locks = {.roles = DF_ROLE_API | DF_ROLE_IMPORT,
                                      .start = start_locks,
                                      .end = end_locks,
                                      .free = free_locks};

/* --- the batches --- */

static void free_imports(struct df_app *app)
{
    df_imports_free(app->imports);
    df_zone_free(app->zone);
}

static enum df_code start_imports(struct df_app *app, struct df_err *err)
{
    const struct df_settings *set = app->settings;
    enum df_code code = df_zone_open(set->imports.business_time_zone, &app->zone, err);
    if (code == DF_OK)
        code =
            df_maintenance_add(&app->maintenance, df_str_c(set->imports.maintenance_windows), err);
    if (code != DF_OK) {
        free_imports(app);
        return code;
    }
    app->imports = df_imports_new(&(struct df_imports_options){
        .queue = df_queue_of(app),
        .store = app->access.store,
        .storage = app->storage,
        .outbound = &app->outbound,
        .clock = app->access.clock,
        .data_dir = set->data_dir,
        .instance = app->instance,
        .locks = app->locks,
        .settings = set->imports,
        .give_up_ms = set->delivery.give_up_ms,
        .zone = app->zone,
        .maintenance = &app->maintenance,
        .keys = app->access.keys,
        .masker = app->masker,
        .payload_ttl_ms = set->sensitive.payload_ttl_ms,
        .webhooks = app->webhooks,
    });
    if (set->roles & DF_ROLE_IMPORT)
        df_imports_start(app->imports);
    return DF_OK;
}

/* Batches that are being worked on have what is left of the drain. */
static void stop_imports(struct df_app *app, int64_t deadline_ms)
{
    df_imports_stop(app->imports, df_parts_left_ms(deadline_ms));
}

static void end_imports(struct df_app *app)
{
    df_imports_end(app->imports);
}

const struct df_part df_part_imports = {.roles = IMPORT_ROLES,
                                        .start = start_imports,
                                        .stop = stop_imports,
                                        .end = end_imports,
                                        .free = free_imports};

/* --- uploads and reports --- */

static enum df_code start_uploads(struct df_app *app, struct df_err *err)
{
    (void)err;
    app->receiver = df_receiver_new(app->imports);
    app->import_views = df_import_views_new(app->imports, app->receiver, app->settings->data_dir);
    return DF_OK;
}

/* Uploads that are complete are answered. */
static void stop_uploads(struct df_app *app, int64_t deadline_ms)
{
    (void)deadline_ms;
    df_receiver_stop(app->receiver);
    df_import_views_stop(app->import_views);
}

static void free_uploads(struct df_app *app)
{
    df_import_views_free(app->import_views);
    df_receiver_free(app->receiver);
}

const struct df_part df_part_uploads = {
    .roles = DF_ROLE_API, .start = start_uploads, .stop = stop_uploads, .free = free_uploads};
