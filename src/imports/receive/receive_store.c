/*
 * Receiving and the database: reads the policy's facts before the body, and writes the row when the
 * file is on the disk. The client's limits are checked again in the transaction that writes the
 * row, since other uploads of the client may have ended meanwhile.
 */
#include "base/personal.h"
#include "imports/announce.h"
#include "imports/batch_event.h"
#include "imports/receive/receive.sql.h"
#include "imports/receive/receive_private.h"
#include "net/field.h"
#include "privacy/mask.h"
#include "privacy/subjects.h"
#include "webhooks/webhooks.h"

/* --- before the body --- */

static void read_earlier(void *arg, struct df_result *r)
{
    struct df_receive_earlier *e = arg;
    struct df_str sum = df_col_text(r, receive_find_key_RequestChecksum);

    e->found = df_uuid_parse(df_col_text(r, receive_find_key_Id), &e->batch);
    memcpy(e->request_checksum, sum.ptr, sum.len <= DF_CHECKSUM_LEN ? sum.len : 0);
    e->scheduled = df_str_eq(df_col_text(r, receive_find_key_PolicyDecision), DF_STR("Scheduled"));
    e->scheduled_for_ms = df_col_time(r, receive_find_key_ScheduledFor);
}

static enum df_code find_earlier(struct df_db *db, struct df_receive *up, struct df_err *err)
{
    up->earlier = (struct df_receive_earlier){.scheduled_for_ms = -1};
    if (!up->key.ptr)
        return DF_OK;
    return df_db_each(db,
                      DF_Q(receive_find_key, .client_id = df_uuid(df_uuid_str(&up->client_id)),
                           .idempotency_key = df_text(up->key)),
                      read_earlier, &up->earlier, err);
}

/* Counts only what the policy limits. */
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
        code = df_db_query_int(
            db, DF_Q(receive_count_since, .client_id = client, .since = df_time(day_start)),
            &f->batches_today, err);
    if (code == DF_OK && up->policy.temp_storage_quota_mb != DF_POLICY_NONE)
        code = df_db_query_int(db, DF_Q(receive_stored_bytes, .client_id = client),
                               &f->stored_bytes, err);
    return code;
}

static void read_kept_mapping(void *arg, struct df_result *r)
{
    struct df_receive *up = arg;

    up->kept_mapping =
        df_arena_str(df_req_arena(up->req), df_col_text(r, receive_mapping_MappingJson));
}

enum df_code df_receive_look_up(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct df_receive *up = df_req_state(w->req);
    enum df_code code = find_earlier(db, up, err);

    if (code == DF_OK && !up->earlier.found)
        code = df_policy_load(db, df_uuid_str(&up->client_id), &up->policy, err);
    if (code == DF_OK && !up->earlier.found)
        code = count_usage(db, up, df_wall_ms(up->receiver->opt->clock), err);
    if (code == DF_OK && !up->earlier.found)
        code =
            df_db_each(db, DF_Q(receive_mapping, .client_id = df_uuid(df_uuid_str(&up->client_id))),
                       read_kept_mapping, up, err);
    return code;
}

/* --- the mapping --- */

enum df_code df_receive_mapping(struct df_receive *up, struct df_mapping **ret, struct df_err *err)
{
    struct df_arena *a = df_req_arena(up->req);
    struct df_mapping *own = NULL, *kept = NULL;
    enum df_code code = df_mapping_load(a, df_upload_fields(up->upload)->mapping, &own, err);

    if (code == DF_OK)
        code = df_mapping_load(a, up->kept_mapping, &kept, err);
    *ret = code == DF_OK ? df_mapping_join(a, own, kept) : NULL;
    return code;
}

static enum df_code write_mapping(struct df_receive *up, struct df_str *ret, struct df_err *err)
{
    struct df_mapping *m;
    struct df_json_out out;
    struct df_buf text;
    enum df_code code = df_receive_mapping(up, &m, err);

    *ret = DF_STR_NULL;
    if (code != DF_OK || !m)
        return code;
    df_buf_init(&text, 2 * DF_MAPPING_BYTES);
    df_json_out_init(&out, &text);
    df_mapping_write(m, &out);
    *ret = df_arena_str(df_req_arena(up->req), df_buf_str(&text));
    df_buf_release(&text);
    return DF_OK;
}

/* --- the row --- */

/* Maintenance that has begun since and the number of uploads at a time do not matter any more. */
static enum df_code check_limits_again(struct df_db *db, struct df_receive *up, struct df_err *err)
{
    struct df_policy policy = up->policy;

    if (policy.max_batch_per_day == DF_POLICY_NONE &&
        policy.temp_storage_quota_mb == DF_POLICY_NONE)
        return DF_OK;
    enum df_code code =
        df_db_exec(db, DF_Q(receive_lock_client, .client_id = df_uuid(df_uuid_str(&up->client_id))),
                   NULL, err);
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

struct df_str df_receive_metadata_id(const struct df_receive *up)
{
    struct df_str own = df_upload_fields(up->upload)->correlation_id;

