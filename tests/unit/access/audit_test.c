#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "access/audit_verify.h"
#include "fake_clock.h"
#include "keys/keys.h"
#include "store/schema.h"

#include "keys_from.h"
#include "testdb.h"

#include "capture.h"

#include <pthread.h>
#include <sys/stat.h>

/* Attacks by SQL, and the same over HTTP and by the command line:
 * tests/integration/access/test_audit.py. */

#define LEN(a) (sizeof(a) / sizeof((a)[0]))
#define DAY_MS INT64_C(86400000)
#define T0     INT64_C(1700000000000)

static enum df_dialect dialect;
static struct testdb test;
static struct df_db *db;
static struct df_keys *keys;
static struct df_fake_clock clock_;
static const struct df_actor tester = {.name = {"tester", 6}, .ip = {"192.0.2.1", 9}};

static int open_db(void **state)
{
    static const unsigned char key[DF_KEY_BYTES] = {7};
    struct df_err err = DF_ERR_INIT;

    (void)state;
    testdb_init(&test, dialect);
    db = testdb_open(&test);
    assert_ok(df_schema_apply(db, NULL, &err), &err);
    df_fake_clock_init(&clock_, T0, 42);
    keys = df_keys_from(&clock_.base, key);
    df_audit_use_keys(keys);
    return 0;
}

static int close_db(void **state)
{
    (void)state;
    df_audit_use_keys(NULL);
    df_keys_free(keys);
    df_db_close(db);
    testdb_release(&test);
    return 0;
}

static void begin(void)
{
    struct df_err err = DF_ERR_INIT;
    assert_ok(df_db_begin(db, true, &err), &err);
}

static void commit(void)
{
    struct df_err err = DF_ERR_INIT;
    assert_ok(df_db_commit(db, &err), &err);
}

static void add(int64_t now_ms)
{
    struct df_err err = DF_ERR_INIT;
    assert_ok(df_audit_write(db, &tester, "Tested", DF_STR("x"), DF_STR_NULL, DF_STR("{\"a\":1}"),
                             now_ms, &err),
              &err);
}

static void add_days(int64_t from, int64_t to)
{
    begin();
    for (int64_t i = from; i < to; i++)
        add(T0 + i * DAY_MS);
    commit();
}

struct seen {
    char kinds[400];
};

static void note(void *arg, const struct df_audit_finding *f)
{
    struct seen *s = arg;
    size_t len = strlen(s->kinds);
    (void)snprintf(s->kinds + len, sizeof s->kinds - len, "%s%s %lld", len ? ", " : "", f->kind,
                   (long long)f->sequence);
}

static struct df_audit_report verify_with(const struct df_audit_heads *heads, const char *expected)
{
    struct df_audit_report report;
    struct df_err err = DF_ERR_INIT;
    struct seen seen = {{0}};

    assert_ok(df_audit_verify(db, heads, T0, note, &seen, &report, &err), &err);
    assert_string_equal(seen.kinds, expected);
    return report;
}

static struct df_audit_report verify(const char *expected)
{
    return verify_with(&(struct df_audit_heads){0}, expected);
}

static void an_empty_log_is_whole(void **state)
{
    (void)state;
    struct df_audit_report r = verify("");
    assert_int_equal(r.entries + r.last + r.removed + r.unsealed, 0);
}

static void a_job_that_is_undone_leaves_no_gap(void **state)
{
    struct df_err err = DF_ERR_INIT;

    (void)state;
    begin();
    add(T0);
    assert_ok(df_db_savepoint(db, &err), &err);
    add(T0);
    assert_ok(df_db_rollback_to(db, &err), &err);
    add(T0);
    commit();
    begin();
    add(T0);
    df_db_rollback(db);
    assert_int_equal(verify("").last, 2);
}

static void texts_come_back_as_they_were_hashed(void **state)
{
    static const char *const texts[] = {"", " ", "ação 😀", "'\"\\\n\t", "a b  "};
    struct df_err err = DF_ERR_INIT;

    (void)state;
    begin();
    for (size_t i = 0; i < LEN(texts); i++) {
        const struct df_actor by = {.name = df_str_c(texts[i]), .role = i % 2 ? "read" : NULL};
        const struct df_audit_entry e = {.by = &by,
                                         .action = "Tested",
                                         .outcome = "failed",
                                         .target = df_str_c(texts[i]),
                                         .client_id =
                                             DF_STR("01920f1e-6f0a-7c3e-9d53-4b2f6c1d8e70"),
                                         .details = i == 2 ? DF_STR("{}") : DF_STR_NULL,
                                         .now_ms = T0 + 7};
        assert_ok(df_audit_add(db, &e, &err), &err);
    }
    commit();
    (void)verify("");
}

