/*
 * Throttle by key: a token bucket for each of many keys (mostly addresses), in a table of fixed
 * size. A key that is new, or was forgotten because its bucket was full again, starts full. When
 * the table is crowded, the fullest neighbour is replaced, so that throttled keys stay throttled.
 *
 * Thread-safe; one short lock.
 */
#ifndef DF_RESILIENCE_THROTTLE_H
#define DF_RESILIENCE_THROTTLE_H

#include "base/clock.h"
#include "base/str.h"

struct df_throttle;

/* `capacity` charges at once, refilled at `per_minute`. */
struct df_throttle *df_throttle_new(int64_t capacity, int64_t per_minute,
                                    const struct df_clock *clock);
void df_throttle_free(struct df_throttle *t);

/* Whether the key has used up its tokens; then *ret_wait_ms is the time until it has one again. */
bool df_throttle_blocked(struct df_throttle *t, struct df_str key, int64_t *ret_wait_ms);

/*
 * Takes a token, going into debt if there is none: requests under way when the key became blocked
 * count too. The debt is at most the capacity.
 */
void df_throttle_charge(struct df_throttle *t, struct df_str key);

#endif
