/* dataflow webhook: verifies webhooks as a receiver does, for receivers whose own code does not do
 * it yet. */
#include "app/cli.h"
#include "base/secret.h"
#include "delivery/verify.h"
#include "json/write.h"

#include <errno.h>
#include <stdio.h>

#define REQUEST_MAX (8 << 20)
#define SECRETS_MAX 4096
#define OUTPUT_MAX  (64 << 10)

static bool read_all(const char *path, struct df_buf *out)
{
    bool input = strcmp(path, "-") == 0;
    FILE *f = input ? stdin : fopen(path, "re");
    char piece[4096];
    size_t n;

    if (!f) {
        df_cli_complain(&df_cmd_webhook, "%s: %s", path, strerrordesc_np(errno));
        return false;
    }
    while (!df_buf_failed(out) && (n = fread(piece, 1, sizeof(piece), f)) > 0)
        df_buf_add(out, piece, n);
    bool bad = ferror(f);
    if (bad)
        df_cli_complain(&df_cmd_webhook, "%s: %s", path, strerrordesc_np(errno));
    else if (df_buf_failed(out))
        df_cli_complain(&df_cmd_webhook, "%s is longer than %zu bytes", path, out->max);
    df_wipe(piece, sizeof(piece));
    if (!input)
        (void)fclose(f);
    return !bad && !df_buf_failed(out);
}

/* `secrets` has one secret a line: during a rotation there are two, and each signature must match
 * one of them. */
static bool verify_with_secrets(struct df_str secrets, const struct df_signed *m,
                                int64_t tolerance_s, struct df_verify_result ret[DF_VERIFY_KINDS])
{
    int64_t now_s = df_wall_ms(df_clock_real()) / 1000;
    bool any = false;

    while (secrets.ptr) {
        struct df_verify_result v[DF_VERIFY_KINDS];
        struct df_str secret;
        secrets = df_str_cut(secrets, '\n', &secret);
        secret = df_str_trim(secret);
        if (secret.len == 0)
            continue;
        df_verify(secret, m, now_s, tolerance_s, v);
        for (int i = 0; i < DF_VERIFY_KINDS; i++)
            if (!any || !v[i].why)
                ret[i] = v[i];
        any = true;
    }
    return any;
}

static const char *verdict_of(const struct df_verify_result *v)
{
    return v->why ? "bad" : v->present ? "ok" : "missing";
}

static void add_json(struct df_buf *out, const struct df_verify_result v[DF_VERIFY_KINDS],
                     bool good)
{
    struct df_json_out j;
    df_json_out_init(&j, out);
    df_json_open(&j, '{');
    df_json_kv_bool(&j, "verified", good);
    df_json_key(&j, "signatures");
    df_json_open(&j, '[');
    for (int i = 0; i < DF_VERIFY_KINDS; i++) {
        df_json_open(&j, '{');
        df_json_kv_text(&j, "name", df_str_c(df_verify_kind_name((enum df_verify_kind)i)));
        df_json_kv_text(&j, "verdict", df_str_c(verdict_of(&v[i])));
        df_json_kv_text(&j, "reason", df_str_c(v[i].why));
        df_json_close(&j, '}');
    }
    df_json_close(&j, ']');
    df_json_close(&j, '}');
    df_buf_addc(out, '\n');
}

/* The exit status: whether there is a signature and none is bad. */
static int print_verdicts(const struct df_verify_result v[DF_VERIFY_KINDS], bool json)
{
    bool present = false;
    bool good = true;
    struct df_buf out;

    df_buf_init(&out, OUTPUT_MAX);
    for (int i = 0; i < DF_VERIFY_KINDS; i++) {
        present |= v[i].present;
        good &= !v[i].why;
    }
    if (json)
        add_json(&out, v, present && good);
    for (int i = 0; !json && i < DF_VERIFY_KINDS; i++) {
        df_cli_cell(&out, df_verify_kind_name((enum df_verify_kind)i), 24);
        df_cli_cell(&out, verdict_of(&v[i]), 0);
        df_buf_addz(&out, v[i].why ? ": " : "");
        df_cli_say(&out, "%s\n", v[i].why ? v[i].why : "");
    }
    int printed = df_cli_print(&out);
    return printed == DF_EXIT_OK && !(present && good) ? DF_EXIT_FAILED : printed;
}

static int verify_files(const char *secret_file, const char *path, int64_t tolerance_s, bool json)
{
    struct df_verify_result v[DF_VERIFY_KINDS];
    struct df_err err = DF_ERR_INIT;
    struct df_signed m;
    struct df_buf secrets;
    struct df_buf request;
    int status = DF_EXIT_USAGE;

    df_buf_init(&secrets, SECRETS_MAX);
    df_buf_init(&request, REQUEST_MAX);
    if (!read_all(secret_file, &secrets) || !read_all(path, &request))
        goto out;
    if (df_verify_parse(df_buf_str(&request), &m, &err) != DF_OK)
        df_cli_complain(&df_cmd_webhook, "%s: %s", path, err.detail);
    else if (!verify_with_secrets(df_buf_str(&secrets), &m, tolerance_s, v))
        df_cli_complain(&df_cmd_webhook, "%s is empty", secret_file);
    else
        status = print_verdicts(v, json);
out:
    if (secrets.ptr)
        df_wipe(secrets.ptr, secrets.len);
    df_buf_release(&secrets);
    df_buf_release(&request);
    return status;
}

static int run_webhook(int argc, char **argv)
{
    const char *secret_file = NULL;
    const char *tolerance = "300";
    int64_t tolerance_s;
    bool json = false;
    const struct df_option options[] = {
        {.name = "secret-file", .kind = DF_OPT_VALUE, .value = &secret_file},
        {.name = "tolerance", .kind = DF_OPT_VALUE, .value = &tolerance},
        {.name = "json", .kind = DF_OPT_FLAG, .flag = &json},
    };
    int operands = df_cli_parse(&df_cmd_webhook, argc, argv, options, 3, NULL);

    if (operands < 0)
        return DF_EXIT_USAGE;
    if (operands != 2 || strcmp(argv[0], "verify") != 0 || !secret_file) {
        df_cli_complain(&df_cmd_webhook, "usage: dataflow webhook %s", df_cmd_webhook.usage);
        return DF_EXIT_USAGE;
    }
    if (!df_cli_int(&df_cmd_webhook, "tolerance", tolerance, 0, INT32_MAX, &tolerance_s))
        return DF_EXIT_USAGE;
    return verify_files(secret_file, argv[1], tolerance_s, json);
}

const struct df_command df_cmd_webhook = {
    .name = "webhook",
    .usage = "verify --secret-file FILE [--tolerance SECONDS] [--json] REQUEST|-",
    .summary = "verify the signatures of a webhook that was saved to a file",
    .help =
        "REQUEST is a request as it came: a request line or none, headers, an empty line, the\n"
        "body, byte for byte; - reads it from standard input. FILE holds the secret; where it\n"
        "holds several, a line each, any of them will do.\n\n"
        "Tells of each signature whether it is ok, bad or missing. Exit status 0: there is one\n"
        "and none is bad; 1: not so; 2: there was nothing to verify. Timestamps may be SECONDS\n"
        "(300) from now; with 0 they may be any.",
    .run = run_webhook,
};
