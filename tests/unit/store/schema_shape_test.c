/* What the schema has (against schema_expected.h) and what it enforces. */
#include "schema_fixture.h"

#include "base/clock.h"
#include "schema_expected.h"

#include <ctype.h>

#define CLIENT "11111111-1111-4111-8111-111111111111"
#define POLICY "22222222-2222-4222-8222-222222222222"
#define BATCH  "33333333-3333-4333-8333-333333333333"
#define HOOK   "44444444-4444-4444-8444-444444444444"
#define EVENT  "55555555-5555-4555-8555-555555555555"

/* --- what the schema has
 * -------------------------------------------------------------------------- */

/* name, type, nullable, default. SQL Server has full precision where DATETIME2 says nothing: 7
 * digits, on Babelfish 6. */
TESTDB_QUERY(columns_query, 1,
             "SELECT name, type, NOT \"notnull\", dflt_value "
             "FROM pragma_table_info(?1) ORDER BY cid",
             "SELECT a.attname::text, format_type(a.atttypid, a.atttypmod) || "
             "CASE WHEN a.attidentity = '' THEN '' ELSE ' identity' END, "
             "(NOT a.attnotnull)::int, pg_get_expr(d.adbin, d.adrelid) "
             "FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid "
             "AND d.adnum = a.attnum WHERE a.attrelid = to_regclass($1) "
             "AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
             "SELECT i.COLUMN_NAME, CONCAT(i.DATA_TYPE, CASE "
             "WHEN i.CHARACTER_MAXIMUM_LENGTH = -1 THEN '(max)' "
             "WHEN i.CHARACTER_MAXIMUM_LENGTH > 0 "
             "THEN CONCAT('(', i.CHARACTER_MAXIMUM_LENGTH, ')') "
             "WHEN i.DATETIME_PRECISION < 6 THEN CONCAT('(', i.DATETIME_PRECISION, ')') "
             "WHEN c.is_identity = 1 THEN ' identity' ELSE '' END), "
             "c.is_nullable, OBJECT_DEFINITION(c.default_object_id) "
             "FROM INFORMATION_SCHEMA.COLUMNS i JOIN sys.columns c "
             "ON c.object_id = OBJECT_ID(i.TABLE_NAME) AND c.name = i.COLUMN_NAME "
             "WHERE i.TABLE_NAME = ? ORDER BY i.ORDINAL_POSITION");

/*
 * columns, unique, filtered. Babelfish shows the first 31 characters of an index's and its table's
 * name and an ending of its own, by which several may be meant; and it does not tell of filters.
 */
TESTDB_QUERY_MARKED(
    index_query, 2,
    "SELECT (SELECT group_concat(i.name) FROM pragma_index_info(l.name) i), l.\"unique\", "
    "l.partial FROM pragma_index_list(?1) l WHERE l.name = ?2",
    "SELECT (SELECT string_agg(a.attname, ',' ORDER BY k.ord) "
    "FROM unnest(x.indkey) WITH ORDINALITY k (n, ord) JOIN pg_attribute a "
    "ON a.attrelid = x.indrelid AND a.attnum = k.n), x.indisunique::int, "
    "(x.indpred IS NOT NULL)::int FROM pg_index x "
    "JOIN pg_class i ON i.oid = x.indexrelid "
    "WHERE x.indrelid = to_regclass($1) AND i.relname = left(lower($2), 63)",
    "SELECT CONCAT(COL_NAME(a.object_id, a.column_id), "
    "',' + COL_NAME(b.object_id, b.column_id), ',' + COL_NAME(c.object_id, c.column_id)), "
    "i.is_unique, CASE WHEN SERVERPROPERTY('Babelfish') = 1 THEN NULL ELSE i.has_filter END "
    "FROM sys.indexes i JOIN sys.index_columns a "
    "ON a.object_id = i.object_id AND a.index_id = i.index_id AND a.key_ordinal = 1 "
    "LEFT JOIN sys.index_columns b "
    "ON b.object_id = i.object_id AND b.index_id = i.index_id AND b.key_ordinal = 2 "
    "LEFT JOIN sys.index_columns c "
    "ON c.object_id = i.object_id AND c.index_id = i.index_id AND c.key_ordinal = 3 "
    "WHERE i.object_id = OBJECT_ID(?) AND i.is_primary_key = 0 AND (i.name = ? "
    "OR SERVERPROPERTY('Babelfish') = 1 AND i.name LIKE LEFT(CONCAT(?, ?), 31) + '%')",
    0, 1, 1, 0);

