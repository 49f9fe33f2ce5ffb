/*
 * Locks by name, over all processes of an installation, by one of two providers: rows of the
 * database (sql_locks.c), or RedLock over Redis servers (redlock.c). README.md has the argument.
 *
 * A lock is a lease. A thread of this room extends every lock that is held, every third of the
 * lease. Its owner asks before each step that others must not do too (df_lease_left_ms), and stops
 * when the lease can no longer be extended. The lock saves work and is not proof: what is written
 * must carry a fencing token of the database.
 *
 * Threads: any, except open, stop and free. Acquire and release wait for the provider.
 */
#ifndef DF_LOCKS_LOCKS_H
#define DF_LOCKS_LOCKS_H

#include "base/clock.h"
#include "locks/settings.h"
#include "store/store.h"

#define DF_LOCK_NAME_MAX 128

struct df_instance;
struct df_locks;
struct lock_provider;

struct df_locks_options {
    struct df_locks_settings settings;
    struct df_store *store;
    const struct df_clock *clock;
    const struct df_instance *instance; /* this process */
    /* This process takes locks: its provider must be that of the others that do. Otherwise it only
     * breaks them. */
    bool acquires;
    int64_t idle_ms; /* a lock whose owner has not asked for so long is not extended any more */
    /* Taken; NULL: by the settings. Nothing is registered for another, which tests have. */
    struct lock_provider *take_provider;
};

/* A lock that is held. Zeroed: none. */
struct df_lease {
    struct lock_held *held;
};

/* DF_E_CONFIG: other processes use another provider, or a Redis server cannot be used as it is. */
enum df_code df_locks_open(const struct df_locks_options *opt, struct df_locks **ret,
                           struct df_err *err) DF_MUST_CHECK;
/* Joins the threads; after the last release, and before the store is stopped. NULL is fine. */
void df_locks_stop(struct df_locks *l);
void df_locks_free(struct df_locks *l);

/* False: another process has it, or the provider is away. */
bool df_locks_acquire(struct df_locks *l, const char *name, struct df_lease *ret) DF_MUST_CHECK;
/* For how long work may still be started under the lock; 0 or less: not any more. */
int64_t df_lease_left_ms(struct df_locks *l, const struct df_lease *lease);
/* Does nothing for a lease that is zeroed. */
void df_locks_release(struct df_locks *l, struct df_lease *lease);
/* Takes the lock from whoever has it, soon, without waiting for it. */
void df_locks_break(struct df_locks *l, const char *name);

/* Whether locks can be acquired now; if not, err tells why. */
bool df_locks_well(struct df_locks *l, struct df_err *err);
int64_t df_locks_lease_ms(const struct df_locks *l);

/* What a Redis server tells of itself, for `dataflow doctor`. */
struct df_redis_facts {
    char address[280];
    char version[32];
    char policy[32];  /* what it does when its memory is full */
    int64_t clock_ms; /* its wall clock */
    bool evicts;      /* the policy is one that this program refuses */
    bool is_replica;
};
enum df_code df_redis_probe(const struct df_locks_settings *s, size_t nth, int64_t timeout_ms,
                            struct df_redis_facts *ret, struct df_err *err) DF_MUST_CHECK;

#endif
