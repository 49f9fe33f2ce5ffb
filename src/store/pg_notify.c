/*
 * LISTEN and NOTIFY by libpq. The thread sleeps in poll until the server sends something or a topic
 * is to be told. NOTIFY takes a server-wide lock at commit, so it is sent at most every TELL_MS
 * under any load.
 */
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "store/db.h"
#include "store/notify.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define CHANNEL        "dataflow"
#define TELL_MS        10
#define BACKOFF_MIN_MS 200
#define BACKOFF_MAX_MS 10000
#define PROBE_MS       3000
#define PROBE          "dataflow-probe"

struct df_notifier {
    struct df_notifier_options opt;
    char *url;
    char *channel;
    bool probe_seen;
    size_t topics;
    atomic_uint pending; /* a bit for each topic to be told */
    atomic_bool stopping;
    int wake;
    struct df_loop loop;
    PGconn *conn;
};

static bool run_command(PGconn *conn, const char *sql)
{
    PGresult *res = PQexec(conn, sql);
    bool ok = PQresultStatus(res) == PGRES_COMMAND_OK;
    PQclear(res);
    return ok;
}

static void ignore_notice(void *arg, const char *message)
{
    (void)arg;
    (void)message;
}

static PGconn *open_connection(const struct df_notifier *n)
{
    const char *const keywords[] = {"connect_timeout",
                                    "fallback_application_name",
                                    "keepalives_idle",
                                    "keepalives_interval",
                                    "keepalives_count",
                                    "dbname",
                                    NULL};
    const char *const values[] = {"5", "dataflow notifications", "10", "5", "3", n->url, NULL};

    PGconn *conn = PQconnectdbParams(keywords, values, 1);
    PQsetNoticeProcessor(conn, ignore_notice, NULL);
    if (PQstatus(conn) == CONNECTION_OK)
        return conn;
    PQfinish(conn);
    return NULL;
}

/* verb: LISTEN or NOTIFY; payload: quoted already, or empty. */
static bool run_on_channel(const struct df_notifier *n, PGconn *conn, const char *verb,
                           const char *payload)
{
    char *channel = PQescapeIdentifier(conn, n->channel, strlen(n->channel));
    char sql[320];

    if (!channel)
        return false;
    (void)snprintf(sql, sizeof(sql), "%s %s%s", verb, channel, payload);
    PQfreemem(channel);
    return run_command(conn, sql);
}

static bool connect_server(struct df_notifier *n)
{
    n->conn = open_connection(n);
    if (n->conn && run_on_channel(n, n->conn, "LISTEN", ""))
        return true;
    PQfinish(n->conn);
    n->conn = NULL;
    return false;
}

/* Reports the topics that other processes have told. */
static void report_heard(struct df_notifier *n)
{
    unsigned heard = 0;
    PGnotify *note;

    while ((note = PQnotifies(n->conn))) {
        bool probe = strcmp(note->extra, PROBE) == 0;
        n->probe_seen = n->probe_seen || probe;
        if (n->opt.channel && !probe)
            heard |= 1u;
        for (size_t i = 0; note->be_pid != PQbackendPID(n->conn) && i < n->topics; i++) {
            if (strcmp(note->extra, n->opt.topics[i]) == 0)
                heard |= 1u << i;
        }
        PQfreemem(note);
    }
    for (size_t i = 0; heard >> i; i++) {
        if (heard & 1u << i)
            n->opt.heard(n->opt.arg, i);
    }
}

/* Sends the pending topics. False: the connection is lost, and the rest goes over the next one. */
static bool tell_pending(struct df_notifier *n)
{
    unsigned pending = atomic_exchange(&n->pending, 0);
    char payload[96];

    for (size_t i = 0; i < n->topics; i++) {
        if (!(pending & 1u << i))
            continue;
        (void)snprintf(payload, sizeof(payload), ", '%s'", n->opt.topics[i]);
        if (!run_on_channel(n, n->conn, "NOTIFY", payload)) {
            (void)atomic_fetch_or(&n->pending, pending);
            return false;
        }
    }
    return true;
}

/*
 * Sends a test notification over a second connection while the first one is idle. A pooler delivers
 * a notification that arrives during the listener's own statement, even though it drops later ones.
 */
