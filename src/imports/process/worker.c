/*
 * Which worker works on which batch.
 *
 * Who works on a batch holds its lock (src/locks): in exclusive mode the one of the installation,
 * in concurrent mode one for each batch, named by client and batch. So a batch in work whose lock
 * could be taken has no owner any more, and is taken over. A worker reads the candidates, takes the
 * lock of one, and claims it in a transaction that looks at everything again. No transaction waits
 * for a lock.
 *
 * Every claim first locks one row of BatchLocks, which also gives the token
 * (src/delivery/README.md, lease and fence). So claims follow one another, and each sees what the
 * others have committed. In exclusive mode that row also names the batch in work. In concurrent
 * mode the batches' own rows do, and a client has as many batches in work as its policy allows.
 *
 * A batch in work has LockedAt, which its owner renews. In concurrent mode the lock of another
 * process's batch is tried only when LockedAt was seen to stand still. A process of the release
 * before holds no lock: it is known to have died by an old LockedAt (lock_timeout_minutes), or at
 * once if it had the same data directory (instances.c).
 *
 * Clients take turns (imports.fair_seconds): the client whose last turn is longest ago is next, and
 * its batches are taken in their order. A batch that gave way is Processing, has no owner, and has
 * GaveWayAt.
 *
 * A worker takes only batches whose file it can read. A batch whose file is in the data directory
 * of another machine is left to that machine; if no machine claims it before the lock's timeout, it
 * is taken and fails.
 */
#include "access/policies.h"
#include "base/instance.h"
#include "base/mem.h"
#include "imports/announce.h"
#include "imports/batch_event.h"
#include "imports/process/process.sql.h"
#include "imports/process/process_private.h"
#include "webhooks/webhooks.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CANDIDATES     1024
#define OF_CLIENT      32 /* waiting candidates of one client */
#define BACKOFF_MIN_MS 200
#define BACKOFF_MAX_MS 5000
#define CALL_PATH      "/api/leads/import"
#define PATH_MAX_BYTES 4096
#define TRIES_MAX      16 /* locks that one look tries */
#define LOCK_OF_ALL    "exclusive"
#define LEAVE_MS       1500 /* for calls under way when the process ends */

/* --- claiming --------------------------------------------------------------------------------- */

struct candidate {
    struct df_uuid id;
    struct df_uuid client;
    int64_t status;
    struct df_str file_name;
    struct df_str path;
    int64_t locked_ms; /* -1: not locked */
    struct df_str host;
    int64_t attempt;
    int64_t rules;       /* 0: not known yet */
    int64_t gave_way_ms; /* -1: it did not */
    int64_t outage_ms;   /* since when OmniFlow takes nothing of it; -1: it does */
    int64_t waiting_ms;  /* since when it waits for OmniFlow; -1: it does not */
    int64_t outage_tries;
    int64_t token;
    bool covered; /* its owner holds a lock */
    size_t place; /* in the order of the query */
};

/* A batch of another process, which holds its lock or has died. */
struct import_watched {
    struct df_uuid id;
    int64_t token;
    int64_t locked_ms;
    int64_t since_ms; /* monotonic: these are the same, or the lock was refused */
};

/* A batch that this process could take if it could read the file. */
struct import_unread {
    struct df_uuid id;
    int64_t since_ms; /* monotonic: since when */
};

struct claim {
    struct df_job job;
    struct df_imports *i;
    struct df_arena arena;
    struct candidate *found;
    size_t count;
    struct import_unread *unread; /* that this claim finds */
    size_t unread_count;
    struct import_watched *watched; /* likewise */
    size_t watched_count;
    struct candidate choices[TRIES_MAX]; /* that may be taken if their locks can be */
    size_t choice_count;
    const struct df_uuid *locked; /* the batch whose lock was taken; NULL: not in concurrent mode */
    struct import_peer peer;      /* what is known of OmniFlow */
    bool probing;                 /* another batch of this process probes */
    struct import_batch *b;
    bool took;
    bool told;   /* there are webhooks to deliver */
    int64_t due; /* scheduled batches that are Pending now */
};

/* Whether a worker of this process has the batch. */
static bool is_worked_on_here(struct df_imports *i, const struct df_uuid *id)
{
    const struct import_batch *b;
    df_lock(&i->lock);
    DF_LIST_EACH (b, &i->working, link)
        if (strcmp(b->id.text, id->text) == 0)
            break;
    df_unlock(&i->lock);
    return b != NULL;
}

