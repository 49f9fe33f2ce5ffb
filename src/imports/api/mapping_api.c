/*
 * GET, PUT and DELETE /clients/{clientId}/mapping: what a client says, once for all uploads, of the
 * columns of its files (tabular/mapping.h). An upload's own mapping comes before it. Batches that
 * were received keep the mapping that they were received with.
 */
#include "imports/api/mapping.sql.h"
#include "imports/api/views.h"
#include "imports/routes.h"
#include "tabular/mapping.h"

struct call {
    struct df_work w;
    struct df_uuid client;
    struct df_str identifier;
    struct df_str mapping; /* as it is stored */
    int64_t updated_ms;
    bool found;
};

/* An operator's call names any client. */
static enum df_code find_client(struct df_db *db, struct call *c, struct df_err *err)
{
    struct df_client_record found;
    const struct df_client *own = df_auth_client(c->w.req);

    if (own) {
        c->client = own->id;
        return DF_OK;
    }
    enum df_code code = df_client_load(db, c->identifier, &found, err);
    if (code == DF_OK)
        c->client = found.client.id;
    return code;
}

static bool read_mapping_client(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;
    const struct df_client *own = df_auth_client(w->req);

    (void)in;
    c->identifier = df_req_param(w->req, "clientId");
    if (!own || df_scope_allows(own->scopes, DF_STR("imports")))
        return true;
    df_req_fail(w->req, DF_E_SCOPE_MISSING, "This client lacks the scope \"imports\".");
    return false;
}

static void write_mapping(struct df_work *w)
{
    const struct call *c = (const struct call *)w;

    df_json_open(&w->json, '{');
    df_json_key(&w->json, "mapping");
    df_json_raw(&w->json, c->mapping);
    df_json_kv_time(&w->json, "updatedAt", c->updated_ms);
    df_json_close(&w->json, '}');
}

/* --- GET --- */

static void read_mapping_row(void *arg, struct df_result *r)
{
    struct call *c = arg;

    c->mapping = df_arena_str(df_req_arena(c->w.req), df_col_text(r, mapping_get_MappingJson));
    c->updated_ms = df_col_time(r, mapping_get_UpdatedAt);
}

static enum df_code run_get_mapping(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    enum df_code code = find_client(db, c, err);

    if (code == DF_OK)
        code = df_db_one(db, DF_Q(mapping_get, .client = df_uuid(df_uuid_str(&c->client))),
                         read_mapping_row, c, &c->found, err);
    return code == DF_OK && !c->found
               ? df_err_set(err, DF_E_NOT_FOUND, "The client keeps no mapping.")
               : code;
}

static const struct df_handler get = {
    .size = sizeof(struct call),
    .max_answer = 2 * DF_MAPPING_BYTES,
    .prepare = read_mapping_client,
    .run = run_get_mapping,
    .done = write_mapping,
};

/* --- PUT --- */

static void mapping_is_bad(void *arg, struct df_str name, const char *what)
{
    struct df_input *in = arg;

    df_input_error(in,
                   name.ptr
                       ? df_arena_cstr(in->arena, df_arena_printf(in->arena, "mapping." DF_STR_FMT,
                                                                  DF_STR_ARG(name)))
                       : "mapping",
                   "%s", what);
}

static bool read_new_mapping(struct df_work *w, struct df_input *in)
{
    struct call *c = (struct call *)w;
    struct df_arena *a = df_req_arena(w->req);
    struct df_json_out out;
    struct df_json given;
    struct df_buf text;

    if (!read_mapping_client(w, in) || !df_input_json(in, w->req))
        return false;
    if (!df_json_find(in->object, "mapping", &given)) {
        df_input_error(in, "mapping", "is required");
        return true;
    }
    struct df_mapping *m =
        df_mapping_read(a, &given, (struct df_mapping_problems){mapping_is_bad, in});
    if (!m)
        return true;
    df_buf_init(&text, 2 * DF_MAPPING_BYTES);
    df_json_out_init(&out, &text);
    df_mapping_write(m, &out);
    c->mapping = df_arena_str(a, df_buf_str(&text));
    c->updated_ms = w->now_ms;
    df_buf_release(&text);
    return true;
}

static enum df_code tell_audit(struct df_db *db, const struct call *c, const char *action,
                               struct df_err *err)
{
    struct df_actor by = df_actor_of(c->w.req);
    return df_audit_write(db, &by, action, c->identifier, df_uuid_str(&c->client), DF_STR_NULL,
                          c->w.now_ms, err);
}

static enum df_code run_put_mapping(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    int64_t changed = 0;
    enum df_code code = find_client(db, c, err);
    const struct df_value client = df_uuid(df_uuid_str(&c->client));

    if (code == DF_OK)
        code = df_db_exec(db,
                          DF_Q(mapping_change, .mapping = df_text(c->mapping),
                               .now = df_time(w->now_ms), .client = client),
                          &changed, err);
    if (code == DF_OK && changed == 0)
        code = df_db_exec(db,
                          DF_Q(mapping_add, .client = client, .mapping = df_text(c->mapping),
                               .now = df_time(w->now_ms)),
                          NULL, err);
    if (code == DF_E_DB_UNIQUE) /* another call was faster: the store runs this one again */
        code = df_err_set(err, DF_E_DB_CONFLICT, "The mapping has just changed.");
    return code == DF_OK ? tell_audit(db, c, "ImportMappingKept", err) : code;
}

static const struct df_handler put = {
    .size = sizeof(struct call),
    .writes = true,
    .max_answer = 2 * DF_MAPPING_BYTES,
    .prepare = read_new_mapping,
    .run = run_put_mapping,
    .done = write_mapping,
};

/* --- DELETE --- */

static enum df_code run_remove_mapping(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct call *c = (struct call *)w;
    int64_t removed = 0;
    enum df_code code = find_client(db, c, err);

    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(mapping_remove, .client = df_uuid(df_uuid_str(&c->client))),
                          &removed, err);
    if (code == DF_OK && removed == 0)
        return df_err_set(err, DF_E_NOT_FOUND, "The client keeps no mapping.");
    return code == DF_OK ? tell_audit(db, c, "ImportMappingRemoved", err) : code;
}

static const struct df_handler remove_kept = {
    .size = sizeof(struct call),
    .writes = true,
    .status = 204,
    .prepare = read_mapping_client,
    .run = run_remove_mapping,
};

#define OWNER(m, kind, role, h)                                                                    \
    DF_ROUTE(m, "/clients/{clientId}/mapping", kind, DF_ACCESS_OWNER, role, h)

const struct df_route df_imports_mapping_routes[] = {
    OWNER("GET", DF_BODY_NONE, NULL, get),
    OWNER("PUT", DF_BODY_JSON, DF_NEEDS_OPERATE, put),
    OWNER("DELETE", DF_BODY_NONE, DF_NEEDS_OPERATE, remove_kept),
    {.method = NULL},
};
