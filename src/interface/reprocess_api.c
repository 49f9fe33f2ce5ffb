/*
 * Processes tickets again from their stored payloads:
 *
 *     POST /api/tickets/{id}/reprocess     a client's own ticket
 *     POST /admin/tickets/{id}/reprocess   any
 *     POST /admin/tickets/reprocess        many, by a filter
 *
 * A ticket starts over as with a new payload (reprocess.sql); its history stays. Many tickets are
 * found by a reader, and started STEP at a time, each step a job of its own, so that other writers
 * get their turn between them. A call that fails on its way answers with what it has done.
 */
#include "access/handler.h"
#include "interface/channels.sql.h"
#include "interface/interface.h"
#include "interface/owners.h"
#include "interface/reprocess.sql.h"
#include "store/rows.h"

#define CALL_MAX    10000 /* tickets */
#define STEP        100
#define ERROR_CHARS 200
#define DETAILS_MAX 4096
#define TIME_MAX    INT64_C(253402300799999) /* 9999-12-31T23:59:59.999Z */

/* Locks the tickets in the order of their ids, as the other writers do, and starts them over. */
static enum df_code start_tickets(struct df_db *db, const struct df_work *w, struct df_value ids,
                                  struct df_str status, int64_t *ret_count, struct df_err *err)
{
    enum df_code code = df_db_exec(db, DF_Q(gateway_lock, .ids = ids), NULL, err);
    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(reprocess_keep_sent, .ids = ids, .status = df_text(status)),
                          NULL, err);
    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(reprocess_keep_returns, .ids = ids), NULL, err);
    if (code == DF_OK)
        code = df_db_exec(
            db,
            DF_Q(reprocess_start, .now = df_time(w->now_ms), .ids = ids, .status = df_text(status)),
            ret_count, err);
    return code == DF_OK ? df_db_exec(db, DF_Q(reprocess_forget_callbacks, .ids = ids), NULL, err)
                         : code;
}

/* --- one ticket --- */

struct one {
    struct df_work w; /* its arg is the interface */
    struct df_reach reach;
    struct df_actor by;
    int64_t id;
    /* What was found. */
    struct df_str entity;
    struct df_str doc;
    struct df_str owner; /* absent: it has none */
    int64_t phase;
    int64_t version;
    bool erased;
};

static void read_one(void *arg, struct df_result *r)
{
    struct one *c = arg;
    struct df_arena *a = df_req_arena(c->w.req);

    c->entity = df_arena_str(a, df_col_text(r, reprocess_ticket_BusinessEntity));
    c->doc = df_arena_str(a, df_col_text(r, reprocess_ticket_BusinessDocId));
    c->owner = df_arena_str(a, df_col_text(r, reprocess_ticket_ClientId));
    c->phase = df_col_int(r, reprocess_ticket_PhaseCode);
    c->version = df_col_int(r, reprocess_ticket_PayloadVersion) + 1;
    c->erased = !df_col_null(r, reprocess_ticket_ErasedAt);
}

static enum df_code audit_one(struct df_db *db, const struct one *c, struct df_err *err)
{
    struct df_arena *a = df_req_arena(c->w.req);
    struct df_buf details;
    struct df_json_out j;

    df_buf_init(&details, DETAILS_MAX);
    df_json_out_init(&j, &details);
    df_json_open(&j, '{');
    df_json_kv_text(&j, "businessEntity", c->entity);
    df_json_kv_text(&j, "businessDocId", c->doc);
    df_json_kv_int(&j, "phaseCode", c->phase);
    df_json_kv_int(&j, "payloadVersion", c->version);
    df_json_close(&j, '}');
    struct df_str text = df_arena_str(a, df_buf_str(&details));
    df_buf_release(&details);
    return df_audit_write(db, &c->by, "TicketReprocessed",
                          df_arena_printf(a, "tickets/%lld", (long long)c->id), c->owner, text,
                          c->w.now_ms, err);
}

static enum df_code run_reprocess_one(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct one *c = (struct one *)w;
    struct df_ids ids = df_ids_for(df_req_arena(w->req), 1, false);
    bool found = false;
    enum df_code code =
        df_db_one(db, DF_Q(reprocess_ticket, .id = df_int(c->id)), read_one, c, &found, err);

    if (code == DF_OK && !(found && df_reach_has(&c->reach, c->owner)))
        return df_err_set(err, DF_E_NOT_FOUND, "There is no such ticket.");
    if (code == DF_OK && c->erased)
        return df_err_set(err, DF_E_ERASED, "The content of the ticket was erased.");
    df_ids_add_int(&ids, c->id);
    if (code == DF_OK)
        code = start_tickets(db, w, df_ids_value(&ids), DF_STR_NULL, NULL, err);
    return code == DF_OK ? audit_one(db, c, err) : code;
}

