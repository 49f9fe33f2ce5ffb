/* The shipper between many threads that log and a target: nobody waits, what does not fit is
 * counted, and everything else arrives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "capture.h"
#include "net/http.h"
#include "ship/shipper.h"

#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#define THREADS 4
#define FITS    1000 /* lines of each thread, 3 MiB in all: the queue holds them */
#define FLOODS  4000 /* 12 MiB: more than it holds */

/* --- a clock at which the shipper's thread can be held ---------------------------------------- */

static _Atomic bool holding, held;
static pthread_t main_thread;
static int lines_each;

/* The thread looks at the wall clock once a second, and has no lock then. */
static int64_t real_wall_ms(const struct df_clock *c)
{
    (void)c;
    while (holding && !pthread_equal(pthread_self(), main_thread)) {
        held = true;
        df_sleep_ms(1);
    }
    return df_wall_ms(df_clock_real());
}

static int64_t real_mono_ns(const struct df_clock *c)
{
    (void)c;
    return df_mono_ns(df_clock_real());
}

static void real_random(const struct df_clock *c, void *ptr, size_t len)
{
    (void)c;
    df_random(df_clock_real(), ptr, len);
}

static const struct df_clock_ops ops = {
    .wall_ms = real_wall_ms, .mono_ns = real_mono_ns, .random = real_random};
static const struct df_clock clock_that_holds = {&ops};

/* --- a target --------------------------------------------------------------------------------- */

static struct df_http_server *http;
static _Atomic size_t arrived;   /* entries */
static _Atomic unsigned answers; /* the status; 0: 204 */
static char directory[64];
static struct df_err err;

/* How many entries a push has: each begins with its time. */
static size_t count_entries(struct df_str body)
{
    enum { ROOM = 16 << 20 };
    char *text = df_malloc(ROOM);
    z_stream z = {.next_in = (Bytef *)(uintptr_t)body.ptr,
                  .avail_in = (uInt)body.len,
                  .next_out = (Bytef *)text,
                  .avail_out = ROOM};
    size_t n = 0;

    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    inflateEnd(&z);
    for (const char *at = text, *end = text + z.total_out;
         (at = memmem(at, (size_t)(end - at), "[\"1", 3)); at++)
        n++;
    free(text);
    return n;
}

static void take_push(struct df_req *req)
{
    unsigned status = answers;

    if (status == 0)
        arrived += count_entries(df_req_body(req));
    df_req_answer_static(req, status ? status : 204, "text/plain", DF_STR(""));
}

