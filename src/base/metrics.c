/*
 * Written by hand because the text formats are small and Debian has no C library for them; the
 * tests hand the output to promtool and to a strict parser of OpenMetrics. metrics_write.c writes
 * them.
 *
 * Families are in a list sorted by name, under one lock. The list only grows and families never
 * move, so a reader takes the head under the lock and walks without it; that is why the list is not
 * base/list.h's. Series are in a table of their family, under the family's lock, and are never
 * freed.
 */
#include "base/clock.h"
#include "base/list.h"
#include "base/mem.h"
#include "base/metrics_private.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_MAX_SERIES 200
#define CLIENT_MAX_SERIES  ((DF_METRIC_CLIENTS + 1) * (size_t)16)
#define LABEL_MAX_BYTES    128
#define EXEMPLAR_MS        1000 /* between two of one bucket */
#define KEY_MAX_BYTES      (DF_METRIC_LABELS_MAX * (LABEL_MAX_BYTES + 1))

const double df_metric_seconds[DF_METRIC_SECONDS_COUNT] = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
    0.1,    0.25,    0.5,    1,     2.5,    5,     10,   30,    60};

static struct df_mutex registry_lock = DF_MUTEX_INIT;
static struct df_metric_family *families DF_GUARDED_BY(registry_lock);

/* The clients that have series of their own. */
static struct df_mutex clients_lock = DF_MUTEX_INIT;
static struct df_map clients DF_GUARDED_BY(clients_lock);

static const struct df_clock *_Atomic exemplar_clock; /* NULL: the real one */

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

size_t metric_label_count(const struct df_metric_family *f)
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
    if (f->type == DF_COUNTER && !df_str_ends(df_str_c(f->name), DF_STR("_total")))
        refuse_family(f, "a counter whose name does not end in _total");
    if (f->type == DF_HISTOGRAM && f->bucket_count == 0)
        refuse_family(f, "a histogram without buckets");
    for (size_t i = 1; i < f->bucket_count; i++) {
        if (!(f->buckets[i - 1] < f->buckets[i]))
            refuse_family(f, "buckets do not ascend");
    }
}

static int client_label_of(const struct df_metric_family *f)
{
    for (int i = 0; i < DF_METRIC_LABELS_MAX && f->labels[i]; i++) {
        if (strcmp(f->labels[i], "client_id") == 0 || strcmp(f->labels[i], "clientId") == 0)
            return i;
    }
    return -1;
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
        f->client_label = client_label_of(f);
        if (f->max_series == 0)
            f->max_series = f->client_label < 0 ? DEFAULT_MAX_SERIES : CLIENT_MAX_SERIES;
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
    *to++ = METRIC_KEY_END;
    return to;
}

