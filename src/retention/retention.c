#include "access/audit.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "retention/retention.sql.h"
#include "retention/retention_private.h"
#include "retention/rows.sqlt.h"
#include "json/write.h"

#include <stdlib.h>

#define RUN_EVERY_MS    (INT64_C(3600) * 1000)
#define LOOK_AGAIN_MS   (INT64_C(60) * 1000) /* whether another process has had its run */
#define EXTEND_MS       (INT64_C(600) * 1000)
#define REST_TIMES      4 /* the pause after a step, in times of its duration */
#define BATCHES_AT_ONCE 50
#define SPACE_WAIT_MS   100
#define SPACE_TRIES     50 /* while somebody else has the file */

struct df_retention {
    struct df_retention_options opt;
    bool running, has_run;
    int64_t begun_ms; /* monotonic */
    int64_t extended_ms;
    struct retention_walk walk;
    int64_t removed[RETENTION_KINDS];
    /* Batches that are being removed, one after the other. */
    struct df_uuid batches[BATCHES_AT_ONCE];
    size_t batch, batch_count;
    bool broken_off_seen; /* those whose removal did not end */
    struct df_removed from_batches;
    struct df_db *space; /* the connection that gives space back; NULL: not yet */
    bool gave_back;
    int space_tries;
    struct df_metric *removed_total[RETENTION_KINDS];
    struct df_metric *seconds, *last_run;
};

/* --- metrics --- */

DF_METRIC_FAMILY(removed_family) = {
    .name = "dataflow_retention_removed_total",
    .help = "Documents that retention removed, by kind.",
    .type = DF_COUNTER,
    .labels = {"kind"},
};
DF_METRIC_FAMILY(seconds_family) = {
    .name = "dataflow_retention_seconds",
    .help = "How long the last run of retention took.",
    .type = DF_GAUGE,
};
DF_METRIC_FAMILY(last_run_family) = {
    .name = "dataflow_retention_last_run_timestamp_seconds",
    .help = "When the last run of retention ended; 0: none since the start.",
    .type = DF_GAUGE,
};

struct df_retention *df_retention_new(const struct df_retention_options *opt)
{
    struct df_retention *r = df_calloc(1, sizeof *r);

    r->opt = *opt;
    r->walk.settings = &r->opt.settings;
    for (size_t i = 0; i < RETENTION_KINDS; i++) {
        struct df_str label = df_str_c(retention_kinds[i].name);
        r->removed_total[i] = df_metric_get(&removed_family, &label);
    }
    r->seconds = df_metric_get(&seconds_family, NULL);
    r->last_run = df_metric_get(&last_run_family, NULL);
    return r;
}

void df_retention_free(struct df_retention *r)
{
    if (!r)
        return;
    df_db_close(r->space);
    free(r);
}

/* --- whose turn it is --- */

struct turn_job {
    struct df_job job;
    int64_t now_ms;
    bool at_once;
    int64_t taken;
};

/* With at_once the run is taken whoever had it last. */
static enum df_code run_take(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct turn_job *t = (struct turn_job *)job;
    struct df_value name = df_text(DF_STR("retention"));
    enum df_code code =
        df_db_exec(db, DF_Q(maintenance_add, .name = name, .due = df_time(t->now_ms)), NULL, err);

    if (code != DF_OK)
        return code;
    return df_db_exec(db,
                      DF_Q(maintenance_take, .name = name, .due = df_time(t->now_ms + RUN_EVERY_MS),
                           .now = df_time(t->at_once ? t->now_ms + 2 * RUN_EVERY_MS : t->now_ms),
                           .ahead = df_time(t->now_ms + 2 * RUN_EVERY_MS)),
                      &t->taken, err);
}

static enum df_code take_turn(struct df_retention *r, bool at_once, bool *ret, struct df_err *err)
{
    struct turn_job t = {
        .job = {.run = run_take}, .now_ms = df_wall_ms(r->opt.clock), .at_once = at_once};
    enum df_code code = df_store_write_wait(r->opt.store, &t.job, err);

    *ret = code == DF_OK && t.taken > 0;
    return code;
}

/* --- removing rows --- */

/* Reads the next portion and moves the cursor behind it. */
static enum df_code pick_rows(struct retention_portion *p, struct df_retention *r, int64_t limit,
                              struct df_err *err)
{
    p->walk = &r->walk;
    p->limit = limit;
    enum df_code code = retention_read(r->opt.store, p, err);
    if (code == DF_OK)
        retention_move(&r->walk, p);
    return code;
}

struct dropping {
    struct df_job job;
    struct retention_portion *picked;
    struct df_value ids; /* of those that were over when they were read */
    int64_t dropped;
};

