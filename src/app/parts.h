/*
 * The parts of a process, and the one order in which they come to life and end.
 *
 * A table lists them: each may use those before it. They start in the table's order, and what ends
 * them goes from the last to the first, in three steps. Parts are used by the HTTP server's
 * threads, by the store's and by one another's; each step takes one kind of user away, and only the
 * last frees. A server ends like this:
 *
 *   1. drain   HTTP: nobody new; requests in hand have drain_seconds.
 *   2. shut    HTTP: no handler runs any more and none will be called, however much of a body is
 *              still on its way. What is left of the HTTP threads' use is the end of a request,
 *              which frees uploads.
 *   3. stop    each part takes nothing new and hands its work over, with what is left of the time
 *              that it was given. Every request that it had set aside is resumed. Among the first
 *              in the table, and so stopped last, is what makes calls to others (outbound): that
 *              cuts off what is still on its way, which is how it comes back, and cancels at once
 *              whatever is called later. So nobody who calls needs to know that the end has come.
 *   4. end     each part's threads are joined; those of the store last, since the others hand their
 *              last jobs to it, and its jobs may still wake any of them. Nothing is freed yet.
 *   5. HTTP    its threads end, after the end of every request. Then "ServerStopped" is logged.
 *   6. free    one thread is left, this one.
 *
 * A start that fails leaves nothing of its part behind; what had been started ends by the same
 * table.
 */
#ifndef DF_APP_PARTS_H
#define DF_APP_PARTS_H

#include "base/err.h"

struct df_app; /* what the parts are parts of: app.h */

struct df_part {
    uint32_t roles; /* enum df_role: only where the process has one of them; 0: in every one */
    enum df_code (*start)(struct df_app *app, struct df_err *err);
    /* Each of these may be NULL. */
    void (*stop)(struct df_app *app, int64_t deadline_ms); /* on the real clock, monotonic */
    void (*end)(struct df_app *app);
    void (*free)(struct df_app *app);
};

#define DF_PARTS_MAX 32

struct df_parts {
    const struct df_part *const *table; /* ended by NULL */
    bool started[DF_PARTS_MAX];
};

/* Starts those that belong to these roles. When one fails the caller stops and frees all the same:
 * parts that were not started are passed over. */
enum df_code df_parts_start(struct df_parts *p, struct df_app *app, uint32_t roles,
                            struct df_err *err) DF_MUST_CHECK;
/* Steps 3 and 4. */
void df_parts_stop(const struct df_parts *p, struct df_app *app, int64_t deadline_ms);
/* Step 6. */
void df_parts_free(struct df_parts *p, struct df_app *app);

/* What is left until a deadline, for functions that wait for so long. */
int64_t df_parts_left_ms(int64_t deadline_ms);

#endif
