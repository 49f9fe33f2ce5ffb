#include "sandbox/journal.h"

#include "base/arena.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/mem.h"
#include "sandbox/keyset.h"
#include "json/doc.h"

#include <assert.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>

#define NAME_MAX_BYTES 512
#define RING_FIRST     64
#define STATUSES       16 /* counted apart on one path; more are counted with the last */
#define TEXT_MAX       ((size_t)0xffff)
#define OUTPUT_MARK    ((size_t)32 << 20) /* a list that is longer than this ends */

/* A kept request. Immutable; readers hold a reference while they write it out. */
struct record {
    _Atomic unsigned refs;
    struct df_link link; /* in a list of records to free */
    uint64_t number;
    int64_t at_ms;
    unsigned status;
    enum df_sb_verified verified;
    size_t size; /* of the allocation, for the budget */
    size_t body_total;
    struct df_str method;
    struct df_str path;
    struct df_str query;
    struct df_str key;
    struct df_str body;
    bool headers_cut;
    size_t header_count;
    struct df_sb_header headers[];
};

struct path {
    char *name;
    uint64_t requests;
    uint64_t distinct;
    uint64_t repeats;
    uint64_t verified;
    uint64_t rejected;
    int64_t last_ms;
    struct {
        unsigned status;
        uint64_t count;
    } statuses[STATUSES];
    size_t status_count;

    struct record **ring;
    size_t cap;  /* size of the ring; grows up to `keep` */
    size_t head; /* the oldest */
    size_t count;
    size_t bytes;
};

struct df_sb_journal {
    size_t keep;
    const struct df_clock *clock;
    unsigned char hash_key[crypto_shorthash_siphashx24_KEYBYTES];
    struct df_sb_keyset *keys;
    _Atomic uint64_t keys_dropped;

    struct df_mutex lock;
    struct df_map paths DF_GUARDED_BY(lock);
    struct path *other DF_GUARDED_BY(lock); /* counts requests of further paths; NULL: none yet */
    size_t bytes DF_GUARDED_BY(lock);
    uint64_t number DF_GUARDED_BY(lock);
    int64_t since_ms DF_GUARDED_BY(lock);
};

static struct df_hash128 hash_bytes(struct df_str s, const unsigned char *key)
{
    struct df_hash128 h;
    _Static_assert(sizeof(h) == crypto_shorthash_siphashx24_BYTES, "a hash is 128 bits");
    (void)crypto_shorthash_siphashx24((unsigned char *)&h, (const unsigned char *)s.ptr, s.len,
                                      key);
    return h;
}

struct df_sb_journal *df_sb_journal_new(size_t keep, const struct df_clock *clock)
{
    struct df_sb_journal *j = df_calloc(1, sizeof(*j));

    j->keep = keep;
    j->clock = clock;
    j->since_ms = df_wall_ms(clock);
    j->keys = df_sb_keyset_new(DF_SB_KEYS_MAX);
    df_random(clock, j->hash_key, sizeof(j->hash_key));
    df_mutex_init(&j->lock);
    return j;
}

bool df_sb_journal_keeps(const struct df_sb_journal *j)
{
    return j->keep > 0;
}

/* --- records --- */

static void unref_record(struct record *r)
{
    if (r && atomic_fetch_sub(&r->refs, 1) == 1)
        free(r);
}

static struct df_str copy_text(char **to, struct df_str s)
{
    if (!s.ptr)
        return s;
    memcpy(*to, s.ptr, s.len);
    struct df_str at = df_str_n(*to, s.len);
    *to += s.len;
    return at;
}

static struct df_str cut_text(struct df_str s, size_t max)
{
    return df_str_n(s.ptr, s.len < max ? s.len : max);
}

static struct record *make_record(const struct df_sb_received *r, int64_t now_ms)
{
    size_t n = r->header_count < DF_SB_HEADERS_MAX ? r->header_count : DF_SB_HEADERS_MAX;
    struct df_str body = cut_text(r->body, DF_SB_BODY_MAX);
    struct df_str query = cut_text(r->query, TEXT_MAX);
    struct df_str key = cut_text(r->key, TEXT_MAX);
    struct df_str path = cut_text(r->path, TEXT_MAX);
    struct df_str method = cut_text(r->method, TEXT_MAX);
    size_t size = sizeof(struct record) + n * sizeof(struct df_sb_header) + body.len + query.len +
                  key.len + path.len + method.len;
    for (size_t i = 0; i < n; i++)
        size += r->headers[i].name.len + r->headers[i].value.len;

