/* dataflow purge: POST /admin/purge, directly on the database, beside a running server too. */
#include "app/audited.h"
#include "app/cli.h"
#include "keys/data_keys.h"
#include "retention/purge.h"
#include "retention/subjects.h"
#include "json/write.h"

#include <stdio.h>
#include <unistd.h>

#define OUTPUT_MAX (64 << 10)

struct purge_cli {
    struct df_settings settings;
    const char *batch, *client, *older, *subject, *phone, *document, *email;
    bool dry_run, json;
    struct df_db *db;
    struct df_keys *keys;
    struct df_store *store;
    struct df_storage *storage;
    struct df_purge *purge;
    struct df_purge_outcome outcome;
};

/* Exactly one thing to purge. */
static bool has_one(const struct purge_cli *c)
{
    const char *const given[] = {c->batch, c->client,   c->older, c->subject,
                                 c->phone, c->document, c->email};
    size_t count = 0;

    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        count += given[i] != NULL;
    return count == 1;
}

static enum df_code read_subject(const struct purge_cli *c, struct df_subject *ret,
                                 struct df_err *err)
{
    if (c->phone)
        return df_subject_parse(c->keys, DF_SUBJECT_PHONE, df_str_c(c->phone), ret, err);
    if (c->document)
        return df_subject_parse(c->keys, DF_SUBJECT_DOCUMENT, df_str_c(c->document), ret, err);
    if (c->email)
        return df_subject_parse(c->keys, DF_SUBJECT_EMAIL, df_str_c(c->email), ret, err);
    enum df_code code = df_subject_parse_any(c->keys, df_str_c(c->subject), ret, err);
    if (code == DF_E_SUBJECT_AMBIGUOUS)
        return df_err_set(err, code,
                          "it may be a phone or a document: say --phone or --document instead");
    return code;
}

static enum df_code read_request(const struct purge_cli *c, struct df_purge_request *ret,
                                 struct df_err *err)
{
    *ret = (struct df_purge_request){.kind = DF_PURGE_SUBJECT, .dry_run = c->dry_run};
    if (c->batch) {
        ret->kind = DF_PURGE_BATCH;
        if (!df_uuid_parse(df_str_c(c->batch), &ret->batch))
            return df_err_set(err, DF_E_VALIDATION, "--batch: %s is no UUID", c->batch);
        return DF_OK;
    }
    if (c->client) {
        ret->kind = DF_PURGE_CLIENT;
        ret->client = df_str_c(c->client);
        return DF_OK;
    }
    if (!c->older)
        return read_subject(c, &ret->subject, err);
    ret->kind = DF_PURGE_OLDER;
    if (!df_str_to_i64(df_str_c(c->older), &ret->days) || ret->days < 0 ||
        ret->days > DF_PURGE_DAYS_MAX)
        return df_err_set(err, DF_E_VALIDATION, "--older-than: must be a number of days, 0 to %d",
                          DF_PURGE_DAYS_MAX);
    return DF_OK;
}

/* Documents of an earlier release are looked through before a person is erased. */
static enum df_code open_all(struct purge_cli *c, struct df_err *err)
{
    const struct df_settings *set = &c->settings;
    const struct df_clock *clock = df_clock_real();
    const struct df_storage_options files = {
        .data_dir = set->data_dir, .settings = set->storage, .clock = clock};
    const struct df_store_options opt = {.settings = set->store, .clock = clock};
    enum df_code code = df_open_audited(set, set->store.migrate, &c->db, err);

    c->keys = df_audited_keys()->ring;
    if (code == DF_OK && !c->batch && !c->client && !c->older)
        code = df_subject_fill_all(c->db, c->keys, clock, err);
    if (code == DF_OK)
        code = df_store_open(&opt, &c->store, err);
    if (code == DF_OK)
        code = df_storage_new(&files, &c->storage, err);
    if (code == DF_OK)
        c->purge = df_purge_new(&(struct df_purge_options){.store = c->store,
                                                           .storage = c->storage,
                                                           .keys = c->keys,
                                                           .clock = clock,
                                                           .data_dir = set->data_dir});
    return code;
}

static void close_all(struct purge_cli *c)
{
    if (c->purge)
        df_purge_stop(c->purge);
    df_purge_free(c->purge);
    df_store_close(c->store);
    df_storage_free(c->storage);
    df_close_audited(&c->settings, c->db, true);
    df_settings_release(&c->settings);
}

static int64_t removed_so_far(const struct purge_cli *c)
{
    int64_t sum = 0;

    for (size_t i = 0; i < DF_PURGED_COUNT; i++)
        sum += c->outcome.counts.n[i];
    return sum;
}

/* A line on the terminal that is written over. */
static void show_progress(const struct purge_cli *c)
{
    struct df_buf line;

    if (!isatty(STDERR_FILENO))
        return;
    df_buf_init(&line, 1024);
    df_cli_say(&line, "%lld rows and files so far", (long long)removed_so_far(c));
    fprintf(stderr, "\r%s%s", line.ptr, c->outcome.done ? "\n" : "");
    df_buf_release(&line);
}

