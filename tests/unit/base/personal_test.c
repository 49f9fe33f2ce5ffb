/* Documents, addresses and phones: what is found in a text, and what is left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/personal.h"

#include <stdlib.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static void documents_are_checked_by_their_digits(void **state)
{
    static const struct {
        const char *text;
        enum df_document want;
        const char *plain;
    } cases[] = {
        {"123.456.789-09", DF_DOCUMENT_CPF, "12345678909"},
        {"12345678909", DF_DOCUMENT_CPF, "12345678909"},
        {" 529 982 247-25 ", DF_DOCUMENT_CPF, "52998224725"},
        {"11.222.333/0001-81", DF_DOCUMENT_CNPJ, "11222333000181"},
        {"11222333000181", DF_DOCUMENT_CNPJ, "11222333000181"},
        {"12.ABC.345/01DE-35", DF_DOCUMENT_CNPJ, "12ABC34501DE35"},
        {"12abc34501de35", DF_DOCUMENT_CNPJ, "12ABC34501DE35"},
        {"123.456.789-08", DF_DOCUMENT_NONE, ""},
        {"12345678919", DF_DOCUMENT_NONE, ""},
        {"11111111111", DF_DOCUMENT_NONE, ""}, /* its check digits are right */
        {"00000000000", DF_DOCUMENT_NONE, ""},
        {"00000000000000", DF_DOCUMENT_NONE, ""},
        {"12.ABC.345/01DE-36", DF_DOCUMENT_NONE, ""},
        {"12ABC34501DE3A", DF_DOCUMENT_NONE, ""},
        {"12ABC34501DEA5", DF_DOCUMENT_NONE, ""},
        {"1234567890", DF_DOCUMENT_NONE, ""},
        {"123456789091", DF_DOCUMENT_NONE, ""},
        {"123456789012345678", DF_DOCUMENT_NONE, ""},
        {"123_456_789_09", DF_DOCUMENT_NONE, ""},
        {"12345678909\n", DF_DOCUMENT_NONE, ""},
        {"1234567890\xC3\xA9", DF_DOCUMENT_NONE, ""},
        {"", DF_DOCUMENT_NONE, ""},
        {"...", DF_DOCUMENT_NONE, ""},
    };
    (void)state;

    for (size_t i = 0; i < LEN(cases); i++) {
        char plain[DF_DOCUMENT_MAX];
        enum df_document got = df_document_parse(df_str_c(cases[i].text), plain);
        if (got != cases[i].want)
            fail_msg("%s: %d", cases[i].text, (int)got);
        if (got != DF_DOCUMENT_NONE)
            assert_string_equal(plain, cases[i].plain);
    }
    char plain[DF_DOCUMENT_MAX];
    assert_int_equal(df_document_parse(DF_STR_NULL, plain), DF_DOCUMENT_NONE);
}

/* Every change of one character, and every swap of neighbours, is noticed. */
static void one_wrong_character_is_no_document(void **state)
{
    static const char *const valid[] = {"52998224725", "11222333000181", "12ABC34501DE35"};
    char out[DF_DOCUMENT_MAX], text[DF_DOCUMENT_MAX];
    (void)state;

    for (size_t v = 0; v < LEN(valid); v++) {
        size_t n = strlen(valid[v]);
        for (size_t i = 0; i < n; i++) {
            for (char c = '0'; c <= '9'; c++) {
                memcpy(text, valid[v], n + 1);
                text[i] = c;
                bool same = c == valid[v][i];
                /* A letter and the digit eleven below it weigh the same. */
                bool twin = (valid[v][i] - c) % 11 == 0;
                assert_int_equal(df_document_parse(df_str_c(text), out) != DF_DOCUMENT_NONE,
                                 same || twin);
            }
        }
    }
}

static void addresses_are_told_from_other_texts(void **state)
{
    static const struct {
        const char *text;
        const char *want; /* NULL: no address */
    } cases[] = {
        {"Maria.Silva@Example.COM", "maria.silva@example.com"},
        {"a@b.co", "a@b.co"},
        {"a+tag@x-y.com.br", "a+tag@x-y.com.br"},
        {"jo\xC3\xA3o@example.com", "jo\xC3\xA3o@example.com"},
        {"a@b", NULL},
        {"@b.co", NULL},
        {"a@", NULL},
        {"a@.co", NULL},
        {"a@b..co", NULL},
        {"a..b@c.co", NULL},
        {"a.@b.co", NULL},
        {".a@b.co", NULL},
        {"a@b.c1", NULL},
        {"a@b.c", NULL},
        {"a b@c.co", NULL},
        {"a@b.co ", NULL},
        {"a@b.co.", NULL},
        {"a@b@c.co", NULL},
        {"1.2.3.4", NULL},
        {"", NULL},
    };
    char out[DF_EMAIL_MAX], text[400];
    (void)state;

    for (size_t i = 0; i < LEN(cases); i++) {
        bool got = df_email_parse(df_str_c(cases[i].text), out);
        if (got != (cases[i].want != NULL))
            fail_msg("%s: %d", cases[i].text, got);
        if (got)
            assert_string_equal(out, cases[i].want);
    }
    memset(text, 'a', sizeof(text));
    memcpy(text, "a@", 2);
    memcpy(text + 251, ".co", 3);
    assert_true(df_email_parse(df_str_n(text, 254), out));
    assert_int_equal(strlen(out), 254);
    memcpy(text + 252, ".co", 3);
    assert_false(df_email_parse(df_str_n(text, 255), out));
}

