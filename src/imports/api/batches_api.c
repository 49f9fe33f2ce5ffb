/*
 * GET /imports, /imports/{batchId} and /imports/{batchId}/items: a client's own batches; and the
 * same below /admin for operators, who see those of all clients.
 */
#include "access/export.h"
#include "access/list.h"
#include "access/policies.h"
#include "imports/api/batch_view.h"
#include "imports/api/batches.sql.h"
#include "imports/api/items.sql.h"
#include "imports/api/views.h"
#include "imports/batch.h"
#include "imports/kept.h"
#include "imports/policy.h"
#include "imports/reasons.h"
#include "imports/routes.h"
#include "privacy/mask.h"
#include "tabular/mapping.h"

#include <stdio.h>

#define COLUMNS_LOOKED  500 /* for the one that is wrong, as many as a preview has */
#define ANSWER_MAX      ((size_t)128 << 20)
#define PAYLOAD_LONGEST 32768 /* characters of a payload in a page of items */
#define COUNTED_MOST    10000 /* items that a total counts; beyond it is an estimate */

struct call {
    struct df_work w;
    struct df_uuid client;
    struct df_uuid id;
    int64_t status; /* -1: any */
    bool expired;   /* what is kept of failed items is not shown any more */
    struct df_batch_scene scene;

    /* Of a page of items. */
    const struct import_reason *reason; /* NULL: any */
    struct df_mapping *mapping;         /* of the batch's columns; NULL: none */
    const struct df_json *columns;      /* as ImportBatch has them; NULL: not known */
    int64_t after;                      /* the cursor: a sequence; -1: none */
    int64_t written;
    int64_t last; /* the sequence of the last one written */
    bool more;    /* there are items behind it */
    bool is_estimate;
};

static const struct df_imports *imports_of(const struct df_work *w)
{
    return ((const struct df_import_views *)w->arg)->imports;
}

/* An operator's call has no client; df_batch_scope finds the batch's. */
static void take_client(struct call *c)
{
    if (!df_batch_is_operator(c->w.req))
        c->client = df_auth_client(c->w.req)->id;
}

/* known returns the number of a name, -1 for an unknown one. */
static void read_status(struct call *c, struct df_input *in, int (*known)(struct df_str name),
                        const char *names)
{
    struct df_str given = df_input_filter(c->w.req, "status");

    take_client(c);
    c->status = given.ptr ? known(given) : -1;
    if (given.ptr && c->status < 0)
        df_input_error(in, "status", "must be %s", names);
}

static struct df_value status_value(const struct call *c)
{
    return c->status < 0 ? df_null(DF_INT) : df_int(c->status);
}

/* --- GET /imports --- */

/* The list also announces maintenance. */
static void end_batch_list(struct df_work *w, const struct df_policy *policy)
{
    const struct df_import_views *views = w->arg;
    const struct df_policy_facts facts = {
        .policy = policy,
        .maintenance = df_imports_options_of(views->imports)->maintenance,
        .now_ms = w->now_ms,
    };
    df_json_close(&w->json, ']');
    df_page_write(&w->page, &w->json);
    df_policy_write_maintenance(&facts, &w->json);
    df_json_close(&w->json, '}');
}

static void write_batch(void *arg, struct df_result *r)
{
    struct call *c = arg;
    df_batch_write(r, &c->scene, &c->w.json);
}

static enum df_code run_list_batches(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct df_value client = df_uuid(df_uuid_str(&c->client));
    struct df_policy policy;

    bool rare = c->status >= 0 && c->status != DF_BATCH_COMPLETED;
    struct df_list_query q = {.newest = rare ? &df_q_batch_status_keys : &df_q_batch_keys,
                              .oldest =
                                  rare ? &df_q_batch_status_keys_oldest : &df_q_batch_keys_oldest,
                              .rows = &df_q_batch_page,
                              DF_LIST_FILTER({"client", client}, {"status", status_value(c)})};

    c->scene = df_batch_scene_now(imports_of(w), w->now_ms);
    df_page_open(&w->json);
    enum df_code code = df_policies_get(w->access->policies, db, &c->client, &policy, err);
    if (code == DF_OK)
        code = df_list_page(db, &q, &w->page, df_req_arena(w->req), write_batch, w, err);
    if (code == DF_OK)
        end_batch_list(w, &policy);
    return code;
}

