/* What a client uses of its limits: GET /admin/clients/{clientId}/usage, and for the client itself
 * GET /clients/{clientId}/usage. */
#include "access/policies.h"
#include "access/services.h"
#include "access/usage.h"
#include "imports/imports.h"
#include "imports/policy.h"
#include "imports/receive/receive.sql.h"
#include "imports/routes.h"

#define ANSWER_MAX 4096

/* One call on its way. Lives in the request's arena. */
struct call {
    struct df_job job;
    struct df_req *req;
    const struct df_services *services;
    struct df_str identifier;
    struct df_uuid client_id;
    struct df_policy policy;
    struct df_policy_facts facts;
    int64_t day_end_ms;
};

static enum df_code run_get(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct call *c = (struct call *)job;
    const struct df_imports_options *opt = df_imports_options_of(c->services->imports);
    int64_t day_start_ms;
    enum df_code code = df_policy_get(db, c->identifier, &c->client_id, &c->policy, err);
    if (code != DF_OK)
        return code;
    c->facts = (struct df_policy_facts){.policy = &c->policy,
                                        .maintenance = opt->maintenance,
                                        .zone = opt->zone,
                                        .now_ms = df_wall_ms(c->services->clock)};
    df_policy_day(opt->zone, c->facts.now_ms, &day_start_ms, &c->day_end_ms);
    const struct df_value client = df_uuid(df_uuid_str(&c->client_id));
    code = df_db_query_int(db, &df_q_receive_count_since, DF_PARAMS(client, df_time(day_start_ms)),
                           &c->facts.batches_today, err);
    if (code == DF_OK)
        code = df_db_query_int(db, &df_q_receive_stored_bytes, DF_PARAMS(client),
                               &c->facts.stored_bytes, err);
    return code;
}

/* "name": {"<used>": n, "<limit>": m or null */
static void open_part(struct df_json_out *out, const char *name, const char *used, int64_t n,
                      const char *limit, int64_t m)
{
    df_json_key(out, name);
    df_json_open(out, '{');
    df_json_kv_int(out, used, n);
    df_json_key(out, limit);
    if (m == DF_POLICY_NONE)
        df_json_null(out);
    else
        df_json_int(out, m);
}

static void answer(struct call *c)
{
    const struct df_policy *p = &c->policy;
    int64_t quota_mb = p->temp_storage_quota_mb;
    struct df_limiter_use use;
    struct df_buf buf;
    struct df_json_out out;

    df_usage_look(c->services->usage, &c->client_id, &use);
    df_buf_init(&buf, ANSWER_MAX);
    df_json_out_init(&out, &buf);
    df_json_open(&out, '{');
    df_json_kv_text(&out, "clientId", c->identifier);
    open_part(&out, "requests", "lastMinute", use.requests, "limit", p->requests_per_minute);
    df_json_close(&out, '}');
    open_part(&out, "uploads", "inProgress", use.held, "limit", p->concurrent_uploads);
    df_json_close(&out, '}');
    open_part(&out, "batches", "today", c->facts.batches_today, "limit", p->max_batch_per_day);
    df_json_kv_time(&out, "resetsAt", c->day_end_ms);
    df_json_close(&out, '}');
    open_part(&out, "storage", "usedBytes", c->facts.stored_bytes, "quotaBytes",
              quota_mb == DF_POLICY_NONE ? DF_POLICY_NONE : quota_mb * DF_POLICY_MB);
    df_json_close(&out, '}');
    df_policy_write_maintenance(&c->facts, &out);
    df_json_close(&out, '}');
    df_req_answer(c->req, 200, "application/json", &buf);
}

static void get_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct call *c = (struct call *)job;
    if (code == DF_OK)
        answer(c);
    else
        df_req_problem(c->req, err);
    df_req_resume(c->req);
}

static void handle_admin(struct df_req *req)
{
    struct call *c = DF_ARENA_NEW(df_req_arena(req), struct call);
    c->req = req;
    c->services = df_services_of(req);
    c->identifier = df_req_param(req, "clientId");
    c->job.run = run_get;
    c->job.done = get_done;
    df_req_read(req, &c->job);
}

/* Of another client nothing is told, not even whether there is one. */
static void handle_own(struct df_req *req)
{
    struct df_str asked = df_req_param(req, "clientId");
    if (df_str_eq(asked, df_str_c(df_auth_client(req)->identifier)))
        handle_admin(req);
    else
        df_req_fail(req, DF_E_NOT_FOUND, "There is no client \"" DF_STR_FMT "\".",
                    DF_STR_ARG(asked));
}

const struct df_route df_imports_usage_routes[] = {
    {.method = "GET",
     .pattern = "/admin/clients/{clientId}/usage",
     .access = DF_ACCESS_ADMIN,
     .handle = handle_admin},
    {.method = "GET",
     .pattern = "/clients/{clientId}/usage",
     .access = DF_ACCESS_CLIENT,
     .handle = handle_own},
    {.method = NULL},
};
