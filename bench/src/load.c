/*
 * Load generator: one thread, one epoll, N keep-alive connections in a closed loop. It is written
 * here because every request must carry a key of its own, and because the generator must cost
 * little compared with the server that it shares two processors with: two system calls a request.
 */
#include "base/uuid.h"
#include "bench.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUEST_MAX  4096
#define ANSWER_BYTES 4096
#define SLOTS        4096 /* of the latency histogram: 16 for each power of two of microseconds */

static const struct df_command cmd = {.name = "bench load"};

struct conn {
    int fd;
    size_t got;
    int64_t sent_ns;
    char answer[ANSWER_BYTES + 1];
};

struct load {
    const char *host;
    const char *port;
    const char *path;
    const char *client_id;
    const char *client_secret;
    int64_t connections;
    int64_t seconds;
    int64_t warmup;

    const struct df_clock *clock;
    int epoll;
    struct conn *conns;
    char request[REQUEST_MAX];
    size_t request_len;
    char *id_at;
    bool measuring;
    uint64_t ok, failed;
    uint64_t latency[SLOTS];
    char first_failure[160];
};

void df_bench_payload(char *out, size_t len, uint64_t number)
{
    static const char text[] = "Rua das Laranjeiras, 1024; retirada de conteiner; nota fiscal; ";
    for (size_t i = 0; i < len; i++)
        out[i] = text[(i + number) % (sizeof text - 1)];
}

/* --- latency: logarithmic buckets, so that p99 is right to a few per cent --- */

static size_t slot_of(uint64_t us)
{
    if (us < 16)
        return us;
    unsigned top = 63u - (unsigned)__builtin_clzll(us);
    size_t slot = (size_t)(top - 3) * 16 + ((us >> (top - 4)) & 15);
    return slot < SLOTS ? slot : SLOTS - 1;
}

static uint64_t slot_value(size_t slot)
{
    if (slot < 16)
        return slot;
    unsigned top = (unsigned)(slot / 16) + 3;
    return (1ULL << top) + ((uint64_t)(slot % 16) << (top - 4));
}

static double percentile(const struct load *l, double p)
{
    uint64_t want = (uint64_t)((double)l->ok * p), seen = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        seen += l->latency[i];
        if (seen > want)
            return (double)slot_value(i) / 1000;
    }
    return 0;
}

/* --- the request: built once, only the id changes --- */

static void build_request(struct load *l)
{
    char payload[DF_BENCH_PAYLOAD + 1];
    df_bench_payload(payload, DF_BENCH_PAYLOAD, 0);
    payload[DF_BENCH_PAYLOAD] = '\0';
    char body[DF_BENCH_PAYLOAD + 128];
    int n = snprintf(body, sizeof body, "{\"id\":\"%036d\",\"payload\":\"%s\"}", 0, payload);
    int len =
        snprintf(l->request, sizeof l->request,
                 "POST %s HTTP/1.1\r\nHost: %s:%s\r\nX-Client-Id: %s\r\nX-Client-Secret: %s\r\n"
                 "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
                 l->path, l->host, l->port, l->client_id, l->client_secret, n, body);
    l->request_len = (size_t)len;
    l->id_at = strstr(l->request, "{\"id\":\"") + 7;
}

static bool send_next(struct load *l, struct conn *c)
{
    struct df_uuid id = df_uuid_v7(l->clock);
    memcpy(l->id_at, id.text, DF_UUID_LEN);
    c->got = 0;
    c->sent_ns = df_mono_ns(l->clock);
    ssize_t n = write(c->fd, l->request, l->request_len);
    if (n != (ssize_t)l->request_len) {
        df_cli_complain(&cmd, "the server does not take requests any more");
        return false;
    }
    return true;
}

static void count_answer(struct load *l, const struct conn *c)
{
    if (!l->measuring)
        return;
    if (strncmp(c->answer, "HTTP/1.1 2", 10) != 0) {
        if (!l->failed++)
            snprintf(l->first_failure, sizeof l->first_failure, "%.*s",
                     (int)strcspn(c->answer, "\r"), c->answer);
        return;
    }
    l->ok++;
    l->latency[slot_of((uint64_t)(df_mono_ns(l->clock) - c->sent_ns) / 1000)]++;
}

/* Whether the answer is complete. */
static bool answer_complete(struct conn *c)
{
    c->answer[c->got] = '\0';
    const char *end = strstr(c->answer, "\r\n\r\n");
    if (!end)
        return false;
    const char *length = strcasestr(c->answer, "\r\nContent-Length:");
    size_t body = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
    return c->got >= (size_t)(end - c->answer) + 4 + body;
}

