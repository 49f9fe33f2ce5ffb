#include "sandbox/internal.h"

#define STATS_MAX    ((size_t)8 << 20)
#define RECEIVED_MAX ((size_t)256 << 20) /* never reached: the journal stops far below */

void df_sb_input_known(struct df_input *in, const char *const *known, size_t count)
{
    struct df_json_each each = df_json_each(in->object);
    for (const struct df_json *v;
         in->error_count < DF_INPUT_ERRORS_MAX && (v = df_json_next(&each));) {
        size_t i = 0;
        while (i < count && !df_str_ieq(v->key, df_str_c(known[i])))
            i++;
        if (i == count)
            df_input_error(in, df_arena_cstr(in->arena, df_utf8_cut(v->key, 100)), "is not known");
    }
}

static void write_errands(struct df_sandbox *s, enum df_sb_errand_kind kind, const char *name,
                          struct df_json_out *out)
{
    struct df_sb_errand_counts *c = &s->errands[kind];

    df_json_key(out, name);
    df_json_open(out, '{');
    df_json_kv_int(out, "sent", (int64_t)atomic_load(&c->sent));
    df_json_kv_int(out, "failed", (int64_t)atomic_load(&c->failed));
    df_json_kv_int(out, "dropped", (int64_t)atomic_load(&c->dropped));
    df_json_kv_int(out, "pending", atomic_load(&c->pending));
    df_json_close(out, '}');
}

void df_sb_stats_get(struct df_req *req)
{
    struct df_sandbox *s = df_req_route_arg(req);
    struct df_buf body;
    struct df_json_out out;

    df_buf_init(&body, STATS_MAX);
    df_json_out_init(&out, &body);
    df_json_open(&out, '{');
    df_sb_journal_write_stats(s->journal, &out);
    write_errands(s, DF_SB_ACK, "acks", &out);
    write_errands(s, DF_SB_CALLBACK, "callbacks", &out);
    df_json_close(&out, '}');
    df_req_answer(req, 200, DF_SB_JSON, &body);
}

static void clear_counts(struct df_sandbox *s)
{
    df_sb_journal_clear(s->journal);
    for (size_t i = 0; i < DF_SB_ERRAND_KINDS; i++) {
        atomic_store(&s->errands[i].sent, 0);
        atomic_store(&s->errands[i].failed, 0);
        atomic_store(&s->errands[i].dropped, 0);
    }
}

void df_sb_stats_delete(struct df_req *req)
{
    clear_counts(df_req_route_arg(req));
    df_req_answer_empty(req, 204);
}

void df_sb_reset(struct df_req *req)
{
    struct df_sandbox *s = df_req_route_arg(req);

    clear_counts(s);
    (void)df_sb_faults_remove(&s->faults, DF_STR_NULL);
    df_req_answer_empty(req, 204);
}

void df_sb_received_get(struct df_req *req)
{
    struct df_sandbox *s = df_req_route_arg(req);
    struct df_input in;
    struct df_buf body;
    struct df_json_out out;

    df_input_init(&in, df_req_arena(req), NULL);
    int64_t limit = df_input_query_int(&in, req, "limit", 1, DF_SB_RECEIVED_MAX, 50);
    if (!df_input_ok(&in, req))
        return;
    df_buf_init(&body, RECEIVED_MAX);
    df_json_out_init(&out, &body);
    df_sb_journal_write_received(s->journal, df_req_query(req, "path"), (size_t)limit, &out);
    df_req_answer(req, 200, DF_SB_JSON, &body);
}
