/* Shared by the files of the room: what a provider is, who is registered, Redis servers. */
#ifndef DF_LOCKS_LOCKS_PRIVATE_H
#define DF_LOCKS_LOCKS_PRIVATE_H

#include "base/uuid.h"
#include "locks/locks.h"
#include "locks/redis_url.h"

#include <stdatomic.h>

/* The owner's instance, '/', and 16 random digits. */
#define LOCK_VALUE_LEN (DF_UUID_LEN + 1 + 16)

enum lock_answer {
    LOCK_YES,
    LOCK_NO,   /* somebody else has it; of an extension: it is lost */
    LOCK_AWAY, /* not known */
};

/* A name, and the value that tells who has it. */
struct lock_want {
    char name[DF_LOCK_NAME_MAX + 1];
    char value[LOCK_VALUE_LEN + 1];
};

/* A provider. Each call may block, for a bounded time, and is made without a lock. */
struct lock_provider {
    const struct lock_provider_ops *ops;
};

struct lock_provider_ops {
    /* LOCK_NO: *holder is the value of one who has it, or empty. LOCK_AWAY: err tells why. What a
     * call that did not succeed may have left is undone. */
    enum lock_answer (*acquire)(struct lock_provider *p, const struct lock_want *want,
                                char holder[LOCK_VALUE_LEN + 1], struct df_err *err);
    enum lock_answer (*extend)(struct lock_provider *p, const struct lock_want *want,
                               struct df_err *err);
    /* If the value begins with want's, which may be empty. */
    void (*drop)(struct lock_provider *p, const struct lock_want *want);
    bool (*well)(struct lock_provider *p, struct df_err *err);
    void (*free)(struct lock_provider *p);
};

struct lock_provider *sql_locks_new(const struct df_locks_options *opt);
/* The number of locks that are left behind. */
enum df_code sql_locks_sweep(const struct df_locks_options *opt, struct df_err *err) DF_MUST_CHECK;

/* --- registry.c: who uses which provider --- */

struct lock_registry {
    struct df_uuid installation;
    bool redis_is_new;          /* this installation has not used Redis before */
    _Atomic int64_t longest_ms; /* lease of all processes */
};

/* DF_E_CONFIG: others use another provider. */
enum df_code lock_register(const struct df_locks_options *opt, struct lock_registry *ret,
                           struct df_err *err) DF_MUST_CHECK;
/* *ret_barred: the process was away for so long that others use another provider now. */
enum df_code lock_register_renew(const struct df_locks_options *opt, struct lock_registry *r,
                                 bool *ret_barred, struct df_err *err) DF_MUST_CHECK;
enum df_code lock_register_redis(const struct df_locks_options *opt,
                                 struct df_err *err) DF_MUST_CHECK;
void lock_register_end(const struct df_locks_options *opt);

/* --- redlock.c --- */

enum lock_op { LOCK_OP_HELLO, LOCK_OP_ACQUIRE, LOCK_OP_EXTEND, LOCK_OP_DROP };

/* One question to all servers. Freed when all have answered and the asker has left. */
struct lock_call {
    enum lock_op op;
    struct lock_want want;
    int64_t until_ms; /* boot: an answer that comes later is not wanted; nor is a question */
    _Atomic int refs;
    struct df_mutex lock;
    pthread_cond_t changed;
    struct {
        bool answered;
        enum lock_answer answer;
        bool missing; /* of an extension: nobody has it there */
        char holder[LOCK_VALUE_LEN + 1];
    } server[LOCK_SERVERS_MAX] DF_GUARDED_BY(lock);
};

struct lock_reply {
    enum lock_answer answer;
    bool missing;
    const char *holder; /* or NULL */
};

/* A server, as RedLock sees it. */
struct lock_server {
    const struct lock_server_ops *ops;
};

struct lock_server_ops {
    /* Answers by lock_call_answer, once, perhaps later and on another thread. Questions to one
     * server are answered in their order. */
    void (*ask)(struct lock_server *s, struct lock_call *call, size_t nth);
    /* Whether it takes part: it is reached, and not in quarantine. */
    bool (*serves)(struct lock_server *s);
    void (*free)(struct lock_server *s);
};

void lock_call_answer(struct lock_call *call, size_t nth, const struct lock_reply *reply);

struct redlock_options {
    const struct df_clock *clock;
    int64_t lease_ms;
    int64_t timeout_ms;
};

/* Takes the servers. */
struct lock_provider *redlock_new(const struct redlock_options *opt,
                                  struct lock_server *const *take_servers, size_t count);

/* --- redis_server.c --- */

struct redis_options {
    const struct df_locks_options *locks;
    struct lock_registry *registry;
    size_t nth;
};

struct lock_server *redis_server_new(const struct redis_options *opt);
/* Waits until it was tried. DF_E_CONFIG: it is reached, but cannot be used as it is. */
enum df_code redis_server_first(struct lock_server *s, struct df_err *err) DF_MUST_CHECK;
/* From now on a server that has no marker has lost its memory. */
void redis_server_settled(struct lock_server *s);

/* --- locks.c --- */

void lock_show_servers(size_t reached, size_t quarantined);

#endif
