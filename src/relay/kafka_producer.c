#include "relay/kafka_producer.h"

#include "base/log.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define TOPIC_MAX       249
#define PROPAGATION_MAX 30000

static bool has_only(struct df_str s, const char *others)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        bool alnum = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
        if (!alnum && (c == '\0' || !strchr(others, c)))
            return false;
    }
    return true;
}

bool df_kafka_topic_valid(struct df_str name)
{
    return name.len > 0 && name.len <= TOPIC_MAX && has_only(name, "._-") &&
           !df_str_eq(name, DF_STR(".")) && !df_str_eq(name, DF_STR(".."));
}

/* --- the target --- */

static enum df_code refuse_target(struct df_err *err, const char *why)
{
    return df_err_set(err, DF_E_CONFIG,
                      "target: must be kafka://host:port,host:port/topic, or host:port,host:port "
                      "with the key topic: %s",
                      why);
}

static enum df_code check_servers(struct df_str servers, struct df_err *err)
{
    if (servers.len == 0)
        return refuse_target(err, "no server is named");
    if (memchr(servers.ptr, '@', servers.len))
        return refuse_target(err,
                             "user and password belong into the key properties, as sasl.username "
                             "and sasl.password");
    for (struct df_str rest = servers; rest.ptr;) {
        struct df_str server;
        rest = df_str_cut(rest, ',', &server);
        server = df_str_trim(server);
        if (server.len == 0 || !has_only(server, ".-_:[]"))
            return refuse_target(err, "a server is not host:port");
    }
    return DF_OK;
}

enum df_code df_kafka_target_init(struct df_kafka_target *t, const struct df_sink_options *opt,
                                  struct df_err *err)
{
    struct df_str servers = df_str_c(opt->target ? opt->target : "");
    struct df_str topic = df_str_c(opt->topic ? opt->topic : "");
    struct df_str path = DF_STR_NULL;

    if (df_str_starts(servers, DF_STR("kafka://"))) {
        servers = df_str_n(servers.ptr + strlen("kafka://"), servers.len - strlen("kafka://"));
        path = df_str_cut(servers, '/', &servers);
    }
    enum df_code code = check_servers(servers, err);
    if (code != DF_OK)
        return code;
    if (path.len > 0 && topic.len > 0 && !df_str_eq(path, topic))
        return refuse_target(err, "the target and the key topic name two topics");
    if (topic.len == 0)
        topic = path.len > 0 ? path : DF_STR("{eventType}");
    /* The text around the names must be valid in a topic. */
    if (!has_only(topic, "._-{}"))
        return refuse_target(err, "a topic has letters, digits, '.', '_' and '-'");
    *t = (struct df_kafka_target){.servers = df_strdup(servers), .topic = df_strdup(topic)};
    code = df_event_check_pattern(t->topic, "topic", err);
    if (code != DF_OK)
        df_kafka_target_release(t);
    return code;
}

void df_kafka_target_release(struct df_kafka_target *t)
{
    free(t->servers);
    free(t->topic);
    *t = (struct df_kafka_target){0};
}

/* --- options of librdkafka --- */

/* Options that would break the promise that a confirmed event is stored, or that have a setting of
 * their own. */
static const struct {
    const char *name;
    const char *why;
} reserved[] = {
    {"bootstrap.servers", "the key target names the servers"},
    {"metadata.broker.list", "the key target names the servers"},
    {"enable.idempotence", "it is always on"},
    {"acks", "it is always all"},
    {"request.required.acks", "it is always all"},
    {"transactional.id", "events are not sent in transactions of Kafka's"},
    {"delivery.timeout.ms", "the key timeout_ms is the limit"},
    {"message.timeout.ms", "the key timeout_ms is the limit"},
    {"delivery.report.only.error", "without reports nothing would count as delivered"},
    {"log.queue", "the log is taken care of"},
};

static enum df_code set_option(rd_kafka_conf_t *conf, const char *name, const char *value,
                               struct df_err *err)
{
    char why[300];

    switch (rd_kafka_conf_set(conf, name, value, why, sizeof(why))) {
    case RD_KAFKA_CONF_OK:
        return DF_OK;
    case RD_KAFKA_CONF_UNKNOWN:
        return df_err_set(err, DF_E_CONFIG, "properties: librdkafka knows no '%s'", name);
    case RD_KAFKA_CONF_INVALID:
        break;
    }
    return df_err_set(err, DF_E_CONFIG, "properties: %s: %s", name, why);
}

static enum df_code set_property(rd_kafka_conf_t *conf, struct df_arena *a, struct df_str pair,
                                 struct df_err *err)
{
    struct df_str name;
    struct df_str value = df_str_cut(pair, '=', &name);
    name = df_str_trim(name);