/* column, referenced table, what happens on delete; SQLite keeps a constraint's name in the table's
 * text only, Babelfish calls no index clustered */
TESTDB_QUERY_MARKED(
    key_query, 2,
    "SELECT k.col, k.ref, k.del FROM (SELECT \"from\" AS col, \"table\" AS ref, "
    "on_delete AS del, 'FK' AS kind FROM pragma_foreign_key_list(?1) UNION ALL "
    "SELECT name, NULL, NULL, 'PK' FROM pragma_table_info(?1) WHERE pk > 0) k "
    "WHERE k.kind = substr(?2, 1, 2) AND EXISTS (SELECT 1 FROM sqlite_schema s "
    "WHERE s.name = ?1 AND instr(s.sql, 'CONSTRAINT ' || ?2) > 0)",
    "SELECT a.attname::text, (SELECT relname::text FROM pg_class "
    "WHERE oid = c.confrelid), CASE c.confdeltype WHEN 'c' THEN 'CASCADE' "
    "WHEN 'a' THEN 'NO ACTION' ELSE c.confdeltype::text END "
    "FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid "
    "AND a.attnum = c.conkey[1] WHERE c.conrelid = to_regclass($1) "
    "AND c.conname = left(lower($2), 63) "
    "AND c.contype = lower(left($2, 1))::\"char\"",
    "SELECT COL_NAME(i.object_id, c.column_id), CAST(NULL AS NVARCHAR(128)), "
    "CAST(NULL AS NVARCHAR(128)) FROM sys.key_constraints k "
    "JOIN sys.indexes i ON i.object_id = k.parent_object_id AND i.name = k.name "
    "JOIN sys.index_columns c ON c.object_id = i.object_id AND c.index_id = i.index_id "
    "WHERE k.parent_object_id = OBJECT_ID(?) AND k.name = ? AND k.type = 'PK' "
    "AND (i.type_desc = 'CLUSTERED' OR SERVERPROPERTY('Babelfish') = 1) UNION ALL "
    "SELECT COL_NAME(f.parent_object_id, c.parent_column_id), "
    "OBJECT_NAME(f.referenced_object_id), REPLACE(f.delete_referential_action_desc, '_', ' ') "
    "FROM sys.foreign_keys f JOIN sys.foreign_key_columns c "
    "ON c.constraint_object_id = f.object_id "
    "WHERE f.parent_object_id = OBJECT_ID(?) AND f.name = ?",
    0, 1, 0, 1);

/* The database's own name of a type in the notation of schema_expected.h. */
static const char *type_on(enum df_dialect d, const char *type)
{
    static const struct {
        const char *type, *name[DF_DIALECT_COUNT];
    } plain[] = {
        {"identity", {"INTEGER", "bigint identity", "bigint identity"}},
        {"uuid", {"TEXT", "uuid", "uniqueidentifier"}},
        {"time", {"TEXT", "timestamp(3) with time zone", "datetime2"}},
        {"max", {"TEXT", "text", "nvarchar(max)"}},
        {"blob", {"BLOB", "bytea", "varbinary(max)"}},
        {"bit", {"BIT", "boolean", "bit"}},
        {"int", {"INT", "integer", "int"}},
        {"tinyint", {"TINYINT", "smallint", "tinyint"}},
        {"bigint", {"BIGINT", "bigint", "bigint"}},
    };
    static char out[64];

    for (size_t i = 0; i < LEN(plain); i++)
        if (strcmp(plain[i].type, type) == 0)
            return plain[i].name[d];
    if (d == DF_SQLSERVER)
        return type;
    if (d == DF_POSTGRES) {
        (void)snprintf(out, sizeof(out), "%s%s", type[0] == 'c' ? "character" : "character varying",
                       strchr(type, '('));
        return out;
    }
    size_t n = 0;
    for (; type[n]; n++)
        out[n] = (char)toupper((unsigned char)type[n]);
    out[n] = '\0';
    return out;
}

