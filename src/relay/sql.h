/*
 * The relay's statements. They cannot stand in a .sql file: the application names the table, the
 * columns and the states, and the relay knows them only when it has looked at the table (check.c).
 * So the statements are made from templates, once for each shape of table, with every name quoted
 * as the database wants it.
 */
#ifndef DF_RELAY_SQL_H
#define DF_RELAY_SQL_H

#include "relay/relay.h"

/* A column as the table has it. */
struct relay_column {
    char *name;    /* NULL: there is none */
    char *type;    /* as the database writes it */
    int64_t width; /* of text, in characters; 0: not known */
    bool nullable;
};

/* What check.c found. */
struct relay_table {
    enum df_dialect dialect;
    char *name;     /* quoted: "schema"."table" */
    bool rows_lock; /* claimed rows stay locked until the transaction ends */
    struct relay_column columns[DF_RELAY_COLUMNS];
};

void relay_table_release(struct relay_table *t);

struct relay_query {
    struct df_query q;
    char *text;
    unsigned char markers[8];
    const char *params[8];
};

/* The columns of claim, beyond and follow. */
enum {
    RELAY_AT_ID,
    RELAY_AT_EVENT_TYPE,
    RELAY_AT_PAYLOAD, /* NULL if it has more than `inline` bytes; then `payloads` fetches it, when
                         there is room */
    RELAY_AT_ATTEMPTS,
    RELAY_AT_CREATED, /* milliseconds */
    RELAY_AT_AGGREGATE_TYPE,
    RELAY_AT_AGGREGATE_ID,
    RELAY_AT_CORRELATION_ID,
    RELAY_AT_TRACE_ID,
    RELAY_AT_SPAN_ID,
    RELAY_AT_TRACE_FLAGS,
    RELAY_AT_DUE,  /* 1, or 0 */
    RELAY_AT_SIZE, /* of the payload, in bytes */
    RELAY_CLAIM_COLUMNS
};
/* The columns of payloads, and those of waiting and failed. */
enum { RELAY_AT_PAYLOADS_ID, RELAY_AT_PAYLOADS_PAYLOAD };
enum { RELAY_AT_ROWS, RELAY_AT_OLDEST };

/*
 * - claim (limit, resting): rows that may be sent, oldest first, none of `resting`; locked until
 * the transaction ends. With order=aggregate (has_window): the first of each aggregate, as far as
 * they are among the `window` oldest rows
 * - beyond (limit, resting, after): the same, of rows behind that event
 * - follow (window, heads, each): with order=aggregate, the rows behind the heads, `each` of them
 *   for each aggregate; not on every database (has_follow)
 * - payloads (ids)
 * - processed (ids), retry (id, counted, delay, error), dead (id, counted, error): mark the
 * outcome; counted: the value of attempts
 * - waiting (): the number of rows, and when the oldest was written
 * - failed (): the number of rows
 *
 * Not every table needs all of these parameters: see has_*.
 */
struct relay_sql {
    struct relay_query claim;
    struct relay_query beyond;
    struct relay_query follow;
    struct relay_query payloads;
    struct relay_query processed;
    struct relay_query retry;
    struct relay_query dead;
    struct relay_query waiting;
    struct relay_query failed;
    bool has_beyond;
    bool has_window;
    bool has_follow;
    bool has_due;       /* next_attempt_at exists: retries wait there, else in memory */
    size_t error_units; /* of the longest error that the table takes */
};

/* Must live as long as the connections that have used it. */
void relay_sql_make(const struct df_relay_settings *s, const struct relay_table *t,
                    struct relay_sql *ret);
void relay_sql_release(struct relay_sql *q);

/* Quotes a name or a text as the database wants it. */
void relay_quote_name(enum df_dialect d, struct df_str name, struct df_buf *out);
void relay_quote_text(enum df_dialect d, struct df_str text, struct df_buf *out);

/* Writes a list for `ids` or `resting`. */
void relay_list_open(enum df_dialect d, struct df_buf *out);
void relay_list_add(enum df_dialect d, struct df_str id, struct df_buf *out);
void relay_list_close(enum df_dialect d, struct df_buf *out);

#endif
