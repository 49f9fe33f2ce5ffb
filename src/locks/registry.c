/*
 * Which processes take locks, and by which provider (LockProviders): all must use the same one. A
 * process that starts looks at the others in one transaction, and those who start follow one
 * another at the row of LockInstallation. A row that was not renewed for three minutes does not
 * count.
 */
#include "base/instance.h"
#include "base/log.h"
#include "locks/locks.sql.h"
#include "locks/locks_private.h"

#include <stdio.h>

struct registering {
    struct df_job job;
    const struct df_locks_options *opt;
    struct df_uuid installation;
    bool redis_is_new;
    int64_t longest_ms;
    bool differs;        /* somebody who is alive uses another provider */
    struct df_uuid gone; /* one that does not, of another provider */
    bool has_gone;
    bool was_forgotten; /* its own row was no longer there */
};

static const char *provider_name(const struct df_locks_options *opt)
{
    return opt->settings.provider == DF_LOCKS_REDIS ? "redis" : "sql";
}

static struct df_value own_id(const struct registering *r)
{
    return df_uuid(df_uuid_str(&r->opt->instance->id));
}

static void read_installation(void *arg, struct df_result *r)
{
    struct registering *x = arg;

    (void)df_uuid_parse(df_col_text(r, installation_read_InstallationId), &x->installation);
    x->redis_is_new = df_col_null(r, installation_read_RedisUsedAt);
}

static void read_provider(void *arg, struct df_result *r)
{
    struct registering *x = arg;
    int64_t lease_ms = df_col_int(r, provider_list_LeaseMs);
    struct df_uuid id = {0};

    (void)df_uuid_parse(df_col_text(r, provider_list_Id), &id);
    x->longest_ms = lease_ms > x->longest_ms ? lease_ms : x->longest_ms;
    if (df_str_eq(df_col_text(r, provider_list_Provider), df_str_c(provider_name(x->opt))))
        return;
    if (df_instance_is_gone(x->opt->instance, &id)) {
        x->gone = id;
        x->has_gone = true;
    } else {
        x->differs = true;
    }
}

static enum df_code look_at_others(struct df_db *db, struct registering *x, struct df_err *err)
{
    x->longest_ms = x->opt->settings.lease_ms;
    x->differs = x->has_gone = false;
    enum df_code code = df_db_exec(db, DF_Q0(provider_sweep), NULL, err);
    if (code == DF_OK)
        code = df_db_each(db, DF_Q0(provider_list), read_provider, x, err);
    if (code == DF_OK && x->has_gone)
        code = df_db_exec(db, DF_Q(provider_drop, .id = df_uuid(df_uuid_str(&x->gone))), NULL, err);
    return code;
}

static enum df_code add_own_row(struct df_db *db, const struct registering *x, struct df_err *err)
{
    return df_db_exec(db,
                      DF_Q(provider_add, .id = own_id(x),
                           .provider = df_text(df_str_c(provider_name(x->opt))),
                           .lease_ms = df_int(x->opt->settings.lease_ms)),
                      NULL, err);
}

static enum df_code run_register(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct registering *x = (struct registering *)job;
    struct df_uuid fresh = df_uuid_v4(x->opt->clock);

    enum df_code code =
        df_db_exec(db, DF_Q(installation_add, .id = df_uuid(df_uuid_str(&fresh))), NULL, err);
    if (code == DF_OK)
        code = df_db_exec(db, DF_Q0(installation_lock), NULL, err);
    if (code == DF_OK)
        code = df_db_one(db, DF_Q0(installation_read), read_installation, x, NULL, err);
    if (code == DF_OK)
        code = look_at_others(db, x, err);
    if (code == DF_OK && x->opt->acquires && !x->differs)
        code = add_own_row(db, x, err);
    return code;
}

enum df_code lock_register(const struct df_locks_options *opt, struct lock_registry *ret,
                           struct df_err *err)
{
    struct registering x = {.job = {.run = run_register}, .opt = opt};

    enum df_code code = df_store_write_wait(opt->store, &x.job, err);
    if (code != DF_OK)
        return code;
    if (opt->acquires && x.differs)
        return df_err_set(err, DF_E_CONFIG,
                          "imports.lock is %s here, and other processes of this installation use "
                          "another one: stop all that import, then start them with the same",
                          provider_name(opt));
    ret->installation = x.installation;
    ret->redis_is_new = x.redis_is_new && opt->acquires;
    atomic_store(&ret->longest_ms, x.longest_ms);
    return DF_OK;
}

static enum df_code run_renew(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct registering *x = (struct registering *)job;
    int64_t affected = 0;

    enum df_code code = df_db_exec(db, DF_Q(provider_renew, .id = own_id(x)), &affected, err);
    x->was_forgotten = affected == 0;
    if (code == DF_OK && (x->was_forgotten || x->opt->settings.provider == DF_LOCKS_REDIS))
        code = look_at_others(db, x, err);
    if (code == DF_OK && x->was_forgotten && !x->differs)
        code = add_own_row(db, x, err);
    return code;
}

enum df_code lock_register_renew(const struct df_locks_options *opt, struct lock_registry *r,
                                 bool *ret_barred, struct df_err *err)
{
    struct registering x = {
        .job = {.run = run_renew}, .opt = opt, .longest_ms = atomic_load(&r->longest_ms)};

    enum df_code code = df_store_write_wait(opt->store, &x.job, err);
    if (code != DF_OK)
        return code;
    atomic_store(&r->longest_ms, x.longest_ms);
    *ret_barred = x.was_forgotten && x.differs;
    return DF_OK;
}

static enum df_code run_used(struct df_db *db, struct df_job *job, struct df_err *err)
{
    (void)job;
    return df_db_exec(db, DF_Q0(installation_used), NULL, err);
}

enum df_code lock_register_redis(const struct df_locks_options *opt, struct df_err *err)
{
    struct df_job job = {.run = run_used};
    return df_store_write_wait(opt->store, &job, err);
}

static enum df_code run_end(struct df_db *db, struct df_job *job, struct df_err *err)
{
    return df_db_exec(db, DF_Q(provider_drop, .id = own_id((struct registering *)job)), NULL, err);
}

void lock_register_end(const struct df_locks_options *opt)
{
    struct registering x = {.job = {.run = run_end}, .opt = opt};
    struct df_err err = DF_ERR_INIT;

    if (df_store_write_wait(opt->store, &x.job, &err) != DF_OK)
        df_log_warn("LockProviderLeft", "%s; the row is forgotten after three minutes", err.detail);
}