/* Whether the batch has an owner, as far as its row tells. */
static bool is_live(struct df_imports *i, const struct candidate *c, int64_t now_ms)
{
    if (c->status != DF_BATCH_PROCESSING || c->host.len == 0)
        return false;
    /* The clock may have been set, so it is not asked. A batch of this process that no worker has
     * was dropped, and waits to be claimed again. */
    if (import_host_is_this(i, c->host))
        return is_worked_on_here(i, &c->id);
    if (c->locked_ms < 0 || now_ms - c->locked_ms >= i->opt.settings.lock_timeout_ms)
        return false;
    return !import_instance_is_gone(i, c->host);
}

/* The same for one who has the lock that is needed, or tries to get it. In exclusive mode that is
 * the one lock, and so its owner has it no more. */
static bool has_owner(struct df_imports *i, const struct candidate *c, int64_t now_ms)
{
    if (c->covered && !import_is_concurrent(i) && !import_host_is_this(i, c->host))
        return false;
    return is_live(i, c, now_ms);
}

/* Whether this process can read the file. A later attempt needs none. */
static bool is_readable(const struct df_imports *i, const struct candidate *c)
{
    char path[DF_STORAGE_LOCATION_MAX + 1];
    char file[PATH_MAX_BYTES];
    char name[DF_STORAGE_NAME_MAX + 1];

    if (c->attempt > 1 || df_str_starts(c->path, DF_STR("s3://")))
        return true;
    df_storage_path(i->opt.storage, &c->id, path);
    df_storage_file_name(c->file_name, name);
    (void)snprintf(file, sizeof(file), "%s/original/%s", path, name);
    return access(file, R_OK) == 0;
}

/* Whether the batch has an owner, or in exclusive mode any other. */
static bool must_wait(const struct claim *cl, const struct candidate *c, int64_t now_ms)
{
    bool live = is_live(cl->i, c, now_ms);

    for (size_t k = 0; k < cl->count && !live && !import_is_concurrent(cl->i); k++)
        live = is_live(cl->i, &cl->found[k], now_ms);
    return live;
}

/* Whether no process has claimed the batch for so long that none can read its file. Time in which
 * it had to wait for other batches does not count: its own machine could not claim it either. */
static bool is_abandoned(struct claim *cl, const struct candidate *c, int64_t wall_ms)
{
    const struct df_imports *i = cl->i;
    int64_t now_ms = df_mono_ms(i->opt.clock);

    if (must_wait(cl, c, wall_ms))
        return false;
    struct import_unread *u = &cl->unread[cl->unread_count++];

    *u = (struct import_unread){.id = c->id, .since_ms = now_ms};
    for (size_t k = 0; k < i->unread_count; k++) {
        if (strcmp(i->unread[k].id.text, c->id.text) == 0)
            u->since_ms = i->unread[k].since_ms;
    }
    return now_ms - u->since_ms >= i->opt.settings.lock_timeout_ms;
}

/* Watches a batch in work, and tells whether its owner has not renewed it for so long that its lock
 * is worth a try: as this process has seen it, or by the owner's clock, which may be wrong. */
static bool is_unrenewed(struct claim *cl, const struct candidate *c)
{
    const struct df_imports *i = cl->i;
    int64_t now_ms = df_mono_ms(i->opt.clock);
    struct import_watched *w = &cl->watched[cl->watched_count++];

    assert(cl->watched_count <= CANDIDATES);
    *w = (struct import_watched){
        .id = c->id, .token = c->token, .locked_ms = c->locked_ms, .since_ms = now_ms};
    for (size_t k = 0; k < i->watched_count; k++) {
        const struct import_watched *old = &i->watched[k];
        if (strcmp(old->id.text, c->id.text) == 0 && old->token == c->token &&
            old->locked_ms == c->locked_ms)
            w->since_ms = old->since_ms;
    }
    return now_ms - w->since_ms >= 2 * import_renew_ms(i) ||
           df_wall_ms(i->opt.clock) - c->locked_ms >= 2 * import_renew_ms(i);
}

/* Whether the lock alone can tell if the owner is alive. */
static bool is_doubtful(struct claim *cl, const struct candidate *c)
{
    if (!c->covered || !import_is_concurrent(cl->i) || import_host_is_this(cl->i, c->host))
        return false;
    return cl->locked ? strcmp(cl->locked->text, c->id.text) == 0 : is_unrenewed(cl, c);
}

