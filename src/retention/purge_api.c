/* /admin/purge. A request is estimated, and run if it is little, by the purge's own thread, since
 * that takes many transactions. */
#include "access/handler.h"
#include "retention/purge.sql.h"
#include "retention/purge_private.h"

#include <stdio.h>

struct purge_call {
    struct df_work w; /* its arg is the purge */
    struct df_purge_request asked;
    struct df_purge_outcome outcome;
    struct df_uuid id;
};

/* --- POST --- */

/* False: the answer is set. */
static bool note_subject(struct df_work *w, struct df_input *in, enum df_code code,
                         const char *field, const struct df_err *err)
{
    if (code == DF_E_SUBJECT_AMBIGUOUS) {
        df_req_problem(w->req, err);
        return false;
    }
    if (code != DF_OK)
        df_input_error(in, field, "%s", err->detail);
    return true;
}

/* {"phone": …}, {"document": …} or {"email": …} */
static bool read_named(struct purge_call *c, struct df_input *in, const struct df_json *object)
{
    static const struct {
        const char *name;
        enum df_subject_kind kind;
    } kinds[] = {{"phone", DF_SUBJECT_PHONE},
                 {"document", DF_SUBJECT_DOCUMENT},
                 {"email", DF_SUBJECT_EMAIL}};
    struct df_err err = DF_ERR_INIT;
    struct df_json v;
    size_t found = 0;
    enum df_code code = DF_OK;

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!df_json_find(object, kinds[i].name, &v))
            continue;
        found++;
        if (v.type != DF_JSON_STRING || v.twice)
            code = df_err_set(&err, DF_E_VALIDATION, "must be one text");
        else
            code =
                df_subject_parse(c->w.access->keys, kinds[i].kind, v.text, &c->asked.subject, &err);
    }
    if (found != 1 || df_json_count(object) != 1)
        df_input_error(in, "subject", "must have exactly one of phone, document, email");
    else
        return note_subject(&c->w, in, code, "subject", &err);
    return true;
}

static bool read_subject(struct purge_call *c, struct df_input *in)
{
    struct df_err err = DF_ERR_INIT;
    struct df_json v;

    (void)df_json_find(in->object, "subject", &v);
    if (v.type == DF_JSON_OBJECT)
        return read_named(c, in, &v);
    if (v.type == DF_JSON_STRING)
        return note_subject(
            &c->w, in, df_subject_parse_any(c->w.access->keys, v.text, &c->asked.subject, &err),
            "subject", &err);
    df_input_error(in, "subject", "must be a text, or an object with phone, document or email");
    return true;
}

static bool is_given(const struct df_input *in, const char *name)
{
    struct df_json v;

    return df_json_find(in->object, name, &v) && v.type != DF_JSON_NULL;
}

static void read_batch_id(struct purge_call *c, struct df_input *in)
{
    struct df_str text = df_input_text(in, "batchId", 64, DF_REQUIRED);

    if (text.ptr && !df_uuid_parse(text, &c->asked.batch))
        df_input_error(in, "batchId", "must be a UUID");
}

static bool read_purge(struct df_work *w, struct df_input *in)
{
    static const char *const known[] = {"batchId", "clientId", "olderThanDays",
                                        "subject", "dryRun",   NULL};
    struct purge_call *c = (struct purge_call *)w;
    size_t given = 0;

    if (!df_input_json(in, w->req))
        return false;
    df_input_only(in, known);
    for (size_t i = 0; i <= DF_PURGE_SUBJECT; i++) {
        if (!is_given(in, known[i]))
            continue;
        given++;
        c->asked.kind = (enum df_purge_kind)i;
    }
    c->asked.dry_run = df_input_bool(in, "dryRun", false);
    if (given != 1) {
        df_input_error(in, "batchId",
                       "exactly one of batchId, clientId, olderThanDays and subject is needed");
        return true;
    }
    switch (c->asked.kind) {
    case DF_PURGE_BATCH:
        read_batch_id(c, in);
        break;
    case DF_PURGE_CLIENT:
        c->asked.client = df_input_text(in, "clientId", 64, DF_REQUIRED);
        break;
    case DF_PURGE_OLDER:
        c->asked.days = df_input_int(in, "olderThanDays", 0, DF_PURGE_DAYS_MAX, 0);
        break;
    case DF_PURGE_SUBJECT:
        return read_subject(c, in);
    }
    return true;
}

