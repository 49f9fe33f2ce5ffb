#include "admin/attention.h"

#include "access/handler.h"
#include "admin/attention.sql.h"
#include "admin/outbox.h"
#include "base/cause.h"
#include "base/lock.h"
#include "base/mem.h"

#include <stdlib.h>
#include <sys/statvfs.h>

#define KEPT_MS       2000
#define SHOWN_MAX     50
#define ITEMS_MAX     400 /* found, of which the worst are shown */
#define EACH_MAX      100 /* of one kind */
#define GIVEN_UP_ROWS 10000
#define TARGETS_MAX   20 /* of a channel that gave something up */
#define ANSWER_MAX    ((size_t)1 << 20)
#define MINUTE_MS     INT64_C(60000)
#define OLD_S         600  /* a document that waits so long is told of */
#define VERY_OLD_S    3600 /* and so long is critical, like a target that is away */
#define DISK_LOW      10   /* per cent free */
#define DISK_CRITICAL 3
#define ACTIONS_MAX   3
#define LANGS         2 /* enum df_lang */

struct item {
    const char *kind;
    bool critical;
    struct df_str title, cause; /* English (base/lang.h) */
    struct df_str client, channel, target, id, link;
    int64_t count; /* -1: it counts nothing */
    int64_t since_ms, next_ms;
    const char *actions[ACTIONS_MAX + 1];
};

struct df_attention {
    struct df_attention_options opt;
    struct df_mutex lock;
    pthread_cond_t computed;
    bool computing DF_GUARDED_BY(lock);
    int64_t at_ms DF_GUARDED_BY(lock);             /* monotonic; -1: never */
    struct df_buf text[LANGS] DF_GUARDED_BY(lock); /* the answer, by language */
};

struct df_attention *df_attention_new(const struct df_attention_options *opt)
{
    struct df_attention *a = df_calloc(1, sizeof *a);

    a->opt = *opt;
    a->at_ms = -1;
    for (size_t i = 0; i < LANGS; i++)
        df_buf_init(&a->text[i], ANSWER_MAX);
    df_mutex_init(&a->lock);
    df_cond_init(&a->computed);
    return a;
}

void df_attention_free(struct df_attention *a)
{
    if (!a)
        return;
    df_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->computed);
    for (size_t i = 0; i < LANGS; i++)
        df_buf_release(&a->text[i]);
    free(a);
}

/* --- finding --- */

struct finding {
    const struct df_attention *a;
    struct df_arena *arena;
    int64_t now_ms;
    struct item items[ITEMS_MAX];
    size_t count;
    struct item spare;                /* written to when there are too many, and never read */
    const struct df_channel *channel; /* whose query runs */
};

static struct item *add_item(struct finding *f, const char *kind, bool critical)
{
    struct item *i = f->count < ITEMS_MAX ? &f->items[f->count++] : &f->spare;

    *i = (struct item){
        .kind = kind, .critical = critical, .count = -1, .since_ms = -1, .next_ms = -1};
    return i;
}

static struct df_str kept(struct finding *f, struct df_str s)
{
    return s.len > 0 ? df_arena_str(f->arena, s) : DF_STR_NULL;
}

/* What a peer said may hold personal data; the cause is without its numbers. */
static struct df_str cause_of(struct finding *f, struct df_str error)
{
    return error.len > 0 ? df_cause_of(error, f->arena) : DF_STR_NULL;
}

/* The text of a member of an alert's details, which are written by the server. */
static struct df_str detail(struct finding *f, const struct df_json *details, const char *name)
{
    const struct df_json *member = details ? df_json_get(details, name) : NULL;

    return member && member->type == DF_JSON_STRING ? kept(f, member->text) : DF_STR_NULL;
}

/* The rules whose alerts are something of their own; what was given up and what waits is looked at
 * below, as it is now. */
