/* Parses format codes: dates, and codes of digits and literals. xlsx_value.c applies them. */
#include "tabular/xlsx_format.h"

#include <stdlib.h>
#include <strings.h>

#define ALWAYS    '\1'
#define SOMETIMES '\2'

/* The byte after the brackets at p. *ret_elapsed becomes true for [h], [mm] or [ss]. */
static const char *skip_bracket(const char *p, const char *end, bool *ret_elapsed)
{
    const char *close = memchr(p, ']', (size_t)(end - p));
    if (!close)
        return end;
    struct df_str in = df_str_n(p + 1, (size_t)(close - p - 1));
    size_t same = 0;
    while (same < in.len && (in.ptr[same] | 0x20) == (in.ptr[0] | 0x20))
        same++;
    if (in.len && same == in.len && strchr("hms", in.ptr[0] | 0x20))
        *ret_elapsed = true;
    return close + 1;
}

/* The byte after a literal at p (quoted, escaped, padding), or p. */
static const char *skip_literal(const char *p, const char *end)
{
    if (*p == '"') {
        const char *close = memchr(p + 1, '"', (size_t)(end - p - 1));
        return close ? close + 1 : end;
    }
    if (*p == '\\' || *p == '_' || *p == '*')
        return end - p > 1 ? p + 2 : end;
    return p;
}

static struct df_str first_section(struct df_str code)
{
    const char *p = code.ptr, *end = p + code.len;
    bool elapsed = false;
    while (p < end && *p != ';') {
        const char *after = skip_literal(p, end);
        p = after != p ? after : *p == '[' ? skip_bracket(p, end, &elapsed) : p + 1;
    }
    return df_str_n(code.ptr, (size_t)(p - code.ptr));
}

/* The letters of dates that a section has outside its literals. */
struct letters {
    bool year, month_or_minute, day, hour, second, elapsed;
    unsigned fraction_digits;
};

static const char *read_letter(const char *p, const char *end, struct letters *l)
{
    switch (*p | 0x20) {
    case 'y':
        l->year = true;
        break;
    case 'm':
        l->month_or_minute = true;
        break;
    case 'd':
        l->day = true;
        break;
    case 'h':
        l->hour = true;
        break;
    case 's':
        l->second = true;
        break;
    case 'e':
        /* An exponent, or the year of an era. */
        if (end - p > 1 && (p[1] == '+' || p[1] == '-'))
            return p + 2;
        l->year = true;
        break;
    case '.':
        if (l->second)
            while (end - p > 1 && p[1] == '0') {
                l->fraction_digits++;
                p++;
            }
        break;
    default:
        break;
    }
    return p + 1;
}

static struct letters read_letters(struct df_str section)
{
    struct letters l = {0};
    const char *p = section.ptr, *end = p + section.len;
    while (p < end) {
        const char *after = skip_literal(p, end);
        if (after != p)
            p = after;
        else if (*p == '[')
            p = skip_bracket(p, end, &l.elapsed);
        else if (end - p >= 7 && strncasecmp(p, "General", 7) == 0)
            p += 7;
        else if (end - p >= 5 && strncasecmp(p, "AM/PM", 5) == 0)
            p += 5;
        else
            p = read_letter(p, end, &l);
    }
    return l;
}

/* Reads a condition in brackets at p ([<=9999999]) into s; skips colours, currencies and locales.
 */
static const char *read_condition(const char *p, const char *end, struct df_format_section *s)
{
    const char *close = memchr(p, ']', (size_t)(end - p));
    if (!close)
        return end;
    char number[32];
    const char *q = p + 1;
    if (q < close && strchr("<>=", *q)) {
        s->op = *q++;
        if (q < close && *q == '=') {
            s->op = s->op == '<' ? 'l' : 'g';
            q++;
        } else if (q < close && s->op == '<' && *q == '>') {
            s->op = 'n';
            q++;
        }
        size_t len = (size_t)(close - q);
        if (len >= sizeof number)
            len = sizeof number - 1;
        memcpy(number, q, len);
        number[len] = 0;
        s->than = strtod(number, NULL);
    }
    return close + 1;
}

struct pattern {
    char text[DF_FORMAT_PATTERN_MAX];
    size_t len;
    unsigned zeros;
    unsigned places;
    bool between; /* a literal stands between two places */
    bool pending; /* a literal stands after the last place so far */
};

static void add_literal(struct pattern *p, const char *from, size_t len)
{
    for (size_t i = 0; i < len && p->len < sizeof p->text; i++)
        p->text[p->len++] = from[i];
    p->pending = p->pending || p->places > 0;
}

