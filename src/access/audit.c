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
    return df_db_exec(db, &df_q_audit_insert,
                      DF_PARAMS(df_time(now_ms), df_text(by->name), df_text(df_str_c(action)),
                                df_text(target), df_uuid(client_id), df_text(by->ip),
                                df_text(by->correlation_id), df_text(details)),
                      NULL, err);
}

static void write_row(struct df_result *r, struct df_json_out *out)
{
    df_json_open(out, '{');
    df_json_kv_int(out, "id", df_col_int(r, 0));
    df_json_kv_time(out, "occurredAt", df_col_time(r, 1));
    df_json_kv_text(out, "actor", df_col_text(r, 2));
    df_json_kv_text(out, "action", df_col_text(r, 3));
    df_json_kv_text(out, "target", df_col_text(r, 4));
    df_json_kv_text(out, "ip", df_col_text(r, 5));
    df_json_kv_text(out, "correlationId", df_col_text(r, 6));
    if (!df_col_null(r, 7)) {
        df_json_key(out, "details");
        df_json_raw(out, df_col_text(r, 7));
    }
    df_json_close(out, '}');
}

enum df_code df_audit_list(struct df_db *db, int64_t limit, int64_t offset, struct df_json_out *out,
                           int64_t *ret_total, struct df_err *err)
{
    enum df_code code = df_db_query_int(db, &df_q_audit_count, DF_NO_PARAMS, ret_total, err);
    if (code != DF_OK)
        return code;
    struct df_result *r = NULL;
    code = df_db_query(db, &df_q_audit_list, DF_PARAMS(df_int(limit), df_int(offset)), &r, err);
    if (code != DF_OK)
        return code;
    while ((code = df_result_step(r, err)) == DF_ROW)
        write_row(r, out);
    df_result_free(r);
    return code == DF_DONE ? DF_OK : code;
}
