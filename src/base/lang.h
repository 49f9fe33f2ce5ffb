/*
 * The languages that people read: English and Portuguese (Brazil). Everything is written in
 * English, by whichever thread, and so it is logged, audited and stored. Where a text leaves for a
 * person who reads Portuguese, df_lang_text makes Portuguese of the finished text: the catalogue
 * (lang/pt-BR.txt) has the English format strings, and the text is matched against them. What the
 * directives stood for is copied. A text that no entry matches stays English.
 *
 * So call sites know nothing of languages, an error costs nothing more than before, and a text that
 * was stored by an earlier release is translated as well. tools/check_lang.py finds texts that have
 * no entry.
 *
 * The catalogue is unpacked when the first text is translated, and stays. Any thread.
 */
#ifndef DF_BASE_LANG_H
#define DF_BASE_LANG_H

#include "base/arena.h"

enum df_lang { DF_LANG_EN, DF_LANG_PT };

/* Longer texts are not translated. */
#define DF_LANG_TEXT_MAX ((size_t)8192)

/* "en", "pt-BR". */
const char *df_lang_tag(enum df_lang lang);

/* The language of a locale such as "pt_BR.UTF-8"; NULL is English. */
enum df_lang df_lang_of_locale(const char *locale);

/* The text in that language: in the arena, or the English text itself. */
struct df_str df_lang_text(enum df_lang lang, struct df_str english, struct df_arena *a);

#endif
