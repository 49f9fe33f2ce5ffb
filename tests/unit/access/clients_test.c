#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "access/audit_list.h"
#include "access/clients.h"
#include "fake_clock.h"
#include "store/schema.h"

#include "testdb.h"

/* The same operations over HTTP: tests/integration/access/test_clients.py. */

static enum df_dialect dialect; /* of the group that runs */
static struct testdb test;
static struct df_db *db;
static struct df_fake_clock clock_;
static const struct df_actor tester = {.name = {"tester", 6}, .ip = {"192.0.2.1", 9}};

static int open_db(void **state)
{
    (void)state;
    struct df_err err = DF_ERR_INIT;
    testdb_init(&test, dialect);
    db = testdb_open(&test);
    assert_ok(df_schema_apply(db, NULL, &err), &err);
    df_fake_clock_init(&clock_, 1700000000000, 42);
    return 0;
}

static int close_db(void **state)
{
    (void)state;
    df_db_close(db);
    testdb_release(&test);
    return 0;
}

static struct df_client client_named(const char *identifier, const char *name, uint32_t scopes)
{
    struct df_client c = {.id = df_uuid_v7(&clock_.base), .scopes = scopes};
    snprintf(c.identifier, sizeof c.identifier, "%s", identifier);
    snprintf(c.name, sizeof c.name, "%s", name);
    return c;
}

static struct df_secret_hash hash_of(const char *secret)
{
    struct df_secret_hash h;
    struct df_err err = DF_ERR_INIT;
    assert_int_equal(df_secret_hash_make(df_str_c(secret), &clock_.base, &h, &err), DF_OK);
    return h;
}

static void add(const char *identifier, const char *name, uint32_t scopes, const char *secret)
{
    struct df_err err = DF_ERR_INIT;
    struct df_client c = client_named(identifier, name, scopes);
    struct df_secret_hash h = hash_of(secret);
    assert_int_equal(df_client_insert(db, &c, &h, &tester, df_wall_ms(&clock_.base), &err), DF_OK);
}

static void identifiers_are_letters_digits_dot_dash_underscore(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool valid;
    } table[] = {
        {"a", true},
        {"Store-1.x_y", true},
        {"550e8400-e29b-41d4-a716-446655440000", true},
        {"0123456789012345678901234567890123456789012345678901234567890123", true},
        {"01234567890123456789012345678901234567890123456789012345678901234", false},
        {"", false},
        {"a b", false},
        {"a/b", false},
        {"../etc", false},
        {"caf\xc3\xa9", false},
        {"a\n", false},
        {"a'--", false},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        assert_int_equal(df_client_identifier_valid(df_str_c(table[i].text)), table[i].valid);
}

static void secrets_differ_and_match_only_their_own_hash(void **state)
{
    (void)state;
    struct df_client_secret a, b;
    df_client_secret_make(&clock_.base, &a);
    df_client_secret_make(&clock_.base, &b);
    assert_int_equal(strlen(a.text), DF_CLIENT_SECRET_LEN);
    assert_string_not_equal(a.text, b.text);
    struct df_secret_hash h = hash_of(a.text);
    assert_true(df_secret_hash_matches(&h, df_str_c(a.text)));
    assert_false(df_secret_hash_matches(&h, df_str_c(b.text)));
    assert_false(df_secret_hash_matches(&h, DF_STR("")));
    struct df_secret_hash again = hash_of(a.text);
    assert_memory_not_equal(h.salt, again.salt, sizeof h.salt);
    assert_memory_not_equal(h.hash, again.hash, sizeof h.hash);
}

