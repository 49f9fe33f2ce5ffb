/*
 * Alerts: rules that the role `maintain` evaluates now and then, and messages to the operator
 * through PagerDuty (Events API v2) and Teams (a Workflows webhook).
 *
 *     nothing --condition true, one commit--> firing --condition gone, one commit--> resolved
 *                 writes `trigger` for                    writes `resolve` for
 *                 each sink                               each sink
 *
 * An alert that counts documents is brought up to date while it fires, and its `trigger` is written
 * again when they have become many more.
 *
 * An alert is a row. A unique index lets one alert at a time fire for a rule and a subject. The
 * messages are rows of the channel "alerts", written in the transaction of the change: a crash
 * neither loses nor repeats one. Any number of processes may call evaluate; a row that they compete
 * for lets one of them do it in each interval.
 *
 * An alert that a silence is about is stored and not sent; when the silence is over and the alert
 * still fires, its message goes out. The message of one that somebody has acknowledged is not
 * repeated.
 *
 * Without a configured sink alerts are still stored, shown and counted.
 */
#ifndef DF_ALERTS_ALERTS_H
#define DF_ALERTS_ALERTS_H

#include "alerts/settings.h"
#include "delivery/delivery.h"
#include "net/http.h"

struct df_alerts;

struct df_alerts_options {
    struct df_store *store; /* NULL: only the channel is wanted */
    const struct df_clock *clock;
    struct df_alerts_settings settings;
};

/* The settings' texts and secrets are borrowed and must outlive the alerts. */
struct df_alerts *df_alerts_new(const struct df_alerts_options *opt);
void df_alerts_free(struct df_alerts *a); /* after the engine is gone */

/* Before the engine starts. The rule of stuck deliveries looks at the channels that the engine has
 * then. */
void df_alerts_add_channel(struct df_alerts *a, struct df_delivery *d);

/* A place besides the channels where documents are given up. */
struct df_alerts_source {
    const char *name;                /* "tickets": the first word of the alerts' subjects */
    const struct df_query *given_up; /* as the member of struct df_channel */
};
/* Before the first evaluation; a few. */
void df_alerts_add_source(struct df_alerts *a, const struct df_alerts_source *source);

/* Evaluates the rules unless another process has just done so. Waits for the store; one thread at a
 * time. */
void df_alerts_evaluate(struct df_alerts *a);

/* /admin/alerts and /admin/alert-silences. */
extern const struct df_route df_alert_routes[];
extern const struct df_route df_silence_routes[];

#endif
