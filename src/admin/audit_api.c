/* GET /admin/audit and GET /admin/audit.csv. */
#include "access/audit_list.h"
#include "access/handler.h"
#include "admin/admin.h"
#include "base/temp.h"

#include <unistd.h>

#define ANSWER_MAX  ((size_t)32 << 20)
#define TEXT_MAX    200
#define LIST        "audit"        /* in cursors */
#define EXPORT_ROWS INT64_C(50000) /* of one call, unless it asks for another number */
#define EXPORT_MAX  INT64_C(100000)
#define EXPORT_PAGE 1000
#define PAGE_BYTES  ((size_t)64 << 20)

struct listing {
    struct df_work w;
    struct df_audit_filter filter;
    int64_t rows; /* of the export */
    int64_t next;
    int fd;
    uint64_t size;
};

static struct df_str read_text(struct df_work *w, struct df_input *in, const char *name)
{
    struct df_str text = df_input_filter(w->req, name);

    if (df_utf8_count(text) > TEXT_MAX)
        df_input_error(in, name, "has more than 200 characters");
    return text;
}

static int64_t read_time(struct df_work *w, struct df_input *in, const char *name)
{
    struct df_str text = df_input_filter(w->req, name);
    int64_t ms = 0;

    if (text.ptr && (!df_time_parse(text, &ms) || ms < 0)) {
        df_input_error(in, name, "must be a time like 2026-11-15T00:00:00Z");
        return 0;
    }
    return ms;
}

static bool read_filter(struct df_work *w, struct df_input *in)
{
    static const char *const outcomes[] = {"ok", "failed", "denied", NULL};
    struct df_audit_filter *f = &((struct listing *)w)->filter;

    f->actor = read_text(w, in, "actor");
    f->action = read_text(w, in, "action");
    f->target = read_text(w, in, "target");
    f->client = read_text(w, in, "clientId");
    f->outcome = df_input_choice(in, w->req, "outcome", outcomes);
    f->from_ms = read_time(w, in, "from");
    f->to_ms = read_time(w, in, "to");
    if (f->to_ms > 0 && f->to_ms <= f->from_ms)
        df_input_error(in, "to", "must be after from");
    w->page.list = LIST;
    df_page_read_place(in, w->req, &w->page);
    f->oldest_first = w->page.oldest_first;
    f->after = w->page.from_cursor ? w->page.cursor.id : 0;
    return true;
}

/* The id behind which the rest stands, as the cursor of the page. */
static void set_next(struct df_work *w, int64_t id)
{
    const struct df_cursor next = {.oldest_first = w->page.oldest_first, .id = id};

    w->page.next[0] = '\0';
    if (id > 0)
        df_cursor_write(&next, LIST, w->page.next);
}

/* --- GET /admin/audit --- */

static bool read_listing(struct df_work *w, struct df_input *in)
{
    df_page_read(in, w->req, &w->page);
    return read_filter(w, in);
}

static enum df_code run_listing(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct df_audit_filter *f = &((struct listing *)w)->filter;
    struct df_audit_page page = {.limit = w->page.size, .offset = w->page.offset};
    enum df_code code = df_audit_count(db, f, &page, err);

    df_page_open(&w->json);
    if (code == DF_OK)
        code = df_audit_json(db, f, &page, &w->json, err);
    df_json_close(&w->json, ']');
    w->page.total = page.total;
    w->page.total_is_estimate = page.total_is_estimate;
    set_next(w, page.next);
    df_page_write(&w->page, &w->json);
    df_json_close(&w->json, '}');
    return code;
}

static const struct df_handler list_audit = {
    .size = sizeof(struct listing),
    .max_answer = ANSWER_MAX,
    .prepare = read_listing,
    .run = run_listing,
};

/* --- GET /admin/audit.csv --- */

static bool read_export(struct df_work *w, struct df_input *in)
{
    struct listing *l = (struct listing *)w;

    l->fd = -1;
    l->rows = df_input_query_int(in, w->req, "limit", 1, EXPORT_MAX, EXPORT_ROWS);
    return read_filter(w, in);
}

static enum df_code add_to_file(struct listing *l, const struct df_buf *b, struct df_err *err)
{
    if (df_buf_failed(b))
        return df_err_set(err, DF_E_TOO_LARGE, "Entries are too long to be exported together.");
    for (size_t done = 0; done < b->len;) {
        ssize_t n = write(l->fd, b->ptr + done, b->len - done);
        if (n < 0)
            return df_err_errno(err, "cannot write the export");
        done += (size_t)n;
    }
    l->size += b->len;
    return DF_OK;
}

static void close_export(struct listing *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    l->size = 0;
}

/* Page by page, so that no more than one is in memory. A page for which nothing was found looked at
 * as many entries as one may: the caller goes on from there, lest a reader is held for the whole
 * log. */
static enum df_code run_export(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct listing *l = (struct listing *)w;
    struct df_audit_filter f = l->filter;
    int64_t left = l->rows, shown = 0;
    struct df_buf text;

    close_export(l);
    df_buf_init(&text, PAGE_BYTES);
    df_audit_csv_header(&text);
    enum df_code code = df_temp_open(*(const char **)w->arg, &l->fd, err);
    do {
        struct df_audit_page page = {.limit = left < EXPORT_PAGE ? left : EXPORT_PAGE};
        if (code == DF_OK)
            code = df_audit_csv(db, &f, &page, &text, err);
        if (code == DF_OK)
            code = add_to_file(l, &text, err);
        df_buf_reset(&text);
        shown = page.shown;
        left -= shown;
        l->next = f.after = page.next;
    } while (code == DF_OK && left > 0 && shown > 0 && f.after > 0);
    df_buf_release(&text);
    return code;
}

static void answer_export(struct df_work *w)
{
    struct listing *l = (struct listing *)w;
    int fd = l->fd;

    set_next(w, l->next);
    if (l->next > 0)
        df_req_add_header(w->req, "X-Next-After",
                          df_arena_str(df_req_arena(w->req), df_str_c(w->page.next)));
    df_req_add_header(w->req, "Content-Disposition", DF_STR("attachment; filename=\"audit.csv\""));
    l->fd = -1;
    df_req_answer_file(w->req, 200, "text/csv; charset=utf-8", fd, l->size);
}

static void clean_export(struct df_work *w)
{
    close_export((struct listing *)w);
}

static const struct df_handler export_audit = {
    .size = sizeof(struct listing),
    .prepare = read_export,
    .run = run_export,
    .done = answer_export,
    .cleanup = clean_export,
};

#define ADMIN(path, h) DF_ROUTE("GET", "/admin" path, DF_BODY_NONE, DF_ACCESS_ADMIN, NULL, h)

const struct df_route df_audit_routes[] = {
    ADMIN("/audit", list_audit),
    ADMIN("/audit.csv", export_audit),
    {.method = NULL},
};
