#include "backup/backups.h"

#include "backup/backup.sql.h"
#include "backup/parcel.h"
#include "backup/points.h"
#include "backup/state.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/owner.h"
#include "base/temp.h"
#include "store/pages.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#define BASE_EVERY_MS    (INT64_C(24) * 3600 * 1000)
#define MORE_BYTES_LEAST ((uint64_t)64 << 20) /* of increments, before size asks for a base */
#define TRIES            4                    /* of a moment at which every waiting file is there */
#define PAGE_ROWS        500
#define READ_BYTES       ((size_t)256 << 10)
#define HASH_SHOWN       16 /* digits of a file's SHA-256 in the name of its object */
#define NO_UUID          "00000000-0000-0000-0000-000000000000"

/* How a file of the newest state looked when it was put. */
struct latest {
    ino_t inode;
    off_t size;
    struct timespec changed;
};

struct df_backups {
    struct df_backups_options opt;
    struct df_depot *place;
    bool ready; /* locked, and what follows is there */
    int lock_fd;
    struct df_db *db;
    struct df_parcel_key key;
    char state_path[4096];
    struct df_backup_state state;
    int64_t version;                /* of the database at the last point; -1: not known */
    char unsure[DF_POINT_NAME_MAX]; /* a point that may be there though its put failed */
    struct latest ledger, heads;
};

/* A point in the making. */
struct making {
    struct df_backups *b;
    struct df_point_head head;
    bool base;
    int64_t version;
    struct df_backup_file *files; /* by batch */
    size_t file_count;
    uint64_t bytes;
    struct df_page_hash *hashes;
    struct df_parcel_writer *parcel;
    struct df_point_sink sink;
    char *first; /* page 1, which comes more than once; NULL: not yet */
    uint32_t pages;
    unsigned char root[DF_POINT_ROOT_BYTES];
};

/* --- parcels of files --- */

static enum df_code size_of(int fd, uint64_t *ret, struct df_err *err)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return df_err_errno(err, "cannot read a temporary file");
    *ret = (uint64_t)st.st_size;
    return DF_OK;
}

/* Packs what the file holds now; sha256 and size are of that. */
static enum df_code pack_file(struct df_backups *b, int from, int to, bool compress,
                              char sha256[DF_CHECKSUM_LEN + 1], uint64_t *ret_size,
                              struct df_err *err)
{
    struct df_parcel_writer *w = NULL;
    struct df_checksum *hash = df_checksum_new();
    char *buffer = df_malloc(READ_BYTES);
    uint64_t size = 0;
    enum df_code code = df_parcel_create(&b->key, to, compress, &w, err);

    while (code == DF_OK) {
        ssize_t n = pread(from, buffer, READ_BYTES, (off_t)size);
        if (n < 0)
            code = df_err_errno(err, "cannot read a file that waits");
        if (n <= 0)
            break;
        df_checksum_add(hash, buffer, (size_t)n);
        size += (uint64_t)n;
        code = df_parcel_write(w, buffer, (size_t)n, err);
        if (code == DF_OK)
            code = df_depot_go_on(b->place, err);
    }
    if (code == DF_OK)
        code = df_parcel_finish(w, err);
    else
        df_parcel_abort(w);
    df_checksum_end(hash, sha256);
    df_checksum_free(hash);
    free(buffer);
    *ret_size = size;
    return code;
}

/* The newest ledger of erasures, and the newest heads of the audit log. */
static enum df_code put_latest(struct df_backups *b, const char *name, struct latest *seen,
                               uint64_t *bytes, struct df_err *err)
{
    char path[4096], sha256[DF_CHECKSUM_LEN + 1];
    int fd = -1, to = -1;
    uint64_t size = 0;
    struct stat st;

    (void)snprintf(path, sizeof path, "%s/%s", b->opt.data_dir, name);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? DF_OK : df_err_errno(err, "cannot read %s", path);
    enum df_code code = fstat(fd, &st) == 0 ? DF_OK : df_err_errno(err, "cannot read %s", path);
    bool same = st.st_ino == seen->inode && st.st_size == seen->size &&
                st.st_mtim.tv_sec == seen->changed.tv_sec &&
                st.st_mtim.tv_nsec == seen->changed.tv_nsec;
    if (code == DF_OK && !same) {
        code = df_temp_open(b->opt.data_dir, &to, err);
        if (code == DF_OK)
            code = pack_file(b, fd, to, true, sha256, &size, err);
        if (code == DF_OK)
            code = df_depot_put(b->place, name, to, err);
        if (code == DF_OK)
            code = size_of(to, &size, err);
        if (code == DF_OK) {
            *bytes += size;
            *seen = (struct latest){st.st_ino, st.st_size, st.st_mtim};
        }
    }
    if (to >= 0)
        (void)close(to);
    (void)close(fd);
    return code;
}

