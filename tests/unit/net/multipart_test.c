#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "net/multipart.h"

#include <stdlib.h>

/* Parts as text: [name|file name|type|content], - for what is absent. */
struct notes {
    struct df_buf buf;
    enum df_code answer;
};

static void note(struct notes *n, struct df_str s)
{
    df_buf_adds(&n->buf, s.ptr ? s : DF_STR("-"));
    df_buf_addc(&n->buf, '|');
}

static enum df_code on_begin(void *arg, const struct df_multipart_part *part, struct df_err *err)
{
    struct notes *n = arg;

    (void)err;
    df_buf_addc(&n->buf, '[');
    note(n, part->name);
    note(n, part->file_name);
    note(n, part->content_type);
    return DF_OK;
}

static enum df_code on_data(void *arg, struct df_str piece, struct df_err *err)
{
    struct notes *n = arg;

    assert_true(piece.len > 0);
    df_buf_adds(&n->buf, piece);
    return n->answer == DF_OK ? DF_OK : df_err_set(err, n->answer, "enough");
}

static enum df_code on_end(void *arg, struct df_err *err)
{
    struct notes *n = arg;

    (void)err;
    df_buf_addc(&n->buf, ']');
    return DF_OK;
}

/* The body in pieces of `first` bytes, then of `step`; each in memory of its own, for ASan. */
static enum df_code feed(struct notes *n, const char *type, struct df_str body, size_t first,
                         size_t step, struct df_err *err)
{
    struct df_multipart *m;
    struct df_multipart_handler handler = {on_begin, on_data, on_end, n};
    enum df_code rc = df_multipart_new(df_str_c(type), handler, &m, err);

    df_buf_reset(&n->buf);
    if (rc != DF_OK)
        return rc;
    for (size_t at = 0, len = first; rc == DF_OK && at < body.len; at += len, len = step) {
        len = body.len - at < len ? body.len - at : len;
        char *copy = malloc(len ? len : 1);
        memcpy(copy, body.ptr + at, len);
        rc = df_multipart_feed(m, df_str_n(copy, len), err);
        free(copy);
    }
    if (rc == DF_OK)
        rc = df_multipart_finish(m, err);
    df_multipart_free(m);
    return rc;
}

static void check_all_cuts(const char *what, const char *type, struct df_str body,
                           struct df_str want)
{
    struct notes n = {0};

    df_buf_init(&n.buf, 1 << 20);
    for (size_t cut = 0; cut <= body.len; cut++) {
        size_t steps[] = {body.len, 1, 7};
        for (size_t i = 0; i < (cut < 90 ? 3 : 1); i++) {
            struct df_err err = DF_ERR_INIT;
            enum df_code rc = feed(&n, type, body, cut, steps[i], &err);
            if (rc != DF_OK || !df_str_eq(df_buf_str(&n.buf), want))
                fail_msg("%s, cut at %zu: %s %s\n%s", what, cut, df_code_name(rc), err.detail,
                         n.buf.ptr);
        }
    }
    df_buf_release(&n.buf);
}

/* --- what is sent in the world ---------------------------------------------------------------- */

#define LEADS "\xEF\xBB\xBFnome,telefone\r\nJo\xC3\xA3o,11 99999-0000\r\n"

