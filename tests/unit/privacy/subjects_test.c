#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "keys/keys.h"
#include "keys_from.h"
#include "privacy/subjects.h"

#include <stdio.h>
#include <string.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static const unsigned char key[DF_KEY_BYTES] = {7}, other_key[DF_KEY_BYTES] = {8};
static struct df_keys *keys;

static int setup(void **state)
{
    (void)state;
    keys = df_keys_from(df_clock_real(), key);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    df_keys_free(keys);
    return 0;
}

static struct df_subject person(enum df_subject_kind kind, const char *text)
{
    struct df_err err = DF_ERR_INIT;
    struct df_subject s;

    if (df_subject_parse(keys, kind, df_str_c(text), &s, &err) != DF_OK)
        fail_msg("%s: %s", text, err.detail);
    return s;
}

static bool same(const struct df_subject *a, const struct df_subject *b)
{
    return a->kind == b->kind && memcmp(a->hash, b->hash, sizeof a->hash) == 0;
}

#define PHONE    DF_SUBJECT_PHONE
#define DOCUMENT DF_SUBJECT_DOCUMENT
#define EMAIL    DF_SUBJECT_EMAIL

static void one_person_in_every_spelling_has_one_hash(void **state)
{
    static const struct {
        enum df_subject_kind kind;
        const char *one, *other;
    } table[] = {
        {PHONE, "+5511987654321", "(11) 98765-4321"},
        {PHONE, "+5511987654321", "11987654321"},
        {PHONE, "+5511987654321", "0055 11 98765 4321"},
        {PHONE, "+14155552671", "+1 (415) 555-2671"},
        {DOCUMENT, "52998224725", "529.982.247-25"},
        {DOCUMENT, "52998224725", " 529982247 25 "},
        {DOCUMENT, "01234567890", "1234567890"},
        {DOCUMENT, "12ABC34501DE35", "12.abc.345/01de-35"},
        {DOCUMENT, "11222333000181", "11.222.333/0001-81"},
        {EMAIL, "ana@example.com", "Ana@Example.COM"},
    };

    (void)state;
    for (size_t i = 0; i < LEN(table); i++) {
        struct df_subject a = person(table[i].kind, table[i].one);
        struct df_subject b = person(table[i].kind, table[i].other);
        if (!same(&a, &b))
            fail_msg("%s and %s differ", table[i].one, table[i].other);
    }
}

static void what_is_nobody_is_refused(void **state)
{
    static const struct {
        enum df_subject_kind kind;
        const char *text;
    } table[] = {
        {PHONE, ""},
        {PHONE, "98765-4321"},
        {PHONE, "+5500987654321"},
        {PHONE, "ana@example.com"},
        {PHONE, "phone 11987654321"},
        {PHONE, "11987654321; 11987654322"},
        {PHONE, "+5511987654321, +5511987654322"},
        {DOCUMENT, ""},
        {DOCUMENT, "52998224724"},
        {DOCUMENT, "111.111.111-11"},
        {DOCUMENT, "12ABC34501DE36"},
        {DOCUMENT, "191"},
        {DOCUMENT, "529982247250"},
        {EMAIL, "ana"},
        {EMAIL, "@example.com"},
        {EMAIL, "ana@"},
        {EMAIL, ""},
    };

    (void)state;
    for (size_t i = 0; i < LEN(table); i++) {
        struct df_err err = DF_ERR_INIT;
        struct df_subject s;
        if (df_subject_parse(keys, table[i].kind, df_str_c(table[i].text), &s, &err) !=
            DF_E_VALIDATION)
            fail_msg("\"%s\" is a %s", table[i].text, df_subject_kind_name(table[i].kind));
        assert_true(err.detail[0] != '\0');
        if (table[i].text[0])
            assert_null(strstr(err.detail, table[i].text)); /* the reason does not quote it */
    }
}

static void kinds_and_keys_are_apart(void **state)
{
    struct df_subject phone = person(PHONE, "11987654321"), again = phone;
    struct df_err err = DF_ERR_INIT;
    struct df_keys *other = df_keys_from(df_clock_real(), other_key);
    char hex[DF_SUBJECT_HEX];

    (void)state;
    assert_int_equal(df_subject_parse(other, PHONE, DF_STR("11987654321"), &again, &err), DF_OK);
    assert_false(same(&phone, &again));
    df_subject_hex(&phone, hex);
    assert_int_equal(strlen(hex), 2 * DF_SUBJECT_BYTES);
    assert_null(strstr(hex, "987654321"));
    df_keys_free(other);
}

/* --- documents --- */

static void found_in(const char *json, enum df_subject_kind kind, const char *who)
{
    struct df_subject found[DF_SUBJECTS_MAX], want;
    size_t n = df_subjects_of(keys, df_str_c(json), found, LEN(found));

    if (!who) {
        if (n != 0)
            fail_msg("%s names somebody", json);
        return;
    }
    want = person(kind, who);
    if (n != 1 || !same(&found[0], &want))
        fail_msg("%s: %zu people, not (only) %s", json, n, who);
}