static bool same_default(enum df_dialect d, const struct expected_column *c, struct df_str actual)
{
    static const char *const now[] = {"strftime", "CURRENT_TIMESTAMP", "sysutcdatetime()"};
    char want[128];

    if (!c->def || !actual.ptr)
        return !c->def && !actual.ptr;
    /* SQL Server puts parentheses around, around numbers twice. */
    while (d == DF_SQLSERVER && actual.ptr[0] == '(')
        actual = df_str_n(actual.ptr + 1, actual.len - 2);
    if (strcmp(c->def, "now") == 0)
        return memmem(actual.ptr, actual.len, now[d], strlen(now[d])) != NULL;
    if (strcmp(c->type, "bit") == 0 && d == DF_POSTGRES)
        return df_str_eq(actual, df_str_c(c->def[0] == '1' ? "true" : "false"));
    if (isdigit((unsigned char)c->def[0]))
        return df_str_eq(actual, df_str_c(c->def));
    (void)snprintf(want, sizeof(want), "'%s'%s", c->def,
                   d == DF_POSTGRES ? "::character varying" : "");
    return df_str_eq(actual, df_str_c(want));
}

/* Checks the columns of the table that expected_columns[first] begins; returns how many are
 * expected. */
static size_t check_table(size_t first)
{
    enum df_dialect d = df_db_dialect(fx.db);
    const struct expected_column *c = &expected_columns[first];
    const char *table = c->table;
    struct df_err err = DF_ERR_INIT;
    struct df_result *r = NULL;
    enum df_code code;
    size_t n = 0;

    if (df_db_query(fx.db, &columns_query, DF_PARAMS(df_text(df_str_c(table))), &r, &err) != DF_OK)
        fail_msg("%s: %s", table, err.detail);
    while ((code = df_result_step(r, &err)) == DF_ROW) {
        struct df_str name = df_col_text(r, 0);
        bool known = first + n < LEN(expected_columns) && strcmp(c[n].table, table) == 0;

        if (!known) {
            /* A later script's column: it may not stand in the way of those who do not know it. */
            if (df_col_int(r, 2) == 0 && df_col_null(r, 3))
                fail_msg("%s." DF_STR_FMT " is neither nullable nor defaulted", table,
                         DF_STR_ARG(name));
            continue;
        }
        /* PostgreSQL alone does not keep their case. */
        if (!(d == DF_POSTGRES ? df_str_ieq : df_str_eq)(name, df_str_c(c[n].column)))
            fail_msg("%s: " DF_STR_FMT " instead of %s", table, DF_STR_ARG(name), c[n].column);
        if (!df_str_eq(df_col_text(r, 1), df_str_c(type_on(d, c[n].type))))
            fail_msg("%s.%s: type " DF_STR_FMT, table, c[n].column, DF_STR_ARG(df_col_text(r, 1)));
        if ((df_col_int(r, 2) != 0) != c[n].nullable)
            fail_msg("%s.%s: nullable is wrong", table, c[n].column);
        if (!same_default(d, &c[n], df_col_text(r, 3)))
            fail_msg("%s.%s: default " DF_STR_FMT, table, c[n].column,
                     DF_STR_ARG(df_col_text(r, 3)));
        n++;
    }
    df_result_free(r);
    assert_int_equal(code, DF_DONE);
    if (first + n < LEN(expected_columns) && strcmp(c[n].table, table) == 0)
        fail_msg("%s.%s is missing", table, c[n].column);
    assert_true(n > 0);
    return n;
}

static void every_column_is_there_in_its_order(void **state)
{
    (void)state;
    (void)apply();
    for (size_t i = 0; i < LEN(expected_columns);)
        i += check_table(i);
}

static void every_index_is_there(void **state)
{
    (void)state;
    (void)apply();
    for (size_t i = 0; i < LEN(expected_indexes); i++) {
        const struct expected_index *x = &expected_indexes[i];
        struct df_err err = DF_ERR_INIT;
        struct df_result *r = NULL;
        bool found = false;

        assert_ok(df_db_query(fx.db, &index_query,
                              DF_PARAMS(df_text(df_str_c(x->table)), df_text(df_str_c(x->name))),
                              &r, &err),
                  &err);
        while (!found && df_result_step(r, &err) == DF_ROW)
            found = df_str_ieq(df_col_text(r, 0), df_str_c(x->columns)) &&
                    (df_col_int(r, 1) != 0) == x->unique &&
                    (df_col_null(r, 2) || (df_col_int(r, 2) != 0) == x->filtered);
        df_result_free(r);
        if (!found)
            fail_msg("%s is missing or not as it should be", x->name);
    }
}

