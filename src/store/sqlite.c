/*
 * SQLite: the embedded database, in WAL mode with synchronous=FULL, so that a commit which returned
 * has been fsynced. One connection writes at a time; readers see the last commit and block nobody.
 *
 * Checkpoints happen inside the commit that makes the WAL longer than a thousand pages, and that
 * commit's callers wait for it. Four thousand pages gained 2 % of throughput and doubled the p99
 * latency of a busy server. A checkpointing thread would never catch up with a busy writer, and the
 * WAL would grow without bound.
 *
 * The schema lock is an flock on PATH.lock, not a transaction: it must outlast the transactions of
 * the scripts that run under it, and the kernel drops it with the process.
 */
#include "base/clock.h"
#include "base/mem.h"
#include "store/sqlite_private.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define VACUUM_PAGES "100" /* moved in one step: some milliseconds */

static const char *const control_sql[CTL_COUNT] = {
    [CTL_BEGIN] = "BEGIN",
    [CTL_BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [CTL_COMMIT] = "COMMIT",
    [CTL_ROLLBACK] = "ROLLBACK",
    [CTL_SAVEPOINT] = "SAVEPOINT df",
    [CTL_RELEASE] = "RELEASE df",
    [CTL_ROLLBACK_TO] = "ROLLBACK TO df",
    [CTL_PING] = "SELECT COUNT(*) FROM sqlite_schema",
};

/* --- errors ----------------------------------------------------------------------------------- */

static enum df_code constraint_code(int rc)
{
    switch (rc) {
    case SQLITE_CONSTRAINT_UNIQUE:
    case SQLITE_CONSTRAINT_PRIMARYKEY:
    case SQLITE_CONSTRAINT_ROWID:
        return DF_E_DB_UNIQUE;
    default:
        return DF_E_DB_CONSTRAINT;
    }
}

/* os_error belongs to the last I/O error, which may be old: it counts only for I/O results. */
bool df_sqlite_is_full(int rc, int os_error)
{
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return true;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
        return os_error == ENOSPC || os_error == EDQUOT;
    default:
        return false;
    }
}

/* Errors of the file rather than of the statement. Their texts name the file for the operator. */
static enum df_code fail_file(struct sqlite_db *s, int rc, const char *message, struct df_err *err)
{
    int os_error = s->handle ? sqlite3_system_errno(s->handle) : 0;
    char buf[128];
    const char *reason = os_error ? strerror_r(os_error, buf, sizeof(buf)) : message;

    if (df_sqlite_is_full(rc, os_error))
        return df_err_set(err, DF_E_DISK_FULL, "the disk is full: make room for the database %s",
                          s->path);
    /* A new connection may succeed: the file may have been replaced, the disk mounted again. */
    s->base.alive = false;
    switch (rc & 0xff) {
    case SQLITE_CORRUPT:
        return df_err_set(err, DF_E_DB, "the database %s is damaged: restore a backup", s->path);
    case SQLITE_NOTADB:
        return df_err_set(err, DF_E_DB, "%s is not an SQLite database", s->path);
    case SQLITE_READONLY:
        return df_err_set(err, DF_E_DB_UNAVAILABLE, "the database %s cannot be written: %s",
                          s->path, reason);
    case SQLITE_CANTOPEN:
        return df_err_set(err, DF_E_DB_UNAVAILABLE, "cannot open the database %s: %s", s->path,
                          reason);
    default:
        return df_err_set(err, DF_E_DB_UNAVAILABLE, "input or output failed on the database %s: %s",
                          s->path, reason);
    }
}

