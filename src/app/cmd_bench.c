#include "app/bench.h"
#include "app/server.h"

#include <string.h>

/* The server with the benchmark's routes. */
static int bench_serve(int argc, char **argv)
{
    struct df_cli_config config = {0};
    struct df_settings settings;
    if (df_cli_parse(&df_cmd_bench, argc, argv, NULL, 0, &config) != 0 ||
        !df_cli_settings(&config, &settings))
        return DF_EXIT_USAGE;
    return df_serve(&df_cmd_bench, &settings, df_bench_routes, NULL);
}

static int run(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(int argc, char **argv);
    } parts[] = {{"serve", bench_serve},
                 {"load", df_bench_load},
                 {"store", df_bench_store},
                 {"records", df_bench_records},
                 {"limiter", df_bench_limiter}};
    for (size_t i = 0; argc > 1 && i < sizeof parts / sizeof parts[0]; i++)
        if (strcmp(parts[i].name, argv[1]) == 0)
            return parts[i].run(argc - 1, argv + 1);
    df_cli_complain(&df_cmd_bench, "usage: dataflow bench %s", df_cmd_bench.usage);
    return DF_EXIT_USAGE;
}

const struct df_command df_cmd_bench = {
    .name = "bench",
    .usage = "serve | load | store | records | limiter",
    .summary = "load generators and figures used by the benchmarks",
    .help = "bench serve [--config FILE] [--set …]   the server, with POST /bench/rows and "
            "/bench/echo\n"
            "bench load  [--at HOST:PORT] [--path P] [--client-id I] [--client-secret S]\n"
            "            [--connections N] [--seconds N] [--warmup N]   a closed loop of requests\n"
            "bench store [--config FILE] [--seconds N] [--group N] [--direct]   the same rows by a "
            "bare\n"
            "            loop through the store, no HTTP; --direct: on a connection, without its "
            "threads\n"
            "bench records FILE [--sheet S] [--normalise] [--count]   the records of a file to be "
            "imported,\n"
            "            as JSON lines, or as the items that are sent; --count: only how many, how "
            "fast\n"
            "bench limiter [--seconds N] [--threads N] [--clients N] [--limit N]   what the rate "
            "limiter costs",
    .run = run,
};
