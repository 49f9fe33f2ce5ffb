/*
 * Sources are read in their order of precedence. Every value is checked, even if a later source
 * replaces it, so that mistakes are found before they matter. Only secret files are read at the
 * end: a path that was replaced need not exist.
 */
#include "base/config.h"

#include "base/config_private.h"
#include "base/ini.h"
#include "base/lang.h"
#include "base/mem.h"
#include "base/suggest.h"

#include <stdio.h>
#include <stdlib.h>

#define CONFIG_MAX_BYTES ((size_t)1 << 20)
#define SECRET_MAX_BYTES ((size_t)64 << 10)
#define COMPLAINTS_MAX   100
#define PATH_MAX_BYTES   4095
#define WHY_MAX_BYTES    65536

enum source { FROM_DEFAULT, FROM_FILE, FROM_ENV, FROM_SET };

/* Where a key was last given, and how: as itself or by the path of a file. */
struct given {
    enum source source;
    size_t line;
    bool by_file;
    char *path;
};

/* Where the values of a table go: a room's struct, or an element of a group. */
struct place {
    const struct df_config_group_at *at; /* NULL: a plain section */
    const char *section;                 /* server; for a group its prefix, relay */
    const char *name;                    /* in a group: orders */
    const struct df_config_key *keys;
    char *base;
    struct given *given; /* one for each key */
};

struct load {
    const struct df_config_table *table;
    const struct df_config_sources *src;
    void *settings;
    struct place *places; /* the plain sections, then those of groups in order of appearance */
    size_t plain_count;
    size_t place_count;
    struct place
        *reading; /* the current section of the file, if a group's; NULL: a plain one, or refused */
    bool refused;
    struct df_buf *complaints;
    size_t complaint_count;
    bool has_secret;   /* the INI file itself holds a secret */
    struct df_buf why; /* scratch */
};

/* A spelling of a key: its name, or <name>_file for a secret. */
struct found {
    struct place *place;
    const struct df_config_key *key;
    bool by_file;
};

static struct given *given_of(struct found f)
{
    return &f.place->given[f.key - f.place->keys];
}

/* --- complaints ------------------------------------------------------------------------------- */

/* Names and texts come from outside: each complaint must stay one line. */
static void add_line(struct df_buf *to, struct df_str where, struct df_str why)
{
    struct df_str parts[] = {where, DF_STR(": "), why};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        for (struct df_str s = parts[i]; s.len > 0;) {
            size_t n = 0;
            size_t valid = df_utf8_valid_prefix(s);
            while (n < valid && (unsigned char)s.ptr[n] >= ' ' && s.ptr[n] != 0x7F)
                n++;
            df_buf_add(to, s.ptr, n);
            if (n < s.len)
                df_buf_addc(to, '?');
            n += n < s.len;
            s = df_str_n(s.ptr + n, s.len - n);
        }
    }
    df_buf_addc(to, '\n');
}

/* The reason is in l->why, which is emptied. */
static void add_complaint(struct load *l, struct df_str where)
{
    struct df_arena a = {0};

    if (++l->complaint_count <= COMPLAINTS_MAX)
        add_line(l->complaints, where, df_lang_text(l->src->lang, df_buf_str(&l->why), &a));
    df_arena_release(&a);
    df_buf_reset(&l->why);
}

/* The same for a warning. */
static void add_warning(struct load *l, struct df_str where)
{
    if (l->src->warnings)
        add_line(l->src->warnings, where, df_buf_str(&l->why)); /* for the log too: English */
    df_buf_reset(&l->why);
}

static void why_shared(struct load *l, unsigned mode)
{
    df_buf_addf(&l->why,
                "holds a secret, and others than its owner may read or write it (mode %03o); "
                "chmod 600 it",
                mode);
}

/* server, or relay.orders */
static void add_section(struct found f, struct df_buf *out)
{
    df_buf_addz(out, f.place->section);
    if (f.place->at)
        df_buf_addf(out, ".%s", f.place->name);
}

/* DATAFLOW_SERVER_LISTEN, DATAFLOW_RELAY_ORDERS_URL */
static void add_variable(struct found f, struct df_buf *out)
{
    df_buf_addz(out, DF_CFG_ENV_PREFIX);
    add_section(f, out);
    df_buf_addf(out, "_%s%s", f.key->key, f.by_file ? "_file" : "");
    for (size_t i = 0; i < out->len; i++)
        out->ptr[i] = df_config_env_char(out->ptr[i]);
}

