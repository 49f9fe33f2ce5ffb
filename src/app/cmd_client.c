/* dataflow client: the operations of /admin/clients, directly on the database. */
#include "access/clients.h"
#include "app/audited.h"
#include "app/cli.h"
#include "app/database.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SCOPES     "interface, callback, imports, acks, events, integrations, interface-all"

#define OUTPUT_MAX (64 << 20)
#define LIST_PAGE  500
#define TRIES      5

struct session {
    struct df_settings settings;
    struct df_db *db;
    const struct df_clock *clock;
    char actor[80];
    bool json;
    struct df_buf out;
    struct df_json_out jout;
};

static enum df_code open_database(struct session *s, struct df_err *err)
{
    return df_open_audited(&s->settings, s->settings.store.migrate, &s->db, err);
}

typedef enum df_code change_fn(struct session *s, void *arg, struct df_err *err);

static enum df_code change_once(struct session *s, change_fn *change, void *arg, struct df_err *err)
{
    enum df_code code = df_db_begin(s->db, true, err);
    if (code != DF_OK)
        return code;
    code = change(s, arg, err);
    if (code == DF_OK)
        code = df_db_commit(s->db, err);
    else
        df_db_rollback(s->db);
    return code;
}

/* Runs a change in its own transaction; again if a running server was in the way. */
static enum df_code in_transaction(struct session *s, change_fn *change, void *arg,
                                   struct df_err *err)
{
    enum df_code code = DF_E_DB_CONFLICT;

    for (int i = 0; i < TRIES && df_code_retry(code) == DF_RETRY_NOW; i++)
        code = change_once(s, change, arg, err);
    return code;
}

struct change {
    struct df_client client;
    struct df_str identifier;
    struct df_client_secret secret;
    struct df_secret_hash hash;
    enum df_client_status status;
    int64_t grace_ms;
};

static void print_secret(struct session *s, const struct change *c)
{
    if (s->json) {
        df_json_open(&s->jout, '{');
        df_json_kv_text(&s->jout, "clientId", c->identifier);
        df_json_kv_text(&s->jout, "clientSecret", df_str_c(c->secret.text));
        df_json_close(&s->jout, '}');
        df_buf_addc(&s->out, '\n');
        return;
    }
    df_buf_addf(&s->out, "clientId:     " DF_STR_FMT "\nclientSecret: %s\n\n",
                DF_STR_ARG(c->identifier), c->secret.text);
    df_cli_say(&s->out, "The secret is shown this once.\n");
}

static enum df_code make_secret(struct session *s, struct change *c, struct df_err *err)
{
    df_client_secret_make(s->clock, &c->secret);
    return df_secret_hash_make(df_str_c(c->secret.text), s->clock, &c->hash, err);
}

/* --- create --- */

static enum df_code insert_client(struct session *s, void *arg, struct df_err *err)
{
    struct change *c = arg;
    struct df_actor by = df_cli_actor(s->actor, sizeof s->actor);
    return df_client_insert(s->db, &c->client, &c->hash, &by, df_wall_ms(s->clock), err);
}

static enum df_code parse_scopes(const char *list, uint32_t *ret, struct df_err *err)
{
    if (!list) {
        *ret = DF_SCOPES_DEFAULT;
        return DF_OK;
    }
    struct df_str rest = df_str_c(list);
    *ret = 0;
    while (rest.len > 0) {
        struct df_str name;
        rest = df_str_cut(rest, ',', &name);
        if (!df_scope_add(df_str_trim(name), ret))
            return df_err_set(err, DF_E_USAGE,
                              "\"" DF_STR_FMT "\" is not a scope; there are: " SCOPES,
                              DF_STR_ARG(name));
    }
    return *ret ? DF_OK : df_err_set(err, DF_E_USAGE, "no scope is named; there are: " SCOPES);
}

static enum df_code fill_client(const struct session *s, struct change *c, const char *name,
                                const char *id, const char *scopes, struct df_err *err)
{
    struct df_str n = df_str_c(name);
    if (!n.ptr || df_str_trim(n).len == 0)
        return df_err_set(err, DF_E_USAGE, "--name is required");
    if (df_utf8_valid_prefix(n) != n.len || df_utf8_count(n) > DF_CLIENT_NAME_MAX)
        return df_err_set(err, DF_E_USAGE, "--name must be UTF-8 of at most %d characters",
                          DF_CLIENT_NAME_MAX);
    struct df_uuid fresh = df_uuid_v4(s->clock);
    struct df_str i = id ? df_str_c(id) : df_uuid_str(&fresh);
    if (!df_client_identifier_valid(i))
        return df_err_set(err, DF_E_USAGE, "--id must be 1 to 64 letters, digits, '.', '_' or '-'");
    c->client.id = df_uuid_v7(s->clock);
    c->client.status = DF_CLIENT_ACTIVE;
    memcpy(c->client.name, n.ptr, n.len);
    memcpy(c->client.identifier, i.ptr, i.len);
    c->identifier = df_str_c(c->client.identifier);
    return parse_scopes(scopes, &c->client.scopes, err);
}

