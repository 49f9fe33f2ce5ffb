/* GET /admin/alerts and POST /admin/alerts/test. */
#include "access/audit.h"
#include "access/handler.h"
#include "alerts/alerts.sql.h"
#include "alerts/alerts_private.h"

#define ANSWER_MAX ((size_t)16 << 20)

struct call {
    struct df_work w; /* its arg is the alerts */
    struct df_str status;
    struct alert alert; /* of a test */
};

/* --- GET /admin/alerts ------------------------------------------------------------------------ */

static void write_alert(void *arg, struct df_result *r)
{
    struct df_json_out *j = &((struct df_work *)arg)->json;

    df_json_open(j, '{');
    df_json_kv_text(j, "id", df_col_text(r, alert_list_Id));
    df_json_kv_text(j, "rule", df_col_text(r, alert_list_RuleName));
    df_json_kv_text(j, "subject", df_col_text(r, alert_list_Subject));
    df_json_kv_text(j, "severity", df_col_text(r, alert_list_Severity));
    df_json_kv_text(j, "summary", df_col_text(r, alert_list_Summary));
    df_json_key(j, "details");
    df_json_raw(j, df_col_text(r, alert_list_DetailsJson));
    df_json_kv_text(j, "status", df_col_text(r, alert_list_Status));
    df_json_kv_time(j, "firedAt", df_col_time(r, alert_list_FiredAt));
    df_json_kv_time(j, "resolvedAt", df_col_time(r, alert_list_ResolvedAt));
    df_json_close(j, '}');
}

/* Where messages go. None: the alerts are only shown. */
static void write_sinks(const struct df_alerts *a, struct df_json_out *j)
{
    df_json_key(j, "sinks");
    df_json_open(j, '[');
    for (int i = 0; i < ALERT_SINKS; i++) {
        if (alert_sink_configured(a, (enum alert_sink)i))
            df_json_text(j, df_str_c(alert_sink_name((enum alert_sink)i)));
    }
    df_json_close(j, ']');
}

static enum df_code run_list(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct call *c = (const struct call *)w;
    struct df_value status = df_text(c->status);
    enum df_code code =
        df_db_query_int(db, DF_Q(alert_total, .status = status), &w->page.total, err);

    if (code != DF_OK)
        return code;
    df_page_open(&w->json);
    code = df_db_each(db,
                      DF_Q(alert_list, .status = status, .limit = df_int(w->page.size),
                           .offset = df_int(w->page.offset)),
                      write_alert, w, err);
    df_json_close(&w->json, ']');
    df_page_write(&w->page, &w->json);
    write_sinks(w->arg, &w->json);
    df_json_close(&w->json, '}');
    return code;
}

static bool read_status(struct df_work *w, struct df_input *in)
{
    static const char *const states[] = {"firing", "resolved", NULL};

    ((struct call *)w)->status = df_input_choice(in, w->req, "status", states);
    return true;
}

static const struct df_handler list = {
    .size = sizeof(struct call),
    .paged = true,
    .max_answer = ANSWER_MAX,
    .prepare = read_status,
    .run = run_list,
};

/* --- POST /admin/alerts/test ------------------------------------------------------------------ */

/* The alert begins and is over at once, so that nobody has to close an incident. */
static enum df_code run_test(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    const struct df_alerts *a = w->arg;
    struct df_actor by = df_actor_of(w->req);
    int64_t now_ms = c->alert.fired_ms;
    struct df_str id = df_uuid_str(&c->alert.id);
    struct df_arena *arena = df_req_arena(w->req);

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

static void tested(struct df_work *w)
{
    const struct call *c = (const struct call *)w;
    struct df_alerts *a = w->arg;
    struct df_json_out *j = &w->json;

    df_delivery_wake(a->delivery, &a->channel);
    df_json_open(j, '{');
    df_json_kv_text(j, "id", df_uuid_str(&c->alert.id));
    write_sinks(a, j);
    df_json_close(j, '}');
}

static bool make_test(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;
    const struct df_alerts *a = w->arg;

    (void)in;
    if (!alert_sink_configured(a, ALERT_PAGERDUTY) && !alert_sink_configured(a, ALERT_TEAMS)) {
        df_req_fail(w->req, DF_E_CONFLICT,
                    "Neither alerts.pagerduty_routing_key nor alerts.teams_url is set.");
        return false;
    }
    c->alert = (struct alert){
        .id = df_uuid_v7(w->access->clock),
        .rule = ALERT_TEST,
        .subject = DF_STR("test"),
        .severity = DF_STR("info"),
        .summary = DF_STR("A test of DataFlow's alerts: nothing is wrong"),
        .details = DF_STR("{\"requestedBy\":\"admin\"}"),
        .fired_ms = w->now_ms,
    };
    return true;
}

static const struct df_handler test = {
    .size = sizeof(struct call),
    .writes = true,
    .status = 202,
    .prepare = make_test,
    .run = run_test,
    .done = tested,
};

#define ADMIN(m, path, kind, h) DF_ROUTE(m, "/admin/alerts" path, kind, DF_ACCESS_ADMIN, NULL, h)

const struct df_route df_alert_routes[] = {
    ADMIN("GET", "", DF_BODY_NONE, list),
    DF_ROUTE("POST", "/admin/alerts/test", DF_BODY_ANY, DF_ACCESS_ADMIN, DF_NEEDS_OPERATE, test),
    {.method = NULL},
};