static const struct {
    const char *who;
    const char *type;
    const char *body;
    const char *want;
} real[] = {
    {"curl 7.88", "multipart/form-data; boundary=------------------------d74496d66958873e",
     "--------------------------d74496d66958873e\r\n"
     "Content-Disposition: form-data; name=\"file\"; filename=\"say %22hi%22.csv\"\r\n"
     "Content-Type: text/csv\r\n\r\n" LEADS "\r\n"
     "--------------------------d74496d66958873e\r\n"
     "Content-Disposition: form-data; name=\"originDefault\"\r\n\r\nLandingPageX\r\n"
     "--------------------------d74496d66958873e--\r\n",
     "[file|say \"hi\".csv|text/csv|" LEADS "][originDefault|-|-|LandingPageX]"},
    {"curl 7.74, --form-escape",
     "multipart/form-data; boundary=------------------------5c1f0e3bd6a8b2f4",
     "--------------------------5c1f0e3bd6a8b2f4\r\n"
     "Content-Disposition: form-data; name=\"file\"; filename=\"say \\\"hi\\\" \\\\ you.json\"\r\n"
     "Content-Type: application/octet-stream\r\n\r\n[]\r\n"
     "--------------------------5c1f0e3bd6a8b2f4--\r\n",
     "[file|say \"hi\" \\ you.json|application/octet-stream|[]]"},
    {"Chrome", "multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW",
     "------WebKitFormBoundary7MA4YWxkTrZu0gW\r\n"
     "Content-Disposition: form-data; name=\"requestedBy\"\r\n\r\nana@exemplo.com.br\r\n"
     "------WebKitFormBoundary7MA4YWxkTrZu0gW\r\n"
     "Content-Disposition: form-data; name=\"file\"; filename=\"relat\xC3\xB3rio de "
     "mar\xC3\xA7o \xF0\x9F\x98\x80.xlsx\"\r\n"
     "Content-Type: application/vnd.openxmlformats-officedocument.spreadsheetml.sheet\r\n\r\n"
     "PK\x03\x04--\r\n--\r\r\n------WebKitFormBoundary7MA4YWxkTrZu0g\r\n"
     "------WebKitFormBoundary7MA4YWxkTrZu0gW--\r\n",
     "[requestedBy|-|-|ana@exemplo.com.br]"
     "[file|relat\xC3\xB3rio de mar\xC3\xA7o \xF0\x9F\x98\x80.xlsx|"
     "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet|"
     "PK\x03\x04--\r\n--\r\r\n------WebKitFormBoundary7MA4YWxkTrZu0g]"},
    {"Chrome, nothing chosen and nothing typed",
     "multipart/form-data; boundary=----WebKitFormBoundaryABCDEFGHIJKLMNOP",
     "------WebKitFormBoundaryABCDEFGHIJKLMNOP\r\n"
     "Content-Disposition: form-data; name=\"file\"; filename=\"\"\r\n"
     "Content-Type: application/octet-stream\r\n\r\n\r\n"
     "------WebKitFormBoundaryABCDEFGHIJKLMNOP\r\n"
     "Content-Disposition: form-data; name=\"sheet\"\r\n\r\n\r\n"
     "------WebKitFormBoundaryABCDEFGHIJKLMNOP--\r\n",
     "[file||application/octet-stream|][sheet|-|-|]"},
    {"Chrome, an empty FormData",
     "multipart/form-data; boundary=----WebKitFormBoundaryABCDEFGHIJKLMNOP",
     "------WebKitFormBoundaryABCDEFGHIJKLMNOP--\r\n", ""},
    {"Firefox, a name that ends in a backslash",
     "multipart/form-data; boundary=---------------------------735323031399963166993862150",
     "-----------------------------735323031399963166993862150\r\n"
     "Content-Disposition: form-data; name=\"a\\b\"; filename=\"C:\\dir\\\"\r\n\r\nx\r\n"
     "-----------------------------735323031399963166993862150--\r\n",
     "[a\\b|C:\\dir\\|-|x]"},
    {"Python requests, urllib3 1", "multipart/form-data; boundary=0f1e2d3c4b5a69788796a5b4c3d2e1f0",
     "--0f1e2d3c4b5a69788796a5b4c3d2e1f0\r\n"
     "Content-Disposition: form-data; name=\"file\"; filename*=utf-8''imobili%C3%A1ria.json\r\n\r\n"
     "{}\r\n--0f1e2d3c4b5a69788796a5b4c3d2e1f0--\r\n",
     "[file|imobili\xC3\xA1ria.json|-|{}]"},
    {"C# HttpClient", "multipart/form-data; boundary=\"9a1f6c2e-3b1d-4f0e-8c77-2f6d1f2f6f10\"",
     "--9a1f6c2e-3b1d-4f0e-8c77-2f6d1f2f6f10\r\n"
     "Content-Type: application/json; charset=utf-8\r\n"
     "Content-Disposition: form-data; name=metadata\r\n\r\n{\"notes\":\"x\"}\r\n"
     "--9a1f6c2e-3b1d-4f0e-8c77-2f6d1f2f6f10\r\n"
     "Content-Type: text/csv\r\n"
     "Content-Disposition: form-data; name=file; filename=\"=?utf-8?B?bWFyw6dvLmNzdg==?=\"; "
     "filename*=utf-8''mar%C3%A7o.csv\r\n\r\na;b\r\n"
     "--9a1f6c2e-3b1d-4f0e-8c77-2f6d1f2f6f10--\r\n",
     "[metadata|-|application/json; charset=utf-8|{\"notes\":\"x\"}]"
     "[file|mar\xC3\xA7o.csv|text/csv|a;b]"},
    {"RestSharp", "multipart/form-data; boundary=\"-----------------------------28947758029299\"",
     "-------------------------------28947758029299\r\n"
     "Content-Disposition: form-data; name=\"file\"; filename=\"=?utf-8?B?bWFyw6dvLmNzdg==?=\"\r\n"
     "\r\na\r\n-------------------------------28947758029299--\r\n",
     "[file|mar\xC3\xA7o.csv|-|a]"},
    {"Node FormData (undici)", "multipart/form-data; boundary=----formdata-undici-048277312345",
     "------formdata-undici-048277312345\r\n"
     "Content-Disposition: form-data; name=\"file\"; filename=\"blob\"\r\n"
     "Content-Type: application/json\r\n\r\n[{\"a\":1}]\r\n"
     "------formdata-undici-048277312345--\r\n",
     "[file|blob|application/json|[{\"a\":1}]]"},
    {"Node form-data, Postman, without the last CRLF",
     "multipart/form-data; boundary=--------------------------493029382736152435261728",
     "----------------------------493029382736152435261728\r\n"
     "Content-Disposition: form-data; name=\"\"; filename=\"leads.xlsx\"\r\n"
     "Content-Type: application/octet-stream\r\n\r\nPK\r\n"
     "----------------------------493029382736152435261728--",
     "[|leads.xlsx|application/octet-stream|PK]"},
    {"Apache HttpClient, strict", "multipart/form-data; boundary=-r_K4Yx.9; charset=ISO-8859-1",
     "---r_K4Yx.9\r\n"
     "Content-Disposition: form-data; name=\"file\"; filename=\"a.csv\"\r\n"
     "Content-Type: text/csv; charset=UTF-8\r\nContent-Transfer-Encoding: 8bit\r\n"
     "Content-Length: 3\r\n\r\na,b\r\n---r_K4Yx.9--\r\n",
     "[file|a.csv|text/csv; charset=UTF-8|a,b]"},
    {"Java mail, a boundary that is no token, unquoted",
     "Multipart/Form-Data;boundary=----=_Part_4_1938403.1399",
     "preamble, to be ignored\r\n------=_Part_4_1938403.1399 \t\r\n"
     "content-disposition:FORM-DATA ; NAME = \"x\"\r\n\r\ny\r\n"
     "------=_Part_4_1938403.1399--  \r\nepilogue",
     "[x|-|-|y]"},
    {"RFC 5987 in Latin-1 and with a language", "multipart/form-data; boundary=b",
     "--b\r\nContent-Disposition: form-data; name=a; filename=\"x\"; "
     "filename*=\"iso-8859-1'pt'S%E3o%20Paulo\"\r\n\r\n1\r\n--b--",
     "[a|S\xC3\xA3o Paulo|-|1]"},
    {"a part that is empty down to its line break", "multipart/form-data; boundary=b",
     "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n--b\r\n"
     "Content-Disposition: form-data; name=c\r\n\r\n--d\r\n--b--",
     "[a|-|-|][c|-|-|--d]"},
    {"semicolons, equals and words in quotes",
     "multipart/form-data; x=\"a;boundary=c\"; boundary=b",
     "--b\r\nContent-Disposition: form-data; name=\"a; filename=x\"; filename=\"=?utf-8?Q?x?=\";"
     "\r\n\r\n1\r\n--b--",
     "[a; filename=x|=?utf-8?Q?x?=|-|1]"},
};

