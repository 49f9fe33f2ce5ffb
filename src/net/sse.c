/*
 * Event streams. A stream has two holders, the request and the application, and is freed when both
 * have let go. Events wait in `pending`, and libmicrohttpd takes them through read_pending. When
 * there are none, the connection is suspended inside libmicrohttpd (which would otherwise ask again
 * at once, for ever) and resumed by the next event, heartbeat or end.
 *
 * Order of locks: the server's, then a stream's, then those inside libmicrohttpd.
 */
#include "net/http_int.h"

#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

#define BLOCK_BYTES 4096
#define KEPT_BYTES  1024 /* buffer kept by a stream that has caught up */

struct df_sse {
    struct df_http_server *server;
    struct df_conn *conn;
    struct df_link link; /* in the server's list, under the server's lock */

    struct df_mutex lock;
    unsigned holders DF_GUARDED_BY(lock);
    struct df_buf pending DF_GUARDED_BY(lock);
    size_t sent DF_GUARDED_BY(lock); /* of pending */
    uint64_t sent_total DF_GUARDED_BY(lock);
    int64_t last_ms DF_GUARDED_BY(lock);
    bool parked DF_GUARDED_BY(lock);
    bool ended DF_GUARDED_BY(lock); /* nothing more will be added */
    bool gone DF_GUARDED_BY(lock);  /* the request has ended: conn is not valid any more */
};

/* --- lifetime --------------------------------------------------------------------------------- */

struct df_sse *df_req_sse(struct df_req *req)
{
    struct df_http_server *s = req->conn->server;
    struct df_sse *sse = df_calloc(1, sizeof(*sse));

    sse->server = s;
    sse->conn = req->conn;
    sse->holders = 1;
    sse->last_ms = df_mono_ms(df_clock_real());
    df_mutex_init(&sse->lock);
    df_buf_init(&sse->pending, DF_SSE_MAX_BYTES);
    if (df_req_answered(req)) {
        /* Too late for a stream: the application gets one whose peer has already gone. */
        sse->gone = true;
        return sse;
    }
    sse->holders = 2;
    req->answer.set = true;
    req->answer.status = 200;
    req->answer.content_type = "text/event-stream";
    req->answer.sse = sse;
    sse->pending.account = &req->account;
    /* Otherwise proxies would buffer the events. */
    (void)df_req_add_header(req, "X-Accel-Buffering", DF_STR("no"));

    df_lock(&s->lock);
    df_list_add_first(&s->streams, &sse->link);
    df_unlock(&s->lock);
    return sse;
}

static void release_holder(struct df_sse *sse)
{
    df_lock(&sse->lock);
    assert(sse->holders > 0);
    bool last = --sse->holders == 0;
    df_unlock(&sse->lock);
    if (!last)
        return;
    df_mutex_destroy(&sse->lock);
    df_buf_release(&sse->pending);
    free(sse);
}

uint64_t df_sse_detach(struct df_sse *sse)
{
    struct df_http_server *s = sse->server;

    df_lock(&s->lock);
    df_list_remove(&s->streams, &sse->link);
    df_unlock(&s->lock);

    df_lock(&sse->lock);
    sse->gone = true;
    sse->parked = false;
    uint64_t total = sse->sent_total;
    df_buf_release(&sse->pending);
    sse->pending.account = NULL; /* it belongs to the request, which ends */
    df_unlock(&sse->lock);
    release_holder(sse);
    return total;
}

/* --- sending ---------------------------------------------------------------------------------- */

static void wake_stream(struct df_sse *sse) DF_REQUIRES(sse->lock)
{
    if (!sse->parked)
        return;
    sse->parked = false;
    MHD_resume_connection(sse->conn->mhd);
}

