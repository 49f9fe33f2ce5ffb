/*
 * POST /imports/preview: what a file is and what would become of it, before anything is sent. It is
 * received like an upload, under the same policy, but goes to an unnamed temporary file: a workbook
 * as a whole, of other formats the first PREVIEW_HEAD_BYTES; what follows is only hashed. Threads
 * of its own read its first PREVIEW_RECORDS records through the parsers and the normaliser. Nothing
 * is stored.
 *
 * Limits: PREVIEWS_MAX at a time, PREVIEWS_PER_CLIENT for a client, from the first piece of the
 * body to the answer. Over the first the answer is 503, over the second 429.
 */
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/temp.h"
#include "imports/reasons.h"
#include "imports/receive/receive.sql.h"
#include "imports/receive/receive_private.h"
#include "tabular/normalise.h"
#include "json/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define PREVIEW_HEAD_BYTES   ((uint64_t)5 << 20)
#define PREVIEW_RECORDS      1000
#define PREVIEW_THREADS      2
#define PREVIEWS_MAX         16
#define PREVIEWS_PER_CLIENT  4
#define PREVIEW_COLUMNS      500 /* that are listed; those of a sample row: */
#define PREVIEW_ROW_COLUMNS  200
#define PREVIEW_SAMPLES      5
#define PREVIEW_ROWS         10
#define PREVIEW_CHARS        80 /* of a sample */
#define PREVIEW_DEPTH        4  /* of nested members that are listed as paths */
#define PREVIEW_PROBLEMS     32
#define PREVIEW_ANSWER_MAX   ((size_t)16 << 20)
#define PREVIEW_STRINGS      ((size_t)2 << 20)
#define PREVIEW_SEEN         ((size_t)256 << 10)
#define PREVIEW_SHARED_BYTES ((uint64_t)256 << 20) /* of a workbook's strings, on the disk */

DF_METRIC_FAMILY(previews_total) = {
    .name = "dataflow_import_previews_total",
    .help = "Files that were looked at before their upload, by outcome: made, refused.",
    .type = DF_COUNTER,
    .labels = {"outcome"},
};

enum preview_outcome { PREVIEW_MADE, PREVIEW_REFUSED, PREVIEW_OUTCOMES };

static const struct df_str outcome_names[PREVIEW_OUTCOMES] = {
    [PREVIEW_MADE] = DF_STR_INIT("made"),
    [PREVIEW_REFUSED] = DF_STR_INIT("refused"),
};

struct df_previews {
    struct df_receiver *receiver;
    struct df_metric *totals[PREVIEW_OUTCOMES]; /* there from the start: a rate needs the 0 */
    struct df_pool pool;
    struct df_mutex lock;
    struct df_list open DF_GUARDED_BY(lock);
};

struct df_preview {
    struct df_receive *up;
    int fd;        /* -1: none */
    uint64_t kept; /* bytes of it */
    struct df_link link;
    bool listed;
    bool made;
};

/* --- receiving --- */

void df_preview_begin(struct df_receive *up)
{
    up->preview = df_calloc(1, sizeof(*up->preview));
    up->preview->up = up;
    up->preview->fd = -1;
}

enum df_code df_preview_admit(struct df_receive *up, struct df_err *err)
{
    struct df_previews *p = up->receiver->previews;
    const struct df_preview *other;
    size_t own = 0;

    df_lock(&p->lock);
    size_t all = p->open.count;
    DF_LIST_EACH (other, &p->open, link)
        own += memcmp(other->up->client_id.text, up->client_id.text, DF_UUID_LEN) == 0;
    up->preview->listed = all < PREVIEWS_MAX && own < PREVIEWS_PER_CLIENT;
    if (up->preview->listed)
        df_list_add(&p->open, &up->preview->link);
    df_unlock(&p->lock);
    if (up->preview->listed)
        return DF_OK;
    up->retry_after_s = 2;
    if (own >= PREVIEWS_PER_CLIENT)
        return df_err_set(err, DF_E_TOO_MANY, "%zu previews of this client are being made.", own);
    return df_err_set(err, DF_E_BUSY, "Too many previews are being made.");
}

enum df_code df_preview_file_begin(struct df_receive *up, struct df_err *err)
{
    up->hash = df_checksum_new();
    return df_temp_open(up->receiver->opt->data_dir, &up->preview->fd, err);
}

