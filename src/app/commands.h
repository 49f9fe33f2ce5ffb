/*
 * The table of commands: what main runs, `help` lists, `completion` completes and dataflow(1) says.
 * The commands themselves are in cmd_*.c. df_cli_parse asserts that every option a command binds is
 * in the table.
 */
#ifndef DF_APP_COMMANDS_H
#define DF_APP_COMMANDS_H

#include "app/cli.h"

/* A table of options or verbs ends with a name that is NULL. */
struct df_command_option {
    const char *name;  /* without the dashes */
    const char *takes; /* what its value is, in capitals (FILE is completed as one); NULL: a flag */
    const char *choices; /* the values, separated by blanks; NULL: any */
    const char *help;
};

struct df_command_verb {
    const char *name;
    const char *operands; /* behind the verb; "" */
    const char *options;  /* the names of those that it takes, separated by blanks; "" */
    const char *help;
};

struct df_command_entry {
    const struct df_command *command;
    bool configured;      /* takes --config and --set */
    const char *operands; /* of a command without verbs; a choice is separated by '|' */
    const struct df_command_verb *verbs;
    const struct df_command_option *options;
};

/* Ends with a command that is NULL. */
extern const struct df_command_entry df_commands[];
/* --config and --set. */
extern const struct df_command_option df_config_options[];

/* NULL: there is none. */
const struct df_command_entry *df_command_find(const char *name);
const struct df_command_option *df_command_option(const struct df_command_entry *e,
                                                  struct df_str name);

/* Writes dataflow(1), for `make docs`. */
void df_commands_print_manual(struct df_buf *out);

#endif
