/*
 * Lines of the log on the disk, from when they are written until the target has taken them.
 *
 *   directory/<process>/            one folder for each process, mode 0700
 *       lock                        held while the process lives; its text is the machine's name
 *       0000000000000001.log …      segments: records, appended by the process alone
 *       cursor                      up to where the target has taken them
 *
 * A record is a head (mark, length, checksum, level, time) and the line. What a crash leaves half
 * written fails its checksum and is skipped, and so is what was damaged later: reading goes on at
 * the next record that is whole. The cursor is replaced by a rename. It may be behind what was
 * sent, never ahead: after a crash lines may be sent again, under the same name (process, segment,
 * offset).
 *
 * A process begins with a new folder. Folders whose process is gone are adopted, by whichever
 * process locks them first: their lines are sent before its own, and then the folder is removed.
 *
 * All folders in hand together are bounded: at max_bytes the oldest segment goes, whole, and so do
 * segments whose lines are all older than max_age_ms. What goes unsent is counted.
 *
 * Durability: df_spool_write has the kernel take the lines, so that they survive the process;
 * df_spool_sync has the disk take them, so that they survive the machine.
 *
 * One thread at a time.
 */
#ifndef DF_SHIP_SPOOL_H
#define DF_SHIP_SPOOL_H

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"

#define DF_SPOOL_LINE_MAX 8192
#define DF_SPOOL_NAME_MAX 40
#define DF_SPOOL_HOST_MAX 128

/* Why a line was lost. */
enum df_spool_loss {
    DF_SPOOL_FULL,    /* the spool was at its limit */
    DF_SPOOL_OLD,     /* the line was too old */
    DF_SPOOL_DISK,    /* it could not be written */
    DF_SPOOL_DAMAGED, /* it could not be read: one for each damaged place */
    DF_SPOOL_LOSSES
};

struct df_spool_count {
    uint64_t lines;
    uint64_t bytes;
};

struct df_spool_options {
    const char *directory; /* made if it is missing, and its parent too */
    int64_t max_bytes;
    int64_t max_age_ms;
    const struct df_clock *clock;
};

/* A place in a folder. */
struct df_spool_at {
    uint64_t segment;
    uint64_t offset;
};

struct df_spool_record {
    struct df_spool_at at;
    int64_t time_ns;
    enum df_log_level level;
    struct df_str text;
};

struct df_spool_owner {
    const char *name;
    const char *host;
};

struct df_spool;

enum df_code df_spool_open(const struct df_spool_options *opt, struct df_spool **ret,
                           struct df_err *err) DF_MUST_CHECK;
/* Writes what was added, and removes the own folder if all of it was sent. NULL is fine. */
void df_spool_close(struct df_spool *s);

/* Adds a line, which reaches the disk by df_spool_write. A line that is too long is cut. */
void df_spool_add(struct df_spool *s, int64_t time_ns, enum df_log_level level, struct df_str text);
/* What cannot be written is dropped and counted. */
enum df_code df_spool_write(struct df_spool *s, struct df_err *err) DF_MUST_CHECK;
void df_spool_sync(struct df_spool *s);

/* Adopts folders of processes that are gone. Returns how many lines wait in them. */
uint64_t df_spool_adopt(struct df_spool *s);
/* Drops what is too old, and begins a new segment now and then, so that none gets old. */
void df_spool_age(struct df_spool *s);

/*
 * Reads on from the cursor, in one folder, until `take` returns false; records are valid during the
 * call. False: nothing waits. Else *ret_end is where the records that were taken end, for
 * df_spool_done, and the owner's names are valid until then. The cursor does not move.
 */
bool df_spool_read(struct df_spool *s, bool (*take)(void *arg, const struct df_spool_record *r),
                   void *arg, struct df_spool_owner *ret_owner, struct df_spool_at *ret_end);
/* What was read last needs no further keeping. */
void df_spool_done(struct df_spool *s, struct df_spool_at end);

/* Of lines that wait, in all folders. */
uint64_t df_spool_lines(const struct df_spool *s);
/* Of them and their heads. */
uint64_t df_spool_waiting_bytes(const struct df_spool *s);
/* Of all segments. */
uint64_t df_spool_bytes(const struct df_spool *s);
/* The time of the oldest line that waits, roughly; 0: none waits. */
int64_t df_spool_oldest_ns(const struct df_spool *s);
/* Losses since the spool was opened. */
struct df_spool_count df_spool_lost(const struct df_spool *s, enum df_spool_loss why);

/* --- records ---------------------------------------------------------------------------------- */

#define DF_SPOOL_HEAD 24

/* Writes the head of a record; the line follows it. */
void df_spool_put_head(char out[DF_SPOOL_HEAD], int64_t time_ns, enum df_log_level level,
                       struct df_str text);
/*
 * Finds the first whole record in `data`, sets *ret (but for its place) and returns its length with
 * the head; *ret_skipped bytes before it are none. 0: there is none. Then *ret_skipped bytes can be
 * forgotten; what follows them, unless the data are `all` there is, may be the begin of one.
 */
size_t df_spool_find(struct df_str data, bool all, struct df_spool_record *ret,
                     size_t *ret_skipped);

#endif
