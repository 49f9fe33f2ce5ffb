/*
 * The secrets that webhooks are signed with, and how the database stores them: in SecretEncrypted,
 * under a data key and bound to the subscription (keys/keys.h). Older releases left them in clear
 * text in Secret if there was no master key, or encrypted them with it; both are still read. The
 * previous secret, which still counts while a secret is being replaced, is stored in the same way.
 */
#ifndef DF_WEBHOOKS_SECRET_H
#define DF_WEBHOOKS_SECRET_H

#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/secret.h"
#include "keys/keys.h"

#define DF_WEBHOOK_SECRET_MAX 128 /* what column Secret holds */

struct df_webhook_secret {
    char text[DF_WEBHOOK_SECRET_MAX + 1]; /* df_wipe() it after use */
};

/* "whsec_" and 32 random bytes in base64: what Standard Webhooks asks for. */
void df_webhook_secret_make(const struct df_clock *clock, struct df_webhook_secret *ret);
/* Checks a secret that the caller chose; err says what is wrong. */
enum df_code df_webhook_secret_check(struct df_str secret, struct df_err *err) DF_MUST_CHECK;

/* The value of SecretEncrypted, in the arena. subscription: its id, 36 characters. */
struct df_str df_webhook_secret_seal(struct df_keys *keys, struct df_str subscription,
                                     struct df_str secret, struct df_arena *a);

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
 * DF_E_CONFIG: the secret's key is not known here. A previous secret that cannot be opened does not
 * count.
 */
enum df_code df_webhook_secret_open(struct df_keys *keys, struct df_str subscription,
                                    const struct df_webhook_secret_columns *columns, int64_t now_ms,
                                    struct df_arena *a, struct df_str *ret,
                                    struct df_str *ret_previous, struct df_err *err) DF_MUST_CHECK;

#endif
