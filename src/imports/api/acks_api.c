/*
 * POST /imports/{batchId}/acks: OmniFlow's results for a chunk that it answered with 202. The ack
 * is only stored here, with the chunk; the owner of the batch settles the chunk by it (pipeline.c).
 *
 * A canonical text of the ack is stored, so that the same ack compares equal however it is written.
 *
 * An ack may arrive before the commit of the 202 that names it. It cannot be told then from an ack
 * with a wrong id, so it is kept aside (ImportEarlyAck), and its request waits for a moment. If the
 * 202 names its id, the answer is 200; if not, or not soon enough, 404. A kept ack counts as soon
 * as a 202 names it, whatever was answered; one that no 202 names never counts.
 *
 * An ack that no 202 has named gives nothing away about the batch: whether there is such a batch or
 * chunk, of any client, and whether it is under way, the answer is the same 404, after the same
 * time.
 */
#include "imports/api/import_acks.sql.h"
#include "imports/api/views.h"
#include "imports/batch.h"
#include "imports/imports.h"
#include "imports/routes.h"
#include "privacy/mask.h"

#include <stdio.h>
#include <stdlib.h>

#define NOT_FOUND     "There is no such batch, chunk or ack."
#define BODY_MAX      ((size_t)8 << 20)
#define ITEMS_MAX     10000
#define ACK_ID_MAX    200
#define MESSAGE_UNITS 2000
#define ITEM_UNITS    1000 /* ImportItem.ErrorMessage */
#define EARLY_MAX     4    /* early acks kept of a chunk: the right one and a few wrong ones */

struct call {
    struct df_work w;
    struct df_uuid batch;
    struct df_str ack_id;
    int64_t chunk_id;
    enum df_chunk_status status; /* IMPORTED or ERROR */
    struct df_str canonical;
    struct df_str stored_ack; /* the same, masked */
    int64_t *sequences;
    size_t item_count;
    bool stored;  /* by this job; false for a repeated ack */
    bool early;   /* no answer has named an ack of the chunk yet */
    bool unknown; /* there is no such chunk, or its ack has another id */
    struct df_ack_wait wait;
};

struct chunk {
    int64_t id;
    int64_t status;
    bool has_ack_id;
    bool same_ack_id;
    bool has_ack;
    bool same_ack;
    int64_t offset;
    int64_t count;
    int64_t attempt; /* of the batch */
};

/* --- reading --- */

static void read_item(struct df_input *in, struct call *c, size_t i, const struct df_json *item,
                      struct df_json_out *out)
{
    struct df_json sequence, status, message;
    enum df_item_status s;
    char field[48];

    (void)snprintf(field, sizeof field, "items[%zu]", i);
    if (item->type != DF_JSON_OBJECT) {
        df_input_error(in, field, "must be an object");
        return;
    }
    (void)df_json_find(item, "sequence", &sequence);
    (void)df_json_find(item, "status", &status);
    (void)df_json_find(item, "errorMessage", &message);
    bool text = message.type == DF_JSON_NULL || message.type == DF_JSON_STRING;
    if (!df_json_to_i64(&sequence, &c->sequences[i]) || c->sequences[i] < 0 ||
        c->sequences[i] > INT32_MAX)
        df_input_error(in, field, "needs a sequence, a whole number from 0 on");
    else if (status.type != DF_JSON_STRING || !df_item_status_parse(status.text, &s))
        df_input_error(in, field, "needs a status: Imported, Error or Skipped");
    else if (!text)
        df_input_error(in, field, "has an errorMessage that is not text");
    else {
        df_json_open(out, '{');
        df_json_kv_int(out, "sequence", c->sequences[i]);
        df_json_kv_text(out, "status", df_str_c(df_item_status_name(s)));
        df_json_kv_text(out, "errorMessage",
                        message.type == DF_JSON_STRING ? df_utf8_cut(message.text, ITEM_UNITS)
                                                       : DF_STR_NULL);
        df_json_close(out, '}');
    }
}

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void check_repeated(struct df_input *in, struct call *c)
{
    qsort(c->sequences, c->item_count, sizeof(*c->sequences), by_value);
    for (size_t i = 1; i < c->item_count; i++) {
        if (c->sequences[i] == c->sequences[i - 1]) {
            df_input_error(in, "items", "has sequence %lld twice", (long long)c->sequences[i]);
            return;
        }
    }
}