enum df_code df_sqlite_fail(struct sqlite_db *s, int rc, const char *what, struct df_err *err)
{
    const char *message = s->handle ? sqlite3_errmsg(s->handle) : sqlite3_errstr(rc);

    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return df_err_set(err, DF_E_DB_CONFLICT, "%s: another connection holds the database's lock",
                          what);
    case SQLITE_CONSTRAINT:
        return df_err_set(err, constraint_code(rc), "%s: %s", what, message);
    case SQLITE_TOOBIG:
    case SQLITE_MISMATCH:
        return df_err_set(err, DF_E_DB_CONSTRAINT, "%s: %s", what, message);
    case SQLITE_INTERRUPT:
        return df_err_set(err, DF_E_DB_TIMEOUT, "%s: interrupted", what);
    case SQLITE_NOMEM:
        return df_err_set(err, DF_E_DB_UNAVAILABLE, "%s: out of memory", what);
    case SQLITE_READONLY:
        if (s->read_only)
            return df_err_set(err, DF_E_USAGE, "%s: the connection is for reading", what);
        return fail_file(s, rc, message, err);
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN:
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return fail_file(s, rc, message, err);
    default:
        return df_err_set(err, DF_E_DB, "%s: %s", what, message);
    }
}

/* --- opening ---------------------------------------------------------------------------------- */

static void init_library(void)
{
    /* Connections belong to one thread, so SQLite need not lock them; nor do we read its memory
     * figures, for which it would take a global lock at every allocation. Fails harmlessly once
     * initialised. */
    (void)sqlite3_config(SQLITE_CONFIG_MULTITHREAD);
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    /* Pages that each connection allocates at first; it gets more when it needs them. */
    (void)sqlite3_config(SQLITE_CONFIG_PAGECACHE, NULL, 0, 4);
}

/*
 * Retries every millisecond at first. SQLite's own handler soon sleeps 100 ms at a time and would
 * rarely hit the gap between two transactions of a busy writer in another process.
 */
static int on_busy(void *arg, int count)
{
    struct sqlite_db *s = arg;
    int64_t now_ms = df_mono_ms(df_clock_real());

    if (count == 0)
        s->busy_since_ms = now_ms;
    if (now_ms - s->busy_since_ms >= s->busy_timeout_ms)
        return 0;
    df_sleep_ms(count < 200 ? 1 : 5);
    return 1;
}

/*
 * New databases are for their owner alone; SQLite gives the WAL the mode of the database. O_EXCL is
 * needed for more than that: closing a descriptor of an existing file would drop the locks that
 * other connections of this process have on it.
 */
static enum df_code create_private(const char *path, struct df_err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0) {
        close(fd);
        return DF_OK;
    }
    char reason[128];
    struct stat st;
    if (errno == EEXIST && stat(path, &st) == 0) {
        if (S_ISREG(st.st_mode))
            return DF_OK;
        return df_err_set(err, DF_E_CONFIG, "database.url: %s is not a regular file", path);
    }
    return df_err_set(err, DF_E_DB_UNAVAILABLE, "cannot create the database %s: %s", path,
                      strerror_r(errno, reason, sizeof(reason)));
}

static enum df_code run_pragmas(struct sqlite_db *s, const char *sql, struct df_err *err)
{
    int rc = sqlite3_exec(s->handle, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? DF_OK : df_sqlite_fail(s, rc, "opening the database", err);
}

/* Switching to WAL needs the file exclusively for a moment, and SQLite does not call the busy
 * handler for it. */
static enum df_code enter_wal(struct sqlite_db *s, struct df_err *err)
{
    int64_t start = df_mono_ms(df_clock_real());
    sqlite3_stmt *h = NULL;
    int rc;

