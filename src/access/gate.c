#include "access/gate.h"

#include "base/lock.h"
#include "base/mem.h"
#include "base/secret.h"
#include "resilience/throttle.h"

#include <assert.h>
#include <sodium.h>
#include <stdlib.h>

#define LATELY_SLOTS 16384 /* power of two */
#define LATELY_PROBE 8     /* slots that a note may be in */
#define RENEW_MS     60000 /* a younger note is not renewed */

struct note {
    unsigned char tag[DF_GATE_TAG_BYTES];
    int64_t at_ms; /* monotonic */
    bool used;
};

struct df_gate {
    const struct df_clock *clock;
    struct df_throttle *pairs;
    struct df_throttle *networks;
    unsigned char key[crypto_shorthash_siphashx24_KEYBYTES];

    struct df_mutex lock;
    struct note notes[LATELY_SLOTS] DF_GUARDED_BY(lock);
};

static_assert(crypto_shorthash_siphashx24_BYTES == DF_GATE_TAG_BYTES, "the tag is one hash");
static_assert(crypto_shorthash_siphashx24_KEYBYTES == crypto_shorthash_KEYBYTES,
              "one key for both");

struct df_gate *df_gate_new(int64_t failures_per_minute, const struct df_clock *clock)
{
    struct df_gate *g = df_calloc(1, sizeof *g);
    int64_t of_network = failures_per_minute * DF_GATE_NETWORK_FACTOR;

    g->clock = clock;
    g->pairs = df_throttle_new(failures_per_minute, failures_per_minute, clock);
    g->networks = df_throttle_new(of_network, of_network, clock);
    df_random(clock, g->key, sizeof g->key);
    df_mutex_init(&g->lock);
    return g;
}

void df_gate_free(struct df_gate *g)
{
    if (!g)
        return;
    df_throttle_free(g->pairs);
    df_throttle_free(g->networks);
    df_mutex_destroy(&g->lock);
    df_wipe(g, sizeof *g);
    free(g);
}

/* --- attempts --- */

static struct df_str network_of(const struct df_attempt *a)
{
    return df_str_n(a->who, a->network_len);
}

static struct df_str pair_of(const struct df_attempt *a)
{
    return df_str_n(a->who, a->who_len);
}

static void put_who(struct df_attempt *a, struct df_str s)
{
    size_t room = sizeof a->who - a->who_len;
    size_t len = s.len < room ? s.len : room;

    if (len > 0)
        memcpy(a->who + a->who_len, s.ptr, len);
    a->who_len += len;
}

void df_gate_attempt(const struct df_gate *g, struct df_str network, struct df_str identifier,
                     struct df_str fingerprint, struct df_attempt *ret)
{
    unsigned char all[DF_GATE_WHO_MAX + 64];

    *ret = (struct df_attempt){.who_len = 0};
    put_who(ret, network);
    ret->network_len = ret->who_len;
    put_who(ret, DF_STR(" "));
    put_who(ret, identifier);
    crypto_shorthash((unsigned char *)&ret->sender, (const unsigned char *)ret->who,
                     ret->network_len, g->key);
    ret->sender |= 1;

    assert(fingerprint.len <= sizeof all - DF_GATE_WHO_MAX);
    memcpy(all, fingerprint.ptr, fingerprint.len);
    memcpy(all + fingerprint.len, ret->who, ret->who_len);
    crypto_shorthash_siphashx24(ret->tag, all, fingerprint.len + ret->who_len, g->key);
}

/* --- secrets that were right lately --- */

static bool is_current(const struct note *n, int64_t now_ms)
{
    return n->used && now_ms - n->at_ms < DF_GATE_LATELY_MS;
}

static size_t first_place(const struct df_attempt *a)
{
    uint64_t place;
    memcpy(&place, a->tag, sizeof place);
    return (size_t)place;
}

/* The attempt's note. NULL: there is none, and *ret_room is the note to replace. */
static struct note *find_note(struct df_gate *g, const struct df_attempt *a, int64_t now_ms,
                              struct note **ret_room) DF_REQUIRES(g->lock)
{
    size_t first = first_place(a);
    struct note *room = NULL;

    for (size_t i = 0; i < LATELY_PROBE; i++) {
        struct note *n = &g->notes[(first + i) & (LATELY_SLOTS - 1)];
        if (is_current(n, now_ms) && df_bytes_equal(n->tag, a->tag, sizeof n->tag))
            return n;
        if (!room ||
            (is_current(room, now_ms) && (!is_current(n, now_ms) || n->at_ms < room->at_ms)))
            room = n;
    }
    *ret_room = room;
    return NULL;
}

static bool was_right_lately(struct df_gate *g, const struct df_attempt *a)
{
    int64_t now = df_mono_ms(g->clock);
    struct note *room;

    df_lock(&g->lock);
    bool found = find_note(g, a, now, &room);
    df_unlock(&g->lock);
    return found;
}

void df_gate_right(struct df_gate *g, const struct df_attempt *a)
{
    int64_t now = df_mono_ms(g->clock);
    struct note *room;

    df_lock(&g->lock);
    struct note *n = find_note(g, a, now, &room);
    if (!n) {
        *room = (struct note){.used = true, .at_ms = now};
        memcpy(room->tag, a->tag, sizeof room->tag);
    } else if (now - n->at_ms >= RENEW_MS) {
        n->at_ms = now;
    }
    df_unlock(&g->lock);
}

static void forget_note(struct df_gate *g, const struct df_attempt *a)
{
    struct note *room;

    df_lock(&g->lock);
    struct note *n = find_note(g, a, df_mono_ms(g->clock), &room);
    if (n)
        n->used = false;
    df_unlock(&g->lock);
}

/* --- the verdict --- */

enum df_gate_verdict df_gate_ask(struct df_gate *g, const struct df_attempt *a,
                                 int64_t *ret_wait_ms)
{
    if (was_right_lately(g, a))
        return DF_GATE_KNOWN;
    if (df_throttle_blocked(g->pairs, pair_of(a), ret_wait_ms) ||
        df_throttle_blocked(g->networks, network_of(a), ret_wait_ms))
        return DF_GATE_SHUT;
    return DF_GATE_UNKNOWN;
}

void df_gate_wrong(struct df_gate *g, const struct df_attempt *a)
{
    forget_note(g, a);
    df_throttle_charge(g->pairs, pair_of(a));
    df_throttle_charge(g->networks, network_of(a));
}
