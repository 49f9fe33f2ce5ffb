#include "imports/receive/upload.h"

#include "base/base64.h"
#include "base/escape.h"
#include "base/mem.h"
#include "base/personal.h"
#include "net/field.h"
#include "net/multipart.h"
#include "tabular/mapping.h"
#include "json/doc.h"
#include "json/stream.h"
#include "json/write.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECKSUM_LEN 64

#define SLICE        ((size_t)32 << 10) /* of base64 text, decoded at a time */

enum field {
    ORIGIN_DEFAULT,
    REQUESTED_BY,
    METADATA,
    FILE_NAME,
    CONTENT_TYPE,
    SHEET,
    MAPPING,
    CHECKSUM,
    COMPLETE,
    THE_FILE,
    NO_FIELD, /* unknown, or its value is ignored */
};

static const struct df_str names[NO_FIELD] = {
    [ORIGIN_DEFAULT] = DF_STR_INIT("originDefault"),
    [REQUESTED_BY] = DF_STR_INIT("requestedBy"),
    [METADATA] = DF_STR_INIT("metadata"),
    [FILE_NAME] = DF_STR_INIT("fileName"),
    [CONTENT_TYPE] = DF_STR_INIT("contentType"),
    [SHEET] = DF_STR_INIT("sheet"),
    [MAPPING] = DF_STR_INIT("mapping"),
    [CHECKSUM] = DF_STR_INIT("checksum"),
    [COMPLETE] = DF_STR_INIT("complete"),
    [THE_FILE] = DF_STR_INIT("file"),
};

struct df_upload {
    struct df_upload_handler handler;
    struct df_multipart *multipart; /* exactly one of the two is set */
    struct df_json_stream *json;

    struct df_arena arena;
    struct df_upload_fields fields;
    /* At most one for each field, and for some entries of a mapping. */
    struct df_field_error errors[NO_FIELD + DF_UPLOAD_MAPPING_ERRORS];
    size_t error_count;
    bool given[NO_FIELD];
    size_t mapping_errors;

    enum field current;  /* the field whose value is arriving */
    struct df_buf value; /* the part of it that has arrived */

    char head[DF_UPLOAD_HEAD_BYTES];
    size_t head_len;
    uint64_t file_bytes;

    /* JSON */
    struct df_json_out out; /* writes metadata's tokens as text into `value` */
    bool in_string;
    struct df_base64 base64;
    char *decoded;
};

static struct df_str *text_of(struct df_upload *u, enum field f)
{
    switch (f) {
    case ORIGIN_DEFAULT:
        return &u->fields.origin_default;
    case REQUESTED_BY:
        return &u->fields.requested_by;
    case METADATA:
        return &u->fields.metadata;
    case FILE_NAME:
        return &u->fields.file_name;
    case CONTENT_TYPE:
        return &u->fields.content_type;
    case SHEET:
        return &u->fields.sheet;
    case MAPPING:
        return &u->fields.mapping;
    case CHECKSUM:
        return &u->fields.checksum;
    case COMPLETE:
    case THE_FILE:
    case NO_FIELD:
        break;
    }
    abort();
}

static enum field field_named(const struct df_upload *u, struct df_str name)
{
    unsigned f = 0;

    while (f < NO_FIELD && !df_str_ieq(name, names[f]))
        f++;
    return (f == CHECKSUM || f == COMPLETE) && !u->handler.is_preview ? NO_FIELD : (enum field)f;
}

/* Its value is a JSON object, or text that holds one. */
static bool is_object(enum field f)
{
    return f == METADATA || f == MAPPING;
}

/* --- problems --------------------------------------------------------------------------------- */

/* Only the first error of a field counts. */
__attribute__((format(printf, 3, 4))) static void add_error(struct df_upload *u, enum field f,
                                                            const char *fmt, ...)
{
    char text[256];
    va_list ap;

    for (size_t i = 0; i < u->error_count; i++) {
        if (u->errors[i].field.ptr == names[f].ptr)
            return;
    }
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    assert(u->error_count < sizeof u->errors / sizeof u->errors[0]);
    u->errors[u->error_count++] =
        (struct df_field_error){names[f], df_arena_str(&u->arena, df_str_c(text))};
}

static enum df_code refuse_fields(const struct df_upload *u, struct df_err *err)
{
    return df_err_set(err, DF_E_VALIDATION, "%zu field%s not valid: see errors.", u->error_count,
                      u->error_count == 1 ? " is" : "s are");
}

