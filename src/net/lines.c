#include "net/lines.h"

#include "base/mem.h"

#include <stdlib.h>

#define BUCKETS 1024 /* a power of two */

/* Idle lanes are kept, because a peer called once is called again; not more than this. */
#define IDLE_MAX 2048

/* What only one kind of owner asks for is counted by kind: they do not wait for each other. */
struct df_destination {
    struct df_destination *chain;
    uint64_t hash;
    size_t active[DF_OWNER_KINDS];
    size_t lanes;
    char name[]; /* df_url_destination */
};

struct df_owner {
    struct df_owner *chain;
    uint64_t hash;
    enum df_owner_kind kind;
    struct df_lane *first; /* lanes with somebody waiting, in turn */
    struct df_lane *last;
    size_t waiting_lanes;
    size_t active;
    size_t lanes;
    bool listed;
    struct df_owner *next; /* in turn */
    size_t name_len;
    char name[]; /* empty: nobody's */
};

struct df_lane {
    struct df_lane *chain;
    struct df_owner *owner;
    struct df_destination *to;
    struct df_call *first;
    struct df_call *last;
    size_t active;
    bool listed;
    struct df_lane *next; /* in turn */
};

void df_lines_init(struct df_lines *l, size_t max_in_flight, size_t max_active)
{
    *l = (struct df_lines){.max_active = max_active,
                           .half = max_in_flight > 1 ? max_in_flight / 2 : 1,
                           .sweep_at = IDLE_MAX};
    l->destinations = df_calloc(BUCKETS, sizeof(struct df_destination *));
    l->owners = df_calloc(BUCKETS, sizeof(struct df_owner *));
    l->lanes = df_calloc(BUCKETS, sizeof(struct df_lane *));
}

static size_t bucket_of(uint64_t hash)
{
    return (hash ^ hash >> 32) & (BUCKETS - 1);
}

static uint64_t lane_hash(const struct df_owner *o, const struct df_destination *d)
{
    return o->hash * 31 + d->hash;
}

/* --- owners, destinations, and the lanes between them --- */

static void free_lane(struct df_lane **at)
{
    struct df_lane *lane = *at;

    *at = lane->chain;
    lane->owner->lanes--;
    lane->to->lanes--;
    free(lane);
}

/* Lanes that nobody uses, then owners and destinations that have no lane. */
static void drop_idle(struct df_lines *l)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        struct df_lane **at = &l->lanes[i];
        while (*at) {
            if ((*at)->active > 0 || (*at)->first || (*at)->listed) {
                at = &(*at)->chain;
                continue;
            }
            free_lane(at);
            l->lane_count--;
        }
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        struct df_destination **to = &l->destinations[i];
        while (*to) {
            struct df_destination *d = *to;
            if (d->lanes > 0) {
                to = &d->chain;
                continue;
            }
            *to = d->chain;
            free(d);
        }
        struct df_owner **of = &l->owners[i];
        while (*of) {
            struct df_owner *o = *of;
            if (o->lanes > 0 || o->listed) {
                of = &o->chain;
                continue;
            }
            *of = o->chain;
            free(o);
        }
    }
    /* With many busy lanes the next sweep waits until there are twice as many. */
    l->sweep_at = l->lane_count < IDLE_MAX / 2 ? IDLE_MAX : l->lane_count * 2;
}

void df_lines_release(struct df_lines *l)
{
    for (size_t i = 0; l->lanes && i < BUCKETS; i++) {
        while (l->lanes[i])
            free_lane(&l->lanes[i]);
    }
    for (size_t i = 0; l->lanes && i < BUCKETS; i++) {
        struct df_destination *to;
        struct df_owner *owner;
        while ((to = l->destinations[i])) {
            l->destinations[i] = to->chain;
            free(to);
        }
        while ((owner = l->owners[i])) {
            l->owners[i] = owner->chain;
            free(owner);
        }
    }
    free(l->destinations);
    free(l->owners);
    free(l->lanes);
    free(l->heap);
    *l = (struct df_lines){0};
}

static struct df_destination *find_destination(struct df_lines *l, const struct df_url *url)
{
    char name[DF_DESTINATION_SIZE];
    size_t len = df_url_destination(url, name).len;
    uint64_t hash = df_str_hash(df_str_n(name, len));
    struct df_destination **bucket = &l->destinations[bucket_of(hash)];
    for (struct df_destination *d = *bucket; d; d = d->chain)
        if (d->hash == hash && strcmp(d->name, name) == 0)
            return d;

    struct df_destination *d = df_calloc(1, sizeof(*d) + len + 1);
    d->hash = hash;
    memcpy(d->name, name, len + 1);
    d->chain = *bucket;
    *bucket = d;
    return d;
}

static struct df_owner *find_owner(struct df_lines *l, struct df_str name, enum df_owner_kind kind)
{
    uint64_t hash = df_str_hash(name) + kind;
    struct df_owner **bucket = &l->owners[bucket_of(hash)];

    for (struct df_owner *o = *bucket; o; o = o->chain)
        if (o->hash == hash && o->kind == kind && df_str_eq(df_str_n(o->name, o->name_len), name))
            return o;
    struct df_owner *o = df_calloc(1, sizeof(*o) + name.len + 1);
    o->hash = hash;
    o->kind = kind;
    o->name_len = name.len;
    if (name.len > 0)
        memcpy(o->name, name.ptr, name.len);
    o->chain = *bucket;
    *bucket = o;
    return o;
}