static void real_bodies_are_read_wherever_they_are_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(real) / sizeof(real[0]); i++)
        check_all_cuts(real[i].who, real[i].type, df_str_c(real[i].body), df_str_c(real[i].want));
}

/* --- what is refused -------------------------------------------------------------------------- */

static void content_types_that_will_not_do_are_refused(void **state)
{
    static const struct {
        const char *type;
        enum df_code code;
    } table[] = {
        {NULL, DF_E_MEDIA_TYPE},
        {"", DF_E_MEDIA_TYPE},
        {"application/json", DF_E_MEDIA_TYPE},
        {"multipart/mixed; boundary=b", DF_E_MEDIA_TYPE},
        {"multipart/form-data", DF_E_BAD_REQUEST},
        {"multipart/form-data;", DF_E_BAD_REQUEST},
        {"multipart/form-data; boundary", DF_E_BAD_REQUEST},
        {"multipart/form-data; boundary=", DF_E_BAD_REQUEST},
        {"multipart/form-data; boundary=\"\"", DF_E_BAD_REQUEST},
        {"multipart/form-data; boundary=\"b", DF_E_BAD_REQUEST},
        {"multipart/form-data; boundary=\"b\"x", DF_E_BAD_REQUEST},
        {"multipart/form-data; boundary=\"b \"", DF_E_BAD_REQUEST},
        {"multipart/form-data; boundary=a{b", DF_E_BAD_REQUEST},
        {"multipart/form-data; boundary=b; boundary=c", DF_E_BAD_REQUEST},
        {"multipart/form-data; boundary="
         "1234567890123456789012345678901234567890123456789012345678901234567890",
         DF_OK},
        {"multipart/form-data; boundary="
         "12345678901234567890123456789012345678901234567890123456789012345678901",
         DF_E_BAD_REQUEST},
        {"multipart/form-data; boundary=\"a 'b'()+_,-./:=?\"", DF_OK},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct df_multipart *m = NULL;
        struct df_err err = DF_ERR_INIT;
        struct df_multipart_handler handler = {on_begin, on_data, on_end, NULL};
        enum df_code rc = df_multipart_new(df_str_c(table[i].type), handler, &m, &err);
        if (rc != table[i].code)
            fail_msg("%s: %s", table[i].type, df_code_name(rc));
        df_multipart_free(m);
    }
    assert_true(df_multipart_is(DF_STR("Multipart/Form-Data")));
    assert_false(df_multipart_is(DF_STR("multipart/form-database")));
}