static void read_candidate(void *arg, struct df_result *r)
{
    struct claim *cl = arg;
    struct candidate *c = &cl->found[cl->count++];

    assert(cl->count <= CANDIDATES);
    (void)df_uuid_parse(df_col_text(r, claim_candidates_Id), &c->id);
    (void)df_uuid_parse(df_col_text(r, claim_candidates_ClientId), &c->client);
    c->status = df_col_int(r, claim_candidates_Status);
    c->file_name = df_arena_str(&cl->arena, df_col_text(r, claim_candidates_FileName));
    c->path = df_arena_str(&cl->arena, df_col_text(r, claim_candidates_UploadPath));
    c->locked_ms = df_col_time(r, claim_candidates_LockedAt);
    c->host = df_arena_str(&cl->arena, df_col_text(r, claim_candidates_ProcessingHost));
    c->attempt = df_col_int(r, claim_candidates_Attempt);
    c->rules = df_col_int(r, claim_candidates_CutRules);
    c->gave_way_ms = df_col_time(r, claim_candidates_GaveWayAt);
    c->outage_ms = df_col_time(r, claim_candidates_OutageSince);
    c->waiting_ms = df_col_time(r, claim_candidates_WaitingSince);
    c->outage_tries = df_col_int(r, claim_candidates_OutageTries);
    c->token = df_col_int(r, claim_candidates_FencingToken);
    c->covered = c->token > 0 && df_col_int(r, claim_candidates_LockToken) == c->token;
    c->place = cl->count - 1;
}

static enum df_code read_candidates(struct df_db *db, struct claim *cl, struct df_err *err)
{
    cl->found = DF_ARENA_ARRAY(&cl->arena, struct candidate, CANDIDATES);
    cl->unread = DF_ARENA_ARRAY(&cl->arena, struct import_unread, CANDIDATES);
    cl->watched = DF_ARENA_ARRAY(&cl->arena, struct import_watched, CANDIDATES);
    cl->count = cl->unread_count = cl->watched_count = 0;
    return df_db_each(db,
                      DF_Q(claim_candidates, .of_client = df_int(OF_CLIENT),
                           .fair = df_int(cl->i->opt.settings.fair_ms > 0),
                           .limit = df_int(CANDIDATES)),
                      read_candidate, cl, err);
}

/* The number of the client's other batches in work; in exclusive mode, of all of them. */
static int64_t count_live(const struct claim *cl, const struct candidate *of, int64_t now_ms)
{
    int64_t live = 0;

    for (size_t k = 0; k < cl->count; k++) {
        const struct candidate *c = &cl->found[k];
        if (c != of &&
            (!import_is_concurrent(cl->i) || strcmp(c->client.text, of->client.text) == 0) &&
            has_owner(cl->i, c, now_ms))
            live++;
    }
    return live;
}

/* Whether a newer release began the batch, by rules that this one does not know. */
static bool is_of_newer(struct df_imports *i, const struct candidate *c)
{
    if (c->rules <= IMPORT_RULES_NEWEST)
        return false;
    if (strcmp(i->newer.text, c->id.text) != 0) {
        struct df_log_field fields[] = {DF_F("batchId", df_uuid_str(&c->id)),
                                        DF_FI("cutRules", c->rules)};
        df_log_write(DF_LOG_WARN, "BatchOfNewerRelease", fields, 2,
                     "a newer release began the batch and must finish it");
    }
    i->newer = c->id;
    return true;
}

/* Whether the batch gave way a moment ago to one whose file only another machine has. That machine
 * looks every poll_ms. */
static bool waits_for_others(const struct claim *cl, const struct candidate *c, int64_t now_ms)
{
    int64_t ago_ms = now_ms - c->gave_way_ms;

    return c->gave_way_ms >= 0 && ago_ms >= 0 && ago_ms < import_hand_over_ms(cl->i) &&
           cl->unread_count > 0;
}

/* --- batches that wait for OmniFlow (outage.c) --- */

/* Whether OmniFlow took a chunk since the batch was given back. */
static bool is_peer_back(const struct claim *cl, const struct candidate *c)
{
    return c->waiting_ms >= 0 && cl->peer.well_ms > c->waiting_ms;
}

