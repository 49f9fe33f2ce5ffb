/*
 * Checks whether a relay can work with the table; its complaints tell the reader what to do. Names
 * are looked for as configured, then ignoring case: databases differ in how they store a name that
 * was written without quotes.
 */
#include "base/mem.h"
#include "relay/relay.sql.h"
#include "relay/relay_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define MARGIN_MS 30000 /* beyond the time that sending may take */

enum need { NEED_ID, NEED_TEXT, NEED_INT, NEED_TIME, NEED_STATE };

static const struct {
    const char *key;
    enum need need;
    const char *like; /* a type to add it with */
} wanted[DF_RELAY_COLUMNS] = {
    [DF_RELAY_ID] = {"column_id", NEED_ID, "uuid"},
    [DF_RELAY_EVENT_TYPE] = {"column_event_type", NEED_TEXT, "varchar(200)"},
    [DF_RELAY_PAYLOAD] = {"column_payload", NEED_TEXT, "text"},
    [DF_RELAY_STATUS] = {"column_status", NEED_STATE, "varchar(20)"},
    [DF_RELAY_ATTEMPTS] = {"column_attempts", NEED_INT, "int"},
    [DF_RELAY_CREATED_AT] = {"column_created_at", NEED_TIME, "timestamp"},
    [DF_RELAY_AGGREGATE_TYPE] = {"column_aggregate_type", NEED_TEXT, "varchar(200)"},
    [DF_RELAY_AGGREGATE_ID] = {"column_aggregate_id", NEED_ID, "varchar(200)"},
    [DF_RELAY_NEXT_ATTEMPT_AT] = {"column_next_attempt_at", NEED_TIME, "timestamp"},
    [DF_RELAY_PROCESSED_AT] = {"column_processed_at", NEED_TIME, "timestamp"},
    [DF_RELAY_LAST_ERROR] = {"column_last_error", NEED_TEXT, "varchar(2000)"},
    [DF_RELAY_CORRELATION_ID] = {"column_correlation_id", NEED_ID, "varchar(128)"},
    [DF_RELAY_TRACE_ID] = {"column_trace_id", NEED_TEXT, "varchar(32)"},
    [DF_RELAY_SPAN_ID] = {"column_span_id", NEED_TEXT, "varchar(16)"},
    [DF_RELAY_TRACE_FLAGS] = {"column_trace_flags", NEED_TEXT, "varchar(2)"},
};

/* --- types ------------------------------------------------------------------------------------ */

static bool one_of(const char *type, const char *const *list)
{
    for (; *list; list++) {
        if (strcasecmp(type, *list) == 0)
            return true;
    }
    return false;
}

/* SQLite does not enforce types: any type will do that is not clearly a wrong one. */
static bool type_fits(enum df_dialect d, enum need need, const char *type)
{
    static const char *const ints[] = {"int2", "int4",    "int8",   "smallint",
                                       "int",  "integer", "bigint", NULL};
    static const char *const times[] = {"timestamp", "timestamptz",    "datetime",
                                        "datetime2", "datetimeoffset", NULL};
    static const char *const binary[] = {"bytea", "varbinary", "binary", "image", "blob", NULL};
    static const char *const numbers[] = {"float4", "float8", "numeric", "decimal", "money",
                                          "bool",   "bit",    "float",   "real",    NULL};
    bool is_int = one_of(type, ints);
    bool is_time = one_of(type, times);

    if (d == DF_SQLITE)
        return !one_of(type, binary) || need == NEED_TIME;
    switch (need) {
    case NEED_INT:
        return is_int;
    case NEED_TIME:
        return is_time;
    case NEED_ID:
        return !is_time && !one_of(type, binary) && !one_of(type, numbers);
    case NEED_TEXT:
    case NEED_STATE:
        return !is_int && !is_time && !one_of(type, binary) && !one_of(type, numbers);
    }
    return false;
}

static const char *need_words(enum need need)
{
    switch (need) {
    case NEED_INT:
        return "an integer";
    case NEED_TIME:
        return "a date and time";
    case NEED_ID:
        return "a UUID, an integer or text";
    case NEED_TEXT:
    case NEED_STATE:
        return "text";
    }
    return "";
}

