/*
 * Connecting to PostgreSQL: which of the URL's hosts is the primary.
 *
 * The hosts are tried one after the other, the one that was the primary last first, each for at
 * most connect_timeout. A standby is refused (target_session_attrs). libpq could go through the
 * hosts by itself; it is done here to know who answered, and to tell a primary from one of the
 * past.
 *
 * A standby that is promoted begins a new timeline. So a server whose timeline is older than one
 * that was seen is the primary from before a failover, which may still believe in itself: it was
 * cut off, or frozen. It is left alone. The newest timeline is remembered for each URL, for as long
 * as the process lives; the first connection of a process therefore asks all hosts. Timelines of
 * different clusters (system_identifier) are not compared: after a restore from a dump, a new
 * cluster begins at 1.
 *
 * A server that freezes, or a network that is cut, ends no connection. libpq's keepalives notice
 * some of that. For the rest, whoever waits for an answer asks every ASK_MS whether the server
 * still serves: whether it greets at all, and whether another host has a newer timeline. A primary
 * of the past that waits for its standby to confirm a commit is noticed that way too.
 */
#include "base/buf.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/pg_private.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define IDLE_TIMEOUT_MS  60000
#define SILENCE_GRACE_MS 15000
#define SURVEY_MS        2000 /* for a host that is asked beside the one that is in use */
#define GREETING_SECONDS "4"
#define SILENCES_MAX     2 /* a busy server may be late with one greeting */
#define HOSTS_MAX        16
#define PLACES_MAX       64
#define WHY_MAX          2048

/* --- what was seen of primaries --------------------------------------------------------------- */

struct place {
    uint64_t url; /* a hash of it */
    bool seen;    /* somebody has connected */
    uint64_t system;
    int64_t timeline; /* the newest; 0: not known */
    size_t host;      /* the primary's place in the URL */
};

static struct df_mutex places_lock = DF_MUTEX_INIT;
static struct place places[PLACES_MAX];
static size_t place_count;

static uint64_t hash_url(const char *url)
{
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */

    for (; *url; url++)
        hash = (hash ^ (unsigned char)*url) * UINT64_C(1099511628211);
    return hash;
}

static struct place *find_place(uint64_t url) DF_REQUIRES(places_lock)
{
    for (size_t i = 0; i < place_count; i++) {
        if (places[i].url == url)
            return &places[i];
    }
    return NULL;
}

static struct place place_of(uint64_t url)
{
    df_lock(&places_lock);
    const struct place *p = find_place(url);
    struct place found = p ? *p : (struct place){.url = url};
    df_unlock(&places_lock);
    return found;
}

/* Remembers the server, unless a newer primary was seen. More URLs than there is room for are not
 * remembered. */
static void note_place(const struct pg_db *pg)
{
    df_lock(&places_lock);
    struct place *p = find_place(pg->place);
    if (!p && place_count < PLACES_MAX) {
        p = &places[place_count++];
        *p = (struct place){.url = pg->place};
    }
    bool known = pg->timeline > 0;
    if (p &&
        (p->timeline == 0 || (known && (p->system != pg->system || pg->timeline >= p->timeline))))
        *p = (struct place){pg->place, true, pg->system, pg->timeline, pg->host};
    df_unlock(&places_lock);
}

bool df_pg_is_past(const struct df_db *db)
{
    const struct pg_db *pg = (const struct pg_db *)db;
    struct place p = place_of(pg->place);
    return pg->timeline > 0 && p.system == pg->system && pg->timeline < p.timeline;
}

/* --- the URL ---------------------------------------------------------------------------------- */

/* NULL: err says why. */
static PQconninfoOption *parse_url(const char *url, struct df_err *err)
{
    char safe[256];
    char masked[256];
    char *message = NULL;

    PQconninfoOption *parsed = PQconninfoParse(url, &message);
    if (!parsed) {
        df_db_url_masked(url, masked, sizeof(masked));
        df_pg_copy_unquoted(message ? message : "", safe, sizeof(safe));
        PQfreemem(message);
        df_err_set(err, DF_E_CONFIG, "database.url %s is not understood: %s", masked, safe);
    }
    return parsed;
}

