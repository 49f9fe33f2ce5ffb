/*
 * The master key. It wraps the data keys, which the table DataKeys holds, and nothing else. It is
 * one of these:
 *
 * - a key of 32 bytes that is given: security.master_key, its _file, the environment;
 * - credential:NAME, the same in a file of $CREDENTIALS_DIRECTORY (systemd);
 * - data_dir/master.key, which a host makes for itself when nothing is configured;
 * - a key that stays in a vault, which wraps and unwraps by HTTP.
 *
 * A master is made at start; any thread may use it. Wrapping and unwrapping may take the time of an
 * HTTP request: never under a lock or in a transaction.
 */
#ifndef DF_KEYS_MASTER_H
#define DF_KEYS_MASTER_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/secret.h"
#include "keys/keys.h"
#include "keys/settings.h"

#define DF_MASTER_ID_MAX 200  /* of DataKeys.MasterId, in bytes */
#define DF_WRAPPED_MAX   2048 /* of DataKeys.WrappedKey */

struct df_master;

struct df_master_ops {
    /* Appends the wrapped key. The label names the row ("data:1"): a master that can bind the
     * wrapped key to it does so. */
    enum df_code (*wrap)(struct df_master *m, struct df_str label,
                         const unsigned char key[DF_KEY_BYTES], struct df_buf *out,
                         struct df_err *err);
    /* DF_E_CONFIG: these bytes were not wrapped by this master, or were changed. DF_E_UNAVAILABLE
     * or an error of the network: try again later. */
    enum df_code (*unwrap)(struct df_master *m, struct df_str label, struct df_str wrapped,
                           unsigned char key[DF_KEY_BYTES], struct df_err *err);
    /* The version of the master in wrapped bytes; borrowed. NULL: it has none. */
    struct df_str (*version)(struct df_str wrapped);
    /* Called every few seconds: keeps what the master needs to go on (a vault's token). Mostly
     * does nothing. NULL: it needs nothing. */
    void (*tend)(struct df_master *m);
    void (*free)(struct df_master *m);
};

/* The first member of each implementation's struct. */
struct df_master {
    const struct df_master_ops *ops;
    /* Two masters with one id open the same. A fingerprint, or the vault's address and the key's
     * name. Its version is no part of the id: it stands in the wrapped bytes. */
    char id[DF_MASTER_ID_MAX + 1];
    /* Where it is, for people: "security.master_key", "data_dir/master.key", "vault://…". Without
     * secrets. */
    char place[DF_MASTER_ID_MAX + 1];
    /* The key itself; NULL: it never leaves the vault. Older releases encrypted webhook secrets
     * with it. */
    const struct df_secret *given;
};

struct df_master_options {
    const struct df_keys_settings *settings;
    const char *data_dir;
    const struct df_clock *clock;
    bool look_only; /* nothing is made or changed */
    /* Keys are moved to a master that was configured anew. A command moves none: its configuration
     * may be another than the servers'. */
    bool for_server;
    /* Asked while a vault is slow: true ends the call with DF_E_CANCELLED. May be NULL. */
    bool (*stopped)(void);
};

/* Whether a value of security.master_key has a form that df_master_open takes. Opens nothing. */
bool df_master_is_valid(struct df_str value);
/* Opens the master that the value names. `setting` is its name, for errors ("security.master_key").
 * DF_E_CONFIG: it can't be. Another error: the vault is away, and the caller may try again. */
enum df_code df_master_open(const struct df_master_options *opt, struct df_str value,
                            const char *setting, struct df_master **ret,
                            struct df_err *err) DF_MUST_CHECK;
/* Reads data_dir/master.key. *ret is NULL if there is no such file, unless `make`: then it is made,
 * by the first process that asks. */
enum df_code df_master_own(const struct df_master_options *opt, bool make, struct df_master **ret,
                           struct df_err *err) DF_MUST_CHECK;
/* A master of a key that is known: as text (64 hexadecimal digits, or base64). DF_E_CONFIG: it is
 * none. */
enum df_code df_master_given(const struct df_clock *clock, struct df_str text, const char *place,
                             struct df_master **ret, struct df_err *err) DF_MUST_CHECK;
void df_master_free(struct df_master *m); /* NULL is fine */

#endif