/* dataflow.ini:12: [server] listen, DATAFLOW_SERVER_LISTEN or --set server.listen */
static void complain_of(struct load *l, struct found f, enum source source, size_t line)
{
    const char *suffix = f.by_file ? "_file" : "";
    struct df_buf where, section;

    df_buf_init(&where, WHY_MAX_BYTES);
    df_buf_init(&section, WHY_MAX_BYTES);
    add_section(f, &section);
    switch (source) {
    case FROM_DEFAULT:
        df_buf_addf(&where, "default of [%s] %s", df_buf_str(&section).ptr, f.key->key);
        break;
    case FROM_FILE:
        df_buf_addf(&where, "%s:%zu: [%s] %s%s", l->src->file, line, df_buf_str(&section).ptr,
                    f.key->key, suffix);
        break;
    case FROM_ENV:
        add_variable(f, &where);
        break;
    case FROM_SET:
        df_buf_addf(&where, "--set %s.%s%s", df_buf_str(&section).ptr, f.key->key, suffix);
        break;
    }
    add_complaint(l, df_buf_str(&where));
    df_buf_release(&section);
    df_buf_release(&where);
}

static void complain_of_line(struct load *l, size_t line)
{
    struct df_buf where;
    df_buf_init(&where, WHY_MAX_BYTES);
    df_buf_addf(&where, "%s:%zu", l->src->file, line);
    add_complaint(l, df_buf_str(&where));
    df_buf_release(&where);
}

/* --- keys ------------------------------------------------------------------------------------- */

static bool is_section(const struct load *l, struct df_str section)
{
    for (size_t i = 0; i < l->plain_count; i++) {
        if (df_str_ieq(section, df_str_c(l->places[i].section)))
            return true;
    }
    return false;
}

static bool find_key(struct place *p, struct df_str name, struct found *ret)
{
    const struct df_str suffix = DF_STR("_file");
    struct df_str stem = DF_STR_NULL;

    if (name.len > suffix.len &&
        df_str_ieq(df_str_n(name.ptr + name.len - suffix.len, suffix.len), suffix))
        stem = df_str_n(name.ptr, name.len - suffix.len);
    for (const struct df_config_key *k = p->keys; k->key; k++) {
        bool by_file = df_config_value_by_file(k) && df_str_ieq(stem, df_str_c(k->key));
        if (by_file || df_str_ieq(name, df_str_c(k->key))) {
            *ret = (struct found){p, k, by_file};
            return true;
        }
    }
    return false;
}

/* Rooms may share a section, which then has a place for each. */
static bool find_plain_key(struct load *l, struct df_str section, struct df_str name,
                           struct found *ret)
{
    for (size_t i = 0; i < l->plain_count; i++) {
        struct place *p = &l->places[i];
        if (df_str_ieq(section, df_str_c(p->section)) && find_key(p, name, ret))
            return true;
    }
    return false;
}

/* --- sections of groups ----------------------------------------------------------------------- */

/* Adds a place and sets the defaults of its keys. */
static struct place *add_place(struct load *l, struct place p)
{
    struct place *added = &l->places[l->place_count++];
    size_t count = 0;

    while (p.keys[count].key)
        count++;
    *added = p;
    added->given = df_calloc(count, sizeof(*p.given));
    for (const struct df_config_key *k = p.keys; k->key; k++) {
        if (!df_config_value_default(k, p.base, &l->why))
            complain_of(l, (struct found){added, k, false}, FROM_DEFAULT, 0);
    }
    return added;
}

/* The group of a section such as relay.orders; *ret_name is the name within it, orders. */
static const struct df_config_group_at *find_group(const struct df_config_table *t,
                                                   struct df_str section, struct df_str *ret_name)
{
    struct df_str prefix;
    struct df_str name = df_str_cut(section, '.', &prefix);

    for (const struct df_config_group_at *g = t->groups; name.ptr && g && g->group; g++) {
        if (df_str_ieq(prefix, df_str_c(g->group->prefix))) {
            *ret_name = name;
            return g;
        }
    }
    return NULL;
}

static bool is_name(struct df_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!alnum && (i == 0 || (c != '-' && c != '_')))
            return false;
    }
    return s.len > 0 && s.len <= DF_CFG_NAME_MAX;
}

