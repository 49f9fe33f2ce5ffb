/*
 * Backups of the embedded database and of the files that wait beside it, point by point, to a
 * directory or a bucket. A place looks like this:
 *
 *     erasures, audit-heads                       the newest of each: a restore to any time needs
 * them GENERATION/p000000-TIME                     a base: the whole database
 *     GENERATION/p000001-TIME …                   what changed since the point before
 *     GENERATION/f-BATCH-HASH                     a waiting file, as it lies on the disk
 *
 * All are parcels (parcel.h), encrypted under a key that the master key wraps; the master key
 * itself is never among them. A point is put last, after the files that it names: what is there is
 * whole. A generation stands for itself, so the removal of an old one takes nothing from the
 * others.
 *
 * Each point holds everything that was answered before its backup began, and nothing that was
 * committed after its time. The pages are compared with hashes of those of the point before, in
 * memory and, for the next process, in a file beside the database; without that file, or when it
 * does not belong to the newest point of the place, the next point is a base.
 *
 * One process at a time backs up from a data_dir to a place (a lock); one thread at a time.
 */
#ifndef DF_BACKUP_BACKUPS_H
#define DF_BACKUP_BACKUPS_H

#include "backup/point.h"
#include "files/settings.h"
#include "keys/master.h"

struct df_backups;

struct df_backups_options {
    const char *url;      /* of the database */
    const char *data_dir; /* its files, and the temporary ones */
    const char *to;       /* a path or s3://… */
    const char *setting;  /* that names it, for messages */
    const struct df_s3_settings *s3;
    struct df_master *master;
    const struct df_clock *clock;
    int64_t keep_ms; /* 0: nothing is removed */
};

/* What a turn has done. */
struct df_backup_made {
    bool made;                 /* a point; false: nothing has changed */
    struct df_point_name name; /* number 0: it is a base */
    uint32_t pages;            /* in the point */
    uint32_t files;            /* that wait */
    uint64_t bytes;            /* put, files included */
    uint32_t removed;          /* generations that were too old */
};

/* Options are borrowed. Opens the place, without a word over the network. DF_E_USAGE: not SQLite.
 * DF_E_CONFIG: the place's settings are wrong. */
enum df_code df_backups_open(const struct df_backups_options *opt, struct df_backups **ret,
                             struct df_err *err) DF_MUST_CHECK;
void df_backups_close(struct df_backups *b); /* NULL is fine */
/* A turn ends soon with DF_E_CANCELLED, whatever it is at, and so do later ones that have something
 * to put. Any thread. */
void df_backups_cancel(struct df_backups *b);
/* Makes a point if anything has changed since the last one. May be called again after an error.
 * DF_E_BUSY: another process backs up to there. */
enum df_code df_backups_turn(struct df_backups *b, struct df_backup_made *ret,
                             struct df_err *err) DF_MUST_CHECK;

#endif
