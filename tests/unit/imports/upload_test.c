#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "imports/receive/upload.h"

#include <malloc.h>
#include <stdlib.h>

#define FORM "multipart/form-data; boundary=b"
#define JSON "application/json"

/* Everything that came out, as text. */
struct notes {
    struct df_buf file;
    struct df_buf early; /* the fields when the file began */
    struct df_buf late;  /* after finish: the fields, or field: message for each that is bad */
    unsigned begun;
    uint64_t passed; /* bytes, when they are not kept */
    bool keep;
    enum df_code answer;
};

static void note_field(struct df_buf *b, char mark, struct df_str s)
{
    if (s.ptr)
        df_buf_addf(b, "%c:" DF_STR_FMT " ", mark, DF_STR_ARG(s));
}

static void note_fields(struct df_buf *b, const struct df_upload *u)
{
    const struct df_upload_fields *f = df_upload_fields(u);

    note_field(b, 'o', f->origin_default);
    note_field(b, 'r', f->requested_by);
    note_field(b, 'm', f->metadata);
    note_field(b, 'c', f->correlation_id);
    note_field(b, 'n', f->file_name);
    note_field(b, 't', f->content_type);
    note_field(b, 's', f->sheet);
}

static enum df_code on_begin(void *arg, const struct df_upload *u, struct df_err *err)
{
    struct notes *n = arg;

    (void)err;
    n->begun++;
    note_fields(&n->early, u);
    return DF_OK;
}

static enum df_code on_data(void *arg, struct df_str piece, struct df_err *err)
{
    struct notes *n = arg;

    assert_int_equal(n->begun, 1);
    assert_true(piece.len > 0);
    n->passed += piece.len;
    if (n->keep)
        df_buf_adds(&n->file, piece);
    return n->answer == DF_OK ? DF_OK : df_err_set(err, n->answer, "enough");
}

static void notes_init(struct notes *n)
{
    *n = (struct notes){.keep = true};
    df_buf_init(&n->file, 1 << 20);
    df_buf_init(&n->early, 1 << 20);
    df_buf_init(&n->late, 1 << 20);
}

static void notes_release(struct notes *n)
{
    df_buf_release(&n->file);
    df_buf_release(&n->early);
    df_buf_release(&n->late);
}

static void note_end(struct notes *n, const struct df_upload *u, enum df_code rc,
                     const struct df_err *err)
{
    size_t count;
    const struct df_field_error *errors = df_upload_errors(u, &count);
    struct df_str head = df_upload_head(u);

    if (rc == DF_OK) {
        note_fields(&n->late, u);
        assert_int_equal(head.len,
                         n->passed < DF_UPLOAD_HEAD_BYTES ? n->passed : DF_UPLOAD_HEAD_BYTES);
        if (n->keep)
            assert_memory_equal(head.ptr, n->file.ptr, head.len);
    } else if (rc == DF_E_VALIDATION) {
        for (size_t i = 0; i < count; i++)
            df_buf_addf(&n->late, DF_STR_FMT ": " DF_STR_FMT "\n", DF_STR_ARG(errors[i].field),
                        DF_STR_ARG(errors[i].message));
    } else {
        df_buf_addz(&n->late, err->detail);
    }
}

static enum df_code upload(struct notes *n, const char *type, struct df_str body, size_t step)
{
    struct df_upload *u;
    struct df_err err = DF_ERR_INIT;
    struct df_upload_handler handler = {on_begin, on_data, n, false};
    enum df_code rc = df_upload_new(df_str_c(type), handler, &u, &err);

    if (rc != DF_OK)
        return rc;
    for (size_t at = 0, len; rc == DF_OK && at < body.len; at += len) {
        len = body.len - at < step ? body.len - at : step;
        char *copy = malloc(len);
        memcpy(copy, body.ptr + at, len);
        rc = df_upload_feed(u, df_str_n(copy, len), &err);
        free(copy);
    }
    if (rc == DF_OK)
        rc = df_upload_finish(u, &err);
    note_end(n, u, rc, &err);
    df_upload_free(u);
    return rc;
}

#define PART(name, value)                                                                          \
    "--b\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" value "\r\n"
#define FILE_PART(name, file_name, type, value)                                                    \
    "--b\r\nContent-Disposition: form-data; name=\"" name "\"; filename=\"" file_name              \
    "\"\r\nContent-Type: " type "\r\n\r\n" value "\r\n"
#define END "--b--\r\n"

struct row {
    const char *type;
    const char *body;
    const char *file; /* NULL: refused */
    const char *early;
    const char *late;
};

