/*
 * Uploads and scheduled files against a real storage that speaks S3 and verifies signatures
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
#include "keys_from.h"
#include "scratch.h"

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
static struct df_secret *access_key, *secret_key, *wrong_key, *crypt_key, *other_key;

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
        if (strcmp(method, "PUT") == 0)
            (void)curl_easy_setopt(e, CURLOPT_POSTFIELDS, ""); /* for its length */
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

    (void)snprintf(dir, sizeof(dir), "%s/df_s3_test.XXXXXX", scratch_dir());
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
    other_key =
        df_secret_new(DF_STR("ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"));
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
    df_secret_free(other_key);
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
    if (!opt.settings.scheduled && !opt.settings.bucket)
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

    assert_int_equal(df_storage_create(st, &batch, -1, &w, NULL), DF_OK);
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
    if (df_storage_fetch(st, &batch, file, location, NULL, &err) != DF_OK)
        fail_msg("%s: %s", name, err.detail);
    assert_int_equal(df_storage_checksum(st, &batch, file, again, &n, &err), DF_OK);
    assert_string_equal(sum, again);
    assert_int_equal(n, size);
    /* Once more is no work: it is there. */
    assert_int_equal(df_storage_fetch(st, &batch, file, location, NULL, &err), DF_OK);
    assert_int_equal(df_storage_remove(st, &batch, location, &err), DF_OK);
    assert_int_equal(df_storage_remove(st, &batch, location, &err), DF_OK);
    assert_false(is_local(&batch));
    assert_int_equal(df_storage_fetch(st, &batch, file, location, NULL, &err), DF_E_NOT_FOUND);
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

static void test_an_object_comes_under_the_current_key(void **state)
{
    struct df_keys *ring = df_keys_from(df_clock_real(), (const unsigned char[DF_KEY_BYTES]){1});
    struct df_storage *st = storage_with((struct df_storage_options){.keys = ring});
    char sum[DF_CHECKSUM_LEN + 1], again[DF_CHECKSUM_LEN + 1];
    char location[DF_STORAGE_LOCATION_MAX + 1], path[256];
    struct df_uuid batch = store(st, "a.json", 300000, sum);
    struct df_rekeyed found = {0};
    struct df_err err = DF_ERR_INIT;
    struct df_buf b;
    uint64_t size;
    (void)state;

    put(st, &batch, "a.json", location);
    assert_int_equal(df_storage_drop_local(st, &batch, location, NULL), DF_OK);
    assert_int_equal(df_storage_rekey(st, &batch, false, &found, &err), DF_E_NOT_FOUND);
    assert_int_equal(df_storage_rekey_scheduled(st, &batch, location, false, &found, &err), DF_OK);
    assert_true(found.current && found.data_key == 1);

    df_keys_add(ring, 2, (const unsigned char[DF_KEY_BYTES]){2});
    df_keys_use(ring, 2);
    assert_int_equal(df_storage_rekey_scheduled(st, &batch, location, true, &found, &err), DF_OK);
    assert_true(!found.current && !found.changed);
    assert_int_equal(df_storage_rekey_scheduled(st, &batch, location, false, &found, &err), DF_OK);
    assert_true(found.changed);
    (void)snprintf(path, sizeof(path), "/bucket/waiting/here/%s/a.json", batch.text);
    df_buf_init(&b, MIB);
    assert_int_equal(ask("GET", path, NULL, &b), 200);
    assert_int_equal(df_crypt_data_key(df_buf_str(&b)), 2);
    df_buf_release(&b);

    /* It is fetched as ever, with a checksum of its own. */
    assert_int_equal(df_storage_fetch(st, &batch, DF_STR("a.json"), location, NULL, &err), DF_OK);
    assert_int_equal(df_storage_checksum(st, &batch, DF_STR("a.json"), again, &size, NULL), DF_OK);
    assert_string_equal(sum, again);
    assert_int_equal(df_storage_remove_object(st, &batch, location, &err), DF_OK);
    assert_int_equal(df_storage_rekey_scheduled(st, &batch, location, false, &found, &err),
                     DF_E_NOT_FOUND);
    assert_int_equal(
        df_storage_rekey_scheduled(st, &batch, "s3://elsewhere/x", false, &found, &err),
        DF_E_CONFIG);
    df_storage_free(st);
    df_keys_free(ring);
}

