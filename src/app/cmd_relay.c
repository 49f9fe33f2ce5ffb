/* dataflow relay: runs a relay alone, shows the status of relays, makes the trigger that wakes
 * one. */
#include "app/app.h"
#include "app/cli.h"
#include "app/signals.h"
#include "app/system_routes.h"
#include "base/metrics.h"
#include "relay/relay.h"
#include "json/write.h"

#include <stdio.h>

#define OUTPUT_MAX (1 << 20)

static const struct df_relay_settings *find_relay(const struct df_settings *s, const char *name)
{
    for (size_t i = 0; i < s->relay_count; i++) {
        if (df_str_eq(df_str_c(s->relays[i].name), df_str_c(name)))
            return &s->relays[i];
    }
    df_cli_complain(&df_cmd_relay, "there is no section [relay.%s] in the configuration", name);
    return NULL;
}

/* --- run --- */

/* There is no key: everyone who can reach the address may read the figures, and there is nothing
 * else. */
static enum df_code listen_http(const struct df_settings *s, const char *address,
                                struct df_access *access, struct df_http_server **ret,
                                struct df_err *err)
{
    const struct df_route_table tables[] = {{df_probe_routes, NULL}, {NULL, NULL}};
    const struct df_http_options opt = {.settings.listen = address,
                                        .settings.threads = 1,
                                        .settings.max_connections = 64,
                                        .clock = access->clock,
                                        .tables = tables,
                                        .arg = access};

    if (!address)
        return DF_OK;
    if (s->security.require_tls && !df_http_is_loopback(address))
        return df_err_set(err, DF_E_CONFIG,
                          "server.require_tls is on: --listen must be an address of loopback");
    df_metric_register_process(DF_VERSION);
    df_system_started(df_mono_ms(access->clock));
    enum df_code code = df_http_start(&opt, ret, err);
    if (code == DF_OK) {
        struct df_log_field fields[] = {DF_F("address", df_str_c(df_http_address(*ret)))};
        df_log_write(DF_LOG_INFO, "MetricsListening", fields, 1, "figures on http://%s/metrics",
                     df_http_address(*ret));
    }
    return code;
}

struct relay_run {
    struct df_app app; /* first: parts get a pointer to it */
    const struct df_relay_settings *settings;
    struct df_relay *relay;
};

static enum df_code start_relay(struct df_app *app, struct df_err *err)
{
    struct relay_run *run = (struct relay_run *)app;

    (void)err;
    run->relay = df_relay_start(
        &(struct df_relay_options){.settings = run->settings,
                                   .outbound = &app->outbound,
                                   .clock = app->access.clock,
                                   .give_up_ms = app->settings->delivery.give_up_ms});
    return DF_OK;
}

static void stop_relay(struct df_app *app, int64_t deadline_ms)
{
    df_relay_stop(((struct relay_run *)app)->relay, df_parts_left_ms(deadline_ms));
}

static void end_relay(struct df_app *app)
{
    df_relay_end(((struct relay_run *)app)->relay);
}

static void free_relay(struct df_app *app)
{
    df_relay_free(((struct relay_run *)app)->relay);
}

static const struct df_part part_relay = {
    .start = start_relay, .stop = stop_relay, .end = end_relay, .free = free_relay};
static const struct df_part *const relay_parts[] = {&df_part_outbound, &part_relay, NULL};

static void reload_authorities(void *arg)
{
    (void)arg;
    df_security_look(true);
}

static enum df_code run_relay(const struct df_settings *s, const struct df_relay_settings *relay,
                              const char *listen, struct df_err *err)
{
    struct relay_run run = {.app = {.settings = s, .access.clock = df_clock_real()},
                            .settings = relay};
    struct df_parts parts = {.table = relay_parts};
    struct df_http_server *http = NULL;

    df_signals_block();
    df_log_init((enum df_log_level)s->log.level, (enum df_log_format)s->log.format,
                run.app.access.clock);
    df_log_adopt_stderr();
    enum df_code code = listen_http(s, listen, &run.app.access, &http, err);
    if (code == DF_OK)
        code = df_parts_start(&parts, &run.app, s->roles, err);
    if (code == DF_OK)
        df_signals_wait(reload_authorities, NULL);
    df_parts_stop(&parts, &run.app, df_mono_ms(df_clock_real()) + s->drain_ms);
    df_http_stop(http); /* before the relay that it reports on is freed */
    df_parts_free(&parts, &run.app);
    df_log_return_stderr();
    return code;
}

