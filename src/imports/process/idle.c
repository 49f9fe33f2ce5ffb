/*
 * How idle workers learn of work, and what waits for them.
 *
 * Without a queue they look every poll_ms. With one (announce.h) a message has them look, and they
 * look by themselves only every backstop_ms, or when something is due that the last look found: a
 * scheduled batch, or one that waits for OmniFlow. While there are batches that were not taken they
 * look several times in a lease: an owner may have died, or the locks may have been away. While the
 * broker is away they poll.
 *
 * A message is taken from the broker only while a worker is idle, and acknowledged after a look
 * that began later has ended (`asked`, `tried`). By then the batch that it tells of is in work, or
 * whoever keeps it from being taken looks when that is over.
 */
#include "base/metrics.h"
#include "imports/announce.h"
#include "imports/process/process.sql.h"
#include "imports/process/process_private.h"

#define LOOKS_A_LEASE  6
#define BACKLOG_SHARE  20    /* counting takes no more than this part of the time, */
#define BACKLOG_MAX_MS 60000 /* but is no older than this */

DF_METRIC_FAMILY(backlog_batches) = {
    .name = "dataflow_backlog_batches",
    .help = "Batches that wait to be worked on. Counted every 5 s by processes with the "
            "role api or maintain: take the maximum.",
    .type = DF_GAUGE,
};
DF_METRIC_FAMILY(backlog_chunks) = {
    .name = "dataflow_backlog_chunks",
    .help = "Chunks of batches that wait or are in work, roughly. Counted as "
            "dataflow_backlog_batches is: take the maximum.",
    .type = DF_GAUGE,
};
DF_METRIC_FAMILY(oldest_seconds) = {
    .name = "dataflow_oldest_batch_seconds",
    .help = "How long the batch waits that has waited longest; 0: none waits. Counted as "
            "dataflow_backlog_batches is: take the maximum.",
    .type = DF_GAUGE,
};

DF_METRIC_FAMILY(open_batches) = {
    .name = "dataflow_batches_open",
    .help = "Batches that are not over, by client and state: Pending, Scheduled, Processing. "
            "Counted as dataflow_backlog_batches is: take the maximum.",
    .type = DF_GAUGE,
    .labels = {"client_id", "status"},
};

void import_backlog_register(void)
{
    df_metric_register(&open_batches);
    df_metric_register(&backlog_batches);
    df_metric_register(&backlog_chunks);
    df_metric_register(&oldest_seconds);
}

/* --- messages --- */

static bool is_idle(const struct df_imports *i) DF_REQUIRES(i->lock)
{
    const struct import_batch *b;
    size_t busy = 0;

    DF_LIST_EACH (b, &i->working, link)
        busy += b->id.text[0] != '\0';
    return !i->stopping && busy < i->threads_running;
}

bool df_imports_is_idle(struct df_imports *i)
{
    df_lock(&i->lock);
    bool idle = is_idle(i);
    df_unlock(&i->lock);
    return idle;
}

bool df_imports_try(struct df_imports *i)
{
    df_lock(&i->lock);
    bool idle = is_idle(i);
    uint64_t mine = idle ? ++i->asked : 0;
    df_unlock(&i->lock);
    if (!idle)
        return false;
    df_loop_wake(&i->workers);
    df_lock(&i->lock);
    while (i->tried < mine && is_idle(i))
        df_cond_wait(&i->changed, &i->lock);
    bool tried = i->tried >= mine;
    df_unlock(&i->lock);
    return tried;
}

static void tell_idle_changed(const struct df_imports *i)
{
    if (i->opt.queue.idle_changed)
        i->opt.queue.idle_changed(i->opt.queue.arg);
}

uint64_t import_look_begins(struct df_imports *i)
{
    df_lock(&i->lock);
    uint64_t asked = i->asked;
    df_unlock(&i->lock);
    return asked;
}

void import_look_ended(struct df_imports *i, uint64_t asked, bool took)
{
    df_lock(&i->lock);
    if (asked > i->tried)
        i->tried = asked;
    pthread_cond_broadcast(&i->changed);
    df_unlock(&i->lock);
    if (took)
        tell_idle_changed(i);
}

void import_batch_ended(struct df_imports *i, bool gave_way)
{
    if (gave_way) {
        df_lock(&i->lock);
        i->gave_way_ms = df_mono_ms(i->opt.clock);
        df_unlock(&i->lock);
    }
    tell_idle_changed(i);
    if (i->opt.queue.announced)
        i->opt.queue.announced(i->opt.queue.arg);
}

/* --- waiting --- */

