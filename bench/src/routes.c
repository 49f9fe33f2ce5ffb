#include "access/services.h"
#include "bench.h"
#include "bench/bench.sql.h"
#include "net/input.h"
#include "json/write.h"

#define ANSWER_MAX 4096

struct row {
    struct df_job job;
    struct df_req *req;
    struct df_uuid id;
    struct df_value params[DF_BENCH_COLUMNS];
};

static void answer_created(struct row *r)
{
    struct df_buf out;
    struct df_json_out json;
    df_buf_init(&out, ANSWER_MAX);
    df_json_out_init(&json, &out);
    df_json_open(&json, '{');
    df_json_kv_text(&json, "id", df_uuid_str(&r->id));
    df_json_close(&json, '}');
    df_req_answer(r->req, 201, "application/json", &out);
}

static struct row *read_row(struct df_req *req)
{
    struct df_input in;
    if (!df_input_json(&in, req))
        return NULL;
    struct row *r = DF_ARENA_NEW(df_req_arena(req), struct row);
    r->req = req;
    struct df_str id = df_input_text(&in, "id", DF_UUID_LEN, DF_REQUIRED);
    struct df_str payload = df_input_text(&in, "payload", 1 << 20, DF_REQUIRED);
    if (id.ptr && !df_uuid_parse(id, &r->id))
        df_input_error(&in, "id", "must be a UUID");
    if (!df_input_ok(&in, req))
        return NULL;
    df_bench_row(r->params, df_uuid_str(&r->id), payload, df_wall_ms(df_access_of(req)->clock));
    return r;
}

static void row_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct row *r = (struct row *)job;
    if (code == DF_OK)
        answer_created(r);
    else
        df_req_problem(r->req, err);
    df_req_resume(r->req);
}

static void handle_rows(struct df_req *req)
{
    struct row *r = read_row(req);
    if (!r)
        return;
    r->job.done = row_done;
    r->job.query = &df_q_bench_insert;
    r->job.params = r->params;
    df_req_write(req, &r->job);
}

static void handle_echo(struct df_req *req)
{
    struct row *r = read_row(req);
    if (r)
        answer_created(r);
}

#define BENCH(path, fn)                                                                            \
    {                                                                                              \
        .method = "POST", .pattern = path, .body = DF_BODY_JSON, .access = DF_ACCESS_CLIENT,       \
        .scope = "interface", .handle = fn                                                         \
    }

const struct df_route df_bench_routes[] = {
    BENCH("/bench/rows", handle_rows),
    BENCH("/bench/echo", handle_echo),
    {.method = NULL},
};
