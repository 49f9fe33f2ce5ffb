/* The processes that share the database, and the shards that each owns (shards/shards.h): for
 * /admin/owners and `dataflow owners`. */
#ifndef DF_ADMIN_OWNERS_H
#define DF_ADMIN_OWNERS_H

#include "base/uuid.h"
#include "net/http.h"
#include "store/db.h"
#include "json/write.h"

extern const struct df_route df_work_owner_routes[]; /* without an argument */

/* All times are the database's. */
struct df_work_owner {
    struct df_uuid id;
    char *name, *version;
    int64_t started_ms, renewed_ms, lease_until_ms, now_ms;
};

struct df_work_shards {
    char channel[64];
    size_t owner;    /* their place in the list; that of its end: nobody that is alive */
    uint32_t shards; /* bit n is shard n */
};

struct df_work_owners {
    struct df_work_owner *owners;
    size_t count;
    struct df_work_shards *shards;
    size_t shards_count;
};

enum df_code df_work_owners_read(struct df_db *db, struct df_work_owners *ret,
                                 struct df_err *err) DF_MUST_CHECK;
void df_work_owners_release(struct df_work_owners *w);
void df_work_owners_json(const struct df_work_owners *w, struct df_json_out *out);

#endif
