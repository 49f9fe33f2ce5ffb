/*
 * One Redis server of the locks: a thread with a connection, and a queue of questions.
 *
 * What a server knows is lost when it restarts, even if it keeps a file: the last second may be
 * missing. A marker without an expiry names the server's run_id. When the marker is missing, or
 * names another run_id, the server has lost its memory: the script that finds it writes the marker
 * and a quarantine that lasts as long as the longest lease, and until then no lock is given there.
 * So whatever it had given before is over by then. An extension is not refused: a value that is
 * still there belongs to whoever extends it.
 *
 * While a server is away it answers so at once, and is tried again every RETRY_MS; only drops wait
 * for it, so that a question that arrived without an answer leaves nothing behind.
 */
#include "base/log.h"
#include "base/mem.h"
#include "base/pool.h"
#include "locks/locks_private.h"
#include "locks/redis_conn.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#define QUEUE_SIZE 256
#define CONNECT_MS 2000
#define RETRY_MS   500
#define LOOK_MS    1000 /* an idle server is asked whether it is there */
#define FIRST_MS   (CONNECT_MS + 500)

/* KEYS: marker, quarantine, lock. ARGV: what to do, the server's run_id, the longest lease, whether
 * this is the first use, value, lease. */
static const char script[] =
    "local op, run, longest, first, value, ttl = unpack(ARGV)\n"
    "if op == 'hello' or op == 'acquire' then\n"
    "  local mark = redis.call('GET', KEYS[1])\n"
    "  if mark ~= run then\n"
    "    if mark or first ~= '1' then redis.call('SET', KEYS[2], '1', 'PX', longest) end\n"
    "    redis.call('SET', KEYS[1], run)\n"
    "  end\n"
    "  local left = redis.call('PTTL', KEYS[2])\n"
    "  if left ~= -2 then return {2, tostring(left)} end\n"
    "  if op == 'hello' then return {1, ''} end\n"
    "end\n"
    "local held = redis.call('GET', KEYS[3])\n"
    "if op == 'acquire' then\n"
    "  if held and held ~= value then return {0, held} end\n"
    "  redis.call('SET', KEYS[3], value, 'PX', ttl)\n"
    "elseif op == 'extend' then\n"
    "  if held ~= value then return {0, held or ''} end\n"
    "  redis.call('PEXPIRE', KEYS[3], ttl)\n"
    "elseif op == 'drop' and held and string.sub(held, 1, #value) == value then\n"
    "  redis.call('DEL', KEYS[3])\n"
    "end\n"
    "return {1, ''}\n";

static const char *const op_names[] = {[LOCK_OP_HELLO] = "hello",
                                       [LOCK_OP_ACQUIRE] = "acquire",
                                       [LOCK_OP_EXTEND] = "extend",
                                       [LOCK_OP_DROP] = "drop"};

/* A question and the server's number in it. */
struct question {
    struct lock_call *call;
    size_t nth;
};

struct redis_server {
    struct lock_server base;
    struct redis_options opt;
    struct redis_url url;
    struct df_thread thread;
    struct df_queue queue;
    struct redis_conn *conn; /* of the thread; NULL: not connected */
    char run_id[REDIS_RUN_ID_MAX + 1];

    _Atomic bool reached;
    _Atomic bool quarantined;
    _Atomic bool is_first; /* the marker may be missing */
    struct df_mutex lock;
    pthread_cond_t changed;
    bool tried DF_GUARDED_BY(lock);
    bool stopping DF_GUARDED_BY(lock);
    bool unfit DF_GUARDED_BY(lock); /* it was reached, and cannot be used as it is */
    struct df_err err DF_GUARDED_BY(lock);
};

/* --- metrics and log --- */

static _Atomic long reached_count, quarantined_count;

