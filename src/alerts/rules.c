/*
 * The rules: what is asked of the database and how it is said. Each finds its subjects; whether an
 * alert of one fires already is not its business.
 */
#include "alerts/alerts.sql.h"
#include "alerts/alerts_private.h"

#define MINUTE_MS          INT64_C(60000)
#define WEBHOOK_WINDOW_MS  (60 * MINUTE_MS)
#define REASON_CHARS       200
#define BATCH_PENDING      0
#define CHANNEL_PARAMS_MAX 16

static const struct {
    const char *name;
    const char *component;
} rules[] = {
    [ALERT_BATCH_STUCK] = {"BatchStuck", "imports"},
    [ALERT_WEBHOOK_FAILING] = {"WebhookFailing", "webhooks"},
    [ALERT_ERROR_RATE] = {"ErrorRate", "imports"},
    [ALERT_DELIVERY_STUCK] = {"DeliveryStuck", "delivery"},
    [ALERT_TEST] = {"Test", "alerts"},
};

const char *alert_rule_name(enum alert_rule r)
{
    return rules[r].name;
}

const char *alert_rule_component(enum alert_rule r)
{
    return rules[r].component;
}

bool alert_rule_parse(struct df_str name, enum alert_rule *ret)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (df_str_eq(name, df_str_c(rules[i].name))) {
            *ret = (enum alert_rule)i;
            return true;
        }
    }
    return false;
}

/* --- what is said of a row -------------------------------------------------------------------- */

struct finding {
    const struct df_alerts *a;
    int64_t now_ms;
    struct df_arena *arena;
    struct df_buf json;
    struct df_json_out details;
};

static int64_t minutes(int64_t ms)
{
    return ms / MINUTE_MS;
}

/* Columns: id, client, status, processed, total, since. */
static void describe_batch(struct finding *f, const struct df_result *r, struct alert *ret)
{
    struct df_str client = df_col_text(r, 1);
    int64_t waited = minutes(f->now_ms - df_col_time(r, 5));
    bool pending = df_col_int(r, 2) == BATCH_PENDING;

    ret->severity = DF_STR("critical");
    ret->summary =
        pending ? df_arena_printf(f->arena,
                                  "Batch " DF_STR_FMT " of " DF_STR_FMT
                                  " is first in line for %lld minutes and nobody takes it",
                                  DF_STR_ARG(ret->subject), DF_STR_ARG(client), (long long)waited)
                : df_arena_printf(f->arena,
                                  "Batch " DF_STR_FMT " of " DF_STR_FMT
                                  " has made no progress for %lld minutes",
                                  DF_STR_ARG(ret->subject), DF_STR_ARG(client), (long long)waited);
    df_json_kv_text(&f->details, "clientId", client);
    df_json_kv_text(&f->details, "batchId", ret->subject);
    df_json_kv_int(&f->details, "processedRecords", df_col_int(r, 3));
    if (!df_col_null(r, 4))
        df_json_kv_int(&f->details, "totalRecords", df_col_int(r, 4));
    df_json_kv_time(&f->details, "lastProgressAt", df_col_time(r, 5));
}

/* Columns: id, client, failures, why it was disabled. */
static void describe_webhook(struct finding *f, const struct df_result *r, struct alert *ret)
{
    struct df_str client = df_col_text(r, 1);
    struct df_str reason = df_utf8_cut(df_col_text(r, 3), REASON_CHARS);

    if (reason.ptr) {
        ret->severity = DF_STR("error");
        ret->summary = df_arena_printf(
            f->arena,
            "Webhook subscription " DF_STR_FMT " of " DF_STR_FMT " was disabled: " DF_STR_FMT,
            DF_STR_ARG(ret->subject), DF_STR_ARG(client), DF_STR_ARG(reason));
    } else {
        ret->severity = DF_STR("warning");
        ret->summary = df_arena_printf(
            f->arena,
            "Webhook subscription " DF_STR_FMT " of " DF_STR_FMT
            " fails again and again: %lld deliveries were given up within an hour",
            DF_STR_ARG(ret->subject), DF_STR_ARG(client), (long long)df_col_int(r, 2));
    }
    df_json_kv_text(&f->details, "clientId", client);
    df_json_kv_text(&f->details, "subscriptionId", ret->subject);
    df_json_kv_int(&f->details, "failures", df_col_int(r, 2));
    df_json_kv_bool(&f->details, "disabled", reason.ptr);
}

/* Columns: id, client, failed, processed. */
static void describe_error_rate(struct finding *f, const struct df_result *r, struct alert *ret)
{
    struct df_str client = df_col_text(r, 1);
    int64_t failed = df_col_int(r, 2);
    int64_t processed = df_col_int(r, 3);
    int64_t percent = failed * 100 / processed;

    ret->severity = DF_STR("error");
    ret->summary = df_arena_printf(
        f->arena, "%lld of %lld records of " DF_STR_FMT " failed within %lld minutes (%lld %%)",
        (long long)failed, (long long)processed, DF_STR_ARG(client),
        (long long)minutes(f->a->opt.settings.error_rate_ms), (long long)percent);
    df_json_kv_text(&f->details, "clientId", client);
    df_json_kv_int(&f->details, "failedRecords", failed);
    df_json_kv_int(&f->details, "processedRecords", processed);
    df_json_kv_int(&f->details, "percent", percent);
    df_json_kv_int(&f->details, "thresholdPercent", f->a->opt.settings.error_rate_percent);
}