static enum df_code write_all(int fd, const char *ptr, size_t len, struct df_err *err)
{
    while (len > 0) {
        ssize_t n = write(fd, ptr, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return df_err_set(err, errno == ENOSPC ? DF_E_DISK_FULL : DF_E_IO,
                              "the preview's file cannot be written: %s", strerrordesc_np(errno));
        ptr += n;
        len -= (size_t)n;
    }
    return DF_OK;
}

static bool is_archive(const struct df_receive *up)
{
    return df_str_starts(df_upload_head(up->upload), DF_STR("PK"));
}

enum df_code df_preview_file_data(struct df_receive *up, struct df_str piece, struct df_err *err)
{
    struct df_preview *p = up->preview;
    size_t len = piece.len;

    df_checksum_add(up->hash, piece.ptr, piece.len);
    if (!is_archive(up) && len > PREVIEW_HEAD_BYTES - p->kept)
        len = (size_t)(PREVIEW_HEAD_BYTES - p->kept);
    p->kept += len;
    return write_all(p->fd, piece.ptr, len, err);
}

bool df_preview_start(struct df_receive *up)
{
    return df_pool_push(&up->receiver->previews->pool, up);
}

void df_preview_end(struct df_receive *up)
{
    struct df_previews *all = up->receiver->previews;
    struct df_preview *p = up->preview;

    df_metric_add(all->totals[p->made ? PREVIEW_MADE : PREVIEW_REFUSED], 1);
    if (p->fd >= 0)
        (void)close(p->fd);
    p->fd = -1;
    if (!p->listed)
        return;
    df_lock(&all->lock);
    df_list_remove(&all->open, &p->link);
    df_unlock(&all->lock);
    p->listed = false;
}

/* --- looking --- */

struct column {
    struct df_str name;
    struct df_str samples[PREVIEW_SAMPLES];
    size_t sample_count;
    bool nested; /* a path: its own name means nothing */
};

struct problem {
    const char *code;
    struct df_str text; /* for people */
    int64_t count;
    uint64_t first_row;
    bool skipped;
};

struct sample_row {
    uint64_t row;
    struct df_str *names;
    struct df_str *texts;
    size_t count;
};

/* What was found. Memory: the arena. */
struct look {
    struct df_receive *up;
    struct df_bytes bytes;
    struct df_arena arena;
    struct df_arena nested; /* of one record */
    struct df_mapping *mapping;
    bool is_cut; /* the file's end is missing */
    struct df_records *records;
    struct df_normaliser *normaliser;
    struct df_map by_name;
    struct column *columns[PREVIEW_COLUMNS];
    size_t column_count;
    struct problem problems[PREVIEW_PROBLEMS];
    size_t problem_count;
    struct sample_row rows[PREVIEW_ROWS];
    size_t row_count;
    bool in_sample; /* the record in hand is the last of the rows */
    int64_t looked_at;
    bool at_end;
    struct {
        bool found;
        struct df_uuid id;
        struct df_str file_name;
        int64_t created_ms;
        int64_t status;
    } same;
    char checksum[DF_CHECKSUM_LEN + 1]; /* empty: not known */
};

static enum df_code read_preview(void *arg, uint64_t offset, char *ptr, size_t len, size_t *ret_len,
                                 struct df_err *err)
{
    const struct look *k = arg;
    uint64_t left = offset < k->bytes.size ? k->bytes.size - offset : 0;
    ssize_t n;

    if (len > left)
        len = (size_t)left;
    do
        n = pread(k->up->preview->fd, ptr, len, (off_t)offset);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return df_err_set(err, DF_E_IO, "the preview's file cannot be read: %s",
                          strerrordesc_np(errno));
    *ret_len = (size_t)n;
    return DF_OK;
}

static struct df_str sample_text(struct look *k, struct df_str text)
{
    return df_arena_str(&k->arena, df_utf8_cut(text, PREVIEW_CHARS));
}

static struct column *find_column(struct look *k, struct df_str name, bool nested)
{
    struct column *c = df_map_get(&k->by_name, name);

