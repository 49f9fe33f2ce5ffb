#include "net/wire.h"

#include "base/mem.h"
#include "net/call.h"
#include "net/field.h"
#include "net/security.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define ANSWER_DEFAULT ((size_t)64 << 10)
#define DROP_MAX       ((size_t)1 << 20)  /* read beyond the kept part, to keep the connection */
#define KEEP_BYTES     ((size_t)16 << 10) /* buffer kept from one call to the next */
#define LOOK_AFTER_NS  INT64_C(2000000)   /* of rest */
#define READ_BYTES     ((size_t)16 << 10)
/* To libcurl a connection has rested since it was dialled. The client itself ends those that have
 * rested long. */
#define AGE_MAX_S ((long)INT32_MAX)

/* --- dialling --- */

static void write_address(const struct curl_sockaddr *address, char out[INET6_ADDRSTRLEN])
{
    (void)snprintf(out, INET6_ADDRSTRLEN, "an address of an unknown family");
    if (address->family == AF_INET)
        (void)inet_ntop(AF_INET,
                        &((const struct sockaddr_in *)(const void *)&address->addr)->sin_addr, out,
                        INET6_ADDRSTRLEN);
    else if (address->family == AF_INET6)
        (void)inet_ntop(AF_INET6,
                        &((const struct sockaddr_in6 *)(const void *)&address->addr)->sin6_addr,
                        out, INET6_ADDRSTRLEN);
}

/* The first address that may be dialled is the one that the proxy is told. */
static void note_address(struct df_wire *w, const struct curl_sockaddr *address)
{
    char host[INET6_ADDRSTRLEN];
    bool ipv6 = address->family == AF_INET6;

    if (w->connect_line[0])
        return;
    write_address(address, host);
    (void)snprintf(w->connect_line, sizeof(w->connect_line), "::%s%s%s:", ipv6 ? "[" : "", host,
                   ipv6 ? "]" : "");
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct df_wire *w = arg;
    bool to_proxy = w->through_proxy && !w->looks_up;

    (void)purpose;
    if (!to_proxy && !w->call->allow_private && !df_address_is_public(&address->addr)) {
        write_address(address, w->refused);
        return CURL_SOCKET_BAD;
    }
    if (w->looks_up) {
        note_address(w, address);
        return CURL_SOCKET_BAD;
    }
    w->dialled = true;
    return df_sockets_dial(w->opt->sockets, address->family, address->socktype, address->protocol);
}

static bool set_constants(struct df_wire *w, const struct df_wire_options *opt)
{
    CURL *e = w->easy;
    CURLcode bad = 0;

    bad |= curl_easy_setopt(e, CURLOPT_PRIVATE, w);
    bad |= curl_easy_setopt(e, CURLOPT_CONNECT_ONLY, 1L);
    bad |= curl_easy_setopt(e, CURLOPT_MAXAGE_CONN, AGE_MAX_S);
    bad |= curl_easy_setopt(e, CURLOPT_HTTPPROXYTUNNEL, 1L); /* requests are not libcurl's */
    bad |= curl_easy_setopt(e, CURLOPT_ERRORBUFFER, w->message);
    bad |= curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    bad |= curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, opt->connect_timeout_ms);
    bad |= curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    bad |= curl_easy_setopt(e, CURLOPT_SHARE, opt->share);
    bad |= curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    bad |= curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, w);
    bad |= curl_easy_setopt(e, CURLOPT_CLOSESOCKETFUNCTION, df_sockets_let_go);
    bad |= curl_easy_setopt(e, CURLOPT_CLOSESOCKETDATA, w->opt->sockets);
    return bad == CURLE_OK && df_security_set_curl(e);
}

struct df_wire *df_wire_new(const struct df_wire_options *opt)
{
    struct df_wire *w = df_calloc(1, sizeof(*w));

    w->opt = opt;
    w->fd = -1;
    df_buf_init(&w->head, DF_CALL_HEAD_MAX);
    df_buf_init(&w->body, ANSWER_DEFAULT);
    df_h1_init(&w->answer);
    w->easy = curl_easy_init();
    if (!w->easy || !set_constants(w, opt)) {
        df_wire_free(w);
        return NULL;
    }
    return w;
}