#define CD "Content-Disposition: form-data; name=a"

static void bad_bodies_are_refused_wherever_they_are_cut(void **state)
{
    static const struct {
        const char *body;
        enum df_code code;
        const char *detail; /* its beginning */
    } table[] = {
        {"", DF_E_BAD_REQUEST, "the boundary that the content type names does not occur"},
        {"nothing here", DF_E_BAD_REQUEST, "the boundary that the content type names"},
        {"x--b--", DF_E_BAD_REQUEST, "the boundary that the content type names"},
        {"--b", DF_E_BAD_REQUEST, "the body ended before the closing boundary"},
        {"--b\r\n", DF_E_BAD_REQUEST, "the body ended before the closing boundary"},
        {"--b-", DF_E_BAD_REQUEST, "the body ended before the closing boundary"},
        {"--b\r\n" CD "\r\n\r\nx", DF_E_BAD_REQUEST, "the body ended before the closing boundary"},
        {"--b\r\n" CD "\r\n\r\nx\r\n--b\r\n", DF_E_BAD_REQUEST, "the body ended before"},
        {"--b\n" CD "\n\nx\n--b--\n", DF_E_BAD_REQUEST,
         "a line ends in LF, not in CRLF, at byte 3"},
        {"--b\r\n" CD "\n\nx\n--b--\n", DF_E_BAD_REQUEST, "a line ends in LF, not in CRLF, at "},
        {"--b\r\n" CD "\r\n\r\nx\n--b--\n", DF_E_BAD_REQUEST, "the body ended before the closing"},
        {"--bx\r\n", DF_E_BAD_REQUEST, "the line of a boundary is malformed, at byte 3"},
        {"--b-x\r\n", DF_E_BAD_REQUEST, "the line of a boundary is malformed, at byte 4"},
        {"--b\rx\r\n", DF_E_BAD_REQUEST, "the line of a boundary does not end, at byte 4"},
        {"--b --\r\n", DF_E_BAD_REQUEST, "the line of a boundary is malformed, at byte 4"},
        {"--b\r\n\r\nx\r\n--b--", DF_E_BAD_REQUEST, "a part has no Content-Disposition"},
        {"--b\r\nContent-Type: a/b\r\n\r\nx\r\n--b--", DF_E_BAD_REQUEST, "a part has no Content-D"},
        {"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--", DF_E_BAD_REQUEST,
         "a part has no name"},
        {"--b\r\nContent-Disposition: attachment; name=a\r\n\r\nx\r\n--b--", DF_E_BAD_REQUEST,
         "a part's Content-Disposition is not form-data"},
        {"--b\r\n" CD "\r\n" CD "\r\n\r\nx\r\n--b--", DF_E_BAD_REQUEST,
         "a part has two of Content-Disposition"},
        {"--b\r\n" CD "; name=b\r\n\r\nx\r\n--b--", DF_E_BAD_REQUEST, "a part has two of name"},
        {"--b\r\n" CD "; filename=a; filename=b\r\n\r\nx\r\n--b--", DF_E_BAD_REQUEST,
         "a part has two of filename"},
        {"--b\r\n" CD "; filename*=UTF-8''a; filename*=UTF-8''b\r\n\r\nx\r\n--b--",
         DF_E_BAD_REQUEST, "a part has two of filename*"},
        {"--b\r\n" CD "\r\nContent-Type: a/b\r\nContent-Type: a/b\r\n\r\nx\r\n--b--",
         DF_E_BAD_REQUEST, "a part has two of Content-Type"},
        {"--b\r\n" CD "; filename=\"a\r\n\r\nx\r\n--b--", DF_E_BAD_REQUEST, "a quote in a header"},
        {"--b\r\n" CD "; filename=\"a\"b\r\n\r\nx\r\n--b--", DF_E_BAD_REQUEST, "a header's param"},
        {"--b\r\n" CD "; file name=a\r\n\r\nx\r\n--b--", DF_E_BAD_REQUEST, "a header's parameters"},
        {"--b\r\n" CD "; filename\r\n\r\nx\r\n--b--", DF_E_BAD_REQUEST, "a parameter in a header"},
        {"--b\r\n" CD "; filename*=a\r\n\r\nx\r\n--b--", DF_E_BAD_REQUEST, "a part's filename*"},
        {"--b\r\n" CD "; filename*=koi8-r''a\r\n\r\nx\r\n--b--", DF_E_BAD_REQUEST, "a part's file"},
        {"--b\r\n" CD "; filename*=UTF-8''%C\r\n\r\nx\r\n--b--", DF_E_BAD_REQUEST, "a part's file"},
        {"--b\r\n" CD "; filename*=UTF-8''%0g\r\n\r\nx\r\n--b--", DF_E_BAD_REQUEST, "a part's fi"},
        {"--b\r\n" CD "; filename*=UTF-8''%E3\r\n\r\nx\r\n--b--", DF_E_INVALID_TEXT,
         "the file name of a part is not valid UTF-8"},
        {"--b\r\n" CD "; filename*=UTF-8''a%00.csv\r\n\r\nx\r\n--b--", DF_E_INVALID_TEXT,
         "the file name of a part has control characters"},
        {"--b\r\n" CD "; filename=\"S\xE3o.csv\"\r\n\r\nx\r\n--b--", DF_E_INVALID_TEXT,
         "the file name of a part is not valid UTF-8"},
        {"--b\r\nContent-Disposition: form-data; name=\"\xFF\"\r\n\r\nx\r\n--b--",
         DF_E_INVALID_TEXT, "the name of a part is not valid UTF-8"},
        {"--b\r\n" CD ";\r\n filename=a\r\n\r\nx\r\n--b--", DF_E_BAD_REQUEST,
         "a line in the header of a part is malformed"},
        {"--b\r\n" CD "\x01\r\n\r\nx\r\n--b--", DF_E_BAD_REQUEST, "a line in the header of a part"},
        {"--b\r\n" CD "\r\nnonsense\r\n\r\nx\r\n--b--", DF_E_BAD_REQUEST, "a line in the header"},
        {"--b\r\n" CD "\r\n: x\r\n\r\nx\r\n--b--", DF_E_BAD_REQUEST, "a line in the header"},
        {"--b\r\n" CD "\r\nContent-Transfer-Encoding: base64\r\n\r\neA==\r\n--b--", DF_E_MEDIA_TYPE,
         "a part's Content-Transfer-Encoding is none of"},
        {"--b\r\n" CD "\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\nx\r\n--b--",
         DF_E_MEDIA_TYPE, "a part that has parts itself"},
    };
    struct notes n = {0};

    (void)state;
    df_buf_init(&n.buf, 1 << 20);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct df_str body = df_str_c(table[i].body);
        int64_t offset = -2;
        for (size_t step = 1; step <= body.len + 1; step++) {
            struct df_err err = DF_ERR_INIT;
            enum df_code rc = feed(&n, "multipart/form-data; boundary=b", body, step, step, &err);
            if (rc != table[i].code ||
                strncmp(err.detail, table[i].detail, strlen(table[i].detail)))
                fail_msg("%s, in steps of %zu: %s %s", table[i].body, step, df_code_name(rc),
                         err.detail);
            assert_true(offset == -2 || offset == err.offset);
            offset = err.offset;
        }
        assert_true(offset >= 0 && (size_t)offset <= body.len);
    }
    df_buf_release(&n.buf);
}

