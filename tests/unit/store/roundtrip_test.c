/*
 * What a round trip costs depends on the network; how many there are depends on us. A proxy between
 * the driver and the server counts how often the client spoke after it had listened.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/db.h"
#include "testdb.h"

#include <arpa/inet.h>
#include <libpq-fe.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

static struct df_db *db;
static struct df_err err;
static atomic_int turns;

TESTDB_QUERY(key_insert, 1, NULL, "INSERT INTO Keys (Id) VALUES ($1)",
             "INSERT INTO Keys (Id) VALUES (?)");
TESTDB_QUERY(key_count, 0, NULL, "SELECT COUNT(*) FROM Keys", "SELECT COUNT(*) FROM Keys");

/* --- the proxy -------------------------------------------------------------------------------- */

struct proxy {
    int listener;
    char host[256];
    char port[16];
};

static int connect_server(const struct proxy *p)
{
    struct addrinfo *list = NULL;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    int fd = -1;
    if (getaddrinfo(p->host, p->port, &hints, &list) != 0)
        return -1;
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
            (void)close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    return fd;
}

static bool forward(int from, int to)
{
    static char buf[65536];
    ssize_t n = read(from, buf, sizeof(buf));
    for (ssize_t at = 0; at < n;) {
        ssize_t w = write(to, buf + at, (size_t)(n - at));
        if (w <= 0)
            return false;
        at += w;
    }
    return n > 0;
}

/* One connection, to its end. */
static void *serve(void *arg)
{
    struct proxy *p = arg;
    bool listened = true;
    int client = accept(p->listener, NULL, NULL);
    int server = connect_server(p);
    struct pollfd fds[2] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};

    while (client >= 0 && server >= 0 && poll(fds, 2, -1) > 0) {
        if (fds[0].revents) {
            turns += listened;
            listened = false;
            if (!forward(client, server))
                break;
        }
        if (fds[1].revents) {
            listened = true;
            if (!forward(server, client))
                break;
        }
    }
    (void)close(client);
    (void)close(server);
    return NULL;
}

static unsigned start_listening(struct proxy *p)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    p->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(p->listener, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(listen(p->listener, 1), 0);
    assert_int_equal(getsockname(p->listener, (struct sockaddr *)&addr, &len), 0);
    return ntohs(addr.sin_port);
}

/* Where PostgreSQL is; false when that is not a host and a port. */
static bool find_postgres(struct proxy *p)
{
    PQconninfoOption *options = PQconninfoParse(testdb_env(DF_POSTGRES), NULL);
    assert_non_null(options);
    (void)snprintf(p->host, sizeof(p->host), "127.0.0.1");
    (void)snprintf(p->port, sizeof(p->port), "5432");
    for (const PQconninfoOption *o = options; o->keyword; o++) {
        if (o->val && strcmp(o->keyword, "host") == 0)
            (void)snprintf(p->host, sizeof(p->host), "%s", o->val);
        if (o->val && strcmp(o->keyword, "port") == 0)
            (void)snprintf(p->port, sizeof(p->port), "%s", o->val);
    }
    PQconninfoFree(options);
    return p->host[0] != '/';
}

/* Puts the proxy's port in the place of host and port in url. */
static void divert_sqlserver(struct proxy *p, const char *url, char *out, size_t size)
{
    const char *at = strrchr(url, '@');
    assert_non_null(at);
    size_t len = strcspn(at + 1, "/?");
    char authority[300];
    (void)snprintf(authority, sizeof(authority), "%.*s", (int)len, at + 1);
    char *colon = strrchr(authority, ':');
    (void)snprintf(p->port, sizeof(p->port), "%s", colon ? colon + 1 : "1433");
    (void)snprintf(p->host, sizeof(p->host), "%.*s",
                   (int)(colon ? colon - authority : (ptrdiff_t)strlen(authority)), authority);
    (void)snprintf(out, size, "%.*s@127.0.0.1:%u%s", (int)(at - url), url, start_listening(p),
                   at + 1 + len);
}

/* --- what is counted
 * ------------------------------------------------------------------------------ */

static int turns_since(int *mark)
{
    int now = turns;
    int n = now - *mark;
    *mark = now;
    return n;
}

