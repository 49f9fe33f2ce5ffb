/*
 * POST /events: one event, or an array of them in one transaction.
 *
 * Order. Relays take rows by created_at, then id, so events of a call stand in the table in the
 * order of its array, and behind those of every call that this process answered before. Ids that
 * are made here ascend, so their events share a millisecond. Ids that the caller gives say nothing
 * about order, so each of their events has a millisecond of its own.
 *
 * Repeating. Idempotency-Key stands in the first row of a call, where a unique index keeps it from
 * being used twice. The ids of the other rows follow from the first one, and given ids stand in the
 * body, so the answer can be repeated from that row alone. Without a key, a given eventId serves as
 * one: the same event again is answered as before, another event is 409.
 */
#include "access/handler.h"
#include "base/checksum.h"
#include "base/metrics.h"
#include "base/personal.h"
#include "base/tally.h"
#include "base/uuid.h"
#include "delivery/delivery.h"
#include "net/field.h"
#include "privacy/subjects.h"
#include "relay/events.h"
#include "relay/events.sql.h"
#include "store/rows.h"

#include <stdatomic.h>
#include <stdlib.h>

#define EVENTS_MAX      1000
#define TYPE_MAX        200 /* the columns' widths */
#define AGGREGATE_MAX   200
#define CORRELATION_MAX 128
#define ANSWER_MAX      (1 << 20)
#define AHEAD_MS        INT64_C(10000)
#define SET_BACK_MS     INT64_C(60000)

DF_METRIC_FAMILY(accepted_total) = {
    .name = "dataflow_events_accepted_total",
    .help = "Events that POST /events wrote.",
    .type = DF_COUNTER,
};

struct event {
    struct df_uuid id;
    struct df_str type;
    struct df_str payload; /* the JSON text as it came */
    struct df_str aggregate_type;
    struct df_str aggregate_id;
    struct df_str correlation_id;
    bool has_id;
};

struct call {
    struct df_work w; /* its arg is the delivery engine */
    struct event *events;
    size_t count;
    bool is_array;
    bool has_ids; /* the caller's own; all events have one, or none */
    struct df_str key;
    char checksum[DF_CHECKSUM_LEN + 1];
    struct df_rows rows;
    struct df_subject_doc *people; /* of the events that name somebody */
    size_t people_count;
    /* Results of the look-up of earlier rows. */
    bool found;
    bool same;
    bool by_id;   /* found by eventId, not by the key */
    size_t other; /* by_id: an event that exists, one that differs if there is such a one */
};

/* --- the input --- */

static struct df_str text_or_none(struct df_input *in, const char *field, size_t max)
{
    struct df_str s = df_input_text(in, field, max, DF_OPTIONAL);
    return s.len > 0 ? s : DF_STR_NULL;
}

static void read_event(struct df_input *in, struct call *c, struct event *e)
{
    struct df_json payload;

    e->type = df_input_text(in, "eventType", TYPE_MAX, DF_REQUIRED);
    if (df_json_find(in->object, "payload", &payload))
        e->payload = payload.raw;
    else
        df_input_error(in, "payload", "is required");
    if (payload.twice)
        df_input_error(in, "payload", DF_INPUT_TWICE);
    e->aggregate_type = text_or_none(in, "aggregateType", AGGREGATE_MAX);
    e->aggregate_id = text_or_none(in, "aggregateId", AGGREGATE_MAX);
    e->correlation_id = text_or_none(in, "correlationId", SIZE_MAX);
    if (e->correlation_id.ptr && !df_field_correlation_ok(e->correlation_id))
        df_input_error(in, "correlationId",
                       "must be 1 to %d visible ASCII characters without \", \\, < and >",
                       CORRELATION_MAX);
    struct df_str id = text_or_none(in, "eventId", SIZE_MAX);
    e->has_id = id.ptr;
    if (id.ptr && !df_uuid_parse(id, &e->id))
        df_input_error(in, "eventId", "must be a UUID");
    if (!e->correlation_id.ptr || df_text_is_personal(e->correlation_id))
        e->correlation_id = df_req_correlation_id(c->w.req);
}