static ssize_t read_pending(void *arg, uint64_t pos, char *buf, size_t max)
{
    struct df_sse *sse = arg;
    ssize_t n;
    (void)pos;

    df_lock(&sse->lock);
    size_t waiting = sse->pending.len - sse->sent;
    if (waiting > 0) {
        if (df_conn_phase(sse->conn) != DF_PHASE_SEND)
            df_conn_set_phase(sse->conn, DF_PHASE_SEND);
        size_t take = waiting < max ? waiting : max;
        memcpy(buf, sse->pending.ptr + sse->sent, take);
        sse->sent += take;
        sse->sent_total += take;
        if (sse->sent == sse->pending.len) {
            if (sse->pending.cap > KEPT_BYTES)
                df_buf_release(&sse->pending);
            df_buf_reset(&sse->pending);
            sse->sent = 0;
        }
        n = (ssize_t)take;
    } else if (sse->ended || atomic_load(&sse->server->shut)) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        df_conn_set_phase(sse->conn, DF_PHASE_WORK);
        MHD_suspend_connection(sse->conn->mhd);
        sse->parked = true;
        n = 0;
    }
    df_unlock(&sse->lock);
    return n;
}

struct MHD_Response *df_sse_response(struct df_sse *sse)
{
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_pending, sse,
                                             NULL);
}

/* Every line of the data becomes a field of its own; CR, LF and CRLF all end a line. */
static void write_event(struct df_buf *b, const char *event, struct df_str data)
{
    size_t start = 0;

    if (event && event[0])
        df_buf_addf(b, "event: %s\n", event);
    for (size_t i = 0; i <= data.len; i++) {
        if (i < data.len && data.ptr[i] != '\n' && data.ptr[i] != '\r')
            continue;
        df_buf_addz(b, "data: ");
        df_buf_add(b, data.ptr + start, i - start);
        df_buf_addc(b, '\n');
        if (i + 1 < data.len && data.ptr[i] == '\r' && data.ptr[i + 1] == '\n')
            i++;
        start = i + 1;
    }
    df_buf_addc(b, '\n');
}

bool df_sse_send(struct df_sse *sse, const char *event, struct df_str data)
{
    bool ok = false;

    if (event && strpbrk(event, "\r\n"))
        return false;
    df_lock(&sse->lock);
    if (!sse->gone && !sse->ended) {
        size_t mark = sse->pending.len;
        write_event(&sse->pending, event, data);
        ok = !df_buf_failed(&sse->pending);
        if (!ok) {
            sse->pending.len = mark; /* whole events or none */
            sse->pending.failed = false;
        }
        sse->last_ms = df_mono_ms(df_clock_real());
        wake_stream(sse);
    }
    df_unlock(&sse->lock);
    return ok;
}

bool df_sse_gone(struct df_sse *sse)
{
    df_lock(&sse->lock);
    bool gone = sse->gone || sse->ended;
    df_unlock(&sse->lock);
    return gone;
}

static void end_stream(struct df_sse *sse)
{
    df_lock(&sse->lock);
    sse->ended = true;
    if (!sse->gone)
        wake_stream(sse);
    df_unlock(&sse->lock);
}

void df_sse_close(struct df_sse *sse)
{
    if (!sse)
        return;
    end_stream(sse);
    release_holder(sse);
}

/* --- from the keeper -------------------------------------------------------------------------- */

void df_sse_heartbeats(struct df_http_server *s, int64_t now_ms)
{
    struct df_sse *sse;

    df_lock(&s->lock);
    DF_LIST_EACH (sse, &s->streams, link) {
        df_lock(&sse->lock);
        if (!sse->ended && now_ms - sse->last_ms >= s->opt.heartbeat_ms && sse->pending.len == 0) {
            df_buf_addz(&sse->pending, ":\n\n");
            sse->last_ms = now_ms;
            wake_stream(sse);
        }
        df_unlock(&sse->lock);
    }
    df_unlock(&s->lock);
}

void df_sse_end_all(struct df_http_server *s)
{
    struct df_sse *sse;

    df_lock(&s->lock);
    DF_LIST_EACH (sse, &s->streams, link)
        end_stream(sse);
    df_unlock(&s->lock);
}
