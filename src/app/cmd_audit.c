/* dataflow audit: lists, exports and verifies the audit log, directly from the database. */
#include "access/audit_list.h"
#include "access/audit_verify.h"
#include "app/audited.h"
#include "app/cli.h"
#include "app/database.h"

#include <stdio.h>
#include <string.h>

#define OUTPUT_MAX ((size_t)64 << 20)
#define PAGE_ROWS  1000
#define LIST_ROWS  50
#define ROWS_MAX   INT64_C(10000000)
#define REASON_MAX 500

struct session {
    struct df_settings settings;
    struct df_db *db;
    bool json;
    struct df_audit_filter filter;
    int64_t limit;
    struct df_str reason;
    struct df_buf out;
    struct df_json_out jout;
    bool faulty;
};

/* --- list, export --- */

static enum df_code flush(struct session *s, struct df_err *err)
{
    struct df_str text = df_buf_str(&s->out);

    if (df_buf_failed(&s->out))
        return df_err_set(err, DF_E_TOO_LARGE, "entries are too long to be shown");
    if (fwrite(text.ptr, 1, text.len, stdout) != text.len || fflush(stdout) != 0)
        return df_err_errno(err, "cannot write to standard output");
    df_buf_reset(&s->out);
    return DF_OK;
}

/* Writes page by page, so that memory does not grow with the log. */
static enum df_code write_pages(struct session *s, bool csv, struct df_err *err)
{
    enum df_code (*plain)(struct df_db *, const struct df_audit_filter *, struct df_audit_page *,
                          struct df_buf *, struct df_err *) = csv ? df_audit_csv : df_audit_text;
    int64_t left = s->limit;
    enum df_code code = DF_OK;

    do {
        struct df_audit_page page = {.limit = left < PAGE_ROWS ? left : PAGE_ROWS};
        code = s->json ? df_audit_json(s->db, &s->filter, &page, &s->jout, err)
                       : plain(s->db, &s->filter, &page, &s->out, err);
        if (code == DF_OK)
            code = flush(s, err);
        left -= page.shown;
        s->filter.after = page.next;
    } while (code == DF_OK && left > 0 && s->filter.after > 0);
    return code;
}

static enum df_code list_entries(struct session *s, struct df_err *err)
{
    if (!s->json)
        return write_pages(s, false, err);
    df_json_open(&s->jout, '{');
    df_json_key(&s->jout, "items");
    df_json_open(&s->jout, '[');
    enum df_code code = write_pages(s, false, err);
    df_json_close(&s->jout, ']');
    if (s->filter.after > 0)
        df_json_kv_int(&s->jout, "next", s->filter.after);
    df_json_close(&s->jout, '}');
    df_buf_addc(&s->out, '\n');
    return code;
}

static enum df_code export_entries(struct session *s, struct df_err *err)
{
    df_audit_csv_header(&s->out);
    return write_pages(s, true, err);
}

/* --- verify --- */

static void add_finding(void *arg, const struct df_audit_finding *f)
{
    struct session *s = arg;
    char time[DF_TIME_LEN + 1] = "-";

    if (f->time_ms > 0)
        df_time_format(f->time_ms, time);
    if (s->json) {
        df_json_open(&s->jout, '{');
        df_json_kv_text(&s->jout, "kind", df_str_c(f->kind));
        df_json_kv_int(&s->jout, "sequence", f->sequence);
        df_json_kv_time(&s->jout, "time", f->time_ms > 0 ? f->time_ms : -1);
        df_json_kv_text(&s->jout, "text", df_str_c(f->text));
        df_json_close(&s->jout, '}');
    } else {
        df_buf_addf(&s->out, "%s  ", f->kind);
        df_cli_say(&s->out, "sequence %lld", (long long)f->sequence);
        df_buf_addf(&s->out, "  %s  ", time);
        df_cli_say(&s->out, "%s\n", f->text);
    }
}