/* Whether a batch is being worked on, by any process, of which OmniFlow took nothing yet. */
static bool is_probed(const struct claim *cl, int64_t now_ms)
{
    for (size_t k = 0; k < cl->count; k++) {
        if (cl->found[k].outage_ms >= 0 && has_owner(cl->i, &cl->found[k], now_ms))
            return true;
    }
    return cl->probing;
}

/* Whether the batch may be taken as far as OmniFlow is concerned. */
static bool is_its_time(const struct claim *cl, const struct candidate *c, int64_t now_ms)
{
    if (c->status == DF_BATCH_PROCESSING || is_peer_back(cl, c))
        return true;
    if (c->waiting_ms < 0)
        return !cl->peer.away || !is_probed(cl, now_ms);
    if (cl->peer.away && df_mono_ms(cl->i->opt.clock) < cl->peer.probe_at_ms)
        return false;
    return (c->waiting_ms > now_ms || now_ms - c->waiting_ms >= cl->i->opt.settings.probe_ms) &&
           !is_probed(cl, now_ms);
}

static bool is_probe(const struct claim *cl, const struct candidate *c)
{
    return (cl->peer.away || c->outage_ms >= 0) &&
           c->outage_tries <= cl->i->opt.settings.max_retries;
}

static int by_last_try(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    int64_t at_x = x->status == DF_BATCH_PROCESSING ? -2 : x->waiting_ms;
    int64_t at_y = y->status == DF_BATCH_PROCESSING ? -2 : y->waiting_ms;

    return at_x != at_y ? (at_x > at_y) - (at_x < at_y)
                        : (x->place > y->place) - (x->place < y->place);
}

/* Loads the client's policy. *ret: the batch may be taken. */
static enum df_code may_take(struct df_db *db, struct claim *cl, const struct candidate *c,
                             int64_t now_ms, bool *ret, struct df_policy *ret_policy,
                             struct df_err *err)
{
    int64_t live = count_live(cl, c, now_ms);
    int64_t most = 1;

    *ret = false;
    if ((has_owner(cl->i, c, now_ms) && !is_doubtful(cl, c)) ||
        (!import_is_concurrent(cl->i) && live > 0) || is_of_newer(cl->i, c) ||
        !is_its_time(cl, c, now_ms))
        return DF_OK;
    enum df_code code = df_policy_load(db, df_uuid_str(&c->client), ret_policy, err);
    if (code != DF_OK)
        return code;
    if (import_is_concurrent(cl->i) && ret_policy->max_concurrent_batches != DF_POLICY_NONE)
        most = ret_policy->max_concurrent_batches;
    *ret = live < most && (is_readable(cl->i, c) || is_abandoned(cl, c, now_ms)) &&
           !waits_for_others(cl, c, now_ms);
    return DF_OK;
}

/* Sets the id of the batch in work, by which other workers of this process find it. */
static void set_taken(struct claim *cl, const struct df_uuid *id)
{
    df_lock(&cl->i->lock);
    cl->b->id = *id;
    df_unlock(&cl->i->lock);
    cl->took = id->text[0] != '\0';
}

/* Sets the limits that are not stored with the batch but read at each claim. */
static void set_limits(struct import_batch *b, const struct df_policy *policy)
{
    int64_t most = b->imports->opt.settings.max_records;

    b->reading.max_records = most > 0 ? most : INT32_MAX;
    b->reading.max_by_policy =
        policy->max_records != DF_POLICY_NONE && policy->max_records < b->reading.max_records;
    if (b->reading.max_by_policy)
        b->reading.max_records = policy->max_records;
}

/* Claims follow one another, so no other claim adds the client's row. */
static enum df_code begin_turn(struct df_db *db, const struct candidate *c, struct df_value now,
                               struct df_err *err)
{
    struct df_value client = df_uuid(df_uuid_str(&c->client));
    int64_t affected = 0;

    if (c->status == DF_BATCH_PROCESSING && c->gave_way_ms < 0)
        return DF_OK; /* the turn of its dead owner goes on */
    enum df_code code =
        df_db_exec(db, DF_Q(turn_set, .now = now, .client = client), &affected, err);
    if (code == DF_OK && affected == 0)
        code = df_db_exec(db, DF_Q(turn_add, .client = client, .now = now), NULL, err);
    return code;
}

