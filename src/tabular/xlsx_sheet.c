/*
 * There are three readers. Each takes what the one before does not know; all call add_cell and
 * end_row:
 *
 *   1. fast_cells, straight over the plain reader's window, for cells of the usual shape
 *   2. the plain reader's events
 *   3. libxml2's events. The sheet is then read again from its start, and the rows that were handed
 *      out are skipped: the readers agree on rows, because 1 and 2 stop at anything unusual
 *
 * The sheet is  worksheet > sheetData > row > c > v, f or is > t or r > t  at depths 1 to 7.
 */
#include "tabular/xlsx_sheet.h"

#include "base/buf.h"
#include "base/mem.h"
#include "tabular/columns.h"
#include "tabular/xlsx_cell.h"
#include "tabular/xlsx_strings.h"
#include "tabular/xlsx_xml.h"

#include <assert.h>
#include <stdlib.h>

#define NO_COLUMN UINT32_MAX

enum depth { OUTSIDE, SHEET, DATA, ROW, CELL, VALUE, RUN, RUN_TEXT };

/* The text is an offset in the buffer, since the buffer moves when it grows. */
struct raw_cell {
    uint32_t column, style, index;
    enum df_cell_type type;
    size_t at, len;
};

struct raw_row {
    uint64_t number;
    size_t first, count;
};

struct df_sheet_rows {
    const struct df_zip *zip;
    const struct df_zip_entry *entry;
    struct df_zip_reader part;
    struct df_xml_plain *plain; /* exactly one of the two is set */
    struct df_xml_strict *strict;
    uint64_t given;     /* rows handed out */
    uint64_t to_skip;   /* rows to skip after starting again */
    enum df_code ended; /* DF_DONE or the error to return once all rows are handed out */
    struct df_err err;

    /* The complete rows, and after them the row being read. */
    struct raw_row *rows;
    size_t row_count, row_room, row_next;
    struct raw_cell *raw;
    size_t raw_count, raw_room;
    struct df_buf text;
    struct df_cell *cells; /* of the row handed out */
    size_t cell_room;

    /* The position in the XML. */
    unsigned depth;
    unsigned skip; /* depth of the element that is skipped; 0: none */
    bool in_text;
    bool row_open;
    uint64_t number; /* of the current row */
    uint64_t serial; /* rows begun */
    uint32_t column; /* of the current cell */
    uint32_t style;
    enum df_cell_type type;
    size_t row_text; /* offsets in text where the row and the cell begin */
    size_t cell_text;
    uint64_t *seen; /* for each column, the serial of the last row with a cell in it */
};

static enum df_code row_too_large(const struct df_sheet_rows *s, struct df_err *err,
                                  const char *what, size_t max)
{
    return df_err_set(err, DF_E_TOO_LARGE, "row %llu %s; %zu are allowed",
                      (unsigned long long)s->number, what, max);
}

/* --- rows and cells, for all readers ---------------------------------------------------------- */

static enum df_code begin_row(struct df_sheet_rows *s, struct df_str number, struct df_err *err)
{
    int64_t v = 0;
    s->number++;
    if (number.ptr && (!df_str_to_i64(number, &v) || v < 1))
        return df_err_set(err, DF_E_VALIDATION, "after row %llu comes a row with a wrong number",
                          (unsigned long long)s->number - 1);
    if (number.ptr)
        s->number = (uint64_t)v;
    if (s->number > s->zip->limits.max_rows)
        return df_err_set(err, DF_E_TOO_LARGE, "row %llu is past the last row of a sheet, %llu",
                          (unsigned long long)s->number,
                          (unsigned long long)s->zip->limits.max_rows);
    if (s->row_count == s->row_room) {
        s->row_room = s->row_room ? s->row_room * 2 : 16;
        s->rows = df_realloc(s->rows, s->row_room * sizeof *s->rows);
    }
    s->rows[s->row_count] = (struct raw_row){.number = s->number, .first = s->raw_count};
    s->row_text = s->text.len;
    s->column = NO_COLUMN;
    s->row_open = true;
    s->serial++;
    return DF_OK;
}

