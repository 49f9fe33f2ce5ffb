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

static const struct df_command_option mask_options[] = {
    {"dry-run", NULL, NULL, "only count"}, JSON, {.name = NULL}};

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

static const struct df_command_verb key_verbs[] = {
    {"list", "", "json", "the keys, and what is under each"},
    {"rotate", "", "json", "make a new data key"},
    {.name = NULL},
};

static const struct df_command_option import_options[] = {
    {"origin", "ORIGIN", NULL, "where the leads are from"},
    {"sheet", "SHEET", NULL, "the sheet of a workbook, by name"},
    {"mapping", "FILE", NULL, "what columns mean, in JSON: {\"Contato\": \"PhoneNumber\"}"},
    {"preview", NULL, NULL, "look at the file, and store nothing"},
    {"batch", "ID", NULL, "a batch that was sent before, instead of a file"},
    {"watch", NULL, NULL, "follow it to its end"},
    {"server", "URL", NULL, "the server [http://127.0.0.1:8080]"},
    {"client-id", "ID", NULL, "the client; DATAFLOW_CLIENT_ID is better"},
    {"client-secret", "SECRET", NULL, "its secret; better in DATAFLOW_CLIENT_SECRET: command lines can be read"},
    {"ca-file", "FILE", NULL, "certificates to trust for https, PEM"},
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
    {"dismiss", "[CHANNEL] [ID]", "target error since until all dry-run json", "want no more of what was given up: a row, those that a filter names, or all"},
    {"pause", "CHANNEL", "target json", "send nothing of the channel, or to the target, until it is resumed"},
    {"resume", "CHANNEL", "target json", "go on"},
    {.name = NULL},
};

#define LOOK_OPTIONS(states)                                                                       \
    {"status", "STATUS", states, "only those in this state"},                                      \
    {"page", "N", NULL, "the page [1]"},                                                           \
    {"page-size", "N", NULL, "rows on a page [20]"},                                               \
    {"server", "URL", NULL, "the server [the configured one, on this machine]"},                   \
    JSON

static const struct df_command_option batch_options[] = {
    LOOK_OPTIONS("Pending Processing Scheduled Completed CompletedWithErrors Failed Cancelled"),
    {"client", "ID", NULL, "only those of this client"},
    {.name = NULL},
};
static const struct df_command_verb batch_verbs[] = {
    {"list", "", "status client page page-size server json", "batches, the newest first"},
    {"show", "ID", "server json", "a batch, and what it waits for"},
    {.name = NULL},
};
static const struct df_command_option ticket_options[] = {
    LOOK_OPTIONS("Awaiting Processing Processed Error"),
    {"client", "ID", NULL, "only those of this client"},
    {.name = NULL},
};
static const struct df_command_verb ticket_verbs[] = {
    {"list", "", "status client page page-size server json", "tickets, the newest first"},
    {"show", "ID", "server json", "a ticket, what was sent for it and each attempt"},
    {.name = NULL},
};
static const struct df_command_option alerts_options[] = {
    LOOK_OPTIONS("firing resolved"),
    {.name = NULL},
};

static const struct df_command_option retention_options[] = {
    {"dry-run", NULL, NULL, "count what is over, and remove nothing"},
    JSON,
    {.name = NULL},
};
static const struct df_command_verb retention_verbs[] = {
    {"run", "", "dry-run json", "remove what has been over for longer than [retention] says"},
    {"vacuum", "", "", "write an SQLite file of an older version anew, so that it gives space back"},
    {.name = NULL},
};

