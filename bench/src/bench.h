/* The parts of dataflow-bench, each a command; main.c tells their options. */
#ifndef DF_BENCH_H
#define DF_BENCH_H

#include "app/cli.h"

#include "bench/bench.sql.h"
#include "net/http.h"
#include "store/db.h"

/*
 * POST /bench/rows: one row a request, through authentication, validation and the group-committing
 * writer. POST /bench/echo: the same without the store.
 */
extern const struct df_route df_bench_routes[];

/* load: a closed loop of keep-alive connections; each sends its next request when it has an
 * answer. */
int df_bench_load(int argc, char **argv);

/* store: a bare loop that writes the same rows through the store, without HTTP. */
int df_bench_store(int argc, char **argv);

/* records: the records of a file as the parsers read them, printed or counted. */
int df_bench_records(int argc, char **argv);

/* limiter: the cost of one call of the rate limiter. */
int df_bench_limiter(int argc, char **argv);

/* seen: the set of records seen in a file, against SQLite. */
int df_bench_seen(int argc, char **argv);

#define DF_BENCH_PAYLOAD 520 /* with keys and codes, 600 bytes a row */

/* One row: these values, and constants for the rest. */
struct df_p_bench_insert df_bench_row(struct df_str doc_id, struct df_str payload, int64_t now_ms);

/* Fills a payload of that many bytes; payloads differ only in their number. */
void df_bench_payload(char *out, size_t len, uint64_t number);

#endif
