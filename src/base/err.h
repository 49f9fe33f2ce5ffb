/*
 * Every error the program can report, in one table: its stable code (PascalCase, part of the API),
 * the HTTP status it answers with, whether trying again can help, and the title of the problem
 * document. API and retry logic read the same row and so cannot disagree.
 *
 * The last column says who may read err->detail. NULL: the detail is written for the caller. A
 * text: the detail is written for the operator and may name files, hosts, statements or a library's
 * message. It goes to the log, and outsiders get the text instead (df_err_outside). So a code never
 * serves both: a detail for the caller needs a code without a text.
 *
 * Functions return enum df_code and fill a struct df_err with the message. DF_OK is 0; DF_ROW and
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
    DF_RETRY_LATER, /* may succeed later: back off and repeat */
    DF_RETRY_NOW,   /* a conflict (deadlock, serialization): repeat at once */
};

/* clang-format off */
#define DF_SERVER_FAILED "The server failed; its log has the reason under the correlation id."
/*    symbol                  code                     HTTP  retry  title                             for outsiders */
#define DF_ERRORS(X) \
    X(DF_OK,                  "Ok",                   200, NEVER, "OK",                             NULL) \
    X(DF_ROW,                 "Row",                  200, NEVER, "Row",                            NULL) \
    X(DF_DONE,                "Done",                 200, NEVER, "Done",                           NULL) \
    X(DF_E_INTERNAL,          "InternalError",        500, NEVER, "Internal error",                 DF_SERVER_FAILED) \
    X(DF_E_USAGE,             "WrongUsage",           500, NEVER, "Wrong usage",                    DF_SERVER_FAILED) \
    X(DF_E_CONFIG,            "InvalidConfiguration", 500, NEVER, "Invalid configuration",          DF_SERVER_FAILED) \
    X(DF_E_IO,                "InputOutputError",     500, LATER, "Input or output failed",         DF_SERVER_FAILED) \
    X(DF_E_BAD_REQUEST,       "BadRequest",           400, NEVER, "Bad request",                    NULL) \
    X(DF_E_MALFORMED_JSON,    "MalformedJson",        400, NEVER, "Malformed JSON",                 NULL) \
    X(DF_E_INVALID_TEXT,      "InvalidText",          400, NEVER, "Invalid text",                   NULL) \
    X(DF_E_DUPLICATE_KEY,     "DuplicateKey",         400, NEVER, "Duplicate key in an object",     NULL) \
    X(DF_E_TOO_DEEP,          "TooDeep",              400, NEVER, "Nested too deeply",              NULL) \
    X(DF_E_VALIDATION,        "ValidationFailed",     400, NEVER, "Validation failed",              NULL) \
    X(DF_E_SUBJECT_AMBIGUOUS, "SubjectAmbiguous",     400, NEVER, "Ambiguous subject",              NULL) \
    X(DF_E_UNAUTHORIZED,      "Unauthorized",         401, NEVER, "Unauthorized",                   NULL) \
    X(DF_E_CLIENT_SUSPENDED,  "ClientSuspended",      403, NEVER, "Client suspended",               NULL) \
    X(DF_E_SCOPE_MISSING,     "ScopeMissing",         403, NEVER, "Scope missing",                  NULL) \
    X(DF_E_ROLE_MISSING,      "RoleMissing",          403, NEVER, "Role missing",                   NULL) \
    X(DF_E_FORBIDDEN,         "Forbidden",            403, NEVER, "Forbidden",                      NULL) \
    X(DF_E_CERTIFICATE_WANTED, "ClientCertificateWanted", 403, NEVER, "Client certificate wanted", NULL) \
    X(DF_E_NOT_FOUND,         "NotFound",             404, NEVER, "Not found",                      NULL) \
    X(DF_E_METHOD,            "MethodNotAllowed",     405, NEVER, "Method not allowed",             NULL) \
    X(DF_E_TIMEOUT,           "RequestTimeout",       408, LATER, "Request timeout",                NULL) \
    X(DF_E_CONFLICT,          "Conflict",             409, NEVER, "Conflict",                       NULL) \
    X(DF_E_ANOTHER_CLIENT,    "DocumentOfAnotherClient", 409, NEVER, "Document of another client",  NULL) \
    X(DF_E_EXISTS,            "AlreadyExists",        409, NEVER, "Already exists",                 NULL) \
    X(DF_E_MAX_FILE_SIZE,     "MaxFileSizeMb",        409, NEVER, "File too large for the client",  NULL) \
    X(DF_E_MAX_BATCH_PER_DAY, "MaxBatchPerDay",       409, NEVER, "Too many batches today",         NULL) \
    X(DF_E_TEMP_STORAGE_QUOTA, "TempStorageQuotaMb",  409, NEVER, "Temporary storage full",         NULL) \
    X(DF_E_ERASED,            "PayloadErased",        410, NEVER, "Payload erased",                 NULL) \
    X(DF_E_PAYLOAD_EXPIRED,   "PayloadExpired",       410, NEVER, "Payload expired",                NULL) \
    X(DF_E_PRECONDITION,      "PreconditionFailed",   412, NEVER, "Precondition failed",            NULL) \
    X(DF_E_TOO_LARGE,         "PayloadTooLarge",      413, NEVER, "Payload too large",              NULL) \
    X(DF_E_URI_TOO_LONG,      "UriTooLong",           414, NEVER, "URI too long",                   NULL) \
    X(DF_E_MEDIA_TYPE,        "UnsupportedMediaType", 415, NEVER, "Unsupported media type",         NULL) \
    X(DF_E_IDEMPOTENCY,       "IdempotencyKeyReused", 422, NEVER, "Idempotency key reused",         NULL) \
    X(DF_E_NO_PRECONDITION,   "PreconditionRequired", 428, NEVER, "Precondition required",          NULL) \
    X(DF_E_TOO_MANY,          "TooManyRequests",      429, LATER, "Too many requests",              NULL) \
    X(DF_E_CONCURRENT_UPLOADS, "ConcurrentUploads",   429, LATER, "Too many uploads at a time",     NULL) \
    X(DF_E_HEADERS_TOO_LARGE, "HeadersTooLarge",      431, NEVER, "Header fields too large",        NULL) \
    X(DF_E_NOT_IMPLEMENTED,   "NotImplemented",       501, NEVER, "Not implemented",                NULL) \
    X(DF_E_UNAVAILABLE,       "ServiceUnavailable",   503, LATER, "Service unavailable",            NULL) \
    X(DF_E_BUSY,              "Busy",                 503, LATER, "Busy",                           NULL) \
    X(DF_E_MAINTENANCE_WINDOW, "MaintenanceWindow",   503, LATER, "Maintenance",                    NULL) \
    X(DF_E_DRAINING,          "ShuttingDown",         503, LATER, "Shutting down",                  NULL) \
    X(DF_E_DISK_FULL,         "DiskFull",             503, LATER, "Disk full",                      "There is no room on the server's disk.") \
    X(DF_E_DB_UNAVAILABLE,    "DatabaseUnavailable",  503, LATER, "Database unavailable",           "The database is not available for now.") \
    X(DF_E_DB_CONFLICT,       "DatabaseConflict",     503, NOW,   "Database conflict",              "Another call is writing the same. Send it again.") \
    X(DF_E_DB_TIMEOUT,        "DatabaseTimeout",      503, LATER, "Database timeout",               "The database did not answer in time.") \
    X(DF_E_SCHEMA,            "SchemaNotCurrent",     503, LATER, "Schema not current",             "The database's schema is not current.") \
    X(DF_E_DB_UNIQUE,         "KeyExists",            409, NEVER, "Key exists",                     "It exists already.") \
    X(DF_E_DB_CONSTRAINT,     "ConstraintViolated",   400, NEVER, "Constraint violated",            "A value breaks a rule of the database.") \
    X(DF_E_DB,                "DatabaseError",        500, NEVER, "Database error",                 DF_SERVER_FAILED) \
    X(DF_E_NET_RESOLVE,       "NameNotResolved",      502, LATER, "Name not resolved",              "The name of a system that is needed was not found.") \
    X(DF_E_NET_CONNECT,       "ConnectionFailed",     502, LATER, "Connection failed",              "A system that is needed cannot be reached.") \
    X(DF_E_NET_TLS,           "TlsFailed",            502, LATER, "TLS failed",                     "A system that is needed cannot be trusted.") \
    X(DF_E_NET_TIMEOUT,       "UpstreamTimeout",      504, LATER, "Upstream timeout",               "A system that is needed did not answer in time.") \
    X(DF_E_NET,               "NetworkError",         502, LATER, "Network error",                  "The connection to a system that is needed failed.") \
    X(DF_E_ANSWER_TOO_LARGE,  "AnswerTooLarge",       502, NEVER, "Answer too large",               NULL) \
    X(DF_E_TARGET_REFUSED,    "TargetNotAllowed",     400, NEVER, "Target not allowed",             NULL) \
    X(DF_E_CANCELLED,         "Cancelled",            499, LATER, "Cancelled",                      NULL)
