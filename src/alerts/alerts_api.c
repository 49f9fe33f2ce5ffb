/* GET /admin/alerts and POST /admin/alerts/test. */
#include "access/audit.h"
#include "access/handler.h"
#include "access/list.h"
#include "alerts/alerts.sql.h"
#include "alerts/alerts_private.h"

#define ANSWER_MAX ((size_t)16 << 20)
#define NOTE_MAX   500 /* characters: Alerts.AcknowledgedNote */

struct call {
    struct df_work w; /* its arg is the alerts */
    struct df_str status, rule;
    struct alert alert; /* of a test */
    struct df_uuid id;  /* of an acknowledgement */
    struct df_str note;
    bool take_back, is_resolved;
};

/* --- GET /admin/alerts ------------------------------------------------------------------------ */

static void write_alert(void *arg, struct df_result *r)
{
    struct df_work *w = arg;
    struct df_json_out *j = &w->json;

    df_json_open(j, '{');
    df_json_kv_text(j, "id", df_col_text(r, alert_list_Id));
    df_json_kv_text(j, "rule", df_col_text(r, alert_list_RuleName));
    df_json_kv_text(j, "subject", df_col_text(r, alert_list_Subject));
    df_json_kv_text(j, "severity", df_col_text(r, alert_list_Severity));
    df_json_kv_told(j, "summary", df_col_text(r, alert_list_Summary));
    df_json_key(j, "details");
    df_json_raw(j, df_col_text(r, alert_list_DetailsJson));
    df_json_kv_text(j, "status", df_col_text(r, alert_list_Status));
    df_json_kv_time(j, "firedAt", df_col_time(r, alert_list_FiredAt));
    df_json_kv_time(j, "resolvedAt", df_col_time(r, alert_list_ResolvedAt));
    df_json_kv_text(j, "acknowledgedBy", df_col_text(r, alert_list_AcknowledgedBy));
    df_json_kv_time(j, "acknowledgedAt", df_col_time(r, alert_list_AcknowledgedAt));
    df_json_kv_text(j, "acknowledgedNote", df_col_text(r, alert_list_AcknowledgedNote));
    df_json_kv_bool(j, "silenced", !df_col_null(r, alert_list_SilencedBy));
    df_json_kv_text(j, "link",
                    alert_link(df_col_text(r, alert_list_RuleName), df_col_text(r, alert_list_Id),
                               df_col_text(r, alert_list_Subject),
                               df_col_text(r, alert_list_DetailsJson), df_req_arena(w->req)));
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
    struct df_list_query q = {
        DF_LIST_KEYS(alert_keys),
        .rows = &df_q_alert_list,
        DF_LIST_FILTER({"status", df_text(c->status)}, {"rule", df_text(c->rule)}),
    };

    df_page_open(&w->json);
    enum df_code code = df_list_page(db, &q, &w->page, df_req_arena(w->req), write_alert, w, err);
    df_json_close(&w->json, ']');
    df_page_write(&w->page, &w->json);
    write_sinks(w->arg, &w->json);
    df_json_close(&w->json, '}');
    return code;
}

static bool read_status(struct df_work *w, struct df_input *in)
{
    static const char *const states[] = {"firing", "resolved", NULL};

    struct call *c = (struct call *)w;
    enum alert_rule rule;

    c->status = df_input_choice(in, w->req, "status", states);
    c->rule = df_input_filter(w->req, "rule");
    if (c->rule.ptr && !alert_rule_parse(c->rule, &rule))
        df_input_error(in, "rule", "is none of the rules of alerts");
    return true;
}

static const struct df_handler list = {
    .size = sizeof(struct call),
    .list = "alerts",
    .list_by_uuid = true,
    .max_answer = ANSWER_MAX,
    .tells = true,
    .prepare = read_status,
    .run = run_list,
};

/* --- POST and DELETE /admin/alerts/{id}/acknowledge ------------------------------------------- */

static void note_status(void *arg, struct df_result *r)
{
    struct call *c = arg;

    c->is_resolved = !df_col_null(r, alert_list_ResolvedAt);
    write_alert(&c->w, r);
}

static enum df_code run_acknowledge(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct df_actor by = df_actor_of(w->req);
    struct df_str id = df_uuid_str(&c->id);
    struct df_str ids =
        df_arena_printf(df_req_arena(w->req), "[\"" DF_STR_FMT "\"]", DF_STR_ARG(id));
    const struct df_query *q = c->take_back ? &df_q_alert_unacknowledge : &df_q_alert_acknowledge;
    int64_t changed = 0;
    bool found = false;
    enum df_code code =
        df_db_exec(db,
                   DF_ANY(q, {"id", df_uuid(id)}, {"by", df_text(df_utf8_cut(by.name, 200))},
                          {"now", df_time(w->now_ms)}, {"note", df_text(c->note)}),
                   &changed, err);

    if (code == DF_OK && changed > 0)
        code = df_audit_write(db, &by, c->take_back ? "AlertUnacknowledged" : "AlertAcknowledged",
                              id, DF_STR_NULL, DF_STR_NULL, w->now_ms, err);
    if (code == DF_OK)
        code = df_db_one(db, DF_Q(alert_list, .ids = df_text(ids), .oldest = df_int(0)),
                         note_status, c, &found, err);
    if (code == DF_OK && !found)
        return df_err_set(err, DF_E_NOT_FOUND, "There is no such alert.");
    if (code == DF_OK && c->is_resolved && !c->take_back && changed == 0)
        return df_err_set(err, DF_E_CONFLICT, "The alert is over: there is nothing to look after.");
    return code;
}

static bool read_alert_id(struct df_work *w)
{
    struct call *c = (struct call *)w;

    if (df_uuid_parse(df_req_param(w->req, "id"), &c->id))
        return true;
    df_req_fail(w->req, DF_E_NOT_FOUND, "There is no such alert.");
    return false;
}

static bool read_acknowledgement(struct df_work *w, struct df_input *in)
{
    static const char *const known[] = {"note", NULL};
    struct call *c = (struct call *)w;

    if (!read_alert_id(w))
        return false;
    if (df_req_body(w->req).len == 0)
        return true;
    if (!df_input_json(in, w->req))
        return false;
    df_input_only(in, known);
    c->note = df_input_text(in, "note", NOTE_MAX, DF_OPTIONAL);
    return true;
}

static bool read_taking_back(struct df_work *w, struct df_input *in)
{
    (void)in;
    ((struct call *)w)->take_back = true;
    return read_alert_id(w);
}

#define ACKNOWLEDGE                                                                                \
    .size = sizeof(struct call), .writes = true, .max_answer = ANSWER_MAX, .tells = true,          \
    .run = run_acknowledge

static const struct df_handler acknowledge = {ACKNOWLEDGE, .prepare = read_acknowledgement};
static const struct df_handler unacknowledge = {ACKNOWLEDGE, .prepare = read_taking_back};

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

#define OPERATE(m, path, kind, h)                                                                  \
    DF_ROUTE(m, "/admin/alerts" path, kind, DF_ACCESS_ADMIN, DF_NEEDS_OPERATE, h)

const struct df_route df_alert_routes[] = {
    ADMIN("GET", "", DF_BODY_NONE, list),
    OPERATE("POST", "/{id}/acknowledge", DF_BODY_JSON, acknowledge),
    OPERATE("DELETE", "/{id}/acknowledge", DF_BODY_ANY, unacknowledge),
    DF_ROUTE("POST", "/admin/alerts/test", DF_BODY_ANY, DF_ACCESS_ADMIN, DF_NEEDS_OPERATE, test),
    {.method = NULL},
};