static void one_reprocessed(struct df_work *w)
{
    const struct one *c = (const struct one *)w;
    struct df_log_field fields[] = {DF_F("businessDocId", c->doc), DF_FI("id", c->id),
                                    DF_F("actor", c->by.name)};

    df_interface_wake(w->arg, DF_WORK_TICKETS);
    df_log_write(DF_LOG_INFO, "TicketReprocessed", fields, 3, "the ticket is processed again");
    df_json_open(&w->json, '{');
    df_json_kv_int(&w->json, "id", c->id);
    df_json_kv_text(&w->json, "businessEntity", c->entity);
    df_json_kv_text(&w->json, "businessDocId", c->doc);
    df_json_kv_int(&w->json, "phaseCode", c->phase);
    df_json_kv_text(&w->json, "status", DF_STR("Awaiting"));
    df_json_kv_int(&w->json, "payloadVersion", c->version);
    df_json_close(&w->json, '}');
}

static bool read_ticket_id(struct one *c)
{
    bool is_id = df_str_to_i64(df_req_param(c->w.req, "id"), &c->id);

    if (!is_id)
        df_req_fail(c->w.req, DF_E_NOT_FOUND, "There is no such ticket.");
    return is_id;
}

static bool read_by_client(struct df_work *w, struct df_input *in)
{
    struct one *c = (struct one *)w;
    const char *client = df_auth_client(w->req)->identifier;

    (void)in;
    c->reach = df_reach_of(w->req);
    c->by = df_actor_of(w->req);
    c->by.name = df_arena_printf(df_req_arena(w->req), "client:%s", client);
    return read_ticket_id(c);
}

static bool read_by_admin(struct df_work *w, struct df_input *in)
{
    struct one *c = (struct one *)w;

    (void)in;
    c->reach = (struct df_reach){.all = true};
    c->by = df_actor_of(w->req);
    return read_ticket_id(c);
}

#define ONE                                                                                        \
    .size = sizeof(struct one), .writes = true, .run = run_reprocess_one, .done = one_reprocessed

static const struct df_handler by_client = {ONE, .prepare = read_by_client};
static const struct df_handler by_admin = {ONE, .prepare = read_by_admin};

/* --- many tickets --- */

struct many {
    struct df_work w; /* its arg is the interface */
    /* The filter; what is absent lets everything pass. */
    struct df_str entity;
    struct df_str status;
    struct df_str client;
    struct df_str error;
    int64_t phase; /* -1: any */
    int64_t from_ms;
    int64_t to_ms;
    bool dry_run;
    /* What was found. */
    int64_t matched; /* at most CALL_MAX + 1: there may be more */
    int64_t *ids;    /* the first CALL_MAX */
    size_t found;
    size_t next; /* to be started */
    int64_t step_started;
    int64_t started;
};

/* A pattern for "contains". */
static struct df_str like_pattern(struct df_arena *a, struct df_str text)
{
    struct df_buf out;

    if (!text.ptr)
        return DF_STR_NULL;
    df_buf_init(&out, text.len * 2 + 2);
    df_buf_addz(&out, "%");
    for (size_t i = 0; i < text.len; i++) {
        if (strchr("%_[!", text.ptr[i]))
            df_buf_addz(&out, "!");
        df_buf_add(&out, text.ptr + i, 1);
    }
    df_buf_addz(&out, "%");
    struct df_str pattern = df_arena_str(a, df_buf_str(&out));
    df_buf_release(&out);
    return pattern;
}

/* Keeps the first CALL_MAX. */
static void read_found(void *arg, struct df_result *r)
{
    struct many *c = arg;

    if (c->found < CALL_MAX)
        c->ids[c->found++] = df_col_int(r, reprocess_found_Id);
    c->matched++;
}

static bool is_status(const struct many *c, const char *status)
{
    return df_str_eq(c->status, df_str_c(status));
}

/* The index that leaves the fewest rows to look at. Most tickets are Processed. */
static const struct df_query *way_of(const struct many *c)
{
    if (c->status.ptr && !is_status(c, "Processed"))
        return c->dry_run ? &df_q_reprocess_status_count : &df_q_reprocess_status_find;
    if (c->client.ptr)
        return c->dry_run ? &df_q_reprocess_client_count : &df_q_reprocess_client_find;
    return c->dry_run ? &df_q_reprocess_all_count : &df_q_reprocess_all_find;
}