/* `before`, then `fill` as often as asked, then `after`. */
static enum df_code feed_filled(const char *before, const char *fill, size_t count,
                                const char *after)
{
    struct notes n = {0};
    struct df_buf body;
    struct df_err err = DF_ERR_INIT;

    df_buf_init(&n.buf, 1 << 20);
    df_buf_init(&body, 1 << 20);
    df_buf_addz(&body, before);
    for (size_t i = 0; i < count; i++)
        df_buf_addz(&body, fill);
    df_buf_addz(&body, after);
    enum df_code whole =
        feed(&n, "multipart/form-data; boundary=b", df_buf_str(&body), body.len, body.len, &err);
    enum df_code pieces =
        feed(&n, "multipart/form-data; boundary=b", df_buf_str(&body), 1, 1000, &err);
    assert_int_equal(whole, pieces);
    df_buf_release(&body);
    df_buf_release(&n.buf);
    return whole;
}

static void limits_hold_to_the_byte(void **state)
{
    const size_t head = DF_MULTIPART_HEADER_BYTES - strlen(CD "\r\nx: \r\n");

    (void)state;
    assert_int_equal(feed_filled("--b\r\n" CD "\r\nx: ", "y", head, "\r\n\r\n1\r\n--b--"), DF_OK);
    assert_int_equal(feed_filled("--b\r\n" CD "\r\nx: ", "y", head + 1, "\r\n\r\n1\r\n--b--"),
                     DF_E_BAD_REQUEST);
    assert_int_equal(feed_filled("", "--b\r\n" CD "\r\n\r\n1\r\n", DF_MULTIPART_PARTS_MAX, "--b--"),
                     DF_OK);
    assert_int_equal(
        feed_filled("", "--b\r\n" CD "\r\n\r\n1\r\n", DF_MULTIPART_PARTS_MAX + 1, "--b--"),
        DF_E_BAD_REQUEST);
    assert_int_equal(feed_filled("", "x", DF_MULTIPART_PREAMBLE_BYTES, "\r\n--b--"), DF_OK);
    assert_int_equal(feed_filled("", "x", DF_MULTIPART_PREAMBLE_BYTES + 1, "\r\n--b--"),
                     DF_E_BAD_REQUEST);
    assert_int_equal(feed_filled("--b--", "x", DF_MULTIPART_EPILOGUE_BYTES, ""), DF_OK);
    assert_int_equal(feed_filled("--b--", "x", DF_MULTIPART_EPILOGUE_BYTES + 1, ""),
                     DF_E_BAD_REQUEST);
    assert_int_equal(feed_filled("--b", " ", 64, "\r\n" CD "\r\n\r\n1\r\n--b--"), DF_OK);
    assert_int_equal(feed_filled("--b", " ", 65, "\r\n" CD "\r\n\r\n1\r\n--b--"), DF_E_BAD_REQUEST);
}

