/*
 * Records of a CSV file. Written here because libcsv, the library that Debian has, knows neither
 * encodings nor limits, takes the separator as given, and calls back for each cell. There is no
 * reference either: programs disagree on what CSV is. tests/fuzz/fuzz_csv.c compares a file with
 * the same file in other pieces; tests/unit/tabular/csv_test.c has what is meant.
 *
 * The file passes through a window of UTF-8 that holds at least one whole row. When the window ends
 * inside a row, it is filled with at least twice as much of the row and scanned again, so that no
 * byte is scanned often. Cells are slices of the window; doubled quotes are resolved in place once
 * the row is complete.
 *
 * Encodings: UTF-16 becomes UTF-8 on its way into the window. All other files are read as UTF-8,
 * and each cell that is not valid UTF-8 as Windows-1252: that also reads a file joined from two
 * sources. With a byte order mark of UTF-8, such a cell is an error.
 *
 * Rows without a value are records only if a row with a value follows; until then they are counted.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "base/utf16.h"
#include "tabular/columns.h"
#include "tabular/formula.h"
#include "tabular/records.h"

#include <stdlib.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define WINDOW_FIRST   ((size_t)256 << 10)
#define WINDOW_LEAST   ((size_t)64 << 10)
#define RAW_BYTES      ((size_t)32 << 10)
#define RECORD_DEFAULT ((size_t)1 << 20)
#define FIELDS_DEFAULT 4096
#define RECORDS_MAX    INT32_MAX

enum encoding { ANY, UTF8, UTF16_LITTLE, UTF16_BIG };

struct cell {
    size_t start, end; /* offsets in the row, quotes included */
    bool quoted;
};

struct csv_records {
    struct df_records base;
    struct df_bytes file;
    struct df_record_limits limits;
    enum encoding encoding;
    bool unguard;
    uint64_t offset; /* bytes of the file read so far */
    char *raw;       /* UTF-16: bytes read and not decoded yet; else NULL */
    size_t raw_len;

    char *window; /* [pos, fill) is still to be read */
    size_t pos, fill, cap, cap_max;
    bool eof;

    char sep; /* 0: not known yet */
    bool header_read;
    struct df_columns columns;
    uint64_t row; /* the number of the row last scanned, from 1 */

    struct cell *cells;
    struct df_field *fields;
    size_t cell_count, cell_cap, field_count;
    char *scratch; /* cells that were Windows-1252 */
    size_t scratch_cap;

    uint64_t empty; /* rows without a value before the one in fields */
    bool have;      /* fields hold a row that was not handed out yet */
    uint64_t count;
    enum df_code result; /* DF_DONE or the error, once reading has ended */
    struct df_err err;
};

/* --- the window ------------------------------------------------------------------------------- */

static enum df_code row_too_large(const struct csv_records *r, struct df_err *err)
{
    bool open_quote = r->cell_count > 0 && r->cells[r->cell_count - 1].quoted;

    return df_err_set(err, DF_E_TOO_LARGE, "row %llu is larger than %zu bytes%s",
                      (unsigned long long)r->row, r->limits.max_record_bytes,
                      open_quote ? "; is a quote in it never closed?" : "");
}

static enum df_code read_utf8(struct csv_records *r, struct df_err *err)
{
    size_t len = 0;
    enum df_code rc =
        r->file.read_at(r->file.arg, r->offset, r->window + r->fill, r->cap - r->fill, &len, err);
    if (rc != DF_OK)
        return rc;
    r->offset += len;
    r->fill += len;
    r->eof = len == 0;
    /* Programs of the DOS era end a text with 1A. */
    while (r->eof && r->fill > r->pos && r->window[r->fill - 1] == 0x1A)
        r->fill--;
    return DF_OK;
}

/* An odd byte and the first half of a surrogate pair stay in raw until the rest is read. */
static enum df_code read_utf16(struct csv_records *r, struct df_err *err)
{
    uint16_t units[RAW_BYTES / 2];
    size_t room = (r->cap - r->fill) / DF_UTF8_PER_UTF16 * 2;
    size_t want = room < RAW_BYTES ? room : RAW_BYTES;
    size_t len = 0;

