/* Which rows a filter means, and what a person decides about them: one, or many in steps. */
#include "admin/outbox.h"
#include "base/cause.h"
#include "net/url.h"
#include "store/rows.h"

#include <stdio.h>

/* --- filters --- */

struct df_str df_outbox_target_name(struct df_str target)
{
    for (size_t i = 0; i < target.len; i++)
        if (target.ptr[i] == '?' || target.ptr[i] == '#')
            return df_str_n(target.ptr, i);
    return target;
}

/* What follows the host in a URL. */
static struct df_str path_of(struct df_str url)
{
    size_t at = 0;

    while (at + 2 < url.len && memcmp(url.ptr + at, "://", 3) != 0)
        at++;
    for (at += 3; at < url.len && url.ptr[at] != '/';)
        at++;
    return at < url.len ? df_str_n(url.ptr + at, url.len - at) : DF_STR("/");
}

/* Whether the target is the URL of the channel itself, however its host is written. */
static bool is_own(const struct df_channel *c, struct df_str target)
{
    char ours[DF_DESTINATION_SIZE], theirs[DF_DESTINATION_SIZE], url[4 * DF_OUTBOX_TARGET_MAX + 1];

    if (!c->own_target || !target.ptr || target.len >= sizeof url)
        return false;
    struct df_str own = df_outbox_target_name(df_str_c(c->own_target));
    if (df_str_eq(own, target))
        return true;
    snprintf(url, sizeof url, DF_STR_FMT, DF_STR_ARG(target));
    return df_str_eq(path_of(own), path_of(target)) &&
           df_str_eq(df_destination_of(c->own_target, ours), df_destination_of(url, theirs));
}

/* Adds text to a pattern so that it stands for itself. */
static size_t add_literal(char *out, size_t at, struct df_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (strchr("%_[]!", s.ptr[i]))
            out[at++] = '!';
        out[at++] = s.ptr[i];
    }
    return at;
}

void df_outbox_bind(const struct df_outbox_filter *f, const struct df_channel *c,
                    struct df_arena *a, struct df_outbox_bound *ret)
{
    const int64_t end_ms = 253402300799000; /* of the year 9999 */
    struct df_str target = df_outbox_target_name(f->target);
    size_t at;

    ret->target = df_text(target);
    ret->own = df_int(is_own(c, target) ? 1 : 0);
    ret->target_query = ret->error = df_null(DF_TEXT);
    if (target.ptr && target.len <= (size_t)4 * DF_OUTBOX_TARGET_MAX) {
        at = add_literal(ret->target_text, 0, target);
        memcpy(ret->target_text + at, "?%", 2);
        ret->target_query = df_text(df_str_n(ret->target_text, at + 2));
    }
    if (f->error.ptr && f->error.len <= (size_t)4 * DF_OUTBOX_ERROR_MAX)
        ret->error = df_text(df_cause_pattern(f->error, a));
    ret->given_up = df_int(f->given_up ? 1 : 0);
    ret->since = df_time(f->since_ms < 0 ? 0 : f->since_ms);
    ret->until = df_time(f->until_ms < 0 ? end_ms : f->until_ms);
}

/* --- one row --- */

struct noted {
    const struct df_channel *channel;
    enum df_outbox_status status;
    bool waits, dismissed;
};

static void note_status(void *arg, const struct df_outbox_row *row)
{
    struct noted *n = arg;
    if (!df_outbox_status_parse(n->channel, row->status, &n->status))
        n->status = DF_OUTBOX_STATUSES;
    n->waits = row->due_ms >= 0;
    n->dismissed = row->dismissed_ms >= 0;
}

static enum df_code explain_no_dismissal(const struct noted *n, const char *key, struct df_err *err)
{
    if (n->dismissed)
        return DF_OK;
    return df_err_set(err, DF_E_CONFLICT, "%s %s was not given up: %s.", n->channel->name, key,
                      n->status == DF_OUTBOX_SENT ? "it was sent" : "it will be tried again");
}

