#include "imports/api/report_private.h"

#include "json/doc.h"
#include "json/write.h"

#define REST_MAX ((size_t)16 << 20) /* an item has at most 1 MiB; escaping makes it longer */

static const struct df_str fixed_names[] = {
    [DF_CELL_SEQUENCE] = DF_STR_INIT("Sequence"), [DF_CELL_REASON] = DF_STR_INIT("ErrorMessage"),
    [DF_CELL_PHONE] = DF_STR_INIT("PhoneNumber"), [DF_CELL_ORIGIN] = DF_STR_INIT("Origin"),
    DF_STR_INIT("PropertyContextJson"),           DF_STR_INIT("LeadContextJson"),
};
#define FIXED_NAMES (sizeof(fixed_names) / sizeof(fixed_names[0]))

void df_report_table_init(struct df_report_table *t)
{
    *t = (struct df_report_table){0};
    df_buf_init(&t->rest, REST_MAX);
}

void df_report_table_release(struct df_report_table *t)
{
    df_map_release(&t->by_name);
    df_arena_release(&t->names);
    df_arena_release(&t->arena);
    df_buf_release(&t->rest);
}

/* --- columns --- */

static void learn_member(struct df_report_table *t, struct df_str name)
{
    if (df_map_get(&t->by_name, name))
        return;
    if (t->member_count == DF_REPORT_MEMBERS || df_utf8_count(name) > DF_REPORT_NAME_CHARS) {
        t->has_rest = true;
        return;
    }
    struct df_str *member = &t->members[t->member_count++];
    *member = df_arena_str(&t->names, name);
    df_map_add(&t->by_name, *member, member);
}

/* NULL: the payload is not an item. */
static const struct df_json *parse_payload(struct df_report_table *t, struct df_str payload)
{
    const struct df_json *doc = NULL;
    struct df_err ignored = DF_ERR_INIT;
    df_arena_reset(&t->arena);
    if (df_json_parse(&t->arena, payload, &doc, &ignored) != DF_OK || doc->type != DF_JSON_OBJECT)
        return NULL;
    return doc;
}

void df_report_table_learn(struct df_report_table *t, struct df_str payload)
{
    if (!payload.ptr)
        return;
    const struct df_json *doc = parse_payload(t, payload);
    const struct df_json *lead = doc ? df_json_get(doc, "LeadContextJson") : NULL;
    if (!doc || (lead && lead->type != DF_JSON_OBJECT && lead->type != DF_JSON_NULL))
        t->has_rest = true;
    bool members = lead && lead->type == DF_JSON_OBJECT;
    struct df_json_each each = df_json_each(members ? lead : NULL);
    for (const struct df_json *m; (m = df_json_next(&each));)
        learn_member(t, m->key);
}

size_t df_report_table_columns(const struct df_report_table *t)
{
    return DF_CELL_FIXED + t->member_count + 1 + t->has_rest;
}

/* A member with the name of a fixed column gets a prefix. */
static struct df_str column_head(struct df_report_table *t, struct df_str member)
{
    for (size_t i = 0; i < FIXED_NAMES; i++)
        if (df_str_ieq(member, fixed_names[i]))
            return df_arena_printf(&t->names, "LeadContextJson." DF_STR_FMT, DF_STR_ARG(member));
    return member;
}

void df_report_table_head(struct df_report_table *t)
{
    for (size_t i = 0; i < DF_CELL_FIXED; i++)
        t->cells[i] = fixed_names[i];
    for (size_t i = 0; i < t->member_count; i++)
        t->cells[DF_CELL_FIXED + i] = column_head(t, t->members[i]);
    t->cells[DF_CELL_FIXED + t->member_count] = fixed_names[DF_CELL_FIXED];
    t->cells[DF_CELL_FIXED + t->member_count + 1] = fixed_names[DF_CELL_FIXED + 1];
}

/* --- cells --- */

static struct df_str cell_text_of(const struct df_json *v)
{
    if (!v || v->type == DF_JSON_NULL)
        return DF_STR_NULL;
    return v->type == DF_JSON_STRING ? v->text : v->raw;
}

static void fill_lead(struct df_report_table *t, const struct df_json *lead)
{
    struct df_json_out out;

    df_json_out_init(&out, &t->rest);
    struct df_json_each each = df_json_each(lead);
    for (const struct df_json *m; (m = df_json_next(&each));) {
        const struct df_str *member = df_map_get(&t->by_name, m->key);
        if (member) {
            t->cells[DF_CELL_FIXED + (member - t->members)] = cell_text_of(m);
            continue;
        }
        if (t->rest.len == 0)
            df_json_open(&out, '{');
        df_json_key_str(&out, m->key);
        df_json_raw(&out, m->raw);
    }
    if (t->rest.len > 0)
        df_json_close(&out, '}');
}

void df_report_table_fill(struct df_report_table *t, const struct df_report_row *row)
{
    struct df_str *last = &t->cells[DF_CELL_FIXED + t->member_count];

    memset(t->cells, 0, sizeof t->cells);
    df_buf_reset(&t->rest);
    int len = snprintf(t->sequence, sizeof t->sequence, "%lld", (long long)row->sequence);
    t->cells[DF_CELL_SEQUENCE] = df_str_n(t->sequence, (size_t)len);
    t->cells[DF_CELL_REASON] = row->error;
    if (!row->payload.ptr)
        return;
    const struct df_json *doc = parse_payload(t, row->payload);
    if (!doc) {
        last[1] = row->payload;
        return;
    }
    t->cells[DF_CELL_PHONE] = cell_text_of(df_json_get(doc, "PhoneNumber"));
    t->cells[DF_CELL_ORIGIN] = cell_text_of(df_json_get(doc, "Origin"));
    last[0] = cell_text_of(df_json_get(doc, "PropertyContextJson"));
    const struct df_json *lead = df_json_get(doc, "LeadContextJson");
    if (lead && lead->type == DF_JSON_OBJECT) {
        fill_lead(t, lead);
        last[1] = t->rest.len > 0 ? df_buf_str(&t->rest) : DF_STR_NULL;
    } else {
        last[1] = cell_text_of(lead);
    }
}