static void end_row(struct df_sheet_rows *s)
{
    assert(s->row_open);
    struct raw_row *row = &s->rows[s->row_count];
    row->count = s->raw_count - row->first;
    s->row_open = false;
    if (s->to_skip) {
        s->to_skip--;
        s->raw_count = row->first;
        s->text.len = s->row_text;
    } else {
        s->row_count++;
    }
}

/* Adds a cell with a value; its text is the buffer from cell_text on. */
static enum df_code add_cell(struct df_sheet_rows *s, uint32_t index, struct df_err *err)
{
    const struct df_record_limits *limits = &s->zip->limits;
    assert(s->row_open && s->column < DF_SHEET_COLUMNS);
    assert(s->row_text <= s->cell_text && s->cell_text <= s->text.len);
    if (s->seen[s->column] == s->serial) {
        char letters[DF_COLUMN_LETTERS];
        df_column_letters(s->column, letters);
        return df_err_set(err, DF_E_VALIDATION, "row %llu has two cells in column %s",
                          (unsigned long long)s->number, letters);
    }
    s->seen[s->column] = s->serial;
    if (s->raw_count - s->rows[s->row_count].first == limits->max_fields)
        return row_too_large(s, err, "has too many cells", limits->max_fields);
    if (s->text.len - s->row_text > limits->max_record_bytes)
        return row_too_large(s, err, "has too many bytes", limits->max_record_bytes);
    if (s->raw_count == s->raw_room) {
        s->raw_room = s->raw_room ? s->raw_room * 2 : 64;
        s->raw = df_realloc(s->raw, s->raw_room * sizeof *s->raw);
    }
    s->raw[s->raw_count++] = (struct raw_cell){.column = s->column,
                                               .style = s->style,
                                               .index = index,
                                               .type = s->type,
                                               .at = s->cell_text,
                                               .len = s->text.len - s->cell_text};
    return DF_OK;
}

static enum df_code bad_cell(const struct df_sheet_rows *s, struct df_err *err, const char *why)
{
    return df_err_set(err, DF_E_VALIDATION, "row %llu: %s", (unsigned long long)s->number, why);
}

static enum df_code row_too_wide(const struct df_sheet_rows *s, struct df_err *err)
{
    return row_too_large(s, err, "goes past the last column, XFD", DF_SHEET_COLUMNS);
}

/* Sets the column from a reference (AB12), or to the next one if there is none. */
static enum df_code place_cell(struct df_sheet_rows *s, struct df_str reference, struct df_err *err)
{
    uint32_t column = 0;
    size_t i = 0;
    if (!reference.ptr) {
        s->column++; /* NO_COLUMN becomes 0 */
        return s->column < DF_SHEET_COLUMNS ? DF_OK : row_too_wide(s, err);
    }
    for (;
         i < reference.len && (reference.ptr[i] | 0x20) >= 'a' && (reference.ptr[i] | 0x20) <= 'z';
         i++) {
        column = column * 26 + (uint32_t)((reference.ptr[i] | 0x20) - 'a' + 1);
        if (column > DF_SHEET_COLUMNS)
            return row_too_wide(s, err);
    }
    if (i == 0 || i == reference.len)
        return bad_cell(s, err, "a cell's reference is wrong");
    for (; i < reference.len; i++)
        if (reference.ptr[i] < '0' || reference.ptr[i] > '9')
            return bad_cell(s, err, "a cell's reference is wrong");
    s->column = column - 1;
    return DF_OK;
}

/* --- events ----------------------------------------------------------------------------------- */

static enum df_code begin_cell(struct df_sheet_rows *s, const struct df_xml_tag *tag,
                               struct df_err *err)
{
    int64_t style = 0;
    struct df_str text = df_xml_attr(tag, DF_XML_NONE, DF_STR("s"));
    if (text.len && (!df_str_to_i64(text, &style) || style < 0 || style > INT32_MAX))
        return bad_cell(s, err, "a cell's style is not a number");
    s->style = (uint32_t)style;
    s->type = df_cell_type_of(df_xml_attr(tag, DF_XML_NONE, DF_STR("t")));
    s->cell_text = s->text.len;
    return place_cell(s, df_xml_attr(tag, DF_XML_NONE, DF_STR("r")), err);
}

