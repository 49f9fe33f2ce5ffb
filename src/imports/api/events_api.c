/*
 * GET /imports/{batchId}/events, and below /admin for operators, whose streams count together as
 * those of one client: a batch's progress as server-sent events.
 *
 * A stream begins with `progress`, the batch as GET shows it, and sends another one whenever that
 * changes. When the batch is over, it sends `completed` with the last state and ends. It also ends
 * when the batch is gone, when its client is suspended or has another secret or other scopes, when
 * its reader lags too far behind, and when the server stops. A reader that comes back gets the
 * current state first, and so has missed nothing that matters.
 *
 * One thread looks at the batches of all streams, a group of them with one query, and only while
 * there are streams. Only this thread removes streams from the list; others append. So the streams
 * that were listed before a look have the same places after it. A stream that was added during the
 * look waits for the next one, since its first event may be newer than the look's result.
 */
#include "base/list.h"
#include "base/loop.h"
#include "base/mem.h"
#include "imports/api/batch_view.h"
#include "imports/api/batches.sql.h"
#include "imports/api/views.h"
#include "imports/batch.h"

#include <assert.h>
#include <sodium.h>
#include <stdlib.h>

#define LOOK_MS   500
#define GROUP     64 /* streams in one query; a batch may have 64 KiB of metadata */
#define BATCH_MAX ((size_t)1 << 20)
#define GROUP_MAX ((size_t)2 * GROUP * BATCH_MAX) /* in two languages */

struct stream {
    struct df_sse *sse;
    struct df_uuid batch;
    struct df_uuid client; /* of an operator: all zero */
    bool is_operator;
    enum df_lang lang;
    int64_t client_changed_ms;
    unsigned char said[crypto_generichash_BYTES]; /* hash of the last event */
};

struct df_import_events {
    struct df_imports *imports;
    struct df_store *store;
    struct df_loop loop;
    struct look *look; /* used by the loop only */
    unsigned char key[crypto_generichash_KEYBYTES];

    struct df_mutex lock;
    bool stopping DF_GUARDED_BY(lock);
    size_t count DF_GUARDED_BY(lock);
    /* Requests whose batch is being read; each has a place. */
    struct df_list promised DF_GUARDED_BY(lock);
    struct stream streams[DF_STREAMS_MAX] DF_GUARDED_BY(lock);
};

static void hash_text(const struct df_import_events *e, struct df_str text,
                      unsigned char out[crypto_generichash_BYTES])
{
    (void)crypto_generichash(out, crypto_generichash_BYTES, (const unsigned char *)text.ptr,
                             text.len, e->key, sizeof e->key);
}

/* --- looking --- */

/* A group of streams, and their batches in the database. */
struct look {
    struct df_job job;
    struct df_uuid ids[GROUP];
    size_t count;
    bool asked_in[2]; /* by enum df_lang */
    struct df_imports *imports;
    struct df_batch_scene scene;
    struct df_buf asked; /* the ids, for the query */
    struct df_buf text;  /* the batches, one after the other */
    struct {
        struct {
            size_t start;
            size_t len;
        } in[2]; /* in each language that a stream wants */
        struct df_uuid id;
        int64_t client_changed_ms;
        bool suspended; /* the client */
        bool over;
    } found[GROUP];
    size_t found_count;
};

static void read_found(void *arg, struct df_result *r)
{
    struct look *l = arg;
    struct df_json_out out;

    if (l->found_count == GROUP ||
        !df_uuid_parse(df_col_text(r, batch_Id), &l->found[l->found_count].id))
        return;
    for (int lang = DF_LANG_EN; lang <= DF_LANG_PT; lang++) {
        size_t start = l->text.len;
        df_json_out_init(&out, &l->text);
        out.lang = (enum df_lang)lang;
        if (l->asked_in[lang])
            df_batch_write(r, &l->scene, &out);
        l->found[l->found_count].in[lang].start = start;
        l->found[l->found_count].in[lang].len = l->text.len - start;
    }
    l->found[l->found_count].client_changed_ms = df_col_time(r, batch_watch_ClientUpdatedAt);
    l->found[l->found_count].suspended = df_col_int(r, batch_watch_ClientStatus) != 0;
    l->found[l->found_count++].over = df_batch_is_over(df_col_int(r, batch_Status));
}

static enum df_code run_batch_look(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct look *l = (struct look *)job;

    df_buf_reset(&l->text);
    l->found_count = 0;
    l->scene = df_batch_scene_now(l->imports, df_wall_ms(df_imports_options_of(l->imports)->clock));
    l->scene.away_next_ms = -1; /* it moves with the clock, and would look like news */
    enum df_code code = df_db_each(db, DF_Q(batch_watch, .ids = df_text(df_buf_str(&l->asked))),
                                   read_found, l, err);
    if (code == DF_OK && df_buf_failed(&l->text))
        code = df_err_set(err, DF_E_INTERNAL, "batches of more than %zu bytes", GROUP_MAX);
    return code;
}

