/*
 * What is stored of a chunk's items in place of their payloads, computed by the worker while the
 * store's thread is busy with other commits.
 */
#include "privacy/mask.h"
#include "base/metrics.h"
#include "imports/kept.h"
#include "imports/process/process_private.h"
#include "keys/keys.h"

DF_METRIC_FAMILY(items_masked) = {
    .name = "dataflow_items_masked_total",
    .help = "Items of imports that were stored masked.",
    .type = DF_COUNTER,
};
DF_METRIC_FAMILY(items_kept) = {
    .name = "dataflow_items_kept_total",
    .help = "Failed records of imports that were kept encrypted.",
    .type = DF_COUNTER,
};

void import_mask_register(void)
{
    df_metric_register(&items_masked);
    df_metric_register(&items_kept);
}

bool import_masks(const struct import_batch *b)
{
    const struct df_imports_options *o = &b->imports->opt;
    return o->masker && df_masker_masks(o->masker);
}

static void mask_item(struct import_chunk *c, struct import_item *item)
{
    const struct df_masker *m = c->batch->imports->opt.masker;
    struct df_str json = import_item_json(c, item);
    char *hash = df_arena_alloc(&c->arena, DF_MASK_HASH_LEN + 1);

    df_mask_hash(m, json, hash);
    item->hash = hash;
    item->masked_at = c->masked.len;
    df_mask_json(m, json, &c->masked);
    item->masked_len = df_buf_failed(&c->masked) ? 0 : c->masked.len - item->masked_at;
}

static void seal_item(struct import_chunk *c, struct import_item *item)
{
    const struct import_batch *b = c->batch;
    struct df_str record = import_original_of(c, item);
    struct import_kept kept = {
        .record = record,
        .item = item->sent || !record.ptr ? import_item_json(c, item) : DF_STR_NULL,
    };

    item->sealed_at = c->sealed.len;
    import_kept_seal(b->imports->opt.keys, &b->id, item->sequence, &kept, &c->sealed);
    item->sealed_len = df_buf_failed(&c->sealed) ? 0 : c->sealed.len - item->sealed_at;
}

/* The outcome of a chunk may be another one when it is settled again, so all of it is made anew. */
void import_mask_chunk(struct import_chunk *c)
{
    size_t kept = 0;

    df_buf_reset(&c->masked);
    df_buf_reset(&c->sealed);
    if (c->batch->row.attempt > 1 || !import_masks(c->batch))
        return;
    for (size_t i = 0; i < c->count; i++) {
        struct import_item *item = &c->items[i];
        mask_item(c, item);
        if (item->status != DF_ITEM_STATUS_ERROR)
            continue;
        seal_item(c, item);
        kept++;
    }
    df_metric_add(df_metric_get(&items_masked, NULL), (double)c->count);
    df_metric_add(df_metric_get(&items_kept, NULL), (double)kept);
}

/* The masked payload; where it did not fit, null. */
struct df_str import_masked_of(const struct import_chunk *c, const struct import_item *item)
{
    return item->masked_len > 0 ? df_str_n(c->masked.ptr + item->masked_at, item->masked_len)
                                : DF_STR("null");
}

struct df_str import_sealed_of(const struct import_chunk *c, const struct import_item *item)
{
    return item->sealed_len > 0 ? df_str_n(c->sealed.ptr + item->sealed_at, item->sealed_len)
                                : DF_STR_NULL;
}

struct df_str import_masked_answer(struct import_chunk *c, struct df_str body)
{
    const struct df_masker *m = c->batch->imports->opt.masker;
    struct df_buf masked;

    if (!m || body.len == 0)
        return body;
    df_buf_init(&masked, IMPORT_MASKED_MAX);
    df_mask_json(m, body, &masked);
    struct df_str text = df_arena_str(&c->arena, df_buf_str(&masked));
    df_buf_release(&masked);
    return text;
}
