/* The limit that ingestion is measured against: the same rows through the store, without HTTP. */
#include "app/bench.h"
#include "app/bench.sql.h"
#include "app/server.h"
#include "base/uuid.h"
#include "store/schema.h"

#include <stdio.h>
#include <stdlib.h>

static const struct df_command cmd = {.name = "bench store"};

struct loop {
    struct df_db *db;
    const struct df_clock *clock;
    int64_t group;
    struct df_uuid *ids;
    struct df_value *params;
    char payload[DF_BENCH_PAYLOAD];
};

static enum df_code write_group(struct loop *l, struct df_err *err)
{
    for (int64_t i = 0; i < l->group; i++) {
        l->ids[i] = df_uuid_v7(l->clock);
        struct df_value *p = &l->params[i * 4];
        p[0] = df_uuid(df_uuid_str(&l->ids[i]));
        p[1] = df_text(DF_STR(DF_BENCH_EVENT));
        p[2] = df_text(df_str_n(l->payload, sizeof l->payload));
        p[3] = df_time(df_wall_ms(l->clock));
    }
    enum df_code code = df_db_begin(l->db, true, err);
    if (code == DF_OK)
        code = df_db_exec_many(l->db, &df_q_bench_insert, l->params, 4, (size_t)l->group, NULL,
                               NULL, NULL, NULL, err);
    if (code == DF_OK)
        code = df_db_commit(l->db, err);
    return code;
}

static enum df_code run_loop(struct loop *l, const struct df_settings *s, int64_t seconds,
                             struct df_err *err)
{
    struct df_db_options opt = {.url = s->database.url};
    enum df_code code = df_make_dirs(s->server.data_dir, err);
    if (code == DF_OK)
        code = df_db_open(&opt, &l->db, err);
    if (code == DF_OK)
        code = df_schema_apply(l->db, NULL, err);
    int64_t start = df_mono_ns(l->clock), end = start + seconds * 1000000000, rows = 0;
    while (code == DF_OK && df_mono_ns(l->clock) < end) {
        code = write_group(l, err);
        rows += l->group;
    }
    double took = (double)(df_mono_ns(l->clock) - start) / 1e9;
    if (code == DF_OK)
        printf("{\"perSecond\":%.0f,\"rows\":%lld}\n", (double)rows / took, (long long)rows);
    df_db_close(l->db);
    return code;
}

int df_bench_store(int argc, char **argv)
{
    const char *seconds_text = NULL, *group_text = NULL;
    const struct df_option options[] = {
        {.name = "seconds", .kind = DF_OPT_VALUE, .value = &seconds_text},
        {.name = "group", .kind = DF_OPT_VALUE, .value = &group_text},
    };
    struct df_cli_config config = {0};
    struct loop l = {.clock = df_clock_real(), .group = 64};
    int64_t seconds = 10;
    struct df_settings s;
    if (df_cli_parse(&cmd, argc, argv, options, 2, &config) != 0 ||
        !df_cli_int(&cmd, "seconds", seconds_text, 1, 3600, &seconds) ||
        !df_cli_int(&cmd, "group", group_text, 1, 4096, &l.group) || !df_cli_settings(&config, &s))
        return DF_EXIT_USAGE;
    df_log_init(DF_LOG_WARN, DF_LOG_AUTO, l.clock);
    l.ids = calloc((size_t)l.group, sizeof *l.ids);
    l.params = calloc((size_t)l.group * 4, sizeof *l.params);
    if (!l.ids || !l.params)
        abort();
    df_bench_payload(l.payload, sizeof l.payload, 0);
    struct df_err err = DF_ERR_INIT;
    enum df_code code = run_loop(&l, &s, seconds, &err);
    if (code != DF_OK)
        df_cli_complain(&cmd, "%s", err.detail);
    free(l.ids);
    free(l.params);
    df_settings_release(&s);
    return code == DF_OK ? DF_EXIT_OK : DF_EXIT_FAILED;
}
