/* Pieces of `dataflow bench`. */
#ifndef DF_APP_BENCH_H
#define DF_APP_BENCH_H

#include "app/cli.h"

#include "net/http.h"

/*
 * POST /bench/rows: one row a request, through authentication, validation and the group-committing
 * writer. POST /bench/echo: the same without the store.
 */
extern const struct df_route df_bench_routes[];

/* bench load: a closed loop of keep-alive connections, each sending its next request on the answer.
 */
int df_bench_load(int argc, char **argv);

/* bench store: the same rows by a bare loop through the store, without HTTP. */
int df_bench_store(int argc, char **argv);

#define DF_BENCH_EVENT   "bench.row"
#define DF_BENCH_PAYLOAD 564 /* with the id, 600 bytes a row */

/* Fills a payload of that many bytes; the same for every row but for its number. */
void df_bench_payload(char *out, size_t len, uint64_t number);

#endif
