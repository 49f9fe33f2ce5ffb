/*
 * The rule DeliveryGivenUp: documents that the server has stopped trying and that wait for a
 * person, by channel and target. It looks at every channel of the delivery engine, at relays and at
 * the processing of tickets.
 *
 * The channel of alerts is left out: an alert about messages that cannot be sent could not be sent
 * either, and would be given up in its turn. The log and the metrics tell of those.
 *
 * Messages go to others, and lines of the log to many: an error's text behind "HTTP 400" is the
 * peer's answer, which may hold personal data, and stays in the database.
 */
#include "alerts/alerts.sql.h"
#include "alerts/alerts_private.h"
#include "base/checksum.h"

#define LOOKED_AT      10000 /* rows of a channel */
#define ERROR_CHARS    200
#define HASH_DIGITS    16
#define GROWN_TIMES    2
#define GROWN_BY       10
#define RELAY_HEARD_MS (INT64_C(24) * 3600 * 1000)

bool alert_has_grown(int64_t reported, int64_t documents)
{
    return documents >= GROWN_TIMES * reported && documents - reported >= GROWN_BY;
}

/* --- words ------------------------------------------------------------------------------------ */

/* The subject is a name that fits its column: a long target ends in a hash of all of it. */
static struct df_str subject_of(struct alert_finding *f, const char *place, struct df_str target)
{
    struct df_str whole =
        target.len > 0 ? df_arena_printf(f->arena, "%s " DF_STR_FMT, place, DF_STR_ARG(target))
                       : df_str_c(place);
    char hash[DF_CHECKSUM_LEN + 1];
    bool plain = whole.len <= ALERT_SUBJECT_MAX;
    size_t kept = 0;

    for (size_t i = 0; plain && i < whole.len; i++)
        plain = whole.ptr[i] >= ' ' && whole.ptr[i] < 0x7f;
    if (plain)
        return whole;
    while (kept < whole.len && kept < ALERT_SUBJECT_MAX - HASH_DIGITS - 1 &&
           whole.ptr[kept] >= ' ' && whole.ptr[kept] < 0x7f)
        kept++;
    df_checksum_of(whole, hash);
    return df_arena_printf(f->arena, "%.*s#%.*s", (int)kept, whole.ptr, HASH_DIGITS, hash);
}

static struct df_str error_of(const struct df_result *r)
{
    struct df_str error = df_col_text(r, channel_given_up_LastError);

    if (df_str_starts(error, DF_STR("HTTP ")))
        (void)df_str_cut(error, ':', &error);
    return df_utf8_cut(error, ERROR_CHARS);
}

enum place_kind { PLACE_OUTBOX, PLACE_WEBHOOKS, PLACE_TICKETS, PLACE_RELAY };

static enum place_kind kind_of(const char *place)
{
    struct df_str name = df_str_c(place);

    if (df_str_eq(name, DF_STR("webhooks")))
        return PLACE_WEBHOOKS;
    if (df_str_eq(name, DF_STR("tickets")))
        return PLACE_TICKETS;
    return df_str_eq(name, DF_STR("relay")) ? PLACE_RELAY : PLACE_OUTBOX;
}

/* What a person does once the cause is gone. */
static struct df_str what_to_do(struct alert_finding *f, const char *place, struct df_str target)
{
    switch (kind_of(place)) {
    case PLACE_OUTBOX:
        break;
    case PLACE_WEBHOOKS:
        return df_arena_printf(f->arena,
                               "Mend the receiver, then replay: POST "
                               "/admin/webhook-failures/replay?subscriptionId=" DF_STR_FMT
                               "&since=TIME",
                               DF_STR_ARG(target));
    case PLACE_TICKETS:
        return DF_STR(
            "Remove the cause, then: POST /admin/tickets/reprocess {\"status\":\"Error\"}");
    case PLACE_RELAY:
        return DF_STR("Remove the cause, then set the FAILED events back to PENDING; the server's "
                      "own: dataflow outbox retry events --all");
    }
    return df_arena_printf(f->arena,
                           "Remove the cause, then: dataflow outbox retry %s%s" DF_STR_FMT, place,
                           target.len > 0 ? " --target " : " --all", DF_STR_ARG(target));
}

/* The console's page about it; absent: alerts.console_url is not set. */
static struct df_str page_of(struct alert_finding *f, const char *place)
{
    const char *console = f->a->opt.settings.console_url;

