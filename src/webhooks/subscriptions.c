#include "webhooks/subscriptions.h"

#include "base/mem.h"
#include "base/uuid.h"
#include "net/client.h"
#include "net/url.h"
#include "webhooks/secret.h"
#include "webhooks/subscriptions.sql.h"
#include "webhooks/subscriptions_private.h"

#include <netdb.h>
#include <stdlib.h>

#define LOOKUPS_MAX  64  /* waiting */
#define SEAL_AT_ONCE 200 /* secrets in one transaction */
#define EVENTS_MAX   400 /* the column's width */

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
    else if (u.userinfo.ptr)
        df_input_error(in, "url", "must not hold credentials: deliveries are signed");
    else if (memchr(u.rest.ptr, '#', u.rest.len))
        df_input_error(in, "url", "must not have a fragment (#)");
    else
        return df_arena_cstr(in->arena, u.host);
    return NULL;
}

/* All of a name's addresses: which of them is dialled is nobody's choice. */
static const char *look_up(const struct df_subscriptions *s, const char *host)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    const char *problem = NULL;

    if (getaddrinfo(host, NULL, &hints, &list) != 0)
        return "its host cannot be resolved";
    for (const struct addrinfo *a = list; a; a = a->ai_next)
        if (!s->opt.allow_private && !df_address_is_public(a->ai_addr))
            problem = "its host has an address that is not public (delivery.allow_private_targets)";
    freeaddrinfo(list);
    return problem;
}

static void *work(void *arg)
{
    struct df_subscriptions *s = arg;
    void *item;

    while (df_queue_pop(&s->lookups, &item, 1, -1) == 1) {
        struct df_lookup *l = item;
        l->done(l, look_up(s, l->host));
    }
    return NULL;
}

