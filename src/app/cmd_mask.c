/*
 * dataflow mask: brings rows of earlier releases up to date while a server works: items of batches
 * that are over, callbacks, and free text. Each step is one short transaction, followed by a pause
 * as long as the step. Run again it finds nothing to do.
 */
#include "app/audited.h"
#include "app/cli.h"
#include "app/mask.sql.h"
#include "app/mask_text.sqlt.h"
#include "base/mem.h"
#include "imports/batch.h"
#include "imports/kept.h"
#include "keys/data_keys.h"
#include "privacy/mask.h"
#include "retention/subjects.h"
#include "json/write.h"

#include <time.h>

#define PAGE_ROWS  100
#define OUTPUT_MAX 4096
#define TEXT_MAX   ((size_t)64 << 20)
#define NO_UUID    "00000000-0000-0000-0000-000000000000"

struct masking {
    struct df_db *db;
    struct df_keys *keys;
    struct df_masker *masker;
    int64_t ttl_ms;
    int64_t now_ms;
    bool dry_run;
    struct df_arena arena; /* of a step */
    int64_t items, kept, callbacks, texts;
};

/* A row of a page. */
struct row {
    int64_t id;
    struct df_str uuid; /* of a table whose key is one */
    struct df_str text;
    struct df_str batch;
    struct df_str original;
    int64_t sequence;
    int64_t status;
    int64_t completed_ms;
    bool sent;
};

struct page {
    struct masking *m;
    bool by_uuid;
    struct row rows[PAGE_ROWS];
    size_t count;
};

static struct df_str masked_json(struct masking *m, struct df_str json)
{
    struct df_buf out;

    df_buf_init(&out, TEXT_MAX);
    df_mask_json(m->masker, json, &out);
    struct df_str text =
        df_buf_failed(&out) ? DF_STR("null") : df_arena_str(&m->arena, df_buf_str(&out));
    df_buf_release(&out);
    return text;
}

/* --- items --- */

static void read_item(void *arg, struct df_result *r)
{
    struct page *p = arg;
    struct df_arena *a = &p->m->arena;

    if (p->count == PAGE_ROWS)
        return;
    p->rows[p->count++] = (struct row){
        .id = df_col_int(r, mask_items_Id),
        .batch = df_arena_str(a, df_col_text(r, mask_items_BatchId)),
        .sequence = df_col_int(r, mask_items_Sequence),
        .status = df_col_int(r, mask_items_Status),
        .text = df_arena_str(a, df_col_text(r, mask_items_PayloadJson)),
        .original = df_arena_str(a, df_col_text(r, mask_items_OriginalJson)),
        .sent = !df_col_null(r, mask_items_ChunkId),
        .completed_ms = df_col_time(r, mask_items_CompletedAt),
    };
}

/* The record and the item stay for as long as they would have, had they been kept from the start.
 */
static int64_t kept_until(const struct masking *m, const struct row *row)
{
    return (row->completed_ms < 0 ? m->now_ms : row->completed_ms) + m->ttl_ms;
}

static bool is_kept(const struct masking *m, const struct row *row)
{
    return row->status == DF_ITEM_STATUS_ERROR && row->text.ptr && kept_until(m, row) > m->now_ms;
}

static enum df_code keep_item(struct masking *m, const struct row *row, struct df_err *err)
{
    struct df_value batch = df_uuid(row->batch);
    struct df_uuid id;
    struct df_buf sealed;

    if (!df_uuid_parse(row->batch, &id))
        return DF_OK;
    const struct import_kept kept = {
        .record = row->original,
        .item = row->sent || !row->original.ptr ? row->text : DF_STR_NULL,
    };
    df_buf_init(&sealed, TEXT_MAX);
    import_kept_seal(m->keys, &id, row->sequence, &kept, &sealed);
    enum df_code code =
        df_db_exec(m->db,
                   DF_Q(mask_keep, .batch = batch, .sequence = df_int(row->sequence),
                        .key = df_int(df_sealed_key(df_buf_str(&sealed))),
                        .sealed = df_blob(df_buf_str(&sealed)), .now = df_time(m->now_ms)),
                   NULL, err);
    df_buf_release(&sealed);
    m->kept += code == DF_OK;
    return code;
}

