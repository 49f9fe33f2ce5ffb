/* /admin/outbox and /admin/circuit-breakers. The operations are in outbox.c. */
#include "access/services.h"
#include "admin/outbox.h"

#define ANSWER_MAX (64 << 20) /* a row's payload with every other character escaped, and more */

/* One call on its way. Lives in the request's arena. */
struct call {
    struct df_job job;
    struct df_req *req;
    const struct df_services *services;
    const struct df_channel *channel;
    struct df_str id;
    struct df_str status;
    struct df_page page;
    int64_t now_ms;
    int64_t retried;
    struct df_buf out;
    struct df_json_out json;
};

static struct call *call_new(struct df_req *req)
{
    struct call *c = DF_ARENA_NEW(df_req_arena(req), struct call);
    c->req = req;
    c->services = df_services_of(req);
    c->id = df_req_param(req, "id");
    c->now_ms = df_wall_ms(c->services->clock);
    df_req_buf(req, &c->out, ANSWER_MAX);
    return c;
}

/* Of a path with {channel}. NULL: the answer is set. */
static struct call *call_of_channel(struct df_req *req)
{
    struct df_str name = df_req_param(req, "channel");
    struct call *c = call_new(req);
    c->channel = df_delivery_find(c->services->delivery, name);
    if (c->channel)
        return c;
    df_req_fail(req, DF_E_NOT_FOUND, "There is no channel \"" DF_STR_FMT "\".",
                DF_STR_ARG(df_utf8_cut(name, 50)));
    return NULL;
}

/* A job may run again: its answer is begun afresh. */
static struct df_json_out *begin(struct call *c)
{
    df_buf_reset(&c->out);
    df_json_out_init(&c->json, &c->out);
    return &c->json;
}

static void done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct call *c = (struct call *)job;
    df_req_finish(c->req, 200, &c->out, code, err);
}

static void read_with(struct call *c,
                      enum df_code (*run)(struct df_db *db, struct df_job *job, struct df_err *err))
{
    c->job.run = run;
    c->job.done = done;
    df_req_read(c->req, &c->job);
}

/* --- GET /admin/outbox, /admin/outbox/{channel}, /admin/outbox/{channel}/{id} --- */

static enum df_code run_overview(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    return df_outbox_json_overview(db, c->services->delivery, begin(c), err);
}

static void handle_overview(struct df_req *req)
{
    read_with(call_new(req), run_overview);
}

static enum df_code run_list(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    return df_outbox_json_page(db, c->channel, c->status, &c->page, begin(c), err);
}

static void handle_list(struct df_req *req)
{
    struct call *c = call_of_channel(req);
    if (!c || !df_input_page(req, &c->page))
        return;
    struct df_str status = df_input_filter(req, "status");
    enum df_outbox_status known;
    if (status.ptr && df_outbox_status_parse(c->channel, status, &known)) {
        c->status = df_str_c(df_outbox_status_name(c->channel, known));
    } else if (status.ptr) {
        struct df_input in;
        char names[DF_OUTBOX_NAMES_SIZE];
        df_outbox_status_names(c->channel, names);
        df_input_init(&in, df_req_arena(req), NULL);
        df_input_error(&in, "status", "must be %s", names);
        (void)df_input_ok(&in, req);
        return;
    }
    read_with(c, run_list);
}

static enum df_code run_get(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    return df_outbox_json_row(db, c->channel, c->id, begin(c), err);
}

static void handle_get(struct df_req *req)
{
    struct call *c = call_of_channel(req);
    if (c)
        read_with(c, run_get);
}

/* --- POST /admin/outbox/{channel}/{id}/retry, /admin/outbox/{channel}/retry --- */

static enum df_code run_retry(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    struct df_actor by = df_actor_of(c->req);
    df_outbox_json_retried(c->channel, c->id, begin(c));
    return df_outbox_retry(db, c->channel, c->id, &by, c->now_ms, err);
}

static void retry_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct call *c = (struct call *)job;
    if (code == DF_OK) {
        df_delivery_wake(c->services->delivery, c->channel);
        df_log_info("OutboxRetried", "%s " DF_STR_FMT " is to be sent again", c->channel->name,
                    DF_STR_ARG(c->id));
    }
    done(job, code, err);
}

static void handle_retry(struct df_req *req)
{
    struct call *c = call_of_channel(req);
    if (!c)
        return;
    c->job.run = run_retry;
    c->job.done = retry_done;
    df_req_write(req, &c->job);
}

static enum df_code run_retry_all(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    struct df_actor by = df_actor_of(c->req);
    enum df_code code = df_outbox_retry_all(db, c->channel, &by, c->now_ms, &c->retried, err);
    df_outbox_json_retried_all(c->retried, begin(c));
    return code;
}

static void retry_all_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct call *c = (struct call *)job;
    if (code == DF_OK && c->retried > 0) {
        df_delivery_wake(c->services->delivery, c->channel);
        df_log_info("OutboxRetriedAll", "%lld rows of %s are to be sent again",
                    (long long)c->retried, c->channel->name);
    }
    done(job, code, err);
}

/* No body says the same as {}. */
static bool read_filter(struct df_req *req, const struct df_channel *channel)
{
    struct df_input in;
    enum df_outbox_status status = DF_OUTBOX_ERROR;
    if (df_req_body(req).len == 0)
        return true;
    if (!df_input_json(&in, req))
        return false;
    struct df_str name = df_input_text(&in, "status", 20, DF_OPTIONAL);
    if (name.ptr && (!df_outbox_status_parse(channel, name, &status) || status != DF_OUTBOX_ERROR))
        df_input_error(&in, "status", "must be %s: nothing else is tried again",
                       df_outbox_status_name(channel, DF_OUTBOX_ERROR));
    return df_input_ok(&in, req);
}

static void handle_retry_all(struct df_req *req)
{
    struct call *c = call_of_channel(req);
    if (!c || !read_filter(req, c->channel))
        return;
    c->job.run = run_retry_all;
    c->job.done = retry_all_done;
    df_req_write(req, &c->job);
}

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

static void handle_breakers(struct df_req *req)
{
    struct df_buf buf;
    struct df_json_out out;
    df_buf_init(&buf, ANSWER_MAX);
    df_json_out_init(&out, &buf);
    df_json_open(&out, '{');
    df_json_key(&out, "items");
    df_json_open(&out, '[');
    df_breakers_each(df_services_of(req)->breakers, write_breaker, &out);
    df_json_close(&out, ']');
    df_json_close(&out, '}');
    df_req_answer(req, 200, "application/json", &buf);
}

#define ADMIN(m, path, kind, fn)                                                                   \
    {                                                                                              \
        .method = m, .pattern = path, .body = kind, .access = DF_ACCESS_ADMIN, .handle = fn        \
    }

const struct df_route df_outbox_routes[] = {
    ADMIN("GET", "/admin/outbox", DF_BODY_NONE, handle_overview),
    ADMIN("GET", "/admin/outbox/{channel}", DF_BODY_NONE, handle_list),
    ADMIN("GET", "/admin/outbox/{channel}/{id}", DF_BODY_NONE, handle_get),
    ADMIN("POST", "/admin/outbox/{channel}/{id}/retry", DF_BODY_ANY, handle_retry),
    ADMIN("POST", "/admin/outbox/{channel}/retry", DF_BODY_JSON, handle_retry_all),
    ADMIN("GET", "/admin/circuit-breakers", DF_BODY_NONE, handle_breakers),
    {.method = NULL},
};
