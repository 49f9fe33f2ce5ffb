/*
 * The call to OmniFlow and the meaning of its answer.
 *
 * 200 settles the chunk, with a result for each item if the body has them. 202 promises an ack
 * under the id in its body. 408, 425, 429, 5xx or no answer at all is tried again; any other status
 * refuses the chunk for good. An ack has the meaning of a 200, later.
 */
#include "base/personal.h"
#include "imports/process/process_private.h"
#include "imports/reasons.h"
#include "json/doc.h"

#include <stdio.h>
#include <stdlib.h>

#define ANSWER_MAX   ((size_t)8 << 20)
#define ANSWER_UNITS 500
#define ACK_ID_UNITS 200

/* --- the request ------------------------------------------------------------------------------ */

void import_request(struct import_chunk *c)
{
    struct import_batch *b = c->batch;
    const struct df_imports_options *o = &b->imports->opt;
    struct df_out *out = &c->out;

    out->call = (struct df_call){
        .method = "POST",
        .url = b->imports->url,
        .body = df_buf_str(&c->body),
        .timeout_ms = o->settings.timeout_ms,
        .max_answer_bytes = ANSWER_MAX,
        .owner = DF_STR("omniflow"),
        .allow_private = true, /* the operator chose the address */
        .cut = &b->imports->cut,
    };
    out->headers = (struct df_headers){.arena = &c->arena};
    df_headers_add(&out->headers, DF_STR("Content-Type"), DF_STR("application/json"));
    if (o->settings.api_key)
        df_headers_add(&out->headers, df_str_c(o->settings.api_key_header),
                       df_secret_str(o->settings.api_key));
    out->correlation_id = b->row.correlation_id;
    out->idempotency_key =
        df_arena_printf(&c->arena, "%s:%lld:%s", b->id.text, (long long)c->id, c->hash);
    out->trace = b->row.trace;
    out->channel = "imports";
    out->item = df_arena_printf(&c->arena, "%s/%lld", b->id.text, (long long)c->id);
    out->client_id = b->row.client;
    out->resend_count = c->attempts - 1;
}

/* --- results ---------------------------------------------------------------------------------- */

static struct df_str clean_text(struct df_arena *a, struct df_str text, size_t units)
{
    const char *nul = text.len > 0 ? memchr(text.ptr, '\0', text.len) : NULL;
    if (nul)
        text.len = (size_t)(nul - text.ptr);
    text.len = df_utf8_valid_prefix(text);
    return df_mask_note(text, units, a);
}

static struct df_str member_text(const struct df_json *obj, const char *name)
{
    struct df_json v;
    (void)df_json_find(obj, name, &v);
    return v.type == DF_JSON_STRING && v.text.len > 0 ? v.text : DF_STR_NULL;
}

/* The status of the whole answer. It is a 2xx, so without a known status it means imported. */
static enum df_item_status whole_status(const struct df_json *obj)
{
    enum df_item_status status = DF_ITEM_STATUS_IMPORTED;
    (void)df_item_status_parse(member_text(obj, "status"), &status);
    return status;
}

static int by_sequence(const void *key, const void *item)
{
    int64_t sequence = *(const int64_t *)key;
    int64_t other = ((const struct import_item *)item)->sequence;
    return sequence < other ? -1 : sequence > other;
}

static void set_result(struct import_chunk *c, struct import_item *item, enum df_item_status status,
                       struct df_str why)
{
    item->status = status;
    item->error = DF_STR_NULL;
    item->code = NULL;
    if (status == DF_ITEM_STATUS_IMPORTED)
        return;
    item->code = status == DF_ITEM_STATUS_ERROR ? IMPORT_REASON_REFUSED : IMPORT_REASON_SKIPPED;
    if (why.ptr)
        item->error = clean_text(&c->arena, why, IMPORT_ERROR_UNITS);
    else
        item->error = status == DF_ITEM_STATUS_ERROR
                          ? DF_STR("OmniFlow refused it and did not say why")
                          : DF_STR("OmniFlow skipped it");
}

/* An unknown status of a single item, or an error text without a status, counts as an error, so
 * that a person looks at the item. */
static void set_own_result(struct import_chunk *c, struct import_item *item,
                           enum df_item_status whole, const struct df_json *result)
{
    struct df_str status = member_text(result, "status");
    struct df_str why = member_text(result, "errorMessage");
    enum df_item_status s = why.ptr ? DF_ITEM_STATUS_ERROR : whole;

    if (!why.ptr)
        why = member_text(result, "message");
    if (status.ptr && !df_item_status_parse(status, &s)) {
        s = DF_ITEM_STATUS_ERROR;
        if (!why.ptr)
            why = df_arena_printf(&c->arena, "OmniFlow answered \"" DF_STR_FMT "\"",
                                  DF_STR_ARG(status));
    }
    set_result(c, item, s, why);
}

