/*
 * Any bytes as the answer of an HTTP peer. The first byte says whether it answers a HEAD request.
 * However the answer is cut into pieces, the outcome is the same; and where libcurl takes it too,
 * both have the same status and body.
 */
#include "net/h1.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond))                                                                               \
            abort();                                                                               \
    } while (0)

/* Cuts depend on the input alone, so that what is found can be found again. */
static uint32_t seed;

static size_t below(size_t bound)
{
    seed = seed * 1664525 + 1013904223;
    return bound ? (seed >> 8) % bound : 0;
}

struct outcome {
    enum df_h1_state state;
    unsigned status;
    bool keep_alive;
    size_t taken;
    struct df_buf body;
    struct df_buf fields;
};

static bool take(void *arg, const char *data, size_t len)
{
    struct df_buf *body = arg;

    CHECK(len > 0);
    df_buf_add(body, data, len);
    return true;
}

static void read_answer(struct df_str bytes, bool of_head, bool in_pieces, struct outcome *o)
{
    struct df_h1 h;
    struct df_str name, value;
    size_t at = 0;

    *o = (struct outcome){0};
    df_buf_init(&o->body, (size_t)1 << 20);
    df_buf_init(&o->fields, (size_t)1 << 20);
    df_h1_init(&h);
    df_h1_reset(&h, of_head);
    while (o->taken < bytes.len && h.state < DF_H1_DONE) {
        size_t left = bytes.len - o->taken;
        size_t n = in_pieces ? 1 + below(left < 9 ? left : 9) : left;
        n = n < left ? n : left;
        size_t taken = df_h1_feed(&h, bytes.ptr + o->taken, n, take, &o->body);
        CHECK(taken == n || h.state >= DF_H1_DONE);
        o->taken += taken;
    }
    if (h.state < DF_H1_DONE)
        df_h1_end(&h);
    CHECK(h.state == DF_H1_DONE || (h.state == DF_H1_BAD && h.why));
    o->state = h.state;
    o->status = h.status;
    o->keep_alive = h.keep_alive;
    if (h.state == DF_H1_DONE) {
        CHECK(h.status >= 200 && h.status <= 999 && h.head.len <= DF_H1_HEAD_MAX);
        while (df_h1_field(&h, &at, &name, &value)) {
            CHECK(!memchr(value.ptr, '\n', value.len));
            df_buf_adds(&o->fields, name);
            df_buf_addc(&o->fields, '\n');
            df_buf_adds(&o->fields, value);
            df_buf_addc(&o->fields, '\n');
        }
    }
    df_h1_release(&h);
}

/* --- libcurl --- */

static size_t add_body(char *data, size_t size, size_t count, void *arg)
{
    df_buf_add(arg, data, size * count);
    return size * count;
}

static char name[32]; /* of the listener, which is no file */
static int listener = -1;

static void open_listener(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    (void)snprintf(name, sizeof name, "dataflow-fuzz-%d", (int)getpid());
    (void)snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%s", name);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    CHECK(bind(listener, (struct sockaddr *)&address, len) == 0 && listen(listener, 5) == 0);
}

/* The peer says its answer without waiting for the question. */
static int answer_caller(struct df_str bytes)
{
    int fd = accept(listener, NULL, NULL);

    if (fd < 0)
        return -1;
    CHECK(send(fd, bytes.ptr, bytes.len, MSG_NOSIGNAL) == (ssize_t)bytes.len);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    return fd;
}

static CURLcode ask_libcurl(struct df_str bytes, bool of_head, long *ret_status,
                            struct df_buf *body)
{
    CURL *e = curl_easy_init();
    CURLM *m = curl_multi_init();
    int running = 1, fd = -1, left;

    if (listener < 0)
        open_listener();
    curl_easy_setopt(e, CURLOPT_URL, "http://127.0.0.1/");
    curl_easy_setopt(e, CURLOPT_ABSTRACT_UNIX_SOCKET, name);
    curl_easy_setopt(e, CURLOPT_NOBODY, of_head ? 1L : 0L);
    curl_easy_setopt(e, CURLOPT_PROXY, "");
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, add_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, body);
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, 2000L);
    curl_multi_add_handle(m, e);
    while (running > 0) {
        curl_multi_perform(m, &running);
        if (fd < 0)
            fd = answer_caller(bytes);
        if (running > 0)
            curl_multi_poll(m, NULL, 0, 10, NULL);
    }
    CURLMsg *msg = curl_multi_info_read(m, &left);
    CURLcode code = msg ? msg->data.result : CURLE_OBSOLETE20;
    curl_easy_getinfo(e, CURLINFO_RESPONSE_CODE, ret_status);
    curl_multi_remove_handle(m, e);
    curl_easy_cleanup(e);
    curl_multi_cleanup(m);
    if (fd >= 0)
        close(fd);
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct outcome whole, pieces;

    if (size == 0 || size > 8192)
        return 0;
    bool of_head = data[0] == 'H';
    struct df_str bytes = df_str_n((const char *)data + 1, size - 1);
    seed = (uint32_t)size * 2654435761u + data[size - 1];
    read_answer(bytes, of_head, false, &whole);
    read_answer(bytes, of_head, true, &pieces);
    CHECK(whole.state == pieces.state);
    if (whole.state == DF_H1_DONE) {
        CHECK(whole.status == pieces.status && whole.keep_alive == pieces.keep_alive);
        CHECK(whole.taken == pieces.taken);
        CHECK(df_str_eq(df_buf_str(&whole.body), df_buf_str(&pieces.body)));
        CHECK(df_str_eq(df_buf_str(&whole.fields), df_buf_str(&pieces.fields)));
        struct df_buf theirs;
        long status = 0;
        df_buf_init(&theirs, (size_t)1 << 20);
        if (ask_libcurl(bytes, of_head, &status, &theirs) == CURLE_OK) {
            CHECK((unsigned)status == whole.status);
            CHECK(df_str_eq(df_buf_str(&whole.body), df_buf_str(&theirs)));
        }
        df_buf_release(&theirs);
    }
    df_buf_release(&whole.body);
    df_buf_release(&whole.fields);
    df_buf_release(&pieces.body);
    df_buf_release(&pieces.fields);
    return 0;
}