static int batch_status(struct df_str name)
{
    enum df_batch_status s;
    return df_batch_status_parse(name, &s) ? (int)s : -1;
}

static bool read_batch_filter(struct df_work *w, struct df_input *in)
{
    read_status((struct call *)w, in, batch_status,
                "Pending, Processing, Scheduled, Completed, CompletedWithErrors, Failed or "
                "Cancelled");
    return true;
}

static const struct df_handler list = {
    .size = sizeof(struct call),
    .list = "imports",
    .list_by_uuid = true,
    .max_answer = ANSWER_MAX,
    .tells = true,
    .prepare = read_batch_filter,
    .run = run_list_batches,
};

/* --- GET /imports/{batchId} --- */

static enum df_code run_get_batch(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    int64_t status;

    c->scene = df_batch_scene_now(imports_of(w), w->now_ms);
    enum df_code code = df_batch_scene_line(db, imports_of(w), &c->id, &c->scene, err);
    return code == DF_OK ? df_batch_read(db, &c->id, &c->client, &c->scene, &w->json, &status, err)
                         : code;
}

static bool read_batch_id(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    (void)in;
    take_client(c);
    return df_batch_param(w->req, &c->id);
}

static const struct df_handler get = {
    .size = sizeof(struct call),
    .max_answer = ANSWER_MAX,
    .tells = true,
    .prepare = read_batch_id,
    .run = run_get_batch,
};

/* --- GET /imports/{batchId}/items --- */

struct counts {
    int64_t processed;
    int64_t errors;
    int64_t skipped;
    int64_t kept_until_ms; /* -1: nothing is kept, or without an end */
    bool dense;            /* the sequences are 0 to processed - 1, one item for each record */
    struct df_arena *arena;
    struct df_str mapping, columns; /* as they are stored; in the arena */
};

static void read_counts(void *arg, struct df_result *r)
{
    struct counts *n = arg;
    int64_t last =
        df_col_null(r, item_counts_LastSequence) ? -1 : df_col_int(r, item_counts_LastSequence);

    n->processed = df_col_int(r, item_counts_ProcessedRecords);
    n->errors = df_col_int(r, item_counts_ErrorCount);
    n->skipped = df_col_int(r, item_counts_SkippedCount);
    n->dense = last + 1 == n->processed && df_col_int(r, item_counts_CutRules) <= 1;
    n->kept_until_ms = df_col_time(r, item_counts_KeptUntil);
    n->mapping = df_arena_str(n->arena, df_col_text(r, item_counts_MappingJson));
    n->columns = df_arena_str(n->arena, df_col_text(r, item_counts_ColumnsJson));
}

static enum df_code find_counts(struct df_db *db, struct call *c, struct counts *ret,
                                struct df_err *err)
{
    bool found = false;

    struct df_err ignored = DF_ERR_INIT;

    ret->arena = df_req_arena(c->w.req);
    enum df_code code = df_db_one(db,
                                  DF_Q(item_counts, .id = df_uuid(df_uuid_str(&c->id)),
                                       .client = df_uuid(df_uuid_str(&c->client))),
                                  read_counts, ret, &found, err);

    c->expired = ret->kept_until_ms >= 0 && ret->kept_until_ms <= c->w.now_ms;
    /* Without either the items are shown all the same, and no column is named. */
    if (df_mapping_load(ret->arena, ret->mapping, &c->mapping, &ignored) != DF_OK)
        c->mapping = NULL;
    if (!ret->columns.ptr ||
        df_json_parse(ret->arena, ret->columns, &c->columns, &ignored) != DF_OK)
        c->columns = NULL;
    return code == DF_OK && !found ? df_batch_not_found(&c->id, err) : code;
}

