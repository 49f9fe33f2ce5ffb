/* /admin/outbox and /admin/circuit-breakers. The operations are in outbox.c, outbox_retry.c and
 * outbox_targets.c. */
#include "access/handler.h"
#include "admin/outbox.h"

#define ANSWER_MAX   (64 << 20) /* enough for a row's payload with every other character escaped */
#define RETRY_MS     8000       /* a retry of many rows answers then, done or not */
#define CHANNELS_MAX 16

struct call {
    struct df_work w; /* its arg is the delivery engine */
    const struct df_channel *channel;
    struct df_str id;
    enum df_outbox_change change;
    struct df_outbox_filter filter;
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

/* --- GET /admin/outbox, /admin/outbox/{channel} --- */

static enum df_code run_overview(struct df_db *db, struct df_work *w, struct df_err *err)
{
    return df_outbox_json_overview(db, w->arg, &w->json, err);
}

static const struct df_handler overview = {
    .max_answer = ANSWER_MAX,
    .run = run_overview,
};

/* "Error" and so on, or "GivenUp". */
static void read_status(const struct df_req *req, struct df_input *in, const struct df_channel *c,
                        struct df_outbox_filter *ret)
{
    struct df_str status = df_input_filter(req, "status");
    char names[DF_OUTBOX_NAMES_SIZE];
    enum df_outbox_status known = DF_OUTBOX_ERROR;

    if (!status.ptr)
        return;
    ret->given_up = df_str_ieq(status, DF_STR("GivenUp"));
    if (ret->given_up || df_outbox_status_parse(c, status, &known)) {
        ret->status = df_str_c(df_outbox_status_name(c, known));
    } else {
        df_outbox_status_names(c, names);
        df_input_error(in, "status", "must be %s, or GivenUp", names);
    }
}

static void check_length(struct df_input *in, const char *field, struct df_str text, size_t most)
{
    if (text.len > most && df_utf8_count(text) > most)
        df_input_error(in, field, "has more than %zu characters", most);
}

static int64_t read_time(struct df_input *in, const char *field, struct df_str text)
{
    int64_t ms = -1;

    if (text.ptr && (!df_time_parse(text, &ms) || ms < 0)) {
        df_input_error(in, field, "must be a time like 2026-11-15T00:00:00Z");
        return -1;
    }
    return ms;
}

static void check_filter(struct df_input *in, struct df_outbox_filter *f, struct df_str since,
                         struct df_str until)
{
    check_length(in, "target", f->target, DF_OUTBOX_TARGET_MAX);
    check_length(in, "error", f->error, DF_OUTBOX_ERROR_MAX);
    f->since_ms = read_time(in, "since", since);
    f->until_ms = read_time(in, "until", until);
    if (f->since_ms >= 0 && f->until_ms >= 0 && f->until_ms <= f->since_ms)
        df_input_error(in, "until", "must be after since");
}

void df_outbox_read_filter(const struct df_req *req, struct df_input *in,
                           const struct df_channel *c, struct df_outbox_filter *ret)
{
    read_status(req, in, c, ret);
    ret->target = df_input_filter(req, "target");
    ret->error = df_input_filter(req, "error");
    check_filter(in, ret, df_input_filter(req, "since"), df_input_filter(req, "until"));
}

static bool read_list(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    if (!read_channel(w, in))
        return false;
    struct df_str list = df_arena_printf(df_req_arena(w->req), "outbox/%s", c->channel->name);
    df_page_read_list(in, w->req, list.ptr, c->channel->id_type == DF_UUID, &w->page);
    df_outbox_read_filter(w->req, in, c->channel, &c->filter);
    return true;
}

static enum df_code run_list(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    return df_outbox_json_page(db, w->arg, c->channel, &c->filter, &w->page, &w->json, err);
}

static const struct df_handler list = {
    .size = sizeof(struct call),
    .max_answer = ANSWER_MAX,
    .prepare = read_list,
    .run = run_list,
};

/* --- POST /admin/outbox/{channel}/{id}/retry, /admin/outbox/{channel}/{id}/dismiss --- */

static bool read_dismissal(struct df_work *w, struct df_input *in)
{
    ((struct call *)w)->change = DF_OUTBOX_DISMISS;
    return read_channel(w, in);
}

static enum df_code run_change(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct df_actor by = df_actor_of(w->req);
    df_outbox_json_changed(c->channel, c->change, c->id, &w->json);
    return df_outbox_change(db, c->channel, c->change, c->id, &by, w->now_ms, err);
}

static void changed(struct df_work *w)
{
    const struct call *c = (const struct call *)w;
    bool retry = c->change == DF_OUTBOX_RETRY;

    if (retry)
        df_delivery_wake(w->arg, c->channel);
    df_log_info(retry ? "OutboxRetried" : "DeliveryDismissed", "%s " DF_STR_FMT " %s",
                c->channel->name, DF_STR_ARG(c->id),
                retry ? "is to be sent again" : "was dismissed");
}

#define CHANGE_ONE .size = sizeof(struct call), .writes = true, .run = run_change, .done = changed

static const struct df_handler retry = {CHANGE_ONE, .prepare = read_channel};
static const struct df_handler dismiss = {CHANGE_ONE, .prepare = read_dismissal};

/*
 * --- POST /admin/outbox/retry, /admin/outbox/{channel}/retry, and the same with dismiss ---
 *
 * The matching rows of each channel are counted first, which is all that a dry run does. Then they
 * are retried in steps, each of them a job and so a transaction of its own, so that other writers
 * go on. A channel is done when a step finds no more rows, or as many were retried as were counted:
 * rows that fail again meanwhile are not taken again. A call that fails on its way answers with
 * what it has done.
 */

struct many {
    struct df_work w;              /* its arg is the delivery engine */
    const struct df_channel *only; /* NULL: all channels */
    enum df_outbox_change change;
    struct df_outbox_filter filter;
    bool dry_run;
    int64_t deadline_ms;
    size_t at; /* the channel in hand */
    int64_t step;
    int64_t matched[CHANNELS_MAX];
    int64_t retried[CHANNELS_MAX];
};

static size_t channel_count(const struct many *m)
{
    size_t count = df_delivery_channels(m->w.arg);
    return count < CHANNELS_MAX ? count : CHANNELS_MAX;
}

/* Empty text is as good as none in a query, but in a document somebody wrote it. */
static struct df_str read_text(struct df_input *in, const char *field, size_t most)
{
    struct df_str text = df_input_text(in, field, most, DF_OPTIONAL);

