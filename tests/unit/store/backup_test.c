/* Backup and restore of the embedded database: under load, onto bad places, from bad files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "scratch.h"
#include "store/backup.h"
#include "store/schema.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static char dir[64];
static char url[128];

/* A path in the test's directory; a few may be in use at once. */
static const char *at(const char *name)
{
    static char paths[8][256];
    static size_t next;
    char *p = paths[next++ % LEN(paths)];

    (void)snprintf(p, sizeof(paths[0]), "%s/%s", dir, name);
    return p;
}

/* --- looking into databases from outside
 * ----------------------------------------------------------- */

static sqlite3 *raw_open(const char *path)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL),
                     SQLITE_OK);
    (void)sqlite3_busy_timeout(db, 30000);
    return db;
}

static void raw_run(const char *path, const char *sql)
{
    sqlite3 *db = raw_open(path);

    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    sqlite3_close(db);
}

static int64_t raw_int(const char *path, const char *sql)
{
    sqlite3 *db = raw_open(path);
    sqlite3_stmt *stmt = NULL;

    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK ||
        sqlite3_step(stmt) != SQLITE_ROW)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    int64_t v = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    sqlite3_close(db);
    return v;
}

static void read_file(const char *path, struct df_buf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    assert_true(fd >= 0);
    df_buf_init(out, (size_t)64 << 20);
    do {
        char *p = df_buf_grow(out, 65536);
        assert_non_null(p);
        n = read(fd, p, 65536);
        assert_true(n >= 0);
        df_buf_grown(out, (size_t)n);
    } while (n > 0);
    (void)close(fd);
}

static void write_file(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), len);
    (void)close(fd);
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

/* --- fixture ---------------------------------------------------------------------------------- */

static struct df_db *db;

static void run(const char *sql)
{
    struct df_err err = DF_ERR_INIT;

    if (df_db_script(db, sql, &err) != DF_OK)
        fail_msg("%s: %s", sql, err.detail);
}

static void open_and_migrate(void)
{
    struct df_err err = DF_ERR_INIT;

    if (df_db_open(&(struct df_db_options){.url = url}, &db, &err) != DF_OK ||
        df_schema_apply(db, NULL, &err) != DF_OK)
        fail_msg("%s", err.detail);
}

static int setup(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof(dir), "%s/backup_test.XXXXXX", scratch_dir());
    assert_non_null(mkdtemp(dir));
    (void)snprintf(url, sizeof(url), "sqlite:%s/live.db", dir);
    open_and_migrate();
    run("INSERT INTO AuditLog (Actor, Action) VALUES ('before', 'x')");
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static int teardown(void **state)
{
    (void)state;
    df_db_close(db);
    db = NULL;
    return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS); /* NOLINT(concurrency-mt-unsafe) */
}

static void backup_to(const char *file)
{
    struct df_err err = DF_ERR_INIT;

    if (df_backup(url, file, &err) != DF_OK)
        fail_msg("backup: %s", err.detail);
}

static void restore_from(const char *file)
{
    struct df_err err = DF_ERR_INIT;

    if (df_restore(url, file, &err) != DF_OK)
        fail_msg("restore: %s", err.detail);
}

/* Nothing but what the test made itself and the live database's own files. */
static void assert_nothing_left_behind(void)
{
    struct df_buf out;
    char command[256];

    df_buf_init(&out, 4096);
    (void)snprintf(command, sizeof(command), "ls '%s' | grep -e tmp- -e 'copy.*-' || true", dir);
    FILE *f = popen(command, "re"); /* NOLINT(cert-env33-c) */
    char line[256];
    while (fgets(line, sizeof(line), f))
        df_buf_addz(&out, line);
    (void)pclose(f);
    assert_string_equal(df_buf_str(&out).ptr, "");
    df_buf_release(&out);
}

/* --- backup ----------------------------------------------------------------------------------- */

