/*
 * Structured log: one JSON object a line on standard error, written with a single write(2) so that
 * lines of threads and processes never mix. On a terminal, or with log.format=text, the lines are
 * plain text. Never log payloads, secrets, phone numbers or tax numbers: log identifiers.
 *
 * The context (correlationId, traceId, clientId, ip, …) is a list of fields that a thread uses
 * while it works on something; every line written meanwhile contains them. A request owns its
 * context and passes it to the thread that works on it next.
 *
 *     df_log_info("ServerStarted", "listening on %s", addr);
 */
#ifndef DF_BASE_LOG_H
#define DF_BASE_LOG_H

#include "base/clock.h"
#include "base/str.h"

enum df_log_level { DF_LOG_DEBUG, DF_LOG_INFO, DF_LOG_WARN, DF_LOG_ERROR };
enum df_log_format { DF_LOG_AUTO, DF_LOG_JSON, DF_LOG_TEXT };

struct df_log_field {
    const char *name;
    struct df_str text; /* absent: `number` counts */
    double number;
    bool is_text; /* then a field with an absent text is left out */
};

#define DF_F(n, s)                                                                                 \
    {                                                                                              \
        .name = (n), .text = (s), .is_text = true                                                  \
    } /* s: struct df_str */
#define DF_FI(n, v)                                                                                \
    {                                                                                              \
        .name = (n), .number = (double)(v)                                                         \
    }

#define DF_LOG_CTX_MAX 8

struct df_log_ctx {
    struct df_log_field fields[DF_LOG_CTX_MAX];
    size_t count;
};

void df_log_init(enum df_log_level level, enum df_log_format format, const struct df_clock *clock);
bool df_log_enabled(enum df_log_level level);

/* Makes ctx (NULL: none) the calling thread's context and returns the one before it. Borrowed. */
const struct df_log_ctx *df_log_ctx_use(const struct df_log_ctx *ctx);

/*
 * Sets or replaces a field; an absent text leaves it out. The text is borrowed for as long as the
 * context lives. A name past DF_LOG_CTX_MAX is ignored.
 */
void df_log_ctx_set(struct df_log_ctx *ctx, const char *name, struct df_str text);

/* event: PascalCase, constant. message: a sentence for people, may be empty. */
void df_log_write(enum df_log_level level, const char *event, const struct df_log_field *fields,
                  size_t field_count, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#define df_log_debug(event, ...) df_log_write(DF_LOG_DEBUG, event, NULL, 0, __VA_ARGS__)
#define df_log_info(event, ...)  df_log_write(DF_LOG_INFO, event, NULL, 0, __VA_ARGS__)
#define df_log_warn(event, ...)  df_log_write(DF_LOG_WARN, event, NULL, 0, __VA_ARGS__)
#define df_log_error(event, ...) df_log_write(DF_LOG_ERROR, event, NULL, 0, __VA_ARGS__)

/*
 * Hands a copy of every line that is written, in its JSON form and without the line break, to `fn`,
 * whatever form standard error has. `fn` is called on the thread that logs, perhaps under its
 * locks: it may not block, nor log. There is one at a time; fn NULL ends it: when the function
 * returns, `fn` does not run and will not run again. Not to be called from `fn`.
 */
typedef void df_log_tee_fn(void *arg, enum df_log_level level, int64_t wall_ms, struct df_str line);
void df_log_tee(df_log_tee_fn *fn, void *arg);

/*
 * From now on, text that libraries print to `stderr` is logged as LibraryMessage; text written to
 * the descriptor (by a sanitizer, or by glibc about a broken heap) stays as it is. Call it while
 * there is only one thread. df_log_return_stderr undoes it.
 */
void df_log_adopt_stderr(void);
void df_log_return_stderr(void);

#endif