/* Content made of pieces of the delimiter is where a search goes wrong. */
static void content_that_resembles_the_boundary_is_content(void **state)
{
    static const char *const scraps[] = {"\r",       "\r\n", "\r\n-", "\r\n--", "\r\n--a",
                                         "\r\n--aa", "\n",   "--aab", "a",      "\r\n--ab"};
    enum { SCRAPS = sizeof(scraps) / sizeof(scraps[0]), ROUNDS = 2000 };
    uint32_t seed = 1;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct df_buf content;
        struct df_buf body;
        struct df_buf want;
        struct notes n = {0};
        struct df_err err = DF_ERR_INIT;
        df_buf_init(&content, 4096);
        df_buf_init(&body, 4096);
        df_buf_init(&want, 4096);
        df_buf_init(&n.buf, 4096);
        for (int i = 0; i < 12; i++) {
            seed = seed * 1664525 + 1013904223;
            df_buf_addz(&content, scraps[(seed >> 16) % SCRAPS]);
        }
        if (!strstr(content.ptr, "\r\n--aab") &&
            !df_str_starts(df_buf_str(&content), DF_STR("--aab"))) {
            df_buf_addf(&body, "--aab\r\n" CD "\r\n\r\n%s\r\n--aab--", content.ptr);
            df_buf_addf(&want, "[a|-|-|%s]", content.ptr);
            size_t step = 1 + (seed >> 8) % 20;
            assert_int_equal(
                feed(&n, "multipart/form-data; boundary=aab", df_buf_str(&body), step, step, &err),
                DF_OK);
            assert_string_equal(n.buf.ptr, want.ptr);
        }
        df_buf_release(&content);
        df_buf_release(&body);
        df_buf_release(&want);
        df_buf_release(&n.buf);
    }
}