    enum df_code rc =
        r->file.read_at(r->file.arg, r->offset, r->raw + r->raw_len, want - r->raw_len, &len, err);
    if (rc != DF_OK)
        return rc;
    r->offset += len;
    r->raw_len += len;
    r->eof = len == 0;
    size_t count = r->raw_len / 2;
    const unsigned char *p = (const unsigned char *)r->raw;
    for (size_t i = 0; i < count; i++, p += 2)
        units[i] = (uint16_t)(r->encoding == UTF16_BIG ? p[0] << 8 | p[1] : p[1] << 8 | p[0]);
    if (!r->eof && count > 0 && (units[count - 1] & 0xFC00) == 0xD800)
        count--;
    r->fill += df_utf16_to_utf8(units, count, r->window + r->fill);
    r->raw_len -= 2 * count;
    memmove(r->raw, r->raw + 2 * count, r->raw_len);
    return DF_OK;
}

/* Drops the rows before pos and reads at least as many bytes again as are kept. */
static enum df_code refill_window(struct csv_records *r, struct df_err *err)
{
    enum df_code rc = DF_OK;

    r->fill -= r->pos;
    if (r->pos > 0 && r->fill > 0)
        memmove(r->window, r->window + r->pos, r->fill);
    r->pos = 0;
    if (r->cap - r->fill < WINDOW_LEAST / 2) {
        if (r->cap == r->cap_max)
            return row_too_large(r, err);
        r->cap = r->cap > r->cap_max / 2 ? r->cap_max : r->cap * 2;
        r->window = df_realloc(r->window, r->cap);
    }
    for (size_t want = 2 * r->fill + 1; rc == DF_OK && !r->eof && r->fill < want;) {
        if (r->cap - r->fill < 16)
            break;
        rc = r->raw ? read_utf16(r, err) : read_utf8(r, err);
    }
    return rc;
}

/* --- rows ------------------------------------------------------------------------------------- */

static bool is_line_end(char c)
{
    return c == '\n' || c == '\r';
}

/* The first separator or line end of [p, end), or end. */
static const char *find_stop(const char *p, const char *end, char sep)
{
#if defined(__SSE2__)
    while (end - p >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i stop = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('\n')),
                                                 _mm_cmpeq_epi8(v, _mm_set1_epi8('\r'))),
                                    _mm_cmpeq_epi8(v, _mm_set1_epi8(sep)));
        int found = _mm_movemask_epi8(stop);
        if (found)
            return p + __builtin_ctz((unsigned)found);
        p += 16;
    }
#endif
    while (p < end && *p != sep && !is_line_end(*p))
        p++;
    return p;
}

enum scan { ROW, MORE, OPEN_QUOTE, TOO_MANY };

/* The byte after the closing quote of the quoted cell at p, or NULL. */
static const char *find_quote(const char *p, const char *end)
{
    for (p++; (p = memchr(p, '"', (size_t)(end - p))); p += 2) {
        if (p + 1 == end || p[1] != '"')
            return p + 1;
        if (p + 2 == end)
            return NULL;
    }
    return NULL;
}

static struct cell *add_cell(struct csv_records *r)
{
    if (r->cell_count == r->cell_cap) {
        r->cell_cap = r->cell_cap ? r->cell_cap * 2 : 64;
        r->cells = df_realloc(r->cells, r->cell_cap * sizeof(*r->cells));
        r->fields = df_realloc(r->fields, r->cell_cap * sizeof(*r->fields));
    }
    return &r->cells[r->cell_count++];
}

/* Finds the cells of the row at pos. *ret_len: the row's length with its line end. */
static enum scan scan_cells(struct csv_records *r, size_t *ret_len)
{
    const char *row = r->window + r->pos, *end = r->window + r->fill, *p = row;

