#include "ship/spool.h"

#include "base/buf.h"
#include "base/mem.h"
#include "ship/spool_private.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENTS      16 /* of a full spool, at least */
#define SEGMENT_MAX   (INT64_C(4) << 20)
#define WRITE_BYTES   ((size_t)64 << 10)
#define WINDOW_BYTES  ((size_t)256 << 10) /* read at a time; more than a record */
#define SEGMENT_MS    (INT64_C(3600) * 1000)
#define FOLDERS_MAX   256 /* in hand: beyond it the oldest is given up */
#define NS_PER_MS     INT64_C(1000000)
#define PATH_MAX_SIZE 4096

struct df_spool {
    struct df_spool_options opt;
    int64_t segment_bytes;
    int root_fd;
    struct spool_folder *folders[FOLDERS_MAX]; /* read in this order; the last is our own */
    size_t folder_count;
    int append_fd; /* the last segment of our own folder; -1: the next line begins one */
    uint64_t last_number;
    int64_t opened_ms; /* when it was begun */
    bool dirty;        /* written, not synced */
    struct df_buf fresh;
    uint64_t fresh_lines;
    int64_t fresh_first_ns, fresh_last_ns;
    struct spool_folder *reading; /* whose lines are in hand; NULL: none, or it is gone */
    uint64_t lines, bytes;
    struct df_spool_count lost[DF_SPOOL_LOSSES];
    char window[WINDOW_BYTES];
};

static struct spool_folder *own_folder(const struct df_spool *s)
{
    return s->folders[s->folder_count - 1];
}

static void count_lost(struct df_spool *s, enum df_spool_loss why, uint64_t lines, uint64_t bytes)
{
    s->lost[why].lines += lines;
    s->lost[why].bytes += bytes;
}

/* --- segments --- */

static void end_segment(struct df_spool *s)
{
    if (s->append_fd < 0)
        return;
    if (s->dirty)
        (void)fdatasync(s->append_fd);
    s->dirty = false;
    (void)close(s->append_fd);
    s->append_fd = -1;
}

/* A segment goes as a whole: lines of long after its first would keep it. */
static void end_old_segment(struct df_spool *s)
{
    int64_t segment_ms = s->opt.max_age_ms / 4 < SEGMENT_MS ? s->opt.max_age_ms / 4 : SEGMENT_MS;

    if (s->append_fd >= 0 && df_mono_ms(s->opt.clock) - s->opened_ms >= segment_ms)
        end_segment(s);
}

/* Takes a folder that has nothing more, and is not our own, out of hand. */
static void drop_if_empty(struct df_spool *s, size_t index)
{
    struct spool_folder *f = s->folders[index];

    if (f->count > 0 || index == s->folder_count - 1)
        return;
    if (s->reading == f)
        s->reading = NULL;
    spool_folder_free(f, true);
    memmove(&s->folders[index], &s->folders[index + 1],
            (s->folder_count - index - 1) * sizeof(struct spool_folder *));
    s->folder_count--;
}

/* Lines in hand are not lost: their reader has copies. */
static void drop_segment(struct df_spool *s, size_t index)
{
    struct spool_folder *f = s->folders[index];
    const struct spool_segment *first = &f->segments[0];

    if (index == s->folder_count - 1 && f->count == 1) {
        s->dirty = false; /* it goes: no need to wait for the disk */
        end_segment(s);
    }
    s->lines -= first->lines;
    s->bytes -= first->bytes;
    spool_folder_drop_first(f);
    drop_if_empty(s, index);
}

static void lose_segment(struct df_spool *s, size_t index, enum df_spool_loss why)
{
    const struct spool_segment *first = &s->folders[index]->segments[0];

    if (first->lines > first->in_hand)
        count_lost(s, why, first->lines - first->in_hand, first->bytes);
    drop_segment(s, index);
}

/* False: no folder has a segment. */
static bool lose_oldest(struct df_spool *s, enum df_spool_loss why)
{
    for (size_t i = 0; i < s->folder_count; i++) {
        if (s->folders[i]->count > 0) {
            lose_segment(s, i, why);
            return true;
        }
    }
    return false;
}

/* --- writing --- */

