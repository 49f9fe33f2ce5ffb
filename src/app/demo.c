#include "app/demo.h"

#include "app/cli.h"
#include "app/database.h"
#include "sandbox/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define DEMO_CLIENT  "demo"
#define WELCOME_MAX  8192
#define KEY_WIDTH    15
#define ADDRESS_FILE "demo-sandbox" /* the sandbox's address, while a demo runs */

struct df_demo {
    struct df_settings *settings;
    struct df_sandbox *sandbox;
    char *client_secret; /* wiped when freed */
    bool gateway;        /* the sandbox is the gateway */
    bool omniflow;       /* and OmniFlow */
    bool payment;        /* and a payment gateway */
};

/* --- small files that hold one secret --- */

static char *path_in(const struct df_settings *s, const char *name)
{
    char *path;
    if (asprintf(&path, "%s/%s", s->data_dir, name) < 0)
        abort();
    return path;
}

/* NULL: there is none, or it is unreadable; the caller then makes a new one. */
static char *read_small(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return NULL;
    char text[256];
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0)
        return NULL;
    struct df_str s = df_str_trim(df_str_n(text, (size_t)n));
    char *copy = s.len ? strndup(s.ptr, s.len) : NULL;
    df_wipe(text, sizeof text);
    return copy;
}

static enum df_code write_small(const char *path, const char *text, struct df_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return df_err_errno(err, "cannot write %s", path);
    size_t len = strlen(text);
    bool ok = write(fd, text, len) == (ssize_t)len;
    ok = close(fd) == 0 && ok;
    return ok ? DF_OK : df_err_errno(err, "cannot write %s", path);
}

/* --- before the server --- */

static char *gateway_url(const char *sandbox_listen, const char *what)
{
    char *url;
    if (asprintf(&url, "http://%s/gateway/%s", sandbox_listen, what) < 0)
        abort();
    return url;
}

/* False: a gateway is configured, or the sandbox's port is not known yet. */
static bool use_sandbox_as_gateway(struct df_settings *s, const char *sandbox_listen)
{
    struct df_str listen = df_str_c(sandbox_listen);
    if (s->interface.functional_ack_url || s->interface.ticket_return_url ||
        s->interface.ticket_send_url || df_str_ends(listen, DF_STR(":0")))
        return false;
    s->interface.functional_ack_url = gateway_url(sandbox_listen, "functional-ack");
    s->interface.ticket_return_url = gateway_url(sandbox_listen, "ticket-return");
    s->interface.ticket_send_url = gateway_url(sandbox_listen, "tickets");
    if (!s->interface.api_key)
        s->interface.api_key = df_secret_new(DF_STR("sandbox"));
    s->webhooks.allow_private = true;
    return true;
}

static bool use_sandbox_as_omniflow(struct df_settings *s, const char *sandbox_listen)
{
    if (s->imports.url || df_str_ends(df_str_c(sandbox_listen), DF_STR(":0")))
        return false;
    char *url;
    if (asprintf(&url, "http://%s", sandbox_listen) < 0)
        abort();
    s->imports.url = url;
    if (!s->imports.api_key)
        s->imports.api_key = df_secret_new(DF_STR("sandbox"));
    return true;
}

static bool use_sandbox_for_payments(struct df_settings *s, const char *sandbox_listen)
{
    char *url;

    if (s->integration_count > 0 || df_str_ends(df_str_c(sandbox_listen), DF_STR(":0")))
        return false;
    if (asprintf(&url, "http://%s/payments", sandbox_listen) < 0)
        abort();
    df_settings_add_integration(s, "payment", url);
    /* The console's first steps break and mend the sandbox by it. */
    url[strlen(url) - strlen("/payments")] = '\0';
    df_settings_add_integration(s, "sandbox", url);
    free(url);
    s->webhooks.allow_private = true;
    return true;
}

/* For df_demo_adopt. */
static enum df_code leave_address(const struct df_settings *s, const char *sandbox_listen,
                                  struct df_err *err)
{
    char *path = path_in(s, ADDRESS_FILE);
    enum df_code code = write_small(path, sandbox_listen, err);
    free(path);
    return code;
}

void df_demo_forget(const struct df_settings *settings)
{
    char *path = path_in(settings, ADDRESS_FILE);
    (void)unlink(path);
    free(path);
}

void df_demo_adopt(struct df_settings *settings)
{
    char *path = path_in(settings, ADDRESS_FILE);
    char *listen = read_small(path);

    free(path);
    if (!listen)
        return;
    (void)use_sandbox_as_gateway(settings, listen);
    (void)use_sandbox_as_omniflow(settings, listen);
    (void)use_sandbox_for_payments(settings, listen);
    path = path_in(settings, "demo-admin-key");
    char *key = settings->auth.admin_key ? NULL : read_small(path);
    if (key) {
        settings->auth.admin_key = df_secret_new(df_str_c(key));
        df_wipe(key, strlen(key));
    }
    free(key);
    free(path);
    free(listen);
}