static void describe_channel(struct finding *f, int64_t rows, int64_t oldest_ms, struct alert *ret)
{
    ret->severity = DF_STR("critical");
    ret->summary = df_arena_printf(
        f->arena, "%lld deliveries of the channel " DF_STR_FMT " wait, the oldest for %lld minutes",
        (long long)rows, DF_STR_ARG(ret->subject), (long long)minutes(f->now_ms - oldest_ms));
    df_json_kv_text(&f->details, "channel", ret->subject);
    df_json_kv_int(&f->details, "waiting", rows);
    df_json_kv_time(&f->details, "oldestAt", oldest_ms);
}

/* --- finding ---------------------------------------------------------------------------------- */

static struct alert *begin(struct finding *f, enum alert_rule rule, struct df_str subject)
{
    struct alert *alert = DF_ARENA_NEW(f->arena, struct alert);

    alert->rule = rule;
    alert->subject = df_arena_str(f->arena, subject);
    alert->fired_ms = f->now_ms;
    alert->resolved_ms = -1;
    df_buf_reset(&f->json);
    df_json_out_init(&f->details, &f->json);
    df_json_open(&f->details, '{');
    return alert;
}

static void end(struct finding *f, struct alert *alert, struct alert_list *list)
{
    df_json_close(&f->details, '}');
    alert->details = df_arena_str(f->arena, df_buf_str(&f->json));
    alert->summary = df_utf8_cut(alert->summary, ALERT_SUMMARY_MAX);
    alert_list_add(list, alert);
}

static enum df_code
find_by_query(struct finding *f, enum alert_rule rule, struct df_db *db, const struct df_query *q,
              const struct df_value *params, size_t param_count,
              void (*describe)(struct finding *f, const struct df_result *r, struct alert *ret),
              struct alert_list *list, struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code = df_db_query(db, q, params, param_count, &r, err);

    if (code != DF_OK)
        return code;
    while ((code = df_result_step(r, err)) == DF_ROW) {
        struct alert *alert = begin(f, rule, df_col_text(r, 0));
        describe(f, r, alert);
        end(f, alert, list);
    }
    df_result_free(r);
    return code == DF_DONE ? DF_OK : code;
}

/* One that is not configured keeps its rows by the operator's own will. */
static enum df_code find_channel(struct finding *f, struct df_db *db, const struct df_channel *c,
                                 struct alert_list *list, struct df_err *err)
{
    struct df_value params[CHANNEL_PARAMS_MAX];
    struct df_channel_values v = {.now = df_time(f->now_ms)};
    struct df_result *r = NULL;

    if (c->missing || !c->claim)
        return DF_OK;
    df_channel_params(c->waiting, &v, params);
    enum df_code code = df_db_query(db, c->waiting, params, c->waiting->param_count, &r, err);
    if (code != DF_OK)
        return code;
    code = df_result_step(r, err);
    if (code == DF_ROW && df_col_int(r, 0) > 0 &&
        df_col_time(r, 1) <= f->now_ms - f->a->opt.settings.delivery_stuck_ms) {
        struct alert *alert = begin(f, ALERT_DELIVERY_STUCK, df_str_c(c->name));
        describe_channel(f, df_col_int(r, 0), df_col_time(r, 1), alert);
        end(f, alert, list);
    }
    df_result_free(r);
    return code == DF_ROW || code == DF_DONE ? DF_OK : code;
}

static enum df_code find_channels(struct finding *f, struct df_db *db, struct alert_list *list,
                                  struct df_err *err)
{
    const struct df_delivery *d = f->a->delivery;
    enum df_code code = DF_OK;

    for (size_t i = 0; d && code == DF_OK && i < df_delivery_channels(d); i++)
        code = find_channel(f, db, df_delivery_channel(d, i), list, err);
    return code;
}

static enum df_code find(struct finding *f, enum alert_rule r, struct df_db *db,
                         struct alert_list *list, struct df_err *err)
{
    const struct df_alerts_options *o = &f->a->opt;
    struct df_value limit = df_int(ALERT_SUBJECTS);

    switch (r) {
    case ALERT_BATCH_STUCK: {
        /* SQL Server's text has the limit first; the order is that of the first text. */
        struct df_value before = df_time(f->now_ms - o->settings.batch_stuck_ms);
        return find_by_query(f, r, db, &df_q_alert_batches_stuck, DF_PARAMS(before, limit),
                             describe_batch, list, err);
    }
    case ALERT_WEBHOOK_FAILING: {
        struct df_value since = df_time(f->now_ms - WEBHOOK_WINDOW_MS);
        return find_by_query(
            f, r, db, &df_q_alert_webhooks_failing,
            DF_PARAMS(df_bool(false), since, df_int(o->settings.webhook_failures), limit),
            describe_webhook, list, err);
    }
    case ALERT_ERROR_RATE: {
        struct df_value since = df_time(f->now_ms - o->settings.error_rate_ms);
        return find_by_query(f, r, db, &df_q_alert_error_rates,
                             DF_PARAMS(since, df_int(o->settings.error_rate_min),
                                       df_int(o->settings.error_rate_percent), limit),
                             describe_error_rate, list, err);
    }
    case ALERT_DELIVERY_STUCK:
        return find_channels(f, db, list, err);
    case ALERT_RULES:
        break;
    }
    return DF_OK;
}

enum df_code alert_rule_find(const struct df_alerts *a, enum alert_rule r, struct df_db *db,
                             int64_t now_ms, struct df_arena *arena, struct alert_list *ret,
                             bool *ret_cut, struct df_err *err)
{
    struct finding f = {.a = a, .now_ms = now_ms, .arena = arena};

    df_buf_init(&f.json, ALERT_JSON_MAX);
    alert_list_init(ret);
    enum df_code code = find(&f, r, db, ret, err);
    *ret_cut = ret->count >= ALERT_SUBJECTS;
    df_buf_release(&f.json);
    return code;
}
