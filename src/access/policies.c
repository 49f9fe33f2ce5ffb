#include "access/policies.h"

#include "access/clients.h"
#include "access/maintenance.h"
#include "access/policies.sql.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define FRESH_MS    3000 /* how long a row is trusted before it is read again */
#define KNOWN_MAX   512  /* policies in memory; with more clients they are all read again */
#define DETAILS_MAX (64 << 10)

/* --- fields --- */

struct field {
    const char *column;
    const char *name;
    const char *help;
    enum df_policy_kind kind;
    int64_t min, max;
    size_t offset;
};

static const struct field fields[] = {
#define X(member, column_, name_, kind_, min_, max_, help_)                                        \
    [DF_POLICY_##column_] = {.column = #column_,                                                   \
                             .name = name_,                                                        \
                             .help = help_,                                                        \
                             .kind = DF_POLICY_##kind_,                                            \
                             .min = min_,                                                          \
                             .max = max_,                                                          \
                             .offset = offsetof(struct df_policy, member)},
    DF_POLICY_FIELDS(X)
#undef X
};

/* Not for DF_POLICY_WINDOW, the only field that is text. */
static int64_t *number_of(struct df_policy *p, enum df_policy_field f)
{
    assert(f < DF_POLICY_FIELD_COUNT && fields[f].kind != DF_POLICY_WINDOW);
    return (int64_t *)(void *)((char *)p + fields[f].offset);
}

static int64_t number_in(const struct df_policy *p, enum df_policy_field f)
{
    assert(f < DF_POLICY_FIELD_COUNT && fields[f].kind != DF_POLICY_WINDOW);
    return *(const int64_t *)(const void *)((const char *)p + fields[f].offset);
}

static void clear_field(struct df_policy *p, enum df_policy_field f)
{
    switch (fields[f].kind) {
    case DF_POLICY_NUMBER:
    case DF_POLICY_SWITCH:
        *number_of(p, f) = DF_POLICY_NONE;
        break;
    case DF_POLICY_NEVER_NULL:
        *number_of(p, f) = 0;
        break;
    case DF_POLICY_WINDOW:
        p->maintenance_window[0] = '\0';
        break;
    }
}

static bool same_field(const struct df_policy *a, const struct df_policy *b, enum df_policy_field f)
{
    if (fields[f].kind == DF_POLICY_WINDOW)
        return strcmp(a->maintenance_window, b->maintenance_window) == 0;
    return number_in(a, f) == number_in(b, f);
}

static void copy_field(struct df_policy *to, const struct df_policy *from, enum df_policy_field f)
{
    if (fields[f].kind == DF_POLICY_WINDOW)
        memcpy(to->maintenance_window, from->maintenance_window, sizeof to->maintenance_window);
    else
        *number_of(to, f) = number_in(from, f);
}

void df_policy_init(struct df_policy *p)
{
    memset(p, 0, sizeof *p);
    for (int f = 0; f < DF_POLICY_FIELD_COUNT; f++)
        clear_field(p, (enum df_policy_field)f);
    p->created_at = -1;
    p->updated_at = -1;
}

bool df_policy_field_find(struct df_str name, enum df_policy_field *ret)
{
    for (int f = 0; f < DF_POLICY_FIELD_COUNT; f++) {
        if (df_str_ieq(name, df_str_c(fields[f].column))) { /* the two names differ by case only */
            *ret = (enum df_policy_field)f;
            return true;
        }
    }
    return false;
}

const char *df_policy_field_name(enum df_policy_field f)
{
    return fields[f].name;
}

const char *df_policy_field_column(enum df_policy_field f)
{
    return fields[f].column;
}

const char *df_policy_field_help(enum df_policy_field f)
{
    return fields[f].help;
}

