/*
 * A worker: connects, looks at the table, works through batches (batch.c), waits, and after any
 * failure begins again. The first worker of a relay checks the table and makes the statements for
 * it; all workers do the rest.
 */
#include "base/mem.h"
#include "relay/relay_private.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/file.h>
#include <unistd.h>

#define STAND_BY_MS    1000
#define RECHECK_MS     2000
#define COUNT_MS       10000
#define COUNT_SHARE    100  /* counting what was given up takes at most a hundredth of the time */
#define PAUSE_MAX_MS   1000 /* longest pause while the breaker is open */
#define PAUSED_MS      1000 /* while a person has paused the relay */
#define IDLE_MS        1000 /* longest time between two calls of a sink's `idle` */
#define ROOM_MS        20   /* until other batches may have released their bytes */
#define BACKOFF_MIN_MS 200
#define BACKOFF_MAX_MS 10000

/* --- the table -------------------------------------------------------------------------------- */

/* The path is the same however the file's name and the table's are written. */
static int lock_path(const struct df_relay_settings *s, char *out, size_t size)
{
    const char *file = s->url + strlen("sqlite:");
    char *real = realpath(file, NULL);
    bool main = strncasecmp(s->table, "main.", strlen("main.")) == 0;
    int n = snprintf(out, size, "%s-relay-", real ? real : file);

    free(real);
    for (const char *c = s->table + (main ? strlen("main.") : 0); *c && n + 1 < (int)size; c++)
        out[n++] = *c == '/' ? '_' : (char)(*c >= 'A' && *c <= 'Z' ? *c + 32 : *c);
    if (n < (int)size)
        out[n] = '\0';
    return n + 1;
}

/*
 * SQLite: a lock on a file beside the database, which ends with the process that holds it. One
 * relay of a table works, the others stand by.
 */
static enum df_code take_table_lock(struct df_relay *r, bool *ret_taken, struct df_err *err)
{
    char path[4096];

    *ret_taken = r->dialect != DF_SQLITE || r->lock_fd >= 0;
    if (*ret_taken)
        return DF_OK;
    if (lock_path(r->s, path, sizeof path) >= (int)sizeof path)
        return df_err_set(err, DF_E_CONFIG, "the path of the lock file is too long: %.200s…", path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return df_err_errno(err, "cannot open the lock file %s", path);
    *ret_taken = flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (*ret_taken)
        r->lock_fd = fd;
    else
        close(fd);
    df_lock(&r->lock);
    bool logged = r->status.standing_by;
    r->status.standing_by = !*ret_taken;
    df_unlock(&r->lock);
    if (!*ret_taken && !logged) {
        struct df_log_field fields[] = {DF_F("relay", df_str_c(r->s->name))};
        df_log_write(DF_LOG_INFO, "RelayStandingBy", fields, 1,
                     "another relay has the table %s; this one takes over when it ends",
                     r->s->table);
    }
    return DF_OK;
}

static void log_complaints(const struct df_relay *r, enum df_log_level level, const char *event,
                           struct df_str complaints)
{
    while (complaints.len > 0) {
        struct df_str line;
        complaints = df_str_cut(complaints, '\n', &line);
        struct df_log_field fields[] = {DF_F("relay", df_str_c(r->s->name))};
        df_log_write(level, event, fields, 1, DF_STR_FMT, DF_STR_ARG(line));
    }
}

/* Only the first worker does this; the others wait for the statements. */
static enum df_code look_at_table(struct relay_worker *w, struct df_err *err)
{
    struct df_relay *r = w->relay;
    struct relay_table table;
    struct relay_shape *shape = df_calloc(1, sizeof *shape);
    struct df_buf complaints;

