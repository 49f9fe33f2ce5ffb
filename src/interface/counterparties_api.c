/*
 * /api/counterparties.
 *
 * A document replaces what there was under its BusinessDocId: the row, its addresses and its fiscal
 * references, in one transaction, together with the functional ack where one is asked for. The
 * upsert comes first and holds the row until the commit, so that two documents at once never mix
 * their children. Whose it is never changes by that (owners.h).
 */
#include "access/handler.h"
#include "interface/acks.h"
#include "interface/counterparties.sql.h"
#include "interface/interface.h"
#include "interface/owners.h"
#include "interface/payload.h"
#include "interface/shown.h"

/* Its fields are a few hundred characters. */
#define ACK_MAX (64 << 10)

/* Children written by one statement. */
#define CHUNK            64
#define CHILD_PARAMS_MAX 14

struct call {
    struct df_work w; /* its arg is the interface */
    struct df_reach reach;

    /* POST */
    struct df_counterparty party;
    int64_t id;
    bool created;
    struct df_str owner; /* absent: it is nobody's */

    /* GET; the absent slice asks for all */
    struct df_str business_doc_id;
    struct df_str business_entity;
    struct df_str entity_type;
    struct df_str counterparty_id;
    struct df_str fiscal_number;
};

/* --- POST /api/counterparties --- */

static enum df_code upsert(struct df_db *db, struct call *c, struct df_err *err)
{
    const struct df_counterparty *d = &c->party;
    const struct df_doc_id *id = &d->doc;
    struct df_result *r = NULL;
    enum df_code code = df_db_query(
        db, &df_q_counterparty_upsert,
        DF_PARAMS(df_text(id->business_doc_id), df_text(id->business_app_id),
                  df_text(id->business_entity), df_text(id->original_business_doc_id),
                  df_text(d->counterparty_id), df_text(d->entity_type), df_text(d->name),
                  df_text(d->local_name), df_text(d->search_name), df_text(d->reference_code),
                  df_bool(d->is_deleted), df_text(d->source), df_time(c->w.now_ms),
                  df_text(df_req_body(c->w.req)), df_reach_client(&c->reach),
                  df_reach_all(&c->reach)),
        &r, err);
    /* Where lock hints are not heeded, another wrote it between our UPDATE and our INSERT. */
    if (code == DF_E_DB_UNIQUE)
        return df_err_set(err, DF_E_DB_CONFLICT, "the counterparty is being written by another");
    if (code != DF_OK)
        return code;
    code = df_result_step(r, err);
    if (code == DF_ROW) {
        c->id = df_col_int(r, 0);
        c->created = df_col_null(r, 1);
        c->owner = df_arena_str(df_req_arena(c->w.req), df_col_text(r, 2));
        code = DF_OK;
    } else if (code == DF_DONE) {
        code = df_reach_refuse(err, "counterparty");
    }
    df_result_free(r);
    return code;
}

static void address_values(const struct call *c, size_t i, struct df_value *v)
{
    const struct df_address *a = &c->party.addresses[i];
    const struct df_value values[] = {df_int(c->id),
                                      df_text(a->address_type_code),
                                      df_text(a->address_type_name),
                                      df_text(a->phone),
                                      df_text(a->fax),
                                      df_text(a->addr_line1),
                                      df_text(a->addr_line2),
                                      df_text(a->city_code),
                                      df_text(a->zip_code),
                                      df_text(a->state),
                                      df_text(a->district),
                                      df_bool(a->is_main_address),
                                      df_bool(a->is_deleted),
                                      df_time(c->w.now_ms)};
    memcpy(v, values, sizeof values);
}

static void fiscal_values(const struct call *c, size_t i, struct df_value *v)
{
    const struct df_fiscal_reference *f = &c->party.fiscal_references[i];
    const struct df_value values[] = {df_int(c->id), df_text(f->fiscal_reference_type_code),
                                      df_text(f->fiscal_reference_type_name),
                                      df_text(f->fiscal_number), df_time(c->w.now_ms)};
    memcpy(v, values, sizeof values);
}

