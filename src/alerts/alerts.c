/*
 * The evaluation is one job for the store, and so one commit. It takes the turn, reads the alerts
 * that fire, asks the rules, and writes which alerts begin and which are over, with their messages.
 * A process that comes while another has the turn finds nothing to do.
 */
#include "alerts/alerts_private.h"

#include "alerts/alerts.sql.h"
#include "base/mem.h"
#include "base/tally.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

DF_METRIC_FAMILY(firing) = {
    .name = "dataflow_alerts_firing",
    .help = "Alerts that fire, by rule, as every process with the role maintain sees "
            "them: take the maximum.",
    .type = DF_GAUGE,
    .labels = {"rule"},
};

struct df_alerts *df_alerts_new(const struct df_alerts_options *opt)
{
    struct df_alerts *a = df_calloc(1, sizeof(*a));

    a->opt = *opt;
    if (gethostname(a->source, sizeof(a->source) - 1) != 0 || !a->source[0])
        (void)snprintf(a->source, sizeof(a->source), "dataflow");
    alert_channel_init(a);
    df_alerts_add_source(
        a, &(struct df_alerts_source){.name = "relay", .given_up = &df_q_alert_relays_given_up});
    df_metric_register(&firing);
    for (int i = 0; i < ALERT_RULES; i++) {
        struct df_str name = df_str_c(alert_rule_name((enum alert_rule)i));
        a->firing[i] = df_metric_get(&firing, &name);
    }
    return a;
}

void df_alerts_free(struct df_alerts *a)
{
    free(a);
}

void df_alerts_add_channel(struct df_alerts *a, struct df_delivery *d)
{
    a->delivery = d;
    df_delivery_add(d, &a->channel);
}

void df_alerts_add_source(struct df_alerts *a, const struct df_alerts_source *source)
{
    assert(a->source_count < ALERT_SOURCES_MAX);
    a->sources[a->source_count++] = *source;
}

/* How many documents the last message tells of, as a value of the table. */
static struct df_value reported_value(const struct alert *alert)
{
    return alert->documents > 0 ? df_int(alert->reported) : df_null(DF_INT);
}

enum df_code alert_insert(struct df_db *db, const struct alert *alert, struct df_err *err)
{
    struct df_str rule = df_str_c(alert_rule_name(alert->rule));
    struct df_str status = alert->resolved_ms < 0 ? DF_STR("firing") : DF_STR("resolved");
    char key[160];

    (void)snprintf(key, sizeof(key), "%s:" DF_STR_FMT, rule.ptr, DF_STR_ARG(alert->subject));
    return df_db_exec(
        db,
        DF_Q(alert_insert, .id = df_uuid(df_uuid_str(&alert->id)), .rule_name = df_text(rule),
             .subject = df_text(alert->subject), .dedup_key = df_text(df_str_c(key)),
             .severity = df_text(alert->severity), .summary = df_text(alert->summary),
             .details_json = df_text(alert->details), .status = df_text(status),
             .fired_at = df_time(alert->fired_ms),
             .resolved_at = alert->resolved_ms < 0 ? df_null(DF_TIME) : df_time(alert->resolved_ms),
             .reported = reported_value(alert), .silenced_by = df_uuid(alert->silenced_by)),
        NULL, err);
}

/* --- the job ---------------------------------------------------------------------------------- */

struct evaluation {
    struct df_job job;
    struct df_alerts *a;
    int64_t now_ms;
    struct df_arena arena;
    struct df_list open[ALERT_RULES]; /* alerts that fired before */
    struct df_list silences;
    struct df_list fired;
    struct df_list grown;
    struct df_list resolved;
    int64_t firing[ALERT_RULES]; /* alerts that fire afterwards */
    int64_t mine;                /* 1 if this evaluation has the turn */
};

static void read_open(void *arg, struct df_result *r)
{
    struct evaluation *e = arg;
    struct alert *alert = DF_ARENA_NEW(&e->arena, struct alert);

    if (!alert_rule_parse(df_col_text(r, alert_firing_RuleName), &alert->rule) ||
        alert->rule >= ALERT_RULES || !df_uuid_parse(df_col_text(r, alert_firing_Id), &alert->id))
        return;
    alert->subject = df_arena_str(&e->arena, df_col_text(r, alert_firing_Subject));
    alert->severity = df_arena_str(&e->arena, df_col_text(r, alert_firing_Severity));
    alert->summary = df_arena_str(&e->arena, df_col_text(r, alert_firing_Summary));
    alert->details = df_arena_str(&e->arena, df_col_text(r, alert_firing_DetailsJson));
    alert->fired_ms = df_col_time(r, alert_firing_FiredAt);
    alert->reported = df_col_int(r, alert_firing_Reported);
    alert->resolved_ms = -1;
    alert->acknowledged = !df_col_null(r, alert_firing_AcknowledgedAt);
    alert->silenced_by = df_arena_str(&e->arena, df_col_text(r, alert_firing_SilencedBy));
    df_list_add(&e->open[alert->rule], &alert->link);
}

