/*
 * Cuts records into chunks. A file is cut the same way every time: a chunk ends after batch_size
 * items or IMPORT_CHUNK_BYTES, whichever comes first. Items that are not sent count too; they are
 * in `unsent` instead of the body. A run of empty records is one item by the present rules, and
 * one item for each record by the older ones (IMPORT_RULES_). A sequence is a record's place in the
 * file by both, so it jumps after a run.
 */
#include "base/mem.h"
#include "imports/kept.h"
#include "imports/process/process.sql.h"
#include "imports/process/process_private.h"
#include "imports/reasons.h"
#include "privacy/subjects.h"

#include <stdlib.h>

#define LOOK_EVERY 65536 /* empty records of a run between checks of the lease */

/* --- chunks ----------------------------------------------------------------------------------- */

static struct import_item *add_item(struct import_chunk *c)
{
    if (c->count == c->cap) {
        c->cap = c->cap ? c->cap * 2 : 128;
        c->items = df_realloc(c->items, c->cap * sizeof(*c->items));
    }
    c->items[c->count] = (struct import_item){0};
    return &c->items[c->count++];
}

struct df_str import_item_json(const struct import_chunk *c, const struct import_item *item)
{
    const struct df_buf *buf = item->sent ? &c->body : &c->unsent;
    return df_str_n(buf->ptr + item->at, item->len);
}

/* --- bodies ----------------------------------------------------------------------------------- */

static void begin_body(struct import_chunk *c)
{
    df_buf_addf(&c->body, "{\"batchId\":\"%s\",\"chunkId\":%lld,\"offset\":%lld,\"items\":[",
                c->batch->id.text, (long long)c->id, (long long)c->offset);
}

static void end_body(struct import_chunk *c)
{
    df_buf_addz(&c->body, "]}");
    df_checksum_of(df_buf_str(&c->body), c->hash);
}

/* Cuts the body back to this length. */
static void truncate_body(struct df_buf *b, size_t len)
{
    b->len = len;
    if (b->ptr)
        b->ptr[len] = '\0';
}

/* Keeps the record whose JSON is at the body's end, from `at` on; an item that is not sent moves to
 * `unsent`. */
static void keep_item(struct import_chunk *c, size_t mark, size_t at, enum df_item_verdict verdict,
                      struct df_str reason, int64_t row, int64_t records)
{
    struct import_item *item = add_item(c);
    int64_t sequence = c->batch->reading.next_sequence;

    item->sequence = sequence;
    item->row = row;
    item->records = records;
    c->records += records;
    item->len = c->body.len - at;
    item->at = at;
    if (c->batch->imports->opt.keys && records == 1)
        df_subjects_add_item(c->batch->imports->opt.keys, df_str_n(c->body.ptr + at, item->len),
                             sequence, &c->subjects);
    item->sent = verdict == DF_ITEM_SEND;
    if (item->sent) {
        c->sent_count++;
        return;
    }
    item->status = verdict == DF_ITEM_SKIPPED ? DF_ITEM_STATUS_SKIPPED : DF_ITEM_STATUS_ERROR;
    item->code = df_normaliser_code(c->batch->reading.normaliser);
    if (records > 1)
        item->error = df_arena_printf(&c->arena, "%lld empty rows", (long long)records);
    else
        item->error = df_arena_str(&c->arena, df_utf8_cut(reason, IMPORT_ERROR_UNITS));
    item->at = c->unsent.len;
    df_buf_add(&c->unsent, c->body.ptr + at, item->len);
    truncate_body(&c->body, mark);
}

static enum df_code add_record(struct import_batch *b, struct import_chunk *c,
                               const struct df_record *record, int64_t records, struct df_err *err)
{
    enum df_item_verdict verdict = DF_ITEM_ERROR;
    struct df_str reason = DF_STR_NULL;
    size_t mark = c->body.len;

    if (c->sent_count > 0)
        df_buf_addc(&c->body, ',');
    size_t at = c->body.len;
    enum df_code code = df_normalise(b->reading.normaliser, record, b->reading.next_sequence,
                                     &c->body, &verdict, &reason, err);
    if (code != DF_OK)
        return code;
    keep_item(c, mark, at, verdict, reason, (int64_t)record->row, records);
    if (verdict != DF_ITEM_SKIPPED)
        import_original_keep(c, &c->items[c->count - 1], record);
    b->reading.next_sequence += records;
    return DF_OK;
}