/* Explains why nothing was changed. */
static enum df_code explain_no_change(struct df_db *db, const struct df_channel *c,
                                      enum df_outbox_change what, struct df_str id,
                                      struct df_err *err)
{
    struct noted noted = {.channel = c, .status = DF_OUTBOX_STATUSES};
    struct df_outbox_view view = {.row = note_status, .arg = &noted};
    char key[DF_OUTBOX_KEY_MAX + 1];
    enum df_code code = df_outbox_show_row(db, c, id, &view, key, NULL, err);
    if (code != DF_OK)
        return code;
    if (what == DF_OUTBOX_DISMISS)
        return explain_no_dismissal(&noted, key, err);
    switch (noted.status) {
    case DF_OUTBOX_PENDING:
        return DF_OK;
    case DF_OUTBOX_SENT:
        return df_err_set(err, DF_E_CONFLICT, "%s %s was sent: there is nothing to try again.",
                          c->name, key);
    case DF_OUTBOX_SENDING:
    case DF_OUTBOX_ERROR: /* it was not in Error a moment ago */
    case DF_OUTBOX_STATUSES:
        break;
    }
    return df_err_set(err, DF_E_CONFLICT, "%s %s is being sent: wait for what comes of it.",
                      c->name, key);
}

static void note_erased(void *arg, const struct df_outbox_row *row)
{
    *(bool *)arg = df_str_eq(row->payload, DF_STR("{\"erased\":true}"));
}

/* A document whose person was erased has nothing to be sent (retention/erase.h). */
static enum df_code refuse_erased(struct df_db *db, const struct df_channel *c, struct df_str id,
                                  struct df_err *err)
{
    bool erased = false;
    struct df_outbox_view view = {.row = note_erased, .arg = &erased};
    char key[DF_OUTBOX_KEY_MAX + 1];
    enum df_code code = df_outbox_show_row(db, c, id, &view, key, NULL, err);

    if (code == DF_OK && erased)
        code = df_err_set(err, DF_E_ERASED, "The content of %s %s was erased.", c->name, key);
    return code;
}

/* What follows in other tables. */
static enum df_code follow_change(struct df_db *db, const struct df_channel *c,
                                  enum df_outbox_change what, struct df_value now,
                                  struct df_value ids, struct df_err *err)
{
    enum df_code code = DF_OK;

    if (c->dismissed)
        code = df_db_exec(db,
                          DF_ANY(c->dismissed,
                                 {"at", what == DF_OUTBOX_DISMISS ? now : df_null(DF_TIME)},
                                 {"ids", ids}),
                          NULL, err);
    if (code == DF_OK && c->mirror && what == DF_OUTBOX_RETRY)
        code = df_db_exec(db, DF_ANY(c->mirror, {"now", now}, {"ids", ids}), NULL, err);
    return code;
}

enum df_code df_outbox_change(struct df_db *db, const struct df_channel *c,
                              enum df_outbox_change what, struct df_str id,
                              const struct df_actor *by, int64_t now_ms, struct df_err *err)
{
    const struct df_query *q = what == DF_OUTBOX_RETRY ? c->retry : c->dismiss;
    struct df_value row_id = df_outbox_id(c, id);
    struct df_value now = df_time(now_ms);
    char ids[DF_CHANNEL_IDS_SIZE];
    int64_t affected = 0;
    if (row_id.null)
        return df_outbox_no_row(c, id, err);
    enum df_code code = df_db_exec(db, DF_ANY(q, {"now", now}, {"id", row_id}), &affected, err);
    if (code == DF_OK && affected == 0)
        return explain_no_change(db, c, what, id, err);
    if (code == DF_OK && what == DF_OUTBOX_RETRY)
        code = refuse_erased(db, c, id, err);
    if (code == DF_OK)
        code = follow_change(db, c, what, now, df_channel_ids(row_id, ids), err);
    if (code != DF_OK)
        return code;
    char target[128];
    snprintf(target, sizeof target, "%s/" DF_STR_FMT, c->name, DF_STR_ARG(id));
    return df_audit_write(db, by, what == DF_OUTBOX_RETRY ? "OutboxRetried" : "DeliveryDismissed",
                          df_str_c(target), DF_STR_NULL, DF_STR_NULL, now_ms, err);
}

