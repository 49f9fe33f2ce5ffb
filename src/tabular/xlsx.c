/*
 * Rows of a sheet as records. The first row with a visible value is the header; empty rows above it
 * are skipped. Below it, a row without values is a record without fields if a row with values
 * follows, whether the file contains the empty row or, as most programs do, leaves it out. Two
 * kinds of empty rows are not records: those at the end of a sheet, which formatting leaves behind,
 * and a gap of more than GAP_MAX rows before a stray cell.
 */
#include "tabular/xlsx.h"

#include "base/mem.h"
#include "tabular/columns.h"
#include "tabular/xlsx_book.h"
#include "tabular/xlsx_sheet.h"
#include "tabular/xlsx_strings.h"

#include <stdio.h>
#include <stdlib.h>

#define SHARED_MAX (2ULL << 30) /* bytes of shared strings, most of them on disk */
#define GAP_MAX    1000         /* a longer gap of rows that the file leaves out is skipped */

struct xlsx {
    struct df_records base;
    struct df_bytes file;
    struct df_records_options opt;
    struct df_zip zip;
    struct df_book book;
    struct df_strings *strings;
    struct df_sheet_rows *rows;
    struct df_columns columns;
    bool has_header;
    enum df_code answer; /* DF_ROW; DF_DONE or an error once reading has ended */
    struct df_err err;
    uint64_t records;
    uint64_t last_row;   /* number of the last row read */
    uint64_t empty_rows; /* still to be handed out before the row in fields */
    bool held;           /* fields hold a row that was not handed out yet */
    struct df_field *fields;
    size_t field_count, field_room;
    size_t record_bytes;
    struct df_buf text; /* the record's texts that were formatted or came from disk */
    struct place {
        uint32_t column;
        size_t at; /* of the field's text in the buffer, or SIZE_MAX */
    } * places;    /* one for each field */
};

/* --- cells ------------------------------------------------------------------------------------ */

static enum df_code shared_text(struct xlsx *x, const struct df_row *row, const struct df_cell *c,
                                struct df_str *ret, bool *ret_stays, struct df_err *err)
{
    if (x->strings && c->index < df_strings_count(x->strings))
        return df_strings_get(x->strings, c->index, ret, ret_stays, err);
    char letters[DF_COLUMN_LETTERS];
    df_column_letters(c->column, letters);
    return df_err_set(err, DF_E_VALIDATION, "cell %s%llu: the workbook has no shared string %u",
                      letters, (unsigned long long)row->number, c->index);
}

static enum df_field_kind number_text(struct xlsx *x, const struct df_cell *c, struct df_str *ret,
                                      bool *ret_stays)
{
    const struct df_format *f =
        c->style < x->book.format_count ? x->book.formats[c->style] : df_format_builtin(0);
    size_t from = x->text.len;
    if (c->type == DF_CELL_NUMBER && f->kind == DF_FORMAT_PLAIN && df_number_is_plain(c->text)) {
        *ret = c->text;
        *ret_stays = true;
        return DF_FIELD_NUMBER;
    }
    struct df_str raw = df_str_trim(c->text); /* some programs indent it */
    enum df_field_kind kind = c->type == DF_CELL_DATE
                                  ? df_format_iso(f, raw, &x->text)
                                  : df_format_number(f, x->book.date1904, raw, &x->text);
    *ret = df_str_n(x->text.ptr + from, x->text.len - from);
    x->text.len = from;
    *ret_stays = false;
    return kind;
}

/* The visible text of a cell. *ret_stays: it is valid as long as the row; else copy it at once. */
static enum df_code cell_text(struct xlsx *x, const struct df_row *row, const struct df_cell *c,
                              enum df_field_kind *ret_kind, struct df_str *ret, bool *ret_stays,
                              struct df_err *err)
{
    *ret_kind = DF_FIELD_TEXT;
    *ret = c->type == DF_CELL_BOOL || c->type == DF_CELL_ERROR ? df_str_trim(c->text) : c->text;
    *ret_stays = true;
    switch (c->type) {
    case DF_CELL_SHARED:
        return shared_text(x, row, c, ret, ret_stays, err);
    case DF_CELL_NUMBER:
    case DF_CELL_DATE:
        *ret_kind = number_text(x, c, ret, ret_stays);
        break;
    case DF_CELL_BOOL:
        if (df_str_eq(*ret, DF_STR("1")) || df_str_ieq(*ret, DF_STR("true"))) {
            *ret_kind = DF_FIELD_BOOL;
            *ret = DF_STR("true");
        } else if (df_str_eq(*ret, DF_STR("0")) || df_str_ieq(*ret, DF_STR("false"))) {
            *ret_kind = DF_FIELD_BOOL;
            *ret = DF_STR("false");
        }
        break;
    case DF_CELL_TEXT:
    case DF_CELL_ERROR:
        break;
    }
    return DF_OK;
}

