/* The part for the relays of a server: those that are configured, and one for its own events. */
#include "app/app.h"
#include "relay/relays.h"

/* A relay of another table may already have the name. */
static const char *own_name(const struct df_settings *set)
{
    for (size_t i = 0; i < set->relay_count; i++)
        if (df_str_ieq(df_str_c(set->relays[i].name), DF_STR("events")))
            return "own-events";
    return "events";
}

/* Loads a section with nothing but its name, so that it has the defaults of the settings' table. */
static enum df_code load_own(const struct df_settings *set, struct df_settings *own,
                             struct df_err *err)
{
    struct df_buf url, name, complaints;

    df_buf_init(&url, 16384);
    df_buf_init(&name, 128);
    df_buf_init(&complaints, 16384);
    df_buf_addf(&url, "database.url=%s", set->store.url);
    df_buf_addf(&name, "relay.%s.dispatcher=log", own_name(set));
    const char *const sets[] = {df_buf_str(&url).ptr, df_buf_str(&name).ptr};
    enum df_code code = df_settings_load(&(struct df_config_sources){.sets = sets, .set_count = 2},
                                         own, &complaints);
    if (code != DF_OK)
        (void)df_err_set(err, code, "the relay of own events: " DF_STR_FMT,
                         DF_STR_ARG(df_buf_str(&complaints)));
    df_buf_release(&url);
    df_buf_release(&name);
    df_buf_release(&complaints);
    return code;
}

static enum df_code start_relays(struct df_app *app, struct df_err *err)
{
    const struct df_settings *set = app->settings;
    enum df_code code = load_own(set, &app->own_relay, err);
    if (code == DF_OK)
        app->relays = df_relays_start(&(struct df_relays_options){
            .settings = set->relays,
            .count = set->relay_count,
            .own_url = set->store.url,
            .own = &app->own_relay.relays[0],
            .outbound = &app->outbound,
            .store = app->access.store,
            .give_up_ms = set->delivery.give_up_ms,
            .masker = app->masker,
            .clock = app->access.clock,
        });
    return code;
}

static void stop_relays(struct df_app *app, int64_t deadline_ms)
{
    df_relays_stop(app->relays, df_parts_left_ms(deadline_ms));
}

static void end_relays(struct df_app *app)
{
    df_relays_end(app->relays);
}

static void free_relays(struct df_app *app)
{
    df_relays_free(app->relays);
    df_settings_release(&app->own_relay);
}

const struct df_part df_part_relays = {.roles = DF_ROLE_RELAY,
                                       .start = start_relays,
                                       .stop = stop_relays,
                                       .end = end_relays,
                                       .free = free_relays};
