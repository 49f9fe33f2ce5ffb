#include "admin/outbox.h"

#include "access/list.h"
#include "base/uuid.h"
#include "delivery/why.h"

#include <stdio.h>

#define KEY_MAX       DF_OUTBOX_KEY_MAX
#define PAYLOAD_MAX   ((size_t)64 << 20)
#define TARGETS_SHOWN 50    /* of a channel, in the overview */
#define GIVEN_UP_ROWS 10000 /* looked at for the counts by target, the newest */

static const char *const status_names[DF_OUTBOX_STATUSES] = {"Pending", "Sending", "Sent", "Error"};

const char *df_outbox_status_name(const struct df_channel *c, enum df_outbox_status s)
{
    return c->states ? c->states[s] : status_names[s];
}

bool df_outbox_status_parse(const struct df_channel *c, struct df_str s, enum df_outbox_status *ret)
{
    for (size_t i = 0; i < DF_OUTBOX_STATUSES; i++) {
        const char *name = df_outbox_status_name(c, (enum df_outbox_status)i);
        if (name && df_str_ieq(s, df_str_c(name))) {
            *ret = (enum df_outbox_status)i;
            return true;
        }
    }
    return false;
}

void df_outbox_status_names(const struct df_channel *c, char out[DF_OUTBOX_NAMES_SIZE])
{
    size_t at = 0;

    for (size_t i = 0; i < DF_OUTBOX_STATUSES && at < DF_OUTBOX_NAMES_SIZE; i++) {
        const char *name = df_outbox_status_name(c, (enum df_outbox_status)i);
        const char *before = i == 0 ? "" : i + 1 < DF_OUTBOX_STATUSES ? ", " : " or ";
        if (name)
            at += (size_t)snprintf(out + at, DF_OUTBOX_NAMES_SIZE - at, "%s%s", before, name);
    }
}

/* --- reading --- */

struct df_value df_outbox_id(const struct df_channel *c, struct df_str id)
{
    struct df_value v = df_channel_id(c, id);
    char text[24];
    struct df_uuid uuid;
    if (!v.null && v.type == DF_UUID && df_uuid_parse(id, &uuid))
        return df_str_eq(df_uuid_str(&uuid), id) ? v : df_null(DF_UUID);
    if (v.null || v.type != DF_INT)
        return v;
    snprintf(text, sizeof text, "%lld", (long long)v.i);
    return df_str_eq(df_str_c(text), id) ? v : df_null(DF_INT);
}

enum df_code df_outbox_no_row(const struct df_channel *c, struct df_str id, struct df_err *err)
{
    return df_err_set(err, DF_E_NOT_FOUND, "There is no row \"" DF_STR_FMT "\" in %s.",
                      DF_STR_ARG(df_utf8_cut(id, KEY_MAX)), c->name);
}

struct counting {
    const struct df_channel *channel;
    struct df_outbox_counts counts;
};

static void read_count(void *arg, struct df_result *r)
{
    struct counting *c = arg;
    enum df_outbox_status status;

    if (!df_outbox_status_parse(c->channel, df_col_text(r, channel_counts_Status), &status))
        return; /* a state that another program wrote */
    c->counts.rows[status] += df_col_int(r, channel_counts_Documents);
    if (status == DF_OUTBOX_PENDING)
        c->counts.oldest_pending_ms = df_col_time(r, channel_counts_Oldest);
}

enum df_code df_outbox_count(struct df_db *db, const struct df_channel *c,
                             struct df_outbox_counts *ret, struct df_err *err)
{
    struct counting counting = {.channel = c, .counts = {.oldest_pending_ms = -1}};
    enum df_code code = df_db_each(db, DF_NO_VALUES(c->counts), read_count, &counting, err);
    if (code == DF_OK)
        *ret = counting.counts;
    return code;
}

static void read_stuck(void *arg, struct df_result *r)
{
    *(struct df_outbox_stuck *)arg = (struct df_outbox_stuck){
        .waiting = df_col_int(r, channel_stuck_Waiting),
        .oldest_ms = df_col_time(r, channel_stuck_Oldest),
        .held = df_col_int(r, channel_stuck_Held),
        .given_up = df_col_int(r, channel_stuck_GivenUp),
        .given_up_since_ms = df_col_time(r, channel_stuck_GivenUpSince),
    };
}

