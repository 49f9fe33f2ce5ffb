#include "keys/key_use.h"

#include "keys/key_use.sql.h"

struct df_key_use *df_key_uses_of(struct df_key_uses *u, uint32_t id)
{
    struct df_key_use *use = u->first;

    while (use && use->id != id)
        use = use->next;
    if (!use) {
        use = DF_ARENA_NEW(u->arena, struct df_key_use);
        use->id = id;
        use->next = u->first;
        u->first = use;
    }
    return use;
}

static void count_secrets(void *arg, struct df_result *r)
{
    uint32_t id = df_sealed_key(df_col_blob(r, key_use_secrets_Head));

    df_key_uses_of(arg, id)->secrets += df_col_int(r, key_use_secrets_Uses);
}

static void count_payloads(void *arg, struct df_result *r)
{
    uint32_t id = (uint32_t)df_col_int(r, key_use_payloads_KeyId);

    df_key_uses_of(arg, id)->payloads += df_col_int(r, key_use_payloads_Uses);
}

enum df_code df_key_uses_count(struct df_db *db, struct df_key_uses *u, struct df_err *err)
{
    enum df_code code = df_db_each(db, DF_Q0(key_use_secrets), count_secrets, u, err);

    return code == DF_OK ? df_db_each(db, DF_Q0(key_use_payloads), count_payloads, u, err) : code;
}

enum df_code df_key_uses_any(struct df_db *db, bool *ret, struct df_err *err)
{
    struct df_arena arena = {0};
    struct df_key_uses uses = {.arena = &arena};
    int64_t marks = 0;
    enum df_code code = df_db_query_int(db, DF_Q0(key_use_marks), &marks, err);

    if (code == DF_OK)
        code = df_key_uses_count(db, &uses, err);
    *ret = marks > 0;
    for (const struct df_key_use *u = uses.first; u; u = u->next)
        *ret = *ret || u->id != 0;
    df_arena_release(&arena);
    return code;
}

bool df_key_use_is_lost(const struct df_key_use *use, const struct df_data_key *keys)
{
    while (keys && keys->id != use->id)
        keys = keys->next;
    return use->id != 0 && !keys;
}

static void write_counts(const struct df_key_use *use, bool with_files, struct df_json_out *out)
{
    df_json_kv_int(out, "secrets", use->secrets);
    df_json_kv_int(out, "payloads", use->payloads);
    if (with_files)
        df_json_kv_int(out, "files", use->files);
}

static void write_key(const struct df_data_key *k, const struct df_key_use *use, bool current,
                      bool with_files, struct df_json_out *out)
{
    df_json_open(out, '{');
    df_json_kv_int(out, "id", k->id);
    df_json_kv_text(out, "purpose", k->purpose);
    df_json_kv_bool(out, "current", current);
    df_json_kv_time(out, "createdAt", k->created_ms);
    df_json_kv_time(out, "activeAt", k->active_ms);
    df_json_kv_time(out, "retiredAt", k->retired_ms);
    df_json_kv_text(out, "masterId", k->master_id);
    write_counts(use, with_files, out);
    df_json_close(out, '}');
}

static const struct df_key_use *find_use(const struct df_key_uses *u, uint32_t id)
{
    static const struct df_key_use none;
    const struct df_key_use *use = u->first;

    while (use && use->id != id)
        use = use->next;
    return use ? use : &none;
}

void df_key_uses_json(const struct df_key_uses *u, const struct df_data_key *keys, int64_t now_ms,
                      bool with_files, struct df_json_out *out)
{
    const struct df_data_key *current = df_data_keys_current(keys, now_ms);

    df_json_open(out, '{');
    df_json_key(out, "items");
    df_json_open(out, '[');
    for (const struct df_data_key *k = keys; k; k = k->next)
        write_key(k, find_use(u, k->id), k == current, with_files, out);
    df_json_close(out, ']');
    df_json_key(out, "lost");
    df_json_open(out, '[');
    for (const struct df_key_use *use = u->first; use; use = use->next) {
        if (!df_key_use_is_lost(use, keys))
            continue;
        df_json_open(out, '{');
        df_json_kv_int(out, "id", use->id);
        write_counts(use, with_files, out);
        df_json_close(out, '}');
    }
    df_json_close(out, ']');
    df_json_key(out, "others");
    df_json_open(out, '{');
    write_counts(find_use(u, 0), with_files, out);
    df_json_close(out, '}');
    df_json_close(out, '}');
}