void df_wire_free(struct df_wire *w)
{
    if (!w)
        return;
    df_wire_hang_up(w);
    if (w->easy)
        curl_easy_cleanup(w->easy);
    df_buf_release(&w->head);
    df_buf_release(&w->body);
    df_h1_release(&w->answer);
    free(w->fields);
    free(w);
}

struct df_wire *df_wire_of(CURL *easy)
{
    char *w = NULL;
    (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, &w);
    return (struct df_wire *)(void *)w;
}

/* The call's answer as it is before anything came. */
static void take_call(struct df_wire *w, struct df_call *call)
{
    w->call = call;
    w->result = CURLE_OK;
    w->sent = 0;
    w->message[0] = '\0';
    w->refused[0] = '\0';
    w->dialled = false;
    w->body_max = call->max_answer_bytes ? call->max_answer_bytes : ANSWER_DEFAULT;
    if (call->account)
        df_buf_release(&w->body); /* memory kept from other calls is not charged to this account */
    else
        df_buf_reset(&w->body);
    w->body.max = w->body_max;
    w->body.account = call->account;
    w->dropped = 0;
    call->answer_cut = false;
}

/* An address that a tenant chose must be checked here: the proxy would go anywhere. */
static void choose_route(struct df_wire *w, const struct df_call *call)
{
    struct df_err ignored = DF_ERR_INIT;
    struct df_url url;

    w->through_proxy = w->looks_up = w->asks_proxy = false;
    w->connect_line[0] = '\0';
    if (df_url_parse(df_str_c(call->url), &url, &ignored) != DF_OK)
        return;
    w->through_proxy = df_security_set_route(w->easy, &url);
    w->looks_up = w->through_proxy && !call->allow_private;
    if (w->looks_up)
        (void)curl_easy_setopt(w->easy, CURLOPT_NOPROXY, "*");
    if (w->through_proxy)
        (void)curl_easy_setopt(w->easy, CURLOPT_CONNECT_TO, NULL);
    /* Many proxies take an operator's request in the clear, but open no tunnel for it. */
    w->asks_proxy = w->through_proxy && !w->looks_up && !url.tls;
    if (w->asks_proxy) {
        struct df_str login;
        (void)curl_easy_setopt(w->easy, CURLOPT_NOPROXY, "*");
        (void)curl_easy_setopt(w->easy, CURLOPT_URL, df_security_proxy(&login));
    }
}

bool df_wire_dials_on(struct df_wire *w)
{
    int64_t left_ms = (w->call->deadline_ns - df_boot_ns(df_clock_real())) / 1000000;

    if (!w->looks_up || !w->connect_line[0] || left_ms <= 0)
        return false;
    (void)curl_multi_remove_handle(w->opt->sockets->multi, w->easy);
    w->looks_up = false;
    w->connect_to = (struct curl_slist){.data = w->connect_line};
    w->message[0] = '\0';
    w->refused[0] = '\0';
    return curl_easy_setopt(w->easy, CURLOPT_NOPROXY, "") == CURLE_OK &&
           curl_easy_setopt(w->easy, CURLOPT_CONNECT_TO, &w->connect_to) == CURLE_OK &&
           curl_easy_setopt(w->easy, CURLOPT_TIMEOUT_MS, (long)left_ms) == CURLE_OK &&
           curl_multi_add_handle(w->opt->sockets->multi, w->easy) == CURLM_OK;
}

enum df_code df_wire_dial(struct df_wire *w, struct df_call *call, int64_t timeout_ms,
                          struct df_err *err)
{
    CURLcode bad = 0;

