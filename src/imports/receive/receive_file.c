/*
 * The file of an upload: its way to its storage, its checksum, and its type. The content decides
 * the type; a declaration that contradicts it is an error. Declarations that browsers and tools
 * make by habit contradict nothing: octet-stream, CSV as Excel's because Excel opens it, any text
 * as plain, a workbook as a ZIP archive.
 */
#include "imports/receive/receive_private.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* --- while it arrives --- */

enum df_code df_receive_file_begin(void *arg, const struct df_upload *u, struct df_err *err)
{
    struct df_receive *up = arg;

    (void)u;
    if (up->preview)
        return df_preview_file_begin(up, err);
    if (up->earlier.found) {
        up->hash = df_checksum_new();
        return DF_OK;
    }
    struct df_storage *st = up->receiver->opt->storage;
    enum df_code code =
        df_storage_create(st, &up->batch, df_req_declared_length(up->req), &up->writer, err);
    if (code == DF_OK && df_storage_is_remote(st))
        up->parts = df_receive_parts_new(up->receiver, up->writer);
    return code;
}

/* The server's limit, then the policy's. */
static enum df_code check_size(struct df_receive *up, struct df_err *err)
{
    uint64_t most = (uint64_t)up->receiver->opt->settings.max_upload_bytes;

    if (up->size_bytes > most)
        return df_err_set(err, DF_E_TOO_LARGE,
                          "The file has more than the %" PRIu64 " bytes that this server takes.",
                          most);
    if (up->earlier.found || up->size_bytes <= (uint64_t)up->size_limit)
        return DF_OK;
    up->facts.size_bytes = (int64_t)up->size_bytes;
    return df_policy_check_size(&up->facts, err);
}

enum df_code df_receive_check_time(const struct df_receive *up, struct df_err *err)
{
    const struct df_imports_options *opt = up->receiver->opt;

    if (!df_storage_is_remote(opt->storage) ||
        df_mono_ms(opt->clock) - up->began_ms <= DF_UPLOAD_LONGEST_MS)
        return DF_OK;
    return df_err_set(err, DF_E_TIMEOUT, "The upload took more than %d hours.",
                      (int)(DF_UPLOAD_LONGEST_MS / 3600000));
}

enum df_code df_receive_file_data(void *arg, struct df_str piece, struct df_err *err)
{
    struct df_receive *up = arg;

    up->size_bytes += piece.len;
    enum df_code code = check_size(up, err);
    if (code != DF_OK)
        return code;
    if (up->preview)
        return df_preview_file_data(up, piece, err);
    if (!up->hash)
        return df_storage_write(up->writer, piece.ptr, piece.len, err);
    df_checksum_add(up->hash, piece.ptr, piece.len);
    return DF_OK;
}

/* --- what it is said to be --- */

#define BIT(type) (1u << (type))
#define JSON      BIT(DF_FILE_JSON)
#define EXCEL     BIT(DF_FILE_EXCEL)
#define CSV       BIT(DF_FILE_CSV)
#define ANY       (JSON | EXCEL | CSV)

struct claim {
    struct df_str name;
    unsigned types;
};

static const struct claim media_types[] = {
    {DF_STR_INIT("application/octet-stream"), ANY},
    {DF_STR_INIT("application/json"), JSON},
    {DF_STR_INIT("text/json"), JSON},
    {DF_STR_INIT("application/jsonl"), JSON},
    {DF_STR_INIT("application/jsonlines"), JSON},
    {DF_STR_INIT("application/x-jsonlines"), JSON},
    {DF_STR_INIT("application/ndjson"), JSON},
    {DF_STR_INIT("application/x-ndjson"), JSON},
    {DF_STR_INIT("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"), EXCEL},
    {DF_STR_INIT("application/vnd.openxmlformats-officedocument.spreadsheetml.template"), EXCEL},
    {DF_STR_INIT("application/vnd.ms-excel.sheet.macroenabled.12"), EXCEL},
    {DF_STR_INIT("application/zip"), EXCEL},
    {DF_STR_INIT("application/x-zip-compressed"), EXCEL},
    {DF_STR_INIT("application/vnd.ms-excel"), EXCEL | CSV},
    {DF_STR_INIT("text/csv"), CSV},
    {DF_STR_INIT("application/csv"), CSV},
    {DF_STR_INIT("application/x-csv"), CSV},
    {DF_STR_INIT("text/x-csv"), CSV},
    {DF_STR_INIT("text/comma-separated-values"), CSV},
    {DF_STR_INIT("text/plain"), JSON | CSV},
};

