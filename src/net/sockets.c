/*
 * libcurl hears of a socket while it dials. Once the connection stands its owner adopts the socket,
 * which then stays in the epoll set, edge-triggered, until it is closed: calls on it need no
 * epoll_ctl.
 *
 * libcurl knows nothing of calls on an adopted socket: to it the connection has been idle since it
 * was dialled. It lets go of such a connection whenever it dials another and finds this one too
 * old or closed by the peer. The socket stays open then, and its number is not given to another
 * connection while the owner uses it.
 *
 * What must not go wrong is that a descriptor is closed, its number is given to another socket, and
 * the table still says that the number is in the set. Closing takes a descriptor out of the set
 * without a word. libcurl closes descriptors in three ways:
 *
 *   a connection     through df_sockets_let_go, which forgets the descriptor;
 *   a name look-up   by itself, after CURL_POLL_REMOVE: these are taken out at once;
 *   an attempt to connect that lost against another address, or failed
 *                    by itself, before CURL_POLL_REMOVE (7.88): these are not taken out, since the
 *                    number may be another thread's by now. If the next attempt gets the same
 *                    number, libcurl may believe it to be watched already, so df_sockets_dial puts
 *                    the new socket in.
 *
 * After such an attempt libcurl 7.88 dials the next address only when the call is run again, and
 * asks for neither a socket nor a timer: the call would stand still until its time to connect is
 * over. All calls are run once then.
 *
 * Events of one epoll_wait may concern a descriptor that the handling of an earlier one has closed;
 * a socket's number in the event tells it from its successor.
 */
#include "net/sockets.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS_MAX  128
#define TABLE_FIRST 64
#define CACHE_MAX   (1L << 20) /* connections that libcurl keeps: more than there can be */

struct df_socket {
    uint32_t number; /* of the sockets that had this descriptor */
    uint8_t wanted;  /* by libcurl: EPOLLIN, EPOLLOUT */
    uint8_t in_set;  /* what the epoll set has; 0: it is not in it */
    bool is_dialled; /* df_sockets_let_go will tell of its end */
    void *owner;     /* NULL: libcurl */
};

static struct df_socket *find_socket(struct df_sockets *s, int fd)
{
    size_t at = (size_t)fd;

    if (at >= s->table_size) {
        size_t size = s->table_size ? s->table_size : TABLE_FIRST;
        while (size <= at)
            size *= 2;
        s->table = df_realloc(s->table, size * sizeof(*s->table));
        memset(s->table + s->table_size, 0, (size - s->table_size) * sizeof(*s->table));
        s->table_size = size;
    }
    return &s->table[at];
}

static void take_out(struct df_sockets *s, struct df_socket *e, int fd)
{
    (void)epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    e->in_set = 0;
}

/* Makes the set have what is wanted. */
static void put_in(struct df_sockets *s, struct df_socket *e, int fd)
{
    if (e->in_set == e->wanted)
        return;
    struct epoll_event event = {.events = e->wanted,
                                .data.u64 = (uint64_t)e->number << 32 | (uint32_t)fd};
    int failed = epoll_ctl(s->epoll_fd, e->in_set ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
    if (failed && errno == EEXIST)
        failed = epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, fd, &event);
    if (failed)
        df_log_error("HttpClientFailed", "epoll_ctl: %s", strerrordesc_np(errno));
    e->in_set = e->wanted;
}

/* --- what libcurl calls --- */

static int watch_socket(CURL *easy, curl_socket_t fd, int what, void *set, void *data)
{
    struct df_sockets *s = set;
    struct df_socket *e = find_socket(s, fd);

    (void)easy;
    (void)data;
    if (e->owner)
        return 0; /* libcurl lets go of it */
    e->wanted = 0;
    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
        e->wanted |= EPOLLIN;
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
        e->wanted |= EPOLLOUT;
    if (e->wanted)
        put_in(s, e, fd);
    else if (!e->is_dialled)
        take_out(s, e, fd);
    else if (e->in_set != EPOLLIN) {
        s->lost_attempt = true;
        e->in_set = 0;
        e->is_dialled = false;
    }
    return 0;
}

static int set_timer(CURLM *multi, long ms, void *set)
{
    struct df_sockets *s = set;

    (void)multi;
    s->due_ns = ms < 0    ? INT64_MAX
                : ms == 0 ? 0
                          : df_boot_ns(df_clock_real()) + (int64_t)ms * 1000000;
    return 0;
}

int df_sockets_dial(struct df_sockets *s, int family, int type, int protocol)
{
    int fd = socket(family, type | SOCK_CLOEXEC, protocol);

    if (fd < 0)
        return -1;
    struct df_socket *e = find_socket(s, fd);
    e->number++;
    e->in_set = 0;
    e->owner = NULL;
    e->is_dialled = true;
    if (e->wanted)
        put_in(s, e, fd);
    return fd;
}

static int close_socket(struct df_sockets *s, int fd)
{
    struct df_socket *e = find_socket(s, fd);

    *e = (struct df_socket){.number = e->number + 1};
    return close(fd);
}

