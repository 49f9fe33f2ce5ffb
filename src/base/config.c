/*
 * Sources are gone through in their order of precedence. A value is checked where it stands, even
 * if a later source replaces it, so that a fault is found before the day it counts. Only secret
 * files are read at the end: a path that was replaced need not exist.
 */
#include "base/config.h"

#include "base/config_value.h"
#include "base/ini.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG_MAX_BYTES ((size_t)1 << 20)
#define SECRET_MAX_BYTES ((size_t)64 << 10)
#define COMPLAINTS_MAX   100
#define PATH_MAX_BYTES   4095
#define WHY_MAX_BYTES    65536
#define ENV_PREFIX       "DATAFLOW_"

enum source { FROM_DEFAULT, FROM_FILE, FROM_ENV, FROM_SET };

/* Where a key was last given, and how: as itself or by the path of a file. */
struct given {
    enum source source;
    size_t line;
    bool by_file;
    char *path;
};

struct load {
    const struct df_config_table *table;
    const struct df_config_sources *src;
    void *settings;
    struct given *given; /* one for each key of the table */
    struct df_buf *complaints;
    size_t complaint_count;
    struct df_buf why; /* scratch */
};

/* A spelling of a key: its name, or <name>_file for a secret. */
struct found {
    const struct df_config_key *key;
    bool by_file;
};

/* --- complaints ----------------------------------------------------------------------------------
 */

/* The reason stands in l->why, which is emptied. Names come from outside: one line must stay one.
 */
static void complain(struct load *l, struct df_str where)
{
    struct df_str parts[] = {where, DF_STR(": "), df_buf_str(&l->why)};

    if (++l->complaint_count <= COMPLAINTS_MAX) {
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
            for (struct df_str s = parts[i]; s.len > 0;) {
                size_t n = 0;
                size_t valid = df_utf8_valid_prefix(s);
                while (n < valid && (unsigned char)s.ptr[n] >= ' ' && s.ptr[n] != 0x7F)
                    n++;
                df_buf_add(l->complaints, s.ptr, n);
                if (n < s.len)
                    df_buf_addc(l->complaints, '?');
                n += n < s.len;
                s = df_str_n(s.ptr + n, s.len - n);
            }
        }
        df_buf_addc(l->complaints, '\n');
    }
    df_buf_reset(&l->why);
}

