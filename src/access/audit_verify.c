#include "access/audit_verify.h"

#include "access/audit.sql.h"
#include "access/audit_private.h"
#include "base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE_ROWS    1000
#define UPGRADE_MS   (INT64_C(24) * 3600000) /* how long older releases may run beside newer ones */
#define UNSEALED_MS  INT64_C(3600000)
#define TEXT_MAX     200
#define FINDINGS_MAX 1000 /* told one by one */
#define RESTORED_MAX 100  /* entries that are looked at */

struct restored {
    int64_t time_ms, sequence;
};

struct line {
    const struct df_audit_head *head;
    bool met; /* the chain has it */
};

struct verify {
    struct df_db *db;
    const struct df_keys *keys;
    int64_t now_ms;
    void (*found)(void *arg, const struct df_audit_finding *f);
    void *arg;
    struct df_audit_report *report;

    struct df_audit_head head;
    struct audit_stub stub;
    bool stubs_told; /* forged ones are told once */

    /* Where the walk is. */
    int64_t expected;
    bool has_previous;
    struct audit_mac previous;
    int64_t previous_ms;
    int64_t first_written_ms, last_written_ms;
    bool head_met;
    int64_t missing;
    size_t page_rows;
    bool again; /* the page begins behind a hole: the stub and the page are read again, once */

    struct line *lines; /* by sequence */
    size_t line_count, line_at;
    struct restored *restored;
    size_t restored_count;
};

__attribute__((format(printf, 5, 6))) static void
tell(struct verify *v, const char *kind, int64_t sequence, int64_t time_ms, const char *fmt, ...)
{
    char text[TEXT_MAX];
    va_list ap;

    if (v->report->findings++ >= FINDINGS_MAX)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    v->found(v->arg, &(struct df_audit_finding){kind, sequence, time_ms, text});
}

/* --- stubs --- */

static void read_stub(void *arg, struct df_result *r)
{
    struct verify *v = arg;
    struct audit_stub s;

    if (audit_read_stub(r, v->keys, &s))
        v->stub = s.to > v->stub.to ? s : v->stub;
    else if (!v->stubs_told)
        tell(v, "stub", s.from, s.created_ms, "the stub for entries %lld to %lld is forged",
             (long long)s.from, (long long)s.to);
}

/* Stands behind the stub, if it reaches that far. */
static void pass_stub(struct verify *v)
{
    if (v->stub.from > v->expected || v->stub.to < v->expected)
        return;
    v->expected = v->stub.to + 1;
    v->previous = v->stub.last_mac;
    v->has_previous = true;
    v->previous_ms = v->stub.last_ms;
    v->report->removed = v->stub.to;
}

/* --- lines of the file --- */

static int by_sequence(const void *x, const void *y)
{
    const struct line *a = x, *b = y;
    return (a->head->sequence > b->head->sequence) - (a->head->sequence < b->head->sequence);
}

static void sort_lines(struct verify *v, const struct df_audit_heads *heads)
{
    v->line_count = heads->count;
    v->lines = df_calloc(heads->count + 1, sizeof *v->lines);
    for (size_t i = 0; i < heads->count; i++)
        v->lines[i].head = &heads->items[i];
    if (heads->count > 1)
        qsort(v->lines, heads->count, sizeof *v->lines, by_sequence);
}

static void match_lines(struct verify *v, int64_t sequence, struct df_str mac)
{
    while (v->line_at < v->line_count && v->lines[v->line_at].head->sequence < sequence)
        v->line_at++;
    for (size_t i = v->line_at; i < v->line_count && v->lines[i].head->sequence == sequence; i++)
        if (mac.len == DF_AUDIT_MAC_BYTES && memcmp(mac.ptr, v->lines[i].head->mac, mac.len) == 0)
            v->lines[i].met = true;
}

static void keep_restored(struct verify *v, const struct audit_row *row)
{
    struct restored r = {.time_ms = row->occurred_ms};

    if (!df_str_eq(row->action, DF_STR("DatabaseRestored")) ||
        !df_str_to_i64(row->target, &r.sequence))
        return;
    v->restored = df_realloc(v->restored, (v->restored_count + 1) * sizeof *v->restored);
    v->restored[v->restored_count++] = r;
}

