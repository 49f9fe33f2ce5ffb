#include "access/clients.h"

#include "access/clients.sql.h"
#include "access/list.h"
#include "base/log.h"
#include "base/secret.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>

#define ARGON2_MEMORY_BYTES ((size_t)19456 * 1024)
#define ARGON2_PASSES       2
#define ARGON2_NAME         "argon2id,v=19,m=19456,t=2,p=1"
#define SECRET_PREFIX       "dfs_"
#define LIMIT_MAX           1000000 /* of RequestsPerMinute */

static const char *const scope_names[] = {
#define X(sym, name) name,
    DF_SCOPES(X)
#undef X
};

/* --- secrets --- */

void df_client_secret_make(const struct df_clock *clock, struct df_client_secret *ret)
{
    unsigned char bytes[32];
    df_random(clock, bytes, sizeof bytes);
    memcpy(ret->text, SECRET_PREFIX, sizeof SECRET_PREFIX);
    sodium_bin2base64(ret->text + sizeof SECRET_PREFIX - 1,
                      sizeof ret->text - (sizeof SECRET_PREFIX - 1), bytes, sizeof bytes,
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    df_wipe(bytes, sizeof bytes);
}

static bool argon2(struct df_str secret, const unsigned char salt[DF_SALT_BYTES],
                   unsigned char out[DF_HASH_BYTES])
{
    return crypto_pwhash(out, DF_HASH_BYTES, secret.ptr, secret.len, salt, ARGON2_PASSES,
                         ARGON2_MEMORY_BYTES, crypto_pwhash_ALG_ARGON2ID13) == 0;
}

enum df_code df_secret_hash_make(struct df_str secret, const struct df_clock *clock,
                                 struct df_secret_hash *ret, struct df_err *err)
{
    df_random(clock, ret->salt, sizeof ret->salt);
    if (!argon2(secret, ret->salt, ret->hash))
        return df_err_set(err, DF_E_BUSY, "not enough memory to hash a secret");
    return DF_OK;
}

bool df_secret_hash_matches(const struct df_secret_hash *h, struct df_str secret)
{
    unsigned char got[DF_HASH_BYTES];
    bool same = argon2(secret, h->salt, got) && df_bytes_equal(got, h->hash, sizeof got);
    df_wipe(got, sizeof got);
    return same;
}

/* --- names --- */

bool df_client_identifier_valid(struct df_str s)
{
    if (s.len == 0 || s.len > DF_CLIENT_ID_MAX)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
        if (!ok)
            return false;
    }
    return true;
}

bool df_scope_add(struct df_str name, uint32_t *scopes)
{
    for (size_t i = 0; i < DF_SCOPE_COUNT; i++) {
        if (df_str_eq(df_str_c(scope_names[i]), name)) {
            *scopes |= 1u << i;
            return true;
        }
    }
    return false;
}

bool df_scope_allows(uint32_t scopes, struct df_str wanted)
{
    uint32_t enough = 0;
    if (!df_scope_add(wanted, &enough))
        return false;
    if (enough & DF_SCOPE_INTERFACE)
        enough |= DF_SCOPE_INTERFACE_ALL;
    return (scopes & enough) != 0;
}

/* All scopes are written out, so that no client has a scope of a later version before it is given
 * one. */
static struct df_str scopes_to_column(uint32_t scopes, char out[128])
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < DF_SCOPE_COUNT; i++)
        if (scopes & (1u << i))
            len += (size_t)snprintf(out + len, 128 - len, "%s%s", len ? "," : "", scope_names[i]);
    return df_str_n(out, len);
}

/* Unknown names are skipped: a newer replica may know more scopes than this one. NULL means all
 * scopes: older versions write it, and one may run beside this one during an upgrade. */
static uint32_t scopes_from_column(struct df_str text)
{
    if (!text.ptr)
        return DF_SCOPES_ALL;
    uint32_t scopes = 0;
    while (text.len > 0) {
        struct df_str name;
        text = df_str_cut(text, ',', &name);
        (void)df_scope_add(df_str_trim(name), &scopes);
    }
    return scopes;
}

