#include "imports/policy.h"

#define HOUR_MS     INT64_C(3600000)
#define DAY_MS      (24 * HOUR_MS)
#define PATIENCE_MS (62 * DAY_MS)

/* --- hours of the day --- */

/* A span of hours, every day or Monday to Friday. If the end is not after the start, it is on the
 * next day: 22 to 6, or 0 to 0, which is the whole day. The span belongs to the day it starts on.
 */
struct hours {
    const struct df_zone *zone;
    int start, end;
    bool weekdays_only;
};

static struct df_date_time local_of(const struct df_zone *zone, int64_t t)
{
    return zone ? df_zone_local(zone, t) : df_time_split(t);
}

static int64_t utc_of(const struct df_zone *zone, const struct df_date_time *d)
{
    return zone ? df_zone_to_utc(zone, d) : df_time_join(d);
}

/* The local date of t, moved by some days. */
static struct df_date_time date_near(const struct hours *h, int64_t t, int days)
{
    struct df_date_time d = local_of(h->zone, t);
    d.hour = d.minute = d.second = d.ms = 0;
    return df_time_split(df_time_join(&d) + days * DAY_MS);
}

/* The span that starts on a date. False: there is none. */
static bool hours_on(const struct hours *h, struct df_date_time d, int64_t *ret_from,
                     int64_t *ret_to)
{
    int weekday = df_weekday(d.year, d.month, d.day);
    if (h->weekdays_only && (weekday == 0 || weekday == 6))
        return false;
    d.hour = h->start;
    *ret_from = utc_of(h->zone, &d);
    d.hour = h->end;
    d.day += h->end <= h->start;
    *ret_to = utc_of(h->zone, &d);
    return true;
}

static bool hours_at(const struct hours *h, int64_t t, int64_t *ret_until)
{
    for (int day = -1; day <= 0; day++) {
        int64_t from;
        if (hours_on(h, date_near(h, t, day), &from, ret_until) && from <= t && t < *ret_until)
            return true;
    }
    return false;
}

/* The first start after t; there is one within a week. */
static int64_t hours_after(const struct hours *h, int64_t t)
{
    int64_t from = t, to;
    for (int day = 0; day <= 8 && from <= t; day++)
        (void)hours_on(h, date_near(h, t, day), &from, &to);
    return from;
}

static int or_default(int64_t value, int def)
{
    return value == DF_POLICY_NONE ? def : (int)value;
}

static struct hours allowed_hours(const struct df_policy *p)
{
    return (struct hours){.start = or_default(p->allowed_start_hour, 0),
                          .end = or_default(p->allowed_end_hour, 24)};
}

static struct hours business_hours(const struct df_policy_facts *f)
{
    const struct df_policy *p = f->policy;
    return (struct hours){.zone = f->zone,
                          .start = or_default(p->business_start_hour, DF_POLICY_BUSINESS_START),
                          .end = or_default(p->business_end_hour, DF_POLICY_BUSINESS_END),
                          .weekdays_only = true};
}

void df_policy_day(const struct df_zone *zone, int64_t now_ms, int64_t *ret_start_ms,
                   int64_t *ret_end_ms)
{
    struct hours whole = {.zone = zone, .start = 0, .end = 24};
    (void)hours_on(&whole, date_near(&whole, now_ms, 0), ret_start_ms, ret_end_ms);
}

/* --- maintenance --- */

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The server's windows and the client's. A client's text that cannot be parsed was written by
 * another program, and counts as none. */
struct windows {
    struct df_maintenance server;
    struct df_maintenance client;
};

static struct windows windows_of(const struct df_policy_facts *f)
{
    struct windows w = {0};
    if (f->maintenance)
        w.server = *f->maintenance;
    if (df_maintenance_add(&w.client, df_str_c(f->policy->maintenance_window), NULL) != DF_OK)
        w.client.count = 0;
    return w;
}

/* The end of the maintenance in force at t, with windows that follow directly; -1: none. */
static int64_t windows_until(const struct windows *w, int64_t t)
{
    int64_t until = -1, last = t + PATIENCE_MS;
    for (int64_t at = t; at >= 0 && at < last;) {
        at = later(df_maintenance_next(&w->server, at).until_ms,
                   df_maintenance_next(&w->client, at).until_ms);
        until = later(until, at);
    }
    return until;
}

