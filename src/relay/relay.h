/*
 * The relay: sends the rows of another application's outbox table to their destination.
 *
 * The application only has to provide the table. A worker opens a transaction, takes a batch of
 * pending rows that no other relay holds (FOR UPDATE SKIP LOCKED), sends them side by side, marks
 * the outcome of each and commits. A failure before the commit leaves the rows as they were.
 *
 * README.md of this directory has the whole story: the claim, the order, the proof.
 */
#ifndef DF_RELAY_RELAY_H
#define DF_RELAY_RELAY_H

#include "base/buf.h"
#include "relay/dispatcher.h"
#include "relay/settings.h"
#include "resilience/breaker.h"
#include "resilience/retry.h"
#include "store/db.h"

/* The sink's options that the settings give, borrowed; the rest (client, clock, …) is zero. */
void df_relay_sink_options(const struct df_relay_settings *s, struct df_sink_options *ret);

struct df_masker;
struct df_relay;

struct df_relay_options {
    const struct df_relay_settings *settings; /* lives as long as the relay */
    struct df_outbound *outbound; /* has the relay's breaker, "relay:NAME"; outlives the relay */
    const struct df_clock *clock;
    const struct df_dispatcher *dispatcher; /* NULL: the one that is configured */
    int64_t give_up_ms; /* after an event's first failure: delivery.give_up_hours */
    /* Somebody reads and writes the relay's row of DeliveryTargets (health.h). Nothing is claimed
     * before it was read for the first time. */
    bool shares_health;
    const struct df_masker *masker; /* of what destinations answer; NULL: as free text */
};

/*
 * Starts its threads and returns; the source need not be reachable yet. The start-up check logs
 * what is wrong with the table (RelayTableWrong, with the statement that mends it, if there is one)
 * and is repeated every few seconds: the table may come with the application's next release.
 */
struct df_relay *df_relay_start(const struct df_relay_options *opt);
/* Tells the relay that there may be new rows. Cheap; any thread; NULL is fine. */
void df_relay_wake(struct df_relay *r);
/* Waits until rows that were committed before the last wake-up were tried, at most for that long.
 */
void df_relay_flush(struct df_relay *r, int64_t ms);
/*
 * The end, in four steps; NULL is fine in each. drain: claims nothing more, and does not wait, so
 * that several relays drain side by side. stop: batches in hand have until drain_ms to be settled;
 * then calls are cut off, to brokers by the workers, over HTTP when the client is stopped. end:
 * waits for the workers, which settle and log what came back; rows that are not settled stay as
 * they were. free comes last.
 */
void df_relay_drain(struct df_relay *r);
void df_relay_stop(struct df_relay *r, int64_t drain_ms);
void df_relay_end(struct df_relay *r);
void df_relay_free(struct df_relay *r);

/* --- for people: `dataflow relay status`, /admin/relays --- */

struct df_relay_status {
    const char *name;
    const char *dispatcher;
    char source[256]; /* the URL without secrets */
    const char *table;
    char target[256]; /* without user and password; "" for log */
    const char *order;
    bool running;      /* the table was found and is right */
    bool standing_by;  /* SQLite: another process relays this table */
    bool notified;     /* LISTEN works: the probe came back */
    int64_t waiting;   /* -1: not known */
    int64_t oldest_ms; /* wall clock, of the oldest row that waits; -1: none */
    /* Rows that were given up; -1: not known. A running relay counts them only if there are some,
     * as far as it knows, and then seldom: no index has them. The three that follow are of those
     * that this process gave up. */
    int64_t failed;
    int64_t failed_since_ms; /* wall clock; 0: none, as the next */
    int64_t failed_at_ms;
    char failed_error[200]; /* of the last, without the peer's words; "": none */
    int64_t dispatched;     /* since start */
    int64_t retried;
    int64_t given_up;
    int64_t last_dispatch_ms; /* wall clock; -1: none */
    char problem[480];        /* "" if there is none */
    int64_t down_since_ms;    /* wall clock: the breaker is not closed since; 0: it is */
    int64_t paused_ms;        /* wall clock: a person paused it; 0: no */
    char last_error[1024];    /* of the last attempt that failed; "": none did */
};

void df_relay_status(struct df_relay *r, struct df_relay_status *ret);
/* There may be rows that were given up: the relay counts them. Cheap; any thread. */
void df_relay_count_failed(struct df_relay *r);
/* running, down, paused, standingBy, or stopped: the table is not reachable or not right. */
const char *df_relay_state_name(const struct df_relay_status *s);
/* Without a running relay: connects, checks, counts. */
enum df_code df_relay_look(const struct df_relay_settings *s, struct df_relay_status *ret,
                           struct df_buf *complaints, struct df_err *err) DF_MUST_CHECK;
/* The target without user, password and query. */
void df_relay_target_masked(const struct df_relay_settings *s, char *out, size_t size);

/* --- the trigger --- */

/* The statements that make every insert wake the relay, for PostgreSQL; DF_E_CONFIG for others, or
 * without notify_channel. Needs no connection: takes the table's name as configured. */
enum df_code df_relay_trigger_sql(const struct df_relay_settings *s, struct df_buf *out,
                                  struct df_err *err) DF_MUST_CHECK;
enum df_code df_relay_trigger_apply(const struct df_relay_settings *s,
                                    struct df_err *err) DF_MUST_CHECK;

#endif
