/*
 * Silences: alerts that are recorded and not sent for a while, by rule, client or target. And the
 * page of the console that an alert leads to.
 *
 * /admin/alert-silences: whoever plans work on a peer says so beforehand. A silence ends by itself,
 * after 30 days at most, lest one is forgotten.
 */
#include "access/audit.h"
#include "access/handler.h"
#include "alerts/alerts.sql.h"
#include "alerts/alerts_private.h"
#include "json/doc.h"

#define DAY_MS     (INT64_C(24) * 3600 * 1000)
#define LONGEST_MS (30 * DAY_MS)
#define REASON_MAX 500
#define TARGET_MAX 1000
#define ANSWER_MAX ((size_t)2 << 20)

/* --- which alerts --- */

static struct df_str member_text(const struct df_json *details, const char *name)
{
    const struct df_json *m = details ? df_json_get(details, name) : NULL;

    return m && m->type == DF_JSON_STRING ? m->text : DF_STR_NULL;
}

static const struct df_json *read_details(struct df_str text, struct df_arena *arena)
{
    const struct df_json *details = NULL;
    struct df_err ignored = DF_ERR_INIT;

    return df_json_parse(arena, text, &details, &ignored) == DF_OK ? details : NULL;
}

static bool is_about(const struct alert_silence *s, const struct alert *alert,
                     const struct df_json *details)
{
    struct df_str target = member_text(details, "target");

    if (s->rule.ptr && !df_str_eq(s->rule, df_str_c(alert_rule_name(alert->rule))))
        return false;
    if (s->client.ptr && !df_str_eq(s->client, member_text(details, "clientId")))
        return false;
    return !s->target.ptr || df_str_eq(s->target, target) || df_str_eq(s->target, alert->subject) ||
           df_str_eq(s->target, member_text(details, "channel"));
}

struct df_str alert_silence_of(const struct df_list *silences, const struct alert *alert,
                               struct df_arena *arena)
{
    const struct df_json *details =
        silences->count > 0 ? read_details(alert->details, arena) : NULL;
    const struct alert_silence *s;

    DF_LIST_EACH (s, silences, link)
        if (is_about(s, alert, details))
            return s->id;
    return DF_STR_NULL;
}

struct reading {
    struct df_arena *arena;
    struct df_list *to;
};

static void read_silence(void *arg, struct df_result *r)
{
    struct reading *g = arg;
    struct alert_silence *s = DF_ARENA_NEW(g->arena, struct alert_silence);

    s->id = df_arena_str(g->arena, df_col_text(r, alert_silences_Id));
    s->rule = df_arena_str(g->arena, df_col_text(r, alert_silences_RuleName));
    s->client = df_arena_str(g->arena, df_col_text(r, alert_silences_ClientIdentifier));
    s->target = df_arena_str(g->arena, df_col_text(r, alert_silences_Target));
    df_list_add(g->to, &s->link);
}

enum df_code alert_silences_read(struct df_db *db, int64_t now_ms, struct df_arena *arena,
                                 struct df_list *to, struct df_err *err)
{
    return df_db_each(
        db, DF_Q(alert_silences, .now = df_time(now_ms), .limit = df_int(ALERT_SILENCES_MAX)),
        read_silence, &(struct reading){arena, to}, err);
}

/* --- the page --- */

static struct df_str given_up_link(struct df_str channel, struct df_arena *a)
{
    if (df_str_eq(channel, DF_STR("tickets")))
        return DF_STR("#tickets?status=Error");
    if (df_str_eq(channel, DF_STR("relay")))
        return DF_STR("#relays");
    return df_arena_printf(a, "#outbox/" DF_STR_FMT "?status=Error", DF_STR_ARG(channel));
}

struct df_str alert_link(struct df_str rule_name, struct df_str id, struct df_str subject,
                         struct df_str details_text, struct df_arena *a)
{
    const struct df_json *details = read_details(details_text, a);
    struct df_str client = member_text(details, "clientId");
    enum alert_rule rule = ALERT_TEST;

