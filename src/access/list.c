#include "access/list.h"

#include "store/list.sqlt.h"
#include "store/rows.h"

#include <assert.h>
#include <string.h>

#define END_MS       INT64_C(253402300799000) /* of the year 9999 */
#define BINDINGS_MAX DF_ANY_MAX
#define FIRST_UUID   "00000000-0000-0000-0000-000000000000"
#define LAST_UUID    "ffffffff-ffff-ffff-ffff-ffffffffffff"

/* --- the place where a page begins --- */

static struct df_value place_time(const struct df_page *p, bool oldest)
{
    if (p->from_cursor && p->cursor.at[0])
        return df_text(df_str_c(p->cursor.at));
    return df_time(oldest ? 0 : END_MS);
}

static struct df_value place_id(const struct df_page *p, bool oldest)
{
    if (p->by_uuid)
        return df_uuid(p->from_cursor ? df_uuid_str(&p->cursor.uuid)
                       : oldest       ? DF_STR(FIRST_UUID)
                                      : DF_STR(LAST_UUID));
    return df_int(p->from_cursor ? p->cursor.id : oldest ? INT64_MIN : INT64_MAX);
}

static enum df_code find_keys(struct df_db *db, const struct df_list_query *q,
                              const struct df_page *p, bool oldest, int64_t limit, int64_t offset,
                              void (*row)(void *arg, struct df_result *r), void *arg,
                              struct df_err *err)
{
    const struct df_query *keys = oldest ? q->oldest : q->newest;
    struct df_binding all[BINDINGS_MAX];
    struct df_value values[BINDINGS_MAX];
    size_t n = q->filter_count;

    assert(n + 5 <= BINDINGS_MAX && keys->param_count <= BINDINGS_MAX);
    if (n > 0)
        memcpy(all, q->filter, n * sizeof *all);
    all[n++] = (struct df_binding){"after_at", place_time(p, oldest)};
    all[n++] = (struct df_binding){"after_id", place_id(p, oldest)};
    all[n++] = (struct df_binding){"limit", df_int(limit)};
    all[n++] = (struct df_binding){"offset", df_int(offset)};
    all[n++] = (struct df_binding){"window", df_int(limit + offset)};
    return df_db_each(db, keys, df_query_bind(keys, all, n, values), keys->param_count, row, arg,
                      err);
}

/* --- the total --- */

struct seen {
    int64_t count;
    int64_t newest_ms, last_ms;
};

static void count_key(void *arg, struct df_result *r)
{
    struct seen *s = arg;

    s->last_ms = df_col_time(r, list_key_CreatedAt);
    if (s->count++ == 0)
        s->newest_ms = s->last_ms;
}

/* So many rows were counted in this time, and so long ago the first of all was written. */
static int64_t estimate(const struct seen *s, int64_t first_ms)
{
    int64_t counted_ms = s->newest_ms - s->last_ms, all_ms = s->newest_ms - first_ms;

    if (counted_ms <= 0 || all_ms <= counted_ms)
        return s->count;
    return (int64_t)((double)s->count * (double)all_ms / (double)counted_ms);
}

enum df_code df_list_count(struct df_db *db, const struct df_list_query *q, struct df_page *p,
                           struct df_err *err)
{
    const struct df_page whole = {.by_uuid = p->by_uuid};
    struct seen seen = {.count = 0}, first = {.count = 0};
    enum df_code code =
        find_keys(db, q, &whole, false, DF_LIST_COUNTED + 1, 0, count_key, &seen, err);

    p->total = seen.count;
    p->total_is_estimate = seen.count > DF_LIST_COUNTED;
    if (code != DF_OK || !p->total_is_estimate)
        return code;
    code = find_keys(db, q, &whole, true, 1, 0, count_key, &first, err);
    if (code == DF_OK && first.count > 0)
        p->total = estimate(&seen, first.newest_ms);
    return code;
}

/* --- the rows --- */

struct found {
    struct df_page *page;
    struct df_ids ids;
    int64_t count;
    struct df_cursor last;
    bool is_named; /* `last` can be written */
};

static void read_key(void *arg, struct df_result *r)
{
    struct found *f = arg;
    struct df_str id = df_col_text(r, list_key_Id);

    if (f->count++ >= f->page->size) /* there is a next page */
        return;
    df_ids_add(&f->ids, id);
    f->is_named = df_cursor_set_at(&f->last, df_col_exact_time(r, list_key_CreatedAt));
    if (f->page->by_uuid)
        (void)df_uuid_parse(id, &f->last.uuid);
    else
        f->last.id = df_col_int(r, list_key_Id);
}

enum df_code df_list_rows(struct df_db *db, const struct df_list_query *q, struct df_page *p,
                          struct df_arena *a, void (*row)(void *arg, struct df_result *r),
                          void *arg, int64_t *ret_shown, struct df_err *err)
{
    struct found f = {.page = p,
                      .ids = df_ids_for(a, (size_t)p->size, p->by_uuid),
                      .last = {.oldest_first = p->oldest_first, .by_uuid = p->by_uuid}};
    enum df_code code =
        find_keys(db, q, p, p->oldest_first, p->size + 1, p->offset, read_key, &f, err);
    bool more = f.count > p->size;

    if (ret_shown)
        *ret_shown = more ? p->size : f.count;
    p->next[0] = '\0';
    if (code == DF_OK && more && p->list && f.is_named)
        df_cursor_write(&f.last, p->list, p->next);
    if (code != DF_OK || f.count == 0)
        return code;
    return df_db_each(
        db,
        DF_ANY(q->rows, {"ids", df_ids_value(&f.ids)}, {"oldest", df_int(p->oldest_first ? 1 : 0)}),
        row, arg, err);
}

enum df_code df_list_page(struct df_db *db, const struct df_list_query *q, struct df_page *p,
                          struct df_arena *a, void (*row)(void *arg, struct df_result *r),
                          void *arg, struct df_err *err)
{
    enum df_code code = df_list_count(db, q, p, err);

    return code == DF_OK ? df_list_rows(db, q, p, a, row, arg, NULL, err) : code;
}