    if (c || k->column_count == PREVIEW_COLUMNS)
        return c;
    c = DF_ARENA_NEW(&k->arena, struct column);
    *c = (struct column){.name = df_arena_str(&k->arena, name), .nested = nested};
    df_map_add(&k->by_name, c->name, c);
    k->columns[k->column_count++] = c;
    return c;
}

static void add_sample(struct look *k, struct df_str name, struct df_str text, bool nested)
{
    struct column *c = find_column(k, name, nested);

    if (c && c->sample_count < PREVIEW_SAMPLES && df_str_trim(text).len > 0)
        c->samples[c->sample_count++] = sample_text(k, text);
}

/* A value of the sample row in hand, as far as there is room for its column. */
static void add_cell(struct look *k, struct df_str name, struct df_str text)
{
    struct sample_row *s = k->in_sample ? &k->rows[k->row_count - 1] : NULL;

    if (!s || s->count == PREVIEW_ROW_COLUMNS)
        return;
    s->names[s->count] = df_arena_str(&k->arena, df_utf8_cut(name, DF_MAPPING_NAME_CHARS));
    s->texts[s->count++] = sample_text(k, text);
}

static void add_path(struct look *k, struct df_str path, struct df_str text)
{
    add_sample(k, path, text, true);
    add_cell(k, path, text);
}

/* The members of an object as paths. One with a dot in its name has none. */
static void add_nested(struct look *k, struct df_str path, const struct df_json *object,
                       unsigned depth)
{
    struct df_json_each each = df_json_each(object);

    for (const struct df_json *v; (v = df_json_next(&each));) {
        struct df_json value = *v;
        if (value.key.len == 0 || memchr(value.key.ptr, '.', value.key.len) ||
            k->column_count == PREVIEW_COLUMNS)
            continue;
        struct df_str at = df_arena_printf(&k->nested, DF_STR_FMT "." DF_STR_FMT, DF_STR_ARG(path),
                                           DF_STR_ARG(value.key));
        if (df_utf8_count(at) > DF_MAPPING_NAME_CHARS)
            continue;
        if (value.type == DF_JSON_OBJECT && depth < PREVIEW_DEPTH)
            add_nested(k, at, &value, depth + 1);
        else if (value.type != DF_JSON_NULL)
            add_path(k, at, value.text.ptr ? value.text : value.raw);
    }
}

static void add_field(struct look *k, const struct df_field *f)
{
    struct df_err ignored = DF_ERR_INIT;
    const struct df_json *object;

    add_sample(k, f->name, f->text, false);
    if (f->kind != DF_FIELD_JSON || f->text.ptr[0] != '{' || memchr(f->name.ptr, '.', f->name.len))
        return;
    if (df_json_parse(&k->nested, f->text, &object, &ignored) == DF_OK)
        add_nested(k, f->name, object, 1);
}

/* Its own columns come first, then the paths into their objects. */
static void add_record(struct look *k, const struct df_record *record)
{
    k->in_sample = k->row_count < PREVIEW_ROWS && record->count > 0;
    if (k->in_sample)
        k->rows[k->row_count++] = (struct sample_row){
            .row = record->row,
            .names = DF_ARENA_ARRAY(&k->arena, struct df_str, PREVIEW_ROW_COLUMNS),
            .texts = DF_ARENA_ARRAY(&k->arena, struct df_str, PREVIEW_ROW_COLUMNS)};
    for (size_t i = 0; i < record->count; i++)
        add_cell(k, record->fields[i].name, record->fields[i].text);
    for (size_t i = 0; i < record->count; i++)
        add_field(k, &record->fields[i]);
}

static void add_problem(struct look *k, const char *code, struct df_str text, uint64_t row,
                        bool skipped)
{
    for (size_t i = 0; i < k->problem_count; i++) {
        if (strcmp(k->problems[i].code, code) == 0) {
            k->problems[i].count++;
            return;
        }
    }
    if (k->problem_count < PREVIEW_PROBLEMS)
        k->problems[k->problem_count++] =
            (struct problem){code, df_arena_str(&k->arena, text), 1, row, skipped};
}

static enum df_code judge_record(struct look *k, const struct df_record *record,
                                 struct df_buf *item, struct df_err *err)
{
    enum df_item_verdict verdict = DF_ITEM_SEND;
    struct df_str reason = DF_STR_NULL;

