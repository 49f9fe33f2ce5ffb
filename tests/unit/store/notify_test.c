/*
 * The notifier while there is no database to talk to. What it does with one is shown by the tests
 * of several processes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/notify.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static _Atomic size_t dialled;

/* A server that hangs up on everybody. */
static void *hang_up(void *arg)
{
    const int *listener = arg;
    int fd;

    while ((fd = accept(*listener, NULL, NULL)) >= 0) {
        dialled++;
        close(fd);
    }
    return NULL;
}

static void nobody(void *arg, size_t topic)
{
    (void)arg;
    (void)topic;
}

static void whoever_has_something_to_tell_does_not_dial_without_a_pause(void **state)
{
    static const char *const topics[] = {"a", "b", NULL};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pthread_t server;
    char url[64];
    (void)state;

    assert_int_equal(bind(listener, (const struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(listener, 64), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    assert_int_equal(pthread_create(&server, NULL, hang_up, &listener), 0);
    (void)snprintf(url, sizeof(url), "postgres://x@127.0.0.1:%u/x", ntohs(at.sin_port));
    struct df_notifier *n = df_notifier_new(
        &(struct df_notifier_options){.url = url, .topics = topics, .heard = nobody});
    for (int i = 0; i < 3000 && dialled == 0; i++)
        (void)usleep(10000);
    df_notifier_tell(n, 0);
    df_notifier_tell(n, 1);
    size_t before = dialled;
    (void)usleep(300000);
    /* After 0.2 s and 0.4 s, and libpq may dial more than once at a time. */
    assert_in_range(dialled - before, 0, 12);
    df_notifier_free(n);
    (void)shutdown(listener, SHUT_RDWR);
    pthread_join(server, NULL);
    close(listener);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_has_something_to_tell_does_not_dial_without_a_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