static void check_row(const struct row *row, size_t step)
{
    struct notes n;

    notes_init(&n);
    enum df_code rc = upload(&n, row->type, df_str_c(row->body), step);
    bool ok = rc == DF_OK;
    if (ok != (row->file != NULL) || !df_str_eq(df_buf_str(&n.late), df_str_c(row->late)) ||
        (row->file && (!df_str_eq(df_buf_str(&n.file), df_str_c(row->file)) ||
                       !df_str_eq(df_buf_str(&n.early), df_str_c(row->early)))))
        fail_msg("%s\nin steps of %zu: %s\n%s\n%s\n%s", row->body, step, df_code_name(rc),
                 n.file.ptr ? n.file.ptr : "", n.early.ptr ? n.early.ptr : "",
                 n.late.ptr ? n.late.ptr : "");
    notes_release(&n);
}

static void check_rows(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t step = 1; step <= strlen(rows[i].body) + 1; step++)
            check_row(&rows[i], step);
    }
}

static void both_forms_are_taken_in_any_order(void **state)
{
    static const struct row rows[] = {
        {JSON,
         "{\"originDefault\":\"LandingPageX\",\"requestedBy\":\"user@client.com\",\"metadata\":"
         "{\"correlationId\":\"c-1\",\"notes\":\"texto livre\"},\"file\":\"W3t9XQ==\",\"fileName\":"
         "\"leads.json\",\"contentType\":\"application/json\"}",
         "[{}]",
         "o:LandingPageX r:user@client.com m:{\"correlationId\":\"c-1\",\"notes\":\"texto livre\"} "
         "c:c-1 ",
         "o:LandingPageX r:user@client.com m:{\"correlationId\":\"c-1\",\"notes\":\"texto livre\"} "
         "c:c-1 n:leads.json t:application/json "},
        {JSON "; charset=utf-8", "{\"FILE\":\"data:text/csv;base64,YSxi\",\"FileName\":\"a.csv\"}",
         "a,b", "", "n:a.csv "},
        /* PHP escapes slashes, others what is not ASCII. */
        {JSON, "{\"file\":\"\\/\\/\\/\\/\\n\",\"filename\":\"mar\\u00e7o \\ud83d\\ude00\"}",
         "\xFF\xFF\xFF", "", "n:mar\xC3\xA7o \xF0\x9F\x98\x80 "},
        {JSON,
         "{\"metadata\":{\"a\":[1.50,true,false,null,{\"b\\u0022\":\"\xC3\xA9\\n\\u0001\"},[],{}],"
         "\"correlationId\":12},\"file\":\"YQ\",\"sheet\":7}",
         "a",
         "m:{\"a\":[1.50,true,false,null,{\"b\\\"\":\"\xC3\xA9\\n\\u0001\"},[],{}],"
         "\"correlationId\":12} c:12 ",
         "m:{\"a\":[1.50,true,false,null,{\"b\\\"\":\"\xC3\xA9\\n\\u0001\"},[],{}],"
         "\"correlationId\":12} c:12 n:upload.csv s:7 "},
        {JSON, "{\"metadata\":\"{\\\"correlationId\\\":null}\",\"file\":\"YQ\"}", "a",
         "m:{\"correlationId\":null} ", "m:{\"correlationId\":null} n:upload.csv "},
        /* Absent, null and blank are the same; what is not known is passed over. */
        {JSON,
         "{\"metadata\":null,\"sheet\":\" \",\"fileName\":null,\"x\":{\"file\":[\"YQ\",{\"sheet\":1"
         "}]},\"originDefault\":null,\"file\":\"IFs\",\"y\":3}",
         " [", "", "n:upload.json "},
        {FORM,
         PART("originDefault", "S\xC3\xA3o Paulo")
             FILE_PART("file", "leads.xlsx", "application/octet-stream", "PK\x03\x04...")
                 PART("metadata", "{\"correlationId\": \"x\"}") PART("SHEET", "Plan1") END,
         "PK\x03\x04...", "o:S\xC3\xA3o Paulo n:leads.xlsx t:application/octet-stream ",
         "o:S\xC3\xA3o Paulo m:{\"correlationId\": \"x\"} c:x n:leads.xlsx "
         "t:application/octet-stream s:Plan1 "},
        /* Fields overrule what the part says, before it and after it. */
        {FORM,
         PART("fileName", "a.csv") FILE_PART("file", "b.csv", "text/plain", "x")
             PART("contentType", "text/csv") END,
         "x", "n:a.csv t:text/plain ", "n:a.csv t:text/csv "},
        {FORM, FILE_PART("file", "b.csv", "text/csv", "x") PART("filename", "a.csv") END, "x",
         "n:b.csv t:text/csv ", "n:a.csv t:text/csv "},
        /* The file is the part with a file name, or the one called so. */
        {FORM, FILE_PART("upload", "C:\\dados\\a.csv", "text/csv", "x") END, "x",
         "n:a.csv t:text/csv ", "n:a.csv t:text/csv "},
        {FORM, FILE_PART("", "pasta/a.csv", "text/csv", "x") END, "x", "n:a.csv t:text/csv ",
         "n:a.csv t:text/csv "},
        {FORM, PART("File", "[]") PART("_charset_", "UTF-8") END, "[]", "", "n:upload.json "},
        {FORM, FILE_PART("file", "pasta/", "text/csv", "PK\x03\x04") END, "PK\x03\x04",
         "t:text/csv ", "n:upload.xlsx t:text/csv "},
        /* A Blob has a file name too; so has the input that nothing was chosen in. */
        {FORM,
         FILE_PART("metadata", "blob", "application/json", "{}")
             FILE_PART("other", "", "application/octet-stream", "")
                 FILE_PART("file", "a.csv", "text/csv", "\xEF\xBB\xBF {") END,
         "\xEF\xBB\xBF {", "m:{} n:a.csv t:text/csv ", "m:{} n:a.csv t:text/csv "},
        {FORM, PART("file", "\xEF\xBB\xBF {") PART("metadata", "") PART("sheet", "") END,
         "\xEF\xBB\xBF {", "", "n:upload.json "},
    };

    (void)state;
    check_rows(rows, sizeof(rows) / sizeof(rows[0]));
}

