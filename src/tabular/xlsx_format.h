/*
 * Number formats: what a format code makes of a cell's number, as far as a reader of records cares.
 * A number stays a number, with the 15 digits that a person sees; dates and times become ISO 8601;
 * a code made of digits and literals (a postal code, a phone) is applied, because leading zeros are
 * in the code and not in the number. Percent, currency, decimals: the plain number.
 */
#ifndef DF_IMPORTS_XLSX_FORMAT_H
#define DF_IMPORTS_XLSX_FORMAT_H

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

/* Of a code of digits: a condition, and the text in which '\1' is a digit that is always there, and
 * '\2' one that is there when the number has it. */
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

/* Understands a code; what it keeps is copied into the arena. */
struct df_format df_format_parse(struct df_str code, struct df_arena *arena);
/* Of the codes that have a number and no text in the file. */
const struct df_format *df_format_builtin(unsigned id);

/*
 * The text of a number cell: appended to out, which has room for 64 bytes more than the format's
 * longest pattern. What is not a number is text, as it is.
 */
enum df_field_kind df_format_number(const struct df_format *f, bool date1904, struct df_str raw,
                                    struct df_buf *out);
/* Whether a number as it is written is already as df_format_number writes a plain one. */
bool df_number_is_plain(struct df_str raw);
/* The same for a cell that holds a date as ISO 8601. */
enum df_field_kind df_format_iso(const struct df_format *f, struct df_str raw, struct df_buf *out);

#endif
