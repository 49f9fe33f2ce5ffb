#include "base/buf.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST_CAP 128

void df_buf_init(struct df_buf *b, size_t max_bytes)
{
    /* One byte is for the NUL. */
    *b = (struct df_buf){.max = max_bytes < SIZE_MAX ? max_bytes : SIZE_MAX - 1};
}

void df_buf_release(struct df_buf *b)
{
    if (b->account)
        df_account_give(b->account, b->cap);
    free(b->ptr);
    *b = (struct df_buf){.max = b->max, .account = b->account};
}

void df_buf_reset(struct df_buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->ptr)
        b->ptr[0] = '\0';
}

static size_t next_cap(const struct df_buf *b, size_t need)
{
    size_t cap = b->cap > b->max / 2 ? b->max + 1 : b->cap * 2;

    if (cap < need)
        cap = need;
    if (cap < FIRST_CAP)
        cap = b->max < FIRST_CAP ? b->max + 1 : FIRST_CAP;
    return cap;
}

char *df_buf_grow(struct df_buf *b, size_t len)
{
    if (b->failed || len > b->max - b->len) {
        b->failed = true;
        return NULL;
    }
    size_t need = b->len + len + 1;
    if (need > b->cap) {
        size_t cap = next_cap(b, need);
        if (b->account && !df_account_take(b->account, cap - b->cap)) {
            b->failed = true;
            return NULL;
        }
        b->ptr = df_realloc(b->ptr, cap);
        b->cap = cap;
        b->ptr[b->len] = '\0';
    }
    return b->ptr + b->len;
}

void df_buf_grown(struct df_buf *b, size_t len)
{
    if (len == 0)
        return;
    if (b->len >= b->cap || len > b->cap - b->len - 1)
        abort();
    b->len += len;
    b->ptr[b->len] = '\0';
}

void df_buf_add(struct df_buf *b, const void *ptr, size_t len)
{
    if (len == 0)
        return;
    char *to = df_buf_grow(b, len);
    if (!to)
        return;
    memcpy(to, ptr, len);
    b->len += len;
    b->ptr[b->len] = '\0';
}

void df_buf_adds(struct df_buf *b, struct df_str s)
{
    df_buf_add(b, s.ptr, s.len);
}

void df_buf_addz(struct df_buf *b, const char *s)
{
    df_buf_add(b, s, strlen(s));
}

void df_buf_addc(struct df_buf *b, char c)
{
    df_buf_add(b, &c, 1);
}

void df_buf_addf(struct df_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    df_buf_vaddf(b, fmt, ap);
    va_end(ap);
}

void df_buf_vaddf(struct df_buf *b, const char *fmt, va_list ap)
{
    if (b->failed)
        return;

    va_list again;
    va_copy(again, ap);
    size_t room = b->cap - b->len;
    int n = vsnprintf(room ? b->ptr + b->len : NULL, room, fmt, ap);
    if (n < 0) {
        b->failed = true;
    } else if ((size_t)n < room) {
        b->len += (size_t)n;
    } else {
        /* The first attempt may have left a cut text past the end: remove it, or grow. */
        if (room)
            b->ptr[b->len] = '\0';
        char *to = df_buf_grow(b, (size_t)n);
        if (to) {
            (void)vsnprintf(to, (size_t)n + 1, fmt, again);
            b->len += (size_t)n;
        }
    }
    va_end(again);
}

void df_buf_add_i64(struct df_buf *b, int64_t v)
{
    char digits[20];
    char *p = digits + sizeof(digits);
    uint64_t u = v < 0 ? -(uint64_t)v : (uint64_t)v;

    do {
        *--p = (char)('0' + u % 10);
        u /= 10;
    } while (u > 0);
    if (v < 0)
        *--p = '-';
    df_buf_add(b, p, (size_t)(digits + sizeof(digits) - p));
}

char *df_buf_take(struct df_buf *b, size_t *ret_len)
{
    char *ptr = b->ptr ? b->ptr : df_calloc(1, 1);
    if (ret_len)
        *ret_len = b->len;
    *b = (struct df_buf){.max = b->max, .account = b->account};
    return ptr;
}
