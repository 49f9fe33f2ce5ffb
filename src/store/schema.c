#include "store/schema.h"

#include "base/arena.h"
#include "base/checksum.h"
#include "base/log.h"
#include "schema_joined.h"
#include "schema_scripts.h"
#include "store/schema.sql.h"

#include <ctype.h>

enum script_state { SCRIPT_MISSING, SCRIPT_CHANGED, SCRIPT_CURRENT };

struct script {
    struct df_str name; /* without the dialect's folder; the key in SchemaScripts */
    struct df_str text;
    char checksum[DF_CHECKSUM_LEN + 1];
    enum script_state state;
    int64_t duration_ms; /* of its last run */
};

/* The scripts of the binary, compared with those recorded in the database. */
struct plan {
    struct df_arena arena;
    struct script *scripts;
    size_t count;
    struct df_str joined; /* makes of an empty database what the scripts do; or absent */
    bool recorded;        /* the table SchemaScripts is there */
    size_t unknown;       /* recorded scripts that the binary does not have */
};

static void plan_init(struct plan *p, enum df_dialect d, const struct df_file *files, size_t count)
{
    *p = (struct plan){0};
    df_arena_init(&p->arena);
    p->scripts = DF_ARENA_ARRAY(&p->arena, struct script, count);

    for (size_t i = 0; i < count; i++) {
        struct df_str dialect;
        struct df_str name = df_str_cut(df_str_c(files[i].name), '/', &dialect);

        if (!df_str_eq(dialect, df_str_c(df_dialect_name(d))))
            continue;
        struct script *s = &p->scripts[p->count++];
        s->name = name;
        s->text = df_file_text(&files[i], &p->arena);
        df_checksum_of(s->text, s->checksum);
    }
}

static void plan_release(struct plan *p)
{
    df_arena_release(&p->arena);
}

static struct script *plan_find(struct plan *p, struct df_str name)
{
    for (size_t i = 0; i < p->count; i++)
        if (df_str_eq(p->scripts[i].name, name))
            return &p->scripts[i];
    return NULL;
}

/* Scripts that a newer binary recorded under a name known to both count as current: see
 * schema.h. */
static void plan_defer_to_newer(struct plan *p)
{
    for (size_t i = 0; p->unknown > 0 && i < p->count; i++)
        if (p->scripts[i].state == SCRIPT_CHANGED)
            p->scripts[i].state = SCRIPT_CURRENT;
}

static void plan_read_script(void *arg, struct df_result *r)
{
    struct plan *p = arg;
    struct script *s = plan_find(p, df_col_text(r, schema_script_list_Name));

    if (!s)
        p->unknown++;
    else if (df_str_eq(df_col_text(r, schema_script_list_Checksum), df_str_c(s->checksum)))
        s->state = SCRIPT_CURRENT;
    else
        s->state = SCRIPT_CHANGED;
}

static enum df_code plan_read(struct plan *p, struct df_db *db, struct df_err *err)
{
    int64_t recorded = 0;
    enum df_code code;

    p->unknown = 0;
    for (size_t i = 0; i < p->count; i++)
        p->scripts[i].state = SCRIPT_MISSING;

    code = df_db_query_int(db, DF_Q0(schema_recorded), &recorded, err);
    if (code != DF_OK)
        return code;
    p->recorded = recorded > 0;
    if (!p->recorded)
        return DF_OK;

    code = df_db_each(db, DF_Q0(schema_script_list), plan_read_script, p, err);
    if (code != DF_OK)
        return code;
    plan_defer_to_newer(p);
    return DF_OK;
}

static struct script *plan_next(struct plan *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->scripts[i].state != SCRIPT_CURRENT)
            return &p->scripts[i];
    return NULL;
}

/* --- running one script ----------------------------------------------------------------------- */