bool df_subscriptions_lookup(struct df_subscriptions *s, struct df_lookup *l)
{
    return df_queue_push(&s->lookups, l);
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
    if (v->count == 0)
        df_input_error(in, "events",
                       "must name at least one event; leave it out for "
                       "BatchCompleted and BatchFailed");
    for (const struct df_json *e = v->first; e; e = e->next) {
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

/* --- secrets from before there was a master key --- */

struct seal {
    struct df_job job;
    const struct df_subscriptions *s;
    struct df_arena arena;
    struct df_uuid after;
    struct df_uuid last;
    size_t found;
};

struct open_secret {
    struct df_str id;
    struct df_str secret;
    struct df_str previous;
};

static enum df_code read_open(struct df_db *db, struct seal *c, struct open_secret *rows,
                              struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code =
        df_db_query(db, &df_q_subscription_plain,
                    DF_PARAMS(df_uuid(df_uuid_str(&c->after)), df_int(SEAL_AT_ONCE)), &r, err);

    if (code != DF_OK)
        return code;
    c->found = 0;
    while ((code = df_result_step(r, err)) == DF_ROW && c->found < SEAL_AT_ONCE)
        rows[c->found++] = (struct open_secret){df_arena_str(&c->arena, df_col_text(r, 0)),
                                                df_arena_str(&c->arena, df_col_text(r, 1)),
                                                df_arena_str(&c->arena, df_col_text(r, 2))};
    df_result_free(r);
    return code == DF_DONE || code == DF_ROW ? DF_OK : code;
}

static enum df_code seal_one(struct df_db *db, const struct seal *c, const struct open_secret *row,
                             struct df_err *err)
{
    const struct df_subscriptions_options *o = &c->s->opt;
    struct df_webhook_sealed now, before = {.sealed = DF_STR_NULL};

    /* Others may have written longer ones than we do. */
    if (row->secret.len > DF_WEBHOOK_SECRET_MAX || row->previous.len > DF_WEBHOOK_SECRET_MAX)
        return DF_OK;
    df_webhook_secret_seal(o->master, o->clock, row->id, row->secret, &now);
    if (row->previous.ptr)
        df_webhook_secret_seal(o->master, o->clock, row->id, row->previous, &before);
    return df_db_exec(db, &df_q_subscription_seal,
                      DF_PARAMS(df_blob(now.sealed), df_blob(before.sealed), df_uuid(row->id),
                                df_text(row->secret)),
                      NULL, err);
}

/* With another key, or none, every delivery would be given up one after the other. */
static enum df_code check_master(struct df_db *db, struct seal *c, struct df_err *err)
{
    struct df_webhook_secret_columns columns = {.previous_expires_at = -1};
    struct df_str secret, previous;
    struct df_result *r = NULL;
    enum df_code code = df_db_query(db, &df_q_subscription_sealed, DF_NO_PARAMS, &r, err);

    if (code != DF_OK)
        return code;
    code = df_result_step(r, err);
    if (code == DF_ROW) {
        columns.encrypted = df_col_blob(r, 1);
        code = df_webhook_secret_open(c->s->opt.master, df_col_text(r, 0), &columns, 0, &c->arena,
                                      &secret, &previous, err);
        if (code == DF_OK)
            df_wipe((void *)(uintptr_t)secret.ptr, secret.len);
    }
    df_result_free(r);
    return code == DF_DONE ? DF_OK : code;
}

static enum df_code run_seal(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct seal *c = (struct seal *)job;
    struct open_secret rows[SEAL_AT_ONCE];

    df_arena_reset(&c->arena);
    enum df_code code = check_master(db, c, err);
    if (code == DF_OK)
        code = read_open(db, c, rows, err);
    for (size_t i = 0; code == DF_OK && c->s->opt.master && i < c->found; i++)
        code = seal_one(db, c, &rows[i], err);
    if (code == DF_OK && c->found > 0 && !df_uuid_parse(rows[c->found - 1].id, &c->last))
        code = df_err_set(err, DF_E_INTERNAL, "a subscription's id is no UUID");
    return code;
}

enum df_code df_subscriptions_seal(struct df_subscriptions *s, struct df_err *err)
{
    struct seal c = {.job.run = run_seal, .s = s};
    size_t total = 0;
    enum df_code code;

    (void)df_uuid_parse(DF_STR("00000000-0000-0000-0000-000000000000"), &c.after);
    do {
        code = df_store_write_wait(s->opt.store, &c.job, err);
        total += code == DF_OK ? c.found : 0;
        c.after = c.last;
    } while (code == DF_OK && c.found == SEAL_AT_ONCE);
    df_arena_release(&c.arena);
    if (code == DF_OK && total > 0 && s->opt.master)
        df_log_info("WebhookSecretsEncrypted", "%zu webhook secrets were stored as they are",
                    total);
    else if (code == DF_OK && total > 0)
        df_log_warn("WebhookSecretsOpen",
                    "webhook secrets are stored as they are: set security.master_key_file");
    if (code == DF_OK || code == DF_E_CONFIG)
        return code;
    df_log_warn("WebhookSecretsNotRead", "%s", err->detail); /* /readyz tells what is wrong */
    return DF_OK;
}

/* --- life --- */

struct df_subscriptions *df_subscriptions_new(const struct df_subscriptions_options *opt)
{
    struct df_subscriptions *s = df_calloc(1, sizeof(*s));

    s->opt = *opt;
    df_queue_init(&s->lookups, LOOKUPS_MAX);
    for (size_t i = 0; i < DF_LOOKUP_THREADS; i++)
        if (pthread_create(&s->threads[i], NULL, work, s) != 0)
            abort();
    s->running = true;
    return s;
}

void df_subscriptions_stop(struct df_subscriptions *s)
{
    if (!s || !s->running)
        return;
    df_queue_close(&s->lookups);
    for (size_t i = 0; i < DF_LOOKUP_THREADS; i++)
        pthread_join(s->threads[i], NULL);
    s->running = false;
}

void df_subscriptions_free(struct df_subscriptions *s)
{
    if (!s)
        return;
    df_subscriptions_stop(s);
    df_queue_release(&s->lookups);
    free(s);
}
