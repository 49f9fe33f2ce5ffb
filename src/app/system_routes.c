#include "app/system_routes.h"

#include "access/handler.h"
#include "base/file.h"
#include "base/metrics.h"
#include "console_files.h"
#include "delivery/delivery.h"
#include "imports/imports.h"
#include "imports/policy.h"
#include "locks/locks.h"
#include "net/field.h"
#include "relay/consumer.h"
#include "store/schema.h"

#include <stdatomic.h>

#define METRICS_MAX      (16 << 20)
#define DISK_LEAST_BYTES (UINT64_C(1) << 20)

static _Atomic int64_t started_ms;
static atomic_bool draining;

void df_system_started(int64_t mono_ms)
{
    atomic_store(&started_ms, mono_ms);
    atomic_store(&draining, false);
}

void df_system_draining(void)
{
    atomic_store(&draining, true);
}

/* --- GET /healthz: the process lives --- */

static void write_health(struct df_work *w)
{
    int64_t now = df_mono_ms(w->access->clock);

    df_json_open(&w->json, '{');
    df_json_kv_text(&w->json, "status", DF_STR("ok"));
    df_json_kv_text(&w->json, "version", DF_STR(DF_VERSION));
    df_json_kv_int(&w->json, "uptimeSeconds", (now - atomic_load(&started_ms)) / 1000);
    df_json_close(&w->json, '}');
}

static const struct df_handler health = {.done = write_health};

/* --- GET /readyz: it can work --- */

struct ready {
    struct df_work w; /* its arg is a struct df_system */
    bool admin;       /* the caller sees details; others get the texts of the error table */
    bool asked;       /* the database was reached */
    struct df_err database;
    struct df_err schema;
    struct df_err disk;
    struct df_err locks;
};

static enum df_code run_ready(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct ready *r = (struct ready *)w;
    r->database = r->schema = DF_ERR_INIT;
    r->asked = false;
    enum df_code code = df_db_ping(db, &r->database);
    if (code != DF_OK) {
        *err = r->database;
        return code;
    }
    r->asked = true;
    /* A schema that is not current is an answer, not a failure of the job. */
    r->schema.code = df_schema_check(db, &r->schema);
    return DF_OK;
}

static const char *check_text(const struct ready *r, const struct df_err *err)
{
    return r->admin ? err->detail : df_err_outside(err);
}

static void write_check(const struct ready *r, struct df_json_out *json, const char *name,
                        const struct df_err *err, const char *backend)
{
    df_json_open(json, '{');
    df_json_kv_text(json, "name", df_str_c(name));
    df_json_kv_text(json, "status", err->code == DF_OK ? DF_STR("ok") : DF_STR("failed"));
    if (err->code != DF_OK)
        df_json_kv_told(json, "detail", df_str_c(check_text(r, err)));
    if (backend)
        df_json_kv_text(json, "backend", df_str_c(backend));
    df_json_close(json, '}');
}

/* While the broker is away workers poll: that is shown, but the server is ready. */
static void write_queue(const struct ready *r, struct df_json_out *json, struct df_consumer *queue)
{
    struct df_err err = DF_ERR_INIT;

    if (!df_consumer_is_connected(queue))
        (void)df_err_set(&err, DF_E_NET, "the broker of imports.queue is away; workers poll");
    write_check(r, json, "queue", &err, NULL);
}

/* A channel that is not configured keeps its rows: that is shown, but the server is ready. */
static void write_channels(struct df_json_out *json, const struct df_delivery *d)
{
    df_json_key(json, "channels");
    df_json_open(json, '[');
    for (size_t i = 0; d && i < df_delivery_channels(d); i++) {
        const struct df_channel *c = df_delivery_channel(d, i);
        df_json_open(json, '{');
        df_json_kv_text(json, "name", df_str_c(c->name));
        df_json_kv_bool(json, "configured", !c->missing);
        if (c->missing)
            df_json_kv_text(json, "missing", df_str_c(c->missing));
        df_json_close(json, '}');
    }
    df_json_close(json, ']');
}

/* The server's own windows; clients may have others. */
static void write_maintenance(struct df_work *w, const struct df_system *system)
{
    const struct df_policy none = {0};
    const struct df_policy_facts facts = {
        .policy = &none,
        .maintenance = system->imports ? df_imports_options_of(system->imports)->maintenance : NULL,
        .now_ms = w->now_ms,
    };
    df_policy_write_maintenance(&facts, &w->json);
}

