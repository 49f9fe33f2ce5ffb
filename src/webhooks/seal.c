/*
 * Encrypts secrets when a server starts: those that were stored before there was a master key, and,
 * if an old key is set too, those under the old key. A transaction covers one page of them; a
 * secret that is replaced meanwhile is left alone. While the server runs, this file also removes
 * previous secrets that no longer count.
 */
#include "base/uuid.h"
#include "webhooks/subscriptions.sql.h"
#include "webhooks/subscriptions_private.h"

#define AT_ONCE 200 /* secrets in one transaction */

struct stored {
    struct df_str id;
    struct df_webhook_secret_columns columns;
};

/* One page. The job may run more than once; it sets `found` and what follows afresh. */
struct page {
    struct df_job job;
    const struct df_subscriptions_options *opt;
    const struct df_query *query; /* rows: subscription_secrets */
    enum df_code (*each)(struct df_db *db, struct page *p, const struct stored *row,
                         struct df_err *err);
    struct df_arena arena;
    struct df_uuid after;
    struct df_uuid last;
    struct stored *rows; /* AT_ONCE */
    size_t found;
    size_t changed;
    size_t lost; /* cannot be opened */
};

static void read_stored(void *arg, struct df_result *r)
{
    struct page *p = arg;
    struct df_arena *a = &p->arena;

    p->rows[p->found++] = (struct stored){
        .id = df_arena_str(a, df_col_text(r, subscription_secrets_Id)),
        .columns =
            {.secret = df_arena_str(a, df_col_text(r, subscription_secrets_Secret)),
             .encrypted = df_arena_str(a, df_col_blob(r, subscription_secrets_SecretEncrypted)),
             .previous = df_arena_str(a, df_col_text(r, subscription_secrets_PreviousSecret)),
             .previous_encrypted =
                 df_arena_str(a, df_col_blob(r, subscription_secrets_PreviousSecretEncrypted)),
             .previous_expires_at = df_col_time(r, subscription_secrets_PreviousSecretExpiresAt)},
    };
}

struct master_check {
    struct page *page;
    enum df_code code;
    struct df_err *err;
};

static void try_master(void *arg, struct df_result *r)
{
    struct master_check *m = arg;
    const struct df_webhook_secret_columns columns = {
        .encrypted = df_col_blob(r, subscription_sealed_SecretEncrypted),
        .previous_expires_at = -1};
    struct df_str secret, previous;

    m->code = df_webhook_secret_open(&m->page->opt->keys, df_col_text(r, subscription_sealed_Id),
                                     &columns, 0, &m->page->arena, &secret, &previous, m->err);
    if (m->code == DF_OK)
        df_wipe((void *)(uintptr_t)secret.ptr, secret.len);
}

/* With a wrong key, or none, every delivery would be given up, so the server does not start. */
static enum df_code check_master(struct df_db *db, struct page *p, struct df_err *err)
{
    struct master_check m = {.page = p, .code = DF_OK, .err = err};
    enum df_code code = df_db_each(db, DF_Q0(subscription_sealed), try_master, &m, err);

    return code == DF_OK ? m.code : code;
}

static enum df_code run_page(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct page *p = (struct page *)job;
    struct stored rows[AT_ONCE];

    df_arena_reset(&p->arena);
    p->rows = rows;
    p->found = p->changed = p->lost = 0;
    enum df_code code = check_master(db, p, err);
    if (code == DF_OK)
        code = df_db_each(db,
                          DF_ANY(p->query, {"after", df_uuid(df_uuid_str(&p->after))},
                                 {"limit", df_int(AT_ONCE)}),
                          read_stored, p, err);
    for (size_t i = 0; code == DF_OK && i < p->found; i++)
        code = p->each(db, p, &rows[i], err);
    if (code == DF_OK && p->found > 0 && !df_uuid_parse(rows[p->found - 1].id, &p->last))
        code = df_err_set(err, DF_E_INTERNAL, "a subscription's id is no UUID");
    return code;
}

/* Runs all pages; the counts are then totals. */
static enum df_code run_pages(struct df_store *store, struct page *p, struct df_err *err)
{
    size_t found = 0, changed = 0, lost = 0;
    enum df_code code;

    p->job.run = run_page;
    (void)df_uuid_parse(DF_STR("00000000-0000-0000-0000-000000000000"), &p->after);
    do {
        code = df_store_write_wait(store, &p->job, err);
        found += p->found;
        changed += p->changed;
        lost += p->lost;
        p->after = p->last;
    } while (code == DF_OK && p->found == AT_ONCE);
    df_arena_release(&p->arena);
    p->found = found;
    p->changed = changed;
    p->lost = lost;
    return code;
}