static void upper_env_name(const struct df_config_key *k, bool by_file, struct df_buf *out)
{
    df_buf_addf(out, ENV_PREFIX "%s_%s%s", k->section, k->key, by_file ? "_file" : "");
    for (size_t i = 0; i < out->len; i++) {
        char c = out->ptr[i];
        if (c >= 'a' && c <= 'z')
            out->ptr[i] = (char)(c - 'a' + 'A');
        else if (!(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9'))
            out->ptr[i] = '_';
    }
}

/* dataflow.ini:12: [server] listen, DATAFLOW_SERVER_LISTEN or --set server.listen */
static void complain_of(struct load *l, struct found f, enum source source, size_t line)
{
    const char *suffix = f.by_file ? "_file" : "";
    struct df_buf where;

    df_buf_init(&where, WHY_MAX_BYTES);
    switch (source) {
    case FROM_DEFAULT:
        df_buf_addf(&where, "default of [%s] %s", f.key->section, f.key->key);
        break;
    case FROM_FILE:
        df_buf_addf(&where, "%s:%zu: [%s] %s%s", l->src->file, line, f.key->section, f.key->key,
                    suffix);
        break;
    case FROM_ENV:
        upper_env_name(f.key, f.by_file, &where);
        break;
    case FROM_SET:
        df_buf_addf(&where, "--set %s.%s%s", f.key->section, f.key->key, suffix);
        break;
    }
    complain(l, df_buf_str(&where));
    df_buf_release(&where);
}

static void complain_of_line(struct load *l, size_t line)
{
    struct df_buf where;
    df_buf_init(&where, WHY_MAX_BYTES);
    df_buf_addf(&where, "%s:%zu", l->src->file, line);
    complain(l, df_buf_str(&where));
    df_buf_release(&where);
}

/* --- keys ----------------------------------------------------------------------------------------
 */

static bool is_section(const struct df_config_table *t, struct df_str section)
{
    for (size_t i = 0; i < t->count; i++) {
        if (df_str_ieq(section, df_str_c(t->keys[i].section)))
            return true;
    }
    return false;
}

static bool find_key(const struct df_config_table *t, struct df_str section, struct df_str name,
                     struct found *ret)
{
    const struct df_str suffix = DF_STR("_file");
    struct df_str stem = DF_STR_NULL;

    if (name.len > suffix.len &&
        df_str_ieq(df_str_n(name.ptr + name.len - suffix.len, suffix.len), suffix))
        stem = df_str_n(name.ptr, name.len - suffix.len);
    for (size_t i = 0; i < t->count; i++) {
        const struct df_config_key *k = &t->keys[i];
        if (!df_str_ieq(section, df_str_c(k->section)))
            continue;
        bool by_file = df_config_value_by_file(k) && df_str_ieq(stem, df_str_c(k->key));
        if (by_file || df_str_ieq(name, df_str_c(k->key))) {
            *ret = (struct found){k, by_file};
            return true;
        }
    }
    return false;
}

/*
 * A key given twice in the file is refused. So are a secret and its file from one source; from two,
 * the later wins as with every key.
 */
static bool is_twice(struct load *l, struct found f, enum source source)
{
    const struct given *g = &l->given[f.key - l->table->keys];

    if (g->source != source)
        return false;
    if (g->by_file != f.by_file)
        df_buf_addf(&l->why, "%s and %s_file must not both be given", f.key->key, f.key->key);
    else if (source == FROM_FILE)
        df_buf_addf(&l->why, "given twice, first on line %zu", g->line);
    return l->why.len > 0;
}

static bool is_path(struct df_str s)
{
    return s.len > 0 && s.len <= PATH_MAX_BYTES;
}

static void give(struct load *l, struct found f, enum source source, size_t line,
                 struct df_str value)
{
    struct given *g = &l->given[f.key - l->table->keys];
    const char *fault = df_ini_text_fault(value);
    bool twice = is_twice(l, f, source);

    if (fault && !twice)
        df_buf_addz(&l->why, fault);
    else if (f.by_file && !is_path(value) && !twice)
        df_buf_addz(&l->why, "must be the path of a file");
    if (l->why.len > 0) {
        complain_of(l, f, source, line);
        if (twice)
            return;
    } else if (!f.by_file && !df_config_value_set(f.key, l->settings, value, &l->why)) {
        complain_of(l, f, source, line);
    }
    free(g->path);
    g->path = f.by_file && !fault && is_path(value) ? df_strdup(value) : NULL;
    g->source = source;
    g->line = line;
    g->by_file = f.by_file;
}

/* --- files ---------------------------------------------------------------------------------------
 */

static void why_errno(struct df_buf *why, const char *what)
{
    char reason[128];
    int saved = errno;
    df_buf_addf(why, "%s: %s", what, strerror_r(saved, reason, sizeof(reason)));
}

/*
 * Reads it whole into memory that the caller wipes and frees. NULL: the reason is in *why.
 * O_NONBLOCK keeps a named pipe without a writer from hanging the start.
 */
static char *read_whole(const char *path, bool regular_only, size_t max_bytes, size_t *ret_len,
                        struct df_buf *why)
{
    char *text = NULL;
    struct stat st;
    size_t len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (regular_only ? O_NONBLOCK : 0));

    if (fd < 0 || fstat(fd, &st) < 0) {
        why_errno(why, "cannot be read");
        goto out;
    }
    if (S_ISDIR(st.st_mode) || (regular_only && !S_ISREG(st.st_mode))) {
        df_buf_addz(why, "is not a regular file");
        goto out;
    }
    text = df_malloc(max_bytes + 1);
    for (ssize_t n = 1; n > 0 && len <= max_bytes; len += (size_t)n) {
        n = read(fd, text + len, max_bytes + 1 - len);
        if (n < 0) {
            why_errno(why, "cannot be read");
            break;
        }
    }
    if (len > max_bytes && why->len == 0)
        df_buf_addf(why, "is larger than %zu bytes", max_bytes);
out:
    if (fd >= 0)
        close(fd);
    if (text && why->len > 0) {
        df_wipe(text, len);
        free(text);
        text = NULL;
    }
    *ret_len = len;
    return text;
}

static void on_entry(void *arg, size_t line, struct df_str section, struct df_str key,
                     struct df_str value)
{
    struct load *l = arg;
    struct found f;

    if (find_key(l->table, section, key, &f)) {
        give(l, f, FROM_FILE, line, value);
        return;
    }
    section = df_utf8_cut(section, 60);
    key = df_utf8_cut(key, 60);
    if (is_section(l->table, section))
        df_buf_addf(&l->why, "[" DF_STR_FMT "] " DF_STR_FMT ": unknown key", DF_STR_ARG(section),
                    DF_STR_ARG(key));
    else
        df_buf_addf(&l->why, "[" DF_STR_FMT "] " DF_STR_FMT ": unknown section",
                    DF_STR_ARG(section), DF_STR_ARG(key));
    complain_of_line(l, line);
}

static void on_complaint(void *arg, size_t line, const char *what)
{
    struct load *l = arg;
    df_buf_addz(&l->why, what);
    complain_of_line(l, line);
}

static void load_file(struct load *l)
{
    size_t len;
    char *text = read_whole(l->src->file, false, CONFIG_MAX_BYTES, &len, &l->why);

    if (!text) {
        complain(l, df_str_c(l->src->file));
        return;
    }
    const struct df_ini_handler handler = {on_entry, on_complaint, l};
    df_ini_read(df_str_n(text, len), &handler);
    df_wipe(text, len);
    free(text);
}

/* A secret in a file may be longer than one that is written down: a key, say. */
static void take_file(struct load *l, struct found f, struct df_str text)
{
    const struct given *g = &l->given[f.key - l->table->keys];
    if (f.key->type == DF_CFG_SECRET) {
        df_config_value_release(f.key, l->settings);
        struct df_secret **slot = (void *)((char *)l->settings + f.key->offset);
        *slot = df_secret_new(text);
    } else if (!df_config_value_set(f.key, l->settings, text, &l->why)) {
        complain_of(l, f, g->source, g->line);
    }
}

/* One newline at the end is the editor's, not the secret's. */
static void load_secret_file(struct load *l, struct found f)
{
    const struct given *g = &l->given[f.key - l->table->keys];
    size_t len;
    char *text = read_whole(g->path, true, SECRET_MAX_BYTES, &len, &l->why);
    struct df_str secret = df_str_n(text, len);

    if (text) {
        if (df_str_ends(secret, DF_STR("\n")))
            secret.len--;
        if (secret.len < len && df_str_ends(secret, DF_STR("\r")))
            secret.len--;
        if (secret.len == 0)
            df_buf_addf(&l->why, "%s is empty", g->path);
        else if (memchr(secret.ptr, '\0', secret.len))
            df_buf_addf(&l->why, "%s contains a NUL byte", g->path);
    } else {
        struct df_buf reason = l->why;
        df_buf_init(&l->why, WHY_MAX_BYTES);
        df_buf_addf(&l->why, "%s %s", g->path, reason.ptr);
        df_buf_release(&reason);
    }
    if (l->why.len > 0) {
        complain_of(l, f, g->source, g->line);
    } else {
        take_file(l, f, secret);
    }
    if (text)
        df_wipe(text, len);
    free(text);
}

/* --- environment and options ---------------------------------------------------------------------
 */

static bool find_env(struct load *l, struct df_str name, struct found *ret)
{
    struct df_buf spelled;
    bool found = false;

    df_buf_init(&spelled, WHY_MAX_BYTES);
    for (size_t i = 0; i < l->table->count && !found; i++) {
        const struct df_config_key *k = &l->table->keys[i];
        for (int by_file = 0; by_file <= df_config_value_by_file(k) && !found; by_file++) {
            df_buf_reset(&spelled);
            upper_env_name(k, by_file, &spelled);
            found = df_str_eq(name, df_buf_str(&spelled));
            *ret = (struct found){k, by_file};
        }
    }
    df_buf_release(&spelled);
    return found;
}

/* DATAFLOW_<SECTION>_… of a section that exists: a misspelt key, and not some other program's. */
static bool names_section(const struct load *l, struct df_str name)
{
    struct df_buf spelled;
    bool found = false;

    df_buf_init(&spelled, WHY_MAX_BYTES);
    for (size_t i = 0; i < l->table->count && !found; i++) {
        df_buf_reset(&spelled);
        upper_env_name(&l->table->keys[i], false, &spelled);
        /* Up to the key, with the underscore before it. */
        spelled.len -= strlen(l->table->keys[i].key);
        found = df_str_starts(name, df_buf_str(&spelled));
    }
    df_buf_release(&spelled);
    return found;
}

static void load_env(struct load *l)
{
    for (char *const *e = l->src->env; e && *e; e++) {
        struct df_str name;
        struct df_str value = df_str_cut(df_str_c(*e), '=', &name);
        struct found f;

        if (!df_str_starts(name, DF_STR(ENV_PREFIX)) || !value.ptr)
            continue;
        if (find_env(l, name, &f)) {
            give(l, f, FROM_ENV, 0, value);
        } else if (names_section(l, name)) {
            df_buf_addz(&l->why, "no such setting");
            complain(l, name);
        }
    }
}

static void load_set(struct load *l, size_t number)
{
    struct df_str name;
    struct df_str value = df_str_cut(df_str_c(l->src->sets[number]), '=', &name);
    const char *dot = value.ptr ? memrchr(name.ptr, '.', name.len) : NULL;
    struct found f;

    if (!dot || dot == name.ptr || dot == name.ptr + name.len - 1) {
        /* What was given is not shown: without its name, it may be anything. */
        df_buf_addf(&l->why, "option number %zu is not of the form section.key=value", number + 1);
        complain(l, DF_STR("--set"));
        return;
    }
    struct df_str section = df_str_n(name.ptr, (size_t)(dot - name.ptr));
    struct df_str key = df_str_n(dot + 1, name.len - section.len - 1);
    if (find_key(l->table, section, key, &f)) {
        give(l, f, FROM_SET, 0, value);
        return;
    }
    struct df_buf where;
    df_buf_init(&where, WHY_MAX_BYTES);
    df_buf_addf(&where, "--set " DF_STR_FMT, DF_STR_ARG(df_utf8_cut(name, 120)));
    df_buf_addz(&l->why, is_section(l->table, section) ? "unknown key" : "unknown section");
    complain(l, df_buf_str(&where));
    df_buf_release(&where);
}

/* --- the whole -----------------------------------------------------------------------------------
 */

enum df_code df_config_load(const struct df_config_table *t, const struct df_config_sources *src,
                            void *settings, struct df_buf *complaints)
{
    struct load l = {.table = t, .src = src, .settings = settings, .complaints = complaints};
    l.given = df_calloc(t->count, sizeof(*l.given));
    df_buf_init(&l.why, WHY_MAX_BYTES);

    for (size_t i = 0; i < t->count; i++) {
        const struct df_config_key *k = &t->keys[i];
        if (k->def && !df_config_value_set(k, settings, df_str_c(k->def), &l.why))
            complain_of(&l, (struct found){k, false}, FROM_DEFAULT, 0);
    }
    if (src->file)
        load_file(&l);
    load_env(&l);
    for (size_t i = 0; i < src->set_count; i++)
        load_set(&l, i);
    for (size_t i = 0; i < t->count; i++) {
        if (l.given[i].path)
            load_secret_file(&l, (struct found){&t->keys[i], true});
        free(l.given[i].path);
    }

    if (l.complaint_count > COMPLAINTS_MAX)
        df_buf_addf(complaints, "and %zu more\n", l.complaint_count - COMPLAINTS_MAX);
    df_buf_release(&l.why);
    free(l.given);
    if (l.complaint_count > 0)
        df_config_release(t, settings);
    return l.complaint_count > 0 ? DF_E_CONFIG : DF_OK;
}

void df_config_release(const struct df_config_table *t, void *settings)
{
    for (size_t i = 0; i < t->count; i++)
        df_config_value_release(&t->keys[i], settings);
}

/* Calls row for the keys of each section together, whatever their order in the table. */
static void each_section(const struct df_config_table *t, struct df_buf *out, const void *settings,
                         void (*head)(const char *section, struct df_buf *out),
                         void (*row)(const struct df_config_key *k, const void *settings,
                                     struct df_buf *out))
{
    for (size_t i = 0; i < t->count; i++) {
        const char *section = t->keys[i].section;
        size_t first = 0;
        while (strcmp(t->keys[first].section, section) != 0)
            first++;
        if (first < i)
            continue;
        if (i > 0)
            df_buf_addc(out, '\n');
        head(section, out);
        for (size_t j = i; j < t->count; j++) {
            if (strcmp(t->keys[j].section, section) == 0)
                row(&t->keys[j], settings, out);
        }
    }
}

static void ini_head(const char *section, struct df_buf *out)
{
    df_buf_addf(out, "[%s]\n", section);
}

static void ini_row(const struct df_config_key *k, const void *settings, struct df_buf *out)
{
    struct df_buf value;
    df_buf_init(&value, (size_t)1 << 20);
    if (df_config_value_print(k, settings, &value))
        df_buf_addf(out, "%s = %s\n", k->key, df_buf_str(&value).ptr);
    else
        df_buf_addf(out, "# %s =\n", k->key);
    df_buf_release(&value);
}

void df_config_print(const struct df_config_table *t, const void *settings, struct df_buf *out)
{
    each_section(t, out, settings, ini_head, ini_row);
}

static void docs_head(const char *section, struct df_buf *out)
{
    df_buf_addf(out, "## [%s]\n\n| key | value | default | meaning |\n| --- | --- | --- | --- |\n",
                section);
}

/* A bar would end the cell, also between backquotes. */
static void add_cell(struct df_buf *out, struct df_str text)
{
    while (text.ptr) {
        struct df_str part;
        text = df_str_cut(text, '|', &part);
        df_buf_adds(out, part);
        if (text.ptr)
            df_buf_addz(out, "\\|");
    }
}

static void docs_row(const struct df_config_key *k, const void *settings, struct df_buf *out)
{
    struct df_buf value;
    (void)settings;

    df_buf_init(&value, (size_t)1 << 16);
    df_config_value_describe(k, &value);
    df_buf_addf(out, "| `%s` | ", k->key);
    add_cell(out, df_buf_str(&value));
    df_buf_addz(out, " | ");
    if (k->def && *k->def) {
        df_buf_addc(out, '`');
        add_cell(out, df_str_c(k->def));
        df_buf_addc(out, '`');
    } else if (k->def) {
        df_buf_addz(out, "(empty)");
    }
    df_buf_addz(out, " | ");
    add_cell(out, df_str_c(k->help));
    df_buf_addz(out, " |\n");
    df_buf_release(&value);
}

void df_config_print_docs(const struct df_config_table *t, struct df_buf *out)
{
    each_section(t, out, NULL, docs_head, docs_row);
}
