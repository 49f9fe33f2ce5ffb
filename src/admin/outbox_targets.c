/* How the targets of deliveries are, and pausing and resuming them. */
#include "admin/outbox.h"
#include "admin/targets.sql.h"

#define TARGETS_SHOWN 200 /* of a channel */

/* What has targets but no outbox here: relays of other applications' tables, and the processing of
 * tickets, of which only relays can be paused. */
static const char *const other_channels[] = {"relay", "tickets"};
#define OTHERS (sizeof other_channels / sizeof other_channels[0])

bool df_outbox_can_pause(const struct df_delivery *d, struct df_str channel)
{
    return df_delivery_find(d, channel) || df_str_eq(channel, DF_STR("relay"));
}

const char *df_outbox_why_no_pause(const struct df_delivery *d, struct df_str channel,
                                   struct df_str target)
{
    const struct df_channel *c = df_delivery_find(d, channel);

    if (c && !c->claim)
        return "its events are sent by relays: pause the channel relay, with the relay's name as "
               "the target";
    if (c && c->schedule && target.len > 0)
        return "a single webhook is not paused: set its isActive to false, or pause the channel";
    return NULL;
}

/* --- pausing --- */

static enum df_code audit_pause(struct df_db *db, struct df_str channel, struct df_str target,
                                bool pause, const struct df_actor *by, int64_t now_ms,
                                struct df_err *err)
{
    struct df_buf details;
    struct df_json_out out;

    df_buf_init(&details, 16384);
    df_json_out_init(&out, &details);
    df_json_open(&out, '{');
    if (target.len > 0)
        df_json_kv_text(&out, "target", target);
    df_json_close(&out, '}');
    enum df_code code = df_audit_write(db, by, pause ? "DeliveryPaused" : "DeliveryResumed",
                                       channel, DF_STR_NULL, df_buf_str(&details), now_ms, err);
    df_buf_release(&details);
    return code;
}

enum df_code df_outbox_pause(struct df_db *db, struct df_str channel, struct df_str target,
                             bool pause, const struct df_actor *by, int64_t now_ms,
                             bool *ret_changed, struct df_err *err)
{
    const struct df_query *q = pause ? &df_q_target_pause : &df_q_target_resume;
    int64_t changed = 0;

    if (!target.ptr)
        target = DF_STR("");
    enum df_code code =
        df_db_exec(db,
                   DF_ANY(q, {"channel", df_text(channel)}, {"target", df_text(target)},
                          {"now", df_time(now_ms)}, {"by", df_text(df_utf8_cut(by->name, 200))}),
                   &changed, err);
    if (code == DF_OK && changed > 0)
        code = audit_pause(db, channel, target, pause, by, now_ms, err);
    *ret_changed = changed > 0;
    return code;
}

/* --- JSON --- */

static const char *state_of(const struct df_result *r)
{
    if (!df_col_null(r, target_PausedAt))
        return "paused";
    return df_col_null(r, target_DownSince) ? "up" : "down";
}

static void write_pause(const struct df_result *r, struct df_json_out *out)
{
    df_json_kv_bool(out, "paused", !df_col_null(r, target_PausedAt));
    df_json_kv_time(out, "pausedAt", df_col_time(r, target_PausedAt));
    df_json_kv_text(out, "pausedBy", df_col_text(r, target_PausedBy));
}

static void write_target(const struct df_result *r, bool with_channel, struct df_json_out *out)
{
    df_json_open(out, '{');
    if (with_channel)
        df_json_kv_text(out, "channel", df_col_text(r, target_Channel));
    df_json_kv_text(out, "target", df_col_text(r, target_Target));
    df_json_kv_text(out, "state", df_str_c(state_of(r)));
    df_json_kv_time(out, "downSince", df_col_time(r, target_DownSince));
    write_pause(r, out);
    df_json_kv_text(out, "lastError", df_col_text(r, target_LastError));
    df_json_kv_time(out, "lastFailedAt", df_col_time(r, target_LastFailedAt));
    df_json_kv_int(out, "arrived", df_col_int(r, target_Arrived));
    df_json_kv_time(out, "lastArrivedAt", df_col_time(r, target_LastArrivedAt));
    df_json_close(out, '}');
}

struct listing {
    struct df_json_out *out;
    bool others;
    bool opened; /* the array */
};

static void open_targets(struct listing *l)
{
    if (l->opened)
        return;
    df_json_key(l->out, "targets");
    df_json_open(l->out, '[');
    l->opened = true;
}

/* The row of the channel itself comes first. */
static void write_listed(void *arg, struct df_result *r)
{
    struct listing *l = arg;

    if (!l->others && df_col_text(r, target_Target).len == 0) {
        write_pause(r, l->out);
        open_targets(l);
        return;
    }
    if (!l->others && !l->opened)
        df_json_kv_bool(l->out, "paused", false);
    open_targets(l);
    write_target(r, l->others, l->out);
}

static enum df_code list_targets(struct df_db *db, struct df_str channel, struct listing *l,
                                 struct df_err *err)
{
    return df_db_each(
        db, DF_Q(targets_shown, .channel = df_text(channel), .limit = df_int(TARGETS_SHOWN)),
        write_listed, l, err);
}

enum df_code df_outbox_json_targets(struct df_db *db, const struct df_channel *c,
                                    struct df_json_out *out, struct df_err *err)
{
    struct listing l = {.out = out, .others = !c};
    enum df_code code = DF_OK;

    if (c)
        code = list_targets(db, df_str_c(c->name), &l, err);
    for (size_t i = 0; !c && i < OTHERS && code == DF_OK; i++)
        code = list_targets(db, df_str_c(other_channels[i]), &l, err);
    if (c && !l.opened)
        df_json_kv_bool(out, "paused", false);
    open_targets(&l);
    df_json_close(out, ']');
    return code;
}

static void write_one(void *arg, struct df_result *r)
{
    write_target(r, true, arg);
}

enum df_code df_outbox_json_target(struct df_db *db, struct df_str channel, struct df_str target,
                                   struct df_json_out *out, struct df_err *err)
{
    bool found = false;
    struct df_value name = df_text(target.ptr ? target : DF_STR(""));
    enum df_code code = df_db_one(db, DF_Q(target_get, .channel = df_text(channel), .target = name),
                                  write_one, out, &found, err);

    if (code != DF_OK || found)
        return code;
    df_json_open(out, '{');
    df_json_kv_text(out, "channel", channel);
    df_json_kv_text(out, "target", target.ptr ? target : DF_STR(""));
    df_json_kv_text(out, "state", DF_STR("up"));
    df_json_kv_bool(out, "paused", false);
    df_json_close(out, '}');
    return DF_OK;
}
