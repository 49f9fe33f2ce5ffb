/*
 * A trigger that tells the relay of new rows, once for each statement. PostgreSQL drops repeated
 * notifications of one transaction, so that a statement for thousands of rows costs one.
 */
#include "relay/relay_private.h"

#include <stdlib.h>

static enum df_code need_postgres(const struct df_relay_settings *s, struct df_err *err)
{
    enum df_dialect d;
    enum df_code code = df_db_dialect_of(s->url, &d, err);

    if (code == DF_OK && d != DF_POSTGRES)
        code = df_err_set(err, DF_E_CONFIG,
                          "relay %s: only PostgreSQL can notify; this source is polled every %lld "
                          "ms (poll_ms)",
                          s->name, (long long)s->poll_ms);
    if (code == DF_OK && !s->notify_channel)
        code = df_err_set(err, DF_E_CONFIG, "relay %s: set notify_channel first", s->name);
    return code;
}

/* The name of the trigger, or of its function, which is created in the table's schema: the text
 * before the last dot, since no name has a dot. */
static void add_name(const struct df_relay_settings *s, const char *schema_of, struct df_buf *out)
{
    const char *dot = schema_of ? strrchr(schema_of, '.') : NULL;
    struct df_buf name;

    if (dot)
        df_buf_adds(out, df_str_n(schema_of, (size_t)(dot + 1 - schema_of)));
    df_buf_init(&name, 256);
    df_buf_addf(&name, "dataflow_notify_%s", s->name);
    relay_quote_name(DF_POSTGRES, df_buf_str(&name), out);
    df_buf_release(&name);
}

/* table: quoted. */
static void write_trigger_sql(const struct df_relay_settings *s, const char *table,
                              struct df_buf *out)
{
    df_buf_addz(out, "CREATE OR REPLACE FUNCTION ");
    add_name(s, table, out);
    df_buf_addz(out, "() RETURNS trigger LANGUAGE plpgsql AS $dataflow$\nBEGIN\n"
                     "    PERFORM pg_notify(");
    relay_quote_text(DF_POSTGRES, df_str_c(s->notify_channel), out);
    df_buf_addz(out, ", '');\n    RETURN NULL;\nEND\n$dataflow$;\n"
                     "DROP TRIGGER IF EXISTS ");
    add_name(s, NULL, out);
    df_buf_addf(out, " ON %s;\nCREATE TRIGGER ", table);
    add_name(s, NULL, out);
    df_buf_addf(out, " AFTER INSERT ON %s\n    FOR EACH STATEMENT EXECUTE FUNCTION ", table);
    add_name(s, table, out);
    df_buf_addz(out, "();\n");
}

enum df_code df_relay_trigger_sql(const struct df_relay_settings *s, struct df_buf *out,
                                  struct df_err *err)
{
    enum df_code code = need_postgres(s, err);

    if (code != DF_OK)
        return code;
    char *table = relay_quoted_table(DF_POSTGRES, s->table, false);
    write_trigger_sql(s, table, out);
    free(table);
    return DF_OK;
}

/* With the table's name as it was found, which may be in lower case. */
static enum df_code write_sql_for_found(struct df_db *db, const struct df_relay_settings *s,
                                        struct df_buf *out, struct df_err *err)
{
    struct relay_table table;
    struct relay_sql sql;
    struct df_buf complaints;

    df_buf_init(&complaints, 64 << 10);
    enum df_code code = relay_check(db, s, &table, &sql, &complaints, err);
    if (code == DF_OK) {
        write_trigger_sql(s, table.name, out);
        relay_table_release(&table);
        relay_sql_release(&sql);
    } else if (code == DF_E_CONFIG) {
        struct df_str first;
        (void)df_str_cut(df_buf_str(&complaints), '\n', &first);
        code = df_err_set(err, DF_E_CONFIG, DF_STR_FMT, DF_STR_ARG(first));
    }
    df_buf_release(&complaints);
    return code;
}

enum df_code df_relay_trigger_apply(const struct df_relay_settings *s, struct df_err *err)
{
    struct df_buf sql;
    struct df_db *db = NULL;
    enum df_code code = need_postgres(s, err);

    df_buf_init(&sql, 16 << 10);
    if (code == DF_OK)
        code = relay_connect(s, &db, err);
    if (code == DF_OK)
        code = write_sql_for_found(db, s, &sql, err);
    if (code == DF_OK)
        code = df_db_begin(db, true, err);
    if (code == DF_OK)
        code = df_db_script(db, sql.ptr, err);
    if (code == DF_OK)
        code = df_db_commit(db, err);
    if (db && code != DF_OK)
        df_db_reset(db);
    df_db_close(db);
    df_buf_release(&sql);
    return code;
}
