#include "app/cli.h"
#include "app/demo.h"
#include "app/server.h"
#include "app/signals.h"
#include "base/mem.h"

static void reload_files(void *server)
{
    df_server_reload(server);
}

int df_serve(const struct df_command *cmd, struct df_settings *take_settings,
             struct df_buf *take_warnings, const struct df_route *extra_routes,
             const char *demo_sandbox)
{
    struct df_demo *demo = NULL;
    struct df_server *server = NULL;
    struct df_err err = DF_ERR_INIT;
    enum df_code code = DF_OK;

    df_mem_return_large();
    df_signals_block();
    df_log_init((enum df_log_level)take_settings->log.level,
                (enum df_log_format)take_settings->log.format, df_clock_real());
    df_log_adopt_stderr();
    if (demo_sandbox)
        code = df_demo_prepare(take_settings, demo_sandbox, &demo, &err);
    else
        df_demo_forget(take_settings);
    struct df_server_options opt = {
        .settings = take_settings, .extra_routes = extra_routes, .take_warnings = take_warnings};
    if (code == DF_OK)
        code = df_server_start(&opt, &server, &err);
    if (code == DF_OK && demo)
        code = df_demo_start(demo, server, demo_sandbox, &err);
    if (code == DF_OK)
        df_signals_wait(reload_files, server);
    if (code == DF_E_CANCELLED) { /* by a signal, while it waited for a vault */
        df_log_info("ServerStopped", "%s", err.detail);
        code = DF_OK;
    }
    df_demo_stop(demo);
    df_server_stop(server);
    if (take_warnings) /* of a server that did not come so far */
        df_buf_release(take_warnings);
    df_settings_release(take_settings);
    df_log_return_stderr();
    return df_cli_result(cmd, code, &err);
}

static int run_serve(int argc, char **argv)
{
    bool demo_wanted = false;
    const char *sandbox_listen = "127.0.0.1:8090";
    const struct df_option options[] = {
        {.name = "demo", .kind = DF_OPT_FLAG, .flag = &demo_wanted},
        {.name = "sandbox-listen", .kind = DF_OPT_VALUE, .value = &sandbox_listen},
    };
    struct df_cli_config config = {0};
    int operands = df_cli_parse(&df_cmd_serve, argc, argv, options, 2, &config);
    if (operands != 0) {
        if (operands > 0)
            df_cli_complain(&df_cmd_serve, "unexpected argument \"%s\"", argv[0]);
        return DF_EXIT_USAGE;
    }
    struct df_settings settings;
    struct df_buf warnings;
    df_buf_init(&warnings, DF_CLI_WARNINGS_MAX);
    if (!df_cli_settings_warned(&config, &settings, &warnings)) {
        df_buf_release(&warnings);
        return DF_EXIT_USAGE;
    }
    return df_serve(&df_cmd_serve, &settings, &warnings, NULL, demo_wanted ? sandbox_listen : NULL);
}

const struct df_command df_cmd_serve = {
    .name = "serve",
    .usage = "[--config FILE] [--set section.key=value]... [--demo]\n"
             "                [--sandbox-listen ADDRESS:PORT]",
    .summary = "run the server",
    .help =
        "SIGTERM and SIGINT finish what is in hand (server.drain_seconds) and exit with 0; so does "
        "SIGHUP when the terminal closes. Otherwise SIGHUP reads certificates again.",
    .run = run_serve,
};
