#include "backup/restore.h"

#include "base/arena.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/owner.h"
#include "store/backup.h"
#include "store/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_BYTES   ((size_t)256 << 10)
#define LATEST_MAX   ((size_t)256 << 20) /* of the ledger and of the heads */
#define LINE_MAX_LEN 4096
#define WAL_MODE_AT  18 /* of the two bytes in the first page that say it is written ahead */

struct restoring {
    const struct df_restore_options *opt;
    struct df_depot *place;
    struct df_points points;
    size_t at; /* the point, in points */
    int fd;    /* of the database in the making */
    char path[4096];
    unsigned char root[DF_POINT_ROOT_BYTES]; /* of the last point that was read */
    struct df_point_file *files;             /* of the last point */
    size_t file_count, file_room;
    struct df_restored *ret;
};

/* --- points --- */

static enum df_code read_parcel(void *arg, void *ptr, size_t len, size_t *ret_len,
                                struct df_err *err)
{
    return df_parcel_read(arg, ptr, len, ret_len, err);
}

static enum df_code on_file(void *arg, const struct df_point_file *f, struct df_err *err)
{
    struct restoring *r = arg;

    (void)err;
    if (r->file_count == r->file_room) {
        r->file_room = r->file_room ? 2 * r->file_room : 64;
        r->files = df_realloc(r->files, r->file_room * sizeof *r->files);
    }
    r->files[r->file_count++] = *f;
    return DF_OK;
}

static enum df_code write_at(int fd, const void *ptr, size_t len, off_t at, const char *path,
                             struct df_err *err)
{
    for (const char *p = ptr; len > 0;) {
        ssize_t n = pwrite(fd, p, len, at);
        if (n < 0)
            return df_err_errno(err, "cannot write %s", path);
        p += n;
        at += n;
        len -= (size_t)n;
    }
    return DF_OK;
}

static enum df_code on_page(void *arg, uint32_t number, const void *page, size_t len,
                            struct df_err *err)
{
    struct restoring *r = arg;

    return write_at(r->fd, page, len, (off_t)(number - 1) * (off_t)len, r->path, err);
}

/* Whether the point is the one that its name says, and follows the one before it. */
static bool follows(const struct restoring *r, const struct df_point_object *o,
                    const struct df_point_head *h)
{
    static const unsigned char none[DF_POINT_ROOT_BYTES];

    return strcmp(h->name.generation, o->point.generation) == 0 &&
           h->name.number == o->point.number && h->name.time_ms == o->point.time_ms &&
           memcmp(h->before, h->name.number == 0 ? none : r->root, sizeof none) == 0 &&
           (h->name.number == 0 || h->page_size == r->ret->page_size);
}

static enum df_code apply_point(struct restoring *r, const struct df_point_object *o,
                                struct df_err *err)
{
    const struct df_point_visitor visitor = {.file = on_file, .page = on_page, .arg = r};
    struct df_point_source from = {.read = read_parcel};
    struct df_parcel_reader *parcel = NULL;
    struct df_point_head head;
    int fd = -1;
    enum df_code code = df_depot_get(r->place, o->name, r->opt->data_dir, &fd, err);

    if (code == DF_OK)
        code = df_parcel_open(r->opt->opener, fd, o->name, &parcel, err);
    from.arg = parcel;
    if (code == DF_OK)
        code = df_point_read_head(&from, &head, err);
    if (code == DF_OK && !follows(r, o, &head))
        code = df_err_set(err, DF_E_INTERNAL, "%s is not what its name says", o->name);
    r->file_count = 0;
    if (code == DF_OK)
        code = df_point_read(&from, &head, &visitor, r->root, err);
    if (code == DF_OK && ftruncate(r->fd, (off_t)head.page_count * (off_t)head.page_size) != 0)
        code = df_err_errno(err, "cannot write %s", r->path);
    if (code == DF_OK) {
        r->ret->point = head.name;
        r->ret->page_size = head.page_size;
        r->ret->page_count = head.page_count;
        r->ret->points++;
    }
    df_parcel_close(parcel);
    if (fd >= 0)
        (void)close(fd);
    return code;
}

/* Reads the whole file again: what lies on the disk is what was backed up. */
static enum df_code verify_root(const struct restoring *r, struct df_err *err)
{
    uint32_t size = r->ret->page_size, count = r->ret->page_count;
    struct df_page_hash *hashes = df_calloc(count, sizeof *hashes);
    unsigned char root[DF_POINT_ROOT_BYTES];
    char *page = df_malloc(size);
    enum df_code code = DF_OK;