static enum df_code take_batch(struct df_db *db, struct claim *cl, const struct candidate *c,
                               const struct df_policy *policy, int64_t now_ms, struct df_err *err)
{
    struct df_value id = df_uuid(df_uuid_str(&c->id));
    struct df_value now = df_time(now_ms);
    char host[IMPORT_HOST_MAX + 1];
    int64_t affected = 0;
    int64_t batch_size =
        policy->batch_size != DF_POLICY_NONE ? policy->batch_size : cl->i->opt.settings.batch_size;

    import_host_name(cl->i, c->rules, host);
    enum df_code code =
        df_db_exec(db,
                   DF_Q(claim_take, .now = now, .host = df_text(df_str_c(host)),
                        .token = df_int(cl->b->token), .batch_size = df_int(batch_size), .id = id),
                   &affected, err);
    if (code == DF_OK && affected == 1 && !import_is_concurrent(cl->i))
        code = df_db_exec(db, DF_Q(claim_hold, .locked = df_bool(true), .id = id, .now = now), NULL,
                          err);
    if (code == DF_OK && affected == 1)
        code = begin_turn(db, c, now, err);
    set_limits(cl->b, policy);
    cl->b->probes = is_probe(cl, c);
    /* A batch that is taken over, or waited for OmniFlow, was started before. */
    if (code == DF_OK && affected == 1 && c->status != DF_BATCH_PROCESSING && c->waiting_ms < 0)
        code = import_emit(db, cl->i->opt.clock, &c->id, "BatchStarted", &cl->told, err);
    if (code == DF_OK && affected == 1)
        set_taken(cl, &c->id);
    return code;
}

/* Under the lock: the transaction that takes the batch. */
static enum df_code run_claim(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct claim *cl = (struct claim *)job;
    int64_t now_ms = df_wall_ms(cl->i->opt.clock);

    df_arena_reset(&cl->arena);
    cl->told = false;
    set_taken(cl, &(struct df_uuid){0});
    cl->b->failovers = df_store_failovers(cl->i->opt.store);
    enum df_code code =
        df_db_query_int(db, DF_Q(claim_begin, .now = df_int(now_ms)), &cl->b->token, err);
    if (code == DF_OK)
        code = read_candidates(db, cl, err);
    if (cl->peer.away)
        qsort(cl->found, cl->count, sizeof(*cl->found), by_last_try);
    for (size_t k = 0; k < cl->count && code == DF_OK && !cl->took; k++) {
        const struct candidate *c = &cl->found[k];
        struct df_policy policy;
        bool may = false;
        if (cl->locked && strcmp(cl->locked->text, c->id.text) != 0)
            continue;
        code = may_take(db, cl, c, now_ms, &may, &policy, err);
        if (code == DF_OK && may)
            code = take_batch(db, cl, c, &policy, now_ms, err);
    }
    return code;
}

/* --- finding what may be claimed -------------------------------------------------------------- */

/* A client's next batch is chosen when the one before it was tried. */
static bool is_chosen_for(const struct claim *cl, const struct candidate *c)
{
    for (size_t k = 0; k < cl->choice_count; k++) {
        const struct candidate *other = &cl->choices[k];
        if (c->status != DF_BATCH_PROCESSING && other->status != DF_BATCH_PROCESSING &&
            strcmp(c->client.text, other->client.text) == 0)
            return true;
    }
    return false;
}

static enum df_code run_find(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct claim *cl = (struct claim *)job;
    int64_t now_ms = df_wall_ms(cl->i->opt.clock);
    size_t most = import_is_concurrent(cl->i) ? TRIES_MAX : 1;

    df_arena_reset(&cl->arena);
    cl->choice_count = 0;
    enum df_code code = read_candidates(db, cl, err);
    if (cl->peer.away)
        qsort(cl->found, cl->count, sizeof(*cl->found), by_last_try);
    for (size_t k = 0; k < cl->count && code == DF_OK && cl->choice_count < most; k++) {
        const struct candidate *c = &cl->found[k];
        struct df_policy policy;
        bool may = false;
        code = may_take(db, cl, c, now_ms, &may, &policy, err);
        if (code == DF_OK && may && !is_chosen_for(cl, c))
            cl->choices[cl->choice_count++] = *c;
    }
    return code;
}

static enum df_code run_due(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct claim *cl = (struct claim *)job;
    return import_make_due(db, cl->i, &cl->due, err);
}

/* --- looking ---------------------------------------------------------------------------------- */