static void read_alert(void *arg, struct df_result *r)
{
    struct finding *f = arg;
    struct df_str rule = df_col_text(r, attention_alerts_RuleName);
    struct df_str severity = df_col_text(r, attention_alerts_Severity);
    const struct df_json *details = NULL;
    struct df_err ignored = DF_ERR_INIT;
    bool stuck = df_str_eq(rule, DF_STR("BatchStuck"));
    bool webhook = df_str_eq(rule, DF_STR("WebhookFailing"));

    if (df_str_eq(rule, DF_STR("DeliveryGivenUp")) || df_str_eq(rule, DF_STR("DeliveryStuck")))
        return;
    if (df_json_parse(f->arena, kept(f, df_col_text(r, attention_alerts_DetailsJson)), &details,
                      &ignored) != DF_OK)
        details = NULL;
    struct item *i =
        add_item(f,
                 stuck     ? "StuckBatch"
                 : webhook ? "Webhook"
                           : "Alert",
                 df_str_eq(severity, DF_STR("critical")) || df_str_eq(severity, DF_STR("error")));
    struct df_str subject = kept(f, df_col_text(r, attention_alerts_Subject));
    i->title = kept(f, df_col_text(r, attention_alerts_Summary));
    i->cause = kept(f, rule);
    i->client = detail(f, details, "clientId");
    i->since_ms = df_col_time(r, attention_alerts_FiredAt);
    i->id = kept(f, df_col_text(r, attention_alerts_Id));
    i->actions[0] = "acknowledge";
    if (stuck) {
        i->target = subject;
        i->actions[1] = "release";
        i->link = df_arena_printf(f->arena, "#imports/" DF_STR_FMT, DF_STR_ARG(subject));
    } else if (webhook) {
        i->target = subject;
        i->link = df_arena_printf(f->arena, "#webhooks/" DF_STR_FMT, DF_STR_ARG(subject));
    } else {
        i->link = df_arena_printf(f->arena, "#alerts/" DF_STR_FMT, DF_STR_ARG(i->id));
    }
}

static struct df_str outbox_link(struct finding *f, struct df_str channel, const char *status)
{
    return df_arena_printf(f->arena, "#outbox/" DF_STR_FMT "?status=%s", DF_STR_ARG(channel),
                           status);
}

/* -1: not known. Targets of relays are none of the engine's. */
static int64_t next_probe_ms(struct finding *f, const struct item *i)
{
    struct df_delivery *d = f->a->opt.delivery;
    struct df_breaker_snapshot breaker;
    int64_t next_ms = d ? df_delivery_probe_ms(d, i->channel, i->target) : -1;

    if (next_ms < 0 && df_breakers_look(f->a->opt.breakers, i->id, &breaker) &&
        breaker.state != DF_BREAKER_CLOSED)
        next_ms = f->now_ms + breaker.retry_ms;
    return next_ms;
}

static void add_down(struct finding *f, const struct df_result *r, struct df_str channel,
                     struct df_str target)
{
    int64_t since_ms = df_col_time(r, attention_targets_DownSince);
    struct item *i = add_item(f, "Breaker", f->now_ms - since_ms >= INT64_C(1000) * VERY_OLD_S);

    i->title = df_arena_printf(f->arena, DF_STR_FMT " is unreachable", DF_STR_ARG(target));
    i->cause = cause_of(f, df_col_text(r, attention_targets_LastError));
    i->channel = channel;
    i->target = target;
    i->since_ms = since_ms;
    i->id = df_arena_printf(f->arena, DF_STR_FMT " " DF_STR_FMT, DF_STR_ARG(channel),
                            DF_STR_ARG(target));
    i->next_ms = next_probe_ms(f, i);
    i->actions[0] = "reset";
    i->link = outbox_link(f, channel, "Error");
}

static void add_paused(struct finding *f, const struct df_result *r, struct df_str channel,
                       struct df_str target)
{
    struct item *i = add_item(f, "Breaker", false);
    struct df_str by = df_col_text(r, attention_targets_PausedBy);

    i->title = df_arena_printf(f->arena, DF_STR_FMT "%s" DF_STR_FMT " is paused",
                               DF_STR_ARG(channel), target.len > 0 ? " " : "", DF_STR_ARG(target));
    i->cause = df_arena_printf(f->arena, "paused by " DF_STR_FMT, DF_STR_ARG(by));
    i->channel = channel;
    i->target = target;
    i->since_ms = df_col_time(r, attention_targets_PausedAt);
    i->actions[0] = "resume";
    i->link = outbox_link(f, channel, "Pending");
}

