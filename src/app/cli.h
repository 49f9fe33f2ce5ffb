/* Command line: one file a subcommand, one small option parser for all of them. */
#ifndef DF_APP_CLI_H
#define DF_APP_CLI_H

#include "access/audit.h"
#include "app/settings.h"

enum df_exit { DF_EXIT_OK = 0, DF_EXIT_FAILED = 1, DF_EXIT_USAGE = 2 };

struct df_command {
    const char *name;
    const char *usage;                 /* after the name */
    const char *summary;               /* one line */
    const char *help;                  /* more, for `help NAME`; may be NULL */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
};

extern const struct df_command df_cmd_serve, df_cmd_migrate, df_cmd_check_config, df_cmd_client,
    df_cmd_batch, df_cmd_ticket, df_cmd_alerts, df_cmd_policy, df_cmd_import, df_cmd_outbox,
    df_cmd_owners, df_cmd_mask, df_cmd_audit, df_cmd_retention, df_cmd_purge, df_cmd_subjects,
    df_cmd_key, df_cmd_relay, df_cmd_webhook, df_cmd_backup, df_cmd_restore, df_cmd_sandbox,
    df_cmd_doctor, df_cmd_completion, df_cmd_version, df_cmd_help;

enum df_option_kind { DF_OPT_FLAG, DF_OPT_VALUE };

struct df_option {
    const char *name; /* without the dashes */
    enum df_option_kind kind;
    union {
        bool *flag;
        const char **value;
    };
};

#define DF_CLI_SETS_MAX 64

/* What --config and --set gave; every command takes them. */
struct df_cli_config {
    const char *file;
    const char *sets[DF_CLI_SETS_MAX];
    size_t set_count;
};

/*
 * Takes options out of argv (--name value, --name=value), leaves the operands in argv[0..count) and
 * returns their count, or -1 after an error message. "--" ends the options. config NULL: the
 * command has no configuration. Every option must be in the table of commands (commands.h).
 */
int df_cli_parse(const struct df_command *cmd, int argc, char **argv,
                 const struct df_option *options, size_t option_count,
                 struct df_cli_config *config);

/* Loads the settings; false: it has printed every complaint on standard error. */
bool df_cli_settings(const struct df_cli_config *config, struct df_settings *s);
/* The same; settings that are valid but unwise are added to warnings (may be NULL), one a line. */
bool df_cli_settings_warned(const struct df_cli_config *config, struct df_settings *s,
                            struct df_buf *warnings);
#define DF_CLI_WARNINGS_MAX (256 << 10)
/* Calls `each` for each line of the text; a very long line is cut. */
void df_cli_each_line(struct df_buf *take_text, void (*each)(const char *line));

/* The language of whoever is at the terminal, by LC_ALL, LC_MESSAGES or LANG. */
enum df_lang df_cli_lang(void);
/* A text in that language. It stays until the process ends. */
const char *df_cli_text(const char *english);

/* Whatever a command prints for people goes through these two, in that language; what is data, a
 * code or JSON does not. tools/lint finds words that do not. A line's end is not translated. */
void df_cli_say(struct df_buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A line "NAME: text": the whole if it is known, else what is behind the name. */
void df_cli_say_behind(struct df_buf *out, const char *line);
/* A word, filled up with blanks: behind it, or before it if the width is negative. */
void df_cli_cell(struct df_buf *out, const char *english, int width);

/* A column's heading: its width as above, or 0 for the last one, which is not filled up. */
struct df_cli_head {
    const char *name;
    int width;
};
/* The line above a table, a blank between columns. The table ends with a name that is NULL. */
void df_cli_heads(struct df_buf *out, const struct df_cli_head *heads);

/* "dataflow CMD: message" on standard error, in the user's language. */
void df_cli_complain(const struct df_command *cmd, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints err, if there is one, and returns the exit status for code. */
int df_cli_result(const struct df_command *cmd, enum df_code code, const struct df_err *err);

/* Reads an option's number; false: it is none or out of range, and that was printed. */
bool df_cli_int(const struct df_command *cmd, const char *option, const char *text, int64_t min,
                int64_t max, int64_t *ret);

/* Says that there is no such command, and which is meant. */
void df_cli_no_command(const char *name);

/* Writes the list of commands. */
void df_cli_overview(struct df_buf *out);

/* Writes a buffer to standard output and releases it; DF_EXIT_FAILED if that fails. */
int df_cli_print(struct df_buf *take_text);

/* The user at the terminal, for the audit log. The name is written to buf. */
struct df_actor df_cli_actor(char *buf, size_t size);

#endif