    if (!console)
        return DF_STR_NULL;
    switch (kind_of(place)) {
    case PLACE_OUTBOX:
        break;
    case PLACE_WEBHOOKS:
        return df_arena_printf(f->arena, "%s#webhooks", console);
    case PLACE_TICKETS:
        return df_arena_printf(f->arena, "%s#tickets", console);
    case PLACE_RELAY:
        return df_arena_printf(f->arena, "%s#relays", console);
    }
    return df_arena_printf(f->arena, "%s#outbox?channel=%s&status=Error", console, place);
}

/* --- finding ---------------------------------------------------------------------------------- */

struct given_up {
    struct alert_finding *f;
    const char *place;
    const char *url; /* of rows that name no target; NULL: none */
    int64_t rows;    /* that the query looked at */
};

static struct df_str target_of(const struct given_up *g, const struct df_result *r)
{
    struct df_str target = df_col_text(r, channel_given_up_Target);

    if (target.len == 0 && g->url)
        (void)df_str_cut(df_str_c(g->url), '?', &target);
    return target;
}

static void describe_given_up(void *arg, struct df_result *r)
{
    struct given_up *g = arg;
    struct alert_finding *f = g->f;
    struct df_str target = df_arena_str(f->arena, target_of(g, r));
    struct df_str error = df_arena_str(f->arena, error_of(r));
    int64_t documents = df_col_int(r, channel_given_up_Documents);

    if (documents == 0)
        return;
    struct alert *alert = alert_begin(f, ALERT_GIVEN_UP, subject_of(f, g->place, target));

    g->rows += documents;
    alert->documents = documents;
    alert->severity = DF_STR("error");
    alert->summary = df_arena_printf(
        f->arena, "%lld %s of " DF_STR_FMT " %s given up and %s for a person%s" DF_STR_FMT,
        (long long)documents, documents == 1 ? "document" : "documents", DF_STR_ARG(alert->subject),
        documents == 1 ? "was" : "were", documents == 1 ? "waits" : "wait",
        error.len > 0 ? "; the last error: " : "", DF_STR_ARG(error));
    df_json_kv_text(&f->details, "channel", df_str_c(g->place));
    df_json_kv_text(&f->details, "target", target.len > 0 ? target : DF_STR_NULL);
    df_json_kv_int(&f->details, "documents", documents);
    df_json_kv_time(&f->details, "oldestAt", df_col_time(r, channel_given_up_Oldest));
    df_json_kv_time(&f->details, "newestAt", df_col_time(r, channel_given_up_Newest));
    df_json_kv_text(&f->details, "lastError", error.len > 0 ? error : DF_STR_NULL);
    df_json_kv_text(&f->details, "whatToDo", what_to_do(f, g->place, target));
    if (f->a->opt.settings.console_url)
        df_json_kv_text(&f->details, "page", page_of(f, g->place));
    alert_end(f, alert);
}

static enum df_code look_at(struct alert_finding *f, struct given_up g, const struct df_query *q,
                            struct df_db *db, struct df_err *err)
{
    enum df_code code =
        df_db_each(db,
                   DF_ANY(q, {"rows", df_int(LOOKED_AT)}, {"limit", df_int(ALERT_SUBJECTS)},
                          {"since", df_time(f->now_ms - DF_CHANNEL_GIVEN_UP_MS)},
                          {"heard_after", df_time(f->now_ms - RELAY_HEARD_MS)}),
                   describe_given_up, &g, err);

    if (g.rows >= LOOKED_AT && f->cut.count < ALERT_CUT_MAX)
        f->cut.places[f->cut.count++] = g.place;
    else if (g.rows >= LOOKED_AT)
        f->cut.any = true;
    return code;
}

enum df_code alert_find_given_up(struct alert_finding *f, struct df_db *db, struct df_err *err)
{
    const struct df_alerts *a = f->a;
    enum df_code code = DF_OK;

    for (size_t i = 0; a->delivery && code == DF_OK && i < df_delivery_channels(a->delivery); i++) {
        const struct df_channel *c = df_delivery_channel(a->delivery, i);
        if (c->claim && c->given_up && c != &a->channel) /* of the others their own part tells */
            code = look_at(f, (struct given_up){.f = f, .place = c->name, .url = c->own_target},
                           c->given_up, db, err);
    }
    for (size_t i = 0; code == DF_OK && i < a->source_count; i++)
        code = look_at(f, (struct given_up){.f = f, .place = a->sources[i].name},
                       a->sources[i].given_up, db, err);
    return code;
}
