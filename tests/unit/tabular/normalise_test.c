/* The tables of docs/imports.md are the cases; tests run in the repository's directory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "memory.h"
#include "scratch.h"
#include "tabular/headers_map.h"
#include "tabular/normalise.h"

#include <stdio.h>
#include <stdlib.h>

#define PAGE "docs/imports.md"

static struct df_str page;

static int read_page(void **state)
{
    FILE *f = fopen(PAGE, "r");
    struct df_buf text;
    char part[4096];
    size_t len;
    (void)state;

    if (!f)
        return -1;
    df_buf_init(&text, 4 << 20);
    while ((len = fread(part, 1, sizeof(part), f)) > 0)
        df_buf_add(&text, part, len);
    fclose(f);
    page.ptr = df_buf_take(&text, &page.len);
    return 0;
}

/* What stands under a heading of the second level. */
static struct df_str section(const char *title)
{
    char heading[64];
    snprintf(heading, sizeof(heading), "\n## %s\n", title);
    const char *from = strstr(page.ptr, heading);
    assert_non_null(from);
    from += strlen(heading);
    const char *end = strstr(from, "\n## ");
    return end ? df_str_n(from, (size_t)(end - from)) : df_str_c(from);
}

static bool next_line(struct df_str *text, struct df_str *ret)
{
    if (!text->ptr)
        return false;
    *text = df_str_cut(*text, '\n', ret);
    return true;
}

/* "| a | b |" but neither a head nor a rule. A bar in a cell is written with a backslash. */
static bool table_row(struct df_str line, struct df_str *ret_left, struct df_str *ret_right)
{
    if (!df_str_starts(line, DF_STR("| ")) || df_str_starts(line, DF_STR("| ---")))
        return false;
    for (size_t i = 2; i < line.len; i++) {
        if (line.ptr[i] != '|' || line.ptr[i - 1] == '\\')
            continue;
        *ret_left = df_str_n(line.ptr + 2, i - 3);
        *ret_right = df_str_trim(df_str_n(line.ptr + i + 1, line.len - i - 2));
        return true;
    }
    return false;
}

/* The content of `code` with \uXXXX and \| as characters; what is no code is nothing. */
static struct df_str code_text(struct df_str cell, char *out)
{
    size_t len = 0;

    if (cell.len < 2 || cell.ptr[0] != '`')
        return df_str_n(out, 0);
    for (size_t i = 1; i + 1 < cell.len; i++) {
        unsigned c;
        if (cell.ptr[i] == '\\' && cell.ptr[i + 1] == '|')
            continue;
        if (cell.ptr[i] != '\\' || sscanf(cell.ptr + i, "\\u%4x", &c) != 1) {
            out[len++] = cell.ptr[i];
            continue;
        }
        i += 5;
        if (c >= 0x800)
            out[len++] = (char)(0xE0 | c >> 12);
        if (c >= 0x80)
            out[len++] = (char)(c >= 0x800 ? 0x80 | (c >> 6 & 0x3F) : 0xC0 | c >> 6);
        out[len++] = (char)(c >= 0x80 ? 0x80 | (c & 0x3F) : c);
    }
    return df_str_n(out, len);
}

static void test_the_phones_of_the_page(void **state)
{
    struct df_str text = section("Phones"), line, left, right;
    size_t rows = 0;
    bool tables = false; /* the first one is of something else */
    (void)state;

    while (next_line(&text, &line)) {
        char in[256], want[32], out[17];
        const char *why = NULL;
        tables = tables || df_str_starts(line, DF_STR("### "));
        if (!tables || !table_row(line, &left, &right) || df_str_eq(left, DF_STR("in the file")))
            continue;
        assert_true(left.len < sizeof(in) && right.len < 120);
        struct df_str phone = code_text(left, in);
        struct df_str number = right.ptr[0] == '`' ? code_text(right, want) : DF_STR_NULL;
        struct df_str got;
        if (df_phone_normalise(phone, out, &why))
            got = df_str_c(out);
        else
            got = df_str_c(why);
        if (!df_str_eq(got, number.ptr ? number : right))
            fail_msg("%.*s: got %.*s, want %.*s", DF_STR_ARG(left), DF_STR_ARG(got),
                     DF_STR_ARG(right));
        rows++;
    }
    assert_true(rows >= 150);
}

