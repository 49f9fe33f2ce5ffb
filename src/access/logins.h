/*
 * Logins in memory: for each client the row that was read last, the secrets that Argon2 has
 * confirmed, as keyed hashes (fingerprints), and when the client was last seen. auth.h says how
 * long each is trusted. Thread-safe; the lock is held for look-ups and copies only.
 */
#ifndef DF_ACCESS_LOGINS_H
#define DF_ACCESS_LOGINS_H

#include "access/clients.h"
#include "store/store.h"

#define DF_FINGERPRINT_LEN 32

/* One attempt to log in. */
struct df_login {
    struct df_str identifier;
    unsigned char fingerprint[DF_FINGERPRINT_LEN];
    uint64_t generation;            /* of the logins when they were looked at; set by find */
    int64_t row_read_ms;            /* monotonic; set by the caller, as is the record */
    struct df_client_record record; /* the row, once it was read */
};

struct df_logins;

struct df_logins *df_logins_new(const struct df_clock *clock);
void df_logins_free(struct df_logins *l);

void df_logins_fingerprint(const struct df_logins *l, struct df_str secret,
                           unsigned char out[DF_FINGERPRINT_LEN]);

/* Whether the secret is known to be right and the row is fresh; then *ret is the client, and it was
 * seen. Sets login->generation in any case. */
bool df_logins_find(struct df_logins *l, struct df_login *login, struct df_client *ret);
/* Whether a remembered secret still belongs to the row just read; then the client was seen. */
bool df_logins_confirm(struct df_logins *l, const struct df_login *login);
/* Remembers a verified secret together with the row it was checked against. */
void df_logins_remember(struct df_logins *l, const struct df_login *login, bool is_previous);

/* After a change was committed. forget: neither row nor secrets are trusted any more. refresh: the
 * row is read again, the secrets stay. */
void df_logins_forget(struct df_logins *l, struct df_str identifier);
void df_logins_refresh(struct df_logins *l, struct df_str identifier);

/* As df_auth_flush_seen. */
void df_logins_flush_seen(struct df_logins *l, struct df_store *store);

/* Whether the record's previous secret still counts. */
bool df_client_previous_valid(const struct df_client_record *r, const struct df_clock *clock);
bool df_secret_hash_equal(const struct df_secret_hash *x, const struct df_secret_hash *y);

#endif
