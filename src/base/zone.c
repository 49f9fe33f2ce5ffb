#include "base/zone.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define ZONE_DIR       "/usr/share/zoneinfo"
#define NAME_MAX_BYTES 128
#define FILE_MAX_BYTES (1 << 20)
#define HEAD_BYTES     44
#define DAY_S          INT64_C(86400)
#define FIRST_S        INT64_C(-62135596800) /* 0001-01-01 */
#define LAST_S         INT64_C(253370764799) /* 9998-12-31 */
#define OFFSET_MIN_S   (-89999)              /* as in RFC 8536 */
#define OFFSET_MAX_S   93599

/* One of the two yearly changes of a POSIX rule. */
struct change {
    char form; /* 'M': month, week, day; 'J': day 1 to 365; 'N': day 0 to 365, leap day counted */
    int month, week, day;
    int64_t time_s; /* seconds after midnight by the clock before the change */
};

/* The footer: the rule after the last transition. */
struct rule {
    bool given;
    bool has_dst;
    int32_t std_s, dst_s; /* east of UTC */
    struct change start, end;
};

struct df_zone {
    size_t count;
    int64_t *at_s; /* ascending; offset_s[i] applies from at_s[i] on */
    int32_t *offset_s;
    int32_t first_s; /* offset before the first of them */
    struct rule rule;
};

int df_weekday(int year, int month, int day)
{
    struct df_date_time d = {.year = year, .month = month, .day = day};
    int64_t days = df_time_join(&d) / (DAY_S * 1000); /* whole: no rounding */
    return (int)((days % 7 + 11) % 7);                /* 1970-01-01 was a Thursday */
}

/* --- the footer's rule --- */

static bool take_char(struct df_str *s, char c)
{
    if (s->len == 0 || s->ptr[0] != c)
        return false;
    *s = df_str_n(s->ptr + 1, s->len - 1);
    return true;
}

static bool take_int(struct df_str *s, int max, int *ret)
{
    int v = 0;
    size_t n = 0;
    for (; n < s->len && n < 4 && s->ptr[n] >= '0' && s->ptr[n] <= '9'; n++)
        v = v * 10 + (s->ptr[n] - '0');
    *s = df_str_n(s->ptr + n, s->len - n);
    *ret = v;
    return n > 0 && v <= max;
}

/* "<+03>" or letters; the name itself does not matter. */
static bool take_name(struct df_str *s)
{
    size_t n = 0;
    if (take_char(s, '<')) {
        while (n < s->len && s->ptr[n] != '>')
            n++;
        *s = df_str_n(s->ptr + n, s->len - n);
        return n >= 3 && take_char(s, '>');
    }
    while (n < s->len && ((s->ptr[n] | 0x20) >= 'a' && (s->ptr[n] | 0x20) <= 'z'))
        n++;
    *s = df_str_n(s->ptr + n, s->len - n);
    return n >= 3;
}

/* [+-]h[h[h]][:mm[:ss]] in seconds. */
static bool take_clock(struct df_str *s, int max_hours, int64_t *ret)
{
    int h, m = 0, sec = 0;
    bool minus = take_char(s, '-');
    if (!minus)
        (void)take_char(s, '+');
    if (!take_int(s, max_hours, &h))
        return false;
    if (take_char(s, ':')) {
        if (!take_int(s, 59, &m))
            return false;
        if (take_char(s, ':') && !take_int(s, 59, &sec))
            return false;
    }
    int64_t v = h * INT64_C(3600) + m * INT64_C(60) + sec;
    *ret = minus ? -v : v;
    return true;
}

