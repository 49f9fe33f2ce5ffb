/*
 * Receiving and the database: the policy's facts before the body is read, the row when the file is
 * on the disk. What limits a client is looked at again in the transaction that writes the row,
 * since others of its uploads may have ended meanwhile.
 */
#include "imports/batch_event.h"
#include "imports/receive/receive.sql.h"
#include "imports/receive/receive_private.h"
#include "net/field.h"
#include "webhooks/webhooks.h"

/* --- before the body --- */

static enum df_code find_earlier(struct df_db *db, struct df_receive *up, struct df_err *err)
{
    struct df_receive_earlier *e = &up->earlier;
    struct df_result *r = NULL;

    *e = (struct df_receive_earlier){.scheduled_for_ms = -1};
    if (!up->key.ptr)
        return DF_OK;
    enum df_code code =
        df_db_query(db, &df_q_receive_find_key,
                    DF_PARAMS(df_uuid(df_uuid_str(&up->client_id)), df_text(up->key)), &r, err);
    if (code == DF_OK)
        code = df_result_step(r, err);
    if (code == DF_ROW) {
        struct df_str sum = df_col_text(r, 1);
        e->found = df_uuid_parse(df_col_text(r, 0), &e->batch);
        memcpy(e->request_checksum, sum.ptr, sum.len <= DF_CHECKSUM_LEN ? sum.len : 0);
        e->scheduled = df_str_eq(df_col_text(r, 2), DF_STR("Scheduled"));
        e->scheduled_for_ms = df_col_time(r, 3);
    }
    df_result_free(r);
    return code == DF_ROW || code == DF_DONE ? DF_OK : code;
}

/* Only what has a limit is counted. */
static enum df_code count_usage(struct df_db *db, struct df_receive *up, int64_t now_ms,
                                struct df_err *err)
{
    struct df_policy_facts *f = &up->facts;
    const struct df_value client = df_uuid(df_uuid_str(&up->client_id));
    int64_t day_start, day_end;
    enum df_code code = DF_OK;

    f->now_ms = now_ms;
    f->batches_today = f->stored_bytes = 0;
    df_policy_day(f->zone, now_ms, &day_start, &day_end);
    if (up->policy.max_batch_per_day != DF_POLICY_NONE)
        code = df_db_query_int(db, &df_q_receive_count_since, DF_PARAMS(client, df_time(day_start)),
                               &f->batches_today, err);
    if (code == DF_OK && up->policy.temp_storage_quota_mb != DF_POLICY_NONE)
        code = df_db_query_int(db, &df_q_receive_stored_bytes, DF_PARAMS(client), &f->stored_bytes,
                               err);
    return code;
}

enum df_code df_receive_look_up(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct df_receive *up = df_req_state(w->req);
    enum df_code code = find_earlier(db, up, err);

    if (code == DF_OK && !up->earlier.found)
        code = df_policy_load(db, df_uuid_str(&up->client_id), &up->policy, err);
    if (code == DF_OK && !up->earlier.found)
        code = count_usage(db, up, df_wall_ms(up->receiver->opt->clock), err);
    return code;
}

/* --- the row --- */

/* Maintenance that has begun since, and uploads at a time, do not matter any more. */
static enum df_code check_again(struct df_db *db, struct df_receive *up, struct df_err *err)
{
    struct df_policy policy = up->policy;

    if (policy.max_batch_per_day == DF_POLICY_NONE &&
        policy.temp_storage_quota_mb == DF_POLICY_NONE)
        return DF_OK;
    enum df_code code = df_db_exec(db, &df_q_receive_lock_client,
                                   DF_PARAMS(df_uuid(df_uuid_str(&up->client_id))), NULL, err);
    if (code == DF_OK)
        code = count_usage(db, up, up->created_ms, err);
    if (code != DF_OK)
        return code;
    struct df_policy_facts facts = up->facts;
    policy.concurrent_uploads = DF_POLICY_NONE;
    policy.maintenance_window[0] = '\0';
    facts.policy = &policy;
    facts.maintenance = NULL;
    return df_policy_admit(&facts, &up->retry_after_s, err);
}

/* The caller's own name for it, if that can go into headers; else the request's. */
static struct df_str correlation_of(const struct df_receive *up)
{
    struct df_str own = df_upload_fields(up->upload)->correlation_id;

    return df_field_correlation_ok(own) ? own : df_req_correlation_id(up->req);
}

static enum df_code insert(struct df_db *db, const struct df_receive *up, struct df_err *err)
{
    const struct df_upload_fields *f = df_upload_fields(up->upload);
    bool later = up->decision.scheduled;

    return df_db_exec(
        db, &df_q_receive_insert,
        DF_PARAMS(df_uuid(df_uuid_str(&up->batch)), df_uuid(df_uuid_str(&up->client_id)),
                  df_int(later ? DF_BATCH_SCHEDULED : DF_BATCH_PENDING), df_text(f->file_name),
                  df_int(up->type), df_int((int64_t)up->size_bytes),
                  df_text(df_str_c(up->checksum)), df_text(df_str_c(up->location)),
                  df_text(later ? DF_STR("Scheduled") : DF_STR("Immediate")),
                  df_time(up->created_ms),
                  later ? df_time(up->decision.scheduled_for_ms) : df_null(DF_TIME),
                  df_text(f->origin_default), df_text(f->requested_by), df_text(f->metadata),
                  df_text(f->sheet), df_text(up->key), df_text(df_str_c(up->request_checksum)),
                  df_text(correlation_of(up)), df_text(df_req_trace_id(up->req))),
        NULL, err);
}

static enum df_code run_insert(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct df_receive *up = (struct df_receive *)job;

    up->created_ms = df_wall_ms(up->receiver->opt->clock);
    up->told = false;
    enum df_code code = check_again(db, up, err);
    if (code == DF_OK)
        code = insert(db, up, err);
    if (code == DF_OK && up->decision.scheduled)
        code =
            import_emit(db, up->receiver->opt->clock, &up->batch, "BatchScheduled", &up->told, err);
    return code;
}

static enum df_code run_find_earlier(struct df_db *db, struct df_job *job, struct df_err *err)
{
    return find_earlier(db, (struct df_receive *)job, err);
}

/*
 * A commit whose outcome is unknown may have gone well: the file stays then, and goes with the
 * orphans if there is no row for it. With a key it can be told at once. And with a key any failure
 * may come of another call's row: to be one too many today, say.
 */
enum df_code df_receive_commit(struct df_receive *up, struct df_err *err)
{
    struct df_store *store = up->receiver->opt->store;
    struct df_err other = DF_ERR_INIT;

    up->job = (struct df_job){.run = run_insert, .log = df_req_log(up->req)};
    enum df_code code = df_store_write_wait(store, &up->job, err);
    if (code == DF_OK && up->told)
        df_webhooks_wake(up->receiver->opt->webhooks);
    if (code == DF_OK || code == DF_E_DB_UNAVAILABLE || code == DF_E_DB_TIMEOUT)
        up->stored = false;
    if (code == DF_OK || !up->key.ptr)
        return code;
    up->job = (struct df_job){.run = run_find_earlier, .log = df_req_log(up->req)};
    if (df_store_read_wait(store, &up->job, &other) != DF_OK || !up->earlier.found)
        return code;
    return strcmp(up->earlier.batch.text, up->batch.text) == 0 ? DF_OK : DF_E_DB_UNIQUE;
}
