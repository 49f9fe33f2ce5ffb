/* How much of its limits a client uses: GET /admin/clients/{clientId}/usage, and for the client
 * itself GET /clients/{clientId}/usage. */
#include "access/policies.h"
#include "access/usage.h"
#include "imports/api/views.h"
#include "imports/policy.h"
#include "imports/receive/receive.sql.h"
#include "imports/routes.h"

struct call {
    struct df_work w;
    struct df_str identifier;
    struct df_uuid client_id;
    struct df_policy policy;
    struct df_policy_facts facts;
    int64_t day_end_ms;
};

static enum df_code run_get_usage(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    const struct df_import_views *views = w->arg;
    const struct df_imports_options *opt = df_imports_options_of(views->imports);
    int64_t day_start_ms;
    enum df_code code = df_policy_get(db, c->identifier, &c->client_id, &c->policy, err);
    if (code != DF_OK)
        return code;
    c->facts = (struct df_policy_facts){.policy = &c->policy,
                                        .maintenance = opt->maintenance,
                                        .zone = opt->zone,
                                        .now_ms = w->now_ms};
    df_policy_day(opt->zone, c->facts.now_ms, &day_start_ms, &c->day_end_ms);
    const struct df_value client = df_uuid(df_uuid_str(&c->client_id));
    code = df_db_query_int(
        db, DF_Q(receive_count_since, .client_id = client, .since = df_time(day_start_ms)),
        &c->facts.batches_today, err);
    if (code == DF_OK)
        code = df_db_query_int(db, DF_Q(receive_stored_bytes, .client_id = client),
                               &c->facts.stored_bytes, err);
    return code;
}

/* "name": {"<used>": n, "<limit>": m or null */
static void open_usage_part(struct df_json_out *out, const char *name, const char *used, int64_t n,
                            const char *limit, int64_t m)
{
    df_json_key(out, name);
    df_json_open(out, '{');
    df_json_kv_int(out, used, n);
    df_json_kv_int_if(out, limit, m != DF_POLICY_NONE, m);
}

static void write_usage(struct df_work *w)
{
    const struct call *c = (const struct call *)w;
    const struct df_policy *p = &c->policy;
    int64_t quota_mb = p->temp_storage_quota_mb;
    struct df_json_out *out = &w->json;
    struct df_limiter_use use;

    df_usage_look(w->access->usage, &c->client_id, &use);
    df_json_open(out, '{');
    df_json_kv_text(out, "clientId", c->identifier);
    open_usage_part(out, "requests", "lastMinute", use.requests, "limit", p->requests_per_minute);
    df_json_close(out, '}');
    open_usage_part(out, "uploads", "inProgress", use.held, "limit", p->concurrent_uploads);
    df_json_close(out, '}');
    open_usage_part(out, "batches", "today", c->facts.batches_today, "limit", p->max_batch_per_day);
    df_json_kv_time(out, "resetsAt", c->day_end_ms);
    df_json_close(out, '}');
    open_usage_part(out, "storage", "usedBytes", c->facts.stored_bytes, "quotaBytes",
                    quota_mb == DF_POLICY_NONE ? DF_POLICY_NONE : quota_mb * DF_POLICY_MB);
    df_json_close(out, '}');
    df_policy_write_maintenance(&c->facts, out);
    df_json_close(out, '}');
}

static bool read_any(struct df_work *w, struct df_input *in)
{
    (void)in;
    ((struct call *)w)->identifier = df_req_param(w->req, "clientId");
    return true;
}

/* A client learns nothing about another one, not even whether it exists. */
static bool read_own(struct df_work *w, struct df_input *in)
{
    struct df_str asked = df_req_param(w->req, "clientId");

    if (df_str_eq(asked, df_str_c(df_auth_client(w->req)->identifier)))
        return read_any(w, in);
    df_req_fail(w->req, DF_E_NOT_FOUND, "There is no client \"" DF_STR_FMT "\".",
                DF_STR_ARG(asked));
    return false;
}

#define USAGE .size = sizeof(struct call), .run = run_get_usage, .done = write_usage

static const struct df_handler of_any = {USAGE, .prepare = read_any};
static const struct df_handler of_own = {USAGE, .prepare = read_own};

#define ROUTE(path, who, h) DF_ROUTE("GET", path, DF_BODY_NONE, who, NULL, h)

const struct df_route df_imports_usage_routes[] = {
    ROUTE("/admin/clients/{clientId}/usage", DF_ACCESS_ADMIN, of_any),
    ROUTE("/clients/{clientId}/usage", DF_ACCESS_CLIENT, of_own),
    {.method = NULL},
};