/* --- fields ----------------------------------------------------------------------------------- */

/* The value of this field follows. A second file ends the upload, since it is unclear which is
 * meant. */
static enum df_code begin_field(struct df_upload *u, enum field f, struct df_err *err)
{
    u->current = f;
    df_buf_reset(&u->value);
    u->value.max = f == MAPPING ? DF_MAPPING_BYTES : DF_UPLOAD_METADATA_BYTES;
    if (f == NO_FIELD)
        return DF_OK;
    if (u->given[f]) {
        add_error(u, f, "is given twice");
        u->current = NO_FIELD;
    }
    u->given[f] = true;
    return f == THE_FILE && u->current == NO_FIELD ? refuse_fields(u, err) : DF_OK;
}

static bool check_text(struct df_upload *u, enum field f, struct df_str s)
{
    size_t max = f == FILE_NAME ? DF_UPLOAD_FILE_NAME_CHARS : DF_UPLOAD_TEXT_CHARS;

    if (df_utf8_valid_prefix(s) < s.len) {
        add_error(u, f, "is not valid UTF-8");
        return false;
    }
    if (memchr(s.ptr, '\0', s.len)) {
        add_error(u, f, "has a NUL in it");
        return false;
    }
    if (!is_object(f) && df_utf8_count(s) > max) {
        add_error(u, f, "has %zu characters, at most %zu are allowed", df_utf8_count(s), max);
        return false;
    }
    return true;
}

static void read_correlation(struct df_upload *u, const struct df_json *metadata)
{
    const struct df_json *id = df_json_get(metadata, "correlationId");

    if (!id || id->type == DF_JSON_NULL)
        return;
    if (id->type != DF_JSON_STRING && id->type != DF_JSON_NUMBER)
        add_error(u, METADATA, "has a correlationId that is not text");
    else if (df_utf8_count(id->text) > DF_UPLOAD_TEXT_CHARS)
        add_error(u, METADATA, "has a correlationId of more than %d characters",
                  DF_UPLOAD_TEXT_CHARS);
    else if (df_str_trim(id->text).len > 0)
        u->fields.correlation_id = df_arena_str(&u->arena, id->text);
}

static void check_metadata(struct df_upload *u, struct df_str text)
{
    struct df_arena arena;
    struct df_err err = DF_ERR_INIT;
    const struct df_json *doc;

    df_arena_init(&arena);
    if (df_json_parse(&arena, text, &doc, &err) != DF_OK)
        add_error(u, METADATA, "must be a JSON object: %s", err.detail);
    else if (doc->type != DF_JSON_OBJECT)
        add_error(u, METADATA, "must be a JSON object");
    else
        read_correlation(u, doc);
    df_arena_release(&arena);
}

/* Names the first problems, one by one, and leaves room for the errors of other fields. */
static void mapping_is_bad(void *arg, struct df_str name, const char *what)
{
    struct df_upload *u = arg;

    if (!name.ptr) {
        add_error(u, MAPPING, "%s", what);
        return;
    }
    if (u->mapping_errors++ >= DF_UPLOAD_MAPPING_ERRORS)
        return;
    u->errors[u->error_count++] =
        (struct df_field_error){df_arena_printf(&u->arena, "mapping." DF_STR_FMT, DF_STR_ARG(name)),
                                df_arena_str(&u->arena, df_str_c(what))};
}

static void check_mapping(struct df_upload *u, struct df_str text)
{
    struct df_arena arena;
    struct df_err err = DF_ERR_INIT;
    const struct df_json *doc;

    df_arena_init(&arena);
    if (df_json_parse(&arena, text, &doc, &err) != DF_OK)
        add_error(u, MAPPING, "must be a JSON object: %s", err.detail);
    else
        (void)df_mapping_read(&arena, doc, (struct df_mapping_problems){mapping_is_bad, u});
    df_arena_release(&arena);
}

/* Both spellings of the hexadecimal digits are one checksum. */
static void take_checksum(struct df_upload *u, struct df_str s)
{
    char *sum = df_arena_alloc(&u->arena, s.len);

    if (s.len != CHECKSUM_LEN) {
        add_error(u, CHECKSUM, "must be a SHA-256 in 64 hexadecimal digits");
        return;
    }
    for (size_t i = 0; i < s.len; i++) {
        if (df_hex_digit(s.ptr[i]) < 0) {
            add_error(u, CHECKSUM, "must be a SHA-256 in 64 hexadecimal digits");
            return;
        }
        sum[i] = (char)(s.ptr[i] >= 'A' && s.ptr[i] <= 'F' ? s.ptr[i] | 0x20 : s.ptr[i]);
    }
    u->fields.checksum = df_str_n(sum, s.len);
}