void df_spool_add(struct df_spool *s, int64_t time_ns, enum df_log_level level, struct df_str text)
{
    char head[DF_SPOOL_HEAD];

    if (text.len > DF_SPOOL_LINE_MAX)
        text.len = DF_SPOOL_LINE_MAX;
    df_spool_put_head(head, time_ns, level, text);
    if (s->fresh_lines == 0)
        s->fresh_first_ns = time_ns;
    s->fresh_last_ns = time_ns;
    s->fresh_lines++;
    df_buf_add(&s->fresh, head, sizeof(head));
    df_buf_adds(&s->fresh, text);
    if (s->fresh.len >= WRITE_BYTES) {
        struct df_err ignored;
        if (df_spool_write(s, &ignored) != DF_OK)
            return; /* counted; the next df_spool_write tells, if it goes on */
    }
}

static enum df_code begin_segment(struct df_spool *s, struct df_err *err)
{
    struct spool_folder *f = own_folder(s);

    s->append_fd = spool_folder_open(f, s->last_number + 1, O_WRONLY | O_CREAT | O_EXCL | O_APPEND);
    if (s->append_fd < 0)
        return df_err_errno(err, "the log's spool %s/%s", s->opt.directory, f->name);
    s->last_number++;
    s->opened_ms = df_mono_ms(s->opt.clock);
    (void)spool_folder_add(f, s->last_number);
    return DF_OK;
}

static enum df_code append_fresh(struct df_spool *s, struct df_err *err)
{
    struct spool_folder *f = own_folder(s);
    size_t written = 0;

    while (written < s->fresh.len) {
        ssize_t n = write(s->append_fd, s->fresh.ptr + written, s->fresh.len - written);
        if (n > 0)
            written += (size_t)n;
        else if (n == 0 || errno != EINTR)
            break;
    }
    struct spool_segment *last = &f->segments[f->count - 1];
    if (written < s->fresh.len) {
        enum df_code code = df_err_errno(err, "the log's spool %s/%s", s->opt.directory, f->name);
        if (ftruncate(s->append_fd, (off_t)last->bytes) != 0)
            end_segment(s); /* what is half written ends the segment, and is skipped */
        return code;
    }
    if (last->lines == 0)
        last->first_ns = s->fresh_first_ns;
    last->last_ns = s->fresh_last_ns;
    last->lines += s->fresh_lines;
    last->bytes += s->fresh.len;
    s->lines += s->fresh_lines;
    s->bytes += s->fresh.len;
    s->dirty = true;
    return DF_OK;
}

enum df_code df_spool_write(struct df_spool *s, struct df_err *err)
{
    enum df_code code = DF_OK;

    if (s->fresh_lines == 0)
        return DF_OK;
    while (s->bytes + s->fresh.len > (uint64_t)s->opt.max_bytes && lose_oldest(s, DF_SPOOL_FULL))
        ;
    end_old_segment(s);
    const struct spool_folder *f = own_folder(s);
    if (s->append_fd >= 0 &&
        f->segments[f->count - 1].bytes + s->fresh.len > (uint64_t)s->segment_bytes)
        end_segment(s);
    if (s->append_fd < 0)
        code = begin_segment(s, err);
    if (code == DF_OK)
        code = append_fresh(s, err);
    if (code != DF_OK)
        count_lost(s, DF_SPOOL_DISK, s->fresh_lines, s->fresh.len);
    df_buf_reset(&s->fresh);
    s->fresh_lines = 0;
    return code;
}

void df_spool_sync(struct df_spool *s)
{
    if (s->dirty && s->append_fd >= 0)
        (void)fdatasync(s->append_fd);
    s->dirty = false;
}

/* --- reading --- */

struct walk {
    struct spool_folder *folder;
    struct spool_segment *segment;
    uint64_t offset; /* in: where to begin; out: where what was taken ends */
    bool (*take)(void *arg, const struct df_spool_record *r);
    void *arg;
    bool stopped; /* `take` wants no more, or it failed */
    bool failed;  /* the segment cannot be opened now */
    uint64_t damaged_places, damaged_bytes;
};

static size_t read_window(struct df_spool *s, int fd, const struct walk *w, uint64_t at)
{
    uint64_t left = w->segment->bytes - at;
    size_t want = left < sizeof(s->window) ? (size_t)left : sizeof(s->window), got = 0;

    while (got < want) {
        ssize_t n = pread(fd, s->window + got, want - got, (off_t)(at + got));
        if (n == 0 || (n < 0 && errno != EINTR))
            break;
        got += n > 0 ? (size_t)n : 0;
    }
    return got;
}

static void note_damage(struct walk *w, uint64_t bytes)
{
    w->damaged_places += bytes > 0;
    w->damaged_bytes += bytes;
}

