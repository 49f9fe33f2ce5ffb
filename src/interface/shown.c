#include "interface/shown.h"

#include "interface/shown.sql.h"

#define ROOM_MIN ((int64_t)8 << 20)

int64_t df_shown_room(const struct df_interface_options *opt)
{
    int64_t room = opt->max_body_bytes * 4;
    return room > ROOM_MIN ? room : ROOM_MIN;
}

size_t df_shown_answer_max(const struct df_interface_options *opt)
{
    /* The columns of a thousand addresses fit into 8 MiB. */
    return (size_t)df_shown_room(opt) * 2 + ((size_t)8 << 20);
}

struct fetching {
    struct df_req *req;
    int64_t *room;
    struct df_shown *ret;
    bool no_memory;
};

static void read_shown(void *arg, struct df_result *r)
{
    struct fetching *f = arg;
    struct df_arena *a = df_req_arena(f->req);
    struct df_str callback = df_col_text(r, shown_Callback);

    f->ret->raw = df_arena_str(a, df_col_text(r, shown_Raw));
    *f->room -= (int64_t)f->ret->raw.len;
    if ((int64_t)callback.len <= *f->room)
        f->ret->callback = df_arena_str(a, callback);
    *f->room -= (int64_t)f->ret->callback.len;
    f->no_memory = !df_account_take(df_req_account(f->req), f->ret->raw.len + f->ret->callback.len);
}

static enum df_code fetch_payloads(struct df_db *db, const struct df_query *q, int64_t id,
                                   int64_t *room, struct df_req *req, struct df_shown *ret,
                                   struct df_err *err)
{
    struct fetching f = {.req = req, .room = room, .ret = ret};

    *ret = (struct df_shown){0};
    enum df_code code =
        df_db_each(db, DF_ANY(q, {"room", df_int(*room)}, {"id", df_int(id)}), read_shown, &f, err);
    if (code == DF_OK && f.no_memory)
        code = df_err_set(err, DF_E_BUSY, "There is no memory for this answer now.");
    return code;
}

enum df_code df_shown_ticket(struct df_db *db, int64_t id, int64_t *room, struct df_req *req,
                             struct df_shown *ret, struct df_err *err)
{
    return fetch_payloads(db, &df_q_shown_ticket, id, room, req, ret, err);
}

enum df_code df_shown_counterparty(struct df_db *db, int64_t id, int64_t *room, struct df_req *req,
                                   struct df_shown *ret, struct df_err *err)
{
    return fetch_payloads(db, &df_q_shown_counterparty, id, room, req, ret, err);
}
