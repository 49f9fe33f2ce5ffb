#include "net/lines.h"

#include "base/mem.h"
#include "net/call.h"

#include <assert.h>
#include <stdlib.h>

/* At most this many idle lanes are kept for the next call to the same peer. */
#define IDLE_MAX 2048

/* Places are counted by kind of owner, since the kinds do not wait for each other. */
struct df_destination {
    size_t active[DF_OWNER_KINDS];
    size_t lanes;
    size_t number;
    char name[]; /* scheme://host:port, lower case */
};

struct df_owner {
    struct df_link turn;
    enum df_owner_kind kind;
    struct df_list waiting; /* lanes with waiting calls, in turn */
    size_t active;
    size_t lanes;
    size_t name_len;
    char name[]; /* empty: calls without an owner */
};

struct df_lane {
    struct df_link turn;
    struct {
        struct df_owner *owner;
        struct df_destination *to;
    } between; /* the key: two pointers, no padding */
    struct df_list calls;
    size_t active;
};

void df_lines_init(struct df_lines *l, size_t max_in_flight, size_t max_active)
{
    *l = (struct df_lines){.max_active = max_active,
                           .half = max_in_flight > 1 ? max_in_flight / 2 : 1,
                           .sweep_at = IDLE_MAX};
}

/* --- owners, destinations, and the lanes between them --- */

static struct df_str destination_key(const struct df_destination *d)
{
    return df_str_c(d->name);
}

static struct df_str owner_key(const struct df_owner *o)
{
    return df_str_n(o->name, o->name_len);
}

static struct df_str lane_key(const struct df_lane *lane)
{
    return df_str_n((const char *)&lane->between, sizeof(lane->between));
}

/* Frees unused lanes, then owners and destinations without a lane. */
static void drop_idle(struct df_lines *l)
{
    struct df_lane *lane;
    struct df_destination *d;
    struct df_owner *o;

    for (size_t at = 0; (lane = df_map_next(&l->lanes, &at));) {
        if (lane->active > 0 || lane->calls.count > 0 || df_link_in_list(&lane->turn))
            continue;
        (void)df_map_remove(&l->lanes, lane_key(lane));
        lane->between.owner->lanes--;
        lane->between.to->lanes--;
        free(lane);
    }
    for (size_t at = 0; (d = df_map_next(&l->destinations, &at));) {
        if (d->lanes == 0) {
            (void)df_map_remove(&l->destinations, destination_key(d));
            free(d);
        }
    }
    for (size_t kind = 0; kind < DF_OWNER_KINDS; kind++) {
        for (size_t at = 0; (o = df_map_next(&l->owners[kind], &at));) {
            if (o->lanes == 0 && !df_link_in_list(&o->turn)) {
                (void)df_map_remove(&l->owners[kind], owner_key(o));
                free(o);
            }
        }
    }
    /* With many busy lanes the next sweep waits until there are twice as many. */
    l->sweep_at = l->lanes.count < IDLE_MAX / 2 ? IDLE_MAX : l->lanes.count * (size_t)2;
}

static void free_values(struct df_map *m)
{
    void *value;

    for (size_t at = 0; (value = df_map_next(m, &at));)
        free(value);
    df_map_release(m);
}

void df_lines_release(struct df_lines *l)
{
    free_values(&l->lanes);
    free_values(&l->destinations);
    for (size_t kind = 0; kind < DF_OWNER_KINDS; kind++)
        free_values(&l->owners[kind]);
    free(l->heap);
    *l = (struct df_lines){0};
}

static struct df_destination *find_destination(struct df_lines *l, const struct df_url *url)
{
    char name[DF_DESTINATION_SIZE];
    struct df_str key = df_url_destination(url, name);
    struct df_destination *d = df_map_get(&l->destinations, key);

    if (d)
        return d;
    d = df_calloc(1, sizeof(*d) + key.len + 1);
    memcpy(d->name, name, key.len + 1);
    d->number = l->destination_count++;
    df_map_add(&l->destinations, destination_key(d), d);
    return d;
}

static struct df_owner *find_owner(struct df_lines *l, struct df_str name, enum df_owner_kind kind)
{
    struct df_owner *o = df_map_get(&l->owners[kind], name);

    if (o)
        return o;
    o = df_calloc(1, sizeof(*o) + name.len + 1);
    o->kind = kind;
    o->name_len = name.len;
    if (name.len > 0)
        memcpy(o->name, name.ptr, name.len);
    df_map_add(&l->owners[kind], owner_key(o), o);
    return o;
}