static void list_waiting(const struct purge_cli *c)
{
    for (size_t i = 0; i < c->outcome.waiting_count; i++)
        fprintf(stderr, "  %s %s\n", c->outcome.waiting[i].place, c->outcome.waiting[i].row);
}

static enum df_code run_to_end(struct purge_cli *c, struct df_err *err)
{
    char name[128];
    const struct df_actor by = df_cli_actor(name, sizeof name);
    struct df_purge_request request;
    enum df_code code = open_all(c, err);

    if (code == DF_OK)
        code = read_request(c, &request, err);
    if (code == DF_OK)
        code = df_purge_run(c->purge, &request, &by, &c->outcome, err);
    while (code == DF_OK && !c->dry_run && !c->outcome.done && !c->outcome.waits) {
        struct df_uuid id = c->outcome.id;
        code = df_purge_go_on(c->purge, &id, &c->outcome, err);
        show_progress(c);
        if (!c->outcome.done)
            df_sleep_ms(100);
    }
    return code;
}

static void add_counts(struct df_buf *out, const struct df_purge_counts *counts)
{
    for (size_t i = 0; i < DF_PURGED_COUNT; i++)
        if (counts->n[i] != 0)
            df_buf_addf(out, "  %-26s %12lld\n", df_purged_name((enum df_purged)i),
                        (long long)counts->n[i]);
}

static void print_outcome(const struct purge_cli *c, struct df_buf *out)
{
    const struct df_purge_outcome *o = &c->outcome;
    struct df_purge_counts none = {0};
    struct df_json_out j;

    if (c->json) {
        df_json_out_init(&j, out);
        df_json_open(&j, '{');
        df_json_kv_bool(&j, "dryRun", c->dry_run);
        df_json_kv_text(&j, "jobId", c->dry_run ? DF_STR_NULL : df_uuid_str(&o->id));
        df_json_key(&j, "counts");
        df_purge_counts_write(&o->counts, &j);
        df_json_key(&j, "skipped");
        df_purge_counts_write(&o->skipped, &j);
        df_json_close(&j, '}');
        df_buf_addc(out, '\n');
        return;
    }
    if (memcmp(&o->counts, &none, sizeof none) == 0)
        df_cli_say(out, "nothing to remove\n");
    else if (c->dry_run)
        df_cli_say(out, "would be removed or erased:\n");
    else
        df_cli_say(out, "removed or erased:\n");
    add_counts(out, &o->counts);
    if (memcmp(&o->skipped, &none, sizeof none) != 0)
        df_cli_say(out, "skipped, on their way:\n");
    add_counts(out, &o->skipped);
    if (o->waits)
        df_cli_say(out, "a server erases them when they are over: job %s\n", o->id.text);
}

static int run_purge(int argc, char **argv)
{
    struct purge_cli c = {.dry_run = false};
    const struct df_option options[] = {
        {.name = "batch", .kind = DF_OPT_VALUE, .value = &c.batch},
        {.name = "client", .kind = DF_OPT_VALUE, .value = &c.client},
        {.name = "older-than", .kind = DF_OPT_VALUE, .value = &c.older},
        {.name = "subject", .kind = DF_OPT_VALUE, .value = &c.subject},
        {.name = "phone", .kind = DF_OPT_VALUE, .value = &c.phone},
        {.name = "document", .kind = DF_OPT_VALUE, .value = &c.document},
        {.name = "email", .kind = DF_OPT_VALUE, .value = &c.email},
        {.name = "dry-run", .kind = DF_OPT_FLAG, .flag = &c.dry_run},
        {.name = "json", .kind = DF_OPT_FLAG, .flag = &c.json},
    };
    struct df_cli_config config = {0};
    struct df_buf out;
    struct df_err err = DF_ERR_INIT;
    int operands = df_cli_parse(&df_cmd_purge, argc, argv, options,
                                sizeof options / sizeof options[0], &config);

    if (operands < 0)
        return DF_EXIT_USAGE;
    if (operands > 0 || !has_one(&c)) {
        df_cli_complain(&df_cmd_purge, "usage: dataflow purge %s", df_cmd_purge.usage);
        return DF_EXIT_USAGE;
    }
    if (!df_cli_settings(&config, &c.settings))
        return DF_EXIT_USAGE;
    df_log_init(DF_LOG_WARN, DF_LOG_AUTO, df_clock_real());
    enum df_code code = run_to_end(&c, &err);
    close_all(&c);
    if (code != DF_OK) {
        int status = df_cli_result(&df_cmd_purge, code, &err);
        list_waiting(&c);
        return status;
    }
    df_buf_init(&out, OUTPUT_MAX);
    print_outcome(&c, &out);
    return df_cli_print(&out);
}

const struct df_command df_cmd_purge = {
    .name = "purge",
    .usage = "(--batch ID | --client ID | --older-than DAYS | --subject NUMBER | --phone NUMBER |\n"
             "                --document NUMBER | --email ADDRESS) [--dry-run] [--json]",
    .summary = "remove documents for good, or erase a person",
    .help = "A batch goes with its items, events and files; --client takes the documents of a\n"
            "client, --older-than the batches that ended so many days ago. A person's documents\n"
            "stay, but what they say is erased. What is on its way is refused or skipped.\n"
            "It is done in small steps beside a running server, and waited for.",
    .run = run_purge,
};
