/*
 * dataflow completion: scripts for bash, zsh and fish, written from the table of commands and the
 * settings' tables. The scripts hold all names, so that completing starts no program.
 */
#include "app/commands.h"

#include <stdio.h>
#include <string.h>

/* Calls `each` for each word of a list separated by blanks. */
static void each_word(const char *words, void (*each)(void *arg, struct df_str word), void *arg)
{
    struct df_str word, rest = df_str_c(words ? words : "");
    while (rest.len > 0) {
        rest = df_str_cut(rest, ' ', &word);
        if (word.len > 0)
            each(arg, word);
    }
}

static void add_settings(struct df_buf *out, const char *between)
{
    const char *gap = "";
    for (const struct df_config_section *s = df_settings_table.sections; s->name; s++)
        for (const struct df_config_key *k = s->keys; k->key; k++) {
            df_buf_addf(out, "%s%s.%s=", gap, s->name, k->key);
            gap = between;
        }
    for (const struct df_config_group_at *g = df_settings_table.groups; g->group; g++)
        df_buf_addf(out, "%s%s.", between, g->group->prefix);
}

static bool is_file(const char *takes)
{
    return takes && (strcmp(takes, "FILE") == 0 || strcmp(takes, "REQUEST") == 0);
}

/* --- bash --- */

static void add_bash_option(void *arg, struct df_str name)
{
    df_buf_addf(arg, " --" DF_STR_FMT, DF_STR_ARG(name));
}

/* The options of a verb, or of the command if it has none. */
static void add_bash_options(struct df_buf *out, const struct df_command_entry *e,
                             const char *names)
{
    if (names)
        each_word(names, add_bash_option, out);
    else
        for (const struct df_command_option *o = e->options; o && o->name; o++)
            add_bash_option(out, df_str_c(o->name));
    for (const struct df_command_option *o = df_config_options; e->configured && o->name; o++)
        add_bash_option(out, df_str_c(o->name));
    add_bash_option(out, DF_STR("help"));
}

static void add_bash_values(struct df_buf *out, const struct df_command_option *o)
{
    if (strcmp(o->name, "set") == 0)
        return; /* has a case of its own */
    if (o->choices)
        df_buf_addf(out, "        --%s) COMPREPLY=($(compgen -W \"%s\" -- \"$cur\")); return ;;\n",
                    o->name, o->choices);
    else if (is_file(o->takes))
        df_buf_addf(out, "        --%s) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n",
                    o->name);
    else if (o->takes)
        df_buf_addf(out, "        --%s) return ;;\n", o->name);
}

static void add_bash_operands(struct df_buf *out, const struct df_command_entry *e)
{
    struct df_str word, rest = df_str_c(e->operands);
    const char *gap = "";
    if (strcmp(e->operands, "FILE") == 0) {
        df_buf_addz(out, "            COMPREPLY=($(compgen -f -- \"$cur\"))\n");
        return;
    }
    df_buf_addz(out, "            COMPREPLY=($(compgen -W \"");
    if (strcmp(e->operands, "COMMAND") == 0) {
        df_buf_addz(out, "$commands config routes man");
    } else {
        while (rest.len > 0) {
            rest = df_str_cut(rest, '|', &word);
            df_buf_addf(out, "%s" DF_STR_FMT, gap, DF_STR_ARG(word));
            gap = " ";
        }
    }
    df_buf_addz(out, "\" -- \"$cur\"))\n");
}

static void add_bash_command(struct df_buf *out, const struct df_command_entry *e)
{
    df_buf_addf(out, "    %s)\n        case $prev in\n", e->command->name);
    for (const struct df_command_option *o = e->options; o && o->name; o++)
        add_bash_values(out, o);
    for (const struct df_command_option *o = df_config_options; e->configured && o->name; o++)
        add_bash_values(out, o);
    df_buf_addz(out, "        esac\n");
    for (const struct df_command_verb *v = e->verbs; v && v->name; v++) {
        df_buf_addf(out, "        [[ $verb == %s ]] && options=\"", v->name);
        add_bash_options(out, e, v->options);
        df_buf_addz(out, "\"\n");
    }
    if (!e->verbs) {
        df_buf_addz(out, "        options=\"");
        add_bash_options(out, e, NULL);
        df_buf_addz(out, "\"\n");
    }
    if (e->verbs) {
        df_buf_addz(out, "        if [[ -z $verb && $cur != -* ]]; then\n"
                         "            COMPREPLY=($(compgen -W \"");
        for (const struct df_command_verb *v = e->verbs; v->name; v++)
            df_buf_addf(out, "%s%s", v == e->verbs ? "" : " ", v->name);
        df_buf_addz(out, "\" -- \"$cur\"))\n            return\n        fi\n");
    } else if (e->operands) {
        df_buf_addz(out, "        if [[ $cur != -* ]]; then\n");
        add_bash_operands(out, e);
        df_buf_addz(out, "            return\n        fi\n");
    }
    df_buf_addz(out, "        ;;\n");
}

