#include "access/audit_private.h"

#include "access/audit.sql.h"
#include "access/auth.h"

#include <assert.h>

#define DETAILS_MAX  ((size_t)1 << 20)
#define TARGET_MAX   200 /* characters of the column */
#define ADDRESS_MAX  64
#define SEAL_AT_ONCE 64 /* of others' entries, with one of our own */

static const struct df_keys *chain_keys;

void df_audit_use_keys(const struct df_keys *keys)
{
    chain_keys = keys;
}

const struct df_keys *audit_keys(void)
{
    return chain_keys;
}

struct df_actor df_actor_of(struct df_req *req)
{
    const struct df_admin *admin = df_auth_admin(req);
    const struct df_client *client = df_auth_client(req);
    struct df_actor by = {.name = DF_STR("admin"),
                          .ip = df_req_peer(req),
                          .correlation_id = df_req_correlation_id(req)};

    if (client) {
        by.name = df_arena_printf(df_req_arena(req), "client:%s", client->identifier);
    } else if (admin && admin->name) {
        by.name = df_arena_printf(df_req_arena(req), "admin:%s", admin->name);
        by.role = df_admin_role_name(admin->role);
    }
    return by;
}

/* --- hashes --- */

static void add_number(struct df_buf *b, int64_t v)
{
    unsigned char bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)v >> (56 - 8 * i));
    df_buf_add(b, bytes, sizeof bytes);
}

/* The length comes first, so that no text can be moved from one column to the next. */
static void add_text(struct df_buf *b, struct df_str s)
{
    add_number(b, s.ptr ? (int64_t)s.len : -1);
    if (s.ptr)
        df_buf_adds(b, s);
}

static void finish_mac(const struct df_keys *k, struct df_buf *b, struct audit_mac *out)
{
    assert(!df_buf_failed(b));
    df_keys_audit_mac(k, df_buf_str(b), out->bytes);
    df_buf_release(b);
}

/* previous: absent for the first entry. */
static void audit_row_mac(const struct df_keys *k, enum audit_kind kind, struct df_str previous,
                          const struct audit_row *row, struct audit_mac *out)
{
    struct df_buf b;

    df_buf_init(&b, DF_VALUE_MAX);
    df_buf_addc(&b, (char)kind);
    add_text(&b, previous);
    add_number(&b, row->sequence);
    add_number(&b, row->occurred_ms);
    add_text(&b, row->actor);
    add_text(&b, row->action);
    add_text(&b, row->target);
    add_text(&b, row->client_id);
    add_text(&b, row->ip);
    add_text(&b, row->correlation_id);
    add_text(&b, row->details);
    add_text(&b, row->outcome);
    finish_mac(k, &b, out);
}

bool audit_row_is(const struct df_keys *k, enum audit_kind kind, struct df_str previous,
                  const struct audit_row *row)
{
    struct audit_mac right;

    audit_row_mac(k, kind, previous, row, &right);
    return df_str_eq(row->mac, audit_mac_str(&right));
}

void audit_stub_mac(const struct df_keys *k, const struct audit_stub *s, struct audit_mac *out)
{
    struct df_buf b;

    df_buf_init(&b, 1024);
    df_buf_addc(&b, 'R');
    add_number(&b, s->from);
    add_number(&b, s->to);
    add_number(&b, s->first_ms);
    add_number(&b, s->last_ms);
    add_number(&b, s->created_ms);
    add_text(&b, audit_mac_str(&s->last_mac));
    finish_mac(k, &b, out);
}

void audit_line_mac(const struct df_keys *k, int64_t sequence, struct df_str mac, int64_t time_ms,
                    struct audit_mac *out)
{
    struct df_buf b;

    df_buf_init(&b, 1024);
    df_buf_addc(&b, 'H');
    add_number(&b, sequence);
    add_text(&b, mac);
    add_number(&b, time_ms);
    finish_mac(k, &b, out);
}

/* --- rows --- */

void audit_read_row(struct df_result *r, struct audit_row *out)
{
    *out = (struct audit_row){
        .id = df_col_int(r, audit_entry_Id),
        .sequence = df_col_int(r, audit_entry_Sequence),
        .occurred_ms = df_col_time(r, audit_entry_OccurredAt),
        .actor = df_col_text(r, audit_entry_Actor),
        .action = df_col_text(r, audit_entry_Action),
        .target = df_col_text(r, audit_entry_Target),
        .client_id = df_col_text(r, audit_entry_ClientId),
        .ip = df_col_text(r, audit_entry_Ip),
        .correlation_id = df_col_text(r, audit_entry_CorrelationId),
        .details = df_col_text(r, audit_entry_DetailsJson),
        .outcome = df_col_text(r, audit_entry_Outcome),
        .mac = df_col_null(r, audit_entry_Mac) ? DF_STR_NULL : df_col_blob(r, audit_entry_Mac),
    };
}

