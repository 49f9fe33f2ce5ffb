/*
 * Why items fail or are skipped, as stable codes (ImportItem.Reason). Those of records that were
 * not sent come from the normaliser; the others are here. docs/imports.md lists all of them.
 */
#ifndef DF_IMPORTS_REASONS_H
#define DF_IMPORTS_REASONS_H

#include "base/str.h"

#define IMPORT_REASON_REFUSED     "RefusedByOmniFlow"
#define IMPORT_REASON_SKIPPED     "SkippedByOmniFlow"
#define IMPORT_REASON_UNAVAILABLE "OmniFlowUnavailable"
#define IMPORT_REASON_NO_ACK      "AckTimeout"
#define IMPORT_REASON_NOT_KEPT    "RecordNotKept"

struct import_reason {
    const char *code;
    const char *text;  /* for people */
    bool is_retryable; /* the same record may succeed later */
    const char *field; /* the canonical column that it is about; NULL: none, or the whole record */
};

/* NULL: there is no such code. The code may be in any case. */
const struct import_reason *import_reason_find(struct df_str code);

#endif
