/*
 * Loki's push API: POST /loki/api/v1/push.
 *
 *     {"streams":[{"stream":{"job":"dataflow",…,"level":"info"},"values":[["<ns>","<line>"],…]},…]}
 *
 * A stream for each level; labels have few values, so that Loki's index stays small: identifiers
 * stay in the line. Loki drops an entry whose time and line it has already in a stream, so lines
 * that are sent again make no second entry; lines of one millisecond differ in their nanoseconds.
 */
#include "ship/target.h"
#include "json/write.h"

#include <inttypes.h>
#include <stdio.h>

static void put_labels(const struct df_ship_target *t, const struct df_ship_batch *b,
                       enum df_log_level level, struct df_json_out *out)
{
    df_json_key(out, "stream");
    df_json_open(out, '{');
    df_json_kv_text(out, "job", DF_STR(DF_SHIP_SERVICE));
    df_json_kv_text(out, "service_name", DF_STR(DF_SHIP_SERVICE));
    df_json_kv_text(out, "instance", b->host);
    df_json_kv_text(out, "level", df_str_c(df_ship_level(level)));
    for (size_t i = 0; i < t->label_count; i++) {
        df_json_key_str(out, t->labels[i].name);
        df_json_text(out, t->labels[i].value);
    }
    df_json_close(out, '}');
}

static void put_entry(const struct df_spool_record *r, struct df_json_out *out)
{
    char time[24];
    int len = snprintf(time, sizeof(time), "%" PRId64, r->time_ns);

    df_json_open(out, '[');
    df_json_text(out, df_str_n(time, (size_t)len));
    df_json_text(out, r->text);
    df_json_close(out, ']');
}

static void put_stream(const struct df_ship_target *t, struct df_ship_batch *b,
                       const struct df_ship_piece *p, enum df_log_level level,
                       struct df_json_out *out)
{
    const struct df_ship_line *line;
    bool begun = false;

    for (size_t at = 0; (line = df_ship_next(b, p, &at));) {
        if (line->record.level != level)
            continue;
        if (!begun) {
            df_json_open(out, '{');
            put_labels(t, b, level, out);
            df_json_key(out, "values");
            df_json_open(out, '[');
            begun = true;
        }
        put_entry(&line->record, out);
    }
    if (begun) {
        df_json_close(out, ']');
        df_json_close(out, '}');
    }
}

static void encode_push(const struct df_ship_target *t, struct df_ship_batch *b,
                        const struct df_ship_piece *p, struct df_buf *to)
{
    struct df_json_out out;

    df_json_out_init(&out, to);
    df_json_open(&out, '{');
    df_json_key(&out, "streams");
    df_json_open(&out, '[');
    for (int level = DF_LOG_DEBUG; level <= DF_LOG_ERROR; level++)
        put_stream(t, b, p, (enum df_log_level)level, &out);
    df_json_close(&out, ']');
    df_json_close(&out, '}');
}

/* 204, and nothing to read. */
static enum df_ship_answer settle_push(struct df_ship_batch *b, const struct df_ship_piece *p,
                                       struct df_str answer)
{
    (void)p;
    (void)answer;
    df_ship_batch_taken(b);
    return DF_SHIP_ALL_SETTLED;
}

const struct df_ship_protocol df_ship_loki = {
    .scheme = "loki",
    .port = 3100,
    .path = "/loki/api/v1/push",
    .auth = "Bearer",
    .media_type = "application/json",
    .encode = encode_push,
    .classify = df_outbound_judge_status,
    .settle = settle_push,
};
