#include "imports/api/report_private.h"

#include "json/doc.h"
#include "json/write.h"

#define REST_MAX ((size_t)16 << 20) /* a record has at most 4 MiB; escaping makes it longer */
#define REST     DF_STR("LeadContextJson")

static void add_member(struct df_report_table *t, struct df_str name, struct df_str header)
{
    struct df_report_member *m;

    if (df_map_get(&t->by_name, name))
        return;
    if (t->member_count == DF_REPORT_MEMBERS ||
        t->name_bytes + name.len + header.len > DF_REPORT_NAMES) {
        t->has_rest = true;
        return;
    }
    t->name_bytes += name.len + header.len;
    m = &t->members[t->member_count++];
    m->name = df_arena_str(&t->names, name);
    m->header = df_arena_str(&t->names, header);
    df_map_add(&t->by_name, m->name, m);
}

/* The columns of the file: pairs of the name that records have and the header's text. */
static void add_columns(struct df_report_table *t, struct df_str columns)
{
    const struct df_json *doc = NULL;
    struct df_err ignored = DF_ERR_INIT;

    if (!columns.ptr || df_json_parse(&t->arena, columns, &doc, &ignored) != DF_OK ||
        doc->type != DF_JSON_ARRAY)
        return;
    struct df_json_each each = df_json_each(doc);
    for (const struct df_json *pair; (pair = df_json_next(&each));) {
        struct df_json_each both = df_json_each(pair->type == DF_JSON_ARRAY ? pair : NULL);
        const struct df_json *v = df_json_next(&both);
        struct df_str name = v && v->type == DF_JSON_STRING ? v->text : DF_STR_NULL;
        v = v ? df_json_next(&both) : NULL; /* what it returned before is gone */
        if (name.ptr && v && v->type == DF_JSON_STRING)
            add_member(t, name, v->text);
    }
}

void df_report_table_init(struct df_report_table *t, struct df_str columns)
{
    memset(t, 0, sizeof *t);
    df_buf_init(&t->rest, REST_MAX);
    add_columns(t, columns);
}

void df_report_table_release(struct df_report_table *t)
{
    df_map_release(&t->by_name);
    df_arena_release(&t->names);
    df_arena_release(&t->arena);
    df_buf_release(&t->rest);
}

/* --- columns --- */

/* NULL: the text is not a record. */
static const struct df_json *parse_record(struct df_report_table *t, struct df_str record)
{
    const struct df_json *doc = NULL;
    struct df_err ignored = DF_ERR_INIT;

    df_arena_reset(&t->arena);
    if (df_json_parse(&t->arena, record, &doc, &ignored) != DF_OK || doc->type != DF_JSON_OBJECT)
        return NULL;
    return doc;
}

void df_report_table_learn(struct df_report_table *t, struct df_str record)
{
    if (!record.ptr)
        return;
    const struct df_json *doc = parse_record(t, record);
    if (!doc) {
        t->has_rest = true;
        return;
    }
    struct df_json_each each = df_json_each(doc);
    for (const struct df_json *m; (m = df_json_next(&each));)
        add_member(t, m->key, m->key);
}

/* The column of the sequence; that of the reason follows. A file may have a column LeadContextJson
 * of its own; the rest is then put into another. */
static size_t own_columns_at(const struct df_report_table *t)
{
    return t->member_count + t->has_rest;
}

size_t df_report_table_columns(const struct df_report_table *t)
{
    return own_columns_at(t) + 2;
}

void df_report_table_head(struct df_report_table *t)
{
    struct df_str *own = &t->cells[own_columns_at(t)];

    for (size_t i = 0; i < t->member_count; i++)
        t->cells[i] = t->members[i].header;
    if (t->has_rest)
        t->cells[t->member_count] = REST;
    own[0] = DF_STR(DF_REPORT_SEQUENCE);
    own[1] = DF_STR(DF_REPORT_ERROR);
}

/* --- cells --- */

static struct df_str cell_text_of(const struct df_json *v)
{
    if (v->type == DF_JSON_NULL)
        return DF_STR_NULL;
    return v->type == DF_JSON_STRING ? v->text : v->raw;
}

static void fill_members(struct df_report_table *t, const struct df_json *record)
{
    struct df_json_out out;

    df_json_out_init(&out, &t->rest);
    struct df_json_each each = df_json_each(record);
    for (const struct df_json *m; (m = df_json_next(&each));) {
        const struct df_report_member *member = df_map_get(&t->by_name, m->key);
        if (member) {
            t->cells[member - t->members] = cell_text_of(m);
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
    struct df_str *own = &t->cells[own_columns_at(t)];

    memset(t->cells, 0, df_report_table_columns(t) * sizeof t->cells[0]);
    df_buf_reset(&t->rest);
    int len = snprintf(t->sequence, sizeof t->sequence, "%lld", (long long)row->sequence);
    own[0] = df_str_n(t->sequence, (size_t)len);
    own[1] = row->error;
    if (!row->record.ptr)
        return;
    const struct df_json *doc = parse_record(t, row->record);
    if (doc)
        fill_members(t, doc);
    if (t->has_rest)
        t->cells[t->member_count] = !doc              ? row->record
                                    : t->rest.len > 0 ? df_buf_str(&t->rest)
                                                      : DF_STR_NULL;
}