static void a_client_comes_back_as_it_was_stored(void **state)
{
    (void)state;
    uint32_t scopes = 0;
    assert_true(df_scope_add(DF_STR("events"), &scopes));
    assert_true(df_scope_add(DF_STR("imports"), &scopes));
    assert_false(df_scope_add(DF_STR("Events"), &scopes));
    assert_false(df_scope_add(DF_STR(""), &scopes));
    add("acme", "Açúcar & Cia \xf0\x9f\x9a\xa2", scopes, "s1");

    struct df_err err = DF_ERR_INIT;
    struct df_client_record rec;
    assert_int_equal(df_client_load(db, DF_STR("acme"), &rec, &err), DF_OK);
    assert_string_equal(rec.client.name, "Açúcar & Cia \xf0\x9f\x9a\xa2");
    assert_int_equal(rec.client.scopes, scopes);
    assert_int_equal(rec.client.status, DF_CLIENT_ACTIVE);
    assert_int_equal(rec.client.created_at, 1700000000000);
    assert_int_equal(rec.client.last_seen_at, -1);
    assert_false(rec.has_previous);
    assert_true(df_secret_hash_matches(&rec.current, DF_STR("s1")));
}

#define WRITTEN_OUT                                                                                \
    "SELECT COUNT(*) FROM Clients WHERE Scopes ="                                                  \
    " 'interface,callback,imports,acks,events,integrations,interface-all'"
TESTDB_QUERY(written_out, 0, WRITTEN_OUT, WRITTEN_OUT, WRITTEN_OUT);

static void all_scopes_are_written_out(void **state)
{
    (void)state;
    add("everything", "E", DF_SCOPES_ALL, "s");
    struct df_err err = DF_ERR_INIT;
    struct df_client_record rec;
    assert_int_equal(df_client_load(db, DF_STR("everything"), &rec, &err), DF_OK);
    assert_int_equal(rec.client.scopes, DF_SCOPES_ALL);
    assert_int_equal(testdb_int(db, &written_out), 1);
}

static void interface_all_opens_the_interface(void **state)
{
    (void)state;
    assert_true(df_scope_allows(DF_SCOPE_INTERFACE, DF_STR("interface")));
    assert_true(df_scope_allows(DF_SCOPE_INTERFACE_ALL, DF_STR("interface")));
    assert_false(df_scope_allows(DF_SCOPE_INTERFACE, DF_STR("interface-all")));
    assert_false(df_scope_allows(DF_SCOPES_DEFAULT, DF_STR("callback")));
    assert_false(df_scope_allows(DF_SCOPES_ALL & ~(DF_SCOPE_INTERFACE | DF_SCOPE_INTERFACE_ALL),
                                 DF_STR("interface")));
    assert_false(df_scope_allows(DF_SCOPES_ALL, DF_STR("unheard of")));
}

static void the_same_identifier_twice_is_refused_by_name(void **state)
{
    (void)state;
    add("twice", "One", DF_SCOPES_ALL, "s");
    struct df_err err = DF_ERR_INIT;
    struct df_client c = client_named("twice", "Two", DF_SCOPES_ALL);
    struct df_secret_hash h = hash_of("x");
    assert_int_equal(df_client_insert(db, &c, &h, &tester, 0, &err), DF_E_EXISTS);
    assert_non_null(strstr(err.detail, "twice"));
}

static void rotation_keeps_the_old_secret_only_with_a_grace(void **state)
{
    (void)state;
    struct df_err err = DF_ERR_INIT;
    struct df_client_record rec;
    add("rot", "R", DF_SCOPES_ALL, "old");
    struct df_secret_hash h = hash_of("new");
    assert_int_equal(
        df_client_rotate(db, DF_STR("rot"), &h, 1700000060000, &tester, 1700000000000, &err),
        DF_OK);
    assert_int_equal(df_client_load(db, DF_STR("rot"), &rec, &err), DF_OK);
    assert_true(rec.has_previous);
    assert_int_equal(rec.previous_expires_at, 1700000060000);
    assert_true(df_secret_hash_matches(&rec.previous, DF_STR("old")));
    assert_true(df_secret_hash_matches(&rec.current, DF_STR("new")));

    h = hash_of("newer");
    assert_int_equal(df_client_rotate(db, DF_STR("rot"), &h, 0, &tester, 1700000000000, &err),
                     DF_OK);
    assert_int_equal(df_client_load(db, DF_STR("rot"), &rec, &err), DF_OK);
    assert_false(rec.has_previous);
}

