#include "relay/relays_private.h"

#include "access/handler.h"
#include "base/log.h"
#include "base/mem.h"
#include "relay/health.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#define ANSWER_MAX (1 << 20)

/* --- the relay of the server's own events --- */

/* Host, port and database: two URLs that differ only in user, password or options name one
 * database. */
static struct df_str place_of(const char *url)
{
    const char *authority = strstr(url, "://");
    const char *at = authority ? strrchr(authority, '@') : NULL;
    const char *place = at ? at + 1 : authority ? authority + 3 : strchr(url, ':') + 1;
    return df_str_n(place, authority ? strcspn(place, "?#") : strlen(place));
}

static bool is_same_file(struct df_str a, struct df_str b)
{
    char real_a[PATH_MAX], real_b[PATH_MAX];
    return realpath(a.ptr, real_a) && realpath(b.ptr, real_b) && strcmp(real_a, real_b) == 0;
}

static bool is_same_database(const char *a, const char *b)
{
    enum df_dialect of_a, of_b;
    struct df_err err = DF_ERR_INIT;

    if (df_db_dialect_of(a, &of_a, &err) != DF_OK || df_db_dialect_of(b, &of_b, &err) != DF_OK ||
        of_a != of_b)
        return false;
    return strcmp(a, b) == 0 || df_str_ieq(place_of(a), place_of(b)) ||
           (of_a == DF_SQLITE && is_same_file(place_of(a), place_of(b)));
}

bool df_relays_is_own(const struct df_relay_settings *s, const char *own_url)
{
    const char *dot = strrchr(s->table, '.');
    return df_str_ieq(df_str_c(dot ? dot + 1 : s->table), DF_STR("outbox_events")) &&
           is_same_database(s->url, own_url);
}

/* --- start and end --- */

static void add_relay(struct df_relays *rs, const struct df_relays_options *opt,
                      const struct df_relay_settings *s, bool own)
{
    rs->entries[rs->count++] = (struct df_relays_entry){
        .relay = df_relay_start(&(struct df_relay_options){.settings = s,
                                                           .outbound = opt->outbound,
                                                           .clock = opt->clock,
                                                           .give_up_ms = opt->give_up_ms,
                                                           .masker = opt->masker,
                                                           .shares_health = opt->store != NULL}),
        .own = own,
    };
}

static void share_health(struct df_relays *rs, const struct df_relays_options *opt)
{
    struct df_relay **relays = df_calloc(rs->count, sizeof(struct df_relay *));

    for (size_t i = 0; i < rs->count; i++)
        relays[i] = rs->entries[i].relay;
    if (opt->store)
        rs->health = df_relay_health_start(&(struct df_relay_health_options){
            .relays = relays, .count = rs->count, .store = opt->store, .clock = opt->clock});
    free(relays);
}

struct df_relays *df_relays_start(const struct df_relays_options *opt)
{
    struct df_relays *rs = df_calloc(1, sizeof(*rs));
    bool has_own = false;

    rs->entries = df_calloc(opt->count + 1, sizeof(*rs->entries));
    for (size_t i = 0; i < opt->count; i++) {
        bool own = df_relays_is_own(&opt->settings[i], opt->own_url);
        has_own = has_own || own;
        add_relay(rs, opt, &opt->settings[i], own);
    }
    if (!has_own)
        add_relay(rs, opt, opt->own, true);
    share_health(rs, opt);
    return rs;
}

void df_relays_wake_own(struct df_relays *rs)
{
    for (size_t i = 0; rs && i < rs->count; i++)
        if (rs->entries[i].own)
            df_relay_wake(rs->entries[i].relay);
}

void df_relays_stop(struct df_relays *rs, int64_t drain_ms)
{
    if (!rs)
        return;
    int64_t until_ms = df_mono_ms(df_clock_real()) + drain_ms;
    for (size_t i = 0; i < rs->count; i++)
        df_relay_drain(rs->entries[i].relay);
    for (size_t i = 0; i < rs->count; i++) {
        int64_t left_ms = until_ms - df_mono_ms(df_clock_real());
        df_relay_stop(rs->entries[i].relay, left_ms > 0 ? left_ms : 0);
    }
}

void df_relays_end(struct df_relays *rs)
{
    for (size_t i = 0; rs && i < rs->count; i++)
        df_relay_end(rs->entries[i].relay);
    if (rs)
        df_relay_health_end(rs->health);
}

void df_relays_free(struct df_relays *rs)
{
    if (!rs)
        return;
    df_relay_health_free(rs->health);
    for (size_t i = 0; i < rs->count; i++)
        df_relay_free(rs->entries[i].relay);
    free(rs->entries);
    free(rs);
}

/* --- GET /admin/relays --- */

static struct df_str or_none(const char *text)
{
    return *text ? df_str_c(text) : DF_STR_NULL;
}

static void write_relay(struct df_json_out *out, const struct df_relay_status *s)
{
    df_json_open(out, '{');
    df_json_kv_text(out, "name", df_str_c(s->name));
    df_json_kv_text(out, "dispatcher", df_str_c(s->dispatcher));
    df_json_kv_text(out, "source", df_str_c(s->source));
    df_json_kv_text(out, "table", df_str_c(s->table));
    df_json_kv_text(out, "target", or_none(s->target));
    df_json_kv_text(out, "order", df_str_c(s->order));
    df_json_kv_text(out, "state", df_str_c(df_relay_state_name(s)));
    df_json_kv_bool(out, "running", s->running);
    df_json_kv_bool(out, "standingBy", s->standing_by);
    df_json_kv_bool(out, "notified", s->notified);
    df_json_kv_int_if(out, "waiting", s->waiting >= 0, s->waiting);
    df_json_kv_time(out, "oldestAt", s->oldest_ms);
    df_json_kv_int(out, "dispatched", s->dispatched);
    df_json_kv_int(out, "retried", s->retried);
    df_json_kv_int(out, "givenUp", s->given_up);
    df_json_kv_time(out, "lastDispatchAt", s->last_dispatch_ms);
    df_json_kv_time(out, "downSince", s->down_since_ms > 0 ? s->down_since_ms : -1);
    df_json_kv_time(out, "pausedAt", s->paused_ms > 0 ? s->paused_ms : -1);
    df_json_kv_text(out, "lastError", or_none(s->last_error));
    df_json_kv_text(out, "problem", or_none(s->problem));
    df_json_close(out, '}');
}

static void write_relays(struct df_work *w)
{
    const struct df_relays *rs = w->arg;

    df_json_open(&w->json, '{');
    df_json_key(&w->json, "items");
    df_json_open(&w->json, '[');
    for (size_t i = 0; rs && i < rs->count; i++) {
        struct df_relay_status status;
        df_relay_status(rs->entries[i].relay, &status);
        write_relay(&w->json, &status);
    }
    df_json_close(&w->json, ']');
    df_json_close(&w->json, '}');
}

static const struct df_handler list_relays = {.max_answer = ANSWER_MAX, .done = write_relays};

const struct df_route df_relay_routes[] = {
    DF_ROUTE("GET", "/admin/relays", DF_BODY_NONE, DF_ACCESS_ADMIN, NULL, list_relays),
    {.method = NULL},
};
