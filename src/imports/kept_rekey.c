#include "imports/kept.h"
#include "imports/kept_rekey.sql.h"
#include "keys/keys.h"
#include "store/store.h"

#define AT_ONCE 20 /* records in one transaction; each may have some MiB */

struct kept_row {
    struct df_uuid batch;
    int64_t sequence;
    struct df_str sealed;
};

/* One page. The job may run more than once; it sets `next` afresh. */
struct kept_page {
    struct df_job job;
    struct df_keys *keys;
    struct df_arena arena;
    const struct df_kept_rekey *from;
    struct df_kept_rekey next;
    struct kept_row rows[AT_ONCE];
    size_t found;
};

static void read_kept(void *arg, struct df_result *r)
{
    struct kept_page *p = arg;
    struct kept_row *row = &p->rows[p->found++];

    *row = (struct kept_row){
        .sequence = df_col_int(r, kept_older_Sequence),
        .sealed = df_arena_str(&p->arena, df_col_blob(r, kept_older_Sealed)),
    };
    (void)df_uuid_parse(df_col_text(r, kept_older_BatchId), &row->batch);
}

static enum df_code reseal_kept(struct df_db *db, struct kept_page *p, const struct kept_row *row,
                                struct df_err *err)
{
    struct import_kept kept;
    struct df_err why = DF_ERR_INIT;
    struct df_buf sealed;
    int64_t affected = 0;

    if (import_kept_open(p->keys, &row->batch, row->sequence, row->sealed, &p->arena, &kept,
                         &why) != DF_OK) {
        p->next.lost++;
        p->next.lost_key = df_sealed_key(row->sealed);
        return DF_OK;
    }
    df_buf_init(&sealed, row->sealed.len + DF_SEALED_EXTRA);
    import_kept_seal(p->keys, &row->batch, row->sequence, &kept, &sealed);
    enum df_code code = df_db_exec(
        db,
        DF_Q(kept_reseal, .key = df_int(df_sealed_key(df_buf_str(&sealed))),
             .sealed = df_blob(df_buf_str(&sealed)), .id = df_uuid(df_uuid_str(&row->batch)),
             .sequence = df_int(row->sequence), .before = df_blob(row->sealed)),
        &affected, err);
    df_buf_release(&sealed);
    p->next.changed += affected > 0;
    return code;
}

static enum df_code run_kept_page(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct kept_page *p = (struct kept_page *)job;

    df_arena_reset(&p->arena);
    p->found = 0;
    p->next = *p->from;
    enum df_code code =
        df_db_each(db,
                   DF_Q(kept_older, .current = df_int(df_keys_current(p->keys)),
                        .limit = df_int(AT_ONCE), .lost = df_int((int64_t)p->from->lost)),
                   read_kept, p, err);
    for (size_t i = 0; code == DF_OK && i < p->found; i++)
        code = reseal_kept(db, p, &p->rows[i], err);
    p->next.done = p->found < AT_ONCE;
    return code;
}

enum df_code df_kept_rekey(struct df_store *store, struct df_keys *keys, struct df_kept_rekey *r,
                           struct df_err *err)
{
    struct kept_page p = {.job.run = run_kept_page, .keys = keys, .from = r};
    enum df_code code = df_store_write_wait(store, &p.job, err);

    df_arena_release(&p.arena);
    if (code == DF_OK)
        *r = p.next;
    return code;
}
