/*
 * Values as libpq sends them. Everything but BLOB goes as text whose type the server infers from
 * the statement, so that a query reads the same whatever integer or character type its column has.
 * Text must end in a NUL for libpq, which our slices do not: it is copied into one buffer that
 * grows and is reused.
 */
#include "base/mem.h"
#include "base/uuid.h"
#include "store/pg_private.h"

#include <stdio.h>
#include <stdlib.h>

#define NUMBER_ROOM 32
#define KEEP_BYTES  (1 << 20)

static size_t room_for(const struct df_value *v)
{
    if (v->null)
        return 0;
    switch (v->type) {
    case DF_INT:
    case DF_BOOL:
    case DF_TIME:
        return NUMBER_ROOM;
    case DF_TEXT:
    case DF_UUID:
        return v->s.len + 1;
    case DF_BLOB:
        return 0;
    }
    return 0;
}

/* Writes v at p and returns its length. */
static size_t put_value(char *p, const struct df_value *v)
{
    switch (v->type) {
    case DF_INT:
        return (size_t)snprintf(p, NUMBER_ROOM, "%lld", (long long)v->i);
    case DF_BOOL:
        memcpy(p, v->i ? "t" : "f", 2);
        return 1;
    case DF_TIME:
        df_time_format(v->i, p);
        return DF_TIME_LEN;
    case DF_TEXT:
    case DF_UUID:
        if (v->s.len > 0)
            memcpy(p, v->s.ptr, v->s.len);
        p[v->s.len] = '\0';
        return v->s.len;
    case DF_BLOB:
        break;
    }
    return 0;
}

static void reserve_params(struct pg_params *p, size_t count, size_t text_bytes)
{
    if (count > p->cap) {
        p->values = df_realloc(p->values, count * sizeof(*p->values));
        p->lengths = df_realloc(p->lengths, count * sizeof(*p->lengths));
        p->formats = df_realloc(p->formats, count * sizeof(*p->formats));
        p->types = df_realloc(p->types, count * sizeof(*p->types));
        p->cap = count;
    }
    /* Memory that one large document needed is freed when small values follow. */
    if (text_bytes > p->text_cap || p->text_cap > KEEP_BYTES + text_bytes * 2) {
        free(p->text);
        p->text_cap = text_bytes + text_bytes / 2 + 256;
        p->text = df_malloc(p->text_cap);
    }
}

void df_pg_params_set(struct pg_params *p, const struct df_value *values, size_t count)
{
    size_t room = 0;
    for (size_t i = 0; i < count; i++)
        room += room_for(&values[i]);
    reserve_params(p, count, room);

    char *at = p->text;
    p->bytes = 64;
    for (size_t i = 0; i < count; i++) {
        const struct df_value *v = &values[i];
        size_t len = 0;

        p->types[i] = v->type == DF_BLOB ? PG_BYTEA : 0;
        p->formats[i] = v->type == DF_BLOB;
        if (v->null) {
            p->values[i] = NULL;
        } else if (v->type == DF_BLOB) {
            p->values[i] = v->s.ptr ? v->s.ptr : "";
            len = v->s.len;
        } else {
            p->values[i] = at;
            len = put_value(at, v);
            at += len + 1;
        }
        p->lengths[i] = (int)len;
        p->bytes += len + 8;
    }
}

void df_pg_params_release(struct pg_params *p)
{
    free(p->values);
    free(p->lengths);
    free(p->formats);
    free(p->types);
    free(p->text);
    *p = (struct pg_params){0};
}
