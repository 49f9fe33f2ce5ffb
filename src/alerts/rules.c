/*
 * The rules: the queries that find subjects, and the texts about them. Whether an alert of a
 * subject fires already is decided in alerts.c.
 */
#include "alerts/alerts.sql.h"
#include "alerts/alerts_private.h"

#define MINUTE_MS         INT64_C(60000)
#define DAY_MS            (MINUTE_MS * 60 * 24)
#define WEBHOOK_WINDOW_MS (60 * MINUTE_MS)
#define REASON_CHARS      200
#define BATCH_PENDING     0

static const struct {
    const char *name;
    const char *component;
} rules[] = {
    [ALERT_BATCH_STUCK] = {"BatchStuck", "imports"},
    [ALERT_WEBHOOK_FAILING] = {"WebhookFailing", "webhooks"},
    [ALERT_ERROR_RATE] = {"ErrorRate", "imports"},
    [ALERT_DELIVERY_STUCK] = {"DeliveryStuck", "delivery"},
    [ALERT_GIVEN_UP] = {"DeliveryGivenUp", "delivery"},
    [ALERT_CLIENT_SECRET_OLD] = {"ClientSecretOld", "access"},
    [ALERT_SECRET_WAITS] = {"WebhookSecretWaits", "webhooks"},
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

/* --- a row in words --------------------------------------------------------------------------- */

static int64_t minutes(int64_t ms)
{
    return ms / MINUTE_MS;
}

struct alert *alert_begin(struct alert_finding *f, enum alert_rule rule, struct df_str subject)
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

void alert_end(struct alert_finding *f, struct alert *alert)
{
    df_json_close(&f->details, '}');
    alert->details = df_arena_str(f->arena, df_buf_str(&f->json));
    alert->summary = df_utf8_cut(alert->summary, ALERT_SUMMARY_MAX);
    df_list_add(f->list, &alert->link);
}

static void describe_batch(void *arg, struct df_result *r)
{
    struct alert_finding *f = arg;
    struct alert *alert = alert_begin(f, ALERT_BATCH_STUCK, df_col_text(r, alert_batches_stuck_Id));
    struct df_str client = df_col_text(r, alert_batches_stuck_ClientIdentifier);
    int64_t waited = minutes(f->now_ms - df_col_time(r, alert_batches_stuck_Since));
    bool pending = df_col_int(r, alert_batches_stuck_Status) == BATCH_PENDING;

    alert->severity = DF_STR("critical");
    alert->summary =
        pending
            ? df_arena_printf(f->arena,
                              "Batch " DF_STR_FMT " of " DF_STR_FMT
                              " is first in line for %lld minutes and nobody takes it",
                              DF_STR_ARG(alert->subject), DF_STR_ARG(client), (long long)waited)
            : df_arena_printf(f->arena,
                              "Batch " DF_STR_FMT " of " DF_STR_FMT
                              " has made no progress for %lld minutes",
                              DF_STR_ARG(alert->subject), DF_STR_ARG(client), (long long)waited);
    df_json_kv_text(&f->details, "clientId", client);
    df_json_kv_text(&f->details, "batchId", alert->subject);
    df_json_kv_int(&f->details, "processedRecords",
                   df_col_int(r, alert_batches_stuck_ProcessedRecords));
    if (!df_col_null(r, alert_batches_stuck_TotalRecords))
        df_json_kv_int(&f->details, "totalRecords",
                       df_col_int(r, alert_batches_stuck_TotalRecords));
    df_json_kv_time(&f->details, "lastProgressAt", df_col_time(r, alert_batches_stuck_Since));
    alert_end(f, alert);
}

static void describe_webhook(void *arg, struct df_result *r)
{
    struct alert_finding *f = arg;
    struct alert *alert =
        alert_begin(f, ALERT_WEBHOOK_FAILING, df_col_text(r, alert_webhooks_failing_Id));
    struct df_str client = df_col_text(r, alert_webhooks_failing_ClientIdentifier);
    struct df_str reason = df_utf8_cut(df_col_text(r, alert_webhooks_failing_Reason), REASON_CHARS);

    if (reason.ptr) {
        alert->severity = DF_STR("error");
        alert->summary = df_arena_printf(
            f->arena,
            "Webhook subscription " DF_STR_FMT " of " DF_STR_FMT " was disabled: " DF_STR_FMT,
            DF_STR_ARG(alert->subject), DF_STR_ARG(client), DF_STR_ARG(reason));
    } else {
        alert->severity = DF_STR("warning");
        alert->summary =
            df_arena_printf(f->arena,
                            "Webhook subscription " DF_STR_FMT " of " DF_STR_FMT
                            " fails again and again: %lld deliveries were given up within an hour",
                            DF_STR_ARG(alert->subject), DF_STR_ARG(client),
                            (long long)df_col_int(r, alert_webhooks_failing_Failures));
    }
    df_json_kv_text(&f->details, "clientId", client);
    df_json_kv_text(&f->details, "subscriptionId", alert->subject);
    df_json_kv_int(&f->details, "failures", df_col_int(r, alert_webhooks_failing_Failures));
    df_json_kv_bool(&f->details, "disabled", reason.ptr);
    alert_end(f, alert);
}

static void describe_error_rate(void *arg, struct df_result *r)
{
    struct alert_finding *f = arg;
    struct alert *alert = alert_begin(f, ALERT_ERROR_RATE, df_col_text(r, alert_error_rates_Id));
    struct df_str client = df_col_text(r, alert_error_rates_ClientIdentifier);
    int64_t failed = df_col_int(r, alert_error_rates_Failed);
    int64_t processed = df_col_int(r, alert_error_rates_Processed);
    int64_t percent = failed * 100 / processed;

    alert->severity = DF_STR("error");
    alert->summary = df_arena_printf(
        f->arena, "%lld of %lld records of " DF_STR_FMT " failed within %lld minutes (%lld %%)",
        (long long)failed, (long long)processed, DF_STR_ARG(client),
        (long long)minutes(f->a->opt.settings.error_rate_ms), (long long)percent);
    df_json_kv_text(&f->details, "clientId", client);
    df_json_kv_int(&f->details, "failedRecords", failed);
    df_json_kv_int(&f->details, "processedRecords", processed);
    df_json_kv_int(&f->details, "percent", percent);
    df_json_kv_int(&f->details, "thresholdPercent", f->a->opt.settings.error_rate_percent);
    alert_end(f, alert);
}

static void describe_channel(void *arg, struct df_result *r)
{
    struct alert_finding *f = arg;
    int64_t rows = df_col_int(r, channel_waiting_Documents);
    int64_t oldest_ms = df_col_time(r, channel_waiting_Oldest);

    if (rows == 0 || oldest_ms > f->now_ms - f->a->opt.settings.delivery_stuck_ms)
        return;
    struct alert *alert = alert_begin(f, ALERT_DELIVERY_STUCK, df_str_c(f->channel->name));
    alert->severity = DF_STR("critical");
    alert->summary = df_arena_printf(
        f->arena, "%lld deliveries of the channel " DF_STR_FMT " wait, the oldest for %lld minutes",
        (long long)rows, DF_STR_ARG(alert->subject), (long long)minutes(f->now_ms - oldest_ms));
    df_json_kv_text(&f->details, "channel", alert->subject);
    df_json_kv_int(&f->details, "waiting", rows);
    df_json_kv_time(&f->details, "oldestAt", oldest_ms);
    alert_end(f, alert);
}

static void describe_old_secret(void *arg, struct df_result *r)
{
    struct alert_finding *f = arg;
    struct alert *alert =
        alert_begin(f, ALERT_CLIENT_SECRET_OLD, df_col_text(r, alert_client_secrets_old_Id));
    struct df_str client = df_col_text(r, alert_client_secrets_old_ClientIdentifier);
    int64_t since_ms = df_col_time(r, alert_client_secrets_old_Since);

    alert->severity = DF_STR("warning");
    alert->summary =
        df_arena_printf(f->arena, "The secret of client " DF_STR_FMT " is %lld days old: rotate it",
                        DF_STR_ARG(client), (long long)((f->now_ms - since_ms) / DAY_MS));
    df_json_kv_text(&f->details, "clientId", client);
    df_json_kv_time(&f->details, "secretChangedAt", since_ms);
    alert_end(f, alert);
}

static void describe_waiting_secret(void *arg, struct df_result *r)
{
    struct alert_finding *f = arg;
    struct alert *alert =
        alert_begin(f, ALERT_SECRET_WAITS, df_col_text(r, alert_secrets_waiting_Id));
    struct df_str client = df_col_text(r, alert_secrets_waiting_ClientIdentifier);
    int64_t since_ms = df_col_time(r, alert_secrets_waiting_NextSecretAt);

    alert->severity = DF_STR("warning");
    alert->summary =
        df_arena_printf(f->arena,
                        "Webhook subscription " DF_STR_FMT " of " DF_STR_FMT
                        " has not fetched its new secret for %lld days; the old one goes on",
                        DF_STR_ARG(alert->subject), DF_STR_ARG(client),
                        (long long)((f->now_ms - since_ms) / DAY_MS));
    df_json_kv_text(&f->details, "clientId", client);
    df_json_kv_text(&f->details, "subscriptionId", alert->subject);
    df_json_kv_time(&f->details, "nextSecretAt", since_ms);
    alert_end(f, alert);
}

/* --- finding ---------------------------------------------------------------------------------- */

/* The operator chose not to configure such a channel, so its rows may wait. */
static enum df_code find_channels(struct alert_finding *f, struct df_db *db, struct df_err *err)
{
    const struct df_delivery *d = f->a->delivery;
    enum df_code code = DF_OK;

    for (size_t i = 0; d && code == DF_OK && i < df_delivery_channels(d); i++) {
        f->channel = df_delivery_channel(d, i);
        if (!f->channel->missing && f->channel->claim)
            code = df_db_each(db, DF_NO_VALUES(f->channel->waiting), describe_channel, f, err);
    }
    return code;
}

static enum df_code find_subjects(struct alert_finding *f, enum alert_rule r, struct df_db *db,
                                  struct df_err *err)
{
    const struct df_alerts_settings *o = &f->a->opt.settings;
    struct df_value limit = df_int(ALERT_SUBJECTS);

    switch (r) {
    case ALERT_BATCH_STUCK:
        return df_db_each(db,
                          DF_Q(alert_batches_stuck,
                               .before = df_time(f->now_ms - o->batch_stuck_ms), .limit = limit),
                          describe_batch, f, err);
    case ALERT_WEBHOOK_FAILING:
        return df_db_each(db,
                          DF_Q(alert_webhooks_failing, .inactive = df_bool(false),
                               .since = df_time(f->now_ms - WEBHOOK_WINDOW_MS),
                               .failures = df_int(o->webhook_failures), .limit = limit),
                          describe_webhook, f, err);
    case ALERT_ERROR_RATE:
        return df_db_each(db,
                          DF_Q(alert_error_rates, .since = df_time(f->now_ms - o->error_rate_ms),
                               .min_records = df_int(o->error_rate_min),
                               .percent = df_int(o->error_rate_percent), .limit = limit),
                          describe_error_rate, f, err);
    case ALERT_DELIVERY_STUCK:
        return find_channels(f, db, err);
    case ALERT_GIVEN_UP:
        return alert_find_given_up(f, db, err);
    case ALERT_CLIENT_SECRET_OLD:
        if (o->client_secret_max_ms == 0)
            return DF_OK;
        return df_db_each(db,
                          DF_Q(alert_client_secrets_old,
                               .before = df_time(f->now_ms - o->client_secret_max_ms),
                               .limit = limit),
                          describe_old_secret, f, err);
    case ALERT_SECRET_WAITS:
        return df_db_each(db,
                          DF_Q(alert_secrets_waiting, .active = df_bool(true),
                               .before = df_time(f->now_ms - o->secret_waits_ms), .limit = limit),
                          describe_waiting_secret, f, err);
    case ALERT_RULES:
        break;
    }
    return DF_OK;
}

bool alert_is_cut(const struct alert_cut *cut, struct df_str subject)
{
    struct df_str place;

    (void)df_str_cut(subject, ' ', &place);
    for (size_t i = 0; i < cut->count; i++)
        if (df_str_eq(place, df_str_c(cut->places[i])))
            return true;
    return cut->any;
}

enum df_code alert_rule_find(const struct df_alerts *a, enum alert_rule r, struct df_db *db,
                             int64_t now_ms, struct df_arena *arena, struct df_list *to,
                             struct alert_cut *ret_cut, struct df_err *err)
{
    struct alert_finding f = {.a = a, .now_ms = now_ms, .arena = arena, .list = to};

    df_buf_init(&f.json, ALERT_JSON_MAX);
    enum df_code code = find_subjects(&f, r, db, err);
    *ret_cut = f.cut;
    ret_cut->any = ret_cut->any || to->count >= ALERT_SUBJECTS;
    df_buf_release(&f.json);
    return code;
}