    df_buf_reset(item);
    enum df_code code =
        df_normalise(k->normaliser, record, k->looked_at, item, &verdict, &reason, err);
    if (code != DF_OK || verdict == DF_ITEM_SEND)
        return code;
    const char *why = df_normaliser_code(k->normaliser);
    const struct import_reason *known = import_reason_find(df_str_c(why));
    add_problem(k, why, known ? df_str_c(known->text) : reason, record->row,
                verdict == DF_ITEM_SKIPPED);
    return DF_OK;
}

static enum df_code open_records(struct look *k, struct df_err *err)
{
    const struct df_receive *up = k->up;
    struct df_records_options opt = {
        .sheet = df_upload_fields(up->upload)->sheet,
        .temp_dir = up->receiver->opt->data_dir,
        .strings_bytes = PREVIEW_STRINGS,
        .unguard = true,
        .drop_own = true,
        .limits = {.max_shared_bytes = PREVIEW_SHARED_BYTES},
    };

    df_records_free(k->records);
    k->records = NULL;
    return df_records_open(up->type, &k->bytes, &opt, &k->records, err);
}

/* How many records may be looked at. Of a file without its end the last one is cut: in JSON that is
 * an error of the parser, but a row of CSV may end anywhere. */
static enum df_code count_whole(struct look *k, int64_t *ret, struct df_err *err)
{
    struct df_err ignored = DF_ERR_INIT;
    enum df_code code = DF_ROW;
    struct df_record record;
    int64_t n = 0;

    *ret = PREVIEW_RECORDS;
    if (!k->is_cut)
        return DF_OK;
    while (n <= PREVIEW_RECORDS &&
           (code = df_records_next(k->records, &record, &ignored)) == DF_ROW)
        n++;
    if (code == DF_DONE && k->up->type == DF_FILE_CSV && n > 0)
        n--;
    *ret = n < PREVIEW_RECORDS ? n : PREVIEW_RECORDS;
    return open_records(k, err);
}

/* Columns of the header come first, in its order, also those without a value. */
static void list_header(struct look *k)
{
    struct df_columns *columns = k->records->columns;

    for (size_t i = 0; columns && i < columns->count; i++) {
        struct df_str name = df_columns_name(columns, i);
        if (!df_records_is_own(name) && df_columns_header(columns, i).len > 0)
            (void)find_column(k, name, false);
    }
}

/* An error of the file is a problem like others, and ends the look. */
static enum df_code look_at_records(struct look *k, struct df_err *err)
{
    struct df_record record;
    struct df_buf item;
    int64_t most = 0;
    enum df_code code = count_whole(k, &most, err), next = DF_ROW;
    struct df_err why = DF_ERR_INIT;

    df_buf_init(&item, (size_t)2 << 20);
    while (code == DF_OK && k->looked_at < most &&
           (next = df_records_next(k->records, &record, &why)) == DF_ROW) {
        if (k->looked_at == 0)
            list_header(k);
        df_arena_reset(&k->nested);
        add_record(k, &record);
        code = judge_record(k, &record, &item, err);
        k->looked_at++;
    }
    df_buf_release(&item);
    if (code == DF_OK && next == DF_ROW && !k->is_cut) /* is there more? */
        next = df_records_next(k->records, &record, &why);
    if (code != DF_OK)
        return code;
    if (next != DF_ROW && next != DF_DONE && df_code_http(next) >= 500) {
        *err = why;
        return next;
    }
    if (next != DF_ROW && next != DF_DONE)
        add_problem(k, "FileUnreadable", df_str_c(df_err_outside(&why)), (uint64_t)k->looked_at + 1,
                    false);
    k->at_end = next == DF_DONE && !k->is_cut;
    return DF_OK;
}

/* --- the same file before --- */

struct same_job {
    struct df_job job;
    struct look *k;
};

static void read_same(void *arg, struct df_result *r)
{
    struct look *k = arg;

    k->same.found = df_uuid_parse(df_col_text(r, receive_same_file_Id), &k->same.id);
    k->same.file_name = df_arena_str(&k->arena, df_col_text(r, receive_same_file_FileName));
    k->same.created_ms = df_col_time(r, receive_same_file_CreatedAt);
    k->same.status = df_col_int(r, receive_same_file_Status);
}

static enum df_code run_find_same(struct df_db *db, struct df_job *job, struct df_err *err)
{
    struct look *k = ((struct same_job *)job)->k;

    return df_db_each(db,
                      DF_Q(receive_same_file, .client_id = df_uuid(df_uuid_str(&k->up->client_id)),
                           .checksum = df_text(df_str_c(k->checksum))),
                      read_same, k, err);
}

static enum df_code find_same(struct look *k, struct df_err *err)
{
    const struct df_upload_fields *f = df_upload_fields(k->up->upload);
    struct same_job job = {.job = {.run = run_find_same}, .k = k};

