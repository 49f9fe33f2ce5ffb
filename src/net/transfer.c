#include "net/transfer.h"

#include "base/mem.h"
#include "net/field.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#define ANSWER_DEFAULT   ((size_t)64 << 10)
#define DROP_MAX         ((size_t)1 << 20)  /* read beyond the kept part, to keep the connection */
#define KEEP_BYTES       ((size_t)16 << 10) /* buffer kept from one call to the next */
#define HEADERS_MAX      100
#define HEADER_BYTES_MAX ((size_t)64 << 10) /* of all headers together */
#define EXPECT_BYTES     ((size_t)64 << 10) /* libcurl says Expect for long bodies: from 1 MiB on */
#define METHOD_MAX       16
#define RETRY_AFTER_MAX  ((int64_t)24 * 3600 * 1000)

struct df_transfer {
    CURL *easy;
    struct df_call *call;
    const struct df_transfer_options *opt;

    /* The header list: its nodes and lines live here, so that a call costs no allocation. */
    struct curl_slist nodes[HEADERS_MAX + 3];
    struct df_buf lines;

    struct df_buf answer;
    size_t answer_max;
    size_t dropped;                /* bytes of the answer beyond that */
    struct df_call_header *fields; /* DF_ANSWER_HEADERS of them, allocated when first needed */

    char message[CURL_ERROR_SIZE];
    char method[METHOD_MAX + 1];    /* current CURLOPT_CUSTOMREQUEST; empty: none */
    char refused[INET6_ADDRSTRLEN]; /* an address that the filter refused */
    bool dialled;                   /* another address was dialled */
    bool repeatable;
    unsigned writes; /* how often the request was about to be written */
};

/* --- what a call may ask for --- */

static enum df_code check_headers(const struct df_call *call, struct df_err *err)
{
    size_t bytes = 0;

    if (call->header_count > HEADERS_MAX)
        return df_err_set(err, DF_E_BAD_REQUEST, "more than %d headers", HEADERS_MAX);
    for (size_t i = 0; i < call->header_count; i++) {
        const struct df_call_header *h = &call->headers[i];
        if (!df_field_is_token(h->name))
            return df_err_set(err, DF_E_BAD_REQUEST, "header %zu has no valid name", i + 1);
        if (df_field_is_framing(h->name))
            return df_err_set(err, DF_E_BAD_REQUEST, "header " DF_STR_FMT " belongs to the client",
                              DF_STR_ARG(h->name));
        if (!df_field_value_ok(h->value))
            return df_err_set(err, DF_E_BAD_REQUEST,
                              "the value of header " DF_STR_FMT " has a control character",
                              DF_STR_ARG(h->name));
        if (h->name.len > HEADER_BYTES_MAX || h->value.len > HEADER_BYTES_MAX)
            bytes = HEADER_BYTES_MAX;
        bytes += h->name.len + h->value.len + sizeof(": ");
        if (bytes > HEADER_BYTES_MAX)
            return df_err_set(err, DF_E_BAD_REQUEST, "the headers are longer than %zu bytes",
                              HEADER_BYTES_MAX);
    }
    return DF_OK;
}

enum df_code df_transfer_check(const struct df_call *call, struct df_url *ret_url,
                               struct df_err *err)
{
    struct df_str method = df_str_c(call->method);

    if (!df_field_is_token(method) || method.len > METHOD_MAX ||
        df_str_ieq(method, DF_STR("CONNECT")) || df_str_ieq(method, DF_STR("TRACE")))
        return df_err_set(err, DF_E_BAD_REQUEST, "the method is not allowed");
    enum df_code code = df_url_parse(df_str_c(call->url), ret_url, err);
    return code == DF_OK ? check_headers(call, err) : code;
}

/* --- libcurl's callbacks --- */

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct df_transfer *t = arg;

    (void)purpose;
    if (!t->call->allow_private && !df_address_is_public(&address->addr)) {
        char host[INET6_ADDRSTRLEN] = "an address of an unknown family";
        if (address->family == AF_INET)
            (void)inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)&address->addr)->sin_addr,
                            host, sizeof(host));
        else if (address->family == AF_INET6)
            (void)inet_ntop(AF_INET6, &((struct sockaddr_in6 *)(void *)&address->addr)->sin6_addr,
                            host, sizeof(host));
        memcpy(t->refused, host, sizeof(host));
        return CURL_SOCKET_BAD;
    }
    t->dialled = true;
    return df_sockets_dial(t->opt->sockets, address->family, address->socktype, address->protocol);
}

