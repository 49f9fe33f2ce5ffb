#include "retention/erase.h"

#include "retention/erase.sql.h"
#include "retention/retention.sql.h"
#include "retention/subjects.h"
#include "retention/subjects_find.h"

#include <stdio.h>
#include <stdlib.h>

#define STEP_ENTRIES    300
#define STEP_CHUNKS     2000 /* rows of ImportSubjects that a step looks through */
#define STEP_HITS       16   /* of which it erases so many */
#define GROUP_DOCUMENTS 50   /* of a transaction */
#define GROUP_ITEMS     200
#define CHUNK_BYTES     (64 << 20) /* entries of a chunk are some 13 bytes an item */
#define FILLING_MS      2000

enum place { TICKET, CALLBACK, COUNTERPARTY, ACK, EVENT, CALL, BATCH, ITEM, PLACES };

static const struct {
    const char *name;
    enum df_purged counted;
} places[PLACES] = {
    [TICKET] = {"ticket", DF_PURGED_TICKETS},
    [CALLBACK] = {"callback", DF_PURGED_TICKETS}, /* of a ticket */
    [COUNTERPARTY] = {"counterparty", DF_PURGED_COUNTERPARTIES},
    [ACK] = {"ack", DF_PURGED_ACKS},
    [EVENT] = {"event", DF_PURGED_EVENTS},
    [CALL] = {"call", DF_PURGED_CALLS},
    [BATCH] = {"batch", DF_PURGED_BATCHES},
    [ITEM] = {"item", DF_PURGED_ITEMS},
};

/* A document by its entry in SubjectIndex, or a chunk of items by its row of ImportSubjects. */
struct erase_doc {
    int64_t id;
    enum place place;
    struct df_uuid row; /* or a number; of a chunk: the batch */
};

/* --- the target --- */

void erase_target_write(const struct df_subject *s, char out[101])
{
    char hex[DF_SUBJECT_HEX];

    df_subject_hex(s, hex);
    (void)snprintf(out, 101, "%s:%s", df_subject_kind_name(s->kind), hex);
}

static bool read_kind(struct df_str name, enum df_subject_kind *ret)
{
    for (int k = DF_SUBJECT_PHONE; k <= DF_SUBJECT_EMAIL; k++) {
        *ret = (enum df_subject_kind)k;
        if (df_str_eq(name, df_str_c(df_subject_kind_name(*ret))))
            return true;
    }
    return false;
}

