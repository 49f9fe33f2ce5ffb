/*
 * Intrusive doubly linked list: the link is a member of the item, so that adding and removing
 * allocate nothing and take constant time. An item has one link for each list it can be in at the
 * same time.
 *
 *     struct call { struct df_link waiting; … };
 *     struct df_list line = {0};
 *
 *     df_list_add(&line, &call->waiting);
 *     struct call *c;
 *     DF_LIST_EACH (c, &line, waiting)
 *         …
 *     while ((c = DF_LIST_TAKE(&line, struct call, waiting)))
 *         …
 *
 * Zeroed lists and links are valid: an empty list, and a link in no list. A list with items must
 * not be moved. Lists own nothing and lock nothing: the lock of the items guards the list. Adding a
 * link that is in a list, and removing one that is in none, aborts.
 */
#ifndef DF_BASE_LIST_H
#define DF_BASE_LIST_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

struct df_link {
    struct df_link *next; /* NULL: in no list */
    struct df_link *prev;
};

struct df_list {
    struct df_link ends; /* next: the first; prev: the last; both the list itself when empty */
    size_t count;
};

#define DF_LIST_ITEM(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* NOLINTBEGIN(clang-analyzer-*): it does not know that a link's neighbours link back. */
static inline bool df_link_in_list(const struct df_link *link)
{
    return link->next != NULL;
}

static inline void df_list_put_between(struct df_list *l, struct df_link *prev,
                                       struct df_link *link, struct df_link *next)
{
    assert(!link->next && !link->prev);
    link->prev = prev;
    link->next = next;
    prev->next = link;
    next->prev = link;
    l->count++;
}

static inline void df_list_make_ready(struct df_list *l)
{
    if (!l->ends.next)
        l->ends.next = l->ends.prev = &l->ends;
    assert(l->ends.next->prev == &l->ends); /* the list was not moved */
}

/* Adds at the end. */
static inline void df_list_add(struct df_list *l, struct df_link *link)
{
    df_list_make_ready(l);
    df_list_put_between(l, l->ends.prev, link, &l->ends);
}

static inline void df_list_add_first(struct df_list *l, struct df_link *link)
{
    df_list_make_ready(l);
    df_list_put_between(l, &l->ends, link, l->ends.next);
}

/* Adds before `next`, which is in the list; NULL: at the end. */
static inline void df_list_add_before(struct df_list *l, struct df_link *next, struct df_link *link)
{
    df_list_make_ready(l);
    assert(!next || df_link_in_list(next));
    next = next ? next : &l->ends;
    df_list_put_between(l, next->prev, link, next);
}

static inline void df_list_remove(struct df_list *l, struct df_link *link)
{
    assert(l->count > 0 && link->next && link->next->prev == link && link->prev->next == link);
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->next = link->prev = NULL;
    l->count--;
}

static inline struct df_link *df_list_first_link(const struct df_list *l)
{
    return l->count > 0 ? l->ends.next : NULL;
}

/* NULL: it is the last one. */
static inline struct df_link *df_list_after(const struct df_list *l, const struct df_link *link)
{
    return link->next == &l->ends ? NULL : link->next;
}

static inline struct df_link *df_list_take_link(struct df_list *l)
{
    struct df_link *link = df_list_first_link(l);
    if (link)
        df_list_remove(l, link);
    return link;
}

/* Moves all items of `from` to the end of `to`, in order. */
static inline void df_list_move(struct df_list *to, struct df_list *from)
{
    assert(to != from);
    if (from->count == 0)
        return;
    df_list_make_ready(to);
    from->ends.next->prev = to->ends.prev;
    to->ends.prev->next = from->ends.next;
    from->ends.prev->next = &to->ends;
    to->ends.prev = from->ends.prev;
    to->count += from->count;
    *from = (struct df_list){.count = 0};
}

/* NOLINTEND(clang-analyzer-*) */

/* NULL: there is none. */
#define DF_LIST_FIRST(list, type, member)                                                          \
    ((list)->count > 0 ? DF_LIST_ITEM((list)->ends.next, type, member) : NULL)

/* The first one, taken out; NULL: there is none. */
#define DF_LIST_TAKE(list, type, member)                                                           \
    ((list)->count > 0 ? DF_LIST_ITEM(df_list_take_link(list), type, member) : NULL)

/* The one after `item`; NULL: it is the last one. */
#define DF_LIST_NEXT(item, list, member)                                                           \
    (df_list_after((list), &(item)->member)                                                        \
         ? DF_LIST_ITEM((item)->member.next, __typeof__(*(item)), member)                          \
         : NULL)

/*
 * Loops from the first to the last. `item` is a variable of the caller; afterwards it is NULL
 * unless the loop was left by break. The current item may be removed, and items after the next one;
 * the next one must not be.
 */
#define DF_LIST_EACH(item, list, member)                                                           \
    for (struct df_link *df_at_##item = df_list_first_link(list), *df_next_##item = NULL;          \
         ((item) = df_at_##item ? DF_LIST_ITEM(df_at_##item, __typeof__(*(item)), member)          \
                                : NULL) != NULL &&                                                 \
         (df_next_##item = df_list_after((list), df_at_##item), true);                             \
         df_at_##item = df_next_##item)

#endif
