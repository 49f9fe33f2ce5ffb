/* A row of an outbox alone, failures by cause, and the export of a list. */
#include "access/causes.h"
#include "access/export.h"
#include "access/reveal.h"
#include "admin/outbox.h"

#define ANSWER_MAX   (64 << 20) /* enough for a row's payload with every other character escaped */
#define CAUSES_BYTES ((size_t)1 << 20)

/* For a path with {channel}. NULL: the answer is set. */
static const struct df_channel *channel_of(struct df_work *w)
{
    const struct df_outbox_scene *scene = w->arg;
    struct df_str name = df_req_param(w->req, "channel");
    const struct df_channel *c = df_delivery_find(scene->delivery, name);

    if (!c)
        df_req_fail(w->req, DF_E_NOT_FOUND, "There is no channel \"" DF_STR_FMT "\".",
                    DF_STR_ARG(df_utf8_cut(name, 50)));
    return c;
}

/* --- GET /admin/outbox/{channel}/{id} --- */

struct showing {
    struct df_work w; /* its arg is a struct df_outbox_scene */
    const struct df_channel *channel;
    bool reveal;
};

static enum df_code run_show(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct showing *s = (const struct showing *)w;
    const struct df_outbox_scene *scene = w->arg;
    const struct df_outbox_look look = {.masker = s->reveal ? NULL : scene->masker,
                                        .delivery = scene->delivery,
                                        .now_ms = w->now_ms};

    return df_outbox_json_row(db, s->channel, df_req_param(w->req, "id"), &look, &w->json, err);
}

static enum df_code run_reveal(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct showing *s = (const struct showing *)w;
    struct df_str id = df_req_param(w->req, "id");
    enum df_code code = run_show(db, w, err);

    if (code != DF_OK)
        return code;
    return df_reveal_audit(
        db, w,
        df_arena_printf(df_req_arena(w->req), "%s/" DF_STR_FMT, s->channel->name, DF_STR_ARG(id)),
        err);
}

static const struct df_handler reveal = {
    .size = sizeof(struct showing), .writes = true, .tells = true, .run = run_reveal};

static bool read_show(struct df_work *w, struct df_input *in)
{
    struct showing *s = (struct showing *)w;

    s->channel = channel_of(w);
    return s->channel && df_reveal_read(w, in, &reveal, &s->reveal);
}

static const struct df_handler show = {.size = sizeof(struct showing),
                                       .max_answer = ANSWER_MAX,
                                       .tells = true,
                                       .prepare = read_show,
                                       .run = run_show};

/* --- GET /admin/outbox/{channel}/causes --- */

struct causes {
    struct df_work w; /* its arg is a struct df_outbox_scene */
    const struct df_channel *channel;
    struct df_outbox_filter filter;
    struct df_causes found;
};

static void note_failure(void *arg, const struct df_outbox_row *row)
{
    struct causes *c = arg;
    int64_t at_ms = row->last_attempt_ms >= 0 ? row->last_attempt_ms : row->created_ms;

    df_causes_add(&c->found, row->error, at_ms, row->will_retry, row->id);
}

static enum df_code run_causes(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct causes *c = (struct causes *)w;
    struct df_outbox_view view = {.row = note_failure, .arg = c};
    struct df_page page = {.size = DF_CAUSES_PAGE, .list = "causes"};
    enum df_code code = DF_OK;

    df_causes_init(&c->found, df_req_arena(w->req));
    for (int64_t n = 0; n < DF_CAUSES_LOOKED && code == DF_OK; n += DF_CAUSES_PAGE) {
        code = df_outbox_list(db, c->channel, &c->filter, &page, false, &view, err);
        if (!df_page_forward(&page))
            break;
    }
    df_causes_write(&c->found, &w->json);
    df_causes_release(&c->found);
    return code;
}