static void every_key_is_there_under_its_name(void **state)
{
    (void)state;
    (void)apply();
    for (size_t i = 0; i < LEN(expected_keys); i++) {
        const struct expected_key *k = &expected_keys[i];
        struct df_err err = DF_ERR_INIT;
        struct df_result *r = NULL;

        if (df_db_query(fx.db, &key_query,
                        DF_PARAMS(df_text(df_str_c(k->table)), df_text(df_str_c(k->name))), &r,
                        &err) != DF_OK ||
            df_result_step(r, &err) != DF_ROW)
            fail_msg("%s is missing %s", k->name, err.detail);
        bool same = df_str_ieq(df_col_text(r, 0), df_str_c(k->column)) &&
                    df_str_ieq(df_col_text(r, 1), df_str_c(k->references));
        if (k->references)
            same = same &&
                   df_str_eq(df_col_text(r, 2), df_str_c(k->cascade ? "CASCADE" : "NO ACTION"));
        if (!same)
            fail_msg("%s is not as it should be", k->name);
        df_result_free(r);
    }
}

/* --- what the schema does
 * ------------------------------------------------------------------------- */

/* A value that columns of bytes take. */
static const char *blob(void)
{
    static const char *const literals[] = {"x'68'", "'\\x68'", "0x68"};
    return literals[fx.dialect];
}

/* A row in every table, with nothing given that has a default or may be missing. Truth is '1' and
 * '0', which all databases read as what the column is. */
static void insert_minimal_rows(void)
{
    run("INSERT INTO TB_COUNTERPARTIES (BusinessDocId) VALUES ('CP_1');"
        "INSERT INTO TB_COUNTERPARTY_ADDRESSES (CounterpartyIdFk)"
        " SELECT Id FROM TB_COUNTERPARTIES;"
        "INSERT INTO TB_COUNTERPARTY_FISCAL_REFERENCES (CounterpartyIdFk)"
        " SELECT Id FROM TB_COUNTERPARTIES;"
        "INSERT INTO TB_TICKET_INTERFACE (BusinessEntity, BusinessDocId, CompanyCode, BranchCode,"
        " DestinationCode, PhaseCode, ShipmentEvent, FunctionalAckIsRequired,"
        " TargetApplicationCode, RawPayloadJson)"
        " VALUES ('TCK', 'T_1', 'c', 'b', 'd', 15, 'RCD', '1', 'ASB', '{}');"
        "INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl)"
        " VALUES ('T_1', '{}', 'http://x');"
        "INSERT INTO TB_TICKET_RETURN_OUTBOX (BusinessEntity, BusinessDocId, PhaseCode,"
        " PayloadJson, TargetUrl) VALUES ('TCK', 'T_1', 15, '{}', 'http://x');");
    run("INSERT INTO Clients (Id, Name, ClientIdentifier, SecretHash, SecretSalt)"
        " VALUES ('" CLIENT "', 'n', 'i', %s, %s);"
        "INSERT INTO ClientPolicies (Id, ClientId) VALUES ('" POLICY "', '" CLIENT "');"
        "INSERT INTO WebhookSubscriptions (Id, ClientId, Url, Secret)"
        " VALUES ('" HOOK "', '" CLIENT "', 'https://x', 's');"
        "INSERT INTO ImportBatch (Id, ClientId, FileName, FileType)"
        " VALUES ('" BATCH "', '" CLIENT "', 'leads.xlsx', 1);"
        "INSERT INTO ImportItem (BatchId, Sequence, Status) VALUES ('" BATCH "', 1, 0);"
        "INSERT INTO ImportChunk (BatchId, ChunkId, RecordOffset, RecordCount, ContentHash)"
        " VALUES ('" BATCH "', 0, 0, 1, '%064d');"
        "INSERT INTO ImportEarlyAck (BatchId, ChunkId, AckIdHash, AckJson)"
        " VALUES ('" BATCH "', 0, '%064d', '{}');"
        "INSERT INTO WebhookDeliveryFailures (SubscriptionId, EventId, Event, PayloadJson)"
        " VALUES ('" HOOK "', '" EVENT "', 'BatchCompleted', '{}');"
        "INSERT INTO WebhookDeliveries (Id, SubscriptionId, EventId, Event, PayloadJson)"
        " VALUES ('" EVENT "', '" HOOK "', '" EVENT "', 'BatchCompleted', '{}');"
        "INSERT INTO AuditLog (Actor, Action) VALUES ('admin', 'ClientCreated');"
        "INSERT INTO outbox_events (id, event_type, payload) VALUES ('" EVENT "', 't', '{}');"
        "INSERT INTO batch_ready_outbox (aggregate_id, reason) VALUES ('" BATCH "', 'new');"
        "INSERT INTO IntegrationCalls (Id, ClientId, IntegrationName, Method, Path, HeadersJson)"
        " VALUES ('" EVENT "', '" CLIENT "', 'payment', 'POST', '/x', '[]');"
        "INSERT INTO Alerts (Id, RuleName, Subject, DedupKey, Severity, Summary, DetailsJson)"
        " VALUES ('" EVENT "', 'Test', 's', 'Test:s', 'info', 's', '{}');"
        "INSERT INTO AlertDeliveries (Id, AlertId, Sink, EventAction, PayloadJson)"
        " VALUES ('" EVENT "', '" EVENT "', 'teams', 'trigger', '{}');"
        "INSERT INTO WorkOwners (Id, Name, Version, Channels, StartedAt, RenewedAt, LeaseUntil)"
        " VALUES ('" EVENT "', 'n', '1', 'c', '2026-01-01', '2026-01-01', '2026-01-01');"
        "INSERT INTO WorkShards (Channel, Shard) VALUES ('c', 0);"
        "INSERT INTO WorkMarks (Channel, RowKey, Taken, MarkedAt) VALUES ('c', '1', 1, "
        "'2026-01-01');"
        "INSERT INTO NamedLocks (Name, Owner, LeaseMs, ExpiresAt) VALUES ('n', 'o', 1, "
        "'2026-01-01');"
        "INSERT INTO LockProviders (Id, Provider, LeaseMs, RenewedAt) VALUES ('" EVENT
        "', 'sql', 1, '2026-01-01');"
        "INSERT INTO LockInstallation (Id, InstallationId) VALUES (1, '" EVENT "');"
        "INSERT INTO MaintenanceRuns (Name, DueAt) VALUES ('retention', '2026-01-01');"
        "INSERT INTO SubjectIndex (Hash, Place, RowKey) VALUES (1, 'ticket', '1');"
        "INSERT INTO SubjectFill (Source, Position) VALUES ('tickets', '0');"
        "INSERT INTO SeriesPoints (Grain, PointAt, ClientId, Channel) VALUES (60, '2026-01-01', "
        "'', 'tickets');"
        "INSERT INTO SeriesMarks (MarkedAt, Kind, Subject, Instance) VALUES ('2026-01-01', "
        "'ReplicaStarted', 's', 'i');",
        blob(), blob(), 0, 0);
    run("INSERT INTO ImportKept (BatchId, Sequence, KeyId, Sealed) SELECT Id, 0, 1, %s FROM "
        "ImportBatch;"
        "INSERT INTO ClientMapping (ClientId, MappingJson) SELECT Id, '{}' FROM Clients;"
        "INSERT INTO ImportSubjects (BatchId, Entries) SELECT Id, %s FROM ImportBatch;"
        "INSERT INTO DataKeys (Id, Purpose, WrappedKey, MasterId, CreatedAt, ActiveAt)"
        " VALUES (1, 'data', %s, 'm', '2026-01-01', '2026-01-01');"
        "INSERT INTO PurgeJobs (Id, Kind, Target, CountsJson, SkippedJson, CreatedBy)"
        " VALUES ('" EVENT "', 'batch', '" BATCH "', '{}', '{}', 'admin');"
        "INSERT INTO Erasures (Id, SubjectKind, SubjectHash, ErasedAt, CreatedBy)"
        " VALUES ('" EVENT "', 1, %s, '2026-01-01', 'admin');",
        blob(), blob(), blob(), blob());
}

