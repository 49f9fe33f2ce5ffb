#include "relay/rabbitmq_link.h"

#include "base/log.h"
#include "base/mem.h"
#include "net/security.h"

#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define HEARTBEAT_S    30
#define GOODBYE_MS     500          /* for the broker to confirm the close */
#define SLICE_MS       1000         /* between two looks at the heartbeats */
#define SEND_BUF_BYTES (256 * 1024) /* the kernel may give less, and doubles it */
#define ROOM_BYTES                                                                                 \
    ((size_t)2 * DF_RABBIT_FRAME_MAX) /* bytes that a writable socket takes at least */

static int left_ms(const struct df_rabbit_link *l, int64_t deadline_ms)
{
    int64_t left = df_sink_given_up(l->opt) ? 0 : deadline_ms - df_mono_ms(l->clock);
    return left <= 0 ? 0 : left > INT32_MAX ? INT32_MAX : (int)left;
}

static struct timeval left_time(const struct df_rabbit_link *l, int64_t deadline_ms)
{
    int ms = left_ms(l, deadline_ms);
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000L};
}

static bool writable(const struct df_rabbit_link *l, int timeout_ms)
{
    struct pollfd p = {.fd = amqp_get_sockfd(l->conn), .events = POLLOUT};
    return poll(&p, 1, timeout_ms) > 0 && p.revents & POLLOUT;
}

/* Copies the broker's text so that it fits into one line. */
static void take_text(amqp_bytes_t text, char *out, size_t size)
{
    struct df_str s =
        df_str_n(text.len > 0 ? text.bytes : "", text.len < size ? text.len : size - 1);
    size_t len = df_utf8_valid_prefix(s);

    for (size_t i = 0; i < len; i++)
        out[i] = (unsigned char)s.ptr[i] < 0x20 || s.ptr[i] == 0x7f ? ' ' : s.ptr[i];
    out[len] = '\0';
}

/* --- configuration --- */

enum df_code df_rabbit_link_init(struct df_rabbit_link *l, const struct df_sink_options *opt,
                                 struct df_err *err)
{
    struct df_str target = df_str_c(opt->target ? opt->target : "");

    *l = (struct df_rabbit_link){
        .relay = opt->relay, .clock = opt->clock, .opt = opt, .slash = "/", .wake_fd = -1};
    l->url = df_strdup(target);
    l->url_len = target.len;
    if (amqp_parse_url(l->url, &l->info) != AMQP_STATUS_OK || !*l->info.host ||
        strlen(l->info.host) > 255 || l->info.port == 0 || strlen(l->info.vhost) > 255) {
        df_rabbit_link_release(l);
        return df_err_set(err, DF_E_CONFIG,
                          "target: must be amqp://user:password@host:port/vhost, or amqps:// for "
                          "TLS; of its parts, what is not a letter or digit is percent-encoded");
    }
    /* A URL that ends in a slash means the vhost "/", not the one without a name. */
    if (!*l->info.vhost)
        l->info.vhost = l->slash;
    bool ipv6 = strchr(l->info.host, ':') != NULL;
    (void)snprintf(l->place, sizeof(l->place), "amqp%s://%s%s%s:%d", l->info.ssl ? "s" : "",
                   ipv6 ? "[" : "", l->info.host, ipv6 ? "]" : "", l->info.port);
    return DF_OK;
}

/* --- the end of a connection --- */

static void forget_connection(struct df_rabbit_link *l)
{
    (void)amqp_destroy_connection(l->conn);
    l->conn = NULL;
    l->channel_open = false;
    l->in_message = false;
    l->blocked = false;
    l->room_bytes = 0;
}

void df_rabbit_link_lost(struct df_rabbit_link *l, const char *why)
{
    if (!l->conn)
        return;
    const struct df_log_field fields[] = {DF_F("relay", df_str_c(l->relay))};
    df_log_write(DF_LOG_WARN, "RabbitmqConnectionLost", fields, 1, "%s: %s", l->place, why);
    forget_connection(l);
}

void df_rabbit_link_release(struct df_rabbit_link *l)
{
    if (l->conn && !l->in_message && writable(l, 0)) {
        (void)amqp_set_rpc_timeout(l->conn, &(struct timeval){.tv_usec = GOODBYE_MS * 1000L});
        (void)amqp_connection_close(l->conn, AMQP_REPLY_SUCCESS);
    }
    forget_connection(l);
    if (l->url)
        df_wipe(l->url, l->url_len);
    free(l->url);
    l->url = NULL;
}

