/*
 * The figures that the server keeps itself (docs/series.md): accepted, processed, delivered,
 * failed, waiting, the oldest that waits, and the time to an ack, by client and channel; by minute
 * for a day and by hour for 90 days. With them the moments when a breaker opened, an alert fired,
 * a replica started.
 *
 * Every process counts in memory (base/tally.h) and adds what it counted once a minute, many rows
 * with one statement; so processes add up, and a crash loses a minute. What waits is looked at by
 * one process of the role `maintain` at a time, whose turn it is for the minute (MaintenanceRuns).
 * It also makes hours of minutes, and removes what is old. These are figures for people: nothing
 * else in the server depends on them.
 */
#ifndef DF_SERIES_SERIES_H
#define DF_SERIES_SERIES_H

#include "base/clock.h"
#include "net/http.h"
#include "series/settings.h"
#include "store/store.h"

#define DF_SERIES_MINUTES_MS (INT64_C(25) * 3600 * 1000) /* a day, and an hour for the roll-up */
#define DF_SERIES_HOURS_MS   (INT64_C(90) * 24 * 3600 * 1000) /* marks too */
#define DF_SERIES_MARKS_MOST 20000

struct df_series;

struct df_series_options {
    struct df_store *store;
    const struct df_clock *clock;
    struct df_series_settings settings;
};

/* Counts from now on, and marks the start of this process. */
struct df_series *df_series_new(const struct df_series_options *opt);
void df_series_start(struct df_series *s);
/* Marks the end of this process and writes the last figures. The store still takes jobs. */
void df_series_end(struct df_series *s);
void df_series_free(struct df_series *s);

/* Writes what was counted, into the minute of at_ms. */
enum df_code df_series_write(struct df_series *s, int64_t at_ms, struct df_err *err) DF_MUST_CHECK;

/*
 * One small step of the upkeep: who has the minute's turn notes what waits, then makes an hour, or
 * removes a portion of old rows. Returns as a turn of part_maintenance.c. One thread.
 */
int64_t df_series_turn(struct df_series *s);

extern const struct df_route df_series_routes[]; /* argument: none */
extern const struct df_route df_flow_routes[];   /* argument: none */

#endif
