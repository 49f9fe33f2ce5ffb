/*
 * What log.ship reads: segments of the spool, and answers of targets. The first byte says which. A
 * record that is found is whole, so that its head can be written again; reading always gets on, and
 * finds the same in two pieces as in one. Whatever an answer says, every line has a state, and only
 * an answer that says so leaves lines to be sent again; what is encoded is valid JSON.
 */
#include "ship/target.h"

#include <stdlib.h>

#define LINES 4

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            abort();                                                                               \
    } while (0)

static void read_segment(struct df_str data)
{
    size_t skipped, at = 0;
    struct df_spool_record r, again;

    while (at < data.len) {
        struct df_str rest = df_str_n(data.ptr + at, data.len - at);
        size_t len = df_spool_find(rest, true, &r, &skipped);
        CHECK(skipped + len <= rest.len && skipped + len > 0);
        if (len > 0) {
            char head[DF_SPOOL_HEAD];
            df_spool_put_head(head, r.time_ns, r.level, r.text);
            CHECK(len == DF_SPOOL_HEAD + r.text.len && r.text.len <= DF_SPOOL_LINE_MAX);
            CHECK(memcmp(head, rest.ptr + skipped, DF_SPOOL_HEAD) == 0);
            /* Alone it is found too, and without its last byte not. */
            struct df_str alone = df_str_n(rest.ptr + skipped, len);
            CHECK(df_spool_find(alone, true, &again, &skipped) == len && skipped == 0);
            alone.len--;
            CHECK(df_spool_find(alone, false, &again, &skipped) < len);
            at = (size_t)(r.text.ptr + r.text.len - data.ptr);
        } else {
            CHECK(skipped == rest.len);
            at += skipped;
        }
    }
}

static struct df_ship_batch batch_of(struct df_ship_line *lines, struct df_str text)
{
    for (size_t i = 0; i < LINES; i++)
        lines[i] = (struct df_ship_line){.record = {.level = (enum df_log_level)i, .text = text}};
    return (struct df_ship_batch){.lines = lines,
                                  .count = LINES,
                                  .folder = DF_STR("process"),
                                  .host = DF_STR("host"),
                                  .pieces = {{0, LINES}},
                                  .piece_count = 1};
}

static void read_answer(const struct df_ship_protocol *protocol, struct df_str answer)
{
    struct df_ship_line lines[LINES];
    struct df_ship_batch b = batch_of(lines, DF_STR("{}"));
    const struct df_ship_piece *p = df_ship_batch_piece(&b);
    enum df_ship_answer a = protocol->settle(&b, p, answer);
    size_t waiting = df_ship_batch_count(&b, DF_SHIP_WAITING);

    CHECK((a == DF_SHIP_ALL_SETTLED) == (waiting == 0));
    CHECK(a != DF_SHIP_UNREADABLE || waiting == LINES);
}

static void encode_line(const struct df_ship_protocol *protocol, struct df_str text)
{
    const struct df_ship_target t = {.protocol = protocol};
    struct df_ship_line lines[LINES];
    struct df_ship_batch b = batch_of(lines, text);
    const struct df_json *doc;
    struct df_err err = DF_ERR_INIT;
    struct df_arena arena;
    struct df_buf out;
    struct df_str row;

    df_arena_init(&arena);
    df_buf_init(&out, 64 << 20);
    protocol->encode(&t, &b, df_ship_batch_piece(&b), &out);
    CHECK(!df_buf_failed(&out));
    for (struct df_str rest = df_buf_str(&out); rest.len > 0;) {
        rest = df_str_cut(rest, '\n', &row);
        enum df_code code = df_json_parse(&arena, row, &doc, &err);
        CHECK(code == DF_OK || code == DF_E_DUPLICATE_KEY); /* names may differ only by a dot */
    }
    df_buf_release(&out);
    df_arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct df_ship_protocol *const protocols[] = {&df_ship_loki, &df_ship_elastic,
                                                               &df_ship_otlp};
    if (size == 0)
        return 0;
    struct df_str rest = df_str_n((const char *)data + 1, size - 1);
    switch (data[0] % 7) {
    case 0:
        read_segment(rest);
        break;
    case 1:
    case 2:
    case 3:
        read_answer(protocols[data[0] % 7 - 1], rest);
        break;
    default:
        if (memchr(rest.ptr, '\0', rest.len)) /* valid as \u0000, but not for our own reader */
            break;
        encode_line(protocols[data[0] % 7 - 4], rest);
        break;
    }
    return 0;
}