/* The records of one window, from `at` on; returns where the next window begins. A gap counts when
 * reading is past it. */
static uint64_t walk_window(struct df_spool *s, struct walk *w, uint64_t at, size_t len, bool all,
                            uint64_t *gap)
{
    size_t used = 0, skipped;
    struct df_spool_record r;

    for (;;) {
        size_t found = df_spool_find(df_str_n(s->window + used, len - used), all, &r, &skipped);
        *gap += skipped;
        used += skipped;
        if (found == 0)
            return at + used;
        r.at = (struct df_spool_at){w->segment->number, at + used};
        if (!w->take(w->arg, &r)) {
            w->stopped = true;
            return at + used;
        }
        note_damage(w, *gap);
        *gap = 0;
        used += found;
        w->offset = at + used;
    }
}

/* Whether the file may well be whole: the process or the machine has no more to open it with. */
static bool is_passing(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM;
}

/* The records of one segment. What ends early or cannot be read is damage, too. */
static void walk_segment(struct df_spool *s, struct walk *w)
{
    int fd = spool_folder_open(w->folder, w->segment->number, O_RDONLY);
    uint64_t at = w->offset, gap = 0;

    if (fd < 0 && is_passing(errno)) {
        w->stopped = w->failed = true;
        return;
    }
    while (fd >= 0 && at < w->segment->bytes) {
        size_t len = read_window(s, fd, w, at);
        bool all = len < sizeof(s->window) || at + len >= w->segment->bytes;
        at = walk_window(s, w, at, len, all, &gap);
        if (w->stopped || all)
            break;
    }
    if (fd >= 0)
        (void)close(fd);
    if (w->stopped)
        return;
    if (at < w->segment->bytes)
        gap += w->segment->bytes - at;
    note_damage(w, gap);
    w->offset = w->segment->bytes;
}

struct counting {
    struct df_spool *spool;
    bool (*take)(void *arg, const struct df_spool_record *r);
    void *arg;
    struct spool_segment *segment;
};

static bool count_in_hand(void *arg, const struct df_spool_record *r)
{
    struct counting *c = arg;

    /* What the segment was thought to have bounds what is taken off again. */
    if (c->segment->in_hand == c->segment->lines || !c->take(c->arg, r))
        return false;
    c->segment->in_hand++;
    c->segment->in_hand_ns = r->time_ns;
    return true;
}

/* Reads on in the folder; returns whether anything was taken. *ret_failed: a later try may find
 * what could not be opened now. */
static bool read_folder(struct df_spool *s, struct spool_folder *f, struct counting *c,
                        struct df_spool_at *ret_end, bool *ret_failed)
{
    bool taken = false, stopped = false;

    *ret_end = f->cursor;
    *ret_failed = false;
    for (size_t i = 0; i < f->count && !stopped; i++) {
        struct spool_segment *segment = &f->segments[i];
        c->segment = segment;
        struct walk w = {.folder = f, .segment = segment, .take = count_in_hand, .arg = c};
        w.offset = segment->number == f->cursor.segment ? f->cursor.offset : 0;
        if (segment->number < f->cursor.segment || segment->lines == 0)
            continue;
        walk_segment(s, &w);
        stopped = w.stopped;
        if (w.failed) {
            *ret_failed = true;
            break;
        }
        taken = taken || segment->in_hand > 0;
        count_lost(s, DF_SPOOL_DAMAGED, w.damaged_places, w.damaged_bytes);
        *ret_end = (struct df_spool_at){segment->number, w.offset};
    }
    return taken;
}

bool df_spool_read(struct df_spool *s, bool (*take)(void *arg, const struct df_spool_record *r),
                   void *arg, struct df_spool_owner *ret_owner, struct df_spool_at *ret_end)
{
    struct counting c = {.spool = s, .take = take, .arg = arg};

    assert(!s->reading);
    while (s->lines > 0) {
        struct spool_folder *f = s->folders[0];
        bool failed;
        s->reading = f;
        if (read_folder(s, f, &c, ret_end, &failed)) {
            *ret_owner = (struct df_spool_owner){f->name, f->host};
            return true;
        }
        if (failed) {
            s->reading = NULL;
            return false;
        }
        if (f == own_folder(s)) { /* nothing of what should be there can be read */
            while (f->count > 0)
                drop_segment(s, s->folder_count - 1);
        } else {
            df_spool_done(s, (struct df_spool_at){UINT64_MAX, 0});
        }
        s->reading = NULL;
    }
    return false;
}