    if (name.len == 0 && !value.ptr)
        return DF_OK; /* the text behind the last semicolon is empty */
    if (name.len == 0 || !value.ptr)
        return df_err_set(err, DF_E_CONFIG, "properties: must be name=value;name=value");
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
        if (df_str_eq(name, df_str_c(reserved[i].name)))
            return df_err_set(err, DF_E_CONFIG, "properties: %s cannot be set: %s",
                              reserved[i].name, reserved[i].why);
    return set_option(conf, df_arena_cstr(a, name), df_arena_cstr(a, df_str_trim(value)), err);
}

static enum df_code set_properties(rd_kafka_conf_t *conf, const char *properties,
                                   struct df_err *err)
{
    struct df_arena a = {0};
    enum df_code code = DF_OK;

    for (struct df_str rest = df_str_c(properties); code == DF_OK && rest.ptr;) {
        struct df_str pair;
        rest = df_str_cut(rest, ';', &pair);
        code = set_property(conf, &a, pair, err);
    }
    df_arena_release(&a);
    return code;
}

static enum df_code set_options(rd_kafka_conf_t *conf, const struct df_sink_options *opt,
                                const char *servers, struct df_err *err)
{
    char timeout[24];
    char propagation[24];
    int64_t half = opt->timeout_ms / 2;
    (void)snprintf(timeout, sizeof(timeout), "%" PRId64, opt->timeout_ms);
    (void)snprintf(propagation, sizeof(propagation), "%" PRId64,
                   half < PROPAGATION_MAX ? half : PROPAGATION_MAX);
    const struct {
        const char *name;
        const char *value;
    } defaults[] =
        {
            {"client.id", "dataflow"},
            /* The same partition for a key as the Java clients choose. */
            {"partitioner", "murmur2_random"},
            /* Notices soon that a broker is back. */
            {"reconnect.backoff.max.ms", "1000"},
            /* Reports a missing topic before the events' time is up. */
            {"topic.metadata.propagation.max.ms", propagation},
            /* Finds a topic that was created meanwhile without waiting for minutes. */
            {"topic.metadata.refresh.interval.ms", "10000"},
        },
      fixed[] = {
          {"enable.idempotence", "true"},
          {"acks", "all"},
          {"delivery.timeout.ms", timeout},
      };
    enum df_code code = DF_OK;

    for (size_t i = 0; code == DF_OK && i < sizeof(defaults) / sizeof(defaults[0]); i++)
        code = set_option(conf, defaults[i].name, defaults[i].value, err);
    if (code == DF_OK)
        code = set_properties(conf, opt->properties, err);
    for (size_t i = 0; code == DF_OK && i < sizeof(fixed) / sizeof(fixed[0]); i++)
        code = set_option(conf, fixed[i].name, fixed[i].value, err);
    if (code == DF_OK && servers)
        code = set_option(conf, "bootstrap.servers", servers, err);
    return code;
}

/* --- the producer --- */

/* Called on any thread of librdkafka. Levels are syslog's. The library recovers from what it calls
 * errors; the events' outcomes tell whether they suffer. */
static void log_from_library(const rd_kafka_t *rk, int level, const char *facility,
                             const char *text)
{
    enum df_log_level ours = level <= 4 ? DF_LOG_WARN : level <= 6 ? DF_LOG_INFO : DF_LOG_DEBUG;
    const struct df_log_field fields[] = {DF_F("client", df_str_c(rk ? rd_kafka_name(rk) : NULL)),
                                          DF_F("facility", df_str_c(facility))};

    df_log_write(ours, "KafkaClient", fields, 2, "%s", text);
}

enum df_code df_kafka_producer_new(const struct df_sink_options *opt, const char *servers,
                                   const struct df_kafka_callbacks *callbacks, rd_kafka_t **ret,
                                   struct df_err *err)
{
    char why[300] = "";
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    enum df_code code = set_options(conf, opt, servers, err);
    rd_kafka_t *rk = NULL;

    if (code == DF_OK) {
        rd_kafka_conf_set_log_cb(conf, callbacks ? log_from_library : NULL);
        if (callbacks) {
            rd_kafka_conf_set_opaque(conf, callbacks->opaque);
            rd_kafka_conf_set_dr_msg_cb(conf, callbacks->report);
            rd_kafka_conf_set_error_cb(conf, callbacks->problem);
        }
        rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
        if (!rk)
            code = df_err_set(err, DF_E_CONFIG, "properties: %s", why);
    }
    if (!rk)
        rd_kafka_conf_destroy(conf);
    else
        *ret = rk;
    return code;
}