static int compare_ids(const void *a, const void *b)
{
    const struct event *const *x = a, *const *y = b;
    int order = strcmp((*x)->id.text, (*y)->id.text);
    return order ? order : (*x > *y) - (*x < *y);
}

/* If an id occurs twice, the later one is the error. */
static void check_ids(struct df_input *in, const struct call *c)
{
    const struct event **by_id = df_arena_alloc(in->arena, c->count * sizeof(struct event *));

    for (size_t i = 0; i < c->count; i++)
        by_id[i] = &c->events[i];
    qsort(by_id, c->count, sizeof(struct event *), compare_ids);
    for (size_t i = 1; i < c->count; i++) {
        if (strcmp(by_id[i - 1]->id.text, by_id[i]->id.text) != 0)
            continue;
        struct df_str field =
            df_arena_printf(in->arena, "[%zu].eventId", (size_t)(by_id[i] - c->events));
        df_input_error(in, field.ptr, "is that of another event of this call");
    }
}

static void read_item(struct df_input *in, struct call *c, const struct df_json *v, size_t at)
{
    struct df_input item;

    df_input_init(&item, in->arena, v);
    if (v->type == DF_JSON_OBJECT)
        read_event(&item, c, &c->events[at]);
    else
        df_input_error(in, df_arena_printf(in->arena, "[%zu]", at).ptr, "must be an object");
    for (size_t i = 0; i < item.error_count; i++) {
        struct df_str field =
            df_arena_printf(in->arena, "[%zu]." DF_STR_FMT, at, DF_STR_ARG(item.errors[i].field));
        df_input_error(in, field.ptr, DF_STR_FMT, DF_STR_ARG(item.errors[i].message));
    }
}

/* Ids that are made here follow from the first, so the caller gives an id for all events or for
 * none. */
static void check_all_or_none(struct df_input *in, struct call *c)
{
    size_t given = 0;

    for (size_t i = 0; i < c->count; i++)
        given += c->events[i].has_id;
    c->has_ids = given > 0;
    if (given == c->count && in->error_count == 0)
        check_ids(in, c);
    for (size_t i = 0; given > 0 && given < c->count && i < c->count; i++)
        if (!c->events[i].has_id)
            df_input_error(in, df_arena_printf(in->arena, "[%zu].eventId", i).ptr,
                           "is required, since other events of this call have one");
}

/* False: the answer is set. */
static bool read_events(struct call *c, struct df_input *in)
{
    struct df_err err = DF_ERR_INIT;
    const struct df_json *doc;

    c->key = df_req_header(c->w.req, "Idempotency-Key");
    if (!df_input_charge(c->w.req))
        return false;
    if (df_field_check_key(c->key, &err) != DF_OK ||
        df_json_parse(in->arena, df_req_body(c->w.req), &doc, &err) != DF_OK) {
        df_req_problem(c->w.req, &err);
        return false;
    }
    c->is_array = doc->type == DF_JSON_ARRAY;
    c->count = c->is_array ? df_json_count(doc) : 1;
    if (!c->is_array && doc->type != DF_JSON_OBJECT) {
        df_req_fail(c->w.req, DF_E_BAD_REQUEST, "The body must be an event or an array of events.");
        return false;
    }
    if (c->count < 1 || c->count > EVENTS_MAX) {
        df_req_fail(c->w.req, DF_E_BAD_REQUEST, "The array must hold 1 to %d events, not %zu.",
                    EVENTS_MAX, c->count);
        return false;
    }
    c->events = df_arena_zalloc(in->arena, c->count * sizeof(*c->events));
    size_t i = 0;
    in->object = doc;
    if (!c->is_array)
        read_event(in, c, &c->events[0]);
    struct df_json_each each = df_json_each(c->is_array ? doc : NULL);
    for (const struct df_json *v; (v = df_json_next(&each));)
        read_item(in, c, v, i++);
    check_all_or_none(in, c);
    return true;
}

/* --- time --- */

/*
 * The first millisecond of a call with n events. A call without ids of its own takes one
 * millisecond, which calls before and after it may share. A call with ids takes n milliseconds that
 * it shares with no other call, since its ids do not sort. If the clock is set back a little, calls
 * go on from the last millisecond. A caller that gives ids for more than a thousand events a second
 * runs ahead of the clock; at AHEAD_MS that ends, and calls are no longer in order, though each
 * array still is.
 */