enum df_code df_outbox_look_stuck(struct df_db *db, const struct df_channel *c,
                                  struct df_outbox_stuck *ret, struct df_err *err)
{
    return df_db_each(db, DF_NO_VALUES(c->stuck), read_stuck, ret, err);
}

static struct df_outbox_row row_of(const struct df_result *r)
{
    return (struct df_outbox_row){
        .id = df_col_text(r, channel_item_Id),
        .reference = df_col_text(r, channel_item_Reference),
        .target = df_col_text(r, channel_item_Target),
        .status = df_col_text(r, channel_item_Status),
        .attempts = df_col_int(r, channel_item_Attempts),
        .created_ms = df_col_time(r, channel_item_CreatedAt),
        .last_attempt_ms = df_col_time(r, channel_item_LastAttemptAt),
        .sent_ms = df_col_time(r, channel_item_SentAt),
        .due_ms = df_col_time(r, channel_item_DueAt),
        .error = df_col_text(r, channel_item_LastError),
        .tries = df_col_int(r, channel_item_Tries),
        .first_failed_ms = df_col_time(r, channel_item_FirstFailedAt),
        .held_for = df_col_text(r, channel_item_HeldFor),
        .dismissed_ms = df_col_time(r, channel_item_DismissedAt),
    };
}

/* A time of dismissal counts only while the row is as it was then. */
static void judge_row(const struct df_channel *c, struct df_outbox_row *row)
{
    bool ended = row->due_ms < 0 &&
                 df_str_eq(row->status, df_str_c(df_outbox_status_name(c, DF_OUTBOX_ERROR)));

    row->will_retry = row->due_ms >= 0 &&
                      df_str_eq(row->status, df_str_c(df_outbox_status_name(c, DF_OUTBOX_ERROR)));
    row->dismissed_ms = ended ? row->dismissed_ms : -1;
    row->given_up = ended && row->dismissed_ms < 0;
}

struct listing {
    const struct df_channel *channel;
    const struct df_outbox_view *view;
};

static void show_item(void *arg, struct df_result *r)
{
    const struct listing *l = arg;
    struct df_outbox_row row = row_of(r);

    judge_row(l->channel, &row);
    l->view->row(l->view->arg, &row);
}

/* The way to the rows that leaves the fewest to look at. */
static const struct df_query *const *keys_of(const struct df_channel *c,
                                             const struct df_outbox_filter *f)
{
    if (f->given_up)
        return c->given_up_keys;
    if (f->status.ptr && !(c->usual_status && df_str_eq(f->status, df_str_c(c->usual_status))))
        return c->status_keys;
    return c->keys;
}

enum df_code df_outbox_list(struct df_db *db, const struct df_channel *c,
                            const struct df_outbox_filter *f, struct df_page *p, bool counted,
                            const struct df_outbox_view *view, struct df_err *err)
{
    struct listing listing = {.channel = c, .view = view};
    const struct df_query *const *keys = keys_of(c, f);
    struct df_outbox_bound b;
    struct df_arena arena;

    df_arena_init(&arena);
    df_outbox_bind(f, c, &arena, &b);
    p->by_uuid = c->id_type == DF_UUID;
    struct df_list_query q = {
        .newest = keys[0],
        .oldest = keys[1],
        .rows = c->rows,
        DF_LIST_FILTER({"status", df_text(f->status)}, DF_OUTBOX_BOUND(b)),
    };
    enum df_code code = counted ? df_list_count(db, &q, p, err) : DF_OK;
    if (code == DF_OK)
        code = df_list_rows(db, &q, p, &arena, show_item, &listing, NULL, err);
    df_arena_release(&arena);
    return code;
}

struct detail {
    const struct df_channel *channel;
    const struct df_outbox_view *view;
    char *key;
    struct df_sent_try sent;
};