static const char *value_of(const PQconninfoOption *all, const char *keyword)
{
    while (all->keyword && strcmp(all->keyword, keyword) != 0)
        all++;
    return all->val && *all->val ? all->val : NULL;
}

static const char *option_of(const PQconninfoOption *all, const char *keyword, const char *variable)
{
    const char *value = value_of(all, keyword);
    if (!value)
        value = secure_getenv(variable);
    return value && *value ? value : NULL;
}

/* An item of a list with commas; absent: the list has fewer. */
static struct df_str list_item(const char *list, size_t at)
{
    struct df_str rest = list ? df_str_c(list) : DF_STR_NULL;
    struct df_str item = DF_STR_NULL;

    for (size_t i = 0; i <= at; i++) {
        if (!rest.ptr)
            return DF_STR_NULL;
        rest = df_str_cut(rest, ',', &item);
    }
    return item;
}

static size_t list_count(const char *list)
{
    size_t count = list ? 1 : 0;
    for (; list && *list; list++)
        count += *list == ',';
    return count;
}

static size_t host_count(const PQconninfoOption *all)
{
    const char *addresses = value_of(all, "hostaddr");
    return list_count(addresses ? addresses : value_of(all, "host"));
}

static const char *bad_port(const char *ports)
{
    int64_t port;

    for (size_t i = 0; i < list_count(ports); i++) {
        struct df_str item = list_item(ports, i);
        if (item.len > 0 && (!df_str_to_i64(item, &port) || port < 1 || port > 65535))
            return "a port is not a number from 1 to 65535";
    }
    return NULL;
}

/* Why these servers are refused; NULL: they are fine. */
static const char *bad_servers(const PQconninfoOption *all)
{
    const char *hosts = value_of(all, "host"), *addresses = value_of(all, "hostaddr");
    const char *ports = value_of(all, "port"), *attrs = value_of(all, "target_session_attrs");
    size_t count = host_count(all);

    if (count > HOSTS_MAX)
        return "there are more than 16 hosts";
    if (hosts && addresses && list_count(hosts) != count)
        return "there are not as many hosts as addresses in hostaddr";
    if (list_count(ports) > 1 && list_count(ports) != count)
        return "there are not as many ports as hosts";
    for (size_t i = 0; count > 1 && i < count; i++) {
        if (list_item(addresses ? addresses : hosts, i).len == 0)
            return "a host is missing between commas";
    }
    if (attrs && strcmp(attrs, "read-write") != 0 && strcmp(attrs, "primary") != 0 &&
        strcmp(attrs, "any") != 0)
        return "target_session_attrs is read-write, primary or any: a standby takes no writes";
    return bad_port(ports);
}

static enum df_code check_parsed(const PQconninfoOption *all, const char *url, struct df_err *err)
{
    const char *why = bad_servers(all);
    char masked[256];

    if (!why)
        return DF_OK;
    df_db_url_masked(url, masked, sizeof(masked));
    return df_err_set(err, DF_E_CONFIG, "database.url %s: %s", masked, why);
}

enum df_code df_pg_check_url(const char *url, struct df_err *err)
{
    PQconninfoOption *parsed = parse_url(url, err);
    enum df_code code = parsed ? check_parsed(parsed, url, err) : DF_E_CONFIG;
    PQconninfoFree(parsed);
    return code;
}

/* `hosts` may be a list, and may name directories of Unix sockets. */
static bool leaves_machine(const char *hosts)
{
    struct df_str rest = df_str_c(hosts);

    while (rest.len > 0) {
        struct df_str host;
        rest = df_str_cut(rest, ',', &host);
        bool socket = host.len == 0 || host.ptr[0] == '/' || host.ptr[0] == '@';
        if (!socket && !df_host_is_loopback(host))
            return true;
    }
    return false;
}

/* libpq verifies the server only with a verifying mode, or with `require` and a root
 * certificate. */
