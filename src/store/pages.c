/*
 * SQLite reads its pages, from the file and from what stands in -wal, and shows them to nobody:
 * Debian's build lacks sqlite_dbpage. But its backup interface copies them to another database,
 * and a database is whatever a VFS says it is. Here it is a file that keeps nothing: what is
 * written to it goes to the caller.
 *
 * The copy's first page is SQLite's own work in some bytes (change counter, schema cookie), always
 * the same; it is written more than once, and the last one counts.
 */
#include "store/pages.h"

#include "store/sqlite_private.h"

#include <stdio.h>
#include <stdlib.h>

#define STEP_PAGES 1024

struct sink {
    enum df_code (*page)(void *arg, uint32_t number, const void *bytes, size_t len,
                         struct df_err *err);
    void *arg;
    uint32_t page_size;
    sqlite3_int64 size;
    enum df_code code; /* of the caller */
    struct df_err *err;
};

struct sink_file {
    sqlite3_file base;
    struct sink *sink;
};

static struct sink *sink_of(sqlite3_file *f)
{
    return ((struct sink_file *)f)->sink;
}

/* --- a file that keeps nothing --- */

static int file_close(sqlite3_file *f)
{
    (void)f;
    return SQLITE_OK;
}

/* Only of an empty file: the first page stays in SQLite's memory, no other is read back. */
static int file_read(sqlite3_file *f, void *ptr, int len, sqlite3_int64 at)
{
    (void)f;
    (void)at;
    memset(ptr, 0, (size_t)len);
    return SQLITE_IOERR_SHORT_READ;
}

static int file_write(sqlite3_file *f, const void *ptr, int len, sqlite3_int64 at)
{
    struct sink *s = sink_of(f);

    if (at + len > s->size)
        s->size = at + len;
    if ((uint32_t)len != s->page_size || at % len != 0)
        s->code = df_err_set(s->err, DF_E_INTERNAL, "SQLite does not write whole pages");
    else
        s->code = s->page(s->arg, (uint32_t)(at / len) + 1, ptr, (size_t)len, s->err);
    return s->code == DF_OK ? SQLITE_OK : SQLITE_IOERR_WRITE;
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    sink_of(f)->size = size;
    return SQLITE_OK;
}

static int file_done(sqlite3_file *f, int flags)
{
    (void)f;
    (void)flags;
    return SQLITE_OK;
}

static int file_size(sqlite3_file *f, sqlite3_int64 *ret)
{
    *ret = sink_of(f)->size;
    return SQLITE_OK;
}

static int file_is_reserved(sqlite3_file *f, int *ret)
{
    (void)f;
    *ret = 0;
    return SQLITE_OK;
}

static int file_control(sqlite3_file *f, int what, void *arg)
{
    (void)f;
    (void)what;
    (void)arg;
    return SQLITE_NOTFOUND;
}

static int file_figure(sqlite3_file *f)
{
    (void)f;
    return 0;
}

static const sqlite3_io_methods file_methods = {
    .iVersion = 1,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_done,
    .xFileSize = file_size,
    .xLock = file_done,
    .xUnlock = file_done,
    .xCheckReservedLock = file_is_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_figure,
    .xDeviceCharacteristics = file_figure,
};

/* --- the file system that has only it --- */

static int vfs_open(sqlite3_vfs *v, const char *name, sqlite3_file *f, int flags, int *ret_flags)
{
    (void)name;
    *(struct sink_file *)f =
        (struct sink_file){.base.pMethods = &file_methods, .sink = v->pAppData};
    if (ret_flags)
        *ret_flags = flags;
    return SQLITE_OK;
}

static int vfs_delete(sqlite3_vfs *v, const char *name, int sync)
{
    (void)v;
    (void)name;
    (void)sync;
    return SQLITE_OK;
}

static int vfs_access(sqlite3_vfs *v, const char *name, int flags, int *ret)
{
    (void)v;
    (void)name;
    (void)flags;
    *ret = 0;
    return SQLITE_OK;
}

