#include "app/cli.h"

#include "app/commands.h"
#include "base/suggest.h"

#include <assert.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COMPLAINTS_MAX (1 << 20)

enum df_lang df_cli_lang(void)
{
    static const char *const names[] = {"LC_ALL", "LC_MESSAGES", "LANG"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *locale = secure_getenv(names[i]);
        if (locale && *locale)
            return df_lang_of_locale(locale);
    }
    return DF_LANG_EN;
}

const char *df_cli_text(const char *english)
{
    static struct df_arena texts; /* commands have one thread */
    struct df_str text = df_lang_text(df_cli_lang(), df_str_c(english), &texts);

    return text.ptr == english ? english : df_arena_cstr(&texts, text);
}

void df_cli_say(struct df_buf *out, const char *fmt, ...)
{
    struct df_arena a = {0};
    char *line;
    va_list ap;

    va_start(ap, fmt);
    if (vasprintf(&line, fmt, ap) < 0)
        abort();
    va_end(ap);
    struct df_str text = df_str_c(line);
    bool ends = df_str_ends(text, DF_STR("\n"));
    text.len -= ends;
    df_buf_adds(out, df_lang_text(df_cli_lang(), text, &a));
    if (ends)
        df_buf_addc(out, '\n');
    df_arena_release(&a);
    free(line);
}

void df_cli_say_behind(struct df_buf *out, const char *line)
{
    const char *text = strstr(line, ": ");

    if (text && df_cli_text(line) == line) {
        df_buf_add(out, line, (size_t)(text + 2 - line));
        line = text + 2;
    }
    df_cli_say(out, "%s\n", line);
}

void df_cli_cell(struct df_buf *out, const char *english, int width)
{
    const char *text = df_cli_text(english);
    int blanks = abs(width) - (int)df_utf8_count(df_str_c(text)); /* bytes are no columns */

    blanks = blanks > 0 ? blanks : 0;
    df_buf_addf(out, "%*s%s%*s", width < 0 ? blanks : 0, "", text, width > 0 ? blanks : 0, "");
}

void df_cli_heads(struct df_buf *out, const struct df_cli_head *heads)
{
    for (const struct df_cli_head *h = heads; h->name; h++) {
        if (h > heads)
            df_buf_addc(out, ' ');
        df_cli_cell(out, h->name, h->width);
    }
    df_buf_addc(out, '\n');
}

/* On standard error, in the user's language; of a command or of none. */
static void print_line(const struct df_command *cmd, const char *line)
{
    struct df_buf out;

    df_buf_init(&out, COMPLAINTS_MAX);
    df_cli_say_behind(&out, line);
    fprintf(stderr, "%s%s%s%s", cmd ? "dataflow " : "", cmd ? cmd->name : "", cmd ? ": " : "",
            df_buf_str(&out).ptr);
    df_buf_release(&out);
}

void df_cli_complain(const struct df_command *cmd, const char *fmt, ...)
{
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    print_line(cmd, line);
}

int df_cli_result(const struct df_command *cmd, enum df_code code, const struct df_err *err)
{
    if (code == DF_OK)
        return DF_EXIT_OK;
    df_cli_complain(cmd, "%s", err->detail);
    return code == DF_E_USAGE || code == DF_E_CONFIG ? DF_EXIT_USAGE : DF_EXIT_FAILED;
}

static const struct df_option *find_option(struct df_str name, const struct df_option *options,
                                           size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (df_str_eq(df_str_c(options[i].name), name))
            return &options[i];
    return NULL;
}

struct parser {
    const struct df_command *cmd;
    char **argv;
    int argc;
    int at;
};

/* The value of an option: behind '=', or the next argument. */
static const char *take_value(struct parser *p, struct df_str name, const char *equals)
{
    if (equals)
        return equals + 1;
    if (p->at + 1 < p->argc)
        return p->argv[++p->at];
    df_cli_complain(p->cmd, "--" DF_STR_FMT " needs a value", DF_STR_ARG(name));
    return NULL;
}

