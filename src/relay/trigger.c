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

/* The schema of the table, quoted and with its dot; nothing where the table has none. */
static void add_schema(const struct df_relay_settings *s, struct df_buf *out)
{
    const char *dot = strrchr(s->table, '.');

    if (!dot)
        return;
    relay_quote_name(DF_POSTGRES, df_str_n(s->table, (size_t)(dot - s->table)), out);
    df_buf_addc(out, '.');
}

static void add_table(const struct df_relay_settings *s, struct df_buf *out)
{
    const char *dot = strrchr(s->table, '.');

    add_schema(s, out);
    relay_quote_name(DF_POSTGRES, df_str_c(dot ? dot + 1 : s->table), out);
}

/* Of the trigger, and of its function, which stands in the table's schema. */
static void add_name(const struct df_relay_settings *s, bool function, struct df_buf *out)
{
    struct df_buf name;

    df_buf_init(&name, 256);
    df_buf_addf(&name, "dataflow_notify_%s", s->name);
    if (function)
        add_schema(s, out);
    relay_quote_name(DF_POSTGRES, df_buf_str(&name), out);
    df_buf_release(&name);
}

enum df_code df_relay_trigger_sql(const struct df_relay_settings *s, struct df_buf *out,
                                  struct df_err *err)
{
    enum df_code code = need_postgres(s, err);

    if (code != DF_OK)
        return code;
    df_buf_addz(out, "CREATE OR REPLACE FUNCTION ");
    add_name(s, true, out);
    df_buf_addz(out, "() RETURNS trigger LANGUAGE plpgsql AS $dataflow$\nBEGIN\n"
                     "    PERFORM pg_notify(");
    relay_quote_text(DF_POSTGRES, df_str_c(s->notify_channel), out);
    df_buf_addz(out, ", '');\n    RETURN NULL;\nEND\n$dataflow$;\n"
                     "DROP TRIGGER IF EXISTS ");
    add_name(s, false, out);
    df_buf_addz(out, " ON ");
    add_table(s, out);
    df_buf_addz(out, ";\nCREATE TRIGGER ");
    add_name(s, false, out);
    df_buf_addz(out, " AFTER INSERT ON ");
    add_table(s, out);
    df_buf_addz(out, "\n    FOR EACH STATEMENT EXECUTE FUNCTION ");
    add_name(s, true, out);
    df_buf_addz(out, "();\n");
    return DF_OK;
}

enum df_code df_relay_trigger_apply(const struct df_relay_settings *s, struct df_err *err)
{
    struct df_buf sql;
    struct df_db *db = NULL;

    df_buf_init(&sql, 16 << 10);
    enum df_code code = df_relay_trigger_sql(s, &sql, err);
    if (code == DF_OK)
        code = relay_connect(s, &db, err);
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
