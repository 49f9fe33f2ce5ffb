/* dataflow retention: a run of the job now, and the space of an older SQLite file. */
#include "app/audited.h"
#include "app/cli.h"
#include "app/database.h"
#include "files/storage.h"
#include "retention/retention.h"
#include "json/write.h"

#include <stdio.h>

#define OUTPUT_MAX (1 << 20)

struct retention_call {
    struct df_settings settings;
    bool dry_run, json;
    struct df_buf out;
};

static void print_counts(struct retention_call *c, const struct df_retention_count *counts,
                         size_t count)
{
    struct df_json_out j;

    if (c->json) {
        df_json_out_init(&j, &c->out);
        df_json_open(&j, '{');
        df_json_kv_bool(&j, "dryRun", c->dry_run);
        df_json_key(&j, c->dry_run ? "over" : "removed");
        df_json_open(&j, '{');
        for (size_t i = 0; i < count; i++)
            df_json_kv_int(&j, counts[i].kind, counts[i].rows);
        df_json_close(&j, '}');
        df_json_close(&j, '}');
        df_buf_addc(&c->out, '\n');
        return;
    }
    df_cli_heads(&c->out, (const struct df_cli_head[]){
                              {"KIND", 16}, {c->dry_run ? "OVER" : "REMOVED", -12}, {0}});
    for (size_t i = 0; i < count; i++)
        df_buf_addf(&c->out, "%-16s %12lld\n", counts[i].kind, (long long)counts[i].rows);
}

static enum df_code run_now(struct retention_call *c, struct df_err *err)
{
    const struct df_settings *set = &c->settings;
    const struct df_storage_options files = {
        .data_dir = set->data_dir, .settings = set->storage, .clock = df_clock_real()};
    struct df_retention_count counts[DF_RETENTION_KINDS_MAX];
    struct df_storage *storage = NULL;
    struct df_store *store = NULL;
    struct df_db *db = NULL;
    size_t count = 0;

    enum df_code code = df_open_audited(set, set->store.migrate, &db, err);
    if (code == DF_OK)
        code = df_store_open(
            &(struct df_store_options){.settings = set->store, .clock = df_clock_real()}, &store,
            err);
    if (code == DF_OK)
        code = df_storage_new(&files, &storage, err);
    if (code == DF_OK && c->dry_run) {
        code = df_retention_count(store, &set->retention, df_wall_ms(df_clock_real()), counts,
                                  &count, err);
    } else if (code == DF_OK) {
        struct df_retention *r =
            df_retention_new(&(struct df_retention_options){.url = set->store.url,
                                                            .store = store,
                                                            .storage = storage,
                                                            .clock = df_clock_real(),
                                                            .settings = set->retention});
        code = df_retention_run(r, counts, &count, err);
        df_retention_free(r);
    }
    if (code == DF_OK)
        print_counts(c, counts, count);
    df_store_close(store);
    df_storage_free(storage);
    df_close_audited(set, db, code == DF_OK);
    return code;
}

static enum df_code rewrite_file(struct retention_call *c, struct df_err *err)
{
    struct df_db *db = NULL;
    int64_t left = 0;
    enum df_code code = df_open_database(&c->settings, c->settings.store.migrate, &db, NULL, err);

    if (code == DF_OK && df_db_dialect(db) != DF_SQLITE)
        code = df_err_set(err, DF_E_USAGE, "only an SQLite file is written anew");
    if (code == DF_OK)
        code = df_db_give_back(db, DF_SPACE_ALL, &left, err);
    if (code == DF_OK)
        df_cli_say(&c->out,
                   "the file was written anew; from now on space is given back by itself\n");
    df_db_close(db);
    return code;
}

static int run_retention(int argc, char **argv)
{
    struct retention_call c = {.dry_run = false};
    const struct df_option options[] = {
        {.name = "dry-run", .kind = DF_OPT_FLAG, .flag = &c.dry_run},
        {.name = "json", .kind = DF_OPT_FLAG, .flag = &c.json},
    };
    struct df_cli_config config = {0};
    int operands = df_cli_parse(&df_cmd_retention, argc, argv, options, 2, &config);

    if (operands < 0)
        return DF_EXIT_USAGE;
    bool run = operands == 1 && strcmp(argv[0], "run") == 0;
    bool vacuum = operands == 1 && strcmp(argv[0], "vacuum") == 0 && !c.dry_run && !c.json;
    if (!run && !vacuum) {
        df_cli_complain(&df_cmd_retention, "usage: dataflow retention %s", df_cmd_retention.usage);
        return DF_EXIT_USAGE;
    }
    if (!df_cli_settings(&config, &c.settings))
        return DF_EXIT_USAGE;
    df_log_init(DF_LOG_WARN, DF_LOG_AUTO, df_clock_real());
    df_buf_init(&c.out, OUTPUT_MAX);
    struct df_err err = DF_ERR_INIT;
    enum df_code code = run ? run_now(&c, &err) : rewrite_file(&c, &err);
    df_settings_release(&c.settings);
    if (code == DF_OK)
        return df_cli_print(&c.out);
    df_buf_release(&c.out);
    return df_cli_result(&df_cmd_retention, code, &err);
}

const struct df_command df_cmd_retention = {
    .name = "retention",
    .usage = "run [--dry-run] [--json] | vacuum",
    .summary = "remove what has been over for long",
    .help =
        "run does what the server does every hour: it removes what has been over for longer than\n"
        "[retention] says, in small steps, beside a running server. --dry-run only counts.\n"
        "vacuum writes an SQLite file anew that an older version made, once, so that it gives\n"
        "space back from then on; stop the server first. It needs as much free room as the file.",
    .run = run_retention,
};