static void add_command_names(struct df_buf *out)
{
    for (const struct df_command_entry *e = df_commands; e->command; e++)
        df_buf_addf(out, "%s%s", e == df_commands ? "" : " ", e->command->name);
}

/* bash takes '=' for the end of a word: `--set a.b=` is four words, of which the name is before
 * the '='. */
static void write_bash(struct df_buf *out)
{
    df_buf_addz(out, "# bash completion for dataflow; written by `dataflow completion bash`\n"
                     "_dataflow() {\n"
                     "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                     "    local command=${COMP_WORDS[1]} verb= options=\" --help\" commands=\"");
    add_command_names(out);
    df_buf_addz(out,
                "\"\n"
                "    COMPREPLY=()\n"
                "    if ((COMP_CWORD == 1)); then\n"
                "        COMPREPLY=($(compgen -W \"$commands --help --version\" -- \"$cur\"))\n"
                "        return\n"
                "    fi\n"
                "    if ((COMP_CWORD > 2)) && [[ ${COMP_WORDS[2]} != -* ]]; then\n"
                "        verb=${COMP_WORDS[2]}\n"
                "    fi\n"
                "    if [[ $prev == --set ]]; then\n"
                "        compopt -o nospace 2>/dev/null\n"
                "        COMPREPLY=($(compgen -W \"");
    add_settings(out, " ");
    df_buf_addz(out, "\" -- \"$cur\"))\n        return\n    fi\n    case $command in\n");
    for (const struct df_command_entry *e = df_commands; e->command; e++)
        add_bash_command(out, e);
    df_buf_addz(out, "    esac\n"
                     "    [[ $cur == -* ]] && COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
                     "}\n"
                     "complete -F _dataflow dataflow\n");
}

/* --- zsh --- */

/* Text between single quotes, in which zsh and fish take \\ and ' apart. */
static void add_quoted(struct df_buf *out, const char *text, const char *special)
{
    for (; *text; text++) {
        if (*text == '\'')
            df_buf_addz(out, "’");
        else if (strchr(special, *text))
            df_buf_addf(out, "\\%c", *text);
        else
            df_buf_addc(out, *text);
    }
}

static void add_zsh_option(struct df_buf *out, const struct df_command_option *o)
{
    bool many = strcmp(o->name, "set") == 0;
    df_buf_addf(out, " \\\n            '%s--%s%s[", many ? "*" : "", o->name, o->takes ? "=" : "");
    add_quoted(out, o->help, "[]:");
    df_buf_addz(out, "]");
    if (o->takes) {
        df_buf_addc(out, ':');
        add_quoted(out, o->takes, "[]:");
        if (many)
            df_buf_addz(out, ":_dataflow_settings");
        else if (o->choices)
            df_buf_addf(out, ":(%s)", o->choices);
        else
            df_buf_addz(out, is_file(o->takes) ? ":_files" : ": ");
    }
    df_buf_addc(out, '\'');
}

struct zsh_verb {
    struct df_buf *out;
    const struct df_command_entry *entry;
};

static void add_zsh_named(void *arg, struct df_str name)
{
    struct zsh_verb *z = arg;
    add_zsh_option(z->out, df_command_option(z->entry, name));
}

static void add_zsh_config(struct df_buf *out, const struct df_command_entry *e)
{
    for (const struct df_command_option *o = df_config_options; e->configured && o->name; o++)
        add_zsh_option(out, o);
}

