#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/config.h"
#include "base/config_private.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

/* --- a table with every type ------------------------------------------------------------------ */

struct settings {
    const char *listen;
    struct server {
        int64_t other;
        const char *name;
    } server;
    int64_t max_body_bytes;
    int64_t offset;
    bool migrate;
    int driver;
    uint32_t roles;
    struct df_int_list delays;
    const struct df_secret *password;
    const struct df_secret *key;
    const char *note;
    struct relay *relays;
    size_t relay_count;
    struct call *calls;
    size_t call_count;
};

struct relay {
    int64_t batch;
    const char *name;
    const char *url;
    int64_t limit;
    const struct df_secret *secret;
    int64_t retry_limit;
    int driver;
};

struct call {
    const char *name;
    bool on;
};

static const char *const drivers[] = {"sqlite", "postgres", "sqlserver", NULL};
static const char *const roles[] = {"api", "process", "deliver", NULL};

#define S struct settings

static const struct df_config_key server_keys[] = {
    DF_KEY_STRING("listen", S, listen, "127.0.0.1:8080", "Address."),
    DF_KEY_INT("max_body_bytes", S, max_body_bytes, "1048576", 1024, 1073741824, "Largest body."),
    DF_KEY_FLAGS("roles", S, roles, "all", roles, "What runs | here."),
    {.key = NULL},
};
static const struct df_config_key database_keys[] = {
    DF_KEY_ENUM("driver", S, driver, "sqlite", drivers, "Back end."),
    DF_KEY_BOOL("migrate", S, migrate, "on", "Apply scripts."),
    DF_KEY_SECRET("password", S, password, "Password."),
    {.key = NULL},
};
static const struct df_config_key name_keys[] = {
    {.key = "name",
     .type = DF_CFG_STRING,
     .offset = offsetof(struct server, name),
     .max = 10,
     .help = "Name."},
    {.key = NULL},
};
static const struct df_config_key retry_keys[] = {
    DF_KEY_INT_LIST("delays", S, delays, "1,5,30", 0, 86400, "Seconds."),
    DF_KEY_INT("offset", S, offset, "0", INT64_MIN, INT64_MAX, "Any."),
    DF_KEY_SECRET("key", S, key, "Key."),
    DF_KEY_STRING("note", S, note, NULL, "Note."),
    {.key = NULL},
};

/* Two rooms have keys in [server]. */
static const struct df_config_section sections[] = {
    {"server", server_keys, 0},
    {"database", database_keys, 0},
    {"server", name_keys, offsetof(struct settings, server)},
    {"retry", retry_keys, 0},
    {.name = NULL},
};

static const struct df_config_key relay_keys[] = {
    DF_KEY_URL("url", struct relay, url, "Where from."),
    DF_KEY_INT("batch", struct relay, batch, "200", 1, 1000, "Rows."),
    DF_KEY_INT("limit", struct relay, limit, NULL, 0, 9, "Any."),
    DF_KEY_SECRET("secret", struct relay, secret, "Secret."),
    DF_KEY_INT("retry_limit", struct relay, retry_limit, "5", 0, 9, "Retries."),
    DF_KEY_ENUM("driver", struct relay, driver, "postgres", drivers, "Driver."),
    {.key = NULL},
};
static const struct df_config_key call_keys[] = {
    DF_KEY_BOOL("on", struct call, on, "off", "Whether."),
    {.key = NULL},
};

static const struct df_config_group relay_group = {.prefix = "relay",
                                                   .keys = relay_keys,
                                                   .size = sizeof(struct relay),
                                                   .name_offset = offsetof(struct relay, name),
                                                   .help = "A relay.",
                                                   .example = "[relay.orders]\nbatch = 1\n"};
static const struct df_config_group call_group = {.prefix = "call",
                                                  .keys = call_keys,
                                                  .size = sizeof(struct call),
                                                  .name_offset = offsetof(struct call, name),
                                                  .help = "A call.",
                                                  .example = "[call.x]\n"};
static const struct df_config_group_at groups[] = {
    {&relay_group, offsetof(struct settings, relays), offsetof(struct settings, relay_count)},
    {&call_group, offsetof(struct settings, calls), offsetof(struct settings, call_count)},
    {.group = NULL},
};
static const struct df_config_table table = {.sections = sections, .groups = groups};

/* --- files ------------------------------------------------------------------------------------ */

static char dir[] = "/tmp/base_config_test.XXXXXX";
static char ini_path[PATH_MAX];
static char secret_path[PATH_MAX];

static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(ini_path, sizeof(ini_path), "%s/dataflow.ini", dir);
    snprintf(secret_path, sizeof(secret_path), "%s/secret", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(ini_path);
    unlink(secret_path);
    return rmdir(dir);
}

static void write_file(const char *path, struct df_str text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text.ptr, text.len), text.len);
    close(fd);
}

/* --- loading ---------------------------------------------------------------------------------- */

static struct settings settings;
static struct df_buf complaints;

struct sources {
    struct df_str ini; /* absent: no file */
    const char *env[8];
    const char *sets[4];
};

static enum df_code load(const struct sources *s)
{
    struct df_config_sources src = {.sets = s->sets};
    char *env[LEN(s->env) + 1] = {NULL};

    if (s->ini.ptr) {
        write_file(ini_path, s->ini);
        src.file = ini_path;
    }
    for (size_t i = 0; i < LEN(s->env) && s->env[i]; i++)
        env[i] = strdup(s->env[i]);
    src.env = env;
    while (src.set_count < LEN(s->sets) && s->sets[src.set_count])
        src.set_count++;
    df_buf_release(&complaints);
    df_buf_init(&complaints, 1 << 20);
    settings = (struct settings){0};
    enum df_code code = df_config_load(&table, &src, &settings, &complaints);
    for (size_t i = 0; env[i]; i++)
        free(env[i]);
    return code;
}

static void assert_loads(const struct sources *s)
{
    if (load(s) != DF_OK)
        fail_msg("refused: %s", df_buf_str(&complaints).ptr);
    assert_int_equal(complaints.len, 0);
}

static void release(void)
{
    df_config_release(&table, &settings);
    assert_null(settings.listen);
    assert_null(settings.password);
    assert_null(settings.relays);
    assert_int_equal(settings.relay_count, 0);
    df_buf_release(&complaints);
}

/* Wants exactly these complaints; in them, $F stands for the file and $S for the secret file. */
static void assert_refused(const struct sources *s, const char *expected)
{
    struct df_buf wanted;

    df_buf_init(&wanted, 1 << 20);
    for (const char *p = expected; *p; p++) {
        if (*p == '$' && (p[1] == 'F' || p[1] == 'S'))
            df_buf_addz(&wanted, *++p == 'F' ? ini_path : secret_path);
        else
            df_buf_addc(&wanted, *p);
    }
    df_buf_addc(&wanted, '\n');
    assert_int_equal(load(s), DF_E_CONFIG);
    assert_string_equal(df_buf_str(&complaints).ptr, df_buf_str(&wanted).ptr);
    assert_null(settings.listen);
    assert_null(settings.password);
    assert_null(settings.relays);
    df_buf_release(&wanted);
    df_buf_release(&complaints);
}

/* --- what is accepted ------------------------------------------------------------------------- */

static void defaults_stand_when_nothing_is_given(void **state)
{
    (void)state;
    assert_loads(&(struct sources){0});
    assert_string_equal(settings.listen, "127.0.0.1:8080");
    assert_null(settings.server.name);
    assert_int_equal(settings.max_body_bytes, 1048576);
    assert_true(settings.migrate);
    assert_int_equal(settings.driver, 0);
    assert_int_equal(settings.roles, 7);
    assert_int_equal(settings.delays.count, 3);
    assert_int_equal(settings.delays.items[2], 30);
    assert_null(settings.password);
    release();
}

