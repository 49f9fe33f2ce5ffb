/* The part that exports traces. */
#include "app/app.h"
#include "base/instance.h"
#include "telemetry/exporter.h"

#define FLUSH_MS 3000 /* at the end, for a collector that may be away */

static enum df_code start_telemetry(struct df_app *app, struct df_err *err)
{
    const struct df_telemetry_settings *s = &app->settings->telemetry;

    (void)err;
    if (!s->endpoint)
        return DF_OK;
    app->exporter = df_exporter_start(&(struct df_exporter_options){
        .settings = s,
        .client = app->outbound.client,
        .clock = app->access.clock,
        .version = DF_VERSION,
        .instance = app->instance->id.text,
        .host = app->instance->host,
    });
    return DF_OK;
}

static void stop_telemetry(struct df_app *app, int64_t deadline_ms)
{
    int64_t left_ms = df_parts_left_ms(deadline_ms);

    df_exporter_stop(app->exporter, left_ms < FLUSH_MS ? left_ms : FLUSH_MS);
}

static void free_telemetry(struct df_app *app)
{
    df_exporter_free(app->exporter);
}

const struct df_part df_part_telemetry = {
    .start = start_telemetry, .stop = stop_telemetry, .free = free_telemetry};