static enum df_code connection_lost(struct df_rabbit_link *l, int status, struct df_err *err)
{
    enum df_code code = df_err_set(err, DF_E_NET, "the connection to %s is lost: %s", l->place,
                                   amqp_error_string2(status));
    df_rabbit_link_lost(l, amqp_error_string2(status));
    return code;
}

/* --- dialling --- */

/* A connected socket, or -1 and errno. */
static int dial_address(const struct df_rabbit_link *l, const struct addrinfo *to, int timeout_ms)
{
    int fd = socket(to->ai_family, to->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to->ai_protocol);
    int problem = 0;
    socklen_t len = sizeof(problem);

    if (fd < 0)
        return -1;
    if (connect(fd, to->ai_addr, to->ai_addrlen) != 0)
        problem = errno;
    if (problem == EINPROGRESS) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};
        int64_t deadline_ms = df_mono_ms(l->clock) + timeout_ms;
        int n;
        while ((n = poll(&p, 1, left_ms(l, deadline_ms))) < 0 && errno == EINTR)
            continue;
        problem = ETIMEDOUT;
        if (n > 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &len) != 0)
            problem = errno;
    }
    if (problem == 0)
        return fd;
    (void)close(fd);
    errno = problem;
    return -1;
}

static enum df_code dial_broker(const struct df_rabbit_link *l, int64_t deadline_ms, int *ret_fd,
                                struct df_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list;
    char port[16];
    int fd = -1;
    int count = 0;

    (void)snprintf(port, sizeof(port), "%d", l->info.port);
    int problem = getaddrinfo(l->info.host, port, &hints, &list);
    if (problem != 0)
        return df_err_set(err, DF_E_NET_RESOLVE, "cannot reach %s: %s", l->place,
                          gai_strerror(problem));
    for (const struct addrinfo *to = list; to; to = to->ai_next)
        count++;
    /* An address that swallows packets must leave time for the next. */
    errno = ETIMEDOUT;
    for (const struct addrinfo *to = list; to && fd < 0; to = to->ai_next, count--)
        fd = dial_address(l, to, left_ms(l, deadline_ms) / count);
    problem = errno;
    freeaddrinfo(list);
    if (fd < 0) {
        errno = problem;
        return df_err_errno(err, "cannot reach %s", l->place);
    }
    *ret_fd = fd;
    return DF_OK;
}

static enum df_code open_plain(struct df_rabbit_link *l, int64_t deadline_ms, struct df_err *err)
{
    int fd = -1;
    int on = 1;
    enum df_code code = dial_broker(l, deadline_ms, &fd, err);

    if (code != DF_OK)
        return code;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    amqp_tcp_socket_set_sockfd(amqp_tcp_socket_new(l->conn), fd);
    return DF_OK;
}

/* Why a certificate was refused; OpenSSL calls back on the thread that shakes hands. */
static _Thread_local int verify_problem;

static int note_verification(int ok, X509_STORE_CTX *store)
{
    if (!ok)
        verify_problem = X509_STORE_CTX_get_error(store);
    return ok;
}

/* The library's own check of the name does not know IP addresses; OpenSSL's does. */
static bool verify_host(SSL_CTX *ctx, const char *host)
{
    X509_VERIFY_PARAM *param = SSL_CTX_get0_param(ctx);

    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, note_verification);
    df_security_set_ctx(ctx);
    return X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1 ||
           X509_VERIFY_PARAM_set1_host(param, host, 0) == 1;
}

static enum df_code open_tls(struct df_rabbit_link *l, int64_t deadline_ms, struct df_err *err)
{
    struct timeval left = left_time(l, deadline_ms);
    amqp_socket_t *socket = amqp_ssl_socket_new(l->conn);
    int fd = -1;