static void insert_under_savepoint(int64_t id, enum df_code want)
{
    assert_ok(df_db_savepoint(db, &err), &err);
    assert_code(df_db_exec(db, &key_insert, DF_PARAMS(df_int(id)), NULL, &err), want, &err);
    if (want == DF_OK)
        assert_ok(df_db_release(db, &err), &err);
    else
        assert_ok(df_db_rollback_to(db, &err), &err);
}

/* How many there may be; what is not listed here is the same everywhere. */
struct allowance {
    int first_insert; /* BEGIN, a savepoint and an INSERT */
    int refused;      /* the same INSERT again, under a savepoint, and back to it */
    int next;         /* another under a savepoint */
    int first_batch;  /* many rows, for the first time on the connection */
};

static void count_round_trips(const struct allowance *allowed)
{
    enum { ROWS = 64 };
    struct df_value rows[ROWS];
    int mark = turns;

    assert_int_equal(testdb_int(db, &key_count), 0);
    assert_int_equal(turns_since(&mark), 1);

    assert_ok(df_db_begin(db, true, &err), &err);
    insert_under_savepoint(1, DF_OK);
    assert_int_equal(turns_since(&mark), allowed->first_insert);
    insert_under_savepoint(2, DF_OK);
    (void)turns_since(&mark);
    insert_under_savepoint(1, DF_E_DB_UNIQUE);
    assert_int_equal(turns_since(&mark), allowed->refused);
    insert_under_savepoint(3, DF_OK);
    assert_int_equal(turns_since(&mark), allowed->next);

    for (int n = 0; n < 2; n++) {
        for (int64_t i = 0; i < ROWS; i++)
            rows[i] = df_int(100 + n * ROWS + i);
        assert_ok(df_db_exec_many(db, &key_insert, rows, 1, ROWS, NULL, NULL, NULL, NULL, &err),
                  &err);
        assert_int_equal(turns_since(&mark), n == 0 ? allowed->first_batch : 1);
    }
    assert_ok(df_db_commit(db, &err), &err);
    assert_int_equal(turns_since(&mark), 1);

    /* What nothing was done in, nobody needs to hear of. */
    assert_ok(df_db_begin(db, true, &err), &err);
    assert_ok(df_db_savepoint(db, &err), &err);
    assert_ok(df_db_rollback_to(db, &err), &err);
    assert_ok(df_db_commit(db, &err), &err);
    assert_int_equal(turns_since(&mark), 0);
    assert_int_equal(testdb_int(db, &key_count), 3 + 2 * ROWS);
}

static void count_on(struct proxy *p, const char *url, const char *table,
                     const struct allowance *allowed)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, serve, p), 0);
    db = testdb_open_url(url);
    testdb_script(db, table);
    count_round_trips(allowed);
    df_db_close(db);
    pthread_join(thread, NULL);
    (void)close(p->listener);
}

static void on_postgres_all_travels_together(void **state)
{
    (void)state;
    static const struct allowance allowed = {
        .first_insert = 1, .refused = 1, .next = 1, .first_batch = 2};
    struct proxy p;
    char url[1024];

    if (!testdb_available(DF_POSTGRES) || !find_postgres(&p))
        skip();
    const char *base = testdb_env(DF_POSTGRES);
    (void)snprintf(url, sizeof(url), "%s%chost=127.0.0.1&port=%u", base,
                   strchr(base, '?') ? '&' : '?', start_listening(&p));
    count_on(&p, url, "CREATE TEMPORARY TABLE Keys (Id BIGINT PRIMARY KEY)", &allowed);
}

static void on_sql_server_begin_and_going_back_are_their_own(void **state)
{
    (void)state;
    static const struct allowance allowed = {
        .first_insert = 2, .refused = 2, .next = 1, .first_batch = 1};
    struct proxy p;
    struct testdb t;
    char url[1024];

    if (!testdb_available(DF_SQLSERVER))
        skip();
    testdb_init(&t, DF_SQLSERVER);
    divert_sqlserver(&p, t.url, url, sizeof(url));
    count_on(&p, url, "CREATE TABLE Keys (Id BIGINT PRIMARY KEY)", &allowed);
    testdb_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_postgres_all_travels_together),
        cmocka_unit_test(on_sql_server_begin_and_going_back_are_their_own),
    };
    testdb_print_skipped();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
