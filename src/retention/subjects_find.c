#include "retention/subjects_find.h"

#include "base/mem.h"
#include "retention/subjects.sql.h"

#include <stdlib.h>

#define STEP 2000 /* rows of ImportSubjects that one statement looks through */

/* A place, as it is gathered. */
struct place {
    const char *place;
    const char *row; /* in the arena */
    int64_t sequence;
    bool waits;
};

struct finding {
    const struct df_subject *subject;
    struct df_arena arena;
    struct place *at;
    size_t count, cap;
    bool too_many;
    const char *place; /* of the query in hand */
    const char *row;   /* the batch of the items in hand */
    bool waits;
    /* Told at once, if not NULL. */
    void (*each)(void *arg, const struct df_found *found);
    void *arg;
};

static void add_place(struct finding *f, const char *row, int64_t sequence, bool waits)
{
    if (f->each) {
        f->each(f->arg,
                &(struct df_found){
                    .place = f->place, .row = df_str_c(row), .sequence = sequence, .waits = waits});
        return;
    }
    if (f->count == DF_FOUND_MAX) {
        f->too_many = true;
        return;
    }
    if (f->count == f->cap) {
        f->cap = f->cap ? f->cap * 2 : 64;
        f->at = df_realloc(f->at, f->cap * sizeof(*f->at));
    }
    f->at[f->count++] =
        (struct place){.place = f->place, .row = row, .sequence = sequence, .waits = waits};
}

static void read_place(void *arg, struct df_result *r)
{
    struct finding *f = arg;

    if (f->each)
        df_arena_reset(&f->arena);
    add_place(f, df_arena_cstr(&f->arena, df_col_text(r, subject_place_RowKey)), -1,
              df_col_int(r, subject_place_Waits) != 0);
}

static enum df_code find_documents(struct df_db *db, struct finding *f, struct df_err *err)
{
    static const struct {
        const char *place;
        const struct df_query *query;
    } places[] = {
        {"ticket", &df_q_subject_tickets}, {"counterparty", &df_q_subject_counterparties},
        {"ack", &df_q_subject_acks},       {"event", &df_q_subject_events},
        {"call", &df_q_subject_calls},     {"batch", &df_q_subject_batches},
    };
    enum df_code code = DF_OK;

    for (size_t i = 0; i < sizeof places / sizeof places[0] && code == DF_OK; i++) {
        f->place = places[i].place;
        code =
            df_db_each(db, DF_ANY(places[i].query, {"hash", df_int(df_subject_number(f->subject))}),
                       read_place, f, err);
    }
    return code;
}

/* --- items ------------------------------------------------------------------------------------ */

static void add_item(void *arg, int64_t sequence)
{
    struct finding *f = arg;
    add_place(f, f->row, sequence, f->waits);
}

static void read_entries(void *arg, struct df_result *r)
{
    struct finding *f = arg;

    if (f->each)
        df_arena_reset(&f->arena);
    f->row = df_arena_cstr(&f->arena, df_col_text(r, subject_items_BatchId));
    f->waits = df_col_int(r, subject_items_Waits) != 0;
    df_subjects_each_item(df_col_blob(r, subject_items_Entries), f->subject, add_item, f);
}

struct range {
    int64_t first, last;
};

static void read_range(void *arg, struct df_result *r)
{
    struct range *range = arg;

    range->first = df_col_int(r, subject_range_First);
    range->last = df_col_int(r, subject_range_Last);
}

static enum df_code find_items(struct df_db *db, struct finding *f, struct df_err *err)
{
    struct df_str hash = df_str_n((const char *)f->subject->hash, 8);
    struct range range = {0};
    enum df_code code = df_db_one(db, DF_Q0(subject_items_range), read_range, &range, NULL, err);

    f->place = "item";
    for (int64_t at = range.first; code == DF_OK && at <= range.last && !f->too_many; at += STEP)
        code = df_db_each(db,
                          DF_Q(subject_items, .first = df_int(at), .behind = df_int(at + STEP),
                               .hash = df_blob(hash)),
                          read_entries, f, err);
    return code;
}

/* --- the result ------------------------------------------------------------------------------- */

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int order = strcmp(x->place, y->place);

    if (order == 0)
        order = strcmp(x->row, y->row);
    return order ? order : (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

static void tell_places(const struct finding *f,
                        void (*each)(void *arg, const struct df_found *found), void *arg)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct place *p = &f->at[i];
        if (i > 0 && compare_places(p - 1, p) == 0)
            continue;
        each(arg, &(struct df_found){.place = p->place,
                                     .row = df_str_c(p->row),
                                     .sequence = p->sequence,
                                     .waits = p->waits});
    }
}

enum df_code df_subjects_each(struct df_db *db, const struct df_subject *s,
                              void (*each)(void *arg, const struct df_found *f), void *arg,
                              struct df_err *err)
{
    struct finding f = {.subject = s, .each = each, .arg = arg};

    df_arena_init(&f.arena);
    enum df_code code = find_documents(db, &f, err);
    if (code == DF_OK)
        code = find_items(db, &f, err);
    df_arena_release(&f.arena);
    return code;
}

enum df_code df_subjects_find(struct df_db *db, const struct df_subject *s,
                              void (*each)(void *arg, const struct df_found *f), void *arg,
                              struct df_err *err)
{
    struct finding f = {.subject = s};

    df_arena_init(&f.arena);
    enum df_code code = find_documents(db, &f, err);
    if (code == DF_OK)
        code = find_items(db, &f, err);
    if (code == DF_OK && f.too_many)
        code = df_err_set(err, DF_E_TOO_LARGE, "The person is stored in more than %d places.",
                          DF_FOUND_MAX);
    if (code == DF_OK) {
        if (f.count > 0)
            qsort(f.at, f.count, sizeof(*f.at), compare_places);
        tell_places(&f, each, arg);
    }
    df_arena_release(&f.arena);
    free(f.at);
    return code;
}