static void read_items(struct df_input *in, struct call *c, struct df_json_out *out)
{
    const struct df_json *items = df_json_get(in->object, "items");
    size_t i = 0;

    if (!items || items->type == DF_JSON_NULL)
        return;
    if (items->type != DF_JSON_ARRAY) {
        df_input_error(in, "items", "must be an array");
        return;
    }
    size_t count = df_json_count(items);
    if (count > ITEMS_MAX) {
        df_input_error(in, "items", "has %zu items, at most %d are allowed", count, ITEMS_MAX);
        return;
    }
    c->item_count = count;
    c->sequences = DF_ARENA_ARRAY(in->arena, int64_t, count + 1);
    struct df_json_each each = df_json_each(items);
    for (const struct df_json *item; (item = df_json_next(&each));)
        read_item(in, c, i++, item, out);
    if (in->error_count == 0)
        check_repeated(in, c);
}

static struct df_str read_message(struct df_input *in)
{
    const struct df_json *message = df_json_get(in->object, "message");

    if (!message || message->type == DF_JSON_NULL)
        return DF_STR_NULL;
    if (message->type != DF_JSON_STRING)
        df_input_error(in, "message", "must be text");
    return df_utf8_cut(message->text, MESSAGE_UNITS);
}

static void read_ack(struct df_input *in, struct call *c, struct df_json_out *out)
{
    c->ack_id = df_input_text(in, "ackId", ACK_ID_MAX, DF_REQUIRED);
    c->chunk_id = df_input_int(in, "chunkId", 0, INT32_MAX, -1);
    const struct df_json *chunk_id = df_json_get(in->object, "chunkId");
    if (!chunk_id || chunk_id->type == DF_JSON_NULL)
        df_input_error(in, "chunkId", "is required");
    struct df_str status = df_input_text(in, "status", 20, DF_REQUIRED);
    if (df_str_ieq(status, DF_STR("Imported")))
        c->status = DF_CHUNK_IMPORTED;
    else if (df_str_ieq(status, DF_STR("Error")))
        c->status = DF_CHUNK_ERROR;
    else if (status.len > 0)
        df_input_error(in, "status", "must be Imported or Error");
    df_json_open(out, '{');
    df_json_kv_text(out, "ackId", c->ack_id);
    df_json_kv_text(out, "status", df_str_c(df_chunk_status_name(c->status)));
    df_json_kv_text(out, "message", read_message(in));
    df_json_key(out, "items");
    df_json_open(out, '[');
    read_items(in, c, out);
    df_json_close(out, ']');
    df_json_close(out, '}');
}

/* --- storing --- */

static enum df_code ack_not_found(struct df_err *err)
{
    return df_err_set(err, DF_E_NOT_FOUND, NOT_FOUND);
}

struct search {
    const struct call *call;
    struct chunk *chunk;
};

static void read_chunk(void *arg, struct df_result *r)
{
    const struct search *s = arg;
    struct df_str ack_id = df_col_text(r, import_ack_find_AckId);
    struct df_str ack = df_col_text(r, import_ack_find_AckJson);

    *s->chunk = (struct chunk){
        .id = df_col_int(r, import_ack_find_Id),
        .status = df_col_int(r, import_ack_find_Status),
        .has_ack_id = ack_id.ptr,
        .same_ack_id = df_str_eq(ack_id, s->call->ack_id),
        .has_ack = ack.ptr,
        /* Acks of earlier releases are not masked. */
        .same_ack = df_str_eq(ack, s->call->stored_ack) || df_str_eq(ack, s->call->canonical),
        .offset = df_col_int(r, import_ack_find_RecordOffset),
        .count = df_col_int(r, import_ack_find_RecordCount),
        .attempt = df_col_int(r, import_ack_find_Attempt),
    };
}

static enum df_code find_chunk(struct df_db *db, const struct call *c, struct chunk *ret,
                               struct df_err *err)
{
    bool found = false;
    enum df_code code = df_db_one(db,
                                  DF_Q(import_ack_find, .batch_id = df_uuid(df_uuid_str(&c->batch)),
                                       .chunk_id = df_int(c->chunk_id)),
                                  read_chunk, &(struct search){c, ret}, &found, err);

    return code == DF_OK && !found ? ack_not_found(err) : code;
}

/* Whether the ack belongs to the chunk: by its id, or because an answer without an id settled it.
 */
static bool is_its_own(const struct chunk *k)
{
    return k->has_ack_id ? k->same_ack_id : k->status >= DF_CHUNK_IMPORTED;
}

