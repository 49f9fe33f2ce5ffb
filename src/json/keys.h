/*
 * The names of the members of all open objects, to find duplicates. A few names are compared one by
 * one; from the seventeenth on an object gets a hash table. Private to json/.
 *
 * Names are borrowed from the window; those of the outermost `copy_depth` levels, and those with
 * escapes, are copied, because they must outlive it.
 */
#ifndef DF_JSON_KEYS_H
#define DF_JSON_KEYS_H

#include "base/map.h"

/*
 * Limits for all open objects together; documents beyond them are refused, so that memory is
 * bounded. A name takes 24 bytes, 64 in a table, and a copy its text and 32 more: at most 9 MiB
 * while a document is scanned, and nothing afterwards.
 */
#define DF_JSON_NAMES_MAX      65536
#define DF_JSON_NAMES_COPY_MAX (1U << 20)

struct df_json_name {
    struct df_str text;
    char *owned; /* the copy, or NULL */
};

struct df_json_names_scope {
    size_t first;        /* of names[] */
    struct df_map table; /* all names, once there are many; the values mean nothing */
};

struct df_json_keys {
    struct df_json_name *names;
    size_t count;
    size_t cap;
    size_t copied_bytes;
    struct df_json_names_scope *scopes; /* [depth - 1], for objects only */
    unsigned scope_cap;
    unsigned depth;
    unsigned copy_depth;
};

enum df_json_keys_result { DF_JSON_KEYS_NEW, DF_JSON_KEYS_TWICE, DF_JSON_KEYS_TOO_MANY };

void df_json_keys_release(struct df_json_keys *k); /* zeroed is empty */

/* Opens an object or array at this depth (1 is the outermost) and forgets deeper ones. */
void df_json_keys_open(struct df_json_keys *k, unsigned depth);

/* Goes back to `depth` open levels. */
void df_json_keys_cut(struct df_json_keys *k, unsigned depth);

/* Adds a name to the innermost object, as written; `escaped`: it has escapes. */
enum df_json_keys_result df_json_keys_add(struct df_json_keys *k, struct df_str text, bool escaped);

#endif
