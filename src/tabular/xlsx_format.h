/*
 * Number formats: the text of a cell's number, by its format code. Dates and times become ISO 8601.
 * A code of digits and literals (a postal code, a phone) is applied, because the leading zeros are
 * in the code and not in the number. Everything else (percent, currency, decimals) is the plain
 * number with the 15 digits that Excel shows.
 */
#ifndef DF_TABULAR_XLSX_FORMAT_H
#define DF_TABULAR_XLSX_FORMAT_H

#include "base/arena.h"
#include "base/buf.h"
#include "tabular/records.h"

enum df_format_kind {
    DF_FORMAT_PLAIN,
    DF_FORMAT_DATE,
    DF_FORMAT_DATE_TIME,
    DF_FORMAT_TIME,     /* of the day */
    DF_FORMAT_DURATION, /* hours go past 24 */
    DF_FORMAT_DIGITS,   /* placeholders and literals */
};

#define DF_FORMAT_SECTIONS    3
#define DF_FORMAT_PATTERN_MAX 255 /* bytes; as long as Excel lets a code be */

/* A section of a code of digits: its condition, and its text, in which '\1' is a digit that is
 * always shown, and '\2' a digit that is shown if the number has it. */
struct df_format_section {
    char op; /* '<', '>', '=', 'l' (<=), 'g' (>=), 'n' (<>); 0: none */
    double than;
    struct df_str pattern;
};

struct df_format {
    enum df_format_kind kind;
    unsigned fraction_digits; /* of a second, 0 to 3 */
    size_t section_count;
    struct df_format_section sections[DF_FORMAT_SECTIONS];
};

/* Parses a code. The result's texts are in the arena. */
struct df_format df_format_parse(struct df_str code, struct df_arena *arena);
/* The format of a built-in code, which the file gives by its number alone. */
const struct df_format *df_format_builtin(unsigned id);

/*
 * Appends the text of a number cell to out, which has room for 64 bytes more than the format's
 * longest pattern. A raw text that is not a number is copied and becomes text.
 */
enum df_field_kind df_format_number(const struct df_format *f, bool date1904, struct df_str raw,
                                    struct df_buf *out);
/* Whether the number is written the way df_format_number would write a plain one. */
bool df_number_is_plain(struct df_str raw);
/* df_format_number for a cell that holds a date as ISO 8601. */
enum df_field_kind df_format_iso(const struct df_format *f, struct df_str raw, struct df_buf *out);

#endif