static void a_file_sets_every_type(void **state)
{
    (void)state;
    assert_loads(
        &(struct sources){.ini = DF_STR_INIT("\xEF\xBB\xBF# a comment\r\n"
                                             "; another\r\n"
                                             "\r\n"
                                             "[Server]\r\n"
                                             "  LISTEN=0.0.0.0:1  \r\n"
                                             "max_body_bytes\t=\t2048\r\n"
                                             "roles = api, DELIVER\r\n"
                                             "[database]\n"
                                             "driver = Postgres\n"
                                             "migrate = No\n"
                                             "password = p@ss ;word # \"quoted\" %41 = 100% [x]\n"
                                             "[ retry ]\n"
                                             "delays = 1, 2,3\n"
                                             "offset = -9223372036854775808\n"
                                             "[server]\n"
                                             "name = na\tme\xC3\xA9")});
    assert_string_equal(settings.listen, "0.0.0.0:1");
    assert_int_equal(settings.max_body_bytes, 2048);
    assert_int_equal(settings.roles, 5);
    assert_int_equal(settings.driver, 1);
    assert_false(settings.migrate);
    assert_true(df_str_eq(df_secret_str(settings.password),
                          DF_STR("p@ss ;word # \"quoted\" %41 = 100% [x]")));
    assert_int_equal(settings.delays.count, 3);
    assert_int_equal(settings.delays.items[1], 2);
    assert_true(settings.offset == INT64_MIN);
    assert_string_equal(settings.server.name, "na\tme\xC3\xA9");
    release();
}

static void later_sources_win(void **state)
{
    (void)state;
    assert_loads(&(struct sources){
        .ini = DF_STR_INIT("[server]\nlisten = file\nname = file\nmax_body_bytes = 2000\n"),
        .env = {"DATAFLOW_SERVER_LISTEN=env", "DATAFLOW_SERVER_NAME=env",
                "DATAFLOW_SERVER_MAX_BODY_BYTES=3000"},
        .sets = {"server.listen=set", "server.name=first", "SERVER.Name=a=b"},
    });
    assert_string_equal(settings.listen, "set");
    assert_string_equal(settings.server.name, "a=b");
    assert_int_equal(settings.max_body_bytes, 3000);
    release();
}

static void empty_texts_and_lists_are_empty_not_unset(void **state)
{
    (void)state;
    assert_loads(
        &(struct sources){.ini = DF_STR_INIT("[server]\nlisten =\nroles =\n[retry]\ndelays =\n")});
    assert_string_equal(settings.listen, "");
    assert_int_equal(settings.roles, 0);
    assert_int_equal(settings.delays.count, 0);
    release();
}

static void other_variables_are_nobodys_business(void **state)
{
    (void)state;
    assert_loads(&(struct sources){.env = {"DATAFLOW_CONFIG=/etc/x", "DATAFLOW_TEST_ANY=1",
                                           "PATH=/bin", "DATAFLOWER=1", "DATAFLOW_BIN=x",
                                           "DATAFLOW_=1", "DATAFLOW_server_listen=1"}});
    release();
    assert_loads(&(struct sources){.env = {"dataflow_server_listen=x", "DATAFLOW_BROKEN"}});
    assert_string_equal(settings.listen, "127.0.0.1:8080");
    release();
}

static void a_value_of_4096_bytes_is_whole(void **state)
{
    static char text[5000] = "[server]\nlisten = ";
    size_t head = strlen(text);
    (void)state;

    memset(text + head, 'v', 4096);
    assert_loads(&(struct sources){.ini = df_str_n(text, head + 4096)});
    assert_int_equal(strlen(settings.listen), 4096);
    release();
}

static void secrets_come_from_files_in_every_source(void **state)
{
    char line[2][PATH_MAX + 100];
    static const struct {
        struct df_str content, secret;
    } cases[] = {
        {DF_STR_INIT("hush"), DF_STR_INIT("hush")},
        {DF_STR_INIT("hush\n"), DF_STR_INIT("hush")},
        {DF_STR_INIT("hush\r\n"), DF_STR_INIT("hush")},
        {DF_STR_INIT("hush\n\n"), DF_STR_INIT("hush\n")},
        {DF_STR_INIT(" two\nlines \n"), DF_STR_INIT(" two\nlines ")},
        {DF_STR_INIT("\xFF\x01"), DF_STR_INIT("\xFF\x01")},
    };
    (void)state;

    snprintf(line[0], sizeof(line[0]), "[database]\npassword_FILE = %s\n", secret_path);
    for (size_t i = 0; i < LEN(cases); i++) {
        write_file(secret_path, cases[i].content);
        assert_loads(&(struct sources){.ini = df_str_c(line[0])});
        assert_true(df_str_eq(df_secret_str(settings.password), cases[i].secret));
        release();
    }
    snprintf(line[0], sizeof(line[0]), "DATAFLOW_DATABASE_PASSWORD_FILE=%s", secret_path);
    snprintf(line[1], sizeof(line[1]), "retry.key_file=%s", secret_path);
    assert_loads(&(struct sources){.env = {line[0]}, .sets = {line[1]}});
    assert_true(df_str_eq(df_secret_str(settings.password), DF_STR("\xFF\x01")));
    assert_true(df_str_eq(df_secret_str(settings.key), DF_STR("\xFF\x01")));
    release();
}

static void a_later_secret_replaces_an_earlier_file_and_the_reverse(void **state)
{
    char line[PATH_MAX + 100];
    (void)state;

    write_file(secret_path, DF_STR("from file"));
    snprintf(line, sizeof(line), "DATAFLOW_DATABASE_PASSWORD_FILE=%s", secret_path);
    assert_loads(
        &(struct sources){.ini = DF_STR_INIT("[database]\npassword = plain\n"), .env = {line}});
    assert_true(df_str_eq(df_secret_str(settings.password), DF_STR("from file")));
    release();
    /* The replaced path is not even looked at. */
    assert_loads(&(struct sources){.ini = DF_STR_INIT("[database]\npassword_file = /nonexistent\n"),
                                   .env = {"DATAFLOW_DATABASE_PASSWORD= plain "}});
    assert_true(df_str_eq(df_secret_str(settings.password), DF_STR(" plain ")));
    release();
}

static void which_modes_let_in_others(void **state)
{
    (void)state;
    static const struct {
        unsigned mode;
        bool is_our_own;
        unsigned shared;
    } cases[] = {
        {0600, true, 0},     {0400, true, 0},    {0700, true, 0},       {0640, true, 0640},
        {0660, true, 0660},  {0604, true, 0604}, {0602, true, 0602},    {0644, true, 0644},
        {0640, false, 0},    {0440, false, 0},   {0660, false, 0660},   {0644, false, 0644},
        {0601, false, 0601}, {0100600, true, 0}, {0100644, true, 0644},
    };
    for (size_t i = 0; i < LEN(cases); i++) {
        unsigned got = df_config_shared_mode(cases[i].mode, cases[i].is_our_own);
        if (got != cases[i].shared)
            fail_msg("%o: %o", cases[i].mode, got);
    }
}

