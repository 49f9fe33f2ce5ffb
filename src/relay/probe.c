#include "relay/probe.h"

#include "base/clock.h"
#include "net/url.h"
#include "relay/kafka_producer.h"
#include "relay/rabbitmq_link.h"
#include "relay/relay.h"

static bool goes_to(const struct df_relay_settings *s, const struct df_dispatcher *d)
{
    return df_dispatchers[s->dispatcher] == d;
}

bool df_relay_has_broker(const struct df_relay_settings *s)
{
    return goes_to(s, &df_dispatch_rabbitmq) || goes_to(s, &df_dispatch_kafka);
}

static enum df_code probe_rabbitmq(const struct df_sink_options *opt, int64_t timeout_ms,
                                   struct df_err *err)
{
    struct df_rabbit_link link;
    enum df_code code = df_rabbit_link_init(&link, opt, err);
    if (code != DF_OK)
        return code;
    code = df_rabbit_link_up(&link, df_mono_ms(opt->clock) + timeout_ms, err);
    df_rabbit_link_release(&link);
    return code;
}

static enum df_code probe_kafka(const struct df_sink_options *opt, int64_t timeout_ms,
                                struct df_err *err)
{
    const struct rd_kafka_metadata *found = NULL;
    struct df_kafka_target target;
    rd_kafka_t *rk = NULL;
    enum df_code code = df_kafka_target_init(&target, opt, err);
    if (code != DF_OK)
        return code;
    code = df_kafka_producer_new(opt, target.servers, NULL, &rk, err);
    if (code == DF_OK) {
        rd_kafka_resp_err_t said = rd_kafka_metadata(rk, 0, NULL, &found, (int)timeout_ms);
        if (said != RD_KAFKA_RESP_ERR_NO_ERROR)
            code = df_err_set(err, DF_E_NET, "%s", rd_kafka_err2str(said));
        else
            rd_kafka_metadata_destroy(found);
        rd_kafka_destroy(rk);
    }
    df_kafka_target_release(&target);
    return code;
}

enum df_code df_relay_probe(const struct df_relay_settings *s, int64_t timeout_ms,
                            struct df_err *err)
{
    struct df_sink_options opt = {0};
    df_relay_sink_options(s, &opt);
    opt.clock = df_clock_real();
    if (goes_to(s, &df_dispatch_rabbitmq))
        return probe_rabbitmq(&opt, timeout_ms, err);
    if (goes_to(s, &df_dispatch_kafka))
        return probe_kafka(&opt, timeout_ms, err);
    return DF_OK;
}

static bool is_clear_url(const char *target)
{
    struct df_url u;
    return df_url_parse(df_str_c(target), &u, NULL) == DF_OK && !u.tls &&
           !df_host_is_loopback(u.host);
}

static bool is_clear_rabbitmq(const struct df_sink_options *opt)
{
    struct df_rabbit_link link;
    if (df_rabbit_link_init(&link, opt, NULL) != DF_OK)
        return false;
    bool clear = !link.info.ssl && !df_host_is_loopback(df_str_c(link.info.host));
    df_rabbit_link_release(&link);
    return clear;
}

const char *df_relay_risk(const struct df_relay_settings *s)
{
    struct df_sink_options opt;

    df_relay_sink_options(s, &opt);
    if (goes_to(s, &df_dispatch_http) && is_clear_url(s->target))
        return "is an http:// URL: write https://";
    if (goes_to(s, &df_dispatch_rabbitmq) && is_clear_rabbitmq(&opt))
        return "is an amqp:// URL: write amqps://";
    return goes_to(s, &df_dispatch_kafka) ? df_kafka_risk(&opt) : NULL;
}
