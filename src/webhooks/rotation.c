/*
 * Secrets of subscriptions with autoRotate. When a secret is webhooks.rotate_days old:
 *
 *     in use ──► a new one waits ──► both sign ──► the new one alone
 *           made, and an event    fetched     24 hours
 *           tells the receiver
 *
 * Deliveries are signed with the old secret until the receiver fetches the new one, so nobody who
 * misses the event loses anything; an alert tells of a secret that is not fetched. The state is in
 * the row: NextSecretAt while one waits, then PreviousSecretExpiresAt, as after a rotation by hand.
 * Any number of processes may run the job, since an UPDATE decides which of them rotates.
 */
#include "base/mem.h"
#include "base/uuid.h"
#include "webhooks/subscriptions.sql.h"
#include "webhooks/subscriptions_call.h"
#include "webhooks/webhooks.h"

#include <stdlib.h>

#define AT_ONCE    50
#define OVERLAP_MS INT64_C(86400000) /* the old secret counts so long after the new one's fetch */

/* --- making --- */

struct due {
    struct df_str id;
    struct df_str client_id;
    struct df_str identifier;
};

/* May run more than once. */
struct rotation {
    struct df_job job;
    const struct df_rotation_options *opt;
    struct df_arena arena;
    int64_t now_ms;
    struct due due[AT_ONCE];
    size_t found;
    size_t made;
};

static void read_due(void *arg, struct df_result *r)
{
    struct rotation *t = arg;

    t->due[t->found++] = (struct due){
        .id = df_arena_str(&t->arena, df_col_text(r, subscription_due_Id)),
        .client_id = df_arena_str(&t->arena, df_col_text(r, subscription_due_ClientId)),
        .identifier = df_arena_str(&t->arena, df_col_text(r, subscription_due_ClientIdentifier)),
    };
}

static enum df_code tell_receiver(struct df_db *db, struct rotation *t, const struct due *d,
                                  struct df_err *err)
{
    char now[DF_TIME_LEN + 1];

    df_time_format(t->now_ms, now);
    /* Identifiers and times contain nothing to escape. */
    const struct df_webhook_event e = {
        .client_id = d->client_id,
        .subscription_id = d->id,
        .event = "SecretRotated",
        .reference = d->id,
        .body = df_arena_printf(&t->arena,
                                "{\"event\":\"SecretRotated\",\"clientId\":\"" DF_STR_FMT
                                "\",\"webhookId\":\"" DF_STR_FMT
                                "\",\"status\":\"SecretRotated\",\"createdAt\":\"%s\"}",
                                DF_STR_ARG(d->identifier), DF_STR_ARG(d->id), now),
        .now_ms = t->now_ms,
    };
    return df_webhooks_emit(db, t->opt->clock, &e, NULL, err);
}

static enum df_code make_next(struct df_db *db, struct rotation *t, const struct due *d,
                              struct df_err *err)
{
    const struct df_actor by = {.name = DF_STR("server")};
    struct df_webhook_secret secret;
    int64_t affected = 0;

    df_webhook_secret_make(t->opt->clock, &secret);
    struct df_str sealed =
        df_webhook_secret_seal(t->opt->keys, d->id, df_str_c(secret.text), &t->arena);
    df_wipe(&secret, sizeof secret);
    enum df_code code =
        df_db_exec(db,
                   DF_Q(subscription_next_secret, .encrypted = df_blob(sealed),
                        .now = df_time(t->now_ms), .id = df_uuid(d->id), .on = df_bool(true),
                        .before = df_time(t->now_ms - t->opt->rotate_ms)),
                   &affected, err);
    if (code != DF_OK || affected == 0)
        return code;
    t->made++;
    code = tell_receiver(db, t, d, err);
    if (code == DF_OK)
        code = df_audit_write(db, &by, "WebhookSecretRotated", d->id, d->client_id,
                              DF_STR("{\"autoRotate\":true}"), t->now_ms, err);
    return code;
}

static enum df_code run_rotation(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct rotation *t = (struct rotation *)job;

    df_arena_reset(&t->arena);
    t->found = t->made = 0;
    enum df_code code =
        df_db_each(db,
                   DF_Q(subscription_due, .on = df_bool(true), .now = df_time(t->now_ms),
                        .before = df_time(t->now_ms - t->opt->rotate_ms), .limit = df_int(AT_ONCE)),
                   read_due, t, err);
    for (size_t i = 0; i < t->found && code == DF_OK; i++)
        code = make_next(db, t, &t->due[i], err);
    return code;
}