/* Wants these warnings, $F and $S as above; none: "". */
static void assert_warns(const char *ini, mode_t ini_mode, mode_t secret_mode, const char *expected)
{
    struct df_buf warnings, wanted;
    struct df_config_sources src = {.file = ini_path, .warnings = &warnings};

    df_buf_init(&warnings, 1 << 16);
    df_buf_init(&wanted, 1 << 16);
    df_buf_init(&complaints, 1 << 16);
    for (const char *p = expected; *p; p++) {
        if (*p == '$')
            df_buf_addz(&wanted, *++p == 'F' ? ini_path : secret_path);
        else
            df_buf_addc(&wanted, *p);
    }
    struct df_buf text;
    df_buf_init(&text, 1 << 16);
    for (const char *p = ini; *p; p++) {
        if (*p == '$')
            df_buf_addz(&text, secret_path);
        else
            df_buf_addc(&text, *p);
    }
    write_file(ini_path, df_buf_str(&text));
    write_file(secret_path, DF_STR("the secret\n"));
    assert_int_equal(chmod(ini_path, ini_mode), 0);
    assert_int_equal(chmod(secret_path, secret_mode), 0);
    settings = (struct settings){0};
    assert_int_equal(df_config_load(&table, &src, &settings, &complaints), DF_OK);
    assert_string_equal(df_buf_str(&warnings).ptr, df_buf_str(&wanted).ptr);
    release();
    df_buf_release(&text);
    df_buf_release(&wanted);
    df_buf_release(&warnings);
    assert_int_equal(chmod(ini_path, 0600), 0);
    assert_int_equal(chmod(secret_path, 0600), 0);
}

static void files_with_secrets_that_others_can_read_are_warned_of(void **state)
{
    (void)state;
#define SHARED " holds a secret, and others than its owner may read or write it (mode "
#define DO_IT  "); chmod 600 it\n"
    static const struct {
        const char *ini;
        mode_t ini_mode;
        mode_t secret_mode;
        const char *expected;
    } cases[] = {
        {"[database]\npassword = x\n", 0600, 0600, ""},
        {"[database]\npassword = x\n", 0644, 0600, "$F:" SHARED "644" DO_IT},
        {"[server]\nlisten = x:1\n", 0666, 0666, ""}, /* nothing to hide */
        {"[database]\npassword_file = $\n", 0644, 0600, ""},
        {"[database]\npassword_file = $\n", 0644, 0640, "$S:" SHARED "640" DO_IT},
        {"[database]\npassword_file = $\n[retry]\nkey = y\n", 0604, 0606,
         "$F:" SHARED "604" DO_IT "$S:" SHARED "606" DO_IT},
        {"[relay.a]\nurl = postgres://u:p@h/d\n", 0644, 0600, "$F:" SHARED "644" DO_IT},
        {"[relay.a]\nurl = sqlite:x\n", 0644, 0600, ""},
    };
    for (size_t i = 0; i < LEN(cases); i++)
        assert_warns(cases[i].ini, cases[i].ini_mode, cases[i].secret_mode, cases[i].expected);
}

static void a_secret_file_may_have_64_kib(void **state)
{
    static char text[65537];
    char set[PATH_MAX + 100];
    (void)state;

    memset(text, 's', sizeof(text));
    snprintf(set, sizeof(set), "retry.key_file=%s", secret_path);
    write_file(secret_path, df_str_n(text, 65536));
    assert_loads(&(struct sources){.sets = {set}});
    assert_int_equal(df_secret_str(settings.key).len, 65536);
    release();
    write_file(secret_path, df_str_n(text, 65537));
    assert_refused(&(struct sources){.sets = {set}},
                   "--set retry.key_file: $S is larger than 65536 bytes");
}

/* --- groups ----------------------------------------------------------------------------------- */

static void sections_of_a_group_fill_elements_in_their_order(void **state)
{
    (void)state;
    assert_loads(&(struct sources){.ini = DF_STR_INIT("[relay.orders]\n"
                                                      "url = postgres://a\n"
                                                      "[Relay.B-2_x]\n"
                                                      "BATCH = 7\n"
                                                      "limit = 0\n"
                                                      "secret = hush\n"
                                                      "[call.orders]\n"
                                                      "on = yes\n"
                                                      "[server]\n"
                                                      "listen = here\n"
                                                      "[ relay.ORDERS ]\n"
                                                      "batch = 9\n"
                                                      "[relay.empty]\n")});
    assert_string_equal(settings.listen, "here");
    assert_int_equal(settings.relay_count, 3);
    assert_string_equal(settings.relays[0].name, "orders");
    assert_string_equal(settings.relays[0].url, "postgres://a");
    assert_int_equal(settings.relays[0].batch, 9);
    assert_true(settings.relays[0].limit == DF_CFG_INT_UNSET);
    assert_null(settings.relays[0].secret);
    assert_string_equal(settings.relays[1].name, "B-2_x");
    assert_null(settings.relays[1].url);
    assert_int_equal(settings.relays[1].batch, 7);
    assert_int_equal(settings.relays[1].limit, 0);
    assert_true(df_str_eq(df_secret_str(settings.relays[1].secret), DF_STR("hush")));
    assert_string_equal(settings.relays[2].name, "empty");
    assert_int_equal(settings.relays[2].batch, 200);
    assert_int_equal(settings.relays[2].driver, 1);
    assert_int_equal(settings.call_count, 1);
    assert_string_equal(settings.calls[0].name, "orders");
    assert_true(settings.calls[0].on);
    release();
}

static void environment_and_options_override_and_make_sections(void **state)
{
    char line[2][PATH_MAX + 100];
    (void)state;

    write_file(secret_path, DF_STR("from file\n"));
    snprintf(line[0], sizeof(line[0]), "DATAFLOW_RELAY_B_2_SECRET_FILE=%s", secret_path);
    snprintf(line[1], sizeof(line[1]), "relay.fresh.url_file=%s", secret_path);
    assert_loads(&(struct sources){
        .ini = DF_STR_INIT("[relay.Orders]\nbatch = 1\nlimit = 1\n[relay.b-2]\nsecret = x\n"),
        .env = {"DATAFLOW_RELAY_ORDERS_BATCH=2", "DATAFLOW_RELAY_ORDERS_LIMIT=2", line[0],
                "DATAFLOW_RELAY_NEW_ONE_URL=u", "DATAFLOW_RELAY_X_RETRY_LIMIT=3",
                "DATAFLOW_RELAY_new_ONE_BATCH=4", "DATAFLOW_CALL_RETRY_ON=on"},
        .sets = {"RELAY.orders.limit=3", line[1], "relay.B-2.Batch=8"},
    });
    assert_int_equal(settings.relay_count, 5);
    assert_string_equal(settings.relays[0].name, "Orders");
    assert_int_equal(settings.relays[0].batch, 2);
    assert_int_equal(settings.relays[0].limit, 3);
    assert_true(df_str_eq(df_secret_str(settings.relays[1].secret), DF_STR("from file")));
    assert_int_equal(settings.relays[1].batch, 8);
    assert_string_equal(settings.relays[2].name, "new_one");
    assert_string_equal(settings.relays[2].url, "u");
    assert_int_equal(settings.relays[2].batch, 4);
    /* The longest key: not limit of the relay x_retry. */
    assert_string_equal(settings.relays[3].name, "x");
    assert_int_equal(settings.relays[3].retry_limit, 3);
    assert_string_equal(settings.relays[4].name, "fresh");
    assert_string_equal(settings.relays[4].url, "from file");
    assert_string_equal(settings.calls[0].name, "retry");
    release();
}

#define NAME_RULE                                                                                  \
    "NAME in relay.NAME is made of letters, digits, - and _, begins with a letter or digit and "   \
    "has at most 64 characters"
#define NAME_64 "n234567890123456789012345678901234567890123456789012345678901234"

