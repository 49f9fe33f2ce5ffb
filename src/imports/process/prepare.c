/*
 * A batch before its first chunk: its row is loaded, its file fetched if it is in the outside
 * storage, compared with its checksum, and read once to its end. Here are also the lease and the
 * effect of a file's error, which all of the batch's work needs.
 */
#include "imports/process/process_private.h"

#define LOOK_EVERY 4096 /* records of the first reading between checks of the lease */

/* For all batches of the process together, and the least for one. */
#define SEEN_BYTES    ((size_t)24 << 20)
#define STRINGS_BYTES ((size_t)12 << 20)
#define SHARE_LEAST   ((size_t)1 << 20)

#define GROWTH_FREE   ((uint64_t)64 << 20) /* bytes of records that every file may have */
#define RECORD_BYTES  128                  /* of an item and its row, beside the record's text */
#define FIELD_BYTES   8

bool import_is_outside(const struct import_batch *b)
{
    return b->row.upload_path.ptr && df_str_starts(b->row.upload_path, DF_STR("s3://"));
}

bool import_is_stopping(struct df_imports *i)
{
    df_lock(&i->lock);
    bool stopping = i->stopping;
    df_unlock(&i->lock);
    return stopping;
}

bool import_must_leave(const struct import_batch *b)
{
    return import_is_stopping(b->imports) ||
           df_store_failovers(b->imports->opt.store) != b->failovers;
}

static void keep_batch_reason(struct import_batch *b, const struct df_err *err)
{
    b->why =
        df_arena_str(&b->arena, df_utf8_cut(df_str_c(df_err_outside(err)), IMPORT_SUMMARY_UNITS));
}

void import_fail_batch(struct import_batch *b, const struct df_err *err)
{
    if (df_err_outside(err) != err->detail)
        df_log_error("BatchUnreadable", "%s", err->detail);
    keep_batch_reason(b, err);
    (void)import_batch_happens(b, BATCH_EV_FILE_BAD);
}

/* A missing key or missing credentials (DF_E_CONFIG) are not the file's fault, and a Failed batch
 * would lose its file. */
bool import_is_retryable(enum df_code code)
{
    return code == DF_E_CONFIG || df_code_retry(code) != DF_RETRY_NEVER;
}

/* Fails the batch for a bad file, or postpones it for one that is not available. Returns false. */
static bool end_by_file(struct import_batch *b, enum df_code code, const struct df_err *err)
{
    if (!import_is_retryable(code)) {
        import_fail_batch(b, err);
        return false;
    }
    df_log_warn("FileUnavailable", "%s", err->detail);
    keep_batch_reason(b, err);
    return import_batch_happens(b, BATCH_EV_FILE_AWAY);
}

static bool may_fetch_on(void *arg)
{
    return import_keep_lease(arg);
}

/* Fetches a file that is in the outside storage. */
static bool fetch_file(struct import_batch *b)
{
    const struct df_imports_options *o = &b->imports->opt;
    const struct df_storage_watch watch = {may_fetch_on, b};
    struct df_err err = DF_ERR_INIT;

    if (!import_is_outside(b))
        return true;
    const char *location = df_arena_cstr(&b->arena, b->row.upload_path);
    enum df_code code =
        df_storage_fetch(o->storage, &b->id, b->row.file_name, location, &watch, &err);
    if (import_batch_has_ended(b->state))
        return false; /* fetching was given up */
    if (code == DF_E_CANCELLED)
        return import_batch_happens(b, BATCH_EV_STOP); /* the process ends */
    if (code == DF_OK)
        return true; /* the outside copy is removed at the end, with this one */
    return end_by_file(b, code, &err);
}

size_t import_share(const struct df_imports *i, size_t bytes, size_t least)
{
    size_t share = import_is_concurrent(i) ? bytes / (size_t)i->opt.settings.workers : bytes;
    return share > least ? share : least;
}

static enum df_code open_records(struct import_batch *b, struct df_err *err)
{
    struct df_records_options opt = {
        .sheet = b->row.sheet,
        .temp_dir = b->imports->opt.data_dir,
        .strings_bytes = import_share(b->imports, STRINGS_BYTES, SHARE_LEAST),
        .unguard = b->row.rules >= IMPORT_RULES_RUNS,
        .drop_own = b->row.rules >= IMPORT_RULES_REPORTS,
    };