struct df_str df_policy_field_text(const struct df_policy *p, enum df_policy_field f,
                                   char buf[DF_POLICY_WINDOW_MAX + 1])
{
    int64_t n = fields[f].kind == DF_POLICY_WINDOW ? DF_POLICY_NONE : number_in(p, f);
    buf[0] = '\0';
    switch (fields[f].kind) {
    case DF_POLICY_NUMBER:
        if (n != DF_POLICY_NONE)
            snprintf(buf, DF_POLICY_WINDOW_MAX + 1, "%lld", (long long)n);
        break;
    case DF_POLICY_SWITCH:
    case DF_POLICY_NEVER_NULL:
        if (n != DF_POLICY_NONE)
            snprintf(buf, DF_POLICY_WINDOW_MAX + 1, "%s", n ? "true" : "false");
        break;
    case DF_POLICY_WINDOW:
        snprintf(buf, DF_POLICY_WINDOW_MAX + 1, "%s", p->maintenance_window);
        break;
    }
    return df_str_c(buf);
}

/* --- changes --- */

static enum df_code set_number(struct df_policy *p, enum df_policy_field f, struct df_str value,
                               struct df_err *err)
{
    const struct field *d = &fields[f];
    int64_t n;
    if (!df_str_to_i64(value, &n) || n < d->min || n > d->max)
        return df_err_set(err, DF_E_VALIDATION, "must be a whole number from %lld to %lld",
                          (long long)d->min, (long long)d->max);
    *number_of(p, f) = n;
    return DF_OK;
}

static enum df_code set_switch(struct df_policy *p, enum df_policy_field f, struct df_str value,
                               struct df_err *err)
{
    bool on;
    if (!df_str_to_bool(value, &on))
        return df_err_set(err, DF_E_VALIDATION, "must be true or false");
    *number_of(p, f) = on;
    return DF_OK;
}

static enum df_code set_window(struct df_policy *p, struct df_str value, struct df_err *err)
{
    struct df_maintenance m = {0};
    if (value.len > DF_POLICY_WINDOW_MAX)
        return df_err_set(err, DF_E_VALIDATION, "may have at most %d characters",
                          DF_POLICY_WINDOW_MAX);
    enum df_code code = df_maintenance_add(&m, value, err);
    if (code != DF_OK)
        return code;
    if (m.count == 0)
        return df_err_set(err, DF_E_VALIDATION, "names no window");
    memcpy(p->maintenance_window, value.ptr, value.len);
    p->maintenance_window[value.len] = '\0';
    return DF_OK;
}

enum df_code df_policy_patch_set(struct df_policy_patch *patch, enum df_policy_field f,
                                 struct df_str value, struct df_err *err)
{
    if (patch->given & 1u << f)
        return df_err_set(err, DF_E_VALIDATION, "is given twice");
    patch->given |= 1u << f;
    value = df_str_trim(value);
    clear_field(&patch->values, f);
    if (value.len == 0)
        return DF_OK;
    switch (fields[f].kind) {
    case DF_POLICY_NUMBER:
        return set_number(&patch->values, f, value, err);
    case DF_POLICY_SWITCH:
    case DF_POLICY_NEVER_NULL:
        return set_switch(&patch->values, f, value, err);
    case DF_POLICY_WINDOW:
        return set_window(&patch->values, value, err);
    }
    return DF_OK;
}

/* --- rows --- */

static int64_t clamp_number(int64_t n, int64_t least, int64_t most)
{
    return n < least ? DF_POLICY_NONE : n > most ? most : n;
}

static void copy_window(char out[DF_POLICY_WINDOW_MAX + 1], struct df_str s)
{
    s = df_utf8_cut(s, DF_POLICY_WINDOW_MAX);
    snprintf(out, DF_POLICY_WINDOW_MAX + 1, DF_STR_FMT, DF_STR_ARG(s));
}