const char *df_client_status_name(enum df_client_status s)
{
    switch (s) {
    case DF_CLIENT_ACTIVE:
        return "Active";
    case DF_CLIENT_SUSPENDED:
        return "Suspended";
    }
    return "Suspended";
}

bool df_client_status_parse(struct df_str s, enum df_client_status *ret)
{
    if (df_str_ieq(s, DF_STR("Active")))
        *ret = DF_CLIENT_ACTIVE;
    else if (df_str_ieq(s, DF_STR("Suspended")))
        *ret = DF_CLIENT_SUSPENDED;
    else
        return false;
    return true;
}

/* --- rows --- */

enum df_code df_client_insert(struct df_db *db, struct df_client *c, const struct df_secret_hash *h,
                              const struct df_actor *by, int64_t now_ms, struct df_err *err)
{
    char scopes[128];
    struct df_str identifier = df_str_c(c->identifier);
    c->created_at = now_ms;
    c->last_seen_at = -1;
    enum df_code code = df_db_exec(
        db,
        DF_Q(client_insert, .id = df_uuid(df_uuid_str(&c->id)), .name = df_text(df_str_c(c->name)),
             .identifier = df_text(identifier),
             .hash = df_blob(df_str_n((const char *)h->hash, sizeof h->hash)),
             .salt = df_blob(df_str_n((const char *)h->salt, sizeof h->salt)),
             .algorithm = df_text(DF_STR(ARGON2_NAME)), .status = df_int(c->status),
             .scopes = df_text(scopes_to_column(c->scopes, scopes)), .now = df_time(now_ms)),
        NULL, err);
    if (code == DF_E_DB_UNIQUE)
        return df_err_set(err, DF_E_EXISTS, "A client with the id \"%s\" exists already.",
                          c->identifier);
    if (code != DF_OK)
        return code;
    return df_audit_write(db, by, "ClientCreated", identifier, df_uuid_str(&c->id), DF_STR_NULL,
                          now_ms, err);
}

static void copy_text(char *out, size_t size, struct df_str s)
{
    size_t len = s.len < size ? s.len : size - 1;
    if (len)
        memcpy(out, s.ptr, len);
    out[len] = '\0';
}

/* Reads the columns that client_get and client_list share. */
static void read_client(const struct df_result *r, struct df_client *c)
{
    copy_text(c->id.text, sizeof c->id.text, df_col_text(r, client_Id));
    copy_text(c->name, sizeof c->name, df_col_text(r, client_Name));
    copy_text(c->identifier, sizeof c->identifier, df_col_text(r, client_ClientIdentifier));
    c->status =
        df_col_int(r, client_Status) == DF_CLIENT_ACTIVE ? DF_CLIENT_ACTIVE : DF_CLIENT_SUSPENDED;
    c->scopes = scopes_from_column(df_col_text(r, client_Scopes));
    c->created_at = df_col_time(r, client_CreatedAt);
    c->last_seen_at = df_col_time(r, client_LastSeenAt);
}

static bool copy_bytes(unsigned char *out, size_t size, struct df_str bytes)
{
    if (bytes.len != size)
        return false;
    memcpy(out, bytes.ptr, size);
    return true;
}

/* As in df_policy_load: too small means no limit, too large the largest. */
static int64_t limit_of(int64_t n)
{
    return n < 1 ? 0 : n < LIMIT_MAX ? n : LIMIT_MAX;
}

struct client_search {
    struct df_str identifier;
    struct df_client_record *ret;
    bool found;
};