/* In the order of the document, which is that of their ids. */
static enum df_code
insert_children(struct df_db *db, const struct call *c, const struct df_query *q, size_t count,
                void (*fill)(const struct call *c, size_t i, struct df_value *v),
                struct df_err *err)
{
    struct df_value values[CHUNK * CHILD_PARAMS_MAX];
    enum df_code code = DF_OK;

    for (size_t from = 0; from < count && code == DF_OK; from += CHUNK) {
        size_t n = count - from < CHUNK ? count - from : CHUNK;
        for (size_t i = 0; i < n; i++)
            fill(c, from + i, values + i * q->param_count);
        code = df_db_exec_many(db, q, values, q->param_count, n, NULL, NULL, NULL, NULL, err);
    }
    return code;
}

static enum df_code delete_children(struct df_db *db, const struct call *c, struct df_err *err)
{
    enum df_code code =
        df_db_exec(db, &df_q_counterparty_addresses_delete, DF_PARAMS(df_int(c->id)), NULL, err);
    if (code == DF_OK)
        code =
            df_db_exec(db, &df_q_counterparty_fiscal_delete, DF_PARAMS(df_int(c->id)), NULL, err);
    return code;
}

static enum df_code enqueue_ack(struct df_db *db, const struct call *c, struct df_err *err)
{
    const struct df_interface_options *opt = df_interface_options_of(c->w.arg);
    struct df_ack ack = {.doc = c->party.doc,
                         .object = DF_ACK_COUNTERPARTY,
                         .operation = c->created ? DF_ACK_CREATE : DF_ACK_UPDATE,
                         .status = c->created ? DF_ACK_CREATED : DF_ACK_DONE,
                         .message = c->created ? DF_STR("Counterparty created")
                                               : DF_STR("Counterparty updated")};
    struct df_buf payload;
    int64_t id;

    df_buf_init(&payload, ACK_MAX);
    df_ack_build(&ack, df_str_c(opt->settings.ack_business_application), &payload);
    enum df_code code =
        df_ack_enqueue(db, ack.doc.business_doc_id, df_buf_str(&payload),
                       df_str_c(opt->settings.functional_ack_url), c->owner, c->w.now_ms, &id, err);
    df_buf_release(&payload);
    return code;
}

static enum df_code run_post(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    enum df_code code = upsert(db, c, err);
    if (code == DF_OK && !c->created)
        code = delete_children(db, c, err);
    if (code == DF_OK)
        code = insert_children(db, c, &df_q_counterparty_address_insert, c->party.address_count,
                               address_values, err);
    if (code == DF_OK)
        code = insert_children(db, c, &df_q_counterparty_fiscal_insert, c->party.fiscal_count,
                               fiscal_values, err);
    if (code == DF_OK && c->party.ack_required)
        code = enqueue_ack(db, c, err);
    return code;
}

static void posted(struct df_work *w)
{
    const struct call *c = (const struct call *)w;

    if (c->party.ack_required)
        df_interface_wake(w->arg, DF_WORK_ACKS);
    df_json_open(&w->json, '{');
    df_json_kv_int(&w->json, "id", c->id);
    df_json_kv_text(&w->json, "businessDocId", c->party.doc.business_doc_id);
    df_json_kv_text(&w->json, "status", DF_STR("Received"));
    df_json_kv_bool(&w->json, "created", c->created);
    df_json_close(&w->json, '}');
}

static bool read_document(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    if (!df_input_json(in, w->req))
        return false;
    df_counterparty_read(in, &c->party);
    if (in->error_count > 0)
        return true;
    c->reach = df_reach_of(w->req);
    df_log_ctx_set(df_req_log(w->req), "businessDocId", c->party.doc.business_doc_id);
    return true;
}

static const struct df_handler post = {
    .size = sizeof(struct call),
    .writes = true,
    .prepare = read_document,
    .run = run_post,
    .done = posted,
};

