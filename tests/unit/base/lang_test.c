/* Translation of finished texts, by the catalogue in the binary. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/lang.h"
#include "base/str.h"

#include <pthread.h>
#include <stdlib.h>

static struct df_arena arena;

static const char *pt(const char *english)
{
    return df_arena_cstr(&arena, df_lang_text(DF_LANG_PT, df_str_c(english), &arena));
}

static int forget(void **state)
{
    (void)state;
    df_arena_release(&arena);
    return 0;
}

static void a_text_is_found_by_its_format(void **state)
{
    static const char *const texts[][2] = {
        {"is required", "é obrigatório"},
        {"has 7 characters, at most 5 are allowed", "tem 7 caracteres; são permitidos no máximo 5"},
        {"must be a whole number from -5 to 20", "deve ser um número inteiro de -5 a 20"},
        {"\"not imports\" is not a scope", "\"not imports\" não é um escopo"},
        {"control character 0x0A in a string at byte 3 must be escaped",
         "o caractere de controle 0x0A em um texto, no byte 3, precisa de escape"},
        /* An argument that is there, and one that is not. */
        {"row 8 is larger than 9 bytes", "a linha 8 tem mais de 9 bytes"},
        {"row 8 is larger than 9 bytes; is a quote in it never closed?",
         "a linha 8 tem mais de 9 bytes; há uma aspa que nunca fecha?"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_string_equal(pt(texts[i][0]), texts[i][1]);
}

static void words_are_translated_where_the_entry_says_so(void **state)
{
    (void)state;
    assert_string_equal(pt("1 field is not valid: see errors."),
                        "1 campo não é válido: veja errors.");
    assert_string_equal(pt("3 fields are not valid: see errors."),
                        "3 campos inválidos: veja errors.");
    assert_string_equal(pt("must be minutes, hours or days"), "deve ser minutes, hours ou days");
    assert_string_equal(pt("expected a digit at byte 4, found the end of the input"),
                        "esperava um dígito no byte 4, encontrou o fim do texto");
    /* A message within a message. */
    assert_string_equal(pt("must be a JSON object: the document ends too early, at byte 1"),
                        "deve ser um objeto JSON: o documento termina cedo demais, no byte 1");
    assert_string_equal(pt("PhoneNumber: too few digits"), "PhoneNumber: dígitos de menos");
    /* What somebody sent is never taken for a word. */
    assert_string_equal(pt("There is no channel \"is required\"."),
                        "Não há canal \"is required\".");
}

static void the_entry_with_most_text_is_meant(void **state)
{
    (void)state;
    assert_string_equal(pt("must be text"), "deve ser um texto");
    assert_string_equal(pt("must be a JSON object"), "deve ser um objeto JSON");
    assert_string_equal(pt("must be Active or Suspended"), "deve ser Active ou Suspended");
    /* Words for arguments are no messages. */
    assert_string_equal(pt("file"), "file");
    assert_string_equal(pt("red or green"), "red or green");
}

static void a_text_without_entry_stays(void **state)
{
    static const char *const texts[] = {"", "?", "nobody has written this", "is required!",
                                        "has x characters, at most 5 are allowed", "\x01\x02",
                                        /* bytes that stand for a hole in an entry */
                                        "has \x02 entries, at most 7 are allowed", "\x01",
                                        "\xff\xfe"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_string_equal(pt(texts[i]), texts[i]);
    struct df_str same = DF_STR("is required");
    assert_ptr_equal(df_lang_text(DF_LANG_EN, same, &arena).ptr, same.ptr);
    assert_null(df_lang_text(DF_LANG_PT, DF_STR_NULL, &arena).ptr);
}

/* Somebody's text can be as long as they like, and full of what a pattern looks for. */
static void hostile_texts_are_bounded(void **state)
{
    static const char *const pieces[] = {"must be ", " or ", "; ", ": ", "\" is not a scope", "1"};
    char *text = malloc(DF_LANG_TEXT_MAX + 2);
    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        size_t len = strlen(pieces[i]), at = 0;
        while (at + len <= DF_LANG_TEXT_MAX) {
            memcpy(text + at, pieces[i], len);
            at += len;
        }
        struct df_str out = df_lang_text(DF_LANG_PT, df_str_n(text, at), &arena);
        assert_true(out.len > 0 && out.len <= 2 * DF_LANG_TEXT_MAX);
    }
    memset(text, 'x', DF_LANG_TEXT_MAX + 1);
    memcpy(text, "must be ", 8);
    assert_ptr_equal(df_lang_text(DF_LANG_PT, df_str_n(text, DF_LANG_TEXT_MAX + 1), &arena).ptr,
                     text);
    free(text);
}

static void locales_name_a_language(void **state)
{
    static const char *const portuguese[] = {"pt", "pt_BR", "pt_BR.UTF-8", "pt_PT@euro", "PT-br"};
    static const char *const english[] = {NULL, "", "C", "POSIX", "en_US.UTF-8", "ptx", "p", "de"};
    (void)state;
    for (size_t i = 0; i < sizeof portuguese / sizeof portuguese[0]; i++)
        assert_int_equal(df_lang_of_locale(portuguese[i]), DF_LANG_PT);
    for (size_t i = 0; i < sizeof english / sizeof english[0]; i++)
        assert_int_equal(df_lang_of_locale(english[i]), DF_LANG_EN);
    assert_string_equal(df_lang_tag(DF_LANG_EN), "en");
    assert_string_equal(df_lang_tag(DF_LANG_PT), "pt-BR");
}

static void *translate_much(void *arg)
{
    struct df_arena own = {0};
    bool *ok = arg;
    for (int i = 0; i < 1000; i++)
        *ok = *ok && df_str_eq(df_lang_text(DF_LANG_PT, DF_STR("is required"), &own),
                               DF_STR("é obrigatório"));
    df_arena_release(&own);
    return NULL;
}

static void any_thread_may_be_the_first(void **state)
{
    pthread_t threads[4];
    bool ok[4] = {true, true, true, true};
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, translate_much, &ok[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_true(ok[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(any_thread_may_be_the_first, forget),
        cmocka_unit_test_teardown(a_text_is_found_by_its_format, forget),
        cmocka_unit_test_teardown(words_are_translated_where_the_entry_says_so, forget),
        cmocka_unit_test_teardown(the_entry_with_most_text_is_meant, forget),
        cmocka_unit_test_teardown(a_text_without_entry_stays, forget),
        cmocka_unit_test_teardown(hostile_texts_are_bounded, forget),
        cmocka_unit_test(locales_name_a_language),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
