/*
 * Writes tables as CSV and as a workbook.
 *
 * A spreadsheet program opens them, and their content comes from outside: the program would run a
 * cell that begins like a formula. In a workbook every cell is text, so nothing is run. In CSV such
 * a cell gets an apostrophe in front (formula.h), which the reader of uploads removes.
 */
#include "imports/api/report_private.h"

#include "base/lock.h"
#include "base/mem.h"
#include "tabular/formula.h"

#include <errno.h>
#include <unistd.h>
#include <xlsxwriter.h>

enum df_code df_report_io(struct df_err *err, const char *what)
{
    return df_err_errno(err, "the error report: %s", what);
}

/* --- CSV --- */

struct csv {
    FILE *file;
};

static enum df_code csv_open(void *w, const char *temp_dir, int fd, struct df_err *err)
{
    struct csv *c = w;
    (void)temp_dir;
    int own = dup(fd);
    c->file = own < 0 ? NULL : fdopen(own, "wb");
    if (!c->file) {
        enum df_code code = df_report_io(err, "cannot open it");
        if (own >= 0)
            close(own);
        return code;
    }
    fputs("\xEF\xBB\xBF", c->file);
    return DF_OK;
}

static bool needs_quotes(struct df_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (strchr("\",;\r\n\t", s.ptr[i]))
            return true;
    return s.len > 0 && (s.ptr[0] == ' ' || s.ptr[s.len - 1] == ' ');
}

static void csv_cell(FILE *f, struct df_str s)
{
    bool guarded = df_formula_needs_guard(s);
    if (!guarded && !needs_quotes(s)) {
        fwrite(s.ptr ? s.ptr : "", 1, s.len, f);
        return;
    }
    fputs(guarded ? "\"'" : "\"", f);
    for (size_t from = 0; from < s.len;) {
        const char *quote = memchr(s.ptr + from, '"', s.len - from);
        size_t n = quote ? (size_t)(quote - s.ptr) - from + 1 : s.len - from;
        fwrite(s.ptr + from, 1, n, f);
        if (quote)
            fputc('"', f);
        from += n;
    }
    fputc('"', f);
}

static enum df_code csv_row(void *w, const struct df_report_table *t, bool head, struct df_err *err)
{
    struct csv *c = w;
    (void)head;
    for (size_t i = 0; i < df_report_table_columns(t); i++) {
        if (i > 0)
            fputc(',', c->file);
        csv_cell(c->file, t->cells[i]);
    }
    fputs("\r\n", c->file);
    return ferror(c->file) ? df_report_io(err, "cannot write it") : DF_OK;
}

static enum df_code csv_close(void *w, bool whole, struct df_err *err)
{
    struct csv *c = w;
    if (!c->file)
        return DF_OK;
    bool ok = !ferror(c->file);
    ok = fclose(c->file) == 0 && ok;
    return ok || !whole ? DF_OK : df_report_io(err, "cannot write it");
}

const struct df_report_writer df_report_csv = {csv_open, csv_row, csv_close, sizeof(struct csv)};

/* --- XLSX --- */

struct xlsx {
    lxw_workbook *book;
    lxw_worksheet *sheet;
    lxw_format *bold;
    lxw_row_t row;
    unsigned sheets;
    char *text; /* a cell, NUL-terminated */
    struct df_str head[DF_REPORT_CELLS];
};

#define TEXT_BYTES (4 * (size_t)DF_REPORT_CELL_CHARS + 4)

static enum df_code xlsx_error(struct df_err *err, lxw_error e)
{
    errno = errno ? errno : EIO;
    return df_report_io(err, lxw_strerror(e));
}

static enum df_code xlsx_open(void *w, const char *temp_dir, int fd, struct df_err *err)
{
    struct xlsx *x = w;
    char path[40];
    char dir[4096];

    snprintf(dir, sizeof dir, "%s", temp_dir);
    /* The library opens files by name; this is a name for the unnamed file. */
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    lxw_workbook_options options = {.constant_memory = LXW_TRUE, .tmpdir = dir};
    errno = 0;
    x->book = workbook_new_opt(path, &options);
    if (!x->book)
        return xlsx_error(err, LXW_ERROR_CREATING_XLSX_FILE);
    x->bold = workbook_add_format(x->book);
    format_set_bold(x->bold);
    x->text = df_malloc(TEXT_BYTES);
    return DF_OK;
}

