/* Who may try a login, by failures and by who was right lately; the line before the hash threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "access/gate.h"
#include "access/hash_line.h"
#include "fake_clock.h"
#include "net/caller.h"

#include <stdio.h>

#define LEN(a)      (sizeof(a) / sizeof((a)[0]))
#define LIMIT       6
#define NETWORK_MAX (LIMIT * DF_GATE_NETWORK_FACTOR)
#define HOUR_MS     INT64_C(3600000)

static struct df_fake_clock clock_;
static struct df_gate *gate;

static int open_gate(void **state)
{
    (void)state;
    df_fake_clock_init(&clock_, 0, 7);
    gate = df_gate_new(LIMIT, &clock_.base);
    return 0;
}

static int close_gate(void **state)
{
    (void)state;
    df_gate_free(gate);
    return 0;
}

static struct df_attempt login(const char *address, const char *id, const char *secret)
{
    struct df_attempt a;
    struct df_ip ip;
    char network[DF_NETWORK_TEXT];
    assert_true(df_ip_parse(df_str_c(address), &ip));
    df_ip_network_text(&ip, network);
    df_gate_attempt(gate, df_str_c(network), df_str_c(id), df_str_c(secret), &a);
    return a;
}

static enum df_gate_verdict ask(const char *address, const char *id, const char *secret)
{
    struct df_attempt a = login(address, id, secret);
    int64_t wait_ms = -1;
    enum df_gate_verdict v = df_gate_ask(gate, &a, &wait_ms);
    if (v == DF_GATE_SHUT)
        assert_in_range(wait_ms, 1, 60001);
    return v;
}

static void right(const char *address, const char *id, const char *secret)
{
    struct df_attempt a = login(address, id, secret);
    df_gate_right(gate, &a);
}

/* Wrong secrets, each another, until none is looked at; how many were. */
static int guess(const char *address, const char *id, int most)
{
    char secret[32];
    int looked_at = 0;

    for (int i = 0; i < most; i++) {
        (void)snprintf(secret, sizeof secret, "guess-%d", i);
        struct df_attempt a = login(address, id, secret);
        int64_t wait_ms;
        if (df_gate_ask(gate, &a, &wait_ms) == DF_GATE_SHUT)
            break;
        df_gate_wrong(gate, &a);
        looked_at++;
    }
    return looked_at;
}

/* --- the gate --- */

static void a_pair_has_its_failures_and_others_theirs(void **state)
{
    (void)state;
    assert_int_equal(guess("192.0.2.1", "acme", 100), LIMIT);
    assert_int_equal(ask("192.0.2.1", "acme", "any"), DF_GATE_SHUT);
    assert_int_equal(ask("192.0.2.1", "other", "any"), DF_GATE_UNKNOWN);
    assert_int_equal(ask("192.0.2.2", "acme", "any"), DF_GATE_UNKNOWN);
    df_fake_clock_advance_ms(&clock_, 10001);
    assert_int_equal(guess("192.0.2.1", "acme", 100), 1); /* six a minute come back */
}

static void addresses_of_one_64_share_their_failures(void **state)
{
    (void)state;
    assert_int_equal(guess("2001:db8::1", "acme", 4), 4);
    assert_int_equal(guess("2001:db8::2", "acme", 100), LIMIT - 4);
    assert_int_equal(ask("2001:db8::ffff:1", "acme", "any"), DF_GATE_SHUT);
    assert_int_equal(ask("2001:db8:0:1::1", "acme", "any"), DF_GATE_UNKNOWN);
}

/* The table of who is let through after LIMIT failures of "acme" from 192.0.2.1. */
static void who_was_right_lately_is_not_held_back(void **state)
{
    (void)state;
    static const struct {
        int64_t after_ms; /* since it was right */
        const char *address;
        const char *id;
        const char *secret;
        enum df_gate_verdict verdict;
    } cases[] = {
        {0, "192.0.2.1", "acme", "right", DF_GATE_KNOWN},
        {0, "192.0.2.1", "acme", "wrong", DF_GATE_SHUT},
        {0, "192.0.2.1", "acme", "righ", DF_GATE_SHUT},
        {0, "192.0.2.1", "other", "right", DF_GATE_UNKNOWN},
        {0, "192.0.2.9", "acme", "right", DF_GATE_UNKNOWN},
        {6 * 60000, "192.0.2.1", "acme", "right",
         DF_GATE_KNOWN}, /* past the cache's five minutes */
        {6 * 60000, "192.0.2.1", "acme", "wrong", DF_GATE_SHUT},
        {23 * HOUR_MS, "192.0.2.1", "acme", "right", DF_GATE_KNOWN},
        {24 * HOUR_MS, "192.0.2.1", "acme", "right", DF_GATE_SHUT},
    };
    for (size_t i = 0; i < LEN(cases); i++) {
        close_gate(NULL);
        open_gate(NULL);
        right("192.0.2.1", "acme", "right");
        df_fake_clock_advance_ms(&clock_, cases[i].after_ms);
        assert_int_equal(guess("192.0.2.1", "acme", 100), LIMIT);
        enum df_gate_verdict got = ask(cases[i].address, cases[i].id, cases[i].secret);
        if (got != cases[i].verdict)
            fail_msg("case %zu: %d", i, (int)got);
    }
}