static void check_header(struct df_str cell, const char *want)
{
    char name[128];
    bool exact;
    assert_true(cell.len < sizeof(name));
    enum df_header got = df_header_find(code_text(cell, name), &exact);
    const char *is = got == DF_HEADER_OTHER ? "" : df_header_name(got);
    if (strcmp(is, want) != 0)
        fail_msg("%.*s: got %s, want %s", DF_STR_ARG(cell), is, want);
}

/* The `a`, `b` of a cell, each of which means want. Marks those of the known names it comes to. */
static size_t check_list(struct df_str list, const char *want, bool *said)
{
    size_t count = 0;

    while (list.ptr) {
        struct df_str one;
        char name[128];
        list = df_str_cut(list, ',', &one);
        one = df_str_trim(one);
        check_header(one, want);
        struct df_str text = code_text(one, name);
        size_t len = df_header_fold(text, name);
        for (size_t i = 0; i < df_known_header_count; i++)
            said[i] = said[i] || df_str_eq(df_str_c(df_known_headers[i].name), df_str_n(name, len));
        count++;
    }
    return count;
}

static void test_the_names_of_the_page(void **state)
{
    struct df_str text = section("Column names"), line, left, right;
    bool said[512] = {false}, spellings = false;
    size_t names = 0;
    (void)state;

    while (next_line(&text, &line)) {
        char want[64] = "";
        spellings = spellings || df_str_starts(line, DF_STR("| name |"));
        if (!table_row(line, &left, &right) || left.ptr[0] != '`')
            continue;
        struct df_str canonical = spellings ? right : left;
        assert_true(canonical.len < sizeof(want));
        want[code_text(canonical, want).len] = '\0';
        if (spellings) {
            check_header(left, want);
            names++;
        } else {
            names += check_list(left, want, said) + check_list(right, want, said);
        }
    }
    assert_true(names >= 80);
    for (size_t i = 0; i < df_known_header_count; i++)
        if (!said[i])
            fail_msg("%s is known as %s, but the page does not say so", df_known_headers[i].name,
                     df_header_name(df_known_headers[i].header));
}

struct seen_item {
    enum df_item_verdict verdict;
    struct df_str reason;
};

static struct df_normaliser *normaliser(const char *origin)
{
    return df_normaliser_new(&(struct df_normalise_options){.origin_default = df_str_c(origin),
                                                            .temp_dir = scratch_dir()});
}

static struct df_str verdict_text(struct seen_item item, char out[256])
{
    static const char *const words[] = {"sent", "Error: ", "Skipped: "};
    int len = snprintf(out, 256, "%s%.*s", words[item.verdict],
                       item.verdict == DF_ITEM_SEND ? 0 : (int)item.reason.len, item.reason.ptr);
    return df_str_n(out, (size_t)len);
}

static struct seen_item normalise(struct df_normaliser *n, const struct df_record *record,
                                  int64_t sequence, struct df_buf *out)
{
    struct seen_item item;
    struct df_err err = DF_ERR_INIT;
    df_buf_reset(out);
    assert_int_equal(df_normalise(n, record, sequence, out, &item.verdict, &item.reason, &err),
                     DF_OK);
    return item;
}