static void faulty_sections_of_a_group_are_refused(void **state)
{
    static const struct {
        struct sources given;
        const char *complaint;
    } cases[] = {
        {{.ini = DF_STR_INIT("[relay.a b]\nurl = x\nbogus = 1\n[relay.b]\nbogus = 1\n")},
         "$F:1: " NAME_RULE "\n$F:5: [relay.b] bogus: unknown key"},
        {{.ini = DF_STR_INIT("[relay.]\n")}, "$F:1: " NAME_RULE},
        {{.ini = DF_STR_INIT("[relay.-a]\n")}, "$F:1: " NAME_RULE},
        {{.ini = DF_STR_INIT("[relay._a]\n")}, "$F:1: " NAME_RULE},
        {{.ini = DF_STR_INIT("[relay.a.b]\n")}, "$F:1: " NAME_RULE},
        {{.ini = DF_STR_INIT("[relay.\xC3\xA9]\n")}, "$F:1: " NAME_RULE},
        {{.ini = DF_STR_INIT("[relay." NAME_64 "5]\n")}, "$F:1: " NAME_RULE},
        {{.ini = DF_STR_INIT("[relay." NAME_64 "]\nx = 1\n")},
         "$F:2: [relay." NAME_64 "] x: unknown key"},
        {{.ini = DF_STR_INIT("[relay]\nurl = x\n")},
         "$F:2: [relay] url: unknown section; it is [relay.NAME]"},
        {{.ini = DF_STR_INIT("[relays.x]\nurl = x\n")},
         "$F:2: [relays.x] url: unknown section; did you mean [relay.x]?"},
        {{.ini = DF_STR_INIT("[server.x]\nlisten = x\n")},
         "$F:2: [server.x] listen: unknown section"},
        {{.ini = DF_STR_INIT("[relay.x]\nbatch = 0\n")},
         "$F:2: [relay.x] batch: must be between 1 and 1000, not \"0\""},
        {{.ini = DF_STR_INIT("[relay.x]\nbatch = 1\n[relay.X]\nbatch = 1\n")},
         "$F:4: [relay.x] batch: given twice, first on line 2"},
        {{.ini = DF_STR_INIT("[relay.x]\nurl = 1\nurl_file = /x\n")},
         "$F:3: [relay.x] url_file: url and url_file must not both be given"},
        {{.ini = DF_STR_INIT("[relay.x]\nsecret_file = /nonexistent\n")},
         "$F:2: [relay.x] secret_file: /nonexistent cannot be read: No such file or directory"},
        {{.env = {"DATAFLOW_RELAY_URL=x"}}, "DATAFLOW_RELAY_URL: no such setting"},
        /* Not the limit of a relay named retry. */
        {{.env = {"DATAFLOW_RELAY_RETRY_LIMIT=3"}}, "DATAFLOW_RELAY_RETRY_LIMIT: no such setting"},
        {{.env = {"DATAFLOW_RELAY_=x"}}, "DATAFLOW_RELAY_: no such setting"},
        {{.env = {"DATAFLOW_RELAY__URL=x"}}, "DATAFLOW_RELAY__URL: " NAME_RULE},
        {{.env = {"DATAFLOW_RELAY_ORDERS_BOGUS=x"}},
         "DATAFLOW_RELAY_ORDERS_BOGUS: no such setting"},
        {{.env = {"DATAFLOW_RELAY_ORDERSURL=x"}}, "DATAFLOW_RELAY_ORDERSURL: no such setting"},
        {{.env = {"DATAFLOW_RELAY_ORDERS_BATCH_FILE=x"}},
         "DATAFLOW_RELAY_ORDERS_BATCH_FILE: no such setting"},
        {{.env = {"DATAFLOW_RELAY_A-B_BATCH=x"}},
         "DATAFLOW_RELAY_A_B_BATCH: must be a whole number between 1 and 1000, not \"x\""},
        {{.env = {"DATAFLOW_RELAY_A.B_URL=x"}}, "DATAFLOW_RELAY_A.B_URL: " NAME_RULE},
        {{.ini = DF_STR_INIT("[relay.a-b]\n[relay.a_b]\n"), .env = {"DATAFLOW_RELAY_A_B_URL=x"}},
         "DATAFLOW_RELAY_A_B_URL: may mean [relay.a-b] and [relay.a_b]"},
        {{.sets = {"relay.url=x"}}, "--set relay.url: unknown section; it is [relay.NAME]"},
        {{.sets = {"relay..url=x"}}, "--set relay..url: " NAME_RULE},
        {{.sets = {"relay.a.b.url=x"}}, "--set relay.a.b.url: " NAME_RULE},
        {{.sets = {"relay.a.bogus=x"}}, "--set relay.a.bogus: unknown key"},
        {{.sets = {"relay.a.batch=x"}},
         "--set relay.a.batch: must be a whole number between 1 and 1000, not \"x\""},
    };
    (void)state;
    for (size_t i = 0; i < LEN(cases); i++)
        assert_refused(&cases[i].given, cases[i].complaint);
}

static void a_group_has_at_most_64_sections(void **state)
{
    static char text[4000];
    size_t len = 0;
    (void)state;

    for (size_t i = 0; i < 64; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "[relay.r%zu]\nbatch = 3\n", i);
    assert_loads(&(struct sources){.ini = df_str_n(text, len),
                                   .env = {"DATAFLOW_RELAY_R63_BATCH=1", "DATAFLOW_CALL_X_ON=1"}});
    assert_int_equal(settings.relay_count, 64);
    assert_string_equal(settings.relays[63].name, "r63");
    assert_int_equal(settings.relays[63].batch, 1);
    release();
    snprintf(text + len, sizeof(text) - len, "[relay.r0]\n[relay.more]\nbatch = 1\n");
    assert_refused(&(struct sources){.ini = df_str_c(text),
                                     .env = {"DATAFLOW_RELAY_NEW_URL=1"},
                                     .sets = {"relay.other.url=1"}},
                   "$F:130: more than 64 sections [relay.NAME]\n"
                   "DATAFLOW_RELAY_NEW_URL: more than 64 sections [relay.NAME]\n"
                   "--set relay.other.url: more than 64 sections [relay.NAME]");
}

static void sections_of_a_group_are_printed_and_can_be_read_again(void **state)
{
    static const char expected[] = "\n[relay.Orders]\n"
                                   "url = postgres://u:***@h/d\n"
                                   "batch = 200\n"
                                   "# limit =\n"
                                   "secret = (set)\n"
                                   "retry_limit = 5\n"
                                   "driver = sqlserver\n"
                                   "\n[relay.b]\n"
                                   "# url =\n"
                                   "batch = 200\n"
                                   "limit = 4\n"
                                   "# secret =\n"
                                   "retry_limit = 5\n"
                                   "driver = postgres\n"
                                   "\n[call.x-y]\n"
                                   "on = off\n";
    struct df_buf out;
    (void)state;

    df_buf_init(&out, 1 << 20);
    assert_loads(&(struct sources){
        .ini = DF_STR_INIT("[relay.Orders]\nurl = postgres://u:pw@h/d\nsecret = hunter2\n"
                           "driver = sqlserver\n[call.x-y]\n"),
        .sets = {"relay.b.limit=4"}});
    df_config_print(&table, &settings, &out);
    assert_true(df_str_ends(df_buf_str(&out), df_str_c(expected)));
    release();

    assert_loads(&(struct sources){.ini = DF_STR_INIT("[relay.Orders]\nurl = postgres://u:pw@h/d\n"
                                                      "secret = hunter2\n[call.x-y]\n"),
                                   .sets = {"relay.b.limit=4"}});
    df_buf_reset(&out);
    df_config_print_json(&table, &settings, &out);
    assert_true(df_str_ends(df_buf_str(&out), DF_STR(",\"call.x-y\":{\"on\":\"off\"}}")));
    assert_non_null(strstr(df_buf_str(&out).ptr, "\"secret\":\"(set)\""));
    assert_non_null(strstr(df_buf_str(&out).ptr, "\"secret\":null"));
    assert_null(strstr(df_buf_str(&out).ptr, "hunter2"));
    assert_null(strstr(df_buf_str(&out).ptr, "pw@"));
    release();

    assert_loads(&(struct sources){.ini = df_str_c(expected)});
    df_buf_reset(&out);
    df_config_print(&table, &settings, &out);
    assert_true(df_str_ends(df_buf_str(&out), df_str_c(expected)));
    release();
    df_buf_release(&out);
}

