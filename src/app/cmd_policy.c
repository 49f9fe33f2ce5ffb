/* dataflow policy: the operations of /admin/clients/{clientId}/policy, directly on the database. */
#include "access/policies.h"
#include "app/audited.h"
#include "app/cli.h"
#include "app/database.h"

#include <stdio.h>

#define OUTPUT_MAX (1 << 20)
#define TRIES      5

struct session {
    struct df_settings settings;
    struct df_db *db;
    const struct df_clock *clock;
    bool json;
    struct df_buf out;
};

static void print_policy(struct session *s, struct df_str identifier, const struct df_policy *p)
{
    if (s->json) {
        struct df_json_out json;
        df_json_out_init(&json, &s->out);
        df_policy_write_json(identifier, p, &json);
        df_buf_addc(&s->out, '\n');
        return;
    }
    df_cli_heads(&s->out,
                 (const struct df_cli_head[]){{"POLICY", 27}, {"VALUE", 25}, {"MEANING", 0}, {0}});
    for (int i = 0; i < DF_POLICY_FIELD_COUNT; i++) {
        enum df_policy_field f = (enum df_policy_field)i;
        char text[DF_POLICY_WINDOW_MAX + 1];
        struct df_str value = df_policy_field_text(p, f, text);
        df_buf_addf(&s->out, "%-26s  %-24s  ", df_policy_field_column(f),
                    value.len ? value.ptr : "-");
        df_cli_say(&s->out, "%s\n", df_policy_field_help(f));
    }
}

/* --- set --- */

/* key=value; "key=" and "key=none" clear the field. */
static enum df_code read_pair(const char *arg, struct df_policy_patch *patch, struct df_err *err)
{
    struct df_str key;
    struct df_str value = df_str_cut(df_str_c(arg), '=', &key);
    enum df_policy_field f;
    if (!value.ptr)
        return df_err_set(err, DF_E_USAGE, "\"%s\" is not of the form key=value", arg);
    if (!df_policy_field_find(df_str_trim(key), &f))
        return df_err_set(err, DF_E_USAGE,
                          "there is no policy \"" DF_STR_FMT
                          "\"; `dataflow help policy` lists them",
                          DF_STR_ARG(key));
    if (df_str_ieq(df_str_trim(value), DF_STR("none")))
        value = DF_STR_NULL;
    struct df_err why = DF_ERR_INIT;
    if (df_policy_patch_set(patch, f, value, &why) != DF_OK)
        return df_err_set(err, DF_E_USAGE, "%s %s", df_policy_field_name(f), why.detail);
    return DF_OK;
}

static enum df_code change_once(struct session *s, struct df_str identifier,
                                const struct df_policy_patch *patch, struct df_policy *ret,
                                struct df_err *err)
{
    char actor[80];
    struct df_actor by = df_cli_actor(actor, sizeof actor);
    struct df_uuid client_id;
    enum df_code code = df_db_begin(s->db, true, err);
    if (code != DF_OK)
        return code;
    code = df_policy_change(s->db, identifier, patch, &by, s->clock, &client_id, ret, err);
    if (code == DF_OK)
        return df_db_commit(s->db, err);
    df_db_rollback(s->db);
    return code;
}

/* Again if a running server was in the way. */
static enum df_code change_policy(struct session *s, struct df_str identifier,
                                  const struct df_policy_patch *patch, struct df_policy *ret,
                                  struct df_err *err)
{
    enum df_code code = DF_E_DB_CONFLICT;

    for (int i = 0; i < TRIES && df_code_retry(code) == DF_RETRY_NOW; i++)
        code = change_once(s, identifier, patch, ret, err);
    return code;
}

static enum df_code perform_policy(struct session *s, int operands, char **argv, struct df_err *err)
{
    struct df_str identifier = df_str_c(argv[1]);
    struct df_policy_patch patch = {0};
    struct df_policy policy;
    enum df_code code = DF_OK;
    for (int i = 2; code == DF_OK && i < operands; i++)
        code = read_pair(argv[i], &patch, err);
    if (code == DF_OK)
        code = df_open_audited(&s->settings, s->settings.store.migrate, &s->db, err);
    if (code == DF_OK)
        code = operands > 2 ? change_policy(s, identifier, &patch, &policy, err)
                            : df_policy_get(s->db, identifier, NULL, &policy, err);
    if (code == DF_OK)
        print_policy(s, identifier, &policy);
    return code;
}

static bool is_verb(const char *verb, int operands)
{
    return (strcmp(verb, "show") == 0 && operands == 2) ||
           (strcmp(verb, "set") == 0 && operands > 2);
}

static int run_policy(int argc, char **argv)
{
    struct session s = {.clock = df_clock_real()};
    const struct df_option options[] = {
        {.name = "json", .kind = DF_OPT_FLAG, .flag = &s.json},
    };
    struct df_cli_config config = {0};
    int operands = df_cli_parse(&df_cmd_policy, argc, argv, options, 1, &config);
    if (operands < 0)
        return DF_EXIT_USAGE;
    if (operands == 0 || !is_verb(argv[0], operands)) {
        df_cli_complain(&df_cmd_policy, "usage: dataflow policy %s", df_cmd_policy.usage);
        return DF_EXIT_USAGE;
    }
    if (!df_cli_settings(&config, &s.settings))
        return DF_EXIT_USAGE;
    df_log_init(DF_LOG_WARN, DF_LOG_AUTO, s.clock);
    df_buf_init(&s.out, OUTPUT_MAX);

    struct df_err err = DF_ERR_INIT;
    enum df_code code = perform_policy(&s, operands, argv, &err);
    df_close_audited(&s.settings, s.db, true);
    df_settings_release(&s.settings);
    if (code == DF_OK)
        return df_cli_print(&s.out);
    df_buf_release(&s.out);
    return df_cli_result(&df_cmd_policy, code, &err);
}

/* clang-format off */
#define X(member, column, name, kind, min, max, help) "  " name ": " help "\n"
/* clang-format on */

const struct df_command df_cmd_policy = {
    .name = "policy",
    .usage = "show CLIENT [--json] | set CLIENT key=value... [--json]",
    .summary = "what a client may import, how much and when",
    .help = "Keys:\n" DF_POLICY_FIELDS(X) "key= or key=none clears it: no limit, or the server's "
                                          "default.\n"
                                          "Works on the database directly; a running server "
                                          "notices within 5 seconds.",
    .run = run_policy,
};
#undef X
