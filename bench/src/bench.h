/* Parts of dataflow-bench, each a command of it; main.c tells their options. */
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

/* load: a closed loop of keep-alive connections, each sending its next request on the answer.
 */
int df_bench_load(int argc, char **argv);

/* store: the same rows by a bare loop through the store, without HTTP. */
int df_bench_store(int argc, char **argv);

/* records: what the parsers make of a file, printed or counted. */
int df_bench_records(int argc, char **argv);

/* limiter: calls of the rate limiter, and what each costs. */
int df_bench_limiter(int argc, char **argv);

/* seen: the set of what was seen beside SQLite. */
int df_bench_seen(int argc, char **argv);

#define DF_BENCH_PAYLOAD 520 /* with keys and codes, 600 bytes a row */

/* One row: what differs, and constants for the rest. */
struct df_p_bench_insert df_bench_row(struct df_str doc_id, struct df_str payload, int64_t now_ms);

/* Fills a payload of that many bytes; the same for every row but for its number. */
void df_bench_payload(char *out, size_t len, uint64_t number);

#endif
