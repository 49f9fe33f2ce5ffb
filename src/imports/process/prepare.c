/*
 * A batch before its first chunk: loaded, its file brought here if it waited elsewhere, compared
 * with its checksum, and read once to its end. And what is common to all of its work: the lease,
 * and what an error makes of the batch.
 */
#include "imports/process/process_private.h"

#define LOOK_EVERY  4096 /* records of the first reading between looks at the clock */
#define POSTPONE_MS 60000

/* Of all batches of the process together, and the least of one. */
#define SEEN_BYTES    ((size_t)24 << 20)
#define STRINGS_BYTES ((size_t)12 << 20)
#define SHARE_LEAST   ((size_t)1 << 20)

#define GROWTH_FREE   ((uint64_t)64 << 20) /* bytes of records that any file may have */
#define RECORD_BYTES  128                  /* of an item and its row, beside the record's own */
#define FIELD_BYTES   8

bool import_is_stopping(struct df_imports *i)
{
    df_lock(&i->lock);
    bool stopping = i->stopping;
    df_unlock(&i->lock);
    return stopping;
}

enum import_end import_fail_batch(struct import_batch *b, const struct df_err *err)
{
    const char *outside = df_err_outside(err);

    if (outside != err->detail)
        df_log_error("BatchUnreadable", "%s", err->detail);
    b->fatal = df_arena_str(&b->arena, df_utf8_cut(df_str_c(outside), IMPORT_SUMMARY_UNITS));
    return IMPORT_FINISHED;
}

/* What the database said, as an end. */
enum import_end import_ended_by(enum df_code code, const struct df_err *err)
{
    if (code == DF_E_NOT_FOUND)
        return IMPORT_LOST;
    df_log_error("BatchInterrupted", "%s", err->detail);
    return IMPORT_BROKEN;
}

/* A key or credentials that are missing are no fault of the file's: with the batch Failed it would
 * be removed. */
bool import_is_passing(enum df_code code)
{
    return code == DF_E_CONFIG || df_code_retry(code) != DF_RETRY_NEVER;
}

/* The file cannot be had just now: it goes on waiting, and keeps nobody else from working. */
static enum import_end put_off(struct import_batch *b, const struct df_err *why)
{
    struct df_err err = DF_ERR_INIT;

    df_log_warn("FileUnavailable", "%s", why->detail);
    enum df_code code = import_postpone(b, df_wall_ms(b->imports->opt.clock) + POSTPONE_MS,
                                        df_err_outside(why), &err);
    return code == DF_OK ? IMPORT_POSTPONED : import_ended_by(code, &err);
}

static enum import_end end_by_file(struct import_batch *b, enum df_code code,
                                   const struct df_err *err)
{
    return import_is_passing(code) ? put_off(b, err) : import_fail_batch(b, err);
}

/* A file that waited elsewhere. */
static bool fetch(struct import_batch *b, enum import_end *ret)
{
    const struct df_imports_options *o = &b->imports->opt;
    struct df_err err = DF_ERR_INIT;

    if (!b->upload_path.ptr || !df_str_starts(b->upload_path, DF_STR("s3://")))
        return true;
    const char *location = df_arena_cstr(&b->arena, b->upload_path);
    enum df_code code =
        df_storage_fetch_scheduled(o->storage, &b->id, b->file_name, location, &err);
    if (code == DF_OK)
        return true; /* the other copy goes at the end, with this one */
    *ret = end_by_file(b, code, &err);
    return false;
}

size_t import_share(const struct df_imports *i, size_t bytes, size_t least)
{
    size_t share = import_is_concurrent(i) ? bytes / (size_t)i->opt.settings.workers : bytes;
    return share > least ? share : least;
}

static enum df_code open_records(struct import_batch *b, struct df_err *err)
{
    struct df_records_options opt = {
        .sheet = b->sheet,
        .temp_dir = b->imports->opt.data_dir,
        .strings_bytes = import_share(b->imports, STRINGS_BYTES, SHARE_LEAST),
        .unguard = b->rules >= IMPORT_RULES_RUNS,
    };

    if (b->rules < IMPORT_RULES_RUNS)
        opt.limits.max_rows =
            UINT64_MAX; /* it was begun before there was a limit, or is under it */
    df_records_free(b->records);
    b->records = NULL;
    b->has_after_run = false;
    return df_records_open(b->file_type, df_stored_bytes(b->file), &opt, &b->records, err);
}

/* Renews the lease now and then; false: *ret says why not. */
bool import_keep_lease(struct import_batch *b, enum import_end *ret)
{
    struct df_err err = DF_ERR_INIT;

    if (import_is_stopping(b->imports)) {
        *ret = IMPORT_STOPPED;
        return false;
    }
    if (import_mono_ms(b) - b->renewed_ms < IMPORT_RENEW_MS)
        return true;
    enum df_code code = import_renew(b, &err);
    if (code == DF_OK)
        return true;
    *ret = import_ended_by(code, &err);
    return false;
}

/* What the first reading finds. */
struct tally {
    int64_t records;
    int64_t items;
    uint64_t bytes; /* about what the items and their rows will have */
    bool has_runs;
};

