#include "store/rows.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define ID_BYTES 39 /* a UUID, its quotes and the comma */

struct df_rows df_rows_for(struct df_arena *a, const struct df_query *q, size_t most)
{
    return (struct df_rows){
        .query = q,
        .params = DF_ARENA_ARRAY(a, struct df_value, most * q->param_count),
        .most = most,
    };
}

void df_rows_put(struct df_rows *r, const struct df_query *q, const struct df_value *values,
                 size_t count)
{
    assert(q == r->query && count == q->param_count && r->count < r->most);
    memcpy(r->params + r->count++ * count, values, count * sizeof(*values));
}

enum df_code df_rows_run(struct df_db *db, const struct df_rows *r, int64_t *affected,
                         struct df_err *err)
{
    if (r->count == 0)
        return DF_OK;
    return df_db_exec_many(db, r->query, r->params, r->query->param_count, r->count, NULL, NULL,
                           affected, NULL, err);
}

enum df_code df_rows_fit(struct df_db *db, const struct df_query *q, const struct df_value *values,
                         size_t count, int64_t most, int64_t *ret, struct df_err *err)
{
    struct df_result *r = NULL;
    int64_t bytes = 0;
    enum df_code code = df_db_query(db, q, values, count, &r, err);

    *ret = 0;
    if (code != DF_OK)
        return code;
    while ((code = df_result_step(r, err)) == DF_ROW) {
        bytes += df_col_int(r, 0);
        if (bytes > most && *ret > 0)
            break;
        ++*ret;
    }
    df_result_free(r);
    return code == DF_ROW || code == DF_DONE ? DF_OK : code;
}

struct df_ids df_ids_for(struct df_arena *a, size_t most, bool quoted)
{
    return (struct df_ids){
        .text = df_arena_alloc(a, most * ID_BYTES + 2), .most = most, .quoted = quoted};
}

void df_ids_add(struct df_ids *ids, struct df_str id)
{
    assert(ids->most > 0 && id.len <= ID_BYTES - 3);
    ids->most--;
    ids->text[ids->len] = ids->len ? ',' : '[';
    ids->len++;
    if (ids->quoted)
        ids->text[ids->len++] = '"';
    memcpy(ids->text + ids->len, id.ptr, id.len);
    ids->len += id.len;
    if (ids->quoted)
        ids->text[ids->len++] = '"';
}

void df_ids_add_int(struct df_ids *ids, int64_t id)
{
    char text[24];
    int n = snprintf(text, sizeof(text), "%lld", (long long)id);
    df_ids_add(ids, df_str_n(text, (size_t)n));
}

struct df_value df_ids_value(struct df_ids *ids)
{
    if (ids->len == 0)
        ids->text[ids->len++] = '[';
    ids->text[ids->len++] = ']';
    return df_text(df_str_n(ids->text, ids->len));
}
