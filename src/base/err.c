#include "base/err.h"

#include "base/str.h"

#include <errno.h>
#include <stdio.h>

struct row {
    const char *name;
    const char *title;
    unsigned http;
    enum df_retry retry;
    const char *outside;
};

static const struct row rows[] = {
#define X(sym, code, http, retry, title, outside)                                                  \
    [sym] = {code, title, http, DF_RETRY_##retry, outside},
    DF_ERRORS(X)
#undef X
};

static const struct row *row_of(enum df_code code)
{
    return &rows[(unsigned)code < DF_CODE_COUNT ? code : DF_E_INTERNAL];
}

const char *df_code_name(enum df_code code)
{
    return row_of(code)->name;
}

const char *df_code_title(enum df_code code)
{
    return row_of(code)->title;
}

unsigned df_code_http(enum df_code code)
{
    return row_of(code)->http;
}

enum df_retry df_code_retry(enum df_code code)
{
    return row_of(code)->retry;
}

const char *df_code_outside(enum df_code code)
{
    return row_of(code)->outside;
}

const char *df_err_outside(const struct df_err *err)
{
    const char *fixed = df_code_outside(err->code);
    return fixed ? fixed : err->detail;
}

/* Removes the newlines that end libraries' messages, and half a character that ends a cut text. */
static void tidy_detail(char *detail)
{
    size_t len = strlen(detail);
    while (len > 0 && (unsigned char)detail[len - 1] <= ' ')
        len--;
    detail[len] = '\0';
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)detail[i] < ' ' || detail[i] == 0x7F)
            detail[i] = ' ';
    }
    for (size_t at; (at = df_utf8_valid_prefix(df_str_n(detail, len))) < len;) {
        if (len - at < 4 && len >= sizeof(((struct df_err *)0)->detail) - 1) {
            detail[at] = '\0';
            return;
        }
        detail[at] = '?';
    }
}

enum df_code df_err_vset(struct df_err *err, enum df_code code, const char *fmt, va_list ap)
{
    if (!err)
        return code;
    /* Formats into a copy, so that err->detail itself may be among the arguments. */
    char detail[sizeof(err->detail)];
    if (vsnprintf(detail, sizeof(detail), fmt, ap) < 0)
        detail[0] = '\0';
    tidy_detail(detail);
    err->code = code;
    err->offset = -1;
    memcpy(err->detail, detail, sizeof(detail));
    return code;
}

enum df_code df_err_set(struct df_err *err, enum df_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    df_err_vset(err, code, fmt, ap);
    va_end(ap);
    return code;
}

enum df_code df_err_at(struct df_err *err, enum df_code code, int64_t offset, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    df_err_vset(err, code, fmt, ap);
    va_end(ap);
    if (err)
        err->offset = offset;
    return code;
}

enum df_code df_err_errno(struct df_err *err, const char *fmt, ...)
{
    int saved = errno;
    char reason[128];
    char what[sizeof(err->detail)];

    va_list ap;
    va_start(ap, fmt);
    if (vsnprintf(what, sizeof(what), fmt, ap) < 0)
        what[0] = '\0';
    va_end(ap);
    const char *text = strerror_r(saved, reason, sizeof(reason));
    /* `what` may hold a long path; the reason must still fit. */
    size_t room = sizeof(what) - 3 - strlen(text);
    enum df_code code = saved == ENOSPC || saved == EDQUOT ? DF_E_DISK_FULL : DF_E_IO;
    return df_err_set(err, code, "%.*s: %s", (int)room, what, text);
}
