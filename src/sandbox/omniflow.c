/*
 * OmniFlow: POST /api/leads/import {"batchId","chunkId","offset","items":[…]}.
 *
 * Synchronous: 200 with the result of every item. Asynchronous: 202 with an ackId that is the same
 * for the same chunk, and the result as an ack to {server}/imports/{batchId}/acks.
 *
 * An item is rejected if it, or its lead context, has a member "sandboxError" (its text is the
 * message), or if its phone ends in the configured suffix.
 */
#include "sandbox/internal.h"

#include <sodium.h>
#include <stdio.h>

#define ANSWER_MAX   ((size_t)16 << 20)
#define BATCH_ID_MAX 64
#define MARK         "sandboxError"

struct chunk {
    struct df_arena *arena;
    struct df_sb_settings settings;
    struct df_str batch_id;
    const struct df_json *chunk_id;
    int64_t offset;
    const struct df_json *items;
    bool marked; /* the body contains the mark: look at each item */
    size_t errors;
};

/* The id becomes part of the ack's URL. */
static bool is_batch_id(struct df_str s)
{
    if (s.len == 0 || s.len > BATCH_ID_MAX)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
            c != '-' && c != '_')
            return false;
    }
    return true;
}

static void check_items(struct df_input *in, const struct df_json *items)
{
    if (!items || items->type != DF_JSON_ARRAY || df_json_count(items) == 0) {
        df_input_error(in, "items", "must be an array with at least one item");
        return;
    }
    size_t i = 0;
    struct df_json_each each = df_json_each(items);
    for (const struct df_json *v; (v = df_json_next(&each)); i++) {
        if (v->type == DF_JSON_OBJECT)
            continue;
        char field[40];
        (void)snprintf(field, sizeof(field), "items[%zu]", i);
        df_input_error(in, field, "must be an object");
    }
}

static bool read_chunk(struct df_sandbox *s, struct df_req *req, struct chunk *ch)
{
    struct df_input in;

    if (!df_input_json(&in, req))
        return false;
    ch->arena = df_req_arena(req);
    ch->settings = df_sb_config_settings(&s->config);
    ch->batch_id = df_input_text(&in, "batchId", BATCH_ID_MAX, DF_REQUIRED);
    if (ch->batch_id.len > 0 && !is_batch_id(ch->batch_id))
        df_input_error(&in, "batchId", "must be letters, digits, - and _");
    ch->chunk_id = df_json_get(in.object, "chunkId");
    (void)df_input_text(&in, "chunkId", 100, DF_REQUIRED);
    if (!df_json_get(in.object, "offset"))
        df_input_error(&in, "offset", "is required");
    ch->offset = df_input_int(&in, "offset", 0, INT64_MAX / 2, 0);
    ch->items = df_json_get(in.object, "items");
    check_items(&in, ch->items);
    if (!df_input_ok(&in, req))
        return false;
    struct df_str body = df_req_body(req);
    ch->marked = memmem(body.ptr, body.len, MARK, sizeof(MARK) - 1) != NULL;
    return true;
}

static struct df_str message_of(const struct df_json *mark)
{
    bool off = !mark || mark->type == DF_JSON_NULL ||
               (mark->type == DF_JSON_BOOL && !mark->boolean) ||
               (mark->type == DF_JSON_STRING && mark->text.len == 0);
    if (off)
        return DF_STR_NULL;
    return mark->type == DF_JSON_STRING ? mark->text : DF_STR("rejected by the sandbox");
}

/* Why the item is rejected; absent: it is accepted. */
static struct df_str error_of(const struct chunk *ch, const struct df_json *item)
{
    struct df_str suffix = df_str_c(ch->settings.error_phone_suffix);
    if (suffix.len > 0) {
        const struct df_json *phone = df_json_get(item, "phoneNumber");
        if (phone && df_str_ends(phone->text, suffix))
            return DF_STR("the phone number is one that the sandbox rejects");
    }
    if (!ch->marked)
        return DF_STR_NULL;
    const struct df_json *mark = df_json_get(item, MARK);
    const struct df_json *context = df_json_get(item, "leadContextJson");
    if (!mark && context && context->type == DF_JSON_STRING &&
        memmem(context->text.ptr, context->text.len, MARK, sizeof(MARK) - 1) &&
        df_json_parse(ch->arena, context->text, &context, NULL) != DF_OK)
        context = NULL;
    return message_of(mark ? mark : df_json_get(context, MARK));
}

