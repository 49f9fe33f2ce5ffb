/*
 * RedLock: a lock is held by whoever has it on most of the servers, which know nothing of each
 * other. All are asked side by side. README.md tells why each rule is there:
 *
 *   acquire   most said yes within timeout_ms, or what was left is dropped everywhere, also where
 *             no answer came: the question may have arrived
 *   extend    most still had it. Servers that have forgotten it (a restart, a quarantine that is
 *             over) get it again, but do not count this time: so the quorum does not erode
 *   drop      everywhere, in the order of the other questions to that server; nobody waits for it
 */
#include "base/log.h"
#include "base/mem.h"
#include "locks/locks_private.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

struct redlock {
    struct lock_provider base;
    struct redlock_options opt;
    struct lock_server *servers[LOCK_SERVERS_MAX];
    size_t count;
};

static size_t quorum_of(const struct redlock *r)
{
    return r->count / 2 + 1;
}

/* --- one question --- */

static struct lock_call *call_new(const struct redlock *r, enum lock_op op,
                                  const struct lock_want *want)
{
    struct lock_call *c = df_calloc(1, sizeof *c);

    c->op = op;
    c->want = *want;
    c->until_ms =
        df_boot_ms(r->opt.clock) + (op == LOCK_OP_DROP ? r->opt.lease_ms : r->opt.timeout_ms);
    c->refs = 1;
    df_mutex_init(&c->lock);
    df_cond_init(&c->changed);
    return c;
}

static void call_unref(struct lock_call *c)
{
    if (atomic_fetch_sub(&c->refs, 1) > 1)
        return;
    pthread_cond_destroy(&c->changed);
    df_mutex_destroy(&c->lock);
    free(c);
}

static void ask_server(const struct redlock *r, size_t nth, struct lock_call *c)
{
    atomic_fetch_add(&c->refs, 1);
    r->servers[nth]->ops->ask(r->servers[nth], c, nth);
}

static struct lock_call *ask_all(const struct redlock *r, enum lock_op op,
                                 const struct lock_want *want)
{
    struct lock_call *c = call_new(r, op, want);

    for (size_t i = 0; i < r->count; i++)
        ask_server(r, i, c);
    return c;
}

void lock_call_answer(struct lock_call *c, size_t nth, const struct lock_reply *reply)
{
    df_lock(&c->lock);
    assert(nth < LOCK_SERVERS_MAX && !c->server[nth].answered);
    c->server[nth].answered = true;
    c->server[nth].answer = reply->answer;
    c->server[nth].missing = reply->missing;
    if (reply->holder)
        (void)snprintf(c->server[nth].holder, LOCK_VALUE_LEN + 1, "%s", reply->holder);
    pthread_cond_broadcast(&c->changed);
    df_unlock(&c->lock);
    call_unref(c);
}

struct tally {
    size_t yes;
    size_t no;
    size_t away; /* said so, or did not answer yet */
    size_t silent;
    unsigned missing; /* a bit for each server that has forgotten the lock */
    char holder[LOCK_VALUE_LEN + 1];
};

static struct tally count_answers(const struct redlock *r, struct lock_call *c) DF_REQUIRES(c->lock)
{
    struct tally t = {.yes = 0};

    for (size_t i = 0; i < r->count; i++) {
        enum lock_answer answer = c->server[i].answered ? c->server[i].answer : LOCK_AWAY;
        t.yes += answer == LOCK_YES;
        t.no += answer == LOCK_NO;
        t.away += answer == LOCK_AWAY;
        t.silent += !c->server[i].answered;
        t.missing |= c->server[i].missing ? 1u << i : 0;
        if (answer == LOCK_NO && c->server[i].holder[0])
            (void)snprintf(t.holder, sizeof t.holder, "%s", c->server[i].holder);
    }
    return t;
}

/* Waits until it is decided, or the time is over. For an extension all are waited for, since those
 * that have forgotten the lock must be known; a server that is known to be away answers at once. */
static struct tally await(const struct redlock *r, struct lock_call *c)
{
    struct tally t;