static struct df_lane *find_lane(struct df_lines *l, const struct df_call *call,
                                 const struct df_url *url)
{
    if (l->lane_count >= l->sweep_at)
        drop_idle(l);
    struct df_destination *to = find_destination(l, url);
    struct df_owner *owner =
        find_owner(l, call->owner.ptr ? call->owner : DF_STR(""),
                   call->owner.len > 0 && call->of_tenant ? DF_TENANTS : DF_OPERATORS);
    struct df_lane **bucket = &l->lanes[bucket_of(lane_hash(owner, to))];

    for (struct df_lane *lane = *bucket; lane; lane = lane->chain)
        if (lane->owner == owner && lane->to == to)
            return lane;
    struct df_lane *lane = df_calloc(1, sizeof(*lane));
    lane->owner = owner;
    lane->to = to;
    lane->chain = *bucket;
    *bucket = lane;
    owner->lanes++;
    to->lanes++;
    l->lane_count++;
    return lane;
}

/* --- whose turn it is --- */

static void put_owner_last(struct df_lines *l, struct df_owner *o)
{
    o->listed = true;
    o->next = NULL;
    if (l->last_owner)
        l->last_owner->next = o;
    else
        l->first_owner = o;
    l->last_owner = o;
    l->waiting_owners++;
}

static struct df_owner *take_owner(struct df_lines *l)
{
    struct df_owner *o = l->first_owner;

    l->first_owner = o->next;
    if (!l->first_owner)
        l->last_owner = NULL;
    l->waiting_owners--;
    o->listed = false;
    return o;
}

static void put_lane_last(struct df_lane *lane)
{
    struct df_owner *o = lane->owner;

    lane->listed = true;
    lane->next = NULL;
    if (o->last)
        o->last->next = lane;
    else
        o->first = lane;
    o->last = lane;
    o->waiting_lanes++;
}

static struct df_lane *take_lane(struct df_owner *o)
{
    struct df_lane *lane = o->first;

    o->first = lane->next;
    if (!o->first)
        o->last = NULL;
    o->waiting_lanes--;
    lane->listed = false;
    return lane;
}

static bool has_place(const struct df_lines *l, const struct df_owner *o)
{
    size_t taken = l->active[o->kind];

    if (o->name_len == 0)
        return true;
    return taken < l->half && (o->active == 0 || o->active < l->half - taken);
}

static bool has_place_at(const struct df_lines *l, const struct df_lane *lane)
{
    size_t taken = lane->to->active[lane->owner->kind];

    if (taken >= l->max_active)
        return false;
    return lane->owner->name_len == 0 || lane->active == 0 ||
           lane->active < 3 * (l->max_active - taken);
}

/*
 * The next lane of the owner that may go on; NULL: none. Those that may not go behind: they are as
 * few as there are destinations that are full.
 */
static struct df_lane *next_lane(const struct df_lines *l, struct df_owner *o)
{
    for (size_t left = o->waiting_lanes; left > 0; left--) {
        struct df_lane *lane = take_lane(o);
        if (!lane->first)
            continue; /* whoever waited there has gone */
        if (has_place_at(l, lane))
            return lane;
        put_lane_last(lane);
    }
    return NULL;
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

static void unlink_call(struct df_lines *l, struct df_lane *lane, struct df_call *call)
{
    if (call->prev)
        call->prev->next = call->next;
    else
        lane->first = call->next;
    if (call->next)
        call->next->prev = call->prev;
    else
        lane->last = call->prev;
    call->next = call->prev = NULL;
    heap_remove(l, call);
}

void df_lines_add(struct df_lines *l, struct df_call *call, const struct df_url *url)
{
    struct df_lane *lane = find_lane(l, call, url);

    call->internal = lane;
    call->next = NULL;
    call->prev = lane->last;
    if (lane->last)
        lane->last->next = call;
    else
        lane->first = call;
    lane->last = call;
    heap_add(l, call);
    if (!lane->listed)
        put_lane_last(lane);
    if (!lane->owner->listed)
        put_owner_last(l, lane->owner);
}

static struct df_call *start(struct df_lines *l, struct df_lane *lane)
{
    struct df_owner *o = lane->owner;
    struct df_call *call = lane->first;

    unlink_call(l, lane, call);
    lane->active++;
    lane->to->active[o->kind]++;
    o->active++;
    if (o->name_len > 0)
        l->active[o->kind]++;
    if (lane->first)
        put_lane_last(lane);
    return call;
}

/* An owner that may not go on has places already, so that those passed over are few. */
struct df_call *df_lines_next(struct df_lines *l)
{
    for (size_t left = l->waiting_owners; left > 0; left--) {
        struct df_owner *o = take_owner(l);
        struct df_lane *lane = has_place(l, o) ? next_lane(l, o) : NULL;
        struct df_call *call = lane ? start(l, lane) : NULL;
        if (o->waiting_lanes > 0)
            put_owner_last(l, o);
        if (call)
            return call;
    }
    return NULL;
}

void df_lines_leave(struct df_lines *l, struct df_call *call)
{
    struct df_lane *lane = call->internal;

    lane->active--;
    lane->to->active[lane->owner->kind]--;
    lane->owner->active--;
    if (lane->owner->name_len > 0)
        l->active[lane->owner->kind]--;
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
    const struct df_lane *lane = call->internal;
    return lane->to->name;
}
