/* dataflow outbox: the operations of /admin/outbox, directly on the database. */
#include "admin/outbox.h"
#include "alerts/alerts.h"
#include "app/app.h"
#include "app/audited.h"
#include "app/cli.h"
#include "app/database.h"
#include "app/demo.h"
#include "base/uuid.h"
#include "integrations/integrations.h"
#include "interface/interface.h"
#include "webhooks/webhooks.h"

#include <stdio.h>
#include <unistd.h>

#define OUTPUT_MAX (256 << 20)
#define ERROR_CUT  60 /* characters of an error in a table */
#define TRIES      5
/* Numbers below the longest heading of any language. */
#define GIVEN_UP_WIDTH 11
#define ATTEMPTS_WIDTH 10
#define ATTEMPT_WIDTH  9
#define FIELD_WIDTH    16

struct session {
    struct df_settings settings;
    const struct df_clock *clock;
    struct df_app app; /* has the channels and an engine that knows them, never started */
    const struct df_channel *channel;
    struct df_db *db;
    const char *status_given; /* NULL: any */
    bool given_up;
    const char *target, *error, *since, *until; /* NULL: any */
    struct df_outbox_filter filter;
    struct df_page page;
    char list[DF_CURSOR_LIST_MAX + 1]; /* its name in cursors */
    enum df_outbox_change change;
    bool all;
    bool dry_run;
    bool json;
    const char *pausing; /* the channel to pause or resume, which may be "relay" */
    size_t attempts;     /* shown so far */
    struct df_buf payload;
    struct df_buf out;
    struct df_json_out jout;
};

/* --- output --- */

/* Makes text from outside safe for a terminal: no control characters, U+0080 to U+009F included. */
static void add_clean(struct df_buf *out, struct df_str s, bool lines)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        bool c1 = c == 0xC2 && i + 1 < s.len && (unsigned char)s.ptr[i + 1] < 0xA0;
        bool keep = c < 0x20 ? lines && (c == '\n' || c == '\t') : c != 0x7F && !c1;
        df_buf_addc(out, keep ? (char)c : ' ');
        i += c1;
    }
}

static void add_time(struct df_buf *out, int64_t wall_ms)
{
    char text[DF_TIME_LEN + 1] = "-";
    if (wall_ms >= 0)
        df_time_format(wall_ms, text);
    df_buf_addf(out, "%-*s", DF_TIME_LEN, text);
}

static void add_field(struct df_buf *out, const char *name, struct df_str value)
{
    df_cli_cell(out, name, FIELD_WIDTH);
    df_buf_addc(out, ' ');
    add_clean(out, value.ptr ? value : DF_STR("-"), false);
    df_buf_addc(out, '\n');
}

static void add_time_field(struct df_buf *out, const char *name, int64_t wall_ms)
{
    char text[DF_TIME_LEN + 1] = "-";
    if (wall_ms >= 0)
        df_time_format(wall_ms, text);
    add_field(out, name, df_str_c(text));
}

static enum df_code print_overview(struct session *s, struct df_err *err)
{
    df_cli_heads(&s->out, (const struct df_cli_head[]){{"CHANNEL", 16},
                                                       {"PENDING", -9},
                                                       {"SENDING", -9},
                                                       {"SENT", -9},
                                                       {"ERROR", -9},
                                                       {"HELD", -9},
                                                       {"GIVEN UP", -GIVEN_UP_WIDTH},
                                                       {"", 0},
                                                       {"OLDEST WAITING", 0},
                                                       {0}});
    for (size_t i = 0; i < df_delivery_channels(s->app.delivery); i++) {
        const struct df_channel *c = df_delivery_channel(s->app.delivery, i);
        struct df_outbox_counts counts = {0};
        struct df_outbox_stuck stuck = {.oldest_ms = -1};
        enum df_code code = df_outbox_count(s->db, c, &counts, err);
        if (code == DF_OK)
            code = df_outbox_look_stuck(s->db, c, &stuck, err);
        if (code != DF_OK)
            return code;
        df_buf_addf(&s->out, "%-16s", c->name);
        for (size_t k = 0; k < DF_OUTBOX_STATUSES; k++) {
            if (df_outbox_status_name(c, (enum df_outbox_status)k))
                df_buf_addf(&s->out, " %9lld", (long long)counts.rows[k]);
            else
                df_buf_addf(&s->out, " %9s", "-");
        }
        df_buf_addf(&s->out, " %9lld %*lld  ", (long long)stuck.held, GIVEN_UP_WIDTH,
                    (long long)stuck.given_up);
        add_time(&s->out, stuck.oldest_ms);
        if (c->missing)
            df_cli_say(&s->out, "  waits for %s to be set", c->missing);
        df_buf_addc(&s->out, '\n');
    }
    return DF_OK;
}

