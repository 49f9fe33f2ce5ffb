/*
 * Where a person is stored: the rows whose entries in SubjectIndex and ImportSubjects have the
 * person's hash. The first goes by an index; the second is read whole, in steps.
 */
#ifndef DF_RETENTION_SUBJECTS_FIND_H
#define DF_RETENTION_SUBJECTS_FIND_H

#include "privacy/subjects.h"

struct df_found {
    const char *place; /* "ticket", "counterparty", "ack", "event", "call", "batch", "item" */
    struct df_str row; /* its id as text; of an item: its batch's */
    int64_t sequence;  /* of an item in its batch; else -1 */
    bool waits; /* it is on its way: not processed or not sent yet, or its batch is not over */
};

#define DF_FOUND_MAX 100000 /* more places of one person are not found at once */

/*
 * Calls `each` for every place where the person is stored, once for each, ordered by place, row and
 * sequence; the text is borrowed until it returns. `each` may use the connection. Outside of a
 * transaction of the caller's, several statements are read one after the other. DF_E_TOO_LARGE:
 * there are more than DF_FOUND_MAX, and `each` was not called.
 */
enum df_code df_subjects_find(struct df_db *db, const struct df_subject *s,
                              void (*each)(void *arg, const struct df_found *f), void *arg,
                              struct df_err *err) DF_MUST_CHECK;

/* The same of any number, as they come; a place may come twice. `each` may not use the connection.
 */
enum df_code df_subjects_each(struct df_db *db, const struct df_subject *s,
                              void (*each)(void *arg, const struct df_found *f), void *arg,
                              struct df_err *err) DF_MUST_CHECK;

#endif
