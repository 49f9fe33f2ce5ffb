/*
 * Scheduled files against a real storage that speaks S3 and verifies signatures
 * (tests/s3_server.py), also when it is unwell.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "files/crypt.h"
#include "files/storage.h"

#include <curl/curl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define EMPTY_SHA "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define MIB       ((size_t)1 << 20)

static char dir[64];
static char endpoint[64];
static pid_t server_pid;
static struct df_secret *access_key, *secret_key, *wrong_key, *crypt_key;

/* --- the server --- */

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *f)
{
    (void)s, (void)type, (void)f;
    return remove(path);
}

static size_t keep(char *ptr, size_t size, size_t count, void *arg)
{
    df_buf_add(arg, ptr, size * count);
    return size * count;
}

/* A request of the test's own; the answer's body goes to out (NULL: nowhere). */
static long ask(const char *method, const char *path, const char *body, struct df_buf *out)
{
    char url[256];
    long status = 0;
    struct df_buf unwanted;
    CURL *e = curl_easy_init();
    struct curl_slist *headers = NULL;

    df_buf_init(&unwanted, 65536);
    (void)snprintf(url, sizeof(url), "%s%s", endpoint, path);
    (void)curl_easy_setopt(e, CURLOPT_URL, url);
    (void)curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, method);
    (void)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, keep);
    (void)curl_easy_setopt(e, CURLOPT_WRITEDATA, out ? out : &unwanted);
    if (body) {
        (void)curl_easy_setopt(e, CURLOPT_POSTFIELDS, body);
    } else {
        headers = curl_slist_append(NULL, "x-amz-content-sha256: " EMPTY_SHA);
        (void)curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers);
        (void)curl_easy_setopt(e, CURLOPT_AWS_SIGV4, "aws:amz:us-east-1:s3");
        (void)curl_easy_setopt(e, CURLOPT_USERNAME, "test:tester");
        (void)curl_easy_setopt(e, CURLOPT_PASSWORD, "testing");
    }
    (void)curl_easy_perform(e);
    (void)curl_easy_getinfo(e, CURLINFO_RESPONSE_CODE, &status);
    curl_slist_free_all(headers);
    curl_easy_cleanup(e);
    df_buf_release(&unwanted);
    return status;
}

static int start_server(void **state)
{
    int fds[2];
    char place[128];
    (void)state;

    (void)snprintf(dir, sizeof(dir), "/tmp/df_s3_test.XXXXXX");
    if (!mkdtemp(dir) || pipe(fds) != 0)
        return 1;
    (void)snprintf(place, sizeof(place), "%s/swift", dir);
    server_pid = fork();
    if (server_pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)dup2(fds[1], STDOUT_FILENO);
        (void)execl("/usr/bin/python3", "python3", "tests/s3_server.py", place, (char *)NULL);
        _exit(127);
    }
    (void)close(fds[1]);
    FILE *f = fdopen(fds[0], "r");
    if (!f || !fgets(endpoint, sizeof(endpoint), f))
        return 1;
    (void)fclose(f);
    endpoint[strcspn(endpoint, "\n")] = '\0';
    access_key = df_secret_new(DF_STR("test:tester"));
    secret_key = df_secret_new(DF_STR("testing"));
    wrong_key = df_secret_new(DF_STR("guessing"));
    crypt_key =
        df_secret_new(DF_STR("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"));
    return ask("PUT", "/bucket", NULL, NULL) == 200 ? 0 : 1;
}

