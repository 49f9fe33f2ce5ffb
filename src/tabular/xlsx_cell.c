#include "tabular/xlsx_cell.h"

#include "tabular/xlsx_strings.h"
#include "tabular/xlsx_xml.h"

enum df_cell_type df_cell_type_of(struct df_str t)
{
    if (t.len == 1) {
        switch (t.ptr[0]) {
        case 's':
            return DF_CELL_SHARED;
        case 'b':
            return DF_CELL_BOOL;
        case 'e':
            return DF_CELL_ERROR;
        case 'd':
            return DF_CELL_DATE;
        case 'n':
            return DF_CELL_NUMBER;
        default:
            return DF_CELL_TEXT;
        }
    }
    return t.len ? DF_CELL_TEXT : DF_CELL_NUMBER;
}

/* Reads the attributes r, s and t, in that order, after "<c". The byte after them, or NULL. */
static const char *usual_attributes(const char *p, struct df_usual_cell *u)
{
    if (!(p = DF_PAST(p, " r=\"")))
        return NULL;
    u->column = 0;
    const char *first = p;
    for (; *p >= 'A' && *p <= 'Z' && p - first < 4; p++)
        u->column = u->column * 26 + (uint32_t)(*p - 'A' + 1);
    const char *digits = p;
    while (*p >= '0' && *p <= '9' && p - digits < 10)
        p++;
    if (digits == first || p == digits || u->column > DF_SHEET_COLUMNS || *p++ != '"')
        return NULL;
    u->column--;
    u->style = 0;
    if (p[0] == ' ' && p[1] == 's') {
        if (!(p = DF_PAST(p, " s=\"")))
            return NULL;
        for (digits = p; *p >= '0' && *p <= '9' && p - digits < 7; p++)
            u->style = u->style * 10 + (uint32_t)(*p - '0');
        if (p == digits || *p++ != '"')
            return NULL;
    }
    u->type = DF_CELL_NUMBER;
    if (p[0] == ' ') {
        if (!(p = DF_PAST(p, " t=\"")))
            return NULL;
        for (first = p; *p >= 'a' && *p <= 'z' && p - first < 10;)
            p++;
        if (first[0] == 'i' && p - first == 6 && *p == 'S') /* inlineStr */
            p = DF_PAST(p, "Str");
        if (!p || *p != '"')
            return NULL;
        u->type = df_cell_type_of(df_str_n(first, (size_t)(p - first)));
        p++;
    }
    return p;
}

/* Reads the text at p up to `close`. The byte after it; NULL for references and anything else that
 * is not plain text. */
static const char *usual_text(const char *p, const char *end, struct df_str close, size_t max_bytes,
                              struct df_usual_cell *u)
{
    const char *stop = df_xml_plain_run(p, end);
    if ((size_t)(end - stop) < close.len || memcmp(stop, close.ptr, close.len) != 0)
        return NULL;
    u->text = df_str_n(p, (size_t)(stop - p));
    u->has_value = u->text.len > 0;
    if (u->text.len > max_bytes || (u->type == DF_CELL_TEXT && df_xstring_escaped(u->text)))
        return NULL;
    return stop + close.len;
}

static const char *usual_index(const char *p, struct df_usual_cell *u)
{
    uint64_t v = 0;
    const char *first = p;
    for (; *p >= '0' && *p <= '9' && p - first < 10; p++)
        v = v * 10 + (uint64_t)(*p - '0');
    if (p == first || v > UINT32_MAX)
        return NULL;
    u->index = (uint32_t)v;
    u->has_value = true;
    return DF_PAST(p, "</v></c>");
}

/* Reads the content of a cell after its start tag. The byte after the cell, or NULL. */
static const char *usual_content(const char *p, const char *end, size_t max_bytes,
                                 struct df_usual_cell *u)
{
    const char *q;
    if ((q = DF_PAST(p, "<v>")))
        return u->type == DF_CELL_SHARED ? usual_index(q, u)
                                         : usual_text(q, end, DF_STR("</v></c>"), max_bytes, u);
    if ((q = DF_PAST(p, "<is><t>")))
        return usual_text(q, end, DF_STR("</t></is></c>"), max_bytes, u);
    if ((q = DF_PAST(p, "<is><t xml:sp")) && end - q > 32 && (q = DF_PAST(q, "ace=\"preserve\">")))
        return usual_text(q, end, DF_STR("</t></is></c>"), max_bytes, u);
    return NULL;
}

const char *df_usual_cell_read(const char *p, const char *end, size_t max_bytes,
                               struct df_usual_cell *ret)
{
    if (end - p <= DF_USUAL_MARGIN || p[0] != '<' || p[1] != 'c')
        return NULL;
    ret->text = DF_STR("");
    ret->index = 0;
    ret->has_value = false;
    p = usual_attributes(p + 2, ret);
    if (p && p[0] == '/' && p[1] == '>')
        return p + 2;
    return p && *p == '>' && end - p >= 48 ? usual_content(p + 1, end, max_bytes, ret) : NULL;
}
