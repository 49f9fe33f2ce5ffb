#include "locks/settings.h"

#include "base/secret.h"
#include "locks/redis_url.h"

static const char *const provider_names[] = {
    [DF_LOCKS_SQL] = "sql", [DF_LOCKS_REDIS] = "redis", NULL};

#define S struct df_locks_settings

/* clang-format off */
const struct df_config_key df_lock_keys[] = {
    DF_KEY_ENUM("lock", S, provider, "sql", provider_names, "Where the locks of batches are: in the database, or in Redis. All processes that import use the same one."),
    DF_KEY_INT_IN(DF_SECONDS, "lease_seconds", S, lease_ms, "30", 1, 60, "A lock that its owner has not extended for this long is free. It is extended every third of it."),
    {.key = NULL},
};

const struct df_config_key df_redis_keys[] = {
    DF_KEY_SECRET("urls", S, redis_urls, "1, 3 or 5 independent servers for imports.lock = redis, separated by commas: redis://[user:password@]host[:port][/database], or rediss:// for TLS."),
    DF_KEY_STRING("prefix", S, redis_prefix, "dataflow", "What the names of all keys begin with."),
    DF_KEY_INT("timeout_ms", S, redis_timeout_ms, "200", 10, 10000, "How long one server's answer is waited for."),
    {.key = NULL},
};
/* clang-format on */

size_t df_locks_servers(const struct df_locks_settings *s)
{
    struct redis_url url;
    size_t n = 0;

    while (s->provider == DF_LOCKS_REDIS && n <= LOCK_SERVERS_MAX &&
           redis_url_nth(s->redis_urls, n, &url, NULL) != DF_DONE)
        n++;
    return n;
}

/* Two names of one server would vote twice. */
static bool is_named_twice(const struct df_locks_settings *s, size_t nth,
                           const struct redis_url *url)
{
    struct redis_url other;

    for (size_t i = 0; i < nth; i++)
        if (redis_url_nth(s->redis_urls, i, &other, NULL) == DF_OK &&
            strcmp(other.address, url->address) == 0)
            return true;
    return false;
}

void df_locks_check_settings(const struct df_locks_settings *s, struct df_buf *complaints)
{
    struct redis_url url;
    struct df_err err = DF_ERR_INIT;

    if (s->provider != DF_LOCKS_REDIS)
        return;
    size_t count = df_locks_servers(s);
    if (count != 1 && count != 3 && count != 5)
        df_buf_addz(complaints,
                    "[redis] urls: imports.lock is redis, which needs 1, 3 or 5 servers\n");
    for (size_t i = 0; i < count && i < LOCK_SERVERS_MAX; i++) {
        if (redis_url_nth(s->redis_urls, i, &url, &err) != DF_OK)
            df_buf_addf(complaints, "[redis] urls: number %zu: %s\n", i + 1, err.detail);
        else if (is_named_twice(s, i, &url))
            df_buf_addf(complaints, "[redis] urls: %s is named twice\n", url.address);
        redis_url_wipe(&url);
    }
    if (s->redis_timeout_ms * 3 > s->lease_ms)
        df_buf_addz(complaints,
                    "[redis] timeout_ms: must be at most a third of imports.lease_seconds\n");
}

void df_locks_check_tls(const struct df_locks_settings *s, struct df_buf *complaints)
{
    struct redis_url url;

    for (size_t i = 0; i < df_locks_servers(s); i++) {
        if (redis_url_nth(s->redis_urls, i, &url, NULL) == DF_OK && !url.tls && !url.loopback)
            df_buf_addf(complaints,
                        "[server] require_tls: redis.urls: %s is a redis:// URL: write rediss://\n",
                        url.address);
        redis_url_wipe(&url);
    }
}