static enum df_code mask_item(struct masking *m, const struct row *row, struct df_err *err)
{
    char hash[DF_MASK_HASH_LEN + 1];
    int64_t changed = 1;
    enum df_code code = DF_OK;

    if (is_kept(m, row))
        code = df_db_exec(m->db,
                          DF_Q(mask_keep_until, .until = df_time(kept_until(m, row)),
                               .batch = df_uuid(row->batch)),
                          &changed, err);
    if (code != DF_OK || changed == 0)
        return code; /* a retry has begun */
    df_mask_hash(m->masker, row->text, hash);
    code = df_db_exec(
        m->db,
        DF_Q(mask_item, .payload = df_text(row->text.ptr ? masked_json(m, row->text) : DF_STR_NULL),
             .hash = row->text.ptr ? df_text(df_str_c(hash)) : df_null(DF_TEXT),
             .masked = df_bool(true), .id = df_int(row->id), .unmasked = df_bool(false)),
        &changed, err);
    m->items += code == DF_OK && changed > 0;
    return code == DF_OK && changed > 0 && is_kept(m, row) ? keep_item(m, row, err) : code;
}

/* A step reads the rows behind those of the page before, and changes them. The last page is empty.
 */
static enum df_code step_items(struct masking *m, struct page *p, struct df_err *err)
{
    int64_t after = p->count > 0 ? p->rows[p->count - 1].id : 0;

    p->count = 0;
    df_arena_reset(&m->arena);
    enum df_code code = df_db_each(m->db,
                                   DF_Q(mask_items, .after = df_int(after),
                                        .unmasked = df_bool(false), .limit = df_int(PAGE_ROWS)),
                                   read_item, p, err);
    if (m->dry_run)
        m->items += (int64_t)p->count;
    for (size_t i = 0; i < p->count && code == DF_OK && !m->dry_run; i++)
        code = mask_item(m, &p->rows[i], err);
    return code;
}

/* --- callbacks --- */

static void read_callback(void *arg, struct df_result *r)
{
    struct page *p = arg;

    if (p->count < PAGE_ROWS)
        p->rows[p->count++] = (struct row){
            .id = df_col_int(r, mask_callbacks_Id),
            .text = df_arena_str(&p->m->arena, df_col_text(r, mask_callbacks_CallbackPayloadJson)),
        };
}

static enum df_code step_callbacks(struct masking *m, struct page *p, struct df_err *err)
{
    int64_t after = p->count > 0 ? p->rows[p->count - 1].id : 0;

    p->count = 0;
    df_arena_reset(&m->arena);
    enum df_code code =
        df_db_each(m->db, DF_Q(mask_callbacks, .after = df_int(after), .limit = df_int(PAGE_ROWS)),
                   read_callback, p, err);
    m->callbacks += (int64_t)p->count;
    for (size_t i = 0; i < p->count && code == DF_OK && !m->dry_run; i++) {
        char hash[DF_MASK_HASH_LEN + 1];
        df_mask_hash(m->masker, p->rows[i].text, hash);
        code = df_db_exec(m->db,
                          DF_Q(mask_callback, .payload = df_text(masked_json(m, p->rows[i].text)),
                               .hash = df_text(df_str_c(hash)), .id = df_int(p->rows[i].id),
                               .old = df_text(p->rows[i].text)),
                          NULL, err);
    }
    return code;
}

/* --- free text --- */

struct text_column {
    const struct df_query *read;  /* after, limit */
    const struct df_query *write; /* text, key, old */
    bool by_uuid;
    bool json;
};

#define TEXT(name, uuid, is_json)                                                                  \
    {                                                                                              \
        .read = &df_q_##name##_read, .write = &df_q_##name##_write, .by_uuid = (uuid),             \
        .json = (is_json)                                                                          \
    }

