/* GET /imports, /imports/{batchId} and /imports/{batchId}/items: a client's own batches. */
#include "imports/api/batch_view.h"
#include "imports/api/batches.sql.h"
#include "imports/api/items.sql.h"
#include "imports/api/views.h"
#include "imports/batch.h"
#include "imports/imports.h"
#include "imports/policy.h"
#include "imports/routes.h"
#include "net/input.h"

#define ANSWER_MAX      ((size_t)128 << 20)
#define PAYLOAD_LONGEST 32768 /* characters of a payload in a page of items */

/* One call on its way. Lives in the request's arena. */
struct call {
    struct df_job job;
    struct df_req *req;
    struct df_uuid client;
    struct df_uuid id;
    int64_t status; /* -1: any */
    struct df_page page;
    struct df_buf out;
    struct df_json_out json;
};

static struct call *call_new(struct df_req *req)
{
    struct call *c = DF_ARENA_NEW(df_req_arena(req), struct call);
    c->req = req;
    c->client = df_auth_client(req)->id;
    c->status = -1;
    df_req_buf(req, &c->out, ANSWER_MAX);
    return c;
}

static void done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct call *c = (struct call *)job;
    df_req_finish(c->req, 200, &c->out, code, err);
}

static void read_with(struct call *c,
                      enum df_code (*run)(struct df_db *db, struct df_job *job, struct df_err *err))
{
    c->job.run = run;
    c->job.done = done;
    df_req_read(c->req, &c->job);
}

/* A job may run again: its answer is begun afresh. */
static struct df_json_out *begin(struct call *c)
{
    df_buf_reset(&c->out);
    df_json_out_init(&c->json, &c->out);
    return &c->json;
}

static void begin_page(struct call *c)
{
    struct df_json_out *out = begin(c);
    df_page_open(out);
}

/* Every row of a result, which is freed. */
static enum df_code write_rows(struct df_result *take_r, struct df_json_out *out,
                               void (*write)(struct df_result *r, struct df_json_out *out),
                               struct df_err *err)
{
    enum df_code code;
    while ((code = df_result_step(take_r, err)) == DF_ROW)
        write(take_r, out);
    df_result_free(take_r);
    return code == DF_DONE ? DF_OK : code;
}

/* False: the answer is set. known: the number of a name, -1 when there is no such name. */
static bool read_status(struct call *c, int (*known)(struct df_str name), const char *names)
{
    struct df_input in;
    struct df_str given = df_input_filter(c->req, "status");

    if (!given.ptr)
        return true;
    c->status = known(given);
    df_input_init(&in, df_req_arena(c->req), NULL);
    if (c->status < 0)
        df_input_error(&in, "status", "must be %s", names);
    return df_input_ok(&in, c->req);
}

static struct df_value status_value(const struct call *c)
{
    return c->status < 0 ? df_null(DF_INT) : df_int(c->status);
}

/* --- GET /imports --- */

/* Maintenance is told of beforehand. */
static void end_list(struct call *c, const struct df_services *sv, const struct df_policy *policy)
{
    const struct df_policy_facts facts = {
        .policy = policy,
        .maintenance = df_imports_options_of(sv->imports)->maintenance,
        .now_ms = df_wall_ms(sv->clock),
    };
    df_json_close(&c->json, ']');
    df_page_write(&c->page, &c->json);
    df_policy_write_maintenance(&facts, &c->json);
    df_json_close(&c->json, '}');
}

static enum df_code run_list(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    const struct df_services *sv = df_services_of(c->req);
    struct df_value client = df_uuid(df_uuid_str(&c->client));
    struct df_policy policy;
    struct df_result *r = NULL;

    begin_page(c);
    enum df_code code = df_policies_get(sv->policies, db, &c->client, &policy, err);
    if (code == DF_OK)
        code = df_db_query_int(db, &df_q_batch_page_total, DF_PARAMS(client, status_value(c)),
                               &c->page.total, err);
    if (code == DF_OK)
        code = df_db_query(
            db, &df_q_batch_page,
            DF_PARAMS(client, status_value(c), df_int(c->page.size), df_int(c->page.offset)), &r,
            err);
    if (code == DF_OK)
        code = write_rows(r, &c->json, df_batch_write, err);
    if (code == DF_OK)
        end_list(c, sv, &policy);
    return code;
}

