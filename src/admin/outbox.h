/*
 * The operations behind /admin/outbox and `dataflow outbox`, for all channels of the delivery
 * engine: what waits, what failed, try again.
 */
#ifndef DF_ADMIN_OUTBOX_H
#define DF_ADMIN_OUTBOX_H

#include "access/audit.h"
#include "delivery/delivery.h"
#include "delivery/history.h"
#include "net/input.h"
#include "privacy/mask.h"
#include "json/write.h"

extern const struct df_route df_outbox_routes[]; /* argument: a struct df_delivery */
/* What the routes of single rows, of causes and of exports work with. */
struct df_outbox_scene {
    struct df_delivery *delivery;
    const struct df_masker *masker;
    const char *temp_dir; /* for exports */
};
extern const struct df_route df_outbox_row_routes[]; /* argument: a struct df_outbox_scene */
extern const struct df_route df_breaker_routes[];    /* argument: a struct df_breakers */

#define DF_OUTBOX_HISTORY 50 /* attempts shown of a row */

enum df_outbox_status {
    DF_OUTBOX_PENDING,
    DF_OUTBOX_SENDING,
    DF_OUTBOX_SENT,
    DF_OUTBOX_ERROR,
    DF_OUTBOX_STATUSES
};

/* The channel's name for it; NULL: the channel has no such state. */
const char *df_outbox_status_name(const struct df_channel *c, enum df_outbox_status s);
/* Ignores case. */
bool df_outbox_status_parse(const struct df_channel *c, struct df_str s,
                            enum df_outbox_status *ret);
/* "Pending, Sending, Sent or Error". */
#define DF_OUTBOX_NAMES_SIZE 128
void df_outbox_status_names(const struct df_channel *c, char out[DF_OUTBOX_NAMES_SIZE]);

struct df_outbox_counts {
    int64_t rows[DF_OUTBOX_STATUSES];
    int64_t oldest_pending_ms; /* -1: none is pending */
};

/* What needs a look. A time that is not there is -1. */
struct df_outbox_stuck {
    int64_t waiting; /* rows that will be tried, now or later */
    int64_t oldest_ms;
    int64_t held; /* of these, rows that wait for their target */
    int64_t given_up;
    int64_t given_up_since_ms;
};

#define DF_OUTBOX_TARGET_MAX 1000 /* characters: the width of DeliveryTargets.Target */
#define DF_OUTBOX_ERROR_MAX  200

/* Which rows; what is absent, false or -1 asks for nothing. All borrowed. */
struct df_outbox_filter {
    struct df_str status; /* a name that the channel has; only for lists */
    bool given_up;        /* not what is tried again by itself */
    struct df_str target; /* a URL without its query, or a name */
    struct df_str error;  /* part of the last error, in any case, or a cause (base/cause.h) */
    int64_t since_ms;     /* of the last try, or of the writing if there was none */
    int64_t until_ms;     /* not included */
};
#define DF_OUTBOX_ANY                                                                              \
    (struct df_outbox_filter)                                                                      \
    {                                                                                              \
        .since_ms = -1, .until_ms = -1                                                             \
    }

/* A time that is not there is -1. */
struct df_outbox_row {
    struct df_str id;
    struct df_str reference; /* the name by which people know the document */
    struct df_str target;    /* absent: the channel's own */
    struct df_str status;
    int64_t attempts;
    int64_t created_ms;
    int64_t last_attempt_ms;
    int64_t sent_ms;
    int64_t due_ms;
    struct df_str error;
    int64_t tries;
    int64_t first_failed_ms;
    struct df_str held_for; /* the target that it waits for; absent: none */
    int64_t dismissed_ms;   /* of a row that was given up */
    bool given_up;
    bool will_retry; /* it failed, and is tried again by itself */
    /* df_outbox_get only */
    struct df_str payload;
    struct df_str correlation_id; /* absent: it is the reference */
};

/* When the row is tried next. One that waits for its target: when that is probed next, as this
 * process knows it; -1: not at all, or it does not know. The engine may be NULL. */
int64_t df_outbox_next_ms(struct df_delivery *d, const struct df_channel *c,
                          const struct df_outbox_row *row);

/* Receives rows; what it is given is borrowed for the call. */
struct df_outbox_view {
    void (*row)(void *arg, const struct df_outbox_row *row);
    void (*attempt)(void *arg, const struct df_delivery_attempt *attempt); /* df_outbox_get only */
    void *arg;
};

enum df_code df_outbox_count(struct df_db *db, const struct df_channel *c,
                             struct df_outbox_counts *ret, struct df_err *err) DF_MUST_CHECK;
enum df_code df_outbox_look_stuck(struct df_db *db, const struct df_channel *c,
                                  struct df_outbox_stuck *ret, struct df_err *err) DF_MUST_CHECK;

/* A page (access/list.h); `counted`: with its total. */
enum df_code df_outbox_list(struct df_db *db, const struct df_channel *c,
                            const struct df_outbox_filter *f, struct df_page *p, bool counted,
                            const struct df_outbox_view *view, struct df_err *err) DF_MUST_CHECK;

/* The row, then its last attempts, newest first. DF_E_NOT_FOUND. */
enum df_code df_outbox_get(struct df_db *db, const struct df_channel *c, struct df_str id,
                           const struct df_outbox_view *view, struct df_err *err) DF_MUST_CHECK;

/* What a person decides about rows that failed. */
enum df_outbox_change {
    DF_OUTBOX_RETRY,  /* a row in Error becomes Pending and due, with all its attempts again */
    DF_OUTBOX_DISMISS /* one that was given up counts as such no longer, and falls under retention
                       */
};

