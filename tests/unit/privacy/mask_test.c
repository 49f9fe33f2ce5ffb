/* Documents masked by the names of their fields and by their values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_clock.h"
#include "keys/keys.h"
#include "keys_from.h"
#include "privacy/mask.h"
#include "json/scan.h"

#define LEN(a)  (sizeof(a) / sizeof((a)[0]))
#define DEFAULT "phone, document, email, name, address"

static struct df_fake_clock fake;
static struct df_keys *keys;

static int make_keys(void **state)
{
    unsigned char key[DF_KEY_BYTES] = {7};
    (void)state;
    df_fake_clock_init(&fake, 1, 1);
    keys = df_keys_from(&fake.base, key);
    return 0;
}

static int free_keys(void **state)
{
    (void)state;
    df_keys_free(keys);
    return 0;
}

static struct df_masker *masker(const char *fields, enum df_mask_mode mode)
{
    struct df_sensitive_settings s = {.fields = fields, .mode = (int)mode};
    struct df_masker *m = NULL;
    struct df_err err = DF_ERR_INIT;

    assert_int_equal(df_masker_new(&s, keys, &m, &err), DF_OK);
    return m;
}

static void check(const struct df_masker *m, const char *in, const char *want)
{
    struct df_buf out;
    struct df_err err = DF_ERR_INIT;

    df_buf_init(&out, 1 << 20);
    df_mask_json(m, df_str_c(in), &out);
    if (strcmp(out.ptr ? out.ptr : "", want) != 0)
        fail_msg("%s became %s, not %s", in, out.ptr, want);
    if (df_json_check(df_str_c(in), 0, DF_JSON_DEPTH, &err) == DF_OK)
        assert_int_equal(df_json_check(df_buf_str(&out), 0, DF_JSON_DEPTH, &err), DF_OK);
    df_buf_release(&out);
}

static void values_are_masked_by_name_and_by_what_they_are(void **state)
{
    static const char *const cases[][2] = {
        {"{\"sequence\":3,\"PhoneNumber\":\"+5511912345678\",\"Origin\":\"site\"}",
         "{\"sequence\":3,\"PhoneNumber\":\"+***********78\",\"Origin\":\"site\"}"},
        {"{\"Nome\":\"Maria Silva\",\"E-mail\":\"maria@example.com\",\"CPF\":\"123.456.789-09\"}",
         "{\"Nome\":\"***\",\"E-mail\":\"m****@*******.com\",\"CPF\":\"***.***.***-09\"}"},
        {"{\"endere\xC3\xA7o\":\"Rua A, "
         "12\",\"n\xC3\xBAmero_do-documento\":\"x\",\"CEP\":\"01310-100\"}",
         "{\"endere\xC3\xA7o\":\"***\",\"n\xC3\xBAmero_do-documento\":\"***\",\"CEP\":\"*****-*"
         "00\"}"},
        {"{\"n\\u006fme\":\"Maria\"}", "{\"n\\u006fme\":\"***\"}"},
        {"{\"Telefone 2\":\"abc\",\"phone_1\":5511912345678,\"cpf\":123}",
         "{\"Telefone 2\":\"***\",\"phone_1\":\"***********78\",\"cpf\":\"***\"}"},
        /* A CPF that lost its leading zeros: its name says what it is. */
        {"{\"cpf\":1234567890,\"order\":1234567890}",
         "{\"cpf\":\"********90\",\"order\":1234567890}"},
        {"{\"name\":{\"first\":\"Maria\",\"parts\":[\"a\",1,true,null,{\"x\":\"y\"}]},\"z\":"
         "\"Maria\"}",
         "{\"name\":{\"first\":\"***\",\"parts\":[\"***\",\"***\",true,null,{\"x\":\"***\"}]},"
         "\"z\":\"Maria\"}"},
        {"{\"other\":\"12345678909\",\"also\":\"12.ABC.345/"
         "01DE-35\",\"x\":12345678909,\"y\":[\"+14155552671\"]}",
         "{\"other\":\"*********09\",\"also\":\"**.***.***/"
         "****-35\",\"x\":\"*********09\",\"y\":[\"+*********71\"]}"},
        {"{\"note\":\"call (11) 91234-5678\\nor maria@example.com\"}",
         "{\"note\":\"call (**) *****-**78\\nor m****@*******.com\"}"},
        {"{\"raw\":\"{\\\"nome\\\":\\\"Maria\\\",\\\"a\\\":1}\"}",
         "{\"raw\":\"{\\\"nome\\\":\\\"***\\\",\\\"a\\\":1}\"}"},
        {"{\"raw\":\"{not json 12345678909\"}", "{\"raw\":\"{not json *********09\"}"},
        {"{\"+5511912345678\":{\"a\":1}}", "{\"+***********78\":{\"a\":1}}"},
        {"{\"a\\\\b maria\\u0040example.com\":1}", "{\"a\\\\b m****@*******.com\":1}"},
        {"{\"\\u00312345678909\":1,\"x\\ty\":\"12345678909\"}",
         "{\"*********09\":1,\"x\\ty\":\"*********09\"}"},
        {" [ 1 , \"x\" , { } , [ ] ] ", " [ 1 , \"x\" , { } , [ ] ] "},
        {" [ 1 , \"12345678909\" , { } , [ ] ] ", "[1,\"*********09\",{},[]]"},
        {"\"12345678909\"", "\"*********09\""},
        {"{\"name\":\"\",\"phone\":null,\"email\":false}",
         "{\"name\":\"\",\"phone\":null,\"email\":false}"},
        {"{\"id\":\"550e8400-e29b-41d4-a716-446655440000\",\"at\":\"2026-11-16T21:40:01Z\",\"ms\":"
         "1763329201123}",
         "{\"id\":\"550e8400-e29b-41d4-a716-446655440000\",\"at\":\"2026-11-16T21:40:01Z\",\"ms\":"
         "1763329201123}"},
        {"{\"phone\":\"+5511912345678\\u0000\"}", "{\"phone\":\"***\"}"},
        {"not json, cpf 12345678909", "not json, cpf *********09"},
        {"{\"name\":\"Maria\"", "{\"name\":\"Maria\""},
        {"{\"cpf\":\"12345678909\",}", "{\"cpf\":\"*********09\",}"},
        {"", ""},
    };
    struct df_masker *m = masker(DEFAULT, DF_MASK_STARS);
    (void)state;

    for (size_t i = 0; i < LEN(cases); i++)
        check(m, cases[i][0], cases[i][1]);
    df_masker_free(m);
}

