/*
 * Hours out of minutes, and the end of old rows. All steps may be repeated: an hour is written
 * anew from its minutes, and a minute is removed only when its hour was made. The last hours are
 * made once more when a turn begins after a start, since a process may write the figures of a
 * minute late.
 */
#include "base/log.h"
#include "series/series.sql.h"
#include "series/series_private.h"

#define LOOK_MS        5000
#define TURN_EVERY_MS  SERIES_MINUTE_MS
#define HOUR_SETTLE_MS (2 * SERIES_MINUTE_MS) /* until processes have written their last minute */
#define AGAIN_HOURS    2
#define AGAIN_MS       (20 * SERIES_HOUR_MS) /* younger hours have all their minutes */
#define AHEAD_MS       (24 * SERIES_HOUR_MS)
#define DROP_MINUTES   10 /* of rows of minutes in one step */
#define DROP_HOURS     1
#define MARKS_AT_ONCE  500

struct upkeep_job {
    struct df_job job;
    struct df_series *s;
    int64_t now_ms;
    int64_t taken;
    int64_t rolled_ms, oldest_ms; /* -1: none */
    int64_t from_ms;
    int64_t dropped;
};

/* --- the turn --------------------------------------------------------------------------------- */

static enum df_code run_take(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct upkeep_job *u = (struct upkeep_job *)job;
    enum df_code code = df_db_exec(db, DF_Q(series_turn_add, .due = df_time(u->now_ms)), NULL, err);

    if (code != DF_OK)
        return code;
    /* On the minute, so that each minute has its look. */
    int64_t due_ms = series_floor(u->now_ms, TURN_EVERY_MS) + TURN_EVERY_MS;
    return df_db_exec(db,
                      DF_Q(series_turn_take, .due = df_time(due_ms), .now = df_time(u->now_ms),
                           .ahead = df_time(u->now_ms + 2 * TURN_EVERY_MS)),
                      &u->taken, err);
}

/* --- hours ------------------------------------------------------------------------------------ */

static void read_rolled(void *arg, struct df_result *r)
{
    ((struct upkeep_job *)arg)->rolled_ms = df_col_time(r, series_rolled_PointAt);
}

static void read_oldest(void *arg, struct df_result *r)
{
    ((struct upkeep_job *)arg)->oldest_ms = df_col_time(r, series_oldest_PointAt);
}

/* The first minute from a time on; -1 in oldest_ms: there is none. */
static enum df_code find_minute(struct df_db *db, struct upkeep_job *u, int64_t from_ms,
                                struct df_err *err)
{
    u->oldest_ms = -1;
    return df_db_one(db,
                     DF_Q(series_oldest, .grain = df_int(SERIES_MINUTE), .from = df_time(from_ms)),
                     read_oldest, u, NULL, err);
}

static enum df_code run_find(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct upkeep_job *u = (struct upkeep_job *)job;

    u->rolled_ms = -1;
    enum df_code code =
        df_db_one(db, DF_Q(series_rolled, .now = df_time(u->now_ms)), read_rolled, u, NULL, err);
    if (code != DF_OK)
        return code;
    int64_t from_ms = u->rolled_ms >= 0 ? u->rolled_ms + SERIES_HOUR_MS : 0;
    int64_t back_ms = from_ms - AGAIN_HOURS * SERIES_HOUR_MS;
    return find_minute(db, u, back_ms >= u->now_ms - AGAIN_MS ? back_ms : from_ms, err);
}

/* The hour of the minute that was found. */
static int64_t hour_of(const struct upkeep_job *u)
{
    return series_floor(u->oldest_ms >= 0 ? u->oldest_ms : u->now_ms, SERIES_HOUR_MS);
}

static enum df_code run_roll(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct upkeep_job *u = (struct upkeep_job *)job;
    struct df_value from = df_time(u->from_ms);
    struct df_value to = df_time(u->from_ms + SERIES_HOUR_MS);
    enum df_code code = df_db_exec(db, DF_Q(series_drop_hour, .from = from), NULL, err);

    if (code == DF_OK)
        code = df_db_exec(db,
                          DF_Q(series_roll, .from = from, .to = to,
                               .clients = df_int(u->s->opt.settings.max_clients)),
                          NULL, err);
    return code == DF_OK ? find_minute(db, u, u->from_ms + SERIES_HOUR_MS, err) : code;
}

/* Makes one hour, if one is over; *ret_more: there may be another. */
static enum df_code roll_hour(struct df_series *s, int64_t now_ms, bool *ret_more,
                              struct df_err *err)
{
    struct upkeep_job u = {.job = {.run = run_find}, .s = s, .now_ms = now_ms};
    enum df_code code = DF_OK;

    *ret_more = false;
    /* To be found after a start, after the clock was set back, and when others have had all turns
     * for so long that the minutes of this hour may be gone: made of what is left, a good hour
     * would be lost. */
    if (s->next_hour_ms < now_ms - AGAIN_MS || s->next_hour_ms > now_ms + SERIES_HOUR_MS) {
        code = df_store_read_wait(s->opt.store, &u.job, err);
        if (code == DF_OK)
            s->next_hour_ms = hour_of(&u);
    }
    if (code != DF_OK || s->next_hour_ms + SERIES_HOUR_MS + HOUR_SETTLE_MS > now_ms)
        return code;
    u.job = (struct df_job){.run = run_roll};
    u.from_ms = s->next_hour_ms;
    code = df_store_write_wait(s->opt.store, &u.job, err);
    if (code != DF_OK)
        return code;
    s->next_hour_ms = hour_of(&u);
    *ret_more = true;
    return DF_OK;
}

