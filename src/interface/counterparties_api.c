/*
 * /api/counterparties.
 *
 * A document replaces the counterparty under its BusinessDocId: the row, its addresses and its
 * fiscal references, in one transaction with the functional ack if one is required. The upsert
 * comes first and locks the row until the commit, so that two documents sent at once never mix
 * their children. The owner does not change (owners.h).
 *
 * The system that takes counterparties from here says so by PATCH, with the ETag of what it read. A
 * payload that came after that has another ETag, so that it is not marked as taken.
 */
#include "access/handler.h"
#include "access/list.h"
#include "base/personal.h"
#include "base/tally.h"
#include "interface/acks.h"
#include "interface/counterparties.sql.h"
#include "interface/interface.h"
#include "interface/owners.h"
#include "interface/payload.h"
#include "interface/shown.h"
#include "privacy/subjects.h"
#include "store/rows.h"

#include <stdio.h>

#define ACK_MAX     (64 << 10) /* its fields are a few hundred characters */
#define ETAG_MAX    72
#define MESSAGE_MAX 2000 /* UTF-16 units */

struct call {
    struct df_work w; /* its arg is the interface */
    struct df_reach reach;

    /* POST */
    struct df_counterparty party;
    int64_t id;
    bool created;
    struct df_str owner;       /* absent: it has none */
    struct df_subjects people; /* whom the document names */

    /* GET; an absent filter lets everything pass */
    struct df_str business_doc_id;
    struct df_str business_entity;
    struct df_str entity_type;
    struct df_str counterparty_id;
    struct df_str fiscal_number;
    struct df_str status;

    /* PATCH: `status`, and */
    struct df_str message;
    struct df_str if_match;
    int64_t version;
    char etag[ETAG_MAX]; /* of GET too: the row's; "": none was read */
};

/* --- POST /api/counterparties --- */

static void read_upserted(void *arg, struct df_result *r)
{
    struct call *c = arg;

    c->id = df_col_int(r, counterparty_upsert_Id);
    c->created = df_col_null(r, counterparty_upsert_UpdatedAt);
    c->owner = df_arena_str(df_req_arena(c->w.req), df_col_text(r, counterparty_upsert_ClientId));
}

static enum df_code upsert_counterparty(struct df_db *db, struct call *c, struct df_err *err)
{
    const struct df_counterparty *d = &c->party;
    const struct df_doc_id *id = &d->doc;
    bool found = false;
    enum df_code code = df_db_one(
        db,
        DF_Q(counterparty_upsert, .business_doc_id = df_text(id->business_doc_id),
             .business_app_id = df_text(id->business_app_id),
             .business_entity = df_text(id->business_entity),
             .original_business_doc_id = df_text(id->original_business_doc_id),
             .counterparty_id = df_text(d->counterparty_id), .entity_type = df_text(d->entity_type),
             .name = df_text(d->name), .local_name = df_text(d->local_name),
             .search_name = df_text(d->search_name), .reference_code = df_text(d->reference_code),
             .is_deleted = df_bool(d->is_deleted), .source = df_text(d->source),
             .now = df_time(c->w.now_ms), .raw_payload = df_text(df_req_body(c->w.req)),
             .client = df_reach_client(&c->reach), .all = df_reach_all(&c->reach)),
        read_upserted, c, &found, err);

    /* A database that ignores lock hints let another call write between our UPDATE and INSERT. */
    if (code == DF_E_DB_UNIQUE)
        return df_err_set(err, DF_E_DB_CONFLICT, "the counterparty is being written by another");
    return code == DF_OK && !found ? df_reach_refuse(err, "counterparty") : code;
}

/* In the order of the document, which becomes the order of their ids. */
static enum df_code insert_addresses(struct df_db *db, const struct call *c, struct df_err *err)
{
    struct df_rows rows = df_rows_for(df_req_arena(c->w.req), &df_q_counterparty_address_insert,
                                      c->party.address_count);

    for (size_t i = 0; i < c->party.address_count; i++) {
        const struct df_address *a = &c->party.addresses[i];
        DF_ROWS_ADD(&rows, counterparty_address_insert, .id = df_int(c->id),
                    .type_code = df_text(a->address_type_code),
                    .type_name = df_text(a->address_type_name), .phone = df_text(a->phone),
                    .fax = df_text(a->fax), .addr_line1 = df_text(a->addr_line1),
                    .addr_line2 = df_text(a->addr_line2), .city_code = df_text(a->city_code),
                    .zip_code = df_text(a->zip_code), .state = df_text(a->state),
                    .district = df_text(a->district),
                    .is_main_address = df_bool(a->is_main_address),
                    .is_deleted = df_bool(a->is_deleted), .now = df_time(c->w.now_ms));
    }
    return df_rows_run(db, &rows, NULL, err);
}