static int id_width(const struct session *s)
{
    return s->channel->id_type == DF_UUID ? DF_UUID_LEN : 10;
}

static void print_line(void *arg, const struct df_outbox_row *row)
{
    struct session *s = arg;
    df_buf_addf(&s->out, "%-*.*s %-9.*s %*lld  ", id_width(s), (int)row->id.len, row->id.ptr,
                (int)row->status.len, row->status.ptr, ATTEMPTS_WIDTH, (long long)row->attempts);
    add_time(&s->out, row->created_ms);
    df_buf_addz(&s->out, "  ");
    add_time(&s->out, df_outbox_next_ms(NULL, s->channel, row));
    df_buf_addz(&s->out, "  ");
    add_clean(&s->out, row->reference, false);
    if (row->error.len > 0) {
        struct df_str error = df_utf8_cut(row->error, ERROR_CUT);
        df_buf_addz(&s->out, "  ");
        add_clean(&s->out, error, false);
        df_buf_addz(&s->out, error.len < row->error.len ? "…" : "");
    }
    df_buf_addc(&s->out, '\n');
}

static enum df_code print_page(struct session *s, struct df_err *err)
{
    struct df_outbox_view view = {.row = print_line, .arg = s};
    df_cli_heads(&s->out, (const struct df_cli_head[]){{"ID", id_width(s)},
                                                       {"STATUS", 9},
                                                       {"ATTEMPTS", -ATTEMPTS_WIDTH},
                                                       {"", 0},
                                                       {"CREATED", DF_TIME_LEN + 1},
                                                       {"NEXT ATTEMPT", DF_TIME_LEN + 1},
                                                       {"REFERENCE, LAST ERROR", 0},
                                                       {0}});
    enum df_code code = df_outbox_list(s->db, s->channel, &s->filter, &s->page, true, &view, err);
    int64_t pages = (s->page.total + s->page.size - 1) / s->page.size;
    if (code == DF_OK && pages > 1)
        df_cli_say(&s->out, "page %lld of %lld, %lld rows\n", (long long)s->page.page,
                   (long long)pages, (long long)s->page.total);
    return code;
}

static void print_row(void *arg, const struct df_outbox_row *row)
{
    struct session *s = arg;
    add_field(&s->out, "channel", df_str_c(s->channel->name));
    add_field(&s->out, "id", row->id);
    add_field(&s->out, "reference", row->reference);
    if (row->correlation_id.ptr)
        add_field(&s->out, "correlation", row->correlation_id);
    add_field(&s->out, "target", row->target);
    add_field(&s->out, "status", row->status);
    df_cli_cell(&s->out, "attempts", FIELD_WIDTH);
    df_cli_say(&s->out, " %lld that count, %lld in all\n", (long long)row->attempts,
               (long long)row->tries);
    add_time_field(&s->out, "created", row->created_ms);
    add_time_field(&s->out, "last attempt", row->last_attempt_ms);
    add_time_field(&s->out, "first failed", row->first_failed_ms);
    add_time_field(&s->out, "sent", row->sent_ms);
    add_time_field(&s->out, "next attempt", df_outbox_next_ms(NULL, s->channel, row));
    if (row->dismissed_ms >= 0)
        add_time_field(&s->out, "dismissed", row->dismissed_ms);
    if (row->held_for.ptr)
        add_field(&s->out, "waits for", row->held_for);
    add_field(&s->out, "last error", row->error);
    /* Copied, since it is shown at the end, when the row is gone. */
    add_clean(&s->payload, row->payload, true);
}

