/* Translates what ODBC reports into our codes. */
#include "base/utf16.h"
#include "store/odbc_private.h"

#include <stdio.h>

#define RECORDS_MAX 16
/* FreeTDS and Microsoft's drivers give the line of the batch under this field. */
#define DIAG_LINE (-1154)
/* Babelfish, for errors of PostgreSQL that it has no number for. */
#define BABELFISH_OTHER 33557097
/* SQL Server: could not find the prepared statement. */
#define NO_SUCH_HANDLE 8179

struct diagnosis {
    char state[6];
    int native;
    int line;
    char message[256 * DF_UTF8_PER_UTF16 + 1];
};

static const struct {
    int native;
    enum df_code code;
} numbers[] = {
    {2601, DF_E_DB_UNIQUE},     /* unique index */
    {2627, DF_E_DB_UNIQUE},     /* unique or primary key */
    {547, DF_E_DB_CONSTRAINT},  /* foreign key, check */
    {515, DF_E_DB_CONSTRAINT},  /* NULL into NOT NULL */
    {2628, DF_E_DB_CONSTRAINT}, /* would be truncated */
    {8152, DF_E_DB_CONSTRAINT}, /* the same before 2019 */
    {511, DF_E_DB_CONSTRAINT},  /* row too large */
    {1946, DF_E_DB_CONSTRAINT}, /* index entry too large */
    {220, DF_E_DB_CONSTRAINT},  /* the rest of these: a value does not fit its type */
    {232, DF_E_DB_CONSTRAINT},
    {241, DF_E_DB_CONSTRAINT},
    {242, DF_E_DB_CONSTRAINT},
    {245, DF_E_DB_CONSTRAINT},
    {248, DF_E_DB_CONSTRAINT},
    {295, DF_E_DB_CONSTRAINT},
    {8114, DF_E_DB_CONSTRAINT},
    {8115, DF_E_DB_CONSTRAINT},
    {8134, DF_E_DB_CONSTRAINT},
    {8169, DF_E_DB_CONSTRAINT},
    {1205, DF_E_DB_CONFLICT}, /* deadlock victim */
    {1222, DF_E_DB_CONFLICT}, /* lock request time out */
    {3960, DF_E_DB_CONFLICT}, /* snapshot update conflict */
    {3961, DF_E_DB_CONFLICT}, /* snapshot: the schema changed */
    {NO_SUCH_HANDLE, DF_E_DB_CONFLICT},
    {1101, DF_E_DISK_FULL},     /* no room: in a file group, */
    {1105, DF_E_DISK_FULL},     /* the same, */
    {1104, DF_E_DISK_FULL},     /* in tempdb, */
    {9002, DF_E_DISK_FULL},     /* in the log */
    {701, DF_E_DB_UNAVAILABLE}, /* full: memory, */
    {802, DF_E_DB_UNAVAILABLE},
    {1204, DF_E_DB_UNAVAILABLE}, /* locks, */
    {8645, DF_E_DB_UNAVAILABLE},
    {10928, DF_E_DB_UNAVAILABLE}, /* sessions */
    {10929, DF_E_DB_UNAVAILABLE},
    {3906, DF_E_DB_UNAVAILABLE}, /* the database is read-only: a secondary */
    {4060, DF_E_DB_UNAVAILABLE}, /* cannot open the database */
    {945, DF_E_DB_UNAVAILABLE},  /* database offline, restoring, on another replica */
    {922, DF_E_DB_UNAVAILABLE},
    {927, DF_E_DB_UNAVAILABLE},
    {942, DF_E_DB_UNAVAILABLE},
    {952, DF_E_DB_UNAVAILABLE},
    {954, DF_E_DB_UNAVAILABLE},
    {955, DF_E_DB_UNAVAILABLE},
    {976, DF_E_DB_UNAVAILABLE},
    {978, DF_E_DB_UNAVAILABLE},
    {983, DF_E_DB_UNAVAILABLE},
    {596, DF_E_DB_UNAVAILABLE},   /* the session is being killed */
    {6005, DF_E_DB_UNAVAILABLE},  /* the server shuts down */
    {17142, DF_E_DB_UNAVAILABLE}, /* the server is paused */
    {18456, DF_E_DB_UNAVAILABLE}, /* login failed: also while the server starts */
    {40197, DF_E_DB_UNAVAILABLE}, /* Azure: being moved, busy, not available */
    {40501, DF_E_DB_UNAVAILABLE},
    {40613, DF_E_DB_UNAVAILABLE},
    {49918, DF_E_DB_UNAVAILABLE},
    {49919, DF_E_DB_UNAVAILABLE},
    {49920, DF_E_DB_UNAVAILABLE},
};
static const struct {
    const char *prefix;
    enum df_code code;
} states[] = {
    {"HYT", DF_E_DB_TIMEOUT},    {"08", DF_E_DB_UNAVAILABLE}, {"40", DF_E_DB_CONFLICT},
    {"22", DF_E_DB_CONSTRAINT},  {"23505", DF_E_DB_UNIQUE},   {"23", DF_E_DB_CONSTRAINT},
    {"IM", DF_E_DB_UNAVAILABLE}, /* the driver manager has no driver */
};

static const struct {
    const char *text;
    enum df_code code;
} babelfish[] = {
    {"lock timeout", DF_E_DB_CONFLICT},
    {"could not serialize", DF_E_DB_CONFLICT},
    {"invalid input syntax", DF_E_DB_CONSTRAINT},
    {"out of range", DF_E_DB_CONSTRAINT},
    {"value too long", DF_E_DB_CONSTRAINT},
    {"terminating connection", DF_E_DB_UNAVAILABLE},
    {"is shutting down", DF_E_DB_UNAVAILABLE},
    {"is starting up", DF_E_DB_UNAVAILABLE},
    {"No space left", DF_E_DISK_FULL},
    {"too many clients", DF_E_DB_UNAVAILABLE},
};