/* --- many rows --- */

enum df_code df_outbox_match(struct df_db *db, const struct df_channel *c,
                             enum df_outbox_change what, const struct df_outbox_filter *f,
                             int64_t *ret, struct df_err *err)
{
    const struct df_query *q = what == DF_OUTBOX_RETRY ? c->retry_total : c->dismiss_total;
    struct df_outbox_bound b;
    struct df_arena arena;

    df_arena_init(&arena);
    df_outbox_bind(f, c, &arena, &b);
    enum df_code code = df_db_query_int(db, DF_ANY(q, DF_OUTBOX_BOUND(b)), ret, err);
    df_arena_release(&arena);
    return code;
}

struct changed {
    struct df_ids ids;
    int64_t count;
};

static void read_changed(void *arg, struct df_result *r)
{
    struct changed *t = arg;

    df_ids_add(&t->ids, df_col_text(r, channel_retried_Id));
    t->count++;
}

static void write_filter(const struct df_outbox_filter *f, struct df_json_out *out)
{
    if (f->target.ptr)
        df_json_kv_text(out, "target", f->target);
    if (f->error.ptr)
        df_json_kv_text(out, "error", f->error);
    if (f->given_up)
        df_json_kv_bool(out, "givenUp", true);
    if (f->since_ms >= 0)
        df_json_kv_time(out, "since", f->since_ms);
    if (f->until_ms >= 0)
        df_json_kv_time(out, "until", f->until_ms);
}

static enum df_code audit_step(struct df_db *db, const struct df_channel *c,
                               enum df_outbox_change what, const struct df_outbox_filter *f,
                               int64_t changed, const struct df_actor *by, int64_t now_ms,
                               struct df_err *err)
{
    bool retry = what == DF_OUTBOX_RETRY;
    struct df_buf details;
    struct df_json_out out;

    df_buf_init(&details, 16384);
    df_json_out_init(&out, &details);
    df_json_open(&out, '{');
    df_json_kv_int(&out, retry ? "retried" : "dismissed", changed);
    write_filter(f, &out);
    df_json_close(&out, '}');
    enum df_code code =
        df_audit_write(db, by, retry ? "OutboxRetriedAll" : "DeliveryDismissed", df_str_c(c->name),
                       DF_STR_NULL, df_buf_str(&details), now_ms, err);
    df_buf_release(&details);
    return code;
}

enum df_code df_outbox_change_step(struct df_db *db, const struct df_channel *c,
                                   enum df_outbox_change what, const struct df_outbox_filter *f,
                                   const struct df_actor *by, int64_t now_ms, int64_t *ret,
                                   struct df_err *err)
{
    const struct df_query *q = what == DF_OUTBOX_RETRY ? c->retry_some : c->dismiss_some;
    struct df_arena arena;
    struct df_outbox_bound b;
    struct df_value now = df_time(now_ms);

    df_arena_init(&arena);
    struct changed t = {.ids = df_ids_for(&arena, DF_OUTBOX_STEP, c->id_type == DF_UUID)};
    df_outbox_bind(f, c, &arena, &b);
    enum df_code code = df_db_each(
        db, DF_ANY(q, {"now", now}, {"limit", df_int(DF_OUTBOX_STEP)}, DF_OUTBOX_BOUND(b)),
        read_changed, &t, err);
    if (code == DF_OK && t.count > 0)
        code = follow_change(db, c, what, now, df_ids_value(&t.ids), err);
    if (code == DF_OK && t.count > 0)
        code = audit_step(db, c, what, f, t.count, by, now_ms, err);
    df_arena_release(&arena);
    *ret = t.count;
    return code;
}