    for (r->cell_count = 0;; p++) {
        if (r->cell_count == r->limits.max_fields)
            return TOO_MANY;
        struct cell *c = add_cell(r);
        *c = (struct cell){.start = (size_t)(p - row), .quoted = p < end && *p == '"'};
        if (c->quoted) {
            const char *after = find_quote(p, end);
            /* A quote at the window's end may be the first of two. */
            if (!after || (after == end && !r->eof))
                return r->eof ? OPEN_QUOTE : MORE;
            p = after;
        }
        p = find_stop(p, end, r->sep);
        if (p == end && !r->eof)
            return MORE;
        c->end = (size_t)(p - row);
        if (p == end || *p != r->sep)
            break;
    }
    if (p < end && *p == '\r') {
        if (p + 1 == end && !r->eof)
            return MORE;
        if (p + 1 < end && p[1] == '\n')
            p++;
    }
    *ret_len = (size_t)(p - row) + (p < end);
    return ROW;
}

/* rc, or the error for UTF-16 that ends with half a character; called at the file's last row. */
static enum df_code check_last_unit(const struct csv_records *r, enum df_code rc,
                                    struct df_err *err)
{
    return r->raw_len == 0
               ? rc
               : df_err_set(err, DF_E_INVALID_TEXT, "the file ends in the middle of a character");
}

/* Scans the next row into cells: DF_ROW, or DF_DONE at the end. */
static enum df_code scan_row(struct csv_records *r, size_t *ret_len, struct df_err *err)
{
    enum scan found;

    r->row++;
    r->cell_count = 0;
    while (r->pos == r->fill || (found = scan_cells(r, ret_len)) == MORE) {
        if (r->eof)
            return check_last_unit(r, DF_DONE, err);
        enum df_code rc = refill_window(r, err);
        if (rc != DF_OK)
            return rc;
    }
    switch (found) {
    case OPEN_QUOTE:
        return df_err_set(err, DF_E_VALIDATION, "the quote that opens in row %llu is never closed",
                          (unsigned long long)r->row);
    case TOO_MANY:
        return df_err_set(err, DF_E_TOO_LARGE, "row %llu has more than %zu fields",
                          (unsigned long long)r->row, r->limits.max_fields);
    case ROW:
    case MORE:
        break;
    }
    if (*ret_len > r->limits.max_record_bytes)
        return row_too_large(r, err);
    return is_line_end(r->window[r->pos + *ret_len - 1]) ? DF_ROW : check_last_unit(r, DF_ROW, err);
}

/* --- text ------------------------------------------------------------------------------------- */

/* Whether the text is all ASCII. *ret_nul: it contains a NUL. */
static bool scan_ascii(const char *p, size_t len, bool *ret_nul)
{
    const uint64_t ones = 0x0101010101010101U;
    const uint64_t tops = 0x8080808080808080U;
    uint64_t any = 0, zero = 0, w;
    size_t i = 0;

    for (; i + 8 <= len; i += 8) {
        memcpy(&w, p + i, 8);
        any |= w;
        zero |= (w - ones) & ~w;
    }
    for (; i < len; i++) {
        any |= (unsigned char)p[i];
        zero |= p[i] == '\0' ? tops : 0;
    }
    /* A borrow may mark the byte after a zero; no zero is missed. */
    *ret_nul = (zero & tops) && memchr(p, '\0', len);
    return !(any & tops);
}

/* The bytes 80 to 9F; 0: not assigned. */
static const uint16_t windows_1252[32] = {
    0x20AC, 0,      0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160,
    0x2039, 0x0152, 0,      0x017D, 0,      0,      0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
    0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0,      0x017E, 0x0178,
};

