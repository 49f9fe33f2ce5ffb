/*
 * Background work of the role `maintain`: one thread, and a table of turns. A turn does one small
 * step (a few hundred rows, some 50 ms of the database's time) and says in how many milliseconds it
 * wants to be called again, at least as long as the step took; DF_LOOP_IDLE: when the loop is
 * woken; DF_LOOP_FAILED: after a pause. So no piece of work keeps another waiting for long.
 */
#include "app/app.h"
#include "files/storage.h"
#include "imports/imports.h"
#include "retention/purge.h"
#include "retention/retention.h"
#include "retention/subjects.h"
#include "series/series.h"

#define TURN_FAILED_MS 10000

struct maintenance_turn {
    int64_t (*turn)(struct df_app *app);
};

static int64_t turn_retention(struct df_app *app)
{
    return df_retention_turn(app->retention);
}

static int64_t turn_purge(struct df_app *app)
{
    return df_purge_turn(app->purge);
}

static int64_t turn_subjects(struct df_app *app)
{
    return df_subject_fill_turn(app->subject_fill);
}

static int64_t turn_expiry(struct df_app *app)
{
    return df_imports_expire_turn(app->imports);
}

static int64_t turn_due(struct df_app *app)
{
    return df_imports_due_turn(app->imports);
}

static int64_t turn_sweep(struct df_app *app)
{
    return df_imports_sweep_turn(app->imports);
}

static int64_t turn_series(struct df_app *app)
{
    return df_series_turn(app->series);
}

static const struct maintenance_turn turns[] = {
    {turn_retention}, {turn_purge}, {turn_subjects}, {turn_expiry},
    {turn_due},       {turn_sweep}, {turn_series},
};
#define TURNS (sizeof turns / sizeof turns[0])
static_assert(TURNS <= DF_MAINTENANCE_TURNS, "struct df_app has their times");

/* Calls each turn that is due, and those that wait to be woken: the loop does not tell why it runs.
 */
static int64_t maintain(void *arg)
{
    struct df_app *app = arg;
    int64_t next_ms = INT64_MAX;

    for (size_t i = 0; i < TURNS; i++) {
        int64_t now_ms = df_mono_ms(app->access.clock);
        int64_t *due_ms = &app->background_due_ms[i];
        if (*due_ms > now_ms && *due_ms != INT64_MAX) {
            next_ms = *due_ms < next_ms ? *due_ms : next_ms;
            continue;
        }
        int64_t pause_ms = turns[i].turn(app);
        if (pause_ms == DF_LOOP_FAILED)
            pause_ms = TURN_FAILED_MS;
        *due_ms = pause_ms < 0 ? INT64_MAX : df_mono_ms(app->access.clock) + pause_ms;
        next_ms = *due_ms < next_ms ? *due_ms : next_ms;
    }
    int64_t left_ms = next_ms - df_mono_ms(app->access.clock);
    return next_ms == INT64_MAX ? DF_LOOP_IDLE : left_ms > 0 ? left_ms : 0;
}

static enum df_code start_maintenance(struct df_app *app, struct df_err *err)
{
    (void)err;
    app->retention = df_retention_new(&(struct df_retention_options){
        .url = app->settings->store.url,
        .store = app->access.store,
        .storage = app->storage,
        .clock = app->access.clock,
        .settings = app->settings->retention,
    });
    app->subject_fill = df_subject_fill_new(&(struct df_subject_fill_options){
        .store = app->access.store, .keys = app->access.keys, .clock = app->access.clock});
    df_loop_start(&app->background, &(struct df_loop_options){.name = "maintenance",
                                                              .clock = app->access.clock,
                                                              .turn = maintain,
                                                              .arg = app});
    return DF_OK;
}

/* Transfers are cancelled first: files may be being removed from a storage that does not answer. */
static void stop_maintenance(struct df_app *app, int64_t deadline_ms)
{
    (void)deadline_ms;
    df_storage_cancel(app->storage);
    df_loop_stop(&app->background);
}

static void free_maintenance(struct df_app *app)
{
    df_loop_release(&app->background);
    df_retention_free(app->retention);
    df_subject_fill_free(app->subject_fill);
}

const struct df_part df_part_maintenance = {.roles = DF_ROLE_MAINTAIN,
                                            .start = start_maintenance,
                                            .stop = stop_maintenance,
                                            .free = free_maintenance};

/* --- purge --- */

static enum df_code start_purge(struct df_app *app, struct df_err *err)
{
    (void)err;
    app->purge = df_purge_new(&(struct df_purge_options){
        .store = app->access.store,
        .storage = app->storage,
        .keys = app->access.keys,
        .clock = app->access.clock,
        .data_dir = app->settings->data_dir,
    });
    df_purge_read_ledger(app->purge);
    return DF_OK;
}

static void stop_purge(struct df_app *app, int64_t deadline_ms)
{
    (void)deadline_ms;
    df_purge_stop(app->purge);
}

static void free_purge(struct df_app *app)
{
    df_purge_free(app->purge);
}

/* For requests, and for the turn. */
const struct df_part df_part_purge = {.roles = DF_ROLE_API | DF_ROLE_MAINTAIN,
                                      .start = start_purge,
                                      .stop = stop_purge,
                                      .free = free_purge};