static void print_attempt(void *arg, const struct df_delivery_attempt *a)
{
    struct session *s = arg;
    if (s->attempts++ == 0) {
        df_buf_addc(&s->out, '\n');
        df_cli_heads(&s->out, (const struct df_cli_head[]){{"ATTEMPT", ATTEMPT_WIDTH},
                                                           {"AT", DF_TIME_LEN + 1},
                                                           {"OUTCOME", ATTEMPT_WIDTH},
                                                           {"STATUS", -6},
                                                           {"MS", -9},
                                                           {"", 0},
                                                           {"ERROR OR ANSWER", 0},
                                                           {0}});
    }
    df_buf_addf(&s->out, "%-*lld ", ATTEMPT_WIDTH, (long long)a->attempt);
    add_time(&s->out, a->attempted_ms);
    df_buf_addf(&s->out, "  %-*.*s ", ATTEMPT_WIDTH, (int)a->outcome.len, a->outcome.ptr);
    if (a->http_status > 0)
        df_buf_addf(&s->out, "%6lld", (long long)a->http_status);
    else
        df_buf_addf(&s->out, "%6s", "-");
    df_buf_addf(&s->out, " %9lld  ", (long long)a->duration_ms);
    add_clean(&s->out, a->error.len > 0 ? a->error : a->answer, false);
    df_buf_addc(&s->out, '\n');
}

static enum df_code print_detail(struct session *s, struct df_str id, struct df_err *err)
{
    struct df_outbox_view view = {.row = print_row, .attempt = print_attempt, .arg = s};
    enum df_code code = df_outbox_get(s->db, s->channel, id, &view, err);
    if (code != DF_OK)
        return code;
    df_buf_addc(&s->out, '\n');
    df_cli_say(&s->out, "payload\n");
    df_buf_adds(&s->out, df_buf_str(&s->payload));
    df_buf_addc(&s->out, '\n');
    return DF_OK;
}

/* --- retry, dismiss, pause and resume --- */

/* What is done in one transaction. */
typedef enum df_code change_fn(struct session *s, struct df_str name, const struct df_actor *by,
                               int64_t *ret, struct df_err *err);

static enum df_code change_one(struct session *s, struct df_str id, const struct df_actor *by,
                               int64_t *ret, struct df_err *err)
{
    *ret = 1;
    return df_outbox_change(s->db, s->channel, s->change, id, by, df_wall_ms(s->clock), err);
}

static enum df_code change_step(struct session *s, struct df_str id, const struct df_actor *by,
                                int64_t *ret, struct df_err *err)
{
    (void)id;
    return df_outbox_change_step(s->db, s->channel, s->change, &s->filter, by, df_wall_ms(s->clock),
                                 ret, err);
}

static enum df_code set_pause(struct session *s, struct df_str verb, const struct df_actor *by,
                              int64_t *ret, struct df_err *err)
{
    bool changed = false;
    enum df_code code =
        df_outbox_pause(s->db, df_str_c(s->pausing), s->filter.target,
                        df_str_eq(verb, DF_STR("pause")), by, df_wall_ms(s->clock), &changed, err);
    *ret = changed;
    return code;
}

static enum df_code change_once(struct session *s, change_fn *change, struct df_str name,
                                int64_t *ret, struct df_err *err)
{
    char text[80];
    struct df_actor by = df_cli_actor(text, sizeof text);
    enum df_code code = df_db_begin(s->db, true, err);
    if (code != DF_OK)
        return code;
    code = change(s, name, &by, ret, err);
    if (code == DF_OK)
        return df_db_commit(s->db, err);
    df_db_rollback(s->db);
    return code;
}

/* A running server works on the same rows. */
static enum df_code change_rows(struct session *s, change_fn *change, struct df_str name,
                                int64_t *ret, struct df_err *err)
{
    enum df_code code = DF_E_DB_CONFLICT;

    for (int i = 0; i < TRIES && df_code_retry(code) == DF_RETRY_NOW; i++)
        code = change_once(s, change, name, ret, err);
    return code;
}

