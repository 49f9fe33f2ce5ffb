/* Accept-Language (RFC 9110, 12.5.4). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "net/language.h"

#include <stdio.h>
#include <stdlib.h>

static enum df_lang choose(const char *header)
{
    struct df_language_ask ask = {0};
    df_language_read(&ask, df_str_c(header));
    return df_language_choose(&ask);
}

static void check_all(const char *const *headers, size_t count, enum df_lang lang)
{
    for (size_t i = 0; i < count; i++) {
        if (choose(headers[i]) != lang)
            print_error("Accept-Language: %s\n", headers[i]);
        assert_int_equal(choose(headers[i]), lang);
    }
}
#define CHECK_ALL(headers, lang) check_all(headers, sizeof(headers) / sizeof((headers)[0]), lang)

static void portuguese_is_chosen(void **state)
{
    static const char *const headers[] = {
        "pt-BR", "pt", "PT-br", "pt-PT", "pt-BR,pt;q=0.9,en-US;q=0.8,en;q=0.7", "pt, en",
        "en;q=0.5, pt;q=0.7", "de, pt;q=0.1", "fr;q=1.0,pt-BR;q=0.001",
        "  pt-BR ; q=0.8 , en ; q=0.3 ", "en;q=0, pt", "en;q=0, *", "pt;q=1.000",
        /* A better fit counts, though its quality is less. */
        "*;q=0.1, pt;q=0.9, en;q=0.5", "en;q=0.5, pt;q=0.1, pt-BR;q=0.8",
        /* Refusing Portugal's says nothing about Brazil's. */
        "pt-PT;q=0, pt-BR", "pt-PT;q=0, pt",
        /* What is malformed is skipped. */
        ",,;;, pt", "en;q=x, pt;q=0.1", "en;q=1.001, pt;q=0.1", "=, ;q=1, pt"};
    (void)state;
    CHECK_ALL(headers, DF_LANG_PT);
}

static void english_is_chosen(void **state)
{
    static const char *const headers[] = {"",
                                          "en",
                                          "en-GB",
                                          "de",
                                          "*",
                                          "*;q=0.5",
                                          "en, pt",
                                          "en-US,en;q=0.9,pt;q=0.8",
                                          "pt;q=0",
                                          "pt-BR;q=0, *",
                                          "pt;q=0.0, en;q=0.1",
                                          "pt;q=0, pt-BR;q=0",
                                          "pt;q=0.2, en;q=0.3",
                                          "ptx",
                                          "pt_BR",
                                          "p",
                                          "-",
                                          "pt;q=",
                                          "pt;q=1.5",
                                          "pt;q=0.1234",
                                          "pt;q=-1",
                                          "pt;level=1",
                                          "pt;q=0.5;x=1",
                                          "q=1",
                                          ";",
                                          ","};
    (void)state;
    CHECK_ALL(headers, DF_LANG_EN);
}

static void lines_of_the_header_count_as_one_list(void **state)
{
    struct df_language_ask ask = {0};
    (void)state;
    df_language_read(&ask, DF_STR("en;q=0.4"));
    df_language_read(&ask, DF_STR("pt;q=0.6"));
    assert_int_equal(df_language_choose(&ask), DF_LANG_PT);
    ask = (struct df_language_ask){0};
    df_language_read(&ask, DF_STR("en"));
    df_language_read(&ask, DF_STR("pt"));
    assert_int_equal(df_language_choose(&ask), DF_LANG_EN);
}

static void only_so_many_ranges_are_read(void **state)
{
    char header[4096];
    size_t at = 0;
    (void)state;
    for (int i = 0; i < DF_LANGUAGE_RANGES_MAX - 1; i++)
        at += (size_t)snprintf(header + at, sizeof header - at, "x%d,", i);
    (void)snprintf(header + at, sizeof header - at, "pt");
    assert_int_equal(choose(header), DF_LANG_PT);
    (void)snprintf(header + at, sizeof header - at, "x,pt");
    assert_int_equal(choose(header), DF_LANG_EN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(portuguese_is_chosen),
        cmocka_unit_test(english_is_chosen),
        cmocka_unit_test(lines_of_the_header_count_as_one_list),
        cmocka_unit_test(only_so_many_ranges_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
