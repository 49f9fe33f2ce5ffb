/*
 * Lists as CSV: page by page into a temporary file that the answer is sent from, so that no more
 * than a page is in memory. At most ?limit= rows; if there are more, X-Next-After has the cursor.
 * Cells that a spreadsheet would run as a formula get an apostrophe (tabular/formula.h).
 *
 * An export is a handler in two steps: DF_EXPORT_AUDITED writes an entry of the audit log, and then
 * `reading`, whose run calls df_export_run, reads.
 */
#ifndef DF_ACCESS_EXPORT_H
#define DF_ACCESS_EXPORT_H

#include "access/handler.h"
#include "access/list.h"

#define DF_EXPORT_ROWS INT64_C(50000) /* unless the caller asks for another number */
#define DF_EXPORT_MAX  INT64_C(100000)

/* The first member of the handler's own struct. */
struct df_export {
    struct df_work w;
    const struct df_handler *reading;
    const char *name;     /* "tickets": of the file, and in the audit log */
    const char *temp_dir; /* where the temporary file lies */
    int64_t rows;         /* that may still be written */
    struct df_buf text;   /* of the page in hand */
    int fd;
    uint64_t size;
};

/* Reads ?limit=, ?after= and ?order=. */
void df_export_read(struct df_export *e, struct df_input *in, const char *name,
                    const char *temp_dir, const char *list, bool by_uuid,
                    const struct df_handler *reading);

/* Writes the header and, page by page, what `page` adds to e->text. `page` reads w->page, whose
 * size is set, without its total. */
enum df_code df_export_run(struct df_export *e, struct df_db *db, const char *header,
                           enum df_code (*page)(struct df_db *db, struct df_export *e,
                                                struct df_err *err),
                           struct df_err *err) DF_MUST_CHECK;

/* Hooks of the two handlers. */
enum df_code df_export_audit(struct df_db *db, struct df_work *w, struct df_err *err);
bool df_export_begin(struct df_work *w, enum df_code code, const struct df_err *err);
void df_export_answer(struct df_work *w);
void df_export_clean(struct df_work *w);

#define DF_EXPORT_AUDITED(struct_, prepare_)                                                       \
    {                                                                                              \
        .size = sizeof(struct_), .writes = true, .prepare = (prepare_), .run = df_export_audit,    \
        .pass_on = df_export_begin, .cleanup = df_export_clean                                     \
    }
#define DF_EXPORT_READING(struct_, run_)                                                           \
    {                                                                                              \
        .size = sizeof(struct_), .run = (run_), .done = df_export_answer,                          \
        .cleanup = df_export_clean                                                                 \
    }

/* A cell, and what follows it: ',' or '\n'. */
void df_csv_text(struct df_buf *out, struct df_str s, char end);
void df_csv_int(struct df_buf *out, int64_t n, char end);
void df_csv_time(struct df_buf *out, int64_t wall_ms, char end); /* -1: empty */

#endif