static void show_detail(void *arg, struct df_result *r)
{
    struct detail *d = arg;
    struct df_outbox_row row = row_of(r); /* a detail has the columns of an item first */

    judge_row(d->channel, &row);
    row.payload = d->channel->payload_is_blob ? df_col_blob(r, channel_detail_Payload)
                                              : df_col_text(r, channel_detail_Payload);
    row.correlation_id = df_col_text(r, channel_detail_CorrelationId);
    d->sent =
        df_sent_try(row.status, row.tries, row.last_attempt_ms,
                    df_col_int(r, channel_detail_SentStatus), df_col_int(r, channel_detail_SentMs));
    snprintf(d->key, KEY_MAX + 1, DF_STR_FMT, DF_STR_ARG(row.id));
    d->view->row(d->view->arg, &row);
}

enum df_code df_outbox_show_row(struct df_db *db, const struct df_channel *c, struct df_str id,
                                const struct df_outbox_view *view, char key[KEY_MAX + 1],
                                struct df_sent_try *ret_sent, struct df_err *err)
{
    struct df_value row_id = df_outbox_id(c, id);
    struct detail detail = {.channel = c, .view = view, .key = key};
    bool found = false;

    if (row_id.null)
        return df_outbox_no_row(c, id, err);
    enum df_code code =
        df_db_one(db, DF_ANY(c->get, {"id", row_id}), show_detail, &detail, &found, err);
    if (ret_sent)
        *ret_sent = detail.sent;
    return code == DF_OK && !found ? df_outbox_no_row(c, id, err) : code;
}

enum df_code df_outbox_get(struct df_db *db, const struct df_channel *c, struct df_str id,
                           const struct df_outbox_view *view, struct df_err *err)
{
    char key[KEY_MAX + 1];
    struct df_sent_try sent;
    enum df_code code = df_outbox_show_row(db, c, id, view, key, &sent, err);
    if (code != DF_OK)
        return code;
    return df_history_each(db, df_str_c(c->name), df_str_c(key), &sent, DF_OUTBOX_HISTORY,
                           view->attempt, view->arg, err);
}

/* --- JSON --- */

static void write_counts(const struct df_channel *c, const struct df_outbox_counts *counts,
                         struct df_json_out *out)
{
    df_json_kv_text(out, "channel", df_str_c(c->name));
    df_json_kv_bool(out, "configured", !c->missing);
    if (c->missing)
        df_json_kv_text(out, "missing", df_str_c(c->missing));
    df_json_key(out, "counts");
    df_json_open(out, '{');
    for (size_t i = 0; i < DF_OUTBOX_STATUSES; i++) {
        const char *name = df_outbox_status_name(c, (enum df_outbox_status)i);
        if (name)
            df_json_kv_int(out, name, counts->rows[i]);
    }
    df_json_close(out, '}');
    df_json_kv_time(out, "oldestPendingAt", counts->oldest_pending_ms);
}

static void write_stuck(const struct df_outbox_stuck *stuck, struct df_json_out *out)
{
    df_json_kv_int(out, "waiting", stuck->waiting);
    df_json_kv_time(out, "oldestWaitingAt", stuck->oldest_ms);
    df_json_kv_int(out, "held", stuck->held);
    df_json_kv_int(out, "givenUp", stuck->given_up);
    df_json_kv_time(out, "givenUpSince", stuck->given_up_since_ms);
}

struct given_up {
    const struct df_channel *channel;
    struct df_json_out *out;
};

static void write_given_up(void *arg, struct df_result *r)
{
    const struct given_up *g = arg;
    struct df_str target = df_col_text(r, channel_given_up_Target);

    if (target.len == 0)
        target = df_str_c(g->channel->own_target);
    df_json_open(g->out, '{');
    df_json_kv_text(g->out, "target", df_outbox_target_name(target));
    df_json_kv_int(g->out, "count", df_col_int(r, channel_given_up_Documents));
    df_json_kv_time(g->out, "since", df_col_time(r, channel_given_up_Oldest));
    df_json_kv_time(g->out, "last", df_col_time(r, channel_given_up_Newest));
    df_json_close(g->out, '}');
}

