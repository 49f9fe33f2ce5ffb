#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/metrics.h"

#include "fake_clock.h"

#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static struct df_buf page;

static const char *exposition(void)
{
    df_buf_release(&page);
    df_buf_init(&page, 1 << 22);
    df_metrics_write(&page);
    assert_false(df_buf_failed(&page));
    return df_buf_str(&page).ptr;
}

static void assert_shown(const char *text)
{
    if (!strstr(exposition(), text))
        fail_msg("not in the exposition: %s\n%s", text, page.ptr);
}

static void counters_only_go_up(void **state)
{
    static struct df_metric_family f = {
        .name = "test_counted_total", .help = "Things counted.", .type = DF_COUNTER};
    (void)state;

    df_metric_register(&f);
    assert_shown("# HELP test_counted_total Things counted.\n# TYPE test_counted_total counter\n"
                 "test_counted_total 0\n");
    struct df_metric *m = df_metric_get(&f, NULL);
    df_metric_add(m, 2);
    df_metric_add(m, -1);
    df_metric_add(m, (double)NAN);
    df_metric_add(m, 0.5);
    assert_true(df_metric_value(m) == 2.5);
    df_metric_register(&f);
    assert_ptr_equal(df_metric_get(&f, NULL), m);
    assert_shown("test_counted_total 2.5\n");
}

static void gauges_go_both_ways(void **state)
{
    static struct df_metric_family f = {
        .name = "test_level", .help = "A level.\nTwo \"lines\" \\.", .type = DF_GAUGE};
    static const struct {
        double v;
        const char *shown;
    } cases[] = {
        {-3, "\ntest_level -3\n"},
        {1e15, "\ntest_level 1000000000000000\n"},
        {123456789012, "\ntest_level 123456789012\n"},
        {0.1, "\ntest_level 0.1\n"},
        {1e300, "\ntest_level 1e+300\n"},
        {(double)INFINITY, "\ntest_level +Inf\n"},
        {-(double)INFINITY, "\ntest_level -Inf\n"},
        {(double)NAN, "\ntest_level NaN\n"},
    };
    (void)state;

    struct df_metric *m = df_metric_get(&f, NULL);
    df_metric_add(m, 5);
    df_metric_add(m, -7);
    assert_shown("\ntest_level -2\n");
    assert_shown("# HELP test_level A level.\\nTwo \"lines\" \\\\.\n");
    for (size_t i = 0; i < LEN(cases); i++) {
        df_metric_set(m, cases[i].v);
        assert_shown(cases[i].shown);
    }
    df_metric_set(m, 0);
}

static void histograms_cumulate(void **state)
{
    static const double bounds[] = {0.5, 1, 2.5};
    static struct df_metric_family f = {.name = "test_wait_seconds",
                                        .help = "Waiting.",
                                        .type = DF_HISTOGRAM,
                                        .labels = {"kind"},
                                        .buckets = bounds,
                                        .bucket_count = LEN(bounds)};
    static const double seen[] = {0.25, 0.5, 0.75, 1, 2, 100, (double)NAN};
    (void)state;

    struct df_metric *m = df_metric_get(&f, (struct df_str[]){DF_STR("a")});
    for (size_t i = 0; i < LEN(seen); i++)
        df_metric_observe(m, seen[i]);
    assert_true(df_metric_value(m) == 6);
    assert_shown("# TYPE test_wait_seconds histogram\n"
                 "test_wait_seconds_bucket{kind=\"a\",le=\"0.5\"} 2\n"
                 "test_wait_seconds_bucket{kind=\"a\",le=\"1\"} 4\n"
                 "test_wait_seconds_bucket{kind=\"a\",le=\"2.5\"} 5\n"
                 "test_wait_seconds_bucket{kind=\"a\",le=\"+Inf\"} 6\n"
                 "test_wait_seconds_sum{kind=\"a\"} 104.5\n"
                 "test_wait_seconds_count{kind=\"a\"} 6\n");
}

