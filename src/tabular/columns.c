#include "tabular/columns.h"

#include "base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

struct df_column {
    struct df_str name;
    struct df_str header; /* empty: the column has no name */
    unsigned copies;      /* the last number given to a column of the same name */
};

void df_columns_release(struct df_columns *c)
{
    df_arena_release(&c->arena);
    free(c->list);
    df_map_release(&c->by_name);
    *c = (struct df_columns){.count = 0};
}

static void reserve_columns(struct df_columns *c, size_t index)
{
    if (index >= c->cap) {
        c->cap = index < 32 ? 64 : index * 2;
        c->list = df_realloc(c->list, c->cap * sizeof(struct df_column *));
    }
    while (c->count <= index)
        c->list[c->count++] = NULL;
    assert(c->count <= c->cap);
}

/* The name with the next number that makes it unique. */
static struct df_str numbered_name(struct df_columns *c, struct df_str name, unsigned *copies)
{
    char *text = df_arena_alloc(&c->arena, name.len + 16);

    memcpy(text, name.ptr, name.len);
    for (;;) {
        int len = snprintf(text + name.len, 16, " (%u)", ++*copies);
        struct df_str with = df_str_n(text, name.len + (size_t)len);
        if (!df_map_get(&c->by_name, with))
            return with;
    }
}

static struct df_column *add_column(struct df_columns *c, size_t index, struct df_str name)
{
    struct df_column *same = df_map_get(&c->by_name, name);
    struct df_column *column = DF_ARENA_NEW(&c->arena, struct df_column);

    column->name = same ? numbered_name(c, name, &same->copies) : df_arena_str(&c->arena, name);
    column->copies = 1;
    df_map_add(&c->by_name, column->name, column);
    c->list[index] = column;
    return column;
}

void df_columns_set(struct df_columns *c, size_t index, struct df_str header)
{
    struct df_str name = df_str_trim(header);

    reserve_columns(c, index);
    assert(!c->list[index]);
    if (name.len > 0)
        add_column(c, index, name)->header = df_arena_str(&c->arena, name);
}

struct df_str df_columns_name(struct df_columns *c, size_t index)
{
    reserve_columns(c, index);
    if (!c->list[index]) {
        char letters[DF_COLUMN_LETTERS], name[DF_COLUMN_LETTERS + 8];
        df_column_letters(index, letters);
        int len = snprintf(name, sizeof(name), "Column %s", letters);
        (void)add_column(c, index, df_str_n(name, (size_t)len));
    }
    return c->list[index]->name;
}

struct df_str df_columns_header(const struct df_columns *c, size_t index)
{
    bool known = index < c->count && c->list[index];
    return known && c->list[index]->header.ptr ? c->list[index]->header : DF_STR("");
}

void df_column_letters(size_t index, char out[DF_COLUMN_LETTERS])
{
    char letters[DF_COLUMN_LETTERS], *p = letters + sizeof(letters) - 1;

    *p = '\0';
    for (size_t n = index + 1; n > 0; n = (n - 1) / 26)
        *--p = (char)('A' + (n - 1) % 26);
    memcpy(out, p, (size_t)(letters + sizeof(letters) - p));
}
