#ifndef DF_INTERFACE_PRIVATE_H
#define DF_INTERFACE_PRIVATE_H

#include "base/loop.h"
#include "interface/interface.h"
#include "store/notify.h"

enum { CHANNEL_ACK, CHANNEL_RETURN, CHANNEL_GATEWAY, CHANNEL_COUNT };

struct df_interface {
    struct df_interface_options opt;
    struct df_channel channels[CHANNEL_COUNT];

    struct df_notifier *notifier; /* may be NULL */

    struct df_loop processing; /* of tickets */
};

/* --- processing.c --- */
void ticket_processing_start(struct df_interface *i);

#endif