/* A variable's name has no '-' and no case. */
static bool same_name(struct df_str a, struct df_str b, enum source source)
{
    bool same = a.len == b.len;
    for (size_t i = 0; same && i < a.len; i++)
        same = df_config_env_char(a.ptr[i]) == df_config_env_char(b.ptr[i]);
    return source == FROM_ENV ? same : df_str_ieq(a, b);
}

static struct place *make_section(struct load *l, const struct df_config_group_at *g,
                                  struct df_str name, enum source source)
{
    char lower[DF_CFG_NAME_MAX];

    for (size_t i = 0; source == FROM_ENV && i < name.len; i++) {
        char c = name.ptr[i];
        lower[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    if (source == FROM_ENV)
        name.ptr = lower;
    char *item = df_config_item_add(g, l->settings, name);
    return add_place(l, (struct place){.at = g,
                                       .section = g->group->prefix,
                                       .name = df_config_item_name(g->group, item),
                                       .keys = g->group->keys,
                                       .base = item});
}

/* The group's section of this name, created if there is none. NULL: the reason is in l->why. */
static struct place *open_section(struct load *l, const struct df_config_group_at *g,
                                  struct df_str name, enum source source)
{
    const char *prefix = g->group->prefix;
    struct place *found = NULL;

    if (!is_name(name)) {
        df_buf_addf(&l->why,
                    "NAME in %s.NAME is made of letters, digits, - and _, begins with a letter or "
                    "digit and has at most %d characters",
                    prefix, DF_CFG_NAME_MAX);
        return NULL;
    }
    for (size_t i = l->plain_count; i < l->place_count; i++) {
        struct place *p = &l->places[i];
        if (p->at != g || !same_name(df_str_c(p->name), name, source))
            continue;
        if (found) {
            df_buf_addf(&l->why, "may mean [%s.%s] and [%s.%s]", prefix, found->name, prefix,
                        p->name);
            return NULL;
        }
        found = p;
    }
    if (!found && df_config_item_count(g, l->settings) == DF_CFG_SECTIONS_MAX) {
        df_buf_addf(&l->why, "more than %d sections [%s.NAME]", DF_CFG_SECTIONS_MAX, prefix);
        return NULL;
    }
    return found ? found : make_section(l, g, name, source);
}

static void try_keys(struct df_suggest *s, const struct df_config_key *k)
{
    for (; k->key; k++)
        df_suggest_try(s, k->key);
}

/* The section of a plain key that stands in another section; NULL: none has it, or several. */
static const char *section_of_key(const struct load *l, struct df_str key)
{
    const char *section = NULL;

    for (size_t i = 0; i < l->plain_count; i++) {
        struct found f;
        if (!find_key(&l->places[i], key, &f))
            continue;
        if (section)
            return NULL;
        section = l->places[i].section;
    }
    return section;
}

static void why_unknown_key(struct load *l, struct df_str section, struct df_str key)
{
    struct df_suggest near = {.typed = key};
    struct df_str name;
    const struct df_config_group_at *g = find_group(l->table, section, &name);
    const char *elsewhere = g ? NULL : section_of_key(l, key);

    if (g)
        try_keys(&near, g->group->keys);
    for (size_t i = 0; !g && i < l->plain_count; i++)
        if (df_str_ieq(section, df_str_c(l->places[i].section)))
            try_keys(&near, l->places[i].keys);
    if (near.best)
        df_buf_addf(&l->why, "unknown key; did you mean %s?", near.best);
    else if (elsewhere)
        df_buf_addf(&l->why, "unknown key; it belongs to [%s]", elsewhere);
    else
        df_buf_addz(&l->why, "unknown key");
}

/* Why a section's key was not found. */
static void why_unknown(struct load *l, struct df_str section, struct df_str key)
{
    struct df_str name, prefix, rest;
    struct df_suggest near = {.typed = section};

    if (is_section(l, section) || find_group(l->table, section, &name)) {
        why_unknown_key(l, section, key);
        return;
    }
    for (const struct df_config_group_at *g = l->table->groups; g && g->group; g++) {
        if (df_str_ieq(section, df_str_c(g->group->prefix))) {
            df_buf_addf(&l->why, "unknown section; it is [%s.NAME]", g->group->prefix);
            return;
        }
    }
    rest = df_str_cut(section, '.', &prefix);
    if (rest.ptr) {
        near.typed = prefix;
        for (const struct df_config_group_at *g = l->table->groups; g && g->group; g++)
            df_suggest_try(&near, g->group->prefix);
    } else {
        for (size_t i = 0; i < l->plain_count; i++)
            df_suggest_try(&near, l->places[i].section);
    }
    if (near.best && rest.ptr)
        df_buf_addf(&l->why, "unknown section; did you mean [%s." DF_STR_FMT "]?", near.best,
                    DF_STR_ARG(df_utf8_cut(rest, 64)));
    else if (near.best)
        df_buf_addf(&l->why, "unknown section; did you mean [%s]?", near.best);
    else
        df_buf_addz(&l->why, "unknown section");
}

/* --- values ----------------------------------------------------------------------------------- */

/*
 * A key given twice in the file is refused. So are a secret and its file from one source; from two,
 * the later wins as with every key.
 */
static bool is_twice(struct load *l, struct found f, enum source source)
{
    const struct given *g = given_of(f);

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

static void give_value(struct load *l, struct found f, enum source source, size_t line,
                       struct df_str value)
{
    struct given *g = given_of(f);
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
    } else if (!f.by_file && !df_config_value_set(f.key, f.place->base, value, &l->why)) {
        complain_of(l, f, source, line);
    }
    bool holds_secret = f.key->type == DF_CFG_SECRET ||
                        (f.key->type == DF_CFG_URL && memchr(value.ptr, '@', value.len));
    l->has_secret = l->has_secret || (source == FROM_FILE && !f.by_file && holds_secret);
    free(g->path);
    g->path = f.by_file && !fault && is_path(value) ? df_strdup(value) : NULL;
    g->source = source;
    g->line = line;
    g->by_file = f.by_file;
}

/* --- files ------------------------------------------------------------------------------------ */

/* Entries after the header of a refused section are skipped. */
static void on_section(void *arg, size_t line, struct df_str section)
{
    struct load *l = arg;
    struct df_str name;
    const struct df_config_group_at *g = find_group(l->table, section, &name);

    l->reading = g ? open_section(l, g, name, FROM_FILE) : NULL;
    l->refused = g && !l->reading;
    if (l->refused)
        complain_of_line(l, line);
}

static void on_entry(void *arg, size_t line, struct df_str section, struct df_str key,
                     struct df_str value)
{
    struct load *l = arg;
    struct found f;

    if (l->refused)
        return;
    if (l->reading ? find_key(l->reading, key, &f) : find_plain_key(l, section, key, &f)) {
        give_value(l, f, FROM_FILE, line, value);
        return;
    }
    struct df_buf where;
    df_buf_init(&where, WHY_MAX_BYTES);
    df_buf_addf(&where, "%s:%zu: [" DF_STR_FMT "] " DF_STR_FMT, l->src->file, line,
                DF_STR_ARG(df_utf8_cut(section, 80)), DF_STR_ARG(df_utf8_cut(key, 60)));
    why_unknown(l, section, key);
    add_complaint(l, df_buf_str(&where));
    df_buf_release(&where);
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
    unsigned shared;
    char *text = df_config_read(l->src->file, false, CONFIG_MAX_BYTES, &len, &shared, &l->why);

    if (!text) {
        add_complaint(l, df_str_c(l->src->file));
        return;
    }
    const struct df_ini_handler handler = {on_section, on_entry, on_complaint, l};
    df_ini_read(df_str_n(text, len), &handler);
    if (shared && l->has_secret) {
        why_shared(l, shared);
        add_warning(l, df_str_c(l->src->file));
    }
    df_wipe(text, len);
    free(text);
}

/* A secret in a file may be longer than one in the INI file and have several lines, as a key
 * has. */
static void take_file(struct load *l, struct found f, struct df_str text)
{
    const char *fault = df_ini_text_fault(text);

    if (f.key->type == DF_CFG_SECRET) {
        df_config_value_set_secret(f.key, f.place->base, text);
        return;
    }
    if (fault)
        df_buf_addf(&l->why, "%s: %s", given_of(f)->path, fault);
    if (fault || !df_config_value_set(f.key, f.place->base, text, &l->why))
        complain_of(l, f, given_of(f)->source, given_of(f)->line);
}

/* One newline at the end comes from the editor and is dropped. */
static void load_secret_file(struct load *l, struct found f)
{
    const struct given *g = given_of(f);
    size_t len;
    unsigned shared;
    char *text = df_config_read(g->path, true, SECRET_MAX_BYTES, &len, &shared, &l->why);
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
        if (shared) {
            why_shared(l, shared);
            add_warning(l, df_str_c(g->path));
        }
    }
    if (text)
        df_wipe(text, len);
    free(text);
}

/* Also frees the notes about the place's keys. */
static void load_secret_files(struct load *l, struct place *p)
{
    for (size_t i = 0; p->keys[i].key; i++) {
        if (p->given[i].path)
            load_secret_file(l, (struct found){p, &p->keys[i], true});
        free(p->given[i].path);
    }
    free(p->given);
}

/* --- environment and options ------------------------------------------------------------------ */

/* *ret_ours: the variable names one of our sections. */
static bool find_plain_env(struct load *l, struct df_str name, struct found *ret, bool *ret_ours)
{
    for (size_t i = 0; i < l->plain_count; i++) {
        struct place *p = &l->places[i];
        struct df_str before, rest = df_config_env_behind(name, p->section);

        *ret_ours = *ret_ours || rest.ptr;
        for (const struct df_config_key *k = p->keys; rest.ptr && k->key; k++) {
            for (int by_file = 0; by_file <= df_config_value_by_file(k); by_file++) {
                if (df_config_env_ends(rest, k, by_file, &before) && before.len == 0) {
                    *ret = (struct found){p, k, by_file};
                    return true;
                }
            }
        }
    }
    return false;
}

/* rest is <NAME>_<KEY>; the longest key counts. */
static bool find_group_env(struct load *l, const struct df_config_group_at *g, struct df_str rest,
                           struct found *ret)
{
    struct df_str before, name = rest;

