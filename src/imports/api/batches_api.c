/* GET /imports, /imports/{batchId} and /imports/{batchId}/items: a client's own batches. */
#include "access/policies.h"
#include "imports/api/batch_view.h"
#include "imports/api/batches.sql.h"
#include "imports/api/items.sql.h"
#include "imports/api/views.h"
#include "imports/batch.h"
#include "imports/policy.h"
#include "imports/routes.h"

#define ANSWER_MAX      ((size_t)128 << 20)
#define PAYLOAD_LONGEST 32768 /* characters of a payload in a page of items */

struct call {
    struct df_work w;
    struct df_uuid client;
    struct df_uuid id;
    int64_t status; /* -1: any */
};

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

/* known: the number of a name, -1 when there is no such name. */
static void read_status(struct call *c, struct df_input *in, int (*known)(struct df_str name),
                        const char *names)
{
    struct df_str given = df_input_filter(c->w.req, "status");

    c->client = df_auth_client(c->w.req)->id;
    c->status = given.ptr ? known(given) : -1;
    if (given.ptr && c->status < 0)
        df_input_error(in, "status", "must be %s", names);
}

static struct df_value status_value(const struct call *c)
{
    return c->status < 0 ? df_null(DF_INT) : df_int(c->status);
}

/* --- GET /imports --- */

/* Maintenance is told of beforehand. */
static void end_list(struct df_work *w, const struct df_policy *policy)
{
    const struct df_import_views *views = w->arg;
    const struct df_policy_facts facts = {
        .policy = policy,
        .maintenance = df_imports_options_of(views->imports)->maintenance,
        .now_ms = w->now_ms,
    };
    df_json_close(&w->json, ']');
    df_page_write(&w->page, &w->json);
    df_policy_write_maintenance(&facts, &w->json);
    df_json_close(&w->json, '}');
}

static enum df_code run_list(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct df_value client = df_uuid(df_uuid_str(&c->client));
    struct df_policy policy;
    struct df_result *r = NULL;

    df_page_open(&w->json);
    enum df_code code = df_policies_get(w->access->policies, db, &c->client, &policy, err);
    if (code == DF_OK)
        code = df_db_query_int(db, &df_q_batch_page_total, DF_PARAMS(client, status_value(c)),
                               &w->page.total, err);
    if (code == DF_OK)
        code = df_db_query(
            db, &df_q_batch_page,
            DF_PARAMS(client, status_value(c), df_int(w->page.size), df_int(w->page.offset)), &r,
            err);
    if (code == DF_OK)
        code = write_rows(r, &w->json, df_batch_write, err);
    if (code == DF_OK)
        end_list(w, &policy);
    return code;
}

static int batch_status(struct df_str name)
{
    enum df_batch_status s;
    return df_batch_status_parse(name, &s) ? (int)s : -1;
}

static bool read_list(struct df_work *w, struct df_input *in)
{
    read_status((struct call *)w, in, batch_status,
                "Pending, Processing, Scheduled, Completed, CompletedWithErrors, Failed or "
                "Cancelled");
    return true;
}

static const struct df_handler list = {
    .size = sizeof(struct call),
    .paged = true,
    .max_answer = ANSWER_MAX,
    .prepare = read_list,
    .run = run_list,
};

/* --- GET /imports/{batchId} --- */

static enum df_code run_get(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    int64_t status;
    return df_batch_read(db, &c->id, &c->client, &w->json, &status, err);
}

static bool read_id(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    (void)in;
    c->client = df_auth_client(w->req)->id;
    return df_batch_param(w->req, &c->id);
}

static const struct df_handler get = {
    .size = sizeof(struct call),
    .max_answer = ANSWER_MAX,
    .prepare = read_id,
    .run = run_get,
};

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
    c->w.page.total = total;
    if (c->w.page.offset >= total)
        return DF_OK;
    return df_db_query(db, &df_q_item_range,
                       DF_PARAMS(df_int(PAYLOAD_LONGEST), df_uuid(df_uuid_str(&c->id)),
                                 df_int(c->w.page.offset),
                                 df_int(c->w.page.offset + c->w.page.size)),
                       ret, err);
}

static enum df_code ask_errors(struct df_db *db, struct call *c, const struct counts *n,
                               struct df_result **ret, struct df_err *err)
{
    struct df_value id = df_uuid(df_uuid_str(&c->id));
    enum df_code code = DF_OK;
    int64_t first = 0;

    if (n->dense)
        c->w.page.total = n->errors;
    else
        code = df_db_query_int(db, &df_q_item_error_total, DF_PARAMS(id), &c->w.page.total, err);
    if (code != DF_OK || c->w.page.offset >= c->w.page.total)
        return code;
    code = df_db_query_int(db, &df_q_item_error_first, DF_PARAMS(id, df_int(c->w.page.offset)),
                           &first, err);
    if (code == DF_E_NOT_FOUND) /* they became fewer */
        return DF_OK;
    if (code == DF_OK)
        code = df_db_query(
            db, &df_q_item_error_page,
            DF_PARAMS(df_int(PAYLOAD_LONGEST), id, df_int(first), df_int(c->w.page.size)), ret,
            err);
    return code;
}

static enum df_code ask_any(struct df_db *db, struct call *c, const struct counts *n,
                            struct df_result **ret, struct df_err *err)
{
    struct df_value id = df_uuid(df_uuid_str(&c->id));
    enum df_code code = DF_OK;

    if (n->dense && c->status == DF_ITEM_STATUS_SKIPPED)
        c->w.page.total = n->skipped;
    else if (n->dense && c->status == DF_ITEM_STATUS_IMPORTED)
        c->w.page.total = n->processed - n->errors - n->skipped;
    else
        code = df_db_query_int(db, &df_q_item_page_total, DF_PARAMS(id, status_value(c)),
                               &c->w.page.total, err);
    if (code != DF_OK || c->w.page.offset >= c->w.page.total)
        return code;
    return df_db_query(db, &df_q_item_page,
                       DF_PARAMS(df_int(PAYLOAD_LONGEST), id, status_value(c),
                                 df_int(c->w.page.size), df_int(c->w.page.offset)),
                       ret, err);
}

static enum df_code run_items(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct counts n = {0};
    struct df_result *r = NULL;

    df_page_open(&w->json);
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
        code = write_rows(r, &w->json, write_item, err);
    df_page_close(&w->page, &w->json);
    return code;
}

static int item_status(struct df_str name)
{
    enum df_item_status s;
    return df_item_status_parse(name, &s) ? (int)s : -1;
}

static bool read_items(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    read_status(c, in, item_status, "Imported, Error or Skipped");
    return df_batch_param(w->req, &c->id);
}

static const struct df_handler items = {
    .size = sizeof(struct call),
    .paged = true,
    .max_answer = ANSWER_MAX,
    .prepare = read_items,
    .run = run_items,
};

#define READ(path, h) DF_ROUTE("GET", "/imports" path, DF_BODY_NONE, DF_ACCESS_CLIENT, "imports", h)

const struct df_route df_imports_read_routes[] = {
    READ("", list),
    READ("/{batchId}", get),
    READ("/{batchId}/items", items),
    READ("/{batchId}/errors.xlsx", df_import_xlsx_handler),
    READ("/{batchId}/errors.csv", df_import_csv_handler),
    READ("/{batchId}/errors.json", df_import_json_handler),
    READ("/{batchId}/events", df_import_events_handler),
    {.method = NULL},
};
