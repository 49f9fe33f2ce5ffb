/*
 * An upload that the policy refuses leaves a row, so that the client and the operator find it in
 * their lists: Failed, with PolicyDecision "Rejected", the rule, and the reason. A client that is
 * refused again and again gets one row for each rule and minute, with a count.
 *
 * The row is written after the answer, and only so many at a time wait for the store: under a flood
 * the count may be too low, and the answers are not held up.
 */
#include "base/personal.h"
#include "imports/receive/receive.sql.h"
#include "imports/receive/receive_private.h"

#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>

#define WAITING_MAX 64
#define MINUTE_MS   INT64_C(60000)

static _Atomic int waiting; /* for the store; of all receivers, since it outlives them */

struct refusal {
    struct df_job job;
    struct df_arena arena;
    struct df_uuid batch;
    struct df_uuid client;
    struct df_str rule;
    struct df_str why;
    struct df_str file_name;
    struct df_str correlation_id;
    struct df_str trace_id;
    int64_t size_bytes;
    int64_t now_ms;
};

/* Whether the code is a refusal by the client's policy. */
static bool is_policy_refusal(enum df_code code)
{
    return code == DF_E_MAINTENANCE_WINDOW || code == DF_E_CONCURRENT_UPLOADS ||
           code == DF_E_MAX_FILE_SIZE || code == DF_E_MAX_BATCH_PER_DAY ||
           code == DF_E_TEMP_STORAGE_QUOTA;
}

static enum df_code count_refusal(struct df_db *db, const struct refusal *f, int64_t *ret,
                                  struct df_err *err)
{
    return df_db_exec(db,
                      DF_Q(refusal_count, .now = df_time(f->now_ms), .error = df_text(f->why),
                           .client_id = df_uuid(df_uuid_str(&f->client)), .rule = df_text(f->rule),
                           .since = df_time(f->now_ms - f->now_ms % MINUTE_MS)),
                      ret, err);
}

static enum df_code add_refusal(struct df_db *db, const struct refusal *f, struct df_err *err)
{
    return df_db_exec(
        db,
        DF_Q(refusal_insert, .id = df_uuid(df_uuid_str(&f->batch)),
             .client_id = df_uuid(df_uuid_str(&f->client)), .status = df_int(DF_BATCH_FAILED),
             .file_name = df_text(f->file_name), .file_size_bytes = df_int(f->size_bytes),
             .now = df_time(f->now_ms), .error = df_text(f->why), .rule = df_text(f->rule),
             .correlation_id = df_text(f->correlation_id), .trace_id = df_text(f->trace_id)),
        NULL, err);
}

/* The client's row is locked, so that replicas do not add a row each. */
static enum df_code run_refusal(struct df_db *db, struct df_job *job, struct df_err *err)
{
    const struct refusal *f = (const struct refusal *)job;
    int64_t counted = 0;

    enum df_code code = df_db_exec(
        db, DF_Q(receive_lock_client, .client_id = df_uuid(df_uuid_str(&f->client))), NULL, err);
    if (code == DF_OK)
        code = count_refusal(db, f, &counted, err);
    return code == DF_OK && counted == 0 ? add_refusal(db, f, err) : code;
}

static void end_refusal(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct refusal *f = (struct refusal *)job;

    if (code != DF_OK)
        df_log_warn("RefusalNotStored", "%s", err->detail);
    atomic_fetch_sub(&waiting, 1);
    df_arena_release(&f->arena);
    free(f);
}

/* The file's size by Content-Length, or as far as it came. */
static int64_t known_size(const struct df_receive *up)
{
    return (int64_t)up->size_bytes > up->facts.size_bytes ? (int64_t)up->size_bytes
                                                          : up->facts.size_bytes;
}

void df_receive_refused(const struct df_receive *up, const struct df_err *err)
{
    struct df_receiver *r = up->receiver;
    const struct df_upload_fields *fields = df_upload_fields(up->upload);

    if (!is_policy_refusal(err->code))
        return;
    if (atomic_fetch_add(&waiting, 1) >= WAITING_MAX) {
        atomic_fetch_sub(&waiting, 1);
        return;
    }
    struct refusal *f = df_calloc(1, sizeof(*f));
    df_arena_init(&f->arena);
    f->job = (struct df_job){.run = run_refusal, .done = end_refusal};
    f->batch = up->batch;
    f->client = up->client_id;
    f->rule = df_str_c(df_code_name(err->code));
    f->why = df_mask_note(df_str_c(err->detail), SIZE_MAX, &f->arena);
    f->file_name =
        fields->file_name.ptr ? df_mask_note(fields->file_name, SIZE_MAX, &f->arena) : DF_STR("");
    f->correlation_id = df_arena_str(&f->arena, df_req_correlation_id(up->req));
    f->trace_id = df_arena_str(&f->arena, df_req_trace_id(up->req));
    f->size_bytes = known_size(up);
    f->now_ms = df_wall_ms(r->opt->clock);
    if (!df_store_write(r->opt->store, &f->job))
        end_refusal(&f->job, DF_OK, err);
}