static void add_relay(struct finding *f, const struct df_result *r, struct df_str relay)
{
    struct item *i = add_item(f, "GivenUp", true);

    i->count = df_col_int(r, attention_targets_GivenUp);
    i->title = df_arena_printf(f->arena, "%lld events of relay " DF_STR_FMT " were given up",
                               (long long)i->count, DF_STR_ARG(relay));
    i->cause = cause_of(f, df_col_text(r, attention_targets_GivenUpError));
    i->channel = DF_STR("relay");
    i->target = relay;
    i->since_ms = df_col_time(r, attention_targets_GivenUpSince);
    i->link = DF_STR("#relays");
}

static void read_target(void *arg, struct df_result *r)
{
    struct finding *f = arg;
    struct df_str channel = kept(f, df_col_text(r, attention_targets_Channel));
    struct df_str target = kept(f, df_col_text(r, attention_targets_Target));

    if (!df_col_null(r, attention_targets_PausedAt))
        add_paused(f, r, channel, target);
    else if (!df_col_null(r, attention_targets_DownSince) && target.len > 0)
        add_down(f, r, channel, target);
    if (df_col_int(r, attention_targets_GivenUp) > 0 && df_str_eq(channel, DF_STR("relay")))
        add_relay(f, r, target);
}

/* Breakers of this process that no target tells of: OmniFlow, integrations, brokers. */
static void read_breaker(void *arg, const struct df_breaker_snapshot *s)
{
    struct finding *f = arg;

    if (s->state == DF_BREAKER_CLOSED)
        return;
    for (size_t k = 0; k < f->count; k++)
        if (df_str_eq(f->items[k].id, s->name) ||
            (f->items[k].target.len > 0 && df_str_starts(f->items[k].target, s->name)))
            return;
    struct item *i = add_item(f, "Breaker", f->now_ms - s->since_ms >= INT64_C(1000) * VERY_OLD_S);
    i->id = kept(f, s->name);
    i->title = df_arena_printf(f->arena, DF_STR_FMT " is unreachable", DF_STR_ARG(i->id));
    i->cause = df_arena_printf(f->arena, "%lld of %lld calls failed", (long long)s->failed,
                               (long long)s->calls);
    i->since_ms = s->since_ms;
    i->next_ms = f->now_ms + s->retry_ms;
    i->actions[0] = "reset";
    i->link = DF_STR("#integrations");
}

static void read_given_up(void *arg, struct df_result *r)
{
    struct finding *f = arg;
    const struct df_channel *c = f->channel;
    struct df_str target = df_col_text(r, channel_given_up_Target);
    int64_t documents = df_col_int(r, channel_given_up_Documents);

    if (documents == 0)
        return;
    if (target.len == 0)
        target = df_str_c(c->own_target);
    struct item *i = add_item(f, "GivenUp", true);
    i->count = documents;
    i->channel = df_str_c(c->name);
    i->target = kept(f, df_outbox_target_name(target));
    i->title = df_arena_printf(f->arena, "%lld %s of %s %s given up", (long long)documents,
                               documents == 1 ? "document" : "documents", c->name,
                               documents == 1 ? "was" : "were");
    i->cause = cause_of(f, df_col_text(r, channel_given_up_LastError));
    i->since_ms = df_col_time(r, channel_given_up_Oldest);
    i->actions[0] = "retry";
    i->actions[1] = "dismiss";
    i->link = outbox_link(f, i->channel, "GivenUp");
}

static enum df_code find_given_up(struct finding *f, struct df_db *db, struct df_err *err)
{
    const struct df_delivery *d = f->a->opt.delivery;
    enum df_code code = DF_OK;

    for (size_t n = 0; d && code == DF_OK && n < df_delivery_channels(d); n++) {
        f->channel = df_delivery_channel(d, n);
        if (f->channel->given_up)
            code = df_db_each(db,
                              DF_ANY(f->channel->given_up, {"rows", df_int(GIVEN_UP_ROWS)},
                                     {"limit", df_int(TARGETS_MAX)},
                                     {"since", df_time(f->now_ms - DF_CHANNEL_GIVEN_UP_MS)}),
                              read_given_up, f, err);
    }
    return code;
}