static void a_backup_is_one_private_file_with_the_content(void **state)
{
    (void)state;
    struct stat st;
    struct df_buf bytes;

    backup_to(at("copy.db"));
    assert_int_equal(stat(at("copy.db"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    /* Bytes 18 and 19 of the header: 1 is a plain database, 2 one with a write-ahead log. */
    read_file(at("copy.db"), &bytes);
    assert_int_equal(bytes.ptr[18], 1);
    assert_int_equal(bytes.ptr[19], 1);
    df_buf_release(&bytes);
    assert_nothing_left_behind();
    assert_int_equal(raw_int(at("copy.db"), "SELECT COUNT(*) FROM AuditLog WHERE Actor = 'before'"),
                     1);
    assert_int_equal(raw_int(at("copy.db"), "SELECT COUNT(*) > 5 FROM SchemaScripts"), 1);
}

/* Writes until its parent closes the pipe. Each transaction puts the same number into two tables.
 */
static void write_pairs(int fd)
{
    char path[256];
    int64_t n = 0;

    (void)snprintf(path, sizeof(path), "%s", at("live.db"));
    sqlite3 *writer = NULL;
    if (sqlite3_open(path, &writer) != SQLITE_OK ||
        sqlite3_busy_timeout(writer, 30000) != SQLITE_OK)
        _exit(1);
    for (;; n++) {
        char sql[256];
        char c = 'w';
        (void)snprintf(sql, sizeof(sql),
                       "BEGIN IMMEDIATE; INSERT INTO PairA VALUES (%lld, randomblob(300));"
                       "INSERT INTO PairB VALUES (%lld, randomblob(300)); COMMIT;",
                       (long long)n, (long long)n);
        if (sqlite3_exec(writer, sql, NULL, NULL, NULL) != SQLITE_OK)
            _exit(2);
        /* Fills the pipe and then fails with EAGAIN; EPIPE says that it is time to go. */
        if (write(fd, &c, 1) < 0 && errno == EPIPE)
            _exit(0);
    }
}

static void a_backup_under_load_is_of_one_moment(void **state)
{
    (void)state;
    int pipes[2];
    char c;

    run("CREATE TABLE PairA (N INT, Fill BLOB); CREATE TABLE PairB (N INT, Fill BLOB);"
        "CREATE TABLE Ballast (Fill BLOB);"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)"
        "INSERT INTO Ballast SELECT randomblob(4000) FROM n;");
    assert_int_equal(pipe2(pipes, O_NONBLOCK | O_CLOEXEC), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)signal(SIGPIPE, SIG_IGN);
        (void)close(pipes[0]);
        write_pairs(pipes[1]);
    }
    (void)close(pipes[1]);
    /* Once it writes, the rest is a race on purpose. */
    while (read(pipes[0], &c, 1) < 0 && errno == EAGAIN)
        (void)usleep(1000);

    int64_t last = 0;
    for (int i = 0; i < 5; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "copy%d.db", i);
        backup_to(at(name));
        int64_t a = raw_int(at(name), "SELECT COUNT(*) FROM PairA");
        assert_int_equal(raw_int(at(name), "SELECT COUNT(*) FROM PairB"), a);
        assert_int_equal(raw_int(at(name), "SELECT COUNT(*) FROM PairA JOIN PairB USING (N)"), a);
        assert_true(a >= last);
        last = a;
    }
    (void)close(pipes[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_nothing_left_behind();
}

static void an_existing_file_is_not_overwritten(void **state)
{
    (void)state;
    struct df_err err = DF_ERR_INIT;
    struct df_buf bytes;

    write_file(at("copy.db"), "precious", 8);
    assert_int_equal(df_backup(url, at("copy.db"), &err), DF_E_USAGE);
    assert_non_null(strstr(err.detail, "exists already"));
    read_file(at("copy.db"), &bytes);
    assert_string_equal(df_buf_str(&bytes).ptr, "precious");
    df_buf_release(&bytes);

    /* Nor a dangling link, which would lead the copy somewhere else. */
    assert_int_equal(symlink("/nonexistent/target", at("link.db")), 0);
    assert_int_equal(df_backup(url, at("link.db"), &err), DF_E_USAGE);
    assert_nothing_left_behind();
}

static void places_that_cannot_be_written_are_told(void **state)
{
    (void)state;
    static const char *const places[] = {"missing/copy.db", "plain/copy.db", "readonly/copy.db"};

    write_file(at("plain"), "", 0);
    assert_int_equal(mkdir(at("readonly"), 0500), 0);
    for (size_t i = 0; i < LEN(places); i++) {
        struct df_err err = DF_ERR_INIT;
        if (strncmp(places[i], "readonly", 8) == 0 && geteuid() == 0)
            continue; /* root may write anywhere */
        assert_int_equal(df_backup(url, at(places[i]), &err), DF_E_IO);
        assert_non_null(strstr(err.detail, places[i]));
    }
}

static void what_is_not_the_embedded_database_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        enum df_code code;
    } wrong[] = {
        {"postgres://u:p@localhost/x", DF_E_USAGE},
        {"sqlserver://u:p@localhost:1433/x", DF_E_USAGE},
        {"sqlite:", DF_E_USAGE},
        {"sqlite::memory:", DF_E_USAGE},
        {"mysql://localhost/x", DF_E_CONFIG},
    };

    backup_to(at("good.db"));
    for (size_t i = 0; i < LEN(wrong); i++) {
        struct df_err err = DF_ERR_INIT;
        assert_int_equal(df_backup(wrong[i].url, at("copy.db"), &err), wrong[i].code);
        assert_int_equal(df_restore(wrong[i].url, at("good.db"), &err), wrong[i].code);
        assert_null(strstr(err.detail, "u:p"));
    }
    assert_false(exists(at("copy.db")));
}