static enum df_code add_field(struct xlsx *x, const struct df_row *row, const struct df_cell *c,
                              struct df_err *err)
{
    struct df_field *f = &x->fields[x->field_count];
    struct df_str text;
    bool stays;
    enum df_code code = cell_text(x, row, c, &f->kind, &text, &stays, err);
    if (code != DF_OK || text.len == 0 || (c->type != DF_CELL_SHARED && df_cell_is_blank(text)))
        return code;
    f->name = x->has_header ? df_columns_name(&x->columns, c->column) : DF_STR_NULL;
    x->record_bytes += f->name.len + text.len;
    if (x->record_bytes > x->opt.limits.max_record_bytes)
        return df_err_set(err, DF_E_TOO_LARGE, "row %llu has more than %zu bytes",
                          (unsigned long long)row->number, x->opt.limits.max_record_bytes);
    f->text = text;
    x->places[x->field_count] = (struct place){c->column, stays ? SIZE_MAX : x->text.len};
    if (!stays) {
        if (text.ptr == x->text.ptr + x->text.len) /* it was formatted in place */
            x->text.len += text.len;
        else
            df_buf_adds(&x->text, text);
    }
    x->field_count++;
    return DF_OK;
}

/* Turns a row's cells into fields; without names before the header was read. */
static enum df_code add_fields(struct xlsx *x, const struct df_row *row, struct df_err *err)
{
    enum df_code code = DF_OK;
    x->field_count = 0;
    x->record_bytes = 0;
    df_buf_reset(&x->text);
    if (row->count > x->field_room) {
        x->field_room = row->count * 2;
        x->fields = df_realloc(x->fields, x->field_room * sizeof *x->fields);
        x->places = df_realloc(x->places, x->field_room * sizeof *x->places);
    }
    for (size_t i = 0; x->strings && i < row->count; i++)
        if (row->cells[i].type == DF_CELL_SHARED)
            df_strings_prefetch(x->strings, row->cells[i].index);
    for (size_t i = 0; code == DF_OK && i < row->count; i++)
        code = add_field(x, row, &row->cells[i], err);
    /* The buffer does not move any more: set the pointers. */
    for (size_t i = 0; i < x->field_count; i++)
        if (x->places[i].at != SIZE_MAX)
            x->fields[i].text.ptr = x->text.ptr + x->places[i].at;
    return code;
}

static void read_header(struct xlsx *x)
{
    for (size_t i = 0; i < x->field_count; i++)
        df_columns_set(&x->columns, x->places[i].column, x->fields[i].text);
    x->has_header = true;
}

/* --- the records ------------------------------------------------------------------------------ */

/* Reads the next row with values into fields: DF_ROW, DF_DONE, or an error. */
static enum df_code read_row_with_values(struct xlsx *x, struct df_err *err)
{
    struct df_row row;
    enum df_code code;
    while ((code = df_sheet_rows_next(x->rows, &row, err)) == DF_ROW) {
        enum df_code wrong = add_fields(x, &row, err);
        if (wrong != DF_OK)
            return wrong;
        uint64_t gap = row.number > x->last_row ? row.number - x->last_row - 1 : 0;
        x->last_row = row.number;
        x->empty_rows += x->has_header && gap <= GAP_MAX ? gap : 0;
        if (x->field_count == 0) {
            x->empty_rows += x->has_header;
            continue;
        }
        if (x->has_header)
            break;
        read_header(x);
        x->base.header_row = row.number;
    }
    return code;
}

static enum df_code xlsx_next_record(struct xlsx *x, struct df_record *ret, struct df_err *err)
{
    if (!x->held) {
        enum df_code code = read_row_with_values(x, err);
        if (code != DF_ROW)
            return code;
        x->held = true;
    }
    if (x->records == x->opt.limits.max_records)
        return df_err_set(err, DF_E_TOO_LARGE, "the sheet has more than %llu rows",
                          (unsigned long long)x->opt.limits.max_records);
    x->records++;
    if (x->empty_rows) {
        *ret = (struct df_record){
            .fields = x->fields, .count = 0, .row = x->last_row - x->empty_rows--};
        return DF_ROW;
    }
    x->held = false;
    *ret = (struct df_record){.fields = x->fields, .count = x->field_count, .row = x->last_row};
    return DF_ROW;
}

static enum df_code xlsx_next(struct df_records *r, struct df_record *ret, struct df_err *err)
{
    struct xlsx *x = (struct xlsx *)r;
    if (x->answer == DF_ROW)
        x->answer = xlsx_next_record(x, ret, &x->err);
    if (x->answer != DF_ROW && x->answer != DF_DONE && err)
        *err = x->err;
    return x->answer;
}

static bool xlsx_sheet(const struct df_records *r, size_t index, struct df_str *ret)
{
    const struct df_book *book = &((const struct xlsx *)r)->book;

    for (size_t i = 0; i < book->sheet_count; i++) {
        if (!book->sheets[i].is_cells || index-- > 0)
            continue;
        *ret = book->sheets[i].name;
        return true;
    }
    return false;
}