static void read_record(void *arg, struct df_result *r)
{
    struct client_search *s = arg;
    struct df_client_record rec = {0};
    struct df_secret_hash *old = &rec.previous;

    /* The database's collation may ignore case or trailing blanks; we do not. */
    s->found = df_str_eq(df_col_text(r, client_ClientIdentifier), s->identifier);
    if (!s->found)
        return;
    read_client(r, &rec.client);
    /* A blob is borrowed only until the next one is read. */
    rec.has_current =
        copy_bytes(rec.current.hash, DF_HASH_BYTES, df_col_blob(r, client_get_SecretHash)) &&
        copy_bytes(rec.current.salt, DF_SALT_BYTES, df_col_blob(r, client_get_SecretSalt));
    rec.has_previous =
        copy_bytes(old->hash, DF_HASH_BYTES, df_col_blob(r, client_get_PreviousSecretHash)) &&
        copy_bytes(old->salt, DF_SALT_BYTES, df_col_blob(r, client_get_PreviousSecretSalt)) &&
        !df_col_null(r, client_get_PreviousSecretExpiresAt);
    rec.previous_expires_at = df_col_time(r, client_get_PreviousSecretExpiresAt);
    rec.client.requests_per_minute = limit_of(df_col_int(r, client_get_RequestsPerMinute));
    *s->ret = rec;
}

enum df_code df_client_load(struct df_db *db, struct df_str identifier,
                            struct df_client_record *ret, struct df_err *err)
{
    struct client_search s = {.identifier = identifier, .ret = ret};
    enum df_code code =
        df_db_each(db, DF_Q(client_get, .identifier = df_text(identifier)), read_record, &s, err);
    if (code == DF_OK && !s.found)
        code = df_err_set(err, DF_E_NOT_FOUND, "There is no client \"" DF_STR_FMT "\".",
                          DF_STR_ARG(identifier));
    return code;
}

struct client_listing {
    void (*each)(void *arg, const struct df_client *c);
    void *arg;
};

static void list_client(void *arg, struct df_result *r)
{
    const struct client_listing *l = arg;
    struct df_client c;

    read_client(r, &c);
    l->each(l->arg, &c);
}

enum df_code df_client_list(struct df_db *db, struct df_page *p, struct df_arena *a,
                            void (*each)(void *arg, const struct df_client *client), void *arg,
                            struct df_err *err)
{
    const struct df_list_query q = {DF_LIST_KEYS(client_keys), .rows = &df_q_client_list};

    return df_list_page(db, &q, p, a, list_client, &(struct client_listing){each, arg}, err);
}

/* Audits an UPDATE by identifier; if it changed nothing, there is no such client. */
static enum df_code finish_update(struct df_db *db, struct df_str identifier, int64_t affected,
                                  const struct df_actor *by, const char *action, int64_t now_ms,
                                  struct df_err *err)
{
    struct df_client_record rec;
    if (affected == 0)
        return df_err_set(err, DF_E_NOT_FOUND, "There is no client \"" DF_STR_FMT "\".",
                          DF_STR_ARG(identifier));
    enum df_code code = df_client_load(db, identifier, &rec, err);
    if (code != DF_OK)
        return code;
    return df_audit_write(db, by, action, identifier, df_uuid_str(&rec.client.id), DF_STR_NULL,
                          now_ms, err);
}

enum df_code df_client_set_status(struct df_db *db, struct df_str identifier,
                                  enum df_client_status status, const struct df_actor *by,
                                  int64_t now_ms, struct df_err *err)
{
    int64_t affected = 0;
    enum df_code code = df_db_exec(db,
                                   DF_Q(client_set_status, .status = df_int(status),
                                        .now = df_time(now_ms), .identifier = df_text(identifier)),
                                   &affected, err);
    if (code != DF_OK)
        return code;
    const char *action = status == DF_CLIENT_ACTIVE ? "ClientActivated" : "ClientSuspended";
    return finish_update(db, identifier, affected, by, action, now_ms, err);
}