    struct record *rec = df_malloc(size);
    *rec = (struct record){.refs = 1,
                           .at_ms = now_ms,
                           .status = r->status,
                           .verified = r->verified,
                           .size = size,
                           .body_total = r->body.len,
                           .headers_cut = r->headers_cut,
                           .header_count = n};
    char *to = (char *)&rec->headers[n];
    rec->method = copy_text(&to, method);
    rec->path = copy_text(&to, path);
    rec->query = copy_text(&to, query);
    rec->key = copy_text(&to, key);
    rec->body = copy_text(&to, body);
    for (size_t i = 0; i < n; i++) {
        rec->headers[i].name = copy_text(&to, r->headers[i].name);
        rec->headers[i].value = copy_text(&to, r->headers[i].value);
    }
    return rec;
}

/* --- paths --- */

static struct path *new_path(struct df_str name)
{
    struct path *p = df_calloc(1, sizeof(*p));
    p->name = df_strdup(name);
    return p;
}

/* Goes through the paths, `other` last; *at is 0 at first. NULL: there are no more. */
static struct path *next_path(const struct df_sb_journal *j, size_t *at) DF_REQUIRES(j->lock)
{
    struct path *p = *at == SIZE_MAX ? NULL : df_map_next(&j->paths, at);

    if (p || *at == SIZE_MAX)
        return p;
    *at = SIZE_MAX;
    return j->other;
}

static struct path *find_path(struct df_sb_journal *j, struct df_str name) DF_REQUIRES(j->lock)
{
    struct path *p = df_map_get(&j->paths, name);

    if (p)
        return p;
    if (name.len > NAME_MAX_BYTES || j->paths.count >= DF_SB_PATHS_MAX) {
        if (!j->other)
            j->other = new_path(DF_STR("other"));
        return j->other;
    }
    p = new_path(name);
    df_map_add(&j->paths, df_str_n(p->name, name.len), p);
    return p;
}

static void count_status(struct path *p, unsigned status)
{
    size_t i = 0;
    while (i < p->status_count && p->statuses[i].status != status)
        i++;
    if (i == p->status_count) {
        if (i == STATUSES)
            i--;
        else
            p->statuses[p->status_count++].status = status;
    }
    p->statuses[i].count++;
}

static struct record *drop_oldest(struct df_sb_journal *j, struct path *p) DF_REQUIRES(j->lock)
{
    assert(p->count > 0);
    struct record *r = p->ring[p->head];
    assert(p->bytes >= r->size && j->bytes >= r->size);
    p->head = (p->head + 1) % p->cap;
    p->count--;
    p->bytes -= r->size;
    j->bytes -= r->size;
    return r;
}

static struct path *largest_path(struct df_sb_journal *j, struct path *likely) DF_REQUIRES(j->lock)
{
    if (likely->bytes >= DF_SB_BYTES_MAX / 2)
        return likely;
    struct path *p;
    for (size_t at = 0; (p = next_path(j, &at));)
        if (p->bytes > likely->bytes)
            likely = p;
    return likely;
}

static void grow_ring(struct df_sb_journal *j, struct path *p)
{
    size_t cap = p->cap ? p->cap * 2 : RING_FIRST;
    if (cap > j->keep)
        cap = j->keep;
    struct record **ring = df_calloc(cap, sizeof(struct record *));
    for (size_t i = 0; i < p->count; i++)
        ring[i] = p->ring[(p->head + i) % p->cap];
    free(p->ring);
    p->ring = ring;
    p->cap = cap;
    p->head = 0;
}

/* Records that have to go are moved to `drops`, for the caller to release. */
static void keep_record(struct df_sb_journal *j, struct path *p, struct record *r,
                        struct df_list *drops) DF_REQUIRES(j->lock)
{
    if (p->count == j->keep)
        df_list_add(drops, &drop_oldest(j, p)->link);
    else if (p->count == p->cap)
        grow_ring(j, p);
    r->number = j->number++;
    p->ring[(p->head + p->count++) % p->cap] = r;
    p->bytes += r->size;
    j->bytes += r->size;
    while (j->bytes > DF_SB_BYTES_MAX)
        df_list_add(drops, &drop_oldest(j, largest_path(j, p))->link);
}

bool df_sb_journal_add(struct df_sb_journal *j, const struct df_sb_received *r)
{
    int64_t now_ms = df_wall_ms(j->clock);
    struct df_hash128 hash = hash_bytes(r->path, j->hash_key);
    enum df_sb_key seen = DF_SB_KEY_DROPPED;
    struct record *rec = j->keep > 0 ? make_record(r, now_ms) : NULL;
    struct df_list drops = {.count = 0};

    /* Keyed by the path's hash, so that the same key on another path is another key. */
    if (r->key.ptr)
        seen = df_sb_keyset_add(j->keys, hash_bytes(r->key, (const unsigned char *)&hash));
    if (r->key.ptr && seen == DF_SB_KEY_DROPPED)
        atomic_fetch_add(&j->keys_dropped, 1);

    df_lock(&j->lock);
    struct path *p = find_path(j, r->path);
    p->requests++;
    p->distinct += seen == DF_SB_KEY_NEW;
    p->repeats += seen == DF_SB_KEY_SEEN;
    p->verified += r->verified == DF_SB_VERIFIED;
    p->rejected += r->verified == DF_SB_REJECTED;
    p->last_ms = now_ms;
    count_status(p, r->status);
    if (rec)
        keep_record(j, p, rec, &drops);
    df_unlock(&j->lock);

    while ((rec = DF_LIST_TAKE(&drops, struct record, link)))
        unref_record(rec);
    return seen == DF_SB_KEY_SEEN;
}