enum df_code df_demo_prepare(struct df_settings *settings, const char *sandbox_listen,
                             struct df_demo **ret, struct df_err *err)
{
    struct df_demo *d = calloc(1, sizeof *d);
    if (!d)
        abort();
    d->settings = settings;
    d->gateway = use_sandbox_as_gateway(settings, sandbox_listen);
    d->omniflow = use_sandbox_as_omniflow(settings, sandbox_listen);
    d->payment = use_sandbox_for_payments(settings, sandbox_listen);
    *ret = d;
    enum df_code code = df_make_dirs(settings->data_dir, err);
    if (code == DF_OK)
        code = leave_address(settings, sandbox_listen, err);
    if (code != DF_OK || settings->auth.admin_key)
        return code;
    char *path = path_in(settings, "demo-admin-key");
    char *key = read_small(path);
    if (!key) {
        struct df_client_secret fresh;
        df_client_secret_make(df_clock_real(), &fresh);
        key = strdup(fresh.text);
        code = write_small(path, fresh.text, err);
        df_wipe(&fresh, sizeof fresh);
    }
    if (code == DF_OK)
        settings->auth.admin_key = df_secret_new(df_str_c(key));
    df_wipe(key, strlen(key));
    free(key);
    free(path);
    return code;
}

/* --- the demo client --- */

struct ensure {
    struct df_job job;
    struct df_client_record record;
    bool exists;
    struct df_client client;
    struct df_secret_hash hash;
};

static enum df_code run_find(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct ensure *e = (struct ensure *)job;
    enum df_code code = df_client_load(db, DF_STR(DEMO_CLIENT), &e->record, err);
    e->exists = code == DF_OK;
    return code == DF_E_NOT_FOUND ? DF_OK : code;
}

static enum df_code run_save(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct ensure *e = (struct ensure *)job;
    const struct df_actor by = {.name = DF_STR("demo")};
    int64_t now = df_wall_ms(df_clock_real());
    if (e->exists)
        return df_client_rotate(db, DF_STR(DEMO_CLIENT), &e->hash, 0, &by, now, err);
    return df_client_insert(db, &e->client, &e->hash, &by, now, err);
}

static enum df_code renew_secret(struct df_demo *d, const struct df_access *access,
                                 struct ensure *e, const char *path, struct df_err *err)
{
    struct df_client_secret fresh;
    e->client.id = df_uuid_v7(access->clock);
    e->client.scopes = DF_SCOPES_ALL;
    memcpy(e->client.identifier, DEMO_CLIENT, sizeof DEMO_CLIENT);
    memcpy(e->client.name, "Demo", sizeof "Demo");
    df_client_secret_make(access->clock, &fresh);
    enum df_code code = df_secret_hash_make(df_str_c(fresh.text), access->clock, &e->hash, err);
    e->job = (struct df_job){.run = run_save};
    if (code == DF_OK)
        code = df_store_write_wait(access->store, &e->job, err);
    if (code == DF_OK)
        code = write_small(path, fresh.text, err);
    free(d->client_secret);
    d->client_secret = strdup(fresh.text);
    df_wipe(&fresh, sizeof fresh);
    return code;
}

/* Keeps the client if its secret is the one in the file; else gives it a new secret. */
static enum df_code ensure_client(struct df_demo *d, const struct df_access *access,
                                  struct df_err *err)
{
    char *path = path_in(d->settings, "demo-client-secret");
    d->client_secret = read_small(path);
    struct ensure e = {.job.run = run_find};
    enum df_code code = df_store_read_wait(access->store, &e.job, err);
    bool known = code == DF_OK && e.exists && d->client_secret &&
                 df_secret_hash_matches(&e.record.current, df_str_c(d->client_secret));
    if (code == DF_OK && !known)
        code = renew_secret(d, access, &e, path, err);
    free(path);
    return code;
}

/* --- the welcome --- */

static void add_label(struct df_buf *out, const char *before, const char *english, int width)
{
    df_buf_addz(out, before);
    df_cli_cell(out, english, width);
}

