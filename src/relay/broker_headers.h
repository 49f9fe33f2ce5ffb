/*
 * An event's metadata as headers of a message, for RabbitMQ and Kafka: the CloudEvents attributes
 * as "ce_…", as the Kafka binding of CloudEvents names them, and correlationId and traceparent for
 * consumers that do not speak CloudEvents.
 */
#ifndef DF_RELAY_BROKER_HEADERS_H
#define DF_RELAY_BROKER_HEADERS_H

#include "relay/dispatcher.h"

#define DF_BROKER_HEADERS (DF_EVENT_ATTRIBUTES + 2)

/*
 * Returns the number of headers. The content type is returned apart, because each broker has its
 * own place for it; it is absent without a payload. Memory: the arena.
 */
size_t df_broker_headers(const struct df_event *e, const char *source, struct df_arena *a,
                         struct df_event_attribute ret[DF_BROKER_HEADERS],
                         struct df_str *ret_content_type);

#endif