    for (;;) {
        rc = sqlite3_prepare_v2(s->handle, "PRAGMA journal_mode=WAL", -1, &h, NULL);
        if (rc == SQLITE_OK)
            rc = sqlite3_step(h);
        if ((rc & 0xff) != SQLITE_BUSY || df_mono_ms(df_clock_real()) - start > s->busy_timeout_ms)
            break;
        sqlite3_finalize(h);
        df_sleep_ms(5);
    }
    enum df_code code = DF_OK;
    if (rc != SQLITE_ROW) {
        code = df_sqlite_fail(s, rc, "opening the database", err);
    } else {
        const char *mode = (const char *)sqlite3_column_text(h, 0);
        if (!mode || strcmp(mode, "wal") != 0)
            code = df_err_set(err, DF_E_DB_UNAVAILABLE,
                              "the file system of %s does not allow SQLite's WAL mode", s->path);
    }
    sqlite3_finalize(h);
    return code;
}

static bool is_empty(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_size == 0;
}

static enum df_code configure_connection(struct sqlite_db *s, struct df_err *err)
{
    sqlite3_extended_result_codes(s->handle, 1);
    sqlite3_busy_handler(s->handle, on_busy, s);
    sqlite3_db_config(s->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(s->handle, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
    sqlite3_db_config(s->handle, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);

    enum df_code code = run_pragmas(s,
                                    "PRAGMA trusted_schema=OFF;"
                                    "PRAGMA secure_delete=ON;"
                                    "PRAGMA foreign_keys=ON;"
                                    "PRAGMA temp_store=MEMORY;"
                                    "PRAGMA cache_size=-2048;",
                                    err);
    if (code != DF_OK || s->read_only)
        return code;
    /* Only a file that is empty takes it without being written anew; on others it would be a write
     * with every connection. */
    if (is_empty(s->path))
        code = run_pragmas(s, "PRAGMA auto_vacuum=INCREMENTAL", err);
    if (code == DF_OK)
        code = enter_wal(s, err);
    if (code != DF_OK)
        return code;
    return run_pragmas(s,
                       "PRAGMA synchronous=FULL;"
                       "PRAGMA wal_autocheckpoint=1000;"
                       "PRAGMA journal_size_limit=67108864;",
                       err);
}

static void sqlite_close(struct df_db *db)
{
    struct sqlite_db *s = sqlite_of(db);

    for (size_t i = 0; i < CTL_COUNT; i++)
        sqlite3_finalize(s->control[i]);
    df_sqlite_stmts_release(s);
    sqlite3_close(s->handle);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    free(s->path);
    free(s);
}

/* Connections share a file; a database in memory would be private to each connection. */
static enum df_code sqlite_check_url(const char *url, struct df_err *err)
{
    const char *path = url + strlen("sqlite:");

    if (*path && strcmp(path, ":memory:") != 0)
        return DF_OK;
    return df_err_set(err, DF_E_CONFIG,
                      "database.url: sqlite: needs the path of a file, as in sqlite:var/data.db");
}

static enum df_code sqlite_open(const struct df_db_options *opt, struct df_db **ret,
                                struct df_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const char *path = opt->url + strlen("sqlite:");
    enum df_code code = sqlite_check_url(opt->url, err);

    if (code != DF_OK)
        return code;
    pthread_once(&once, init_library);

    struct sqlite_db *s = df_calloc(1, sizeof(*s));
    s->base = (struct df_db){.ops = &df_sqlite_ops, .alive = true};
    s->path = df_strdup(df_str_c(path));
    s->read_only = opt->read_only;
    s->busy_timeout_ms = opt->statement_timeout_ms;
    s->lock_fd = -1;

    if (!s->read_only && !opt->existing)
        code = create_private(path, err);
    if (code != DF_OK)
        goto out;
    int mode = s->read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
    int rc = sqlite3_open_v2(path, &s->handle, mode | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc != SQLITE_OK)
        code = df_sqlite_fail(s, rc, "opening the database", err);
    else if (!s->read_only && sqlite3_db_readonly(s->handle, "main") == 1)
        code = df_err_set(err, DF_E_DB_UNAVAILABLE,
                          "the database %s cannot be written: it is on a read-only file system, or "
                          "its file is read-only",
                          path);
    else
        code = configure_connection(s, err);
out:
    if (code != DF_OK) {
        sqlite_close(&s->base);
        return code;
    }
    *ret = &s->base;
    return DF_OK;
}

/* --- transactions ----------------------------------------------------------------------------- */

static enum df_code run_control(struct sqlite_db *s, enum control c, struct df_err *err)
{
    int rc = SQLITE_OK;
    if (!s->control[c])
        rc = sqlite3_prepare_v3(s->handle, control_sql[c], -1, SQLITE_PREPARE_PERSISTENT,
                                &s->control[c], NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(s->control[c]);
        if (rc == SQLITE_DONE || rc == SQLITE_ROW) {
            sqlite3_reset(s->control[c]);
            return DF_OK;
        }
    }
    enum df_code code = df_sqlite_fail(s, rc, control_sql[c], err);
    sqlite3_reset(s->control[c]);
    return code;
}

/* SQLite goes on writing to a file that was deleted or replaced, and its commits would be lost. */
static enum df_code check_file(struct sqlite_db *s, struct df_err *err)
{
    int moved = 0;

    sqlite3_file_control(s->handle, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    if (!moved)
        return DF_OK;
    s->base.alive = false;
    return df_err_set(err, DF_E_DB_UNAVAILABLE,
                      "the database %s was removed or replaced while it was in use: put it back",
                      s->path);
}

static enum df_code sqlite_ping(struct df_db *db, struct df_err *err)
{
    enum df_code code = check_file(sqlite_of(db), err);
    return code == DF_OK ? run_control(sqlite_of(db), CTL_PING, err) : code;
}

static enum df_code sqlite_begin(struct df_db *db, bool write, struct df_err *err)
{
    enum df_code code = check_file(sqlite_of(db), err);
    if (code != DF_OK)
        return code;
    return run_control(sqlite_of(db), write ? CTL_BEGIN_WRITE : CTL_BEGIN, err);
}

static enum df_code sqlite_commit(struct df_db *db, struct df_err *err)
{
    enum df_code code = check_file(sqlite_of(db), err);
    return code == DF_OK ? run_control(sqlite_of(db), CTL_COMMIT, err) : code;
}

static void sqlite_rollback(struct df_db *db)
{
    struct sqlite_db *s = sqlite_of(db);

    /* After a full disk and similar errors SQLite has rolled back already. */
    if (!sqlite3_get_autocommit(s->handle) && run_control(s, CTL_ROLLBACK, NULL) != DF_OK)
        db->alive = false;
}

static enum df_code sqlite_savepoint(struct df_db *db, struct df_err *err)
{
    return run_control(sqlite_of(db), CTL_SAVEPOINT, err);
}

static enum df_code sqlite_release(struct df_db *db, struct df_err *err)
{
    return run_control(sqlite_of(db), CTL_RELEASE, err);
}

static enum df_code sqlite_rollback_to(struct df_db *db, struct df_err *err)
{
    struct sqlite_db *s = sqlite_of(db);

    if (sqlite3_get_autocommit(s->handle))
        return df_err_set(err, DF_E_DB, "SQLite has rolled the whole transaction back");
    enum df_code code = run_control(s, CTL_ROLLBACK_TO, err);
    return code == DF_OK ? run_control(s, CTL_RELEASE, err) : code;
}

/* --- space ------------------------------------------------------------------------------------ */

static int read_number(void *arg, int columns, char **values, char **names)
{
    (void)names;
    if (columns > 0 && values[0])
        *(int64_t *)arg = strtoll(values[0], NULL, 10);
    return 0;
}

/* The last statement's first column, if it has one, is *ret_left: pages that are free, or whether
 * somebody still reads the log. */
static int64_t sqlite_last_id(struct df_db *db)
{
    return sqlite3_last_insert_rowid(sqlite_of(db)->handle);
}

static enum df_code sqlite_give_back(struct df_db *db, enum df_space what, int64_t *ret_left,
                                     struct df_err *err)
{
    static const char *const sql[] = {
        [DF_SPACE_STEP] = "PRAGMA incremental_vacuum(" VACUUM_PAGES ");"
                          "SELECT CASE WHEN v.auto_vacuum = 2 THEN f.freelist_count ELSE 0 END"
                          " FROM pragma_freelist_count AS f, pragma_auto_vacuum AS v",
        [DF_SPACE_LOG] = "PRAGMA wal_checkpoint(TRUNCATE)",
        [DF_SPACE_ALL] = "PRAGMA auto_vacuum=INCREMENTAL; VACUUM; PRAGMA wal_checkpoint(TRUNCATE)",
    };
    struct sqlite_db *s = sqlite_of(db);

    *ret_left = 0;
    int rc = sqlite3_exec(s->handle, sql[what], read_number, ret_left, NULL);
    return rc == SQLITE_OK ? DF_OK : df_sqlite_fail(s, rc, "giving space back", err);
}

/* --- schema ----------------------------------------------------------------------------------- */

static enum df_code fail_script(struct sqlite_db *s, const char *sql, const char *at, int rc,
                                struct df_err *err)
{
    char where[32];
    int inside = sqlite3_error_offset(s->handle);
    size_t offset = (size_t)(at - sql) + strspn(at, " \t\r\n") + (size_t)(inside > 0 ? inside : 0);

    (void)snprintf(where, sizeof(where), "line %d", df_db_line_at(sql, offset));
    return df_sqlite_fail(s, rc, where, err);
}

static enum df_code sqlite_script(struct df_db *db, const char *sql, struct df_err *err)
{
    struct sqlite_db *s = sqlite_of(db);
    enum df_code code = DF_OK;

    for (const char *p = sql; *p && code == DF_OK;) {
        const char *tail = p;
        sqlite3_stmt *h = NULL;
        int rc = sqlite3_prepare_v2(s->handle, p, -1, &h, &tail);
        if (rc == SQLITE_OK && h) {
            while ((rc = sqlite3_step(h)) == SQLITE_ROW) {
                /* Scripts have no reader for their rows. */
            }
        }
        if (rc != SQLITE_OK && rc != SQLITE_DONE)
            code = fail_script(s, sql, p, rc, err);
        sqlite3_finalize(h);
        p = tail;
    }
    /* A failed script may have left its own transaction open. */
    if (!db->in_transaction)
        sqlite_rollback(db);
    return code;
}

static enum df_code sqlite_schema_lock(struct df_db *db, struct df_err *err)
{
    struct sqlite_db *s = sqlite_of(db);
    int64_t start = df_mono_ms(df_clock_real());
    char path[4096];

    int len = snprintf(path, sizeof(path), "%s.lock", s->path);
    if (len < 0 || (size_t)len >= sizeof(path))
        return df_err_set(err, DF_E_CONFIG, "the database's path is too long");
    if (s->lock_fd < 0)
        s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock_fd < 0)
        return df_err_errno(err, "cannot open %s", path);

    while (flock(s->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return df_err_errno(err, "cannot lock %s", path);
        if (df_mono_ms(df_clock_real()) - start > DF_SCHEMA_LOCK_WAIT_MS)
            return df_err_set(err, DF_E_DB_TIMEOUT, "another process holds the schema lock %s",
                              path);
        df_sleep_ms(DF_SCHEMA_LOCK_POLL_MS);
    }
    return DF_OK;
}

static void sqlite_schema_unlock(struct df_db *db)
{
    struct sqlite_db *s = sqlite_of(db);
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    s->lock_fd = -1;
}

const struct df_db_ops df_sqlite_ops = {
    .dialect = DF_SQLITE,
    .check_url = sqlite_check_url,
    .open = sqlite_open,
    .close = sqlite_close,
    .ping = sqlite_ping,
    .query = df_sqlite_query,
    .step = df_sqlite_step,
    .result_free = df_sqlite_result_free,
    .columns = df_sqlite_columns,
    .col_null = df_sqlite_col_null,
    .col_int = df_sqlite_col_int,
    .col_bool = df_sqlite_col_bool,
    .col_time = df_sqlite_col_time,
    .col_text = df_sqlite_col_text,
    .col_blob = df_sqlite_col_blob,
    .exec = df_sqlite_exec,
    .exec_many = df_sqlite_exec_many,
    .begin = sqlite_begin,
    .commit = sqlite_commit,
    .rollback = sqlite_rollback,
    .savepoint = sqlite_savepoint,
    .release = sqlite_release,
    .rollback_to = sqlite_rollback_to,
    .script = sqlite_script,
    .last_id = sqlite_last_id,
    .give_back = sqlite_give_back,
    .schema_lock = sqlite_schema_lock,
    .schema_unlock = sqlite_schema_unlock,
};