struct look {
    struct df_job job;
    int64_t tried_ms; /* wall: batches that wait for OmniFlow since then may be tried again */
    int64_t pending;
    int64_t processing;
    int64_t due_ms;     /* wall; -1: nothing is scheduled */
    int64_t waiting_ms; /* wall; -1: nothing waits for OmniFlow, but what may be tried */
};

static void read_claim_look(void *arg, struct df_result *r)
{
    struct look *l = arg;

    l->pending = df_col_int(r, claim_look_Pending);
    l->processing = df_col_int(r, claim_look_Processing);
    l->due_ms = df_col_time(r, claim_look_NextScheduled);
    l->waiting_ms = df_col_time(r, claim_look_NextWaiting);
}

static enum df_code run_claim_look(struct df_db *db, struct df_job *job, struct df_err *err)
{
    const struct look *l = (const struct look *)job;
    return df_db_one(db, DF_Q(claim_look, .due = df_time(l->tried_ms)), read_claim_look, job, NULL,
                     err);
}

static size_t working_count(struct df_imports *i)
{
    const struct import_batch *b;
    size_t n = 0;
    df_lock(&i->lock);
    DF_LIST_EACH (b, &i->working, link)
        n += b->id.text[0] != '\0';
    df_unlock(&i->lock);
    return n;
}

/* Batches that wait for OmniFlow since this time may be tried. */
static int64_t tried_before(struct df_imports *i)
{
    struct import_peer peer = import_peer_now(i);
    int64_t before_ms = df_wall_ms(i->opt.clock) - i->opt.settings.probe_ms;

    if (peer.away && df_mono_ms(i->opt.clock) < peer.probe_at_ms)
        return 0;
    return peer.well_ms > before_ms ? peer.well_ms : before_ms;
}

/* Candidates are not read every second for nothing. */
static enum df_code is_claim_worthwhile(struct df_imports *i, bool *ret, bool *ret_due,
                                        struct df_err *err)
{
    struct look l = {.job = {.run = run_claim_look}, .tried_ms = tried_before(i), .due_ms = -1};
    enum df_code code = df_store_read_wait(i->opt.store, &l.job, err);

    *ret_due = code == DF_OK && l.due_ms >= 0 && l.due_ms <= df_wall_ms(i->opt.clock);
    bool open = l.pending > 0 || l.processing > (int64_t)working_count(i);
    *ret = code == DF_OK && (open || *ret_due);
    if (code == DF_OK)
        import_look_found(i, l.due_ms, l.waiting_ms, open);
    return code;
}

static void *copy_rows(const void *rows, size_t count, size_t size)
{
    void *copy = df_calloc(count + 1, size);
    if (count > 0)
        memcpy(copy, rows, count * size);
    return copy;
}

/* Keeps what the next look compares with. */
static void keep_found(struct df_imports *i, const struct claim *cl)
{
    df_lock(&i->lock);
    free(i->unread);
    free(i->watched);
    i->unread = copy_rows(cl->unread, cl->unread_count, sizeof(*i->unread));
    i->unread_count = cl->unread_count;
    i->watched = copy_rows(cl->watched, cl->watched_count, sizeof(*i->watched));
    i->watched_count = cl->watched_count;
    i->looks++;
    df_unlock(&i->lock);
}

/* Its owner is alive after all: the lock is not tried again at once. */
static void keep_watching(struct df_imports *i, const struct candidate *c)
{
    for (size_t k = 0; k < i->watched_count; k++) {
        if (strcmp(i->watched[k].id.text, c->id.text) == 0)
            i->watched[k].since_ms = df_mono_ms(i->opt.clock);
    }
}

/* One claim of this process at a time: each compares with what the last one found. */
static void begin_claiming(struct df_imports *i, struct claim *cl)
{
    const struct import_batch *b;

    df_lock(&i->lock);
    while (i->claiming)
        df_cond_wait(&i->changed, &i->lock);
    i->claiming = true;
    cl->peer = i->peer;
    DF_LIST_EACH (b, &i->working, link)
        cl->probing = cl->probing || (b != cl->b && b->id.text[0] != '\0' && b->probes);
    df_unlock(&i->lock);
}

static void end_claiming(struct df_imports *i)
{
    df_lock(&i->lock);
    assert(i->claiming);
    i->claiming = false;
    pthread_cond_broadcast(&i->changed);
    df_unlock(&i->lock);
}

