/*
 * Who may be sent next. Calls stand in line by destination; a destination with a free place and
 * somebody waiting is ready, and the ready ones take turns, so that a long line delays only itself.
 * A heap by deadline finds whoever has waited too long, wherever they stand.
 *
 * Belongs to the client's thread. Uses the private members of struct df_call.
 */
#ifndef DF_NET_LINES_H
#define DF_NET_LINES_H

#include "net/client.h"
#include "net/url.h"

struct df_destination;

struct df_lines {
    struct df_destination **buckets;
    size_t destination_count;
    size_t sweep_at;
    size_t max_active; /* by destination */

    struct df_destination *ready_first;
    struct df_destination *ready_last;

    struct df_call **heap;
    size_t heap_count;
    size_t heap_cap;
};

void df_lines_init(struct df_lines *l, size_t max_active);
/* The lines must be empty. */
void df_lines_release(struct df_lines *l);

/* Puts the call at the end of its destination's line. call->deadline_ns is set. */
void df_lines_add(struct df_lines *l, struct df_call *call, const struct df_url *url);

/* Takes out the call whose turn it is, and a place at its destination; NULL: none may start. */
struct df_call *df_lines_next(struct df_lines *l);

/* Gives the place back that df_lines_next took for this call. */
void df_lines_leave(struct df_lines *l, struct df_call *call);

/* Takes out a call whose deadline is not after now_ns; NULL: none. INT64_MAX empties the lines. */
struct df_call *df_lines_expired(struct df_lines *l, int64_t now_ns);

/* INT64_MAX when nobody waits. */
int64_t df_lines_deadline_ns(const struct df_lines *l);

/* "https://host:443", for messages: of a call that was added and has not left. */
const char *df_lines_destination(const struct df_call *call);

#endif
