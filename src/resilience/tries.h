/*
 * When a document that cannot be delivered is given up: an outage is not a failed delivery.
 *
 * A document has a limited number of failures, but a failure counts only while its target is well:
 * while the breaker is closed and other documents arrive. A target that is away, refuses everybody
 * (an expired key) or asks to wait costs no document a failure, however long that takes. One
 * poisoned document among others that arrive is given up soon.
 *
 *     failing try
 *       |-- refused: the document's own fault ------------------------------> GIVEN_UP (REFUSED)
 *       |-- give_up_ms after the first failure, and min_tries were made ----> GIVEN_UP (TIME)
 *       |-- it counts, and is the last one allowed --------------------------> GIVEN_UP (COUNT)
 *       '-- else ------------------------------------------------------------> AGAIN
 *
 * It counts if all of this holds:
 *   - it is the target's answer or silence, not a fault of ours, not 429, and names no time to
 * wait;
 *   - the breaker is closed;
 *   - at least DF_TRIES_OTHERS other documents of the target arrived since the document's last
 *     counted failure; before the first one: since its first try;
 *   - the last counted failure is at least cap_ms ago.
 *
 * Used by the delivery engine, the relay and the processing of tickets. Pure: no clock, no state.
 */
#ifndef DF_RESILIENCE_TRIES_H
#define DF_RESILIENCE_TRIES_H

#include <stdbool.h>
#include <stdint.h>

#define DF_TRIES_OTHERS 3  /* documents that show that the target is well */
#define DF_TRIES_MIN    50 /* tries before a document is given up by time */

/* What is known of a document. Stored with it where its table has room. */
struct df_tries {
    int64_t tries;           /* all of them, the one that is judged included */
    int64_t counted;         /* failures that counted */
    int64_t first_failed_ms; /* wall clock; 0: it has not failed yet */
    int64_t counted_ms;      /* wall clock, of the last failure that counted; 0: none */
    int64_t mark; /* arrivals of its target then, before: at its first try; -1: not known */
};

struct df_tries_policy {
    int64_t max_counted;
    int64_t cap_ms;     /* between two failures that count */
    int64_t give_up_ms; /* after the first failure */
};

/* A try that failed. */
struct df_tries_failure {
    int64_t now_ms;
    bool refused;           /* the same document will never be taken */
    bool never_counts;      /* 429, a time to wait, a fault of ours */
    bool is_well;           /* the breaker is closed */
    int64_t arrived;        /* documents of the target that arrived, ever */
    int64_t arrived_before; /* the same when this try began */
};

enum df_tries_verdict {
    DF_TRIES_AGAIN,
    DF_TRIES_REFUSED,
    DF_TRIES_COUNT, /* too many failures counted */
    DF_TRIES_TIME,  /* it failed for too long */
};

/* Judges the failure and notes it in t. After a verdict other than AGAIN `counted` is at least
 * max_counted: what will be tried again is what has fewer. */
enum df_tries_verdict df_tries_fail(const struct df_tries_policy *p, struct df_tries *t,
                                    const struct df_tries_failure *f);

#endif
