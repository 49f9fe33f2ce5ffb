/* What a purge removes: batches in groups, by batches.h; then a client's other documents, a kind
 * after the other, by their keys behind a cursor. */
#include "retention/batches.h"
#include "retention/erase.h"
#include "retention/purge.sql.h"
#include "retention/purge_private.h"
#include "retention/retention.sql.h"
#include "store/rows.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define STEP_ROWS 200
#define SAVE_MS   5000 /* the lease is renewed this often */
#define NO_UUID   "00000000-0000-0000-0000-000000000000"

/* --- kinds of documents, in the order in which they go --- */

struct doc_kind {
    enum df_purged counted;
    bool is_uuid;
    const struct df_query *total, *some, *find, *sure, *attempts, *subjects, *remove;
};

#define DOC_KIND(counted_, is_uuid_, name)                                                         \
    {                                                                                              \
        .counted = (counted_), .is_uuid = (is_uuid_), .total = &df_q_##name##_total,               \
        .some = &df_q_##name##_some, .find = &df_q_##name##_find, .sure = &df_q_##name##_sure,     \
        .attempts = &df_q_##name##_attempts, .subjects = &df_q_##name##_subjects,                  \
        .remove = &df_q_##name##_remove                                                            \
    }

static const struct doc_kind doc_kinds[] = {
    DOC_KIND(DF_PURGED_TICKETS, false, purge_tickets),
    DOC_KIND(DF_PURGED_ACKS, false, purge_acks),
    DOC_KIND(DF_PURGED_COUNTERPARTIES, false, purge_counterparties),
    DOC_KIND(DF_PURGED_EVENTS, true, purge_events),
    DOC_KIND(DF_PURGED_CALLS, true, purge_calls),
    DOC_KIND(DF_PURGED_DELIVERIES, true, purge_webhooks),
    DOC_KIND(DF_PURGED_FAILURES, false, purge_failures),
};
#define DOC_KINDS (sizeof doc_kinds / sizeof doc_kinds[0])

static void add_counts(struct df_purge_counts *sum, const struct df_purge_counts *n)
{
    for (size_t i = 0; i < DF_PURGED_COUNT; i++)
        sum->n[i] += n->n[i];
}

static struct df_value client_of(const struct purge_job *j)
{
    return df_uuid(df_str_c(j->target));
}

/* --- estimates --- */

static const char *batch_state(int64_t status)
{
    static const char *const names[] = {"Pending", "Processing", "Scheduled"};

    return status >= 0 && status < 3 ? names[status] : "over";
}

struct counted_batch {
    struct df_purge_counts counts;
    int64_t status;
    int64_t waiting; /* events on their way */
};

static void read_batch_counts(void *arg, struct df_result *r)
{
    struct counted_batch *b = arg;
    int64_t *n = b->counts.n;

    b->status = df_col_int(r, purge_batch_Status);
    b->waiting = df_col_int(r, purge_batch_Waiting);
    n[DF_PURGED_BATCHES] = 1;
    n[DF_PURGED_FILES] = df_col_int(r, purge_batch_Files);
    n[DF_PURGED_ITEMS] = df_col_int(r, purge_batch_Items);
    n[DF_PURGED_CHUNKS] = df_col_int(r, purge_batch_Chunks);
    n[DF_PURGED_KEPT] = df_col_int(r, purge_batch_Kept);
    n[DF_PURGED_DELIVERIES] = df_col_int(r, purge_batch_Deliveries);
    n[DF_PURGED_ATTEMPTS] = df_col_int(r, purge_batch_Attempts);
    n[DF_PURGED_FAILURES] = df_col_int(r, purge_batch_Failures);
}

static enum df_code count_batch(struct df_db *db, struct df_str id, struct counted_batch *ret,
                                bool *ret_found, struct df_err *err)
{
    *ret = (struct counted_batch){0};
    return df_db_one(db, DF_Q(purge_batch_counts, .id = df_uuid(id)), read_batch_counts, ret,
                     ret_found, err);
}

static enum df_code estimate_batch(struct df_db *db, struct purge_job *j, struct df_err *err)
{
    struct counted_batch b;
    bool found = false;
    enum df_code code = count_batch(db, df_str_c(j->target), &b, &found, err);

    if (code != DF_OK)
        return code;
    if (!found)
        return df_err_set(err, DF_E_NOT_FOUND, "There is no batch %s.", j->target);
    if (b.status < 3)
        return df_err_set(err, DF_E_CONFLICT, "The batch is %s. Only one that is over can go.",
                          batch_state(b.status));
    if (b.waiting > 0)
        return df_err_set(err, DF_E_CONFLICT, "%lld events of the batch are on their way.",
                          (long long)b.waiting);
    j->counts = b.counts;
    return DF_OK;
}

