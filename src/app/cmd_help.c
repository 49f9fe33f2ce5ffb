/* dataflow version, dataflow help. */
#include "app/commands.h"
#include "app/server.h"
#include "base/metrics.h"
#include "base/suggest.h"
#include "net/http.h"
#include "json/write.h"

#include <stdio.h>
#include <string.h>

#define PART_MIN    4
#define PARTS_SHOWN 5

static int run_version(int argc, char **argv)
{
    bool json = false;
    const struct df_option options[] = {{.name = "json", .kind = DF_OPT_FLAG, .flag = &json}};
    int operands = df_cli_parse(&df_cmd_version, argc, argv, options, 1, NULL);
    if (operands > 0)
        df_cli_complain(&df_cmd_version, "unexpected argument \"%s\"", argv[0]);
    if (operands != 0)
        return DF_EXIT_USAGE;
    struct df_buf out;
    df_buf_init(&out, 1024);
    df_buf_addz(&out, json ? "{\"version\":\"" DF_VERSION "\"}\n" : "dataflow " DF_VERSION "\n");
    return df_cli_print(&out);
}

const struct df_command df_cmd_version = {
    .name = "version", .usage = "[--json]", .summary = "print the version", .run = run_version};

void df_cli_no_command(const char *name)
{
    struct df_suggest near = {.typed = df_str_c(name)};
    char line[256];

    for (const struct df_command_entry *e = df_commands; e->command; e++)
        df_suggest_try(&near, e->command->name);
    if (name[0] == '-') {
        df_suggest_try(&near, "--help");
        df_suggest_try(&near, "--version");
    }
    if (near.best)
        (void)snprintf(line, sizeof line,
                       "no command \"%.100s\"; did you mean %s? `dataflow help` lists them", name,
                       near.best);
    else
        (void)snprintf(line, sizeof line, "no command \"%.100s\"; `dataflow help` lists them",
                       name);
    fprintf(stderr, "dataflow: %s\n", df_cli_text(line));
}

void df_cli_overview(struct df_buf *out)
{
    df_buf_addf(out, "DataFlow " DF_VERSION ": %s\n\n",
                df_cli_text("accepts documents, keeps them, delivers them, proves it."));
    for (const struct df_command_entry *e = df_commands; e->command; e++)
        df_buf_addf(out, "  dataflow %-13s %s\n", e->command->name,
                    df_cli_text(e->command->summary));
    df_buf_addf(
        out, "\n%s\n",
        df_cli_text(
            "`dataflow help COMMAND` tells more, `dataflow help SECTION.KEY` what a setting "
            "is.\nEvery command that needs a database takes --config FILE and --set "
            "section.key=value."));
}

static void print_metrics(struct df_buf *out)
{
    df_http_metrics_define("dataflow");
    df_metrics_write_docs(out);
}

static bool print_topic(const char *topic, struct df_buf *out)
{
    if (strcmp(topic, "config") == 0)
        df_config_print_docs(&df_settings_table, out);
    else if (strcmp(topic, "routes") == 0)
        df_server_print_routes(out);
    else if (strcmp(topic, "metrics") == 0)
        print_metrics(out);
    else if (strcmp(topic, "man") == 0)
        df_commands_print_manual(out);
    else
        return false;
    return true;
}

static void add_verbs(struct df_buf *out, const struct df_command_verb *v)
{
    for (; v && v->name; v++) {
        char left[80];
        (void)snprintf(left, sizeof left, "%s %s", v->name, v->operands);
        df_buf_addf(out, "  %-30s %s\n", left, df_cli_text(v->help));
    }
}

static void add_options(struct df_buf *out, const struct df_command_option *o)
{
    for (; o && o->name; o++) {
        char left[80];
        (void)snprintf(left, sizeof left, "--%s%s%s", o->name, o->takes ? " " : "",
                       o->takes ? o->takes : "");
        df_buf_addf(out, "  %-30s %s\n", left, df_cli_text(o->help));
    }
}

