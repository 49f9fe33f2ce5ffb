/* Retention of the audit log: one stub stands for all entries that were removed, from the first on.
 * Each step makes it reach further. Nothing is signed or removed that was not verified: whoever
 * can write to the database could else have the server remove entries, and sign for it. */
#include "access/audit.sql.h"
#include "access/audit_private.h"
#include "base/log.h"

#include <assert.h>

struct oldest {
    const struct df_keys *keys;
    struct audit_stub stub; /* reaches up to the last entry that may go */
    size_t stubs;
    int64_t before; /* up to where it reaches in the database; 0: there is none */
    int64_t cutoff_ms;
    int64_t count;
    bool over; /* the next one is too new */
    struct df_audit_fault *fault;
};

static void set_fault(struct oldest *o, int64_t sequence, const char *what)
{
    if (!o->fault->what)
        *o->fault = (struct df_audit_fault){sequence, what};
}

static void look_at_stub(void *arg, struct df_result *r)
{
    struct oldest *o = arg;

    if (++o->stubs > 1)
        set_fault(o, df_col_int(r, audit_stub_FromSequence), "stands in a second stub");
    else if (!audit_read_stub(r, o->keys, &o->stub) || o->stub.from != 1)
        set_fault(o, o->stub.from, "stands in a forged stub");
    o->before = o->stub.to;
}

static void look_at_oldest(void *arg, struct df_result *r)
{
    struct oldest *o = arg;
    struct audit_stub *s = &o->stub;
    struct df_str previous = s->to > 0 ? audit_mac_str(&s->last_mac) : DF_STR_NULL;
    struct audit_row row;

    audit_read_row(r, &row);
    o->over = o->over || o->fault->what || row.occurred_ms >= o->cutoff_ms;
    if (o->over)
        return;
    if (row.sequence != s->to + 1) {
        set_fault(o, s->to + 1, "is missing");
        return;
    }
    if (!audit_row_is(o->keys, AUDIT_WRITTEN, previous, &row) &&
        !audit_row_is(o->keys, AUDIT_SEALED, previous, &row)) {
        set_fault(o, row.sequence, "was changed");
        return;
    }
    if (s->from == 0) {
        s->from = row.sequence;
        s->first_ms = row.occurred_ms;
    }
    o->count++;
    s->to = row.sequence;
    s->last_ms = row.occurred_ms;
    memcpy(s->last_mac.bytes, row.mac.ptr, sizeof s->last_mac.bytes);
}

static enum df_code look(struct df_db *db, struct oldest *o, int64_t limit, struct df_err *err)
{
    enum df_code code = df_db_each(db, DF_Q0(audit_stub), look_at_stub, o, err);

    if (code == DF_OK && !o->fault->what)
        code = df_db_each(db, DF_Q(audit_walk, .after = df_int(o->before), .limit = df_int(limit)),
                          look_at_oldest, o, err);
    return code;
}

enum df_code df_audit_look_oldest(struct df_db *db, const struct df_keys *keys, int64_t limit,
                                  struct df_audit_fault *ret, struct df_err *err)
{
    struct oldest o = {.keys = keys, .cutoff_ms = INT64_MAX, .fault = ret};

    *ret = (struct df_audit_fault){0};
    return look(db, &o, limit, err);
}

/* Somebody else's run may have come first: then this one begins anew from its stub. */
static enum df_code save_stub(struct df_db *db, const struct audit_stub *s, int64_t before,
                              struct df_err *err)
{
    struct audit_mac mac;
    int64_t saved = 0;

    audit_stub_mac(audit_keys(), s, &mac);
    const struct df_query *q = before > 0 ? &df_q_audit_stub_extend : &df_q_audit_stub_insert;
    enum df_code code = df_db_exec(
        db,
        DF_ANY(q, {"from", df_int(s->from)}, {"before", df_int(before)}, {"to", df_int(s->to)},
               {"first_at", df_time(s->first_ms)}, {"last_at", df_time(s->last_ms)},
               {"last_mac", df_blob(audit_mac_str(&s->last_mac))}, {"now", df_time(s->created_ms)},
               {"mac", df_blob(audit_mac_str(&mac))}),
        &saved, err);
    if (code == DF_E_DB_UNIQUE || (code == DF_OK && saved != 1))
        return df_err_set(err, DF_E_DB_CONFLICT, "another run removes entries of the audit log");
    return code;
}

enum df_code df_audit_retain(struct df_db *db, int64_t cutoff_ms, int64_t limit, int64_t now_ms,
                             int64_t *ret_removed, struct df_err *err)
{
    struct df_audit_fault fault = {0};
    struct oldest o = {.keys = audit_keys(), .cutoff_ms = cutoff_ms, .fault = &fault};

    *ret_removed = 0;
    if (!o.keys)
        return DF_OK;
    enum df_code code = look(db, &o, limit, err);
    if (code == DF_OK && fault.what)
        df_log_error("AuditNotRemoved",
                     "retention removes nothing from the audit log: entry %lld %s (`dataflow audit "
                     "verify`)",
                     (long long)fault.sequence, fault.what);
    if (code != DF_OK || fault.what || o.count == 0)
        return code;
    o.stub.created_ms = now_ms;
    code = save_stub(db, &o.stub, o.before, err);
    if (code == DF_OK)
        code = df_db_exec(db,
                          DF_Q(audit_delete, .from = df_int(o.before + 1), .to = df_int(o.stub.to)),
                          NULL, err);
    if (code == DF_OK)
        *ret_removed = o.count;
    return code;
}
