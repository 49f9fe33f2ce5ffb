/*
 * Backup and restore call SQLite directly, as otherwise only its driver does: SQLite's backup
 * interface copies pages, which db.h cannot offer for every database.
 *
 * Backup holds one read transaction on the source from the first page to the last. In WAL mode that
 * blocks no writer, and the copy shows the database at that moment. Without the transaction, SQLite
 * would start over after every commit between two steps and never finish under steady load.
 */
#include "store/backup.h"

#include "base/arena.h"
#include "base/log.h"
#include "store/db.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEP_PAGES      1024
#define BUSY_TIMEOUT_MS 30000
#define BUSY_WAIT_MS    50

/* --- SQLite ----------------------------------------------------------------------------------- */

static enum df_code sqlite_code(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return DF_E_DB_TIMEOUT;
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
    case SQLITE_FULL:
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return DF_E_IO;
    default:
        return DF_E_DB;
    }
}

static enum df_code open_database(const char *path, int flags, sqlite3 **ret, struct df_err *err)
{
    sqlite3 *db = NULL;
    int rc = sqlite3_open_v2(path, &db, flags | SQLITE_OPEN_NOMUTEX, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_busy_timeout(db, BUSY_TIMEOUT_MS);
    if (rc == SQLITE_OK) {
        *ret = db;
        return DF_OK;
    }
    enum df_code code = df_err_set(err, sqlite_code(rc), "cannot open database %s: %s", path,
                                   db ? sqlite3_errmsg(db) : sqlite3_errstr(rc));
    sqlite3_close(db);
    return code;
}

static enum df_code exec_sql(sqlite3 *db, const char *path, const char *sql, struct df_err *err)
{
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);

    if (rc == SQLITE_OK)
        return DF_OK;
    return df_err_set(err, sqlite_code(rc), "%s: %s", path, sqlite3_errmsg(db));
}

/* DF_E_USAGE with `complaint` unless the first value that sql returns is `expected`. */
static enum df_code expect_value(sqlite3 *db, const char *path, const char *sql,
                                 const char *expected, const char *complaint, struct df_err *err)
{
    sqlite3_stmt *stmt = NULL;
    enum df_code code = DF_OK;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(stmt, 0);
        if (!text || strcmp(text, expected) != 0)
            code = df_err_set(err, DF_E_USAGE, "%s %s%s%.200s", path, complaint, text ? ": " : "",
                              text ? text : "");
    } else if (rc == SQLITE_NOTADB || (rc & 0xff) == SQLITE_CORRUPT) {
        code = df_err_set(err, DF_E_USAGE, "%s %s: %s", path, complaint, sqlite3_errmsg(db));
    } else {
        code = df_err_set(err, sqlite_code(rc), "%s: %s", path, sqlite3_errmsg(db));
    }
    sqlite3_finalize(stmt);
    return code;
}

/* Copies all pages, `step_pages` at a time (-1: all at once). */
static enum df_code copy_pages(sqlite3 *to, sqlite3 *from, int step_pages, struct df_err *err)
{
    int waited_ms = 0;
    int rc = SQLITE_OK;
    sqlite3_backup *b = sqlite3_backup_init(to, "main", from, "main");

    if (!b)
        return df_err_set(err, sqlite_code(sqlite3_errcode(to)), "cannot copy: %s",
                          sqlite3_errmsg(to));
    while (rc == SQLITE_OK || rc == SQLITE_BUSY || rc == SQLITE_LOCKED) {
        if (rc != SQLITE_OK) {
            if (waited_ms >= BUSY_TIMEOUT_MS)
                break;
            waited_ms += BUSY_WAIT_MS;
            (void)sqlite3_sleep(BUSY_WAIT_MS);
        }
        rc = sqlite3_backup_step(b, step_pages);
    }
    int finish = sqlite3_backup_finish(b);
    if (rc == SQLITE_DONE && finish == SQLITE_OK)
        return DF_OK;
    rc = rc == SQLITE_DONE ? finish : rc;
    return df_err_set(err, sqlite_code(rc), "cannot copy the database: %s", sqlite3_errstr(rc));
}

/* --- files ------------------------------------------------------------------------------------ */

/* Makes a path that SQLite does not take for a URI or another special name. */
static const char *plain_path(struct df_arena *arena, const char *path)
{
    return path[0] == '/' ? path : df_arena_printf(arena, "./%s", path).ptr;
}

