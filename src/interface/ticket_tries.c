/*
 * When a ticket that the database refuses is given up (resilience/tries.h). The "target" is the
 * processing itself: a failure counts only while other tickets are processed. Whatever keeps all of
 * them from being processed is an outage, and costs no ticket a failure.
 */
#include "interface/processing.sql.h"
#include "interface/processing_private.h"

#include <stdatomic.h>

#define WRITE_EVERY_MS 1000

static void read_count(void *arg, struct df_result *r)
{
    *(int64_t *)arg = df_col_int(r, processed_count_Arrived);
}

enum df_code ticket_health_read(struct df_db *db, struct ticket_batch *b, struct df_err *err)
{
    struct ticket_health *h = &b->health;
    bool found = false;

    h->arrived = 0;
    enum df_code code = df_db_one(db, DF_Q0(processed_count), read_count, &h->arrived, &found, err);
    h->at_claim = h->arrived + h->unwritten;
    return code;
}

static void read_sum(void *arg, struct df_result *r)
{
    *(int64_t *)arg = df_col_int(r, processed_add_Arrived);
}

enum df_code ticket_health_write(struct df_db *db, struct ticket_batch *b, size_t processed,
                                 struct df_value now, struct df_err *err)
{
    struct ticket_health *h = &b->health;
    int64_t count = h->unwritten + (int64_t)processed;

    h->wrote = count > 0 && df_mono_ms(b->i->opt.clock) >= h->write_ms;
    if (!h->wrote)
        return DF_OK;
    return df_db_one(db, DF_Q(processed_add, .count = df_int(count), .now = now), read_sum,
                     &h->found, NULL, err);
}

void ticket_health_settled(struct ticket_batch *b, size_t processed)
{
    struct ticket_health *h = &b->health;

    if (!h->wrote) {
        h->unwritten += (int64_t)processed;
        return;
    }
    h->arrived = h->found;
    h->unwritten = 0;
    h->write_ms = df_mono_ms(b->i->opt.clock) + WRITE_EVERY_MS;
}

static enum df_code run_flush(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct ticket_batch *b = (struct ticket_batch *)job;
    return ticket_health_write(db, b, 0, df_time(df_wall_ms(b->i->opt.clock)), err);
}

enum df_code ticket_health_flush(struct ticket_batch *b, struct df_err *err)
{
    struct ticket_health *h = &b->health;

    h->unwritten += atomic_exchange(&b->i->processed_count, 0);
    if (h->unwritten == 0 || df_mono_ms(b->i->opt.clock) < h->write_ms)
        return DF_OK;
    b->job = (struct df_job){.run = run_flush};
    enum df_code code = df_store_write_wait(b->i->opt.store, &b->job, err);
    if (code == DF_OK)
        ticket_health_settled(b, 0);
    return code;
}

enum ticket_event ticket_judge_failure(struct ticket_batch *b, struct ticket *t)
{
    const struct df_delivery_settings *s = &b->i->opt.delivery_settings;
    const struct df_tries_policy policy = {.max_counted = s->retry.max_attempts,
                                           .cap_ms = s->retry.cap_ms,
                                           .give_up_ms = s->give_up_ms};
    int64_t arrived = b->health.arrived + b->health.unwritten;
    const struct df_tries_failure failure = {
        .now_ms = df_wall_ms(b->i->opt.clock),
        .is_well = true,
        /* The row may have been written by hand. */
        .arrived = arrived > b->health.at_claim ? arrived : b->health.at_claim,
        .arrived_before = b->health.at_claim,
    };
    return df_tries_fail(&policy, &t->tries, &failure) == DF_TRIES_AGAIN ? TICKET_EV_REFUSED
                                                                         : TICKET_EV_SPENT;
}