static enum df_code change_row(struct session *s, struct df_str id, struct df_err *err)
{
    int64_t changed = 0;
    enum df_code code = change_rows(s, change_one, id, &changed, err);

    if (code != DF_OK)
        return code;
    if (s->json)
        df_outbox_json_changed(s->channel, s->change, id, &s->jout);
    else
        df_cli_say(&s->out,
                   s->change == DF_OUTBOX_RETRY ? "%s " DF_STR_FMT " is to be sent again\n"
                                                : "%s " DF_STR_FMT " was dismissed\n",
                   s->channel->name, DF_STR_ARG(id));
    return DF_OK;
}

/* The rows of one channel that match, in steps, so that a running server goes on writing. */
static enum df_code change_channel(struct session *s, int64_t *ret_matched, int64_t *ret_retried,
                                   struct df_err *err)
{
    int64_t step = 1;
    enum df_code code = df_outbox_match(s->db, s->channel, s->change, &s->filter, ret_matched, err);

    while (code == DF_OK && !s->dry_run && step > 0 && *ret_retried < *ret_matched) {
        code = change_rows(s, change_step, DF_STR_NULL, &step, err);
        *ret_retried += code == DF_OK ? step : 0;
    }
    return code;
}

static void add_changed(struct session *s, const char *name, int64_t rows)
{
    long long n = rows;

    if (s->json)
        df_json_kv_int(&s->jout, name, rows);
    else if (s->change == DF_OUTBOX_RETRY && s->dry_run)
        df_cli_say(&s->out, "%lld rows of %s would have to be sent again\n", n, name);
    else if (s->change == DF_OUTBOX_RETRY)
        df_cli_say(&s->out, "%lld rows of %s are to be sent again\n", n, name);
    else if (s->dry_run)
        df_cli_say(&s->out, "%lld rows of %s would have to be dismissed\n", n, name);
    else
        df_cli_say(&s->out, "%lld rows of %s were dismissed\n", n, name);
}

static enum df_code change_many(struct session *s, struct df_err *err)
{
    const struct df_channel *only = s->channel;
    int64_t all_matched = 0, all_retried = 0;
    enum df_code code = DF_OK;

    if (s->json) {
        df_json_open(&s->jout, '{');
        df_json_key(&s->jout, "byChannel");
        df_json_open(&s->jout, '{');
    }
    for (size_t i = 0; i < df_delivery_channels(s->app.delivery) && code == DF_OK; i++) {
        int64_t matched = 0, retried = 0;
        s->channel = df_delivery_channel(s->app.delivery, i);
        if (only && only != s->channel)
            continue;
        code = change_channel(s, &matched, &retried, err);
        if (matched > 0 || (only && !s->json))
            add_changed(s, s->channel->name, s->dry_run || s->json ? matched : retried);
        all_matched += matched;
        all_retried += retried;
    }
    s->channel = only;
    if (s->json) {
        df_json_close(&s->jout, '}');
        df_json_kv_int(&s->jout, "matched", all_matched);
        df_json_kv_int(&s->jout, s->change == DF_OUTBOX_RETRY ? "retried" : "dismissed",
                       all_retried);
        df_json_close(&s->jout, '}');
    } else if (!only && all_matched == 0) {
        df_cli_say(&s->out, "no row matches\n");
    }
    return code;
}

static enum df_code pause_rows(struct session *s, const char *verb, struct df_err *err)
{
    bool pause = strcmp(verb, "pause") == 0;
    int64_t changed = 0;
    const char *why =
        df_outbox_why_no_pause(s->app.delivery, df_str_c(s->pausing), s->filter.target);
    if (pause && why)
        return df_err_set(err, DF_E_USAGE, "%s cannot be paused so: %s", s->pausing, why);
    enum df_code code = change_rows(s, set_pause, df_str_c(verb), &changed, err);