    for (uint32_t i = 0; code == DF_OK && i < count; i++) {
        if (pread(r->fd, page, size, (off_t)i * size) != (ssize_t)size)
            code = df_err_errno(err, "cannot read %s", r->path);
        else if (!df_page_is_locks((uint64_t)i + 1, size))
            hashes[i] = df_page_hash_of(page, size);
    }
    df_pages_root(hashes, size, count, root);
    if (code == DF_OK && memcmp(root, r->root, sizeof root) != 0)
        code = df_err_set(err, DF_E_INTERNAL,
                          "%s does not give the database that was backed up: a page is missing",
                          r->points.items[r->at].name);
    free(page);
    free(hashes);
    return code;
}

/* A file in write-ahead mode wants others beside it; this one is only read, once. */
static enum df_code leave_wal_mode(const struct restoring *r, struct df_err *err)
{
    enum df_code code = write_at(r->fd, "\1\1", 2, WAL_MODE_AT, r->path, err);

    return code == DF_OK && fsync(r->fd) != 0 ? df_err_errno(err, "cannot write %s", r->path)
                                              : code;
}

static enum df_code build_database(struct restoring *r, struct df_err *err)
{
    const struct df_point_object *base = &r->points.items[r->at];
    enum df_code code = DF_OK;

    base -= base->point.number;
    for (const struct df_point_object *o = base; code == DF_OK && o <= &r->points.items[r->at]; o++)
        code = apply_point(r, o, err);
    if (code == DF_OK)
        code = verify_root(r, err);
    return code == DF_OK ? leave_wal_mode(r, err) : code;
}

/* --- files --- */

/* Unpacks an object into a file under an unfinished name, then gives it its own. */
static enum df_code unpack_file(struct restoring *r, const struct df_point_file *f, int dir_fd,
                                struct df_err *err)
{
    static const char unfinished[] = ".restore";
    struct df_checksum *hash = df_checksum_new();
    struct df_parcel_reader *parcel = NULL;
    char sha256[DF_CHECKSUM_LEN + 1] = "", *buffer = df_malloc(READ_BYTES);
    int from = -1, to = -1;
    off_t size = 0;
    size_t n = 1;
    enum df_code code = df_depot_get(r->place, f->object, r->opt->data_dir, &from, err);

    if (code == DF_OK)
        code = df_parcel_open(r->opt->opener, from, f->object, &parcel, err);
    if (code == DF_OK &&
        (to = openat(dir_fd, unfinished, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                     0600)) < 0)
        code = df_err_errno(err, "cannot write the file of batch %s", f->batch.text);
    if (code == DF_OK)
        code = df_owner_give_in(to, r->opt->data_dir, err);
    while (code == DF_OK && n > 0) {
        code = df_parcel_read(parcel, buffer, READ_BYTES, &n, err);
        if (code == DF_OK)
            code = write_at(to, buffer, n, size, f->name, err);
        df_checksum_add(hash, buffer, code == DF_OK ? n : 0);
        size += (off_t)n;
    }
    df_checksum_end(hash, sha256);
    if (code == DF_OK && strcmp(sha256, f->sha256) != 0)
        code = df_err_set(err, DF_E_INTERNAL, "%s is not the file that was backed up", f->object);
    if (code == DF_OK && (fsync(to) != 0 || renameat(dir_fd, unfinished, dir_fd, f->name) != 0 ||
                          fsync(dir_fd) != 0))
        code = df_err_errno(err, "cannot write the file of batch %s", f->batch.text);
    if (code != DF_OK)
        (void)unlinkat(dir_fd, unfinished, 0);
    if (to >= 0)
        (void)close(to);
    if (from >= 0)
        (void)close(from);
    df_parcel_close(parcel);
    df_checksum_free(hash);
    free(buffer);
    return code;
}