static void every_bad_field_is_named(void **state)
{
    static const struct row rows[] = {
        {JSON, "{}", NULL, "", "file: is required\n"},
        {JSON, "{\"file\":null}", NULL, "", "file: is required\n"},
        {JSON, "{\"file\":\"\"}", NULL, "", "file: is empty\n"},
        {JSON, "{\"file\":\"data:text/csv;base64,\"}", NULL, "", "file: is empty\n"},
        {JSON, "{\"file\":\"YQ\",\"File\":\"YQ\"}", NULL, "", "file: is given twice\n"},
        {JSON, "{\"file\":\"YQ\",\"sheet\":\"a\",\"Sheet\":\"b\"}", NULL, "",
         "sheet: is given twice\n"},
        {JSON, "{\"file\":[\"YQ\"]}", NULL, "", "file: must be text in base64\n"},
        {JSON, "{\"file\":{\"sheet\":{}}}", NULL, "", "file: must be text in base64\n"},
        {JSON, "{\"file\":\"YWJj*\"}", NULL, "",
         "file: must be text in base64: a byte is not base64, at byte 4\n"},
        {JSON, "{\"file\":\"YWJjY\"}", NULL, "",
         "file: must be text in base64: the base64 text ends within a group, at byte 5\n"},
        {JSON,
         "{\"originDefault\":{\"a\":1},\"requestedBy\":true,\"metadata\":[{\"a\":1}],\"sheet\":[],"
         "\"fileName\":false,\"contentType\":{},\"file\":1}",
         NULL, "",
         "originDefault: must be text\nrequestedBy: must be text\nmetadata: must be a JSON "
         "object\nsheet: must be text\nfileName: must be text\ncontentType: must be text\nfile: "
         "must be text in base64\n"},
        {JSON, "{\"metadata\":{\"correlationId\":[]},\"file\":\"YQ\",\"sheet\":[]}", NULL, "",
         "metadata: has a correlationId that is not text\nsheet: must be text\n"},
        {JSON, "{\"metadata\":\"3\"}", NULL, "",
         "metadata: must be a JSON object\nfile: is required\n"},
        {FORM, END, NULL, "", "file: is required\n"},
        {FORM, FILE_PART("other", "", "text/csv", "") END, NULL, "", "file: is required\n"},
        {FORM, FILE_PART("file", "", "application/octet-stream", "") END, NULL, "",
         "file: is empty\n"},
        {FORM,
         FILE_PART("file", "a.csv", "text/csv", "x") FILE_PART("f", "b.csv", "text/csv", "x") END,
         NULL, "", "file: is given twice\n"},
        {FORM, PART("sheet", "a") PART("sheet", "b") END, NULL, "",
         "sheet: is given twice\nfile: is required\n"},
        {FORM, PART("sheet", "\xE3") PART("metadata", "[]") END, NULL, "",
         "sheet: is not valid UTF-8\nmetadata: must be a JSON object\nfile: is required\n"},
    };

    (void)state;
    check_rows(rows, sizeof(rows) / sizeof(rows[0]));
}

