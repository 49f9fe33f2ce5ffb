#include "app/audited.h"

#include "access/audit_verify.h"
#include "app/cli.h"
#include "app/database.h"
#include "base/checksum.h"
#include "keys/data_keys.h"
#include "json/write.h"

#include <stdio.h>

#define TRIES      5 /* of a transaction that a running server is in the way of */
#define SEAL_STEP  500
#define SEAL_MOST  20000 /* at the start; the rest is sealed while the server runs */
#define CONFIG_MAX (1 << 20)

static struct df_data_keys command_keys;

enum df_code df_open_audited(const struct df_settings *s, bool migrate, struct df_db **ret,
                             struct df_err *err)
{
    enum df_code code = df_open_database(s, migrate, ret, NULL, err);

    if (code != DF_OK)
        return code;
    code = df_open_data_keys(s, df_clock_real(), false, &command_keys, err);
    if (code == DF_OK)
        df_audit_use_keys(command_keys.ring);
    return code;
}

struct df_data_keys *df_audited_keys(void)
{
    return &command_keys;
}

void df_close_audited(const struct df_settings *s, struct df_db *take_db, bool keep)
{
    struct df_err err = DF_ERR_INIT;

    if (take_db && command_keys.ring && keep &&
        df_audit_head_keep(take_db, s->data_dir, df_wall_ms(df_clock_real()), &err) != DF_OK)
        df_log_warn("AuditHeadNotKept", "%s", err.detail);
    df_db_close(take_db);
    df_audit_use_keys(NULL);
    df_data_keys_release(&command_keys);
    command_keys = (struct df_data_keys){0};
}

static enum df_code tell_once(struct df_db *db, const struct df_audit_entry *e, struct df_err *err)
{
    enum df_code code = df_db_begin(db, true, err);

    if (code == DF_OK)
        code = df_audit_add(db, e, err);
    if (code == DF_OK)
        return df_db_commit(db, err);
    df_db_rollback(db);
    return code;
}

enum df_code df_tell_audit(struct df_db *db, const char *action, const char *outcome,
                           struct df_str target, struct df_str details, struct df_err *err)
{
    char name[80];
    struct df_actor by = df_cli_actor(name, sizeof name);
    const struct df_audit_entry e = {.by = &by,
                                     .action = action,
                                     .outcome = outcome,
                                     .target = target,
                                     .details = details,
                                     .now_ms = df_wall_ms(df_clock_real())};
    enum df_code code = DF_E_DB_CONFLICT;

    for (int i = 0; i < TRIES && df_code_retry(code) == DF_RETRY_NOW; i++)
        code = tell_once(db, &e, err);
    return code;
}

enum df_code df_tell_restored(const struct df_settings *s, struct df_db *db, int64_t replaced,
                              struct df_str reason, struct df_err *err)
{
    struct df_audit_heads heads;
    struct df_json_out json;
    struct df_buf details;
    char target[24];
    enum df_code code = df_audit_heads_load(s->data_dir, &heads, err);

    if (code != DF_OK)
        return code;
    for (size_t i = 0; i < heads.count; i++)
        if (heads.items[i].genuine && heads.items[i].sequence > replaced)
            replaced = heads.items[i].sequence;
    df_audit_heads_release(&heads);
    (void)snprintf(target, sizeof target, "%lld", (long long)replaced);
    df_buf_init(&details, CONFIG_MAX);
    df_json_out_init(&json, &details);
    df_json_open(&json, '{');
    df_json_kv_int(&json, "replacedHead", replaced);
    df_json_kv_text(&json, "reason", reason);
    df_json_close(&json, '}');
    code = df_tell_audit(db, "DatabaseRestored", NULL, df_str_c(target), df_buf_str(&details), err);
    df_buf_release(&details);
    return code;
}

/* --- a server's start --- */

struct start_job {
    struct df_job job;
    const struct df_settings *settings;
    const struct df_clock *clock;
    const struct df_audit_heads *heads;
    struct df_str details;
    int64_t sealed;
    bool behind;
    struct df_audit_head line;
};

static enum df_code run_seal(struct df_db *db, struct df_job *job, struct df_err *err)
{
    return df_audit_seal(db, SEAL_STEP, &((struct start_job *)job)->sealed, err);
}

