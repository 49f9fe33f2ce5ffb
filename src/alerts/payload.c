/*
 * The messages to the sinks. PagerDuty: Events API v2, where `resolve` needs only the key of the
 * incident. Teams: the message of a Workflows webhook ("when a Teams webhook request is received")
 * with one Adaptive Card.
 *
 * PagerDuty's dedup_key is the alert's id, so that an alert that fires again is another incident,
 * in whatever order the messages of the two arrive.
 */
#include "alerts/alerts_private.h"
#include "json/doc.h"

static void put_text(struct df_json_out *j, const char *name, const char *text)
{
    df_json_kv_text(j, name, df_str_c(text));
}

/* Where the console shows what the alert is about; absent: alerts.console_url is not set. */
static struct df_str page_of(const struct df_alerts *a, const struct df_json *details)
{
    const struct df_json *page = df_json_get(details, "page");

    if (page && page->type == DF_JSON_STRING)
        return page->text;
    return df_str_c(a->opt.settings.console_url);
}

/* --- PagerDuty -------------------------------------------------------------------------------- */

static void write_pagerduty_payload(const struct df_alerts *a, const struct alert *alert,
                                    struct df_str group, struct df_json_out *j)
{
    df_json_key(j, "payload");
    df_json_open(j, '{');
    df_json_kv_text(j, "summary", alert->summary);
    put_text(j, "source", a->source);
    df_json_kv_text(j, "severity", alert->severity);
    df_json_kv_time(j, "timestamp", alert->fired_ms);
    put_text(j, "component", alert_rule_component(alert->rule));
    df_json_kv_text(j, "group", group);
    put_text(j, "class", alert_rule_name(alert->rule));
    df_json_key(j, "custom_details");
    df_json_raw(j, alert->details);
    df_json_close(j, '}');
}

static void write_pagerduty(const struct df_alerts *a, enum alert_action action,
                            const struct alert *alert, const struct df_json *details,
                            struct df_json_out *j)
{
    const struct df_json *client = df_json_get(details, "clientId");

    df_json_open(j, '{');
    put_text(j, "event_action", action == ALERT_TRIGGER ? "trigger" : "resolve");
    df_json_kv_text(j, "dedup_key", df_uuid_str(&alert->id));
    if (action == ALERT_TRIGGER) {
        put_text(j, "client", "DataFlow");
        if (a->opt.settings.console_url)
            put_text(j, "client_url", a->opt.settings.console_url);
        write_pagerduty_payload(a, alert, client ? client->text : DF_STR("dataflow"), j);
    }
    if (action == ALERT_TRIGGER && a->opt.settings.console_url) {
        df_json_key(j, "links");
        df_json_open(j, '[');
        df_json_open(j, '{');
        df_json_kv_text(j, "href", page_of(a, details));
        put_text(j, "text", "DataFlow console");
        df_json_close(j, '}');
        df_json_close(j, ']');
    }
    df_json_close(j, '}');
}

/* --- Teams ------------------------------------------------------------------------------------ */

static void write_text_block(struct df_json_out *j, struct df_str text, const char *color)
{
    df_json_open(j, '{');
    put_text(j, "type", "TextBlock");
    df_json_kv_text(j, "text", text);
    df_json_kv_bool(j, "wrap", true);
    if (color) {
        put_text(j, "size", "Medium");
        put_text(j, "weight", "Bolder");
        put_text(j, "color", color);
    }
    df_json_close(j, '}');
}

static void write_fact(struct df_json_out *j, struct df_str title, struct df_str value)
{
    df_json_open(j, '{');
    df_json_kv_text(j, "title", title);
    df_json_kv_text(j, "value", value);
    df_json_close(j, '}');
}

static void write_time_fact(struct df_json_out *j, const char *title, int64_t wall_ms)
{
    char text[DF_TIME_LEN + 1];

    df_time_format(wall_ms, text);
    write_fact(j, df_str_c(title), df_str_c(text));
}

