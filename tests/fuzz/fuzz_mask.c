/*
 * Any text through the masker, in every mode. A JSON document stays one, and none of its values is
 * a document or an address any more, and no name has one in it; what is no JSON keeps its length.
 */
#include "../unit/keys_from.h"
#include "base/clock.h"
#include "keys/keys.h"
#include "privacy/mask.h"
#include "json/doc.h"
#include "json/scan.h"

#include <stdlib.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            abort();                                                                               \
    } while (0)

static struct df_masker *maskers[3];

static void make_maskers(void)
{
    unsigned char key[DF_KEY_BYTES] = {1};
    struct df_keys *keys = df_keys_from(df_clock_real(), key);
    struct df_err err = DF_ERR_INIT;

    for (int mode = DF_MASK_STARS; mode < DF_MASK_KEEP; mode++) {
        struct df_sensitive_settings s = {.fields = "phone, name, a.b", .mode = mode};
        CHECK(df_masker_new(&s, keys, &maskers[mode], &err) == DF_OK);
    }
}

static void check_values(const struct df_json *v)
{
    char document[DF_DOCUMENT_MAX], address[DF_EMAIL_MAX];
    struct df_json_each each = df_json_each(v);

    if (v->type == DF_JSON_STRING || v->type == DF_JSON_NUMBER) {
        CHECK(df_document_parse(v->text, document) == DF_DOCUMENT_NONE);
        CHECK(!df_email_parse(v->text, address) || v->text.ptr[1] == '@');
    }
    CHECK(!df_text_is_personal(v->key));
    for (const struct df_json *child; (child = df_json_next(&each));)
        check_values(child);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct df_str text = df_str_n((const char *)data, size);
    struct df_err err = DF_ERR_INIT;
    bool json = df_json_check(text, 0, DF_JSON_DEPTH, &err) == DF_OK;

    if (!maskers[0])
        make_maskers();
    for (int mode = DF_MASK_STARS; mode < DF_MASK_KEEP; mode++) {
        struct df_arena arena = {0};
        const struct df_json *doc;
        struct df_buf once;
        df_buf_init(&once, 64 << 20);
        df_mask_json(maskers[mode], text, &once);
        CHECK(!df_buf_failed(&once) && (json || once.len == size));
        CHECK(!json || df_json_check(df_buf_str(&once), 0, DF_JSON_DEPTH, &err) == DF_OK);
        if (json && df_json_parse(&arena, df_buf_str(&once), &doc, &err) == DF_OK)
            check_values(doc);
        struct df_str answer = df_mask_answer(maskers[mode], text, SIZE_MAX, &arena);
        CHECK(answer.ptr || size == 0);
        df_arena_release(&arena);
        df_buf_release(&once);
    }
    return 0;
}
