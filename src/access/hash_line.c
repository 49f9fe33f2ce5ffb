#include "access/hash_line.h"

#include <string.h>

static void queue_init(struct df_hash_queue *q)
{
    *q = (struct df_hash_queue){.end = &q->first};
}

static void queue_add(struct df_hash_queue *q, struct df_hash_task *t)
{
    t->next = NULL;
    *q->end = t;
    q->end = &t->next;
    q->count++;
}

static struct df_hash_task *queue_take(struct df_hash_queue *q)
{
    struct df_hash_task *t = q->first;

    q->first = t->next;
    if (!q->first)
        q->end = &q->first;
    q->count--;
    return t;
}

void df_hash_line_init(struct df_hash_line *l)
{
    df_mutex_init(&l->lock);
    pthread_cond_init(&l->ready, NULL);
    queue_init(&l->known);
    queue_init(&l->strangers);
    l->turn = 0;
    l->closed = false;
}

void df_hash_line_release(struct df_hash_line *l)
{
    pthread_cond_destroy(&l->ready);
    df_mutex_destroy(&l->lock);
}

static bool has_place_locked(const struct df_hash_line *l, uint64_t sender)
{
    size_t of_sender = 0;

    if (l->closed || l->known.count + l->strangers.count >= DF_HASH_LINE_PLACES)
        return false;
    if (!sender)
        return true;
    for (const struct df_hash_task *t = l->strangers.first; t; t = t->next)
        of_sender += t->sender == sender;
    return l->strangers.count < DF_HASH_LINE_STRANGERS && of_sender < DF_HASH_LINE_SENDER;
}

/* One in the queue that asks the same; NULL: there is none. */
static struct df_hash_task *find_same_locked(const struct df_hash_queue *q,
                                             const struct df_hash_task *t)
{
    for (struct df_hash_task *other = q->first; other; other = other->next)
        if (other->key && memcmp(other->key, t->key, DF_HASH_TASK_KEY) == 0)
            return other;
    return NULL;
}

static bool wait_beside_locked(struct df_hash_line *l, struct df_hash_task *t, uint64_t sender)
{
    struct df_hash_task *other =
        t->key && !l->closed ? find_same_locked(sender ? &l->strangers : &l->known, t) : NULL;

    if (!other)
        return false;
    t->next = other->beside;
    other->beside = t;
    return true;
}

bool df_hash_line_push(struct df_hash_line *l, struct df_hash_task *t, uint64_t sender)
{
    df_lock(&l->lock);
    t->beside = NULL;
    if (wait_beside_locked(l, t, sender)) {
        df_unlock(&l->lock);
        return true;
    }
    bool taken = has_place_locked(l, sender);
    if (taken) {
        t->sender = sender;
        queue_add(sender ? &l->strangers : &l->known, t);
        pthread_cond_signal(&l->ready);
    }
    df_unlock(&l->lock);
    return taken;
}

struct df_hash_task *df_hash_line_pop(struct df_hash_line *l)
{
    struct df_hash_task *t = NULL;

    df_lock(&l->lock);
    while (l->known.count + l->strangers.count == 0 && !l->closed)
        df_cond_wait(&l->ready, &l->lock);
    bool strangers_turn = l->turn >= DF_HASH_LINE_TURNS - 1;
    if (l->strangers.count > 0 && (strangers_turn || l->known.count == 0)) {
        t = queue_take(&l->strangers);
        l->turn = 0;
    } else if (l->known.count > 0) {
        t = queue_take(&l->known);
        l->turn += l->turn < DF_HASH_LINE_TURNS;
    }
    df_unlock(&l->lock);
    return t;
}

void df_hash_line_close(struct df_hash_line *l)
{
    df_lock(&l->lock);
    l->closed = true;
    pthread_cond_broadcast(&l->ready);
    df_unlock(&l->lock);
}
