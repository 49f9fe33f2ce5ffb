/*
 * The keeper: one thread with three tasks that libmicrohttpd does not do, or not well enough.
 *
 * It accepts. With the listen socket inside libmicrohttpd 0.9.75, the only way to stop listening is
 * MHD_quiesce_daemon, which races with its threads and may abort the process; so the socket stays
 * here, and connections are handed to the threads in turn.
 *
 * It enforces deadlines. libmicrohttpd's own timeout is renewed by every byte, so that a peer who
 * sends a byte now and then stays for ever. Every scan compares each connection's phase with that
 * of the scan before; a connection that stays in a phase for too long is shut down, and its own
 * thread then closes it. A connection that waits for us is left alone.
 *
 * It lingers on connections closed early (conn.c), and sends the heartbeats of event streams.
 */
#include "net/http_int.h"

#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPTS_AT_ONCE   64
#define SCAN_MAX_MS       1000
#define DRAIN_SCAN_MS     20
#define DRAIN_NEW_MS      200  /* time for the first request of a connection */
#define CROWDED_IDLE_MS   1000 /* instead of the idle timeout while the server is full */
#define ACCEPT_BACKOFF_MS 100

/* --- accepting -------------------------------------------------------------------------------- */

static bool is_full(struct df_http_server *s)
{
    return atomic_load(&s->open) >= (size_t)s->opt.settings.max_connections;
}

static void hand_over(struct df_http_server *s, int fd, const struct sockaddr_storage *addr,
                      socklen_t len)
{
    int on = 1;
    struct MHD_Daemon *daemon = s->daemons[s->next_daemon++ % s->daemon_count];

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    atomic_fetch_add(&s->open, 1);
    if (MHD_add_connection(daemon, fd, (const struct sockaddr *)addr, len) != MHD_YES) {
        atomic_fetch_sub(&s->open, 1);
        df_http_metrics_rejected(s->metrics, "Connections");
    }
}

/* Returns false when no connection is left to accept. */
static bool accept_some(struct df_http_server *s, int64_t now_ms)
{
    for (int i = 0; i < ACCEPTS_AT_ONCE && !is_full(s); i++) {
        struct sockaddr_storage addr;
        socklen_t len = sizeof(addr);
        int fd =
            accept4(s->listen_fd, (struct sockaddr *)&addr, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            hand_over(s, fd, &addr, len);
            continue;
        }
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return false;
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            /* Without a pause the waiting connection would wake us again at once. */
            s->accept_from_ms = now_ms + ACCEPT_BACKOFF_MS;
            df_http_metrics_rejected(s->metrics, "Resources");
            return false;
        }
    }
    return !is_full(s);
}

/* Connections that are already in the backlog are still served. */
static void stop_listening(struct df_http_server *s, int64_t now_ms)
{
    while (accept_some(s, now_ms))
        continue;
    close(s->listen_fd);
    s->listen_fd = -1;
    df_lock(&s->lock);
    s->listening = false;
    pthread_cond_broadcast(&s->changed);
    df_unlock(&s->lock);
}

/* --- deadlines: all under the server's lock, which keeps sockets open ------------------------- */

static void kill_conn(struct df_conn *c, const char *reason)
{
    c->killed = true;
    (void)shutdown(c->fd, SHUT_RDWR);
    df_http_metrics_rejected(c->server->metrics, reason);
}

static uint64_t bytes_moved(const struct df_conn *c, enum df_phase phase)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);

    if (phase == DF_PHASE_BODY)
        return atomic_load_explicit(&c->body_seen, memory_order_relaxed);
    memset(&info, 0, sizeof(info));
    (void)getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &len);
    return info.tcpi_bytes_acked;
}

static bool has_unread_input(const struct df_conn *c)
{
    int unread = 0;
    return ioctl(c->fd, FIONREAD, &unread) == 0 && unread > 0;
}

static int64_t idle_limit_ms(const struct df_http_server *s, bool crowded)
{
    if (atomic_load(&s->draining))
        return 2 * (int64_t)DRAIN_SCAN_MS;
    return crowded && s->opt.settings.idle_timeout_ms > CROWDED_IDLE_MS
               ? CROWDED_IDLE_MS
               : s->opt.settings.idle_timeout_ms;
}

static bool is_too_slow(const struct df_conn *c, enum df_phase phase, int64_t waited_ms)
{
    const struct df_http_options *opt = &c->server->opt;
    int64_t due_ms = waited_ms - opt->grace_ms;

    return due_ms > 0 && (bytes_moved(c, phase) - c->seen_bytes) * 1000 <
                             (uint64_t)due_ms * (uint64_t)opt->body_min_rate;
}

