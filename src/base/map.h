/*
 * Hash table from bytes to pointers. Keys are borrowed: usually they are part of the values, and
 * must not change while they are in the table. The caller frees the values. A zeroed struct is a
 * valid empty table, and allocates nothing until something is added.
 *
 * Keys are hashed with SipHash under a key drawn once for each process, so that a peer who chooses
 * keys cannot make them collide. The caller limits the size and evicts. One thread at a time: the
 * lock of the values guards the table.
 *
 *     struct df_map clients = {0};
 *
 *     df_map_add(&clients, df_str_c(c->name), c);
 *     c = df_map_get(&clients, name);
 *     for (size_t at = 0; (c = df_map_next(&clients, &at));)
 *         …
 */
#ifndef DF_BASE_MAP_H
#define DF_BASE_MAP_H

#include "base/str.h"

struct df_map {
    struct df_map_entry *entries; /* in the order they were added, with holes */
    uint32_t *slots;              /* by hash: 1 + index of entries; 0: free */
    uint32_t slot_mask;
    uint32_t used; /* entries, including holes */
    uint32_t count;
};

/* Frees the table, but not the values, and leaves it empty. */
void df_map_release(struct df_map *m);

/* The value of the key; NULL when there is none. */
void *df_map_get(const struct df_map *m, struct df_str key);

/* Adds a new key (aborts if it exists) with a value that is not NULL. At most 2^30 keys. */
void df_map_add(struct df_map *m, struct df_str key, void *value);

/* Adds the key and returns NULL, or returns the existing value of the key. */
void *df_map_try_add(struct df_map *m, struct df_str key, void *value);

/* Removes the key and returns its value, or NULL when there is none. */
void *df_map_remove(struct df_map *m, struct df_str key);

/*
 * Walks over the values in the order in which they were added: *at starts as 0, and NULL ends the
 * walk. During the walk any key may be removed, and is then not visited any more; none may be
 * added.
 */
void *df_map_next(const struct df_map *m, size_t *at);

#endif
