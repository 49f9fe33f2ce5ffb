/* The table DataKeys, on every database: who draws keys, and who opens them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/pool.h"
#include "fake_clock.h"
#include "keys/data_keys.h"
#include "keys/key_use.h"
#include "store/schema.h"
#include "testdb.h"

#include <fcntl.h>
#include <sys/stat.h>

#define KEY_A DF_STR("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f")
#define KEY_B DF_STR("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh0=")

static enum df_dialect dialect;
static struct testdb t;
static struct df_err err;
static struct df_fake_clock clocks;
static struct df_secret *key_a, *key_b;
static struct df_db *db;

static int setup(void **state)
{
    size_t applied;
    (void)state;
    testdb_init(&t, dialect);
    err = DF_ERR_INIT;
    df_fake_clock_init(&clocks, INT64_C(1790000000000), 7);
    key_a = df_secret_new(KEY_A);
    key_b = df_secret_new(KEY_B);
    db = testdb_open(&t);
    assert_ok(df_schema_apply(db, &applied, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    df_db_close(db);
    df_secret_free(key_a);
    df_secret_free(key_b);
    testdb_release(&t);
    return 0;
}

static enum df_code open_with(const struct df_secret *key, const struct df_secret *old,
                              const char *data_dir, struct df_data_keys *ret)
{
    const struct df_keys_settings settings = {.master_key = key, .master_old_key = old};
    const struct df_master_options opt = {
        .for_server = true, .settings = &settings, .data_dir = data_dir, .clock = df_clock_real()};

    return df_data_keys_open(db, &opt, ret, &err);
}

/* What one closed, the other opens; and their hashes are the same. */
static void expect_same(struct df_keys *x, struct df_keys *y)
{
    unsigned char a[DF_HASH_BYTES], b[DF_HASH_BYTES];
    struct df_arena arena = {0};
    struct df_buf sealed;
    struct df_str plain;

    df_buf_init(&sealed, 4096);
    df_keys_seal(x, DF_KEY_SECRET, DF_STR("row"), DF_STR("text"), &sealed);
    assert_ok(
        df_keys_open(y, DF_KEY_SECRET, DF_STR("row"), df_buf_str(&sealed), &arena, &plain, &err),
        &err);
    df_keys_hash(x, DF_STR("phone"), DF_STR("1"), a);
    df_keys_hash(y, DF_STR("phone"), DF_STR("1"), b);
    assert_memory_equal(a, b, sizeof a);
    df_keys_audit_mac(x, DF_STR("1"), a);
    df_keys_audit_mac(y, DF_STR("1"), b);
    assert_memory_equal(a, b, sizeof a);
    df_buf_release(&sealed);
    df_arena_release(&arena);
}

static void the_first_draws_keys_and_the_second_opens_them(void **state)
{
    struct df_data_keys first = {0}, second = {0};
    char path[128];
    struct stat s;
    (void)state;

    assert_ok(open_with(NULL, NULL, t.dir, &first), &err);
    (void)snprintf(path, sizeof path, "%s/master.key", t.dir);
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_mode & 07777, 0600);
    assert_int_equal(s.st_size, 65); /* text, which master_key_file takes too */
    assert_ok(open_with(NULL, NULL, t.dir, &second), &err);
    expect_same(first.ring, second.ring);
    assert_string_equal(first.master->id, second.master->id);
    df_data_keys_release(&second);

    /* The file's text as the configured key. */
    char text[66] = {0};
    int fd = open(path, O_RDONLY);
    assert_int_equal(read(fd, text, 65), 65);
    (void)close(fd);
    struct df_secret *copy = df_secret_new(df_str_n(text, 64));
    assert_ok(open_with(copy, NULL, "/nonexistent", &second), &err);
    expect_same(first.ring, second.ring);
    df_secret_free(copy);
    df_data_keys_release(&second);
    df_data_keys_release(&first);
}

struct starter {
    struct df_thread thread;
    struct df_db *db;
    struct df_data_keys keys;
    struct df_err err;
    enum df_code code;
};

static void start_one(void *arg)
{
    struct starter *s = arg;
    const struct df_keys_settings settings = {0};
    const struct df_master_options opt = {
        .for_server = true, .settings = &settings, .data_dir = t.dir, .clock = df_clock_real()};

    s->code = df_data_keys_open(s->db, &opt, &s->keys, &s->err);
}

