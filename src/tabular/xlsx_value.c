/* Applies number formats: the text of a number or date cell. */
#include "tabular/xlsx_format.h"

#include "base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define NUMBER_MAX  400 /* characters of a number; a longer one is text */
#define DIGITS      15  /* that Excel shows of a number */
#define DAY_SECONDS 86400
#define LAST_1900   2958465 /* 9999-12-31 */
#define LAST_1904   2957003
#define EPOCH_1900  (-25568) /* 1899-12-31, in days since 1970-01-01 */
#define EPOCH_1904  (-24107)

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool df_number_is_plain(struct df_str raw)
{
    const char *p = raw.ptr, *end = p + raw.len;
    p += p < end && *p == '-';
    const char *first = p;
    while (p < end && is_digit(*p))
        p++;
    if (p == first || (*first == '0' && p - first > 1))
        return false;
    if (p == end)
        return p - first <= DIGITS && (*first != '0' || first == raw.ptr);
    if (*p != '.' || p + 1 == end || end - first > DIGITS + 1 || end[-1] == '0')
        return false;
    for (p++; p < end && is_digit(*p);)
        p++;
    return p == end;
}

static bool to_double(struct df_str raw, double *ret)
{
    char text[NUMBER_MAX + 1];
    if (raw.len == 0 || raw.len > NUMBER_MAX)
        return false;
    /* Most are whole numbers that a double holds exactly. */
    uint64_t whole = 0;
    size_t digits = 0;
    for (; digits < raw.len && digits <= DIGITS && is_digit(raw.ptr[digits]); digits++)
        whole = whole * 10 + (uint64_t)(raw.ptr[digits] - '0');
    if (digits == raw.len && digits <= DIGITS) {
        *ret = (double)whole;
        return true;
    }
    for (size_t i = 0; i < raw.len; i++)
        if (!is_digit(raw.ptr[i]) && !strchr("+-.eE", raw.ptr[i]))
            return false;
    memcpy(text, raw.ptr, raw.len);
    text[raw.len] = 0;
    char *end;
    *ret = strtod(text, &end);
    return *end == 0 && isfinite(*ret);
}

/* Writes v without an exponent, unless that takes too many zeros. */
static void add_plain(double v, struct df_buf *out)
{
    char text[40], digits[DIGITS + 1];
    snprintf(text, sizeof text, "%.*e", DIGITS - 1, fabs(v));
    int exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    int count = DIGITS;
    digits[0] = text[0];
    memcpy(digits + 1, text + 2, DIGITS - 1);
    while (count > 1 && digits[count - 1] == '0')
        count--;
    if (v < 0)
        df_buf_addc(out, '-');
    if (exponent < -7 || exponent > 20) {
        df_buf_addc(out, digits[0]);
        if (count > 1)
            df_buf_addc(out, '.');
        df_buf_add(out, digits + 1, (size_t)count - 1);
        df_buf_addf(out, "e%d", exponent);
        return;
    }
    if (exponent < 0)
        df_buf_add(out, "0.0000000", (size_t)(1 - exponent));
    for (int i = 0; i < count || i <= exponent; i++) {
        if (i == exponent + 1 && exponent >= 0)
            df_buf_addc(out, '.');
        df_buf_addc(out, i < count ? digits[i] : '0');
    }
}

/* A whole number of up to 21 digits: a program that knows more digits than Excel wrote it. */
static bool is_long_integer(struct df_str raw)
{
    size_t sign = raw.len && raw.ptr[0] == '-';
    if (raw.len - sign > 21 || raw.len == sign || raw.ptr[sign] == '0')
        return false;
    for (size_t i = sign; i < raw.len; i++)
        if (!is_digit(raw.ptr[i]))
            return false;
    return true;
}

static const struct df_format_section *choose_section(const struct df_format *f, double v,
                                                      bool *ret_negative)
{
    bool conditions = false;
    for (size_t i = 0; i < f->section_count; i++) {
        const struct df_format_section *s = &f->sections[i];
        bool holds = (s->op == '<' && v < s->than) || (s->op == '>' && v > s->than) ||
                     (s->op == '=' && v == s->than) || (s->op == 'l' && v <= s->than) ||
                     (s->op == 'g' && v >= s->than) || (s->op == 'n' && v != s->than);
        if (holds || (conditions && !s->op))
            return s;
        conditions |= s->op != 0;
    }
    if (conditions)
        return NULL;
    if (v < 0 && f->section_count > 1) {
        *ret_negative = false;
        return &f->sections[1];
    }
    if (v == 0 && f->section_count > 2)
        return &f->sections[2];
    return &f->sections[0];
}

/* Writes a whole number of up to 15 digits by its pattern. The places are filled from the right;
 * digits left over stand at the first place. */
