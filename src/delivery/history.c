/*
 * A row that was sent is not tried again. So the attempt that arrived is the newest, and is either
 * the first of the list or missing there. An attempt of a content that was replaced meanwhile may
 * have the same number, and may have arrived too; it began at another time.
 */
#include "delivery/history.h"

#include "delivery/attempts.sql.h"

struct df_sent_try df_sent_try(struct df_str status, int64_t tries, int64_t started_ms,
                               int64_t http_status, int64_t duration_ms)
{
    bool sent = df_str_eq(status, DF_STR("Sent"));

    return (struct df_sent_try){tries, started_ms, sent ? http_status : 0, duration_ms};
}

struct history {
    const struct df_sent_try *sent;
    size_t limit, shown;
    bool looked; /* whether the attempt that arrived is in the list */
    void (*attempt)(void *arg, const struct df_delivery_attempt *a);
    void *arg;
};

static void show_attempt(struct history *h, const struct df_delivery_attempt *a)
{
    if (h->shown++ < h->limit)
        h->attempt(h->arg, a);
}

/* Before the newest attempt of the list; NULL: there is none. */
static void show_sent(struct history *h, const struct df_delivery_attempt *newest)
{
    const struct df_sent_try *s = h->sent;
    bool listed = newest && newest->attempt == s->tries && newest->attempted_ms == s->started_ms &&
                  df_str_eq(newest->outcome, DF_STR("Sent"));

    h->looked = true;
    if (s->http_status > 0 && !listed)
        show_attempt(h, &(struct df_delivery_attempt){.attempt = s->tries,
                                                      .attempted_ms = s->started_ms,
                                                      .outcome = DF_STR("Sent"),
                                                      .http_status = s->http_status,
                                                      .duration_ms = s->duration_ms});
}

static void read_attempt(void *arg, struct df_result *r)
{
    struct history *h = arg;
    struct df_delivery_attempt a = {
        .attempt = df_col_int(r, delivery_attempt_list_Attempt),
        .attempted_ms = df_col_time(r, delivery_attempt_list_AttemptedAt),
        .outcome = df_col_text(r, delivery_attempt_list_Outcome),
        .http_status = df_col_int(r, delivery_attempt_list_HttpStatus),
        .duration_ms = df_col_int(r, delivery_attempt_list_DurationMs),
        .answer = df_col_text(r, delivery_attempt_list_Answer),
        .error = df_col_text(r, delivery_attempt_list_Error),
    };

    if (!h->looked)
        show_sent(h, &a);
    show_attempt(h, &a);
}

enum df_code df_history_each(struct df_db *db, struct df_str channel, struct df_str row_key,
                             const struct df_sent_try *sent, size_t limit,
                             void (*attempt)(void *arg, const struct df_delivery_attempt *a),
                             void *arg, struct df_err *err)
{
    struct history h = {.sent = sent, .limit = limit, .attempt = attempt, .arg = arg};
    enum df_code code =
        df_db_each(db,
                   DF_Q(delivery_attempt_list, .channel = df_text(channel),
                        .row_key = df_text(row_key), .limit = df_int((int64_t)limit)),
                   read_attempt, &h, err);

    if (code == DF_OK && !h.looked)
        show_sent(&h, NULL);
    return code;
}