struct doc_total {
    int64_t documents, waiting, attempts;
};

static void read_doc_total(void *arg, struct df_result *r)
{
    struct doc_total *t = arg;

    t->documents = df_col_int(r, purge_total_Documents);
    t->waiting = df_col_int(r, purge_total_Waiting);
    t->attempts = df_col_int(r, purge_total_Attempts);
}

/* Events of the client's batches are among those of its subscriptions. */
static enum df_code estimate_client(struct df_db *db, struct purge_job *j, struct df_err *err)
{
    int64_t *n = j->counts.n;
    enum df_code code = DF_OK;

    n[DF_PURGED_DELIVERIES] = n[DF_PURGED_ATTEMPTS] = n[DF_PURGED_FAILURES] = 0;
    for (size_t i = 0; i < DOC_KINDS && code == DF_OK; i++) {
        const struct doc_kind *k = &doc_kinds[i];
        struct doc_total t = {0};
        code = df_db_one(db, DF_ANY(k->total, {"client", client_of(j)}), read_doc_total, &t, NULL,
                         err);
        n[k->counted] += t.documents - t.waiting;
        n[DF_PURGED_ATTEMPTS] += t.attempts;
        j->skipped.n[k->counted] += t.waiting;
    }
    int64_t failures = 0;
    if (code == DF_OK)
        code = df_db_query_int(db, DF_Q(purge_returns_total, .client = client_of(j)),
                               &n[DF_PURGED_RETURNS], err);
    if (code == DF_OK)
        code = df_db_query_int(db, DF_Q(purge_failures_of, .client = client_of(j)), &failures, err);
    n[DF_PURGED_FAILURES] += failures;
    return code;
}

/* --- saving --- */

static enum df_code run_save(struct df_db *db, struct df_purge *p, struct purge_job *j, void *arg,
                             struct df_err *err)
{
    (void)arg;
    return purge_job_save(db, j, df_wall_ms(p->opt.clock), err);
}

enum df_code purge_save(struct df_purge *p, struct purge_job *j, struct df_err *err)
{
    enum df_code code = purge_write(&(struct purge_tx){.p = p, .j = j, .run = run_save}, err);

    if (code == DF_OK) {
        j->saved_ms = df_mono_ms(p->opt.clock);
        purge_count_metrics(&j->told, &j->counts);
        j->told = j->counts;
    }
    return code;
}

/* The next phase begins at its beginning. */
static void end_phase(struct purge_job *j, int64_t phases)
{
    j->cursor[0] = '\0';
    j->phase++;
    j->done = j->phase >= phases;
}

/* --- batches --- */

struct found {
    size_t count;
    struct {
        struct df_uuid id; /* or a number */
        bool waits;
    } at[STEP_ROWS];
};

static void read_found(void *arg, struct df_result *r)
{
    struct found *f = arg;

    if (f->count == STEP_ROWS)
        return;
    (void)snprintf(f->at[f->count].id.text, sizeof f->at[f->count].id.text, DF_STR_FMT,
                   DF_STR_ARG(df_col_text(r, purge_found_Id)));
    f->at[f->count++].waits = df_col_int(r, purge_found_Waits) != 0;
}

static struct df_value cursor_value(const struct purge_job *j, bool is_uuid)
{
    int64_t number = 0;

    if (is_uuid)
        return df_uuid(j->cursor[0] ? df_str_c(j->cursor) : DF_STR(NO_UUID));
    (void)df_str_to_i64(df_str_c(j->cursor), &number);
    return df_int(number);
}

static enum df_code find_batches(struct df_db *db, struct purge_job *j, struct found *f,
                                 struct df_err *err)
{
    struct df_value after = cursor_value(j, true), limit = df_int(PURGE_GROUP_MAX);

    f->count = 0;
    if (j->kind == DF_PURGE_CLIENT)
        return df_db_each(
            db,
            DF_Q(purge_client_batches_find, .after = after, .client = client_of(j), .limit = limit),
            read_found, f, err);
    if (j->kind == DF_PURGE_OLDER)
        return df_db_each(db,
                          DF_Q(purge_old_batches_find, .after = after,
                               .cutoff = df_time(j->cutoff_ms), .limit = limit),
                          read_found, f, err);
    if (!j->cursor[0]) {
        (void)df_uuid_parse(df_str_c(j->target), &f->at[0].id);
        f->at[0].waits = false;
        f->count = 1;
    }
    return DF_OK;
}

