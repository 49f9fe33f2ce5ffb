/*
 * Records and columns as they stand in the file, for error reports. The file is removed when the
 * batch is over, so the record of an item that failed is stored with the item (OriginalJson), and
 * the names of the columns with the batch (ColumnsJson). Whether an item fails is known only when
 * its chunk is settled: until then the chunk holds the records of all of its items.
 */
#include "base/personal.h"
#include "imports/process/process_private.h"
#include "json/write.h"

#define RECORD_MAX                                                                                 \
    ((size_t)4 << 20) /* a record has 1 MiB in the file; escaping makes it longer                  \
                       */
#define COLUMNS_MAX                                                                                \
    ((size_t)256 << 10) /* more are not kept: the report then has those with values */

static void write_value(struct df_json_out *out, const struct df_field *f)
{
    switch (f->kind) {
    case DF_FIELD_NULL:
        df_json_null(out);
        return;
    case DF_FIELD_TEXT:
        df_json_text(out, f->text);
        return;
    case DF_FIELD_NUMBER:
    case DF_FIELD_BOOL:
    case DF_FIELD_JSON:
        df_json_raw(out, f->text);
        return;
    }
}

/* Appends the record as an object. One that does not fit is left out: the report then shows the
 * item instead. */
void import_original_keep(struct import_chunk *c, struct import_item *item,
                          const struct df_record *record)
{
    struct df_json_out out;
    struct df_buf one;

    df_buf_init(&one, RECORD_MAX);
    df_json_out_init(&out, &one);
    df_json_open(&out, '{');
    for (size_t i = 0; i < record->count; i++) {
        df_json_key_str(&out, record->fields[i].name);
        write_value(&out, &record->fields[i]);
    }
    df_json_close(&out, '}');
    if (!df_buf_failed(&one) && c->originals.len + one.len <= IMPORT_ORIGINALS_MAX) {
        item->original_at = c->originals.len;
        item->original_len = one.len;
        df_buf_adds(&c->originals, df_buf_str(&one));
    }
    df_buf_release(&one);
}

struct df_str import_original_of(const struct import_chunk *c, const struct import_item *item)
{
    if (item->original_len == 0 || item->status != DF_ITEM_STATUS_ERROR)
        return DF_STR_NULL;
    return df_str_n(c->originals.ptr + item->original_at, item->original_len);
}

/* A file without a header row has its first person there. */
static bool has_person(struct df_columns *columns)
{
    for (size_t i = 0; i < columns->count; i++)
        if (df_text_is_personal(df_columns_header(columns, i)))
            return true;
    return false;
}

/* [["Fone","Fone"],["Fone (2)","Fone"],["Column C",""],...]: the name that records have, and the
 * header's text. Columns that an error report added are left out. Names of which one is a person's
 * are not stored where items are masked: the report then learns them from the records. */
struct df_str import_columns_json(struct import_batch *b)
{
    struct df_columns *columns = b->reading.records->columns;
    struct df_str json = DF_STR_NULL;
    struct df_json_out out;
    struct df_buf text;

    if (!columns || (import_masks(b) && has_person(columns)))
        return DF_STR_NULL;
    df_buf_init(&text, COLUMNS_MAX);
    df_json_out_init(&out, &text);
    df_json_open(&out, '[');
    for (size_t i = 0; i < columns->count && !df_buf_failed(&text); i++) {
        struct df_str name = df_columns_name(columns, i);
        if (b->reading.records->dropped && df_records_is_own(name))
            continue;
        df_json_open(&out, '[');
        df_json_text(&out, name);
        df_json_text(&out, df_columns_header(columns, i));
        df_json_close(&out, ']');
    }
    df_json_close(&out, ']');
    if (!df_buf_failed(&text))
        json = df_arena_str(&b->arena, df_buf_str(&text));
    df_buf_release(&text);
    return json;
}