static const struct df_route routes[] = {
    {.method = "POST",
     .pattern = "/loki/api/v1/push",
     .body = DF_BODY_ANY,
     .takes_encoded = true,
     .handle = take_push},
    {.method = NULL},
};

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static int set_up(void **state)
{
    (void)state;
    static const struct df_route_table tables[] = {{.routes = routes}, {.routes = NULL}};
    const struct df_http_options opt = {.settings.listen = "127.0.0.1:0",
                                        .settings.threads = 1,
                                        .settings.max_body_bytes = 8 << 20,
                                        .tables = tables};

    main_thread = pthread_self();
    arrived = 0;
    answers = 0;
    (void)snprintf(directory, sizeof(directory), "%s/shipper_test.XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(directory))
        return -1;
    df_log_init(DF_LOG_INFO, DF_LOG_JSON, df_clock_real());
    return df_http_start(&opt, &http, &err) == DF_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    df_http_stop(http);
    return nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static struct df_shipper *open_shipper(void)
{
    static char url[64];
    struct df_shipper *s = NULL;
    const struct df_ship_settings settings = {.url = url,
                                              .spool_max_bytes = 64 << 20,
                                              .spool_max_ms = 3600000,
                                              .batch_bytes = 1 << 20,
                                              .interval_ms = 20,
                                              .timeout_ms = 30000};

    (void)snprintf(url, sizeof(url), "loki://%s", df_http_address(http));
    assert_int_equal(df_shipper_open(&settings, directory, &clock_that_holds, &s, &err), DF_OK);
    return s;
}

static double metric(const char *line)
{
    struct df_buf out;

    df_buf_init(&out, 1 << 20);
    df_metrics_write(&out);
    const char *at = strstr(df_buf_str(&out).ptr, line);
    double value = at ? strtod(at + strlen(line), NULL) : -1;
    df_buf_release(&out);
    return value;
}

static void *log_flood(void *arg)
{
    char padding[700];

    (void)arg;
    memset(padding, 'x', sizeof(padding) - 1);
    padding[sizeof(padding) - 1] = '\0';
    for (int i = 0; i < lines_each; i++)
        df_log_info("Flood", "%d %s", i, padding);
    return NULL;
}

static void flood(int lines)
{
    pthread_t threads[THREADS];

    lines_each = lines;
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_flood, NULL), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void wait_until(bool (*is_so)(void))
{
    for (int i = 0; !is_so(); i++) {
        assert_true(i < 60000);
        df_sleep_ms(1);
    }
}

static bool is_held(void)
{
    return held;
}

static bool all_arrived(void)
{
    return arrived >= THREADS * (size_t)lines_each;
}

/* --- tests ------------------------------------------------------------------------------------ */

static void every_line_of_every_thread_arrives(void **state)
{
    (void)state;
    capture();
    struct df_shipper *s = open_shipper();
    double before = metric("\ndataflow_log_lines_total{outcome=\"queue_full\"} ");
    flood(FITS);
    wait_until(all_arrived);
    df_shipper_close(s, 5000);
    (void)captured_lines();
    assert_int_equal(arrived, THREADS * (size_t)lines_each);
    assert_true(metric("\ndataflow_log_lines_total{outcome=\"queue_full\"} ") <=
                (before > 0 ? before : 0));
}

static bool rest_arrived(void)
{
    return (double)arrived + metric("\ndataflow_log_lines_total{outcome=\"queue_full\"} ") >=
           (double)(THREADS * (size_t)lines_each + 1); /* and the line that tells */
}

/* The thread hangs, as if the disk did: writers go on, and what does not fit is told once. */
static void a_full_queue_drops_counts_and_tells(void **state)
{
    (void)state;
    capture();
    struct df_shipper *s = open_shipper();
    held = false;
    holding = true;
    wait_until(is_held);
    flood(FLOODS);
    holding = false;
    wait_until(rest_arrived);
    double lost = metric("\ndataflow_log_lines_total{outcome=\"queue_full\"} ");
    assert_true(lost > 100 && lost < (double)(THREADS * (size_t)lines_each));
    df_shipper_close(s, 5000);
    (void)captured_lines();
    /* Beside the flood: LogLinesDropped, once. */
    assert_int_equal(arrived, THREADS * (size_t)lines_each + 1 - (size_t)lost);
}

static bool has_failed(void)
{
    return metric("\ndataflow_log_ship_failures_total ") > 0;
}

/* What the target does not take by the end waits for the next process. */
static void what_is_not_taken_waits_for_the_next(void **state)
{
    (void)state;
    capture();
    answers = 503;
    struct df_shipper *s = open_shipper();
    flood(FITS);
    wait_until(has_failed);
    df_shipper_close(s, 5000);
    assert_int_equal(arrived, 0);
    answers = 0;
    s = open_shipper();
    wait_until(all_arrived);
    df_shipper_close(s, 5000);
    (void)captured_lines();
    /* Beside the flood: LogShippingFailing and LogSpoolAdopted. */
    assert_int_equal(arrived, THREADS * (size_t)lines_each + 2);
}

/* A time of nothing: the end does not wait, and nothing is lost. */
static void the_end_may_come_at_once(void **state)
{
    (void)state;
    capture();
    struct df_shipper *s = open_shipper();
    flood(FITS);
    df_shipper_close(s, 0);
    s = open_shipper();
    wait_until(all_arrived);
    df_shipper_close(s, 5000);
    (void)captured_lines();
    assert_true(arrived >= THREADS * (size_t)lines_each);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_line_of_every_thread_arrives),
        TEST(a_full_queue_drops_counts_and_tells),
        TEST(what_is_not_taken_waits_for_the_next),
        TEST(the_end_may_come_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
