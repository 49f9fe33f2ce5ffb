/* The database: reachable, which version, its clock, the schema, the rights, and clients that an
 * upgrade gave more than they may need. */
#include "app/doctor.h"
#include "app/doctor.sql.h"
#include "app/doctor_rights.h"
#include "base/clock.h"
#include "store/db.h"
#include "store/schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLOCK_WARNING_MS 2000
#define CLOCK_PROBLEM_MS 30000
#define NAMES_MAX        512
#define WIDENED_SHOWN    10

struct database {
    struct df_check *check;
    struct df_db *db;
    char user[129];
    char version[129];
    int64_t now_ms;
    bool may_write, may_create;
    size_t lacking; /* tables without a right */
    char grants[NAMES_MAX];
    struct {
        bool may[4];
    } rights;
    size_t widened;
    char clients[NAMES_MAX];
};

/* Adds to a list that is cut when it is full. */
static void add_name(char *list, const char *between, const char *name)
{
    size_t len = strlen(list);
    (void)snprintf(list + len, NAMES_MAX - len, "%s%s", len ? between : "", name);
}

static void copy_text(char *out, size_t size, struct df_str text)
{
    (void)snprintf(out, size, DF_STR_FMT, DF_STR_ARG(text));
}

static void read_database(void *arg, struct df_result *r)
{
    struct database *d = arg;
    copy_text(d->version, sizeof d->version, df_col_text(r, doctor_database_Version));
    copy_text(d->user, sizeof d->user, df_col_text(r, doctor_database_DbUser));
    d->now_ms = df_col_time(r, doctor_database_Now);
    d->may_write = df_col_int(r, doctor_database_MayWrite) != 0;
    d->may_create = df_col_int(r, doctor_database_MayCreate) != 0;
}

static void check_clock(struct database *d, int64_t asked_ms, int64_t answered_ms)
{
    int64_t here_ms = (asked_ms + answered_ms) / 2;
    int64_t apart_ms = d->now_ms > here_ms ? d->now_ms - here_ms : here_ms - d->now_ms;
    enum df_health health = apart_ms >= CLOCK_PROBLEM_MS   ? DF_HEALTH_PROBLEM
                            : apart_ms >= CLOCK_WARNING_MS ? DF_HEALTH_WARNING
                                                           : DF_HEALTH_OK;
    df_check_say(d->check, health, "clock",
                 health == DF_HEALTH_OK
                     ? NULL
                     : "let both machines follow NTP: leases, limits and retries compare times",
                 "differs from the database's by %" PRId64 ".%03" PRId64 " s", apart_ms / 1000,
                 apart_ms % 1000);
}

/* --- schema and rights --- */

static bool check_schema(struct database *d)
{
    const struct df_settings *s = df_check_settings(d->check);
    struct df_err err = DF_ERR_INIT;
    if (df_schema_check(d->db, &err) == DF_OK) {
        df_check_say(d->check, DF_HEALTH_OK, "schema", NULL, "is current");
        return true;
    }
    bool made_at_start = s->store.migrate && d->may_create;
    df_check_say(d->check, made_at_start ? DF_HEALTH_WARNING : DF_HEALTH_PROBLEM, "schema",
                 made_at_start ? "`dataflow serve` applies the scripts at its start; `dataflow "
                                 "migrate` does it now"
                               : "run `dataflow migrate` as a user that may create tables",
                 "%s", err.detail);
    return false;
}

static void read_rights(void *arg, struct df_result *r)
{
    struct database *d = arg;
    d->rights.may[0] = df_col_int(r, doctor_rights_MaySelect) != 0;
    d->rights.may[1] = df_col_int(r, doctor_rights_MayInsert) != 0;
    d->rights.may[2] = df_col_int(r, doctor_rights_MayUpdate) != 0;
    d->rights.may[3] = df_col_int(r, doctor_rights_MayDelete) != 0;
}

static void compare_rights(struct database *d, const struct df_table_rights *t)
{
    static const char *const names[] = {"SELECT", "INSERT", "UPDATE", "DELETE"};
    const bool needs[] = {t->select, t->insert, t->update, t->delete};
    char missing[64] = "", grant[256];
    for (size_t i = 0; i < 4; i++) {
        size_t len = strlen(missing);
        if (needs[i] && !d->rights.may[i])
            (void)snprintf(missing + len, sizeof missing - len, "%s%s", len ? ", " : "", names[i]);
    }
    if (!*missing)
        return;
    d->lacking++;
    (void)snprintf(grant, sizeof grant, "GRANT %s ON %s TO %s;", missing, t->table, d->user);
    add_name(d->grants, " ", grant);
}