static const struct df_command_option audit_options[] = {
    {"actor", "ACTOR", NULL, "who: admin, admin:NAME, client:ID, cli:USER"},
    {"action", "ACTION", NULL, "what, like ClientCreated"},
    {"target", "TARGET", NULL, "to what"},
    {"client", "ID", NULL, "of which client"},
    {"outcome", "OUTCOME", "ok failed denied", "how it ended"},
    {"from", "TIME", NULL, "then or later, like 2026-11-15T00:00:00Z"},
    {"to", "TIME", NULL, "before"},
    {"limit", "N", NULL, "at most so many entries [list: 50]"},
    {"reason", "TEXT", NULL, "why the database was restored"},
    JSON,
    {.name = NULL},
};
static const struct df_command_verb audit_verbs[] = {
    {"list", "", "actor action target client outcome from to limit json", "entries, the newest first"},
    {"export", "", "actor action target client outcome from to limit", "the same as CSV, all of them"},
    {"verify", "", "json", "find what was changed, removed or cut"},
    {"restored", "", "reason json", "say that the database was restored by other tools"},
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

static const struct df_command_option subjects_options[] = {
    {"phone", "NUMBER", NULL, "the person's phone, with area code or in the form +5511987654321"},
    {"document", "NUMBER", NULL, "the person's CPF, or a company's CNPJ"},
    {"email", "ADDRESS", NULL, "the person's e-mail address"},
    JSON,
    {.name = NULL},
};
static const struct df_command_verb subjects_verbs[] = {
    {"find", "", "phone document email json", "where the person is stored"},
    {"export", "", "phone document email json", "the same with the documents, always as JSON"},
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

static const struct df_command_option backup_options[] = {
    {"to", "PLACE", NULL, "a directory or s3://bucket/prefix: back up what changed since the last time"},
    {"watch", NULL, NULL, "go on until SIGTERM"},
    {"every", "SECONDS", NULL, "how often to look for changes [60]"},
    {"keep", "DAYS", NULL, "how far back it can be restored; what is older is removed [14]; 0: nothing is"},
    {"from", "PLACE", NULL, "of list: the place whose points are listed"},
    JSON,
    {.name = NULL},
};
static const struct df_command_option restore_options[] = {
    {"from", "PLACE", NULL, "a place of backup --to"},
    {"at", "TIME", NULL, "the newest point not after it, like 2026-11-15T00:00:00Z [latest]"},
    {"to", "DIRECTORY", NULL, "as server.data_dir, with the database in it [the configured ones]"},
    {"force", NULL, NULL, "replace the content of a database that is there"},
    JSON,
    {.name = NULL},
};
static const struct df_command_option doctor_options[] = {
    {"after-restore", NULL, NULL, "also look for what a restore or a lost bucket leaves missing"},
    JSON,
    {.name = NULL},
};

static const struct df_command_option purge_options[] = {
    {"batch", "ID", NULL, "one batch, with everything of it"},
    {"client", "ID", NULL, "the documents of a client; itself and its webhooks stay"},
    {"older-than", "DAYS", NULL, "the batches that ended before that"},
    {"subject", "NUMBER", NULL, "a person by phone, document or e-mail: what documents say of them is erased"},
    {"phone", "NUMBER", NULL, "the same, certainly a phone"},
    {"document", "NUMBER", NULL, "the same, certainly a CPF or CNPJ"},
    {"email", "ADDRESS", NULL, "the same, certainly an e-mail address"},
    {"dry-run", NULL, NULL, "tell how many rows it would be, and change nothing"},
    JSON,
    {.name = NULL},
};

const struct df_command_entry df_commands[] = {
    {.command = &df_cmd_serve, .configured = true, .options = serve_options},
    {.command = &df_cmd_migrate, .configured = true, .options = migrate_options},
    {.command = &df_cmd_check_config, .configured = true, .options = json_options},
    {.command = &df_cmd_doctor, .configured = true, .options = doctor_options},
    {.command = &df_cmd_client, .configured = true, .verbs = client_verbs, .options = client_options},
    {.command = &df_cmd_policy, .configured = true, .verbs = policy_verbs, .options = json_options},
    {.command = &df_cmd_import, .operands = "FILE", .options = import_options},
    {.command = &df_cmd_batch, .configured = true, .verbs = batch_verbs, .options = batch_options},
    {.command = &df_cmd_ticket, .configured = true, .verbs = ticket_verbs, .options = ticket_options},
    {.command = &df_cmd_alerts, .configured = true, .options = alerts_options},
    {.command = &df_cmd_outbox, .configured = true, .verbs = outbox_verbs, .options = outbox_options},
    {.command = &df_cmd_owners, .configured = true, .options = json_options},
    {.command = &df_cmd_retention, .configured = true, .verbs = retention_verbs, .options = retention_options},
    {.command = &df_cmd_purge, .configured = true, .options = purge_options},
    {.command = &df_cmd_audit, .configured = true, .verbs = audit_verbs, .options = audit_options},
    {.command = &df_cmd_mask, .configured = true, .options = mask_options},
    {.command = &df_cmd_subjects, .configured = true, .verbs = subjects_verbs, .options = subjects_options},
    {.command = &df_cmd_relay, .configured = true, .verbs = relay_verbs, .options = relay_options},
    {.command = &df_cmd_webhook, .verbs = webhook_verbs, .options = webhook_options},
    {.command = &df_cmd_key, .configured = true, .verbs = key_verbs, .options = json_options},
    {.command = &df_cmd_backup, .configured = true, .operands = "FILE", .options = backup_options},
    {.command = &df_cmd_restore, .configured = true, .operands = "FILE", .options = restore_options},
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
