#include "base/config_private.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdlib.h>

#define TEXT_MAX_BYTES 4096
#define SHOWN_CHARS    60

/* The macros of config.h guarantee that the offset leads to an object of the key's type. */
static void *slot_of(const struct df_config_key *k, void *settings)
{
    return (char *)settings + k->offset;
}

static const void *const_slot_of(const struct df_config_key *k, const void *settings)
{
    return (const char *)settings + k->offset;
}

/* Reads a pointer that this file owns and the room borrows: it is const there, hence the copy. */
static void *owned_pointer(const void *slot)
{
    void *ptr;
    memcpy(&ptr, slot, sizeof(ptr));
    return ptr;
}

static void set_owned(void *slot, const void *ptr)
{
    memcpy(slot, &ptr, sizeof(ptr));
}

static size_t max_len(const struct df_config_key *k)
{
    return k->type == DF_CFG_STRING && k->max > 0 ? (size_t)k->max : TEXT_MAX_BYTES;
}

static void add_choices(const struct df_config_key *k, struct df_buf *out)
{
    for (size_t i = 0; k->choices[i]; i++)
        df_buf_addf(out, "%s%s", i > 0 ? ", " : "", k->choices[i]);
}

static bool find_choice(const struct df_config_key *k, struct df_str name, size_t *ret)
{
    for (size_t i = 0; k->choices[i]; i++) {
        if (df_str_ieq(name, df_str_c(k->choices[i]))) {
            *ret = i;
            return true;
        }
    }
    return false;
}

static void add_not(struct df_str text, struct df_buf *why)
{
    struct df_str shown = df_utf8_cut(text, SHOWN_CHARS);
    df_buf_addf(why, ", not \"" DF_STR_FMT "%s\"", DF_STR_ARG(shown),
                shown.len < text.len ? "\xE2\x80\xA6" : "");
}

static int64_t unit_of(const struct df_config_key *k)
{
    return k->unit > 0 ? k->unit : 1;
}

/* The range in the written unit, limited so that the stored value does not overflow. */
static int64_t least_of(const struct df_config_key *k)
{
    int64_t least = unit_of(k) == 1 ? INT64_MIN : -(INT64_MAX / unit_of(k));
    return k->min > least ? k->min : least;
}

static int64_t most_of(const struct df_config_key *k)
{
    int64_t most = INT64_MAX / unit_of(k);
    return k->max < most ? k->max : most;
}

/* --- text to value ---------------------------------------------------------------------------- */

static bool set_int(const struct df_config_key *k, struct df_str text, int64_t *ret,
                    struct df_buf *why)
{
    int64_t v;
    bool digits = text.len > 0;

    if (df_str_to_i64(text, &v) && v >= least_of(k) && v <= most_of(k)) {
        *ret = v * unit_of(k);
        return true;
    }
    for (size_t i = text.len > 1 && text.ptr[0] == '-' ? 1 : 0; i < text.len; i++)
        digits = digits && text.ptr[i] >= '0' && text.ptr[i] <= '9';
    df_buf_addf(why, "must be %sbetween %" PRId64 " and %" PRId64, digits ? "" : "a whole number ",
                least_of(k), most_of(k));
    add_not(text, why);
    return false;
}

static bool set_int_list(const struct df_config_key *k, struct df_str text, struct df_int_list *ret,
                         struct df_buf *why)
{
    struct df_int_list list = {.count = 0};
    struct df_str rest = text.len > 0 ? text : DF_STR_NULL;

    while (rest.ptr) {
        struct df_str item;
        rest = df_str_cut(rest, ',', &item);
        if (list.count == DF_INT_LIST_MAX) {
            df_buf_addf(why, "must be at most %d numbers", DF_INT_LIST_MAX);
            return false;
        }
        if (!set_int(k, df_str_trim(item), &list.items[list.count], why))
            return false;
        list.count++;
    }
    *ret = list;
    return true;
}

static bool set_bool(struct df_str text, bool *ret, struct df_buf *why)
{
    if (df_str_to_bool(text, ret))
        return true;
    df_buf_addz(why, "must be on or off");
    add_not(text, why);
    return false;
}

static bool set_enum(const struct df_config_key *k, struct df_str text, int *ret,
                     struct df_buf *why)
{
    size_t choice;
    if (find_choice(k, text, &choice)) {
        *ret = (int)choice;
        return true;
    }
    df_buf_addz(why, "must be one of ");
    add_choices(k, why);
    add_not(text, why);
    return false;
}

static bool set_flags(const struct df_config_key *k, struct df_str text, uint32_t *ret,
                      struct df_buf *why)
{
    uint32_t flags = 0;
    struct df_str rest = text.len > 0 ? text : DF_STR_NULL;
    bool all = df_str_ieq(text, DF_STR("all"));