static void check_masked(const char *text, const char *want)
{
    struct df_buf out;

    df_buf_init(&out, 1 << 16);
    df_buf_addz(&out, "before ");
    df_mask_text(df_str_c(text), &out);
    if (strcmp(out.ptr + 7, want) != 0)
        fail_msg("\"%s\" became \"%s\", not \"%s\"", text, out.ptr + 7, want);
    assert_int_equal(df_text_is_personal(df_str_c(text)), strcmp(text, want) != 0);
    df_buf_release(&out);
}

static void numbers_and_addresses_are_masked(void **state)
{
    static const char *const cases[][2] = {
        {"CPF 123.456.789-09 invalid", "CPF ***.***.***-09 invalid"},
        {"cpf=12345678909;", "cpf=*********09;"},
        {"{\"cpf\":\"12345678909\"}", "{\"cpf\":\"*********09\"}"},
        {"{\\\"cpf\\\":\\\"12345678909\\\"}", "{\\\"cpf\\\":\\\"*********09\\\"}"},
        {"line\\n12345678909", "line\\n*********09"},
        {"123 456 789 09", "*** *** *** 09"},
        {"123456789-09", "*********-09"},
        {"cpf_12345678909", "cpf_*********09"},
        {"CNPJ 12.ABC.345/01DE-35.", "CNPJ **.***.***/****-35."},
        {"cnpj 12abc34501de35,", "cnpj ************35,"},
        {"11222333/0001-81", "********/****-81"},
        {"/companies/11222333000181/x", "/companies/************81/x"},
        {"to +5511912345678 failed", "to +***********78 failed"},
        {"to +55 11 91234-5678", "to +** ** *****-**78"},
        {"to +55 (11) 9 1234-5678", "to +** (**) * ****-**78"},
        {"(11) 91234-5678", "(**) *****-**78"},
        {"(11) 3234-5678", "(**) ****-**78"},
        {"11 91234 5678", "** ***** **78"},
        {"11.91234.5678", "**.*****.**78"},
        {"11-91234-5678", "**-*****-**78"},
        {"11912345678", "*********78"},
        {"1132345678", "********78"},
        {"5511912345678", "***********78"},
        {"551132345678", "**********78"},
        {"005511912345678", "*************78"},
        {"011912345678", "**********78"},
        {"(011) 91234-5678", "(***) *****-**78"},
        {"1191234-5678", "*******-**78"},
        {"55 11912345678", "** *********78"},
        {"5511 91234-5678", "**** *****-**78"},
        {"11\xC2\xA0"
         "91234\xE2\x80\x93"
         "5678",
         "**\xC2\xA0*****\xE2\x80\x93**78"},
        {"?phone=%2B5511912345678&x", "?phone=%2B***********78&x"},
        {"?phone=%2b14155552671", "?phone=%2b*********71"},
        {"\\u002B14155552671", "\\u002B*********71"},
        {"+1 212 555 1234", "+* *** *** **34"},
        {"+44 20 7946 0958", "+** ** **** **58"},
        {"+351 912 345 678", "+*** *** *** *78"},
        {"+33 6 12 34 56 78", "+** * ** ** ** 78"},
        {"+5511912345678 and 11 98888-7777", "+***********78 and ** *****-**77"},
        {"11912345678 11988887777", "*********78 *********77"},
        {"11912345678/11988887777", "*********78/*********77"},
        {"10 11 91234-5678", "10 ** *****-**78"},
        {"lead 7: 11912345678.0", "lead 7: *********78.0"},
        {"from maria@example.com: no", "from m****@*******.com: no"},
        {"<maria.silva+x@mail.example.com.br>", "<m************@****.*******.***.br>"},
        {"jo\xC3\xA3o@example.com", "j****@*******.com"},
        {"\xC3\xA1"
         "b@example.com",
         "\xC3\xA1*@*******.com"},
        {"a%40example.com", "a%40*******.com"},
        {"5511912345678@s.whatsapp.net", "5************@*.********.net"},
        {"two: a@b.co,c@d.co", "two: a@*.co,c@*.co"},
        {"x@y a@b.co", "x@y a@*.co"},
        {"text\\nmaria@b.co", "text\\n*****@*.co"},
    };
    (void)state;

    for (size_t i = 0; i < LEN(cases); i++)
        check_masked(cases[i][0], cases[i][1]);
}

