/*
 * The commits of a batch's owner, each under its token (src/delivery/README.md, lease and fence).
 * DF_E_NOT_FOUND: the batch has another owner, and the transaction did nothing.
 *
 * A job may run more than once, so it computes everything from the chunks and changes none of them.
 */
#include "base/mem.h"
#include "imports/announce.h"
#include "imports/batch_event.h"
#include "imports/process/process.sql.h"
#include "imports/process/process_private.h"
#include "keys/keys.h"
#include "privacy/mask.h"
#include "privacy/subjects.h"
#include "store/rows.h"
#include "webhooks/webhooks.h"
#include "json/write.h"

#include <assert.h>
#include <stdlib.h>

#define SUMMARY_MAX   ((size_t)256 << 10)
#define MAX_OPEN      4096 /* chunks that earlier owners left */
#define RATE_LEAST_MS 500
#define RATE_MOST_MS  (INT64_C(1000) * IMPORT_RATE_SECONDS)

struct owner_job {
    struct df_job job;
    struct import_batch *b;
    struct df_list *chunks;
    int64_t number;
    struct df_arena arena;
    enum df_batch_status status;
    void (*each)(struct import_batch *b, int64_t chunk, struct df_str ack);
    bool told;        /* there are webhooks to deliver */
    bool renews_lock; /* it is time to renew the lock of all claims too */
};

/* The commit that settles chunks, on the store's thread. */
struct import_settling {
    struct owner_job o; /* first */
    bool answered;      /* as in the hand when it was started */
    int64_t rate;       /* records a second, these included; -1: not known */
    int64_t *changed;   /* for each chunk: rows that were settled, 0 or 1 */
    enum df_code code;
    struct df_err err;
};

static struct df_value batch_id(const struct import_batch *b)
{
    return df_uuid(df_uuid_str(&b->id));
}

/* A text for a column: what peers and files say may quote people. */
static struct df_value note(struct owner_job *o, struct df_str text)
{
    return df_text(df_mask_note(text, IMPORT_SUMMARY_UNITS, &o->arena));
}

static enum df_code lost_batch(struct df_err *err)
{
    return df_err_set(err, DF_E_NOT_FOUND, "the batch has another owner");
}

/* Runs a statement that must find the batch's row by the owner's token. */
static enum df_code exec_owned(struct df_db *db, const struct df_query *q,
                               const struct df_value *params, size_t count, struct df_err *err)
{
    int64_t affected = 0;
    enum df_code code = df_db_exec(db, q, params, count, &affected, err);
    return code != DF_OK ? code : affected == 1 ? DF_OK : lost_batch(err);
}

static enum df_code renew_lock(struct df_db *db, const struct owner_job *o, struct df_err *err)
{
    if (!o->renews_lock)
        return DF_OK;
    return df_db_exec(db, DF_Q(owner_renew_lock, .now = import_now(o->b), .id = batch_id(o->b)),
                      NULL, err);
}

static enum df_code renew_lease(struct df_db *db, const struct owner_job *o, struct df_err *err)
{
    const struct import_batch *b = o->b;
    enum df_code code = exec_owned(
        db, DF_Q(owner_renew, .now = import_now(b), .id = batch_id(b), .token = df_int(b->token)),
        err);
    return code == DF_OK ? renew_lock(db, o, err) : code;
}

static void prepare_job(struct owner_job *o)
{
    struct import_batch *b = o->b;

    assert(b->id.text[0] != '\0'); /* it was claimed */
    o->job.log = &b->log;
    o->renews_lock =
        !import_is_concurrent(b->imports) &&
        (b->locked_ms == 0 || import_mono_ms(b) - b->locked_ms >= import_renew_ms(b->imports));
    df_arena_init(&o->arena);
}

static void end_job(struct owner_job *o, enum df_code code)
{
    df_arena_release(&o->arena);
    if (code != DF_OK)
        return;
    o->b->renewed_ms = import_mono_ms(o->b);
    if (o->renews_lock)
        o->b->locked_ms = o->b->renewed_ms;
}

static enum df_code run_as_owner(struct owner_job *o, struct df_err *err)
{
    prepare_job(o);
    enum df_code code = df_store_write_wait(o->b->imports->opt.store, &o->job, err);
    end_job(o, code);
    return code;
}

/* --- the batch -------------------------------------------------------------------------------- */