/* Items without a result of their own get that of the whole answer. */
static void apply_results(struct import_chunk *c, const struct df_json *answer)
{
    struct df_json items, n;
    enum df_item_status whole = whole_status(answer);
    struct df_str why = member_text(answer, "message");
    if (!why.ptr)
        why = member_text(answer, "errorMessage");

    for (size_t i = 0; i < c->count; i++) {
        if (c->items[i].sent)
            set_result(c, &c->items[i], whole, why);
    }
    (void)df_json_find(answer, "items", &items);
    struct df_json_each each = df_json_each(items.type == DF_JSON_ARRAY ? &items : NULL);
    for (const struct df_json *v; (v = df_json_next(&each));) {
        int64_t sequence = -1;
        if (!df_json_find(v, "sequence", &n) || !df_json_to_i64(&n, &sequence))
            continue;
        struct import_item *item =
            bsearch(&sequence, c->items, c->count, sizeof(struct import_item), by_sequence);
        if (item && item->sent)
            set_own_result(c, item, whole, v);
    }
    size_t failed = 0;
    for (size_t i = 0; i < c->count; i++)
        failed += c->items[i].sent && c->items[i].status == DF_ITEM_STATUS_ERROR;
    c->outcome = failed < c->sent_count || c->sent_count == 0 ? DF_CHUNK_IMPORTED : DF_CHUNK_ERROR;
    c->error = DF_STR_NULL; /* of an earlier attempt */
    if (c->outcome == DF_CHUNK_ERROR)
        c->error = why.ptr ? clean_text(&c->arena, why, IMPORT_SUMMARY_UNITS)
                           : DF_STR("OmniFlow refused every item");
}

void import_fail_items(struct import_chunk *c, struct df_str error, const char *code)
{
    c->outcome = DF_CHUNK_ERROR;
    c->error = clean_text(&c->arena, error, IMPORT_SUMMARY_UNITS);
    for (size_t i = 0; i < c->count; i++) {
        if (!c->items[i].sent)
            continue;
        set_result(c, &c->items[i], DF_ITEM_STATUS_ERROR, c->error);
        c->items[i].code = code;
    }
}

void import_apply_ack(struct import_chunk *c, struct df_str ack)
{
    const struct df_json *root = NULL;
    struct df_err err = DF_ERR_INIT;
    struct df_arena tree; /* freed at once: it is many times as large as the results */

    df_arena_init(&tree);
    if (df_json_parse(&tree, ack, &root, &err) != DF_OK)
        import_fail_items(c, DF_STR("the stored ack cannot be read"), IMPORT_REASON_UNAVAILABLE);
    else
        apply_results(c, root);
    df_arena_release(&tree);
}

/* --- answers ---------------------------------------------------------------------------------- */

static enum import_verdict judge_accepted(struct import_chunk *c, const struct df_json *answer,
                                          const char **ret_reason)
{
    struct df_str id = member_text(answer, "ackId");

    if (!id.ptr || df_utf8_count(id) > ACK_ID_UNITS) {
        c->error = DF_STR("OmniFlow answered 202 without an ackId");
        *ret_reason = "invalid_answer";
        return IMPORT_AGAIN;
    }
    c->ack_id = df_arena_str(&c->arena, id);
    return IMPORT_AWAIT;
}

/* A 2xx with a complete body. */
static enum import_verdict judge_success(struct import_chunk *c, const char **ret_reason)
{
    const struct df_json *answer = NULL;
    struct df_err err = DF_ERR_INIT;
    struct df_arena tree; /* freed at once, as in import_apply_ack */
    enum import_verdict verdict = IMPORT_DONE;

    df_arena_init(&tree);
    if (df_json_parse(&tree, df_buf_str(&c->out.call.answer), &answer, &err) != DF_OK ||
        answer->type != DF_JSON_OBJECT)
        answer = NULL;
    if (c->out.call.status == 202) {
        verdict = judge_accepted(c, answer, ret_reason);
    } else {
        apply_results(c, answer);
        if (c->outcome == DF_CHUNK_ERROR)
            *ret_reason = "rejected";
    }
    df_arena_release(&tree);
    return verdict;
}

static enum import_verdict judge_status(struct import_chunk *c, const char **ret_reason)
{
    const struct df_call *call = &c->out.call;
    struct df_str body = df_buf_str(&call->answer);

    if (c->out.verdict != DF_OUT_OK) {
        bool again = c->out.verdict == DF_OUT_AGAIN;
        struct df_str text = clean_text(&c->arena, import_masked_answer(c, body), ANSWER_UNITS);
        c->error = df_arena_printf(&c->arena, "OmniFlow answered %u%s" DF_STR_FMT, call->status,
                                   text.len ? ": " : "", DF_STR_ARG(text));
        *ret_reason = again ? "unavailable" : "rejected";
        return again ? IMPORT_AGAIN : IMPORT_REFUSED;
    }
    if (call->answer_cut) { /* results that cannot be read may contain errors */
        c->error = DF_STR("OmniFlow's answer is too large");
        *ret_reason = "invalid_answer";
        return IMPORT_AGAIN;
    }
    return judge_success(c, ret_reason);
}

enum import_verdict import_judge(struct import_chunk *c, const char **ret_reason)
{
    const struct df_call *call = &c->out.call;

    *ret_reason = NULL;
    if (c->out.verdict == DF_OUT_STOPPED)
        return IMPORT_CANCELLED;
    if (call->code == DF_OK)
        return judge_status(c, ret_reason);
    c->error = clean_text(&c->arena, df_str_c(call->err.detail), ANSWER_UNITS);
    *ret_reason = call->code == DF_E_NET_TIMEOUT ? "timeout" : "unavailable";
    return c->out.verdict == DF_OUT_AGAIN ? IMPORT_AGAIN : IMPORT_REFUSED;
}
