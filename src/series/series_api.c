/*
 * GET /admin/series and GET /clients/{clientId}/series.
 *
 * Steps below an hour are read from the rows of minutes. Steps of hours are read from those of
 * hours, and what is not made into hours yet from the minutes. Every read is a range of the
 * primary key, of one client: a few thousand rows at most.
 */
#include "access/handler.h"
#include "series/series.sql.h"
#include "series/series_private.h"

#define POINTS_MAX     1500
#define MARKS_SHOWN    200
#define STEP_MAX_S     604800 /* a week */
#define DEFAULT_RANGE  SERIES_HOUR_MS
#define ANSWER_MAX     (1 << 20)
#define IDENTIFIER_MAX 64

enum metric {
    ACCEPTED,
    PROCESSED,
    DELIVERED,
    FAILED,
    WAITING,
    OLDEST_SECONDS,
    ACKS,
    ACK_SECONDS,
    ACK_P95_SECONDS,
    ACK_MAX_SECONDS,
    METRICS
};

static const char *const metric_names[METRICS] = {
    [ACCEPTED] = "accepted",
    [PROCESSED] = "processed",
    [DELIVERED] = "delivered",
    [FAILED] = "failed",
    [WAITING] = "waiting",
    [OLDEST_SECONDS] = "oldestSeconds",
    [ACKS] = "acks",
    [ACK_SECONDS] = "ackSeconds",
    [ACK_P95_SECONDS] = "ackP95Seconds",
    [ACK_MAX_SECONDS] = "ackMaxSeconds",
};
#define NAMES                                                                                      \
    "accepted, processed, delivered, failed, waiting, oldestSeconds, acks, ackSeconds, "           \
    "ackP95Seconds or ackMaxSeconds"
#define DEFAULT_METRICS DF_STR("accepted,processed,delivered,failed,waiting,oldestSeconds")

/* What is known of one step. -1: nothing was noted. */
struct point {
    struct df_tallied n;
    int64_t waiting;
    int64_t oldest_s;
};

struct question {
    struct df_work w;
    bool is_own;              /* a client asks about itself */
    struct df_str identifier; /* absent: everybody together */
    struct df_str channel;    /* absent: all */
    struct df_str metric;     /* as it was asked */
    enum metric metrics[METRICS];
    size_t metric_count;
    int64_t from_ms, to_ms, step_ms; /* from is a multiple of step */
    struct df_str client;            /* its id */
    int64_t rolled_ms;               /* the last hour that was made; -1: none */
    struct point *points;
    size_t count;
    size_t marks;
};

/* --- the request ------------------------------------------------------------------------------ */

static void read_metrics(struct question *q, struct df_input *in)
{
    struct df_str rest = df_input_filter(q->w.req, "metric");
    struct df_str name;

    q->metric = rest.ptr ? rest : DEFAULT_METRICS;
    for (rest = q->metric; rest.ptr;) {
        rest = df_str_cut(rest, ',', &name);
        name = df_str_trim(name);
        size_t m = 0;
        while (m < METRICS && !df_str_eq(name, df_str_c(metric_names[m])))
            m++;
        for (size_t i = 0; i < q->metric_count && m < METRICS; i++)
            if (q->metrics[i] == (enum metric)m) {
                df_input_error(in, "metric", "names %s twice", metric_names[m]);
                return;
            }
        if (m == METRICS) {
            df_input_error(in, "metric", "must be one or more of " NAMES ", with commas");
            return;
        }
        q->metrics[q->metric_count++] = (enum metric)m;
    }
}

static int64_t read_time(const struct question *q, struct df_input *in, const char *field,
                         int64_t def_ms)
{
    struct df_str text = df_input_filter(q->w.req, field);
    int64_t ms = def_ms;

    if (text.ptr && (!df_time_parse(text, &ms) || ms < 0)) {
        df_input_error(in, field, "must be a time like 2026-11-15T00:00:00Z");
        return def_ms;
    }
    return ms;
}