static void read_batch_row(void *arg, struct df_result *r)
{
    struct import_batch *b = arg;
    struct df_arena *a = &b->arena;

    b->row = (struct import_row){
        .client = df_arena_str(a, df_col_text(r, owner_load_ClientIdentifier)),
        .client_id = df_arena_str(a, df_col_text(r, owner_load_ClientId)),
        .file_name = df_arena_str(a, df_col_text(r, owner_load_FileName)),
        .file_type = (enum df_file_type)df_col_int(r, owner_load_FileType),
        .upload_path = df_arena_str(a, df_col_text(r, owner_load_UploadPath)),
        .checksum = df_arena_str(a, df_col_text(r, owner_load_Checksum)),
        .origin = df_arena_str(a, df_col_text(r, owner_load_OriginDefault)),
        .sheet = df_arena_str(a, df_col_text(r, owner_load_Sheet)),
        .total =
            df_col_null(r, owner_load_TotalRecords) ? -1 : df_col_int(r, owner_load_TotalRecords),
        .batch_size = df_col_int(r, owner_load_BatchSize),
        .rules = df_col_int(r, owner_load_CutRules),
        .attempt = df_col_int(r, owner_load_Attempt),
        .again_from = df_col_int(r, owner_load_RetryFromChunk),
        .correlation_id = df_arena_str(a, df_col_text(r, owner_load_CorrelationId)),
        .metadata_correlation_id =
            df_arena_str(a, df_col_text(r, owner_load_MetadataCorrelationId)),
        .trace_id = df_arena_str(a, df_col_text(r, owner_load_TraceId)),
        .trace = df_span_stored(df_col_text(r, owner_load_TraceParent),
                                df_col_text(r, owner_load_TraceId), b->imports->opt.clock, NULL),
        .outage_since_ms = df_col_time(r, owner_load_OutageSince),
        .waiting_since_ms = df_col_time(r, owner_load_WaitingSince),
        .outage_tries = df_col_int(r, owner_load_OutageTries),
        .kept_left_ms =
            df_col_null(r, owner_load_KeptLeftMs) ? -1 : df_col_int(r, owner_load_KeptLeftMs),
        .mapping_json = df_arena_str(a, df_col_text(r, owner_load_MappingJson)),
    };
}

static void read_open(void *arg, struct df_result *r)
{
    struct import_batch *b = arg;
    struct import_earlier *e = &b->earlier;

    if (e->open_count++ >= MAX_OPEN)
        return;
    e->open[e->open_count - 1] = (struct import_open){
        .id = df_col_int(r, chunk_open_ChunkId),
        .offset = df_col_int(r, chunk_open_RecordOffset),
        .count = df_col_int(r, chunk_open_RecordCount),
        .hash = df_arena_str(&b->arena, df_col_text(r, chunk_open_ContentHash)),
        .status = df_col_int(r, chunk_open_Status),
        .attempts = df_col_int(r, chunk_open_Attempts),
        .ack_id = df_arena_str(&b->arena, df_col_text(r, chunk_open_AckId)),
        .sent_ms = df_col_time(r, chunk_open_SentAt),
        .ack = df_arena_str(&b->arena, df_col_text(r, chunk_open_AckJson)),
    };
}

static enum df_code load_open(struct df_db *db, struct import_batch *b, struct df_err *err)
{
    b->earlier.open = DF_ARENA_ARRAY(&b->arena, struct import_open, MAX_OPEN);
    b->earlier.open_count = 0;
    enum df_code code = df_db_each(db, DF_Q(chunk_open, .id = batch_id(b)), read_open, b, err);
    if (code == DF_OK && b->earlier.open_count > MAX_OPEN)
        return df_err_set(err, DF_E_INTERNAL, "more than %d chunks are open", MAX_OPEN);
    return code;
}

static void read_gap(void *arg, struct df_result *r)
{
    struct import_earlier *e = arg;
    int64_t next = df_col_int(r, chunk_gaps_ChunkId);

    if (e->gap_count++ >= MAX_OPEN)
        return;
    e->gaps[e->gap_count - 1] =
        (struct import_gap){.first = next - df_col_int(r, chunk_gaps_Step) + 1, .last = next - 1};
}

/* In a later attempt, a chunk without a row is cut again under another id. */
static enum df_code load_gaps(struct df_db *db, struct import_batch *b, struct df_err *err)
{
    struct import_earlier *e = &b->earlier;

    e->gap_count = 0;
    if (b->row.attempt > 1)
        return DF_OK;
    e->gaps = DF_ARENA_ARRAY(&b->arena, struct import_gap, MAX_OPEN);
    enum df_code code = df_db_each(db, DF_Q(chunk_gaps, .id = batch_id(b)), read_gap, e, err);
    if (code == DF_OK && e->gap_count > MAX_OPEN)
        return df_err_set(err, DF_E_INTERNAL, "more than %d gaps between chunks", MAX_OPEN);
    return code;
}

static enum df_code run_load(struct df_db *db, struct df_job *job, struct df_err *err)
{
    const struct owner_job *o = (struct owner_job *)job;
    struct import_batch *b = o->b;