/* Removes U+FFFE and U+FFFF, which XML forbids. */
static size_t drop_nonchars(char *s, size_t len)
{
    size_t kept = 0;
    for (size_t i = 0; i < len; i++) {
        if (i + 2 < len && (unsigned char)s[i] == 0xEF && (unsigned char)s[i + 1] == 0xBF &&
            (unsigned char)s[i + 2] >= 0xBE)
            i += 2;
        else
            s[kept++] = s[i];
    }
    return kept;
}

/* The cell's text, cut to DF_REPORT_CELL_CHARS and NUL-terminated. */
static const char *xlsx_cell_text(struct xlsx *x, struct df_str s)
{
    struct df_str cut = df_utf8_cut(s, DF_REPORT_CELL_CHARS);
    if (cut.len < s.len)
        cut = df_utf8_cut(s, DF_REPORT_CELL_CHARS - 1);
    memcpy(x->text, cut.ptr, cut.len);
    size_t len = drop_nonchars(x->text, cut.len);
    memcpy(x->text + len, "…", sizeof "…");
    if (cut.len == s.len)
        x->text[len] = '\0';
    return x->text;
}

static enum df_code put_xlsx_cell(struct xlsx *x, size_t column, struct df_str s, bool head,
                                  bool number, struct df_err *err)
{
    lxw_col_t at = (lxw_col_t)column;
    lxw_error e = LXW_NO_ERROR;
    int64_t n;

    errno = 0;
    if (number && !head && df_str_to_i64(s, &n))
        e = worksheet_write_number(x->sheet, x->row, at, (double)n, NULL);
    else if (s.len > 0)
        e = worksheet_write_string(x->sheet, x->row, at, xlsx_cell_text(x, s),
                                   head ? x->bold : NULL);
    return e == LXW_NO_ERROR ? DF_OK : xlsx_error(err, e);
}

/* The last two columns are the report's own; the first of them is a number. */
static enum df_code put_xlsx_row(struct xlsx *x, const struct df_str *cells, size_t count,
                                 bool head, struct df_err *err)
{
    enum df_code code = DF_OK;
    for (size_t i = 0; code == DF_OK && i < count; i++)
        code = put_xlsx_cell(x, i, cells[i], head, i + 2 == count, err);
    x->row++;
    return code;
}

/* Adds a sheet with the names of the columns. */
static enum df_code add_xlsx_sheet(struct xlsx *x, size_t columns, struct df_err *err)
{
    char name[32] = "Errors";
    if (x->sheets++ > 0)
        snprintf(name, sizeof name, "Errors %u", x->sheets);
    errno = 0;
    x->sheet = workbook_add_worksheet(x->book, name);
    if (!x->sheet)
        return xlsx_error(err, LXW_ERROR_CREATING_TMPFILE);
    x->row = 0;
    worksheet_freeze_panes(x->sheet, 1, 0);
    lxw_col_t own = (lxw_col_t)(columns - 2);
    if (own > 0)
        worksheet_set_column(x->sheet, 0, own - 1, 20, NULL);
    worksheet_set_column(x->sheet, own, own, 18, NULL);
    worksheet_set_column(x->sheet, own + 1, own + 1, 48, NULL);
    return put_xlsx_row(x, x->head, columns, true, err);
}

static enum df_code xlsx_row(void *w, const struct df_report_table *t, bool head,
                             struct df_err *err)
{
    struct xlsx *x = w;
    size_t columns = df_report_table_columns(t);
    enum df_code code = DF_OK;

    if (head) {
        memcpy(x->head, t->cells, sizeof x->head); /* the names stay valid with the table */
        return add_xlsx_sheet(x, columns, err);
    }
    if (x->row == DF_REPORT_SHEET_ROWS)
        code = add_xlsx_sheet(x, columns, err);
    return code == DF_OK ? put_xlsx_row(x, t->cells, columns, false, err) : code;
}

/* libxlsxwriter uses gmtime() for the time of creation, and its buffer is shared by all threads. */
static struct df_mutex closing = DF_MUTEX_INIT;

static enum df_code xlsx_close(void *w, bool whole, struct df_err *err)
{
    struct xlsx *x = w;
    enum df_code code = DF_OK;

    free(x->text);
    if (!x->book)
        return DF_OK;
    if (!whole) {
        lxw_workbook_free(x->book);
        return DF_OK;
    }
    df_lock(&closing);
    errno = 0;
    lxw_error e = workbook_close(x->book); /* frees it in any case */
    df_unlock(&closing);
    if (e != LXW_NO_ERROR)
        code = xlsx_error(err, e);
    return code;
}

const struct df_report_writer df_report_xlsx = {xlsx_open, xlsx_row, xlsx_close,
                                                sizeof(struct xlsx)};