static void bodies_that_cannot_be_read_are_refused(void **state)
{
    static const struct {
        const char *type;
        const char *body;
        enum df_code code;
    } table[] = {
        {"text/csv", "", DF_E_MEDIA_TYPE},
        {"", "", DF_E_MEDIA_TYPE},
        {"application/x-www-form-urlencoded", "", DF_E_MEDIA_TYPE},
        {"application/json; charset=latin1", "", DF_E_MEDIA_TYPE},
        {"multipart/form-data", "", DF_E_BAD_REQUEST},
        {FORM, "", DF_E_BAD_REQUEST},
        {FORM, PART("file", "x"), DF_E_BAD_REQUEST},
        {JSON, "", DF_E_MALFORMED_JSON},
        {JSON, "[]", DF_E_BAD_REQUEST},
        {JSON, "\"x\"", DF_E_BAD_REQUEST},
        {JSON, "{\"file\":\"YQ", DF_E_MALFORMED_JSON},
        {JSON, "{\"file\":\"YQ\"", DF_E_MALFORMED_JSON},
        {JSON, "{\"file\":\"YQ\"}x", DF_E_MALFORMED_JSON},
        {JSON, "{\"file\":\"YQ\",\"file\":\"YQ\"}", DF_E_DUPLICATE_KEY},
        {JSON, "{\"sheet\":\"\\u0000\",\"file\":\"YQ\"}", DF_E_INVALID_TEXT},
        {JSON, "{\"sheet\":\"\xE3\",\"file\":\"YQ\"}", DF_E_INVALID_TEXT},
        {JSON, "{\"metadata\":{\"a\":1,\"a\":1}}", DF_E_DUPLICATE_KEY},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        for (size_t step = 1; step <= strlen(table[i].body) + 1; step++) {
            struct notes n;
            notes_init(&n);
            enum df_code rc = upload(&n, table[i].type, df_str_c(table[i].body), step);
            if (rc != table[i].code)
                fail_msg("%s: %s", table[i].body, df_code_name(rc));
            notes_release(&n);
        }
    }
}

/* A field of `len` letters a, or what stands for it in `open`, in both forms. */
static enum df_code with_long_field(struct notes *n, const char *type, const char *name,
                                    const char *open, size_t len, const char *close)
{
    struct df_buf body;
    bool json = df_str_starts(df_str_c(type), DF_STR(JSON));

    df_buf_init(&body, 1 << 20);
    if (json)
        df_buf_addf(&body, "{\"%s\":%s", name, open);
    else
        df_buf_addf(&body, "--b\r\nContent-Disposition: form-data; name=%s\r\n\r\n%s", name, open);
    for (size_t i = 0; i < len; i++)
        df_buf_addc(&body, 'a');
    df_buf_addz(&body, close);
    df_buf_addz(&body, json ? ",\"file\":\"YQ\"}" : "\r\n" PART("file", "x") END);
    enum df_code rc = upload(n, type, df_buf_str(&body), 1000);
    df_buf_release(&body);
    return rc;
}

