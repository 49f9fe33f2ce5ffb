/* Shared by the files of this room. */
#ifndef DF_ALERTS_ALERTS_PRIVATE_H
#define DF_ALERTS_ALERTS_PRIVATE_H

#include "alerts/alerts.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/uuid.h"
#include "json/write.h"

#define ALERT_JSON_MAX    ((size_t)64 << 10)
#define ALERT_SUMMARY_MAX 1000 /* characters: Alerts.Summary; PagerDuty takes 1024 */
#define ALERT_SUBJECTS    1000 /* of a rule are looked at */
#define ALERT_FIRING_MAX  100  /* of a rule fire at a time: a page for each helps nobody */

enum alert_rule {
    ALERT_BATCH_STUCK,
    ALERT_WEBHOOK_FAILING,
    ALERT_ERROR_RATE,
    ALERT_DELIVERY_STUCK,
    ALERT_RULES,
    ALERT_TEST = ALERT_RULES, /* by hand; never evaluated */
};

enum alert_sink { ALERT_PAGERDUTY, ALERT_TEAMS, ALERT_SINKS };
enum alert_action { ALERT_TRIGGER, ALERT_RESOLVE };

/* All of the arena of whoever made it. */
struct alert {
    struct df_link link; /* it is in one list at a time */
    struct df_uuid id;
    enum alert_rule rule;
    struct df_str subject;
    struct df_str severity; /* as PagerDuty calls them */
    struct df_str summary;
    struct df_str details; /* a JSON object of plain members */
    int64_t fired_ms;
    int64_t resolved_ms; /* -1: it fires */
    bool seen;           /* evaluation: the condition stands */
};

struct df_alerts {
    struct df_alerts_options opt;
    struct df_delivery *delivery;
    struct df_channel channel;
    struct df_metric *firing[ALERT_RULES];
    char source[256]; /* this host, for PagerDuty */
};

/* --- rules.c ---------------------------------------------------------------------------------- */

const char *alert_rule_name(enum alert_rule r);
/* Which part of the product it is about, for PagerDuty. */
const char *alert_rule_component(enum alert_rule r);
/* False: a rule of another version of the program. */
bool alert_rule_parse(struct df_str name, enum alert_rule *ret);

/* Adds what stands now. *ret_cut: there is more, so that what is not among it may stand all the
 * same. */
enum df_code alert_rule_find(const struct df_alerts *a, enum alert_rule r, struct df_db *db,
                             int64_t now_ms, struct df_arena *arena, struct df_list *to,
                             bool *ret_cut, struct df_err *err) DF_MUST_CHECK;

/* --- payload.c -------------------------------------------------------------------------------- */

/* The body for the sink, as its documentation has it, but for PagerDuty's routing_key. */
enum df_code alert_payload(const struct df_alerts *a, enum alert_sink sink,
                           enum alert_action action, const struct alert *alert,
                           struct df_arena *arena, struct df_str *ret,
                           struct df_err *err) DF_MUST_CHECK;

/* --- channel.c -------------------------------------------------------------------------------- */

const char *alert_sink_name(enum alert_sink s);
bool alert_sink_configured(const struct df_alerts *a, enum alert_sink s);
void alert_channel_init(struct df_alerts *a);
/* A message to each sink that is configured, inside the caller's transaction. */
enum df_code alert_send(const struct df_alerts *a, struct df_db *db, enum alert_action action,
                        const struct alert *alert, int64_t now_ms, struct df_arena *arena,
                        struct df_err *err) DF_MUST_CHECK;

/* --- alerts.c --------------------------------------------------------------------------------- */

/* Writes the row, as it is told: firing, or over already. */
enum df_code alert_insert(struct df_db *db, const struct alert *alert,
                          struct df_err *err) DF_MUST_CHECK;

#endif
