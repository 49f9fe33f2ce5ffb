/*
 * GET /imports/{batchId}/errors.xlsx, .csv and .json.
 *
 * A store thread finds the client's batch. Then the request waits in a queue for one of a few
 * threads that make the file (report.c) in temp_dir, and is answered from that file. The rows are
 * read from the database a few MiB at a time: their sizes are read first. The report of a batch in
 * work has the rows that have failed so far.
 */
#include "base/list.h"
#include "base/mem.h"
#include "base/pool.h"
#include "imports/api/batch_view.h"
#include "imports/api/batches.sql.h"
#include "imports/api/items.sql.h"
#include "imports/api/report.h"
#include "imports/api/views.h"
#include "imports/kept.h"

#include <stdatomic.h>
#include <stdlib.h>

#define PAGE_ROWS  1000
#define PAGE_CHARS (1 << 20) /* of payloads read at a time; a longer payload comes alone */
#define STEM_MAX   80        /* bytes of the file's name in the report's name */
#define TOLD_MS    (INT64_C(3600) * 1000)

struct df_import_reports {
    struct df_store *store;
    struct df_keys *keys;
    char *temp_dir;
    struct df_pool pool;
    _Atomic bool stopping;

    struct df_mutex lock;
    struct df_list asked DF_GUARDED_BY(lock); /* requests from their start to their answer */
};

struct ask {
    struct df_work w;
    struct df_import_reports *reports;
    struct df_uuid id;
    struct df_uuid client;
    enum df_report_format format;
    struct df_str file_name;
    struct df_str columns; /* of the file; absent: not known */
    bool expired;          /* what was kept is not shown any more */
    struct df_link link;   /* in df_import_reports.asked, under its lock */
    bool listed;
};

/* --- rows, page by page --- */

struct pages {
    struct df_job job;
    struct df_import_reports *reports;
    struct df_uuid id;
    bool expired;
    int64_t after; /* the last sequence of the page */
    /* How far the next page goes. */
    int64_t until;
    int64_t chars;
    enum df_lang lang; /* of the errors */
    size_t room;       /* rows */
    struct df_arena arena;
    struct df_report_row *rows;
    size_t count;
    size_t at;
    enum df_code code; /* of what is kept */
    struct df_err *err;
};

static void measure_row(void *arg, struct df_result *r)
{
    struct pages *p = arg;

    p->chars += df_col_int(r, item_error_sizes_Chars);
    if (p->room > 0 && p->chars > PAGE_CHARS)
        return;
    p->until = df_col_int(r, item_error_sizes_Sequence);
    p->room++;
}

/* The item without its sequence: an upload takes its members for the columns that they came from.
 */
static struct df_str record_of_item(struct df_arena *a, struct df_str payload)
{
    struct df_str item = df_arena_str(a, payload);
    const char *comma =
        df_str_starts(item, DF_STR("{\"sequence\":")) ? memchr(item.ptr, ',', item.len) : NULL;
    if (!comma)
        return item;
    char *at = df_arena_alloc(a, item.len);
    size_t len = item.len - (size_t)(comma + 1 - item.ptr);
    at[0] = '{';
    memcpy(at + 1, comma + 1, len);
    return df_str_n(at, len + 1);
}

/* The record as uploaded. Where it was not kept, or its time is over, the item, which then is
 * masked unless it is of an earlier release. */
static struct df_str record_of(struct pages *p, struct df_result *r)
{
    struct import_kept kept = {.record = DF_STR_NULL};

    if (!df_col_null(r, item_error_rows_OriginalJson))
        return df_arena_str(&p->arena, df_col_text(r, item_error_rows_OriginalJson));
    if (df_col_null(r, item_error_rows_Sealed))
        return record_of_item(&p->arena, df_col_text(r, item_error_rows_PayloadJson));
    enum df_code code =
        import_kept_open(p->reports->keys, &p->id, df_col_int(r, item_error_rows_Sequence),
                         df_col_blob(r, item_error_rows_Sealed), &p->arena, &kept, p->err);
    if (code != DF_OK)
        p->code = code;
    return kept.record.ptr ? kept.record : record_of_item(&p->arena, kept.item);
}

/* More rows may have failed since they were measured; they come with the next page. */
static void read_report_row(void *arg, struct df_result *r)
{
    struct pages *p = arg;

    if (p->count == p->room)
        return;
    p->rows[p->count++] = (struct df_report_row){
        .sequence = df_col_int(r, item_error_rows_Sequence),
        .error = df_lang_text(p->lang,
                              df_arena_str(&p->arena, df_col_text(r, item_error_rows_ErrorMessage)),
                              &p->arena),
        .record = record_of(p, r),
    };
}

