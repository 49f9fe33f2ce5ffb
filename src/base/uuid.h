/* UUIDs as 36 lower-case characters, the form that the whole program uses. */
#ifndef DF_BASE_UUID_H
#define DF_BASE_UUID_H

#include "base/clock.h"

#define DF_UUID_LEN 36

struct df_uuid {
    char text[DF_UUID_LEN + 1];
};

/* Random (RFC 9562 version 4). */
struct df_uuid df_uuid_v4(const struct df_clock *clock);

/*
 * Time-ordered (version 7): keys that are inserted in order keep B-trees compact. UUIDs of one
 * millisecond also ascend for SQL Server, which compares the last six bytes first: these begin with
 * the counter that distinguishes them.
 */
struct df_uuid df_uuid_v7(const struct df_clock *clock);

/* The n-th UUID after one of version 7: they ascend, come before later ones of df_uuid_v7, and can
 * be computed again from the first. n is at most a few thousand. */
struct df_uuid df_uuid_after(const struct df_uuid *first, uint64_t n);

/* Takes any case, with or without braces; false when s is no UUID. */
bool df_uuid_parse(struct df_str s, struct df_uuid *ret);

static inline struct df_str df_uuid_str(const struct df_uuid *u)
{
    return (struct df_str){u->text, DF_UUID_LEN};
}

#endif
