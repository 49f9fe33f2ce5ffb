/*
 * Numbers and addresses of people, found in text. Documents are Brazil's: CPF (11 digits) and CNPJ
 * (14 characters: digits, or letters and digits as issued since July 2026), both checked by their
 * last two digits. Used wherever a text is logged, kept or shown, and to look a person up.
 */
#ifndef DF_BASE_PERSONAL_H
#define DF_BASE_PERSONAL_H

#include "base/arena.h"
#include "base/buf.h"

enum df_document { DF_DOCUMENT_NONE, DF_DOCUMENT_CPF, DF_DOCUMENT_CNPJ };

#define DF_DOCUMENT_MAX 15

/* The document in its plain form ("12ABC34501DE35"): without dots, slash, dash and spaces, in
 * capitals. NONE: the text, as a whole, is no document, or its check digits are wrong. */
enum df_document df_document_parse(struct df_str text, char out[DF_DOCUMENT_MAX]);

/* Whether the text, as a whole, is an e-mail address; out gets it in lower case. */
#define DF_EMAIL_MAX 255
bool df_email_parse(struct df_str text, char out[DF_EMAIL_MAX]);

/*
 * Appends the text with every CPF, CNPJ, phone and e-mail address in it masked: the last two
 * characters of a number stay ("*********35"), and of an address the first letter and the domain's
 * end. Everything else is as it was, and so is the length: UUIDs, hashes and times are left alone.
 * Linear in the text's length.
 */
bool df_mask_text(struct df_str text, struct df_buf *out); /* true: something was found */
/* Whether df_mask_text would find something. */
bool df_text_is_personal(struct df_str text);

/* The same, in the text itself. */
bool df_mask_in_place(char *text, size_t len);

/* A text that may quote data (an error, the answer of a peer), masked, and cut at this many units
 * (df_utf8_cut) of whole characters. Memory: the arena. An absent text stays absent. */
struct df_str df_mask_note(struct df_str text, size_t max_units, struct df_arena *a);

#endif