static enum df_code shared_index(struct df_sheet_rows *s, struct df_str text, uint32_t *ret,
                                 struct df_err *err)
{
    int64_t v = 0;
    if (!df_str_to_i64(df_str_trim(text), &v) || v < 0 || v > UINT32_MAX)
        return bad_cell(s, err, "a cell's shared string is not a number");
    *ret = (uint32_t)v;
    return DF_OK;
}

static enum df_code end_cell(struct df_sheet_rows *s, struct df_err *err)
{
    struct df_str text =
        df_str_n(df_buf_str(&s->text).ptr + s->cell_text, s->text.len - s->cell_text);
    uint32_t index = 0;
    enum df_code code = DF_OK;
    if (text.len == 0)
        return DF_OK;
    switch (s->type) {
    case DF_CELL_SHARED:
        code = shared_index(s, text, &index, err);
        s->text.len = s->cell_text;
        break;
    case DF_CELL_TEXT:
        df_xstring_decode(&s->text, s->cell_text);
        break;
    case DF_CELL_NUMBER:
    case DF_CELL_BOOL:
    case DF_CELL_ERROR:
    case DF_CELL_DATE:
        break;
    }
    return code == DF_OK ? add_cell(s, index, err) : code;
}

static bool is_named(const struct df_xml_tag *tag, struct df_str name)
{
    return tag->ns == DF_XML_MAIN && df_str_eq(tag->name, name);
}

static enum df_code on_sheet_start(void *arg, const struct df_xml_tag *tag, struct df_err *err)
{
    struct df_sheet_rows *s = arg;
    enum depth depth = (enum depth)++ s->depth;
    bool known = false;
    if (s->skip)
        return DF_OK;
    switch (depth) {
    case OUTSIDE:
        break;
    case SHEET:
        if (!is_named(tag, DF_STR("worksheet")))
            return df_err_set(err, DF_E_VALIDATION,
                              "the workbook's part " DF_STR_FMT " is not a sheet of cells",
                              DF_STR_ARG(s->entry->name));
        return DF_OK;
    case DATA:
        known = is_named(tag, DF_STR("sheetData"));
        break;
    case ROW:
        if (is_named(tag, DF_STR("row")))
            return begin_row(s, df_xml_attr(tag, DF_XML_NONE, DF_STR("r")), err);
        break;
    case CELL:
        if (is_named(tag, DF_STR("c")))
            return begin_cell(s, tag, err);
        break;
    case VALUE:
        known = is_named(tag, DF_STR("is"));
        s->in_text = is_named(tag, DF_STR("v"));
        if (known) /* a value before it repeats it */
            s->text.len = s->cell_text;
        break;
    case RUN:
        known = is_named(tag, DF_STR("r")) && !s->in_text;
        s->in_text = s->in_text || is_named(tag, DF_STR("t"));
        break;
    case RUN_TEXT:
        s->in_text = is_named(tag, DF_STR("t")) && !s->in_text;
        break;
    }
    if (!known && !s->in_text)
        s->skip = depth;
    return DF_OK;
}

static enum df_code on_sheet_end(void *arg, struct df_err *err)
{
    struct df_sheet_rows *s = arg;
    unsigned depth = s->depth--;
    if (s->skip) {
        if (s->skip == depth)
            s->skip = 0;
        return DF_OK;
    }
    s->in_text = false;
    if (depth == CELL)
        return end_cell(s, err);
    if (depth == ROW)
        end_row(s);
    return DF_OK;
}

static enum df_code on_sheet_text(void *arg, struct df_str piece, struct df_err *err)
{
    struct df_sheet_rows *s = arg;
    if (!s->in_text || s->skip)
        return DF_OK;
    if (s->text.len - s->cell_text + piece.len > s->zip->limits.max_string_bytes)
        return row_too_large(s, err, "has a cell with too many bytes",
                             s->zip->limits.max_string_bytes);
    df_buf_adds(&s->text, piece);
    return df_buf_failed(&s->text)
               ? row_too_large(s, err, "has too many bytes", s->zip->limits.max_record_bytes)
               : DF_OK;
}

/* --- rows of the usual shape ------------------------------------------------------------------ */