static void the_usual_buckets_ascend_from_a_tenth_of_a_millisecond_to_a_minute(void **state)
{
    static struct df_metric_family f = {.name = "test_usual_seconds",
                                        .help = "Usual buckets.",
                                        .type = DF_HISTOGRAM,
                                        DF_METRIC_SECONDS};
    (void)state;

    df_metric_observe(df_metric_get(&f, NULL), 0.003);
    assert_true(df_metric_seconds[0] == 0.0001);
    assert_true(df_metric_seconds[DF_METRIC_SECONDS_COUNT - 1] == 60);
    assert_shown("test_usual_seconds_bucket{le=\"0.0001\"} 0\n");
    assert_shown("test_usual_seconds_bucket{le=\"0.005\"} 1\n");
}

static void labels_are_escaped_and_made_valid(void **state)
{
    static struct df_metric_family f = {
        .name = "test_named_total", .help = "Names.", .type = DF_COUNTER, .labels = {"a", "b"}};
    char text[300];
    (void)state;

    df_metric_add(df_metric_get(&f, (struct df_str[]){DF_STR("q\"\\\n"), DF_STR_NULL}), 1);
    assert_shown("test_named_total{a=\"q\\\"\\\\\\n\",b=\"\"} 1\n");
    df_metric_add(df_metric_get(&f, (struct df_str[]){DF_STR("x\xFFy"), DF_STR("\xC3\xA1")}), 1);
    assert_shown("test_named_total{a=\"x\xEF\xBF\xBDy\",b=\"\xC3\xA1\"} 1\n");

    /* Values that would run into each other if they were only put side by side. */
    struct df_metric *m = df_metric_get(&f, (struct df_str[]){DF_STR("ab"), DF_STR("c")});
    assert_ptr_not_equal(df_metric_get(&f, (struct df_str[]){DF_STR("a"), DF_STR("bc")}), m);
    assert_ptr_equal(df_metric_get(&f, (struct df_str[]){DF_STR("ab"), DF_STR("c")}), m);

    /* Long ones are cut between characters, whatever stands at the limit. */
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'x', shift);
        for (size_t i = shift; i + 4 < sizeof(text); i += 3)
            memcpy(text + i, "\xE2\x82\xAC", 4);
        df_metric_add(df_metric_get(&f, (struct df_str[]){df_str_c(text), DF_STR("long")}), 1);
        memset(text + shift, 0xFF, sizeof(text) - shift);
        struct df_str bytes = df_str_n(text, sizeof(text));
        df_metric_add(df_metric_get(&f, (struct df_str[]){bytes, DF_STR("bytes")}), 1);
    }
    struct df_str all = df_str_c(exposition());
    assert_int_equal(df_utf8_valid_prefix(all), all.len);
}

static void too_many_series_become_other(void **state)
{
    static struct df_metric_family f = {.name = "test_bounded_total",
                                        .help = "Bounded.",
                                        .type = DF_COUNTER,
                                        .labels = {"client", "kind"},
                                        .max_series = 3};
    char names[10][2];
    (void)state;

    for (size_t i = 0; i < LEN(names); i++) {
        names[i][0] = (char)('a' + i);
        names[i][1] = '\0';
        df_metric_add(df_metric_get(&f, (struct df_str[]){df_str_c(names[i]), DF_STR("k")}), 1);
    }
    assert_shown("test_bounded_total{client=\"a\",kind=\"k\"} 1\n"
                 "test_bounded_total{client=\"b\",kind=\"k\"} 1\n"
                 "test_bounded_total{client=\"c\",kind=\"k\"} 1\n"
                 "test_bounded_total{client=\"other\",kind=\"other\"} 7\n");
    assert_null(strstr(page.ptr, "client=\"d\""));
    df_metric_add(df_metric_get(&f, (struct df_str[]){DF_STR("b"), DF_STR("k")}), 1);
    assert_shown("test_bounded_total{client=\"b\",kind=\"k\"} 2\n");
}

static void a_family_with_labels_and_no_series_is_not_shown(void **state)
{
    static struct df_metric_family f = {
        .name = "test_unseen_total", .help = "Unseen.", .type = DF_COUNTER, .labels = {"a"}};
    (void)state;

    df_metric_register(&f);
    assert_null(strstr(exposition(), "test_unseen_total"));
}