static void what_is_too_long_is_cut_and_hashed_as_it_is_stored(void **state)
{
    char text[1000];
    struct df_err err = DF_ERR_INIT;

    (void)state;
    memset(text, 'x', sizeof text);
    const struct df_actor by = {.name = df_str_n(text, sizeof text), .ip = df_str_n(text, 100)};
    begin();
    assert_ok(df_audit_write(db, &by, "Tested", df_str_n(text, sizeof text), DF_STR_NULL,
                             DF_STR_NULL, T0, &err),
              &err);
    commit();
    (void)verify("");
}

static void entries_without_keys_are_sealed_later_in_steps(void **state)
{
    struct df_err err = DF_ERR_INIT;
    int64_t before = verify("").last, sealed = 0, all = 0;

    (void)state;
    df_audit_use_keys(NULL);
    add_days(0, 10);
    df_audit_use_keys(keys);
    assert_int_equal(verify("").unsealed, 10);
    do {
        begin();
        assert_ok(df_audit_seal(db, 4, &sealed, &err), &err);
        commit();
        all += sealed;
    } while (sealed > 0);
    assert_int_equal(all, 10);
    struct df_audit_report r = verify("");
    assert_int_equal(r.last, before + 10);
    assert_int_equal(r.sealed, 10);
    assert_int_equal(r.unsealed, 0);
}

static int64_t retain(int64_t cutoff_ms, int64_t limit)
{
    struct df_err err = DF_ERR_INIT;
    int64_t removed = -1;

    begin();
    assert_ok(df_audit_retain(db, cutoff_ms, limit, T0 + 9999 * DAY_MS, &removed, &err), &err);
    commit();
    return removed;
}

static void retention_leaves_a_stub_that_is_accepted(void **state)
{
    struct df_audit_report before = verify("");

    (void)state;
    add_days(100, 2600);
    assert_int_equal(retain(T0 - DAY_MS, 100), 0);
    assert_int_equal(verify("").removed, 0);
    int64_t removed = 0, step;
    while ((step = retain(T0 + 1600 * DAY_MS, 700)) > 0)
        removed += step;
    assert_int_equal(removed, before.last + 1500);
    struct df_audit_report after = verify("");
    assert_int_equal(after.removed, removed);
    assert_int_equal(after.entries, 1000);
    assert_int_equal(after.last, before.last + 2500);
    add_days(2600, 2601);
    assert_int_equal(retain(INT64_C(9000) * DAY_MS + T0, 5000), 1001);
    after = verify("");
    assert_int_equal(after.entries, 0);
    add_days(2601, 2602);
    assert_int_equal(verify("").last, after.last + 1);
}

/* --- a log of its own for each of these --- */

/* What somebody does who owns the tables. */
static void disarm(void)
{
    static const char *const texts[] = {
        [DF_SQLITE] = "DROP TRIGGER TR_AuditLog_NoUpdate; DROP TRIGGER TR_AuditLog_NoDelete;",
        [DF_POSTGRES] = "ALTER TABLE AuditLog DISABLE TRIGGER ALL;",
        [DF_SQLSERVER] = "DISABLE TRIGGER TR_AuditLog_Guard ON AuditLog;",
    };
    testdb_script(db, texts[dialect]);
}

#define FORGE                                                                                      \
    "INSERT INTO AuditStubs (FromSequence, ToSequence, FirstAt, LastAt, LastMac, CreatedAt, Mac) " \
    "SELECT "