static bool text_is_public(const char *ip)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, ip, &in.sin_addr) == 1)
        return df_address_is_public((const struct sockaddr *)(const void *)&in);
    if (inet_pton(AF_INET6, ip, &in6.sin6_addr) == 1)
        return df_address_is_public((const struct sockaddr *)(const void *)&in6);
    return false;
}

/*
 * Called when a connection, new or kept alive, is ready and the request is about to be written. A
 * connection that a call with allow_private opened must not serve a call without it. A second time
 * for one call means that libcurl repeats it.
 */
static int before_request(void *arg, char *peer_ip, char *local_ip, int peer_port, int local_port)
{
    struct df_transfer *t = arg;

    (void)local_ip;
    (void)peer_port;
    (void)local_port;
    if (!t->call->allow_private && !text_is_public(peer_ip)) {
        size_t n = strnlen(peer_ip, sizeof(t->refused) - 1);
        memcpy(t->refused, peer_ip, n);
        t->refused[n] = '\0';
        t->dialled = false;
        return CURL_PREREQFUNC_ABORT;
    }
    if (t->writes > 0 && !t->repeatable)
        return CURL_PREREQFUNC_ABORT;
    t->writes++;
    return CURL_PREREQFUNC_OK;
}

/* Stops reading an endless answer once the wanted part is there. */
static size_t take_answer(char *data, size_t size, size_t count, void *arg)
{
    struct df_transfer *t = arg;
    size_t len = size * count;
    size_t room = t->answer_max - t->answer.len;

    if (len > room) {
        t->call->answer_cut = true;
        t->dropped += len - room;
    }
    df_buf_add(&t->answer, data, len < room ? len : room);
    if (df_buf_failed(&t->answer)) {
        t->call->answer_cut = true;
        t->dropped = DROP_MAX + 1;
    }
    return t->dropped > DROP_MAX ? CURL_WRITEFUNC_ERROR : len;
}

/* --- the handle --- */

static bool set_constants(struct df_transfer *t, const struct df_transfer_options *opt)
{
    CURL *e = t->easy;
    CURLcode bad = 0;

    bad |= curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    bad |= curl_easy_setopt(e, CURLOPT_PRIVATE, t);
    bad |= curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->message);
    bad |= curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    bad |= curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    bad |= curl_easy_setopt(e, CURLOPT_PROXY, "");
    bad |= curl_easy_setopt(e, CURLOPT_NOPROXY, "*"); /* else it reads the environment each time */
    bad |= curl_easy_setopt(e, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    bad |= curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, opt->connect_timeout_ms);
    bad |= curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    bad |= curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    bad |= curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 1L);
    bad |= curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 2L);
    if (opt->ca_file) {
        /* Otherwise the system's certificates would be trusted besides the file's. */
        bad |= curl_easy_setopt(e, CURLOPT_CAPATH, NULL);
        bad |= curl_easy_setopt(e, CURLOPT_CAINFO, opt->ca_file);
    }
    bad |= curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    bad |= curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, t);
    bad |= curl_easy_setopt(e, CURLOPT_CLOSESOCKETFUNCTION, df_sockets_hang_up);
    bad |= curl_easy_setopt(e, CURLOPT_CLOSESOCKETDATA, t->opt->sockets);
    bad |= curl_easy_setopt(e, CURLOPT_PREREQFUNCTION, before_request);
    bad |= curl_easy_setopt(e, CURLOPT_PREREQDATA, t);
    bad |= curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, take_answer);
    bad |= curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
    return bad == CURLE_OK;
}

struct df_transfer *df_transfer_new(const struct df_transfer_options *opt)
{
    struct df_transfer *t = df_calloc(1, sizeof(*t));

