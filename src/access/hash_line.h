/*
 * The line before the hash threads has two queues: tasks of known callers (a secret that was right
 * lately, the administrator) and of strangers. Each hash takes tens of milliseconds, so a flood of
 * logins would starve everybody here. Hence:
 *
 * - strangers have at most three quarters of the places; the rest is for the known;
 * - one network of strangers has at most DF_HASH_LINE_SENDER places;
 * - the known go first, but one turn of four is a stranger's, so that new clients get in;
 * - a task with the same key as one in the line takes no place of its own. It waits beside that one
 *   and gets its answer, so that hundreds of calls of one client after a restart are one login.
 *
 * Thread-safe. Tasks are the callers'; the line only links them.
 */
#ifndef DF_ACCESS_HASH_LINE_H
#define DF_ACCESS_HASH_LINE_H

#include "base/list.h"
#include "base/lock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DF_HASH_LINE_PLACES    256
#define DF_HASH_LINE_STRANGERS 192
#define DF_HASH_LINE_SENDER    32
#define DF_HASH_LINE_TURNS     4
#define DF_HASH_TASK_KEY       16

/* Work for a hash thread. Zeroed at first. */
struct df_hash_task {
    void (*run)(struct df_hash_task *t);
    /* DF_HASH_TASK_KEY bytes, equal for the same id and secret; NULL: unique. */
    const unsigned char *key;
    struct df_list beside; /* when it runs: other tasks with the same key, which it answers too */
    struct df_link link;

    /* Private to the line. */
    uint64_t sender;
};

struct df_hash_line {
    struct df_mutex lock;
    pthread_cond_t ready;
    struct df_list known DF_GUARDED_BY(lock);
    struct df_list strangers DF_GUARDED_BY(lock);
    unsigned turn DF_GUARDED_BY(lock); /* tasks of the known since the last stranger's */
    bool closed DF_GUARDED_BY(lock);
};

void df_hash_line_init(struct df_hash_line *l);
void df_hash_line_release(struct df_hash_line *l);

/* sender: a stranger's network as a number; 0: known. False: no place, or closed; answer 503. */
bool df_hash_line_push(struct df_hash_line *l, struct df_hash_task *t, uint64_t sender);

/* Waits for a task. NULL: the line is closed and empty. */
struct df_hash_task *df_hash_line_pop(struct df_hash_line *l);

/* No more tasks are taken; those in the line can still be popped. */
void df_hash_line_close(struct df_hash_line *l);

#endif
