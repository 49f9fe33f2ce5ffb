/*
 * GET /admin/search?q=: finds a document of any kind by any of its ids. GET /search?q= does the
 * same for a client, of its own documents and of the kinds that its scopes let it see.
 *
 * Every look-up goes by an index and shows a few rows; the shape of q tells which are worth the
 * way. A search that takes longer than SEARCH_MS answers with what it has, and says so.
 */
#include "access/handler.h"
#include "admin/admin.h"
#include "admin/search.sql.h"
#include "base/uuid.h"

#define Q_MIN      2
#define Q_MAX      200
#define FOUND_MAX  50
#define EACH_MAX   20 /* rows shown of one look-up */
#define SEARCH_MS  2000
#define TRACE_LEN  32
#define ANSWER_MAX (1 << 20)

enum key { KEY_TEXT, KEY_NUMBER, KEY_UUID, KEY_TRACE };

struct look_up {
    const char *kind;
    const struct df_query *query;
    enum key key;
    const char *link; /* what comes before the id; NULL: there is no page of its own */
};

/* What clients see of it. */
struct kind {
    const char *name;
    uint32_t scope;       /* that shows it; 0: no client sees it */
    const char *own_link; /* as `link`, for clients */
};

static const struct kind kinds[] = {
    {"ticket", DF_SCOPE_INTERFACE | DF_SCOPE_INTERFACE_ALL, NULL},
    {"counterparty", DF_SCOPE_INTERFACE | DF_SCOPE_INTERFACE_ALL, NULL},
    {"ack", DF_SCOPE_INTERFACE | DF_SCOPE_INTERFACE_ALL, NULL},
    {"return", DF_SCOPE_INTERFACE | DF_SCOPE_INTERFACE_ALL, NULL},
    {"import", 1u << DF_SCOPE_INDEX_IMPORTS, "/imports/"},
    {"event", 1u << DF_SCOPE_INDEX_EVENTS, NULL},
    {"webhookDelivery", DF_SCOPES_ALL, NULL},
    {"integrationCall", 1u << DF_SCOPE_INDEX_INTEGRATIONS, NULL},
    {"client", 0, NULL},
};

static const struct kind *kind_of(const char *name)
{
    size_t i = 0;

    while (strcmp(kinds[i].name, name) != 0)
        i++;
    return &kinds[i];
}

#define OUTBOX(channel) "/admin/outbox/" channel "/"

/* The most telling ids first, since the answer is bounded. */
static const struct look_up look_ups[] = {
    {"ticket", &df_q_search_ticket, KEY_TEXT, "/admin/tickets/"},
    {"counterparty", &df_q_search_counterparty, KEY_TEXT, NULL},
    {"counterparty", &df_q_search_counterparty_key, KEY_TEXT, NULL},
    {"ack", &df_q_search_ack, KEY_TEXT, OUTBOX("functional-ack")},
    {"return", &df_q_search_return, KEY_TEXT, OUTBOX("ticket-return")},
    {"import", &df_q_search_batch_id, KEY_UUID, "/admin/imports/"},
    {"event", &df_q_search_event_id, KEY_UUID, OUTBOX("events")},
    {"webhookDelivery", &df_q_search_webhook_id, KEY_UUID, OUTBOX("webhooks")},
    {"integrationCall", &df_q_search_call_id, KEY_UUID, OUTBOX("integrations")},
    {"webhookDelivery", &df_q_search_webhook_event, KEY_UUID, OUTBOX("webhooks")},
    {"webhookDelivery", &df_q_search_webhook_batch, KEY_UUID, OUTBOX("webhooks")},
    {"client", &df_q_search_client_id, KEY_TEXT, NULL},
    {"ticket", &df_q_search_ticket_id, KEY_NUMBER, "/admin/tickets/"},
    {"counterparty", &df_q_search_counterparty_id, KEY_NUMBER, NULL},
    {"ack", &df_q_search_ack_id, KEY_NUMBER, OUTBOX("functional-ack")},
    {"return", &df_q_search_return_id, KEY_NUMBER, OUTBOX("ticket-return")},
    {"import", &df_q_search_batch_correlation, KEY_TEXT, "/admin/imports/"},
    {"event", &df_q_search_event_correlation, KEY_TEXT, OUTBOX("events")},
    {"webhookDelivery", &df_q_search_webhook_correlation, KEY_TEXT, OUTBOX("webhooks")},
    {"integrationCall", &df_q_search_call_correlation, KEY_TEXT, OUTBOX("integrations")},
    {"import", &df_q_search_batch_trace, KEY_TRACE, "/admin/imports/"},
    {"event", &df_q_search_event_trace, KEY_TRACE, OUTBOX("events")},
    {"integrationCall", &df_q_search_call_trace, KEY_TRACE, OUTBOX("integrations")},
    {"client", &df_q_search_client_name, KEY_TEXT, NULL},
    {"import", &df_q_search_batch_file, KEY_TEXT, "/admin/imports/"},
};
#define LOOK_UPS (sizeof look_ups / sizeof look_ups[0])