/* Drops space and comments at the start. */
static struct df_str skip_blank(struct df_str s)
{
    for (;;) {
        const char *end;

        s = df_str_trim(s);
        if (df_str_starts(s, DF_STR("--")))
            end = memchr(s.ptr, '\n', s.len);
        else if (df_str_starts(s, DF_STR("/*")))
            end = memmem(s.ptr + 2, s.len - 2, "*/", 2);
        else
            return s;
        if (!end)
            return df_str_n(s.ptr + s.len, 0);
        end += *end == '\n' ? 1 : 2;
        s = df_str_n(end, (size_t)(s.ptr + s.len - end));
    }
}

static struct df_str take_word(struct df_str *s)
{
    size_t n = 0;

    *s = skip_blank(*s);
    while (n < s->len && (isalnum((unsigned char)s->ptr[n]) || s->ptr[n] == '_'))
        n++;
    struct df_str word = df_str_n(s->ptr, n);
    *s = df_str_n(s->ptr + n, s->len - n);
    return word;
}

/* The first statement of s with its semicolon; all of s when it has none. */
static struct df_str statement_at(struct df_str s)
{
    char quote = 0;

    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (quote) {
            quote = c == quote ? 0 : quote;
        } else if (c == '\'' || c == '"') {
            quote = c;
        } else if (c == '-' && df_str_starts(df_str_n(s.ptr + i, s.len - i), DF_STR("--"))) {
            while (i + 1 < s.len && s.ptr[i + 1] != '\n')
                i++;
        } else if (c == ';') {
            return df_str_n(s.ptr, i + 1);
        }
    }
    return s;
}

static const struct df_str directive = {"-- add column if missing:", 25};

/* The rest of s from the next directive at the start of a line; absent when there is none. */
static struct df_str find_directive(struct df_str s)
{
    const char *end = s.ptr + s.len;

    for (const char *p = s.ptr; p < end; p++) {
        p = memmem(p, (size_t)(end - p), directive.ptr, directive.len);
        if (!p)
            break;
        if (p == s.ptr || p[-1] == '\n')
            return df_str_n(p, (size_t)(end - p));
    }
    return DF_STR_NULL;
}

static enum df_code run_text(struct df_db *db, struct df_arena *arena, struct df_str text,
                             struct df_err *err)
{
    if (skip_blank(text).len == 0)
        return DF_OK;
    return df_db_script(db, df_arena_cstr(arena, text), err);
}

/*
 * s starts with the directive. Runs the ALTER TABLE after it if the column is missing; *ret_rest is
 * the text after the statement. The directive must name the same table and column as the statement,
 * or it would guard nothing.
 */
static enum df_code add_column(struct df_db *db, struct df_arena *arena, struct df_str s,
                               struct df_str *ret_rest, struct df_err *err)
{
    struct df_str line;
    struct df_str rest = df_str_cut(s, '\n', &line);
    struct df_str names = df_str_n(line.ptr + directive.len, line.len - directive.len);
    struct df_str table = take_word(&names);
    struct df_str column = take_word(&names);

    rest = skip_blank(rest);
    struct df_str statement = statement_at(rest);
    struct df_str words = statement;
    if (column.len == 0 || df_str_trim(names).len > 0 ||
        !df_str_ieq(take_word(&words), DF_STR("ALTER")) ||
        !df_str_ieq(take_word(&words), DF_STR("TABLE")) || !df_str_ieq(take_word(&words), table) ||
        !df_str_ieq(take_word(&words), DF_STR("ADD")) ||
        !df_str_ieq(take_word(&words), DF_STR("COLUMN")) || !df_str_ieq(take_word(&words), column))
        return df_err_set(err, DF_E_INTERNAL,
                          "'" DF_STR_FMT "' does not stand before ALTER TABLE " DF_STR_FMT
                          " ADD COLUMN " DF_STR_FMT,
                          DF_STR_ARG(df_str_trim(line)), DF_STR_ARG(table), DF_STR_ARG(column));