void df_pg_url_risk(const char *url, bool strict, struct df_buf *out)
{
    PQconninfoOption *all = PQconninfoParse(url, NULL);

    if (!all)
        return;
    const char *mode = option_of(all, "sslmode", "PGSSLMODE");
    const char *address = option_of(all, "hostaddr", "PGHOSTADDR");
    const char *hosts = address ? address : option_of(all, "host", "PGHOST");
    bool by_service =
        !strict && !mode &&
        option_of(all, "service", "PGSERVICE"); /* the service file may set the mode */
    bool verified =
        mode && (strcmp(mode, "verify-full") == 0 || (!strict && strcmp(mode, "verify-ca") == 0) ||
                 (!strict && strcmp(mode, "require") == 0 &&
                  option_of(all, "sslrootcert", "PGSSLROOTCERT")));
    if (hosts && leaves_machine(hosts) && !verified && !by_service)
        df_buf_addf(out,
                    "nothing is verified with sslmode=%s%s: whoever stands between can read and "
                    "change everything; write sslmode=verify-full&sslrootcert=FILE, the file with "
                    "the authority's certificate",
                    mode ? mode : "prefer", mode ? "" : ", the default");
    PQconninfoFree(all);
}

/* --- one server ------------------------------------------------------------------------------- */

/*
 * The session's settings travel with the start-up packet, those of the URL among them. Settings
 * that the reading of rows relies on come last and win.
 *
 * A plan is made once and kept. A plan made while a table is small would scan it, and would go on
 * scanning when the table is large, until the table is next analyzed: perhaps a minute of full
 * load. Every condition of ours that may meet many rows has an index, so sequential scans are
 * switched off.
 */
static void session_options(const struct df_db_options *opt, const char *from_url,
                            struct df_buf *out)
{
    /* The lock timeout is shorter, so that the error names the lock as the reason. */
    int64_t lock_ms = opt->statement_timeout_ms / 3 + 1;
    df_buf_addf(out, "-c statement_timeout=%lld -c lock_timeout=%lld",
                (long long)opt->statement_timeout_ms, (long long)lock_ms);
    df_buf_addf(
        out, " -c idle_in_transaction_session_timeout=%lld",
        (long long)(opt->idle_transaction_ms > 0 ? opt->idle_transaction_ms : IDLE_TIMEOUT_MS));
    df_buf_addf(out, " -c default_transaction_read_only=%s", opt->read_only ? "on" : "off");
    if (!opt->foreign)
        df_buf_addz(out, " -c enable_seqscan=off -c jit=off");
    if (from_url)
        df_buf_addf(out, " %s", from_url);
    df_buf_addz(out, " -c TimeZone=UTC -c DateStyle=ISO -c bytea_output=hex");
}

static const char *trusted_file; /* set once, at the start */

void df_db_trust(const char *ca_file)
{
    trusted_file = ca_file;
}

/* One host of the URL. Texts: the arena of the connection. */
struct server {
    const char *host; /* NULL, like the next two: what the URL, or libpq's default, says */
    const char *address;
    const char *port;
};

static const char *item_or_null(struct df_arena *a, const char *list, size_t at)
{
    struct df_str item = list_item(list, at);
    return item.len > 0 ? df_arena_cstr(a, item) : NULL;
}

static struct server server_at(struct df_arena *a, const PQconninfoOption *all, size_t at,
                               size_t count)
{
    const char *ports = value_of(all, "port");

    if (count < 2)
        return (struct server){0};
    struct server s = {.host = item_or_null(a, value_of(all, "host"), at),
                       .address = item_or_null(a, value_of(all, "hostaddr"), at),
                       .port = item_or_null(a, ports, list_count(ports) > 1 ? at : 0)};
    /* An empty port is the default one; the list of the URL would not fit one host. */
    if (!s.port && ports)
        s.port = "5432";
    return s;
}

/* Sessions that read have read-only transactions, which libpq does not take for `read-write`. */
static const char *reader_attrs(const struct df_db_options *opt, const PQconninfoOption *all)
{
    const char *given = value_of(all, "target_session_attrs");
    return opt->read_only && !(given && strcmp(given, "any") == 0) ? "primary" : NULL;
}