static bool is_explained(const struct verify *v, const struct df_audit_head *h)
{
    for (size_t i = 0; i < v->restored_count; i++)
        if (h->time_ms <= v->restored[i].time_ms &&
            (!h->genuine || h->sequence <= v->restored[i].sequence))
            return true;
    return false;
}

static void judge_lines(struct verify *v)
{
    for (size_t i = 0; i < v->line_count; i++) {
        const struct df_audit_head *h = v->lines[i].head;
        bool removed = h->sequence <= v->stub.to &&
                       (h->sequence < v->stub.to ||
                        memcmp(h->mac, v->stub.last_mac.bytes, sizeof h->mac) == 0);
        if (h->genuine && (v->lines[i].met || removed))
            continue;
        if (is_explained(v, h))
            continue;
        if (!h->genuine)
            tell(v, "file", h->sequence, h->time_ms,
                 "a line of audit-heads is forged, or under another key");
        else if (h->sequence > v->report->last)
            tell(v, "cut", h->sequence, h->time_ms,
                 "audit-heads has entry %lld, but the chain ends at %lld", (long long)h->sequence,
                 (long long)v->report->last);
        else
            tell(v, "replaced", h->sequence, h->time_ms, "audit-heads has seen another entry %lld",
                 (long long)h->sequence);
    }
}

/* --- entries --- */

static void tell_hole(struct verify *v, int64_t until)
{
    v->missing += until - v->expected;
    if (until - v->expected == 1)
        tell(v, "missing", v->expected, v->previous_ms, "entry %lld is missing",
             (long long)v->expected);
    else
        tell(v, "missing", v->expected, v->previous_ms, "entries %lld to %lld are missing",
             (long long)v->expected, (long long)until - 1);
}

/* An entry that was sealed later is one of an older release, which runs beside newer ones for a
 * while, or it came from somebody else. */
static void judge_sealed(struct verify *v, const struct audit_row *row)
{
    v->report->sealed++;
    if (v->first_written_ms > 0 && v->last_written_ms - v->first_written_ms > UPGRADE_MS)
        tell(v, "foreign", row->sequence, row->occurred_ms, "not written by a server");
}

static void judge_hash(struct verify *v, const struct audit_row *row)
{
    struct df_str previous = v->has_previous ? audit_mac_str(&v->previous) : DF_STR_NULL;

    if (audit_row_is(v->keys, AUDIT_WRITTEN, previous, row)) {
        v->first_written_ms = v->first_written_ms ? v->first_written_ms : row->occurred_ms;
        v->last_written_ms = row->occurred_ms;
        keep_restored(v, row);
        return;
    }
    if (audit_row_is(v->keys, AUDIT_SEALED, previous, row))
        judge_sealed(v, row);
    else
        tell(v, "changed", row->sequence, row->occurred_ms,
             "does not have the hash that follows from the entry before it");
}

static void go_past(struct verify *v, const struct audit_row *row)
{
    if (row->sequence == v->head.sequence)
        v->head_met = df_str_eq(row->mac, df_str_n((const char *)v->head.mac, sizeof v->head.mac));
    match_lines(v, row->sequence, row->mac);
    v->expected = row->sequence + 1;
    v->previous_ms = row->occurred_ms;
    v->has_previous = row->mac.len == sizeof v->previous.bytes;
    if (v->has_previous)
        memcpy(v->previous.bytes, row->mac.ptr, sizeof v->previous.bytes);
}

static void judge_entry(void *arg, struct df_result *r)
{
    struct verify *v = arg;
    struct audit_row row;

    audit_read_row(r, &row);
    if (v->page_rows == 0 && row.sequence > v->expected && !v->again) {
        v->again = true;
        v->page_rows = SIZE_MAX;
    }
    if (v->page_rows == SIZE_MAX)
        return;
    v->page_rows++;
    v->report->entries++;
    if (row.sequence < v->expected)
        return; /* judge_count finds it */
    if (row.sequence > v->expected)
        tell_hole(v, row.sequence);
    else
        judge_hash(v, &row);
    go_past(v, &row);
}

