/*
 * The sockets of one CURLM: an epoll set with what libcurl wants to hear of, its timer, and an
 * eventfd by which other threads wake whoever waits. libcurl is told of the sockets that are ready
 * and touches no others, however many calls are under way.
 *
 * Belongs to the thread of the CURLM; only df_sockets_wake may be called from any.
 */
#ifndef DF_NET_SOCKETS_H
#define DF_NET_SOCKETS_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct df_socket;

struct df_sockets {
    CURLM *multi;
    int epoll_fd;
    int wake_fd;
    int64_t due_ns;    /* libcurl's timer; INT64_MAX: none */
    bool lost_attempt; /* an attempt to connect is over, and another address may be next */
    /* A socket that was adopted is ready: it can be read or written, or the peer has closed it. */
    void (*on_ready)(void *owner, bool peer_closed);
    struct df_socket *table; /* by descriptor */
    size_t table_size;
};

/* Makes a CURLM that reports to the set; on_ready is set afterwards. False: errno says why;
 * df_sockets_close is still to be called. The struct must not move. */
bool df_sockets_open(struct df_sockets *s);
/* Closes the CURLM, which closes its connections. */
void df_sockets_close(struct df_sockets *s);

/* Ends a df_sockets_run that waits, or the next one at once. */
void df_sockets_wake(struct df_sockets *s);

/* Lets libcurl work on what is due and ready; waits for that at most wait_ms. */
void df_sockets_run(struct df_sockets *s, int64_t wait_ms);

/* Every socket of the CURLM's connections is opened by the first, and let go by the second (of type
 * curl_closesocket_callback, whose data is the set), which closes it unless it was adopted. -1:
 * errno. */
int df_sockets_dial(struct df_sockets *s, int family, int type, int protocol);
int df_sockets_let_go(void *set, curl_socket_t fd);

/* From now on the socket belongs to the owner, and not to libcurl: the owner hears of it, once for
 * everything new, and only df_sockets_hang_up closes it. */
void df_sockets_adopt(struct df_sockets *s, int fd, void *owner);
/* Closes a socket that was adopted. */
void df_sockets_hang_up(struct df_sockets *s, int fd);

#endif