/* Reads the cells of the usual shape that the window holds. */
static enum df_code fast_cells(struct df_sheet_rows *s, struct df_err *err)
{
    struct df_xml_plain *x = s->plain;
    size_t max_string = s->zip->limits.max_string_bytes;
    enum df_code code = DF_OK;
    if (!df_buf_grow(&s->text, (size_t)(x->end - x->p)))
        return row_too_large(s, err, "has too many bytes", s->zip->limits.max_record_bytes);
    while (code == DF_OK) {
        struct df_usual_cell cell;
        const char *after = df_usual_cell_read(x->p, x->end, max_string, &cell);
        if (!after)
            break;
        x->p = after;
        s->column = cell.column;
        if (!cell.has_value)
            continue;
        s->type = cell.type;
        s->style = cell.style;
        s->cell_text = s->text.len;
        df_buf_adds(&s->text, cell.text);
        code = df_buf_failed(&s->text)
                   ? row_too_large(s, err, "has too many bytes", s->zip->limits.max_record_bytes)
                   : add_cell(s, cell.index, err);
    }
    return code;
}

/* Reads a row's start tag with its number and, as Excel writes it, its spans. Leaves any other tag
 * where it is. */
static enum df_code fast_row(struct df_sheet_rows *s, struct df_err *err)
{
    struct df_xml_plain *x = s->plain;
    const char *p = x->end - x->p > DF_USUAL_MARGIN ? DF_PAST(x->p, "<row r=\"") : NULL;
    if (!p)
        return DF_OK;
    const char *first = p;
    while (*p >= '0' && *p <= '9' && p - first < 10)
        p++;
    struct df_str number = df_str_n(first, (size_t)(p - first));
    if (*p++ != '"')
        return DF_OK;
    const char *q = DF_PAST(p, " spans=\"");
    if (q) {
        for (p = q; ((*p >= '0' && *p <= '9') || *p == ':') && p - q < 24;)
            p++;
        if (*p++ != '"')
            return DF_OK;
    }
    if (*p != '>' || !df_xml_plain_enter(x, DF_STR("row")))
        return DF_OK;
    x->p = p + 1;
    s->depth++;
    return begin_row(s, number, err);
}

static bool fast_row_end(struct df_sheet_rows *s)
{
    struct df_xml_plain *x = s->plain;
    if (x->end - x->p < 6 || memcmp(x->p, "</row>", 6) != 0)
        return false;
    x->p += 6;
    df_xml_plain_leave(x);
    s->depth--;
    end_row(s);
    return true;
}

/* --- reading ---------------------------------------------------------------------------------- */

static struct df_xml_sink sink_of(struct df_sheet_rows *s)
{
    return (struct df_xml_sink){
        .start = on_sheet_start, .end = on_sheet_end, .text = on_sheet_text, .arg = s};
}

/* Starts again at the part's first byte, with libxml2; rows that were handed out are skipped. */
static enum df_code start_strict(struct df_sheet_rows *s, struct df_err *err)
{
    enum df_code code = df_zip_reader_open(&s->part, s->zip, s->entry, err);
    if (s->plain)
        df_xml_plain_release(s->plain);
    free(s->plain);
    s->plain = NULL;
    s->to_skip = s->given;
    s->row_count = s->row_next = s->raw_count = s->text.len = 0;
    s->depth = s->skip = 0;
    s->in_text = s->row_open = false;
    s->number = 0;
    if (code == DF_OK)
        s->strict = df_xml_strict_new(sink_of(s), &s->part);
    return code;
}

static enum df_code sheet_step(struct df_sheet_rows *s, struct df_err *err)
{
    if (!s->plain)
        return df_xml_strict_step(s->strict, err);
    enum df_code fast = s->depth == DATA && !s->skip ? fast_row(s, err) : DF_OK;
    if (fast == DF_OK && s->depth == ROW && !s->skip) {
        fast = fast_cells(s, err);
        if (fast == DF_OK && fast_row_end(s))
            return DF_ROW;
    }
    if (fast != DF_OK)
        return fast;
    struct df_err wrong = DF_ERR_INIT;
    switch (df_xml_plain_step(s->plain, &wrong)) {
    case DF_PLAIN_GO:
        return DF_ROW;
    case DF_PLAIN_DONE:
        return DF_DONE;
    case DF_PLAIN_UNUSUAL: {
        enum df_code code = start_strict(s, err);
        return code == DF_OK ? DF_ROW : code;
    }
    case DF_PLAIN_ERROR:
        break;
    }
    if (err)
        *err = wrong;
    return wrong.code;
}

