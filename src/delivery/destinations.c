/* Destinations: what each has on its way, what is its share of the slots, and who is put off. */
#include "base/mem.h"
#include "delivery/delivery_private.h"

#include <stdlib.h>

#define SHARE_MIN    4     /* rows of a channel, of DELIVERY_HELD_MAX */
#define SHARE_MAX    768   /* room is left for others */
#define FORGOTTEN_MS 60000 /* a destination that nothing was sent to for so long */
#define PARK_EACH_MS 2     /* between two rows that are put off */

struct df_str delivery_destination_key(const char *url)
{
    const char *scheme = strstr(url, "://");
    const char *host = scheme ? scheme + 3 : url;
    size_t len = strcspn(host, "/?#");
    const char *at = memrchr(host, '@', len);
    /* Credentials are for nobody to see: with them it is known by its host alone. */
    if (at)
        return df_str_n(at + 1, len - (size_t)(at + 1 - host));
    return df_str_n(url, (size_t)(host - url) + len);
}

struct df_str delivery_key(const struct delivery_row *row)
{
    if (!row->request.url)
        return DF_STR_NULL;
    return row->request.breaker.ptr ? row->request.breaker
                                    : delivery_destination_key(row->request.url);
}

static struct delivery_destination **place_of(struct df_delivery *d, struct df_str key)
{
    struct delivery_destination **at = &d->destinations[df_str_hash(key) % DELIVERY_BUCKETS];

    while (*at && !df_str_eq(df_str_n((*at)->key, (*at)->key_len), key))
        at = &(*at)->next;
    return at;
}

struct delivery_destination *delivery_destination_find(struct df_delivery *d, struct df_str key)
{
    return *place_of(d, key);
}

/* Made when first asked for. Under the lock, as what follows. */
static struct delivery_destination *get_destination(struct df_delivery *d, struct df_str key)
{
    struct delivery_destination **at = place_of(d, key);
    if (!*at) {
        *at = df_calloc(1, sizeof(**at) + key.len);
        (*at)->key_len = key.len;
        (*at)->share = DELIVERY_SHARE_FIRST;
        (*at)->heard_ms = delivery_mono_ms(d);
        memcpy((*at)->key, key.ptr, key.len);
    }
    (*at)->used_ms = delivery_mono_ms(d);
    return *at;
}

struct delivery_destination *delivery_destination_enter(struct df_delivery *d, struct df_str key)
{
    struct delivery_destination *to = get_destination(d, key);
    if (to->in_flight >= to->share)
        return NULL;
    to->in_flight++;
    return to;
}

void delivery_destination_leave(struct df_delivery *d, const struct delivery_row *row)
{
    struct delivery_destination *left = row->destination;
    bool answered = row->call.code == DF_OK; /* whatever the answer was */

    left->in_flight--;
    left->used_ms = left->heard_ms = delivery_mono_ms(d);
    if (answered && left->share < SHARE_MAX)
        left->share++;
    else if (!answered && row->call.code != DF_E_CANCELLED)
        left->share = left->share / 2 > SHARE_MIN ? left->share / 2 : SHARE_MIN;
}

int64_t delivery_park_ms(struct df_delivery *d, struct df_str key, int64_t least_ms)
{
    pthread_mutex_lock(&d->lock);
    struct delivery_destination *to = get_destination(d, key);
    int64_t now_ms = delivery_mono_ms(d);
    int64_t from_ms = now_ms + least_ms;
    if (to->parked_ms >= from_ms)
        from_ms = to->parked_ms + PARK_EACH_MS;
    to->parked_ms = from_ms;
    pthread_mutex_unlock(&d->lock);
    return from_ms - now_ms;
}

void delivery_destinations_forget(struct df_delivery *d)
{
    int64_t before_ms = delivery_mono_ms(d) - FORGOTTEN_MS;

    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < DELIVERY_BUCKETS; i++) {
        struct delivery_destination **at = &d->destinations[i];
        while (*at) {
            struct delivery_destination *old = *at;
            if (old->in_flight > 0 || old->used_ms > before_ms) {
                at = &old->next;
                continue;
            }
            *at = old->next;
            free(old);
        }
    }
    pthread_mutex_unlock(&d->lock);
}

void delivery_destinations_free(struct df_delivery *d)
{
    for (size_t i = 0; i < DELIVERY_BUCKETS; i++) {
        struct delivery_destination *to;
        while ((to = d->destinations[i])) {
            d->destinations[i] = to->next;
            free(to);
        }
    }
}