static void families_are_in_the_order_of_their_names(void **state)
{
    char last[200] = "";
    (void)state;

    for (const char *p = exposition(); (p = strstr(p, "# TYPE ")); p++) {
        char name[200];
        assert_int_equal(sscanf(p, "# TYPE %199s", name), 1);
        assert_true(strcmp(last, name) < 0);
        memcpy(last, name, sizeof(last));
    }
}

/* --- clients ---------------------------------------------------------------------------------- */

/* All families share the clients that have series of their own, so this test takes all places. */
static void too_many_clients_become_other_with_their_other_labels(void **state)
{
    static struct df_metric_family f = {.name = "test_uploads_total",
                                        .help = "By client.",
                                        .type = DF_COUNTER,
                                        .labels = {"client_id", "outcome"}};
    static struct df_metric_family g = {.name = "test_client_chunks_total",
                                        .help = "By client, as a source spells it.",
                                        .type = DF_COUNTER,
                                        .labels = {"reason", "clientId"}};
    char name[32], line[100];
    (void)state;

    for (int i = 0; i < DF_METRIC_CLIENTS + 50; i++) {
        snprintf(name, sizeof(name), "client-%03d", i);
        struct df_str outcome = i % 2 ? DF_STR("ok") : DF_STR("bad");
        df_metric_add(df_metric_get(&f, (struct df_str[]){df_str_c(name), outcome}), 1);
    }
    assert_shown("test_uploads_total{client_id=\"client-000\",outcome=\"bad\"} 1\n");
    assert_shown("test_uploads_total{client_id=\"other\",outcome=\"ok\"} 25\n");
    assert_shown("test_uploads_total{client_id=\"other\",outcome=\"bad\"} 25\n");
    snprintf(line, sizeof(line), "client_id=\"client-%03d\"", DF_METRIC_CLIENTS - 1);
    assert_shown(line);
    snprintf(line, sizeof(line), "client_id=\"client-%03d\"", DF_METRIC_CLIENTS);
    assert_null(strstr(exposition(), line));

    /* Who has a place in one family has it in all. */
    df_metric_add(df_metric_get(&g, (struct df_str[]){DF_STR("r"), DF_STR("client-003")}), 1);
    df_metric_add(df_metric_get(&g, (struct df_str[]){DF_STR("r"), DF_STR("client-249")}), 1);
    df_metric_add(df_metric_get(&g, (struct df_str[]){DF_STR("s"), DF_STR("new")}), 1);
    assert_shown("test_client_chunks_total{reason=\"r\",clientId=\"client-003\"} 1\n"
                 "test_client_chunks_total{reason=\"r\",clientId=\"other\"} 1\n"
                 "test_client_chunks_total{reason=\"s\",clientId=\"other\"} 1\n");

    /* Nor can the other labels grow without end. */
    for (int i = 0; i < 10000; i++) {
        snprintf(name, sizeof(name), "reason-%d", i);
        df_metric_add(df_metric_get(&g, (struct df_str[]){df_str_c(name), DF_STR("client-003")}),
                      1);
    }
    assert_shown("test_client_chunks_total{reason=\"other\",clientId=\"other\"} ");
    assert_null(strstr(page.ptr, "reason-9999"));
    df_buf_release(&page);
}

static void a_tally_sets_all_gauges_at_once(void **state)
{
    static struct df_metric_family f = {.name = "test_open",
                                        .help = "Open.",
                                        .type = DF_GAUGE,
                                        .labels = {"kind"},
                                        .max_series = 3};
    static const struct df_str a = {"a", 1}, b = {"b", 1};
    char name[2] = "k";
    (void)state;

    df_metric_tally(&f, &a, 2);
    df_metric_tally(&f, &b, 3);
    assert_shown("test_open{kind=\"a\"} 0\n");
    df_metric_tally_end(&f, true);
    assert_shown("test_open{kind=\"a\"} 2\ntest_open{kind=\"b\"} 3\n");

    df_metric_tally(&f, &a, 5);
    df_metric_tally_end(&f, false);
    assert_shown("test_open{kind=\"a\"} 2\ntest_open{kind=\"b\"} 3\n");

    df_metric_tally(&f, &b, 1);
    for (; name[0] < 'q'; name[0]++) {
        struct df_str label = df_str_c(name);
        df_metric_tally(&f, &label, 10);
    }
    df_metric_tally_end(&f, true);
    assert_shown("test_open{kind=\"a\"} 0\ntest_open{kind=\"b\"} 1\ntest_open{kind=\"k\"} 10\n"
                 "test_open{kind=\"other\"} 50\n");
    df_metric_tally_end(&f, true);
    assert_shown("test_open{kind=\"other\"} 0\n");
}

