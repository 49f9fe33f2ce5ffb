/*
 * Masters whose key is in this process's memory. A data key is wrapped by XChaCha20-Poly1305 under
 * a key derived from the master, with the row's label as associated data: one byte for the version,
 * a nonce of 24 bytes, 32 bytes and the tag of 16.
 */
#include "keys/master.h"

#include "base/mem.h"
#include "base/owner.h"
#include "keys/vault.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FILE_NAME   "master.key"
#define TEXT_MAX    256 /* of a file with a key */
#define VERSION     1
#define NONCE_BYTES crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_BYTES   crypto_aead_xchacha20poly1305_ietf_ABYTES
#define HEAD_BYTES  (1 + NONCE_BYTES)
#define WRAPPED     (HEAD_BYTES + DF_KEY_BYTES + TAG_BYTES)
#define KDF_CONTEXT "dfmaster" /* crypto_kdf_CONTEXTBYTES */

enum { SUBKEY_WRAP = 1, SUBKEY_ID = 2 };

struct given_master {
    struct df_master base;
    const struct df_clock *clock;
    struct df_secret *key;
};

/* --- wrapping --- */

static void derive_subkey(const struct given_master *g, uint64_t which, unsigned char *out,
                          size_t len)
{
    const unsigned char *key = (const unsigned char *)df_secret_str(g->key).ptr;

    (void)crypto_kdf_derive_from_key(out, len, which, KDF_CONTEXT, key);
}

static enum df_code wrap_given(struct df_master *m, struct df_str label,
                               const unsigned char key[DF_KEY_BYTES], struct df_buf *out,
                               struct df_err *err)
{
    const struct given_master *g = (const struct given_master *)m;
    unsigned char wrapped[WRAPPED], subkey[DF_KEY_BYTES];
    unsigned long long len = 0;

    (void)err;
    wrapped[0] = VERSION;
    df_random(g->clock, wrapped + 1, NONCE_BYTES);
    derive_subkey(g, SUBKEY_WRAP, subkey, sizeof subkey);
    (void)crypto_aead_xchacha20poly1305_ietf_encrypt(wrapped + HEAD_BYTES, &len, key, DF_KEY_BYTES,
                                                     (const unsigned char *)label.ptr, label.len,
                                                     NULL, wrapped + 1, subkey);
    df_wipe(subkey, sizeof subkey);
    df_buf_add(out, wrapped, sizeof wrapped);
    return DF_OK;
}

static enum df_code unwrap_given(struct df_master *m, struct df_str label, struct df_str wrapped,
                                 unsigned char key[DF_KEY_BYTES], struct df_err *err)
{
    const struct given_master *g = (const struct given_master *)m;
    const unsigned char *b = (const unsigned char *)wrapped.ptr;
    unsigned char subkey[DF_KEY_BYTES];
    unsigned long long len = 0;
    int bad = -1;

    if (wrapped.len == WRAPPED && b[0] == VERSION) {
        derive_subkey(g, SUBKEY_WRAP, subkey, sizeof subkey);
        bad = crypto_aead_xchacha20poly1305_ietf_decrypt(
            key, &len, NULL, b + HEAD_BYTES, wrapped.len - HEAD_BYTES,
            (const unsigned char *)label.ptr, label.len, b + 1, subkey);
        df_wipe(subkey, sizeof subkey);
    }
    if (bad)
        return df_err_set(err, DF_E_CONFIG, "its wrapped bytes in DataKeys were changed");
    return DF_OK;
}

static void free_given(struct df_master *m)
{
    df_secret_free(((struct given_master *)m)->key);
    free(m);
}

static const struct df_master_ops given_ops = {
    .wrap = wrap_given, .unwrap = unwrap_given, .free = free_given};

enum df_code df_master_given(const struct df_clock *clock, struct df_str text, const char *place,
                             struct df_master **ret, struct df_err *err)
{
    struct df_secret *key = df_secret_key_new(text);
    unsigned char id[16];

    if (!key)
        return df_err_set(err, DF_E_CONFIG,
                          "%s holds no key of 32 bytes as 64 hexadecimal digits or in base64",
                          place);
    struct given_master *g = df_calloc(1, sizeof *g);
    *g = (struct given_master){
        .base = {.ops = &given_ops, .given = key}, .clock = clock, .key = key};
    derive_subkey(g, SUBKEY_ID, id, sizeof id);
    memcpy(g->base.id, "key:", sizeof "key:");
    (void)sodium_bin2hex(g->base.id + 4, sizeof g->base.id - 4, id, sizeof id);
    (void)snprintf(g->base.place, sizeof g->base.place, "%s", place);
    *ret = &g->base;
    return DF_OK;
}

void df_master_free(struct df_master *m)
{
    if (m)
        m->ops->free(m);
}

/* --- files --- */

/* Reads a key's file. errno is ENOENT if there is none. */
static enum df_code read_key_file(int at_fd, const char *name, const char *path,
                                  char text[TEXT_MAX], size_t *ret_len, struct df_err *err)
{
    int fd = openat(at_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, text, TEXT_MAX);
    int saved = errno;

    if (fd >= 0)
        (void)close(fd);
    errno = saved;
    if (n < 0)
        return df_err_errno(err, "cannot read %s", path);
    while (n > 0 && strchr(" \t\r\n", text[n - 1]))
        n--;
    *ret_len = (size_t)n;
    return DF_OK;
}

static enum df_code open_file(const struct df_clock *clock, int at_fd, const char *name,
                              const char *path, const char *place, struct df_master **ret,
                              struct df_err *err)
{
    char text[TEXT_MAX];
    size_t len = 0;
    enum df_code code = read_key_file(at_fd, name, path, text, &len, err);

