/*
 * Gives the documents of an earlier release their entries in the index of people. Each table is
 * walked once, by its primary key, from the position in SubjectFill. Rows that come meanwhile write
 * their entries themselves; entries that a row has are never removed, because what is stored of it
 * may be masked by then.
 *
 * When all is walked, entries whose document is gone are removed, once a day: documents are removed
 * by several hands. Two processes that do it at once do no harm.
 */
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "privacy/subjects.h"
#include "retention/subjects.h"
#include "retention/subjects.sql.h"

#include <assert.h>
#include <stdlib.h>

#define PAUSE_MS       10
#define DOCUMENTS      50 /* in a step; a document may have some MiB */
#define ITEMS          500
#define ENTRIES_MAX    ((size_t)16 << 20)
#define POSITION_MAX   64
#define SWEEP          1000 /* keys of SubjectIndex in a step */
#define SWEEP_EVERY_MS INT64_C(86400000)
#define NO_UUID        "00000000-0000-0000-0000-000000000000"

DF_METRIC_FAMILY(filled_total) = {
    .name = "dataflow_subject_rows_filled_total",
    .help = "Rows of an earlier release that were looked through for people.",
    .type = DF_COUNTER,
};

struct step;

/* A table that is walked. */
struct source {
    const char *name;  /* in SubjectFill */
    const char *place; /* in SubjectIndex; NULL: items */
    const char *first; /* the position before the first row */
    const struct df_query *rows;
    int64_t limit;
    void (*find)(struct df_subjects *s, struct df_result *r);
};

struct df_subject_fill {
    struct df_subject_fill_options opt;
    size_t at;            /* the source in hand */
    int64_t sweep_at;     /* the next key; 0: a sweep begins */
    int64_t sweep_due_ms; /* monotonic: when the next one begins */
};

struct step {
    struct df_job job;
    struct df_subject_fill *f;
    const struct source *source;
    struct df_arena arena;
    char position[POSITION_MAX + 1];
    bool known; /* SubjectFill has a row */
    bool done;
    char next[POSITION_MAX + 1];
    int64_t rows;
    struct df_subject_doc *docs;
    struct df_subjects *people; /* of each of them */
    size_t doc_count;
    struct df_subject_items *items; /* of one batch each */
    size_t item_count;
    struct df_buf *entries; /* of each of them */
};

/* --- who is named in a row -------------------------------------------------------------------- */

static void find_in_payload(struct df_subjects *s, struct df_result *r)
{
    df_subjects_add_json(s, df_col_text(r, subject_source_Payload));
}

static void find_in_event(struct df_subjects *s, struct df_result *r)
{
    find_in_payload(s, r);
    df_subjects_add_value(s, df_col_text(r, subject_source_Name),
                          df_col_text(r, subject_source_Value));
}

static void find_in_call(struct df_subjects *s, struct df_result *r)
{
    df_subjects_add_call(s, df_col_text(r, subject_source_Name),
                         df_col_blob(r, subject_source_Payload));
    df_subjects_add_json(s, df_col_text(r, subject_source_Other));
}

static void find_in_batch(struct df_subjects *s, struct df_result *r)
{
    df_subjects_add_batch(s, df_col_text(r, subject_source_Payload),
                          df_col_text(r, subject_source_Name),
                          df_col_text(r, subject_source_Value));
}

static const struct source sources[] = {
    {"tickets", "ticket", "0", &df_q_subject_fill_tickets, DOCUMENTS, find_in_payload},
    {"counterparties", "counterparty", "0", &df_q_subject_fill_counterparties, DOCUMENTS,
     find_in_payload},
    {"acks", "ack", "0", &df_q_subject_fill_acks, DOCUMENTS, find_in_payload},
    {"events", "event", NO_UUID, &df_q_subject_fill_events, DOCUMENTS, find_in_event},
    {"calls", "call", NO_UUID, &df_q_subject_fill_calls, DOCUMENTS, find_in_call},
    {"batches", "batch", NO_UUID, &df_q_subject_fill_batches, DOCUMENTS, find_in_batch},
    {"items", NULL, "0", &df_q_subject_fill_items, ITEMS, NULL},
};
#define SOURCES (sizeof sources / sizeof sources[0])
static_assert(SOURCES == DF_SUBJECT_SOURCES, "as others count them");