static uint64_t bytes_of(const struct df_record *record)
{
    uint64_t bytes = RECORD_BYTES;

    for (size_t i = 0; i < record->count; i++)
        bytes += record->fields[i].name.len + record->fields[i].text.len + FIELD_BYTES;
    return bytes;
}

/* A few bytes may stand for very many records, and for very long ones: a workbook is packed and has
 * each text once, a table has the names of its columns once. */
static enum df_code check_growth(const struct import_batch *b, const struct tally *t,
                                 struct df_err *err)
{
    uint64_t size = df_stored_bytes(b->file)->size;
    uint64_t most = size * (uint64_t)b->imports->opt.settings.max_growth;

    if (t->items > b->max_records)
        return df_err_set(
            err, DF_E_TOO_LARGE,
            "the file has more than %lld records, which is the limit of %s; divide it",
            (long long)b->max_records,
            b->max_by_policy ? "the client's policy (maxRecords)"
                             : "this server (imports.max_records)");
    if (t->bytes > (most > GROWTH_FREE ? most : GROWTH_FREE))
        return df_err_set(err, DF_E_TOO_LARGE,
                          "the file's %llu bytes grow into records of more than %llu "
                          "(imports.max_growth)",
                          (unsigned long long)size,
                          (unsigned long long)(most > GROWTH_FREE ? most : GROWTH_FREE));
    return DF_OK;
}

static enum df_code tally_records(struct import_batch *b, struct tally *t, struct df_err *err)
{
    struct df_record record;
    int64_t count = 0;
    enum df_code code = open_records(b, err);

    while (code == DF_OK && (code = import_next_record(b, &record, &count, err)) == DF_ROW) {
        t->records += count;
        t->has_runs = t->has_runs || count > 1;
        t->bytes += bytes_of(&record);
        if (++t->items % LOOK_EVERY == 0 && !import_keep_lease(b, &b->interrupted))
            return df_err_set(err, DF_E_CANCELLED, "reading was given up");
        code = check_growth(b, t, err);
    }
    return code;
}

/* Reads all of it once: nothing is sent of a file that is broken, or over a limit, anywhere. */
static bool count_records(struct import_batch *b, enum import_end *ret)
{
    struct df_err err = DF_ERR_INIT;
    struct tally t = {0};

    b->rules = IMPORT_RULES_NEWEST;
    enum df_code code = tally_records(b, &t, &err);
    if (code != DF_DONE) {
        *ret = code == DF_E_CANCELLED ? b->interrupted : end_by_file(b, code, &err);
        return false;
    }
    b->total = t.records;
    b->rules = t.has_runs || b->records->unguarded ? IMPORT_RULES_RUNS : IMPORT_RULES_EACH;
    code = import_set_total(b, &err);
    if (code == DF_OK)
        return true;
    *ret = import_ended_by(code, &err);
    return false;
}

static bool check_file(struct import_batch *b, enum import_end *ret)
{
    struct df_storage *st = b->imports->opt.storage;
    char found[DF_CHECKSUM_LEN + 1];
    struct df_err err = DF_ERR_INIT;
    uint64_t size = 0;

    enum df_code code = df_storage_checksum(st, &b->id, b->file_name, found, &size, &err);
    if (code == DF_OK && b->checksum.ptr && !df_str_eq(b->checksum, df_str_c(found)))
        code = df_err_set(&err, DF_E_VALIDATION,
                          "the stored file is not the one that was uploaded: its checksum differs");
    if (code == DF_OK)
        code = df_storage_open(st, &b->id, b->file_name, &b->file, &err);
    if (code == DF_OK)
        return true;
    *ret = end_by_file(b, code, &err);
    return false;
}

/* True: there are chunks to be cut. */
bool import_prepare(struct import_batch *b, enum import_end *ret)
{
    struct df_err err = DF_ERR_INIT;
    enum df_code code = import_load(b, &err);

    if (code != DF_OK) {
        *ret = import_ended_by(code, &err);
        return false;
    }
    df_log_ctx_set(&b->log, "clientId", b->client);
    df_log_ctx_set(&b->log, "batchId", df_uuid_str(&b->id));
    df_log_ctx_set(&b->log, "correlationId", b->correlation_id);
    df_log_ctx_set(&b->log, "traceId", b->trace_id);
    df_log_info("BatchProcessingStarted", "attempt %lld", (long long)b->attempt);
    b->next_chunk = 1;
    if (b->attempt > 1) {
        b->next_chunk = b->last_chunk + 1 > b->again_from ? b->last_chunk + 1 : b->again_from;
        b->next_sequence = -1;
        return true;
    }
    /* One that was counted by the release before and has no chunk yet is counted again, so that its
     * rules and limits hold. */
    if (b->rules == 0 && b->last_chunk > 0)
        b->rules = IMPORT_RULES_EACH;
    bool counted = b->total >= 0 && b->rules > 0;
    if (!fetch(b, ret) || !check_file(b, ret) || (!counted && !count_records(b, ret)))
        return false;
    if ((code = open_records(b, &err)) != DF_OK) {
        *ret = end_by_file(b, code, &err);
        return false;
    }
    b->normaliser = df_normaliser_new(&(struct df_normalise_options){
        .origin_default = b->origin,
        .temp_dir = b->imports->opt.data_dir,
        .seen_bytes = import_share(b->imports, SEEN_BYTES, SHARE_LEAST)});
    return true;
}