static int64_t take_moment(const struct df_clock *clock, size_t n, bool alone)
{
    static _Atomic int64_t last; /* twice the millisecond; odd: no other call may use it */
    int64_t now_ms = df_wall_ms(clock);
    int64_t seen = atomic_load(&last);
    int64_t first, next;

    do {
        first = seen / 2 + (alone || seen % 2 ? 1 : 0);
        if (first < now_ms || first > now_ms + SET_BACK_MS)
            first = now_ms;
        else if (first > now_ms + AHEAD_MS)
            first = now_ms + AHEAD_MS;
        next = alone ? 2 * (first + (int64_t)n - 1) + 1 : 2 * first;
    } while (!atomic_compare_exchange_weak(&last, &seen, next));
    return first;
}

/* Makes the rows, with ids for events that have none. */
static void make_rows(struct call *c)
{
    const struct df_clock *clock = c->w.access->clock;
    const struct df_client *client = df_auth_client(c->w.req);
    const struct df_trace *trace = df_req_trace(c->w.req);
    struct df_uuid first = df_uuid_v7(clock);
    int64_t at_ms = take_moment(clock, c->count, c->has_ids);

    c->rows = df_rows_for(df_req_arena(c->w.req), &df_q_event_insert, c->count);
    for (size_t i = 0; i < c->count; i++) {
        struct event *e = &c->events[i];
        if (!c->has_ids)
            e->id = df_uuid_after(&first, i);
        DF_ROWS_ADD(
            &c->rows, event_insert, .id = df_uuid(df_uuid_str(&e->id)),
            .event_type = df_text(e->type), .payload = df_text(e->payload),
            .created_at = df_time(at_ms + (c->has_ids ? (int64_t)i : 0)),
            .aggregate_type = df_text(e->aggregate_type), .aggregate_id = df_text(e->aggregate_id),
            .correlation_id = df_text(e->correlation_id), .trace_id = df_text(df_trace_id(trace)),
            .span_id = df_text(df_trace_span(trace)),
            .trace_flags = df_text(df_trace_is_sampled(trace) ? DF_STR("01") : DF_STR("00")),
            .client_id = df_uuid(df_uuid_str(&client->id)),
            .idempotency_key = df_text(i == 0 ? c->key : DF_STR_NULL),
            .request_checksum =
                df_text(i == 0 && c->key.ptr ? df_str_c(c->checksum) : DF_STR_NULL));
    }
}

/* Whom the events name; they have their ids. */
static void find_people(struct call *c)
{
    struct df_arena *a = df_req_arena(c->w.req);

    c->people = DF_ARENA_ARRAY(a, struct df_subject_doc, c->count);
    for (size_t i = 0; i < c->count; i++) {
        const struct event *e = &c->events[i];
        struct df_subject found[DF_SUBJECTS_MAX];
        struct df_subjects s = {.keys = c->w.access->keys, .at = found, .max = DF_SUBJECTS_MAX};
        df_subjects_add_json(&s, e->payload);
        df_subjects_add_value(&s, e->aggregate_type, e->aggregate_id);
        if (s.count == 0)
            continue;
        struct df_subject *kept = DF_ARENA_ARRAY(a, struct df_subject, s.count);
        memcpy(kept, found, s.count * sizeof found[0]);
        c->people[c->people_count++] = (struct df_subject_doc){.place = "event",
                                                               .row = df_uuid_str(&e->id),
                                                               .subjects = kept,
                                                               .count = s.count,
                                                               .is_new = true};
    }
}

/* --- the answer --- */

static void write_event(const struct call *c, const struct event *e, struct df_json_out *out)
{
    df_json_open(out, '{');
    df_json_kv_text(out, "eventId", df_uuid_str(&e->id));
    df_json_kv_text(out, "status", DF_STR("PENDING"));
    if (!c->is_array)
        df_json_kv_text(out, "correlationId", e->correlation_id);
    df_json_close(out, '}');
}