static PGconn *start_connection(const struct df_db_options *opt, const PQconninfoOption *all,
                                const struct server *at, const char *options)
{
    char timeout[24];
    /* libpq counts in seconds, and treats 1 as 2. */
    (void)snprintf(timeout, sizeof(timeout), "%lld",
                   (long long)((opt->connect_timeout_ms + 999) / 1000));
    const char *const settings[][2] = {
        /* Before dbname: defaults, which the URL may override. libpq skips what is NULL. */
        {"connect_timeout", timeout},
        {"fallback_application_name", opt->name ? opt->name : "dataflow"},
        {"keepalives_idle", "5"},
        {"keepalives_interval", "2"},
        {"keepalives_count", "3"},
        {"tcp_user_timeout", "6000"},
        {"gssencmode", "disable"},
        {"ssl_min_protocol_version", "TLSv1.2"},
        {"sslrootcert", trusted_file},
        {"target_session_attrs", "read-write"},
        {"dbname", opt->url},
        {"client_encoding", "UTF8"},
        {"options", options},
        {"target_session_attrs", reader_attrs(opt, all)},
        {"host", at->host},
        {"hostaddr", at->address},
        {"port", at->port},
    };
    enum { COUNT = sizeof(settings) / sizeof(settings[0]) };
    const char *keywords[COUNT + 1] = {0};
    const char *values[COUNT + 1] = {0};

    for (size_t i = 0; i < COUNT; i++) {
        keywords[i] = settings[i][0];
        values[i] = settings[i][1];
    }
    return PQconnectdbParams(keywords, values, 1);
}

static enum df_code connect_server(struct pg_db *pg, const struct df_db_options *opt,
                                   const PQconninfoOption *all, const struct server *at,
                                   struct df_err *err)
{
    struct df_buf options;
    enum df_code code = DF_OK;

    df_buf_init(&options, 16384);
    session_options(opt, value_of(all, "options"), &options);
    pg->conn = start_connection(opt, all, at, df_buf_str(&options).ptr);
    if (df_buf_failed(&options))
        code = df_err_set(err, DF_E_CONFIG, "the options are too long");
    else if (!pg->conn)
        code = df_err_set(err, DF_E_DB_UNAVAILABLE, "out of memory");
    else if (PQstatus(pg->conn) != CONNECTION_OK)
        code = df_err_set(err, DF_E_DB_UNAVAILABLE, "%s", PQerrorMessage(pg->conn));
    df_buf_release(&options);
    return code;
}

/*
 * Data answered with 2xx must be on disk: when the server commits asynchronously, this session
 * turns that off. Behind a pooler a session setting does not last.
 */
static enum df_code require_durability(struct pg_db *pg, struct df_err *err)
{
    static const struct df_query ask =
        PG_STATEMENT("durability", "SELECT set_config('synchronous_commit', 'on', false) "
                                   "WHERE current_setting('synchronous_commit') = 'off'");
    static const struct df_query look =
        PG_STATEMENT("durability", "SELECT 1 WHERE current_setting('synchronous_commit') = 'off'");
    PGresult *res = NULL;
    struct pg_sink sink = {.ret_result = &res};

    enum df_code code = df_pg_run(pg, pg->pooled ? &look : &ask, NULL, 1, &sink, err);
    if (code == DF_OK && pg->pooled && PQntuples(res) > 0)
        code = df_err_set(err, DF_E_CONFIG,
                          "synchronous_commit is off, and behind a pooler it is the server's to "
                          "set: ALTER ROLE %s SET synchronous_commit = on",
                          PQuser(pg->conn));
    PQclear(res);
    return code;
}

/*
 * There is a pooler when the backend that serves us is not the one that greeted us. In transaction
 * mode another backend may run the next transaction, and it knows none of the statements prepared
 * before; an error about that in the middle of a transaction would undo it.
 */
static enum df_code detect_pooler(struct pg_db *pg, struct df_err *err)
{
    static const struct df_query q = PG_STATEMENT("backend", "SELECT pg_backend_pid()");
    PGresult *res = NULL;
    struct pg_sink sink = {.ret_result = &res};