static void xlsx_free(struct df_records *r)
{
    struct xlsx *x = (struct xlsx *)r;
    df_sheet_rows_free(x->rows);
    df_strings_free(x->strings);
    df_book_release(&x->book);
    df_zip_release(&x->zip);
    df_columns_release(&x->columns);
    df_buf_release(&x->text);
    free(x->fields);
    free(x->places);
    free(x);
}

static void set_default_limits(struct df_record_limits *l)
{
    l->max_records = l->max_records ? l->max_records : INT32_MAX;
    l->max_record_bytes = l->max_record_bytes ? l->max_record_bytes : 1U << 20;
    l->max_fields = l->max_fields ? l->max_fields : 4096;
    l->max_inflated = l->max_inflated ? l->max_inflated : 8ULL << 30;
    l->max_ratio = l->max_ratio ? l->max_ratio : 500;
    l->max_entries = l->max_entries ? l->max_entries : 4096;
    l->max_rows = l->max_rows ? l->max_rows : DF_SHEET_ROWS;
    l->max_string_bytes = l->max_string_bytes ? l->max_string_bytes : 1U << 20;
    l->max_shared_bytes = l->max_shared_bytes ? l->max_shared_bytes : SHARED_MAX;
}

static enum df_code open_sheet(struct xlsx *x, const struct df_xlsx_tuning *tuning,
                               struct df_err *err)
{
    const struct df_record_limits *limits = &x->opt.limits;
    const struct df_zip_entry *main = NULL;
    const struct df_sheet *sheet = NULL;
    enum df_code code = df_zip_init(&x->zip, &x->file, limits, err);
    if (code == DF_OK)
        code = df_book_find(&x->zip, &main, err);
    if (code == DF_OK)
        code = df_book_init(&x->book, &x->zip, main, err);
    if (code == DF_OK)
        code = df_book_sheet(&x->book, x->opt.sheet, &sheet, err);
    if (code != DF_OK || !sheet)
        return code;
    x->base.sheet = sheet->name;
    uint64_t sheet_size = sheet->part->size;
    uint64_t strings_size = x->book.strings ? x->book.strings->size : 0;
    if (sheet_size > limits->max_inflated || strings_size > limits->max_inflated - sheet_size)
        return df_err_set(err, DF_E_TOO_LARGE, "the workbook grows to more than %llu bytes",
                          (unsigned long long)limits->max_inflated);
    struct df_strings_options strings = {.memory_bytes = tuning->strings_bytes,
                                         .max_bytes = limits->max_shared_bytes,
                                         .max_string_bytes = limits->max_string_bytes,
                                         .temp_dir = x->opt.temp_dir,
                                         .strict = tuning->strict};
    if (x->book.strings)
        code = df_strings_load(&x->zip, x->book.strings, &strings, &x->strings, err);
    if (code == DF_OK)
        code = df_sheet_rows_open(&x->zip, sheet->part, tuning->strict, &x->rows, err);
    return code;
}

enum df_code df_xlsx_records_open_tuned(const struct df_bytes *file,
                                        const struct df_records_options *opt,
                                        const struct df_xlsx_tuning *tuning,
                                        struct df_records **ret, struct df_err *err)
{
    static const struct df_records_ops ops = {
        .next = xlsx_next, .free = xlsx_free, .sheet = xlsx_sheet};
    struct xlsx *x = df_calloc(1, sizeof *x);
    x->base.ops = &ops;
    x->base.columns = &x->columns;
    x->file = *file;
    x->opt = *opt;
    x->answer = DF_ROW;
    x->err = DF_ERR_INIT;
    set_default_limits(&x->opt.limits);
    /* Formatting makes a number longer by one pattern at most. */
    df_buf_init(&x->text, 2 * x->opt.limits.max_record_bytes + x->opt.limits.max_string_bytes);
    df_buf_grow(&x->text, 256); /* number_text needs an address */
    enum df_code code = open_sheet(x, tuning, err);
    if (code != DF_OK)
        xlsx_free(&x->base);
    else
        *ret = &x->base;
    return code;
}

enum df_code df_xlsx_records_open(const struct df_bytes *file, const struct df_records_options *opt,
                                  struct df_records **ret, struct df_err *err)
{
    const struct df_xlsx_tuning tuning = {.strict = false, .strings_bytes = opt->strings_bytes};
    return df_xlsx_records_open_tuned(file, opt, &tuning, ret, err);
}

enum df_code df_xlsx_probe(const struct df_bytes *file, struct df_err *err)
{
    struct df_record_limits limits = {0};
    struct df_zip zip;
    const struct df_zip_entry *main = NULL;
    set_default_limits(&limits);
    enum df_code code = df_zip_init(&zip, file, &limits, err);
    if (code == DF_OK)
        code = df_book_find(&zip, &main, err);
    df_zip_release(&zip);
    return code;
}

bool df_xlsx_is_workbook(const struct df_bytes *file)
{
    struct df_err ignored = DF_ERR_INIT;
    return df_xlsx_probe(file, &ignored) == DF_OK;
}