/* --- waiting files --- */

/* Opens the batch's file, which has its name only when all of it is there. -1: there is none. */
static int open_waiting(const struct df_backups *b, const struct df_uuid *batch,
                        char name[DF_POINT_FILE_MAX + 1])
{
    char path[4096];
    struct dirent *e;
    int fd = -1;

    (void)snprintf(path, sizeof path, "%s/imports/%s/original", b->opt.data_dir, batch->text);
    DIR *dir = opendir(path);
    /* NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is this thread's */
    while (dir && fd < 0 && (e = readdir(dir))) {
        if (e->d_name[0] == '.')
            continue;
        fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        (void)snprintf(name, DF_POINT_FILE_MAX + 1, "%s", e->d_name);
    }
    if (dir)
        (void)closedir(dir);
    return fd;
}

static int by_batch(const void *a, const void *b)
{
    return strcmp(((const struct df_backup_file *)a)->file.batch.text,
                  ((const struct df_backup_file *)b)->file.batch.text);
}

static enum df_code put_waiting(struct making *m, int fd, const struct stat *st,
                                struct df_backup_file *f, struct df_err *err)
{
    struct df_backups *b = m->b;
    uint64_t bytes = 0;
    int to = -1;
    enum df_code code = df_temp_open(b->opt.data_dir, &to, err);

    if (code != DF_OK)
        return code;
    code = pack_file(b, fd, to, false, f->file.sha256, &f->file.size, err);
    (void)snprintf(f->file.object, sizeof f->file.object, "%s/f-%.8s-%.*s", m->head.name.generation,
                   f->file.batch.text, HASH_SHOWN, f->file.sha256);
    if (code == DF_OK)
        code = df_depot_put(b->place, f->file.object, to, err);
    if (code == DF_OK)
        code = size_of(to, &bytes, err);
    (void)close(to);
    m->bytes += bytes;
    f->inode = st->st_ino;
    f->changed_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
    return code;
}

/* Sees to it that the batch's file is in the place. found: false, it is neither there nor here. */
static enum df_code keep_waiting(struct making *m, const struct df_uuid *batch,
                                 struct df_backup_file *f, bool *found, struct df_err *err)
{
    enum df_code code = DF_OK;
    struct stat st;

    *f = (struct df_backup_file){.file.batch = *batch};
    const struct df_backup_file *known =
        m->file_count == 0 ? NULL : bsearch(f, m->files, m->file_count, sizeof *m->files, by_batch);
    int fd = open_waiting(m->b, batch, f->file.name);
    *found = fd >= 0 || known;
    if (fd < 0 || fstat(fd, &st) != 0) {
        if (known)
            *f = *known;
    } else if (known && known->inode == st.st_ino && known->file.size == (uint64_t)st.st_size &&
               known->changed_ns == (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec) {
        *f = *known;
    } else {
        code = put_waiting(m, fd, &st, f, err);
    }
    if (fd >= 0)
        (void)close(fd);
    return code;
}

struct waiting {
    struct df_uuid *ids;
    size_t count, room;
    size_t page; /* rows of the last page */
    struct df_uuid after;
};

static void read_waiting(void *arg, struct df_result *r)
{
    struct waiting *w = arg;
    struct df_uuid id;

    if (!df_uuid_parse(df_col_text(r, waiting_batches_Id), &id))
        return;
    w->after = id;
    w->page++;
    if (df_str_starts(df_col_text(r, waiting_batches_UploadPath), DF_STR("s3://")))
        return; /* in a storage of its own */
    if (w->count == w->room) {
        w->room = w->room ? 2 * w->room : 64;
        w->ids = df_realloc(w->ids, w->room * sizeof *w->ids);
    }
    w->ids[w->count++] = id;
}

static enum df_code list_waiting(struct df_db *db, struct waiting *w, struct df_err *err)
{
    enum df_code code = DF_OK;

