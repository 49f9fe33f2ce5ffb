/* A number cell's value as text, by its format. */
#include "imports/xlsx_format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define NUMBER_MAX  400 /* characters of a number; what is longer is text */
#define DIGITS      15  /* that a person sees of a number */
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
    /* Most are whole numbers that a double holds. */
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

/* Digits with the point where it belongs, as long as that is not absurdly long. */
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

/* Written in full by a program that knows more digits than Excel: they are kept. */
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

/* Whole numbers of up to 15 digits; the places are filled from the right, what is left over stands
 * at the first one. */
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

/* The calendar of a count of days since 1970-01-01; years 1899 to 9999. */
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

/* 1900 had no 29 February, but day 60 is one: the days before it are counted one short. */
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

static bool add_moment(const struct df_format *f, double v, bool date1904, struct df_buf *out)
{
    static const int64_t scales[] = {1, 10, 100, 1000};
    if (v < 0 || v >= (date1904 ? LAST_1904 : LAST_1900) + 1)
        return false;
    /* What the clock shows is rounded to its last place; a day begins when it does. */
    unsigned fraction_digits = f->kind == DF_FORMAT_DATE ? 3 : f->fraction_digits;
    int64_t scale = scales[fraction_digits], day = DAY_SECONDS * scale;
    int64_t ticks = llround(v * (double)day);
    if (f->kind == DF_FORMAT_DURATION) {
        add_time(ticks, scale, fraction_digits, out);
        return true;
    }
    if (f->kind != DF_FORMAT_TIME)
        add_date(epoch_days(ticks / day, date1904), out);
    if (f->kind == DF_FORMAT_DATE_TIME)
        df_buf_addc(out, 'T');
    if (f->kind != DF_FORMAT_DATE)
        add_time(ticks % day, scale, fraction_digits, out);
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

/* Whether s begins as the form does, in which '0' is any digit. */
static bool has_form(struct df_str s, const char *form)
{
    for (size_t i = 0; form[i]; i++)
        if (i >= s.len || (form[i] == '0' ? !is_digit(s.ptr[i]) : s.ptr[i] != form[i]))
            return false;
    return true;
}

enum df_field_kind df_format_iso(const struct df_format *f, struct df_str raw, struct df_buf *out)
{
    struct df_str date = DF_STR_NULL, time = raw;
    if (has_form(raw, "0000-00-00")) {
        date = df_str_n(raw.ptr, 10);
        time =
            raw.len > 11 && raw.ptr[10] == 'T' ? df_str_n(raw.ptr + 11, raw.len - 11) : DF_STR_NULL;
    }
    if (time.len && time.ptr[time.len - 1] == 'Z')
        time.len--;
    if (time.len > 8 && time.ptr[8] == '.') {
        while (time.len > 8 && strchr("0.", time.ptr[time.len - 1]))
            time.len--;
    }
    bool has_time = has_form(time, "00:00:00");
    if ((date.ptr && raw.len > 10 && !has_time) || (!date.ptr && !has_time)) {
        df_buf_adds(out, raw);
        return DF_FIELD_TEXT;
    }
    bool midnight = df_str_eq(time, DF_STR("00:00:00"));
    bool show_time = has_time && (!date.ptr || f->kind == DF_FORMAT_DATE_TIME ||
                                  (f->kind != DF_FORMAT_DATE && !midnight));
    bool show_date = date.ptr && !(f->kind == DF_FORMAT_TIME && show_time);
    if (show_date)
        df_buf_adds(out, date);
    if (show_date && show_time)
        df_buf_addc(out, 'T');
    if (show_time)
        df_buf_adds(out, time);
    return DF_FIELD_TEXT;
}