    if (!socket || !verify_host(amqp_ssl_socket_get_context(socket), l->info.host))
        return df_err_set(err, DF_E_NET_TLS, "cannot reach %s: TLS cannot be set up", l->place);
    amqp_ssl_socket_set_verify_peer(socket, 1);
    amqp_ssl_socket_set_verify_hostname(socket, 0);
    (void)amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST);
    verify_problem = X509_V_OK;
    int status = amqp_socket_open_noblock(socket, l->info.host, l->info.port, &left);
    if (status == AMQP_STATUS_OK)
        return DF_OK;
    /* The library tells that it did not reach the host, but not why: dialling again finds the
     * reason. */
    if (status == AMQP_STATUS_SOCKET_ERROR || status == AMQP_STATUS_HOSTNAME_RESOLUTION_FAILED) {
        enum df_code code = dial_broker(l, deadline_ms, &fd, err);
        if (code != DF_OK)
            return code;
        (void)close(fd);
    }
    return df_err_set(err, DF_E_NET_TLS, "cannot reach %s: TLS: %s", l->place,
                      verify_problem != X509_V_OK ? df_security_verify_text(verify_problem)
                                                  : amqp_error_string2(status));
}

/* --- login --- */

static enum df_code login_refused(const struct df_rabbit_link *l, amqp_rpc_reply_t reply,
                                  struct df_err *err)
{
    char words[256] = "";

    if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION)
        return df_err_set(err, DF_E_NET, "%s does not answer as it should: %s", l->place,
                          amqp_error_string2(reply.library_error));
    if (reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD)
        take_text(((amqp_connection_close_t *)reply.reply.decoded)->reply_text, words,
                  sizeof(words));
    else if (reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD)
        take_text(((amqp_channel_close_t *)reply.reply.decoded)->reply_text, words, sizeof(words));
    return df_err_set(err, DF_E_NET, "%s refuses: %s", l->place, words);
}

amqp_table_entry_t df_rabbit_text(const char *name, const char *value)
{
    return (amqp_table_entry_t){
        .key = amqp_cstring_bytes(name),
        .value = {.kind = AMQP_FIELD_KIND_UTF8, .value.bytes = amqp_cstring_bytes(value)}};
}

amqp_table_entry_t df_rabbit_number(const char *name, int32_t value)
{
    return (amqp_table_entry_t){.key = amqp_cstring_bytes(name),
                                .value = {.kind = AMQP_FIELD_KIND_I32, .value.i32 = value}};
}

static amqp_table_entry_t yes_entry(const char *name)
{
    return (amqp_table_entry_t){.key = amqp_cstring_bytes(name),
                                .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value.boolean = 1}};
}

static enum df_code log_in(struct df_rabbit_link *l, int64_t deadline_ms, struct df_err *err)
{
    struct timeval left = left_time(l, deadline_ms);
    char name[128];
    (void)snprintf(name, sizeof(name), "dataflow relay %.100s", l->relay);
    amqp_table_entry_t capabilities[] = {yes_entry("connection.blocked"),
                                         yes_entry("consumer_cancel_notify")};
    amqp_table_entry_t entries[] = {
        df_rabbit_text("product", "DataFlow"),
        df_rabbit_text("version", DF_VERSION),
        df_rabbit_text("connection_name", name),
        {.key = amqp_cstring_bytes("capabilities"),
         .value = {.kind = AMQP_FIELD_KIND_TABLE, .value.table = {2, capabilities}}},
    };
    amqp_table_t properties = {sizeof(entries) / sizeof(entries[0]), entries};

    if (left.tv_sec == 0 && left.tv_usec == 0)
        return df_err_set(err, DF_E_NET_TIMEOUT, "no time is left to log in to %s", l->place);
    (void)amqp_set_handshake_timeout(l->conn, &left);
    amqp_rpc_reply_t reply = amqp_login_with_properties(
        l->conn, l->info.vhost, DF_RABBIT_CHANNEL, DF_RABBIT_FRAME_MAX, HEARTBEAT_S, &properties,
        AMQP_SASL_METHOD_PLAIN, l->info.user, l->info.password);
    return reply.reply_type == AMQP_RESPONSE_NORMAL ? DF_OK : login_refused(l, reply, err);
}

static enum df_code connect_to(struct df_rabbit_link *l, int64_t deadline_ms, struct df_err *err)
{
    int size = SEND_BUF_BYTES;

