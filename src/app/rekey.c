#include "app/rekey.h"

#include "app/rekey.sql.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "imports/kept.h"
#include "keys/data_keys.h"
#include "webhooks/subscriptions.h"

#include <stdlib.h>

#define LOOK_MS   1000           /* whether a pass is due */
#define SETTLE_MS 30000          /* until every process uses the new key */
#define PASS_MS   (60 * 60000LL) /* between passes that found nothing */
#define LEAST_MS  5              /* pause after a step */
#define AT_ONCE   50             /* scheduled batches read at a time */

enum stage { REST, SECRETS, PAYLOADS, FILES, SCHEDULED };

struct df_rekey {
    struct df_rekey_options opt;
    struct df_loop loop;
    enum stage stage;
    uint32_t key;         /* the pass brings everything under it; 0: there was none */
    int64_t key_since_ms; /* when this process changed to it; this and the next by the wall clock */
    int64_t began_ms;     /* the pass */
    int64_t next_pass_ms;
    struct df_reseal secrets;
    struct df_kept_rekey payloads;
    struct df_uuid *batches; /* with files here */
    size_t batch_count, batch_at;
    struct df_uuid after; /* the last scheduled batch looked at */
    size_t changed, left; /* left: another process is at it, or it failed for now */
    size_t lost;          /* does not open */
    uint32_t lost_key;
};

DF_METRIC_FAMILY(reencrypted_total) = {
    .name = "dataflow_reencrypted_total",
    .help = "Secrets, payloads and files that were encrypted anew, by kind.",
    .type = DF_COUNTER,
    .labels = {"kind"},
};
DF_METRIC_FAMILY(data_key) = {
    .name = "dataflow_data_key",
    .help = "The id of the data key in use.",
    .type = DF_GAUGE,
};
DF_METRIC_FAMILY(lost_rows) = {
    .name = "dataflow_data_key_lost",
    .help = "Secrets, payloads and files that no key opens, as the last pass found them.",
    .type = DF_GAUGE,
};

static void count_changed(struct df_rekey *r, struct df_str kind, size_t n)
{
    r->changed += n;
    df_metric_add(df_metric_get(&reencrypted_total, &kind), (double)n);
}

/* --- the stages: each does one step, and tells whether it was the last --- */

static enum df_code step_secrets(struct df_rekey *r, bool *done, struct df_err *err)
{
    size_t before = r->secrets.changed;
    enum df_code code = df_subscriptions_reseal(r->opt.store, r->opt.keys, &r->secrets, err);

    if (code != DF_OK)
        return code;
    count_changed(r, DF_STR("secret"), r->secrets.changed - before);
    *done = r->secrets.done;
    if (*done && r->secrets.lost > 0) {
        r->lost += r->secrets.lost;
        r->lost_key = r->secrets.lost_key;
    }
    return DF_OK;
}

static enum df_code step_payloads(struct df_rekey *r, bool *done, struct df_err *err)
{
    size_t before = r->payloads.changed;
    enum df_code code = df_kept_rekey(r->opt.store, r->opt.keys, &r->payloads, err);

    if (code != DF_OK)
        return code;
    count_changed(r, DF_STR("payload"), r->payloads.changed - before);
    *done = r->payloads.done;
    if (*done && r->payloads.lost > 0) {
        r->lost += r->payloads.lost;
        r->lost_key = r->payloads.lost_key;
    }
    return DF_OK;
}

/* What became of one file. Trouble with one keeps nobody from going on with the next. */
static enum df_code judge_file(struct df_rekey *r, const struct df_uuid *batch, enum df_code code,
                               const struct df_rekeyed *found, const struct df_err *why,
                               struct df_err *err)
{
    if (code == DF_E_CANCELLED)
        return df_err_set(err, code, "%s", why->detail);
    if (code == DF_OK) {
        count_changed(r, DF_STR("file"), found->changed);
    } else if (code == DF_E_CONFIG || code == DF_E_INTERNAL) {
        r->lost++;
        r->lost_key = found->data_key;
    } else if (code != DF_E_NOT_FOUND) {
        r->left++;
        if (code != DF_E_BUSY)
            df_log_warn("FileNotReencrypted", "the file of batch %s: %s", batch->text, why->detail);
    }
    return DF_OK;
}

static enum df_code step_files(struct df_rekey *r, bool *done, struct df_err *err)
{
    struct df_rekeyed found = {0};
    struct df_err why = DF_ERR_INIT;

    *done = r->batch_at == r->batch_count;
    if (*done)
        return DF_OK;
    const struct df_uuid *batch = &r->batches[r->batch_at++];
    enum df_code code = df_storage_rekey(r->opt.storage, batch, false, &found, &why);
    return judge_file(r, batch, code, &found, &why, err);
}