bool erase_target_read(const char *target, struct df_subject *ret)
{
    struct df_str kind, hex = df_str_cut(df_str_c(target), ':', &kind);

    if (!read_kind(kind, &ret->kind) || hex.len != (size_t)2 * DF_SUBJECT_BYTES)
        return false;
    for (size_t i = 0; i < DF_SUBJECT_BYTES; i++) {
        int high = df_hex_digit(hex.ptr[2 * i]), low = df_hex_digit(hex.ptr[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        ret->hash[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static enum df_code subject_of(const struct purge_job *j, struct df_subject *ret,
                               struct df_err *err)
{
    if (erase_target_read(j->target, ret))
        return DF_OK;
    return df_err_set(err, DF_E_INTERNAL, "the job %s names no person", j->id.text);
}

/* --- what is found --- */

static bool place_of(struct df_str name, enum place *ret)
{
    for (size_t i = 0; i < PLACES; i++) {
        if (df_str_eq(name, df_str_c(places[i].name))) {
            *ret = (enum place)i;
            return true;
        }
    }
    return false;
}

static void count_found(void *arg, const struct df_found *f)
{
    struct purge_job *j = arg;
    enum place place;

    if (place_of(df_str_c(f->place), &place))
        (f->waits ? &j->skipped : &j->counts)->n[places[place].counted]++;
}

/* In order and once each; of more than are found at once, as they come. */
static enum df_code find_all(struct df_db *db, const struct df_subject *s,
                             void (*each)(void *arg, const struct df_found *f), void *arg,
                             struct df_err *err)
{
    enum df_code code = df_subjects_find(db, s, each, arg, err);

    return code == DF_E_TOO_LARGE ? df_subjects_each(db, s, each, arg, err) : code;
}

enum df_code erase_estimate(struct df_db *db, struct purge_job *j, struct df_err *err)
{
    struct df_subject s;
    int64_t unread = 0, *batches = &j->skipped.n[DF_PURGED_BATCHES];
    enum df_code code = subject_of(j, &s, err);

    if (code == DF_OK)
        code = find_all(db, &s, count_found, j, err);
    if (code == DF_OK)
        code =
            df_db_query_int(db, DF_Q(erase_unread, .cutoff = df_time(j->cutoff_ms)), &unread, err);
    if (unread > *batches) /* those that name the person are among them */
        *batches = unread;
    return code;
}

static void list_waiting(void *arg, const struct df_found *f)
{
    struct df_purge_outcome *ret = arg;
    struct df_purge_waiting *w = &ret->waiting[ret->waiting_count];

    if (!f->waits || ret->waiting_count == DF_PURGE_WAITING_MAX)
        return;
    ret->waiting_count++;
    (void)snprintf(w->place, sizeof w->place, "%s", f->place);
    if (f->sequence >= 0)
        (void)snprintf(w->row, sizeof w->row, DF_STR_FMT "/%lld", DF_STR_ARG(f->row),
                       (long long)f->sequence);
    else
        (void)snprintf(w->row, sizeof w->row, DF_STR_FMT, DF_STR_ARG(f->row));
}

static enum df_code run_waiting(struct df_db *db, struct df_purge *p, struct purge_job *j,
                                void *arg, struct df_err *err)
{
    struct df_purge_outcome *ret = arg;
    struct df_subject s;
    enum df_code code = subject_of(j, &s, err);

    (void)p;
    ret->waiting_count = 0;
    return code == DF_OK ? find_all(db, &s, list_waiting, ret, err) : code;
}

enum df_code erase_waiting(struct df_purge *p, struct purge_job *j, struct df_purge_outcome *ret,
                           struct df_err *err)
{
    return purge_read(&(struct purge_tx){.p = p, .j = j, .run = run_waiting, .arg = ret}, err);
}

/* --- erasing --- */

/*
 * A pass goes through the person's entries in SubjectIndex by their ids, then through
 * ImportSubjects. Where it is stands in the job: "d 123 0", "i 45 1". The last number says whether
 * the index was incomplete when the pass began: then there is another pass.
 */
struct erase_pass {
    struct df_subject subject;
    struct erase_doc docs[STEP_ENTRIES];
    size_t count, rows; /* rows: that were read */
    char part;          /* 'd' or 'i'; 0: at the beginning */
    int64_t at, last;
    int filling;
    /* The transaction's part of docs, and how the job was before it. */
    size_t from, to;
    struct df_purge_counts counts, skipped;
};

static void read_cursor(const struct purge_job *j, struct erase_pass *e)
{
    long long at = 0;

    if (sscanf(j->cursor, "%c %lld %d", &e->part, &at, &e->filling) != 3)
        e->part = 0;
    e->at = at;
}

static void write_cursor(struct purge_job *j, const struct erase_pass *e, int64_t at)
{
    (void)snprintf(j->cursor, sizeof j->cursor, "%c %lld %d", e->part, (long long)at, e->filling);
}

static void add_doc(struct erase_pass *e, int64_t id, enum place place, struct df_str row)
{
    if (e->count == STEP_ENTRIES)
        return;
    struct erase_doc *d = &e->docs[e->count++];
    *d = (struct erase_doc){.id = id, .place = place};
    (void)snprintf(d->row.text, sizeof d->row.text, DF_STR_FMT, DF_STR_ARG(row));
}

static void read_entry(void *arg, struct df_result *r)
{
    struct erase_pass *e = arg;
    enum place place;

    e->rows++;
    e->last = df_col_int(r, erase_entries_Id);
    if (place_of(df_col_text(r, erase_entries_Place), &place))
        add_doc(e, e->last, place, df_col_text(r, erase_entries_RowKey));
}

static void note_hit(void *arg, int64_t sequence)
{
    (void)sequence;
    *(bool *)arg = true;
}

static void read_chunk(void *arg, struct df_result *r)
{
    struct erase_pass *e = arg;
    bool hit = false;

    e->rows++;
    e->last = df_col_int(r, erase_chunks_Id);
    df_subjects_each_item(df_col_blob(r, erase_chunks_Entries), &e->subject, note_hit, &hit);
    if (hit)
        add_doc(e, e->last, ITEM, df_col_text(r, erase_chunks_BatchId));
}

/* Ids may have gaps. Rows that come while a pass runs are newer than the erasure, or of batches
 * that were not read when it began. */
static enum df_code look_for_chunks(struct df_db *db, struct erase_pass *e, bool *ret_end,
                                    struct df_err *err)
{
    int64_t next = 0, most = 0;
    enum df_code code =
        df_db_query_int(db, DF_Q(erase_chunk_next, .after = df_int(e->at)), &next, err);

    if (code == DF_OK)
        code = df_db_query_int(db, DF_Q0(erase_chunk_last), &most, err);
    int64_t upto = next + STEP_CHUNKS;
    if (code == DF_OK)
        code = df_db_each(db,
                          DF_Q(erase_chunks, .after = df_int(e->at), .upto = df_int(upto),
                               .hash = df_blob(df_str_n((const char *)e->subject.hash, 8)),
                               .limit = df_int(STEP_HITS)),
                          read_chunk, e, err);
    if (e->rows < STEP_HITS)
        e->last = upto;
    *ret_end = e->last >= most;
    return code;
}

static enum df_code begin_pass(struct df_db *db, struct purge_job *j, struct erase_pass *e,
                               struct df_err *err)
{
    int64_t unread = 0, filled = 0;
    enum df_code code =
        df_db_query_int(db, DF_Q(erase_unread, .cutoff = df_time(j->cutoff_ms)), &unread, err);

    if (code == DF_OK)
        code = df_db_query_int(db, DF_Q0(erase_filled), &filled, err);
    j->skipped = (struct df_purge_counts){.n[DF_PURGED_BATCHES] = unread};
    e->part = 'd';
    e->at = 0;
    e->filling = filled < DF_SUBJECT_SOURCES;
    return code;
}

struct look {
    struct erase_pass *e;
    bool is_end;
};

static enum df_code run_look(struct df_db *db, struct df_purge *p, struct purge_job *j, void *arg,
                             struct df_err *err)
{
    struct look *l = arg;
    struct erase_pass *e = l->e;
    enum df_code code = subject_of(j, &e->subject, err);

    (void)p;
    read_cursor(j, e);
    e->count = e->rows = 0;
    e->last = e->at;
    l->is_end = false;
    if (code == DF_OK && e->part == 0)
        code = begin_pass(db, j, e, err);
    if (code != DF_OK || e->part == 'i')
        return code == DF_OK ? look_for_chunks(db, e, &l->is_end, err) : code;
    return df_db_each(db,
                      DF_Q(erase_entries, .hash = df_int(df_subject_number(&e->subject)),
                           .after = df_int(e->at), .limit = df_int(STEP_ENTRIES)),
                      read_entry, e, err);
}

/* The queries of a place, and the id as they take it. */
static struct df_value row_id(const struct erase_doc *d)
{
    int64_t number = 0;

    if (d->place > ACK)
        return df_uuid(df_uuid_str(&d->row));
    (void)df_str_to_i64(df_str_c(d->row.text), &number);
    return df_int(number);
}

static enum df_code forget_attempts(struct df_db *db, const struct erase_doc *d,
                                    const char *channel, struct df_err *err)
{
    return df_db_exec(db,
                      DF_Q(erase_attempts, .channel = df_text(df_str_c(channel)),
                           .row = df_text(df_str_c(d->row.text))),
                      NULL, err);
}

static enum df_code forget_entries(struct df_db *db, const char *place, const struct erase_doc *d,
                                   struct df_err *err)
{
    return df_subjects_write(db, place, df_str_c(d->row.text), NULL, 0, false, err);
}

static void read_locked(void *arg, struct df_result *r)
{
    (void)arg;
    (void)r;
}

/* A ticket's returns, before it is looked at whether one of them waits: a retry takes only the
 * return's row. The ticket is locked before them, as by everybody. */
static enum df_code lock_returns(struct df_db *db, const struct erase_doc *d, struct df_err *err)
{
    char list[sizeof d->row.text + 3];
    struct df_value ids;

    (void)snprintf(list, sizeof list, "[%s]", d->row.text);
    ids = df_text(df_str_c(list));
    enum df_code code = df_db_each(db, DF_Q(ticket_lock, .ids = ids), read_locked, NULL, err);
    return code == DF_OK
               ? df_db_each(db, DF_Q(ticket_returns_lock, .ids = ids), read_locked, NULL, err)
               : code;
}

/* What hangs on a ticket: its returns, attempts, and the entries of its payload and callback. */
static enum df_code erase_of_ticket(struct df_db *db, struct purge_job *j,
                                    const struct erase_doc *d, int64_t now_ms, struct df_err *err)
{
    struct df_value id = row_id(d);
    int64_t returns = 0;
    enum df_code code = df_db_exec(
        db, DF_Q(erase_ticket_returns, .erased = df_text(ERASED), .now = df_time(now_ms), .id = id),
        &returns, err);

    j->counts.n[DF_PURGED_RETURNS] += returns;
    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(erase_return_attempts, .id = id), NULL, err);
    if (code == DF_OK)
        code = forget_attempts(db, d, "ticket-gateway", err);
    return code == DF_OK ? forget_entries(db, d->place == TICKET ? "callback" : "ticket", d, err)
                         : code;
}

static enum df_code erase_of_counterparty(struct df_db *db, const struct erase_doc *d,
                                          struct df_err *err)
{
    enum df_code code =
        df_db_exec(db, DF_Q(erase_counterparty_addresses, .id = row_id(d)), NULL, err);

    return code == DF_OK
               ? df_db_exec(db, DF_Q(erase_counterparty_fiscal, .id = row_id(d)), NULL, err)
               : code;
}

/* --- items --- */

/* The items of a chunk that name the person: at most a group of them at a time. */
struct chunk_items {
    const struct df_subject *subject;
    struct df_buf entries;
    int64_t items[GROUP_ITEMS];
    size_t count;
    int64_t hits;
};

static bool is_in_hand(const struct chunk_items *c, int64_t sequence)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->items[i] == sequence)
            return true;
    return false;
}

static void take_item(void *arg, int64_t sequence)
{
    struct chunk_items *c = arg;

    if (is_in_hand(c, sequence))
        return;
    c->hits++;
    if (c->count < GROUP_ITEMS)
        c->items[c->count++] = sequence;
}

static void read_entries(void *arg, struct df_result *r)
{
    struct chunk_items *c = arg;

    df_buf_adds(&c->entries, df_col_blob(r, erase_chunk_Entries));
    df_subjects_each_item(df_buf_str(&c->entries), c->subject, take_item, c);
}

static int64_t entry_sequence(const char *entry)
{
    int64_t sequence = 0;

    for (size_t b = 9; b < DF_SUBJECT_ENTRY; b++)
        sequence = sequence << 8 | (unsigned char)entry[b];
    return sequence;
}

/* Stores the entries of a chunk without those of the items in hand. */
static enum df_code drop_entries(struct df_db *db, const struct chunk_items *c, int64_t id,
                                 struct df_err *err)
{
    struct df_str all = df_buf_str(&c->entries);
    struct df_buf kept;

    df_buf_init(&kept, all.len + 1);
    for (size_t i = 0; i + DF_SUBJECT_ENTRY <= all.len; i += DF_SUBJECT_ENTRY)
        if (!is_in_hand(c, entry_sequence(all.ptr + i)))
            df_buf_add(&kept, all.ptr + i, DF_SUBJECT_ENTRY);
    struct df_str rest = df_buf_str(&kept);
    enum df_code code =
        df_db_exec(db,
                   DF_Q(erase_chunk_set, .entries = df_blob(rest.len > 0 ? rest : DF_STR("")),
                        .id = df_int(id)),
                   NULL, err);
    df_buf_release(&kept);
    return code;
}

static enum df_code erase_item(struct df_db *db, struct purge_job *j, const struct erase_doc *d,
                               int64_t sequence, struct df_err *err)
{
    int64_t changed = 0, kept = 0;
    struct df_value id = df_uuid(df_uuid_str(&d->row)), item = df_int(sequence);
    enum df_code code = df_db_exec(db,
                                   DF_Q(erase_item, .erased = df_text(ERASED),
                                        .masked = df_bool(true), .id = id, .sequence = item),
                                   &changed, err);

    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(erase_item_kept, .id = id, .sequence = item), &kept, err);
    j->counts.n[DF_PURGED_ITEMS] += changed;
    j->counts.n[DF_PURGED_KEPT] += kept;
    return code;
}

/* Some items of a chunk, or none while its batch is on its way. */
static enum df_code erase_items(struct df_db *db, struct purge_job *j, struct chunk_items *c,
                                const struct erase_doc *d, bool *ret_more, struct df_err *err)
{
    struct df_value id = df_uuid(df_uuid_str(&d->row)), cutoff = df_time(j->cutoff_ms);
    int64_t older = 0;
    bool is_over = false;
    enum df_code code = df_db_one(db, DF_Q(erase_batch_over, .id = id, .cutoff = cutoff), NULL,
                                  NULL, &is_over, err);

    *ret_more = false;
    if (code == DF_OK)
        code = df_db_each(db, DF_Q(erase_chunk, .id = df_int(d->id)), read_entries, c, err);
    if (code == DF_OK && !is_over) {
        code =
            df_db_query_int(db, DF_Q(erase_batch_older, .id = id, .cutoff = cutoff), &older, err);
        j->skipped.n[DF_PURGED_ITEMS] += older > 0 ? c->hits : 0;
        return code;
    }
    for (size_t i = 0; i < c->count && code == DF_OK; i++)
        code = erase_item(db, j, d, c->items[i], err);
    *ret_more = c->hits > (int64_t)c->count;
    return code == DF_OK && c->count > 0 ? drop_entries(db, c, d->id, err) : code;
}

struct chunk_step {
    struct erase_pass *e;
    const struct erase_doc *doc;
    bool more;
};

static enum df_code run_chunk(struct df_db *db, struct df_purge *p, struct purge_job *j, void *arg,
                              struct df_err *err)
{
    struct chunk_step *s = arg;
    struct chunk_items items = {.subject = &s->e->subject};

    j->counts = s->e->counts;
    j->skipped = s->e->skipped;
    df_buf_init(&items.entries, CHUNK_BYTES);
    enum df_code code = erase_items(db, j, &items, s->doc, &s->more, err);
    df_buf_release(&items.entries);
    write_cursor(j, s->e, s->more ? s->doc->id - 1 : s->doc->id);
    return code == DF_OK ? purge_job_save(db, j, df_wall_ms(p->opt.clock), err) : code;
}

/* --- a document --- */

static enum df_code erase_dependants(struct df_db *db, struct purge_job *j,
                                     const struct erase_doc *d, int64_t now_ms, struct df_err *err)
{
    enum df_code code = DF_OK;

    switch (d->place) {
    case TICKET:
    case CALLBACK:
        code = erase_of_ticket(db, j, d, now_ms, err);
        break;
    case COUNTERPARTY:
        code = erase_of_counterparty(db, d, err);
        break;
    case ACK:
        code = forget_attempts(db, d, "functional-ack", err);
        break;
    case CALL:
        code = forget_attempts(db, d, "integrations", err);
        break;
    case EVENT:
    case BATCH:
    case ITEM:
    case PLACES:
        break;
    }
    return code == DF_OK ? forget_entries(db, places[d->place].name, d, err) : code;
}

static const struct df_query *const erase_queries[PLACES] = {
    [TICKET] = &df_q_erase_ticket,
    [CALLBACK] = &df_q_erase_ticket,
    [COUNTERPARTY] = &df_q_erase_counterparty,
    [ACK] = &df_q_erase_ack,
    [EVENT] = &df_q_erase_event,
    [CALL] = &df_q_erase_call,
    [BATCH] = &df_q_erase_batch,
};
/* Whether a document that was not erased is older than the erasure, and so waits. */
static const struct df_query *const older_queries[PLACES] = {
    [TICKET] = &df_q_erase_ticket_older, [CALLBACK] = &df_q_erase_ticket_older,
    [ACK] = &df_q_erase_ack_older,       [EVENT] = &df_q_erase_event_older,
    [CALL] = &df_q_erase_call_older,     [BATCH] = &df_q_erase_batch_again,
};

/* Nothing, if the entry is gone: the document was erased by another of its entries, or replaced. */
static enum df_code erase_document(struct df_db *db, struct purge_job *j, const struct erase_doc *d,
                                   int64_t now_ms, struct df_err *err)
{
    struct df_value id = row_id(d), cutoff = df_time(j->cutoff_ms);
    struct df_value callback = df_int(d->place == CALLBACK);
    enum df_purged counted = places[d->place].counted;
    int64_t there = 0, changed = 0, older = 0;
    enum df_code code = df_db_query_int(db, DF_Q(erase_entry, .id = df_int(d->id)), &there, err);

    if (code != DF_OK || there == 0 || !erase_queries[d->place])
        return code;
    if (d->place == TICKET || d->place == CALLBACK)
        code = lock_returns(db, d, err);
    if (code == DF_OK)
        code = df_db_exec(db,
                          DF_ANY(erase_queries[d->place], {"id", id}, {"cutoff", cutoff},
                                 {"erased", df_text(ERASED)}, {"body", df_blob(ERASED)},
                                 {"now", df_time(now_ms)}, {"callback", callback}),
                          &changed, err);
    if (code == DF_OK && changed > 0) {
        j->counts.n[counted]++;
        return erase_dependants(db, j, d, now_ms, err);
    }
    if (code == DF_OK && older_queries[d->place])
        code = df_db_query_int(
            db,
            DF_ANY(older_queries[d->place], {"id", id}, {"cutoff", cutoff}, {"callback", callback}),
            &older, err);
    j->skipped.n[counted] += older;
    return code;
}

static enum df_code run_documents(struct df_db *db, struct df_purge *p, struct purge_job *j,
                                  void *arg, struct df_err *err)
{
    struct erase_pass *e = arg;
    int64_t now_ms = df_wall_ms(p->opt.clock);
    enum df_code code = DF_OK;

    j->counts = e->counts;
    j->skipped = e->skipped;
    for (size_t i = e->from; i < e->to && code == DF_OK; i++)
        code = erase_document(db, j, &e->docs[i], now_ms, err);
    write_cursor(j, e, e->docs[e->to - 1].id);
    return code == DF_OK ? purge_job_save(db, j, now_ms, err) : code;
}

/* --- a step --- */

static enum df_code erase_part(struct df_purge *p, struct purge_job *j, struct erase_pass *e,
                               struct purge_tx *tx, struct df_err *err)
{
    tx->p = p;
    tx->j = j;
    e->counts = j->counts;
    e->skipped = j->skipped;
    return purge_write(tx, err);
}

static enum df_code erase_chunks(struct df_purge *p, struct purge_job *j, struct erase_pass *e,
                                 struct df_err *err)
{
    enum df_code code = DF_OK;

    for (size_t i = 0; i < e->count && code == DF_OK; i++) {
        struct chunk_step s = {.e = e, .doc = &e->docs[i]};
        do {
            code = erase_part(p, j, e, &(struct purge_tx){.run = run_chunk, .arg = &s}, err);
        } while (code == DF_OK && s.more);
    }
    return code;
}

static enum df_code erase_documents(struct df_purge *p, struct purge_job *j, struct erase_pass *e,
                                    struct df_err *err)
{
    enum df_code code = DF_OK;

    for (e->from = 0; e->from < e->count && code == DF_OK; e->from = e->to) {
        e->to = e->from + GROUP_DOCUMENTS < e->count ? e->from + GROUP_DOCUMENTS : e->count;
        code = erase_part(p, j, e, &(struct purge_tx){.run = run_documents, .arg = e}, err);
    }
    return code;
}

/* After the last chunk: the job is done, or comes again while some wait. */
static void end_pass(struct purge_job *j, const struct erase_pass *e)
{
    bool waits = e->filling;

    for (size_t i = 0; i < DF_PURGED_COUNT; i++)
        waits = waits || j->skipped.n[i] > 0;
    j->done = !waits;
    j->phase++;
    j->pause_ms = waits ? PURGE_AGAIN_MS : 0;
    /* At first it may be a matter of seconds. */
    if (e->filling && j->phase * FILLING_MS < PURGE_AGAIN_MS)
        j->pause_ms = j->phase * FILLING_MS;
    j->cursor[0] = '\0';
}

static enum df_code erase_found(struct df_purge *p, struct purge_job *j, struct look *l,
                                struct df_err *err)
{
    struct erase_pass *e = l->e;
    bool is_full = e->rows == STEP_ENTRIES;
    enum df_code code = e->part == 'i' ? erase_chunks(p, j, e, err) : erase_documents(p, j, e, err);

    if (code != DF_OK)
        return code;
    if (l->is_end) {
        end_pass(j, e);
    } else {
        if (e->part == 'd' && !is_full) {
            e->part = 'i';
            e->last = 0;
        }
        write_cursor(j, e, e->last);
    }
    return purge_save(p, j, err);
}

enum df_code erase_step(struct df_purge *p, struct purge_job *j, struct df_err *err)
{
    struct erase_pass *e = calloc(1, sizeof *e);
    struct look l = {.e = e};

    if (!e)
        return df_err_set(err, DF_E_BUSY, "no memory");
    enum df_code code =
        purge_read(&(struct purge_tx){.p = p, .j = j, .run = run_look, .arg = &l}, err);
    if (code == DF_OK)
        code = erase_found(p, j, &l, err);
    free(e);
    return code;
}
