/*
 * The server's database learns how many events of each relay were given up, so that one process can
 * raise the alert whichever relays them. Relays know the figure themselves (worker.c). It is
 * written when it changes, and once an hour while events wait for a person, which tells that the
 * relay still exists.
 *
 * A process also counts what another one has noted: that one may be gone.
 */
#include "base/log.h"
#include "relay/given_up.sql.h"
#include "relay/relays_private.h"

#define COMPARE_MS INT64_C(60000)
#define REPEAT_MS  (60 * COMPARE_MS)

struct note {
    struct df_job job;
    const struct df_relay_status *status;
    int64_t now_ms;
};

static struct df_value time_or_null(int64_t ms)
{
    return ms > 0 ? df_time(ms) : df_null(DF_TIME);
}

static enum df_code run_note(struct df_db *db, struct df_job *job, struct df_err *err)
{
    const struct note *n = (const struct note *)job;
    const struct df_relay_status *s = n->status;
    struct df_value name = df_text(df_str_c(s->name));
    struct df_value given_up = df_int(s->failed);
    struct df_value since = time_or_null(s->failed_since_ms);
    struct df_value at = time_or_null(s->failed_at_ms);
    struct df_value error = df_text(*s->failed_error ? df_str_c(s->failed_error) : DF_STR_NULL);
    int64_t changed = 0;
    enum df_code code =
        df_db_exec(db,
                   DF_Q(relay_given_up_note, .given_up = given_up, .since = since, .at = at,
                        .error = error, .now = df_time(n->now_ms), .name = name),
                   &changed, err);

    if (code == DF_OK && changed == 0)
        code = df_db_exec(db,
                          DF_Q(relay_given_up_insert, .name = name, .given_up = given_up,
                               .since = since, .at = at, .error = error, .now = df_time(n->now_ms)),
                          NULL, err);
    return code;
}

static void note_relay(struct df_relays_entry *e, struct df_store *store, int64_t now_ms)
{
    struct df_relay_status status;
    struct df_err err = DF_ERR_INIT;

    df_relay_status(e->relay, &status);
    bool again = status.failed > 0 && now_ms - e->noted_ms >= REPEAT_MS;
    if (status.failed < 0 || (status.failed == e->noted && !again))
        return;
    struct note n = {.job = {.run = run_note}, .status = &status, .now_ms = now_ms};
    if (df_store_write_wait(store, &n.job, &err) != DF_OK) {
        df_log_warn("RelayFiguresNotWritten", "%s", err.detail);
        return;
    }
    e->noted = status.failed;
    e->noted_ms = now_ms;
}

/* --- what others have noted ------------------------------------------------------------------- */

struct comparison {
    struct df_job job;
    struct df_relays *relays;
};

static void read_noted(void *arg, struct df_result *r)
{
    struct df_relays *rs = arg;
    struct df_str name = df_col_text(r, relay_given_up_noted_Target);

    for (size_t i = 0; i < rs->count; i++) {
        struct df_relay_status status;
        df_relay_status(rs->entries[i].relay, &status);
        if (!df_str_eq(name, df_str_c(status.name)))
            continue;
        rs->entries[i].noted = df_col_int(r, relay_given_up_noted_GivenUp);
        if (status.failed == 0)
            df_relay_count_failed(rs->entries[i].relay);
    }
}

static enum df_code run_comparison(struct df_db *db, struct df_job *job, struct df_err *err)
{
    const struct comparison *c = (const struct comparison *)job;
    return df_db_each(db, DF_Q0(relay_given_up_noted), read_noted, c->relays, err);
}

void df_relays_note_given_up(struct df_relays *rs, struct df_store *store, int64_t now_ms)
{
    struct df_err err = DF_ERR_INIT;

    if (!rs)
        return;
    if (rs->compared_ms == 0 || now_ms - rs->compared_ms >= COMPARE_MS ||
        now_ms < rs->compared_ms) {
        struct comparison c = {.job = {.run = run_comparison}, .relays = rs};
        if (df_store_read_wait(store, &c.job, &err) != DF_OK)
            return; /* the store has logged it */
        rs->compared_ms = now_ms;
    }
    for (size_t i = 0; i < rs->count; i++)
        note_relay(&rs->entries[i], store, now_ms);
}
