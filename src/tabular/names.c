#include "tabular/names.h"

#include "base/escape.h"
#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

/* A file with more names than this does not repeat them; the cache starts again. */
#define NAMES_MAX 8192
#define BYTES_MAX ((size_t)2 << 20)

static void forget_names(struct df_names *n)
{
    struct df_name *name;

    for (size_t at = 0; (name = df_map_next(&n->by_text, &at));)
        free(name);
    df_map_release(&n->by_text);
    for (size_t i = 0; i < n->place_cap; i++)
        n->places[i] = NULL;
    n->size_bytes = 0;
}

void df_names_release(struct df_names *n)
{
    forget_names(n);
    free(n->places);
    *n = (struct df_names){.mapping = n->mapping};
}

void df_names_begin(struct df_names *n, size_t field_count)
{
    if (n->by_text.count > NAMES_MAX || n->size_bytes > BYTES_MAX)
        forget_names(n);
    if (field_count > n->place_cap) {
        size_t cap = field_count < 32 ? 32 : field_count * 2;
        n->places = df_realloc(n->places, cap * sizeof(void *));
        while (n->place_cap < cap)
            n->places[n->place_cap++] = NULL;
    }
}

/* The length of the blank at p, or 0. Blanks are ASCII controls and space, the no-break space,
 * U+2000 to U+200B, U+202F, U+3000 and U+FEFF. */
static size_t blank_at(const unsigned char *p, size_t len)
{
    if (p[0] <= ' ')
        return 1;
    if (len >= 2 && p[0] == 0xC2 && p[1] == 0xA0)
        return 2;
    if (len < 3)
        return 0;
    if (p[0] == 0xE2 && p[1] == 0x80 && ((p[2] >= 0x80 && p[2] <= 0x8B) || p[2] == 0xAF))
        return 3;
    if (p[0] == 0xE3 && p[1] == 0x80 && p[2] == 0x80)
        return 3;
    return p[0] == 0xEF && p[1] == 0xBB && p[2] == 0xBF ? 3 : 0;
}

struct df_str df_names_trim(struct df_str s)
{
    const unsigned char *p = (const unsigned char *)s.ptr;
    size_t len = s.len, blank;

    while (len > 0 && (blank = blank_at(p, len)) > 0) {
        p += blank;
        len -= blank;
    }
    while (len > 0) {
        const unsigned char *last = p + len - 1;
        if (*last > ' ' && *last < 0x80)
            break;
        while (last > p && (*last & 0xC0) == 0x80)
            last--;
        size_t size = (size_t)(p + len - last);
        if (blank_at(last, size) != size)
            break;
        len -= size;
    }
    return df_str_n((const char *)p, len);
}

static size_t add_key(struct df_buf *b, struct df_str name)
{
    size_t before = b->len;

    df_buf_addc(b, '"');
    df_buf_add_escaped(b, name);
    df_buf_addz(b, "\":");
    return b->len - before;
}

static struct df_name *name_new(const struct df_mapping *mapping, struct df_str text)
{
    struct df_str own = df_names_trim(text);
    struct df_buf keys;
    bool exact;
    enum df_header header = df_header_find(own, &exact);
    const struct df_mapping_entry *mapped = df_mapping_find(mapping, own);

    if (mapped) {
        header = mapped->header;
        exact = header != DF_HEADER_OTHER;
    }
    df_buf_init(&keys, SIZE_MAX);
    size_t key_len = add_key(&keys, own);
    if (header >= DF_HEADER_LEAD)
        add_key(&keys, df_str_c(df_header_name(header)));
    struct df_name *name = df_calloc(1, sizeof(*name) + text.len + keys.len);
    if (text.len > 0)
        memcpy(name->bytes, text.ptr, text.len);
    memcpy(name->bytes + text.len, keys.ptr, keys.len);
    name->text = df_str_n(name->bytes, text.len);
    name->own = df_names_trim(name->text);
    name->key = df_str_n(name->bytes + text.len, key_len);
    name->canonical = df_str_n(name->key.ptr + key_len, keys.len - key_len);
    name->header = header;
    name->exact = exact;
    name->mapped = mapped != NULL;
    name->altered = own.len < text.len || own.len == 0;
    df_buf_release(&keys);
    return name;
}

/* memcmp for short names: compares two overlapping words instead of calling. */
static inline bool same_bytes(const char *a, const char *b, size_t len)
{
    uint64_t a64[2], b64[2];
    uint32_t a32[2], b32[2];

    if (len > 16)
        return memcmp(a, b, len) == 0;
    if (len >= 8) {
        memcpy(&a64[0], a, 8);
        memcpy(&a64[1], a + len - 8, 8);
        memcpy(&b64[0], b, 8);
        memcpy(&b64[1], b + len - 8, 8);
        return ((a64[0] ^ b64[0]) | (a64[1] ^ b64[1])) == 0;
    }
    if (len >= 4) {
        memcpy(&a32[0], a, 4);
        memcpy(&a32[1], a + len - 4, 4);
        memcpy(&b32[0], b, 4);
        memcpy(&b32[1], b + len - 4, 4);
        return ((a32[0] ^ b32[0]) | (a32[1] ^ b32[1])) == 0;
    }
    return len == 0 || (a[0] == b[0] && a[len / 2] == b[len / 2] && a[len - 1] == b[len - 1]);
}

static const struct df_name *find_or_add_name(struct df_names *n, struct df_str text)
{
    struct df_name *name = df_map_get(&n->by_text, text);

    if (name)
        return name;
    name = name_new(n->mapping, text);
    df_map_add(&n->by_text, name->text, name);
    n->size_bytes += sizeof(*name) + name->text.len + name->key.len + name->canonical.len;
    return name;
}

const struct df_name *df_names_find(struct df_names *n, size_t place, struct df_str text)
{
    assert(place < n->place_cap);
    const struct df_name *name = n->places[place];

    if (!name || name->text.len != text.len || !same_bytes(name->text.ptr, text.ptr, text.len))
        n->places[place] = name = find_or_add_name(n, text);
    return name;
}