static const struct text_column columns[] = {
    TEXT(mask_item_error, false, false),      TEXT(mask_batch_error, true, false),
    TEXT(mask_batch_summary, true, false),    TEXT(mask_batch_metadata, true, true),
    TEXT(mask_batch_columns, true, true),     TEXT(mask_batch_requested, true, false),
    TEXT(mask_batch_file, true, false),       TEXT(mask_ticket_code, false, false),
    TEXT(mask_chunk_error, false, false),     TEXT(mask_chunk_ack, false, true),
    TEXT(mask_ticket_error, false, false),    TEXT(mask_ticket_return, false, false),
    TEXT(mask_ticket_gateway, false, false),  TEXT(mask_ticket_callback, false, false),
    TEXT(mask_counterparty, false, false),    TEXT(mask_ack_outbox, false, false),
    TEXT(mask_return_outbox, false, false),   TEXT(mask_call_error, true, false),
    TEXT(mask_alert_delivery, true, false),   TEXT(mask_webhook_delivery, true, false),
    TEXT(mask_webhook_failure, false, false), TEXT(mask_attempt_answer, false, false),
    TEXT(mask_attempt_error, false, false),   TEXT(mask_target_error, false, false),
    TEXT(mask_target_given_up, false, false), TEXT(mask_event_error, true, false),
    TEXT(mask_alert_summary, true, false),    TEXT(mask_alert_details, true, true),
};
#define COLUMNS (sizeof columns / sizeof columns[0])

static void read_text(void *arg, struct df_result *r)
{
    struct page *p = arg;
    struct df_arena *a = &p->m->arena;

    if (p->count == PAGE_ROWS)
        return;
    p->rows[p->count++] = (struct row){
        .id = p->by_uuid ? 0 : df_col_int(r, free_text_RowKey),
        .uuid = p->by_uuid ? df_arena_str(a, df_col_text(r, free_text_RowKey)) : DF_STR_NULL,
        .text = df_arena_str(a, df_col_text(r, free_text_Body)),
    };
}

static enum df_code mask_text(struct masking *m, const struct text_column *c, const struct row *row,
                              struct df_err *err)
{
    struct df_str text =
        c->json ? masked_json(m, row->text) : df_mask_note(row->text, SIZE_MAX, &m->arena);
    struct df_value key = c->by_uuid ? df_uuid(row->uuid) : df_int(row->id);
    int64_t changed = 1;
    enum df_code code = DF_OK;

    if (df_str_eq(text, row->text))
        return DF_OK;
    if (!m->dry_run)
        code = df_db_exec(
            m->db,
            DF_ANY(c->write, {"text", df_text(text)}, {"key", key}, {"old", df_text(row->text)}),
            &changed, err);
    m->texts += code == DF_OK ? changed : 0;
    return code;
}

static enum df_code step_text(struct masking *m, const struct text_column *c, struct page *p,
                              struct df_err *err)
{
    const struct row *last = p->count > 0 ? &p->rows[p->count - 1] : NULL;
    char uuid[DF_UUID_LEN + 1] = NO_UUID;

    if (last && c->by_uuid)
        memcpy(uuid, last->uuid.ptr, DF_UUID_LEN);
    struct df_value after =
        c->by_uuid ? df_uuid(df_str_n(uuid, DF_UUID_LEN)) : df_int(last ? last->id : 0);
    p->count = 0;
    p->by_uuid = c->by_uuid;
    df_arena_reset(&m->arena);
    enum df_code code = df_db_each(
        m->db, DF_ANY(c->read, {"after", after}, {"limit", df_int(PAGE_ROWS)}), read_text, p, err);
    for (size_t i = 0; i < p->count && code == DF_OK; i++)
        code = mask_text(m, c, &p->rows[i], err);
    return code;
}

/* --- the whole --- */

static enum df_code step(struct masking *m, size_t what, struct page *p, struct df_err *err)
{
    if (what < COLUMNS)
        return step_text(m, &columns[what], p, err);
    return what == COLUMNS ? step_items(m, p, err) : step_callbacks(m, p, err);
}

static void pause_for(int64_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000};
    (void)nanosleep(&t, NULL);
}

/* All pages of one kind, a transaction each. */
static enum df_code mask_all(struct masking *m, size_t what, struct df_err *err)
{
    struct page *p = df_calloc(1, sizeof *p);
    enum df_code code;

    p->m = m;
    do {
        int64_t begun_ms = df_mono_ms(df_clock_real());
        code = df_db_begin(m->db, !m->dry_run, err);
        if (code != DF_OK)
            break;
        code = step(m, what, p, err);
        if (code == DF_OK)
            code = df_db_commit(m->db, err);
        else
            df_db_rollback(m->db);
        pause_for(df_mono_ms(df_clock_real()) - begun_ms);
    } while (code == DF_OK && p->count > 0);
    free(p);
    return code;
}

