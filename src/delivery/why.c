#include "delivery/why.h"

#include "base/cause.h"
#include "delivery/targets.sql.h"

#include <stdio.h>

struct state {
    struct df_arena *arena;
    int64_t down_ms, paused_ms;
    struct df_str paused_by, error;
};

static void read_state(void *arg, struct df_result *r)
{
    struct state *s = arg;

    if (!df_col_null(r, target_state_PausedAt)) {
        s->paused_ms = df_col_time(r, target_state_PausedAt);
        s->paused_by = df_arena_str(s->arena, df_col_text(r, target_state_PausedBy));
    }
    if (df_col_text(r, target_state_Target).len > 0 && !df_col_null(r, target_state_DownSince)) {
        s->down_ms = df_col_time(r, target_state_DownSince);
        s->error = df_arena_str(s->arena, df_col_text(r, target_state_LastError));
    }
}

/* "22:14" of today, "2026-11-15 22:14" of another day; UTC. */
static const char *clock_text(int64_t at_ms, int64_t now_ms, char out[DF_TIME_LEN + 1])
{
    char now[DF_TIME_LEN + 1], at[DF_TIME_LEN + 1];

    df_time_format(now_ms, now);
    df_time_format(at_ms, at);
    bool today = memcmp(now, at, 10) == 0;
    at[10] = ' ';
    at[16] = '\0';
    (void)snprintf(out, DF_TIME_LEN + 1, "%s", today ? at + 11 : at);
    return out;
}

static int64_t seconds_to(int64_t at_ms, int64_t now_ms)
{
    return at_ms > now_ms ? (at_ms - now_ms + 999) / 1000 : 0;
}

static void explain_down(const struct df_why_row *row, const struct state *s,
                         struct df_delivery *delivery, int64_t now_ms, struct df_why *ret)
{
    int64_t probe_ms = delivery ? df_delivery_probe_ms(delivery, row->channel, row->target) : -1;
    char since[DF_TIME_LEN + 1];

    ret->code = "TargetAway";
    ret->since_ms = s->down_ms;
    ret->next_ms = probe_ms >= 0 || row->held ? probe_ms : row->due_ms;
    (void)clock_text(s->down_ms, now_ms, since);
    ret->detail =
        probe_ms < 0
            ? df_arena_printf(s->arena, DF_STR_FMT " is unreachable since %s UTC",
                              DF_STR_ARG(row->target), since)
            : df_arena_printf(
                  s->arena, DF_STR_FMT " is unreachable since %s UTC, next probe in %lld s",
                  DF_STR_ARG(row->target), since, (long long)seconds_to(probe_ms, now_ms));
    if (s->error.len > 0)
        ret->detail = df_arena_printf(s->arena, DF_STR_FMT ": " DF_STR_FMT, DF_STR_ARG(ret->detail),
                                      DF_STR_ARG(df_cause_of(s->error, s->arena)));
}

static void explain(const struct df_why_row *row, const struct state *s,
                    struct df_delivery *delivery, int64_t now_ms, struct df_why *ret)
{
    char at[DF_TIME_LEN + 1];

    ret->next_ms = -1;
    ret->since_ms = row->created_ms;
    if (row->missing) {
        ret->code = "NotConfigured";
        ret->detail = df_arena_printf(s->arena, "%s is not set", row->missing);
    } else if (s->paused_ms >= 0) {
        ret->code = "Paused";
        ret->since_ms = s->paused_ms;
        ret->detail =
            df_arena_printf(s->arena, "paused by " DF_STR_FMT " since %s UTC",
                            DF_STR_ARG(s->paused_by), clock_text(s->paused_ms, now_ms, at));
    } else if (s->down_ms >= 0) {
        explain_down(row, s, delivery, now_ms, ret);
    } else if (row->failed && row->due_ms > now_ms) {
        ret->code = "Backoff";
        ret->since_ms = row->last_attempt_ms;
        ret->next_ms = row->due_ms;
        ret->detail = df_arena_printf(s->arena, "the last try failed, the next one is in %lld s",
                                      (long long)seconds_to(row->due_ms, now_ms));
    } else {
        ret->code = "Behind";
        ret->next_ms = row->due_ms;
        ret->detail = DF_STR("others are sent before it");
    }
}

enum df_code df_why_find(struct df_db *db, const struct df_why_row *row,
                         struct df_delivery *delivery, int64_t now_ms, struct df_arena *a,
                         struct df_why *ret, struct df_err *err)
{
    struct state s = {.arena = a, .down_ms = -1, .paused_ms = -1};
    struct df_str target = row->target.ptr ? row->target : DF_STR("");

    *ret = (struct df_why){.code = NULL};
    if (row->due_ms < 0)
        return DF_OK;
    enum df_code code = df_db_each(
        db, DF_Q(target_state, .channel = df_text(row->channel), .target = df_text(target)),
        read_state, &s, err);
    if (code == DF_OK)
        explain(row, &s, delivery, now_ms, ret);
    return code;
}

void df_why_write(const struct df_why *why, struct df_json_out *out)
{
    df_json_key(out, "waitingFor");
    if (!why->code) {
        df_json_null(out);
        return;
    }
    df_json_open(out, '{');
    df_json_kv_text(out, "code", df_str_c(why->code));
    df_json_kv_told(out, "detail", why->detail);
    df_json_kv_time(out, "since", why->since_ms);
    df_json_kv_time(out, "next", why->next_ms);
    df_json_close(out, '}');
}