static enum df_code insert_fiscal(struct df_db *db, const struct call *c, struct df_err *err)
{
    struct df_rows rows = df_rows_for(df_req_arena(c->w.req), &df_q_counterparty_fiscal_insert,
                                      c->party.fiscal_count);

    for (size_t i = 0; i < c->party.fiscal_count; i++) {
        const struct df_fiscal_reference *f = &c->party.fiscal_references[i];
        DF_ROWS_ADD(&rows, counterparty_fiscal_insert, .id = df_int(c->id),
                    .type_code = df_text(f->fiscal_reference_type_code),
                    .type_name = df_text(f->fiscal_reference_type_name),
                    .fiscal_number = df_text(f->fiscal_number), .now = df_time(c->w.now_ms));
    }
    return df_rows_run(db, &rows, NULL, err);
}

static enum df_code delete_children(struct df_db *db, const struct call *c, struct df_err *err)
{
    enum df_code code =
        df_db_exec(db, DF_Q(counterparty_addresses_delete, .id = df_int(c->id)), NULL, err);
    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(counterparty_fiscal_delete, .id = df_int(c->id)), NULL, err);
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
    enum df_code code = df_ack_enqueue(db, ack.doc.business_doc_id, df_buf_str(&payload),
                                       df_str_c(opt->settings.functional_ack_url), c->owner,
                                       df_req_trace(c->w.req), c->w.now_ms, &id, err);
    df_buf_release(&payload);
    return code;
}

static enum df_code write_people(struct df_db *db, const struct call *c, struct df_err *err)
{
    struct df_str row = df_arena_printf(df_req_arena(c->w.req), "%lld", (long long)c->id);

    return df_subjects_write(db, "counterparty", row, c->people.at, c->people.count, c->created,
                             err);
}

static enum df_code run_post_counterparty(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    enum df_code code = upsert_counterparty(db, c, err);
    if (code == DF_OK && !c->created)
        code = delete_children(db, c, err);
    if (code == DF_OK)
        code = insert_addresses(db, c, err);
    if (code == DF_OK)
        code = insert_fiscal(db, c, err);
    if (code == DF_OK)
        code = write_people(db, c, err);
    if (code == DF_OK && c->party.ack_required)
        code = enqueue_ack(db, c, err);
    return code;
}

static void counterparty_posted(struct df_work *w)
{
    const struct call *c = (const struct call *)w;

    if (c->party.ack_required)
        df_interface_wake(w->arg, DF_WORK_ACKS);
    df_tally(c->owner, DF_STR("counterparties"), &(struct df_tallied){.accepted = 1});
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
    c->people = df_subjects_in(w->access->keys, df_req_body(w->req), df_req_arena(w->req));
    df_log_ctx_set(df_req_log(w->req), "businessDocId", c->party.doc.business_doc_id);
    return true;
}

static const struct df_handler post_counterparty = {
    .size = sizeof(struct call),
    .writes = true,
    .prepare = read_document,
    .run = run_post_counterparty,
    .done = counterparty_posted,
};

/* --- ETags --- */

/* The version grows with every payload and every PATCH. UpdatedAt is there for payloads that an
 * older version of the program writes, which knows no versions; the id for a row that was deleted
 * and made anew. c->id is set. */
static void set_etag(struct call *c, int64_t version, int64_t updated_ms)
{
    snprintf(c->etag, sizeof(c->etag), "\"%lld-%lld-%lld\"", (long long)c->id, (long long)version,
             (long long)(updated_ms < 0 ? 0 : updated_ms));
}

static void add_etag(struct call *c)
{
    if (c->etag[0])
        (void)df_req_add_header(c->w.req, "ETag", df_str_c(c->etag));
}

/* Whether one of the entity tags in a list is the row's. Weak ones are not. */
static bool etag_matches(struct df_str list, struct df_str etag)
{
    while (list.len > 0) {
        const char *comma = memchr(list.ptr, ',', list.len);
        size_t len = comma ? (size_t)(comma - list.ptr) : list.len;
        if (df_str_eq(df_str_trim((struct df_str){list.ptr, len}), etag))
            return true;
        len += comma ? 1 : 0;
        list = (struct df_str){list.ptr + len, list.len - len};
    }
    return false;
}

/* --- GET /api/counterparties --- */