    df_buf_init(&complaints, 64 << 10);
    enum df_code code = relay_check(w->db, r->s, &table, &shape->sql, &complaints, err);
    if (code != DF_OK)
        free(shape);
    if (code == DF_OK) {
        shape->rows_lock = table.rows_lock;
        relay_table_release(&table);
        shape->users = 1;
        log_complaints(r, DF_LOG_WARN, "RelayIndexMissing", df_buf_str(&complaints));
        if (!shape->rows_lock && r->dialect != DF_SQLITE)
            df_log_warn("RelayRowsUnlocked",
                        "relay %s: this server does not keep rows locked that were read for "
                        "update (Babelfish): let one relay only work on %s",
                        r->s->name, r->s->table);
        df_log_info("RelayStarted", "relay %s: %s from %s, dispatcher %s", r->s->name, r->s->table,
                    r->status.source, r->dispatcher->name);
        df_lock(&r->lock);
        r->shape = shape;
        r->status.running = true;
        relay_problem(r, "%s", "");
        pthread_cond_broadcast(&r->changed);
        df_unlock(&r->lock);
        df_metric_set(r->up, 1);
    } else if (code == DF_E_CONFIG) {
        struct df_str first;
        (void)df_str_cut(df_buf_str(&complaints), '\n', &first);
        df_lock(&r->lock);
        bool known = df_str_eq(first, df_str_c(r->status.problem));
        relay_problem(r, DF_STR_FMT, DF_STR_ARG(first));
        df_unlock(&r->lock);
        if (!known)
            log_complaints(r, DF_LOG_ERROR, "RelayTableWrong", df_buf_str(&complaints));
    }
    df_buf_release(&complaints);
    return code;
}

/* Has the table checked afresh. */
static void forget_table(struct df_relay *r)
{
    df_lock(&r->lock);
    struct relay_shape *old = r->shape;
    r->shape = NULL;
    r->status.running = false;
    df_unlock(&r->lock);
    relay_shape_drop(old);
    df_metric_set(r->up, 0);
}

static void disconnect_worker(struct relay_worker *w)
{
    df_db_close(w->db);
    w->db = NULL;
    relay_shape_drop(w->shape);
    w->shape = NULL;
}

/* Takes the relay's current statements, unless the connection has prepared others. */
static bool take_shape(struct relay_worker *w)
{
    struct df_relay *r = w->relay;

    df_lock(&r->lock);
    struct relay_shape *shape = r->shape;
    bool same = shape == w->shape;
    if (shape && !same && !w->shape) {
        atomic_fetch_add(&shape->users, 1);
        w->shape = shape;
        same = true;
    }
    df_unlock(&r->lock);
    return shape && same;
}

/* --- the loop --------------------------------------------------------------------------------- */

/* Waits without the lock, and serves the heartbeats of the sink. */
static void sleep_a_while(struct df_relay *r, struct df_sink *sink, int64_t ms) DF_REQUIRES(r->lock)
{
    bool idle = r->dispatcher->idle && sink;

    (void)df_clock_wait_ms(r->opt.clock, &r->changed, &r->lock,
                           idle && ms > IDLE_MS ? IDLE_MS : ms);
    if (idle) {
        df_unlock(&r->lock);
        r->dispatcher->idle(sink);
        df_lock(&r->lock);
    }
}

static void pause_worker(struct relay_worker *w, int64_t ms)
{
    struct df_relay *r = w->relay;
    int64_t until_ms = df_mono_ms(r->opt.clock) + ms;
    int64_t left_ms;

    df_lock(&r->lock);
    while (!r->stopping && (left_ms = until_ms - df_mono_ms(r->opt.clock)) > 0)
        sleep_a_while(r, w->sink, left_ms);
    df_unlock(&r->lock);
}

/*
 * Waits until there may be something to do. One of the waiting workers is the lookout: it looks for
 * new rows after poll_ms, or when the relay is woken. When it leaves, the next one takes its place,
 * so there is a lookout as long as any worker is idle. The others wait until a full claim calls
 * them.
 */
static void wait_for_work(struct relay_worker *w)
{
    struct df_relay *r = w->relay;
    int64_t until_ms = 0;
    bool looks = false;

    df_lock(&r->lock);
    while (!r->stopping) {
        if (!looks && !r->looked_after) {
            looks = r->looked_after = true;
            until_ms = df_mono_ms(r->opt.clock) + r->s->poll_ms;
        }
        int64_t next_ms = r->again_ms > 0 && r->again_ms < until_ms ? r->again_ms : until_ms;
        int64_t left_ms = looks ? next_ms - df_mono_ms(r->opt.clock) : INT32_MAX;
        if (left_ms <= 0 || (looks && r->woken) || r->more > 0)
            break;
        sleep_a_while(r, w->sink, left_ms);
    }
    if (looks) {
        /* Who is woken before that time finds nothing that is due then: it is kept. */
        if (r->again_ms <= df_mono_ms(r->opt.clock))
            r->again_ms = 0;
        r->looked_after = r->woken = false;
        pthread_cond_broadcast(&r->changed);
    }
    if (r->more > 0)
        r->more--; /* one call, one worker */
    df_unlock(&r->lock);
}

static void recover_from(struct relay_worker *w, enum df_code code, const struct df_err *err)
{
    struct df_relay *r = w->relay;
    struct df_log_field fields[] = {DF_F("relay", df_str_c(r->s->name)),
                                    DF_F("code", df_str_c(df_code_name(code)))};

    if (!w->db || !df_db_alive(w->db) || df_code_retry(code) == DF_RETRY_NEVER)
        disconnect_worker(w);
    if (df_code_retry(code) == DF_RETRY_NEVER && code != DF_E_CONFIG)
        forget_table(r); /* a column may be gone */
    if (code != DF_E_CONFIG) {
        df_log_write(DF_LOG_WARN, "RelaySourceFailed", fields, 2, "%s", err->detail);
        df_lock(&r->lock);
        relay_problem(r, "%s", err->detail);
        df_unlock(&r->lock);
    }
    int64_t wait_ms = df_backoff_more(&w->backoff);
    pause_worker(w, code == DF_E_CONFIG ? RECHECK_MS : wait_ms);
}

/* Whether the worker is connected and has statements that fit the table. False: it has waited, or
 * made a step towards that; call again. */
static bool prepare_worker(struct relay_worker *w)
{
    struct df_relay *r = w->relay;
    struct df_err err = DF_ERR_INIT;
    bool taken = false;
    enum df_code code;

    if ((code = take_table_lock(r, &taken, &err)) != DF_OK) {
        recover_from(w, code, &err);
        return false;
    }
    if (!taken) {
        pause_worker(w, STAND_BY_MS);
        return false;
    }
    if (w->db && w->shape && take_shape(w)) {
        if (w->shape->rows_lock || w->index == 0)
            return true;
        pause_worker(w, STAND_BY_MS);
        return false;
    }
    if (w->shape)
        disconnect_worker(w); /* its prepared statements are out of date */
    if (!w->db && (code = relay_connect(r->s, &w->db, &err)) != DF_OK) {
        recover_from(w, code, &err);
        return false;
    }
    if (take_shape(w))
        return false; /* the next call finds it ready */
    if (w->index > 0) {
        pause_worker(w, STAND_BY_MS);
    } else if ((code = look_at_table(w, &err)) != DF_OK) {
        recover_from(w, code, &err);
    }
    return false;
}

/* Whether a person has paused the relay; also while that is not known yet. */
static bool is_paused(const struct df_relay *r) DF_REQUIRES(r->lock)
{
    return r->opt.shares_health && (!r->health.known || r->health.paused_ms > 0);
}

/* How many rows to claim; 0: none before *ret_wait_ms have passed. While the breaker is not closed
 * they are probes, of which its window says the number. */
static size_t claim_limit(struct relay_worker *w, int64_t *ret_wait_ms)
{
    struct df_relay *r = w->relay;
    struct df_breaker_snapshot s;

    df_breaker_snapshot(r->breaker, &s);
    w->probing = s.state != DF_BREAKER_CLOSED;
    df_lock(&r->lock);
    relay_note_breaker(r, &s);
    size_t n = r->room;
    int64_t shut_ms = r->shut_until_ms - df_mono_ms(r->opt.clock);
    bool paused = is_paused(r);
    df_unlock(&r->lock);
    *ret_wait_ms = paused ? PAUSED_MS : shut_ms > s.retry_ms ? shut_ms : s.retry_ms;
    if (paused || (w->probing && *ret_wait_ms > 0))
        return 0;
    if (w->probing)
        n = n < (size_t)s.window ? n : (size_t)s.window;
    return n > 0 ? n : 1;
}

/* Waits for the destination, or until a person resumes the relay. */
static void wait_for_target(struct relay_worker *w, int64_t ms)
{
    struct df_relay *r = w->relay;
    int64_t until_ms = df_mono_ms(r->opt.clock) + (ms < PAUSE_MAX_MS ? ms : PAUSE_MAX_MS);
    int64_t left_ms;

    df_lock(&r->lock);
    while (!r->stopping && (is_paused(r) || r->health.down_since_ms > 0) &&
           (left_ms = until_ms - df_mono_ms(r->opt.clock)) > 0)
        sleep_a_while(r, w->sink, left_ms);
    df_unlock(&r->lock);
}

static void count_waiting(struct relay_worker *w)
{
    struct df_relay *r = w->relay;
    int64_t now_ms = df_mono_ms(r->opt.clock);
    int64_t rows = 0;
    int64_t oldest_ms = -1;
    struct df_err err = DF_ERR_INIT;

    df_lock(&r->lock);
    bool due = r->counted_ms == 0 || now_ms - r->counted_ms >= COUNT_MS;
    if (due)
        r->counted_ms = now_ms;
    df_unlock(&r->lock);
    if (!due || relay_count(w->db, &w->shape->sql.waiting, &rows, &oldest_ms, &err) != DF_OK)
        return; /* the next claim reports what is wrong */
    df_lock(&r->lock);
    r->status.waiting = rows;
    r->status.oldest_ms = oldest_ms;
    df_unlock(&r->lock);
    double age = oldest_ms < 0 ? 0 : (double)(df_wall_ms(r->opt.clock) - oldest_ms) / 1e3;
    df_metric_set(r->waiting, (double)rows);
    df_metric_set(r->oldest, age > 0 ? age : 0);
}

/* The application's table has no index for this, so it is done while there are such rows, and the
 * longer it takes, the more seldom. */
static void count_failed(struct relay_worker *w)
{
    struct df_relay *r = w->relay;
    int64_t begun_ms = df_mono_ms(r->opt.clock);
    int64_t rows = 0;
    struct df_err err = DF_ERR_INIT;

    df_lock(&r->lock);
    bool due = r->status.failed != 0 && begun_ms >= r->count_failed_ms;
    int64_t given_up = r->status.given_up;
    if (due)
        r->count_failed_ms = INT64_MAX;
    df_unlock(&r->lock);
    if (!due)
        return;
    enum df_code code = relay_count(w->db, &w->shape->sql.failed, &rows, NULL, &err);
    int64_t now_ms = df_mono_ms(r->opt.clock);
    int64_t pause_ms = COUNT_SHARE * (now_ms - begun_ms);
    df_lock(&r->lock);
    r->count_failed_ms = now_ms + (pause_ms > COUNT_MS ? pause_ms : COUNT_MS);
    if (code == DF_OK && given_up == r->status.given_up) { /* else another worker has just added */
        r->status.failed = rows;
        df_metric_set(r->failed, (double)rows);
    }
    if (r->status.failed == 0) {
        r->status.failed_since_ms = r->status.failed_at_ms = 0;
        r->status.failed_error[0] = '\0';
    }
    df_unlock(&r->lock);
}

/* Calls another worker, if there is one. */
static void call_another(struct df_relay *r)
{
    df_lock(&r->lock);
    if (r->more + 1 < r->worker_count) {
        r->more++;
        pthread_cond_broadcast(&r->changed);
    }
    df_unlock(&r->lock);
}

/* False: the relay is stopping, nothing is claimed any more. */
static bool begin_batch(struct df_relay *r, uint64_t *ret_wakes)
{
    df_lock(&r->lock);
    bool yes = !r->stopping;
    r->in_hand += yes;
    *ret_wakes = r->wakes;
    df_unlock(&r->lock);
    return yes;
}

/* served: the wake-ups before it, if it found all rows. */
static void end_batch(struct df_relay *r, bool recovered, uint64_t served)
{
    df_lock(&r->lock);
    assert(r->in_hand > 0);
    r->in_hand--;
    if (served > r->served)
        r->served = served;
    if (recovered)
        relay_problem(r, "%s", "");
    pthread_cond_broadcast(&r->changed);
    df_unlock(&r->lock);
}

/* One turn of a worker; it waits if there is nothing to do. */
static void worker_turn(struct relay_worker *w)
{
    struct df_relay *r = w->relay;
    struct df_err err = DF_ERR_INIT;
    struct relay_batch b;
    int64_t closed_ms = 0;

    if (!prepare_worker(w))
        return;
    count_waiting(w);
    count_failed(w);
    size_t limit = claim_limit(w, &closed_ms);
    if (limit == 0) {
        wait_for_target(w, closed_ms);
        return;
    }
    uint64_t wakes = 0;
    if (!begin_batch(r, &wakes))
        return;
    enum df_code code = relay_run_batch(w, limit, &b, &err);
    bool all = code == DF_OK && !b.full && !b.beyond && !b.waits;
    end_batch(r, code == DF_OK && w->backoff.now_ms > 0, all ? wakes : 0);
    if (code != DF_OK) {
        recover_from(w, code, &err);
        return;
    }
    df_backoff_reset(&w->backoff);
    if (b.full && limit == (size_t)r->s->batch)
        call_another(r);
    /* No wait if rows may be left: with chains the events behind a head may be due next, and a
     * claim that did not begin at the start has not seen the rows before it. */
    if (b.waits)
        pause_worker(w, ROOM_MS);
    else if (b.count > 0 && b.sent == 0)
        pause_worker(w, r->s->poll_ms); /* other workers send the breaker's probes */
    else if (!b.full && !b.beyond && !(w->shape->sql.has_follow && b.count > 0))
        wait_for_work(w);
}

static bool open_sink(struct relay_worker *w)
{
    struct df_relay *r = w->relay;
    struct df_err err = DF_ERR_INIT;

    if (r->dispatcher->open(&r->sink_options, &w->sink, &err) == DF_OK)
        return true;
    struct df_log_field fields[] = {DF_F("relay", df_str_c(r->s->name))};
    df_log_write(DF_LOG_ERROR, "RelayDispatcherFailed", fields, 1, "%s", err.detail);
    df_lock(&r->lock);
    relay_problem(r, "%s", err.detail);
    df_unlock(&r->lock);
    return false;
}

void relay_work(void *arg)
{
    struct relay_worker *w = arg;

    df_arena_init(&w->arena);
    w->backoff = (struct df_backoff){.min_ms = BACKOFF_MIN_MS, .max_ms = BACKOFF_MAX_MS};
    while (!relay_stopping(w->relay)) {
        if (w->sink || open_sink(w))
            worker_turn(w);
        else
            pause_worker(w, RECHECK_MS);
    }
    disconnect_worker(w);
    if (w->sink)
        w->relay->dispatcher->close(w->sink);
    df_arena_release(&w->arena);
}