static const char *not_ready_because(const struct ready *r)
{
    if (atomic_load(&draining))
        return "The server is shutting down.";
    return check_text(r, r->database.code != DF_OK ? &r->database : &r->schema);
}

/* On a full disk writes are refused and reads go on: that is shown, but the server is ready. */
static void look_at_disk(struct ready *r, const struct df_system *system)
{
    uint64_t free_bytes =
        system->imports ? df_storage_free_bytes(df_imports_options_of(system->imports)->storage)
                        : UINT64_MAX;

    r->disk = DF_ERR_INIT;
    if (df_store_disk_full(r->w.access->store))
        (void)df_err_set(&r->disk, DF_E_DISK_FULL, "the database has no room on its disk");
    else if (free_bytes < DISK_LEAST_BYTES)
        (void)df_err_set(&r->disk, DF_E_DISK_FULL,
                         "less than a mebibyte is left on the disk of server.data_dir");
}

/* Without locks imports wait and the rest goes on: that is shown, but the server is ready. */
static void look_at_locks(struct ready *r, const struct df_system *system)
{
    r->locks = DF_ERR_INIT;
    if (system->locks)
        (void)df_locks_well(system->locks, &r->locks);
}

/* Logs the details that strangers are not told, when the trouble begins and when it changes. */
static void log_not_ready(const struct ready *r)
{
    static _Atomic enum df_code said;
    const struct df_err *all[] = {&r->database, &r->schema, &r->disk, &r->locks};
    const struct df_err *worst = NULL;

    for (size_t i = 0; i < sizeof all / sizeof all[0] && !worst; i++)
        worst = all[i]->code != DF_OK ? all[i] : NULL;
    enum df_code now = worst ? worst->code : DF_OK;
    if (atomic_exchange(&said, now) != now && worst)
        df_log_warn("NotReady", "%s", worst->detail);
}

void df_system_write_problem(struct df_json_out *json, struct df_str detail, struct df_req *req)
{
    json->lang = df_req_language(req);
    df_req_add_language(req, json->lang);
    df_json_kv_text(json, "type", DF_STR("about:blank"));
    df_json_kv_told(json, "title", DF_STR("Not ready"));
    df_json_kv_int(json, "status", 503);
    df_json_kv_text(json, "code", DF_STR("NotReady"));
    df_json_kv_told(json, "detail", detail);
    df_json_kv_text(json, "correlationId", df_req_correlation_id(req));
}

static void write_ready(struct ready *r, bool ready)
{
    const struct df_system *system = r->w.arg;
    struct df_json_out *json = &r->w.json;

    df_json_open(json, '{');
    if (ready)
        df_json_kv_text(json, "status", DF_STR("ready"));
    else
        df_system_write_problem(json, df_str_c(not_ready_because(r)), r->w.req);
    df_json_key(json, "checks");
    df_json_open(json, '[');
    write_check(r, json, "database", &r->database,
                df_dialect_name(df_store_dialect(r->w.access->store)));
    if (r->asked)
        write_check(r, json, "schema", &r->schema, NULL);
    write_check(r, json, "disk", &r->disk, NULL);
    if (system->locks)
        write_check(r, json, "locks", &r->locks, NULL);
    if (system->consumer)
        write_queue(r, json, system->consumer);
    df_json_close(json, ']');
    write_channels(json, system->delivery);
    write_maintenance(&r->w, system);
    df_json_close(json, '}');
}

/* A database that cannot be reached is an answer, not an error of the call. A full queue says
 * nothing about the database. */
static bool answer_ready(struct df_work *w, enum df_code code, const struct df_err *err)
{
    struct ready *r = (struct ready *)w;

    if (code == DF_E_BUSY)
        return false;
    if (code != DF_OK && !r->asked)
        r->database = *err;
    look_at_disk(r, w->arg);
    look_at_locks(r, w->arg);
    log_not_ready(r);
    bool ready = r->database.code == DF_OK && r->schema.code == DF_OK && !atomic_load(&draining);
    write_ready(r, ready);
    if (!ready)
        df_req_add_header(w->req, "Retry-After", DF_STR("1"));
    df_req_answer(w->req, ready ? 200 : 503,
                  ready ? "application/json" : "application/problem+json", &w->out);
    return false;
}

static bool look_at_key(struct df_work *w, struct df_input *in)
{
    (void)in;
    ((struct ready *)w)->admin = df_auth_is_admin(w->access->auth, w->req);
    return true;
}