void df_subscriptions_rotate(const struct df_rotation_options *opt)
{
    struct rotation *t = df_calloc(1, sizeof *t);
    struct df_err err = DF_ERR_INIT;
    enum df_code code;

    t->job.run = run_rotation;
    t->opt = opt;
    t->now_ms = df_wall_ms(opt->clock);
    df_arena_init(&t->arena);
    do {
        code = df_store_write_wait(opt->store, &t->job, &err);
        if (code == DF_OK && t->made > 0) {
            df_log_info("WebhookSecretsRotated",
                        "%zu webhooks with autoRotate have a new secret, which waits to be fetched",
                        t->made);
            df_webhooks_wake(opt->webhooks);
        }
    } while (code == DF_OK && t->made == AT_ONCE);
    if (code != DF_OK)
        df_log_warn("WebhookSecretsNotRotated", "%s", err.detail);
    df_arena_release(&t->arena);
    free(t);
}

/* --- fetching: GET /clients/{clientId}/webhooks/{id}/secret --- */

struct fetched {
    struct webhook_call *call;
    bool auto_rotate;
    enum df_code code;
    struct df_err *err;
};

static void read_fetched(void *arg, struct df_result *r)
{
    struct fetched *f = arg;
    struct webhook_call *c = f->call;
    struct df_arena *a = df_req_arena(c->w.req);
    const struct df_webhook_secret_columns columns = {
        .secret = df_col_text(r, subscription_fetch_Secret),
        .encrypted = df_col_blob(r, subscription_fetch_SecretEncrypted),
        .previous_expires_at = -1};
    struct df_str secret = DF_STR_NULL, previous;

    f->auto_rotate = df_col_bool(r, subscription_fetch_AutoRotate);
    c->until_ms = df_col_time(r, subscription_fetch_PreviousSecretExpiresAt);
    if (!f->auto_rotate)
        return;
    f->code = df_webhook_secret_open(c->opt->keys, df_uuid_str(&c->id), &columns, c->w.now_ms, a,
                                     &secret, &previous, f->err);
    if (f->code != DF_OK)
        return;
    memcpy(c->secret.text, secret.ptr, secret.len);
    c->secret.text[secret.len] = '\0';
    df_wipe((void *)(uintptr_t)secret.ptr, secret.len);
}

static enum df_code read_secret_in_use(struct df_db *db, struct webhook_call *c, struct df_err *err)
{
    struct fetched f = {.call = c, .code = DF_OK, .err = err};
    bool found = false;
    enum df_code code = df_db_one(
        db, DF_Q(subscription_fetch, .id = webhook_call_id(c), .client_id = webhook_call_client(c)),
        read_fetched, &f, &found, err);

    if (code == DF_OK && !found)
        return df_err_set(err, DF_E_NOT_FOUND, "There is no such webhook.");
    if (code == DF_OK && !f.auto_rotate)
        return df_err_set(err, DF_E_CONFLICT,
                          "The secret of a webhook without autoRotate is shown once, when it is "
                          "made: POST …/rotate-secret makes another.");
    return code == DF_OK ? f.code : code;
}

static enum df_code run_fetch(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct webhook_call *c = (struct webhook_call *)w;
    int64_t began = 0;
    enum df_code code = webhook_call_find_client(db, c, err);

    if (code == DF_OK)
        code = df_db_exec(db,
                          DF_Q(subscription_use_next, .until = df_time(w->now_ms + OVERLAP_MS),
                               .now = df_time(w->now_ms), .id = webhook_call_id(c),
                               .client_id = webhook_call_client(c)),
                          &began, err);
    if (code == DF_OK)
        code = read_secret_in_use(db, c, err);
    if (code == DF_OK)
        code = webhook_call_audit(db, c, "WebhookSecretFetched",
                                  began > 0 ? DF_STR("{\"first\":true}") : DF_STR_NULL, err);
    if (code != DF_OK)
        return code;
    df_json_open(&w->json, '{');
    df_json_kv_text(&w->json, "id", df_uuid_str(&c->id));
    df_json_kv_text(&w->json, "secret", df_str_c(c->secret.text));
    df_json_kv_time(&w->json, "previousSecretValidUntil",
                    c->until_ms > w->now_ms ? c->until_ms : -1);
    df_json_close(&w->json, '}');
    return DF_OK;
}

/* HEAD would take the new secret into use without telling it. */
static bool read_fetch(struct df_work *w, struct df_input *in)
{
    if (df_str_eq(df_req_method(w->req), DF_STR("HEAD"))) {
        df_req_fail(w->req, DF_E_METHOD, "A secret is fetched with GET.");
        return false;
    }
    return webhook_call_read_id(w, in);
}

static void fetched(struct df_work *w)
{
    const struct webhook_call *c = (const struct webhook_call *)w;

    df_log_info("WebhookSecretFetched", "webhook %s of client " DF_STR_FMT, c->id.text,
                DF_STR_ARG(c->identifier));
}

static void wipe_fetched(struct df_work *w)
{
    struct webhook_call *c = (struct webhook_call *)w;

    df_wipe(&c->secret, sizeof c->secret);
}

const struct df_handler df_webhook_fetch_secret = {
    .size = sizeof(struct webhook_call),
    .writes = true,
    .prepare = read_fetch,
    .run = run_fetch,
    .done = fetched,
    .cleanup = wipe_fetched,
};