/* The block under the last section: a record, and below it, indented, what became of it. */
static void test_the_records_of_the_page(void **state)
{
    const char *begin = strstr(section("What becomes of a record").ptr, "```text\n");
    const char *end = begin ? strstr(begin + 8, "```") : NULL;
    struct df_normaliser *n = normaliser("LandingPageX");
    struct df_buf file, out;
    (void)state;

    assert_non_null(end);
    df_buf_init(&file, 1 << 20);
    df_buf_init(&out, 1 << 20);
    struct df_str text = df_str_n(begin + 8, (size_t)(end - begin - 8)), line;
    while (next_line(&text, &line))
        if (line.len > 0 && line.ptr[0] == '{') {
            df_buf_adds(&file, line);
            df_buf_addc(&file, '\n');
        }
    struct memory_file m = {.bytes = df_buf_str(&file), .step = 1000};
    struct df_bytes bytes = memory_bytes(&m);
    struct df_err err = DF_ERR_INIT;
    struct df_records *r;
    struct df_record record;
    int64_t count = 0;
    assert_int_equal(df_json_records_open(&bytes, NULL, &r, &err), DF_OK);
    text = df_str_n(begin + 8, (size_t)(end - begin - 8));
    while (r->ops->next(r, &record, &err) == DF_ROW) {
        struct df_str head, verdict, want;
        char words[256];
        assert_true(next_line(&text, &head) && next_line(&text, &verdict) &&
                    next_line(&text, &want));
        struct seen_item item = normalise(n, &record, count++, &out);
        if (!df_str_eq(df_str_trim(verdict), verdict_text(item, words)))
            fail_msg("%.*s: got %s", DF_STR_ARG(head), words);
        if (!df_str_eq(df_str_trim(want), df_buf_str(&out)))
            fail_msg("%.*s\n got %s", DF_STR_ARG(head), out.ptr);
    }
    assert_true(count >= 25);
    r->ops->free(r);
    df_normaliser_free(n);
    df_buf_release(&file);
    df_buf_release(&out);
}

static struct df_field text_field(const char *name, const char *text)
{
    return (struct df_field){df_str_c(name), DF_FIELD_TEXT, df_str_c(text)};
}

static void test_without_a_default_the_origin_is_null(void **state)
{
    struct df_field fields[] = {text_field("Telefone", "11 91234-5678")};
    struct df_normaliser *n = normaliser(NULL);
    struct df_buf out;
    (void)state;

    df_buf_init(&out, 1 << 20);
    normalise(n, &(struct df_record){.fields = fields, .count = 1}, 7, &out);
    assert_string_equal(out.ptr,
                        "{\"sequence\":7,\"PhoneNumber\":\"+5511912345678\",\"Origin\":null,"
                        "\"PropertyContextJson\":null,\"LeadContextJson\":null}");
    df_normaliser_free(n);
    df_buf_release(&out);
}

static void test_a_long_origin_is_an_error(void **state)
{
    char origin[402] = "";
    struct df_field fields[] = {text_field("Telefone", "11 91234-5678"),
                                text_field("Origem", origin)};
    struct df_normaliser *n = normaliser(NULL);
    struct df_buf out;
    (void)state;

    df_buf_init(&out, 1 << 20);
    for (size_t i = 0; i < 200; i++)
        memcpy(origin + 2 * i, "é", 3);
    fields[1].text = df_str_c(origin);
    assert_int_equal(
        normalise(n, &(struct df_record){.fields = fields, .count = 2}, 0, &out).verdict,
        DF_ITEM_SEND);
    memcpy(origin + 400, "x", 2);
    fields[1].text = df_str_c(origin);
    struct seen_item item =
        normalise(n, &(struct df_record){.fields = fields, .count = 2}, 0, &out);
    assert_int_equal(item.verdict, DF_ITEM_ERROR);
    assert_true(df_str_eq(item.reason, DF_STR("Origin: longer than 200 characters")));
    df_normaliser_free(n);
    df_buf_release(&out);
}

/* One MiB and a byte, by every way that an item can grow. */
static void test_an_item_over_its_limit_is_kept_without_content(void **state)
{
    static const size_t sizes[] = {1 << 20, 3 << 20, 200000};
    static const char fill[] = {'x', 'x', '\001'};
    struct df_normaliser *n = normaliser("LP");
    struct df_buf out;
    (void)state;

    df_buf_init(&out, 1 << 20);
    for (size_t i = 0; i < 3; i++) {
        char *text = malloc(sizes[i] + 1);
        assert_non_null(text);
        memset(text, fill[i], sizes[i]);
        text[0] = text[sizes[i] - 1] = 'x';
        text[sizes[i]] = '\0';
        struct df_field fields[] = {text_field("Telefone", "11 91234-5678"), text_field("a", text)};
        struct seen_item item =
            normalise(n, &(struct df_record){.fields = fields, .count = 2}, 3, &out);
        assert_int_equal(item.verdict, DF_ITEM_ERROR);
        assert_true(df_str_eq(item.reason, DF_STR("the item would be larger than 1 MiB")));
        assert_string_equal(out.ptr, "{\"sequence\":3,\"PhoneNumber\":null,\"Origin\":null,"
                                     "\"PropertyContextJson\":null,\"LeadContextJson\":null}");
        free(text);
    }
    df_normaliser_free(n);
    df_buf_release(&out);
}