/* --- OpenMetrics ------------------------------------------------------------------------------ */

static const char *open_exposition(void)
{
    df_buf_release(&page);
    df_buf_init(&page, 1 << 22);
    df_metrics_write_as(&page, DF_METRICS_OPEN);
    assert_false(df_buf_failed(&page));
    return df_buf_str(&page).ptr;
}

static void assert_open(const char *text)
{
    if (!strstr(open_exposition(), text))
        fail_msg("not in the exposition: %s\n%s", text, page.ptr);
}

static void openmetrics_differs_where_it_must(void **state)
{
    static const double bounds[] = {0.5, 1, 10};
    static struct df_metric_family seconds = {.name = "test_open_seconds",
                                              .help = "A \"quote\".",
                                              .type = DF_HISTOGRAM,
                                              .buckets = bounds,
                                              .bucket_count = LEN(bounds)};
    static struct df_metric_family bytes = {
        .name = "test_open_bytes_total", .help = "Bytes.", .type = DF_COUNTER};
    static struct df_metric_family left = {
        .name = "test_given_up", .help = "There are.", .type = DF_GAUGE};
    static struct df_metric_family came = {
        .name = "test_given_up_total", .help = "Came.", .type = DF_COUNTER};
    (void)state;

    df_metric_register(&left);
    df_metric_observe(df_metric_get(&seconds, NULL), 0.75);
    df_metric_add(df_metric_get(&bytes, NULL), 3);
    df_metric_add(df_metric_get(&came, NULL), 4);
    assert_open("# HELP test_open_seconds A \\\"quote\\\".\n# TYPE test_open_seconds histogram\n"
                "# UNIT test_open_seconds seconds\n"
                "test_open_seconds_bucket{le=\"0.5\"} 0\ntest_open_seconds_bucket{le=\"1.0\"} 1\n"
                "test_open_seconds_bucket{le=\"10.0\"} 1\n"
                "test_open_seconds_bucket{le=\"+Inf\"} 1\n"
                "test_open_seconds_sum 0.75\ntest_open_seconds_count 1\n");
    assert_open("# TYPE test_open_bytes counter\n# UNIT test_open_bytes bytes\n"
                "test_open_bytes_total 3\n");
    /* Two families of one name are not allowed. */
    assert_open("# TYPE test_given_up gauge\ntest_given_up 0\n");
    assert_open("# TYPE test_given_up_total unknown\ntest_given_up_total 4\n");
    struct df_str all = df_str_c(open_exposition());
    assert_true(df_str_ends(all, DF_STR("\n# EOF\n")));
    assert_ptr_equal(strstr(all.ptr, "# EOF"), all.ptr + all.len - 6);
    assert_null(strstr(exposition(), "# EOF"));
    assert_null(strstr(page.ptr, "# UNIT"));
    assert_shown("test_open_seconds_bucket{le=\"1\"} 1\n");
}

#define TRACE(n) "00-0af7651916cd43dd8448eb211c80319" n "-b7ad6b7169203331-"

static struct df_trace trace_of(const char *text)
{
    struct df_trace t = {{0}};
    memcpy(t.text, text, DF_TRACEPARENT_LEN);
    return t;
}

