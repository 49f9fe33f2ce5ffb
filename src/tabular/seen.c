/*
 * Written here because SQLite is slower: for a million keys, bench/seen measures three to nine
 * times the time a key for a table in a temporary file with the same memory as cache.
 *
 * There are two tables with open addressing; a key's home slot is the upper bits of its hash. One
 * is in memory. When it may not grow any more, the other is made in a file, and from then on the
 * table in memory holds the new keys and is emptied into the file when it is full. Its keys are
 * nearly in the file's order, so emptying passes through the file once from start to end. For a
 * lookup, the file is read only if a Bloom filter says that the key may be there. So a new key
 * costs next to nothing, and a repeated one costs the read of a page.
 *
 * Two thirds of the memory are for the table, one third is for the filter. Before there is a
 * filter, its third holds the old table while keys move to one of twice the size.
 */
#include "tabular/seen.h"

#include "base/mem.h"
#include "base/temp.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MEMORY_DEFAULT ((size_t)24 << 20)
#define FILTER_LEAST   1024
#define PAGE           256 /* slots read and written at a time */

struct file_table {
    int fd; /* -1: none */
    unsigned bits;
    uint64_t count;
    uint64_t page_at; /* the first slot of the page in memory; UINT64_MAX: none */
    bool dirty;
    struct df_hash128 page[PAGE];
};

struct df_seen {
    struct df_hash_set memory;
    struct file_table *file; /* NULL: not yet */
    unsigned char *filter;
    size_t filter_bytes; /* a power of two */
    size_t max_memory;
    char *temp_dir;
};

struct df_seen *df_seen_new(const char *temp_dir, size_t max_memory_bytes)
{
    struct df_seen *s = df_calloc(1, sizeof(*s));

    s->max_memory = max_memory_bytes ? max_memory_bytes : MEMORY_DEFAULT;
    s->temp_dir = df_strdup(df_str_c(temp_dir ? temp_dir : P_tmpdir));
    df_hash_set_grow(&s->memory);
    return s;
}

static void file_free(struct file_table *f)
{
    if (f && f->fd >= 0)
        close(f->fd);
    free(f);
}

void df_seen_free(struct df_seen *s)
{
    if (!s)
        return;
    file_free(s->file);
    df_hash_set_release(&s->memory);
    free(s->filter);
    free(s->temp_dir);
    free(s);
}

/* --- in the file ------------------------------------------------------------------------------ */

static enum df_code file_new(const char *dir, unsigned bits, struct file_table **ret,
                             struct df_err *err)
{
    struct file_table *f = df_calloc(1, sizeof(*f));
    enum df_code rc;

    f->fd = -1;
    f->bits = bits;
    f->page_at = UINT64_MAX;
    rc = df_temp_open(dir, &f->fd, err);
    if (rc == DF_OK && ftruncate(f->fd, (off_t)(sizeof(struct df_hash128) << bits)) != 0)
        rc = df_err_errno(err, "the temporary file of what was seen");
    if (rc != DF_OK)
        file_free(f);
    else
        *ret = f;
    return rc;
}

/* Reads or writes the whole page. */
static enum df_code page_io(struct file_table *f, bool writing, struct df_err *err)
{
    char *p = (char *)f->page;
    size_t done = 0;

    while (done < sizeof(f->page)) {
        off_t at = (off_t)(f->page_at * sizeof(f->page[0]) + done);
        ssize_t n = writing ? pwrite(f->fd, p + done, sizeof(f->page) - done, at)
                            : pread(f->fd, p + done, sizeof(f->page) - done, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO; /* the file was cut short */
        if (n <= 0)
            return df_err_errno(err, "the temporary file of what was seen");
        done += (size_t)n;
    }
    return DF_OK;
}

/* Reads the slot's page, after writing back the page in memory if it was changed. */
static enum df_code turn_page(struct file_table *f, uint64_t slot, struct df_err *err)
{
    uint64_t at = slot & ~(uint64_t)(PAGE - 1);
    enum df_code rc = DF_OK;

    if (at == f->page_at)
        return DF_OK;
    if (f->dirty)
        rc = page_io(f, true, err);
    if (rc != DF_OK)
        return rc;
    f->dirty = false;
    f->page_at = at;
    rc = page_io(f, false, err);
    if (rc != DF_OK)
        f->page_at = UINT64_MAX;
    return rc;
}

static enum df_code file_find(struct file_table *f, const struct df_hash128 *key, bool add,
                              bool *ret_seen, struct df_err *err)
{
    uint64_t mask = ((uint64_t)1 << f->bits) - 1;

    for (uint64_t i = key->high >> (64 - f->bits);; i = (i + 1) & mask) {
        enum df_code rc = turn_page(f, i, err);
        if (rc != DF_OK)
            return rc;
        struct df_hash128 *slot = &f->page[i & (PAGE - 1)];
        *ret_seen = df_hash_same(slot, key);
        if (!*ret_seen && !df_hash_is_none(slot))
            continue;
        if (!*ret_seen && add) {
            *slot = *key;
            f->dirty = true;
            f->count++;
        }
        return DF_OK;
    }
}

/* Moves the keys to a table of twice the size, from the first page to the last. */
static enum df_code file_grow(struct df_seen *s, struct df_err *err)
{
    struct file_table *old = s->file, *next = NULL;
    enum df_code rc = file_new(s->temp_dir, old->bits + 1, &next, err);
    bool seen;

