/*
 * What went wrong, in words that failures of one kind share: ids and numbers of an error's text are
 * replaced by {id} and {n}, so that failures can be counted by cause. Status codes stay ("HTTP
 * 503"), since they tell causes apart.
 *
 *     HTTP 400: order 8812 of CP_0001 is unknown  ->  HTTP 400: order {n} of {id} is unknown
 */
#ifndef DF_BASE_CAUSE_H
#define DF_BASE_CAUSE_H

#include "base/arena.h"
#include "base/map.h"

#define DF_CAUSE_CHARS 200 /* the longest cause; the rest of a text is left out */

/* The cause of an error's text, in the arena. The cause of a cause is itself. */
struct df_str df_cause_of(struct df_str error, struct df_arena *a);

/*
 * A pattern for LIKE with the escape '!' that finds texts which contain `text`, and {id} and {n}
 * stand for anything. So it finds every text whose cause `text` is. The absent slice for the absent
 * slice.
 */
struct df_str df_cause_pattern(struct df_str text, struct df_arena *a);

/* --- failures by cause --- */

#define DF_CAUSES_KINDS 5000 /* causes told apart; the rest is counted under "other" */

/* Counts failures, newest first. Memory: the arena, which outlives it, and a table. */
struct df_causes {
    struct df_arena *arena;
    struct df_map map;
    int64_t failures;
};

struct df_cause {
    struct df_str text;
    int64_t count;
    int64_t first_ms, last_ms;
    bool retried; /* one of them is tried again by itself */
    struct df_str example;
};

void df_causes_init(struct df_causes *c, struct df_arena *a);
void df_causes_release(struct df_causes *c);
/* A failure without a text has no cause, and is not counted. */
void df_causes_add(struct df_causes *c, struct df_str error, int64_t at_ms, bool retried,
                   struct df_str id);
/* The most frequent ones, at most `most`, in the arena; *ret_count: how many. */
struct df_cause **df_causes_top(struct df_causes *c, size_t most, size_t *ret_count);

#endif