#define READ_NUMBER(member, column, least, most)                                                   \
    if (!df_col_null(r, policy_get_##column))                                                      \
        p->member = clamp_number(df_col_int(r, policy_get_##column), least, most);
#define READ_SWITCH(member, column, least, most)                                                   \
    if (!df_col_null(r, policy_get_##column))                                                      \
        p->member = df_col_bool(r, policy_get_##column);
#define READ_NEVER_NULL READ_SWITCH
#define READ_WINDOW(member, column, least, most)                                                   \
    copy_window(p->member, df_col_text(r, policy_get_##column));

/* Writes the row's values over the defaults. */
static void read_policy(void *arg, struct df_result *r)
{
    struct df_policy *p = arg;

#define X(member, column, name, kind, min, max, help) READ_##kind(member, column, min, max)
    DF_POLICY_FIELDS(X)
#undef X
    p->created_at = df_col_time(r, policy_get_CreatedAt);
    p->updated_at = df_col_time(r, policy_get_UpdatedAt);
}

enum df_code df_policy_load(struct df_db *db, struct df_str client_id, struct df_policy *ret,
                            struct df_err *err)
{
    df_policy_init(ret);
    return df_db_each(db, DF_Q(policy_get, .client_id = df_uuid(client_id)), read_policy, ret, err);
}

enum df_code df_policy_get(struct df_db *db, struct df_str identifier,
                           struct df_uuid *ret_client_id, struct df_policy *ret, struct df_err *err)
{
    struct df_client_record rec;
    enum df_code code = df_client_load(db, identifier, &rec, err);
    if (code != DF_OK)
        return code;
    if (ret_client_id)
        *ret_client_id = rec.client.id;
    return df_policy_load(db, df_uuid_str(&rec.client.id), ret, err);
}

/* Locks the client's row until the transaction ends, so that no other change comes between read and
 * write. */
static enum df_code lock_and_load_policy(struct df_db *db, struct df_str identifier,
                                         struct df_uuid *ret_client_id, struct df_policy *ret,
                                         struct df_err *err)
{
    struct df_client_record rec;
    enum df_code code = df_client_load(db, identifier, &rec, err);
    if (code != DF_OK)
        return code;
    struct df_str id = df_uuid_str(&rec.client.id);
    code = df_db_exec(db, DF_Q(policy_lock, .client_id = df_uuid(id)), NULL, err);
    if (code == DF_OK)
        code = df_policy_load(db, id, ret, err);
    if (code == DF_OK)
        *ret_client_id = rec.client.id;
    return code;
}

static struct df_value param_of(const struct df_policy *p, enum df_policy_field f)
{
    switch (fields[f].kind) {
    case DF_POLICY_NUMBER:
        break;
    case DF_POLICY_SWITCH:
    case DF_POLICY_NEVER_NULL:
        return number_in(p, f) == DF_POLICY_NONE ? df_null(DF_BOOL) : df_bool(number_in(p, f) != 0);
    case DF_POLICY_WINDOW:
        return p->maintenance_window[0] ? df_text(df_str_c(p->maintenance_window))
                                        : df_null(DF_TEXT);
    }
    return number_in(p, f) == DF_POLICY_NONE ? df_null(DF_INT) : df_int(number_in(p, f));
}

static enum df_code write_policy_row(struct df_db *db, const struct df_uuid *client_id,
                                     const struct df_policy *p, bool is_new,
                                     const struct df_clock *clock, struct df_err *err)
{
    struct df_uuid id = df_uuid_v7(clock);

#define X(member, column, name, kind, min, max, help) .member = param_of(p, DF_POLICY_##column),
    if (is_new)
        return df_db_exec(db,
                          DF_Q(policy_insert, DF_POLICY_FIELDS(X).now = df_time(p->updated_at),
                               .client_id = df_uuid(df_uuid_str(client_id)),
                               .id = df_uuid(df_uuid_str(&id))),
                          NULL, err);
    return df_db_exec(db,
                      DF_Q(policy_update, DF_POLICY_FIELDS(X).now = df_time(p->updated_at),
                           .client_id = df_uuid(df_uuid_str(client_id))),
                      NULL, err);
#undef X
}

/* --- JSON --- */

static void write_value(const struct df_policy *p, enum df_policy_field f, struct df_json_out *out)
{
    const bool is_window = fields[f].kind == DF_POLICY_WINDOW;
    if (is_window ? !p->maintenance_window[0] : number_in(p, f) == DF_POLICY_NONE)
        df_json_null(out);
    else if (is_window)
        df_json_text(out, df_str_c(p->maintenance_window));
    else if (fields[f].kind == DF_POLICY_NUMBER)
        df_json_int(out, number_in(p, f));
    else
        df_json_bool(out, number_in(p, f) != 0);
}

void df_policy_write_json(struct df_str identifier, const struct df_policy *p,
                          struct df_json_out *out)
{
    df_json_open(out, '{');
    df_json_kv_text(out, "clientId", identifier);
    for (int f = 0; f < DF_POLICY_FIELD_COUNT; f++) {
        df_json_key(out, fields[f].name);
        write_value(p, (enum df_policy_field)f, out);
    }
    df_json_kv_time(out, "createdAt", p->created_at);
    df_json_kv_time(out, "updatedAt", p->updated_at);
    df_json_close(out, '}');
}

/* The audit row tells the old and the new value of each changed field. */
static enum df_code audit_policy(struct df_db *db, struct df_str identifier,
                                 const struct df_uuid *id, const struct df_policy *from,
                                 const struct df_policy *to, const char *action,
                                 const struct df_actor *by, int64_t now_ms, struct df_err *err)
{
    struct df_buf buf;
    struct df_json_out out;
    df_buf_init(&buf, DETAILS_MAX);
    df_json_out_init(&out, &buf);
    df_json_open(&out, '{');
    for (int i = 0; i < DF_POLICY_FIELD_COUNT; i++) {
        enum df_policy_field f = (enum df_policy_field)i;
        if (same_field(from, to, f))
            continue;
        df_json_key(&out, fields[f].name);
        df_json_open(&out, '{');
        df_json_key(&out, "from");
        write_value(from, f, &out);
        df_json_key(&out, "to");
        write_value(to, f, &out);
        df_json_close(&out, '}');
    }
    df_json_close(&out, '}');
    enum df_code code =
        df_audit_write(db, by, action, identifier, df_uuid_str(id), df_buf_str(&buf), now_ms, err);
    df_buf_release(&buf);
    return code;
}

/* --- operations --- */

enum df_code df_policy_change(struct df_db *db, struct df_str identifier,
                              const struct df_policy_patch *patch, const struct df_actor *by,
                              const struct df_clock *clock, struct df_uuid *ret_client_id,
                              struct df_policy *ret, struct df_err *err)
{
    struct df_policy old, p;
    struct df_uuid id;
    enum df_code code = lock_and_load_policy(db, identifier, &id, &old, err);
    if (code != DF_OK)
        return code;
    p = old;
    bool changed = false;
    for (int i = 0; i < DF_POLICY_FIELD_COUNT; i++) {
        enum df_policy_field f = (enum df_policy_field)i;
        if (patch->given & 1u << f)
            copy_field(&p, &patch->values, f);
        changed = changed || !same_field(&p, &old, f);
    }
    if (changed) {
        p.updated_at = df_wall_ms(clock);
        if (old.created_at < 0)
            p.created_at = p.updated_at;
        code = write_policy_row(db, &id, &p, old.created_at < 0, clock, err);
        if (code == DF_OK)
            code =
                audit_policy(db, identifier, &id, &old, &p, "PolicyChanged", by, p.updated_at, err);
        if (code != DF_OK)
            return code;
    }
    *ret_client_id = id;
    *ret = p;
    return DF_OK;
}

enum df_code df_policy_reset(struct df_db *db, struct df_str identifier, const struct df_actor *by,
                             const struct df_clock *clock, struct df_uuid *ret_client_id,
                             struct df_err *err)
{
    struct df_policy old, none;
    struct df_uuid id;
    df_policy_init(&old);
    enum df_code code = lock_and_load_policy(db, identifier, &id, &old, err);
    if (code != DF_OK)
        return code;
    if (old.created_at >= 0) {
        df_policy_init(&none);
        code =
            df_db_exec(db, DF_Q(policy_delete, .client_id = df_uuid(df_uuid_str(&id))), NULL, err);
        if (code == DF_OK)
            code = audit_policy(db, identifier, &id, &old, &none, "PolicyReset", by,
                                df_wall_ms(clock), err);
        if (code != DF_OK)
            return code;
    }
    *ret_client_id = id;
    return DF_OK;
}

/* --- in memory --- */

struct known_policy {
    struct df_uuid client_id;
    int64_t read_ms; /* monotonic */
    struct df_policy policy;
};

struct df_policies {
    const struct df_clock *clock;
    struct df_mutex lock; /* held for look-ups and copies only */
    /* Grows with each forget: a row that was read before is not trusted. */
    uint64_t generation DF_GUARDED_BY(lock);
    struct df_map known DF_GUARDED_BY(lock);
};

struct df_policies *df_policies_new(const struct df_clock *clock)
{
    struct df_policies *p = df_calloc(1, sizeof *p);
    p->clock = clock;
    df_mutex_init(&p->lock);
    return p;
}

static void forget_all(struct df_policies *p) DF_REQUIRES(p->lock)
{
    struct known_policy *k;

    for (size_t at = 0; (k = df_map_next(&p->known, &at));)
        free(k);
    df_map_release(&p->known);
}

void df_policies_free(struct df_policies *p)
{
    if (!p)
        return;
    df_lock(&p->lock);
    forget_all(p);
    df_unlock(&p->lock);
    df_mutex_destroy(&p->lock);
    free(p);
}

static bool find_cached_policy(struct df_policies *p, const struct df_uuid *id,
                               struct df_policy *ret, uint64_t *ret_generation)
{
    int64_t now_ms = df_mono_ms(p->clock);
    df_lock(&p->lock);
    const struct known_policy *k = df_map_get(&p->known, df_uuid_str(id));
    bool found = k && now_ms - k->read_ms < FRESH_MS;
    if (found)
        *ret = k->policy;
    *ret_generation = p->generation;
    df_unlock(&p->lock);
    return found;
}

static void keep_policy(struct df_policies *p, const struct df_uuid *id, int64_t read_ms,
                        const struct df_policy *policy) DF_REQUIRES(p->lock)
{
    struct known_policy *k = df_map_get(&p->known, df_uuid_str(id));

    if (!k && p->known.count >= KNOWN_MAX)
        forget_all(p);
    if (!k) {
        k = df_calloc(1, sizeof *k);
        k->client_id = *id;
        df_map_add(&p->known, df_uuid_str(&k->client_id), k);
    }
    k->read_ms = read_ms;
    k->policy = *policy;
}

/* A window that cannot be read counts as none; the operator should know. */
static void warn_of_window(const struct df_uuid *client_id, const struct df_policy *p)
{
    struct df_maintenance m = {0};
    struct df_err err = DF_ERR_INIT;
    if (df_maintenance_add(&m, df_str_c(p->maintenance_window), &err) != DF_OK)
        df_log_warn("PolicyInvalid", "MaintenanceWindow of client %s is ignored: it %s",
                    client_id->text, err.detail);
}

enum df_code df_policies_get(struct df_policies *p, struct df_db *db,
                             const struct df_uuid *client_id, struct df_policy *ret,
                             struct df_err *err)
{
    uint64_t generation;
    if (find_cached_policy(p, client_id, ret, &generation))
        return DF_OK;
    int64_t read_ms = df_mono_ms(p->clock);
    enum df_code code = df_policy_load(db, df_uuid_str(client_id), ret, err);
    if (code != DF_OK)
        return code;
    warn_of_window(client_id, ret);
    df_lock(&p->lock);
    if (p->generation == generation)
        keep_policy(p, client_id, read_ms, ret);
    df_unlock(&p->lock);
    return DF_OK;
}

void df_policies_forget(struct df_policies *p, const struct df_uuid *client_id)
{
    df_lock(&p->lock);
    p->generation++;
    free(df_map_remove(&p->known, df_uuid_str(client_id)));
    df_unlock(&p->lock);
}
