#include "access/audit_heads.h"

#include "access/audit.sql.h"
#include "access/audit_private.h"
#include "base/mem.h"
#include "base/owner.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME   "audit-heads"
#define FILE_MAX    ((size_t)1 << 20)
#define LINES_MAX   1000
#define LINES_WHOLE 400 /* the newest, of which none is dropped */
#define LINE_LEAST  128 /* bytes; two hashes in hexadecimal */
#define LINE_ROOM   256
#define OPEN_TRIES  100
#define LOG_MS      60000
#define WARN_MS     3600000
#define SEAL_ROWS   256 /* of one step */
#define SEAL_STEPS  16  /* of one turn */

static_assert(DF_AUDIT_MAC_BYTES == DF_HASH_BYTES, "a hash of the chain");

/* --- lines --- */

static void add_hex(struct df_buf *out, const unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        df_buf_addf(out, "%02x", bytes[i]);
}

static bool read_hex(struct df_str s, unsigned char out[DF_AUDIT_MAC_BYTES])
{
    if (s.len != (size_t)2 * DF_AUDIT_MAC_BYTES)
        return false;
    for (size_t i = 0; i < DF_AUDIT_MAC_BYTES; i++) {
        int high = df_hex_digit(s.ptr[2 * i]), low = df_hex_digit(s.ptr[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static struct df_str mac_of(const struct df_audit_head *h)
{
    return df_str_n((const char *)h->mac, sizeof h->mac);
}

static void add_line(struct df_buf *out, const struct df_audit_head *h)
{
    char time[DF_TIME_LEN + 1];
    struct audit_mac signature;

    audit_line_mac(audit_keys(), h->sequence, mac_of(h), h->time_ms, &signature);
    df_time_format(h->time_ms, time);
    df_buf_addf(out, "%lld ", (long long)h->sequence);
    add_hex(out, h->mac, sizeof h->mac);
    df_buf_addf(out, " %s ", time);
    add_hex(out, signature.bytes, sizeof signature.bytes);
    df_buf_addc(out, '\n');
}

/* False: it is no line of this file. */
static bool read_line(struct df_str line, struct df_audit_head *ret)
{
    struct df_str sequence, mac, time;
    struct df_str signature =
        df_str_cut(df_str_cut(df_str_cut(line, ' ', &sequence), ' ', &mac), ' ', &time);
    unsigned char given[DF_AUDIT_MAC_BYTES];
    struct audit_mac right;

    if (!signature.ptr || !df_str_to_i64(sequence, &ret->sequence) || ret->sequence < 1 ||
        !read_hex(mac, ret->mac) || !df_time_parse(time, &ret->time_ms) ||
        !read_hex(signature, given))
        return false;
    ret->genuine = true;
    if (audit_keys()) {
        audit_line_mac(audit_keys(), ret->sequence, mac_of(ret), ret->time_ms, &right);
        ret->genuine = memcmp(given, right.bytes, sizeof given) == 0;
    }
    return true;
}

void df_audit_heads_parse(struct df_str text, struct df_audit_heads *ret)
{
    struct df_str line;

    *ret = (struct df_audit_heads){0};
    ret->items = df_calloc(text.len / LINE_LEAST + 1, sizeof *ret->items);
    for (struct df_str rest = text; rest.len > 0;) {
        rest = df_str_cut(rest, '\n', &line);
        if (read_line(line, &ret->items[ret->count]))
            ret->count++;
        else if (line.len > 0)
            ret->damaged++;
    }
}

/* --- the file --- */

/* Opens it, and locks it against other processes, which may put another in its place meanwhile. */
static int open_locked(const char *path, int flags)
{
    for (int tries = 0; tries < OPEN_TRIES; tries++) {
        struct stat opened, named;
        int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return -1;
        if (flock(fd, LOCK_EX) == 0 && fstat(fd, &opened) == 0 && stat(path, &named) == 0 &&
            opened.st_ino == named.st_ino)
            return fd;
        close(fd);
    }
    errno = EAGAIN;
    return -1;
}

static enum df_code read_text(int fd, struct df_buf *out, struct df_err *err)
{
    char part[8192];
    ssize_t n;

    while ((n = read(fd, part, sizeof part)) > 0)
        df_buf_add(out, part, (size_t)n);
    if (n < 0)
        return df_err_errno(err, "cannot read " FILE_NAME);
    return df_buf_failed(out) ? df_err_set(err, DF_E_TOO_LARGE, FILE_NAME " is too long") : DF_OK;
}

static enum df_code write_text(int fd, struct df_str text, struct df_err *err)
{
    if (write(fd, text.ptr, text.len) != (ssize_t)text.len || fdatasync(fd) != 0)
        return df_err_errno(err, "cannot write " FILE_NAME);
    return DF_OK;
}

static size_t count_lines(struct df_str text)
{
    size_t lines = 0;

    for (size_t i = 0; i < text.len; i++)
        lines += text.ptr[i] == '\n';
    return lines;
}

/* Every second one of the older lines. What they say stays: the lines are copied as they are. */
static enum df_code thin_file(const char *path, int old_fd, struct df_str text, struct df_err *err)
{
    size_t lines = count_lines(text), at = 0;
    char fresh[4096];
    struct df_buf kept;
    struct df_str line;

    if ((size_t)snprintf(fresh, sizeof fresh, "%s.new", path) >= sizeof fresh)
        return df_err_set(err, DF_E_CONFIG, "data_dir has too long a path");
    df_buf_init(&kept, FILE_MAX);
    for (struct df_str rest = text; rest.len > 0; at++) {
        rest = df_str_cut(rest, '\n', &line);
        if (at + LINES_WHOLE >= lines || at % 2 == 0) {
            df_buf_adds(&kept, line);
            df_buf_addc(&kept, '\n');
        }
    }
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    enum df_code code = fd < 0 ? df_err_errno(err, "cannot write %s", fresh)
                               : write_text(fd, df_buf_str(&kept), err);
    if (code == DF_OK)
        code = df_owner_give(fd, old_fd, err);
    if (code == DF_OK && rename(fresh, path) != 0)
        code = df_err_errno(err, "cannot replace %s", path);
    if (fd >= 0)
        close(fd);
    df_buf_release(&kept);
    return code;
}

static enum df_code path_of(const char *data_dir, char *out, size_t size, struct df_err *err)
{
    if ((size_t)snprintf(out, size, "%s/" FILE_NAME, data_dir) >= size)
        return df_err_set(err, DF_E_CONFIG, "data_dir has too long a path");
    return DF_OK;
}

enum df_code df_audit_heads_load(const char *data_dir, struct df_audit_heads *ret,
                                 struct df_err *err)
{
    char path[4096];
    struct df_buf text;

    *ret = (struct df_audit_heads){0};
    enum df_code code = path_of(data_dir, path, sizeof path, err);
    if (code != DF_OK)
        return code;
    int fd = open_locked(path, O_RDONLY);
    if (fd < 0)
        return errno == ENOENT ? DF_OK : df_err_errno(err, "cannot read %s", path);
    df_buf_init(&text, FILE_MAX);
    code = read_text(fd, &text, err);
    close(fd);
    if (code == DF_OK)
        df_audit_heads_parse(df_buf_str(&text), ret);
    df_buf_release(&text);
    return code;
}

void df_audit_heads_release(struct df_audit_heads *h)
{
    free(h->items);
    *h = (struct df_audit_heads){0};
}

/* Whether the last line is of this head. */
static bool is_last(struct df_str text, const struct df_audit_head *head)
{
    struct df_str line = DF_STR_NULL;
    struct df_audit_head last;

    for (struct df_str rest = text, each; rest.len > 0;) {
        rest = df_str_cut(rest, '\n', &each);
        line = each.len > 0 ? each : line;
    }
    return line.ptr && read_line(line, &last) && last.genuine && last.sequence == head->sequence &&
           memcmp(last.mac, head->mac, sizeof last.mac) == 0;
}

enum df_code df_audit_heads_add(const char *data_dir, const struct df_audit_head *head,
                                struct df_err *err)
{
    char path[4096];
    struct df_buf text, line;
    enum df_code code = path_of(data_dir, path, sizeof path, err);

    if (code != DF_OK || head->sequence == 0 || !audit_keys())
        return code;
    int fd = open_locked(path, O_RDWR | O_APPEND | O_CREAT);
    if (fd < 0)
        return df_err_errno(err, "cannot write %s", path);
    df_buf_init(&text, FILE_MAX);
    df_buf_init(&line, LINE_ROOM);
    code = df_owner_give_in(fd, data_dir, err);
    if (code == DF_OK)
        code = read_text(fd, &text, err);
    if (text.len > 0 && text.ptr[text.len - 1] != '\n')
        df_buf_addc(&line, '\n'); /* a crash cut the last line */
    add_line(&line, head);
    if (code == DF_OK && is_last(df_buf_str(&text), head))
        df_buf_reset(&line);
    else if (code == DF_OK)
        code = write_text(fd, df_buf_str(&line), err);
    df_buf_adds(&text, df_buf_str(&line));
    if (code == DF_OK && count_lines(df_buf_str(&text)) > LINES_MAX)
        code = thin_file(path, fd, df_buf_str(&text), err);
    close(fd);
    df_buf_release(&line);
    df_buf_release(&text);
    return code;
}

/* --- the database's head --- */

static void read_head(void *arg, struct df_result *r)
{
    struct df_audit_head *h = arg;
    struct df_str mac =
        df_col_null(r, audit_head_Mac) ? DF_STR_NULL : df_col_blob(r, audit_head_Mac);

    h->sequence = df_col_int(r, audit_head_Sequence);
    if (mac.len == sizeof h->mac)
        memcpy(h->mac, mac.ptr, sizeof h->mac);
}

enum df_code df_audit_head_read(struct df_db *db, int64_t now_ms, struct df_audit_head *ret,
                                struct df_err *err)
{
    bool found = false;

    *ret = (struct df_audit_head){.time_ms = now_ms};
    return df_db_one(db, DF_Q0(audit_head), read_head, ret, &found, err);
}

/* The head, if the log has the entry; else its sequence is 0. */
static enum df_code read_seen(struct df_db *db, int64_t now_ms, struct df_audit_head *ret,
                              struct df_err *err)
{
    *ret = (struct df_audit_head){.time_ms = now_ms};
    return df_db_each(db, DF_Q0(audit_head_seen), read_head, ret, err);
}

enum df_code df_audit_head_keep(struct df_db *db, const char *data_dir, int64_t now_ms,
                                struct df_err *err)
{
    struct df_audit_head head;
    enum df_code code = read_seen(db, now_ms, &head, err);

    return code == DF_OK ? df_audit_heads_add(data_dir, &head, err) : code;
}

/* --- while a server runs --- */

struct watch_job {
    struct df_job job;
    int64_t now_ms;
    struct df_audit_head head;
    bool unsealed;
    int64_t sealed;
};

static void note_unsealed(void *arg, struct df_result *r)
{
    (void)r;
    *(bool *)arg = true;
}

static enum df_code run_look(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct watch_job *j = (struct watch_job *)job;
    enum df_code code = read_seen(db, j->now_ms, &j->head, err);

    j->unsealed = false;
    if (code == DF_OK)
        code = df_db_each(db, DF_Q(audit_unsealed, .limit = df_int(1)), note_unsealed, &j->unsealed,
                          err);
    return code;
}

static enum df_code run_seal(struct df_db *db, struct df_job *job, struct df_err *err)
{
    return df_audit_seal(db, SEAL_ROWS, &((struct watch_job *)job)->sealed, err);
}

static void log_head(struct df_audit_watch *w, const struct df_audit_head *h)
{
    struct df_buf mac;

    if (h->sequence == w->logged_sequence ||
        (w->logged_sequence > 0 && h->time_ms - w->logged_ms < LOG_MS))
        return;
    df_buf_init(&mac, LINE_ROOM);
    add_hex(&mac, h->mac, sizeof h->mac);
    struct df_log_field fields[] = {DF_FI("sequence", h->sequence), DF_F("mac", df_buf_str(&mac))};
    df_log_write(DF_LOG_INFO, "AuditHead", fields, 2, "the last entry of the audit log");
    df_buf_release(&mac);
    w->logged_ms = h->time_ms;
    w->logged_sequence = h->sequence;
}

static enum df_code keep_head(struct df_audit_watch *w, const struct df_audit_head *h,
                              struct df_err *err)
{
    if (h->sequence == 0 ||
        (h->sequence == w->kept.sequence && memcmp(h->mac, w->kept.mac, sizeof h->mac) == 0))
        return DF_OK;
    log_head(w, h);
    enum df_code code = df_audit_heads_add(w->data_dir, h, err);
    if (code == DF_OK)
        w->kept = *h;
    return code;
}

static enum df_code seal_others(struct df_audit_watch *w, struct df_err *err)
{
    struct watch_job seal = {.job.run = run_seal, .sealed = SEAL_ROWS};
    enum df_code code = DF_OK;

    for (int i = 0; code == DF_OK && seal.sealed == SEAL_ROWS && i < SEAL_STEPS; i++)
        code = df_store_write_wait(w->store, &seal.job, err);
    return code;
}

/* The head first: whoever can keep entries from being sealed does not keep it from the file. */
static enum df_code watch(struct df_audit_watch *w, struct df_err *err)
{
    struct watch_job j = {.job.run = run_look, .now_ms = df_wall_ms(w->clock)};
    struct df_err seal_err = DF_ERR_INIT;
    enum df_code code = df_store_read_wait(w->store, &j.job, err);

    if (code != DF_OK)
        return code;
    code = keep_head(w, &j.head, err);
    if (j.unsealed && seal_others(w, &seal_err) != DF_OK && code == DF_OK)
        code = df_err_set(err, seal_err.code, "entries are not sealed: %s", seal_err.detail);
    return code;
}

void df_audit_watch_turn(struct df_audit_watch *w)
{
    struct df_err err = DF_ERR_INIT;
    enum df_code code = audit_keys() ? watch(w, &err) : DF_OK;
    int64_t now_ms = df_mono_ms(w->clock);

    if (code != DF_OK && (!w->failing || now_ms - w->warned_ms >= WARN_MS)) {
        df_log_warn("AuditHeadNotKept", "%s", err.detail);
        w->warned_ms = now_ms;
    }
    w->failing = code != DF_OK;
}