static void changing_nobody_is_not_found(void **state)
{
    (void)state;
    struct df_err err = DF_ERR_INIT;
    struct df_client_record rec;
    struct df_secret_hash h = hash_of("x");
    assert_int_equal(df_client_load(db, DF_STR("nobody"), &rec, &err), DF_E_NOT_FOUND);
    assert_int_equal(
        df_client_set_status(db, DF_STR("nobody"), DF_CLIENT_SUSPENDED, &tester, 0, &err),
        DF_E_NOT_FOUND);
    assert_int_equal(df_client_rotate(db, DF_STR("nobody"), &h, 0, &tester, 0, &err),
                     DF_E_NOT_FOUND);
}

static void every_change_leaves_an_audit_row(void **state)
{
    (void)state;
    struct df_err err = DF_ERR_INIT;
    add("watched", "W", DF_SCOPES_ALL, "s");
    struct df_secret_hash h = hash_of("t");
    assert_int_equal(
        df_client_set_status(db, DF_STR("watched"), DF_CLIENT_SUSPENDED, &tester, 1000, &err),
        DF_OK);
    assert_int_equal(
        df_client_set_status(db, DF_STR("watched"), DF_CLIENT_ACTIVE, &tester, 2000, &err), DF_OK);
    assert_int_equal(df_client_rotate(db, DF_STR("watched"), &h, 0, &tester, 3000, &err), DF_OK);

    struct df_buf out;
    struct df_json_out json;
    struct df_audit_page page = {.limit = 4};
    df_buf_init(&out, 1 << 20);
    df_json_out_init(&json, &out);
    df_json_open(&json, '[');
    assert_int_equal(df_audit_json(db, &(struct df_audit_filter){0}, &page, &json, &err), DF_OK);
    df_json_close(&json, ']');
    const char *text = df_buf_str(&out).ptr;
    const char *rotated = strstr(text, "ClientSecretRotated");
    const char *activated = strstr(text, "ClientActivated");
    const char *suspended = strstr(text, "ClientSuspended");
    const char *created = strstr(text, "ClientCreated");
    assert_true(rotated && activated && suspended && created);
    assert_true(rotated < activated && activated < suspended && suspended < created);
    assert_non_null(strstr(text, "\"ip\":\"192.0.2.1\""));
    assert_int_equal(page.shown, 4);
    df_buf_release(&out);
}

static void count_one(void *arg, const struct df_client *c)
{
    (void)c;
    ++*(int *)arg;
}

static void listing_pages_and_counts(void **state)
{
    (void)state;
    struct df_err err = DF_ERR_INIT;
    struct df_page page = {.size = 3, .list = "clients", .by_uuid = true};
    struct df_arena arena;
    int seen = 0, rest = 0;
    df_arena_init(&arena);
    assert_int_equal(df_client_list(db, &page, &arena, count_one, &seen, &err), DF_OK);
    assert_int_equal(seen, 3);
    page.size = 1000;
    assert_true(df_page_forward(&page));
    assert_int_equal(df_client_list(db, &page, &arena, count_one, &rest, &err), DF_OK);
    assert_int_equal(seen + rest, page.total);
    assert_false(df_page_forward(&page));
    df_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identifiers_are_letters_digits_dot_dash_underscore),
        cmocka_unit_test(secrets_differ_and_match_only_their_own_hash),
        cmocka_unit_test(a_client_comes_back_as_it_was_stored),
        cmocka_unit_test(all_scopes_are_written_out),
        cmocka_unit_test(interface_all_opens_the_interface),
        cmocka_unit_test(the_same_identifier_twice_is_refused_by_name),
        cmocka_unit_test(rotation_keeps_the_old_secret_only_with_a_grace),
        cmocka_unit_test(changing_nobody_is_not_found),
        cmocka_unit_test(every_change_leaves_an_audit_row),
        cmocka_unit_test(listing_pages_and_counts),
    };
    int failed = 0;
    for (int d = 0; d < DF_DIALECT_COUNT; d++) {
        dialect = (enum df_dialect)d;
        if (testdb_available(dialect))
            failed +=
                cmocka_run_group_tests_name(df_dialect_name(dialect), tests, open_db, close_db);
    }
    testdb_print_skipped();
    return failed;
}