    df_arena_reset(&b->arena);
    enum df_code code = renew_lease(db, o, err);
    if (code == DF_OK)
        code = df_db_one(db, DF_Q(owner_load, .id = batch_id(b)), read_batch_row, b, NULL, err);
    if (code == DF_OK)
        code = load_open(db, b, err);
    if (code == DF_OK)
        code = load_gaps(db, b, err);
    if (code == DF_OK)
        code =
            df_db_query_int(db, DF_Q(chunk_last, .id = batch_id(b)), &b->earlier.last_chunk, err);
    return code;
}

enum df_code import_load(struct import_batch *b, struct df_err *err)
{
    struct owner_job o = {.job = {.run = run_load}, .b = b};
    return run_as_owner(&o, err);
}

static enum df_code run_renew(struct df_db *db, struct df_job *job, struct df_err *err)
{
    return renew_lease(db, (struct owner_job *)job, err);
}

enum df_code import_renew(struct import_batch *b, struct df_err *err)
{
    struct owner_job o = {.job = {.run = run_renew}, .b = b};
    return run_as_owner(&o, err);
}

static enum df_code run_set_total(struct df_db *db, struct df_job *job, struct df_err *err)
{
    const struct import_batch *b = ((struct owner_job *)job)->b;
    char host[IMPORT_HOST_MAX + 1];

    import_host_name(b->imports, b->row.rules, host);
    return exec_owned(db,
                      DF_Q(owner_total, .total = df_int(b->row.total),
                           .rules = df_int(b->row.rules), .columns = df_text(b->row.columns),
                           .host = df_text(df_str_c(host)), .now = import_now(b), .id = batch_id(b),
                           .token = df_int(b->token)),
                      err);
}

enum df_code import_set_total(struct import_batch *b, struct df_err *err)
{
    struct owner_job o = {.job = {.run = run_set_total}, .b = b};
    return run_as_owner(&o, err);
}

/* --- chunks on their way ---------------------------------------------------------------------- */

/* Gives the items of a later attempt to their new chunk. */
static void assign_items(struct df_rows *assign, const struct import_chunk *c)
{
    for (size_t i = 0; i < c->count; i++)
        DF_ROWS_ADD(assign, again_assign, .chunk = df_int(c->id), .id = batch_id(c->batch),
                    .sequence = df_int(c->items[i].sequence));
}

static void add_chunk(struct df_rows *insert, const struct import_chunk *c, int64_t attempts)
{
    DF_ROWS_ADD(insert, chunk_insert, .id = batch_id(c->batch), .chunk = df_int(c->id),
                .offset = df_int(c->offset), .count = df_int(c->records),
                .hash = df_text(df_str_c(c->hash)), .status = df_int(DF_CHUNK_SENDING),
                .attempts = df_int(attempts), .sent_at = import_now(c->batch));
}

static void assert_states(const struct df_list *chunks, unsigned states)
{
    const struct import_chunk *c;

    assert(chunks->count > 0);
    DF_LIST_EACH (c, chunks, link)
        assert(states & IMPORT_IN(c->state));
}

static size_t items_in(const struct df_list *chunks)
{
    const struct import_chunk *c;
    size_t n = 0;
    DF_LIST_EACH (c, chunks, link)
        n += c->count;
    return n;
}

static enum df_code run_begin_sends(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct owner_job *o = (struct owner_job *)job;
    struct import_batch *b = o->b;
    df_arena_reset(&o->arena);
    struct df_rows insert = df_rows_for(&o->arena, &df_q_chunk_insert, o->chunks->count);
    struct df_rows attempt = df_rows_for(&o->arena, &df_q_chunk_attempt, o->chunks->count);
    struct df_rows assign =
        df_rows_for(&o->arena, &df_q_again_assign, b->row.attempt > 1 ? items_in(o->chunks) : 1);
    const struct import_chunk *c;

    DF_LIST_EACH (c, o->chunks, link) {
        if (c->has_row) {
            DF_ROWS_ADD(&attempt, chunk_attempt, .attempts = df_int(c->attempts + 1),
                        .now = import_now(b), .id = batch_id(b), .chunk = df_int(c->id));
            continue;
        }
        add_chunk(&insert, c, c->attempts + 1);
        if (b->row.attempt > 1)
            assign_items(&assign, c);
    }
    enum df_code code = df_rows_run(db, &insert, NULL, err);
    if (code == DF_OK)
        code = df_rows_run(db, &attempt, NULL, err);
    if (code == DF_OK)
        code = df_rows_run(db, &assign, NULL, err);
    return code == DF_OK ? renew_lease(db, o, err) : code;
}

enum df_code import_begin_sends(struct import_batch *b, struct df_list *chunks, struct df_err *err)
{
    struct owner_job o = {.job = {.run = run_begin_sends}, .b = b, .chunks = chunks};
    struct import_chunk *c;

