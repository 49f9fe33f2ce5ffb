/*
 * GET /admin/retention: how long what is over is kept, and with ?count=true what a run would remove
 * now. That is counted in portions of some milliseconds, each a job of its own for a reader, so
 * that it holds none of them, and no thread; it ends by itself after MOST_ROWS or MOST_MS of each
 * kind.
 */
#include "access/handler.h"
#include "retention/retention.sql.h"
#include "retention/retention_private.h"

#include <stdatomic.h>

#define MOST_ROWS 100000
#define MOST_MS   1500

struct look {
    struct df_work w;          /* its arg is the view */
    struct retention_dry *dry; /* NULL: nothing is counted */
};

static void read_due(void *arg, struct df_result *r)
{
    *(int64_t *)arg = df_col_time(r, maintenance_due_DueAt);
}

static void write_kind(struct df_json_out *j, const struct df_retention_count *c, bool counted)
{
    df_json_open(j, '{');
    df_json_kv_text(j, "kind", df_str_c(c->kind));
    df_json_kv_text(j, "setting", df_str_c(c->setting));
    df_json_kv_int(j, "days", c->days);
    if (counted) {
        df_json_kv_int(j, "over", c->rows);
        df_json_kv_bool(j, "overIsAtLeast", c->is_at_least);
    }
    df_json_close(j, '}');
}

static enum df_code run_show(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct look *l = (const struct look *)w;
    const struct df_retention_view *view = w->arg;
    struct df_retention_count kinds[RETENTION_KINDS];
    int64_t due_ms = -1;
    bool found;
    enum df_code code = df_db_one(db, DF_Q(maintenance_due, .name = df_text(DF_STR("retention"))),
                                  read_due, &due_ms, &found, err);

    retention_list(view->settings, kinds);
    df_json_open(&w->json, '{');
    df_json_key(&w->json, "kinds");
    df_json_open(&w->json, '[');
    for (size_t i = 0; i < RETENTION_KINDS; i++)
        write_kind(&w->json, l->dry ? &l->dry->counts[i] : &kinds[i], l->dry != NULL);
    df_json_close(&w->json, ']');
    df_json_kv_time(&w->json, "countedAt", l->dry ? w->now_ms : -1);
    df_json_kv_time(&w->json, "nextRunAt", due_ms);
    df_json_close(&w->json, '}');
    return code;
}

static void let_go(struct df_work *w)
{
    struct df_retention_view *view = w->arg;

    if (((struct look *)w)->dry)
        atomic_store(&view->counting, false);
}

static const struct df_handler show = {
    .size = sizeof(struct look), .run = run_show, .cleanup = let_go};

static enum df_code run_count(struct df_db *db, struct df_work *w, struct df_err *err)
{
    return retention_dry_look(((struct look *)w)->dry, db, err);
}

static bool go_on(struct df_work *w, enum df_code code, const struct df_err *err);

static const struct df_handler count = {
    .size = sizeof(struct look), .run = run_count, .pass_on = go_on, .cleanup = let_go};

static bool go_on(struct df_work *w, enum df_code code, const struct df_err *err)
{
    (void)err;
    if (code != DF_OK)
        return false;
    df_work_become(w, retention_dry_next(((struct look *)w)->dry) ? &count : &show);
    df_work_submit(w);
    return true;
}

static bool read_query(struct df_work *w, struct df_input *in)
{
    static const char *const words[] = {"true", "false", NULL};
    struct df_retention_view *view = w->arg;
    struct df_str asked = df_input_choice(in, w->req, "count", words);
    struct look *l = (struct look *)w;

    if (!df_str_eq(asked, DF_STR("true")))
        return true;
    if (atomic_exchange(&view->counting, true)) {
        df_req_fail(w->req, DF_E_BUSY, "Somebody else is counting. Ask again in some seconds.");
        return false;
    }
    l->dry = df_arena_zalloc(df_req_arena(w->req), sizeof *l->dry);
    l->dry->most_rows = MOST_ROWS;
    l->dry->most_ms = MOST_MS;
    if (retention_dry_begin(l->dry, view->settings, w->now_ms))
        df_work_become(w, &count);
    return true;
}

static const struct df_handler get = {
    .size = sizeof(struct look), .prepare = read_query, .run = run_show, .cleanup = let_go};

const struct df_route df_retention_routes[] = {
    DF_ROUTE("GET", "/admin/retention", DF_BODY_NONE, DF_ACCESS_ADMIN, NULL, get),
    {.method = NULL},
};
