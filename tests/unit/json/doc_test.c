#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "json/doc.h"

#include <stdio.h>
#include <stdlib.h>

static const struct df_json *parsed(struct df_arena *a, const char *text)
{
    const struct df_json *doc = NULL;
    struct df_err err = DF_ERR_INIT;

    if (df_json_parse(a, df_str_c(text), &doc, &err) != DF_OK)
        fail_msg("%s: %s", text, err.detail);
    return doc;
}

static void assert_str(struct df_str got, const char *want)
{
    if (!df_str_eq(got, df_str_c(want)))
        fail_msg("\"" DF_STR_FMT "\" instead of \"%s\"", DF_STR_ARG(got), want);
}

static void a_tree_holds_children_in_order(void **state)
{
    struct df_arena a = {0};
    const struct df_json *doc = parsed(
        &a, " {\"n\": -1.50, \"s\\u0021\": \"a\\tb\", \"list\": [true, [], null, {\"x\":false}]} ");

    (void)state;
    assert_int_equal(doc->type, DF_JSON_OBJECT);
    assert_int_equal(df_json_count(doc), 3);
    assert_null(doc->key.ptr);

    struct df_json_each each = df_json_each(doc);
    const struct df_json *v = df_json_next(&each);
    assert_int_equal(v->type, DF_JSON_NUMBER);
    assert_str(v->key, "n");
    assert_str(v->text, "-1.50");
    assert_str(v->raw, "-1.50");

    v = df_json_next(&each);
    assert_int_equal(v->type, DF_JSON_STRING);
    assert_str(v->key, "s!");
    assert_str(v->text, "a\tb");
    assert_str(v->raw, "\"a\\tb\"");

    const struct df_json list = *df_json_next(&each);
    assert_int_equal(list.type, DF_JSON_ARRAY);
    assert_int_equal(df_json_count(&list), 4);
    assert_str(list.raw, "[true, [], null, {\"x\":false}]");
    assert_null(df_json_next(&each));
    assert_null(df_json_next(&each));

    each = df_json_each(&list);
    v = df_json_next(&each);
    assert_true(v->type == DF_JSON_BOOL && v->boolean);
    assert_null(v->key.ptr);
    v = df_json_next(&each);
    assert_true(v->type == DF_JSON_ARRAY && df_json_count(v) == 0);
    v = df_json_next(&each);
    assert_int_equal(v->type, DF_JSON_NULL);
    assert_str(v->raw, "null");
    v = df_json_next(&each);
    assert_int_equal(v->type, DF_JSON_OBJECT);
    assert_str(v->raw, "{\"x\":false}");
    assert_true(df_json_get(v, "x")->type == DF_JSON_BOOL && !df_json_get(v, "x")->boolean);
    assert_null(df_json_next(&each));
    df_arena_release(&a);
}

static void a_scalar_is_a_document_too(void **state)
{
    struct df_arena a = {0};

    (void)state;
    assert_int_equal(parsed(&a, "null")->type, DF_JSON_NULL);
    assert_str(parsed(&a, " 12 ")->text, "12");
    assert_str(parsed(&a, "\"\"")->text, "");
    assert_non_null(parsed(&a, "\"\"")->text.ptr);
    df_arena_release(&a);
}

static void nothing_is_given_for_what_is_refused(void **state)
{
    static const char *const bad[] = {"",    "{", "[1,]", "{\"a\":1,\"a\":2}", "[\"\\u0000\"]",
                                      "{}{}"};
    struct df_arena a = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const struct df_json *doc = NULL;
        assert_int_not_equal(df_json_parse(&a, df_str_c(bad[i]), &doc, NULL), DF_OK);
        assert_null(doc);
    }
    df_arena_release(&a);
}

static void members_are_found_by_name_and_exactly_if_possible(void **state)
{
    struct df_arena a = {0};
    const struct df_json *doc = parsed(&a, "{\"BusinessDocID\":1,\"businessDocId\":2,\"x\":[]}");

    (void)state;
    assert_str(df_json_get(doc, "businessDocId")->text, "2");
    assert_str(df_json_get(doc, "BusinessDocID")->text, "1");
    assert_str(df_json_get(doc, "businessdocid")->text, "1");
    assert_null(df_json_get(doc, "businessDoc"));
    assert_null(df_json_get(doc, ""));
    assert_null(df_json_get(df_json_get(doc, "x"), "y"));
    assert_null(df_json_get(NULL, "x"));
    df_arena_release(&a);
}