static void test_large_files_go_in_parts(void **state)
{
    struct df_storage *st = storage();
    (void)state;

    set_fault("{\"status\": 503, \"count\": 1, \"method\": \"PUT\"}");
    go_round(st, "large.json", 16 * MIB + 1);
    assert_int_equal(seen("?uploads="), 1);
    assert_int_equal(seen("partNumber="), 5); /* four, one of them twice */
    assert_int_equal(seen("partNumber=4&uploadId="), 1);
    df_storage_free(st);
}

static void test_a_failed_upload_in_parts_is_aborted(void **state)
{
    struct df_storage *st = storage();
    char sum[DF_CHECKSUM_LEN + 1], location[DF_STORAGE_LOCATION_MAX + 1];
    struct df_uuid batch = store(st, "a.json", 6 * MIB, sum);
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
    assert_int_equal(df_storage_fetch(st, &batch, DF_STR("a.json"), location, NULL, &err),
                     DF_E_INTERNAL);
    assert_false(is_local(&batch));
    assert_int_equal(df_storage_fetch(st, &batch, DF_STR("a.json"), location, NULL, &err), DF_OK);
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
        assert_int_equal(df_storage_fetch(st, &batch, DF_STR("a"), location.ptr, NULL, NULL),
                         DF_E_CONFIG);
        df_buf_release(&location);
    }
    assert_int_equal(seen("/bucket"), 0);
    df_storage_free(st);
}

/* --- uploads that go there at once --- */

static struct df_storage *upload_storage(const struct df_secret *key)
{
    return storage_with((struct df_storage_options){
        .settings = {.where = DF_STORAGE_S3, .bucket = "s3://bucket/uploads/", .key = key}});
}

static struct df_storage_writer *begin(struct df_storage *st, const struct df_uuid *batch)
{
    struct df_storage_writer *w;
    assert_int_equal(df_storage_create(st, batch, -1, &w, NULL), DF_OK);
    return w;
}

/* Writes in pieces, and sends each part when it is full. */
static enum df_code write_pieces(struct df_storage_writer *w, size_t size, struct df_err *err)
{
    char piece[20000];
    enum df_code code = DF_OK;

    for (size_t i = 0; i < sizeof(piece); i++)
        piece[i] = (char)(i * 31 >> 3);
    for (size_t at = 0; at < size && code == DF_OK; at += sizeof(piece)) {
        piece[0] = (char)(at >> 16);
        size_t n = size - at < sizeof(piece) ? size - at : sizeof(piece);
        assert_int_equal(df_storage_write(w, piece, n, err), DF_OK);
        if (df_storage_part_is_full(w)) {
            df_storage_part_take(w);
            assert_false(df_storage_part_is_full(w));
            code = df_storage_part_send(w, err);
        }
    }
    return code;
}

static size_t upload(struct df_storage *st, size_t size, struct df_uuid *batch, char *location,
                     char *sum)
{
    struct df_err err = DF_ERR_INIT;
    uint64_t n = 0;

    *batch = df_uuid_v7(df_clock_real());
    struct df_storage_writer *w = begin(st, batch);
    assert_int_equal(write_pieces(w, size, &err), DF_OK);
    if (df_storage_finish(w, DF_STR("a name that comes late.csv"), sum, &n, &err) != DF_OK)
        fail_msg("%s", err.detail);
    df_storage_location(st, batch, location);
    assert_true(df_storage_is_outside(location) && !is_local(batch));
    return (size_t)n;
}

static void test_an_upload_goes_there_while_it_arrives(void **state)
{
    static const struct {
        size_t size;
        size_t parts; /* 0: one request */
    } rows[] = {{1, 0},       {300000, 0},          {5 * MIB - 4000, 0},
                {5 * MIB, 2}, {10 * MIB - 7000, 2}, {12 * MIB + 3, 3}};
    struct df_storage *st = upload_storage(crypt_key);
    char sum[DF_CHECKSUM_LEN + 1], again[DF_CHECKSUM_LEN + 1];
    char location[DF_STORAGE_LOCATION_MAX + 1], expected[256];
    struct df_err err = DF_ERR_INIT;
    struct df_uuid batch;
    uint64_t n;
    (void)state;

    assert_true(df_storage_is_remote(st) && df_storage_is_swept(st));
    assert_false(df_storage_moves_scheduled(st));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        set_fault("{\"count\": 0}");
        assert_int_equal(upload(st, rows[i].size, &batch, location, sum), rows[i].size);
        (void)snprintf(expected, sizeof(expected), "s3://bucket/uploads/%s/original", batch.text);
        assert_string_equal(location, expected);
        assert_int_equal(seen("partNumber="), rows[i].parts);
        assert_int_equal(seen("PUT "), rows[i].parts ? rows[i].parts : 1);
        if (df_storage_fetch(st, &batch, DF_STR("a.csv"), location, NULL, &err) != DF_OK)
            fail_msg("%s", err.detail);
        assert_int_equal(df_storage_checksum(st, &batch, DF_STR("a.csv"), again, &n, &err), DF_OK);
        assert_string_equal(sum, again);
        assert_int_equal(n, rows[i].size);
        assert_int_equal(df_storage_remove(st, &batch, location, &err), DF_OK);
    }
    df_storage_free(st);
}

