/*
 * People in documents. Each document that is stored has entries in SubjectIndex for the people that
 * it names, by phone, document (CPF, CNPJ) or e-mail address, so that what is stored about a person
 * is found without reading every document. An entry is a hash under the index key (keys/keys.h) of
 * the number in one canonical form: without the key nobody can tell whose it is. Items of imports
 * have their entries in ImportSubjects, a few hundred in one row.
 *
 * Recognised are
 *
 *     values of members whose name says phone or document, in Portuguese or English, as people
 *     write them: "(11) 98765-4321", 52998224725 (also as a number without its leading zeros)
 *     every other string that, as a whole, is a CPF or CNPJ with right check digits, a phone that
 *     begins with +, or an e-mail address
 *
 * also inside of strings that are JSON themselves. Numbers inside of free text are not.
 */
#ifndef DF_PRIVACY_SUBJECTS_H
#define DF_PRIVACY_SUBJECTS_H

#include "base/arena.h"
#include "base/buf.h"
#include "store/db.h"

struct df_keys;

enum df_subject_kind { DF_SUBJECT_PHONE = 1, DF_SUBJECT_DOCUMENT, DF_SUBJECT_EMAIL };

#define DF_SUBJECT_BYTES 16
#define DF_SUBJECTS_MAX  256 /* of one document; further ones are not found */

/* hash: the first bytes of the keyed hash of the canonical form. */
struct df_subject {
    enum df_subject_kind kind;
    unsigned char hash[DF_SUBJECT_BYTES];
};

const char *df_subject_kind_name(enum df_subject_kind kind); /* "phone", "document", "email" */
/* In hexadecimal, with the NUL. */
#define DF_SUBJECT_HEX (2 * DF_SUBJECT_BYTES + 1)
void df_subject_hex(const struct df_subject *s, char out[DF_SUBJECT_HEX]);
/* What the tables hold of the hash: its first eight bytes. */
int64_t df_subject_number(const struct df_subject *s);

/* A person as asked for; the canonical form is E.164, 11 or 14 characters, or lower case.
 * DF_E_VALIDATION: it is none, and why. */
enum df_code df_subject_parse(const struct df_keys *k, enum df_subject_kind kind,
                              struct df_str text, struct df_subject *ret,
                              struct df_err *err) DF_MUST_CHECK;

/* A person whose kind is not said. DF_E_SUBJECT_AMBIGUOUS: a number that may be a CPF or a phone.
 */
enum df_code df_subject_parse_any(const struct df_keys *k, struct df_str text,
                                  struct df_subject *ret, struct df_err *err) DF_MUST_CHECK;

/* --- who is named --- */

/* People found so far, without repeats. */
struct df_subjects {
    const struct df_keys *keys;
    struct df_subject *at;
    size_t max;
    size_t count;
};

/* A text that is not JSON counts up to the first error. */
void df_subjects_add_json(struct df_subjects *s, struct df_str json);
/* One value, with the name of its field (may be absent). */
void df_subjects_add_value(struct df_subjects *s, struct df_str name, struct df_str value);
/* "a=b&c=d", as in a URL behind the question mark, or in a form. */
void df_subjects_add_form(struct df_subjects *s, struct df_str form);
/* A call to an integration: its path with the query, and its body. */
void df_subjects_add_call(struct df_subjects *s, struct df_str path, struct df_str body);
/* The fields of an upload. */
void df_subjects_add_batch(struct df_subjects *s, struct df_str metadata,
                           struct df_str requested_by, struct df_str file_name);

/* Everybody named in a JSON document. Returns how many; linear in its length. */
size_t df_subjects_of(const struct df_keys *k, struct df_str json, struct df_subject *ret,
                      size_t max);
/* Makes s ready for DF_SUBJECTS_MAX people, who live in the arena. */
void df_subjects_begin(struct df_subjects *s, const struct df_keys *k, struct df_arena *a);
/* Everybody named in a JSON document, in the arena. */
struct df_subjects df_subjects_in(const struct df_keys *k, struct df_str json, struct df_arena *a);

/* --- entries --- */

/*
 * Replaces a document's entries, in the caller's transaction. place: "ticket", "callback" (of a
 * ticket), "counterparty", "ack", "event", "call" or "batch"; row: its id as text. A new document
 * (is_new) has no entries yet: with nobody in it, nothing is done.
 */
enum df_code df_subjects_write(struct df_db *db, const char *place, struct df_str row,
                               const struct df_subject *s, size_t n, bool is_new,
                               struct df_err *err) DF_MUST_CHECK;

struct df_subject_doc {
    const char *place;
    struct df_str row;
    const struct df_subject *subjects;
    size_t count;
    bool is_new;
};

/* The same for many, with at most two statements. */
enum df_code df_subjects_write_all(struct df_db *db, const struct df_subject_doc *docs, size_t n,
                                   struct df_arena *a, struct df_err *err) DF_MUST_CHECK;

/* Adds entries that are missing, and leaves the others: what is stored by now may be masked.
 * is_new does not matter. */
enum df_code df_subjects_add_all(struct df_db *db, const struct df_subject_doc *docs, size_t n,
                                 struct df_arena *a, struct df_err *err) DF_MUST_CHECK;

/* --- entries of imports' items --- */

#define DF_SUBJECT_ENTRY 13 /* eight bytes of the hash, the kind, four bytes of the sequence */

/* Appends the entries of an item. */
void df_subjects_add_item(const struct df_keys *k, struct df_str json, int64_t sequence,
                          struct df_buf *out);
/* Calls `each` for every item among the entries that names the person. */
void df_subjects_each_item(struct df_str entries, const struct df_subject *s,
                           void (*each)(void *arg, int64_t sequence), void *arg);
/* The entries of a chunk's items. chunk -1: of several chunks. */
struct df_subject_items {
    struct df_str batch;
    int64_t chunk;
    struct df_str entries;
};
/* Stores them, where there are any, in the caller's transaction. */
enum df_code df_subjects_write_items(struct df_db *db, const struct df_subject_items *all, size_t n,
                                     struct df_arena *a, struct df_err *err) DF_MUST_CHECK;

#endif