/* out has room for three bytes a character. 0: a byte is not assigned in Windows-1252. */
static size_t windows_to_utf8(struct df_str s, char *out)
{
    char *to = out;

    for (size_t i = 0; i < s.len; i++) {
        unsigned c = (unsigned char)s.ptr[i];
        if (c >= 0x80 && c < 0xA0 && (c = windows_1252[c - 0x80]) == 0)
            return 0;
        if (c < 0x80) {
            *to++ = (char)c;
        } else if (c < 0x800) {
            *to++ = (char)(0xC0 | c >> 6);
            *to++ = (char)(0x80 | (c & 0x3F));
        } else {
            *to++ = (char)(0xE0 | c >> 12);
            *to++ = (char)(0x80 | (c >> 6 & 0x3F));
            *to++ = (char)(0x80 | (c & 0x3F));
        }
    }
    return (size_t)(to - out);
}

/* Removes the cell's quotes in place: a doubled quote becomes one, and text after the closing quote
 * is kept. */
static struct df_str unquote(char *p, size_t len)
{
    const char *end = p + len;
    const char *from = p + 1;
    char *to = p;

    for (;;) {
        const char *quote = memchr(from, '"', (size_t)(end - from));
        size_t run = (size_t)((quote ? quote : end) - from);
        memmove(to, from, run);
        to += run;
        if (!quote)
            break;
        from = quote + 1;
        if (from == end || *from != '"') {
            memmove(to, from, (size_t)(end - from));
            to += end - from;
            break;
        }
        *to++ = '"';
        from++;
    }
    return df_str_n(p, (size_t)(to - p));
}

static enum df_code row_text_error(const struct csv_records *r, const char *what,
                                   struct df_err *err)
{
    return df_err_set(err, DF_E_INVALID_TEXT, "row %llu: %s", (unsigned long long)r->row, what);
}

/* The text of a cell of a whole row. */
static enum df_code cell_text(struct csv_records *r, const struct cell *c, bool ascii, char **to,
                              struct df_str *ret, struct df_err *err)
{
    char *p = r->window + r->pos + c->start;
    bool nul;
    struct df_str s = c->quoted ? unquote(p, c->end - c->start) : df_str_n(p, c->end - c->start);

    if (!ascii && !scan_ascii(s.ptr, s.len, &nul) && df_utf8_valid_prefix(s) < s.len) {
        if (r->encoding == UTF8)
            return row_text_error(r, "not UTF-8, although the file's first bytes say so", err);
        size_t len = windows_to_utf8(s, *to);
        if (len == 0)
            return row_text_error(r, "neither UTF-8 nor Windows-1252", err);
        s = df_str_n(*to, len);
        *to += len;
    }
    if (r->unguard && s.len > 1 && s.ptr[0] == '\'' && df_formula_needs_guard(s)) {
        s = df_str_n(s.ptr + 1, s.len - 1);
        r->base.unguarded = true;
    }
    if (s.len > r->limits.max_string_bytes)
        return df_err_set(err, DF_E_TOO_LARGE, "row %llu has a cell over %zu bytes",
                          (unsigned long long)r->row, r->limits.max_string_bytes);
    *ret = s;
    return DF_OK;
}

/* Turns the scanned cells into fields, without empty cells; of the header, into column names. */
static enum df_code take_row(struct csv_records *r, size_t len, bool header, struct df_err *err)
{
    bool nul, ascii = scan_ascii(r->window + r->pos, len, &nul);
    char *to = NULL;

    if (nul)
        return row_text_error(r, "a NUL character", err);
    if (!ascii && 3 * len > r->scratch_cap) {
        r->scratch_cap = 3 * len + 4096;
        free(r->scratch);
        r->scratch = df_malloc(r->scratch_cap);
    }
    to = r->scratch;
    r->field_count = 0;
    for (size_t i = 0; i < r->cell_count; i++) {
        struct df_str text = DF_STR_NULL;
        enum df_code rc = cell_text(r, &r->cells[i], ascii, &to, &text, err);
        if (rc != DF_OK)
            return rc;
        if (header)
            df_columns_set(&r->columns, i, text);
        else if (text.len > 0)
            r->fields[r->field_count++] =
                (struct df_field){df_columns_name(&r->columns, i), DF_FIELD_TEXT, text};
    }
    r->pos += len;
    return DF_ROW;
}

/* --- the header ------------------------------------------------------------------------------- */

