#include "app/commands.h"

#include "access/clients.h"

#include <string.h>

#define JSON                                                                                       \
    {                                                                                              \
        .name = "json", .help = "one JSON document on standard output instead of text"             \
    }

const struct df_command_option df_config_options[] = {
    {"config", "FILE", NULL, "the configuration; DATAFLOW_CONFIG names it too"},
    {"set", "SECTION.KEY=VALUE", NULL, "a setting, over file and environment; may be repeated"},
    {.name = NULL},
};

/* clang-format off */
static const struct df_command_option serve_options[] = {
    {"demo", NULL, NULL, "start a sandbox beside it, make a demo client, and print commands to try"},
    {"sandbox-listen", "ADDRESS:PORT", NULL, "address of that sandbox [127.0.0.1:8090]"},
    {.name = NULL},
};

static const struct df_command_option migrate_options[] = {
    {"print", NULL, NULL, "write the scripts to standard output instead"},
    JSON,
    {.name = NULL},
};

static const struct df_command_option json_options[] = {JSON, {.name = NULL}};

static const struct df_command_option client_options[] = {
    {"name", "NAME", NULL, "what people call the client"},
    {"id", "ID", NULL, "its X-Client-Id; one is made if there is none"},
    {"scopes", "SCOPES", "interface callback imports acks events integrations interface-all", "what it may call, separated by commas [interface,imports]"},
    {"grace-seconds", "N", NULL, "how long the old secret is still good [0]"},
    JSON,
    {.name = NULL},
};
static const struct df_command_verb client_verbs[] = {
    {"create", "", "name id scopes json", "make a client and show its secret, this once"},
    {"list", "", "json", "all clients"},
    {"rotate-secret", "ID", "grace-seconds json", "give it a new secret"},
    {"suspend", "ID", "json", "refuse its calls"},
    {"activate", "ID", "json", "take its calls again"},
    {"set-scopes", "ID SCOPES", "json", "change what it may call"},
    {.name = NULL},
};

static const struct df_command_verb policy_verbs[] = {
    {"show", "CLIENT", "json", "the client's policy"},
    {"set", "CLIENT KEY=VALUE...", "json", "change it; `KEY=` clears a key"},
    {.name = NULL},
};

static const struct df_command_option import_options[] = {
    {"origin", "ORIGIN", NULL, "where the leads are from"},
    {"sheet", "SHEET", NULL, "the sheet of a workbook, by name"},
    {"batch", "ID", NULL, "a batch that was sent before, instead of a file"},
    {"watch", NULL, NULL, "follow it to its end"},
    {"server", "URL", NULL, "the server [http://127.0.0.1:8080]"},
    {"client-id", "ID", NULL, "the client; DATAFLOW_CLIENT_ID is better"},
    {"client-secret", "SECRET", NULL, "its secret; better in DATAFLOW_CLIENT_SECRET: command lines can be read"},
    JSON,
    {.name = NULL},
};

static const struct df_command_option outbox_options[] = {
    {"status", "STATUS", "Pending Sending Sent Error PENDING PROCESSED FAILED", "only rows in this state"},
    {"given-up", NULL, NULL, "only rows that were given up"},
    {"target", "TARGET", NULL, "a URL without its query, or the name of an integration, a sink or a relay"},
    {"error", "TEXT", NULL, "part of the last error, in any case"},
    {"since", "TIME", NULL, "last tried then or later, like 2026-11-15T00:00:00Z"},
    {"until", "TIME", NULL, "last tried before"},
    {"page", "N", NULL, "the page [1]"},
    {"page-size", "N", NULL, "rows on a page [20]"},
    {"all", NULL, NULL, "everything that failed"},
    {"dry-run", NULL, NULL, "tell how many rows it would be, and change nothing"},
    JSON,
    {.name = NULL},
};
static const struct df_command_verb outbox_verbs[] = {
    {"list", "[CHANNEL]", "status given-up target error since until page page-size json", "what waits and what failed: all channels, or the rows of one"},
    {"show", "CHANNEL ID", "json", "a row, its payload and its attempts"},
    {"retry", "[CHANNEL] [ID]", "target error since until all dry-run json", "send a row again that was given up, those that a filter names, or all"},
    {"pause", "CHANNEL", "target json", "send nothing of the channel, or to the target, until it is resumed"},
    {"resume", "CHANNEL", "target json", "go on"},
    {.name = NULL},
};

