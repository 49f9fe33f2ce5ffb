#include "base/mem.h"

#include <link.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
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

/* Constants of a program or library, which nobody writes: what is needed again comes from the
 * system's cache of the file. Not the code: a debugger may have put its breakpoints there. */
static int forget_constants(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size;
    (void)arg;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || part->p_flags != PF_R)
            continue;
        uintptr_t start = (info->dlpi_addr + part->p_vaddr) & ~(page - 1);
        uintptr_t end = info->dlpi_addr + part->p_vaddr + part->p_filesz;
        (void)madvise((void *)start, end - start,
                      MADV_DONTNEED); /* NOLINT(performance-no-int-to-ptr) */
    }
    return 0;
}

void df_mem_trim(void)
{
    (void)malloc_trim(0);
    (void)dl_iterate_phdr(forget_constants, NULL);
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
