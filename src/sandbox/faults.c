#include "sandbox/faults.h"

#include "base/mem.h"
#include "net/input.h"
#include "sandbox/internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

void df_sb_faults_init(struct df_sb_faults *f, const struct df_clock *clock)
{
    *f = (struct df_sb_faults){.clock = clock};
    df_mutex_init(&f->lock);
    f->items = df_calloc(DF_SB_FAULTS_MAX, sizeof(struct df_sb_fault));
}

void df_sb_faults_release(struct df_sb_faults *f)
{
    free(f->items);
    df_mutex_destroy(&f->lock);
}

bool df_sb_faults_add(struct df_sb_faults *f, struct df_sb_fault *fault)
{
    df_lock(&f->lock);
    size_t n = atomic_load(&f->count);
    bool room = n < DF_SB_FAULTS_MAX;
    if (room) {
        fault->id = ++f->last_id;
        f->items[n] = *fault;
        atomic_store(&f->count, n + 1);
    }
    df_unlock(&f->lock);
    return room;
}

static void remove_fault(struct df_sb_faults *f, size_t i) DF_REQUIRES(f->lock)
{
    assert(i < atomic_load(&f->count));
    size_t n = atomic_load(&f->count) - 1;
    memmove(&f->items[i], &f->items[i + 1], (n - i) * sizeof(struct df_sb_fault));
    atomic_store(&f->count, n);
}

size_t df_sb_faults_remove(struct df_sb_faults *f, struct df_str path)
{
    size_t removed = 0;

    df_lock(&f->lock);
    for (size_t i = atomic_load(&f->count); i > 0; i--) {
        if (path.ptr && !df_str_eq(path, df_str_c(f->items[i - 1].path)))
            continue;
        remove_fault(f, i - 1);
        removed++;
    }
    df_unlock(&f->lock);
    return removed;
}

static bool fault_strikes(const struct df_sb_faults *f, double rate)
{
    if (rate >= 1)
        return true;
    const uint64_t steps = UINT64_C(1) << 32;
    return (double)df_random_below(f->clock, steps) < rate * (double)steps;
}

static void add_effect(struct df_sb_effect *e, const struct df_sb_fault *fault)
{
    e->latency_ms += fault->latency_ms;
    e->drop_acks = e->drop_acks || fault->drop_acks;
    if (e->drop || e->status != 0)
        return;
    e->drop = fault->drop;
    e->status = fault->status;
    e->retry_after_s = fault->retry_after_s;
}

struct df_sb_effect df_sb_faults_apply(struct df_sb_faults *f, struct df_str path)
{
    struct df_sb_effect e = {.retry_after_s = -1};

    if (atomic_load_explicit(&f->count, memory_order_relaxed) == 0)
        return e;
    df_lock(&f->lock);
    for (size_t i = 0; i < atomic_load(&f->count);) {
        struct df_sb_fault *fault = &f->items[i];
        if (!df_str_starts(path, df_str_c(fault->path)) || !fault_strikes(f, fault->rate)) {
            i++;
            continue;
        }
        add_effect(&e, fault);
        fault->applied++;
        if (fault->count > 0 && --fault->count == 0)
            remove_fault(f, i);
        else
            i++;
    }
    df_unlock(&f->lock);
    return e;
}

static void write_fault(const struct df_sb_fault *fault, struct df_json_out *out)
{
    df_json_open(out, '{');
    df_json_kv_int(out, "id", fault->id);
    df_json_kv_text(out, "path", df_str_c(fault->path));
    if (fault->status)
        df_json_kv_int(out, "status", (int64_t)fault->status);
    if (fault->retry_after_s >= 0)
        df_json_kv_int(out, "retryAfter", fault->retry_after_s);
    if (fault->latency_ms)
        df_json_kv_int(out, "latencyMs", fault->latency_ms);
    if (fault->drop)
        df_json_kv_bool(out, "drop", true);
    if (fault->drop_acks)
        df_json_kv_bool(out, "dropAcks", true);
    df_json_key(out, "rate");
    df_json_double(out, fault->rate);
    df_json_kv_int_if(out, "count", fault->count >= 0, fault->count);
    df_json_kv_int(out, "applied", fault->applied);
    df_json_close(out, '}');
}