static const struct df_command_option relay_options[] = {
    {"metrics-listen", "ADDRESS:PORT", NULL, "answer /metrics and /healthz there"},
    {"apply", NULL, NULL, "run the statements instead of printing them"},
    JSON,
    {.name = NULL},
};
static const struct df_command_verb relay_verbs[] = {
    {"run", "NAME", "metrics-listen", "the relay alone, without the rest of the server"},
    {"status", "[NAME]", "json", "check sources and tables, count what waits"},
    {"install-trigger", "NAME", "apply", "print the statements that make every insert wake the relay"},
    {.name = NULL},
};

static const struct df_command_option webhook_options[] = {
    {"secret-file", "FILE", NULL, "the secret; several, a line each, during a rotation"},
    {"tolerance", "SECONDS", NULL, "how old a timestamp may be [300]; 0: any age"},
    JSON,
    {.name = NULL},
};
static const struct df_command_verb webhook_verbs[] = {
    {"verify", "REQUEST", "secret-file tolerance json", "verify a request that was saved to a file; - is standard input"},
    {.name = NULL},
};

static const struct df_command_option sandbox_options[] = {
    {"listen", "ADDRESS:PORT", NULL, "where [127.0.0.1:8090]; port 0 picks a free one"},
    {"server", "URL", NULL, "where acks and callbacks are sent"},
    {"client-id", "ID", NULL, "as which client"},
    {"client-secret", "SECRET", NULL, "its secret"},
    {"ca-file", "FILE", NULL, "certificates to trust for https, PEM"},
    {"mode", "MODE", "sync async", "how OmniFlow answers [sync]"},
    {"ack-delay-ms", "N", NULL, "how long acks take"},
    {"callback-delay-ms", "N", NULL, "how long callbacks take"},
    {"webhook-secret", "SECRET", NULL, "verify what comes to /webhooks/"},
    {"keep", "N", NULL, "requests kept for each path [1000]"},
    {"threads", "N", NULL, "HTTP threads [one for each processor]"},
    {"no-record", NULL, NULL, "keep no requests"},
    {.name = NULL},
};

const struct df_command_entry df_commands[] = {
    {.command = &df_cmd_serve, .configured = true, .options = serve_options},
    {.command = &df_cmd_migrate, .configured = true, .options = migrate_options},
    {.command = &df_cmd_check_config, .configured = true, .options = json_options},
    {.command = &df_cmd_doctor, .configured = true, .options = json_options},
    {.command = &df_cmd_client, .configured = true, .verbs = client_verbs, .options = client_options},
    {.command = &df_cmd_policy, .configured = true, .verbs = policy_verbs, .options = json_options},
    {.command = &df_cmd_import, .operands = "FILE", .options = import_options},
    {.command = &df_cmd_outbox, .configured = true, .verbs = outbox_verbs, .options = outbox_options},
    {.command = &df_cmd_owners, .configured = true, .options = json_options},
    {.command = &df_cmd_relay, .configured = true, .verbs = relay_verbs, .options = relay_options},
    {.command = &df_cmd_webhook, .verbs = webhook_verbs, .options = webhook_options},
    {.command = &df_cmd_backup, .configured = true, .operands = "FILE"},
    {.command = &df_cmd_restore, .configured = true, .operands = "FILE"},
    {.command = &df_cmd_sandbox, .options = sandbox_options},
    {.command = &df_cmd_completion, .operands = "bash|zsh|fish"},
    {.command = &df_cmd_version, .options = json_options},
    {.command = &df_cmd_help, .operands = "COMMAND"},
    {.command = NULL},
};
/* clang-format on */

const struct df_command_entry *df_command_find(const char *name)
{
    for (const struct df_command_entry *e = df_commands; e->command; e++)
        if (strcmp(e->command->name, name) == 0)
            return e;
    return NULL;
}

static const struct df_command_option *find_in(const struct df_command_option *o,
                                               struct df_str name)
{
    for (; o && o->name; o++)
        if (df_str_eq(df_str_c(o->name), name))
            return o;
    return NULL;
}

const struct df_command_option *df_command_option(const struct df_command_entry *e,
                                                  struct df_str name)
{
    const struct df_command_option *o = find_in(e->options, name);
    return o || !e->configured ? o : find_in(df_config_options, name);
}
