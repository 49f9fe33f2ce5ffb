/*
 * Open addressing over indexes into an array of entries. Removing leaves a hole in the array, which
 * keeps walks simple, and a slot that points to the hole, which keeps probing correct. Holes
 * disappear when the table is rebuilt, as soon as the array is full.
 */
#include "base/map.h"

#include "base/clock.h"
#include "base/mem.h"

#include <assert.h>
#include <sodium.h>
#include <stdlib.h>

#define SLOTS_FIRST 16U
#define SLOTS_MAX   (UINT32_C(1) << 31)

struct df_map_entry {
    uint32_t hash;
    uint32_t key_len;
    const char *key;
    void *value; /* NULL: a hole */
};

static unsigned char hash_key[crypto_shorthash_KEYBYTES];
static pthread_once_t hash_key_once = PTHREAD_ONCE_INIT;

static void draw_hash_key(void)
{
    df_random(df_clock_real(), hash_key, sizeof(hash_key));
}

static uint32_t hash_of(struct df_str key)
{
    uint64_t hash;

    _Static_assert(sizeof(hash) == crypto_shorthash_BYTES, "a hash is one word");
    crypto_shorthash((unsigned char *)&hash, (const unsigned char *)key.ptr, key.len, hash_key);
    return (uint32_t)hash;
}

/* At most half of the slots are used. */
static uint32_t room_of(const struct df_map *m)
{
    return m->slots ? (m->slot_mask + 1) / 2 : 0;
}

void df_map_release(struct df_map *m)
{
    free(m->entries);
    free(m->slots);
    *m = (struct df_map){.count = 0};
}

/* The key's entry, or NULL. */
static struct df_map_entry *find_entry(const struct df_map *m, uint32_t hash, struct df_str key)
{
    for (uint32_t i = hash & m->slot_mask; m->slots[i] != 0; i = (i + 1) & m->slot_mask) {
        struct df_map_entry *e = &m->entries[m->slots[i] - 1];
        if (e->hash == hash && e->value && df_str_eq(df_str_n(e->key, e->key_len), key))
            return e;
    }
    return NULL;
}

void *df_map_get(const struct df_map *m, struct df_str key)
{
    if (m->count == 0)
        return NULL;
    const struct df_map_entry *e = find_entry(m, hash_of(key), key);
    return e ? e->value : NULL;
}

static void put_entry(struct df_map *m, struct df_map_entry e)
{
    uint32_t i = e.hash & m->slot_mask;

    while (m->slots[i] != 0)
        i = (i + 1) & m->slot_mask;
    m->entries[m->used++] = e;
    m->slots[i] = m->used;
}

/* The smallest number of slots that leaves room for half as many keys again. */
static uint32_t slots_for(uint32_t count)
{
    uint32_t slots = SLOTS_FIRST;

    while (slots / 2 < count + count / 2 + 1) {
        if (slots == SLOTS_MAX)
            abort();
        slots *= 2;
    }
    return slots;
}

/* Rebuilds the table without holes; larger, unless there were many holes. */
static void rebuild_table(struct df_map *m)
{
    uint32_t slots = slots_for(m->count);
    uint32_t used = m->used;

    if (!m->slots || slots > m->slot_mask + 1) {
        pthread_once(&hash_key_once, draw_hash_key);
        free(m->slots);
        m->slots = df_calloc(slots, sizeof(*m->slots));
        m->slot_mask = slots - 1;
        m->entries = df_realloc(m->entries, slots / 2 * sizeof(*m->entries));
    } else {
        memset(m->slots, 0, (m->slot_mask + (size_t)1) * sizeof(*m->slots));
    }
    m->used = 0;
    for (uint32_t i = 0; i < used; i++) {
        if (m->entries[i].value)
            put_entry(m, m->entries[i]);
    }
    assert(m->used == m->count);
}

void *df_map_try_add(struct df_map *m, struct df_str key, void *value)
{
    assert(value && key.len <= UINT32_MAX);
    if (m->used == room_of(m))
        rebuild_table(m);
    uint32_t hash = hash_of(key);
    const struct df_map_entry *there = find_entry(m, hash, key);
    if (there)
        return there->value;
    put_entry(m, (struct df_map_entry){hash, (uint32_t)key.len, key.ptr, value});
    m->count++;
    return NULL;
}

void df_map_add(struct df_map *m, struct df_str key, void *value)
{
    if (df_map_try_add(m, key, value))
        abort(); /* the key exists already */
}

void *df_map_remove(struct df_map *m, struct df_str key)
{
    struct df_map_entry *e = m->count > 0 ? find_entry(m, hash_of(key), key) : NULL;

    if (!e)
        return NULL;
    void *value = e->value;
    e->value = NULL;
    e->key = NULL;
    m->count--;
    return value;
}

void *df_map_next(const struct df_map *m, size_t *at)
{
    while (*at < m->used) {
        void *value = m->entries[(*at)++].value;
        if (value)
            return value;
    }
    return NULL;
}