/* --- status --- */

static void add_json(struct df_json_out *j, const struct df_relay_status *st, bool right,
                     struct df_str problem)
{
    df_json_open(j, '{');
    df_json_kv_text(j, "name", df_str_c(st->name));
    df_json_kv_text(j, "source", df_str_c(st->source));
    df_json_kv_text(j, "table", df_str_c(st->table));
    df_json_kv_text(j, "dispatcher", df_str_c(st->dispatcher));
    df_json_kv_text(j, "target", st->target[0] ? df_str_c(st->target) : DF_STR_NULL);
    df_json_kv_text(j, "order", df_str_c(st->order));
    df_json_kv_bool(j, "tableRight", right);
    df_json_kv_int_if(j, "waiting", st->waiting >= 0, st->waiting);
    df_json_kv_time(j, "oldestAt", st->oldest_ms);
    df_json_kv_int_if(j, "failed", st->failed >= 0, st->failed);
    df_json_kv_text(j, "problem", problem.len > 0 ? problem : DF_STR_NULL);
    df_json_close(j, '}');
}

static void add_line(struct df_buf *out, const struct df_relay_status *st, struct df_str problem)
{
    char oldest[DF_TIME_LEN + 1] = "-";

    if (st->oldest_ms >= 0)
        df_time_format(st->oldest_ms, oldest);
    df_buf_addf(out, "%-16s %-9s %9lld %9lld  %-24s  %s %s\n", st->name, st->dispatcher,
                (long long)st->waiting, (long long)st->failed, oldest, st->source, st->table);
    struct df_arena a = {0};
    while (problem.len > 0) {
        struct df_str line;
        problem = df_str_cut(problem, '\n', &line);
        df_buf_addz(out, "  ");
        df_cli_say_behind(out, df_arena_cstr(&a, line));
    }
    df_arena_release(&a);
}

/* Shows all relays, or one. The exit status tells whether all of them can work. */
static int show_status(const struct df_settings *s, const char *name, bool json)
{
    struct df_buf out;
    struct df_json_out j;
    bool all_right = true;

    if (name && !find_relay(s, name))
        return DF_EXIT_USAGE;
    df_log_init(DF_LOG_ERROR, DF_LOG_AUTO, df_clock_real());
    df_buf_init(&out, OUTPUT_MAX);
    df_json_out_init(&j, &out);
    if (json) {
        df_json_open(&j, '[');
    } else {
        df_cli_heads(&out, (const struct df_cli_head[]){{"RELAY", 16},
                                                        {"TO", 9},
                                                        {"WAITING", -9},
                                                        {"FAILED", -9},
                                                        {"", 0},
                                                        {"OLDEST", 25},
                                                        {"SOURCE", 0},
                                                        {0}});
    }
    for (size_t i = 0; i < s->relay_count; i++) {
        struct df_relay_status st;
        struct df_err err = DF_ERR_INIT;
        struct df_buf problems;
        if (name && strcmp(s->relays[i].name, name) != 0)
            continue;
        df_buf_init(&problems, 64 << 10);
        enum df_code code = df_relay_look(&s->relays[i], &st, &problems, &err);
        if (code != DF_OK && problems.len == 0)
            df_buf_addz(&problems, err.detail);
        all_right = all_right && code == DF_OK;
        if (json)
            add_json(&j, &st, code == DF_OK, df_str_trim(df_buf_str(&problems)));
        else
            add_line(&out, &st, df_buf_str(&problems));
        df_buf_release(&problems);
    }
    if (json) {
        df_json_close(&j, ']');
        df_buf_addc(&out, '\n');
    }
    int printed = df_cli_print(&out);
    return printed == DF_EXIT_OK && !all_right ? DF_EXIT_FAILED : printed;
}