static void retention_removes_nothing_after(const char *sql, const char *found)
{
    struct df_audit_fault fault;
    struct df_err err = DF_ERR_INIT;
    char told[100];

    testdb_script(db, sql);
    assert_ok(df_audit_look_oldest(db, keys, 100, &fault, &err), &err);
    assert_non_null(fault.what);
    (void)snprintf(told, sizeof told, "%lld %s", (long long)fault.sequence, fault.what);
    assert_string_equal(told, found);
    struct df_audit_report before, after;
    struct seen seen = {{0}};
    assert_ok(df_audit_verify(db, &(struct df_audit_heads){0}, T0, note, &seen, &before, &err),
              &err);
    assert_true(before.findings > 0);
    assert_int_equal(retain(T0 + 5000 * DAY_MS, 100), 0);
    assert_ok(df_audit_verify(db, &(struct df_audit_heads){0}, T0, note, &seen, &after, &err),
              &err);
    assert_int_equal(after.findings, before.findings);
    assert_int_equal(after.entries, before.entries);
    assert_int_equal(after.removed, before.removed);
}

static void retention_signs_no_forged_stub(void **state)
{
    (void)state;
    add_days(0, 10);
    retention_removes_nothing_after(FORGE "1, 4, OccurredAt, OccurredAt, Mac, OccurredAt, Mac FROM "
                                          "AuditLog WHERE Sequence = 4; "
                                          "DELETE FROM AuditLog WHERE Sequence <= 4",
                                    "1 stands in a forged stub");
}

static void retention_signs_no_stub_that_was_made_longer(void **state)
{
    (void)state;
    add_days(0, 10);
    assert_int_equal(retain(T0 + 3 * DAY_MS, 100), 3);
    retention_removes_nothing_after(
        "UPDATE AuditStubs SET ToSequence = 5, LastMac = (SELECT Mac FROM AuditLog WHERE Sequence "
        "= 5); DELETE FROM AuditLog WHERE Sequence <= 5",
        "1 stands in a forged stub");
}

static void retention_takes_no_second_stub(void **state)
{
    (void)state;
    add_days(0, 10);
    assert_int_equal(retain(T0 + 3 * DAY_MS, 100), 3);
    retention_removes_nothing_after(FORGE "4, 5, OccurredAt, OccurredAt, Mac, OccurredAt, Mac FROM "
                                          "AuditLog WHERE Sequence = 5",
                                    "4 stands in a second stub");
}

static void retention_removes_no_entry_that_was_changed(void **state)
{
    (void)state;
    add_days(0, 10);
    disarm();
    retention_removes_nothing_after(
        "UPDATE AuditLog SET OccurredAt = '2001-01-01T00:00:00.000Z' WHERE Sequence = 2",
        "2 was changed");
}

static void retention_stops_where_entries_are_missing(void **state)
{
    (void)state;
    add_days(0, 10);
    assert_int_equal(retain(T0 + 3 * DAY_MS, 100), 3);
    disarm();
    retention_removes_nothing_after("DELETE FROM AuditLog WHERE Sequence = 6", "6 is missing");
}

/* --- two runs at once --- */

struct second_run {
    struct df_db *db;
    enum df_code code;
    _Atomic bool over;
};

static void *run_second(void *arg)
{
    struct second_run *s = arg;
    struct df_err err = DF_ERR_INIT;
    int64_t removed = 0;

    s->code = df_db_begin(s->db, true, &err);
    if (s->code == DF_OK)
        s->code = df_audit_retain(s->db, T0 + 5000 * DAY_MS, 2, T0, &removed, &err);
    if (s->code == DF_OK)
        s->code = df_db_commit(s->db, &err);
    else
        df_db_rollback(s->db);
    s->over = true;
    return NULL;
}

TESTDB_QUERY(own_pid, 0, "SELECT 0", "SELECT pg_backend_pid()", "SELECT 0");
TESTDB_QUERY(waits, 1, "SELECT 0",
             "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'",
             "SELECT 0");

/* The second one reads the stub before the first one commits, and waits for its row. */
static void run_both(struct df_db *other, struct df_db *watcher)
{
    struct second_run second = {.db = other};
    struct df_err err = DF_ERR_INIT;
    int64_t removed = 0, waiting = 0, pid = 0;
    pthread_t thread;

    assert_ok(df_db_query_int(other, &own_pid, DF_NO_PARAMS, &pid, &err), &err);
    begin();
    assert_ok(df_audit_retain(db, T0 + 5000 * DAY_MS, 4, T0, &removed, &err), &err);
    assert_int_equal(removed, 4);
    assert_int_equal(pthread_create(&thread, NULL, run_second, &second), 0);
    while (!second.over && waiting == 0)
        assert_ok(df_db_query_int(watcher, &waits, DF_PARAMS(df_int(pid)), &waiting, &err), &err);
    commit();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(second.code, DF_E_DB_CONFLICT);
}

