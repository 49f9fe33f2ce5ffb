/*
 * The channel "alerts": a row for each sink and event. The routing key and the URLs, which belong
 * to the operator's account, are added when a message is built; the database has neither.
 */
#include "alerts/alerts_private.h"
#include "alerts/messages.sql.h"
#include "base/escape.h"

static const char *const sink_names[ALERT_SINKS] = {"pagerduty", "teams"};

const char *alert_sink_name(enum alert_sink s)
{
    return sink_names[s];
}

bool alert_sink_configured(const struct df_alerts *a, enum alert_sink s)
{
    switch (s) {
    case ALERT_PAGERDUTY:
        return a->opt.settings.pagerduty_routing_key;
    case ALERT_TEAMS:
        return a->opt.settings.teams_url;
    case ALERT_SINKS:
        break;
    }
    return false;
}

enum df_code alert_send(const struct df_alerts *a, struct df_db *db, enum alert_action action,
                        const struct alert *alert, int64_t now_ms, struct df_arena *arena,
                        struct df_err *err)
{
    enum df_code code = DF_OK;

    for (int i = 0; code == DF_OK && i < ALERT_SINKS; i++) {
        enum alert_sink sink = (enum alert_sink)i;
        struct df_str payload = DF_STR_NULL;
        struct df_uuid id = df_uuid_v7(a->opt.clock);
        if (!alert_sink_configured(a, sink))
            continue;
        code = alert_payload(a, sink, action, alert, arena, &payload, err);
        if (code == DF_OK)
            code = df_db_exec(
                db,
                DF_Q(alert_delivery_insert, .id = df_uuid(df_uuid_str(&id)),
                     .alert_id = df_uuid(df_uuid_str(&alert->id)),
                     .sink = df_text(df_str_c(sink_names[i])),
                     .event_action =
                         df_text(action == ALERT_TRIGGER ? DF_STR("trigger") : DF_STR("resolve")),
                     .payload_json = df_text(payload), .now = df_time(now_ms)),
                NULL, err);
    }
    return code;
}

/* {"routing_key":"…", followed by the row's text behind its first brace. */
static struct df_str with_routing_key(const struct df_alerts *a, struct df_str payload,
                                      struct df_arena *arena)
{
    struct df_buf buf;

    df_buf_init(&buf, 2 * ALERT_JSON_MAX);
    df_buf_addz(&buf, "{\"routing_key\":\"");
    df_buf_add_escaped(&buf, df_secret_str(a->opt.settings.pagerduty_routing_key));
    df_buf_addz(&buf, "\",");
    df_buf_adds(&buf, df_str_n(payload.ptr + 1, payload.len - 1));
    struct df_str body = df_arena_str(arena, df_buf_str(&buf));
    df_wipe(buf.ptr, buf.len);
    df_buf_release(&buf);
    return body;
}

static enum df_code build_message(const struct df_channel *c, struct df_str id, struct df_result *r,
                                  struct df_arena *arena, struct df_delivery_request *ret,
                                  struct df_err *err)
{
    const struct df_alerts *a = c->arg;
    bool pagerduty =
        df_str_eq(df_col_text(r, alert_delivery_load_Sink), df_str_c(sink_names[ALERT_PAGERDUTY]));
    struct df_str payload = df_arena_str(arena, df_col_text(r, alert_delivery_load_PayloadJson));

    if (!alert_sink_configured(a, pagerduty ? ALERT_PAGERDUTY : ALERT_TEAMS))
        return df_err_set(err, DF_E_CONFIG, "alerts.%s is not set",
                          pagerduty ? "pagerduty_routing_key" : "teams_url");
    if (payload.len < 2)
        return df_err_set(err, DF_E_MALFORMED_JSON, "PayloadJson is no object");
    ret->url =
        pagerduty ? a->opt.settings.pagerduty_url : df_secret_str(a->opt.settings.teams_url).ptr;
    ret->target =
        df_str_c(sink_names[pagerduty ? ALERT_PAGERDUTY : ALERT_TEAMS]); /* the URL is secret */
    ret->body = pagerduty ? with_routing_key(a, payload, arena) : payload;
    ret->correlation_id = df_arena_str(arena, df_col_text(r, alert_delivery_load_AlertId));
    ret->private_too = true;
    ret->idempotency_key = df_arena_printf(arena, "alerts:" DF_STR_FMT, DF_STR_ARG(id));
    df_headers_add(&ret->headers, DF_STR("Content-Type"), DF_STR("application/json"));
    return DF_OK;
}

void alert_channel_init(struct df_alerts *a)
{
    a->channel = (struct df_channel){
        .name = "alerts",
        .id_type = DF_UUID,
        DF_CHANNEL_OUTBOX(alert_delivery),
        .build = build_message,
        .arg = a,
    };
}