    *ret = (struct found){0};
    for (const struct df_config_key *k = g->group->keys; k->key; k++) {
        for (int by_file = 0; by_file <= df_config_value_by_file(k); by_file++) {
            if (df_config_env_ends(rest, k, by_file, &before) && before.len < name.len &&
                (before.len == 0 || df_str_ends(before, DF_STR("_")))) {
                name = before;
                *ret = (struct found){NULL, k, by_file};
            }
        }
    }
    if (ret->key && name.len > 0)
        ret->place = open_section(l, g, df_str_n(name.ptr, name.len - 1), FROM_ENV);
    return ret->place;
}

/* False: not found, or refused with the reason in l->why. */
static bool find_env(struct load *l, struct df_str name, struct found *ret, bool *ret_ours)
{
    *ret_ours = false;
    if (find_plain_env(l, name, ret, ret_ours))
        return true;
    for (const struct df_config_group_at *g = l->table->groups; g && g->group; g++) {
        struct df_str rest = df_config_env_behind(name, g->group->prefix);
        if (rest.ptr) {
            *ret_ours = true;
            return find_group_env(l, g, rest, ret);
        }
    }
    return false;
}

/* The name begins with a section's: the nearest of its keys is meant. */
static void why_unknown_env(struct load *l, struct df_str name)
{
    struct found best = {0};
    struct df_suggest near = {0};

    for (size_t i = 0; i < l->plain_count; i++) {
        struct place *p = &l->places[i];
        near.typed = df_config_env_behind(name, p->section);
        for (const struct df_config_key *k = p->keys; near.typed.ptr && k->key; k++) {
            const char *before = near.best;
            df_suggest_try(&near, k->key);
            if (near.best != before)
                best = (struct found){p, k, false};
        }
    }
    struct df_buf variable;
    df_buf_init(&variable, WHY_MAX_BYTES);
    if (best.key)
        add_variable(best, &variable);
    if (best.key)
        df_buf_addf(&l->why, "no such setting; did you mean %s?", df_buf_str(&variable).ptr);
    else
        df_buf_addz(&l->why, "no such setting");
    df_buf_release(&variable);
}

static void load_env(struct load *l)
{
    for (char *const *e = l->src->env; e && *e; e++) {
        struct df_str name;
        struct df_str value = df_str_cut(df_str_c(*e), '=', &name);
        struct found f;
        bool ours;

        if (!df_str_starts(name, DF_STR(DF_CFG_ENV_PREFIX)) || !value.ptr)
            continue;
        if (find_env(l, name, &f, &ours)) {
            give_value(l, f, FROM_ENV, 0, value);
        } else if (ours) {
            if (l->why.len == 0)
                why_unknown_env(l, name);
            add_complaint(l, name);
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
        /* The text is not shown: without a key it may be a secret. */
        df_buf_addf(&l->why, "option number %zu is not of the form section.key=value", number + 1);
        add_complaint(l, DF_STR("--set"));
        return;
    }
    struct df_str section = df_str_n(name.ptr, (size_t)(dot - name.ptr));
    struct df_str key = df_str_n(dot + 1, name.len - section.len - 1);
    struct df_str called;
    const struct df_config_group_at *g = find_group(l->table, section, &called);
    struct place *p = g ? open_section(l, g, called, FROM_SET) : NULL;
    if (g ? p && find_key(p, key, &f) : find_plain_key(l, section, key, &f)) {
        give_value(l, f, FROM_SET, 0, value);
        return;
    }
    struct df_buf where;
    df_buf_init(&where, WHY_MAX_BYTES);
    df_buf_addf(&where, "--set " DF_STR_FMT, DF_STR_ARG(df_utf8_cut(name, 120)));
    if (l->why.len == 0)
        why_unknown(l, section, key);
    add_complaint(l, df_buf_str(&where));
    df_buf_release(&where);
}

/* --- complaints about keys together ---------------------------------------------------------- */

bool df_config_is_told(struct df_str line, struct df_str told)
{
    struct df_str section, key;
    char name[DF_CFG_NAME_MAX * 3], text[sizeof name + 32];

    (void)df_str_cut(line, ':', &section);
    struct df_str rest = df_str_cut(section, ' ', &section);
    (void)df_str_cut(rest, ' ', &key);
    if (told.len == 0 || section.len < 3 || section.ptr[0] != '[' || key.len == 0 ||
        section.len + key.len > sizeof name - 2)
        return false;
    (void)snprintf(name, sizeof name, DF_STR_FMT "." DF_STR_FMT,
                   DF_STR_ARG(df_str_n(section.ptr + 1, section.len - 2)), DF_STR_ARG(key));
    (void)snprintf(text, sizeof text, DF_STR_FMT " " DF_STR_FMT ":", DF_STR_ARG(section),
                   DF_STR_ARG(key));
    if (memmem(told.ptr, told.len, text, strlen(text)))
        return true;
    (void)snprintf(text, sizeof text, "--set %s:", name);
    if (memmem(told.ptr, told.len, text, strlen(text)))
        return true;
    (void)snprintf(text, sizeof text, "%s%s:", DF_CFG_ENV_PREFIX, name);
    for (char *c = text; *c && *c != ':'; c++)
        *c = df_config_env_char(*c);
    return memmem(told.ptr, told.len, text, strlen(text));
}

/* --- the whole -------------------------------------------------------------------------------- */

static void open_places(struct load *l)
{
    const struct df_config_table *t = l->table;
    size_t plain = 0, groups = 0;

    while (t->sections[plain].name)
        plain++;
    while (t->groups && t->groups[groups].group)
        groups++;
    l->places = df_calloc(plain + groups * DF_CFG_SECTIONS_MAX, sizeof(*l->places));
    for (const struct df_config_section *s = t->sections; s->name; s++)
        add_place(l, (struct place){.section = s->name,
                                    .keys = s->keys,
                                    .base = (char *)l->settings + s->offset});
    l->plain_count = plain;
}

enum df_code df_config_load(const struct df_config_table *t, const struct df_config_sources *src,
                            void *settings, struct df_buf *complaints)
{
    struct load l = {.table = t, .src = src, .settings = settings, .complaints = complaints};

    df_buf_init(&l.why, WHY_MAX_BYTES);
    open_places(&l);
    if (src->file)
        load_file(&l);
    load_env(&l);
    for (size_t i = 0; i < src->set_count; i++)
        load_set(&l, i);
    for (size_t i = 0; i < l.place_count; i++)
        load_secret_files(&l, &l.places[i]);

    if (l.complaint_count > COMPLAINTS_MAX)
        df_buf_addf(complaints, "and %zu more\n", l.complaint_count - COMPLAINTS_MAX);
    df_buf_release(&l.why);
    free(l.places);
    if (l.complaint_count > 0 && !src->keep)
        df_config_release(t, settings);
    return l.complaint_count > 0 ? DF_E_CONFIG : DF_OK;
}

void df_config_release(const struct df_config_table *t, void *settings)
{
    for (const struct df_config_section *s = t->sections; s->name; s++) {
        for (const struct df_config_key *k = s->keys; k->key; k++)
            df_config_value_release(k, (char *)settings + s->offset);
    }
    for (const struct df_config_group_at *g = t->groups; g && g->group; g++)
        df_config_items_release(g, settings);
}