    if (code != DF_OK)
        return code;
    if (s->json)
        return df_outbox_json_target(s->db, df_str_c(s->pausing), s->filter.target, &s->jout, err);
    df_buf_addf(&s->out, "%s%s" DF_STR_FMT " ", s->pausing, s->filter.target.ptr ? " " : "",
                DF_STR_ARG(s->filter.target));
    if (pause)
        df_cli_say(&s->out, changed ? "is paused: nothing is sent until it is resumed\n"
                                    : "is already paused: nothing is sent until it is resumed\n");
    else
        df_cli_say(&s->out, changed ? "goes on\n" : "already goes on\n");
    return DF_OK;
}

/* --- the command --- */

/* Makes the channels that the server has, with the settings that decide whether they are
 * configured. */
static void make_channels(struct session *s)
{
    struct df_app *app = &s->app;
    const struct df_clock *clock = s->clock;

    app->delivery = df_delivery_new(&(struct df_delivery_options){.clock = clock});
    app->interface = df_interface_new(
        &(struct df_interface_options){.clock = clock, .settings = s->settings.interface});
    app->integrations = df_integrations_new(&(struct df_integrations_options){.clock = clock});
    app->webhooks = df_webhooks_new(&(struct df_webhooks_options){.clock = clock});
    app->alerts = df_alerts_new(&(struct df_alerts_options){.clock = clock});
    df_app_add_channels(app);
}

static void free_channels(struct session *s)
{
    df_delivery_free(s->app.delivery);
    df_interface_free(s->app.interface);
    df_integrations_free(s->app.integrations);
    df_webhooks_free(s->app.webhooks);
    df_alerts_free(s->app.alerts);
}

static enum df_code find_channel(struct session *s, const char *name, struct df_err *err)
{
    s->channel = df_delivery_find(s->app.delivery, df_str_c(name));
    if (s->channel)
        return DF_OK;
    char names[256] = "";
    for (size_t i = 0, at = 0; i < df_delivery_channels(s->app.delivery) && at < sizeof names; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i > 0 ? ", " : "",
                               df_delivery_channel(s->app.delivery, i)->name);
    return df_err_set(err, DF_E_USAGE, "no channel \"%s\"; there are: %s", name, names);
}

static enum df_code find_status(struct session *s, struct df_err *err)
{
    enum df_outbox_status known = DF_OUTBOX_ERROR;
    char names[DF_OUTBOX_NAMES_SIZE];

    s->filter.given_up = s->given_up;
    if (!s->channel || (!s->status_given && !s->given_up))
        return DF_OK;
    if (!s->status_given || df_outbox_status_parse(s->channel, df_str_c(s->status_given), &known)) {
        s->filter.status = df_str_c(df_outbox_status_name(s->channel, known));
        return DF_OK;
    }
    df_outbox_status_names(s->channel, names);
    return df_err_set(err, DF_E_USAGE, "--status must be %s", names);
}

static enum df_code find_text(const char *option, const char *given, size_t most,
                              struct df_str *ret, struct df_err *err)
{
    *ret = df_str_c(given);
    if (given && (ret->len == 0 || df_utf8_valid_prefix(*ret) < ret->len))
        return df_err_set(err, DF_E_USAGE, "--%s must be text", option);
    if (given && df_utf8_count(*ret) > most)
        return df_err_set(err, DF_E_USAGE, "--%s has more than %zu characters", option, most);
    return DF_OK;
}

static enum df_code find_time(const char *option, const char *given, int64_t *ret,
                              struct df_err *err)
{
    *ret = -1;
    if (given && (!df_time_parse(df_str_c(given), ret) || *ret < 0))
        return df_err_set(err, DF_E_USAGE, "--%s must be a time like 2026-11-15T00:00:00Z", option);
    return DF_OK;
}

static enum df_code find_filter(struct session *s, struct df_err *err)
{
    struct df_outbox_filter *f = &s->filter;
    enum df_code code = find_text("target", s->target, DF_OUTBOX_TARGET_MAX, &f->target, err);

    if (code == DF_OK)
        code = find_text("error", s->error, DF_OUTBOX_ERROR_MAX, &f->error, err);
    if (code == DF_OK)
        code = find_time("since", s->since, &f->since_ms, err);
    if (code == DF_OK)
        code = find_time("until", s->until, &f->until_ms, err);
    f->target = df_outbox_target_name(f->target);
    return code == DF_OK ? find_status(s, err) : code;
}