static void write_answer(struct df_work *w)
{
    const struct call *c = (const struct call *)w;
    struct df_json_out *out = &w->json;

    if (c->is_array) {
        df_json_open(out, '{');
        df_json_key(out, "items");
        df_json_open(out, '[');
    }
    for (size_t i = 0; i < c->count; i++)
        write_event(c, &c->events[i], out);
    if (c->is_array) {
        df_json_close(out, ']');
        df_json_kv_int(out, "accepted", (int64_t)c->count);
        df_json_close(out, '}');
    }
}

static void events_accepted(struct df_work *w)
{
    const struct call *c = (const struct call *)w;
    const struct event *e = &c->events[0];
    const struct df_channel *channel = df_delivery_find(w->arg, DF_STR("events"));
    const struct df_log_field fields[] = {
        DF_F("eventId", df_uuid_str(&e->id)),
        DF_F("eventType", e->type),
        DF_F("correlationId", c->is_array ? df_req_correlation_id(w->req) : e->correlation_id),
        DF_FI("events", c->count),
    };

    if (channel)
        df_delivery_wake(w->arg, channel);
    df_metric_add(df_metric_get(&accepted_total, NULL), (double)c->count);
    const struct df_client *client = df_auth_client(w->req);
    df_tally(client ? df_uuid_str(&client->id) : DF_STR_NULL, DF_STR("events"),
             &(struct df_tallied){.accepted = (int64_t)c->count});
    df_log_write(DF_LOG_INFO, "EventsAccepted", fields, sizeof fields / sizeof fields[0], "%s", "");
    write_answer(w);
}

/* --- what was there before --- */

static void read_by_key(void *arg, struct df_result *r)
{
    struct call *c = arg;
    struct df_uuid first;

    if (!df_uuid_parse(df_col_text(r, event_find_key_id), &first))
        return;
    c->found = true;
    c->same = df_str_eq(df_col_text(r, event_find_key_request_checksum), df_str_c(c->checksum));
    for (size_t i = 0; !c->has_ids && i < c->count; i++)
        c->events[i].id = df_uuid_after(&first, i);
    c->events[0].correlation_id =
        df_arena_str(df_req_arena(c->w.req), df_col_text(r, event_find_key_correlation_id));
}

static enum df_code find_by_key(struct df_db *db, struct call *c, struct df_err *err)
{
    const struct df_client *client = df_auth_client(c->w.req);

    return df_db_each(db,
                      DF_Q(event_find_key, .client_id = df_uuid(df_uuid_str(&client->id)),
                           .idempotency_key = df_text(c->key)),
                      read_by_key, c, err);
}

/* The correlation id does not count: an event with another one is the same event. */
static bool is_same_event(const struct call *c, const struct event *e, const struct df_result *r)
{
    struct df_str client = df_uuid_str(&df_auth_client(c->w.req)->id);

    return df_str_eq(df_col_text(r, event_find_client_id), client) &&
           df_str_eq(df_col_text(r, event_find_event_type), e->type) &&
           df_str_eq(df_col_text(r, event_find_payload), e->payload) &&
           df_str_eq(df_col_text(r, event_find_aggregate_type), e->aggregate_type) &&
           df_str_eq(df_col_text(r, event_find_aggregate_id), e->aggregate_id);
}

struct finding {
    struct call *call;
    size_t at;    /* of its events */
    size_t there; /* events that exist */
};

static void read_by_id(void *arg, struct df_result *r)
{
    struct finding *f = arg;
    struct call *c = f->call;
    struct event *e = &c->events[f->at];

    c->same = is_same_event(c, e, r);
    c->other = f->there == 0 || !c->same ? f->at : c->other;
    f->there++;
    e->correlation_id =
        df_arena_str(df_req_arena(c->w.req), df_col_text(r, event_find_correlation_id));
}

/* Looks up the ids that the caller gave: c->same if all of them exist with the same content. */
static enum df_code find_by_ids(struct df_db *db, struct call *c, struct df_err *err)
{
    struct finding f = {.call = c};
    enum df_code code = DF_OK;

