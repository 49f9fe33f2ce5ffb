/*
 * The secrets that webhooks are signed with, and how the database stores them: encrypted with the
 * master key (security.master_key) in SecretEncrypted, or in clear text in Secret if the server has
 * no master key. The previous secret, which still counts while a secret is being replaced, is
 * stored in the same way.
 *
 * The encrypted form is one byte for the version, a random nonce of 24 bytes, and
 * XChaCha20-Poly1305 with the subscription's id as associated data. So one row's secret is of no
 * use in another row.
 */
#ifndef DF_WEBHOOKS_SECRET_H
#define DF_WEBHOOKS_SECRET_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/secret.h"

/* Both of df_secret_key_new; NULL: there is none. */
struct df_webhook_keys {
    const struct df_secret *master;     /* encrypts; NULL: secrets are stored in clear text */
    const struct df_secret *old_master; /* opens what was encrypted before the key was replaced */
};

#define DF_WEBHOOK_SECRET_MAX 128 /* what column Secret holds */
#define DF_WEBHOOK_SEALED_MAX (1 + 24 + DF_WEBHOOK_SECRET_MAX + 16)

struct df_webhook_secret {
    char text[DF_WEBHOOK_SECRET_MAX + 1]; /* df_wipe() it after use */
};

/* "whsec_" and 32 random bytes in base64: what Standard Webhooks asks for. */
void df_webhook_secret_make(const struct df_clock *clock, struct df_webhook_secret *ret);
/* Checks a secret that the caller chose; err says what is wrong. */
enum df_code df_webhook_secret_check(struct df_str secret, struct df_err *err) DF_MUST_CHECK;

/* The values of the two columns; one of them is absent. */
struct df_webhook_sealed {
    struct df_str plain;  /* borrowed from the secret */
    struct df_str sealed; /* in bytes */
    unsigned char bytes[DF_WEBHOOK_SEALED_MAX];
};

/* master: of df_secret_key_new; NULL: there is none. subscription: its id, 36 characters. */
void df_webhook_secret_seal(const struct df_secret *master, const struct df_clock *clock,
                            struct df_str subscription, struct df_str secret,
                            struct df_webhook_sealed *ret);

/* The columns of a subscription; NULL is absent. */
struct df_webhook_secret_columns {
    struct df_str secret;
    struct df_str encrypted;
    struct df_str previous;
    struct df_str previous_encrypted;
    int64_t previous_expires_at; /* -1: NULL */
};

/*
 * Opens the secrets for df_sign; *ret_previous is absent unless it still counts. Memory: the arena.
 * DF_E_CONFIG: the secret is encrypted, and the master key is missing or another one. A previous
 * secret that cannot be opened does not count.
 */
enum df_code df_webhook_secret_open(const struct df_webhook_keys *keys, struct df_str subscription,
                                    const struct df_webhook_secret_columns *columns, int64_t now_ms,
                                    struct df_arena *a, struct df_str *ret,
                                    struct df_str *ret_previous, struct df_err *err) DF_MUST_CHECK;

#endif