static void write_facts(const struct df_alerts *a, const struct alert *alert,
                        const struct df_json *details, struct df_json_out *j)
{
    df_json_open(j, '{');
    put_text(j, "type", "FactSet");
    df_json_key(j, "facts");
    df_json_open(j, '[');
    write_fact(j, DF_STR("severity"), alert->severity);
    write_fact(j, DF_STR("source"), df_str_c(a->source));
    struct df_json_each each = df_json_each(details);
    for (const struct df_json *d; (d = df_json_next(&each));)
        write_fact(j, d->key, d->type == DF_JSON_STRING ? d->text : d->raw);
    write_time_fact(j, "firedAt", alert->fired_ms);
    if (alert->resolved_ms >= 0)
        write_time_fact(j, "resolvedAt", alert->resolved_ms);
    df_json_close(j, ']');
    df_json_close(j, '}');
}

static const char *color_of(enum alert_action action, const struct alert *alert)
{
    if (action == ALERT_RESOLVE)
        return "Good";
    return df_str_eq(alert->severity, DF_STR("critical")) ||
                   df_str_eq(alert->severity, DF_STR("error"))
               ? "Attention"
               : "Warning";
}

static void write_card(const struct df_alerts *a, enum alert_action action,
                       const struct alert *alert, const struct df_json *details,
                       struct df_arena *arena, struct df_json_out *j)
{
    struct df_str title =
        df_arena_printf(arena, "%s: %s", action == ALERT_TRIGGER ? "Firing" : "Resolved",
                        alert_rule_name(alert->rule));

    df_json_open(j, '{');
    put_text(j, "$schema", "http://adaptivecards.io/schemas/adaptive-card.json");
    put_text(j, "type", "AdaptiveCard");
    put_text(j, "version", "1.4");
    df_json_key(j, "body");
    df_json_open(j, '[');
    write_text_block(j, title, color_of(action, alert));
    write_text_block(j, alert->summary, NULL);
    write_facts(a, alert, details, j);
    df_json_close(j, ']');
    if (a->opt.settings.console_url) {
        df_json_key(j, "actions");
        df_json_open(j, '[');
        df_json_open(j, '{');
        put_text(j, "type", "Action.OpenUrl");
        put_text(j, "title", "DataFlow console");
        df_json_kv_text(j, "url", page_of(a, details));
        df_json_close(j, '}');
        df_json_close(j, ']');
    }
    df_json_close(j, '}');
}

static void write_teams(const struct df_alerts *a, enum alert_action action,
                        const struct alert *alert, const struct df_json *details,
                        struct df_arena *arena, struct df_json_out *j)
{
    df_json_open(j, '{');
    put_text(j, "type", "message");
    df_json_key(j, "attachments");
    df_json_open(j, '[');
    df_json_open(j, '{');
    put_text(j, "contentType", "application/vnd.microsoft.card.adaptive");
    df_json_key(j, "content");
    write_card(a, action, alert, details, arena, j);
    df_json_close(j, '}');
    df_json_close(j, ']');
    df_json_close(j, '}');
}

/* --- both ------------------------------------------------------------------------------------- */

enum df_code alert_payload(const struct df_alerts *a, enum alert_sink sink,
                           enum alert_action action, const struct alert *alert,
                           struct df_arena *arena, struct df_str *ret, struct df_err *err)
{
    const struct df_json *details = NULL;
    struct df_buf buf;
    struct df_json_out j;
    enum df_code code = df_json_parse(arena, alert->details, &details, err);

    if (code != DF_OK)
        return code;
    df_buf_init(&buf, ALERT_JSON_MAX);
    df_json_out_init(&j, &buf);
    if (sink == ALERT_PAGERDUTY)
        write_pagerduty(a, action, alert, details, &j);
    else
        write_teams(a, action, alert, details, arena, &j);
    if (df_buf_failed(&buf))
        code = df_err_set(err, DF_E_INTERNAL, "the message is too long");
    else
        *ret = df_arena_str(arena, df_buf_str(&buf));
    df_buf_release(&buf);
    return code;
}