static void two_runs_at_once_do_not_shrink_the_stub(void **state)
{
    (void)state;
    if (dialect != DF_POSTGRES)
        skip(); /* SQLite has one writer */
    add_days(0, 20);
    struct df_db *other = testdb_open(&test), *watcher = testdb_open(&test);
    run_both(other, watcher); /* both make the first one */
    assert_int_equal(verify("").removed, 4);
    run_both(other, watcher); /* both make it longer */
    assert_int_equal(verify("").removed, 8);
    df_db_close(other);
    df_db_close(watcher);
}

/* --- what a server watches --- */

static struct df_audit_watch watch_in(const char *dir)
{
    struct df_audit_watch w = {.clock = &clock_.base, .data_dir = dir};
    struct df_err err = DF_ERR_INIT;

    assert_ok(df_store_open(&(struct df_store_options){.settings.url = test.url}, &w.store, &err),
              &err);
    return w;
}

static void the_head_is_kept_though_entries_cannot_be_sealed(void **state)
{
    static const char *const refuse[] = {
        [DF_SQLITE] = "CREATE TRIGGER TR_Refuse BEFORE UPDATE ON AuditLog "
                      "BEGIN SELECT RAISE(ABORT, 'refused'); END",
        [DF_POSTGRES] = "CREATE TRIGGER TR_Refuse BEFORE UPDATE ON AuditLog FOR EACH ROW EXECUTE "
                        "FUNCTION FN_AuditLog_Refuse()",
        [DF_SQLSERVER] = "CREATE TRIGGER TR_Refuse ON AuditLog AFTER UPDATE AS THROW 50000, "
                         "'refused', 1",
    };
    struct df_audit_heads heads;
    struct df_err err = DF_ERR_INIT;

    (void)state;
    add_days(0, 3);
    testdb_script(db, refuse[dialect]);
    df_audit_use_keys(NULL);
    add_days(3, 4);
    df_audit_use_keys(keys);
    struct df_audit_watch w = watch_in(test.dir);
    capture();
    df_audit_watch_turn(&w);
    assert_int_equal(captured_with("entries are not sealed"), 1);
    assert_ok(df_audit_heads_load(test.dir, &heads, &err), &err);
    assert_int_equal(heads.count, 1);
    assert_int_equal(heads.items[0].sequence, 3);
    df_audit_heads_release(&heads);
    df_store_close(w.store);
}

static int warnings_of_a_turn(struct df_audit_watch *w)
{
    capture();
    df_audit_watch_turn(w);
    return captured_with("AuditHeadNotKept");
}

static void a_head_that_is_not_kept_is_told_every_hour(void **state)
{
    char dir[128];

    (void)state;
    (void)snprintf(dir, sizeof dir, "%s/missing", test.dir);
    add_days(0, 1);
    struct df_audit_watch w = watch_in(dir);
    assert_int_equal(warnings_of_a_turn(&w), 1);
    assert_int_equal(warnings_of_a_turn(&w), 0);
    df_fake_clock_advance_ms(&clock_, 3599999);
    assert_int_equal(warnings_of_a_turn(&w), 0);
    df_fake_clock_advance_ms(&clock_, 1);
    assert_int_equal(warnings_of_a_turn(&w), 1);
    assert_int_equal(warnings_of_a_turn(&w), 0);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(warnings_of_a_turn(&w), 0);
    df_store_close(w.store);
}

static void root_does_not_take_the_file_from_its_owner(void **state)
{
    struct df_audit_head head = {.sequence = 1, .mac = {9}, .time_ms = T0};
    struct df_err err = DF_ERR_INIT;
    struct stat st;
    char path[128];

    (void)state;
    if (geteuid() != 0)
        skip();
    (void)snprintf(path, sizeof path, "%s/audit-heads", test.dir);
    assert_int_equal(chown(test.dir, 12345, 12346), 0);
    assert_ok(df_audit_heads_add(test.dir, &head, &err), &err);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_uid == 12345 && st.st_gid == 12346 && (st.st_mode & 0777) == 0600);
    assert_int_equal(chown(path, 54321, 54322), 0);
    ino_t first = st.st_ino;
    for (; head.sequence < 1100; head.sequence++)
        assert_ok(df_audit_heads_add(test.dir, &head, &err), &err);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_ino != first);
    assert_true(st.st_uid == 54321 && st.st_gid == 54322 && (st.st_mode & 0777) == 0600);
}