static enum df_code run_page(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct pages *p = (struct pages *)job;
    struct df_value id = df_uuid(df_uuid_str(&p->id));

    df_arena_reset(&p->arena);
    p->count = p->at = p->room = 0;
    p->chars = 0;
    enum df_code code = df_db_each(db,
                                   DF_Q(item_error_sizes, .expired = df_int(p->expired), .id = id,
                                        .after = df_int(p->after), .limit = df_int(PAGE_ROWS)),
                                   measure_row, p, err);
    if (code != DF_OK || p->room == 0)
        return code;
    p->rows = DF_ARENA_ARRAY(&p->arena, struct df_report_row, p->room);
    p->code = DF_OK;
    p->err = err;
    code = df_db_each(db,
                      DF_Q(item_error_rows, .expired = df_int(p->expired), .id = id,
                           .after = df_int(p->after), .until = df_int(p->until)),
                      read_report_row, p, err);
    return code == DF_OK ? p->code : code;
}

static enum df_code next_report_row(void *arg, struct df_report_row *ret, struct df_err *err)
{
    struct pages *p = arg;

    if (p->at == p->count) {
        if (atomic_load(&p->reports->stopping))
            return df_err_set(err, DF_E_DRAINING, "The server is shutting down.");
        enum df_code code = df_store_read_wait(p->reports->store, &p->job, err);
        if (code != DF_OK)
            return code;
        if (p->count == 0)
            return DF_DONE;
        p->after = p->rows[p->count - 1].sequence;
    }
    *ret = p->rows[p->at++];
    return DF_ROW;
}

/* --- the threads --- */

/* "leads-errors.csv" for "leads.xlsx"; a character that may be unsafe in a header or on a disk
 * becomes '_'. */
static void add_disposition(const struct ask *a)
{
    struct df_str stem = a->file_name;
    char name[STEM_MAX + 1];
    size_t len = 0;

    for (size_t i = stem.len; i > 1; i--) {
        if (stem.ptr[i - 1] == '.') {
            stem.len = i - 1;
            break;
        }
    }
    for (size_t i = 0; i < stem.len && len < STEM_MAX; i++) {
        unsigned char c = (unsigned char)stem.ptr[i];
        if (c >= 0x80 && c < 0xC0)
            continue; /* the rest of a character */
        bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                     (len > 0 && (c == '-' || c == '.' || c == '_'));
        name[len++] = plain ? (char)c : '_';
    }
    struct df_str value =
        df_arena_printf(df_req_arena(a->w.req), "attachment; filename=\"%.*s-errors.%s\"", (int)len,
                        name, df_report_extension(a->format));
    (void)df_req_add_header(a->w.req, "Content-Disposition", value);
}

static void leave_reports(struct df_work *w)
{
    struct ask *a = (struct ask *)w;
    struct df_import_reports *r = a->reports;

    if (!a->listed)
        return; /* it was refused */
    df_lock(&r->lock);
    df_list_remove(&r->asked, &a->link);
    df_unlock(&r->lock);
}

static void answer_report(struct ask *a, enum df_code code, int fd, uint64_t size,
                          const struct df_err *err)
{
    if (code == DF_OK) {
        add_disposition(a);
        df_req_add_language(a->w.req, df_req_language(a->w.req));
        df_req_answer_file(a->w.req, 200, df_report_content_type(a->format), fd, size);
    } else {
        df_req_problem(a->w.req, err);
    }
    df_work_end(&a->w);
}

static void make_report(void *arg, void *item)
{
    struct ask *a = item;
    struct pages *p = df_calloc(1, sizeof *p);
    struct df_report_source source = {.next = next_report_row, .arg = p, .columns = a->columns};
    const struct df_log_ctx *before = df_log_ctx_use(df_req_log(a->w.req));
    struct df_err err = DF_ERR_INIT;
    uint64_t size = 0;
    int fd = -1;

    (void)arg;
    p->job.run = run_page;
    p->reports = a->reports;
    p->id = a->id;
    p->expired = a->expired;
    p->lang = df_req_language(a->w.req);
    p->after = -1;
    enum df_code code = df_report_make(a->format, &source, a->reports->temp_dir, &fd, &size, &err);
    df_arena_release(&p->arena);
    free(p);
    df_log_ctx_use(before);
    answer_report(a, code, fd, size, &err);
}

struct df_import_reports *df_import_reports_new(struct df_store *store, struct df_keys *keys,
                                                const char *temp_dir)
{
    struct df_import_reports *r = df_calloc(1, sizeof *r);
    r->store = store;
    r->keys = keys;
    r->temp_dir = df_strdup(df_str_c(temp_dir));
    df_mutex_init(&r->lock);
    df_pool_start(&r->pool, "reports", DF_REPORT_THREADS, DF_REPORTS_WAITING, make_report, NULL);
    return r;
}

