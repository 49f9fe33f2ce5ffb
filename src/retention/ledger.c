/*
 * The ledger of erasures, data_dir/erasures: a line for each, only ever appended.
 *
 *     1 <id> <kind>:<hash in hex> <time> <mac in hex>
 *
 * The MAC is under the index key, so that nobody without it can have a person erased. Lines that
 * are damaged, as a crash may leave the last one, or that have a wrong MAC are passed over.
 */
#include "base/log.h"
#include "base/map.h"
#include "base/owner.h"
#include "base/secret.h"
#include "retention/erase.h"
#include "retention/erase.sql.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE_ROWS 500
#define NO_UUID   "00000000-0000-0000-0000-000000000000"

/* --- lines --- */

static void ledger_path(const struct df_purge *p, char out[4096])
{
    (void)snprintf(out, 4096, "%s/erasures", p->opt.data_dir);
}

static void write_mac(const struct df_keys *k, struct df_str line, char out[2 * DF_HASH_BYTES + 1])
{
    unsigned char mac[DF_HASH_BYTES];

    df_keys_hash(k, DF_STR("erasure"), line, mac);
    for (size_t i = 0; i < DF_HASH_BYTES; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", mac[i]);
}

size_t ledger_line_write(const struct df_keys *k, const struct ledger_entry *e,
                         char out[LEDGER_LINE_MAX])
{
    char time[DF_TIME_LEN + 1], mac[2 * DF_HASH_BYTES + 1];

    df_time_format(e->erased_ms, time);
    int len = snprintf(out, LEDGER_LINE_MAX, "1 %s %s %s", e->id.text, e->target, time);
    write_mac(k, df_str_n(out, (size_t)len), mac);
    return (size_t)len + (size_t)snprintf(out + len, LEDGER_LINE_MAX - (size_t)len, " %s\n", mac);
}

bool ledger_line_read(const struct df_keys *k, struct df_str line, struct ledger_entry *ret)
{
    char mac[2 * DF_HASH_BYTES + 1];
    size_t mac_len = sizeof mac - 1;
    struct df_str version, id, target, time, rest;
    struct df_subject ignored;

    if (line.len < mac_len + 2 || line.len >= LEDGER_LINE_MAX)
        return false;
    struct df_str said = df_str_n(line.ptr, line.len - mac_len - 1);
    write_mac(k, said, mac);
    if (line.ptr[said.len] != ' ' || !df_bytes_equal(mac, line.ptr + said.len + 1, mac_len))
        return false;
    rest = df_str_cut(said, ' ', &version);
    rest = df_str_cut(rest, ' ', &id);
    time = df_str_cut(rest, ' ', &target);
    (void)snprintf(ret->target, sizeof ret->target, DF_STR_FMT, DF_STR_ARG(target));
    return df_str_eq(version, DF_STR("1")) && df_uuid_parse(id, &ret->id) &&
           df_time_parse(time, &ret->erased_ms) && erase_target_read(ret->target, &ignored);
}

/* --- the file --- */

static enum df_code sync_directory(const struct df_purge *p, struct df_err *err)
{
    int fd = open(p->opt.data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    enum df_code code = DF_OK;

    if (fd < 0 || fsync(fd) != 0)
        code = df_err_errno(err, "cannot write %s", p->opt.data_dir);
    if (fd >= 0)
        close(fd);
    return code;
}

/* A last line without its end is ended first. */
static enum df_code append_line(int fd, const char *path, const char *line, size_t len,
                                struct df_err *err)
{
    struct stat st;
    char last = '\n';

    if (flock(fd, LOCK_EX) != 0 || fstat(fd, &st) != 0)
        return df_err_errno(err, "cannot lock %s", path);
    if (st.st_size > 0 && pread(fd, &last, 1, st.st_size - 1) != 1)
        return df_err_errno(err, "cannot read %s", path);
    if ((last != '\n' && write(fd, "\n", 1) != 1) || write(fd, line, len) != (ssize_t)len ||
        fsync(fd) != 0)
        return df_err_errno(err, "cannot write %s", path);
    return DF_OK;
}

static enum df_code append_entry(const struct df_purge *p, const struct ledger_entry *e,
                                 struct df_err *err)
{
    char path[4096], line[LEDGER_LINE_MAX];
    size_t len = ledger_line_write(p->opt.keys, e, line);

    ledger_path(p, path);
    int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return df_err_errno(err, "cannot open %s", path);
    enum df_code code = df_owner_give_in(fd, p->opt.data_dir, err);
    if (code == DF_OK)
        code = append_line(fd, path, line, len, err);
    close(fd);
    return code == DF_OK ? sync_directory(p, err) : code;
}

static struct ledger_entry entry_of(const struct purge_job *j)
{
    struct ledger_entry e = {.id = j->id, .erased_ms = j->cutoff_ms};

    (void)snprintf(e.target, sizeof e.target, "%s", j->target);
    return e;
}

enum df_code ledger_append(const struct df_purge *p, const struct purge_job *j, struct df_err *err)
{
    struct ledger_entry e = entry_of(j);

    return append_entry(p, &e, err);
}

/* --- the table --- */

enum df_code ledger_insert(struct df_db *db, const struct purge_job *j, int64_t now_ms,
                           struct df_err *err)
{
    struct df_subject s = {0};
    (void)now_ms;
    if (!erase_target_read(j->target, &s))
        return df_err_set(err, DF_E_INTERNAL, "the job %s names no person", j->id.text);
    return df_db_exec(db,
                      DF_Q(erasure_insert, .id = df_uuid(df_uuid_str(&j->id)),
                           .kind = df_int(s.kind),
                           .hash = df_blob(df_str_n((const char *)s.hash, sizeof s.hash)),
                           .now = df_time(j->cutoff_ms), .by = df_text(df_str_c(j->by))),
                      NULL, err);
}

/* --- both --- */

/* Only the file has it: the database is older. The erasure is done again. */
static enum df_code run_again(struct df_db *db, struct df_purge *p, struct purge_job *j, void *arg,
                              struct df_err *err)
{
    bool *added = arg;
    int64_t now_ms = df_wall_ms(p->opt.clock), there = 0;
    enum df_code code =
        df_db_query_int(db, DF_Q(erasure_exists, .id = df_uuid(df_uuid_str(&j->id))), &there, err);

    *added = false;
    if (code != DF_OK || there > 0)
        return code;
    code = ledger_insert(db, j, now_ms, err);
    if (code == DF_OK)
        code = purge_job_insert(db, j, now_ms, now_ms, err);
    *added = code == DF_OK;
    return code;
}

static enum df_code apply_again(struct df_purge *p, const struct ledger_entry *e, bool *ret_added,
                                struct df_err *err)
{
    struct purge_job *j = calloc(1, sizeof *j);
    if (!j)
        return df_err_set(err, DF_E_BUSY, "no memory");
    j->id = e->id;
    j->kind = DF_PURGE_SUBJECT;
    j->cutoff_ms = e->erased_ms;
    (void)snprintf(j->target, sizeof j->target, "%s", e->target);
    (void)snprintf(j->by, sizeof j->by, "ledger");
    enum df_code code =
        purge_write(&(struct purge_tx){.p = p, .j = j, .run = run_again, .arg = ret_added}, err);
    free(j);
    if (code == DF_E_DB_UNIQUE) { /* another process was quicker */
        *ret_added = false;
        code = DF_OK;
    }
    return code;
}

struct table_page {
    struct df_uuid after;
    size_t count;
    struct ledger_entry at[PAGE_ROWS];
};

static void read_erasure(void *arg, struct df_result *r)
{
    struct table_page *t = arg;
    struct ledger_entry *e = &t->at[t->count];
    struct df_subject s = {.kind = (enum df_subject_kind)df_col_int(r, erasure_list_SubjectKind)};
    struct df_str hash = df_col_blob(r, erasure_list_SubjectHash);

    if (t->count == PAGE_ROWS || !df_uuid_parse(df_col_text(r, erasure_list_Id), &e->id))
        return;
    t->after = e->id;
    if (hash.len != sizeof s.hash || s.kind < DF_SUBJECT_PHONE || s.kind > DF_SUBJECT_EMAIL)
        return;
    memcpy(s.hash, hash.ptr, sizeof s.hash);
    erase_target_write(&s, e->target);
    e->erased_ms = df_col_time(r, erasure_list_ErasedAt);
    t->count++;
}

static enum df_code run_page(struct df_db *db, struct df_purge *p, struct purge_job *j, void *arg,
                             struct df_err *err)
{
    struct table_page *t = arg;
    struct df_uuid after = t->after;

    (void)p;
    (void)j;
    t->count = 0;
    return df_db_each(
        db, DF_Q(erasure_list, .after = df_uuid(df_uuid_str(&after)), .limit = df_int(PAGE_ROWS)),
        read_erasure, t, err);
}

struct ledger {
    struct df_arena arena;
    struct df_map entries; /* of the file, by id */
    int64_t bytes;
};

static enum df_code read_ledger(const struct df_purge *p, struct ledger *l, struct df_err *err)
{
    char path[4096], line[LEDGER_LINE_MAX];
    struct ledger_entry e;

    ledger_path(p, path);
    FILE *f = fopen(path, "re");
    if (!f)
        return errno == ENOENT ? DF_OK : df_err_errno(err, "cannot read %s", path);
    while (fgets(line, sizeof line, f)) {
        size_t len = strlen(line);
        l->bytes += (int64_t)len;
        if (len == 0 || line[len - 1] != '\n')
            continue;
        e = (struct ledger_entry){0};
        if (!ledger_line_read(p->opt.keys, df_str_n(line, len - 1), &e)) {
            df_log_warn("ErasureLineIgnored", "a line of %s is damaged or was not written here",
                        path);
            continue;
        }
        struct ledger_entry *kept = DF_ARENA_ARRAY(&l->arena, struct ledger_entry, 1);
        *kept = e;
        (void)df_map_try_add(&l->entries, df_uuid_str(&kept->id), kept);
    }
    enum df_code code = ferror(f) ? df_err_errno(err, "cannot read %s", path) : DF_OK;
    fclose(f);
    return code;
}

/* Entries of the table that the file lacks are another host's. */
static enum df_code compare_table(struct df_purge *p, struct ledger *l, struct df_err *err)
{
    struct table_page *t = calloc(1, sizeof *t);
    enum df_code code = DF_OK;

    if (!t)
        return df_err_set(err, DF_E_BUSY, "no memory");
    (void)snprintf(t->after.text, sizeof t->after.text, NO_UUID);
    do {
        code = purge_read(&(struct purge_tx){.p = p, .run = run_page, .arg = t}, err);
        for (size_t i = 0; code == DF_OK && i < t->count; i++) {
            struct ledger_entry *e = df_map_get(&l->entries, df_uuid_str(&t->at[i].id));
            if (e)
                e->in_table = true;
            else
                code = append_entry(p, &t->at[i], err);
        }
    } while (code == DF_OK && t->count == PAGE_ROWS);
    free(t);
    return code;
}

static enum df_code apply_missing(struct df_purge *p, const struct ledger *l, struct df_err *err)
{
    struct ledger_entry *e;
    enum df_code code = DF_OK;
    int64_t again = 0;

    for (size_t at = 0; code == DF_OK && (e = df_map_next(&l->entries, &at));) {
        bool added = false;
        if (!e->in_table)
            code = apply_again(p, e, &added, err);
        again += added;
    }
    if (again > 0)
        df_log_warn("ErasuresAppliedAgain",
                    "the database is older than the ledger: %lld persons are erased again",
                    (long long)again);
    return code;
}

static enum df_code run_total(struct df_db *db, struct df_purge *p, struct purge_job *j, void *arg,
                              struct df_err *err)
{
    (void)p;
    (void)j;
    return df_db_query_int(db, DF_Q0(erasure_total), arg, err);
}

/* Nothing was added on either side since the last time. */
static bool is_unchanged(const struct df_purge *p, int64_t rows)
{
    char path[4096];
    struct stat st;

    ledger_path(p, path);
    int64_t bytes = stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
    return p->ledger_rows == rows && p->ledger_bytes == bytes;
}

enum df_code ledger_sync(struct df_purge *p, struct df_err *err)
{
    struct ledger l = {0};
    int64_t rows = 0;
    enum df_code code = purge_read(&(struct purge_tx){.p = p, .run = run_total, .arg = &rows}, err);

    if (code != DF_OK || is_unchanged(p, rows))
        return code;
    df_arena_init(&l.arena);
    code = read_ledger(p, &l, err);
    if (code == DF_OK)
        code = compare_table(p, &l, err);
    if (code == DF_OK)
        code = apply_missing(p, &l, err);
    p->ledger_rows = code == DF_OK ? rows : -1;
    p->ledger_bytes = l.bytes;
    df_map_release(&l.entries);
    df_arena_release(&l.arena);
    return code;
}