static void exemplars_name_sampled_traces_once_a_second(void **state)
{
    static const double bounds[] = {1, 2};
    static struct df_metric_family f = {.name = "test_traced_seconds",
                                        .help = "Traced.",
                                        .type = DF_HISTOGRAM,
                                        .buckets = bounds,
                                        .bucket_count = LEN(bounds)};
    static struct df_metric_family g = {
        .name = "test_traced_total", .help = "Traced.", .type = DF_COUNTER};
    static const char *const unsampled[] = {TRACE("1") "00", TRACE("1") "02", TRACE("1") "0a",
                                            TRACE("1") "fe", "                "};
    static const char *const sampled[] = {TRACE("2") "01", TRACE("2") "03", TRACE("2") "0b",
                                          TRACE("2") "ff"};
    struct df_fake_clock clock;
    struct df_trace t;
    (void)state;

    df_fake_clock_init(&clock, 1700000000123, 1);
    df_metric_use_clock(&clock.base);
    struct df_metric *m = df_metric_get(&f, NULL), *n = df_metric_get(&g, NULL);
    df_metric_observe_traced(m, 0.5, NULL);
    for (size_t i = 0; i < LEN(unsampled); i++) {
        t = (struct df_trace){{0}};
        memcpy(t.text, unsampled[i], strlen(unsampled[i]));
        df_metric_observe_traced(m, 0.5, &t);
        df_metric_add_traced(n, 1, &t);
    }
    assert_null(strstr(open_exposition(), " # {"));

    t = trace_of(TRACE("3") "01");
    df_metric_observe_traced(m, 0.25, &t);
    df_metric_observe_traced(m, (double)NAN, &t);
    df_metric_add_traced(n, 2, &t);
    assert_open("test_traced_seconds_bucket{le=\"1.0\"} 7 # "
                "{trace_id=\"0af7651916cd43dd8448eb211c803193\",span_id=\"b7ad6b7169203331\"} 0.25 "
                "1700000000.123\ntest_traced_seconds_bucket{le=\"2.0\"} 7\n");
    assert_open("test_traced_total 7 # {trace_id=\"0af7651916cd43dd8448eb211c803193\",");
    assert_shown("test_traced_seconds_bucket{le=\"1\"} 7\n");

    for (size_t i = 0; i < LEN(sampled); i++) {
        char line[100];
        t = trace_of(sampled[i]);
        df_metric_observe_traced(m, 0.5, &t); /* too soon for this bucket */
        df_metric_observe_traced(m, 100 + (double)i, &t);
        assert_open("le=\"1.0\"} ");
        assert_open("803193\",span_id=\"b7ad6b7169203331\"} 0.25 ");
        snprintf(line, sizeof(line),
                 "803192\",span_id=\"b7ad6b7169203331\"} %zu 17000000%02zu.123\n", 100 + i, i);
        assert_open(line);
        df_fake_clock_advance_ms(&clock, 1000);
        t = trace_of(TRACE("3") "01");
        df_metric_observe_traced(m, 0.25, &t);
    }
    df_metric_use_clock(NULL);
}

/* --- the page of all metrics ------------------------------------------------------------------ */

DF_METRIC_FAMILY(listed) = {
    .name = "test_listed_total",
    .help = "Listed | here,\nbut nowhere used.",
    .type = DF_COUNTER,
    .labels = {"a", "b"},
};

static void the_page_lists_families_that_nobody_uses(void **state)
{
    struct df_buf out;
    (void)state;

    assert_null(strstr(exposition(), "test_listed_total"));
    df_buf_init(&out, 1 << 20);
    df_metrics_write_docs(&out);
    const char *text = df_buf_str(&out).ptr;
    assert_non_null(strstr(text,
                           "| `test_listed_total` | counter | `a`, `b` | Listed \\| here, but "
                           "nowhere used. |\n"));
    assert_non_null(strstr(text, "| `process_open_fds` | gauge |  | "));
    df_buf_release(&out);
    assert_int_equal(listed.registered, true);
}

/* --- mistakes of the program ------------------------------------------------------------------ */

