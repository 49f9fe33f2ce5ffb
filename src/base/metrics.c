/*
 * Written by hand because the text format is small and Debian has no C library for it; the tests
 * hand the output to promtool.
 *
 * Families are in a list sorted by name, under one lock. The list only grows and families never
 * move, so a reader takes the head under the lock and walks without it; that is why the list is not
 * base/list.h's. Series are in a table of their family, under the family's lock, and are never
 * freed.
 */
#include "base/metrics.h"

#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_MAX_SERIES 200
#define LABEL_MAX_BYTES    128
/* The key of a series: its label values, each ended by a byte that UTF-8 does not have. */
#define KEY_END       '\xFF'
#define KEY_MAX_BYTES (DF_METRIC_LABELS_MAX * (LABEL_MAX_BYTES + 1))

const double df_metric_seconds[DF_METRIC_SECONDS_COUNT] = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1,    0.25,    0.5,    1,     2.5,    5,     10,   30,    60};

struct df_metric {
    const struct df_metric_family *family;
    _Atomic uint64_t bits; /* the value, or the histogram's sum, as a double's bits */
    size_t key_len;
    char *key;
    _Atomic uint64_t hits[]; /* HISTOGRAM: bucket_count and one for +Inf, not cumulative */
};

static struct df_mutex registry_lock = DF_MUTEX_INIT;
static struct df_metric_family *families DF_GUARDED_BY(registry_lock);

/* --- families --------------------------------------------------------------------------------- */

static bool is_name(const char *s, bool colons)
{
    if (!*s || (*s >= '0' && *s <= '9'))
        return false;
    for (; *s; s++) {
        bool letter = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || *s == '_';
        if (!letter && !(*s >= '0' && *s <= '9') && !(colons && *s == ':'))
            return false;
    }
    return true;
}

static size_t label_count(const struct df_metric_family *f)
{
    size_t n = 0;
    while (n < DF_METRIC_LABELS_MAX && f->labels[n])
        n++;
    return n;
}

static void refuse_family(const struct df_metric_family *f, const char *why)
{
    (void)dprintf(2, "dataflow: metric %s: %s\n", f->name, why);
    abort();
}

static void check_family(const struct df_metric_family *f)
{
    if (!is_name(f->name, true))
        refuse_family(f, "invalid name");
    for (size_t i = 0; i < DF_METRIC_LABELS_MAX && f->labels[i]; i++) {
        bool reserved = strncmp(f->labels[i], "__", 2) == 0 || strcmp(f->labels[i], "le") == 0;
        if (!is_name(f->labels[i], false) || reserved)
            refuse_family(f, "invalid label");
    }
    if (f->type == DF_HISTOGRAM && f->bucket_count == 0)
        refuse_family(f, "a histogram without buckets");
    for (size_t i = 1; i < f->bucket_count; i++) {
        if (!(f->buckets[i - 1] < f->buckets[i]))
            refuse_family(f, "buckets do not ascend");
    }
}

void df_metric_register(struct df_metric_family *f)
{
    if (f->registered)
        return;
    df_lock(&registry_lock);
    if (!f->registered) {
        check_family(f);
        struct df_metric_family **at = &families;
        while (*at && strcmp((*at)->name, f->name) < 0)
            at = &(*at)->next;
        if (*at && strcmp((*at)->name, f->name) == 0)
            refuse_family(f, "the name is taken");
        df_mutex_init(&f->lock);
        if (f->max_series == 0)
            f->max_series = DEFAULT_MAX_SERIES;
        f->next = *at;
        *at = f;
        f->registered = true;
    }
    df_unlock(&registry_lock);

    /* A family without labels is shown from the start, as zero. */
    if (!f->labels[0])
        (void)df_metric_get(f, NULL);
}

/* --- series ----------------------------------------------------------------------------------- */

/* Appends the value as it is shown: valid UTF-8, cut at the end of a character. Returns the key's
 * new end. */
static char *add_label(char *to, struct df_str v)
{
    static const char unknown[] = {'\xEF', '\xBF', '\xBD'};
    const char *stop = to + LABEL_MAX_BYTES;

    while (v.len > 0) {
        size_t valid = df_utf8_valid_prefix(v);
        size_t n = valid < (size_t)(stop - to) ? valid : (size_t)(stop - to);
        while (n < valid && n > 0 && (v.ptr[n] & 0xC0) == 0x80)
            n--;
        memcpy(to, v.ptr, n);
        to += n;
        if (n < valid || valid == v.len || stop - to < (ptrdiff_t)sizeof(unknown))
            break;
        memcpy(to, unknown, sizeof(unknown));
        to += sizeof(unknown);
        v = df_str_n(v.ptr + valid + 1, v.len - valid - 1);
    }
    *to++ = KEY_END;
    return to;
}

