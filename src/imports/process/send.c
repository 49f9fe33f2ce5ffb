/*
 * A batch's calls: the breaker is asked, the rows are committed as Sending, and the chunks handed
 * to the HTTP client, whose thread judges the answers and leaves the chunks in the batch's mail.
 */
#include "imports/process/process_private.h"

#include <assert.h>

/* On the client's thread. */
static void answered(struct df_call *call)
{
    struct import_chunk *c = call->arg;
    struct import_batch *b = c->batch;
    struct df_imports *i = b->imports;
    bool failed = call->code != DF_OK || df_retry_class_of(call->status) == DF_CLASS_RETRY;

    df_breaker_done(c->breaker, c->permit,
                    call->code == DF_E_CANCELLED ? DF_BREAKER_IGNORED
                    : failed                     ? DF_BREAKER_FAILURE
                                                 : DF_BREAKER_SUCCESS,
                    call->duration_ms);
    df_breakers_put(i->opt.breakers, c->breaker);
    c->breaker = NULL;
    /* Here, since the answer is borrowed. */
    c->verdict = import_judge(c, &c->reason);
    df_lock(&i->lock);
    c->next_answered = NULL;
    *b->mail.answered_tail = c;
    b->mail.answered_tail = &c->next_answered;
    b->mail.answered_count++;
    pthread_cond_broadcast(&i->changed);
    df_unlock(&i->lock);
}

static void ask_breaker(struct import_batch *b, struct import_chunk *c)
{
    const struct df_imports_options *o = &b->imports->opt;
    int64_t wait_ms = 0;

    c->breaker = df_breakers_get(o->breakers, DF_STR(IMPORT_OMNIFLOW));
    if (df_breaker_allow(c->breaker, &c->permit, &wait_ms)) {
        import_chunk_happens(c, CHUNK_EV_PERMIT);
        return;
    }
    df_breakers_put(o->breakers, c->breaker);
    c->breaker = NULL;
    if (b->hand.outage_ms < 0)
        b->hand.outage_ms = import_mono_ms(b);
    import_chunk_happens_with(c, CHUNK_EV_NO_PERMIT, (struct import_news){.wait_ms = wait_ms});
}

void import_send(struct import_chunk *c)
{
    struct import_batch *b = c->batch;
    struct df_log_field fields[] = {DF_FI("chunkId", c->id), DF_FI("items", c->sent_count),
                                    DF_FI("attempt", c->attempts)};

    assert(c->state == CHUNK_SENDING && c->has_row && c->attempts > 0);
    b->hand.in_flight++;
    df_log_write(DF_LOG_INFO, "ChunkSent", fields, 3, "to OmniFlow");
    import_request(c, answered);
    df_http_client_send(b->imports->opt.client, &c->call);
}

void import_return_permit(struct import_chunk *c)
{
    df_breaker_done(c->breaker, c->permit, DF_BREAKER_IGNORED, 0);
    df_breakers_put(c->batch->imports->opt.breakers, c->breaker);
    c->breaker = NULL;
}

/* Between these two the HTTP client is not freed. */
static bool may_send(struct df_imports *i)
{
    df_lock(&i->lock);
    bool may = !i->stopping;
    i->senders += may;
    df_unlock(&i->lock);
    return may;
}

static void was_sent(struct df_imports *i)
{
    df_lock(&i->lock);
    assert(i->senders > 0);
    i->senders--;
    pthread_cond_broadcast(&i->changed);
    df_unlock(&i->lock);
}

static bool send_permitted(struct import_batch *b)
{
    struct df_err err = DF_ERR_INIT;
    struct import_chunks permitted;
    struct import_chunk *c;

    for (c = b->hand.chunks.head; c; c = c->next) {
        if (c->state == CHUNK_READY)
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
        import_chunks_add(&b->hand.chunks, c);
        import_chunk_happens(c, CHUNK_EV_SEND_STORED);
    }
    return code == DF_OK || import_batch_fails(b, code, &err);
}

bool import_send_ready(struct import_batch *b)
{
    if (!may_send(b->imports))
        return true;
    bool ok = send_permitted(b);
    was_sent(b->imports);
    return ok;
}
