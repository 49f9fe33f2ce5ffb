/* dataflow: finds the subcommand and runs it. Each lives in a file of its own, cmd_*.c. */
#include "app/cli.h"
#include "app/server.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static int run_version(int argc, char **argv);
static int run_help(int argc, char **argv);

static const struct df_command cmd_version = {
    .name = "version", .usage = "", .summary = "print the version", .run = run_version};
static const struct df_command cmd_help = {.name = "help",
                                           .usage = "[COMMAND|config|routes]",
                                           .summary =
                                               "what a command, a configuration key or the API is",
                                           .run = run_help};

static const struct df_command *const commands[] = {
    &df_cmd_serve,   &df_cmd_migrate, &df_cmd_check_config, &df_cmd_client,  &df_cmd_policy,
    &df_cmd_import,  &df_cmd_outbox,  &df_cmd_relay,        &df_cmd_webhook, &df_cmd_backup,
    &df_cmd_restore, &df_cmd_sandbox, &cmd_version,         &cmd_help,
};
#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

static const struct df_command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static void print_overview(FILE *out)
{
    fputs("DataFlow " DF_VERSION ": accepts documents, keeps them, delivers them, proves it.\n\n",
          out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  dataflow %-13s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\n`dataflow help COMMAND` tells more. Every command that needs a database takes\n"
          "--config FILE and --set section.key=value.\n",
          out);
}

static int run_version(int argc, char **argv)
{
    int operands = df_cli_parse(&cmd_version, argc, argv, NULL, 0, NULL);
    if (operands > 0)
        df_cli_complain(&cmd_version, "unexpected argument \"%s\"", argv[0]);
    if (operands != 0)
        return DF_EXIT_USAGE;
    puts("dataflow " DF_VERSION);
    return DF_EXIT_OK;
}

static int run_help(int argc, char **argv)
{
    int operands = df_cli_parse(&cmd_help, argc, argv, NULL, 0, NULL);
    if (operands < 0)
        return DF_EXIT_USAGE;
    if (operands == 0) {
        print_overview(stdout);
        return DF_EXIT_OK;
    }
    struct df_buf out;
    df_buf_init(&out, 1 << 20);
    if (strcmp(argv[0], "config") == 0) {
        df_config_print_docs(&df_settings_table, &out);
        return df_cli_print(&out);
    }
    if (strcmp(argv[0], "routes") == 0) {
        df_server_print_routes(&out);
        return df_cli_print(&out);
    }
    const struct df_command *cmd = find_command(argv[0]);
    if (!cmd) {
        df_cli_complain(&cmd_help, "no command \"%s\"; `dataflow help` lists them", argv[0]);
        return DF_EXIT_USAGE;
    }
    df_buf_addf(&out, "dataflow %s %s\n\n%s\n", cmd->name, cmd->usage, cmd->summary);
    if (cmd->help)
        df_buf_addf(&out, "\n%s\n", cmd->help);
    return df_cli_print(&out);
}

int main(int argc, char **argv)
{
    signal(SIGPIPE,
           SIG_IGN); /* a peer or a pager that leaves is an error to report, not a reason to die */
    if (argc < 2) {
        print_overview(stderr);
        return DF_EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    const struct df_command *cmd = find_command(name);
    if (!cmd) {
        fprintf(stderr, "dataflow: no command \"%s\"; `dataflow help` lists them\n", name);
        return DF_EXIT_USAGE;
    }
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return run_help(2, (char *[]){argv[0], argv[1], NULL});
    return cmd->run(argc - 1, argv + 1);
}