    l->conn = amqp_new_connection();
    if (!l->conn)
        df_oom();
    enum df_code code =
        l->info.ssl ? open_tls(l, deadline_ms, err) : open_plain(l, deadline_ms, err);
    if (code == DF_OK) {
        (void)setsockopt(amqp_get_sockfd(l->conn), SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
        code = log_in(l, deadline_ms, err);
    }
    if (code != DF_OK) {
        forget_connection(l);
        return code;
    }
    const struct df_log_field fields[] = {DF_F("relay", df_str_c(l->relay))};
    df_log_write(DF_LOG_INFO, "RabbitmqConnected", fields, 1, "%s", l->place);
    return DF_OK;
}

static enum df_code open_channel(struct df_rabbit_link *l, int64_t deadline_ms, struct df_err *err)
{
    struct timeval left = left_time(l, deadline_ms);

    if (!writable(l, left_ms(l, deadline_ms)))
        return connection_lost(l, AMQP_STATUS_TIMEOUT, err);
    left.tv_usec += left.tv_sec == 0 && left.tv_usec == 0; /* zero would mean no limit */
    (void)amqp_set_rpc_timeout(l->conn, &left);
    if (amqp_channel_open(l->conn, DF_RABBIT_CHANNEL))
        (void)amqp_confirm_select(l->conn, DF_RABBIT_CHANNEL);
    enum df_code code = df_rabbit_link_answered(l, err);
    l->channel_open = code == DF_OK;
    l->tag = 0;
    return code;
}

enum df_code df_rabbit_link_answered(struct df_rabbit_link *l, struct df_err *err)
{
    amqp_rpc_reply_t reply = amqp_get_rpc_reply(l->conn);

    if (reply.reply_type == AMQP_RESPONSE_NORMAL) {
        amqp_maybe_release_buffers(l->conn);
        l->sent_ms = df_mono_ms(l->clock);
        return DF_OK;
    }
    enum df_code code = login_refused(l, reply, err);
    df_rabbit_link_lost(l, err->detail);
    return code;
}

/* --- frames --- */

static enum df_code channel_closed(struct df_rabbit_link *l, const amqp_channel_close_t *m,
                                   struct df_err *err)
{
    amqp_channel_close_ok_t ok = {0};
    char words[256];

    take_text(m->reply_text, words, sizeof(words));
    l->close_code = m->reply_code;
    l->channel_open = false;
    enum df_code code = df_err_set(err, DF_E_NET, "%s has closed the channel: %s", l->place, words);
    /* In the middle of a message the broker would treat our answer as an error. */
    if (l->in_message || !writable(l, GOODBYE_MS) ||
        amqp_send_method(l->conn, DF_RABBIT_CHANNEL, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok) < 0)
        df_rabbit_link_lost(l, words);
    return code;
}

static enum df_code connection_closed(struct df_rabbit_link *l, const amqp_connection_close_t *m,
                                      struct df_err *err)
{
    amqp_connection_close_ok_t ok = {0};
    char words[256];