    int64_t exists = 0;
    enum df_code code = df_db_query_int(
        db, DF_Q(schema_column_exists, .table = df_text(table), .column = df_text(column)), &exists,
        err);
    if (code == DF_OK && !exists)
        code = run_text(db, arena, statement, err);
    if (code == DF_OK)
        *ret_rest = df_str_n(rest.ptr + statement.len, rest.len - statement.len);
    return code;
}

static enum df_code run_pieces(struct df_db *db, struct df_arena *arena, struct df_str text,
                               struct df_err *err)
{
    enum df_code code = DF_OK;

    while (code == DF_OK && text.len > 0) {
        struct df_str at = find_directive(text);

        code = run_text(db, arena, df_str_n(text.ptr, text.len - at.len), err);
        text = at;
        if (code == DF_OK && at.ptr)
            code = add_column(db, arena, at, &text, err);
    }
    return code;
}

static enum df_code record_script(struct df_db *db, const struct script *s, struct df_err *err)
{
    return df_db_exec(db,
                      DF_Q(schema_script_record, .name = df_text(s->name),
                           .checksum = df_text(df_str_c(s->checksum)),
                           .duration_ms = df_int(s->duration_ms)),
                      NULL, err);
}

static enum df_code run_script(struct df_db *db, struct df_arena *arena, struct script *s,
                               struct df_err *err)
{
    struct df_err why = DF_ERR_INIT;
    int64_t started_ms = df_mono_ms(df_clock_real());
    enum df_code code = run_pieces(db, arena, s->text, &why);

    s->duration_ms = df_mono_ms(df_clock_real()) - started_ms;
    if (code == DF_OK)
        code = record_script(db, s, &why);
    if (code != DF_OK)
        return df_err_set(err, code, "schema script " DF_STR_FMT ": %s", DF_STR_ARG(s->name),
                          why.detail);
    return DF_OK;
}

/* Each script is recorded with the time of all: none was run by itself. */
static enum df_code run_joined(struct df_db *db, struct plan *p, struct df_err *err)
{
    struct df_err why = DF_ERR_INIT;
    int64_t started_ms = df_mono_ms(df_clock_real());
    enum df_code code = run_text(db, &p->arena, p->joined, &why);
    int64_t duration_ms = df_mono_ms(df_clock_real()) - started_ms;

    for (size_t i = 0; code == DF_OK && i < p->count; i++) {
        p->scripts[i].duration_ms = duration_ms;
        code = record_script(db, &p->scripts[i], &why);
    }
    if (code != DF_OK)
        return df_err_set(err, code, "the joined schema scripts: %s", why.detail);
    return DF_OK;
}

/* The database has no record of scripts. Whether it is empty is asked in the transaction, because
 * nothing keeps others from making tables before. */
static enum df_code run_all(struct df_db *db, struct plan *p, struct df_err *err)
{
    int64_t objects = 1;
    enum df_code code = DF_OK;

    if (p->joined.ptr)
        code = df_db_query_int(db, DF_Q0(schema_objects), &objects, err);
    if (code == DF_OK && objects == 0)
        return run_joined(db, p, err);
    for (size_t i = 0; code == DF_OK && i < p->count; i++)
        code = run_script(db, &p->arena, &p->scripts[i], err);
    return code;
}

/* only (may be NULL: all of them): the script to run. */
static enum df_code run_in_transaction(struct df_db *db, struct plan *p, struct script *only,
                                       struct df_err *err)
{
    enum df_code code = df_db_begin(db, true, err);

    if (code != DF_OK)
        return code;
    code = only ? run_script(db, &p->arena, only, err) : run_all(db, p, err);
    if (code == DF_OK)
        code = df_db_commit(db, err);
    if (code != DF_OK)
        df_db_rollback(db);
    return code;
}

static void script_applied(struct script *s)
{
    struct df_log_field fields[] = {DF_F("script", s->name), DF_FI("durationMs", s->duration_ms)};

    s->state = SCRIPT_CURRENT;
    df_log_write(DF_LOG_INFO, "SchemaScriptApplied", fields, 2, "schema script " DF_STR_FMT,
                 DF_STR_ARG(s->name));
}