/* The newest minute of a channel comes last, and replaces what was found before. */
static void read_waiting(void *arg, struct df_result *r)
{
    struct finding *f = arg;
    struct df_str channel = df_col_text(r, attention_waiting_Channel);
    int64_t oldest_s = df_col_int(r, attention_waiting_OldestSeconds);
    int64_t at_ms = df_col_time(r, attention_waiting_PointAt);
    struct item *i = NULL;

    for (size_t k = 0; k < f->count && !i; k++)
        if (f->items[k].kind[0] == 'O' && df_str_eq(f->items[k].channel, channel))
            i = &f->items[k];
    if (!i && oldest_s < OLD_S)
        return;
    if (!i) {
        i = add_item(f, "Oldest", false);
        i->channel = kept(f, channel);
        i->link = df_str_eq(channel, DF_STR("imports"))   ? DF_STR("#imports")
                  : df_str_eq(channel, DF_STR("tickets")) ? DF_STR("#tickets")
                                                          : outbox_link(f, i->channel, "Pending");
    }
    i->count = df_col_int(r, attention_waiting_Waiting);
    i->critical = oldest_s >= VERY_OLD_S;
    i->since_ms = at_ms - oldest_s * 1000;
    i->title = df_arena_printf(
        f->arena, "%lld documents of " DF_STR_FMT " wait, the oldest for %lld minutes",
        (long long)i->count, DF_STR_ARG(channel), (long long)(oldest_s / 60));
    if (oldest_s < OLD_S)
        i->count = 0; /* it waits no longer */
}

static void read_tickets(void *arg, struct df_result *r)
{
    struct finding *f = arg;
    int64_t documents = df_col_int(r, attention_tickets_Documents);

    if (documents == 0)
        return;
    struct item *i = add_item(f, "Tickets", true);
    i->count = documents;
    i->title =
        df_arena_printf(f->arena, "%lld tickets could not be processed", (long long)documents);
    i->since_ms = df_col_time(r, attention_tickets_Since);
    i->actions[0] = "retry";
    i->actions[1] = "dismiss";
    i->link = DF_STR("#tickets?status=Error");
}

static void look_at_disk(struct finding *f)
{
    struct statvfs fs;

    if (!f->a->opt.data_dir || statvfs(f->a->opt.data_dir, &fs) != 0 || fs.f_blocks == 0)
        return;
    int64_t free_percent = (int64_t)((double)fs.f_bavail * 100.0 / (double)fs.f_blocks);
    if (free_percent >= DISK_LOW)
        return;
    struct item *i = add_item(f, "Disk", free_percent < DISK_CRITICAL);
    i->title =
        df_arena_printf(f->arena, "%lld per cent of the disk is free", (long long)free_percent);
    i->cause = DF_STR("the disk of server.data_dir is nearly full");
    i->link = DF_STR("#retention");
}

static enum df_code find_items(struct finding *f, struct df_db *db, struct df_err *err)
{
    struct df_value each = df_int(EACH_MAX);
    enum df_code code = df_db_each(db, DF_Q(attention_alerts, .limit = each), read_alert, f, err);

    if (code == DF_OK)
        code = df_db_each(db, DF_Q(attention_targets, .limit = each), read_target, f, err);
    if (code == DF_OK && f->a->opt.breakers)
        df_breakers_each(f->a->opt.breakers, read_breaker, f);
    if (code == DF_OK)
        code = find_given_up(f, db, err);
    if (code == DF_OK)
        code = df_db_each(db, DF_Q(attention_waiting, .since = df_time(f->now_ms - 3 * MINUTE_MS)),
                          read_waiting, f, err);
    if (code == DF_OK)
        code = df_db_each(db, DF_Q(attention_tickets, .limit = df_int(GIVEN_UP_ROWS)), read_tickets,
                          f, err);
    look_at_disk(f);
    return code;
}

/* --- the answer --- */

/* The worst first, then what has lasted longest. */
static int compare_items(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (x->critical != y->critical)
        return x->critical ? -1 : 1;
    return x->since_ms < y->since_ms ? -1 : x->since_ms > y->since_ms;
}

static void put_text(struct df_json_out *out, const char *name, struct df_str text)
{
    if (text.len > 0)
        df_json_kv_text(out, name, text);
}

static void write_item(struct df_json_out *out, const struct item *i)
{
    df_json_open(out, '{');
    df_json_kv_text(out, "kind", df_str_c(i->kind));
    df_json_kv_text(out, "severity", i->critical ? DF_STR("critical") : DF_STR("warning"));
    df_json_kv_told(out, "title", i->title);
    df_json_kv_told(out, "cause", i->cause.len > 0 ? i->cause : DF_STR_NULL);
    put_text(out, "clientId", i->client);
    put_text(out, "channel", i->channel);
    put_text(out, "target", i->target);
    put_text(out, "id", i->id);
    if (i->count >= 0)
        df_json_kv_int(out, "count", i->count);
    df_json_kv_time(out, "since", i->since_ms);
    if (i->next_ms >= 0)
        df_json_kv_time(out, "next", i->next_ms);
    df_json_key(out, "actions");
    df_json_open(out, '[');
    for (size_t k = 0; i->actions[k]; k++)
        df_json_text(out, df_str_c(i->actions[k]));
    df_json_close(out, ']');
    df_json_kv_text(out, "link", i->link);
    df_json_close(out, '}');
}

