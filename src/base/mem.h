/*
 * Allocation that cannot fail: running out of memory writes a line and aborts. Only for sizes that
 * we choose or have bounded; sizes that a peer controls are checked before.
 */
#ifndef DF_BASE_MEM_H
#define DF_BASE_MEM_H

#include "base/str.h"

__attribute__((noreturn)) void df_oom(void);

/* Freed with free(). Never NULL, even for zero bytes; calloc checks the product. */
void *df_malloc(size_t size) __attribute__((malloc, alloc_size(1)));
void *df_calloc(size_t count, size_t size) __attribute__((malloc, alloc_size(1, 2)));
void *df_realloc(void *ptr, size_t size) __attribute__((alloc_size(2)));

/* Makes large blocks always come from the system and go back to it when freed. Otherwise freeing
 * the first one moves later ones to the heap, which never shrinks from its maximum. Call it once,
 * at the start of a long-running program. */
void df_mem_return_large(void);
/* Gives back to the system what was freed, and pages of constants: after a start, which needs more
 * than what follows. */
void df_mem_trim(void);

/* A NUL-terminated copy; NULL for the absent slice. */
char *df_strdup(struct df_str s);

#endif
