/*
 * This process, and which others are gone. Each holds a lock on a file of its own in
 * data_dir/instances, named by a UUID, and the kernel releases it however the process ends. So
 * processes that share the directory know at once that one is gone.
 *
 * Threads: any, but for hold and drop.
 */
#ifndef DF_BASE_INSTANCE_H
#define DF_BASE_INSTANCE_H

#include "base/uuid.h"

struct df_instance {
    struct df_uuid id;
    char host[128]; /* the machine's name */
    char *directory;
    int fd; /* -1: no lock is held, and others learn of this process's end by its leases only */
};

/* Makes the directories, if they are not there, and the file. What fails is logged. */
struct df_instance *df_instance_hold(const char *data_dir, const struct df_clock *clock);
/* NULL is fine. */
void df_instance_drop(struct df_instance *i);

/* Whether that process is known to be gone. False for one with another directory, or that could not
 * make its file. */
bool df_instance_is_gone(const struct df_instance *i, const struct df_uuid *id);

/* Removes the files of processes that are gone, except of those that are `needed` by what they left
 * behind. */
void df_instance_sweep(const struct df_instance *i,
                       bool (*needed)(void *arg, const struct df_uuid *id), void *arg);

#endif
