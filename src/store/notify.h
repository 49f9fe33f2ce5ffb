/*
 * Tells other processes on the same database that there is work. PostgreSQL only (LISTEN and
 * NOTIFY); the other databases have no notifier, and callers poll.
 *
 * Delivery is not guaranteed: the connection may be down at that moment, and a pooler in
 * transaction mode drops notifications. Callers must poll as well.
 *
 * The notifier has a thread and a connection of its own. Topics are few, short and fixed.
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
    /* Another application's channel: every notification on it counts, whatever its payload. There
     * are no topics then, and nothing is sent. NULL: our own channel. */
    const char *channel;
    /* Another process told the topic. Called on the notifier's thread. */
    void (*heard)(void *arg, size_t topic);
    /*
     * Called after each connect: whether a test notification from a second connection arrived. It
     * does not arrive through a pooler in transaction mode, which passes the connection to another
     * client after each transaction. NULL: no test is made.
     */
    void (*probed)(void *arg, bool arrives);
    void *arg;
};

/* Returns NULL when the database has no notifications. */
struct df_notifier *df_notifier_new(const struct df_notifier_options *opt);
/* Stops listening. df_notifier_tell is still allowed afterwards, and does nothing. NULL is fine. */
void df_notifier_stop(struct df_notifier *n);
void df_notifier_free(struct df_notifier *n);

/* Sends soon, together with other topics told meanwhile. Cheap; any thread; NULL is fine. */
void df_notifier_tell(struct df_notifier *n, size_t topic);

#endif
