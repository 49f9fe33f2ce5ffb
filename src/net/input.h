/*
 * Reads a request's fields. All problems are collected, so that one answer names every bad field.
 * Names are matched without regard to case, and two spellings of one name are an error; booleans
 * and numbers may also be given as strings. Returned text is borrowed from the document's arena.
 *
 *     struct df_input in;
 *     if (!df_input_json(&in, req)) return;               -- answered 400
 *     struct df_str name = df_input_text(&in, "name", 120, DF_REQUIRED);
 *     if (!df_input_ok(&in, req)) return;                 -- answered 400 with `errors`
 */
#ifndef DF_NET_INPUT_H
#define DF_NET_INPUT_H

#include "net/cursor.h"
#include "net/http.h"
#include "json/doc.h"

#define DF_INPUT_ERRORS_MAX 64
/* The text for a member that is given `twice`. */
#define DF_INPUT_TWICE "stands twice, in two spellings"

enum df_need { DF_OPTIONAL, DF_REQUIRED };

struct df_input {
    struct df_arena *arena;
    const struct df_json *object;
    struct df_field_error errors[DF_INPUT_ERRORS_MAX];
    size_t error_count;
};

/* For input that has no body: query parameters, or an object parsed elsewhere (may be NULL). */
void df_input_init(struct df_input *in, struct df_arena *arena, const struct df_json *object);

/* Parses the request's body, which must be an object. False: the answer is set. */
bool df_input_json(struct df_input *in, struct df_req *req);
/* Charges the memory that parsing the body takes, where escaped texts are copied; for handlers that
 * parse by themselves. False: there is no memory, and the answer is set. */
bool df_input_charge(struct df_req *req);

void df_input_error(struct df_input *in, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* False: the answer (400 with every error) is set. */
bool df_input_ok(struct df_input *in, struct df_req *req);

/*
 * Text of at most max_chars characters. Absent or null: the absent slice, an error when required.
 * Required text may not be blank.
 */
struct df_str df_input_text(struct df_input *in, const char *field, size_t max_chars,
                            enum df_need need);
int64_t df_input_int(struct df_input *in, const char *field, int64_t min, int64_t max, int64_t def);
bool df_input_bool(struct df_input *in, const char *field, bool def);

/* Adds an error for each member of the object that is none of `names` (ended by NULL): a filter
 * with a misspelt member would match too much. */
void df_input_only(struct df_input *in, const char *const *names);

/* An integer among the query parameters. */
int64_t df_input_query_int(struct df_input *in, const struct df_req *req, const char *name,
                           int64_t min, int64_t max, int64_t def);

/* A query parameter as text, trimmed. Empty counts as absent, since a form sends all of its
 * fields. */
struct df_str df_input_filter(const struct df_req *req, const char *name);
/* The same for one of `names` (ended by NULL): matched without regard to case, returned as spelled
 * in `names`. */
struct df_str df_input_choice(struct df_input *in, const struct df_req *req, const char *name,
                              const char *const *names);

#define DF_PAGE_SIZE_DEFAULT 20
#define DF_PAGE_SIZE_MAX     200

struct df_page {
    int64_t page; /* from 1 */
    int64_t size;
    int64_t offset;
    const char *list; /* the name of a long list in its cursors; NULL: it has none */
    bool by_uuid;     /* its ids are UUIDs */
    bool oldest_first;
    bool from_cursor; /* behind the row that the cursor names */
    struct df_cursor cursor;
    /* For the answer. */
    int64_t total;
    bool total_is_estimate;
    char next[DF_CURSOR_TEXT_MAX + 1]; /* of a long list; empty: there is no more */
};

/* ?page= and ?pageSize=. */
void df_page_read(struct df_input *in, const struct df_req *req, struct df_page *ret);
/* The same for a long list, with ?after= and ?order=newest|oldest. */
void df_page_read_list(struct df_input *in, const struct df_req *req, const char *list,
                       bool by_uuid, struct df_page *ret);
/* Only ?after= and ?order=, for lists that are read whole. ret->list and ret->by_uuid are set. */
void df_page_read_place(struct df_input *in, const struct df_req *req, struct df_page *ret);

/* Goes to the next page of a long list. False: the last one was shown. */
bool df_page_forward(struct df_page *p);

struct df_json_out;
/* After the items array: "page", "pageSize", "total"; of a long list also "next",
 * unless it is the last page, and "totalIsEstimate" where it is one. */
void df_page_write(const struct df_page *p, struct df_json_out *out);
/* The parts of an answer {"items": [ … ], "page": …} before the items and after them. */
void df_page_open(struct df_json_out *out);
void df_page_close(const struct df_page *p, struct df_json_out *out);

#endif