static void members_are_dropped(void **state)
{
    static const char *const cases[][2] = {
        {"{\"name\":\"Maria\",\"a\":1}", "{\"a\":1}"},
        {"{\"a\":1,\"name\":{\"x\":[1,2]},\"b\":[{\"phone\":1}]}", "{\"a\":1,\"b\":[{}]}"},
        {"{\"x\":\"12345678909\",\"y\":[\"12345678909\",2]}", "{\"x\":null,\"y\":[null,2]}"},
        {"{\"note\":\"cpf 12345678909\"}", "{\"note\":\"cpf *********09\"}"},
    };
    struct df_masker *m = masker(DEFAULT, DF_MASK_DROP);
    (void)state;

    for (size_t i = 0; i < LEN(cases); i++)
        check(m, cases[i][0], cases[i][1]);
    df_masker_free(m);
}

static void hashes_are_the_same_for_the_same_number(void **state)
{
    struct df_masker *m = masker(DEFAULT, DF_MASK_HASH);
    struct df_buf one, other;
    char hash[DF_MASK_HASH_LEN + 1], again[DF_MASK_HASH_LEN + 1];
    (void)state;

    df_buf_init(&one, 1000);
    df_buf_init(&other, 1000);
    df_mask_json(m, DF_STR("{\"cpf\":\"123.456.789-09\"}"), &one);
    df_mask_json(m, DF_STR("{\"cpf\":12345678909}"), &other);
    assert_string_equal(one.ptr, other.ptr);
    assert_int_equal(one.len, strlen("{\"cpf\":\"hmac:\"}") + 32);
    df_buf_reset(&other);
    df_mask_json(m, DF_STR("{\"cpf\":\"529.982.247-25\"}"), &other);
    assert_string_not_equal(one.ptr, other.ptr);
    df_mask_hash(m, DF_STR("{}"), hash);
    df_mask_hash(m, DF_STR("{ }"), again);
    assert_int_equal(strlen(hash), 64);
    assert_string_not_equal(hash, again);
    df_buf_release(&one);
    df_buf_release(&other);
    df_masker_free(m);
}

static void paths_name_one_place(void **state)
{
    struct df_masker *m = masker("contact.phone , a.b.c,Nota Fiscal", DF_MASK_STARS);
    (void)state;

    assert_true(df_masker_masks(m));
    check(m,
          "{\"phone\":\"x\",\"Contact\":[{\"Phone\":\"x\"}],\"notaFiscal\":\"y\",\"name\":\"z\"}",
          "{\"phone\":\"x\",\"Contact\":[{\"Phone\":\"***\"}],\"notaFiscal\":\"***\",\"name\":"
          "\"z\"}");
    check(
        m,
        "{\"a\":{\"b\":{\"c\":\"x\",\"d\":\"x\"},\"c\":\"x\"},\"o\":{\"a\":{\"b\":{\"c\":\"x\"}}}}",
        "{\"a\":{\"b\":{\"c\":\"***\",\"d\":\"x\"},\"c\":\"x\"},\"o\":{\"a\":{\"b\":{\"c\":\"***\"}"
        "}}}");
    df_masker_free(m);
}