/* As the type of a file is told: the beginning, the end, and something between. */
static void test_an_object_is_read_where_it_lies(void **state)
{
    struct df_storage *st = upload_storage(crypt_key);
    char sum[DF_CHECKSUM_LEN + 1], location[DF_STORAGE_LOCATION_MAX + 1], text[70000], one[8];
    struct df_uuid batch;
    struct df_stored *f;
    size_t size = upload(st, 6 * MIB, &batch, location, sum), n = 0;
    static const uint64_t places[] = {0, 6 * MIB - 70000, 3 * MIB, 6 * MIB - 1000, 19999, 6 * MIB};
    (void)state;

    assert_int_equal(df_storage_look(st, &batch, DF_STR("x"), location, &f, NULL), DF_OK);
    const struct df_bytes *b = df_stored_bytes(f);
    assert_int_equal(b->size, size);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        uint64_t left = size - places[i];
        assert_int_equal(b->read_at(b->arg, places[i], text, sizeof(text), &n, NULL), DF_OK);
        assert_in_range(n, left > 0 ? 1 : 0, left);
        for (size_t k = 0; k < n; k++) {
            uint64_t at = (places[i] + k) % 20000;
            if (at != 0)
                assert_int_equal(text[k], (char)(at * 31 >> 3));
        }
    }
    set_fault("{\"count\": 0}");
    assert_int_equal(b->read_at(b->arg, 5, one, sizeof(one), &n, NULL), DF_OK);
    assert_int_equal(seen("GET /bucket"), 0); /* the beginning stays in memory */
    df_stored_close(f);
    assert_int_equal(df_storage_remove(st, &batch, location, NULL), DF_OK);
    assert_int_equal(df_storage_look(st, &batch, DF_STR("x"), location, &f, NULL), DF_E_NOT_FOUND);
    df_storage_free(st);
}