static const struct claim extensions[] = {
    {DF_STR_INIT("json"), JSON},  {DF_STR_INIT("jsonl"), JSON}, {DF_STR_INIT("ndjson"), JSON},
    {DF_STR_INIT("xlsx"), EXCEL}, {DF_STR_INIT("xlsm"), EXCEL}, {DF_STR_INIT("xltx"), EXCEL},
    {DF_STR_INIT("xls"), EXCEL},  {DF_STR_INIT("csv"), CSV},    {DF_STR_INIT("txt"), JSON | CSV},
    {DF_STR_INIT("pdf"), 0},      {DF_STR_INIT("doc"), 0},      {DF_STR_INIT("docx"), 0},
    {DF_STR_INIT("ods"), 0},      {DF_STR_INIT("xml"), 0},      {DF_STR_INIT("html"), 0},
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static unsigned find_types(const struct claim *claims, size_t count, struct df_str name,
                           unsigned unknown)
{
    for (size_t i = 0; i < count; i++) {
        if (df_str_ieq(claims[i].name, name))
            return claims[i].types;
    }
    return unknown;
}

static unsigned types_of_media_type(struct df_str declared)
{
    struct df_str type;

    (void)df_str_cut(declared, ';', &type);
    type = df_str_trim(type);
    if (type.len > 5 && df_str_ieq(df_str_n(type.ptr + type.len - 5, 5), DF_STR("+json")))
        return JSON;
    return find_types(media_types, COUNT(media_types), type, 0);
}

static unsigned types_of_name(struct df_str name)
{
    const char *dot = name.len ? memrchr(name.ptr, '.', name.len) : NULL;

    if (!dot)
        return ANY;
    struct df_str extension = df_str_n(dot + 1, name.len - (size_t)(dot + 1 - name.ptr));
    return find_types(extensions, COUNT(extensions), extension, ANY);
}

enum df_code df_receive_check_claim(const struct df_receive *up, struct df_err *err)
{
    static const char *const names[] = {
        [DF_FILE_JSON] = "JSON", [DF_FILE_EXCEL] = "an Excel workbook", [DF_FILE_CSV] = "CSV"};
    const struct df_upload_fields *f = df_upload_fields(up->upload);
    struct df_str type = df_str_trim(f->content_type);
    bool by_type = type.len > 0 && !df_str_ieq(type, DF_STR("application/octet-stream"));
    unsigned types = by_type ? types_of_media_type(type) : types_of_name(f->file_name);

    if (types & BIT(up->type))
        return DF_OK;
    if (by_type)
        return df_err_set(err, DF_E_MEDIA_TYPE,
                          "The file is declared as %.*s, but it is %s. Declare what it is, or send "
                          "JSON, an Excel workbook (.xlsx) or CSV.",
                          (int)(type.len < 100 ? type.len : 100), type.ptr, names[up->type]);
    return df_err_set(err, DF_E_MEDIA_TYPE,
                      "The file's name has an extension of another format, but it is %s. Give it "
                      "the right name, or send its contentType.",
                      names[up->type]);
}

/* --- when it is complete --- */

static enum df_code detect_type(struct df_receive *up, struct df_err *err)
{
    struct df_stored *stored = NULL;
    enum df_code code =
        df_storage_look(up->receiver->opt->storage, &up->batch,
                        df_upload_fields(up->upload)->file_name, up->location, &stored, err);

    if (code == DF_OK)
        code = df_file_type_detect(df_stored_bytes(stored), &up->type, err);
    df_stored_close(stored);
    return code;
}

static enum df_code judge_storage(const struct df_receive *up, enum df_code code,
                                  struct df_err *err)
{
    return df_storage_is_remote(up->receiver->opt->storage)
               ? df_receive_storage_error("StorageUnavailable", code, err)
               : code;
}

static enum df_code finish_writer(struct df_receive *up, struct df_err *err)
{
    struct df_storage_writer *w = up->writer;
    struct df_receive_parts *parts = up->parts;
    enum df_code code = DF_OK;

    assert(w && !up->stored);
    up->writer = NULL;
    up->parts = NULL;
    if (parts)
        code = df_receive_parts_take(parts, &w, err);
    if (code != DF_OK)
        return code;
    code = df_storage_finish(w, df_upload_fields(up->upload)->file_name, up->checksum,
                             &up->size_bytes, err);
    return judge_storage(up, code, err);
}

enum df_code df_receive_file_end(struct df_receive *up, struct df_err *err)
{
    enum df_code code = finish_writer(up, err);

    if (code != DF_OK)
        return code;
    up->stored = true;
    df_storage_location(up->receiver->opt->storage, &up->batch, up->location);
    df_receive_sum_up(up);
    code = judge_storage(up, detect_type(up, err), err);
    if (code == DF_OK) /* what has no row by then may be swept */
        code = df_receive_check_time(up, err);
    return code == DF_OK ? df_receive_check_claim(up, err) : code;
}

void df_receive_file_drop(struct df_receive *up)
{
    struct df_err err = DF_ERR_INIT;

    if (up->parts)
        df_receive_parts_drop(up->parts);
    else
        df_storage_abort(up->writer);
    up->parts = NULL;
    up->writer = NULL;
    if (up->stored &&
        df_storage_remove(up->receiver->opt->storage, &up->batch, up->location, &err) != DF_OK)
        df_log_warn("UploadNotRemoved", "%s", err.detail);
    up->stored = false;
}

/* --- the same again? --- */

static void add_field(struct df_checksum *hash, struct df_str s)
{
    char len[32];

    int n = snprintf(len, sizeof(len), "%zu%c", s.len, s.ptr ? ':' : '-');
    df_checksum_add(hash, len, (size_t)n);
    df_checksum_add(hash, s.ptr ? s.ptr : "", s.len);
}

void df_receive_sum_up(struct df_receive *up)
{
    const struct df_upload_fields *f = df_upload_fields(up->upload);

    if (up->hash)
        df_checksum_end(up->hash, up->checksum);
    struct df_checksum *hash = df_checksum_new();
    add_field(hash, df_str_c(up->checksum));
    add_field(hash, f->file_name);
    add_field(hash, f->origin_default);
    add_field(hash, f->requested_by);
    add_field(hash, f->metadata);
    add_field(hash, f->sheet);
    if (f->mapping.ptr) /* repeats of calls to an earlier release stay repeats */
        add_field(hash, f->mapping);
    df_checksum_end(hash, up->request_checksum);
    df_checksum_free(hash);
}