static void keep_changes_nothing(void **state)
{
    struct df_masker *m = masker(DEFAULT, DF_MASK_KEEP);
    (void)state;

    assert_false(df_masker_masks(m));
    check(m, "{ \"cpf\" : \"12345678909\" }", "{ \"cpf\" : \"12345678909\" }");
    df_masker_free(m);
}

static void bad_lists_of_fields_are_refused(void **state)
{
    static const char *const cases[] = {
        "a..b",
        ".a",
        "a.",
        "a.b.c.d.e.f.g.h.i",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    };
    struct df_buf complaints;
    (void)state;

    for (size_t i = 0; i < LEN(cases); i++) {
        struct df_sensitive_settings s = {.fields = cases[i]};
        df_buf_init(&complaints, 1000);
        df_sensitive_check_settings(&s, &complaints);
        assert_non_null(strstr(complaints.ptr, "[sensitive_data] fields:"));
        df_buf_release(&complaints);
    }
    struct df_sensitive_settings s = {.fields = "a, ,b.c"};
    df_buf_init(&complaints, 1000);
    df_sensitive_check_settings(&s, &complaints);
    assert_int_equal(complaints.len, 0);
    df_buf_release(&complaints);
}

/* Nested deeper than is read, and a text in a text in a text. */
static void depth_is_bounded(void **state)
{
    struct df_masker *m = masker(DEFAULT, DF_MASK_STARS);
    struct df_buf in, out;
    (void)state;

    df_buf_init(&in, 1000);
    df_buf_init(&out, 1000);
    for (int i = 0; i < 70; i++)
        df_buf_addc(&in, '[');
    df_buf_addz(&in, "\"12345678909\"");
    for (int i = 0; i < 70; i++)
        df_buf_addc(&in, ']');
    df_mask_json(m, df_buf_str(&in), &out);
    assert_int_equal(out.len, in.len);
    assert_null(strstr(out.ptr, "12345678909"));
    df_buf_release(&in);
    df_buf_release(&out);
    df_masker_free(m);
}

/* Only the beginning of an answer is read. */
static void answers_may_be_cut_off(void **state)
{
    static const struct {
        enum df_mask_mode mode;
        const char *in, *want;
    } table[] = {
        {DF_MASK_STARS, "{\"a\":1,\"name\":\"Maria\"}", "{\"a\":1,\"name\":\"***\"}"},
        {DF_MASK_STARS, "{\"a\":1, \"b\":\"x\"} ", "{\"a\":1, \"b\":\"x\"} "},
        {DF_MASK_STARS, "{\"a\":1,\"name\":\"Mari", "{\"a\":1,\"name\":"},
        {DF_MASK_STARS, "{\"a\":1,\"name\":{\"x\":\"Maria\",", "{\"a\":1,\"name\":{\"x\":\"***\""},
        {DF_MASK_STARS, "[{\"a\":\"CPF 123.456.789-09\"},{\"na",
         "[{\"a\":\"CPF ***.***.***-09\"},{"},
        {DF_MASK_STARS, "{\"a\":\"x\",\"b\":1234567890", "{\"a\":\"x\",\"b\":"},
        {DF_MASK_STARS, "{no document: 123.456.789-09", "{no document: ***.***.***-09"},
        {DF_MASK_STARS, "[", "["},
        {DF_MASK_STARS, "123.456.789-09 is wrong", "***.***.***-09 is wrong"},
        {DF_MASK_STARS, "", ""},
        {DF_MASK_DROP, "{\"a\":1,\"name\":\"Mari", "{\"a\":1"},
        {DF_MASK_DROP, "{\"a\":1,\"name\":{\"x\":[\"Mari", "{\"a\":1"},
        {DF_MASK_KEEP, "{\"name\":\"Maria\",\"x\":\"123.456.789-09\"}",
         "{\"name\":\"Maria\",\"x\":\"***.***.***-09\"}"},
    };
    struct df_arena a = {0};
    (void)state;

    for (size_t i = 0; i < LEN(table); i++) {
        struct df_masker *m = masker(DEFAULT, table[i].mode);
        struct df_str got = df_mask_answer(m, df_str_c(table[i].in), 500, &a);
        if (!df_str_eq(got, df_str_c(table[i].want)))
            fail_msg("%s became " DF_STR_FMT ", not %s", table[i].in, DF_STR_ARG(got),
                     table[i].want);
        assert_int_equal(df_mask_answer(m, DF_STR("{\"a\":[1,2,3]}"), 4, &a).len, 4);
        df_masker_free(m);
    }
    df_arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_masked_by_name_and_by_what_they_are),
        cmocka_unit_test(members_are_dropped),
        cmocka_unit_test(hashes_are_the_same_for_the_same_number),
        cmocka_unit_test(paths_name_one_place),
        cmocka_unit_test(keep_changes_nothing),
        cmocka_unit_test(bad_lists_of_fields_are_refused),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(answers_may_be_cut_off),
    };
    return cmocka_run_group_tests(tests, make_keys, free_keys);
}
