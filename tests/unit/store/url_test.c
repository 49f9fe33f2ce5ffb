/* URLs of databases: which one they name, what of them may be shown, and what is said when they
 * lead nowhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/db.h"
#include "testdb.h"

static struct df_err err;

static void urls_tell_the_database(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        enum df_code code;
        enum df_dialect dialect;
    } cases[] = {
        {"sqlite:var/data.db", DF_OK, DF_SQLITE},
        {"postgres://u:p@h/d", DF_OK, DF_POSTGRES},
        {"postgresql://h/d", DF_OK, DF_POSTGRES},
        {"sqlserver://u:p@h:1433/d", DF_OK, DF_SQLSERVER},
        {"mysql://u:p@h/d", DF_E_CONFIG, DF_SQLITE},
        {"postgres:h", DF_E_CONFIG, DF_SQLITE},
        {"", DF_E_CONFIG, DF_SQLITE},
        {NULL, DF_E_CONFIG, DF_SQLITE},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        enum df_dialect d = DF_SQLITE;
        assert_code(df_db_dialect_of(cases[i].url, &d, &err), cases[i].code, &err);
        assert_int_equal(d, cases[i].dialect);
    }
    assert_string_equal(df_dialect_name(DF_SQLITE), "sqlite");
    assert_string_equal(df_dialect_name(DF_POSTGRES), "postgres");
    assert_string_equal(df_dialect_name(DF_SQLSERVER), "sqlserver");
}

static void shown_urls_have_no_secrets(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        const char *shown;
    } cases[] = {
        {"postgres://user:hunter2@db.example:5432/app?password=x",
         "postgres://***@db.example:5432/app"},
        {"postgres://user:hun@ter2@db/app", "postgres://***@db/app"},
        {"postgres://user:hunter2@db1:5432,db2:5433/app?password=x",
         "postgres://***@db1:5432,db2:5433/app"},
        {"postgres://db/app?user=u&password=hunter2", "postgres://db/app"},
        {"sqlserver://sa:hunter2@db:1433/app", "sqlserver://***@db:1433/app"},
        {"sqlite:/var/lib/x.db", "sqlite:/var/lib/x.db"},
        {"postgres:user:hunter2@db", "postgres"},
        {"hunter2", "hunter2"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char shown[128];
        df_db_url_masked(cases[i].url, shown, sizeof(shown));
        assert_string_equal(shown, cases[i].shown);
    }
}

static void connections_that_cannot_be_made_say_why_and_no_secret(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        enum df_code code;
    } cases[] = {
        {"postgres://user:hunter2%zz@127.0.0.1/app", DF_E_CONFIG},
        {"postgres://user:hunter2@127.0.0.1:port/app", DF_E_CONFIG},
        {"postgres://user:hunter2@127.0.0.1:1,127.0.0.1:2/app", DF_E_DB_UNAVAILABLE},
        {"postgres://user:hunter2@127.0.0.1/app?pasword=hunter2", DF_E_CONFIG},
        {"postgres://user:hunter2@[::1/app", DF_E_CONFIG},
        {"postgres://user:hunter2@127.0.0.1:1/app", DF_E_DB_UNAVAILABLE},
        {"sqlserver://sa:hunter2@127.0.0.1:1/app", DF_E_DB_UNAVAILABLE},
        {"mysql://user:hunter2@127.0.0.1/app", DF_E_CONFIG},
        {"sqlite:", DF_E_CONFIG},
        {"sqlite::memory:", DF_E_CONFIG},
        {"sqlite:/nonexistent/dir/file.db", DF_E_DB_UNAVAILABLE},
        {"sqlite:/dev/null", DF_E_CONFIG},
        {"sqlite:/proc/self/status", DF_E_DB_UNAVAILABLE},
        {"sqlite:/usr", DF_E_CONFIG},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct df_db *none = NULL;
        err = DF_ERR_INIT;
        enum df_code code = df_db_open(&(struct df_db_options){.url = cases[i].url}, &none, &err);
        assert_null(none);
        assert_code(code, cases[i].code, &err);
        assert_true(strlen(err.detail) > 10);
        assert_null(strstr(err.detail, "hunter2"));
    }
}

static void several_hosts_are_checked_without_a_connection(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        const char *why; /* NULL: it is fine */
    } cases[] = {
        {"postgres://u:hunter2@a,b/d", NULL},
        {"postgres://u:hunter2@a:5432,b:5433/d", NULL},
        {"postgres://u:hunter2@a:5432,b/d", NULL},
        {"postgres://u:hunter2@[::1]:5432,b:5433/d?target_session_attrs=read-write", NULL},
        {"postgres://u:hunter2@a,b/d?target_session_attrs=primary&connect_timeout=3", NULL},
        {"postgres://u:hunter2@a,b/d?target_session_attrs=any", NULL},
        {"postgres:///d?host=a,b&port=5432", NULL},
        {"postgres:///d?host=a,b&port=5432,5433&user=u&password=hunter2", NULL},
        {"postgres:///d?host=a,b&hostaddr=10.0.0.1,10.0.0.2", NULL},
        {"postgres:///d", NULL},
        {"postgres://u:hunter2@a,,b/d", "a host is missing"},
        {"postgres://u:hunter2@a,/d", "a host is missing"},
        {"postgres:///d?host=a,b&port=5432,5433,5434", "as many ports"},
        {"postgres:///d?host=a,b&hostaddr=10.0.0.1", "as many hosts"},
        {"postgres://u:hunter2@a:0,b/d", "port"},
        {"postgres://u:hunter2@a:5432,b:70000/d", "port"},
        {"postgres://u:hunter2@a:5432,b:x/d", "port"},
        {"postgres://u:hunter2@a,b/d?target_session_attrs=standby", "takes no writes"},
        {"postgres://u:hunter2@a,b/d?target_session_attrs=prefer-standby", "takes no writes"},
        {"postgres://u:hunter2@a,b/d?target_session_attrs=read-only", "takes no writes"},
        {"postgres://u:hunter2@a,b/d?target_session_attrs=x", "takes no writes"},
        {"postgres://u:hunter2@1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17/d", "16 hosts"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        err = DF_ERR_INIT;
        enum df_code code = df_db_check_url(cases[i].url, &err);
        if (code != (cases[i].why ? DF_E_CONFIG : DF_OK) ||
            (cases[i].why && !strstr(err.detail, cases[i].why)))
            fail_msg("%s: %s", cases[i].url, err.detail);
        assert_null(strstr(err.detail, "hunter2"));
    }
}

