/*
 * Lines that are sent together, and what became of each.
 *
 * A batch is settled piece by piece; at first one piece has all lines. A piece that the target
 * refuses as a whole is halved, until the line that is to blame is alone and given up. So one bad
 * line costs some twenty calls and takes no other with it. Calls are bounded: after
 * DF_SHIP_REFUSED_MAX refusals, what is refused is given up whole instead of being halved.
 *
 * Owned by one thread at a time.
 */
#ifndef DF_SHIP_BATCH_H
#define DF_SHIP_BATCH_H

#include "base/arena.h"
#include "base/log.h"
#include "ship/spool.h"

#define DF_SHIP_LINES_MAX   4096
#define DF_SHIP_PIECES_MAX  16 /* halves of halves of DF_SHIP_LINES_MAX, and the one beside each */
#define DF_SHIP_REFUSED_MAX 256

enum df_ship_state {
    DF_SHIP_WAITING,
    DF_SHIP_SHIPPED,
    DF_SHIP_REFUSED, /* the target will never take it */
};

struct df_ship_line {
    struct df_spool_record record;
    enum df_ship_state state;
};

struct df_ship_piece {
    size_t from, to; /* of the lines those that still wait */
};

struct df_ship_batch {
    struct df_arena arena;
    struct df_ship_line *lines;
    size_t count;
    struct df_str folder; /* whose lines these are: a process's name; lives as long as the batch */
    struct df_str host;   /* the machine that wrote them */
    struct df_spool_at end;
    struct df_ship_piece pieces[DF_SHIP_PIECES_MAX];
    size_t piece_count;
    size_t refusals;
};

/* Reads what comes next in the spool. False: there is nothing. */
bool df_ship_batch_read(struct df_ship_batch *b, struct df_spool *spool, size_t max_bytes);
void df_ship_batch_release(struct df_ship_batch *b);

/* The piece to send now; NULL: every line is settled. */
const struct df_ship_piece *df_ship_batch_piece(struct df_ship_batch *b);

/* The next line at or after *at that waits in the piece, and moves *at behind it; NULL: none. */
struct df_ship_line *df_ship_next(struct df_ship_batch *b, const struct df_ship_piece *p,
                                  size_t *at);
size_t df_ship_waiting(struct df_ship_batch *b, const struct df_ship_piece *p);

/* What the target said of the piece that was sent. */
void df_ship_batch_taken(struct df_ship_batch *b);
void df_ship_batch_refused(struct df_ship_batch *b, bool halves);

/* How many lines are in this state. */
size_t df_ship_batch_count(const struct df_ship_batch *b, enum df_ship_state state);

#endif
