/*
 * A call's way, and who has it:
 *
 *     send ──► in line ──────► started ──► on a wire ► done
 *      │ refused  │ expired                              ▲
 *      │          │ cancelled                            │
 *      └──────────┴──────────► ended ────────────────────┘
 *      the client's lock       a thread's lists          that thread
 *
 * All threads share one set of lines, under the client's lock, so that shares and limits hold for
 * the client as a whole. Whoever changes the lines (a sender, or a thread at each turn of its loop)
 * hands the calls that may start to the threads of their destinations. A thread has a CURLM and
 * wires (connections, wire.h) of its own. A call takes an idle wire of its destination, the last
 * used first, or dials.
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
#include "net/call.h"
#include "net/lines.h"
#include "net/security.h"
#include "net/sockets.h"
#include "net/wire.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#define IN_FLIGHT_MAX      4096
#define THREADS_MAX        8
#define TIMEOUT_DEFAULT_MS 30000
#define TIMEOUT_MAX_MS     ((int64_t)24 * 3600 * 1000)
#define SLEEP_MAX_MS       60000
#define IDLE_BUCKETS       64
#define IDLE_MAX_NS        INT64_C(110000000000) /* peers and middleboxes forget idle connections */
#define STOPPED            "the client was stopped"
#define CUT_OFF            "the caller gave it up"

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
    struct df_wire_options wire_options;

    /* Guarded by the client's lock. */
    struct df_list started; /* calls that have a place */
    struct df_list ended;   /* calls that have none: `err` says why */
    bool sleeps;            /* it takes no call before it is woken */
    bool cuts;              /* some of its calls were given up */

    /* Used by the thread only. */
    struct df_wire **wires; /* created on demand */
    size_t wire_count;
    struct df_wire **spare; /* a stack of those without a connection */
    size_t spare_count;
    struct df_list idle[IDLE_BUCKETS]; /* by destination, the last used first */
    struct df_list resting;            /* all idle ones, the oldest first */
    int64_t due_ns;                    /* no exchange's time is up before */
    size_t handed_back;                /* calls, since the thread had the lock */
};

struct df_http_client {
    char *user_agent;
    size_t wire_max; /* calls on their way, of all threads; and wires of one */
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

DF_METRIC_FAMILY(requests_family) = {
    .name = "dataflow_http_client_requests_total",
    .help = "Calls to others, by outcome.",
    .type = DF_COUNTER,
    .labels = {"outcome"},
};

DF_METRIC_FAMILY(seconds_family) = {
    .name = "dataflow_http_client_seconds",
    .help = "Duration of calls to other systems, waiting in line included",
    .type = DF_HISTOGRAM,
    DF_METRIC_SECONDS,
};

DF_METRIC_FAMILY(in_flight_family) = {
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
    int64_t ns = df_boot_ns(df_clock_real()) - call->sent_ns;

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
    call->maybe_sent = call->was_sent;
    hand_back(t, call);
}

/* --- wires --- */

static void put_aside(struct client_thread *t, struct df_wire *w)
{
    df_wire_hang_up(w);
    t->spare[t->spare_count++] = w;
}

static void take_from_rest(struct client_thread *t, struct df_wire *w)
{
    assert(w);
    df_list_remove(&t->idle[w->destination % IDLE_BUCKETS], &w->link);
    df_list_remove(&t->resting, &w->age);
}

static void end_rest(struct client_thread *t, struct df_wire *w)
{
    take_from_rest(t, w);
    put_aside(t, w);
}

/* A thread keeps its share of all connections open. */
static void rest_wire(struct client_thread *t, struct df_wire *w)
{
    df_wire_rest(w);
    df_list_add_first(&t->idle[w->destination % IDLE_BUCKETS], &w->link);
    df_list_add(&t->resting, &w->age);
    if (t->resting.count > t->client->wire_max / t->client->thread_count)
        end_rest(t, DF_LIST_FIRST(&t->resting, struct df_wire, age));
}

static void close_old(struct client_thread *t, int64_t now_ns)
{
    struct df_wire *w;

    while ((w = DF_LIST_FIRST(&t->resting, struct df_wire, age)) &&
           now_ns - w->idle_since_ns > IDLE_MAX_NS)
        end_rest(t, w);
}

/* An idle connection to the call's destination; NULL: there is none. A connection to a private
 * address must not serve a call that may not dial one. */
static struct df_wire *find_idle(struct client_thread *t, const struct df_call *call)
{
    size_t destination = df_lines_destination_number(call);
    struct df_list *bucket = &t->idle[destination % IDLE_BUCKETS];
    struct df_wire *w, *next;

