/*
 * Spans as OTLP 1.x has them in JSON (ExportTraceServiceRequest): identifiers in hexadecimal, enums
 * as numbers, 64-bit integers as strings of digits. Pure functions.
 */
#ifndef DF_TELEMETRY_OTLP_H
#define DF_TELEMETRY_OTLP_H

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

#define DF_OTLP_HEADERS     16                    /* of the configuration */
#define DF_OTLP_BATCH_SPANS 512                   /* in one call */
#define DF_OTLP_BATCH_BYTES ((size_t)1024 * 1024) /* of JSON; the last span may go beyond it */
#define DF_OTLP_BODY_MAX    (DF_OTLP_BATCH_BYTES + (size_t)128 * 1024)

/* Who exports: the attributes of the resource. */
struct df_otlp_resource {
    struct df_str service_name;
    struct df_str service_version;
    struct df_str service_instance_id;
    struct df_str host_name; /* absent: not told */
};

/* Replaces what `out`, whose maximum is DF_OTLP_BODY_MAX, has by a request with the first spans.
 * Returns how many there are in it: at least one. */
size_t df_otlp_write(const struct df_otlp_resource *r, struct df_span_record *const *spans,
                     size_t count, struct df_buf *out);

/* The URL that spans are sent to. The caller frees it. */
char *df_otlp_url(const char *endpoint);

/* What a collector says of a request that it took. */
struct df_otlp_answer {
    int64_t rejected; /* spans that it did not keep */
    char message[201];
};

/* Reads the body of a 2xx; one that cannot be read says nothing. */
void df_otlp_read_answer(struct df_str body, struct df_otlp_answer *ret);

#endif
