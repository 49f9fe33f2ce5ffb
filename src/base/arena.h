/*
 * Arena: memory of one request, batch or delivery, freed all at once. Allocation cannot fail (out
 * of memory aborts), so sizes that a peer controls must be bounded before. One thread at a time.
 * Never put arena memory into a queue that outlives the arena: copy it.
 *
 * With DF_ARENA_DEBUG (the asan build sets it) every allocation is its own malloc, so that
 * AddressSanitizer sees each overrun and each use after reset.
 */
#ifndef DF_BASE_ARENA_H
#define DF_BASE_ARENA_H

#include "base/str.h"

struct df_arena_block;

struct df_arena {
    struct df_arena_block *blocks;
    size_t used_bytes; /* allocated since the last reset; for limits and metrics */
};

/* A zeroed struct is a valid empty arena too. */
void df_arena_init(struct df_arena *a);
void df_arena_release(struct df_arena *a);

/* Frees all allocations but keeps the first block for reuse. */
void df_arena_reset(struct df_arena *a);

/* Aligned for any type. Zero bytes give a valid pointer. */
void *df_arena_alloc(struct df_arena *a, size_t size) __attribute__((malloc, alloc_size(2)));
void *df_arena_zalloc(struct df_arena *a, size_t size) __attribute__((malloc, alloc_size(2)));
/* A product that overflows aborts. */
void *df_arena_zalloc_array(struct df_arena *a, size_t count, size_t size)
    __attribute__((malloc, alloc_size(2, 3)));

/* Copies are NUL-terminated one byte past their length. The absent slice stays absent. */
struct df_str df_arena_str(struct df_arena *a, struct df_str s);
char *df_arena_cstr(struct df_arena *a, struct df_str s);
struct df_str df_arena_printf(struct df_arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#define DF_ARENA_NEW(a, type)      ((type *)df_arena_zalloc((a), sizeof(type)))
#define DF_ARENA_ARRAY(a, type, n) ((type *)df_arena_zalloc_array((a), (n), sizeof(type)))

#endif