/* What is kept of an item that failed: nothing if its time is over. */
static struct import_kept item_kept(const struct call *c, struct df_result *r, struct df_arena *a)
{
    struct import_kept kept = {.item = DF_STR_NULL};
    struct df_err ignored = DF_ERR_INIT;

    if (df_col_null(r, item_Sealed) ||
        import_kept_open(df_imports_options_of(imports_of(&c->w))->keys, &c->id,
                         df_col_int(r, item_Sequence), df_col_blob(r, item_Sealed), a, &kept,
                         &ignored) != DF_OK)
        kept = (struct import_kept){.item = DF_STR_NULL};
    return kept;
}

/* The item as it was sent, if that is kept and the client itself asks; else as it is stored, which
 * is masked. An operator finds it in the report, whose download is in the audit log. */
static struct df_str item_payload(const struct call *c, struct df_result *r,
                                  const struct import_kept *kept)
{
    return !df_batch_is_operator(c->w.req) && kept->item.ptr ? kept->item
                                                             : df_col_text(r, item_Payload);
}

/* The name in an entry of ImportBatch.ColumnsJson: [name, …]. */
static struct df_str listed_name(const struct df_json *entry)
{
    struct df_json pair = *entry; /* it lives until the next one is read */
    struct df_json_each both = df_json_each(&pair);
    const struct df_json *name = pair.type == DF_JSON_ARRAY ? df_json_next(&both) : NULL;

    return name && name->type == DF_JSON_STRING ? name->text : DF_STR_NULL;
}

/* The column of the file, or of the record where the file has no list of them, that means `field`,
 * a canonical name; absent: none of the first ones does by itself, or the value came from a path.
 */
static struct df_str column_of(const struct call *c, const struct df_json *record,
                               struct df_str field)
{
    struct df_json_each each = df_json_each(c->columns ? c->columns : record);
    size_t left = COLUMNS_LOOKED;

    for (const struct df_json *v; left > 0 && (v = df_json_next(&each)); left--) {
        struct df_str name = c->columns ? listed_name(v) : v->key;
        if (!name.ptr)
            continue;
        const struct df_mapping_entry *e = df_mapping_find(c->mapping, name);
        bool exact;
        const char *means = df_header_name(e ? e->header : df_header_find(name, &exact));
        if (means && df_str_eq(df_str_c(means), field))
            return df_arena_str(df_req_arena(c->w.req), name);
    }
    return DF_STR_NULL;
}

/* Which value of a record is wrong: its canonical name, and the file's own. */
static void write_field(const struct call *c, struct df_result *r, struct df_str record,
                        struct df_json_out *out)
{
    const struct import_reason *reason = import_reason_find(df_col_text(r, item_Reason));
    struct df_str field = df_str_c(reason ? reason->field : NULL), column = DF_STR_NULL;
    struct df_arena arena = {0};
    struct df_err ignored = DF_ERR_INIT;
    const struct df_json *object;

    if (field.ptr && record.ptr && df_json_parse(&arena, record, &object, &ignored) == DF_OK &&
        object->type == DF_JSON_OBJECT)
        column = column_of(c, object, field);
    df_json_kv_text(out, "field", field);
    df_json_kv_text(out, "column", column);
    df_arena_release(&arena);
}

/* The record of an item that failed as it was uploaded; for operators masked. */
static void write_values(const struct call *c, struct df_result *r, const struct import_kept *kept,
                         struct df_json_out *out)
{
    const struct df_masker *m = df_imports_options_of(imports_of(&c->w))->masker;
    struct df_str record = kept->record.ptr ? kept->record : df_col_text(r, item_Original);
    struct df_buf masked;

    df_json_key(out, "values");
    if (df_col_int(r, item_Status) != DF_ITEM_STATUS_ERROR || !record.ptr ||
        !df_batch_is_operator(c->w.req) || !m) {
        df_json_stored(out,
                       df_col_int(r, item_Status) == DF_ITEM_STATUS_ERROR ? record : DF_STR_NULL);
        return;
    }
    df_buf_init(&masked, DF_HASHED_GROWTH * record.len + DF_HASHED_GROWTH);
    df_mask_json(m, record, &masked);
    df_json_stored(out, df_buf_str(&masked));
    df_buf_release(&masked);
}