    assert_states(chunks, IMPORT_IN(CHUNK_PERMITTED));
    DF_LIST_EACH (c, chunks, link)
        assert(!c->has_row || !b->settling);
    enum df_code code = run_as_owner(&o, err);
    if (code != DF_OK)
        return code;
    DF_LIST_EACH (c, chunks, link) {
        c->attempts++;
        c->tries++;
        c->has_row = true;
    }
    return DF_OK;
}

static enum df_code run_begin_wait(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct owner_job *o = (struct owner_job *)job;
    struct import_batch *b = o->b;
    df_arena_reset(&o->arena);
    struct df_rows await = df_rows_for(&o->arena, &df_q_chunk_await, o->chunks->count);
    struct df_rows early = df_rows_for(&o->arena, &df_q_chunk_early, o->chunks->count);
    const struct import_chunk *c;

    DF_LIST_EACH (c, o->chunks, link) {
        char *hash = df_arena_alloc(&o->arena, DF_CHECKSUM_LEN + 1);
        df_checksum_of(c->ack_id, hash);
        DF_ROWS_ADD(&await, chunk_await, .ack_id = df_text(c->ack_id), .now = import_now(b),
                    .id = batch_id(b), .chunk = df_int(c->id));
        DF_ROWS_ADD(&early, chunk_early, .id = batch_id(b), .chunk = df_int(c->id),
                    .hash = df_text(df_str_c(hash)), .now = import_now(b));
    }
    enum df_code code = df_rows_run(db, &await, NULL, err);
    if (code == DF_OK)
        code = df_rows_run(db, &early, NULL, err);
    return code == DF_OK ? renew_lease(db, o, err) : code;
}

enum df_code import_begin_wait(struct import_batch *b, struct df_list *chunks, struct df_err *err)
{
    struct owner_job o = {.job = {.run = run_begin_wait}, .b = b, .chunks = chunks};
    assert(!b->settling);
    assert_states(chunks, IMPORT_IN(CHUNK_NAMED));
    return run_as_owner(&o, err);
}

static void read_ack(void *arg, struct df_result *r)
{
    struct owner_job *o = arg;
    o->each(o->b, df_col_int(r, chunk_acked_ChunkId), df_col_text(r, chunk_acked_AckJson));
}

static enum df_code run_read_acks(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct owner_job *o = (struct owner_job *)job;
    return df_db_each(db, DF_Q(chunk_acked, .id = batch_id(o->b), .from_chunk = df_int(o->number)),
                      read_ack, o, err);
}

enum df_code import_read_acks(struct import_batch *b,
                              void (*each)(struct import_batch *b, int64_t chunk,
                                           struct df_str ack),
                              struct df_err *err)
{
    /* After a takeover an ack may come before its chunk is cut again: cutting finds it then. */
    struct owner_job o = {.job = {.run = run_read_acks}, .b = b, .number = INT64_MAX, .each = each};
    const struct import_chunk *c;

    if (b->hand.chunks.count == 0)
        return DF_OK;
    DF_LIST_EACH (c, &b->hand.chunks, link)
        o.number = c->id < o.number ? c->id : o.number;
    return df_store_read_wait(b->imports->opt.store, &o.job, err);
}

/* --- settling --------------------------------------------------------------------------------- */

struct counts {
    int64_t processed;
    int64_t errors;
    int64_t skipped;
    struct df_str last_error;
};

/* Counts the items of a chunk that was not settled before. */
static void count_chunk(struct counts *n, const struct import_chunk *c)
{
    bool again = c->batch->row.attempt > 1;

    for (size_t i = 0; i < c->count; i++) {
        const struct import_item *item = &c->items[i];
        bool failed = item->status == DF_ITEM_STATUS_ERROR;
        n->processed += again ? 0 : item->records;
        n->skipped += item->status == DF_ITEM_STATUS_SKIPPED ? item->records : 0;
        /* In a later attempt, every item was an error before. */
        n->errors += again ? -!failed : failed;
        if (failed)
            n->last_error = item->error;
    }
}

/* The rows that settle items. */
struct item_rows {
    struct df_rows insert; /* of a first attempt */
    struct df_rows kept;
    struct df_rows settle; /* of a later one */
    struct df_rows drop;   /* what is kept of items that arrived at last */
};

static struct item_rows item_rows_for(struct df_arena *a, size_t items, bool again)
{
    size_t first = again ? 1 : items, later = again ? items : 1;

    return (struct item_rows){.insert = df_rows_for(a, &df_q_item_insert, first),
                              .kept = df_rows_for(a, &df_q_kept_insert, first),
                              .settle = df_rows_for(a, &df_q_again_settle, later),
                              .drop = df_rows_for(a, &df_q_kept_drop, later)};
}

static enum df_code run_item_rows(struct df_db *db, const struct item_rows *r, struct df_err *err)
{
    const struct df_rows *const all[] = {&r->insert, &r->kept, &r->settle, &r->drop};
    enum df_code code = DF_OK;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && code == DF_OK; i++)
        code = df_rows_run(db, all[i], NULL, err);
    return code;
}

