/*
 * A call's way, and who has it:
 *
 *     send ──► in line ──────► started ──► libcurl ──► done
 *      │ refused  │ expired                              ▲
 *      │          │ cancelled                            │
 *      └──────────┴──────────► ended ────────────────────┘
 *      the client's lock       a thread's lists          that thread
 *
 * All threads share one set of lines, under the client's lock, so that shares and limits hold for
 * the client as a whole. Whoever changes the lines (a sender, or a thread at each turn of its loop)
 * hands the calls that may start to the threads of their destinations. A thread has a CURLM and
 * easy handles of its own.
 *
 * A thread that is given a call is woken if it sleeps. That happens under the lock, so that the
 * client can be freed as soon as a call is done, without a sender still inside it. The first thread
 * also ends the calls that have waited in line too long.
 *
 * Once the client is stopped, calls go to `ended` at once, and the threads cancel what they have.
 * They go on until the client is freed, so that late calls are ended too.
 */
#include "net/client.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/pool.h"
#include "net/lines.h"
#include "net/sockets.h"
#include "net/transfer.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define IN_FLIGHT_MAX      4096
#define THREADS_MAX        8
#define TIMEOUT_DEFAULT_MS 30000
#define TIMEOUT_MAX_MS     ((int64_t)24 * 3600 * 1000)
#define SLEEP_MAX_MS       60000
#define STOPPED            "the client was stopped"

/* How a call ended: the metric's label. */
enum outcome {
    OUT_2XX,
    OUT_3XX,
    OUT_4XX,
    OUT_5XX,
    OUT_RESOLVE,
    OUT_CONNECT,
    OUT_TLS,
    OUT_TIMEOUT,
    OUT_REFUSED,
    OUT_INVALID,
    OUT_CANCELLED,
    OUT_ERROR,
    OUT_COUNT
};

static const struct df_str outcome_names[OUT_COUNT] = {
    {"2xx", 3}, {"3xx", 3},     {"4xx", 3},     {"5xx", 3},     {"resolve", 7},   {"connect", 7},
    {"tls", 3}, {"timeout", 7}, {"refused", 7}, {"invalid", 7}, {"cancelled", 9}, {"error", 5}};

struct client_thread {
    struct df_http_client *client;
    struct df_thread thread;
    struct df_sockets sockets;
    struct df_transfer_options transfer_options;

    /* Guarded by the client's lock. */
    struct df_list started; /* calls that have a place */
    struct df_list ended;   /* calls that have none: `err` says why */
    bool sleeps;            /* it takes no call before it is woken */

    /* Used by the thread only. */
    struct df_transfer **transfers; /* created on demand */
    size_t transfer_count;
    struct df_transfer **idle; /* a stack */
    size_t idle_count;
    size_t connections; /* that libcurl may keep */
    size_t handed_back; /* calls, since the thread had the lock */
};

struct df_http_client {
    char *ca_file;
    char *user_agent;
    size_t transfer_max;
    struct client_thread threads[THREADS_MAX];
    size_t thread_count;

    struct df_mutex lock;
    struct df_lines lines DF_GUARDED_BY(lock);
    size_t in_flight DF_GUARDED_BY(lock);
    size_t calls DF_GUARDED_BY(lock);     /* sent, and `done` has not returned */
    int64_t looks_ns DF_GUARDED_BY(lock); /* when the first thread looks for expired calls */
    bool stopping DF_GUARDED_BY(lock);    /* calls are cancelled */
    bool ending DF_GUARDED_BY(lock);      /* the threads are to end */
    pthread_cond_t became_empty;

    struct df_metric *requests[OUT_COUNT];
    struct df_metric *seconds;
    struct df_metric *active;
};

static struct df_metric_family requests_family = {
    .name = "dataflow_http_client_requests_total",
    .help = "Calls to other systems by how they ended",
    .type = DF_COUNTER,
    .labels = {"outcome"},
};

static struct df_metric_family seconds_family = {
    .name = "dataflow_http_client_seconds",
    .help = "Duration of calls to other systems, waiting in line included",
    .type = DF_HISTOGRAM,
    DF_METRIC_SECONDS,
};

