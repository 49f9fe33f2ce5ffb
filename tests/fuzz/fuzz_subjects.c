/*
 * People in documents, forms and paths. Nobody is found twice or beyond the maximum, a smaller
 * maximum finds the first of them, and a whole document inside of an array names the same people.
 * The first byte chooses.
 */
#include "../unit/keys_from.h"
#include "keys/keys.h"
#include "privacy/subjects.h"
#include "json/scan.h"

#include <stdlib.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what))                                                                               \
            abort();                                                                               \
    } while (0)

static struct df_keys *keys;

static bool same(const struct df_subject *a, const struct df_subject *b)
{
    return a->kind == b->kind && memcmp(a->hash, b->hash, sizeof a->hash) == 0;
}

static void check_distinct(const struct df_subject *at, size_t n, size_t max)
{
    CHECK(n <= max);
    for (size_t i = 0; i < n; i++) {
        CHECK(at[i].kind >= DF_SUBJECT_PHONE && at[i].kind <= DF_SUBJECT_EMAIL);
        for (size_t k = i + 1; k < n; k++)
            CHECK(!same(&at[i], &at[k]));
    }
}

static void check_json(struct df_str json)
{
    struct df_subject all[DF_SUBJECTS_MAX], other[DF_SUBJECTS_MAX];
    struct df_err err = DF_ERR_INIT;
    struct df_buf outer;
    size_t n = df_subjects_of(keys, json, all, DF_SUBJECTS_MAX);

    check_distinct(all, n, DF_SUBJECTS_MAX);
    size_t few = df_subjects_of(keys, json, other, 2);
    CHECK(few == (n < 2 ? n : 2));
    for (size_t i = 0; i < few; i++)
        CHECK(same(&all[i], &other[i]));
    if (df_json_check(json, 0, DF_JSON_DEPTH - 2, &err) != DF_OK)
        return;
    df_buf_init(&outer, SIZE_MAX);
    df_buf_addc(&outer, '[');
    df_buf_adds(&outer, json);
    df_buf_addc(&outer, ']');
    CHECK(df_subjects_of(keys, df_buf_str(&outer), other, DF_SUBJECTS_MAX) == n);
    df_buf_release(&outer);
}

static void check_texts(struct df_str text)
{
    struct df_subject at[8];
    struct df_subjects s = {.keys = keys, .at = at, .max = 8};
    struct df_subject one;
    struct df_err err = DF_ERR_INIT;

    df_subjects_add_form(&s, text);
    df_subjects_add_call(&s, text, text);
    df_subjects_add_batch(&s, text, text, text);
    check_distinct(at, s.count, 8);
    for (int kind = DF_SUBJECT_PHONE; kind <= DF_SUBJECT_EMAIL; kind++)
        (void)!df_subject_parse(keys, (enum df_subject_kind)kind, text, &one, &err);
    (void)!df_subject_parse_any(keys, text, &one, &err);
}

static void note(void *arg, int64_t sequence)
{
    CHECK(sequence >= 0 && sequence <= UINT32_MAX);
    ++*(size_t *)arg;
}

static void check_entries(struct df_str entries)
{
    struct df_subject s = {.kind = DF_SUBJECT_PHONE};
    size_t found = 0;

    if (entries.len >= 8)
        memcpy(s.hash, entries.ptr, 8);
    df_subjects_each_item(entries, &s, note, &found);
    CHECK(found <= entries.len / DF_SUBJECT_ENTRY);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned char key[DF_KEY_BYTES] = {1};

    if (!keys)
        keys = df_keys_from(df_clock_real(), key);
    if (size == 0)
        return 0;
    struct df_str text = df_str_n((const char *)data + 1, size - 1);
    switch (data[0] % 4) {
    case 0:
        check_texts(text);
        break;
    case 1:
        check_entries(text);
        break;
    default:
        check_json(text);
    }
    return 0;
}