/* A file that is there with other bytes is under a key that the older database may not have. */
static bool is_there(int dir_fd, const struct df_point_file *f)
{
    struct df_checksum *hash = df_checksum_new();
    char sha256[DF_CHECKSUM_LEN + 1], *buffer = df_malloc(READ_BYTES);
    int fd = openat(dir_fd, f->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t n;

    for (off_t at = 0; fd >= 0 && (n = pread(fd, buffer, READ_BYTES, at)) > 0; at += n)
        df_checksum_add(hash, buffer, (size_t)n);
    df_checksum_end(hash, sha256);
    df_checksum_free(hash);
    free(buffer);
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0 && strcmp(sha256, f->sha256) == 0;
}

/* Opens a directory below another one; made if it is missing, with the owner of data_dir. */
static int make_at(const struct restoring *r, int above, const char *name, struct df_err *err)
{
    int fd = -1;

    if (mkdirat(above, name, 0700) == 0 || errno == EEXIST)
        fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) {
        (void)df_err_errno(err, "cannot make %s in %s", name, r->opt->data_dir);
    } else if (df_owner_give_in(fd, r->opt->data_dir, err) != DF_OK || fsync(above) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static enum df_code restore_file(struct restoring *r, int imports_fd, const struct df_point_file *f,
                                 struct df_err *err)
{
    int batch_fd = make_at(r, imports_fd, f->batch.text, err);
    int dir_fd = batch_fd < 0 ? -1 : make_at(r, batch_fd, "original", err);
    enum df_code code = dir_fd < 0 ? DF_E_IO : DF_OK;

    if (code == DF_OK && !is_there(dir_fd, f))
        code = unpack_file(r, f, dir_fd, err);
    if (dir_fd >= 0)
        (void)close(dir_fd);
    if (batch_fd >= 0)
        (void)close(batch_fd);
    return code;
}

/* An object that is missing or damaged costs its batch alone: the others are worth having, and the
 * check at the end names the batch. */
static enum df_code restore_files(struct restoring *r, struct df_err *err)
{
    enum df_code code = DF_OK;
    int top = open(r->opt->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int imports_fd = top < 0 ? -1 : make_at(r, top, "imports", err);

    if (imports_fd < 0)
        code = df_err_errno(err, "cannot write in %s", r->opt->data_dir);
    for (size_t i = 0; code == DF_OK && i < r->file_count; i++) {
        code = restore_file(r, imports_fd, &r->files[i], err);
        if (code == DF_E_INTERNAL || code == DF_E_NOT_FOUND) {
            df_log_error("FileNotRestored", "the file of batch %s: %s", r->files[i].batch.text,
                         err->detail);
            r->ret->files_lost++;
            code = DF_OK;
        } else {
            r->ret->files += code == DF_OK;
        }
    }
    if (imports_fd >= 0)
        (void)close(imports_fd);
    if (top >= 0)
        (void)close(top);
    return code;
}

/* --- what belongs to no time --- */

static enum df_code read_latest(struct restoring *r, const char *name, struct df_buf *out,
                                struct df_err *err)
{
    struct df_parcel_reader *parcel = NULL;
    char *buffer = df_malloc(READ_BYTES);
    int fd = -1;
    size_t n = 1;
    enum df_code code = df_depot_get(r->place, name, r->opt->data_dir, &fd, err);

    if (code == DF_OK)
        code = df_parcel_open(r->opt->opener, fd, name, &parcel, err);
    while (code == DF_OK && n > 0) {
        code = df_parcel_read(parcel, buffer, READ_BYTES, &n, err);
        if (code == DF_OK)
            df_buf_add(out, buffer, n);
    }
    if (code == DF_OK && df_buf_failed(out))
        code = df_err_set(err, DF_E_TOO_LARGE, "%s is too long", name);
    df_parcel_close(parcel);
    if (fd >= 0)
        (void)close(fd);
    free(buffer);
    return code == DF_E_NOT_FOUND ? DF_OK : code;
}

/* Appends the lines that the file lacks. Lines of both are unique: they have ids or times. */
static enum df_code merge_lines(struct restoring *r, const char *name, struct df_str text,
                                struct df_err *err)
{
    char path[4096], line[LINE_MAX_LEN];
    struct df_arena arena = {0};
    struct df_map have = {0};
    struct df_buf more;
    struct df_str one;
    bool torn = false; /* the last line has no end: a write was cut off */
    enum df_code code = DF_OK;

    (void)snprintf(path, sizeof path, "%s/%s", r->opt->data_dir, name);
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "r+");
    if (!f)
        return df_err_errno(err, "cannot open %s", path);
    while (fgets(line, sizeof line, f)) {
        char *kept = df_arena_cstr(&arena, df_str_trim(df_str_c(line)));
        torn = !strchr(line, '\n');
        (void)df_map_try_add(&have, df_str_c(kept), kept);
    }
    df_buf_init(&more, LATEST_MAX + 2);
    while (text.len > 0) {
        text = df_str_cut(text, '\n', &one);
        if (one.len == 0 || df_map_get(&have, one))
            continue;
        df_buf_addf(&more, "%s" DF_STR_FMT "\n", torn ? "\n" : "", DF_STR_ARG(one));
        torn = false;
    }
    code = df_owner_give_in(fd, r->opt->data_dir, err);
    if (code == DF_OK && (write(fd, more.ptr, more.len) != (ssize_t)more.len || fsync(fd) != 0))
        code = df_err_errno(err, "cannot write %s", path);
    (void)fclose(f);
    df_map_release(&have);
    df_buf_release(&more);
    df_arena_release(&arena);
    return code;
}

static enum df_code restore_latest(struct restoring *r, const char *name, bool merge,
                                   struct df_err *err)
{
    char path[4096];
    struct df_buf text;
    enum df_code code;

    (void)snprintf(path, sizeof path, "%s/%s", r->opt->data_dir, name);
    if (!merge && access(path, F_OK) == 0)
        return DF_OK; /* this host's own is as new */
    df_buf_init(&text, LATEST_MAX);
    code = read_latest(r, name, &text, err);
    if (code == DF_OK && text.len > 0)
        code = merge_lines(r, name, df_buf_str(&text), err);
    df_buf_release(&text);
    return code;
}

/* --- all of it --- */

/* The newest point at or before the time, whole or not; -1: there is none. */
static ptrdiff_t newest_named(const struct df_points *p, int64_t at_ms)
{
    ptrdiff_t best = -1;

    for (size_t i = 0; i < p->count; i++)
        if (p->items[i].is_point && p->items[i].point.time_ms <= at_ms &&
            (best < 0 || p->items[i].point.time_ms >= p->items[best].point.time_ms))
            best = (ptrdiff_t)i;
    return best;
}

/* An older point than the one that was asked for is not taken in silence. */
static enum df_code choose_point(struct restoring *r, struct df_err *err)
{
    char time[DF_TIME_LEN + 1] = "";
    enum df_code code = df_points_list(r->place, &r->points, err);

    if (code != DF_OK)
        return code;
    ptrdiff_t named = newest_named(&r->points, r->opt->at_ms);
    ptrdiff_t whole = df_points_at(&r->points, r->opt->at_ms);
    r->at = (size_t)whole;
    if (named >= 0 && named == whole)
        return DF_OK;
    if (whole >= 0)
        df_time_format(r->points.items[whole].point.time_ms, time);
    if (named >= 0)
        return df_err_set(
            err, DF_E_INTERNAL, "a point that %s needs is missing%s%s", r->points.items[named].name,
            whole >= 0 ? "; the newest before it that can be restored: --at " : "", time);
    if (newest_named(&r->points, INT64_MAX) < 0)
        return df_err_set(err, DF_E_NOT_FOUND, "%s has no backup", r->opt->from);
    return df_err_set(err, DF_E_NOT_FOUND,
                      "%s has no point that old: `dataflow backup list` shows them", r->opt->from);
}

static enum df_code open_scratch(struct restoring *r, struct df_err *err)
{
    const char *path = r->opt->url + strlen("sqlite:");

    (void)snprintf(r->path, sizeof r->path, "%s.restore-%ld", path, (long)getpid());
    (void)unlink(r->path);
    r->fd = open(r->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return r->fd < 0 ? df_err_errno(err, "cannot create %s", r->path) : DF_OK;
}

enum df_code df_restore_point(const struct df_restore_options *opt, struct df_restored *ret,
                              struct df_err *err)
{
    struct restoring r = {.opt = opt, .fd = -1, .ret = ret};
    enum df_code code =
        df_depot_open(opt->from, "--from", opt->s3, opt->clock, false, &r.place, err);

    *ret = (struct df_restored){.points = 0};
    if (code == DF_OK)
        code = choose_point(&r, err);
    if (code == DF_OK)
        code = open_scratch(&r, err);
    if (code == DF_OK)
        code = build_database(&r, err);
    if (code == DF_OK)
        code = restore_latest(&r, "erasures", true, err);
    if (code == DF_OK)
        code = restore_latest(&r, "audit-heads", false, err);
    if (code == DF_OK)
        code = restore_files(&r, err);
    if (code == DF_OK)
        code = df_restore(opt->url, r.path, err);
    if (r.fd >= 0) {
        (void)close(r.fd);
        (void)unlink(r.path);
    }
    free(r.files);
    df_points_release(&r.points);
    df_depot_close(r.place);
    return code;
}