    if (!f->is_head)
        df_checksum_end(k->up->hash, k->checksum);
    else if (f->checksum.ptr)
        memcpy(k->checksum, f->checksum.ptr, f->checksum.len);
    if (k->checksum[0] == '\0')
        return DF_OK;
    return df_store_read_wait(k->up->receiver->opt->store, &job.job, err);
}

/* --- the answer --- */

/* How a column gets its meaning, and which. */
static void write_meaning(const struct look *k, const struct column *c, struct df_json_out *out)
{
    const struct df_mapping_entry *e = df_mapping_find(k->mapping, c->name);
    bool exact;
    enum df_header h = e           ? e->header
                       : c->nested ? DF_HEADER_OTHER
                                   : df_header_find(df_str_trim(c->name), &exact);
    const char *by = e ? (e->kept ? "client" : "mapping") : h == DF_HEADER_OTHER ? NULL : "name";

    df_json_kv_text(out, "canonical", df_str_c(df_header_name(h)));
    df_json_kv_text(out, "by", df_str_c(by));
}

static void write_columns(const struct look *k, struct df_json_out *out)
{
    df_json_key(out, "columns");
    df_json_open(out, '[');
    for (size_t i = 0; i < k->column_count; i++) {
        const struct column *c = k->columns[i];
        df_json_open(out, '{');
        df_json_kv_text(out, "name", df_utf8_cut(c->name, DF_MAPPING_NAME_CHARS));
        write_meaning(k, c, out);
        df_json_key(out, "samples");
        df_json_open(out, '[');
        for (size_t n = 0; n < c->sample_count; n++)
            df_json_text(out, c->samples[n]);
        df_json_close(out, ']');
        df_json_close(out, '}');
    }
    df_json_close(out, ']');
}

static void write_rows(const struct look *k, struct df_json_out *out)
{
    df_json_key(out, "sample");
    df_json_open(out, '[');
    for (size_t i = 0; i < k->row_count; i++) {
        const struct sample_row *s = &k->rows[i];
        df_json_open(out, '{');
        df_json_kv_int(out, "row", (int64_t)s->row);
        df_json_key(out, "values");
        df_json_open(out, '{');
        for (size_t n = 0; n < s->count; n++) {
            df_json_key_str(out, s->names[n]);
            df_json_text(out, s->texts[n]);
        }
        df_json_close(out, '}');
        df_json_close(out, '}');
    }
    df_json_close(out, ']');
}

static void write_problems(const struct look *k, struct df_json_out *out)
{
    df_json_key(out, "problems");
    df_json_open(out, '[');
    for (size_t i = 0; i < k->problem_count; i++) {
        const struct problem *p = &k->problems[i];
        df_json_open(out, '{');
        df_json_kv_text(out, "reason", df_str_c(p->code));
        df_json_kv_told(out, "message", p->text);
        df_json_kv_text(out, "status", p->skipped ? DF_STR("Skipped") : DF_STR("Error"));
        df_json_kv_int(out, "count", p->count);
        df_json_kv_int(out, "firstRow", (int64_t)p->first_row);
        df_json_close(out, '}');
    }
    df_json_close(out, ']');
}

static void write_same(const struct look *k, struct df_json_out *out)
{
    df_json_kv_text(out, "checksum", k->checksum[0] ? df_str_c(k->checksum) : DF_STR_NULL);
    df_json_key(out, "duplicateOf");
    if (!k->same.found) {
        df_json_null(out);
        return;
    }
    df_json_open(out, '{');
    df_json_kv_text(out, "batchId", df_uuid_str(&k->same.id));
    df_json_kv_text(out, "fileName", k->same.file_name);
    df_json_kv_time(out, "createdAt", k->same.created_ms);
    df_json_kv_text(out, "status", df_str_c(df_batch_status_name(k->same.status)));
    df_json_close(out, '}');
}

static void write_look(const struct look *k, struct df_json_out *out)
{
    static const char *const formats[] = {
        [DF_FILE_JSON] = "Json", [DF_FILE_EXCEL] = "Excel", [DF_FILE_CSV] = "Csv"};
    struct df_str sheet;

    df_json_open(out, '{');
    df_json_kv_text(out, "format", df_str_c(formats[k->up->type]));
    df_json_key(out, "sheets");
    df_json_open(out, '[');
    for (size_t i = 0; df_records_sheet(k->records, i, &sheet); i++)
        df_json_text(out, sheet);
    df_json_close(out, ']');
    df_json_kv_text(out, "sheet", k->records->sheet);
    df_json_kv_int_if(out, "headerRow", k->records->header_row > 0,
                      (int64_t)k->records->header_row);
    df_json_kv_int(out, "records", k->looked_at);
    df_json_kv_bool(out, "complete", k->at_end);
    write_columns(k, out);
    write_rows(k, out);
    write_problems(k, out);
    write_same(k, out);
    df_json_close(out, '}');
}

static enum df_code look_at_file(struct look *k, struct df_err *err)
{
    struct df_receive *up = k->up;
    const struct df_upload_fields *f = df_upload_fields(up->upload);
    enum df_code code;

