#include "access/export.h"

#include "access/audit.h"
#include "base/temp.h"
#include "tabular/formula.h"

#include <unistd.h>

#define PAGE_ROWS  1000
#define PAGE_BYTES ((size_t)64 << 20)

/* --- cells --- */

void df_csv_text(struct df_buf *out, struct df_str s, char end)
{
    df_buf_addz(out, df_formula_needs_guard(s) ? "\"'" : "\"");
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '"')
            df_buf_addc(out, '"');
        df_buf_addc(out, s.ptr[i]);
    }
    df_buf_addc(out, '"');
    df_buf_addc(out, end);
}

void df_csv_int(struct df_buf *out, int64_t n, char end)
{
    df_buf_add_i64(out, n);
    df_buf_addc(out, end);
}

void df_csv_time(struct df_buf *out, int64_t wall_ms, char end)
{
    char time[DF_TIME_LEN + 1] = "";

    if (wall_ms >= 0)
        df_time_format(wall_ms, time);
    df_buf_addz(out, time);
    df_buf_addc(out, end);
}

/* --- the file --- */

void df_export_read(struct df_export *e, struct df_input *in, const char *name,
                    const char *temp_dir, const char *list, bool by_uuid,
                    const struct df_handler *reading)
{
    e->fd = -1;
    e->name = name;
    e->temp_dir = temp_dir;
    e->reading = reading;
    e->rows = df_input_query_int(in, e->w.req, "limit", 1, DF_EXPORT_MAX, DF_EXPORT_ROWS);
    e->w.page = (struct df_page){.list = list, .by_uuid = by_uuid};
    df_page_read_place(in, e->w.req, &e->w.page);
}

static void close_file(struct df_export *e)
{
    if (e->fd >= 0)
        close(e->fd);
    e->fd = -1;
    e->size = 0;
}

static enum df_code add_to_file(struct df_export *e, struct df_err *err)
{
    const struct df_buf *b = &e->text;

    if (df_buf_failed(b))
        return df_err_set(err, DF_E_TOO_LARGE, "Rows are too long to be exported together.");
    for (size_t done = 0; done < b->len;) {
        ssize_t n = write(e->fd, b->ptr + done, b->len - done);
        if (n < 0)
            return df_err_errno(err, "cannot write the export");
        done += (size_t)n;
    }
    e->size += b->len;
    df_buf_reset(&e->text);
    return DF_OK;
}

enum df_code df_export_run(struct df_export *e, struct df_db *db, const char *header,
                           enum df_code (*page)(struct df_db *db, struct df_export *e,
                                                struct df_err *err),
                           struct df_err *err)
{
    struct df_page *p = &e->w.page;
    const struct df_page start = *p; /* a job may run again */
    int64_t left = e->rows;

    close_file(e);
    df_buf_init(&e->text, PAGE_BYTES);
    df_buf_addz(&e->text, header);
    enum df_code code = df_temp_open(e->temp_dir, &e->fd, err);
    do {
        p->size = left < PAGE_ROWS ? left : PAGE_ROWS;
        if (code == DF_OK)
            code = page(db, e, err);
        if (code == DF_OK)
            code = add_to_file(e, err);
        left -= p->size;
    } while (code == DF_OK && left > 0 && df_page_forward(p));
    df_buf_release(&e->text);
    if (code != DF_OK)
        *p = start;
    return code;
}

/* --- hooks --- */

enum df_code df_export_audit(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct df_export *e = (const struct df_export *)w;
    struct df_actor by = df_actor_of(w->req);

    return df_audit_write(db, &by, "ListExported", df_str_c(e->name), DF_STR_NULL, DF_STR_NULL,
                          w->now_ms, err);
}

bool df_export_begin(struct df_work *w, enum df_code code, const struct df_err *err)
{
    const struct df_export *e = (const struct df_export *)w;

    (void)err;
    if (code != DF_OK)
        return false;
    df_work_become(w, e->reading);
    df_work_submit(w);
    return true;
}

void df_export_answer(struct df_work *w)
{
    struct df_export *e = (struct df_export *)w;
    struct df_arena *a = df_req_arena(w->req);
    int fd = e->fd;

    if (w->page.next[0])
        df_req_add_header(w->req, "X-Next-After", df_arena_str(a, df_str_c(w->page.next)));
    df_req_add_header(w->req, "Content-Disposition",
                      df_arena_printf(a, "attachment; filename=\"%s.csv\"", e->name));
    e->fd = -1;
    df_req_answer_file(w->req, 200, "text/csv; charset=utf-8", fd, e->size);
}

void df_export_clean(struct df_work *w)
{
    close_file((struct df_export *)w);
}