bool audit_read_stub(struct df_result *r, const struct df_keys *k, struct audit_stub *out)
{
    struct df_str last = df_col_blob(r, audit_stub_LastMac);
    struct audit_mac right;

    *out = (struct audit_stub){
        .from = df_col_int(r, audit_stub_FromSequence),
        .to = df_col_int(r, audit_stub_ToSequence),
        .first_ms = df_col_time(r, audit_stub_FirstAt),
        .last_ms = df_col_time(r, audit_stub_LastAt),
        .created_ms = df_col_time(r, audit_stub_CreatedAt),
    };
    if (last.len == sizeof out->last_mac.bytes)
        memcpy(out->last_mac.bytes, last.ptr, last.len);
    if (!k)
        return true;
    audit_stub_mac(k, out, &right);
    return df_str_eq(df_col_blob(r, audit_stub_Mac), audit_mac_str(&right));
}

/* With text in the arena. */
static void keep_row(struct df_result *r, struct df_arena *a, struct audit_row *out)
{
    struct df_str *const texts[] = {&out->actor,     &out->action,  &out->target,
                                    &out->client_id, &out->ip,      &out->correlation_id,
                                    &out->details,   &out->outcome, &out->mac};

    audit_read_row(r, out);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i]->ptr)
            *texts[i] = df_arena_str(a, *texts[i]);
}

/* --- the head --- */

struct head {
    int64_t sequence; /* of the entry to write next, then of the last one written */
    bool has_mac;
    struct audit_mac mac; /* of the one before */
};

static void read_mac(struct df_str from, struct audit_mac *out, bool *ret_whole)
{
    *ret_whole = from.ptr && from.len == sizeof out->bytes;
    if (*ret_whole)
        memcpy(out->bytes, from.ptr, sizeof out->bytes);
}

static void read_head(void *arg, struct df_result *r)
{
    struct head *h = arg;

    h->sequence = df_col_int(r, audit_head_take_Sequence);
    read_mac(df_col_blob(r, audit_head_take_Mac), &h->mac, &h->has_mac);
}

static enum df_code take_head(struct df_db *db, struct head *h, struct df_err *err)
{
    bool found = false;
    enum df_code code = df_db_one(db, DF_Q0(audit_head_take), read_head, h, &found, err);

    if (code != DF_OK || found)
        return code;
    code = df_db_exec(db, DF_Q0(audit_head_make), NULL, err);
    return code == DF_OK ? df_db_one(db, DF_Q0(audit_head_take), read_head, h, NULL, err) : code;
}

static struct df_str previous_of(const struct head *h)
{
    return h->has_mac ? audit_mac_str(&h->mac) : DF_STR_NULL;
}

static enum df_code set_head(struct df_db *db, const struct head *h, struct df_err *err)
{
    return df_db_exec(
        db, DF_Q(audit_head_set, .sequence = df_int(h->sequence), .mac = df_blob(previous_of(h))),
        NULL, err);
}

/* Numbers the row and makes it the head. */
static void chain_row(struct head *h, enum audit_kind kind, struct audit_row *row,
                      struct audit_mac *ret)
{
    row->sequence = h->sequence;
    audit_row_mac(chain_keys, kind, previous_of(h), row, ret);
    h->mac = *ret;
    h->has_mac = true;
}

/* --- sealing --- */

struct unsealed {
    struct df_arena arena;
    struct audit_row *rows;
    size_t count;
};

static void keep_unsealed(void *arg, struct df_result *r)
{
    struct unsealed *u = arg;
    keep_row(r, &u->arena, &u->rows[u->count++]);
}

/* Leaves the head at the number that comes next. */
static enum df_code seal_rows(struct df_db *db, struct head *h, const struct unsealed *u,
                              struct df_err *err)
{
    enum df_code code = DF_OK;

    for (size_t i = 0; code == DF_OK && i < u->count; i++) {
        struct audit_mac mac;
        chain_row(h, AUDIT_SEALED, &u->rows[i], &mac);
        code = df_db_exec(db,
                          DF_Q(audit_seal, .sequence = df_int(h->sequence),
                               .mac = df_blob(audit_mac_str(&mac)), .id = df_int(u->rows[i].id)),
                          NULL, err);
        h->sequence++;
    }
    return code;
}

