/*
 * The relay's statements. They cannot stand in a .sql file: table, columns and states are whatever
 * the application calls them, and are known only when the relay has looked at its table (check.c).
 * So they are made from templates, once for each shape of table, with every name quoted as the
 * database wants it.
 */
#ifndef DF_RELAY_SQL_H
#define DF_RELAY_SQL_H

#include "relay/relay.h"

/* A column as the table has it. */
struct relay_column {
    char *name;    /* NULL: there is none */
    char *type;    /* as the database writes it */
    int64_t width; /* of text, in characters; 0: none known */
    bool nullable;
};

/* What check.c found. */
struct relay_table {
    enum df_dialect dialect;
    char *name;     /* quoted: "schema"."table" */
    bool rows_lock; /* what is claimed stays locked until the transaction ends */
    struct relay_column columns[DF_RELAY_COLUMNS];
};

void relay_table_release(struct relay_table *t);

struct relay_query {
    struct df_query q;
    char *text;
    unsigned char markers[8];
    const char *params[8];
};

/* The columns that claim, beyond, near and follow answer with. */
enum {
    RELAY_AT_ID,
    RELAY_AT_EVENT_TYPE,
    RELAY_AT_PAYLOAD, /* NULL if it has more than `inline` bytes: it is asked for by itself, when
                         there is room for it */
    RELAY_AT_ATTEMPTS,
    RELAY_AT_CREATED, /* milliseconds */
    RELAY_AT_AGGREGATE_TYPE,
    RELAY_AT_AGGREGATE_ID,
    RELAY_AT_CORRELATION_ID,
    RELAY_AT_TRACE_ID,
    RELAY_AT_SPAN_ID,
    RELAY_AT_DUE,  /* 1, or 0 */
    RELAY_AT_SIZE, /* of the payload, in bytes */
    RELAY_CLAIM_COLUMNS
};
/* Those of payloads, of waiting and failed. */
enum { RELAY_AT_PAYLOADS_ID, RELAY_AT_PAYLOADS_PAYLOAD };
enum { RELAY_AT_ROWS, RELAY_AT_OLDEST };

/*
 * - claim     (limit, resting): what may be sent, oldest first; locked until the transaction ends
 * - beyond    (limit, resting, after): the same, of what comes after that event
 * - near      (limit, resting): the same, but only of the oldest rows; with order=aggregate
 * - follow    (heads, each): with order=aggregate, what comes after the heads, of each aggregate so
 *   many; no text where it cannot be had
 * - payloads  (ids)
 * - processed (ids), retry (id, delay, error), dead (id, error): what became of it
 * - waiting   (): how many rows, and when the oldest was written
 * - failed    (): how many rows
 *
 * A name in parentheses is a parameter only where the table needs it: see has_*.
 */
struct relay_sql {
    struct relay_query claim;
    struct relay_query beyond;
    struct relay_query near;
    struct relay_query follow;
    struct relay_query payloads;
    struct relay_query processed;
    struct relay_query retry;
    struct relay_query dead;
    struct relay_query waiting;
    struct relay_query failed;
    bool has_beyond;
    bool has_near;
    bool has_follow;
    bool has_due;       /* next_attempt_at: retries wait there, else in memory (`resting`) */
    size_t error_units; /* the longest error it takes */
};

/* Lives as long as the connections that have used it. */
void relay_sql_make(const struct df_relay_settings *s, const struct relay_table *t,
                    struct relay_sql *ret);
void relay_sql_release(struct relay_sql *q);

/* A name or a text as the database wants it quoted. */
void relay_quote_name(enum df_dialect d, struct df_str name, struct df_buf *out);
void relay_quote_text(enum df_dialect d, struct df_str text, struct df_buf *out);

/* A list for ids, resting (one text each) or heads (two: aggregate type and id). */
void relay_list_open(enum df_dialect d, struct df_buf *out);
void relay_list_add(enum df_dialect d, struct df_str id, struct df_buf *out);
void relay_list_close(enum df_dialect d, struct df_buf *out);

#endif
