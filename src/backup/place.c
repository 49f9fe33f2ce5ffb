#include "backup/place.h"

#include "base/mem.h"
#include "base/temp.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_BYTES ((size_t)256 << 10)
#define OBJECT_MAX ((uint64_t)16 << 40) /* of an object that is fetched */
#define UNFINISHED "."                  /* names of files that are being written begin with it */

struct df_depot {
    struct df_bucket *bucket; /* NULL: a directory */
    int dir_fd;               /* -1: not open yet */
    char *dir;
    bool make;
    _Atomic bool cancelled;
};

enum df_code df_depot_open(const char *where, const char *setting, const struct df_s3_settings *s3,
                           const struct df_clock *clock, bool make, struct df_depot **ret,
                           struct df_err *err)
{
    struct df_depot *p = df_calloc(1, sizeof *p);
    enum df_code code = DF_OK;

    p->dir_fd = -1;
    if (strncmp(where, "s3://", 5) == 0) {
        code = df_bucket_open(where, setting, s3, clock, &p->bucket, err);
    } else {
        p->dir = df_strdup(df_str_c(where));
        p->make = make;
    }
    if (code == DF_OK)
        *ret = p;
    else
        df_depot_close(p);
    return code;
}

void df_depot_close(struct df_depot *p)
{
    if (!p)
        return;
    df_bucket_free(p->bucket);
    if (p->dir_fd >= 0)
        (void)close(p->dir_fd);
    free(p->dir);
    free(p);
}

void df_depot_cancel(struct df_depot *p)
{
    atomic_store(&p->cancelled, true);
    if (p->bucket)
        df_bucket_cancel(p->bucket);
}

enum df_code df_depot_go_on(const struct df_depot *p, struct df_err *err)
{
    return atomic_load(&p->cancelled) ? df_err_set(err, DF_E_CANCELLED, "the backup was stopped")
                                      : DF_OK;
}

/* --- a directory --- */

/* When it is first used: a disk of the network may be away for a while. */
static enum df_code open_place(struct df_depot *p, struct df_err *err)
{
    if (p->bucket || p->dir_fd >= 0)
        return DF_OK;
    if (p->make && mkdir(p->dir, 0700) != 0 && errno != EEXIST)
        return df_err_errno(err, "cannot make %s", p->dir);
    p->dir_fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return p->dir_fd >= 0 ? DF_OK : df_err_errno(err, "cannot open %s", p->dir);
}

