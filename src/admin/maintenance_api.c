/*
 * GET /admin/maintenance-windows: when no uploads are taken, of the whole server (configuration,
 * imports.maintenance_windows) and of single clients (their policy). Read only.
 */
#include "access/handler.h"
#include "access/maintenance.h"
#include "admin/admin.h"
#include "admin/maintenance.sql.h"

#define SHOWN_MAX  1000
#define ANSWER_MAX (1 << 20)

/* Windows that stand together in one text are one item: they are in force together. */
static void write_windows(struct df_work *w, struct df_str client, struct df_str text)
{
    struct df_json_out *out = &w->json;
    struct df_maintenance windows = {0};
    struct df_err ignored = DF_ERR_INIT;

    if (df_maintenance_add(&windows, text, &ignored) != DF_OK || windows.count == 0)
        return;
    struct df_maintenance_times t = df_maintenance_next(&windows, w->now_ms);
    w->page.total++;
    df_json_open(out, '{');
    df_json_kv_text(out, "clientId", client);
    df_json_kv_text(out, "windows", text);
    df_json_kv_bool(out, "active", t.until_ms >= 0);
    df_json_kv_time(out, "since", t.since_ms);
    df_json_kv_time(out, "until", t.until_ms);
    df_json_kv_time(out, "next", t.next_ms);
    df_json_close(out, '}');
}

static void write_client(void *arg, struct df_result *r)
{
    write_windows(arg, df_col_text(r, maintenance_clients_ClientIdentifier),
                  df_col_text(r, maintenance_clients_MaintenanceWindow));
}

static enum df_code run_list(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const char *const *configured = w->arg;

    w->page.total = 0;
    df_page_open(&w->json);
    if (*configured)
        write_windows(w, DF_STR_NULL, df_str_c(*configured));
    enum df_code code =
        df_db_each(db, DF_Q(maintenance_clients, .limit = df_int(SHOWN_MAX)), write_client, w, err);
    df_json_close(&w->json, ']');
    df_json_kv_int(&w->json, "total", w->page.total);
    df_json_close(&w->json, '}');
    return code;
}

static const struct df_handler list = {.max_answer = ANSWER_MAX, .run = run_list};

const struct df_route df_maintenance_routes[] = {
    DF_ROUTE("GET", "/admin/maintenance-windows", DF_BODY_NONE, DF_ACCESS_ADMIN, NULL, list),
    {.method = NULL},
};