static void mistakes_abort(void **state)
{
    static const double descending[] = {2, 1};
    static struct df_metric_family bad[] = {
        {.name = "", .help = "x", .type = DF_GAUGE},
        {.name = "9lives", .help = "x", .type = DF_GAUGE},
        {.name = "with-dash", .help = "x", .type = DF_GAUGE},
        {.name = "test_level", .help = "taken", .type = DF_GAUGE},
        {.name = "test_bad1", .help = "x", .type = DF_GAUGE, .labels = {"a-b"}},
        {.name = "test_bad2", .help = "x", .type = DF_GAUGE, .labels = {"__name"}},
        {.name = "test_bad3",
         .help = "x",
         .type = DF_HISTOGRAM,
         .labels = {"le"},
         DF_METRIC_SECONDS},
        {.name = "test_bad5", .help = "x", .type = DF_HISTOGRAM},
        {.name = "test_bad6", .help = "a counter without _total", .type = DF_COUNTER},
        {.name = "test_bad4",
         .help = "x",
         .type = DF_HISTOGRAM,
         .buckets = descending,
         .bucket_count = 2},
    };
    (void)state;

    for (size_t i = 0; i < LEN(bad); i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
            dup2(null, 2);
            df_metric_register(&bad[i]);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

/* --- collecting ------------------------------------------------------------------------------- */

static struct df_metric_family collected = {
    .name = "test_collected", .help = "Set when asked for.", .type = DF_GAUGE};

static void collect(void *arg)
{
    df_metric_set(df_metric_get(&collected, NULL), *(double *)arg);
}

static void collectors_run_before_each_exposition_until_taken_off(void **state)
{
    double v = 1;
    double w = 2;
    (void)state;

    df_metric_on_collect(collect, &v);
    df_metric_on_collect(collect, &w);
    assert_shown("test_collected 2\n");
    df_metric_off_collect(collect, &w);
    assert_shown("test_collected 1\n");
    v = 7;
    assert_shown("test_collected 7\n");
    df_metric_off_collect(collect, &v);
    df_metric_off_collect(collect, &v);
    v = 9;
    assert_shown("test_collected 7\n");
}

/* --- threads ---------------------------------------------------------------------------------- */

static struct df_metric_family busy = {
    .name = "test_busy_total", .help = "Busy.", .type = DF_COUNTER, .labels = {"thread"}};
static struct df_metric_family busy_seconds = {.name = "test_busy_seconds",
                                               .help = "Busy.",
                                               .type = DF_HISTOGRAM,
                                               .buckets = df_metric_seconds,
                                               .bucket_count = 5};
static atomic_bool stop;

enum { UPDATES = 20000, UPDATERS = 3 };

static const struct df_trace sampled_trace = {"00-0af7651916cd43dd8448eb211c80319c-"
                                              "b7ad6b7169203331-01"};

static void *update(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < UPDATES; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%u", i % 64);
        df_metric_add(df_metric_get(&busy, (struct df_str[]){df_str_c(name)}), 1);
        df_metric_observe_traced(df_metric_get(&busy_seconds, NULL), 0.5, &sampled_trace);
    }
    return NULL;
}

static void *write_pages(void *arg)
{
    size_t *bytes = arg;
    while (!stop) {
        struct df_buf out;
        df_buf_init(&out, 1 << 22);
        df_metrics_write_as(&out, DF_METRICS_OPEN);
        *bytes += df_buf_str(&out).len;
        df_buf_release(&out);
    }
    return NULL;
}

static void nothing_is_lost_while_threads_update_and_read(void **state)
{
    pthread_t updaters[UPDATERS];
    pthread_t reader;
    size_t bytes = 0;
    double total = 0;
    (void)state;

    stop = false;
    assert_int_equal(pthread_create(&reader, NULL, write_pages, &bytes), 0);
    for (size_t i = 0; i < UPDATERS; i++)
        assert_int_equal(pthread_create(&updaters[i], NULL, update, NULL), 0);
    for (size_t i = 0; i < UPDATERS; i++)
        pthread_join(updaters[i], NULL);
    stop = true;
    pthread_join(reader, NULL);

    for (unsigned i = 0; i < 64; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%u", i);
        total += df_metric_value(df_metric_get(&busy, (struct df_str[]){df_str_c(name)}));
    }
    assert_true(total == UPDATERS * UPDATES);
    assert_true(df_metric_value(df_metric_get(&busy_seconds, NULL)) == UPDATERS * UPDATES);
    assert_shown("test_busy_seconds_sum 30000\n");
}

/* Belongs to whoever registered it: after off_collect it is freed, and sanitizers watch. */
struct owned {
    pthread_mutex_t lock;
    atomic_uint calls;
};

static void collect_owned(void *arg)
{
    struct owned *o = arg;
    pthread_mutex_lock(&o->lock);
    o->calls++;
    pthread_mutex_unlock(&o->lock);
    sched_yield();
    o->calls++;
}

static void a_collector_taken_off_does_not_run_any_more(void **state)
{
    pthread_t readers[2];
    size_t bytes[2] = {0, 0};
    (void)state;

    stop = false;
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, write_pages, &bytes[i]), 0);
    for (int round = 0; round < 200; round++) {
        struct owned *o = calloc(1, sizeof(*o));
        assert_non_null(o);
        pthread_mutex_init(&o->lock, NULL);
        df_metric_on_collect(collect_owned, o);
        while (o->calls == 0)
            sched_yield();
        df_metric_off_collect(collect_owned, o);
        assert_int_equal(o->calls % 2, 0);
        pthread_mutex_destroy(&o->lock);
        free(o);
    }
    stop = true;
    for (size_t i = 0; i < 2; i++)
        pthread_join(readers[i], NULL);
}

