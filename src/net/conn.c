/* The table of connections, and how many there are from each network. */
#include "net/http_int.h"

#include "base/mem.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGER_MS 2000

/* --- connections by address ------------------------------------------------------------------- */

struct df_peer_count {
    struct df_ip network;
    int64_t count;
};

static struct df_str peer_key(const struct df_ip *network)
{
    return df_str_n((const char *)network, sizeof(*network));
}

/* False: there are too many. IPv6 peers are counted by their /64, all of which one peer owns. */
static bool count_peer(struct df_http_server *s, const struct df_ip *ip) DF_REQUIRES(s->lock)
{
    struct df_ip network = df_ip_network(ip);
    struct df_peer_count *p = df_map_get(&s->peers, peer_key(&network));

    if (!p) {
        p = df_calloc(1, sizeof(*p));
        p->network = network;
        df_map_add(&s->peers, peer_key(&p->network), p);
    }
    if (p->count >= s->opt.settings.max_connections_per_address)
        return false;
    p->count++;
    return true;
}

static void uncount_peer(struct df_http_server *s, const struct df_ip *ip) DF_REQUIRES(s->lock)
{
    struct df_ip network = df_ip_network(ip);
    struct df_peer_count *p = df_map_get(&s->peers, peer_key(&network));

    if (p && --p->count == 0) {
        (void)df_map_remove(&s->peers, peer_key(&network));
        free(p);
    }
}

static void name_peer(struct df_conn *c, const struct sockaddr *addr)
{
    if (!df_ip_of_sockaddr(addr, &c->ip)) {
        c->peer[0] = c->network[0] = '-';
        return;
    }
    df_ip_text(&c->ip, c->peer);
    df_ip_network_text(&c->ip, c->network);
    c->trusted = df_proxies_have(&c->server->proxies, &c->ip);
}

/* --- coming and going ------------------------------------------------------------------------- */

static void *conn_new(struct df_http_server *s, struct MHD_Connection *mhd)
{
    struct df_conn *c = df_calloc(1, sizeof(*c));
    const union MHD_ConnectionInfo *info;

    c->server = s;
    c->mhd = mhd;
    c->req.conn = c;
    df_buf_init(&c->req.body, 0);
    info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    c->fd = info ? info->connect_fd : -1;
    info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    name_peer(c, info ? info->client_addr : NULL);
    df_tls_begin(c);

    df_lock(&s->lock);
    df_list_add_first(&s->conns, &c->link);
    c->counted = !c->trusted && count_peer(s, &c->ip);
    df_unlock(&s->lock);
    if (!c->counted && !c->trusted) {
        c->killed = true;
        (void)shutdown(c->fd, SHUT_RDWR);
        df_http_metrics_rejected(s->metrics, "ConnectionsPerAddress");
    }
    return c;
}

/*
 * Closing a socket with unread input resets the connection, and the reset may overtake the answer.
 * The keeper gets a duplicate of the socket and reads from it for a while.
 */
static void leave_lingering(struct df_conn *c)
{
    struct df_http_server *s = c->server;
    int unread = 0;

    if (c->killed || s->stopping || s->linger_count == DF_LINGER_MAX)
        return;
    if (!c->linger && (ioctl(c->fd, FIONREAD, &unread) < 0 || unread == 0))
        return;
    int fd = fcntl(c->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return;
    (void)shutdown(fd, SHUT_WR);
    s->lingering[s->linger_count++] =
        (struct df_linger){fd, df_mono_ms(df_clock_real()) + LINGER_MS};
    df_keeper_wake(s);
}

static void conn_free(struct df_conn *c)
{
    struct df_http_server *s = c->server;

    df_lock(&s->lock);
    df_list_remove(&s->conns, &c->link);
    if (c->counted)
        uncount_peer(s, &c->ip);
    leave_lingering(c);
    df_unlock(&s->lock);

    size_t before = atomic_fetch_sub(&s->open, 1);
    if (before == (size_t)s->opt.settings.max_connections)
        df_keeper_wake(s); /* it may have stopped accepting */
    df_tls_end(c);
    df_buf_release(&c->req.body);
    df_arena_release(&c->req.arena);
    free(c);
}

void df_conn_notify(void *server, struct MHD_Connection *mhd, void **socket_context,
                    enum MHD_ConnectionNotificationCode code)
{
    switch (code) {
    case MHD_CONNECTION_NOTIFY_STARTED:
        *socket_context = conn_new(server, mhd);
        break;
    case MHD_CONNECTION_NOTIFY_CLOSED:
        conn_free(*socket_context);
        *socket_context = NULL;
        break;
    }
}

/* --- looking through -------------------------------------------------------------------------- */

size_t df_conn_active(struct df_http_server *s)
{
    const struct df_conn *c;
    size_t n = 0;

    df_lock(&s->lock);
    DF_LIST_EACH (c, &s->conns, link)
        n += df_conn_phase(c) >= DF_PHASE_HEAD;
    df_unlock(&s->lock);
    return n;
}

bool df_conn_any_inside(struct df_http_server *s)
{
    const struct df_conn *c;

    df_lock(&s->lock);
    DF_LIST_EACH (c, &s->conns, link)
        if (atomic_load(&c->inside))
            break;
    df_unlock(&s->lock);
    return c != NULL;
}

size_t df_conn_give_up_parked(struct df_http_server *s)
{
    struct df_conn *c;
    size_t n = 0;

    df_lock(&s->lock);
    DF_LIST_EACH (c, &s->conns, link) {
        int park = atomic_load(&c->req.park);
        if (park == DF_PARK_ASKED)
            n++;
        if (park != DF_PARK_PARKED ||
            !atomic_compare_exchange_strong(&c->req.park, &park, DF_PARK_RESUMED))
            continue;
        n++;
        MHD_resume_connection(c->mhd);
    }
    df_unlock(&s->lock);
    return n;
}

void df_conn_release_table(struct df_http_server *s)
{
    struct df_peer_count *p;

    for (size_t i = 0; i < s->linger_count; i++)
        close(s->lingering[i].fd);
    for (size_t at = 0; (p = df_map_next(&s->peers, &at));)
        free(p);
    df_map_release(&s->peers);
}