    if (b->row.rules < IMPORT_RULES_RUNS)
        opt.limits.max_rows = UINT64_MAX; /* the batch is older than the limit, or within it */
    df_records_free(b->reading.records);
    b->reading.records = NULL;
    b->reading.has_after_run = false;
    return df_records_open(b->row.file_type, df_stored_bytes(b->reading.file), &opt,
                           &b->reading.records, err);
}

/* The room of the locks extends it. When it could not, others may work on the batch soon. */
bool import_keep_lock(struct import_batch *b)
{
    if (df_lease_left_ms(b->imports->opt.locks, &b->lease) > 0)
        return true;
    return import_batch_happens(b, BATCH_EV_LOST);
}

bool import_keep_lease(struct import_batch *b)
{
    struct df_err err = DF_ERR_INIT;

    if (import_must_leave(b)) {
        (void)import_batch_happens(b, BATCH_EV_STOP);
        return false;
    }
    if (!import_keep_lock(b))
        return false;
    if (import_mono_ms(b) - b->renewed_ms < import_renew_ms(b->imports))
        return true;
    enum df_code code = import_renew(b, &err);
    return code == DF_OK || import_batch_fails(b, code, &err);
}

/* What the first reading finds. */
struct tally {
    int64_t records;
    int64_t items;
    uint64_t bytes; /* estimated, of the items and their rows */
    bool has_runs;
};

static uint64_t record_bytes(const struct df_record *record)
{
    uint64_t bytes = RECORD_BYTES;

    for (size_t i = 0; i < record->count; i++)
        bytes += record->fields[i].name.len + record->fields[i].text.len + FIELD_BYTES;
    return bytes;
}

/* A few bytes of a file may become very many or very long records: a workbook is packed and has
 * each text only once, and a table has the names of its columns only once. */
static enum df_code check_growth(const struct import_batch *b, const struct tally *t,
                                 struct df_err *err)
{
    uint64_t size = df_stored_bytes(b->reading.file)->size;
    uint64_t most = size * (uint64_t)b->imports->opt.settings.max_growth;

    if (t->items > b->reading.max_records)
        return df_err_set(
            err, DF_E_TOO_LARGE,
            "the file has more than %lld records, which is the limit of %s; divide it",
            (long long)b->reading.max_records,
            b->reading.max_by_policy ? "the client's policy (maxRecords)"
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
        t->bytes += record_bytes(&record);
        if (++t->items % LOOK_EVERY == 0 && !import_keep_lease(b))
            return df_err_set(err, DF_E_CANCELLED, "reading was given up");
        code = check_growth(b, t, err);
    }
    return code;
}

static void end_parse(struct df_span *span, const struct import_batch *b, const struct tally *t,
                      enum df_code code)
{
    if (!span->recording)
        return;
    df_span_text(span, "dataflow.batch.id", df_uuid_str(&b->id));
    df_span_text(span, "dataflow.client.id", b->row.client);
    df_span_int(span, "dataflow.records", t->records);
    df_span_bool(span, "dataflow.file.outside", import_is_outside(b));
    df_span_int(span, "dataflow.file.bytes", (int64_t)df_stored_bytes(b->reading.file)->size);
    if (code != DF_DONE) {
        df_span_text(span, "error.type", df_str_c(df_code_name(code)));
        df_span_fail(span, DF_STR_NULL);
    }
    df_span_end(span);
}

/* Reads the whole file once: nothing of a file that is broken or over a limit is sent. */
static bool count_records(struct import_batch *b)
{
    struct df_err err = DF_ERR_INIT;
    struct tally t = {0};
    struct df_span span;

    b->row.rules = IMPORT_RULES_NEWEST;
    df_span_begin(&span, &b->row.trace, "parse", DF_SPAN_INTERNAL, b->imports->opt.clock);
    enum df_code code = tally_records(b, &t, &err);
    end_parse(&span, b, &t, code);
    if (import_batch_has_ended(b->state))
        return false; /* reading was given up */
    if (code != DF_DONE)
        return end_by_file(b, code, &err);
    b->row.total = t.records;
    b->row.rules = b->row.mapping                                ? IMPORT_RULES_MAPPED
                   : b->reading.records->dropped                 ? IMPORT_RULES_REPORTS
                   : t.has_runs || b->reading.records->unguarded ? IMPORT_RULES_RUNS
                                                                 : IMPORT_RULES_EACH;
    b->row.columns = import_columns_json(b);
    code = import_set_total(b, &err);
    return code == DF_OK || import_batch_fails(b, code, &err);
}

