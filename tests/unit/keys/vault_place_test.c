#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "keys/vault.h"

#include <stdio.h>

static void assert_text(struct df_str found, const char *expected)
{
    assert_int_equal(found.ptr == NULL, expected == NULL);
    if (expected && !df_str_eq(found, df_str_c(expected)))
        fail_msg("\"%.*s\" is not \"%s\"", (int)found.len, found.ptr, expected);
}

static void places_that_are_right(void **state)
{
    static const struct {
        const char *text;
        enum df_vault_kind kind;
        const char *root, *mount, *rest, *field, *version;
    } rows[] = {
        {"vault://v.example/secret/data/app#key", DF_VAULT_KV, "https://v.example:8200", "secret",
         "app", "key", NULL},
        {"vault://v.example:443/kv/data/a/b.c/data/d#k_1", DF_VAULT_KV, "https://v.example", "kv",
         "a/b.c/data/d", "k_1", NULL},
        {"vault://V.Example/team/kv/data/app#k", DF_VAULT_KV, "https://v.example:8200", "team/kv",
         "app", "k", NULL},
        {"vault://[::1]/transit/keys/k", DF_VAULT_TRANSIT, "https://[::1]:8200", "transit", "k",
         NULL, NULL},
        {"vault://v.example/a/keys/transit/keys/data-flow.1", DF_VAULT_TRANSIT,
         "https://v.example:8200", "a/keys/transit", "data-flow.1", NULL, NULL},
        {"vault+http://127.0.0.1:8200/transit/keys/k", DF_VAULT_TRANSIT, "http://127.0.0.1:8200",
         "transit", "k", NULL, NULL},
        {"azurekv://acme.vault.azure.net/master", DF_VAULT_AZURE, "https://acme.vault.azure.net",
         NULL, "master", NULL, NULL},
        {"azurekv://acme.managedhsm.azure.net/m/0123abcd", DF_VAULT_AZURE,
         "https://acme.managedhsm.azure.net", NULL, "m", NULL, "0123abcd"},
    };
    struct df_arena arena = {0};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct df_err err = DF_ERR_INIT;
        struct df_vault_place p;
        if (df_vault_place_parse(df_str_c(rows[i].text), &arena, &p, &err) != DF_OK)
            fail_msg("%s: %s", rows[i].text, err.detail);
        assert_int_equal(p.kind, rows[i].kind);
        assert_text(p.root, rows[i].root);
        assert_text(p.mount, rows[i].mount);
        assert_text(p.kind == DF_VAULT_KV ? p.path : p.name, rows[i].rest);
        assert_text(p.field, rows[i].field);
        assert_text(p.version, rows[i].version);
    }
    df_arena_release(&arena);
}

static void places_that_are_wrong(void **state)
{
    static const char *const rows[] = {
        "",
        "vault",
        "https://v.example/transit/keys/k",
        "VAULT://v.example/transit/keys/k",
        "vault://",
        "vault:///transit/keys/k",
        "vault://v.example",
        "vault://v.example/",
        "vault://v.example/transit",
        "vault://v.example/transit/keys/",
        "vault://v.example//keys/k",
        "vault://v.example/keys/k",
        "vault://v.example/transit/keys/a/b",
        "vault://v.example/transit/keys/k?x=1",
        "vault://v.example/transit/keys/..",
        "vault://v.example/../keys/k",
        "vault://v.example/transit/keys/k%2e",
        "vault://v.example/transit/keys/k k",
        "vault://user:pw@v.example/transit/keys/k",
        "vault://v.example:0/transit/keys/k",
        "vault://v.example:99999/transit/keys/k",
        "vault://v.example/secret/data/app",
        "vault://v.example/secret/data/app#",
        "vault://v.example/secret/data/app#a#b",
        "vault://v.example/secret/data/app#a b",
        "vault://v.example/secret/app#key",
        "vault://v.example/secret/data/#key",
        "vault://v.example/secret/data/a//b#key",
        "vault://v.example/secret/data/a/../b#key",
        "vault+http://v.example/transit/keys/k",
        "vault+http://10.0.0.1/transit/keys/k",
        "azurekv://acme.vault.azure.net",
        "azurekv://acme.vault.azure.net/",
        "azurekv://acme.vault.azure.net/k/",
        "azurekv://acme.vault.azure.net/k/v/w",
        "azurekv://acme.vault.azure.net/k_1",
        "azurekv://acme.vault.azure.net/k/a-b",
        "azurekv://acme.vault.azure.net.evil.example/k",
        "azurekv://vault.azure.net/k",
        "azurekv://evilvault.azure.net/k",
        "azurekv+http://acme.vault.azure.net/k",
    };
    struct df_arena arena = {0};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct df_err err = DF_ERR_INIT;
        struct df_vault_place p;
        if (df_vault_place_parse(df_str_c(rows[i]), &arena, &p, &err) != DF_E_CONFIG)
            fail_msg("accepted: %s", rows[i]);
        assert_true(err.detail[0]);
    }
    df_arena_release(&arena);
}

static void a_long_place_is_wrong(void **state)
{
    struct df_arena arena = {0};
    struct df_err err = DF_ERR_INIT;
    struct df_vault_place p;
    char text[300];

    (void)state;
    memset(text, 'a', sizeof text);
    memcpy(text, "vault://", 8);
    memcpy(text + 100, "/transit/keys/", 14);
    assert_int_equal(df_vault_place_parse(df_str_n(text, 150), &arena, &p, &err), DF_OK);
    assert_int_equal(df_vault_place_parse(df_str_n(text, 290), &arena, &p, &err), DF_E_CONFIG);
    df_arena_release(&arena);
}

static void a_key_opens_with_its_label_only(void **state)
{
    static const unsigned char key[DF_KEY_BYTES] = {1, 2, 3};
    unsigned char out[DF_KEY_BYTES];
    struct df_err err = DF_ERR_INIT;
    struct df_labelled plain;

    (void)state;
    df_labelled_join(key, DF_STR("data:1"), &plain);
    assert_int_equal(df_labelled_split(&plain, DF_STR("data:1"), out, &err), DF_OK);
    assert_memory_equal(out, key, sizeof key);
    assert_int_equal(df_labelled_split(&plain, DF_STR("data:2"), out, &err), DF_E_CONFIG);
    assert_int_equal(df_labelled_split(&plain, DF_STR("data:"), out, &err), DF_E_CONFIG);
    plain.len = 0;
    assert_int_equal(df_labelled_split(&plain, DF_STR("data:1"), out, &err), DF_E_CONFIG);
}

static void what_is_quoted_is_visible_and_short(void **state)
{
    struct df_arena arena = {0};
    char text[500];

    (void)state;
    memset(text, 'x', sizeof text);
    assert_text(df_remote_quote(DF_STR("a\n\t\x80\x1b[31mb"), &arena), "a????[31mb");
    assert_int_equal(df_remote_quote(df_str_n(text, sizeof text), &arena).len, 200);
    df_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_that_are_right),
        cmocka_unit_test(places_that_are_wrong),
        cmocka_unit_test(a_long_place_is_wrong),
        cmocka_unit_test(a_key_opens_with_its_label_only),
        cmocka_unit_test(what_is_quoted_is_visible_and_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
