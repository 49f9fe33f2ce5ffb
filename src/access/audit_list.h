/* Reading the audit log: filters, pages, CSV. */
#ifndef DF_ACCESS_AUDIT_LIST_H
#define DF_ACCESS_AUDIT_LIST_H

#include "store/db.h"
#include "json/write.h"

/* What is not given is absent, or 0. */
struct df_audit_filter {
    struct df_str actor, action, target, outcome;
    struct df_str client;   /* its identifier */
    int64_t from_ms, to_ms; /* to_ms 0: no end */
    bool oldest_first;
    int64_t after; /* the cursor: entries behind this id in the order; 0: from the start */
};

/* At most this many rows are looked at for a page; a page that they do not fill has a cursor to go
 * on from. */
#define DF_AUDIT_SCAN_ROWS INT64_C(200000)

struct df_audit_page {
    int64_t limit, offset;
    /* The answer. */
    int64_t shown;
    int64_t next; /* cursor; 0: there is no more */
    int64_t total;
    bool total_is_estimate; /* it is exact up to 10,000 */
};

/* total is left 0. */
enum df_code df_audit_json(struct df_db *db, const struct df_audit_filter *f,
                           struct df_audit_page *page, struct df_json_out *out,
                           struct df_err *err) DF_MUST_CHECK;
/* Rows of CSV, without the header line. Cells that begin like a formula get an apostrophe. */
enum df_code df_audit_csv(struct df_db *db, const struct df_audit_filter *f,
                          struct df_audit_page *page, struct df_buf *out,
                          struct df_err *err) DF_MUST_CHECK;
void df_audit_csv_header(struct df_buf *out);
/* Lines for people: time, actor, action, target, outcome. */
enum df_code df_audit_text(struct df_db *db, const struct df_audit_filter *f,
                           struct df_audit_page *page, struct df_buf *out,
                           struct df_err *err) DF_MUST_CHECK;

enum df_code df_audit_count(struct df_db *db, const struct df_audit_filter *f,
                            struct df_audit_page *page, struct df_err *err) DF_MUST_CHECK;

#endif