static struct df_metric_family in_flight_family = {
    .name = "dataflow_http_client_in_flight",
    .help = "Calls to other systems that are on the wire",
    .type = DF_GAUGE,
};

/* Which client's thread this is: a `done` that sends need not wake it. */
static _Thread_local const struct client_thread *this_thread;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode global_result;

static void init_once(void)
{
    global_result = curl_global_init(CURL_GLOBAL_DEFAULT);
    df_metric_register(&requests_family);
    df_metric_register(&seconds_family);
    df_metric_register(&in_flight_family);
}

/* --- the end of a call --- */

static enum outcome outcome_of(const struct df_call *call)
{
    if (call->code == DF_OK)
        return call->status >= 500   ? OUT_5XX
               : call->status >= 400 ? OUT_4XX
               : call->status >= 300 ? OUT_3XX
                                     : OUT_2XX;
    static const struct {
        enum df_code code;
        enum outcome outcome;
    } rows[] = {
        {DF_E_NET_RESOLVE, OUT_RESOLVE}, {DF_E_NET_CONNECT, OUT_CONNECT},
        {DF_E_NET_TLS, OUT_TLS},         {DF_E_NET_TIMEOUT, OUT_TIMEOUT},
        {DF_E_BAD_REQUEST, OUT_INVALID}, {DF_E_TARGET_REFUSED, OUT_REFUSED},
        {DF_E_CANCELLED, OUT_CANCELLED},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].code == call->code)
            return rows[i].outcome;
    return OUT_ERROR;
}

/* The call may be gone when this returns. */
static void hand_back(struct client_thread *t, struct df_call *call)
{
    struct df_http_client *c = t->client;
    int64_t ns = df_mono_ns(df_clock_real()) - call->sent_ns;

    call->duration_ms = ns / 1000000;
    call->internal = NULL;
    df_metric_add(c->requests[outcome_of(call)], 1);
    df_metric_observe(c->seconds, (double)ns / 1e9);
    t->handed_back++;
    call->done(call);
}

/* Gives back the place that a started call has. */
static void leave_place(struct client_thread *t, struct df_call *call)
{
    struct df_http_client *c = t->client;

    df_lock(&c->lock);
    df_lines_leave(&c->lines, call);
    c->in_flight--;
    t->sleeps = false;
    df_unlock(&c->lock);
}

/* Ends a call that has no transfer with the error in *err. */
static void fail_call(struct client_thread *t, struct df_call *call, const struct df_err *err)
{
    call->code = err->code;
    call->fault = DF_FAULT_OURS;
    call->err = *err;
    call->status = 0;
    df_buf_init(&call->answer, 0);
    call->answer_cut = false;
    call->content_type = DF_STR_NULL;
    call->answer_headers = NULL;
    call->answer_header_count = 0;
    call->retry_after_ms = -1;
    call->maybe_sent = false;
    hand_back(t, call);
}

static void finish_transfer(struct client_thread *t, struct df_transfer *tr, CURLcode result,
                            bool cancelled)
{
    struct df_http_client *c = t->client;
    struct df_call *call = df_transfer_call(tr);

    (void)curl_multi_remove_handle(t->sockets.multi, df_transfer_easy(tr));
    df_transfer_end(tr, result, df_lines_destination(call));
    if (cancelled) {
        call->code = df_err_set(&call->err, DF_E_CANCELLED, STOPPED);
        call->fault = DF_FAULT_OURS;
    }
    leave_place(t, call);
    df_metric_add(c->active, -1);
    hand_back(t, call);
    df_transfer_recycle(tr);
    t->idle[t->idle_count++] = tr;
}

/* --- the lines, under the lock --- */

static void wake_thread(struct client_thread *t)
{
    if (!t->sleeps || t == this_thread)
        return;
    t->sleeps = false;
    df_sockets_wake(&t->sockets);
}

static struct client_thread *thread_of(struct df_http_client *c, const struct df_call *call)
{
    return &c->threads[df_lines_destination_number(call) % c->thread_count];
}