    assert(w->state == DF_WIRE_FREE);
    take_call(w, call);
    w->is_used = w->peer_closed = false;
    bad |= curl_easy_setopt(w->easy, CURLOPT_URL, call->url);
    bad |= curl_easy_setopt(w->easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    choose_route(w, call);
    w->dialled_ms = df_mono_ms(df_clock_real());
    if (bad != CURLE_OK)
        return df_err_set(err, DF_E_BAD_REQUEST, "the call could not be set up");
    CURLMcode m = curl_multi_add_handle(w->opt->sockets->multi, w->easy);
    if (m != CURLM_OK)
        return df_err_set(err, DF_E_NET, "libcurl: %s", curl_multi_strerror(m));
    w->state = DF_WIRE_DIALLING;
    return DF_OK;
}

static bool peer_is_public(int fd)
{
    struct sockaddr_storage peer;
    socklen_t len = sizeof(peer);

    return getpeername(fd, (struct sockaddr *)&peer, &len) == 0 &&
           df_address_is_public((const struct sockaddr *)&peer);
}

CURLcode df_wire_connected(struct df_wire *w, CURLcode result)
{
    curl_socket_t fd = CURL_SOCKET_BAD;

    assert(w->state == DF_WIRE_DIALLING);
    if (result == CURLE_OK)
        result = curl_easy_getinfo(w->easy, CURLINFO_ACTIVESOCKET, &fd);
    if (result == CURLE_OK && fd == CURL_SOCKET_BAD)
        result = CURLE_COULDNT_CONNECT;
    if (result != CURLE_OK)
        return result;
    w->fd = fd;
    w->is_tls = strncasecmp(w->call->url, "https", 5) == 0;
    w->is_public = w->through_proxy ? !w->call->allow_private : peer_is_public(fd);
    df_sockets_adopt(w->opt->sockets, fd, w);
    return CURLE_OK;
}

/* --- bytes --- */

/* Both return how many bytes went through; 0: none now; -1: the connection is gone (w->message). On
 * a plain connection the socket is used as it is; libcurl holds the keys of an encrypted one. */
static ssize_t send_bytes(struct df_wire *w, struct df_str head, struct df_str body)
{
    if (w->is_tls) {
        struct df_str part = head.len > 0 ? head : body;
        size_t n = 0;
        CURLcode code = curl_easy_send(w->easy, part.ptr, part.len, &n);
        if (code == CURLE_OK || code == CURLE_AGAIN)
            return (ssize_t)n;
        return -1;
    }
    struct iovec parts[2] = {{(void *)(uintptr_t)head.ptr, head.len},
                             {(void *)(uintptr_t)body.ptr, body.len}};
    struct msghdr msg = {.msg_iov = parts, .msg_iovlen = body.len > 0 ? 2 : 1};
    ssize_t n = sendmsg(w->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0)
        return n;
    return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

/* 0 with *ret_end: the peer has closed. */
static ssize_t receive_bytes(struct df_wire *w, char *buf, size_t size, bool *ret_end)
{
    *ret_end = false;
    if (w->is_tls) {
        size_t n = 0;
        CURLcode code = curl_easy_recv(w->easy, buf, size, &n);
        if (code == CURLE_AGAIN)
            return 0;
        if (code == CURLE_UNSUPPORTED_PROTOCOL) /* libcurl let go of it, as the peer had closed */
            code = CURLE_OK;
        *ret_end = code == CURLE_OK && n == 0;
        w->result = code; /* the peer may have said why it wants no more */
        return code == CURLE_OK ? (ssize_t)n : -1;
    }
    ssize_t n = recv(w->fd, buf, size, MSG_DONTWAIT);
    *ret_end = n == 0;
    return n >= 0 ? n : errno == EAGAIN || errno == EINTR ? 0 : -1;
}

static void say(struct df_wire *w, const char *why)
{
    size_t n = strnlen(why, sizeof(w->message) - 1);

    memcpy(w->message, why, n);
    w->message[n] = '\0';
}

/* The connection ended before the answer did. One that was kept may have been closed by the peer
 * before it had seen the request. */
static enum df_wire_step lost(struct df_wire *w)
{
    if (w->is_used && w->answer.head.len == 0 && w->answer.spent_bytes == 0)
        return DF_WIRE_STALE;
    df_h1_end(&w->answer);
    if (w->answer.state == DF_H1_DONE)
        return DF_WIRE_ANSWERED;
    if (w->result == CURLE_OK)
        say(w, w->answer.why);
    return DF_WIRE_BROKEN;
}

/* --- the exchange --- */

static bool is_sent(const struct df_wire *w)
{
    return w->sent == w->head.len + w->sends.len;
}

/* False: the connection takes no more. An answer may have come before: 413, for one. */
static bool send_request(struct df_wire *w)
{
    struct df_str head = df_buf_str(&w->head);

    while (!is_sent(w)) {
        struct df_str rest = DF_STR(""), body = w->sends;
        if (w->sent < head.len)
            rest = df_str_n(head.ptr + w->sent, head.len - w->sent);
        else
            body = df_str_n(body.ptr + (w->sent - head.len), head.len + body.len - w->sent);
        ssize_t n = send_bytes(w, rest, body);
        if (n <= 0)
            return n == 0;
        w->sent += (size_t)n;
    }
    return true;
}

/* Stops reading an endless answer once the wanted part is there. */
static bool take_body(void *arg, const char *data, size_t len)
{
    struct df_wire *w = arg;
    size_t room = w->body_max - w->body.len;

    if (len > room) {
        w->call->answer_cut = true;
        w->dropped += len - room;
    }
    df_buf_add(&w->body, data, len < room ? len : room);
    if (df_buf_failed(&w->body)) {
        w->call->answer_cut = true;
        w->dropped = DROP_MAX + 1;
    }
    return w->dropped <= DROP_MAX;
}

static enum df_wire_step read_answer(struct df_wire *w)
{
    char buf[READ_BYTES];

    for (;;) {
        bool end;
        ssize_t n = receive_bytes(w, buf, sizeof buf, &end);
        if (n < 0 || end) {
            w->peer_closed = true;
            return lost(w);
        }
        if (n == 0)
            return DF_WIRE_WAITS;
        size_t taken = df_h1_feed(&w->answer, buf, (size_t)n, take_body, w);
        if (w->dropped > DROP_MAX) {
            w->answer.keep_alive = false;
            return DF_WIRE_ANSWERED;
        }
        if (w->answer.state == DF_H1_BAD) {
            say(w, w->answer.why);
            return DF_WIRE_BROKEN;
        }
        if (w->answer.state == DF_H1_DONE) {
            if (taken < (size_t)n)
                w->answer.keep_alive = false; /* bytes that nobody asked for */
            return DF_WIRE_ANSWERED;
        }
        /* The socket tells of more, but not of an end that it has told of already. */
        if (!w->is_tls && (size_t)n < sizeof buf && !w->peer_closed)
            return DF_WIRE_WAITS;
    }
}

enum df_wire_step df_wire_go_on(struct df_wire *w, bool peer_closed)
{
    assert(w->state == DF_WIRE_EXCHANGING);
    w->peer_closed = w->peer_closed || peer_closed;
    (void)send_request(w);
    return read_answer(w);
}

enum df_wire_step df_wire_begin(struct df_wire *w, struct df_call *call)
{
    bool is_head = strcmp(call->method, "HEAD") == 0;

    if (w->state == DF_WIRE_IDLE)
        take_call(w, call);
    assert(w->call == call);
    w->state = DF_WIRE_EXCHANGING;
    w->deadline_ns = call->deadline_ns;
    w->sends = is_head ? DF_STR("") : call->body;
    df_h1_reset(&w->answer, is_head);
    df_call_write_head(call, w->opt->user_agent, w->asks_proxy, &w->head, &w->is_repeatable);
    assert(!df_buf_failed(&w->head));
    /* A write that failed is followed by what the peer had to say. Encrypted bytes may have been
     * read along with the handshake, and no event tells of them. */
    return send_request(w) && !w->is_tls ? DF_WIRE_WAITS : read_answer(w);
}

bool df_wire_has_unasked(struct df_wire *w)
{
    char byte;

    bool end;

    /* What an encrypted connection has to read may be no more than a ticket for the next one. */
    return w->peer_closed || receive_bytes(w, &byte, 1, &end) != 0 || end;
}

bool df_wire_is_stale(struct df_wire *w)
{
    bool looks = !w->is_tls || df_boot_ns(df_clock_real()) - w->idle_since_ns > LOOK_AFTER_NS;

    return looks && df_wire_has_unasked(w);
}

/* --- a call's end --- */

static bool is_lack_of_ours(const struct df_wire *w, CURLcode result)
{
    long error = 0;

    if (result == CURLE_OUT_OF_MEMORY)
        return true;
    (void)curl_easy_getinfo(w->easy, CURLINFO_OS_ERRNO, &error);
    return result == CURLE_COULDNT_CONNECT &&
           (error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS);
}

/* A time that is over before anything was written was spent on name, connection and TLS. */
static enum df_fault fault_of(const struct df_wire *w, CURLcode result)
{
    if (is_lack_of_ours(w, result))
        return DF_FAULT_OURS;
    enum df_code code = w->call->code;
    if (code == DF_E_NET_RESOLVE || code == DF_E_NET_CONNECT || code == DF_E_NET_TLS ||
        (code == DF_E_NET_TIMEOUT && w->state == DF_WIRE_DIALLING))
        return DF_FAULT_HOST;
    return code == DF_E_NET_TIMEOUT || code == DF_E_NET ? DF_FAULT_PEER : DF_FAULT_OURS;
}

static void clear_answer(struct df_wire *w)
{
    struct df_call *call = w->call;

    call->err = DF_ERR_INIT;
    call->status = 0;
    call->content_type = DF_STR_NULL;
    call->answer_headers = NULL;
    call->answer_header_count = 0;
    call->retry_after_ms = -1;
    call->maybe_sent = call->was_sent || w->sent > 0;
    w->body.account = NULL; /* the buffer may outlive the call */
    call->answer = w->body;
}

static void keep_headers(struct df_wire *w)
{
    struct df_call *call = w->call;
    struct df_call_header *f;
    size_t at = 0;

    if (!w->fields)
        w->fields = df_calloc(DF_ANSWER_HEADERS, sizeof(*w->fields));
    call->answer_headers = f = w->fields;
    while (call->answer_header_count < DF_ANSWER_HEADERS &&
           df_h1_field(&w->answer, &at, &f->name, &f->value))
        if (df_field_is_token(f->name) && df_field_value_ok(f->value)) {
            call->answer_header_count++;
            f++;
        }
}

void df_wire_fill(struct df_wire *w)
{
    struct df_call *call = w->call;

    clear_answer(w);
    call->code = DF_OK;
    call->fault = DF_FAULT_NONE;
    call->status = w->answer.status;
    call->content_type = w->answer.content_type;
    if (w->answer.retry_after.ptr)
        call->retry_after_ms = df_retry_after_ms(w->answer.retry_after, df_wall_ms(w->opt->clock));
    if (call->keep_headers)
        keep_headers(w);
}

void df_wire_fail(struct df_wire *w, const struct df_wire_failure *f, const char *destination)
{
    struct df_call *call = w->call;

    clear_answer(w);
    if (w->refused[0] && !w->dialled)
        call->code =
            df_err_set(&call->err, DF_E_TARGET_REFUSED,
                       "%s leads to %s, which is not a public address", destination, w->refused);
    else if (f->timed_out)
        call->code = df_err_set(&call->err, DF_E_NET_TIMEOUT, "%s: no %s in time", destination,
                                w->answer.head.len > 0 ? "whole answer" : "answer");
    else if (f->unsafe)
        call->code = df_err_set(&call->err, DF_E_NET,
                                "%s: the connection was closed before an answer came, and the "
                                "request is not safe to repeat",
                                destination);
    else if (f->result == CURLE_OK)
        call->code = df_err_set(&call->err, DF_E_NET, "%s: %s", destination, w->message);
    else
        call->code =
            df_security_curl_error(w->easy, (int)f->result, w->message, destination, &call->err);
    call->fault = fault_of(w, f->result);
}

bool df_wire_keeps(const struct df_wire *w)
{
    return w->state == DF_WIRE_EXCHANGING && w->call->code == DF_OK &&
           w->answer.state == DF_H1_DONE && w->answer.keep_alive && !w->peer_closed && is_sent(w);
}

void df_wire_rest(struct df_wire *w)
{
    w->call = NULL;
    if (w->body.cap > KEEP_BYTES)
        df_buf_release(&w->body);
    if (w->head.cap > KEEP_BYTES)
        df_buf_release(&w->head);
    if (w->answer.head.cap > KEEP_BYTES)
        df_buf_release(&w->answer.head);
    w->is_used = true;
    w->state = DF_WIRE_IDLE;
    w->idle_since_ns = df_boot_ns(df_clock_real());
}

void df_wire_hang_up(struct df_wire *w)
{
    w->call = NULL;
    if (w->state == DF_WIRE_FREE)
        return;
    (void)curl_multi_remove_handle(w->opt->sockets->multi, w->easy);
    if (w->fd >= 0)
        df_sockets_hang_up(w->opt->sockets, w->fd);
    w->state = DF_WIRE_FREE;
    w->fd = -1;
}