static bool take_change(struct df_str *s, struct change *c)
{
    if (!take_char(s, ','))
        return false;
    if (take_char(s, 'M')) {
        c->form = 'M';
        if (!take_int(s, 12, &c->month) || !take_char(s, '.') || !take_int(s, 5, &c->week) ||
            !take_char(s, '.') || !take_int(s, 6, &c->day) || c->month < 1 || c->week < 1)
            return false;
    } else {
        c->form = take_char(s, 'J') ? 'J' : 'N';
        if (!take_int(s, 365, &c->day) || (c->form == 'J' && c->day < 1))
            return false;
    }
    c->time_s = 7200;
    return !take_char(s, '/') || take_clock(s, 167, &c->time_s);
}

static bool parse_rule(struct df_str s, struct rule *r)
{
    int64_t west;
    *r = (struct rule){.given = true};
    if (!take_name(&s) || !take_clock(&s, 24, &west))
        return false;
    r->std_s = (int32_t)-west;
    if (s.len == 0)
        return true;
    r->has_dst = true;
    if (!take_name(&s))
        return false;
    r->dst_s = r->std_s + 3600;
    if (s.len > 0 && s.ptr[0] != ',') {
        if (!take_clock(&s, 24, &west))
            return false;
        r->dst_s = (int32_t)-west;
    }
    return take_change(&s, &r->start) && take_change(&s, &r->end) && s.len == 0;
}

/* Seconds since 1970 by the local clock. */
static int64_t change_time(const struct change *c, int year)
{
    struct df_date_time d = {.year = year, .month = 1, .day = 1};
    if (c->form == 'M') {
        d.month = c->month;
        int first = 1 + (c->day - df_weekday(year, c->month, 1) + 7) % 7;
        d.day = first + 7 * (c->week - 1);
        static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
        bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        if (d.day > days[c->month - 1] + (leap && c->month == 2))
            d.day -= 7; /* week 5 is the last one */
    } else if (c->form == 'J') {
        bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        d.day = c->day + (leap && c->day >= 60); /* days beyond the end of the month carry over */
    } else {
        d.day = c->day + 1;
    }
    return df_time_join(&d) / 1000 + c->time_s;
}

/*
 * The offset at t, and until when it applies. The changes of the neighbouring years count too: a
 * change may lie up to a week outside its year. When both changes are at the same moment, the start
 * of summer time wins: that is how "summer time all year" is written.
 */
static int32_t rule_at(const struct rule *r, int64_t t, int64_t *ret_until)
{
    *ret_until = INT64_MAX;
    if (!r->has_dst)
        return r->std_s;
    int year = df_time_split((t + r->std_s) * 1000).year;
    int64_t since = INT64_MIN;
    int32_t offset = r->std_s;
    for (int y = year - 2; y <= year + 2; y++) {
        int64_t start = change_time(&r->start, y) - r->std_s;
        int64_t end = change_time(&r->end, y) - r->dst_s;
        if (end <= t && end > since) {
            since = end;
            offset = r->std_s;
        }
        if (start <= t && start >= since) {
            since = start;
            offset = r->dst_s;
        }
        if (end > t && end < *ret_until)
            *ret_until = end;
        if (start > t && start < *ret_until)
            *ret_until = start;
    }
    return offset;
}

/* --- the file --- */

struct counts {
    uint32_t isut, isstd, leap, time, type, chars;
};

static uint64_t read_be(const char *p, size_t bytes)
{
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; i++)
        v = v << 8 | (unsigned char)p[i];
    return v;
}

static bool read_head(struct df_str s, char *ret_version, struct counts *c)
{
    if (s.len < HEAD_BYTES || memcmp(s.ptr, "TZif", 4) != 0)
        return false;
    *ret_version = s.ptr[4];
    uint32_t *const fields[] = {&c->isut, &c->isstd, &c->leap, &c->time, &c->type, &c->chars};
    for (size_t i = 0; i < 6; i++)
        *fields[i] = (uint32_t)read_be(s.ptr + 20 + 4 * i, 4);
    return true;
}

/* Bytes of the block after the head; width is the width of its times. */
static uint64_t block_bytes(const struct counts *c, uint64_t width)
{
    return c->time * (width + 1) + c->type * UINT64_C(6) + c->chars + c->leap * (width + 4) +
           c->isstd + c->isut;
}