static void write_columns(struct df_json_out *j, const struct df_result *r)
{
    df_json_kv_int(j, "id", df_col_int(r, counterparty_Id));
    df_json_kv_text(j, "businessDocId", df_col_text(r, counterparty_BusinessDocId));
    df_json_kv_text(j, "businessAppId", df_col_text(r, counterparty_BusinessAppId));
    df_json_kv_text(j, "businessEntity", df_col_text(r, counterparty_BusinessEntity));
    df_json_kv_text(j, "originalBusinessDocId", df_col_text(r, counterparty_OriginalBusinessDocId));
    df_json_kv_text(j, "counterpartyId", df_col_text(r, counterparty_CounterpartyId));
    df_json_kv_text(j, "entityType", df_col_text(r, counterparty_EntityType));
    df_json_kv_text(j, "name", df_col_text(r, counterparty_Name));
    df_json_kv_text(j, "localName", df_col_text(r, counterparty_LocalName));
    df_json_kv_text(j, "searchName", df_col_text(r, counterparty_SearchName));
    df_json_kv_text(j, "referenceCode", df_col_text(r, counterparty_ReferenceCode));
    df_json_kv_bool(j, "isDeleted", df_col_bool(r, counterparty_IsDeleted));
    df_json_kv_text(j, "source", df_col_text(r, counterparty_Source));
    df_json_kv_text(j, "status", df_col_text(r, counterparty_Status));
    df_json_kv_text(j, "statusMessage", df_col_text(r, counterparty_StatusMessage));
    df_json_kv_time(j, "createdAt", df_col_time(r, counterparty_CreatedAt));
    df_json_kv_time(j, "updatedAt", df_col_time(r, counterparty_UpdatedAt));
}

static void write_item(void *arg, struct df_result *r)
{
    struct df_json_out *j = &((struct df_work *)arg)->json;

    df_json_open(j, '{');
    write_columns(j, r);
    df_json_close(j, '}');
}

static void write_address(void *arg, struct df_result *r)
{
    struct df_json_out *j = &((struct df_work *)arg)->json;

    df_json_open(j, '{');
    df_json_kv_text(j, "addressTypeCode", df_col_text(r, counterparty_addresses_AddressTypeCode));
    df_json_kv_text(j, "addressTypeName", df_col_text(r, counterparty_addresses_AddressTypeName));
    df_json_kv_text(j, "phone", df_col_text(r, counterparty_addresses_Phone));
    df_json_kv_text(j, "fax", df_col_text(r, counterparty_addresses_Fax));
    df_json_kv_text(j, "addrLine1", df_col_text(r, counterparty_addresses_AddrLine1));
    df_json_kv_text(j, "addrLine2", df_col_text(r, counterparty_addresses_AddrLine2));
    df_json_kv_text(j, "cityCode", df_col_text(r, counterparty_addresses_CityCode));
    df_json_kv_text(j, "zipCode", df_col_text(r, counterparty_addresses_ZipCode));
    df_json_kv_text(j, "state", df_col_text(r, counterparty_addresses_State));
    df_json_kv_text(j, "district", df_col_text(r, counterparty_addresses_District));
    df_json_kv_bool(j, "isMainAddress", df_col_bool(r, counterparty_addresses_IsMainAddress));
    df_json_kv_bool(j, "isDeleted", df_col_bool(r, counterparty_addresses_IsDeleted));
    df_json_close(j, '}');
}

static void write_fiscal(void *arg, struct df_result *r)
{
    struct df_json_out *j = &((struct df_work *)arg)->json;

    df_json_open(j, '{');
    df_json_kv_text(j, "fiscalReferenceTypeCode",
                    df_col_text(r, counterparty_fiscal_FiscalReferenceTypeCode));
    df_json_kv_text(j, "fiscalReferenceTypeName",
                    df_col_text(r, counterparty_fiscal_FiscalReferenceTypeName));
    df_json_kv_text(j, "fiscalNumber", df_col_text(r, counterparty_fiscal_FiscalNumber));
    df_json_close(j, '}');
}

static enum df_code write_payload(struct df_db *db, struct call *c, struct df_err *err)
{
    int64_t room = df_shown_room(df_interface_options_of(c->w.arg));
    struct df_shown shown;
    enum df_code code = df_shown_counterparty(db, c->id, &room, c->w.req, &shown, err);
    df_json_kv_text(&c->w.json, "rawPayload", shown.raw);
    return code;
}

static void write_row(void *arg, struct df_result *r)
{
    struct call *c = arg;

    c->id = df_col_int(r, counterparty_Id);
    set_etag(c, df_col_int(r, counterparty_Version), df_col_time(r, counterparty_UpdatedAt));
    write_columns(&c->w.json, r);
}

