/*
 * What the owner of a batch commits. Every transaction that writes has a statement on the batch's
 * row that names the owner's token; where it finds no row the batch is somebody else's
 * (DF_E_NOT_FOUND), and nothing of the transaction happens.
 *
 * A job may run more than once: it computes everything afresh from the chunks, and changes none of
 * them.
 */
#include "base/mem.h"
#include "imports/batch_event.h"
#include "imports/process/process.sql.h"
#include "imports/process/process_private.h"
#include "store/rows.h"
#include "webhooks/webhooks.h"
#include "json/write.h"

#include <stdio.h>
#include <stdlib.h>

#define SUMMARY_MAX ((size_t)256 << 10)

struct owner_job {
    struct df_job job;
    struct import_batch *b;
    struct import_chunks *chunks;
    int64_t number;
    struct df_arena arena;
    enum df_batch_status status;
    void (*each)(struct import_batch *b, int64_t chunk, struct df_str ack);
    int64_t *changed; /* rows of each chunk */
    bool told;        /* webhooks are to be delivered */
};

static struct df_value batch_id(const struct import_batch *b)
{
    return df_uuid(df_uuid_str(&b->id));
}

static enum df_code lost_batch(struct df_err *err)
{
    return df_err_set(err, DF_E_NOT_FOUND, "the batch has another owner");
}

/* A statement that must find the owner's row. */
static enum df_code exec_owned(struct df_db *db, const struct df_query *q,
                               const struct df_value *params, size_t count, struct df_err *err)
{
    int64_t affected = 0;
    enum df_code code = df_db_exec(db, q, params, count, &affected, err);
    return code != DF_OK ? code : affected == 1 ? DF_OK : lost_batch(err);
}

static enum df_code renew_lease(struct df_db *db, const struct import_batch *b, struct df_err *err)
{
    struct df_value now = import_now(b);
    enum df_code code =
        exec_owned(db, &df_q_owner_renew, DF_PARAMS(now, batch_id(b), df_int(b->token)), err);
    if (code == DF_OK && !import_is_concurrent(b->imports))
        code = df_db_exec(db, &df_q_owner_renew_lock, DF_PARAMS(now, batch_id(b)), NULL, err);
    return code;
}

static enum df_code run_as_owner(struct owner_job *o, struct df_err *err)
{
    struct import_batch *b = o->b;

    o->job.log = &b->log;
    df_arena_init(&o->arena);
    enum df_code code = df_store_write_wait(b->imports->opt.store, &o->job, err);
    df_arena_release(&o->arena);
    if (code == DF_OK)
        b->renewed_ms = import_mono_ms(b);
    return code;
}

/* --- the batch -------------------------------------------------------------------------------- */

static struct df_str kept(struct import_batch *b, struct df_result *r, size_t col)
{
    return df_arena_str(&b->arena, df_col_text(r, col));
}

static enum df_code load_row(struct df_db *db, struct import_batch *b, struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code = df_db_query(db, &df_q_owner_load, DF_PARAMS(batch_id(b)), &r, err);
    if (code != DF_OK)
        return code;
    code = df_result_step(r, err);
    if (code == DF_ROW) {
        b->row.file_name = kept(b, r, 0);
        b->row.file_type = (enum df_file_type)df_col_int(r, 1);
        b->row.upload_path = kept(b, r, 2);
        b->row.checksum = kept(b, r, 3);
        b->row.origin = kept(b, r, 4);
        b->row.sheet = kept(b, r, 5);
        b->row.total = df_col_null(r, 6) ? -1 : df_col_int(r, 6);
        b->row.batch_size = df_col_int(r, 7);
        b->row.attempt = df_col_int(r, 8);
        b->row.again_from = df_col_int(r, 9);
        b->row.correlation_id = kept(b, r, 10);
        b->row.trace_id = kept(b, r, 11);
        b->row.client = kept(b, r, 12);
        b->row.rules = df_col_null(r, 13) ? 0 : df_col_int(r, 13);
    }
    df_result_free(r);
    return code == DF_ROW ? DF_OK : code == DF_DONE ? lost_batch(err) : code;
}