/* --- the end of rows -------------------------------------------------------------------------- */

/* Removes the oldest rows of a grain, of so long a time, before `before_ms`. */
static enum df_code drop_oldest(struct df_db *db, struct upkeep_job *u, int grain,
                                int64_t before_ms, int64_t span_ms, struct df_err *err)
{
    int64_t dropped = 0;

    u->oldest_ms = -1;
    enum df_code code =
        df_db_one(db, DF_Q(series_oldest, .grain = df_int(grain), .from = df_time(0)), read_oldest,
                  u, NULL, err);
    if (code != DF_OK || u->oldest_ms < 0 || u->oldest_ms >= before_ms)
        return code;
    int64_t until_ms = u->oldest_ms + span_ms < before_ms ? u->oldest_ms + span_ms : before_ms;
    code = df_db_exec(db, DF_Q(series_drop, .grain = df_int(grain), .before = df_time(until_ms)),
                      &dropped, err);
    u->dropped += dropped;
    return code;
}

static enum df_code drop_marks(struct df_db *db, struct upkeep_job *u, struct df_err *err)
{
    int64_t dropped = 0;
    enum df_code code =
        df_db_exec(db,
                   DF_Q(mark_drop, .before = df_time(u->now_ms - DF_SERIES_HOURS_MS),
                        .limit = df_int(MARKS_AT_ONCE)),
                   &dropped, err);

    u->dropped += dropped;
    if (code == DF_OK)
        code = df_db_exec(
            db,
            DF_Q(mark_trim, .most = df_int(DF_SERIES_MARKS_MOST), .limit = df_int(MARKS_AT_ONCE)),
            &dropped, err);
    u->dropped += dropped;
    return code;
}

static enum df_code run_drop(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct upkeep_job *u = (struct upkeep_job *)job;
    const struct df_series *s = u->s;
    int64_t minutes_ms = u->now_ms - DF_SERIES_MINUTES_MS;
    enum df_code code = DF_OK;

    u->dropped = 0;
    if (minutes_ms > s->next_hour_ms)
        minutes_ms = s->next_hour_ms; /* not before its hour is made; -1: nothing yet */
    code = drop_oldest(db, u, SERIES_MINUTE, minutes_ms, DROP_MINUTES * SERIES_MINUTE_MS, err);
    if (code == DF_OK)
        code = drop_oldest(db, u, SERIES_HOUR, u->now_ms - DF_SERIES_HOURS_MS,
                           DROP_HOURS * SERIES_HOUR_MS, err);
    for (int i = 0; i < 2 && code == DF_OK; i++)
        code = df_db_exec(db,
                          DF_Q(series_drop_ahead, .grain = df_int(i ? SERIES_HOUR : SERIES_MINUTE),
                               .after = df_time(u->now_ms + AHEAD_MS)),
                          NULL, err);
    return code == DF_OK ? drop_marks(db, u, err) : code;
}

/* --- a step ----------------------------------------------------------------------------------- */

static enum df_code take_step(struct df_series *s, int64_t now_ms, bool *ret_more,
                              struct df_err *err)
{
    struct upkeep_job u = {.s = s, .now_ms = now_ms};
    enum df_code code = DF_OK;

    *ret_more = true;
    switch (s->step) {
    case SERIES_LOOK:
        u.job = (struct df_job){.run = run_take};
        code = df_store_write_wait(s->opt.store, &u.job, err);
        *ret_more = code == DF_OK && u.taken > 0;
        if (*ret_more)
            s->step = SERIES_GAUGES;
        return code;
    case SERIES_GAUGES:
        s->step = SERIES_ROLL;
        return s->opt.settings.enabled ? series_note_waiting(s, now_ms, err) : DF_OK;
    case SERIES_ROLL:
        code = roll_hour(s, now_ms, ret_more, err);
        if (!*ret_more)
            s->step = SERIES_DROP;
        *ret_more = true;
        return code;
    case SERIES_DROP:
        u.job = (struct df_job){.run = run_drop};
        code = df_store_write_wait(s->opt.store, &u.job, err);
        *ret_more = code == DF_OK && u.dropped > 0;
        if (!*ret_more)
            s->step = SERIES_LOOK;
        return code;
    }
    return code;
}

int64_t df_series_turn(struct df_series *s)
{
    struct df_err err = DF_ERR_INIT;
    int64_t now_ms = df_wall_ms(s->opt.clock);
    int64_t begun_ms = df_mono_ms(s->opt.clock);
    bool more = false;

    if (take_step(s, now_ms, &more, &err) != DF_OK) {
        df_log_warn("SeriesUpkeepFailed", "%s", err.detail);
        s->step = SERIES_LOOK;
        s->next_hour_ms = -1;
        return DF_LOOP_FAILED;
    }
    int64_t took_ms = df_mono_ms(s->opt.clock) - begun_ms;
    if (more)
        return took_ms;
    int64_t left_ms =
        series_floor(now_ms, TURN_EVERY_MS) + TURN_EVERY_MS - df_wall_ms(s->opt.clock);
    return left_ms < 1 ? 1 : left_ms < LOOK_MS ? left_ms : LOOK_MS;
}