    pg->pooled = true; /* until the answer is known */
    enum df_code code = df_pg_run(pg, &q, NULL, 1, &sink, err);
    if (code == DF_OK)
        pg->pooled = strtol(PQgetvalue(res, 0, 0), NULL, 10) != PQbackendPID(pg->conn);
    PQclear(res);
    return code;
}

/* Which cluster this is, and on which timeline it writes. A server that does not tell (a standby, a
 * service that has other means) stays unknown. */
static void ask_history(struct pg_db *pg)
{
    static const struct df_query q = PG_STATEMENT(
        "history", "SELECT system_identifier, ('x' || substr(pg_walfile_name("
                   "pg_current_wal_lsn()), 1, 8))::bit(32)::bigint FROM pg_control_system()");
    PGresult *res = NULL;
    struct pg_sink sink = {.ret_result = &res};

    if (df_pg_run(pg, &q, NULL, 1, &sink, NULL) == DF_OK && PQntuples(res) == 1) {
        pg->system = strtoull(PQgetvalue(res, 0, 0), NULL, 10);
        pg->timeline = strtoll(PQgetvalue(res, 0, 1), NULL, 10);
    }
    PQclear(res);
    if (pg->timeline > 0)
        pg->base.history = pg->system ^ (uint64_t)pg->timeline * UINT64_C(0x9e3779b97f4a7c15);
}

static void name_server(struct pg_db *pg)
{
    (void)snprintf(pg->base.server, sizeof(pg->base.server), "%s:%s", PQhost(pg->conn),
                   PQport(pg->conn));
}

static enum df_code open_server(const struct df_db_options *opt, const PQconninfoOption *all,
                                size_t host, size_t host_count, struct pg_db **ret,
                                struct df_err *err)
{
    struct pg_db *pg = df_calloc(1, sizeof(*pg));

    pg->base = (struct df_db){.ops = &df_postgres_ops, .alive = true};
    pg->read_only = opt->read_only;
    pg->place = hash_url(opt->url);
    pg->host = host;
    pg->statement_timeout_ms = opt->statement_timeout_ms;
    pg->silence_ms = opt->connect_timeout_ms; /* until it is known to serve */
    df_random(df_clock_real(), &pg->name_seed, sizeof(pg->name_seed));
    df_arena_init(&pg->arena);
    struct server at = server_at(&pg->arena, all, host, host_count);

    enum df_code code = connect_server(pg, opt, all, &at, err);
    if (code == DF_OK)
        code = df_pg_take_over(pg, err);
    if (code == DF_OK) {
        name_server(pg);
        code = detect_pooler(pg, err);
    }
    if (code != DF_OK) {
        df_pg_close(&pg->base);
        return code;
    }
    ask_history(pg);
    *ret = pg;
    return DF_OK;
}

/* --- all of them ------------------------------------------------------------------------------ */

/* Adds the first line of a message to those of the other hosts. */
static void add_reason(struct df_buf *why, const char *text)
{
    df_buf_addf(why, "%s%.*s", why->len > 0 ? "; " : "", (int)strcspn(text, "\n"), text);
}

static bool is_newer(const struct pg_db *pg, const struct pg_db *than)
{
    return !than || (pg->system == than->system && pg->timeline > than->timeline);
}

/* Goes through the hosts. *ret: the primary; NULL: `why` has what each of them said. */
static enum df_code find_primary(const struct df_db_options *opt, const PQconninfoOption *all,
                                 struct pg_db **ret, struct df_buf *why, struct df_err *err)
{
    size_t count = host_count(all);
    struct place known = place_of(hash_url(opt->url));
    struct df_db_options beside = *opt;