/* Servers of the previous version write to the tables while a script locks them, in another order:
 * the database may resolve the deadlock by ending the script. */
#define CONFLICT_TRIES 20

/* ret_applied: how many scripts were run. */
static enum df_code run_scripts(struct df_db *db, struct plan *p, struct script *only,
                                size_t *ret_applied, struct df_err *err)
{
    struct df_err why = DF_ERR_INIT;
    enum df_code code = DF_E_INTERNAL;

    for (int tries = 0; tries < CONFLICT_TRIES; tries++) {
        why = DF_ERR_INIT;
        code = run_in_transaction(db, p, only, &why);
        if (code == DF_OK || df_code_retry(code) != DF_RETRY_NOW)
            break;
    }
    if (code != DF_OK)
        return df_err_set(err, code, "%s", why.detail);
    struct script *first = only ? only : p->scripts;
    size_t count = only ? 1 : p->count;
    for (size_t i = 0; i < count; i++)
        script_applied(&first[i]);
    *ret_applied += count;
    return DF_OK;
}

/* --- what the program calls ------------------------------------------------------------------- */

/* Where a new database gets all scripts in one transaction. On SQL Server and Babelfish that has
 * not been tried: there each script keeps a transaction of its own. */
static const bool new_at_once[DF_DIALECT_COUNT] = {[DF_SQLITE] = true, [DF_POSTGRES] = true};

static enum df_code apply_locked(struct plan *p, struct df_db *db, size_t *ret_applied,
                                 struct df_err *err)
{
    size_t applied = 0;
    struct script *s;
    enum df_code code = df_db_schema_lock(db, err);

    if (code != DF_OK)
        return code;
    /* Another process may have done the work while this one waited for the lock. */
    code = plan_read(p, db, err);
    if (code == DF_OK && !p->recorded && new_at_once[df_db_dialect(db)])
        code = run_scripts(db, p, NULL, &applied, err);
    while (code == DF_OK && (s = plan_next(p)))
        code = run_scripts(db, p, s, &applied, err);
    df_db_schema_unlock(db);
    if (code == DF_OK)
        *ret_applied = applied;
    return code;
}

enum df_code df_schema_apply_files(struct df_db *db, const struct df_file *files, size_t count,
                                   const struct df_file *joined, size_t *ret_applied,
                                   struct df_err *err)
{
    struct plan plan;
    size_t applied = 0;
    enum df_code code;

    plan_init(&plan, df_db_dialect(db), files, count);
    if (plan.count == 0) {
        code = df_err_set(err, DF_E_NOT_IMPLEMENTED, "there are no schema scripts for %s",
                          df_dialect_name(df_db_dialect(db)));
        goto out;
    }
    /* Look without the lock first: usually there is nothing to do, and then the user needs no right
     * to change the schema. */
    code = plan_read(&plan, db, err);
    if (code == DF_OK && plan_next(&plan)) {
        if (joined && !plan.recorded)
            plan.joined = df_file_text(joined, &plan.arena);
        code = apply_locked(&plan, db, &applied, err);
    }
    if (code != DF_OK)
        goto out;

    if (plan.unknown > 0)
        df_log_warn("SchemaNewerThanBinary",
                    "the database has %zu schema scripts that this version does not know: "
                    "a newer server has migrated it",
                    plan.unknown);
    if (ret_applied)
        *ret_applied = applied;
out:
    plan_release(&plan);
    return code;
}

/* The joined scripts of a dialect; NULL where they are run as they are. */
static const struct df_file *joined_scripts(enum df_dialect d)
{
    for (size_t i = 0; i < df_schema_joined_count; i++) {
        struct df_str dialect;

        (void)df_str_cut(df_str_c(df_schema_joined[i].name), '.', &dialect);
        if (df_str_eq(dialect, df_str_c(df_dialect_name(d))))
            return &df_schema_joined[i];
    }
    return NULL;
}

