/*
 * What a relay remembers of events that failed. The application's table has no column for the tries
 * of an event, its first failure or what the rule of resilience/tries.h wants to know besides, so
 * these are kept here, by the event's id. A restart forgets them: counting goes on from the row's
 * attempts, and the times begin anew. So an event may be given up later for it, never earlier.
 *
 * `held` lists the events that failed while their destination was not well, the least recently
 * tried first. They wait for nothing but the destination; probes prefer others.
 */
#include "base/mem.h"
#include "relay/relay_private.h"

#include <assert.h>
#include <stdlib.h>

#define KNOWN_MAX 100000
#define HELD_MAX  1000 /* ids that a claim of probes skips */

static void forget_known(struct df_relay *r, struct relay_known *k) DF_REQUIRES(r->lock)
{
    (void)df_map_remove(&r->memory.by_id, df_str_c(k->id));
    df_list_remove(&r->memory.by_try, &k->tried);
    if (df_link_in_list(&k->held))
        df_list_remove(&r->memory.held, &k->held);
    free(k);
}

void relay_forget(struct df_relay *r, struct df_str id)
{
    struct relay_known *k = df_map_get(&r->memory.by_id, id);

    if (k)
        forget_known(r, k);
}

struct relay_known *relay_recall(struct df_relay *r, struct df_str id)
{
    return df_map_get(&r->memory.by_id, id);
}

static struct relay_known *learn_event(struct df_relay *r, struct df_str id) DF_REQUIRES(r->lock)
{
    struct relay_known *k = df_calloc(1, sizeof *k + id.len + 1);

    if (r->memory.by_id.count >= KNOWN_MAX)
        forget_known(
            r, DF_LIST_ITEM(df_list_first_link(&r->memory.by_try), struct relay_known, tried));
    memcpy(k->id, id.ptr, id.len);
    df_map_add(&r->memory.by_id, df_str_n(k->id, id.len), k);
    return k;
}

struct df_tries *relay_note_try(struct df_relay *r, struct df_str id, int64_t attempts,
                                int64_t most, int64_t now_ms)
{
    struct relay_known *k = relay_recall(r, id);
    bool is_new = !k || attempts < k->attempts; /* fewer: a person sends it again */

    if (!k)
        k = learn_event(r, id);
    else
        df_list_remove(&r->memory.by_try, &k->tried);
    df_list_add(&r->memory.by_try, &k->tried);
    if (is_new)
        k->tries = (struct df_tries){.mark = -1};
    /* Somebody else counted a failure: another relay, or this one before its restart. When that was
     * is not known, so it was now. */
    if (is_new ? attempts > 0 : attempts > k->attempts) {
        k->tries.counted_ms = now_ms;
        k->tries.mark = -1;
    }
    /* A person may have made it PENDING again without setting attempts to 0. */
    k->tries.counted = attempts < most ? attempts : most - 1;
    k->tries.tries++;
    k->attempts = attempts;
    return &k->tries;
}

void relay_hold(struct df_relay *r, struct df_str id)
{
    struct relay_known *k = relay_recall(r, id);

    assert(k);
    if (df_link_in_list(&k->held))
        df_list_remove(&r->memory.held, &k->held);
    df_list_add(&r->memory.held, &k->held);
    if (r->memory.held.count > HELD_MAX)
        relay_unhold(r, 1);
}

void relay_unhold(struct df_relay *r, size_t count)
{
    while (count-- > 0 && r->memory.held.count > 0)
        (void)df_list_take_link(&r->memory.held);
}

void relay_memory_release(struct df_relay *r)
{
    struct relay_known *k;

    df_lock(&r->lock);
    for (size_t at = 0; (k = df_map_next(&r->memory.by_id, &at));)
        free(k);
    df_map_release(&r->memory.by_id);
    r->memory = (struct relay_memory){0};
    df_unlock(&r->lock);
}