/* --- names ------------------------------------------------------------------------------------ */

char *relay_quoted_table(enum df_dialect d, const char *table, bool lower)
{
    struct df_buf out;
    struct df_str rest = df_str_c(table);

    df_buf_init(&out, 2048);
    while (rest.ptr) {
        struct df_str part;
        char name[512];
        rest = df_str_cut(rest, '.', &part);
        size_t n = part.len < sizeof name ? part.len : sizeof name;
        for (size_t i = 0; i < n; i++) {
            char c = part.ptr[i];
            name[i] = lower && c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
        }
        if (out.len > 0)
            df_buf_addc(&out, '.');
        relay_quote_name(d, df_str_n(name, n), &out);
    }
    size_t len;
    return df_buf_take(&out, &len);
}

struct found {
    char *name;
    char *type;
    char *cast;
    int64_t width;
    bool nullable;
};

#define FOUND_MAX 256

struct found_list {
    struct found at[FOUND_MAX];
    size_t count;
};

static void found_release(struct found_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        free(l->at[i].name);
        free(l->at[i].type);
        free(l->at[i].cast);
    }
}

static void read_column(void *arg, struct df_result *r)
{
    struct found_list *l = arg;

    if (l->count == FOUND_MAX)
        return;
    l->at[l->count++] = (struct found){
        .name = df_strdup(df_col_text(r, relay_columns_Name)),
        .type = df_strdup(df_col_text(r, relay_columns_Type)),
        .cast = df_strdup(df_col_text(r, relay_columns_Written)),
        .width = df_col_int(r, relay_columns_Width),
        .nullable = df_col_int(r, relay_columns_Nullable) == 1,
    };
}

static enum df_code list_columns(struct df_db *db, const char *quoted, const char *table,
                                 struct found_list *ret, struct df_err *err)
{
    struct df_str bare = df_str_c(table);

    /* SQLite: main.table is the file's own table. */
    if (df_db_dialect(db) == DF_SQLITE && df_str_starts(bare, DF_STR("main.")))
        bare = df_str_n(bare.ptr + 5, bare.len - 5);
    return df_db_each(
        db, DF_Q(relay_columns, .table = df_text(bare), .quoted = df_text(df_str_c(quoted))),
        read_column, ret, err);
}

static const struct found *find_column(const struct found_list *l, const char *name)
{
    for (size_t i = 0; i < l->count; i++) {
        if (strcmp(l->at[i].name, name) == 0)
            return &l->at[i];
    }
    for (size_t i = 0; i < l->count; i++) {
        if (strcasecmp(l->at[i].name, name) == 0)
            return &l->at[i];
    }
    return NULL;
}

/* --- the check -------------------------------------------------------------------------------- */

static void check_state_widths(const struct df_relay_settings *s, const struct found *f,
                               struct df_buf *complaints)
{
    const struct {
        const char *key;
        const char *state;
    } states[] = {{"state_pending", s->state_pending},
                  {"state_processed", s->state_processed},
                  {"state_failed", s->state_failed}};

    for (size_t i = 0; f->width > 0 && i < sizeof states / sizeof states[0]; i++) {
        struct df_str state = df_str_c(states[i].state);
        if (df_utf8_cut(state, (size_t)f->width).len < state.len)
            df_buf_addf(complaints, "column %s of %s is %s: %s does not fit into it (%s)\n",
                        f->name, s->table, f->cast, states[i].state, states[i].key);
    }
}