static void write_item(void *arg, struct df_result *r)
{
    struct call *c = arg;
    struct df_json_out *out = &c->w.json;
    struct df_arena opened = {0};
    int64_t records = df_col_null(r, item_RecordCount) ? 1 : df_col_int(r, item_RecordCount);

    if (c->written == c->w.page.size) { /* it only tells that there are more */
        c->more = true;
        return;
    }
    c->written++;
    c->last = df_col_int(r, item_Sequence);
    struct import_kept kept = item_kept(c, r, &opened);
    df_json_open(out, '{');
    df_json_kv_int(out, "sequence", df_col_int(r, item_Sequence));
    df_json_kv_int_if(out, "row", !df_col_null(r, item_SourceRow), df_col_int(r, item_SourceRow));
    df_json_kv_text(out, "status", df_str_c(df_item_status_name(df_col_int(r, item_Status))));
    df_json_kv_text(out, "reason", df_col_text(r, item_Reason));
    write_field(c, r, kept.record.ptr ? kept.record : df_col_text(r, item_Original), out);
    df_json_kv_told(out, "errorMessage", df_col_text(r, item_ErrorMessage));
    df_json_key(out, "payload");
    df_json_stored(out, item_payload(c, r, &kept));
    write_values(c, r, &kept, out);
    df_json_kv_int_if(out, "chunkId", df_col_int(r, item_ChunkId) > 0, df_col_int(r, item_ChunkId));
    df_json_kv_time(out, "createdAt", df_col_time(r, item_CreatedAt));
    df_json_kv_int(out, "recordCount", records);
    df_json_close(out, '}');
    df_arena_release(&opened);
}

/* A page of all items of a dense batch: an item's place is its sequence. */
static enum df_code write_range(struct df_db *db, struct call *c, int64_t total, struct df_err *err)
{
    const struct df_page *page = &c->w.page;
    int64_t from = c->after >= 0 ? c->after + 1 : page->offset;

    c->w.page.total = total;
    if (from >= total)
        return DF_OK;
    return df_db_each(db,
                      DF_Q(item_range, .longest = df_int(PAYLOAD_LONGEST),
                           .expired = df_int(c->expired), .id = df_uuid(df_uuid_str(&c->id)),
                           .from = df_int(from), .until = df_int(from + page->size + 1)),
                      write_item, c, err);
}

static enum df_code write_errors(struct df_db *db, struct call *c, const struct counts *n,
                                 struct df_err *err)
{
    struct df_value id = df_uuid(df_uuid_str(&c->id));
    struct df_page *page = &c->w.page;
    enum df_code code = DF_OK;
    int64_t first = 0;

    if (n->dense)
        page->total = n->errors;
    else
        code = df_db_query_int(db, DF_Q(item_error_total, .id = id), &page->total, err);
    if (code != DF_OK || page->offset >= page->total)
        return code;
    first = c->after + 1;
    if (c->after < 0)
        code = df_db_query_int(db, DF_Q(item_error_first, .id = id, .offset = df_int(page->offset)),
                               &first, err);
    if (code == DF_E_NOT_FOUND) /* there are fewer errors now */
        return DF_OK;
    if (code != DF_OK)
        return code;
    return df_db_each(db,
                      DF_Q(item_error_page, .longest = df_int(PAYLOAD_LONGEST),
                           .expired = df_int(c->expired), .id = id, .from = df_int(first),
                           .limit = df_int(page->size + 1)),
                      write_item, c, err);
}

/* The same for one reason. */
static enum df_code write_of_reason(struct df_db *db, struct call *c, struct df_err *err)
{
    struct df_value id = df_uuid(df_uuid_str(&c->id));
    struct df_value reason = df_text(df_str_c(c->reason->code));
    struct df_page *page = &c->w.page;
    int64_t first = c->after + 1;
    enum df_code code =
        df_db_query_int(db, DF_Q(item_reason_total, .id = id, .reason = reason), &page->total, err);