static void read_sure(void *arg, struct df_result *res)
{
    df_ids_add(arg, df_col_text(res, retention_sure_Id));
}

static void read_locked(void *arg, struct df_result *res)
{
    (void)arg;
    (void)res;
}

/* Those of `ids` that are still over, locked. */
static enum df_code find_sure(struct df_db *db, struct retention_portion *p, struct df_value ids,
                              struct df_value *ret, struct df_err *err)
{
    const struct retention_kind *k = retention_kind_of(p->walk);
    struct df_ids sure = df_ids_for(&p->arena, (size_t)p->over, k->key == DF_UUID);
    enum df_code code =
        df_db_each(db, DF_ANY(k->sure, {"ids", ids}, {"before", df_time(p->before_ms)}), read_sure,
                   &sure, err);

    *ret = df_ids_value(&sure);
    return code;
}

/* What is over is looked up again under its lock: a person may have retried it since it was read.
 * Where other rows hang on it, once more when those are locked too. */
static enum df_code run_drop(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct dropping *d = (struct dropping *)job;
    struct retention_portion *p = d->picked;
    const struct retention_kind *k = retention_kind_of(p->walk);
    struct df_value ids;
    enum df_code code = find_sure(db, p, d->ids, &ids, err);

    if (code == DF_OK && k->lock)
        code = df_db_each(db, DF_ANY(k->lock, {"ids", ids}), read_locked, NULL, err);
    if (code == DF_OK && k->lock)
        code = find_sure(db, p, ids, &ids, err);
    d->dropped = 0;
    for (size_t i = 0; code == DF_OK && i < DROPS_MAX && k->drops[i]; i++)
        code = df_db_exec(db, DF_ANY(k->drops[i], {"ids", ids}), &d->dropped, err);
    return code;
}

static void count_removed(struct df_retention *r, int64_t rows)
{
    r->removed[r->walk.kind] += rows;
    df_metric_add(r->removed_total[r->walk.kind], (double)rows);
}

static enum df_code step_rows(struct df_retention *r, struct df_err *err)
{
    struct retention_portion p = {.over = 0};

    df_arena_init(&p.arena);
    enum df_code code = pick_rows(&p, r, r->walk.portion, err);
    struct dropping d = {.job = {.run = run_drop}, .picked = &p, .dropped = 0};
    if (code == DF_OK && p.over > 0) {
        d.ids = df_ids_value(&p.ids);
        int64_t begun_ms = df_mono_ms(df_clock_real());
        code = df_store_write_wait(r->opt.store, &d.job, err);
        retention_adapt(&r->walk, df_mono_ms(df_clock_real()) - begun_ms);
    }
    if (code == DF_OK)
        count_removed(r, d.dropped);
    df_arena_release(&p.arena);
    return code;
}

/* --- batches --- */

struct broken_off {
    struct df_job job;
    struct df_retention *r;
};

static void read_broken_off(void *arg, struct df_result *res)
{
    struct df_retention *r = arg;

    if (df_uuid_parse(df_col_text(res, retention_removing_Id), &r->batches[r->batch_count]))
        r->batch_count++;
}

static enum df_code run_broken_off(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct df_retention *r = ((struct broken_off *)job)->r;

    r->batch = r->batch_count = 0;
    return df_db_each(db, DF_Q(retention_removing, .limit = df_int(BATCHES_AT_ONCE)),
                      read_broken_off, r, err);
}

static enum df_code pick_batches(struct df_retention *r, struct df_err *err)
{
    if (!r->broken_off_seen) {
        struct broken_off b = {.job = {.run = run_broken_off}, .r = r};
        enum df_code code = df_store_read_wait(r->opt.store, &b.job, err);
        r->broken_off_seen = code == DF_OK;
        if (code != DF_OK || r->batch_count > 0)
            return code;
    }
    struct retention_portion p = {.batches = r->batches};
    df_arena_init(&p.arena);
    enum df_code code = pick_rows(&p, r, BATCHES_AT_ONCE, err);
    r->batch = 0;
    r->batch_count = code == DF_OK ? (size_t)p.over : 0;
    df_arena_release(&p.arena);
    return code;
}

/* A batch whose removal fails is left for the next run; it keeps no other from being removed. */
static enum df_code step_batches(struct df_retention *r, struct df_err *err)
{
    const struct df_remove_options opt = {.store = r->opt.store,
                                          .storage = r->opt.storage,
                                          .clock = r->opt.clock,
                                          .keep_given_up = true,
                                          .step_rows = r->walk.portion};
    bool done = false;

