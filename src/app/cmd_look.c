/*
 * dataflow batch, ticket, alerts: what a running server knows, asked as its console asks, with an
 * administrator's key. The server alone can say what a batch waits for; `dataflow outbox` is for
 * when it is down.
 */
#include "app/commands.h"
#include "app/demo.h"
#include "app/import_http.h"
#include "base/mem.h"
#include "net/input.h"
#include "json/doc.h"

#include <stdio.h>
#include <stdlib.h>

#define ANSWER_MAX ((size_t)16 << 20)
#define PATH_MAX_  2048
#define DEPTH_MAX  4

/* A column of a list. */
struct column {
    const char *head;
    const char *member;
    int width; /* 0: the rest of the line */
};

/* What a command asks for. */
struct subject {
    const struct df_command *command;
    const char *path; /* of the list; a row is PATH/ID */
    const struct column *columns;
};

static const struct column batch_columns[] = {
    {"BATCH", "batchId", 36},       {"STATUS", "status", 19},
    {"RECORDS", "totalRecords", 9}, {"ERRORS", "errorCount", 9},
    {"CREATED", "createdAt", 24},   {"CLIENT", "clientId", 16},
    {"FILE", "fileName", 0},        {.head = NULL},
};
static const struct column ticket_columns[] = {
    {"ID", "id", 9},
    {"ENTITY", "businessEntity", 8},
    {"DOCUMENT", "businessDocId", 24},
    {"PHASE", "phaseCode", 5},
    {"STATUS", "status", 10},
    {"RETURN", "returnStatus", 8},
    {"GATEWAY", "gatewaySendStatus", 8},
    {"CLIENT", "clientId", 16},
    {"LAST ERROR", "lastError", 0},
    {.head = NULL},
};
static const struct column alert_columns[] = {
    {"FIRED", "firedAt", 24}, {"STATUS", "status", 9},   {"SEVERITY", "severity", 9},
    {"RULE", "rule", 19},     {"SUMMARY", "summary", 0}, {.head = NULL},
};

static const struct subject batches = {&df_cmd_batch, "/admin/imports", batch_columns};
static const struct subject tickets = {&df_cmd_ticket, "/admin/tickets", ticket_columns};
static const struct subject alerts = {&df_cmd_alerts, "/admin/alerts", alert_columns};

static volatile sig_atomic_t interrupted;

struct look {
    const struct subject *subject;
    struct df_cli_config config;
    struct df_settings settings;
    const char *server;
    const char *status, *client, *page, *page_size; /* options, NULL if not given */
    bool json;
    struct df_buf query; /* behind the path */
    struct df_buf answer;
    struct df_buf out;
};

/* --- words for people --- */

/* A server's text on a terminal: control characters would move its cursor. */
static void add_clean(struct df_buf *out, struct df_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        bool c1 = c == 0xC2 && i + 1 < s.len && (unsigned char)s.ptr[i + 1] < 0xA0;
        df_buf_addc(out, c < 0x20 || c == 0x7F || c1 ? ' ' : (char)c);
        i += c1;
    }
}

static struct df_str scalar_text(const struct df_json *v)
{
    if (v->type == DF_JSON_STRING || v->type == DF_JSON_NUMBER)
        return v->text;
    return v->type == DF_JSON_BOOL ? (v->boolean ? DF_STR("true") : DF_STR("false")) : DF_STR("-");
}

static void add_row(struct look *l, const struct df_json *item)
{
    for (const struct column *c = l->subject->columns; c->head; c++) {
        struct df_json v;
        (void)df_json_find(item, c->member, &v);
        struct df_str text = scalar_text(&v);
        size_t units = df_utf8_count(text);
        add_clean(&l->out, text);
        if (c->width > 0)
            df_buf_addf(&l->out, "%*s", (size_t)c->width > units ? c->width - (int)units + 1 : 1,
                        "");
    }
    df_buf_addc(&l->out, '\n');
}

static void print_list(struct look *l, const struct df_json *doc)
{
    struct df_json items, total, estimate;
    int64_t count = 0, shown = 0;

    for (const struct column *c = l->subject->columns; c->head; c++) {
        df_cli_cell(&l->out, c->head, c->width);
        df_buf_addc(&l->out, c->width > 0 ? ' ' : '\n');
    }
    (void)df_json_find(doc, "items", &items);
    struct df_json_each each = df_json_each(&items);
    for (const struct df_json *item; (item = df_json_next(&each)); shown++)
        add_row(l, item);
    (void)df_json_find(doc, "total", &total);
    (void)df_json_find(doc, "totalIsEstimate", &estimate);
    if (df_json_to_i64(&total, &count))
        df_cli_say(&l->out, estimate.boolean ? "%lld of about %lld\n" : "%lld of %lld\n",
                   (long long)shown, (long long)count);
}