static struct df_value reason_of(const struct import_item *item)
{
    return df_text(item->code ? df_str_c(item->code) : DF_STR_NULL);
}

static void settle_again(struct item_rows *rows, const struct import_chunk *c,
                         const struct import_item *item, struct df_value error)
{
    bool failed = item->status == DF_ITEM_STATUS_ERROR;

    DF_ROWS_ADD(&rows->settle, again_settle, .status = df_int(item->status),
                .failed = df_int(failed), .error = error, .reason = reason_of(item),
                .chunk = df_int(c->id), .id = batch_id(c->batch),
                .sequence = df_int(item->sequence));
    if (!failed)
        DF_ROWS_ADD(&rows->drop, kept_drop, .id = batch_id(c->batch),
                    .sequence = df_int(item->sequence));
}

static void insert_item(struct item_rows *rows, const struct import_chunk *c,
                        const struct import_item *item, struct df_value error, struct df_arena *a)
{
    struct df_value id = batch_id(c->batch);
    bool masks = import_masks(c->batch);
    struct df_str json = masks ? import_masked_of(c, item) : import_item_json(c, item);
    struct df_str sealed = import_sealed_of(c, item);
    const char *hash = item->hash;

    if (!masks) {
        char *plain = df_arena_alloc(a, DF_CHECKSUM_LEN + 1);
        df_checksum_of(json, plain);
        hash = plain;
    }
    DF_ROWS_ADD(&rows->insert, item_insert, .id = id, .sequence = df_int(item->sequence),
                .payload = df_text(json), .status = df_int(item->status), .error = error,
                .chunk = item->sent ? df_int(c->id) : df_null(DF_INT),
                .hash = df_text(df_str_c(hash)), .masked = df_bool(masks),
                .records = item->records > 1 ? df_int(item->records) : df_null(DF_INT),
                .original = df_text(masks ? DF_STR_NULL : import_original_of(c, item)),
                .reason = reason_of(item),
                .row = item->row > 0 ? df_int(item->row) : df_null(DF_INT));
    if (sealed.ptr)
        DF_ROWS_ADD(&rows->kept, kept_insert, .id = id, .sequence = df_int(item->sequence),
                    .key = df_int(df_sealed_key(sealed)), .sealed = df_blob(sealed),
                    .now = import_now(c->batch));
}

static void add_items(struct item_rows *rows, const struct import_chunk *c, struct df_arena *a)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct import_item *item = &c->items[i];
        struct df_value error = df_text(df_mask_note(item->error, IMPORT_ERROR_UNITS, a));
        if (c->batch->row.attempt > 1)
            settle_again(rows, c, item, error);
        else
            insert_item(rows, c, item, error, a);
    }
}

/* Settles the chunks, and makes rows for those that were never sent. */
static enum df_code settle_chunks(struct df_db *db, struct import_settling *s, struct df_err *err)
{
    struct owner_job *o = &s->o;
    struct df_rows insert = df_rows_for(&o->arena, &df_q_chunk_insert, o->chunks->count);
    struct df_rows settle = df_rows_for(&o->arena, &df_q_chunk_settle, o->chunks->count);
    const struct import_batch *b = o->b;
    const struct import_chunk *c;

    DF_LIST_EACH (c, o->chunks, link) {
        if (!c->has_row)
            add_chunk(&insert, c, c->attempts);
        DF_ROWS_ADD(&settle, chunk_settle, .status = df_int(c->outcome),
                    .attempts = df_int(c->attempts), .error = note(o, c->error),
                    .now = import_now(b), .id = batch_id(b), .chunk = df_int(c->id),
                    .by_ack = df_int(c->state == CHUNK_ACKED));
    }
    enum df_code code = df_rows_run(db, &insert, NULL, err);
    return code == DF_OK ? df_rows_run(db, &settle, s->changed, err) : code;
}

static enum df_code add_progress(struct df_db *db, struct import_settling *s,
                                 const struct counts *n, struct df_err *err)
{
    const struct import_batch *b = s->o.b;

    return exec_owned(db,
                      DF_Q(owner_progress, .processed = df_int(n->processed),
                           .errors = df_int(n->errors), .skipped = df_int(n->skipped),
                           .error = note(&s->o, n->last_error), .well = df_int(s->answered),
                           .rate = s->rate < 0 ? df_null(DF_INT) : df_int(s->rate),
                           .now = import_now(b), .id = batch_id(b), .token = df_int(b->token)),
                      err);
}

/* The batch's row comes last: other commits of the owner, which write it too, wait for whoever has
 * written it. */