    c->same = true;
    for (; f.at < c->count && c->same && code == DF_OK; f.at++)
        code = df_db_each(db, DF_Q(event_find, .id = df_uuid(df_uuid_str(&c->events[f.at].id))),
                          read_by_id, &f, err);
    c->found = f.there > 0;
    c->same = c->same && f.there == c->count;
    return code;
}

static enum df_code run_look_up(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    enum df_code code = DF_OK;

    c->found = c->same = false;
    if (c->key.ptr)
        code = find_by_key(db, c, err);
    if (code == DF_OK && !c->found && c->has_ids) {
        code = find_by_ids(db, c, err);
        c->by_id = true;
    }
    return code;
}

static void answer_repeated(struct df_work *w)
{
    const struct call *c = (const struct call *)w;

    if (!c->found) {
        /* The row that conflicted was rolled back meanwhile. */
        df_req_fail(w->req, DF_E_DB_CONFLICT, "another call wrote the same and failed");
    } else if (c->same) {
        (void)df_req_add_header(w->req, "Idempotent-Replayed", DF_STR("true"));
        write_answer(w);
    } else if (c->by_id) {
        df_req_fail(w->req, DF_E_EXISTS,
                    "There is an event %s already; this call is not the one that wrote it.",
                    c->events[c->other].id.text);
    } else {
        df_req_fail(w->req, DF_E_IDEMPOTENCY,
                    "Idempotency-Key was used for another body. Send a new key.");
    }
}

static const struct df_handler look_up = {
    .size = sizeof(struct call),
    .status = 202,
    .run = run_look_up,
    .done = answer_repeated,
};

/* --- the call --- */

static bool read_call(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    if (!read_events(c, in))
        return false;
    if (in->error_count > 0)
        return true;
    if (c->key.ptr)
        df_checksum_of(df_req_body(w->req), c->checksum);
    make_rows(c);
    find_people(c);
    if (c->count == 1 &&
        c->people_count == 0) { /* one row is written together with those of other calls */
        w->job.query = c->rows.query;
        w->job.params = c->rows.params;
    }
    return true;
}

static enum df_code run_insert(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct call *c = (struct call *)w;
    enum df_code code = df_rows_run(db, &c->rows, NULL, err);

    return code == DF_OK
               ? df_subjects_write_all(db, c->people, c->people_count, df_req_arena(w->req), err)
               : code;
}

static bool look_up_if_there(struct df_work *w, enum df_code code, const struct df_err *err)
{
    (void)err;
    if (code != DF_E_DB_UNIQUE)
        return false;
    df_work_become(w, &look_up);
    df_work_submit(w);
    return true;
}

static const struct df_handler insert = {
    .size = sizeof(struct call),
    .writes = true,
    .status = 202,
    .max_answer = ANSWER_MAX,
    .prepare = read_call,
    .run = run_insert,
    .pass_on = look_up_if_there,
    .done = events_accepted,
};

const struct df_route df_event_routes[] = {
    DF_ROUTE("POST", "/events", DF_BODY_JSON, DF_ACCESS_CLIENT, "events", insert),
    {.method = NULL},
};

/* --- the channel --- */

struct df_channel df_events_channel(void (*wake)(const struct df_channel *c), const void *arg)
{
    static const char *const states[] = {"PENDING", NULL, "PROCESSED", "FAILED"};

    return (struct df_channel){
        .name = "events",
        .id_type = DF_UUID,
        .states = states,
        .counts = &df_q_event_counts,
        .rows = &df_q_event_rows,
        .keys = {&df_q_event_keys, &df_q_event_keys_oldest},
        .status_keys = {&df_q_event_keys, &df_q_event_keys_oldest},
        .given_up_keys = {&df_q_event_keys, &df_q_event_keys_oldest},
        .get = &df_q_event_get,
        .retry = &df_q_event_retry,
        .stuck = &df_q_event_stuck,
        .given_up = &df_q_event_given_up,
        .retry_some = &df_q_event_retry_some,
        .retry_total = &df_q_event_retry_total,
        .dismiss = &df_q_event_dismiss,
        .dismiss_some = &df_q_event_dismiss_some,
        .dismiss_total = &df_q_event_retry_total,
        .wake = wake,
        .arg = arg,
    };
}
