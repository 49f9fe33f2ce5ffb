/* The three channels to the gateway, and the interface as a whole. */
#include "base/checksum.h"
#include "base/mem.h"
#include "interface/channels.sql.h"
#include "interface/interface_private.h"
#include "net/field.h"

#include <stdlib.h>

/* --- requests --------------------------------------------------------------------------------- */

#define KEY_HASH_DIGITS 16

/* What is sent of a row, and its names for the peer. */
struct parcel {
    struct df_str id;
    struct df_str reference;
    struct df_str client; /* its id; absent: nobody's */
    struct df_str url;
    struct df_str body;
    struct df_str trace_parent;
    bool old_key;    /* KeyForm 0: an older version of the program tried to send this content */
    int64_t version; /* of the content */
};

/*
 * One content has the same key on every attempt, and no other content has it: a peer drops a
 * document whose key it knows. The version tells A from A sent again after B. The hash tells two
 * rows apart that have the same id because a database was restored.
 */
static struct df_str idempotency_key(const struct df_channel *c, const struct parcel *p,
                                     struct df_arena *a)
{
    char hash[DF_CHECKSUM_LEN + 1];

    if (p->old_key)
        return df_arena_printf(a, "%s:" DF_STR_FMT, c->name, DF_STR_ARG(p->id));
    df_checksum_of(p->body, hash);
    return df_arena_printf(a, "%s:" DF_STR_FMT ":%lld:%.*s", c->name, DF_STR_ARG(p->id),
                           (long long)p->version, KEY_HASH_DIGITS, hash);
}

static enum df_code build_request(const struct df_channel *c, const struct parcel *p,
                                  struct df_arena *a, struct df_delivery_request *ret,
                                  struct df_err *err)
{
    const struct df_interface *i = c->arg;

    if (p->url.len == 0)
        return df_err_set(err, DF_E_CONFIG, "the row has no target");
    ret->url = df_arena_cstr(a, p->url);
    ret->body = df_arena_str(a, p->body);
    ret->private_too = true;
    ret->client_key = df_arena_str(a, p->client);
    ret->trace_parent = df_arena_str(a, p->trace_parent);
    ret->correlation_id = df_arena_str(a, p->reference);
    ret->correlation_header = df_field_text(a, ret->correlation_id);
    ret->idempotency_key = idempotency_key(c, p, a);
    df_headers_add(&ret->headers, DF_STR("Content-Type"), DF_STR("application/json"));
    if (i->opt.settings.api_key)
        df_headers_add(&ret->headers, df_str_c(i->opt.settings.api_key_header),
                       df_secret_str(i->opt.settings.api_key));
    return DF_OK;
}

static struct df_str or_configured(struct df_str target, const char *configured)
{
    return target.len > 0 || !configured ? target : df_str_c(configured);
}

/* An ack's content is never replaced. */
static enum df_code build_ack(const struct df_channel *c, struct df_str id, struct df_result *r,
                              struct df_arena *a, struct df_delivery_request *ret,
                              struct df_err *err)
{
    const struct df_interface *i = c->arg;
    const struct parcel p = {
        .id = id,
        .reference = df_col_text(r, ack_load_BusinessDocId),
        .client = df_col_text(r, ack_load_ClientId),
        .url =
            or_configured(df_col_text(r, ack_load_TargetUrl), i->opt.settings.functional_ack_url),
        .body = df_col_text(r, ack_load_PayloadJson),
        .trace_parent = df_col_text(r, ack_load_TraceParent),
        .old_key = df_col_int(r, ack_load_KeyForm) == 0,
        .version = 1,
    };
    return build_request(c, &p, a, ret, err);
}

static enum df_code build_return(const struct df_channel *c, struct df_str id, struct df_result *r,
                                 struct df_arena *a, struct df_delivery_request *ret,
                                 struct df_err *err)
{
    const struct df_interface *i = c->arg;
    const struct parcel p = {
        .id = id,
        .reference = df_col_text(r, ticket_return_load_BusinessDocId),
        .client = df_col_text(r, ticket_return_load_ClientId),
        .url = or_configured(df_col_text(r, ticket_return_load_TargetUrl),
                             i->opt.settings.ticket_return_url),
        .body = df_col_text(r, ticket_return_load_PayloadJson),
        .trace_parent = df_col_text(r, ticket_return_load_TraceParent),
        .old_key = df_col_int(r, ticket_return_load_KeyForm) == 0,
        .version = df_col_int(r, ticket_return_load_PayloadVersion),
    };
    return build_request(c, &p, a, ret, err);
}

static enum df_code build_gateway(const struct df_channel *c, struct df_str id, struct df_result *r,
                                  struct df_arena *a, struct df_delivery_request *ret,
                                  struct df_err *err)
{
    const struct df_interface *i = c->arg;
    const struct parcel p = {
        .id = id,
        .reference = df_col_text(r, gateway_load_BusinessDocId),
        .client = df_col_text(r, gateway_load_ClientId),
        .url = df_str_c(i->opt.settings.ticket_send_url),
        .body = df_col_text(r, gateway_load_RawPayloadJson),
        .trace_parent = df_col_text(r, gateway_load_TraceParent),
        .old_key = df_col_int(r, gateway_load_GatewaySendKeyForm) == 0,
        .version = df_col_int(r, gateway_load_PayloadVersion),
    };
    return build_request(c, &p, a, ret, err);
}

