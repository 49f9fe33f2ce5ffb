/*
 * The retention job: removes what has been over for longer than [retention] says, in small steps
 * that no request feels. One kind after the other, each by an index, behind a cursor; a step reads
 * a portion of keys on a reader, then removes those that are over in one short transaction, and the
 * portion adapts so that this takes some 4 ms. After it the job rests four times as long. What
 * waits or was given up is never removed.
 *
 * One process at a time runs it (MaintenanceRuns); two at once would only do double work.
 */
#ifndef DF_RETENTION_RETENTION_H
#define DF_RETENTION_RETENTION_H

#include "files/storage.h"
#include "net/http.h"
#include "retention/batches.h"
#include "retention/settings.h"
#include "store/store.h"

struct df_retention;

struct df_retention_options {
    const char *url; /* of the database; space is given back on a connection of its own */
    struct df_store *store;
    struct df_storage *storage;
    const struct df_clock *clock;
    struct df_retention_settings settings;
};

struct df_retention *df_retention_new(const struct df_retention_options *opt);
void df_retention_free(struct df_retention *r);

/* One small step; returns the milliseconds until the next, or DF_LOOP_FAILED (the error is logged).
 * A run begins with the first call, and an hour after the last one ended. */
int64_t df_retention_turn(struct df_retention *r);

/* --- for the command --- */

/* What was removed by the last run, or would be: rows of each kind. */
#define DF_RETENTION_KINDS_MAX 16
struct df_retention_count {
    const char *kind;
    const char *setting; /* that has its days */
    int64_t days;        /* 0: for ever */
    int64_t rows;
    bool is_at_least; /* there are more: the count was broken off */
};
/* Runs to the end. ret has room for DF_RETENTION_KINDS_MAX; returns in *ret_count how many kinds
 * there are. */
enum df_code df_retention_run(struct df_retention *r, struct df_retention_count *ret,
                              size_t *ret_count, struct df_err *err) DF_MUST_CHECK;
/* A dry run: counts what a run would remove at this time. */
enum df_code df_retention_count(struct df_store *store,
                                const struct df_retention_settings *settings, int64_t now_ms,
                                struct df_retention_count *ret, size_t *ret_count,
                                struct df_err *err) DF_MUST_CHECK;

/* --- GET /admin/retention --- */

struct df_retention_view {
    const struct df_retention_settings *settings;
    _Atomic bool counting; /* for a request; one at a time */
};
/* Their argument is a struct df_retention_view. */
extern const struct df_route df_retention_routes[];

#endif
