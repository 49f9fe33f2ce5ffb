/*
 * Whose call is next: shares of owners and destinations, by counting what may start while nothing
 * ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "net/lines.h"

#include <stdio.h>
#include <stdlib.h>

#define PLACES      256
#define DESTINATION 64 /* of them for one */

static struct df_lines lines;
static struct df_call *made[20000];
static size_t made_count;
static struct df_call *started[20000];
static size_t started_count;

static int setup(void **state)
{
    (void)state;
    df_lines_init(&lines, PLACES, DESTINATION);
    made_count = started_count = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    while (df_lines_expired(&lines, INT64_MAX))
        ;
    df_lines_release(&lines);
    for (size_t i = 0; i < made_count; i++)
        free(made[i]);
    return 0;
}

static void add(const char *owner, bool of_tenant, unsigned destination)
{
    struct df_call *call = df_calloc(1, sizeof(*call));
    char text[64];
    struct df_url url;

    (void)snprintf(text, sizeof(text), "http://host-%u.example/", destination);
    assert_int_equal(df_url_parse(df_str_c(text), &url, NULL), DF_OK);
    call->owner = df_str_c(owner);
    call->of_tenant = of_tenant;
    call->deadline_ns = (int64_t)made_count;
    made[made_count++] = call;
    df_lines_add(&lines, call, &url);
}

static void add_many(const char *owner, bool of_tenant, unsigned count, unsigned destinations)
{
    for (unsigned i = 0; i < count; i++)
        add(owner, of_tenant, i % destinations);
}

/* As the client does: as many as there are places. */
static void start_all(void)
{
    struct df_call *call;
    while (started_count < PLACES && (call = df_lines_next(&lines)))
        started[started_count++] = call;
}

static size_t count_of(const char *owner)
{
    size_t n = 0;
    for (size_t i = 0; i < started_count; i++)
        n += df_str_eq(started[i]->owner, df_str_c(owner));
    return n;
}

static void end_one(const char *owner)
{
    for (size_t i = 0; i < started_count; i++) {
        if (!df_str_eq(started[i]->owner, df_str_c(owner)))
            continue;
        df_lines_leave(&lines, started[i]);
        started[i] = started[--started_count];
        return;
    }
    fail_msg("%s has no call", owner);
}

static void a_tenant_whose_calls_all_hang_has_a_quarter(void **state)
{
    (void)state;
    add_many("hog", true, 5000, 1000);
    start_all();
    assert_int_equal(count_of("hog"), PLACES / 4);
    add_many("other", true, 10, 10);
    add_many("ticket-gateway", false, 10, 1);
    start_all();
    assert_int_equal(count_of("other"), 10);
    assert_int_equal(count_of("ticket-gateway"), 10);
    assert_int_equal(count_of("hog"), PLACES / 4);
}

static void however_many_tenants_hang_there_is_room_for_one_more(void **state)
{
    (void)state;
    enum { HOGS = 40 };
    char name[16];
    size_t least = PLACES;
    size_t most = 0;

    for (int i = 0; i < HOGS; i++) {
        (void)snprintf(name, sizeof(name), "hog-%d", i);
        char *kept = df_strdup(df_str_c(name));
        add_many(kept, true, 100, 50);
    }
    start_all();
    for (int i = 0; i < HOGS; i++) {
        (void)snprintf(name, sizeof(name), "hog-%d", i);
        size_t n = count_of(name);
        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    assert_in_range(least, 1, most);
    assert_in_range(most, 1, 4);
    add_many("other", true, 1, 1);
    add_many("ticket-gateway", false, 200, 4);
    start_all();
    assert_int_equal(count_of("other"), 1);
    assert_int_equal(count_of("ticket-gateway"), PLACES / 4);
    for (size_t i = 0; i < made_count; i++) {
        if (i % 100 == 0 && df_str_starts(made[i]->owner, DF_STR("hog")))
            free((void *)(uintptr_t)made[i]->owner.ptr);
    }
}

static void a_channel_that_hangs_leaves_the_others_their_places(void **state)
{
    (void)state;
    add_many("ticket-return", false, 5000, 100);
    start_all();
    assert_int_equal(count_of("ticket-return"), PLACES / 4);
    add_many("ticket-gateway", false, 30, 1);
    start_all();
    assert_int_equal(count_of("ticket-gateway"), 30);
}

/* A tenant names the host of the gateway; one channel's path of it hangs. */
static void who_hangs_at_a_destination_leaves_places_there(void **state)
{
    (void)state;
    add_many("hog", true, 500, 1);
    add_many("ticket-return", false, 500, 1);
    start_all();
    assert_int_equal(count_of("hog"), DESTINATION * 3 / 4);
    assert_int_equal(count_of("ticket-return"), DESTINATION * 3 / 4);
    add_many("other", true, 5, 1);
    add_many("ticket-gateway", false, 5, 1);
    start_all();
    assert_int_equal(count_of("other"), 5);
    assert_int_equal(count_of("ticket-gateway"), 5);
}

static void a_free_place_goes_to_whose_turn_it_is(void **state)
{
    (void)state;
    add_many("hog", true, 5000, 1000);
    add_many("second", true, 5000, 1000);
    start_all();
    size_t of_hog = count_of("hog");
    size_t of_second = count_of("second");
    assert_in_range(of_hog, PLACES / 6 - 1, PLACES / 6 + 1);
    assert_in_range(of_second, PLACES / 6 - 1, PLACES / 6 + 1);
    add_many("third", true, 5000, 1000);
    for (int i = 0; i < 200; i++) {
        end_one(i % 2 ? "hog" : "second");
        start_all();
    }
    /* It waits behind ten thousand calls, and has its share all the same. */
    assert_in_range(count_of("third"), PLACES / 8 - 2, PLACES / 8 + 2);
}

static void calls_of_nobody_have_all_places(void **state)
{
    (void)state;
    add_many("", false, 500, 10);
    start_all();
    assert_int_equal(started_count, PLACES);
}

static void who_left_the_line_is_forgotten(void **state)
{
    (void)state;
    size_t waited = 0;

    add_many("hog", true, 5000, 1000);
    start_all();
    size_t running = started_count;
    while (df_lines_expired(&lines, INT64_MAX))
        waited++;
    assert_int_equal(waited, 5000 - running);
    while (started_count > 0)
        end_one("hog");
    start_all();
    assert_int_equal(started_count, 0);
    assert_int_equal(lines.waiting.count, 0);
    /* The sweep frees lanes, owners and destinations that nobody uses any more. */
    add_many("next", true, 3000, 3000);
    assert_in_range(lines.lanes.count, 3000, 3000 + 2048);
}

int main(void)
{
#define ON_EACH(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        ON_EACH(a_tenant_whose_calls_all_hang_has_a_quarter),
        ON_EACH(however_many_tenants_hang_there_is_room_for_one_more),
        ON_EACH(a_channel_that_hangs_leaves_the_others_their_places),
        ON_EACH(who_hangs_at_a_destination_leaves_places_there),
        ON_EACH(a_free_place_goes_to_whose_turn_it_is),
        ON_EACH(calls_of_nobody_have_all_places),
        ON_EACH(who_left_the_line_is_forgotten),
    };
    return cmocka_run_group_tests_name("lines", tests, NULL, NULL);
}