static void being_right_again_renews_the_day(void **state)
{
    (void)state;
    right("192.0.2.1", "acme", "right");
    df_fake_clock_advance_ms(&clock_, 20 * HOUR_MS);
    right("192.0.2.1", "acme", "right");
    df_fake_clock_advance_ms(&clock_, 20 * HOUR_MS);
    assert_int_equal(ask("192.0.2.1", "acme", "right"), DF_GATE_KNOWN);
}

/* An attacker behind the client's own address, for an hour: as many guesses as anybody has, and the
 * client gets in every time. */
static void a_neighbour_neither_locks_out_nor_gets_more_guesses(void **state)
{
    (void)state;
    int looked_at = 0;

    right("192.0.2.1", "acme", "right");
    for (int second = 0; second < 3600; second++) {
        looked_at += guess("192.0.2.1", "acme", 50);
        assert_int_equal(ask("192.0.2.1", "acme", "right"), DF_GATE_KNOWN);
        df_fake_clock_advance_ms(&clock_, 1000);
    }
    assert_in_range(looked_at, LIMIT * 59, LIMIT * 61);
}

static void a_secret_that_is_right_no_longer_is_forgotten(void **state)
{
    (void)state;
    right("192.0.2.1", "acme", "old");
    struct df_attempt old = login("192.0.2.1", "acme", "old");
    df_gate_wrong(gate, &old);
    assert_int_equal(guess("192.0.2.1", "acme", 100), LIMIT - 1);
    assert_int_equal(ask("192.0.2.1", "acme", "old"), DF_GATE_SHUT);
}

static void both_secrets_of_a_rotation_are_known(void **state)
{
    (void)state;
    right("192.0.2.1", "acme", "old");
    right("192.0.2.1", "acme", "new");
    guess("192.0.2.1", "acme", 100);
    assert_int_equal(ask("192.0.2.1", "acme", "old"), DF_GATE_KNOWN);
    assert_int_equal(ask("192.0.2.1", "acme", "new"), DF_GATE_KNOWN);
}

static void many_ids_of_one_network_have_a_limit_together(void **state)
{
    (void)state;
    char id[32];
    int looked_at = 0;

    right("192.0.2.1", "acme", "right");
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(id, sizeof id, "client-%d", i);
        looked_at += guess("192.0.2.1", id, 1);
    }
    assert_int_equal(looked_at, NETWORK_MAX);
    assert_int_equal(ask("192.0.2.1", "never-seen", "any"), DF_GATE_SHUT);
    assert_int_equal(ask("192.0.2.1", "acme", "right"), DF_GATE_KNOWN);
    assert_int_equal(ask("192.0.2.2", "never-seen", "any"), DF_GATE_UNKNOWN);
}

/* A flood of other pairs, from as many addresses, makes nobody forgotten that is being held back,
 * and nobody that was right. */
static void a_flood_of_strangers_frees_nobody_and_forgets_nobody(void **state)
{
    (void)state;
    char address[32];
    char id[32];

    right("192.0.2.1", "acme", "right");
    assert_int_equal(guess("192.0.2.1", "acme", 100), LIMIT);
    for (int i = 0; i < 50000; i++) {
        (void)snprintf(address, sizeof address, "10.%d.%d.%d", i >> 16, i >> 8 & 255, i & 255);
        (void)snprintf(id, sizeof id, "flood-%d", i);
        assert_int_equal(guess(address, id, 1), 1);
    }
    assert_int_equal(ask("192.0.2.1", "acme", "wrong"), DF_GATE_SHUT);
    assert_int_equal(ask("192.0.2.1", "acme", "right"), DF_GATE_KNOWN);
}

/* --- the line --- */

static struct df_hash_line line;
static struct df_hash_task tasks[DF_HASH_LINE_PLACES + 8];

static int open_line(void **state)
{
    (void)state;
    memset(tasks, 0, sizeof(tasks));
    df_hash_line_init(&line);
    return 0;
}

static int release_line(void **state)
{
    (void)state;
    df_hash_line_release(&line);
    return 0;
}

