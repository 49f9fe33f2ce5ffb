/*
 * Restoring from a place (backups.h) to a point in time: the database, the files that waited then,
 * and the newest ledger of erasures and heads of the audit log, which belong to no time.
 */
#ifndef DF_BACKUP_RESTORE_H
#define DF_BACKUP_RESTORE_H

#include "backup/parcel.h"
#include "backup/points.h"

struct df_restore_options {
    const char *url;      /* of the database */
    const char *data_dir; /* exists */
    const char *from;
    const struct df_s3_settings *s3;
    const struct df_clock *clock;
    struct df_parcel_opener *opener;
    int64_t at_ms; /* INT64_MAX: the newest */
};

struct df_restored {
    struct df_point_name point;
    uint32_t page_size, page_count;
    uint32_t points;     /* that were read: the base and those after it */
    uint32_t files;      /* that were written, or were there already */
    uint32_t files_lost; /* their objects are missing or damaged */
};

/*
 * Everything is fetched and verified before anything is changed; then come ledger and heads, the
 * files and, last, the database, in one transaction. DF_E_NOT_FOUND: no point is that old.
 * DF_E_CONFIG: the master key is another. DF_E_INTERNAL: an object is damaged or missing; the
 * message names it.
 */
enum df_code df_restore_point(const struct df_restore_options *opt, struct df_restored *ret,
                              struct df_err *err) DF_MUST_CHECK;

#endif