    t->opt = opt;
    df_buf_init(&t->lines, 2 * HEADER_BYTES_MAX);
    df_buf_init(&t->answer, ANSWER_DEFAULT);
    t->easy = curl_easy_init();
    if (!t->easy || !set_constants(t, opt)) {
        df_transfer_free(t);
        return NULL;
    }
    return t;
}

void df_transfer_free(struct df_transfer *t)
{
    if (!t)
        return;
    if (t->easy)
        curl_easy_cleanup(t->easy);
    df_buf_release(&t->lines);
    df_buf_release(&t->answer);
    free(t->fields);
    free(t);
}

CURL *df_transfer_easy(struct df_transfer *t)
{
    return t->easy;
}

struct df_call *df_transfer_call(struct df_transfer *t)
{
    return t->call;
}

struct df_transfer *df_transfer_of(CURL *easy)
{
    char *t = NULL;
    (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, &t);
    return (struct df_transfer *)(void *)t;
}

/* --- a call's beginning --- */

/* Where the lines begin, until the buffer is complete and no longer moves. */
struct line_list {
    size_t starts[HEADERS_MAX + 3];
    size_t count;
};

/* "Name:" keeps libcurl from sending a header of its own, "Name;" sends an empty one. */
static void add_line(struct df_transfer *t, struct line_list *l, struct df_str name,
                     const char *mark, struct df_str value)
{
    l->starts[l->count++] = t->lines.len;
    df_buf_adds(&t->lines, name);
    df_buf_addz(&t->lines, mark);
    df_buf_adds(&t->lines, value);
    df_buf_addc(&t->lines, '\0');
}

/*
 * curl_slist is a public struct, and libcurl only reads the list. libcurl spends time on every
 * line, and on every byte, so the list has no more than is needed. The agent's name costs less here
 * than as an option.
 */
static struct curl_slist *build_headers(struct df_transfer *t, const struct df_call *call)
{
    struct line_list l;
    bool typed = false;
    bool named = false;

    l.count = 0;
    df_buf_reset(&t->lines);
    for (size_t i = 0; i < call->header_count; i++) {
        const struct df_call_header *h = &call->headers[i];
        struct df_str value = df_str_trim(h->value);
        add_line(t, &l, h->name, value.len > 0 ? ": " : ";", value);
        typed = typed || df_str_ieq(h->name, DF_STR("Content-Type"));
        named = named || df_str_ieq(h->name, DF_STR("User-Agent"));
        t->repeatable = t->repeatable || df_str_ieq(h->name, DF_STR("Idempotency-Key"));
    }
    if (!named)
        add_line(t, &l, DF_STR("User-Agent"), ": ", df_str_c(t->opt->user_agent));
    if (!typed) /* otherwise libcurl would declare the body a form */
        add_line(t, &l, DF_STR("Content-Type"), ":", DF_STR(""));
    if (call->body.len > EXPECT_BYTES)
        add_line(t, &l, DF_STR("Expect"), ":", DF_STR(""));
    for (size_t i = 0; i < l.count; i++) {
        t->nodes[i].data = t->lines.ptr + l.starts[i];
        t->nodes[i].next = i + 1 < l.count ? &t->nodes[i + 1] : NULL;
    }
    return t->nodes;
}

static CURLcode set_method(struct df_transfer *t, const struct df_call *call)
{
    struct df_str method = df_str_c(call->method);
    bool get = df_str_eq(method, DF_STR("GET"));
    bool head = df_str_eq(method, DF_STR("HEAD"));
    bool post = df_str_eq(method, DF_STR("POST"));
    bool put = df_str_eq(method, DF_STR("PUT"));
    bool with_body =
        !head && (call->body.len > 0 || post || put || df_str_eq(method, DF_STR("PATCH")));
    const char *custom = (get && !with_body) || head || post ? "" : call->method;
    CURLcode bad = 0;

    if (with_body) {
        bad |= curl_easy_setopt(t->easy, CURLOPT_POST, 1L);
        bad |= curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body.len);
        bad |= curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, call->body.len ? call->body.ptr : "");
    } else {
        bad |= curl_easy_setopt(t->easy, CURLOPT_HTTPGET, 1L);
        if (head)
            bad |= curl_easy_setopt(t->easy, CURLOPT_NOBODY, 1L);
    }
    if (strcmp(custom, t->method) != 0) {
        bad |= curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, *custom ? custom : NULL);
        memcpy(t->method, custom, strlen(custom) + 1);
    }
    t->repeatable = get || head || put || df_str_eq(method, DF_STR("DELETE")) ||
                    df_str_eq(method, DF_STR("OPTIONS"));
    return bad;
}