static void defaults_are_what_they_say(void **state)
{
    (void)state;
    (void)apply();
    insert_minimal_rows();
    for (size_t i = 0; i < LEN(expected_columns); i++) {
        const struct expected_column *c = &expected_columns[i];

        if (!c->def || strcmp(c->table, "SchemaScripts") == 0)
            continue;
        int64_t rows =
            strcmp(c->def, "now") == 0
                ? scalar("SELECT COUNT(*) FROM %s WHERE %s IS NOT NULL", c->table, c->column)
                : scalar("SELECT COUNT(*) FROM %s WHERE %s = '%s'", c->table, c->column, c->def);
        if (rows != 1)
            fail_msg("%s.%s: default", c->table, c->column);
    }
}

static void the_default_time_is_now_in_the_form_of_the_program(void **state)
{
    (void)state;
    struct df_err err = DF_ERR_INIT;
    struct df_result *r = NULL;

    (void)apply();
    insert_minimal_rows();
    assert_int_equal(
        df_db_query(fx.db, adhoc("SELECT CreatedAt FROM ImportBatch"), DF_NO_PARAMS, &r, &err),
        DF_OK);
    assert_int_equal(df_result_step(r, &err), DF_ROW);
    int64_t age_ms = df_wall_ms(df_clock_real()) - df_col_time(r, 0);
    assert_true(age_ms > -3600000 && age_ms < 3600000);
    df_result_free(r);
    if (df_db_dialect(fx.db) == DF_SQLITE) {
        char now[DF_TIME_LEN + 1];
        df_time_format(df_wall_ms(df_clock_real()), now);
        assert_int_equal(scalar("SELECT COUNT(*) FROM ImportBatch WHERE length(CreatedAt) = %d "
                                "AND substr(CreatedAt, 1, 10) <= '%.10s' "
                                "AND substr(CreatedAt, 24) = 'Z'",
                                DF_TIME_LEN, now),
                         1);
    }
}

