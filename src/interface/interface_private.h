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

    struct df_loop processing;       /* of tickets */
    struct df_shard_group *shards;   /* of tickets */
    _Atomic uint32_t lost_shards;    /* taken from an owner that did not end as it should */
    bool processes;                  /* tickets; set before requests come */
    _Atomic int64_t processed_count; /* tickets processed as they were accepted, not counted yet */
};

/* --- processing.c --- */
void ticket_processing_start(struct df_interface *i);

#endif
