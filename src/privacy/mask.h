/*
 * Masks JSON documents before they are stored ([sensitive_data]): the values of fields whose name
 * says that they are about a person, and every other value that is a valid CPF, CNPJ, phone or
 * e-mail address. What is sent to others is never masked.
 */
#ifndef DF_PRIVACY_MASK_H
#define DF_PRIVACY_MASK_H

#include "base/err.h"
#include "base/personal.h" /* df_mask_note: free text */
#include "privacy/settings.h"

struct df_keys;
struct df_masker; /* immutable: any thread may use it */

#define DF_HASHED_GROWTH                                                                           \
    24 /* bytes that one byte of a document can become at most: a hash for "1," */
#define DF_MASK_HASH_LEN 64 /* hexadecimal digits of a keyed hash */

/* The keys must outlive it; without them (NULL) it is only good for checking the settings.
 * DF_E_CONFIG: the list of fields is not valid. */
enum df_code df_masker_new(const struct df_sensitive_settings *s, struct df_keys *keys,
                           struct df_masker **ret, struct df_err *err) DF_MUST_CHECK;
void df_masker_free(struct df_masker *m);

/* Whether documents are masked at all: false in mode `keep`. */
bool df_masker_masks(const struct df_masker *m);

/*
 * Appends the JSON text with its sensitive members masked, hashed or dropped: valid JSON without
 * white space between tokens, or, if there is nothing to mask, the text as it is. A text that is
 * not JSON, or is nested deeper than DF_JSON_DEPTH, goes through df_mask_text. In mode `keep` the
 * text is appended as it is. Linear in its length.
 */
void df_mask_json(const struct df_masker *m, struct df_str json, struct df_buf *out);

/*
 * What a peer answered, cut at max_units (df_utf8_cut). A document is masked as above, and may be
 * cut off: what stands behind its last whole value is left out. Anything else, and everything in
 * mode `keep`, is free text (df_mask_note). Memory: the arena.
 */
struct df_str df_mask_answer(const struct df_masker *m, struct df_str text, size_t max_units,
                             struct df_arena *a);

/* The keyed hash of a whole text, in hexadecimal: the same text again is recognised by it. */
void df_mask_hash(const struct df_masker *m, struct df_str text, char out[DF_MASK_HASH_LEN + 1]);

#endif