/* Whether the client has series of its own; the first ones that are asked for have. */
static bool is_client_shown(struct df_str label)
{
    df_lock(&clients_lock);
    bool shown = df_map_get(&clients, label) != NULL;
    if (!shown && clients.count < DF_METRIC_CLIENTS) {
        char *kept = df_strdup(label); /* for as long as the process runs, as its series */
        df_map_add(&clients, df_str_n(kept, label.len), kept);
        shown = true;
    }
    df_unlock(&clients_lock);
    return shown;
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
    size_t labels = label_values ? metric_label_count(f) : 0;

    df_metric_register(f);
    char *end = text;
    for (size_t i = 0; i < labels; i++) {
        char *begin = end;
        end = add_label(end, label_values[i]);
        if ((int)i == f->client_label && !is_client_shown(df_str_n(begin, (size_t)(end - begin))))
            end = add_label(begin, DF_STR("other"));
    }
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

static size_t bucket_of(const struct df_metric_family *f, double v)
{
    size_t i = 0;

    while (i < f->bucket_count && v > f->buckets[i])
        i++;
    return i;
}

static void count_hit(struct df_metric *m, size_t bucket, double v)
{
    atomic_fetch_add_explicit(&m->hits[bucket], 1, memory_order_relaxed);
    add_bits(&m->bits, v);
}

void df_metric_observe(struct df_metric *m, double v)
{
    if (!isnan(v))
        count_hit(m, bucket_of(m->family, v), v);
}

uint64_t metric_hits(const struct df_metric *m, size_t bucket)
{
    return atomic_load_explicit(&m->hits[bucket], memory_order_relaxed);
}

double metric_sum(const struct df_metric *m)
{
    return double_of(atomic_load_explicit(&m->bits, memory_order_relaxed));
}

double df_metric_value(const struct df_metric *m)
{
    const struct df_metric_family *f = m->family;
    if (f->type != DF_HISTOGRAM)
        return metric_sum(m);
    uint64_t count = 0;
    for (size_t i = 0; i <= f->bucket_count; i++)
        count += metric_hits(m, i);
    return (double)count;
}

struct df_metric **metric_copy_series(struct df_metric_family *f, size_t *ret_count)
{
    struct df_metric **all, *m;
    size_t count = 0;

    df_lock(&f->lock);
    all = df_calloc(f->series.count + 1, sizeof(struct df_metric *));
    for (size_t at = 0; (m = df_map_next(&f->series, &at));)
        all[count++] = m;
    df_unlock(&f->lock);
    *ret_count = count;
    return all;
}

void df_metric_tally(struct df_metric_family *f, const struct df_str *label_values, double v)
{
    df_metric_get(f, label_values)->tally += v;
}

void df_metric_tally_end(struct df_metric_family *f, bool keep)
{
    size_t count;

    df_metric_register(f);
    struct df_metric **all = metric_copy_series(f, &count);
    for (size_t i = 0; i < count; i++) {
        if (keep)
            df_metric_set(all[i], all[i]->tally);
        all[i]->tally = 0;
    }
    free(all);
}

/* --- exemplars -------------------------------------------------------------------------------- */

void df_metric_use_clock(const struct df_clock *clock)
{
    atomic_store(&exemplar_clock, clock);
}

/* The last hexadecimal digit of the flags. */
static bool is_sampled(const struct df_trace *t)
{
    char c = t->text[DF_TRACEPARENT_LEN - 1];
    return c >= 'a' && c <= 'f' ? (c & 1) == 0 : c >= '0' && c <= '9' && (c & 1) == 1;
}

static struct metric_exemplars *exemplars_of(struct df_metric *m)
{
    struct metric_exemplars *have = atomic_load_explicit(&m->exemplars, memory_order_acquire);

    if (have)
        return have;
    struct metric_exemplars *mine =
        df_calloc(1, sizeof(*mine) + (m->family->bucket_count + 1) * sizeof(mine->slots[0]));
    atomic_flag_clear(&mine->busy);
    if (atomic_compare_exchange_strong(&m->exemplars, &have, mine))
        return mine;
    free(mine);
    return have;
}

static void keep_exemplar(struct df_metric *m, size_t slot, double v, const struct df_trace *trace)
{
    const struct df_clock *clock = atomic_load_explicit(&exemplar_clock, memory_order_relaxed);

    if (!trace || !is_sampled(trace))
        return;
    struct metric_exemplars *all = exemplars_of(m);
    int64_t now_ms = df_wall_ms(clock ? clock : df_clock_real());
    int64_t taken_ms = atomic_load_explicit(&all->slots[slot].taken_ms, memory_order_relaxed);
    if (now_ms >= taken_ms && now_ms - taken_ms < EXEMPLAR_MS)
        return;
    if (atomic_flag_test_and_set_explicit(&all->busy, memory_order_acquire))
        return;
    struct metric_exemplar *e = &all->slots[slot].e;
    memcpy(e->trace_id, df_trace_id(trace).ptr, sizeof(e->trace_id));
    memcpy(e->span_id, df_trace_span(trace).ptr, sizeof(e->span_id));
    e->value = v;
    e->wall_ms = now_ms;
    atomic_store_explicit(&all->slots[slot].taken_ms, now_ms, memory_order_relaxed);
    atomic_flag_clear_explicit(&all->busy, memory_order_release);
}

void df_metric_add_traced(struct df_metric *m, double v, const struct df_trace *trace)
{
    df_metric_add(m, v);
    if (v > 0)
        keep_exemplar(m, 0, v, trace);
}

void df_metric_observe_traced(struct df_metric *m, double v, const struct df_trace *trace)
{
    if (isnan(v))
        return;
    size_t bucket = bucket_of(m->family, v);
    count_hit(m, bucket, v);
    keep_exemplar(m, bucket, v, trace);
}

bool metric_exemplar(const struct df_metric *m, size_t slot, struct metric_exemplar *ret)
{
    struct metric_exemplars *all = atomic_load_explicit(&m->exemplars, memory_order_acquire);

    if (!all || atomic_load_explicit(&all->slots[slot].taken_ms, memory_order_relaxed) == 0)
        return false;
    if (atomic_flag_test_and_set_explicit(&all->busy, memory_order_acquire))
        return false;
    *ret = all->slots[slot].e;
    atomic_flag_clear_explicit(&all->busy, memory_order_release);
    return true;
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

void metric_collect(void)
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

/* --- walking ---------------------------------------------------------------------------------- */

struct df_metric_family *metric_next_family(struct df_metric_family *f)
{
    df_lock(&registry_lock);
    f = f ? f->next : families;
    df_unlock(&registry_lock);
    return f;
}

bool metric_is_name_taken(struct df_str name)
{
    struct df_metric_family *f = NULL;

    while ((f = metric_next_family(f)))
        if (df_str_eq(df_str_c(f->name), name))
            return true;
    return false;
}
