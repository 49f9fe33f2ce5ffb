/*
 * The line before the hash threads: two queues, of tasks for those who are known (a secret that was
 * right lately, the administrator) and of strangers'. Each hash takes tens of milliseconds, so this
 * is where a flood of logins would starve everybody:
 *
 * - strangers have at most three quarters of the places, which leaves the rest to the known;
 * - one sender of theirs (a network) has at most DF_HASH_LINE_SENDER;
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
    const unsigned char *key; /* of DF_HASH_TASK_KEY bytes: the same question; NULL: its own */
    struct df_list beside;    /* when it runs: others of the same key. They are its to answer */
    struct df_link link;

    /* Private to the line. */
    uint64_t sender;
};

struct df_hash_line {
    struct df_mutex lock;
    pthread_cond_t ready;
    struct df_list known DF_GUARDED_BY(lock);
    struct df_list strangers DF_GUARDED_BY(lock);
    unsigned turn DF_GUARDED_BY(lock); /* of the known, since a stranger's */
    bool closed DF_GUARDED_BY(lock);
};

void df_hash_line_init(struct df_hash_line *l);
void df_hash_line_release(struct df_hash_line *l);

/* sender: a stranger's network as a number; 0: known. False: no place, or closed; answer 503. */
bool df_hash_line_push(struct df_hash_line *l, struct df_hash_task *t, uint64_t sender);

/* Waits. NULL: the line is closed and empty. */
struct df_hash_task *df_hash_line_pop(struct df_hash_line *l);

/* No more tasks are taken; those in the line can still be popped. */
void df_hash_line_close(struct df_hash_line *l);

#endif
