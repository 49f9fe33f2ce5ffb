/* What waits, by channel and client, as the tables say. */
#include "base/mem.h"
#include "series/series.sql.h"
#include "series/series_private.h"
#include "store/rows.h"

#include <stdlib.h>

#define LOOKING_SHARE 20 /* looking takes no more than this part of the time */

static const struct {
    const char *channel;
    const struct df_query *query;
} places[] = {
    {"tickets", &df_q_series_waiting_tickets},
    {"ticket-gateway", &df_q_series_waiting_gateway},
    {"ticket-return", &df_q_series_waiting_returns},
    {"functional-ack", &df_q_series_waiting_acks},
    {"webhooks", &df_q_series_waiting_webhooks},
    {"integrations", &df_q_series_waiting_integrations},
    {"events", &df_q_series_waiting_events},
    {"imports", &df_q_series_waiting_imports},
};
#define PLACES (sizeof places / sizeof places[0])

struct waiting {
    struct df_str client; /* empty: everybody together */
    size_t place;
    int64_t rows;
    int64_t oldest_ms; /* -1: none waits */
};

struct looking {
    struct df_job job;
    const struct df_series *s;
    struct df_arena arena;
    int64_t now_ms;
    size_t place;               /* in hand */
    struct waiting all[PLACES]; /* of everybody */
    struct waiting *clients;    /* of the place in hand */
    size_t count, cap;
    struct waiting *shown; /* of all places: the clients that have rows of their own */
    size_t shown_count;
};

static void read_waiting(void *arg, struct df_result *r)
{
    struct looking *l = arg;
    struct waiting *all = &l->all[l->place];
    int64_t rows = df_col_int(r, series_waiting_Documents);
    int64_t oldest_ms = df_col_time(r, series_waiting_Oldest);

    all->rows += rows;
    if (all->oldest_ms < 0 || (oldest_ms >= 0 && oldest_ms < all->oldest_ms))
        all->oldest_ms = oldest_ms;
    if (df_col_null(r, series_waiting_ClientId))
        return;
    if (l->count == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 64;
        l->clients = df_realloc(l->clients, l->cap * sizeof *l->clients);
    }
    l->clients[l->count++] =
        (struct waiting){df_arena_str(&l->arena, df_col_text(r, series_waiting_ClientId)), l->place,
                         rows, oldest_ms};
}

static int compare_rows(const void *a, const void *b)
{
    const struct waiting *x = a, *y = b;
    return x->rows != y->rows ? x->rows > y->rows ? -1 : 1 : 0;
}

/* Those with most, of each place. */
static void keep_clients(struct looking *l, size_t most)
{
    if (l->count > 0)
        qsort(l->clients, l->count, sizeof *l->clients, compare_rows);
    for (size_t i = 0; i < l->count && i < most; i++)
        l->shown[l->shown_count++] = l->clients[i];
    l->count = 0;
}

static enum df_code run_look(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct looking *l = (struct looking *)job;
    size_t most = (size_t)l->s->opt.settings.max_clients;
    enum df_code code = DF_OK;

    df_arena_reset(&l->arena);
    l->shown = DF_ARENA_ARRAY(&l->arena, struct waiting, PLACES * most);
    l->shown_count = l->count = 0;
    for (l->place = 0; l->place < PLACES && code == DF_OK; l->place++) {
        l->all[l->place] =
            (struct waiting){.client = DF_STR(""), .place = l->place, .oldest_ms = -1};
        code = df_db_each(db, DF_NO_VALUES(places[l->place].query), read_waiting, l, err);
        keep_clients(l, most);
    }
    return code;
}

static void add_gauge(struct df_rows *rows, const struct looking *l, const struct waiting *w)
{
    int64_t age_ms = w->rows > 0 && w->oldest_ms >= 0 ? l->now_ms - w->oldest_ms : 0;

    DF_ROWS_ADD(rows, series_gauge, .grain = df_int(SERIES_MINUTE),
                .at = df_time(series_floor(l->now_ms, SERIES_MINUTE_MS)),
                .client = df_text(w->client),
                .channel = df_text(df_str_c(places[w->place].channel)), .waiting = df_int(w->rows),
                .oldest = df_int(age_ms > 0 ? age_ms / 1000 : 0));
}

static int compare_keys(const void *a, const void *b)
{
    const struct waiting *x = a, *y = b;
    size_t len = x->client.len < y->client.len ? x->client.len : y->client.len;
    int order = len > 0 ? memcmp(x->client.ptr, y->client.ptr, len) : 0;

    return order ? order : strcmp(places[x->place].channel, places[y->place].channel);
}

static enum df_code run_note(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct looking *l = (struct looking *)job;
    struct df_rows rows = df_rows_for(&l->arena, &df_q_series_gauge, PLACES + l->shown_count);

    qsort(l->all, PLACES, sizeof l->all[0], compare_keys);
    for (size_t i = 0; i < PLACES; i++)
        add_gauge(&rows, l, &l->all[i]);
    if (l->shown_count > 0)
        qsort(l->shown, l->shown_count, sizeof *l->shown, compare_keys);
    for (size_t i = 0; i < l->shown_count; i++)
        add_gauge(&rows, l, &l->shown[i]);
    return df_rows_run(db, &rows, NULL, err);
}

enum df_code series_note_waiting(struct df_series *s, int64_t now_ms, struct df_err *err)
{
    struct looking l = {.job = {.run = run_look}, .s = s, .now_ms = now_ms};
    int64_t begun_ms = df_mono_ms(s->opt.clock);

    if (begun_ms < s->gauges_ms)
        return DF_OK;
    df_arena_init(&l.arena);
    enum df_code code = df_store_read_wait(s->opt.store, &l.job, err);
    if (code == DF_OK) {
        l.job = (struct df_job){.run = run_note};
        code = df_store_write_wait(s->opt.store, &l.job, err);
    }
    int64_t took_ms = df_mono_ms(s->opt.clock) - begun_ms;
    s->gauges_ms = begun_ms + took_ms * LOOKING_SHARE;
    free(l.clients);
    df_arena_release(&l.arena);
    return code;
}