    if (code == DF_OK && c->after < 0)
        code = df_db_query_int(
            db, DF_Q(item_reason_first, .id = id, .reason = reason, .offset = df_int(page->offset)),
            &first, err);
    if (code == DF_E_NOT_FOUND)
        return DF_OK;
    if (code != DF_OK)
        return code;
    return df_db_each(db,
                      DF_Q(item_reason_page, .longest = df_int(PAYLOAD_LONGEST),
                           .expired = df_int(c->expired), .id = id, .reason = reason,
                           .from = df_int(first), .limit = df_int(page->size + 1)),
                      write_item, c, err);
}

/* Counts up to COUNTED_MOST; beyond it, the batch's counters tell about how many there are. */
static enum df_code count_items(struct df_db *db, struct call *c, const struct counts *n,
                                struct df_err *err)
{
    struct df_page *page = &c->w.page;
    int64_t about = c->status == DF_ITEM_STATUS_SKIPPED    ? n->skipped
                    : c->status == DF_ITEM_STATUS_IMPORTED ? n->processed - n->errors - n->skipped
                                                           : n->processed;
    enum df_code code =
        df_db_query_int(db,
                        DF_Q(item_page_total, .id = df_uuid(df_uuid_str(&c->id)),
                             .status = status_value(c), .most = df_int(COUNTED_MOST + 1)),
                        &page->total, err);

    if (code == DF_OK && page->total > COUNTED_MOST) {
        c->is_estimate = true;
        page->total = about > COUNTED_MOST ? about : COUNTED_MOST;
    }
    return code;
}

static enum df_code write_filtered(struct df_db *db, struct call *c, const struct counts *n,
                                   struct df_err *err)
{
    struct df_value id = df_uuid(df_uuid_str(&c->id));
    struct df_page *page = &c->w.page;
    enum df_code code = DF_OK;

    if (n->dense && c->status == DF_ITEM_STATUS_SKIPPED)
        page->total = n->skipped;
    else if (n->dense && c->status == DF_ITEM_STATUS_IMPORTED)
        page->total = n->processed - n->errors - n->skipped;
    else
        code = count_items(db, c, n, err);
    if (code != DF_OK || page->offset >= page->total)
        return code;
    return df_db_each(db,
                      DF_Q(item_page, .longest = df_int(PAYLOAD_LONGEST),
                           .expired = df_int(c->expired), .id = id, .status = status_value(c),
                           .from = df_int(c->after + 1), .limit = df_int(page->size + 1),
                           .offset = df_int(c->after < 0 ? page->offset : 0)),
                      write_item, c, err);
}

static void end_item_list(struct call *c)
{
    struct df_json_out *out = &c->w.json;
    char next[24];

    (void)snprintf(next, sizeof next, "%lld", (long long)c->last);
    df_json_close(out, ']');
    df_page_write(&c->w.page, out);
    if (c->is_estimate)
        df_json_kv_bool(out, "totalIsEstimate", true);
    df_json_kv_text(out, "next", c->more ? df_str_c(next) : DF_STR_NULL);
    df_json_close(out, '}');
}

static enum df_code run_list_items(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct counts n = {0};

    c->written = 0;
    c->more = c->is_estimate = false;
    df_page_open(&w->json);
    enum df_code code = df_batch_scope(db, w->req, &c->id, &c->client, err);
    if (code == DF_OK)
        code = find_counts(db, c, &n, err);
    bool all =
        c->status < 0 || (c->status == DF_ITEM_STATUS_IMPORTED && n.errors == 0 && n.skipped == 0);
    if (code == DF_OK && c->reason)
        code = write_of_reason(db, c, err);
    else if (code == DF_OK && n.dense && all)
        code = write_range(db, c, n.processed, err);
    else if (code == DF_OK && c->status == DF_ITEM_STATUS_ERROR)
        code = write_errors(db, c, &n, err);
    else if (code == DF_OK)
        code = write_filtered(db, c, &n, err);
    end_item_list(c);
    return code;
}

