/*
 * Brings secrets under the current data key: those that an older release stored in clear text or
 * encrypted with the master key itself, when a server starts, and those under an older data key,
 * after a rotation. A transaction covers one page of them; a secret that is replaced meanwhile is
 * left alone, so several processes may do it at once. This file also removes previous secrets that
 * no longer count.
 */
#include "base/uuid.h"
#include "webhooks/subscriptions.sql.h"
#include "webhooks/subscriptions_private.h"

#define AT_ONCE 200 /* subscriptions in one transaction */

struct stored {
    struct df_str id;
    struct df_str plain, sealed;
    struct df_str previous_plain, previous_sealed;
    struct df_str next_sealed;
};

/* One page. The job may run more than once; it sets `next` afresh. */
struct page {
    struct df_job job;
    struct df_keys *keys;
    struct df_arena arena;
    const struct df_reseal *from;
    struct df_reseal next;
    struct stored *rows; /* AT_ONCE */
    size_t found;
};

static void read_stored(void *arg, struct df_result *r)
{
    struct page *p = arg;
    struct df_arena *a = &p->arena;

    p->rows[p->found++] = (struct stored){
        .id = df_arena_str(a, df_col_text(r, subscription_secrets_Id)),
        .plain = df_arena_str(a, df_col_text(r, subscription_secrets_Secret)),
        .sealed = df_arena_str(a, df_col_blob(r, subscription_secrets_SecretEncrypted)),
        .previous_plain = df_arena_str(a, df_col_text(r, subscription_secrets_PreviousSecret)),
        .previous_sealed =
            df_arena_str(a, df_col_blob(r, subscription_secrets_PreviousSecretEncrypted)),
        .next_sealed = df_arena_str(a, df_col_blob(r, subscription_secrets_NextSecretEncrypted)),
    };
}

/* One of the row's secrets. */
static enum df_code reseal_secret(struct df_db *db, struct page *p, const struct df_query *q,
                                  struct df_str id, struct df_str plain, struct df_str sealed,
                                  struct df_err *err)
{
    uint32_t key = sealed.ptr ? df_sealed_key(sealed) : 0;
    struct df_str secret = plain;
    struct df_err why = DF_ERR_INIT;
    int64_t affected = 0;

    if (!plain.ptr && !sealed.ptr)
        return DF_OK;
    p->next.opened++;
    /* A newer key is in use elsewhere: this process will follow it, and moves nothing back. */
    if (key >= df_keys_current(p->keys))
        return DF_OK;
    if (sealed.ptr &&
        df_keys_open(p->keys, DF_KEY_SECRET, id, sealed, &p->arena, &secret, &why) != DF_OK) {
        p->next.opened--;
        p->next.lost++;
        p->next.lost_key = key;
        return DF_OK;
    }
    enum df_code code = df_db_exec(
        db,
        DF_ANY(q, {"encrypted", df_blob(df_webhook_secret_seal(p->keys, id, secret, &p->arena))},
               {"id", df_uuid(id)}, {"before", df_blob(sealed)}, {"secret", df_text(plain)}),
        &affected, err);
    if (sealed.ptr)
        df_wipe((void *)(uintptr_t)secret.ptr, secret.len);
    p->next.changed += affected > 0;
    return code;
}

static enum df_code reseal_page(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct page *p = (struct page *)job;
    struct stored rows[AT_ONCE];

    df_arena_reset(&p->arena);
    p->rows = rows;
    p->found = 0;
    p->next = *p->from;
    enum df_code code =
        df_db_each(db,
                   DF_Q(subscription_secrets, .after = df_uuid(df_uuid_str(&p->from->after)),
                        .limit = df_int(AT_ONCE)),
                   read_stored, p, err);
    for (size_t i = 0; code == DF_OK && i < p->found; i++) {
        const struct stored *s = &rows[i];
        code = reseal_secret(db, p, &df_q_subscription_reseal, s->id, s->plain, s->sealed, err);
        if (code == DF_OK)
            code = reseal_secret(db, p, &df_q_subscription_reseal_previous, s->id,
                                 s->previous_plain, s->previous_sealed, err);
        if (code == DF_OK)
            code = reseal_secret(db, p, &df_q_subscription_reseal_next, s->id, DF_STR_NULL,
                                 s->next_sealed, err);
    }
    if (code == DF_OK && p->found > 0 && !df_uuid_parse(rows[p->found - 1].id, &p->next.after))
        code = df_err_set(err, DF_E_INTERNAL, "a subscription's id is no UUID");
    p->next.done = p->found < AT_ONCE;
    return code;
}

void df_reseal_begin(struct df_reseal *r)
{
    *r = (struct df_reseal){.done = false};
    (void)df_uuid_parse(DF_STR("00000000-0000-0000-0000-000000000000"), &r->after);
}

enum df_code df_subscriptions_reseal(struct df_store *store, struct df_keys *keys,
                                     struct df_reseal *r, struct df_err *err)
{
    struct page p = {.job.run = reseal_page, .keys = keys, .from = r};
    enum df_code code = df_store_write_wait(store, &p.job, err);

    df_arena_release(&p.arena);
    if (code == DF_OK)
        *r = p.next;
    return code;
}

/* --- at start --- */

/* A wrong master key opens none of the secrets that an older release encrypted with it: the server
 * does not start. */
static enum df_code judge_start(const struct df_reseal *r, struct df_err *err)
{
    if (r->changed > 0)
        df_log_info("WebhookSecretsEncrypted", "%zu webhook secrets are under a data key now",
                    r->changed);
    if (r->lost == 0)
        return DF_OK;
    if (r->lost_key == 0 && r->opened == 0)
        return df_err_set(
            err, DF_E_CONFIG,
            "webhook secrets were encrypted with another security.master_key: set it, "
            "or set it as security.master_old_key_file");
    df_log_error("WebhookSecretsLost", "%zu webhook secrets do not open%s", r->lost,
                 r->lost_key ? ": their data key is not in DataKeys" : " with any master key");
    return DF_OK;
}

enum df_code df_subscriptions_seal(struct df_subscriptions *s, struct df_err *err)
{
    struct df_reseal r;
    enum df_code code;

    df_reseal_begin(&r);
    do
        code = df_subscriptions_reseal(s->opt.store, s->opt.keys, &r, err);
    while (code == DF_OK && !r.done);
    if (code == DF_OK)
        return judge_start(&r, err);
    df_log_warn("WebhookSecretsNotRead", "%s",
                err->detail); /* /readyz reports the database's trouble */
    return DF_OK;
}

/* --- previous secrets whose time is over --- */

void df_subscriptions_forget_previous(struct df_store *store, const struct df_clock *clock)
{
    struct df_job job = {
        .query = &df_q_subscription_forget_previous,
        .params = DF_ROW(subscription_forget_previous, .now = df_time(df_wall_ms(clock)))};
    struct df_err err = DF_ERR_INIT;

    if (df_store_write_wait(store, &job, &err) != DF_OK)
        df_log_warn("WebhookSecretsNotForgotten", "%s", err.detail);
    else if (job.affected > 0)
        df_log_info("WebhookSecretsForgotten", "%lld previous webhook secrets count no more",
                    (long long)job.affected);
}
