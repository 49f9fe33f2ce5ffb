/*
 * The integrations as a whole, and the one thread that sends again what waits for its next attempt.
 *
 * A call that waits belongs to the list; the thread takes it out when it is due, or, when the
 * server stops, at once. What the client cuts off then is not sent again.
 */
#include "base/mem.h"
#include "integrations/integrations_private.h"

#include <stdio.h>
#include <stdlib.h>

#define CALLS_PER_CLIENT 64

static struct df_metric_family calls_total = {
    .name = "dataflow_integration_calls_total",
    .help = "Calls to integrations by how they ended.",
    .type = DF_COUNTER,
    .labels = {"integration", "outcome"},
    .max_series = (size_t)INTEGRATION_OUTCOMES * INTEGRATION_NAMES_MAX,
};
static struct df_metric_family duration_seconds = {
    .name = "dataflow_integration_duration_seconds",
    .help = "Duration of calls to integrations, with all attempts and the waiting between them.",
    .type = DF_HISTOGRAM,
    DF_METRIC_SECONDS,
    .labels = {"integration"},
};
static struct df_metric_family retries_total = {
    .name = "dataflow_integration_retries_total",
    .help = "Attempts beyond the first.",
    .type = DF_COUNTER,
    .labels = {"integration"},
};

static const char *const outcome_labels[INTEGRATION_OUTCOMES] = {
    "success", "client_error", "unavailable", "not_permitted", "enqueued", "error", "abandoned",
};

/* --- waiting ---------------------------------------------------------------------------------- */

static int64_t now_ms(const struct df_integrations *all)
{
    return df_mono_ms(all->opt.clock);
}

bool integration_wait(struct integration_call *c, int64_t wait_ms)
{
    struct df_integrations *all = c->all;

    c->due_ms = now_ms(all) + wait_ms;
    df_lock(&all->lock);
    bool stopping = all->stopping;
    if (!stopping) {
        struct integration_call **at = &all->waiting;
        while (*at && (*at)->due_ms <= c->due_ms)
            at = &(*at)->next;
        c->next = *at;
        *at = c;
        if (all->waiting == c)
            pthread_cond_broadcast(&all->changed);
    }
    df_unlock(&all->lock);
    return !stopping;
}

/* The next one to go on with, waiting for it; NULL: the server stops and none is left. */
static struct integration_call *next_due(struct df_integrations *all) DF_REQUIRES(all->lock)
{
    for (;;) {
        struct integration_call *c = all->waiting;
        int64_t left_ms = c ? c->due_ms - now_ms(all) : 0;
        if (c && (left_ms <= 0 || all->stopping)) {
            all->waiting = c->next;
            return c;
        }
        if (all->stopping)
            return NULL;
        if (c)
            (void)df_cond_wait_ms(&all->changed, &all->lock, left_ms);
        else
            df_cond_wait(&all->changed, &all->lock);
    }
}

static void *send_again(void *arg)
{
    struct df_integrations *all = arg;
    struct integration_call *c;

    df_lock(&all->lock);
    while ((c = next_due(all))) {
        bool stopping = all->stopping;
        df_unlock(&all->lock);
        if (stopping)
            integration_call_stopped(c);
        else
            integration_call_again(c);
        df_lock(&all->lock);
    }
    df_unlock(&all->lock);
    return NULL;
}

/* --- shares ----------------------------------------------------------------------------------- */

static struct integration_caller **place_of(struct df_integrations *all, const struct df_uuid *id)
{
    struct df_str key = df_uuid_str(id);
    struct integration_caller **at = &all->callers[df_str_hash(key) % INTEGRATION_CALLERS];

    while (*at && !df_str_eq(df_uuid_str(&(*at)->id), key))
        at = &(*at)->next;
    return at;
}

bool integrations_begin(struct df_integrations *all, const struct df_uuid *client)
{
    df_lock(&all->lock);
    struct integration_caller **at = place_of(all, client);
    if (!*at) {
        *at = df_calloc(1, sizeof(**at));
        (*at)->id = *client;
    }
    bool may = (*at)->calls < all->opt.max_per_client;
    (*at)->calls += may;
    df_unlock(&all->lock);
    return may;
}

void integrations_end(struct df_integrations *all, const struct df_uuid *client)
{
    df_lock(&all->lock);
    struct integration_caller **at = place_of(all, client);
    struct integration_caller *caller = *at;
    if (caller && --caller->calls == 0) {
        *at = caller->next;
        free(caller);
    }
    df_unlock(&all->lock);
}

/* --- the room --------------------------------------------------------------------------------- */

static void init_one(struct df_integrations *all, struct integration *in,
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
    df_cond_init(&all->changed);
    for (size_t i = 0; i < opt->count; i++)
        init_one(all, &all->items[i], &opt->settings[i]);
    integration_channel_init(all);
    if (opt->count == 0)
        return all;
    if (pthread_create(&all->thread, NULL, send_again, all) != 0)
        abort();
    pthread_setname_np(all->thread, "integrations");
    all->started = true;
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
    if (!all)
        return;
    df_lock(&all->lock);
    all->stopping = true;
    pthread_cond_broadcast(&all->changed);
    df_unlock(&all->lock);
    if (all->started)
        pthread_join(all->thread, NULL);
    all->started = false;
}

void df_integrations_free(struct df_integrations *all)
{
    if (!all)
        return;
    df_integrations_stop(all);
    for (size_t i = 0; i < all->count; i++)
        free(all->items[i].breaker_key_text);
    free(all->items);
    pthread_cond_destroy(&all->changed);
    df_mutex_destroy(&all->lock);
    free(all);
}
