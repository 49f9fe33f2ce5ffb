#include "locks/redis_conn.h"

#include "base/clock.h"
#include "base/mem.h"
#include "net/security.h"

#include <assert.h>
#include <curl/curl.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define REPLY_MAX    ((size_t)256 << 10) /* INFO is the longest, a few KiB */
#define ELEMENTS_MAX 16

struct redis_conn {
    CURL *easy;
    curl_socket_t fd;
    redisReader *reader;
    char address[sizeof((struct redis_url *)0)->address];
};

/* --- replies are bounded --- */

#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

static redisReplyObjectFunctions bounded;
static void *(*create_array)(const redisReadTask *task, element_count elements);

/* hiredis would allocate as many as the peer says. */
static void *create_bounded(const redisReadTask *task, element_count elements)
{
    return elements > ELEMENTS_MAX ? NULL : create_array(task, elements);
}

static void make_bounded(void)
{
    redisReader *r = redisReaderCreate();

    if (!r)
        df_oom();
    bounded = *r->fn;
    create_array = bounded.createArray;
    bounded.createArray = create_bounded;
    redisReaderFree(r);
}

static redisReader *new_reader(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, make_bounded);
    redisReader *r = redisReaderCreate();
    if (!r)
        df_oom();
    r->fn = &bounded;
    return r;
}

/* --- sending and receiving --- */

/* False: the time is over. */
static bool wait_until(const struct redis_conn *c, short events, int64_t until_ms)
{
    struct pollfd p = {.fd = c->fd, .events = events};
    int64_t left_ms = until_ms - df_mono_ms(df_clock_real());

    return left_ms > 0 && poll(&p, 1, (int)left_ms) != 0;
}

static enum df_code failed(const struct redis_conn *c, enum df_code code, const char *why,
                           struct df_err *err)
{
    return df_err_set(err, code, "Redis %s: %s", c->address, why);
}

static enum df_code send_all(struct redis_conn *c, const char *data, size_t len, int64_t until_ms,
                             struct df_err *err)
{
    while (len > 0) {
        size_t sent = 0;
        CURLcode code = curl_easy_send(c->easy, data, len, &sent);
        if (code == CURLE_AGAIN && !wait_until(c, POLLOUT, until_ms))
            return failed(c, DF_E_NET_TIMEOUT, "it takes nothing in time", err);
        if (code != CURLE_OK && code != CURLE_AGAIN)
            return failed(c, DF_E_NET, "the connection broke", err);
        data += sent;
        len -= sent;
    }
    return DF_OK;
}

static enum df_code receive_reply(struct redis_conn *c, int64_t until_ms, redisReply **ret,
                                  struct df_err *err)
{
    char bytes[4096];
    size_t total = 0;
    void *reply = NULL;

    for (;;) {
        if (redisReaderGetReply(c->reader, &reply) != REDIS_OK)
            return failed(c, DF_E_NET, "it does not speak Redis's protocol", err);
        if (reply)
            break;
        size_t got = 0;
        CURLcode code = curl_easy_recv(c->easy, bytes, sizeof bytes, &got);
        if (code == CURLE_AGAIN) {
            if (!wait_until(c, POLLIN, until_ms))
                return failed(c, DF_E_NET_TIMEOUT, "no answer in time", err);
            continue;
        }
        if (code != CURLE_OK || got == 0)
            return failed(c, DF_E_NET, "it closed the connection", err);
        total += got;
        if (total > REPLY_MAX || redisReaderFeed(c->reader, bytes, got) != REDIS_OK)
            return failed(c, DF_E_NET, "its answer is too long", err);
    }
    *ret = reply;
    return DF_OK;
}

enum df_code redis_conn_ask(struct redis_conn *c, const char *const *words, size_t count,
                            int64_t timeout_ms, redisReply **ret, struct df_err *err)
{
    int64_t until_ms = df_mono_ms(df_clock_real()) + timeout_ms;
    char *command = NULL;
    redisReply *reply = NULL;
    /* It writes to none of them. */
    const char **argv = (const char **)(uintptr_t)words;

    int len = redisFormatCommandArgv(&command, (int)count, argv, NULL);
    if (len < 0)
        df_oom();
    enum df_code code = send_all(c, command, (size_t)len, until_ms, err);
    df_wipe(command, (size_t)len); /* it may be a password */
    redisFreeCommand(command);
    if (code == DF_OK)
        code = receive_reply(c, until_ms, &reply, err);
    if (code != DF_OK)
        return code;
    assert(reply);
    if (reply->type == REDIS_REPLY_ERROR) {
        code = df_err_set(err, DF_E_UNAVAILABLE, "Redis %s: %.*s", c->address,
                          (int)(reply->len > 200 ? 200 : reply->len), reply->str);
        freeReplyObject(reply);
        return code;
    }
    *ret = reply;
    return DF_OK;
}

static enum df_code order(struct redis_conn *c, const char *const *words, size_t count,
                          int64_t timeout_ms, struct df_err *err)
{
    redisReply *reply = NULL;
    enum df_code code = redis_conn_ask(c, words, count, timeout_ms, &reply, err);

    if (reply)
        freeReplyObject(reply);
    return code;
}

/* --- connecting --- */

static enum df_code dial(struct redis_conn *c, const struct redis_url *url, int64_t timeout_ms,
                         struct df_err *err)
{
    char message[CURL_ERROR_SIZE] = "";
    char peer[sizeof c->address + 8];
    unsigned bad = 0;