static enum df_code list_rows(struct session *s, struct df_err *err)
{
    if (s->channel) {
        snprintf(s->list, sizeof s->list, "outbox/%s", s->channel->name);
        s->page.list = s->list;
    }
    if (s->channel && s->json)
        return df_outbox_json_page(s->db, NULL, s->channel, &s->filter, &s->page, &s->jout, err);
    if (s->channel)
        return print_page(s, err);
    if (s->json)
        return df_outbox_json_overview(s->db, s->app.delivery, &s->jout, err);
    return print_overview(s, err);
}

static enum df_code perform_outbox(struct session *s, int operands, char **argv, struct df_err *err)
{
    struct df_str id = df_str_c(operands > 2 ? argv[2] : NULL);
    bool pausing = strcmp(argv[0], "pause") == 0 || strcmp(argv[0], "resume") == 0;
    make_channels(s);
    s->change = strcmp(argv[0], "dismiss") == 0 ? DF_OUTBOX_DISMISS : DF_OUTBOX_RETRY;
    s->pausing = pausing ? argv[1] : NULL;
    bool other = pausing && df_outbox_can_pause(s->app.delivery, df_str_c(argv[1]));
    enum df_code code = operands > 1 && !other ? find_channel(s, argv[1], err) : DF_OK;
    if (code == DF_OK)
        code = find_filter(s, err);
    if (code == DF_OK)
        code = df_open_audited(&s->settings, s->settings.store.migrate, &s->db, err);
    if (code != DF_OK)
        return code;
    if (strcmp(argv[0], "list") == 0)
        code = list_rows(s, err);
    else if (pausing)
        code = pause_rows(s, argv[0], err);
    else if (strcmp(argv[0], "retry") == 0 || strcmp(argv[0], "dismiss") == 0)
        code = id.ptr ? change_row(s, id, err) : change_many(s, err);
    else if (s->json)
        code = df_outbox_json_row(s->db, s->channel, id,
                                  &(struct df_outbox_look){.now_ms = df_wall_ms(s->clock)},
                                  &s->jout, err);
    else
        code = print_detail(s, id, err);
    if (code == DF_OK && s->json)
        df_buf_addc(&s->out, '\n');
    if (code == DF_OK && df_buf_failed(&s->out))
        code = df_err_set(err, DF_E_INTERNAL, "more than %d bytes to show", OUTPUT_MAX);
    return code;
}

/* Which options and operands a verb takes. */
static bool is_verb(const struct session *s, const char *verb, int operands, bool paged)
{
    bool listed = s->status_given || s->given_up || paged;
    bool filtered = s->target || s->error || s->since || s->until;

    if (strcmp(verb, "list") == 0)
        return !s->all && !s->dry_run && !(s->status_given && s->given_up) &&
               (operands == 2 || (operands == 1 && !listed && !filtered));
    if (listed)
        return false;
    if (strcmp(verb, "show") == 0)
        return operands == 3 && !s->all && !s->dry_run && !filtered;
    if (strcmp(verb, "pause") == 0 || strcmp(verb, "resume") == 0)
        return operands == 2 && !s->all && !s->dry_run && !s->error && !s->since && !s->until;
    if (strcmp(verb, "retry") != 0 && strcmp(verb, "dismiss") != 0)
        return false;
    if (operands == 3)
        return !s->all && !s->dry_run && !filtered;
    return (operands == 1 || operands == 2) && (s->all || filtered);
}

static bool read_page(struct session *s, const char *page, const char *size)
{
    s->page = (struct df_page){.page = 1, .size = DF_PAGE_SIZE_DEFAULT};
    if (!df_cli_int(&df_cmd_outbox, "page", page, 1, 1000000000, &s->page.page) ||
        !df_cli_int(&df_cmd_outbox, "page-size", size, 1, DF_PAGE_SIZE_MAX, &s->page.size))
        return false;
    s->page.offset = (s->page.page - 1) * s->page.size;
    return true;
}

