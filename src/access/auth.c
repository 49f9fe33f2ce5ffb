#include "access/auth.h"

#include "access/denials.h"
#include "access/gate.h"
#include "access/logins.h"
#include "access/usage.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/pool.h"

#include <assert.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define HASH_THREADS 16       /* at most */
#define ADMIN_ID     "*admin" /* the gate's name for the administrator; no client has it */

_Static_assert(DF_GATE_TAG_BYTES == DF_HASH_TASK_KEY,
               "an attempt's tag is the key of its hash task");

struct df_auth {
    struct df_store *store;
    const struct df_clock *clock;
    struct df_admin admin;         /* of [admin]; its key may be NULL */
    const struct df_admin *admins; /* [admin.NAME] */
    size_t admin_count;
    bool has_admin;
    struct df_denials *denials;
    struct df_usage *usage;
    struct df_gate *gate;
    struct df_logins *logins;
    struct df_hash_line line;
    struct df_thread threads[HASH_THREADS];
};

DF_METRIC_FAMILY(auth_total) = {
    .name = "dataflow_auth_total",
    .help = "Logins that were not answered from memory: verified, confirmed, coalesced, "
            "refused, throttled.",
    .type = DF_COUNTER,
    .labels = {"outcome"},
};

static void count_outcome(const char *outcome)
{
    struct df_str value = df_str_c(outcome);
    df_metric_add(df_metric_get(&auth_total, &value), 1);
}

/* --- hash threads --- */

static void hash_secrets(void *arg)
{
    struct df_auth *a = arg;
    struct df_hash_task *t;
    while ((t = df_hash_line_pop(&a->line)))
        t->run(t);
}

bool df_auth_hash(struct df_auth *a, struct df_hash_task *t)
{
    return df_hash_line_push(&a->line, t, 0);
}

static void start_threads(struct df_auth *a, size_t count)
{
    for (size_t i = 0; i < count; i++)
        df_thread_start(&a->threads[i], "hash", hash_secrets, a);
}

struct df_auth *df_auth_new(const struct df_auth_options *opt)
{
    struct df_auth *a = df_calloc(1, sizeof *a);
    assert(opt->settings.hash_threads >= 1 && opt->settings.hash_threads <= HASH_THREADS);
    if (sodium_init() < 0)
        abort();
    a->store = opt->store;
    a->clock = opt->clock;
    a->admin = (struct df_admin){.key = opt->settings.admin_key, .role = DF_ADMIN_ADMIN};
    a->admins = opt->settings.admins;
    a->admin_count = opt->settings.admin_count;
    a->has_admin = df_auth_has_admin(&opt->settings);
    a->denials = df_denials_new(opt->store, opt->clock);
    a->usage = opt->usage;
    a->gate = df_gate_new(opt->settings.failures_per_minute, opt->clock);
    a->logins = df_logins_new(opt->clock);
    df_metric_register(&auth_total);
    df_hash_line_init(&a->line);
    start_threads(a, (size_t)opt->settings.hash_threads);
    return a;
}

void df_auth_stop(struct df_auth *a)
{
    df_hash_line_close(&a->line);
    for (size_t i = 0; i < HASH_THREADS; i++)
        df_thread_join(&a->threads[i]);
}

void df_auth_free(struct df_auth *a)
{
    if (!a)
        return;
    df_auth_stop(a);
    df_hash_line_release(&a->line);
    df_logins_free(a->logins);
    df_denials_free(a->denials);
    df_gate_free(a->gate);
    free(a);
}

/* --- one authentication --- */

struct check {
    struct df_job job;
    struct df_hash_task task;
    struct df_auth *auth;
    struct df_req *req;
    struct df_login login;
    struct df_str secret;
    struct df_attempt attempt;
    bool known; /* the gate knows the secret */
    bool found; /* the row, login.record */
};

static bool refuse_request(struct df_req *req, enum df_code code, const char *detail)
{
    df_req_fail(req, code, "%s", detail);
    return false;
}