static bool add_digits(const struct df_format *f, double v, struct df_buf *out)
{
    char digits[DIGITS + 1];
    bool negative = v < 0;
    if (v != floor(v) || fabs(v) >= 1e15)
        return false;
    const struct df_format_section *s = choose_section(f, v, &negative);
    if (!s)
        return false;
    int count = 0, next = DIGITS, places = 0;
    for (uint64_t whole = (uint64_t)fabs(v); whole; whole /= 10, count++)
        digits[--next] = (char)('0' + whole % 10);
    count += next;
    for (size_t i = 0; i < s->pattern.len; i++)
        places += s->pattern.ptr[i] == '\1' || s->pattern.ptr[i] == '\2';
    char text[DF_FORMAT_PATTERN_MAX + DIGITS + 1];
    size_t len = 0;
    if (negative)
        text[len++] = '-';
    for (size_t i = 0; i < s->pattern.len; i++) {
        char c = s->pattern.ptr[i];
        if (c != '\1' && c != '\2') {
            text[len++] = c;
            continue;
        }
        for (; count - next > places; next++)
            text[len++] = digits[next];
        if (count - next == places)
            text[len++] = digits[next++];
        else if (c == '\1')
            text[len++] = '0';
        places--;
    }
    df_buf_add(out, text, len);
    return true;
}

static char *put_two(char *p, int64_t v)
{
    p[0] = (char)('0' + v / 10);
    p[1] = (char)('0' + v % 10);
    return p + 2;
}

/* Writes the date of a count of days since 1970-01-01; years 1899 to 9999. */
static void add_date(int64_t days, struct df_buf *out)
{
    int64_t z = days + 719468; /* since 0000-03-01: leap days stand at the end of a year */
    int64_t era = z / 146097, of_era = z % 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t shifted = (5 * of_year + 2) / 153;
    int64_t day = of_year - (153 * shifted + 2) / 5 + 1;
    int64_t month = shifted < 10 ? shifted + 3 : shifted - 9;
    year += era * 400 + (month <= 2);
    char text[10], *p = put_two(put_two(text, year / 100), year % 100);
    *p++ = '-';
    p = put_two(p, month);
    *p++ = '-';
    put_two(p, day);
    df_buf_add(out, text, sizeof text);
}

/* Excel's day 60 is 29 February 1900, which never was: from there on, serials are one too high. */
static int64_t epoch_days(int64_t serial, bool date1904)
{
    if (date1904)
        return EPOCH_1904 + serial;
    return EPOCH_1900 + serial - (serial >= 60);
}

static void add_time(int64_t ticks, int64_t scale, unsigned fraction_digits, struct df_buf *out)
{
    int64_t seconds = ticks / scale;
    char text[6] = ":00:00";
    if (seconds / 3600 < 10)
        df_buf_addc(out, '0');
    df_buf_add_i64(out, seconds / 3600);
    put_two(text + 1, seconds / 60 % 60);
    put_two(text + 4, seconds % 60);
    df_buf_add(out, text, sizeof text);
    if (ticks % scale)
        df_buf_addf(out, ".%0*lld", (int)fraction_digits, (long long)(ticks % scale));
}

static const int64_t scales[] = {1, 10, 100, 1000}; /* ticks of a second, by its fraction digits */

/* Times are rounded to the last digit shown; a date alone is rounded to the millisecond. */
static unsigned shown_fraction(const struct df_format *f)
{
    return f->kind == DF_FORMAT_DATE ? 3 : f->fraction_digits;
}

static void put_moment(enum df_format_kind kind, int64_t days, int64_t ticks,
                       unsigned fraction_digits, struct df_buf *out)
{
    if (kind == DF_FORMAT_DATE || kind == DF_FORMAT_DATE_TIME)
        add_date(days, out);
    if (kind == DF_FORMAT_DATE_TIME)
        df_buf_addc(out, 'T');
    if (kind != DF_FORMAT_DATE)
        add_time(ticks, scales[fraction_digits], fraction_digits, out);
}

static bool add_moment(const struct df_format *f, double v, bool date1904, struct df_buf *out)
{
    if (v < 0 || v >= (date1904 ? LAST_1904 : LAST_1900) + 1)
        return false;
    unsigned fraction_digits = shown_fraction(f);
    int64_t day = DAY_SECONDS * scales[fraction_digits];
    int64_t ticks = llround(v * (double)day);
    put_moment(f->kind, epoch_days(ticks / day, date1904),
               f->kind == DF_FORMAT_DURATION ? ticks : ticks % day, fraction_digits, out);
    return true;
}

enum df_field_kind df_format_number(const struct df_format *f, bool date1904, struct df_str raw,
                                    struct df_buf *out)
{
    double v = 0;
    if (!to_double(raw, &v)) {
        df_buf_adds(out, raw);
        return DF_FIELD_TEXT;
    }
    switch (f->kind) {
    case DF_FORMAT_DATE:
    case DF_FORMAT_DATE_TIME:
    case DF_FORMAT_TIME:
    case DF_FORMAT_DURATION:
        if (add_moment(f, v, date1904, out))
            return DF_FIELD_TEXT;
        break;
    case DF_FORMAT_DIGITS:
        if (add_digits(f, v, out))
            return DF_FIELD_TEXT;
        break;
    case DF_FORMAT_PLAIN:
        break;
    }
    if (is_long_integer(raw))
        df_buf_adds(out, raw);
    else if (v == 0)
        df_buf_addc(out, '0');
    else
        add_plain(v, out);
    return DF_FIELD_NUMBER;
}

