/*
 * New values for records that failed, given with a retry: they replace cells of the record as it
 * was uploaded, and the record goes through the normaliser again, by the batch's own mapping and
 * origin. What comes of it takes the place of what was kept (imports/kept.h), so it is encrypted
 * like that, and goes with it. All or nothing: if one record still cannot be sent, nothing is
 * changed. Private to imports/api.
 */
#ifndef DF_IMPORTS_MEND_H
#define DF_IMPORTS_MEND_H

#include "access/handler.h"
#include "base/uuid.h"
#include "imports/imports.h"

#define DF_MEND_ITEMS 10000              /* of a call */
#define DF_MEND_BYTES ((size_t)32 << 20) /* of the records of a call, as they are stored */

struct df_mend_item {
    int64_t sequence;
    size_t index; /* in the call's list */
    struct df_json values;
};

struct df_mend {
    struct df_mend_item *items; /* by sequence */
    size_t count;               /* 0: the call gives no values */
    struct df_field_error errors[DF_INPUT_ERRORS_MAX];
    size_t error_count;
};

/* Reads the body, if it is JSON. False: the answer is set. */
bool df_mend_read(struct df_mend *m, struct df_req *req, struct df_input *in);

/*
 * Mends the records, in the caller's transaction, which has locked the batch. DF_E_VALIDATION:
 * m->errors name what is wrong. May run more than once.
 */
enum df_code df_mend_run(struct df_db *db, struct df_mend *m, const struct df_imports *i,
                         struct df_req *req, const struct df_uuid *batch, bool expired,
                         int64_t now_ms, struct df_err *err) DF_MUST_CHECK;

#endif