/* Whether the client may call this route; false: the answer is set. */
static bool admit_to_route(struct df_req *req, struct df_client *c)
{
    const char *scope = df_req_route(req)->scope;
    if (scope && df_req_route(req)->access == DF_ACCESS_CLIENT &&
        !df_scope_allows(c->scopes, df_str_c(scope))) {
        df_req_fail(req, DF_E_SCOPE_MISSING, "This client lacks the scope \"%s\".", scope);
        return false;
    }
    if (df_req_route(req)->access == DF_ACCESS_OWNER &&
        !df_str_eq(df_req_param(req, "clientId"), df_str_c(c->identifier)))
        return refuse_request(req, DF_E_NOT_FOUND, "There is nothing here.");
    df_req_set_user(req, c);
    df_req_set_owner(req, df_uuid_str(&c->id));
    return true;
}

/* An authenticated request that waits until it is known whether the client is over its limit. */
struct admission {
    struct df_usage_waiter waiter;
    struct df_auth *auth;
    struct df_req *req;
    struct df_client *client;
};

static enum df_verdict admit_client(struct df_auth *a, struct df_req *req, struct df_client *c,
                                    bool aside);

/* On the thread of the exchange. */
static void admit_again(struct df_usage_waiter *w)
{
    struct admission *m = (struct admission *)w;
    struct df_req *req = m->req;
    const struct df_log_ctx *outer = df_log_ctx_use(df_req_log(req));
    if (admit_client(m->auth, req, m->client, true) != DF_DEFERRED)
        df_req_resume(req);
    df_log_ctx_use(outer);
}

static enum df_verdict wait_for_others(struct df_auth *a, struct df_req *req, struct df_client *c,
                                       bool aside)
{
    struct admission *m = DF_ARENA_NEW(df_req_arena(req), struct admission);
    *m = (struct admission){.waiter.ask_again = admit_again, .auth = a, .req = req, .client = c};
    if (!aside)
        df_req_suspend(req);
    df_usage_wait(a->usage, &m->waiter);
    return DF_DEFERRED;
}

/*
 * Decides whether an authenticated client may make this request. The client lives in the request's
 * arena. aside: the request is suspended already; if it is DF_DEFERRED then, it is resumed later.
 */
static enum df_verdict admit_client(struct df_auth *a, struct df_req *req, struct df_client *c,
                                    bool aside)
{
    df_log_ctx_set(df_req_log(req), "clientId", df_str_c(c->identifier));
    if (c->status == DF_CLIENT_SUSPENDED) {
        (void)refuse_request(req, DF_E_CLIENT_SUSPENDED, "This client is suspended.");
        return DF_ANSWERED;
    }
    switch (df_usage_admit(a->usage, req, c)) {
    case DF_ADMITTED:
        return admit_to_route(req, c) ? DF_PASS : DF_ANSWERED;
    case DF_ADMISSION_REFUSED:
        return DF_ANSWERED;
    case DF_ADMISSION_WAITS:
        return wait_for_others(a, req, c, aside);
    }
    return DF_ANSWERED;
}

static bool reject_client(struct df_req *req)
{
    return refuse_request(req, DF_E_UNAUTHORIZED,
                          "X-Client-Id and X-Client-Secret do not match a client.");
}

static void finish_verified(struct check *c)
{
    df_gate_right(c->auth->gate, &c->attempt);
    if (admit_client(c->auth, c->req, &c->login.record.client, true) != DF_DEFERRED)
        df_req_resume(c->req);
}

static void finish_refused(struct check *c)
{
    count_outcome("refused");
    df_gate_wrong(c->auth->gate, &c->attempt);
    df_log_info("LoginRefused", "unknown client or wrong secret");
    (void)reject_client(c->req);
    df_req_resume(c->req);
}

static struct check *check_of(struct df_hash_task *t)
{
    return (struct check *)((char *)t - offsetof(struct check, task));
}

/* Another request may have verified the same pair while this one waited. */
static bool is_verified_meanwhile(const struct check *c)
{
    struct df_login again = c->login;
    struct df_client known;

    return c->found && df_logins_find(c->auth->logins, &again, &known) &&
           c->login.generation == again.generation;
}

