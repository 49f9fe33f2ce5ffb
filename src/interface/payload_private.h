/*
 * Reads a body by places. A place is a value with the path to it, so that an error can name the
 * path as it was sent. Places are linked upwards and live on the reader's stack; a path is only
 * written out for an error.
 */
#ifndef DF_INTERFACE_PAYLOAD_PRIVATE_H
#define DF_INTERFACE_PAYLOAD_PRIVATE_H

#include "interface/payload.h"
#include "json/write.h"

#define DF_NO_INDEX SIZE_MAX

struct df_place {
    const struct df_place *up; /* NULL: the body itself */
    struct df_str name;
    size_t index;         /* DF_NO_INDEX: not an entry of an array */
    struct df_json value; /* null also means absent */
};

static inline bool df_place_is_there(const struct df_place *at)
{
    return at->value.type != DF_JSON_NULL;
}

void df_place_error(struct df_input *in, const struct df_place *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Opens the body. *ret is its member `envelope` if it has one (true), else the body itself. A body
 * or an envelope that is not one object is an error, and *ret is empty.
 */
bool df_place_open(struct df_input *in, const char *envelope, struct df_place *body,
                   struct df_place *ret);

/* The member of that name, in any case; two of them are an error. */
struct df_place df_place_member(struct df_input *in, const struct df_place *up, const char *name);

/* A member that must be an object; a blank one is absent. */
struct df_place df_place_part(struct df_input *in, const struct df_place *up, const char *name);

enum df_text_kind {
    DF_TEXT_CODE, /* without the blanks around it, no control characters */
    DF_TEXT_FREE, /* as sent */
};

/* One text member and where it goes: a struct df_str at `offset`. */
struct df_text_field {
    const char *name;
    size_t offset;
    size_t width;
    enum df_text_kind kind;
    enum df_need need;
};

#define DF_CODE(type, member, name, width)                                                         \
    {                                                                                              \
        name, offsetof(type, member), width, DF_TEXT_CODE, DF_OPTIONAL                             \
    }
#define DF_CODE_REQUIRED(type, member, name, width)                                                \
    {                                                                                              \
        name, offsetof(type, member), width, DF_TEXT_CODE, DF_REQUIRED                             \
    }
#define DF_FREE_TEXT(type, member, name, width)                                                    \
    {                                                                                              \
        name, offsetof(type, member), width, DF_TEXT_FREE, DF_OPTIONAL                             \
    }
#define DF_COUNT(array) (sizeof(array) / sizeof((array)[0]))

void df_place_texts(struct df_input *in, const struct df_place *up, const struct df_text_field *f,
                    size_t count, void *ret);
struct df_str df_place_text(struct df_input *in, const struct df_place *at, size_t width,
                            enum df_text_kind kind, enum df_need need);
bool df_place_bool(struct df_input *in, const struct df_place *up, const char *name);
/* A required whole number that fits an INT column. False: there is an error. */
bool df_place_int(struct df_input *in, const struct df_place *at, int *ret);

/* The index of one of the words, in any case; -1 and an error if it is another word or missing. */
int df_place_word(struct df_input *in, const struct df_place *at, const char *const *words,
                  size_t count);

/*
 * A list: `outer` is an array or a single entry, or an object around the member `inner` (which may
 * be NULL). Blank entries are skipped.
 *
 *     struct df_place_list l;
 *     df_place_list(in, up, "addressList", "address", &l);
 *     while (df_place_next(&l, &entry)) …            -- at most l.count times
 */
struct df_place_list {
    struct df_place outer;
    struct df_place holder;
    struct df_json_each each;
    size_t index; /* of the next entry; DF_NO_INDEX: a single entry without an array */
    size_t count; /* an upper bound; 0 also for a list that is too long */
    size_t left;
};

void df_place_list(struct df_input *in, const struct df_place *up, const char *outer,
                   const char *inner, struct df_place_list *ret);
bool df_place_next(struct df_place_list *l, struct df_place *ret);

/* functionalDocID. */
void df_doc_id_read(struct df_input *in, const struct df_place *at, size_t entity_width,
                    enum df_need entity, struct df_doc_id *ret);
void df_doc_id_write(struct df_json_out *j, const struct df_doc_id *doc);

/* targetApplications, as objects with applicationCode or as plain codes; returns how many. */
size_t df_targets_read(struct df_input *in, const struct df_place *up, struct df_str **ret);

#endif
