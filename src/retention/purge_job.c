/* The row of a job, and its transactions. */
#include "base/metrics.h"
#include "retention/purge.sql.h"
#include "retention/purge_private.h"
#include "json/doc.h"
#include "json/write.h"

#include <stdio.h>

#define COUNTS_MAX ((size_t)4096)
#define GROUP_MAX  ((size_t)PURGE_GROUP_MAX * 512)

static const char *const purged_names[DF_PURGED_COUNT] = {
    [DF_PURGED_BATCHES] = "ImportBatch",
    [DF_PURGED_ITEMS] = "ImportItem",
    [DF_PURGED_CHUNKS] = "ImportChunk",
    [DF_PURGED_KEPT] = "ImportKept",
    [DF_PURGED_DELIVERIES] = "WebhookDeliveries",
    [DF_PURGED_FAILURES] = "WebhookDeliveryFailures",
    [DF_PURGED_ATTEMPTS] = "DeliveryAttempts",
    [DF_PURGED_TICKETS] = "TB_TICKET_INTERFACE",
    [DF_PURGED_RETURNS] = "TB_TICKET_RETURN_OUTBOX",
    [DF_PURGED_ACKS] = "TB_FUNCTIONAL_ACK_OUTBOX",
    [DF_PURGED_COUNTERPARTIES] = "TB_COUNTERPARTIES",
    [DF_PURGED_EVENTS] = "outbox_events",
    [DF_PURGED_CALLS] = "IntegrationCalls",
    [DF_PURGED_FILES] = "files",
};

static const char *const kind_names[] = {[DF_PURGE_BATCH] = "batch",
                                         [DF_PURGE_CLIENT] = "client",
                                         [DF_PURGE_OLDER] = "older",
                                         [DF_PURGE_SUBJECT] = "subject"};

DF_METRIC_FAMILY(purged_total) = {
    .name = "dataflow_purged_total",
    .help = "Rows by table, and files, that purges removed; documents that they erased.",
    .type = DF_COUNTER,
    .labels = {"kind"},
};

const char *purge_kind_name(enum df_purge_kind kind)
{
    return kind_names[kind];
}

/* --- counts as JSON --- */

const char *df_purged_name(enum df_purged kind)
{
    return purged_names[kind];
}

void df_purge_counts_write(const struct df_purge_counts *c, struct df_json_out *out)
{
    df_json_open(out, '{');
    for (size_t i = 0; i < DF_PURGED_COUNT; i++)
        if (c->n[i] != 0)
            df_json_kv_int(out, purged_names[i], c->n[i]);
    df_json_close(out, '}');
}

static void read_counts(const struct df_json *object, struct df_purge_counts *ret)
{
    struct df_json v;

    *ret = (struct df_purge_counts){0};
    for (size_t i = 0; i < DF_PURGED_COUNT; i++)
        if (df_json_find(object, purged_names[i], &v))
            (void)df_json_to_i64(&v, &ret->n[i]);
}

static struct df_str counts_text(struct df_arena *a, const struct df_purge_counts *c)
{
    struct df_buf buf;
    struct df_json_out out;

    df_buf_init(&buf, COUNTS_MAX);
    df_json_out_init(&out, &buf);
    df_purge_counts_write(c, &out);
    struct df_str text = df_arena_str(a, df_buf_str(&buf));
    df_buf_release(&buf);
    return text;
}

/* [{"id": …, "counts": {…}}, …]; absent: no batch is in hand. */
static struct df_str group_text(struct df_arena *a, const struct purge_job *j)
{
    struct df_buf buf;
    struct df_json_out out;

    if (j->group_count == 0)
        return DF_STR_NULL;
    df_buf_init(&buf, GROUP_MAX);
    df_json_out_init(&out, &buf);
    df_json_open(&out, '[');
    for (size_t i = 0; i < j->group_count; i++) {
        df_json_open(&out, '{');
        df_json_kv_text(&out, "id", df_uuid_str(&j->group[i].id));
        df_json_key(&out, "counts");
        df_purge_counts_write(&j->group[i].counts, &out);
        df_json_close(&out, '}');
    }
    df_json_close(&out, ']');
    struct df_str text = df_arena_str(a, df_buf_str(&buf));
    df_buf_release(&buf);
    return text;
}