static bool secret_matches(const struct check *c, bool *ret_previous)
{
    /* An unknown id is checked against this hash, so that it takes as long as a known one. */
    static const struct df_secret_hash nobody;
    bool usable = c->found && c->login.record.has_current;

    *ret_previous = false;
    if (c->found && !usable)
        df_log_warn("SecretUnusable",
                    "the secret of the client was hashed by another program: rotate it");
    if (df_secret_hash_matches(usable ? &c->login.record.current : &nobody, c->secret) && usable)
        return true;
    *ret_previous = c->found && df_client_previous_valid(&c->login.record, c->auth->clock) &&
                    df_secret_hash_matches(&c->login.record.previous, c->secret);
    return *ret_previous;
}

/* Whether the outcome of one check holds for another with the same id and secret. It does not if
 * the secret was rotated between the two reads of the row. */
static bool has_same_row(const struct check *a, const struct check *b)
{
    const struct df_client_record *x = &a->login.record;
    const struct df_client_record *y = &b->login.record;

    if (a->found != b->found)
        return false;
    return !a->found || (x->has_current == y->has_current && x->has_previous == y->has_previous &&
                         df_secret_hash_equal(&x->current, &y->current) &&
                         (!x->has_previous || df_secret_hash_equal(&x->previous, &y->previous)));
}

static void run_check(struct check *c, const struct check *refused);

/* Runs the check with its request's context in the log. */
static void run_check_of(struct check *c, const struct check *refused)
{
    const struct df_log_ctx *outer = df_log_ctx_use(df_req_log(c->req));
    run_check(c, refused);
    df_log_ctx_use(outer);
}

/* Runs a check and those that wait beside it. Those come first: once a check is finished, its
 * request and its memory belong to another thread. `refused` is a refused check with the same id
 * and secret, or NULL. */
static void run_check(struct check *c, const struct check *refused)
{
    struct df_hash_task *beside;
    bool previous = false;
    bool verified = is_verified_meanwhile(c);

    if (verified) {
        count_outcome("coalesced");
    } else if (!(refused && has_same_row(refused, c)) && secret_matches(c, &previous)) {
        count_outcome("verified");
        df_logins_remember(c->auth->logins, &c->login, previous);
        verified = true;
    }
    while ((beside = DF_LIST_TAKE(&c->task.beside, struct df_hash_task, link)))
        run_check_of(check_of(beside), verified ? NULL : c);
    if (verified)
        finish_verified(c);
    else
        finish_refused(c);
}

/* On a hash thread. */
static void run_hash(struct df_hash_task *t)
{
    run_check_of(check_of(t), NULL);
}

static enum df_code run_load_client(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct check *c = (struct check *)job;
    c->login.row_read_ms = df_mono_ms(c->auth->clock);
    enum df_code code = df_client_load(db, c->login.identifier, &c->login.record, err);
    c->found = code == DF_OK;
    return code == DF_E_NOT_FOUND ? DF_OK : code;
}

static void load_client_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct check *c = (struct check *)job;
    if (code != DF_OK) {
        df_req_problem(c->req, err);
        df_req_resume(c->req);
    } else if (c->found && df_logins_confirm(c->auth->logins, &c->login)) {
        count_outcome("confirmed");
        finish_verified(c);
    } else if (!df_hash_line_push(&c->auth->line, &c->task, c->known ? 0 : c->attempt.sender)) {
        df_req_fail(c->req, DF_E_BUSY, "Too many logins at once.");
        df_req_resume(c->req);
    }
}

static void answer_shut(struct df_req *req, int64_t wait_ms)
{
    char seconds[24];
    struct df_buf b;
    df_buf_init(&b, sizeof seconds);
    df_buf_add_i64(&b, (wait_ms + 999) / 1000);
    df_req_add_header(req, "Retry-After", df_buf_str(&b));
    df_buf_release(&b);
    count_outcome("throttled");
    df_log_warn("LoginThrottled", "too many failed logins from this address");
    df_req_fail(req, DF_E_TOO_MANY, "Too many failed logins from this address.");
}

/* An id or secret that no client can have is refused without a look at the database; it counts as a
 * failure. */
static void refuse_malformed(struct df_auth *a, struct df_req *req)
{
    struct df_attempt attempt;
    int64_t wait_ms = 0;

    df_gate_attempt(a->gate, df_req_peer_network(req), DF_STR(""), DF_STR(""), &attempt);
    if (df_gate_ask(a->gate, &attempt, &wait_ms) == DF_GATE_SHUT) {
        answer_shut(req, wait_ms);
        return;
    }
    df_gate_wrong(a->gate, &attempt);
    (void)reject_client(req);
}