static void add_place(struct pattern *p, char c)
{
    p->between |= p->pending;
    p->pending = false;
    p->zeros += c == '0';
    p->places++;
    if (p->len < sizeof p->text)
        p->text[p->len++] = c == '0' ? ALWAYS : SOMETIMES;
}

/* Reads one byte or construct of a section of digits at p; NULL: the section is something else. */
static const char *digit_step(const char *p, const char *end, struct df_format_section *s,
                              struct pattern *pat)
{
    const char *after = skip_literal(p, end);
    if (after != p) {
        if (*p == '"')
            add_literal(pat, p + 1, (size_t)(after - p) - (after[-1] == '"' && after - p > 1) - 1);
        else if (*p == '\\')
            add_literal(pat, p + 1, (size_t)(after - p) - 1);
        return after;
    }
    if (*p == '[')
        return read_condition(p, end, s);
    if (*p == '0' || *p == '#' || *p == '?') {
        add_place(pat, *p);
        return p + 1;
    }
    if (strchr("-() +:", *p) || (unsigned char)*p >= 0x80) {
        add_literal(pat, p, 1);
        return p + 1;
    }
    return NULL;
}

/* Reads a section of digits and literals; false: it is something else. A single zero is the format
 * of plain numbers, whatever literals stand around it. */
static bool digit_section(struct df_str section, struct df_format_section *s,
                          struct df_arena *arena)
{
    struct pattern pat = {.len = 0};
    const char *p = section.ptr, *end = p + section.len;
    while (p && p < end)
        p = digit_step(p, end, s, &pat);
    if (!p || !(pat.zeros >= 2 || (pat.zeros == 0 && pat.places >= 2 && pat.between)))
        return false;
    s->pattern = df_arena_str(arena, df_str_n(pat.text, pat.len));
    return true;
}

static struct df_format digit_format(struct df_str code, struct df_arena *arena)
{
    struct df_format f = {.kind = DF_FORMAT_DIGITS};
    while (f.section_count < DF_FORMAT_SECTIONS && code.ptr) {
        struct df_format_section *s = &f.sections[f.section_count];
        struct df_str section = first_section(code);
        if (!digit_section(section, s, arena))
            break;
        f.section_count++;
        code = section.len < code.len
                   ? df_str_n(code.ptr + section.len + 1, code.len - section.len - 1)
                   : DF_STR_NULL;
    }
    if (f.section_count == 0)
        f.kind = DF_FORMAT_PLAIN;
    return f;
}

struct df_format df_format_parse(struct df_str code, struct df_arena *arena)
{
    struct df_format f = {.kind = DF_FORMAT_PLAIN};
    if (code.len == 0 || code.len > DF_FORMAT_PATTERN_MAX || memchr(code.ptr, ALWAYS, code.len) ||
        memchr(code.ptr, SOMETIMES, code.len))
        return f;
    struct letters l = read_letters(first_section(code));
    bool time = l.hour || l.second;
    bool date = l.year || l.day || (l.month_or_minute && !time && !l.elapsed);
    f.fraction_digits = l.fraction_digits < 3 ? l.fraction_digits : 3;
    if (l.elapsed)
        f.kind = DF_FORMAT_DURATION;
    else if (date)
        f.kind = time ? DF_FORMAT_DATE_TIME : DF_FORMAT_DATE;
    else if (time)
        f.kind = DF_FORMAT_TIME;
    else
        f = digit_format(code, arena);
    return f;
}

const struct df_format *df_format_builtin(unsigned id)
{
    static const struct df_format plain = {.kind = DF_FORMAT_PLAIN},
                                  date = {.kind = DF_FORMAT_DATE},
                                  date_time = {.kind = DF_FORMAT_DATE_TIME},
                                  time = {.kind = DF_FORMAT_TIME},
                                  tenths = {.kind = DF_FORMAT_TIME, .fraction_digits = 1},
                                  duration = {.kind = DF_FORMAT_DURATION};
    if ((id >= 14 && id <= 17) || (id >= 27 && id <= 31) || id == 36 || (id >= 50 && id <= 54) ||
        id == 57 || id == 58)
        return &date;
    if ((id >= 18 && id <= 21) || (id >= 32 && id <= 35) || id == 45 || id == 55 || id == 56)
        return &time;
    if (id == 47)
        return &tenths;
    if (id == 22)
        return &date_time;
    return id == 46 ? &duration : &plain;
}
