/*
 * What goes to SQL Server: the URL (from an operator), and values as JSON and UTF-16 (from
 * anybody). The input is taken for each of them in turn.
 */
#include "base/utf16.h"
#include "store/odbc_private.h"

#include <stdlib.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            abort();                                                                               \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever the URL says, the string has the settings that we rely on, each once. */
static void try_url(struct df_str input)
{
    struct df_arena arena = {0};
    struct df_buf out;
    struct df_err err = DF_ERR_INIT;
    const char *url = df_arena_printf(&arena, "sqlserver://" DF_STR_FMT, DF_STR_ARG(input)).ptr;

    df_buf_init(&out, 8192);
    char server[DF_DB_SERVER_MAX];
    bool partner = input.len % 2;
    enum df_code code =
        df_odbc_connection_string(url, partner ? ODBC_PARTNER : ODBC_FIRST, &out, server, &err);
    if (code == DF_OK) {
        df_buf_addc(&out, '\0');
        CHECK(!df_buf_failed(&out));
        CHECK(strncmp(out.ptr, "DRIVER=", 7) == 0);
        const char *tail = strstr(out.ptr, "TextSize=2147483647;ClientCharset=UTF-8;");
        CHECK(tail);
        CHECK(!strpbrk(out.ptr, "\r\n"));
    } else if (!partner || code != DF_E_NOT_FOUND) {
        CHECK(code == DF_E_CONFIG && err.code == DF_E_CONFIG && err.detail[0]);
    }
    df_buf_release(&out);
    df_arena_release(&arena);
}

static void try_utf16(struct df_str text)
{
    uint16_t *units = malloc((text.len + 1) * sizeof(*units));
    char *back = malloc(text.len * DF_UTF8_PER_UTF16 + 1);
    CHECK(units && back);
    size_t count = df_utf16_from_utf8(text, units);
    CHECK(count == df_utf8_count(text));
    CHECK(df_str_eq(df_str_n(back, df_utf16_to_utf8(units, count, back)), text));
    free(units);
    free(back);
}

/* Any units at all become valid UTF-8. */
static void try_units(const uint8_t *data, size_t size)
{
    size_t count = size / 2;
    uint16_t *units = malloc(count * sizeof(*units) + 1);
    char *text = malloc(count * DF_UTF8_PER_UTF16 + 1);
    CHECK(units && text);
    memcpy(units, data, count * sizeof(*units));
    size_t len = df_utf16_to_utf8(units, count, text);
    CHECK(df_utf8_valid_prefix(df_str_n(text, len)) == len);
    free(units);
    free(text);
}

static void try_bulk(enum odbc_bulk bulk, struct df_str text)
{
    static const struct df_query q = {
        .name = "q",
        .param_count = 2,
        .text = {[DF_SQLSERVER] = {.sql = "INSERT INTO T (A, B) VALUES (?, ?)"}},
    };
    const struct df_value row[2] = {df_int(1), df_text(text)};
    struct odbc_param shape[2] = {0};
    struct df_buf out;

    if (!df_odbc_bulk_fits(bulk, &q, row, 1))
        return;
    df_buf_init(&out, 1 << 24);
    df_odbc_bulk_shape(bulk, &q, row, 1, shape);
    df_odbc_bulk_text(&q, shape, &out);
    df_buf_reset(&out);
    CHECK(df_odbc_bulk_json(bulk, &q, row, 1, 100, &out) == 1);
    struct df_str json = df_buf_str(&out);
    /* One string, which no byte of the text ends before its time; nothing escaped when the server
     * would not take it back. */
    size_t quotes = 0;
    for (size_t i = 0; i < json.len; i++) {
        CHECK((unsigned char)json.ptr[i] >= 0x20);
        CHECK(bulk != ODBC_BULK_RAW || json.ptr[i] != '\\');
        if (json.ptr[i] == '\\')
            i++;
        else
            quotes += json.ptr[i] == '"';
    }
    CHECK(quotes == 2);
    df_buf_release(&out);
}

/* As if it were the text of a query: whatever is taken for a plain INSERT can be rewritten. */
static void try_query(struct df_str sql)
{
    struct df_arena arena = {0};
    struct df_query q = {.name = "q", .param_count = 250};
    struct df_value row[250];
    static struct odbc_param shape[250];
    struct df_buf out;
    size_t markers = 0;

    for (size_t i = 0; i < sql.len; i++)
        markers += sql.ptr[i] == '?';
    if (markers > 250)
        return;
    for (size_t i = 0; i < 250; i++)
        row[i] = df_int(1);
    q.text[DF_SQLSERVER].sql = df_arena_cstr(&arena, sql);
    if (df_odbc_bulk_fits(ODBC_BULK_FULL, &q, row, 1)) {
        df_buf_init(&out, 1 << 24);
        df_odbc_bulk_text(&q, shape, &out);
        CHECK(!df_buf_failed(&out));
        df_buf_release(&out);
    }
    df_arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct df_str input = df_str_n((const char *)data, size);

    try_units(data, size);
    if (size > 0 && memchr(data, '\0', size))
        return 0;
    try_url(input);
    try_query(input);
    if (df_utf8_valid_prefix(input) == size) {
        try_utf16(input);
        try_bulk(ODBC_BULK_FULL, input);
        try_bulk(ODBC_BULK_RAW, input);
    }
    return 0;
}
