#include "access/hash_line.h"

#include <assert.h>
#include <string.h>

void df_hash_line_init(struct df_hash_line *l)
{
    df_mutex_init(&l->lock);
    pthread_cond_init(&l->ready, NULL);
    l->known = l->strangers = (struct df_list){.count = 0};
    l->turn = 0;
    l->closed = false;
}

void df_hash_line_release(struct df_hash_line *l)
{
    pthread_cond_destroy(&l->ready);
    df_mutex_destroy(&l->lock);
}

static bool has_place_locked(const struct df_hash_line *l, uint64_t sender) DF_REQUIRES(l->lock)
{
    const struct df_hash_task *t;
    size_t of_sender = 0;

    if (l->closed || l->known.count + l->strangers.count >= DF_HASH_LINE_PLACES)
        return false;
    if (!sender)
        return true;
    DF_LIST_EACH (t, &l->strangers, link)
        of_sender += t->sender == sender;
    return l->strangers.count < DF_HASH_LINE_STRANGERS && of_sender < DF_HASH_LINE_SENDER;
}

/* A task in the queue with the same key; NULL: there is none. */
static struct df_hash_task *find_same(const struct df_list *queue, const struct df_hash_task *t)
{
    struct df_hash_task *other;

    DF_LIST_EACH (other, queue, link)
        if (other->key && memcmp(other->key, t->key, DF_HASH_TASK_KEY) == 0)
            break;
    return other;
}

static bool wait_beside_locked(struct df_hash_line *l, struct df_hash_task *t, uint64_t sender)
    DF_REQUIRES(l->lock)
{
    struct df_hash_task *other =
        t->key && !l->closed ? find_same(sender ? &l->strangers : &l->known, t) : NULL;

    if (!other)
        return false;
    df_list_add_first(&other->beside, &t->link);
    return true;
}

bool df_hash_line_push(struct df_hash_line *l, struct df_hash_task *t, uint64_t sender)
{
    df_lock(&l->lock);
    assert(t->beside.count == 0);
    if (wait_beside_locked(l, t, sender)) {
        df_unlock(&l->lock);
        return true;
    }
    bool taken = has_place_locked(l, sender);
    if (taken) {
        t->sender = sender;
        df_list_add(sender ? &l->strangers : &l->known, &t->link);
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
        t = DF_LIST_TAKE(&l->strangers, struct df_hash_task, link);
        l->turn = 0;
    } else if (l->known.count > 0) {
        t = DF_LIST_TAKE(&l->known, struct df_hash_task, link);
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
