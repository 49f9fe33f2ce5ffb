#include "access/reveal.h"

#include "access/audit.h"
#include "access/auth.h"

bool df_reveal_read(struct df_work *w, struct df_input *in, const struct df_handler *revealing,
                    bool *ret)
{
    struct df_str text = df_input_filter(w->req, "reveal");
    const struct df_admin *admin = df_auth_admin(w->req);

    *ret = false;
    if (text.ptr && !df_str_to_bool(text, ret))
        df_input_error(in, "reveal", "must be true or false");
    if (!*ret)
        return true;
    if (!admin || admin->role < DF_ADMIN_OPERATE) {
        df_req_fail(w->req, DF_E_ROLE_MISSING, "To see a payload unmasked, \"%s\" is needed.",
                    DF_NEEDS_OPERATE);
        return false;
    }
    df_work_become(w, revealing);
    return true;
}

enum df_code df_reveal_audit(struct df_db *db, const struct df_work *w, struct df_str target,
                             struct df_err *err)
{
    struct df_actor by = df_actor_of(w->req);

    return df_audit_write(db, &by, "PayloadRevealed", target, DF_STR_NULL, DF_STR_NULL, w->now_ms,
                          err);
}