static void show(_Atomic bool *flag, _Atomic long *count, bool now)
{
    if (atomic_exchange(flag, now) == now)
        return;
    atomic_fetch_add(count, now ? 1 : -1);
    lock_show_servers((size_t)atomic_load(&reached_count), (size_t)atomic_load(&quarantined_count));
}

static void tell(const struct redis_server *s, enum df_log_level level, const char *event,
                 const char *message)
{
    struct df_log_field fields[] = {DF_F("server", df_str_c(s->url.address))};
    df_log_write(level, event, fields, 1, "%s", message);
}

static void note_quarantine(struct redis_server *s, bool now)
{
    if (now && !atomic_load(&s->quarantined))
        tell(s, DF_LOG_WARN, "LockServerQuarantined",
             "it has lost its memory, and takes no part until the longest lease is over");
    show(&s->quarantined, &quarantined_count, now);
}

/* --- asking --- */

static const char *key_of(const struct redis_server *s, const char *kind, const char *name,
                          char out[400])
{
    (void)snprintf(out, 400, "%.100s:%s:%s%s", s->opt.locks->settings.redis_prefix,
                   s->opt.registry->installation.text, kind, name);
    return out;
}

/* The script's answer: {number, text}. */
static enum df_code run_script(struct redis_server *s, enum lock_op op,
                               const struct lock_want *want, int64_t *ret, char *ret_text,
                               size_t size, struct df_err *err)
{
    const struct df_locks_settings *set = &s->opt.locks->settings;
    char mark[400], out[400], lock[400], longest[24], ttl[24];
    redisReply *r = NULL;

    *ret = 0;
    (void)snprintf(longest, sizeof longest, "%lld",
                   (long long)atomic_load(&s->opt.registry->longest_ms));
    (void)snprintf(ttl, sizeof ttl, "%lld", (long long)set->lease_ms);
    const char *words[] = {"EVAL", script, "3", key_of(s, "server", "", mark),
                           key_of(s, "quarantine", "", out), key_of(s, "lock:", want->name, lock),
                           /* One that takes no locks leaves the marker alone. */
                           op == LOCK_OP_HELLO && !s->opt.locks->acquires ? "look" : op_names[op],
                           s->run_id, longest, atomic_load(&s->is_first) ? "1" : "0", want->value,
                           ttl};
    enum df_code code = redis_conn_ask(s->conn, words, sizeof words / sizeof words[0],
                                       set->redis_timeout_ms, &r, err);
    if (code != DF_OK || !r)
        return code;
    if (r->type == REDIS_REPLY_ARRAY && r->elements == 2 &&
        r->element[0]->type == REDIS_REPLY_INTEGER && r->element[1]->type == REDIS_REPLY_STRING) {
        *ret = r->element[0]->integer;
        (void)snprintf(ret_text, size, "%.*s", (int)r->element[1]->len, r->element[1]->str);
    } else {
        code = df_err_set(err, DF_E_NET, "Redis %s: an unknown answer", s->url.address);
    }
    freeReplyObject(r);
    return code;
}

static void disconnect(struct redis_server *s, const struct df_err *err)
{
    bool was_reached = atomic_load(&s->reached);

    redis_conn_close(s->conn);
    s->conn = NULL;
    show(&s->reached, &reached_count, false);
    note_quarantine(s, false);
    if (err && was_reached)
        tell(s, DF_LOG_WARN, "LockServerAway", err->detail);
}

/* Asks the server; DF_OK: *ret is its answer. Otherwise it is away. */
static enum df_code ask_now(struct redis_server *s, enum lock_op op, const struct lock_want *want,
                            int64_t *ret, char holder[LOCK_VALUE_LEN + 1])
{
    struct df_err err = DF_ERR_INIT;
    enum df_code code = run_script(s, op, want, ret, holder, LOCK_VALUE_LEN + 1, &err);

    if (code != DF_OK)
        disconnect(s, &err);
    else if (op == LOCK_OP_HELLO || op == LOCK_OP_ACQUIRE)
        note_quarantine(s, *ret == 2);
    return code;
}

