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
    /* Columns of a thousand addresses are less than the rest. */
    return (size_t)df_shown_room(opt) * 2 + ((size_t)8 << 20);
}

static enum df_code fetch(struct df_db *db, const struct df_query *q, int64_t id, int64_t *room,
                          struct df_req *req, struct df_shown *ret, struct df_err *err)
{
    struct df_arena *a = df_req_arena(req);
    struct df_result *r = NULL;

    *ret = (struct df_shown){0};
    enum df_code code = df_db_query(db, q, DF_PARAMS(df_int(*room), df_int(id)), &r, err);
    if (code != DF_OK)
        return code;
    code = df_result_step(r, err);
    if (code == DF_ROW) {
        ret->raw = df_arena_str(a, df_col_text(r, 0));
        *room -= (int64_t)ret->raw.len;
        if ((int64_t)df_col_text(r, 1).len <= *room)
            ret->callback = df_arena_str(a, df_col_text(r, 1));
        *room -= (int64_t)ret->callback.len;
        code = df_account_take(df_req_account(req), ret->raw.len + ret->callback.len)
                   ? DF_OK
                   : df_err_set(err, DF_E_BUSY, "There is no memory for this answer now.");
    }
    df_result_free(r);
    return code == DF_DONE ? DF_OK : code;
}

enum df_code df_shown_ticket(struct df_db *db, int64_t id, int64_t *room, struct df_req *req,
                             struct df_shown *ret, struct df_err *err)
{
    return fetch(db, &df_q_shown_ticket, id, room, req, ret, err);
}

enum df_code df_shown_counterparty(struct df_db *db, int64_t id, int64_t *room, struct df_req *req,
                                   struct df_shown *ret, struct df_err *err)
{
    return fetch(db, &df_q_shown_counterparty, id, room, req, ret, err);
}
