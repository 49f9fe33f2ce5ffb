#include "interface/shown.h"

#include "interface/shown.sql.h"
#include "interface/tickets.sql.h"

#define ROOM_MIN ((int64_t)8 << 20)

int64_t df_shown_room(const struct df_interface_options *opt)
{
    int64_t room = opt->max_body_bytes * 4;
    return room > ROOM_MIN ? room : ROOM_MIN;
}

size_t df_shown_answer_max(const struct df_interface_options *opt)
{
    /* The columns of a thousand addresses fit into 8 MiB. */
    return (size_t)df_shown_room(opt) * 2 + ((size_t)8 << 20);
}

struct fetching {
    struct df_req *req;
    int64_t *room;
    struct df_shown *ret;
    bool no_memory;
};

static void read_shown(void *arg, struct df_result *r)
{
    struct fetching *f = arg;
    struct df_arena *a = df_req_arena(f->req);
    struct df_str callback = df_col_text(r, shown_Callback);

    f->ret->raw = df_arena_str(a, df_col_text(r, shown_Raw));
    *f->room -= (int64_t)f->ret->raw.len;
    if ((int64_t)callback.len <= *f->room)
        f->ret->callback = df_arena_str(a, callback);
    *f->room -= (int64_t)f->ret->callback.len;
    f->no_memory = !df_account_take(df_req_account(f->req), f->ret->raw.len + f->ret->callback.len);
}

static enum df_code fetch_payloads(struct df_db *db, const struct df_query *q, int64_t id,
                                   int64_t *room, struct df_req *req, struct df_shown *ret,
                                   struct df_err *err)
{
    struct fetching f = {.req = req, .room = room, .ret = ret};

    *ret = (struct df_shown){0};
    enum df_code code =
        df_db_each(db, DF_ANY(q, {"room", df_int(*room)}, {"id", df_int(id)}), read_shown, &f, err);
    if (code == DF_OK && f.no_memory)
        code = df_err_set(err, DF_E_BUSY, "There is no memory for this answer now.");
    return code;
}

enum df_code df_shown_ticket(struct df_db *db, int64_t id, int64_t *room, struct df_req *req,
                             struct df_shown *ret, struct df_err *err)
{
    return fetch_payloads(db, &df_q_shown_ticket, id, room, req, ret, err);
}

enum df_code df_shown_counterparty(struct df_db *db, int64_t id, int64_t *room, struct df_req *req,
                                   struct df_shown *ret, struct df_err *err)
{
    return fetch_payloads(db, &df_q_shown_counterparty, id, room, req, ret, err);
}

/* --- tickets --- */

static void write_states(const struct df_result *r, struct df_delivery *d, struct df_json_out *out)
{
    df_json_kv_text(out, "status", df_col_text(r, ticket_Status));
    df_json_kv_int(out, "attemptCount", df_col_int(r, ticket_AttemptCount));
    df_json_kv_text(out, "lastError", df_col_text(r, ticket_LastError));
    df_json_kv_time(out, "nextAttemptAt", df_col_time(r, ticket_NextAttemptAt));
    df_json_kv_text(out, "returnStatus", df_col_text(r, ticket_ReturnStatus));
    df_json_kv_int(out, "returnAttemptCount", df_col_int(r, ticket_ReturnAttemptCount));
    df_json_kv_text(out, "returnLastError", df_col_text(r, ticket_ReturnLastError));
    df_json_kv_time(out, "returnLastAttemptAt", df_col_time(r, ticket_ReturnLastAttemptAt));
    df_json_kv_time(out, "returnSentAt", df_col_time(r, ticket_ReturnSentAt));
    df_json_kv_time(out, "returnNextAttemptAt",
                    df_delivery_next_ms(d, "ticket-return", df_col_text(r, ticket_ReturnHeldTarget),
                                        df_col_time(r, ticket_ReturnNextAttemptAt)));
    df_json_kv_text(out, "gatewaySendStatus", df_col_text(r, ticket_GatewaySendStatus));
    df_json_kv_int(out, "gatewaySendAttemptCount", df_col_int(r, ticket_GatewaySendAttemptCount));
    df_json_kv_text(out, "gatewaySendLastError", df_col_text(r, ticket_GatewaySendLastError));
    df_json_kv_time(out, "gatewaySendLastAttemptAt",
                    df_col_time(r, ticket_GatewaySendLastAttemptAt));
    df_json_kv_time(out, "gatewaySendSentAt", df_col_time(r, ticket_GatewaySendSentAt));
    df_json_kv_time(out, "gatewaySendNextAttemptAt",
                    df_delivery_next_ms(d, "ticket-gateway",
                                        df_col_text(r, ticket_GatewayHeldTarget),
                                        df_col_time(r, ticket_GatewaySendNextAttemptAt)));
    df_json_kv_text(out, "callbackStatus", df_col_text(r, ticket_CallbackStatus));
    df_json_kv_time(out, "callbackReceivedAt", df_col_time(r, ticket_CallbackReceivedAt));
    df_json_kv_text(out, "callbackCode", df_col_text(r, ticket_CallbackCode));
    df_json_kv_text(out, "callbackMessage", df_col_text(r, ticket_CallbackMessage));
}

void df_shown_write_ticket(const struct df_result *r, const struct df_shown *shown,
                           struct df_delivery *d, struct df_json_out *out)
{
    df_json_kv_int(out, "id", df_col_int(r, ticket_Id));
    df_json_kv_text(out, "businessEntity", df_col_text(r, ticket_BusinessEntity));
    df_json_kv_text(out, "businessDocId", df_col_text(r, ticket_BusinessDocId));
    df_json_kv_int(out, "phaseCode", df_col_int(r, ticket_PhaseCode));
    df_json_kv_text(out, "companyCode", df_col_text(r, ticket_CompanyCode));
    df_json_kv_text(out, "branchCode", df_col_text(r, ticket_BranchCode));
    df_json_kv_text(out, "destinationCode", df_col_text(r, ticket_DestinationCode));
    df_json_kv_text(out, "shipmentEvent", df_col_text(r, ticket_ShipmentEvent));
    df_json_kv_bool(out, "functionalAckIsRequired", df_col_bool(r, ticket_FunctionalAckIsRequired));
    df_json_kv_text(out, "targetApplicationCode", df_col_text(r, ticket_TargetApplicationCode));
    df_json_kv_time(out, "createdAt", df_col_time(r, ticket_CreatedAt));
    df_json_kv_time(out, "updatedAt", df_col_time(r, ticket_UpdatedAt));
    df_json_kv_int(out, "payloadVersion", df_col_int(r, ticket_PayloadVersion));
    write_states(r, d, out);
    if (shown) {
        df_json_kv_text(out, "rawPayloadJson", shown->raw);
        df_json_kv_text(out, "callbackPayloadJson", shown->callback);
    }
}
