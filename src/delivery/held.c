/*
 * What the process has in hand: rows by their ids, and the number of their bytes.
 *
 * The table does not say which rows are on their way, so a claim finds them again; it passes over
 * those that are in hand. A row that is settled while a claim runs stays in hand until the claim
 * ends, as a ghost: the claim may have read the row before it was settled.
 */
#include "delivery/delivery_private.h"

#include <assert.h>

/* A channel that holds nothing may always take a row. */
static bool has_memory(const struct delivery_channel *ch, int64_t bytes) DF_REQUIRES(ch->d->lock)
{
    return ch->held_bytes == 0 || (ch->held_bytes + bytes <= DELIVERY_BYTES_CHANNEL &&
                                   ch->d->held_bytes + bytes <= DELIVERY_BYTES_ALL);
}

static void count_bytes(struct delivery_channel *ch, int64_t bytes) DF_REQUIRES(ch->d->lock)
{
    ch->held_bytes += bytes;
    ch->d->held_bytes += bytes;
    assert(ch->held_bytes >= 0 && ch->d->held_bytes >= ch->held_bytes);
}

bool delivery_held_reserve(struct delivery_claim *cl, const struct delivery_row *row)
{
    struct delivery_channel *ch = cl->channel;

    df_lock(&ch->d->lock);
    bool fits = has_memory(ch, row->bytes);
    if (fits) {
        count_bytes(ch, row->bytes);
        cl->reserved += row->bytes;
    }
    df_unlock(&ch->d->lock);
    return fits;
}

void delivery_held_undo(struct delivery_claim *cl)
{
    df_lock(&cl->channel->d->lock);
    count_bytes(cl->channel, -cl->reserved);
    df_unlock(&cl->channel->d->lock);
    cl->reserved = 0;
}

bool delivery_held_has(struct delivery_channel *ch, struct df_str id)
{
    df_lock(&ch->d->lock);
    bool has = df_map_get(&ch->held_rows, id) != NULL;
    df_unlock(&ch->d->lock);
    return has;
}

void delivery_held_add(struct delivery_channel *ch, struct delivery_row *row)
{
    df_map_add(&ch->held_rows, row->id, row);
    df_shards_enter(ch->shards, row->shard);
    ch->held++;
    ch->marked += row->marked;
}

void delivery_held_remove(struct delivery_channel *ch, struct delivery_row *row)
{
    const struct delivery_row *held = df_map_remove(&ch->held_rows, row->id);

    assert(held == row && ch->held > 0);
    df_shards_leave(ch->shards, row->shard);
    count_bytes(ch, -row->bytes);
    ch->held--;
    ch->marked -= row->marked;
    ch->suspect = ch->suspect && ch->marked > 0;
}

size_t delivery_held_sending(const struct delivery_channel *ch)
{
    return ch->held - ch->ghosts.count - ch->settled.count - ch->settling.rows.count;
}

size_t delivery_held_room(const struct df_delivery *d, const struct delivery_channel *ch,
                          size_t most)
{
    int64_t own = DELIVERY_BYTES_CHANNEL - ch->held_bytes;
    int64_t all = DELIVERY_BYTES_ALL - d->held_bytes;
    int64_t left = own < all ? own : all;
    int64_t rows = ch->row_bytes > 0 && left > 0 ? left / ch->row_bytes : left > 0 ? left : 0;

    if (rows <= 0)
        rows = ch->held_bytes == 0;
    return rows < (int64_t)most ? (size_t)rows : most;
}