static void free_path(struct df_sb_journal *j, struct path *p) DF_REQUIRES(j->lock)
{
    while (p->count > 0)
        unref_record(drop_oldest(j, p));
    free(p->ring);
    free(p->name);
    free(p);
}

void df_sb_journal_clear(struct df_sb_journal *j)
{
    df_lock(&j->lock);
    struct path *p;
    for (size_t at = 0; (p = next_path(j, &at));)
        free_path(j, p);
    df_map_release(&j->paths);
    j->other = NULL;
    j->since_ms = df_wall_ms(j->clock);
    df_unlock(&j->lock);
    df_sb_keyset_clear(j->keys);
    atomic_store(&j->keys_dropped, 0);
}

void df_sb_journal_free(struct df_sb_journal *j)
{
    if (!j)
        return;
    df_sb_journal_clear(j);
    df_sb_keyset_free(j->keys);
    df_mutex_destroy(&j->lock);
    free(j);
}

/* --- output --- */

static void write_path(const struct path *p, struct df_json_out *out)
{
    df_json_open(out, '{');
    df_json_kv_text(out, "path", df_str_c(p->name));
    df_json_kv_int(out, "requests", (int64_t)p->requests);
    df_json_kv_int(out, "distinctKeys", (int64_t)p->distinct);
    df_json_kv_int(out, "repeats", (int64_t)p->repeats);
    if (p->verified + p->rejected > 0) {
        df_json_kv_int(out, "verified", (int64_t)p->verified);
        df_json_kv_int(out, "rejected", (int64_t)p->rejected);
    }
    df_json_key(out, "byStatus");
    df_json_open(out, '{');
    for (size_t i = 0; i < p->status_count; i++) {
        char digits[16] = "dropped";
        unsigned status = p->statuses[i].status;
        if (status != DF_SB_DROPPED) {
            digits[0] = (char)('0' + status / 100 % 10);
            digits[1] = (char)('0' + status / 10 % 10);
            digits[2] = (char)('0' + status % 10);
            digits[3] = '\0';
        }
        df_json_kv_int(out, digits, (int64_t)p->statuses[i].count);
    }
    df_json_close(out, '}');
    df_json_kv_time(out, "lastAt", p->last_ms);
    df_json_close(out, '}');
}

void df_sb_journal_write_stats(struct df_sb_journal *j, struct df_json_out *out)
{
    uint64_t requests = 0;
    uint64_t distinct = 0;
    uint64_t repeats = 0;
    const struct path *p;

    df_lock(&j->lock);
    for (size_t at = 0; (p = next_path(j, &at));) {
        requests += p->requests;
        distinct += p->distinct;
        repeats += p->repeats;
    }
    df_json_kv_time(out, "since", j->since_ms);
    df_json_kv_int(out, "requests", (int64_t)requests);
    df_json_kv_int(out, "distinctKeys", (int64_t)distinct);
    df_json_kv_int(out, "repeats", (int64_t)repeats);
    df_json_kv_int(out, "keysNotTracked", (int64_t)atomic_load(&j->keys_dropped));
    df_json_kv_int(out, "keptBytes", (int64_t)j->bytes);
    df_json_key(out, "paths");
    df_json_open(out, '[');
    for (size_t at = 0; (p = next_path(j, &at));)
        write_path(p, out);
    df_json_close(out, ']');
    df_unlock(&j->lock);
}

/* Writes valid JSON as it is, anything else as text. */
static void write_body(const struct record *r, struct df_arena *arena, struct df_json_out *out)
{
    const struct df_json *doc;

    df_json_key(out, "body");
    if (r->body_total == r->body.len && r->body.len > 0 &&
        df_json_parse(arena, r->body, &doc, NULL) == DF_OK)
        df_json_raw(out, r->body);
    else
        df_json_text(out, r->body);
    if (r->body_total != r->body.len) {
        df_json_kv_bool(out, "bodyCut", true);
        df_json_kv_int(out, "bodyBytes", (int64_t)r->body_total);
    }
    df_arena_reset(arena);
}

