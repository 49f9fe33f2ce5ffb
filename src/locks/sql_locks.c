/*
 * Locks as rows of the database (NamedLocks).
 *
 * A row is taken from its owner when its lease is over by the database's clock, or when it was seen
 * unchanged for the length of its lease by the clock of the one who wants it. On SQLite only the
 * second counts: its clock is the wall clock of whoever asks, which may jump. Elsewhere the second
 * ends leases that were written before the database's clock went back.
 */
#include "base/mem.h"
#include "locks/locks.sql.h"
#include "locks/locks_private.h"

#include <stdio.h>
#include <stdlib.h>

#define SEEN_MAX 64 /* the oldest is forgotten, and so judged by the database's clock only */

struct seen {
    char name[DF_LOCK_NAME_MAX + 1];
    char owner[LOCK_VALUE_LEN + 1];
    int64_t renewals;
    int64_t since_ms; /* boot */
};

struct sql_locks {
    struct lock_provider base;
    const struct df_locks_options *opt;
    struct df_mutex lock;
    struct seen seen[SEEN_MAX] DF_GUARDED_BY(lock);
    size_t next DF_GUARDED_BY(lock); /* to be overwritten */
};

struct lock_row {
    bool found;
    char owner[LOCK_VALUE_LEN + 1];
    int64_t lease_ms;
    int64_t renewals;
    bool expired;
};

struct sql_job {
    struct df_job job;
    const struct sql_locks *s;
    const struct lock_want *want;
    struct lock_row row;
    int64_t affected;
};

static struct df_value name_of(const struct sql_job *j)
{
    return df_text(df_str_c(j->want->name));
}

static struct df_value lease_of(const struct sql_job *j)
{
    return df_int(j->s->opt->settings.lease_ms);
}

static void read_row(void *arg, struct df_result *r)
{
    struct lock_row *row = arg;

    (void)snprintf(row->owner, sizeof row->owner, DF_STR_FMT,
                   DF_STR_ARG(df_col_text(r, lock_read_Owner)));
    row->lease_ms = df_col_int(r, lock_read_LeaseMs);
    row->renewals = df_col_int(r, lock_read_Renewals);
    row->expired = df_col_int(r, lock_read_Expired) != 0;
}

static enum df_code run_read(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct sql_job *j = (struct sql_job *)job;

    return df_db_one(db, DF_Q(lock_read, .name = name_of(j)), read_row, &j->row, &j->row.found,
                     err);
}

static enum df_code run_add(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct sql_job *j = (struct sql_job *)job;

    return df_db_exec(db,
                      DF_Q(lock_add, .name = name_of(j), .owner = df_text(df_str_c(j->want->value)),
                           .lease_ms = lease_of(j)),
                      &j->affected, err);
}

/* From the owner in row.owner, which may be the one who wants it. */
static enum df_code run_take(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct sql_job *j = (struct sql_job *)job;

    return df_db_exec(db,
                      DF_Q(lock_take, .owner = df_text(df_str_c(j->want->value)),
                           .lease_ms = lease_of(j), .name = name_of(j),
                           .seen = df_text(df_str_c(j->row.owner)),
                           .renewals = df_int(j->row.renewals)),
                      &j->affected, err);
}

static enum df_code run_drop(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct sql_job *j = (struct sql_job *)job;
    char pattern[LOCK_VALUE_LEN + 2];

    (void)snprintf(pattern, sizeof pattern, "%s%%", j->want->value);
    return df_db_exec(
        db, DF_Q(lock_drop, .name = name_of(j), .pattern = df_text(df_str_c(pattern))), NULL, err);
}

typedef enum df_code run_lock(struct df_db *db, struct df_job *job, struct df_err *err);

static enum df_code write_lock(struct sql_job *j, run_lock *run, struct df_err *err)
{
    j->job = (struct df_job){.run = run};
    j->affected = 0;
    return df_store_write_wait(j->s->opt->store, &j->job, err);
}

static void sql_drop(struct lock_provider *p, const struct lock_want *want)
{
    struct sql_job j = {.s = (struct sql_locks *)p, .want = want};
    struct df_err err = DF_ERR_INIT;
    (void)write_lock(&j, run_drop, &err); /* else it ends with its lease */
}