static void add_zsh_verbs(struct df_buf *out, const struct df_command_entry *e)
{
    df_buf_addf(out, "        if ((CURRENT == 2)); then\n            local -a verbs=(");
    for (const struct df_command_verb *v = e->verbs; v->name; v++) {
        df_buf_addf(out, "\n                '%s:", v->name);
        add_quoted(out, v->help, ":");
        df_buf_addz(out, "'");
    }
    df_buf_addz(out, ")\n            _describe verb verbs\n            return\n        fi\n"
                     "        case $words[2] in\n");
    for (const struct df_command_verb *v = e->verbs; v->name; v++) {
        struct zsh_verb z = {out, e};
        df_buf_addf(out, "        %s) _arguments", v->name);
        each_word(v->options, add_zsh_named, &z);
        add_zsh_config(out, e);
        df_buf_addz(out, " \\\n            '*: :_default' ;;\n");
    }
    df_buf_addz(out, "        esac\n");
}

static void add_zsh_command(struct df_buf *out, const struct df_command_entry *e)
{
    df_buf_addf(out, "    %s)\n", e->command->name);
    if (e->verbs) {
        add_zsh_verbs(out, e);
    } else {
        df_buf_addz(out, "        _arguments");
        for (const struct df_command_option *o = e->options; o && o->name; o++)
            add_zsh_option(out, o);
        add_zsh_config(out, e);
        if (e->operands && strcmp(e->operands, "FILE") == 0) {
            df_buf_addz(out, " \\\n            '1:file:_files'");
        } else if (e->operands && strcmp(e->operands, "COMMAND") == 0) {
            df_buf_addz(out, " \\\n            '1:topic:(");
            add_command_names(out);
            df_buf_addz(out, " config routes man)'");
        } else if (e->operands) {
            df_buf_addz(out, " \\\n            '1:what:(");
            for (const char *c = e->operands; *c; c++)
                df_buf_addc(out, *c == '|' ? ' ' : *c);
            df_buf_addz(out, ")'");
        } else {
            df_buf_addz(out, " \\\n            '--help[what the command does]'");
        }
        df_buf_addc(out, '\n');
    }
    df_buf_addz(out, "        ;;\n");
}

static void write_zsh(struct df_buf *out)
{
    df_buf_addz(out, "#compdef dataflow\n"
                     "# zsh completion for dataflow; written by `dataflow completion zsh`\n"
                     "_dataflow_settings() {\n"
                     "    local -a settings=(");
    add_settings(out, " ");
    df_buf_addz(out, ")\n    compadd -S '' -a settings\n}\n"
                     "_dataflow() {\n"
                     "    if ((CURRENT == 2)); then\n"
                     "        local -a commands=(");
    for (const struct df_command_entry *e = df_commands; e->command; e++) {
        df_buf_addf(out, "\n            '%s:", e->command->name);
        add_quoted(out, e->command->summary, ":");
        df_buf_addc(out, '\'');
    }
    df_buf_addz(out, ")\n        _describe command commands\n        return\n    fi\n"
                     "    local command=$words[2]\n"
                     "    shift words\n    ((CURRENT--))\n    case $command in\n");
    for (const struct df_command_entry *e = df_commands; e->command; e++)
        add_zsh_command(out, e);
    df_buf_addz(out, "    esac\n}\n"
                     "if [[ $funcstack[1] == _dataflow ]]; then\n"
                     "    _dataflow \"$@\"\n"
                     "else\n"
                     "    compdef _dataflow dataflow\n"
                     "fi\n");
}

/* --- fish --- */

struct fish_verb {
    struct df_buf *out;
    const struct df_command_entry *entry;
    const char *verb; /* NULL: the command has none */
};

static void add_fish_when(const struct fish_verb *f)
{
    df_buf_addf(f->out, "complete -c dataflow -n '__fish_seen_subcommand_from %s",
                f->entry->command->name);
    if (f->verb)
        df_buf_addf(f->out, "; and __fish_seen_subcommand_from %s", f->verb);
    df_buf_addc(f->out, '\'');
}

static void add_fish_option(const struct fish_verb *f, const struct df_command_option *o)
{
    add_fish_when(f);
    df_buf_addf(f->out, " -l %s%s", o->name, o->takes ? is_file(o->takes) ? " -r -F" : " -x" : "");
    if (strcmp(o->name, "set") == 0) {
        df_buf_addz(f->out, " -a '");
        add_settings(f->out, " ");
        df_buf_addc(f->out, '\'');
    } else if (o->choices) {
        df_buf_addf(f->out, " -a '%s'", o->choices);
    }
    df_buf_addz(f->out, " -d '");
    add_quoted(f->out, o->help, "\\");
    df_buf_addz(f->out, "'\n");
}

