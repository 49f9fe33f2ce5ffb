/* What the databases' own error numbers are to us; SQL Server's are in store_odbc_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/pg_private.h"
#include "store/sqlite_private.h"

#include <errno.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static void what_the_states_of_postgresql_mean(void **state)
{
    (void)state;
    static const struct {
        const char *state;
        enum df_code code;
    } cases[] = {
        {"53100", DF_E_DISK_FULL},      {"53200", DF_E_DB_UNAVAILABLE},
        {"53300", DF_E_DB_UNAVAILABLE}, {"58030", DF_E_DB_UNAVAILABLE},
        {"57P01", DF_E_DB_UNAVAILABLE}, {"08006", DF_E_DB_UNAVAILABLE},
        {"57014", DF_E_DB_TIMEOUT},     {"40P01", DF_E_DB_CONFLICT},
        {"55P03", DF_E_DB_CONFLICT},    {"23505", DF_E_DB_UNIQUE},
        {"23503", DF_E_DB_CONSTRAINT},  {"22001", DF_E_DB_CONSTRAINT},
        {"22021", DF_E_INVALID_TEXT},   {"42P01", DF_E_DB},
    };
    for (size_t i = 0; i < LEN(cases); i++) {
        enum df_code got = df_pg_code(cases[i].state);
        if (got != cases[i].code)
            fail_msg("%s: %s", cases[i].state, df_code_name(got));
    }
}

/* The system's number may be an old one: it counts only where input or output failed just now. */
static void which_errors_of_sqlite_are_a_full_disk(void **state)
{
    (void)state;
    static const struct {
        int rc;
        int os_error;
        bool full;
    } cases[] = {
        {SQLITE_FULL, 0, true},
        {SQLITE_FULL, EIO, true},
        {SQLITE_IOERR_WRITE, ENOSPC, true},
        {SQLITE_IOERR_FSYNC, EDQUOT, true},
        {SQLITE_IOERR_SHMSIZE, ENOSPC, true},
        {SQLITE_IOERR_TRUNCATE, ENOSPC, true},
        {SQLITE_CANTOPEN, ENOSPC, true},
        {SQLITE_IOERR_WRITE, EIO, false},
        {SQLITE_IOERR_READ, 0, false},
        {SQLITE_CORRUPT, ENOSPC, false},
        {SQLITE_NOTADB, ENOSPC, false},
        {SQLITE_READONLY, ENOSPC, false},
    };
    for (size_t i = 0; i < LEN(cases); i++) {
        if (df_sqlite_is_full(cases[i].rc, cases[i].os_error) != cases[i].full)
            fail_msg("%d, %d", cases[i].rc, cases[i].os_error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_states_of_postgresql_mean),
        cmocka_unit_test(which_errors_of_sqlite_are_a_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