static enum df_code read_page(struct verify *v, struct df_err *err)
{
    enum df_code code = df_db_each(v->db, DF_Q0(audit_stub), read_stub, v, err);

    v->stubs_told = true;
    pass_stub(v);
    v->page_rows = 0;
    if (code == DF_OK)
        code = df_db_each(
            v->db, DF_Q(audit_walk, .after = df_int(v->expected - 1), .limit = df_int(PAGE_ROWS)),
            judge_entry, v, err);
    return code;
}

/* Retention may remove entries between the two queries: then the page is read once more. */
static enum df_code walk_page(struct verify *v, struct df_err *err)
{
    enum df_code code = read_page(v, err);

    if (code == DF_OK && v->again)
        code = read_page(v, err);
    v->again = false;
    return code;
}

/* --- the end --- */

static void judge_head(struct verify *v, int64_t last_before)
{
    const struct df_audit_head *h = &v->head;

    if (h->sequence < last_before)
        tell(v, "head", h->sequence, 0, "AuditHead says %lld, but the chain goes on to %lld",
             (long long)h->sequence, (long long)last_before);
    else if (v->expected - 1 < h->sequence)
        tell(v, "cut", v->expected, v->previous_ms, "the chain ends at %lld, AuditHead says %lld",
             (long long)v->expected - 1, (long long)h->sequence);
    else if (h->sequence > v->stub.to && !v->head_met)
        tell(v, "head", h->sequence, 0, "AuditHead has another hash than the entry");
}

static enum df_code judge_count(struct verify *v, struct df_err *err)
{
    int64_t rows = 0, numbers = v->expected - 1 - v->report->removed - v->missing;
    enum df_code code =
        df_db_query_int(v->db, DF_Q(audit_numbered, .to = df_int(v->expected - 1)), &rows, err);

    if (code == DF_OK && rows > numbers)
        tell(v, "repeated", v->expected - 1, 0,
             "%lld rows have a number that another has, or that a "
             "stub stands for",
             (long long)(rows - numbers));
    return code;
}

static void judge_unsealed(void *arg, struct df_result *r)
{
    struct verify *v = arg;
    int64_t time_ms = df_col_time(r, audit_entry_OccurredAt);
    int64_t since_ms = time_ms > v->first_written_ms ? time_ms : v->first_written_ms;

    if (v->last_written_ms - since_ms > UNSEALED_MS)
        tell(v, "unsealed", 0, time_ms, "row %lld has no number",
             (long long)df_col_int(r, audit_entry_Id));
}

enum df_code df_audit_verify(struct df_db *db, const struct df_audit_heads *heads, int64_t now_ms,
                             void (*found)(void *arg, const struct df_audit_finding *f), void *arg,
                             struct df_audit_report *ret, struct df_err *err)
{
    struct verify v = {.db = db,
                       .keys = audit_keys(),
                       .now_ms = now_ms,
                       .found = found,
                       .arg = arg,
                       .report = ret,
                       .expected = 1};
    int64_t last = 0;

    assert(v.keys);
    *ret = (struct df_audit_report){0};
    sort_lines(&v, heads);
    /* In this order: an entry that is written in between is not past the head. */
    enum df_code code = df_db_query_int(db, DF_Q0(audit_last_sequence), &last, err);
    if (code == DF_OK)
        code = df_audit_head_read(db, now_ms, &v.head, err);
    do {
        if (code == DF_OK)
            code = walk_page(&v, err);
    } while (code == DF_OK && v.page_rows == PAGE_ROWS);
    ret->last = v.expected - 1;
    if (code == DF_OK)
        code = judge_count(&v, err);
    if (code == DF_OK)
        code = df_db_query_int(db, DF_Q0(audit_unsealed_count), &ret->unsealed, err);
    if (code == DF_OK)
        code = df_db_each(db, DF_Q(audit_unsealed, .limit = df_int(PAGE_ROWS)), judge_unsealed, &v,
                          err);
    if (code == DF_OK) {
        judge_head(&v, last);
        judge_lines(&v);
    }
    free(v.lines);
    free(v.restored);
    return code;
}

/* --- a quick look --- */