static void booleans_are_read_from_what_callers_send(void **state)
{
    static const struct {
        const char *json;
        int want; /* -1: not one */
    } table[] = {
        {"true", 1},       {"false", 0}, {"\"true\"", 1}, {"\"False\"", 0}, {"\" true \"", 1},
        {"1", 1},          {"0", 0},     {"\"1\"", 1},    {"\"0\"", 0},     {"2", -1},
        {"\"maybe\"", -1}, {"\"\"", -1}, {"null", -1},    {"[]", -1},       {"{}", -1},
    };
    struct df_arena a = {0};
    bool b;

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        bool ok = df_json_to_bool(parsed(&a, table[i].json), &b);
        if (ok != (table[i].want >= 0) || (ok && b != (table[i].want == 1)))
            fail_msg("%s", table[i].json);
    }
    assert_false(df_json_to_bool(NULL, &b));
    df_arena_release(&a);
}

static void whole_numbers_are_read_from_what_callers_send(void **state)
{
    static const struct {
        const char *json;
        bool ok;
        int64_t want;
    } table[] = {
        {"15", true, 15},
        {"\"15\"", true, 15},
        {"\" -15 \"", true, -15},
        {"\"007\"", true, 7},
        {"15.0", true, 15},
        {"1.5e1", true, 15},
        {"-0", true, 0},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"1e30", false, 0},
        {"15.5", false, 0},
        {"\"15,5\"", false, 0},
        {"\"0x10\"", false, 0},
        {"\"\"", false, 0},
        {"\"+5\"", false, 0},
        {"\"1 5\"", false, 0},
        {"true", false, 0},
        {"null", false, 0},
        {"[1]", false, 0},
    };
    struct df_arena a = {0};
    int64_t n;

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        bool ok = df_json_to_i64(parsed(&a, table[i].json), &n);
        if (ok != table[i].ok || (ok && n != table[i].want))
            fail_msg("%s: %d %lld", table[i].json, ok, (long long)n);
    }
    assert_false(df_json_to_i64(NULL, &n));
    df_arena_release(&a);
}

static void numbers_are_read_from_what_callers_send(void **state)
{
    static const struct {
        const char *json;
        bool ok;
        double want;
    } table[] = {
        {"1.25", true, 1.25},  {"\"1.25\"", true, 1.25}, {"-1e-2", true, -0.01},
        {"\" 3 \"", true, 3},  {"1e400", false, 0},      {"\"nan\"", false, 0},
        {"\"inf\"", false, 0}, {"\"0x1p3\"", false, 0},  {"\"1.2.3\"", false, 0},
        {"\"1,2\"", false, 0}, {"\"\"", false, 0},       {"\"-\"", false, 0},
        {"\".5\"", false, 0},  {"\"1e\"", false, 0},     {"false", false, 0},
        {"null", false, 0},
    };
    struct df_arena a = {0};
    double d;

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        bool ok = df_json_to_double(parsed(&a, table[i].json), &d);
        if (ok != table[i].ok || (ok && d != table[i].want))
            fail_msg("%s: %d %g", table[i].json, ok, d);
    }
    assert_false(df_json_to_double(NULL, &d));
    df_arena_release(&a);
}