static void a_failure_stays(void **state)
{
    struct notes n = {.answer = DF_E_CONFLICT};
    struct df_multipart *m;
    struct df_multipart_handler handler = {on_begin, on_data, on_end, &n};
    struct df_err err = DF_ERR_INIT;

    (void)state;
    df_buf_init(&n.buf, 4096);
    assert_int_equal(df_multipart_new(DF_STR("multipart/form-data; boundary=b"), handler, &m, &err),
                     DF_OK);
    assert_int_equal(df_multipart_feed(m, DF_STR("--b\r\n" CD "\r\n\r\nx"), &err), DF_E_CONFLICT);
    assert_string_equal(err.detail, "enough");
    n.answer = DF_OK;
    assert_int_equal(df_multipart_feed(m, DF_STR("\r\n--b--"), NULL), DF_E_CONFLICT);
    assert_int_equal(df_multipart_finish(m, &err), DF_E_CONFLICT);
    df_multipart_free(m);
    df_multipart_free(NULL);
    df_buf_release(&n.buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_bodies_are_read_wherever_they_are_cut),
        cmocka_unit_test(content_types_that_will_not_do_are_refused),
        cmocka_unit_test(bad_bodies_are_refused_wherever_they_are_cut),
        cmocka_unit_test(limits_hold_to_the_byte),
        cmocka_unit_test(content_that_resembles_the_boundary_is_content),
        cmocka_unit_test(a_failure_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
