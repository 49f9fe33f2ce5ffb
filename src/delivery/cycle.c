/*
 * A cycle as the store runs it: settle, record the attempts, claim. It may run more than once, so
 * everything it finds is set afresh; rows to be settled stay the engine's.
 */
#include "base/mem.h"
#include "base/uuid.h"
#include "delivery/attempts.sql.h"
#include "delivery/delivery_private.h"

#include <stdlib.h>

static const char *const outcome_names[DELIVERY_OUTCOMES] = {"Sent", "Retry", "Error", "Deferred"};

/* --- settling --------------------------------------------------------------------------------- */

struct df_value df_channel_id(const struct df_channel *c, struct df_str id)
{
    struct df_uuid uuid;
    int64_t number = 0;

    if (c->id_type == DF_UUID)
        return df_uuid_parse(id, &uuid) ? df_uuid(id) : df_null(DF_UUID);
    return df_str_to_i64(id, &number) ? df_int(number) : df_null(DF_INT);
}

void df_channel_params(const struct df_query *q, const struct df_channel_values *v,
                       struct df_value *params)
{
    const struct {
        const char *name;
        struct df_value value;
    } known[] = {
        {"now", v->now},       {"lease_until", v->lease_until},
        {"limit", v->limit},   {"offset", v->offset},
        {"id", v->id},         {"fence", v->fence},
        {"due", v->due},       {"error", v->error},
        {"status", v->status},
    };
    for (size_t i = 0; i < q->param_count; i++) {
        size_t k = 0;
        while (k < sizeof(known) / sizeof(known[0]) && strcmp(known[k].name, q->params[i]) != 0)
            k++;
        if (k == sizeof(known) / sizeof(known[0]))
            abort();
        params[i] = known[k].value;
    }
}

/* One statement for many rows. */
static enum df_code run_for(struct df_db *db, struct delivery_cycle *cy, const struct df_query *q,
                            const struct df_channel_values *rows, size_t count, int64_t *affected,
                            struct df_err *err)
{
    struct df_value *params = DF_ARENA_ARRAY(&cy->arena, struct df_value, count * q->param_count);

    for (size_t i = 0; i < count; i++)
        df_channel_params(q, &rows[i], params + i * q->param_count);
    return df_db_exec_many(db, q, params, q->param_count, count, NULL, NULL, affected, NULL, err);
}

static bool settles_alike(enum delivery_outcome a, enum delivery_outcome b)
{
    bool failed_a = a == DELIVERY_RETRY || a == DELIVERY_DEAD;
    bool failed_b = b == DELIVERY_RETRY || b == DELIVERY_DEAD;
    return a == b || (failed_a && failed_b);
}

static struct df_channel_values values_of(const struct delivery_row *row, int64_t now_ms)
{
    return (struct df_channel_values){
        .now = df_time(now_ms),
        .id = df_channel_id(row->channel->c, row->id),
        .fence = df_int(row->fence),
        .lease_until = df_time(row->lease_until_ms),
        .due = row->outcome == DELIVERY_DEAD ? df_null(DF_TIME) : df_time(row->due_ms),
        .error = df_text(row->error),
    };
}

/* By id: whoever updates several rows does so in one order, or two cycles may wait for each other.
 */
static int by_id(const void *a, const void *b)
{
    const struct delivery_row *x = *(const struct delivery_row *const *)a;
    const struct delivery_row *y = *(const struct delivery_row *const *)b;

    if (x->id.len != y->id.len)
        return x->id.len < y->id.len ? -1 : 1;
    return memcmp(x->id.ptr, y->id.ptr, x->id.len);
}

/* The rows of the list that `wanted` settles like, in order. */
static struct delivery_row **sorted(struct delivery_cycle *cy, const struct delivery_list *list,
                                    const enum delivery_outcome *wanted, size_t *ret_count)
{
    struct delivery_row **rows = DF_ARENA_ARRAY(&cy->arena, struct delivery_row *, list->count);
    size_t count = 0;

    for (struct delivery_row *r = list->head; r; r = r->next) {
        if (!wanted || settles_alike(r->outcome, *wanted))
            rows[count++] = r;
    }
    qsort(rows, count, sizeof(struct delivery_row *), by_id);
    *ret_count = count;
    return rows;
}

static struct df_channel_values *values_for(struct delivery_cycle *cy, struct delivery_row **rows,
                                            size_t count)
{
    struct df_channel_values *values = DF_ARENA_ARRAY(&cy->arena, struct df_channel_values, count);
    int64_t now_ms = delivery_now(cy->channel);

    for (size_t i = 0; i < count; i++)
        values[i] = values_of(rows[i], now_ms);
    return values;
}

/* All rows of one kind of outcome. */
static enum df_code settle_kind(struct df_db *db, struct delivery_cycle *cy,
                                enum delivery_outcome kind, struct df_err *err)
{
    const struct df_channel *c = cy->channel->c;
    const struct df_query *const *queries = kind == DELIVERY_SENT       ? c->sent
                                            : kind == DELIVERY_DEFERRED ? c->deferred
                                                                        : c->failed;
    size_t count = 0;
    struct delivery_row **rows = sorted(cy, &cy->settle, &kind, &count);
    enum df_code code = DF_OK;

    if (count == 0)
        return DF_OK;
    const struct df_channel_values *values = values_for(cy, rows, count);
    int64_t *affected = DF_ARENA_ARRAY(&cy->arena, int64_t, count);
    for (size_t i = 0; i <= DF_DELIVERY_ALSO && queries[i] && code == DF_OK; i++)
        code = run_for(db, cy, queries[i], values, count, i == 0 ? affected : NULL, err);
    for (size_t i = 0; code == DF_OK && i < count; i++) {
        rows[i]->stale = affected[i] == 0;
        cy->stale += rows[i]->stale;
    }
    return code;
}