static void people_are_recognised(void **state)
{
    static const struct {
        const char *json;
        enum df_subject_kind kind;
        const char *who; /* NULL: nobody */
    } table[] = {
        /* names, in both languages, in any spelling */
        {"{\"phone\":\"(11) 98765-4321\"}", PHONE, "+5511987654321"},
        {"{\"PhoneNumber\":\"11 98765-4321\"}", PHONE, "+5511987654321"},
        {"{\"telefone\":\"11987654321\"}", PHONE, "+5511987654321"},
        {"{\"Telefone Residencial\":\"11987654321\"}", PHONE, "+5511987654321"},
        {"{\"N\\u00ba do Celular\":\"11987654321\"}", PHONE, "+5511987654321"},
        {"{\"nº_celular\":11987654321}", PHONE, "+5511987654321"},
        {"{\"WhatsApp\":\"11987654321\"}", PHONE, "+5511987654321"},
        {"{\"tel\":\"11987654321\"}", PHONE, "+5511987654321"},
        {"{\"fax\":\"1133334444\"}", PHONE, "+551133334444"},
        {"{\"phones\":[\"11987654321\"]}", PHONE, "+5511987654321"},
        {"{\"phones\":[{\"type\":\"home\",\"number\":\"11987654321\"}]}", PHONE, "+5511987654321"},
        {"{\"cpf\":\"529.982.247-25\"}", DOCUMENT, "52998224725"},
        {"{\"CPF/CNPJ\":52998224725}", DOCUMENT, "52998224725"},
        {"{\"cpf\":1234567890}", DOCUMENT, "01234567890"},
        {"{\"cnpj\":191000100}", DOCUMENT, NULL},
        {"{\"Documento\":\"12.ABC.345/01DE-35\"}", DOCUMENT, "12ABC34501DE35"},
        {"{\"document\":{\"kind\":\"CPF\",\"number\":\"52998224725\"}}", DOCUMENT, "52998224725"},
        {"{\"fiscalNumber\":\"11222333000181\"}", DOCUMENT, "11222333000181"},
        {"{\"e-mail\":\"Ana@Example.com\"}", EMAIL, "ana@example.com"},
        /* values that need no name */
        {"{\"x\":\"529.982.247-25\"}", DOCUMENT, "52998224725"},
        {"{\"x\":\"52998224725\"}", DOCUMENT, "52998224725"},
        {"{\"x\":\"12abc34501de35\"}", DOCUMENT, "12ABC34501DE35"},
        {"{\"x\":\"+55 11 98765-4321\"}", PHONE, "+5511987654321"},
        {"{\"x\":\" ana@example.com \"}", EMAIL, "ana@example.com"},
        {"[[[\"ana@example.com\"]]]", EMAIL, "ana@example.com"},
        {"\"ana@example.com\"", EMAIL, "ana@example.com"},
        {"{\"x\":\"ana\\u0040example.com\"}", EMAIL, "ana@example.com"},
        /* JSON in a string */
        {"{\"context\":\"{\\\"cpf\\\":\\\"52998224725\\\"}\"}", DOCUMENT, "52998224725"},
        {"{\"context\":\"[52, \\\"ana@example.com\\\"]\"}", EMAIL, "ana@example.com"},
        /* twice is once; a level's name ends with the level */
        {"{\"cpf\":\"52998224725\",\"x\":\"529.982.247-25\"}", DOCUMENT, "52998224725"},
        {"{\"phones\":[],\"x\":\"11987654321\"}", PHONE, NULL},
        {"{\"phone\":{\"a\":1},\"x\":11987654321}", PHONE, NULL},
        /* nobody */
        {"{\"x\":\"11987654321\"}", PHONE, NULL},
        {"{\"x\":52998224725}", PHONE, NULL},
        {"{\"cpf\":\"52998224724\"}", PHONE, NULL},
        {"{\"phone\":\"none\"}", PHONE, NULL},
        {"{\"documentType\":12}", PHONE, NULL},
        {"{\"x\":\"call 52998224725 now\"}", PHONE, NULL},
        {"{\"x\":\"0190b5c2-1111-7000-8000-000000000001\"}", PHONE, NULL},
        {"{\"52998224725\":1}", PHONE, NULL},
        {"", PHONE, NULL},
        {"{", PHONE, NULL},
        {"{\"cpf\":", PHONE, NULL},
    };

    (void)state;
    for (size_t i = 0; i < LEN(table); i++)
        found_in(table[i].json, table[i].kind, table[i].who);
}

