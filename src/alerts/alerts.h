/*
 * Alerts: rules that the role `maintain` evaluates now and then, and messages to the operator
 * through PagerDuty (Events API v2) and Teams (a Workflows webhook).
 *
 *     nothing --condition true, one commit--> firing --condition gone, one commit--> resolved
 *                 writes `trigger` for                    writes `resolve` for
 *                 each sink                               each sink
 *
 * An alert is a row. A unique index lets one alert at a time fire for a rule and a subject. The
 * messages are rows of the channel "alerts", written in the transaction of the change: a crash
 * neither loses nor repeats one. Any number of processes may call evaluate; a row that they compete
 * for lets one of them do it in each interval.
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

/* Evaluates the rules unless another process has just done so. Waits for the store; one thread at a
 * time. */
void df_alerts_evaluate(struct df_alerts *a);

/* GET /admin/alerts, POST /admin/alerts/test. */
extern const struct df_route df_alert_routes[];

#endif
