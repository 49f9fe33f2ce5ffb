/* dataflow(1), written from the table of commands in the macros of man(7). */
#include "app/commands.h"

#include <string.h>

/* Text in which roff finds nothing of its own. `line_start`: the text begins a line. */
static void add_roff(struct df_buf *out, const char *text, bool line_start)
{
    for (; *text; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            df_buf_addz(out, "\\&");
        line_start = *text == '\n';
        if (*text == '\\')
            df_buf_addz(out, "\\e");
        else if (*text == '-')
            df_buf_addz(out, "\\-");
        else if (*text == '`')
            df_buf_addz(out, "\\(ga");
        else
            df_buf_addc(out, *text);
    }
}

/* Preformatted text, as `dataflow help` shows it; empty lines are kept. */
static void add_block(struct df_buf *out, const char *text)
{
    df_buf_addz(out, ".PP\n.EX\n");
    add_roff(out, text, true);
    df_buf_addz(out, "\n.EE\n");
}

static void add_option(struct df_buf *out, const struct df_command_option *o)
{
    df_buf_addz(out, ".TP\n\\fB\\-\\-");
    add_roff(out, o->name, false);
    df_buf_addz(out, "\\fR");
    if (o->takes) {
        df_buf_addz(out, " \\fI");
        add_roff(out, o->takes, false);
        df_buf_addz(out, "\\fR");
    }
    df_buf_addc(out, '\n');
    add_roff(out, o->help, true);
    df_buf_addc(out, '\n');
}

static void add_verb(struct df_buf *out, const struct df_command_verb *v)
{
    df_buf_addz(out, ".TP\n\\fB");
    add_roff(out, v->name, false);
    df_buf_addz(out, "\\fR");
    if (*v->operands) {
        df_buf_addz(out, " \\fI");
        add_roff(out, v->operands, false);
        df_buf_addz(out, "\\fR");
    }
    df_buf_addc(out, '\n');
    add_roff(out, v->help, true);
    df_buf_addc(out, '\n');
}

static void add_command(struct df_buf *out, const struct df_command_entry *e)
{
    df_buf_addz(out, ".SS dataflow ");
    add_roff(out, e->command->name, false);
    df_buf_addc(out, '\n');
    add_roff(out, e->command->summary, true);
    df_buf_addz(out, ".\n");
    for (const struct df_command_verb *v = e->verbs; v && v->name; v++)
        add_verb(out, v);
    for (const struct df_command_option *o = e->options; o && o->name; o++)
        add_option(out, o);
    if (e->command->help)
        add_block(out, e->command->help);
}

static void add_synopsis(struct df_buf *out, const struct df_command_entry *e)
{
    df_buf_addz(out, ".PP\n\\fBdataflow ");
    add_roff(out, e->command->name, false);
    df_buf_addz(out, "\\fR\n");
    for (const struct df_command_verb *v = e->verbs; v && v->name; v++)
        df_buf_addf(out, "%s\\fB%s\\fR", v == e->verbs ? "" : " | ", v->name);
    if (e->operands) {
        df_buf_addz(out, "\\fI");
        add_roff(out, e->operands, false);
        df_buf_addz(out, "\\fR");
    }
    df_buf_addz(out, e->verbs || e->operands ? " [options]\n" : "[options]\n");
}

void df_commands_print_manual(struct df_buf *out)
{
    df_buf_addz(out, ".\\\" Written by `make docs` from the table of commands.\n"
                     ".TH DATAFLOW 1 2026-11-16 \"DataFlow " DF_VERSION "\" \"User Commands\"\n"
                     ".SH NAME\n"
                     "dataflow \\- integration server: accepts documents, keeps and delivers them\n"
                     ".SH SYNOPSIS\n"
                     "\\fBdataflow\\fR \\fIcommand\\fR [\\fIoptions\\fR]\n");
    for (const struct df_command_entry *e = df_commands; e->command; e++)
        add_synopsis(out, e);
    df_buf_addz(
        out, ".SH DESCRIPTION\n"
             "What the server answered with 2xx is on disk and will reach its destination.\n"
             "\\fBdataflow serve\\fR runs it; the other commands set it up and look after it.\n"
             "Commands that list or show take \\fB\\-\\-json\\fR.\n"
             ".SH OPTIONS\n"
             "Commands that need the configuration take these; \\fB\\-\\-help\\fR is for all.\n");
    for (const struct df_command_option *o = df_config_options; o->name; o++)
        add_option(out, o);
    df_buf_addz(out, ".SH COMMANDS\n");
    for (const struct df_command_entry *e = df_commands; e->command; e++)
        add_command(out, e);
    df_buf_addz(
        out, ".SH EXIT STATUS\n"
             "0: done. 1: the work failed, or \\fBdoctor\\fR found a problem. 2: wrong usage or\n"
             "configuration. Errors go to standard error, one line each.\n"
             ".SH ENVIRONMENT\n"
             ".TP\n\\fBDATAFLOW_CONFIG\\fR\nthe configuration file\n"
             ".TP\n\\fBDATAFLOW_\\fISECTION\\fB_\\fIKEY\\fR\na setting, over the file\n"
             ".TP\n\\fBDATAFLOW_CLIENT_ID\\fR, \\fBDATAFLOW_CLIENT_SECRET\\fR\n"
             "the client of \\fBdataflow import\\fR\n"
             ".SH SEE ALSO\n"
             "\\fBdataflow help config\\fR lists the settings, \\fBdataflow help routes\\fR the "
             "calls of the API.\n");
}