    return df_field_correlation_ok(own) && !df_text_is_personal(own) ? own : DF_STR_NULL;
}

/* Masked as items are. */
static struct df_str masked_metadata(const struct df_receive *up)
{
    const struct df_masker *m = up->receiver->opt->masker;
    struct df_str json = df_upload_fields(up->upload)->metadata;
    struct df_buf masked;

    if (!m || json.len == 0)
        return json;
    df_buf_init(&masked, DF_HASHED_GROWTH * json.len + DF_HASHED_GROWTH);
    df_mask_json(m, json, &masked);
    struct df_str text = df_arena_str(df_req_arena(up->req), df_buf_str(&masked));
    df_buf_release(&masked);
    return text;
}

static enum df_code insert_batch(struct df_db *db, struct df_receive *up, struct df_err *err)
{
    const struct df_upload_fields *f = df_upload_fields(up->upload);
    bool later = up->decision.scheduled;
    struct df_arena *a = df_req_arena(up->req);
    struct df_str mapping;
    enum df_code code = write_mapping(up, &mapping, err);

    if (code != DF_OK)
        return code;
    return df_db_exec(
        db,
        DF_Q(receive_insert, .id = df_uuid(df_uuid_str(&up->batch)),
             .client_id = df_uuid(df_uuid_str(&up->client_id)),
             .status = df_int(later ? DF_BATCH_SCHEDULED : DF_BATCH_PENDING),
             .file_name = df_text(f->file_name), .file_type = df_int(up->type),
             .file_size_bytes = df_int((int64_t)up->size_bytes),
             .checksum = df_text(df_str_c(up->checksum)),
             .upload_path = df_text(df_str_c(up->location)),
             .policy_decision = df_text(later ? DF_STR("Scheduled") : DF_STR("Immediate")),
             .now = df_time(up->created_ms),
             .scheduled_for = later ? df_time(up->decision.scheduled_for_ms) : df_null(DF_TIME),
             .origin_default = df_text(f->origin_default),
             .requested_by = df_text(df_mask_note(f->requested_by, SIZE_MAX, a)),
             .metadata = df_text(masked_metadata(up)), .sheet = df_text(f->sheet),
             .idempotency_key = df_text(up->key),
             .request_checksum = df_text(df_str_c(up->request_checksum)),
             .correlation_id = df_text(df_req_correlation_id(up->req)),
             .metadata_correlation_id = df_text(df_receive_metadata_id(up)),
             .trace_id = df_text(df_req_trace_id(up->req)),
             .trace_parent = df_text(df_trace_parent(df_req_trace(up->req))),
             .mapping = df_text(mapping),
             .rules = mapping.ptr ? df_int(DF_IMPORT_RULES_MAPPED) : df_null(DF_INT)),
        NULL, err);
}

/* Whom the upload's fields name; the file is read later. */
static enum df_code write_people(struct df_db *db, const struct df_receive *up, struct df_err *err)
{
    const struct df_upload_fields *f = df_upload_fields(up->upload);
    struct df_subject found[DF_SUBJECTS_MAX];
    struct df_subjects s = {.keys = up->receiver->opt->keys, .at = found, .max = DF_SUBJECTS_MAX};

    if (s.keys)
        df_subjects_add_batch(&s, f->metadata, f->requested_by, f->file_name);
    return df_subjects_write(db, "batch", df_uuid_str(&up->batch), s.at, s.count, true, err);
}

static enum df_code run_insert(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct df_receive *up = (struct df_receive *)job;

    up->created_ms = df_wall_ms(up->receiver->opt->clock);
    up->told = false;
    enum df_code code = check_limits_again(db, up, err);
    if (code == DF_OK)
        code = insert_batch(db, up, err);
    if (code == DF_OK)
        code = write_people(db, up, err);
    if (code == DF_OK && up->decision.scheduled)
        code =
            import_emit(db, up->receiver->opt->clock, &up->batch, "BatchScheduled", &up->told, err);
    else if (code == DF_OK)
        code = import_announce(db, up->receiver->imports, &up->batch, "new", err);
    return code;
}

static enum df_code run_find_earlier(struct df_db *db, struct df_job *job, struct df_err *err)
{
    return find_earlier(db, (struct df_receive *)job, err);
}

/*
 * A commit with unknown outcome may have succeeded, so the file stays; housekeeping removes it if
 * there is no row. With a key, the outcome can be found out at once. Also with a key, any failure
 * may be caused by the row of another call with that key, for example the daily limit.
 */
enum df_code df_receive_commit(struct df_receive *up, struct df_err *err)
{
    struct df_store *store = up->receiver->opt->store;
    struct df_err other = DF_ERR_INIT;

    up->job = (struct df_job){
        .run = run_insert, .log = df_req_log(up->req), .trace = df_req_trace(up->req)};
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
    if (strcmp(up->earlier.batch.text, up->batch.text) != 0)
        return DF_E_DB_UNIQUE;
    up->stored = false; /* the commit succeeded after all */
    return DF_OK;
}