/* A text of so many characters, of two bytes each in UTF-8. Not so for SQL Server's VARCHAR, which
 * counts bytes of the database's code page. */
static const char *text_of(size_t count, const char *type)
{
    bool tsql = fx.dialect == DF_SQLSERVER;
    const char *character = tsql && type[0] != 'n' ? "a" : "\xc3\xa3";
    struct df_buf b;

    df_buf_init(&b, 2 * count + 8);
    df_buf_addz(&b, tsql && type[0] == 'n' ? "N'" : "'");
    for (size_t i = 0; i < count; i++)
        df_buf_addz(&b, character);
    df_buf_addc(&b, '\'');
    const char *literal = df_arena_cstr(&fx.arena, df_buf_str(&b));
    df_buf_release(&b);
    return literal;
}

static void texts_are_held_to_their_length_in_characters(void **state)
{
    (void)state;
    (void)apply();
    insert_minimal_rows();
    for (size_t i = 0; i < LEN(expected_columns); i++) {
        const struct expected_column *c = &expected_columns[i];
        const char *paren = strchr(c->type, '(');
        size_t n = paren ? strtoul(paren + 1, NULL, 10) : 0;
        bool fixed = strncmp(c->type, "char", 4) == 0;

        if (!paren || strcmp(c->table, "AuditLog") == 0 || strcmp(c->table, "SchemaScripts") == 0)
            continue;
        run("UPDATE %s SET %s = %s", c->table, c->column, text_of(n, c->type));
        if (try_run("UPDATE %s SET %s = %s", c->table, c->column, text_of(n + 1, c->type)) == DF_OK)
            fail_msg("%s.%s takes more than %s", c->table, c->column, c->type);
        if (fixed &&
            try_run("UPDATE %s SET %s = %s", c->table, c->column, text_of(n - 1, c->type)) == DF_OK)
            fail_msg("%s.%s takes less than %s", c->table, c->column, c->type);
    }
}

struct range {
    const char *table, *column, *least, *most, *below, *above;
};

static const struct range ranges[] = {
    {"Clients", "Status", "0", "1", "-1", "2"},
    {"ClientPolicies", "AllowedStartHour", "0", "23", "-1", "24"},
    {"ClientPolicies", "AllowedEndHour", "0", "24", "-1", "25"},
    {"ClientPolicies", "BusinessStartHour", "0", "23", "-1", "24"},
    {"ClientPolicies", "BusinessEndHour", "0", "24", "-1", "25"},
    {"ImportBatch", "Status", "0", "6", "-1", "7"},
    {"ImportBatch", "FileType", "0", "2", "-1", "3"},
    {"ImportItem", "Status", "0", "2", "-1", "3"},
    {"ImportChunk", "Status", "0", "5", "-1", "6"},
    {"Clients", "Id", "'" CLIENT "'", "'" CLIENT "'", "''", "'1111'"},
    {"Clients", "Name", "'a'", "'b'", "NULL", "NULL"},
};

/* What SQL Server converts: every number but 0 is 1, and what stands behind a UUID is cut. */
static const struct range converted[] = {
    {"TB_COUNTERPARTIES", "IsDeleted", "'0'", "'1'", "-1", "2"},
    {"ImportBatch", "WebhookNotified", "'0'", "'1'", "-1", "2"},
    {"WebhookSubscriptions", "IsActive", "'0'", "'1'", "-1", "2"},
    {"Clients", "Id", "'" CLIENT "'", "'" CLIENT "'", "'" CLIENT "1'", "'" CLIENT "x'"},
};

static void check_range(const struct range *r)
{
    const char *const outside[] = {r->below, r->above};

    run("UPDATE %s SET %s = %s", r->table, r->column, r->least);
    run("UPDATE %s SET %s = %s", r->table, r->column, r->most);
    for (size_t i = 0; i < LEN(outside); i++)
        if (try_run("UPDATE %s SET %s = %s", r->table, r->column, outside[i]) == DF_OK)
            fail_msg("%s.%s takes %s", r->table, r->column, outside[i]);
}