static void several_in_one_value(void **state)
{
    struct df_subject found[8];

    (void)state;
    assert_int_equal(df_subjects_of(keys,
                                    DF_STR("{\"fone\":\"1133334444; 11987654321\","
                                           "\"mails\":\"a@b.com,c@d.com\"}"),
                                    found, LEN(found)),
                     4);
    /* a phone whose digits are a CPF's by chance is a phone where the name says so */
    assert_int_equal(
        df_subjects_of(keys, DF_STR("{\"celular\":\"11900000083\"}"), found, LEN(found)), 1);
    assert_int_equal(found[0].kind, PHONE);
}

static void a_document_that_breaks_off_counts_to_there(void **state)
{
    struct df_subject found[8];

    (void)state;
    assert_int_equal(
        df_subjects_of(keys, DF_STR("{\"x\":\"ana@example.com\",\"y\":nul"), found, LEN(found)), 1);
}

static void more_than_the_most_are_left_out(void **state)
{
    struct df_subject found[DF_SUBJECTS_MAX + 1];
    struct df_buf json;

    (void)state;
    df_buf_init(&json, 1 << 20);
    df_buf_addc(&json, '[');
    for (int i = 0; i < 400; i++)
        df_buf_addf(&json, "%s\"u%d@example.com\"", i ? "," : "", i);
    df_buf_addc(&json, ']');
    memset(&found[DF_SUBJECTS_MAX], 0x55, sizeof found[0]);
    assert_int_equal(df_subjects_of(keys, df_buf_str(&json), found, DF_SUBJECTS_MAX),
                     DF_SUBJECTS_MAX);
    assert_int_equal(((unsigned char *)&found[DF_SUBJECTS_MAX])[0], 0x55);
    df_buf_release(&json);
}

static void forms_and_values(void **state)
{
    static const struct {
        const char *form;
        enum df_subject_kind kind;
        const char *who;
    } table[] = {
        {"phone=%2B5511987654321", PHONE, "+5511987654321"},
        {"a=1&phone=(11)+98765-4321", PHONE, "+5511987654321"},
        {"to=+5511987654321&x", PHONE, "+5511987654321"},
        {"cpf=529.982.247%2D25", DOCUMENT, "52998224725"},
        {"q=ana%40example.com", EMAIL, "ana@example.com"},
        {"q=%", EMAIL, NULL},
        {"q=%4", EMAIL, NULL},
        {"&&==&", EMAIL, NULL},
        {"", EMAIL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < LEN(table); i++) {
        struct df_subject at[4];
        struct df_subjects s = {.keys = keys, .at = at, .max = LEN(at)};
        df_subjects_add_form(&s, df_str_c(table[i].form));
        if (!table[i].who) {
            assert_int_equal(s.count, 0);
            continue;
        }
        struct df_subject want = person(table[i].kind, table[i].who);
        if (s.count != 1 || !same(&at[0], &want))
            fail_msg("%s: %zu people", table[i].form, s.count);
    }
}

/* --- items --- */

static void note_sequence(void *arg, int64_t sequence)
{
    struct df_buf *out = arg;
    df_buf_addf(out, "%lld ", (long long)sequence);
}

static void items_are_found_by_their_entries(void **state)
{
    struct df_subject ana = person(EMAIL, "ana@example.com");
    struct df_buf entries, found;

    (void)state;
    df_buf_init(&entries, 4096);
    df_buf_init(&found, 4096);
    df_subjects_add_item(keys, DF_STR("{\"phone\":\"11987654321\",\"m\":\"ana@example.com\"}"), 0,
                         &entries);
    df_subjects_add_item(keys, DF_STR("{\"m\":\"eva@example.com\"}"), 1, &entries);
    df_subjects_add_item(keys, DF_STR("{\"m\":\"nobody\"}"), 2, &entries);
    df_subjects_add_item(keys, DF_STR("{\"m\":\"ANA@example.com\"}"), 2147483647, &entries);
    assert_int_equal(entries.len, (size_t)4 * DF_SUBJECT_ENTRY);
    df_subjects_each_item(df_buf_str(&entries), &ana, note_sequence, &found);
    assert_string_equal(found.ptr, "0 2147483647 ");
    /* a blob that was cut is read as far as it goes */
    df_buf_reset(&found);
    df_subjects_each_item(df_str_n(entries.ptr, entries.len - 1), &ana, note_sequence, &found);
    assert_string_equal(found.ptr, "0 ");
    df_buf_release(&entries);
    df_buf_release(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_person_in_every_spelling_has_one_hash),
        cmocka_unit_test(what_is_nobody_is_refused),
        cmocka_unit_test(kinds_and_keys_are_apart),
        cmocka_unit_test(people_are_recognised),
        cmocka_unit_test(several_in_one_value),
        cmocka_unit_test(a_document_that_breaks_off_counts_to_there),
        cmocka_unit_test(more_than_the_most_are_left_out),
        cmocka_unit_test(forms_and_values),
        cmocka_unit_test(items_are_found_by_their_entries),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