    (void)snprintf(w->after.text, sizeof w->after.text, NO_UUID);
    do {
        struct df_uuid after = w->after;
        w->page = 0;
        code = df_db_each(db,
                          DF_Q(waiting_batches, .after = df_uuid(df_uuid_str(&after)),
                               .limit = df_int(PAGE_ROWS)),
                          read_waiting, w, err);
    } while (code == DF_OK && w->page == PAGE_ROWS && w->count <= DF_POINT_FILES);
    return code;
}

/* Brings the point's files up to what waits now. vanished: of so many the file was removed
 * meanwhile. */
static enum df_code take_files(struct making *m, size_t *vanished, struct df_err *err)
{
    struct waiting w = {.count = 0};
    enum df_code code = list_waiting(m->b->db, &w, err);
    struct df_backup_file *files = df_calloc(w.count + 1, sizeof *files);
    size_t count = 0;

    *vanished = 0;
    for (size_t i = 0; code == DF_OK && i < w.count; i++) {
        bool found = false;
        code = df_depot_go_on(m->b->place, err);
        if (code == DF_OK)
            code = keep_waiting(m, &w.ids[i], &files[count], &found, err);
        count += found;
        *vanished += !found;
    }
    free(w.ids);
    if (code != DF_OK) {
        free(files);
        return code;
    }
    free(m->files);
    m->files = files;
    m->file_count = count;
    return DF_OK;
}

/* --- pages --- */

static enum df_code put_parcel(void *arg, const void *ptr, size_t len, struct df_err *err)
{
    return df_parcel_write(((struct making *)arg)->parcel, ptr, len, err);
}

static enum df_code take_page(struct making *m, uint32_t number, const void *page, size_t len,
                              struct df_err *err)
{
    const struct df_backup_state *s = &m->b->state;
    struct df_page_hash h = df_page_hash_of(page, len);

    m->hashes[number - 1] = h;
    if (!m->base && number <= s->page_count && memcmp(&s->hashes[number - 1], &h, sizeof h) == 0)
        return DF_OK;
    m->pages++;
    return df_point_put_page(&m->sink, number, page, len, err);
}

static enum df_code on_page(void *arg, uint32_t number, const void *page, size_t len,
                            struct df_err *err)
{
    struct making *m = arg;
    enum df_code code = df_depot_go_on(m->b->place, err);

    if (code != DF_OK)
        return code;
    if (number > m->head.page_count || len != m->head.page_size)
        return df_err_set(err, DF_E_INTERNAL, "the database has more pages than it says");
    if (number != 1)
        return take_page(m, number, page, len, err);
    if (!m->first)
        m->first = df_malloc(len);
    memcpy(m->first, page, len);
    return DF_OK;
}

static enum df_code write_point(struct making *m, int fd, struct df_err *err)
{
    m->sink = (struct df_point_sink){put_parcel, m};
    m->hashes = df_calloc(m->head.page_count, sizeof *m->hashes);
    enum df_code code = df_parcel_create(&m->b->key, fd, true, &m->parcel, err);
    if (code == DF_OK)
        code = df_point_put_head(&m->sink, &m->head, err);
    for (size_t i = 0; code == DF_OK && i < m->file_count; i++)
        code = df_point_put_file(&m->sink, &m->files[i].file, err);
    if (code == DF_OK)
        code = df_pages_read(m->b->db, on_page, m, err);
    if (code == DF_OK && m->first)
        code = take_page(m, 1, m->first, m->head.page_size, err);
    df_pages_root(m->hashes, m->head.page_size, m->head.page_count, m->root);
    if (code == DF_OK)
        code = df_point_put_end(&m->sink, m->pages, m->root, err);
    if (code == DF_OK) {
        struct df_parcel_writer *w = m->parcel;
        m->parcel = NULL;
        code = df_parcel_finish(w, err);
    }
    return code;
}

/* --- a point --- */

static void read_size(void *arg, struct df_result *r)
{
    struct making *m = arg;

    m->head.page_size = (uint32_t)df_col_int(r, backup_size_PageSize);
    m->head.page_count = (uint32_t)df_col_int(r, backup_size_PageCount);
}

/* Begins the transaction whose moment is the point's. The time is read after the first look at the
 * database: nothing that was committed later is in the point. */
static enum df_code begin_moment(struct making *m, size_t *vanished, struct df_err *err)
{
    enum df_code code = df_db_begin(m->b->db, false, err);