static void write_faults(struct df_sb_faults *f, struct df_json_out *out)
{
    df_json_open(out, '[');
    df_lock(&f->lock);
    for (size_t i = 0; i < atomic_load(&f->count); i++)
        write_fault(&f->items[i], out);
    df_unlock(&f->lock);
    df_json_close(out, ']');
}

/* --- the calls --- */

/* A fraction; a number over 1 is a percentage. */
static double read_rate(struct df_input *in)
{
    const struct df_json *v = df_json_get(in->object, "rate");
    double rate = 1;

    if (!v || v->type == DF_JSON_NULL)
        return rate;
    if (!df_json_to_double(v, &rate) || !isfinite(rate) || rate < 0 || rate > 100) {
        df_input_error(in, "rate", "must be a fraction from 0 to 1, or a percentage up to 100");
        return 1;
    }
    return rate > 1 ? rate / 100 : rate;
}

static void read_fault(struct df_input *in, struct df_sb_fault *fault)
{
    static const char *const known[] = {"path",  "status",   "rate", "latencyMs",
                                        "count", "dropAcks", "drop", "retryAfter"};
    struct df_str path = df_input_text(in, "path", DF_SB_FAULT_PATH_MAX, DF_REQUIRED);

    df_sb_input_known(in, known, sizeof(known) / sizeof(known[0]));
    if (path.len > 0 && path.ptr[0] != '/')
        df_input_error(in, "path", "must begin with /");
    if (path.len > DF_SB_FAULT_PATH_MAX)
        df_input_error(in, "path", "is longer than %d bytes", DF_SB_FAULT_PATH_MAX);
    else if (path.len > 0)
        memcpy(fault->path, path.ptr, path.len);
    fault->status = (unsigned)df_input_int(in, "status", 200, 599, 0);
    fault->rate = read_rate(in);
    fault->latency_ms = df_input_int(in, "latencyMs", 0, 600000, 0);
    fault->count = df_input_int(in, "count", 1, 1000000000, -1);
    fault->drop_acks = df_input_bool(in, "dropAcks", false);
    fault->drop = df_input_bool(in, "drop", false);
    fault->retry_after_s = df_input_int(in, "retryAfter", 0, 86400, -1);
    if (in->error_count > 0)
        return;
    if (fault->drop && fault->status)
        df_input_error(in, "drop", "cannot stand beside status: one call has one end");
    if (fault->retry_after_s >= 0 && !fault->status)
        df_input_error(in, "retryAfter", "needs a status");
    if (!fault->status && !fault->drop && !fault->drop_acks && fault->latency_ms == 0)
        df_input_error(in, "status", "or latencyMs, drop or dropAcks must be given");
}

void df_sb_faults_post(struct df_req *req)
{
    struct df_sandbox *s = df_req_route_arg(req);
    struct df_sb_fault fault = {0};
    struct df_input in;

    if (!df_input_json(&in, req))
        return;
    read_fault(&in, &fault);
    if (!df_input_ok(&in, req))
        return;
    if (!df_sb_faults_add(&s->faults, &fault)) {
        df_req_fail(req, DF_E_CONFLICT, "%d faults stand already; DELETE /_faults clears them.",
                    DF_SB_FAULTS_MAX);
        return;
    }
    struct df_buf body;
    struct df_json_out out;
    df_buf_init(&body, 64 << 10);
    df_json_out_init(&out, &body);
    write_fault(&fault, &out);
    df_req_answer(req, 201, DF_SB_JSON, &body);
}

void df_sb_faults_get(struct df_req *req)
{
    struct df_sandbox *s = df_req_route_arg(req);
    struct df_buf body;
    struct df_json_out out;

    df_buf_init(&body, 1 << 20);
    df_json_out_init(&out, &body);
    df_json_open(&out, '{');
    df_json_key(&out, "items");
    write_faults(&s->faults, &out);
    df_json_close(&out, '}');
    df_req_answer(req, 200, DF_SB_JSON, &body);
}

void df_sb_faults_delete(struct df_req *req)
{
    struct df_sandbox *s = df_req_route_arg(req);
    size_t removed = df_sb_faults_remove(&s->faults, df_req_query(req, "path"));
    struct df_buf body;

    df_buf_init(&body, 64);
    df_buf_addf(&body, "{\"removed\":%zu}", removed);
    df_req_answer(req, 200, DF_SB_JSON, &body);
}
