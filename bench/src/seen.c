/*
 * The set of records seen in a file (tabular/seen.h) against an SQLite table in a temporary file
 * that does the same: given a hash of 16 bytes, is it new? A process runs one of the two, so that
 * its memory can be measured.
 */
#include "tabular/seen.h"

#include "base/clock.h"
#include "bench.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct df_command cmd = {.name = "bench seen"};

struct task {
    int64_t keys;
    int64_t repeats; /* of a hundred, at random */
    int64_t memory_bytes;
    unsigned short random[3]; /* the same numbers each time */
};

/* NOLINTBEGIN(concurrency-mt-unsafe): there is one thread. */
static void fail_bench(const char *what)
{
    fprintf(stderr, "bench seen: %s\n", what);
    exit(DF_EXIT_FAILED);
}

/* The n-th key: a new one, or one of those before. */
static struct df_hash128 key_at(struct task *t, int64_t n)
{
    uint64_t number = (uint64_t)n;

    if (n > 0 && nrand48(t->random) % 100 < t->repeats)
        number = (uint64_t)(nrand48(t->random) % n);
    return df_hash128(df_str_n((const char *)&number, sizeof(number)));
}
/* NOLINTEND(concurrency-mt-unsafe) */

static int64_t run_seen(struct task *t)
{
    struct df_seen *s = df_seen_new(NULL, (size_t)t->memory_bytes);
    struct df_err err = DF_ERR_INIT;
    int64_t found = 0;

    for (int64_t n = 0; n < t->keys; n++) {
        bool seen = false;
        if (df_seen_add(s, key_at(t, n), &seen, &err) != DF_OK)
            fail_bench(err.detail);
        found += seen;
    }
    df_seen_free(s);
    return found;
}

/* The peak memory of this process. getrusage would include the shell's. */
static double most_mb(void)
{
    char line[128];
    long kb = 0;
    FILE *f = fopen("/proc/self/status", "r");

    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kb = strtol(line + 6, NULL, 10);
    if (f)
        (void)fclose(f);
    return (double)kb / 1024;
}

static void exec_sql(sqlite3 *db, const char *sql)
{
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_bench(sqlite3_errmsg(db));
}

/* The fastest variant found: one transaction without a journal, the key as the whole table. */
static int64_t run_sqlite(struct task *t)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *insert = NULL;
    char pragma[64];
    int64_t found = 0;

    if (sqlite3_open("", &db) != SQLITE_OK) /* a temporary file */
        fail_bench("no database");
    (void)snprintf(pragma, sizeof(pragma), "PRAGMA cache_size = -%lld",
                   (long long)(t->memory_bytes / 1024));
    exec_sql(db, pragma);
    exec_sql(db, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
                 "CREATE TABLE seen(hash BLOB PRIMARY KEY) WITHOUT ROWID; BEGIN");
    if (sqlite3_prepare_v2(db, "INSERT OR IGNORE INTO seen VALUES (?)", -1, &insert, NULL) !=
        SQLITE_OK)
        fail_bench(sqlite3_errmsg(db));
    for (int64_t n = 0; n < t->keys; n++) {
        struct df_hash128 key = key_at(t, n);
        sqlite3_bind_blob(insert, 1, &key, sizeof(key), SQLITE_STATIC);
        if (sqlite3_step(insert) != SQLITE_DONE)
            fail_bench(sqlite3_errmsg(db));
        found += sqlite3_changes(db) == 0;
        sqlite3_reset(insert);
    }
    sqlite3_finalize(insert);
    sqlite3_close(db);
    return found;
}

int df_bench_seen(int argc, char **argv)
{
    const char *texts[3] = {0};
    bool sqlite = false;
    const struct df_option options[] = {
        {.name = "keys", .kind = DF_OPT_VALUE, .value = &texts[0]},
        {.name = "repeats", .kind = DF_OPT_VALUE, .value = &texts[1]},
        {.name = "memory", .kind = DF_OPT_VALUE, .value = &texts[2]},
        {.name = "sqlite", .kind = DF_OPT_FLAG, .flag = &sqlite},
    };
    struct task t = {.keys = 1000000, .repeats = 1, .memory_bytes = INT64_C(24) << 20};

    if (df_cli_parse(&cmd, argc, argv, options, 4, NULL) != 0 ||
        !df_cli_int(&cmd, "keys", texts[0], 1, INT64_C(1000000000), &t.keys) ||
        !df_cli_int(&cmd, "repeats", texts[1], 0, 100, &t.repeats) ||
        !df_cli_int(&cmd, "memory", texts[2], 65536, INT64_C(1) << 40, &t.memory_bytes))
        return DF_EXIT_USAGE;
    double before_mb = most_mb();
    int64_t began_ns = df_mono_ns(df_clock_real());
    int64_t found = sqlite ? run_sqlite(&t) : run_seen(&t);
    int64_t took_ns = df_mono_ns(df_clock_real()) - began_ns;
    printf("{\"nsPerKey\":%.1f,\"repeats\":%lld,\"memoryMb\":%.1f}\n",
           (double)took_ns / (double)t.keys, (long long)found, most_mb() - before_mb);
    return DF_EXIT_OK;
}