static int stop_server(void **state)
{
    (void)state;
    if (server_pid > 0) {
        (void)kill(server_pid, SIGKILL);
        (void)waitpid(server_pid, NULL, 0);
    }
    df_secret_free(access_key);
    df_secret_free(secret_key);
    df_secret_free(wrong_key);
    df_secret_free(crypt_key);
    return nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void set_fault(const char *document)
{
    assert_int_equal(ask("POST", "/faults", document, NULL), 200);
}

/* How many of the requests since set_fault contain `text`. */
static size_t seen(const char *text)
{
    struct df_buf b;
    size_t n = 0;

    df_buf_init(&b, MIB);
    assert_int_equal(ask("GET", "/faults", NULL, &b), 200);
    for (const char *p = b.ptr; (p = strstr(p, text)); p++)
        n++;
    df_buf_release(&b);
    return n;
}

/* --- helpers --- */

static struct df_storage *storage_with(struct df_storage_options opt)
{
    struct df_storage *st;
    struct df_err err = DF_ERR_INIT;

    opt.data_dir = dir;
    opt.settings.s3.path_style = !opt.settings.s3.endpoint;
    opt.s3_retry_base_ms = 1;
    if (!opt.settings.s3.endpoint)
        opt.settings.s3.endpoint = endpoint;
    if (!opt.settings.s3.secret_key)
        opt.settings.s3.secret_key = secret_key;
    opt.settings.s3.access_key = access_key;
    if (!opt.settings.scheduled)
        opt.settings.scheduled = "s3://bucket/waiting/here";
    if (df_storage_new(&opt, &st, &err) != DF_OK)
        fail_msg("%s", err.detail);
    return st;
}

static struct df_storage *storage(void)
{
    return storage_with((struct df_storage_options){0});
}

static struct df_uuid store(struct df_storage *st, const char *name, size_t size,
                            char sum[DF_CHECKSUM_LEN + 1])
{
    struct df_uuid batch = df_uuid_v7(df_clock_real());
    struct df_storage_writer *w;
    char *text = malloc(MIB);
    uint64_t n;

    assert_int_equal(df_storage_create(st, &batch, &w, NULL), DF_OK);
    for (size_t i = 0; i < MIB; i++)
        text[i] = (char)(i * 31 >> 3);
    for (size_t at = 0; at < size; at += MIB) {
        text[0] = (char)(at / MIB);
        assert_int_equal(df_storage_write(w, text, size - at < MIB ? size - at : MIB, NULL), DF_OK);
    }
    assert_int_equal(df_storage_finish(w, df_str_c(name), sum, &n, NULL), DF_OK);
    free(text);
    return batch;
}

static bool is_local(const struct df_uuid *batch)
{
    char path[256];
    struct stat s;

    (void)snprintf(path, sizeof(path), "%s/imports/%s", dir, batch->text);
    return lstat(path, &s) == 0;
}

static void put(struct df_storage *st, const struct df_uuid *batch, const char *name,
                char location[DF_STORAGE_LOCATION_MAX + 1])
{
    struct df_err err = DF_ERR_INIT;

    if (df_storage_put_scheduled(st, batch, df_str_c(name), location, &err) != DF_OK)
        fail_msg("%s", err.detail);
}

/* The whole way of a scheduled file. */
static void go_round(struct df_storage *st, const char *name, size_t size)
{
    char sum[DF_CHECKSUM_LEN + 1], again[DF_CHECKSUM_LEN + 1];
    char location[DF_STORAGE_LOCATION_MAX + 1];
    struct df_err err = DF_ERR_INIT;
    uint64_t n;
    struct df_uuid batch = store(st, name, size, sum);
    struct df_str file = df_str_c(name);

    put(st, &batch, name, location);
    assert_true(is_local(&batch));
    assert_int_equal(df_storage_drop_local(st, &batch, location, &err), DF_OK);
    assert_false(is_local(&batch));
    if (df_storage_fetch_scheduled(st, &batch, file, location, &err) != DF_OK)
        fail_msg("%s: %s", name, err.detail);
    assert_int_equal(df_storage_checksum(st, &batch, file, again, &n, &err), DF_OK);
    assert_string_equal(sum, again);
    assert_int_equal(n, size);
    /* Once more is no work: it is there. */
    assert_int_equal(df_storage_fetch_scheduled(st, &batch, file, location, &err), DF_OK);
    assert_int_equal(df_storage_remove(st, &batch, location, &err), DF_OK);
    assert_int_equal(df_storage_remove(st, &batch, location, &err), DF_OK);
    assert_false(is_local(&batch));
    assert_int_equal(df_storage_fetch_scheduled(st, &batch, file, location, &err), DF_E_NOT_FOUND);
    assert_false(is_local(&batch));
}

/* --- tests --- */

static void test_files_go_there_and_come_back(void **state)
{
    struct df_storage *st = storage();
    (void)state;

    assert_true(df_storage_has_remote(st));
    go_round(st, "leads.json", 1000);
    go_round(st, "empty.json", 0);
    go_round(st, "large.json", 3 * MIB + 7);
    df_storage_free(st);
    st = storage_with((struct df_storage_options){.settings.scheduled = "s3://bucket"});
    go_round(st, "no prefix.json", 1000);
    df_storage_free(st);
}

static void test_the_bucket_may_stand_in_the_host(void **state)
{
    char by_name[64];
    (void)state;

    (void)snprintf(by_name, sizeof(by_name), "http://localhost%s", strrchr(endpoint, ':'));
    struct df_storage *st =
        storage_with((struct df_storage_options){.settings.s3 = {.endpoint = by_name}});
    set_fault("{\"count\": 0}");
    go_round(st, "leads.json", 1000);
    assert_int_equal(seen("\"PUT /waiting/here/"), 1);
    df_storage_free(st);
}

static void test_any_name_is_signed_right(void **state)
{
    static const char *const names[] = {"Lista de março (1).csv",
                                        "a+b&c=d?e#f.csv",
                                        "100%.csv",
                                        "../..",
                                        "~a'b\"c;d,e!f*g$h@i:j[k]{l}|^`<>.csv",
                                        "😀.csv"};
    struct df_storage *st = storage();
    (void)state;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        go_round(st, names[i], 10);
    df_storage_free(st);
}

static void test_the_location_says_where_it_is(void **state)
{
    struct df_storage *st = storage();
    char sum[DF_CHECKSUM_LEN + 1], location[DF_STORAGE_LOCATION_MAX + 1], expected[256];
    struct df_uuid batch = store(st, "a.json", 10, sum);
    (void)state;

    put(st, &batch, "a.json", location);
    (void)snprintf(expected, sizeof(expected), "s3://bucket/waiting/here/%s/a.json", batch.text);
    assert_string_equal(location, expected);
    (void)snprintf(expected, sizeof(expected), "/bucket/waiting/here/%s/a.json", batch.text);
    assert_int_equal(ask("GET", expected, NULL, NULL), 200);
    assert_int_equal(df_storage_remove(st, &batch, location, NULL), DF_OK);
    assert_int_equal(ask("GET", expected, NULL, NULL), 404);
    df_storage_free(st);
}

static void test_encrypted_files_stay_encrypted_there(void **state)
{
    struct df_storage *st = storage_with((struct df_storage_options){.settings.key = crypt_key});
    char sum[DF_CHECKSUM_LEN + 1], location[DF_STORAGE_LOCATION_MAX + 1], path[256];
    struct df_uuid batch = store(st, "a.json", 1000, sum);
    struct df_buf b;
    (void)state;

    put(st, &batch, "a.json", location);
    (void)snprintf(path, sizeof(path), "/bucket/waiting/here/%s/a.json", batch.text);
    df_buf_init(&b, MIB);
    assert_int_equal(ask("GET", path, NULL, &b), 200);
    assert_true(df_crypt_is_encrypted(df_buf_str(&b)));
    df_buf_release(&b);
    go_round(st, "b.json", 200000);
    df_storage_free(st);
}

static void test_large_files_go_in_parts(void **state)
{
    struct df_storage *st = storage();
    (void)state;

    set_fault("{\"status\": 503, \"count\": 1, \"method\": \"PUT\"}");
    go_round(st, "large.json", 69 * MIB + 1);
    assert_int_equal(seen("?uploads="), 1);
    assert_int_equal(seen("partNumber="), 6); /* five, one of them twice */
    assert_int_equal(seen("partNumber=5&uploadId="), 1);
    df_storage_free(st);
}

static void test_a_failed_upload_in_parts_is_aborted(void **state)
{
    struct df_storage *st = storage();
    char sum[DF_CHECKSUM_LEN + 1], location[DF_STORAGE_LOCATION_MAX + 1];
    struct df_uuid batch = store(st, "a.json", 65 * MIB, sum);
    (void)state;

    set_fault("{\"status\": 500, \"count\": 1000, \"method\": \"PUT\"}");
    assert_int_equal(df_storage_put_scheduled(st, &batch, DF_STR("a.json"), location, NULL),
                     DF_E_NET);
    assert_int_equal(seen("partNumber="), 6);
    assert_int_equal(seen("DELETE "), 1);
    assert_int_equal(seen("?uploadId="), 1);
    set_fault("{\"count\": 0}");
    assert_true(is_local(&batch));
    assert_int_equal(df_storage_remove(st, &batch, NULL, NULL), DF_OK);
    df_storage_free(st);
}

static void test_a_wrong_signature_is_refused(void **state)
{
    struct df_storage *st =
        storage_with((struct df_storage_options){.settings.s3 = {.secret_key = wrong_key}});
    char sum[DF_CHECKSUM_LEN + 1], location[DF_STORAGE_LOCATION_MAX + 1];
    struct df_uuid batch = store(st, "a.json", 10, sum);
    struct df_err err = DF_ERR_INIT;
    (void)state;

    set_fault("{\"count\": 0}");
    assert_int_equal(df_storage_put_scheduled(st, &batch, DF_STR("a.json"), location, &err),
                     DF_E_CONFIG);
    assert_non_null(strstr(err.detail, "SignatureDoesNotMatch"));
    assert_null(strstr(err.detail, "guessing"));
    assert_int_equal(seen("PUT "), 1); /* for good: not tried again */
    assert_true(is_local(&batch));
    df_storage_free(st);
}

static void test_a_missing_bucket_is_told(void **state)
{
    struct df_storage *st =
        storage_with((struct df_storage_options){.settings.scheduled = "s3://no-such-bucket/x"});
    char sum[DF_CHECKSUM_LEN + 1], location[DF_STORAGE_LOCATION_MAX + 1];
    struct df_uuid batch = store(st, "a.json", 10, sum);
    struct df_err err = DF_ERR_INIT;
    (void)state;

    assert_int_equal(df_storage_put_scheduled(st, &batch, DF_STR("a.json"), location, &err),
                     DF_E_CONFIG);
    assert_non_null(strstr(err.detail, "NoSuchBucket"));
    (void)snprintf(location, sizeof(location), "s3://no-such-bucket/x/%s/a.json", batch.text);
    assert_int_equal(df_storage_remove(st, &batch, location, &err), DF_E_CONFIG);
    df_storage_free(st);
}

static void test_failures_that_pass_are_waited_for(void **state)
{
    static const char *const methods[] = {"PUT", "GET", "DELETE"};
    static const int statuses[] = {500, 503, 429};
    struct df_storage *st = storage();
    (void)state;

    for (size_t i = 0; i < 3; i++) {
        char document[128], text[16];
        (void)snprintf(document, sizeof(document),
                       "{\"status\": %d, \"count\": 2, \"method\": \"%s\"}", statuses[i],
                       methods[i]);
        set_fault(document);
        go_round(st, "a.json", 100000);
        (void)snprintf(text, sizeof(text), "\"%s /bucket", methods[i]);
        assert_in_range(seen(text), 3, 4);
    }
    df_storage_free(st);
}

static void test_failures_that_stay_end(void **state)
{
    struct df_storage *st = storage();
    char sum[DF_CHECKSUM_LEN + 1], location[DF_STORAGE_LOCATION_MAX + 1];
    struct df_uuid batch = store(st, "a.json", 10, sum);
    struct df_err err = DF_ERR_INIT;
    (void)state;

    set_fault("{\"status\": 503, \"count\": 1000}");
    assert_int_equal(df_storage_put_scheduled(st, &batch, DF_STR("a.json"), location, &err),
                     DF_E_NET);
    assert_int_equal(seen("PUT "), 6);
    set_fault("{\"count\": 0}");
    df_storage_free(st);

    st = storage_with(
        (struct df_storage_options){.settings.s3 = {.endpoint = "http://localhost:1"}});
    assert_int_equal(df_storage_put_scheduled(st, &batch, DF_STR("a.json"), location, &err),
                     DF_E_NET_CONNECT);
    df_storage_free(st);
}

static void test_what_comes_back_changed_is_not_taken(void **state)
{
    struct df_storage *st = storage();
    char sum[DF_CHECKSUM_LEN + 1], location[DF_STORAGE_LOCATION_MAX + 1];
    struct df_uuid batch = store(st, "a.json", 1000, sum);
    struct df_err err = DF_ERR_INIT;
    (void)state;

    put(st, &batch, "a.json", location);
    assert_int_equal(df_storage_drop_local(st, &batch, location, &err), DF_OK);
    set_fault("{\"flip\": true, \"count\": 1, \"method\": \"GET\"}");
    assert_int_equal(df_storage_fetch_scheduled(st, &batch, DF_STR("a.json"), location, &err),
                     DF_E_INTERNAL);
    assert_false(is_local(&batch));
    assert_int_equal(df_storage_fetch_scheduled(st, &batch, DF_STR("a.json"), location, &err),
                     DF_OK);
    assert_int_equal(df_storage_remove(st, &batch, location, &err), DF_OK);
    df_storage_free(st);
}

static void test_places_of_others_are_not_touched(void **state)
{
    struct df_storage *st = storage();
    struct df_uuid batch = df_uuid_v7(df_clock_real());
    static const char *const places[] = {
        "s3://other/waiting/here/%s/a",
        "s3://bucket/waiting/hereafter/%s/a",
        "s3://bucket/waiting/here/%s",
        "s3://bucket/waiting/here/%s/",
        "s3://bucket/%s/a",
        "s3://bucket/waiting/here/%s/../x",
        "s3://bucket/waiting/here/00000000-0000-7000-8000-000000000000/%s",
    };
    (void)state;

    set_fault("{\"count\": 0}");
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct df_buf location;
        df_buf_init(&location, 400);
        const char *mark = strstr(places[i], "%s");
        df_buf_add(&location, places[i], (size_t)(mark - places[i]));
        df_buf_addz(&location, batch.text);
        df_buf_addz(&location, mark + 2);
        assert_int_equal(df_storage_remove(st, &batch, location.ptr, NULL), DF_E_CONFIG);
        assert_int_equal(df_storage_fetch_scheduled(st, &batch, DF_STR("a"), location.ptr, NULL),
                         DF_E_CONFIG);
        df_buf_release(&location);
    }
    assert_int_equal(seen("/bucket"), 0);
    df_storage_free(st);
}