static void take_complete(struct df_upload *u, struct df_str s)
{
    if (df_str_ieq(s, DF_STR("false")) || df_str_ieq(s, DF_STR("true")))
        u->fields.is_head = df_str_ieq(s, DF_STR("false"));
    else
        add_error(u, COMPLETE, "must be true or false");
}

static void end_field(struct df_upload *u)
{
    enum field f = u->current;
    struct df_str s = df_buf_str(&u->value);

    u->current = NO_FIELD;
    if (df_buf_failed(&u->value)) {
        add_error(u, f, "has more than %zu bytes", u->value.max);
        return;
    }
    if (!check_text(u, f, s) || df_str_trim(s).len == 0)
        return;
    if (f == CHECKSUM || f == COMPLETE) {
        (f == CHECKSUM ? take_checksum : take_complete)(u, df_str_trim(s));
        return;
    }
    if (f == METADATA)
        check_metadata(u, s);
    if (f == MAPPING)
        check_mapping(u, s);
    *text_of(u, f) = df_arena_str(&u->arena, s);
}

/* --- the file --------------------------------------------------------------------------------- */

static enum df_code begin_upload_file(struct df_upload *u, struct df_err *err)
{
    return u->error_count == 0 ? u->handler.file_begin(u->handler.arg, u, err) : DF_OK;
}

static enum df_code pass_file(struct df_upload *u, struct df_str piece, struct df_err *err)
{
    size_t room = sizeof(u->head) - u->head_len;
    size_t n = piece.len < room ? piece.len : room;

    if (piece.len == 0)
        return DF_OK;
    memcpy(u->head + u->head_len, piece.ptr, n);
    u->head_len += n;
    u->file_bytes += piece.len;
    return u->error_count == 0 ? u->handler.file_data(u->handler.arg, piece, err) : DF_OK;
}

/* --- JSON ------------------------------------------------------------------------------------- */

static enum df_code not_base64(struct df_upload *u, const struct df_err *why, struct df_err *err)
{
    add_error(u, THE_FILE, "must be text in base64: %s", why->detail);
    return refuse_fields(u, err);
}

static enum df_code decode_file(struct df_upload *u, struct df_str text, bool last,
                                struct df_err *err)
{
    struct df_err why = DF_ERR_INIT;
    enum df_code rc = DF_OK;
    size_t len;

    while (rc == DF_OK && text.len > 0) {
        size_t n = text.len < SLICE ? text.len : SLICE;
        if (df_base64_feed(&u->base64, df_str_n(text.ptr, n), u->decoded, &len, &why) != DF_OK)
            return not_base64(u, &why, err);
        rc = pass_file(u, df_str_n(u->decoded, len), err);
        text.ptr += n;
        text.len -= n;
    }
    if (rc != DF_OK || !last)
        return rc;
    if (df_base64_finish(&u->base64, u->decoded, &len, &why) != DF_OK)
        return not_base64(u, &why, err);
    return pass_file(u, df_str_n(u->decoded, len), err);
}

static enum df_code take_json_file(struct df_upload *u, enum df_json_token t, struct df_str text,
                                   struct df_err *err)
{
    bool last = t == DF_TOK_STRING;
    enum df_code rc = DF_OK;

    if (t == DF_TOK_NULL) {
        u->given[THE_FILE] = false;
    } else if (!last && t != DF_TOK_STRING_PART) {
        add_error(u, THE_FILE, "must be text in base64");
        u->current = NO_FIELD;
    } else {
        if (!u->in_string)
            rc = begin_upload_file(u, err);
        u->in_string = !last;
        return rc == DF_OK ? decode_file(u, text, last, err) : rc;
    }
    return DF_OK;
}

static void take_json_text(struct df_upload *u, enum df_json_token t, struct df_str text)
{
    if (t == DF_TOK_STRING_PART || t == DF_TOK_STRING || t == DF_TOK_NUMBER) {
        df_buf_adds(&u->value, text);
        if (t != DF_TOK_STRING_PART)
            end_field(u);
    } else if (u->current == COMPLETE && (t == DF_TOK_TRUE || t == DF_TOK_FALSE)) {
        take_complete(u, t == DF_TOK_TRUE ? DF_STR("true") : DF_STR("false"));
    } else if (t != DF_TOK_NULL) {
        add_error(u, u->current, "must be text");
        u->current = NO_FIELD;
    }
}

