#include "tabular/columns.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

struct df_column {
    struct df_str name;
    unsigned copies; /* the last number given to another one of this name */
};

void df_columns_release(struct df_columns *c)
{
    df_arena_release(&c->arena);
    free(c->list);
    free(c->slots);
    *c = (struct df_columns){.count = 0};
}

static uint32_t *slot_of(const struct df_columns *c, struct df_str name)
{
    for (size_t i = df_str_hash(name) >> 20;; i++) {
        uint32_t *slot = &c->slots[i & (c->slot_count - 1)];
        if (*slot == 0 || df_str_eq(c->list[*slot - 1].name, name))
            return slot;
    }
}

static void make_room(struct df_columns *c)
{
    if (c->count == c->cap) {
        c->cap = c->cap ? c->cap * 2 : 64;
        c->list = df_realloc(c->list, c->cap * sizeof(*c->list));
    }
    if (2 * (c->count + 1) > c->slot_count) {
        c->slot_count = c->slot_count ? c->slot_count * 2 : 256;
        free(c->slots);
        c->slots = df_calloc(c->slot_count, sizeof(*c->slots));
        for (size_t i = 0; i < c->count; i++)
            *slot_of(c, c->list[i].name) = (uint32_t)i + 1;
    }
}

/* "Column A" to "Column Z", "Column AA", ... */
static struct df_str lettered(struct df_columns *c)
{
    char letters[16], *p = letters + sizeof(letters) - 1;
    char *text = df_arena_alloc(&c->arena, sizeof(letters) + 8);

    *p = '\0';
    for (size_t n = c->count + 1; n > 0; n = (n - 1) / 26)
        *--p = (char)('A' + (n - 1) % 26);
    return df_str_n(text, (size_t)snprintf(text, sizeof(letters) + 8, "Column %s", p));
}

/* The name with a number that nobody has. */
static struct df_str numbered(struct df_columns *c, struct df_str name, unsigned *copies)
{
    char *text = df_arena_alloc(&c->arena, name.len + 16);

    memcpy(text, name.ptr, name.len);
    for (;;) {
        int len = snprintf(text + name.len, 16, " (%u)", ++*copies);
        struct df_str with = df_str_n(text, name.len + (size_t)len);
        if (*slot_of(c, with) == 0)
            return with;
    }
}

void df_columns_add(struct df_columns *c, struct df_str header)
{
    struct df_str name = df_str_trim(header);

    if (name.len == 0)
        name = lettered(c);
    make_room(c);
    uint32_t *slot = slot_of(c, name);
    if (*slot) {
        name = numbered(c, name, &c->list[*slot - 1].copies);
        slot = slot_of(c, name);
    } else {
        char *text = df_arena_alloc(&c->arena, name.len);
        memcpy(text, name.ptr, name.len);
        name.ptr = text;
    }
    c->list[c->count++] = (struct df_column){name, 1};
    *slot = (uint32_t)c->count;
}

struct df_str df_columns_name(struct df_columns *c, size_t index)
{
    while (c->count <= index)
        df_columns_add(c, DF_STR(""));
    return c->list[index].name;
}