/* Seconds; 0: none was asked for, or it is wrong. */
static int64_t read_step(const struct question *q, struct df_input *in)
{
    struct df_str text = df_input_filter(q->w.req, "step");
    int64_t s = 0;

    if (!text.ptr)
        return 0;
    if (df_str_eq(text, DF_STR("minute")))
        return SERIES_MINUTE;
    if (df_str_eq(text, DF_STR("hour")))
        return SERIES_HOUR;
    if (df_str_to_i64(text, &s) && s >= SERIES_MINUTE && s <= STEP_MAX_S && s % SERIES_MINUTE == 0)
        return s;
    df_input_error(in, "step", "must be minute, hour, or seconds: a multiple of 60, at most %d",
                   STEP_MAX_S);
    return 0;
}

static bool has_minutes(const struct question *q, int64_t from_ms)
{
    return from_ms >= q->w.now_ms - DF_SERIES_MINUTES_MS;
}

static int64_t default_step(const struct question *q)
{
    int64_t range_ms = q->to_ms - q->from_ms;

    if (has_minutes(q, q->from_ms))
        return range_ms <= 6 * SERIES_HOUR_MS ? SERIES_MINUTE : 5 * SERIES_MINUTE;
    return range_ms / SERIES_HOUR_MS < POINTS_MAX ? SERIES_HOUR : 24 * SERIES_HOUR;
}

static void read_range(struct question *q, struct df_input *in)
{
    int64_t now_ms = q->w.now_ms;

    q->to_ms = read_time(q, in, "to", now_ms);
    if (q->to_ms > now_ms)
        q->to_ms = now_ms;
    q->from_ms = read_time(q, in, "from", q->to_ms - DEFAULT_RANGE);
    int64_t step_s = read_step(q, in);
    if (in->error_count > 0)
        return;
    if (q->from_ms >= q->to_ms) {
        df_input_error(in, "to", "must be after from, which must be past");
        return;
    }
    q->step_ms = (step_s > 0 ? step_s : default_step(q)) * 1000;
    if (q->step_ms % SERIES_HOUR_MS != 0 && !has_minutes(q, q->from_ms)) {
        df_input_error(in, "step", "must be of whole hours: minutes are kept for a day only");
        return;
    }
    q->from_ms = series_floor(q->from_ms, q->step_ms);
    int64_t count = (q->to_ms - q->from_ms + q->step_ms - 1) / q->step_ms;
    if (count > POINTS_MAX)
        df_input_error(in, "step", "makes %lld points of this range: at most %d are given",
                       (long long)count, POINTS_MAX);
    else
        q->count = (size_t)count;
}

static bool read_question(struct question *q, struct df_input *in)
{
    q->channel = df_input_filter(q->w.req, "channel");
    if (q->channel.len > DF_TALLY_CHANNEL_MAX)
        df_input_error(in, "channel", "has more than %d characters", DF_TALLY_CHANNEL_MAX);
    if (q->identifier.ptr && !df_client_identifier_valid(q->identifier))
        df_input_error(in, "clientId", "is no client's id");
    read_metrics(q, in);
    read_range(q, in);
    return true;
}

static bool read_admin(struct df_work *w, struct df_input *in)
{
    struct question *q = (struct question *)w;

    q->identifier = df_input_filter(w->req, "clientId");
    return read_question(q, in);
}

