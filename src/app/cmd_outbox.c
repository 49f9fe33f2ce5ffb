/* dataflow outbox: the operations of /admin/outbox, directly on the database. */
#include "admin/outbox.h"
#include "alerts/alerts.h"
#include "app/app.h"
#include "app/cli.h"
#include "app/database.h"
#include "base/uuid.h"
#include "integrations/integrations.h"
#include "interface/interface.h"
#include "webhooks/webhooks.h"

#include <stdio.h>
#include <unistd.h>

#define OUTPUT_MAX (256 << 20)
#define ERROR_CUT  60 /* characters of an error in a table */
#define TRIES      5

struct session {
    struct df_settings settings;
    const struct df_clock *clock;
    struct df_app app; /* has the channels and an engine that knows them, never started */
    const struct df_channel *channel;
    struct df_db *db;
    const char *status_given; /* NULL: any */
    struct df_str status;     /* the same, as the channel calls it */
    struct df_page page;
    bool all;
    bool json;
    size_t attempts; /* shown so far */
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
    df_buf_addf(out, "%-13s ", name);
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
    df_buf_addf(&s->out, "%-16s %9s %9s %9s %9s  %s\n", "CHANNEL", "PENDING", "SENDING", "SENT",
                "ERROR", "OLDEST PENDING");
    for (size_t i = 0; i < df_delivery_channels(s->app.delivery); i++) {
        const struct df_channel *c = df_delivery_channel(s->app.delivery, i);
        struct df_outbox_counts counts = {0};
        enum df_code code = df_outbox_count(s->db, c, &counts, err);
        if (code != DF_OK)
            return code;
        df_buf_addf(&s->out, "%-16s", c->name);
        for (size_t k = 0; k < DF_OUTBOX_STATUSES; k++) {
            if (df_outbox_status_name(c, (enum df_outbox_status)k))
                df_buf_addf(&s->out, " %9lld", (long long)counts.rows[k]);
            else
                df_buf_addf(&s->out, " %9s", "-");
        }
        df_buf_addz(&s->out, "  ");
        add_time(&s->out, counts.oldest_pending_ms);
        if (c->missing)
            df_buf_addf(&s->out, "  waits for %s to be set", c->missing);
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
    df_buf_addf(&s->out, "%-*.*s %-9.*s %8lld  ", id_width(s), (int)row->id.len, row->id.ptr,
                (int)row->status.len, row->status.ptr, (long long)row->attempts);
    add_time(&s->out, row->created_ms);
    df_buf_addz(&s->out, "  ");
    add_time(&s->out, row->due_ms);
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
    df_buf_addf(&s->out, "%-*s %-9s %8s  %-*s  %-*s  %s\n", id_width(s), "ID", "STATUS", "ATTEMPTS",
                DF_TIME_LEN, "CREATED", DF_TIME_LEN, "NEXT ATTEMPT", "REFERENCE, LAST ERROR");
    enum df_code code = df_outbox_list(s->db, s->channel, s->status, &s->page, &view, err);
    int64_t pages = (s->page.total + s->page.size - 1) / s->page.size;
    if (code == DF_OK && pages > 1)
        df_buf_addf(&s->out, "page %lld of %lld, %lld rows\n", (long long)s->page.page,
                    (long long)pages, (long long)s->page.total);
    return code;
}

static void print_row(void *arg, const struct df_outbox_row *row)
{
    struct session *s = arg;
    char attempts[24];
    snprintf(attempts, sizeof attempts, "%lld", (long long)row->attempts);
    add_field(&s->out, "channel", df_str_c(s->channel->name));
    add_field(&s->out, "id", row->id);
    add_field(&s->out, "reference", row->reference);
    if (row->correlation_id.ptr)
        add_field(&s->out, "correlation", row->correlation_id);
    add_field(&s->out, "target", row->target);
    add_field(&s->out, "status", row->status);
    add_field(&s->out, "attempts", df_str_c(attempts));
    add_time_field(&s->out, "created", row->created_ms);
    add_time_field(&s->out, "last attempt", row->last_attempt_ms);
    add_time_field(&s->out, "sent", row->sent_ms);
    add_time_field(&s->out, "next attempt", row->due_ms);
    add_field(&s->out, "last error", row->error);
    /* Copied, since it is shown at the end, when the row is gone. */
    add_clean(&s->payload, row->payload, true);
}

static void print_attempt(void *arg, const struct df_outbox_attempt *a)
{
    struct session *s = arg;
    if (s->attempts++ == 0)
        df_buf_addf(&s->out, "\n%-8s %-*s  %-7s %6s %9s  %s\n", "ATTEMPT", DF_TIME_LEN, "AT",
                    "OUTCOME", "STATUS", "MS", "ERROR OR ANSWER");
    df_buf_addf(&s->out, "%-8lld ", (long long)a->attempt);
    add_time(&s->out, a->attempted_ms);
    df_buf_addf(&s->out, "  %-7.*s ", (int)a->outcome.len, a->outcome.ptr);
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
    df_buf_addz(&s->out, "\npayload\n");
    df_buf_adds(&s->out, df_buf_str(&s->payload));
    df_buf_addc(&s->out, '\n');
    return DF_OK;
}

/* --- retry --- */

static enum df_code retry_once(struct session *s, struct df_str id, int64_t *ret_retried,
                               struct df_err *err)
{
    char name[80];
    struct df_actor by = df_cli_actor(name, sizeof name);
    int64_t now_ms = df_wall_ms(s->clock);
    enum df_code code = df_db_begin(s->db, true, err);
    if (code != DF_OK)
        return code;
    if (s->all)
        code = df_outbox_retry_all(s->db, s->channel, &by, now_ms, ret_retried, err);
    else
        code = df_outbox_retry(s->db, s->channel, id, &by, now_ms, err);
    if (code == DF_OK)
        return df_db_commit(s->db, err);
    df_db_rollback(s->db);
    return code;
}

static enum df_code retry_rows(struct session *s, struct df_str id, struct df_err *err)
{
    int64_t retried = 0;
    enum df_code code = DF_E_DB_CONFLICT;
    /* A running server works on the same rows. */
    for (int i = 0; i < TRIES && df_code_retry(code) == DF_RETRY_NOW; i++)
        code = retry_once(s, id, &retried, err);
    if (code != DF_OK)
        return code;
    if (s->json && s->all)
        df_outbox_json_retried_all(retried, &s->jout);
    else if (s->json)
        df_outbox_json_retried(s->channel, id, &s->jout);
    else if (s->all)
        df_buf_addf(&s->out, "%lld rows of %s are to be sent again\n", (long long)retried,
                    s->channel->name);
    else
        df_buf_addf(&s->out, "%s " DF_STR_FMT " is to be sent again\n", s->channel->name,
                    DF_STR_ARG(id));
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
    enum df_outbox_status known;
    char names[DF_OUTBOX_NAMES_SIZE];

