/*
 * What OmniFlow answers to a chunk, and its acks. The first byte is the status of the answer (0: it
 * is a stored ack), the rest its body. Whatever it says, only items that were sent get a result,
 * each error is valid text that fits its column, and the whole's outcome is that of its items.
 */
#include "imports/process/process_private.h"

#include <stdlib.h>

#define ITEMS 8

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            abort();                                                                               \
    } while (0)

static const unsigned statuses[] = {0, 200, 202, 201, 204, 400, 404, 409, 429, 500, 503, 301};

static void check_text(struct df_str s, size_t units)
{
    if (s.ptr) {
        CHECK(df_utf8_valid_prefix(s) == s.len && !memchr(s.ptr, '\0', s.len));
        CHECK(df_utf8_count(s) <= units);
    }
}

static void check_chunk(const struct import_chunk *c)
{
    size_t failed = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct import_item *item = &c->items[i];
        CHECK(item->sent || (item->status == DF_ITEM_STATUS_SKIPPED && !item->error.ptr));
        CHECK(item->sent == (item->status != DF_ITEM_STATUS_SKIPPED) || item->sent);
        CHECK(!item->error.ptr || item->status != DF_ITEM_STATUS_IMPORTED);
        check_text(item->error, IMPORT_ERROR_UNITS);
        failed += item->sent && item->status == DF_ITEM_STATUS_ERROR;
    }
    CHECK((c->outcome == DF_CHUNK_ERROR) == (failed == c->sent_count));
    check_text(c->error, IMPORT_SUMMARY_UNITS);
}

static void read_answer(struct import_chunk *c, unsigned status, struct df_str body)
{
    const char *reason = NULL;
    if (status == 0) {
        import_apply_ack(c, body);
        check_chunk(c);
        return;
    }
    c->out.verdict = df_outbound_judge(DF_OK, status, NULL, false).verdict;
    c->out.call.code = DF_OK;
    c->out.call.status = status;
    df_buf_init(&c->out.call.answer, body.len + 1);
    df_buf_adds(&c->out.call.answer, body);
    switch (import_judge(c, &reason)) {
    case IMPORT_DONE:
        check_chunk(c);
        break;
    case IMPORT_AWAIT:
        CHECK(status == 202 && c->ack_id.len > 0);
        check_text(c->ack_id, 200);
        break;
    case IMPORT_AGAIN:
    case IMPORT_REFUSED:
        CHECK(reason && c->error.ptr);
        check_text(c->error, IMPORT_SUMMARY_UNITS);
        break;
    case IMPORT_CANCELLED:
        abort();
    }
    df_buf_release(&c->out.call.answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct import_item items[ITEMS] = {0};
    static struct df_imports imports; /* nothing is masked */
    static struct import_batch batch = {.imports = &imports};
    struct import_chunk c = {.batch = &batch, .items = items, .count = ITEMS};
    if (size == 0)
        return 0;
    for (size_t i = 0; i < ITEMS; i++) {
        items[i].sequence = (int64_t)(i * 3);
        items[i].sent = i != 2;
        items[i].status = items[i].sent ? DF_ITEM_STATUS_IMPORTED : DF_ITEM_STATUS_SKIPPED;
        c.sent_count += items[i].sent;
    }
    read_answer(&c, statuses[data[0] % (sizeof statuses / sizeof statuses[0])],
                df_str_n((const char *)data + 1, size - 1));
    df_arena_release(&c.arena);
    return 0;
}