    if (r->batch == r->batch_count)
        return pick_batches(r, err);
    int64_t begun_ms = df_mono_ms(df_clock_real());
    const struct df_uuid *batch = &r->batches[r->batch];
    enum df_code code = df_batch_remove_step(&opt, batch, &r->from_batches, &done, err);
    retention_adapt(&r->walk, df_mono_ms(df_clock_real()) - begun_ms);
    if (code == DF_OK && !done)
        return DF_OK;
    r->batch++;
    if (code == DF_OK)
        count_removed(r, 1);
    else if (code != DF_E_CONFLICT && code != DF_E_NOT_FOUND)
        df_log_warn("BatchNotRemoved", DF_STR_FMT ": %s", DF_STR_ARG(df_uuid_str(batch)),
                    err->detail);
    return DF_OK;
}

/* --- the audit log --- */

struct audit_step {
    struct df_job job;
    const struct df_retention *r;
    int64_t before_ms;
    int64_t removed;
};

static enum df_code run_audit_step(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct audit_step *s = (struct audit_step *)job;

    return df_audit_retain(db, s->before_ms, s->r->walk.portion, s->r->walk.now_ms, &s->removed,
                           err);
}

/* Entries go from the end of the chain, and a signed stub stands for them (access/audit.h). */
static enum df_code step_audit(struct df_retention *r, struct df_err *err)
{
    struct audit_step s = {.job = {.run = run_audit_step},
                           .r = r,
                           .before_ms = r->walk.now_ms - retention_kept_ms(&r->walk)};
    int64_t begun_ms = df_mono_ms(df_clock_real());
    enum df_code code = df_store_write_wait(r->opt.store, &s.job, err);

    r->walk.is_last = code == DF_OK && s.removed == 0;
    if (code == DF_OK)
        count_removed(r, s.removed);
    retention_adapt(&r->walk, df_mono_ms(df_clock_real()) - begun_ms);
    return code;
}

/* --- space --- */

/* SQLite only: pages that removed rows left free go back to the file system, then the log, which
 * still has what was in them. A connection of its own, since the store's are in transactions; it
 * waits for nobody for long. */
static enum df_code step_space(struct df_retention *r, struct df_err *err)
{
    const struct df_db_options opt = {
        .url = r->opt.url, .existing = true, .statement_timeout_ms = SPACE_WAIT_MS};
    int64_t left = 0;
    enum df_code code = DF_OK;

    if (!r->space)
        code = df_db_open(&opt, &r->space, err);
    if (code == DF_OK)
        code = df_db_give_back(r->space, DF_SPACE_STEP, &left, err);
    bool is_end = code == DF_OK && left == 0;
    if (is_end)
        code = df_db_give_back(r->space, DF_SPACE_LOG, &left, err);
    r->space_tries = code == DF_E_DB_CONFLICT ? r->space_tries + 1 : 0;
    r->gave_back =
        code == DF_E_DB_CONFLICT ? r->space_tries >= SPACE_TRIES : is_end || code != DF_OK;
    if (r->gave_back) {
        df_db_close(r->space);
        r->space = NULL;
    }
    /* Somebody else has the file: later, or with the next run. */
    return code == DF_E_DB_CONFLICT ? DF_OK : code;
}

static bool has_space(const struct df_retention *r)
{
    return df_store_dialect(r->opt.store) == DF_SQLITE;
}

/* --- the run --- */

static void begin_kind(struct df_retention *r, size_t kind)
{
    retention_begin(&r->walk, kind);
    r->broken_off_seen = false;
    r->batch = r->batch_count = 0;
}

static void begin_run(struct df_retention *r)
{
    r->running = r->has_run = true;
    r->gave_back = !has_space(r);
    r->space_tries = 0;
    r->walk.now_ms = df_wall_ms(r->opt.clock);
    r->begun_ms = r->extended_ms = df_mono_ms(r->opt.clock);
    memset(r->removed, 0, sizeof r->removed);
    r->from_batches = (struct df_removed){0};
    begin_kind(r, 0);
}

/* A step of the run; *ret_done after the last. */
static enum df_code step_run(struct df_retention *r, bool *ret_done, struct df_err *err)
{
    enum df_code code = DF_OK;

    while (r->walk.kind < RETENTION_KINDS &&
           (retention_kept_ms(&r->walk) == 0 || (r->walk.is_last && r->batch == r->batch_count)))
        begin_kind(r, r->walk.kind + 1);
    *ret_done = r->walk.kind == RETENTION_KINDS && r->gave_back;
    if (r->walk.kind == RETENTION_KINDS)
        return *ret_done ? DF_OK : step_space(r, err);
    code = retention_kind_of(&r->walk)->sure   ? step_rows(r, err)
           : retention_kind_of(&r->walk)->pick ? step_batches(r, err)
                                               : step_audit(r, err);
    if (code == DF_OK && df_mono_ms(r->opt.clock) - r->extended_ms > EXTEND_MS) {
        bool mine;
        r->extended_ms = df_mono_ms(r->opt.clock);
        code = take_turn(r, true, &mine, err);
    }
    return code;
}

