/* Which relay is for the server's own events. */
#include "relay/relays.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static bool is_own(const char *url, const char *table, const char *own)
{
    struct df_relay_settings s = {.url = (char *)(uintptr_t)url, .table = (char *)(uintptr_t)table};
    return df_relays_is_own(&s, own);
}

static void the_same_database_is_known_however_it_is_written(void **state)
{
    static const char own[] = "postgres://dataflow:s3cret@db.example:5432/app?sslmode=require";
    static const struct {
        const char *url;
        const char *table;
        bool own;
    } cases[] = {
        {own, "outbox_events", true},
        {own, "OUTBOX_EVENTS", true},
        {own, "public.outbox_events", true},
        {own, "orders", false},
        {own, "outbox_events.old", false},
        {"postgresql://relay@DB.example:5432/app", "outbox_events", true},
        {"postgres://a:b@c@db.example:5432/app#x", "outbox_events", true},
        {"postgres://dataflow@db.example:5432/other", "outbox_events", false},
        {"postgres://dataflow@other.example:5432/app", "outbox_events", false},
        {"sqlserver://dataflow@db.example:5432/app", "outbox_events", false},
        {"sqlite:app", "outbox_events", false},
        {"nothing", "outbox_events", false},
    };
    (void)state;

    for (size_t i = 0; i < LEN(cases); i++)
        if (is_own(cases[i].url, cases[i].table, own) != cases[i].own)
            fail_msg("%s %s", cases[i].url, cases[i].table);
}

static void a_file_is_known_by_any_of_its_names(void **state)
{
    char name[] = "/tmp/relays-XXXXXX";
    char other[64], url[64];
    int fd = mkstemp(name);
    (void)state;

    assert_true(fd >= 0);
    snprintf(url, sizeof url, "sqlite:%s", name);
    snprintf(other, sizeof other, "sqlite:/tmp/../tmp/%s", name + 5);
    assert_true(is_own(url, "outbox_events", url));
    assert_true(is_own(other, "outbox_events", url));
    assert_false(is_own("sqlite:/tmp", "outbox_events", url));
    unlink(name);
    assert_false(is_own(other, "outbox_events", url));
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_database_is_known_however_it_is_written),
        cmocka_unit_test(a_file_is_known_by_any_of_its_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