/* The directory of GROUP/NAME, and NAME. The caller closes it. */
static enum df_code open_group(const struct df_depot *p, const char *name, bool make, int *ret_fd,
                               const char **ret_name, struct df_err *err)
{
    const char *slash = strchr(name, '/');
    char group[DF_PLACE_NAME_MAX + 1] = ".";

    if (slash)
        (void)snprintf(group, sizeof group, "%.*s", (int)(slash - name), name);
    if (make && slash && mkdirat(p->dir_fd, group, 0700) != 0 && errno != EEXIST)
        return df_err_errno(err, "cannot make %s/%s", p->dir, group);
    if (make && slash && fsync(p->dir_fd) != 0)
        return df_err_errno(err, "cannot write %s", p->dir);
    int fd = openat(p->dir_fd, group, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT
                   ? df_err_set(err, DF_E_NOT_FOUND, "%s/%s does not exist", p->dir, name)
                   : df_err_errno(err, "cannot open %s/%s", p->dir, group);
    *ret_fd = fd;
    *ret_name = slash ? slash + 1 : name;
    return DF_OK;
}

static enum df_code copy_file(const struct df_depot *p, int from, int to, struct df_err *err)
{
    char *buffer = df_malloc(COPY_BYTES);
    enum df_code code = DF_OK;
    ssize_t n = 0;

    for (off_t at = 0; code == DF_OK && (n = pread(from, buffer, COPY_BYTES, at)) > 0; at += n) {
        code = df_depot_go_on(p, err);
        for (ssize_t done = 0, w; code == DF_OK && done < n; done += w)
            if ((w = write(to, buffer + done, (size_t)(n - done))) < 0)
                code = df_err_errno(err, "cannot write in %s", p->dir);
    }
    if (code == DF_OK && n < 0)
        code = df_err_errno(err, "cannot read what is to be written");
    free(buffer);
    return code;
}

static enum df_code put_file(struct df_depot *p, const char *name, int from, struct df_err *err)
{
    char unfinished[DF_PLACE_NAME_MAX + 2];
    const char *last = "";
    int dir_fd = -1, fd = -1;
    enum df_code code = open_group(p, name, true, &dir_fd, &last, err);

    if (code != DF_OK)
        return code;
    (void)snprintf(unfinished, sizeof unfinished, UNFINISHED "%s", last);
    (void)unlinkat(dir_fd, unfinished, 0); /* of a process that was killed */
    fd = openat(dir_fd, unfinished, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        code = df_err_errno(err, "cannot write in %s", p->dir);
    if (code == DF_OK)
        code = copy_file(p, from, fd, err);
    if (code == DF_OK &&
        (fsync(fd) != 0 || renameat(dir_fd, unfinished, dir_fd, last) != 0 || fsync(dir_fd) != 0))
        code = df_err_errno(err, "cannot write %s/%s", p->dir, name);
    if (fd >= 0)
        (void)close(fd);
    if (code != DF_OK)
        (void)unlinkat(dir_fd, unfinished, 0);
    (void)close(dir_fd);
    return code;
}

static enum df_code get_file(struct df_depot *p, const char *name, int *ret_fd, struct df_err *err)
{
    const char *last = "";
    int dir_fd = -1;
    enum df_code code = open_group(p, name, false, &dir_fd, &last, err);

    if (code != DF_OK)
        return code;
    int fd = openat(dir_fd, last, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        code = errno == ENOENT
                   ? df_err_set(err, DF_E_NOT_FOUND, "%s/%s does not exist", p->dir, name)
                   : df_err_errno(err, "cannot read %s/%s", p->dir, name);
    (void)close(dir_fd);
    *ret_fd = fd;
    return code;
}

static enum df_code remove_file(struct df_depot *p, const char *name, struct df_err *err)
{
    const char *last = "", *slash = strchr(name, '/');
    char group[DF_PLACE_NAME_MAX + 1];
    int dir_fd = -1;
    enum df_code code = open_group(p, name, false, &dir_fd, &last, err);

    if (code != DF_OK)
        return code == DF_E_NOT_FOUND ? DF_OK : code;
    if (unlinkat(dir_fd, last, 0) != 0 && errno != ENOENT)
        code = df_err_errno(err, "cannot remove %s/%s", p->dir, name);
    (void)close(dir_fd);
    if (slash) { /* the group goes with its last object */
        (void)snprintf(group, sizeof group, "%.*s", (int)(slash - name), name);
        (void)unlinkat(p->dir_fd, group, AT_REMOVEDIR);
    }
    return code;
}

struct walk {
    void (*seen)(void *arg, const char *name, uint64_t size);
    void *arg;
};

/* Takes the descriptor. group is "" at the top, whose directories are walked too. */
static enum df_code walk_directory(int take_fd, const char *group, const struct walk *w,
                                   const char *where, struct df_err *err)
{
    DIR *dir = take_fd >= 0 ? fdopendir(take_fd) : NULL;
    enum df_code code = DF_OK;
    struct dirent *e;
    struct stat st;

    if (!dir) {
        code = df_err_errno(err, "cannot read %s", where);
        if (take_fd >= 0)
            (void)close(take_fd);
        return code;
    }
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is this thread's */
    while (code == DF_OK && (e = readdir(dir))) {
        char name[DF_PLACE_NAME_MAX + 1];
        if (e->d_name[0] == UNFINISHED[0] ||
            snprintf(name, sizeof name, "%s%s%s", group, *group ? "/" : "", e->d_name) >=
                (int)sizeof name ||
            fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (S_ISREG(st.st_mode))
            w->seen(w->arg, name, (uint64_t)st.st_size);
        else if (S_ISDIR(st.st_mode) && !*group)
            code = walk_directory(openat(dirfd(dir), name, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                                  name, w, where, err);
    }
    (void)closedir(dir);
    return code;
}

/* --- either --- */

enum df_code df_depot_put(struct df_depot *p, const char *name, int fd, struct df_err *err)
{
    struct stat st;
    enum df_code code = open_place(p, err);

    if (code != DF_OK || !p->bucket)
        return code == DF_OK ? put_file(p, name, fd, err) : code;
    if (fstat(fd, &st) != 0)
        return df_err_errno(err, "cannot read what is to be stored");
    return df_bucket_put(p->bucket, name, fd, (uint64_t)st.st_size, err);
}

enum df_code df_depot_get(struct df_depot *p, const char *name, const char *temp_dir, int *ret_fd,
                          struct df_err *err)
{
    int fd = -1;
    enum df_code code = open_place(p, err);

    if (code != DF_OK || !p->bucket)
        return code == DF_OK ? get_file(p, name, ret_fd, err) : code;
    code = df_temp_open(temp_dir, &fd, err);
    if (code == DF_OK)
        code = df_bucket_get(p->bucket, name, fd, OBJECT_MAX, err);
    if (code == DF_OK)
        *ret_fd = fd;
    else if (fd >= 0)
        (void)close(fd);
    return code;
}

enum df_code df_depot_remove(struct df_depot *p, const char *name, struct df_err *err)
{
    enum df_code code = open_place(p, err);

    if (code != DF_OK)
        return code;
    return p->bucket ? df_bucket_remove(p->bucket, name, err) : remove_file(p, name, err);
}

enum df_code df_depot_each(struct df_depot *p,
                           void (*seen)(void *arg, const char *name, uint64_t size), void *arg,
                           struct df_err *err)
{
    struct walk w = {.seen = seen, .arg = arg};
    enum df_code code = open_place(p, err);

    if (code != DF_OK)
        return code;
    if (p->bucket)
        return df_bucket_each(p->bucket, seen, arg, err);
    return walk_directory(openat(p->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "", &w,
                          p->dir, err);
}