static void write_ids(struct look *l)
{
    struct df_json_out out;
    df_buf_reset(&l->asked);
    df_json_out_init(&out, &l->asked);
    df_json_open(&out, '[');
    for (size_t i = 0; i < l->count; i++)
        df_json_text(&out, df_uuid_str(&l->ids[i]));
    df_json_close(&out, ']');
}

/* Sends an event if the batch has changed. False: the stream has ended. */
static bool tell_stream(struct df_import_events *e, struct stream *s, const struct look *l)
{
    unsigned char hash[crypto_generichash_BYTES];

    for (size_t i = 0; i < l->found_count; i++) {
        if (memcmp(l->found[i].id.text, s->batch.text, DF_UUID_LEN) != 0)
            continue;
        if (!s->is_operator &&
            (l->found[i].suspended || l->found[i].client_changed_ms != s->client_changed_ms))
            return false; /* a reader that still may comes back */
        struct df_str text =
            df_str_n(l->text.ptr + l->found[i].in[s->lang].start, l->found[i].in[s->lang].len);
        if (l->found[i].over) {
            (void)df_sse_send(s->sse, "completed", text);
            return false;
        }
        hash_text(e, text, hash);
        if (memcmp(hash, s->said, sizeof hash) == 0)
            return !df_sse_gone(s->sse);
        memcpy(s->said, hash, sizeof hash);
        return df_sse_send(s->sse, "progress", text);
    }
    return false; /* the batch is gone */
}

/* Under the lock, since sending only fills the stream's buffer. */
static void tell_group(struct df_import_events *e, size_t from, const struct look *l, bool *ended)
    DF_REQUIRES(e->lock)
{
    for (size_t i = 0; i < l->count; i++)
        ended[from + i] = !tell_stream(e, &e->streams[from + i], l);
}

static void close_ended(struct df_import_events *e, const bool *ended, size_t seen)
    DF_REQUIRES(e->lock)
{
    size_t kept = 0;
    for (size_t i = 0; i < e->count; i++) {
        if (i < seen && ended[i])
            df_sse_close(e->streams[i].sse);
        else
            e->streams[kept++] = e->streams[i];
    }
    e->count = kept;
}

/* Releases the lock while it reads from the database. */
static void look_at_all(struct df_import_events *e, struct look *l) DF_REQUIRES(e->lock)
{
    bool ended[DF_STREAMS_MAX] = {false};
    size_t seen = e->count;

    for (size_t from = 0; from < seen; from += l->count) {
        struct df_err err = DF_ERR_INIT;
        l->count = seen - from < GROUP ? seen - from : GROUP;
        l->asked_in[DF_LANG_EN] = l->asked_in[DF_LANG_PT] = false;
        for (size_t i = 0; i < l->count; i++) {
            l->ids[i] = e->streams[from + i].batch;
            l->asked_in[e->streams[from + i].lang] = true;
        }
        df_unlock(&e->lock);
        write_ids(l);
        enum df_code code = df_store_read_wait(e->store, &l->job, &err);
        if (code != DF_OK)
            df_log_debug("EventsNotRead", "%s", err.detail); /* who asks is told: 503 elsewhere */
        df_lock(&e->lock);
        if (code == DF_OK)
            tell_group(e, from, l, ended);
    }
    close_ended(e, ended, seen);
}

static int64_t watch_batches(void *arg)
{
    struct df_import_events *e = arg;

    df_lock(&e->lock);
    if (e->count > 0)
        look_at_all(e, e->look);
    bool idle = e->count == 0;
    df_unlock(&e->lock);
    return idle ? DF_LOOP_IDLE : LOOK_MS;
}

struct df_import_events *df_import_events_new(struct df_imports *imports)
{
    struct df_store *store = df_imports_options_of(imports)->store;
    const struct df_clock *clock = df_imports_options_of(imports)->clock;
    struct df_import_events *e = df_calloc(1, sizeof *e);
    e->imports = imports;
    e->store = store;
    crypto_generichash_keygen(e->key);
    df_mutex_init(&e->lock);
    e->look = df_calloc(1, sizeof *e->look);
    e->look->job.run = run_batch_look;
    e->look->imports = imports;
    df_buf_init(&e->look->asked, (size_t)GROUP * (DF_UUID_LEN + 8));
    df_buf_init(&e->look->text, GROUP_MAX);
    df_loop_start(&e->loop, &(struct df_loop_options){.name = "events",
                                                      .clock = clock,
                                                      .first_ms = DF_LOOP_IDLE,
                                                      .turn = watch_batches,
                                                      .arg = e});
    return e;
}

void df_import_events_stop(struct df_import_events *e)
{
    df_lock(&e->lock);
    e->stopping = true;
    df_unlock(&e->lock);
    df_loop_stop(&e->loop);
    df_lock(&e->lock);
    for (size_t i = 0; i < e->count; i++)
        df_sse_close(e->streams[i].sse);
    e->count = 0;
    df_unlock(&e->lock);
}