void df_import_reports_stop(struct df_import_reports *r)
{
    atomic_store(&r->stopping, true);
    df_pool_stop(&r->pool);
}

void df_import_reports_free(struct df_import_reports *r)
{
    df_pool_release(&r->pool);
    df_mutex_destroy(&r->lock);
    free(r->temp_dir);
    free(r);
}

/* --- the request --- */

static void read_name(void *arg, struct df_result *r)
{
    struct ask *a = arg;
    a->file_name = df_arena_str(df_req_arena(a->w.req), df_col_text(r, batch_name_FileName));
    a->columns = df_arena_str(df_req_arena(a->w.req), df_col_text(r, batch_name_ColumnsJson));
    int64_t kept_until_ms = df_col_time(r, batch_name_KeptUntil);
    a->expired = kept_until_ms >= 0 && kept_until_ms <= a->w.now_ms;
}

/* Each download of an operator is told; those of a client once a batch and hour. */
static enum df_code tell_audit(struct df_db *db, const struct ask *a, const struct df_uuid *client,
                               struct df_err *err)
{
    struct df_actor by = df_actor_of(a->w.req);
    struct df_str target = df_uuid_str(&a->id);
    int64_t told = 0;
    enum df_code code = DF_OK;

    if (!df_batch_is_operator(a->w.req))
        code = df_db_query_int(db,
                               DF_Q(report_told, .client = df_uuid(df_uuid_str(client)),
                                    .since = df_time(a->w.now_ms - TOLD_MS),
                                    .actor = df_text(by.name), .target = df_text(target)),
                               &told, err);
    if (code != DF_OK || told > 0)
        return code;
    return df_audit_write(db, &by, "ImportReportDownloaded", target, df_uuid_str(client),
                          DF_STR_NULL, a->w.now_ms, err);
}

static enum df_code run_find_batch(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct ask *a = (struct ask *)w;
    struct df_uuid client = a->client;
    bool found = false;
    enum df_code code = df_batch_scope(db, w->req, &a->id, &client, err);
    if (code == DF_OK)
        code = df_db_one(db,
                         DF_Q(batch_name, .id = df_uuid(df_uuid_str(&a->id)),
                              .client = df_uuid(df_uuid_str(&client))),
                         read_name, a, &found, err);
    if (code == DF_OK && !found)
        code = df_batch_not_found(&a->id, err);
    return code == DF_OK ? tell_audit(db, a, &client, err) : code;
}

static bool queue_report(struct df_work *w, enum df_code code, const struct df_err *err)
{
    struct ask *a = (struct ask *)w;

    (void)err;
    if (code != DF_OK)
        return false;
    if (df_pool_push(&a->reports->pool, a))
        return true;
    df_req_fail(w->req, DF_E_BUSY, "Too many error reports are being made.");
    return false;
}

/* Counts the request among the client's reports. False: it has too many, and the answer is set. */
static bool enter_reports(struct ask *a)
{
    struct df_import_reports *r = a->reports;
    const struct ask *other;
    size_t own = 0;

    df_lock(&r->lock);
    DF_LIST_EACH (other, &r->asked, link)
        own += memcmp(other->client.text, a->client.text, DF_UUID_LEN) == 0;
    a->listed = own < DF_REPORTS_PER_CLIENT;
    if (a->listed)
        df_list_add(&r->asked, &a->link);
    df_unlock(&r->lock);
    if (a->listed)
        return true;
    df_req_fail(a->w.req, DF_E_TOO_MANY, "%zu error reports of this client are being made.", own);
    return false;
}

static bool read_ask(struct df_work *w, enum df_report_format format)
{
    struct ask *a = (struct ask *)w;
    const struct df_import_views *views = w->arg;

    a->reports = views->reports;
    if (!df_batch_is_operator(w->req))
        a->client = df_auth_client(w->req)->id;
    a->format = format;
    return df_batch_param(w->req, &a->id) && enter_reports(a);
}

static bool read_xlsx(struct df_work *w, struct df_input *in)
{
    (void)in;
    return read_ask(w, DF_REPORT_XLSX);
}

static bool read_csv(struct df_work *w, struct df_input *in)
{
    (void)in;
    return read_ask(w, DF_REPORT_CSV);
}

static bool read_json(struct df_work *w, struct df_input *in)
{
    (void)in;
    return read_ask(w, DF_REPORT_JSON);
}

#define REPORT                                                                                     \
    .size = sizeof(struct ask), .writes = true, .run = run_find_batch, .pass_on = queue_report,    \
    .cleanup = leave_reports

const struct df_handler df_import_xlsx_handler = {REPORT, .prepare = read_xlsx};
const struct df_handler df_import_csv_handler = {REPORT, .prepare = read_csv};
const struct df_handler df_import_json_handler = {REPORT, .prepare = read_json};