static const struct df_handler readiness = {
    .size = sizeof(struct ready),
    .prepare = look_at_key,
    .run = run_ready,
    .pass_on = answer_ready,
};

/* --- GET /metrics --- */

/* OpenMetrics is for those who ask for it by name, and like the text no better. */
static enum df_metrics_format wanted_format(struct df_str accept)
{
    bool named;
    int open =
        df_field_weight(accept, DF_STR("application/openmetrics-text"), DF_STR("1.0.0"), &named);
    int text = df_field_weight(accept, DF_STR("text/plain"), DF_STR("0.0.4"), NULL);

    return named && open > 0 && open >= text ? DF_METRICS_OPEN : DF_METRICS_TEXT;
}

static void write_metrics(struct df_work *w)
{
    enum df_metrics_format format = wanted_format(df_req_header(w->req, "Accept"));

    df_metrics_write_as(&w->out, format);
    df_req_add_header(w->req, "Vary", DF_STR("Accept"));
    df_req_answer(w->req, 200, df_metrics_content_type(format), &w->out);
}

static const struct df_handler metrics = {.max_answer = METRICS_MAX, .done = write_metrics};

/* --- files: the console and the OpenAPI document --- */

#define CONSOLE_POLICY                                                                             \
    "default-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; "             \
    "form-action 'none'"

static const char *content_type(struct df_str name)
{
    static const struct {
        const char *suffix;
        const char *type;
    } types[] = {
        {".html", "text/html; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".svg", "image/svg+xml"},
        {".json", "application/json"},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (df_str_ends(name, df_str_c(types[i].suffix)))
            return types[i].type;
    return "application/octet-stream";
}

/* Whether the caller takes gzip: the coding is named, and not with q=0 (RFC 9110). */
static bool takes_gzip(struct df_req *req)
{
    struct df_arena *a = df_req_arena(req);
    struct df_str rest = df_req_header(req, "Accept-Encoding");
    struct df_str one, coding;

    while (rest.len > 0) {
        rest = df_str_cut(rest, ',', &one);
        struct df_str weight = df_str_trim(df_str_cut(one, ';', &coding));
        if (df_str_ieq(df_str_trim(coding), DF_STR("gzip")))
            return weight.len == 0 || strpbrk(df_arena_cstr(a, weight), "123456789");
    }
    return false;
}

static void answer_file(struct df_req *req, struct df_str name)
{
    for (size_t i = 0; i < df_console_files_count; i++) {
        const struct df_file *f = &df_console_files[i];
        if (!df_str_eq(df_str_c(f->name), name))
            continue;
        df_req_add_header(req, "Content-Security-Policy", DF_STR(CONSOLE_POLICY));
        df_req_add_header(req, "Referrer-Policy", DF_STR("no-referrer"));
        df_req_add_header(req, "Cache-Control", DF_STR("no-cache"));
        df_req_add_header(req, "Vary", DF_STR("Accept-Encoding"));
        bool packed = takes_gzip(req);
        if (packed)
            df_req_add_header(req, "Content-Encoding", DF_STR("gzip"));
        df_req_answer_static(req, 200, content_type(name),
                             packed ? df_str_n((const char *)f->data, f->len)
                                    : df_file_text(f, df_req_arena(req)));
        return;
    }
    df_req_fail(req, DF_E_NOT_FOUND, "There is no such file.");
}

static void answer_index(struct df_work *w)
{
    answer_file(w->req, DF_STR("index.html"));
}

static void answer_console(struct df_work *w)
{
    answer_file(w->req, df_req_param(w->req, "file"));
}

static void answer_openapi(struct df_work *w)
{
    answer_file(w->req, DF_STR("openapi.json"));
}

static const struct df_handler index_page = {.done = answer_index};
static const struct df_handler console = {.done = answer_console};
static const struct df_handler openapi = {.done = answer_openapi};

#define ROUTE(path, who, h) DF_ROUTE("GET", path, DF_BODY_NONE, who, NULL, h)

const struct df_route df_probe_routes[] = {
    ROUTE("/healthz", DF_ACCESS_OPEN, health),
    ROUTE("/metrics", DF_ACCESS_METRICS, metrics),
    {.method = NULL},
};

const struct df_route df_system_routes[] = {
    ROUTE("/readyz", DF_ACCESS_OPEN, readiness),
    ROUTE("/openapi.json", DF_ACCESS_OPEN, openapi),
    ROUTE("/", DF_ACCESS_OPEN, index_page),
    ROUTE("/console/{file...}", DF_ACCESS_OPEN, console),
    {.method = NULL},
};