static enum df_code load_open(struct df_db *db, struct import_batch *b, struct df_err *err)
{
    enum { MOST = 4096 };
    struct df_result *r = NULL;
    enum df_code code = df_db_query(db, &df_q_chunk_open, DF_PARAMS(batch_id(b)), &r, err);
    if (code != DF_OK)
        return code;
    b->earlier.open = DF_ARENA_ARRAY(&b->arena, struct import_open, MOST);
    while ((code = df_result_step(r, err)) == DF_ROW && b->earlier.open_count < MOST)
        b->earlier.open[b->earlier.open_count++] = (struct import_open){
            .id = df_col_int(r, 0),
            .offset = df_col_int(r, 1),
            .count = df_col_int(r, 2),
            .hash = kept(b, r, 3),
            .status = df_col_int(r, 4),
            .attempts = df_col_int(r, 5),
            .ack_id = kept(b, r, 6),
            .sent_ms = df_col_time(r, 7),
            .ack = kept(b, r, 8),
        };
    df_result_free(r);
    return code == DF_DONE  ? DF_OK
           : code == DF_ROW ? df_err_set(err, DF_E_INTERNAL, "more than %d chunks are open", MOST)
                            : code;
}

static enum df_code run_load(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct import_batch *b = ((struct owner_job *)job)->b;

    df_arena_reset(&b->arena);
    b->earlier.open_count = 0;
    enum df_code code = renew_lease(db, b, err);
    if (code == DF_OK)
        code = load_row(db, b, err);
    if (code == DF_OK)
        code = load_open(db, b, err);
    if (code == DF_OK)
        code = df_db_query_int(db, &df_q_chunk_last, DF_PARAMS(batch_id(b)), &b->earlier.last_chunk,
                               err);
    return code;
}

enum df_code import_load(struct import_batch *b, struct df_err *err)
{
    struct owner_job o = {.job = {.run = run_load}, .b = b};
    return run_as_owner(&o, err);
}

static enum df_code run_renew(struct df_db *db, struct df_job *job, struct df_err *err)
{
    return renew_lease(db, ((struct owner_job *)job)->b, err);
}

enum df_code import_renew(struct import_batch *b, struct df_err *err)
{
    struct owner_job o = {.job = {.run = run_renew}, .b = b};
    return run_as_owner(&o, err);
}

static enum df_code run_total(struct df_db *db, struct df_job *job, struct df_err *err)
{
    const struct import_batch *b = ((struct owner_job *)job)->b;
    char host[IMPORT_HOST_MAX + 1];

    import_host_name(b->imports, b->row.rules, host);
    return exec_owned(db, &df_q_owner_total,
                      DF_PARAMS(df_int(b->row.total), df_int(b->row.rules), df_text(df_str_c(host)),
                                import_now(b), batch_id(b), df_int(b->token)),
                      err);
}

enum df_code import_set_total(struct import_batch *b, struct df_err *err)
{
    struct owner_job o = {.job = {.run = run_total}, .b = b};
    return run_as_owner(&o, err);
}

/* --- chunks on their way ---------------------------------------------------------------------- */

/* Items of a later attempt belong to their new chunk from now on. */
static void assign_items(struct df_rows *assign, const struct import_chunk *c)
{
    for (size_t i = 0; i < c->count; i++)
        df_rows_add(assign,
                    DF_PARAMS(df_int(c->id), batch_id(c->batch), df_int(c->items[i].sequence)));
}