static int64_t total_removed(const struct df_retention *r)
{
    int64_t sum = 0;

    for (size_t i = 0; i < RETENTION_KINDS; i++)
        sum += r->removed[i];
    return sum;
}

struct telling {
    struct df_job job;
    const struct df_retention *r;
    struct df_str details;
};

static enum df_code run_audit(struct df_db *db, struct df_job *job, struct df_err *err)
{
    const struct telling *t = (const struct telling *)job;
    const struct df_actor by = {.name = DF_STR("retention")};

    return df_audit_write(db, &by, "RetentionRan", DF_STR_NULL, DF_STR_NULL, t->details,
                          df_wall_ms(t->r->opt.clock), err);
}

static void write_counts(const struct df_retention *r, struct df_json_out *out)
{
    df_json_open(out, '{');
    for (size_t i = 0; i < RETENTION_KINDS; i++)
        if (r->removed[i] > 0)
            df_json_kv_int(out, retention_kinds[i].name, r->removed[i]);
    if (r->from_batches.items > 0)
        df_json_kv_int(out, "items", r->from_batches.items);
    if (r->from_batches.files > 0)
        df_json_kv_int(out, "files", r->from_batches.files);
    df_json_close(out, '}');
}

/* Tells of a run that removed something, in the audit log and in the log. */
static enum df_code tell_run(const struct df_retention *r, struct df_err *err)
{
    struct df_buf text;
    struct df_json_out out;

    if (total_removed(r) + r->from_batches.items == 0)
        return DF_OK;
    df_buf_init(&text, 4096);
    df_json_out_init(&out, &text);
    write_counts(r, &out);
    struct telling t = {.job = {.run = run_audit}, .r = r, .details = df_buf_str(&text)};
    enum df_code code = df_store_write_wait(r->opt.store, &t.job, err);
    struct df_log_field fields[] = {DF_FI("documents", total_removed(r)),
                                    DF_FI("batches", r->removed[0]),
                                    DF_FI("durationMs", df_mono_ms(r->opt.clock) - r->begun_ms)};
    df_log_write(DF_LOG_INFO, "RetentionRan", fields, 3, "removed what was over: " DF_STR_FMT,
                 DF_STR_ARG(t.details));
    df_buf_release(&text);
    return code;
}

static enum df_code end_run(struct df_retention *r, struct df_err *err)
{
    bool mine;

    r->running = false;
    df_metric_set(r->seconds, (double)(df_mono_ms(r->opt.clock) - r->begun_ms) / 1e3);
    df_metric_set(r->last_run, (double)df_wall_ms(r->opt.clock) / 1e3);
    enum df_code code = tell_run(r, err);
    return code == DF_OK ? take_turn(r, true, &mine, err) : code;
}

int64_t df_retention_turn(struct df_retention *r)
{
    struct df_err err = DF_ERR_INIT;
    int64_t begun_ms = df_mono_ms(df_clock_real());
    bool mine = true, done = false;
    enum df_code code = DF_OK;

    if (!r->running) {
        code = take_turn(r, !r->has_run, &mine, &err);
        if (code == DF_OK && !mine)
            return LOOK_AGAIN_MS;
        if (code == DF_OK)
            begin_run(r);
    }
    if (code == DF_OK)
        code = step_run(r, &done, &err);
    if (code == DF_OK && done)
        code = end_run(r, &err);
    if (code != DF_OK) {
        df_log_warn("RetentionFailed", "%s", err.detail);
        return DF_LOOP_FAILED;
    }
    int64_t took_ms = df_mono_ms(df_clock_real()) - begun_ms;
    return done ? LOOK_AGAIN_MS : REST_TIMES * (took_ms > 1 ? took_ms : 1);
}

enum df_code df_retention_run(struct df_retention *r, struct df_retention_count *ret,
                              size_t *ret_count, struct df_err *err)
{
    bool mine, done = false;
    enum df_code code = take_turn(r, true, &mine, err);

    if (code == DF_OK)
        begin_run(r);
    while (code == DF_OK && !done) {
        int64_t begun_ms = df_mono_ms(df_clock_real());
        code = step_run(r, &done, err);
        if (!done)
            df_sleep_ms(REST_TIMES * (df_mono_ms(df_clock_real()) - begun_ms));
    }
    if (code == DF_OK)
        code = end_run(r, err);
    for (size_t i = 0; i < RETENTION_KINDS; i++)
        ret[i] =
            (struct df_retention_count){.kind = retention_kinds[i].name, .rows = r->removed[i]};
    *ret_count = RETENTION_KINDS;
    return code;
}