    if (!alert_rule_parse(rule_name, &rule))
        rule = ALERT_TEST;
    switch (rule) {
    case ALERT_BATCH_STUCK:
        return df_arena_printf(a, "#imports/" DF_STR_FMT, DF_STR_ARG(subject));
    case ALERT_WEBHOOK_FAILING:
    case ALERT_SECRET_WAITS:
        return df_arena_printf(a, "#webhooks/" DF_STR_FMT, DF_STR_ARG(subject));
    case ALERT_ERROR_RATE:
        return df_arena_printf(a, "#imports?clientId=" DF_STR_FMT "&status=CompletedWithErrors",
                               DF_STR_ARG(client));
    case ALERT_DELIVERY_STUCK:
        return df_arena_printf(a, "#outbox/" DF_STR_FMT "?status=Pending", DF_STR_ARG(subject));
    case ALERT_GIVEN_UP:
        return given_up_link(member_text(details, "channel"), a);
    case ALERT_CLIENT_SECRET_OLD:
        return df_arena_printf(a, "#clients/" DF_STR_FMT, DF_STR_ARG(client));
    case ALERT_TEST:
        break;
    }
    return df_arena_printf(a, "#alerts/" DF_STR_FMT, DF_STR_ARG(id));
}

/* --- GET /admin/alert-silences --- */

struct call {
    struct df_work w; /* its arg is the alerts */
    struct df_uuid id;
    struct df_str rule, client, target, reason;
    int64_t ends_ms;
};

static void write_members(struct df_json_out *j, struct df_str id, struct df_str rule,
                          struct df_str client, struct df_str target, struct df_str reason)
{
    df_json_kv_text(j, "id", id);
    df_json_kv_text(j, "rule", rule);
    df_json_kv_text(j, "clientId", client);
    df_json_kv_text(j, "target", target);
    df_json_kv_text(j, "reason", reason);
}

static void write_silence(void *arg, struct df_result *r)
{
    struct df_work *w = arg;
    struct df_json_out *j = &w->json;

    w->page.total++;
    df_json_open(j, '{');
    write_members(j, df_col_text(r, alert_silences_Id), df_col_text(r, alert_silences_RuleName),
                  df_col_text(r, alert_silences_ClientIdentifier),
                  df_col_text(r, alert_silences_Target), df_col_text(r, alert_silences_Reason));
    df_json_kv_time(j, "until", df_col_time(r, alert_silences_EndsAt));
    df_json_kv_text(j, "createdBy", df_col_text(r, alert_silences_CreatedBy));
    df_json_kv_time(j, "createdAt", df_col_time(r, alert_silences_CreatedAt));
    df_json_close(j, '}');
}

static enum df_code run_list(struct df_db *db, struct df_work *w, struct df_err *err)
{
    w->page.total = 0;
    df_page_open(&w->json);
    enum df_code code = df_db_each(
        db, DF_Q(alert_silences, .now = df_time(w->now_ms), .limit = df_int(ALERT_SILENCES_MAX)),
        write_silence, w, err);
    df_json_close(&w->json, ']');
    df_json_kv_int(&w->json, "total", w->page.total);
    df_json_close(&w->json, '}');
    return code;
}

static const struct df_handler list = {
    .size = sizeof(struct call), .max_answer = ANSWER_MAX, .run = run_list};

/* --- POST /admin/alert-silences --- */

static enum df_code audit_silence(struct df_db *db, const struct call *c, const char *action,
                                  struct df_err *err)
{
    struct df_actor by = df_actor_of(c->w.req);

    struct df_str details = c->w.out.len > 0 ? df_buf_str(&c->w.out) : DF_STR_NULL;

    return df_audit_write(db, &by, action, df_uuid_str(&c->id), DF_STR_NULL, details, c->w.now_ms,
                          err);
}

static enum df_code run_create(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct df_actor by = df_actor_of(w->req);
    struct df_str name = df_utf8_cut(by.name, 200);
    struct df_value now = df_time(w->now_ms);
    int64_t in_force = 0;
    enum df_code code = df_db_exec(
        db, DF_Q(alert_silence_clean, .before = df_time(w->now_ms - LONGEST_MS)), NULL, err);

    if (code == DF_OK)
        code = df_db_query_int(db, DF_Q(alert_silence_count, .now = now), &in_force, err);
    if (code == DF_OK && in_force >= ALERT_SILENCES_MAX)
        return df_err_set(err, DF_E_CONFLICT,
                          "There are %d silences in force: end one of them first.",
                          ALERT_SILENCES_MAX);
    if (code == DF_OK)
        code = df_db_exec(db,
                          DF_Q(alert_silence_insert, .id = df_uuid(df_uuid_str(&c->id)),
                               .rule = df_text(c->rule), .client = df_text(c->client),
                               .target = df_text(c->target), .reason = df_text(c->reason),
                               .by = df_text(name), .now = now, .ends = df_time(c->ends_ms)),
                          NULL, err);
    df_json_open(&w->json, '{');
    write_members(&w->json, df_uuid_str(&c->id), c->rule, c->client, c->target, c->reason);
    df_json_kv_time(&w->json, "until", c->ends_ms);
    df_json_kv_text(&w->json, "createdBy", name);
    df_json_kv_time(&w->json, "createdAt", w->now_ms);
    df_json_close(&w->json, '}');
    return code == DF_OK ? audit_silence(db, c, "AlertSilenced", err) : code;
}

