/*
 * The texts of the program's queries, which are compressed in the binary: three dialects of several
 * hundred queries are half a megabyte, of which a process needs one dialect. A dialect is unpacked
 * once, when its first text is asked for, and stays until the process ends. Drivers ask when they
 * prepare a statement, so a search by name will do.
 */
#include "all_queries.h"
#include "base/mem.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#define MANY  DF_DIALECT_COUNT
#define PACKS (DF_DIALECT_COUNT + 1)

struct pack {
    pthread_once_t once;
    const char **texts; /* in the order of df_all_queries; never freed */
};

static struct pack packs[PACKS] = {
    {.once = PTHREAD_ONCE_INIT},
    {.once = PTHREAD_ONCE_INIT},
    {.once = PTHREAD_ONCE_INIT},
    {.once = PTHREAD_ONCE_INIT},
};
static_assert(PACKS == 4, "each has its once");

static void unpack(size_t which)
{
    const struct df_file *f = which == MANY ? &df_query_many_pack : &df_query_packs[which];
    static struct df_arena arenas[PACKS];
    struct df_str all = df_file_text(f, &arenas[which]);
    const char *at = all.ptr;

    packs[which].texts = df_calloc(df_all_queries_count + 1, sizeof(char *));
    for (size_t i = 0; i < df_all_queries_count; i++) {
        packs[which].texts[i] = at;
        at += strlen(at) + 1;
    }
    assert(at == all.ptr + all.len);
}

static void unpack_sqlite(void)
{
    unpack(DF_SQLITE);
}

static void unpack_postgres(void)
{
    unpack(DF_POSTGRES);
}

static void unpack_sqlserver(void)
{
    unpack(DF_SQLSERVER);
}

static void unpack_many(void)
{
    unpack(MANY);
}

static int by_name(const void *name, const void *element)
{
    const struct df_query *const *q = element;
    return strcmp(name, (*q)->name);
}

static const char *find_text(const struct df_query *q, size_t which)
{
    static void (*const unpackers[PACKS])(void) = {
        [DF_SQLITE] = unpack_sqlite,
        [DF_POSTGRES] = unpack_postgres,
        [DF_SQLSERVER] = unpack_sqlserver,
        [MANY] = unpack_many,
    };
    const struct df_query *const *found = bsearch(q->name, df_all_queries, df_all_queries_count,
                                                  sizeof(const struct df_query *), by_name);

    assert(found && *found == q);
    (void)pthread_once(&packs[which].once, unpackers[which]);
    return packs[which].texts[found - df_all_queries];
}

const char *df_query_sql(const struct df_query *q, enum df_dialect dialect)
{
    return q->is_packed ? find_text(q, dialect) : q->text[dialect].sql;
}

const char *df_query_many(const struct df_query *q)
{
    if (!q->is_packed)
        return q->many;
    const char *text = find_text(q, MANY);
    return *text ? text : NULL;
}