static void judge_new(struct df_conn *c, int64_t waited_ms)
{
    const struct df_http_options *opt = &c->server->opt;
    bool draining = atomic_load(&c->server->draining);

    if (waited_ms > opt->settings.header_timeout_ms)
        kill_conn(c, "SlowHeader");
    else if (draining && waited_ms > DRAIN_NEW_MS && !has_unread_input(c))
        kill_conn(c, "Draining");
}

/* An idle connection is closed quietly; only one whose request has begun and does not arrive is
 * refused. */
static void judge_idle(struct df_conn *c, int64_t waited_ms, bool crowded)
{
    const struct df_http_options *opt = &c->server->opt;

    if (waited_ms > opt->settings.idle_timeout_ms + opt->settings.header_timeout_ms) {
        kill_conn(c, "SlowHeader");
    } else if (waited_ms > idle_limit_ms(c->server, crowded) && !has_unread_input(c)) {
        c->killed = true;
        (void)shutdown(c->fd, SHUT_RDWR);
    }
}

/*
 * libmicrohttpd's epoll is edge-triggered: an end of stream that arrives together with the last
 * bytes is not seen until something else happens. It counts when nothing has moved between two
 * looks, since the connection's thread may still be reading the bytes before the end.
 */
static bool has_left(struct df_conn *c)
{
    char byte;
    uint64_t moved = atomic_load_explicit(&c->body_seen, memory_order_relaxed);

    if (recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0) {
        c->end_seen = false;
        return false;
    }
    bool twice = c->end_seen && c->end_bytes == moved;
    c->end_seen = true;
    c->end_bytes = moved;
    return twice;
}

/* Phases in which it is the peer's turn to send. */
static bool is_reading(enum df_phase phase)
{
    switch (phase) {
    case DF_PHASE_NEW:
    case DF_PHASE_IDLE:
    case DF_PHASE_HEAD:
    case DF_PHASE_BODY:
        return true;
    case DF_PHASE_WORK:
    case DF_PHASE_SEND:
        break;
    }
    return false;
}

/* The phase has not changed since seen_ms. */
static void judge_conn(struct df_conn *c, enum df_phase phase, int64_t now_ms, bool crowded)
{
    int64_t waited_ms = now_ms - c->seen_ms;

    switch (phase) {
    case DF_PHASE_NEW:
        judge_new(c, waited_ms);
        break;
    case DF_PHASE_IDLE:
        judge_idle(c, waited_ms, crowded);
        break;
    case DF_PHASE_HEAD:
        if (waited_ms > c->server->opt.settings.header_timeout_ms)
            kill_conn(c, "SlowHeader");
        break;
    case DF_PHASE_BODY:
        if (is_too_slow(c, phase, c->body_ms))
            kill_conn(c, "SlowBody");
        break;
    case DF_PHASE_WORK:
        break;
    case DF_PHASE_SEND:
        if (is_too_slow(c, phase, waited_ms))
            kill_conn(c, "SlowReader");
        break;
    }
}

/*
 * A request that is suspended while its body arrives changes its phase all the time. The clock of a
 * body therefore runs by request, and only between two looks at which we were waiting for the peer.
 */
static void look_at_body(struct df_conn *c, enum df_phase before, int64_t since_ms)
{
    uint32_t request = atomic_load_explicit(&c->requests, memory_order_relaxed);

    if (request != c->body_request) {
        c->body_request = request;
        c->body_ms = 0;
        c->seen_bytes = bytes_moved(c, DF_PHASE_BODY);
    } else if (before == DF_PHASE_BODY) {
        c->body_ms += since_ms;
    }
}

static void look_at(struct df_conn *c, int64_t now_ms, int64_t since_ms, bool crowded)
{
    uint32_t seen = atomic_load_explicit(&c->phase, memory_order_relaxed);
    enum df_phase phase = (enum df_phase)(seen & DF_PHASE_MASK);
    enum df_phase before = (enum df_phase)(c->seen_phase & DF_PHASE_MASK);
    bool changed = seen != c->seen_phase || c->seen_ms == 0;

    if (phase == DF_PHASE_BODY)
        look_at_body(c, before, since_ms);
    if (changed) {
        c->end_seen = false;
        c->seen_phase = seen;
        c->seen_ms = now_ms;
        if (phase == DF_PHASE_SEND)
            c->seen_bytes = bytes_moved(c, phase);
    }
    if (!changed && is_reading(phase) && has_left(c)) {
        c->killed = true;
        (void)shutdown(c->fd, SHUT_RDWR);
    } else if (!changed || phase == DF_PHASE_BODY) {
        judge_conn(c, phase, now_ms, crowded);
    }
}

static void scan_connections(struct df_http_server *s, int64_t now_ms, int64_t since_ms)
{
    bool crowded = is_full(s);
    struct df_conn *c;

    df_lock(&s->lock);
    DF_LIST_EACH (c, &s->conns, link) {
        if (!c->killed)
            look_at(c, now_ms, since_ms, crowded);
    }
    df_unlock(&s->lock);
}