static int vfs_full_name(sqlite3_vfs *v, const char *name, int size, char *out)
{
    (void)v;
    (void)snprintf(out, (size_t)size, "%s", name);
    return SQLITE_OK;
}

static int vfs_random(sqlite3_vfs *v, int len, char *out)
{
    (void)v;
    memset(out, 0, (size_t)len);
    return len;
}

static int vfs_sleep(sqlite3_vfs *v, int us)
{
    (void)v;
    return us;
}

static int vfs_time(sqlite3_vfs *v, double *ret)
{
    (void)v;
    *ret = 0;
    return SQLITE_OK;
}

/* --- the copy --- */

static enum df_code copy_pages(sqlite3 *to, struct sqlite_db *from, struct sink *s)
{
    sqlite3_backup *b = NULL;
    int rc =
        sqlite3_exec(to, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;", NULL, NULL, NULL);

    if (rc == SQLITE_OK && !(b = sqlite3_backup_init(to, "main", from->handle, "main")))
        rc = sqlite3_errcode(to);
    while (rc == SQLITE_OK)
        rc = sqlite3_backup_step(b, STEP_PAGES);
    int finish = b ? sqlite3_backup_finish(b) : SQLITE_OK;
    if (s->code != DF_OK)
        return s->code;
    if (rc == SQLITE_DONE)
        rc = finish;
    return rc == SQLITE_OK ? DF_OK
                           : df_err_set(s->err, DF_E_IO, "cannot read the database's pages: %s",
                                        sqlite3_errstr(rc));
}

static enum df_code read_page_size(struct sqlite_db *from, struct sink *s)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(from->handle, "PRAGMA page_size", -1, &stmt, NULL);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        s->page_size = (uint32_t)sqlite3_column_int(stmt, 0);
    sqlite3_finalize(stmt);
    return rc == SQLITE_ROW ? DF_OK : df_sqlite_fail(from, rc, "page_size", s->err);
}

enum df_code df_pages_read(struct df_db *db,
                           enum df_code (*page)(void *arg, uint32_t number, const void *bytes,
                                                size_t len, struct df_err *err),
                           void *arg, struct df_err *err)
{
    struct sink s = {.page = page, .arg = arg, .err = err};
    char name[64];
    sqlite3 *to = NULL;

    if (df_db_dialect(db) != DF_SQLITE)
        return df_err_set(err, DF_E_USAGE, "only SQLite's pages can be read");
    enum df_code code = read_page_size(sqlite_of(db), &s);
    if (code != DF_OK)
        return code;
    (void)snprintf(name, sizeof name, "dataflow-pages-%p", (void *)&s);
    sqlite3_vfs vfs = {.iVersion = 1,
                       .szOsFile = sizeof(struct sink_file),
                       .mxPathname = 64,
                       .zName = name,
                       .pAppData = &s,
                       .xOpen = vfs_open,
                       .xDelete = vfs_delete,
                       .xAccess = vfs_access,
                       .xFullPathname = vfs_full_name,
                       .xRandomness = vfs_random,
                       .xSleep = vfs_sleep,
                       .xCurrentTime = vfs_time};
    int rc = sqlite3_vfs_register(&vfs, 0);
    if (rc == SQLITE_OK) {
        rc = sqlite3_open_v2(
            "pages", &to, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, name);
        code = rc == SQLITE_OK ? copy_pages(to, sqlite_of(db), &s)
                               : df_err_set(err, DF_E_INTERNAL, "SQLite does not open a copy: %s",
                                            sqlite3_errstr(rc));
        sqlite3_close(to);
        (void)sqlite3_vfs_unregister(&vfs);
    } else {
        code = df_err_set(err, DF_E_INTERNAL, "SQLite takes no VFS: %s", sqlite3_errstr(rc));
    }
    return code;
}