enum df_code df_transfer_begin(struct df_transfer *t, struct df_call *call, int64_t timeout_ms,
                               struct df_err *err)
{
    t->call = call;
    t->refused[0] = '\0';
    t->dialled = false;
    t->writes = 0;
    t->message[0] = '\0';
    t->answer_max = call->max_answer_bytes ? call->max_answer_bytes : ANSWER_DEFAULT;
    if (call->account)
        df_buf_release(
            &t->answer); /* memory kept from other calls is not charged to this account */
    t->answer.max = t->answer_max;
    t->answer.account = call->account;
    t->dropped = 0;
    call->answer_cut = false;

    CURLcode bad = set_method(t, call);
    bad |= curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, build_headers(t, call));
    bad |= curl_easy_setopt(t->easy, CURLOPT_URL, call->url);
    bad |= curl_easy_setopt(t->easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    /* With TLS, calls wait for the first connection to show whether it can be shared. */
    bool shared = t->opt->http2 && t->repeatable && strncasecmp(call->url, "https", 5) == 0;
    bad |= curl_easy_setopt(t->easy, CURLOPT_HTTP_VERSION,
                            shared ? (long)CURL_HTTP_VERSION_2TLS : (long)CURL_HTTP_VERSION_1_1);
    bad |= curl_easy_setopt(t->easy, CURLOPT_PIPEWAIT, shared ? 1L : 0L);
    if (bad != CURLE_OK)
        return df_err_set(err, DF_E_BAD_REQUEST, "the call could not be set up");
    return DF_OK;
}

/* --- a call's end --- */

static const struct {
    CURLcode curl;
    enum df_code code;
} results[] = {
    {CURLE_COULDNT_RESOLVE_HOST, DF_E_NET_RESOLVE},
    {CURLE_COULDNT_CONNECT, DF_E_NET_CONNECT},
    {CURLE_OPERATION_TIMEDOUT, DF_E_NET_TIMEOUT},
    {CURLE_SSL_CONNECT_ERROR, DF_E_NET_TLS},
    {CURLE_PEER_FAILED_VERIFICATION, DF_E_NET_TLS},
    {CURLE_SSL_CERTPROBLEM, DF_E_NET_TLS},
    {CURLE_SSL_CIPHER, DF_E_NET_TLS},
    {CURLE_SSL_CACERT_BADFILE, DF_E_NET_TLS},
    {CURLE_SSL_ISSUER_ERROR, DF_E_NET_TLS},
    {CURLE_SSL_CLIENTCERT, DF_E_NET_TLS},
    {CURLE_URL_MALFORMAT, DF_E_BAD_REQUEST},
};

static enum df_code code_of(CURLcode result)
{
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++)
        if (results[i].curl == result)
            return results[i].code;
    return DF_E_NET;
}

static bool is_lack_of_ours(const struct df_transfer *t, CURLcode result)
{
    long error = 0;

    if (result == CURLE_OUT_OF_MEMORY)
        return true;
    (void)curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &error);
    return result == CURLE_COULDNT_CONNECT &&
           (error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS);
}

/* A time that is over before anything was written was spent on name, connection and TLS. */
static enum df_fault fault_of(const struct df_transfer *t, CURLcode result)
{
    if (is_lack_of_ours(t, result))
        return DF_FAULT_OURS;
    enum df_code code = t->call->code;
    if (code == DF_E_NET_RESOLVE || code == DF_E_NET_CONNECT || code == DF_E_NET_TLS ||
        (code == DF_E_NET_TIMEOUT && t->writes == 0))
        return DF_FAULT_HOST;
    return code == DF_E_NET_TIMEOUT || code == DF_E_NET ? DF_FAULT_PEER : DF_FAULT_OURS;
}