struct scheduled {
    struct df_job job;
    struct df_uuid after; /* or the batch that is asked for */
    size_t count;
    struct {
        struct df_uuid batch;
        char location[DF_STORAGE_LOCATION_MAX + 1];
    } at[AT_ONCE];
};

static void copy_location(struct df_str from, char to[DF_STORAGE_LOCATION_MAX + 1])
{
    size_t len = from.len <= DF_STORAGE_LOCATION_MAX ? from.len : 0;

    if (len > 0)
        memcpy(to, from.ptr, len);
    to[len] = '\0';
}

static void read_scheduled(void *arg, struct df_result *r)
{
    struct scheduled *s = arg;

    if (!df_uuid_parse(df_col_text(r, rekey_scheduled_Id), &s->at[s->count].batch))
        return;
    copy_location(df_col_text(r, rekey_scheduled_UploadPath), s->at[s->count].location);
    s->count++;
}

static enum df_code list_scheduled(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct scheduled *s = (struct scheduled *)job;

    s->count = 0;
    return df_db_each(
        db,
        DF_Q(rekey_scheduled, .after = df_uuid(df_uuid_str(&s->after)), .limit = df_int(AT_ONCE)),
        read_scheduled, s, err);
}

static void read_location(void *arg, struct df_result *r)
{
    copy_location(df_col_text(r, rekey_location_UploadPath),
                  ((struct scheduled *)arg)->at[0].location);
}

static enum df_code find_location(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct scheduled *s = (struct scheduled *)job;
    bool found;

    s->at[0].location[0] = '\0';
    return df_db_one(db, DF_Q(rekey_location, .id = df_uuid(df_uuid_str(&s->after))), read_location,
                     s, &found, err);
}

/* An object that was put anew while its batch left the outside storage would stay there for ever.
 */
static enum df_code remove_if_gone(struct df_rekey *r, const struct df_uuid *batch,
                                   const char *location, struct df_err *err)
{
    struct scheduled now = {.job.run = find_location, .after = *batch};
    enum df_code code = df_store_read_wait(r->opt.store, &now.job, err);

    if (code == DF_OK && strcmp(now.at[0].location, location) != 0)
        code = df_storage_remove_object(r->opt.storage, batch, location, err);
    return code;
}

static enum df_code step_scheduled(struct df_rekey *r, bool *done, struct df_err *err)
{
    struct scheduled s = {.job.run = list_scheduled, .after = r->after};
    enum df_code code = DF_OK;

    *done = !df_storage_has_remote(r->opt.storage);
    if (!*done)
        code = df_store_read_wait(r->opt.store, &s.job, err);
    for (size_t i = 0; code == DF_OK && i < s.count; i++) {
        struct df_rekeyed found = {0};
        struct df_err why = DF_ERR_INIT;
        enum df_code one = df_storage_rekey_scheduled(r->opt.storage, &s.at[i].batch,
                                                      s.at[i].location, false, &found, &why);
        if (one == DF_OK && found.changed)
            one = remove_if_gone(r, &s.at[i].batch, s.at[i].location, &why);
        code = judge_file(r, &s.at[i].batch, one, &found, &why, err);
        r->after = s.at[i].batch;
    }
    *done |= s.count < AT_ONCE;
    return code;
}

/* --- passes --- */

static void add_batch(void *arg, const struct df_storage_entry *e)
{
    struct df_rekey *r = arg;

    r->batches = df_realloc(r->batches, (r->batch_count + 1) * sizeof *r->batches);
    r->batches[r->batch_count++] = e->batch;
}

static enum df_code begin_pass(struct df_rekey *r, struct df_err *err)
{
    uint32_t current = df_keys_current(r->opt.keys);

    r->began_ms = df_wall_ms(r->opt.clock);
    if (r->key != current)
        r->key_since_ms = r->began_ms;
    r->key = current;
    df_metric_set(df_metric_get(&data_key, NULL), current);
    r->changed = r->left = r->lost = 0;
    r->batch_count = r->batch_at = 0;
    df_reseal_begin(&r->secrets);
    r->payloads = (struct df_kept_rekey){.done = false};
    r->after = r->secrets.after;
    r->stage = r->opt.files_only ? FILES : SECRETS;
    return df_storage_each(r->opt.storage, add_batch, r, err);
}

static enum df_code retire_keys(struct df_rekey *r, struct df_err *err)
{
    int64_t retired = 0;
    enum df_code code = df_data_keys_retire(r->opt.store, r->key, r->began_ms, &retired, err);

    if (code == DF_OK && retired > 0)
        df_log_info("DataKeyRetired", "nothing is left under the data keys before %u",
                    (unsigned)r->key);
    return code;
}

static enum df_code end_pass(struct df_rekey *r, struct df_err *err)
{
    bool settled = r->began_ms - r->key_since_ms >= SETTLE_MS;
    enum df_code code = DF_OK;