/* Reads to the end of a run whose first record was read. */
static enum df_code read_run(struct import_batch *b, int64_t *ret_count, struct df_err *err)
{
    for (*ret_count = 1;; ++*ret_count) {
        enum df_code code = df_records_next(b->reading.records, &b->reading.after_run, err);
        if (code == DF_ROW && !df_record_is_empty(&b->reading.after_run))
            b->reading.has_after_run = true;
        if (code != DF_ROW || b->reading.has_after_run)
            return code == DF_DONE ? DF_ROW : code; /* the next call finds the end again */
        if (*ret_count % LOOK_EVERY == 0 && !import_keep_lease(b))
            return df_err_set(err, DF_E_CANCELLED, "reading was given up");
    }
}

enum df_code import_next_record(struct import_batch *b, struct df_record *ret, int64_t *ret_count,
                                struct df_err *err)
{
    *ret_count = 1;
    if (b->reading.has_after_run) {
        b->reading.has_after_run = false;
        *ret = b->reading.after_run;
        return DF_ROW;
    }
    enum df_code code = df_records_next(b->reading.records, ret, err);
    if (code != DF_ROW || b->row.rules < IMPORT_RULES_RUNS || !df_record_is_empty(ret))
        return code;
    *ret = (struct df_record){.count = 0, .row = ret->row};
    return read_run(b, ret_count, err);
}

enum df_code import_cut(struct import_batch *b, struct import_chunk *c, struct df_err *err)
{
    enum df_code code = DF_ROW;

    c->id = b->reading.next_chunk;
    c->offset = b->reading.next_sequence;
    begin_body(c);
    while ((int64_t)c->count < b->row.batch_size &&
           c->body.len + c->unsent.len < IMPORT_CHUNK_BYTES) {
        struct df_record record;
        int64_t records = 1;
        code = import_next_record(b, &record, &records, err);
        if (code != DF_ROW)
            break;
        code = add_record(b, c, &record, records, err);
        if (code != DF_OK)
            break;
    }
    if (code != DF_ROW && code != DF_DONE && code != DF_OK)
        return code;
    if (c->count == 0)
        return DF_DONE;
    end_body(c);
    if (df_buf_failed(&c->body) || df_buf_failed(&c->unsent))
        return df_err_set(err, DF_E_TOO_LARGE, "records %lld to %lld do not fit into a chunk",
                          (long long)c->offset, (long long)(b->reading.next_sequence - 1));
    b->reading.next_chunk++;
    return DF_ROW;
}

/* --- later attempts --------------------------------------------------------------------------- */

struct again {
    struct df_job job;
    struct import_batch *b;
    struct import_chunk *c;
    const struct import_open *open; /* the chunk that an earlier owner began; NULL: a new one */
    bool lost;                      /* of an item only the masked payload is left */
};

/* The item as it was sent: what is kept of it, or, of batches of earlier releases, its payload. */
static enum df_code stored_item(struct import_chunk *c, struct df_result *r, struct df_str *ret,
                                struct df_err *err)
{
    const struct import_batch *b = c->batch;
    struct import_kept kept = {.item = DF_STR_NULL};

    *ret = df_col_text(r, again_PayloadJson);
    if (df_col_null(r, again_Sealed))
        return DF_OK;
    enum df_code code =
        import_kept_open(b->imports->opt.keys, &b->id, df_col_int(r, again_Sequence),
                         df_col_blob(r, again_Sealed), &c->arena, &kept, err);
    if (code == DF_OK && !kept.item.ptr)
        code = df_err_set(err, DF_E_INTERNAL, "an item that was sent is not kept");
    *ret = kept.item;
    return code;
}

static void add_stored_item(struct import_chunk *c, struct df_result *r, struct df_str json)
{
    if (c->count > 0)
        df_buf_addc(&c->body, ',');
    struct import_item *item = add_item(c);
    item->sequence = df_col_int(r, again_Sequence);
    item->records = 1;
    c->records++;
    item->sent = true;
    item->at = c->body.len;
    item->len = json.len;
    df_buf_adds(&c->body, json);
    c->sent_count++;
}

