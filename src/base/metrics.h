/*
 * Metrics in the Prometheus text format. A family is a static object that its module registers
 * once; a series is one combination of label values. Updates are atomic and lock-free; finding a
 * series by its labels takes a short lock, so hot paths keep the pointer.
 *
 * Labels are bounded: beyond `max_series` a new combination is counted with the value "other" in
 * every label, so that a peer cannot exhaust memory by inventing names. Series are never freed.
 */
#ifndef DF_BASE_METRICS_H
#define DF_BASE_METRICS_H

#include "base/buf.h"
#include "base/lock.h"
#include "base/map.h"

enum df_metric_type { DF_COUNTER, DF_GAUGE, DF_HISTOGRAM };

#define DF_METRIC_LABELS_MAX 4

struct df_metric; /* a series */

struct df_metric_family {
    const char *name;
    const char *help;
    enum df_metric_type type;
    _Atomic bool registered;                  /* private to metrics.c */
    const char *labels[DF_METRIC_LABELS_MAX]; /* NULL after the last */
    const double *buckets;                    /* HISTOGRAM: ascending upper bounds, without +Inf */
    size_t bucket_count;
    size_t max_series; /* 0: 200 */

    /* Private to metrics.c. */
    struct df_mutex lock;
    struct df_map series DF_GUARDED_BY(lock);
    struct df_metric_family *next;
};

/* Seconds, from a tenth of a millisecond to a minute: for durations of requests and queries. */
#define DF_METRIC_SECONDS_COUNT 18
extern const double df_metric_seconds[DF_METRIC_SECONDS_COUNT];
/* For a family's initializer. */
#define DF_METRIC_SECONDS .buckets = df_metric_seconds, .bucket_count = DF_METRIC_SECONDS_COUNT

/*
 * Registering twice is harmless; getting a series registers its family too. A name that is invalid
 * or taken, a label that is invalid, or a histogram without buckets is a mistake in the program and
 * aborts.
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

void df_metrics_write(struct df_buf *out);

#endif
