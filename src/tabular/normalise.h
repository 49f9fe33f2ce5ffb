/*
 * A record of a file as the item that is sent to OmniFlow: names in Portuguese or English become
 * the canonical ones, the phone becomes E.164, the origin is filled in, the property's context
 * becomes JSON, everything else goes under LeadContextJson. docs/imports.md has the tables; the
 * tests read them there.
 *
 * The same records in the same order give the same items: nothing depends on time or place. One
 * thread at a time.
 */
#ifndef DF_IMPORTS_NORMALISE_H
#define DF_IMPORTS_NORMALISE_H

#include "base/buf.h"
#include "tabular/records.h"

enum df_item_verdict {
    DF_ITEM_SEND,
    DF_ITEM_ERROR,   /* not fit to be sent: the reason says why */
    DF_ITEM_SKIPPED, /* an empty row, or a repeat of an earlier record of the file */
};

struct df_normalise_options {
    struct df_str origin_default; /* absent: none */
    const char *temp_dir;         /* for the memory of what was seen, when it is long */
    size_t seen_bytes;            /* of that memory before it goes to the disk; 0: as usual */
};

struct df_normaliser;

struct df_normaliser *df_normaliser_new(const struct df_normalise_options *opt);
void df_normaliser_free(struct df_normaliser *n);

/*
 * Appends the item as one JSON object to out, whatever the verdict: what is not sent is kept too,
 * as it was understood. sequence is the record's place in the file from 0 and stands in the item as
 * its first member. *ret_reason (static, or valid until the next call) is set unless it is SEND.
 * An error is one of memory or disk, never the record's.
 */
enum df_code df_normalise(struct df_normaliser *n, const struct df_record *record, int64_t sequence,
                          struct df_buf *out, enum df_item_verdict *ret_verdict,
                          struct df_str *ret_reason, struct df_err *err) DF_MUST_CHECK;

/* Nothing in it has a value: no field at all, or white space and nulls only. It will be SKIPPED. */
bool df_record_is_empty(const struct df_record *record);

/* The phone by itself: E.164 into out (at least 17 bytes), or false and why. */
bool df_phone_normalise(struct df_str text, char *out, const char **ret_why);

#endif