static void read_group(const struct df_json *list, struct purge_job *j)
{
    struct df_json_each each = df_json_each(list);
    struct df_json id, counts;

    j->group_count = 0;
    for (const struct df_json *v; (v = df_json_next(&each)) && j->group_count < PURGE_GROUP_MAX;) {
        struct purge_batch *b = &j->group[j->group_count];
        if (!df_json_find(v, "id", &id) || !df_uuid_parse(id.text, &b->id))
            continue;
        (void)df_json_find(v, "counts", &counts);
        read_counts(&counts, &b->counts);
        j->group_count++;
    }
}

void purge_count_metrics(const struct df_purge_counts *before, const struct df_purge_counts *now)
{
    for (size_t i = 0; i < DF_PURGED_COUNT; i++) {
        struct df_str kind = df_str_c(purged_names[i]);
        if (now->n[i] > before->n[i])
            df_metric_add(df_metric_get(&purged_total, &kind), (double)(now->n[i] - before->n[i]));
    }
}

/* --- the row --- */

enum df_code purge_job_insert(struct df_db *db, const struct purge_job *j, int64_t now_ms,
                              int64_t lease_until_ms, struct df_err *err)
{
    return df_db_exec(db,
                      DF_Q(purge_job_insert, .id = df_uuid(df_uuid_str(&j->id)),
                           .kind = df_text(df_str_c(purge_kind_name(j->kind))),
                           .target = df_text(df_str_c(j->target)),
                           .cutoff = j->cutoff_ms < 0 ? df_null(DF_TIME) : df_time(j->cutoff_ms),
                           .counts = df_text(DF_STR("{}")), .skipped = df_text(DF_STR("{}")),
                           .by = df_text(df_str_c(j->by)), .now = df_time(now_ms),
                           .lease_until = df_time(lease_until_ms)),
                      NULL, err);
}

/* {"jobId": …, "counts": {…}, "skipped": {…}} */
static enum df_code audit_end(struct df_db *db, const struct purge_job *j, int64_t now_ms,
                              struct df_err *err)
{
    const struct df_actor by = {.name = df_str_c(j->by)};
    struct df_buf details;
    struct df_json_out out;
    char target[160];

    df_buf_init(&details, 4 * COUNTS_MAX);
    df_json_out_init(&out, &details);
    df_json_open(&out, '{');
    df_json_kv_text(&out, "jobId", df_uuid_str(&j->id));
    df_json_kv_text(&out, "state", j->cancelling ? DF_STR("Cancelled") : DF_STR("Done"));
    df_json_key(&out, "counts");
    df_purge_counts_write(&j->counts, &out);
    df_json_key(&out, "skipped");
    df_purge_counts_write(&j->skipped, &out);
    df_json_close(&out, '}');
    (void)snprintf(target, sizeof target, "%s/%s", purge_kind_name(j->kind), j->target);
    enum df_code code =
        df_audit_write(db, &by, j->kind == DF_PURGE_SUBJECT ? "SubjectErased" : "PurgeEnded",
                       df_str_c(target), DF_STR_NULL, df_buf_str(&details), now_ms, err);
    df_buf_release(&details);
    return code;
}

static void read_state(void *arg, struct df_result *r)
{
    ((struct purge_job *)arg)->cancelling =
        df_str_eq(df_col_text(r, purge_job_state_State), DF_STR("Cancelling"));
}

enum df_code purge_job_save(struct df_db *db, struct purge_job *j, int64_t now_ms,
                            struct df_err *err)
{
    struct df_arena arena;
    struct df_str state = DF_STR_NULL, cursor = df_str_c(j->cursor);
    int64_t changed = 0;
    bool found = false;
    enum df_code code = df_db_one(db, DF_Q(purge_job_state, .id = df_uuid(df_uuid_str(&j->id))),
                                  read_state, j, &found, err);

