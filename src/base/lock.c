#include "base/lock.h"

#include <errno.h>
#include <time.h>

#define NS_PER_MS   INT64_C(1000000)
#define NS_PER_S    INT64_C(1000000000)
#define MS_PER_YEAR (INT64_C(366) * 86400000)

void df_mutex_init(struct df_mutex *m)
{
    if (pthread_mutex_init(&m->m, NULL) != 0)
        abort();
}

void df_mutex_destroy(struct df_mutex *m)
{
    if (pthread_mutex_destroy(&m->m) != 0)
        abort(); /* a thread still holds it */
}

void df_cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;

    if (pthread_condattr_init(&attr) != 0 ||
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0 || pthread_cond_init(c, &attr) != 0)
        abort();
    pthread_condattr_destroy(&attr);
}

void df_cond_wait(pthread_cond_t *c, struct df_mutex *m)
{
    if (pthread_cond_wait(c, &m->m) != 0)
        abort();
}

bool df_cond_wait_ms(pthread_cond_t *c, struct df_mutex *m, int64_t timeout_ms)
{
    int64_t ms = timeout_ms < 0 ? 0 : timeout_ms > MS_PER_YEAR ? MS_PER_YEAR : timeout_ms;
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    int64_t until_ns = ts.tv_sec * NS_PER_S + ts.tv_nsec + ms * NS_PER_MS;
    ts = (struct timespec){.tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S};
    return pthread_cond_timedwait(c, &m->m, &ts) != ETIMEDOUT;
}
