#include "net/lines.h"

#include "base/mem.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define BUCKETS 1024 /* a power of two */

/* Idle destinations are kept, because a peer called once is called again; not more than this. */
#define IDLE_MAX 2048

struct df_destination {
    struct df_destination *chain;
    uint64_t hash;
    struct df_call *first;
    struct df_call *last;
    size_t active;
    bool ready;
    struct df_destination *next_ready;
    char name[]; /* scheme://host:port, lower case */
};

void df_lines_init(struct df_lines *l, size_t max_active)
{
    *l = (struct df_lines){.max_active = max_active, .sweep_at = IDLE_MAX};
    l->buckets = df_calloc(BUCKETS, sizeof(struct df_destination *));
}

void df_lines_release(struct df_lines *l)
{
    for (size_t i = 0; l->buckets && i < BUCKETS; i++) {
        struct df_destination *d = l->buckets[i];
        while (d) {
            struct df_destination *chain = d->chain;
            free(d);
            d = chain;
        }
    }
    free(l->buckets);
    free(l->heap);
    *l = (struct df_lines){0};
}

/* --- destinations --- */

static void drop_idle(struct df_lines *l)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        struct df_destination **at = &l->buckets[i];
        while (*at) {
            struct df_destination *d = *at;
            if (d->active > 0 || d->first || d->ready) {
                at = &d->chain;
                continue;
            }
            *at = d->chain;
            free(d);
            l->destination_count--;
        }
    }
    /* With many busy destinations the next sweep waits until there are twice as many. */
    l->sweep_at = l->destination_count < IDLE_MAX / 2 ? IDLE_MAX : l->destination_count * 2;
}

static struct df_destination *find_destination(struct df_lines *l, const struct df_url *url)
{
    char name[320];
    int len = snprintf(name, sizeof(name),
                       url->ipv6 ? "%s://[" DF_STR_FMT "]:%u" : "%s://" DF_STR_FMT ":%u",
                       url->tls ? "https" : "http", DF_STR_ARG(url->host), url->port);
    if (len < 0 || (size_t)len >= sizeof(name))
        abort(); /* df_url_parse bounds the host */

    for (char *p = name; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    uint64_t hash = df_str_hash(df_str_n(name, (size_t)len));
    size_t bucket = (hash ^ hash >> 32) & (BUCKETS - 1);
    for (struct df_destination *d = l->buckets[bucket]; d; d = d->chain)
        if (d->hash == hash && strcmp(d->name, name) == 0)
            return d;

    if (l->destination_count >= l->sweep_at)
        drop_idle(l);
    struct df_destination *d = df_calloc(1, sizeof(*d) + (size_t)len + 1);
    d->hash = hash;
    memcpy(d->name, name, (size_t)len + 1);
    d->chain = l->buckets[bucket];
    l->buckets[bucket] = d;
    l->destination_count++;
    return d;
}

/* A destination may still stand among the ready after its line emptied; df_lines_next skips it. */
static void make_ready(struct df_lines *l, struct df_destination *d)
{
    if (d->ready || !d->first || d->active >= l->max_active)
        return;
    d->ready = true;
    d->next_ready = NULL;
    if (l->ready_last)
        l->ready_last->next_ready = d;
    else
        l->ready_first = d;
    l->ready_last = d;
}

/* --- the heap of deadlines --- */

static void heap_put(struct df_lines *l, size_t i, struct df_call *call)
{
    l->heap[i] = call;
    call->heap_index = i;
}

static void heap_up(struct df_lines *l, size_t i, struct df_call *call)
{
    while (i > 0 && l->heap[(i - 1) / 2]->deadline_ns > call->deadline_ns) {
        heap_put(l, i, l->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    heap_put(l, i, call);
}

static void heap_down(struct df_lines *l, size_t i, struct df_call *call)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= l->heap_count)
            break;
        if (child + 1 < l->heap_count &&
            l->heap[child + 1]->deadline_ns < l->heap[child]->deadline_ns)
            child++;
        if (l->heap[child]->deadline_ns >= call->deadline_ns)
            break;
        heap_put(l, i, l->heap[child]);
        i = child;
    }
    heap_put(l, i, call);
}

static void heap_add(struct df_lines *l, struct df_call *call)
{
    if (l->heap_count == l->heap_cap) {
        l->heap_cap = l->heap_cap ? l->heap_cap * 2 : 64;
        l->heap = df_realloc(l->heap, l->heap_cap * sizeof(struct df_call *));
    }
    heap_up(l, l->heap_count++, call);
}

static void heap_remove(struct df_lines *l, struct df_call *call)
{
    size_t i = call->heap_index;
    struct df_call *last = l->heap[--l->heap_count];

    if (last == call)
        return;
    if (i > 0 && l->heap[(i - 1) / 2]->deadline_ns > last->deadline_ns)
        heap_up(l, i, last);
    else
        heap_down(l, i, last);
}

/* --- the lines --- */

static void unlink_call(struct df_lines *l, struct df_destination *d, struct df_call *call)
{
    if (call->prev)
        call->prev->next = call->next;
    else
        d->first = call->next;
    if (call->next)
        call->next->prev = call->prev;
    else
        d->last = call->prev;
    call->next = call->prev = NULL;
    heap_remove(l, call);
}

void df_lines_add(struct df_lines *l, struct df_call *call, const struct df_url *url)
{
    struct df_destination *d = find_destination(l, url);

    call->internal = d;
    call->next = NULL;
    call->prev = d->last;
    if (d->last)
        d->last->next = call;
    else
        d->first = call;
    d->last = call;
    heap_add(l, call);
    make_ready(l, d);
}

struct df_call *df_lines_next(struct df_lines *l)
{
    while (l->ready_first) {
        struct df_destination *d = l->ready_first;
        l->ready_first = d->next_ready;
        if (!l->ready_first)
            l->ready_last = NULL;
        d->ready = false;
        if (!d->first)
            continue;
        struct df_call *call = d->first;
        unlink_call(l, d, call);
        d->active++;
        make_ready(l, d);
        return call;
    }
    return NULL;
}

void df_lines_leave(struct df_lines *l, struct df_call *call)
{
    struct df_destination *d = call->internal;

    d->active--;
    make_ready(l, d);
}

struct df_call *df_lines_expired(struct df_lines *l, int64_t now_ns)
{
    if (l->heap_count == 0 || l->heap[0]->deadline_ns > now_ns)
        return NULL;
    struct df_call *call = l->heap[0];
    unlink_call(l, call->internal, call);
    return call;
}

int64_t df_lines_deadline_ns(const struct df_lines *l)
{
    return l->heap_count > 0 ? l->heap[0]->deadline_ns : INT64_MAX;
}

const char *df_lines_destination(const struct df_call *call)
{
    const struct df_destination *d = call->internal;
    return d->name;
}
