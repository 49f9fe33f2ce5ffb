#include "retention/purge_private.h"

#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "retention/erase.h"
#include "retention/purge.sql.h"
#include "json/write.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define IDLE_MS   2000
#define LEDGER_MS 60000
#define ERROR_MS  30000 /* before a job that failed is tried again */
#define DAY_MS    INT64_C(86400000)
#define AHEAD_MS  (INT64_C(2) * PURGE_AGAIN_MS) /* no honest lease reaches so far */
/* How long a request waits for its purge, and a command for a progress line. */
#define REQUEST_MS 20000
#define COMMAND_MS 1000

DF_METRIC_FAMILY(jobs_running) = {
    .name = "dataflow_purge_jobs",
    .help = "Purges that have not ended.",
    .type = DF_GAUGE,
};

struct df_purge *df_purge_new(const struct df_purge_options *opt)
{
    struct df_purge *p = df_calloc(1, sizeof *p);

    p->opt = *opt;
    p->ledger_rows = -1;
    df_metric_register(&jobs_running);
    df_pool_start(&p->pool, "purge", 1, 16, purge_serve, p);
    return p;
}

void df_purge_free(struct df_purge *p)
{
    if (!p)
        return;
    df_pool_release(&p->pool);
    free(p);
}

/* --- one job, to its end --- */

static int64_t sum_counts(const struct df_purge_counts *c)
{
    int64_t sum = 0;

    for (size_t i = 0; i < DF_PURGED_COUNT; i++)
        sum += c->n[i];
    return sum;
}

static enum df_code run_let_go(struct df_db *db, struct df_purge *p, struct purge_job *j, void *arg,
                               struct df_err *err)
{
    const struct df_err *why = arg;
    int64_t now_ms = df_wall_ms(p->opt.clock);

    return df_db_exec(db,
                      DF_Q(purge_job_let_go, .error = df_text(df_str_c(why->detail)),
                           .lease_until = df_time(now_ms + ERROR_MS),
                           .id = df_uuid(df_uuid_str(&j->id)), .fence = df_int(j->fence)),
                      NULL, err);
}

/* After an error: the row is as it was before the step, and somebody tries again later. */
static void let_go(struct df_purge *p, struct purge_job *j, struct df_err *why)
{
    struct df_err err = DF_ERR_INIT;

    df_log_warn("PurgeFailed", "purge %s is tried again later: %s", j->id.text, why->detail);
    if (purge_write(&(struct purge_tx){.p = p, .j = j, .run = run_let_go, .arg = why}, &err) !=
        DF_OK) /* the lease ends by itself */
        df_log_warn("PurgeFailed", "purge %s: %s", j->id.text, err.detail);
}

/* Between steps: somebody else may go on at once. */
static void leave_job(struct df_purge *p, struct purge_job *j)
{
    struct df_err err = DF_ERR_INIT;

    j->pause_ms = 1;
    if (purge_save(p, j, &err) != DF_OK && !j->is_lost)
        df_log_warn("PurgeFailed", "purge %s: %s", j->id.text, err.detail);
}

void df_purge_stop(struct df_purge *p)
{
    atomic_store(&p->stopping, true);
    df_pool_stop(&p->pool);
    if (p->current)
        leave_job(p, p->current);
    free(p->current);
    p->current = NULL;
}

static void log_end(const struct purge_job *j)
{
    struct df_log_field fields[] = {
        DF_F("jobId", df_uuid_str(&j->id)), DF_F("kind", df_str_c(purge_kind_name(j->kind))),
        DF_FI("removed", sum_counts(&j->counts)), DF_FI("skipped", sum_counts(&j->skipped))};

    df_log_write(DF_LOG_INFO, j->cancelling ? "PurgeCancelled" : "PurgeEnded", fields, 4, "%s", "");
}

