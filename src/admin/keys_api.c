/* /admin/keys: what is under which key, and rotation. */
#include "access/audit.h"
#include "access/handler.h"
#include "admin/admin.h"
#include "keys/key_use.h"
#include "keys/key_watch.h"

/* --- GET /admin/keys --- */

static enum df_code run_list(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct df_key_uses uses = {.arena = df_req_arena(w->req)};
    struct df_data_key *keys;
    enum df_code code = df_data_keys_read(db, uses.arena, &keys, err);

    if (code == DF_OK)
        code = df_key_uses_count(db, &uses, err);
    if (code == DF_OK)
        df_key_uses_json(&uses, keys, w->now_ms, false, &w->json);
    return code;
}

static const struct df_handler list_keys = {.run = run_list};

/* --- POST /admin/keys/rotate --- */

struct rotation {
    struct df_work w;
    struct df_draw draw;
};

static void key_drawn(struct df_draw *d, enum df_code code, const struct df_err *err)
{
    struct rotation *r = (struct rotation *)((char *)d - offsetof(struct rotation, draw));

    if (code == DF_OK)
        df_work_submit(&r->w);
    else
        df_work_fail(&r->w, code, "%s", err->detail);
}

static void draw_first(struct df_work *w)
{
    struct rotation *r = (struct rotation *)w;

    r->draw.done = key_drawn;
    if (!df_key_watch_draw(w->arg, &r->draw))
        df_work_fail(w, DF_E_BUSY, "keys are being made already");
}

static enum df_code run_rotate(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct rotation *r = (const struct rotation *)w;
    struct df_actor by = df_actor_of(w->req);
    struct df_str target =
        df_arena_printf(df_req_arena(w->req), "data key %u", (unsigned)r->draw.key.id);
    enum df_code code = df_key_watch_add(w->arg, db, &r->draw.key, w->now_ms, err);

    if (code == DF_OK)
        code =
            df_audit_write(db, &by, "KeyRotated", target, DF_STR_NULL, DF_STR_NULL, w->now_ms, err);
    if (code != DF_OK)
        return code;
    df_json_open(&w->json, '{');
    df_json_kv_int(&w->json, "id", r->draw.key.id);
    df_json_kv_time(&w->json, "activeAt", w->now_ms + DF_KEY_ACTIVATION_MS);
    df_json_close(&w->json, '}');
    return DF_OK;
}

static void rotated(struct df_work *w)
{
    const struct rotation *r = (const struct rotation *)w;

    df_log_info("KeyRotated", "data key %u was made, and is used in %d s", (unsigned)r->draw.key.id,
                DF_KEY_ACTIVATION_MS / 1000);
    df_key_watch_wake(w->arg);
}

static const struct df_handler rotate_key = {
    .size = sizeof(struct rotation),
    .writes = true,
    .status = 202,
    .first = draw_first,
    .run = run_rotate,
    .done = rotated,
};

const struct df_route df_key_routes[] = {
    DF_ROUTE("GET", "/admin/keys", DF_BODY_NONE, DF_ACCESS_ADMIN, NULL, list_keys),
    DF_ROUTE("POST", "/admin/keys/rotate", DF_BODY_NONE, DF_ACCESS_ADMIN, NULL, rotate_key),
    {.method = NULL},
};
