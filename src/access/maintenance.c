#include "access/maintenance.h"

#define DAY_MS     INT64_C(86400000)
#define MINUTE_MS  INT64_C(60000)
#define HORIZON_MS (31 * DAY_MS)
#define EVERY_DAY  0x7Fu

/* --- the text --- */

/* "02:00", "24:00" only as an end. */
static bool parse_clock(struct df_str s, bool is_end, int64_t *ret_ms)
{
    struct df_str hour;
    struct df_str minute = df_str_cut(s, ':', &hour);
    int64_t h, m;
    if (hour.len != 2 || minute.len != 2 || !df_str_to_i64(hour, &h) || !df_str_to_i64(minute, &m))
        return false;
    if (h < 0 || m < 0 || m > 59 || h > 24 || (h == 24 && (m > 0 || !is_end)))
        return false;
    *ret_ms = (h * 60 + m) * MINUTE_MS;
    return true;
}

static bool parse_day(struct df_str s, unsigned *ret)
{
    static const char *const names[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    for (unsigned i = 0; i < 7; i++) {
        if (df_str_ieq(s, df_str_c(names[i]))) {
            *ret = i;
            return true;
        }
    }
    return false;
}

/* "Sun", "Sat,Sun", "Mon-Fri"; a range may go over the week's end. */
static bool parse_days(struct df_str s, unsigned *ret_bits)
{
    *ret_bits = 0;
    while (s.ptr) {
        struct df_str item, from;
        unsigned first, last;
        s = df_str_cut(s, ',', &item);
        struct df_str to = df_str_cut(item, '-', &from);
        if (!parse_day(df_str_trim(from), &first) ||
            !parse_day(df_str_trim(to.ptr ? to : from), &last))
            return false;
        *ret_bits |= 1u << first;
        for (unsigned day = first; day != last; day = (day + 1) % 7)
            *ret_bits |= 1u << ((day + 1) % 7);
    }
    return true;
}

/* A time as df_time_parse takes it, with or without seconds. It must say that it is UTC. */
static bool parse_moment(struct df_str s, int64_t *ret_ms)
{
    char full[] = "yyyy-mm-ddThh:mm:00Z";
    if (s.len < 17 || s.len > 30 || s.ptr[s.len - 1] != 'Z')
        return false;
    if (s.len > 17)
        return df_time_parse(s, ret_ms);
    memcpy(full, s.ptr, 16);
    return df_time_parse(df_str_c(full), ret_ms);
}

static enum df_code parse_once(struct df_str from, struct df_str to,
                               struct df_maintenance_window *w, struct df_err *err)
{
    if (!parse_moment(df_str_trim(from), &w->start) || !parse_moment(df_str_trim(to), &w->end))
        return df_err_set(err, DF_E_VALIDATION,
                          "must be two times in UTC, such as 2026-11-20T02:00Z/2026-11-20T04:00Z");
    if (w->end <= w->start)
        return df_err_set(err, DF_E_VALIDATION, "has an end that is not after its start");
    return DF_OK;
}

static enum df_code parse_window(struct df_str s, struct df_maintenance_window *w,
                                 struct df_err *err)
{
    struct df_str from;
    struct df_str to = df_str_cut(s, '/', &from);
    *w = (struct df_maintenance_window){0};
    if (to.ptr)
        return parse_once(from, to, w, err);

    /* The last blank stands between days and hours. */
    size_t cut = s.len;
    while (cut > 0 && s.ptr[cut - 1] != ' ')
        cut--;
    struct df_str days = df_str_trim(df_str_n(s.ptr, cut));
    w->days = EVERY_DAY;
    to = df_str_cut(df_str_n(s.ptr + cut, s.len - cut), '-', &from);
    if ((days.len > 0 && !parse_days(days, &w->days)) || !parse_clock(from, false, &w->start) ||
        !parse_clock(to, true, &w->end))
        return df_err_set(err, DF_E_VALIDATION,
                          "must be windows such as 02:00-04:00, Sat,Sun 22:00-06:00 or "
                          "2026-11-20T02:00Z/2026-11-20T04:00Z, separated by ';'");
    if (w->end == w->start)
        return df_err_set(err, DF_E_VALIDATION, "has a window that ends when it starts");
    if (w->end < w->start)
        w->end += DAY_MS;
    return DF_OK;
}

enum df_code df_maintenance_add(struct df_maintenance *m, struct df_str text, struct df_err *err)
{
    size_t before = m->count;
    while (text.len > 0) {
        struct df_str item;
        text = df_str_cut(text, ';', &item);
        item = df_str_trim(item);
        if (item.len == 0)
            continue;
        enum df_code code =
            m->count == DF_MAINTENANCE_MAX
                ? df_err_set(err, DF_E_VALIDATION, "has too many windows; %d are allowed",
                             DF_MAINTENANCE_MAX)
                : parse_window(item, &m->windows[m->count], err);
        if (code != DF_OK) {
            m->count = before;
            return code;
        }
        m->count++;
    }
    return DF_OK;
}

/* --- the times --- */

static int64_t day_of(int64_t t)
{
    return t / DAY_MS - (t % DAY_MS < 0);
}

/* Whether a window that repeats starts on that day since 1970, a Thursday. */
static bool starts_on(const struct df_maintenance_window *w, int64_t day)
{
    return w->days >> ((day % 7 + 11) % 7) & 1;
}

/* Widens [since, end] by a window if it is in force at t. */
static void widen_span(int64_t t, int64_t from, int64_t to, int64_t *since, int64_t *end)
{
    if (from > t || t >= to)
        return;
    if (*since < 0 || from < *since)
        *since = from;
    if (to > *end)
        *end = to;
}

/* The latest end of the windows in force at t, and their first start; -1: none is. */
static int64_t windows_end_at(const struct df_maintenance *m, int64_t t, int64_t *ret_since)
{
    int64_t end = -1, since = -1;
    for (size_t i = 0; i < m->count; i++) {
        const struct df_maintenance_window *w = &m->windows[i];
        if (!w->days)
            widen_span(t, w->start, w->end, &since, &end);
        for (int64_t day = day_of(t) - 1; w->days && day <= day_of(t); day++) {
            if (starts_on(w, day))
                widen_span(t, day * DAY_MS + w->start, day * DAY_MS + w->end, &since, &end);
        }
    }
    *ret_since = since;
    return end;
}

/* The first start after t; -1: there is none. */
static int64_t start_after(const struct df_maintenance *m, int64_t t)
{
    int64_t start = -1;
    for (size_t i = 0; i < m->count; i++) {
        const struct df_maintenance_window *w = &m->windows[i];
        int64_t from = w->days ? -1 : w->start;
        for (int64_t day = day_of(t); w->days && day <= day_of(t) + 7; day++) {
            from = day * DAY_MS + w->start;
            if (starts_on(w, day) && from > t)
                break;
        }
        if (from > t && (start < 0 || from < start))
            start = from;
    }
    return start;
}

/* Windows may overlap or follow on one another without end, so the search stops at the horizon. */
static int64_t merged_end(const struct df_maintenance *m, int64_t t, int64_t *ret_since)
{
    int64_t until = windows_end_at(m, t, ret_since), last = t + HORIZON_MS, ignored;
    for (int64_t next = until; next >= 0;
         next = next < last ? windows_end_at(m, next, &ignored) : -1)
        until = next;
    return until;
}

struct df_maintenance_times df_maintenance_next(const struct df_maintenance *m, int64_t now_ms)
{
    struct df_maintenance_times t;
    t.until_ms = merged_end(m, now_ms, &t.since_ms);
    t.next_ms = start_after(m, t.until_ms < 0 ? now_ms : t.until_ms);
    return t;
}
