/*
 * A line is built on the stack and written at once; nothing is allocated and no lock is taken.
 * Whatever the texts contain, a line is valid JSON in valid UTF-8 without a line break: control
 * characters are escaped, bytes that are not UTF-8 become U+FFFD. Long texts are cut, with an
 * ellipsis; fields that do not fit are left out, and "truncated" says so. Numbers and addresses of
 * people are masked.
 */
#include "base/log.h"

#include "base/escape.h"
#include "base/personal.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LINE_MAX_BYTES    PIPE_BUF /* what a pipe takes in one piece, even with several writers */
#define MESSAGE_MAX_BYTES 2048     /* escaped */
#define FIELD_MAX_BYTES   1024     /* escaped */
#define NUMBER_BYTES      64 /* read beyond what is shown, so that a number at the end is whole */
#define TAIL              ",\"truncated\":true}\n"

struct line {
    char text[LINE_MAX_BYTES];
    size_t len;
    bool full; /* something did not fit; text since the last mark is void */
};

static _Atomic int min_level = DF_LOG_INFO;
static _Atomic int line_format = DF_LOG_JSON;
static _Atomic bool coloured;
static const struct df_clock *_Atomic log_clock;
static _Thread_local const struct df_log_ctx *context;

void df_log_init(enum df_log_level level, enum df_log_format format, const struct df_clock *clock)
{
    bool terminal = isatty(STDERR_FILENO) == 1;
    if (format == DF_LOG_AUTO)
        format = terminal ? DF_LOG_TEXT : DF_LOG_JSON;
    const char *no_color = secure_getenv("NO_COLOR");
    coloured = terminal && (!no_color || !*no_color);
    line_format = (int)format;
    log_clock = clock;
    min_level = (int)level;
}

bool df_log_enabled(enum df_log_level level)
{
    return (int)level >= min_level;
}

const struct df_log_ctx *df_log_ctx_use(const struct df_log_ctx *ctx)
{
    const struct df_log_ctx *before = context;
    context = ctx;
    return before;
}

void df_log_ctx_set(struct df_log_ctx *ctx, const char *name, struct df_str text)
{
    size_t i = 0;
    while (i < ctx->count && strcmp(ctx->fields[i].name, name) != 0)
        i++;
    if (i == DF_LOG_CTX_MAX)
        return;
    ctx->fields[i] = (struct df_log_field)DF_F(name, text);
    if (i == ctx->count)
        ctx->count++;
}

/* --- the line --------------------------------------------------------------------------------- */

/* Always leaves room for the tail, so that a line can be closed. */
static void put_bytes(struct line *l, const char *ptr, size_t len)
{
    if (l->full || len > sizeof(l->text) - sizeof(TAIL) - l->len) {
        l->full = true;
        return;
    }
    memcpy(l->text + l->len, ptr, len);
    l->len += len;
}

static void put_text(struct line *l, const char *s)
{
    put_bytes(l, s, strlen(s));
}

/* The inside of a JSON string; at most max_bytes are written, the ellipsis included. */
static void put_escaped(struct line *l, struct df_str s, size_t max_bytes)
{
    static const char ellipsis[] = "\xE2\x80\xA6";
    size_t left = sizeof(l->text) - sizeof(TAIL) - l->len;
    size_t room = max_bytes - (sizeof(ellipsis) - 1);
    char *to = l->text + l->len;

    if (l->full)
        return;
    l->len =
        (size_t)(df_escape(to, to + (room < left ? room : left), &s, DF_ESCAPE_LINE) - l->text);
    if (s.len > 0 && room < left)
        put_text(l, ellipsis);
    else if (s.len > 0)
        l->full = true;
}

static void put_masked(struct line *l, struct df_str s)
{
    char text[FIELD_MAX_BYTES + NUMBER_BYTES];

    if (s.len > sizeof(text))
        s.len = sizeof(text);
    if (s.len > 0)
        memcpy(text, s.ptr, s.len);
    df_mask_in_place(text, s.len);
    put_escaped(l, df_str_n(text, s.len), FIELD_MAX_BYTES);
}

static void put_number(struct line *l, double v)
{
    char text[40];
    if (!isfinite(v)) {
        put_text(l, "null");
        return;
    }
    if (fabs(v) < 1e15 && v == trunc(v)) {
        snprintf(text, sizeof(text), "%lld", (long long)v);
    } else {
        /* Fifteen digits show 0.1 as 0.1; where they are not exact, seventeen are. */
        snprintf(text, sizeof(text), "%.15g", v);
        if (strtod(text, NULL) != v)
            snprintf(text, sizeof(text), "%.17g", v);
    }
    put_text(l, text);
}