static struct alert *find_open(const struct df_list *open, struct df_str subject)
{
    struct alert *alert;

    DF_LIST_EACH (alert, open, link)
        if (df_str_eq(alert->subject, subject))
            break;
    return alert;
}

static enum df_code fire_alert(struct evaluation *e, struct df_db *db, struct alert *alert,
                               struct df_err *err)
{
    alert->id = df_uuid_v7(e->a->opt.clock);
    alert->reported = alert->documents;
    alert->silenced_by = alert_silence_of(&e->silences, alert, &e->arena);
    enum df_code code = alert_insert(db, alert, err);
    if (code == DF_OK && !alert->silenced_by.ptr)
        code = alert_send(e->a, db, ALERT_TRIGGER, alert, e->now_ms, &e->arena, err);
    df_list_add(&e->fired, &alert->link);
    return code;
}

/* The silence that kept the alert's message back is over: now it goes out. */
static enum df_code end_silence(struct evaluation *e, struct df_db *db, struct alert *known,
                                struct df_err *err)
{
    enum df_code code =
        df_db_exec(db, DF_Q(alert_unsilence, .id = df_uuid(df_uuid_str(&known->id))), NULL, err);

    known->silenced_by = DF_STR_NULL;
    if (code == DF_OK && !known->acknowledged)
        code = alert_send(e->a, db, ALERT_TRIGGER, known, e->now_ms, &e->arena, err);
    return code;
}

/* An alert that fires is brought up to date. People are told again if there is much more. */
static enum df_code update_alert(struct evaluation *e, struct df_db *db, const struct alert *known,
                                 struct alert *found, struct df_err *err)
{
    bool grown = alert_has_grown(known->reported, found->documents);
    bool told = !known->acknowledged && !alert_silence_of(&e->silences, known, &e->arena).ptr;

    if (found->documents == 0 || df_str_eq(known->details, found->details))
        return DF_OK;
    found->id = known->id;
    found->fired_ms = known->fired_ms;
    found->reported =
        grown || found->documents < known->reported ? found->documents : known->reported;
    enum df_code code =
        df_db_exec(db,
                   DF_Q(alert_update, .summary = df_text(found->summary),
                        .details_json = df_text(found->details), .reported = reported_value(found),
                        .id = df_uuid(df_uuid_str(&found->id))),
                   NULL, err);
    if (code == DF_OK && grown && told)
        code = alert_send(e->a, db, ALERT_TRIGGER, found, e->now_ms, &e->arena, err);
    if (grown)
        df_list_add(&e->grown, &found->link);
    return code;
}

static enum df_code resolve_alert(struct evaluation *e, struct df_db *db, struct alert *alert,
                                  struct df_err *err)
{
    alert->resolved_ms = e->now_ms;
    enum df_code code = df_db_exec(
        db, DF_Q(alert_resolve, .now = df_time(e->now_ms), .id = df_uuid(df_uuid_str(&alert->id))),
        NULL, err);
    if (code == DF_OK && !alert->silenced_by.ptr)
        code = alert_send(e->a, db, ALERT_RESOLVE, alert, e->now_ms, &e->arena, err);
    df_list_add(&e->resolved, &alert->link);
    return code;
}

static enum df_code evaluate_rule(struct evaluation *e, struct df_db *db, enum alert_rule rule,
                                  struct df_err *err)
{
    struct df_list *open = &e->open[rule];
    struct df_list found = {.count = 0};
    struct alert *alert;
    size_t count = open->count;
    struct alert_cut cut = {.any = false};
    enum df_code code = alert_rule_find(e->a, rule, db, e->now_ms, &e->arena, &found, &cut, err);

    while (code == DF_OK && (alert = DF_LIST_TAKE(&found, struct alert, link))) {
        struct alert *known = find_open(open, alert->subject);
        if (known) {
            known->seen = true;
            if (known->silenced_by.ptr && !alert_silence_of(&e->silences, known, &e->arena).ptr)
                code = end_silence(e, db, known, err);
            if (code == DF_OK)
                code = update_alert(e, db, known, alert, err);
        } else if (count < ALERT_FIRING_MAX) {
            count++;
            code = fire_alert(e, db, alert, err);
        }
    }
    while (code == DF_OK && (alert = DF_LIST_TAKE(open, struct alert, link))) {
        if (alert->seen || alert_is_cut(&cut, alert->subject))
            continue;
        count--;
        code = resolve_alert(e, db, alert, err);
    }
    e->firing[rule] = (int64_t)count;
    return code;
}