static void values_out_of_their_range_are_refused(void **state)
{
    (void)state;
    (void)apply();
    insert_minimal_rows();
    for (size_t i = 0; i < LEN(ranges); i++)
        check_range(&ranges[i]);
    for (size_t i = 0; fx.dialect != DF_SQLSERVER && i < LEN(converted); i++)
        check_range(&converted[i]);
    assert_int_equal(try_run("UPDATE WebhookSubscriptions SET Secret = NULL"), DF_E_DB_CONSTRAINT);
    run("UPDATE WebhookSubscriptions SET SecretEncrypted = %s, Secret = NULL", blob());
}

static void what_must_be_unique_is(void **state)
{
    (void)state;
    static const char *const again[] = {
        "INSERT INTO TB_COUNTERPARTIES (BusinessDocId) VALUES ('CP_1')",
        "INSERT INTO Clients (Id, Name, ClientIdentifier, SecretHash, SecretSalt)"
        " SELECT '" POLICY "', Name, ClientIdentifier, SecretHash, SecretSalt FROM Clients",
        "INSERT INTO ClientPolicies (Id, ClientId) VALUES ('" HOOK "', '" CLIENT "')",
        "INSERT INTO ImportItem (BatchId, Sequence, Status) VALUES ('" BATCH "', 1, 1)",
        "INSERT INTO BatchLocks (Id) VALUES (1)",
        "INSERT INTO ImportBatch (Id, ClientId, FileName, FileType, IdempotencyKey)"
        " VALUES ('" POLICY "', '" CLIENT "', 'f', 0, 'k')",
    };

    (void)apply();
    insert_minimal_rows();
    run("UPDATE ImportBatch SET IdempotencyKey = 'k'");
    for (size_t i = 0; i < LEN(again); i++)
        if (try_run("%s", again[i]) != DF_E_DB_UNIQUE)
            fail_msg("taken twice: %s", again[i]);
    /* But any number may come without a key. */
    for (int i = 1; i <= 2; i++) {
        run("INSERT INTO ImportBatch (Id, ClientId, FileName, FileType)"
            " VALUES ('%08d-0000-4000-8000-000000000000', '" CLIENT "', 'f', 0)",
            i);
        run("INSERT INTO outbox_events (id, event_type, payload, client_id)"
            " VALUES ('%08d-0000-4000-8000-000000000000', 't', '{}', '" CLIENT "')",
            i);
    }
    /* Locks by client may come: the table is not limited to its first row. */
    run("INSERT INTO BatchLocks (Id) VALUES (2)");
}

static void children_go_with_their_parents(void **state)
{
    (void)state;
    (void)apply();
    insert_minimal_rows();
    run("DELETE FROM TB_COUNTERPARTIES");
    assert_int_equal(scalar("SELECT COUNT(*) FROM TB_COUNTERPARTY_ADDRESSES"), 0);
    assert_int_equal(scalar("SELECT COUNT(*) FROM TB_COUNTERPARTY_FISCAL_REFERENCES"), 0);

    /* Batches have files: whoever deletes a client purges them first. */
    assert_int_equal(try_run("DELETE FROM Clients"), DF_E_DB_CONSTRAINT);
    run("DELETE FROM ImportBatch");
    assert_int_equal(scalar("SELECT COUNT(*) FROM ImportItem"), 0);
    assert_int_equal(scalar("SELECT COUNT(*) FROM ImportChunk"), 0);
    assert_int_equal(scalar("SELECT COUNT(*) FROM ImportEarlyAck"), 0);
    run("DELETE FROM Clients");
    assert_int_equal(scalar("SELECT COUNT(*) FROM ClientPolicies"), 0);
    assert_int_equal(scalar("SELECT COUNT(*) FROM WebhookSubscriptions"), 0);
    assert_int_equal(scalar("SELECT COUNT(*) FROM WebhookDeliveryFailures"), 0);
    assert_int_equal(scalar("SELECT COUNT(*) FROM AuditLog"), 1);
    assert_int_equal(
        try_run("INSERT INTO ClientPolicies (Id, ClientId) VALUES ('" POLICY "', '" CLIENT "')"),
        DF_E_DB_CONSTRAINT);
}