/* A channel of the overview: an object. */
static enum df_code write_channel(struct df_db *db, const struct df_channel *c,
                                  struct df_json_out *out, struct df_err *err)
{
    struct df_outbox_counts counts = {0};
    struct df_outbox_stuck stuck = {.oldest_ms = -1, .given_up_since_ms = -1};
    struct given_up given_up = {.channel = c, .out = out};
    enum df_code code = df_outbox_count(db, c, &counts, err);
    if (code == DF_OK)
        code = df_outbox_look_stuck(db, c, &stuck, err);
    if (code != DF_OK)
        return code;
    df_json_open(out, '{');
    write_counts(c, &counts, out);
    write_stuck(&stuck, out);
    df_json_key(out, "givenUpByTarget");
    df_json_open(out, '[');
    if (stuck.given_up > 0)
        code = df_db_each(db,
                          DF_ANY(c->given_up, {"rows", df_int(GIVEN_UP_ROWS)},
                                 {"limit", df_int(TARGETS_SHOWN)}, {"since", df_time(0)}),
                          write_given_up, &given_up, err);
    df_json_close(out, ']');
    if (code == DF_OK)
        code = df_outbox_json_targets(db, c, out, err);
    df_json_close(out, '}');
    return code;
}

enum df_code df_outbox_json_overview(struct df_db *db, const struct df_delivery *d,
                                     struct df_json_out *out, struct df_err *err)
{
    enum df_code code = DF_OK;
    df_json_open(out, '{');
    df_json_key(out, "channels");
    df_json_open(out, '[');
    for (size_t i = 0; i < df_delivery_channels(d) && code == DF_OK; i++)
        code = write_channel(db, df_delivery_channel(d, i), out, err);
    df_json_close(out, ']');
    if (code == DF_OK)
        code = df_outbox_json_targets(db, NULL, out, err);
    df_json_close(out, '}');
    return code;
}

int64_t df_outbox_next_ms(struct df_delivery *d, const struct df_channel *c,
                          const struct df_outbox_row *row)
{
    if (!row->held_for.ptr || row->due_ms < 0)
        return row->due_ms;
    return d ? df_delivery_probe_ms(d, df_str_c(c->name), row->held_for) : -1;
}

static void write_members(const struct df_outbox_row *row, int64_t next_ms, struct df_json_out *out)
{
    df_json_kv_text(out, "id", row->id);
    df_json_kv_text(out, "reference", row->reference);
    df_json_kv_text(out, "targetUrl", row->target);
    df_json_kv_text(out, "status", row->status);
    df_json_kv_int(out, "attempts", row->attempts);
    df_json_kv_time(out, "createdAt", row->created_ms);
    df_json_kv_time(out, "lastAttemptAt", row->last_attempt_ms);
    df_json_kv_time(out, "sentAt", row->sent_ms);
    df_json_kv_time(out, "nextAttemptAt", next_ms);
    df_json_kv_text(out, "lastError", row->error);
    df_json_kv_int(out, "tries", row->tries);
    df_json_kv_time(out, "firstFailedAt", row->first_failed_ms);
    df_json_kv_text(out, "heldFor", row->held_for);
    df_json_kv_bool(out, "givenUp", row->given_up);
    df_json_kv_bool(out, "willRetry", row->will_retry);
    df_json_kv_time(out, "dismissedAt", row->dismissed_ms);
}

struct paging {
    struct df_json_out *out;
    struct df_delivery *delivery;
    const struct df_channel *channel;
};

static void write_row_item(void *arg, const struct df_outbox_row *row)
{
    const struct paging *p = arg;
    df_json_open(p->out, '{');
    write_members(row, df_outbox_next_ms(p->delivery, p->channel, row), p->out);
    df_json_close(p->out, '}');
}

enum df_code df_outbox_json_page(struct df_db *db, struct df_delivery *d,
                                 const struct df_channel *c, const struct df_outbox_filter *f,
                                 struct df_page *p, struct df_json_out *out, struct df_err *err)
{
    struct paging paging = {out, d, c};
    struct df_outbox_view view = {.row = write_row_item, .arg = &paging};
    df_page_open(out);
    enum df_code code = df_outbox_list(db, c, f, p, true, &view, err);
    df_page_close(p, out);
    return code;
}

struct showing {
    struct df_json_out *out;
    const struct df_outbox_look *look;
    struct df_arena arena;
    const struct df_channel *channel;
    struct df_why_row why;
};