/* A document is shown once, however many of its ids match. */
struct seen {
    const char *kind;
    struct df_str id;
};

struct search {
    struct df_work w;
    struct df_str text;
    struct df_str text_end; /* behind everything that begins with the text */
    struct df_str uuid;     /* absent: it is none */
    struct df_str trace;
    int64_t number;
    bool is_number;
    const struct df_client *client; /* whose documents are searched; NULL: those of all */
    const struct look_up *at;
    size_t rows; /* of the look-up in hand */
    bool cut;    /* there are more than were shown */
    size_t found;
    struct seen seen[FOUND_MAX];
};

static bool was_seen(const struct search *s, struct df_str id)
{
    for (size_t i = 0; i < s->found; i++)
        if (s->seen[i].kind == s->at->kind && df_str_eq(s->seen[i].id, id))
            return true;
    return false;
}

/* "BR T_0041, phase 15". */
static struct df_str title_of(const struct df_result *r, struct df_arena *a)
{
    struct df_str title = df_col_text(r, found_Title);
    struct df_str part = df_col_text(r, found_Part);

    if (!df_col_null(r, found_Number))
        return df_arena_printf(a, DF_STR_FMT " " DF_STR_FMT ", phase %lld", DF_STR_ARG(part),
                               DF_STR_ARG(title), (long long)df_col_int(r, found_Number));
    if (part.len > 0)
        return df_arena_printf(a, DF_STR_FMT " " DF_STR_FMT, DF_STR_ARG(title), DF_STR_ARG(part));
    return title;
}

static void write_found(void *arg, struct df_result *r)
{
    struct search *s = arg;
    struct df_json_out *out = &s->w.json;
    struct df_arena *a = df_req_arena(s->w.req);
    struct df_str id = df_col_text(r, found_Id);

    if (++s->rows > EACH_MAX) {
        s->cut = true;
        return;
    }
    if (was_seen(s, id))
        return;
    if (s->found == FOUND_MAX) {
        s->cut = true;
        return;
    }
    id = df_arena_str(a, id);
    s->seen[s->found++] = (struct seen){.kind = s->at->kind, .id = id};
    df_json_open(out, '{');
    df_json_kv_text(out, "kind", df_str_c(s->at->kind));
    df_json_kv_text(out, "id", id);
    df_json_kv_text(out, "title", title_of(r, a));
    df_json_kv_text(out, "status", df_col_text(r, found_Status));
    df_json_kv_text(out, "clientId", df_col_text(r, found_ClientId));
    df_json_kv_time(out, "createdAt", df_col_time(r, found_CreatedAt));
    const char *link = s->client ? kind_of(s->at->kind)->own_link : s->at->link;
    df_json_kv_text(out, "link",
                    link ? df_arena_printf(a, "%s" DF_STR_FMT, link, DF_STR_ARG(id)) : DF_STR_NULL);
    df_json_close(out, '}');
}