/* The request around an item must not be nested deeper than what a receiver takes. */
static void test_values_nested_too_deeply(void **state)
{
    struct df_normaliser *n = normaliser("LP");
    struct df_buf out;
    char json[200];
    (void)state;

    df_buf_init(&out, 1 << 20);
    for (size_t depth = 60; depth <= 61; depth++) {
        for (size_t i = 0; i < depth; i++) {
            json[i] = '[';
            json[2 * depth - 1 - i] = ']';
        }
        json[2 * depth] = '\0';
        struct df_field fields[] = {text_field("fone", "11 91234-5678"), text_field("a", json)};
        fields[1].kind = DF_FIELD_JSON;
        struct seen_item item =
            normalise(n, &(struct df_record){.fields = fields, .count = 2}, 0, &out);
        assert_int_equal(item.verdict, depth == 60 ? DF_ITEM_SEND : DF_ITEM_ERROR);
        if (depth == 61)
            assert_true(df_str_eq(item.reason, DF_STR("a value is nested more than 60 deep")));
    }
    df_normaliser_free(n);
    df_buf_release(&out);
}

/* A file whose names never repeat must not be remembered whole, nor may what is forgotten be used.
 */
static void test_names_without_end(void **state)
{
    struct df_normaliser *n = normaliser("LP");
    struct df_buf out;
    (void)state;

    df_buf_init(&out, 1 << 20);
    for (int i = 0; i < 30000; i++) {
        char name[32], want[200];
        snprintf(name, sizeof(name), "n%d", i);
        struct df_field fields[] = {text_field("fone", "11 91234-5678"), text_field(name, "v")};
        assert_int_equal(
            normalise(n, &(struct df_record){.fields = fields, .count = 2}, i, &out).verdict,
            DF_ITEM_SEND);
        snprintf(want, sizeof(want), "\"LeadContextJson\":{\"n%d\":\"v\"}}", i);
        assert_true(df_str_ends(df_buf_str(&out), df_str_c(want)));
    }
    df_normaliser_free(n);
    df_buf_release(&out);
}

static void test_what_is_empty(void **state)
{
    const struct df_field empty[] = {text_field("a", ""),
                                     text_field("b", " \t\xC2\xA0"),
                                     {DF_STR_INIT("c"), DF_FIELD_NULL, DF_STR_INIT("null")}};
    const struct df_field some[] = {text_field("a", " "),
                                    text_field("b", " 0"),
                                    {DF_STR_INIT("c"), DF_FIELD_BOOL, DF_STR_INIT("false")},
                                    {DF_STR_INIT("d"), DF_FIELD_JSON, DF_STR_INIT("{}")}};
    (void)state;

    assert_true(df_record_is_empty(&(struct df_record){0}));
    assert_true(df_record_is_empty(&(struct df_record){.fields = empty, .count = 3}));
    assert_true(df_record_is_empty(&(struct df_record){.fields = some, .count = 1}));
    for (size_t i = 1; i < 4; i++)
        assert_false(df_record_is_empty(&(struct df_record){.fields = some + i, .count = 1}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_phones_of_the_page),
        cmocka_unit_test(test_the_names_of_the_page),
        cmocka_unit_test(test_the_records_of_the_page),
        cmocka_unit_test(test_without_a_default_the_origin_is_null),
        cmocka_unit_test(test_a_long_origin_is_an_error),
        cmocka_unit_test(test_an_item_over_its_limit_is_kept_without_content),
        cmocka_unit_test(test_what_is_empty),
        cmocka_unit_test(test_values_nested_too_deeply),
        cmocka_unit_test(test_names_without_end),
    };
    int failed = cmocka_run_group_tests(tests, read_page, NULL);
    union {
        const char *borrowed;
        char *ours;
    } text = {page.ptr};
    free(text.ours);
    return failed;
}