static struct df_value *add_chunk(struct df_rows *insert, const struct import_chunk *c,
                                  enum df_chunk_status status)
{
    struct df_value *at = insert->params + insert->count * insert->query->param_count;
    df_rows_add(insert, DF_PARAMS(batch_id(c->batch), df_int(c->id), df_int(c->offset),
                                  df_int(c->records), df_text(df_str_c(c->hash)), df_int(status),
                                  df_int(c->attempts), import_now(c->batch)));
    return at;
}

static size_t items_in(const struct import_chunks *chunks)
{
    size_t n = 0;
    for (const struct import_chunk *c = chunks->head; c; c = c->next)
        n += c->count;
    return n;
}

static enum df_code run_sends(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct owner_job *o = (struct owner_job *)job;
    struct import_batch *b = o->b;
    df_arena_reset(&o->arena);
    struct df_rows insert = df_rows_for(&o->arena, &df_q_chunk_insert, o->chunks->count);
    struct df_rows attempt = df_rows_for(&o->arena, &df_q_chunk_attempt, o->chunks->count);
    struct df_rows assign =
        df_rows_for(&o->arena, &df_q_again_assign, b->row.attempt > 1 ? items_in(o->chunks) : 1);

    for (const struct import_chunk *c = o->chunks->head; c; c = c->next) {
        if (c->has_row) {
            df_rows_add(&attempt, DF_PARAMS(df_int(c->attempts + 1), import_now(b), batch_id(b),
                                            df_int(c->id)));
            continue;
        }
        struct df_value *row = add_chunk(&insert, c, DF_CHUNK_SENDING);
        row[6] = df_int(c->attempts + 1);
        if (b->row.attempt > 1)
            assign_items(&assign, c);
    }
    enum df_code code = renew_lease(db, b, err);
    if (code == DF_OK)
        code = df_rows_run(db, &insert, NULL, err);
    if (code == DF_OK)
        code = df_rows_run(db, &attempt, NULL, err);
    return code == DF_OK ? df_rows_run(db, &assign, NULL, err) : code;
}

enum df_code import_begin_sends(struct import_batch *b, struct import_chunks *chunks,
                                struct df_err *err)
{
    struct owner_job o = {.job = {.run = run_sends}, .b = b, .chunks = chunks};
    enum df_code code = run_as_owner(&o, err);
    for (struct import_chunk *c = chunks->head; c && code == DF_OK; c = c->next) {
        c->attempts++;
        c->tries++;
        c->has_row = true;
    }
    return code;
}

static enum df_code run_wait(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct owner_job *o = (struct owner_job *)job;
    struct import_batch *b = o->b;
    df_arena_reset(&o->arena);
    struct df_rows await = df_rows_for(&o->arena, &df_q_chunk_await, o->chunks->count);
    struct df_rows early = df_rows_for(&o->arena, &df_q_chunk_early, o->chunks->count);

    for (const struct import_chunk *c = o->chunks->head; c; c = c->next) {
        char *hash = df_arena_alloc(&o->arena, DF_CHECKSUM_LEN + 1);
        df_checksum_of(c->ack_id, hash);
        df_rows_add(&await,
                    DF_PARAMS(df_text(c->ack_id), import_now(b), batch_id(b), df_int(c->id)));
        df_rows_add(&early,
                    DF_PARAMS(batch_id(b), df_int(c->id), df_text(df_str_c(hash)), import_now(b)));
    }
    enum df_code code = renew_lease(db, b, err);
    if (code == DF_OK)
        code = df_rows_run(db, &await, NULL, err);
    return code == DF_OK ? df_rows_run(db, &early, NULL, err) : code;
}

enum df_code import_begin_wait(struct import_batch *b, struct import_chunks *chunks,
                               struct df_err *err)
{
    struct owner_job o = {.job = {.run = run_wait}, .b = b, .chunks = chunks};
    return run_as_owner(&o, err);
}

