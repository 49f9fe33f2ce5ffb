#include "base/mem.h"

#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#define LARGE_BYTES (128 << 10)

void df_oom(void)
{
    static const char line[] = "dataflow: out of memory\n";
    if (write(STDERR_FILENO, line, sizeof(line) - 1) < 0) {
        /* There is no one left to report the error to. */
    }
    abort();
}

void *df_malloc(size_t size)
{
    void *p = malloc(size ? size : 1);
    if (!p)
        df_oom();
    return p;
}

void *df_calloc(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);
    if (!p)
        df_oom();
    return p;
}

void *df_realloc(void *ptr, size_t size)
{
    void *p = realloc(ptr, size ? size : 1);
    if (!p)
        df_oom();
    return p;
}

void df_mem_return_large(void)
{
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): there is only one thread yet */
    (void)mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
}

void df_mem_trim(void)
{
    (void)malloc_trim(0);
}

char *df_strdup(struct df_str s)
{
    if (!s.ptr)
        return NULL;
    if (s.len == SIZE_MAX)
        df_oom();
    char *copy = df_malloc(s.len + 1);
    memcpy(copy, s.ptr, s.len);
    copy[s.len] = '\0';
    return copy;
}