static void hand_out_row(struct df_sheet_rows *s, struct df_row *ret)
{
    assert(s->row_next < s->row_count);
    const struct raw_row *row = &s->rows[s->row_next++];
    if (row->count > s->cell_room) {
        s->cell_room = row->count * 2;
        s->cells = df_realloc(s->cells, s->cell_room * sizeof *s->cells);
    }
    for (size_t i = 0; i < row->count; i++) {
        const struct raw_cell *raw = &s->raw[row->first + i];
        s->cells[i] = (struct df_cell){.column = raw->column,
                                       .style = raw->style,
                                       .type = raw->type,
                                       .index = raw->index,
                                       .text = df_str_n(s->text.ptr + raw->at, raw->len)};
    }
    s->given++;
    *ret = (struct df_row){.number = row->number, .cells = s->cells, .count = row->count};
}

/* Drops the rows that were handed out, and moves the unfinished row, if any, to the front. */
static void forget_given_rows(struct df_sheet_rows *s)
{
    bool open = s->row_open;
    size_t first = open ? s->rows[s->row_count].first : s->raw_count;
    size_t kept = open ? s->text.len - s->row_text : 0;
    if (kept)
        memmove(s->text.ptr, s->text.ptr + s->row_text, kept);
    for (size_t i = first; i < s->raw_count; i++) {
        s->raw[i - first] = s->raw[i];
        s->raw[i - first].at -= s->row_text;
    }
    if (open) {
        s->rows[0] = s->rows[s->row_count];
        s->rows[0].first = 0;
        s->cell_text -= s->row_text <= s->cell_text ? s->row_text : s->cell_text;
    }
    s->raw_count -= first;
    s->text.len = kept;
    s->row_text = 0;
    s->row_count = s->row_next = 0;
}

enum df_code df_sheet_rows_open(const struct df_zip *zip, const struct df_zip_entry *part,
                                bool strict, struct df_sheet_rows **ret, struct df_err *err)
{
    struct df_sheet_rows *s = df_calloc(1, sizeof *s);
    s->zip = zip;
    s->entry = part;
    s->err = DF_ERR_INIT;
    s->seen = df_calloc(DF_SHEET_COLUMNS, sizeof *s->seen);
    /* Only the rows of one chunk of libxml2 wait here; they are smaller than the chunk. */
    df_buf_init(&s->text, 2 * zip->limits.max_record_bytes + zip->limits.max_string_bytes +
                              DF_XML_PLAIN_WINDOW + 65536);
    enum df_code code = df_zip_reader_open(&s->part, zip, part, err);
    if (code == DF_OK && strict)
        s->strict = df_xml_strict_new(sink_of(s), &s->part);
    if (code == DF_OK && !strict) {
        s->plain = df_malloc(sizeof *s->plain);
        df_xml_plain_init(s->plain, sink_of(s), &s->part);
    }
    if (code != DF_OK)
        df_sheet_rows_free(s);
    else
        *ret = s;
    return code;
}

void df_sheet_rows_free(struct df_sheet_rows *s)
{
    if (!s)
        return;
    if (s->plain)
        df_xml_plain_release(s->plain);
    free(s->plain);
    df_xml_strict_free(s->strict);
    df_zip_reader_release(&s->part);
    df_buf_release(&s->text);
    free(s->rows);
    free(s->raw);
    free(s->cells);
    free(s->seen);
    free(s);
}

enum df_code df_sheet_rows_next(struct df_sheet_rows *s, struct df_row *ret, struct df_err *err)
{
    if (s->row_next == s->row_count) {
        forget_given_rows(s);
        while (s->row_count == 0 && s->ended == DF_OK) {
            enum df_code code = sheet_step(s, &s->err);
            s->ended = code == DF_ROW ? DF_OK : code;
        }
    }
    if (s->row_next == s->row_count) {
        if (s->ended != DF_DONE && err)
            *err = s->err;
        return s->ended;
    }
    hand_out_row(s, ret);
    return DF_ROW;
}
