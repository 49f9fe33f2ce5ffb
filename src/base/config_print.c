/* The effective configuration, and the reference. */
#include "base/config_private.h"
#include "base/escape.h"
#include "base/suggest.h"

typedef void head_fn(const char *section, struct df_buf *out);
typedef void row_fn(const struct df_config_key *k, const void *settings, struct df_buf *out);

static bool is_first_of_name(const struct df_config_section *all, const struct df_config_section *s)
{
    while (strcmp(all->name, s->name) != 0)
        all++;
    return all == s;
}

/* Calls `row` for all keys of a section together, in any order of the tables. */
static void each_section(const struct df_config_table *t, struct df_buf *out, const void *settings,
                         head_fn *head, row_fn *row)
{
    for (const struct df_config_section *s = t->sections; s->name; s++) {
        if (!is_first_of_name(t->sections, s))
            continue;
        if (s != t->sections)
            df_buf_addc(out, '\n');
        head(s->name, out);
        for (const struct df_config_section *same = s; same->name; same++) {
            if (strcmp(same->name, s->name) != 0)
                continue;
            const void *room = settings ? (const char *)settings + same->offset : NULL;
            for (const struct df_config_key *k = same->keys; k->key; k++)
                row(k, room, out);
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
    for (const struct df_config_group_at *g = t->groups; g && g->group; g++) {
        for (size_t j = 0; j < df_config_item_count(g, settings); j++) {
            const void *item = df_config_item(g, settings, j);
            df_buf_addf(out, "\n[%s.%s]\n", g->group->prefix, df_config_item_name(g->group, item));
            for (const struct df_config_key *k = g->group->keys; k->key; k++)
                ini_row(k, item, out);
        }
    }
}

/* --- JSON --- */

static void json_row(const struct df_config_key *k, const void *settings, struct df_buf *out)
{
    struct df_buf value;
    df_buf_init(&value, (size_t)1 << 20);
    if (df_buf_str(out).ptr[out->len - 1] != '{')
        df_buf_addc(out, ',');
    if (df_config_value_print(k, settings, &value)) {
        df_buf_addf(out, "\"%s\":\"", k->key);
        df_buf_add_escaped(out, df_buf_str(&value));
        df_buf_addc(out, '"');
    } else {
        df_buf_addf(out, "\"%s\":null", k->key);
    }
    df_buf_release(&value);
}

static void json_sections(const struct df_config_table *t, const void *settings, struct df_buf *out)
{
    for (const struct df_config_section *s = t->sections; s->name; s++) {
        if (!is_first_of_name(t->sections, s))
            continue;
        df_buf_addf(out, "%s\"%s\":{", s == t->sections ? "" : ",", s->name);
        for (const struct df_config_section *same = s; same->name; same++)
            for (const struct df_config_key *k = same->keys;
                 strcmp(same->name, s->name) == 0 && k->key; k++)
                json_row(k, (const char *)settings + same->offset, out);
        df_buf_addc(out, '}');
    }
}

void df_config_print_json(const struct df_config_table *t, const void *settings, struct df_buf *out)
{
    df_buf_addc(out, '{');
    json_sections(t, settings, out);
    for (const struct df_config_group_at *g = t->groups; g && g->group; g++)
        for (size_t j = 0; j < df_config_item_count(g, settings); j++) {
            const void *item = df_config_item(g, settings, j);
            df_buf_addf(out, ",\"%s.%s\":{", g->group->prefix, df_config_item_name(g->group, item));
            for (const struct df_config_key *k = g->group->keys; k->key; k++)
                json_row(k, item, out);
            df_buf_addc(out, '}');
        }
    df_buf_addc(out, '}');
}

/* --- the reference --- */

#define TABLE_HEAD "| key | value | default | meaning |\n| --- | --- | --- | --- |\n"

static void docs_head(const char *section, struct df_buf *out)
{
    df_buf_addf(out, "## [%s]\n\n" TABLE_HEAD, section);
}

/* A bar would end the cell, even between backquotes. */
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

static void docs_group_head(const struct df_config_group *g, struct df_buf *out)
{
    df_buf_addf(
        out,
        "\n## [%s.NAME]\n\n%s\n\n"
        "Up to %d such sections. NAME has letters, digits, `-` and `_`, begins with a letter or "
        "digit, and is at most %d\ncharacters long; case does not tell two names apart. In the "
        "environment a key is `" DF_CFG_ENV_PREFIX,
        g->prefix, g->help, DF_CFG_SECTIONS_MAX, DF_CFG_NAME_MAX);
    for (const char *c = g->prefix; *c; c++)
        df_buf_addc(out, df_config_env_char(*c));
    df_buf_addf(
        out,
        "_<NAME>_<KEY>`,\nin capitals and with `_` in place of `-`; if no section has the name, "
        "one is made, its name in lower case.\n\n```ini\n%s```\n\n" TABLE_HEAD,
        g->example);
}

void df_config_print_docs(const struct df_config_table *t, struct df_buf *out)
{
    each_section(t, out, NULL, docs_head, docs_row);
    for (const struct df_config_group_at *g = t->groups; g && g->group; g++) {
        docs_group_head(g->group, out);
        for (const struct df_config_key *k = g->group->keys; k->key; k++)
            docs_row(k, NULL, out);
    }
}

/* --- one key --- */

struct explain {
    struct df_str section; /* absent: any */
    struct df_str key;     /* absent: all of the section */
    enum df_lang lang;
    struct df_arena *arena;
    struct df_buf *out;
    size_t found;
    struct df_suggest near; /* section.key */
};

static void add_row(struct explain *e, const char *head, struct df_str text)
{
    struct df_str name = df_lang_text(e->lang, df_str_c(head), e->arena);
    /* Columns count characters: a name may have an accent. */
    size_t pad = df_utf8_count(name) < 10 ? 10 - df_utf8_count(name) : 1;

    df_buf_addf(e->out, "  " DF_STR_FMT "%*s" DF_STR_FMT "\n", DF_STR_ARG(name), (int)pad, "",
                DF_STR_ARG(text));
}

static void explain_key(struct explain *e, const char *section, bool is_group,
                        const struct df_config_key *k)
{
    struct df_buf text;
    const char *name = is_group ? ".NAME" : "";

    df_buf_addf(e->out, "%s%s%s.%s\n  " DF_STR_FMT "\n\n", e->found > 0 ? "\n" : "", section, name,
                k->key, DF_STR_ARG(df_lang_text(e->lang, df_str_c(k->help), e->arena)));
    df_buf_init(&text, 1 << 16);
    df_config_value_describe(k, &text);
    for (size_t i = 0; i < text.len; i++) /* it is Markdown */
        if (text.ptr[i] == '`')
            text.ptr[i] = '"';
    add_row(e, "value", df_lang_text(e->lang, df_buf_str(&text), e->arena));
    if (k->def)
        add_row(e, "default", *k->def ? df_str_c(k->def) : DF_STR("\"\""));
    df_buf_reset(&text);
    df_buf_addf(&text, DF_CFG_ENV_PREFIX "%s%s_%s", section, is_group ? "_NAME" : "", k->key);
    for (size_t i = 0; i < text.len; i++)
        text.ptr[i] = df_config_env_char(text.ptr[i]);
    add_row(e, "variable", df_buf_str(&text));
    df_buf_reset(&text);
    df_buf_addf(&text, "--set %s%s.%s=…", section, name, k->key);
    add_row(e, "option", df_buf_str(&text));
    df_buf_release(&text);
    e->found++;
}

static void explain_section(struct explain *e, const char *section, bool is_group,
                            const struct df_config_key *k)
{
    bool here = !e->section.ptr || df_str_ieq(e->section, df_str_c(section));

    for (; k->key; k++) {
        if (here && (!e->key.ptr || df_str_ieq(e->key, df_str_c(k->key))))
            explain_key(e, section, is_group, k);
        struct df_str full = df_arena_printf(e->arena, "%s.%s", section, k->key);
        df_suggest_try(&e->near, df_arena_cstr(e->arena, full));
    }
}

static void explain_all(struct explain *e, const struct df_config_table *t)
{
    for (const struct df_config_section *s = t->sections; s->name; s++)
        explain_section(e, s->name, false, s->keys);
    for (const struct df_config_group_at *g = t->groups; g && g->group; g++)
        explain_section(e, g->group->prefix, true, g->group->keys);
}

bool df_config_print_key(const struct df_config_table *t, struct df_str name, enum df_lang lang,
                         struct df_arena *a, struct df_buf *out, const char **ret_near)
{
    struct explain e = {.lang = lang, .arena = a, .out = out, .near = {.typed = name}};
    const char *dot = name.len > 0 ? memrchr(name.ptr, '.', name.len) : NULL;

    if (dot) { /* section.key, prefix.NAME.key */
        (void)df_str_cut(name, '.', &e.section);
        e.key = df_str_n(dot + 1, (size_t)(name.ptr + name.len - dot - 1));
        explain_all(&e, t);
    } else { /* a section, else a key of any */
        e.section = name;
        explain_all(&e, t);
        if (e.found == 0) {
            e.section = DF_STR_NULL;
            e.key = name;
            explain_all(&e, t);
        }
    }
    *ret_near = e.near.best;
    return e.found > 0;
}
