/* The upper limit that ingestion is compared with: the same rows through the store, without
 * HTTP. */
#include "store/store.h"
#include "app/database.h"
#include "base/uuid.h"
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

static const struct df_command cmd = {.name = "bench store"};

struct df_p_bench_insert df_bench_row(struct df_str doc_id, struct df_str payload, int64_t now_ms)
{
    return (struct df_p_bench_insert){
        .entity = df_text(DF_STR("TCK")),
        .doc_id = df_text(doc_id),
        .company = df_text(DF_STR("0050")),
        .branch = df_text(DF_STR("01")),
        .destination = df_text(DF_STR("SSZ")),
        .phase = df_int(15),
        .event = df_text(DF_STR("RCD")),
        .ack = df_bool(false),
        .target = df_text(DF_STR("ASB")),
        .payload = df_text(payload),
        .now = df_time(now_ms),
    };
}

struct loop {
    struct df_job job; /* one group: through the store it is one job, and so one commit */
    const struct df_clock *clock;
    int64_t group;
    struct df_uuid *ids;
    struct df_p_bench_insert *rows;
    char payload[DF_BENCH_PAYLOAD];
};

static void fill_group(struct loop *l)
{
    for (int64_t i = 0; i < l->group; i++) {
        l->ids[i] = df_uuid_v7(l->clock);
        l->rows[i] = df_bench_row(df_uuid_str(&l->ids[i]), df_str_n(l->payload, sizeof l->payload),
                                  df_wall_ms(l->clock));
    }
}

static enum df_code insert_group(struct df_db *db, struct loop *l, struct df_err *err)
{
    return df_db_exec_many(db, DF_MANY(bench_insert, l->rows), (size_t)l->group, NULL, NULL, NULL,
                           NULL, err);
}

static enum df_code run_job(struct df_db *db, struct df_job *job, struct df_err *err)
{
    return insert_group(db, (struct loop *)job, err);
}

static enum df_code write_direct(struct df_db *db, struct loop *l, struct df_err *err)
{
    enum df_code code = df_db_begin(db, true, err);
    if (code == DF_OK)
        code = insert_group(db, l, err);
    return code == DF_OK ? df_db_commit(db, err) : code;
}

/* Runs until the time is up, through the store if there is one, else on the connection itself. */
static enum df_code run_loop(struct loop *l, struct df_db *db, struct df_store *store,
                             int64_t seconds, struct df_err *err)
{
    int64_t start = df_mono_ns(l->clock), end = start + seconds * 1000000000, rows = 0;
    enum df_code code = DF_OK;
    while (code == DF_OK && df_mono_ns(l->clock) < end) {
        fill_group(l);
        l->job = (struct df_job){.run = run_job};
        code = store ? df_store_write_wait(store, &l->job, err) : write_direct(db, l, err);
        rows += l->group;
    }
    double took = (double)(df_mono_ns(l->clock) - start) / 1e9;
    if (code == DF_OK)
        printf("{\"perSecond\":%.0f,\"rows\":%lld}\n", (double)rows / took, (long long)rows);
    return code;
}

static enum df_code run_bench(struct loop *l, const struct df_settings *s, bool direct,
                              int64_t seconds, struct df_err *err)
{
    struct df_db *db = NULL;
    struct df_store *store = NULL;
    struct df_store_options so = {.settings.url = s->store.url, .clock = l->clock};
    enum df_code code = df_open_database(s, true, &db, NULL, err);
    if (code == DF_OK && !direct)
        code = df_store_open(&so, &store, err);
    if (code == DF_OK)
        code = run_loop(l, db, store, seconds, err);
    df_store_close(store);
    df_db_close(db);
    return code;
}

int df_bench_store(int argc, char **argv)
{
    const char *seconds_text = NULL, *group_text = NULL;
    bool direct = false;
    const struct df_option options[] = {
        {.name = "seconds", .kind = DF_OPT_VALUE, .value = &seconds_text},
        {.name = "group", .kind = DF_OPT_VALUE, .value = &group_text},
        {.name = "direct", .kind = DF_OPT_FLAG, .flag = &direct},
    };
    struct df_cli_config config = {0};
    struct loop l = {.clock = df_clock_real(), .group = 64};
    int64_t seconds = 10;
    struct df_settings s;
    if (df_cli_parse(&cmd, argc, argv, options, 3, &config) != 0 ||
        !df_cli_int(&cmd, "seconds", seconds_text, 1, 3600, &seconds) ||
        !df_cli_int(&cmd, "group", group_text, 1, 4096, &l.group) || !df_cli_settings(&config, &s))
        return DF_EXIT_USAGE;
    df_log_init(DF_LOG_WARN, DF_LOG_AUTO, l.clock);
    l.ids = calloc((size_t)l.group, sizeof *l.ids);
    l.rows = calloc((size_t)l.group, sizeof *l.rows);
    if (!l.ids || !l.rows)
        abort();
    df_bench_payload(l.payload, sizeof l.payload, 0);
    struct df_err err = DF_ERR_INIT;
    enum df_code code = run_bench(&l, &s, direct, seconds, &err);
    free(l.ids);
    free(l.rows);
    df_settings_release(&s);
    return df_cli_result(&cmd, code, &err);
}
