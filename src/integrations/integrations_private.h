/*
 * What the files of this room share.
 *
 *   integrations.c  the room as a whole; calls that wait for their next attempt
 *   call.c          a call from the request to the answer
 *   keep.c          calls that are stored for later, and their channel
 *   rules.c         header rules and the settings as a whole
 *   target.c        which path and query are passed on
 *   judge.c         what follows an attempt
 */
#ifndef DF_INTEGRATIONS_PRIVATE_H
#define DF_INTEGRATIONS_PRIVATE_H

#include "access/handler.h"
#include "base/map.h"
#include "base/metrics.h"
#include "base/timer.h"
#include "base/uuid.h"
#include "integrations/calls.sql.h"
#include "integrations/integrations.h"
#include "net/router.h"
#include "privacy/subjects.h"
#include "store/store.h"

/* --- rules.c ---------------------------------------------------------------------------------- */

#define INTEGRATION_NAMES_MAX 64

/* Names and values are slices of the settings. */
struct integration_rules {
    struct df_str forwarded[INTEGRATION_NAMES_MAX];
    size_t forwarded_count;
    struct df_call_header fixed[INTEGRATION_NAMES_MAX + 1]; /* set_headers, then the API key */
    size_t fixed_count;
    struct df_str returned[INTEGRATION_NAMES_MAX];
    size_t returned_count;
};

/* Rules that do not parse are left out and reported in *complaints, which may be NULL. */
void integration_rules_read(const struct df_integration_settings *s, struct integration_rules *ret,
                            struct df_buf *complaints);
bool integration_rules_forward(const struct integration_rules *r, struct df_str name);
bool integration_rules_return(const struct integration_rules *r, struct df_str name);

/* --- target.c --------------------------------------------------------------------------------- */

/*
 * The part of a request's raw path behind the name: "" or "/…". A path in which a peer might find a
 * dot segment, however encoded, is refused: it would lead out of base_url.
 */
enum df_code integration_path(struct df_str raw_path, struct df_str *ret,
                              struct df_err *err) DF_MUST_CHECK;

/* The query without onUnavailable, which sets *ret_keep; absent: nothing is left. */
enum df_code integration_query(struct df_arena *a, struct df_str raw_query, struct df_str *ret,
                               bool *ret_keep, struct df_err *err) DF_MUST_CHECK;

/* Path and query as part of a URL: characters that must be encoded and are not get encoded. */
struct df_str integration_suffix(struct df_arena *a, struct df_str path, struct df_str query);

/* base_url with a suffix behind it. */
enum df_code integration_url(struct df_arena *a, const char *base_url, struct df_str suffix,
                             const char **ret, struct df_err *err) DF_MUST_CHECK;

/* --- judge.c ---------------------------------------------------------------------------------- */

/* A longer Retry-After is not waited for: the caller's connection is not held open for that. */
#define INTEGRATION_WAIT_MAX_MS 10000

enum integration_next {
    INTEGRATION_PASS_BACK,
    INTEGRATION_RETRY,
    INTEGRATION_GIVE_UP,
};

struct integration_verdict {
    enum integration_next next;
    int64_t wait_ms; /* RETRY */
    bool maybe_done; /* the call may have been done, and must not be done twice */
};

/* GET, HEAD, PUT, DELETE, OPTIONS, and any call with a key are safe to repeat. */
bool integration_is_safe(enum df_method method, struct df_str idempotency_key);

/* attempt: from 1; safe: to repeat. */
struct integration_verdict integration_judge(const struct df_integration_settings *s,
                                             const struct df_out *out, int64_t attempt, bool safe);

/* --- the room --------------------------------------------------------------------------------- */

/* How a call ended: the metric's label. */
enum integration_outcome {
    INTEGRATION_SUCCESS,       /* 2xx and 3xx */
    INTEGRATION_CLIENT_ERROR,  /* 4xx passed back */
    INTEGRATION_UNAVAILABLE,   /* 503 */
    INTEGRATION_NOT_PERMITTED, /* 503: the breaker is open */
    INTEGRATION_ENQUEUED,      /* 202 */
    INTEGRATION_ERROR,         /* the answer was too large, the call could not be made or kept */
    INTEGRATION_ABANDONED,     /* the caller left between two attempts */
    INTEGRATION_OUTCOMES
};

struct integration {
    const struct df_integration_settings *set;
    struct df_str name;
    struct integration_rules rules;
    struct df_str breaker_key; /* "integration:NAME" */
    char *breaker_key_text;
    struct df_metric *calls[INTEGRATION_OUTCOMES];
    struct df_metric *duration;
    struct df_metric *retries;
};

/* A client with calls in hand. */
struct integration_caller {
    struct df_uuid id;
    int64_t calls;
};

struct df_integrations {
    struct df_integrations_options opt;
    struct integration *items;
    size_t count;
    struct df_channel channel;

    struct df_timer *timer; /* for calls that wait; NULL: there are no integrations */
    struct df_mutex lock;
    struct df_map callers DF_GUARDED_BY(lock);
};

/* NULL: there is none of that name. */
struct integration *integration_find(const struct df_integrations *all, struct df_str name);

/* Counts one more call of the client; false: the client already has its share. */
bool integrations_begin(struct df_integrations *all, const struct df_uuid *client);
void integrations_end(struct df_integrations *all, const struct df_uuid *client);

/* --- call.c ----------------------------------------------------------------------------------- */

/*
 * A call on its way. It lives in the request's arena. One thread at a time holds it: the HTTP
 * server's, then the client's or the timer's, at last perhaps the store's.
 */
struct integration_call {
    struct df_work w;
    struct df_integrations *all;
    struct integration *to;

    const char *method;
    const char *url;
    struct df_str suffix; /* of the URL, behind base_url */
    struct df_headers headers;
    size_t forwarded_count; /* the first of the headers, which come from the request */
    struct df_str key;      /* Idempotency-Key as it is passed on; absent: none */
    bool safe;
    bool keep; /* onUnavailable=enqueue */
    struct df_uuid client;
    bool counted; /* among the client's calls in hand */

    int64_t started_ns; /* 0: it was refused before it began */
    int64_t attempt;
    size_t taken_before; /* of the request's account before the first answer */
    struct df_out out;

    struct df_timer_item waits; /* for its next attempt */

    /* How it ended, and why it was given up. */
    enum integration_outcome outcome;
    struct df_str reason;
    int64_t retry_ms;
    bool maybe_done;

    struct df_uuid id; /* of a kept call */
    struct df_p_integration_call_insert params;
    struct df_subjects people; /* whom a call that is kept names */
};

/* Makes the next attempt. */
void integration_call_again(struct integration_call *c);
/* Gives the call up, since the server stops. */
void integration_call_stopped(struct integration_call *c);

/* Calls integration_call_again after wait_ms; false: the server stops. */
bool integration_wait(struct integration_call *c, int64_t wait_ms);

/* The handler's cleanup: counts the call. */
void integration_call_count(struct df_work *w);
/* Sets the answer: 503 with the integration's code. */
void integration_call_refuse(struct integration_call *c, const char *because);

/* --- keep.c ----------------------------------------------------------------------------------- */

#define INTEGRATION_KEY_MAX 255

/* Checks whether the call could be kept, as far as the request decides that. */
enum df_code integration_keep_check(const struct integration_call *c,
                                    struct df_err *err) DF_MUST_CHECK;
/* Stores the call and answers 202. */
void integration_keep(struct integration_call *c);
void integration_channel_init(struct df_integrations *all);

#endif