static struct df_lane *find_lane(struct df_lines *l, const struct df_call *call,
                                 const struct df_url *url)
{
    if (l->lanes.count >= l->sweep_at)
        drop_idle(l);
    struct df_lane key = {
        .between.to = find_destination(l, url),
        .between.owner =
            find_owner(l, call->owner.ptr ? call->owner : DF_STR(""),
                       call->owner.len > 0 && call->of_tenant ? DF_TENANTS : DF_OPERATORS),
    };
    struct df_lane *lane = df_map_get(&l->lanes, lane_key(&key));
    if (lane)
        return lane;
    lane = df_calloc(1, sizeof(*lane));
    lane->between = key.between;
    df_map_add(&l->lanes, lane_key(lane), lane);
    lane->between.owner->lanes++;
    lane->between.to->lanes++;
    return lane;
}

/* --- whose turn it is --- */

static bool has_place(const struct df_lines *l, const struct df_owner *o)
{
    size_t taken = l->active[o->kind];

    if (o->name_len == 0)
        return true;
    return taken < l->half && (o->active == 0 || o->active < l->half - taken);
}

static bool has_place_at(const struct df_lines *l, const struct df_lane *lane)
{
    size_t taken = lane->between.to->active[lane->between.owner->kind];

    if (taken >= l->max_active)
        return false;
    return lane->between.owner->name_len == 0 || lane->active == 0 ||
           lane->active < 3 * (l->max_active - taken);
}

/*
 * The owner's next lane that may send; NULL: none. Lanes that may not send move to the end; there
 * are only as many as full destinations.
 */
static struct df_lane *next_lane(const struct df_lines *l, struct df_owner *o)
{
    for (size_t left = o->waiting.count; left > 0; left--) {
        struct df_lane *lane = DF_LIST_TAKE(&o->waiting, struct df_lane, turn);
        if (lane->calls.count == 0)
            continue; /* its calls have expired */
        if (has_place_at(l, lane))
            return lane;
        df_list_add(&o->waiting, &lane->turn);
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
    df_list_remove(&lane->calls, &call->link);
    heap_remove(l, call);
}

void df_lines_add(struct df_lines *l, struct df_call *call, const struct df_url *url)
{
    struct df_lane *lane = find_lane(l, call, url);
    struct df_owner *o = lane->between.owner;

    call->internal = lane;
    df_list_add(&lane->calls, &call->link);
    heap_add(l, call);
    if (!df_link_in_list(&lane->turn))
        df_list_add(&o->waiting, &lane->turn);
    if (!df_link_in_list(&o->turn))
        df_list_add(&l->waiting, &o->turn);
}

static struct df_call *start_call(struct df_lines *l, struct df_lane *lane)
{
    struct df_owner *o = lane->between.owner;
    struct df_call *call = DF_LIST_FIRST(&lane->calls, struct df_call, link);

    unlink_call(l, lane, call);
    lane->active++;
    lane->between.to->active[o->kind]++;
    o->active++;
    if (o->name_len > 0)
        l->active[o->kind]++;
    if (lane->calls.count > 0)
        df_list_add(&o->waiting, &lane->turn);
    return call;
}

/* Only owners that already have places are passed over, so there are few. */
struct df_call *df_lines_next(struct df_lines *l)
{
    for (size_t left = l->waiting.count; left > 0; left--) {
        struct df_owner *o = DF_LIST_TAKE(&l->waiting, struct df_owner, turn);
        struct df_lane *lane = has_place(l, o) ? next_lane(l, o) : NULL;
        struct df_call *call = lane ? start_call(l, lane) : NULL;
        if (o->waiting.count > 0)
            df_list_add(&l->waiting, &o->turn);
        if (call)
            return call;
    }
    return NULL;
}

void df_lines_leave(struct df_lines *l, struct df_call *call)
{
    struct df_lane *lane = call->internal;
    struct df_owner *o = lane->between.owner;

    assert(lane->active > 0 && o->active > 0);
    lane->active--;
    lane->between.to->active[o->kind]--;
    o->active--;
    if (o->name_len > 0)
        l->active[o->kind]--;
}

struct df_call *df_lines_expired(struct df_lines *l, int64_t now_ns)
{
    if (l->heap_count == 0 || l->heap[0]->deadline_ns > now_ns)
        return NULL;
    struct df_call *call = l->heap[0];
    unlink_call(l, call->internal, call);
    return call;
}

struct df_call *df_lines_cut(struct df_lines *l)
{
    for (size_t i = 0; i < l->heap_count; i++) {
        struct df_call *call = l->heap[i];
        if (!df_call_is_cut(call))
            continue;
        unlink_call(l, call->internal, call);
        return call;
    }
    return NULL;
}

int64_t df_lines_deadline_ns(const struct df_lines *l)
{
    return l->heap_count > 0 ? l->heap[0]->deadline_ns : INT64_MAX;
}

const char *df_lines_destination(const struct df_call *call)
{
    const struct df_lane *lane = call->internal;
    return lane->between.to->name;
}

size_t df_lines_destination_number(const struct df_call *call)
{
    const struct df_lane *lane = call->internal;
    return lane->between.to->number;
}