/* --- what is refused -------------------------------------------------------------------------- */

static void faulty_files_are_refused_with_their_line(void **state)
{
    static const struct {
        struct df_str ini;
        const char *complaint;
    } cases[] = {
        {DF_STR_INIT("[nowhere]\na = 1\n"), "$F:2: [nowhere] a: unknown section"},
        {DF_STR_INIT("[server]\n\nport = 1\n"), "$F:3: [server] port: unknown key"},
        {DF_STR_INIT("[server]\nlisten_file = x\n"), "$F:2: [server] listen_file: unknown key"},
        {DF_STR_INIT("[server]\n_file = x\n"), "$F:2: [server] _file: unknown key"},
        {DF_STR_INIT("[server]\nlisten = a\nListen = b\n"),
         "$F:3: [server] listen: given twice, first on line 2"},
        {DF_STR_INIT("[server]\nlisten = a\n[retry]\n[server]\nlisten = a\n"),
         "$F:5: [server] listen: given twice, first on line 2"},
        {DF_STR_INIT("[server]\nlisten\n"), "$F:2: expected [section] or key = value"},
        {DF_STR_INIT("[server]\nlisten: x\n"), "$F:2: expected [section] or key = value"},
        {DF_STR_INIT("[server]\nlisten = a\n  continued\n"),
         "$F:3: expected [section] or key = value"},
        {DF_STR_INIT("[server]\n = x\n"), "$F:2: the name before \"=\" is missing"},
        {DF_STR_INIT("listen = x\n"), "$F:1: a [section] must come first"},
        {DF_STR_INIT("[server\nlisten = x\n"),
         "$F:1: a section is written [name], with nothing after it"},
        {DF_STR_INIT("[server] # no\nlisten = x\n"),
         "$F:1: a section is written [name], with nothing after it"},
        {DF_STR_INIT("[ ]\n"), "$F:1: a section is written [name], with nothing after it"},
        {DF_STR_INIT("["), "$F:1: a section is written [name], with nothing after it"},
        {DF_STR_INIT("[server]\nlisten = a\0b\n"), "$F:2: a NUL byte is not allowed"},
        {DF_STR_INIT("[server]\nlisten = a\x1b[0m\n"), "$F:2: control characters are not allowed"},
        {DF_STR_INIT("[server]\nlisten = a\rname = b\n"),
         "$F:2: control characters are not allowed"},
        {DF_STR_INIT("[server]\n# caf\xE9\n"), "$F:2: the text is not valid UTF-8"},
        {DF_STR_INIT("[server]\nmax_body_bytes = 5\n"),
         "$F:2: [server] max_body_bytes: must be between 1024 and 1073741824, not \"5\""},
        {DF_STR_INIT("[server]\nmax_body_bytes = -5\n"),
         "$F:2: [server] max_body_bytes: must be between 1024 and 1073741824, not \"-5\""},
        {DF_STR_INIT("[server]\nmax_body_bytes = 99999999999999999999\n"),
         "$F:2: [server] max_body_bytes: must be between 1024 and 1073741824, not "
         "\"99999999999999999999\""},
        {DF_STR_INIT("[server]\nmax_body_bytes = 5k\n"),
         "$F:2: [server] max_body_bytes: must be a whole number between 1024 and 1073741824, not "
         "\"5k\""},
        {DF_STR_INIT("[server]\nmax_body_bytes =\n"),
         "$F:2: [server] max_body_bytes: must be a whole number between 1024 and 1073741824, not "
         "\"\""},
        {DF_STR_INIT("[retry]\noffset = 9223372036854775808\n"),
         "$F:2: [retry] offset: must be between -9223372036854775808 and 9223372036854775807, not "
         "\"9223372036854775808\""},
        {DF_STR_INIT("[server]\nroles = api,cook\n"),
         "$F:2: [server] roles: must be all, or some of api, process, deliver, not \"cook\""},
        {DF_STR_INIT("[server]\nroles = api,\n"),
         "$F:2: [server] roles: must be all, or some of api, process, deliver, not \"\""},
        {DF_STR_INIT("[server]\nroles = all,api\n"),
         "$F:2: [server] roles: must be all, or some of api, process, deliver, not \"all\""},
        {DF_STR_INIT("[database]\ndriver = oracle\n"),
         "$F:2: [database] driver: must be one of sqlite, postgres, sqlserver, not \"oracle\""},
        {DF_STR_INIT("[database]\nmigrate = maybe\n"),
         "$F:2: [database] migrate: must be on or off, not \"maybe\""},
        {DF_STR_INIT("[database]\npassword =\n"), "$F:2: [database] password: must not be empty"},
        {DF_STR_INIT("[database]\npassword_file =\n"),
         "$F:2: [database] password_file: must be the path of a file"},
        {DF_STR_INIT("[database]\npassword = x\npassword_file = /x\n"),
         "$F:3: [database] password_file: password and password_file must not both be given"},
        {DF_STR_INIT("[database]\npassword_file = /x\npassword = x\n"),
         "$F:3: [database] password: password and password_file must not both be given\n"
         "$F:2: [database] password_file: /x cannot be read: No such file or directory"},
        {DF_STR_INIT("[retry]\ndelays = 1,x\n"),
         "$F:2: [retry] delays: must be a whole number between 0 and 86400, not \"x\""},
        {DF_STR_INIT("[retry]\ndelays = 1,,2\n"),
         "$F:2: [retry] delays: must be a whole number between 0 and 86400, not \"\""},
        {DF_STR_INIT("[retry]\ndelays = 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17\n"),
         "$F:2: [retry] delays: must be at most 16 numbers"},
        {DF_STR_INIT("[server]\nname = elevenbytes\n"),
         "$F:2: [server] name: must be at most 10 bytes long"},
    };
    (void)state;
    for (size_t i = 0; i < LEN(cases); i++)
        assert_refused(&(struct sources){.ini = cases[i].ini}, cases[i].complaint);
}