static enum df_code database_path(struct df_arena *arena, const char *url, const char **ret,
                                  struct df_err *err)
{
    enum df_dialect dialect;
    enum df_code code = df_db_dialect_of(url, &dialect, err);

    if (code != DF_OK)
        return code;
    if (dialect != DF_SQLITE)
        return df_err_set(err, DF_E_USAGE,
                          "backup and restore are for the embedded database; use the tools of %s",
                          dialect == DF_POSTGRES ? "PostgreSQL (pg_dump, pg_basebackup)"
                                                 : "SQL Server (BACKUP DATABASE)");
    const char *path = url + strlen("sqlite:");
    if (!*path || strcmp(path, ":memory:") == 0)
        return df_err_set(err, DF_E_USAGE, "%s is not a database in a file", url);
    *ret = plain_path(arena, path);
    return DF_OK;
}

static enum df_code sync_path(const char *path, int flags, struct df_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | flags);

    if (fd < 0)
        return df_err_errno(err, "%s", path);
    enum df_code code = fsync(fd) == 0 ? DF_OK : df_err_errno(err, "fsync %s", path);
    (void)close(fd);
    return code;
}

/* path comes from plain_path and so has a slash. */
static enum df_code sync_directory_of(struct df_arena *arena, const char *path, struct df_err *err)
{
    size_t len = (size_t)(strrchr(path, '/') - path);

    return sync_path(len ? df_arena_cstr(arena, df_str_n(path, len)) : "/", O_DIRECTORY, err);
}

/* Removes a database and the files that SQLite may have put beside it. */
static void remove_database(struct df_arena *arena, const char *path)
{
    static const char *const suffixes[] = {"", "-journal", "-wal", "-shm"};

    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
        (void)unlink(df_arena_printf(arena, "%s%s", path, suffixes[i]).ptr);
}

static enum df_code create_private(const char *path, struct df_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0)
        return df_err_errno(err, "cannot create %s", path);
    (void)close(fd);
    return DF_OK;
}

static enum df_code refuse_existing(struct df_err *err, const char *path)
{
    return df_err_set(err, DF_E_USAGE, "%s exists already: choose another name or remove it", path);
}

static enum df_code rename_new(const char *from, const char *to, struct df_err *err)
{
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return DF_OK;
    if (errno == EEXIST)
        return refuse_existing(err, to);
    /* Some file systems cannot refuse. There, the check that the name was free a moment ago must
     * suffice. */
    if ((errno == EINVAL || errno == ENOSYS) && rename(from, to) == 0)
        return DF_OK;
    return df_err_errno(err, "cannot rename %s to %s", from, to);
}

/* --- backup ----------------------------------------------------------------------------------- */

static enum df_code copy_snapshot(const char *from_path, sqlite3 *to, struct df_err *err)
{
    sqlite3 *from = NULL;
    enum df_code code = open_database(from_path, SQLITE_OPEN_READWRITE, &from, err);

    /* The first read takes the snapshot; BEGIN alone does not. */
    if (code == DF_OK)
        code = exec_sql(from, from_path, "BEGIN; SELECT COUNT(*) FROM sqlite_schema;", err);
    if (code == DF_OK)
        code = copy_pages(to, from, STEP_PAGES, err);
    sqlite3_close(from);
    return code;
}

/* Writes the copy into the empty file at to_path and leaves it a single, checked, durable file. */
static enum df_code write_copy(const char *from_path, const char *to_path, struct df_err *err)
{
    sqlite3 *to = NULL;
    enum df_code code = open_database(to_path, SQLITE_OPEN_READWRITE, &to, err);

    /* Half a copy is useless, so it needs no journal while it is written. */
    if (code == DF_OK)
        code = exec_sql(to, to_path, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;", err);
    if (code == DF_OK)
        code = copy_snapshot(from_path, to, err);
    /* The copy is in WAL mode, as its source is; a single file must leave it. */
    if (code == DF_OK)
        code = expect_value(to, to_path, "PRAGMA journal_mode = DELETE", "delete",
                            "cannot leave write-ahead mode", err);
    if (code == DF_OK)
        code = expect_value(to, to_path, "PRAGMA quick_check(1)", "ok", "is damaged", err);
    sqlite3_close(to);
    if (code == DF_OK)
        code = sync_path(to_path, 0, err);
    return code;
}

enum df_code df_backup(const char *url, const char *file, struct df_err *err)
{
    struct df_arena arena = {0};
    struct stat st;
    const char *path = "";
    const char *tmp = NULL;
    enum df_code code = database_path(&arena, url, &path, err);

