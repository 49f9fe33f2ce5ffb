#include "imports/kept.h"

#include "app/app.h"

static enum df_code open_kept(struct df_keys *keys, struct df_str batch, int64_t sequence,
                              struct df_str sealed, struct df_arena *a, struct df_str *ret_record,
                              struct df_str *ret_item, struct df_err *err)
{
    struct import_kept kept = {.record = DF_STR_NULL};
    struct df_uuid id;

    if (!df_uuid_parse(batch, &id))
        return df_err_set(err, DF_E_INTERNAL, "a batch has no id");
    enum df_code code = import_kept_open(keys, &id, sequence, sealed, a, &kept, err);
    *ret_record = kept.record;
    *ret_item = kept.item;
    return code;
}

struct df_subject_kept df_app_kept = {.open = open_kept};