/* --- a step ----------------------------------------------------------------------------------- */

static void copy_position(char out[POSITION_MAX + 1], struct df_str text)
{
    size_t len = text.len < POSITION_MAX ? text.len : POSITION_MAX;

    memcpy(out, text.ptr, len);
    out[len] = '\0';
}

/* A document of the step, and whom it names. */
static struct df_subjects *add_doc(struct step *s, const char *place, struct df_str row)
{
    struct df_subjects *people = &s->people[s->doc_count];

    s->docs[s->doc_count++] = (struct df_subject_doc){.place = place, .row = row};
    df_subjects_begin(people, s->f->opt.keys, &s->arena);
    return people;
}

static void read_document(void *arg, struct df_result *r)
{
    struct step *s = arg;
    struct df_str row = df_arena_str(&s->arena, df_col_text(r, subject_source_RowKey));

    s->source->find(add_doc(s, s->source->place, row), r);
    if (s->source->rows == &df_q_subject_fill_tickets)
        df_subjects_add_json(add_doc(s, "callback", row), df_col_text(r, subject_source_Other));
    copy_position(s->next, row);
    s->rows++;
}

static void read_child(void *arg, struct df_result *r)
{
    struct step *s = arg;
    struct df_str row = df_col_text(r, subject_fill_children_RowKey);

    for (size_t i = 0; i < s->doc_count; i++) {
        if (!df_str_eq(s->docs[i].row, row))
            continue;
        struct df_subjects *p = &s->people[i];
        df_subjects_add_value(p, DF_STR("phone"), df_col_text(r, subject_fill_children_Phone));
        df_subjects_add_value(p, DF_STR("fax"), df_col_text(r, subject_fill_children_Fax));
        df_subjects_add_value(p, DF_STR("fiscalNumber"),
                              df_col_text(r, subject_fill_children_FiscalNumber));
    }
}

static enum df_code read_children(struct df_db *db, struct step *s, struct df_err *err)
{
    int64_t after = 0, last = 0;

    if (s->source->rows != &df_q_subject_fill_counterparties || s->rows == 0 ||
        !df_str_to_i64(df_str_c(s->position), &after) || !df_str_to_i64(df_str_c(s->next), &last))
        return DF_OK;
    return df_db_each(db, DF_Q(subject_fill_children, .after = df_int(after), .last = df_int(last)),
                      read_child, s, err);
}

/* Items of one batch mostly stand together. */
static void read_item(void *arg, struct df_result *r)
{
    struct step *s = arg;
    struct df_str batch = df_col_text(r, subject_fill_items_BatchId);
    int64_t sequence = df_col_int(r, subject_fill_items_Sequence);

    copy_position(s->next, df_col_text(r, subject_fill_items_Id));
    s->rows++;
    if (df_col_int(r, subject_fill_items_Written))
        return;
    if (s->item_count == 0 || !df_str_eq(s->items[s->item_count - 1].batch, batch)) {
        s->items[s->item_count] =
            (struct df_subject_items){.batch = df_arena_str(&s->arena, batch), .chunk = -1};
        df_buf_init(&s->entries[s->item_count++], ENTRIES_MAX);
    }
    struct df_buf *entries = &s->entries[s->item_count - 1];
    df_subjects_add_item(s->f->opt.keys, df_col_text(r, subject_fill_items_PayloadJson), sequence,
                         entries);
    df_subjects_add_item(s->f->opt.keys, df_col_text(r, subject_fill_items_OriginalJson), sequence,
                         entries);
}

static enum df_code read_rows(struct df_db *db, struct step *s, struct df_err *err)
{
    int64_t id = 0;
    bool is_number = df_str_to_i64(df_str_c(s->position), &id);
    struct df_value after = is_number ? df_int(id) : df_uuid(df_str_c(s->position));