enum df_code df_odbc_sqlserver_code(const char *state, int native, const char *message)
{
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (numbers[i].native == native)
            return numbers[i].code;
    }
    for (size_t i = 0; native == BABELFISH_OTHER && i < sizeof(babelfish) / sizeof(babelfish[0]);
         i++) {
        if (strstr(message, babelfish[i].text))
            return babelfish[i].code;
    }
    /* Raised by a trigger or a procedure: a rule of the database's owner. */
    if (native >= 50000 && native != BABELFISH_OTHER)
        return DF_E_DB_CONSTRAINT;
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        if (strncmp(state, states[i].prefix, strlen(states[i].prefix)) == 0)
            return states[i].code;
    }
    return DF_E_DB;
}

/* Drops the "[FreeTDS][SQL Server]" in front. */
static const char *without_origin(const char *message)
{
    while (*message == '[') {
        const char *close = strchr(message, ']');
        if (!close)
            break;
        message = close + 1;
    }
    return message;
}

/*
 * The server quotes values: those of a duplicate key in parentheses at the end, others in quotes.
 * They are personal data and must not reach the logs.
 */
static void without_values(char *message, bool data)
{
    static const char *const tails[] = {"The duplicate key value is", "Truncated value:", "Key ("};
    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        char *tail = strstr(message, tails[i]);
        if (tail)
            *tail = '\0';
    }
    bool inside = false;
    char *to = message;
    for (const char *from = message; *from; from++) {
        bool quote = *from == '\'' || *from == '"';
        inside = data && quote ? !inside : inside;
        if (!inside || quote)
            *to++ = *from;
    }
    while (to > message && (to[-1] == ' ' || to[-1] == '\n'))
        to--;
    *to = '\0';
}

static bool read_record(SQLSMALLINT type, SQLHANDLE handle, SQLSMALLINT number, struct diagnosis *d)
{
    SQLWCHAR state[6] = {0};
    SQLWCHAR text[256];
    SQLINTEGER native = 0;
    SQLSMALLINT len = 0;
    SQLLEN line = 0;

    SQLRETURN rc = SQLGetDiagRecW(type, handle, number, state, &native, text,
                                  sizeof(text) / sizeof(text[0]), &len);
    if (!SQL_SUCCEEDED(rc))
        return false;
    size_t units = (size_t)(len < 0 ? 0 : len);
    if (units >= sizeof(text) / sizeof(text[0]))
        units = sizeof(text) / sizeof(text[0]) - 1;
    for (size_t i = 0; i < 5; i++)
        d->state[i] = (char)state[i];
    d->state[5] = '\0';
    d->native = native;
    d->message[df_utf16_to_utf8(text, units, d->message)] = '\0';
    const char *own = without_origin(d->message);
    memmove(d->message, own, strlen(own) + 1);
    d->line = 0;
    if (type == SQL_HANDLE_STMT && SQL_SUCCEEDED(SQLGetDiagFieldW(type, handle, number, DIAG_LINE,
                                                                  &line, SQL_IS_INTEGER, NULL)))
        d->line = (int)line;
    return true;
}

/* Reads the first record that is an error; others are notices like "The statement has been
 * terminated". */
static bool read_error(SQLSMALLINT type, SQLHANDLE handle, struct diagnosis *d)
{
    struct diagnosis first;

    for (SQLSMALLINT i = 1; i <= RECORDS_MAX && read_record(type, handle, i, d); i++) {
        if (strncmp(d->state, "01", 2) != 0)
            return true;
        if (i == 1)
            first = *d;
        else
            *d = first;
    }
    return false;
}

static bool is_dead(const struct odbc_db *o)
{
    SQLUINTEGER dead = SQL_CD_FALSE;
    SQLRETURN rc =
        SQLGetConnectAttr(o->dbc, SQL_ATTR_CONNECTION_DEAD, &dead, SQL_IS_UINTEGER, NULL);
    return SQL_SUCCEEDED(rc) && dead == SQL_CD_TRUE;
}

enum df_code df_odbc_fail(struct odbc_db *o, SQLSMALLINT type, SQLHANDLE handle, const char *what,
                          struct odbc_trouble *ret, struct df_err *err)
{
    struct diagnosis d = {.state = "HY000", .message = "the ODBC driver says nothing more"};

    (void)read_error(type, handle, &d);
    enum df_code code = o->flavour->code_of(d.state, d.native, d.message);
    /* These errors quote names of constraints and columns, not values. */
    bool names = d.native == 547 || d.native == 515 || d.native == 2627 || d.native == 2601 ||
                 d.native == 1505;
    without_values(d.message, code == DF_E_DB_CONSTRAINT && !names);
    if (ret)
        *ret = (struct odbc_trouble){.line = d.line, .forgotten = d.native == NO_SUCH_HANDLE};
    if (strncmp(d.state, "08", 2) == 0 || d.native == 596 || d.native == 3906 || is_dead(o)) {
        o->base.alive = false;
        /* The connection is also dropped when the server does not answer a cancellation in time;
         * the reason is still the timeout. */
        if (code != DF_E_DB_TIMEOUT && type == SQL_HANDLE_STMT)
            return df_err_set(err, DF_E_DB_UNAVAILABLE, "%s: the database connection is lost: %s",
                              what, d.message);
    }
    return df_err_set(err, code, "%s: %s (%s, %d)", what, d.message, d.state, d.native);
}
