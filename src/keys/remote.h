/*
 * A call to a vault that holds the master key: one request, one answer, in the calling thread. It
 * is not the HTTP client of net/client.h, since keys are opened before that has threads, and by
 * commands that have none.
 *
 * net/security.h says whom it trusts and by which proxy it goes. Redirects are not followed. An
 * answer has at most DF_REMOTE_ANSWER_MAX bytes.
 */
#ifndef DF_KEYS_REMOTE_H
#define DF_KEYS_REMOTE_H

#include "base/buf.h"
#include "json/doc.h"

#define DF_REMOTE_ANSWER_MAX ((size_t)64 << 10)

struct df_remote_options {
    int64_t timeout_ms; /* of a call; 0: 10000 */
    /* Asked while a call waits: true ends it at once, with DF_E_CANCELLED. May be NULL. */
    bool (*stopped)(void);
};

#define DF_REMOTE_HEADERS 4

/* The caller fills the first part. Everything in it may be secret; nothing of it is logged. */
struct df_remote_call {
    const char *url;
    const char *content_type; /* of the body; NULL: GET */
    struct df_str body;
    bool direct; /* without the proxy, and in the clear: a service of this machine's host */
    struct {
        const char *name;
        struct df_str value; /* absent: not sent */
    } headers[DF_REMOTE_HEADERS];

    unsigned status;
    struct df_buf answer; /* df_remote_release() it */
};

/*
 * DF_OK: there is an answer, with any status. Else the reason, which names the destination and no
 * other part of the URL: DF_E_UNAVAILABLE (no connection, a certificate that is not trusted, too
 * slow, an answer that is too long), DF_E_CANCELLED, DF_E_CONFIG (the call cannot be made).
 */
enum df_code df_remote_send(const struct df_remote_options *opt, struct df_remote_call *call,
                            struct df_err *err) DF_MUST_CHECK;
/* How much is left of the time that the last Retry-After asked for, at most a minute. */
int64_t df_remote_asked_ms(void);
/* Wipes and frees the answer. */
void df_remote_release(struct df_remote_call *call);

/* The answer's JSON object. DF_E_UNAVAILABLE: it is none. */
enum df_code df_remote_json(const struct df_remote_call *call, struct df_arena *a,
                            const struct df_json **ret, struct df_err *err) DF_MUST_CHECK;
/* A text of it, by a path of member names ("data", "keys"), which ends with NULL; absent: there is
 * none. */
struct df_str df_remote_text(const struct df_json *object, const char *const *path);
/* Text of an answer that goes into a message: its visible ASCII characters, at most 200. */
struct df_str df_remote_quote(struct df_str text, struct df_arena *a);

#endif
