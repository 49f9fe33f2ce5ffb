/*
 * What each name in a file means, found out once: files have few names and give them over and over,
 * mostly in the same order, so the name at the same place of the record before is tried first.
 * Private to the normaliser. One thread at a time.
 */
#ifndef DF_IMPORTS_NAMES_H
#define DF_IMPORTS_NAMES_H

#include "base/map.h"
#include "tabular/headers_map.h"

struct df_name {
    struct df_str text;      /* as in the file */
    struct df_str own;       /* trimmed */
    struct df_str key;       /* the latter as a JSON string with its colon */
    struct df_str canonical; /* the same of the canonical name, if it is a member's */
    enum df_header header;
    bool exact;   /* the canonical name, in any spelling */
    bool altered; /* by trimming, or there is nothing left: another one may come to the same */
    char bytes[];
};

struct df_names {
    struct df_map by_text;
    size_t size_bytes;
    const struct df_name **places;
    size_t place_cap;
};

/* A zeroed struct is valid. */
void df_names_release(struct df_names *n);

/* Before a record of this many fields: only here are names forgotten, when there are too many. */
void df_names_begin(struct df_names *n, size_t field_count);

/* Valid until the next begin. place is less than what begin was told. */
const struct df_name *df_names_find(struct df_names *n, size_t place, struct df_str text);

/* Without white space around it, of Unicode too: what spreadsheets and web pages leave. */
struct df_str df_names_trim(struct df_str s);

#endif