static enum df_code create_client(struct session *s, const char *name, const char *id,
                                  const char *scopes, struct df_err *err)
{
    struct change c = {0};
    enum df_code code = fill_client(s, &c, name, id, scopes, err);
    if (code == DF_OK)
        code = open_database(s, err);
    if (code == DF_OK)
        code = make_secret(s, &c, err);
    if (code == DF_OK)
        code = in_transaction(s, insert_client, &c, err);
    if (code == DF_OK)
        print_secret(s, &c);
    df_wipe(&c, sizeof c);
    return code;
}

/* --- rotate-secret, suspend, activate, set-scopes --- */

static enum df_code rotate_secret(struct session *s, void *arg, struct df_err *err)
{
    struct change *c = arg;
    struct df_actor by = df_cli_actor(s->actor, sizeof s->actor);
    int64_t now = df_wall_ms(s->clock);
    return df_client_rotate(s->db, c->identifier, &c->hash, c->grace_ms ? now + c->grace_ms : 0,
                            &by, now, err);
}

static enum df_code set_status(struct session *s, void *arg, struct df_err *err)
{
    struct change *c = arg;
    struct df_actor by = df_cli_actor(s->actor, sizeof s->actor);
    return df_client_set_status(s->db, c->identifier, c->status, &by, df_wall_ms(s->clock), err);
}

static enum df_code set_scopes(struct session *s, void *arg, struct df_err *err)
{
    struct change *c = arg;
    struct df_actor by = df_cli_actor(s->actor, sizeof s->actor);
    return df_client_set_scopes(s->db, c->identifier, c->client.scopes, &by, df_wall_ms(s->clock),
                                err);
}

/* What the client is now, as JSON. */
static enum df_code print_changed(struct session *s, const char *id, struct df_err *err)
{
    struct df_client_record record;
    enum df_code code = df_client_load(s->db, df_str_c(id), &record, err);
    if (code != DF_OK)
        return code;
    df_client_write_json(&record.client, &s->jout);
    df_buf_addc(&s->out, '\n');
    df_wipe(&record, sizeof record);
    return DF_OK;
}

static enum df_code change_scopes(struct session *s, const char *id, const char *scopes,
                                  struct df_err *err)
{
    struct change c = {.identifier = df_str_c(id)};
    enum df_code code = parse_scopes(scopes, &c.client.scopes, err);
    if (code == DF_OK)
        code = open_database(s, err);
    if (code == DF_OK)
        code = in_transaction(s, set_scopes, &c, err);
    if (code == DF_OK && s->json)
        return print_changed(s, id, err);
    if (code == DF_OK)
        df_cli_say(&s->out, "%s has other scopes now\n", id);
    return code;
}

static enum df_code change_one(struct session *s, const char *verb, const char *id,
                               const char *grace, struct df_err *err)
{
    struct change c = {.identifier = df_str_c(id)};
    int64_t seconds = 0;
    if (grace && (!df_str_to_i64(df_str_c(grace), &seconds) || seconds < 0 || seconds > 604800))
        return df_err_set(err, DF_E_USAGE, "--grace-seconds must be from 0 to 604800");
    c.grace_ms = seconds * 1000;
    enum df_code code = open_database(s, err);
    if (code != DF_OK)
        return code;
    if (strcmp(verb, "rotate-secret") == 0) {
        code = make_secret(s, &c, err);
        if (code == DF_OK)
            code = in_transaction(s, rotate_secret, &c, err);
        if (code == DF_OK)
            print_secret(s, &c);
    } else {
        c.status = strcmp(verb, "suspend") == 0 ? DF_CLIENT_SUSPENDED : DF_CLIENT_ACTIVE;
        code = in_transaction(s, set_status, &c, err);
        if (code == DF_OK && s->json)
            code = print_changed(s, id, err);
        else if (code == DF_OK)
            df_cli_say(&s->out,
                       c.status == DF_CLIENT_SUSPENDED ? "%s is now Suspended\n"
                                                       : "%s is now Active\n",
                       id);
    }
    df_wipe(&c, sizeof c);
    return code;
}

/* --- list --- */