/* --- what tells that the database was restored --- */

static bool is_behind(const struct df_audit_head *line)
{
    struct df_audit_head at = *line, found;
    struct df_audit_heads heads = {.items = &at, .count = 1};
    struct df_err err = DF_ERR_INIT;
    bool behind = false;

    assert_ok(df_audit_is_behind(db, &heads, &behind, &found, &err), &err);
    return behind;
}

static void tell_restored(const char *target)
{
    struct df_err err = DF_ERR_INIT;

    begin();
    assert_ok(df_audit_write(db, &tester, "DatabaseRestored", df_str_c(target), DF_STR_NULL,
                             DF_STR_NULL, T0 + DAY_MS, &err),
              &err);
    commit();
}

static void only_a_written_entry_explains_that_entries_are_missing(void **state)
{
    const struct df_audit_head line = {.sequence = 50, .mac = {9}, .time_ms = T0, .genuine = true};

    (void)state;
    add_days(0, 3);
    assert_true(is_behind(&line));
    testdb_script(db, "INSERT INTO AuditLog (OccurredAt, Actor, Action, Target, Outcome, Sequence, "
                      "Mac) SELECT '2030-01-01T00:00:00.000Z', Actor, 'DatabaseRestored', '99', "
                      "Outcome, 4, Mac FROM AuditLog WHERE Sequence = 3");
    assert_true(is_behind(&line));
    tell_restored("49");
    assert_true(is_behind(&line));
    tell_restored("50");
    assert_false(is_behind(&line));
}

static void an_entry_that_others_inserted_and_that_was_sealed_explains_nothing(void **state)
{
    const struct df_audit_head line = {.sequence = 50, .mac = {9}, .time_ms = T0, .genuine = true};

    (void)state;
    df_audit_use_keys(NULL);
    tell_restored("99");
    df_audit_use_keys(keys);
    add_days(0, 1);
    assert_true(is_behind(&line));
    tell_restored("99");
    assert_false(is_behind(&line));
    assert_int_equal(retain(T0 + DAY_MS, 100), 0); /* the first is not older */
    assert_int_equal(retain(T0 + DAY_MS + 1, 2), 2);
    assert_false(is_behind(&line)); /* it follows the stub */
}

/* --- the file --- */

static void heads_of_the_file_are_compared(void **state)
{
    struct df_audit_head lines[3];
    struct df_audit_heads heads = {.items = lines, .count = 1};
    struct df_err err = DF_ERR_INIT;
    bool behind = true;

    (void)state;
    add_days(3000, 3003);
    assert_ok(df_audit_head_read(db, T0, &lines[0], &err), &err);
    lines[0].genuine = true;
    (void)verify_with(&heads, "");
    assert_ok(df_audit_is_behind(db, &heads, &behind, &lines[1], &err), &err);
    assert_false(behind);
    lines[1] = lines[2] = lines[0];
    lines[1].sequence += 5;
    lines[2].mac[0] ^= 1;
    heads.count = 3;
    char expected[80];
    (void)snprintf(expected, sizeof expected, "replaced %lld, cut %lld",
                   (long long)lines[2].sequence, (long long)lines[1].sequence);
    (void)verify_with(&heads, expected);
    assert_ok(df_audit_is_behind(db, &heads, &behind, &lines[1], &err), &err);
    assert_true(behind);
}

