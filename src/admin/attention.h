/*
 * GET /admin/attention: what needs a person, the worst first. It is put together at most every two
 * seconds, in each language, by one caller at a time; others get what is known, or wait for that
 * one.
 */
#ifndef DF_ADMIN_ATTENTION_H
#define DF_ADMIN_ATTENTION_H

#include "delivery/delivery.h"
#include "net/http.h"
#include "resilience/breaker.h"

struct df_attention;

struct df_attention_options {
    const struct df_clock *clock;
    struct df_delivery *delivery; /* whose channels are looked at */
    struct df_breakers *breakers; /* of this process */
    const char *data_dir;         /* whose disk is looked at */
};

struct df_attention *df_attention_new(const struct df_attention_options *opt);
/* After the HTTP threads are gone. NULL is fine. */
void df_attention_free(struct df_attention *a);

extern const struct df_route df_attention_routes[]; /* argument: a struct df_attention */

#endif
