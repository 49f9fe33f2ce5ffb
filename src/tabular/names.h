/*
 * A cache of what each name in a file means. Files repeat a few names in every record, mostly in
 * the same order, so the name at the same place in the previous record is tried first. Private to
 * the normaliser. One thread at a time.
 */
#ifndef DF_TABULAR_NAMES_H
#define DF_TABULAR_NAMES_H

#include "base/map.h"
#include "tabular/mapping.h"

struct df_name {
    struct df_str text;      /* as in the file */
    struct df_str own;       /* trimmed */
    struct df_str key;       /* own as a JSON string, with the colon */
    struct df_str canonical; /* the canonical name likewise; empty below DF_HEADER_LEAD */
    enum df_header header;
    bool exact;   /* the canonical name, in any spelling */
    bool mapped;  /* the client's mapping says what it means */
    bool altered; /* trimming changed it or left nothing: it may collide with another name */
    char bytes[];
};

struct df_names {
    struct df_map by_text;
    const struct df_mapping *mapping; /* of the client; NULL: none */
    size_t size_bytes;
    const struct df_name **places;
    size_t place_cap;
};

/* A zeroed struct is valid. */
void df_names_release(struct df_names *n);

/* Call before each record, with its number of fields. Only this call forgets names, when there are
 * too many. */
void df_names_begin(struct df_names *n, size_t field_count);

/* The result is valid until the next begin. place is less than begin's field_count. */
const struct df_name *df_names_find(struct df_names *n, size_t place, struct df_str text);

/* s without white space around it, including the Unicode spaces that spreadsheets and web pages
 * leave behind. */
struct df_str df_names_trim(struct df_str s);

#endif
