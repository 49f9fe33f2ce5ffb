/* What is stored about a person, as JSON: for the administrator and for the command. */
#ifndef DF_RETENTION_SUBJECTS_REPORT_H
#define DF_RETENTION_SUBJECTS_REPORT_H

#include "access/audit.h"
#include "retention/subjects_find.h"

struct df_json_out;

#define DF_REPORT_BYTES ((size_t)40 << 20) /* of an answer, at most */

/* Opens what is kept of an item that failed: the record as uploaded, the item as sent. Either may
 * be absent. Memory: the arena. */
struct df_subject_kept {
    enum df_code (*open)(struct df_keys *keys, struct df_str batch, int64_t sequence,
                         struct df_str sealed, struct df_arena *a, struct df_str *ret_record,
                         struct df_str *ret_item, struct df_err *err);
};

struct df_subject_question {
    struct df_keys *keys;
    const struct df_subject_kept *kept; /* NULL: what is kept is not shown */
    struct df_subject subject;
    bool full;           /* with the payloads: an export */
    int64_t size;        /* places on a page */
    size_t max_bytes;    /* the page ends behind the place that reaches it; 0: 8 MiB */
    struct df_str after; /* the cursor of the page before; absent: the first page */
};

/* False: no cursor of ours. */
bool df_subject_cursor_valid(struct df_str after);

/* Writes the audit log's row of a question, which is written before the answer is looked for. */
enum df_code df_subject_audit(struct df_db *db, const struct df_subject_question *q,
                              const struct df_actor *by, int64_t now_ms,
                              struct df_err *err) DF_MUST_CHECK;

/* Writes one page. Memory: the arena. */
enum df_code df_subject_report(struct df_db *db, const struct df_subject_question *q,
                               struct df_arena *a, struct df_json_out *out,
                               struct df_err *err) DF_MUST_CHECK;

#endif
