/*
 * Authentication and authorization of callers: the authorize hook of the HTTP server.
 *
 * Clients: a verified pair of id and secret is remembered for five minutes as a keyed hash of the
 * secret, so that Argon2 runs once and not for each request. The row (status, scopes, secrets) is
 * read again when it is older than three seconds. So a suspension or rotation by another replica or
 * the command line takes effect within that time; one by this process calls df_auth_forget and
 * takes effect at once.
 *
 *   cached, fresh row ───────────────────────────────► pass            (no I/O, one short lock)
 *   cached, row older than 3 s ──► read the row ─────► pass            (one indexed read)
 *   not cached ──► read the row ──► Argon2 on a hash thread ─► pass or 401
 *
 * The row includes the client's RequestsPerMinute, so the limit (access/usage.h) costs no look-up
 * of its own and follows changes as a suspension does.
 *
 * access/gate.h decides whether a secret is looked at, from earlier failures of this id from this
 * network (429); a caller who was right lately is not held back by the failures of others. Hash
 * computations are bounded: a few threads, and a line before them that keeps places for known
 * callers (access/hash_line.h; 503 beyond). An unknown id costs the caller the same time as a wrong
 * secret.
 */
#ifndef DF_ACCESS_AUTH_H
#define DF_ACCESS_AUTH_H

#include "access/clients.h"
#include "access/hash_line.h"
#include "access/settings.h"
#include "net/http.h"
#include "store/store.h"

/* struct df_route.access */
enum df_access_kind {
    DF_ACCESS_OPEN,
    DF_ACCESS_CLIENT,  /* with route.scope, if it has one */
    DF_ACCESS_ADMIN,   /* an admin key with the role that the route needs */
    DF_ACCESS_METRICS, /* loopback, or any admin key */
    DF_ACCESS_ANY,     /* any client, or any admin key */
    DF_ACCESS_OWNER,   /* the client that {clientId} names (others: 404), or as DF_ACCESS_ADMIN */
};

/* The scope of a route for administrators is the role that it needs. NULL: by its method, GET needs
 * `read`, others `admin`. A key without it gets 403 RoleMissing. */
#define DF_NEEDS_READ    "read"
#define DF_NEEDS_OPERATE "operate"
#define DF_NEEDS_ADMIN   "admin"

/* A shorter admin key could be guessed if the number of guesses had no limit. */
#define DF_ADMIN_KEY_STRONG 24

struct df_auth;
struct df_usage;

struct df_auth_options {
    struct df_store *store;
    const struct df_clock *clock;
    struct df_auth_settings settings;
    struct df_usage *usage;
    int64_t traces_per_minute; /* of a client that are recorded because it records them */
};

struct df_auth *df_auth_new(const struct df_auth_options *opt);
/* After the HTTP server has stopped. */
void df_auth_free(struct df_auth *a);
/* Finishes the hash tasks that are queued; later ones are refused. Before the store is closed. */
void df_auth_stop(struct df_auth *a);

enum df_verdict df_auth_authorize(struct df_auth *a, struct df_req *req);

/* The client behind an authorized request; NULL: it is the administrator. */
const struct df_client *df_auth_client(const struct df_req *req);
/* The admin key behind an authorized request; NULL: it is a client, or an open route. */
const struct df_admin *df_auth_admin(const struct df_req *req);

/* Forgets the client's row and secrets, after a change to it was committed. */
void df_auth_forget(struct df_auth *a, struct df_str identifier);

/* Has the client's row read again, after a change of its policy was committed. Its verified secret
 * stays remembered. */
void df_auth_refresh(struct df_auth *a, struct df_str identifier);

/* Writes LastSeenAt of the clients seen since the last call, at most once a minute for each. */
void df_auth_flush_seen(struct df_auth *a);

/* Whether a request to an open route carries an admin key. A wrong key counts as a failed
 * login. */
bool df_auth_is_admin(struct df_auth *a, const struct df_req *req);

/* Queues a hash for an administrator's request. False: too many are waiting; answer 503. */
bool df_auth_hash(struct df_auth *a, struct df_hash_task *t);

#endif