static void check_columns(const struct df_relay_settings *s, const struct found_list *found,
                          struct relay_table *t, struct df_buf *complaints)
{
    for (size_t i = 0; i < DF_RELAY_COLUMNS; i++) {
        const struct found *f = find_column(found, s->columns[i]);
        if (!f) {
            if (i < DF_RELAY_REQUIRED)
                df_buf_addf(
                    complaints, "table %s has no column %s: set %s, or ALTER TABLE %s ADD %s %s\n",
                    s->table, s->columns[i], wanted[i].key, t->name, s->columns[i], wanted[i].like);
            continue;
        }
        /* In a column without a type SQLite does not find a number by its text. */
        if (!type_fits(t->dialect, wanted[i].need, f->type) || (i == DF_RELAY_ID && !*f->type)) {
            df_buf_addf(complaints, "column %s of %s is %s: it must be %s\n", f->name, s->table,
                        *f->cast ? f->cast : "without a type", need_words(wanted[i].need));
            continue;
        }
        if (i == DF_RELAY_STATUS)
            check_state_widths(s, f, complaints);
        t->columns[i].name = df_strdup(df_str_c(f->name));
        t->columns[i].type = df_strdup(df_str_c(f->cast));
        t->columns[i].width = f->width;
        t->columns[i].nullable = f->nullable;
    }
    if (s->order == DF_RELAY_ORDER_AGGREGATE && !t->columns[DF_RELAY_AGGREGATE_ID].name)
        df_buf_addf(complaints,
                    "order=aggregate needs a column %s in %s: set column_aggregate_id, or "
                    "order=none\n",
                    s->columns[DF_RELAY_AGGREGATE_ID], s->table);
}

struct access {
    const struct df_relay_settings *s;
    struct relay_table *t;
    struct df_buf *complaints;
    bool allowed;
};

static void read_access(void *arg, struct df_result *r)
{
    struct access *a = arg;
    struct df_str user = df_col_text(r, relay_access_Who);
    bool reads = df_col_int(r, relay_access_Reads) == 1;

    a->t->rows_lock = df_col_int(r, relay_access_RowsLock) == 1;
    a->allowed = reads && df_col_int(r, relay_access_Writes) == 1;
    if (!a->allowed)
        df_buf_addf(a->complaints,
                    "user " DF_STR_FMT " may not %s %s: GRANT SELECT, UPDATE ON %s TO " DF_STR_FMT
                    "\n",
                    DF_STR_ARG(user), reads ? "UPDATE" : "SELECT from", a->s->table, a->t->name,
                    DF_STR_ARG(user));
    else if (df_col_int(r, relay_access_Indexed) == 0)
        df_buf_addf(a->complaints,
                    "table %s has no index that leads to its %s rows: claims read all of it; "
                    "see docs/outbox.md\n",
                    a->s->table, a->s->state_pending);
}

/* *ret_allowed: the user has the rights that a relay needs. */
static enum df_code check_access(struct df_db *db, const struct df_relay_settings *s,
                                 struct relay_table *t, bool *ret_allowed,
                                 struct df_buf *complaints, struct df_err *err)
{
    struct access a = {.s = s, .t = t, .complaints = complaints};
    enum df_code code =
        df_db_each(db,
                   DF_Q(relay_access, .quoted = df_text(df_str_c(t->name)),
                        .status = df_text(df_str_c(t->columns[DF_RELAY_STATUS].name)),
                        .created = df_text(df_str_c(t->columns[DF_RELAY_CREATED_AT].name))),
                   read_access, &a, err);

    *ret_allowed = a.allowed;
    return code;
}

/* PostgreSQL stores names that were written without quotes in lower case. */
static enum df_code find_table(struct df_db *db, const struct df_relay_settings *s, char **ret_name,
                               struct found_list *ret, struct df_err *err)
{
    enum df_dialect d = df_db_dialect(db);

    *ret_name = relay_quoted_table(d, s->table, false);
    enum df_code code = list_columns(db, *ret_name, s->table, ret, err);
    if (code == DF_OK && ret->count == 0 && d == DF_POSTGRES) {
        free(*ret_name);
        *ret_name = relay_quoted_table(d, s->table, true);
        code = list_columns(db, *ret_name, s->table, ret, err);
    }
    return code;
}

static enum df_code check_table(struct df_db *db, const struct df_relay_settings *s,
                                struct relay_table *ret, struct df_buf *complaints,
                                struct df_err *err)
{
    struct found_list found = {.count = 0};
    size_t before = complaints->len;
    bool allowed = false;