static void check_rights(struct database *d)
{
    const struct df_settings *s = df_check_settings(d->check);
    struct df_err err = DF_ERR_INIT;
    enum df_code code = DF_OK;
    for (const struct df_table_rights *t = df_table_rights; code == DF_OK && t->table; t++) {
        code = df_db_each(d->db, DF_Q(doctor_rights, .table = df_text(df_str_c(t->table))),
                          read_rights, d, &err);
        if (code == DF_OK)
            compare_rights(d, t);
    }
    if (code != DF_OK)
        df_check_say(d->check, DF_HEALTH_WARNING, "rights", "see the message", "%s", err.detail);
    else if (d->lacking > 0)
        df_check_say(d->check, DF_HEALTH_PROBLEM, "rights", d->grants,
                     "the user lacks rights on %zu tables", d->lacking);
    else
        df_check_say(d->check, DF_HEALTH_OK, "rights", NULL,
                     "the user may do what the server does");
    if (s->store.migrate && !d->may_create)
        df_check_say(d->check, DF_HEALTH_WARNING, "rights",
                     "set database.migrate=off and run `dataflow migrate` as another user before "
                     "each upgrade",
                     "the user may not create tables, and database.migrate is on");
}

/* --- clients --- */

static void read_widened(void *arg, struct df_result *r)
{
    struct database *d = arg;
    char name[129];
    copy_text(name, sizeof name, df_col_text(r, doctor_widened_ClientIdentifier));
    if (d->widened++ < WIDENED_SHOWN)
        add_name(d->clients, ", ", name);
}

static void check_clients(struct database *d)
{
    struct df_err err = DF_ERR_INIT;
    if (df_db_each(d->db, DF_Q0(doctor_widened), read_widened, d, &err) != DF_OK)
        return; /* said by the rights */
    if (d->widened > 0)
        df_check_say(d->check, DF_HEALTH_WARNING, "clients",
                     "take interface-all from those that should see only their own documents: "
                     "`dataflow client set-scopes ID …`",
                     "an upgrade gave interface-all to %zu: %s%s", d->widened, d->clients,
                     d->widened > WIDENED_SHOWN ? ", …" : "");
}

/* --- space --- */

static void check_space(struct database *d)
{
    struct df_err err = DF_ERR_INIT;
    int64_t gives_back = 0;

    if (df_db_query_int(d->db, DF_Q0(doctor_space), &gives_back, &err) == DF_OK && gives_back == 0)
        df_check_say(d->check, DF_HEALTH_WARNING, "space",
                     "stop the server and run `dataflow retention vacuum` once",
                     "an older version made the file: what is removed leaves room that is used "
                     "again, but the file gets no shorter");
}

/* --- the check --- */

static enum df_code look_at(struct database *d, struct df_err *err)
{
    const struct df_clock *clock = df_clock_real();
    int64_t asked_ms = df_wall_ms(clock);
    enum df_code code = df_db_each(d->db, DF_Q0(doctor_database), read_database, d, err);
    int64_t answered_ms = df_wall_ms(clock);
    if (code != DF_OK)
        return code;
    const char *server = df_db_server(d->db);
    const char *dialect = df_dialect_name(df_db_dialect(d->db));
    int64_t took_ms = answered_ms - asked_ms;
    if (*server)
        df_check_say(d->check, DF_HEALTH_OK, "database", NULL,
                     "%s %s at %s, a round trip takes %" PRId64 " ms", dialect, d->version, server,
                     took_ms);
    else
        df_check_say(d->check, DF_HEALTH_OK, "database", NULL,
                     "%s %s, a round trip takes %" PRId64 " ms", dialect, d->version, took_ms);
    if (df_db_dialect(d->db) != DF_SQLITE)
        check_clock(d, asked_ms, answered_ms);
    code = df_db_begin(d->db, true, err);
    if (code != DF_OK)
        return code;
    df_db_rollback(d->db);
    if (!d->may_write)
        return df_err_set(err, DF_E_DB_UNAVAILABLE,
                          "the database takes no writes: is it a standby?");
    if (check_schema(d)) {
        check_rights(d);
        check_clients(d);
        check_space(d);
    }
    return DF_OK;
}

/* The file of a SQLite URL is not there yet. */
static bool is_new_file(const char *url)
{
    enum df_dialect dialect;
    struct df_err err = DF_ERR_INIT;
    if (df_db_dialect_of(url, &dialect, &err) != DF_OK || dialect != DF_SQLITE)
        return false;
    char path[4096];
    struct df_str file, rest = df_str_c(strchr(url, ':') + 1);
    (void)df_str_cut(rest, '?', &file);
    copy_text(path, sizeof path, file);
    return access(path, F_OK) != 0;
}

void df_check_database(struct df_check *c)
{
    const struct df_settings *s = df_check_settings(c);
    struct database d = {.check = c};
    struct df_err err = DF_ERR_INIT;
    char shown[512];
    df_db_url_masked(s->store.url, shown, sizeof shown);
    if (is_new_file(s->store.url)) {
        df_check_say(c, DF_HEALTH_WARNING, "database",
                     "`dataflow serve` makes it at its start; `dataflow migrate` does it now",
                     "%s does not exist yet", shown);
        return;
    }
    enum df_code code =
        df_db_open(&(struct df_db_options){.url = s->store.url,
                                           .connect_timeout_ms = DF_DOCTOR_LIMIT_MS - 500,
                                           .statement_timeout_ms = DF_DOCTOR_LIMIT_MS - 500,
                                           .existing = true},
                   &d.db, &err);
    if (code == DF_OK)
        code = look_at(&d, &err);
    if (code != DF_OK)
        df_check_say(c, DF_HEALTH_PROBLEM, "database",
                     "check database.url, the server's address, user and password", "%s: %s", shown,
                     err.detail);
    df_db_close(d.db);
}