static void write_item(struct df_json_out *out, int64_t sequence, struct df_str error)
{
    df_json_open(out, '{');
    df_json_kv_int(out, "sequence", sequence);
    df_json_kv_text(out, "status", error.ptr ? DF_STR("Error") : DF_STR("Imported"));
    if (error.ptr)
        df_json_kv_text(out, "errorMessage", error);
    df_json_close(out, '}');
}

/* Writes "items", as far as they are wanted, and counts the errors. */
static void write_items(struct chunk *ch, struct df_json_out *out)
{
    enum df_sb_item_results wanted = ch->settings.item_results;
    int64_t position = ch->offset;

    df_json_key(out, "items");
    df_json_open(out, '[');
    struct df_json_each each = df_json_each(ch->items);
    for (const struct df_json *v; (v = df_json_next(&each)); position++) {
        struct df_str error = error_of(ch, v);
        int64_t sequence = position;
        ch->errors += error.ptr != NULL;
        if (wanted == DF_SB_ITEMS_NONE || (wanted == DF_SB_ITEMS_ERRORS && !error.ptr))
            continue;
        const struct df_json *own = df_json_get(v, "sequence");
        if (own)
            (void)df_json_to_i64(own, &sequence);
        write_item(out, sequence, error);
    }
    df_json_close(out, ']');
}

static void write_result(struct chunk *ch, struct df_json_out *out)
{
    write_items(ch, out);
    bool all = ch->errors == df_json_count(ch->items);
    df_json_kv_text(out, "status", all ? DF_STR("Error") : DF_STR("Imported"));
    if (all)
        df_json_kv_text(out, "message", DF_STR("every item was rejected"));
}

/* The same chunk gets the same ackId, even in another run of the sandbox. */
static void make_ack_id(struct df_str body, char out[37])
{
    static const unsigned char key[crypto_shorthash_siphashx24_KEYBYTES] = "dataflow-ack-id";
    unsigned char h[crypto_shorthash_siphashx24_BYTES];

    (void)crypto_shorthash_siphashx24(h, (const unsigned char *)body.ptr, body.len, key);
    (void)snprintf(out, 37, "ack-%02x%02x%02x%02x%02x%02x%02x%02x%02x%02x%02x%02x", h[0], h[1],
                   h[2], h[3], h[4], h[5], h[6], h[7], h[8], h[9], h[10], h[11]);
}

static struct df_sb_errand *make_ack(struct df_sandbox *s, struct df_req *req, struct chunk *ch,
                                     const char *ack_id)
{
    struct df_buf body;
    struct df_json_out out;
    char path[BATCH_ID_MAX + 32];

    df_buf_init(&body, ANSWER_MAX);
    df_json_out_init(&out, &body);
    df_json_open(&out, '{');
    df_json_kv_text(&out, "ackId", df_str_c(ack_id));
    df_json_key(&out, "chunkId");
    df_json_raw(&out, ch->chunk_id->raw);
    write_result(ch, &out);
    df_json_close(&out, '}');
    (void)snprintf(path, sizeof(path), "/imports/" DF_STR_FMT "/acks", DF_STR_ARG(ch->batch_id));
    return df_sb_errand_new(s, DF_SB_ACK, path, df_req_correlation_id(req), &body,
                            ch->settings.ack_delay_ms);
}

static bool wants_async(struct df_req *req, bool configured)
{
    struct df_str mode = df_req_query(req, "mode");
    if (!mode.ptr)
        mode = df_req_header(req, "X-Sandbox-Mode");
    if (df_str_ieq(mode, DF_STR("async")))
        return true;
    return df_str_ieq(mode, DF_STR("sync")) ? false : configured;
}

void df_sb_omniflow(struct df_sandbox *s, struct df_req *req, struct df_sb_reply *reply)
{
    struct chunk ch = {0};
    struct df_json_out out;

    if (!read_chunk(s, req, &ch)) {
        reply->status = 400;
        return;
    }
    df_buf_init(&reply->body, ANSWER_MAX);
    df_json_out_init(&out, &reply->body);
    df_json_open(&out, '{');
    if (wants_async(req, ch.settings.async)) {
        char ack_id[37];
        make_ack_id(df_req_body(req), ack_id);
        reply->status = 202;
        reply->errand = make_ack(s, req, &ch, ack_id);
        df_json_kv_text(&out, "ackId", df_str_c(ack_id));
        df_json_kv_text(&out, "status", DF_STR("Accepted"));
    } else {
        df_json_kv_text(&out, "batchId", ch.batch_id);
        df_json_key(&out, "chunkId");
        df_json_raw(&out, ch.chunk_id->raw);
        write_result(&ch, &out);
    }
    df_json_close(&out, '}');
}