void df_import_events_free(struct df_import_events *e)
{
    df_loop_release(&e->loop);
    df_buf_release(&e->look->text);
    df_buf_release(&e->look->asked);
    free(e->look);
    df_mutex_destroy(&e->lock);
    free(e);
}

/* --- the request --- */

struct call {
    struct df_work w;
    struct df_link link; /* in df_import_events.promised, under its lock */
    bool promised;       /* it has a place there */
    struct df_import_events *events;
    struct df_uuid id;
    struct df_uuid client;
    bool is_operator;
    int64_t client_changed_ms;
    bool over;
    struct df_sse *sse; /* a stream that goes on */
};

static void read_client(void *arg, struct df_result *r)
{
    ((struct call *)arg)->client_changed_ms = df_col_time(r, batch_client_UpdatedAt);
}

static enum df_code find_client(struct df_db *db, struct call *c, struct df_err *err)
{
    bool found = false;
    enum df_code code =
        df_db_one(db, DF_Q(batch_client, .client = df_uuid(df_uuid_str(&c->client))), read_client,
                  c, &found, err);

    if (code == DF_OK && !found)
        code = df_err_set(err, DF_E_CLIENT_SUSPENDED, "This client is suspended.");
    return code;
}

static enum df_code run_read_batch(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    struct df_uuid client = c->client;
    int64_t status = 0;
    struct df_batch_scene scene = df_batch_scene_now(c->events->imports, w->now_ms);

    scene.away_next_ms = -1;
    enum df_code code = df_batch_scope(db, w->req, &c->id, &client, err);
    if (code == DF_OK)
        code = df_batch_read(db, &c->id, &client, &scene, &w->json, &status, err);
    c->over = df_batch_is_over(status);
    return code == DF_OK && !c->is_operator ? find_client(db, c, err) : code;
}

/* Gives the place back, or fills it with the stream. */
static void settle_place(struct df_work *w)
{
    struct call *c = (struct call *)w;
    struct df_import_events *e = c->events;
    struct stream s = {.sse = c->sse,
                       .batch = c->id,
                       .client = c->client,
                       .is_operator = c->is_operator,
                       .lang = w->json.lang,
                       .client_changed_ms = c->client_changed_ms};
    bool listed = false;

    if (!c->promised)
        return; /* there was no place */
    if (c->sse)
        hash_text(e, df_buf_str(&w->out), s.said);
    df_lock(&e->lock);
    df_list_remove(&e->promised, &c->link);
    if (c->sse && !e->stopping) {
        assert(e->count < DF_STREAMS_MAX);
        e->streams[e->count++] = s;
        listed = true;
        if (e->count == 1)
            df_loop_wake(&e->loop);
    }
    df_unlock(&e->lock);
    if (!listed)
        df_sse_close(c->sse);
}

static void begin_stream(struct df_work *w)
{
    struct call *c = (struct call *)w;

    df_req_add_language(w->req, w->json.lang);
    struct df_sse *sse = df_req_sse(w->req);
    (void)df_sse_send(sse, "progress", df_buf_str(&w->out));
    if (c->over) {
        (void)df_sse_send(sse, "completed", df_buf_str(&w->out));
        df_sse_close(sse);
    } else {
        c->sse = sse;
    }
}

/* Takes a place among the streams. False: there is none, and the answer is set. */
static bool take_place(struct call *c)
{
    struct df_import_events *e = c->events;
    const struct call *other;
    size_t own = 0;

    df_lock(&e->lock);
    bool stopping = e->stopping;
    bool full = e->count + e->promised.count >= DF_STREAMS_MAX;
    for (size_t i = 0; i < e->count; i++)
        own += memcmp(e->streams[i].client.text, c->client.text, DF_UUID_LEN) == 0;
    DF_LIST_EACH (other, &e->promised, link)
        own += memcmp(other->client.text, c->client.text, DF_UUID_LEN) == 0;
    c->promised = !stopping && !full && own < DF_STREAMS_PER_CLIENT;
    if (c->promised)
        df_list_add(&e->promised, &c->link);
    df_unlock(&e->lock);
    if (stopping)
        df_req_fail(c->w.req, DF_E_DRAINING, "The server is shutting down.");
    else if (full)
        df_req_fail(c->w.req, DF_E_BUSY, "Too many event streams are open.");
    else if (own >= DF_STREAMS_PER_CLIENT)
        df_req_fail(c->w.req, DF_E_TOO_MANY, "%d event streams of this client are open.",
                    DF_STREAMS_PER_CLIENT);
    return !df_req_answered(c->w.req);
}

static bool read_stream_call(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;
    const struct df_import_views *views = w->arg;

    (void)in;
    c->events = views->events;
    c->is_operator = df_batch_is_operator(w->req);
    if (!c->is_operator)
        c->client = df_auth_client(w->req)->id;
    return df_batch_param(w->req, &c->id) && take_place(c);
}

const struct df_handler df_import_events_handler = {
    .size = sizeof(struct call),
    .max_answer = BATCH_MAX,
    .tells = true,
    .prepare = read_stream_call,
    .run = run_read_batch,
    .done = begin_stream,
    .cleanup = settle_place,
};