    return df_db_each(db,
                      DF_ANY(s->source->rows, {"after", after}, {"limit", df_int(s->source->limit)},
                             {"masked", df_bool(true)}),
                      s->source->place ? read_document : read_item, s, err);
}

static enum df_code write_entries(struct df_db *db, struct step *s, struct df_err *err)
{
    for (size_t i = 0; i < s->doc_count; i++) {
        s->docs[i].subjects = s->people[i].at;
        s->docs[i].count = s->people[i].count;
    }
    if (s->source->place)
        return df_subjects_add_all(db, s->docs, s->doc_count, &s->arena, err);
    for (size_t i = 0; i < s->item_count; i++)
        s->items[i].entries = df_buf_str(&s->entries[i]);
    return df_subjects_write_items(db, s->items, s->item_count, &s->arena, err);
}

static void read_position(void *arg, struct df_result *r)
{
    struct step *s = arg;

    s->known = true;
    s->done = !df_col_null(r, subject_fill_get_DoneAt);
    copy_position(s->position, df_col_text(r, subject_fill_get_Position));
}

static enum df_code find_position(struct df_db *db, struct step *s, struct df_err *err)
{
    struct df_value source = df_text(df_str_c(s->source->name));
    bool found;
    enum df_code code =
        df_db_one(db, DF_Q(subject_fill_get, .source = source), read_position, s, &found, err);

    if (code != DF_OK || s->known)
        return code;
    copy_position(s->position, df_str_c(s->source->first));
    return df_db_exec(
        db, DF_Q(subject_fill_insert, .source = source, .position = df_text(df_str_c(s->position))),
        NULL, err);
}

static enum df_code move_position(struct df_db *db, struct step *s, struct df_err *err)
{
    int64_t moved = 0;
    enum df_code code = df_db_exec(
        db,
        DF_Q(subject_fill_move, .next = df_text(df_str_c(s->rows ? s->next : s->position)),
             .done = s->done ? df_time(df_wall_ms(s->f->opt.clock)) : df_null(DF_TIME),
             .source = df_text(df_str_c(s->source->name)),
             .position = df_text(df_str_c(s->position))),
        &moved, err);

    if (code == DF_OK && moved == 0)
        return df_err_set(err, DF_E_DB_CONFLICT, "another process has taken this step");
    return code;
}

static void reset_step(struct step *s)
{
    for (size_t i = 0; i < s->item_count; i++)
        df_buf_release(&s->entries[i]);
    df_arena_reset(&s->arena);
    s->known = s->done = false;
    s->rows = 0;
    s->doc_count = s->item_count = 0;
    s->docs = DF_ARENA_ARRAY(&s->arena, struct df_subject_doc, (size_t)2 * DOCUMENTS);
    s->people = DF_ARENA_ARRAY(&s->arena, struct df_subjects, (size_t)2 * DOCUMENTS);
    s->items = DF_ARENA_ARRAY(&s->arena, struct df_subject_items, ITEMS);
    s->entries = DF_ARENA_ARRAY(&s->arena, struct df_buf, ITEMS);
}

static enum df_code run_step(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct step *s = (struct step *)job;

    reset_step(s);
    enum df_code code = find_position(db, s, err);
    if (code != DF_OK || s->done)
        return code;
    code = read_rows(db, s, err);
    if (code == DF_OK)
        code = read_children(db, s, err);
    if (code == DF_OK)
        code = write_entries(db, s, err);
    s->done = s->rows < s->source->limit;
    return code == DF_OK ? move_position(db, s, err) : code;
}

/* --- the walk --------------------------------------------------------------------------------- */

struct df_subject_fill *df_subject_fill_new(const struct df_subject_fill_options *opt)
{
    struct df_subject_fill *f = df_calloc(1, sizeof *f);

    f->opt = *opt;
    return f;
}

void df_subject_fill_free(struct df_subject_fill *f)
{
    free(f);
}

/* At least as long as the step took. */
static int64_t pause_after(const struct df_subject_fill *f, int64_t begun_ms)
{
    int64_t took_ms = df_mono_ms(f->opt.clock) - begun_ms;
    return took_ms > PAUSE_MS ? took_ms : PAUSE_MS;
}

