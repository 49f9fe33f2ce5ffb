#include "imports/api/mend.h"

#include "base/mem.h"
#include "files/storage.h"
#include "imports/api/mend.sql.h"
#include "imports/batch.h"
#include "imports/kept.h"
#include "keys/keys.h"
#include "net/field.h"
#include "privacy/mask.h"
#include "privacy/subjects.h"
#include "store/rows.h"
#include "tabular/names.h"
#include "tabular/normalise.h"

#include <stdio.h>
#include <stdlib.h>

#define VALUES_MOST 500 /* of an item */
#define FIELDS_MOST (4096 + VALUES_MOST)

/* --- the body --- */

static int by_sequence(const void *a, const void *b)
{
    const struct df_mend_item *x = a, *y = b;
    return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

static bool read_item(struct df_mend_item *item, size_t index, const struct df_json *v,
                      struct df_input *in)
{
    struct df_json sequence;
    const char *field = df_arena_cstr(in->arena, df_arena_printf(in->arena, "items[%zu]", index));

    item->index = index;
    if (v->type != DF_JSON_OBJECT) {
        df_input_error(in, field, "must be an object");
        return false;
    }
    bool ok = df_json_find(v, "sequence", &sequence) &&
              df_json_to_i64(&sequence, &item->sequence) && item->sequence >= 0 &&
              item->sequence <= INT32_MAX;
    if (!ok)
        df_input_error(in, field, "must have the sequence of a record");
    (void)df_json_find(v, "values", &item->values);
    size_t count = item->values.type == DF_JSON_OBJECT ? df_json_count(&item->values) : 0;
    if (count == 0 || count > VALUES_MOST) {
        df_input_error(in, field, "must have values: an object with 1 to %d of them", VALUES_MOST);
        return false;
    }
    return ok;
}

static void find_repeats(struct df_mend *m, struct df_input *in)
{
    qsort(m->items, m->count, sizeof(*m->items), by_sequence);
    for (size_t i = 1; i < m->count; i++)
        if (m->items[i].sequence == m->items[i - 1].sequence)
            df_input_error(
                in,
                df_arena_cstr(in->arena,
                              df_arena_printf(in->arena, "items[%zu].sequence", m->items[i].index)),
                "stands twice");
}

bool df_mend_read(struct df_mend *m, struct df_req *req, struct df_input *in)
{
    struct df_json items;

    if (df_str_trim(df_req_body(req)).len == 0 ||
        !df_field_is_json(df_req_header(req, "Content-Type")))
        return true;
    if (!df_input_json(in, req))
        return false;
    if (!df_json_find(in->object, "items", &items) || items.type == DF_JSON_NULL)
        return true;
    size_t count = items.type == DF_JSON_ARRAY ? df_json_count(&items) : 0;
    if (items.type != DF_JSON_ARRAY || count > DF_MEND_ITEMS) {
        df_input_error(in, "items", "must be a list of at most %d items", DF_MEND_ITEMS);
        return true;
    }
    if (!df_req_charge(req, count * sizeof(*m->items)))
        return false;
    m->items = DF_ARENA_ARRAY(df_req_arena(req), struct df_mend_item, count);
    struct df_json_each each = df_json_each(&items);
    size_t index = 0;
    for (const struct df_json *v; (v = df_json_next(&each)); index++)
        m->count += read_item(&m->items[m->count], index, v, in);
    find_repeats(m, in);
    return true;
}

/* --- mending --- */

struct mending {
    struct df_mend *m;
    const struct df_imports_options *opt;
    struct df_uuid batch;
    struct df_arena arena;  /* all that is written */
    struct df_arena record; /* of one record */
    struct df_str mapping_json;
    struct df_str origin;
    struct df_str columns_json;
    struct df_mapping *mapping;
    struct df_map columns; /* names of the file's columns, folded; empty: not known */
    struct df_normaliser *normaliser;
    struct df_field *fields; /* FIELDS_MOST */
    size_t field_count;
    size_t next; /* of m->items: the one that is expected */
    size_t bytes;
    size_t gone;   /* items whose record is no longer kept */
    size_t erased; /* items of people who were erased */
    bool masks;
    int64_t now_ms;
    struct df_rows update;
    struct df_rows drop;
    struct df_rows keep;
    struct df_buf subjects;
    enum df_code code;
    struct df_err *err;
};

__attribute__((format(printf, 4, 5))) static void refuse_item(struct mending *g,
                                                              const struct df_mend_item *item,
                                                              const char *member, const char *fmt,
                                                              ...)
{
    struct df_mend *m = g->m;
    char text[256];
    va_list ap;

    if (m->error_count == DF_INPUT_ERRORS_MAX)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    m->errors[m->error_count++] =
        (struct df_field_error){df_arena_printf(&g->arena, "items[%zu].%s", item->index, member),
                                df_arena_str(&g->arena, df_str_c(text))};
}

static struct df_field field_of(const struct df_json *v, struct df_str name)
{
    struct df_field f = {.name = name, .text = v->text};

    switch (v->type) {
    case DF_JSON_NULL:
        f.kind = DF_FIELD_NULL;
        break;
    case DF_JSON_BOOL:
        f.kind = DF_FIELD_BOOL;
        f.text = v->boolean ? DF_STR("true") : DF_STR("false");
        break;
    case DF_JSON_NUMBER:
        f.kind = DF_FIELD_NUMBER;
        break;
    case DF_JSON_STRING:
        f.kind = DF_FIELD_TEXT;
        break;
    case DF_JSON_ARRAY:
    case DF_JSON_OBJECT:
        f.kind = DF_FIELD_JSON;
        f.text = v->raw;
        break;
    }
    return f;
}

static struct df_str fold(struct df_arena *a, struct df_str name)
{
    char *out = df_arena_alloc(a, name.len + 1);
    size_t len = df_header_fold(name, out);
    return len > 0 ? df_str_n(out, len) : name;
}

/* The meaning that a column has in the batch. */
static enum df_header meaning_of(const struct mending *g, struct df_str name)
{
    const struct df_mapping_entry *e = df_mapping_find(g->mapping, name);
    bool exact;

    return e ? e->header : df_header_find(df_names_trim(name), &exact);
}

static struct df_field *find_field(struct mending *g, struct df_str name)
{
    for (size_t i = 0; i < g->field_count; i++)
        if (df_str_eq(g->fields[i].name, name))
            return &g->fields[i];
    struct df_str folded = fold(&g->record, df_names_trim(name));
    for (size_t i = 0; i < g->field_count; i++)
        if (df_str_eq(fold(&g->record, df_names_trim(g->fields[i].name)), folded))
            return &g->fields[i];
    return NULL;
}

/* A path of the mapping that means this field: a member of the path's name hides the path. */
static struct df_str path_of(const struct mending *g, enum df_header header)
{
    for (size_t i = 0; g->mapping && i < g->mapping->count; i++)
        if (g->mapping->entries[i].header == header && g->mapping->entries[i].is_path)
            return g->mapping->entries[i].source;
    return DF_STR_NULL;
}

/* Where the value of a canonical name belongs: the column that means it, if the record has one. */
static struct df_field *place_of_field(struct mending *g, enum df_header header,
                                       struct df_str *ret_name)
{
    struct df_field *found = NULL;

    for (size_t i = 0; i < g->field_count && !found; i++)
        if (meaning_of(g, g->fields[i].name) == header)
            found = &g->fields[i];
    *ret_name = found ? found->name : path_of(g, header);
    if (!ret_name->ptr)
        *ret_name = df_str_c(df_header_name(header));
    return found;
}

/* Puts a new value into the record. False: nothing has that name. */
static bool put_value(struct mending *g, const struct df_json *v)
{
    struct df_field *f = find_field(g, v->key);
    const struct df_mapping_entry *e = df_mapping_find(g->mapping, v->key);
    struct df_str name = f ? f->name : df_arena_str(&g->record, v->key);
    struct df_str *column = df_map_get(&g->columns, fold(&g->record, df_names_trim(v->key)));
    bool exact = false;

    if (!f && column) {
        name = *column;
    } else if (!f && e) {
        name = e->source;
    } else if (!f) {
        enum df_header header = df_header_find(df_names_trim(v->key), &exact);
        if (!exact)
            return false;
        f = place_of_field(g, header, &name);
    }
    if (!f)
        f = &g->fields[g->field_count++];
    *f = field_of(v, name);
    return true;
}

static void write_record(struct df_json_out *out, const struct mending *g)
{
    df_json_open(out, '{');
    for (size_t i = 0; i < g->field_count; i++) {
        const struct df_field *f = &g->fields[i];
        df_json_key_str(out, f->name);
        if (f->kind == DF_FIELD_TEXT)
            df_json_text(out, f->text);
        else if (f->kind == DF_FIELD_NULL)
            df_json_null(out);
        else
            df_json_raw(out, f->text);
    }
    df_json_close(out, '}');
}

/* The record's fields, with the new values. False: the record is told of. */
static bool mend_fields(struct mending *g, const struct df_mend_item *item, struct df_str record)
{
    struct df_err ignored = DF_ERR_INIT;
    const struct df_json *object;
    bool ok = true;

    if (df_json_parse(&g->record, record, &object, &ignored) != DF_OK ||
        object->type != DF_JSON_OBJECT || df_json_count(object) > FIELDS_MOST - VALUES_MOST) {
        refuse_item(g, item, "sequence", "has a record that cannot be read");
        return false;
    }
    g->field_count = 0;
    struct df_json_each fields = df_json_each(object);
    for (const struct df_json *v; (v = df_json_next(&fields));)
        g->fields[g->field_count++] = field_of(v, v->key);
    struct df_json_each values = df_json_each(&item->values);
    for (const struct df_json *v; (v = df_json_next(&values));) {
        if (put_value(g, v))
            continue;
        struct df_str name = df_utf8_cut(v->key, 100);
        refuse_item(g, item, "values",
                    "\"" DF_STR_FMT "\" is neither a column of the file nor a "
                    "canonical name",
                    DF_STR_ARG(name));
        ok = false;
    }
    return ok;
}

/* Adds the rows that store the mended record and its item. */
static void store_mended(struct mending *g, int64_t sequence, struct df_str record,
                         struct df_str json)
{
    struct df_value id = df_uuid(df_uuid_str(&g->batch));
    struct import_kept kept = {.record = record, .item = json};
    struct df_str payload, sealed = DF_STR_NULL;
    char *hash = df_arena_alloc(&g->arena, DF_CHECKSUM_LEN + 1);
    struct df_buf out;

    if (g->masks) {
        df_buf_init(&out, DF_HASHED_GROWTH * json.len + DF_HASHED_GROWTH);
        df_mask_hash(g->opt->masker, json, hash);
        df_mask_json(g->opt->masker, json, &out);
        payload = df_arena_str(&g->arena, df_buf_str(&out));
        df_buf_release(&out);
        df_buf_init(&out, DF_MEND_BYTES);
        import_kept_seal(g->opt->keys, &g->batch, sequence, &kept, &out);
        sealed = df_arena_str(&g->arena, df_buf_str(&out));
        df_buf_release(&out);
    } else {
        df_checksum_of(json, hash);
        payload = df_arena_str(&g->arena, json);
        record = df_arena_str(&g->arena, record);
    }
    g->bytes += payload.len + sealed.len + record.len;
    DF_ROWS_ADD(&g->update, mend_item, .payload = df_text(payload), .hash = df_text(df_str_c(hash)),
                .masked = df_bool(g->masks), .original = df_text(g->masks ? DF_STR_NULL : record),
                .id = id, .sequence = df_int(sequence));
    DF_ROWS_ADD(&g->drop, mend_drop_kept, .id = id, .sequence = df_int(sequence));
    if (g->masks)
        DF_ROWS_ADD(&g->keep, mend_keep, .id = id, .sequence = df_int(sequence),
                    .key = df_int(df_sealed_key(sealed)), .sealed = df_blob(sealed),
                    .now = df_time(g->now_ms));
    if (g->opt->keys)
        df_subjects_add_item(g->opt->keys, json, sequence, &g->subjects);
}

static enum df_code mend_record(struct mending *g, const struct df_mend_item *item,
                                struct df_str record)
{
    struct df_record mended = {.fields = g->fields};
    enum df_item_verdict verdict = DF_ITEM_ERROR;
    struct df_str reason = DF_STR_NULL;
    struct df_json_out out;
    struct df_buf json, text;

    if (!mend_fields(g, item, record))
        return DF_OK;
    mended.count = g->field_count;
    df_buf_init(&json, (size_t)2 << 20);
    df_buf_init(&text, (size_t)4 << 20);
    df_json_out_init(&out, &text);
    write_record(&out, g);
    enum df_code code =
        df_normalise(g->normaliser, &mended, item->sequence, &json, &verdict, &reason, g->err);
    if (code == DF_OK && df_buf_failed(&text))
        refuse_item(g, item, "values", "make the record larger than 4 MiB");
    else if (code == DF_OK && verdict != DF_ITEM_SEND)
        refuse_item(g, item, "values", "do not mend record %lld: " DF_STR_FMT " (%s)",
                    (long long)item->sequence, DF_STR_ARG(reason),
                    df_normaliser_code(g->normaliser));
    else if (code == DF_OK)
        store_mended(g, item->sequence, df_buf_str(&text), df_buf_str(&json));
    df_buf_release(&json);
    df_buf_release(&text);
    if (code == DF_OK && g->bytes > DF_MEND_BYTES)
        code = df_err_set(g->err, DF_E_TOO_LARGE,
                          "The records have more than %zu bytes. Mend fewer "
                          "of them at a time.",
                          DF_MEND_BYTES);
    return code;
}

/* The record as it was uploaded; absent: it is not there any more. */
static struct df_str stored_record(struct mending *g, struct df_result *r)
{
    struct import_kept kept = {.record = DF_STR_NULL};
    struct df_err ignored = DF_ERR_INIT;

    if (df_col_null(r, mend_items_Sealed))
        return df_arena_str(&g->record, df_col_text(r, mend_items_OriginalJson));
    if (import_kept_open(g->opt->keys, &g->batch, df_col_int(r, mend_items_Sequence),
                         df_col_blob(r, mend_items_Sealed), &g->record, &kept, &ignored) != DF_OK)
        return DF_STR_NULL;
    return kept.record;
}

/* Both come by sequence: those of m->items that are passed over do not exist. */
static void take_item(void *arg, struct df_result *r)
{
    struct mending *g = arg;
    const struct df_mend *m = g->m;
    int64_t sequence = df_col_int(r, mend_items_Sequence);

    if (g->code != DF_OK)
        return;
    while (g->next < m->count && m->items[g->next].sequence < sequence)
        refuse_item(g, &m->items[g->next++], "sequence", "is not that of a record of the batch");
    if (g->next == m->count)
        return;
    const struct df_mend_item *item = &m->items[g->next++];
    df_arena_reset(&g->record);
    if (df_col_int(r, mend_items_Status) != DF_ITEM_STATUS_ERROR) {
        refuse_item(g, item, "sequence", "is that of a record that has not failed");
        return;
    }
    struct df_str record = stored_record(g, r);
    if (!record.ptr) {
        g->gone++;
        g->erased += df_str_eq(df_col_text(r, mend_items_PayloadJson), DF_STR("{\"erased\":true}"));
        refuse_item(g, item, "sequence", "is that of a record that is no longer kept");
        return;
    }
    g->code = mend_record(g, item, record);
}

/* --- the batch --- */

static void read_batch(void *arg, struct df_result *r)
{
    struct mending *g = arg;

    g->mapping_json = df_arena_str(&g->arena, df_col_text(r, mend_batch_MappingJson));
    g->origin = df_arena_str(&g->arena, df_col_text(r, mend_batch_OriginDefault));
    g->columns_json = df_arena_str(&g->arena, df_col_text(r, mend_batch_ColumnsJson));
}

/* [["Fone","Fone"],["Fone (2)","Fone"], …]: the names that records have. */
static void list_columns(struct mending *g)
{
    struct df_err ignored = DF_ERR_INIT;
    const struct df_json *list;

    if (!g->columns_json.ptr || df_json_parse(&g->arena, g->columns_json, &list, &ignored) != DF_OK)
        return;
    struct df_json_each each = df_json_each(list);
    for (const struct df_json *v; (v = df_json_next(&each));) {
        struct df_json pair = *v;
        struct df_json_each both = df_json_each(&pair);
        const struct df_json *name = df_json_next(&both);
        if (!name || name->type != DF_JSON_STRING)
            continue;
        struct df_str *kept = DF_ARENA_NEW(&g->arena, struct df_str);
        *kept = df_arena_str(&g->arena, name->text);
        (void)df_map_try_add(&g->columns, fold(&g->arena, df_names_trim(*kept)), kept);
    }
}

static enum df_code load_batch(struct df_db *db, struct mending *g, struct df_err *err)
{
    struct df_value id = df_uuid(df_uuid_str(&g->batch));
    enum df_code code = df_db_one(db, DF_Q(mend_batch, .id = id), read_batch, g, NULL, err);

    if (code == DF_OK)
        code = df_mapping_load(&g->arena, g->mapping_json, &g->mapping, err);
    if (code != DF_OK)
        return code;
    list_columns(g);
    g->normaliser = df_normaliser_new(&(struct df_normalise_options){.origin_default = g->origin,
                                                                     .temp_dir = g->opt->data_dir,
                                                                     .mapping = g->mapping,
                                                                     .keeps_repeats = true});
    return DF_OK;
}

static enum df_code read_records(struct df_db *db, struct mending *g, bool expired,
                                 struct df_err *err)
{
    struct df_mend *m = g->m;
    struct df_ids ids = df_ids_for(&g->arena, m->count, false);

    for (size_t i = 0; i < m->count; i++)
        df_ids_add_int(&ids, m->items[i].sequence);
    enum df_code code =
        df_db_each(db,
                   DF_Q(mend_items, .expired = df_int(expired),
                        .id = df_uuid(df_uuid_str(&g->batch)), .ids = df_ids_value(&ids)),
                   take_item, g, err);
    if (code == DF_OK)
        code = g->code;
    while (code == DF_OK && g->next < m->count)
        refuse_item(g, &m->items[g->next++], "sequence", "is not that of a record of the batch");
    return code;
}

static enum df_code write_mended(struct df_db *db, struct mending *g, struct df_err *err)
{
    const struct df_subject_items people = {
        .batch = df_uuid_str(&g->batch), .chunk = -1, .entries = df_buf_str(&g->subjects)};
    enum df_code code = df_rows_run(db, &g->update, NULL, err);

    if (code == DF_OK)
        code = df_rows_run(db, &g->drop, NULL, err);
    if (code == DF_OK)
        code = df_rows_run(db, &g->keep, NULL, err);
    if (code == DF_OK)
        code = df_subjects_write_items(db, &people, 1, &g->arena, err);
    return code;
}

/* The errors' texts outlive the arena of the mending. */
static void keep_errors(struct df_mend *m, struct df_arena *to)
{
    for (size_t i = 0; i < m->error_count; i++) {
        m->errors[i].field = df_arena_str(to, m->errors[i].field);
        m->errors[i].message = df_arena_str(to, m->errors[i].message);
    }
}

static enum df_code records_are_gone(struct df_err *err)
{
    return df_err_set(
        err, DF_E_PAYLOAD_EXPIRED,
        "The failed records of the batch were kept for a time, which is over. Correct "
        "them and send them as a new batch.");
}

enum df_code df_mend_run(struct df_db *db, struct df_mend *m, const struct df_imports *i,
                         struct df_req *req, const struct df_uuid *batch, bool expired,
                         int64_t now_ms, struct df_err *err)
{
    const struct df_imports_options *opt = df_imports_options_of(i);
    struct mending g = {.m = m, .opt = opt, .batch = *batch, .now_ms = now_ms, .err = err};

    if (expired)
        return records_are_gone(err);
    m->error_count = 0;
    df_arena_init(&g.arena);
    df_arena_init(&g.record);
    df_buf_init(&g.subjects, DF_MEND_BYTES);
    g.masks = opt->masker && df_masker_masks(opt->masker);
    g.fields = df_malloc(FIELDS_MOST * sizeof(*g.fields));
    g.update = df_rows_for(&g.arena, &df_q_mend_item, m->count);
    g.drop = df_rows_for(&g.arena, &df_q_mend_drop_kept, m->count);
    g.keep = df_rows_for(&g.arena, &df_q_mend_keep, m->count);
    enum df_code code = load_batch(db, &g, err);
    if (code == DF_OK)
        code = read_records(db, &g, expired, err);
    if (code == DF_OK && g.erased == m->count)
        code = df_err_set(err, DF_E_ERASED, "The failed records of the batch were erased.");
    else if (code == DF_OK && g.gone == m->count)
        code = records_are_gone(err);
    if (code == DF_OK && m->error_count > 0)
        code = df_err_set(err, DF_E_VALIDATION, "%zu field%s not valid: see errors.",
                          m->error_count, m->error_count == 1 ? " is" : "s are");
    if (code == DF_OK)
        code = write_mended(db, &g, err);
    keep_errors(m, df_req_arena(req));
    df_normaliser_free(g.normaliser);
    df_map_release(&g.columns);
    df_buf_release(&g.subjects);
    free(g.fields);
    df_arena_release(&g.record);
    df_arena_release(&g.arena);
    return code;
}
