/*
 * The client's thread owns the CURLM, every easy handle, the lines and the deadlines. Other threads
 * only append to `incoming` under the lock. One turn of the loop: take incoming calls, put them in
 * line, fail those past their deadline, start those that may start, let libcurl work, finish those
 * that are done, sleep.
 *
 * A sender wakes the thread only when `incoming` was empty: otherwise another sender has woken it
 * already. The wake-up happens under the lock, so that the client can be freed as soon as a call is
 * done, without a sender still inside it.
 *
 * Once the client is stopped, a turn only cancels all calls. The thread goes on until the client is
 * freed, so that late calls are ended too.
 */
#include "net/client.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/pool.h"
#include "net/lines.h"
#include "net/transfer.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define IN_FLIGHT_MAX      4096
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

struct df_http_client {
    struct df_transfer_options transfer_options;
    char *ca_file;
    char *user_agent;
    CURLM *multi;
    struct df_thread thread;

    struct df_mutex lock;
    struct df_list incoming DF_GUARDED_BY(lock);
    bool stopping DF_GUARDED_BY(lock); /* calls are cancelled */
    bool ending DF_GUARDED_BY(lock);   /* the thread is to end */
    bool is_empty DF_GUARDED_BY(lock); /* stopping, and no call is left */
    pthread_cond_t became_empty;

    /* Used by the client's thread only. */
    struct df_lines lines;
    struct df_transfer **transfers; /* created on demand */
    size_t transfer_count;
    size_t transfer_max;
    struct df_transfer **idle; /* a stack */
    size_t idle_count;
    bool sent_here; /* a `done` sent something: look again before sleeping */

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

/* The client whose thread this is: a `done` that sends needs to wake no thread. */
static _Thread_local const struct df_http_client *on_thread_of;

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
static void hand_back(struct df_http_client *c, struct df_call *call)
{
    int64_t ns = df_mono_ns(df_clock_real()) - call->sent_ns;

    call->duration_ms = ns / 1000000;
    call->internal = NULL;
    df_metric_add(c->requests[outcome_of(call)], 1);
    df_metric_observe(c->seconds, (double)ns / 1e9);
    call->done(call);
}

/* Ends a call that has no transfer with the error in *err. */
static void fail_call(struct df_http_client *c, struct df_call *call, const struct df_err *err)
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
    hand_back(c, call);
}

static void finish_transfer(struct df_http_client *c, struct df_transfer *t, CURLcode result,
                            bool cancelled)
{
    struct df_call *call = df_transfer_call(t);

    (void)curl_multi_remove_handle(c->multi, df_transfer_easy(t));
    df_transfer_end(t, result, df_lines_destination(call));
    if (cancelled) {
        call->code = df_err_set(&call->err, DF_E_CANCELLED, STOPPED);
        call->fault = DF_FAULT_OURS;
    }
    df_lines_leave(&c->lines, call);
    df_metric_add(c->active, -1);
    hand_back(c, call);
    df_transfer_recycle(t);
    c->idle[c->idle_count++] = t;
}

/* --- the beginning of a call --- */

static bool take_incoming(struct df_http_client *c, struct df_list *to)
{
    df_lock(&c->lock);
    df_list_move(to, &c->incoming);
    c->sent_here = false;
    bool stopping = c->stopping;
    df_unlock(&c->lock);
    return stopping;
}

static void admit_calls(struct df_http_client *c, struct df_list *calls)
{
    struct df_call *call;

    while ((call = DF_LIST_TAKE(calls, struct df_call, link))) {
        struct df_err err = DF_ERR_INIT;
        struct df_url url;

        if (df_transfer_check(call, &url, &err) == DF_OK)
            df_lines_add(&c->lines, call, &url);
        else
            fail_call(c, call, &err);
    }
}

static void expire_calls(struct df_http_client *c, int64_t now_ns)
{
    struct df_call *call;

    while ((call = df_lines_expired(&c->lines, now_ns))) {
        struct df_err err = DF_ERR_INIT;
        (void)df_err_set(&err, DF_E_NET_TIMEOUT,
                         "%s: the time was up before there was room to send",
                         df_lines_destination(call));
        fail_call(c, call, &err);
    }
}