static void several_that_start_at_once_end_with_the_same_keys(void **state)
{
    struct starter s[4] = {0};
    (void)state;

    for (int i = 0; i < 4; i++) {
        s[i].err = DF_ERR_INIT;
        s[i].db = testdb_open(&t);
    }
    for (int i = 0; i < 4; i++)
        df_thread_start(&s[i].thread, "starter", start_one, &s[i]);
    for (int i = 0; i < 4; i++)
        df_thread_join(&s[i].thread);
    for (int i = 0; i < 4; i++) {
        assert_ok(s[i].code, &s[i].err);
        expect_same(s[0].keys.ring, s[i].keys.ring);
    }
    TESTDB_QUERY(count_keys, 0, "SELECT COUNT(*) FROM DataKeys", "SELECT COUNT(*) FROM DataKeys",
                 "SELECT COUNT(*) FROM DataKeys");
    assert_int_equal(testdb_int(db, &count_keys), 3);
    for (int i = 0; i < 4; i++) {
        df_data_keys_release(&s[i].keys);
        df_db_close(s[i].db);
    }
}

static void another_master_is_refused_and_the_old_one_helps(void **state)
{
    struct df_data_keys first = {0}, again = {0};
    char other_dir[128], path[160];
    (void)state;

    assert_ok(open_with(key_a, NULL, t.dir, &first), &err);
    assert_int_equal(open_with(key_b, NULL, t.dir, &again), DF_E_CONFIG);
    assert_non_null(strstr(err.detail, "security.master_old_key"));
    assert_non_null(strstr(err.detail, first.master->id));

    /* A second host without a key makes none. */
    (void)snprintf(other_dir, sizeof other_dir, "%s/other", t.dir);
    (void)snprintf(path, sizeof path, "%s/master.key", other_dir);
    assert_int_equal(mkdir(other_dir, 0700), 0);
    assert_int_equal(open_with(NULL, NULL, other_dir, &again), DF_E_CONFIG);
    assert_non_null(strstr(err.detail, "security.master_key_file"));
    assert_int_equal(access(path, F_OK), -1);

    assert_ok(open_with(key_b, key_a, t.dir, &again), &err);
    expect_same(first.ring, again.ring);
    df_data_keys_release(&again);
    assert_ok(open_with(key_b, NULL, t.dir, &again), &err);
    expect_same(first.ring, again.ring);
    df_data_keys_release(&again);
    assert_int_equal(open_with(key_a, NULL, t.dir, &again), DF_E_CONFIG);
    df_data_keys_release(&first);
}

static void a_made_master_gives_way_to_a_configured_one(void **state)
{
    struct df_data_keys made = {0}, given = {0};
    (void)state;

    assert_ok(open_with(NULL, NULL, t.dir, &made), &err);
    assert_ok(open_with(key_a, NULL, t.dir, &given), &err);
    expect_same(made.ring, given.ring);
    df_data_keys_release(&given);
    assert_ok(open_with(key_a, NULL, "/nonexistent", &given), &err);
    expect_same(made.ring, given.ring);
    df_data_keys_release(&given);
    df_data_keys_release(&made);
}

static void looking_changes_nothing(void **state)
{
    const struct df_keys_settings settings = {0};
    const struct df_master_options opt = {.for_server = true,
                                          .settings = &settings,
                                          .data_dir = t.dir,
                                          .clock = df_clock_real(),
                                          .look_only = true};
    struct df_data_keys keys = {0};
    char path[128];
    (void)state;

    assert_int_equal(df_data_keys_open(db, &opt, &keys, &err), DF_E_NOT_FOUND);
    (void)snprintf(path, sizeof path, "%s/master.key", t.dir);
    assert_int_equal(access(path, F_OK), -1);
}