static void tell_of_step(const struct step *s)
{
    struct df_log_field fields[] = {DF_F("source", df_str_c(s->source->name))};

    if (s->rows > 0)
        df_metric_add(df_metric_get(&filled_total, NULL), (double)s->rows);
    if (s->done && s->rows > 0)
        df_log_write(DF_LOG_INFO, "SubjectsFilled", fields, 1,
                     "every earlier row has its entries in the index of people");
}

static void release_step(struct step *s)
{
    for (size_t i = 0; i < s->item_count; i++)
        df_buf_release(&s->entries[i]);
    df_arena_release(&s->arena);
}

enum df_code df_subject_fill_all(struct df_db *db, const struct df_keys *keys,
                                 const struct df_clock *clock, struct df_err *err)
{
    struct df_subject_fill f = {.opt = {.keys = keys, .clock = clock}};
    enum df_code code = DF_OK;

    while (f.at < SOURCES && code == DF_OK) {
        struct step s = {.f = &f, .source = &sources[f.at]};
        df_arena_init(&s.arena);
        code = df_db_begin(db, true, err);
        if (code == DF_OK)
            code = run_step(db, &s.job, err);
        if (code == DF_OK)
            code = df_db_commit(db, err);
        else
            df_db_rollback(db);
        f.at += code == DF_OK && s.done;
        release_step(&s);
        if (code == DF_E_DB_CONFLICT || code == DF_E_DB_UNIQUE)
            code = DF_OK; /* a server has taken the step */
    }
    return code;
}

/* --- entries whose document is gone ----------------------------------------------------------- */

struct sweep {
    struct df_job job;
    struct df_subject_fill *f;
    int64_t first, last;
};

static void read_range(void *arg, struct df_result *r)
{
    struct sweep *s = arg;
    int64_t first = df_col_int(r, subject_range_First);

    s->first = first > s->f->sweep_at ? first : s->f->sweep_at;
    s->last = df_col_int(r, subject_range_Last);
}

static enum df_code run_sweep(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct sweep *s = (struct sweep *)job;
    enum df_code code = df_db_one(db, DF_Q0(subject_index_range), read_range, s, NULL, err);

    if (code != DF_OK || s->first > s->last)
        return code;
    return df_db_exec(
        db,
        DF_Q(subject_index_sweep, .first = df_int(s->first), .behind = df_int(s->first + SWEEP)),
        NULL, err);
}

static int64_t sweep_turn(struct df_subject_fill *f)
{
    struct sweep s = {.job = {.run = run_sweep}, .f = f};
    struct df_err err = DF_ERR_INIT;
    int64_t begun_ms = df_mono_ms(f->opt.clock);

    if (begun_ms < f->sweep_due_ms)
        return f->sweep_due_ms - begun_ms;
    if (df_store_write_wait(f->opt.store, &s.job, &err) != DF_OK)
        return DF_LOOP_FAILED;
    f->sweep_at = s.first + SWEEP;
    if (s.first > s.last) {
        f->sweep_at = 0;
        f->sweep_due_ms = begun_ms + SWEEP_EVERY_MS;
        return SWEEP_EVERY_MS;
    }
    return pause_after(f, begun_ms);
}

int64_t df_subject_fill_turn(struct df_subject_fill *f)
{
    if (f->at == SOURCES)
        return sweep_turn(f);

    struct step s = {.job = {.run = run_step}, .f = f, .source = &sources[f->at]};
    struct df_err err = DF_ERR_INIT;
    int64_t begun_ms = df_mono_ms(f->opt.clock);
    df_arena_init(&s.arena);
    enum df_code code = df_store_write_wait(f->opt.store, &s.job, &err);
    if (code == DF_OK) {
        tell_of_step(&s);
        f->at += s.done;
    } else if (df_code_retry(code) == DF_RETRY_NEVER && code != DF_E_DB_UNIQUE) {
        df_log_error("SubjectsFillFailed", "%s: %s", s.source->name, err.detail);
    }
    release_step(&s);
    return code == DF_OK ? pause_after(f, begun_ms) : DF_LOOP_FAILED;
}
