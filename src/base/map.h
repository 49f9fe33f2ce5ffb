/*
 * Hash table from bytes to pointers. Keys are borrowed: mostly they stand inside the values, and
 * must not change while they are in the table. Values are the caller's to free. A zeroed struct is
 * a valid empty table, and allocates nothing until something is added.
 *
 * Keys are hashed with SipHash under a key drawn once for each process, so that nobody who chooses
 * keys can make them collide. Bounds and what gives way are the caller's affair. One thread at a
 * time: whoever guards the values guards the table.
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
    uint32_t used; /* entries, with the holes */
    uint32_t count;
};

/* Frees the table, not what its values point to, and leaves it empty. */
void df_map_release(struct df_map *m);

/* NULL: it is not there. */
void *df_map_get(const struct df_map *m, struct df_str key);

/* The key is not there yet (aborts if it is), and the value is not NULL. At most 2^30 keys. */
void df_map_add(struct df_map *m, struct df_str key, void *value);

/* Adds the key and returns NULL; or returns the value that the key has already. */
void *df_map_try_add(struct df_map *m, struct df_str key, void *value);

/* Returns the value that was there, or NULL. */
void *df_map_remove(struct df_map *m, struct df_str key);

/*
 * The values in the order in which they were added: *at is 0 first, and NULL comes last. While
 * walking, any key may be removed: what is removed before it was met is not met. None may be added.
 */
void *df_map_next(const struct df_map *m, size_t *at);

#endif