static int64_t maintenance_until(const struct df_policy_facts *f, int64_t t)
{
    struct windows w = windows_of(f);
    return windows_until(&w, t);
}

/* The earlier of two moments; -1 is none. */
static int64_t earlier(int64_t a, int64_t b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

struct maintenance {
    int64_t from_ms; /* -1: there is none */
    int64_t to_ms;
    bool active;
};

static struct maintenance next_maintenance(const struct df_policy_facts *f)
{
    struct windows w = windows_of(f);
    struct df_maintenance_times server = df_maintenance_next(&w.server, f->now_ms);
    struct df_maintenance_times client = df_maintenance_next(&w.client, f->now_ms);
    struct maintenance m = {.from_ms = earlier(server.since_ms, client.since_ms)};
    m.active = m.from_ms >= 0;
    if (!m.active)
        m.from_ms = earlier(server.next_ms, client.next_ms);
    m.to_ms = m.from_ms < 0 ? -1 : windows_until(&w, m.active ? f->now_ms : m.from_ms);
    return m;
}

void df_policy_write_maintenance(const struct df_policy_facts *f, struct df_json_out *out)
{
    struct maintenance m = next_maintenance(f);
    df_json_key(out, "maintenance");
    if (m.from_ms < 0) {
        df_json_null(out);
        return;
    }
    df_json_open(out, '{');
    df_json_kv_time(out, "from", m.from_ms);
    df_json_kv_time(out, "to", m.to_ms);
    df_json_kv_bool(out, "active", m.active);
    df_json_close(out, '}');
}

/* --- what is refused --- */

static enum df_code check_maintenance(const struct df_policy_facts *f, int64_t *ret_retry_after_s,
                                      struct df_err *err)
{
    int64_t until = maintenance_until(f, f->now_ms);
    if (until < 0)
        return DF_OK;
    char text[DF_TIME_LEN + 1];
    df_time_format(until, text);
    *ret_retry_after_s = (until - f->now_ms + 999) / 1000;
    return df_err_set(err, DF_E_MAINTENANCE_WINDOW,
                      "No files are taken during maintenance, which lasts until %s. Send the file "
                      "again after that.",
                      text);
}

static enum df_code check_uploads(const struct df_policy_facts *f, int64_t *ret_retry_after_s,
                                  struct df_err *err)
{
    int64_t most = f->policy->concurrent_uploads;
    if (most == DF_POLICY_NONE || f->uploads < most)
        return DF_OK;
    *ret_retry_after_s = DF_POLICY_UPLOAD_RETRY_S;
    return df_err_set(
        err, DF_E_CONCURRENT_UPLOADS,
        "This client may send %lld %s at a time. Wait for an upload to end, then send "
        "the file again.",
        (long long)most, most == 1 ? "file" : "files");
}

static enum df_code check_file_size(const struct df_policy_facts *f, struct df_err *err)
{
    int64_t most = f->policy->max_file_size_mb;
    if (most == DF_POLICY_NONE || f->size_bytes <= most * DF_POLICY_MB)
        return DF_OK;
    return df_err_set(err, DF_E_MAX_FILE_SIZE,
                      "The file has more than the %lld MB (%lld bytes) that this client may send. "
                      "Send it in several smaller files.",
                      (long long)most, (long long)most * DF_POLICY_MB);
}

static enum df_code check_batches(const struct df_policy_facts *f, int64_t *ret_retry_after_s,
                                  struct df_err *err)
{
    int64_t most = f->policy->max_batch_per_day;
    if (most == DF_POLICY_NONE || f->batches_today < most)
        return DF_OK;
    int64_t start, end;
    char text[DF_TIME_LEN + 1];
    df_policy_day(f->zone, f->now_ms, &start, &end);
    df_time_format(end, text);
    *ret_retry_after_s = (end - f->now_ms + 999) / 1000;
    return df_err_set(
        err, DF_E_MAX_BATCH_PER_DAY,
        "This client may send %lld %s a day and has done so. Send the file again after "
        "%s.",
        (long long)most, most == 1 ? "file" : "files", text);
}

/* An empty file counts as one byte: without any room, the upload does not begin. */
static enum df_code check_quota(const struct df_policy_facts *f, struct df_err *err)
{
    int64_t most = f->policy->temp_storage_quota_mb;
    if (most == DF_POLICY_NONE || later(f->size_bytes, 1) <= most * DF_POLICY_MB - f->stored_bytes)
        return DF_OK;
    return df_err_set(err, DF_E_TEMP_STORAGE_QUOTA,
                      "This client's files that wait or are being processed have %lld bytes, and "
                      "with this one more than the %lld MB they may have. Wait for one to end or "
                      "cancel one that is scheduled, then send the file again.",
                      (long long)f->stored_bytes, (long long)most);
}

enum df_code df_policy_admit(const struct df_policy_facts *f, int64_t *ret_retry_after_s,
                             struct df_err *err)
{
    *ret_retry_after_s = 0;
    enum df_code code = check_maintenance(f, ret_retry_after_s, err);
    if (code == DF_OK)
        code = check_uploads(f, ret_retry_after_s, err);
    if (code == DF_OK)
        code = check_file_size(f, err);
    if (code == DF_OK)
        code = check_batches(f, ret_retry_after_s, err);
    if (code == DF_OK)
        code = check_quota(f, err);
    return code;
}

enum df_code df_policy_check_size(const struct df_policy_facts *f, struct df_err *err)
{
    enum df_code code = check_file_size(f, err);
    return code == DF_OK ? check_quota(f, err) : code;
}

int64_t df_policy_size_limit(const struct df_policy_facts *f)
{
    const struct df_policy *p = f->policy;
    int64_t limit = INT64_MAX;
    if (p->max_file_size_mb != DF_POLICY_NONE)
        limit = p->max_file_size_mb * DF_POLICY_MB;
    if (p->temp_storage_quota_mb != DF_POLICY_NONE) {
        int64_t room = p->temp_storage_quota_mb * DF_POLICY_MB - f->stored_bytes;
        limit = room < limit ? later(room, 0) : limit;
    }
    return limit;
}

/* --- what has to wait --- */

/* The first moment from t on that is allowed. */
static int64_t first_moment(const struct df_policy_facts *f, int64_t t, bool avoid_business)
{
    const struct hours allowed = allowed_hours(f->policy), business = business_hours(f);
    int64_t last = f->now_ms + PATIENCE_MS, until;
    while (t < last) {
        if (!hours_at(&allowed, t, &until)) {
            t = hours_after(&allowed, t);
            continue;
        }
        bool busy = avoid_business && hours_at(&business, t, &until);
        if (!busy && (until = maintenance_until(f, t)) < 0)
            break;
        t = until;
    }
    return t;
}

struct df_policy_decision df_policy_schedule(const struct df_policy_facts *f)
{
    const struct df_policy *p = f->policy;
    const struct hours allowed = allowed_hours(p), business = business_hours(f);
    int64_t threshold = or_default(p->large_threshold_mb, DF_POLICY_LARGE_THRESHOLD_MB);
    bool large = f->size_bytes > threshold * DF_POLICY_MB;
    bool required = large && p->require_scheduling_for_large == 1;
    bool avoids = large && p->business_hours_only == 1;
    int64_t until;

    struct df_policy_decision d = {.scheduled_for_ms = -1};
    if (!hours_at(&allowed, f->now_ms, &until))
        d.rule = df_policy_field_column(DF_POLICY_AllowedStartHour);
    else if (required)
        d.rule = df_policy_field_column(DF_POLICY_RequireSchedulingForLarge);
    else if (avoids && hours_at(&business, f->now_ms, &until))
        d.rule = df_policy_field_column(DF_POLICY_BusinessHoursOnly);
    else
        return d;
    int64_t from = required ? (f->now_ms / HOUR_MS + 1) * HOUR_MS : f->now_ms;
    d.scheduled = true;
    d.scheduled_for_ms = first_moment(f, from, required || avoids);
    return d;
}
