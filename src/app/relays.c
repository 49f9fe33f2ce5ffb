#include "app/relays.h"

#include "relay/relays.h"

#include <stdio.h>

/* Somebody may have given the name to a relay of another table. */
static const char *own_name(const struct df_settings *set)
{
    for (size_t i = 0; i < set->relay_count; i++)
        if (df_str_ieq(df_str_c(set->relays[i].name), DF_STR("events")))
            return "own-events";
    return "events";
}

/* A section of which nothing is written but its name: its defaults are those of the table. */
static enum df_code load_own(const struct df_settings *set, struct df_settings *own,
                             struct df_err *err)
{
    struct df_buf url, name, complaints;

    df_buf_init(&url, 16384);
    df_buf_init(&name, 128);
    df_buf_init(&complaints, 16384);
    df_buf_addf(&url, "database.url=%s", set->database.url);
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

enum df_code df_app_relays_start(const struct df_settings *set, const struct df_clock *clock,
                                 struct df_outbound *outbound, struct df_settings *own,
                                 struct df_relays **ret, struct df_err *err)
{
    enum df_code code = load_own(set, own, err);
    if (code == DF_OK)
        *ret = df_relays_start(&(struct df_relays_options){
            .settings = set->relays,
            .count = set->relay_count,
            .own_url = set->database.url,
            .own = &own->relays[0],
            .outbound = outbound,
            .clock = clock,
        });
    return code;
}
