#include "interface/owners.h"

#include "access/auth.h"

#include <assert.h>

struct df_reach df_reach_of(const struct df_req *req)
{
    const struct df_client *c = df_auth_client(req);

    assert(c);
    return (struct df_reach){.client_id = df_uuid_str(&c->id),
                             .all = (c->scopes & DF_SCOPE_INTERFACE_ALL) != 0};
}

bool df_reach_has(const struct df_reach *r, struct df_str owner)
{
    return r->all || (owner.ptr && df_str_ieq(owner, r->client_id));
}

struct df_value df_reach_client(const struct df_reach *r)
{
    return df_uuid(r->client_id);
}

struct df_value df_reach_all(const struct df_reach *r)
{
    return df_int(r->all ? 1 : 0);
}

enum df_code df_reach_refuse(struct df_err *err, const char *what)
{
    return df_err_set(err, DF_E_ANOTHER_CLIENT, "There is a %s with this key of another client.",
                      what);
}