static void answer_away(struct lock_call *call, size_t nth)
{
    lock_call_answer(call, nth, &(struct lock_reply){.answer = LOCK_AWAY});
}

static void answer_question(struct redis_server *s, const struct question *q)
{
    char holder[LOCK_VALUE_LEN + 1] = "";
    int64_t said = 0;

    if (!s->conn || df_boot_ms(s->opt.locks->clock) >= q->call->until_ms ||
        ask_now(s, q->call->op, &q->call->want, &said, holder) != DF_OK) {
        answer_away(q->call, q->nth);
        return;
    }
    lock_call_answer(q->call, q->nth,
                     &(struct lock_reply){.answer = said == 1   ? LOCK_YES
                                                    : said == 0 ? LOCK_NO
                                                                : LOCK_AWAY,
                                          .missing = said == 0 && holder[0] == '\0',
                                          .holder = holder});
}

/* --- connecting --- */

static enum df_code check_fit(const struct redis_server *s, const struct df_redis_facts *facts,
                              struct df_err *err)
{
    if (facts->evicts)
        return df_err_set(err, DF_E_CONFIG,
                          "Redis %s: maxmemory-policy is %s, and would drop locks when memory is "
                          "full: set it to noeviction (CONFIG SET maxmemory-policy noeviction)",
                          s->url.address, facts->policy);
    if (facts->is_replica)
        return df_err_set(err, DF_E_CONFIG,
                          "Redis %s is a replica: redis.urls must name independent servers",
                          s->url.address);
    return DF_OK;
}

static enum df_code connect_server(struct redis_server *s, struct df_err *err)
{
    static const struct lock_want nothing;
    char text[LOCK_VALUE_LEN + 1];
    struct df_redis_facts facts;
    int64_t said = 0;

    enum df_code code = redis_conn_open(&s->url, CONNECT_MS, &s->conn, err);
    if (code == DF_OK)
        code = redis_conn_info(s->conn, CONNECT_MS, &facts, s->run_id, err);
    if (code == DF_OK)
        code = check_fit(s, &facts, err);
    if (code == DF_OK)
        code = run_script(s, LOCK_OP_HELLO, &nothing, &said, text, sizeof text, err);
    if (code == DF_OK)
        note_quarantine(s, said == 2);
    return code;
}

/* Tells of the outcome if it is another one than before. */
static void try_to_connect(struct redis_server *s)
{
    struct df_err err = DF_ERR_INIT;
    enum df_code code = connect_server(s, &err);

    if (code != DF_OK)
        disconnect(s, NULL);
    else
        show(&s->reached, &reached_count, true);
    df_lock(&s->lock);
    bool news = s->tried ? (code == DF_OK) != (s->err.code == DF_OK) : code != DF_OK;
    s->unfit = code == DF_E_CONFIG;
    s->err = err;
    s->tried = true;
    pthread_cond_broadcast(&s->changed);
    df_unlock(&s->lock);
    if (news)
        tell(s, code == DF_OK ? DF_LOG_INFO : DF_LOG_WARN,
             code == DF_OK ? "LockServerBack" : "LockServerAway",
             code == DF_OK ? "it can be reached" : err.detail);
}

/* --- the thread --- */

static bool wait_to_retry(struct redis_server *s)
{
    int64_t until_ms = df_mono_ms(df_clock_real()) + RETRY_MS, left_ms;

    df_lock(&s->lock);
    while (!s->stopping && (left_ms = until_ms - df_mono_ms(df_clock_real())) > 0)
        (void)df_cond_wait_ms(&s->changed, &s->lock, left_ms);
    bool stopping = s->stopping;
    df_unlock(&s->lock);
    return !stopping;
}

static void look_at_server(struct redis_server *s)
{
    static const struct lock_want nothing;
    char holder[LOCK_VALUE_LEN + 1];
    int64_t said;

    (void)ask_now(s, LOCK_OP_HELLO, &nothing, &said, holder);
}