/* The payload, masked if there is a masker. */
static void write_payload(struct showing *s, struct df_str payload)
{
    struct df_buf masked;
    bool hidden = false;

    df_buf_init(&masked, PAYLOAD_MAX);
    if (s->look->masker && payload.ptr) {
        df_mask_json(s->look->masker, payload, &masked);
        hidden = df_buf_failed(&masked) || !df_str_eq(payload, df_buf_str(&masked));
    }
    df_json_kv_text(s->out, "payload",
                    !hidden                  ? payload
                    : df_buf_failed(&masked) ? DF_STR_NULL
                                             : df_buf_str(&masked));
    df_json_kv_bool(s->out, "payloadMasked", hidden);
    df_buf_release(&masked);
}

/* Whether the row waits, and what for. */
static void note_why(struct showing *s, const struct df_outbox_row *row)
{
    struct df_str target = row->held_for.ptr ? row->held_for
                           : row->target.len > 0
                               ? df_outbox_target_name(row->target)
                               : df_outbox_target_name(df_str_c(s->channel->own_target));

    s->why = (struct df_why_row){
        .channel = df_str_c(s->channel->name),
        .target = df_arena_str(&s->arena, target),
        .missing = s->channel->missing,
        .failed = row->first_failed_ms >= 0 || row->attempts > 0,
        .held = row->held_for.ptr,
        .created_ms = row->created_ms,
        .last_attempt_ms = row->last_attempt_ms,
        .due_ms = row->due_ms,
    };
}

static void write_detail(void *arg, const struct df_outbox_row *row)
{
    struct showing *s = arg;
    struct df_json_out *out = s->out;

    df_json_open(out, '{');
    write_members(row, df_outbox_next_ms(s->look->delivery, s->channel, row), out);
    if (row->correlation_id.ptr)
        df_json_kv_text(out, "correlationId", row->correlation_id);
    write_payload(s, row->payload);
    note_why(s, row);
    df_json_key(out, "attemptsHistory");
    df_json_open(out, '[');
}

static void write_attempt(void *arg, const struct df_delivery_attempt *a)
{
    struct df_json_out *out = ((struct showing *)arg)->out;

    df_json_open(out, '{');
    df_json_kv_int(out, "attempt", a->attempt);
    df_json_kv_time(out, "attemptedAt", a->attempted_ms);
    df_json_kv_text(out, "outcome", a->outcome);
    df_json_kv_int_if(out, "httpStatus", a->http_status > 0, a->http_status);
    df_json_kv_int(out, "durationMs", a->duration_ms);
    df_json_kv_text(out, "answer", a->answer);
    df_json_kv_text(out, "error", a->error);
    df_json_close(out, '}');
}

enum df_code df_outbox_json_row(struct df_db *db, const struct df_channel *c, struct df_str id,
                                const struct df_outbox_look *look, struct df_json_out *out,
                                struct df_err *err)
{
    struct showing s = {.out = out, .look = look, .channel = c};
    struct df_outbox_view view = {.row = write_detail, .attempt = write_attempt, .arg = &s};
    struct df_why why = {.code = NULL};

    df_arena_init(&s.arena);
    enum df_code code = df_outbox_get(db, c, id, &view, err);
    if (code == DF_OK)
        code = df_why_find(db, &s.why, look->delivery, look->now_ms, &s.arena, &why, err);
    if (code == DF_OK) {
        df_json_close(out, ']');
        df_why_write(&why, out);
        df_json_close(out, '}');
    }
    df_arena_release(&s.arena);
    return code;
}

void df_outbox_json_changed(const struct df_channel *c, enum df_outbox_change what,
                            struct df_str id, struct df_json_out *out)
{
    enum df_outbox_status status = what == DF_OUTBOX_RETRY ? DF_OUTBOX_PENDING : DF_OUTBOX_ERROR;

    df_json_open(out, '{');
    df_json_kv_text(out, "id", id);
    df_json_kv_text(out, "status", df_str_c(df_outbox_status_name(c, status)));
    if (what == DF_OUTBOX_DISMISS)
        df_json_kv_bool(out, "dismissed", true);
    df_json_close(out, '}');
}
