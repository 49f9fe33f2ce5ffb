/* dataflow subjects: what /admin/subjects answers, directly from the database. */
#include "app/app.h"
#include "app/audited.h"
#include "app/cli.h"
#include "keys/data_keys.h"
#include "retention/subjects_report.h"
#include "json/doc.h"
#include "json/write.h"

#define OUTPUT_MAX ((size_t)1 << 30)

struct session {
    struct df_settings settings;
    struct df_db *db;
    struct df_keys *keys;
    const struct df_clock *clock;
    struct df_arena arena;
    struct df_buf out;
    const char *phone, *document, *email;
    bool json;
    struct df_subject_question q;
};

static struct df_str text_of(const struct df_json *object, const char *name)
{
    struct df_json v;
    return df_json_find(object, name, &v) && v.text.ptr ? v.text : DF_STR("-");
}

static void print_place(const struct df_json *p, struct df_buf *out)
{
    struct df_json sequence;
    bool is_item = df_json_find(p, "sequence", &sequence);
    struct df_str id = text_of(p, is_item ? "batchId" : "id");

    df_buf_addf(out, DF_STR_FMT " " DF_STR_FMT, DF_STR_ARG(text_of(p, "place")), DF_STR_ARG(id));
    if (is_item)
        df_buf_addf(out, " #" DF_STR_FMT, DF_STR_ARG(sequence.text));
    df_buf_addf(out, "  " DF_STR_FMT "  " DF_STR_FMT "  " DF_STR_FMT "\n",
                DF_STR_ARG(text_of(p, "status")), DF_STR_ARG(text_of(p, "createdAt")),
                DF_STR_ARG(text_of(p, "clientId")));
}

/* The document as lines for people. */
static enum df_code print_lines(struct session *s, struct df_str json, struct df_err *err)
{
    const struct df_json *doc;
    struct df_json list;
    size_t count = 0;
    enum df_code code = df_json_parse(&s->arena, json, &doc, err);

    if (code != DF_OK)
        return code;
    (void)df_json_find(doc, "places", &list);
    struct df_json_each each = df_json_each(&list);
    for (const struct df_json *p; (p = df_json_next(&each)); count++)
        print_place(p, &s->out);
    if (count == 0)
        df_cli_say(&s->out, "Nothing is stored under this number or address.\n");
    (void)df_json_find(doc, "unread", &list);
    if (df_json_count(&list) > 0)
        df_cli_say(&s->out, "There are files that were not read yet: ask again when their batches "
                            "are over.\n");
    return DF_OK;
}

static enum df_code audit_question(struct session *s, struct df_err *err)
{
    char actor[80];
    struct df_actor by = df_cli_actor(actor, sizeof actor);
    enum df_code code = df_db_begin(s->db, true, err);

    if (code != DF_OK)
        return code;
    code = df_subject_audit(s->db, &s->q, &by, df_wall_ms(s->clock), err);
    if (code == DF_OK)
        return df_db_commit(s->db, err);
    df_db_rollback(s->db);
    return code;
}

static enum df_code answer_question(struct session *s, struct df_err *err)
{
    struct df_json_out json;
    struct df_buf found;

    df_buf_init(&found, OUTPUT_MAX);
    df_json_out_init(&json, &found);
    enum df_code code = df_subject_report(s->db, &s->q, &s->arena, &json, err);
    if (code == DF_OK && (s->json || s->q.full)) {
        df_buf_adds(&s->out, df_buf_str(&found));
        df_buf_addc(&s->out, '\n');
    } else if (code == DF_OK) {
        code = print_lines(s, df_buf_str(&found), err);
    }
    df_buf_release(&found);
    return code;
}

/* The keys come first: a number that is none needs no database. */
static enum df_code read_person(struct session *s, struct df_err *err)
{
    const char *texts[] = {s->phone, s->document, s->email};
    struct df_err why = DF_ERR_INIT;
    size_t given = 0, at = 0;

    for (size_t i = 0; i < 3; i++) {
        given += texts[i] != NULL;
        at = texts[i] ? i : at;
    }
    if (given != 1)
        return df_err_set(err, DF_E_USAGE, "give exactly one of --phone, --document and --email");
    enum df_subject_kind kind = (enum df_subject_kind)(at + 1);
    if (df_subject_parse(s->keys, kind, df_str_c(texts[at]), &s->q.subject, &why) != DF_OK)
        return df_err_set(err, DF_E_USAGE, "--%s %s", df_subject_kind_name(kind), why.detail);
    return DF_OK;
}

static enum df_code perform_subjects(struct session *s, struct df_err *err)
{
    enum df_code code = df_open_audited(&s->settings, s->settings.store.migrate, &s->db, err);

    s->keys = df_audited_keys()->ring;
    s->q.keys = s->keys;
    s->q.kept = &df_app_kept;
    if (code == DF_OK)
        code = read_person(s, err);
    if (code == DF_OK)
        code = audit_question(s, err);
    return code == DF_OK ? answer_question(s, err) : code;
}

static int run_subjects(int argc, char **argv)
{
    struct session s = {.clock = df_clock_real(),
                        .q = {.size = DF_FOUND_MAX, .max_bytes = OUTPUT_MAX}};
    const struct df_option options[] = {
        {.name = "phone", .kind = DF_OPT_VALUE, .value = &s.phone},
        {.name = "document", .kind = DF_OPT_VALUE, .value = &s.document},
        {.name = "email", .kind = DF_OPT_VALUE, .value = &s.email},
        {.name = "json", .kind = DF_OPT_FLAG, .flag = &s.json},
    };
    struct df_cli_config config = {0};
    int operands = df_cli_parse(&df_cmd_subjects, argc, argv, options, 4, &config);
    if (operands < 0)
        return DF_EXIT_USAGE;
    s.q.full = operands == 1 && strcmp(argv[0], "export") == 0;
    if (operands != 1 || (!s.q.full && strcmp(argv[0], "find") != 0)) {
        df_cli_complain(&df_cmd_subjects, "usage: dataflow subjects %s", df_cmd_subjects.usage);
        return DF_EXIT_USAGE;
    }
    if (!df_cli_settings(&config, &s.settings))
        return DF_EXIT_USAGE;
    df_log_init(DF_LOG_WARN, DF_LOG_AUTO, s.clock);
    df_arena_init(&s.arena);
    df_buf_init(&s.out, OUTPUT_MAX);

    struct df_err err = DF_ERR_INIT;
    enum df_code code = perform_subjects(&s, &err);
    df_close_audited(&s.settings, s.db, true);
    df_settings_release(&s.settings);
    df_arena_release(&s.arena);
    if (code == DF_OK)
        return df_cli_print(&s.out);
    df_buf_release(&s.out);
    return df_cli_result(&df_cmd_subjects, code, &err);
}

const struct df_command df_cmd_subjects = {
    .name = "subjects",
    .usage = "find|export --phone N|--document N|--email ADDRESS [--json]",
    .summary = "what is stored about a person",
    .help =
        "find says where, export also prints the documents, as JSON.\n"
        "Works on the database directly. Both are written to the audit log, with a keyed hash of "
        "the number only.\n"
        "A document is a CPF or CNPJ. Numbers may be written with or without dots and dashes.",
    .run = run_subjects,
};
