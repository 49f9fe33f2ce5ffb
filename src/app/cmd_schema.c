/* migrate, check-config. */
#include "app/cli.h"
#include "app/database.h"
#include "base/escape.h"
#include "store/schema.h"

#include <stdio.h>

#define OUTPUT_MAX (16 << 20)

/* Parses options and settings. Returns the exit status, or -1 to go on. */
static int begin_command(const struct df_command *cmd, int argc, char **argv, int operands_wanted,
                         const struct df_option *options, size_t option_count,
                         struct df_settings *s, struct df_buf *warnings)
{
    struct df_cli_config config = {0};
    int operands = df_cli_parse(cmd, argc, argv, options, option_count, &config);
    if (operands < 0)
        return DF_EXIT_USAGE;
    if (operands != operands_wanted) {
        df_cli_complain(cmd, "usage: dataflow %s %s", cmd->name, cmd->usage);
        return DF_EXIT_USAGE;
    }
    return df_cli_settings_warned(&config, s, warnings) ? -1 : DF_EXIT_USAGE;
}

/* --- migrate --- */

static enum df_code migrate_database(const struct df_settings *s, size_t *ret_applied,
                                     struct df_err *err)
{
    struct df_db *db = NULL;
    enum df_code code = df_open_database(s, true, &db, ret_applied, err);
    if (code == DF_OK)
        df_db_close(db);
    return code;
}

static int print_scripts(const struct df_settings *s)
{
    struct df_err err = DF_ERR_INIT;
    enum df_dialect dialect;
    enum df_code code = df_db_dialect_of(s->store.url, &dialect, &err);
    if (code != DF_OK)
        return df_cli_result(&df_cmd_migrate, code, &err);
    struct df_buf out;
    df_buf_init(&out, OUTPUT_MAX);
    df_schema_print(dialect, &out);
    return df_cli_print(&out);
}

static int print_applied(size_t applied, bool json)
{
    struct df_buf out;
    df_buf_init(&out, 1024);
    if (json)
        df_buf_addf(&out, "{\"applied\":%zu}\n", applied);
    else
        df_cli_say(&out,
                   applied == 1 ? "%zu schema script applied\n" : "%zu schema scripts applied\n",
                   applied);
    return df_cli_print(&out);
}

static int run_migrate(int argc, char **argv)
{
    bool print = false, json = false;
    const struct df_option options[] = {{.name = "print", .kind = DF_OPT_FLAG, .flag = &print},
                                        {.name = "json", .kind = DF_OPT_FLAG, .flag = &json}};
    struct df_settings s;
    int status = begin_command(&df_cmd_migrate, argc, argv, 0, options, 2, &s, NULL);
    if (status >= 0)
        return status;
    if (print) {
        status = print_scripts(&s);
    } else {
        struct df_err err = DF_ERR_INIT;
        size_t applied = 0;
        status = df_cli_result(&df_cmd_migrate, migrate_database(&s, &applied, &err), &err);
        if (status == DF_EXIT_OK)
            status = print_applied(applied, json);
    }
    df_settings_release(&s);
    return status;
}

const struct df_command df_cmd_migrate = {
    .name = "migrate",
    .usage = "[--config FILE] [--print | --json]",
    .summary = "apply (or print) the idempotent schema scripts",
    .run = run_migrate,
};

/* --- check-config --- */

static void print_warning(const char *line)
{
    fprintf(stderr, "%s: %s\n", df_cli_text("warning"), df_cli_text(line));
}

static void add_warnings(struct df_str warnings, struct df_buf *out)
{
    struct df_str line;
    const char *gap = "\"";
    while (warnings.len > 0) {
        warnings = df_str_cut(warnings, '\n', &line);
        if (line.len == 0)
            continue;
        df_buf_addz(out, gap);
        df_buf_add_escaped(out, line);
        df_buf_addc(out, '"');
        gap = ",\"";
    }
}

/* {"settings": {section: {key: value}}, "warnings": […]} */
static void add_config(const struct df_settings *s, struct df_str warnings, struct df_buf *out)
{
    df_buf_addz(out, "{\"settings\":");
    df_config_print_json(&df_settings_table, s, out);
    df_buf_addz(out, ",\"warnings\":[");
    add_warnings(warnings, out);
    df_buf_addz(out, "]}\n");
}

static int run_check_config(int argc, char **argv)
{
    bool json = false;
    const struct df_option options[] = {{.name = "json", .kind = DF_OPT_FLAG, .flag = &json}};
    struct df_settings s;
    struct df_buf warnings;
    df_buf_init(&warnings, DF_CLI_WARNINGS_MAX);
    int status = begin_command(&df_cmd_check_config, argc, argv, 0, options, 1, &s, &warnings);
    if (status >= 0) {
        df_buf_release(&warnings);
        return status;
    }
    struct df_buf out;
    df_buf_init(&out, OUTPUT_MAX);
    if (json) {
        add_config(&s, df_buf_str(&warnings), &out);
        df_buf_release(&warnings);
    } else {
        df_cli_each_line(&warnings, print_warning);
        df_config_print(&df_settings_table, &s, &out);
    }
    df_settings_release(&s);
    return df_cli_print(&out);
}

const struct df_command df_cmd_check_config = {
    .name = "check-config",
    .usage = "[--config FILE] [--json]",
    .summary = "validate and print the effective configuration, secrets hidden",
    .help =
        "What is valid and yet unwise (a short admin key, a secret's file that others can read, a\n"
        "database that is not verified) is warned of on standard error; the server's log has it "
        "too.",
    .run = run_check_config,
};