static void test_a_changed_object_in_parts_is_noticed_when_it_is_read(void **state)
{
    struct df_storage *st = upload_storage(crypt_key);
    char sum[DF_CHECKSUM_LEN + 1], again[DF_CHECKSUM_LEN + 1];
    char location[DF_STORAGE_LOCATION_MAX + 1];
    struct df_uuid batch;
    uint64_t n;
    (void)state;

    (void)upload(st, 6 * MIB, &batch, location, sum);
    set_fault("{\"flip\": true, \"count\": 1, \"method\": \"GET\"}");
    assert_int_equal(df_storage_fetch(st, &batch, DF_STR("a.csv"), location, NULL, NULL), DF_OK);
    /* The byte was the first: the file does not even look encrypted now. */
    assert_int_equal(df_storage_checksum(st, &batch, DF_STR("a.csv"), again, &n, NULL), DF_OK);
    assert_string_not_equal(sum, again);
    assert_int_equal(df_storage_remove(st, &batch, location, NULL), DF_OK);
    df_storage_free(st);
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

static void test_fetching_may_be_given_up(void **state)
{
    struct df_storage *st = upload_storage(crypt_key);
    char sum[DF_CHECKSUM_LEN + 1], location[DF_STORAGE_LOCATION_MAX + 1];
    const struct df_storage_watch watch = {never, NULL};
    struct df_uuid batch;
    (void)state;

    (void)upload(st, 1000, &batch, location, sum);
    assert_int_equal(df_storage_fetch(st, &batch, DF_STR("a"), location, &watch, NULL),
                     DF_E_CANCELLED);
    assert_false(is_local(&batch));
    assert_int_equal(df_storage_remove(st, &batch, location, NULL), DF_OK);
    df_storage_free(st);
}

static void test_a_lost_answer_to_the_completion_is_found_out(void **state)
{
    struct df_storage *st = upload_storage(crypt_key);
    char sum[DF_CHECKSUM_LEN + 1], location[DF_STORAGE_LOCATION_MAX + 1];
    struct df_uuid batch;
    (void)state;

    set_fault("{\"lose\": true, \"count\": 1, \"method\": \"POST\", \"match\": \"?uploadId=\"}");
    (void)upload(st, 6 * MIB, &batch, location, sum);
    assert_int_equal(df_storage_fetch(st, &batch, DF_STR("a"), location, NULL, NULL), DF_OK);
    assert_int_equal(seen("DELETE "), 0);
    assert_int_equal(df_storage_remove(st, &batch, location, NULL), DF_OK);
    df_storage_free(st);
}

static void test_a_part_that_nobody_takes_is_an_error(void **state)
{
    struct df_storage *st = upload_storage(crypt_key);
    struct df_uuid batch = df_uuid_v7(df_clock_real());
    struct df_storage_writer *w = begin(st, &batch);
    char *text = calloc(1, MIB);
    enum df_code code = DF_OK;
    size_t n = 0;
    (void)state;

    for (; n < 8 && code == DF_OK; n++)
        code = df_storage_write(w, text, MIB, NULL);
    assert_int_equal(code, DF_E_INTERNAL);
    assert_in_range(n, 6, 7);
    df_storage_abort(w);
    free(text);
    df_storage_free(st);
}

static void test_the_memory_of_an_upload_is_told(void **state)
{
    static const struct {
        int64_t size;
        size_t bytes;
    } rows[] = {
        {0, 0},
        {1000, 1000},
        {-1, 10 * MIB},
        {(int64_t)5 * MIB, 10 * MIB},
        {(int64_t)40 << 30, 10 * MIB},
        {(int64_t)80 << 30, 18 * MIB}, /* 10,000 parts of 9 MiB */
        {(int64_t)1 << 40, 210 * MIB},
    };
    struct df_storage *st = upload_storage(crypt_key), *local = storage();
    (void)state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(df_storage_writer_bytes(st, rows[i].size), rows[i].bytes);
        assert_int_equal(df_storage_writer_bytes(local, rows[i].size), 0);
    }
    df_storage_free(st);
    df_storage_free(local);
}

/* --- what is left there --- */

struct listing {
    size_t pages, objects, uploads;
    struct df_storage_found last;
};

static void count_entry(void *arg, const struct df_storage_found *f)
{
    struct listing *l = arg;

    *(f->upload_id[0] ? &l->uploads : &l->objects) += 1;
    assert_in_range(f->age_ms + 600000, 0, 1200000);
    l->last = *f;
}

static struct listing list_all(struct df_storage *st)
{
    struct listing l = {0};
    struct df_storage_cursor at = {.stage = DF_STORAGE_OBJECTS};
    struct df_err err = DF_ERR_INIT;

    while (at.stage != DF_STORAGE_LISTED) {
        if (df_storage_list(st, &at, count_entry, &l, &err) != DF_OK)
            fail_msg("%s", err.detail);
        assert_in_range(++l.pages, 1, 20);
    }
    return l;
}

static void test_what_lies_there_is_listed_page_by_page(void **state)
{
    struct df_storage *st = storage_with((struct df_storage_options){
        .settings = {
            .where = DF_STORAGE_S3, .bucket = "s3://bucket/pages/it's=(here)", .key = crypt_key}});
    char path[256];
    (void)state;

    assert_int_equal(list_all(st).objects, 0);
    for (size_t i = 0; i < DF_STORAGE_PAGE + 3; i++) {
        struct df_uuid batch = df_uuid_v7(df_clock_real());
        (void)snprintf(path, sizeof(path), "/bucket/pages/it%%27s%%3D%%28here%%29/%s/original",
                       batch.text);
        assert_int_equal(ask("PUT", path, NULL, NULL), 200);
    }
    struct listing l = list_all(st);
    assert_int_equal(l.objects, DF_STORAGE_PAGE + 3);
    assert_int_equal(l.pages, 3); /* two of objects, one of uploads */
    df_storage_free(st);
}

