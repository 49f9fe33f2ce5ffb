/*
 * One HTTP call by hand: what is sent is text, and so is what comes back.
 *
 *     const char *answer = peer_ask(port, "GET", "/ping", "X-Who: me\r\n", NULL);
 *     peer_assert(answer, "200", "pong");
 *
 * Include after cmocka.h.
 */
#ifndef DF_TESTS_PEER_H
#define DF_TESTS_PEER_H

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static inline int peer_dial(unsigned port)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* headers: whole lines; body: NULL for none. */
static inline void peer_send(int fd, const char *method, const char *path, const char *headers,
                             const char *body)
{
    char text[8192];
    int len =
        snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: here\r\nConnection: close\r\n%s",
                 method, path, headers);

    if (body)
        len += snprintf(text + len, sizeof(text) - (size_t)len, "Content-Length: %zu\r\n",
                        strlen(body));
    len += snprintf(text + len, sizeof(text) - (size_t)len, "\r\n%s", body ? body : "");
    assert_true((size_t)len < sizeof(text));
    assert_int_equal(send(fd, text, (size_t)len, MSG_NOSIGNAL), len);
}

/* The whole answer, head and body, until the next call. */
static inline const char *peer_ask(unsigned port, const char *method, const char *path,
                                   const char *headers, const char *body)
{
    static char answer[1 << 20];
    size_t len = 0;
    ssize_t n;
    int fd = peer_dial(port);

    peer_send(fd, method, path, headers, body);
    while (len < sizeof(answer) - 1 &&
           (n = recv(fd, answer + len, sizeof(answer) - 1 - len, 0)) > 0)
        len += (size_t)n;
    answer[len] = '\0';
    close(fd);
    return answer;
}

static inline void peer_assert(const char *answer, const char *status, const char *words)
{
    if (strncmp(answer, "HTTP/1.1 ", 9) != 0 || strncmp(answer + 9, status, 3) != 0 ||
        !strstr(answer, words))
        fail_msg("not %s with \"%s\": %s", status, words, answer);
}

#endif