static void print_client(void *arg, const struct df_client *c)
{
    struct session *s = arg;
    if (s->json) {
        df_client_write_json(c, &s->jout);
        return;
    }
    char seen[DF_TIME_LEN + 1];
    df_buf_addf(&s->out, "%-36s  %-9s  ", c->identifier, df_client_status_name(c->status));
    if (c->last_seen_at >= 0) {
        df_time_format(c->last_seen_at, seen);
        df_buf_addz(&s->out, seen);
    } else {
        df_cli_cell(&s->out, "never", DF_TIME_LEN);
    }
    df_buf_addf(&s->out, "  %s\n", c->name);
}

static enum df_code list_clients(struct session *s, struct df_err *err)
{
    enum df_code code = open_database(s, err);
    if (s->json)
        df_json_open(&s->jout, '[');
    else
        df_cli_heads(&s->out,
                     (const struct df_cli_head[]){
                         {"CLIENT", 37}, {"STATUS", 10}, {"LAST SEEN", 25}, {"NAME", 0}, {0}});
    struct df_page page = {.size = LIST_PAGE, .list = "clients", .by_uuid = true};
    struct df_arena arena;
    df_arena_init(&arena);
    do {
        df_arena_reset(&arena);
        if (code == DF_OK)
            code = df_client_list(s->db, &page, &arena, print_client, s, err);
    } while (code == DF_OK && df_page_forward(&page));
    df_arena_release(&arena);
    if (s->json) {
        df_json_close(&s->jout, ']');
        df_buf_addc(&s->out, '\n');
    }
    return code;
}

static bool is_verb(const char *verb, int operands)
{
    if (strcmp(verb, "create") == 0 || strcmp(verb, "list") == 0)
        return operands == 1;
    if (strcmp(verb, "set-scopes") == 0)
        return operands == 3;
    return operands == 2 && (strcmp(verb, "rotate-secret") == 0 || strcmp(verb, "suspend") == 0 ||
                             strcmp(verb, "activate") == 0);
}

static int run_client(int argc, char **argv)
{
    const char *name = NULL, *id = NULL, *scopes = NULL, *grace = NULL;
    struct session s = {.clock = df_clock_real()};
    const struct df_option options[] = {
        {.name = "name", .kind = DF_OPT_VALUE, .value = &name},
        {.name = "id", .kind = DF_OPT_VALUE, .value = &id},
        {.name = "scopes", .kind = DF_OPT_VALUE, .value = &scopes},
        {.name = "grace-seconds", .kind = DF_OPT_VALUE, .value = &grace},
        {.name = "json", .kind = DF_OPT_FLAG, .flag = &s.json},
    };
    struct df_cli_config config = {0};
    int operands = df_cli_parse(&df_cmd_client, argc, argv, options, 5, &config);
    if (operands < 0)
        return DF_EXIT_USAGE;
    if (operands == 0 || !is_verb(argv[0], operands)) {
        df_cli_complain(&df_cmd_client, "usage: dataflow client %s", df_cmd_client.usage);
        return DF_EXIT_USAGE;
    }
    if (!df_cli_settings(&config, &s.settings))
        return DF_EXIT_USAGE;
    df_log_init(DF_LOG_WARN, DF_LOG_AUTO, s.clock);
    df_buf_init(&s.out, OUTPUT_MAX);
    df_json_out_init(&s.jout, &s.out);

    struct df_err err = DF_ERR_INIT;
    enum df_code code;
    if (strcmp(argv[0], "create") == 0)
        code = create_client(&s, name, id, scopes, &err);
    else if (strcmp(argv[0], "list") == 0)
        code = list_clients(&s, &err);
    else if (strcmp(argv[0], "set-scopes") == 0)
        code = change_scopes(&s, argv[1], argv[2], &err);
    else
        code = change_one(&s, argv[0], argv[1], grace, &err);
    df_close_audited(&s.settings, s.db, true);
    df_settings_release(&s.settings);
    if (code == DF_OK)
        return df_cli_print(&s.out);
    df_buf_release(&s.out);
    return df_cli_result(&df_cmd_client, code, &err);
}

const struct df_command df_cmd_client = {
    .name = "client",
    .usage =
        "create --name NAME [--id ID] [--scopes a,b] [--json] | list [--json] |\n"
        "                rotate-secret ID [--grace-seconds N] [--json] | suspend ID [--json] |\n"
        "                activate ID [--json] | set-scopes ID a,b [--json]",
    .summary = "make and manage the clients that may call the API",
    .help =
        "Scopes: " SCOPES ";\n"
        "interface and imports unless named. With interface a client sees the documents that it "
        "sent,\n"
        "with interface-all those of every client.\n"
        "Works on the database directly; a running server notices within 5 seconds.",
    .run = run_client,
};
