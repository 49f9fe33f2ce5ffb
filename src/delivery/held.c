/*
 * What the process holds: rows by their ids, and the number of their bytes.
 *
 * Leases are times of the wall clock. When that clock is set forward by more than a lease, a claim
 * finds rows that this very process is sending. They are not sent a second time: the row on its way
 * takes over the new lease and fence, and settles with them. If the content was replaced meanwhile,
 * the new content waits until the old one is back.
 */
#include "delivery/delivery_private.h"

#include <assert.h>

#define AGAIN_MS 250 /* until a row is claimed again whose old content is on its way */

/* NULL: the row is not held, or is being settled. */
static struct delivery_row *find_held(struct delivery_channel *ch, struct df_str id)
    DF_REQUIRES(ch->d->lock)
{
    struct delivery_row *row = df_map_get(&ch->held_rows, id);

    return row && !row->settling ? row : NULL;
}

/* The fence minus the attempt is the version of the content. A channel without versions counts
 * attempts anew for new content, so the next attempt after the last one known means the same
 * content. */
static bool has_same_content(const struct delivery_row *held, const struct delivery_row *claim)
{
    return claim->attempt == held->last_attempt + 1 &&
           held->fence - held->attempt == claim->fence - claim->attempt;
}

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

static void refuse_large_row(struct delivery_row *row, int64_t most)
{
    delivery_give_up(row, df_arena_printf(&row->arena,
                                          "there are %lld bytes to send, and at most %lld are sent",
                                          (long long)row->bytes, (long long)most));
    row->bytes = 0;
}

static void sort_claimed_row(struct delivery_channel *ch, struct delivery_row *row,
                             struct df_list *claimed, struct df_list *back) DF_REQUIRES(ch->d->lock)
{
    struct delivery_cycle *cy = &ch->cycle;
    int64_t most = ch->d->opt.max_row_bytes;
    const struct delivery_row *held = find_held(ch, row->id);

    if (held && has_same_content(held, row)) {
        df_list_add(&cy->renewed, &row->link);
        return;
    }
    if (!held && row->bytes > most)
        refuse_large_row(row, most);
    if (held || !has_memory(ch, row->bytes)) {
        row->due_ms = delivery_now(ch) + (held ? AGAIN_MS : 0);
        row->outcome = DELIVERY_DEFERRED;
        df_list_add(back, &row->link);
        return;
    }
    count_bytes(ch, row->bytes);
    cy->reserved += row->bytes;
    df_list_add(claimed, &row->link);
}

void delivery_held_sort(struct delivery_cycle *cy, struct df_list *back)
{
    struct delivery_channel *ch = cy->channel;
    struct df_list claimed = {.count = 0};
    struct delivery_row *row;

    df_lock(&ch->d->lock);
    while ((row = delivery_list_take(&cy->claimed)))
        sort_claimed_row(ch, row, &claimed, back);
    df_unlock(&ch->d->lock);
    df_list_move(&cy->claimed, &claimed);
}

void delivery_held_give(struct delivery_cycle *cy, const struct df_list *rows)
{
    const struct delivery_row *r;

    df_lock(&cy->channel->d->lock);
    DF_LIST_EACH (r, rows, link) {
        count_bytes(cy->channel, -r->bytes);
        cy->reserved -= r->bytes;
    }
    df_unlock(&cy->channel->d->lock);
}

void delivery_held_undo(struct delivery_cycle *cy)
{
    df_lock(&cy->channel->d->lock);
    count_bytes(cy->channel, -cy->reserved);
    df_unlock(&cy->channel->d->lock);
    cy->reserved = 0;
}

void delivery_held_add(struct delivery_channel *ch, struct delivery_row *row)
{
    row->last_attempt = row->attempt;
    df_map_add(&ch->held_rows, row->id, row);
}

void delivery_held_renew(struct delivery_channel *ch, const struct delivery_row *claim)
{
    struct delivery_row *row = find_held(ch, claim->id);

    if (!row)
        return;
    row->renewed = true;
    row->last_attempt = claim->attempt;
    row->renewed_fence = claim->fence;
    row->renewed_until_ms = claim->lease_until_ms;
}

void delivery_held_remove(struct delivery_channel *ch, const struct delivery_row *row)
{
    const struct delivery_row *held = df_map_remove(&ch->held_rows, row->id);

    assert(held == row);
    count_bytes(ch, -row->bytes);
}

void delivery_held_settling(struct df_list *rows, bool settling)
{
    struct delivery_row *r;

    DF_LIST_EACH (r, rows, link) {
        r->settling = settling;
        if (!r->renewed)
            continue;
        r->fence = r->renewed_fence;
        r->attempt = r->last_attempt;
        r->lease_until_ms = r->renewed_until_ms;
        r->renewed = false;
    }
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