    if (code != DF_OK)
        return code;
    if (j->done)
        state = j->cancelling ? DF_STR("Cancelled") : DF_STR("Done");
    df_arena_init(&arena);
    code = df_db_exec(
        db,
        DF_Q(purge_job_save, .state = df_text(state), .phase = df_int(j->phase),
             .cursor = df_text(cursor.len > 0 ? cursor : DF_STR_NULL),
             .group = df_text(group_text(&arena, j)),
             .counts = df_text(counts_text(&arena, &j->counts)),
             .skipped = df_text(counts_text(&arena, &j->skipped)), .error = df_null(DF_TEXT),
             .now = df_time(now_ms), .ended = j->done ? df_time(now_ms) : df_null(DF_TIME),
             .lease_until = df_time(now_ms + (j->pause_ms > 0 ? j->pause_ms : PURGE_LEASE_MS)),
             .id = df_uuid(df_uuid_str(&j->id)), .fence = df_int(j->fence)),
        &changed, err);
    df_arena_release(&arena);
    j->is_lost = code == DF_OK && changed == 0;
    if (j->is_lost)
        return df_err_set(err, DF_E_CANCELLED, "Another process works on the job.");
    return code == DF_OK && j->done ? audit_end(db, j, now_ms, err) : code;
}

static void copy_text(char *out, size_t size, struct df_str s)
{
    (void)snprintf(out, size, DF_STR_FMT, DF_STR_ARG(s));
}

static const struct df_json *parse_column(struct df_arena *a, struct df_str text)
{
    static const struct df_json none = {0};
    const struct df_json *doc = &none;
    struct df_err ignored = DF_ERR_INIT;

    if (!text.ptr || df_json_parse(a, df_arena_str(a, text), &doc, &ignored) != DF_OK)
        return &none;
    return doc;
}

static void read_job(void *arg, struct df_result *r)
{
    struct purge_job *j = arg;
    struct df_str kind = df_col_text(r, purge_job_Kind), state = df_col_text(r, purge_job_State);
    struct df_arena arena;

    df_arena_init(&arena);
    (void)df_uuid_parse(df_col_text(r, purge_job_Id), &j->id);
    for (size_t i = 0; i < sizeof kind_names / sizeof kind_names[0]; i++)
        if (df_str_eq(kind, df_str_c(kind_names[i])))
            j->kind = (enum df_purge_kind)i;
    copy_text(j->target, sizeof j->target, df_col_text(r, purge_job_Target));
    copy_text(j->by, sizeof j->by, df_col_text(r, purge_job_CreatedBy));
    copy_text(j->cursor, sizeof j->cursor, df_col_text(r, purge_job_CursorKey));
    j->cutoff_ms = df_col_time(r, purge_job_Cutoff);
    j->fence = df_col_int(r, purge_job_Fence);
    j->phase = df_col_int(r, purge_job_Phase);
    j->running = df_col_null(r, purge_job_EndedAt);
    j->cancelling = df_str_eq(state, DF_STR("Cancelling"));
    j->done = !j->running;
    read_counts(parse_column(&arena, df_col_text(r, purge_job_CountsJson)), &j->counts);
    read_counts(parse_column(&arena, df_col_text(r, purge_job_SkippedJson)), &j->skipped);
    read_group(parse_column(&arena, df_col_text(r, purge_job_GroupJson)), j);
    df_arena_release(&arena);
}

enum df_code purge_job_load(struct df_db *db, const struct df_uuid *id, struct purge_job *ret,
                            struct df_err *err)
{
    ret->pause_ms = 0;
    ret->is_lost = false;
    return df_db_one(db, DF_Q(purge_job_get, .id = df_uuid(df_uuid_str(id))), read_job, ret, NULL,
                     err);
}

/* --- transactions --- */

static enum df_code run_tx(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct purge_tx *tx = (struct purge_tx *)job;

    return tx->run(db, tx->p, tx->j, tx->arg, err);
}

enum df_code purge_write(struct purge_tx *tx, struct df_err *err)
{
    tx->job = (struct df_job){.run = run_tx};
    return df_store_write_wait(tx->p->opt.store, &tx->job, err);
}

enum df_code purge_read(struct purge_tx *tx, struct df_err *err)
{
    tx->job = (struct df_job){.run = run_tx};
    return df_store_read_wait(tx->p->opt.store, &tx->job, err);
}