/* Steps until the job is done, waits, is another's, or the time is over. */
static void work_on(struct df_purge *p, struct purge_job *j, int64_t most_ms)
{
    int64_t until_ms = df_mono_ms(df_clock_real()) + most_ms;

    while (!j->done && !j->is_lost && j->pause_ms == 0 && !atomic_load(&p->stopping) &&
           df_mono_ms(df_clock_real()) < until_ms) {
        struct df_err err = DF_ERR_INIT;
        if (purge_step(p, j, &err) != DF_OK) {
            let_go(p, j, &err);
            return;
        }
    }
    if (j->done)
        log_end(j);
    else if (!j->is_lost && j->pause_ms == 0)
        leave_job(p, j);
}

/* --- a request --- */

static void read_client_id(void *arg, struct df_result *r)
{
    struct purge_job *j = arg;

    (void)snprintf(j->target, sizeof j->target, DF_STR_FMT,
                   DF_STR_ARG(df_col_text(r, purge_client_Id)));
}

static enum df_code run_find_client(struct df_db *db, struct df_purge *p, struct purge_job *j,
                                    void *arg, struct df_err *err)
{
    const struct df_str *identifier = arg;
    bool found = false;
    enum df_code code = df_db_one(db, DF_Q(purge_client, .identifier = df_text(*identifier)),
                                  read_client_id, j, &found, err);

    (void)p;
    if (code == DF_OK && !found)
        code = df_err_set(err, DF_E_NOT_FOUND, "There is no such client.");
    return code;
}

/* What the request is about, as the job has it. */
static enum df_code name_target(struct df_purge *p, const struct df_purge_request *req,
                                struct purge_job *j, struct df_err *err)
{
    int64_t now_ms = df_wall_ms(p->opt.clock);
    struct df_str client = req->client;

    j->kind = req->kind;
    j->cutoff_ms = -1;
    switch (req->kind) {
    case DF_PURGE_BATCH:
        (void)snprintf(j->target, sizeof j->target, "%s", req->batch.text);
        break;
    case DF_PURGE_CLIENT:
        return purge_read(
            &(struct purge_tx){.p = p, .j = j, .run = run_find_client, .arg = &client}, err);
    case DF_PURGE_OLDER:
        (void)snprintf(j->target, sizeof j->target, "%lld", (long long)req->days);
        j->cutoff_ms = now_ms - req->days * DAY_MS;
        break;
    case DF_PURGE_SUBJECT:
        erase_target_write(&req->subject, j->target);
        j->cutoff_ms = now_ms;
        break;
    }
    return DF_OK;
}

struct look_up {
    const struct df_purge_request *req;
    const struct df_actor *by;
};

static enum df_code run_look_up(struct df_db *db, struct df_purge *p, struct purge_job *j,
                                void *arg, struct df_err *err)
{
    const struct look_up *l = arg;
    const struct df_subject *s = &l->req->subject;
    char hex[DF_SUBJECT_HEX], details[80];

    (void)j;
    df_subject_hex(s, hex);
    (void)snprintf(details, sizeof details, "{\"kind\":\"%s\",\"purge\":true}",
                   df_subject_kind_name(s->kind));
    return df_audit_write(db, l->by, "SubjectLookedUp", df_str_c(hex), DF_STR_NULL,
                          df_str_c(details), df_wall_ms(p->opt.clock), err);
}

/* Counts and a refusal tell where a person is named: as with any such question, the audit log has
 * it before the answer is looked for. */
static enum df_code audit_look_up(struct df_purge *p, struct purge_job *j,
                                  const struct df_purge_request *req, const struct df_actor *by,
                                  struct df_err *err)
{
    struct look_up l = {.req = req, .by = by};

    return purge_write(&(struct purge_tx){.p = p, .j = j, .run = run_look_up, .arg = &l}, err);
}

static enum df_code refuse_waiting(struct df_purge *p, struct purge_job *j,
                                   struct df_purge_outcome *ret, struct df_err *err)
{
    enum df_code code = erase_waiting(p, j, ret, err);

    if (code != DF_OK || ret->waiting_count == 0)
        return code;
    return df_err_set(err, DF_E_CONFLICT, "Documents that name the person are on their way.");
}

struct begin {
    const struct df_actor *by;
    bool is_little;
};