enum df_code df_schema_apply(struct df_db *db, size_t *ret_applied, struct df_err *err)
{
    return df_schema_apply_files(db, df_schema_scripts, df_schema_scripts_count,
                                 joined_scripts(df_db_dialect(db)), ret_applied, err);
}

enum df_code df_schema_check(struct df_db *db, struct df_err *err)
{
    struct plan plan;
    const struct script *s;
    enum df_code code;

    plan_init(&plan, df_db_dialect(db), df_schema_scripts, df_schema_scripts_count);
    code = plan_read(&plan, db, err);
    if (code == DF_OK && !plan.recorded)
        code =
            df_err_set(err, DF_E_SCHEMA, "the database has no schema yet: run 'dataflow migrate'");
    else if (code == DF_OK && (s = plan_next(&plan)))
        code = df_err_set(
            err, DF_E_SCHEMA, "schema script " DF_STR_FMT " %s: run 'dataflow migrate'",
            DF_STR_ARG(s->name),
            s->state == SCRIPT_CHANGED ? "has changed since it was applied" : "was not applied");
    plan_release(&plan);
    return code;
}

/* The statement that records a script, with its values in place of the markers (?1, $1 or ?). */
static void print_record(enum df_dialect d, const struct script *s, struct df_buf *out)
{
    const char *sql = df_query_sql(&df_q_schema_script_record, d);
    const unsigned char *markers = df_q_schema_script_record.text[d].markers;

    for (; sql && *sql; sql++) {
        bool numbered = (*sql == '?' || *sql == '$') && isdigit((unsigned char)sql[1]);
        if (!numbered && !(markers && *sql == '?')) {
            df_buf_addc(out, *sql);
            continue;
        }
        int param = numbered ? *++sql - '1' : *markers++;
        if (param == 0)
            df_buf_addf(out, "'" DF_STR_FMT "'", DF_STR_ARG(s->name));
        else if (param == 1)
            df_buf_addf(out, "'%s'", s->checksum);
        else
            df_buf_addc(out, '0');
    }
    df_buf_addz(out, ";\n");
}

/* The text around each printed script, so that it is applied whole or not at all. */
struct frame {
    const char *head; /* of all */
    const char *begin;
    const char *before_record;
    const char *after_record;
};

static const struct frame frames[DF_DIALECT_COUNT] = {
    [DF_SQLITE] = {"", "BEGIN;\n\n", "\n", "\nCOMMIT;\n"},
    [DF_POSTGRES] = {"", "BEGIN;\n\n", "\n", "\nCOMMIT;\n"},
    /* Some tools go on after an error, when the transaction is gone. */
    [DF_SQLSERVER] = {"SET XACT_ABORT ON;\nGO\n\n", "BEGIN TRANSACTION;\nGO\n\n",
                      "\nIF @@TRANCOUNT = 0\n    RAISERROR(N'The script was not applied', 16, 1);\n"
                      "ELSE\nBEGIN\n",
                      "END;\nGO\nIF @@TRANCOUNT > 0\n    COMMIT TRANSACTION;\nGO\n"},
};

void df_schema_print(enum df_dialect d, struct df_buf *out)
{
    struct plan plan;

    plan_init(&plan, d, df_schema_scripts, df_schema_scripts_count);
    df_buf_addz(out, frames[d].head);
    for (size_t i = 0; i < plan.count; i++) {
        const struct script *s = &plan.scripts[i];

        df_buf_addf(out, "%s-- === " DF_STR_FMT " (%s) ===\n\n%s", i ? "\n" : "",
                    DF_STR_ARG(s->name), df_dialect_name(d), frames[d].begin);
        df_buf_adds(out, df_str_trim(s->text));
        df_buf_addf(out, "\n%s", frames[d].before_record);
        print_record(d, s, out);
        df_buf_addz(out, frames[d].after_record);
    }
    plan_release(&plan);
}