static bool read_own(struct df_work *w, struct df_input *in)
{
    struct question *q = (struct question *)w;

    q->is_own = true;
    q->identifier = df_req_param(w->req, "clientId");
    return read_question(q, in);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void read_client(void *arg, struct df_result *r)
{
    struct question *q = arg;
    q->client = df_arena_str(df_req_arena(q->w.req), df_col_text(r, series_client_Id));
}

static void read_rolled(void *arg, struct df_result *r)
{
    ((struct question *)arg)->rolled_ms = df_col_time(r, series_rolled_PointAt);
}

static int64_t more_of(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void read_row(void *arg, struct df_result *r)
{
    struct question *q = arg;
    int64_t at_ms = df_col_time(r, series_read_PointAt);
    struct df_tallied n = {
        .accepted = df_col_int(r, series_read_Accepted),
        .processed = df_col_int(r, series_read_Processed),
        .delivered = df_col_int(r, series_read_Delivered),
        .failed = df_col_int(r, series_read_Failed),
        .acks = df_col_int(r, series_read_Acks),
        .ack_ms = df_col_int(r, series_read_AckMs),
        .ack_most_ms = df_col_int(r, series_read_AckMostMs),
        .ack_within = {df_col_int(r, series_read_Ack100Ms), df_col_int(r, series_read_Ack500Ms),
                       df_col_int(r, series_read_Ack1000Ms), df_col_int(r, series_read_Ack5000Ms),
                       df_col_int(r, series_read_Ack30000Ms),
                       df_col_int(r, series_read_Ack300000Ms)},
    };

    if (at_ms < q->from_ms)
        return;
    size_t i = (size_t)((at_ms - q->from_ms) / q->step_ms);
    if (i >= q->count)
        return;
    struct point *p = &q->points[i];
    df_tallied_add(&p->n, &n);
    if (!df_col_null(r, series_read_Waiting))
        p->waiting = more_of(p->waiting, df_col_int(r, series_read_Waiting));
    if (!df_col_null(r, series_read_OldestSeconds))
        p->oldest_s = more_of(p->oldest_s, df_col_int(r, series_read_OldestSeconds));
}

static enum df_code read_rows(struct df_db *db, struct question *q, int grain, int64_t from_ms,
                              int64_t to_ms, struct df_err *err)
{
    if (from_ms >= to_ms)
        return DF_OK;
    return df_db_each(db,
                      DF_Q(series_read, .grain = df_int(grain), .client = df_text(q->client),
                           .from = df_time(from_ms), .to = df_time(to_ms),
                           .channel = df_text(q->channel)),
                      read_row, q, err);
}

static enum df_code read_points(struct df_db *db, struct question *q, struct df_err *err)
{
    int64_t minutes_ms = q->from_ms; /* from here on, of minutes */

    if (q->step_ms % SERIES_HOUR_MS == 0) {
        q->rolled_ms = -1;
        enum df_code code = df_db_one(db, DF_Q(series_rolled, .now = df_time(q->w.now_ms)),
                                      read_rolled, q, NULL, err);
        if (code != DF_OK)
            return code;
        minutes_ms = series_floor(q->w.now_ms - DF_SERIES_MINUTES_MS, SERIES_HOUR_MS);
        minutes_ms = more_of(minutes_ms, q->rolled_ms + SERIES_HOUR_MS);
        minutes_ms = more_of(minutes_ms, q->from_ms);
        int64_t to_ms = minutes_ms < q->to_ms ? minutes_ms : q->to_ms;
        code = read_rows(db, q, SERIES_HOUR, q->from_ms, to_ms, err);
        if (code != DF_OK)
            return code;
    }
    return read_rows(db, q, SERIES_MINUTE, minutes_ms, q->to_ms, err);
}

/* --- the answer ------------------------------------------------------------------------------- */

/* The time that 95 of 100 acks did not exceed, as far as the buckets tell. */
static double p95_seconds(const struct df_tallied *n)
{
    int64_t reached = 0;
    int64_t ms = n->ack_most_ms;

    for (size_t i = 0; i < DF_TALLY_BOUNDS; i++) {
        reached += n->ack_within[i];
        if (reached * 100 >= n->acks * 95) {
            ms = df_tally_bounds_ms[i] < ms ? df_tally_bounds_ms[i] : ms;
            break;
        }
    }
    return (double)ms / 1e3;
}

static void write_count(struct df_json_out *out, int64_t n, bool kept)
{
    if (kept && n >= 0)
        df_json_int(out, n);
    else
        df_json_null(out);
}

static void write_value(struct df_json_out *out, const struct point *p, enum metric m, bool kept)
{
    const struct df_tallied *n = &p->n;

    switch (m) {
    case ACCEPTED:
        write_count(out, n->accepted, kept);
        return;
    case PROCESSED:
        write_count(out, n->processed, kept);
        return;
    case DELIVERED:
        write_count(out, n->delivered, kept);
        return;
    case FAILED:
        write_count(out, n->failed, kept);
        return;
    case WAITING:
        write_count(out, p->waiting, kept);
        return;
    case OLDEST_SECONDS:
        write_count(out, p->oldest_s, kept);
        return;
    case ACKS:
        write_count(out, n->acks, kept);
        return;
    case ACK_SECONDS:
    case ACK_P95_SECONDS:
    case ACK_MAX_SECONDS:
        if (n->acks == 0)
            df_json_null(out);
        else if (m == ACK_SECONDS)
            df_json_double(out, (double)n->ack_ms / (double)n->acks / 1e3);
        else
            df_json_double(out,
                           m == ACK_P95_SECONDS ? p95_seconds(n) : (double)n->ack_most_ms / 1e3);
        return;
    case METRICS:
        break;
    }
}

static void write_points(struct question *q)
{
    struct df_json_out *out = &q->w.json;
    int64_t kept_ms = q->w.now_ms - DF_SERIES_HOURS_MS;

    df_json_key(out, "points");
    df_json_open(out, '[');
    for (size_t i = 0; i < q->count; i++) {
        int64_t at_ms = q->from_ms + (int64_t)i * q->step_ms;
        df_json_open(out, '{');
        df_json_kv_time(out, "time", at_ms);
        for (size_t m = 0; m < q->metric_count; m++) {
            df_json_key(out, q->metric_count == 1 ? "value" : metric_names[q->metrics[m]]);
            write_value(out, &q->points[i], q->metrics[m], at_ms + q->step_ms > kept_ms);
        }
        df_json_close(out, '}');
    }
    df_json_close(out, ']');
}

static void write_mark(void *arg, struct df_result *r)
{
    struct question *q = arg;
    struct df_json_out *out = &q->w.json;

    if (++q->marks > MARKS_SHOWN)
        return;
    df_json_open(out, '{');
    df_json_kv_time(out, "time", df_col_time(r, mark_read_MarkedAt));
    df_json_kv_text(out, "kind", df_col_text(r, mark_read_Kind));
    df_json_kv_text(out, "subject", df_col_text(r, mark_read_Subject));
    df_json_kv_text(out, "instance", df_col_text(r, mark_read_Instance));
    df_json_close(out, '}');
}

/* Breakers, alerts and replicas are the operator's business. */
static enum df_code write_marks(struct df_db *db, struct question *q, struct df_err *err)
{
    struct df_json_out *out = &q->w.json;

    q->marks = 0;
    df_json_key(out, "annotations");
    df_json_open(out, '[');
    enum df_code code = df_db_each(db,
                                   DF_Q(mark_read, .from = df_time(q->from_ms),
                                        .to = df_time(q->to_ms), .limit = df_int(MARKS_SHOWN + 1)),
                                   write_mark, q, err);
    df_json_close(out, ']');
    df_json_kv_bool(out, "annotationsTruncated", q->marks > MARKS_SHOWN);
    return code;
}

static enum df_code run_series(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct question *q = (struct question *)w;
    enum df_code code = DF_OK;
    bool found = true;

    q->client = DF_STR("");
    if (q->identifier.ptr)
        code = df_db_one(db, DF_Q(series_client, .identifier = df_text(q->identifier)), read_client,
                         q, &found, err);
    if (code == DF_OK && !found)
        return df_err_set(err, DF_E_NOT_FOUND, "There is no client \"" DF_STR_FMT "\".",
                          DF_STR_ARG(df_utf8_cut(q->identifier, IDENTIFIER_MAX)));
    q->points = DF_ARENA_ARRAY(df_req_arena(w->req), struct point, q->count);
    for (size_t i = 0; i < q->count; i++)
        q->points[i].waiting = q->points[i].oldest_s = -1;
    if (code == DF_OK)
        code = read_points(db, q, err);
    if (code != DF_OK)
        return code;
    df_json_open(&w->json, '{');
    df_json_kv_text(&w->json, "metric", q->metric);
    df_json_kv_text(&w->json, "clientId", q->identifier);
    df_json_kv_text(&w->json, "channel", q->channel);
    df_json_kv_int(&w->json, "step", q->step_ms / 1000);
    df_json_kv_time(&w->json, "from", q->from_ms);
    df_json_kv_time(&w->json, "to", q->to_ms);
    write_points(q);
    if (!q->is_own)
        code = write_marks(db, q, err);
    df_json_close(&w->json, '}');
    return code;
}

#define SERIES .size = sizeof(struct question), .max_answer = ANSWER_MAX, .run = run_series

static const struct df_handler of_all = {SERIES, .prepare = read_admin};
static const struct df_handler of_own = {SERIES, .prepare = read_own};

const struct df_route df_series_routes[] = {
    DF_ROUTE("GET", "/admin/series", DF_BODY_NONE, DF_ACCESS_ADMIN, NULL, of_all),
    DF_ROUTE("GET", "/clients/{clientId}/series", DF_BODY_NONE, DF_ACCESS_OWNER, NULL, of_own),
    {.method = NULL},
};
