/* dataflow key: the keys of what is stored. */
#include "app/audited.h"
#include "app/cli.h"
#include "app/rekey.h"

#define OUTPUT_MAX (4 << 20)

struct session {
    struct df_settings settings;
    struct df_data_keys *keys;
    struct df_db *db;
    struct df_arena arena;
    struct df_data_key *rows;
    bool json;
    struct df_buf out;
};

static enum df_code open_keys(struct session *s, struct df_err *err)
{
    enum df_code code = df_open_audited(&s->settings, s->settings.store.migrate, &s->db, err);

    s->keys = df_audited_keys();
    if (code == DF_OK)
        code = df_data_keys_read(s->db, &s->arena, &s->rows, err);
    return code;
}

/* --- list --- */

static void print_time(int64_t ms, struct df_buf *out)
{
    char text[DF_TIME_LEN + 1];

    if (ms >= 0)
        df_time_format(ms, text);
    df_buf_addf(out, "%-24s  ", ms >= 0 ? text : "-");
}

static void print_keys(const struct session *s, struct df_key_uses *uses, struct df_buf *out)
{
    const struct df_data_key *current = df_data_keys_current(s->rows, df_wall_ms(df_clock_real()));

    df_cli_heads(out, (const struct df_cli_head[]){{"ID", 4},
                                                   {"PURPOSE", 8},
                                                   {"CREATED", 25},
                                                   {"IN USE FROM", 25},
                                                   {"RETIRED", 25},
                                                   {"SECRETS", -8},
                                                   {"PAYLOADS", -9},
                                                   {"FILES", -8},
                                                   {"", 0},
                                                   {"MASTER KEY", 0},
                                                   {0}});
    for (const struct df_data_key *k = s->rows; k; k = k->next) {
        const struct df_key_use *use = df_key_uses_of(uses, k->id);
        df_buf_addf(out, "%-4u " DF_STR_FMT "%-*s ", (unsigned)k->id, DF_STR_ARG(k->purpose),
                    k->purpose.len < 8 ? (int)(8 - k->purpose.len) : 0, k == current ? "*" : "");
        print_time(k->created_ms, out);
        print_time(k->active_ms, out);
        print_time(k->retired_ms, out);
        df_buf_addf(out, "%8lld %9lld %8lld  " DF_STR_FMT "\n", (long long)use->secrets,
                    (long long)use->payloads, (long long)use->files, DF_STR_ARG(k->master_id));
    }
    for (const struct df_key_use *use = uses->first; use; use = use->next)
        if (df_key_use_is_lost(use, s->rows))
            df_cli_say(
                out,
                "Data key %u is LOST, and with it %lld secrets, %lld payloads and %lld files.\n",
                (unsigned)use->id, (long long)use->secrets, (long long)use->payloads,
                (long long)use->files);
    const struct df_key_use *others = df_key_uses_of(uses, 0);
    if (others->secrets + others->files > 0)
        df_cli_say(out, "Under no data key: %lld secrets, %lld files.\n",
                   (long long)others->secrets, (long long)others->files);
}

static enum df_code list_keys(struct session *s, struct df_err *err)
{
    struct df_key_uses uses = {.arena = &s->arena};
    const struct df_storage_options opt = {.data_dir = s->settings.data_dir,
                                           .settings = s->settings.storage,
                                           .keys = s->keys->ring,
                                           .clock = df_clock_real()};
    struct df_storage *storage = NULL;
    enum df_code code = df_key_uses_count(s->db, &uses, err);

    if (code == DF_OK)
        code = df_storage_new(&opt, &storage, err);
    if (code == DF_OK)
        code = df_rekey_count(s->db, storage, &uses, err);
    df_storage_free(storage);
    if (code == DF_OK && s->json) {
        struct df_json_out j;
        df_json_out_init(&j, &s->out);
        df_key_uses_json(&uses, s->rows, df_wall_ms(df_clock_real()), true, &j);
        df_buf_addc(&s->out, '\n');
    } else if (code == DF_OK) {
        print_keys(s, &uses, &s->out);
    }
    return code;
}

/* --- rotate --- */

static enum df_code store_key(struct session *s, const struct df_new_key *n, int64_t now_ms,
                              struct df_err *err)
{
    char actor[80];
    struct df_actor by = df_cli_actor(actor, sizeof actor);
    struct df_str target = df_arena_printf(&s->arena, "data key %u", (unsigned)n->id);
    enum df_code code = df_db_begin(s->db, true, err);

    if (code != DF_OK)
        return code;
    code = df_data_keys_add(s->keys, s->db, n, now_ms, err);
    if (code == DF_OK)
        code =
            df_audit_write(s->db, &by, "KeyRotated", target, DF_STR_NULL, DF_STR_NULL, now_ms, err);
    if (code == DF_OK)
        return df_db_commit(s->db, err);
    df_db_rollback(s->db);
    return code;
}

static enum df_code rotate_key(struct session *s, struct df_err *err)
{
    int64_t now_ms = df_wall_ms(df_clock_real());
    char active[DF_TIME_LEN + 1];
    struct df_new_key n;
    enum df_code code = df_data_keys_draw_on(s->keys, s->db, &n, err);

    if (code == DF_OK)
        code = store_key(s, &n, now_ms, err);
    if (code != DF_OK)
        return code;
    df_time_format(now_ms + DF_KEY_ACTIVATION_MS, active);
    if (s->json)
        df_buf_addf(&s->out, "{\"id\":%u,\"activeAt\":\"%s\"}\n", (unsigned)n.id, active);
    else
        df_cli_say(&s->out,
                   "Data key %u is used from %s on. Servers then encrypt anew what is under older\n"
                   "keys; `dataflow key list` tells how far they are.\n",
                   (unsigned)n.id, active);
    return DF_OK;
}

static int run_key(int argc, char **argv)
{
    struct session s = {.json = false};
    const struct df_option options[] = {{.name = "json", .kind = DF_OPT_FLAG, .flag = &s.json}};
    struct df_cli_config config = {0};
    struct df_err err = DF_ERR_INIT;
    int operands = df_cli_parse(&df_cmd_key, argc, argv, options, 1, &config);

    if (operands < 0)
        return DF_EXIT_USAGE;
    bool list = operands == 1 && strcmp(argv[0], "list") == 0;
    if (!list && (operands != 1 || strcmp(argv[0], "rotate") != 0)) {
        df_cli_complain(&df_cmd_key, "usage: dataflow key %s", df_cmd_key.usage);
        return DF_EXIT_USAGE;
    }
    if (!df_cli_settings(&config, &s.settings))
        return DF_EXIT_USAGE;
    df_log_init(DF_LOG_WARN, DF_LOG_AUTO, df_clock_real());
    df_buf_init(&s.out, OUTPUT_MAX);
    enum df_code code = open_keys(&s, &err);
    if (code == DF_OK)
        code = list ? list_keys(&s, &err) : rotate_key(&s, &err);
    df_close_audited(&s.settings, s.db, !list);
    df_arena_release(&s.arena);
    df_settings_release(&s.settings);
    if (code == DF_OK)
        return df_cli_print(&s.out);
    df_buf_release(&s.out);
    return df_cli_result(&df_cmd_key, code, &err);
}

const struct df_command df_cmd_key = {
    .name = "key",
    .usage = "list [--json] | rotate [--json]",
    .summary = "the keys of secrets and files, and a new data key",
    .help =
        "Secrets, kept payloads and files are under data keys, and these under the master key.\n"
        "After `rotate` servers encrypt anew what is under older keys, while they work.",
    .run = run_key,
};