static void a_database_that_is_not_there_is_not_made(void **state)
{
    (void)state;
    struct df_err err = DF_ERR_INIT;
    char other[128];

    (void)snprintf(other, sizeof(other), "sqlite:%s", at("nothing.db"));
    assert_int_equal(df_backup(other, at("copy.db"), &err), DF_E_IO);
    assert_non_null(strstr(err.detail, "nothing.db"));
    assert_false(exists(at("nothing.db")));
    assert_false(exists(at("copy.db")));
    assert_nothing_left_behind();
}

static void a_damaged_database_gives_no_backup(void **state)
{
    (void)state;
    struct df_err err = DF_ERR_INIT;
    char other[128];

    write_file(at("broken.db"),
               "this is no database, but it is long enough to look at: ........"
               "............................................................",
               124);
    (void)snprintf(other, sizeof(other), "sqlite:%s", at("broken.db"));
    assert_int_not_equal(df_backup(other, at("copy.db"), &err), DF_OK);
    assert_false(exists(at("copy.db")));
    assert_nothing_left_behind();
}

/* --- restore ---------------------------------------------------------------------------------- */

static int64_t live_rows(const char *actor)
{
    static const char *const params[] = {"actor"};
    static const struct df_query q = {
        .name = "test_rows",
        .params = params,
        .param_count = 1,
        .text = {[DF_SQLITE] = {.sql = "SELECT COUNT(*) FROM AuditLog WHERE Actor = ?1"}},
    };
    struct df_err err = DF_ERR_INIT;
    struct df_result *r = NULL;

    if (df_db_query(db, DF_ANY(&q, {"actor", df_text(df_str_c(actor))}), &r, &err) != DF_OK ||
        df_result_step(r, &err) != DF_ROW)
        fail_msg("%s", err.detail);
    int64_t n = df_col_int(r, 0);
    df_result_free(r);
    return n;
}

static void a_restore_is_seen_by_a_connection_that_stays_open(void **state)
{
    (void)state;
    backup_to(at("copy.db"));
    run("INSERT INTO AuditLog (Actor, Action) VALUES ('after', 'x')");
    run("CREATE TABLE Later (Id INT)");
    assert_int_equal(live_rows("after"), 1);

    restore_from(at("copy.db"));
    assert_int_equal(live_rows("after"), 0);
    assert_int_equal(live_rows("before"), 1);
    assert_int_equal(
        raw_int(at("live.db"), "SELECT COUNT(*) FROM sqlite_schema WHERE name = 'Later'"), 0);
    /* It is still written with a write-ahead log, and still works. */
    run("INSERT INTO AuditLog (Actor, Action) VALUES ('again', 'x')");
    assert_int_equal(live_rows("again"), 1);
    struct df_buf bytes;
    read_file(at("live.db"), &bytes);
    assert_int_equal(bytes.ptr[18], 2);
    df_buf_release(&bytes);
    assert_nothing_left_behind();
}

