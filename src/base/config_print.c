/* The effective configuration, and the reference. */
#include "base/config_private.h"
#include "base/escape.h"

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