static void hand_over(struct df_work *w)
{
    struct df_purge *p = w->arg;

    if (!df_pool_push(&p->pool, w))
        df_work_fail(w, DF_E_BUSY, "Too many purges are being made.");
}

static void refuse(struct purge_call *c, const struct df_err *err)
{
    struct df_field_error fields[DF_PURGE_WAITING_MAX];
    const struct df_purge_outcome *o = &c->outcome;

    for (size_t i = 0; i < o->waiting_count; i++)
        fields[i] = (struct df_field_error){.field = df_str_c(o->waiting[i].place),
                                            .message = df_str_c(o->waiting[i].row)};
    df_req_problem_fields(c->w.req, err, fields, o->waiting_count);
}

static void write_outcome(struct purge_call *c)
{
    struct df_json_out *j = &c->w.json;
    const struct df_purge_outcome *o = &c->outcome;
    bool is_job = !c->asked.dry_run;

    df_json_open(j, '{');
    df_json_kv_bool(j, "dryRun", c->asked.dry_run);
    if (is_job) {
        df_json_kv_text(j, "jobId", df_uuid_str(&o->id));
        df_json_kv_text(j, "state", o->done ? DF_STR("Done") : DF_STR("Running"));
    }
    df_json_key(j, "counts");
    df_purge_counts_write(&o->counts, j);
    df_json_key(j, "skipped");
    df_purge_counts_write(&o->skipped, j);
    df_json_close(j, '}');
}

void purge_serve(void *arg, void *item)
{
    struct purge_call *c = item;
    struct df_work *w = &c->w;
    struct df_actor by = df_actor_of(w->req);
    struct df_err err = DF_ERR_INIT;
    char location[64 + DF_UUID_LEN];

    if (df_purge_run(arg, &c->asked, &by, &c->outcome, &err) != DF_OK) {
        if (c->outcome.waiting_count > 0)
            refuse(c, &err);
        else
            df_req_problem(w->req, &err);
        df_work_end(w);
        return;
    }
    write_outcome(c);
    if (!c->asked.dry_run && !c->outcome.done) {
        (void)snprintf(location, sizeof location, "/admin/purge/%s", c->outcome.id.text);
        df_req_add_header(w->req, "Location", df_str_c(location));
        w->status = 202;
    }
    df_req_answer(w->req, w->status, "application/json", &w->out);
    df_work_end(w);
}

static const struct df_handler post = {
    .size = sizeof(struct purge_call), .prepare = read_purge, .first = hand_over};

/* --- GET, DELETE --- */

static void write_job(void *arg, struct df_result *r)
{
    struct df_json_out *j = &((struct df_work *)arg)->json;
    struct df_str kind = df_col_text(r, purge_job_Kind);

    df_json_open(j, '{');
    df_json_kv_text(j, "jobId", df_col_text(r, purge_job_Id));
    df_json_kv_text(j, "kind", kind);
    df_json_kv_text(j, "target", df_col_text(r, purge_job_Target));
    df_json_kv_time(j, "before", df_col_time(r, purge_job_Cutoff));
    df_json_kv_text(j, "state", df_col_text(r, purge_job_State));
    df_json_key(j, "counts");
    df_json_raw(j, df_col_text(r, purge_job_CountsJson));
    df_json_key(j, "skipped");
    df_json_raw(j, df_col_text(r, purge_job_SkippedJson));
    df_json_kv_text(j, "createdBy", df_col_text(r, purge_job_CreatedBy));
    df_json_kv_time(j, "createdAt", df_col_time(r, purge_job_CreatedAt));
    df_json_kv_time(j, "updatedAt", df_col_time(r, purge_job_UpdatedAt));
    df_json_kv_time(j, "endedAt", df_col_time(r, purge_job_EndedAt));
    df_json_kv_text(j, "lastError", df_col_text(r, purge_job_LastError));
    df_json_close(j, '}');
}

