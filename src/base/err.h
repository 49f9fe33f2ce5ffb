/*
 * Every error the program can report, in one table: its stable code (PascalCase, part of the API),
 * the HTTP status it answers with, whether trying again can help, and the title of the problem
 * document. API and retry logic read the same row and so cannot disagree.
 *
 * Functions return enum df_code and fill a struct df_err with the words. DF_OK is 0; DF_ROW and
 * DF_DONE are results of a step, not errors.
 */
#ifndef DF_BASE_ERR_H
#define DF_BASE_ERR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum df_retry {
    DF_RETRY_NEVER, /* the same call fails again */
    DF_RETRY_LATER, /* the world may be better later: back off and repeat */
    DF_RETRY_NOW,   /* a conflict between equals (deadlock, serialization): repeat at once */
};

/* clang-format off */
/*    symbol                  code                     HTTP  retry  title */
#define DF_ERRORS(X) \
    X(DF_OK,                  "Ok",                   200, NEVER, "OK") \
    X(DF_ROW,                 "Row",                  200, NEVER, "Row") \
    X(DF_DONE,                "Done",                 200, NEVER, "Done") \
    X(DF_E_INTERNAL,          "InternalError",        500, NEVER, "Internal error") \
    X(DF_E_USAGE,             "WrongUsage",           500, NEVER, "Wrong usage") \
    X(DF_E_CONFIG,            "InvalidConfiguration", 500, NEVER, "Invalid configuration") \
    X(DF_E_IO,                "InputOutputError",     500, LATER, "Input or output failed") \
    X(DF_E_BAD_REQUEST,       "BadRequest",           400, NEVER, "Bad request") \
    X(DF_E_MALFORMED_JSON,    "MalformedJson",        400, NEVER, "Malformed JSON") \
    X(DF_E_INVALID_TEXT,      "InvalidText",          400, NEVER, "Invalid text") \
    X(DF_E_DUPLICATE_KEY,     "DuplicateKey",         400, NEVER, "Duplicate key in an object") \
    X(DF_E_TOO_DEEP,          "TooDeep",              400, NEVER, "Nested too deeply") \
    X(DF_E_VALIDATION,        "ValidationFailed",     400, NEVER, "Validation failed") \
    X(DF_E_UNAUTHORIZED,      "Unauthorized",         401, NEVER, "Unauthorized") \
    X(DF_E_CLIENT_SUSPENDED,  "ClientSuspended",      403, NEVER, "Client suspended") \
    X(DF_E_SCOPE_MISSING,     "ScopeMissing",         403, NEVER, "Scope missing") \
    X(DF_E_FORBIDDEN,         "Forbidden",            403, NEVER, "Forbidden") \
    X(DF_E_NOT_FOUND,         "NotFound",             404, NEVER, "Not found") \
    X(DF_E_METHOD,            "MethodNotAllowed",     405, NEVER, "Method not allowed") \
    X(DF_E_TIMEOUT,           "RequestTimeout",       408, LATER, "Request timeout") \
    X(DF_E_CONFLICT,          "Conflict",             409, NEVER, "Conflict") \
    X(DF_E_MAX_FILE_SIZE,     "MaxFileSizeMb",        409, NEVER, "File too large for the client") \
    X(DF_E_MAX_BATCH_PER_DAY, "MaxBatchPerDay",       409, NEVER, "Too many batches today") \
    X(DF_E_TEMP_STORAGE_QUOTA, "TempStorageQuotaMb",  409, NEVER, "Temporary storage full") \
    X(DF_E_LENGTH_REQUIRED,   "LengthRequired",       411, NEVER, "Length required") \
    X(DF_E_TOO_LARGE,         "PayloadTooLarge",      413, NEVER, "Payload too large") \
    X(DF_E_URI_TOO_LONG,      "UriTooLong",           414, NEVER, "URI too long") \
    X(DF_E_MEDIA_TYPE,        "UnsupportedMediaType", 415, NEVER, "Unsupported media type") \
    X(DF_E_IDEMPOTENCY,       "IdempotencyKeyReused", 422, NEVER, "Idempotency key reused") \
    X(DF_E_TOO_MANY,          "TooManyRequests",      429, LATER, "Too many requests") \
    X(DF_E_CONCURRENT_UPLOADS, "ConcurrentUploads",   429, LATER, "Too many uploads at a time") \
    X(DF_E_HEADERS_TOO_LARGE, "HeadersTooLarge",      431, NEVER, "Header fields too large") \
    X(DF_E_NOT_IMPLEMENTED,   "NotImplemented",       501, NEVER, "Not implemented") \
    X(DF_E_UNAVAILABLE,       "ServiceUnavailable",   503, LATER, "Service unavailable") \
    X(DF_E_BUSY,              "Busy",                 503, LATER, "Busy") \
    X(DF_E_MAINTENANCE_WINDOW, "MaintenanceWindow",   503, LATER, "Maintenance") \
    X(DF_E_DRAINING,          "ShuttingDown",         503, LATER, "Shutting down") \
    X(DF_E_DB_UNAVAILABLE,    "DatabaseUnavailable",  503, LATER, "Database unavailable") \
    X(DF_E_DB_CONFLICT,       "DatabaseConflict",     503, NOW,   "Database conflict") \
    X(DF_E_DB_TIMEOUT,        "DatabaseTimeout",      503, LATER, "Database timeout") \
    X(DF_E_DB_UNIQUE,         "AlreadyExists",        409, NEVER, "Already exists") \
    X(DF_E_DB_CONSTRAINT,     "ConstraintViolated",   400, NEVER, "Constraint violated") \
    X(DF_E_DB,                "DatabaseError",        500, NEVER, "Database error") \
    X(DF_E_NET_RESOLVE,       "NameNotResolved",      502, LATER, "Name not resolved") \
    X(DF_E_NET_CONNECT,       "ConnectionFailed",     502, LATER, "Connection failed") \
    X(DF_E_NET_TLS,           "TlsFailed",            502, LATER, "TLS failed") \
    X(DF_E_NET_TIMEOUT,       "UpstreamTimeout",      504, LATER, "Upstream timeout") \
    X(DF_E_NET,               "NetworkError",         502, LATER, "Network error") \
    X(DF_E_ANSWER_TOO_LARGE,  "AnswerTooLarge",       502, NEVER, "Answer too large") \
    X(DF_E_TARGET_REFUSED,    "TargetNotAllowed",     400, NEVER, "Target not allowed") \
    X(DF_E_CANCELLED,         "Cancelled",            499, LATER, "Cancelled")
/* clang-format on */

enum df_code {
#define X(sym, code, http, retry, title) sym,
    DF_ERRORS(X)
#undef X
        DF_CODE_COUNT
};

#define DF_MUST_CHECK __attribute__((warn_unused_result))

struct df_err {
    enum df_code code;
    int64_t offset;   /* byte offset in the input, or -1 */
    char detail[480]; /* one line for a person; never a secret or a payload */
};

#define DF_ERR_INIT ((struct df_err){.code = DF_OK, .offset = -1})

const char *df_code_name(enum df_code code);
const char *df_code_title(enum df_code code);
unsigned df_code_http(enum df_code code);
enum df_retry df_code_retry(enum df_code code);

/* Fill err (NULL is allowed) and return the code, so that a caller can `return df_err_set(...)`. */
enum df_code df_err_set(struct df_err *err, enum df_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
enum df_code df_err_vset(struct df_err *err, enum df_code code, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));
enum df_code df_err_at(struct df_err *err, enum df_code code, int64_t offset, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Uses errno: "what: No such file or directory". */
enum df_code df_err_errno(struct df_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
