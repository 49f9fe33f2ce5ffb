/* What metrics.c and metrics_write.c share. */
#ifndef DF_BASE_METRICS_PRIVATE_H
#define DF_BASE_METRICS_PRIVATE_H

#include "base/metrics.h"

#include <stdatomic.h>

/* The key of a series: its label values, each ended by a byte that UTF-8 does not have. */
#define METRIC_KEY_END '\xFF'

struct metric_exemplar {
    char trace_id[DF_TRACE_ID_LEN];
    char span_id[DF_SPAN_ID_LEN];
    double value;
    int64_t wall_ms;
};

/* One for each bucket, or one for a counter. Who finds the flag set leaves its exemplar out. */
struct metric_exemplars {
    atomic_flag busy;
    struct {
        _Atomic int64_t taken_ms; /* wall; 0: none was taken */
        struct metric_exemplar e;
    } slots[];
};

struct df_metric {
    const struct df_metric_family *family;
    _Atomic uint64_t bits; /* the value, or the histogram's sum, as a double's bits */
    struct metric_exemplars *_Atomic exemplars; /* NULL: none yet */
    double tally;
    size_t key_len;
    char *key;
    _Atomic uint64_t hits[]; /* HISTOGRAM: bucket_count and one for +Inf, not cumulative */
};

size_t metric_label_count(const struct df_metric_family *f);
/* All series of a family, in the order in which they came; the caller frees the array. */
struct df_metric **metric_copy_series(struct df_metric_family *f, size_t *ret_count);
/* A histogram's sum; the value of the others. */
double metric_sum(const struct df_metric *m);
uint64_t metric_hits(const struct df_metric *m, size_t bucket);
/* False: there is none, or it was written just now. */
bool metric_exemplar(const struct df_metric *m, size_t slot, struct metric_exemplar *ret);
/* Walks over the registered families in the order of their names: NULL begins, and ends. */
struct df_metric_family *metric_next_family(struct df_metric_family *f);
/* Whether a family of this name is registered. */
bool metric_is_name_taken(struct df_str name);
/* Calls the collectors. */
void metric_collect(void);

#endif
