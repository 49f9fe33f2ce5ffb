#include "access/auth.h"

#define ADMIN_KEY_LEAST 12 /* a shorter key is refused if other machines can call */

#define S               struct df_auth_settings

/* clang-format off */
const struct df_config_key df_admin_keys[] = {
    DF_KEY_SECRET("key", S, admin_key, "The value of X-Admin-Key, with the role admin; without a key here or in [admin.NAME] /admin answers 404. Use at least 24 characters; under 12 it is refused, unless server.listen is loopback."),
    {.key = NULL},
};

static const char *const role_names[] = {DF_NEEDS_READ, DF_NEEDS_OPERATE, DF_NEEDS_ADMIN, NULL};

static const struct df_config_key admin_group_keys[] = {
    DF_KEY_SECRET("key", struct df_admin, key, "Another value of X-Admin-Key. The audit log calls its owner admin:NAME."),
    DF_KEY_ENUM("role", struct df_admin, role, "admin", role_names, "What the key may do: read sees everything; operate also retries, replays, pauses, cancels and the like; admin may do everything."),
    {.key = NULL},
};

const struct df_config_key df_auth_keys[] = {
    DF_KEY_INT("failures_per_minute", S, failures_per_minute, "60", 1, 100000, "Failed logins of one client id from one address (IPv6: its /64) before it gets 429; of all ids together ten times as many. A secret that was right from there in the last day always passes."),
    DF_KEY_INT("hash_threads", S, hash_threads, "1", 1, 16, "Password hashes computed in parallel; each takes 19 MiB."),
    {.key = NULL},
};
/* clang-format on */

const struct df_config_group df_admin_group = {
    .prefix = "admin",
    .keys = admin_group_keys,
    .size = sizeof(struct df_admin),
    .name_offset = offsetof(struct df_admin, name),
    .help = "A key for the paths under /admin, with a name and a role.",
    .example = "[admin.maria]\n"
               "key = a-long-and-random-text\n"
               "role = operate\n",
};

const char *df_admin_role_name(int role)
{
    return role_names[role];
}

bool df_auth_has_admin(const struct df_auth_settings *s)
{
    return s->admin_key || s->admin_count > 0;
}

static void name_key(const char *name, struct df_buf *out)
{
    if (name)
        df_buf_addf(out, "[admin.%s] key: ", name);
    else
        df_buf_addz(out, "[admin] key: ");
}

static void check_length(const char *name, const struct df_secret *key, struct df_buf *complaints)
{
    if (!key || df_secret_str(key).len >= ADMIN_KEY_LEAST)
        return;
    name_key(name, complaints);
    df_buf_addf(complaints,
                "has fewer than %d characters, and server.listen is not loopback: it would be "
                "guessed (openssl rand -base64 32)\n",
                ADMIN_KEY_LEAST);
}

/* Two names for one key would make the audit log say nothing. */
static void check_distinct(const struct df_auth_settings *s, size_t at, struct df_buf *complaints)
{
    struct df_str key = df_secret_str(s->admins[at].key);
    bool same = df_secret_matches(s->admin_key, key);

    for (size_t i = 0; i < at; i++)
        same |= df_secret_matches(s->admins[i].key, key);
    if (same)
        df_buf_addf(complaints, "[admin.%s] key: another section has the same key\n",
                    s->admins[at].name);
}

void df_auth_check_settings(const struct df_auth_settings *s, bool loopback,
                            struct df_buf *complaints)
{
    if (!loopback)
        check_length(NULL, s->admin_key, complaints);
    for (size_t i = 0; i < s->admin_count; i++) {
        const struct df_admin *a = &s->admins[i];
        if (!a->key || df_secret_str(a->key).len == 0)
            df_buf_addf(complaints, "[admin.%s] key: is not set\n", a->name);
        if (!loopback)
            check_length(a->name, a->key, complaints);
        check_distinct(s, i, complaints);
    }
}

static void warn_of_length(const char *name, const struct df_secret *key, struct df_buf *warnings)
{
    if (!key || df_secret_str(key).len >= DF_ADMIN_KEY_STRONG)
        return;
    name_key(name, warnings);
    df_buf_addf(warnings,
                "has fewer than %d characters and might be guessed (openssl rand -base64 32)\n",
                DF_ADMIN_KEY_STRONG);
}

void df_auth_warn_settings(const struct df_auth_settings *s, struct df_buf *warnings)
{
    warn_of_length(NULL, s->admin_key, warnings);
    for (size_t i = 0; i < s->admin_count; i++)
        warn_of_length(s->admins[i].name, s->admins[i].key, warnings);
}