static void read_count(void *arg, struct df_result *r)
{
    ((struct many *)arg)->matched = df_col_int(r, reprocess_counted_Total);
}

static enum df_code run_find_tickets(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct many *c = (struct many *)w;
    struct df_arena *a = df_req_arena(w->req);

    c->matched = 0;
    c->found = 0;
    if (c->error.ptr && !is_status(c, "Error")) /* others have no error */
        return DF_OK;
    if (!c->ids)
        c->ids = DF_ARENA_ARRAY(a, int64_t, CALL_MAX);
    return df_db_each(
        db,
        DF_ANY(way_of(c), {"since", df_time(c->from_ms)}, {"until", df_time(c->to_ms)},
               {"status", df_text(c->status)}, {"entity", df_text(c->entity)},
               {"phase", c->phase < 0 ? df_null(DF_INT) : df_int(c->phase)},
               {"client", df_text(c->client)}, {"error", df_text(like_pattern(a, c->error))},
               {"limit", df_int(CALL_MAX + 1)}),
        c->dry_run ? read_count : read_found, c, err);
}

static void write_filter(const struct many *c, struct df_json_out *j)
{
    df_json_open(j, '{');
    if (c->entity.ptr)
        df_json_kv_text(j, "businessEntity", c->entity);
    if (c->status.ptr)
        df_json_kv_text(j, "status", c->status);
    if (c->phase >= 0)
        df_json_kv_int(j, "phaseCode", c->phase);
    if (c->client.ptr)
        df_json_kv_text(j, "clientId", c->client);
    if (c->error.ptr)
        df_json_kv_text(j, "error", c->error);
    if (c->from_ms > 0)
        df_json_kv_time(j, "from", c->from_ms);
    if (c->to_ms < TIME_MAX)
        df_json_kv_time(j, "to", c->to_ms);
    df_json_close(j, '}');
}

/* With the first step, so that there is no ticket without it. */
static enum df_code audit_many(struct df_db *db, const struct many *c, struct df_err *err)
{
    struct df_actor by = df_actor_of(c->w.req);
    struct df_buf details;
    struct df_json_out j;

    df_buf_init(&details, DETAILS_MAX);
    df_json_out_init(&j, &details);
    df_json_open(&j, '{');
    df_json_key(&j, "filter");
    write_filter(c, &j);
    df_json_kv_int(&j, "matched", c->matched);
    df_json_kv_int(&j, "chosen", (int64_t)c->found);
    df_json_close(&j, '}');
    struct df_str text = df_arena_str(df_req_arena(c->w.req), df_buf_str(&details));
    df_buf_release(&details);
    return df_audit_write(db, &by, "TicketsReprocessed", DF_STR("tickets"), DF_STR_NULL, text,
                          c->w.now_ms, err);
}

static size_t step_size(const struct many *c)
{
    return c->found - c->next < STEP ? c->found - c->next : STEP;
}

static enum df_code run_reprocess_step(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct many *c = (struct many *)w;
    struct df_ids ids = df_ids_for(df_req_arena(w->req), STEP, false);

    for (size_t i = 0; i < step_size(c); i++)
        df_ids_add_int(&ids, c->ids[c->next + i]);
    w->now_ms = df_wall_ms(w->access->clock);
    enum df_code code = start_tickets(db, w, df_ids_value(&ids), c->status, &c->step_started, err);
    return code == DF_OK && c->next == 0 ? audit_many(db, c, err) : code;
}

static void write_counts(struct many *c)
{
    struct df_json_out *j = &c->w.json;
    int64_t left = c->matched - c->started;

    df_json_open(j, '{');
    df_json_kv_int(j, "matched", c->matched);
    df_json_kv_int(j, "reprocessed", c->started);
    df_json_kv_int(j, "left", left > 0 ? left : 0);
    df_json_close(j, '}');
}

static void many_reprocessed(struct df_work *w)
{
    struct many *c = (struct many *)w;
    struct df_log_field fields[] = {DF_FI("matched", c->matched), DF_FI("count", c->started)};

    if (c->started > 0)
        df_log_write(DF_LOG_INFO, "TicketsReprocessed", fields, 2,
                     "tickets are processed again by a filter");
    write_counts(c);
}