static void a_file_that_is_no_database_is_named(void **state)
{
    (void)state;
    char dir[] = "/tmp/dataflow-test-XXXXXX";
    char path[64];
    char url[80];
    struct df_db *none = NULL;

    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/notes.txt", dir);
    (void)snprintf(url, sizeof(url), "sqlite:%s", path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 500; i++)
        (void)fputs("not a database at all\n", f);
    (void)fclose(f);
    assert_code(df_db_open(&(struct df_db_options){.url = url}, &none, &err), DF_E_DB, &err);
    assert_non_null(strstr(err.detail, path));
    (void)unlink(path);
    (void)rmdir(dir);
}

/* Which URLs lead over a network to a server that nobody has verified. */
static void the_way_to_the_server_is_secured_or_warned_of(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        const char *word; /* NULL: no warning */
    } cases[] = {
        {"sqlite:var/data.db", NULL},
        {"postgres://u:p@db.example.com/d", "sslmode=prefer, the default"},
        {"postgres://u:p@db.example.com/d?sslmode=prefer", "sslmode=prefer:"},
        {"postgres://u:p@db.example.com/d?sslmode=allow", "sslmode=allow:"},
        {"postgres://u:p@db.example.com/d?sslmode=disable", "sslmode=disable:"},
        {"postgres://u:p@db.example.com/d?sslmode=require", "sslmode=verify-full"},
        {"postgres://u:p@db.example.com/d?sslmode=require&sslrootcert=/ca.pem", NULL},
        {"postgres://u:p@db.example.com/d?sslmode=verify-ca", NULL},
        {"postgres://u:p@db.example.com/d?sslmode=verify-full&sslrootcert=/ca.pem", NULL},
        {"postgres://u:p@10.0.0.7/d", "sslmode"},
        {"postgres://u:p@[2001:db8::1]/d", "sslmode"},
        {"postgres://u:p@127.example.com/d", "sslmode"},
        {"postgres://u:p@localhost/d", NULL},
        {"postgres://u:p@127.0.0.1:5432/d", NULL},
        {"postgres://u:p@[::1]/d", NULL},
        {"postgres:///d", NULL},
        {"postgres:///d?host=/run/postgresql", NULL},
        {"postgres://%2Frun%2Fpostgresql/d", NULL},
        {"postgres://localhost,db.example.com/d", "sslmode"},
        {"postgres://db.example.com/d?hostaddr=127.0.0.1", NULL},
        {"postgres://localhost/d?hostaddr=10.0.0.7", "sslmode"},
        {"postgres:///d?service=x", NULL}, /* its file may say more */
        {"sqlserver://u:p@db.example.com/d", "not verified"},
        {"sqlserver://u:p@db.example.com/d?encrypt=off", "in the clear"},
        {"sqlserver://u:p@db.example.com/d?servername=s", NULL},
        {"sqlserver://u:p@db.example.com/d?servername=s&encrypt=off", "in the clear"},
        {"sqlserver://u:p@127.0.0.1:1433/d?encrypt=off", NULL},
        {"sqlserver://u:p@[::1]/d", NULL},
        {"mysql://u:p@h/d", NULL}, /* refused elsewhere */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct df_buf out;
        df_buf_init(&out, 4096);
        df_db_url_risk(cases[i].url, false, &out);
        const char *said = df_buf_str(&out).ptr;
        bool right = cases[i].word ? out.len > 0 && strstr(said, cases[i].word) : out.len == 0;
        if (!right || (out.len > 0 && strstr(said, "u:p")))
            fail_msg("%s: %s", cases[i].url, out.len > 0 ? said : "nothing");
        df_buf_release(&out);
    }
}