/* Reads the row, then hashes the secret if necessary. */
static void begin_check(const struct check *begun)
{
    struct check *c = DF_ARENA_NEW(df_req_arena(begun->req), struct check);

    *c = *begun;
    c->task.run = run_hash;
    c->task.key = c->attempt.tag;
    c->job.run = run_load_client;
    c->job.done = load_client_done;
    c->job.log = df_req_log(c->req);
    df_req_suspend(c->req);
    if (df_store_read(c->auth->store, &c->job))
        return;
    df_req_fail(c->req, DF_E_BUSY, "Too many requests are waiting for the database.");
    df_req_resume(c->req);
}

static enum df_verdict check_client(struct df_auth *a, struct df_req *req)
{
    struct check c = {.auth = a,
                      .req = req,
                      .login.identifier = df_req_header(req, "X-Client-Id"),
                      .secret = df_req_header(req, "X-Client-Secret")};
    int64_t wait_ms = 0;

    if (c.login.identifier.len == 0 || c.secret.len == 0) {
        (void)refuse_request(req, DF_E_UNAUTHORIZED,
                             "X-Client-Id and X-Client-Secret are required.");
        return DF_ANSWERED;
    }
    if (!df_client_identifier_valid(c.login.identifier) || c.secret.len > DF_SECRET_MAX) {
        refuse_malformed(a, req);
        return DF_ANSWERED;
    }
    df_logins_fingerprint(a->logins, c.secret, c.login.fingerprint);
    df_gate_attempt(a->gate, df_req_peer_network(req), c.login.identifier,
                    df_str_n((const char *)c.login.fingerprint, sizeof c.login.fingerprint),
                    &c.attempt);
    struct df_client *client = df_arena_alloc(df_req_arena(req), sizeof *client);
    if (df_logins_find(a->logins, &c.login, client)) {
        df_gate_right(a->gate, &c.attempt);
        return admit_client(a, req, client, false);
    }
    enum df_gate_verdict verdict = df_gate_ask(a->gate, &c.attempt, &wait_ms);
    if (verdict == DF_GATE_SHUT) {
        answer_shut(req, wait_ms);
        return DF_ANSWERED;
    }
    c.known = verdict == DF_GATE_KNOWN;
    begin_check(&c);
    return DF_DEFERRED;
}

enum admin { ADMIN_RIGHT, ADMIN_WRONG, ADMIN_SHUT };

/* Looks at every key, so that the time tells nothing of which one matches. */
static const struct df_admin *find_admin(const struct df_auth *a, struct df_str given)
{
    const struct df_admin *found = df_secret_matches(a->admin.key, given) ? &a->admin : NULL;

    for (size_t i = 0; i < a->admin_count; i++)
        if (df_secret_matches(a->admins[i].key, given))
            found = &a->admins[i];
    return found;
}

/*
 * Comparing a key costs nothing, so a right key passes even if others behind the same address have
 * failed often. For a key short enough to be guessed, that would allow guesses without limit: such
 * a key passes only if it was right from there lately, or if not too many were wrong.
 */
static enum admin judge_admin(struct df_auth *a, const struct df_req *req, struct df_str given,
                              const struct df_admin **ret, int64_t *ret_wait_ms)
{
    struct df_attempt attempt;
    unsigned char fp[DF_FINGERPRINT_LEN];
    const struct df_admin *right = find_admin(a, given);
    bool strong = given.len >= DF_ADMIN_KEY_STRONG;

    df_logins_fingerprint(a->logins, given, fp);
    df_gate_attempt(a->gate, df_req_peer_network(req), DF_STR(ADMIN_ID),
                    df_str_n((const char *)fp, sizeof fp), &attempt);
    if (df_gate_ask(a->gate, &attempt, ret_wait_ms) == DF_GATE_SHUT && !(right && strong))
        return ADMIN_SHUT;
    if (right) {
        df_gate_right(a->gate, &attempt);
        *ret = right;
        return ADMIN_RIGHT;
    }
    count_outcome("refused");
    df_gate_wrong(a->gate, &attempt);
    df_log_warn("AdminKeyRefused", "wrong X-Admin-Key");
    return ADMIN_WRONG;
}

