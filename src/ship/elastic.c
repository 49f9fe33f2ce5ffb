/*
 * Elasticsearch's bulk API: POST /{index}/_bulk, two lines for each line of the log.
 *
 *     {"create":{"_id":"<process>-<segment>-<offset>"}}
 *     {"@timestamp":"…","log.level":"info","message":"…","event.action":"…",…}
 *
 * `create`, because data streams take nothing else, with an id that is the line's place in the
 * spool: a line that is sent again is refused with 409, which is success. Names are those of the
 * Elastic Common Schema. What it has no names for is under `labels` if it is text and under
 * `dataflow` if not, so that no name ever has two types, which the index would refuse.
 *
 * The answer has a status for each item, in order:
 *
 *   2xx, 409                          taken, now or before
 *   401, 403, 404, 408, 429, 5xx …    waits: the index or the cluster refuses everything at present
 *   any other                         refused: this document will never be taken
 */
#include "ship/target.h"
#include "json/write.h"

#include <inttypes.h>

#define ECS_VERSION  "8.11.0"
#define NAME_MAX_LEN 64

struct others {
    struct df_arena *arena;
    struct df_ship_field *items;
    size_t count, cap;
};

static void keep_field(void *arg, const struct df_ship_field *f)
{
    struct others *o = arg;

    if (o->count == o->cap) {
        size_t cap = o->cap ? 2 * o->cap : 16;
        struct df_ship_field *items = DF_ARENA_ARRAY(o->arena, struct df_ship_field, cap);
        if (o->count > 0)
            memcpy(items, o->items, o->count * sizeof(*items));
        o->items = items;
        o->cap = cap;
    }
    o->items[o->count++] = *f;
}

/* A dot would make an object of the name. */
static void put_name(struct df_arena *a, struct df_str name, struct df_json_out *out)
{
    char *plain = df_arena_cstr(a, name);

    for (size_t i = 0; i < name.len; i++)
        if (plain[i] == '.')
            plain[i] = '_';
    df_json_key_str(out, df_str_n(plain, name.len));
}

/* A label that is configured wins: a document that has a name twice is refused. */
static bool is_shown(const struct df_ship_field *f, bool texts, const struct df_ship_target *t)
{
    if ((f->type == DF_JSON_STRING) != texts || f->name.len == 0 || f->name.len > NAME_MAX_LEN)
        return false;
    for (size_t i = 0; texts && i < t->label_count; i++)
        if (df_str_eq(f->name, t->labels[i].name))
            return false;
    return true;
}

static void put_others(const struct others *o, bool texts, const struct df_ship_target *t,
                       struct df_json_out *out)
{
    bool any = texts && t->label_count > 0;

    for (size_t i = 0; i < o->count && !any; i++)
        any = is_shown(&o->items[i], texts, t);
    if (!any)
        return;
    df_json_key(out, texts ? "labels" : "dataflow");
    df_json_open(out, '{');
    for (size_t i = 0; texts && i < t->label_count; i++) {
        df_json_key_str(out, t->labels[i].name);
        df_json_text(out, t->labels[i].value);
    }
    for (size_t i = 0; i < o->count; i++) {
        const struct df_ship_field *f = &o->items[i];
        if (!is_shown(f, texts, t))
            continue;
        put_name(o->arena, f->name, out);
        if (texts)
            df_json_text(out, f->text);
        else
            df_json_raw(out, f->text);
    }
    df_json_close(out, '}');
}

static void put_if(struct df_json_out *out, const char *name, struct df_str text)
{
    if (text.ptr)
        df_json_kv_text(out, name, text);
}

static void put_document(const struct df_ship_target *t, const struct df_ship_batch *b,
                         const struct df_spool_record *r, struct df_arena *a, struct df_buf *to)
{
    struct others others = {.arena = a};
    struct df_ship_parts p = df_ship_take_apart(a, r->text, keep_field, &others);
    struct df_json_out out;
    char time[DF_TIME_LEN + 1];

    df_time_format(r->time_ns / 1000000, time);
    df_json_out_init(&out, to);
    df_json_open(&out, '{');
    df_json_kv_text(&out, "@timestamp", p.time.ptr ? p.time : df_str_c(time));
    df_json_kv_text(&out, "log.level", df_str_c(df_ship_level(r->level)));
    df_json_kv_text(&out, "message", p.message.ptr ? p.message : DF_STR(""));
    df_json_kv_text(&out, "ecs.version", DF_STR(ECS_VERSION));
    put_if(&out, "event.action", p.event);
    put_if(&out, "trace.id", p.trace_id);
    put_if(&out, "span.id", p.span_id);
    put_if(&out, "client.ip", p.ip);
    df_json_kv_text(&out, "service.name", DF_STR(DF_SHIP_SERVICE));
    df_json_kv_text(&out, "service.node.name", b->folder);
    df_json_kv_text(&out, "host.name", b->host);
    put_others(&others, true, t, &out);
    put_others(&others, false, t, &out);
    df_json_close(&out, '}');
    df_buf_addc(to, '\n');
}

