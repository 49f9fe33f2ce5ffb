/*
 * Client records: the operations on table Clients, for the API and the command line. All run on the
 * caller's connection, inside its transaction, and write their audit row in it.
 *
 * A secret is "dfs_" and 32 random bytes in base64url. It is shown once; its Argon2id hash (19 MiB,
 * 2 passes) is stored with a salt of its own. Hashing takes tens of milliseconds: never on an HTTP
 * thread, never inside a transaction.
 */
#ifndef DF_ACCESS_CLIENTS_H
#define DF_ACCESS_CLIENTS_H

#include "access/audit.h"
#include "base/uuid.h"
#include "net/input.h"
#include "json/write.h"

enum df_client_status { DF_CLIENT_ACTIVE = 0, DF_CLIENT_SUSPENDED = 1 };

#define DF_SCOPES(X)                                                                               \
    X(INTERFACE, "interface")                                                                      \
    X(CALLBACK, "callback")                                                                        \
    X(IMPORTS, "imports")                                                                          \
    X(ACKS, "acks")                                                                                \
    X(EVENTS, "events")                                                                            \
    X(INTEGRATIONS, "integrations")                                                                \
    X(INTERFACE_ALL, "interface-all")

enum df_scope_index {
#define X(sym, name) DF_SCOPE_INDEX_##sym,
    DF_SCOPES(X)
#undef X
        DF_SCOPE_COUNT
};

#define DF_SCOPE_INTERFACE     (1u << DF_SCOPE_INDEX_INTERFACE)
#define DF_SCOPE_INTERFACE_ALL (1u << DF_SCOPE_INDEX_INTERFACE_ALL)
#define DF_SCOPES_ALL          ((1u << DF_SCOPE_COUNT) - 1)
/* For a client that was created without scopes. The others reach beyond a client's own data and
 * must be given by name. */
#define DF_SCOPES_DEFAULT  (DF_SCOPE_INTERFACE | (1u << DF_SCOPE_INDEX_IMPORTS))

#define DF_CLIENT_ID_MAX   64
#define DF_CLIENT_NAME_MAX 120 /* characters */
#define DF_SECRET_MAX      256 /* what a caller may send */

struct df_client {
    struct df_uuid id;
    char identifier[DF_CLIENT_ID_MAX + 1];
    char name[DF_CLIENT_NAME_MAX * 4 + 1];
    enum df_client_status status;
    uint32_t scopes;
    int64_t created_at; /* milliseconds; -1: never */
    int64_t last_seen_at;
    int64_t requests_per_minute; /* from its policy; 0: no limit. Set by df_client_load only */
};

#define DF_HASH_BYTES 32
#define DF_SALT_BYTES 16

struct df_secret_hash {
    unsigned char hash[DF_HASH_BYTES];
    unsigned char salt[DF_SALT_BYTES];
};

struct df_client_record {
    struct df_client client;
    bool has_current; /* false: another program hashed the secret; rotate it */
    struct df_secret_hash current;
    bool has_previous;
    struct df_secret_hash previous;
    int64_t previous_expires_at;
};

#define DF_CLIENT_SECRET_LEN 47

struct df_client_secret {
    char text[DF_CLIENT_SECRET_LEN + 1]; /* df_wipe() it after use */
};

void df_client_secret_make(const struct df_clock *clock, struct df_client_secret *ret);

/* With a fresh salt. Slow on purpose. */
enum df_code df_secret_hash_make(struct df_str secret, const struct df_clock *clock,
                                 struct df_secret_hash *ret, struct df_err *err) DF_MUST_CHECK;
/* Slow on purpose; constant-time comparison. An error of the hash itself counts as no match. */
bool df_secret_hash_matches(const struct df_secret_hash *h, struct df_str secret);

/* 1 to 64 characters of [A-Za-z0-9._-]. */
bool df_client_identifier_valid(struct df_str s);
/* Adds the scope's bit; false for an unknown name. */
bool df_scope_add(struct df_str name, uint32_t *scopes);
/* Whether these scopes allow a route that wants one. "interface-all" includes "interface", and
 * means the documents of all clients. */
bool df_scope_allows(uint32_t scopes, struct df_str wanted);
const char *df_client_status_name(enum df_client_status s); /* "Active", "Suspended" */
bool df_client_status_parse(struct df_str s, enum df_client_status *ret);

/* DF_E_EXISTS if the identifier is taken. Fills created_at. */
enum df_code df_client_insert(struct df_db *db, struct df_client *c, const struct df_secret_hash *h,
                              const struct df_actor *by, int64_t now_ms,
                              struct df_err *err) DF_MUST_CHECK;
/* DF_E_NOT_FOUND. */
enum df_code df_client_load(struct df_db *db, struct df_str identifier,
                            struct df_client_record *ret, struct df_err *err) DF_MUST_CHECK;
/* Calls `each` for each client of the page (access/list.h). */
enum df_code df_client_list(struct df_db *db, struct df_page *p, struct df_arena *a,
                            void (*each)(void *arg, const struct df_client *c), void *arg,
                            struct df_err *err) DF_MUST_CHECK;
enum df_code df_client_set_status(struct df_db *db, struct df_str identifier,
                                  enum df_client_status status, const struct df_actor *by,
                                  int64_t now_ms, struct df_err *err) DF_MUST_CHECK;
/* The scopes before and after are in the audit row. */
enum df_code df_client_set_scopes(struct df_db *db, struct df_str identifier, uint32_t scopes,
                                  const struct df_actor *by, int64_t now_ms,
                                  struct df_err *err) DF_MUST_CHECK;
/* previous_until_ms: until when the old secret stays valid; 0: it ends now. */
enum df_code df_client_rotate(struct df_db *db, struct df_str identifier,
                              const struct df_secret_hash *h, int64_t previous_until_ms,
                              const struct df_actor *by, int64_t now_ms,
                              struct df_err *err) DF_MUST_CHECK;

/* Logs the clients to which an upgrade has given more scopes since then (script 120). */
enum df_code df_client_tell_widened(struct df_db *db, int64_t since_ms,
                                    struct df_err *err) DF_MUST_CHECK;

void df_client_write_scopes(uint32_t scopes, struct df_json_out *out);
void df_client_write_json(const struct df_client *c, struct df_json_out *out);

#endif