static int batch_status(struct df_str name)
{
    enum df_batch_status s;
    return df_batch_status_parse(name, &s) ? (int)s : -1;
}

static void handle_list(struct df_req *req)
{
    struct call *c = call_new(req);
    if (read_status(c, batch_status,
                    "Pending, Processing, Scheduled, Completed, CompletedWithErrors, Failed or "
                    "Cancelled") &&
        df_input_page(req, &c->page))
        read_with(c, run_list);
}

/* --- GET /imports/{batchId} --- */

static enum df_code run_get(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    int64_t status;
    return df_batch_read(db, &c->id, &c->client, begin(c), &status, err);
}

static void handle_get(struct df_req *req)
{
    struct call *c = call_new(req);
    if (df_batch_param(req, &c->id))
        read_with(c, run_get);
}

/* --- GET /imports/{batchId}/items --- */

struct counts {
    int64_t processed;
    int64_t errors;
    int64_t skipped;
    bool dense; /* the items are those from 0 to processed, and the counters are right */
};

static enum df_code read_counts(struct df_db *db, const struct call *c, struct counts *ret,
                                struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code = df_db_query(
        db, &df_q_item_counts,
        DF_PARAMS(df_uuid(df_uuid_str(&c->id)), df_uuid(df_uuid_str(&c->client))), &r, err);
    if (code == DF_OK)
        code = df_result_step(r, err);
    if (code == DF_ROW) {
        int64_t last = df_col_null(r, 3) ? -1 : df_col_int(r, 3);
        bool has_runs = !df_col_null(r, 4) && df_col_int(r, 4) > 1;
        *ret = (struct counts){df_col_int(r, 0), df_col_int(r, 1), df_col_int(r, 2),
                               last + 1 == df_col_int(r, 0) && !has_runs};
        code = DF_OK;
    } else if (code == DF_DONE) {
        code = df_batch_not_found(&c->id, err);
    }
    df_result_free(r);
    return code;
}

static void write_item(struct df_result *r, struct df_json_out *out)
{
    df_json_open(out, '{');
    df_json_kv_int(out, "sequence", df_col_int(r, 0));
    df_json_kv_text(out, "status", df_str_c(df_item_status_name(df_col_int(r, 1))));
    df_json_kv_text(out, "errorMessage", df_col_text(r, 2));
    df_json_key(out, "payload");
    df_json_stored(out, df_col_bool(r, 4) ? DF_STR_NULL : df_col_text(r, 3));
    df_json_key(out, "chunkId");
    if (df_col_null(r, 5))
        df_json_null(out);
    else
        df_json_int(out, df_col_int(r, 5));
    df_json_kv_time(out, "createdAt", df_col_time(r, 6));
    df_json_kv_int(out, "recordCount", df_col_null(r, 7) ? 1 : df_col_int(r, 7));
    df_json_close(out, '}');
}

/* The page of a batch none of whose items is missing. */
static enum df_code ask_range(struct df_db *db, struct call *c, int64_t total,
                              struct df_result **ret, struct df_err *err)
{
    c->page.total = total;
    if (c->page.offset >= total)
        return DF_OK;
    return df_db_query(db, &df_q_item_range,
                       DF_PARAMS(df_int(PAYLOAD_LONGEST), df_uuid(df_uuid_str(&c->id)),
                                 df_int(c->page.offset), df_int(c->page.offset + c->page.size)),
                       ret, err);
}

