#include "app/cli.h"
#include "app/signals.h"
#include "sandbox/sandbox.h"

#include <stdio.h>

static int run_sandbox(int argc, char **argv)
{
    struct df_sandbox_options opt = {.clock = df_clock_real()};
    const char *ack_delay = NULL, *callback_delay = NULL, *keep = NULL, *threads = NULL;
    const struct df_option options[] = {
        {.name = "listen", .kind = DF_OPT_VALUE, .value = &opt.listen},
        {.name = "server", .kind = DF_OPT_VALUE, .value = &opt.server_url},
        {.name = "client-id", .kind = DF_OPT_VALUE, .value = &opt.client_id},
        {.name = "client-secret", .kind = DF_OPT_VALUE, .value = &opt.client_secret},
        {.name = "ca-file", .kind = DF_OPT_VALUE, .value = &opt.ca_file},
        {.name = "mode", .kind = DF_OPT_VALUE, .value = &opt.mode},
        {.name = "ack-delay-ms", .kind = DF_OPT_VALUE, .value = &ack_delay},
        {.name = "callback-delay-ms", .kind = DF_OPT_VALUE, .value = &callback_delay},
        {.name = "webhook-secret", .kind = DF_OPT_VALUE, .value = &opt.webhook_secret},
        {.name = "keep", .kind = DF_OPT_VALUE, .value = &keep},
        {.name = "threads", .kind = DF_OPT_VALUE, .value = &threads},
        {.name = "no-record", .kind = DF_OPT_FLAG, .flag = &opt.no_record},
    };
    int operands = df_cli_parse(&df_cmd_sandbox, argc, argv, options,
                                sizeof options / sizeof options[0], NULL);
    int64_t keep_count = 0;
    if (operands > 0)
        df_cli_complain(&df_cmd_sandbox, "unexpected argument \"%s\"", argv[0]);
    if (operands != 0 ||
        !df_cli_int(&df_cmd_sandbox, "ack-delay-ms", ack_delay, 0, 3600000, &opt.ack_delay_ms) ||
        !df_cli_int(&df_cmd_sandbox, "callback-delay-ms", callback_delay, 0, 3600000,
                    &opt.callback_delay_ms) ||
        !df_cli_int(&df_cmd_sandbox, "keep", keep, 1, 1000000, &keep_count) ||
        !df_cli_int(&df_cmd_sandbox, "threads", threads, 1, 64, &opt.threads))
        return DF_EXIT_USAGE;
    opt.keep = (size_t)keep_count;

    df_signals_block();
    df_log_init(DF_LOG_INFO, DF_LOG_AUTO, df_clock_real());
    df_log_adopt_stderr();
    struct df_err err = DF_ERR_INIT;
    struct df_sandbox *sandbox = NULL;
    enum df_code code = df_sandbox_start(&opt, &sandbox, &err);
    if (code != DF_OK) {
        df_log_return_stderr();
        return df_cli_result(&df_cmd_sandbox, code, &err);
    }
    struct df_buf out;
    df_buf_init(&out, 1024);
    df_cli_say(&out, "sandbox on http://%s/\n", df_sandbox_address(sandbox));
    (void)df_cli_print(&out);
    df_signals_wait(NULL, NULL);
    df_sandbox_stop(sandbox);
    return DF_EXIT_OK;
}

const struct df_command df_cmd_sandbox = {
    .name = "sandbox",
    .usage = "[--listen ADDR] [--server URL --client-id ID --client-secret SECRET] ...",
    .summary = "play the outside world: OmniFlow, gateway, webhook receiver, payments",
    .help = "Acks and callbacks are sent only with --server, --client-id and --client-secret.\n"
            "GET / tells its calls; docs/sandbox.md more.",
    .run = run_sandbox,
};
