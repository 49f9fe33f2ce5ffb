#include "base/tally.h"

#include "base/lock.h"
#include "base/map.h"
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

const int64_t df_tally_bounds_ms[DF_TALLY_BOUNDS] = {100, 500, 1000, 5000, 30000, 300000};

#define KEY_MAX (DF_TALLY_CLIENT_MAX + 1 + DF_TALLY_CHANNEL_MAX)

/* The key is the client, a zero byte and the channel. */
struct slot {
    struct df_tallied n;
    size_t client_len;
    size_t key_len;
    char key[KEY_MAX];
};

struct moment {
    enum df_mark kind;
    int64_t at_ms;
    size_t len;
    char subject[DF_TALLY_SUBJECT_MAX];
};

static _Atomic bool counts;
static struct df_mutex lock = DF_MUTEX_INIT;
static struct df_map slots DF_GUARDED_BY(lock);
static struct moment moments[DF_TALLY_MARKS] DF_GUARDED_BY(lock);
static size_t moment_count DF_GUARDED_BY(lock);
static int64_t dropped DF_GUARDED_BY(lock);

const char *df_mark_name(enum df_mark m)
{
    static const char *const names[DF_MARKS] = {
        [DF_MARK_BREAKER_OPENED] = "BreakerOpened",   [DF_MARK_BREAKER_CLOSED] = "BreakerClosed",
        [DF_MARK_ALERT_FIRED] = "AlertFired",         [DF_MARK_ALERT_RESOLVED] = "AlertResolved",
        [DF_MARK_REPLICA_STARTED] = "ReplicaStarted", [DF_MARK_REPLICA_STOPPED] = "ReplicaStopped",
    };
    return names[m];
}

/* --- counting --------------------------------------------------------------------------------- */

void df_tallied_add(struct df_tallied *to, const struct df_tallied *more)
{
    to->accepted += more->accepted;
    to->processed += more->processed;
    to->delivered += more->delivered;
    to->failed += more->failed;
    to->acks += more->acks;
    to->ack_ms += more->ack_ms;
    if (more->ack_most_ms > to->ack_most_ms)
        to->ack_most_ms = more->ack_most_ms;
    for (size_t i = 0; i < DF_TALLY_BOUNDS; i++)
        to->ack_within[i] += more->ack_within[i];
}

static size_t make_key(char key[KEY_MAX], struct df_str client, struct df_str channel)
{
    size_t channel_len = channel.len < DF_TALLY_CHANNEL_MAX ? channel.len : DF_TALLY_CHANNEL_MAX;

    if (client.len > 0)
        memcpy(key, client.ptr, client.len);
    key[client.len] = '\0';
    if (channel_len > 0)
        memcpy(key + client.len + 1, channel.ptr, channel_len);
    return client.len + 1 + channel_len;
}

static struct slot *find_slot(struct df_str client, struct df_str channel) DF_REQUIRES(lock)
{
    char key[KEY_MAX];
    size_t len = make_key(key, client, channel);
    struct slot *s = df_map_get(&slots, df_str_n(key, len));

    if (s)
        return s;
    if (slots.count >= DF_TALLY_MAX && client.len > 0 && !df_str_eq(client, DF_TALLY_OTHER))
        return find_slot(DF_TALLY_OTHER, channel); /* there are few channels */
    s = df_calloc(1, sizeof *s);
    s->client_len = client.len;
    s->key_len = len;
    memcpy(s->key, key, len);
    df_map_add(&slots, df_str_n(s->key, len), s);
    return s;
}

void df_tally(struct df_str client, struct df_str channel, const struct df_tallied *more)
{
    if (!atomic_load_explicit(&counts, memory_order_relaxed))
        return;
    if (client.len > DF_TALLY_CLIENT_MAX)
        client = DF_TALLY_OTHER;
    df_lock(&lock);
    df_tallied_add(&find_slot(client, channel)->n, more);
    df_unlock(&lock);
}

void df_tally_ack(struct df_str client, struct df_str channel, int64_t took_ms)
{
    int64_t ms = took_ms > 0 ? took_ms : 0;
    struct df_tallied one = {.acks = 1, .ack_ms = ms, .ack_most_ms = ms};
    size_t i = 0;

    while (i < DF_TALLY_BOUNDS && ms > df_tally_bounds_ms[i])
        i++;
    if (i < DF_TALLY_BOUNDS)
        one.ack_within[i] = 1;
    df_tally(client, channel, &one);
}

void df_tally_mark(enum df_mark kind, int64_t at_ms, struct df_str subject)
{
    struct df_str cut = df_utf8_cut(subject, DF_TALLY_SUBJECT_MAX / 4);

    if (subject.len <= DF_TALLY_SUBJECT_MAX)
        cut = subject;
    if (!atomic_load_explicit(&counts, memory_order_relaxed))
        return;
    df_lock(&lock);
    if (moment_count < DF_TALLY_MARKS) {
        struct moment *m = &moments[moment_count++];
        *m = (struct moment){.kind = kind, .at_ms = at_ms, .len = cut.len};
        if (cut.len > 0)
            memcpy(m->subject, cut.ptr, cut.len);
    } else {
        dropped++;
    }
    df_unlock(&lock);
}

/* --- taking ----------------------------------------------------------------------------------- */

static void forget(struct df_map *all)
{
    struct slot *s;

    for (size_t at = 0; (s = df_map_next(all, &at));)
        free(s);
    df_map_release(all);
}

static void start_anew(bool on)
{
    struct df_map old;

    df_lock(&lock);
    old = slots;
    slots = (struct df_map){0};
    moment_count = 0;
    dropped = 0;
    atomic_store(&counts, on);
    df_unlock(&lock);
    forget(&old);
}

void df_tally_start(void)
{
    start_anew(true);
}

void df_tally_stop(void)
{
    start_anew(false);
}

void df_tally_take(struct df_tally_list *ret, struct df_arena *a)
{
    struct df_map taken;
    const struct slot *s;

    *ret = (struct df_tally_list){.moments =
                                      DF_ARENA_ARRAY(a, struct df_tally_moment, DF_TALLY_MARKS)};
    df_lock(&lock);
    taken = slots;
    slots = (struct df_map){0};
    for (size_t i = 0; i < moment_count; i++) {
        const struct moment *m = &moments[i];
        ret->moments[i] = (struct df_tally_moment){m->kind, m->at_ms,
                                                   df_arena_str(a, df_str_n(m->subject, m->len))};
    }
    ret->moment_count = moment_count;
    ret->dropped = dropped;
    moment_count = 0;
    dropped = 0;
    df_unlock(&lock);
    ret->entries = DF_ARENA_ARRAY(a, struct df_tally_entry, taken.count + 1);
    for (size_t at = 0; (s = df_map_next(&taken, &at));) {
        struct df_str key = df_arena_str(a, df_str_n(s->key, s->key_len));
        ret->entries[ret->count++] = (struct df_tally_entry){
            df_str_n(key.ptr, s->client_len),
            df_str_n(key.ptr + s->client_len + 1, s->key_len - s->client_len - 1), s->n};
    }
    forget(&taken);
}
