/* dataflow: finds the subcommand and runs it. Each lives in a file of its own, cmd_*.c; the table
 * of them is commands.c. */
#include "app/commands.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static int print_overview_to_stderr(void)
{
    struct df_buf out;
    df_buf_init(&out, 1 << 16);
    df_cli_overview(&out);
    fputs(df_buf_str(&out).ptr, stderr);
    df_buf_release(&out);
    return DF_EXIT_USAGE;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE,
           SIG_IGN); /* a peer or a pager that leaves is an error to report, not a reason to die */
    if (argc < 2)
        return print_overview_to_stderr();
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = "version";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    const struct df_command_entry *e = df_command_find(name);
    if (!e) {
        df_cli_no_command(name);
        return DF_EXIT_USAGE;
    }
    for (int i = 2; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return df_cmd_help.run(2, (char *[]){argv[0], argv[1], NULL});
    return e->command->run(argc - 1, argv + 1);
}