/* The next batches, with what they have. */
static enum df_code run_gather(struct df_db *db, struct df_purge *p, struct purge_job *j, void *arg,
                               struct df_err *err)
{
    struct found *f = arg;
    enum df_code code = find_batches(db, j, f, err);

    (void)p;
    j->group_count = 0;
    for (size_t i = 0; i < f->count && code == DF_OK; i++) {
        struct counted_batch b;
        bool found = false;
        if (f->at[i].waits)
            continue;
        code = count_batch(db, df_uuid_str(&f->at[i].id), &b, &found, err);
        f->at[i].waits = b.waiting > 0;
        if (code == DF_OK && found && b.waiting == 0)
            j->group[j->group_count++] =
                (struct purge_batch){.id = f->at[i].id, .counts = b.counts};
    }
    return code;
}

/* --- how much it is --- */

/* Batch by batch: of all of them together it might take longer than a statement may. */
static enum df_code estimate_batches(struct df_purge *p, struct purge_job *j, struct df_err *err)
{
    struct found *f = malloc(sizeof *f);
    enum df_code code = DF_OK;

    if (!f)
        return df_err_set(err, DF_E_BUSY, "no memory");
    do {
        code = purge_read(&(struct purge_tx){.p = p, .j = j, .run = run_gather, .arg = f}, err);
        for (size_t i = 0; code == DF_OK && i < j->group_count; i++)
            add_counts(&j->counts, &j->group[i].counts);
        for (size_t i = 0; code == DF_OK && i < f->count; i++)
            j->skipped.n[DF_PURGED_BATCHES] += f->at[i].waits;
        if (code == DF_OK && f->count > 0)
            (void)snprintf(j->cursor, sizeof j->cursor, "%s", f->at[f->count - 1].id.text);
        if (code == DF_OK && f->count > 0 && atomic_load(&p->stopping))
            code = df_err_set(err, DF_E_BUSY, "The server is stopping.");
    } while (code == DF_OK && f->count > 0);
    free(f);
    j->cursor[0] = '\0';
    j->group_count = 0;
    return code;
}

static enum df_code run_estimate(struct df_db *db, struct df_purge *p, struct purge_job *j,
                                 void *arg, struct df_err *err)
{
    (void)p;
    (void)arg;
    switch (j->kind) {
    case DF_PURGE_BATCH:
        return estimate_batch(db, j, err);
    case DF_PURGE_CLIENT:
        return estimate_client(db, j, err);
    case DF_PURGE_OLDER:
        return DF_OK;
    case DF_PURGE_SUBJECT:
        return erase_estimate(db, j, err);
    }
    return df_err_set(err, DF_E_INTERNAL, "no such kind of purge");
}

enum df_code purge_estimate(struct df_purge *p, struct purge_job *j, struct df_err *err)
{
    enum df_code code = DF_OK;

    j->counts = j->skipped = (struct df_purge_counts){0};
    if (j->kind == DF_PURGE_CLIENT || j->kind == DF_PURGE_OLDER)
        code = estimate_batches(p, j, err);
    if (code != DF_OK)
        return code;
    return purge_read(&(struct purge_tx){.p = p, .j = j, .run = run_estimate}, err);
}

static enum df_code run_some(struct df_db *db, struct df_purge *p, struct purge_job *j, void *arg,
                             struct df_err *err)
{
    struct df_value limit = df_int(PURGE_LITTLE + 1);
    int64_t *sum = arg, count = 0;

    (void)p;
    *sum = 0;
    if (j->kind == DF_PURGE_OLDER)
        return df_db_query_int(
            db, DF_Q(purge_old_batches_some, .cutoff = df_time(j->cutoff_ms), .limit = limit), sum,
            err);
    enum df_code code = df_db_query_int(
        db, DF_Q(purge_client_batches_some, .client = client_of(j), .limit = limit), sum, err);
    for (size_t i = 0; i < DOC_KINDS && code == DF_OK && *sum <= PURGE_LITTLE; i++) {
        code = df_db_query_int(
            db, DF_ANY(doc_kinds[i].some, {"client", client_of(j)}, {"limit", limit}), &count, err);
        *sum += count;
    }
    return code;
}

enum df_code purge_is_little(struct df_purge *p, struct purge_job *j, bool *ret, struct df_err *err)
{
    int64_t sum = 0;
    enum df_code code = DF_OK;