static const char *read_block(const char *p, const struct counts *c, size_t width,
                              struct df_zone *z)
{
    const char *index = p + c->time * width;
    const char *types = index + c->time;
    if (c->type == 0)
        return "has no type of time";
    if (c->leap > 0)
        return "counts leap seconds";
    for (size_t i = 0; i < c->type; i++) {
        int32_t off = (int32_t)read_be(types + 6 * i, 4);
        if (off < OFFSET_MIN_S || off > OFFSET_MAX_S)
            return "has an offset of more than a day";
    }
    z->first_s = (int32_t)read_be(types, 4);
    z->at_s = df_calloc(c->time, sizeof *z->at_s);
    z->offset_s = df_calloc(c->time, sizeof *z->offset_s);
    for (size_t i = 0; i < c->time; i++) {
        uint64_t raw = read_be(p + i * width, width);
        z->at_s[i] = width == 4 ? (int32_t)(uint32_t)raw : (int64_t)raw;
        if (i > 0 && z->at_s[i] <= z->at_s[i - 1])
            return "has changes out of order";
        size_t type = (unsigned char)index[i];
        if (type >= c->type)
            return "names a type of time that it has not";
        z->offset_s[i] = (int32_t)read_be(types + 6 * type, 4);
    }
    z->count = c->time;
    return NULL;
}

/* "\n<rule>\n"; an empty rule means that there is none. */
static const char *read_footer(struct df_str s, struct df_zone *z)
{
    struct df_str line;
    if (!take_char(&s, '\n'))
        return "has no footer";
    struct df_str rest = df_str_cut(s, '\n', &line);
    if (!rest.ptr)
        return "has a footer without an end";
    if (line.len > 0 && !parse_rule(line, &z->rule))
        return "has a rule that is none";
    return NULL;
}

static const char *parse_tzif(struct df_str s, struct df_zone *z)
{
    struct counts c;
    char version;
    if (!read_head(s, &version, &c))
        return "is no TZif file";
    if (block_bytes(&c, 4) > s.len - HEAD_BYTES)
        return "is cut off";
    if (version == '\0')
        return read_block(s.ptr + HEAD_BYTES, &c, 4, z);
    /* The second part repeats the data with 64-bit times; the footer follows. */
    size_t skip = HEAD_BYTES + (size_t)block_bytes(&c, 4);
    s = df_str_n(s.ptr + skip, s.len - skip);
    if (!read_head(s, &version, &c))
        return "has no second part";
    if (block_bytes(&c, 8) > s.len - HEAD_BYTES)
        return "is cut off";
    const char *why = read_block(s.ptr + HEAD_BYTES, &c, 8, z);
    if (why)
        return why;
    skip = HEAD_BYTES + (size_t)block_bytes(&c, 8);
    return read_footer(df_str_n(s.ptr + skip, s.len - skip), z);
}

enum df_code df_zone_parse(struct df_str tzif, struct df_zone **ret, struct df_err *err)
{
    struct df_zone *z = df_calloc(1, sizeof *z);
    const char *why = parse_tzif(tzif, z);
    if (why) {
        df_zone_free(z);
        return df_err_set(err, DF_E_CONFIG, "the zone's file %s", why);
    }
    *ret = z;
    return DF_OK;
}

void df_zone_free(struct df_zone *z)
{
    if (!z)
        return;
    free(z->at_s);
    free(z->offset_s);
    free(z);
}

/* Letters, digits, '_', '+', '-' between single slashes; no dots, so no parent directory. */
static bool name_valid(const char *name)
{
    size_t len = strlen(name);
    if (len == 0 || len > NAME_MAX_BYTES || name[0] == '/' || name[len - 1] == '/')
        return false;
    for (const char *p = name; *p; p++) {
        bool letter = (*p | 0x20) >= 'a' && (*p | 0x20) <= 'z';
        bool digit = *p >= '0' && *p <= '9';
        bool slash = *p == '/' && p[1] != '/';
        if (!letter && !digit && !slash && *p != '_' && *p != '+' && *p != '-')
            return false;
    }
    return true;
}