static void read_count(void *arg, struct df_result *r)
{
    struct evaluation *e = arg;
    enum alert_rule rule;

    if (alert_rule_parse(df_col_text(r, alert_firing_counts_RuleName), &rule) && rule < ALERT_RULES)
        e->firing[rule] = df_col_int(r, alert_firing_counts_Firing);
}

/* May run more than once, and starts afresh each time. */
static enum df_code run_evaluation(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct evaluation *e = (struct evaluation *)job;
    int64_t interval_ms = e->a->opt.settings.interval_ms;
    /* A little less than the interval, since the calling thread does not come to the
     * millisecond. */
    struct df_value before = df_time(e->now_ms - interval_ms * 9 / 10);

    df_arena_reset(&e->arena);
    e->mine = 0;
    e->silences = (struct df_list){.count = 0};
    e->fired = e->grown = e->resolved = (struct df_list){.count = 0};
    for (int i = 0; i < ALERT_RULES; i++) {
        e->open[i] = (struct df_list){.count = 0};
        e->firing[i] = 0;
    }
    enum df_code code =
        df_db_exec(db,
                   DF_Q(alert_evaluation_begin, .now = df_time(e->now_ms), .before = before,
                        .ahead = df_time(e->now_ms + interval_ms)),
                   &e->mine, err);
    if (code != DF_OK)
        return code;
    if (e->mine == 0) /* another process evaluates: only the figures are read */
        return df_db_each(db, DF_Q0(alert_firing_counts), read_count, e, err);
    code = alert_silences_read(db, e->now_ms, &e->arena, &e->silences, err);
    if (code == DF_OK)
        code = df_db_each(db, DF_Q0(alert_firing), read_open, e, err);
    for (int i = 0; code == DF_OK && i < ALERT_RULES; i++)
        code = evaluate_rule(e, db, (enum alert_rule)i, err);
    return code;
}

/* --- the call --------------------------------------------------------------------------------- */

static void log_alerts(const struct df_list *list, enum df_log_level level, const char *event)
{
    const struct alert *alert;

    DF_LIST_EACH (alert, list, link) {
        struct df_log_field fields[] = {
            DF_F("rule", df_str_c(alert_rule_name(alert->rule))),
            DF_F("subject", alert->subject),
            DF_F("alertId", df_uuid_str(&alert->id)),
            DF_F("severity", alert->severity),
        };
        df_log_write(level, event, fields, sizeof(fields) / sizeof(fields[0]), DF_STR_FMT,
                     DF_STR_ARG(alert->summary));
    }
}

/* Rule and subject: summaries may quote what a peer said. */
static void mark_alerts(const struct df_list *list, enum df_mark kind, int64_t now_ms)
{
    char subject[DF_TALLY_SUBJECT_MAX + 1];
    const struct alert *alert;

    DF_LIST_EACH (alert, list, link) {
        (void)snprintf(subject, sizeof(subject), "%s " DF_STR_FMT, alert_rule_name(alert->rule),
                       DF_STR_ARG(alert->subject));
        df_tally_mark(kind, now_ms, df_str_c(subject));
    }
}

void df_alerts_evaluate(struct df_alerts *a)
{
    struct evaluation e = {
        .job = {.run = run_evaluation}, .a = a, .now_ms = df_wall_ms(a->opt.clock)};
    struct df_err err = DF_ERR_INIT;

    df_arena_init(&e.arena);
    if (df_store_write_wait(a->opt.store, &e.job, &err) != DF_OK) {
        df_log_warn("AlertsNotEvaluated", "%s", err.detail);
    } else {
        log_alerts(&e.fired, DF_LOG_WARN, "AlertFired");
        log_alerts(&e.grown, DF_LOG_WARN, "AlertGrew");
        log_alerts(&e.resolved, DF_LOG_INFO, "AlertResolved");
        mark_alerts(&e.fired, DF_MARK_ALERT_FIRED, e.now_ms);
        mark_alerts(&e.resolved, DF_MARK_ALERT_RESOLVED, e.now_ms);
        for (int i = 0; i < ALERT_RULES; i++)
            df_metric_set(a->firing[i], (double)e.firing[i]);
        if (a->delivery && e.fired.count + e.grown.count + e.resolved.count > 0)
            df_delivery_wake(a->delivery, &a->channel);
    }
    df_arena_release(&e.arena);
}