static enum df_code write_found(struct df_db *db, struct call *c, struct df_err *err)
{
    const struct df_query *q = c->reach.all ? &df_q_counterparty_get : &df_q_own_counterparty_get;
    bool found = false;
    enum df_code code = df_db_one(db,
                                  DF_ANY(q, {"business_doc_id", df_text(c->business_doc_id)},
                                         {"business_entity", df_text(c->business_entity)},
                                         {"client", df_reach_client(&c->reach)}),
                                  write_row, c, &found, err);

    if (code == DF_OK && !found)
        return df_err_set(err, DF_E_NOT_FOUND, "There is no such counterparty.");
    return code;
}

static enum df_code write_parent(struct df_db *db, struct call *c, struct df_err *err)
{
    enum df_code code = write_found(db, c, err);
    return code == DF_OK ? write_payload(db, c, err) : code;
}

static enum df_code write_children(struct df_db *db, struct call *c, struct df_err *err)
{
    struct df_json_out *j = &c->w.json;
    struct df_value id = df_int(c->id);

    df_json_key(j, "addresses");
    df_json_open(j, '[');
    enum df_code code =
        df_db_each(db, DF_Q(counterparty_addresses, .id = id), write_address, c, err);
    df_json_close(j, ']');
    if (code != DF_OK)
        return code;
    df_json_key(j, "fiscalReferences");
    df_json_open(j, '[');
    code = df_db_each(db, DF_Q(counterparty_fiscal, .id = id), write_fiscal, c, err);
    df_json_close(j, ']');
    return code;
}

/* A transaction, so that the children belong to the row that is read. */
static enum df_code run_get_one(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    enum df_code code = df_db_begin(db, false, err);
    if (code != DF_OK)
        return code;
    df_json_open(&w->json, '{');
    code = write_parent(db, c, err);
    if (code == DF_OK)
        code = write_children(db, c, err);
    df_json_close(&w->json, '}');
    df_db_rollback(db); /* nothing was written */
    return code;
}

static struct df_list_query counterparty_keys(const struct call *c)
{
    bool own = !c->reach.all;

    if (c->counterparty_id.ptr || c->fiscal_number.ptr)
        return own ? (struct df_list_query){DF_LIST_KEYS(own_counterparty_find_keys)}
                   : (struct df_list_query){DF_LIST_KEYS(counterparty_find_keys)};
    if (c->status.ptr)
        return own ? (struct df_list_query){DF_LIST_KEYS(own_counterparty_of_status_keys)}
                   : (struct df_list_query){DF_LIST_KEYS(counterparty_of_status_keys)};
    return own ? (struct df_list_query){DF_LIST_KEYS(own_counterparty_keys)}
               : (struct df_list_query){DF_LIST_KEYS(counterparty_keys)};
}

static enum df_code run_list_counterparties(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct call *c = (const struct call *)w;
    struct df_list_query keys = counterparty_keys(c);
    struct df_list_query q = {
        .newest = keys.newest,
        .oldest = keys.oldest,
        .rows = &df_q_counterparty_rows,
        DF_LIST_FILTER({"business_entity", df_text(c->business_entity)},
                       {"entity_type", df_text(c->entity_type)},
                       {"counterparty_id", df_text(c->counterparty_id)},
                       {"fiscal_number", df_text(c->fiscal_number)}, {"status", df_text(c->status)},
                       {"client", df_reach_client(&c->reach)}),
    };

    return df_work_list(w, db, &q, write_item, err);
}

static enum df_code run_get_counterparties(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct call *c = (const struct call *)w;
    return c->business_doc_id.ptr ? run_get_one(db, w, err) : run_list_counterparties(db, w, err);
}

static void counterparty_shown(struct df_work *w)
{
    add_etag((struct call *)w);
}

static bool read_counterparty_filter(struct df_work *w, struct df_input *in)
{
    static const char *const states[] = {"Received", "Processed", "Error", NULL};
    struct call *c = (struct call *)w;
    struct df_req *req = w->req;

    df_req_buf(req, &w->out, df_shown_answer_max(df_interface_options_of(w->arg)));
    c->reach = df_reach_of(req);
    c->business_doc_id = df_input_filter(req, "businessDocId");
    c->business_entity = df_input_filter(req, "businessEntity");
    c->entity_type = df_input_filter(req, "entityType");
    c->counterparty_id = df_input_filter(req, "counterpartyId");
    c->fiscal_number = df_input_filter(req, "fiscalNumber");
    c->status = df_input_choice(in, req, "status", states);
    if (!c->business_doc_id.ptr)
        df_page_read_list(in, req, "counterparties", false, &w->page);
    return true;
}