static enum df_code read_file(const char *name, char **ret, size_t *ret_len, struct df_err *err)
{
    const char *dir = secure_getenv("TZDIR");
    char path[512];
    int n = snprintf(path, sizeof path, "%s/%s", dir && *dir ? dir : ZONE_DIR, name);
    int fd = n < (int)sizeof path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX_BYTES) {
        if (fd >= 0)
            close(fd);
        return df_err_set(err, DF_E_CONFIG,
                          "there is no time zone \"%s\" in the system's data (%s)", name,
                          dir && *dir ? dir : ZONE_DIR);
    }
    char *data = df_malloc((size_t)st.st_size);
    size_t len = 0;
    while (len < (size_t)st.st_size) {
        ssize_t got = read(fd, data + len, (size_t)st.st_size - len);
        if (got == 0 || (got < 0 && errno != EINTR))
            break; /* the parser notices missing bytes */
        len += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    *ret = data;
    *ret_len = len;
    return DF_OK;
}

enum df_code df_zone_open(const char *name, struct df_zone **ret, struct df_err *err)
{
    if (!name_valid(name))
        return df_err_set(err, DF_E_CONFIG,
                          "\"%.60s\" is not the name of a time zone, such as America/Sao_Paulo",
                          name);
    if (strcmp(name, "UTC") == 0) {
        *ret = df_calloc(1, sizeof **ret);
        return DF_OK;
    }
    char *data = NULL;
    size_t len = 0;
    enum df_code code = read_file(name, &data, &len, err);
    if (code != DF_OK)
        return code;
    code = df_zone_parse(df_str_n(data, len), ret, err);
    free(data);
    return code;
}

/* --- times --- */

/* The offset at t, and until when it applies (INT64_MAX: for ever). */
static int32_t offset_at(const struct df_zone *z, int64_t t, int64_t *ret_until)
{
    size_t low = 0, high = z->count; /* the number of changes up to t */
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (z->at_s[mid] <= t)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == z->count && z->rule.given)
        return rule_at(&z->rule, t, ret_until);
    *ret_until = low < z->count ? z->at_s[low] : INT64_MAX;
    return low > 0 ? z->offset_s[low - 1] : z->first_s;
}

static int64_t seconds_of(int64_t utc_ms)
{
    int64_t s = utc_ms / 1000 - (utc_ms % 1000 < 0);
    return s < FIRST_S ? FIRST_S : s > LAST_S ? LAST_S : s;
}

int32_t df_zone_offset(const struct df_zone *z, int64_t utc_ms)
{
    int64_t until;
    return offset_at(z, seconds_of(utc_ms), &until);
}

struct df_date_time df_zone_local(const struct df_zone *z, int64_t utc_ms)
{
    int64_t s = seconds_of(utc_ms);
    int64_t ms = utc_ms - s * 1000;
    ms = ms < 0 ? 0 : ms > 999 ? 999 : ms;
    return df_time_split((s + df_zone_offset(z, utc_ms)) * 1000 + ms);
}

int64_t df_zone_to_utc(const struct df_zone *z, const struct df_date_time *local)
{
    int64_t wanted = (df_time_join(local) - local->ms) / 1000;
    int64_t from = wanted - OFFSET_MAX_S - 1; /* earlier than in any zone */
    for (;;) {
        int64_t until;
        int32_t offset = offset_at(z, from, &until);
        int64_t t = wanted - offset;
        if (t < from)
            return from * 1000; /* skipped: the change to `offset` jumped over it */
        if (t < until)
            return t * 1000 + local->ms;
        from = until;
    }
}
