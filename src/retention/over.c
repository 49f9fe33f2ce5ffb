/* What is over, by kind, in portions; and a dry run, which only counts it. */
#include "base/mem.h"
#include "retention/retention.sql.h"
#include "retention/retention_private.h"
#include "retention/rows.sqlt.h"

#include <assert.h>
#include <stdio.h>

#define STEP_MS       4 /* a request may wait for a step, as on SQLite for every writer */
#define PORTION_LEAST 50
#define PORTION_FIRST 100
#define PORTION_MOST  2000
#define STEP_BYTES    (INT64_C(1) << 20) /* of documents that a step removes */
#define DAY_MS        INT64_C(86400000)

/* --- the kinds --- */

#define DAYS(n)   offsetof(struct df_retention_settings, n##_ms), #n
#define ROWS(n)   .pick = &df_q_##n##_pick, .sure = &df_q_##n##_sure
#define OUTBOX(n) ROWS(n), .drops = {&df_q_##n##_attempts, &df_q_##n##_drop}
#define ONLY(n)   ROWS(n), .drops = {&df_q_##n##_drop}

/* In this order: a batch takes its deliveries along, a delivery its attempts. */
const struct retention_kind retention_kinds[RETENTION_KINDS] = {
    {"batches", DAYS(batches), .pick = &df_q_retention_batches, .key = DF_UUID},
    {"events", DAYS(events), ONLY(old_event), .key = DF_UUID},
    {"deliveries", DAYS(deliveries), OUTBOX(old_delivery), .key = DF_UUID},
    {"failures", DAYS(deliveries), ONLY(old_failure), .key = DF_INT},
    {"tickets", DAYS(tickets), ROWS(old_ticket), .lock = &df_q_ticket_returns_lock,
     .drops = {&df_q_old_ticket_return_attempts, &df_q_old_ticket_returns,
               &df_q_old_ticket_attempts, &df_q_old_ticket_drop},
     .key = DF_INT},
    {"acks", DAYS(acks), OUTBOX(old_ack), .key = DF_INT},
    {"counterparties", DAYS(counterparties), ONLY(old_counterparty), .key = DF_INT},
    {"integrations", DAYS(integrations), OUTBOX(old_call), .key = DF_UUID},
    {"alerts", DAYS(alerts), ROWS(old_alert), .lock = &df_q_alert_messages_lock,
     .drops = {&df_q_old_alert_attempts, &df_q_old_alert_drop}, .key = DF_UUID},
    {"audit", DAYS(audit), .key = DF_INT},
    {"attempts", DAYS(attempts), ONLY(old_attempt), .key = DF_INT},
    {"targets", DAYS(attempts), ONLY(old_target), .key = DF_INT, .any_age = true},
};
static_assert(RETENTION_KINDS <= DF_RETENTION_KINDS_MAX, "callers have room for so many");

const struct retention_kind *retention_kind_of(const struct retention_walk *w)
{
    return &retention_kinds[w->kind];
}

static int64_t kept_ms(const struct df_retention_settings *s, size_t kind)
{
    return *(const int64_t *)((const char *)s + retention_kinds[kind].kept);
}

int64_t retention_kept_ms(const struct retention_walk *w)
{
    return kept_ms(w->settings, w->kind);
}

void retention_list(const struct df_retention_settings *s, struct df_retention_count *ret)
{
    for (size_t i = 0; i < RETENTION_KINDS; i++)
        ret[i] = (struct df_retention_count){.kind = retention_kinds[i].name,
                                             .setting = retention_kinds[i].setting,
                                             .days = kept_ms(s, i) / DAY_MS};
}

/* --- a portion of keys --- */

void retention_begin(struct retention_walk *w, size_t kind)
{
    w->kind = kind;
    w->after_ms = w->after_int = 0;
    memcpy(w->after_uuid, "00000000-0000-0000-0000-000000000000", sizeof w->after_uuid);
    w->portion = PORTION_FIRST;
    w->is_last = false;
}

void retention_adapt(struct retention_walk *w, int64_t took_ms)
{
    int64_t next = took_ms > 0 ? w->portion * STEP_MS / took_ms : w->portion * 2;

    next = next > 2 * w->portion ? 2 * w->portion : next;
    w->portion = next < PORTION_LEAST ? PORTION_LEAST : next > PORTION_MOST ? PORTION_MOST : next;
}

static void read_key(void *arg, struct df_result *res)
{
    struct retention_portion *p = arg;
    const struct retention_kind *k = retention_kind_of(p->walk);
    struct df_str id = df_col_text(res, retention_pick_Id);

    if (df_col_bool(res, retention_pick_IsOver))
        p->bytes += df_col_int(res, retention_pick_Bytes);
    p->full = p->full || (!p->counting && p->bytes > STEP_BYTES && p->over > 0);
    if (p->full)
        return;
    p->seen++;
    p->last_ms = df_col_time(res, retention_pick_Since);
    /* What was written while the clock was wrong says nothing about those behind it. */
    p->young += p->last_ms >= p->before_ms && p->last_ms <= p->walk->now_ms;
    if (k->key == DF_INT)
        p->last_int = df_col_int(res, retention_pick_Id);
    else
        (void)snprintf(p->last_uuid, sizeof p->last_uuid, DF_STR_FMT, DF_STR_ARG(id));
    if (!df_col_bool(res, retention_pick_IsOver))
        return;
    if (p->batches && !df_uuid_parse(id, &p->batches[p->over]))
        return;
    p->over++;
    if (p->counting || p->batches)
        return;
    if (k->key == DF_INT)
        df_ids_add_int(&p->ids, p->last_int);
    else
        df_ids_add(&p->ids, id);
}