static void write_counts(const struct masking *m, struct df_json_out *j)
{
    df_json_open(j, '{');
    df_json_kv_int(j, "items", m->items);
    df_json_kv_int(j, "kept", m->kept);
    df_json_kv_int(j, "callbacks", m->callbacks);
    df_json_kv_int(j, "texts", m->texts);
    df_json_kv_bool(j, "dryRun", m->dry_run);
    df_json_close(j, '}');
}

static enum df_code tell_audit(struct masking *m, struct df_err *err)
{
    char name[200];
    struct df_actor by = df_cli_actor(name, sizeof name);
    struct df_json_out j;
    struct df_buf details;

    if (m->dry_run || m->items + m->callbacks + m->texts == 0)
        return DF_OK;
    df_buf_init(&details, OUTPUT_MAX);
    df_json_out_init(&j, &details);
    write_counts(m, &j);
    enum df_code code = df_db_begin(m->db, true, err);
    if (code == DF_OK) {
        code = df_audit_write(m->db, &by, "PayloadsMasked", DF_STR("rows"), DF_STR_NULL,
                              df_buf_str(&details), m->now_ms, err);
        if (code == DF_OK)
            code = df_db_commit(m->db, err);
        else
            df_db_rollback(m->db);
    }
    df_buf_release(&details);
    return code;
}

/* In mode `keep` items and callbacks stay as they are. */
static enum df_code mask_rows(const struct df_settings *set, struct masking *m, struct df_err *err)
{
    enum df_code code = df_open_audited(set, set->store.migrate, &m->db, err);
    m->keys = df_audited_keys()->ring;
    if (code == DF_OK)
        code = df_masker_new(&set->sensitive, m->keys, &m->masker, err);
    if (code == DF_OK && !m->dry_run) /* nobody is found in what is masked */
        code = df_subject_fill_all(m->db, m->keys, df_clock_real(), err);
    m->ttl_ms = set->sensitive.payload_ttl_ms;
    m->now_ms = df_wall_ms(df_clock_real());
    size_t kinds = code == DF_OK && df_masker_masks(m->masker) ? COLUMNS + 2 : COLUMNS;
    for (size_t i = 0; i < kinds && code == DF_OK; i++)
        code = mask_all(m, i, err);
    if (code == DF_OK)
        code = tell_audit(m, err);
    df_arena_release(&m->arena);
    df_masker_free(m->masker);
    df_close_audited(set, m->db, code == DF_OK);
    return code;
}

static int run_mask(int argc, char **argv)
{
    bool json = false;
    struct masking m = {.items = 0};
    const struct df_option options[] = {
        {.name = "dry-run", .kind = DF_OPT_FLAG, .flag = &m.dry_run},
        {.name = "json", .kind = DF_OPT_FLAG, .flag = &json}};
    struct df_cli_config config = {0};
    struct df_settings settings = {0};
    struct df_json_out j;
    struct df_buf out;
    struct df_err err = DF_ERR_INIT;

    int operands = df_cli_parse(&df_cmd_mask, argc, argv, options, 2, &config);
    if (operands != 0) {
        if (operands > 0)
            df_cli_complain(&df_cmd_mask, "usage: dataflow mask %s", df_cmd_mask.usage);
        return DF_EXIT_USAGE;
    }
    if (!df_cli_settings(&config, &settings))
        return DF_EXIT_USAGE;
    df_log_init(DF_LOG_WARN, DF_LOG_AUTO, df_clock_real());
    enum df_code code = mask_rows(&settings, &m, &err);
    df_settings_release(&settings);
    if (code != DF_OK)
        return df_cli_result(&df_cmd_mask, code, &err);
    df_buf_init(&out, OUTPUT_MAX);
    df_json_out_init(&j, &out);
    if (json) {
        write_counts(&m, &j);
        df_buf_addc(&out, '\n');
    } else {
        df_cli_say(&out, "%s %lld items (%lld records kept), %lld callbacks, %lld texts\n",
                   m.dry_run ? "would mask" : "masked", (long long)m.items, (long long)m.kept,
                   (long long)m.callbacks, (long long)m.texts);
    }
    return df_cli_print(&out);
}

const struct df_command df_cmd_mask = {
    .name = "mask",
    .usage = "[--dry-run] [--json]",
    .summary = "mask what earlier releases stored as it came",
    .help =
        "Items of batches that are over, callbacks and free text, in small steps beside a server.",
    .run = run_mask,
};