static enum df_code run_begin(struct df_db *db, struct df_purge *p, struct purge_job *j, void *arg,
                              struct df_err *err)
{
    const struct begin *b = arg;
    int64_t now_ms = df_wall_ms(p->opt.clock);
    char target[160], details[80];
    enum df_code code =
        purge_job_insert(db, j, now_ms, now_ms + (b->is_little ? PURGE_LEASE_MS : 0), err);

    if (code == DF_OK && j->kind == DF_PURGE_SUBJECT)
        code = ledger_insert(db, j, now_ms, err);
    if (code != DF_OK)
        return code;
    (void)snprintf(target, sizeof target, "%s/%s", purge_kind_name(j->kind), j->target);
    (void)snprintf(details, sizeof details, "{\"jobId\":\"%s\"}", j->id.text);
    return df_audit_write(db, b->by, "PurgeStarted", df_str_c(target), DF_STR_NULL,
                          df_str_c(details), now_ms, err);
}

/* Makes the job; whoever asked works on it if it is little. */
static enum df_code begin_job(struct df_purge *p, struct purge_job *j, const struct df_actor *by,
                              bool is_little, struct df_err *err)
{
    struct begin b = {.by = by, .is_little = is_little};

    j->id = df_uuid_v7(p->opt.clock);
    j->fence = 1;
    j->running = true;
    (void)snprintf(j->by, sizeof j->by, DF_STR_FMT, DF_STR_ARG(by->name));
    j->counts = j->skipped = (struct df_purge_counts){0};
    enum df_code code =
        purge_write(&(struct purge_tx){.p = p, .j = j, .run = run_begin, .arg = &b}, err);
    if (code == DF_OK && j->kind == DF_PURGE_SUBJECT)
        code = ledger_append(p, j, err);
    if (code == DF_OK)
        df_log_info("PurgeStarted", "purge %s, %s", j->id.text, purge_kind_name(j->kind));
    return code;
}

static void tell_outcome(const struct purge_job *j, struct df_purge_outcome *ret)
{
    ret->id = j->id;
    ret->done = j->done;
    /* An erasure between two passes. */
    ret->waits = !j->done && j->kind == DF_PURGE_SUBJECT && j->phase > 0 && !j->cursor[0] &&
                 sum_counts(&j->skipped) > 0;
    ret->counts = j->counts;
    ret->skipped = j->skipped;
}

enum df_code df_purge_run(struct df_purge *p, const struct df_purge_request *req,
                          const struct df_actor *by, struct df_purge_outcome *ret,
                          struct df_err *err)
{
    struct purge_job *j = df_calloc(1, sizeof *j);
    bool is_little = false;
    enum df_code code = name_target(p, req, j, err);

    if (code == DF_OK && j->kind == DF_PURGE_SUBJECT)
        code = audit_look_up(p, j, req, by, err);
    if (code == DF_OK)
        code = req->dry_run ? purge_estimate(p, j, err) : purge_is_little(p, j, &is_little, err);
    if (code == DF_OK && req->dry_run) {
        tell_outcome(j, ret);
        goto out;
    }
    if (code == DF_OK && j->kind == DF_PURGE_SUBJECT)
        code = refuse_waiting(p, j, ret, err);
    if (code != DF_OK)
        goto out;
    code = begin_job(p, j, by, is_little, err);
    if (code == DF_OK && is_little)
        work_on(p, j, REQUEST_MS);
    if (code == DF_OK)
        tell_outcome(j, ret);
out:
    free(j);
    return code;
}

/* --- jobs that nobody works on --- */

static enum df_code run_load(struct df_db *db, struct df_purge *p, struct purge_job *j, void *arg,
                             struct df_err *err)
{
    (void)p;
    return purge_job_load(db, arg, j, err);
}

static enum df_code run_take(struct df_db *db, struct df_purge *p, struct purge_job *j, void *arg,
                             struct df_err *err)
{
    const struct df_uuid *id = arg;
    int64_t now_ms = df_wall_ms(p->opt.clock), taken = 0;
    enum df_code code =
        df_db_exec(db,
                   DF_Q(purge_job_take, .lease_until = df_time(now_ms + PURGE_LEASE_MS),
                        .id = df_uuid(df_uuid_str(id)), .now = df_time(now_ms),
                        .ahead = df_time(now_ms + AHEAD_MS)),
                   &taken, err);

