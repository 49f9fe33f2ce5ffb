/* /admin/outbox and /admin/circuit-breakers. The operations are in outbox.c. */
#include "access/handler.h"
#include "admin/outbox.h"

#define ANSWER_MAX (64 << 20) /* enough for a row's payload with every other character escaped */

struct call {
    struct df_work w; /* its arg is the delivery engine */
    const struct df_channel *channel;
    struct df_str id;
    struct df_str status;
    int64_t retried;
};

/* For a path with {channel}. */
static bool read_channel(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;
    struct df_str name = df_req_param(w->req, "channel");

    (void)in;
    c->id = df_req_param(w->req, "id");
    c->channel = df_delivery_find(w->arg, name);
    if (!c->channel)
        df_req_fail(w->req, DF_E_NOT_FOUND, "There is no channel \"" DF_STR_FMT "\".",
                    DF_STR_ARG(df_utf8_cut(name, 50)));
    return c->channel;
}

/* --- GET /admin/outbox, /admin/outbox/{channel}, /admin/outbox/{channel}/{id} --- */

static enum df_code run_overview(struct df_db *db, struct df_work *w, struct df_err *err)
{
    return df_outbox_json_overview(db, w->arg, &w->json, err);
}

static const struct df_handler overview = {
    .max_answer = ANSWER_MAX,
    .run = run_overview,
};

static bool read_status(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;
    struct df_str status = df_input_filter(w->req, "status");
    char names[DF_OUTBOX_NAMES_SIZE];
    enum df_outbox_status known;

    if (!read_channel(w, in))
        return false;
    if (status.ptr && df_outbox_status_parse(c->channel, status, &known)) {
        c->status = df_str_c(df_outbox_status_name(c->channel, known));
    } else if (status.ptr) {
        df_outbox_status_names(c->channel, names);
        df_input_error(in, "status", "must be %s", names);
    }
    return true;
}

static enum df_code run_list(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    return df_outbox_json_page(db, c->channel, c->status, &w->page, &w->json, err);
}

static const struct df_handler list = {
    .size = sizeof(struct call),
    .paged = true,
    .max_answer = ANSWER_MAX,
    .prepare = read_status,
    .run = run_list,
};

static enum df_code run_get(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    return df_outbox_json_row(db, c->channel, c->id, &w->json, err);
}

static const struct df_handler get = {
    .size = sizeof(struct call),
    .max_answer = ANSWER_MAX,
    .prepare = read_channel,
    .run = run_get,
};

/* --- POST /admin/outbox/{channel}/{id}/retry, /admin/outbox/{channel}/retry --- */

static enum df_code run_retry(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct df_actor by = df_actor_of(w->req);
    df_outbox_json_retried(c->channel, c->id, &w->json);
    return df_outbox_retry(db, c->channel, c->id, &by, w->now_ms, err);
}

static void retried(struct df_work *w)
{
    const struct call *c = (const struct call *)w;

    df_delivery_wake(w->arg, c->channel);
    df_log_info("OutboxRetried", "%s " DF_STR_FMT " is to be sent again", c->channel->name,
                DF_STR_ARG(c->id));
}

static const struct df_handler retry = {
    .size = sizeof(struct call),
    .writes = true,
    .prepare = read_channel,
    .run = run_retry,
    .done = retried,
};

/* No body means the same as {}. */
static bool read_filter(struct df_work *w, struct df_input *in)
{
    const struct call *c = (const struct call *)w;
    enum df_outbox_status status = DF_OUTBOX_ERROR;

    if (!read_channel(w, in))
        return false;
    if (df_req_body(w->req).len == 0)
        return true;
    if (!df_input_json(in, w->req))
        return false;
    struct df_str name = df_input_text(in, "status", 20, DF_OPTIONAL);
    if (name.ptr &&
        (!df_outbox_status_parse(c->channel, name, &status) || status != DF_OUTBOX_ERROR))
        df_input_error(in, "status", "must be %s: nothing else is tried again",
                       df_outbox_status_name(c->channel, DF_OUTBOX_ERROR));
    return true;
}

static enum df_code run_retry_all(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct df_actor by = df_actor_of(w->req);
    enum df_code code = df_outbox_retry_all(db, c->channel, &by, w->now_ms, &c->retried, err);
    df_outbox_json_retried_all(c->retried, &w->json);
    return code;
}

static void retried_all(struct df_work *w)
{
    const struct call *c = (const struct call *)w;

    if (c->retried == 0)
        return;
    df_delivery_wake(w->arg, c->channel);
    df_log_info("OutboxRetriedAll", "%lld rows of %s are to be sent again", (long long)c->retried,
                c->channel->name);
}

static const struct df_handler retry_all = {
    .size = sizeof(struct call),
    .writes = true,
    .prepare = read_filter,
    .run = run_retry_all,
    .done = retried_all,
};

/* --- GET /admin/circuit-breakers --- */

static void write_rate(struct df_json_out *out, const char *name, double per_cent)
{
    df_json_key(out, name);
    if (per_cent < 0)
        df_json_null(out);
    else
        df_json_double(out, per_cent);
}

static void write_breaker(void *arg, const struct df_breaker_snapshot *s)
{
    struct df_json_out *out = arg;
    df_json_open(out, '{');
    df_json_kv_text(out, "name", s->name);
    df_json_kv_text(out, "state", df_str_c(df_breaker_state_name(s->state)));
    df_json_kv_time(out, "since", s->since_ms);
    write_rate(out, "failureRate", s->failure_rate);
    write_rate(out, "slowRate", s->slow_rate);
    df_json_kv_int(out, "window", s->window);
    df_json_kv_int(out, "calls", s->calls);
    df_json_kv_int(out, "failed", s->failed);
    df_json_kv_int(out, "slow", s->slow);
    df_json_kv_int(out, "notPermitted", s->not_permitted);
    df_json_kv_time(out, "lastFailureAt", s->last_failure_ms > 0 ? s->last_failure_ms : -1);
    df_json_kv_int(out, "retryMs", s->retry_ms);
    df_json_close(out, '}');
}

static void write_breakers(struct df_work *w)
{
    df_json_open(&w->json, '{');
    df_json_key(&w->json, "items");
    df_json_open(&w->json, '[');
    df_breakers_each(w->arg, write_breaker, &w->json);
    df_json_close(&w->json, ']');
    df_json_close(&w->json, '}');
}

static const struct df_handler breakers = {.max_answer = ANSWER_MAX, .done = write_breakers};

#define ADMIN(m, path, kind, h) DF_ROUTE(m, "/admin" path, kind, DF_ACCESS_ADMIN, NULL, h)

const struct df_route df_outbox_routes[] = {
    ADMIN("GET", "/outbox", DF_BODY_NONE, overview),
    ADMIN("GET", "/outbox/{channel}", DF_BODY_NONE, list),
    ADMIN("GET", "/outbox/{channel}/{id}", DF_BODY_NONE, get),
    ADMIN("POST", "/outbox/{channel}/{id}/retry", DF_BODY_ANY, retry),
    ADMIN("POST", "/outbox/{channel}/retry", DF_BODY_JSON, retry_all),
    {.method = NULL},
};

const struct df_route df_breaker_routes[] = {
    ADMIN("GET", "/circuit-breakers", DF_BODY_NONE, breakers),
    {.method = NULL},
};