static void everything_else_is_left_alone(void **state)
{
    static const char *const cases[] = {
        "",
        "no digits",
        "550e8400-e29b-41d4-a716-446655440000",
        "11912345-1191-4123-8123-119123456789",
        "batch 52998224-4725-4987-9654-552998224725 ended",
        "5d41402abc4b2a76b9719d911017c592",
        "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "2026-11-16T21:40:01.123Z",
        "2026-11-16 21:40:01",
        "2026-11-16T21:40:01+03:00",
        "16/11/2026 21:40",
        "1763329201123",
        "123.456.789-08",
        "12345678908",
        "12.ABC.345/01DE-36",
        "11111111111",
        "192.168.100.200:8080",
        "10.0.0.1",
        "12345678901234567890",
        "1191234567890123456",
        "x11912345678",
        "11912345678x",
        "20912345678", /* no such area code */
        "11812345678",
        "1112345678",
        "(11) 91234",
        "+12345",
        "HTTP 503 after 1234 ms",
        "R$ 1.234.567,89",
        "ImportBatch 123 of 456",
        "user@localhost",
        "postgres://dataflow@db.example.com:5432/x",
        "@media a@ b",
        "1.2.3.4.5.6.7.8.9.10.11.12",
        "Caf\xC3\xA9 \xF0\x9F\x98\x80",
        "\xFF\xFE 123",
        "%",
        "%2",
        "\\",
        "\\u12",
        "+",
        "@",
        "*********09",
        "j****@*******.com",
    };
    (void)state;

    for (size_t i = 0; i < LEN(cases); i++)
        check_masked(cases[i], cases[i]);
    assert_false(df_text_is_personal(DF_STR_NULL));
}

static void a_masked_text_stays_as_it_is(void **state)
{
    struct df_buf once, twice;
    (void)state;

    df_buf_init(&once, 1000);
    df_buf_init(&twice, 1000);
    df_mask_text(
        DF_STR("123.456.789-09 +5511912345678 (11) 91234-5678 a.b@c.com.br 12ABC34501DE35"), &once);
    df_mask_text(df_buf_str(&once), &twice);
    assert_string_equal(once.ptr, twice.ptr);
    df_buf_release(&once);
    df_buf_release(&twice);
}

/* Texts that make a careless search quadratic: with one, this test would take hours. */
static void long_texts_take_linear_time(void **state)
{
    static const char *const pieces[] = {"1",  "1 ",  "12.",   "a@",        "@",        "a.", "%40",
                                         "%4", "\\u", "a%40a", "a%40b.co ", "11 2026 ", "+1 "};
    struct df_buf in, out;
    (void)state;

    for (size_t i = 0; i < LEN(pieces); i++) {
        df_buf_init(&in, 9 << 20);
        df_buf_init(&out, 9 << 20);
        while (in.len < 8 << 20)
            df_buf_addz(&in, pieces[i]);
        df_mask_text(df_buf_str(&in), &out);
        assert_int_equal(in.len, out.len);
        df_buf_release(&in);
        df_buf_release(&out);
    }
}

/* Only the beginning of a long text is read; what crosses its end is masked as in the whole. */
static void a_note_is_cut_first(void **state)
{
    static const char *const ends[] = {"123.456.789-09", "+55 (11) 91234-5678",
                                       "12.ABC.345/01DE-35", "11912345678x"};
    struct df_arena arena = {0};
    struct df_buf text, whole;
    char address[330];
    (void)state;

    memset(address, 'a', sizeof(address));
    address[64] = '@';
    memcpy(address + 64 + 252, ".co", 4); /* as long as one can be */
    for (size_t i = 0; i < LEN(ends) + 1; i++) {
        df_buf_init(&text, 3 << 20);
        df_buf_init(&whole, 3 << 20);
        df_buf_addz(&text, "to ");
        df_buf_addz(&text, i < LEN(ends) ? ends[i] : address);
        size_t shown = text.len;
        df_buf_addz(&text, " ");
        while (text.len < 2 << 20)
            df_buf_addz(&text, "no, ");
        df_mask_text(df_buf_str(&text), &whole);
        for (size_t max = 1; max < shown + 5; max++) {
            struct df_str note = df_mask_note(df_buf_str(&text), max, &arena);
            assert_int_equal(note.len, max);
            assert_memory_equal(note.ptr, whole.ptr, max);
            assert_true(arena.used_bytes < 4096);
            df_arena_reset(&arena);
        }
        struct df_str all = df_mask_note(df_buf_str(&text), SIZE_MAX, &arena);
        assert_true(df_str_eq(all, df_buf_str(&whole)));
        df_arena_reset(&arena);
        df_buf_release(&text);
        df_buf_release(&whole);
    }
    df_arena_release(&arena);
}

static void a_full_buffer_is_told(void **state)
{
    struct df_buf out;
    (void)state;

    df_buf_init(&out, 5);
    df_mask_text(DF_STR("12345678909"), &out);
    assert_true(df_buf_failed(&out));
    df_buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_are_checked_by_their_digits),
        cmocka_unit_test(one_wrong_character_is_no_document),
        cmocka_unit_test(addresses_are_told_from_other_texts),
        cmocka_unit_test(numbers_and_addresses_are_masked),
        cmocka_unit_test(everything_else_is_left_alone),
        cmocka_unit_test(a_masked_text_stays_as_it_is),
        cmocka_unit_test(long_texts_take_linear_time),
        cmocka_unit_test(a_note_is_cut_first),
        cmocka_unit_test(a_full_buffer_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