static enum df_code run_acks(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct owner_job *o = (struct owner_job *)job;
    struct df_result *r = NULL;
    enum df_code code =
        df_db_query(db, &df_q_chunk_acked, DF_PARAMS(batch_id(o->b), df_int(o->number)), &r, err);
    if (code != DF_OK)
        return code;
    while ((code = df_result_step(r, err)) == DF_ROW)
        o->each(o->b, df_col_int(r, 0), df_col_text(r, 1));
    df_result_free(r);
    return code == DF_DONE ? DF_OK : code;
}

enum df_code import_read_acks(struct import_batch *b,
                              void (*each)(struct import_batch *b, int64_t chunk,
                                           struct df_str ack),
                              struct df_err *err)
{
    /* After a takeover the ack may be quicker than the file is read: it is found with its chunk. */
    if (!b->hand.chunks.head)
        return DF_OK;
    struct owner_job o = {
        .job = {.run = run_acks}, .b = b, .number = b->hand.chunks.head->id, .each = each};
    for (const struct import_chunk *c = b->hand.chunks.head->next; c; c = c->next)
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

/* Of a chunk that is settled now and was not before. */
static void count_chunk(struct counts *n, const struct import_chunk *c)
{
    bool again = c->batch->row.attempt > 1;

    for (size_t i = 0; i < c->count; i++) {
        const struct import_item *item = &c->items[i];
        bool failed = item->status == DF_ITEM_STATUS_ERROR;
        n->processed += again ? 0 : item->records;
        n->skipped += item->status == DF_ITEM_STATUS_SKIPPED ? item->records : 0;
        /* In a later attempt all of them were errors before. */
        n->errors += again ? -!failed : failed;
        if (failed)
            n->last_error = item->error;
    }
}

static void add_items(struct df_rows *insert, struct df_rows *settle, const struct import_chunk *c,
                      struct df_arena *a)
{
    struct df_value id = batch_id(c->batch);

    for (size_t i = 0; i < c->count; i++) {
        const struct import_item *item = &c->items[i];
        if (c->batch->row.attempt > 1) {
            df_rows_add(settle, DF_PARAMS(df_int(item->status), df_text(item->error), df_int(c->id),
                                          id, df_int(item->sequence)));
            continue;
        }
        struct df_str json = import_item_json(c, item);
        char *hash = df_arena_alloc(a, DF_CHECKSUM_LEN + 1);
        df_checksum_of(json, hash);
        df_rows_add(insert,
                    DF_PARAMS(id, df_int(item->sequence), df_text(json), df_int(item->status),
                              df_text(item->error), item->sent ? df_int(c->id) : df_null(DF_INT),
                              df_text(df_str_c(hash)),
                              item->records > 1 ? df_int(item->records) : df_null(DF_INT)));
    }
}

/* Rows of chunks that were never sent are made here. */
static enum df_code settle_chunks(struct df_db *db, struct owner_job *o, struct df_err *err)
{
    struct df_rows insert = df_rows_for(&o->arena, &df_q_chunk_insert, o->chunks->count);
    struct df_rows settle = df_rows_for(&o->arena, &df_q_chunk_settle, o->chunks->count);
    const struct import_batch *b = o->b;