/* --- fields ----------------------------------------------------------------------------------- */

struct fields {
    const struct df_log_field *items;
    size_t count;
};

static bool is_left_out(const struct df_log_field *f)
{
    return f->is_text && !f->text.ptr;
}

static bool has_name(struct fields fs, size_t from, const char *name)
{
    for (size_t i = from; i < fs.count; i++) {
        if (!is_left_out(&fs.items[i]) && strcmp(fs.items[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Calls write_field for every field that counts: the line's own fields win over the context's,
 * later ones over earlier ones. */
static void each_field(struct line *l, struct fields own,
                       void (*write_field)(struct line *l, const struct df_log_field *f))
{
    struct fields ctx = {NULL, 0};
    bool left_out = false;

    if (context)
        ctx = (struct fields){context->fields, context->count};
    for (size_t i = 0; i < ctx.count + own.count; i++) {
        bool is_own = i >= ctx.count;
        const struct df_log_field *f = is_own ? &own.items[i - ctx.count] : &ctx.items[i];
        if (is_left_out(f) || has_name(own, is_own ? i - ctx.count + 1 : 0, f->name))
            continue;
        size_t mark = l->len;
        write_field(l, f);
        if (l->full) {
            l->len = mark;
            l->full = false;
            left_out = true;
        }
    }
    l->full = left_out;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void json_field(struct line *l, const struct df_log_field *f)
{
    static const char *const taken[] = {"time", "level", "event", "message", "truncated"};

    put_bytes(l, ",\"", 2);
    put_escaped(l, df_str_c(f->name), FIELD_MAX_BYTES);
    for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
        if (strcmp(f->name, taken[i]) == 0)
            put_bytes(l, "_", 1);
    }
    put_bytes(l, "\":", 2);
    if (f->text.ptr) {
        put_bytes(l, "\"", 1);
        put_masked(l, f->text);
        put_bytes(l, "\"", 1);
    } else {
        put_number(l, f->number);
    }
}

static void json_line(struct line *l, const char *time, enum df_log_level level, const char *event,
                      struct df_str message, struct fields own)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};

    put_text(l, "{\"time\":\"");
    put_text(l, time);
    put_text(l, "\",\"level\":\"");
    put_text(l, names[level]);
    put_text(l, "\",\"event\":\"");
    put_escaped(l, df_str_c(event), FIELD_MAX_BYTES);
    put_text(l, "\",\"message\":\"");
    put_escaped(l, message, MESSAGE_MAX_BYTES);
    put_text(l, "\"");
    each_field(l, own, json_field);
    memcpy(l->text + l->len, TAIL, sizeof(TAIL));
    if (l->full) {
        l->len += sizeof(TAIL) - 1;
    } else {
        memcpy(l->text + l->len, "}\n", 2);
        l->len += 2;
    }
}

/* --- text ------------------------------------------------------------------------------------- */

static void put_colour(struct line *l, const char *code)
{
    if (coloured)
        put_text(l, code);
}

static bool needs_quotes(struct df_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if ((unsigned char)s.ptr[i] <= ' ' || s.ptr[i] == '"' || s.ptr[i] == '=')
            return true;
    }
    return s.len == 0;
}

static void text_field(struct line *l, const struct df_log_field *f)
{
    put_bytes(l, " ", 1);
    put_colour(l, "\033[2m");
    put_escaped(l, df_str_c(f->name), FIELD_MAX_BYTES);
    put_bytes(l, "=", 1);
    put_colour(l, "\033[0m");
    if (!f->text.ptr) {
        put_number(l, f->number);
        return;
    }
    const char *quote = needs_quotes(f->text) ? "\"" : "";
    put_text(l, quote);
    put_masked(l, f->text);
    put_text(l, quote);
}

static void text_line(struct line *l, const char *time, enum df_log_level level, const char *event,
                      struct df_str message, struct fields own)
{
    static const char *const names[] = {"DEBUG ", "INFO  ", "WARN  ", "ERROR "};
    static const char *const colours[] = {"\033[2m", "\033[32m", "\033[33m", "\033[31m"};

    put_bytes(l, time + 11, 12); /* the time of day, UTC */
    put_text(l, " ");
    put_colour(l, colours[level]);
    put_text(l, names[level]);
    put_colour(l, "\033[0;1m");
    put_escaped(l, df_str_c(event), FIELD_MAX_BYTES);
    put_colour(l, "\033[0m");
    if (message.len > 0) {
        put_text(l, " ");
        put_escaped(l, message, MESSAGE_MAX_BYTES);
    }
    each_field(l, own, text_field);
    l->text[l->len++] = '\n';
}

/* --- writing ---------------------------------------------------------------------------------- */

static ssize_t write_all(const char *text, size_t len)
{
    ssize_t written;
    do {
        written = write(STDERR_FILENO, text, len);
    } while (written < 0 && errno == EINTR);
    return written;
}

/*
 * A full disk may take only part of a line; the next line then begins on a new one. One thread ends
 * the torn line, and the others wait for that: two would leave an empty one.
 */
static void put_out(const struct line *l)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static _Atomic bool torn;

    if (torn) {
        (void)pthread_mutex_lock(&lock);
        if (torn && write_all("\n", 1) == 1)
            torn = false;
        (void)pthread_mutex_unlock(&lock);
    }
    ssize_t written = write_all(l->text, l->len);
    if (written > 0 && (size_t)written < l->len)
        torn = true;
}

/* --- the second reader ------------------------------------------------------------------------ */

static _Atomic(df_log_tee_fn *) tee;
static void *_Atomic tee_arg;
static _Atomic unsigned tee_calls; /* under way: who ends the tee waits for them */

void df_log_tee(df_log_tee_fn *fn, void *arg)
{
    tee = (df_log_tee_fn *)0;
    while (tee_calls > 0)
        (void)sched_yield();
    tee_arg = arg;
    tee = fn;
}

/* The count goes up before the function is read, so that it is not missed by who ends it. */
static void hand_to_tee(enum df_log_level level, int64_t wall_ms, const struct line *l)
{
    tee_calls++;
    df_log_tee_fn *fn = tee;
    if (fn)
        fn(tee_arg, level, wall_ms, df_str_n(l->text, l->len - 1));
    tee_calls--;
}

void df_log_write(enum df_log_level level, const char *event, const struct df_log_field *fields,
                  size_t field_count, const char *fmt, ...)
{
    if (!df_log_enabled(level))
        return;
    int saved_errno = errno;

    /* More than is shown, so that a cut is noticed and marked. */
    char message[MESSAGE_MAX_BYTES + NUMBER_BYTES];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(message, sizeof(message), fmt, ap);
    va_end(ap);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof(message) ? (size_t)n : sizeof(message) - 1;
    while (len > 0 && message[len - 1] == '\n')
        len--;
    df_mask_in_place(message, len);

    char time[DF_TIME_LEN + 1];
    const struct df_clock *clock = log_clock;
    int64_t wall_ms = df_wall_ms(clock ? clock : df_clock_real());
    df_time_format(wall_ms, time);

    struct line l;
    l.len = 0;
    l.full = false;
    struct fields own = {fields, field_count};
    bool is_text = line_format == DF_LOG_TEXT;
    if (is_text)
        text_line(&l, time, level, event, df_str_n(message, len), own);
    else
        json_line(&l, time, level, event, df_str_n(message, len), own);

    put_out(&l);
    bool teed = tee;
    if (teed && is_text) {
        l.len = 0;
        l.full = false;
        json_line(&l, time, level, event, df_str_n(message, len), own);
    }
    if (teed)
        hand_to_tee(level, wall_ms, &l);
    errno = saved_errno;
}

/* --- what libraries print --------------------------------------------------------------------- */

static FILE *adopted, *given;

static ssize_t log_lines(void *cookie, const char *text, size_t len)
{
    struct df_str line, rest = df_str_n(text, len);
    (void)cookie;

    while (rest.len > 0) {
        rest = df_str_cut(rest, '\n', &line);
        if (line.len > 0)
            df_log_warn("LibraryMessage", DF_STR_FMT, DF_STR_ARG(line));
    }
    return (ssize_t)len;
}

void df_log_adopt_stderr(void)
{
    if (!adopted)
        adopted = fopencookie(NULL, "w", (cookie_io_functions_t){.write = log_lines});
    if (!adopted || stderr == adopted)
        return;
    setvbuf(adopted, NULL, _IOLBF, BUFSIZ);
    given = stderr;
    stderr = adopted; /* glibc allows this */
}

void df_log_return_stderr(void)
{
    if (!given)
        return;
    (void)fflush(adopted); /* left open: a library's thread may still use it */
    stderr = given;
    given = NULL;
}
