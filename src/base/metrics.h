/*
 * Metrics, in the text format of Prometheus and in OpenMetrics. A family is a static object that
 * its module registers once; a series is one combination of label values. Updates are atomic and
 * lock-free; finding a series by its labels takes a short lock, so hot paths keep the pointer.
 *
 * Labels are bounded: beyond `max_series` a new combination is counted with the value "other" in
 * every label, so that a peer cannot exhaust memory by inventing names. Series are never freed.
 * Clients have a bound of their own: the first DF_METRIC_CLIENTS that a process sees have their
 * series in every family with a label `client_id` or `clientId`, the others are "other" together,
 * in that label only.
 *
 * An exemplar is one observation whose trace is known. A bucket, or a counter, keeps the last one,
 * and takes a new one at most once a second. Only OpenMetrics shows them.
 */
#ifndef DF_BASE_METRICS_H
#define DF_BASE_METRICS_H

#include "base/buf.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/trace.h"

enum df_metric_type { DF_COUNTER, DF_GAUGE, DF_HISTOGRAM };

#define DF_METRIC_LABELS_MAX 4
#define DF_METRIC_CLIENTS    200

struct df_metric; /* a series */

struct df_metric_family {
    const char *name;
    const char *help;
    enum df_metric_type type;
    _Atomic bool registered;                  /* private to metrics.c */
    const char *labels[DF_METRIC_LABELS_MAX]; /* NULL after the last */
    const double *buckets;                    /* HISTOGRAM: ascending upper bounds, without +Inf */
    size_t bucket_count;
    size_t max_series; /* 0: 200, for each client where there is a label for clients */

    /* Private to metrics.c. */
    int client_label; /* which label is a client; -1: none */
    struct df_mutex lock;
    struct df_map series DF_GUARDED_BY(lock);
    struct df_metric_family *next;
};

/*
 * Defines a static family and puts it into the list of all families of the program, registered or
 * not, which docs/metrics.md is made from:
 *
 *   DF_METRIC_FAMILY(attempts_total) = {.name = "dataflow_…", …};
 */
#define DF_METRIC_FAMILY(var)                                                                      \
    static struct df_metric_family var;                                                            \
    static struct df_metric_family *const var##_listed                                             \
        __attribute__((section("df_metrics"), used)) = &(var);                                     \
    static struct df_metric_family var

/* Seconds, from a tenth of a millisecond to a minute: for durations of requests and queries. */
#define DF_METRIC_SECONDS_COUNT 18
extern const double df_metric_seconds[DF_METRIC_SECONDS_COUNT];
/* For a family's initializer. */
#define DF_METRIC_SECONDS .buckets = df_metric_seconds, .bucket_count = DF_METRIC_SECONDS_COUNT

/*
 * Registering twice is harmless; getting a series registers its family too. A name that is invalid
 * or taken, a counter whose name does not end in _total, a label that is invalid, or a histogram
 * without buckets is a mistake in the program and aborts.
 */
void df_metric_register(struct df_metric_family *f);

/*
 * The series with these label values, one for each label; NULL for a family without labels. Never
 * returns NULL. Values are cut at 128 bytes; bytes that are not UTF-8 become U+FFFD.
 */
struct df_metric *df_metric_get(struct df_metric_family *f, const struct df_str *label_values);

void df_metric_add(struct df_metric *m, double v);     /* COUNTER (v >= 0), GAUGE */
void df_metric_set(struct df_metric *m, double v);     /* GAUGE; a COUNTER kept elsewhere */
void df_metric_observe(struct df_metric *m, double v); /* HISTOGRAM */
double df_metric_value(const struct df_metric *m);     /* COUNTER, GAUGE; HISTOGRAM: the count */

/* As above, with an exemplar if the trace is sampled; NULL: no trace is in force. */
void df_metric_add_traced(struct df_metric *m, double v, const struct df_trace *trace);
void df_metric_observe_traced(struct df_metric *m, double v, const struct df_trace *trace);
/* The clock of exemplars; NULL: the real one. It must live as long as the process. */
void df_metric_use_clock(const struct df_clock *clock);

/*
 * Sets all gauges of a family at once, for figures that a query counted: each row is tallied, rows
 * that share a series (as "other") are added up, and at the end series without a row become 0. With
 * `keep` false nothing changes, as when the query failed. One thread at a time for each family.
 */
void df_metric_tally(struct df_metric_family *f, const struct df_str *label_values, double v);
void df_metric_tally_end(struct df_metric_family *f, bool keep);

/*
 * `collect` is called before each exposition, to set gauges that are cheaper to read than to track.
 * No lock is held meanwhile, so it may take locks of its own and use everything above; two
 * expositions at once call it twice at once. It may not call df_metrics_write or
 * df_metric_off_collect.
 *
 * When df_metric_off_collect returns, the callback does not run and will not run again. It waits
 * for a call under way, so its caller must not hold a lock that the callback takes.
 */
void df_metric_on_collect(void (*collect)(void *arg), void *arg);
void df_metric_off_collect(void (*collect)(void *arg), void *arg);

/* process_* and dataflow_build_info; call once. */
void df_metric_register_process(const char *version);

enum df_metrics_format { DF_METRICS_TEXT, DF_METRICS_OPEN };

/* All families that are registered and have a series. */
void df_metrics_write_as(struct df_buf *out, enum df_metrics_format format);
static inline void df_metrics_write(struct df_buf *out)
{
    df_metrics_write_as(out, DF_METRICS_TEXT);
}
const char *df_metrics_content_type(enum df_metrics_format format);

/* A table in Markdown of all families of the program, registered or not. Registers them all, so it
 * is for a process that does nothing else. */
void df_metrics_write_docs(struct df_buf *out);

#endif