static struct df_transfer *idle_transfer(struct df_http_client *c)
{
    if (c->idle_count > 0)
        return c->idle[--c->idle_count];
    if (c->transfer_count == c->transfer_max)
        return NULL;
    struct df_transfer *t = df_transfer_new(&c->transfer_options);
    if (!t)
        df_oom();
    c->transfers[c->transfer_count++] = t;
    return t;
}

/* Starts the next call; false when none may start. */
static bool start_one(struct df_http_client *c, int64_t now_ns)
{
    struct df_transfer *t = idle_transfer(c);
    if (!t)
        return false;
    struct df_call *call = df_lines_next(&c->lines);
    if (!call) {
        c->idle[c->idle_count++] = t;
        return false;
    }

    struct df_err err = DF_ERR_INIT;
    int64_t left_ms = (call->deadline_ns - now_ns + 999999) / 1000000;
    enum df_code code = df_transfer_begin(t, call, left_ms > 0 ? left_ms : 1, &err);
    if (code == DF_OK) {
        CURLMcode m = curl_multi_add_handle(c->multi, df_transfer_easy(t));
        if (m != CURLM_OK)
            code = df_err_set(&err, DF_E_NET, "libcurl: %s", curl_multi_strerror(m));
    }
    if (code == DF_OK) {
        df_metric_add(c->active, 1);
        return true;
    }
    df_lines_leave(&c->lines, call);
    fail_call(c, call, &err);
    df_transfer_recycle(t);
    c->idle[c->idle_count++] = t;
    return true;
}

/* --- the thread --- */

static bool finish_transfers(struct df_http_client *c)
{
    bool any = false;
    int left = 0;
    CURLMsg *msg;

    while ((msg = curl_multi_info_read(c->multi, &left))) {
        if (msg->msg != CURLMSG_DONE)
            continue;
        any = true;
        finish_transfer(c, df_transfer_of(msg->easy_handle), msg->data.result, false);
    }
    return any;
}

static void wait_for_work(struct df_http_client *c)
{
    int64_t ms = SLEEP_MAX_MS;
    int64_t deadline_ns = df_lines_deadline_ns(&c->lines);

    if (deadline_ns != INT64_MAX) {
        int64_t left = (deadline_ns - df_mono_ns(df_clock_real())) / 1000000 + 1;
        if (left < 0)
            left = 0;
        if (left < ms)
            ms = left;
    }
    CURLMcode m = curl_multi_poll(c->multi, NULL, 0, (int)ms, NULL);
    if (m != CURLM_OK) {
        df_log_error("HttpClientPollFailed", "libcurl: %s", curl_multi_strerror(m));
        (void)usleep(10000);
    }
}

/* Repeats until no call comes in, since a `done` may send again. */
static void cancel_all(struct df_http_client *c, struct df_list *incoming)
{
    struct df_err err = DF_ERR_INIT;

    (void)df_err_set(&err, DF_E_CANCELLED, STOPPED);
    for (size_t i = 0; i < c->transfer_count; i++)
        if (df_transfer_call(c->transfers[i]))
            finish_transfer(c, c->transfers[i], CURLE_ABORTED_BY_CALLBACK, true);
    struct df_call *call;
    while ((call = df_lines_expired(&c->lines, INT64_MAX)))
        fail_call(c, call, &err);
    do {
        while ((call = DF_LIST_TAKE(incoming, struct df_call, link)))
            fail_call(c, call, &err);
        (void)take_incoming(c, incoming);
    } while (incoming->count > 0);
}

/* All calls were cancelled: wakes df_http_client_stop, unless more have come. True: the thread
 * ends. */
static bool tell_empty(struct df_http_client *c)
{
    df_lock(&c->lock);
    if (c->incoming.count == 0) {
        c->is_empty = true;
        (void)pthread_cond_broadcast(&c->became_empty);
    }
    bool end = c->is_empty && c->ending;
    df_unlock(&c->lock);
    return end;
}