/* The call is under way, or its answer was lost: the next answer will name the id. */
static bool is_early(const struct chunk *k)
{
    return !is_its_own(k) && !k->has_ack &&
           (k->status == DF_CHUNK_PENDING || k->status == DF_CHUNK_SENDING);
}

static void look_for_room(void *arg, struct df_result *r)
{
    *(bool *)arg = df_col_int(r, import_early_look_Kept) < EARLY_MAX &&
                   df_col_int(r, import_early_look_Known) == 0;
}

static enum df_code keep_early(struct df_db *db, struct call *c, struct df_err *err)
{
    struct df_value batch = df_uuid(df_uuid_str(&c->batch));
    struct df_value chunk = df_int(c->chunk_id);
    char hash[DF_CHECKSUM_LEN + 1];
    bool room = false;

    df_checksum_of(c->ack_id, hash);
    struct df_value hash_value = df_text(df_str_c(hash));
    enum df_code code = df_db_one(
        db, DF_Q(import_early_look, .batch_id = batch, .chunk_id = chunk, .hash = hash_value),
        look_for_room, &room, NULL, err);
    if (code != DF_OK)
        return code;
    c->early = true;
    if (!room)
        return DF_OK;
    return df_db_exec(db,
                      DF_Q(import_early_keep, .batch_id = batch, .chunk_id = chunk,
                           .hash = hash_value, .ack_json = df_text(c->stored_ack),
                           .now = df_time(df_wall_ms(c->w.access->clock))),
                      NULL, err);
}

/* Compares the ack with what is stored. DF_OK: store it. DF_DONE: it is a repeat. */
static enum df_code compare_ack(const struct call *c, const struct chunk *k, struct df_err *err)
{
    bool settled = k->status >= DF_CHUNK_IMPORTED;

    if (!k->has_ack && !settled)
        return DF_OK;
    if (k->has_ack ? k->same_ack : k->status == (int64_t)c->status)
        return DF_DONE;
    return df_err_set(err, DF_E_CONFLICT,
                      k->has_ack ? "The chunk has another ack already."
                                 : "The chunk was settled differently.");
}

/* Not for a later attempt, whose records come from anywhere in the file. */
static enum df_code check_range(const struct call *c, const struct chunk *k, struct df_err *err)
{
    if (c->item_count == 0 || k->attempt > 1)
        return DF_OK;
    /* The sequences are sorted. */
    if (c->sequences[0] >= k->offset && c->sequences[c->item_count - 1] < k->offset + k->count)
        return DF_OK;
    return df_err_set(err, DF_E_VALIDATION,
                      "The chunk has the sequences %lld to %lld, and items has another.",
                      (long long)k->offset, (long long)(k->offset + k->count - 1));
}

static enum df_code run_ack(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct chunk k = {0};
    int64_t changed = 0;

    c->stored = c->early = c->unknown = false;
    enum df_code code = find_chunk(db, c, &k, err);
    if (code == DF_E_NOT_FOUND || (code == DF_OK && !is_its_own(&k) && !is_early(&k))) {
        c->unknown = true;
        return DF_OK;
    }
    if (code == DF_OK)
        code = compare_ack(c, &k, err);
    if (code != DF_OK)
        return code == DF_DONE ? DF_OK : code;
    code = check_range(c, &k, err);
    if (is_early(&k)) { /* a wrong range is not told before the id is known to be right */
        c->early = true;
        return code == DF_OK ? keep_early(db, c, err) : DF_OK;
    }
    if (code != DF_OK)
        return code;
    code = df_db_exec(db,
                      DF_Q(import_ack_store, .ack_json = df_text(c->stored_ack),
                           .ack_id = df_text(c->ack_id),
                           .now = df_time(df_wall_ms(w->access->clock)), .id = df_int(k.id)),
                      &changed, err);
    if (code == DF_OK && changed == 0) /* the store runs the job again */
        return df_err_set(err, DF_E_DB_CONFLICT, "The chunk has just changed.");
    c->stored = true;
    return code;
}

static void give_ack_up(struct df_ack_wait *wait)
{
    struct call *c = (struct call *)((char *)wait - offsetof(struct call, wait));
    df_work_fail(&c->w, DF_E_BUSY, "The ack cannot be processed now.");
}

static void refuse_ack(struct df_ack_wait *wait)
{
    struct call *c = (struct call *)((char *)wait - offsetof(struct call, wait));
    df_work_fail(&c->w, DF_E_NOT_FOUND, NOT_FOUND);
}

/* An early ack waits, as long as there is time; one that is not known, as long as an early one
 * would. */
