#include "admin/owners.h"

#include "access/handler.h"
#include "base/mem.h"
#include "shards/shards.h"
#include "shards/shards.sql.h"

#include <stdio.h>

/* --- reading --- */

struct shard {
    char channel[64];
    unsigned number;
    struct df_uuid owner; /* empty: nobody */
};

struct reading {
    struct df_work_owners *w;
    struct shard *shards;
    size_t count;
};

static void read_owner(void *arg, struct df_result *r)
{
    struct df_work_owners *w = ((struct reading *)arg)->w;

    w->owners = df_realloc(w->owners, (w->count + 1) * sizeof(*w->owners));
    struct df_work_owner *o = &w->owners[w->count++];
    *o = (struct df_work_owner){.name = df_strdup(df_col_text(r, work_owner_list_Name)),
                                .version = df_strdup(df_col_text(r, work_owner_list_Version)),
                                .started_ms = df_col_time(r, work_owner_list_StartedAt),
                                .renewed_ms = df_col_time(r, work_owner_list_RenewedAt),
                                .lease_until_ms = df_col_time(r, work_owner_list_LeaseUntil),
                                .now_ms = df_col_time(r, work_owner_list_Now)};
    (void)df_uuid_parse(df_col_text(r, work_owner_list_Id), &o->id);
}

static void read_shard(void *arg, struct df_result *r)
{
    struct reading *x = arg;
    struct df_str owner = df_col_text(r, work_shard_list_OwnerId);

    x->shards = df_realloc(x->shards, (x->count + 1) * sizeof(*x->shards));
    struct shard *s = &x->shards[x->count++];
    *s = (struct shard){.number = (unsigned)df_col_int(r, work_shard_list_Shard) % DF_SHARDS};
    (void)snprintf(s->channel, sizeof(s->channel), DF_STR_FMT,
                   DF_STR_ARG(df_col_text(r, work_shard_list_Channel)));
    if (owner.ptr)
        (void)df_uuid_parse(owner, &s->owner);
}

static size_t find_owner(const struct df_work_owners *w, const struct df_uuid *id)
{
    size_t i = 0;
    while (i < w->count && strcmp(w->owners[i].id.text, id->text) != 0)
        i++;
    return i;
}

/* Adds it to the shards of the same channel and owner. */
static void add_shard(struct df_work_owners *w, const struct shard *s)
{
    size_t owner = find_owner(w, &s->owner), i = 0;
    while (i < w->shards_count &&
           (w->shards[i].owner != owner || strcmp(w->shards[i].channel, s->channel) != 0))
        i++;
    if (i == w->shards_count) {
        w->shards = df_realloc(w->shards, ++w->shards_count * sizeof(*w->shards));
        w->shards[i] = (struct df_work_shards){.owner = owner};
        memcpy(w->shards[i].channel, s->channel, sizeof(s->channel));
    }
    w->shards[i].shards |= UINT32_C(1) << s->number;
}

enum df_code df_work_owners_read(struct df_db *db, struct df_work_owners *ret, struct df_err *err)
{
    struct reading x = {.w = ret};

    *ret = (struct df_work_owners){0};
    enum df_code code = df_db_each(db, DF_Q0(work_shard_list), read_shard, &x, err);
    if (code == DF_OK)
        code = df_db_each(db, DF_Q0(work_owner_list), read_owner, &x, err);
    for (size_t i = 0; code == DF_OK && i < x.count; i++)
        add_shard(ret, &x.shards[i]);
    free(x.shards);
    if (code != DF_OK)
        df_work_owners_release(ret);
    return code;
}

void df_work_owners_release(struct df_work_owners *w)
{
    for (size_t i = 0; i < w->count; i++) {
        free(w->owners[i].name);
        free(w->owners[i].version);
    }
    free(w->owners);
    free(w->shards);
    *w = (struct df_work_owners){0};
}

/* --- JSON --- */

static void write_shards(const struct df_work_owners *w, size_t owner, const char *name,
                         struct df_json_out *out)
{
    df_json_key(out, name);
    df_json_open(out, '[');
    for (size_t i = 0; i < w->shards_count; i++) {
        if (w->shards[i].owner != owner)
            continue;
        df_json_open(out, '{');
        df_json_kv_text(out, "channel", df_str_c(w->shards[i].channel));
        df_json_key(out, "shards");
        df_json_open(out, '[');
        for (unsigned n = 0; n < DF_SHARDS; n++) {
            if ((w->shards[i].shards >> n) & 1)
                df_json_int(out, n);
        }
        df_json_close(out, ']');
        df_json_close(out, '}');
    }
    df_json_close(out, ']');
}

void df_work_owners_json(const struct df_work_owners *w, struct df_json_out *out)
{
    df_json_open(out, '{');
    df_json_key(out, "items");
    df_json_open(out, '[');
    for (size_t i = 0; i < w->count; i++) {
        const struct df_work_owner *o = &w->owners[i];
        df_json_open(out, '{');
        df_json_kv_text(out, "id", df_uuid_str(&o->id));
        df_json_kv_text(out, "name", df_str_c(o->name));
        df_json_kv_text(out, "version", df_str_c(o->version));
        df_json_kv_time(out, "startedAt", o->started_ms);
        df_json_kv_time(out, "renewedAt", o->renewed_ms);
        df_json_kv_time(out, "leaseUntil", o->lease_until_ms);
        df_json_kv_bool(out, "isLate", o->lease_until_ms < o->now_ms);
        write_shards(w, i, "work", out);
        df_json_close(out, '}');
    }
    df_json_close(out, ']');
    write_shards(w, w->count, "unowned", out);
    df_json_close(out, '}');
}

/* --- GET /admin/owners --- */

#define ANSWER_MAX (4 << 20)

static enum df_code run_owners(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct df_work_owners owners;
    enum df_code code = df_work_owners_read(db, &owners, err);
    if (code != DF_OK)
        return code;
    df_work_owners_json(&owners, &w->json);
    df_work_owners_release(&owners);
    return DF_OK;
}

static const struct df_handler list_owners = {.max_answer = ANSWER_MAX, .run = run_owners};

const struct df_route df_work_owner_routes[] = {
    DF_ROUTE("GET", "/admin/owners", DF_BODY_NONE, DF_ACCESS_ADMIN, NULL, list_owners),
    {.method = NULL},
};