static struct df_metric *add_series(struct df_metric_family *f, struct df_str key)
    DF_REQUIRES(f->lock)
{
    struct df_metric *m;
    size_t hits = f->type == DF_HISTOGRAM ? f->bucket_count + 1 : 0;
    m = df_calloc(1, sizeof(*m) + hits * sizeof(m->hits[0]));
    m->family = f;
    m->key_len = key.len;
    m->key = df_strdup(key);
    df_map_add(&f->series, df_str_n(m->key, m->key_len), m);
    return m;
}

struct df_metric *df_metric_get(struct df_metric_family *f, const struct df_str *label_values)
{
    char text[KEY_MAX_BYTES];
    size_t labels = label_values ? label_count(f) : 0;

    df_metric_register(f);
    char *end = text;
    for (size_t i = 0; i < labels; i++)
        end = add_label(end, label_values[i]);
    struct df_str key = df_str_n(text, (size_t)(end - text));

    df_lock(&f->lock);
    struct df_metric *m = df_map_get(&f->series, key);
    if (!m && labels > 0 && f->series.count >= f->max_series) {
        end = text;
        for (size_t i = 0; i < labels; i++)
            end = add_label(end, DF_STR("other"));
        key.len = (size_t)(end - text);
        m = df_map_get(&f->series, key);
    }
    if (!m)
        m = add_series(f, key);
    df_unlock(&f->lock);
    return m;
}

/* --- values ----------------------------------------------------------------------------------- */