static void *cancel_soon(void *arg)
{
    (void)usleep(200000);
    df_storage_cancel(arg);
    return NULL;
}

static void test_a_shutdown_ends_the_waiting(void **state)
{
    struct df_storage *st = storage();
    char sum[DF_CHECKSUM_LEN + 1], location[DF_STORAGE_LOCATION_MAX + 1];
    struct df_uuid batch = store(st, "a.json", 10, sum);
    pthread_t thread;
    (void)state;

    set_fault("{\"status\": 503, \"count\": 1000, \"after\": 60}");
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, st), 0);
    assert_int_equal(df_storage_put_scheduled(st, &batch, DF_STR("a.json"), location, NULL),
                     DF_E_CANCELLED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(seen("PUT "), 1);
    assert_int_equal(df_storage_put_scheduled(st, &batch, DF_STR("a.json"), location, NULL),
                     DF_E_CANCELLED);
    set_fault("{\"count\": 0}");
    df_storage_free(st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_go_there_and_come_back),
        cmocka_unit_test(test_the_bucket_may_stand_in_the_host),
        cmocka_unit_test(test_any_name_is_signed_right),
        cmocka_unit_test(test_the_location_says_where_it_is),
        cmocka_unit_test(test_encrypted_files_stay_encrypted_there),
        cmocka_unit_test(test_large_files_go_in_parts),
        cmocka_unit_test(test_a_failed_upload_in_parts_is_aborted),
        cmocka_unit_test(test_a_wrong_signature_is_refused),
        cmocka_unit_test(test_a_missing_bucket_is_told),
        cmocka_unit_test(test_failures_that_pass_are_waited_for),
        cmocka_unit_test(test_failures_that_stay_end),
        cmocka_unit_test(test_what_comes_back_changed_is_not_taken),
        cmocka_unit_test(test_places_of_others_are_not_touched),
        cmocka_unit_test(test_a_shutdown_ends_the_waiting),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