static void write_scopes_change(uint32_t before, uint32_t after, struct df_buf *out)
{
    struct df_json_out json;

    df_json_out_init(&json, out);
    df_json_open(&json, '{');
    df_json_key(&json, "scopes");
    df_json_open(&json, '{');
    df_json_key(&json, "from");
    df_client_write_scopes(before, &json);
    df_json_key(&json, "to");
    df_client_write_scopes(after, &json);
    df_json_close(&json, '}');
    df_json_close(&json, '}');
}

enum df_code df_client_set_scopes(struct df_db *db, struct df_str identifier, uint32_t scopes,
                                  const struct df_actor *by, int64_t now_ms, struct df_err *err)
{
    struct df_client_record before = {0};
    char column[128];
    struct df_buf details;
    enum df_code code = df_client_load(db, identifier, &before, err);

    if (code != DF_OK)
        return code;
    code = df_db_exec(db,
                      DF_Q(client_set_scopes, .scopes = df_text(scopes_to_column(scopes, column)),
                           .now = df_time(now_ms), .identifier = df_text(identifier)),
                      NULL, err);
    if (code != DF_OK)
        return code;
    df_buf_init(&details, 1024);
    write_scopes_change(before.client.scopes, scopes, &details);
    code = df_audit_write(db, by, "ClientScopesChanged", identifier, df_uuid_str(&before.client.id),
                          df_buf_str(&details), now_ms, err);
    df_buf_release(&details);
    return code;
}

enum df_code df_client_rotate(struct df_db *db, struct df_str identifier,
                              const struct df_secret_hash *h, int64_t previous_until_ms,
                              const struct df_actor *by, int64_t now_ms, struct df_err *err)
{
    int64_t affected = 0;
    struct df_value until = previous_until_ms ? df_time(previous_until_ms) : df_null(DF_TIME);
    enum df_code code =
        df_db_exec(db,
                   DF_Q(client_rotate, .previous_until = until,
                        .hash = df_blob(df_str_n((const char *)h->hash, sizeof h->hash)),
                        .salt = df_blob(df_str_n((const char *)h->salt, sizeof h->salt)),
                        .algorithm = df_text(DF_STR(ARGON2_NAME)), .now = df_time(now_ms),
                        .identifier = df_text(identifier)),
                   &affected, err);
    if (code != DF_OK)
        return code;
    return finish_update(db, identifier, affected, by, "ClientSecretRotated", now_ms, err);
}

static void tell_widened(void *arg, struct df_result *r)
{
    (void)arg;
    struct df_log_field fields[] = {
        DF_F("clientId", df_col_text(r, client_widened_ClientIdentifier)),
        DF_F("scopes", df_col_text(r, client_widened_Scopes))};
    df_log_write(DF_LOG_WARN, "ClientScopesWidened", fields, 2,
                 "the client keeps seeing the documents of all clients: take \"interface-all\" "
                 "from it if it should see its own only");
}

enum df_code df_client_tell_widened(struct df_db *db, int64_t since_ms, struct df_err *err)
{
    return df_db_each(db, DF_Q(client_widened, .since = df_time(since_ms)), tell_widened, NULL,
                      err);
}

/* --- JSON --- */

void df_client_write_scopes(uint32_t scopes, struct df_json_out *out)
{
    df_json_open(out, '[');
    for (size_t i = 0; i < DF_SCOPE_COUNT; i++)
        if (scopes & (1u << i))
            df_json_text(out, df_str_c(scope_names[i]));
    df_json_close(out, ']');
}

void df_client_write_json(const struct df_client *c, struct df_json_out *out)
{
    df_json_open(out, '{');
    df_json_kv_text(out, "clientId", df_str_c(c->identifier));
    df_json_kv_text(out, "name", df_str_c(c->name));
    df_json_kv_text(out, "status", df_str_c(df_client_status_name(c->status)));
    df_json_key(out, "scopes");
    df_client_write_scopes(c->scopes, out);
    df_json_kv_time(out, "createdAt", c->created_at);
    df_json_kv_time(out, "lastSeenAt", c->last_seen_at);
    df_json_close(out, '}');
}