static void faulty_variables_and_options_are_refused_by_name(void **state)
{
    static const struct {
        const char *env, *set, *complaint;
    } cases[] = {
        {"DATAFLOW_SERVER_PORT=1", NULL, "DATAFLOW_SERVER_PORT: no such setting"},
        {"DATAFLOW_SERVER_\x1b[2J\n=1", NULL, "DATAFLOW_SERVER_?[2J?: no such setting"},
        {"DATAFLOW_SERVER_LISTEN_FILE=/x", NULL, "DATAFLOW_SERVER_LISTEN_FILE: no such setting"},
        {"DATAFLOW_SERVER_LISTEN=a\nb", NULL,
         "DATAFLOW_SERVER_LISTEN: control characters are not allowed"},
        {"DATAFLOW_SERVER_LISTEN=\xFF", NULL,
         "DATAFLOW_SERVER_LISTEN: the text is not valid UTF-8"},
        {"DATAFLOW_DATABASE_MIGRATE=", NULL,
         "DATAFLOW_DATABASE_MIGRATE: must be on or off, not \"\""},
        {"DATAFLOW_DATABASE_PASSWORD_FILE=/nonexistent/x", NULL,
         "DATAFLOW_DATABASE_PASSWORD_FILE: /nonexistent/x cannot be read: No such file or "
         "directory"},
        {"DATAFLOW_DATABASE_PASSWORD_FILE=/", NULL,
         "DATAFLOW_DATABASE_PASSWORD_FILE: / is not a regular file"},
        {"DATAFLOW_DATABASE_PASSWORD_FILE=/dev/null", NULL,
         "DATAFLOW_DATABASE_PASSWORD_FILE: /dev/null is not a regular file"},
        {NULL, "server.listen", "--set: option number 1 is not of the form section.key=value"},
        {NULL, "listen=x", "--set: option number 1 is not of the form section.key=value"},
        {NULL, ".listen=x", "--set: option number 1 is not of the form section.key=value"},
        {NULL, "server.=x", "--set: option number 1 is not of the form section.key=value"},
        {NULL, "=x", "--set: option number 1 is not of the form section.key=value"},
        {NULL, "", "--set: option number 1 is not of the form section.key=value"},
        {NULL, "server.port=1", "--set server.port: unknown key"},
        {NULL, "nowhere.port=1", "--set nowhere.port: unknown section"},
        {NULL, "database.driver=x",
         "--set database.driver: must be one of sqlite, postgres, sqlserver, not \"x\""},
    };
    (void)state;
    for (size_t i = 0; i < LEN(cases); i++)
        assert_refused(&(struct sources){.env = {cases[i].env}, .sets = {cases[i].set}},
                       cases[i].complaint);
    assert_refused(&(struct sources){.sets = {"retry.key=a", "retry.key_file=/x"}},
                   "--set retry.key_file: key and key_file must not both be given");
}

static void bad_secret_files_are_refused(void **state)
{
    static const struct {
        struct df_str content;
        const char *complaint;
    } cases[] = {
        {DF_STR_INIT(""), "--set retry.key_file: $S is empty"},
        {DF_STR_INIT("\n"), "--set retry.key_file: $S is empty"},
        {DF_STR_INIT("\r\n"), "--set retry.key_file: $S is empty"},
        {DF_STR_INIT("a\0b"), "--set retry.key_file: $S contains a NUL byte"},
    };
    char set[PATH_MAX + 100];
    (void)state;

    snprintf(set, sizeof(set), "retry.key_file=%s", secret_path);
    for (size_t i = 0; i < LEN(cases); i++) {
        write_file(secret_path, cases[i].content);
        assert_refused(&(struct sources){.sets = {set}}, cases[i].complaint);
    }
    write_file(secret_path, DF_STR("postgres://a\nb\n"));
    snprintf(set, sizeof(set), "relay.x.url_file=%s", secret_path);
    assert_refused(&(struct sources){.sets = {set}},
                   "--set relay.x.url_file: $S: control characters are not allowed");
    snprintf(set, sizeof(set), "retry.key_file=%s", secret_path);
    /* A pipe without a writer must not hang the start. */
    unlink(secret_path);
    assert_int_equal(mkfifo(secret_path, 0600), 0);
    assert_refused(&(struct sources){.sets = {set}},
                   "--set retry.key_file: $S is not a regular file");
    unlink(secret_path);
    write_file(secret_path, DF_STR("x"));
    chmod(secret_path, 0);
    if (access(secret_path, R_OK) != 0)
        assert_refused(&(struct sources){.sets = {set}},
                       "--set retry.key_file: $S cannot be read: Permission denied");
    chmod(secret_path, 0600);
}

static void unreadable_configuration_is_refused(void **state)
{
    static const struct {
        const char *path, *complaint;
    } cases[] = {
        {"/nonexistent.ini", "/nonexistent.ini: cannot be read: No such file or directory\n"},
        {"/", "/: is not a regular file\n"},
        {"/dev/zero", "/dev/zero: is larger than 1048576 bytes\n"},
    };
    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        struct df_config_sources src = {.file = cases[i].path};
        df_buf_init(&complaints, 1 << 20);
        settings = (struct settings){0};
        assert_int_equal(df_config_load(&table, &src, &settings, &complaints), DF_E_CONFIG);
        assert_string_equal(df_buf_str(&complaints).ptr, cases[i].complaint);
        df_buf_release(&complaints);
    }
}

static void long_lines_and_values_are_refused_not_cut(void **state)
{
    static char text[70000] = "[server]\nlisten = ";
    size_t head = strlen(text);
    (void)state;

    memset(text + head, 'v', sizeof(text) - head);
    assert_refused(&(struct sources){.ini = df_str_n(text, head + 4097)},
                   "$F:2: [server] listen: must be at most 4096 bytes long");
    assert_refused(&(struct sources){.ini = df_str_n(text, sizeof(text))},
                   "$F:2: the line is too long");
    text[head - 2] = 'v'; /* a name as long */
    text[sizeof(text) - 1] = '=';
    assert_refused(&(struct sources){.ini = df_str_n(text, sizeof(text))},
                   "$F:2: the line is too long");

    head = (size_t)snprintf(text, sizeof(text), "[database]\npassword_file = ");
    memset(text + head, 'p', 5000);
    assert_refused(&(struct sources){.ini = df_str_n(text, head + 5000)},
                   "$F:2: [database] password_file: must be the path of a file");
}

static void all_complaints_come_at_once(void **state)
{
    (void)state;
    assert_refused(
        &(struct sources){
            .ini = DF_STR_INIT("[server]\nmax_body_bytes = 1\nbogus = 1\nhm\n[database]\n"
                               "migrate = x\npassword_file = /nonexistent\n"),
            .env = {"DATAFLOW_SERVER_BOGUS=1", "DATAFLOW_SERVER_ROLES=x"},
            .sets = {"bogus", "retry.delays=-1"},
        },
        "$F:2: [server] max_body_bytes: must be between 1024 and 1073741824, not \"1\"\n"
        "$F:3: [server] bogus: unknown key\n"
        "$F:4: expected [section] or key = value\n"
        "$F:6: [database] migrate: must be on or off, not \"x\"\n"
        "DATAFLOW_SERVER_BOGUS: no such setting\n"
        "DATAFLOW_SERVER_ROLES: must be all, or some of api, process, deliver, not \"x\"\n"
        "--set: option number 1 is not of the form section.key=value\n"
        "--set retry.delays: must be between 0 and 86400, not \"-1\"\n"
        "$F:7: [database] password_file: /nonexistent cannot be read: No such file or directory");
}

static void a_flood_of_complaints_is_counted(void **state)
{
    static char text[20000] = "[server]\n";
    (void)state;

    size_t len = strlen(text);
    for (size_t i = 0; i < 250; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "bogus%zu = 1\n", i);
    assert_int_equal(load(&(struct sources){.ini = df_str_n(text, len)}), DF_E_CONFIG);
    assert_true(df_str_ends(df_buf_str(&complaints), DF_STR("\nand 150 more\n")));
    df_buf_release(&complaints);
}