/* A string may come in parts; the quotes go before the first and after the last. */
static void write_string(struct df_upload *u, struct df_str text, bool last)
{
    if (!u->in_string)
        df_json_raw(&u->out, DF_STR("\""));
    df_buf_add_escaped(&u->value, text);
    if (last)
        df_buf_addc(&u->value, '"');
    u->in_string = !last;
}

static void write_token(struct df_upload *u, enum df_json_token t, struct df_str text)
{
    switch (t) {
    case DF_TOK_OBJECT:
    case DF_TOK_ARRAY:
        df_json_open(&u->out, t == DF_TOK_OBJECT ? '{' : '[');
        break;
    case DF_TOK_OBJECT_END:
    case DF_TOK_ARRAY_END:
        df_json_close(&u->out, t == DF_TOK_OBJECT_END ? '}' : ']');
        break;
    case DF_TOK_KEY:
        df_json_key_str(&u->out, text);
        break;
    case DF_TOK_STRING:
    case DF_TOK_STRING_PART:
        write_string(u, text, t == DF_TOK_STRING);
        break;
    case DF_TOK_NUMBER:
        df_json_raw(&u->out, text);
        break;
    case DF_TOK_TRUE:
    case DF_TOK_FALSE:
        df_json_bool(&u->out, t == DF_TOK_TRUE);
        break;
    case DF_TOK_NULL:
        df_json_null(&u->out);
        break;
    case DF_TOK_ERROR:
    case DF_TOK_MORE:
    case DF_TOK_END:
        abort();
    }
}

/* Metadata and mapping are an object, or text that holds one, as in multipart. */
static void take_json_object(struct df_upload *u, enum df_json_token t, struct df_str text,
                             unsigned depth)
{
    bool string = t == DF_TOK_STRING || t == DF_TOK_STRING_PART;

    if (depth == 1 && string) {
        take_json_text(u, t, text);
    } else if (depth > 1 || t == DF_TOK_OBJECT || t == DF_TOK_OBJECT_END) {
        if (depth == 1 && t == DF_TOK_OBJECT)
            df_json_out_init(&u->out, &u->value);
        write_token(u, t, text);
        if (depth == 1 && t == DF_TOK_OBJECT_END)
            end_field(u);
    } else if (t != DF_TOK_NULL) {
        add_error(u, u->current, "must be a JSON object");
        u->current = NO_FIELD;
    }
}

static enum df_code on_token(void *arg, enum df_json_token t, struct df_str text, unsigned depth,
                             struct df_err *err)
{
    struct df_upload *u = arg;

    if (depth == 0)
        return t == DF_TOK_OBJECT || t == DF_TOK_OBJECT_END
                   ? DF_OK
                   : df_err_set(err, DF_E_BAD_REQUEST, "The body must be a JSON object.");
    if (depth == 1 && t == DF_TOK_KEY)
        return begin_field(u, field_named(u, text), err);
    switch (u->current) {
    case ORIGIN_DEFAULT:
    case REQUESTED_BY:
    case FILE_NAME:
    case CONTENT_TYPE:
    case SHEET:
    case CHECKSUM:
    case COMPLETE:
        take_json_text(u, t, text);
        break;
    case METADATA:
    case MAPPING:
        take_json_object(u, t, text, depth);
        break;
    case THE_FILE:
        return take_json_file(u, t, text, err);
    case NO_FIELD:
        break;
    }
    return DF_OK;
}

/* --- multipart -------------------------------------------------------------------------------- */

/* Takes a value from the part's header; a field of that name overrides it. */
static void take_declared(struct df_upload *u, enum field f, struct df_str s)
{
    struct df_str *to = text_of(u, f);

    if (!to->ptr && s.len > 0 && check_text(u, f, s))
        *to = df_arena_str(&u->arena, s);
}

/* Some clients send the path on their disk. */
static struct df_str base_name(struct df_str path)
{
    size_t from = path.len;

    while (from > 0 && path.ptr[from - 1] != '/' && path.ptr[from - 1] != '\\')
        from--;
    return df_str_n(path.ptr + from, path.len - from);
}

static enum df_code on_part(void *arg, const struct df_multipart_part *part, struct df_err *err)
{
    struct df_upload *u = arg;
    enum field f = field_named(u, part->name);

