/*
 * The schema: idempotent scripts (scripts/<dialect>/NNN_*.sql), embedded in the binary, applied in
 * the order of their names and recorded in SchemaScripts with their checksum. A script that is
 * recorded with the same checksum is not run again; a changed one is, since scripts are idempotent.
 * Several replicas may start at once: one applies, the others wait and find nothing to do.
 *
 * Each script has a transaction of its own, but a new database (one without SchemaScripts) gets all
 * of them in one, so that it has the whole schema or nothing; not on SQL Server. If it is an empty
 * SQLite database, the scripts are not even run: the build has joined them
 * (tools/join_scripts.py), and the records are the same.
 *
 * A database that records scripts unknown to this binary was migrated by a newer one. Newer schemas
 * only add to older ones, so a replica of the old version goes on working; scripts that both
 * versions know are left as the newer one recorded them.
 *
 * To add a column: PostgreSQL has ADD COLUMN IF NOT EXISTS. For the other databases, the line
 *
 *     -- add column if missing: TABLE COLUMN
 *
 * stands before the ALTER TABLE statement, which is skipped when the table has the column already.
 */
#ifndef DF_STORE_SCHEMA_H
#define DF_STORE_SCHEMA_H

#include "base/buf.h"
#include "base/file.h"
#include "store/db.h"

/* ret_applied (may be NULL): how many scripts ran. */
enum df_code df_schema_apply(struct df_db *db, size_t *ret_applied,
                             struct df_err *err) DF_MUST_CHECK;

/* The same with other scripts than the embedded ones, in the order of their names. joined (may be
 * NULL) makes of an empty database what they do. */
enum df_code df_schema_apply_files(struct df_db *db, const struct df_file *files, size_t count,
                                   const struct df_file *joined, size_t *ret_applied,
                                   struct df_err *err) DF_MUST_CHECK;

/* DF_OK when every embedded script is recorded with its checksum; else DF_E_SCHEMA and the
 * reason. */
enum df_code df_schema_check(struct df_db *db, struct df_err *err) DF_MUST_CHECK;

/* The scripts of a dialect as they would be run and recorded,
 * for a DBA to read or to run by hand. */
void df_schema_print(enum df_dialect d, struct df_buf *out);

#endif