static void the_file_takes_lines_and_reads_them_again(void **state)
{
    struct df_audit_head head = {.sequence = 1, .mac = {9}, .time_ms = T0 + 123};
    struct df_audit_heads heads;
    struct df_err err = DF_ERR_INIT;

    (void)state;
    assert_ok(df_audit_heads_load(test.dir, &heads, &err), &err);
    assert_int_equal(heads.count, 0);
    df_audit_heads_release(&heads);
    for (int i = 0; i < 1205; i++, head.sequence++)
        for (int twice = 0; twice < 2; twice++)
            assert_ok(df_audit_heads_add(test.dir, &head, &err), &err);
    assert_ok(df_audit_heads_load(test.dir, &heads, &err), &err);
    assert_in_range(heads.count, 400, 1000);
    assert_int_equal(heads.items[0].sequence, 1);
    assert_int_equal(heads.items[heads.count - 1].sequence, 1205);
    for (size_t i = 0; i < heads.count; i++) {
        assert_true(heads.items[i].genuine && heads.items[i].time_ms == T0 + 123);
        assert_true(i == 0 || heads.items[i].sequence > heads.items[i - 1].sequence);
        assert_true(i + 400 < heads.count ||
                    heads.items[i].sequence == 1205 - (int64_t)(heads.count - 1 - i));
    }
    df_audit_heads_release(&heads);
}

static void a_bad_line_is_none(void **state)
{
    /* clang-format off */
    static const char *const lines[] = {
        "x", "1", "1 2", "1 2 3", "1 2 3 4", " ", "\t", "-1 2 3 4", "0 2 3 4", "99999999999999999999 2 3 4",
        "1 zz00000000000000000000000000000000000000000000000000000000000000 2026-11-16T00:00:00Z 0000000000000000000000000000000000000000000000000000000000000000",
        "1 0000000000000000000000000000000000000000000000000000000000000000 yesterday 0000000000000000000000000000000000000000000000000000000000000000",
        "1 0000000000000000000000000000000000000000000000000000000000000000 2026-11-16T00:00:00Z 00",
        "0 0000000000000000000000000000000000000000000000000000000000000000 2026-11-16T00:00:00Z 0000000000000000000000000000000000000000000000000000000000000000",
        "1 0000000000000000000000000000000000000000000000000000000000000000 2026-11-16T00:00:00Z 0000000000000000000000000000000000000000000000000000000000000000 more",
    };
    /* clang-format on */
    struct df_audit_heads heads;

    (void)state;
    for (size_t i = 0; i < LEN(lines); i++) {
        df_audit_heads_parse(df_str_c(lines[i]), &heads);
        assert_int_equal(heads.count, 0);
        assert_int_equal(heads.damaged, 1);
        df_audit_heads_release(&heads);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_log_is_whole),
        cmocka_unit_test(a_job_that_is_undone_leaves_no_gap),
        cmocka_unit_test(texts_come_back_as_they_were_hashed),
        cmocka_unit_test(what_is_too_long_is_cut_and_hashed_as_it_is_stored),
        cmocka_unit_test(entries_without_keys_are_sealed_later_in_steps),
        cmocka_unit_test(retention_leaves_a_stub_that_is_accepted),
        cmocka_unit_test(heads_of_the_file_are_compared),
        cmocka_unit_test(the_file_takes_lines_and_reads_them_again),
        cmocka_unit_test(a_bad_line_is_none),
    };
#define FRESH(test) cmocka_unit_test_setup_teardown(test, open_db, close_db)
    const struct CMUnitTest fresh[] = {
        FRESH(retention_signs_no_forged_stub),
        FRESH(retention_signs_no_stub_that_was_made_longer),
        FRESH(retention_takes_no_second_stub),
        FRESH(retention_removes_no_entry_that_was_changed),
        FRESH(retention_stops_where_entries_are_missing),
        FRESH(two_runs_at_once_do_not_shrink_the_stub),
        FRESH(the_head_is_kept_though_entries_cannot_be_sealed),
        FRESH(a_head_that_is_not_kept_is_told_every_hour),
        FRESH(root_does_not_take_the_file_from_its_owner),
        FRESH(only_a_written_entry_explains_that_entries_are_missing),
        FRESH(an_entry_that_others_inserted_and_that_was_sealed_explains_nothing),
    };
    int failed = 0;
    for (int d = 0; d < DF_DIALECT_COUNT; d++) {
        dialect = (enum df_dialect)d;
        if (!testdb_available(dialect))
            continue;
        failed += cmocka_run_group_tests_name(df_dialect_name(dialect), tests, open_db, close_db);
        failed += cmocka_run_group_tests_name(df_dialect_name(dialect), fresh, NULL, NULL);
    }
    testdb_print_skipped();
    return failed;
}
