#include "access/audit.h"

#include "access/audit.sql.h"
#include "json/write.h"

struct df_actor df_actor_of(const struct df_req *req)
{
    return (struct df_actor){.name = DF_STR("admin"),
                             .ip = df_req_peer(req),
                             .correlation_id = df_req_correlation_id(req)};
}

enum df_code df_audit_write(struct df_db *db, const struct df_actor *by, const char *action,
                            struct df_str target, struct df_str client_id, struct df_str details,
                            int64_t now_ms, struct df_err *err)
{
    return df_db_exec(db,
                      DF_Q(audit_insert, .occurred_at = df_time(now_ms), .actor = df_text(by->name),
                           .action = df_text(df_str_c(action)), .target = df_text(target),
                           .client_id = df_uuid(client_id), .ip = df_text(by->ip),
                           .correlation_id = df_text(by->correlation_id),
                           .details = df_text(details)),
                      NULL, err);
}

static void write_audit_row(void *arg, struct df_result *r)
{
    struct df_json_out *out = arg;

    df_json_open(out, '{');
    df_json_kv_int(out, "id", df_col_int(r, audit_list_Id));
    df_json_kv_time(out, "occurredAt", df_col_time(r, audit_list_OccurredAt));
    df_json_kv_text(out, "actor", df_col_text(r, audit_list_Actor));
    df_json_kv_text(out, "action", df_col_text(r, audit_list_Action));
    df_json_kv_text(out, "target", df_col_text(r, audit_list_Target));
    df_json_kv_text(out, "ip", df_col_text(r, audit_list_Ip));
    df_json_kv_text(out, "correlationId", df_col_text(r, audit_list_CorrelationId));
    if (!df_col_null(r, audit_list_DetailsJson)) {
        df_json_key(out, "details");
        df_json_raw(out, df_col_text(r, audit_list_DetailsJson));
    }
    df_json_close(out, '}');
}

enum df_code df_audit_list(struct df_db *db, int64_t limit, int64_t offset, struct df_json_out *out,
                           int64_t *ret_total, struct df_err *err)
{
    enum df_code code = df_db_query_int(db, DF_Q0(audit_count), ret_total, err);
    if (code != DF_OK)
        return code;
    return df_db_each(db, DF_Q(audit_list, .limit = df_int(limit), .offset = df_int(offset)),
                      write_audit_row, out, err);
}
