/*
 * The attempts of a row, as people see them. A success at the first try has no row of its own in
 * DeliveryAttempts: the delivered row says when it was, what was answered and how long it took.
 */
#ifndef DF_DELIVERY_HISTORY_H
#define DF_DELIVERY_HISTORY_H

#include "store/db.h"

struct df_delivery_attempt {
    int64_t attempt;
    int64_t attempted_ms;
    struct df_str outcome; /* Sent, Retry, Error, Stale */
    int64_t http_status;   /* 0: no answer */
    int64_t duration_ms;
    struct df_str answer;
    struct df_str error;
};

/* What a row says of the try that arrived. */
struct df_sent_try {
    int64_t tries;
    int64_t started_ms;
    int64_t http_status; /* 0: the row was not sent, or an older version of the program sent it */
    int64_t duration_ms;
};
/* `http_status` is that of a row in this state: 0 unless it is Sent. */
struct df_sent_try df_sent_try(struct df_str status, int64_t tries, int64_t started_ms,
                               int64_t http_status, int64_t duration_ms);

/* Calls `attempt` for the last attempts of a row, newest first, at most `limit`. What it is given
 * is borrowed for the call. */
enum df_code df_history_each(struct df_db *db, struct df_str channel, struct df_str row_key,
                             const struct df_sent_try *sent, size_t limit,
                             void (*attempt)(void *arg, const struct df_delivery_attempt *a),
                             void *arg, struct df_err *err) DF_MUST_CHECK;

#endif
