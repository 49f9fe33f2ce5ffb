/*
 * LISTEN and NOTIFY by libpq. The thread sleeps in poll until the server sends something or a topic
 * is to be told. NOTIFY takes a server-wide lock at commit, so it is sent at most every TELL_MS
 * under any load.
 */
#include "base/buf.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "store/db.h"
#include "store/notify.h"
#include "store/pg_private.h"

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
#define STATEMENT_MS   5000
#define QUIET_MS       300000 /* after which the server is pinged */
#define COMMAND_MAX    320

/* A statement of this notifier. */
struct command {
    struct df_query query;
    char sql[COMMAND_MAX];
};

struct df_notifier {
    struct df_notifier_options opt;
    char *url;
    bool probe_seen;
    size_t topics;
    atomic_uint pending; /* a bit for each topic to be told */
    atomic_bool stopping;
    int wake;
    struct df_loop loop;
    struct command listen, probe, tell[DF_NOTIFY_TOPICS];
    struct pg_db *pg; /* NULL: not connected */
};

/* "verb channel", and the payload unless it is NULL. Topics are constants without quotes. */
static void set_command(struct command *c, const char *verb, const char *channel,
                        const char *payload)
{
    struct df_buf text;

    df_buf_init(&text, sizeof(c->sql));
    df_buf_addf(&text, "%s \"", verb);
    for (; *channel; channel++) {
        if (*channel == '"')
            df_buf_addc(&text, '"');
        df_buf_addc(&text, *channel);
    }
    df_buf_addc(&text, '"');
    if (payload)
        df_buf_addf(&text, ", '%s'", payload);
    (void)snprintf(c->sql, sizeof(c->sql), DF_STR_FMT, DF_STR_ARG(df_buf_str(&text)));
    df_buf_release(&text);
    c->query = (struct df_query)PG_STATEMENT("notify", c->sql);
}

static bool run_command(struct pg_db *pg, const struct command *c)
{
    struct df_err err = DF_ERR_INIT;
    enum df_code code = df_db_exec(&pg->base, &c->query, NULL, 0, NULL, &err);

    if (code != DF_OK)
        df_log_debug("NotificationsLost", "%s", err.detail);
    return code == DF_OK;
}

static struct pg_db *open_connection(const struct df_notifier *n)
{
    struct df_db *db = NULL;
    enum df_code code = df_db_open(&(struct df_db_options){.url = n->url,
                                                           .statement_timeout_ms = STATEMENT_MS,
                                                           .foreign = true,
                                                           .name = "dataflow notifications"},
                                   &db, NULL);
    return code == DF_OK ? pg_of(db) : NULL;
}

static void close_connection(struct pg_db *pg)
{
    df_db_close(pg ? &pg->base : NULL);
}

static bool connect_server(struct df_notifier *n)
{
    n->pg = open_connection(n);
    if (n->pg && run_command(n->pg, &n->listen))
        return true;
    close_connection(n->pg);
    n->pg = NULL;
    return false;
}

/* Reports the topics that other processes have told. */
static void report_heard(struct df_notifier *n)
{
    unsigned heard = 0;
    PGnotify *note;

    while ((note = PQnotifies(n->pg->conn))) {
        bool probe = strcmp(note->extra, PROBE) == 0;
        n->probe_seen = n->probe_seen || probe;
        if (n->opt.channel && !probe)
            heard |= 1u;
        for (size_t i = 0; note->be_pid != PQbackendPID(n->pg->conn) && i < n->topics; i++) {
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

    for (size_t i = 0; i < n->topics; i++) {
        if ((pending & 1u << i) && !run_command(n->pg, &n->tell[i])) {
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
    struct pg_db *other = open_connection(n);
    int64_t until_ms = df_mono_ms(df_clock_real()) + PROBE_MS;
    int64_t left_ms;

    n->probe_seen = false;
    if (!other || !run_command(other, &n->probe)) {
        close_connection(other);
        return; /* nothing was learned */
    }
    while (!n->probe_seen && !n->stopping &&
           (left_ms = until_ms - df_mono_ms(df_clock_real())) > 0) {
        struct pollfd fds[2] = {{.fd = PQsocket(n->pg->conn), .events = POLLIN},
                                {.fd = n->wake, .events = POLLIN}};
        (void)poll(fds, 2, (int)left_ms);
        if (!PQconsumeInput(n->pg->conn))
            break;
        report_heard(n);
    }
    close_connection(other);
    if (!n->stopping && PQstatus(n->pg->conn) == CONNECTION_OK)
        n->opt.probed(n->opt.arg, n->probe_seen);
}

/* Listens and tells until the connection is lost or the notifier stops. */
static void serve_connection(struct df_notifier *n)
{
    struct pollfd fds[2] = {{.fd = PQsocket(n->pg->conn), .events = POLLIN},
                            {.fd = n->wake, .events = POLLIN}};

    if (!tell_pending(n)) /* what came while there was no connection */
        return;
    while (!n->stopping) {
        int ready = poll(fds, 2, QUIET_MS);
        if (ready < 0)
            continue;
        /* A server that froze or was replaced says nothing. */
        if (ready == 0 && df_db_ping(&n->pg->base, NULL) != DF_OK)
            return;
        if (fds[1].revents) {
            eventfd_t count;
            (void)eventfd_read(n->wake, &count);
            if (!tell_pending(n))
                return;
        }
        if (!PQconsumeInput(n->pg->conn) || PQstatus(n->pg->conn) != CONNECTION_OK)
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
        close_connection(n->pg);
        n->pg = NULL;
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
    const char *channel = opt->channel ? opt->channel : CHANNEL;
    set_command(&n->listen, "LISTEN", channel, NULL);
    set_command(&n->probe, "NOTIFY", channel, PROBE);
    for (; opt->topics && n->topics < DF_NOTIFY_TOPICS && opt->topics[n->topics]; n->topics++)
        set_command(&n->tell[n->topics], "NOTIFY", channel, opt->topics[n->topics]);
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
    free(n);
}

void df_notifier_tell(struct df_notifier *n, size_t topic)
{
    unsigned bit = 1u << topic;

    if (n && !(atomic_fetch_or(&n->pending, bit) & bit))
        (void)eventfd_write(n->wake, 1);
}
