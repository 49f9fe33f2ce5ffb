/*
 * The set of records seen in a file, as 128-bit hashes. It starts in memory and moves to an unnamed
 * temporary file when it grows, so that memory is bounded for any number of records. The file is
 * read and written by the page, through the system's cache. One thread at a time.
 */
#ifndef DF_TABULAR_SEEN_H
#define DF_TABULAR_SEEN_H

#include "base/err.h"
#include "base/hash_set.h"
#include "base/str.h"

struct df_seen;

/* temp_dir (NULL: the system's) is copied. max_memory_bytes 0: 24 MiB. */
struct df_seen *df_seen_new(const char *temp_dir, size_t max_memory_bytes);
void df_seen_free(struct df_seen *s);

/* Adds the hash, and tells whether it was in the set already. An error is one of the disk. */
enum df_code df_seen_add(struct df_seen *s, struct df_hash128 hash, bool *ret_seen,
                         struct df_err *err) DF_MUST_CHECK;

/* The same text gives the same hash on every machine of an installation. */
struct df_hash128 df_hash128(struct df_str text);

#endif
