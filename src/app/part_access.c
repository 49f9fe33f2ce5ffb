/* The parts for the database, for authentication and limits, and for housekeeping. */
#include "access/audit.h"
#include "access/policies.h"
#include "access/usage.h"
#include "alerts/alerts.h"
#include "app/app.h"
#include "app/database.h"
#include "base/instance.h"
#include "files/storage.h"
#include "imports/imports.h"
#include "interface/interface.h"
#include "relay/relays.h"
#include "series/series.h"
#include "webhooks/subscriptions.h"

#define HOUSEKEEPING_MS 5000
#define MAINTAIN_MS     60000
#define SELDOM_MS       300000

/* --- the store --- */

static enum df_code prepare_database(const struct df_settings *set, struct df_err *err)
{
    struct df_db *db = NULL;
    size_t applied = 0;
    enum df_code code = df_open_database(set, set->store.migrate, &db, &applied, err);
    if (code != DF_OK)
        return code;
    if (applied > 0)
        df_log_info("SchemaApplied", "%zu schema scripts ran", applied);
    df_db_close(db);
    return DF_OK;
}

static enum df_code start_store(struct df_app *app, struct df_err *err)
{
    const struct df_store_options opt = {.settings = app->settings->store,
                                         .clock = app->access.clock};
    enum df_code code = prepare_database(app->settings, err);
    return code == DF_OK ? df_store_open(&opt, &app->access.store, err) : code;
}

static void end_store(struct df_app *app)
{
    df_store_stop(app->access.store);
}

static void free_store(struct df_app *app)
{
    df_store_close(app->access.store);
}

const struct df_part df_part_store = {.start = start_store, .end = end_store, .free = free_store};

/* --- the figures that the server keeps --- */

static enum df_code start_series(struct df_app *app, struct df_err *err)
{
    (void)err;
    app->series = df_series_new(&(struct df_series_options){
        .store = app->access.store, .clock = app->access.clock, .settings = app->settings->series});
    df_series_start(app->series);
    return DF_OK;
}

static void end_series(struct df_app *app)
{
    df_series_end(app->series);
}

static void free_series(struct df_app *app)
{
    df_series_free(app->series);
}

/* It ends after all that counts, and before the store. */
const struct df_part df_part_series = {
    .start = start_series, .end = end_series, .free = free_series};

/* --- this process, for others --- */

static enum df_code start_instance(struct df_app *app, struct df_err *err)
{
    (void)err;
    app->instance = df_instance_hold(app->settings->data_dir, app->access.clock);
    return DF_OK;
}

static void free_instance(struct df_app *app)
{
    df_instance_drop(app->instance);
}

const struct df_part df_part_instance = {.start = start_instance, .free = free_instance};

/* --- access --- */

static enum df_code start_access(struct df_app *app, struct df_err *err)
{
    struct df_access *a = &app->access;

    (void)err;
    a->usage = df_usage_new(app->settings->roles & DF_ROLE_API ? app->settings->store.url : NULL,
                            a->clock);
    a->auth = df_auth_new(&(struct df_auth_options){
        .store = a->store,
        .clock = a->clock,
        .settings = app->settings->auth,
        .usage = a->usage,
        .traces_per_minute = app->settings->telemetry.endpoint
                                 ? app->settings->telemetry.caller_traces_per_minute
                                 : 0});
    a->policies = df_policies_new(a->clock);
    return DF_OK;
}

static void stop_access(struct df_app *app, int64_t deadline_ms)
{
    (void)deadline_ms;
    df_auth_stop(app->access.auth);
    df_auth_flush_seen(app->access.auth);
    df_usage_stop(app->access.usage);
}

static void free_access(struct df_app *app)
{
    df_auth_free(app->access.auth);
    df_usage_free(app->access.usage);
    df_policies_free(app->access.policies);
}

const struct df_part df_part_access = {
    .start = start_access, .stop = stop_access, .free = free_access};

/* --- housekeeping --- */

static int64_t tick_ms(const struct df_app *app)
{
    int64_t interval_ms = app->settings->alerts.interval_ms;
    return interval_ms < HOUSEKEEPING_MS ? interval_ms : HOUSEKEEPING_MS;
}

static int64_t keep_house(void *arg)
{
    struct df_app *app = arg;
    bool maintains = app->settings->roles & DF_ROLE_MAINTAIN;
    int64_t interval_ms = app->settings->alerts.interval_ms;

    df_auth_flush_seen(app->access.auth);
    df_relays_note_given_up(app->relays, app->access.store, df_wall_ms(app->access.clock));
    if (app->settings->roles & (DF_ROLE_API | DF_ROLE_MAINTAIN))
        df_imports_take_backlog(app->imports);
    if (app->settings->roles & DF_ROLE_PROCESS)
        df_interface_take_figures(app->interface);
    int64_t now_ms = df_mono_ms(df_clock_real());
    bool due = now_ms - app->maintained_ms >= MAINTAIN_MS;
    if (due && app->imports)
        df_imports_sweep_disk(app->imports);
    if (due && maintains) {
        df_imports_maintain(app->imports);
        df_subscriptions_forget_previous(app->access.store, app->access.clock);
        df_subscriptions_rotate(&(struct df_rotation_options){
            .store = app->access.store,
            .clock = app->access.clock,
            .keys = app->access.keys,
            .webhooks = app->webhooks,
            .rotate_ms = app->settings->webhooks.rotate_ms,
        });
    }
    if (due)
        app->maintained_ms = now_ms;
    if (maintains && now_ms - app->evaluated_ms >= interval_ms) {
        df_alerts_evaluate(app->alerts);
        app->evaluated_ms = now_ms;
    }
    return tick_ms(app);
}

/* A process that only works writes few entries, and others watch theirs. */
static int64_t watch_audit(void *arg)
{
    struct df_app *app = arg;

    df_audit_watch_turn(&app->audit);
    return app->settings->roles & (DF_ROLE_API | DF_ROLE_MAINTAIN) ? HOUSEKEEPING_MS : SELDOM_MS;
}

static enum df_code start_housekeeping(struct df_app *app, struct df_err *err)
{
    (void)err;
    app->audit = (struct df_audit_watch){.store = app->access.store,
                                         .clock = app->access.clock,
                                         .data_dir = app->settings->data_dir};
    df_loop_start(&app->audit_loop, &(struct df_loop_options){.name = "audit",
                                                              .clock = df_clock_real(),
                                                              .first_ms = HOUSEKEEPING_MS,
                                                              .turn = watch_audit,
                                                              .arg = app});
    app->maintained_ms = -MAINTAIN_MS;
    app->evaluated_ms = -app->settings->alerts.interval_ms;
    df_loop_start(&app->housekeeping, &(struct df_loop_options){.name = "housekeeping",
                                                                .clock = df_clock_real(),
                                                                .first_ms = tick_ms(app),
                                                                .turn = keep_house,
                                                                .arg = app});
    return DF_OK;
}

/* Cancels transfers first: it may be removing files of a storage that does not answer. */
static void stop_housekeeping(struct df_app *app, int64_t deadline_ms)
{
    (void)deadline_ms;
    if (app->storage)
        df_storage_cancel(app->storage);
    df_loop_stop(&app->housekeeping);
    df_loop_stop(&app->audit_loop);
    df_audit_watch_turn(&app->audit);
}

static void free_housekeeping(struct df_app *app)
{
    df_loop_release(&app->housekeeping);
    df_loop_release(&app->audit_loop);
}

const struct df_part df_part_housekeeping = {
    .start = start_housekeeping, .stop = stop_housekeeping, .free = free_housekeeping};
