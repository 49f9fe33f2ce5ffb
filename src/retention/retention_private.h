/* What the files of retention share: the kinds, and the walk through the rows of one. */
#ifndef DF_RETENTION_RETENTION_PRIVATE_H
#define DF_RETENTION_RETENTION_PRIVATE_H

#include "base/arena.h"
#include "retention/retention.h"
#include "store/rows.h"

#define RETENTION_KINDS 12
#define DROPS_MAX       4

struct retention_kind {
    const char *name;
    size_t kept; /* offset in struct df_retention_settings */
    const char *setting;
    const struct df_query *pick, *sure; /* sure is NULL: batches, which batches.c
                                           removes; pick too: the audit log */
    const struct df_query *lock;        /* rows that hang on these and may begin to wait */
    const struct df_query
        *drops[DROPS_MAX]; /* in this order; the last removes the rows themselves */
    enum df_type key;
    bool any_age; /* a row's time is moved on while it is used: old ones stand between young ones */
};
extern const struct retention_kind retention_kinds[RETENTION_KINDS];

/* --- over.c: what is over --- */

/* A place among the rows of a kind. */
struct retention_walk {
    const struct df_retention_settings *settings;
    int64_t now_ms; /* wall, when the walk began: ages are counted from it */
    size_t kind;    /* RETENTION_KINDS: behind the last */
    int64_t after_ms;
    int64_t after_int;
    char after_uuid[DF_UUID_LEN + 1];
    int64_t portion;
    bool is_last; /* no key is left behind the cursor */
};

const struct retention_kind *retention_kind_of(const struct retention_walk *w);
/* The kinds with their days; ret has room for all. */
void retention_list(const struct df_retention_settings *s, struct df_retention_count *ret);
/* 0: for ever. */
int64_t retention_kept_ms(const struct retention_walk *w);
/* Goes to the beginning of a kind. */
void retention_begin(struct retention_walk *w, size_t kind);
/* After a step; the next portion takes about 4 ms. */
void retention_adapt(struct retention_walk *w, int64_t took_ms);

/* The rows behind the cursor. The caller sets what stands before `ids`. */
struct retention_portion {
    struct df_job job;
    const struct retention_walk *walk;
    struct df_arena arena;
    int64_t limit;
    bool counting;           /* their ids are not wanted */
    struct df_uuid *batches; /* of batches: room for `limit`, instead of ids */
    struct df_ids ids;       /* of those that are over */
    int64_t before_ms;
    int64_t seen, over, young, bytes;
    bool full; /* rows behind those seen are left for the next step */
    int64_t last_ms, last_int;
    char last_uuid[DF_UUID_LEN + 1];
};

/* Reads a portion, and waits for it. */
enum df_code retention_read(struct df_store *store, struct retention_portion *p,
                            struct df_err *err) DF_MUST_CHECK;
/* Moves the cursor behind what was read. Keys are in the order of time, or nearly so: a portion in
 * which nothing is old is the last. */
void retention_move(struct retention_walk *w, const struct retention_portion *p);

/* --- a dry run, in portions --- */

struct retention_dry {
    struct retention_walk walk;
    struct retention_portion portion;
    int64_t most_rows, most_ms; /* of each kind; 0: no limit */
    int64_t begun_ms, took_ms;
    struct df_retention_count counts[RETENTION_KINDS];
};

/* `d` is zeroed but for its limits. False: everything is kept for ever. */
bool retention_dry_begin(struct retention_dry *d, const struct df_retention_settings *settings,
                         int64_t now_ms);
/* Reads one portion. May be called again before the next: it changes nothing but the portion. */
enum df_code retention_dry_look(struct retention_dry *d, struct df_db *db,
                                struct df_err *err) DF_MUST_CHECK;
/* Counts what was read. False: that was all. */
bool retention_dry_next(struct retention_dry *d);

#endif