/* clang-format on */

enum df_code {
#define X(sym, code, http, retry, title, outside) sym,
    DF_ERRORS(X)
#undef X
        DF_CODE_COUNT
};

#define DF_MUST_CHECK __attribute__((warn_unused_result))

struct df_err {
    enum df_code code;
    int64_t offset;   /* byte offset in the input, or -1 */
    char detail[480]; /* one line for a person, never with a secret or a payload; see above for its
                         readers */
};

#define DF_ERR_INIT ((struct df_err){.code = DF_OK, .offset = -1})

const char *df_code_name(enum df_code code);
const char *df_code_title(enum df_code code);
unsigned df_code_http(enum df_code code);
enum df_retry df_code_retry(enum df_code code);

/* The text for outsiders in place of the detail; NULL: the detail is for them. */
const char *df_code_outside(enum df_code code);
/* The text of an error for outsiders: its detail, or the table's text for it. */
const char *df_err_outside(const struct df_err *err);

/* Fill err (NULL is allowed) and return the code, so that a caller can `return df_err_set(...)`. */
enum df_code df_err_set(struct df_err *err, enum df_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
enum df_code df_err_vset(struct df_err *err, enum df_code code, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));
enum df_code df_err_at(struct df_err *err, enum df_code code, int64_t offset, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Uses errno: "what: No such file or directory". DF_E_DISK_FULL when there is no room, else
 * DF_E_IO. */
enum df_code df_err_errno(struct df_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