static void run_client(void *arg)
{
    struct df_http_client *c = arg;
    struct df_list came = {.count = 0};

    on_thread_of = c;
    for (;;) {
        int running;
        if (take_incoming(c, &came)) {
            cancel_all(c, &came);
            if (tell_empty(c))
                return;
            wait_for_work(c);
            continue;
        }
        admit_calls(c, &came);
        int64_t now_ns = df_mono_ns(df_clock_real());
        expire_calls(c, now_ns);
        while (start_one(c, now_ns))
            ;
        CURLMcode m = curl_multi_perform(c->multi, &running);
        if (m != CURLM_OK)
            df_log_error("HttpClientFailed", "libcurl: %s", curl_multi_strerror(m));
        /* A finished call makes room for others: look again before sleeping. */
        if (!finish_transfers(c) && !c->sent_here)
            wait_for_work(c);
    }
}

/* --- the outside --- */

void df_http_client_send(struct df_http_client *c, struct df_call *call)
{
    int64_t timeout_ms = call->timeout_ms > 0 ? call->timeout_ms : TIMEOUT_DEFAULT_MS;

    if (timeout_ms > TIMEOUT_MAX_MS)
        timeout_ms = TIMEOUT_MAX_MS;
    call->sent_ns = df_mono_ns(df_clock_real());
    call->deadline_ns = call->sent_ns + timeout_ms * 1000000;

    df_lock(&c->lock);
    bool was_empty = c->incoming.count == 0;
    df_list_add(&c->incoming, &call->link);
    c->is_empty = false;
    if (on_thread_of == c)
        c->sent_here = true;
    else if (was_empty)
        (void)curl_multi_wakeup(c->multi);
    df_unlock(&c->lock);
}

static void release_client(struct df_http_client *c)
{
    for (size_t i = 0; i < c->transfer_count; i++)
        df_transfer_free(c->transfers[i]);
    free(c->transfers);
    free(c->idle);
    df_lines_release(&c->lines);
    if (c->multi)
        (void)curl_multi_cleanup(c->multi);
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
    c->transfers = df_calloc(c->transfer_max, sizeof(struct df_transfer *));
    c->idle = df_calloc(c->transfer_max, sizeof(struct df_transfer *));
    df_lines_init(&c->lines, c->transfer_max, (size_t)or_default(opt->max_per_destination, 64));
    df_mutex_init(&c->lock);
    df_cond_init(&c->became_empty);
    c->ca_file = df_strdup(df_str_c(opt->ca_file));
    c->user_agent = df_strdup(df_str_c(opt->user_agent ? opt->user_agent : "DataFlow"));
    c->transfer_options = (struct df_transfer_options){
        .connect_timeout_ms = (long)or_default(opt->connect_timeout_ms, 5000),
        .ca_file = c->ca_file,
        .user_agent = c->user_agent,
        .http2 = opt->http2,
        .clock = opt->clock ? opt->clock : df_clock_real(),
    };
    for (size_t i = 0; i < OUT_COUNT; i++)
        c->requests[i] = df_metric_get(&requests_family, &outcome_names[i]);
    c->seconds = df_metric_get(&seconds_family, NULL);
    c->active = df_metric_get(&in_flight_family, NULL);
    return c;
}

static bool make_multi(struct df_http_client *c)
{
    c->multi = curl_multi_init();
    if (!c->multi)
        return false;
    return curl_multi_setopt(c->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX) == CURLM_OK &&
           curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)c->transfer_max) == CURLM_OK;
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
    if (!make_multi(c)) {
        release_client(c);
        return df_err_set(err, DF_E_INTERNAL, "libcurl gave no multi handle");
    }
    df_thread_start(&c->thread, "df-http-client", run_client,
                    c); /* libcurl's own threads start from it */
    *ret = c;
    return DF_OK;
}

void df_http_client_stop(struct df_http_client *c)
{
    if (!c)
        return;
    assert(on_thread_of != c);
    df_lock(&c->lock);
    c->stopping = true;
    (void)curl_multi_wakeup(c->multi);
    while (!c->is_empty)
        df_cond_wait(&c->became_empty, &c->lock);
    df_unlock(&c->lock);
}

void df_http_client_free(struct df_http_client *c)
{
    if (!c)
        return;
    assert(on_thread_of != c);
    df_lock(&c->lock);
    c->stopping = c->ending = true;
    (void)curl_multi_wakeup(c->multi);
    df_unlock(&c->lock);
    df_thread_join(&c->thread);
    release_client(c);
}