/* --- lingering -------------------------------------------------------------------------------- */

/* Returns true when the peer is done or its time is up. */
static bool drain_socket(const struct df_linger *l, int64_t now_ms)
{
    char scratch[16384];
    ssize_t n = 0;

    for (int i = 0; i < 16 && now_ms < l->until_ms; i++) {
        n = recv(l->fd, scratch, sizeof(scratch), MSG_DONTWAIT);
        if (n <= 0)
            break;
    }
    bool waits = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
    return !waits || now_ms >= l->until_ms;
}

/* Other threads only append and only the keeper removes, so these entries stay valid without the
 * lock. */
static size_t copy_lingering(struct df_http_server *s, struct df_linger *out)
{
    df_lock(&s->lock);
    size_t n = s->linger_count;
    memcpy(out, s->lingering, n * sizeof(*out));
    df_unlock(&s->lock);
    return n;
}

static void serve_lingering(struct df_http_server *s, int64_t now_ms)
{
    struct df_linger mine[DF_LINGER_MAX];
    size_t n = copy_lingering(s, mine);

    for (size_t i = n; i-- > 0;) {
        if (!drain_socket(&mine[i], now_ms))
            continue;
        df_lock(&s->lock);
        s->linger_count--;
        memmove(&s->lingering[i], &s->lingering[i + 1],
                (s->linger_count - i) * sizeof(s->lingering[0]));
        df_unlock(&s->lock);
        close(mine[i].fd);
    }
}

/* --- the thread ------------------------------------------------------------------------------- */

void df_keeper_wake(struct df_http_server *s)
{
    uint64_t one = 1;
    ssize_t n;
    do {
        n = write(s->wake_fd, &one, sizeof(one));
    } while (n < 0 && errno == EINTR);
}

static void wait_for_events(struct df_http_server *s, int64_t now_ms, int64_t next_scan_ms)
{
    struct pollfd fds[2 + DF_LINGER_MAX];
    struct df_linger mine[DF_LINGER_MAX];
    nfds_t n = 0;
    uint64_t drop;

    fds[n++] = (struct pollfd){.fd = s->wake_fd, .events = POLLIN};
    if (s->listen_fd >= 0 && !is_full(s) && now_ms >= s->accept_from_ms)
        fds[n++] = (struct pollfd){.fd = s->listen_fd, .events = POLLIN};
    size_t lingering = copy_lingering(s, mine);
    for (size_t i = 0; i < lingering; i++)
        fds[n++] = (struct pollfd){.fd = mine[i].fd, .events = POLLIN};
    int64_t timeout = next_scan_ms > now_ms ? next_scan_ms - now_ms : 0;
    if (poll(fds, n, (int)timeout) > 0 && (fds[0].revents & POLLIN))
        (void)!read(s->wake_fd, &drop, sizeof(drop));
}

static void keep_connections(void *arg)
{
    struct df_http_server *s = arg;
    const struct df_clock *clock = df_clock_real();
    int64_t last_scan_ms = df_mono_ms(clock);
    int64_t next_scan_ms = last_scan_ms;

    while (!atomic_load(&s->stopping)) {
        int64_t now_ms = df_mono_ms(clock);
        if (atomic_load(&s->draining) && s->listen_fd >= 0) {
            stop_listening(s, now_ms);
            next_scan_ms = now_ms;
        }
        if (s->listen_fd >= 0 && now_ms >= s->accept_from_ms)
            (void)accept_some(s, now_ms);
        serve_lingering(s, now_ms);
        if (now_ms >= next_scan_ms) {
            bool draining = atomic_load(&s->draining);
            scan_connections(s, now_ms, now_ms - last_scan_ms);
            if (draining)
                df_sse_end_all(s);
            else
                df_sse_heartbeats(s, now_ms);
            last_scan_ms = now_ms;
            next_scan_ms = now_ms + (draining ? DRAIN_SCAN_MS : s->scan_ms);
        }
        wait_for_events(s, now_ms, next_scan_ms);
    }
}

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

enum df_code df_keeper_start(struct df_http_server *s, struct df_err *err)
{
    const struct df_http_options *o = &s->opt;

    int64_t shortest = min_i64(min_i64(o->settings.header_timeout_ms, o->settings.idle_timeout_ms),
                               min_i64(o->grace_ms, o->heartbeat_ms));
    s->scan_ms = min_i64(shortest / 4 + 1, SCAN_MAX_MS);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake_fd < 0)
        return df_err_errno(err, "eventfd");
    df_thread_start(&s->keeper, "http-keeper", keep_connections, s);
    return DF_OK;
}

void df_keeper_stop(struct df_http_server *s)
{
    if (!s->keeper.running)
        return;
    atomic_store(&s->stopping, true);
    df_keeper_wake(s);
    df_thread_join(&s->keeper);
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    s->listen_fd = -1;
}