static void start_calls(struct df_http_client *c) DF_REQUIRES(c->lock)
{
    struct df_call *call;

    while (c->in_flight < c->transfer_max && (call = df_lines_next(&c->lines))) {
        struct client_thread *t = thread_of(c, call);
        c->in_flight++;
        df_list_add(&t->started, &call->link);
        wake_thread(t);
    }
}

static void end_call(struct client_thread *t, struct df_call *call)
{
    df_list_add(&t->ended, &call->link);
    wake_thread(t);
}

static void expire_calls(struct df_http_client *c, int64_t now_ns) DF_REQUIRES(c->lock)
{
    struct df_call *call;

    while ((call = df_lines_expired(&c->lines, now_ns))) {
        call->err = DF_ERR_INIT;
        if (c->stopping)
            (void)df_err_set(&call->err, DF_E_CANCELLED, STOPPED);
        else
            (void)df_err_set(&call->err, DF_E_NET_TIMEOUT,
                             "%s: the time was up before there was room to send",
                             df_lines_destination(call));
        end_call(thread_of(c, call), call);
    }
}

static void wake_all(struct df_http_client *c) DF_REQUIRES(c->lock)
{
    for (size_t i = 0; i < c->thread_count; i++)
        wake_thread(&c->threads[i]);
}

/* --- the beginning of a call --- */

static struct df_transfer *idle_transfer(struct client_thread *t)
{
    if (t->idle_count > 0)
        return t->idle[--t->idle_count];
    assert(t->transfer_count < t->client->transfer_max);
    struct df_transfer *tr = df_transfer_new(&t->transfer_options);
    if (!tr)
        df_oom();
    t->transfers[t->transfer_count++] = tr;
    return tr;
}

static void begin_call(struct client_thread *t, struct df_call *call, int64_t now_ns)
{
    struct df_transfer *tr = idle_transfer(t);
    struct df_err err = DF_ERR_INIT;
    int64_t left_ms = (call->deadline_ns - now_ns + 999999) / 1000000;
    enum df_code code = df_transfer_begin(tr, call, left_ms > 0 ? left_ms : 1, &err);

    if (code == DF_OK) {
        CURLMcode m = curl_multi_add_handle(t->sockets.multi, df_transfer_easy(tr));
        if (m != CURLM_OK)
            code = df_err_set(&err, DF_E_NET, "libcurl: %s", curl_multi_strerror(m));
    }
    if (code == DF_OK) {
        df_metric_add(t->client->active, 1);
        return;
    }
    leave_place(t, call);
    fail_call(t, call, &err);
    df_transfer_recycle(tr);
    t->idle[t->idle_count++] = tr;
}

/* --- a thread --- */

/* What a thread finds at the beginning of a turn. */
struct turn {
    struct df_list started;
    struct df_list ended;
    int64_t wait_ms; /* it may sleep so long; 0: it has calls */
    bool stopping;
    bool over; /* the thread is to end */
};

/* How long the thread may sleep. The first is up in time for calls that expire in line. */
static int64_t decide_wait(struct df_http_client *c, const struct client_thread *t, int64_t now_ns)
    DF_REQUIRES(c->lock)
{
    int64_t ms = SLEEP_MAX_MS;

    if (t != &c->threads[0])
        return ms;
    c->looks_ns = df_lines_deadline_ns(&c->lines);
    if (c->looks_ns != INT64_MAX && c->looks_ns - now_ns < ms * 1000000)
        ms = (c->looks_ns - now_ns) / 1000000 + 1;
    return ms;
}

static void begin_turn(struct client_thread *t, struct turn *turn)
{
    struct df_http_client *c = t->client;
    int64_t now_ns = df_mono_ns(df_clock_real());

    *turn = (struct turn){0};
    df_lock(&c->lock);
    c->calls -= t->handed_back;
    if (c->calls == 0 && c->stopping && t->handed_back > 0)
        (void)pthread_cond_broadcast(&c->became_empty);
    t->handed_back = 0;
    if (t == &c->threads[0])
        expire_calls(c, now_ns);
    start_calls(c);
    df_list_move(&turn->started, &t->started);
    df_list_move(&turn->ended, &t->ended);
    turn->stopping = c->stopping;
    turn->over = c->ending && c->calls == 0;
    if (turn->over)
        wake_all(c);
    if (turn->started.count == 0 && turn->ended.count == 0)
        turn->wait_ms = decide_wait(c, t, now_ns);
    t->sleeps = turn->wait_ms > 0;
    df_unlock(&c->lock);

    struct df_call *call;
    while ((call = DF_LIST_TAKE(&turn->ended, struct df_call, link))) {
        struct df_err err = call->err;
        fail_call(t, call, &err);
    }
    while (!turn->stopping && (call = DF_LIST_TAKE(&turn->started, struct df_call, link)))
        begin_call(t, call, now_ns);
}