static const struct df_handler get_counterparties = {
    .size = sizeof(struct call),
    .prepare = read_counterparty_filter,
    .run = run_get_counterparties,
    .done = counterparty_shown,
};

/* --- PATCH /api/counterparties --- */

static void read_locked(void *arg, struct df_result *r)
{
    struct call *c = arg;

    c->id = df_col_int(r, counterparty_lock_Id);
    c->version = df_col_int(r, counterparty_lock_Version);
    set_etag(c, c->version, df_col_time(r, counterparty_lock_UpdatedAt));
}

static enum df_code lock_counterparty(struct df_db *db, struct call *c, struct df_err *err)
{
    bool found = false;
    enum df_code code =
        df_db_one(db,
                  DF_Q(counterparty_lock, .business_doc_id = df_text(c->business_doc_id),
                       .business_entity = df_text(c->business_entity)),
                  read_locked, c, &found, err);

    if (code == DF_OK && !found)
        return df_err_set(err, DF_E_NOT_FOUND, "There is no such counterparty.");
    if (code == DF_OK && !etag_matches(c->if_match, df_str_c(c->etag)))
        return df_err_set(err, DF_E_PRECONDITION,
                          "The counterparty has changed: read it again, with its ETag.");
    return code;
}

static enum df_code run_patch_counterparty(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    int64_t changed = 0;
    enum df_code code = lock_counterparty(db, c, err);
    if (code == DF_OK)
        code = df_db_exec(db,
                          DF_Q(counterparty_settle, .status = df_text(c->status),
                               .message = df_text(c->message), .now = df_time(w->now_ms),
                               .id = df_int(c->id), .version = df_int(c->version)),
                          &changed, err);
    if (code == DF_OK && changed == 0)
        return df_err_set(err, DF_E_DB_CONFLICT, "the counterparty is being written by another");
    if (code != DF_OK)
        return code;
    df_json_open(&w->json, '{');
    code = write_found(db, c, err);
    df_json_close(&w->json, '}');
    return code;
}

static void counterparty_settled(struct df_work *w)
{
    struct call *c = (struct call *)w;
    struct df_log_field fields[] = {DF_FI("id", c->id), DF_F("status", c->status)};

    add_etag(c);
    df_log_write(DF_LOG_INFO, "CounterpartySettled", fields, 2,
                 "the counterparty was taken by another system");
}

/* "*" names no version: it is as if there were no field. */
static bool read_if_match(struct call *c)
{
    c->if_match = df_str_trim(df_req_header(c->w.req, "If-Match"));
    if (c->if_match.len > 0 && !df_str_eq(c->if_match, DF_STR("*")))
        return true;
    df_req_fail(c->w.req, DF_E_NO_PRECONDITION,
                "If-Match must have the ETag of the counterparty that was read.");
    return false;
}

static bool read_settlement(struct df_work *w, struct df_input *in)
{
    static const char *const states[] = {"Processed", "Error"};
    struct call *c = (struct call *)w;

    if (!df_input_json(in, w->req))
        return false;
    c->reach = df_reach_of(w->req);
    c->business_doc_id = df_input_filter(w->req, "businessDocId");
    c->business_entity = df_input_filter(w->req, "businessEntity");
    if (!c->business_doc_id.ptr)
        df_input_error(in, "businessDocId", "is required");
    struct df_str status = df_input_text(in, "status", 30, DF_REQUIRED);
    for (size_t i = 0; i < sizeof(states) / sizeof(*states) && status.ptr; i++) {
        if (df_str_ieq(status, df_str_c(states[i])))
            c->status = df_str_c(states[i]);
    }
    if (status.ptr && !c->status.ptr)
        df_input_error(in, "status", "must be Processed or Error");
    c->message = df_mask_note(df_input_text(in, "message", SIZE_MAX, DF_OPTIONAL), MESSAGE_MAX,
                              df_req_arena(w->req));
    return in->error_count > 0 || read_if_match(c);
}

static const struct df_handler patch_counterparty = {
    .size = sizeof(struct call),
    .writes = true,
    .prepare = read_settlement,
    .run = run_patch_counterparty,
    .done = counterparty_settled,
};

#define ROUTE(m, kind, scope, h)                                                                   \
    DF_ROUTE(m, "/api/counterparties", kind, DF_ACCESS_CLIENT, scope, h)

const struct df_route df_counterparty_routes[] = {
    ROUTE("POST", DF_BODY_JSON, "interface", post_counterparty),
    ROUTE("GET", DF_BODY_NONE, "interface", get_counterparties),
    ROUTE("PATCH", DF_BODY_JSON, "interface-all", patch_counterparty),
    {.method = NULL},
};