static enum df_code run_look(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct start_job *j = (struct start_job *)job;
    return df_audit_is_behind(db, j->heads, &j->behind, &j->line, err);
}

static enum df_code run_tell(struct df_db *db, struct df_job *job, struct df_err *err)
{
    const struct start_job *j = (const struct start_job *)job;
    const struct df_actor by = {.name = DF_STR("server")};
    char url[512];

    df_db_url_masked(j->settings->store.url, url, sizeof url);
    return df_audit_write(db, &by, "ServerStarted", df_str_c(url), DF_STR_NULL, j->details,
                          df_wall_ms(j->clock), err);
}

static enum df_code seal_older(struct df_store *store, struct df_err *err)
{
    struct start_job j = {.job.run = run_seal, .sealed = SEAL_STEP};
    enum df_code code = DF_OK;

    for (int64_t done = 0; code == DF_OK && j.sealed == SEAL_STEP && done < SEAL_MOST;
         done += j.sealed)
        code = df_store_write_wait(store, &j.job, err);
    return code;
}

static enum df_code look_behind(const struct df_settings *s, struct df_store *store,
                                struct df_err *err)
{
    struct df_audit_heads heads;
    struct start_job j = {.job.run = run_look, .heads = &heads};
    enum df_code code = df_audit_heads_load(s->data_dir, &heads, err);

    if (code == DF_OK)
        code = df_store_read_wait(store, &j.job, err);
    if (code == DF_OK && j.behind)
        df_log_error("AuditHeadBehind",
                     "the audit log lacks entry %lld, which was there before: was the database "
                     "restored (`dataflow audit restored`), or was it cut (`dataflow audit "
                     "verify`)?",
                     (long long)j.line.sequence);
    df_audit_heads_release(&heads);
    return code;
}

static void add_names(const struct df_settings *s, struct df_json_out *json)
{
    df_json_key(json, "adminKeys");
    df_json_open(json, '[');
    if (s->auth.admin_key)
        df_json_text(json, DF_STR("admin"));
    for (size_t i = 0; i < s->auth.admin_count; i++)
        df_json_text(json, df_str_c(s->auth.admins[i].name));
    df_json_close(json, ']');
}

/* The hash is of the configuration as check-config prints it: without secrets. */
static void add_details(const struct df_settings *s, struct df_buf *out)
{
    char hash[DF_CHECKSUM_LEN + 1];
    struct df_json_out json;
    struct df_buf config;

    df_buf_init(&config, CONFIG_MAX);
    df_config_print(&df_settings_table, s, &config);
    df_checksum_of(df_buf_str(&config), hash);
    df_buf_release(&config);
    df_json_out_init(&json, out);
    df_json_open(&json, '{');
    df_json_kv_text(&json, "version", DF_STR(DF_VERSION));
    df_json_kv_text(&json, "listen", df_str_c(s->http.listen));
    df_json_key(&json, "roles");
    df_settings_write_roles(s, &json);
    add_names(s, &json);
    df_json_kv_text(&json, "configuration", df_str_n(hash, DF_CHECKSUM_LEN));
    df_json_close(&json, '}');
}

static enum df_code tell_start(const struct df_settings *s, struct df_store *store,
                               const struct df_clock *clock, struct df_err *err)
{
    struct df_buf details;

    df_buf_init(&details, CONFIG_MAX);
    add_details(s, &details);
    struct start_job j = {
        .job.run = run_tell, .settings = s, .clock = clock, .details = df_buf_str(&details)};
    enum df_code code = df_store_write_wait(store, &j.job, err);
    df_buf_release(&details);
    return code;
}

void df_audit_start(const struct df_settings *s, struct df_store *store,
                    const struct df_clock *clock)
{
    struct df_err err = DF_ERR_INIT;
    enum df_code code = seal_older(store, &err);

    if (code == DF_OK)
        code = look_behind(s, store, &err);
    if (code == DF_OK)
        code = tell_start(s, store, clock, &err);
    if (code != DF_OK)
        df_log_error("AuditFailed", "the start is not in the audit log: %s", err.detail);
}
