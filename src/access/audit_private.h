/* What writing, sealing and verifying the chain of the audit log share. */
#ifndef DF_ACCESS_AUDIT_PRIVATE_H
#define DF_ACCESS_AUDIT_PRIVATE_H

#include "access/audit.h"
#include "keys/keys.h"

/* A row of the audit log, borrowed. */
struct audit_row {
    int64_t id;
    int64_t sequence; /* 0: not sealed */
    int64_t occurred_ms;
    struct df_str actor, action, target, client_id, ip, correlation_id, details, outcome;
    struct df_str mac;
};

/* The rows of queries with `row: audit_entry`. Text is the result's. */
void audit_read_row(struct df_result *r, struct audit_row *out);

/* An entry that was written with its number, and one that was sealed later, have different
 * hashes. */
enum audit_kind { AUDIT_WRITTEN = 'W', AUDIT_SEALED = 'S' };

struct audit_mac {
    unsigned char bytes[DF_HASH_BYTES];
};

static inline struct df_str audit_mac_str(const struct audit_mac *m)
{
    return df_str_n((const char *)m->bytes, sizeof m->bytes);
}

/* Whether the row has the hash that follows from the one before it. */
bool audit_row_is(const struct df_keys *k, enum audit_kind kind, struct df_str previous,
                  const struct audit_row *row);

struct audit_stub {
    int64_t from, to; /* to 0: there is none */
    int64_t first_ms, last_ms, created_ms;
    struct audit_mac last_mac;
};

void audit_stub_mac(const struct df_keys *k, const struct audit_stub *s, struct audit_mac *out);
/* A row of the query audit_stub. False: it is forged. Without keys none is. */
bool audit_read_stub(struct df_result *r, const struct df_keys *k, struct audit_stub *out);

/* A line of the file of heads. */
void audit_line_mac(const struct df_keys *k, int64_t sequence, struct df_str mac, int64_t time_ms,
                    struct audit_mac *out);

const struct df_keys *audit_keys(void);

#endif
