#include "retention/subjects_report.h"

#include "retention/subjects.sql.h"
#include "json/scan.h"
#include "json/write.h"

#include <stdio.h>

#define UNREAD_MAX  50
#define PAGE_BYTES  ((size_t)8 << 20)
#define DETAILS_MAX 128

/* How a place is shown. */
struct kind {
    const char *place; /* as df_subjects_find names it */
    const char *shown;
    const struct df_query *detail;
    bool by_number;    /* its id is one */
    const char *title; /* members of the answer; NULL: left out */
    const char *reference;
    const char *number;
    const char *payload;
    const char *other;
};

/* In the order of df_subjects_find. */
static const struct kind kinds[] = {
    {"ack", "ack", &df_q_subject_ack, true, NULL, "businessDocId", NULL, "payload", NULL},
    {"batch", "batch", &df_q_subject_batch, false, "fileName", "requestedBy", NULL, "metadata",
     NULL},
    {"call", "call", &df_q_subject_call, false, "integration", "correlationId", NULL, "body",
     "headers"},
    {"counterparty", "counterparty", &df_q_subject_counterparty, true, "businessEntity",
     "businessDocId", NULL, "payload", NULL},
    {"event", "event", &df_q_subject_event, false, "eventType", "aggregateId", NULL, "payload",
     NULL},
    {"item", "batch-item", &df_q_subject_item, false, "fileName", NULL, NULL, "item", "record"},
    {"ticket", "ticket", &df_q_subject_ticket, true, "businessEntity", "businessDocId", "phaseCode",
     "payload", "callback"},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

struct shown {
    const struct kind *kind;
    struct df_str row;
    int64_t sequence;
    bool waits;
};

struct report {
    const struct df_subject_question *q;
    struct df_arena *arena;
    struct df_json_out *out;
    int64_t counts[KINDS];
    int64_t waiting;
    struct shown *page;
    size_t page_count;
    bool more;
    const struct shown *at;     /* the place in hand */
    struct df_str record, item; /* what is kept of it */
    enum df_code kept_code;
    struct df_err kept_err;
};

/* --- cursors ---------------------------------------------------------------------------------- */

/* "ticket:17:-1": the last place of a page. */
static bool read_cursor(struct df_str after, struct df_str *place, struct df_str *row,
                        int64_t *sequence)
{
    struct df_str rest = df_str_cut(after, ':', place), last = df_str_cut(rest, ':', row);

    if (!last.ptr || !df_str_to_i64(last, sequence))
        return false;
    for (size_t i = 0; i < KINDS; i++)
        if (df_str_eq(*place, df_str_c(kinds[i].place)))
            return row->len > 0;
    return false;
}

bool df_subject_cursor_valid(struct df_str after)
{
    struct df_str place, row;
    int64_t sequence;

    return read_cursor(after, &place, &row, &sequence);
}

static int compare_texts(struct df_str a, struct df_str b)
{
    int order = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* Whether the place comes behind the page before. */
static bool is_behind(const struct df_found *f, struct df_str after)
{
    struct df_str place, row;
    int64_t sequence;

    if (!after.ptr || !read_cursor(after, &place, &row, &sequence))
        return true;
    int order = compare_texts(df_str_c(f->place), place);
    if (order == 0)
        order = compare_texts(f->row, row);
    return order ? order > 0 : f->sequence > sequence;
}

/* --- places ----------------------------------------------------------------------------------- */

static size_t kind_at(const char *place)
{
    size_t i = 0;

    while (i + 1 < KINDS && strcmp(kinds[i].place, place) != 0)
        i++;
    return i;
}

static void take_place(void *arg, const struct df_found *f)
{
    struct report *r = arg;
    size_t kind = kind_at(f->place);

    r->counts[kind]++;
    r->waiting += f->waits;
    if (!is_behind(f, r->q->after))
        return;
    if (r->page_count == (size_t)r->q->size) {
        r->more = true;
        return;
    }
    r->page[r->page_count++] = (struct shown){.kind = &kinds[kind],
                                              .row = df_arena_str(r->arena, f->row),
                                              .sequence = f->sequence,
                                              .waits = f->waits};
}

/* A payload as it is stored: JSON as JSON, anything else as text. */
static void write_payload(struct df_json_out *out, const char *name, struct df_str text)
{
    struct df_err err = DF_ERR_INIT;

    if (!name)
        return;
    df_json_key(out, name);
    if (text.ptr && df_json_check(text, 0, DF_JSON_DEPTH, &err) == DF_OK)
        df_json_raw(out, text);
    else
        df_json_text(out, text);
}

static void write_detail(void *arg, struct df_result *row)
{
    struct report *r = arg;
    const struct kind *k = r->at->kind;
    struct df_json_out *out = r->out;

    df_json_kv_text(out, "clientId", df_col_text(row, subject_detail_ClientIdentifier));
    df_json_kv_text(out, "status", df_col_text(row, subject_detail_Status));
    df_json_kv_time(out, "createdAt", df_col_time(row, subject_detail_CreatedAt));
    if (k->title)
        df_json_kv_text(out, k->title, df_col_text(row, subject_detail_Title));
    if (k->reference)
        df_json_kv_text(out, k->reference, df_col_text(row, subject_detail_Reference));
    if (k->number)
        df_json_kv_int(out, k->number, df_col_int(row, subject_detail_Number));
    if (!r->q->full)
        return;
    struct df_str payload = k->detail == &df_q_subject_call
                                ? df_col_blob(row, subject_detail_Payload)
                                : df_col_text(row, subject_detail_Payload);
    struct df_str other = df_col_text(row, subject_detail_Other);
    write_payload(out, k->payload, r->item.ptr ? r->item : payload);
    write_payload(out, k->other, r->record.ptr ? r->record : other);
}

static void open_kept(void *arg, struct df_result *row)
{
    struct report *r = arg;
    const struct df_subject_question *q = r->q;

    r->kept_code =
        q->kept->open(q->keys, r->at->row, r->at->sequence, df_col_blob(row, subject_kept_Sealed),
                      r->arena, &r->record, &r->item, &r->kept_err);
}

/* An item that failed is stored masked; what is kept of it is shown instead. */
static enum df_code read_kept(struct df_db *db, struct report *r, struct df_err *err)
{
    bool found;

    r->record = r->item = DF_STR_NULL;
    if (!r->q->full || !r->q->kept || r->at->sequence < 0)
        return DF_OK;
    r->kept_code = DF_OK;
    r->kept_err = DF_ERR_INIT;
    enum df_code code = df_db_one(
        db, DF_Q(subject_kept, .id = df_uuid(r->at->row), .sequence = df_int(r->at->sequence)),
        open_kept, r, &found, err);
    if (code == DF_OK && r->kept_code != DF_OK) {
        *err = r->kept_err;
        return r->kept_code;
    }
    return code;
}

/* A row that is gone meanwhile has its id only. */
static enum df_code write_place(struct df_db *db, struct report *r, const struct shown *s,
                                struct df_err *err)
{
    struct df_json_out *out = r->out;
    int64_t id = 0;
    bool found;

    r->at = s;
    enum df_code code = read_kept(db, r, err);
    if (code != DF_OK)
        return code;
    df_json_open(out, '{');
    df_json_kv_text(out, "place", df_str_c(s->kind->shown));
    if (s->kind->by_number && df_str_to_i64(s->row, &id))
        df_json_kv_int(out, "id", id);
    else
        df_json_kv_text(out, s->sequence >= 0 ? "batchId" : "id", s->row);
    if (s->sequence >= 0)
        df_json_kv_int(out, "sequence", s->sequence);
    df_json_kv_bool(out, "waits", s->waits);
    code =
        df_db_one(db,
                  DF_ANY(s->kind->detail, {"id", s->kind->by_number ? df_int(id) : df_uuid(s->row)},
                         {"sequence", df_int(s->sequence)}, {"full", df_int(r->q->full)}),
                  write_detail, r, &found, err);
    df_json_close(out, '}');
    return code;
}

static enum df_code write_places(struct df_db *db, struct report *r, struct df_err *err)
{
    const struct shown *last = NULL;
    enum df_code code = DF_OK;
    size_t max_bytes = r->q->max_bytes ? r->q->max_bytes : PAGE_BYTES;
    size_t i = 0;

    df_json_key(r->out, "places");
    df_json_open(r->out, '[');
    for (; i < r->page_count && code == DF_OK && r->out->buf->len < max_bytes; i++) {
        last = &r->page[i];
        code = write_place(db, r, last, err);
    }
    df_json_close(r->out, ']');
    r->more = r->more || i < r->page_count;
    df_json_kv_text(r->out, "next",
                    r->more && last
                        ? df_arena_printf(r->arena, "%s:" DF_STR_FMT ":%lld", last->kind->place,
                                          DF_STR_ARG(last->row), (long long)last->sequence)
                        : DF_STR_NULL);
    return code;
}

/* --- the whole -------------------------------------------------------------------------------- */

static void write_subject(const struct df_subject *s, struct df_json_out *out)
{
    char hex[DF_SUBJECT_HEX];

    df_subject_hex(s, hex);
    df_json_key(out, "subject");
    df_json_open(out, '{');
    df_json_kv_text(out, "kind", df_str_c(df_subject_kind_name(s->kind)));
    df_json_kv_text(out, "hash", df_str_c(hex));
    df_json_close(out, '}');
}

static void write_counts(const struct report *r)
{
    int64_t total = 0;

    df_json_key(r->out, "counts");
    df_json_open(r->out, '{');
    for (size_t i = 0; i < KINDS; i++) {
        df_json_kv_int(r->out, kinds[i].shown, r->counts[i]);
        total += r->counts[i];
    }
    df_json_kv_int(r->out, "total", total);
    df_json_kv_int(r->out, "waiting", r->waiting);
    df_json_close(r->out, '}');
}

struct unread {
    struct df_json_out *out;
    size_t count;
};

static void write_unread(void *arg, struct df_result *row)
{
    struct unread *u = arg;

    if (u->count++ < UNREAD_MAX)
        df_json_text(u->out, df_col_text(row, subject_unread_Id));
}

static enum df_code write_unread_batches(struct df_db *db, struct df_json_out *out,
                                         struct df_err *err)
{
    struct unread u = {.out = out};

    df_json_key(out, "unread");
    df_json_open(out, '[');
    enum df_code code = df_db_each(db, DF_Q(subject_unread, .limit = df_int(UNREAD_MAX + 1)),
                                   write_unread, &u, err);
    df_json_close(out, ']');
    df_json_kv_bool(out, "unreadMore", u.count > UNREAD_MAX);
    return code;
}

enum df_code df_subject_report(struct df_db *db, const struct df_subject_question *q,
                               struct df_arena *a, struct df_json_out *out, struct df_err *err)
{
    struct report r = {.q = q, .arena = a, .out = out};

    r.page = DF_ARENA_ARRAY(a, struct shown, (size_t)q->size);
    enum df_code code = df_subjects_find(db, &q->subject, take_place, &r, err);
    if (code != DF_OK)
        return code;
    df_json_open(out, '{');
    write_subject(&q->subject, out);
    write_counts(&r);
    code = write_places(db, &r, err);
    if (code == DF_OK)
        code = write_unread_batches(db, out, err);
    df_json_close(out, '}');
    if (code == DF_OK && df_buf_failed(out->buf))
        return df_err_set(err, DF_E_TOO_LARGE,
                          "The answer would be too long; ask for fewer places.");
    return code;
}

enum df_code df_subject_audit(struct df_db *db, const struct df_subject_question *q,
                              const struct df_actor *by, int64_t now_ms, struct df_err *err)
{
    char hex[DF_SUBJECT_HEX], details[DETAILS_MAX];

    df_subject_hex(&q->subject, hex);
    (void)snprintf(details, sizeof details, "{\"kind\":\"%s\",\"page\":\"%s\"}",
                   df_subject_kind_name(q->subject.kind), q->after.ptr ? "next" : "first");
    return df_audit_write(db, by, q->full ? "SubjectExported" : "SubjectLookedUp", df_str_c(hex),
                          DF_STR_NULL, df_str_c(details), now_ms, err);
}