    for (size_t i = 0; all && k->choices[i]; i++)
        flags |= UINT32_C(1) << i;
    while (!all && rest.ptr) {
        struct df_str item;
        size_t choice;
        rest = df_str_cut(rest, ',', &item);
        item = df_str_trim(item);
        if (!find_choice(k, item, &choice)) {
            df_buf_addz(why, "must be all, or some of ");
            add_choices(k, why);
            add_not(item, why);
            return false;
        }
        flags |= UINT32_C(1) << choice;
    }
    *ret = flags;
    return true;
}

void df_config_value_set_secret(const struct df_config_key *k, void *settings, struct df_str text)
{
    void *slot = slot_of(k, settings);

    df_secret_free(owned_pointer(slot));
    set_owned(slot, df_secret_new(text));
}

static bool set_string(const struct df_config_key *k, struct df_str text, void *slot)
{
    free(owned_pointer(slot));
    set_owned(slot, k->empty_is_none && text.len == 0 ? NULL : df_strdup(text));
    return true;
}

bool df_config_value_set(const struct df_config_key *k, void *settings, struct df_str text,
                         struct df_buf *why)
{
    void *slot = slot_of(k, settings);
    bool verbatim = k->type == DF_CFG_STRING || k->type == DF_CFG_SECRET || k->type == DF_CFG_URL;
    struct df_str trimmed = verbatim ? text : df_str_trim(text);

    if (text.len > max_len(k)) {
        df_buf_addf(why, "must be at most %zu bytes long", max_len(k));
        return false;
    }
    switch (k->type) {
    case DF_CFG_STRING:
    case DF_CFG_URL:
        return set_string(k, trimmed, slot);
    case DF_CFG_SECRET:
        if (trimmed.len == 0)
            df_buf_addz(why, "must not be empty");
        else
            df_config_value_set_secret(k, settings, trimmed);
        return trimmed.len > 0;
    case DF_CFG_INT:
        return set_int(k, trimmed, slot, why);
    case DF_CFG_BOOL:
        return set_bool(trimmed, slot, why);
    case DF_CFG_ENUM:
        return set_enum(k, trimmed, slot, why);
    case DF_CFG_FLAGS:
        return set_flags(k, trimmed, slot, why);
    case DF_CFG_INT_LIST:
        return set_int_list(k, trimmed, slot, why);
    }
    return false;
}

bool df_config_value_default(const struct df_config_key *k, void *settings, struct df_buf *why)
{
    if (k->def)
        return df_config_value_set(k, settings, df_str_c(k->def), why);
    if (k->type == DF_CFG_INT) {
        int64_t *number = slot_of(k, settings);
        *number = DF_CFG_INT_UNSET;
    }
    return true;
}

void df_config_value_release(const struct df_config_key *k, void *settings)
{
    void *slot = slot_of(k, settings);
    bool is_text = k->type == DF_CFG_STRING || k->type == DF_CFG_URL;

    if (is_text)
        free(owned_pointer(slot));
    else if (k->type == DF_CFG_SECRET)
        df_secret_free(owned_pointer(slot));
    if (is_text || k->type == DF_CFG_SECRET)
        set_owned(slot, NULL);
}

void df_config_inherit(const struct df_config_key *keys, void *settings, const void *from)
{
    for (const struct df_config_key *k = keys; k->key; k++) {
        int64_t *number = slot_of(k, settings);
        if (k->type == DF_CFG_INT && *number == DF_CFG_INT_UNSET)
            *number = *(const int64_t *)const_slot_of(k, from);
    }
}

/* --- value to text ---------------------------------------------------------------------------- */

static void print_flags(const struct df_config_key *k, uint32_t flags, struct df_buf *out)
{
    const char *before = "";
    for (size_t i = 0; k->choices[i]; i++) {
        if (flags & UINT32_C(1) << i) {
            df_buf_addf(out, "%s%s", before, k->choices[i]);
            before = ",";
        }
    }
}

static void print_int_list(const struct df_config_key *k, const struct df_int_list *list,
                           struct df_buf *out)
{
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0)
            df_buf_addc(out, ',');
        df_buf_add_i64(out, list->items[i] / unit_of(k));
    }
}

static bool print_int(const struct df_config_key *k, int64_t v, struct df_buf *out)
{
    if (!k->def && v == DF_CFG_INT_UNSET)
        return false;
    df_buf_add_i64(out, v / unit_of(k));
    return true;
}

static bool print_text(const char *text, struct df_buf *out)
{
    if (text)
        df_buf_addz(out, text);
    return text;
}