    *ret = NULL;
    count = count > 0 ? count : 1;
    if (beside.connect_timeout_ms > SURVEY_MS)
        beside.connect_timeout_ms = SURVEY_MS;
    for (size_t i = 0; i < count; i++) {
        struct pg_db *pg = NULL;
        struct df_err said = DF_ERR_INIT;
        enum df_code code =
            open_server(*ret ? &beside : opt, all, (known.host + i) % count, count, &pg, &said);
        if (code == DF_E_CONFIG) {
            *err = said;
            return code;
        }
        if (code != DF_OK) {
            add_reason(why, said.detail);
            continue;
        }
        if (df_pg_is_past(&pg->base)) {
            add_reason(why, "a server that was the primary before a failover answers:");
            df_buf_addf(why, " %s", pg->base.server);
        }
        bool takes = !df_pg_is_past(&pg->base) && is_newer(pg, *ret);
        struct pg_db *other = takes ? *ret : pg;
        *ret = takes ? pg : *ret;
        if (other)
            df_pg_close(&other->base);
        if (*ret && known.seen)
            break;
    }
    return *ret ? DF_OK : DF_E_DB_UNAVAILABLE;
}

/* From now on the connection is somebody's. */
static void begin_service(struct pg_db *pg, const struct df_db_options *opt)
{
    pg->url = df_strdup(df_str_c(opt->url));
    pg->opt = *opt;
    pg->opt.url = pg->url;
    pg->opt.connect_timeout_ms = SURVEY_MS;
    df_pg_limit_silence(pg, true);
    pg->asks = true;
    note_place(pg);
}

enum df_code df_pg_open(const struct df_db_options *opt, struct df_db **ret, struct df_err *err)
{
    struct pg_db *pg = NULL;
    struct df_buf why;
    char masked[256];
    PQconninfoOption *all = parse_url(opt->url, err);
    enum df_code code = all ? check_parsed(all, opt->url, err) : DF_E_CONFIG;

    df_buf_init(&why, WHY_MAX);
    if (code == DF_OK) {
        code = find_primary(opt, all, &pg, &why, err);
        if (code == DF_E_DB_UNAVAILABLE) {
            df_db_url_masked(opt->url, masked, sizeof(masked));
            df_err_set(err, code, "cannot connect to %s: %s", masked, df_buf_str(&why).ptr);
        }
    }
    if (code == DF_OK && !opt->read_only)
        code = require_durability(pg, err);
    if (code == DF_OK) {
        begin_service(pg, opt);
        *ret = &pg->base;
    } else if (pg) {
        df_pg_close(&pg->base);
    }
    df_buf_release(&why);
    PQconninfoFree(all);
    return code;
}

/* --- whether it still serves ------------------------------------------------------------------ */

/* Whether another host of the URL has a newer timeline. */
static bool is_overtaken(struct pg_db *pg)
{
    PQconninfoOption *all = parse_url(pg->url, NULL);
    size_t count = all ? host_count(all) : 0;

    for (size_t i = 0; pg->timeline > 0 && i < count && !df_pg_is_past(&pg->base); i++) {
        struct pg_db *other = NULL;
        if (i == pg->host || open_server(&pg->opt, all, i, count, &other, NULL) != DF_OK)
            continue;
        if (is_newer(other, pg))
            note_place(other);
        df_pg_close(&other->base);
    }
    PQconninfoFree(all);
    return df_pg_is_past(&pg->base);
}

/* Whether anybody greets at the server's address. Needs neither a password nor a free slot. */
static bool is_greeting(struct pg_db *pg)
{
    const char *const keywords[] = {"host",    "hostaddr",        "port",       "user", "dbname",
                                    "sslmode", "connect_timeout", "gssencmode", NULL};
    const char *const values[] = {PQhost(pg->conn),
                                  PQhostaddr(pg->conn),
                                  PQport(pg->conn),
                                  PQuser(pg->conn),
                                  PQdb(pg->conn),
                                  "disable",
                                  GREETING_SECONDS,
                                  "disable",
                                  NULL};
    return PQpingParams(keywords, values, 0) != PQPING_NO_RESPONSE;
}

bool df_pg_still_serves(struct pg_db *pg, int *silences)
{
    if (is_overtaken(pg))
        return false;
    *silences = is_greeting(pg) ? 0 : *silences + 1;
    return *silences < SILENCES_MAX;
}

void df_pg_limit_silence(struct pg_db *pg, bool limited)
{
    int64_t most_ms = pg->statement_timeout_ms + SILENCE_GRACE_MS;
    pg->silence_ms = !limited ? 0 : most_ms < INT_MAX ? most_ms : INT_MAX;
}