int df_sockets_let_go(void *set, curl_socket_t fd)
{
    return find_socket(set, fd)->owner ? 0 : close_socket(set, fd);
}

void df_sockets_adopt(struct df_sockets *s, int fd, void *owner)
{
    struct df_socket *e = find_socket(s, fd);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.u64 = (uint64_t)e->number << 32 | (uint32_t)fd};

    assert(owner && !e->owner);
    e->owner = owner;
    int failed = epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event);
    if (failed && errno == EEXIST)
        failed = epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, fd, &event);
    if (failed)
        df_log_error("HttpClientFailed", "epoll_ctl: %s", strerrordesc_np(errno));
}

void df_sockets_hang_up(struct df_sockets *s, int fd)
{
    assert(find_socket(s, fd)->owner);
    (void)close_socket(s, fd);
}

/* --- the set --- */

bool df_sockets_open(struct df_sockets *s)
{
    struct epoll_event woken = {.events = EPOLLIN | EPOLLET, .data.u64 = UINT64_MAX};

    *s = (struct df_sockets){.due_ns = INT64_MAX};
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->multi = curl_multi_init();
    if (!s->multi)
        errno = ENOMEM;
    return s->multi && s->epoll_fd >= 0 && s->wake_fd >= 0 &&
           epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->wake_fd, &woken) == 0 &&
           curl_multi_setopt(s->multi, CURLMOPT_MAXCONNECTS, CACHE_MAX) == CURLM_OK &&
           curl_multi_setopt(s->multi, CURLMOPT_SOCKETFUNCTION, watch_socket) == CURLM_OK &&
           curl_multi_setopt(s->multi, CURLMOPT_SOCKETDATA, s) == CURLM_OK &&
           curl_multi_setopt(s->multi, CURLMOPT_TIMERFUNCTION, set_timer) == CURLM_OK &&
           curl_multi_setopt(s->multi, CURLMOPT_TIMERDATA, s) == CURLM_OK;
}

void df_sockets_close(struct df_sockets *s)
{
    if (s->multi)
        (void)curl_multi_cleanup(s->multi);
    if (s->epoll_fd >= 0)
        (void)close(s->epoll_fd);
    if (s->wake_fd >= 0)
        (void)close(s->wake_fd);
    free(s->table);
    *s = (struct df_sockets){.epoll_fd = -1, .wake_fd = -1};
}

/* The counter is never read: the event is edge-triggered, so each write makes another. */
void df_sockets_wake(struct df_sockets *s)
{
    (void)eventfd_write(s->wake_fd, 1);
}

static void check(CURLMcode m)
{
    if (m != CURLM_OK)
        df_log_error("HttpClientFailed", "libcurl: %s", curl_multi_strerror(m));
}

static void act(struct df_sockets *s, curl_socket_t fd, int ready)
{
    int running;

    check(curl_multi_socket_action(s->multi, fd, ready, &running));
}

/* The function is deprecated because it is slow; there is no other that runs a call which waits for
 * nothing. */
static void run_all(struct df_sockets *s)
{
    int running;

    s->lost_attempt = false;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    check(curl_multi_socket_all(s->multi, &running));
#pragma GCC diagnostic pop
}

static void take_event(struct df_sockets *s, const struct epoll_event *event)
{
    int fd = (int)(uint32_t)event->data.u64;

    if (event->data.u64 == UINT64_MAX)
        return; /* woken */
    struct df_socket *e = find_socket(s, fd);
    if (e->number != (uint32_t)(event->data.u64 >> 32))
        return; /* closed meanwhile */
    if (e->owner) {
        s->on_ready(e->owner, event->events & (EPOLLRDHUP | EPOLLERR | EPOLLHUP));
        return;
    }
    if (!e->wanted) {
        take_out(s, e, fd);
        return;
    }
    act(s, fd,
        (event->events & (EPOLLIN | EPOLLERR | EPOLLHUP) ? CURL_CSELECT_IN : 0) |
            (event->events & EPOLLOUT ? CURL_CSELECT_OUT : 0));
}

/* Runs libcurl's timer if it is due; else how long until it is, at most wait_ms. */
static int64_t run_timer(struct df_sockets *s, int64_t wait_ms)
{
    if (s->due_ns == INT64_MAX)
        return wait_ms;
    int64_t left_ns = s->due_ns > 0 ? s->due_ns - df_boot_ns(df_clock_real()) : 0;
    if (left_ns > 0) {
        int64_t left_ms = (left_ns + 999999) / 1000000;
        return left_ms < wait_ms ? left_ms : wait_ms;
    }
    s->due_ns = INT64_MAX; /* libcurl sets it again */
    act(s, CURL_SOCKET_TIMEOUT, 0);
    return 0; /* calls may have ended */
}

void df_sockets_run(struct df_sockets *s, int64_t wait_ms)
{
    struct epoll_event events[EVENTS_MAX];

    wait_ms = run_timer(s, s->lost_attempt ? 0 : wait_ms);
    int n = epoll_wait(s->epoll_fd, events, EVENTS_MAX, (int)wait_ms);
    for (int i = 0; i < n; i++)
        take_event(s, &events[i]);
    if (s->lost_attempt)
        run_all(s);
}
