/*
 * Values as libpq sends them. Everything but BLOB goes as text whose type the server infers from
 * the statement, so that a query reads the same whatever integer or character type its column has.
 * Text must end in a NUL for libpq, which our slices do not: it is copied into one buffer that
 * grows and is reused.
 */
#include "base/mem.h"
#include "base/uuid.h"
#include "store/pg_private.h"

#include <assert.h>
#include <endian.h>
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

/* --- arrays ----------------------------------------------------------------------------------- */

/*
 * An array in the server's binary format: a head of five numbers, then each value behind its
 * length. Values of common types go in binary as well; the others as text, which the statement
 * casts.
 */
#define ARRAY_HEAD    20
#define VALUE_HEAD    4
#define EPOCH_2000_MS INT64_C(946684800000) /* the server counts microseconds from then */
#define PIECE_ROWS    4096
#define PIECE_BYTES   ((size_t)4 << 20)

static const struct {
    enum df_type type;
    Oid element;
    Oid array;
} kinds[] = {
    {DF_INT, PG_INT8, 1016},  {DF_TEXT, PG_TEXT, 1009},        {DF_BLOB, PG_BYTEA, 1001},
    {DF_BOOL, PG_BOOL, 1000}, {DF_TIME, PG_TIMESTAMPTZ, 1185}, {DF_UUID, PG_UUID, 2951},
};
#define KIND_COUNT (sizeof(kinds) / sizeof(kinds[0]))

static bool is_number(Oid type)
{
    return type == PG_INT2 || type == PG_INT4 || type == PG_INT8;
}

Oid df_pg_element(const struct df_value *v, Oid target)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (kinds[i].type == v->type &&
            (target == 0 || target == kinds[i].element || (v->type == DF_INT && is_number(target))))
            return kinds[i].element;
    }
    return PG_TEXT;
}

bool df_pg_element_fits(const struct df_value *v, Oid element)
{
    if (v->null)
        return true;
    return df_pg_element(v, element) == element && (v->type != DF_BLOB || element == PG_BYTEA);
}

/* At least as much as v takes in an array of any type. */
static size_t room_in_array(const struct df_value *v)
{
    return VALUE_HEAD + (v->type == DF_BLOB && !v->null ? v->s.len : room_for(v));
}

size_t df_pg_piece(const struct df_value *values, size_t width, size_t row_count)
{
    size_t bytes = 0;
    size_t rows = 0;

    while (rows < row_count && rows < PIECE_ROWS) {
        for (size_t i = 0; i < width; i++)
            bytes += room_in_array(&values[rows * width + i]);
        if (rows > 0 && bytes > PIECE_BYTES)
            break;
        rows++;
    }
    return rows;
}

static char *put_int32(char *at, uint32_t n)
{
    n = htobe32(n);
    memcpy(at, &n, sizeof(n));
    return at + sizeof(n);
}

static size_t put_int64(char *at, int64_t n)
{
    uint64_t big = htobe64((uint64_t)n);
    memcpy(at, &big, sizeof(big));
    return sizeof(big);
}

static size_t put_uuid(char *at, struct df_str s)
{
    struct df_uuid uuid;
    size_t len = 0;

    bool ok = df_uuid_parse(s, &uuid);
    assert(ok); /* db.c has looked */
    for (const char *c = uuid.text; ok && *c; c += *c == '-' ? 1 : 2) {
        if (*c != '-')
            at[len++] = (char)((unsigned)df_hex_digit(c[0]) << 4 | (unsigned)df_hex_digit(c[1]));
    }
    return len;
}

/* Writes v, which is no NULL, as a value of this type and returns its length. */
static size_t put_element(char *at, const struct df_value *v, Oid element)
{
    switch (element) {
    case PG_INT8:
        return put_int64(at, v->i);
    case PG_TIMESTAMPTZ:
        return put_int64(at, (v->i - EPOCH_2000_MS) * 1000);
    case PG_BOOL:
        *at = v->i != 0;
        return 1;
    case PG_UUID:
        return put_uuid(at, v->s);
    case PG_BYTEA:
        if (v->s.len > 0)
            memcpy(at, v->s.ptr, v->s.len);
        return v->s.len;
    default:
        return put_value(at, v);
    }
}

/* Writes the values of one parameter, which are `width` apart, and returns where they end. */
static char *put_array(char *at, Oid element, const struct df_value *values, size_t width,
                       size_t row_count)
{
    uint32_t nulls = 0;
    for (size_t row = 0; row < row_count; row++)
        nulls |= values[row * width].null;
    at = put_int32(at, 1); /* dimensions */
    at = put_int32(at, nulls);
    at = put_int32(at, element);
    at = put_int32(at, (uint32_t)row_count);
    at = put_int32(at, 1); /* the first index */
    for (size_t row = 0; row < row_count; row++) {
        const struct df_value *v = &values[row * width];
        size_t len = v->null ? 0 : put_element(at + VALUE_HEAD, v, element);
        at = put_int32(at, v->null ? UINT32_MAX : (uint32_t)len) + len;
    }
    return at;
}

static Oid array_of(Oid element)
{
    for (size_t i = 0; i < KIND_COUNT; i++) {
        if (kinds[i].element == element)
            return kinds[i].array;
    }
    return 0;
}

void df_pg_params_arrays(struct pg_params *p, const Oid *elements, const struct df_value *values,
                         size_t width, size_t row_count)
{
    size_t room = width * ARRAY_HEAD;
    for (size_t i = 0; i < width * row_count; i++)
        room += room_in_array(&values[i]);
    reserve_params(p, width, room);

    char *at = p->text;
    for (size_t i = 0; i < width; i++) {
        char *end = put_array(at, elements[i], values + i, width, row_count);
        p->types[i] = array_of(elements[i]);
        p->formats[i] = 1;
        p->values[i] = at;
        p->lengths[i] = (int)(end - at);
        at = end;
    }
    p->bytes = 64 + (size_t)(at - p->text);
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
