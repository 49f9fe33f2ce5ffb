/* Chunks, lists of chunks, and the actions of the state machine (chunk_state.h). */
#include "imports/process/chunk.h"

#include "base/mem.h"
#include "imports/process/process_private.h"
#include "imports/reasons.h"

#include <assert.h>
#include <stdlib.h>

#define SPARE_BYTES ((size_t)512 << 10) /* of a buffer that a chunk keeps for its next use */

static struct import_chunk *chunk_new(struct import_batch *b)
{
    struct import_chunk *c = df_calloc(1, sizeof(*c));

    c->batch = b;
    c->failures.mark = -1;
    df_buf_init(&c->body, IMPORT_BODY_MAX);
    df_buf_init(&c->unsent, IMPORT_BODY_MAX);
    df_buf_init(&c->originals, IMPORT_ORIGINALS_MAX);
    df_buf_init(&c->subjects, IMPORT_SUBJECTS_MAX);
    df_buf_init(&c->masked, IMPORT_MASKED_MAX);
    df_buf_init(&c->sealed, IMPORT_SEALED_MAX);
    df_arena_init(&c->arena);
    return c;
}

void import_chunk_free(struct import_chunk *c)
{
    if (!c)
        return;
    df_buf_release(&c->body);
    df_buf_release(&c->unsent);
    df_buf_release(&c->originals);
    df_buf_release(&c->subjects);
    df_buf_release(&c->masked);
    df_buf_release(&c->sealed);
    df_arena_release(&c->arena);
    free(c->items);
    free(c);
}

/* A large buffer is not kept: in time, every chunk would have one. */
static void reuse_buf(struct df_buf *b)
{
    df_buf_reset(b);
    if (b->cap > SPARE_BYTES)
        df_buf_release(b);
}

static void chunk_reset(struct import_chunk *c)
{
    struct import_chunk old = *c;

    reuse_buf(&old.body);
    reuse_buf(&old.unsent);
    reuse_buf(&old.originals);
    reuse_buf(&old.subjects);
    reuse_buf(&old.masked);
    reuse_buf(&old.sealed);
    df_arena_reset(&old.arena);
    *c = (struct import_chunk){.batch = old.batch,
                               .items = old.items,
                               .cap = old.cap,
                               .body = old.body,
                               .unsent = old.unsent,
                               .originals = old.originals,
                               .subjects = old.subjects,
                               .masked = old.masked,
                               .sealed = old.sealed,
                               .arena = old.arena,
                               .failures = {.mark = -1}};
}

struct import_chunk *import_chunk_get(struct import_batch *b)
{
    struct import_chunk *c = import_chunks_take(&b->hand.spare);
    if (!c)
        return chunk_new(b);
    chunk_reset(c);
    return c;
}

void import_chunk_put(struct import_chunk *c)
{
    assert(c->state == CHUNK_GONE && !c->out.held);
    df_list_add_first(&c->batch->hand.spare, &c->link);
}

void import_chunks_move(struct df_list *from, unsigned states, struct df_list *to)
{
    struct import_chunk *c;

    DF_LIST_EACH (c, from, link) {
        if (states & IMPORT_IN(c->state)) {
            df_list_remove(from, &c->link);
            df_list_add(to, &c->link);
        }
    }
}

/* --- what happens ----------------------------------------------------------------------------- */

static struct import_chunk_facts facts_of(const struct import_chunk *c)
{
    return (struct import_chunk_facts){
        .now_ms = import_mono_ms(c->batch),
        .due_ms = c->due_ms,
        .is_outage = c->batch->hand.outage_ms >= 0,
        .was_last_try = c->state == CHUNK_SENDING
                            ? c->gives_up
                            : df_retry_exhausted(&c->batch->imports->retry, c->promises),
    };
}

/* A call that only tested whether the outage is over does not count as a try. */
static void wait_to_retry(struct import_chunk *c, const struct import_chunk_facts *f)
{
    const struct df_imports_options *o = &c->batch->imports->opt;
    int64_t retry_after_ms = c->out.call.code == DF_OK ? c->out.call.retry_after_ms : -1;

    c->due_ms = f->now_ms +
                df_retry_delay_ms(&c->batch->imports->retry, c->tries, retry_after_ms, o->clock);
    c->tries -= f->is_outage;
    assert(c->tries >= 0);
}

