/*
 * Allocation that cannot fail: running out of memory writes a line and aborts. Only for sizes that
 * we choose or have bounded; what a peer can size is refused politely before it gets here.
 */
#ifndef DF_BASE_MEM_H
#define DF_BASE_MEM_H

#include "base/str.h"

__attribute__((noreturn)) void df_oom(void);

/* free() gives them back. Never NULL, also for zero bytes; calloc checks the product. */
void *df_malloc(size_t size) __attribute__((malloc, alloc_size(1)));
void *df_calloc(size_t count, size_t size) __attribute__((malloc, alloc_size(1, 2)));
void *df_realloc(void *ptr, size_t size) __attribute__((alloc_size(2)));

/* Large blocks are always the system's own, and go back to it when they are freed. Otherwise the
   first that is freed makes the next ones part of the heap, which keeps the most it ever held.
   Once, at the start of a program that runs for long. */
void df_mem_return_large(void);

/* A NUL-terminated copy; NULL for the absent slice. */
char *df_strdup(struct df_str s);

#endif
