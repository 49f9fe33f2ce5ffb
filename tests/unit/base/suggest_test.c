/* The nearest known name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/suggest.h"

static const char *nearest(struct df_str typed)
{
    static const char *const known[] = {"list", "listen", "outbox", "check-config", "to", "set"};
    struct df_suggest s = {.typed = typed};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        df_suggest_try(&s, known[i]);
    return s.best;
}

static void typing_errors_are_near(void **state)
{
    static const char *const pairs[][2] = {
        {"lits", "list"},
        {"lis", "list"},
        {"lisst", "list"},
        {"LIST", "list"},
        {"listn", "list"},
        {"lisen", "listen"},
        {"outbxo", "outbox"},
        {"otbx", "outbox"},
        {"check-conf", "check-config"},
        {"checkconfig", "check-config"},
        {"st", "set"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (!nearest(df_str_c(pairs[i][0])))
            print_error("%s\n", pairs[i][0]);
        assert_string_equal(nearest(df_str_c(pairs[i][0])), pairs[i][1]);
    }
}

static void other_words_are_not(void **state)
{
    static const char *const words[] = {"",      "x", "serve", "inbox-of-mine", "lo-and-behold",
                                        "config"};
    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_null(nearest(df_str_c(words[i])));
}

static void long_words_are_compared_with_nothing(void **state)
{
    char word[DF_SUGGEST_MAX + 2];
    struct df_suggest s = {.typed = DF_STR("list")};
    (void)state;
    memset(word, 'l', sizeof word);
    assert_null(nearest(df_str_n(word, DF_SUGGEST_MAX)));
    assert_null(nearest(df_str_n(word, sizeof word)));
    word[sizeof word - 1] = '\0';
    df_suggest_try(&s, word);
    assert_null(s.best);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(typing_errors_are_near),
        cmocka_unit_test(other_words_are_not),
        cmocka_unit_test(long_words_are_compared_with_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
