/* The keys of what is stored, for the server and for commands. */
#include "app/database.h"

#include "access/access.h"
#include "app/signals.h"
#include "app/waiting.h"
#include "base/log.h"
#include "base/loop.h"
#include "keys/data_keys.h"
#include "keys/remote.h"
#include "keys/vault.h"
#include "store/schema.h"

#define TELL_MS  10000 /* between two lines about what is waited for */
#define SLICE_MS 100

enum df_code df_open_data_keys(const struct df_settings *s, const struct df_clock *clock,
                               bool for_server, struct df_data_keys *ret, struct df_err *err)
{
    const struct df_master_options opt = {.for_server = for_server,
                                          .settings = &s->keys,
                                          .data_dir = s->data_dir,
                                          .clock = clock,
                                          .stopped = df_signals_end_is_due};
    struct df_db *db = NULL;
    enum df_code code = df_open_database(s, false, &db, NULL, err);

    /* A server begins when the whole schema stands: who applies it commits after each script. */
    if (code == DF_OK && for_server)
        code = df_schema_check(db, err);
    if (code == DF_OK)
        code = df_data_keys_open(db, &opt, ret, err);
    df_db_close(db);
    return code;
}

/* By the real clock, in small steps: a signal ends the wait. */
static void wait_for_next(int64_t ms)
{
    const struct df_clock *clock = df_clock_real();
    int64_t until_ms = df_mono_ms(clock) + ms;

    while (!df_signals_end_is_due() && df_mono_ms(clock) < until_ms)
        df_sleep_ms(SLICE_MS);
}

/* A vault may be silent for long before its call fails. */
static bool asks_a_vault(const struct df_keys_settings *s)
{
    const struct df_secret *places[] = {s->master_key, s->master_old_key};

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (places[i] && df_vault_is_valid(df_secret_str(places[i])))
            return true;
    return false;
}

enum df_code df_wait_data_keys(const struct df_settings *s, struct df_access *access,
                               struct df_data_keys *ret, struct df_waiting **waiting,
                               struct df_err *err)
{
    struct df_backoff backoff = {.min_ms = 500, .max_ms = 10000};
    int64_t told_ms = -TELL_MS;

    enum df_code code = DF_OK;
    if (asks_a_vault(&s->keys))
        code = df_waiting_tell(waiting, s, access, DF_E_UNAVAILABLE, err);
    while (code == DF_OK) {
        code = df_open_data_keys(s, access->clock, true, ret, err);
        if (code == DF_E_DB_UNAVAILABLE && told_ms >= 0)
            code =
                DF_E_UNAVAILABLE; /* the database went away while something else was waited for */
        if (code != DF_E_UNAVAILABLE && code != DF_E_SCHEMA)
            return code;
        int64_t now_ms = df_mono_ms(df_clock_real());
        if (now_ms - told_ms >= TELL_MS) {
            df_log_error(code == DF_E_SCHEMA ? "SchemaMissing" : "MasterKeyUnavailable",
                         "%s; trying again", err->detail);
            told_ms = now_ms;
        }
        code = df_waiting_tell(waiting, s, access, code, err);
        int64_t wait_ms = df_backoff_more(&backoff), asked_ms = df_remote_asked_ms();
        if (code == DF_OK)
            wait_for_next(wait_ms > asked_ms ? wait_ms : asked_ms);
        if (df_signals_end_is_due())
            return df_err_set(err, DF_E_CANCELLED, "stopped while the keys were waited for");
    }
    return code;
}