static enum df_code find_choices(struct claim *cl, bool due, struct df_err *err)
{
    struct df_store *store = cl->i->opt.store;
    enum df_code code = DF_OK;

    cl->job = (struct df_job){.run = run_due};
    if (due)
        code = df_store_write_wait(store, &cl->job, err);
    cl->job = (struct df_job){.run = run_find};
    if (code == DF_OK)
        code = df_store_read_wait(store, &cl->job, err);
    if (code == DF_OK)
        keep_found(cl->i, cl);
    return code;
}

/* The lock that whoever works on the batch holds. */
static void lock_name(const struct df_imports *i, const struct df_uuid *client,
                      const struct df_uuid *batch, char out[DF_LOCK_NAME_MAX + 1])
{
    if (import_is_concurrent(i))
        (void)snprintf(out, DF_LOCK_NAME_MAX + 1, "client:%s:%s", client->text, batch->text);
    else
        (void)snprintf(out, DF_LOCK_NAME_MAX + 1, LOCK_OF_ALL);
}

/* Takes the lock, then the batch. */
static enum df_code try_choice(struct claim *cl, const struct candidate *c, struct df_err *err)
{
    struct df_imports *i = cl->i;
    struct import_batch *b = cl->b;
    char name[DF_LOCK_NAME_MAX + 1];

    lock_name(i, &c->client, &c->id, name);
    if (!df_locks_acquire(i->opt.locks, name, &b->lease)) {
        keep_watching(i, c);
        return DF_OK;
    }
    cl->job = (struct df_job){.run = run_claim};
    cl->locked = import_is_concurrent(i) ? &c->id : NULL;
    enum df_code code = df_store_write_wait(i->opt.store, &cl->job, err);
    if (code != DF_OK || !cl->took)
        df_locks_release(i->opt.locks, &b->lease);
    cl->took = code == DF_OK && cl->took;
    cl->locked = NULL;
    return code;
}

static enum df_code claim_batch(struct df_imports *i, struct import_batch *b, bool *ret,
                                struct df_err *err)
{
    struct claim cl = {.i = i, .b = b};
    bool worth = false, due = false;

    *ret = false;
    enum df_code code = is_claim_worthwhile(i, &worth, &due, err);
    if (code != DF_OK || !worth)
        return code;
    df_arena_init(&cl.arena);
    begin_claiming(i, &cl);
    code = find_choices(&cl, due, err);
    for (size_t k = 0; k < cl.choice_count && code == DF_OK && !cl.took; k++)
        code = try_choice(&cl, &cl.choices[k], err);
    end_claiming(i);
    df_arena_release(&cl.arena);
    *ret = cl.took;
    if (cl.took && cl.told)
        df_webhooks_wake(i->opt.webhooks);
    if (code == DF_OK && cl.due > 0)
        df_imports_wake(i);
    return code;
}

/* --- threads ---------------------------------------------------------------------------------- */

/* Claims a batch and works on it. Returns how long to wait then; 0: look again at once. */
static int64_t work_on_next(void *arg)
{
    struct df_imports *i = arg;
    struct import_batch b = {.imports = i, .row = {.total = -1}};
    struct df_err err = DF_ERR_INIT;
    bool took = false;

    df_arena_init(&b.arena);
    df_lock(&i->lock);
    df_list_add(&i->working, &b.link);
    df_unlock(&i->lock);
    uint64_t asked = import_look_begins(i);
    enum df_code code = claim_batch(i, &b, &took, &err);
    import_look_ended(i, asked, took);
    if (took)
        import_process(&b);
    df_locks_release(i->opt.locks, &b.lease);
    df_lock(&i->lock);
    assert(i->yielding != &b);
    df_list_remove(&i->working, &b.link);
    df_unlock(&i->lock);
    if (took)
        import_batch_ended(i, b.state == BATCH_GAVE_WAY);
    df_arena_release(&b.arena);
    if (code != DF_OK)
        df_log_error("BatchClaimFailed", "%s", err.detail);
    if (code != DF_OK || b.state == BATCH_BROKEN)
        return DF_LOOP_FAILED;
    return took ? 0 : import_idle_ms(i);
}

static void worker_ended(void *arg)
{
    struct df_imports *i = arg;

    df_lock(&i->lock);
    assert(i->threads_running > 0);
    i->threads_running--;
    pthread_cond_broadcast(&i->changed);
    df_unlock(&i->lock);
}