/* The byte at pos + i, or -1 at the end of the file. */
static enum df_code peek_char(struct csv_records *r, size_t i, int *ret, struct df_err *err)
{
    while (r->pos + i >= r->fill && !r->eof) {
        enum df_code rc = refill_window(r, err);
        if (rc != DF_OK)
            return rc;
    }
    *ret = r->pos + i < r->fill ? (unsigned char)r->window[r->pos + i] : -1;
    return DF_OK;
}

/* Reads the first line "sep=;", Excel's own, if it is there. */
static enum df_code read_sep_line(struct csv_records *r, struct df_err *err)
{
    int c[6] = {0};

    for (size_t i = 0; i < 6; i++) {
        enum df_code rc = peek_char(r, i, &c[i], err);
        if (rc != DF_OK)
            return rc;
    }
    if ((c[0] | 32) != 's' || (c[1] | 32) != 'e' || (c[2] | 32) != 'p' || c[3] != '=' ||
        (c[4] != ',' && c[4] != ';' && c[4] != '\t' && c[4] != '|') ||
        (c[5] != '\n' && c[5] != '\r'))
        return DF_OK;
    r->sep = (char)c[4];
    r->row++;
    r->pos += 5;
    return peek_char(r, 0, &c[0], err);
}

/* Skips the lines before the header that hold only blanks, quotes and separators. */
static enum df_code skip_blank_lines(struct csv_records *r, struct df_err *err)
{
    int c;

    for (size_t i = 0;; i++) {
        enum df_code rc = peek_char(r, i, &c, err);
        if (rc != DF_OK || c < 0 || !strchr(" \t,;\"\r\n", c))
            return rc;
        if (c == '\n' || c == '\r') {
            int next = 0;
            rc = peek_char(r, i + 1, &next, err);
            if (rc != DF_OK)
                return rc;
            r->pos += i + (c == '\r' && next == '\n' ? 2 : 1);
            r->row++;
            i = SIZE_MAX;
        }
    }
}

/* Takes the separator that occurs most often in the header outside quotes; of equals the first in
 * seps, which names contain more rarely. A bar counts only when there is no other. */
static enum df_code find_sep(struct csv_records *r, struct df_err *err)
{
    static const char seps[4] = {'\t', ';', ',', '|'};
    size_t seen[4] = {0}, best = 2;
    bool quoted = false, begins = true;
    int c;

    for (size_t i = 0;; i++) {
        enum df_code rc = peek_char(r, i, &c, err);
        if (rc != DF_OK)
            return rc;
        if (c < 0 || (!quoted && is_line_end((char)c)))
            break;
        if (c == '"' && (begins || quoted))
            quoted = !quoted;
        const char *sep = quoted ? NULL : memchr(seps, c, sizeof(seps));
        if (sep)
            seen[sep - seps]++;
        begins = sep != NULL;
    }
    for (size_t i = 3; i-- > 0;)
        if (seen[i] > 0 && seen[i] >= seen[best])
            best = i;
    if (seen[best] == 0 && seen[3] > 0)
        best = 3;
    r->sep = seps[best];
    return DF_OK;
}

static enum df_code read_header(struct csv_records *r, struct df_err *err)
{
    size_t len = 0;
    enum df_code rc = read_sep_line(r, err);

    r->header_read = true;
    if (rc == DF_OK)
        rc = skip_blank_lines(r, err);
    if (rc == DF_OK && r->sep == 0)
        rc = find_sep(r, err);
    if (rc == DF_OK)
        rc = scan_row(r, &len, err);
    r->base.header_row = r->row;
    return rc == DF_ROW ? take_row(r, len, true, err) : rc;
}

/* --- the interface ---------------------------------------------------------------------------- */

static enum df_code next_row(struct csv_records *r, struct df_err *err)
{
    size_t len = 0;
    enum df_code rc = r->header_read ? DF_ROW : read_header(r, err);