    if (f == NO_FIELD && part->file_name.len > 0)
        f = THE_FILE;
    enum df_code rc = begin_field(u, f, err);
    if (rc != DF_OK || f != THE_FILE)
        return rc;
    if (part->file_name.ptr)
        take_declared(u, FILE_NAME, base_name(part->file_name));
    take_declared(u, CONTENT_TYPE, part->content_type);
    return begin_upload_file(u, err);
}

static enum df_code on_part_data(void *arg, struct df_str piece, struct df_err *err)
{
    struct df_upload *u = arg;

    if (u->current == THE_FILE)
        return pass_file(u, piece, err);
    if (u->current != NO_FIELD)
        df_buf_adds(&u->value, piece);
    return DF_OK;
}

static enum df_code on_part_end(void *arg, struct df_err *err)
{
    struct df_upload *u = arg;

    (void)err;
    if (u->current != THE_FILE && u->current != NO_FIELD)
        end_field(u);
    u->current = NO_FIELD;
    return DF_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

enum df_code df_upload_new(struct df_str content_type, struct df_upload_handler handler,
                           struct df_upload **ret, struct df_err *err)
{
    bool multipart = df_multipart_is(content_type);
    enum df_code rc = DF_OK;

    if (!multipart && !df_field_is_json(content_type))
        return df_err_set(err, DF_E_MEDIA_TYPE,
                          "The body must be multipart/form-data, or application/json with the file "
                          "in base64.");
    struct df_upload *u = df_calloc(1, sizeof(*u));
    u->handler = handler;
    u->current = NO_FIELD;
    df_arena_init(&u->arena);
    df_buf_init(&u->value, DF_UPLOAD_METADATA_BYTES);
    if (multipart) {
        rc = df_multipart_new(content_type,
                              (struct df_multipart_handler){on_part, on_part_data, on_part_end, u},
                              &u->multipart, err);
    } else {
        df_base64_init(&u->base64);
        u->decoded = df_malloc(DF_BASE64_ROOM(SLICE));
        u->json = df_json_stream_new((struct df_json_handler){on_token, u},
                                     DF_JSON_UNIQUE_KEYS | DF_JSON_NO_NUL, DF_JSON_DEPTH,
                                     DF_JSON_TOKEN_BYTES);
    }
    if (rc == DF_OK)
        *ret = u;
    else
        df_upload_free(u);
    return rc;
}

void df_upload_free(struct df_upload *u)
{
    if (!u)
        return;
    df_multipart_free(u->multipart);
    df_json_stream_free(u->json);
    free(u->decoded);
    df_buf_release(&u->value);
    df_arena_release(&u->arena);
    free(u);
}

enum df_code df_upload_feed(struct df_upload *u, struct df_str piece, struct df_err *err)
{
    return u->json ? df_json_stream_feed(u->json, piece, err)
                   : df_multipart_feed(u->multipart, piece, err);
}

/* A file without a name is named after what it looks like. */
static struct df_str default_name(struct df_str head)
{
    if (df_str_starts(head, DF_STR("PK\x03\x04")))
        return DF_STR("upload.xlsx");
    if (df_str_starts(head, DF_STR("\xEF\xBB\xBF")))
        head = df_str_n(head.ptr + 3, head.len - 3);
    head = df_str_trim(head);
    if (head.len > 0 && (head.ptr[0] == '[' || head.ptr[0] == '{'))
        return DF_STR("upload.json");
    return DF_STR("upload.csv");
}

enum df_code df_upload_finish(struct df_upload *u, struct df_err *err)
{
    enum df_code rc =
        u->json ? df_json_stream_finish(u->json, err) : df_multipart_finish(u->multipart, err);

    if (rc != DF_OK)
        return rc;
    if (!u->given[THE_FILE])
        add_error(u, THE_FILE, "is required");
    else if (u->file_bytes == 0)
        add_error(u, THE_FILE, "is empty");
    /* It is also the name on the disk. */
    u->fields.file_name = df_mask_note(u->fields.file_name, SIZE_MAX, &u->arena);
    if (!u->fields.file_name.ptr)
        u->fields.file_name = default_name(df_upload_head(u));
    return u->error_count == 0 ? DF_OK : refuse_fields(u, err);
}

const struct df_upload_fields *df_upload_fields(const struct df_upload *u)
{
    return &u->fields;
}

const struct df_field_error *df_upload_errors(const struct df_upload *u, size_t *ret_count)
{
    *ret_count = u->error_count;
    return u->errors;
}

struct df_str df_upload_head(const struct df_upload *u)
{
    return df_str_n(u->head, u->head_len);
}