static void fields_are_bounded(void **state)
{
    const size_t meta = DF_UPLOAD_METADATA_BYTES - strlen("{\"a\":\"\"}");
    const struct {
        const char *type;
        const char *name;
        const char *open;
        const char *close;
        size_t max;
        const char *message;
    } table[] = {
        {JSON, "sheet", "\"", "\"", 200, "sheet: has 201 characters, at most 200 are allowed\n"},
        {FORM, "requestedBy", "", "", 200,
         "requestedBy: has 201 characters, at most 200 are allowed\n"},
        {JSON, "fileName", "\"", "\"", 260,
         "fileName: has 261 characters, at most 260 are allowed\n"},
        {JSON, "metadata", "{\"a\":\"", "\"}", meta, "metadata: has more than 65536 bytes\n"},
        {FORM, "metadata", "{\"a\":\"", "\"}", meta, "metadata: has more than 65536 bytes\n"},
        {JSON, "metadata", "{\"correlationId\":\"", "\"}", 200,
         "metadata: has a correlationId of more than 200 characters\n"},
        {JSON, "unknown", "[\"", "\"]", 500000, NULL},
        {FORM, "unknown", "", "", 500000, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        for (size_t over = 0; over < 2; over++) {
            struct notes n;
            notes_init(&n);
            enum df_code rc = with_long_field(&n, table[i].type, table[i].name, table[i].open,
                                              table[i].max + over, table[i].close);
            bool refused = over > 0 && table[i].message;
            assert_int_equal(rc, refused ? DF_E_VALIDATION : DF_OK);
            if (refused) {
                assert_string_equal(n.late.ptr, table[i].message);
                assert_int_equal(n.begun, 0); /* nothing to store */
            }
            notes_release(&n);
        }
    }
}

static void a_part_whose_file_name_is_too_long_is_refused(void **state)
{
    struct notes n;
    struct df_buf body;

    (void)state;
    notes_init(&n);
    df_buf_init(&body, 4096);
    df_buf_addz(&body, "--b\r\nContent-Disposition: form-data; name=file; filename=\"");
    for (int i = 0; i < 261; i++)
        df_buf_addz(&body, "\xC3\xA9");
    df_buf_addz(&body, "\"\r\n\r\nx\r\n" END);
    assert_int_equal(upload(&n, FORM, df_buf_str(&body), 4096), DF_E_VALIDATION);
    assert_string_equal(n.late.ptr, "fileName: has 261 characters, at most 260 are allowed\n");
    df_buf_release(&body);
    notes_release(&n);
}

static void the_callers_refusal_ends_it(void **state)
{
    struct notes n;

    (void)state;
    notes_init(&n);
    n.answer = DF_E_CONFLICT;
    assert_int_equal(upload(&n, JSON, DF_STR("{\"file\":\"YWJj\"}"), 100), DF_E_CONFLICT);
    assert_string_equal(n.late.ptr, "enough");
    df_buf_reset(&n.late);
    n.begun = 0;
    assert_int_equal(upload(&n, FORM, DF_STR(PART("file", "x") END), 100), DF_E_CONFLICT);
    assert_string_equal(n.late.ptr, "enough");
    notes_release(&n);
    df_upload_free(NULL);
}

/* 64 MiB through either form: what is in use afterwards does not depend on it. */
static void memory_does_not_grow_with_the_file(void **state)
{
    enum { PIECE = 65536, PIECES = 1024 };
    static const char *const types[] = {JSON, FORM};
    static const char *const openings[] = {
        "{\"file\":\"", "--b\r\nContent-Disposition: form-data; name=file\r\n\r\n"};
    static const char *const closings[] = {"\"}", "\r\n" END};
    char *piece = malloc(PIECE);

    (void)state;
    memset(piece, 'A', PIECE);
    for (int i = 0; i < 2; i++) {
        struct notes n;
        struct df_upload *u;
        struct df_err err = DF_ERR_INIT;
        struct df_upload_handler handler = {on_begin, on_data, &n, false};
        notes_init(&n);
        n.keep = false;
        assert_int_equal(df_upload_new(df_str_c(types[i]), handler, &u, &err), DF_OK);
        assert_int_equal(df_upload_feed(u, df_str_c(openings[i]), &err), DF_OK);
        assert_int_equal(df_upload_feed(u, df_str_n(piece, PIECE), &err), DF_OK);
        size_t before = mallinfo2().uordblks;
        for (int k = 1; k < PIECES; k++)
            assert_int_equal(df_upload_feed(u, df_str_n(piece, PIECE), &err), DF_OK);
        size_t after = mallinfo2().uordblks;
        assert_true(after <= before + 4096);
        assert_int_equal(df_upload_feed(u, df_str_c(closings[i]), &err), DF_OK);
        assert_int_equal(df_upload_finish(u, &err), DF_OK);
        uint64_t bytes = (uint64_t)PIECE * PIECES;
        assert_int_equal(n.passed, i == 0 ? bytes / 4 * 3 : bytes);
        assert_int_equal(df_upload_head(u).len, DF_UPLOAD_HEAD_BYTES);
        df_upload_free(u);
        notes_release(&n);
    }
    free(piece);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms_are_taken_in_any_order),
        cmocka_unit_test(every_bad_field_is_named),
        cmocka_unit_test(bodies_that_cannot_be_read_are_refused),
        cmocka_unit_test(fields_are_bounded),
        cmocka_unit_test(a_part_whose_file_name_is_too_long_is_refused),
        cmocka_unit_test(the_callers_refusal_ends_it),
        cmocka_unit_test(memory_does_not_grow_with_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