/* The members that say something, nested ones indented. */
static void print_members(struct look *l, const struct df_json *object, int depth)
{
    struct df_json_each each = df_json_each(object);

    for (const struct df_json *m; (m = df_json_next(&each));) {
        bool nested = m->type == DF_JSON_OBJECT || m->type == DF_JSON_ARRAY;
        if (m->type == DF_JSON_NULL || (nested && df_json_count(m) == 0))
            continue;
        df_buf_addf(&l->out, "%*s", 2 * depth, "");
        if (m->key.ptr)
            add_clean(&l->out, m->key);
        else
            df_buf_addc(&l->out, '-');
        if (nested && depth < DEPTH_MAX) {
            df_buf_addc(&l->out, '\n');
            struct df_json inner = *m;
            print_members(l, &inner, depth + 1);
            continue;
        }
        int pad = 26 - 2 * depth - (int)df_utf8_count(m->key.ptr ? m->key : DF_STR("-"));
        df_buf_addf(&l->out, "%*s", pad > 0 ? pad : 1, "");
        add_clean(&l->out, nested ? m->raw : scalar_text(m));
        df_buf_addc(&l->out, '\n');
    }
}

static enum df_code print_answer(struct look *l, bool list, struct df_err *err)
{
    struct df_arena arena = {0};
    const struct df_json *doc = NULL;
    struct df_err why = DF_ERR_INIT;
    enum df_code code = df_json_parse(&arena, df_buf_str(&l->answer), &doc, &why);

    if (code != DF_OK || doc->type != DF_JSON_OBJECT)
        code = df_err_set(err, DF_E_NET, "what the server answered is not understood");
    else if (list)
        print_list(l, doc);
    else
        print_members(l, doc, 0);
    df_arena_release(&arena);
    return code;
}

/* --- the call --- */

/* The address that this machine reaches the configured server by; in the arena. */
static const char *own_address(const struct df_settings *s, struct df_arena *a)
{
    struct df_str listen = df_str_c(s->http.listen);
    const char *colon = memrchr(listen.ptr, ':', listen.len);
    struct df_str host = df_str_n(listen.ptr, colon ? (size_t)(colon - listen.ptr) : listen.len);
    bool any = host.len == 0 || df_str_eq(host, DF_STR("0.0.0.0")) ||
               df_str_eq(host, DF_STR("[::]")) || df_str_eq(host, DF_STR("*"));

    if (any)
        host = DF_STR("127.0.0.1");
    struct df_str url =
        df_arena_printf(a, "%s://" DF_STR_FMT "%s", s->http.tls_cert ? "https" : "http",
                        DF_STR_ARG(host), colon ? colon : "");
    return df_arena_cstr(a, url);
}

static void add_filter(struct look *l, const char *name, const char *value)
{
    if (!value)
        return;
    df_buf_addf(&l->query, "%c%s=", l->query.len == 0 ? '?' : '&', name);
    df_import_add_escaped(&l->query, df_str_c(value));
}

static enum df_code ask_server(struct look *l, const char *id, struct df_err *err)
{
    struct df_arena a = {0};
    struct df_buf path;
    struct df_import_http *http = NULL;
    enum df_code code = DF_OK;

    df_demo_adopt(&l->settings);
    if (!l->settings.auth.admin_key)
        code = df_err_set(err, DF_E_USAGE,
                          "needs an administrator's key: set admin.key, or DATAFLOW_ADMIN_KEY");
    if (code != DF_OK)
        return code;
    struct df_str key = df_secret_str(l->settings.auth.admin_key);
    const struct df_import_server server = {
        .url = l->server ? l->server : own_address(&l->settings, &a),
        .admin_key = df_arena_cstr(&a, key),
        .language = df_lang_tag(l->json ? DF_LANG_EN : df_cli_lang()),
        .interrupted = &interrupted};
    df_buf_init(&path, PATH_MAX_);
    df_buf_addz(&path, l->subject->path);
    if (id) {
        df_buf_addc(&path, '/');
        df_import_add_escaped(&path, df_str_c(id));
    }
    df_buf_adds(&path, df_buf_str(&l->query));
    if (df_buf_failed(&path) || df_buf_failed(&l->query))
        code = df_err_set(err, DF_E_USAGE, "the filters are too long");
    if (code == DF_OK)
        code = df_import_http_new(&server, &http, err);
    if (code == DF_OK)
        code = df_import_get(http, df_buf_str(&path).ptr, &l->answer, err);
    df_import_http_free(http);
    df_wipe((char *)(uintptr_t)server.admin_key, key.len);
    df_buf_release(&path);
    df_arena_release(&a);
    return code;
}