static void add_report(struct session *s, const struct df_audit_report *r, size_t damaged)
{
    if (s->json) {
        df_json_close(&s->jout, ']');
        df_json_kv_int(&s->jout, "entries", r->entries);
        df_json_kv_int(&s->jout, "removed", r->removed);
        df_json_kv_int(&s->jout, "sealedLater", r->sealed);
        df_json_kv_int(&s->jout, "unsealed", r->unsealed);
        df_json_kv_int(&s->jout, "last", r->last);
        df_json_kv_int(&s->jout, "damagedLines", (int64_t)damaged);
        df_json_kv_bool(&s->jout, "ok", r->findings == 0);
        df_json_close(&s->jout, '}');
        df_buf_addc(&s->out, '\n');
        return;
    }
    df_cli_say(&s->out, "%lld entries up to sequence %lld", (long long)r->entries,
               (long long)r->last);
    if (r->removed > 0)
        df_cli_say(&s->out, ", %lld before them removed by retention", (long long)r->removed);
    if (r->sealed > 0)
        df_cli_say(&s->out, ", %lld of an older release, sealed later", (long long)r->sealed);
    if (r->unsealed > 0)
        df_cli_say(&s->out, ", %lld not sealed yet", (long long)r->unsealed);
    if (damaged > 0)
        df_cli_say(&s->out, ", %zu unreadable lines in audit-heads", damaged);
    df_cli_say(&s->out, ": %lld findings\n", (long long)r->findings);
}

static enum df_code verify_chain(struct session *s, struct df_err *err)
{
    struct df_audit_heads heads;
    struct df_audit_report report;
    enum df_code code = df_audit_heads_load(s->settings.data_dir, &heads, err);

    if (code != DF_OK)
        return code;
    if (s->json) {
        df_json_open(&s->jout, '{');
        df_json_key(&s->jout, "findings");
        df_json_open(&s->jout, '[');
    }
    code =
        df_audit_verify(s->db, &heads, df_wall_ms(df_clock_real()), add_finding, s, &report, err);
    if (code == DF_OK)
        add_report(s, &report, heads.damaged);
    s->faulty = code == DF_OK && report.findings > 0;
    df_audit_heads_release(&heads);
    return code;
}

/* --- the command --- */

static enum df_code tell_restored(struct session *s, struct df_err *err)
{
    enum df_code code = df_tell_restored(&s->settings, s->db, 0, s->reason, err);

    if (code == DF_OK && s->json)
        df_buf_addz(&s->out, "{\"ok\":true}\n");
    else if (code == DF_OK)
        df_cli_say(&s->out, "the audit log says that the database was restored\n");
    return code;
}

static enum df_code perform_audit(struct session *s, const char *verb, struct df_err *err)
{
    enum df_code code = df_open_audited(&s->settings, s->settings.store.migrate, &s->db, err);

    if (code != DF_OK)
        return code;
    if (strcmp(verb, "list") == 0)
        return list_entries(s, err);
    if (strcmp(verb, "export") == 0)
        return export_entries(s, err);
    if (strcmp(verb, "verify") == 0)
        return verify_chain(s, err);
    return tell_restored(s, err);
}

static bool read_text(const char *option, const char *given, size_t most, struct df_str *ret)
{
    *ret = df_str_c(given);
    if (!given)
        return true;
    if (ret->len > 0 && df_utf8_valid_prefix(*ret) == ret->len && df_utf8_count(*ret) <= most)
        return true;
    df_cli_complain(&df_cmd_audit, "--%s must be text of at most %zu characters", option, most);
    return false;
}

static bool read_time(const char *option, const char *given, int64_t *ret)
{
    if (!given || (df_time_parse(df_str_c(given), ret) && *ret >= 0))
        return true;
    df_cli_complain(&df_cmd_audit, "--%s must be a time like 2026-11-15T00:00:00Z", option);
    return false;
}

/* Verbs without filters take none. */
static bool is_verb(const char *verb, int operands, bool filtered, bool json, const char *reason)
{
    if (operands != 1)
        return false;
    if (strcmp(verb, "list") == 0)
        return !reason;
    if (strcmp(verb, "export") == 0)
        return !reason && !json;
    if (strcmp(verb, "verify") == 0)
        return !reason && !filtered;
    return strcmp(verb, "restored") == 0 && reason && !filtered;
}

