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

/* How the target is reached in the clear, or without verifying the broker, and what to write
 * instead; NULL: it is not, or it is on this machine. */
const char *df_relay_risk(const struct df_relay_settings *s);

#endif