static int perform_look(struct look *l, const char *id)
{
    struct df_err err = DF_ERR_INIT;

    df_buf_init(&l->query, PATH_MAX_);
    df_buf_init(&l->answer, ANSWER_MAX);
    df_buf_init(&l->out, ANSWER_MAX);
    add_filter(l, "status", l->status);
    add_filter(l, "clientId", l->client);
    add_filter(l, "page", l->page);
    add_filter(l, "pageSize", l->page_size);
    enum df_code code = ask_server(l, id, &err);
    if (code == DF_OK && l->json)
        df_buf_addf(&l->out, DF_STR_FMT "\n", DF_STR_ARG(df_buf_str(&l->answer)));
    else if (code == DF_OK)
        code = print_answer(l, !id, &err);
    df_buf_release(&l->query);
    df_buf_release(&l->answer);
    df_settings_release(&l->settings);
    if (code == DF_OK)
        return df_cli_print(&l->out);
    df_buf_release(&l->out);
    return df_cli_result(l->subject->command, code, &err);
}

static int run_look(const struct subject *subject, int argc, char **argv)
{
    const struct df_command *cmd = subject->command;
    struct look l = {.subject = subject};
    const struct df_option options[] = {
        {.name = "status", .kind = DF_OPT_VALUE, .value = &l.status},
        {.name = "page", .kind = DF_OPT_VALUE, .value = &l.page},
        {.name = "page-size", .kind = DF_OPT_VALUE, .value = &l.page_size},
        {.name = "server", .kind = DF_OPT_VALUE, .value = &l.server},
        {.name = "json", .kind = DF_OPT_FLAG, .flag = &l.json},
        {.name = "client", .kind = DF_OPT_VALUE, .value = &l.client},
    };
    bool verbs = subject != &alerts; /* alerts are only listed, and belong to no client */
    int64_t number;
    int operands = df_cli_parse(cmd, argc, argv, options,
                                sizeof options / sizeof options[0] - (verbs ? 0 : 1), &l.config);

    if (operands < 0)
        return DF_EXIT_USAGE;
    bool show = verbs && operands == 2 && strcmp(argv[0], "show") == 0;
    bool list = verbs ? operands == 1 && strcmp(argv[0], "list") == 0 : operands == 0;
    bool filtered = l.status || l.client || l.page || l.page_size;
    if (!list && (!show || filtered)) {
        df_cli_complain(cmd, "usage: dataflow %s %s", cmd->name, cmd->usage);
        return DF_EXIT_USAGE;
    }
    if (!df_cli_int(cmd, "page", l.page, 1, 1000000000, &number) ||
        !df_cli_int(cmd, "page-size", l.page_size, 1, DF_PAGE_SIZE_MAX, &number) ||
        !df_cli_settings(&l.config, &l.settings))
        return DF_EXIT_USAGE;
    return perform_look(&l, show ? argv[1] : NULL);
}

static int run_batch(int argc, char **argv)
{
    return run_look(&batches, argc, argv);
}

static int run_ticket(int argc, char **argv)
{
    return run_look(&tickets, argc, argv);
}

static int run_alerts(int argc, char **argv)
{
    return run_look(&alerts, argc, argv);
}

#define ASKS                                                                                       \
    "Asks a running server: the configured one on this machine, or --server. The key is that of\n" \
    "the configuration, or in DATAFLOW_ADMIN_KEY; the role read is enough. --json prints the\n"    \
    "server's answer as it is."

const struct df_command df_cmd_batch = {
    .name = "batch",
    .usage =
        "list [--status S] [--client ID] [--page N] [--page-size N] [--server URL] [--json] |\n"
        "                show ID [--server URL] [--json]",
    .summary = "the batches of imports: what became of each, what each waits for",
    .help = ASKS,
    .run = run_batch,
};

const struct df_command df_cmd_ticket = {
    .name = "ticket",
    .usage =
        "list [--status S] [--client ID] [--page N] [--page-size N] [--server URL] [--json] |\n"
        "                show ID [--server URL] [--json]",
    .summary = "tickets, with their returns and attempts",
    .help = ASKS,
    .run = run_ticket,
};

const struct df_command df_cmd_alerts = {
    .name = "alerts",
    .usage = "[--status S] [--page N] [--page-size N] [--server URL] [--json]",
    .summary = "what the server's rules found, the newest first",
    .help = ASKS,
    .run = run_alerts,
};