static enum df_code pick(struct df_db *db, struct retention_portion *p, struct df_err *err)
{
    const struct retention_walk *w = p->walk;
    const struct retention_kind *k = retention_kind_of(w);

    p->seen = p->over = p->young = p->bytes = 0;
    p->full = false;
    p->before_ms = w->now_ms - retention_kept_ms(w);
    if (!p->counting && !p->batches)
        p->ids = df_ids_for(&p->arena, (size_t)p->limit, k->key == DF_UUID);
    return df_db_each(db,
                      DF_ANY(k->pick, {"before", df_time(p->before_ms)},
                             {"after", df_time(w->after_ms)},
                             {"after_id", k->key == DF_INT ? df_int(w->after_int)
                                                           : df_uuid(df_str_c(w->after_uuid))},
                             {"limit", df_int(p->limit)}),
                      read_key, p, err);
}

static enum df_code run_pick(struct df_db *db, struct df_job *job, struct df_err *err)
{
    return pick(db, (struct retention_portion *)job, err);
}

enum df_code retention_read(struct df_store *store, struct retention_portion *p, struct df_err *err)
{
    p->job = (struct df_job){.run = run_pick};
    return df_store_read_wait(store, &p->job, err);
}

void retention_move(struct retention_walk *w, const struct retention_portion *p)
{
    w->is_last =
        !p->full && (p->seen < p->limit || (p->young == p->seen && !retention_kind_of(w)->any_age));
    if (p->seen == 0)
        return;
    w->after_ms = p->last_ms;
    w->after_int = p->last_int;
    if (retention_kind_of(w)->key == DF_UUID)
        memcpy(w->after_uuid, p->last_uuid, sizeof w->after_uuid);
}

/* --- a dry run --- */

/* Goes on to a kind that is not kept for ever. */
static bool find_kind(struct retention_dry *d, size_t kind)
{
    retention_begin(&d->walk, kind);
    while (d->walk.kind < RETENTION_KINDS && retention_kept_ms(&d->walk) == 0)
        d->walk.kind++;
    d->begun_ms = df_mono_ms(df_clock_real());
    return d->walk.kind < RETENTION_KINDS;
}

bool retention_dry_begin(struct retention_dry *d, const struct df_retention_settings *settings,
                         int64_t now_ms)
{
    d->walk.settings = settings;
    d->walk.now_ms = now_ms;
    retention_list(settings, d->counts);
    return find_kind(d, 0);
}

enum df_code retention_dry_look(struct retention_dry *d, struct df_db *db, struct df_err *err)
{
    struct retention_portion *p = &d->portion;
    int64_t begun_ms = df_mono_ms(df_clock_real());
    enum df_code code;

    *p = (struct retention_portion){.walk = &d->walk, .limit = d->walk.portion, .counting = true};
    if (retention_kind_of(&d->walk)->pick) {
        code = pick(db, p, err);
    } else {
        p->before_ms = d->walk.now_ms - retention_kept_ms(&d->walk);
        p->limit = d->most_rows > 0 ? d->most_rows : INT64_MAX;
        code = df_db_query_int(
            db, DF_Q(old_audit_total, .before = df_time(p->before_ms), .limit = df_int(p->limit)),
            &p->over, err);
    }
    d->took_ms = df_mono_ms(df_clock_real()) - begun_ms;
    return code;
}

bool retention_dry_next(struct retention_dry *d)
{
    struct df_retention_count *c = &d->counts[d->walk.kind];
    const struct retention_portion *p = &d->portion;

    c->rows += p->over;
    if (retention_kind_of(&d->walk)->pick)
        retention_move(&d->walk, p);
    else
        d->walk.is_last = p->over < p->limit;
    retention_adapt(&d->walk, d->took_ms);
    c->is_at_least = !d->walk.is_last &&
                     ((d->most_rows > 0 && c->rows >= d->most_rows) ||
                      (d->most_ms > 0 && df_mono_ms(df_clock_real()) - d->begun_ms >= d->most_ms));
    return (!d->walk.is_last && !c->is_at_least) || find_kind(d, d->walk.kind + 1);
}

struct dry_job {
    struct df_job job;
    struct retention_dry dry;
};

static enum df_code run_dry(struct df_db *db, struct df_job *job, struct df_err *err)
{
    return retention_dry_look(&((struct dry_job *)job)->dry, db, err);
}

enum df_code df_retention_count(struct df_store *store,
                                const struct df_retention_settings *settings, int64_t now_ms,
                                struct df_retention_count *ret, size_t *ret_count,
                                struct df_err *err)
{
    struct dry_job *j = df_calloc(1, sizeof *j);
    bool more = retention_dry_begin(&j->dry, settings, now_ms);
    enum df_code code = DF_OK;

    while (code == DF_OK && more) {
        j->job = (struct df_job){.run = run_dry};
        code = df_store_read_wait(store, &j->job, err);
        more = code == DF_OK && retention_dry_next(&j->dry);
    }
    memcpy(ret, j->dry.counts, sizeof j->dry.counts);
    *ret_count = RETENTION_KINDS;
    free(j);
    return code;
}
