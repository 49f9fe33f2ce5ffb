#include "json/keys.h"

#include "base/mem.h"
#include "json/scan.h"

#include <sodium.h>
#include <stdlib.h>
#include <sys/random.h>

#define FEW 16 /* names that are compared one by one */

void df_json_keys_release(struct df_json_keys *k)
{
    df_json_keys_cut(k, 0);
    free(k->names);
    free(k->scopes);
    *k = (struct df_json_keys){0};
}

void df_json_keys_cut(struct df_json_keys *k, unsigned depth)
{
    while (k->depth > depth) {
        struct df_json_names_scope *scope = &k->scopes[--k->depth];
        while (k->count > scope->first) {
            struct df_json_name *n = &k->names[--k->count];
            if (n->owned) {
                k->copied_bytes -= n->text.len;
                free(n->owned);
            }
        }
        free(scope->slots);
        scope->slots = NULL;
    }
}

void df_json_keys_open(struct df_json_keys *k, unsigned depth)
{
    df_json_keys_cut(k, depth - 1);
    if (k->depth == k->scope_cap) {
        k->scope_cap = k->scope_cap ? k->scope_cap * 2 : 16;
        k->scopes = df_realloc(k->scopes, k->scope_cap * sizeof(*k->scopes));
    }
    k->scopes[k->depth++] = (struct df_json_names_scope){.first = k->count};
}

static size_t hash(struct df_json_keys *k, struct df_str s)
{
    uint64_t h;

    _Static_assert(crypto_shorthash_BYTES == sizeof(h), "a hash is one word");
    _Static_assert(crypto_shorthash_KEYBYTES == sizeof(k->seed), "the seed is the key");
    if (!k->seeded) {
        if (getrandom(k->seed, sizeof(k->seed), 0) != sizeof(k->seed))
            abort();
        k->seeded = true;
    }
    crypto_shorthash((unsigned char *)&h, (const unsigned char *)s.ptr, s.len, k->seed);
    return (size_t)h;
}

/* Puts name `index` of the scope into its table; false: an equal one is there already. */
static bool insert(struct df_json_keys *k, struct df_json_names_scope *scope, size_t index)
{
    const struct df_json_name *names = k->names + scope->first;
    size_t mask = scope->slot_count - 1;
    size_t i = hash(k, names[index].text) & mask;

    while (scope->slots[i] != 0) {
        if (df_str_eq(names[scope->slots[i] - 1].text, names[index].text))
            return false;
        i = (i + 1) & mask;
    }
    scope->slots[i] = (uint32_t)index + 1;
    return true;
}

/* A table at least twice as large as what is in it. */
static void rehash(struct df_json_keys *k, struct df_json_names_scope *scope, size_t count)
{
    free(scope->slots);
    scope->slot_count = scope->slot_count ? scope->slot_count * 2 : (size_t)FEW * 4;
    scope->slots = df_calloc(scope->slot_count, sizeof(*scope->slots));
    for (size_t i = 0; i < count; i++)
        insert(k, scope, i);
}

static bool is_new(struct df_json_keys *k, struct df_json_names_scope *scope)
{
    size_t count = k->count - scope->first;
    const struct df_json_name *names = k->names + scope->first;

    if (count < FEW) {
        for (size_t i = 0; i < count; i++)
            if (df_str_eq(names[i].text, names[count].text))
                return false;
        return true;
    }
    if (!scope->slots || count * 2 >= scope->slot_count)
        rehash(k, scope, count);
    return insert(k, scope, count);
}

enum df_json_keys_result df_json_keys_add(struct df_json_keys *k, struct df_str text, bool escaped)
{
    struct df_json_name name = {.text = text};

    if (k->count == DF_JSON_NAMES_MAX)
        return DF_JSON_KEYS_TOO_MANY;
    if (escaped || k->depth <= k->copy_depth) {
        if (text.len > DF_JSON_NAMES_COPY_MAX - k->copied_bytes)
            return DF_JSON_KEYS_TOO_MANY;
        name.owned = df_malloc(text.len);
        if (escaped)
            name.text = df_json_unescape(text, name.owned);
        else
            name.text.ptr = memcpy(name.owned, text.ptr, text.len);
    }
    if (k->count == k->cap) {
        k->cap = k->cap ? k->cap * 2 : (size_t)FEW * 2;
        k->names = df_realloc(k->names, k->cap * sizeof(*k->names));
    }
    k->names[k->count] = name;
    if (!is_new(k, &k->scopes[k->depth - 1])) {
        free(name.owned);
        return DF_JSON_KEYS_TWICE;
    }
    if (name.owned)
        k->copied_bytes += name.text.len;
    k->count++;
    return DF_JSON_KEYS_NEW;
}
