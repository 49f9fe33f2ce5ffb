/*
 * Pages of long lists, by keys: however far a reader has gone, the next page costs the same.
 *
 * A list has two queries. `keys` finds the ids of a page in order, behind the row that a cursor
 * names; it exists in both orders (tools/embed_sql.py, {DESC}) and, where one index does not serve
 * all filters, in a few variants, each with another index. `rows` reads what is shown of these ids.
 *
 *     -- name: order_keys
 *     -- row: list_key
 *     SELECT o.Id, o.CreatedAt FROM Orders AS o
 *     WHERE o.CreatedAt {<}= :after_at AND (o.CreatedAt {<} :after_at OR o.Id {<} :after_id) AND …
 *     ORDER BY o.CreatedAt {DESC}, o.Id {DESC} LIMIT :limit OFFSET :offset;
 *
 *     -- name: order_rows
 *     SELECT … FROM Orders AS o WHERE o.Id IN EACH_INT(:ids)
 *     ORDER BY CASE WHEN CAST(:oldest AS INT) = 1 THEN o.CreatedAt END, … DESC
 *
 * The total is exact up to DF_LIST_COUNTED: no more keys are counted. Beyond, it is estimated from
 * the times: the rows that were counted lie so close together, and so long the list is.
 */
#ifndef DF_ACCESS_LIST_H
#define DF_ACCESS_LIST_H

#include "base/arena.h"
#include "net/input.h"
#include "store/db.h"

#define DF_LIST_COUNTED 10000

struct df_list_query {
    const struct df_query *newest, *oldest; /* keys: the filter's parameters, after_at, after_id,
                                               limit, offset, window = limit + offset */
    const struct df_query *rows;            /* ids, oldest */
    const struct df_binding *filter;        /* what the queries take besides */
    size_t filter_count;
};

#define DF_LIST_KEYS(name) .newest = &df_q_##name, .oldest = &df_q_##name##_oldest
/* The filter of a struct df_list_query, as in DF_ANY. It lives as long as the block it stands in.
 */
#define DF_LIST_FILTER(...)                                                                        \
    .filter = (const struct df_binding[]){__VA_ARGS__},                                            \
    .filter_count = sizeof((const struct df_binding[]){__VA_ARGS__}) / sizeof(struct df_binding)

/* Reads the page p, whose `list` is set, and sets p->next. *ret_shown, which may be NULL: how many
 * rows it has. */
enum df_code df_list_rows(struct df_db *db, const struct df_list_query *q, struct df_page *p,
                          struct df_arena *a, void (*row)(void *arg, struct df_result *r),
                          void *arg, int64_t *ret_shown, struct df_err *err) DF_MUST_CHECK;
/* Sets p->total and p->total_is_estimate. */
enum df_code df_list_count(struct df_db *db, const struct df_list_query *q, struct df_page *p,
                           struct df_err *err) DF_MUST_CHECK;
/* Both. The page's memory is the arena's, until `row` was called for the last row. */
enum df_code df_list_page(struct df_db *db, const struct df_list_query *q, struct df_page *p,
                          struct df_arena *a, void (*row)(void *arg, struct df_result *r),
                          void *arg, struct df_err *err) DF_MUST_CHECK;

#endif