    if (j->kind == DF_PURGE_CLIENT || j->kind == DF_PURGE_OLDER) {
        code = purge_read(&(struct purge_tx){.p = p, .j = j, .run = run_some, .arg = &sum}, err);
    } else {
        code = purge_estimate(p, j, err);
        for (size_t i = 0; i < DF_PURGED_COUNT; i++)
            sum += j->counts.n[i];
    }
    *ret = sum <= PURGE_LITTLE;
    return code;
}

static enum df_code gather_batches(struct df_purge *p, struct purge_job *j, struct df_err *err)
{
    struct found *f = malloc(sizeof *f);
    if (!f)
        return df_err_set(err, DF_E_BUSY, "no memory");
    enum df_code code =
        purge_read(&(struct purge_tx){.p = p, .j = j, .run = run_gather, .arg = f}, err);

    if (code == DF_OK) {
        for (size_t i = 0; i < f->count; i++)
            j->skipped.n[DF_PURGED_BATCHES] += f->at[i].waits;
        if (f->count == 0)
            end_phase(j, j->kind == DF_PURGE_CLIENT ? 1 + DOC_KINDS : 1);
        else
            (void)snprintf(j->cursor, sizeof j->cursor, "%s", f->at[f->count - 1].id.text);
        code = purge_save(p, j, err);
    }
    free(f);
    return code;
}

/* A step of the last batch in hand. Its counts are added when it is gone, whoever removed it. */
static enum df_code remove_batch(struct df_purge *p, struct purge_job *j, struct df_err *err)
{
    const struct df_remove_options opt = {
        .store = p->opt.store, .storage = p->opt.storage, .clock = p->opt.clock};
    const struct purge_batch *b = &j->group[j->group_count - 1];
    struct df_removed removed = {0};
    bool gone = false;
    enum df_code code = df_batch_remove_step(&opt, &b->id, &removed, &gone, err);

    if (code == DF_E_CONFLICT)
        j->skipped.n[DF_PURGED_BATCHES]++;
    else if (code != DF_OK && code != DF_E_NOT_FOUND)
        return code;
    if (gone || code == DF_E_NOT_FOUND)
        add_counts(&j->counts, &b->counts);
    if (gone || code != DF_OK)
        j->group_count--;
    if (j->group_count == 0 || df_mono_ms(p->opt.clock) - j->saved_ms > SAVE_MS)
        return purge_save(p, j, err);
    return DF_OK;
}

/* --- a client's documents --- */

struct doc_step {
    const struct doc_kind *kind;
    struct found found;
    struct df_purge_counts counts, skipped; /* before the step */
};

static enum df_code run_find(struct df_db *db, struct df_purge *p, struct purge_job *j, void *arg,
                             struct df_err *err)
{
    struct doc_step *s = arg;

    (void)p;
    s->found.count = 0;
    return df_db_each(db,
                      DF_ANY(s->kind->find, {"after", cursor_value(j, s->kind->is_uuid)},
                             {"client", client_of(j)}, {"limit", df_int(STEP_ROWS)}),
                      read_found, &s->found, err);
}

static void add_id(void *arg, struct df_result *r)
{
    df_ids_add(arg, df_col_text(r, purge_found_Id));
}

/* Returns of tickets, and failures of webhooks, go first. */
static enum df_code remove_dependants(struct df_db *db, struct purge_job *j, enum df_purged kind,
                                      struct df_value ids, struct df_arena *a, struct df_err *err)
{
    int64_t *n = j->counts.n, count = 0;
    struct df_ids returns = df_ids_for(a, (size_t)4 * STEP_ROWS, false);

    if (kind == DF_PURGED_DELIVERIES) {
        enum df_code code = df_db_exec(db, DF_Q(purge_webhook_failures, .ids = ids), &count, err);
        n[DF_PURGED_FAILURES] += count;
        return code;
    }
    if (kind != DF_PURGED_TICKETS)
        return DF_OK;
    enum df_code code =
        df_db_each(db, DF_Q(purge_tickets_returns, .ids = ids), add_id, &returns, err);
    if (code != DF_OK)
        return code;
    struct df_value gone = df_ids_value(&returns);
    code = df_db_exec(db, DF_Q(purge_return_attempts, .ids = gone), &count, err);
    n[DF_PURGED_ATTEMPTS] += count;
    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(purge_return_remove, .ids = gone), &count, err);
    n[DF_PURGED_RETURNS] += count;
    return code;
}

static void add_sure(void *arg, struct df_result *r)
{
    df_ids_add(arg, df_col_text(r, purge_sure_Id));
}

static void read_locked(void *arg, struct df_result *r)
{
    (void)arg;
    (void)r;
}