static void what_was_done_to_the_table_is_told(void **state)
{
    static const struct {
        const char *sql;
        const char *told;
    } cases[] = {
        {"DELETE FROM DataKeys WHERE Purpose = 'audit'", "lost a key"},
        {"DELETE FROM DataKeys WHERE Purpose = 'index'", "lost a key"},
        {"DELETE FROM DataKeys WHERE Purpose = 'data'", "lost a key"},
        {"UPDATE DataKeys SET WrappedKey = (SELECT WrappedKey FROM DataKeys WHERE Id = 3) WHERE Id "
         "= 2",
         "key 2 does not open"},
        {"UPDATE DataKeys SET Purpose = 'data' WHERE Id = 3", "lost a key"},
        {"UPDATE DataKeys SET MasterId = 'key:00' WHERE Id = 1", "is under master key key:00"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct df_data_keys keys = {0};
        testdb_script(db, "DELETE FROM DataKeys");
        assert_ok(open_with(key_a, NULL, t.dir, &keys), &err);
        df_data_keys_release(&keys);
        testdb_script(db, cases[i].sql);
        assert_int_equal(open_with(key_a, NULL, t.dir, &keys), DF_E_CONFIG);
        if (!strstr(err.detail, cases[i].told))
            fail_msg("%s: %s", cases[i].sql, err.detail);
    }
}

/* New keys would have the ids of those that are lost. */
static void an_empty_table_of_a_used_database_is_refused(void **state)
{
    static const struct {
        const char *use, *undo;
    } cases[] = {
        {"UPDATE AuditHead SET Mac = (SELECT WrappedKey FROM DataKeys WHERE Id = 3)",
         "UPDATE AuditHead SET Mac = NULL"},
        {"INSERT INTO Erasures (Id, SubjectKind, SubjectHash, ErasedAt, CreatedBy) SELECT "
         "'01a1dec4-0000-7000-8000-000000000001', 1, WrappedKey, CreatedAt, 'admin' FROM DataKeys "
         "WHERE Id = 2",
         "DELETE FROM Erasures"},
        {"INSERT INTO Clients (Id, Name, ClientIdentifier, SecretHash, SecretSalt) SELECT "
         "'01a1dec4-0000-7000-8000-000000000001', 'a', 'a', WrappedKey, WrappedKey FROM DataKeys "
         "WHERE Id "
         "= 1; INSERT INTO ImportBatch (Id, ClientId, Status, FileName, FileType, CreatedAt) "
         "SELECT "
         "'01a1dec4-0000-7000-8000-000000000001', '01a1dec4-0000-7000-8000-000000000001', 3, 'a', "
         "2, CreatedAt FROM DataKeys WHERE Id = 1; INSERT INTO ImportKept (BatchId, Sequence, "
         "KeyId, "
         "Sealed, CreatedAt) SELECT '01a1dec4-0000-7000-8000-000000000001', 1, Id, WrappedKey, "
         "CreatedAt FROM DataKeys WHERE Id = 1",
         "DELETE FROM ImportKept"},
    };
    struct df_data_keys keys = {0};
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_ok(open_with(key_a, NULL, t.dir, &keys), &err);
        df_data_keys_release(&keys);
        testdb_script(db, cases[i].use);
        testdb_script(db, "DELETE FROM DataKeys");
        if (open_with(key_a, NULL, t.dir, &keys) != DF_E_CONFIG ||
            !strstr(err.detail, "restore its rows"))
            fail_msg("%s: %s", cases[i].use, err.detail);
        testdb_script(db, cases[i].undo);
    }
    assert_ok(open_with(key_a, NULL, t.dir, &keys), &err); /* as a new one */
    df_data_keys_release(&keys);
}

