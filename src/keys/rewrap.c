/*
 * A master in a vault has versions. A rotation wraps the new data key with the newest one; here the
 * older keys follow, so that the vault may then do without older versions. Several processes may do
 * it at once: a row that another has changed is left alone.
 */
#include "keys/data_keys.h"

#include "base/log.h"
#include "keys/data_keys.sql.h"

static enum df_code rewrap_row(struct df_data_keys *d, struct df_store *store,
                               const struct df_data_key *k, struct df_buf *wrapped,
                               struct df_err *err)
{
    unsigned char key[DF_KEY_BYTES];
    char text[DF_KEY_LABEL_MAX];
    struct df_str label = df_data_key_label(k->purpose, k->id, text);

    df_buf_reset(wrapped);
    enum df_code code = d->master->ops->unwrap(d->master, label, k->wrapped, key, err);
    if (code == DF_OK)
        code = df_wrap_surely(d->master, label, key, wrapped, err);
    df_wipe(key, sizeof key);
    if (code != DF_OK)
        return code;
    struct df_job job = {.query = &df_q_data_key_renew,
                         .params = DF_ROW(data_key_renew, .wrapped = df_blob(df_buf_str(wrapped)),
                                          .id = df_int(k->id), .before = df_blob(k->wrapped))};
    code = df_store_write_wait(store, &job, err);
    if (code == DF_OK && job.affected > 0)
        df_log_info("DataKeyRewrapped", "key %u is under the master's newest version",
                    (unsigned)k->id);
    return code;
}

static const struct df_data_key *newest_of(const struct df_data_key *keys)
{
    const struct df_data_key *newest = NULL;

    for (const struct df_data_key *k = keys; k; k = k->next)
        if (df_str_eq(k->purpose, DF_STR("data")))
            newest = k;
    return newest;
}

enum df_code df_data_keys_rewrap(struct df_data_keys *d, struct df_store *store,
                                 const struct df_data_key *keys, struct df_err *err)
{
    struct df_str (*version)(struct df_str) = d->master->ops->version;
    const struct df_data_key *newest = newest_of(keys);
    enum df_code code = DF_OK;
    bool even_newer = false;
    struct df_buf wrapped;

    if (!version || !newest)
        return DF_OK;
    df_buf_init(&wrapped, DF_WRAPPED_MAX);
    for (const struct df_data_key *k = keys; k && code == DF_OK; k = k->next) {
        if (!df_str_eq(k->master_id, newest->master_id) ||
            df_str_eq(version(k->wrapped), version(newest->wrapped)))
            continue;
        code = rewrap_row(d, store, k, &wrapped, err);
        even_newer =
            code == DF_OK && !df_str_eq(version(df_buf_str(&wrapped)), version(newest->wrapped));
    }
    /* The vault had a version more: without this the others would be wrapped again and again. */
    if (code == DF_OK && even_newer)
        code = rewrap_row(d, store, newest, &wrapped, err);
    df_buf_release(&wrapped);
    return code;
}