    if (code != DF_OK)
        goto out;
    file = plain_path(&arena, file);
    if (lstat(file, &st) == 0) {
        code = refuse_existing(err, file);
        goto out;
    }
    tmp = df_arena_printf(&arena, "%s.tmp-%ld", file, (long)getpid()).ptr;
    remove_database(&arena, tmp);
    code = create_private(tmp, err);
    if (code != DF_OK)
        goto out;
    code = write_copy(path, tmp, err);
    if (code == DF_OK)
        code = rename_new(tmp, file, err);
    if (code == DF_OK)
        code = sync_directory_of(&arena, file, err);
    else
        remove_database(&arena, tmp);
    if (code == DF_OK)
        df_log_info("BackupWritten", "%s", file);
out:
    df_arena_release(&arena);
    return code;
}

/* --- restore ---------------------------------------------------------------------------------- */

/* SQLite would read a truncated last page as if it ended in zeros. */
static enum df_code check_length(sqlite3 *db, const char *file, struct df_err *err)
{
    struct stat st;
    char sql[160];

    if (stat(file, &st) != 0)
        return df_err_errno(err, "%s", file);
    (void)snprintf(sql, sizeof(sql),
                   "SELECT CASE %lld %% page_size WHEN 0 THEN 'ok' ELSE 'its end is missing' END "
                   "FROM pragma_page_size",
                   (long long)st.st_size);
    return expect_value(db, file, sql, "ok", "is damaged", err);
}

static enum df_code check_backup(sqlite3 *db, const char *file, struct df_err *err)
{
    /* The file may come from anywhere: do not run code from its schema. */
    enum df_code code =
        exec_sql(db, file, "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;", err);

    if (code == DF_OK)
        code = expect_value(db, file, "PRAGMA integrity_check(1)", "ok",
                            "is damaged or not a database", err);
    if (code == DF_OK)
        code = check_length(db, file, err);
    if (code == DF_OK)
        code = expect_value(
            db, file,
            "SELECT CASE COUNT(*) WHEN 0 THEN 'SchemaScripts is missing' ELSE 'ok' END "
            "FROM sqlite_schema WHERE type = 'table' AND name = 'SchemaScripts'",
            "ok", "is not a DataFlow database", err);
    return code;
}

static enum df_code refuse_itself(const char *path, const char *file, struct df_err *err)
{
    struct stat a;
    struct stat b;

    if (stat(path, &a) == 0 && stat(file, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return df_err_set(err, DF_E_USAGE, "%s is the database itself", file);
    return DF_OK;
}

/* One step is one write transaction. */
static enum df_code replace_content(struct df_arena *arena, const char *path, sqlite3 *from,
                                    struct df_err *err)
{
    sqlite3 *to = NULL;
    bool created = access(path, F_OK) != 0 && errno == ENOENT;
    enum df_code code = created ? create_private(path, err) : DF_OK;

    if (code != DF_OK)
        return code;
    code = open_database(path, SQLITE_OPEN_READWRITE, &to, err);
    if (code == DF_OK)
        code = exec_sql(to, path, "PRAGMA synchronous = FULL;", err);
    if (code == DF_OK)
        code = copy_pages(to, from, -1, err);
    sqlite3_close(to);
    if (created && code == DF_OK)
        code = sync_directory_of(arena, path, err);
    else if (created)
        remove_database(arena, path);
    return code;
}

enum df_code df_restore(const char *url, const char *file, struct df_err *err)
{
    struct df_arena arena = {0};
    const char *path = "";
    sqlite3 *from = NULL;
    enum df_code code = database_path(&arena, url, &path, err);

    if (code != DF_OK)
        goto out;
    file = plain_path(&arena, file);
    code = refuse_itself(path, file, err);
    if (code == DF_OK)
        code = open_database(file, SQLITE_OPEN_READONLY, &from, err);
    if (code == DF_OK)
        code = check_backup(from, file, err);
    if (code == DF_OK)
        code = replace_content(&arena, path, from, err);
    if (code == DF_OK)
        df_log_info("BackupRestored", "%s now has the content of %s", path, file);
out:
    sqlite3_close(from);
    df_arena_release(&arena);
    return code;
}
