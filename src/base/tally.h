/*
 * What the process does, counted by client and channel for the series that the server keeps
 * (src/series), and the moments that are shown with them. Whoever does something adds to it; about
 * once a minute one thread takes everything away and writes it to the database.
 *
 * Adding takes a short lock and a look into a hash table. Both lists are bounded: when there are
 * DF_TALLY_MAX pairs of client and channel, further ones are counted for the client "other"; when
 * DF_TALLY_MARKS moments wait, further ones are dropped and counted. Nothing is counted until
 * df_tally_start: a command has nobody who takes it away. Any thread.
 */
#ifndef DF_BASE_TALLY_H
#define DF_BASE_TALLY_H

#include "base/arena.h"
#include "base/str.h"

#define DF_TALLY_MAX         2000
#define DF_TALLY_MARKS       256
#define DF_TALLY_CLIENT_MAX  36 /* bytes: an id of Clients; longer ones count as "other" */
#define DF_TALLY_CHANNEL_MAX 50
#define DF_TALLY_SUBJECT_MAX 160
#define DF_TALLY_BOUNDS      6

#define DF_TALLY_OTHER       DF_STR("other")

/* Milliseconds, ascending: up to which an ack's time belongs to a bucket. */
extern const int64_t df_tally_bounds_ms[DF_TALLY_BOUNDS];

struct df_tallied {
    int64_t accepted;
    int64_t processed;
    int64_t delivered;
    int64_t failed;
    int64_t acks;
    int64_t ack_ms;      /* of all acks together */
    int64_t ack_most_ms; /* of one */
    /* How many took no longer than the bound, and longer than the one before. Longer than the last
     * bound: only in acks. */
    int64_t ack_within[DF_TALLY_BOUNDS];
};

enum df_mark {
    DF_MARK_BREAKER_OPENED,
    DF_MARK_BREAKER_CLOSED,
    DF_MARK_ALERT_FIRED,
    DF_MARK_ALERT_RESOLVED,
    DF_MARK_REPLICA_STARTED,
    DF_MARK_REPLICA_STOPPED,
    DF_MARKS
};
const char *df_mark_name(enum df_mark m);

/* Starts anew, with nothing counted; stop forgets what was not taken. */
void df_tally_start(void);
void df_tally_stop(void);

/* client: its id; empty or absent: nobody's. */
void df_tally(struct df_str client, struct df_str channel, const struct df_tallied *more);
/* One ack that took so long. */
void df_tally_ack(struct df_str client, struct df_str channel, int64_t took_ms);
/* subject: a destination, a rule, a process; nothing that a person wrote. Cut at
 * DF_TALLY_SUBJECT_MAX bytes. */
void df_tally_mark(enum df_mark kind, int64_t at_ms, struct df_str subject);

struct df_tally_entry {
    struct df_str client; /* empty: nobody's */
    struct df_str channel;
    struct df_tallied n;
};
struct df_tally_moment {
    enum df_mark kind;
    int64_t at_ms;
    struct df_str subject;
};
struct df_tally_list {
    struct df_tally_entry *entries;
    size_t count;
    struct df_tally_moment *moments;
    size_t moment_count;
    int64_t dropped; /* moments, since the last call */
};

/* Takes everything away. Memory: the arena. */
void df_tally_take(struct df_tally_list *ret, struct df_arena *a);
void df_tallied_add(struct df_tallied *to, const struct df_tallied *more);

#endif
