/*
 * Redis servers for tests of RedLock: what a server's script does, in memory and by the fake clock.
 * A question takes `latency_ms` of the clock; a server may be away, or silent: it does what it is
 * asked and its answer is lost.
 */
#ifndef DF_TEST_FAKE_REDIS_H
#define DF_TEST_FAKE_REDIS_H

#include "base/mem.h"
#include "fake_clock.h"
#include "locks/locks_private.h"

#include <stdio.h>
#include <stdlib.h>

#define FAKE_KEYS 8

struct fake_redis {
    struct lock_server base;
    struct df_fake_clock *clock;
    int64_t lease_ms;
    int64_t timeout_ms; /* what a lost answer costs */
    int64_t latency_ms;
    _Atomic bool away;
    bool silent;
    bool knows_marker;
    int64_t quarantine_until_ms;
    _Atomic int asked[LOCK_OP_DROP + 1];
    struct {
        struct lock_want want;
        int64_t until_ms;
    } keys[FAKE_KEYS];
    /* A call that is answered when the test says so. */
    bool keeps;
    struct lock_call *kept;
    size_t kept_nth;
};

static inline int64_t fake_now(const struct fake_redis *f)
{
    return df_boot_ms(&f->clock->base);
}

static inline const char *fake_holder(struct fake_redis *f, const char *name)
{
    for (size_t i = 0; i < FAKE_KEYS; i++)
        if (f->keys[i].until_ms > fake_now(f) && strcmp(f->keys[i].want.name, name) == 0)
            return f->keys[i].want.value;
    return NULL;
}

static inline void fake_set(struct fake_redis *f, const struct lock_want *want, int64_t until_ms)
{
    size_t at = FAKE_KEYS;

    for (size_t i = 0; i < FAKE_KEYS; i++)
        if (strcmp(f->keys[i].want.name, want->name) == 0)
            at = i;
    for (size_t i = 0; i < FAKE_KEYS && at == FAKE_KEYS; i++)
        if (f->keys[i].until_ms <= fake_now(f))
            at = i;
    if (at == FAKE_KEYS)
        abort();
    f->keys[at].want = *want;
    f->keys[at].until_ms = until_ms;
}

/* A restart without memory. */
static inline void fake_forget(struct fake_redis *f)
{
    memset(f->keys, 0, sizeof f->keys);
    f->knows_marker = false;
    f->quarantine_until_ms = 0;
}

static inline struct lock_reply fake_script(struct fake_redis *f, const struct lock_call *c)
{
    const char *holder = fake_holder(f, c->want.name);
    const struct lock_reply no = {.answer = LOCK_NO, .missing = !holder, .holder = holder};

    if (c->op == LOCK_OP_ACQUIRE && !f->knows_marker) {
        f->knows_marker = true;
        f->quarantine_until_ms = fake_now(f) + f->lease_ms;
    }
    if (c->op == LOCK_OP_ACQUIRE && fake_now(f) < f->quarantine_until_ms)
        return (struct lock_reply){.answer = LOCK_AWAY};
    if (c->op == LOCK_OP_ACQUIRE && holder && strcmp(holder, c->want.value) != 0)
        return no;
    if (c->op == LOCK_OP_EXTEND && (!holder || strcmp(holder, c->want.value) != 0))
        return no;
    if (c->op == LOCK_OP_ACQUIRE || c->op == LOCK_OP_EXTEND)
        fake_set(f, &c->want, fake_now(f) + f->lease_ms);
    else if (holder && strncmp(holder, c->want.value, strlen(c->want.value)) == 0)
        fake_set(f, &c->want, 0);
    return (struct lock_reply){.answer = LOCK_YES};
}

static inline void fake_ask(struct lock_server *s, struct lock_call *c, size_t nth)
{
    struct fake_redis *f = (struct fake_redis *)s;
    struct lock_reply reply = {.answer = LOCK_AWAY};

    f->asked[c->op]++;
    if (f->keeps && c->op != LOCK_OP_DROP) {
        f->kept = c;
        f->kept_nth = nth;
        df_fake_clock_advance_ms(f->clock, f->timeout_ms);
        return;
    }
    df_fake_clock_advance_ms(f->clock, f->latency_ms);
    if (!f->away)
        reply = fake_script(f, c);
    if (f->silent) {
        df_fake_clock_advance_ms(f->clock, c->op == LOCK_OP_DROP ? 0 : f->timeout_ms);
        reply = (struct lock_reply){.answer = LOCK_AWAY};
    }
    lock_call_answer(c, nth, &reply);
}

/* The question arrives now. */
static inline void fake_deliver(struct fake_redis *f)
{
    struct lock_reply reply = fake_script(f, f->kept);

    lock_call_answer(f->kept, f->kept_nth, &reply);
    f->kept = NULL;
}

static inline bool fake_serves(struct lock_server *s)
{
    const struct fake_redis *f = (const struct fake_redis *)s;
    return !f->away && fake_now(f) >= f->quarantine_until_ms;
}

static inline void fake_free(struct lock_server *s)
{
    free(s);
}

static inline struct fake_redis *fake_redis_new(struct df_fake_clock *clock, int64_t lease_ms,
                                                int64_t timeout_ms)
{
    static const struct lock_server_ops ops = {
        .ask = fake_ask, .serves = fake_serves, .free = fake_free};
    struct fake_redis *f = df_calloc(1, sizeof *f);

    f->base.ops = &ops;
    f->clock = clock;
    f->lease_ms = lease_ms;
    f->timeout_ms = timeout_ms;
    f->knows_marker = true;
    return f;
}

#endif
