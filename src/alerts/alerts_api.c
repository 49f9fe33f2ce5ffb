/* GET /admin/alerts and POST /admin/alerts/test. */
#include "access/audit.h"
#include "access/services.h"
#include "alerts/alerts.sql.h"
#include "alerts/alerts_private.h"
#include "net/input.h"

#define ANSWER_MAX ((size_t)16 << 20)

/* One call on its way. Lives in the request's arena. */
struct call {
    struct df_job job;
    struct df_req *req;
    const struct df_services *services;
    struct df_str status;
    struct df_page page;
    struct alert alert; /* of a test */
    struct df_buf out;
};

static struct call *call_new(struct df_req *req)
{
    struct call *c = DF_ARENA_NEW(df_req_arena(req), struct call);

    c->req = req;
    c->services = df_services_of(req);
    df_req_buf(req, &c->out, ANSWER_MAX);
    return c;
}

static void finish(struct call *c, unsigned status, enum df_code code, const struct df_err *err)
{
    df_req_finish(c->req, status, &c->out, code, err);
}

/* --- GET /admin/alerts ------------------------------------------------------------------------ */

static void write_alert(const struct df_result *r, struct df_json_out *j)
{
    df_json_open(j, '{');
    df_json_kv_text(j, "id", df_col_text(r, 0));
    df_json_kv_text(j, "rule", df_col_text(r, 1));
    df_json_kv_text(j, "subject", df_col_text(r, 2));
    df_json_kv_text(j, "severity", df_col_text(r, 3));
    df_json_kv_text(j, "summary", df_col_text(r, 4));
    df_json_key(j, "details");
    df_json_raw(j, df_col_text(r, 5));
    df_json_kv_text(j, "status", df_col_text(r, 6));
    df_json_kv_time(j, "firedAt", df_col_time(r, 7));
    df_json_kv_time(j, "resolvedAt", df_col_time(r, 8));
    df_json_close(j, '}');
}

static enum df_code run_list(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    struct df_json_out j;
    struct df_result *r = NULL;
    struct df_value status = df_text(c->status);
    enum df_code code =
        df_db_query_int(db, &df_q_alert_total, DF_PARAMS(status), &c->page.total, err);

    if (code == DF_OK)
        code =
            df_db_query(db, &df_q_alert_list,
                        DF_PARAMS(status, df_int(c->page.size), df_int(c->page.offset)), &r, err);
    if (code != DF_OK)
        return code;
    df_buf_reset(&c->out);
    df_json_out_init(&j, &c->out);
    df_page_open(&j);
    while ((code = df_result_step(r, err)) == DF_ROW)
        write_alert(r, &j);
    df_page_close(&c->page, &j);
    df_result_free(r);
    return code == DF_DONE ? DF_OK : code;
}

static void list_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    finish((struct call *)job, 200, code, err);
}

static void handle_list(struct df_req *req)
{
    struct call *c = call_new(req);
    static const char *const states[] = {"firing", "resolved", NULL};
    struct df_input in;

    if (!df_input_page(req, &c->page))
        return;
    df_input_init(&in, df_req_arena(req), NULL);
    c->status = df_input_choice(&in, req, "status", states);
    if (!df_input_ok(&in, req))
        return;
    c->job.run = run_list;
    c->job.done = list_done;
    df_req_read(req, &c->job);
}

/* --- POST /admin/alerts/test ------------------------------------------------------------------ */

/* It begins and is over at once, so that nobody has an incident to close. */
static enum df_code run_test(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    const struct df_alerts *a = c->services->alerts;
    struct df_actor by = df_actor_of(c->req);
    int64_t now_ms = c->alert.fired_ms;
    struct df_str id = df_uuid_str(&c->alert.id);
    struct df_arena *arena = df_req_arena(c->req);

    c->alert.resolved_ms = now_ms;
    enum df_code code = alert_insert(db, &c->alert, err);
    c->alert.resolved_ms = -1;
    if (code == DF_OK)
        code = alert_send(a, db, ALERT_TRIGGER, &c->alert, now_ms, arena, err);
    c->alert.resolved_ms = now_ms;
    if (code == DF_OK)
        code = alert_send(a, db, ALERT_RESOLVE, &c->alert, now_ms, arena, err);
    if (code == DF_OK)
        code = df_audit_write(db, &by, "AlertTested", id, DF_STR_NULL, DF_STR_NULL, now_ms, err);
    return code;
}

static void test_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct call *c = (struct call *)job;
    struct df_alerts *a = c->services->alerts;
    struct df_json_out j;

    if (code == DF_OK) {
        df_delivery_wake(a->delivery, &a->channel);
        df_json_out_init(&j, &c->out);
        df_json_open(&j, '{');
        df_json_kv_text(&j, "id", df_uuid_str(&c->alert.id));
        df_json_key(&j, "sinks");
        df_json_open(&j, '[');
        for (int i = 0; i < ALERT_SINKS; i++) {
            if (alert_sink_configured(a, (enum alert_sink)i))
                df_json_text(&j, df_str_c(alert_sink_name((enum alert_sink)i)));
        }
        df_json_close(&j, ']');
        df_json_close(&j, '}');
    }
    finish(c, 202, code, err);
}

static void handle_test(struct df_req *req)
{
    struct call *c = call_new(req);
    const struct df_alerts *a = c->services->alerts;

    if (!alert_sink_configured(a, ALERT_PAGERDUTY) && !alert_sink_configured(a, ALERT_TEAMS)) {
        df_req_fail(req, DF_E_CONFLICT,
                    "Neither alerts.pagerduty_routing_key nor alerts.teams_url is set.");
        return;
    }
    c->alert = (struct alert){
        .id = df_uuid_v7(c->services->clock),
        .rule = ALERT_TEST,
        .subject = DF_STR("test"),
        .severity = DF_STR("info"),
        .summary = DF_STR("A test of DataFlow's alerts: nothing is wrong"),
        .details = DF_STR("{\"requestedBy\":\"admin\"}"),
        .fired_ms = df_wall_ms(c->services->clock),
    };
    c->job.run = run_test;
    c->job.done = test_done;
    df_req_write(req, &c->job);
}

#define ADMIN(m, path, kind, fn)                                                                   \
    {                                                                                              \
        .method = m, .pattern = path, .body = kind, .access = DF_ACCESS_ADMIN, .handle = fn        \
    }

const struct df_route df_alert_routes[] = {
    ADMIN("GET", "/admin/alerts", DF_BODY_NONE, handle_list),
    ADMIN("POST", "/admin/alerts/test", DF_BODY_ANY, handle_test),
    {.method = NULL},
};
