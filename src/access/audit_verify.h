/*
 * Verifies the chain of the audit log: against itself, against AuditHead and the stub of retention,
 * and against the heads that were kept in a file. Works on a database in use, page by page.
 *
 *   kind            what was found
 *   changed         an entry does not have its hash: somebody changed it or put it there
 *   missing         entries between two others are gone
 *   repeated        more rows than numbers: rows were copied, or put where a stub stands
 *   cut             the chain ends before the head, or before one that the file has
 *   replaced        another entry stands where the file has seen one
 *   head            AuditHead does not name the last entry
 *   stub            a stub without the right signature
 *   foreign         an entry that no server of this release has written, and no upgrade explains
 *   unsealed        entries without a number, longer than an hour beside others that have one
 *   file            a line of the file without the right signature
 *
 * An entry DatabaseRestored explains heads of the file that are not later than itself and not past
 * the head that it names.
 */
#ifndef DF_ACCESS_AUDIT_VERIFY_H
#define DF_ACCESS_AUDIT_VERIFY_H

#include "access/audit_heads.h"

struct df_audit_finding {
    const char *kind;
    int64_t sequence;
    int64_t time_ms; /* of the entry, or of the one before what is missing; 0: not known */
    const char *text;
};

struct df_audit_report {
    int64_t entries;  /* in the chain */
    int64_t removed;  /* by retention, before them */
    int64_t sealed;   /* of the entries: written by older releases, sealed later */
    int64_t unsealed; /* not sealed yet */
    int64_t last;     /* the last number */
    int64_t findings;
};

/* `found` is called for each finding. Needs the keys (df_audit_use_keys). */
enum df_code df_audit_verify(struct df_db *db, const struct df_audit_heads *heads, int64_t now_ms,
                             void (*found)(void *arg, const struct df_audit_finding *f), void *arg,
                             struct df_audit_report *ret, struct df_err *err) DF_MUST_CHECK;

/* A quick look: whether the last head of the file is no longer in the database. ret_line gets it.
 * Without keys, a stub is believed. */
enum df_code df_audit_is_behind(struct df_db *db, const struct df_audit_heads *heads,
                                bool *ret_behind, struct df_audit_head *ret_line,
                                struct df_err *err) DF_MUST_CHECK;

#endif