static bool check_file(struct import_batch *b)
{
    struct df_storage *st = b->imports->opt.storage;
    char found[DF_CHECKSUM_LEN + 1];
    struct df_err err = DF_ERR_INIT;
    uint64_t size = 0;

    enum df_code code = df_storage_checksum(st, &b->id, b->row.file_name, found, &size, &err);
    if (code == DF_OK && b->row.checksum.ptr && !df_str_eq(b->row.checksum, df_str_c(found)))
        code = df_err_set(&err, DF_E_VALIDATION,
                          "the stored file is not the one that was uploaded: its checksum differs");
    if (code == DF_OK)
        code = df_storage_open(st, &b->id, b->row.file_name, &b->reading.file, &err);
    /* The copy of an object is gone: housekeeping had looked before the batch was claimed. */
    if (code == DF_E_NOT_FOUND && import_is_outside(b))
        code = df_err_set(&err, DF_E_BUSY, "the file must be fetched again");
    return code == DF_OK || end_by_file(b, code, &err);
}

static bool load_batch(struct import_batch *b)
{
    struct df_err err = DF_ERR_INIT;
    enum df_code code = import_load(b, &err);

    if (code == DF_OK)
        code = df_mapping_load(&b->arena, b->row.mapping_json, &b->row.mapping, &err);
    if (code != DF_OK)
        return import_batch_fails(b, code, &err);
    df_log_ctx_set(&b->log, "clientId", b->row.client);
    df_log_ctx_set(&b->log, "batchId", df_uuid_str(&b->id));
    df_log_ctx_set(&b->log, "correlationId", b->row.correlation_id);
    if (b->row.metadata_correlation_id.ptr)
        df_log_ctx_set(&b->log, "metadataCorrelationId", b->row.metadata_correlation_id);
    df_log_ctx_set(&b->log, "traceId", b->row.trace_id);
    df_log_info("BatchProcessingStarted", "attempt %lld", (long long)b->row.attempt);
    return true;
}

/* A later attempt sends stored items and needs no file. */
static void prepare_again(struct import_batch *b)
{
    int64_t next = b->earlier.last_chunk + 1;

    b->reading.next_chunk = next > b->row.again_from ? next : b->row.again_from;
    b->reading.next_sequence = -1;
}

/* A batch that the previous release counted and that has no chunk yet is counted again, so that it
 * gets rules and meets the limits. */
static bool is_counted(struct import_batch *b)
{
    if (b->row.rules == 0 && b->earlier.last_chunk > 0)
        b->row.rules = IMPORT_RULES_EACH;
    return b->row.total >= 0 && b->row.rules > 0;
}

static bool prepare_file(struct import_batch *b)
{
    struct df_err err = DF_ERR_INIT;
    bool counted = is_counted(b);

    b->reading.next_chunk = 1;
    if (!fetch_file(b) || !check_file(b) || (!counted && !count_records(b)))
        return false;
    enum df_code code = open_records(b, &err);
    if (code != DF_OK)
        return end_by_file(b, code, &err);
    b->reading.normaliser = df_normaliser_new(&(struct df_normalise_options){
        .origin_default = b->row.origin,
        .temp_dir = b->imports->opt.data_dir,
        .seen_bytes = import_share(b->imports, SEEN_BYTES, SHARE_LEAST),
        .mapping = b->row.mapping});
    return true;
}

void import_prepare(struct import_batch *b)
{
    if (!load_batch(b))
        return;
    if (b->row.attempt > 1)
        prepare_again(b);
    else if (!prepare_file(b))
        return;
    (void)import_batch_happens(b, BATCH_EV_PREPARED);
}