static int run_audit(int argc, char **argv)
{
    const char *actor = NULL, *action = NULL, *target = NULL, *client = NULL, *outcome = NULL;
    const char *from = NULL, *to = NULL, *limit = NULL, *reason = NULL;
    struct session s = {0};
    const struct df_option options[] = {
        {.name = "actor", .kind = DF_OPT_VALUE, .value = &actor},
        {.name = "action", .kind = DF_OPT_VALUE, .value = &action},
        {.name = "target", .kind = DF_OPT_VALUE, .value = &target},
        {.name = "client", .kind = DF_OPT_VALUE, .value = &client},
        {.name = "outcome", .kind = DF_OPT_VALUE, .value = &outcome},
        {.name = "from", .kind = DF_OPT_VALUE, .value = &from},
        {.name = "to", .kind = DF_OPT_VALUE, .value = &to},
        {.name = "limit", .kind = DF_OPT_VALUE, .value = &limit},
        {.name = "reason", .kind = DF_OPT_VALUE, .value = &reason},
        {.name = "json", .kind = DF_OPT_FLAG, .flag = &s.json},
    };
    struct df_cli_config config = {0};
    struct df_audit_filter *f = &s.filter;
    int operands = df_cli_parse(&df_cmd_audit, argc, argv, options,
                                sizeof options / sizeof options[0], &config);
    bool filtered = actor || action || target || client || outcome || from || to || limit;

    if (operands < 0)
        return DF_EXIT_USAGE;
    if (operands == 0 || !is_verb(argv[0], operands, filtered, s.json, reason)) {
        df_cli_complain(&df_cmd_audit, "usage: dataflow audit %s", df_cmd_audit.usage);
        return DF_EXIT_USAGE;
    }
    s.limit = strcmp(argv[0], "list") == 0 ? LIST_ROWS : ROWS_MAX;
    if (!read_text("actor", actor, 200, &f->actor) ||
        !read_text("action", action, 100, &f->action) ||
        !read_text("target", target, 200, &f->target) ||
        !read_text("client", client, 100, &f->client) ||
        !read_text("outcome", outcome, 20, &f->outcome) ||
        !read_text("reason", reason, REASON_MAX, &s.reason) ||
        !read_time("from", from, &f->from_ms) || !read_time("to", to, &f->to_ms) ||
        !df_cli_int(&df_cmd_audit, "limit", limit, 1, ROWS_MAX, &s.limit) ||
        !df_cli_settings(&config, &s.settings))
        return DF_EXIT_USAGE;
    df_log_init(DF_LOG_WARN, DF_LOG_AUTO, df_clock_real());
    df_buf_init(&s.out, OUTPUT_MAX);
    df_json_out_init(&s.jout, &s.out);

    struct df_err err = DF_ERR_INIT;
    enum df_code code = perform_audit(&s, argv[0], &err);
    df_close_audited(&s.settings, s.db, s.reason.ptr);
    df_settings_release(&s.settings);
    if (code == DF_OK) {
        int status = df_cli_print(&s.out);
        return status == DF_EXIT_OK && s.faulty ? DF_EXIT_FAILED : status;
    }
    df_buf_release(&s.out);
    return df_cli_result(&df_cmd_audit, code, &err);
}

const struct df_command df_cmd_audit = {
    .name = "audit",
    .usage = "list [FILTER] [--limit N] [--json] | export [FILTER] [--limit N] |\n"
             "                verify [--json] | restored --reason TEXT [--json]\n"
             "  FILTER:       [--actor A] [--action A] [--target T] [--client ID] [--outcome O]\n"
             "                [--from TIME] [--to TIME]",
    .summary = "the audit log: what was done by whom, and whether it is whole",
    .help = "list shows the newest entries first, export writes CSV. verify checks the chain of "
            "hashes,\n"
            "the file of heads in data_dir included: it prints one line for each finding and exits "
            "with 1\n"
            "if there are any. After the database was restored by tools other than `dataflow "
            "restore`,\n"
            "restored says so in the log; without it, verify takes the restore for a cut.",
    .run = run_audit,
};