static bool wait_if_early(struct df_work *w, enum df_code code, const struct df_err *err)
{
    struct call *c = (struct call *)w;
    const struct df_import_views *views = w->arg;

    if (code == DF_OK && c->early) {
        if (df_ack_waits_add(views->acks, &c->wait))
            return true;
        df_req_fail(w->req, DF_E_NOT_FOUND, NOT_FOUND);
    } else if (code == DF_OK && c->unknown) {
        if (df_ack_waits_hold(views->acks, &c->wait))
            return true;
        df_req_fail(w->req, DF_E_NOT_FOUND, NOT_FOUND);
    } else if (code == DF_E_VALIDATION) {
        const struct df_field_error bad = {DF_STR("items"), df_str_c(err->detail)};
        df_req_problem_fields(w->req, err, &bad, 1);
    }
    return false;
}

static void ack_stored(struct df_work *w)
{
    const struct call *c = (const struct call *)w;
    const struct df_import_views *views = w->arg;
    struct df_log_field said[] = {DF_FI("chunkId", c->chunk_id), DF_F("ackId", c->ack_id)};
    bool waited = c->wait.since_ms > 0; /* the batch's owner may have stored it meanwhile */

    if (c->stored || waited) {
        df_log_write(DF_LOG_INFO, "AckReceived", said, 2, "%s", "");
        df_imports_acked(views->imports, &c->batch);
    }
    df_json_open(&w->json, '{');
    df_json_kv_text(&w->json, "batchId", df_uuid_str(&c->batch));
    df_json_kv_int(&w->json, "chunkId", c->chunk_id);
    df_json_kv_text(&w->json, "status", df_str_c(df_chunk_status_name(c->status)));
    df_json_close(&w->json, '}');
}

static struct df_str masked_ack(const struct call *c)
{
    const struct df_import_views *views = c->w.arg;
    const struct df_masker *m = df_imports_options_of(views->imports)->masker;
    struct df_buf masked;

    if (!m)
        return c->canonical;
    df_req_buf(c->w.req, &masked, DF_HASHED_GROWTH * BODY_MAX);
    df_mask_json(m, c->canonical, &masked);
    struct df_str text = df_buf_failed(&masked)
                             ? c->canonical
                             : df_arena_str(df_req_arena(c->w.req), df_buf_str(&masked));
    df_buf_release(&masked);
    return text;
}

/* Reads the ack, and writes its canonical text to c->canonical. False: the answer is set. */
static bool read_body(struct call *c, struct df_input *in)
{
    struct df_req *req = c->w.req;
    struct df_buf text;
    struct df_json_out out;

    if (!df_input_json(in, req))
        return false;
    df_req_buf(req, &text, 2 * BODY_MAX);
    df_json_out_init(&out, &text);
    read_ack(in, c, &out);
    c->canonical = df_arena_str(df_req_arena(req), df_buf_str(&text));
    c->stored_ack = masked_ack(c);
    bool whole = !df_buf_failed(&text);
    size_t len = text.len;
    df_buf_release(&text);
    if (!df_input_ok(in, req) || !df_req_charge(req, len))
        return false;
    if (!whole)
        df_req_fail(req, DF_E_TOO_LARGE, "The ack is too large.");
    return whole;
}

static bool read_ack_call(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;

    if (!read_body(c, in))
        return false;
    if (!df_uuid_parse(df_req_param(w->req, "batchId"), &c->batch)) {
        df_req_fail(w->req, DF_E_NOT_FOUND, NOT_FOUND);
        return false;
    }
    c->wait = (struct df_ack_wait){.job = &w->job,
                                   .give_up = give_ack_up,
                                   .over = refuse_ack,
                                   .bytes = df_req_body(w->req).len};
    df_log_ctx_set(df_req_log(w->req), "batchId", df_uuid_str(&c->batch));
    return true;
}

static const struct df_handler receive_ack = {
    .size = sizeof(struct call),
    .writes = true,
    .prepare = read_ack_call,
    .run = run_ack,
    .pass_on = wait_if_early,
    .done = ack_stored,
};

const struct df_route df_imports_ack_routes[] = {
    {.method = "POST",
     .pattern = "/imports/{batchId}/acks",
     .access = DF_ACCESS_CLIENT,
     .scope = "acks",
     .body = DF_BODY_JSON,
     .max_body_bytes = BODY_MAX,
     .handle = df_handle,
     .handler = &receive_ack},
    {.method = NULL},
};