/*
 * Inside the caller's transaction, with an audit row that says who wanted it. A row that is as
 * wanted already stays as it is. DF_E_NOT_FOUND; DF_E_CONFLICT: nothing failed, or (to dismiss it)
 * the row will be tried again.
 */
enum df_code df_outbox_change(struct df_db *db, const struct df_channel *c,
                              enum df_outbox_change what, struct df_str id,
                              const struct df_actor *by, int64_t now_ms,
                              struct df_err *err) DF_MUST_CHECK;

#define DF_OUTBOX_STEP 500 /* rows of one transaction */

/* How many rows the change takes by the filter. */
enum df_code df_outbox_match(struct df_db *db, const struct df_channel *c,
                             enum df_outbox_change what, const struct df_outbox_filter *f,
                             int64_t *ret, struct df_err *err) DF_MUST_CHECK;
/* Changes up to DF_OUTBOX_STEP of them inside the caller's transaction, with a row in the audit
 * log; *ret is their number. */
enum df_code df_outbox_change_step(struct df_db *db, const struct df_channel *c,
                                   enum df_outbox_change what, const struct df_outbox_filter *f,
                                   const struct df_actor *by, int64_t now_ms, int64_t *ret,
                                   struct df_err *err) DF_MUST_CHECK;

/* --- targets --- */

/* Beside the channels of the engine, relays and the processing of tickets have targets too. */
bool df_outbox_can_pause(const struct df_delivery *d, struct df_str channel);
/* What to do instead; NULL: it can be paused. */
const char *df_outbox_why_no_pause(const struct df_delivery *d, struct df_str channel,
                                   struct df_str target);
/*
 * Inside the caller's transaction: pauses or resumes a target, or (target absent or empty) the
 * whole channel, with a row in the audit log. Every process follows within a second or so.
 * *ret_changed: false if it was so already.
 */
enum df_code df_outbox_pause(struct df_db *db, struct df_str channel, struct df_str target,
                             bool pause, const struct df_actor *by, int64_t now_ms,
                             bool *ret_changed, struct df_err *err) DF_MUST_CHECK;

/* --- JSON: the same, for the answers of the API and for --json --- */

enum df_code df_outbox_json_overview(struct df_db *db, const struct df_delivery *d,
                                     struct df_json_out *out, struct df_err *err) DF_MUST_CHECK;
/* The engine, which tells of the next probe, may be NULL. */
enum df_code df_outbox_json_page(struct df_db *db, struct df_delivery *d,
                                 const struct df_channel *c, const struct df_outbox_filter *f,
                                 struct df_page *p, struct df_json_out *out,
                                 struct df_err *err) DF_MUST_CHECK;
/* How a row is shown alone. */
struct df_outbox_look {
    const struct df_masker *masker; /* of the payload; NULL: it is shown as it is */
    struct df_delivery *delivery;   /* tells of the next probe; may be NULL */
    int64_t now_ms;
};
enum df_code df_outbox_json_row(struct df_db *db, const struct df_channel *c, struct df_str id,
                                const struct df_outbox_look *look, struct df_json_out *out,
                                struct df_err *err) DF_MUST_CHECK;
void df_outbox_json_changed(const struct df_channel *c, enum df_outbox_change what,
                            struct df_str id, struct df_json_out *out);
/* Members of an open object: "paused", "pausedAt", "pausedBy" of the channel, and its "targets". A
 * NULL channel: "targets" of those that are no channels. */
enum df_code df_outbox_json_targets(struct df_db *db, const struct df_channel *c,
                                    struct df_json_out *out, struct df_err *err) DF_MUST_CHECK;
/* An object: the state of one target, or of the channel. */
enum df_code df_outbox_json_target(struct df_db *db, struct df_str channel, struct df_str target,
                                   struct df_json_out *out, struct df_err *err) DF_MUST_CHECK;

/* --- for the files of this room --- */

/* ?status=, ?target=, ?error=, ?since=, ?until= of a list. */
void df_outbox_read_filter(const struct df_req *req, struct df_input *in,
                           const struct df_channel *c, struct df_outbox_filter *ret);

#define DF_OUTBOX_KEY_MAX 64 /* characters of an id: the width of DeliveryAttempts.RowKey */

/* The id as a value; NULL: no row can have it. An id has one spelling: 007 is not 7, and a UUID has
 * no capitals. */
struct df_value df_outbox_id(const struct df_channel *c, struct df_str id);
enum df_code df_outbox_no_row(const struct df_channel *c, struct df_str id,
                              struct df_err *err) DF_MUST_CHECK;
/* Shows the row without its attempts. key gets the id as the row has it, which they refer to;
 * *ret_sent, which may be NULL, what the row says of the one that arrived. */
enum df_code df_outbox_show_row(struct df_db *db, const struct df_channel *c, struct df_str id,
                                const struct df_outbox_view *view, char key[DF_OUTBOX_KEY_MAX + 1],
                                struct df_sent_try *ret_sent, struct df_err *err) DF_MUST_CHECK;

/* A filter as the channel's queries take it. */
struct df_outbox_bound {
    struct df_value target, target_query, own, error, given_up, since, until;
    char target_text[2 * 4 * DF_OUTBOX_TARGET_MAX + 4];
};
void df_outbox_bind(const struct df_outbox_filter *f, const struct df_channel *c,
                    struct df_arena *a, struct df_outbox_bound *ret);
/* The bindings of a DF_ANY. */
#define DF_OUTBOX_BOUND(b)                                                                         \
    {"target", (b).target}, {"target_query", (b).target_query}, {"own", (b).own},                  \
        {"error", (b).error}, {"given_up", (b).given_up}, {"since", (b).since},                    \
    {                                                                                              \
        "until", (b).until                                                                         \
    }
/* A URL without its query; a name as it is. */
struct df_str df_outbox_target_name(struct df_str target);

#endif