    if (!s->status_given)
        return DF_OK;
    if (df_outbox_status_parse(s->channel, df_str_c(s->status_given), &known)) {
        s->status = df_str_c(df_outbox_status_name(s->channel, known));
        return DF_OK;
    }
    df_outbox_status_names(s->channel, names);
    return df_err_set(err, DF_E_USAGE, "--status must be %s", names);
}

static enum df_code list_rows(struct session *s, struct df_err *err)
{
    if (s->channel && s->json)
        return df_outbox_json_page(s->db, s->channel, s->status, &s->page, &s->jout, err);
    if (s->channel)
        return print_page(s, err);
    if (s->json)
        return df_outbox_json_overview(s->db, s->app.delivery, &s->jout, err);
    return print_overview(s, err);
}

static enum df_code perform_outbox(struct session *s, int operands, char **argv, struct df_err *err)
{
    struct df_str id = df_str_c(operands > 2 ? argv[2] : NULL);
    make_channels(s);
    enum df_code code = operands > 1 ? find_channel(s, argv[1], err) : DF_OK;
    if (code == DF_OK)
        code = find_status(s, err);
    if (code == DF_OK)
        code = df_open_database(&s->settings, s->settings.store.migrate, &s->db, NULL, err);
    if (code != DF_OK)
        return code;
    if (strcmp(argv[0], "list") == 0)
        code = list_rows(s, err);
    else if (strcmp(argv[0], "retry") == 0)
        code = retry_rows(s, id, err);
    else if (s->json)
        code = df_outbox_json_row(s->db, s->channel, id, &s->jout, err);
    else
        code = print_detail(s, id, err);
    if (code == DF_OK && s->json)
        df_buf_addc(&s->out, '\n');
    if (code == DF_OK && df_buf_failed(&s->out))
        code = df_err_set(err, DF_E_INTERNAL, "more than %d bytes to show", OUTPUT_MAX);
    return code;
}

static bool is_verb(const struct session *s, const char *verb, int operands, bool filtered)
{
    if (strcmp(verb, "list") == 0)
        return !s->all && (operands == 2 || (operands == 1 && !filtered));
    if (strcmp(verb, "show") == 0)
        return operands == 3 && !s->all && !filtered;
    return strcmp(verb, "retry") == 0 && operands == (s->all ? 2 : 3) && !filtered;
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
        {.name = "all", .kind = DF_OPT_FLAG, .flag = &s.all},
        {.name = "json", .kind = DF_OPT_FLAG, .flag = &s.json},
    };
    struct df_cli_config config = {0};
    int operands = df_cli_parse(&df_cmd_outbox, argc, argv, options, 5, &config);
    if (operands < 0)
        return DF_EXIT_USAGE;
    if (operands == 0 || !is_verb(&s, argv[0], operands, s.status_given || page || size)) {
        df_cli_complain(&df_cmd_outbox, "usage: dataflow outbox %s", df_cmd_outbox.usage);
        return DF_EXIT_USAGE;
    }
    if (!read_page(&s, page, size) || !df_cli_settings(&config, &s.settings))
        return DF_EXIT_USAGE;
    /* The list tells that a channel is not configured, so there is no warning. */
    df_log_init(DF_LOG_ERROR, DF_LOG_AUTO, s.clock);
    df_buf_init(&s.out, OUTPUT_MAX);
    df_buf_init(&s.payload, OUTPUT_MAX);
    df_json_out_init(&s.jout, &s.out);

    struct df_err err = DF_ERR_INIT;
    enum df_code code = perform_outbox(&s, operands, argv, &err);
    df_db_close(s.db);
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
    .usage = "list [--json] | list CHANNEL [--status S] [--page N] [--page-size N] [--json] |\n"
             "                show CHANNEL ID [--json] | retry CHANNEL (ID | --all) [--json]",
    .summary = "what is waiting, what failed, try again",
    .help =
        "Channels: functional-ack, ticket-return, ticket-gateway, integrations, webhooks, alerts, "
        "with\n"
        "the status\n"
        "Pending, Sending, Sent, Error;\n"
        "events, the server's own, with PENDING, PROCESSED, FAILED.\n"
        "What is in Error with a next attempt is tried again by itself; without one it waits for "
        "retry,\n"
        "which gives it all its attempts again. Works on the database directly; a running server "
        "takes it\n"
        "up within a second.",
    .run = run_outbox,
};
