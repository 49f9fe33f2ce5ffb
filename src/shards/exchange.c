/* Reads and writes the tables of owned work. */
#include "base/mem.h"
#include "shards/shards.sql.h"
#include "shards/shards_private.h"

#include <stdio.h>

/* --- reading --- */

struct reading {
    struct df_job job;
    struct df_shards *shards;
    struct shard_view *view;
};

static bool find_group(const struct df_shards *s, struct df_str channel, size_t *ret)
{
    for (size_t g = 0; g < s->group_count; g++) {
        if (df_str_eq(channel, df_str_c(s->groups[g]->channel))) {
            *ret = g;
            return true;
        }
    }
    return false;
}

static void read_id(struct df_str text, struct df_uuid *ret)
{
    *ret = (struct df_uuid){0};
    if (text.ptr)
        (void)df_uuid_parse(text, ret);
}

static void read_shard(void *arg, struct df_result *r)
{
    const struct reading *x = arg;
    struct shard_view *v = x->view;
    struct shard_row row = {.epoch = df_col_int(r, work_shard_list_Epoch)};
    int64_t shard = df_col_int(r, work_shard_list_Shard);

    if (!find_group(x->shards, df_col_text(r, work_shard_list_Channel), &row.group) || shard < 0 ||
        shard >= DF_SHARDS)
        return;
    row.shard = (unsigned)shard;
    read_id(df_col_text(r, work_shard_list_OwnerId), &row.owner);
    if (v->row_count == v->row_room) {
        v->row_room = v->row_room ? 2 * v->row_room : (size_t)DF_SHARDS * GROUPS_MAX;
        v->rows = df_realloc(v->rows, v->row_room * sizeof(*v->rows));
    }
    v->rows[v->row_count++] = row;
}

static void read_owner(void *arg, struct df_result *r)
{
    struct shard_view *v = ((const struct reading *)arg)->view;

    if (v->owner_count == v->owner_room) {
        v->owner_room = v->owner_room ? 2 * v->owner_room : 8;
        v->owners = df_realloc(v->owners, v->owner_room * sizeof(*v->owners));
    }
    struct shard_owner *o = &v->owners[v->owner_count++];
    *o = (struct shard_owner){.channels = df_strdup(df_col_text(r, work_owner_list_Channels)),
                              .renewed_ms = df_col_time(r, work_owner_list_RenewedAt),
                              .lease_until_ms = df_col_time(r, work_owner_list_LeaseUntil),
                              .now_ms = df_col_time(r, work_owner_list_Now)};
    read_id(df_col_text(r, work_owner_list_Id), &o->id);
}

void shard_view_free(struct shard_view *v)
{
    for (size_t i = 0; i < v->owner_count; i++)
        free(v->owners[i].channels);
    free(v->owners);
    free(v->rows);
    *v = (struct shard_view){0};
}

static enum df_code read_tables(struct df_db *db, struct reading *x, struct df_err *err)
{
    shard_view_free(x->view);
    enum df_code code = df_db_each(db, DF_Q0(work_shard_list), read_shard, x, err);
    if (code == DF_OK)
        code = df_db_each(db, DF_Q0(work_owner_list), read_owner, x, err);
    return code;
}

static enum df_code run_reading(struct df_db *db, struct df_job *job, struct df_err *err)
{
    return read_tables(db, (struct reading *)job, err);
}

enum df_code shard_view_read(struct df_shards *s, struct shard_view *v, struct df_err *err)
{
    struct reading x = {.job = {.run = run_reading}, .shards = s, .view = v};
    return df_store_read_wait(s->opt.store, &x.job, err);
}

/* --- writing --- */

/* Renews the lease, or begins one. */
static enum df_code write_owner(struct df_db *db, struct shard_turn *t, struct df_err *err)
{
    const struct df_shards *s = t->shards;
    struct df_value id = df_uuid(df_uuid_str(&s->id));
    struct df_value channels = df_text(df_str_c(t->channels));
    struct df_value lease_ms = df_int(s->opt.lease_ms);
    int64_t renewed = 0;

    t->was_lost = false;
    enum df_code code =
        df_db_exec(db, DF_Q(work_owner_renew, .id = id, .channels = channels, .lease_ms = lease_ms),
                   &renewed, err);
    if (code != DF_OK || renewed > 0)
        return code;
    t->was_lost = t->registered;
    return df_db_exec(db,
                      DF_Q(work_owner_insert, .id = id, .name = df_text(df_str_c(s->name)),
                           .version = df_text(df_str_c(s->opt.version)), .channels = channels,
                           .lease_ms = lease_ms),
                      NULL, err);
}

