/*
 * The exposition: the text format of Prometheus (0.0.4), and OpenMetrics 1.0.0. They differ in
 * this: OpenMetrics names a counter's family without _total, tells units, writes bounds of buckets
 * as decimals, has exemplars, and an end.
 */
#include "base/metrics_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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

/* OpenMetrics wants 1.0, so that every bound looks like a number with a fraction. */
static void write_bound(struct df_buf *out, double le, enum df_metrics_format format)
{
    write_number(out, le);
    if (format == DF_METRICS_OPEN && !isinf(le) && le == trunc(le))
        df_buf_addz(out, ".0");
}

/* {a="x",b="y",le="0.5"}; nothing when there are no labels. */
static void write_labels(struct df_buf *out, const struct df_metric *m, const double *le,
                         enum df_metrics_format format)
{
    const struct df_metric_family *f = m->family;
    struct df_str rest = df_str_n(m->key, m->key_len);
    const char *before = "{";

    for (size_t i = 0; i < metric_label_count(f); i++) {
        struct df_str value;
        rest = df_str_cut(rest, METRIC_KEY_END, &value);
        df_buf_addf(out, "%s%s=\"", before, f->labels[i]);
        write_escaped(out, value, true);
        df_buf_addc(out, '"');
        before = ",";
    }
    if (le) {
        df_buf_addf(out, "%sle=\"", before);
        write_bound(out, *le, format);
        df_buf_addc(out, '"');
        before = ",";
    }
    if (*before == ',')
        df_buf_addc(out, '}');
}

/* Without the end of the line, which an exemplar may precede. */
static void write_sample(struct df_buf *out, const struct df_metric *m, const char *suffix,
                         const double *le, double v, enum df_metrics_format format)
{
    df_buf_addz(out, m->family->name);
    df_buf_addz(out, suffix);
    write_labels(out, m, le, format);
    df_buf_addc(out, ' ');
    write_number(out, v);
}

static void write_exemplar(struct df_buf *out, const struct df_metric *m, size_t slot)
{
    struct metric_exemplar e;

    if (!metric_exemplar(m, slot, &e))
        return;
    df_buf_addf(out, " # {trace_id=\"%.*s\",span_id=\"%.*s\"} ", DF_TRACE_ID_LEN, e.trace_id,
                DF_SPAN_ID_LEN, e.span_id);
    write_number(out, e.value);
    df_buf_addf(out, " %lld.%03lld", (long long)(e.wall_ms / 1000), (long long)(e.wall_ms % 1000));
}

/* The count is the total of the buckets, so the two can never disagree. */
static void write_histogram(struct df_buf *out, const struct df_metric *m,
                            enum df_metrics_format format)
{
    const struct df_metric_family *f = m->family;
    double sum = metric_sum(m);
    uint64_t count = 0;

    for (size_t i = 0; i <= f->bucket_count; i++) {
        double le = i < f->bucket_count ? f->buckets[i] : (double)INFINITY;
        count += metric_hits(m, i);
        write_sample(out, m, "_bucket", &le, (double)count, format);
        if (format == DF_METRICS_OPEN)
            write_exemplar(out, m, i);
        df_buf_addc(out, '\n');
    }
    write_sample(out, m, "_sum", NULL, sum, format);
    df_buf_addc(out, '\n');
    write_sample(out, m, "_count", NULL, (double)count, format);
    df_buf_addc(out, '\n');
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

static void write_head(struct df_buf *out, struct df_str name, const char *help, const char *type,
                       enum df_metrics_format format)
{
    static const char *const units[] = {"seconds", "bytes"};

    df_buf_addf(out, "# HELP " DF_STR_FMT " ", DF_STR_ARG(name));
    write_escaped(out, df_str_c(help), format == DF_METRICS_OPEN);
    df_buf_addf(out, "\n# TYPE " DF_STR_FMT " %s\n", DF_STR_ARG(name), type);
    if (format == DF_METRICS_TEXT)
        return;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        struct df_str unit = df_str_c(units[i]);
        if (df_str_ends(name, unit) && name.len > unit.len &&
            name.ptr[name.len - unit.len - 1] == '_')
            df_buf_addf(out, "# UNIT " DF_STR_FMT " %s\n", DF_STR_ARG(name), units[i]);
    }
}

/*
 * In OpenMetrics a counter's family has no _total. Where a gauge has that name already (x: how many
 * there are, x_total: how many came), the counter keeps its name and loses its type: the samples
 * are named the same either way.
 */
static void write_family(struct df_buf *out, struct df_metric_family *f,
                         enum df_metrics_format format)
{
    struct df_str name = df_str_c(f->name), base = name;
    const char *type = type_name(f->type);
    bool traced = false;
    size_t count;
    struct df_metric **all = metric_copy_series(f, &count);

    if (f->type == DF_COUNTER && format == DF_METRICS_OPEN) {
        base.len -= strlen("_total");
        traced = !metric_is_name_taken(base);
        name = traced ? base : name;
        type = traced ? type : "unknown";
    }
    if (count > 0)
        write_head(out, name, f->help, type, format);
    for (size_t i = 0; i < count; i++) {
        if (f->type == DF_HISTOGRAM) {
            write_histogram(out, all[i], format);
            continue;
        }
        write_sample(out, all[i], "", NULL, df_metric_value(all[i]), format);
        if (traced)
            write_exemplar(out, all[i], 0);
        df_buf_addc(out, '\n');
    }
    free(all);
}

void df_metrics_write_as(struct df_buf *out, enum df_metrics_format format)
{
    metric_collect();
    for (struct df_metric_family *f = NULL; (f = metric_next_family(f));)
        write_family(out, f, format);
    if (format == DF_METRICS_OPEN)
        df_buf_addz(out, "# EOF\n");
}

const char *df_metrics_content_type(enum df_metrics_format format)
{
    return format == DF_METRICS_OPEN ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                     : "text/plain; version=0.0.4; charset=utf-8";
}

/* --- the page of all metrics ------------------------------------------------------------------ */

/* Made by the linker from the pointers of DF_METRIC_FAMILY. */
extern struct df_metric_family *const __start_df_metrics[] __attribute__((weak));
extern struct df_metric_family *const __stop_df_metrics[] __attribute__((weak));

static void write_cell(struct df_buf *out, struct df_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '|')
            df_buf_addc(out, '\\');
        df_buf_addc(out, text.ptr[i] == '\n' ? ' ' : text.ptr[i]);
    }
}

void df_metrics_write_docs(struct df_buf *out)
{
    for (struct df_metric_family *const *f = __start_df_metrics; f != __stop_df_metrics; f++)
        df_metric_register(*f);

    df_buf_addz(out, "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n");
    for (struct df_metric_family *f = NULL; (f = metric_next_family(f));) {
        df_buf_addf(out, "| `%s` | %s | ", f->name, type_name(f->type));
        for (size_t i = 0; i < metric_label_count(f); i++)
            df_buf_addf(out, "%s`%s`", i > 0 ? ", " : "", f->labels[i]);
        df_buf_addz(out, " | ");
        write_cell(out, df_str_c(f->help));
        df_buf_addz(out, " |\n");
    }
}