    if (text.ptr && df_str_trim(text).len == 0)
        df_input_error(in, field, "must not be empty");
    return text;
}

static void read_retry_status(struct df_input *in, const struct df_channel *c)
{
    enum df_outbox_status status = DF_OUTBOX_ERROR;
    struct df_str name = df_input_text(in, "status", 20, DF_OPTIONAL);

    if (name.ptr && (!c || !df_outbox_status_parse(c, name, &status) || status != DF_OUTBOX_ERROR))
        df_input_error(in, "status", "must be %s: nothing else is tried again",
                       c ? df_outbox_status_name(c, DF_OUTBOX_ERROR) : "left out");
}

#define RETRY_MEMBERS "status", "target", "error", "givenUp", "since", "until", "dryRun", "all"

/* False: the answer is set. No body means the same as {}. */
static bool read_retry(struct many *m, struct df_input *in, const char *const *known)
{
    struct df_work *w = &m->w;

    m->filter = DF_OUTBOX_ANY;
    m->deadline_ms = df_mono_ms(w->access->clock) + RETRY_MS;
    if (df_req_body(w->req).len == 0)
        return true;
    if (!df_input_json(in, w->req))
        return false;
    df_input_only(in, known);
    read_retry_status(in, m->only);
    m->filter.target = read_text(in, "target", DF_OUTBOX_TARGET_MAX);
    m->filter.error = read_text(in, "error", DF_OUTBOX_ERROR_MAX);
    m->filter.given_up = df_input_bool(in, "givenUp", false);
    m->dry_run = df_input_bool(in, "dryRun", false);
    (void)df_input_bool(in, "all", false);
    check_filter(in, &m->filter, df_input_text(in, "since", 40, DF_OPTIONAL),
                 df_input_text(in, "until", 40, DF_OPTIONAL));
    return true;
}

/* A channel is a filter itself. */
static bool read_channel_retry(struct df_work *w, struct df_input *in)
{
    static const char *const known[] = {RETRY_MEMBERS, NULL};
    struct many *m = (struct many *)w;
    struct df_str name = df_req_param(w->req, "channel");

    m->only = df_delivery_find(w->arg, name);
    if (m->only)
        return read_retry(m, in, known);
    df_req_fail(w->req, DF_E_NOT_FOUND, "There is no channel \"" DF_STR_FMT "\".",
                DF_STR_ARG(df_utf8_cut(name, 50)));
    return false;
}

static bool read_any_retry(struct df_work *w, struct df_input *in)
{
    static const char *const known[] = {"channel", RETRY_MEMBERS, NULL};
    struct many *m = (struct many *)w;
    const struct df_outbox_filter *f = &m->filter;
    struct df_str name = DF_STR_NULL;
    bool all = false;

    if (!read_retry(m, in, known))
        return false;
    if (df_req_body(w->req).len > 0) {
        name = read_text(in, "channel", 50);
        all = df_input_bool(in, "all", false);
    }
    m->only = name.ptr ? df_delivery_find(w->arg, name) : NULL;
    if (name.ptr && !m->only)
        df_input_error(in, "channel", "is none of this server's channels");
    if (in->error_count == 0 && !all && !name.ptr && !f->target.ptr && !f->error.ptr &&
        f->since_ms < 0 && f->until_ms < 0)
        df_input_error(in, "all", "must be true to %s everything that failed",
                       m->change == DF_OUTBOX_RETRY ? "retry" : "dismiss");
    return true;
}

static enum df_code run_count(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct many *m = (struct many *)w;
    enum df_code code = DF_OK;

    for (size_t i = 0; i < channel_count(m) && code == DF_OK; i++) {
        const struct df_channel *c = df_delivery_channel(w->arg, i);
        m->matched[i] = 0;
        if (!m->only || m->only == c)
            code = df_outbox_match(db, c, m->change, &m->filter, &m->matched[i], err);
    }
    return code;
}

static enum df_code run_step(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct many *m = (struct many *)w;
    struct df_actor by = df_actor_of(w->req);

    return df_outbox_change_step(db, df_delivery_channel(w->arg, m->at), m->change, &m->filter, &by,
                                 w->now_ms, &m->step, err);
}

/* Goes to the next channel that has rows to retry. False: there is none. */
static bool find_work(struct many *m)
{
    while (m->at < channel_count(m) && m->retried[m->at] >= m->matched[m->at])
        m->at++;
    return m->at < channel_count(m);
}

static int64_t total_retried(const struct many *m)
{
    int64_t total = 0;

    for (size_t i = 0; i < channel_count(m); i++)
        total += m->retried[i];
    return total;
}

static void write_retried(struct df_work *w)
{
    const struct many *m = (const struct many *)w;
    struct df_json_out *out = &w->json;
    int64_t matched = 0, retried = total_retried(m);

    for (size_t i = 0; i < channel_count(m); i++)
        matched += m->matched[i];
    df_json_open(out, '{');
    df_json_kv_int(out, "matched", matched);
    df_json_kv_int(out, m->change == DF_OUTBOX_RETRY ? "retried" : "dismissed", retried);
    df_json_key(out, "byChannel");
    df_json_open(out, '{');
    for (size_t i = 0; i < channel_count(m); i++)
        if (m->matched[i] > 0)
            df_json_kv_int(out, df_delivery_channel(w->arg, i)->name, m->matched[i]);
    df_json_close(out, '}');
    if (!m->dry_run && retried < matched)
        df_json_kv_int(out, "left", matched - retried);
    df_json_close(out, '}');
    if (retried > 0)
        df_log_info(m->change == DF_OUTBOX_RETRY ? "OutboxRetriedAll" : "DeliveryDismissed",
                    "%lld rows of %s %s", (long long)retried,
                    m->only ? m->only->name : "all channels",
                    m->change == DF_OUTBOX_RETRY ? "are to be sent again" : "were dismissed");
}

/* After an error. True: earlier steps are committed, and the answer tells what they did. */
static bool stop_retry(struct many *m, const struct df_err *err)
{
    struct df_work *w = &m->w;
    int64_t retried = total_retried(m);

    if (retried == 0)
        return false;
    df_log_warn("OutboxRetryStopped", "after %lld rows: %s", (long long)retried, err->detail);
    write_retried(w);
    df_req_answer(w->req, 200, "application/json", &w->out);
    df_work_end(w);
    return true;
}

static bool step_done(struct df_work *w, enum df_code code, const struct df_err *err)
{
    struct many *m = (struct many *)w;

    if (code != DF_OK)
        return stop_retry(m, err);
    if (m->step > 0 && m->change == DF_OUTBOX_RETRY)
        df_delivery_wake(w->arg, df_delivery_channel(w->arg, m->at));
    m->retried[m->at] += m->step;
    if (m->step == 0)
        m->matched[m->at] = m->retried[m->at]; /* somebody else took the rest */
    if (!find_work(m) || df_mono_ms(w->access->clock) >= m->deadline_ms)
        return false;
    df_work_submit(w);
    return true;
}

static const struct df_handler retry_steps = {
    .size = sizeof(struct many),
    .writes = true,
    .run = run_step,
    .pass_on = step_done,
    .done = write_retried,
};

static bool counted(struct df_work *w, enum df_code code, const struct df_err *err)
{
    struct many *m = (struct many *)w;

    (void)err;
    if (code != DF_OK || m->dry_run || !find_work(m))
        return false;
    df_work_become(w, &retry_steps);
    df_work_submit(w);
    return true;
}

#define RETRY_MANY                                                                                 \
    .size = sizeof(struct many), .run = run_count, .pass_on = counted, .done = write_retried

static const struct df_handler retry_channel = {RETRY_MANY, .prepare = read_channel_retry};
static const struct df_handler retry_any = {RETRY_MANY, .prepare = read_any_retry};

static bool read_channel_dismissal(struct df_work *w, struct df_input *in)
{
    ((struct many *)w)->change = DF_OUTBOX_DISMISS;
    return read_channel_retry(w, in);
}

static bool read_any_dismissal(struct df_work *w, struct df_input *in)
{
    ((struct many *)w)->change = DF_OUTBOX_DISMISS;
    return read_any_retry(w, in);
}

static const struct df_handler dismiss_channel = {RETRY_MANY, .prepare = read_channel_dismissal};
static const struct df_handler dismiss_any = {RETRY_MANY, .prepare = read_any_dismissal};

/* --- POST /admin/outbox/{channel}/pause, /admin/outbox/{channel}/resume --- */

struct pausing {
    struct df_work w; /* its arg is the delivery engine */
    struct df_str channel;
    struct df_str target; /* absent: the whole channel */
    bool pause;
    bool changed;
};

static bool read_pausing(struct df_work *w, struct df_input *in)
{
    struct pausing *p = (struct pausing *)w;

    p->channel = df_req_param(w->req, "channel");
    if (!df_outbox_can_pause(w->arg, p->channel)) {
        df_req_fail(w->req, DF_E_NOT_FOUND, "There is no channel \"" DF_STR_FMT "\".",
                    DF_STR_ARG(df_utf8_cut(p->channel, 50)));
        return false;
    }
    if (df_req_body(w->req).len > 0) {
        if (!df_input_json(in, w->req))
            return false;
        df_input_only(in, (const char *const[]){"target", NULL});
        p->target = df_outbox_target_name(read_text(in, "target", DF_OUTBOX_TARGET_MAX));
    }
    const char *why = p->pause ? df_outbox_why_no_pause(w->arg, p->channel, p->target) : NULL;
    if (why)
        df_input_error(in, p->target.len > 0 ? "target" : "channel", "%s", why);
    return true;
}

static bool read_pause(struct df_work *w, struct df_input *in)
{
    ((struct pausing *)w)->pause = true;
    return read_pausing(w, in);
}

static enum df_code run_pausing(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct pausing *p = (struct pausing *)w;
    struct df_actor by = df_actor_of(w->req);
    enum df_code code =
        df_outbox_pause(db, p->channel, p->target, p->pause, &by, w->now_ms, &p->changed, err);

    if (code != DF_OK)
        return code;
    return df_outbox_json_target(db, p->channel, p->target, &w->json, err);
}

static void pausing_done(struct df_work *w)
{
    const struct pausing *p = (const struct pausing *)w;
    const struct df_channel *c = df_delivery_find(w->arg, p->channel);

    if (!p->changed)
        return;
    if (c && !p->pause)
        df_delivery_wake(w->arg, c);
    df_log_info(p->pause ? "DeliveryPaused" : "DeliveryResumed", DF_STR_FMT "%s" DF_STR_FMT " %s",
                DF_STR_ARG(p->channel), p->target.len > 0 ? " " : "", DF_STR_ARG(p->target),
                p->pause ? "is paused: nothing is sent until somebody resumes it" : "goes on");
}

#define PAUSING                                                                                    \
    .size = sizeof(struct pausing), .writes = true, .run = run_pausing, .done = pausing_done

static const struct df_handler pause_target = {PAUSING, .prepare = read_pause};
static const struct df_handler resume_target = {PAUSING, .prepare = read_pausing};

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

/* --- POST /admin/circuit-breakers/{name}/reset: of this process --- */

static bool find_breaker(struct df_work *w, struct df_input *in)
{
    struct df_breaker_snapshot shown;

    (void)in;
    if (df_breakers_look(w->arg, df_req_param(w->req, "name"), &shown))
        return true;
    df_req_fail(w->req, DF_E_NOT_FOUND, "There is no such circuit breaker in this process.");
    return false;
}

static enum df_code run_reset(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct df_actor by = df_actor_of(w->req);

    return df_audit_write(db, &by, "BreakerReset", df_req_param(w->req, "name"), DF_STR_NULL,
                          DF_STR_NULL, w->now_ms, err);
}

static void breaker_reset(struct df_work *w)
{
    struct df_str name = df_req_param(w->req, "name");
    struct df_breaker_snapshot shown = {0};

    (void)df_breakers_reset(w->arg, name);
    (void)df_breakers_look(w->arg, name, &shown);
    shown.name = name;
    write_breaker(&w->json, &shown);
    df_log_info("BreakerReset", DF_STR_FMT " was closed by an operator", DF_STR_ARG(name));
}

static const struct df_handler reset_breaker = {
    .writes = true, .prepare = find_breaker, .run = run_reset, .done = breaker_reset};

#define ADMIN(m, path, kind, h) DF_ROUTE(m, "/admin" path, kind, DF_ACCESS_ADMIN, NULL, h)
#define OPERATE(m, path, kind, h)                                                                  \
    DF_ROUTE(m, "/admin" path, kind, DF_ACCESS_ADMIN, DF_NEEDS_OPERATE, h)

const struct df_route df_outbox_routes[] = {
    ADMIN("GET", "/outbox", DF_BODY_NONE, overview),
    ADMIN("GET", "/outbox/{channel}", DF_BODY_NONE, list),
    OPERATE("POST", "/outbox/{channel}/{id}/retry", DF_BODY_ANY, retry),
    OPERATE("POST", "/outbox/retry", DF_BODY_JSON, retry_any),
    OPERATE("POST", "/outbox/{channel}/retry", DF_BODY_JSON, retry_channel),
    OPERATE("POST", "/outbox/{channel}/{id}/dismiss", DF_BODY_ANY, dismiss),
    OPERATE("POST", "/outbox/dismiss", DF_BODY_JSON, dismiss_any),
    OPERATE("POST", "/outbox/{channel}/dismiss", DF_BODY_JSON, dismiss_channel),
    OPERATE("POST", "/outbox/{channel}/pause", DF_BODY_JSON, pause_target),
    OPERATE("POST", "/outbox/{channel}/resume", DF_BODY_JSON, resume_target),
    {.method = NULL},
};

const struct df_route df_breaker_routes[] = {
    ADMIN("GET", "/circuit-breakers", DF_BODY_NONE, breakers),
    OPERATE("POST", "/circuit-breakers/{name}/reset", DF_BODY_ANY, reset_breaker),
    {.method = NULL},
};
