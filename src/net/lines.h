/*
 * Chooses the next call to send. Calls wait in lanes, one for each pair of owner and destination.
 * Owners with waiting calls take turns, and so do the lanes of an owner: a long line delays only
 * itself. A heap by deadline finds the calls that have waited too long.
 *
 * Shares. Operators and tenants have half of the places each, so that neither waits for the other.
 * Within its half an owner takes no more places than it leaves free: one owner whose peers hang has
 * a quarter of all places, two have a sixth each, and there is always room for the next owner. The
 * places of a destination are divided in the same way, but an owner may take three times as many as
 * it leaves free, so that one owner alone has three quarters. Calls without an owner have no share;
 * only the total and the destination's limit apply to them.
 *
 * The client's lock guards it. Uses the private members of struct df_call.
 */
#ifndef DF_NET_LINES_H
#define DF_NET_LINES_H

#include "base/map.h"
#include "net/client.h"
#include "net/url.h"

enum df_owner_kind { DF_OPERATORS, DF_TENANTS, DF_OWNER_KINDS };

struct df_lines {
    struct df_map destinations;
    size_t destination_count; /* ever seen */
    struct df_map owners[DF_OWNER_KINDS];
    struct df_map lanes;
    size_t sweep_at;
    size_t max_active;             /* of a destination */
    size_t half;                   /* half of all places, for operators or for tenants */
    size_t active[DF_OWNER_KINDS]; /* of calls with an owner */
    struct df_list waiting;        /* owners with waiting calls, in turn */

    struct df_call **heap;
    size_t heap_count;
    size_t heap_cap;
};

/* max_in_flight: of all calls, which the caller enforces; max_active: of one destination. */
void df_lines_init(struct df_lines *l, size_t max_in_flight, size_t max_active);
/* The lines must be empty. */
void df_lines_release(struct df_lines *l);

/* Puts the call at the end of its lane. call->deadline_ns is set. */
void df_lines_add(struct df_lines *l, struct df_call *call, const struct df_url *url);

/* Takes out the call whose turn it is and reserves a place for it; NULL: none may start. */
struct df_call *df_lines_next(struct df_lines *l);

/* Gives the place back that df_lines_next took for this call. */
void df_lines_leave(struct df_lines *l, struct df_call *call);

/* Takes out a call whose deadline is not after now_ns; NULL: none. INT64_MAX empties the lines. */
struct df_call *df_lines_expired(struct df_lines *l, int64_t now_ns);

/* The earliest deadline of a waiting call; INT64_MAX when none waits. */
int64_t df_lines_deadline_ns(const struct df_lines *l);

/* Takes a waiting call that its caller has given up out of its line; NULL: there is none. */
struct df_call *df_lines_cut(struct df_lines *l);
/* df_url_destination of a call that was added and has not left, for messages. */
const char *df_lines_destination(const struct df_call *call);
/* Counts the destinations of such calls, in the order in which they were first seen. */
size_t df_lines_destination_number(const struct df_call *call);

#endif