    df_lock(&c->lock);
    for (;;) {
        int64_t left_ms = c->until_ms - df_boot_ms(r->opt.clock);
        t = count_answers(r, c);
        bool decided = t.yes >= quorum_of(r) || t.yes + t.silent < quorum_of(r);
        if (t.silent == 0 || left_ms <= 0 || (decided && c->op != LOCK_OP_EXTEND))
            break;
        (void)df_clock_wait_ms(r->opt.clock, &c->changed, &c->lock, left_ms);
    }
    df_unlock(&c->lock);
    return t;
}

static enum lock_answer away(const struct tally *t, struct df_err *err)
{
    (void)df_err_set(err, DF_E_NET_CONNECT,
                     "%zu of %zu Redis servers are away or in quarantine: imports wait", t->away,
                     t->yes + t->no + t->away);
    return LOCK_AWAY;
}

/* --- the provider --- */

static void redlock_drop(struct lock_provider *p, const struct lock_want *want)
{
    call_unref(ask_all((struct redlock *)p, LOCK_OP_DROP, want));
}

static enum lock_answer redlock_acquire(struct lock_provider *p, const struct lock_want *want,
                                        char holder[LOCK_VALUE_LEN + 1], struct df_err *err)
{
    const struct redlock *r = (struct redlock *)p;
    struct lock_call *c = ask_all(r, LOCK_OP_ACQUIRE, want);
    struct tally t = await(r, c);

    call_unref(c);
    if (t.yes >= quorum_of(r))
        return LOCK_YES;
    redlock_drop(p, want);
    (void)snprintf(holder, LOCK_VALUE_LEN + 1, "%s", t.holder);
    return t.no > 0 ? LOCK_NO : away(&t, err);
}

/* Gives the lock to servers that have forgotten it. */
static void restore(const struct redlock *r, const struct lock_want *want, unsigned servers)
{
    struct lock_call *c = call_new(r, LOCK_OP_ACQUIRE, want);

    for (size_t i = 0; i < r->count; i++)
        if (servers >> i & 1)
            ask_server(r, i, c);
    call_unref(c);
}

static enum lock_answer redlock_extend(struct lock_provider *p, const struct lock_want *want,
                                       struct df_err *err)
{
    const struct redlock *r = (struct redlock *)p;
    struct lock_call *c = ask_all(r, LOCK_OP_EXTEND, want);
    struct tally t = await(r, c);

    call_unref(c);
    if (t.yes >= quorum_of(r)) {
        if (t.missing)
            restore(r, want, t.missing);
        return LOCK_YES;
    }
    /* Those that are away may still have it. */
    return t.yes + t.away < quorum_of(r) ? LOCK_NO : away(&t, err);
}

static bool redlock_well(struct lock_provider *p, struct df_err *err)
{
    const struct redlock *r = (struct redlock *)p;
    size_t serving = 0;

    for (size_t i = 0; i < r->count; i++)
        serving += r->servers[i]->ops->serves(r->servers[i]);
    if (serving >= quorum_of(r))
        return true;
    (void)df_err_set(err, DF_E_NET_CONNECT,
                     "%zu of %zu Redis servers can be used, and locks need %zu: imports wait",
                     serving, r->count, quorum_of(r));
    return false;
}

static void redlock_free(struct lock_provider *p)
{
    struct redlock *r = (struct redlock *)p;

    for (size_t i = 0; i < r->count; i++)
        r->servers[i]->ops->free(r->servers[i]);
    free(r);
}

static const struct lock_provider_ops redlock_ops = {.acquire = redlock_acquire,
                                                     .extend = redlock_extend,
                                                     .drop = redlock_drop,
                                                     .well = redlock_well,
                                                     .free = redlock_free};

struct lock_provider *redlock_new(const struct redlock_options *opt,
                                  struct lock_server *const *take_servers, size_t count)
{
    struct redlock *r = df_calloc(1, sizeof *r);

    assert(count >= 1 && count <= LOCK_SERVERS_MAX);
    r->base.ops = &redlock_ops;
    r->opt = *opt;
    for (r->count = 0; r->count < count; r->count++)
        r->servers[r->count] = take_servers[r->count];
    return &r->base;
}