static void one_sender_has_its_share_and_strangers_leave_room(void **state)
{
    (void)state;
    size_t n = 0;

    while (df_hash_line_push(&line, &tasks[n], 7))
        n++;
    assert_int_equal(n, DF_HASH_LINE_SENDER);
    for (uint64_t sender = 100; df_hash_line_push(&line, &tasks[n], sender); sender++)
        n++;
    assert_int_equal(n, DF_HASH_LINE_STRANGERS);
    while (df_hash_line_push(&line, &tasks[n], 0))
        n++;
    assert_int_equal(n, DF_HASH_LINE_PLACES);
    /* A place that comes free is the sender's again. */
    assert_ptr_equal(df_hash_line_pop(&line), &tasks[DF_HASH_LINE_STRANGERS]);
    for (int i = 0; i < DF_HASH_LINE_TURNS; i++)
        assert_non_null(df_hash_line_pop(&line));
    assert_true(df_hash_line_push(&line, &tasks[n], 7));
}

static void the_same_question_takes_no_place_of_its_own(void **state)
{
    (void)state;
    static const unsigned char keys[2][DF_HASH_TASK_KEY] = {{1}, {2}};
    size_t beside = 0;

    for (size_t i = 0; i < LEN(tasks); i++) {
        tasks[i].key = keys[i % 2];
        assert_true(df_hash_line_push(&line, &tasks[i], 7));
    }
    for (size_t i = 0; i < 2; i++) {
        struct df_hash_task *t = df_hash_line_pop(&line);
        struct df_hash_task *b;
        assert_ptr_equal(t->key, keys[i]);
        for (; (b = DF_LIST_TAKE(&t->beside, struct df_hash_task, link)); beside++)
            assert_ptr_equal(b->key, keys[i]);
    }
    assert_int_equal(beside, LEN(tasks) - 2);
    assert_int_equal(line.strangers.count, 0);
    /* Of a stranger's question no known one hears the answer. */
    assert_true(df_hash_line_push(&line, &tasks[0], 7));
    assert_true(df_hash_line_push(&line, &tasks[2], 0));
    assert_ptr_equal(df_hash_line_pop(&line), &tasks[2]);
    assert_int_equal(tasks[2].beside.count, 0);
}

static void the_known_go_first_but_not_always(void **state)
{
    (void)state;
    static const char order[] = "kkkskkksss"; /* of six known and four strangers */
    size_t known = 0, strangers = 6;

    for (size_t i = 6; i < 10; i++)
        assert_true(df_hash_line_push(&line, &tasks[i], i));
    for (size_t i = 0; i < 6; i++)
        assert_true(df_hash_line_push(&line, &tasks[i], 0));
    for (size_t i = 0; i < sizeof order - 1; i++) {
        const struct df_hash_task *t = df_hash_line_pop(&line);
        size_t want = t->sender ? strangers++ : known++;
        assert_ptr_equal(t, &tasks[want]); /* each in its order */
        assert_int_equal(t->sender ? 's' : 'k', order[i]);
    }
    assert_int_equal(known, 6);
    assert_int_equal(strangers, 10);
}

static void a_closed_line_gives_what_it_has_and_takes_no_more(void **state)
{
    (void)state;
    assert_true(df_hash_line_push(&line, &tasks[0], 3));
    assert_true(df_hash_line_push(&line, &tasks[1], 0));
    df_hash_line_close(&line);
    assert_false(df_hash_line_push(&line, &tasks[2], 0));
    assert_ptr_equal(df_hash_line_pop(&line), &tasks[1]);
    assert_ptr_equal(df_hash_line_pop(&line), &tasks[0]);
    assert_null(df_hash_line_pop(&line));
}

#define GATE(f) cmocka_unit_test_setup_teardown(f, open_gate, close_gate)
#define LINE(f) cmocka_unit_test_setup_teardown(f, open_line, release_line)

int main(void)
{
    const struct CMUnitTest tests[] = {
        GATE(a_pair_has_its_failures_and_others_theirs),
        GATE(addresses_of_one_64_share_their_failures),
        GATE(who_was_right_lately_is_not_held_back),
        GATE(being_right_again_renews_the_day),
        GATE(a_neighbour_neither_locks_out_nor_gets_more_guesses),
        GATE(a_secret_that_is_right_no_longer_is_forgotten),
        GATE(both_secrets_of_a_rotation_are_known),
        GATE(many_ids_of_one_network_have_a_limit_together),
        GATE(a_flood_of_strangers_frees_nobody_and_forgets_nobody),
        LINE(one_sender_has_its_share_and_strangers_leave_room),
        LINE(the_same_question_takes_no_place_of_its_own),
        LINE(the_known_go_first_but_not_always),
        LINE(a_closed_line_gives_what_it_has_and_takes_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