    for (uint64_t i = 0; rc == DF_OK && i < (uint64_t)1 << old->bits; i++) {
        const struct df_hash128 *key = &old->page[i & (PAGE - 1)];
        rc = turn_page(old, i, err);
        if (rc == DF_OK && !df_hash_is_none(key))
            rc = file_find(next, key, true, &seen, err);
    }
    if (rc != DF_OK) {
        file_free(next);
        return rc;
    }
    file_free(old);
    s->file = next;
    return DF_OK;
}

/* --- both ------------------------------------------------------------------------------------- */

/* Each key has three bits, from parts of the hash other than its home slot. True: all were set. */
static bool filter_test(const struct df_seen *s, const struct df_hash128 *key, bool set)
{
    uint64_t mask = 8 * (uint64_t)s->filter_bytes - 1;
    uint64_t at[3] = {key->low & mask, key->low >> 32 & mask, key->high & mask};
    bool all = true;

    for (int i = 0; i < 3; i++) {
        unsigned char *byte = &s->filter[at[i] / 8], bit = (unsigned char)(1U << at[i] % 8);
        all = all && (*byte & bit);
        if (set)
            *byte |= bit;
    }
    return all;
}

static enum df_code file_begin(struct df_seen *s, struct df_err *err)
{
    enum df_code rc = file_new(s->temp_dir, s->memory.bits + 2, &s->file, err);

    if (rc != DF_OK)
        return rc;
    s->filter_bytes = FILTER_LEAST;
    while (2 * s->filter_bytes <= s->max_memory / 3)
        s->filter_bytes *= 2;
    s->filter = df_calloc(s->filter_bytes, 1);
    return DF_OK;
}

/* Moves the keys in memory to the file, which is never more than half full. */
static enum df_code empty_memory(struct df_seen *s, struct df_err *err)
{
    struct df_hash_set *t = &s->memory;
    enum df_code rc = s->file ? DF_OK : file_begin(s, err);
    bool seen;

    while (rc == DF_OK && s->file->count + t->count > (uint64_t)1 << (s->file->bits - 1))
        rc = file_grow(s, err);
    for (size_t i = 0; rc == DF_OK && i < (size_t)1 << t->bits; i++) {
        if (df_hash_is_none(&t->slots[i]))
            continue;
        filter_test(s, &t->slots[i], true);
        rc = file_find(s->file, &t->slots[i], true, &seen, err);
    }
    if (rc != DF_OK)
        return rc;
    assert(s->file->count <= (uint64_t)1 << (s->file->bits - 1));
    memset(t->slots, 0, sizeof(*t->slots) << t->bits);
    t->count = 0;
    return DF_OK;
}

enum df_code df_seen_add(struct df_seen *s, struct df_hash128 hash, bool *ret_seen,
                         struct df_err *err)
{
    struct df_hash_set *t = &s->memory;
    enum df_code rc = DF_OK;

    if (df_hash_is_none(&hash))
        hash.low = 1; /* all zeros mark a free slot */
    if (df_hash_set_is_full(t)) {
        size_t larger = sizeof(*t->slots) << (t->bits + 1);
        if (!s->file && larger + larger / 2 <= s->max_memory)
            df_hash_set_grow(t);
        else
            rc = empty_memory(s, err);
    }
    if (rc != DF_OK)
        return rc;
    struct df_hash128 *slot = df_hash_set_find(t, &hash);
    *ret_seen = !df_hash_is_none(slot);
    if (!*ret_seen && s->file && filter_test(s, &hash, false))
        rc = file_find(s->file, &hash, false, ret_seen, err);
    if (rc == DF_OK && !*ret_seen) {
        *slot = hash;
        t->count++;
    }
    return rc;
}

static inline uint64_t rotate(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

/*
 * SipHash-1-3 with 128 bits. libsodium has only 2-4, which took a tenth of the time of an import's
 * parsing. The key is fixed: a sender who makes records collide only harms a file of their own.
 */
struct df_hash128 df_hash128(struct df_str text)
{
    uint64_t v[4] = {0x736F6D6570736575U, 0x646F72616E646F6DU ^ 0xEE, 0x6C7967656E657261U,
                     0x7465646279746573U};
    const char *p = text.ptr, *end = p + text.len;
    uint64_t last = (uint64_t)text.len << 56, w;
    struct df_hash128 hash;

    for (; end - p >= 8; p += 8) {
        memcpy(&w, p, 8);
        v[3] ^= w;
        sip_round(v);
        v[0] ^= w;
    }
    for (unsigned shift = 0; p < end; shift += 8)
        last |= (uint64_t)(unsigned char)*p++ << shift;
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xEE;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    hash.high = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xDD;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    hash.low = v[0] ^ v[1] ^ v[2] ^ v[3];
    return hash;
}