static void set_channels(struct df_interface *i)
{
    const struct df_interface_options *o = &i->opt;

    i->channels[CHANNEL_ACK] = (struct df_channel){
        .name = "functional-ack",
        .id_type = DF_INT,
        DF_CHANNEL_OUTBOX(ack),
        .build = build_ack,
        .own_target = o->settings.functional_ack_url,
        .missing = o->settings.functional_ack_url ? NULL : "gateway.functional_ack_url",
        .arg = i,
    };
    i->channels[CHANNEL_RETURN] = (struct df_channel){
        .name = "ticket-return",
        .id_type = DF_INT,
        DF_CHANNEL_OUTBOX(ticket_return),
        .lock = &df_q_return_lock,
        .mirror = &df_q_return_mirror,
        .build = build_return,
        .own_target = o->settings.ticket_return_url,
        .missing = o->settings.ticket_return_url ? NULL : "gateway.ticket_return_url",
        .arg = i,
    };
    i->channels[CHANNEL_GATEWAY] = (struct df_channel){
        .name = "ticket-gateway",
        .id_type = DF_INT,
        .claim = &df_q_gateway_claim,
        .claim_held = &df_q_gateway_claim_held,
        .claim_probe = &df_q_gateway_claim_probe,
        .held = &df_q_gateway_held,
        .load = &df_q_gateway_load,
        .ahead = &df_q_gateway_ahead,
        .rebase = &df_q_gateway_rebase,
        .sent = &df_q_gateway_sent,
        .failed = &df_q_gateway_failed,
        .deferred = &df_q_gateway_deferred,
        .sending = &df_q_gateway_sending,
        .reset = &df_q_gateway_reset,
        .lock = &df_q_gateway_lock,
        .next_due = &df_q_gateway_next_due,
        .waiting = &df_q_gateway_waiting,
        .given_up = &df_q_gateway_given_up,
        .given_up_total = &df_q_gateway_given_up_total,
        .counts = &df_q_gateway_counts,
        DF_CHANNEL_LISTS(gateway),
        .usual_status = "Sent",
        .get = &df_q_gateway_get,
        .retry = &df_q_gateway_retry,
        .stuck = &df_q_gateway_stuck,
        .retry_some = &df_q_gateway_retry_some,
        .retry_total = &df_q_gateway_retry_total,
        .dismiss = &df_q_gateway_dismiss,
        .dismiss_some = &df_q_gateway_dismiss_some,
        .dismiss_total = &df_q_gateway_dismiss_total,
        .build = build_gateway,
        .own_target = o->settings.ticket_send_url,
        .missing = o->settings.ticket_send_url ? NULL : "gateway.ticket_send_url",
        .arg = i,
    };
}

/* --- the interface ---------------------------------------------------------------------------- */

struct df_interface *df_interface_new(const struct df_interface_options *opt)
{
    struct df_interface *i = df_calloc(1, sizeof(*i));

    i->opt = *opt;
    set_channels(i);
    return i;
}

static void channel_heard(void *arg, size_t topic);

void df_interface_add_channels(struct df_interface *i, struct df_delivery *d)
{
    static const char *const topics[DF_WORK_COUNT + 1] = {
        [DF_WORK_TICKETS] = "tickets",
        [DF_WORK_ACKS] = "functional-ack",
        [DF_WORK_RETURNS] = "ticket-return",
        [DF_WORK_GATEWAY] = "ticket-gateway",
    };

    i->opt.delivery = d;
    for (size_t c = 0; c < CHANNEL_COUNT; c++)
        df_delivery_add(d, &i->channels[c]);
    if (i->opt.notify_url)
        i->notifier = df_notifier_new(&(struct df_notifier_options){
            .url = i->opt.notify_url, .topics = topics, .heard = channel_heard, .arg = i});
}

const struct df_interface_options *df_interface_options_of(const struct df_interface *i)
{
    return &i->opt;
}

void df_interface_start(struct df_interface *i)
{
    ticket_processing_start(i);
}

void df_interface_stop(struct df_interface *i)
{
    if (!i)
        return;
    /* The notifier wakes the engine, so it stops first. Jobs of the store may still call it. */
    df_notifier_stop(i->notifier);
    df_loop_stop(&i->processing);
}

void df_interface_free(struct df_interface *i)
{
    if (!i)
        return;
    df_interface_stop(i);
    df_notifier_free(i->notifier);
    df_loop_release(&i->processing);
    free(i);
}

/* How long after they are due rows are committed whose time nobody tells. */
#define BEHIND_MS 500

static void wake_own_workers(struct df_interface *i, enum df_interface_work w, int64_t due_ms)
{
    switch (w) {
    case DF_WORK_TICKETS:
        df_loop_wake(&i->processing);
        return;
    case DF_WORK_ACKS:
        df_delivery_wake_since(i->opt.delivery, &i->channels[CHANNEL_ACK], due_ms);
        return;
    case DF_WORK_RETURNS:
        df_delivery_wake_since(i->opt.delivery, &i->channels[CHANNEL_RETURN], due_ms);
        return;
    case DF_WORK_GATEWAY:
        df_delivery_wake_since(i->opt.delivery, &i->channels[CHANNEL_GATEWAY], due_ms);
        return;
    case DF_WORK_COUNT:
        return;
    }
}

void df_interface_wake_since(struct df_interface *i, enum df_interface_work w, int64_t due_ms)
{
    wake_own_workers(i, w, due_ms);
    df_notifier_tell(i->notifier, w);
}

void df_interface_wake(struct df_interface *i, enum df_interface_work w)
{
    df_interface_wake_since(i, w, df_wall_ms(i->opt.clock) - BEHIND_MS);
}

static void channel_heard(void *arg, size_t topic)
{
    const struct df_interface *i = arg;

    wake_own_workers(arg, (enum df_interface_work)topic, df_wall_ms(i->opt.clock) - BEHIND_MS);
}
