/*
 * Directories and files of uploads on the local disk.
 *
 *     imports/{batchId}/original/.upload      while it is written
 *     imports/{batchId}/original/{name}       when all of it is on the disk
 *     imports/{batchId}/original/.rekey       its successor, while it is encrypted anew
 *
 * No {name} begins with a dot, so they cannot collide. A crash leaves .upload in a directory
 * whose batch does not exist; df_storage_each finds it.
 *
 * At the end the file is synced, then renamed, then the directories are synced from the inside out.
 * Once the last is on the disk, so is the whole path to the file.
 */
#include "base/log.h"
#include "base/mem.h"
#include "files/storage_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define IMPORTS      "imports"
#define ORIGINAL     "original"
#define TEMPORARY    ".upload"
#define SUCCESSOR    ".rekey"
#define BUFFER_BYTES ((size_t)64 << 10)
#define FLUSH_BYTES  ((uint64_t)4 << 20) /* written before the disk is told to begin */
#define DEPTH_MAX    8                   /* of a tree to remove; ours are 2 deep */
#define DIR_FLAGS    (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct df_local_file {
    const struct df_local *local;
    struct df_uuid batch;
    int batch_fd;
    int dir_fd;
    int fd;
    bool made;        /* the directories are this file's */
    const char *name; /* the temporary one */
    bool temporary;   /* it exists */
    char *buffer;
    size_t used;
    uint64_t written;
    uint64_t flushed;
};

static enum df_code batch_error(struct df_err *err, const struct df_uuid *batch, const char *what)
{
    return df_err_errno(err, IMPORTS "/%s: %s", batch->text, what);
}

