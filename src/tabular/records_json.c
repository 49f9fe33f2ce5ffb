/*
 * Records of a JSON file, read by json/reader.h. A repeated name in an object, a NUL and a lone
 * surrogate are refused, as in requests: it is unclear what the sender meant.
 */
#include "base/mem.h"
#include "tabular/records.h"
#include "json/reader.h"
#include "json/scan.h"

#include <stdlib.h>

#define RECORDS_MAX INT32_MAX
#define STRING_MAX  ((size_t)1 << 20)

struct json_records {
    struct df_records base;
    struct df_bytes file;
    uint64_t offset; /* bytes of the file read so far */
    struct df_json_reader *reader;
    struct df_field *fields;
    size_t field_cap;
    uint64_t count;
    uint64_t max_records;
    size_t max_string;
    bool over; /* a limit of ours ended the file */
    struct df_err err;
};

static enum df_code read_json_file(void *arg, char *ptr, size_t len, size_t *ret_len,
                                   struct df_err *err)
{
    struct json_records *r = arg;
    enum df_code rc = r->file.read_at(r->file.arg, r->offset, ptr, len, ret_len, err);

    if (rc == DF_OK)
        r->offset += *ret_len;
    return rc;
}

static struct df_field field_of(const struct df_json *v)
{
    struct df_field f = {.name = v->key, .text = v->text};

    switch (v->type) {
    case DF_JSON_NULL:
        f.kind = DF_FIELD_NULL;
        break;
    case DF_JSON_BOOL:
        f.kind = DF_FIELD_BOOL;
        f.text = v->boolean ? DF_STR("true") : DF_STR("false");
        break;
    case DF_JSON_NUMBER:
        f.kind = DF_FIELD_NUMBER;
        break;
    case DF_JSON_STRING:
        f.kind = DF_FIELD_TEXT;
        break;
    case DF_JSON_ARRAY:
    case DF_JSON_OBJECT:
        f.kind = DF_FIELD_JSON;
        f.text = v->raw;
        break;
    }
    return f;
}

static enum df_code record_too_large(struct json_records *r, const char *what, size_t limit,
                                     struct df_err *err)
{
    r->over = true;
    df_err_set(&r->err, DF_E_TOO_LARGE, "record %llu: more than %zu %s",
               (unsigned long long)r->count + 1, limit, what);
    if (err)
        *err = r->err;
    return DF_E_TOO_LARGE;
}

static enum df_code json_next(struct df_records *base, struct df_record *ret, struct df_err *err)
{
    struct json_records *r = (struct json_records *)base;
    const struct df_json_record *object;
    size_t n = 0;

    if (r->over) {
        if (err)
            *err = r->err;
        return r->err.code;
    }
    enum df_code rc = df_json_reader_next(r->reader, &object, err);
    if (rc != DF_ROW)
        return rc;
    if (r->count == r->max_records)
        return record_too_large(r, "records", (size_t)r->max_records, err);
    if (object->count > r->field_cap) {
        r->field_cap = object->count < 32 ? 32 : object->count * 2;
        r->fields = df_realloc(r->fields, r->field_cap * sizeof(*r->fields));
    }
    for (; n < object->count; n++) {
        const struct df_json *v = &object->fields[n];
        if (v->raw.len > r->max_string)
            return record_too_large(r, "bytes in a value", r->max_string, err);
        r->fields[n] = field_of(v);
    }
    r->count++;
    *ret = (struct df_record){r->fields, n, r->count};
    return DF_ROW;
}

static void json_free(struct df_records *base)
{
    struct json_records *r = (struct json_records *)base;

    df_json_reader_free(r->reader);
    free(r->fields);
    free(r);
}

static const struct df_records_ops json_ops = {.next = json_next, .free = json_free};

/* The scanner would only report an unexpected byte; this says what the file is. */
static enum df_code refuse_utf16(const struct df_bytes *file, struct df_err *err)
{
    char b[4] = {' ', ' ', ' ', ' '};
    size_t len = 0;
    enum df_code rc = DF_OK;

    for (size_t n = 1; rc == DF_OK && len < sizeof(b) && n > 0; len += n)
        rc = file->read_at(file->arg, len, b + len, sizeof(b) - len, &n, err);
    if (rc != DF_OK)
        return rc;
    bool marked = memcmp(b, "\xFF\xFE", 2) == 0 || memcmp(b, "\xFE\xFF", 2) == 0;
    bool zeros = !b[0] || !b[1];
    return marked || zeros ? df_err_at(err, DF_E_INVALID_TEXT, 0,
                                       "the file is UTF-16 or UTF-32; JSON must be saved as UTF-8")
                           : DF_OK;
}

enum df_code df_json_records_open(const struct df_bytes *file, const struct df_records_options *opt,
                                  struct df_records **ret, struct df_err *err)
{
    struct df_record_limits limits = opt ? opt->limits : (struct df_record_limits){0};
    struct df_json_reader_limits reader_limits = {.max_record_bytes = limits.max_record_bytes,
                                                  .max_fields = limits.max_fields};
    enum df_code rc = refuse_utf16(file, err);

    if (rc != DF_OK)
        return rc;
    struct json_records *r = df_calloc(1, sizeof(*r));
    r->base.ops = &json_ops;
    r->file = *file;
    r->max_records = limits.max_records ? limits.max_records : RECORDS_MAX;
    r->max_string = limits.max_string_bytes ? limits.max_string_bytes : STRING_MAX;
    r->reader =
        df_json_reader_new((struct df_json_source){read_json_file, r},
                           DF_JSON_UNIQUE_KEYS | DF_JSON_NO_NUL | DF_JSON_BOM, &reader_limits);
    *ret = &r->base;
    return DF_OK;
}