/* --- install-trigger --- */

static int install_trigger(const struct df_relay_settings *relay, bool apply)
{
    struct df_err err = DF_ERR_INIT;
    struct df_buf out;

    df_log_init(DF_LOG_ERROR, DF_LOG_AUTO, df_clock_real());
    if (apply) {
        enum df_code code = df_relay_trigger_apply(relay, &err);
        if (code != DF_OK)
            return df_cli_result(&df_cmd_relay, code, &err);
        df_buf_init(&out, OUTPUT_MAX);
        df_cli_say(&out, "Every insert into %s now wakes the relay %s.\n", relay->table,
                   relay->name);
        return df_cli_print(&out);
    }
    df_buf_init(&out, OUTPUT_MAX);
    enum df_code code = df_relay_trigger_sql(relay, &out, &err);
    if (code == DF_OK)
        return df_cli_print(&out);
    df_buf_release(&out);
    return df_cli_result(&df_cmd_relay, code, &err);
}

static int perform_relay(const struct df_settings *s, int operands, char **argv, bool json,
                         bool apply, const char *listen)
{
    const char *name = operands > 1 ? argv[1] : NULL;
    struct df_err err = DF_ERR_INIT;

    if (listen && df_http_check_address(listen, &err) != DF_OK) {
        df_cli_complain(&df_cmd_relay, "--metrics-listen: %s", err.detail);
        return DF_EXIT_USAGE;
    }
    if (strcmp(argv[0], "status") == 0)
        return show_status(s, name, json);
    const struct df_relay_settings *relay = find_relay(s, name);
    if (!relay)
        return DF_EXIT_USAGE;
    if (strcmp(argv[0], "run") == 0)
        return df_cli_result(&df_cmd_relay, run_relay(s, relay, listen, &err), &err);
    return install_trigger(relay, apply);
}

static bool is_verb(const char *verb, int operands, bool json, bool apply, bool listens)
{
    if (listens && strcmp(verb, "run") != 0)
        return false;
    if (strcmp(verb, "status") == 0)
        return operands <= 2 && !apply;
    if (strcmp(verb, "run") == 0)
        return operands == 2 && !apply && !json;
    return strcmp(verb, "install-trigger") == 0 && operands == 2 && !json;
}

static int run_relay_command(int argc, char **argv)
{
    bool json = false, apply = false;
    const char *listen = NULL;
    const struct df_option options[] = {
        {.name = "json", .kind = DF_OPT_FLAG, .flag = &json},
        {.name = "apply", .kind = DF_OPT_FLAG, .flag = &apply},
        {.name = "metrics-listen", .kind = DF_OPT_VALUE, .value = &listen},
    };
    struct df_cli_config config = {0};
    struct df_settings settings;
    int operands = df_cli_parse(&df_cmd_relay, argc, argv, options, 3, &config);

    if (operands < 0)
        return DF_EXIT_USAGE;
    if (operands == 0 || !is_verb(argv[0], operands, json, apply, listen)) {
        df_cli_complain(&df_cmd_relay, "usage: dataflow relay %s", df_cmd_relay.usage);
        return DF_EXIT_USAGE;
    }
    if (!df_cli_settings(&config, &settings))
        return DF_EXIT_USAGE;
    int status = perform_relay(&settings, operands, argv, json, apply, listen);
    df_settings_release(&settings);
    return status;
}

const struct df_command df_cmd_relay = {
    .name = "relay",
    .usage = "run NAME [--metrics-listen ADDRESS:PORT] | status [NAME] [--json] | install-trigger "
             "NAME [--apply]",
    .summary = "bring the events of another application's outbox to where they belong",
    .help = "NAME is that of a section [relay.NAME] of the configuration. run ends at SIGTERM; the "
            "exit\n"
            "status of status is 1 if a source or its table is not right. install-trigger is for\n"
            "PostgreSQL, with notify_channel.",
    .run = run_relay_command,
};
