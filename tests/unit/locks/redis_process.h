/* Redis servers of the test's own, on loopback, without a file: a restart loses the memory. They
 * end with the test. Include after cmocka.h. */
#ifndef DF_TEST_REDIS_PROCESS_H
#define DF_TEST_REDIS_PROCESS_H

#include "base/clock.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define REDIS_PROGRAM "/usr/bin/redis-server"

struct redis_process {
    pid_t pid; /* 0: not running */
    int port;
    const char *policy; /* NULL: noeviction */
};

static inline bool redis_available(void)
{
    return access(REDIS_PROGRAM, X_OK) == 0;
}

static inline int redis_dial(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static inline int redis_free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    (void)close(fd);
    return ntohs(at.sin_port);
}

/* Whether it takes orders. */
static inline bool redis_answers(int port)
{
    char reply[8] = "";
    int fd = redis_dial(port);

    if (fd < 0)
        return false;
    bool well = write(fd, "PING\r\n", 6) == 6 && read(fd, reply, sizeof reply - 1) > 0 &&
                strncmp(reply, "+PONG", 5) == 0;
    (void)close(fd);
    return well;
}

static inline void redis_start(struct redis_process *r)
{
    char port[16];

    if (!r->port)
        r->port = redis_free_port();
    (void)snprintf(port, sizeof port, "%d", r->port);
    r->pid = fork();
    if (r->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)!freopen("/dev/null", "w", stdout);
        (void)execl(REDIS_PROGRAM, "redis-server", "--port", port, "--bind", "127.0.0.1", "--save",
                    "", "--appendonly", "no", "--loglevel", "warning", "--maxmemory-policy",
                    r->policy ? r->policy : "noeviction", (char *)NULL);
        _exit(127);
    }
    assert_true(r->pid > 0);
    while (!redis_answers(r->port)) {
        assert_int_equal(waitpid(r->pid, NULL, WNOHANG), 0);
        df_sleep_ms(5);
    }
}

static inline void redis_kill(struct redis_process *r)
{
    if (r->pid <= 0)
        return;
    (void)kill(r->pid, SIGKILL);
    (void)waitpid(r->pid, NULL, 0);
    r->pid = 0;
}

#endif