static enum df_code run_settle(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct import_settling *s = (struct import_settling *)job;
    struct owner_job *o = &s->o;
    const struct import_batch *b = o->b;
    const struct import_chunk *c;
    struct counts n = {0};
    size_t i = 0;

    df_arena_reset(&o->arena);
    struct item_rows rows = item_rows_for(&o->arena, items_in(o->chunks), b->row.attempt > 1);
    struct df_subject_items *people =
        DF_ARENA_ARRAY(&o->arena, struct df_subject_items, o->chunks->count);
    size_t people_count = 0;
    enum df_code code = settle_chunks(db, s, err);
    if (code != DF_OK)
        return code;
    DF_LIST_EACH (c, o->chunks, link) {
        if (s->changed[i++] == 0)
            continue;
        count_chunk(&n, c);
        add_items(&rows, c, &o->arena);
        people[people_count++] = (struct df_subject_items){
            .batch = df_uuid_str(&b->id), .chunk = c->id, .entries = df_buf_str(&c->subjects)};
    }
    code = run_item_rows(db, &rows, err);
    if (code == DF_OK)
        code = df_subjects_write_items(db, people, people_count, &o->arena, err);
    if (code == DF_OK)
        code = add_progress(db, s, &n, err);
    return code == DF_OK ? renew_lock(db, o, err) : code;
}

/* On the store's thread, or on the worker's when the store takes no work. */
static void settle_done(struct df_job *job, enum df_code code, const struct df_err *err)
{
    struct import_settling *s = (struct import_settling *)job;
    struct import_batch *b = s->o.b;
    struct df_imports *i = b->imports;

    df_lock(&i->lock);
    s->code = code;
    s->err = *err;
    b->mail.settled = true;
    pthread_cond_broadcast(&i->changed);
    df_unlock(&i->lock);
}

/* Counts the chunks' records in this second, and returns the records a second of the last minute of
 * this owner's work; -1: it has worked for too short a time. */
static int64_t measure_rate(struct import_batch *b, const struct df_list *chunks)
{
    struct import_rate *r = &b->rate;
    int64_t now_ms = import_mono_ms(b), now_s = now_ms / 1000, sum = 0;
    const struct import_chunk *c;

    DF_LIST_EACH (c, chunks, link)
        if (r->since_ms == 0)
            r->since_ms = c->first_ms;
    for (int64_t s = r->last_s + 1; s <= now_s && s <= r->last_s + IMPORT_RATE_SECONDS; s++)
        r->records[s % IMPORT_RATE_SECONDS] = 0;
    r->last_s = now_s;
    DF_LIST_EACH (c, chunks, link)
        r->records[now_s % IMPORT_RATE_SECONDS] += c->records;
    for (size_t i = 0; i < IMPORT_RATE_SECONDS; i++)
        sum += r->records[i];
    int64_t worked_ms = now_ms - r->since_ms;
    if (worked_ms > RATE_MOST_MS)
        worked_ms = RATE_MOST_MS;
    return worked_ms < RATE_LEAST_MS ? -1 : sum * 1000 / worked_ms;
}

void import_settle_start(struct import_batch *b, struct df_list *chunks)
{
    struct import_settling *s = df_calloc(1, sizeof(*s));
    struct import_chunk *c;

    DF_LIST_EACH (c, chunks, link)
        import_mask_chunk(c);
    assert(!b->settling && b->hand.settling.count == 0);
    assert_states(chunks, IMPORT_IN(CHUNK_JUDGED) | IMPORT_IN(CHUNK_ACKED));
    df_list_move(&b->hand.settling, chunks);
    s->o = (struct owner_job){
        .job = {.run = run_settle, .done = settle_done}, .b = b, .chunks = &b->hand.settling};
    s->answered = b->hand.answered;
    s->rate = measure_rate(b, &b->hand.settling);
    s->changed = df_calloc(b->hand.settling.count, sizeof(*s->changed));
    prepare_job(&s->o);
    b->settling = s;
    if (!df_store_write(b->imports->opt.store, &s->o.job)) {
        struct df_err err = DF_ERR_INIT;
        enum df_code code = df_err_set(&err, DF_E_BUSY, "the store takes no more work");
        settle_done(&s->o.job, code, &err);
    }
}

enum df_code import_settle_end(struct import_batch *b, struct df_list *passed_over,
                               struct df_err *err)
{
    struct import_settling *s = b->settling;
    enum df_code code = s->code;
    struct import_chunk *c;
    size_t i = 0;

    b->settling = NULL;
    *err = s->err;
    end_job(&s->o, code);
    DF_LIST_EACH (c, &b->hand.settling, link) {
        if (code == DF_OK && s->changed[i++] == 0) {
            df_list_remove(&b->hand.settling, &c->link);
            df_list_add(passed_over, &c->link);
        }
    }
    free(s->changed);
    free(s);
    return code;
}