    if (code != DF_OK)
        return code;
    code = df_db_each(m->b->db, DF_Q0(backup_size), read_size, m, err);
    m->head.name.time_ms = df_wall_ms(m->b->opt.clock);
    return code == DF_OK ? take_files(m, vanished, err) : code;
}

/* Files are put before the moment, so that the transaction is short; those that came meanwhile in
 * it. One that went meanwhile, with its batch over, asks for another moment. */
static enum df_code choose_moment(struct making *m, struct df_err *err)
{
    size_t vanished = 0;
    enum df_code code = DF_OK;

    for (int i = 0; code == DF_OK && i < TRIES; i++) {
        code = take_files(m, &vanished, err);
        if (code == DF_OK)
            code = df_db_query_int(m->b->db, DF_Q0(backup_version), &m->version, err);
        if (code == DF_OK)
            code = begin_moment(m, &vanished, err);
        if (code != DF_OK || vanished == 0 || i == TRIES - 1)
            break;
        df_db_rollback(m->b->db);
    }
    if (code == DF_OK && vanished > 0)
        df_log_warn("BackupFileMissing",
                    "%zu batches wait whose file is not on the disk: the backup lacks them too",
                    vanished);
    return code;
}

static bool base_is_due(const struct df_backups *b, int64_t now_ms)
{
    const struct df_backup_state *s = &b->state;
    uint64_t most = 2 * s->base_bytes > MORE_BYTES_LEAST ? 2 * s->base_bytes : MORE_BYTES_LEAST;

    return !s->last.generation[0] || now_ms - s->base_ms >= BASE_EVERY_MS || now_ms < s->base_ms ||
           s->more_bytes > most || s->last.number == DF_POINT_LAST;
}

static void begin_making(struct making *m, struct df_backups *b)
{
    const struct df_backup_state *s = &b->state;

    *m = (struct making){.b = b, .base = base_is_due(b, df_wall_ms(b->opt.clock))};
    if (m->base) {
        df_generation_make(b->opt.clock, m->head.name.generation);
        return;
    }
    m->head.name = (struct df_point_name){.number = s->last.number + 1};
    memcpy(m->head.name.generation, s->last.generation, sizeof s->last.generation);
    memcpy(m->head.before, s->root, sizeof s->root);
    m->files = df_calloc(s->file_count + 1, sizeof *m->files);
    m->file_count = s->file_count;
    if (s->file_count > 0)
        memcpy(m->files, s->files, s->file_count * sizeof *s->files);
}

static bool nothing_changed(const struct making *m)
{
    const struct df_backup_state *s = &m->b->state;
    bool same =
        !m->base && memcmp(m->root, s->root, sizeof s->root) == 0 && m->file_count == s->file_count;

    for (size_t i = 0; same && i < m->file_count; i++)
        same = strcmp(m->files[i].file.object, s->files[i].file.object) == 0;
    return same;
}

/* The point is there: what it knows is the state now. */
static void become_state(struct making *m, uint64_t point_bytes)
{
    struct df_backups *b = m->b;
    struct df_backup_state s = {.last = m->head.name,
                                .base_ms = m->base ? m->head.name.time_ms : b->state.base_ms,
                                .base_bytes = m->base ? point_bytes : b->state.base_bytes,
                                .more_bytes = m->base ? 0 : b->state.more_bytes + point_bytes,
                                .page_size = m->head.page_size,
                                .page_count = m->head.page_count,
                                .hashes = m->hashes,
                                .files = m->files,
                                .file_count = m->file_count};

    memcpy(s.root, m->root, sizeof s.root);
    df_backup_state_release(&b->state);
    b->state = s;
    b->version = m->version;
    m->hashes = NULL;
    m->files = NULL;
}

static enum df_code put_point(struct making *m, int fd, struct df_backup_made *ret,
                              struct df_err *err)
{
    struct df_backups *b = m->b;
    struct df_err why = DF_ERR_INIT;
    char name[DF_POINT_NAME_MAX];
    uint64_t bytes = 0;
    enum df_code code = size_of(fd, &bytes, err);