static void print_welcome(const struct df_demo *d, const struct df_server *server)
{
    const char *scheme = d->settings->http.tls_cert ? "https" : "http";
    const char *at = df_server_address(server);
    struct df_str key = df_secret_str(d->settings->auth.admin_key);
    struct df_buf out;

    df_buf_init(&out, WELCOME_MAX);
    df_buf_addz(&out, "\n  ");
    df_cli_say(&out, "DataFlow %s is running.\n", DF_VERSION);
    add_label(&out, "\n    ", "console", 10);
    df_buf_addf(&out, "%s://%s/", scheme, at);
    add_label(&out, "\n    ", "sandbox", 10);
    df_buf_addf(&out, "http://%s/", df_sandbox_address(d->sandbox));
    add_label(&out, "\n    ", "data", 10);
    df_buf_addz(&out, d->settings->data_dir);
    add_label(&out, "\n\n    ", "admin key", KEY_WIDTH);
    df_buf_adds(&out, key);
    add_label(&out, "\n    ", "demo client", KEY_WIDTH);
    df_buf_addf(&out, "X-Client-Id: %s\n    %*sX-Client-Secret: %s", DEMO_CLIENT, KEY_WIDTH, "",
                d->client_secret);
    add_label(&out, "\n\n  ", "Try:", 0);
    df_buf_addz(&out, "\n\n");
    (void)df_cli_print(&out);
    printf("    curl -s %s://%s/whoami -H 'X-Client-Id: %s' -H 'X-Client-Secret: %s'\n\n"
           "    curl -s %s://%s/admin/clients -H 'X-Admin-Key: " DF_STR_FMT
           "' -H 'Content-Type: application/json' -d '{\"name\":\"My first client\"}'\n\n"
           "    curl -s http://%s/_stats\n\n",
           scheme, at, DEMO_CLIENT, d->client_secret, scheme, at, DF_STR_ARG(key),
           df_sandbox_address(d->sandbox));
    if (d->gateway)
        printf("    curl -s %s://%s/api/tickets -H 'X-Client-Id: %s' -H 'X-Client-Secret: %s'"
               " -H 'Content-Type: application/json' -d '{\"businessEntity\":\"TCK\","
               "\"businessDocId\":\"T-1\",\"phaseCode\":15,\"companyCode\":\"0050\","
               "\"branchCode\":\"01\",\"destinationCode\":\"SSZ\",\"shipmentEvent\":\"RCD\","
               "\"targetApplicationCode\":\"ASB\",\"functionalAckIsRequired\":true}'\n\n"
               "    curl -s '%s://%s/api/tickets?businessEntity=TCK&businessDocId=T-1'"
               " -H 'X-Client-Id: %s' -H 'X-Client-Secret: %s'\n\n",
               scheme, at, DEMO_CLIENT, d->client_secret, scheme, at, DEMO_CLIENT,
               d->client_secret);
    if (d->omniflow)
        printf("    printf 'Telefone;Nome\\n11 98765-4321;Ana\\n21 3456-7890;Rui\\n' | curl -s "
               "%s://%s/imports -H 'X-Client-Id: %s' -H 'X-Client-Secret: %s' "
               "-F 'file=@-;filename=leads.csv'\n\n"
               "    curl -s %s://%s/imports -H 'X-Client-Id: %s' -H 'X-Client-Secret: %s'\n\n",
               scheme, at, DEMO_CLIENT, d->client_secret, scheme, at, DEMO_CLIENT,
               d->client_secret);
    if (d->payment)
        printf("    curl -s %s://%s/integrations/payment/charges -H 'X-Client-Id: %s'"
               " -H 'X-Client-Secret: %s' -H 'Content-Type: application/json'"
               " -H 'Idempotency-Key: order-1' -d '{\"amount\":1990}'\n\n",
               scheme, at, DEMO_CLIENT, d->client_secret);
    fflush(stdout);
}

enum df_code df_demo_start(struct df_demo *d, struct df_server *server, const char *sandbox_listen,
                           struct df_err *err)
{
    enum df_code code = ensure_client(d, df_server_access(server), err);
    if (code != DF_OK)
        return code;
    char *url;
    if (asprintf(&url, "%s://%s", d->settings->http.tls_cert ? "https" : "http",
                 df_server_address(server)) < 0)
        abort();
    struct df_sandbox_options opt = {.listen = sandbox_listen,
                                     .server_url = url,
                                     .client_id = DEMO_CLIENT,
                                     .client_secret = d->client_secret};
    code = df_sandbox_start(&opt, &d->sandbox, err);
    free(url);
    if (code == DF_OK)
        print_welcome(d, server);
    return code;
}

void df_demo_stop(struct df_demo *d)
{
    if (!d)
        return;
    if (d->sandbox) /* else another demo may be running there */
        df_demo_forget(d->settings);
    df_sandbox_stop(d->sandbox);
    if (d->client_secret)
        df_wipe(d->client_secret, strlen(d->client_secret));
    free(d->client_secret);
    free(d);
}