static bool is_stopping(struct redis_server *s)
{
    df_lock(&s->lock);
    bool stopping = s->stopping;
    df_unlock(&s->lock);
    return stopping;
}

/* At the end, what is in the queue is asked while the server is there. One that is away is not
 * dialled for each of them, which would take minutes: what was given there ends with its lease. */
static void serve(void *arg)
{
    struct redis_server *s = arg;
    void *item = NULL;

    for (;;) {
        bool stopping = is_stopping(s);
        if (!s->conn && !stopping)
            try_to_connect(s);
        if (!s->conn && !stopping && wait_to_retry(s))
            continue;
        if (df_queue_pop(&s->queue, &item, 1, LOOK_MS) > 0) {
            struct question *q = item;
            answer_question(s, q);
            free(q);
        } else if (df_queue_closed(&s->queue)) {
            return;
        } else if (s->conn) {
            look_at_server(s);
        }
    }
}

/* --- the server, as RedLock sees it --- */

static void redis_ask(struct lock_server *base, struct lock_call *call, size_t nth)
{
    struct redis_server *s = (struct redis_server *)base;

    if (atomic_load(&s->reached) || call->op == LOCK_OP_DROP) {
        struct question *q = df_calloc(1, sizeof *q);
        *q = (struct question){.call = call, .nth = nth};
        if (df_queue_push(&s->queue, q))
            return;
        free(q);
    }
    answer_away(call, nth);
}

static bool redis_serves(struct lock_server *base)
{
    struct redis_server *s = (struct redis_server *)base;
    return atomic_load(&s->reached) && !atomic_load(&s->quarantined);
}

static void redis_free(struct lock_server *base)
{
    struct redis_server *s = (struct redis_server *)base;

    df_lock(&s->lock);
    s->stopping = true;
    pthread_cond_broadcast(&s->changed);
    df_unlock(&s->lock);
    df_queue_close(&s->queue); /* what is in it is still answered: locks that were released */
    df_thread_join(&s->thread);
    disconnect(s, NULL);
    df_queue_release(&s->queue);
    pthread_cond_destroy(&s->changed);
    df_mutex_destroy(&s->lock);
    redis_url_wipe(&s->url);
    free(s);
}

static const struct lock_server_ops redis_ops = {
    .ask = redis_ask, .serves = redis_serves, .free = redis_free};

struct lock_server *redis_server_new(const struct redis_options *opt)
{
    struct redis_server *s = df_calloc(1, sizeof *s);
    struct df_err err = DF_ERR_INIT;

    s->base.ops = &redis_ops;
    s->opt = *opt;
    s->is_first = opt->registry->redis_is_new;
    enum df_code code = redis_url_nth(opt->locks->settings.redis_urls, opt->nth, &s->url, &err);
    assert(code == DF_OK); /* df_locks_check_settings has seen it */
    (void)code;
    df_mutex_init(&s->lock);
    df_cond_init(&s->changed);
    df_queue_init(&s->queue, QUEUE_SIZE);
    df_thread_start(&s->thread, "lock-server", serve, s);
    return &s->base;
}

enum df_code redis_server_first(struct lock_server *base, struct df_err *err)
{
    struct redis_server *s = (struct redis_server *)base;
    int64_t until_ms = df_mono_ms(df_clock_real()) + FIRST_MS, left_ms;

    df_lock(&s->lock);
    while (!s->tried && (left_ms = until_ms - df_mono_ms(df_clock_real())) > 0)
        (void)df_cond_wait_ms(&s->changed, &s->lock, left_ms);
    enum df_code code = s->unfit ? DF_E_CONFIG : DF_OK;
    if (code != DF_OK)
        *err = s->err;
    df_unlock(&s->lock);
    return code;
}

void redis_server_settled(struct lock_server *base)
{
    atomic_store(&((struct redis_server *)base)->is_first, false);
}