    df_point_name_write(&m->head.name, name);
    if (code != DF_OK)
        return code;
    memcpy(b->unsure, name, sizeof name);
    code = df_depot_put(b->place, name, fd, err);
    if (code != DF_OK)
        return code;
    b->unsure[0] = '\0';
    *ret = (struct df_backup_made){.made = true,
                                   .name = m->head.name,
                                   .pages = m->pages,
                                   .files = (uint32_t)m->file_count,
                                   .bytes = m->bytes + bytes};
    become_state(m, bytes);
    /* Without it the next process begins with a base. */
    if (df_backup_state_save(b->state_path, b->opt.data_dir, &b->state, &why) != DF_OK)
        df_log_warn("BackupStateNotKept", "%s", why.detail);
    return DF_OK;
}

static enum df_code make_point(struct df_backups *b, struct df_backup_made *ret, struct df_err *err)
{
    struct making m;
    int fd = -1;
    enum df_code code = df_temp_open(b->opt.data_dir, &fd, err);

    begin_making(&m, b);
    if (code == DF_OK)
        code = choose_moment(&m, err);
    /* Another page size is another database. */
    if (code == DF_OK && !m.base && m.head.page_size != b->state.page_size)
        code = df_err_set(err, DF_E_CONFLICT, "the database's page size was changed");
    if (code == DF_OK)
        code = write_point(&m, fd, err);
    df_db_rollback(b->db);
    if (code == DF_E_CONFLICT)
        df_backup_state_release(&b->state); /* the next point is a base */
    if (code == DF_OK && nothing_changed(&m))
        b->version = m.version;
    else if (code == DF_OK)
        code = put_point(&m, fd, ret, err);
    df_parcel_abort(m.parcel);
    free(m.hashes);
    free(m.files);
    free(m.first);
    if (fd >= 0)
        (void)close(fd);
    return code;
}

/* --- what is too old --- */

/* A generation goes when a later one has its base before the time that is kept; and so does what a
 * process left that was killed before its base was there. */
static bool is_old(const struct df_backups *b, const struct df_points *p, const char *name,
                   const char *first_kept)
{
    if (strncmp(name, b->state.last.generation, DF_GENERATION_LEN) == 0 ||
        !df_generation_is(name) || name[DF_GENERATION_LEN] != '/')
        return false;
    if (first_kept && strncmp(name, first_kept, DF_GENERATION_LEN) < 0)
        return true;
    for (size_t i = 0; i < p->count; i++)
        if (p->items[i].is_point && p->items[i].point.number == 0 &&
            strncmp(p->items[i].name, name, DF_GENERATION_LEN) == 0)
            return false;
    return true;
}

/* From the last name to the first: points before those that they need, then the files. */
static enum df_code remove_old(struct df_backups *b, uint32_t *ret_removed, struct df_err *err)
{
    struct df_points p;
    char last[DF_GENERATION_LEN + 1] = "";
    enum df_code code = df_points_list(b->place, &p, err);

    if (code != DF_OK)
        return code;
    const char *first_kept = df_points_generation_at(&p, df_wall_ms(b->opt.clock) - b->opt.keep_ms);
    for (size_t i = p.count; code == DF_OK && i-- > 0;) {
        const char *name = p.items[i].name;
        if (!is_old(b, &p, name, first_kept))
            continue;
        code = df_depot_go_on(b->place, err);
        if (code == DF_OK)
            code = df_depot_remove(b->place, name, err);
        if (code != DF_OK)
            break;
        *ret_removed += strncmp(last, name, DF_GENERATION_LEN) != 0;
        memcpy(last, name, DF_GENERATION_LEN);
    }
    df_points_release(&p);
    return code;
}

/* --- getting ready --- */

static enum df_code lock_place(struct df_backups *b, struct df_err *err)
{
    char path[4096 + 8];

    (void)snprintf(path, sizeof path, "%s.lock", b->state_path);
    b->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (b->lock_fd < 0)
        return df_err_errno(err, "cannot open %s", path);
    enum df_code code = df_owner_give_in(b->lock_fd, b->opt.data_dir, err);
    if (code == DF_OK && flock(b->lock_fd, LOCK_EX | LOCK_NB) != 0)
        code =
            df_err_set(err, DF_E_BUSY,
                       "another process backs up to %s: the server itself, or --watch", b->opt.to);
    if (code != DF_OK) {
        (void)close(b->lock_fd);
        b->lock_fd = -1;
    }
    return code;
}

/* The state is of use only if its point is the place's newest. */
static enum df_code compare_state(struct df_backups *b, struct df_err *err)
{
    const struct df_point_object *newest = NULL;
    char name[DF_POINT_NAME_MAX];
    struct df_points p;
    enum df_code code = df_points_list(b->place, &p, err);

