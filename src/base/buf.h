/*
 * Growing byte buffer with a mandatory maximum and a sticky error: once an append would exceed the
 * maximum, the buffer keeps its content, `failed` is set and every later append is ignored. Writers
 * append without checking and call df_buf_failed() once at the end.
 *
 * A buffer with an account (base/budget.h) charges it before growing, and fails as at its maximum
 * when refused. The charge is given back when the buffer is released; after df_buf_take it stays
 * with the account until that is closed. The account must outlive the buffer.
 *
 * The content is NUL-terminated for C APIs; the NUL is not counted. Owned by one thread at a time.
 * Running out of memory aborts: a maximum keeps peers from causing it.
 */
#ifndef DF_BASE_BUF_H
#define DF_BASE_BUF_H

#include "base/budget.h"
#include "base/str.h"

#include <stdarg.h>

struct df_buf {
    char *ptr;
    size_t len;
    size_t cap;
    size_t max;
    bool failed;
    struct df_account *account; /* NULL: nothing is charged */
};

void df_buf_init(struct df_buf *b, size_t max_bytes);
void df_buf_release(struct df_buf *b);

/* Forgets content and error, keeps the memory. */
void df_buf_reset(struct df_buf *b);

void df_buf_add(struct df_buf *b, const void *ptr, size_t len);
void df_buf_adds(struct df_buf *b, struct df_str s);
void df_buf_addz(struct df_buf *b, const char *s);
void df_buf_addc(struct df_buf *b, char c);
void df_buf_addf(struct df_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void df_buf_vaddf(struct df_buf *b, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));
void df_buf_add_i64(struct df_buf *b, int64_t v);

/* Makes room for len more bytes and returns where to write them, or NULL (and failed). Call
 * df_buf_grown() afterwards. */
char *df_buf_grow(struct df_buf *b, size_t len);
void df_buf_grown(struct df_buf *b, size_t len);

static inline bool df_buf_failed(const struct df_buf *b)
{
    return b->failed;
}

static inline struct df_str df_buf_str(const struct df_buf *b)
{
    return (struct df_str){b->ptr ? b->ptr : "", b->len};
}

/* Hands the malloc'ed content to the caller (never NULL) and leaves the buffer empty. ret_len may
 * be NULL. */
char *df_buf_take(struct df_buf *b, size_t *ret_len);

#endif