static int item_status(struct df_str name)
{
    enum df_item_status s;
    return df_item_status_parse(name, &s) ? (int)s : -1;
}

static bool read_item_filter(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    read_status(c, in, item_status, "Imported, Error or Skipped");
    struct df_str reason = df_input_filter(w->req, "reason");
    c->reason = reason.ptr ? import_reason_find(reason) : NULL;
    if (reason.ptr && !c->reason)
        df_input_error(in, "reason", "must be the code of a reason, as PhoneMissing");
    c->after = df_input_query_int(in, w->req, "after", 0, INT32_MAX, -1);
    if (c->after >= 0 && df_input_filter(w->req, "page").ptr)
        df_input_error(in, "after", "cannot be given together with page");
    return df_batch_param(w->req, &c->id);
}

static const struct df_handler items = {
    .size = sizeof(struct call),
    .paged = true,
    .max_answer = ANSWER_MAX,
    .tells = true,
    .prepare = read_item_filter,
    .run = run_list_items,
};

/* --- GET /imports/{batchId}/reasons --- */

struct reasons {
    struct call c; /* first */
    int64_t groups;
    int64_t items;
};

static void write_group(struct df_json_out *out, struct df_str code, int64_t count, int64_t row)
{
    const struct import_reason *known = import_reason_find(code);

    df_json_open(out, '{');
    df_json_kv_text(out, "reason", code);
    df_json_kv_told(out, "message", known ? df_str_c(known->text) : DF_STR_NULL);
    df_json_kv_int(out, "count", count);
    df_json_kv_int_if(out, "firstRow", row > 0, row);
    df_json_kv_bool(out, "retryable", !known || known->is_retryable);
    df_json_close(out, '}');
}

static void write_reason(void *arg, struct df_result *r)
{
    struct reasons *g = arg;
    int64_t count = df_col_int(r, item_reason_groups_Items);

    g->groups++;
    g->items += count;
    write_group(&g->c.w.json, df_col_text(r, item_reason_groups_Reason), count,
                df_col_int(r, item_reason_groups_SourceRow));
}

/* Failed items that an earlier release settled have no code: they are one group without one. */
static enum df_code run_list_reasons(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct reasons *g = (struct reasons *)w;
    struct call *c = &g->c;
    struct counts n = {0};

    g->groups = g->items = 0;
    df_page_open(&w->json);
    enum df_code code = df_batch_scope(db, w->req, &c->id, &c->client, err);
    if (code == DF_OK)
        code = find_counts(db, c, &n, err);
    if (code == DF_OK)
        code = df_db_each(db, DF_Q(item_reason_groups, .id = df_uuid(df_uuid_str(&c->id))),
                          write_reason, g, err);
    if (code == DF_OK && n.errors > g->items) {
        g->groups++;
        write_group(&w->json, DF_STR_NULL, n.errors - g->items, 0);
    }
    df_json_close(&w->json, ']');
    df_json_kv_int(&w->json, "total", g->groups);
    df_json_close(&w->json, '}');
    return code;
}

static const struct df_handler reasons = {
    .size = sizeof(struct reasons),
    .tells = true,
    .prepare = read_batch_id,
    .run = run_list_reasons,
};

/* --- operators --- */

struct search {
    struct call c; /* first */
    struct df_str client;
    struct df_str file; /* a pattern */
    int64_t from_ms;
    int64_t to_ms;
};

#define FILE_CHARS  260                      /* ImportBatch.FileName */
#define ALL_TIME_MS INT64_C(253402300799000) /* the year 9999 */

/* %text%, with the pattern's own signs taken literally. */
static struct df_str like_pattern(struct df_arena *a, struct df_str text)
{
    char *at = df_arena_alloc(a, 2 * text.len + 2);
    size_t len = 0;