static void a_missing_database_is_made_from_the_backup(void **state)
{
    (void)state;
    struct stat st;

    backup_to(at("copy.db"));
    df_db_close(db);
    (void)snprintf(url, sizeof(url), "sqlite:%s", at("fresh.db"));
    restore_from(at("copy.db"));
    assert_int_equal(stat(at("fresh.db"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    open_and_migrate();
    assert_int_equal(live_rows("before"), 1);
}

static void a_plain_copy_of_a_closed_database_serves_too(void **state)
{
    (void)state;
    struct df_buf bytes;

    df_db_close(db);
    read_file(at("live.db"), &bytes);
    write_file(at("plain.db"), bytes.ptr, bytes.len);
    df_buf_release(&bytes);
    open_and_migrate();
    run("INSERT INTO AuditLog (Actor, Action) VALUES ('after', 'x')");
    restore_from(at("plain.db"));
    assert_int_equal(live_rows("after"), 0);
    assert_int_equal(live_rows("before"), 1);
}

static void an_older_schema_is_restored_and_then_migrated(void **state)
{
    (void)state;
    struct df_err err = DF_ERR_INIT;
    size_t applied = 0;

    backup_to(at("copy.db"));
    raw_run(at("copy.db"), "DROP TABLE outbox_events;"
                           "DELETE FROM SchemaScripts WHERE Name = '050_outbox.sql'");
    restore_from(at("copy.db"));
    assert_int_equal(df_schema_check(db, &err), DF_E_SCHEMA);
    assert_int_equal(df_schema_apply(db, &applied, &err), DF_OK);
    assert_int_equal(applied, 1);
    run("INSERT INTO outbox_events (id, event_type, payload)"
        " VALUES ('11111111-1111-4111-8111-111111111111', 't', '{}')");
}

/* Files that are no backups, made from a good one. */
static void make_bad_files(void)
{
    struct df_buf bytes;

    backup_to(at("good.db"));
    read_file(at("good.db"), &bytes);
    assert_true(bytes.len > 65536);
    write_file(at("truncated"), bytes.ptr, bytes.len / 2);
    write_file(at("odd-length"), bytes.ptr, bytes.len - 100);
    write_file(at("header-only"), bytes.ptr, 100);
    write_file(at("empty"), "", 0);

    char *damaged = bytes.ptr;
    memset(damaged + bytes.len - 4096, 0xa5, 4096);
    memset(damaged + 8192, 0x5a, 4096);
    write_file(at("damaged"), damaged, bytes.len);
    for (size_t i = 0; i < bytes.len; i++)
        damaged[i] = (char)(i * 31 + (i >> 8));
    write_file(at("garbage"), damaged, bytes.len);
    df_buf_release(&bytes);

    raw_run(at("stranger"), "CREATE TABLE Notes (Id INTEGER PRIMARY KEY, Text TEXT)");
    raw_run(at("view"), "CREATE TABLE T (Id INT); CREATE VIEW SchemaScripts AS SELECT * FROM T");
    assert_int_equal(mkdir(at("folder"), 0700), 0);
}

static void a_file_that_is_no_backup_changes_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum df_code code;
    } bad[] = {
        {"truncated", DF_E_USAGE}, {"odd-length", DF_E_USAGE}, {"header-only", DF_E_USAGE},
        {"empty", DF_E_USAGE},     {"damaged", DF_E_USAGE},    {"garbage", DF_E_USAGE},
        {"stranger", DF_E_USAGE},  {"view", DF_E_USAGE},       {"folder", DF_E_IO},
        {"missing", DF_E_IO},      {"live.db", DF_E_USAGE},
    };

    make_bad_files();
    run("INSERT INTO AuditLog (Actor, Action) VALUES ('after', 'x')");
    for (size_t i = 0; i < LEN(bad); i++) {
        struct df_err err = DF_ERR_INIT;
        enum df_code code = df_restore(url, at(bad[i].name), &err);

        if (code != bad[i].code)
            fail_msg("%s: %s: %s", bad[i].name, df_code_name(code), err.detail);
        assert_non_null(strstr(err.detail, bad[i].name));
        assert_int_equal(live_rows("after"), 1);
    }
    /* Neither is a database made where there was none. */
    char other[128];
    struct df_err err = DF_ERR_INIT;
    (void)snprintf(other, sizeof(other), "sqlite:%s", at("nothing.db"));
    assert_int_equal(df_restore(other, at("garbage"), &err), DF_E_USAGE);
    assert_false(exists(at("nothing.db")));
    assert_int_equal(raw_int(at("live.db"), "SELECT COUNT(*) FROM pragma_integrity_check "
                                            "WHERE integrity_check = 'ok'"),
                     1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_backup_is_one_private_file_with_the_content),
        T(a_backup_under_load_is_of_one_moment),
        T(an_existing_file_is_not_overwritten),
        T(places_that_cannot_be_written_are_told),
        T(what_is_not_the_embedded_database_is_refused),
        T(a_database_that_is_not_there_is_not_made),
        T(a_damaged_database_gives_no_backup),
        T(a_restore_is_seen_by_a_connection_that_stays_open),
        T(a_missing_database_is_made_from_the_backup),
        T(a_plain_copy_of_a_closed_database_serves_too),
        T(an_older_schema_is_restored_and_then_migrated),
        T(a_file_that_is_no_backup_changes_nothing),
    };
    return cmocka_run_group_tests_name("backup and restore", tests, NULL, NULL);
}
