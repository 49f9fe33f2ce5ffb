#include "access/audit_list.h"

#include "access/audit.sql.h"
#include "access/audit_private.h"
#include "access/export.h"

#define END_MS    INT64_C(253402300799000) /* the year 9999 */
#define COUNT_MAX 10000

/* The ids that are looked at: from least to before - 1, of those up to `last`. */
struct window {
    int64_t before, least, last;
};

static enum df_code find_window(struct df_db *db, const struct df_audit_filter *f,
                                struct window *ret, struct df_err *err)
{
    int64_t last = 0, first = 0;
    enum df_code code = df_db_query_int(db, DF_Q0(audit_last_id), &last, err);

    ret->last = last;
    if (f->oldest_first) {
        if (code == DF_OK && f->after <= 0)
            code = df_db_query_int(db, DF_Q0(audit_first_id), &first, err);
        ret->least = f->after <= 0 ? first : f->after < last ? f->after + 1 : last + 1;
        ret->before = ret->least + DF_AUDIT_SCAN_ROWS;
        return code;
    }
    ret->before = f->after > 0 && f->after <= last ? f->after : last + 1;
    ret->least = ret->before > DF_AUDIT_SCAN_ROWS ? ret->before - DF_AUDIT_SCAN_ROWS : 0;
    return code;
}

#define FILTER(f, w)                                                                               \
    {"before", df_int((w).before)}, {"least", df_int((w).least)}, {"from", df_time((f)->from_ms)}, \
        {"to", df_time((f)->to_ms > 0 ? (f)->to_ms : END_MS)}, {"actor", df_text((f)->actor)},     \
        {"action", df_text((f)->action)}, {"target", df_text((f)->target)},                        \
        {"outcome", df_text((f)->outcome)},                                                        \
    {                                                                                              \
        "client", df_text((f)->client)                                                             \
    }

enum df_code df_audit_count(struct df_db *db, const struct df_audit_filter *f,
                            struct df_audit_page *page, struct df_err *err)
{
    struct window w;
    enum df_code code = find_window(db, f, &w, err);

    if (code == DF_OK)
        code = df_db_query_int(
            db, DF_ANY(&df_q_audit_count, FILTER(f, w), {"most", df_int(COUNT_MAX + 1)}),
            &page->total, err);
    page->total_is_estimate =
        page->total > COUNT_MAX || (f->oldest_first ? w.before <= w.last : w.least > 0);
    return code;
}

struct reading {
    struct df_audit_page *page;
    int64_t last_id;
    struct df_json_out *json; /* one of the three */
    struct df_buf *csv;
    struct df_buf *text;
};

static void write_json(struct df_json_out *out, const struct audit_row *row)
{
    df_json_open(out, '{');
    df_json_kv_int(out, "id", row->id);
    df_json_kv_int_if(out, "sequence", row->sequence > 0, row->sequence);
    df_json_kv_time(out, "occurredAt", row->occurred_ms);
    df_json_kv_text(out, "actor", row->actor);
    df_json_kv_text(out, "action", row->action);
    df_json_kv_text(out, "target", row->target);
    df_json_kv_text(out, "outcome", row->outcome);
    df_json_kv_text(out, "ip", row->ip);
    df_json_kv_text(out, "correlationId", row->correlation_id);
    if (row->details.ptr) {
        df_json_key(out, "details");
        df_json_raw(out, row->details);
    }
    df_json_close(out, '}');
}

void df_audit_csv_header(struct df_buf *out)
{
    df_buf_addz(out, "sequence,occurredAt,actor,action,target,outcome,ip,correlationId,details\n");
}

static void write_csv(struct df_buf *out, const struct audit_row *row)
{
    char time[DF_TIME_LEN + 1];

    if (row->sequence > 0)
        df_buf_add_i64(out, row->sequence);
    df_time_format(row->occurred_ms, time);
    df_buf_addf(out, ",%s,", time);
    df_csv_text(out, row->actor, ',');
    df_csv_text(out, row->action, ',');
    df_csv_text(out, row->target, ',');
    df_csv_text(out, row->outcome, ',');
    df_csv_text(out, row->ip, ',');
    df_csv_text(out, row->correlation_id, ',');
    df_csv_text(out, row->details, '\n');
}

static void write_text(struct df_buf *out, const struct audit_row *row)
{
    char time[DF_TIME_LEN + 1];

    df_time_format(row->occurred_ms, time);
    df_buf_addf(out, "%s  %-24.*s %-26.*s %-7.*s " DF_STR_FMT "\n", time, (int)row->actor.len,
                row->actor.ptr, (int)row->action.len, row->action.ptr, (int)row->outcome.len,
                row->outcome.ptr, DF_STR_ARG(row->target));
}

static void write_row(void *arg, struct df_result *r)
{
    struct reading *g = arg;
    struct audit_row row;

    audit_read_row(r, &row);
    g->page->shown++;
    g->last_id = row.id;
    if (g->json)
        write_json(g->json, &row);
    else if (g->csv)
        write_csv(g->csv, &row);
    else
        write_text(g->text, &row);
}

static enum df_code read_page(struct df_db *db, const struct df_audit_filter *f, struct reading *g,
                              struct df_err *err)
{
    struct df_audit_page *page = g->page;
    struct window w;
    enum df_code code = find_window(db, f, &w, err);

    page->shown = page->next = 0;
    if (code == DF_OK)
        code = df_db_each(db,
                          DF_ANY(f->oldest_first ? &df_q_audit_list_oldest : &df_q_audit_list,
                                 FILTER(f, w), {"limit", df_int(page->limit)},
                                 {"offset", df_int(page->offset)}),
                          write_row, g, err);
    if (page->shown == page->limit)
        page->next = g->last_id;
    else if (f->oldest_first)
        page->next = w.before <= w.last ? w.before - 1 : 0;
    else if (w.least > 1)
        page->next = w.least;
    return code;
}

enum df_code df_audit_json(struct df_db *db, const struct df_audit_filter *f,
                           struct df_audit_page *page, struct df_json_out *out, struct df_err *err)
{
    return read_page(db, f, &(struct reading){.page = page, .json = out}, err);
}

enum df_code df_audit_csv(struct df_db *db, const struct df_audit_filter *f,
                          struct df_audit_page *page, struct df_buf *out, struct df_err *err)
{
    return read_page(db, f, &(struct reading){.page = page, .csv = out}, err);
}

enum df_code df_audit_text(struct df_db *db, const struct df_audit_filter *f,
                           struct df_audit_page *page, struct df_buf *out, struct df_err *err)
{
    return read_page(db, f, &(struct reading){.page = page, .text = out}, err);
}