    at[len++] = '%';
    for (size_t i = 0; i < text.len; i++) {
        if (strchr("%_![", text.ptr[i]))
            at[len++] = '!';
        at[len++] = text.ptr[i];
    }
    at[len++] = '%';
    return df_str_n(at, len);
}

static int64_t read_time(struct df_work *w, struct df_input *in, const char *name, int64_t none_ms)
{
    struct df_str given = df_input_filter(w->req, name);
    int64_t ms = none_ms;

    if (given.ptr && !df_time_parse(given, &ms))
        df_input_error(in, name, "must be a time, as in 2026-11-20T02:00:00Z");
    return ms;
}

static bool read_search(struct df_work *w, struct df_input *in)
{
    struct search *s = (struct search *)w;
    struct df_str file = df_input_filter(w->req, "fileName");

    (void)read_batch_filter(w, in);
    s->client = df_input_filter(w->req, "clientId");
    if (s->client.ptr && !df_client_identifier_valid(s->client))
        df_input_error(in, "clientId", "is not the identifier of a client");
    if (df_utf8_count(file) > FILE_CHARS)
        df_input_error(in, "fileName", "has more than %d characters", FILE_CHARS);
    s->file = like_pattern(df_req_arena(w->req), file);
    s->from_ms = read_time(w, in, "from", 0);
    s->to_ms = read_time(w, in, "to", ALL_TIME_MS);
    return true;
}

static void write_operator_batch(void *arg, struct df_result *r)
{
    struct call *c = arg;
    df_batch_write_operator(r, &c->scene, &c->w.json);
}

static struct df_list_query batch_keys(const struct search *s)
{
    if (s->client.ptr)
        return (struct df_list_query){DF_LIST_KEYS(batch_operator_client_keys)};
    if (s->c.status >= 0)
        return (struct df_list_query){DF_LIST_KEYS(batch_operator_status_keys)};
    return (struct df_list_query){DF_LIST_KEYS(batch_operator_keys)};
}

/* The filter of a list of batches, for the block it stands in. */
#define BATCH_FILTER(s)                                                                            \
    DF_LIST_FILTER({"client", df_text((s)->client)}, {"status", status_value(&(s)->c)},            \
                   {"from", df_time((s)->from_ms)}, {"to", df_time((s)->to_ms)},                   \
                   {"file", df_text((s)->file)})

static enum df_code run_search(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct search *s = (struct search *)w;
    struct df_list_query keys = batch_keys(s);
    struct df_list_query q = {.newest = keys.newest,
                              .oldest = keys.oldest,
                              .rows = &df_q_batch_operator_page,
                              BATCH_FILTER(s)};

    s->c.scene = df_batch_scene_now(imports_of(w), w->now_ms);
    return df_work_list(w, db, &q, write_operator_batch, err);
}

static const struct df_handler search = {
    .size = sizeof(struct search),
    .list = "imports",
    .list_by_uuid = true,
    .max_answer = ANSWER_MAX,
    .tells = true,
    .prepare = read_search,
    .run = run_search,
};

/* --- GET /admin/imports.csv --- */

struct export
{
    struct df_export e;
    struct search filter;
};

#define HEADER                                                                                     \
    "batchId,clientId,fileName,status,createdAt,startedAt,completedAt,totalRecords,"               \
    "processedRecords,errorCount,skippedCount,requestedBy,lastError\n"

static void write_csv(void *arg, struct df_result *r)
{
    struct df_buf *out = &((struct export *)arg)->e.text;
    enum df_batch_status status = (enum df_batch_status)df_col_int(r, batch_Status);

    df_csv_text(out, df_col_text(r, batch_Id), ',');
    df_csv_text(out, df_col_text(r, batch_operator_page_ClientIdentifier), ',');
    df_csv_text(out, df_col_text(r, batch_FileName), ',');
    df_csv_text(out, df_str_c(df_batch_status_name(status)), ',');
    df_csv_time(out, df_col_time(r, batch_CreatedAt), ',');
    df_csv_time(out, df_col_time(r, batch_StartedAt), ',');
    df_csv_time(out, df_col_time(r, batch_CompletedAt), ',');
    df_csv_int(out, df_col_int(r, batch_TotalRecords), ',');
    df_csv_int(out, df_col_int(r, batch_ProcessedRecords), ',');
    df_csv_int(out, df_col_int(r, batch_ErrorCount), ',');
    df_csv_int(out, df_col_int(r, batch_SkippedCount), ',');
    df_csv_text(out, df_col_text(r, batch_RequestedBy), ',');
    df_csv_text(out, df_col_text(r, batch_LastError), '\n');
}