static void encode_bulk(const struct df_ship_target *t, struct df_ship_batch *b,
                        const struct df_ship_piece *p, struct df_buf *to)
{
    const struct df_ship_line *line;
    struct df_arena arena;

    df_arena_init(&arena);
    for (size_t at = 0; (line = df_ship_next(b, p, &at));) {
        df_buf_addf(to, "{\"create\":{\"_id\":\"" DF_STR_FMT "-%" PRIx64 "-%" PRIx64 "\"}}\n",
                    DF_STR_ARG(b->folder), line->record.at.segment, line->record.at.offset);
        put_document(t, b, &line->record, &arena, to);
        df_arena_reset(&arena);
    }
    df_arena_release(&arena);
}

/* --- the answer --- */

static enum df_ship_state state_of(int64_t status)
{
    if (status == 409)
        return DF_SHIP_SHIPPED;
    switch (df_outbound_judge_status(status < 0 || status > 999 ? 0 : (unsigned)status).verdict) {
    case DF_OUT_OK:
        return DF_SHIP_SHIPPED;
    case DF_OUT_REFUSED:
        return DF_SHIP_REFUSED;
    case DF_OUT_AGAIN:
    case DF_OUT_STOPPED:
        break;
    }
    return DF_SHIP_WAITING;
}

/* {"create":{"status":201,…}}; -1: it is not such an item. */
static int64_t status_of(const struct df_json *item)
{
    struct df_json_each members = df_json_each(item);
    const struct df_json *action = df_json_next(&members);
    struct df_json status;
    int64_t value;

    if (!action || !df_json_find(action, "status", &status) || status.type != DF_JSON_NUMBER ||
        !df_json_to_i64(&status, &value) || value < 100 || value > 599)
        return -1;
    return value;
}

/* An answer that does not have an item for each line changes nothing. */
static bool has_all_items(const struct df_json *items, size_t wanted)
{
    struct df_json_each each = df_json_each(items);
    size_t count = 0;

    if (items->type != DF_JSON_ARRAY)
        return false;
    for (const struct df_json *item; (item = df_json_next(&each)); count++)
        if (status_of(item) < 0)
            return false;
    return count == wanted;
}

static enum df_ship_answer settle_items(struct df_ship_batch *b, const struct df_ship_piece *p,
                                        const struct df_json *items)
{
    struct df_json_each each = df_json_each(items);
    struct df_ship_line *line;
    bool waits = false;

    for (size_t at = 0; (line = df_ship_next(b, p, &at));) {
        line->state = state_of(status_of(df_json_next(&each)));
        waits = waits || line->state == DF_SHIP_WAITING;
    }
    return waits ? DF_SHIP_SOME_WAIT : DF_SHIP_ALL_SETTLED;
}

static enum df_ship_answer settle_bulk(struct df_ship_batch *b, const struct df_ship_piece *p,
                                       struct df_str answer)
{
    enum df_ship_answer result = DF_SHIP_UNREADABLE;
    const struct df_json *doc;
    struct df_json errors, items;
    struct df_err ignored = DF_ERR_INIT;
    struct df_arena arena;

    df_arena_init(&arena);
    if (df_json_parse(&arena, answer, &doc, &ignored) == DF_OK &&
        df_json_find(doc, "errors", &errors) && errors.type == DF_JSON_BOOL &&
        df_json_find(doc, "items", &items) && has_all_items(&items, df_ship_waiting(b, p)))
        result = settle_items(b, p, &items);
    df_arena_release(&arena);
    return result;
}

const struct df_ship_protocol df_ship_elastic = {
    .scheme = "elastic",
    .port = 9200,
    .path = "/_bulk?filter_path=errors,items.*.status",
    .auth = "ApiKey",
    .media_type = "application/x-ndjson",
    .encode = encode_bulk,
    .classify = df_outbound_judge_status,
    .settle = settle_bulk,
};