    for (const struct import_chunk *c = o->chunks->head; c; c = c->next) {
        if (!c->has_row)
            add_chunk(&insert, c, DF_CHUNK_SENDING);
        df_rows_add(&settle, DF_PARAMS(df_int(c->outcome), df_int(c->attempts), df_text(c->error),
                                       import_now(b), batch_id(b), df_int(c->id),
                                       df_int(c->state == CHUNK_ACKED)));
    }
    enum df_code code = df_rows_run(db, &insert, NULL, err);
    return code == DF_OK ? df_rows_run(db, &settle, o->changed, err) : code;
}

static enum df_code run_settle(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct owner_job *o = (struct owner_job *)job;
    struct import_batch *b = o->b;
    struct counts n = {0};
    size_t i = 0;

    df_arena_reset(&o->arena);
    size_t items = items_in(o->chunks);
    struct df_rows insert =
        df_rows_for(&o->arena, &df_q_item_insert, b->row.attempt > 1 ? 1 : items);
    struct df_rows settle =
        df_rows_for(&o->arena, &df_q_again_settle, b->row.attempt > 1 ? items : 1);
    enum df_code code = settle_chunks(db, o, err);
    if (code != DF_OK)
        return code;
    for (const struct import_chunk *c = o->chunks->head; c; c = c->next) {
        if (o->changed[i++] == 0)
            continue;
        count_chunk(&n, c);
        add_items(&insert, &settle, c, &o->arena);
    }
    code = exec_owned(db, &df_q_owner_progress,
                      DF_PARAMS(df_int(n.processed), df_int(n.errors), df_int(n.skipped),
                                df_text(df_utf8_cut(n.last_error, IMPORT_SUMMARY_UNITS)),
                                import_now(b), batch_id(b), df_int(b->token)),
                      err);
    if (code == DF_OK && !import_is_concurrent(b->imports))
        code = df_db_exec(db, &df_q_owner_renew_lock, DF_PARAMS(import_now(b), batch_id(b)), NULL,
                          err);
    if (code == DF_OK)
        code = df_rows_run(db, &insert, NULL, err);
    return code == DF_OK ? df_rows_run(db, &settle, NULL, err) : code;
}

enum df_code import_settle(struct import_batch *b, struct import_chunks *chunks,
                           struct import_chunks *ret_passed_over, struct df_err *err)
{
    struct owner_job o = {.job = {.run = run_settle}, .b = b, .chunks = chunks};
    struct import_chunks all = *chunks;
    struct import_chunk *c;