static double double_of(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

static uint64_t bits_of(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

static void add_bits(_Atomic uint64_t *bits, double v)
{
    uint64_t seen = atomic_load_explicit(bits, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(bits, &seen, bits_of(double_of(seen) + v),
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

void df_metric_add(struct df_metric *m, double v)
{
    if (isnan(v) || (m->family->type == DF_COUNTER && v < 0))
        return;
    add_bits(&m->bits, v);
}

void df_metric_set(struct df_metric *m, double v)
{
    atomic_store_explicit(&m->bits, bits_of(v), memory_order_relaxed);
}

void df_metric_observe(struct df_metric *m, double v)
{
    const struct df_metric_family *f = m->family;
    size_t i = 0;

    if (isnan(v))
        return;
    while (i < f->bucket_count && v > f->buckets[i])
        i++;
    atomic_fetch_add_explicit(&m->hits[i], 1, memory_order_relaxed);
    add_bits(&m->bits, v);
}

static uint64_t hits_of(const struct df_metric *m, size_t bucket)
{
    return atomic_load_explicit(&m->hits[bucket], memory_order_relaxed);
}

double df_metric_value(const struct df_metric *m)
{
    const struct df_metric_family *f = m->family;
    if (f->type != DF_HISTOGRAM)
        return double_of(atomic_load_explicit(&m->bits, memory_order_relaxed));
    uint64_t count = 0;
    for (size_t i = 0; i <= f->bucket_count; i++)
        count += hits_of(m, i);
    return (double)count;
}

/* --- exposition ------------------------------------------------------------------------------- */

static void write_number(struct df_buf *out, double v)
{
    char text[40];
    if (isnan(v) || isinf(v)) {
        df_buf_addz(out, isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf");
    } else if (fabs(v) < 1e18 && v == trunc(v)) {
        df_buf_add_i64(out, (int64_t)v);
    } else {
        snprintf(text, sizeof(text), "%.15g", v);
        if (strtod(text, NULL) != v)
            snprintf(text, sizeof(text), "%.17g", v);
        df_buf_addz(out, text);
    }
}

static void write_escaped(struct df_buf *out, struct df_str s, bool quotes)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '\n')
            df_buf_addz(out, "\\n");
        else if (c == '\\' || (quotes && c == '"'))
            df_buf_add(out, (char[]){'\\', c}, 2);
        else
            df_buf_addc(out, c);
    }
}

/* {a="x",b="y",le="0.5"}; nothing when there are no labels. */
static void write_labels(struct df_buf *out, const struct df_metric *m, const double *le)
{
    const struct df_metric_family *f = m->family;
    struct df_str rest = df_str_n(m->key, m->key_len);
    const char *before = "{";

    for (size_t i = 0; i < label_count(f); i++) {
        struct df_str value;
        rest = df_str_cut(rest, KEY_END, &value);
        df_buf_addf(out, "%s%s=\"", before, f->labels[i]);
        write_escaped(out, value, true);
        df_buf_addc(out, '"');
        before = ",";
    }
    if (le) {
        df_buf_addf(out, "%sle=\"", before);
        write_number(out, *le);
        df_buf_addc(out, '"');
        before = ",";
    }
    if (*before == ',')
        df_buf_addc(out, '}');
}

static void write_sample(struct df_buf *out, const struct df_metric *m, const char *suffix,
                         const double *le, double v)
{
    df_buf_addz(out, m->family->name);
    df_buf_addz(out, suffix);
    write_labels(out, m, le);
    df_buf_addc(out, ' ');
    write_number(out, v);
    df_buf_addc(out, '\n');
}

/* The count is the total of the buckets, so the two can never disagree. */
static void write_histogram(struct df_buf *out, const struct df_metric *m)
{
    const struct df_metric_family *f = m->family;
    double sum = double_of(atomic_load_explicit(&m->bits, memory_order_relaxed));
    uint64_t count = 0;

    for (size_t i = 0; i <= f->bucket_count; i++) {
        double le = i < f->bucket_count ? f->buckets[i] : (double)INFINITY;
        count += hits_of(m, i);
        write_sample(out, m, "_bucket", &le, (double)count);
    }
    write_sample(out, m, "_sum", NULL, sum);
    write_sample(out, m, "_count", NULL, (double)count);
}

static const char *type_name(enum df_metric_type type)
{
    switch (type) {
    case DF_COUNTER:
        return "counter";
    case DF_GAUGE:
        return "gauge";
    case DF_HISTOGRAM:
        return "histogram";
    }
    return "untyped";
}

static void write_family(struct df_buf *out, struct df_metric_family *f)
{
    const struct df_metric **all, *m;
    size_t count = 0;

    df_lock(&f->lock);
    all = df_calloc(f->series.count, sizeof(void *));
    for (size_t at = 0; (m = df_map_next(&f->series, &at));)
        all[count++] = m;
    df_unlock(&f->lock);
    if (count == 0)
        goto out;

    df_buf_addf(out, "# HELP %s ", f->name);
    write_escaped(out, df_str_c(f->help), false);
    df_buf_addf(out, "\n# TYPE %s %s\n", f->name, type_name(f->type));

    for (size_t i = 0; i < count; i++) {
        if (f->type == DF_HISTOGRAM)
            write_histogram(out, all[i]);
        else
            write_sample(out, all[i], "", NULL, df_metric_value(all[i]));
    }
out:
    free(all);
}

/* --- collecting ------------------------------------------------------------------------------- */

/* A collector stays in the list while it runs; df_metric_off_collect waits for it. */
struct collector {
    struct df_link link;
    void (*collect)(void *arg);
    void *arg;
    size_t running;
    bool off;
};

static struct df_mutex collect_lock = DF_MUTEX_INIT;
static pthread_cond_t collect_done = PTHREAD_COND_INITIALIZER;
static struct df_list collectors;

void df_metric_on_collect(void (*collect)(void *arg), void *arg)
{
    struct collector *c = df_calloc(1, sizeof(*c));
    c->collect = collect;
    c->arg = arg;
    df_lock(&collect_lock);
    df_list_add(&collectors, &c->link);
    df_unlock(&collect_lock);
}

void df_metric_off_collect(void (*collect)(void *arg), void *arg)
{
    struct collector *c;

    df_lock(&collect_lock);
    DF_LIST_EACH (c, &collectors, link)
        if (!c->off && c->collect == collect && c->arg == arg)
            break;
    if (c) {
        c->off = true;
        while (c->running > 0)
            df_cond_wait(&collect_done, &collect_lock);
        df_list_remove(&collectors, &c->link);
    }
    df_unlock(&collect_lock);
    free(c);
}

static void collect_all(void)
{
    struct collector *c, *next;

    df_lock(&collect_lock);
    for (c = DF_LIST_FIRST(&collectors, struct collector, link); c; c = next) {
        bool on = !c->off;
        if (on) {
            c->running++;
            df_unlock(&collect_lock);
            c->collect(c->arg);
            df_lock(&collect_lock);
        }
        next = DF_LIST_NEXT(c, &collectors, link); /* before c may be removed */
        if (on && --c->running == 0 && c->off)
            pthread_cond_broadcast(&collect_done);
    }
    df_unlock(&collect_lock);
}

void df_metrics_write(struct df_buf *out)
{
    collect_all();

    df_lock(&registry_lock);
    struct df_metric_family *f = families;
    df_unlock(&registry_lock);
    while (f) {
        write_family(out, f);
        df_lock(&registry_lock);
        f = f->next;
        df_unlock(&registry_lock);
    }
}