    if (code != DF_OK)
        return code;
    for (size_t i = 0; i < p.count; i++)
        if (p.items[i].is_point)
            newest = &p.items[i];
    df_point_name_write(&b->state.last, name);
    if (!newest || strcmp(newest->name, name) != 0 ||
        !df_points_is_whole(&p, (size_t)(newest - p.items)))
        df_backup_state_release(&b->state);
    df_points_release(&p);
    return DF_OK;
}

/* May fail and be called again. */
static enum df_code get_ready(struct df_backups *b, struct df_err *err)
{
    const struct df_db_options db = {.url = b->opt.url, .existing = true};
    enum df_code code = b->lock_fd >= 0 ? DF_OK : lock_place(b, err);

    if (code == DF_OK && !b->db)
        code = df_db_open(&db, &b->db, err);
    if (code == DF_OK && !b->key.key)
        code = df_parcel_key_draw(&b->key, b->opt.master, b->opt.clock, err);
    if (code == DF_OK) {
        df_backup_state_release(&b->state);
        df_backup_state_load(b->state_path, &b->state);
        code = compare_state(b, err);
    }
    b->ready = code == DF_OK;
    return code;
}

/* --- turns --- */

static enum df_code remove_unsure(struct df_backups *b, struct df_err *err)
{
    enum df_code code = b->unsure[0] ? df_depot_remove(b->place, b->unsure, err) : DF_OK;

    if (code == DF_OK)
        b->unsure[0] = '\0';
    return code;
}

static enum df_code has_changed(struct df_backups *b, bool *ret, struct df_err *err)
{
    int64_t version = 0;
    enum df_code code = df_db_query_int(b->db, DF_Q0(backup_version), &version, err);

    *ret = version != b->version || base_is_due(b, df_wall_ms(b->opt.clock));
    return code;
}

enum df_code df_backups_turn(struct df_backups *b, struct df_backup_made *ret, struct df_err *err)
{
    struct df_err why = DF_ERR_INIT;
    bool changed = false;
    uint64_t bytes = 0;

    *ret = (struct df_backup_made){.made = false};
    enum df_code code = b->ready ? DF_OK : get_ready(b, err);
    if (code == DF_OK)
        code = remove_unsure(b, err);
    if (code == DF_OK)
        code = put_latest(b, "erasures", &b->ledger, &bytes, err);
    if (code == DF_OK)
        code = has_changed(b, &changed, err);
    if (code == DF_OK && changed)
        code = make_point(b, ret, err);
    if (code == DF_OK && ret->made)
        code = put_latest(b, "audit-heads", &b->heads, &bytes, err);
    ret->bytes += bytes;
    if (code == DF_OK && ret->made && ret->name.number == 0 && b->opt.keep_ms > 0 &&
        remove_old(b, &ret->removed, &why) != DF_OK)
        df_log_warn("BackupNotRemoved", "old backups stay for now: %s", why.detail);
    return code;
}

/* --- open and close --- */

enum df_code df_backups_open(const struct df_backups_options *opt, struct df_backups **ret,
                             struct df_err *err)
{
    char digits[DF_CHECKSUM_LEN + 1];
    enum df_dialect dialect;
    enum df_code code = df_db_dialect_of(opt->url, &dialect, err);

    if (code == DF_OK && dialect != DF_SQLITE)
        code = df_err_set(err, DF_E_USAGE,
                          "backup is for the embedded database; docs/runbooks/restore.md has the "
                          "ways of PostgreSQL and SQL Server");
    if (code != DF_OK)
        return code;
    struct df_backups *b = df_calloc(1, sizeof *b);
    b->opt = *opt;
    b->lock_fd = -1;
    b->version = -1;
    df_checksum_of(df_str_c(opt->to), digits);
    (void)snprintf(b->state_path, sizeof b->state_path, "%s/backup-%.8s", opt->data_dir, digits);
    code = df_depot_open(opt->to, opt->setting, opt->s3, opt->clock, true, &b->place, err);
    if (code == DF_OK)
        *ret = b;
    else
        df_backups_close(b);
    return code;
}

void df_backups_close(struct df_backups *b)
{
    if (!b)
        return;
    df_backup_state_release(&b->state);
    df_parcel_key_release(&b->key);
    df_db_close(b->db);
    df_depot_close(b->place);
    if (b->lock_fd >= 0)
        (void)close(b->lock_fd);
    free(b);
}

void df_backups_cancel(struct df_backups *b)
{
    df_depot_cancel(b->place);
}