static enum df_code record_attempts(struct df_db *db, struct delivery_cycle *cy, struct df_err *err)
{
    enum { WIDTH = 9 };
    struct df_value *params = DF_ARENA_ARRAY(&cy->arena, struct df_value, cy->settle.count * WIDTH);
    size_t count = 0;

    for (struct delivery_row *r = cy->settle.head; r; r = r->next) {
        if (!r->tried)
            continue;
        const struct df_call *call = &r->call;
        struct df_value *p = params + WIDTH * count++;
        p[0] = df_text(df_str_c(cy->channel->c->name));
        p[1] = df_text(r->id);
        p[2] = df_int(r->attempt);
        p[3] = df_time(r->started_ms);
        p[4] = df_text(df_str_c(r->stale ? "Stale" : outcome_names[r->outcome]));
        p[5] = call->code == DF_OK ? df_int(call->status) : df_null(DF_INT);
        p[6] = df_int(call->duration_ms);
        p[7] = df_text(r->answer);
        p[8] = df_text(r->error);
    }
    if (count == 0)
        return DF_OK;
    return df_db_exec_many(db, &df_q_delivery_attempt_insert, params, WIDTH, count, NULL, NULL,
                           NULL, NULL, err);
}

/* --- claiming --------------------------------------------------------------------------------- */

static void free_claimed(struct delivery_cycle *cy)
{
    struct delivery_row *row;
    while ((row = delivery_list_take(&cy->claimed)))
        delivery_row_free(row);
}

static struct delivery_row *take_row(struct delivery_channel *ch, struct df_result *r,
                                     int64_t lease_until_ms)
{
    struct delivery_row *row = df_calloc(1, sizeof(*row));
    struct df_err why = DF_ERR_INIT;

    row->channel = ch;
    df_arena_init(&row->arena);
    row->id = df_arena_str(&row->arena, df_col_text(r, 0));
    row->attempt = df_col_int(r, 1);
    row->fence = df_col_int(r, 2);
    row->lease_until_ms = lease_until_ms;
    if (ch->c->build(ch->c, row->id, r, &row->arena, &row->request, &why) != DF_OK) {
        row->outcome = DELIVERY_DEAD;
        row->error = delivery_clean(&row->arena, df_str_c(why.detail), DELIVERY_ERROR_UNITS);
        row->request.url = NULL;
    }
    return row;
}

static enum df_code mirror_claims(struct df_db *db, struct delivery_cycle *cy, struct df_err *err)
{
    const struct df_channel *c = cy->channel->c;
    enum df_code code = DF_OK;
    size_t count = 0;

    if (!c->claimed[0] || cy->claimed.count == 0)
        return DF_OK;
    struct delivery_row **rows = sorted(cy, &cy->claimed, NULL, &count);
    const struct df_channel_values *values = values_for(cy, rows, count);
    for (size_t i = 0; i < DF_DELIVERY_ALSO && c->claimed[i] && code == DF_OK; i++)
        code = run_for(db, cy, c->claimed[i], values, count, NULL, err);
    return code;
}

static enum df_code claim(struct df_db *db, struct delivery_cycle *cy, struct df_err *err)
{
    struct delivery_channel *ch = cy->channel;
    struct df_result *r = NULL;
    int64_t now_ms = delivery_now(ch);
    int64_t lease_until_ms = now_ms + delivery_lease(ch);

    const struct df_query *q = ch->c->claim;
    struct df_value *params = DF_ARENA_ARRAY(&cy->arena, struct df_value, q->param_count);
    df_channel_params(q,
                      &(struct df_channel_values){.now = df_time(now_ms),
                                                  .lease_until = df_time(lease_until_ms),
                                                  .limit = df_int((int64_t)cy->limit)},
                      params);
    enum df_code code = df_db_query(db, q, params, q->param_count, &r, err);
    if (code != DF_OK)
        return code;
    while ((code = df_result_step(r, err)) == DF_ROW)
        delivery_list_add(&cy->claimed, take_row(ch, r, lease_until_ms));
    df_result_free(r);
    if (code == DF_DONE)
        code = mirror_claims(db, cy, err);
    if (code != DF_OK)
        return code;
    if (cy->claimed.count == cy->limit) {
        cy->next_due_ms = now_ms; /* there is more, most likely */
        return DF_OK;
    }
    code = df_db_query(db, ch->c->next_due, DF_NO_PARAMS, &r, err);
    if (code != DF_OK)
        return code;
    code = df_result_step(r, err);
    if (code == DF_ROW && !df_col_null(r, 0))
        cy->next_due_ms = df_col_time(r, 0);
    df_result_free(r);
    return code == DF_ROW || code == DF_DONE ? DF_OK : code;
}

enum df_code delivery_cycle_run(struct df_db *db, struct df_job *job, struct df_err *err)
{
    static const enum delivery_outcome kinds[] = {DELIVERY_SENT, DELIVERY_RETRY, DELIVERY_DEFERRED};
    struct delivery_cycle *cy = (struct delivery_cycle *)job;
    enum df_code code = DF_OK;

    free_claimed(cy);
    df_arena_reset(&cy->arena);
    cy->stale = 0;
    cy->next_due_ms = -1;
    for (size_t i = 0;
         code == DF_OK && cy->settle.count > 0 && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        code = settle_kind(db, cy, kinds[i], err);
    if (code == DF_OK && cy->settle.count > 0)
        code = record_attempts(db, cy, err);
    if (code == DF_OK && cy->limit > 0)
        code = claim(db, cy, err);
    return code;
}