    for (w = DF_LIST_FIRST(bucket, struct df_wire, link); w; w = next) {
        next = DF_LIST_NEXT(w, bucket, link);
        if (w->destination != destination || (!call->allow_private && !w->is_public))
            continue;
        bool trusted = !w->is_tls || w->dialled_ms >= df_security_reloaded_ms();
        if (trusted && !df_wire_is_stale(w)) {
            take_from_rest(t, w);
            return w;
        }
        end_rest(t, w); /* closed, or verified by authorities that are not trusted any more */
    }
    return NULL;
}

static struct df_wire *spare_wire(struct client_thread *t)
{
    if (t->spare_count == 0 && t->wire_count == t->client->wire_max)
        end_rest(t, DF_LIST_FIRST(&t->resting, struct df_wire, age)); /* not all are exchanging */
    if (t->spare_count > 0)
        return t->spare[--t->spare_count];
    struct df_wire *w = df_wire_new(&t->wire_options);
    if (!w)
        df_oom();
    t->wires[t->wire_count++] = w;
    return w;
}

/* The call has its answer, or the reason why there is none. */
static void finish_call(struct client_thread *t, struct df_wire *w)
{
    struct df_call *call = w->call;
    bool keeps = df_wire_keeps(w);

    leave_place(t, call);
    df_metric_add(t->client->active, -1);
    hand_back(t, call);
    if (keeps)
        rest_wire(t, w);
    else
        put_aside(t, w);
}

static void break_off(struct client_thread *t, struct df_wire *w, const struct df_wire_failure *f)
{
    df_wire_fail(w, f, df_lines_destination(w->call));
    finish_call(t, w);
}

static void dial(struct client_thread *t, struct df_call *call)
{
    struct df_wire *w = spare_wire(t);
    struct df_err err = DF_ERR_INIT;
    int64_t left_ms = (call->deadline_ns - df_boot_ns(df_clock_real()) + 999999) / 1000000;

    w->destination = df_lines_destination_number(call);
    if (df_wire_dial(w, call, left_ms > 0 ? left_ms : 1, &err) == DF_OK)
        return;
    df_metric_add(t->client->active, -1);
    leave_place(t, call);
    fail_call(t, call, &err);
    put_aside(t, w);
}

/* The connection was closed while it was idle, or at the moment of sending. */
static void send_anew(struct client_thread *t, struct df_wire *w)
{
    struct df_call *call = w->call;

    if (!w->is_repeatable && w->sent > 0) {
        break_off(t, w, &(struct df_wire_failure){.unsafe = true});
        return;
    }
    call->was_sent = call->was_sent || w->sent > 0;
    put_aside(t, w);
    dial(t, call);
}

static void take_step(struct client_thread *t, struct df_wire *w, enum df_wire_step step)
{
    switch (step) {
    case DF_WIRE_WAITS:
        if (w->deadline_ns < t->due_ns)
            t->due_ns = w->deadline_ns;
        break;
    case DF_WIRE_ANSWERED:
        df_wire_fill(w);
        finish_call(t, w);
        break;
    case DF_WIRE_STALE:
        send_anew(t, w);
        break;
    case DF_WIRE_BROKEN:
        break_off(t, w, &(struct df_wire_failure){.result = w->result});
        break;
    }
}

static void on_ready(void *owner, bool peer_closed)
{
    struct df_wire *w = owner;
    struct client_thread *t = w->opt->arg;

    if (w->state == DF_WIRE_EXCHANGING)
        take_step(t, w, df_wire_go_on(w, peer_closed));
    else if (w->state == DF_WIRE_IDLE && (peer_closed || df_wire_has_unasked(w)))
        end_rest(t, w);
}

static void end_late(struct client_thread *t)
{
    int64_t now_ns = df_boot_ns(df_clock_real());

    if (now_ns < t->due_ns)
        return;
    t->due_ns = INT64_MAX;
    for (size_t i = 0; i < t->wire_count; i++) {
        struct df_wire *w = t->wires[i];
        if (w->state != DF_WIRE_EXCHANGING)
            continue;
        if (w->deadline_ns <= now_ns)
            break_off(t, w, &(struct df_wire_failure){.timed_out = true});
        else if (w->deadline_ns < t->due_ns)
            t->due_ns = w->deadline_ns;
    }
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

    while (c->in_flight < c->wire_max && (call = df_lines_next(&c->lines))) {
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

static void begin_call(struct client_thread *t, struct df_call *call)
{
    if (df_call_is_cut(call)) {
        struct df_err err = DF_ERR_INIT;
        (void)df_err_set(&err, DF_E_CANCELLED, CUT_OFF);
        leave_place(t, call);
        fail_call(t, call, &err);
        return;
    }
    struct df_wire *w = find_idle(t, call);

    df_metric_add(t->client->active, 1);
    if (w)
        take_step(t, w, df_wire_begin(w, call));
    else
        dial(t, call);
}

/* --- a thread --- */

/* What a thread finds at the beginning of a turn. */
struct turn {
    struct df_list started;
    struct df_list ended;
    int64_t wait_ms; /* it may sleep so long; 0: it has calls */
    bool stopping;
    bool cuts;
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
    int64_t now_ns = df_boot_ns(df_clock_real());

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
    turn->cuts = t->cuts;
    t->cuts = false;
    turn->over = c->ending && c->calls == 0;
    if (turn->over)
        wake_all(c);
    if (turn->started.count == 0 && turn->ended.count == 0)
        turn->wait_ms = decide_wait(c, t, now_ns);
    t->sleeps = turn->wait_ms > 0;
    df_unlock(&c->lock);

    close_old(t, now_ns);
    struct df_call *call;
    while ((call = DF_LIST_TAKE(&turn->ended, struct df_call, link))) {
        struct df_err err = call->err;
        fail_call(t, call, &err);
    }
    while (!turn->stopping && (call = DF_LIST_TAKE(&turn->started, struct df_call, link)))
        begin_call(t, call);
}

/* All of them if the client stops, else those that were given up. */
static void cancel_calls(struct client_thread *t, struct turn *turn)
{
    struct df_err err = DF_ERR_INIT;
    struct df_call *call;

    (void)df_err_set(&err, DF_E_CANCELLED, turn->stopping ? STOPPED : CUT_OFF);
    while ((call = DF_LIST_TAKE(&turn->started, struct df_call, link))) {
        leave_place(t, call);
        fail_call(t, call, &err);
    }
    for (size_t i = 0; i < t->wire_count; i++) {
        struct df_wire *w = t->wires[i];
        if (!w->call || (!turn->stopping && !df_call_is_cut(w->call)))
            continue;
        df_wire_fail(w, &(struct df_wire_failure){0}, "");
        w->call->err = err;
        w->call->code = err.code;
        w->call->fault = DF_FAULT_OURS;
        finish_call(t, w);
    }
}

/* What came of dialling. */
static void take_dialled(struct client_thread *t)
{
    int left = 0;
    CURLMsg *msg;

    while ((msg = curl_multi_info_read(t->sockets.multi, &left))) {
        if (msg->msg != CURLMSG_DONE)
            continue;
        struct df_wire *w = df_wire_of(msg->easy_handle);
        CURLcode result = msg->data.result;
        if (df_wire_dials_on(w))
            continue; /* the message is gone */
        result = df_wire_connected(w, result);
        if (result == CURLE_OK)
            take_step(t, w, df_wire_begin(w, w->call));
        else
            break_off(t, w, &(struct df_wire_failure){.result = result});
    }
}

/* How long the thread may wait for its sockets. */
static int64_t wait_ms(const struct client_thread *t, int64_t ms)
{
    if (t->due_ns == INT64_MAX || ms == 0)
        return ms;
    int64_t left_ns = t->due_ns - df_boot_ns(df_clock_real());
    int64_t left_ms = left_ns > 0 ? (left_ns + 999999) / 1000000 : 0;
    return left_ms < ms ? left_ms : ms;
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
        if (turn.stopping || turn.cuts) {
            cancel_calls(t, &turn);
            if (t->handed_back > 0)
                continue;
        }
        df_sockets_run(&t->sockets, wait_ms(t, turn.wait_ms));
        take_dialled(t);
        end_late(t);
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
    call->sent_ns = df_boot_ns(df_clock_real());
    call->deadline_ns = call->sent_ns + timeout_ms * 1000000;
    call->was_sent = false;
    enum df_code code = df_call_check(call, &url, &err);

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

void df_http_client_cut(struct df_http_client *c)
{
    struct df_call *call;

    df_lock(&c->lock);
    while ((call = df_lines_cut(&c->lines))) {
        call->err = DF_ERR_INIT;
        (void)df_err_set(&call->err, DF_E_CANCELLED, CUT_OFF);
        end_call(thread_of(c, call), call);
    }
    for (size_t i = 0; i < c->thread_count; i++)
        c->threads[i].cuts = true;
    wake_all(c);
    df_unlock(&c->lock);
}

static void release_client(struct df_http_client *c)
{
    for (size_t i = 0; i < c->thread_count; i++) {
        struct client_thread *t = &c->threads[i];
        for (size_t n = 0; n < t->wire_count; n++)
            df_wire_free(t->wires[n]);
        free(t->wires);
        free(t->spare);
        df_sockets_close(&t->sockets);
        if (t->wire_options.share)
            (void)curl_share_cleanup(t->wire_options.share);
    }
    df_lines_release(&c->lines);
    (void)pthread_cond_destroy(&c->became_empty);
    df_mutex_destroy(&c->lock);
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

    c->wire_max = (size_t)(in_flight < IN_FLIGHT_MAX ? in_flight : IN_FLIGHT_MAX);
    df_lines_init(&c->lines, c->wire_max, (size_t)or_default(opt->max_per_destination, 64));
    c->looks_ns = INT64_MAX;
    df_mutex_init(&c->lock);
    df_cond_init(&c->became_empty);
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
    t->wires = df_calloc(c->wire_max, sizeof(struct df_wire *));
    t->spare = df_calloc(c->wire_max, sizeof(struct df_wire *));
    t->due_ns = INT64_MAX;
    t->wire_options = (struct df_wire_options){
        .connect_timeout_ms = (long)or_default(opt->connect_timeout_ms, 5000),
        .user_agent = c->user_agent,
        .clock = opt->clock ? opt->clock : df_clock_real(),
        .sockets = &t->sockets,
        .share = curl_share_init(), /* one thread uses it: it needs no locks */
        .arg = t,
    };
    if (!df_sockets_open(&t->sockets))
        return false;
    t->sockets.on_ready = on_ready;
    return t->wire_options.share && curl_share_setopt(t->wire_options.share, CURLSHOPT_SHARE,
                                                      CURL_LOCK_DATA_SSL_SESSION) == CURLSHE_OK;
}

enum df_code df_http_client_new(const struct df_http_client_options *opt,
                                struct df_http_client **ret, struct df_err *err)
{
    (void)pthread_once(&once, init_once);
    if (global_result != CURLE_OK)
        return df_err_set(err, DF_E_INTERNAL, "libcurl: %s", curl_easy_strerror(global_result));

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
