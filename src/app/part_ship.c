/* log.ship: the first part to start and the last to end, so that the lines of all others are sent.
 */
#include "app/app.h"
#include "app/cli.h"
#include "base/log.h"
#include "ship/shipper.h"

#define FLUSH_MS                                                                                   \
    5000 /* a target that hangs holds up the end no longer, whatever the drain has left */

static void log_warning(const char *line)
{
    df_log_warn("ConfigurationUnwise", "%s", line);
}

static enum df_code start_ship(struct df_app *app, struct df_err *err)
{
    const struct df_settings *s = app->settings;
    enum df_code code =
        s->ship.url ? df_shipper_open(&s->ship, s->data_dir, app->access.clock, &app->shipper, err)
                    : DF_OK;

    if (app->warnings)
        df_cli_each_line(app->warnings, log_warning);
    app->warnings = NULL;
    return code;
}

static void stop_ship(struct df_app *app, int64_t deadline_ms)
{
    app->ship_until_ms = deadline_ms;
}

static void free_ship(struct df_app *app)
{
    int64_t left_ms = df_parts_left_ms(app->ship_until_ms);

    df_shipper_close(app->shipper, left_ms < FLUSH_MS ? left_ms : FLUSH_MS);
}

const struct df_part df_part_ship = {.start = start_ship, .stop = stop_ship, .free = free_ship};
