/* Counting of this process, and writing it. */
#include "series/series.h"

#include "base/log.h"
#include "base/mem.h"
#include "series/series.sql.h"
#include "series/series_private.h"
#include "store/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TICK_MS 5000             /* at most, between two looks at the clock */
#define LATE_MS SERIES_MINUTE_MS /* how late the loop may be; below HOUR_SETTLE_MS of upkeep.c */

/* --- which clients have rows of their own ----------------------------------------------------- */

static int64_t activity(const struct df_tallied *n)
{
    return n->accepted + n->processed + n->delivered + n->failed + n->acks;
}

static int compare_texts(struct df_str a, struct df_str b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len > 0 ? memcmp(a.ptr, b.ptr, len) : 0;

    return order ? order : a.len < b.len ? -1 : a.len > b.len;
}

/* The order of the table's key, in which all processes write. */
static int compare_entries(const void *a, const void *b)
{
    const struct df_tally_entry *x = a, *y = b;
    int order = compare_texts(x->client, y->client);

    return order ? order : compare_texts(x->channel, y->channel);
}

struct client_sum {
    struct df_str client;
    int64_t sum;
};

static int compare_sums(const void *a, const void *b)
{
    const struct client_sum *x = a, *y = b;

    if (x->sum != y->sum)
        return x->sum > y->sum ? -1 : 1;
    return compare_texts(x->client, y->client);
}

/* Makes clients beyond the limit "other". The entries are sorted. */
static void cut_clients(struct df_tally_list *l, size_t most, struct df_arena *a)
{
    struct client_sum *sums = DF_ARENA_ARRAY(a, struct client_sum, l->count + 1);
    size_t count = 0;

    for (size_t i = 0; i < l->count; i++) {
        const struct df_tally_entry *e = &l->entries[i];
        if (e->client.len == 0 || df_str_eq(e->client, DF_TALLY_OTHER))
            continue;
        if (count == 0 || !df_str_eq(sums[count - 1].client, e->client))
            sums[count++].client = e->client;
        sums[count - 1].sum += activity(&e->n);
    }
    if (count <= most)
        return;
    qsort(sums, count, sizeof *sums, compare_sums);
    for (size_t i = 0; i < l->count; i++)
        for (size_t c = most; c < count; c++)
            if (df_str_eq(l->entries[i].client, sums[c].client)) {
                l->entries[i].client = DF_TALLY_OTHER;
                break;
            }
}

/* Adds the rows of everybody together, and joins those of one key. */
static void complete(struct df_tally_list *l, struct df_arena *a)
{
    struct df_tally_entry *all = DF_ARENA_ARRAY(a, struct df_tally_entry, 2 * l->count + 1);
    size_t count = 0;

    for (size_t i = 0; i < l->count; i++) {
        all[count++] = (struct df_tally_entry){DF_STR(""), l->entries[i].channel, l->entries[i].n};
        if (l->entries[i].client.len > 0)
            all[count++] = l->entries[i];
    }
    qsort(all, count, sizeof *all, compare_entries);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && compare_entries(&all[kept - 1], &all[i]) == 0)
            df_tallied_add(&all[kept - 1].n, &all[i].n);
        else
            all[kept++] = all[i];
    }
    l->entries = all;
    l->count = kept;
}

/* --- writing ---------------------------------------------------------------------------------- */

struct writing {
    struct df_job job;
    const struct df_series *s;
    const struct df_tally_list *list;
    int64_t at_ms; /* of the minute */
    struct df_arena arena;
};

static enum df_code write_marks(struct df_db *db, struct writing *w, struct df_err *err)
{
    const struct df_tally_list *l = w->list;
    struct df_rows rows = df_rows_for(&w->arena, &df_q_mark_add, l->moment_count);

    for (size_t i = 0; i < l->moment_count; i++)
        DF_ROWS_ADD(&rows, mark_add, .at = df_time(l->moments[i].at_ms),
                    .kind = df_text(df_str_c(df_mark_name(l->moments[i].kind))),
                    .subject = df_text(l->moments[i].subject),
                    .instance = df_text(df_str_c(w->s->instance)));
    return df_rows_run(db, &rows, NULL, err);
}

static enum df_code run_write(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct writing *w = (struct writing *)job;
    const struct df_tally_list *l = w->list;

    df_arena_reset(&w->arena);
    struct df_rows rows = df_rows_for(&w->arena, &df_q_series_add, l->count);
    for (size_t i = 0; i < l->count; i++) {
        const struct df_tally_entry *e = &l->entries[i];
        DF_ROWS_ADD(&rows, series_add, .grain = df_int(SERIES_MINUTE), .at = df_time(w->at_ms),
                    .client = df_text(e->client), .channel = df_text(e->channel),
                    .accepted = df_int(e->n.accepted), .processed = df_int(e->n.processed),
                    .delivered = df_int(e->n.delivered), .failed = df_int(e->n.failed),
                    .acks = df_int(e->n.acks), .ack_ms = df_int(e->n.ack_ms),
                    .ack_most_ms = df_int(e->n.ack_most_ms), .ack_100 = df_int(e->n.ack_within[0]),
                    .ack_500 = df_int(e->n.ack_within[1]), .ack_1000 = df_int(e->n.ack_within[2]),
                    .ack_5000 = df_int(e->n.ack_within[3]), .ack_30000 = df_int(e->n.ack_within[4]),
                    .ack_300000 = df_int(e->n.ack_within[5]));
    }
    enum df_code code = df_rows_run(db, &rows, NULL, err);
    return code == DF_OK ? write_marks(db, w, err) : code;
}