/* A segment of which nothing is left goes; the last one of our own only if it is worth it. */
static bool is_over(const struct df_spool *s, const struct spool_folder *f)
{
    const struct spool_segment *first = &f->segments[0];
    bool appending = f == own_folder(s) && f->count == 1 && s->append_fd >= 0;

    if (first->number > f->cursor.segment ||
        (first->number == f->cursor.segment && f->cursor.offset < first->bytes))
        return false;
    return !appending || first->bytes > (uint64_t)s->segment_bytes / 4;
}

static void drop_done(struct df_spool *s, size_t index)
{
    struct spool_folder *f = s->folders[index];

    while (f->count > 0 && is_over(s, f)) {
        bool last = f->count == 1;
        drop_segment(s, index);
        if (last) /* an adopted folder is gone with its last segment */
            return;
    }
}

void df_spool_done(struct df_spool *s, struct df_spool_at end)
{
    struct spool_folder *f = s->reading;

    s->reading = NULL;
    if (!f)
        return;
    for (size_t i = 0; i < f->count; i++) {
        struct spool_segment *segment = &f->segments[i];
        if (segment->in_hand > 0)
            segment->first_ns = segment->in_hand_ns; /* what waits is not older */
        /* At its end, lines that turned out to be damaged wait no longer. */
        bool passed = segment->number < end.segment ||
                      (segment->number == end.segment && end.offset >= segment->bytes);
        uint64_t gone = passed ? segment->lines : segment->in_hand;
        segment->lines -= gone;
        segment->in_hand = 0;
        s->lines -= gone;
    }
    f->cursor = end;
    spool_folder_write_cursor(f);
    for (size_t i = 0; i < s->folder_count; i++)
        if (s->folders[i] == f) {
            drop_done(s, i);
            break;
        }
}

/* --- age --- */

void df_spool_age(struct df_spool *s)
{
    int64_t oldest_ns = (df_wall_ms(s->opt.clock) - s->opt.max_age_ms) * NS_PER_MS;

    end_old_segment(s);
    for (size_t i = s->folder_count; i-- > 0;) {
        struct spool_folder *f = s->folders[i];
        size_t count = f->count;
        while (count > 0 && f->segments[0].lines > 0 && f->segments[0].last_ns < oldest_ns) {
            count--; /* with its last one an adopted folder is gone */
            lose_segment(s, i, DF_SPOOL_OLD);
        }
        if (count > 0)
            drop_done(s, i);
    }
}

/* --- folders of others --- */

static bool count_record(void *arg, const struct df_spool_record *r)
{
    struct spool_segment *segment = arg;

    if (segment->lines++ == 0)
        segment->first_ns = r->time_ns;
    segment->last_ns = r->time_ns;
    return true;
}

/* What is before the cursor was sent. False: some of it cannot be read now. */
static bool count_folder(struct df_spool *s, struct spool_folder *f)
{
    bool whole = true;

    while (f->count > 0 && f->segments[0].number < f->cursor.segment)
        spool_folder_drop_first(f);
    for (size_t i = 0; i < f->count; i++) {
        struct spool_segment *segment = &f->segments[i];
        struct walk w = {.folder = f, .segment = segment, .take = count_record, .arg = segment};
        w.offset = segment->number == f->cursor.segment ? f->cursor.offset : 0;
        if (w.offset < segment->bytes)
            walk_segment(s, &w);
        s->lines += segment->lines;
        s->bytes += segment->bytes;
        whole = whole && !w.failed;
    }
    return whole;
}

static void insert_folder(struct df_spool *s, struct spool_folder *f)
{
    size_t at = 0;

    while (at < s->folder_count - 1 && strcmp(s->folders[at]->name, f->name) < 0)
        at++;
    memmove(&s->folders[at + 1], &s->folders[at],
            (s->folder_count - at) * sizeof(struct spool_folder *));
    s->folders[at] = f;
    s->folder_count++;
}

static void adopt_folder(struct df_spool *s, struct spool_folder *f)
{
    uint64_t before = s->lines;
    bool counted = count_folder(s, f);

    /* All of it was sent, or there is nothing whole; or it is left for a later look. */
    if (!counted || s->lines == before) {
        for (size_t i = 0; i < f->count; i++)
            s->bytes -= f->segments[i].bytes;
        s->lines = before;
        spool_folder_free(f, counted);
        return;
    }
    while (s->folder_count == FOLDERS_MAX && lose_oldest(s, DF_SPOOL_FULL))
        ;
    insert_folder(s, f);
}