static void a_secret_is_never_shown(void **state)
{
    static char text[6000] = "[database]\npassword = ";
    static const char *const faulty[] = {
        "[database]\npassword = hunter2\npassword = hunter2\n",
        "[database]\npassword = hunter2\x01\n",
        "[database]\npassword hunter2\n",
        "[database]\npasword = hunter2\n",
        "[datbase]\npassword = hunter2\n",
    };
    (void)state;

    for (size_t i = 0; i < LEN(faulty); i++) {
        assert_int_equal(load(&(struct sources){.ini = df_str_c(faulty[i])}), DF_E_CONFIG);
        assert_null(strstr(df_buf_str(&complaints).ptr, "hunter2"));
    }
    static const char *const sets[] = {"database.password", "hunter2", "x=hunter2"};
    for (size_t i = 0; i < LEN(sets); i++) {
        assert_int_equal(load(&(struct sources){.sets = {sets[i]}}), DF_E_CONFIG);
        assert_null(strstr(df_buf_str(&complaints).ptr, "hunter2"));
    }
    size_t head = strlen(text);
    memset(text + head, 'h', 5000);
    assert_refused(&(struct sources){.ini = df_str_n(text, head + 5000)},
                   "$F:2: [database] password: must be at most 4096 bytes long");
}

static void a_wrong_default_is_found(void **state)
{
    static const struct df_config_key wrong[] = {DF_KEY_INT("b", S, offset, "11", 1, 10, ""),
                                                 {.key = NULL}};
    const struct df_config_table t = {
        .sections = (const struct df_config_section[]){{"a", wrong, 0}, {.name = NULL}}};
    const struct df_config_sources src = {0};
    (void)state;

    df_buf_init(&complaints, 1000);
    assert_int_equal(df_config_load(&t, &src, &settings, &complaints), DF_E_CONFIG);
    assert_string_equal(df_buf_str(&complaints).ptr,
                        "default of [a] b: must be between 1 and 10, not \"11\"\n");
    df_buf_release(&complaints);
}

/* --- units and optional texts ------------------------------------------------------------------
 */

struct measured {
    int64_t wait_ms;
    int64_t room_bytes;
    int64_t any_ms;
    int64_t any_bytes;
    struct df_int_list delays_ms;
    const char *target;
    const char *url;
};
#define M struct measured

static const struct df_config_key measured_keys[] = {
    DF_KEY_INT_IN(DF_MINUTES, "wait_minutes", M, wait_ms, "30", 1, 1440, "Minutes."),
    DF_KEY_INT_IN(DF_MIB, "room_mb", M, room_bytes, "80", 32, 65536, "MiB."),
    /* Ranges with more than can be kept. */
    DF_KEY_INT_IN(DF_DAYS, "any_days", M, any_ms, NULL, INT64_MIN, INT64_MAX, "Days."),
    DF_KEY_INT_IN(DF_MIB, "any_mb", M, any_bytes, "0", INT64_MIN, INT64_MAX, "MiB."),
    {.key = "delays_seconds",
     .type = DF_CFG_INT_LIST,
     .offset = offsetof(M, delays_ms),
     .def = "1,5",
     .max = 60,
     .unit = DF_SECONDS,
     .help = "Seconds."},
    DF_KEY_OPTIONAL("target", M, target, "Target."),
    DF_KEY_OPTIONAL_URL("url", M, url, "URL."),
    {.key = NULL},
};
static const struct df_config_section measured_sections[] = {{"m", measured_keys, 0},
                                                             {.name = NULL}};
static const struct df_config_table measured_table = {.sections = measured_sections};

static enum df_code load_measured(const char *a, const char *b, M *ret)
{
    const char *sets[] = {a, b};
    struct df_config_sources src = {.sets = sets, .set_count = a ? b ? 2 : 1 : 0};

    *ret = (M){0};
    df_buf_release(&complaints);
    df_buf_init(&complaints, 1 << 16);
    return df_config_load(&measured_table, &src, ret, &complaints);
}

static void numbers_are_kept_in_the_unit_of_their_member(void **state)
{
    M m;
    struct df_buf out;
    (void)state;

    assert_int_equal(load_measured(NULL, NULL, &m), DF_OK);
    assert_int_equal(m.wait_ms, 30 * 60 * 1000);
    assert_int_equal(m.room_bytes, 80 * 1024 * 1024);
    assert_true(m.any_ms == DF_CFG_INT_UNSET);
    assert_int_equal(m.delays_ms.items[0], 1000);
    assert_int_equal(m.delays_ms.items[1], 5000);
    df_config_release(&measured_table, &m);

    assert_int_equal(load_measured("m.wait_minutes=1440", "m.room_mb=65536", &m), DF_OK);
    assert_int_equal(m.wait_ms, INT64_C(86400000));
    assert_int_equal(m.room_bytes, INT64_C(1) << 36);
    /* Printed as it was written. */
    df_buf_init(&out, 4096);
    df_config_print(&measured_table, &m, &out);
    assert_string_equal(df_buf_str(&out).ptr, "[m]\nwait_minutes = 1440\nroom_mb = 65536\n"
                                              "# any_days =\nany_mb = 0\ndelays_seconds = 1,5\n"
                                              "# target =\n# url =\n");
    df_buf_release(&out);
    df_config_release(&measured_table, &m);
    df_buf_release(&complaints);
}

static void a_number_that_does_not_fit_its_unit_is_refused(void **state)
{
    static const struct {
        const char *set, *complaint;
    } cases[] = {
        {"m.wait_minutes=1441", "m.wait_minutes: must be between 1 and 1440, not \"1441\""},
        {"m.wait_minutes=0", "m.wait_minutes: must be between 1 and 1440, not \"0\""},
        {"m.wait_minutes=153722867280912931",
         "m.wait_minutes: must be between 1 and 1440, not \"153722867280912931\""},
        {"m.delays_seconds=1,61", "m.delays_seconds: must be between 0 and 60, not \"61\""},
        {"m.any_days=106751991168",
         "m.any_days: must be between -106751991167 and 106751991167, not \"106751991168\""},
        {"m.any_days=-106751991168",
         "m.any_days: must be between -106751991167 and 106751991167, not \"-106751991168\""},
        {"m.any_mb=8796093022208",
         "m.any_mb: must be between -8796093022207 and 8796093022207, not \"8796093022208\""},
        {"m.any_mb=-8796093022208",
         "m.any_mb: must be between -8796093022207 and 8796093022207, not \"-8796093022208\""},
        {"m.any_mb=9223372036854775807",
         "m.any_mb: must be between -8796093022207 and 8796093022207, not "
         "\"9223372036854775807\""},
    };
    M m;
    (void)state;

    for (size_t i = 0; i < LEN(cases); i++) {
        char wanted[200];
        snprintf(wanted, sizeof(wanted), "--set %s\n", cases[i].complaint);
        assert_int_equal(load_measured(cases[i].set, NULL, &m), DF_E_CONFIG);
        assert_string_equal(df_buf_str(&complaints).ptr, wanted);
    }
    assert_int_equal(load_measured("m.any_days=106751991167", "m.any_mb=-8796093022207", &m),
                     DF_OK);
    assert_true(m.any_ms == INT64_C(106751991167) * 86400000);
    assert_true(m.any_bytes == -INT64_C(8796093022207) * 1048576);
    df_config_release(&measured_table, &m);
    df_buf_release(&complaints);
}

static void an_empty_optional_text_is_none(void **state)
{
    M m;
    (void)state;

    assert_int_equal(load_measured("m.target=a", "m.url=b", &m), DF_OK);
    assert_string_equal(m.target, "a");
    assert_string_equal(m.url, "b");
    df_config_release(&measured_table, &m);
    assert_int_equal(load_measured("m.target=a", "m.target=", &m), DF_OK);
    assert_null(m.target);
    assert_int_equal(load_measured("m.url=", NULL, &m), DF_OK);
    assert_null(m.url);
    df_config_release(&measured_table, &m);
    df_buf_release(&complaints);
}