/* True: the next step is on its way, or the work has ended. */
static bool step_on(struct df_work *w, enum df_code code, const struct df_err *err)
{
    struct many *c = (struct many *)w;

    if (code == DF_OK) {
        c->next += step_size(c);
        c->started += c->step_started;
        df_interface_wake(w->arg, DF_WORK_TICKETS);
    }
    if (code == DF_OK && c->next < c->found) {
        df_work_submit(w);
        return true;
    }
    if (code == DF_OK || c->started == 0)
        return false;
    df_log_warn("ReprocessStopped", "after %lld tickets: %s", (long long)c->started, err->detail);
    many_reprocessed(w);
    df_req_answer(w->req, 200, "application/json", &w->out);
    df_work_end(w);
    return true;
}

static const struct df_handler step = {
    .size = sizeof(struct many),
    .writes = true,
    .run = run_reprocess_step,
    .pass_on = step_on,
    .done = many_reprocessed,
};

static bool begin_steps(struct df_work *w, enum df_code code, const struct df_err *err)
{
    const struct many *c = (const struct many *)w;

    (void)err;
    if (code != DF_OK || c->found == 0)
        return false;
    df_work_become(w, &step);
    df_work_submit(w);
    return true;
}

static struct df_str read_status(struct df_input *in)
{
    static const char *const states[] = {"Awaiting", "Processing", "Processed", "Error"};
    struct df_str s = df_input_text(in, "status", 20, DF_OPTIONAL);

    for (size_t i = 0; i < sizeof(states) / sizeof(*states) && s.ptr; i++) {
        if (df_str_ieq(s, df_str_c(states[i])))
            return df_str_c(states[i]);
    }
    if (s.ptr)
        df_input_error(in, "status", "must be one of Awaiting, Processing, Processed, Error");
    return DF_STR_NULL;
}

static int64_t read_time(struct df_input *in, const char *field, int64_t def)
{
    struct df_str s = df_input_text(in, field, 40, DF_OPTIONAL);
    int64_t ms = def;

    if (s.ptr && !df_time_parse(s, &ms))
        df_input_error(in, field, "must be a time (ISO 8601)");
    return ms;
}

/* A text that is blank would let everything pass. */
static struct df_str read_filter(struct df_input *in, const char *field, size_t max_chars)
{
    struct df_str s = df_input_text(in, field, max_chars, DF_OPTIONAL);

    if (s.ptr && df_str_trim(s).len == 0)
        df_input_error(in, field, "must not be blank");
    return s;
}

static bool is_unfiltered(const struct many *c)
{
    return !c->entity.ptr && !c->status.ptr && !c->client.ptr && !c->error.ptr && c->phase < 0 &&
           c->from_ms == 0 && c->to_ms == TIME_MAX;
}

static bool read_many(struct df_work *w, struct df_input *in)
{
    static const char *const known[] = {
        "businessEntity", "status", "phaseCode", "clientId", "error",
        "from",           "to",     "dryRun",    "all",      NULL};
    struct many *c = (struct many *)w;

    if (!df_input_json(in, w->req))
        return false;
    df_input_only(in, known);
    c->entity = read_filter(in, "businessEntity", 100);
    c->status = read_status(in);
    c->phase = df_input_int(in, "phaseCode", 0, INT32_MAX, -1);
    c->client = read_filter(in, "clientId", DF_CLIENT_ID_MAX);
    c->error = read_filter(in, "error", ERROR_CHARS);
    if (c->error.ptr && !c->status.ptr)
        c->status = DF_STR("Error"); /* whose index has them */
    c->from_ms = read_time(in, "from", 0);
    c->to_ms = read_time(in, "to", TIME_MAX);
    c->dry_run = df_input_bool(in, "dryRun", false);
    bool all = df_input_bool(in, "all", false);
    if (in->error_count == 0 && is_unfiltered(c) && !all)
        df_input_error(in, "all", "must be true when there is no filter");
    return true;
}

static const struct df_handler by_filter = {
    .size = sizeof(struct many),
    .prepare = read_many,
    .run = run_find_tickets,
    .pass_on = begin_steps,
    .done = many_reprocessed,
};

#define ADMIN(path, kind, h)                                                                       \
    DF_ROUTE("POST", "/admin/tickets" path, kind, DF_ACCESS_ADMIN, DF_NEEDS_OPERATE, h)

const struct df_route df_reprocess_routes[] = {
    DF_ROUTE("POST", "/api/tickets/{id}/reprocess", DF_BODY_ANY, DF_ACCESS_CLIENT, "interface",
             by_client),
    ADMIN("/{id}/reprocess", DF_BODY_ANY, by_admin),
    ADMIN("/reprocess", DF_BODY_JSON, by_filter),
    {.method = NULL},
};