/* From the sending of the chunk, maybe by another owner, to its ack, or to the end of the wait. */
static void record_ack_wait(const struct import_chunk *c, bool came)
{
    const struct import_batch *b = c->batch;
    const struct df_clock *clock = b->imports->opt.clock;
    int64_t waited_ms = c->sent_ms > 0 ? import_mono_ms(b) - c->sent_ms : 0;
    struct df_span span;

    df_span_begin_at(&span, &b->row.trace, "ack wait", DF_SPAN_INTERNAL, clock,
                     df_mono_ns(clock) - (waited_ms > 0 ? waited_ms : 0) * 1000000);
    if (!span.recording)
        return;
    df_span_text(&span, "dataflow.batch.id", df_uuid_str(&b->id));
    df_span_int(&span, "dataflow.chunk.id", c->id);
    df_span_text(&span, "dataflow.client.id", b->row.client);
    if (!came) {
        df_span_text(&span, "error.type", DF_STR("timeout"));
        df_span_fail(&span, DF_STR("no ack came in time"));
    }
    df_span_end(&span);
}

static void apply_ack(struct import_chunk *c, int64_t now_ms, struct df_str ack)
{
    import_note_acked(c, now_ms);
    record_ack_wait(c, true);
    import_apply_ack(c, ack);
    if (c->outcome == DF_CHUNK_ERROR)
        import_note_chunk_error(c, "ack_error");
}

static void miss_ack(struct import_chunk *c)
{
    struct df_log_field fields[] = {DF_FI("chunkId", c->id), DF_FI("attempt", c->attempts)};

    record_ack_wait(c, false);
    df_log_write(DF_LOG_WARN, "ChunkAckTimeout", fields, 2, "no ack came in time");
    import_note_chunk_error(c, "ack_timeout");
    c->error = DF_STR("no ack came in time");
}

static void perform_chunk_action(struct import_chunk *c, enum import_chunk_action action,
                                 const struct import_chunk_facts *f, struct import_news news)
{
    switch (action) {
    case CHUNK_NOTHING:
        return;
    case CHUNK_SEND:
        import_send(c);
        return;
    case CHUNK_RETURN_PERMIT:
        df_outbound_forgo(&c->out);
        return;
    case CHUNK_WAIT_FOR_BREAKER:
        c->due_ms = f->now_ms + news.wait_ms;
        return;
    case CHUNK_WAIT_TO_RETRY:
        wait_to_retry(c, f);
        return;
    case CHUNK_WAIT_FOR_EVER:
        c->due_ms = INT64_MAX;
        return;
    case CHUNK_WAIT_FOR_ACK:
        c->due_ms = f->now_ms + news.wait_ms;
        return;
    case CHUNK_APPLY_ACK:
        apply_ack(c, f->now_ms, news.ack);
        return;
    case CHUNK_RESEND:
        miss_ack(c);
        return;
    case CHUNK_FAIL_NO_ACK:
        miss_ack(c);
        import_fail_items(c, c->error, IMPORT_REASON_NO_ACK);
        return;
    case CHUNK_FAIL:
        import_fail_items(c, c->error,
                          c->verdict == IMPORT_REFUSED ? IMPORT_REASON_REFUSED
                                                       : IMPORT_REASON_UNAVAILABLE);
        return;
    case CHUNK_COUNT_SETTLED:
        import_note_settled(c, f->now_ms);
        return;
    case CHUNK_IMPOSSIBLE:
    case CHUNK_ACTIONS:
        break;
    }
    abort();
}

void import_chunk_happens_with(struct import_chunk *c, enum import_chunk_event event,
                               struct import_news news)
{
    struct import_chunk_facts facts = facts_of(c);
    struct import_chunk_step step = import_chunk_step(c->state, event, &facts);

    assert(step.action != CHUNK_IMPOSSIBLE);
    c->state = step.state;
    perform_chunk_action(c, step.action, &facts, news);
}

void import_chunk_happens(struct import_chunk *c, enum import_chunk_event event)
{
    import_chunk_happens_with(c, event, (struct import_news){0});
}

void import_chunk_drop(struct import_chunk *c)
{
    import_chunk_happens(c, CHUNK_EV_DROPPED);
    import_chunk_put(c);
}
