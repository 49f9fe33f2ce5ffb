#include "resilience/tries.h"

#include <assert.h>

/* A time that a clock set back has put into the future says nothing. */
static bool is_past(int64_t then_ms, int64_t ago_ms, int64_t now_ms)
{
    return then_ms == 0 || then_ms > now_ms || now_ms - then_ms >= ago_ms;
}

static bool failure_counts(const struct df_tries_policy *p, const struct df_tries *t,
                           const struct df_tries_failure *f)
{
    return !f->never_counts && f->is_well && f->arrived - t->mark >= DF_TRIES_OTHERS &&
           is_past(t->counted_ms, p->cap_ms, f->now_ms);
}

enum df_tries_verdict df_tries_fail(const struct df_tries_policy *p, struct df_tries *t,
                                    const struct df_tries_failure *f)
{
    enum df_tries_verdict verdict = DF_TRIES_AGAIN;

    assert(p->max_counted > 0 && t->tries > 0 && f->arrived >= f->arrived_before);
    /* A higher mark is another target's: the document goes elsewhere now. */
    if (t->mark < 0 || t->mark > f->arrived)
        t->mark = f->arrived_before;
    if (t->first_failed_ms == 0 || t->first_failed_ms > f->now_ms)
        t->first_failed_ms = f->now_ms;
    bool counts = failure_counts(p, t, f);
    if (counts) {
        t->counted++;
        t->counted_ms = f->now_ms;
        t->mark = f->arrived;
    }
    if (f->refused)
        verdict = DF_TRIES_REFUSED;
    else if (counts && t->counted >= p->max_counted)
        verdict = DF_TRIES_COUNT;
    else if (t->tries >= DF_TRIES_MIN && f->now_ms - t->first_failed_ms >= p->give_up_ms)
        verdict = DF_TRIES_TIME;
    if (verdict != DF_TRIES_AGAIN && t->counted < p->max_counted)
        t->counted = p->max_counted;
    return verdict;
}
