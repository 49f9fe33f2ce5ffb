/*
 * The requests that came: counters by path, the Idempotency-Keys that were seen, and the last
 * requests themselves.
 *
 * Everything is bounded. Paths beyond the thousandth are counted as "other". The newest `keep`
 * requests of each path are kept, 64 MiB in all; beyond that the path with the most loses its
 * oldest.
 *
 * Thread-safe. Adding holds the lock for a few dozen instructions: hashing, copying and freeing
 * happen outside it.
 */
#ifndef DF_SANDBOX_JOURNAL_H
#define DF_SANDBOX_JOURNAL_H

#include "base/clock.h"
#include "base/str.h"
#include "json/write.h"

#define DF_SB_PATHS_MAX        1000
#define DF_SB_KEYS_MAX         ((size_t)20000000)
#define DF_SB_BODY_MAX         ((size_t)64 << 10)
#define DF_SB_BYTES_MAX        ((size_t)64 << 20)
#define DF_SB_RECEIVED_MAX     1000 /* listed at once */
#define DF_SB_HEADERS_MAX      64
#define DF_SB_HEADER_BYTES_MAX ((size_t)8 << 10) /* names and values of one request */
#define DF_SB_DROPPED          0                 /* as a status: closed without an answer */

struct df_sb_journal;

enum df_sb_verified { DF_SB_UNCHECKED, DF_SB_VERIFIED, DF_SB_REJECTED };

struct df_sb_header {
    struct df_str name;
    struct df_str value;
};

/* A request and its answer; borrowed for the call. */
struct df_sb_received {
    struct df_str method;
    struct df_str path;
    struct df_str query; /* absent: none */
    struct df_str key;   /* Idempotency-Key; absent: none */
    struct df_str body;
    unsigned status;
    enum df_sb_verified verified;
    const struct df_sb_header *headers;
    size_t header_count;
    bool headers_cut; /* there were more */
};

/* keep 0: count only. */
struct df_sb_journal *df_sb_journal_new(size_t keep, const struct df_clock *clock);
void df_sb_journal_free(struct df_sb_journal *j);
bool df_sb_journal_keeps(const struct df_sb_journal *j);

/* True when its key has been seen on its path before. */
bool df_sb_journal_add(struct df_sb_journal *j, const struct df_sb_received *r);

/* Writes the counters as members of the /_stats object. */
void df_sb_journal_write_stats(struct df_sb_journal *j, struct df_json_out *out);

/* Writes the newest requests whose path begins with prefix as an array, newest first. */
void df_sb_journal_write_received(struct df_sb_journal *j, struct df_str prefix, size_t limit,
                                  struct df_json_out *out);

/* Forgets all requests, counters and keys. */
void df_sb_journal_clear(struct df_sb_journal *j);

#endif