static void cancel_calls(struct client_thread *t, struct turn *turn)
{
    struct df_err err = DF_ERR_INIT;
    struct df_call *call;

    (void)df_err_set(&err, DF_E_CANCELLED, STOPPED);
    while ((call = DF_LIST_TAKE(&turn->started, struct df_call, link))) {
        leave_place(t, call);
        fail_call(t, call, &err);
    }
    for (size_t i = 0; i < t->transfer_count; i++)
        if (df_transfer_call(t->transfers[i]))
            finish_transfer(t, t->transfers[i], CURLE_ABORTED_BY_CALLBACK, true);
}

static void finish_transfers(struct client_thread *t)
{
    int left = 0;
    CURLMsg *msg;

    while ((msg = curl_multi_info_read(t->sockets.multi, &left)))
        if (msg->msg == CURLMSG_DONE)
            finish_transfer(t, df_transfer_of(msg->easy_handle), msg->data.result, false);
}

/* A thread keeps its share of all connections open, and more while it uses more. */
static void limit_connections(struct client_thread *t)
{
    size_t busy = t->transfer_count - t->idle_count;
    size_t share = t->client->transfer_max / t->client->thread_count;
    size_t most = busy > share ? busy : share;

    if (most != t->connections)
        (void)curl_multi_setopt(t->sockets.multi, CURLMOPT_MAXCONNECTS, (long)most);
    t->connections = most;
}

static void run_client(void *arg)
{
    struct client_thread *t = arg;
    struct turn turn;

    this_thread = t;
    for (;;) {
        begin_turn(t, &turn);
        if (turn.over)
            return;
        if (turn.stopping) {
            cancel_calls(t, &turn);
            if (t->handed_back > 0)
                continue;
        }
        limit_connections(t);
        df_sockets_run(&t->sockets, turn.wait_ms);
        finish_transfers(t);
    }
}

/* --- the outside --- */

void df_http_client_send(struct df_http_client *c, struct df_call *call)
{
    int64_t timeout_ms = call->timeout_ms > 0 ? call->timeout_ms : TIMEOUT_DEFAULT_MS;
    struct df_err err = DF_ERR_INIT;
    struct df_url url;

    if (timeout_ms > TIMEOUT_MAX_MS)
        timeout_ms = TIMEOUT_MAX_MS;
    call->sent_ns = df_mono_ns(df_clock_real());
    call->deadline_ns = call->sent_ns + timeout_ms * 1000000;
    enum df_code code = df_transfer_check(call, &url, &err);

    df_lock(&c->lock);
    c->calls++;
    if (code != DF_OK) {
        call->err = err;
        end_call(&c->threads[0], call);
    } else {
        df_lines_add(&c->lines, call, &url);
        if (c->stopping)
            expire_calls(c, INT64_MAX);
        else
            start_calls(c);
        if (df_lines_deadline_ns(&c->lines) < c->looks_ns)
            wake_thread(&c->threads[0]);
    }
    df_unlock(&c->lock);
}

static void release_client(struct df_http_client *c)
{
    for (size_t i = 0; i < c->thread_count; i++) {
        struct client_thread *t = &c->threads[i];
        for (size_t n = 0; n < t->transfer_count; n++)
            df_transfer_free(t->transfers[n]);
        free(t->transfers);
        free(t->idle);
        df_sockets_close(&t->sockets);
    }
    df_lines_release(&c->lines);
    (void)pthread_cond_destroy(&c->became_empty);
    df_mutex_destroy(&c->lock);
    free(c->ca_file);
    free(c->user_agent);
    free(c);
}

