/*
 * A batch's calls. The breaker is asked, the rows are committed as Sending, and the chunks are
 * handed to the HTTP client. Its thread judges the answers and puts the chunks into the batch's
 * mail.
 */
#include "imports/process/process_private.h"

#include <assert.h>

/* On a thread of the client. */
static void chunk_answered(struct df_out *out)
{
    struct import_chunk *c = out->arg;
    struct import_batch *b = c->batch;
    struct df_imports *i = b->imports;

    /* Judged here, since the answer is borrowed. */
    c->verdict = import_judge(c, &c->reason);
    df_lock(&i->lock);
    df_list_add(&b->mail.answered, &c->answered);
    pthread_cond_broadcast(&i->changed);
    df_unlock(&i->lock);
}

static void ask_breaker(struct import_batch *b, struct import_chunk *c)
{
    c->out = (struct df_out){.call = {.url = b->imports->url}, .breaker = DF_STR(IMPORT_OMNIFLOW)};
    if (df_outbound_ask(b->imports->opt.outbound, &c->out)) {
        import_chunk_happens(c, CHUNK_EV_PERMIT);
        return;
    }
    import_peer_shut(b);
    import_chunk_happens_with(c, CHUNK_EV_NO_PERMIT,
                              (struct import_news){.wait_ms = c->out.retry_ms});
}

void import_send(struct import_chunk *c)
{
    struct import_batch *b = c->batch;
    struct df_log_field fields[] = {DF_FI("chunkId", c->id), DF_FI("items", c->sent_count),
                                    DF_FI("attempt", c->attempts)};

    assert(c->state == CHUNK_SENDING && c->has_row && c->attempts > 0);
    b->hand.in_flight++;
    c->sent_ms = import_mono_ms(b);
    df_log_write(DF_LOG_INFO, "ChunkSent", fields, 3, "to OmniFlow");
    import_request(c);
    c->out.done = chunk_answered;
    c->out.arg = c;
    df_outbound_send(b->imports->opt.outbound, &c->out);
}

static bool send_permitted(struct import_batch *b)
{
    struct df_err err = DF_ERR_INIT;
    struct df_list permitted = {.count = 0};
    struct import_chunk *c;

    DF_LIST_EACH (c, &b->hand.chunks, link) {
        if (import_is_ready(c))
            ask_breaker(b, c);
    }
    import_chunks_move(&b->hand.chunks, IMPORT_IN(CHUNK_PERMITTED), &permitted);
    if (permitted.count == 0)
        return true;
    enum df_code code = import_begin_sends(b, &permitted, &err);
    while ((c = import_chunks_take(&permitted))) {
        if (code != DF_OK) {
            import_chunk_drop(c);
            continue;
        }
        df_list_add(&b->hand.chunks, &c->link);
        c->arrived = import_peer_now(b->imports).arrived;
        import_chunk_happens(c, CHUNK_EV_SEND_STORED);
    }
    return code == DF_OK || import_batch_fails(b, code, &err);
}

bool import_send_ready(struct import_batch *b)
{
    return import_is_stopping(b->imports) || (import_keep_lock(b) && send_permitted(b));
}