static bool take_config(struct parser *p, struct df_str name, const char *equals,
                        struct df_cli_config *config, bool *ret_taken)
{
    bool is_set = df_str_eq(name, DF_STR("set"));
    *ret_taken = config && (is_set || df_str_eq(name, DF_STR("config")));
    if (!*ret_taken)
        return true;
    const char *value = take_value(p, name, equals);
    if (!value)
        return false;
    if (!is_set) {
        config->file = value;
        return true;
    }
    if (config->set_count == DF_CLI_SETS_MAX) {
        df_cli_complain(p->cmd, "more than %d --set options; use a file", DF_CLI_SETS_MAX);
        return false;
    }
    config->sets[config->set_count++] = value;
    return true;
}

static void complain_of_option(const struct df_command *cmd, struct df_str name,
                               const struct df_option *options, size_t count, bool configured)
{
    struct df_suggest near = {.typed = name};

    for (size_t i = 0; i < count; i++)
        df_suggest_try(&near, options[i].name);
    for (const struct df_command_option *o = df_config_options; configured && o->name; o++)
        df_suggest_try(&near, o->name);
    if (near.best)
        df_cli_complain(cmd,
                        "unknown option --" DF_STR_FMT
                        "; did you mean --%s? `dataflow help %s` lists them",
                        DF_STR_ARG(name), near.best, cmd->name);
    else
        df_cli_complain(cmd, "unknown option --" DF_STR_FMT "; see `dataflow help %s`",
                        DF_STR_ARG(name), cmd->name);
}

static bool take_option(struct parser *p, const struct df_option *options, size_t option_count,
                        struct df_cli_config *config)
{
    const char *arg = p->argv[p->at] + 2;
    const char *equals = strchr(arg, '=');
    struct df_str name = equals ? df_str_n(arg, (size_t)(equals - arg)) : df_str_c(arg);

    bool taken;
    if (!take_config(p, name, equals, config, &taken))
        return false;
    if (taken)
        return true;
    const struct df_option *o = find_option(name, options, option_count);
    if (!o) {
        complain_of_option(p->cmd, name, options, option_count, config != NULL);
        return false;
    }
    if (o->kind == DF_OPT_FLAG) {
        if (equals) {
            df_cli_complain(p->cmd, "--" DF_STR_FMT " takes no value", DF_STR_ARG(name));
            return false;
        }
        *o->flag = true;
        return true;
    }
    const char *value = take_value(p, name, equals);
    if (!value)
        return false;
    *o->value = value;
    return true;
}

/* An option that is not in the table of commands would be neither completed nor documented.
 * Commands of other programs (dataflow-bench) are not in it. */
static void check_options(const struct df_command *cmd, const struct df_option *options,
                          size_t count, bool configured)
{
    const struct df_command_entry *e = df_command_find(cmd->name);
    if (!e || e->command != cmd)
        return;
    assert(e->configured == configured);
    for (size_t i = 0; i < count; i++) {
        const struct df_command_option *o = df_command_option(e, df_str_c(options[i].name));
        assert(o && (o->takes != NULL) == (options[i].kind == DF_OPT_VALUE));
    }
}

/* True: the word is near a verb of the command and is none, which was printed. Of other words the
 * command says how it is used. */
static bool is_mistyped_verb(const struct df_command *cmd, const char *word)
{
    const struct df_command_entry *e = df_command_find(cmd->name);
    struct df_suggest near = {.typed = df_str_c(word)};

    if (!e || e->command != cmd || !e->verbs)
        return false;
    for (const struct df_command_verb *v = e->verbs; v->name; v++) {
        if (strcmp(v->name, word) == 0)
            return false;
        df_suggest_try(&near, v->name);
    }
    if (near.best)
        df_cli_complain(cmd, "no \"%s\"; did you mean %s? `dataflow help %s` tells more", word,
                        near.best, cmd->name);
    return near.best;
}

