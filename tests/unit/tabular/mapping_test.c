/* The mapping of columns: what is taken, what is told, and where paths lead. */
#include "tabular/mapping.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

struct notes {
    size_t count;
    char last[64];
};

static void note(void *arg, struct df_str name, const char *what)
{
    struct notes *n = arg;

    n->count++;
    (void)snprintf(n->last, sizeof n->last, DF_STR_FMT, DF_STR_ARG(name));
    assert_true(what[0] != '\0');
}

static struct df_mapping *read_text(struct df_arena *a, const char *text, struct notes *n)
{
    struct df_err err = DF_ERR_INIT;
    const struct df_json *object;

    assert_int_equal(df_json_parse(a, df_str_c(text), &object, &err), DF_OK);
    return df_mapping_read(a, object, (struct df_mapping_problems){note, n});
}

static struct df_mapping *mapping_of(struct df_arena *a, const char *text)
{
    struct notes n = {0};
    struct df_mapping *m = read_text(a, text, &n);

    assert_non_null(m);
    assert_int_equal(n.count, 0);
    return m;
}

static void columns_are_found_in_any_spelling(void **state)
{
    struct df_arena a = {0};
    struct df_mapping *m = mapping_of(
        &a, "{\"Fone do Cliente\":\"PhoneNumber\",\"a.b\":\"Name\",\"Cel.\":\"\",\"***\":null}");
    (void)state;

    assert_int_equal(df_mapping_find(m, DF_STR(" FONE_do-clienté "))->header, DF_HEADER_PHONE);
    assert_int_equal(df_mapping_find(m, DF_STR("A.B"))->header, DF_HEADER_NAME);
    assert_null(df_mapping_find(m, DF_STR("a b")));
    assert_int_equal(df_mapping_find(m, DF_STR("Cel."))->header, DF_HEADER_OTHER);
    assert_false(df_mapping_find(m, DF_STR("Cel."))->is_path);
    assert_non_null(df_mapping_find(m, DF_STR("***")));
    assert_null(df_mapping_find(m, DF_STR("")));
    assert_null(df_mapping_find(NULL, DF_STR("x")));
    df_arena_release(&a);
}

static void problems_are_all_told(void **state)
{
    static const struct {
        const char *text;
        size_t count;
        const char *last;
    } rows[] = {
        {"[]", 1, ""},
        {"{\"A\":\"Phone\",\"B\":1,\"C\":\"Name\"}", 2, "B"},
        {"{\"A\":\"Name\",\"B\":\"Name\"}", 1, "B"},
        {"{\"A\":\"Name\",\"a\":\"\"}", 1, "a"},
        {"{\"a.b\":\"Name\",\"A.B\":\"\"}", 1, "A.B"},
        {"{\" \":\"Name\"}", 1, " "},
    };
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct df_arena a = {0};
        struct notes n = {0};
        assert_null(read_text(&a, rows[i].text, &n));
        assert_int_equal(n.count, rows[i].count);
        assert_string_equal(n.last, rows[i].last);
        df_arena_release(&a);
    }
}

static void an_uploads_entries_hide_kept_ones(void **state)
{
    struct df_arena a = {0};
    struct df_mapping *upload = mapping_of(&a, "{\"X\":\"PhoneNumber\",\"Obs\":\"Message\"}");
    struct df_mapping *kept =
        mapping_of(&a, "{\"Y\":\"PhoneNumber\",\"OBS\":\"Notes\",\"Z\":\"Name\"}");
    struct df_mapping *both = df_mapping_join(&a, upload, kept);
    (void)state;

    assert_int_equal(both->count, 3);
    assert_null(df_mapping_find(both, DF_STR("Y")));
    assert_int_equal(df_mapping_find(both, DF_STR("obs"))->header, DF_HEADER_MESSAGE);
    assert_false(df_mapping_find(both, DF_STR("obs"))->kept);
    assert_true(df_mapping_find(both, DF_STR("z"))->kept);
    assert_null(df_mapping_join(&a, NULL, NULL));
    df_arena_release(&a);
}

static void paths_lead_into_values(void **state)
{
    static const char json[] = "{\"Phone\":\"a\\u0062\",\"list\":[1,{\"x\":true}],\"n\":null,"
                               "\"deep\":{\"er\":{\"z\":[2]}},\"e\\u0301\":3}";
    const struct df_field fields[] = {
        {DF_STR("other"), DF_FIELD_JSON, DF_STR("{\"phone\":9}")},
        {DF_STR("Contact"), DF_FIELD_JSON, df_str_n(json, sizeof json - 1)},
        {DF_STR("text"), DF_FIELD_TEXT, DF_STR("{\"a\":1}")},
        {DF_STR("hidden.path"), DF_FIELD_TEXT, DF_STR("x")},
        {DF_STR("hidden"), DF_FIELD_JSON, DF_STR("{\"path\":1}")},
    };
    static const struct {
        const char *path, *value; /* NULL: none */
        enum df_field_kind kind;
    } rows[] = {
        {"contact.phone", "ab", DF_FIELD_TEXT},
        {"CONTACT . PHONE", "ab", DF_FIELD_TEXT},
        {"contact.list.0", "1", DF_FIELD_NUMBER},
        {"contact.list.1.x", "true", DF_FIELD_BOOL},
        {"contact.list.1", "{\"x\":true}", DF_FIELD_JSON},
        {"contact.deep.er", "{\"z\":[2]}", DF_FIELD_JSON},
        {"contact.e", "3", DF_FIELD_NUMBER},
        {"contact.n", NULL, DF_FIELD_NULL},
        {"contact.list.2", NULL, DF_FIELD_NULL},
        {"contact.list.x", NULL, DF_FIELD_NULL},
        {"contact.list.9999999", NULL, DF_FIELD_NULL},
        {"contact.phone.x", NULL, DF_FIELD_NULL},
        {"contact.nothing", NULL, DF_FIELD_NULL},
        {"nobody.phone", NULL, DF_FIELD_NULL},
        {"text.a", NULL, DF_FIELD_NULL},
        {"hidden.path", NULL, DF_FIELD_NULL},
    };
    const struct df_record record = {.fields = fields, .count = 5};
    (void)state;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct df_arena a = {0};
        struct df_field found = {.kind = DF_FIELD_NULL};
        char text[80];
        (void)snprintf(text, sizeof text, "{\"%s\":\"Name\"}", rows[i].path);
        struct df_mapping *m = mapping_of(&a, text);
        assert_int_equal(df_mapping_value(&m->entries[0], &record, &a, &found),
                         rows[i].value != NULL);
        if (rows[i].value) {
            assert_int_equal(found.kind, rows[i].kind);
            assert_true(df_str_eq(found.text, df_str_c(rows[i].value)));
        }
        df_arena_release(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_found_in_any_spelling),
        cmocka_unit_test(problems_are_all_told),
        cmocka_unit_test(an_uploads_entries_hide_kept_ones),
        cmocka_unit_test(paths_lead_into_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