static bool has_name_before(const struct record *r, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (df_str_ieq(r->headers[i].name, r->headers[at].name))
            return true;
    return false;
}

/* A JSON object has each name once, so the values of a repeated header are joined to one list (RFC
 * 9110). */
static struct df_str joined_value(const struct record *r, size_t first, struct df_arena *arena)
{
    struct df_str value = r->headers[first].value;

    for (size_t i = first + 1; i < r->header_count; i++)
        if (df_str_ieq(r->headers[i].name, r->headers[first].name))
            value = df_arena_printf(arena, DF_STR_FMT ", " DF_STR_FMT, DF_STR_ARG(value),
                                    DF_STR_ARG(r->headers[i].value));
    return value;
}

static void write_headers(const struct record *r, struct df_arena *arena, struct df_json_out *out)
{
    df_json_key(out, "headers");
    df_json_open(out, '{');
    for (size_t i = 0; i < r->header_count; i++) {
        if (has_name_before(r, i))
            continue;
        df_json_key_str(out, r->headers[i].name);
        df_json_text(out, joined_value(r, i, arena));
    }
    df_json_close(out, '}');
    if (r->headers_cut)
        df_json_kv_bool(out, "headersCut", true);
}

static void write_record(const struct record *r, struct df_arena *arena, struct df_json_out *out)
{
    df_json_open(out, '{');
    df_json_kv_time(out, "at", r->at_ms);
    df_json_kv_text(out, "method", r->method);
    df_json_kv_text(out, "path", r->path);
    if (r->query.ptr)
        df_json_kv_text(out, "query", r->query);
    write_headers(r, arena, out);
    write_body(r, arena, out);
    if (r->status == DF_SB_DROPPED)
        df_json_kv_text(out, "status", DF_STR("dropped"));
    else
        df_json_kv_int(out, "status", (int64_t)r->status);
    df_json_kv_text(out, "idempotencyKey", r->key);
    if (r->verified != DF_SB_UNCHECKED)
        df_json_kv_bool(out, "verified", r->verified == DF_SB_VERIFIED);
    df_json_close(out, '}');
}

/* `found` is a heap of at most `limit` records, the oldest first; it holds a reference to each. */
static void sift_down(struct record **found, size_t count)
{
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= count)
            return;
        if (child + 1 < count && found[child + 1]->number < found[child]->number)
            child++;
        if (found[child]->number >= found[i]->number)
            return;
        struct record *r = found[i];
        found[i] = found[child];
        found[child] = r;
        i = child;
    }
}

static void sift_up(struct record **found, size_t i)
{
    while (i > 0 && found[(i - 1) / 2]->number > found[i]->number) {
        struct record *r = found[i];
        found[i] = found[(i - 1) / 2];
        found[(i - 1) / 2] = r;
        i = (i - 1) / 2;
    }
}

static size_t collect_newest(struct df_sb_journal *j, struct df_str prefix, size_t limit,
                             struct record **found)
{
    size_t n = 0;

    df_lock(&j->lock);
    struct path *p;
    for (size_t at = 0; (p = next_path(j, &at));) {
        if (p != j->other && !df_str_starts(df_str_c(p->name), prefix))
            continue;
        for (size_t k = p->count; k > 0; k--) {
            struct record *r = p->ring[(p->head + k - 1) % p->cap];
            if (n == limit && r->number < found[0]->number)
                break;
            if (p == j->other && !df_str_starts(r->path, prefix))
                continue;
            if (n < limit) {
                found[n] = r;
                sift_up(found, n++);
            } else {
                found[0] = r;
                sift_down(found, n);
            }
        }
    }
    for (size_t i = 0; i < n; i++)
        atomic_fetch_add(&found[i]->refs, 1);
    df_unlock(&j->lock);
    return n;
}

static int newest_first(const void *a, const void *b)
{
    const struct record *x = *(struct record *const *)a;
    const struct record *y = *(struct record *const *)b;
    return x->number < y->number ? 1 : -1;
}

void df_sb_journal_write_received(struct df_sb_journal *j, struct df_str prefix, size_t limit,
                                  struct df_json_out *out)
{
    struct record *found[DF_SB_RECEIVED_MAX];
    struct df_arena arena;

    if (limit > DF_SB_RECEIVED_MAX)
        limit = DF_SB_RECEIVED_MAX;
    size_t n = limit > 0 ? collect_newest(j, prefix, limit, found) : 0;
    qsort(found, n, sizeof(struct record *), newest_first);
    df_arena_init(&arena);
    df_json_open(out, '[');
    for (size_t i = 0; i < n; i++) {
        if (out->buf->len < OUTPUT_MARK)
            write_record(found[i], &arena, out);
        unref_record(found[i]);
    }
    df_json_close(out, ']');
    df_arena_release(&arena);
}
