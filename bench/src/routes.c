#include "access/handler.h"
#include "bench.h"

struct row {
    struct df_work w;
    struct df_uuid id;
    struct df_p_bench_insert params;
};

static bool read_row(struct df_work *w, struct df_input *in)
{
    struct row *r = (struct row *)w;

    if (!df_input_json(in, w->req))
        return false;
    struct df_str id = df_input_text(in, "id", DF_UUID_LEN, DF_REQUIRED);
    struct df_str payload = df_input_text(in, "payload", 1 << 20, DF_REQUIRED);
    if (id.ptr && !df_uuid_parse(id, &r->id))
        df_input_error(in, "id", "must be a UUID");
    r->params = df_bench_row(df_uuid_str(&r->id), payload, w->now_ms);
    return true;
}

static bool read_stored(struct df_work *w, struct df_input *in)
{
    w->job.query = &df_q_bench_insert;
    w->job.params = (const struct df_value *)&((struct row *)w)->params;
    return read_row(w, in);
}

static void write_id(struct df_work *w)
{
    df_json_open(&w->json, '{');
    df_json_kv_text(&w->json, "id", df_uuid_str(&((struct row *)w)->id));
    df_json_close(&w->json, '}');
}

#define ROW .size = sizeof(struct row), .status = 201, .done = write_id

static const struct df_handler rows = {ROW, .writes = true, .prepare = read_stored};
static const struct df_handler echo = {ROW, .prepare = read_row};

#define BENCH(path, h) DF_ROUTE("POST", path, DF_BODY_JSON, DF_ACCESS_CLIENT, "interface", h)

const struct df_route df_bench_routes[] = {
    BENCH("/bench/rows", rows),
    BENCH("/bench/echo", echo),
    {.method = NULL},
};