    *ret = (struct relay_table){.dialect = df_db_dialect(db)};
    enum df_code code = find_table(db, s, &ret->name, &found, err);
    if (code == DF_OK && found.count == 0) {
        char where[256];
        df_db_url_masked(s->url, where, sizeof where);
        df_buf_addf(complaints, "table %s does not exist in %s, or may not be seen\n", s->table,
                    where);
    } else if (code == DF_OK) {
        check_columns(s, &found, ret, complaints);
    }
    found_release(&found);
    if (code == DF_OK && complaints->len == before)
        code = check_access(db, s, ret, &allowed, complaints, err);
    if (code == DF_OK && !allowed)
        code = df_err_set(err, DF_E_CONFIG, "the table of relay %s is not right", s->name);
    if (code != DF_OK)
        relay_table_release(ret);
    return code;
}

/* Runs the query for no row at all. */
static enum df_code try_query(struct df_db *db, const struct relay_query *q, struct df_err *err)
{
    struct df_buf none;

    df_buf_init(&none, 16);
    relay_list_open(df_db_dialect(db), &none);
    relay_list_close(df_db_dialect(db), &none);
    struct df_value nobody = df_text(df_buf_str(&none));
    struct df_value zero = df_int(0);
    enum df_code code =
        df_db_exec(db,
                   DF_ANY(&q->q, {"limit", zero}, {"inline", zero}, {"delay", zero},
                          {"window", zero}, {"counted", zero}, {"resting", nobody}, {"ids", nobody},
                          {"id", nobody}, {"error", df_text(DF_STR(""))}),
                   NULL, err);
    df_buf_release(&none);
    return code;
}

/*
 * A state that an enumeration does not have, or a missing right, shows here and not only after
 * events have been sent and cannot be marked.
 */
static enum df_code try_queries(struct df_db *db, const struct df_relay_settings *s,
                                const struct relay_sql *sql, struct df_buf *complaints,
                                struct df_err *err)
{
    const struct relay_query *all[] = {&sql->claim, &sql->payloads, &sql->processed, &sql->retry,
                                       &sql->dead};
    enum df_code code = df_db_begin(db, true, err);

    for (size_t i = 0; code == DF_OK && i < sizeof all / sizeof all[0]; i++)
        code = try_query(db, all[i], err);
    df_db_reset(db);
    if (code == DF_OK || df_code_retry(code) != DF_RETRY_NEVER)
        return code;
    df_buf_addf(complaints, "table %s does not take what a relay does: %s\n", s->table,
                err->detail);
    return df_err_set(err, DF_E_CONFIG, "the table of relay %s is not right", s->name);
}

enum df_code relay_check(struct df_db *db, const struct df_relay_settings *s,
                         struct relay_table *ret, struct relay_sql *ret_sql,
                         struct df_buf *complaints, struct df_err *err)
{
    enum df_code code = check_table(db, s, ret, complaints, err);

    if (code != DF_OK)
        return code;
    relay_sql_make(s, ret, ret_sql);
    code = try_queries(db, s, ret_sql, complaints, err);
    if (code != DF_OK) {
        relay_sql_release(ret_sql);
        relay_table_release(ret);
    }
    return code;
}

/* --- connections ------------------------------------------------------------------------------ */

enum df_code relay_connect(const struct df_relay_settings *s, struct df_db **ret,
                           struct df_err *err)
{
    return df_db_open(&(struct df_db_options){.url = s->url,
                                              .idle_transaction_ms = s->timeout_ms + MARGIN_MS,
                                              .existing = true,
                                              .foreign = true},
                      ret, err);
}

struct counting {
    int64_t *rows;
    int64_t *oldest_ms; /* may be NULL */
};

static void read_rows(void *arg, struct df_result *r)
{
    const struct counting *c = arg;

    *c->rows = df_col_int(r, RELAY_AT_ROWS);
    if (c->oldest_ms)
        *c->oldest_ms = df_col_null(r, RELAY_AT_OLDEST) ? -1 : df_col_int(r, RELAY_AT_OLDEST);
}

enum df_code relay_count(struct df_db *db, const struct relay_query *q, int64_t *ret_rows,
                         int64_t *ret_oldest_ms, struct df_err *err)
{
    return df_db_one(db, DF_NO_VALUES(&q->q), read_rows,
                     &(struct counting){ret_rows, ret_oldest_ms}, NULL, err);
}