/* --- GET /api/counterparties --- */

static const char *const text_names[] = {
    "businessDocId",  "businessAppId", "businessEntity", "originalBusinessDocId",
    "counterpartyId", "entityType",    "name",           "localName",
    "searchName",     "referenceCode",
};
static const char *const address_names[] = {
    "addressTypeCode", "addressTypeName", "phone",   "fax",   "addrLine1",
    "addrLine2",       "cityCode",        "zipCode", "state", "district",
};
static const char *const fiscal_names[] = {
    "fiscalReferenceTypeCode",
    "fiscalReferenceTypeName",
    "fiscalNumber",
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* Columns of text from `first` on; the column behind them. */
static size_t write_texts(struct df_json_out *j, const struct df_result *r, size_t first,
                          const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        df_json_kv_text(j, names[i], df_col_text(r, first + i));
    return first + count;
}

/* The columns that counterparty_get and the lists have in common. */
static void write_columns(struct df_json_out *j, const struct df_result *r)
{
    df_json_kv_int(j, "id", df_col_int(r, 0));
    size_t col = write_texts(j, r, 1, text_names, COUNT(text_names));
    df_json_kv_bool(j, "isDeleted", df_col_bool(r, col));
    df_json_kv_text(j, "source", df_col_text(r, col + 1));
    df_json_kv_text(j, "status", df_col_text(r, col + 2));
    df_json_kv_time(j, "createdAt", df_col_time(r, col + 3));
    df_json_kv_time(j, "updatedAt", df_col_time(r, col + 4));
}

static void write_item(struct df_json_out *j, const struct df_result *r)
{
    df_json_open(j, '{');
    write_columns(j, r);
    df_json_close(j, '}');
}

static void write_address(struct df_json_out *j, const struct df_result *r)
{
    df_json_open(j, '{');
    size_t col = write_texts(j, r, 0, address_names, COUNT(address_names));
    df_json_kv_bool(j, "isMainAddress", df_col_bool(r, col));
    df_json_kv_bool(j, "isDeleted", df_col_bool(r, col + 1));
    df_json_close(j, '}');
}

static void write_fiscal(struct df_json_out *j, const struct df_result *r)
{
    df_json_open(j, '{');
    write_texts(j, r, 0, fiscal_names, COUNT(fiscal_names));
    df_json_close(j, '}');
}

/* "key": the rows of a query, each written by `write`. */
static enum df_code write_rows(struct df_db *db, struct call *c, const char *key,
                               const struct df_query *q, const struct df_value *params,
                               size_t param_count,
                               void (*write)(struct df_json_out *j, const struct df_result *r),
                               struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code = df_db_query(db, q, params, param_count, &r, err);
    if (code != DF_OK)
        return code;
    df_json_key(&c->w.json, key);
    df_json_open(&c->w.json, '[');
    while ((code = df_result_step(r, err)) == DF_ROW)
        write(&c->w.json, r);
    df_json_close(&c->w.json, ']');
    df_result_free(r);
    return code == DF_DONE ? DF_OK : code;
}

static enum df_code write_payload(struct df_db *db, struct call *c, struct df_err *err)
{
    int64_t room = df_shown_room(df_interface_options_of(c->w.arg));
    struct df_shown shown;
    enum df_code code = df_shown_counterparty(db, c->id, &room, c->w.req, &shown, err);
    df_json_kv_text(&c->w.json, "rawPayload", shown.raw);
    return code;
}

static enum df_code write_parent(struct df_db *db, struct call *c, struct df_err *err)
{
    struct df_result *r = NULL;
    const struct df_value params[] = {df_text(c->business_doc_id), df_text(c->business_entity),
                                      df_reach_client(&c->reach)};
    const struct df_query *q = c->reach.all ? &df_q_counterparty_get : &df_q_own_counterparty_get;
    enum df_code code = df_db_query(db, q, params, q->param_count, &r, err);
    if (code != DF_OK)
        return code;
    code = df_result_step(r, err);
    if (code == DF_ROW) {
        c->id = df_col_int(r, 0);
        write_columns(&c->w.json, r);
        code = DF_OK;
    } else if (code == DF_DONE) {
        code = df_err_set(err, DF_E_NOT_FOUND, "There is no such counterparty.");
    }
    df_result_free(r);
    return code == DF_OK ? write_payload(db, c, err) : code;
}

/* In a transaction, so that the children are those of the row. */
static enum df_code run_one(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    enum df_code code = df_db_begin(db, false, err);
    if (code != DF_OK)
        return code;
    df_json_open(&w->json, '{');
    code = write_parent(db, c, err);
    if (code == DF_OK)
        code = write_rows(db, c, "addresses", &df_q_counterparty_addresses,
                          DF_PARAMS(df_int(c->id)), write_address, err);
    if (code == DF_OK)
        code = write_rows(db, c, "fiscalReferences", &df_q_counterparty_fiscal,
                          DF_PARAMS(df_int(c->id)), write_fiscal, err);
    df_json_close(&w->json, '}');
    df_db_rollback(db); /* nothing was written */
    return code;
}

static enum df_code run_list(struct df_db *db, struct df_work *w, struct df_err *err)
{
    /* By what is asked for, and whose: of all, or the caller's. */
    static const struct df_query *const pages[2][2] = {
        {&df_q_counterparty_list, &df_q_own_counterparty_list},
        {&df_q_counterparty_find, &df_q_own_counterparty_find}};
    static const struct df_query *const totals[2][2] = {
        {&df_q_counterparty_count, &df_q_own_counterparty_count},
        {&df_q_counterparty_find_count, &df_q_own_counterparty_find_count}};
    struct call *c = (struct call *)w;
    bool find = c->counterparty_id.ptr || c->fiscal_number.ptr;
    bool own = !c->reach.all;
    struct df_value params[7] = {df_text(c->business_entity), df_text(c->entity_type),
                                 df_text(c->counterparty_id), df_text(c->fiscal_number)};
    size_t n = find ? 4 : 2;

    if (own)
        params[n++] = df_reach_client(&c->reach);
    enum df_code code = df_db_query_int(db, totals[find][own], params, n, &w->page.total, err);
    if (code != DF_OK)
        return code;
    params[n++] = df_int(w->page.size);
    params[n++] = df_int(w->page.offset);
    df_json_open(&w->json, '{');
    code = write_rows(db, c, "items", pages[find][own], params, n, write_item, err);
    df_page_write(&w->page, &w->json);
    df_json_close(&w->json, '}');
    return code;
}

static enum df_code run_get(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct call *c = (const struct call *)w;
    return c->business_doc_id.ptr ? run_one(db, w, err) : run_list(db, w, err);
}

static bool read_question(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;
    struct df_req *req = w->req;

    df_req_buf(req, &w->out, df_shown_answer_max(df_interface_options_of(w->arg)));
    c->reach = df_reach_of(req);
    c->business_doc_id = df_input_filter(req, "businessDocId");
    c->business_entity = df_input_filter(req, "businessEntity");
    c->entity_type = df_input_filter(req, "entityType");
    c->counterparty_id = df_input_filter(req, "counterpartyId");
    c->fiscal_number = df_input_filter(req, "fiscalNumber");
    if (!c->business_doc_id.ptr)
        df_page_read(in, req, &w->page);
    return true;
}

static const struct df_handler get = {
    .size = sizeof(struct call),
    .prepare = read_question,
    .run = run_get,
};

#define ROUTE(m, kind, h) DF_ROUTE(m, "/api/counterparties", kind, DF_ACCESS_CLIENT, "interface", h)

const struct df_route df_counterparty_routes[] = {
    ROUTE("POST", DF_BODY_JSON, post),
    ROUTE("GET", DF_BODY_NONE, get),
    {.method = NULL},
};
