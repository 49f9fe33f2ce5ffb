/*
 * GET /admin/flow: the way of documents through the server as three steps, accepted, processed and
 * delivered, with what waits before each and what failed there. All of it is read from the figures
 * that the server keeps (series.h): a range of the primary key of one small table.
 */
#include "access/handler.h"
#include "series/series.sql.h"
#include "series/series_private.h"

#define POINTS_MAX   200
#define RATE_MINUTES 5
#define ANSWER_MAX   (1 << 18)

enum step { ACCEPTED, PROCESSED, DELIVERED, STEPS };
static const char *const step_names[STEPS] = {"accepted", "processed", "delivered"};

struct window {
    const char *name;
    int64_t length_ms, step_ms;
};

static const struct window windows[] = {
    {"hour", SERIES_HOUR_MS, SERIES_MINUTE_MS},
    {"day", 24 * SERIES_HOUR_MS, 15 * SERIES_MINUTE_MS},
    {"week", SERIES_HOUR_MS * 24 * 7, SERIES_HOUR_MS},
};

struct flow {
    struct df_work w;
    const struct window *window;
    int64_t from_ms;
    size_t count;
    int64_t points[STEPS][POINTS_MAX];
    int64_t failed[STEPS];
    int64_t lately[STEPS]; /* in the last RATE_MINUTES whole minutes */
    int64_t waiting[STEPS];
    int64_t waiting_at_ms[STEPS];
    int64_t rolled_ms; /* the last hour that was made; -1: none */
};

static void read_point(void *arg, struct df_result *r)
{
    struct flow *f = arg;
    int64_t at_ms = df_col_time(r, flow_read_PointAt);
    bool processing = df_col_int(r, flow_read_IsProcessing) == 1;

    if (at_ms < f->from_ms)
        return;
    size_t i = (size_t)((at_ms - f->from_ms) / f->window->step_ms);
    if (i >= f->count)
        return;
    f->points[ACCEPTED][i] += df_col_int(r, flow_read_Accepted);
    f->points[PROCESSED][i] += df_col_int(r, flow_read_Processed);
    f->points[DELIVERED][i] += df_col_int(r, flow_read_Delivered);
    f->failed[processing ? PROCESSED : DELIVERED] += df_col_int(r, flow_read_Failed);
}

static void read_lately(void *arg, struct df_result *r)
{
    struct flow *f = arg;
    int64_t at_ms = df_col_time(r, flow_read_PointAt);
    int64_t minute_ms = series_floor(f->w.now_ms, SERIES_MINUTE_MS);
    enum step step = df_col_int(r, flow_read_IsProcessing) == 1 ? PROCESSED : DELIVERED;

    if (!df_col_null(r, flow_read_Waiting) && at_ms >= f->waiting_at_ms[step]) {
        f->waiting[step] = df_col_int(r, flow_read_Waiting);
        f->waiting_at_ms[step] = at_ms;
    }
    if (at_ms >= minute_ms || at_ms < minute_ms - RATE_MINUTES * SERIES_MINUTE_MS)
        return;
    f->lately[ACCEPTED] += df_col_int(r, flow_read_Accepted);
    f->lately[PROCESSED] += df_col_int(r, flow_read_Processed);
    f->lately[DELIVERED] += df_col_int(r, flow_read_Delivered);
}

static enum df_code read_rows(struct df_db *db, struct flow *f, int grain, int64_t from_ms,
                              void (*row)(void *arg, struct df_result *r), int64_t to_ms,
                              struct df_err *err)
{
    if (from_ms >= to_ms)
        return DF_OK;
    return df_db_each(
        db, DF_Q(flow_read, .grain = df_int(grain), .from = df_time(from_ms), .to = df_time(to_ms)),
        row, f, err);
}

static void read_rolled(void *arg, struct df_result *r)
{
    ((struct flow *)arg)->rolled_ms = df_col_time(r, series_rolled_PointAt);
}

