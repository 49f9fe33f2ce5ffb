/*
 * Erasing a person from what is stored: a job of purge (purge.h) whose target is the person's keyed
 * hash. The documents that name the person are found by the index (subjects_find.h); what they say
 * is replaced by {"erased":true}, and they can't be sent or processed again. Rows, states and
 * counts stay. A document that is on its way is erased once it has arrived or was given up, and so
 * is what a batch stores that was not read yet; one that came after the erasure stays as it is.
 *
 * Every erasure stands in the table Erasures and in a ledger outside of the database,
 * data_dir/erasures, which a restore does not set back: entries of it that the table does not have
 * are applied again.
 */
#ifndef DF_RETENTION_ERASE_H
#define DF_RETENTION_ERASE_H

#include "retention/purge_private.h"

#define ERASED DF_STR("{\"erased\":true}")

/* "phone:0123…", and back. */
void erase_target_write(const struct df_subject *s, char out[101]);
bool erase_target_read(const char *target, struct df_subject *ret);

/* What names the person; documents on their way are `skipped`. */
enum df_code erase_estimate(struct df_db *db, struct purge_job *j,
                            struct df_err *err) DF_MUST_CHECK;
/* Lists the documents on their way in ret->waiting. */
enum df_code erase_waiting(struct df_purge *p, struct purge_job *j, struct df_purge_outcome *ret,
                           struct df_err *err) DF_MUST_CHECK;
/* A step of the job: some hundred documents, or some chunks of items. */
enum df_code erase_step(struct df_purge *p, struct purge_job *j, struct df_err *err) DF_MUST_CHECK;

/* --- ledger.c --- */

#define LEDGER_LINE_MAX 256

struct ledger_entry {
    struct df_uuid id;
    char target[101];
    int64_t erased_ms;
    bool in_table;
};

/* A line with its newline; returns its length. */
size_t ledger_line_write(const struct df_keys *k, const struct ledger_entry *e,
                         char out[LEDGER_LINE_MAX]);
/* A line without its newline. False: it is damaged, or was not written under this key. */
bool ledger_line_read(const struct df_keys *k, struct df_str line, struct ledger_entry *ret);

/* Into the table, in the transaction that makes the job. */
enum df_code ledger_insert(struct df_db *db, const struct purge_job *j, int64_t now_ms,
                           struct df_err *err) DF_MUST_CHECK;
/* Into the file; returns when it is on the disk. */
enum df_code ledger_append(const struct df_purge *p, const struct purge_job *j,
                           struct df_err *err) DF_MUST_CHECK;
/* Brings table and file together: entries that only the file has become jobs. */
enum df_code ledger_sync(struct df_purge *p, struct df_err *err) DF_MUST_CHECK;

#endif
