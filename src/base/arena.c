#include "base/arena.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST_BLOCK ((size_t)4096)
#define LAST_BLOCK  ((size_t)65536)
#define ALIGNMENT   ((size_t)16)

/* The newest ordinary block comes first; the block of a large allocation goes after it. */
struct df_arena_block {
    struct df_arena_block *next;
    size_t cap;
    size_t used;
    _Alignas(16) char data[];
};

_Static_assert(sizeof(struct df_arena_block) % 16 == 0, "data is aligned for any type");

void df_arena_init(struct df_arena *a)
{
    *a = (struct df_arena){0};
}

static void free_blocks(struct df_arena_block *b)
{
    while (b) {
        struct df_arena_block *next = b->next;
        free(b);
        b = next;
    }
}

void df_arena_release(struct df_arena *a)
{
    free_blocks(a->blocks);
    df_arena_init(a);
}

static struct df_arena_block *new_block(size_t cap)
{
    struct df_arena_block *b = df_malloc(sizeof(*b) + cap);
    b->next = NULL;
    b->cap = cap;
    b->used = 0;
    return b;
}

#ifdef DF_ARENA_DEBUG

void df_arena_reset(struct df_arena *a)
{
    df_arena_release(a);
}

static void *take_bytes(struct df_arena *a, size_t size)
{
    struct df_arena_block *b = new_block(size);
    b->next = a->blocks;
    a->blocks = b;
    return b->data;
}

#else

void df_arena_reset(struct df_arena *a)
{
    struct df_arena_block *kept = NULL;
    struct df_arena_block *next;

    /* An idle arena keeps at most one block of the first size. */
    for (struct df_arena_block *b = a->blocks; b; b = next) {
        next = b->next;
        if (!kept && b->cap == FIRST_BLOCK - sizeof(*b)) {
            b->next = NULL;
            b->used = 0;
            kept = b;
        } else {
            free(b);
        }
    }
    *a = (struct df_arena){.blocks = kept};
}

static void add_block(struct df_arena *a)
{
    size_t total = FIRST_BLOCK;
    if (a->blocks)
        total = 2 * (a->blocks->cap + sizeof(*a->blocks));
    if (total > LAST_BLOCK)
        total = LAST_BLOCK;
    struct df_arena_block *b = new_block(total - sizeof(*b));
    b->next = a->blocks;
    a->blocks = b;
}

static void *take_bytes(struct df_arena *a, size_t size)
{
    size = size == 0 ? ALIGNMENT : (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    if (!a->blocks)
        add_block(a);

    struct df_arena_block *b = a->blocks;
    if (size > b->cap - b->used) {
        if (size > b->cap / 4) {
            b = new_block(size);
            b->next = a->blocks->next;
            a->blocks->next = b;
        } else {
            add_block(a);
            b = a->blocks;
        }
    }
    void *p = b->data + b->used;
    b->used += size;
    return p;
}

#endif

void *df_arena_alloc(struct df_arena *a, size_t size)
{
    if (size > SIZE_MAX / 2)
        df_oom();
    a->used_bytes += size;
    return take_bytes(a, size);
}

void *df_arena_zalloc(struct df_arena *a, size_t size)
{
    return memset(df_arena_alloc(a, size), 0, size);
}

void *df_arena_zalloc_array(struct df_arena *a, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        df_oom();
    return df_arena_zalloc(a, total);
}

char *df_arena_cstr(struct df_arena *a, struct df_str s)
{
    if (!s.ptr)
        return NULL;
    if (s.len > SIZE_MAX / 2)
        df_oom();
    char *copy = df_arena_alloc(a, s.len + 1);
    memcpy(copy, s.ptr, s.len);
    copy[s.len] = '\0';
    return copy;
}

struct df_str df_arena_str(struct df_arena *a, struct df_str s)
{
    return df_str_n(df_arena_cstr(a, s), s.len);
}

struct df_str df_arena_printf(struct df_arena *a, const char *fmt, ...)
{
    va_list ap;
    va_list again;
    va_start(ap, fmt);
    va_copy(again, ap);

    /* Most texts are short: they are formatted once. */
    char small[256];
    int n = vsnprintf(small, sizeof(small), fmt, ap);
    if (n < 0)
        abort();
    size_t len = (size_t)n;
    char *text = df_arena_alloc(a, len + 1);
    if (len < sizeof(small))
        memcpy(text, small, len + 1);
    else
        (void)vsnprintf(text, len + 1, fmt, again);

    va_end(again);
    va_end(ap);
    return df_str_n(text, len);
}
