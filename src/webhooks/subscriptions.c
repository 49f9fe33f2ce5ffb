#include "webhooks/subscriptions.h"

#include "base/log.h"
#include "base/mem.h"
#include "net/client.h"
#include "net/security.h"
#include "net/url.h"
#include "webhooks/subscriptions_private.h"

#include <netdb.h>
#include <stdlib.h>

#define LOOKUPS_MAX 64  /* that wait */
#define EVENTS_MAX  400 /* the column's width */

/* --- what may be a target --- */

const char *df_subscriptions_check_url(struct df_input *in, struct df_str url)
{
    struct df_err err = DF_ERR_INIT;
    struct df_url u;

    if (!url.ptr)
        return NULL;
    if (url.len > DF_WEBHOOK_URL_MAX)
        df_input_error(in, "url", "must not be longer than %d bytes", DF_WEBHOOK_URL_MAX);
    else if (df_url_parse(url, &u, &err) != DF_OK)
        df_input_error(in, "url", "%s", err.detail);
    else if (df_security_forbids(&u))
        df_input_error(in, "url", "must be https: the server sends nothing in the clear");
    else if (u.userinfo.ptr)
        df_input_error(in, "url", "must not hold credentials: deliveries are signed");
    else if (memchr(u.rest.ptr, '#', u.rest.len))
        df_input_error(in, "url", "must not have a fragment (#)");
    else
        return df_arena_cstr(in->arena, u.host);
    return NULL;
}

/* Checks all addresses of a name, since any of them may be dialled. NULL: the name may be a target;
 * else the reason, for the log alone. */
static const char *look_up_target(const struct df_subscriptions *s, const char *host)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    const char *problem = NULL;

    if (getaddrinfo(host, NULL, &hints, &list) != 0)
        return "it cannot be resolved";
    for (const struct addrinfo *a = list; a; a = a->ai_next)
        if (!s->opt.settings.allow_private && !df_address_is_public(a->ai_addr))
            problem = "it has an address that is not public (delivery.allow_private_targets)";
    freeaddrinfo(list);
    return problem;
}

static void log_refused_target(const struct df_lookup *l, const char *problem)
{
    struct df_log_field fields[] = {DF_F("host", df_str_c(l->host))};
    const struct df_log_ctx *before = df_log_ctx_use(l->log);

    df_log_write(DF_LOG_INFO, "WebhookTargetRefused", fields, 1, "%s", problem);
    df_log_ctx_use(before);
}

static void answer_lookup(void *arg, void *item)
{
    struct df_lookup *l = item;
    const char *problem = look_up_target(arg, l->host);

    if (problem)
        log_refused_target(l, problem);
    l->done(l, problem ? DF_WEBHOOK_UNREACHABLE : NULL);
}

bool df_subscriptions_lookup(struct df_subscriptions *s, struct df_lookup *l)
{
    return df_pool_push(&s->lookups, l);
}

/* --- events --- */

static const struct df_str event_names[] = {
    DF_STR_INIT("BatchCompleted"), DF_STR_INIT("BatchFailed"),     DF_STR_INIT("BatchScheduled"),
    DF_STR_INIT("BatchStarted"),   DF_STR_INIT("TicketProcessed"), DF_STR_INIT("TicketFailed"),
};
#define EVENTS (sizeof(event_names) / sizeof(event_names[0]))

static bool find_event(const struct df_json *v, size_t *ret)
{
    for (size_t i = 0; v->type == DF_JSON_STRING && i < EVENTS; i++)
        if (df_str_ieq(v->text, event_names[i])) {
            *ret = i;
            return true;
        }
    return false;
}

struct df_str df_subscriptions_read_events(struct df_input *in)
{
    const struct df_json *v = df_json_get(in->object, "events");
    bool wanted[EVENTS] = {false};
    char *out = df_arena_alloc(in->arena, EVENTS_MAX);
    size_t len = 0;

    if (!v || v->type == DF_JSON_NULL)
        return DF_STR_NULL;
    if (v->type != DF_JSON_ARRAY) {
        df_input_error(in, "events", "must be an array of names of events");
        return DF_STR_NULL;
    }
    if (df_json_count(v) == 0)
        df_input_error(in, "events",
                       "must name at least one event; leave it out for "
                       "BatchCompleted and BatchFailed");
    struct df_json_each each = df_json_each(v);
    for (const struct df_json *e;
         in->error_count < DF_INPUT_ERRORS_MAX && (e = df_json_next(&each));) {
        size_t i;
        if (find_event(e, &i))
            wanted[i] = true;
        else
            df_input_error(in, "events", "\"" DF_STR_FMT "\" is not an event",
                           DF_STR_ARG(df_utf8_cut(e->text.ptr ? e->text : e->raw, 40)));
    }
    for (size_t i = 0; i < EVENTS; i++) {
        if (!wanted[i])
            continue;
        if (len > 0)
            out[len++] = ',';
        memcpy(out + len, event_names[i].ptr, event_names[i].len);
        len += event_names[i].len;
    }
    return df_str_n(out, len);
}

/* --- start and end --- */

struct df_subscriptions *df_subscriptions_new(const struct df_subscriptions_options *opt)
{
    struct df_subscriptions *s = df_calloc(1, sizeof(*s));

    s->opt = *opt;
    df_pool_start(&s->lookups, "lookups", DF_LOOKUP_THREADS, LOOKUPS_MAX, answer_lookup, s);
    return s;
}

void df_subscriptions_stop(struct df_subscriptions *s)
{
    if (s)
        df_pool_stop(&s->lookups);
}

void df_subscriptions_free(struct df_subscriptions *s)
{
    if (!s)
        return;
    df_pool_release(&s->lookups);
    free(s);
}