/* --- printing --------------------------------------------------------------------------------- */

static void the_effective_configuration_is_printed_and_can_be_read_again(void **state)
{
    static const char expected[] = "[server]\n"
                                   "listen = 127.0.0.1:8080\n"
                                   "max_body_bytes = 1048576\n"
                                   "roles = api,deliver\n"
                                   "# name =\n"
                                   "\n"
                                   "[database]\n"
                                   "driver = sqlserver\n"
                                   "migrate = off\n"
                                   "password = (set)\n"
                                   "\n"
                                   "[retry]\n"
                                   "delays = 1,5,30\n"
                                   "offset = -7\n"
                                   "# key =\n"
                                   "note = 100% \"as is\"; # all\n";
    struct df_buf out;
    (void)state;

    df_buf_init(&out, 1 << 20);
    assert_loads(&(struct sources){
        .sets = {"database.password=hunter2", "database.migrate=off", "database.driver=sqlserver",
                 "server.roles=deliver,api"},
        .env = {"DATAFLOW_RETRY_OFFSET=-7", "DATAFLOW_RETRY_NOTE=100% \"as is\"; # all"}});
    df_config_print(&table, &settings, &out);
    assert_string_equal(df_buf_str(&out).ptr, expected);
    release();

    assert_loads(&(struct sources){.ini = df_str_c(expected)});
    df_buf_reset(&out);
    df_config_print(&table, &settings, &out);
    assert_string_equal(df_buf_str(&out).ptr, expected);
    release();
    df_buf_release(&out);
}

static void the_reference_is_a_table_for_each_section(void **state)
{
    struct df_buf out;
    (void)state;

    df_buf_init(&out, 1 << 20);
    df_config_print_docs(&table, &out);
    const char *text = df_buf_str(&out).ptr;
    assert_true(df_str_starts(df_str_c(text),
                              DF_STR("## [server]\n\n| key | value | default | meaning |\n"
                                     "| --- | --- | --- | --- |\n"
                                     "| `listen` | text | `127.0.0.1:8080` | Address. |\n"
                                     "| `max_body_bytes` | whole number, 1024 to 1073741824 | "
                                     "`1048576` | Largest body. |\n"
                                     "| `roles` | all, or some of api, process, deliver | `all` | "
                                     "What runs \\| here. |\n"
                                     "| `name` | text, at most 10 bytes |  | Name. |\n"
                                     "\n## [database]\n")));
    assert_non_null(strstr(text, "| `password` | secret, or `password_file` |  | Password. |\n"));
    assert_non_null(strstr(text, "| `migrate` | on or off | `on` | Apply scripts. |\n"));
    assert_non_null(strstr(text, "| `driver` | one of sqlite, postgres, sqlserver | `sqlite` |"));
    assert_non_null(strstr(text, "\n\n## [relay.NAME]\n\nA relay.\n\nUp to 64 such sections."));
    assert_non_null(strstr(text, "`DATAFLOW_RELAY_<NAME>_<KEY>`"));
    assert_non_null(strstr(text, "\n```ini\n[relay.orders]\nbatch = 1\n```\n\n"
                                 "| key | value | default | meaning |\n"
                                 "| --- | --- | --- | --- |\n"
                                 "| `url` | URL, or `url_file` |  | Where from. |\n"));
    assert_non_null(strstr(text, "\n\n## [call.NAME]\n"));
    assert_non_null(strstr(text, "| `delays` | up to 16 whole numbers, 0 to 86400, with commas |"));
    df_buf_release(&out);
}

static void a_url_is_printed_without_its_password_and_read_from_a_file(void **state)
{
    static const struct df_config_key url_keys[] = {DF_KEY_URL("url", S, note, "URL."),
                                                    {.key = NULL}};
    const struct df_config_table urls = {
        .sections = (const struct df_config_section[]){{"database", url_keys, 0}, {.name = NULL}}};
    static const struct {
        const char *given, *shown;
    } cases[] = {
        {"postgres://u:secret@h/d", "postgres://u:***@h/d"},
        {"postgres://u:sec@ret@h/d", "postgres://u:***@h/d"},
        {"postgres://u@h:5432/d", "postgres://u@h:5432/d"},
        {"sqlite:/var/x@y:z.db", "sqlite:/var/x@y:z.db"},
    };
    (void)state;
    for (size_t i = 0; i < LEN(cases); i++) {
        char set[PATH_MAX + 40];
        FILE *f = fopen(secret_path, "w");
        assert_non_null(f);
        fprintf(f, "%s\n", cases[i].given);
        fclose(f);
        snprintf(set, sizeof(set), "database.url_file=%s", secret_path);
        const char *sets[] = {set};
        struct df_config_sources src = {.sets = sets, .set_count = 1};
        struct settings got = {0};
        struct df_buf out;
        df_buf_init(&out, 4096);
        assert_int_equal(df_config_load(&urls, &src, &got, &out), DF_OK);
        assert_string_equal(got.note, cases[i].given);
        df_config_print(&urls, &got, &out);
        assert_non_null(strstr(df_buf_str(&out).ptr, cases[i].shown));
        assert_null(strstr(df_buf_str(&out).ptr, "secret@"));
        df_config_release(&urls, &got);
        df_buf_release(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_stand_when_nothing_is_given),
        cmocka_unit_test(a_file_sets_every_type),
        cmocka_unit_test(later_sources_win),
        cmocka_unit_test(empty_texts_and_lists_are_empty_not_unset),
        cmocka_unit_test(other_variables_are_nobodys_business),
        cmocka_unit_test(a_value_of_4096_bytes_is_whole),
        cmocka_unit_test(secrets_come_from_files_in_every_source),
        cmocka_unit_test(a_later_secret_replaces_an_earlier_file_and_the_reverse),
        cmocka_unit_test(which_modes_let_in_others),
        cmocka_unit_test(files_with_secrets_that_others_can_read_are_warned_of),
        cmocka_unit_test(a_secret_file_may_have_64_kib),
        cmocka_unit_test(sections_of_a_group_fill_elements_in_their_order),
        cmocka_unit_test(environment_and_options_override_and_make_sections),
        cmocka_unit_test(faulty_sections_of_a_group_are_refused),
        cmocka_unit_test(a_group_has_at_most_64_sections),
        cmocka_unit_test(sections_of_a_group_are_printed_and_can_be_read_again),
        cmocka_unit_test(faulty_files_are_refused_with_their_line),
        cmocka_unit_test(faulty_variables_and_options_are_refused_by_name),
        cmocka_unit_test(bad_secret_files_are_refused),
        cmocka_unit_test(unreadable_configuration_is_refused),
        cmocka_unit_test(long_lines_and_values_are_refused_not_cut),
        cmocka_unit_test(all_complaints_come_at_once),
        cmocka_unit_test(a_flood_of_complaints_is_counted),
        cmocka_unit_test(a_secret_is_never_shown),
        cmocka_unit_test(a_wrong_default_is_found),
        cmocka_unit_test(numbers_are_kept_in_the_unit_of_their_member),
        cmocka_unit_test(a_number_that_does_not_fit_its_unit_is_refused),
        cmocka_unit_test(an_empty_optional_text_is_none),
        cmocka_unit_test(the_effective_configuration_is_printed_and_can_be_read_again),
        cmocka_unit_test(a_url_is_printed_without_its_password_and_read_from_a_file),
        cmocka_unit_test(the_reference_is_a_table_for_each_section),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
