/*
 * Any text masked: the same length, every byte as it was or a star, and valid UTF-8 if the text
 * was. What is a document or an address as a whole is found in a text, too.
 */
#include "base/personal.h"

#include <stdlib.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            abort();                                                                               \
    } while (0)

static void check_masked(struct df_str text, struct df_buf *once)
{
    bool changed = false;

    df_mask_text(text, once);
    CHECK(once->len == text.len);
    for (size_t i = 0; i < text.len; i++) {
        CHECK(once->ptr[i] == text.ptr[i] || once->ptr[i] == '*');
        changed = changed || once->ptr[i] != text.ptr[i];
    }
    CHECK(changed <= df_text_is_personal(text));
    if (df_utf8_valid_prefix(text) == text.len)
        CHECK(df_utf8_valid_prefix(df_buf_str(once)) == once->len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct df_str text = df_str_n((const char *)data, size);
    struct df_buf once;
    char document[DF_DOCUMENT_MAX], address[DF_EMAIL_MAX];

    if (size == 0)
        return 0;
    df_buf_init(&once, 1 << 20);
    check_masked(text, &once);
    if (df_document_parse(text, document) != DF_DOCUMENT_NONE) {
        char again[DF_DOCUMENT_MAX];
        CHECK(df_document_parse(df_str_c(document), again) != DF_DOCUMENT_NONE);
        CHECK(strcmp(document, again) == 0);
        CHECK(df_text_is_personal(df_str_c(document)));
    }
    if (df_email_parse(text, address))
        CHECK(strlen(address) == size && df_text_is_personal(text));
    df_buf_release(&once);
    return 0;
}
