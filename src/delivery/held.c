/*
 * What the process has in hand: rows by their ids, and how many bytes they have.
 *
 * Leases are times of the wall clock. When that is set forward by more than a lease, a claim finds
 * rows that this very process is sending. They are not sent a second time: the row on its way takes
 * over the new lease and fence, and settles with them. Where the content is another by now, the new
 * one waits until the old one is back.
 */
#include "delivery/delivery_private.h"

#define AGAIN_MS 250 /* whether the old content is back */

static struct delivery_row **bucket_of(struct delivery_channel *ch, struct df_str id)
{
    return &ch->held_rows[df_str_hash(id) % DELIVERY_HELD_BUCKETS];
}

/* One that is not about to be let go; NULL: there is none. */
static struct delivery_row *find_held(struct delivery_channel *ch, struct df_str id)
{
    for (struct delivery_row *r = *bucket_of(ch, id); r; r = r->held_next) {
        if (!r->settling && df_str_eq(r->id, id))
            return r;
    }
    return NULL;
}

/* The fence without the attempt stands for the content. Where that has no version its attempts
 * begin anew with it: only the attempt after the last one known is of the same. */
static bool has_same_content(const struct delivery_row *held, const struct delivery_row *claim)
{
    return claim->attempt == held->last_attempt + 1 &&
           held->fence - held->attempt == claim->fence - claim->attempt;
}

/* A channel that holds nothing may always take a row. */
static bool has_memory(const struct delivery_channel *ch, int64_t bytes)
{
    return ch->held_bytes == 0 || (ch->held_bytes + bytes <= DELIVERY_BYTES_CHANNEL &&
                                   ch->d->held_bytes + bytes <= DELIVERY_BYTES_ALL);
}

static void count_bytes(struct delivery_channel *ch, int64_t bytes)
{
    ch->held_bytes += bytes;
    ch->d->held_bytes += bytes;
}

static void refuse_large(struct delivery_row *row, int64_t most)
{
    row->outcome = DELIVERY_DEAD;
    row->error =
        df_arena_printf(&row->arena, "there are %lld bytes to send, and at most %lld are sent",
                        (long long)row->bytes, (long long)most);
    row->bytes = 0;
}

static void sort_row(struct delivery_cycle *cy, struct delivery_row *row,
                     struct delivery_list *claimed, struct delivery_list *back)
{
    struct delivery_channel *ch = cy->channel;
    int64_t most = ch->d->opt.max_row_bytes;
    const struct delivery_row *held = find_held(ch, row->id);

    if (held && has_same_content(held, row)) {
        delivery_list_add(&cy->renewed, row);
        return;
    }
    if (!held && row->bytes > most)
        refuse_large(row, most);
    if (held || !has_memory(ch, row->bytes)) {
        row->due_ms = delivery_now(ch) + (held ? AGAIN_MS : 0);
        row->outcome = DELIVERY_DEFERRED;
        delivery_list_add(back, row);
        return;
    }
    count_bytes(ch, row->bytes);
    cy->reserved += row->bytes;
    delivery_list_add(claimed, row);
}

void delivery_held_sort(struct delivery_cycle *cy, struct delivery_list *back)
{
    struct df_delivery *d = cy->channel->d;
    struct delivery_list claimed;
    struct delivery_row *row;

    delivery_list_init(&claimed);
    df_lock(&d->lock);
    while ((row = delivery_list_take(&cy->claimed)))
        sort_row(cy, row, &claimed, back);
    df_unlock(&d->lock);
    delivery_list_move(&cy->claimed, &claimed);
}

void delivery_held_give(struct delivery_cycle *cy, const struct delivery_list *rows)
{
    df_lock(&cy->channel->d->lock);
    for (const struct delivery_row *r = rows->head; r; r = r->next) {
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
    struct delivery_row **bucket = bucket_of(ch, row->id);

    row->last_attempt = row->attempt;
    row->held_next = *bucket;
    *bucket = row;
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
    struct delivery_row **at = bucket_of(ch, row->id);

    while (*at && *at != row)
        at = &(*at)->held_next;
    if (!*at)
        return;
    *at = row->held_next;
    count_bytes(ch, -row->bytes);
}

void delivery_held_settling(struct delivery_list *rows, bool settling)
{
    for (struct delivery_row *r = rows->head; r; r = r->next) {
        r->settling = settling;
        if (!r->renewed)
            continue;
        r->fence = r->renewed_fence;
        r->attempt = r->last_attempt;
        r->lease_until_ms = r->renewed_until_ms;
        r->renewed = false;
    }
}

size_t delivery_held_room(const struct delivery_channel *ch, size_t most)
{
    int64_t own = DELIVERY_BYTES_CHANNEL - ch->held_bytes;
    int64_t all = DELIVERY_BYTES_ALL - ch->d->held_bytes;
    int64_t left = own < all ? own : all;
    int64_t rows = ch->row_bytes > 0 && left > 0 ? left / ch->row_bytes : left > 0 ? left : 0;

    if (rows <= 0)
        rows = ch->held_bytes == 0;
    return rows < (int64_t)most ? (size_t)rows : most;
}
