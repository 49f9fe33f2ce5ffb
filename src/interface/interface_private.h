#ifndef DF_INTERFACE_PRIVATE_H
#define DF_INTERFACE_PRIVATE_H

#include "base/lock.h"
#include "interface/interface.h"
#include "store/notify.h"

enum { CHANNEL_ACK, CHANNEL_RETURN, CHANNEL_GATEWAY, CHANNEL_COUNT };

struct df_interface {
    struct df_interface_options opt;
    struct df_channel channels[CHANNEL_COUNT];

    struct df_notifier *notifier; /* may be NULL */

    /* The ticket processing. */
    pthread_t thread;
    bool started;
    struct df_mutex lock;
    pthread_cond_t changed;
    bool woken DF_GUARDED_BY(lock);
    bool stopping DF_GUARDED_BY(lock);
};

/* --- processing.c --- */
void *df_ticket_processing(void *arg);

#endif