    import_chunks_init(ret_passed_over);
    o.changed = df_calloc(chunks->count, sizeof(*o.changed));
    enum df_code code = run_as_owner(&o, err);
    import_chunks_init(chunks);
    for (size_t i = 0; (c = import_chunks_take(&all)); i++)
        import_chunks_add(code == DF_OK && o.changed[i] == 0 ? ret_passed_over : chunks, c);
    free(o.changed);
    return code;
}

/* --- the end ---------------------------------------------------------------------------------- */

static enum df_code release_lock(struct df_db *db, const struct import_batch *b, struct df_err *err)
{
    if (import_is_concurrent(b->imports))
        return DF_OK;
    return df_db_exec(db, &df_q_claim_release, DF_PARAMS(df_bool(false), batch_id(b)), NULL, err);
}

/* {"PhoneNumber: there is none": 12, …}: what failed most often first. */
static enum df_code summarise(struct df_db *db, const struct import_batch *b,
                              struct df_json_out *out, struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code = df_db_query(db, &df_q_item_reasons, DF_PARAMS(batch_id(b)), &r, err);
    if (code != DF_OK)
        return code;
    while ((code = df_result_step(r, err)) == DF_ROW) {
        df_json_key_str(out, df_col_text(r, 0));
        df_json_int(out, df_col_int(r, 1));
    }
    df_result_free(r);
    return code == DF_DONE ? DF_OK : code;
}

static enum df_code read_counts(struct df_db *db, const struct import_batch *b, int64_t *ret_errors,
                                int64_t *ret_missing, struct df_err *err)
{
    struct df_result *r = NULL;
    enum df_code code = df_db_query(db, &df_q_owner_counts, DF_PARAMS(batch_id(b)), &r, err);
    if (code != DF_OK)
        return code;
    code = df_result_step(r, err);
    if (code == DF_ROW) {
        *ret_errors = df_col_int(r, 0);
        *ret_missing = df_col_int(r, 2) - df_col_int(r, 1);
    }
    df_result_free(r);
    return code == DF_ROW ? DF_OK : code == DF_DONE ? lost_batch(err) : code;
}

/* Why it ends as Failed; absent: it does not. One that failed half-way does not become whole by a
 * later attempt at what had been sent. */
static struct df_str failure_of(struct owner_job *o, int64_t missing)
{
    if (o->b->why.ptr || missing <= 0)
        return o->b->why;
    return df_arena_printf(&o->arena, "%lld records of the file were never processed",
                           (long long)missing);
}

static enum df_code run_finish(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct owner_job *o = (struct owner_job *)job;
    const struct import_batch *b = o->b;
    struct df_buf summary;
    struct df_json_out out;
    int64_t errors = 0;
    int64_t missing = 0;

    df_arena_reset(&o->arena);
    enum df_code code = read_counts(db, b, &errors, &missing, err);
    if (code != DF_OK)
        return code;
    struct df_str why = failure_of(o, missing);
    df_buf_init(&summary, SUMMARY_MAX);
    df_json_out_init(&out, &summary);
    df_json_open(&out, '{');
    if (why.ptr) {
        df_json_key_str(&out, why);
        df_json_int(&out, 1);
    } else if (errors > 0) {
        code = summarise(db, b, &out, err);
    }
    df_json_close(&out, '}');
    o->status = why.ptr      ? DF_BATCH_FAILED
                : errors > 0 ? DF_BATCH_COMPLETED_WITH_ERRORS
                             : DF_BATCH_COMPLETED;
    if (code == DF_OK)
        code = exec_owned(
            db, &df_q_owner_finish,
            DF_PARAMS(df_int(o->status), import_now(b),
                      df_text(errors > 0 || why.ptr ? df_buf_str(&summary) : DF_STR_NULL),
                      df_text(why), batch_id(b), df_int(b->token)),
            err);
    df_buf_release(&summary);
    if (code == DF_OK)
        code = df_db_exec(db, &df_q_early_drop, DF_PARAMS(batch_id(b)), NULL, err);
    o->told = false;
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

/* To a process of the release before a batch that it must not cut looks taken for as long as a lock
 * may be; one that it may cut is free. */
static enum df_code give_batch_back(struct df_db *db, const struct import_batch *b, bool gives_way,
                                    struct df_err *err)
{
    struct df_value now = import_now(b);
    bool any = b->row.rules <= IMPORT_RULES_EACH;
    enum df_code code = exec_owned(
        db, &df_q_owner_give_back,
        DF_PARAMS(any ? df_null(DF_TIME) : now,
                  any ? df_text(df_str_c(b->imports->host)) : df_null(DF_TEXT),
                  gives_way ? now : df_null(DF_TIME), now, batch_id(b), df_int(b->token)),
        err);
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

static enum df_code run_others(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct owner_job *o = (struct owner_job *)job;
    return df_db_query_int(db, &df_q_turn_wanted, DF_PARAMS(import_now(o->b), batch_id(o->b)),
                           &o->number, err);
}

enum df_code import_others_wait(struct import_batch *b, bool *ret, struct df_err *err)
{
    struct owner_job o = {.job = {.run = run_others, .log = &b->log}, .b = b};
    enum df_code code = df_store_read_wait(b->imports->opt.store, &o.job, err);
    *ret = code == DF_OK && o.number > 0;
    return code;
}

static enum df_code run_postpone(struct df_db *db, struct df_job *job, struct df_err *err)
{
    const struct owner_job *o = (struct owner_job *)job;
    const struct import_batch *b = o->b;
    enum df_code code = exec_owned(db, &df_q_owner_postpone,
                                   DF_PARAMS(df_time(o->number), df_text(b->why), import_now(b),
                                             batch_id(b), df_int(b->token)),
                                   err);
    return code == DF_OK ? release_lock(db, b, err) : code;
}

enum df_code import_postpone(struct import_batch *b, int64_t due_ms, struct df_err *err)
{
    struct owner_job o = {.job = {.run = run_postpone}, .b = b, .number = due_ms};
    return run_as_owner(&o, err);
}
