#include "relay/kafka_producer.h"

#include "base/log.h"
#include "base/mem.h"
#include "net/security.h"

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
    {"group.id", "it is always dataflow"},
    {"enable.auto.commit", "a message is acknowledged once it was tried"},
    {"auto.offset.reset", "it is always earliest"},
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

struct option {
    const char *name;
    const char *value;
};

static enum df_code set_list(rd_kafka_conf_t *conf, const struct option *list, struct df_err *err)
{
    enum df_code code = DF_OK;

    for (; code == DF_OK && list->name; list++)
        code = set_option(conf, list->name, list->value, err);
    return code;
}

/* What producers and consumers share, then the properties, then what can't be changed by them. */
static enum df_code set_client(rd_kafka_conf_t *conf, const struct df_sink_options *opt,
                               const char *servers, const struct option *fixed, struct df_err *err)
{
    const struct option defaults[] = {
        {"client.id", "dataflow"},
        /* Notices soon that a broker is back. */
        {"reconnect.backoff.max.ms", "1000"},
        /* Finds a topic that was created meanwhile without waiting for minutes. */
        {"topic.metadata.refresh.interval.ms", "10000"},
        /* With security.protocol=ssl or sasl_ssl: the certificate must be the broker's. */
        {"ssl.endpoint.identification.algorithm", "https"},
        {NULL, NULL},
    };
    enum df_code code = set_list(conf, defaults, err);

    if (code == DF_OK && df_security_ca_file())
        code = set_option(conf, "ssl.ca.location", df_security_ca_file(), err);
    if (code == DF_OK)
        code = set_properties(conf, opt->properties, err);
    if (code == DF_OK)
        code = set_list(conf, fixed, err);
    if (code == DF_OK && servers)
        code = set_option(conf, "bootstrap.servers", servers, err);
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
    const struct option defaults[] =
        {
            /* The same partition for a key as the Java clients choose. */
            {"partitioner", "murmur2_random"},
            /* Reports a missing topic before the events' time is up. */
            {"topic.metadata.propagation.max.ms", propagation},
            {NULL, NULL},
        },
                        fixed[] = {
                            {"enable.idempotence", "true"},
                            {"acks", "all"},
                            {"delivery.timeout.ms", timeout},
                            {NULL, NULL},
                        };
    enum df_code code = set_list(conf, defaults, err);

    return code == DF_OK ? set_client(conf, opt, servers, fixed, err) : code;
}

/* --- whether it is secure --- */

static bool leaves_machine(const char *servers)
{
    for (struct df_str rest = df_str_c(servers); rest.ptr;) {
        struct df_str server;
        rest = df_str_cut(rest, ',', &server);
        server = df_str_trim(server);
        const char *colon = memrchr(server.ptr, ':', server.len);
        if (!df_host_is_loopback(colon ? df_str_n(server.ptr, (size_t)(colon - server.ptr))
                                       : server))
            return true;
    }
    return false;
}

/* As librdkafka has it once the properties are set. */
static bool option_is(const rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char text[64];
    size_t size = sizeof(text);
    return rd_kafka_conf_get(conf, name, text, &size) == RD_KAFKA_CONF_OK &&
           df_str_ieq(df_str_c(text), df_str_c(value));
}

const char *df_kafka_risk(const struct df_sink_options *opt)
{
    struct df_kafka_target target = {0};
    const char *risk = NULL;

    if (df_kafka_target_init(&target, opt, NULL) != DF_OK)
        return NULL;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    if (!leaves_machine(target.servers) || set_options(conf, opt, NULL, NULL) != DF_OK)
        risk = NULL;
    else if (!option_is(conf, "security.protocol", "ssl") &&
             !option_is(conf, "security.protocol", "sasl_ssl"))
        risk = "the brokers are not reached by TLS: write security.protocol=ssl or sasl_ssl into "
               "properties";
    else if (option_is(conf, "enable.ssl.certificate.verification", "false") ||
             option_is(conf, "ssl.endpoint.identification.algorithm", "none"))
        risk = "the brokers' certificates are not verified: leave "
               "enable.ssl.certificate.verification and ssl.endpoint.identification.algorithm out "
               "of properties";
    rd_kafka_conf_destroy(conf);
    df_kafka_target_release(&target);
    return risk;
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

enum df_code df_kafka_consumer_new(const struct df_sink_options *opt, const char *servers,
                                   const struct df_kafka_callbacks *callbacks, rd_kafka_t **ret,
                                   struct df_err *err)
{
    static const struct option fixed[] = {
        {"group.id", "dataflow"},
        {"enable.auto.commit", "false"},
        /* Stale messages do no harm; those that came before the group had its place would. */
        {"auto.offset.reset", "earliest"},
        {"fetch.wait.max.ms", "1000"},
        {"fetch.error.backoff.ms", "50"},
        /* A message has a few hundred bytes, and is taken alone. */
        {"queued.min.messages", "1"},
        {"queued.max.messages.kbytes", "1024"},
        /* The end of the process waits so long at most for a commit that nobody answers. */
        {"session.timeout.ms", "10000"},
        {"socket.timeout.ms", "10000"},
        {NULL, NULL},
    };
    char why[300] = "";
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    enum df_code code = set_client(conf, opt, servers, fixed, err);
    rd_kafka_t *rk = NULL;

    if (code == DF_OK) {
        rd_kafka_conf_set_log_cb(conf, log_from_library);
        rd_kafka_conf_set_opaque(conf, callbacks->opaque);
        rd_kafka_conf_set_error_cb(conf, callbacks->problem);
        rd_kafka_conf_set_rebalance_cb(conf, callbacks->rebalanced);
        rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof(why));
        if (!rk)
            code = df_err_set(err, DF_E_CONFIG, "properties: %s", why);
    }
    if (!rk) {
        rd_kafka_conf_destroy(conf);
        return code;
    }
    (void)rd_kafka_poll_set_consumer(rk);
    *ret = rk;
    return DF_OK;
}