static void the_audit_log_only_grows(void **state)
{
    (void)state;
    (void)apply();
    insert_minimal_rows();
    assert_int_equal(try_run("UPDATE AuditLog SET Actor = 'somebody else'"), DF_E_DB_CONSTRAINT);
    assert_int_equal(try_run("DELETE FROM AuditLog"), DF_E_DB_CONSTRAINT);
    if (df_db_dialect(fx.db) == DF_SQLITE)
        assert_int_equal(try_run("INSERT OR REPLACE INTO AuditLog (Id, Actor, Action)"
                                 " SELECT Id, 'x', 'y' FROM AuditLog"),
                         DF_E_DB_CONSTRAINT);
    /* On SQL Server TRUNCATE fires no trigger, but needs the right to alter the table. */
    if (df_db_dialect(fx.db) == DF_POSTGRES)
        assert_int_equal(try_run("TRUNCATE AuditLog"), DF_E_DB_CONSTRAINT);
    assert_int_not_equal(
        try_run("INSERT INTO AuditLog (Actor, Action) VALUES (%s, 'x')", text_of(201, "nvarchar")),
        DF_OK);
    run("INSERT INTO AuditLog (Actor, Action) VALUES (%s, 'x')", text_of(200, "nvarchar"));
    assert_int_equal(scalar("SELECT COUNT(*) FROM AuditLog WHERE Actor = 'admin'"), 1);
    /* Sealing: number and hash, both, once, and nothing else. */
    const char *const mac = df_db_dialect(fx.db) == DF_SQLSERVER ? "0x01" : "'1'";
    assert_int_equal(try_run("UPDATE AuditLog SET Sequence = 1 WHERE Actor = 'admin'"),
                     DF_E_DB_CONSTRAINT);
    assert_int_equal(try_run("UPDATE AuditLog SET Sequence = 1, Mac = %s, Outcome = 'x'"
                             " WHERE Actor = 'admin'",
                             mac),
                     DF_E_DB_CONSTRAINT);
    run("UPDATE AuditLog SET Sequence = 1, Mac = %s WHERE Actor = 'admin'", mac);
    assert_int_equal(
        try_run("UPDATE AuditLog SET Sequence = 2, Mac = %s WHERE Actor = 'admin'", mac),
        DF_E_DB_CONSTRAINT);
    if (df_db_dialect(fx.db) == DF_SQLITE)
        assert_int_equal(try_run("INSERT OR REPLACE INTO AuditLog (Actor, Action, Sequence)"
                                 " VALUES ('x', 'y', 1)"),
                         DF_E_DB_CONSTRAINT);
    /* Retention: what a stub stands for. */
    assert_int_equal(try_run("DELETE FROM AuditLog WHERE Sequence = 1"), DF_E_DB_CONSTRAINT);
    run("INSERT INTO AuditStubs (FromSequence, ToSequence, FirstAt, LastAt, LastMac, CreatedAt, "
        "Mac)"
        " SELECT 1, 1, OccurredAt, OccurredAt, Mac, OccurredAt, Mac FROM AuditLog WHERE Sequence = "
        "1");
    assert_int_equal(try_run("DELETE FROM AuditLog"), DF_E_DB_CONSTRAINT);
    run("DELETE FROM AuditLog WHERE Sequence = 1");
    assert_int_equal(scalar("SELECT COUNT(*) FROM AuditLog"), 1);
}

static void identities_are_never_given_twice(void **state)
{
    (void)state;
    (void)apply();
    insert_minimal_rows();
    int64_t first = scalar("SELECT Id FROM TB_FUNCTIONAL_ACK_OUTBOX");
    run("DELETE FROM TB_FUNCTIONAL_ACK_OUTBOX;"
        "INSERT INTO TB_FUNCTIONAL_ACK_OUTBOX (BusinessDocId, PayloadJson, TargetUrl)"
        " VALUES ('T_1', '{}', 'http://x')");
    assert_true(scalar("SELECT Id FROM TB_FUNCTIONAL_ACK_OUTBOX") > first);
}

static const struct CMUnitTest tests[] = {
    T(every_column_is_there_in_its_order),
    T(every_index_is_there),
    T(every_key_is_there_under_its_name),
    T(defaults_are_what_they_say),
    T(the_default_time_is_now_in_the_form_of_the_program),
    T(texts_are_held_to_their_length_in_characters),
    T(values_out_of_their_range_are_refused),
    T(what_must_be_unique_is),
    T(children_go_with_their_parents),
    T(the_audit_log_only_grows),
    T(identities_are_never_given_twice),
};

int main(void)
{
    return testdb_run_tests("schema", &fx.dialect, tests, LEN(tests));
}
