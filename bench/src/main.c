/* dataflow-bench: load generators and loops for the benchmarks. It is not shipped. */
#include "app/server.h"
#include "bench.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct df_command cmd = {.name = "bench serve"};

/* The server with the benchmark's routes. */
static int bench_serve(int argc, char **argv)
{
    struct df_cli_config config = {0};
    struct df_settings settings;
    if (df_cli_parse(&cmd, argc, argv, NULL, 0, &config) != 0 ||
        !df_cli_settings(&config, &settings))
        return DF_EXIT_USAGE;
    return df_serve(&cmd, &settings, NULL, df_bench_routes, NULL);
}

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *usage;
} parts[] = {
    {"serve", bench_serve,
     "[--config FILE] [--set …]   the server, with POST /bench/rows and /bench/echo"},
    {"load", df_bench_load,
     "[--at HOST:PORT] [--path P] [--client-id I] [--client-secret S] [--connections N]\n"
     "          [--seconds N] [--warmup N]   a closed loop of requests"},
    {"store", df_bench_store,
     "[--config FILE] [--seconds N] [--group N] [--direct]   the same rows by a bare loop\n"
     "          through the store, no HTTP; --direct: on a connection, without its threads"},
    {"records", df_bench_records,
     "FILE [--sheet S] [--normalise] [--count]   the records of a file to be imported, as JSON\n"
     "          lines, or as the items that are sent; --count: only how many, how fast"},
    {"limiter", df_bench_limiter,
     "[--seconds N] [--threads N] [--clients N] [--limit N]   what the rate limiter costs"},
    {"seen", df_bench_seen,
     "[--keys N] [--repeats PERCENT] [--memory BYTES] [--sqlite]   the set of what was seen in a\n"
     "          file, or a table of SQLite in its place"},
};
#define PART_COUNT (sizeof parts / sizeof parts[0])

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; argc > 1 && i < PART_COUNT; i++)
        if (strcmp(parts[i].name, argv[1]) == 0)
            return parts[i].run(argc - 1, argv + 1);
    for (size_t i = 0; i < PART_COUNT; i++)
        fprintf(stderr, "dataflow-bench %s %s\n", parts[i].name, parts[i].usage);
    return DF_EXIT_USAGE;
}