/* Whether s begins like the form, in which '0' is any digit. */
static bool has_form(struct df_str s, const char *form)
{
    for (size_t i = 0; form[i]; i++)
        if (i >= s.len || (form[i] == '0' ? !is_digit(s.ptr[i]) : s.ptr[i] != form[i]))
            return false;
    return true;
}

/* A moment or an amount of time, read from ISO 8601. */
struct moment {
    bool has_date, is_amount;
    int64_t days; /* since 1970-01-01 */
    double seconds;
};

static int64_t number_at(const char *p, size_t len)
{
    int64_t v = 0;
    for (size_t i = 0; i < len; i++)
        v = v * 10 + (p[i] - '0');
    return v;
}

/* Reads digits with or without a fraction from the front of *s, and moves *s past them. */
static bool take_decimal(struct df_str *s, double *ret)
{
    char text[32];
    size_t len = 0;
    while (len < s->len && (is_digit(s->ptr[len]) || s->ptr[len] == '.'))
        len++;
    if (len == 0 || len >= sizeof text)
        return false;
    memcpy(text, s->ptr, len);
    text[len] = 0;
    char *end;
    *ret = strtod(text, &end);
    *s = df_str_n(s->ptr + len, s->len - len);
    return *end == 0 && *ret < 1e9;
}

/* 12:01:00, 15:59:59.99999979Z */
static bool read_time(struct df_str s, struct moment *m)
{
    double seconds;
    if (!has_form(s, "00:00:00"))
        return false;
    struct df_str rest = df_str_n(s.ptr + 6, s.len - 6);
    if (!take_decimal(&rest, &seconds) || !(rest.len == 0 || df_str_eq(rest, DF_STR("Z"))))
        return false;
    m->seconds = (double)(number_at(s.ptr, 2) * 3600 + number_at(s.ptr + 3, 2) * 60) + seconds;
    return seconds < 60 && m->seconds < DAY_SECONDS;
}

/* 2025-11-20, alone or before a time */
static bool read_date(struct df_str s, struct moment *m)
{
    int64_t wall_ms;
    if (number_at(s.ptr, 4) < 1 || !df_time_parse(df_str_n(s.ptr, 10), &wall_ms))
        return false;
    m->has_date = true;
    m->days = wall_ms / (DAY_SECONDS * INT64_C(1000)); /* before 1970 too: it is midnight */
    return s.len == 10 || (s.ptr[10] == 'T' && read_time(df_str_n(s.ptr + 11, s.len - 11), m));
}

/* PT26H31M45.000S */
static bool read_amount(struct df_str s, struct moment *m)
{
    double units;
    m->is_amount = true;
    s = df_str_n(s.ptr + 2, s.len - 2);
    while (s.len) {
        if (!take_decimal(&s, &units) || s.len == 0 || !strchr("HMS", s.ptr[0]))
            return false;
        m->seconds += units * (s.ptr[0] == 'H' ? 3600 : s.ptr[0] == 'M' ? 60 : 1);
        s = df_str_n(s.ptr + 1, s.len - 1);
    }
    return m->seconds < 1e11;
}

/* The kind to show: the format's, if it is one of dates and the moment has a date or time for it.
 */
static enum df_format_kind kind_of(const struct moment *m, enum df_format_kind asked)
{
    if (!m->has_date)
        return m->is_amount || asked == DF_FORMAT_DURATION ? DF_FORMAT_DURATION : DF_FORMAT_TIME;
    if (asked == DF_FORMAT_DATE || asked == DF_FORMAT_DATE_TIME || asked == DF_FORMAT_TIME)
        return asked;
    return llround(m->seconds * 1000) % (DAY_SECONDS * 1000LL) ? DF_FORMAT_DATE_TIME
                                                               : DF_FORMAT_DATE;
}

/* Excel writes times with too many digits (15:59:59.99999979): they are rounded, as those of
 * numbers are. */
enum df_field_kind df_format_iso(const struct df_format *f, struct df_str raw, struct df_buf *out)
{
    struct moment m = {.days = 0};
    bool understood = has_form(raw, "0000-00-00") ? read_date(raw, &m)
                      : has_form(raw, "PT0")      ? read_amount(raw, &m)
                                                  : read_time(raw, &m);
    if (!understood) {
        df_buf_adds(out, raw);
        return DF_FIELD_TEXT;
    }
    bool plain = f->kind == DF_FORMAT_PLAIN || f->kind == DF_FORMAT_DIGITS;
    enum df_format_kind kind = kind_of(&m, f->kind);
    unsigned fraction_digits = plain ? 3 : shown_fraction(f);
    int64_t day = DAY_SECONDS * scales[fraction_digits];
    int64_t ticks = llround(m.seconds * (double)scales[fraction_digits]);
    put_moment(kind, m.days + ticks / day, kind == DF_FORMAT_DURATION ? ticks : ticks % day,
               fraction_digits, out);
    return DF_FIELD_TEXT;
}