    bad |= curl_easy_setopt(c->easy, CURLOPT_URL, url->dial);
    bad |= curl_easy_setopt(c->easy, CURLOPT_CONNECT_ONLY, 1L);
    bad |= curl_easy_setopt(c->easy, CURLOPT_SSL_ENABLE_ALPN, 0L); /* it is not HTTP */
    bad |= curl_easy_setopt(c->easy, CURLOPT_ERRORBUFFER, message);
    bad |= curl_easy_setopt(c->easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    if (bad || !df_security_set_curl(c->easy))
        return df_err_set(err, DF_E_INTERNAL, "libcurl does not take its options");
    CURLcode code = curl_easy_perform(c->easy);
    if (code == CURLE_OK)
        code = curl_easy_getinfo(c->easy, CURLINFO_ACTIVESOCKET, &c->fd);
    (void)snprintf(peer, sizeof peer, "Redis %s", c->address);
    (void)curl_easy_setopt(c->easy, CURLOPT_ERRORBUFFER, NULL);
    return code == CURLE_OK ? DF_OK
                            : df_security_curl_error(c->easy, (int)code, message, peer, err);
}

static enum df_code log_in(struct redis_conn *c, const struct redis_url *url, int64_t timeout_ms,
                           struct df_err *err)
{
    const char *auth[3] = {"AUTH"};
    size_t count = 1;
    char database[16];
    enum df_code code = DF_OK;

    if (url->user[0])
        auth[count++] = url->user;
    auth[count++] = url->password;
    (void)snprintf(database, sizeof database, "%u", url->database);
    if (url->password[0])
        code = order(c, auth, count, timeout_ms, err);
    if (code == DF_OK && url->database > 0)
        code = order(c, (const char *const[]){"SELECT", database}, 2, timeout_ms, err);
    return code;
}

enum df_code redis_conn_open(const struct redis_url *url, int64_t timeout_ms,
                             struct redis_conn **ret, struct df_err *err)
{
    struct redis_conn *c = df_calloc(1, sizeof *c);

    (void)snprintf(c->address, sizeof c->address, "%s", url->address);
    c->reader = new_reader();
    c->easy = curl_easy_init();
    enum df_code code = c->easy ? dial(c, url, timeout_ms, err)
                                : df_err_set(err, DF_E_INTERNAL, "libcurl cannot start");
    if (code == DF_OK)
        code = log_in(c, url, timeout_ms, err);
    if (code != DF_OK) {
        redis_conn_close(c);
        return code;
    }
    *ret = c;
    return DF_OK;
}

void redis_conn_close(struct redis_conn *c)
{
    if (!c)
        return;
    curl_easy_cleanup(c->easy);
    redisReaderFree(c->reader);
    free(c);
}

/* --- what it tells of itself --- */

/* The value of a line "key:value\r\n"; empty: there is none. */
static void find_line(const char *text, const char *key, char *out, size_t size)
{
    size_t len = strlen(key);

    out[0] = '\0';
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0 && line[len] == ':') {
            (void)snprintf(out, size, "%.*s", (int)strcspn(line + len + 1, "\r\n"), line + len + 1);
            return;
        }
    }
}

enum df_code redis_conn_info(struct redis_conn *c, int64_t timeout_ms, struct df_redis_facts *ret,
                             char run_id[REDIS_RUN_ID_MAX + 1], struct df_err *err)
{
    redisReply *reply = NULL;
    char role[16];

    *ret = (struct df_redis_facts){.evicts = false};
    run_id[0] = '\0';
    enum df_code code =
        redis_conn_ask(c, (const char *const[]){"INFO"}, 1, timeout_ms, &reply, err);
    if (code != DF_OK || !reply)
        return code;
    if (reply->type == REDIS_REPLY_STRING) {
        find_line(reply->str, "run_id", run_id, REDIS_RUN_ID_MAX + 1);
        find_line(reply->str, "redis_version", ret->version, sizeof ret->version);
        find_line(reply->str, "maxmemory_policy", ret->policy, sizeof ret->policy);
        find_line(reply->str, "role", role, sizeof role);
        ret->is_replica = role[0] && strcmp(role, "master") != 0;
        ret->evicts = strcmp(ret->policy, "noeviction") != 0;
    }
    freeReplyObject(reply);
    (void)snprintf(ret->address, sizeof ret->address, "%s", c->address);
    if (ret->version[0] == '\0' || run_id[0] == '\0')
        return failed(c, DF_E_NET, "it does not tell what it is (INFO)", err);
    return DF_OK;
}

enum df_code df_redis_probe(const struct df_locks_settings *s, size_t nth, int64_t timeout_ms,
                            struct df_redis_facts *ret, struct df_err *err)
{
    char run_id[REDIS_RUN_ID_MAX + 1];
    struct redis_conn *c = NULL;
    redisReply *reply = NULL;
    struct redis_url url;
    int64_t seconds = 0;

    enum df_code code = redis_url_nth(s->redis_urls, nth, &url, err);
    if (code == DF_OK)
        code = redis_conn_open(&url, timeout_ms, &c, err);
    redis_url_wipe(&url);
    if (code == DF_OK)
        code = redis_conn_info(c, timeout_ms, ret, run_id, err);
    if (code == DF_OK)
        code = redis_conn_ask(c, (const char *const[]){"TIME"}, 1, timeout_ms, &reply, err);
    if (code == DF_OK && reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
        reply->element[0]->type == REDIS_REPLY_STRING &&
        df_str_to_i64(df_str_n(reply->element[0]->str, reply->element[0]->len), &seconds))
        ret->clock_ms = seconds * 1000;
    if (reply)
        freeReplyObject(reply);
    redis_conn_close(c);
    return code;
}
