/*
 * People in stored documents, for the administrator (docs/subjects.md), and the entries of
 * documents that an earlier release stored.
 */
#ifndef DF_RETENTION_SUBJECTS_H
#define DF_RETENTION_SUBJECTS_H

#include "net/http.h"
#include "store/store.h"

struct df_keys;
struct df_subject_fill;

struct df_subject_kept;

/* For administrators. Their argument is a struct df_subject_kept, or NULL. */
extern const struct df_route df_subject_routes[];

/* Tables that are gone through: so many rows of SubjectFill are done at the end. */
#define DF_SUBJECT_SOURCES 7

struct df_subject_fill_options {
    struct df_store *store;
    const struct df_keys *keys;
    const struct df_clock *clock;
};

struct df_subject_fill *df_subject_fill_new(const struct df_subject_fill_options *opt);
void df_subject_fill_free(struct df_subject_fill *f); /* NULL is fine */

/*
 * One small step through the tables: reads some rows behind the stored position, and writes their
 * entries and the new position in one transaction. Returns the milliseconds until the next step, or
 * DF_LOOP_FAILED. When all tables are through, removes entries whose document is gone, once a day.
 * Several processes may do it: the position is fenced, so that a step counts once.
 */
int64_t df_subject_fill_turn(struct df_subject_fill *f);

/* The whole walk, on a connection without a transaction: before older rows are masked. */
enum df_code df_subject_fill_all(struct df_db *db, const struct df_keys *keys,
                                 const struct df_clock *clock, struct df_err *err) DF_MUST_CHECK;

#endif