static void a_number_of_any_length_does_no_harm(void **state)
{
    struct df_arena a = {0};
    char text[2000];
    double d;
    int64_t n;

    (void)state;
    memset(text, '7', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    const struct df_json *v = parsed(&a, text);
    assert_int_equal(v->text.len, sizeof(text) - 1);
    assert_false(df_json_to_double(v, &d));
    assert_false(df_json_to_i64(v, &n));
    df_arena_release(&a);
}

/* [0,0,0,...]: no other document has more values for its bytes. */
static char *zeros(size_t count, size_t *ret_len)
{
    char *text = malloc(count * 2 + 1);

    for (size_t i = 0; i < count; i++) {
        text[2 * i] = i ? ',' : '[';
        text[2 * i + 1] = '0';
    }
    text[count * 2] = ']';
    *ret_len = count * 2 + 1;
    return text;
}

/* Whatever stands in a document that nobody asks for. */
static void what_nobody_asks_for_takes_no_memory(void **state)
{
    struct df_arena a = {0};
    const struct df_json *doc;
    struct df_err err = DF_ERR_INIT;
    size_t len;
    char *text = zeros((size_t)4 << 20, &len);

    (void)state;
    assert_int_equal(df_json_parse(&a, df_str_n(text, len), &doc, &err), DF_OK);
    assert_int_equal(df_json_count(doc), (size_t)4 << 20);
    size_t n = 0;
    struct df_json_each each = df_json_each(doc);
    for (const struct df_json *v; (v = df_json_next(&each)); n++)
        assert_true(v->type == DF_JSON_NUMBER && v->raw.len == 1);
    assert_int_equal(n, (size_t)4 << 20);
    assert_true(a.used_bytes <= DF_JSON_DOC_BYTES);
    df_arena_release(&a);
    free(text);
}

/* Objects with more members, and more of them, than are remembered: each member is found. */
static void any_number_of_members_is_found_in_little_memory(void **state)
{
    enum { OBJECTS = 40, MEMBERS = 200 };
    struct df_arena a = {0};
    struct df_json object, v;
    char *text = malloc(OBJECTS * MEMBERS * 20);
    size_t len = 0;
    char name[16];

    (void)state;
    for (int o = 0; o < OBJECTS; o++) {
        text[len++] = o == 0 ? '{' : ',';
        len += (size_t)sprintf(text + len, "\"o%d\" : {", o);
        for (int m = 0; m < MEMBERS; m++)
            len += (size_t)sprintf(text + len, "%s\"%sM%d\": %d", m ? "," : "",
                                   m % 3 == 0 ? "\\u006D" : "m", m, o * MEMBERS + m);
        text[len++] = '}';
    }
    text[len++] = '}';
    text[len] = '\0';
    const struct df_json *doc = parsed(&a, text);
    for (int i = 0; i < OBJECTS * MEMBERS; i++) {
        int64_t got = -1;
        (void)snprintf(name, sizeof(name), "O%d", i / MEMBERS);
        assert_true(df_json_find(doc, name, &object));
        (void)snprintf(name, sizeof(name), "mm%d", i % MEMBERS);
        assert_true(df_json_find(&object, name, &v));
        assert_true(df_json_to_i64(&v, &got));
        assert_int_equal(got, i);
        assert_false(v.twice);
    }
    assert_false(df_json_find(&object, "mm200", &v));
    assert_int_equal(v.type, DF_JSON_NULL);
    /* Beside the document only the names that have escapes. */
    assert_true(a.used_bytes <= (size_t)DF_JSON_DOC_BYTES + OBJECTS * MEMBERS / 3 * 16 + 16);
    df_arena_release(&a);
    free(text);
}

static void a_name_in_two_spellings_is_told(void **state)
{
    struct df_arena a = {0};
    const struct df_json *doc = parsed(&a, "{\"Name\":1,\"n\\u0061me\":2,\"other\":3,\"na\":4}");

    (void)state;
    assert_true(df_json_get(doc, "name")->twice);
    assert_str(df_json_get(doc, "name")->text, "2");
    assert_str(df_json_get(doc, "NAME")->text, "1");
    assert_str(df_json_get(doc, "Name")->key, "Name");
    assert_str(df_json_get(doc, "name")->key, "name");
    assert_false(df_json_get(doc, "other")->twice);
    df_arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_holds_children_in_order),
        cmocka_unit_test(a_scalar_is_a_document_too),
        cmocka_unit_test(nothing_is_given_for_what_is_refused),
        cmocka_unit_test(members_are_found_by_name_and_exactly_if_possible),
        cmocka_unit_test(booleans_are_read_from_what_callers_send),
        cmocka_unit_test(whole_numbers_are_read_from_what_callers_send),
        cmocka_unit_test(numbers_are_read_from_what_callers_send),
        cmocka_unit_test(a_number_of_any_length_does_no_harm),
        cmocka_unit_test(what_nobody_asks_for_takes_no_memory),
        cmocka_unit_test(any_number_of_members_is_found_in_little_memory),
        cmocka_unit_test(a_name_in_two_spellings_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
