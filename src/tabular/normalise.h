/*
 * Turns a record of a file into the item that is sent to OmniFlow. Names in Portuguese or English
 * become the canonical ones, the phone becomes E.164, a missing origin gets the default, the
 * property's context becomes JSON, and everything else goes under LeadContextJson. docs/imports.md
 * has the tables; the tests read them there.
 *
 * The same records in the same order always give the same items. One thread at a time.
 */
#ifndef DF_TABULAR_NORMALISE_H
#define DF_TABULAR_NORMALISE_H

#include "base/buf.h"
#include "tabular/mapping.h"
#include "tabular/records.h"

enum df_item_verdict {
    DF_ITEM_SEND,
    DF_ITEM_ERROR,   /* cannot be sent: the reason says why */
    DF_ITEM_SKIPPED, /* an empty row, or a repeat of an earlier record of the file */
};

struct df_normalise_options {
    struct df_str origin_default;     /* absent: none */
    const char *temp_dir;             /* for the set of records seen, when it outgrows memory */
    size_t seen_bytes;                /* memory for that set; 0: the default of seen.h */
    const struct df_mapping *mapping; /* what the client says of columns; NULL: nothing */
    bool keeps_repeats;               /* a repeat of an earlier record is sent too */
};

struct df_normaliser;

struct df_normaliser *df_normaliser_new(const struct df_normalise_options *opt);
void df_normaliser_free(struct df_normaliser *n);

/*
 * Appends the item to out as one JSON object, whatever the verdict: items that are not sent are
 * stored too. sequence is the record's place in the file, from 0, and the item's first member.
 * *ret_reason (static, or valid until the next call) is set unless the verdict is SEND. An error
 * means memory or disk; a bad record is a verdict.
 */
enum df_code df_normalise(struct df_normaliser *n, const struct df_record *record, int64_t sequence,
                          struct df_buf *out, enum df_item_verdict *ret_verdict,
                          struct df_str *ret_reason, struct df_err *err) DF_MUST_CHECK;

/* After a verdict other than SEND: the stable code of its reason, "PhoneMissing", …
 * (docs/imports.md has all). Static. */
const char *df_normaliser_code(const struct df_normaliser *n);

/* True when no field has a value (no fields, or white space and nulls only); df_normalise then
 * answers SKIPPED. */
bool df_record_is_empty(const struct df_record *record);

/* Normalises one phone: writes E.164 into out (at least 17 bytes), or returns false and why. */
bool df_phone_normalise(struct df_str text, char *out, const char **ret_why);
/* The code of a reason that df_phone_normalise gave. Static. */
const char *df_phone_code(const char *why);

#endif
