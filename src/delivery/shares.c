/*
 * Shares of the slots: what each destination and each tenant has on its way, what it may have, and
 * how long rows over that share are put off.
 *
 * A tenant has at most a quarter of the rows that a channel holds, and of their bytes, and never
 * more than it leaves free: however many tenants hang, the next one finds room.
 */
#include "base/mem.h"
#include "delivery/delivery_private.h"

#include <assert.h>
#include <stdlib.h>

#define FORGOTTEN_MS 60000 /* a share not used for so long */
#define PARK_EACH_MS 4     /* between two rows that are put off */
#define PARK_GRID_MS 250   /* due times are multiples of this, so that one claim takes many */
#define HANGING_MS   1000  /* with calls out and no answer for so long */

/* Rows, out of DELIVERY_HELD_MAX, and bytes, out of DELIVERY_BYTES_CHANNEL. One row is always
 * allowed. */
static const struct {
    size_t least;
    size_t first;
    size_t most;
    int64_t bytes;
} limits[] = {
    [DELIVERY_DESTINATION] = {4, DELIVERY_SHARE_FIRST, 768, DELIVERY_BYTES_CHANNEL / 2},
    [DELIVERY_TENANT] = {16, 64, DELIVERY_HELD_MAX / 4, DELIVERY_BYTES_CHANNEL / 4},
};

/* --- finding shares --------------------------------------------------------------------------- */

struct delivery_share *delivery_share_find(struct df_delivery *d, enum delivery_share_kind kind,
                                           struct df_str key)
{
    return df_map_get(&d->shares[kind], key);
}

static struct df_str share_key(const struct delivery_share *s)
{
    return df_str_n(s->key, s->key_len);
}

/* Creates the share at its first use. */
static struct delivery_share *get_share(struct df_delivery *d, enum delivery_share_kind kind,
                                        struct df_str key) DF_REQUIRES(d->lock)
{
    struct delivery_share *s = df_map_get(&d->shares[kind], key);
    if (!s) {
        s = df_calloc(1, sizeof(*s) + key.len);
        s->kind = kind;
        s->key_len = key.len;
        s->share = limits[kind].first;
        s->heard_ms = delivery_mono_ms(d);
        if (key.len > 0)
            memcpy(s->key, key.ptr, key.len);
        df_map_add(&d->shares[kind], share_key(s), s);
    }
    s->used_ms = delivery_mono_ms(d);
    return s;
}

static struct delivery_share *tenant_of(struct df_delivery *d, const struct delivery_row *row)
    DF_REQUIRES(d->lock)
{
    return row->request.tenant.len > 0 ? get_share(d, DELIVERY_TENANT, row->request.tenant) : NULL;
}

/* --- slots ------------------------------------------------------------------------------------ */

static bool is_full(const struct delivery_share *s, const struct delivery_row *row)
{
    size_t taken = s->in_flight + s->promised;
    size_t held = delivery_held_sending(row->channel);
    size_t free_rows = held < DELIVERY_HELD_MAX ? DELIVERY_HELD_MAX - held : 0;

    if (taken == 0)
        return false;
    return taken >= s->share || s->bytes + row->bytes > limits[s->kind].bytes ||
           (s->kind == DELIVERY_TENANT && taken >= limits[s->kind].least && taken >= free_rows);
}

static void take_back_promise(struct df_delivery *d, struct delivery_row *row) DF_REQUIRES(d->lock)
{
    struct delivery_share *const of[] = {row->destination, row->tenant};

    (void)d;
    if (!row->promised)
        return;
    for (size_t i = 0; i < 2; i++) {
        if (of[i]) {
            assert(of[i]->promised > 0 && of[i]->bytes >= row->bytes);
            of[i]->promised--;
            of[i]->bytes -= row->bytes;
        }
    }
    row->promised = false;
    row->destination = row->tenant = NULL;
}

const char *delivery_share_enter(struct df_delivery *d, struct delivery_row *row)
{
    take_back_promise(d, row);
    assert(!row->destination && !row->tenant);
    struct delivery_share *tenant = tenant_of(d, row);
    struct delivery_share *to = get_share(d, DELIVERY_DESTINATION, row->key);

    if (tenant && is_full(tenant, row))
        return "the tenant has its share of the slots";
    if (is_full(to, row))
        return "the destination has its share of the slots";
    to->in_flight++;
    to->bytes += row->bytes;
    row->destination = to;
    if (tenant) {
        tenant->in_flight++;
        tenant->bytes += row->bytes;
    }
    row->tenant = tenant;
    d->on_their_way++;
    return NULL;
}

bool delivery_share_promise(struct df_delivery *d, struct delivery_row *row)
{
    df_lock(&d->lock);
    struct delivery_share *of[] = {
        row->key.ptr ? get_share(d, DELIVERY_DESTINATION, row->key) : NULL,
        tenant_of(d, row),
    };
    bool room = !(of[0] && is_full(of[0], row)) && !(of[1] && is_full(of[1], row));
    for (size_t i = 0; room && i < 2; i++) {
        if (of[i]) {
            of[i]->promised++;
            of[i]->bytes += row->bytes;
        }
    }
    if (room) {
        row->promised = true;
        row->destination = of[0];
        row->tenant = of[1];
    }
    df_unlock(&d->lock);
    return room;
}

void delivery_share_break(struct df_delivery *d, struct delivery_row *row)
{
    df_lock(&d->lock);
    take_back_promise(d, row);
    df_unlock(&d->lock);
}

