/*
 * Maps the name of a column or member, in Portuguese or English, to the canonical name in the item.
 * Accents, case and everything that is neither letter nor digit are ignored, so that "E-mail",
 * "e_mail" and "EMAIL" are one name. docs/imports.md has the table; a test compares it with this
 * one. Thread-safe.
 */
#ifndef DF_TABULAR_HEADERS_MAP_H
#define DF_TABULAR_HEADERS_MAP_H

#include "base/str.h"

enum df_header {
    DF_HEADER_OTHER, /* keeps its own name */
    DF_HEADER_PHONE,
    DF_HEADER_ORIGIN,
    DF_HEADER_PROPERTY,
    DF_HEADER_LEAD_CONTEXT,
    DF_HEADER_LEAD,                  /* from here on: members of LeadContextJson */
    DF_HEADER_AREA = DF_HEADER_LEAD, /* area code of a phone in another column */
    DF_HEADER_NAME,
    DF_HEADER_EMAIL,
    DF_HEADER_DOCUMENT,
    DF_HEADER_BIRTH_DATE,
    DF_HEADER_COMPANY,
    DF_HEADER_ADDRESS,
    DF_HEADER_CITY,
    DF_HEADER_STATE,
    DF_HEADER_ZIP_CODE,
    DF_HEADER_MESSAGE,
    DF_HEADER_NOTES,
    DF_HEADER_CAMPAIGN,
    DF_HEADER_INTEREST,
    DF_HEADER_BUDGET,
    DF_HEADER_COUNT
};

/* *ret_exact: name is the canonical name, in any spelling, and not a synonym. */
enum df_header df_header_find(struct df_str name, bool *ret_exact);

/* "PhoneNumber", …; NULL for OTHER. */
const char *df_header_name(enum df_header h);

/* The known names, folded, and what they mean. */
struct df_known_header {
    const char *name;
    enum df_header header;
};
extern const struct df_known_header df_known_headers[];
extern const size_t df_known_header_count;

/* Folds name into out, which has room for name.len bytes; returns the result's length. */
size_t df_header_fold(struct df_str name, char *out);

#endif