static void silence_created(struct df_work *w)
{
    const struct call *c = (const struct call *)w;
    struct df_log_field fields[] = {DF_F("silenceId", df_uuid_str(&c->id)), DF_F("rule", c->rule),
                                    DF_F("clientId", c->client), DF_F("target", c->target)};

    df_log_write(DF_LOG_INFO, "AlertSilenced", fields, 4, "alerts are recorded and not sent");
}

static struct df_str read_part(struct df_input *in, const char *name, size_t most)
{
    struct df_str text = df_input_text(in, name, most, DF_OPTIONAL);

    if (text.ptr && df_str_trim(text).len == 0)
        df_input_error(in, name, "must not be empty");
    return text;
}

static void read_end(struct call *c, struct df_input *in)
{
    struct df_str text = df_input_text(in, "until", 40, DF_REQUIRED);

    if (!text.ptr || df_str_trim(text).len == 0)
        return;
    if (!df_time_parse(text, &c->ends_ms))
        df_input_error(in, "until", "must be a time like 2026-11-15T00:00:00Z");
    else if (c->ends_ms <= c->w.now_ms || c->ends_ms > c->w.now_ms + LONGEST_MS)
        df_input_error(in, "until", "must be in the next 30 days");
}

static bool read_silence_body(struct df_work *w, struct df_input *in)
{
    static const char *const known[] = {"rule", "clientId", "target", "until", "reason", NULL};
    struct call *c = (struct call *)w;
    enum alert_rule rule;

    if (!df_input_json(in, w->req))
        return false;
    df_input_only(in, known);
    c->rule = read_part(in, "rule", 50);
    c->client = read_part(in, "clientId", 64);
    c->target = read_part(in, "target", TARGET_MAX);
    c->reason = df_input_text(in, "reason", REASON_MAX, DF_REQUIRED);
    read_end(c, in);
    if (c->rule.len > 0 && !alert_rule_parse(c->rule, &rule))
        df_input_error(in, "rule", "is none of the rules of alerts");
    if (c->client.len > 0 && !df_client_identifier_valid(c->client))
        df_input_error(in, "clientId", "is not the identifier of a client");
    if (!c->rule.ptr && !c->client.ptr && !c->target.ptr)
        df_input_error(in, "rule", "is required, or clientId, or target");
    c->id = df_uuid_v7(w->access->clock);
    return true;
}

static const struct df_handler create = {
    .size = sizeof(struct call),
    .writes = true,
    .status = 201,
    .max_answer = 1 << 16,
    .prepare = read_silence_body,
    .run = run_create,
    .done = silence_created,
};

/* --- DELETE /admin/alert-silences/{id} --- */

static enum df_code run_delete(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    int64_t deleted = 0;
    enum df_code code = df_db_exec(
        db, DF_Q(alert_silence_delete, .id = df_uuid(df_uuid_str(&c->id))), &deleted, err);

    if (code == DF_OK && deleted == 0)
        return df_err_set(err, DF_E_NOT_FOUND, "There is no such silence.");
    return code == DF_OK ? audit_silence(db, c, "AlertUnsilenced", err) : code;
}

static bool read_id(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    (void)in;
    if (df_uuid_parse(df_req_param(w->req, "id"), &c->id))
        return true;
    df_req_fail(w->req, DF_E_NOT_FOUND, "There is no such silence.");
    return false;
}

static const struct df_handler end = {.size = sizeof(struct call),
                                      .writes = true,
                                      .status = 204,
                                      .prepare = read_id,
                                      .run = run_delete};

#define OPERATE(m, path, kind, h)                                                                  \
    DF_ROUTE(m, "/admin/alert-silences" path, kind, DF_ACCESS_ADMIN, DF_NEEDS_OPERATE, h)

const struct df_route df_silence_routes[] = {
    DF_ROUTE("GET", "/admin/alert-silences", DF_BODY_NONE, DF_ACCESS_ADMIN, NULL, list),
    OPERATE("POST", "", DF_BODY_JSON, create),
    OPERATE("DELETE", "/{id}", DF_BODY_ANY, end),
    {.method = NULL},
};
