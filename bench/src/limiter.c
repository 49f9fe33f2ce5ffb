/* The cost of the rate limiter for a request: calls in a loop, from several threads at once. */
#include "resilience/limiter.h"
#include "base/mem.h"
#include "base/uuid.h"
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CALLS_A_LOOK 1024 /* between two looks at the clock */

static const struct df_command cmd = {.name = "bench limiter"};

struct limiter_loop {
    struct df_limiter *limiter;
    int64_t clients;
    int64_t per_minute;
    int64_t until_ns;
    int64_t calls;
    int64_t cpu_ns;
    pthread_t thread;
};

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void *run_loop(void *arg)
{
    struct limiter_loop *l = arg;
    struct df_uuid *keys = df_calloc((size_t)l->clients, sizeof *keys);
    struct df_limiter_answer a;
    for (int64_t i = 0; i < l->clients; i++) /* the same ones in every thread */
        (void)snprintf(keys[i].text, sizeof keys[i].text, "00000000-0000-7000-8000-%012x",
                       (unsigned)i);
    int64_t began = cpu_ns();
    while (df_mono_ns(df_clock_real()) < l->until_ns)
        for (int i = 0; i < CALLS_A_LOOK; i++)
            df_limiter_take(l->limiter, df_uuid_str(&keys[l->calls++ % l->clients]), l->per_minute,
                            &a);
    l->cpu_ns = cpu_ns() - began;
    free(keys);
    return NULL;
}

int df_bench_limiter(int argc, char **argv)
{
    const char *texts[4] = {0};
    const struct df_option options[] = {
        {.name = "seconds", .kind = DF_OPT_VALUE, .value = &texts[0]},
        {.name = "threads", .kind = DF_OPT_VALUE, .value = &texts[1]},
        {.name = "clients", .kind = DF_OPT_VALUE, .value = &texts[2]},
        {.name = "limit", .kind = DF_OPT_VALUE, .value = &texts[3]},
    };
    int64_t seconds = 2, threads = 1, calls = 0, cpu = 0;
    struct limiter_loop loops[64] = {{.clients = 1000, .per_minute = 600}};
    if (df_cli_parse(&cmd, argc, argv, options, 4, NULL) != 0 ||
        !df_cli_int(&cmd, "seconds", texts[0], 1, 3600, &seconds) ||
        !df_cli_int(&cmd, "threads", texts[1], 1, 64, &threads) ||
        !df_cli_int(&cmd, "clients", texts[2], 1, DF_LIMITER_MAX, &loops[0].clients) ||
        !df_cli_int(&cmd, "limit", texts[3], 0, 1000000, &loops[0].per_minute))
        return DF_EXIT_USAGE;
    loops[0].limiter = df_limiter_new(df_clock_real(), false);
    loops[0].until_ns = df_mono_ns(df_clock_real()) + seconds * 1000000000;
    for (int64_t i = threads - 1; i >= 0; i--) {
        loops[i] = loops[0];
        if (pthread_create(&loops[i].thread, NULL, run_loop, &loops[i]) != 0)
            abort();
    }
    for (int64_t i = 0; i < threads; i++) {
        pthread_join(loops[i].thread, NULL);
        calls += loops[i].calls;
        cpu += loops[i].cpu_ns;
    }
    printf("{\"calls\":%lld,\"cpuNsPerCall\":%.1f}\n", (long long)calls,
           (double)cpu / (double)calls);
    df_limiter_free(loops[0].limiter);
    return DF_EXIT_OK;
}