static void test_unfinished_uploads_are_found_and_aborted(void **state)
{
    struct df_storage *st = upload_storage(crypt_key);
    struct df_uuid batch = df_uuid_v7(df_clock_real()), other = df_uuid_v7(df_clock_real());
    struct df_storage_writer *w = begin(st, &batch), *left = begin(st, &other);
    struct df_err err = DF_ERR_INIT;
    bool ours = false;
    (void)state;

    assert_int_equal(list_all(st).uploads, 0);
    assert_int_equal(write_pieces(w, 6 * MIB, &err), DF_OK);
    assert_int_equal(list_all(st).uploads, 1);
    df_storage_abort(w);
    assert_int_equal(list_all(st).uploads, 0);

    assert_int_equal(write_pieces(left, 6 * MIB, &err), DF_OK);
    df_storage_leave(left);
    struct listing l = list_all(st);
    assert_int_equal(l.uploads, 1);
    assert_string_equal(l.last.batch.text, other.text);
    assert_int_equal(df_storage_remove_found(st, &l.last, &ours, &err), DF_OK);
    assert_true(ours);
    assert_int_equal(df_storage_remove_found(st, &l.last, &ours, &err), DF_OK);
    assert_int_equal(list_all(st).uploads, 0);
    df_storage_free(st);
}

static void test_objects_of_others_stay(void **state)
{
    struct df_storage *st = upload_storage(crypt_key), *theirs = upload_storage(other_key);
    char sum[DF_CHECKSUM_LEN + 1], location[DF_STORAGE_LOCATION_MAX + 1];
    struct df_err err = DF_ERR_INIT;
    struct df_uuid batch;
    bool ours = true;
    (void)state;

    assert_int_equal(ask("PUT", "/bucket/uploads/notes", NULL, NULL), 200);
    assert_int_equal(ask("PUT", "/bucket/uploads/notes/2026", NULL, NULL), 200);
    assert_int_equal(list_all(st).objects, 0); /* such keys are not told at all */
    (void)upload(theirs, 1000, &batch, location, sum);
    struct listing l = list_all(st);
    assert_int_equal(l.objects, 1);
    assert_string_equal(l.last.location, location);
    assert_int_equal(df_storage_remove_found(st, &l.last, &ours, &err), DF_OK);
    assert_false(ours);
    assert_int_equal(list_all(st).objects, 1);
    assert_int_equal(df_storage_remove_found(theirs, &l.last, &ours, &err), DF_OK);
    assert_true(ours);
    assert_int_equal(list_all(st).objects, 0);
    df_storage_free(st);
    df_storage_free(theirs);
}

static void test_a_listing_that_fails_is_told_at_once(void **state)
{
    static const char *const faults[] = {
        "{\"status\": 503, \"count\": 9}", "{\"status\": 403, \"count\": 9}",
        "{\"status\": 200, \"count\": 9}", "{\"flip\": true, \"count\": 9}"};
    struct df_storage *st = upload_storage(crypt_key);
    struct df_storage_cursor at = {.stage = DF_STORAGE_OBJECTS};
    struct listing l = {0};
    (void)state;

    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        set_fault(faults[i]);
        assert_int_not_equal(df_storage_list(st, &at, count_entry, &l, NULL), DF_OK);
        assert_int_equal(seen("GET /bucket"), 1);
        assert_int_equal(at.stage, DF_STORAGE_OBJECTS);
    }
    set_fault("{\"count\": 0}");
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
        cmocka_unit_test(test_an_object_comes_under_the_current_key),
        cmocka_unit_test(test_large_files_go_in_parts),
        cmocka_unit_test(test_a_failed_upload_in_parts_is_aborted),
        cmocka_unit_test(test_a_wrong_signature_is_refused),
        cmocka_unit_test(test_a_missing_bucket_is_told),
        cmocka_unit_test(test_failures_that_pass_are_waited_for),
        cmocka_unit_test(test_failures_that_stay_end),
        cmocka_unit_test(test_what_comes_back_changed_is_not_taken),
        cmocka_unit_test(test_places_of_others_are_not_touched),
        cmocka_unit_test(test_an_upload_goes_there_while_it_arrives),
        cmocka_unit_test(test_an_object_is_read_where_it_lies),
        cmocka_unit_test(test_a_changed_object_in_parts_is_noticed_when_it_is_read),
        cmocka_unit_test(test_fetching_may_be_given_up),
        cmocka_unit_test(test_a_lost_answer_to_the_completion_is_found_out),
        cmocka_unit_test(test_a_part_that_nobody_takes_is_an_error),
        cmocka_unit_test(test_the_memory_of_an_upload_is_told),
        cmocka_unit_test(test_what_lies_there_is_listed_page_by_page),
        cmocka_unit_test(test_unfinished_uploads_are_found_and_aborted),
        cmocka_unit_test(test_objects_of_others_stay),
        cmocka_unit_test(test_a_listing_that_fails_is_told_at_once),
        cmocka_unit_test(test_a_shutdown_ends_the_waiting),
    };
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
