#include "retention/batches.h"

#include "retention/batches.sql.h"
#include "store/rows.h"

#include <stdio.h>

#define STEP_ROWS  300
#define STEP_BYTES (INT64_C(1) << 20)

struct batch_step {
    struct df_job job;
    const struct df_remove_options *opt;
    const struct df_uuid *batch;
    struct df_removed removed; /* by this step */
    bool found, marked, over;
    bool files_next; /* no row is left but the batch's own */
    char location[DF_STORAGE_LOCATION_MAX + 1];
};

static struct df_value batch_id(const struct batch_step *s)
{
    return df_uuid(df_uuid_str(s->batch));
}

static struct df_value step_rows(const struct batch_step *s)
{
    return df_int(s->opt->step_rows > 0 ? s->opt->step_rows : STEP_ROWS);
}

static void read_batch(void *arg, struct df_result *r)
{
    struct batch_step *s = arg;

    s->marked = !df_col_null(r, remove_batch_find_RemovingAt);
    s->over = df_col_int(r, remove_batch_find_Status) >= 3;
    (void)snprintf(s->location, sizeof s->location, DF_STR_FMT,
                   DF_STR_ARG(df_col_text(r, remove_batch_find_UploadPath)));
}

static enum df_code mark_batch(struct df_db *db, struct batch_step *s, struct df_err *err)
{
    int64_t affected = 0;
    enum df_code code = df_db_exec(db,
                                   DF_Q(remove_batch_mark, .id = batch_id(s),
                                        .now = df_time(df_wall_ms(s->opt->clock)),
                                        .keep_given_up = df_int(s->opt->keep_given_up ? 1 : 0)),
                                   &affected, err);

    if (code != DF_OK || affected > 0)
        return code;
    return df_err_set(err, DF_E_CONFLICT,
                      s->over ? "Events of the batch are on their way, or wait for a person."
                              : "The batch is not over.");
}

/* Deliveries are removed with their attempts and failures. A row that still waits was written after
 * the mark, by a replay: it goes too. */
static enum df_code remove_deliveries(struct df_db *db, struct batch_step *s, int64_t *ret,
                                      struct df_err *err)
{
    struct df_removed *n = &s->removed;
    struct df_value id = batch_id(s), limit = step_rows(s);
    enum df_code code =
        df_db_exec(db, DF_Q(remove_batch_attempts, .id = id, .limit = limit), &n->attempts, err);

    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(remove_batch_failures, .id = id, .limit = limit), &n->failures,
                          err);
    if (code == DF_OK)
        code = df_db_exec(db, DF_Q(remove_batch_deliveries, .id = id, .limit = limit),
                          &n->deliveries, err);
    *ret = n->deliveries;
    return code;
}

/* As many of a step's rows as may go at once. */
static enum df_code fitting_rows(struct df_db *db, const struct batch_step *s,
                                 const struct df_query *sizes, struct df_value *limit,
                                 struct df_err *err)
{
    int64_t rows = 0;
    enum df_code code = df_rows_fit(db, DF_ANY(sizes, {"id", batch_id(s)}, {"limit", *limit}),
                                    STEP_BYTES, &rows, err);

    *limit = df_int(rows);
    return code;
}

/* Removes a portion of the first part that still has rows. */
static enum df_code remove_rows(struct df_db *db, struct batch_step *s, struct df_err *err)
{
    const struct {
        const struct df_query *query, *sizes; /* NULL: its rows are small */
        int64_t *removed;
    } parts[] = {
        {&df_q_remove_batch_items, &df_q_remove_batch_item_sizes, &s->removed.items},
        {&df_q_remove_batch_chunks, NULL, &s->removed.chunks},
        {&df_q_remove_batch_early, NULL, NULL},
        {&df_q_remove_batch_kept, &df_q_remove_batch_kept_sizes, &s->removed.kept},
        {&df_q_remove_batch_subjects, NULL, NULL},
        {&df_q_remove_batch_named, NULL, NULL},
    };
    int64_t affected = 0;

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        struct df_value limit = step_rows(s);
        enum df_code code = DF_OK;
        if (parts[i].sizes)
            code = fitting_rows(db, s, parts[i].sizes, &limit, err);
        if (code == DF_OK)
            code = df_db_exec(db, DF_ANY(parts[i].query, {"id", batch_id(s)}, {"limit", limit}),
                              &affected, err);
        if (parts[i].removed)
            *parts[i].removed = affected;
        if (code != DF_OK || affected > 0)
            return code;
    }
    enum df_code code = remove_deliveries(db, s, &affected, err);
    s->files_next = code == DF_OK && affected == 0;
    return code;
}

static enum df_code run_step(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct batch_step *s = (struct batch_step *)job;

    s->removed = (struct df_removed){0};
    s->files_next = false;
    enum df_code code =
        df_db_one(db, DF_Q(remove_batch_find, .id = batch_id(s)), read_batch, s, &s->found, err);
    if (code != DF_OK)
        return code;
    if (!s->found)
        return df_err_set(err, DF_E_NOT_FOUND, "There is no such batch.");
    return s->marked ? remove_rows(db, s, err) : mark_batch(db, s, err);
}

static enum df_code run_last(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct batch_step *s = (struct batch_step *)job;

    return df_db_exec(db, DF_Q(remove_batch_row, .id = batch_id(s)), &s->removed.batches, err);
}

/* Files first, then the row that knows where they are. */
static enum df_code remove_last(struct batch_step *s, struct df_err *err)
{
    bool had_files = s->location[0] != '\0';
    enum df_code code = df_storage_remove(s->opt->storage, s->batch, s->location, err);

    if (code != DF_OK)
        return code;
    s->job = (struct df_job){.run = run_last};
    code = df_store_write_wait(s->opt->store, &s->job, err);
    s->removed.files = code == DF_OK && s->removed.batches > 0 && had_files ? 1 : 0;
    return code;
}

static void add_removed(struct df_removed *sum, const struct df_removed *n)
{
    sum->batches += n->batches;
    sum->items += n->items;
    sum->chunks += n->chunks;
    sum->kept += n->kept;
    sum->deliveries += n->deliveries;
    sum->attempts += n->attempts;
    sum->failures += n->failures;
    sum->files += n->files;
}

enum df_code df_batch_remove_step(const struct df_remove_options *opt, const struct df_uuid *batch,
                                  struct df_removed *counts, bool *ret_done, struct df_err *err)
{
    struct batch_step s = {.job = {.run = run_step}, .opt = opt, .batch = batch};
    enum df_code code = df_store_write_wait(opt->store, &s.job, err);

    *ret_done = false;
    if (code == DF_OK && s.files_next) {
        code = remove_last(&s, err);
        *ret_done = code == DF_OK;
    }
    if (code == DF_OK)
        add_removed(counts, &s.removed);
    return code;
}
