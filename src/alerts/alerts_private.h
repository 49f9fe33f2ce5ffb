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
#define ALERT_SUBJECTS    1000 /* of a rule that are looked at */
#define ALERT_SUBJECT_MAX 100  /* bytes: Alerts.Subject */
#define ALERT_SOURCES_MAX 4
#define ALERT_CUT_MAX     16
#define ALERT_FIRING_MAX  100 /* of a rule that fire at a time: more pages would help nobody */

enum alert_rule {
    ALERT_BATCH_STUCK,
    ALERT_WEBHOOK_FAILING,
    ALERT_ERROR_RATE,
    ALERT_DELIVERY_STUCK,
    ALERT_GIVEN_UP,
    ALERT_CLIENT_SECRET_OLD,
    ALERT_SECRET_WAITS,
    ALERT_RULES,
    ALERT_TEST = ALERT_RULES, /* sent by hand; never evaluated */
};

enum alert_sink { ALERT_PAGERDUTY, ALERT_TEAMS, ALERT_SINKS };
enum alert_action { ALERT_TRIGGER, ALERT_RESOLVE };

/* Memory: the arena of its maker. */
struct alert {
    struct df_link link; /* it is in one list at a time */
    struct df_uuid id;
    enum alert_rule rule;
    struct df_str subject;
    struct df_str severity; /* one of PagerDuty's */
    struct df_str summary;
    struct df_str details; /* a JSON object of plain members */
    int64_t documents;     /* that it is about; 0: its rule counts none */
    int64_t reported;      /* of them, in the last message */
    int64_t fired_ms;
    int64_t resolved_ms;       /* -1: it still fires */
    bool acknowledged;         /* somebody looks after it: its message is not repeated */
    struct df_str silenced_by; /* the silence that kept its first message back; absent: none */
    bool seen;                 /* evaluation: its condition holds */
};

struct df_alerts {
    struct df_alerts_options opt;
    struct df_delivery *delivery;
    struct df_channel channel;
    struct df_alerts_source sources[ALERT_SOURCES_MAX];
    size_t source_count;
    struct df_metric *firing[ALERT_RULES];
    char source[256]; /* this host, for PagerDuty */
};

/* --- rules.c ---------------------------------------------------------------------------------- */

const char *alert_rule_name(enum alert_rule r);
/* The part of the product that the rule is about, for PagerDuty. */
const char *alert_rule_component(enum alert_rule r);
/* False: the name is of another version's rule. */
bool alert_rule_parse(struct df_str name, enum alert_rule *ret);

/* What a rule did not look at, because there was too much: the condition may hold there too. */
struct alert_cut {
    bool any;                          /* of all subjects */
    const char *places[ALERT_CUT_MAX]; /* of those that begin with one of these words */
    size_t count;
};
bool alert_is_cut(const struct alert_cut *cut, struct df_str subject);

/* Adds the subjects whose condition holds now. */
enum df_code alert_rule_find(const struct df_alerts *a, enum alert_rule r, struct df_db *db,
                             int64_t now_ms, struct df_arena *arena, struct df_list *to,
                             struct alert_cut *ret_cut, struct df_err *err) DF_MUST_CHECK;

/* What a rule's query finds, while it runs. */
struct alert_finding {
    const struct df_alerts *a;
    int64_t now_ms;
    struct df_arena *arena;
    struct df_list *list;
    const struct df_channel *channel; /* whose query runs */
    struct df_buf json;
    struct df_json_out details;
    struct alert_cut cut;
};

/* The caller sets severity and summary, and writes the details between the two calls. */
struct alert *alert_begin(struct alert_finding *f, enum alert_rule rule, struct df_str subject);
void alert_end(struct alert_finding *f, struct alert *alert);

/* --- given_up.c ------------------------------------------------------------------------------- */

enum df_code alert_find_given_up(struct alert_finding *f, struct df_db *db,
                                 struct df_err *err) DF_MUST_CHECK;
/* Whether people are told again of an alert that fires, because there is much more than they were
 * told of. */
bool alert_has_grown(int64_t reported, int64_t documents);

/* --- silences.c ------------------------------------------------------------------------------- */

#define ALERT_SILENCES_MAX 200 /* in force */

/* What an alert must have for the silence to be about it; what is absent is not asked for. */
struct alert_silence {
    struct df_link link;
    struct df_str id;
    struct df_str rule, client, target;
};

/* Reads the silences in force. */
enum df_code alert_silences_read(struct df_db *db, int64_t now_ms, struct df_arena *arena,
                                 struct df_list *to, struct df_err *err) DF_MUST_CHECK;
/* The id of the first that is about the alert; absent: none is. */
struct df_str alert_silence_of(const struct df_list *silences, const struct alert *alert,
                               struct df_arena *arena);
/* The console's page about what the alert is about: "#outbox/ticket-return?status=Error". */
struct df_str alert_link(struct df_str rule, struct df_str id, struct df_str subject,
                         struct df_str details, struct df_arena *arena);

/* --- payload.c -------------------------------------------------------------------------------- */

/* The body for the sink, as its documentation defines it, without PagerDuty's routing_key. */
enum df_code alert_payload(const struct df_alerts *a, enum alert_sink sink,
                           enum alert_action action, const struct alert *alert,
                           struct df_arena *arena, struct df_str *ret,
                           struct df_err *err) DF_MUST_CHECK;

/* --- channel.c -------------------------------------------------------------------------------- */

const char *alert_sink_name(enum alert_sink s);
bool alert_sink_configured(const struct df_alerts *a, enum alert_sink s);
void alert_channel_init(struct df_alerts *a);
/* Writes a message to each configured sink, inside the caller's transaction. */
enum df_code alert_send(const struct df_alerts *a, struct df_db *db, enum alert_action action,
                        const struct alert *alert, int64_t now_ms, struct df_arena *arena,
                        struct df_err *err) DF_MUST_CHECK;

/* --- alerts.c --------------------------------------------------------------------------------- */

/* Writes the row as given, firing or already over. */
enum df_code alert_insert(struct df_db *db, const struct alert *alert,
                          struct df_err *err) DF_MUST_CHECK;

#endif
