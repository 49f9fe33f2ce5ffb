#include "ship/settings.h"

#include "net/url.h"
#include "ship/target.h"

#define S struct df_ship_settings

/* clang-format off */
const struct df_config_key df_ship_keys[] = {
    DF_KEY_OPTIONAL_URL("ship", S, url, "Also sends the log to loki://, elastic:// or otlp://[user:password@]host[:port][/path]; lokis://, elastics:// and otlps:// are the same over TLS. Not set: only to standard error."),
    DF_KEY_SECRET("ship_token", S, token, "Sent as a bearer token, to Elasticsearch as an API key."),
    DF_KEY_OPTIONAL("ship_labels", S, labels, "Constant labels of every line that is sent: name=value, separated by commas, at most 8."),
    DF_KEY_INT("ship_batch_bytes", S, batch_bytes, "1048576", 16384, 8 * DF_MIB, "Most bytes of lines in one call, before encoding and compression."),
    DF_KEY_INT("ship_interval_ms", S, interval_ms, "1000", 10, 60000, "How long a line may wait for others to be sent together."),
    DF_KEY_INT("ship_timeout_ms", S, timeout_ms, "30000", 100, 600000, "How long one call may take."),
    DF_KEY_INT("spool_max_bytes", S, spool_max_bytes, "268435456", DF_MIB, DF_MIB * 1024 * 1024, "Most bytes on the disk of lines that were not sent yet; beyond it the oldest are dropped."),
    DF_KEY_INT_IN(DF_HOURS, "spool_max_hours", S, spool_max_ms, "72", 1, 8760, "Lines that could not be sent for so long are dropped."),
    {.key = NULL},
};
/* clang-format on */

void df_ship_check_settings(const struct df_ship_settings *s, struct df_buf *complaints)
{
    struct df_ship_target *t = NULL;
    struct df_err err = DF_ERR_INIT;

    if (!s->url) {
        if (s->token)
            df_buf_addz(complaints, "[log] ship_token: is for log.ship, which is not set\n");
        return;
    }
    if (df_ship_target_new(s, &t, &err) != DF_OK)
        df_buf_addf(complaints, "[log] %s\n", err.detail);
    df_ship_target_free(t);
}

void df_ship_check_tls(const struct df_ship_settings *s, struct df_buf *complaints)
{
    struct df_ship_target *t = NULL;
    struct df_url u;

    if (!s->url || df_ship_target_new(s, &t, NULL) != DF_OK)
        return;
    if (df_url_parse(df_str_c(t->url), &u, NULL) == DF_OK && !u.tls && !df_host_is_loopback(u.host))
        df_buf_addf(complaints, "[server] require_tls: log.ship is a %s:// URL: write %ss://\n",
                    t->protocol->scheme, t->protocol->scheme);
    df_ship_target_free(t);
}
