/*
 * The parts of a process, and the one order in which they start and end.
 *
 * A table lists them; each part may use those before it. They start in the table's order and end
 * from the last to the first, in three steps. Threads of the HTTP server, of the store and of other
 * parts use a part; each step takes one kind of user away, and only the last step frees. A server
 * ends like this:
 *
 *   1. drain   Batches of imports are given back (df_imports_leave), within two seconds. HTTP: no
 *              new requests; those in hand have drain_seconds.
 *   2. shut    HTTP: no handler runs any more and none will be called, even if part of a body is
 *              still on its way. HTTP threads use a part only to end a request, which frees
 *              uploads.
 *   3. stop    each part takes nothing new and hands its work over, in what is left of the time.
 *              It resumes every request that it had suspended. The part that makes calls to others
 *              (outbound) is the first in the table, and so stopped last: it cuts off the calls on
 *              their way, which brings them back, and cancels later ones at once. So callers need
 *              not know that the end has come.
 *   4. end     each part's threads are joined; those of the store last, since the others hand their
 *              last jobs to it, and its jobs may still wake any of them. Nothing is freed yet.
 *   5. HTTP    its threads end, after the end of every request. Then "ServerStopped" is logged.
 *   6. free    only the calling thread is left.
 *
 * A start that fails leaves nothing of its part behind; the parts that were started end by the same
 * table.
 */
#ifndef DF_APP_PARTS_H
#define DF_APP_PARTS_H

#include "base/err.h"

struct df_app; /* what the parts are parts of: app.h */

struct df_part {
    uint32_t roles; /* enum df_role: only in a process that has one of them; 0: in every process */
    enum df_code (*start)(struct df_app *app, struct df_err *err);
    /* Each of these may be NULL. */
    void (*stop)(struct df_app *app, int64_t deadline_ms); /* on the real clock, monotonic */
    void (*end)(struct df_app *app);
    void (*free)(struct df_app *app);
};

#define DF_PARTS_MAX 40

struct df_parts {
    const struct df_part *const *table; /* ended by NULL */
    bool started[DF_PARTS_MAX];
};

/* Starts the parts that belong to these roles. If one fails, the caller still stops and frees;
 * parts that were not started are skipped. */
enum df_code df_parts_start(struct df_parts *p, struct df_app *app, uint32_t roles,
                            struct df_err *err) DF_MUST_CHECK;
/* Steps 3 and 4. */
void df_parts_stop(const struct df_parts *p, struct df_app *app, int64_t deadline_ms);
/* Step 6. */
void df_parts_free(struct df_parts *p, struct df_app *app);

/* The time left until a deadline; never negative. */
int64_t df_parts_left_ms(int64_t deadline_ms);

#endif