    take_text(m->reply_text, words, sizeof(words));
    l->close_code = m->reply_code;
    enum df_code code =
        df_err_set(err, DF_E_NET, "%s has closed the connection: %s", l->place, words);
    if (writable(l, 0))
        (void)amqp_send_method(l->conn, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &ok);
    df_rabbit_link_lost(l, words);
    return code;
}

static enum df_code take_frame(struct df_rabbit_link *l, const amqp_frame_t *f,
                               df_rabbit_frame_fn *fn, void *arg, struct df_err *err)
{
    amqp_method_number_t id = f->frame_type == AMQP_FRAME_METHOD ? f->payload.method.id : 0;

    if (id == AMQP_CHANNEL_CLOSE_METHOD)
        return channel_closed(l, f->payload.method.decoded, err);
    if (id == AMQP_CONNECTION_CLOSE_METHOD)
        return connection_closed(l, f->payload.method.decoded, err);
    if (id == AMQP_CONNECTION_BLOCKED_METHOD) {
        const amqp_connection_blocked_t *m = f->payload.method.decoded;
        l->blocked = true;
        take_text(m->reason, l->blocked_why, sizeof(l->blocked_why));
    } else if (id == AMQP_CONNECTION_UNBLOCKED_METHOD) {
        l->blocked = false;
    } else if (f->channel == DF_RABBIT_CHANNEL) {
        fn(arg, f);
    }
    return DF_OK;
}

/* Takes all frames that have arrived; also sends the heartbeat that is due. */
static enum df_code take_frames(struct df_rabbit_link *l, df_rabbit_frame_fn *fn, void *arg,
                                bool *ret_any, struct df_err *err)
{
    struct timeval none = {0};
    amqp_frame_t f;
    int status;

    /* A heartbeat into a full socket could block without limit. */
    int64_t silent_ms = df_mono_ms(l->clock) - l->sent_ms;
    if (silent_ms >= amqp_get_heartbeat(l->conn) * INT64_C(500) && !writable(l, 0))
        return connection_lost(l, AMQP_STATUS_HEARTBEAT_TIMEOUT, err);
    while ((status = amqp_simple_wait_frame_noblock(l->conn, &f, &none)) == AMQP_STATUS_OK) {
        *ret_any = true;
        enum df_code code = take_frame(l, &f, fn, arg, err);
        if (code != DF_OK)
            return code;
        amqp_maybe_release_buffers(l->conn);
    }
    return status == AMQP_STATUS_TIMEOUT ? DF_OK : connection_lost(l, status, err);
}

enum df_code df_rabbit_link_wait(struct df_rabbit_link *l, size_t len, int64_t deadline_ms,
                                 df_rabbit_frame_fn *fn, void *arg, struct df_err *err)
{
    bool read_already = amqp_frames_enqueued(l->conn) || amqp_data_in_buffer(l->conn);

    if (len > 0 && l->room_bytes >= len)
        return DF_OK;
    for (;;) {
        int left = left_ms(l, deadline_ms);
        struct pollfd p[2] = {
            {.fd = amqp_get_sockfd(l->conn), .events = (short)(POLLIN | (len > 0 ? POLLOUT : 0))},
            {.fd = len > 0 ? -1 : l->wake_fd, .events = POLLIN}};
        int n = poll(p, 2, read_already ? 0 : left < SLICE_MS ? left : SLICE_MS);
        if (n < 0 && errno != EINTR)
            return connection_lost(l, AMQP_STATUS_SOCKET_ERROR, err);
        bool room = n > 0 && p[0].revents & POLLOUT;
        bool any = n > 0 && p[1].revents;
        if (read_already || n <= 0 || p[0].revents & ~POLLOUT) {
            enum df_code code = take_frames(l, fn, arg, &any, err);
            if (code != DF_OK)
                return code;
        }
        read_already = false;
        if (room)
            l->room_bytes = ROOM_BYTES;
        if (len > 0 ? room : any)
            return DF_OK;
        if (left == 0)
            return df_err_set(err, DF_E_TIMEOUT, "%s does not answer in time", l->place);
    }
}

/* Ignores late confirms of messages that were given up. */
static void ignore_frame(void *arg, const amqp_frame_t *f)
{
    (void)arg;
    (void)f;
}

void df_rabbit_link_beat(struct df_rabbit_link *l)
{
    struct df_err err = DF_ERR_INIT;
    bool any = false;

    if (l->conn && take_frames(l, ignore_frame, NULL, &any, &err) != DF_OK)
        df_log_debug("RabbitmqChannelClosed", "%s", err.detail);
}

enum df_code df_rabbit_link_up(struct df_rabbit_link *l, int64_t deadline_ms, struct df_err *err)
{
    /* Frames that came in meanwhile may say that the broker has closed, or is no longer blocked. */
    df_rabbit_link_beat(l);
    enum df_code code = l->conn ? DF_OK : connect_to(l, deadline_ms, err);
    if (code == DF_OK && !l->channel_open)
        code = open_channel(l, deadline_ms, err);
    l->close_code = 0;
    return code;
}

enum df_code df_rabbit_link_send(struct df_rabbit_link *l, const amqp_frame_t *f, size_t len,
                                 struct df_err *err)
{
    int status = amqp_send_frame(l->conn, f);

    if (status != AMQP_STATUS_OK)
        return connection_lost(l, status, err);
    l->room_bytes -= len < l->room_bytes ? len : l->room_bytes;
    l->sent_ms = df_mono_ms(l->clock);
    return DF_OK;
}

void df_rabbit_link_cork(struct df_rabbit_link *l, bool on)
{
    int value = on;

    if (l->conn)
        (void)setsockopt(amqp_get_sockfd(l->conn), IPPROTO_TCP, TCP_CORK, &value, sizeof(value));
}