int64_t df_retry_after_ms(struct df_str value, int64_t now_ms)
{
    value = df_str_trim(value);
    size_t digits = 0;
    while (digits < value.len && value.ptr[digits] >= '0' && value.ptr[digits] <= '9')
        digits++;

    int64_t ms;
    if (digits > 0 && digits == value.len) {
        int64_t seconds;
        bool huge = !df_str_to_i64(value, &seconds) || seconds > RETRY_AFTER_MAX / 1000;
        ms = huge ? RETRY_AFTER_MAX : seconds * 1000;
    } else {
        char text[64];
        if (value.len == 0 || value.len >= sizeof(text))
            return -1;
        memcpy(text, value.ptr, value.len);
        text[value.len] = '\0';
        time_t at = curl_getdate(text, NULL);
        if (at < 0)
            return -1;
        ms = at > now_ms / 1000 + RETRY_AFTER_MAX / 1000 ? RETRY_AFTER_MAX
                                                         : (int64_t)at * 1000 - now_ms;
    }
    if (ms < 0)
        ms = 0;
    return ms < RETRY_AFTER_MAX ? ms : RETRY_AFTER_MAX;
}

/* libcurl owns the text, which is valid until the handle's next call. */
static void keep_headers(struct df_transfer *t)
{
    struct df_call *call = t->call;
    struct curl_header *h = NULL;

    if (!t->fields)
        t->fields = df_calloc(DF_ANSWER_HEADERS, sizeof(*t->fields));
    call->answer_headers = t->fields;
    while (call->answer_header_count < DF_ANSWER_HEADERS &&
           (h = curl_easy_nextheader(t->easy, CURLH_HEADER, -1, h)))
        t->fields[call->answer_header_count++] = (struct df_call_header){
            .name = df_str_c(h->name), .value = df_str_trim(df_str_c(h->value))};
}

static void fill_answer(struct df_transfer *t)
{
    struct df_call *call = t->call;
    long status = 0;
    const char *type = NULL;
    struct curl_header *h = NULL;

    (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(t->easy, CURLINFO_CONTENT_TYPE, &type);
    call->code = DF_OK;
    call->status = (unsigned)status;
    call->content_type = df_str_c(type);
    if (curl_easy_header(t->easy, "Retry-After", 0, CURLH_HEADER, -1, &h) == CURLHE_OK)
        call->retry_after_ms = df_retry_after_ms(df_str_c(h->value), df_wall_ms(t->opt->clock));
    if (call->keep_headers)
        keep_headers(t);
}

void df_transfer_end(struct df_transfer *t, CURLcode result, const char *destination)
{
    struct df_call *call = t->call;

    call->err = DF_ERR_INIT;
    call->status = 0;
    call->content_type = DF_STR_NULL;
    call->answer_headers = NULL;
    call->answer_header_count = 0;
    call->retry_after_ms = -1;
    call->maybe_sent = t->writes > 0;
    t->answer.account = NULL; /* the buffer may outlive the call */
    call->answer = t->answer;
    if (result == CURLE_OK || (result == CURLE_WRITE_ERROR && t->dropped > DROP_MAX))
        fill_answer(t);
    else if (t->refused[0] && !t->dialled)
        call->code =
            df_err_set(&call->err, DF_E_TARGET_REFUSED,
                       "%s leads to %s, which is not a public address", destination, t->refused);
    else if (result == CURLE_ABORTED_BY_CALLBACK)
        call->code = df_err_set(&call->err, DF_E_NET,
                                "%s: the connection was closed before an answer came, and the "
                                "request is not safe to repeat",
                                destination);
    else
        call->code = df_err_set(&call->err, code_of(result), "%s: %s", destination,
                                t->message[0] ? t->message : curl_easy_strerror(result));
    call->fault = call->code == DF_OK ? DF_FAULT_NONE : fault_of(t, result);
}

void df_transfer_recycle(struct df_transfer *t)
{
    t->call = NULL;
    if (t->answer.cap > KEEP_BYTES)
        df_buf_release(&t->answer);
    else
        df_buf_reset(&t->answer);
    if (t->lines.cap > KEEP_BYTES)
        df_buf_release(&t->lines);
}
