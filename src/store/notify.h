/*
 * Telling other processes on the same database that there is something to do. PostgreSQL only
 * (LISTEN and NOTIFY); elsewhere there is no notifier, and polling has to do.
 *
 * Delivery is not promised: a connection may be down just then, and a pooler in transaction mode
 * swallows it. Whoever relies on it polls as well.
 *
 * A thread and a connection of its own. Topics are few and short, and known beforehand.
 */
#ifndef DF_STORE_NOTIFY_H
#define DF_STORE_NOTIFY_H

#include "base/err.h"
#include "base/str.h"

#define DF_NOTIFY_TOPICS 8

struct df_notifier;

struct df_notifier_options {
    const char *url;
    const char *const *topics; /* NULL after the last; at most DF_NOTIFY_TOPICS */
    /* Another application's channel, of which every notification counts, whatever it says; then
     * there are no topics, and nothing is told. NULL: our own. */
    const char *channel;
    /* Somebody else has told it; on the notifier's thread. */
    void (*heard)(void *arg, size_t topic);
    /*
     * After each connect: whether a notification sent by another connection has arrived. It does
     * not where a pooler stands in between that gives the connection to somebody else after each
     * transaction. NULL: it is not tried.
     */
    void (*probed)(void *arg, bool arrives);
    void *arg;
};

/* NULL: the database has none. */
struct df_notifier *df_notifier_new(const struct df_notifier_options *opt);
/* Hears nothing any more; telling goes nowhere, and is still allowed. NULL is fine. */
void df_notifier_stop(struct df_notifier *n);
void df_notifier_free(struct df_notifier *n);

/* Soon, and together with whatever else is told meanwhile. Cheap; any thread; NULL is fine. */
void df_notifier_tell(struct df_notifier *n, size_t topic);

#endif
