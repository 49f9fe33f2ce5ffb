/* dataflow owners: what /admin/owners shows, directly from the database. */
#include "admin/owners.h"
#include "app/cli.h"
#include "app/database.h"

#include <stdio.h>

#define OUTPUT_MAX (4 << 20)

static void print_shards(const struct df_work_owners *w, size_t owner, struct df_buf *out)
{
    for (size_t i = 0; i < w->shards_count; i++) {
        if (w->shards[i].owner == owner)
            df_buf_addf(out, "  %s %d", w->shards[i].channel,
                        __builtin_popcount(w->shards[i].shards));
    }
    df_buf_addc(out, '\n');
}

static void print_owners(const struct df_work_owners *w, struct df_buf *out)
{
    df_cli_heads(out, (const struct df_cli_head[]){{"PROCESS", 32},
                                                   {"VERSION", 10},
                                                   {"STARTED", 25},
                                                   {"LEASE UNTIL", 25},
                                                   {"SHARDS BY CHANNEL", 0},
                                                   {0}});
    for (size_t i = 0; i < w->count; i++) {
        const struct df_work_owner *o = &w->owners[i];
        char started[DF_TIME_LEN + 1], until[DF_TIME_LEN + 1];
        df_time_format(o->started_ms, started);
        df_time_format(o->lease_until_ms, until);
        df_buf_addf(out, "%-32s %-10s %s  %s", o->name, o->version, started, until);
        if (o->lease_until_ms < o->now_ms)
            df_cli_say(out, " (late)");
        print_shards(w, i, out);
    }
    for (size_t i = 0; i < w->shards_count; i++) {
        if (w->shards[i].owner == w->count) {
            df_cli_say(out, "Without an owner:");
            print_shards(w, w->count, out);
            break;
        }
    }
}

static enum df_code show_owners(const struct df_settings *set, bool json, struct df_buf *out,
                                struct df_err *err)
{
    struct df_db *db = NULL;
    struct df_work_owners owners = {0};
    enum df_code code = df_open_database(set, set->store.migrate, &db, NULL, err);
    if (code == DF_OK)
        code = df_work_owners_read(db, &owners, err);
    if (code == DF_OK && json) {
        struct df_json_out j;
        df_json_out_init(&j, out);
        df_work_owners_json(&owners, &j);
        df_buf_addc(out, '\n');
    } else if (code == DF_OK) {
        print_owners(&owners, out);
    }
    df_work_owners_release(&owners);
    df_db_close(db);
    return code;
}

static int run_owners(int argc, char **argv)
{
    bool json = false;
    const struct df_option options[] = {{.name = "json", .kind = DF_OPT_FLAG, .flag = &json}};
    struct df_cli_config config = {0};
    struct df_settings settings = {0};
    struct df_buf out;
    struct df_err err = DF_ERR_INIT;

    int operands = df_cli_parse(&df_cmd_owners, argc, argv, options, 1, &config);
    if (operands != 0) {
        if (operands > 0)
            df_cli_complain(&df_cmd_owners, "usage: dataflow owners %s", df_cmd_owners.usage);
        return DF_EXIT_USAGE;
    }
    if (!df_cli_settings(&config, &settings))
        return DF_EXIT_USAGE;
    df_log_init(DF_LOG_WARN, DF_LOG_AUTO, df_clock_real());
    df_buf_init(&out, OUTPUT_MAX);
    enum df_code code = show_owners(&settings, json, &out, &err);
    df_settings_release(&settings);
    if (code == DF_OK)
        return df_cli_print(&out);
    df_buf_release(&out);
    return df_cli_result(&df_cmd_owners, code, &err);
}

const struct df_command df_cmd_owners = {
    .name = "owners",
    .usage = "[--json]",
    .summary = "the processes that share the work, and what each owns",
    .help = "The work of a channel is 16 shards, each owned by one process under a lease.",
    .run = run_owners,
};