static enum df_code export_page(struct df_db *db, struct df_export *e, struct df_err *err)
{
    const struct search *s = &((struct export *)e)->filter;
    struct df_list_query keys = batch_keys(s);
    struct df_list_query q = {.newest = keys.newest,
                              .oldest = keys.oldest,
                              .rows = &df_q_batch_operator_page,
                              BATCH_FILTER(s)};
    struct df_arena arena;

    df_arena_init(&arena);
    enum df_code code = df_list_rows(db, &q, &e->w.page, &arena, write_csv, e, NULL, err);
    df_arena_release(&arena);
    return code;
}

static enum df_code run_export(struct df_db *db, struct df_work *w, struct df_err *err)
{
    return df_export_run((struct df_export *)w, db, HEADER, export_page, err);
}

static const struct df_handler export_reading = DF_EXPORT_READING(struct export, run_export);

static bool read_export(struct df_work *w, struct df_input *in)
{
    struct export *x = (struct export *)w;
    const struct df_import_views *views = w->arg;

    df_export_read(&x->e, in, "imports", df_imports_options_of(views->imports)->data_dir, "imports",
                   true, &export_reading);
    x->filter.c.w.req = w->req;
    return read_search(&x->filter.c.w, in);
}

static const struct df_handler export_batches = DF_EXPORT_AUDITED(struct export, read_export);

static enum df_code run_operator_get(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    bool found = false;

    c->scene = df_batch_scene_now(imports_of(w), w->now_ms);
    enum df_code code = df_batch_scene_line(db, imports_of(w), &c->id, &c->scene, err);
    if (code == DF_OK)
        code = df_db_one(db, DF_Q(batch_operator_get, .id = df_uuid(df_uuid_str(&c->id))),
                         write_operator_batch, w, &found, err);

    return code == DF_OK && !found ? df_batch_not_found(&c->id, err) : code;
}

static const struct df_handler operator_get = {
    .size = sizeof(struct call),
    .max_answer = ANSWER_MAX,
    .tells = true,
    .prepare = read_batch_id,
    .run = run_operator_get,
};

#define ADMIN(path, h)                                                                             \
    DF_ROUTE("GET", "/admin/imports" path, DF_BODY_NONE, DF_ACCESS_ADMIN, NULL, h)

#define READ(path, h) DF_ROUTE("GET", "/imports" path, DF_BODY_NONE, DF_ACCESS_CLIENT, "imports", h)

const struct df_route df_imports_read_routes[] = {
    READ("", list),
    READ("/{batchId}", get),
    READ("/{batchId}/items", items),
    READ("/{batchId}/reasons", reasons),
    READ("/{batchId}/errors.xlsx", df_import_xlsx_handler),
    READ("/{batchId}/errors.csv", df_import_csv_handler),
    READ("/{batchId}/errors.json", df_import_json_handler),
    READ("/{batchId}/events", df_import_events_handler),
    ADMIN("", search),
    ADMIN(".csv", export_batches),
    ADMIN("/{batchId}", operator_get),
    ADMIN("/{batchId}/items", items),
    ADMIN("/{batchId}/reasons", reasons),
    ADMIN("/{batchId}/errors.xlsx", df_import_xlsx_handler),
    ADMIN("/{batchId}/errors.csv", df_import_csv_handler),
    ADMIN("/{batchId}/errors.json", df_import_json_handler),
    ADMIN("/{batchId}/events", df_import_events_handler),
    {.method = NULL},
};