static void leave_share(struct df_delivery *d, struct delivery_share *s,
                        const struct delivery_row *row) DF_REQUIRES(d->lock)
{
    bool answered = row->out.call.code == DF_OK; /* whatever the answer was */
    bool failed = !answered && row->out.call.code != DF_E_CANCELLED;
    size_t less = s->kind == DELIVERY_TENANT ? (s->share > 4 ? s->share - 4 : 0) : s->share / 2;

    assert(s->in_flight > 0 && s->bytes >= row->bytes);
    s->in_flight--;
    s->bytes -= row->bytes;
    s->used_ms = s->heard_ms = delivery_mono_ms(d);
    if (answered && s->share < limits[s->kind].most)
        s->share++;
    else if (failed)
        s->share = less > limits[s->kind].least ? less : limits[s->kind].least;
}

void delivery_share_leave(struct df_delivery *d, struct delivery_row *row)
{
    assert(d->on_their_way > 0 && row->destination && !row->promised);
    d->on_their_way--;
    leave_share(d, row->destination, row);
    if (row->tenant)
        leave_share(d, row->tenant, row);
    row->destination = row->tenant = NULL;
}

size_t delivery_share_room(const struct df_delivery *d, const struct delivery_share *to,
                           int64_t row_bytes)
{
    size_t share = to ? to->share : limits[DELIVERY_DESTINATION].first;
    size_t taken = to ? to->in_flight + to->promised : 0;
    int64_t left = limits[DELIVERY_DESTINATION].bytes - (to ? to->bytes : 0);
    int64_t rows = row_bytes > 0 ? left / row_bytes : left;

    (void)d;
    if (taken >= share)
        return 0;
    if (rows <= 0)
        return taken == 0;
    return (int64_t)(share - taken) < rows ? share - taken : (size_t)rows;
}

static bool is_hanging(const struct delivery_share *s, int64_t now_ms)
{
    return s && s->in_flight > 0 && now_ms - s->heard_ms > HANGING_MS;
}

bool delivery_share_is_busy(struct df_delivery *d, const struct delivery_row *row)
{
    const struct delivery_share *to = get_share(d, DELIVERY_DESTINATION, row->key);

    return to->in_flight > 0 && delivery_mono_ms(d) - to->heard_ms < DELIVERY_STUCK_MS;
}

bool delivery_share_hangs_elsewhere(struct df_delivery *d, const struct delivery_row *row)
{
    df_lock(&d->lock);
    int64_t now_ms = delivery_mono_ms(d);
    bool hangs =
        is_hanging(tenant_of(d, row), now_ms) &&
        !(row->key.ptr && is_hanging(get_share(d, DELIVERY_DESTINATION, row->key), now_ms));
    df_unlock(&d->lock);
    return hangs;
}

/* --- putting off ------------------------------------------------------------------------------ */

/*
 * Each destination has a line of its own, so that one with a long backlog puts off no other. The
 * lines of a tenant share one rate: the more of its destinations wait, the slower each comes back.
 */
int64_t delivery_park_ms(struct df_delivery *d, const struct delivery_row *row, int64_t least_ms)
{
    df_lock(&d->lock);
    struct delivery_share *to = get_share(d, DELIVERY_DESTINATION, row->key);
    struct delivery_share *tenant = tenant_of(d, row);
    int64_t now_ms = delivery_mono_ms(d);
    int64_t from_ms = now_ms + least_ms;
    int64_t each_ms = PARK_EACH_MS;

    if (tenant && to->parked_ms <= now_ms)
        tenant->parked++;
    to->tenant = tenant;
    if (tenant && tenant->parked > 1)
        each_ms *= (int64_t)tenant->parked;
    if (is_hanging(tenant, now_ms))
        each_ms *= 4;
    if (to->parked_ms >= from_ms)
        from_ms = to->parked_ms + each_ms;
    else if (tenant && tenant->parked > 1)
        from_ms += (int64_t)df_random_below(d->opt.clock, (uint64_t)each_ms); /* not all at once */
    to->parked_ms = from_ms;
    df_unlock(&d->lock);
    return (from_ms + PARK_GRID_MS - 1) / PARK_GRID_MS * PARK_GRID_MS - now_ms;
}

/* --- forgetting ------------------------------------------------------------------------------- */

/* Counts anew for each tenant the destinations that rows are put off for. */
static void count_parked(struct df_delivery *d, int64_t now_ms) DF_REQUIRES(d->lock)
{
    struct delivery_share *s;

    for (size_t at = 0; (s = df_map_next(&d->shares[DELIVERY_TENANT], &at));)
        s->parked = 0;
    for (size_t at = 0; (s = df_map_next(&d->shares[DELIVERY_DESTINATION], &at));) {
        if (s->tenant && s->parked_ms > now_ms)
            s->tenant->parked++;
        else
            s->tenant = NULL;
    }
}

void delivery_shares_forget(struct df_delivery *d)
{
    struct delivery_share *s;

    df_lock(&d->lock);
    int64_t now_ms = delivery_mono_ms(d);
    count_parked(d, now_ms);
    for (size_t kind = 0; kind < DELIVERY_SHARE_KINDS; kind++) {
        for (size_t at = 0; (s = df_map_next(&d->shares[kind], &at));) {
            if (s->in_flight + s->promised + s->parked > 0 || s->parked_ms > now_ms ||
                s->used_ms > now_ms - FORGOTTEN_MS)
                continue;
            (void)df_map_remove(&d->shares[kind], share_key(s));
            free(s);
        }
    }
    df_unlock(&d->lock);
}

void delivery_shares_free(struct df_delivery *d)
{
    struct delivery_share *s;

    for (size_t kind = 0; kind < DELIVERY_SHARE_KINDS; kind++) {
        for (size_t at = 0; (s = df_map_next(&d->shares[kind], &at));)
            free(s);
        df_map_release(&d->shares[kind]);
    }
}