/* --- the imports ------------------------------------------------------------------------------ */

struct df_imports *df_imports_new(const struct df_imports_options *opt)
{
    struct df_imports *i = df_calloc(1, sizeof(*i));

    i->opt = *opt;
    i->retry = (struct df_retry_policy){
        .delays_ms = i->opt.settings.retry_delays_ms.items,
        .delay_count = i->opt.settings.retry_delays_ms.count,
        .max_attempts = i->opt.settings.max_retries + 1,
    };
    df_mutex_init(&i->lock);
    df_cond_init(&i->changed);
    if (opt->settings.url) {
        struct df_str base = df_str_c(opt->settings.url);
        while (base.len > 0 && base.ptr[base.len - 1] == '/')
            base.len--;
        size_t size = base.len + sizeof(CALL_PATH);
        i->url = df_malloc(size);
        (void)snprintf(i->url, size, DF_STR_FMT CALL_PATH, DF_STR_ARG(base));
    }
    (void)snprintf(i->host, sizeof(i->host), "%s/%s", opt->instance->host, opt->instance->id.text);
    import_metrics_register();
    return i;
}

void df_imports_start(struct df_imports *i)
{
    if (!i->url) {
        df_log_warn("ImportsNotConfigured", "omniflow.url is not set: batches wait until it is");
        return;
    }
    i->threads_running = import_is_concurrent(i) ? (size_t)i->opt.settings.workers : 1;
    df_loop_start(&i->workers, &(struct df_loop_options){.name = "imports",
                                                         .threads = i->threads_running,
                                                         .clock = i->opt.clock,
                                                         .backoff_min_ms = BACKOFF_MIN_MS,
                                                         .backoff_max_ms = BACKOFF_MAX_MS,
                                                         .turn = work_on_next,
                                                         .ended = worker_ended,
                                                         .arg = i});
}

void df_imports_leave(struct df_imports *i)
{
    if (!i)
        return;
    df_loop_close(&i->workers);
    df_lock(&i->lock);
    if (!i->stopping)
        i->cut_at_ms = df_mono_ms(i->opt.clock) + LEAVE_MS;
    i->stopping = true;
    pthread_cond_broadcast(&i->changed);
    df_unlock(&i->lock);
}

void df_imports_stop(struct df_imports *i, int64_t drain_ms)
{
    if (!i)
        return;
    int64_t until_ms = df_mono_ms(df_clock_real()) + drain_ms;
    df_imports_leave(i);
    df_lock(&i->lock);
    int64_t left_ms;
    while (i->threads_running > 0 && (left_ms = until_ms - df_mono_ms(df_clock_real())) > 0)
        df_cond_wait_ms(&i->changed, &i->lock, left_ms);
    df_unlock(&i->lock);
}

void df_imports_end(struct df_imports *i)
{
    if (!i)
        return;
    df_imports_stop(i, 0);
    df_loop_stop(&i->workers);
}

void df_imports_free(struct df_imports *i)
{
    if (!i)
        return;
    df_imports_end(i);
    df_loop_release(&i->workers);
    free(i->unread);
    free(i->watched);
    free(i->url);
    pthread_cond_destroy(&i->changed);
    df_mutex_destroy(&i->lock);
    free(i);
}

const struct df_imports_options *df_imports_options_of(const struct df_imports *i)
{
    return &i->opt;
}

void df_imports_wake(struct df_imports *i)
{
    df_loop_wake(&i->workers);
    if (i->opt.queue.announced)
        i->opt.queue.announced(i->opt.queue.arg);
}

void df_imports_break_lock(struct df_imports *i, const struct df_uuid *client,
                           const struct df_uuid *batch, bool has_all)
{
    char name[DF_LOCK_NAME_MAX + 1];

    if (!import_is_concurrent(i) && !has_all)
        return; /* another batch has the lock */
    lock_name(i, client, batch, name);
    df_locks_break(i->opt.locks, name);
}

void df_imports_acked(struct df_imports *i, const struct df_uuid *batch)
{
    struct import_batch *b;

    df_lock(&i->lock);
    DF_LIST_EACH (b, &i->working, link) {
        if (strcmp(b->id.text, batch->text) == 0)
            b->mail.acked = true;
    }
    pthread_cond_broadcast(&i->changed);
    df_unlock(&i->lock);
}