/* Whether the caller may see the kind, and q can be such an id at all. */
static bool is_worth(const struct search *s, const struct look_up *at)
{
    if (s->client && !(kind_of(at->kind)->scope & s->client->scopes))
        return false;
    switch (at->key) {
    case KEY_TEXT:
        return true;
    case KEY_NUMBER:
        return s->is_number;
    case KEY_UUID:
        return s->uuid.ptr;
    case KEY_TRACE:
        return s->trace.ptr;
    }
    return false;
}

/* Asks for one row more than it shows, to know whether there is one. */
static enum df_code look(struct df_db *db, struct search *s, struct df_err *err)
{
    struct df_str text = s->at->key == KEY_TRACE ? s->trace : s->text;

    s->rows = 0;
    return df_db_each(
        db,
        DF_ANY(s->at->query, {"text", df_text(text)}, {"text_end", df_text(s->text_end)},
               {"uuid", df_uuid(s->uuid)}, {"any_client", df_int(s->client ? 0 : 1)},
               {"client", s->client ? df_uuid(df_uuid_str(&s->client->id)) : df_null(DF_UUID)},
               {"number", df_int(s->number)}, {"limit", df_int(EACH_MAX + 1)}),
        write_found, s, err);
}

static enum df_code run_search(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct search *s = (struct search *)w;
    int64_t deadline_ms = df_mono_ms(w->access->clock) + SEARCH_MS;
    enum df_code code = DF_OK;
    size_t i;

    s->found = 0;
    s->cut = false;
    df_json_open(&w->json, '{');
    df_json_key(&w->json, "items");
    df_json_open(&w->json, '[');
    for (i = 0; i < LOOK_UPS && code == DF_OK && s->found < FOUND_MAX; i++) {
        if (df_mono_ms(w->access->clock) >= deadline_ms)
            break;
        s->at = &look_ups[i];
        if (is_worth(s, s->at))
            code = look(db, s, err);
    }
    df_json_close(&w->json, ']');
    df_json_kv_bool(&w->json, "complete", i == LOOK_UPS && !s->cut);
    df_json_close(&w->json, '}');
    return code;
}

static struct df_str lower(struct df_str s, struct df_arena *a)
{
    char *out = df_arena_alloc(a, s.len + 1);

    for (size_t i = 0; i < s.len; i++)
        out[i] = s.ptr[i] >= 'A' && s.ptr[i] <= 'Z' ? (char)(s.ptr[i] + 32) : s.ptr[i];
    return df_str_n(out, s.len);
}

static bool is_hex(struct df_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!strchr("0123456789abcdef", s.ptr[i]))
            return false;
    return true;
}

static bool read_search(struct df_work *w, struct df_input *in)
{
    struct search *s = (struct search *)w;
    struct df_arena *a = df_req_arena(w->req);
    struct df_uuid uuid;

    s->client = df_auth_client(w->req);
    s->text = df_input_filter(w->req, "q");
    size_t chars = df_utf8_count(s->text);
    if (chars < Q_MIN || chars > Q_MAX) {
        df_input_error(in, "q", "must have %d to %d characters", Q_MIN, Q_MAX);
        return true;
    }
    struct df_str small = lower(s->text, a);
    s->text_end = df_arena_printf(a, DF_STR_FMT "\xF4\x8F\xBF\xBF", DF_STR_ARG(s->text));
    s->is_number = df_str_to_i64(s->text, &s->number) && s->number > 0;
    if (df_uuid_parse(small, &uuid))
        s->uuid = df_arena_str(a, df_uuid_str(&uuid));
    if (small.len == TRACE_LEN && is_hex(small))
        s->trace = small;
    return true;
}

static const struct df_handler search = {
    .size = sizeof(struct search),
    .max_answer = ANSWER_MAX,
    .prepare = read_search,
    .run = run_search,
};

const struct df_route df_search_routes[] = {
    DF_ROUTE("GET", "/admin/search", DF_BODY_NONE, DF_ACCESS_ADMIN, NULL, search),
    DF_ROUTE("GET", "/search", DF_BODY_NONE, DF_ACCESS_CLIENT, NULL, search),
    {.method = NULL},
};