static enum df_code ask_errors(struct df_db *db, struct call *c, const struct counts *n,
                               struct df_result **ret, struct df_err *err)
{
    struct df_value id = df_uuid(df_uuid_str(&c->id));
    enum df_code code = DF_OK;
    int64_t first = 0;

    if (n->dense)
        c->page.total = n->errors;
    else
        code = df_db_query_int(db, &df_q_item_error_total, DF_PARAMS(id), &c->page.total, err);
    if (code != DF_OK || c->page.offset >= c->page.total)
        return code;
    code = df_db_query_int(db, &df_q_item_error_first, DF_PARAMS(id, df_int(c->page.offset)),
                           &first, err);
    if (code == DF_E_NOT_FOUND) /* they became fewer */
        return DF_OK;
    if (code == DF_OK)
        code = df_db_query(
            db, &df_q_item_error_page,
            DF_PARAMS(df_int(PAYLOAD_LONGEST), id, df_int(first), df_int(c->page.size)), ret, err);
    return code;
}

static enum df_code ask_any(struct df_db *db, struct call *c, const struct counts *n,
                            struct df_result **ret, struct df_err *err)
{
    struct df_value id = df_uuid(df_uuid_str(&c->id));
    enum df_code code = DF_OK;

    if (n->dense && c->status == DF_ITEM_STATUS_SKIPPED)
        c->page.total = n->skipped;
    else if (n->dense && c->status == DF_ITEM_STATUS_IMPORTED)
        c->page.total = n->processed - n->errors - n->skipped;
    else
        code = df_db_query_int(db, &df_q_item_page_total, DF_PARAMS(id, status_value(c)),
                               &c->page.total, err);
    if (code != DF_OK || c->page.offset >= c->page.total)
        return code;
    return df_db_query(db, &df_q_item_page,
                       DF_PARAMS(df_int(PAYLOAD_LONGEST), id, status_value(c), df_int(c->page.size),
                                 df_int(c->page.offset)),
                       ret, err);
}

static enum df_code run_items(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    struct counts n = {0};
    struct df_result *r = NULL;

    begin_page(c);
    enum df_code code = read_counts(db, c, &n, err);
    bool all =
        c->status < 0 || (c->status == DF_ITEM_STATUS_IMPORTED && n.errors == 0 && n.skipped == 0);
    if (code == DF_OK && n.dense && all)
        code = ask_range(db, c, n.processed, &r, err);
    else if (code == DF_OK && c->status == DF_ITEM_STATUS_ERROR)
        code = ask_errors(db, c, &n, &r, err);
    else if (code == DF_OK)
        code = ask_any(db, c, &n, &r, err);
    if (code == DF_OK && r)
        code = write_rows(r, &c->json, write_item, err);
    df_page_close(&c->page, &c->json);
    return code;
}

static int item_status(struct df_str name)
{
    enum df_item_status s;
    return df_item_status_parse(name, &s) ? (int)s : -1;
}

static void handle_items(struct df_req *req)
{
    struct call *c = call_new(req);
    if (df_batch_param(req, &c->id) && read_status(c, item_status, "Imported, Error or Skipped") &&
        df_input_page(req, &c->page))
        read_with(c, run_items);
}

#define READ(path, fn)                                                                             \
    {                                                                                              \
        .method = "GET", .pattern = path, .body = DF_BODY_NONE, .access = DF_ACCESS_CLIENT,        \
        .scope = "imports", .handle = fn                                                           \
    }

const struct df_route df_imports_read_routes[] = {
    READ("/imports", handle_list),
    READ("/imports/{batchId}", handle_get),
    READ("/imports/{batchId}/items", handle_items),
    READ("/imports/{batchId}/errors.xlsx", df_import_handle_xlsx),
    READ("/imports/{batchId}/errors.csv", df_import_handle_csv),
    READ("/imports/{batchId}/errors.json", df_import_handle_json),
    READ("/imports/{batchId}/events", df_import_handle_events),
    {.method = NULL},
};
