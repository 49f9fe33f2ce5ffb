/* Shared by the files of this room. */
#ifndef DF_SERIES_SERIES_PRIVATE_H
#define DF_SERIES_SERIES_PRIVATE_H

#include "base/loop.h"
#include "base/tally.h"
#include "series/series.h"

#define SERIES_MINUTE_MS INT64_C(60000)
#define SERIES_HOUR_MS   INT64_C(3600000)
#define SERIES_MINUTE    60 /* SeriesPoints.Grain */
#define SERIES_HOUR      3600

/* What the process that has the turn does next. */
enum series_step { SERIES_LOOK, SERIES_GAUGES, SERIES_ROLL, SERIES_DROP };

struct df_series {
    struct df_series_options opt;
    struct df_loop loop;
    char instance[200];
    int64_t planned_ms; /* wall: when the interval in hand is over */
    /* The upkeep; its thread's. */
    enum series_step step;
    int64_t next_hour_ms; /* the next one to be made; -1: to be found out */
    int64_t gauges_ms;    /* monotonic: not before, since looking took long */
};

static inline int64_t series_floor(int64_t ms, int64_t unit_ms)
{
    return ms - ((ms % unit_ms) + unit_ms) % unit_ms;
}

/* --- gauges.c --------------------------------------------------------------------------------- */

enum df_code series_note_waiting(struct df_series *s, int64_t now_ms,
                                 struct df_err *err) DF_MUST_CHECK;

#endif