uint64_t df_spool_adopt(struct df_spool *s)
{
    uint64_t before = s->lines;
    int fd = openat(s->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

    if (!dir) {
        if (fd >= 0)
            (void)close(fd);
        return 0;
    }
    /* Folders in hand are locked by this process itself, and so not adopted again. */
    for (const struct dirent *e; (e = readdir(dir));) { /* NOLINT(concurrency-mt-unsafe) */
        struct spool_folder *f = spool_folder_adopt(s->root_fd, e->d_name);
        if (f)
            adopt_folder(s, f);
    }
    (void)closedir(dir);
    uint64_t adopted = s->lines - before;
    while (s->bytes > (uint64_t)s->opt.max_bytes && lose_oldest(s, DF_SPOOL_FULL))
        ;
    return adopted;
}

/* --- the spool --- */

static enum df_code make_directories(const char *directory, struct df_err *err)
{
    char path[PATH_MAX_SIZE];
    size_t len = strlen(directory);

    if (len >= sizeof(path))
        return df_err_set(err, DF_E_CONFIG, "the name of the log's spool is too long");
    for (size_t i = 1; i <= len; i++) {
        if (directory[i] != '/' && directory[i] != '\0')
            continue;
        memcpy(path, directory, i);
        path[i] = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return df_err_errno(err, "%s", path);
    }
    return DF_OK;
}

enum df_code df_spool_open(const struct df_spool_options *opt, struct df_spool **ret,
                           struct df_err *err)
{
    enum df_code code = make_directories(opt->directory, err);
    if (code != DF_OK)
        return code;
    int root_fd = open(opt->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return df_err_errno(err, "%s", opt->directory);
    struct df_spool *s = df_calloc(1, sizeof(*s));
    s->opt = *opt;
    s->segment_bytes =
        opt->max_bytes / SEGMENTS < SEGMENT_MAX ? opt->max_bytes / SEGMENTS : SEGMENT_MAX;
    s->root_fd = root_fd;
    s->append_fd = -1;
    df_buf_init(&s->fresh, 2 * WRITE_BYTES + DF_SPOOL_LINE_MAX);
    code = spool_folder_make(root_fd, opt->clock, &s->folders[0], err);
    if (code != DF_OK) {
        df_buf_release(&s->fresh);
        (void)close(root_fd);
        free(s);
        return code;
    }
    s->folder_count = 1;
    *ret = s;
    return DF_OK;
}

static bool has_lines(const struct spool_folder *f)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->segments[i].lines > 0)
            return true;
    return false;
}

void df_spool_close(struct df_spool *s)
{
    struct df_err ignored;

    if (!s)
        return;
    enum df_code code = df_spool_write(s, &ignored);
    (void)code; /* counted, and there is nobody left to tell */
    if (!has_lines(own_folder(s)))
        s->dirty = false; /* nothing that is worth waiting for the disk */
    end_segment(s);
    for (size_t i = 0; i < s->folder_count; i++)
        spool_folder_free(s->folders[i], !has_lines(s->folders[i]));
    df_buf_release(&s->fresh);
    (void)close(s->root_fd);
    free(s);
}

uint64_t df_spool_lines(const struct df_spool *s)
{
    return s->lines;
}

/* What is before the cursor in a folder's first segment was sent. */
uint64_t df_spool_waiting_bytes(const struct df_spool *s)
{
    uint64_t bytes = s->bytes;

    for (size_t i = 0; i < s->folder_count; i++) {
        const struct spool_folder *f = s->folders[i];
        if (f->count > 0 && f->segments[0].number == f->cursor.segment)
            bytes -=
                f->cursor.offset < f->segments[0].bytes ? f->cursor.offset : f->segments[0].bytes;
    }
    return bytes;
}

uint64_t df_spool_bytes(const struct df_spool *s)
{
    return s->bytes;
}

int64_t df_spool_oldest_ns(const struct df_spool *s)
{
    for (size_t i = 0; i < s->folder_count; i++) {
        const struct spool_folder *f = s->folders[i];
        for (size_t k = 0; k < f->count; k++) {
            const struct spool_segment *segment = &f->segments[k];
            if (segment->lines > 0)
                return segment->first_ns;
        }
    }
    return 0;
}

struct df_spool_count df_spool_lost(const struct df_spool *s, enum df_spool_loss why)
{
    return s->lost[why];
}