static void probe_delivery(struct df_notifier *n)
{
    PGconn *other = open_connection(n);
    int64_t until_ms = df_mono_ms(df_clock_real()) + PROBE_MS;
    int64_t left_ms;

    n->probe_seen = false;
    if (!other || !run_on_channel(n, other, "NOTIFY", ", '" PROBE "'")) {
        PQfinish(other);
        return; /* nothing was learned */
    }
    while (!n->probe_seen && !n->stopping &&
           (left_ms = until_ms - df_mono_ms(df_clock_real())) > 0) {
        struct pollfd fds[2] = {{.fd = PQsocket(n->conn), .events = POLLIN},
                                {.fd = n->wake, .events = POLLIN}};
        (void)poll(fds, 2, (int)left_ms);
        if (!PQconsumeInput(n->conn))
            break;
        report_heard(n);
    }
    PQfinish(other);
    if (!n->stopping && PQstatus(n->conn) == CONNECTION_OK)
        n->opt.probed(n->opt.arg, n->probe_seen);
}

/* Listens and tells until the connection is lost or the notifier stops. */
static void serve_connection(struct df_notifier *n)
{
    struct pollfd fds[2] = {{.fd = PQsocket(n->conn), .events = POLLIN},
                            {.fd = n->wake, .events = POLLIN}};

    if (!tell_pending(n)) /* what came while there was no connection */
        return;
    while (!n->stopping) {
        if (poll(fds, 2, 60000) < 0)
            continue;
        if (fds[1].revents) {
            eventfd_t count;
            (void)eventfd_read(n->wake, &count);
            if (!tell_pending(n))
                return;
        }
        if (!PQconsumeInput(n->conn) || PQstatus(n->conn) != CONNECTION_OK)
            return;
        report_heard(n);
        if (fds[1].revents && !n->stopping) {
            struct pollfd quiet = {.fd = fds[0].fd, .events = POLLIN};
            (void)poll(&quiet, 1, TELL_MS);
        }
    }
}

/* One connection from its beginning to its end. Topics told while there is no connection go over
 * the next one. */
static int64_t connect_and_serve(void *arg)
{
    struct df_notifier *n = arg;
    bool connected = connect_server(n);

    if (connected) {
        /* Notifications sent while nobody listened are lost: have the callers look once. */
        for (size_t i = 0; i < n->topics; i++)
            n->opt.heard(n->opt.arg, i);
        if (n->opt.channel)
            n->opt.heard(n->opt.arg, 0);
        if (n->opt.probed)
            probe_delivery(n);
        serve_connection(n);
        PQfinish(n->conn);
        n->conn = NULL;
    }
    if (!n->stopping)
        df_log_debug("NotificationsLost",
                     "other processes are not heard for now: polling has to do");
    return connected ? BACKOFF_MIN_MS : DF_LOOP_FAILED;
}

struct df_notifier *df_notifier_new(const struct df_notifier_options *opt)
{
    enum df_dialect dialect;
    struct df_err err = DF_ERR_INIT;

    if (df_db_dialect_of(opt->url, &dialect, &err) != DF_OK || dialect != DF_POSTGRES)
        return NULL;
    struct df_notifier *n = df_calloc(1, sizeof(*n));
    n->opt = *opt;
    n->url = df_strdup(df_str_c(opt->url));
    n->channel = opt->channel ? df_strdup(df_str_c(opt->channel)) : df_strdup(DF_STR(CHANNEL));
    while (opt->topics && n->topics < DF_NOTIFY_TOPICS && opt->topics[n->topics])
        n->topics++;
    n->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (n->wake < 0)
        abort();
    df_loop_start(&n->loop, &(struct df_loop_options){.name = "notify",
                                                      .clock = df_clock_real(),
                                                      .backoff_min_ms = BACKOFF_MIN_MS,
                                                      .backoff_max_ms = BACKOFF_MAX_MS,
                                                      .turn = connect_and_serve,
                                                      .arg = n});
    return n;
}

void df_notifier_stop(struct df_notifier *n)
{
    if (!n || n->stopping)
        return;
    n->stopping = true;
    (void)eventfd_write(n->wake, 1);
    df_loop_stop(&n->loop);
}

void df_notifier_free(struct df_notifier *n)
{
    if (!n)
        return;
    df_notifier_stop(n);
    df_loop_release(&n->loop);
    (void)close(n->wake);
    free(n->url);
    free(n->channel);
    free(n);
}

void df_notifier_tell(struct df_notifier *n, size_t topic)
{
    unsigned bit = 1u << topic;

    if (n && !(atomic_fetch_or(&n->pending, bit) & bit))
        (void)eventfd_write(n->wake, 1);
}