static void write_items(struct finding *f, struct df_json_out *out)
{
    bool any = false, critical = false;
    size_t shown = 0;

    df_json_open(out, '{');
    df_json_key(out, "items");
    df_json_open(out, '[');
    for (size_t k = 0; k < f->count; k++) {
        if (f->items[k].kind[0] == 'O' && f->items[k].count == 0)
            continue;
        any = true;
        critical = critical || f->items[k].critical;
        if (shown++ < SHOWN_MAX)
            write_item(out, &f->items[k]);
    }
    df_json_close(out, ']');
    df_json_kv_text(out, "status",
                    critical ? DF_STR("critical")
                    : any    ? DF_STR("degraded")
                             : DF_STR("ok"));
    df_json_kv_time(out, "checkedAt", f->now_ms);
    df_json_close(out, '}');
}

/* True: the answer is in `out`. False: the caller computes it, and tells by finish. */
static bool take_known(struct df_attention *a, enum df_lang lang, struct df_buf *out)
{
    df_lock(&a->lock);
    for (;;) {
        bool fresh = a->at_ms >= 0 && df_mono_ms(a->opt.clock) - a->at_ms < KEPT_MS;
        if (fresh) {
            df_buf_adds(out, df_buf_str(&a->text[lang]));
            df_unlock(&a->lock);
            return true;
        }
        if (!a->computing)
            break;
        df_cond_wait(&a->computed, &a->lock);
    }
    a->computing = true;
    df_unlock(&a->lock);
    return false;
}

/* Takes the texts; NULL: there are none. */
static void finish(struct df_attention *a, struct df_buf *texts)
{
    df_lock(&a->lock);
    a->computing = false;
    for (size_t i = 0; texts && i < LANGS; i++) {
        df_buf_release(&a->text[i]);
        a->text[i] = texts[i];
    }
    if (texts)
        a->at_ms = df_mono_ms(a->opt.clock);
    pthread_cond_broadcast(&a->computed);
    df_unlock(&a->lock);
}

/* False: one of them is too long. */
static bool write_texts(struct finding *f, struct df_buf texts[LANGS])
{
    bool good = true;

    qsort(f->items, f->count, sizeof f->items[0], compare_items);
    for (size_t i = 0; i < LANGS; i++) {
        struct df_json_out out;
        df_buf_init(&texts[i], ANSWER_MAX);
        df_json_out_init(&out, &texts[i]);
        out.lang = (enum df_lang)i;
        write_items(f, &out);
        good = good && !df_buf_failed(&texts[i]);
    }
    return good;
}

static enum df_code run_attention(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct df_attention *a = w->arg;

    if (take_known(a, w->json.lang, &w->out))
        return DF_OK;
    struct finding *f = DF_ARENA_NEW(df_req_arena(w->req), struct finding);
    f->a = a;
    f->arena = df_req_arena(w->req);
    f->now_ms = w->now_ms;
    enum df_code code = find_items(f, db, err);
    struct df_buf texts[LANGS] = {{0}};
    if (code == DF_OK && !write_texts(f, texts))
        code = df_err_set(err, DF_E_INTERNAL, "what needs a person does not fit an answer");
    if (code == DF_OK)
        df_buf_adds(&w->out, df_buf_str(&texts[w->json.lang]));
    for (size_t i = 0; code != DF_OK && i < LANGS; i++)
        df_buf_release(&texts[i]);
    finish(a, code == DF_OK ? texts : NULL);
    return code;
}

static const struct df_handler attention = {
    .max_answer = ANSWER_MAX, .tells = true, .run = run_attention};

const struct df_route df_attention_routes[] = {
    DF_ROUTE("GET", "/admin/attention", DF_BODY_NONE, DF_ACCESS_ADMIN, NULL, attention),
    {.method = NULL},
};
