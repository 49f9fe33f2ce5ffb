/* Tries whether a relay's broker can be reached: RabbitMQ and Kafka. Sends no event. Blocks. */
#ifndef DF_RELAY_PROBE_H
#define DF_RELAY_PROBE_H

#include "base/err.h"
#include "relay/settings.h"

/* Whether the relay's events go to a broker. */
bool df_relay_has_broker(const struct df_relay_settings *s);

/* Connects and, where the broker asks for it, logs in. */
enum df_code df_relay_probe(const struct df_relay_settings *s, int64_t timeout_ms,
                            struct df_err *err) DF_MUST_CHECK;

#endif