static void close_fd(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

/* --- the directory --- */

/* Opens the directories, and makes them if they are missing. */
static enum df_code open_imports(const char *data_dir, int *ret_fd, struct df_err *err)
{
    enum df_code code = DF_OK;

    *ret_fd = -1;
    if (mkdir(data_dir, 0700) != 0 && errno != EEXIST)
        return df_err_errno(err, "cannot make the data directory %s", data_dir);
    int fd = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return df_err_errno(err, "cannot open the data directory %s", data_dir);
    if (mkdirat(fd, IMPORTS, 0700) == 0 || errno == EEXIST)
        *ret_fd = openat(fd, IMPORTS, DIR_FLAGS);
    if (*ret_fd < 0 || fsync(fd) != 0)
        code = df_err_errno(err, "cannot open %s/" IMPORTS, data_dir);
    (void)close(fd);
    return code;
}

enum df_code df_local_init(struct df_local *l, const char *data_dir, const struct df_clock *clock,
                           struct df_err *err)
{
    *l = (struct df_local){.data_dir = data_dir, .clock = clock};
    return open_imports(data_dir, &l->imports_fd, err);
}

/* The directory was removed while it was open. dup3 puts the new one under the same descriptor, so
 * that other threads use the old or the new one, never a closed one. */
static enum df_code open_imports_again(const struct df_local *l, struct df_err *err)
{
    int fd;

    enum df_code code = open_imports(l->data_dir, &fd, err);
    if (code == DF_OK && dup3(fd, l->imports_fd, O_CLOEXEC) < 0)
        code = df_err_errno(err, "cannot open %s/" IMPORTS, l->data_dir);
    close_fd(fd);
    if (code == DF_OK)
        df_log_error("ImportsDirectoryLost",
                     "%s/" IMPORTS " was removed, with every file that "
                     "waited there; it was made again",
                     l->data_dir);
    return code;
}

void df_local_release(struct df_local *l)
{
    close_fd(l->imports_fd);
    l->imports_fd = -1;
}

/* --- writing --- */

static void free_file(struct df_local_file *f)
{
    close_fd(f->fd);
    close_fd(f->dir_fd);
    close_fd(f->batch_fd);
    free(f->buffer);
    free(f);
}

void df_local_abort(struct df_local_file *take_f)
{
    if (!take_f)
        return;
    if (take_f->temporary)
        (void)unlinkat(take_f->dir_fd, take_f->name, 0);
    /* Directories that are not empty stay. */
    if (take_f->made) {
        if (take_f->batch_fd >= 0)
            (void)unlinkat(take_f->batch_fd, ORIGINAL, AT_REMOVEDIR);
        (void)unlinkat(take_f->local->imports_fd, take_f->batch.text, AT_REMOVEDIR);
    }
    free_file(take_f);
}

static bool open_directories(struct df_local_file *f)
{
    f->batch_fd = openat(f->local->imports_fd, f->batch.text, DIR_FLAGS);
    if (f->batch_fd < 0 || (mkdirat(f->batch_fd, ORIGINAL, 0700) != 0 && errno != EEXIST))
        return false;
    f->dir_fd = openat(f->batch_fd, ORIGINAL, DIR_FLAGS);
    return f->dir_fd >= 0;
}

static bool open_temporary(struct df_local_file *f, bool again)
{
    if (again && unlinkat(f->dir_fd, f->name, 0) != 0 && errno != ENOENT)
        return false;
    f->fd = openat(f->dir_fd, f->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    f->temporary = f->fd >= 0;
    return f->temporary;
}

static struct df_local_file *new_file(const struct df_local *l, const struct df_uuid *batch,
                                      const char *name)
{
    struct df_local_file *f = df_calloc(1, sizeof(*f));

    *f = (struct df_local_file){
        .local = l, .batch = *batch, .batch_fd = -1, .dir_fd = -1, .fd = -1, .name = name};
    f->buffer = df_malloc(BUFFER_BYTES);
    return f;
}

enum df_code df_local_create(const struct df_local *l, const struct df_uuid *batch, bool again,
                             struct df_local_file **ret, struct df_err *err)
{
    int made = mkdirat(l->imports_fd, batch->text, 0700);
    if (made != 0 && errno == ENOENT) {
        enum df_code code = open_imports_again(l, err);
        if (code != DF_OK)
            return code;
        made = mkdirat(l->imports_fd, batch->text, 0700);
    }
    if (made != 0 && !(again && errno == EEXIST))
        return errno == EEXIST
                   ? df_err_set(err, DF_E_CONFLICT, "the batch %s has a file", batch->text)
                   : batch_error(err, batch, "cannot make the directory");

    struct df_local_file *f = new_file(l, batch, TEMPORARY);
    f->made = true;
    if (!open_directories(f) || !open_temporary(f, again)) {
        enum df_code code = batch_error(err, batch, "cannot make the file");
        df_local_abort(f);
        return code;
    }
    *ret = f;
    return DF_OK;
}

static enum df_code open_successor(struct df_local_file *f, struct df_err *err)
{
    f->batch_fd = openat(f->local->imports_fd, f->batch.text, DIR_FLAGS);
    f->dir_fd = f->batch_fd >= 0 ? openat(f->batch_fd, ORIGINAL, DIR_FLAGS) : -1;
    if (f->dir_fd < 0)
        return errno == ENOENT ? df_err_set(err, DF_E_NOT_FOUND, "the batch %s has no stored file",
                                            f->batch.text)
                               : batch_error(err, &f->batch, "cannot open the directory");
    if (flock(f->dir_fd, LOCK_EX | LOCK_NB) != 0) /* until it is closed */
        return df_err_set(err, DF_E_BUSY, IMPORTS "/%s: another process is at it", f->batch.text);
    return open_temporary(f, true) ? DF_OK : batch_error(err, &f->batch, "cannot make the file");
}

enum df_code df_local_replace(const struct df_local *l, const struct df_uuid *batch,
                              struct df_local_file **ret, struct df_err *err)
{
    struct df_local_file *f = new_file(l, batch, SUCCESSOR);
    enum df_code code = open_successor(f, err);

    if (code == DF_OK)
        *ret = f;
    else
        df_local_abort(f);
    return code;
}

enum df_code df_local_scratch(const struct df_local *l, const struct df_uuid *batch,
                              struct df_local_file **ret, struct df_err *err)
{
    struct df_local_file *f = new_file(l, batch, NULL);
    char name[64];
    uint64_t random;

    df_random(l->clock, &random, sizeof(random));
    (void)snprintf(name, sizeof(name), SUCCESSOR "-%016llx", (unsigned long long)random);
    f->fd = openat(l->imports_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (f->fd < 0 || unlinkat(l->imports_fd, name, 0) != 0) {
        enum df_code code = batch_error(err, batch, "cannot make a file without a name");
        df_local_abort(f);
        return code;
    }
    *ret = f;
    return DF_OK;
}

static enum df_code write_all(struct df_local_file *f, const char *ptr, size_t len,
                              struct df_err *err)
{
    for (ssize_t n; len > 0; ptr += n, len -= (size_t)n, f->written += (uint64_t)n) {
        n = write(f->fd, ptr, len);
        if (n < 0 && errno != EINTR)
            return batch_error(err, &f->batch, "cannot write the file");
        n = n < 0 ? 0 : n;
    }
    /* Start writing now, so that the fsync at the end has little to do. */
    if (f->written - f->flushed >= FLUSH_BYTES) {
        (void)sync_file_range(f->fd, (off_t)f->flushed, (off_t)(f->written - f->flushed),
                              SYNC_FILE_RANGE_WRITE);
        f->flushed = f->written;
    }
    return DF_OK;
}

static enum df_code flush_buffer(struct df_local_file *f, struct df_err *err)
{
    size_t used = f->used;

    f->used = 0;
    return write_all(f, f->buffer, used, err);
}

enum df_code df_local_write(struct df_local_file *f, const void *ptr, size_t len,
                            struct df_err *err)
{
    const char *p = ptr;
    enum df_code code = DF_OK;

    while (len > 0 && code == DF_OK) {
        if (f->used == 0 && len >= BUFFER_BYTES)
            return write_all(f, p, len, err);
        size_t room = BUFFER_BYTES - f->used;
        size_t n = len < room ? len : room;
        memcpy(f->buffer + f->used, p, n);
        f->used += n;
        p += n;
        len -= n;
        if (f->used == BUFFER_BYTES)
            code = flush_buffer(f, err);
    }
    return code;
}

enum df_code df_local_rewind(struct df_local_file *f, struct df_err *err)
{
    f->used = 0;
    f->written = 0;
    f->flushed = 0;
    if (ftruncate(f->fd, 0) != 0 || lseek(f->fd, 0, SEEK_SET) != 0)
        return batch_error(err, &f->batch, "cannot empty the file");
    return DF_OK;
}

/* The successor and the file change places, which fails if the file is gone: a directory that is
 * being removed stays empty. Some file systems can only replace. */
static bool change_places(struct df_local_file *f, const char *name)
{
    if (fsync(f->fd) != 0)
        return false;
    if (renameat2(f->dir_fd, f->name, f->dir_fd, name, RENAME_EXCHANGE) == 0)
        return unlinkat(f->dir_fd, f->name, 0) == 0 && fsync(f->dir_fd) == 0;
    if ((errno != EINVAL && errno != ENOSYS) || renameat(f->dir_fd, f->name, f->dir_fd, name) != 0)
        return false;
    f->temporary = false;
    return fsync(f->dir_fd) == 0;
}

static bool sync_and_rename(struct df_local_file *f, const char *name)
{
    if (!f->made)
        return change_places(f, name);
    if (fsync(f->fd) != 0 || renameat(f->dir_fd, f->name, f->dir_fd, name) != 0)
        return false;
    f->temporary = false;
    if (fsync(f->dir_fd) == 0 && fsync(f->batch_fd) == 0 && fsync(f->local->imports_fd) == 0)
        return true;
    int saved = errno;
    (void)unlinkat(f->dir_fd, name, 0);
    errno = saved;
    return false;
}

enum df_code df_local_finish(struct df_local_file *take_f, const char *name, struct df_err *err)
{
    enum df_code code = flush_buffer(take_f, err);

    if (code == DF_OK && !sync_and_rename(take_f, name))
        code = !take_f->made && errno == ENOENT
                   ? df_err_set(err, DF_E_NOT_FOUND, "the file was removed meanwhile")
                   : batch_error(err, &take_f->batch, "cannot bring the file to the disk");
    if (code == DF_OK)
        free_file(take_f);
    else
        df_local_abort(take_f);
    return code;
}

enum df_code df_local_end(struct df_local_file *f, int *ret_fd, uint64_t *ret_size,
                          struct df_err *err)
{
    enum df_code code = flush_buffer(f, err);

    *ret_fd = f->fd;
    *ret_size = f->written;
    return code;
}

/* --- reading --- */

static int open_file(const struct df_local *l, const struct df_uuid *batch, const char *name)
{
    int fd = -1;
    int batch_fd = openat(l->imports_fd, batch->text, DIR_FLAGS);
    int dir_fd = batch_fd >= 0 ? openat(batch_fd, ORIGINAL, DIR_FLAGS) : -1;

    if (dir_fd >= 0)
        fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int saved = errno;
    close_fd(dir_fd);
    close_fd(batch_fd);
    errno = saved;
    return fd;
}

enum df_code df_local_open(const struct df_local *l, const struct df_uuid *batch, const char *name,
                           int *ret_fd, uint64_t *ret_size, struct df_err *err)
{
    struct stat s;
    int fd = open_file(l, batch, name);

    if (fd < 0)
        return errno == ENOENT
                   ? df_err_set(err, DF_E_NOT_FOUND, "the batch %s has no stored file", batch->text)
                   : batch_error(err, batch, "cannot open the file");
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode)) {
        (void)close(fd);
        return df_err_set(err, DF_E_IO, IMPORTS "/%s: not a regular file", batch->text);
    }
    *ret_fd = fd;
    *ret_size = (uint64_t)s.st_size;
    return DF_OK;
}

enum df_code df_local_read(int fd, uint64_t offset, void *ptr, size_t len, struct df_err *err)
{
    char *p = ptr;

    while (len > 0) {
        ssize_t n = pread(fd, p, len, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return df_err_errno(err, "cannot read a stored file");
        if (n == 0)
            return df_err_set(err, DF_E_INTERNAL, "a stored file became shorter");
        p += n;
        len -= (size_t)n;
        offset += (uint64_t)n;
    }
    return DF_OK;
}

/* --- removing and looking around --- */

static DIR *open_listing(int at_fd, const char *name)
{
    int fd = openat(at_fd, name, DIR_FLAGS);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

    if (fd >= 0 && !dir)
        (void)close(fd);
    return dir;
}

/* The next name without "." and ".."; NULL after the last. */
static const char *next_name(DIR *dir)
{
    const struct dirent *e;

    do
        e = readdir(dir); /* NOLINT(concurrency-mt-unsafe): a DIR of one thread's own */
    while (e && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0));
    return e ? e->d_name : NULL;
}

/* Removes a file, or a directory and everything in it. Links are removed, not followed. A file that
 * is gone already is no error. */
static bool remove_tree(int at_fd, const char *name, int depth)
{
    if (unlinkat(at_fd, name, 0) == 0 || errno == ENOENT)
        return true;
    if ((errno != EISDIR && errno != EPERM) || depth == 0)
        return false;
    DIR *dir = open_listing(at_fd, name);
    if (!dir)
        return errno == ENOENT;

    bool ok = true;
    for (const char *entry; ok && (entry = next_name(dir));)
        ok = remove_tree(dirfd(dir), entry, depth - 1);
    int saved = errno;
    (void)closedir(dir);
    errno = saved;
    return ok && (unlinkat(at_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT);
}

enum df_code df_local_remove(const struct df_local *l, const struct df_uuid *batch,
                             struct df_err *err)
{
    if (!remove_tree(l->imports_fd, batch->text, DEPTH_MAX))
        return batch_error(err, batch, "cannot remove it");
    return DF_OK;
}

enum df_code df_local_name(const struct df_local *l, const struct df_uuid *batch,
                           char ret[DF_STORAGE_NAME_MAX + 1], struct df_err *err)
{
    int batch_fd = openat(l->imports_fd, batch->text, DIR_FLAGS);
    DIR *dir = batch_fd >= 0 ? open_listing(batch_fd, ORIGINAL) : NULL;
    const char *name = NULL;

    close_fd(batch_fd);
    while (dir && (name = next_name(dir)) && name[0] == '.')
        ;
    if (name)
        (void)snprintf(ret, DF_STORAGE_NAME_MAX + 1, "%s", name);
    if (dir)
        (void)closedir(dir);
    return name ? DF_OK
                : df_err_set(err, DF_E_NOT_FOUND, "the batch %s has no stored file", batch->text);
}

struct survey {
    int64_t newest_ms;
    uint64_t size;
};

static void survey_tree(int at_fd, const char *name, int depth, struct survey *s)
{
    struct stat st;

    if (fstatat(at_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    int64_t ms = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
    if (ms > s->newest_ms)
        s->newest_ms = ms;
    if (S_ISREG(st.st_mode))
        s->size += (uint64_t)st.st_size;
    if (!S_ISDIR(st.st_mode) || depth == 0)
        return;
    DIR *dir = open_listing(at_fd, name);
    for (const char *entry; dir && (entry = next_name(dir));)
        survey_tree(dirfd(dir), entry, depth - 1, s);
    if (dir)
        (void)closedir(dir);
}

enum df_code df_local_each(const struct df_local *l,
                           void (*seen)(void *arg, const struct df_storage_entry *e), void *arg,
                           struct df_err *err)
{
    DIR *dir = open_listing(l->imports_fd, ".");
    if (!dir)
        return df_err_errno(err, "cannot list " IMPORTS);

    for (struct df_str name; (name = df_str_c(next_name(dir))).ptr;) {
        struct df_storage_entry entry;
        /* Only names that this program makes: an operator may keep other files there. */
        if (!df_uuid_parse(name, &entry.batch) || !df_str_eq(name, df_uuid_str(&entry.batch)))
            continue;
        struct survey s = {0};
        survey_tree(l->imports_fd, entry.batch.text, DEPTH_MAX, &s);
        int64_t age_ms = df_wall_ms(l->clock) - s.newest_ms;
        entry.age_ms = age_ms > 0 ? age_ms : 0;
        entry.size_bytes = s.size;
        seen(arg, &entry);
    }
    (void)closedir(dir);
    return DF_OK;
}

uint64_t df_local_free_bytes(const struct df_local *l)
{
    struct statvfs s;

    if (fstatvfs(l->imports_fd, &s) != 0)
        return UINT64_MAX;
    return (uint64_t)s.f_bavail * s.f_frsize;
}