static void only_a_verified_name_is_strictly_secured(void **state)
{
    (void)state;
    static const struct {
        const char *url;
        bool secured;
    } cases[] = {
        {"postgres://u:p@db.example.com/d?sslmode=verify-full", true},
        {"postgres://u:p@db.example.com/d?sslmode=verify-ca&sslrootcert=x", false},
        {"postgres://u:p@db.example.com/d?sslmode=require&sslrootcert=x", false},
        {"postgres://u:p@db.example.com/d", false},
        {"postgres:///d?service=x&host=db.example.com", false},
        {"postgres://u:p@127.0.0.1/d", true},
        {"sqlserver://u:p@db.example.com/d?servername=s", true},
        {"sqlserver://u:p@db.example.com/d", false},
        {"sqlite:x.db", true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct df_buf out;
        df_buf_init(&out, 4096);
        df_db_url_risk(cases[i].url, true, &out);
        if ((out.len == 0) != cases[i].secured)
            fail_msg("%s: %s", cases[i].url, out.len > 0 ? df_buf_str(&out).ptr : "nothing");
        df_buf_release(&out);
    }
}

int main(void)
{
    (void)unsetenv("PGSSLMODE");
    (void)unsetenv("PGHOST");
    (void)unsetenv("PGSERVICE");
    (void)unsetenv("PGHOSTADDR");
    (void)unsetenv("PGSSLROOTCERT");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_tell_the_database),
        cmocka_unit_test(shown_urls_have_no_secrets),
        cmocka_unit_test(the_way_to_the_server_is_secured_or_warned_of),
        cmocka_unit_test(only_a_verified_name_is_strictly_secured),
        cmocka_unit_test(several_hosts_are_checked_without_a_connection),
        cmocka_unit_test(connections_that_cannot_be_made_say_why_and_no_secret),
        cmocka_unit_test(a_file_that_is_no_database_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
