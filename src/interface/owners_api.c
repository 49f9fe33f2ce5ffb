/* PATCH /admin/tickets/{id} and /admin/counterparties/{id}: gives a document to another client. */
#include "access/handler.h"
#include "interface/interface.h"
#include "interface/owners.sql.h"

#define DETAILS_MAX 2048

/* A kind of document. */
struct kind {
    const char *name; /* in the audit log's target */
    const char *action;
    const struct df_query *owner;
    const struct df_query *give;
};

static const struct kind tickets = {"tickets", "TicketReassigned", &df_q_ticket_owner,
                                    &df_q_ticket_give};
static const struct kind counterparties = {"counterparties", "CounterpartyReassigned",
                                           &df_q_counterparty_owner, &df_q_counterparty_give};

struct call {
    struct df_work w;
    const struct kind *kind;
    int64_t id;
    struct df_str to; /* the new owner's identifier; absent: none */
    /* What was found. */
    struct df_str entity;
    struct df_str doc;
    struct df_str from_id; /* absent: it had no owner */
    struct df_str from;
    struct df_str to_id;
    bool changed;
};

static void read_document(void *arg, struct df_result *r)
{
    struct call *c = arg;
    struct df_arena *a = df_req_arena(c->w.req);

    c->entity = df_arena_str(a, df_col_text(r, owner_BusinessEntity));
    c->doc = df_arena_str(a, df_col_text(r, owner_BusinessDocId));
    c->from_id = df_arena_str(a, df_col_text(r, owner_ClientId));
    c->from = df_arena_str(a, df_col_text(r, owner_ClientIdentifier));
}

static enum df_code find_document(struct df_db *db, struct call *c, struct df_err *err)
{
    bool found = false;
    enum df_code code =
        df_db_one(db, DF_ANY(c->kind->owner, {"id", df_int(c->id)}), read_document, c, &found, err);

    if (code == DF_OK && !found)
        code = df_err_set(err, DF_E_NOT_FOUND, "There is no such document.");
    return code;
}

static enum df_code find_client(struct df_db *db, struct call *c, struct df_err *err)
{
    struct df_client_record record;

    c->to_id = DF_STR_NULL;
    if (!c->to.ptr)
        return DF_OK;
    enum df_code code = df_client_load(db, c->to, &record, err);
    if (code == DF_OK)
        c->to_id = df_arena_str(df_req_arena(c->w.req), df_uuid_str(&record.client.id));
    return code == DF_E_NOT_FOUND
               ? df_err_set(err, DF_E_BAD_REQUEST, "There is no client \"" DF_STR_FMT "\".",
                            DF_STR_ARG(c->to))
               : code;
}

static enum df_code write_audit(struct df_db *db, const struct call *c, struct df_err *err)
{
    struct df_arena *a = df_req_arena(c->w.req);
    struct df_actor by = df_actor_of(c->w.req);
    struct df_buf details;
    struct df_json_out j;

    df_buf_init(&details, DETAILS_MAX);
    df_json_out_init(&j, &details);
    df_json_open(&j, '{');
    df_json_kv_text(&j, "businessDocId", c->doc);
    df_json_kv_text(&j, "from", c->from);
    df_json_kv_text(&j, "to", c->to);
    df_json_close(&j, '}');
    struct df_str text = df_arena_str(a, df_buf_str(&details));
    df_buf_release(&details);
    return df_audit_write(db, &by, c->kind->action,
                          df_arena_printf(a, "%s/%lld", c->kind->name, (long long)c->id),
                          c->to_id.ptr ? c->to_id : c->from_id, text, c->w.now_ms, err);
}

static enum df_code give_document(struct df_db *db, const struct call *c, struct df_err *err)
{
    struct df_value to = df_uuid(c->to_id);
    enum df_code code =
        df_db_exec(db, DF_ANY(c->kind->give, {"client", to}, {"id", df_int(c->id)}), NULL, err);
    if (code == DF_OK)
        code =
            df_db_exec(db,
                       DF_Q(functional_acks_give, .client = to, .doc = df_text(c->doc),
                            .before = df_uuid(c->from_id), .nobody = df_int(c->from_id.ptr ? 0 : 1),
                            .entity = df_text(c->entity)),
                       NULL, err);
    return code == DF_OK ? write_audit(db, c, err) : code;
}

static bool is_same_client(struct df_str a, struct df_str b)
{
    return a.ptr && b.ptr ? df_str_ieq(a, b) : a.ptr == b.ptr;
}

static void write_answer(struct call *c)
{
    struct df_json_out *j = &c->w.json;

    df_json_open(j, '{');
    df_json_kv_int(j, "id", c->id);
    df_json_kv_text(j, "businessEntity", c->entity);
    df_json_kv_text(j, "businessDocId", c->doc);
    df_json_kv_text(j, "clientId", c->to);
    df_json_close(j, '}');
}

static enum df_code run_give(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    enum df_code code = find_document(db, c, err);
    if (code == DF_OK)
        code = find_client(db, c, err);
    if (code != DF_OK)
        return code;
    c->changed = !is_same_client(c->from_id, c->to_id);
    if (c->changed)
        code = give_document(db, c, err);
    write_answer(c);
    return code;
}

static void document_given(struct df_work *w)
{
    const struct call *c = (const struct call *)w;
    struct df_log_field fields[] = {DF_F("businessDocId", c->doc), DF_F("from", c->from),
                                    DF_F("to", c->to)};

    if (c->changed)
        df_log_write(DF_LOG_INFO, c->kind->action, fields, 3, "%s/%lld has another owner now",
                     c->kind->name, (long long)c->id);
}

/* "clientId" is required; null takes the owner away. */
static bool read_gift(struct df_work *w, struct df_input *in, const struct kind *kind)
{
    struct call *c = (struct call *)w;

    c->kind = kind;
    if (!df_str_to_i64(df_req_param(w->req, "id"), &c->id)) {
        df_req_fail(w->req, DF_E_NOT_FOUND, "There is no such document.");
        return false;
    }
    if (!df_input_json(in, w->req))
        return false;
    const struct df_json *v = df_json_get(in->object, "clientId");
    if (!v || v->type != DF_JSON_NULL)
        c->to = df_input_text(in, "clientId", DF_CLIENT_ID_MAX, DF_REQUIRED);
    return true;
}

static bool read_ticket(struct df_work *w, struct df_input *in)
{
    return read_gift(w, in, &tickets);
}

static bool read_counterparty(struct df_work *w, struct df_input *in)
{
    return read_gift(w, in, &counterparties);
}

#define GIVE .size = sizeof(struct call), .writes = true, .run = run_give, .done = document_given

static const struct df_handler ticket = {GIVE, .prepare = read_ticket};
static const struct df_handler counterparty = {GIVE, .prepare = read_counterparty};

#define ADMIN(path, h) DF_ROUTE("PATCH", "/admin" path, DF_BODY_JSON, DF_ACCESS_ADMIN, NULL, h)

const struct df_route df_owner_routes[] = {
    ADMIN("/tickets/{id}", ticket),
    ADMIN("/counterparties/{id}", counterparty),
    {.method = NULL},
};
