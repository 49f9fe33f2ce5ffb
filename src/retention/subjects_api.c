/*
 * What is stored about a person:
 *
 *     GET /admin/subjects?phone=|document=|email=
 *     POST /admin/subjects/find      the same in a body, which no proxy writes to its log
 *
 * The audit log's row is committed first: no answer goes out that is not in it. Then a reader
 * looks.
 */
#include "access/handler.h"
#include "base/metrics.h"
#include "privacy/subjects.h"
#include "retention/subjects.h"
#include "retention/subjects_report.h"

#define TEXT_MAX 320

DF_METRIC_FAMILY(looked_up_total) = {
    .name = "dataflow_subject_lookups_total",
    .help = "Questions what is stored about a person, by kind of document.",
    .type = DF_COUNTER,
    .labels = {"kind"},
};

struct question {
    struct df_work w;
    struct df_subject_question q;
};

/* --- the input --- */

/* The fields of a question, from query or body. */
struct asked {
    struct df_str subject; /* of a kind that is not said */
    struct df_str phone;
    struct df_str document;
    struct df_str email;
    struct df_str export;
};

static void note_problem(struct df_input *in, const char *field, const struct df_err *err)
{
    df_input_error(in, field, "%s", err->detail);
}

/* False: the answer is set. */
static bool read_any(struct question *c, struct df_input *in, struct df_str text)
{
    struct df_err err = DF_ERR_INIT;
    enum df_code code = df_subject_parse_any(c->w.access->keys, text, &c->q.subject, &err);

    if (code == DF_E_SUBJECT_AMBIGUOUS) {
        df_req_problem(c->w.req, &err);
        return false;
    }
    if (code != DF_OK)
        note_problem(in, "subject", &err);
    return true;
}

static bool read_subject(struct question *c, struct df_input *in, const struct asked *a)
{
    const struct {
        const char *name;
        struct df_str text;
        enum df_subject_kind kind;
    } fields[] = {{"phone", a->phone, DF_SUBJECT_PHONE},
                  {"document", a->document, DF_SUBJECT_DOCUMENT},
                  {"email", a->email, DF_SUBJECT_EMAIL}};
    struct df_err err = DF_ERR_INIT;
    size_t given = a->subject.len > 0;

    for (size_t i = 0; i < 3; i++) {
        if (fields[i].text.len == 0)
            continue;
        given++;
        if (df_subject_parse(c->w.access->keys, fields[i].kind, fields[i].text, &c->q.subject,
                             &err) != DF_OK)
            note_problem(in, fields[i].name, &err);
    }
    if (given != 1) {
        df_input_error(in, "phone", "exactly one of phone, document and email must be given");
        return true;
    }
    return a->subject.len == 0 || read_any(c, in, a->subject);
}

static bool read_question(struct question *c, struct df_input *in, const struct asked *a)
{
    if (a->export.len > 0 && !df_str_eq(a->export, DF_STR("full")))
        df_input_error(in, "export", "must be full");
    c->q.full = a->export.len > 0;
    if (c->q.after.len == 0)
        c->q.after = DF_STR_NULL;
    else if (!df_subject_cursor_valid(c->q.after))
        df_input_error(in, "after", "must be `next` of the page before");
    return read_subject(c, in, a);
}

static bool read_query(struct df_work *w, struct df_input *in)
{
    struct question *c = (struct question *)w;
    struct asked a = {.subject = df_input_filter(w->req, "subject"),
                      .phone = df_input_filter(w->req, "phone"),
                      .document = df_input_filter(w->req, "document"),
                      .email = df_input_filter(w->req, "email"),
                      .export = df_input_filter(w->req, "export")};

    if (a.subject.len == 0)
        a.subject = df_input_filter(w->req, "q");
    c->q.after = df_input_filter(w->req, "after");
    c->q.size =
        df_input_query_int(in, w->req, "pageSize", 1, DF_PAGE_SIZE_MAX, DF_PAGE_SIZE_DEFAULT);
    return read_question(c, in, &a);
}

static bool read_body(struct df_work *w, struct df_input *in)
{
    static const char *const names[] = {"subject", "phone", "document", "email",
                                        "export",  "after", "pageSize", NULL};
    struct question *c = (struct question *)w;

    if (!df_input_json(in, w->req))
        return false;
    df_input_only(in, names);
    struct asked a = {.subject = df_input_text(in, "subject", TEXT_MAX, DF_OPTIONAL),
                      .phone = df_input_text(in, "phone", TEXT_MAX, DF_OPTIONAL),
                      .document = df_input_text(in, "document", TEXT_MAX, DF_OPTIONAL),
                      .email = df_input_text(in, "email", TEXT_MAX, DF_OPTIONAL),
                      .export = df_input_text(in, "export", TEXT_MAX, DF_OPTIONAL)};
    c->q.after = df_input_text(in, "after", TEXT_MAX, DF_OPTIONAL);
    c->q.size = df_input_int(in, "pageSize", 1, DF_PAGE_SIZE_MAX, DF_PAGE_SIZE_DEFAULT);
    return read_question(c, in, &a);
}

/* --- the answer --- */

static enum df_code run_find(struct df_db *db, struct df_work *w, struct df_err *err)
{
    struct df_subject_question q = ((const struct question *)w)->q;

    q.keys = w->access->keys;
    q.kept = w->arg;
    return df_subject_report(db, &q, df_req_arena(w->req), &w->json, err);
}

static const struct df_handler find = {.size = sizeof(struct question), .run = run_find};

static enum df_code run_audit(struct df_db *db, struct df_work *w, struct df_err *err)
{
    const struct question *c = (const struct question *)w;
    struct df_actor by = df_actor_of(w->req);

    return df_subject_audit(db, &c->q, &by, w->now_ms, err);
}

static bool look_when_audited(struct df_work *w, enum df_code code, const struct df_err *err)
{
    const struct question *c = (const struct question *)w;

    (void)err;
    if (code != DF_OK)
        return false;
    struct df_str kind = df_str_c(df_subject_kind_name(c->q.subject.kind));
    df_metric_add(df_metric_get(&looked_up_total, &kind), 1);
    df_work_become(w, &find);
    df_work_submit(w);
    return true;
}

#define ASK(read)                                                                                  \
    {                                                                                              \
        .size = sizeof(struct question), .writes = true, .max_answer = DF_REPORT_BYTES,            \
        .prepare = (read), .run = run_audit, .pass_on = look_when_audited                          \
    }

static const struct df_handler get_subject = ASK(read_query);
static const struct df_handler find_subject = ASK(read_body);

const struct df_route df_subject_routes[] = {
    DF_ROUTE("GET", "/admin/subjects", DF_BODY_NONE, DF_ACCESS_ADMIN, DF_NEEDS_ADMIN, get_subject),
    DF_ROUTE("POST", "/admin/subjects/find", DF_BODY_JSON, DF_ACCESS_ADMIN, DF_NEEDS_ADMIN,
             find_subject),
    {.method = NULL},
};
