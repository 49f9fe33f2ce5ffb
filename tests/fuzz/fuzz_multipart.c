/*
 * Any bytes as the body of an upload. The first line is the content type, or m or j for the two
 * usual ones. However the body is cut into pieces, the outcome is the same; what passes keeps the
 * promises of upload.h; and a file that was read is read again when it is sent in either form.
 */
#include "imports/receive/upload.h"
#include "net/multipart.h"

#include <sodium.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond))                                                                               \
            abort();                                                                               \
    } while (0)

#define FORM DF_STR("multipart/form-data; boundary=b")

/* Cuts depend on the input alone, so that what is found can be found again. */
static uint32_t seed;

static size_t below(size_t bound)
{
    seed = seed * 1664525 + 1013904223;
    return bound ? (seed >> 8) % bound : 0;
}

struct outcome {
    enum df_code code;
    unsigned begun;
    struct df_buf file;
    struct df_buf fields;
};

static enum df_code on_begin(void *arg, const struct df_upload *u, struct df_err *err)
{
    struct outcome *o = arg;

    (void)u;
    (void)err;
    CHECK(o->begun++ == 0);
    return DF_OK;
}

static enum df_code on_data(void *arg, struct df_str piece, struct df_err *err)
{
    struct outcome *o = arg;

    (void)err;
    CHECK(o->begun == 1 && piece.len > 0);
    df_buf_adds(&o->file, piece);
    return DF_OK;
}

static void note(struct df_buf *b, struct df_str s, size_t max_chars)
{
    CHECK(df_utf8_valid_prefix(s) == s.len && (!s.ptr || !memchr(s.ptr, '\0', s.len)));
    CHECK(df_utf8_count(s) <= max_chars);
    df_buf_addf(b, "%d:" DF_STR_FMT "\n", s.ptr != NULL, DF_STR_ARG(s));
}

static void note_end(struct outcome *o, const struct df_upload *u)
{
    const struct df_upload_fields *f = df_upload_fields(u);
    struct df_str head = df_upload_head(u);
    size_t errors;

    (void)df_upload_errors(u, &errors);
    CHECK(o->code == DF_OK ? errors == 0 : errors > 0 || o->code != DF_E_VALIDATION);
    if (o->code != DF_OK)
        return;
    CHECK(o->begun == 1 && o->file.len > 0);
    CHECK(head.len <= o->file.len && memcmp(head.ptr, o->file.ptr, head.len) == 0);
    CHECK(f->file_name.len > 0);
    note(&o->fields, f->origin_default, DF_UPLOAD_TEXT_CHARS);
    note(&o->fields, f->requested_by, DF_UPLOAD_TEXT_CHARS);
    note(&o->fields, f->metadata, DF_UPLOAD_METADATA_BYTES);
    note(&o->fields, f->correlation_id, DF_UPLOAD_TEXT_CHARS);
    note(&o->fields, f->file_name, DF_UPLOAD_FILE_NAME_CHARS);
    note(&o->fields, f->content_type, DF_UPLOAD_TEXT_CHARS);
    note(&o->fields, f->sheet, DF_UPLOAD_TEXT_CHARS);
}

static void upload(struct outcome *o, struct df_str type, struct df_str body, bool whole)
{
    struct df_upload *u = NULL;
    struct df_err err = DF_ERR_INIT;

    *o = (struct outcome){0};
    df_buf_init(&o->file, 8 << 20);
    df_buf_init(&o->fields, 1 << 20);
    o->code = df_upload_new(type, (struct df_upload_handler){on_begin, on_data, o, true}, &u, &err);
    if (!u)
        return;
    for (size_t at = 0, len; o->code == DF_OK && at < body.len; at += len) {
        len = whole ? body.len : 1 + below(below(4) ? 20 : body.len);
        len = len < body.len - at ? len : body.len - at;
        char *copy = malloc(len);
        CHECK(copy);
        memcpy(copy, body.ptr + at, len);
        o->code = df_upload_feed(u, df_str_n(copy, len), &err);
        free(copy);
    }
    if (o->code == DF_OK)
        o->code = df_upload_finish(u, &err);
    CHECK(o->code == DF_OK || err.detail[0]);
    note_end(o, u);
    df_upload_free(u);
}

static void release(struct outcome *o)
{
    df_buf_release(&o->file);
    df_buf_release(&o->fields);
}

static void send_again(struct df_str file)
{
    size_t room = sodium_base64_ENCODED_LEN(file.len, sodium_base64_VARIANT_URLSAFE);
    char *text = malloc(room);
    struct df_buf body;
    struct outcome o;

    CHECK(text);
    df_buf_init(&body, 16 << 20);
    sodium_bin2base64(text, room, (const unsigned char *)file.ptr, file.len,
                      sodium_base64_VARIANT_URLSAFE);
    df_buf_addf(&body, "{\"file\":\"%s\"}", text);
    upload(&o, DF_STR("application/json"), df_buf_str(&body), false);
    CHECK(o.code == DF_OK && df_str_eq(df_buf_str(&o.file), file));
    release(&o);

    if (!memmem(file.ptr, file.len, "--b", 3)) {
        df_buf_reset(&body);
        df_buf_addz(&body, "--b\r\nContent-Disposition: form-data; name=file\r\n\r\n");
        df_buf_adds(&body, file);
        df_buf_addz(&body, "\r\n--b--");
        upload(&o, FORM, df_buf_str(&body), false);
        CHECK(o.code == DF_OK && df_str_eq(df_buf_str(&o.file), file));
        release(&o);
    }
    df_buf_release(&body);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct df_str type;
    struct df_str body = df_str_cut(df_str_n((const char *)data, size), '\n', &type);
    struct outcome whole;
    struct outcome cut;

    if (!body.ptr)
        return 0;
    seed = (uint32_t)size;
    if (df_str_eq(type, DF_STR("m")))
        type = FORM;
    else if (df_str_eq(type, DF_STR("j")))
        type = DF_STR("application/json");
    upload(&whole, type, body, true);
    upload(&cut, type, body, false);
    CHECK((whole.code == DF_OK) == (cut.code == DF_OK));
    /* In JSON a string is checked as far as it has come before anything is made of it. */
    CHECK(whole.code == cut.code || !df_multipart_is(type));
    if (whole.code == DF_OK) {
        CHECK(df_str_eq(df_buf_str(&whole.file), df_buf_str(&cut.file)));
        CHECK(df_str_eq(df_buf_str(&whole.fields), df_buf_str(&cut.fields)));
        send_again(df_buf_str(&whole.file));
    }
    release(&whole);
    release(&cut);
    return 0;
}
