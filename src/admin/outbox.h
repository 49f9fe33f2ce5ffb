/*
 * The operations behind /admin/outbox and `dataflow outbox`, for all channels of the delivery
 * engine: what waits, what failed, try again.
 */
#ifndef DF_ADMIN_OUTBOX_H
#define DF_ADMIN_OUTBOX_H

#include "access/audit.h"
#include "delivery/delivery.h"
#include "net/input.h"
#include "json/write.h"

extern const struct df_route df_outbox_routes[];  /* argument: a struct df_delivery */
extern const struct df_route df_breaker_routes[]; /* argument: a struct df_breakers */

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
    /* df_outbox_get only */
    struct df_str payload;
    struct df_str correlation_id; /* absent: it is the reference */
};

struct df_outbox_attempt {
    int64_t attempt;
    int64_t attempted_ms;
    struct df_str outcome;
    int64_t http_status; /* 0: no answer */
    int64_t duration_ms;
    struct df_str answer;
    struct df_str error;
};

/* Receives rows; what it is given is borrowed for the call. */
struct df_outbox_view {
    void (*row)(void *arg, const struct df_outbox_row *row);
    void (*attempt)(void *arg, const struct df_outbox_attempt *attempt); /* df_outbox_get only */
    void *arg;
};

enum df_code df_outbox_count(struct df_db *db, const struct df_channel *c,
                             struct df_outbox_counts *ret, struct df_err *err) DF_MUST_CHECK;

/* A page, newest first; sets p->total. status absent: any; else a name that the channel has. */
enum df_code df_outbox_list(struct df_db *db, const struct df_channel *c, struct df_str status,
                            struct df_page *p, const struct df_outbox_view *view,
                            struct df_err *err) DF_MUST_CHECK;

/* The row, then its last attempts, newest first. DF_E_NOT_FOUND. */
enum df_code df_outbox_get(struct df_db *db, const struct df_channel *c, struct df_str id,
                           const struct df_outbox_view *view, struct df_err *err) DF_MUST_CHECK;

/*
 * Inside the caller's transaction. A row in Error becomes Pending and due, with all its attempts
 * again, and an audit row says who wanted it; a row that is Pending already stays as it is.
 * DF_E_NOT_FOUND; DF_E_CONFLICT if it is Sending or Sent.
 */
enum df_code df_outbox_retry(struct df_db *db, const struct df_channel *c, struct df_str id,
                             const struct df_actor *by, int64_t now_ms,
                             struct df_err *err) DF_MUST_CHECK;
/* The same for all rows in Error; *ret is their number. */
enum df_code df_outbox_retry_all(struct df_db *db, const struct df_channel *c,
                                 const struct df_actor *by, int64_t now_ms, int64_t *ret,
                                 struct df_err *err) DF_MUST_CHECK;

/* The same as JSON documents, for the answers of the API and for --json. */
enum df_code df_outbox_json_overview(struct df_db *db, const struct df_delivery *d,
                                     struct df_json_out *out, struct df_err *err) DF_MUST_CHECK;
enum df_code df_outbox_json_page(struct df_db *db, const struct df_channel *c, struct df_str status,
                                 struct df_page *p, struct df_json_out *out,
                                 struct df_err *err) DF_MUST_CHECK;
enum df_code df_outbox_json_row(struct df_db *db, const struct df_channel *c, struct df_str id,
                                struct df_json_out *out, struct df_err *err) DF_MUST_CHECK;
void df_outbox_json_retried(const struct df_channel *c, struct df_str id, struct df_json_out *out);
void df_outbox_json_retried_all(int64_t retried, struct df_json_out *out);

#endif