    if (r->changed > 0)
        df_log_info("DataReencrypted", "%zu secrets, payloads and files are under data key %u now",
                    r->changed, (unsigned)r->key);
    if (r->lost > 0)
        df_log_error("DataKeyLost",
                     "%zu secrets, payloads and files do not open; one of them is under data key "
                     "%u. Restore "
                     "DataKeys from a backup (docs/keys.md)",
                     r->lost, (unsigned)r->lost_key);
    df_metric_set(df_metric_get(&lost_rows, NULL), (double)r->lost);
    if (!r->opt.files_only && settled && r->changed + r->left + r->lost == 0)
        code = retire_keys(r, err);
    r->stage = REST;
    r->next_pass_ms =
        df_wall_ms(r->opt.clock) + (settled && r->changed + r->left == 0 ? PASS_MS : SETTLE_MS);
    return code;
}

static bool pass_is_due(const struct df_rekey *r)
{
    return r->key != df_keys_current(r->opt.keys) || df_wall_ms(r->opt.clock) >= r->next_pass_ms;
}

static enum df_code step_pass(struct df_rekey *r, struct df_err *err)
{
    bool done = false;
    enum df_code code = DF_OK;

    switch (r->stage) {
    case REST:
        return begin_pass(r, err);
    case SECRETS:
        code = step_secrets(r, &done, err);
        break;
    case PAYLOADS:
        code = step_payloads(r, &done, err);
        break;
    case FILES:
        code = step_files(r, &done, err);
        break;
    case SCHEDULED:
        code = step_scheduled(r, &done, err);
        break;
    }
    if (code != DF_OK || !done)
        return code;
    bool last = r->stage == SCHEDULED || (r->stage == FILES && r->opt.files_only);
    if (last)
        return end_pass(r, err);
    r->stage++;
    return DF_OK;
}

/* The pause is as long as the step was. */
static int64_t take_step(void *arg)
{
    struct df_rekey *r = arg;
    struct df_err err = DF_ERR_INIT;
    int64_t began_ms = df_mono_ms(df_clock_real());

    if (r->stage == REST && !pass_is_due(r))
        return LOOK_MS;
    enum df_code code = step_pass(r, &err);
    if (code != DF_OK) {
        if (code != DF_E_CANCELLED)
            df_log_warn("ReencryptionFailed", "%s", err.detail);
        return DF_LOOP_FAILED;
    }
    int64_t took_ms = df_mono_ms(df_clock_real()) - began_ms;
    return took_ms > LEAST_MS ? took_ms : LEAST_MS;
}

struct df_rekey *df_rekey_new(const struct df_rekey_options *opt)
{
    struct df_rekey *r = df_calloc(1, sizeof *r);

    r->opt = *opt;
    df_loop_start(&r->loop, &(struct df_loop_options){.name = "rekey",
                                                      .clock = opt->clock,
                                                      .backoff_min_ms = 1000,
                                                      .backoff_max_ms = 60000,
                                                      .first_ms = LOOK_MS,
                                                      .turn = take_step,
                                                      .arg = r});
    return r;
}

void df_rekey_stop(struct df_rekey *r)
{
    if (r)
        df_loop_stop(&r->loop);
}

void df_rekey_free(struct df_rekey *r)
{
    if (!r)
        return;
    df_loop_release(&r->loop);
    free(r->batches);
    free(r);
}

/* --- counting --- */

struct counting {
    struct df_storage *storage;
    struct df_key_uses *uses;
};

static void count_file(void *arg, const struct df_storage_entry *e)
{
    const struct counting *c = arg;
    struct df_rekeyed found = {0};
    struct df_err ignored = DF_ERR_INIT;

    if (df_storage_rekey(c->storage, &e->batch, true, &found, &ignored) == DF_OK)
        df_key_uses_of(c->uses, found.data_key)->files++;
}

enum df_code df_rekey_count(struct df_db *db, struct df_storage *st, struct df_key_uses *uses,
                            struct df_err *err)
{
    struct counting c = {.storage = st, .uses = uses};
    struct df_reseal none;
    enum df_code code = df_storage_each(st, count_file, &c, err);
    struct scheduled s;

    df_reseal_begin(&none);
    s.after = none.after;
    s.count = df_storage_has_remote(st) ? AT_ONCE : 0;
    while (code == DF_OK && s.count == AT_ONCE) {
        code = list_scheduled(db, &s.job, err);
        for (size_t i = 0; code == DF_OK && i < s.count; i++) {
            struct df_rekeyed found = {0};
            struct df_err ignored = DF_ERR_INIT;
            if (df_storage_rekey_scheduled(st, &s.at[i].batch, s.at[i].location, true, &found,
                                           &ignored) == DF_OK)
                df_key_uses_of(uses, found.data_key)->files++;
            s.after = s.at[i].batch;
        }
    }
    return code;
}