static void add_fish_named(void *arg, struct df_str name)
{
    const struct fish_verb *f = arg;
    add_fish_option(f, df_command_option(f->entry, name));
}

static void add_fish_config(const struct fish_verb *f)
{
    for (const struct df_command_option *o = df_config_options; f->entry->configured && o->name;
         o++)
        add_fish_option(f, o);
}

static void add_fish_verb(struct df_buf *out, const struct df_command_entry *e,
                          const struct df_command_verb *v)
{
    struct fish_verb f = {out, e, v->name};
    df_buf_addf(out,
                "complete -c dataflow -n '__fish_seen_subcommand_from %s; and not "
                "__fish_seen_subcommand_from",
                e->command->name);
    for (const struct df_command_verb *other = e->verbs; other->name; other++)
        df_buf_addf(out, " %s", other->name);
    df_buf_addf(out, "' -a %s -d '", v->name);
    add_quoted(out, v->help, "\\");
    df_buf_addz(out, "'\n");
    each_word(v->options, add_fish_named, &f);
    add_fish_config(&f);
}

static void add_fish_command(struct df_buf *out, const struct df_command_entry *e)
{
    struct fish_verb f = {out, e, NULL};
    df_buf_addf(out, "complete -c dataflow -n __fish_use_subcommand -a %s -d '", e->command->name);
    add_quoted(out, e->command->summary, "\\");
    df_buf_addz(out, "'\n");
    for (const struct df_command_verb *v = e->verbs; v && v->name; v++)
        add_fish_verb(out, e, v);
    if (e->verbs)
        return;
    for (const struct df_command_option *o = e->options; o && o->name; o++)
        add_fish_option(&f, o);
    add_fish_config(&f);
    if (!e->operands)
        return;
    add_fish_when(&f);
    if (strcmp(e->operands, "FILE") == 0) {
        df_buf_addz(out, " -F\n");
        return;
    }
    df_buf_addz(out, " -a '");
    if (strcmp(e->operands, "COMMAND") == 0) {
        add_command_names(out);
        df_buf_addz(out, " config routes man");
    } else {
        for (const char *c = e->operands; *c; c++)
            df_buf_addc(out, *c == '|' ? ' ' : *c);
    }
    df_buf_addz(out, "'\n");
}

static void write_fish(struct df_buf *out)
{
    df_buf_addz(out, "# fish completion for dataflow; written by `dataflow completion fish`\n"
                     "complete -c dataflow -f\n");
    for (const struct df_command_entry *e = df_commands; e->command; e++)
        add_fish_command(out, e);
}

/* --- the command --- */

static const struct {
    const char *name;
    void (*write)(struct df_buf *out);
} shells[] = {{"bash", write_bash}, {"zsh", write_zsh}, {"fish", write_fish}};

static int run_completion(int argc, char **argv)
{
    int operands = df_cli_parse(&df_cmd_completion, argc, argv, NULL, 0, NULL);
    if (operands < 0)
        return DF_EXIT_USAGE;
    for (size_t i = 0; operands == 1 && i < sizeof shells / sizeof shells[0]; i++) {
        if (strcmp(argv[0], shells[i].name) != 0)
            continue;
        struct df_buf out;
        df_buf_init(&out, 1 << 20);
        shells[i].write(&out);
        return df_cli_print(&out);
    }
    df_cli_complain(&df_cmd_completion, "usage: dataflow completion %s", df_cmd_completion.usage);
    return DF_EXIT_USAGE;
}

const struct df_command df_cmd_completion = {
    .name = "completion",
    .usage = "bash|zsh|fish",
    .summary = "print what makes a shell complete commands, options and settings",
    .help = "bash  dataflow completion bash > /etc/bash_completion.d/dataflow\n"
            "zsh   dataflow completion zsh > /usr/local/share/zsh/site-functions/_dataflow\n"
            "fish  dataflow completion fish > ~/.config/fish/completions/dataflow.fish",
    .run = run_completion,
};
