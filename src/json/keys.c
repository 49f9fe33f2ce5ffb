#include "json/keys.h"

#include "base/mem.h"
#include "json/scan.h"

#include <stdlib.h>

#define FEW 16 /* up to this many names are compared one by one */

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
        df_map_release(&scope->table);
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
    for (size_t i = scope->table.count; i < count; i++)
        df_map_add(&scope->table, names[i].text, k);
    return !df_map_try_add(&scope->table, names[count].text, k);
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