    while (rc == DF_ROW) {
        rc = scan_row(r, &len, err);
        if (rc == DF_ROW)
            rc = take_row(r, len, false, err);
        if (rc == DF_ROW && r->field_count > 0) {
            r->have = true;
            break;
        }
        r->empty++;
    }
    return rc;
}

static enum df_code csv_next(struct df_records *base, struct df_record *ret, struct df_err *err)
{
    struct csv_records *r = (struct csv_records *)base;
    enum df_code rc = r->result;

    if (rc == DF_OK && !r->have)
        rc = next_row(r, &r->err);
    else if (rc == DF_OK)
        rc = DF_ROW;
    if (rc == DF_ROW && r->count == r->limits.max_records)
        rc = df_err_set(&r->err, DF_E_TOO_LARGE, "more than %llu records",
                        (unsigned long long)r->limits.max_records);
    if (rc != DF_ROW) {
        r->result = rc;
        if (rc != DF_DONE && err)
            *err = r->err;
        return rc;
    }
    r->count++;
    if (r->empty > 0) {
        *ret = (struct df_record){r->fields, 0, r->row - r->empty--};
    } else {
        r->have = false;
        *ret = (struct df_record){r->fields, r->field_count, r->row};
    }
    return DF_ROW;
}

static void csv_free(struct df_records *base)
{
    struct csv_records *r = (struct csv_records *)base;

    df_columns_release(&r->columns);
    free(r->raw);
    free(r->window);
    free(r->cells);
    free(r->fields);
    free(r->scratch);
    free(r);
}

static const struct df_records_ops csv_ops = {.next = csv_next, .free = csv_free};

/* Tells the encoding by a byte order mark, or by a NUL beside the first character. */
static enum df_code find_encoding(struct csv_records *r, struct df_err *err)
{
    char b[3] = {' ', ' ', ' '};
    size_t len = 0;
    enum df_code rc = DF_OK;

    for (size_t n = 1; rc == DF_OK && len < sizeof(b) && n > 0; len += n)
        rc = r->file.read_at(r->file.arg, len, b + len, sizeof(b) - len, &n, err);
    if (memcmp(b, "\xEF\xBB\xBF", 3) == 0) {
        r->encoding = UTF8;
        r->offset = 3;
    } else if (memcmp(b, "\xFF\xFE", 2) == 0 || memcmp(b, "\xFE\xFF", 2) == 0) {
        r->encoding = b[0] == '\xFF' ? UTF16_LITTLE : UTF16_BIG;
        r->offset = 2;
    } else if (!b[0] != !b[1]) {
        r->encoding = b[0] ? UTF16_LITTLE : UTF16_BIG;
    }
    if (r->encoding == UTF16_LITTLE || r->encoding == UTF16_BIG)
        r->raw = df_malloc(RAW_BYTES);
    return rc;
}

enum df_code df_csv_records_open(const struct df_bytes *file, const struct df_records_options *opt,
                                 struct df_records **ret, struct df_err *err)
{
    struct csv_records *r = df_calloc(1, sizeof(*r));
    struct df_record_limits *l = &r->limits;

    r->base.ops = &csv_ops;
    r->base.columns = &r->columns;
    r->file = *file;
    r->err = DF_ERR_INIT;
    if (opt) {
        *l = opt->limits;
        r->unguard = opt->unguard;
    }
    if (l->max_records == 0)
        l->max_records = RECORDS_MAX;
    if (l->max_record_bytes == 0)
        l->max_record_bytes = RECORD_DEFAULT;
    if (l->max_fields == 0)
        l->max_fields = FIELDS_DEFAULT;
    if (l->max_string_bytes == 0)
        l->max_string_bytes = RECORD_DEFAULT;
    r->cap_max = l->max_record_bytes + WINDOW_LEAST;
    r->cap = r->cap_max < WINDOW_FIRST ? r->cap_max : WINDOW_FIRST;
    r->window = df_malloc(r->cap);
    enum df_code rc = find_encoding(r, err);
    if (rc != DF_OK) {
        csv_free(&r->base);
        return rc;
    }
    *ret = &r->base;
    return DF_OK;
}