void import_look_found(struct df_imports *i, int64_t scheduled_ms, int64_t waiting_ms, bool open)
{
    df_lock(&i->lock);
    i->outlook = (struct import_outlook){scheduled_ms, waiting_ms, open};
    df_unlock(&i->lock);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t import_idle_ms(struct df_imports *i)
{
    const struct df_imports_settings *s = &i->opt.settings;
    int64_t now_ms = df_wall_ms(i->opt.clock), mono_ms = df_mono_ms(i->opt.clock);
    int64_t wait_ms = s->backstop_ms;

    if (!i->opt.queue.is_connected || !i->opt.queue.is_connected(i->opt.queue.arg))
        return s->poll_ms;
    df_lock(&i->lock);
    struct import_outlook o = i->outlook;
    struct import_peer peer = i->peer;
    int64_t left_ms = i->gave_way_ms > 0 ? i->gave_way_ms + import_hand_over_ms(i) - mono_ms : 0;
    df_unlock(&i->lock);
    if (left_ms > 0)
        wait_ms = sooner(wait_ms, left_ms);
    if (o.open)
        wait_ms = sooner(wait_ms, df_locks_lease_ms(i->opt.locks) / LOOKS_A_LEASE);
    if (o.scheduled_ms >= 0)
        wait_ms = sooner(wait_ms, o.scheduled_ms - now_ms);
    if (o.waiting_ms >= 0) {
        int64_t probe_ms = o.waiting_ms + s->probe_ms - now_ms;
        int64_t away_ms = peer.away ? peer.probe_at_ms - mono_ms : 0;
        wait_ms = sooner(wait_ms, probe_ms > away_ms ? probe_ms : away_ms);
    }
    return wait_ms > s->poll_ms ? wait_ms : sooner(s->poll_ms, s->backstop_ms);
}

/* --- scheduled batches that are due --- */

struct due {
    struct df_job job;
    struct df_imports *i;
    int64_t scheduled_ms; /* wall, of the next; -1: none */
    int64_t made;
};

static void read_scheduled(void *arg, struct df_result *r)
{
    ((struct due *)arg)->scheduled_ms = df_col_time(r, scheduled_next_ScheduledFor);
}

static enum df_code run_scheduled(struct df_db *db, struct df_job *job, struct df_err *err)
{
    return df_db_one(db, DF_Q0(scheduled_next), read_scheduled, job, NULL, err);
}

static enum df_code run_due(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct due *d = (struct due *)job;
    return import_make_due(db, d->i, &d->made, err);
}

int64_t df_imports_due_turn(struct df_imports *i)
{
    struct due d = {.job = {.run = run_scheduled}, .i = i, .scheduled_ms = -1};
    struct df_err err = DF_ERR_INIT;

    if (i->opt.settings.queue == DF_QUEUE_POLL)
        return DF_LOOP_IDLE;
    enum df_code code = df_store_read_wait(i->opt.store, &d.job, &err);
    if (code == DF_OK && d.scheduled_ms >= 0 && d.scheduled_ms <= df_wall_ms(i->opt.clock)) {
        d.job = (struct df_job){.run = run_due};
        code = df_store_write_wait(i->opt.store, &d.job, &err);
    }
    if (code != DF_OK) {
        df_log_warn("DueBatchesFailed", "%s", err.detail);
        return DF_LOOP_FAILED;
    }
    if (d.made > 0)
        df_imports_wake(i);
    return i->opt.settings.poll_ms;
}

/* --- what waits --- */

struct backlog {
    struct df_job job;
    struct df_imports *i;
    int64_t batches;
    int64_t chunks;
    int64_t oldest_ms; /* wall; -1: none */
};

static void read_backlog(void *arg, struct df_result *r)
{
    struct backlog *l = arg;

    l->batches = df_col_int(r, backlog_Batches);
    l->chunks = df_col_int(r, backlog_Chunks);
    l->oldest_ms = df_col_time(r, backlog_Oldest);
}

static void read_open(void *arg, struct df_result *r)
{
    int64_t status = df_col_int(r, backlog_clients_Status);
    (void)arg;

    df_metric_tally(&open_batches,
                    (struct df_str[]){df_col_text(r, backlog_clients_ClientIdentifier),
                                      df_str_c(df_batch_status_name(status))},
                    (double)df_col_int(r, backlog_clients_Batches));
}

static enum df_code run_backlog(struct df_db *db, struct df_job *job, struct df_err *err)
{
    const struct df_imports_options *o = &((struct backlog *)job)->i->opt;
    enum df_code code = df_db_one(db,
                                  DF_Q(backlog, .batch_size = df_int(o->settings.batch_size),
                                       .now = df_time(df_wall_ms(o->clock))),
                                  read_backlog, job, NULL, err);

    df_metric_tally_end(&open_batches, false); /* of a run that failed */
    return code == DF_OK ? df_db_each(db, DF_Q0(backlog_clients), read_open, NULL, err) : code;
}

void df_imports_take_backlog(struct df_imports *i)
{
    struct backlog l = {.job = {.run = run_backlog}, .i = i, .oldest_ms = -1};
    struct df_err err = DF_ERR_INIT;

    int64_t begun_ms = df_mono_ms(i->opt.clock);
    if (begun_ms < i->backlog_ms)
        return;
    enum df_code code = df_store_read_wait(i->opt.store, &l.job, &err);
    int64_t now_ms = df_mono_ms(i->opt.clock);
    int64_t pause_ms = (now_ms - begun_ms) * BACKLOG_SHARE;
    i->backlog_ms = now_ms + (pause_ms < BACKLOG_MAX_MS ? pause_ms : BACKLOG_MAX_MS);
    df_metric_tally_end(&open_batches, code == DF_OK);
    if (code != DF_OK)
        return; /* whoever needs the database says so */
    int64_t age_ms = l.oldest_ms < 0 ? 0 : df_wall_ms(i->opt.clock) - l.oldest_ms;
    df_metric_set(df_metric_get(&backlog_batches, NULL), (double)l.batches);
    df_metric_set(df_metric_get(&backlog_chunks, NULL), (double)l.chunks);
    df_metric_set(df_metric_get(&oldest_seconds, NULL), age_ms > 0 ? (double)age_ms / 1e3 : 0);
}