int df_cli_parse(const struct df_command *cmd, int argc, char **argv,
                 const struct df_option *options, size_t option_count, struct df_cli_config *config)
{
    struct parser p = {.cmd = cmd, .argv = argv, .argc = argc, .at = 1};
    int operands = 0;
    bool options_end = false;
    check_options(cmd, options, option_count, config != NULL);
    for (; p.at < argc; p.at++) {
        char *arg = argv[p.at];
        if (!options_end && strcmp(arg, "--") == 0)
            options_end = true;
        else if (!options_end && arg[0] == '-' && arg[1] == '-') {
            if (!take_option(&p, options, option_count, config))
                return -1;
        } else if (!options_end && arg[0] == '-' && arg[1]) {
            df_cli_complain(cmd, "unknown option %s; see `dataflow help %s`", arg, cmd->name);
            return -1;
        } else {
            argv[operands++] = arg;
        }
    }
    return operands > 0 && is_mistyped_verb(cmd, argv[0]) ? -1 : operands;
}

/* Every connection of the process obeys these settings. */
static bool use_security(struct df_settings *s)
{
    struct df_err err = DF_ERR_INIT;

    df_db_trust(s->security.ca_file);
    if (df_security_use(&s->security, &err) == DF_OK)
        return true;
    fprintf(stderr, "[security] %s\n", df_cli_text(err.detail));
    df_settings_release(s);
    return false;
}

static void print_complaints(struct df_str text)
{
    struct df_arena a = {0};
    struct df_str line;

    while (text.len > 0) {
        text = df_str_cut(text, '\n', &line);
        print_line(NULL, df_arena_cstr(&a, line));
    }
    df_arena_release(&a);
}

bool df_cli_settings_warned(const struct df_cli_config *config, struct df_settings *s,
                            struct df_buf *warnings)
{
    struct df_config_sources src = {.file = config->file,
                                    .env = environ,
                                    .sets = config->sets,
                                    .set_count = config->set_count,
                                    .warnings = warnings,
                                    .lang = df_cli_lang()};
    if (!src.file)
        src.file = secure_getenv("DATAFLOW_CONFIG");
    if (!config->file && src.file && !*src.file) /* set, but empty */
        src.file = NULL;
    struct df_buf complaints;
    df_buf_init(&complaints, COMPLAINTS_MAX);
    enum df_code code = df_settings_load(&src, s, &complaints);
    if (code != DF_OK)
        print_complaints(df_buf_str(&complaints));
    df_buf_release(&complaints);
    return code == DF_OK && use_security(s);
}

bool df_cli_settings(const struct df_cli_config *config, struct df_settings *s)
{
    return df_cli_settings_warned(config, s, NULL);
}

void df_cli_each_line(struct df_buf *take_text, void (*each)(const char *line))
{
    char line[1024];
    struct df_str one, rest = df_buf_str(take_text);

    while (rest.len > 0) {
        rest = df_str_cut(rest, '\n', &one);
        (void)snprintf(line, sizeof line, DF_STR_FMT,
                       DF_STR_ARG(df_utf8_cut(one, sizeof line / 4)));
        if (one.len > 0)
            each(line);
    }
    df_buf_release(take_text);
}

bool df_cli_int(const struct df_command *cmd, const char *option, const char *text, int64_t min,
                int64_t max, int64_t *ret)
{
    if (!text)
        return true; /* not given: the default stands */
    int64_t n;
    if (df_str_to_i64(df_str_c(text), &n) && n >= min && n <= max) {
        *ret = n;
        return true;
    }
    df_cli_complain(cmd, "--%s must be a whole number from %lld to %lld", option, (long long)min,
                    (long long)max);
    return false;
}

int df_cli_print(struct df_buf *take_text)
{
    struct df_str s = df_buf_str(take_text);
    bool ok = fwrite(s.ptr, 1, s.len, stdout) == s.len && fflush(stdout) == 0;
    if (!ok)
        fputs("dataflow: could not write to standard output\n", stderr);
    df_buf_release(take_text);
    return ok ? DF_EXIT_OK : DF_EXIT_FAILED;
}

struct df_actor df_cli_actor(char *buf, size_t size)
{
    struct passwd pw, *found = NULL;
    char text[1024];
    if (getpwuid_r(getuid(), &pw, text, sizeof text, &found) == 0 && found)
        snprintf(buf, size, "cli:%s", found->pw_name);
    else
        snprintf(buf, size, "cli:%u", (unsigned)getuid());
    return (struct df_actor){.name = df_str_c(buf)};
}
