#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#define MS_PER_DAY INT64_C(86400000)

/* --- the real clock --------------------------------------------------------------------------- */

static int64_t real_wall_ms(const struct df_clock *c)
{
    (void)c;
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int64_t nanoseconds_of(clockid_t id)
{
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int64_t real_mono_ns(const struct df_clock *c)
{
    (void)c;
    return nanoseconds_of(CLOCK_MONOTONIC);
}

static int64_t real_wall_ns(const struct df_clock *c)
{
    (void)c;
    return nanoseconds_of(CLOCK_REALTIME);
}

static int64_t real_boot_ns(const struct df_clock *c)
{
    (void)c;
    return nanoseconds_of(CLOCK_BOOTTIME);
}

static void from_kernel(unsigned char *ptr, size_t len)
{
    while (len > 0) {
        ssize_t n = getrandom(ptr, len, 0);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            abort(); /* no service is better than keys and identifiers without randomness */
        }
        ptr += n;
        len -= (size_t)n;
    }
}

/*
 * A pool for each thread saves a system call for most identifiers. Bytes are wiped as they are
 * handed out, so that the pool never holds bytes in use. The program never forks without exec, so
 * parent and child never share a pool.
 */
static void real_random(const struct df_clock *c, void *ptr, size_t len)
{
    static _Thread_local unsigned char pool[256];
    static _Thread_local size_t left;
    (void)c;

    if (len > sizeof(pool) / 2) {
        from_kernel(ptr, len);
        return;
    }
    if (len > left) {
        from_kernel(pool, sizeof(pool));
        left = sizeof(pool);
    }
    left -= len;
    memcpy(ptr, pool + left, len);
    explicit_bzero(pool + left, len);
}

const struct df_clock *df_clock_real(void)
{
    static const struct df_clock_ops ops = {.wall_ms = real_wall_ms,
                                            .mono_ns = real_mono_ns,
                                            .boot_ns = real_boot_ns,
                                            .wall_ns = real_wall_ns,
                                            .random = real_random};
    static const struct df_clock clock = {&ops};
    return &clock;
}

bool df_clock_wait_ms(const struct df_clock *c, pthread_cond_t *cond, struct df_mutex *m,
                      int64_t timeout_ms)
{
    return c->ops->wait_ms ? c->ops->wait_ms(c, cond, m, timeout_ms)
                           : df_cond_wait_ms(cond, m, timeout_ms);
}

uint64_t df_random_below(const struct df_clock *c, uint64_t bound)
{
    /* Draws among the first 2^64 mod bound values would favour small results: they are repeated. */
    uint64_t skip = -bound % bound;
    uint64_t r;
    do {
        df_random(c, &r, sizeof(r));
    } while (r < skip);
    return r % bound;
}

/* --- text ------------------------------------------------------------------------------------- */

/*
 * Days since 1970-01-01 and the proleptic Gregorian calendar. Computed here because gmtime_r and
 * timegm take the C library's time zone lock, for every line logged. Years begin in March here, so
 * that the leap day is the last day.
 */
static int64_t days_from_date(int64_t year, int64_t month, int64_t day)
{
    if (month <= 2)
        year--;
    int64_t march = (month + 9) % 12;
    int64_t era = (year >= 0 ? year : year - 399) / 400;
    int64_t y = year - era * 400;
    return era * 146097 + y * 365 + y / 4 - y / 100 + (153 * march + 2) / 5 + day - 1 - 719468;
}

static void date_from_days(int64_t days, int *year, int *month, int *day)
{
    days += 719468;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    int64_t d = days - era * 146097;
    int64_t y = (d - d / 1460 + d / 36524 - d / 146096) / 365;
    int64_t of_year = d - (365 * y + y / 4 - y / 100);
    int64_t march = (5 * of_year + 2) / 153;
    *day = (int)(of_year - (153 * march + 2) / 5 + 1);
    *month = (int)(march < 10 ? march + 3 : march - 9);
    *year = (int)(y + era * 400 + (*month <= 2));
}

static char *put_digits(char *p, int value, int width)
{
    for (int i = width - 1; i >= 0; i--) {
        p[i] = (char)('0' + value % 10);
        value /= 10;
    }
    return p + width;
}

struct df_date_time df_time_split(int64_t wall_ms)
{
    /* 0000-01-01 to 9999-12-31: what four digits hold. */
    const int64_t first = INT64_C(-62167219200000);
    const int64_t last = INT64_C(253402300799999);
    int64_t t = wall_ms < first ? first : wall_ms > last ? last : wall_ms;
    struct df_date_time d;

    int64_t days = t / MS_PER_DAY;
    int ms = (int)(t % MS_PER_DAY);
    if (ms < 0) {
        ms += (int)MS_PER_DAY;
        days--;
    }
    date_from_days(days, &d.year, &d.month, &d.day);
    d.hour = ms / 3600000;
    d.minute = ms / 60000 % 60;
    d.second = ms / 1000 % 60;
    d.ms = ms % 1000;
    return d;
}

int64_t df_time_join(const struct df_date_time *t)
{
    return days_from_date(t->year, t->month, t->day) * MS_PER_DAY + t->hour * INT64_C(3600000) +
           t->minute * INT64_C(60000) + t->second * INT64_C(1000) + t->ms;
}

void df_time_format(int64_t wall_ms, char out[DF_TIME_LEN + 1])
{
    struct df_date_time t = df_time_split(wall_ms);

    char *p = put_digits(out, t.year, 4);
    *p++ = '-';
    p = put_digits(p, t.month, 2);
    *p++ = '-';
    p = put_digits(p, t.day, 2);
    *p++ = 'T';
    p = put_digits(p, t.hour, 2);
    *p++ = ':';
    p = put_digits(p, t.minute, 2);
    *p++ = ':';
    p = put_digits(p, t.second, 2);
    *p++ = '.';
    p = put_digits(p, t.ms, 3);
    *p++ = 'Z';
    *p = '\0';
}

/* Takes exactly `width` digits off the front. */
static bool take_number(struct df_str *s, size_t width, int64_t *ret)
{
    int64_t v = 0;
    if (s->len < width)
        return false;
    for (size_t i = 0; i < width; i++) {
        if (s->ptr[i] < '0' || s->ptr[i] > '9')
            return false;
        v = v * 10 + (s->ptr[i] - '0');
    }
    *s = df_str_n(s->ptr + width, s->len - width);
    *ret = v;
    return true;
}

static bool take_char(struct df_str *s, char c)
{
    if (s->len == 0 || s->ptr[0] != c)
        return false;
    *s = df_str_n(s->ptr + 1, s->len - 1);
    return true;
}

static bool take_date(struct df_str *s, int64_t *ret_days)
{
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t year, month, day;

    if (!take_number(s, 4, &year) || !take_char(s, '-') || !take_number(s, 2, &month) ||
        !take_char(s, '-') || !take_number(s, 2, &day))
        return false;
    if (month < 1 || month > 12)
        return false;
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if (day < 1 || day > lengths[month - 1] + (month == 2 && leap))
        return false;
    *ret_days = days_from_date(year, month, day);
    return true;
}

static bool take_time(struct df_str *s, int64_t *ret_ms)
{
    int64_t hour, minute, second;
    int64_t ms = 0;

    if (!take_number(s, 2, &hour) || !take_char(s, ':') || !take_number(s, 2, &minute) ||
        !take_char(s, ':') || !take_number(s, 2, &second))
        return false;
    if (hour > 23 || minute > 59 || second > 59)
        return false;
    if (take_char(s, '.')) {
        int64_t digit;
        int64_t unit = 100;
        if (!take_number(s, 1, &digit))
            return false;
        do {
            ms += digit * unit;
            unit /= 10;
        } while (take_number(s, 1, &digit));
    }
    *ret_ms = ((hour * 60 + minute) * 60 + second) * 1000 + ms;
    return true;
}

/* Z, +hh:mm, +hhmm, +hh or nothing. */
static bool take_offset(struct df_str *s, int64_t *ret_ms)
{
    int64_t hour;
    int64_t minute = 0;

    *ret_ms = 0;
    if (s->len == 0 || take_char(s, 'Z'))
        return true;
    bool west = s->ptr[0] == '-';
    if (!take_char(s, west ? '-' : '+') || !take_number(s, 2, &hour))
        return false;
    if (s->len > 0) {
        (void)take_char(s, ':');
        if (!take_number(s, 2, &minute))
            return false;
    }
    if (hour > 23 || minute > 59)
        return false;
    *ret_ms = (hour * 60 + minute) * (west ? -60000 : 60000);
    return true;
}

bool df_time_parse(struct df_str s, int64_t *ret_wall_ms)
{
    int64_t days;
    int64_t ms = 0;
    int64_t offset = 0;

    if (!take_date(&s, &days))
        return false;
    if (s.len > 0) {
        if (!take_char(&s, 'T') && !take_char(&s, ' '))
            return false;
        if (!take_time(&s, &ms) || !take_offset(&s, &offset) || s.len > 0)
            return false;
    }
    *ret_wall_ms = days * MS_PER_DAY + ms - offset;
    return true;
}

/* --- waiting ---------------------------------------------------------------------------------- */

void df_sleep_ms(int64_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0) {
        /* A signal came; sleep on for what is left. */
    }
}
