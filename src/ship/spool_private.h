/* A folder of the spool: its files, whatever is in them. Not for use outside spool*.c. */
#ifndef DF_SHIP_SPOOL_PRIVATE_H
#define DF_SHIP_SPOOL_PRIVATE_H

#include "ship/spool.h"

struct spool_segment {
    uint64_t number;
    uint64_t bytes;
    uint64_t lines;     /* that wait, those in hand included */
    uint64_t in_hand;   /* read, and not done */
    int64_t in_hand_ns; /* of the last one in hand */
    int64_t first_ns;   /* of the lines that wait, or of one before them */
    int64_t last_ns;
};

struct spool_folder {
    int root_fd; /* of the spool */
    int lock_fd;
    char name[DF_SPOOL_NAME_MAX + 1];
    char host[DF_SPOOL_HOST_MAX + 1];
    struct spool_segment *segments; /* by number */
    size_t count, cap;
    struct df_spool_at cursor;
};

/* A new folder of this process, locked. */
enum df_code spool_folder_make(int root_fd, const struct df_clock *clock, struct spool_folder **ret,
                               struct df_err *err) DF_MUST_CHECK;
/* Locks the folder of a process that is gone; its segments have only number and size. NULL: the
 * process lives, or it is no folder. */
struct spool_folder *spool_folder_adopt(int root_fd, const char *name);
/* remove: with everything in it. */
void spool_folder_free(struct spool_folder *f, bool remove);

/* Opens a segment; -1: it cannot be, see errno. */
int spool_folder_open(const struct spool_folder *f, uint64_t number, int flags);
struct spool_segment *spool_folder_add(struct spool_folder *f, uint64_t number);
/* Removes the first segment and its file. */
void spool_folder_drop_first(struct spool_folder *f);
void spool_folder_write_cursor(struct spool_folder *f);

#endif