/* The filter of the list; without a status, of what failed. */
static bool read_causes(struct df_work *w, struct df_input *in)
{
    struct causes *c = (struct causes *)w;

    c->channel = channel_of(w);
    if (!c->channel)
        return false;
    df_outbox_read_filter(w->req, in, c->channel, &c->filter);
    if (!c->filter.status.ptr)
        c->filter.status = df_str_c(df_outbox_status_name(c->channel, DF_OUTBOX_ERROR));
    return true;
}

static const struct df_handler list_causes = {.size = sizeof(struct causes),
                                              .max_answer = CAUSES_BYTES,
                                              .prepare = read_causes,
                                              .run = run_causes};

/* --- GET /admin/outbox/{channel}.csv --- */

struct export
{
    struct df_export e; /* its work's arg is a struct df_outbox_scene */
    const struct df_channel *channel;
    struct df_outbox_filter filter;
};

#define HEADER                                                                                     \
    "id,reference,targetUrl,status,attempts,tries,createdAt,lastAttemptAt,sentAt,nextAttemptAt,"   \
    "willRetry,givenUp,lastError\n"

static void write_csv(void *arg, const struct df_outbox_row *row)
{
    struct export *x = arg;
    const struct df_outbox_scene *scene = x->e.w.arg;
    struct df_buf *out = &x->e.text;

    df_csv_text(out, row->id, ',');
    df_csv_text(out, row->reference, ',');
    df_csv_text(out, row->target, ',');
    df_csv_text(out, row->status, ',');
    df_csv_int(out, row->attempts, ',');
    df_csv_int(out, row->tries, ',');
    df_csv_time(out, row->created_ms, ',');
    df_csv_time(out, row->last_attempt_ms, ',');
    df_csv_time(out, row->sent_ms, ',');
    df_csv_time(out, df_outbox_next_ms(scene->delivery, x->channel, row), ',');
    df_buf_addz(out, row->will_retry ? "true," : "false,");
    df_buf_addz(out, row->given_up ? "true," : "false,");
    df_csv_text(out, row->error, '\n');
}

static enum df_code export_page(struct df_db *db, struct df_export *e, struct df_err *err)
{
    struct export *x = (struct export *)e;
    struct df_outbox_view view = {.row = write_csv, .arg = x};

    return df_outbox_list(db, x->channel, &x->filter, &e->w.page, false, &view, err);
}

static enum df_code run_export(struct df_db *db, struct df_work *w, struct df_err *err)
{
    return df_export_run((struct df_export *)w, db, HEADER, export_page, err);
}

static const struct df_handler reading = DF_EXPORT_READING(struct export, run_export);

static bool read_export(struct df_work *w, struct df_input *in)
{
    struct export *x = (struct export *)w;
    const struct df_outbox_scene *scene = w->arg;
    struct df_str channel = df_req_param(w->req, "channel");
    struct df_arena *a = df_req_arena(w->req);

    x->e.fd = -1;
    x->channel = df_delivery_find(scene->delivery, channel);
    if (!x->channel) {
        df_req_fail(w->req, DF_E_NOT_FOUND, "There is no such channel.");
        return false;
    }
    df_export_read(&x->e, in, x->channel->name, scene->temp_dir,
                   df_arena_printf(a, "outbox/%s", x->channel->name).ptr,
                   x->channel->id_type == DF_UUID, &reading);
    df_outbox_read_filter(w->req, in, x->channel, &x->filter);
    return true;
}

static const struct df_handler export = DF_EXPORT_AUDITED(struct export, read_export);

#define ADMIN(path, h) DF_ROUTE("GET", "/admin/outbox" path, DF_BODY_NONE, DF_ACCESS_ADMIN, NULL, h)

const struct df_route df_outbox_row_routes[] = {
    ADMIN("/{channel}/{id}", show),
    ADMIN("/{channel}/causes", list_causes),
    ADMIN("/{channel}.csv", export),
    {.method = NULL},
};