struct place {
    bool there;
    unsigned char mac[DF_AUDIT_MAC_BYTES];
};

static void read_mac(void *arg, struct df_result *r)
{
    struct place *p = arg;
    struct df_str mac = df_col_null(r, audit_at_Mac) ? DF_STR_NULL : df_col_blob(r, audit_at_Mac);

    p->there = mac.len == sizeof p->mac;
    if (p->there)
        memcpy(p->mac, mac.ptr, sizeof p->mac);
}

struct explanation {
    const struct df_audit_head *line;
    int64_t sequences[RESTORED_MAX]; /* of entries that say so, the newest first */
    size_t count;
};

static void read_restored(void *arg, struct df_result *r)
{
    struct explanation *e = arg;
    int64_t sequence = 0;

    if (e->count < RESTORED_MAX &&
        df_str_to_i64(df_col_text(r, audit_restored_Target), &sequence) &&
        (!e->line->genuine || e->line->sequence <= sequence))
        e->sequences[e->count++] = df_col_int(r, audit_restored_Sequence);
}

struct witness {
    const struct verify *v;
    int64_t sequence;
    bool has_previous;
    struct audit_mac previous;
    bool written;
};

static void hear_witness(void *arg, struct df_result *r)
{
    struct witness *w = arg;
    struct audit_row row;

    audit_read_row(r, &row);
    if (row.sequence == w->sequence)
        w->written =
            audit_row_is(w->v->keys, AUDIT_WRITTEN,
                         w->has_previous ? audit_mac_str(&w->previous) : DF_STR_NULL, &row);
    else if (row.sequence == w->sequence - 1 && row.mac.len == sizeof w->previous.bytes) {
        w->has_previous = true;
        memcpy(w->previous.bytes, row.mac.ptr, row.mac.len);
    }
}

/* Whether a server or a command wrote the entry. Without keys every one is believed. */
static enum df_code is_written(const struct verify *v, int64_t sequence, bool *ret,
                               struct df_err *err)
{
    struct witness w = {.v = v,
                        .sequence = sequence,
                        .has_previous = v->stub.to > 0 && v->stub.to == sequence - 1,
                        .previous = v->stub.last_mac};
    enum df_code code = DF_OK;

    *ret = true;
    if (!v->keys)
        return DF_OK;
    code = df_db_each(v->db, DF_Q(audit_walk, .after = df_int(sequence - 2), .limit = df_int(2)),
                      hear_witness, &w, err);
    *ret = w.written;
    return code;
}

/* Whether an entry says that the database was restored since the line was written. */
static enum df_code find_restored(const struct verify *v, const struct df_audit_head *line,
                                  bool *ret, struct df_err *err)
{
    struct explanation e = {.line = line};
    enum df_code code = df_db_each(
        v->db, DF_Q(audit_restored, .since = df_time(line->time_ms), .limit = df_int(RESTORED_MAX)),
        read_restored, &e, err);

    *ret = false;
    for (size_t i = 0; code == DF_OK && !*ret && i < e.count; i++)
        code = is_written(v, e.sequences[i], ret, err);
    return code;
}

enum df_code df_audit_is_behind(struct df_db *db, const struct df_audit_heads *heads,
                                bool *ret_behind, struct df_audit_head *ret_line,
                                struct df_err *err)
{
    struct verify v = {.db = db, .keys = audit_keys(), .stubs_told = true};
    struct place at = {0};

    *ret_behind = false;
    if (heads->count == 0)
        return DF_OK;
    const struct df_audit_head *line = &heads->items[heads->count - 1];
    bool restored = false;
    enum df_code code = df_db_each(db, DF_Q0(audit_stub), read_stub, &v, err);
    if (code == DF_OK)
        code =
            df_db_each(db, DF_Q(audit_at, .sequence = df_int(line->sequence)), read_mac, &at, err);
    if (code != DF_OK || (at.there && memcmp(at.mac, line->mac, sizeof at.mac) == 0) ||
        line->sequence <= v.stub.to)
        return code;
    code = find_restored(&v, line, &restored, err);
    *ret_behind = !restored;
    *ret_line = *line;
    return code;
}