    k->bytes = (struct df_bytes){read_preview, k, up->preview->kept};
    k->is_cut = f->is_head || up->preview->kept < up->size_bytes;
    if (f->is_head && is_archive(up))
        return df_err_set(err, DF_E_VALIDATION, "a workbook must be sent as a whole");
    code = df_file_type_detect(&k->bytes, &up->type, err);
    if (code == DF_OK)
        code = df_receive_check_claim(up, err);
    if (code == DF_OK)
        code = df_receive_mapping(up, &k->mapping, err);
    if (code == DF_OK)
        code = open_records(k, err);
    if (code != DF_OK)
        return code;
    k->normaliser =
        df_normaliser_new(&(struct df_normalise_options){.origin_default = f->origin_default,
                                                         .temp_dir = up->receiver->opt->data_dir,
                                                         .seen_bytes = PREVIEW_SEEN,
                                                         .mapping = k->mapping});
    code = look_at_records(k, err);
    if (code == DF_OK)
        list_header(k);
    return code == DF_OK ? find_same(k, err) : code;
}

static void answer_preview(struct look *k)
{
    struct df_receive *up = k->up;
    struct df_log_field said[] = {DF_FI("sizeBytes", up->size_bytes),
                                  DF_FI("records", k->looked_at),
                                  DF_FI("problems", k->problem_count)};
    struct df_json_out json;
    struct df_buf out;

    df_req_buf(up->req, &out, PREVIEW_ANSWER_MAX);
    df_json_out_init(&json, &out);
    json.lang = df_req_language(up->req);
    df_req_add_language(up->req, json.lang);
    write_look(k, &json);
    up->preview->made = true;
    df_log_write(DF_LOG_INFO, "ImportPreviewed", said, 3, "%s", "");
    df_receive_end(up, DF_RECEIVE_ACCEPTED);
    df_req_answer(up->req, 200, "application/json", &out);
}

static void make_preview(void *arg, void *item)
{
    struct df_receive *up = item;
    struct df_err err = DF_ERR_INIT;
    struct look *k = df_calloc(1, sizeof(*k));

    (void)arg;
    df_log_ctx_use(df_req_log(up->req));
    k->up = up;
    df_arena_init(&k->arena);
    df_arena_init(&k->nested);
    if (look_at_file(k, &err) == DF_OK)
        answer_preview(k);
    else
        df_receive_reject(up, &err);
    df_records_free(k->records);
    df_normaliser_free(k->normaliser);
    df_map_release(&k->by_name);
    df_arena_release(&k->nested);
    df_arena_release(&k->arena);
    free(k);
    df_log_ctx_use(NULL);
    df_work_end(up->work);
}

/* --- start and stop --- */

struct df_previews *df_previews_new(struct df_receiver *r)
{
    struct df_previews *p = df_calloc(1, sizeof(*p));

    for (size_t i = 0; i < PREVIEW_OUTCOMES; i++)
        p->totals[i] = df_metric_get(&previews_total, &outcome_names[i]);
    p->receiver = r;
    df_mutex_init(&p->lock);
    df_pool_start(&p->pool, "previews", PREVIEW_THREADS, PREVIEWS_MAX, make_preview, NULL);
    return p;
}

void df_previews_stop(struct df_previews *p)
{
    df_pool_stop(&p->pool);
}

void df_previews_free(struct df_previews *p)
{
    df_pool_release(&p->pool);
    df_mutex_destroy(&p->lock);
    free(p);
}