    if (code == DF_OK)
        code = purge_job_load(db, id, j, err);
    j->is_lost = code == DF_OK && taken == 0;
    j->told = j->counts;
    return code;
}

enum df_code df_purge_go_on(struct df_purge *p, const struct df_uuid *id,
                            struct df_purge_outcome *ret, struct df_err *err)
{
    struct purge_job *j = df_calloc(1, sizeof *j);
    struct df_uuid wanted = *id;
    struct purge_tx tx = {.p = p, .j = j, .run = run_take, .arg = &wanted};
    enum df_code code = purge_write(&tx, err);

    if (code == DF_OK && !j->is_lost && j->running)
        work_on(p, j, COMMAND_MS);
    tx.run = run_load;
    if (code == DF_OK)
        code = purge_read(&tx, err);
    if (code == DF_OK)
        tell_outcome(j, ret);
    free(j);
    return code;
}

struct due {
    struct df_uuid id;
    bool found;
    int64_t running;
};

static void read_due(void *arg, struct df_result *r)
{
    (void)df_uuid_parse(df_col_text(r, purge_job_due_Id), &((struct due *)arg)->id);
}

static enum df_code run_due(struct df_db *db, struct df_purge *p, struct purge_job *j, void *arg,
                            struct df_err *err)
{
    struct due *d = arg;
    int64_t now_ms = df_wall_ms(p->opt.clock);
    enum df_code code = df_db_query_int(db, DF_Q0(purge_job_running), &d->running, err);

    (void)j;
    d->found = false;
    if (code == DF_OK && d->running > 0)
        code = df_db_one(
            db, DF_Q(purge_job_due, .now = df_time(now_ms), .ahead = df_time(now_ms + AHEAD_MS)),
            read_due, d, &d->found, err);
    return code;
}

/* Takes up a job, if there is one. */
static enum df_code take_due(struct df_purge *p, struct df_err *err)
{
    struct due d = {0};
    enum df_code code = purge_read(&(struct purge_tx){.p = p, .run = run_due, .arg = &d}, err);

    if (code != DF_OK)
        return code;
    df_metric_set(df_metric_get(&jobs_running, NULL), (double)d.running);
    if (!d.found)
        return DF_OK;
    p->current = df_calloc(1, sizeof *p->current);
    code = purge_write(&(struct purge_tx){.p = p, .j = p->current, .run = run_take, .arg = &d.id},
                       err);
    if (code != DF_OK || p->current->is_lost || !p->current->running) {
        free(p->current);
        p->current = NULL;
    }
    return code;
}

/* The step's error is logged and kept in the row. */
static void step_current(struct df_purge *p)
{
    struct purge_job *j = p->current;
    struct df_err err = DF_ERR_INIT;
    enum df_code code = purge_step(p, j, &err);

    if (code != DF_OK)
        let_go(p, j, &err);
    if (j->done)
        log_end(j);
    if (code != DF_OK || j->done || j->is_lost || j->pause_ms > 0) {
        free(j);
        p->current = NULL;
    }
}

void df_purge_read_ledger(struct df_purge *p)
{
    struct df_err err = DF_ERR_INIT;

    if (ledger_sync(p, &err) != DF_OK)
        df_log_warn("PurgeFailed", "%s", err.detail);
}

int64_t df_purge_turn(struct df_purge *p)
{
    struct df_err err = DF_ERR_INIT;
    int64_t begun_ms = df_mono_ms(p->opt.clock);
    enum df_code code = DF_OK;

    if (begun_ms >= p->ledger_ms) {
        code = ledger_sync(p, &err);
        if (code == DF_OK)
            p->ledger_ms = begun_ms + LEDGER_MS;
    }
    if (code == DF_OK && !p->current)
        code = take_due(p, &err);
    if (code != DF_OK) {
        df_log_warn("PurgeFailed", "%s", err.detail);
        return DF_LOOP_FAILED;
    }
    if (!p->current)
        return IDLE_MS;
    step_current(p);
    return df_mono_ms(p->opt.clock) - begun_ms;
}
