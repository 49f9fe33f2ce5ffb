/*
 * The integrations as a whole, and the timer of calls that wait for their next attempt. A stop of
 * the server ends these calls at once.
 */
#include "base/mem.h"
#include "integrations/integrations_private.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define CALLS_PER_CLIENT 64

DF_METRIC_FAMILY(calls_total) = {
    .name = "dataflow_integration_calls_total",
    .help = "Calls of /integrations by outcome: success (2xx, 3xx), client_error (4xx "
            "passed back), unavailable, not_permitted (the breaker is open, or the "
            "client has its share of calls), enqueued, error, abandoned (the caller left "
            "between attempts).",
    .type = DF_COUNTER,
    .labels = {"integration", "outcome"},
    .max_series = (size_t)INTEGRATION_OUTCOMES * INTEGRATION_NAMES_MAX,
};
DF_METRIC_FAMILY(duration_seconds) = {
    .name = "dataflow_integration_duration_seconds",
    .help = "Calls of /integrations, with all attempts and the waiting between them.",
    .type = DF_HISTOGRAM,
    DF_METRIC_SECONDS,
    .labels = {"integration"},
};
DF_METRIC_FAMILY(retries_total) = {
    .name = "dataflow_integration_retries_total",
    .help = "Attempts of such calls beyond the first.",
    .type = DF_COUNTER,
    .labels = {"integration"},
};

static const char *const outcome_labels[INTEGRATION_OUTCOMES] = {
    "success", "client_error", "unavailable", "not_permitted", "enqueued", "error", "abandoned",
};

/* --- waiting ---------------------------------------------------------------------------------- */

static void call_due(struct df_timer_item *item, bool stopping)
{
    struct integration_call *c =
        (struct integration_call *)((char *)item - offsetof(struct integration_call, waits));

    if (stopping)
        integration_call_stopped(c);
    else
        integration_call_again(c);
}

bool integration_wait(struct integration_call *c, int64_t wait_ms)
{
    c->waits.fire = call_due;
    return df_timer_add(c->all->timer, &c->waits, wait_ms);
}

/* --- shares ----------------------------------------------------------------------------------- */

bool integrations_begin(struct df_integrations *all, const struct df_uuid *client)
{
    df_lock(&all->lock);
    struct integration_caller *caller = df_map_get(&all->callers, df_uuid_str(client));
    if (!caller) {
        caller = df_calloc(1, sizeof(*caller));
        caller->id = *client;
        df_map_add(&all->callers, df_uuid_str(&caller->id), caller);
    }
    bool may = caller->calls < all->opt.max_per_client;
    caller->calls += may;
    df_unlock(&all->lock);
    return may;
}

void integrations_end(struct df_integrations *all, const struct df_uuid *client)
{
    df_lock(&all->lock);
    struct integration_caller *caller = df_map_get(&all->callers, df_uuid_str(client));
    assert(caller && caller->calls > 0);
    if (--caller->calls == 0) {
        (void)df_map_remove(&all->callers, df_uuid_str(client));
        free(caller);
    }
    df_unlock(&all->lock);
}

/* --- the room --------------------------------------------------------------------------------- */

static void init_integration(struct df_integrations *all, struct integration *in,
                             const struct df_integration_settings *s)
{
    in->set = s;
    in->name = df_str_c(s->name);
    integration_rules_read(s, &in->rules, NULL);
    if (asprintf(&in->breaker_key_text, "integration:%s", s->name) < 0)
        df_oom();
    in->breaker_key = df_str_c(in->breaker_key_text);
    df_breakers_configure(all->opt.outbound->breakers, in->breaker_key, &s->breaker);
    for (size_t i = 0; i < INTEGRATION_OUTCOMES; i++)
        in->calls[i] = df_metric_get(
            &calls_total, (const struct df_str[]){in->name, df_str_c(outcome_labels[i])});
    in->duration = df_metric_get(&duration_seconds, &in->name);
    in->retries = df_metric_get(&retries_total, &in->name);
}

struct df_integrations *df_integrations_new(const struct df_integrations_options *opt)
{
    struct df_integrations *all = df_calloc(1, sizeof(*all));

    df_metric_register(&calls_total);
    df_metric_register(&duration_seconds);
    df_metric_register(&retries_total);
    all->opt = *opt;
    if (all->opt.max_per_client <= 0)
        all->opt.max_per_client = CALLS_PER_CLIENT;
    all->count = opt->count;
    all->items = df_calloc(opt->count, sizeof(*all->items));
    df_mutex_init(&all->lock);
    for (size_t i = 0; i < opt->count; i++)
        init_integration(all, &all->items[i], &opt->settings[i]);
    integration_channel_init(all);
    if (opt->count > 0)
        all->timer = df_timer_new("integrations", opt->clock);
    return all;
}

struct integration *integration_find(const struct df_integrations *all, struct df_str name)
{
    for (size_t i = 0; i < all->count; i++) {
        if (df_str_eq(all->items[i].name, name))
            return &all->items[i];
    }
    return NULL;
}

void df_integrations_add_channels(struct df_integrations *all, struct df_delivery *d)
{
    all->opt.delivery = d;
    df_delivery_add(d, &all->channel);
}

void df_integrations_stop(struct df_integrations *all)
{
    if (all)
        df_timer_stop(all->timer);
}

void df_integrations_free(struct df_integrations *all)
{
    if (!all)
        return;
    df_timer_free(all->timer);
    for (size_t i = 0; i < all->count; i++)
        free(all->items[i].breaker_key_text);
    free(all->items);
    assert(all->callers.count == 0);
    df_map_release(&all->callers);
    df_mutex_destroy(&all->lock);
    free(all);
}