/* *ret_all: each of the rows was as it had been read. */
static enum df_code delete_lost(struct df_db *db, const struct shard_turn *t, bool *ret_all,
                                struct df_err *err)
{
    enum df_code code = DF_OK;
    *ret_all = true;
    for (size_t i = 0; code == DF_OK && i < t->decision->lost_count; i++) {
        int64_t deleted = 0;
        code =
            df_db_exec(db,
                       DF_Q(work_owner_delete, .id = df_uuid(df_uuid_str(&t->decision->lost[i].id)),
                            .renewed = df_time(t->decision->lost[i].renewed_ms)),
                       &deleted, err);
        *ret_all = *ret_all && deleted > 0;
    }
    return code;
}

static enum df_code add_missing(struct df_db *db, const struct shard_turn *t, struct df_err *err)
{
    struct df_p_work_shard_add *rows = df_calloc(t->decision->change_count, sizeof(*rows));
    size_t count = 0;
    enum df_code code = DF_OK;

    for (size_t i = 0; i < t->decision->change_count; i++) {
        const struct shard_change *c = &t->decision->changes[i];
        if (c->missing)
            rows[count++] = (struct df_p_work_shard_add){
                .channel = df_text(df_str_c(t->shards->groups[c->group]->channel)),
                .shard = df_int(c->shard)};
    }
    if (count > 0)
        code =
            df_db_exec_many(db, DF_MANY(work_shard_add, rows), count, NULL, NULL, NULL, NULL, err);
    free(rows);
    return code;
}

static enum df_code change_shards(struct df_db *db, struct shard_turn *t, struct df_err *err)
{
    struct df_p_work_shard_change *rows = df_calloc(t->decision->change_count, sizeof(*rows));
    int64_t *changed = df_calloc(t->decision->change_count, sizeof(*changed));
    struct df_value id = df_uuid(df_uuid_str(&t->shards->id));

    for (size_t i = 0; i < t->decision->change_count; i++) {
        const struct shard_change *c = &t->decision->changes[i];
        rows[i] = (struct df_p_work_shard_change){
            .owner = c->take ? id : df_null(DF_UUID),
            .channel = df_text(df_str_c(t->shards->groups[c->group]->channel)),
            .shard = df_int(c->shard),
            .epoch = df_int(c->epoch)};
    }
    enum df_code code = df_db_exec_many(db, DF_MANY(work_shard_change, rows),
                                        t->decision->change_count, NULL, NULL, changed, NULL, err);
    for (size_t i = 0; i < t->decision->change_count; i++)
        t->decision->changes[i].done = code == DF_OK && changed[i] > 0;
    free(rows);
    free(changed);
    return code;
}

static enum df_code look_and_decide(struct df_db *db, const struct shard_turn *t,
                                    struct df_err *err)
{
    struct reading x = {.shards = t->shards, .view = &t->decision->view};
    shard_decision_release(t->decision);
    enum df_code code = read_tables(db, &x, err);
    if (code == DF_OK)
        shard_decide(t->shards, t->decision);
    return code;
}

static enum df_code run_turn(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct shard_turn *t = (struct shard_turn *)job;
    bool all_deleted = true;
    enum df_code code = t->looks ? look_and_decide(db, t, err) : DF_OK;

    for (size_t i = 0; i < t->decision->change_count; i++)
        t->decision->changes[i].done = false;
    if (code == DF_OK && !t->ends)
        code = write_owner(db, t, err);
    if (code == DF_OK)
        code = delete_lost(db, t, &all_deleted, err);
    /* An owner that was believed lost has renewed its lease: decide anew. */
    if (code == DF_OK && t->decision->change_count > 0 && !t->was_lost && all_deleted) {
        code = add_missing(db, t, err);
        if (code == DF_OK)
            code = change_shards(db, t, err);
    }
    if (code == DF_OK && t->ends)
        code = df_db_exec(db, DF_Q(work_owner_end, .id = df_uuid(df_uuid_str(&t->shards->id))),
                          NULL, err);
    return code;
}

enum df_code shard_turn_write(struct shard_turn *t, struct df_err *err)
{
    t->job.run = run_turn;
    return df_store_write_wait(t->shards->opt.store, &t->job, err);
}

/* --- settling --- */

static void read_locked(void *arg, struct df_result *r)
{
    int64_t *epochs = arg;
    int64_t shard = df_col_int(r, work_shard_lock_Shard);
    if (shard >= 0 && shard < DF_SHARDS)
        epochs[shard] = df_col_int(r, work_shard_lock_Epoch);
}

enum df_code df_shards_lock(struct df_db *db, const struct df_shard_group *g, uint32_t shards,
                            int64_t epochs[DF_SHARDS], struct df_err *err)
{
    for (unsigned n = 0; n < DF_SHARDS; n++)
        epochs[n] = -1;
    return df_db_each(db,
                      DF_Q(work_shard_lock, .channel = df_text(df_str_c(g->channel)),
                           .owner = df_uuid(df_uuid_str(&g->shards->id)), .shards = df_int(shards)),
                      read_locked, epochs, err);
}
