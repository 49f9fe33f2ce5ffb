/*
 * Notices that one of a few files was replaced or written: by inode, size and time. A change counts
 * once all of them have stayed the same from one look to the next, so that a file that is still
 * being written, or a pair of which only one half is there yet, is left alone. One thread at a
 * time.
 */
#ifndef DF_NET_WATCH_H
#define DF_NET_WATCH_H

#include <stdbool.h>
#include <sys/stat.h>

#define DF_WATCH_FILES 3

struct df_watch {
    const char *paths[DF_WATCH_FILES]; /* borrowed; NULL: none */
    struct stat taken[DF_WATCH_FILES];
    struct stat seen[DF_WATCH_FILES];
};

void df_watch_init(struct df_watch *w, const char *first, const char *second, const char *third);
/* True once for each change; `now` counts as one. */
bool df_watch_changed(struct df_watch *w, bool now);

#endif
