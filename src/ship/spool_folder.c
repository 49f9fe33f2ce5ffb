#include "base/mem.h"
#include "ship/spool_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define FILE_MAX    (DF_SPOOL_NAME_MAX + NAME_MAX + 2)
#define ATTEMPTS    3
#define CURSOR_TEXT 33 /* two numbers of sixteen digits */

static const char *file_of(const struct spool_folder *f, const char *file, char out[FILE_MAX])
{
    (void)snprintf(out, FILE_MAX, "%s/%s", f->name, file);
    return out;
}

static const char *segment_of(const struct spool_folder *f, uint64_t number, char out[FILE_MAX])
{
    (void)snprintf(out, FILE_MAX, "%s/%016" PRIx64 ".log", f->name, number);
    return out;
}

/* --- segments --- */

int spool_folder_open(const struct spool_folder *f, uint64_t number, int flags)
{
    char path[FILE_MAX];

    return openat(f->root_fd, segment_of(f, number, path), flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

struct spool_segment *spool_folder_add(struct spool_folder *f, uint64_t number)
{
    if (f->count == f->cap) {
        f->cap = f->cap ? 2 * f->cap : 8;
        f->segments = df_realloc(f->segments, f->cap * sizeof(*f->segments));
    }
    f->segments[f->count] = (struct spool_segment){.number = number};
    return &f->segments[f->count++];
}

void spool_folder_drop_first(struct spool_folder *f)
{
    char path[FILE_MAX];

    (void)unlinkat(f->root_fd, segment_of(f, f->segments[0].number, path), 0);
    memmove(f->segments, f->segments + 1, (f->count - 1) * sizeof(*f->segments));
    f->count--;
}

static bool parse_hex(const char *text, size_t len, uint64_t *ret)
{
    *ret = 0;
    for (size_t i = 0; i < len; i++) {
        int digit = df_hex_digit(text[i]);
        if (digit < 0)
            return false;
        *ret = *ret << 4 | (uint64_t)digit;
    }
    return true;
}

static int compare_segments(const void *a, const void *b)
{
    const struct spool_segment *x = a, *y = b;

    return x->number < y->number ? -1 : x->number > y->number;
}

static DIR *open_folder(const struct spool_folder *f)
{
    int fd = openat(f->root_fd, f->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

    if (!dir && fd >= 0)
        (void)close(fd);
    return dir;
}

/* False: the folder cannot be read now. */
static bool list_segments(struct spool_folder *f)
{
    DIR *dir = open_folder(f);
    uint64_t number;
    struct stat st;
    char path[FILE_MAX];

    if (!dir)
        return false;
    for (const struct dirent *e; (e = readdir(dir));) { /* NOLINT(concurrency-mt-unsafe) */
        if (strlen(e->d_name) != 20 || strcmp(e->d_name + 16, ".log") != 0 ||
            !parse_hex(e->d_name, 16, &number))
            continue;
        if (fstatat(f->root_fd, segment_of(f, number, path), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode))
            spool_folder_add(f, number)->bytes = (uint64_t)st.st_size;
    }
    (void)closedir(dir);
    if (f->count > 0)
        qsort(f->segments, f->count, sizeof(*f->segments), compare_segments);
    return true;
}

/* --- the cursor --- */

/* A cursor that is missing or damaged stays at the begin: lines are sent again rather than lost. */
static void read_cursor(struct spool_folder *f)
{
    char path[FILE_MAX], text[64];
    struct df_spool_at at;
    uint64_t crc;
    int fd = openat(f->root_fd, file_of(f, "cursor", path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    ssize_t len = read(fd, text, sizeof(text));
    (void)close(fd);
    if (len == CURSOR_TEXT + 10 && text[16] == ' ' && text[33] == ' ' &&
        parse_hex(text, 16, &at.segment) && parse_hex(text + 17, 16, &at.offset) &&
        parse_hex(text + 34, 8, &crc) && crc == crc32(0, (const Bytef *)text, CURSOR_TEXT))
        f->cursor = at;
}

/* One that cannot be written stays behind, which costs a repetition after a crash. */
void spool_folder_write_cursor(struct spool_folder *f)
{
    char path[FILE_MAX], fresh[FILE_MAX], text[64];
    int len = snprintf(text, sizeof(text), "%016" PRIx64 " %016" PRIx64, f->cursor.segment,
                       f->cursor.offset);

    len += snprintf(text + len, sizeof(text) - (size_t)len, " %08lx\n",
                    crc32(0, (const Bytef *)text, CURSOR_TEXT));
    int fd = openat(f->root_fd, file_of(f, "cursor.new", fresh),
                    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    bool written = write(fd, text, (size_t)len) == len;
    (void)close(fd);
    if (written)
        (void)renameat(f->root_fd, fresh, f->root_fd, file_of(f, "cursor", path));
}

/* --- the folder --- */

static bool is_spool_file(const char *name)
{
    return strcmp(name, "cursor") == 0 || strcmp(name, "cursor.new") == 0 ||
           (strlen(name) == 20 && strcmp(name + 16, ".log") == 0);
}

static void remove_folder(const struct spool_folder *f)
{
    DIR *dir = open_folder(f);
    char path[FILE_MAX];

    if (dir) {
        for (const struct dirent *e; (e = readdir(dir));) /* NOLINT(concurrency-mt-unsafe) */
            if (is_spool_file(e->d_name))
                (void)unlinkat(f->root_fd, file_of(f, e->d_name, path), 0);
        (void)closedir(dir);
    }
    (void)unlinkat(f->root_fd, file_of(f, "lock", path), 0);
    (void)unlinkat(f->root_fd, f->name, AT_REMOVEDIR);
}

void spool_folder_free(struct spool_folder *f, bool remove)
{
    if (!f)
        return;
    if (remove)
        remove_folder(f);
    if (f->lock_fd >= 0)
        (void)close(f->lock_fd);
    free(f->segments);
    free(f);
}

/* The folder has a dot before its name until it is locked, so that nobody adopts it before. */
static bool make_locked(struct spool_folder *f, const char *final)
{
    char path[FILE_MAX];

    (void)snprintf(f->name, sizeof(f->name), ".%s", final);
    if (mkdirat(f->root_fd, f->name, 0700) != 0)
        return false;
    f->lock_fd = openat(f->root_fd, file_of(f, "lock", path),
                        O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (f->lock_fd < 0 || flock(f->lock_fd, LOCK_EX | LOCK_NB) != 0 ||
        write(f->lock_fd, f->host, strlen(f->host)) != (ssize_t)strlen(f->host) ||
        renameat(f->root_fd, f->name, f->root_fd, final) != 0) {
        int saved = errno;
        remove_folder(f);
        if (f->lock_fd >= 0)
            (void)close(f->lock_fd);
        f->lock_fd = -1;
        errno = saved;
        return false;
    }
    (void)snprintf(f->name, sizeof(f->name), "%s", final);
    return true;
}

enum df_code spool_folder_make(int root_fd, const struct df_clock *clock, struct spool_folder **ret,
                               struct df_err *err)
{
    struct spool_folder *f = df_calloc(1, sizeof(*f));
    char name[DF_SPOOL_NAME_MAX];

    f->root_fd = root_fd;
    f->lock_fd = -1;
    (void)gethostname(f->host, sizeof(f->host) - 1);
    for (int i = 0; i < ATTEMPTS; i++) {
        uint64_t random;
        df_random(clock, &random, sizeof(random));
        (void)snprintf(name, sizeof(name), "%012" PRIx64 "-%016" PRIx64,
                       (uint64_t)df_wall_ms(clock) & UINT64_C(0xFFFFFFFFFFFF), random);
        if (make_locked(f, name)) {
            *ret = f;
            return DF_OK;
        }
    }
    enum df_code code = df_err_errno(err, "a folder of the log's spool cannot be made");
    spool_folder_free(f, false);
    return code;
}

static bool is_folder_name(const char *name)
{
    uint64_t ignored;

    return strlen(name) == 29 && name[12] == '-' && parse_hex(name, 12, &ignored) &&
           parse_hex(name + 13, 16, &ignored);
}

/* A process that died, or has not come further, before its folder had a name leaves nothing. */
struct spool_folder *spool_folder_adopt(int root_fd, const char *name)
{
    bool unfinished = name[0] == '.';
    char path[FILE_MAX];
    struct stat st;

    if (!is_folder_name(name + unfinished))
        return NULL;
    struct spool_folder *f = df_calloc(1, sizeof(*f));
    f->root_fd = root_fd;
    (void)snprintf(f->name, sizeof(f->name), "%s", name);
    f->lock_fd = openat(root_fd, file_of(f, "lock", path), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    /* A lock that was removed meanwhile belonged to a folder that another process has finished. */
    bool locked = f->lock_fd >= 0 && flock(f->lock_fd, LOCK_EX | LOCK_NB) == 0 &&
                  fstat(f->lock_fd, &st) == 0 && st.st_nlink > 0;
    if (!locked || unfinished) {
        spool_folder_free(f, locked);
        return NULL;
    }
    ssize_t len = read(f->lock_fd, f->host, sizeof(f->host) - 1);
    f->host[len > 0 ? len : 0] = '\0';
    read_cursor(f);
    if (list_segments(f))
        return f;
    spool_folder_free(f, false);
    return NULL;
}