static int64_t or_default(int64_t value, int64_t def)
{
    return value > 0 ? value : def;
}

static struct df_http_client *make_client(const struct df_http_client_options *opt)
{
    struct df_http_client *c = df_calloc(1, sizeof(*c));
    int64_t in_flight = or_default(opt->max_in_flight, 256);

    c->transfer_max = (size_t)(in_flight < IN_FLIGHT_MAX ? in_flight : IN_FLIGHT_MAX);
    df_lines_init(&c->lines, c->transfer_max, (size_t)or_default(opt->max_per_destination, 64));
    c->looks_ns = INT64_MAX;
    df_mutex_init(&c->lock);
    df_cond_init(&c->became_empty);
    c->ca_file = df_strdup(df_str_c(opt->ca_file));
    c->user_agent = df_strdup(df_str_c(opt->user_agent ? opt->user_agent : "DataFlow"));
    for (size_t i = 0; i < OUT_COUNT; i++)
        c->requests[i] = df_metric_get(&requests_family, &outcome_names[i]);
    c->seconds = df_metric_get(&seconds_family, NULL);
    c->active = df_metric_get(&in_flight_family, NULL);
    return c;
}

static bool make_thread(struct df_http_client *c, const struct df_http_client_options *opt)
{
    struct client_thread *t = &c->threads[c->thread_count++];

    t->client = c;
    t->transfers = df_calloc(c->transfer_max, sizeof(struct df_transfer *));
    t->idle = df_calloc(c->transfer_max, sizeof(struct df_transfer *));
    t->transfer_options = (struct df_transfer_options){
        .connect_timeout_ms = (long)or_default(opt->connect_timeout_ms, 5000),
        .ca_file = c->ca_file,
        .user_agent = c->user_agent,
        .http2 = opt->http2,
        .clock = opt->clock ? opt->clock : df_clock_real(),
        .sockets = &t->sockets,
    };
    return df_sockets_open(&t->sockets) && curl_multi_setopt(t->sockets.multi, CURLMOPT_PIPELINING,
                                                             (long)CURLPIPE_MULTIPLEX) == CURLM_OK;
}

enum df_code df_http_client_new(const struct df_http_client_options *opt,
                                struct df_http_client **ret, struct df_err *err)
{
    (void)pthread_once(&once, init_once);
    if (global_result != CURLE_OK)
        return df_err_set(err, DF_E_INTERNAL, "libcurl: %s", curl_easy_strerror(global_result));
    if (opt->ca_file && access(opt->ca_file, R_OK) != 0) {
        (void)df_err_errno(err, "%s", opt->ca_file);
        if (err)
            err->code = DF_E_CONFIG;
        return DF_E_CONFIG;
    }

    struct df_http_client *c = make_client(opt);
    int64_t threads = or_default(opt->threads, 1);
    while (c->thread_count < (size_t)threads && c->thread_count < THREADS_MAX) {
        if (!make_thread(c, opt)) {
            enum df_code code = df_err_errno(err, "the HTTP client");
            release_client(c);
            return code;
        }
    }
    /* libcurl's own threads start from these. */
    for (size_t i = 0; i < c->thread_count; i++)
        df_thread_start(&c->threads[i].thread, "df-http-client", run_client, &c->threads[i]);
    *ret = c;
    return DF_OK;
}

static void stop_client(struct df_http_client *c) DF_REQUIRES(c->lock)
{
    assert(!this_thread || this_thread->client != c);
    c->stopping = true;
    expire_calls(c, INT64_MAX);
    wake_all(c);
}

void df_http_client_stop(struct df_http_client *c)
{
    if (!c)
        return;
    df_lock(&c->lock);
    stop_client(c);
    while (c->calls > 0)
        df_cond_wait(&c->became_empty, &c->lock);
    df_unlock(&c->lock);
}

void df_http_client_free(struct df_http_client *c)
{
    if (!c)
        return;
    df_lock(&c->lock);
    stop_client(c);
    c->ending = true;
    df_unlock(&c->lock);
    for (size_t i = 0; i < c->thread_count; i++)
        df_thread_join(&c->threads[i].thread);
    release_client(c);
}