static bool read_job_id(struct df_work *w, struct df_input *in)
{
    struct purge_call *c = (struct purge_call *)w;

    (void)in;
    if (df_uuid_parse(df_req_param(w->req, "id"), &c->id))
        return true;
    df_req_fail(w->req, DF_E_NOT_FOUND, "There is no such purge.");
    return false;
}

static enum df_code show_job(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct purge_call *c = (const struct purge_call *)w;
    bool found = false;
    enum df_code code = df_db_one(db, DF_Q(purge_job_get, .id = df_uuid(df_uuid_str(&c->id))),
                                  write_job, w, &found, err);

    if (code == DF_OK && !found)
        code = df_err_set(err, DF_E_NOT_FOUND, "There is no such purge.");
    return code;
}

static enum df_code list_jobs(struct df_db *db, struct df_work *w, struct df_err *err)
{
    enum df_code code = df_db_query_int(db, DF_Q0(purge_job_total), &w->page.total, err);

    if (code != DF_OK)
        return code;
    return df_work_page(
        w, db,
        DF_Q(purge_job_list, .limit = df_int(w->page.size), .offset = df_int(w->page.offset)),
        write_job, err);
}

static void note_running(void *arg, struct df_result *r)
{
    *(bool *)arg = df_col_null(r, purge_job_EndedAt);
}

/* The job ends before its next step; an erasure can't be stopped. */
static enum df_code cancel_job(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct purge_call *c = (const struct purge_call *)w;
    struct df_value id = df_uuid(df_uuid_str(&c->id));
    struct df_actor by = df_actor_of(w->req);
    int64_t changed = 0;
    bool running = false;
    enum df_code code =
        df_db_exec(db, DF_Q(purge_job_cancel, .now = df_time(w->now_ms), .id = id), &changed, err);

    if (code == DF_OK && changed > 0)
        code = df_audit_write(db, &by, "PurgeCancelled", df_uuid_str(&c->id), DF_STR_NULL,
                              DF_STR_NULL, w->now_ms, err);
    if (code != DF_OK || changed > 0)
        return code == DF_OK ? show_job(db, w, err) : code;
    code = df_db_one(db, DF_Q(purge_job_get, .id = id), note_running, &running, NULL, err);
    if (code != DF_OK)
        return code;
    return df_err_set(err, DF_E_CONFLICT,
                      running ? "The erasure of a person can't be stopped."
                              : "The purge has ended.");
}

static const struct df_handler get = {
    .size = sizeof(struct purge_call), .prepare = read_job_id, .run = show_job};
static const struct df_handler list = {.paged = true, .max_answer = 1 << 20, .run = list_jobs};
static const struct df_handler cancel = {.size = sizeof(struct purge_call),
                                         .writes = true,
                                         .status = 202,
                                         .prepare = read_job_id,
                                         .run = cancel_job};

#define ADMIN(method, path, body, h)                                                               \
    DF_ROUTE(method, "/admin/purge" path, body, DF_ACCESS_ADMIN, NULL, h)

const struct df_route df_purge_routes[] = {
    ADMIN("POST", "", DF_BODY_JSON, post),
    ADMIN("GET", "", DF_BODY_NONE, list),
    ADMIN("GET", "/{id}", DF_BODY_NONE, get),
    ADMIN("DELETE", "/{id}", DF_BODY_NONE, cancel),
    {.method = NULL},
};
