#include "net/http_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024

/* "host:port" and "[host]:port"; an empty host means every address. */
static enum df_code split_address(const char *address, char *host, size_t host_size, char *port,
                                  size_t port_size, struct df_err *err)
{
    struct df_str s = df_str_c(address);
    const char *colon = s.len > 0 ? memrchr(s.ptr, ':', s.len) : NULL;
    int64_t number;

    if (!colon)
        return df_err_set(err, DF_E_CONFIG, "\"%s\" is not an address of the form host:port",
                          address ? address : "");
    struct df_str h = df_str_n(s.ptr, (size_t)(colon - s.ptr));
    struct df_str p = df_str_c(colon + 1);
    bool brackets = h.len >= 2 && h.ptr[0] == '[' && h.ptr[h.len - 1] == ']';
    if (brackets)
        h = df_str_n(h.ptr + 1, h.len - 2);
    bool ambiguous = !brackets && h.len > 0 && memchr(h.ptr, ':', h.len);
    if (ambiguous || h.len >= host_size || (brackets && h.len == 0))
        return df_err_set(err, DF_E_CONFIG,
                          "\"%s\" is not an address of the form host:port or [ipv6]:port", address);
    if (!df_str_to_i64(p, &number) || number < 0 || number > 65535 || p.len >= port_size)
        return df_err_set(err, DF_E_CONFIG, "\"%s\" has no port between 0 and 65535", address);
    snprintf(host, host_size, "%.*s", (int)h.len, h.ptr);
    snprintf(port, port_size, "%.*s", (int)p.len, p.ptr);
    return DF_OK;
}

enum df_code df_http_check_address(const char *listen, struct df_err *err)
{
    char host[256], port[8];
    return split_address(listen, host, sizeof(host), port, sizeof(port), err);
}

bool df_http_is_loopback(const char *listen)
{
    struct df_str s = df_str_c(listen);
    const char *colon = s.len > 0 ? memrchr(s.ptr, ':', s.len) : NULL;
    return colon && df_host_is_loopback(df_str_n(s.ptr, (size_t)(colon - s.ptr)));
}

static int try_listen(const struct addrinfo *a)
{
    int on = 1;
    int off = 0;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    /* [::] serves IPv4 too. */
    if (a->ai_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0) {
        int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

static enum df_code name_bound(int fd, char *text, size_t text_size, struct df_err *err)
{
    struct sockaddr_storage ss = {0};
    socklen_t len = sizeof(ss);
    char host[INET6_ADDRSTRLEN];

    if (getsockname(fd, (struct sockaddr *)&ss, &len) < 0)
        return df_err_errno(err, "getsockname");
    if (ss.ss_family == AF_INET6) {
        struct sockaddr_in6 a;
        memcpy(&a, &ss, sizeof(a));
        (void)inet_ntop(AF_INET6, &a.sin6_addr, host, sizeof(host));
        snprintf(text, text_size, "[%s]:%u", host, ntohs(a.sin6_port));
    } else {
        struct sockaddr_in a;
        memcpy(&a, &ss, sizeof(a));
        (void)inet_ntop(AF_INET, &a.sin_addr, host, sizeof(host));
        snprintf(text, text_size, "%s:%u", host, ntohs(a.sin_port));
    }
    return DF_OK;
}

static enum df_code explain_errno(struct df_err *err, const char *address, int error)
{
    if (error == EADDRINUSE)
        return df_err_set(err, DF_E_IO, "address already in use: %s", address);
    if (error == EACCES)
        return df_err_set(err, DF_E_IO, "no permission to listen on %s", address);
    if (error == EADDRNOTAVAIL)
        return df_err_set(err, DF_E_IO, "not an address of this machine: %s", address);
    errno = error;
    return df_err_errno(err, "cannot listen on %s", address);
}

enum df_code df_listen_open(const char *address, int *ret_fd, char *ret_text, size_t text_size,
                            struct df_err *err)
{
    char host[256] = "";
    char port[8] = "";
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int fd = -1;
    int error = EADDRNOTAVAIL;

    enum df_code rc = split_address(address, host, sizeof(host), port, sizeof(port), err);
    if (rc != DF_OK)
        return rc;
    int gai = getaddrinfo(host[0] ? host : NULL, port, &hints, &found);
    if (gai != 0)
        return df_err_set(err, DF_E_CONFIG, "cannot resolve the address %s: %s", address,
                          gai_strerror(gai));
    /* IPv6 first when listening on every address, because its socket accepts both. */
    for (int pass = 0; pass < 2 && fd < 0; pass++) {
        for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
            if (host[0] ? pass == 1 : (a->ai_family == AF_INET6) != (pass == 0))
                continue;
            fd = try_listen(a);
            if (fd < 0)
                error = errno;
        }
    }
    freeaddrinfo(found);
    if (fd < 0)
        return explain_errno(err, address, error);
    rc = name_bound(fd, ret_text, text_size, err);
    if (rc != DF_OK) {
        close(fd);
        return rc;
    }
    *ret_fd = fd;
    return DF_OK;
}