/* --- from before there was a master key --- */

static enum df_code seal_secret(struct df_db *db, struct page *p, const struct stored *row,
                                struct df_err *err)
{
    const struct df_webhook_secret_columns *c = &row->columns;
    struct df_webhook_sealed now, before = {.sealed = DF_STR_NULL};

    /* Other programs may have written longer secrets than we accept. */
    if (!p->opt->keys.master || c->secret.len > DF_WEBHOOK_SECRET_MAX ||
        c->previous.len > DF_WEBHOOK_SECRET_MAX)
        return DF_OK;
    df_webhook_secret_seal(p->opt->keys.master, p->opt->clock, row->id, c->secret, &now);
    if (c->previous.ptr)
        df_webhook_secret_seal(p->opt->keys.master, p->opt->clock, row->id, c->previous, &before);
    return df_db_exec(db,
                      DF_Q(subscription_seal, .encrypted = df_blob(now.sealed),
                           .previous_encrypted = df_blob(before.sealed), .id = df_uuid(row->id),
                           .secret = df_text(c->secret)),
                      NULL, err);
}

static enum df_code seal_plain(struct df_subscriptions *s, struct df_err *err)
{
    struct page p = {.opt = &s->opt, .query = &df_q_subscription_plain, .each = seal_secret};
    enum df_code code = run_pages(s->opt.store, &p, err);

    if (code == DF_OK && p.found > 0 && s->opt.keys.master)
        df_log_info("WebhookSecretsEncrypted", "%zu webhook secrets were stored as they are",
                    p.found);
    else if (code == DF_OK && p.found > 0)
        df_log_warn("WebhookSecretsOpen",
                    "webhook secrets are stored as they are: set security.master_key_file");
    return code;
}

/* --- under the old master key --- */

/* A secret that opens with the new key stays as it is. */
static enum df_code reseal_secret(struct df_db *db, struct page *p, const struct stored *row,
                                  struct df_err *err)
{
    const struct df_webhook_keys new_alone = {.master = p->opt->keys.master};
    const struct df_webhook_secret_columns *c = &row->columns;
    struct df_webhook_sealed now, before = {.sealed = DF_STR_NULL};
    struct df_str secret, previous, now_secret, now_previous;
    struct df_err why = DF_ERR_INIT;
    int64_t now_ms = df_wall_ms(p->opt->clock), affected = 0;

    if (df_webhook_secret_open(&p->opt->keys, row->id, c, now_ms, &p->arena, &secret, &previous,
                               &why) != DF_OK) {
        p->lost++;
        return DF_OK;
    }
    /* A previous secret that does not open is absent. */
    if (df_webhook_secret_open(&new_alone, row->id, c, now_ms, &p->arena, &now_secret,
                               &now_previous, &why) == DF_OK &&
        !previous.ptr == !now_previous.ptr)
        return DF_OK;
    df_webhook_secret_seal(p->opt->keys.master, p->opt->clock, row->id, secret, &now);
    if (previous.ptr)
        df_webhook_secret_seal(p->opt->keys.master, p->opt->clock, row->id, previous, &before);
    enum df_code code = df_db_exec(db,
                                   DF_Q(subscription_reseal, .encrypted = df_blob(now.sealed),
                                        .previous_encrypted = df_blob(before.sealed),
                                        .id = df_uuid(row->id), .before = df_blob(c->encrypted)),
                                   &affected, err);
    p->changed += affected > 0;
    return code;
}

static enum df_code reseal_old(struct df_subscriptions *s, struct df_err *err)
{
    struct page p = {.opt = &s->opt, .query = &df_q_subscription_encrypted, .each = reseal_secret};

    if (!s->opt.keys.master || !s->opt.keys.old_master)
        return DF_OK;
    enum df_code code = run_pages(s->opt.store, &p, err);
    if (code != DF_OK)
        return code;
    df_log_info("WebhookSecretsReencrypted",
                "%zu of %zu webhook secrets were under security.master_old_key", p.changed,
                p.found);
    if (p.lost > 0)
        df_log_warn("WebhookSecretsLost", "%zu webhook secrets open with neither master key",
                    p.lost);
    return DF_OK;
}

enum df_code df_subscriptions_seal(struct df_subscriptions *s, struct df_err *err)
{
    enum df_code code = seal_plain(s, err);

    if (code == DF_OK)
        code = reseal_old(s, err);
    if (code == DF_OK || code == DF_E_CONFIG)
        return code;
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
