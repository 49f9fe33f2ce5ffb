/*
 * What a client says about the columns of its files: {"Fone do cliente": "PhoneNumber",
 * "contact.phone": "PhoneNumber", "Telefone": ""}. A name stands for a column, compared like the
 * known names (headers_map.h); one with dots in it is a column of just that name, or else a path
 * into a nested value, by the names of members and the places in arrays, from 0. An empty canonical
 * name takes away the meaning that a column has by its own name.
 *
 * Immutable once it is read; any thread.
 */
#ifndef DF_TABULAR_MAPPING_H
#define DF_TABULAR_MAPPING_H

#include "base/arena.h"
#include "tabular/headers_map.h"
#include "tabular/records.h"
#include "json/doc.h"
#include "json/write.h"

#define DF_MAPPING_ENTRIES    200
#define DF_MAPPING_NAME_CHARS 200
#define DF_MAPPING_BYTES      ((size_t)256 << 10) /* of its JSON, with room to spare */

struct df_mapping_entry {
    struct df_str source; /* trimmed */
    struct df_str folded; /* absent: it has dots, or folds to nothing, and is compared as it is */
    bool is_path;         /* it may be one */
    bool kept;            /* it is of the mapping that the client keeps */
    enum df_header header;
};

struct df_mapping {
    const struct df_mapping_entry *entries;
    size_t count;
    bool has_paths;
};

/* Told of each problem. name: the entry's; absent: the mapping as a whole. */
struct df_mapping_problems {
    void (*found)(void *arg, struct df_str name, const char *what);
    void *arg;
};

/* Reads an object. NULL: there were problems. Memory: the arena, which must outlive the mapping. */
struct df_mapping *df_mapping_read(struct df_arena *a, const struct df_json *object,
                                   struct df_mapping_problems problems);
/* The same for one that was stored. absent: none, and *ret is NULL. */
enum df_code df_mapping_load(struct df_arena *a, struct df_str json, struct df_mapping **ret,
                             struct df_err *err) DF_MUST_CHECK;

/* The upload's entries, then those of the client's kept mapping that name neither a column nor a
 * canonical name of the upload's. Either may be NULL; NULL: there are no entries. */
struct df_mapping *df_mapping_join(struct df_arena *a, const struct df_mapping *upload,
                                   const struct df_mapping *kept);

void df_mapping_write(const struct df_mapping *m, struct df_json_out *out);

/* The entry of a column, by its name; NULL: none. m may be NULL. */
const struct df_mapping_entry *df_mapping_find(const struct df_mapping *m, struct df_str name);

/*
 * The value of a path in a record that has no column of the path's name. False: there is none. Text
 * that had escapes is copied to the arena.
 */
bool df_mapping_value(const struct df_mapping_entry *e, const struct df_record *record,
                      struct df_arena *a, struct df_field *ret);

#endif