/* --- the whole page --------------------------------------------------------------------------- */

static void the_process_is_described(void **state)
{
    static const char *const names[] = {
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
        "process_open_fds",
        "process_max_fds",
        "process_start_time_seconds",
        "dataflow_process_threads",
    };
    (void)state;

    df_metric_register_process("1.2.3");
    exposition();
    for (size_t i = 0; i < LEN(names); i++) {
        char line[100];
        double v = 0;
        snprintf(line, sizeof(line), "\n%s ", names[i]);
        const char *at = strstr(page.ptr, line);
        if (!at || sscanf(at + strlen(line), "%lf", &v) != 1 || !(v > 0))
            fail_msg("%s is missing or not above zero", names[i]);
    }
    assert_shown("\ndataflow_build_info{version=\"1.2.3\"} 1\n");
    assert_shown("\ndataflow_process_threads 1\n");
}

static void promtool_finds_no_fault(void **state)
{
    char *const argv[] = {(char[]){"promtool"}, (char[]){"check"}, (char[]){"metrics"}, NULL};
    char complaints[4000];
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status;
    (void)state;

    exposition();
    int in = memfd_create("metrics", MFD_CLOEXEC);
    int out = memfd_create("promtool", MFD_CLOEXEC);
    assert_true(in >= 0 && out >= 0);
    assert_int_equal(pwrite(in, page.ptr, page.len, 0), page.len);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    posix_spawn_file_actions_adddup2(&actions, out, 2);
    int error = posix_spawnp(&child, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        skip();
    assert_int_equal(waitpid(child, &status, 0), child);
    ssize_t n = pread(out, complaints, sizeof(complaints) - 1, 0);
    complaints[n > 0 ? n : 0] = '\0';
    if (status != 0 || n != 0)
        fail_msg("promtool: %s", complaints);
    close(in);
    close(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_only_go_up),
        cmocka_unit_test(gauges_go_both_ways),
        cmocka_unit_test(histograms_cumulate),
        cmocka_unit_test(the_usual_buckets_ascend_from_a_tenth_of_a_millisecond_to_a_minute),
        cmocka_unit_test(labels_are_escaped_and_made_valid),
        cmocka_unit_test(too_many_series_become_other),
        cmocka_unit_test(a_family_with_labels_and_no_series_is_not_shown),
        cmocka_unit_test(a_tally_sets_all_gauges_at_once),
        cmocka_unit_test(openmetrics_differs_where_it_must),
        cmocka_unit_test(exemplars_name_sampled_traces_once_a_second),
        cmocka_unit_test(mistakes_abort),
        cmocka_unit_test(collectors_run_before_each_exposition_until_taken_off),
        cmocka_unit_test(the_process_is_described),
        cmocka_unit_test(nothing_is_lost_while_threads_update_and_read),
        cmocka_unit_test(a_collector_taken_off_does_not_run_any_more),
        cmocka_unit_test(the_page_lists_families_that_nobody_uses),
        cmocka_unit_test(families_are_in_the_order_of_their_names),
        cmocka_unit_test(promtool_finds_no_fault),
        /* After promtool, which has something against clientId. */
        cmocka_unit_test(too_many_clients_become_other_with_their_other_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