/* A text that is put together, as that of `policy`, is known line by line. */
static void add_help(struct df_buf *out, const char *help)
{
    struct df_arena a = {0};
    struct df_str line, rest = df_str_c(help);
    const char *whole = df_cli_text(help);

    df_buf_addc(out, '\n');
    if (whole != help)
        df_buf_addf(out, "%s\n", whole);
    while (whole == help && rest.len > 0) {
        rest = df_str_cut(rest, '\n', &line);
        df_cli_say_behind(out, df_arena_cstr(&a, line));
    }
    df_arena_release(&a);
}

static void print_command(const struct df_command_entry *e, struct df_buf *out)
{
    const struct df_command *cmd = e->command;
    df_buf_addf(out, "dataflow %s %s\n\n%s\n", cmd->name, cmd->usage, df_cli_text(cmd->summary));
    if (e->verbs)
        df_buf_addc(out, '\n');
    add_verbs(out, e->verbs);
    if (e->options || e->configured)
        df_buf_addc(out, '\n');
    add_options(out, e->options);
    add_options(out, e->configured ? df_config_options : NULL);
    if (cmd->help)
        add_help(out, cmd->help);
}

/* Whether it was said in which keys the name is: a piece of one is too far from all of them. */
static bool complain_of_part(const char *name)
{
    char keys[256] = "";
    size_t count = 0, len = 0;

    for (const struct df_config_section *s = df_settings_table.sections;
         strlen(name) >= PART_MIN && s->name; s++)
        for (const struct df_config_key *k = s->keys; k->key && count <= PARTS_SHOWN; k++) {
            char key[128];
            (void)snprintf(key, sizeof key, "%s.%s", s->name, k->key);
            if (!strcasestr(key, name))
                continue;
            len += (size_t)snprintf(keys + len, sizeof keys - len, "%s%s", count > 0 ? ", " : "",
                                    count < PARTS_SHOWN ? key : "…");
            len = len < sizeof keys ? len : sizeof keys - 1;
            count++;
        }
    if (count > 0)
        df_cli_complain(&df_cmd_help, "no command and no setting \"%.100s\"; it is part of: %s",
                        name, keys);
    else if (strchr(name, '.'))
        df_cli_complain(&df_cmd_help, "no setting \"%.100s\"; `dataflow help config` lists them",
                        name);
    return count > 0 || strchr(name, '.');
}

/* False: there is neither a command nor a key of this name, which was printed. */
static bool print_key(const char *name, struct df_buf *out)
{
    struct df_arena a = {0};
    const char *near = NULL;
    bool known =
        df_config_print_key(&df_settings_table, df_str_c(name), df_cli_lang(), &a, out, &near);

    if (!known && near)
        df_cli_complain(&df_cmd_help, "no command and no setting \"%s\"; did you mean %s?", name,
                        near);
    else if (!known && !complain_of_part(name))
        df_cli_no_command(name);
    df_arena_release(&a);
    return known;
}

static int run_help(int argc, char **argv)
{
    int operands = df_cli_parse(&df_cmd_help, argc, argv, NULL, 0, NULL);
    if (operands < 0)
        return DF_EXIT_USAGE;
    struct df_buf out;
    df_buf_init(&out, 1 << 20);
    if (operands == 0) {
        df_cli_overview(&out);
        return df_cli_print(&out);
    }
    if (print_topic(argv[0], &out))
        return df_cli_print(&out);
    const struct df_command_entry *e = df_command_find(argv[0]);
    if (e)
        print_command(e, &out);
    else if (!print_key(argv[0], &out))
        return DF_EXIT_USAGE;
    return df_cli_print(&out);
}

const struct df_command df_cmd_help = {
    .name = "help",
    .usage = "[COMMAND|SECTION|[SECTION.]KEY|config|routes|metrics|man]",
    .summary = "what a command, a configuration key, a metric or the API is",
    .run = run_help};