/* --- the end ---------------------------------------------------------------------------------- */

/* The owner looks for the next batch itself, unless the process ends. In concurrent mode it may
 * take another client's, and other workers may take this client's. */
static enum df_code release_lock(struct df_db *db, const struct import_batch *b, struct df_err *err)
{
    bool concurrent = import_is_concurrent(b->imports);
    enum df_code code = DF_OK;

    if (concurrent || import_is_stopping(b->imports))
        code = import_announce_next(db, b->imports, &b->id, concurrent, err);
    if (code != DF_OK || concurrent)
        return code;
    return df_db_exec(db, DF_Q(claim_release, .locked = df_bool(false), .id = batch_id(b)), NULL,
                      err);
}

/* {"PhoneNumber: there is none": 12, …}, the most frequent first. */
static void write_reason(void *arg, struct df_result *r)
{
    struct df_json_out *out = arg;

    df_json_key_str(out, df_col_text(r, item_reasons_ErrorMessage));
    df_json_int(out, df_col_int(r, item_reasons_Items));
}

struct totals {
    int64_t errors;
    int64_t missing; /* records of the file that were never processed */
};

static void read_totals(void *arg, struct df_result *r)
{
    struct totals *t = arg;

    t->errors = df_col_int(r, owner_counts_ErrorCount);
    t->missing =
        df_col_int(r, owner_counts_TotalRecords) - df_col_int(r, owner_counts_ProcessedRecords);
}

/* Why the batch ends as Failed; absent: it does not. A batch that failed half-way stays incomplete
 * even if a later attempt sends all of its stored items. */
static struct df_str failure_of(struct owner_job *o, int64_t missing)
{
    if (o->b->why.ptr || missing <= 0)
        return o->b->why;
    return df_arena_printf(&o->arena, "%lld records of the file were never processed",
                           (long long)missing);
}

/* Writes the summary for people: why the batch failed, or why its items did. */
static enum df_code write_summary(struct df_db *db, const struct owner_job *o, struct df_str why,
                                  struct df_buf *summary, struct df_err *err)
{
    enum df_code code = DF_OK;
    struct df_json_out out;

    df_json_out_init(&out, summary);
    df_json_open(&out, '{');
    if (why.ptr) {
        df_json_key_str(&out, why);
        df_json_int(&out, 1);
    } else {
        code = df_db_each(db, DF_Q(item_reasons, .id = batch_id(o->b)), write_reason, &out, err);
    }
    df_json_close(&out, '}');
    return code;
}

/* The time for which failed records are kept runs from the end. A retry stops it, and it goes on
 * when the retry is over. */
static struct df_value kept_until(const struct import_batch *b, const struct totals *t)
{
    int64_t left_ms =
        b->row.kept_left_ms >= 0 ? b->row.kept_left_ms : b->imports->opt.payload_ttl_ms;

    if (t->errors == 0 || (!import_masks(b) && b->row.kept_left_ms < 0))
        return df_null(DF_TIME);
    return df_time(df_wall_ms(b->imports->opt.clock) + left_ms);
}

static enum df_code write_end(struct df_db *db, struct owner_job *o, const struct totals *t,
                              struct df_err *err)
{
    const struct import_batch *b = o->b;
    struct df_str why = df_mask_note(failure_of(o, t->missing), IMPORT_SUMMARY_UNITS, &o->arena);
    bool failed = why.ptr || t->errors > 0;
    struct df_buf summary;
    enum df_code code = DF_OK;

    o->status = why.ptr         ? DF_BATCH_FAILED
                : t->errors > 0 ? DF_BATCH_COMPLETED_WITH_ERRORS
                                : DF_BATCH_COMPLETED;
    df_buf_init(&summary, SUMMARY_MAX);
    if (failed)
        code = write_summary(db, o, why, &summary, err);
    if (code == DF_OK)
        code = exec_owned(db,
                          DF_Q(owner_finish, .status = df_int(o->status), .now = import_now(b),
                               .summary = df_text(failed ? df_buf_str(&summary) : DF_STR_NULL),
                               .error = df_text(why), .kept_until = kept_until(b, t),
                               .id = batch_id(b), .token = df_int(b->token)),
                          err);
    df_buf_release(&summary);
    return code;
}

static enum df_code run_finish(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct owner_job *o = (struct owner_job *)job;
    const struct import_batch *b = o->b;
    struct totals t = {0};

    df_arena_reset(&o->arena);
    o->told = false;
    if (df_store_failovers(b->imports->opt.store) != b->failovers)
        return df_err_set(err, DF_E_DB_UNAVAILABLE,
                          "another database server has taken over, which may lack chunks");
    enum df_code code =
        df_db_one(db, DF_Q(owner_counts, .id = batch_id(b)), read_totals, &t, NULL, err);
    if (code == DF_OK)
        code = write_end(db, o, &t, err);
    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(early_drop, .id = batch_id(b)), NULL, err);
    if (code == DF_OK)
        code = import_emit(db, b->imports->opt.clock, &b->id,
                           o->status == DF_BATCH_FAILED ? "BatchFailed" : "BatchCompleted",
                           &o->told, err);
    return code == DF_OK ? release_lock(db, b, err) : code;
}