    if (code == DF_OK)
        code = df_master_given(clock, df_str_n(text, len), place, ret, err);
    df_wipe(text, sizeof text);
    return code;
}

/* A name without a slash: it can't lead out of the directory. */
static bool credential_ok(struct df_str name)
{
    return name.len > 0 && name.len < 128 && name.ptr[0] != '.' && !memchr(name.ptr, '/', name.len);
}

static enum df_code open_credential(const struct df_master_options *opt, struct df_str name,
                                    struct df_master **ret, struct df_err *err)
{
    const char *directory = getenv("CREDENTIALS_DIRECTORY"); /* NOLINT(concurrency-mt-unsafe) */
    char path[4096], place[DF_MASTER_ID_MAX];

    if (!directory || !*directory)
        return df_err_set(err, DF_E_CONFIG,
                          "security.master_key names a systemd credential, and "
                          "CREDENTIALS_DIRECTORY is not set (LoadCredential= in the unit)");
    (void)snprintf(path, sizeof path, "%s/" DF_STR_FMT, directory, DF_STR_ARG(name));
    (void)snprintf(place, sizeof place, "credential:" DF_STR_FMT, DF_STR_ARG(name));
    enum df_code code = open_file(opt->clock, AT_FDCWD, path, path, place, ret, err);
    return code == DF_OK ? code : df_err_set(err, DF_E_CONFIG, "%s", err->detail);
}

/* Writes a new key under a name of its own, then links it to the one that counts: no process ever
 * reads half a key, and the first one wins. */
static enum df_code make_own(const struct df_master_options *opt, int dir_fd, struct df_err *err)
{
    unsigned char key[DF_KEY_BYTES];
    char text[2 * DF_KEY_BYTES + 2], name[64];
    enum df_code code = DF_OK;

    df_random(opt->clock, key, sizeof key);
    (void)sodium_bin2hex(text, sizeof text, key, sizeof key);
    (void)snprintf(name, sizeof name, "." FILE_NAME ".%.12s", text + 40);
    df_random(opt->clock, key, sizeof key);
    (void)sodium_bin2hex(text, sizeof text, key, sizeof key);
    text[sizeof text - 2] = '\n';
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || write(fd, text, sizeof text - 1) != (ssize_t)sizeof text - 1 || fsync(fd) != 0)
        code = df_err_errno(err, "cannot write %s/" FILE_NAME, opt->data_dir);
    if (code == DF_OK)
        code = df_owner_give(fd, dir_fd, err);
    if (code == DF_OK && linkat(dir_fd, name, dir_fd, FILE_NAME, 0) != 0 && errno != EEXIST)
        code = df_err_errno(err, "cannot make %s/" FILE_NAME, opt->data_dir);
    if (fd >= 0) {
        (void)close(fd);
        (void)unlinkat(dir_fd, name, 0);
    }
    if (code == DF_OK && fsync(dir_fd) != 0)
        code = df_err_errno(err, "cannot write %s", opt->data_dir);
    df_wipe(key, sizeof key);
    df_wipe(text, sizeof text);
    return code;
}

enum df_code df_master_own(const struct df_master_options *opt, bool make, struct df_master **ret,
                           struct df_err *err)
{
    char path[4096];
    enum df_code code = DF_OK;
    int dir_fd = open(opt->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    *ret = NULL;
    if (dir_fd < 0)
        return df_err_errno(err, "cannot open the data directory %s", opt->data_dir);
    (void)snprintf(path, sizeof path, "%s/" FILE_NAME, opt->data_dir);
    bool there = faccessat(dir_fd, FILE_NAME, F_OK, 0) == 0;
    if (!there && make)
        code = make_own(opt, dir_fd, err);
    if (code == DF_OK && (there || make))
        code = open_file(opt->clock, dir_fd, FILE_NAME, path, "data_dir/" FILE_NAME, ret, err);
    (void)close(dir_fd);
    return code;
}

/* --- by the setting's value --- */

static const struct opener {
    const char *prefix;
    bool (*valid)(struct df_str rest);
    enum df_code (*open)(const struct df_master_options *opt, struct df_str rest,
                         struct df_master **ret, struct df_err *err);
} openers[] = {
    {"credential:", credential_ok, open_credential},
};

/* The opener of a value that begins with its prefix, which is cut off; NULL: none. */
static const struct opener *find_opener(struct df_str *value)
{
    for (size_t i = 0; i < sizeof openers / sizeof openers[0]; i++) {
        struct df_str prefix = df_str_c(openers[i].prefix);
        if (df_str_starts(*value, prefix)) {
            *value = df_str_n(value->ptr + prefix.len, value->len - prefix.len);
            return &openers[i];
        }
    }
    return NULL;
}

bool df_master_is_valid(struct df_str value)
{
    const struct opener *o = find_opener(&value);

    if (o)
        return o->valid(value);
    if (df_is_vault_place(value))
        return df_vault_is_valid(value);
    struct df_secret *key = df_secret_key_new(value);
    bool valid = key != NULL;
    df_secret_free(key);
    return valid;
}

enum df_code df_master_open(const struct df_master_options *opt, struct df_str value,
                            const char *setting, struct df_master **ret, struct df_err *err)
{
    const struct opener *o = find_opener(&value);

    if (df_is_vault_place(value))
        return df_is_azure_place(value) ? df_azure_open(opt, value, ret, err)
                                        : df_vault_open(opt, value, ret, err);
    return o ? o->open(opt, value, ret, err)
             : df_master_given(opt->clock, value, setting, ret, err);
}
