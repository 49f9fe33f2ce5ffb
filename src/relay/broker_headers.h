/*
 * An event's metadata as message brokers carry it, RabbitMQ and Kafka alike: the CloudEvents
 * attributes as headers "ce_…", as the Kafka binding of CloudEvents names them, and beside them
 * what those look for who do not speak CloudEvents: correlationId and traceparent.
 */
#ifndef DF_RELAY_BROKER_HEADERS_H
#define DF_RELAY_BROKER_HEADERS_H

#include "relay/dispatcher.h"

#define DF_BROKER_HEADERS (DF_EVENT_ATTRIBUTES + 2)

/*
 * Returns how many. The content type is not among them, because each broker has a place of its own
 * for it; absent without a payload. Memory: the arena.
 */
size_t df_broker_headers(const struct df_event *e, const char *source, struct df_arena *a,
                         struct df_event_attribute ret[DF_BROKER_HEADERS],
                         struct df_str *ret_content_type);

#endif