/* For how long the row has been as it is. */
static int64_t unchanged_ms(struct sql_locks *s, const char *name, const struct lock_row *row)
{
    int64_t now_ms = df_boot_ms(s->opt->clock);
    struct seen *at = NULL;

    df_lock(&s->lock);
    for (size_t i = 0; i < SEEN_MAX && !at; i++)
        at = strcmp(s->seen[i].name, name) == 0 ? &s->seen[i] : NULL;
    if (!at) {
        at = &s->seen[s->next];
        s->next = (s->next + 1) % SEEN_MAX;
        at->owner[0] = '\0';
    }
    if (strcmp(at->owner, row->owner) != 0 || at->renewals != row->renewals) {
        (void)snprintf(at->name, sizeof at->name, "%s", name);
        (void)snprintf(at->owner, sizeof at->owner, "%s", row->owner);
        at->renewals = row->renewals;
        at->since_ms = now_ms;
    }
    int64_t since_ms = at->since_ms;
    df_unlock(&s->lock);
    return now_ms - since_ms;
}

static bool is_over(struct sql_locks *s, const char *name, const struct lock_row *row)
{
    int64_t unchanged = unchanged_ms(s, name, row);

    return (row->expired && df_store_dialect(s->opt->store) != DF_SQLITE) ||
           unchanged > row->lease_ms;
}

static enum lock_answer sql_acquire(struct lock_provider *p, const struct lock_want *want,
                                    char holder[LOCK_VALUE_LEN + 1], struct df_err *err)
{
    struct sql_locks *s = (struct sql_locks *)p;
    struct sql_job j = {.job = {.run = run_read}, .s = s, .want = want};

    if (df_store_read_wait(s->opt->store, &j.job, err) != DF_OK)
        return LOCK_AWAY;
    (void)snprintf(holder, LOCK_VALUE_LEN + 1, "%s", j.row.owner);
    if (j.row.found && !is_over(s, want->name, &j.row))
        return LOCK_NO;
    if (write_lock(&j, j.row.found ? run_take : run_add, err) != DF_OK) {
        sql_drop(p, want); /* a commit whose outcome is not known */
        return LOCK_AWAY;
    }
    return j.affected == 1 ? LOCK_YES : LOCK_NO;
}

static enum lock_answer sql_extend(struct lock_provider *p, const struct lock_want *want,
                                   struct df_err *err)
{
    struct sql_job j = {.s = (struct sql_locks *)p, .want = want, .row = {.renewals = -1}};

    (void)snprintf(j.row.owner, sizeof j.row.owner, "%s", want->value);
    if (write_lock(&j, run_take, err) != DF_OK)
        return LOCK_AWAY;
    return j.affected == 1 ? LOCK_YES : LOCK_NO;
}

/* Whether the database is there is told by its own check. */
static bool sql_well(struct lock_provider *p, struct df_err *err)
{
    (void)p, (void)err;
    return true;
}

static void sql_free(struct lock_provider *p)
{
    struct sql_locks *s = (struct sql_locks *)p;

    df_mutex_destroy(&s->lock);
    free(s);
}

static const struct lock_provider_ops sql_ops = {.acquire = sql_acquire,
                                                 .extend = sql_extend,
                                                 .drop = sql_drop,
                                                 .well = sql_well,
                                                 .free = sql_free};

struct lock_provider *sql_locks_new(const struct df_locks_options *opt)
{
    struct sql_locks *s = df_calloc(1, sizeof *s);

    s->base.ops = &sql_ops;
    s->opt = opt;
    df_mutex_init(&s->lock);
    return &s->base;
}

static enum df_code run_sweep(struct df_db *db, struct df_job *job, struct df_err *err)
{
    (void)job;
    return df_db_exec(db, DF_Q0(lock_sweep), NULL, err);
}

enum df_code sql_locks_sweep(const struct df_locks_options *opt, struct df_err *err)
{
    struct df_job job = {.run = run_sweep};
    return df_store_write_wait(opt->store, &job, err);
}