static int run_outbox(int argc, char **argv)
{
    const char *page = NULL, *size = NULL;
    struct session s = {.clock = df_clock_real()};
    const struct df_option options[] = {
        {.name = "status", .kind = DF_OPT_VALUE, .value = &s.status_given},
        {.name = "page", .kind = DF_OPT_VALUE, .value = &page},
        {.name = "page-size", .kind = DF_OPT_VALUE, .value = &size},
        {.name = "given-up", .kind = DF_OPT_FLAG, .flag = &s.given_up},
        {.name = "target", .kind = DF_OPT_VALUE, .value = &s.target},
        {.name = "error", .kind = DF_OPT_VALUE, .value = &s.error},
        {.name = "since", .kind = DF_OPT_VALUE, .value = &s.since},
        {.name = "until", .kind = DF_OPT_VALUE, .value = &s.until},
        {.name = "all", .kind = DF_OPT_FLAG, .flag = &s.all},
        {.name = "dry-run", .kind = DF_OPT_FLAG, .flag = &s.dry_run},
        {.name = "json", .kind = DF_OPT_FLAG, .flag = &s.json},
    };
    struct df_cli_config config = {0};
    int operands = df_cli_parse(&df_cmd_outbox, argc, argv, options,
                                sizeof options / sizeof options[0], &config);
    if (operands < 0)
        return DF_EXIT_USAGE;
    if (operands == 0 || !is_verb(&s, argv[0], operands, page || size)) {
        df_cli_complain(&df_cmd_outbox, "usage: dataflow outbox %s", df_cmd_outbox.usage);
        return DF_EXIT_USAGE;
    }
    if (!read_page(&s, page, size) || !df_cli_settings(&config, &s.settings))
        return DF_EXIT_USAGE;
    df_demo_adopt(&s.settings);
    /* The list tells that a channel is not configured, so there is no warning. */
    df_log_init(DF_LOG_ERROR, DF_LOG_AUTO, s.clock);
    df_buf_init(&s.out, OUTPUT_MAX);
    df_buf_init(&s.payload, OUTPUT_MAX);
    df_json_out_init(&s.jout, &s.out);

    struct df_err err = DF_ERR_INIT;
    enum df_code code = perform_outbox(&s, operands, argv, &err);
    df_close_audited(&s.settings, s.db, true);
    free_channels(&s);
    df_settings_release(&s.settings);
    df_buf_release(&s.payload);
    if (code == DF_OK)
        return df_cli_print(&s.out);
    df_buf_release(&s.out);
    return df_cli_result(&df_cmd_outbox, code, &err);
}

const struct df_command df_cmd_outbox = {
    .name = "outbox",
    .usage = "list [--json] | list CHANNEL [--status S | --given-up] [FILTER] [--page N] "
             "[--page-size N] "
             "[--json] |\n"
             "                show CHANNEL ID [--json] | retry CHANNEL ID [--json] |\n"
             "                retry [CHANNEL] (FILTER | --all) [--dry-run] [--json] |\n"
             "                dismiss CHANNEL ID [--json] |\n"
             "                dismiss [CHANNEL] (FILTER | --all) [--dry-run] [--json] |\n"
             "                pause CHANNEL [--target T] [--json] | resume CHANNEL [--target T] "
             "[--json]\n"
             "  FILTER:       [--target T] [--error TEXT] [--since TIME] [--until TIME]",
    .summary = "what is waiting, what failed, try again",
    .help =
        "Channels: functional-ack, ticket-return, ticket-gateway, integrations, webhooks, alerts, "
        "with\n"
        "the status\n"
        "Pending, Sending, Sent, Error;\n"
        "events, the server's own, with PENDING, PROCESSED, FAILED.\n"
        "What is in Error with a next attempt is tried again by itself; without one it was given "
        "up and\n"
        "waits for retry, which starts it over, or for dismiss: nobody wants it any more, and it "
        "is\n"
        "removed as what was sent is. --dry-run tells how many rows would be taken.\n"
        "A target is a URL without its query, or the name of an integration, a sink or (channel "
        "relay)\n"
        "a relay; --error is part of the last error; --since and --until are about the last try.\n"
        "What is paused is not sent until it is resumed. Works on the database directly; a running "
        "server\n"
        "follows within a second.",
    .run = run_outbox,
};