/* Those of `ids` that still do not wait, locked: one may have come again since it was found. Of a
 * ticket the returns are locked too, and then looked at. */
static enum df_code find_sure(struct df_db *db, const struct doc_kind *k, struct df_arena *a,
                              struct df_value *ids, struct df_err *err)
{
    for (int look = 0; look < 2; look++) {
        struct df_ids sure = df_ids_for(a, STEP_ROWS, k->is_uuid);
        enum df_code code = df_db_each(db, DF_ANY(k->sure, {"ids", *ids}), add_sure, &sure, err);
        *ids = df_ids_value(&sure);
        if (code != DF_OK || k->counted != DF_PURGED_TICKETS)
            return code;
        if (look == 0)
            code = df_db_each(db, DF_Q(ticket_returns_lock, .ids = *ids), read_locked, NULL, err);
        if (code != DF_OK)
            return code;
    }
    return DF_OK;
}

static enum df_code remove_found(struct df_db *db, struct purge_job *j, const struct doc_step *s,
                                 struct df_arena *a, struct df_err *err)
{
    const struct doc_kind *k = s->kind;
    struct df_ids ids = df_ids_for(a, STEP_ROWS, k->is_uuid);
    int64_t attempts = 0, removed = 0;

    for (size_t i = 0; i < s->found.count; i++)
        if (!s->found.at[i].waits)
            df_ids_add(&ids, df_str_c(s->found.at[i].id.text));
    struct df_value list = df_ids_value(&ids);
    enum df_code code = find_sure(db, k, a, &list, err);
    if (code == DF_OK)
        code = df_db_exec(db, DF_ANY(k->attempts, {"ids", list}), &attempts, err);
    if (code == DF_OK)
        code = df_db_exec(db, DF_ANY(k->subjects, {"ids", list}), NULL, err);
    if (code == DF_OK)
        code = remove_dependants(db, j, k->counted, list, a, err);
    if (code == DF_OK)
        code = df_db_exec(db, DF_ANY(k->remove, {"ids", list}), &removed, err);
    j->counts.n[DF_PURGED_ATTEMPTS] += attempts;
    j->counts.n[k->counted] += removed;
    j->skipped.n[k->counted] += (int64_t)s->found.count - removed;
    return code;
}

static enum df_code run_remove(struct df_db *db, struct df_purge *p, struct purge_job *j, void *arg,
                               struct df_err *err)
{
    struct doc_step *s = arg;
    struct df_arena arena;
    enum df_code code = DF_OK;

    j->counts = s->counts;
    j->skipped = s->skipped;
    df_arena_init(&arena);
    if (s->found.count > 0)
        code = remove_found(db, j, s, &arena, err);
    df_arena_release(&arena);
    return code == DF_OK ? purge_job_save(db, j, df_wall_ms(p->opt.clock), err) : code;
}

static enum df_code remove_documents(struct df_purge *p, struct purge_job *j, struct df_err *err)
{
    struct doc_step *s = calloc(1, sizeof *s);
    if (!s)
        return df_err_set(err, DF_E_BUSY, "no memory");
    s->kind = &doc_kinds[j->phase - 1];
    s->counts = j->counts;
    s->skipped = j->skipped;
    enum df_code code =
        purge_read(&(struct purge_tx){.p = p, .j = j, .run = run_find, .arg = s}, err);
    if (code == DF_OK) {
        if (s->found.count == 0)
            end_phase(j, 1 + DOC_KINDS);
        else
            (void)snprintf(j->cursor, sizeof j->cursor, "%s",
                           s->found.at[s->found.count - 1].id.text);
        code = purge_write(&(struct purge_tx){.p = p, .j = j, .run = run_remove, .arg = s}, err);
    }
    if (code == DF_OK) {
        purge_count_metrics(&j->told, &j->counts);
        j->told = j->counts;
    }
    free(s);
    return code;
}

/* --- a step --- */

static enum df_code step_on(struct df_purge *p, struct purge_job *j, struct df_err *err)
{
    if (j->kind == DF_PURGE_SUBJECT)
        return erase_step(p, j, err);
    if (j->group_count > 0)
        return remove_batch(p, j, err);
    if (j->cancelling) {
        j->done = true;
        return purge_save(p, j, err);
    }
    return j->phase == 0 ? gather_batches(p, j, err) : remove_documents(p, j, err);
}

enum df_code purge_step(struct df_purge *p, struct purge_job *j, struct df_err *err)
{
    enum df_code code = step_on(p, j, err);

    return code == DF_E_CANCELLED && j->is_lost ? DF_OK : code;
}