static void a_new_key_is_followed_and_used_in_time(void **state)
{
    const struct df_keys_settings settings = {.master_key = key_a};
    const struct df_master_options opt = {
        .for_server = true, .settings = &settings, .data_dir = t.dir, .clock = &clocks.base};
    struct df_data_keys one = {0}, other = {0};
    struct df_store *store;
    struct df_new_key n, same;
    int64_t now = df_wall_ms(&clocks.base), retired = -1;
    (void)state;

    assert_ok(df_store_open(&(struct df_store_options){.settings = {.url = t.url, .pool_size = 4},
                                                       .clock = df_clock_real()},
                            &store, &err),
              &err);
    assert_ok(df_data_keys_open(db, &opt, &one, &err), &err);
    assert_ok(df_data_keys_open(db, &opt, &other, &err), &err);
    assert_ok(df_data_keys_draw(&one, store, &n, &err), &err);
    assert_ok(df_data_keys_draw(&other, store, &same, &err), &err);
    assert_int_equal(n.id, 4);
    assert_ok(df_data_keys_add(&one, db, &n, now, &err), &err);
    assert_int_equal(df_data_keys_add(&other, db, &same, now, &err), DF_E_CONFLICT);

    assert_ok(df_data_keys_follow(&other, store, &err), &err);
    assert_true(df_keys_has(other.ring, 4));
    assert_int_equal(df_keys_current(other.ring), 1); /* not yet */
    df_fake_clock_advance_ms(&clocks, DF_KEY_ACTIVATION_MS);
    assert_ok(df_data_keys_follow(&other, store, &err), &err);
    assert_int_equal(df_keys_current(other.ring), 4);
    assert_ok(df_data_keys_follow(&one, store, &err), &err);
    expect_same(other.ring, one.ring);
    df_data_keys_release(&one);
    assert_ok(df_data_keys_open(db, &opt, &one, &err), &err);
    assert_int_equal(df_keys_current(one.ring), 4);

    /* The id of a key whose row is lost is not given again. */
    testdb_script(db, "DELETE FROM DataKeys WHERE Id = 4");
    assert_ok(df_data_keys_draw(&one, store, &n, &err), &err);
    assert_int_equal(n.id, 5);
    assert_ok(df_data_keys_draw_on(&one, db, &n, &err), &err);
    assert_int_equal(n.id, 5);
    assert_int_equal(df_data_keys_follow(&one, store, &err), DF_E_CONFIG);
    assert_non_null(strstr(err.detail, "data key 4 is in use"));

    assert_ok(df_data_keys_retire(store, 4, now, &retired, &err), &err);
    assert_int_equal(retired, 1);
    assert_ok(df_data_keys_retire(store, 4, now, &retired, &err), &err);
    assert_int_equal(retired, 0);
    df_data_keys_release(&one);
    df_data_keys_release(&other);
    df_store_close(store);
}

static void values_of_the_setting(void **state)
{
    static const struct {
        const char *value;
        bool valid;
    } cases[] = {
        {"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", true},
        {"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh0=", true},
        {"credential:dataflow-master", true},
        {"credential:", false},
        {"credential:../../etc/passwd", false},
        {"credential:.hidden", false},
        {"", false},
        {"short", false},
        {"file:/etc/key", false},
    };
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (df_master_is_valid(df_str_c(cases[i].value)) != cases[i].valid)
            fail_msg("%s", cases[i].value);
}

static void a_credential_is_read_from_its_directory(void **state)
{
    struct df_secret *value = df_secret_new(DF_STR("credential:master"));
    struct df_data_keys given = {0}, from_file = {0};
    char path[128];
    (void)state;

    assert_ok(open_with(key_a, NULL, t.dir, &given), &err);
    (void)unsetenv("CREDENTIALS_DIRECTORY");
    assert_int_equal(open_with(value, NULL, t.dir, &from_file), DF_E_CONFIG);
    assert_non_null(strstr(err.detail, "LoadCredential"));
    (void)setenv("CREDENTIALS_DIRECTORY", t.dir, 1);
    assert_int_equal(open_with(value, NULL, t.dir, &from_file), DF_E_CONFIG);
    (void)snprintf(path, sizeof path, "%s/master", t.dir);
    FILE *f = fopen(path, "w");
    (void)fprintf(f, "%s\r\n", KEY_A.ptr);
    (void)fclose(f);
    assert_ok(open_with(value, NULL, t.dir, &from_file), &err);
    expect_same(given.ring, from_file.ring);
    df_data_keys_release(&from_file);
    df_data_keys_release(&given);
    df_secret_free(value);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_first_draws_keys_and_the_second_opens_them),
        TEST(several_that_start_at_once_end_with_the_same_keys),
        TEST(another_master_is_refused_and_the_old_one_helps),
        TEST(a_made_master_gives_way_to_a_configured_one),
        TEST(looking_changes_nothing),
        TEST(what_was_done_to_the_table_is_told),
        TEST(an_empty_table_of_a_used_database_is_refused),
        TEST(a_new_key_is_followed_and_used_in_time),
        TEST(values_of_the_setting),
        TEST(a_credential_is_read_from_its_directory),
    };
    return testdb_run_tests("data_keys", &dialect, tests, sizeof(tests) / sizeof(tests[0]));
}