/* A chunk has the content that it had, or is not sent at all. */
static void leave_unsent(struct import_chunk *c)
{
    for (size_t i = 0; i < c->count; i++) {
        struct import_item *item = &c->items[i];
        item->sent = false;
        item->at = item->len = 0;
        item->status = DF_ITEM_STATUS_ERROR;
        item->error = DF_STR("not sent again: the record, or another one of its chunk, is no "
                             "longer kept");
        item->code = IMPORT_REASON_NOT_KEPT;
    }
    c->sent_count = 0;
    df_buf_reset(&c->body);
}

static enum df_code run_read_stored(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct again *a = (struct again *)job;
    struct import_batch *b = a->b;
    struct df_result *r = NULL;
    struct df_value id = df_uuid(df_uuid_str(&b->id));
    enum df_code code;

    a->lost = false;
    a->c->count = a->c->sent_count = 0;
    a->c->records = 0;
    df_buf_reset(&a->c->unsent);
    df_buf_reset(&a->c->body);
    if (a->open)
        code = df_db_query(db, DF_Q(again_chunk_items, .id = id, .chunk = df_int(a->open->id)), &r,
                           err);
    else
        code = df_db_query(db,
                           DF_Q(again_items, .id = id, .from_chunk = df_int(b->row.again_from),
                                .after = df_int(b->reading.next_sequence), .masked = df_bool(false),
                                .limit = df_int(b->row.batch_size)),
                           &r, err);
    if (code != DF_OK)
        return code;
    while ((code = df_result_step(r, err)) == DF_ROW) { /* not df_db_each: it may end early */
        if (!a->open && a->c->body.len >= IMPORT_CHUNK_BYTES)
            break;
        struct df_str json;
        code = stored_item(a->c, r, &json, err);
        if (code != DF_OK)
            break;
        a->lost |= df_col_null(r, again_Sealed) && df_col_bool(r, again_IsMasked);
        add_stored_item(a->c, r, json);
        df_arena_reset(&a->c->arena);
    }
    df_result_free(r);
    if (a->lost)
        leave_unsent(a->c);
    return code == DF_DONE || code == DF_ROW ? DF_OK : code;
}

/* Puts the head of the body before the items, which were read into the body. */
static void frame_items(struct import_chunk *c)
{
    struct df_buf items = c->body;

    df_buf_init(&c->body, IMPORT_BODY_MAX);
    begin_body(c);
    size_t by = c->body.len;
    df_buf_adds(&c->body, df_buf_str(&items));
    end_body(c);
    for (size_t i = 0; i < c->count; i++)
        c->items[i].at += by;
    df_buf_release(&items);
}

enum df_code import_cut_again(struct import_batch *b, struct import_chunk *c, struct df_err *err)
{
    const struct import_open *open =
        b->earlier.open_at < b->earlier.open_count ? &b->earlier.open[b->earlier.open_at] : NULL;
    struct again again = {.job = {.run = run_read_stored}, .b = b, .c = c, .open = open};

    enum df_code code = df_store_read_wait(b->imports->opt.store, &again.job, err);
    if (code != DF_OK)
        return code;
    if (c->count == 0 && !open)
        return DF_DONE;
    c->id = open ? open->id : b->reading.next_chunk++;
    c->offset = c->count > 0 ? c->items[0].sequence : 0;
    if (open)
        b->earlier.open_at++;
    else
        b->reading.next_sequence = c->items[c->count - 1].sequence;
    frame_items(c);
    if (df_buf_failed(&c->body))
        return df_err_set(err, DF_E_TOO_LARGE, "the items of chunk %lld do not fit into it",
                          (long long)c->id);
    return DF_ROW;
}

const struct import_open *import_open_find(const struct import_batch *b, int64_t id)
{
    for (size_t i = 0; i < b->earlier.open_count; i++) {
        if (b->earlier.open[i].id == id)
            return &b->earlier.open[i];
    }
    return NULL;
}