/* Steps of hours are read from the hours that were made, and the rest from the minutes. */
static enum df_code read_points(struct df_db *db, struct flow *f, struct df_err *err)
{
    int64_t now_ms = f->w.now_ms, minutes_ms = f->from_ms;
    enum df_code code = DF_OK;

    if (f->window->step_ms == SERIES_HOUR_MS) {
        f->rolled_ms = -1;
        code =
            df_db_one(db, DF_Q(series_rolled, .now = df_time(now_ms)), read_rolled, f, NULL, err);
        minutes_ms = series_floor(now_ms - DF_SERIES_MINUTES_MS, SERIES_HOUR_MS);
        if (f->rolled_ms + SERIES_HOUR_MS > minutes_ms)
            minutes_ms = f->rolled_ms + SERIES_HOUR_MS;
        if (code == DF_OK)
            code = read_rows(db, f, SERIES_HOUR, f->from_ms, read_point, minutes_ms, err);
    }
    if (code == DF_OK)
        code = read_rows(db, f, SERIES_MINUTE, minutes_ms, read_point, now_ms, err);
    return code;
}

static void write_step(const struct flow *f, enum step s, struct df_json_out *out)
{
    df_json_open(out, '{');
    df_json_kv_text(out, "name", df_str_c(step_names[s]));
    df_json_key(out, "perMinute");
    df_json_double(out, (double)f->lately[s] / RATE_MINUTES);
    df_json_kv_int(out, "waiting", f->waiting[s]);
    df_json_kv_int(out, "failed", f->failed[s]);
    df_json_key(out, "points");
    df_json_open(out, '[');
    for (size_t i = 0; i < f->count; i++) {
        df_json_open(out, '{');
        df_json_kv_time(out, "at", f->from_ms + (int64_t)i * f->window->step_ms);
        df_json_kv_int(out, "count", f->points[s][i]);
        df_json_close(out, '}');
    }
    df_json_close(out, ']');
    df_json_close(out, '}');
}

static enum df_code run_flow(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct flow *f = (struct flow *)w;
    int64_t step_ms = f->window->step_ms;

    memset(f->points, 0, sizeof f->points);
    memset(f->failed, 0, sizeof f->failed);
    memset(f->lately, 0, sizeof f->lately);
    memset(f->waiting, 0, sizeof f->waiting);
    memset(f->waiting_at_ms, 0, sizeof f->waiting_at_ms);
    f->from_ms = series_floor(w->now_ms - f->window->length_ms, step_ms) + step_ms;
    f->count = (size_t)(f->window->length_ms / step_ms);
    enum df_code code = read_points(db, f, err);
    if (code == DF_OK)
        code = read_rows(db, f, SERIES_MINUTE, w->now_ms - (RATE_MINUTES + 2) * SERIES_MINUTE_MS,
                         read_lately, w->now_ms, err);
    df_json_open(&w->json, '{');
    df_json_kv_text(&w->json, "window", df_str_c(f->window->name));
    df_json_kv_int(&w->json, "step", step_ms / 1000);
    df_json_key(&w->json, "steps");
    df_json_open(&w->json, '[');
    for (int s = 0; s < STEPS; s++)
        write_step(f, (enum step)s, &w->json);
    df_json_close(&w->json, ']');
    df_json_close(&w->json, '}');
    return code;
}

static bool read_window(struct df_work *w, struct df_input *in)
{
    static const char *const names[] = {"hour", "day", "week", NULL};
    struct flow *f = (struct flow *)w;
    struct df_str name = df_input_choice(in, w->req, "window", names);

    f->window = &windows[0];
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++)
        if (df_str_eq(name, df_str_c(windows[i].name)))
            f->window = &windows[i];
    return true;
}

static const struct df_handler flow = {
    .size = sizeof(struct flow), .max_answer = ANSWER_MAX, .prepare = read_window, .run = run_flow};

const struct df_route df_flow_routes[] = {
    DF_ROUTE("GET", "/admin/flow", DF_BODY_NONE, DF_ACCESS_ADMIN, NULL, flow),
    {.method = NULL},
};