/* scheme://user:***@host. The last @ counts, since a password may hold an unescaped one. */
static bool print_url(const char *url, struct df_buf *out)
{
    const char *authority = url ? strstr(url, "://") : NULL;
    const char *at = authority ? strrchr(authority, '@') : NULL;
    const char *colon = at ? strchr(authority + 3, ':') : NULL;
    if (!colon || colon > at)
        return print_text(url, out);
    df_buf_add(out, url, (size_t)(colon - url));
    df_buf_addz(out, ":***");
    df_buf_addz(out, at);
    return true;
}

bool df_config_value_by_file(const struct df_config_key *k)
{
    return k->type == DF_CFG_SECRET || k->type == DF_CFG_URL;
}

bool df_config_value_print(const struct df_config_key *k, const void *settings, struct df_buf *out)
{
    const void *slot = const_slot_of(k, settings);

    switch (k->type) {
    case DF_CFG_STRING:
        return print_text(owned_pointer(slot), out);
    case DF_CFG_URL:
        return print_url(owned_pointer(slot), out);
    case DF_CFG_SECRET:
        return print_text(owned_pointer(slot) ? "(set)" : NULL, out);
    case DF_CFG_INT:
        return print_int(k, *(const int64_t *)slot, out);
    case DF_CFG_BOOL:
        return print_text(*(const bool *)slot ? "on" : "off", out);
    case DF_CFG_ENUM:
        return print_text(k->choices[*(const int *)slot], out);
    case DF_CFG_FLAGS:
        print_flags(k, *(const uint32_t *)slot, out);
        return true;
    case DF_CFG_INT_LIST:
        print_int_list(k, slot, out);
        return true;
    }
    return false;
}

void df_config_value_describe(const struct df_config_key *k, struct df_buf *out)
{
    switch (k->type) {
    case DF_CFG_STRING:
        df_buf_addz(out, "text");
        if (k->max > 0)
            df_buf_addf(out, ", at most %" PRId64 " bytes", k->max);
        break;
    case DF_CFG_URL:
        df_buf_addf(out, "URL, or `%s_file`", k->key);
        break;
    case DF_CFG_SECRET:
        df_buf_addf(out, "secret, or `%s_file`", k->key);
        break;
    case DF_CFG_INT:
        df_buf_addf(out, "whole number, %" PRId64 " to %" PRId64, least_of(k), most_of(k));
        break;
    case DF_CFG_BOOL:
        df_buf_addz(out, "on or off");
        break;
    case DF_CFG_ENUM:
        df_buf_addz(out, "one of ");
        add_choices(k, out);
        break;
    case DF_CFG_FLAGS:
        df_buf_addz(out, "all, or some of ");
        add_choices(k, out);
        break;
    case DF_CFG_INT_LIST:
        df_buf_addf(out, "up to %d whole numbers, %" PRId64 " to %" PRId64 ", with commas",
                    DF_INT_LIST_MAX, least_of(k), most_of(k));
        break;
    }
}

/* --- elements of a group ---------------------------------------------------------------------- */

size_t df_config_item_count(const struct df_config_group_at *g, const void *settings)
{
    const size_t *count = (const void *)((const char *)settings + g->count_offset);
    return *count;
}

static char *items_of(const struct df_config_group_at *g, const void *settings)
{
    return owned_pointer((const char *)settings + g->items_offset);
}

static void set_items(const struct df_config_group_at *g, void *settings, char *items, size_t count)
{
    size_t *slot = (void *)((char *)settings + g->count_offset);
    *slot = count;
    set_owned((char *)settings + g->items_offset, items);
}

void *df_config_item(const struct df_config_group_at *g, const void *settings, size_t number)
{
    return items_of(g, settings) + number * g->group->size;
}

const char *df_config_item_name(const struct df_config_group *g, const void *item)
{
    return owned_pointer((const char *)item + g->name_offset);
}

void *df_config_item_add(const struct df_config_group_at *g, void *settings, struct df_str name)
{
    size_t count = df_config_item_count(g, settings);
    char *items =
        count > 0 ? items_of(g, settings) : df_calloc(DF_CFG_SECTIONS_MAX, g->group->size);

    set_items(g, settings, items, count + 1);
    char *item = items + count * g->group->size;
    set_owned(item + g->group->name_offset, df_strdup(name));
    return item;
}

void df_config_items_release(const struct df_config_group_at *g, void *settings)
{
    for (size_t i = 0; i < df_config_item_count(g, settings); i++) {
        char *item = df_config_item(g, settings, i);
        for (const struct df_config_key *k = g->group->keys; k->key; k++)
            df_config_value_release(k, item);
        free(owned_pointer(item + g->group->name_offset));
    }
    free(items_of(g, settings));
    set_items(g, settings, NULL, 0);
}