enum df_code import_finish(struct import_batch *b, enum df_batch_status *ret_status,
                           struct df_err *err)
{
    struct owner_job o = {.job = {.run = run_finish}, .b = b};
    enum df_code code = run_as_owner(&o, err);
    *ret_status = o.status;
    if (code == DF_OK && o.told)
        df_webhooks_wake(b->imports->opt.webhooks);
    return code;
}

/* A process of the previous release sees a batch that it must not cut as locked until the lock's
 * timeout, and a batch that it may cut as free. */
static enum df_code give_batch_back(struct df_db *db, const struct import_batch *b, bool gives_way,
                                    struct df_err *err)
{
    struct df_value now = import_now(b);
    bool any = b->row.rules <= IMPORT_RULES_EACH;
    enum df_code code =
        exec_owned(db,
                   DF_Q(owner_give_back, .locked = any ? df_null(DF_TIME) : now,
                        .host = any ? df_text(df_str_c(b->imports->host)) : df_null(DF_TEXT),
                        .gave_way = gives_way ? now : df_null(DF_TIME), .now = now,
                        .id = batch_id(b), .token = df_int(b->token)),
                   err);
    if (code == DF_OK)
        code = import_announce(db, b->imports, &b->id, gives_way ? "gaveWay" : "givenBack", err);
    return code == DF_OK ? release_lock(db, b, err) : code;
}

static enum df_code run_give_back(struct df_db *db, struct df_job *job, struct df_err *err)
{
    return give_batch_back(db, ((struct owner_job *)job)->b, false, err);
}

enum df_code import_give_back(struct import_batch *b, struct df_err *err)
{
    struct owner_job o = {.job = {.run = run_give_back}, .b = b};
    return run_as_owner(&o, err);
}

static enum df_code run_give_way(struct df_db *db, struct df_job *job, struct df_err *err)
{
    return give_batch_back(db, ((struct owner_job *)job)->b, true, err);
}

enum df_code import_give_way(struct import_batch *b, struct df_err *err)
{
    struct owner_job o = {.job = {.run = run_give_way}, .b = b};
    return run_as_owner(&o, err);
}

static enum df_code run_others_wait(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct owner_job *o = (struct owner_job *)job;
    struct import_peer peer = import_peer_now(o->b->imports);

    return df_db_query_int(db,
                           DF_Q(turn_wanted, .now = import_now(o->b), .id = batch_id(o->b),
                                .well = df_time(peer.away ? 0 : peer.well_ms)),
                           &o->number, err);
}

enum df_code import_others_wait(struct import_batch *b, bool *ret, struct df_err *err)
{
    struct owner_job o = {.job = {.run = run_others_wait, .log = &b->log}, .b = b};
    enum df_code code = df_store_read_wait(b->imports->opt.store, &o.job, err);
    *ret = code == DF_OK && o.number > 0;
    return code;
}

struct shelving {
    struct owner_job o; /* first */
    int64_t since_ms;
};

static enum df_code run_shelve(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct shelving *s = (struct shelving *)job;
    const struct import_batch *b = s->o.b;
    enum df_code code =
        exec_owned(db,
                   DF_Q(owner_shelve, .since = df_time(s->since_ms), .tries = df_int(s->o.number),
                        .error = note(&s->o, b->why), .now = import_now(b), .id = batch_id(b),
                        .token = df_int(b->token)),
                   err);
    return code == DF_OK ? release_lock(db, b, err) : code;
}

enum df_code import_shelve(struct import_batch *b, int64_t since_ms, int64_t tries,
                           struct df_err *err)
{
    struct shelving s = {.o = {.job = {.run = run_shelve}, .b = b, .number = tries},
                         .since_ms = since_ms};
    return run_as_owner(&s.o, err);
}

static enum df_code run_postpone(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct owner_job *o = (struct owner_job *)job;
    const struct import_batch *b = o->b;
    enum df_code code =
        exec_owned(db,
                   DF_Q(owner_postpone, .due = df_time(o->number), .error = note(o, b->why),
                        .now = import_now(b), .id = batch_id(b), .token = df_int(b->token)),
                   err);
    return code == DF_OK ? release_lock(db, b, err) : code;
}

enum df_code import_postpone(struct import_batch *b, int64_t due_ms, struct df_err *err)
{
    struct owner_job o = {.job = {.run = run_postpone}, .b = b, .number = due_ms};
    return run_as_owner(&o, err);
}