static enum df_code seal_older(struct df_db *db, struct head *h, int64_t limit, int64_t *ret_sealed,
                               struct df_err *err)
{
    struct unsealed u = {0};

    df_arena_init(&u.arena);
    u.rows = DF_ARENA_ARRAY(&u.arena, struct audit_row, (size_t)limit);
    enum df_code code =
        df_db_each(db, DF_Q(audit_unsealed, .limit = df_int(limit)), keep_unsealed, &u, err);
    if (code == DF_OK)
        code = seal_rows(db, h, &u, err);
    *ret_sealed = (int64_t)u.count;
    df_arena_release(&u.arena);
    return code;
}

enum df_code df_audit_seal(struct df_db *db, int64_t limit, int64_t *ret_sealed, struct df_err *err)
{
    struct head h;

    *ret_sealed = 0;
    if (!chain_keys)
        return DF_OK;
    enum df_code code = take_head(db, &h, err);
    if (code == DF_OK)
        code = seal_older(db, &h, limit, ret_sealed, err);
    h.sequence--;
    return code == DF_OK ? set_head(db, &h, err) : code;
}

/* --- writing --- */

static enum df_code insert_row(struct df_db *db, const struct audit_row *row, struct df_str mac,
                               struct df_err *err)
{
    return df_db_exec(db,
                      DF_Q(audit_insert, .occurred_at = df_time(row->occurred_ms),
                           .actor = df_text(row->actor), .action = df_text(row->action),
                           .target = df_text(row->target), .client_id = df_uuid(row->client_id),
                           .ip = df_text(row->ip), .correlation_id = df_text(row->correlation_id),
                           .details = df_text(row->details), .outcome = df_text(row->outcome),
                           .sequence = mac.ptr ? df_int(row->sequence) : df_null(DF_INT),
                           .mac = df_blob(mac)),
                      NULL, err);
}

static enum df_code chain_entry(struct df_db *db, struct audit_row *row, struct df_err *err)
{
    struct audit_mac mac;
    struct head h;
    int64_t sealed = 0;
    enum df_code code = take_head(db, &h, err);

    if (code == DF_OK)
        code = seal_older(db, &h, SEAL_AT_ONCE, &sealed, err);
    if (code != DF_OK)
        return code;
    chain_row(&h, AUDIT_WRITTEN, row, &mac);
    code = insert_row(db, row, audit_mac_str(&mac), err);
    return code == DF_OK ? set_head(db, &h, err) : code;
}

/* The details with the role of a named key before them. */
static void add_role(struct df_buf *out, const char *role, struct df_str details)
{
    df_buf_addf(out, "{\"role\":\"%s\"", role);
    if (details.len > 2 && details.ptr[0] == '{') {
        df_buf_addc(out, ',');
        df_buf_adds(out, df_str_n(details.ptr + 1, details.len - 1));
    } else {
        df_buf_addc(out, '}');
    }
}

enum df_code df_audit_add(struct df_db *db, const struct df_audit_entry *e, struct df_err *err)
{
    struct df_buf details;
    struct audit_row row = {
        .occurred_ms = e->now_ms,
        .actor = df_utf8_cut(e->by->name, TARGET_MAX),
        .action = df_str_c(e->action),
        .target = df_utf8_cut(e->target, TARGET_MAX),
        .client_id = e->client_id,
        .ip = df_utf8_cut(e->by->ip, ADDRESS_MAX),
        .correlation_id = e->by->correlation_id,
        .details = e->details,
        .outcome = df_str_c(e->outcome ? e->outcome : "ok"),
    };

    df_buf_init(&details, DETAILS_MAX);
    if (e->by->role) {
        add_role(&details, e->by->role, e->details);
        row.details = df_buf_str(&details);
    }
    enum df_code code =
        chain_keys ? chain_entry(db, &row, err) : insert_row(db, &row, DF_STR_NULL, err);
    df_buf_release(&details);
    return code;
}

enum df_code df_audit_write(struct df_db *db, const struct df_actor *by, const char *action,
                            struct df_str target, struct df_str client_id, struct df_str details,
                            int64_t now_ms, struct df_err *err)
{
    return df_audit_add(db,
                        &(struct df_audit_entry){.by = by,
                                                 .action = action,
                                                 .target = target,
                                                 .client_id = client_id,
                                                 .details = details,
                                                 .now_ms = now_ms},
                        err);
}