/* What could not be written is counted again, and comes with a later minute. */
static void give_back(const struct df_tally_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        df_tally(l->entries[i].client, l->entries[i].channel, &l->entries[i].n);
    for (size_t i = 0; i < l->moment_count; i++)
        df_tally_mark(l->moments[i].kind, l->moments[i].at_ms, l->moments[i].subject);
}

enum df_code df_series_write(struct df_series *s, int64_t at_ms, struct df_err *err)
{
    struct df_arena arena;
    struct df_tally_list taken;
    enum df_code code = DF_OK;

    df_arena_init(&arena);
    df_tally_take(&taken, &arena);
    if (taken.dropped > 0)
        df_log_warn("SeriesMarksDropped", "%lld moments were not noted: too many at once",
                    (long long)taken.dropped);
    if (taken.count + taken.moment_count > 0) {
        struct df_tally_list list = taken;
        list.entries = DF_ARENA_ARRAY(&arena, struct df_tally_entry, taken.count + 1);
        if (taken.count > 0)
            memcpy(list.entries, taken.entries, taken.count * sizeof *list.entries);
        qsort(list.entries, list.count, sizeof *list.entries, compare_entries);
        cut_clients(&list, (size_t)s->opt.settings.max_clients, &arena);
        complete(&list, &arena);
        struct writing w = {.job = {.run = run_write},
                            .s = s,
                            .list = &list,
                            .at_ms = series_floor(at_ms, SERIES_MINUTE_MS)};
        df_arena_init(&w.arena);
        code = df_store_write_wait(s->opt.store, &w.job, err);
        df_arena_release(&w.arena);
        if (code != DF_OK)
            give_back(&taken);
    }
    df_arena_release(&arena);
    return code;
}

/* --- the loop --------------------------------------------------------------------------------- */

static void plan_next(struct df_series *s, int64_t now_ms)
{
    s->planned_ms = series_floor(now_ms, s->opt.settings.interval_ms) + s->opt.settings.interval_ms;
}

/*
 * Figures belong to the minute in which they were counted, also if this loop is late. After a leap
 * of the clock they go to the minute that it shows: the hour from which it leapt may have been made
 * already, and what came to it now would go with its minutes.
 */
static int64_t write_counted(void *arg)
{
    struct df_series *s = arg;
    struct df_err err = DF_ERR_INIT;
    int64_t now_ms = df_wall_ms(s->opt.clock);
    int64_t left_ms = s->planned_ms - now_ms;

    if (left_ms > 0 && left_ms <= s->opt.settings.interval_ms)
        return left_ms < TICK_MS ? left_ms : TICK_MS;
    int64_t at_ms = s->planned_ms - 1;
    if (at_ms > now_ms || now_ms - at_ms > LATE_MS)
        at_ms = now_ms;
    plan_next(s, now_ms);
    if (df_series_write(s, at_ms, &err) != DF_OK)
        df_log_warn("SeriesNotWritten", "%s", err.detail);
    left_ms = s->planned_ms - df_wall_ms(s->opt.clock);
    return left_ms < 0 ? 0 : left_ms < TICK_MS ? left_ms : TICK_MS;
}

struct df_series *df_series_new(const struct df_series_options *opt)
{
    struct df_series *s = df_calloc(1, sizeof *s);
    char host[128] = "";

    s->opt = *opt;
    s->next_hour_ms = -1;
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(s->instance, sizeof s->instance, "%s/%ld", host, (long)getpid());
    if (!opt->settings.enabled)
        return s;
    df_tally_start();
    df_tally_mark(DF_MARK_REPLICA_STARTED, df_wall_ms(opt->clock), df_str_c(s->instance));
    return s;
}

void df_series_start(struct df_series *s)
{
    if (!s->opt.settings.enabled)
        return;
    /* The first turn notes the start of this process at once. */
    s->planned_ms = df_wall_ms(s->opt.clock);
    df_loop_start(&s->loop,
                  &(struct df_loop_options){
                      .name = "series", .clock = s->opt.clock, .turn = write_counted, .arg = s});
}

void df_series_end(struct df_series *s)
{
    struct df_err err = DF_ERR_INIT;

    if (!s || !s->opt.settings.enabled)
        return;
    df_loop_stop(&s->loop);
    int64_t now_ms = df_wall_ms(s->opt.clock);
    df_tally_mark(DF_MARK_REPLICA_STOPPED, now_ms, df_str_c(s->instance));
    if (df_series_write(s, now_ms, &err) != DF_OK)
        df_log_warn("SeriesNotWritten", "%s", err.detail);
    df_tally_stop();
}

void df_series_free(struct df_series *s)
{
    if (!s)
        return;
    df_loop_release(&s->loop);
    free(s);
}