bool df_auth_is_admin(struct df_auth *a, const struct df_req *req)
{
    struct df_str given = df_req_header(req, "X-Admin-Key");
    const struct df_admin *admin;
    int64_t wait_ms;

    return a->has_admin && given.len > 0 &&
           judge_admin(a, req, given, &admin, &wait_ms) == ADMIN_RIGHT;
}

static int role_needed(const struct df_route *route)
{
    if (route->access == DF_ACCESS_METRICS || route->access == DF_ACCESS_ANY)
        return DF_ADMIN_READ;
    for (int role = DF_ADMIN_READ; route->scope && role <= DF_ADMIN_ADMIN; role++)
        if (strcmp(route->scope, df_admin_role_name(role)) == 0)
            return role;
    return strcmp(route->method, "GET") == 0 ? DF_ADMIN_READ : DF_ADMIN_ADMIN;
}

static enum df_verdict admit_admin(struct df_auth *a, struct df_req *req,
                                   const struct df_admin *admin)
{
    int needed = role_needed(df_req_route(req));

    df_req_set_operator(req, admin);
    if (admin->name)
        df_log_ctx_set(df_req_log(req), "admin", df_str_c(admin->name));
    if (admin->role >= needed)
        return DF_PASS;
    count_outcome("denied");
    df_denials_note(a->denials, req, df_admin_role_name(needed));
    df_req_fail(req, DF_E_ROLE_MISSING, "This key has the role \"%s\"; \"%s\" is needed.",
                df_admin_role_name(admin->role), df_admin_role_name(needed));
    return DF_ANSWERED;
}

static enum df_verdict check_admin(struct df_auth *a, struct df_req *req)
{
    struct df_str given = df_req_header(req, "X-Admin-Key");
    const struct df_admin *admin = NULL;
    int64_t wait_ms = 0;

    if (!a->has_admin) {
        (void)refuse_request(req, DF_E_NOT_FOUND, "There is nothing here.");
        return DF_ANSWERED;
    }
    if (given.len == 0) {
        (void)refuse_request(req, DF_E_UNAUTHORIZED, "X-Admin-Key is required.");
        return DF_ANSWERED;
    }
    switch (judge_admin(a, req, given, &admin, &wait_ms)) {
    case ADMIN_RIGHT:
        return admit_admin(a, req, admin);
    case ADMIN_WRONG:
        (void)refuse_request(req, DF_E_UNAUTHORIZED, "X-Admin-Key is wrong.");
        break;
    case ADMIN_SHUT:
        answer_shut(req, wait_ms);
        break;
    }
    return DF_ANSWERED;
}

enum df_verdict df_auth_authorize(struct df_auth *a, struct df_req *req)
{
    switch ((enum df_access_kind)df_req_route(req)->access) {
    case DF_ACCESS_OPEN:
        return DF_PASS;
    case DF_ACCESS_CLIENT:
        return check_client(a, req);
    case DF_ACCESS_ADMIN:
        return check_admin(a, req);
    case DF_ACCESS_ANY:
    case DF_ACCESS_OWNER:
        return df_req_header(req, "X-Admin-Key").ptr ? check_admin(a, req) : check_client(a, req);
    case DF_ACCESS_METRICS:
        if (df_req_peer_is_loopback(req))
            return DF_PASS;
        if (a->has_admin)
            return check_admin(a, req);
        (void)refuse_request(req, DF_E_UNAUTHORIZED, "Only from loopback, or with X-Admin-Key.");
        return DF_ANSWERED;
    }
    return DF_ANSWERED;
}

const struct df_client *df_auth_client(const struct df_req *req)
{
    return df_req_user(req);
}

const struct df_admin *df_auth_admin(const struct df_req *req)
{
    return df_req_operator(req);
}

/* --- logins in memory --- */

void df_auth_forget(struct df_auth *a, struct df_str identifier)
{
    df_logins_forget(a->logins, identifier);
}

void df_auth_refresh(struct df_auth *a, struct df_str identifier)
{
    df_logins_refresh(a->logins, identifier);
}

void df_auth_flush_seen(struct df_auth *a)
{
    df_logins_flush_seen(a->logins, a->store);
}
