/*
 * Sends the log (log.ship), and never in the way of who writes it:
 *
 *   df_log_write ──► queue in memory ──► spool on the disk ──► batch, gzip ──► target
 *      any thread      bounded            bounded               one call at a time
 *                     └────────── the thread of the shipper ─────────┘
 *
 * Lines are copied into the queue under a lock that is held for nothing else; a full queue drops
 * them. The thread takes them to the spool within GATHER_MS, so that a process that is killed loses
 * no more than that. A batch leaves the spool when the target has taken it.
 *
 * What the target refuses or cannot take now is told by the protocol (target.h). While it is away
 * the shipper tries again, with full jitter and no sooner than Retry-After says; there is one call
 * at a time, so a circuit breaker would have nothing to hold back. It has an HTTP client of its
 * own: lines are also sent while other parts start and after they have ended, and take no slot from
 * deliveries.
 *
 * Its own lines (LogShippingFailing, LogShippingRestored, LogLinesDropped) are shipped like others,
 * and are limited to one of a kind a minute, so that they cannot feed themselves.
 *
 * Threads: opened and closed by one thread.
 */
#ifndef DF_SHIP_SHIPPER_H
#define DF_SHIP_SHIPPER_H

#include "ship/settings.h"

#include "base/clock.h"

struct df_shipper;

/* Opens the spool in data_dir/spool/logs; from here on all lines are shipped. */
enum df_code df_shipper_open(const struct df_ship_settings *settings, const char *data_dir,
                             const struct df_clock *clock, struct df_shipper **ret,
                             struct df_err *err) DF_MUST_CHECK;

/*
 * Lines from here on go to standard error only. What waits is sent for up to flush_ms, unless the
 * target does not take it; the rest stays in the spool for the next process. NULL is fine.
 */
void df_shipper_close(struct df_shipper *take_s, int64_t flush_ms);

#endif