static bool read_answer(struct load *l, struct conn *c)
{
    ssize_t n = read(c->fd, c->answer + c->got, ANSWER_BYTES - c->got);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0) {
        df_cli_complain(&cmd, "the server closed a connection");
        return false;
    }
    c->got += (size_t)n;
    if (!answer_complete(c))
        return true;
    count_answer(l, c);
    return send_next(l, c);
}

/* --- the loop --- */

static bool run_load_for(struct load *l, int64_t seconds)
{
    int64_t end = df_mono_ns(l->clock) + seconds * 1000000000;
    struct epoll_event events[256];
    while (df_mono_ns(l->clock) < end) {
        int n = epoll_wait(l->epoll, events, 256, 100);
        for (int i = 0; i < n; i++)
            if (!read_answer(l, events[i].data.ptr))
                return false;
    }
    return true;
}

static bool connect_one(struct load *l, const struct addrinfo *ai, struct conn *c)
{
    c->fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || connect(c->fd, ai->ai_addr, ai->ai_addrlen) != 0) {
        df_cli_complain(&cmd, "cannot connect to %s:%s", l->host, l->port);
        return false;
    }
    int one = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
    return epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->fd, &ev) == 0;
}

static bool connect_all(struct load *l)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *ai = NULL;
    if (getaddrinfo(l->host, l->port, &hints, &ai) != 0) {
        df_cli_complain(&cmd, "cannot resolve %s", l->host);
        return false;
    }
    bool ok = true;
    for (int64_t i = 0; ok && i < l->connections; i++)
        ok = connect_one(l, ai, &l->conns[i]);
    freeaddrinfo(ai);
    return ok;
}

static int run_load(struct load *l)
{
    l->clock = df_clock_real();
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->conns = calloc((size_t)l->connections, sizeof *l->conns);
    if (!l->conns || l->epoll < 0)
        abort();
    build_request(l);
    bool ok = connect_all(l);
    for (int64_t i = 0; ok && i < l->connections; i++)
        ok = send_next(l, &l->conns[i]);
    ok = ok && run_load_for(l, l->warmup);
    l->measuring = true;
    int64_t start = df_mono_ns(l->clock);
    ok = ok && run_load_for(l, l->seconds);
    double seconds = (double)(df_mono_ns(l->clock) - start) / 1e9;
    if (ok)
        printf("{\"perSecond\":%.0f,\"ok\":%llu,\"failed\":%llu,\"p50Ms\":%.2f,\"p99Ms\":%.2f}\n",
               (double)l->ok / seconds, (unsigned long long)l->ok, (unsigned long long)l->failed,
               percentile(l, 0.5), percentile(l, 0.99));
    if (l->failed)
        fprintf(stderr, "dataflow bench load: %llu failed, the first with: %s\n",
                (unsigned long long)l->failed, l->first_failure);
    for (int64_t i = 0; i < l->connections; i++)
        if (l->conns[i].fd > 0)
            close(l->conns[i].fd);
    free(l->conns);
    close(l->epoll);
    return ok && !l->failed ? DF_EXIT_OK : DF_EXIT_FAILED;
}

int df_bench_load(int argc, char **argv)
{
    struct load *l = calloc(1, sizeof *l);
    if (!l)
        abort();
    const char *at = "127.0.0.1:8080", *connections = NULL, *seconds = NULL, *warmup = NULL;
    l->path = "/bench/rows";
    l->client_id = l->client_secret = "";
    l->connections = 64;
    l->seconds = 10;
    l->warmup = 2;
    const struct df_option options[] = {
        {.name = "at", .kind = DF_OPT_VALUE, .value = &at},
        {.name = "path", .kind = DF_OPT_VALUE, .value = &l->path},
        {.name = "client-id", .kind = DF_OPT_VALUE, .value = &l->client_id},
        {.name = "client-secret", .kind = DF_OPT_VALUE, .value = &l->client_secret},
        {.name = "connections", .kind = DF_OPT_VALUE, .value = &connections},
        {.name = "seconds", .kind = DF_OPT_VALUE, .value = &seconds},
        {.name = "warmup", .kind = DF_OPT_VALUE, .value = &warmup},
    };
    int operands =
        df_cli_parse(&cmd, argc, argv, options, sizeof options / sizeof options[0], NULL);
    int status = DF_EXIT_USAGE;
    char *copy = strdup(at);
    char *colon = strrchr(copy, ':');
    if (operands == 0 && colon &&
        df_cli_int(&cmd, "connections", connections, 1, 10000, &l->connections) &&
        df_cli_int(&cmd, "seconds", seconds, 1, 3600, &l->seconds) &&
        df_cli_int(&cmd, "warmup", warmup, 0, 3600, &l->warmup)) {
        *colon = '\0';
        l->host = copy;
        l->port = colon + 1;
        status = run_load(l);
    }
    free(copy);
    free(l);
    return status;
}
